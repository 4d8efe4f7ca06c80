"""Whether theory keeps its promises: intervals and statements watched in every round of a simulation."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits import bounds
from heterobandits.engine import Learning, World
from heterobandits.errors import (
    choice,
    delta_from,
    listed,
    whole_number,
)
from heterobandits.intervals import exactly_known, mean_threshold, order_threshold
from heterobandits.policies import CATALOGUE, Policy, checked_policies
from heterobandits.policies import policy as catalogued
from heterobandits.problem import Problem, checked_problem
from heterobandits.ranges import DEFAULT_DELTA, MOST_ADDRESS
from heterobandits.simulation import horizon_from, trial_range

Broken = dict[str, npt.NDArray[np.bool_]]  # by promise: in which trials it is broken


class Coverage(NamedTuple):
    """How often theory's promises failed in a simulation; each share should be at most delta.

    `failed` has the share of trials for every promise that was watched, by its name.
    """

    trials: int
    horizon: int
    delta: float
    failed: dict[str, float]
    regret_bound: float
    worst_regret: float
    over_regret_bound: float


LANES = 4096  # trials watched at once: the promises are computed in NumPy, whose calls cost more than small arrays
BANDS = tuple(name for name, entry in CATALOGUE.items() if entry.has_band)
EXACT = ("posterior-ratio", "ranking")
WATCHED = (*BANDS, *EXACT)


def coverage(
    problem: Problem,
    horizon: int,
    trials: int,
    seed: int = 0,
    *,
    policy: str | Policy = "min-width",
    delta: float = DEFAULT_DELTA,
    watched: Sequence[str] = WATCHED,
) -> Coverage:
    """The share of trials in which any interval, of any arm, failed in any round.

    The agents are sent by `policy`; the promises are those of the theory: the intervals of
    min-width and min-width-grouped, min-ucb's upper bounds and no-sharing's intervals of every
    agent, all with the horizon in the logarithm; the intervals of mixture-width and
    posterior-ratio, and the statements of `ranking` about the order of arms, which have no
    horizon in them. Also the share of trials whose regret exceeds the theorem's bound (a promise
    for min-width; there is no bound, and it is infinite, if the sensitivities believed are not the true
    ones, or if the means change). Where means change, those of each round are compared with it; nothing is promised then.
    They are computed with the sensitivities the policy believes in, or with what calibration says of
    them; the oracle knows the true ones. `watched` names those to watch, all of them if not given.
    """
    checked_problem(problem)
    (entry,) = checked_policies([policy])
    horizon = horizon_from(horizon, problem)
    numbers = trial_range(whole_number(trials, "trials", 1))
    seed = whole_number(seed, "seed", 0, MOST_ADDRESS)
    delta = delta_from(delta)
    watched = tuple(listed(watched, "watched", "names"))
    for name in watched:
        choice(name, "watched", WATCHED)
    world = World(problem, entry, horizon)
    lanes = min(LANES, len(numbers))
    bound = bounds.regret_bound(problem, horizon, delta)
    failed = dict.fromkeys(watched, 0)
    worst, over = 0.0, 0
    for start in range(0, len(numbers), lanes):
        learning = Learning(world, seed, start, min(lanes, len(numbers) - start))
        checks = promises(learning, horizon, delta, watched)
        wrong = {name: np.zeros(learning.lanes, bool) for name in failed}
        for _ in range(horizon):
            learning.advance(1)
            for check in checks:
                for name, flags in check().items():
                    wrong[name] |= flags
        for name, flags in wrong.items():
            failed[name] += int(flags.sum())
        regrets = learning.regrets()
        worst = max(worst, float(regrets.max()))
        over += int((regrets >= bound).sum())
    count = len(numbers)
    return Coverage(
        trials=count,
        horizon=horizon,
        delta=delta,
        failed={name: failed[name] / count for name in watched},
        regret_bound=bound,
        worst_regret=worst,
        over_regret_bound=over / count,
    )


def promises(
    learning: Learning, horizon: int, delta: float, watched: Sequence[str]
) -> list[Callable[[], Broken]]:
    """Functions that say in which trials a watched promise is broken in this round."""
    team = learning.world.team
    arms, width = learning.pulls.shape[1:]

    def means_now() -> npt.NDArray[np.float64]:
        true = learning.world.arrays
        return np.asarray(true.mu[np.searchsorted(true.starts, learning.elapsed, "right") - 1])

    def band(name: str) -> Broken:
        entry, mu = catalogued(name, delta, horizon), means_now()[None, :, None]
        estimate, reach = entry.band(team, learning.pulls, learning.successes)
        assert entry.rule is not None
        assert entry.rule.band is not None
        if entry.rule.band.per != entry.index_per:  # the least of the agents' upper bounds
            return {name: np.asarray(((estimate + reach).min(axis=0) <= mu[0]).any(axis=0))}
        return {name: np.asarray((abs(estimate - mu) >= reach).any(axis=(0, 1)))}

    def exact() -> Broken:
        means = means_now()
        c, y = (table.reshape(len(team), -1) for table in (learning.pulls, learning.successes))
        known, share = exactly_known(team, c, y, delta)
        excess = known.log_evidence - known.log_likelihood(np.repeat(means, width))
        over = (excess > mean_threshold(arms, share)).reshape(arms, -1)
        found: Broken = {"posterior-ratio": np.asarray(over.any(axis=0))}
        if "ranking" in watched:
            wrong = np.zeros(width, bool)
            lane = np.arange(width)
            for i, j in np.argwhere(means[:, None] <= means).tolist():
                if i != j:
                    stated = known.evidence(i * width + lane, j * width + lane)
                    wrong |= stated >= order_threshold(arms, share)
            found["ranking"] = wrong
        return {name: flags for name, flags in found.items() if name in watched}

    checks: list[Callable[[], Broken]] = [partial(band, name) for name in BANDS if name in watched]
    if set(watched) & set(EXACT):
        checks.append(exact)
    return checks
