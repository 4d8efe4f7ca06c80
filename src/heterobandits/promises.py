"""Whether theory keeps its promises: intervals and statements watched in every round of a simulation."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits import bounds
from heterobandits.core import indices
from heterobandits.errors import (
    DEFAULT_DELTA,
    MOST,
    MOST_ADDRESS,
    choice,
    fraction,
    listed,
    whole_number,
)
from heterobandits.intervals import Posteriors, mean_threshold, order_threshold
from heterobandits.policies import Policy, chosen
from heterobandits.policies import policy as catalogued
from heterobandits.problem import Problem, stated
from heterobandits.simulation import MOST_LANES, Block, World, trial_range

Broken = dict[str, npt.NDArray[np.bool_]]  # by promise: in which trials it is broken


class Coverage(NamedTuple):
    """How often theory's promises failed in a simulation; each share should be at most delta.

    None where a promise was not watched.
    """

    trials: int
    horizon: int
    delta: float
    min_width: float | None
    min_ucb: float | None
    no_sharing: float | None
    min_width_grouped: float | None
    mixture_width: float | None
    posterior_ratio: float | None
    ranking: float | None
    regret_bound: float
    worst_regret: float
    over_regret_bound: float


SHARED = ("min-width", "min-width-grouped", "mixture-width")
OWN = ("min-ucb", "no-sharing")
EXACT = ("posterior-ratio", "ranking")
WATCHED = (*SHARED, *OWN, *EXACT)


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
    for min-width). They are computed with the sensitivities the policy believes in; the oracle
    knows the true ones. `watched` names those to watch, all of them if not given.
    """
    stated(problem)
    (entry,) = chosen([policy])
    horizon = whole_number(horizon, "horizon", 1, MOST // problem.agents)
    numbers = trial_range(whole_number(trials, "trials", 1))
    seed = whole_number(seed, "seed", 0, MOST_ADDRESS)
    delta = fraction(delta, "delta")
    watched = tuple(listed(watched, "watched", "names"))
    for name in watched:
        choice(name, "watched", WATCHED)
    world = World.of(problem, entry)
    lanes = min(MOST_LANES, len(numbers))
    bound = bounds.regret_bound(problem, horizon, delta)
    failed = dict.fromkeys(watched, 0)
    worst, over = 0.0, 0
    for start in range(0, len(numbers), lanes):
        block = Block(world, seed, start, min(lanes, len(numbers) - start))
        checks = promises(block, horizon, delta, watched)
        wrong = {name: np.zeros(block.pulls.shape[-1], bool) for name in failed}
        for _ in range(horizon):
            block.advance(1)
            for check in checks:
                for name, flags in check().items():
                    wrong[name] |= flags
        for name, flags in wrong.items():
            failed[name] += int(flags.sum())
        regrets = block.regrets()
        worst = max(worst, float(regrets.max()))
        over += int((regrets >= bound).sum())
    count = len(numbers)
    shares = {name: failed[name] / count if name in failed else None for name in WATCHED}
    return Coverage(
        trials=count,
        horizon=horizon,
        delta=delta,
        **{name.replace("-", "_"): share for name, share in shares.items()},
        regret_bound=bound,
        worst_regret=worst,
        over_regret_bound=over / count,
    )


def promises(
    block: Block, horizon: int, delta: float, watched: Sequence[str]
) -> list[Callable[[], Broken]]:
    """Functions that say in which trials of the block a watched promise is broken in this round."""
    world = block.world
    agents, arms, width = block.pulls.shape
    tables = (world.s, block.pulls, block.successes)
    mu = world.mu[None, :, None]

    def shared(name: str) -> Broken:
        L = catalogued(name, delta=delta, horizon=horizon).log_terms(world.s, arms, 0, 1)
        estimate, reach = np.empty((2, 1, arms, width))
        indices.fill_intervals(indices.RULES.index(name), *tables, float(L[0]), estimate, reach)
        return {name: np.asarray((abs(estimate - mu) >= reach).any(axis=(0, 1)))}

    def own() -> Broken:
        L = bounds.log_term("no-sharing", agents, arms, horizon, delta)
        estimate, reach = np.empty((2, agents, arms, width))
        indices.fill_intervals(indices.NO_SHARING, *tables, L, estimate, reach)
        uppers = np.asarray((estimate + reach).min(axis=0))
        found: Broken = {
            "no-sharing": np.asarray((abs(estimate - mu) >= reach).any(axis=(0, 1))),
            "min-ucb": np.asarray((uppers <= mu[0]).any(axis=0)),
        }
        return {name: flags for name, flags in found.items() if name in watched}

    def exact() -> Broken:
        means = np.repeat(world.mu, width)
        cells = (table.reshape(agents, -1) for table in tables[1:])
        posteriors = Posteriors.of(world.s, *cells)
        excess = posteriors.log_evidence - posteriors.log_likelihood(means)
        over = (excess > mean_threshold(arms, delta)).reshape(arms, -1)
        found: Broken = {"posterior-ratio": np.asarray(over.any(axis=0))}
        if "ranking" in watched:
            wrong = np.zeros(width, bool)
            lane = np.arange(width)
            for i, j in np.argwhere(world.mu[:, None] <= world.mu).tolist():
                if i != j:
                    stated = posteriors.evidence(i * width + lane, j * width + lane)
                    wrong |= stated >= order_threshold(arms, delta)
            found["ranking"] = wrong
        return {name: flags for name, flags in found.items() if name in watched}

    checks: list[Callable[[], Broken]] = [
        partial(shared, name) for name in SHARED if name in watched
    ]
    if set(watched) & set(OWN):
        checks.append(own)
    if set(watched) & set(EXACT):
        checks.append(exact)
    return checks
