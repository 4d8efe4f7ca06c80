"""Whether theory keeps its promises: intervals and statements checked in every round of a simulation."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.errors import (
    parse_choice,
    parse_delta,
    parse_integer,
    parse_list,
)
from heterobandits.inference import bounds
from heterobandits.inference.intervals import exact_posteriors, mean_threshold, order_threshold
from heterobandits.limits import ADDRESS_MAX, DEFAULT_DELTA
from heterobandits.model.problem import Problem, parse_problem
from heterobandits.policies.policy import CATALOGUE, Policy, parse_policies
from heterobandits.policies.policy import policy as catalogued
from heterobandits.simulation.arguments import parse_horizon, parse_trial_range
from heterobandits.simulation.engine import Learning, PolicyWorld

Strains = dict[str, npt.NDArray[np.float64]]  # by promise, for each trial: from 1 on it is broken


class Coverage(NamedTuple):
    """How often theory's promises failed in a simulation; each share should be at most delta.

    `failed` has the share of trials for every promise that was watched, by its name. `needed` says how far each is from failing too often:
    to which share of themselves its widths could be cut, or for the exact ones the thresholds of their evidence, until they fail in delta of
    the trials.
    """

    trials: int
    horizon: int
    delta: float
    failed: dict[str, float]
    needed: dict[str, float]
    regret_bound: float
    worst_regret: float
    over_regret_bound: float


# trials watched at once: the promises are computed in NumPy, whose calls cost more than small arrays
COVERAGE_LANES = 4096
BAND_POLICIES = tuple(name for name, entry in CATALOGUE.items() if entry.has_band)
EXACT_PROMISES = ("posterior-ratio", "ranking")
WATCHABLE_PROMISES = (*BAND_POLICIES, *EXACT_PROMISES)


def coverage(
    problem: Problem,
    horizon: int,
    trials: int,
    seed: int = 0,
    *,
    policy: str | Policy = "min-width",
    delta: float = DEFAULT_DELTA,
    watched: Sequence[str] = WATCHABLE_PROMISES,
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
    parse_problem(problem)
    (entry,) = parse_policies([policy])
    horizon = parse_horizon(horizon, problem)
    numbers = parse_trial_range(parse_integer(trials, "trials", 1))
    seed = parse_integer(seed, "seed", 0, ADDRESS_MAX)
    delta = parse_delta(delta)
    watched = tuple(parse_list(watched, "watched", "names"))
    for name in watched:
        parse_choice(name, "watched", WATCHABLE_PROMISES)
    world = PolicyWorld(problem, entry, horizon)
    lanes = min(COVERAGE_LANES, len(numbers))
    bound = bounds.regret_bound(problem, horizon, delta)
    strains = {name: np.zeros(len(numbers)) for name in watched}
    worst, over = 0.0, 0
    for start in range(0, len(numbers), lanes):
        learning = Learning(world, seed, start, min(lanes, len(numbers) - start))
        checks = strain_functions(learning, horizon, delta, watched)
        here = slice(start, start + learning.lanes)
        for _ in range(horizon):
            learning.advance(1)
            for check in checks:
                for name, strain in check().items():
                    np.fmax(strains[name][here], strain, out=strains[name][here])
        regrets = learning.regrets()
        worst = max(worst, float(regrets.max()))
        over += int((regrets >= bound).sum())
    count = len(numbers)
    return Coverage(
        trials=count,
        horizon=horizon,
        delta=delta,
        failed={name: float((strains[name] >= 1).mean()) for name in watched},
        needed={name: float(np.quantile(strains[name], 1 - delta)) for name in watched},
        regret_bound=bound,
        worst_regret=worst,
        over_regret_bound=over / count,
    )


def strain_functions(
    learning: Learning, horizon: int, delta: float, watched: Sequence[str]
) -> list[Callable[[], Strains]]:
    """Functions that measure how strained each watched promise is in this round: from 1 on it is broken."""
    team = learning.world.team
    arms, width = learning.pulls.shape[1:]

    def means_now() -> npt.NDArray[np.float64]:
        true = learning.world.arrays
        return np.asarray(true.mu[np.searchsorted(true.starts, learning.elapsed, "right") - 1])

    def band(name: str) -> Strains:
        entry, mu = catalogued(name, delta, horizon), means_now()[None, :, None]
        estimate, reach = entry.band(team, learning.pulls, learning.successes)
        assert entry.rule is not None
        assert entry.rule.band is not None
        away = mu - estimate
        if (
            entry.rule.band.per == entry.index_per
        ):  # else it is the least of the agents' upper bounds
            away = abs(away)
        return {name: np.asarray(np.fmax.reduce(away / reach, axis=(0, 1)))}

    def exact() -> Strains:
        means = means_now()
        c, y = (table.reshape(len(team), -1) for table in (learning.pulls, learning.successes))
        known, share = exact_posteriors(team, c, y, delta)
        excess = known.log_evidence - known.log_likelihood(np.repeat(means, width))
        strain = (excess / mean_threshold(arms, share)).reshape(arms, -1)
        found: Strains = {"posterior-ratio": np.asarray(strain.max(axis=0))}
        if "ranking" in watched:
            stated = np.zeros(width)
            lane = np.arange(width)
            for i, j in np.argwhere(means[:, None] <= means).tolist():
                if i != j:
                    np.fmax(stated, known.evidence(i * width + lane, j * width + lane), out=stated)
            found["ranking"] = stated / order_threshold(arms, share)
        return {name: strain for name, strain in found.items() if name in watched}

    checks: list[Callable[[], Strains]] = [
        partial(band, name) for name in BAND_POLICIES if name in watched
    ]
    if set(watched) & set(EXACT_PROMISES):
        checks.append(exact)
    return checks
