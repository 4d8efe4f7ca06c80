"""Many trials at once: shards of trials over an executor, and what comes back of them gathered.

`simulate` cuts the trials into shards; the engine plays a shard with every policy, so that all
policies meet the same luck, and hands back exact sums of the regrets at the checkpoints.
No result depends on the number of threads, the size of the shards or the order in which
they end.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.errors import InvalidInput, choice, shown, whole_number
from heterobandits.interrupts import held_back, remembered
from heterobandits.limits import MOST_ADDRESS
from heterobandits.machine import available_threads
from heterobandits.model.problem import Problem, checked_problem
from heterobandits.policies.policy import Policy, checked_policies
from heterobandits.provenance import versions
from heterobandits.simulation import engine
from heterobandits.simulation.arguments import (
    check_memory,
    checkpoint_count,
    checkpoint_rounds,
    horizon_from,
    trial_range,
)
from heterobandits.simulation.engine import MOST_LANES, Control, Shard, ShardSums
from heterobandits.simulation.results import Integers, Results, joined_spans

Floats = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]

ROUNDS_A_SHARD = 2**20  # long enough that a thread seldom waits for the interpreter
SHARES = 4  # in how many shards of many blocks a thread plays its even share of what is left
FEW_LANES = 64  # fewer than this side by side are played much more slowly
IN_FLIGHT = 2  # shards handed out for each thread: the next is there when one ends
MOST_REGRETS = 2**21  # of a shard in memory, 16 MB
WATCH_SECONDS = 0.1


class ShardTotals(NamedTuple):
    """What the shards played so far add up to."""

    spans: tuple[tuple[int, int], ...]
    sums: Integers
    products: Integers
    seconds: Floats

    def plus(self, played: ShardSums) -> "ShardTotals":
        """The same with one more shard."""
        return ShardTotals(
            joined_spans((*self.spans, played.span)),
            self.sums + played.sums,
            self.products + played.products,
            self.seconds + played.seconds,
        )


@dataclass
class Gathering:
    """The totals, and the regrets of single trials where these are kept, as shards come in.

    An interrupt may strike at any point: a shard counts from the one assignment that replaces the totals.
    """

    totals: ShardTotals
    kept: Floats | None
    first: int

    def add(self, played: ShardSums) -> None:
        """Count a shard."""
        if self.kept is not None:
            start, stop = (trial - self.first for trial in played.span)
            self.kept[:, :, start:stop] = played.kept
        self.totals = self.totals.plus(played)


def most_trials(policies: int, checkpoints: int, horizon: int, lanes: int) -> int:
    """How many trials a shard may have: whole blocks of so many lanes, as many as time and memory allow."""
    blocks = min(
        ROUNDS_A_SHARD // (horizon * MOST_LANES),
        MOST_REGRETS // (policies * checkpoints * lanes),
    )
    return lanes * max(1, blocks)


def shards(whole: Shard, most: int, threads: int) -> Iterator[Shard]:
    """The shard cut into smaller ones, so that the threads that play them end at about the same time.

    The next one has whole blocks while much is left, and then an even share of what is left, but no fewer
    than FEW_LANES trials. A thread alone waits for nobody.
    """
    first, last = whole.trials.start, whole.trials.stop
    while first < last:
        share = -(-(last - first) // threads)
        blocks = share // (SHARES * whole.lanes if threads > 1 else whole.lanes)
        size = min(most, max(blocks * whole.lanes, min(share, whole.lanes), FEW_LANES))
        size = min(size, last - first, -(-len(whole.trials) // threads))
        yield replace(whole, trials=range(first, first + size))
        first += size


def run_shards(
    pieces: Iterator[Shard],
    executor: Executor,
    at_once: int,
    take: Callable[[ShardSums], None],
    progress: Callable[[int], None],
    strike: Callable[[], None] = lambda: None,
) -> None:
    """Play shards on an executor, so many at once, and hand over what comes of each.

    `progress` is told the trial-rounds played now and then, and `strike` may end it all. Whatever goes wrong, or an
    interrupt, stops the shards that are being played; those that are finished by then are still handed over.
    """
    local = isinstance(
        executor, ThreadPoolExecutor
    )  # elsewhere a control is a copy nobody looks at
    waiting: dict[Future[ShardSums | None], tuple[Control, Shard]] = {}
    finished = 0
    control = engine.new_control()  # the last one handed out
    try:
        while True:
            while len(waiting) < at_once and (shard := next(pieces, None)) is not None:
                strike()
                control = engine.new_control()
                waiting[executor.submit(engine.play, shard, control)] = (control, shard)
            if not waiting:
                return
            for future in wait(waiting, WATCH_SECONDS, FIRST_COMPLETED).done:
                _, shard = waiting.pop(future)
                played = future.result()
                if played is not None:
                    take(played)
                finished += shard.trial_rounds
            # a last block may play lanes that nobody asked for
            playing = (min(engine.done(c), shard.trial_rounds) for c, shard in waiting.values())
            progress(finished + sum(playing))
            strike()
    finally:
        engine.stop(control)  # its shard may be there already when an interrupt strikes in `submit`
        for control, _ in waiting.values():
            engine.stop(control)
        for future in waiting:
            future.cancel()
        if local:
            wait(waiting)
        for future in waiting:
            if future.done() and not future.cancelled() and future.exception() is None:
                played = future.result()
                if played is not None:
                    take(played)


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
    executor: Executor | None = None,
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
        How many threads; all cores this process may use by default. With an executor of your own, how
        many shards it plays at a time.
    block
        How many trials a thread plays side by side; chosen to fit the cache by default.
    executor
        What plays the shards, instead of threads of this run's own: any `concurrent.futures.Executor`.
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
    checked_problem(problem)
    entries = checked_policies(policies)
    horizon = horizon_from(horizon, problem)
    numbers = trial_range(trials)
    seed = whole_number(seed, "seed", 0, MOST_ADDRESS)
    count = checkpoint_count(checkpoints, horizon)
    choice(keep, "keep", ("moments", "final", "all"))
    if progress is not None and not callable(progress):
        raise InvalidInput(
            f"progress is {shown(progress)}: a function of trial-rounds done and in all"
        )
    if executor is not None and not isinstance(executor, Executor):
        raise InvalidInput(f"executor is {shown(executor)}: a concurrent.futures.Executor")
    threads = available_threads() if threads is None else whole_number(threads, "threads", 1, 1024)
    worlds = engine.worlds(problem, [entry.until(horizon) for entry in entries], horizon)
    widest = max(world.lanes for world in worlds)
    lanes = widest if block is None else whole_number(block, "block", 1, MOST_LANES)
    most = most_trials(len(worlds), max(1, count), horizon, lanes)
    kept_count = {"moments": 0, "final": 1, "all": count}[keep]
    playing = min(threads * most, len(numbers))
    check_memory(len(worlds), count, kept_count, len(numbers), playing)
    rounds = checkpoint_rounds(checkpoints, horizon)
    engine.compile_kernels(entries)
    with remembered():
        for world in worlds:
            world.make_arrays()  # here, where an interrupt strikes at once

    kept_rounds = {"moments": (), "final": rounds[-1:], "all": rounds}[keep]
    whole = Shard(worlds, rounds, seed, numbers, len(kept_rounds), lanes)
    P, K = len(entries), len(rounds)
    gathering = Gathering(
        ShardTotals((), np.zeros((P, K), object), np.zeros((P, P, K), object), np.zeros(P)),
        np.empty((P, len(kept_rounds), len(numbers))) if kept_rounds else None,
        numbers.start,
    )
    in_all = len(numbers) * horizon * P

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, in_all)

    pool = ThreadPoolExecutor(threads) if executor is None else executor
    pieces = shards(whole, most, threads)
    try:
        with held_back() as strike:
            try:
                run_shards(pieces, pool, IN_FLIGHT * threads, gathering.add, tell, strike)
            finally:
                if executor is None:
                    pool.shutdown()
    except KeyboardInterrupt:
        if not gathering.totals.spans:
            raise

    totals, kept = gathering.totals, gathering.kept
    incomplete = sum(last - first for first, last in totals.spans) < len(numbers)
    if incomplete and kept is not None:
        first = numbers.start
        kept = np.concatenate([kept[..., a - first : b - first] for a, b in totals.spans], axis=-1)
    return Results(
        problem=problem,
        policies=tuple(entry.label for entry in entries),
        parameters=tuple(entry.parameters for entry in entries),
        horizon=horizon,
        seed=seed,
        rounds=rounds,
        spans=totals.spans,
        sums=totals.sums,
        products=totals.products,
        seconds=tuple((totals.seconds / threads).tolist()),
        partial=incomplete,
        versions=versions(),
        kept_rounds=kept_rounds,
        kept=kept,
    )
