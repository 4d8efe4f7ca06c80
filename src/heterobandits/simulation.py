"""Many trials at once: blocks of trials in lanes, threads over blocks, regret gathered as it comes.

`simulate` cuts the trials into blocks; a thread plays a block for every policy, so that all
policies meet the same luck, and hands back exact sums of the regrets at the checkpoints.
No result depends on the number of threads, the size of the blocks or the order in which
they end.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from heterobandits.core.randomness import WORD_SIZE
from heterobandits.core.rounds import (
    fill_regrets,
    play_assignment_rounds,
    play_round,
    play_rounds,
)
from heterobandits.errors import (
    MOST,
    MOST_ADDRESS,
    InvalidInput,
    choice,
    listed,
    shown,
    whole_number,
)
from heterobandits.policies import Policy, assignments, chosen
from heterobandits.problem import Problem, stated
from heterobandits.provenance import versions
from heterobandits.results import Integers, Results, binary_places, joined_spans, tally
from heterobandits.team import pick_order

Floats = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]

BLOCK_BYTES = 2**19  # a block's tables should stay in a core's own cache
MOST_LANES = 512
STEP_SECONDS = 0.05  # an interrupt waits for the step that is being played
MOST_ROUNDS_A_STEP = 2**16


@dataclass(frozen=True)
class World:
    """A problem as the kernels see it for one policy: contiguous arrays, agents in picking order."""

    policy: Policy
    order: npt.NDArray[np.intp]
    s: Floats
    mu: Floats
    limit: npt.NDArray[np.int64]
    gap: Floats
    arms: npt.NDArray[np.int32]  # of every assignment, for a policy that ranks those

    @classmethod
    def of(cls, problem: Problem, policy: Policy) -> "World":
        """The arrays for this problem and policy; refuses a policy the problem is too large for."""
        policy.check_size(problem.agents, problem.arms)
        believed = problem.sensitivities if policy.needs_means else problem.believed
        order = pick_order(believed)
        true = np.array(problem.sensitivities)[order]
        mu = np.array(problem.means)
        best = mu[np.array(problem.optimum)[order]]
        per_assignment = policy.index_per == "assignment"
        return cls(
            policy=policy,
            order=order,
            s=np.array(believed)[order],
            mu=mu,
            limit=np.ceil(true[:, None] * mu / WORD_SIZE).astype(np.int64) - 1,
            gap=true[:, None] * (best[:, None] - mu),
            arms=assignments(*true.shape, *mu.shape)
            if per_assignment
            else np.empty((1, 0), np.int32),
        )

    @property
    def cells(self) -> int:
        """The number of cells of one of the tables the policy ranks by."""
        return max(len(self.s) * len(self.mu), len(self.arms))

    @property
    def lanes(self) -> int:
        """How many trials side by side keep their tables in the cache, in whole vectors."""
        return max(16, min(MOST_LANES, BLOCK_BYTES // (16 * self.cells) // 16 * 16))


class Block:
    """The learning of one policy in neighbouring trials: the two tables, and the rounds behind them."""

    def __init__(self, world: World, seed: int, trial: int, lanes: int) -> None:
        self.world = world
        self.seed = np.uint64(seed)
        self.trial = np.uint64(trial)
        self.elapsed = 0
        self.step = 8  # rounds to play in one go; adapts to how long they take
        self.pulls = np.zeros((len(world.s), len(world.mu), lanes), np.int32)
        self.successes = np.zeros_like(self.pulls)
        if world.policy.index_per == "assignment":
            self.assignment_pulls = np.zeros((len(world.arms), lanes), np.int32)
            self.assignment_successes = np.zeros_like(self.assignment_pulls)

    def advance(self, rounds: int) -> None:
        """Play this many more rounds."""
        world, policy = self.world, self.world.policy
        where = (self.seed, self.trial, self.elapsed + 1)
        tables = (self.pulls, self.successes)
        if policy.index is not None:
            for elapsed in range(self.elapsed, self.elapsed + rounds):
                index = policy.own_rows(world.s, *tables, world.order, elapsed)
                where = (self.seed, self.trial, elapsed + 1)
                play_round(index, policy.dealt, *where, world.limit, *tables)
        elif policy.index_per == "assignment":
            L = policy.log_terms(world.s, len(world.mu), self.elapsed, rounds)
            totals = (self.assignment_pulls, self.assignment_successes)
            play_assignment_rounds(world.arms, *where, L, world.limit, *totals, *tables)
        else:
            L = policy.log_terms(world.s, len(world.mu), self.elapsed, rounds)
            how = (policy.rule, policy.rows(len(world.s)), policy.dealt)
            play_rounds(*how, *where, L, world.s, world.mu, world.limit, *tables)
        self.elapsed += rounds

    def advance_to(self, round_: int) -> Iterator[int]:
        """Play up to this round, in steps of some hundredths of a second; yields the length of each."""
        while self.elapsed < round_:
            step = min(self.step, round_ - self.elapsed)
            begin = time.perf_counter()
            self.advance(step)
            took = time.perf_counter() - begin
            if took > STEP_SECONDS:
                self.step = max(1, step // 2)
            elif step == self.step and took < STEP_SECONDS / 3:
                self.step = min(2 * step, MOST_ROUNDS_A_STEP)
            yield step

    def regrets(self) -> Floats:
        """The regret of every trial so far."""
        out = np.empty(self.pulls.shape[-1])
        fill_regrets(self.world.gap, self.pulls, out)
        return out


def compile_kernels() -> float:
    """Compile the kernels, or load them from this machine's cache; the seconds it took."""
    start = time.perf_counter()
    problem = Problem([0.5, 0.25], [0.5])
    for entry in (
        *chosen(["min-width", "ucb"]),
        Policy("own", index=lambda c, y, s, t: c[0] * 0.0),
    ):
        block = Block(World.of(problem, entry), 0, 0, 1)
        block.advance(1)
        block.regrets()
    return time.perf_counter() - start


