"""Many trials at once: shards of trials played in the pool, and what comes of them added up.

The engine plays a shard with every policy, so that all policies meet the same luck, and hands back exact sums of the
regrets at the checkpoints. No result depends on the number of threads, the size of the shards or the order in which
they end.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Literal

from heterobandits.errors import InvalidInput, parse_choice, parse_integer, repr_of
from heterobandits.limits import ADDRESS_MAX
from heterobandits.machine import count_cores
from heterobandits.model.problem import Problem, parse_problem
from heterobandits.policies.policy import Policy, parse_policies
from heterobandits.simulation import engine
from heterobandits.simulation.arguments import (
    check_memory,
    estimate_checkpoint_count,
    parse_checkpoints,
    parse_horizon,
    parse_trial_range,
)
from heterobandits.simulation.engine import BLOCK_MAX_LANES, Shard
from heterobandits.simulation.pool.pieces import (
    Point,
    RunTotals,
    ShardPiece,
    cut_shard,
    shard_max_trials,
)
from heterobandits.simulation.pool.runner import FixedJob, Progress, Runner
from heterobandits.simulation.pool.threads import Threads
from heterobandits.simulation.results import UNDER_WAY_CHOICES, Results


def simulate(
    problem: Problem,
    policies: str | Policy | Sequence[str | Policy],
    horizon: int,
    trials: int | range,
    seed: int = 0,
    *,
    checkpoints: int | Iterable[int] = 30,
    keep: Literal["moments", "final", "all"] = "moments",
    delay: int = 0,
    under_way: Literal["counted", "ignored"] = "counted",
    threads: int | None = None,
    block: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
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
    delay
        By how many rounds the outcome of a visit comes late: with 0 it is known before the next round, with 1 a round after
        that. Regret counts visits when they are made.
    under_way
        What policies make of visits whose outcomes are not known yet: "counted" is what the planner does, which takes them
        for made, with what is expected of them; "ignored" is as if nobody had gone.
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
    parse_problem(problem)
    entries = parse_policies(policies)
    horizon = parse_horizon(horizon, problem)
    numbers = parse_trial_range(trials)
    seed = parse_integer(seed, "seed", 0, ADDRESS_MAX)
    count = estimate_checkpoint_count(checkpoints, horizon)
    parse_choice(keep, "keep", ("moments", "final", "all"))
    delay = parse_integer(delay, "delay", 0, horizon)
    parse_choice(under_way, "under_way", UNDER_WAY_CHOICES)
    if progress is not None and not callable(progress):
        raise InvalidInput(
            f"progress is {repr_of(progress)}: a function of trial-rounds done and in all"
        )
    if executor is not None and not isinstance(executor, Executor):
        raise InvalidInput(f"executor is {repr_of(executor)}: a concurrent.futures.Executor")
    threads = count_cores() if threads is None else parse_integer(threads, "threads", 1, 1024)
    worlds = engine.worlds_of(
        problem,
        [entry.until(horizon) for entry in entries],
        horizon,
        delay,
        counted=under_way == "counted",
    )
    widest = max(world.lanes for world in worlds)
    lanes = widest if block is None else parse_integer(block, "block", 1, BLOCK_MAX_LANES)
    most = shard_max_trials(len(worlds), max(1, count), horizon, lanes)
    kept_count = {"moments": 0, "final": 1, "all": count}[keep]
    playing = min(threads * most, len(numbers))
    check_memory(len(worlds), count, kept_count, len(numbers), playing)
    rounds = parse_checkpoints(checkpoints, horizon)
    engine.compile_kernels(entries, delay)
    for world in worlds:
        world.make_arrays()  # here, where an interrupt strikes at once

    kept = {"moments": 0, "final": 1, "all": len(rounds)}[keep]
    whole = Shard(worlds, rounds, seed, numbers, kept, lanes)
    how = under_way if delay else "counted"
    point = Point(problem, entries, horizon, rounds, seed, kept, delay, how)
    totals = RunTotals(point, numbers)
    jobs = (FixedJob([ShardPiece(shard)]) for shard in cut_shard(whole, threads))
    pool = Threads(threads, executor, caught=())

    def tell(far: Progress) -> None:
        if progress is not None:
            progress(far.rounds, whole.trial_rounds)

    try:
        Runner(jobs, len(numbers), totals, pool, batch_seconds=0.0).run(tell=tell)
    except KeyboardInterrupt:
        if not totals.spans:
            raise
    return totals.results(threads)