def kernels_cached() -> bool:
    """Whether this machine has compiled kernels for these sources, so that none will be compiled."""
    stats = play_rounds.stats
    return bool(play_rounds.signatures) or bool(stats.cache_hits) or _index_on_disk()


def _index_on_disk() -> bool:
    index = getattr(play_rounds._cache, "_cache_file", None)
    try:
        return index is not None and bool(index._load_index())
    except Exception:  # unreadable means not there
        return False


def checkpoint_rounds(checkpoints: int | Iterable[int], horizon: int) -> tuple[int, ...]:
    """Rounds at which regret is noted: that many, evenly spaced, or those given; the horizon is always last."""
    if isinstance(checkpoints, Iterable):
        given = [
            whole_number(value, f"checkpoints[{i}]", 1, horizon)
            for i, value in enumerate(listed(checkpoints, "checkpoints", "rounds"))
        ]
        return tuple(sorted({*given, horizon}))
    count = whole_number(checkpoints, "checkpoints", 1)
    count = min(count, horizon)
    return tuple(-(-horizon * (i + 1) // count) for i in range(count))


def trial_range(trials: int | range) -> range:
    """The trials of a run: that many from 0 on, or a shard given as a range."""
    if isinstance(trials, range):
        inside = 0 <= trials.start < trials.stop <= MOST_ADDRESS // 2
        if not inside or trials.step != 1:
            raise InvalidInput(
                f"trials is {shown(trials)}: a range of consecutive trials from 0 on"
            )
        return trials
    return range(whole_number(trials, "trials", 1, MOST_ADDRESS // 2))


def available_threads() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Totals:
    """What the complete blocks add up to. Only the threads that play write it, each under the
    lock, so that an interrupt, which strikes the calling thread, never finds it half written."""

    def __init__(self, policies: int, checkpoints: int, blocks: int) -> None:
        self.waiting = iter(range(blocks))
        self.done = [0] * blocks  # trial-rounds played in each block
        self.failures: list[BaseException] = []
        self.spans: list[tuple[int, int]] = []
        self.sums: Integers = np.zeros((policies, checkpoints), object)
        self.products: Integers = np.zeros((policies, policies, checkpoints), object)
        self.seconds = np.zeros(policies)
        self.lock = threading.Lock()

    def next_block(self) -> int | None:
        """The number of a block that nobody has played yet; None if there is none."""
        with self.lock:
            return next(self.waiting, None)

    def add(
        self, span: tuple[int, int], sums: Integers, products: Integers, seconds: Floats
    ) -> None:
        """Count a block whose trials have been played to the horizon by every policy."""
        with self.lock:
            self.spans.append(span)
            self.sums = self.sums + sums
            self.products = self.products + products
            self.seconds = self.seconds + seconds


def simulate(
    problem: Problem,
    policies: str | Policy | Sequence[str | Policy],
    horizon: int,
    trials: int | range,
    seed: int = 0,
    *,
    checkpoints: int | Iterable[int] = 30,
    keep: Literal["moments", "final", "all"] = "moments",
    threads: int | None = None,
    block: int | None = None,
    progress: Progress | None = None,
) -> Results:
    """Play every policy on the same luck and measure its regret.

    Parameters
    ----------
    problem
        What is true and what the planner believes.
    policies
        Names of the catalogue, or policies made with `policy(...)` or `Policy(...)`.
    horizon
        Rounds in a trial.
    trials
        How many trials, or a range of them: `range(500, 1000)` is the second half of a
        thousand, and merging both halves gives the same bits as one run.
    seed
        With trial, round and arm it determines all luck.
    checkpoints
        How many evenly spaced rounds to note the regret at, or which.
    keep
        Beside the moments: nothing, each trial's regret at the horizon, or at all checkpoints
        (8 bytes for each trial, policy and checkpoint; needed for quantiles).
    threads
        How many threads; all cores this process may use by default.
    block
        How many trials a thread plays side by side; chosen to fit the cache by default.
    progress
        Called now and then in the calling thread with the trial-rounds done and in all.

    Returns
    -------
    Results
        On Ctrl-C what is complete by then, marked as partial; if nothing is, the
        KeyboardInterrupt goes on.

    Examples
    --------
    >>> problem = Problem([0.1, 0.5], [0.1, 0.9])
    >>> results = simulate(problem, ["min-width", "oracle"], horizon=100, trials=50, seed=1)
    >>> float(results.mean("oracle")[-1])
    0.0
    >>> bool(results.mean("min-width")[-1] > 0)
    True
    """
    stated(problem)
    entries = chosen(policies)
    horizon = whole_number(horizon, "horizon", 1, MOST // problem.agents)
    numbers = trial_range(trials)
    seed = whole_number(seed, "seed", 0, MOST_ADDRESS)
    rounds = checkpoint_rounds(checkpoints, horizon)
    choice(keep, "keep", ("moments", "final", "all"))
    if progress is not None and not callable(progress):
        raise InvalidInput(
            f"progress is {shown(progress)}: a function of trial-rounds done and in all"
        )
    threads = available_threads() if threads is None else whole_number(threads, "threads", 1, 1024)
    worlds = [World.of(problem, entry) for entry in entries]
    if block is None:
        lanes = min(max(world.lanes for world in worlds), -(-len(numbers) // threads))
    else:
        lanes = whole_number(block, "block", 1, MOST_LANES)
    compile_kernels()

    kept_rounds = {"moments": (), "final": rounds[-1:], "all": rounds}[keep]
    kept = np.empty((len(entries), len(kept_rounds), len(numbers)))
    starts = range(0, len(numbers), lanes)
    workers = min(threads, len(starts))
    totals = Totals(len(entries), len(rounds), len(starts))
    stop = threading.Event()

    def play(block: int) -> None:
        start = starts[block]
        width = min(lanes, len(numbers) - start)
        regrets = np.empty((len(entries), len(rounds), width))
        seconds = np.empty(len(entries))
        for p, world in enumerate(worlds):
            begin = time.perf_counter()
            for lane in range(0, width, world.lanes):
                side = min(world.lanes, width - lane)
                learning = Block(world, seed, numbers[start + lane], side)
                for k, checkpoint in enumerate(rounds):
                    for step in learning.advance_to(checkpoint):
                        totals.done[block] += step * side
                        if stop.is_set():
                            return
                    regrets[p, k, lane : lane + side] = learning.regrets()
            seconds[p] = (time.perf_counter() - begin) / workers
        if kept_rounds:
            kept[:, :, start : start + width] = regrets[:, len(rounds) - len(kept_rounds) :]
        sums, products = tally(regrets, binary_places(horizon, problem.agents))
        totals.add((numbers[start], numbers[start] + width), sums, products, seconds)

    def work() -> None:
        try:
            while not stop.is_set() and (block := totals.next_block()) is not None:
                play(block)
        except BaseException as error:
            totals.failures.append(error)
            stop.set()

    crew = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in crew:
        thread.start()
    try:
        for thread in crew:
            while thread.is_alive():
                thread.join(0.1)
                if progress is not None:
                    progress(sum(totals.done), len(numbers) * horizon * len(entries))
    except BaseException as error:
        stop.set()
        for thread in crew:
            thread.join()
        if not isinstance(error, KeyboardInterrupt) or not totals.spans:
            raise
    if totals.failures:
        raise totals.failures[0]

    spans = joined_spans(totals.spans)
    incomplete = sum(last - first for first, last in spans) < len(numbers)
    if incomplete:
        kept = np.concatenate(
            [kept[..., a - numbers[0] : b - numbers[0]] for a, b in spans], axis=-1
        )
    return Results(
        problem=problem,
        policies=tuple(entry.label for entry in entries),
        parameters=tuple(entry.parameters for entry in entries),
        horizon=horizon,
        seed=seed,
        rounds=rounds,
        spans=spans,
        sums=totals.sums,
        products=totals.products,
        seconds=tuple(totals.seconds.tolist()),
        partial=incomplete,
        versions=versions(),
        kept_rounds=kept_rounds,
        kept=kept if kept_rounds else None,
    )
