"""What can be said about the arms, however the agents were sent: intervals for the means, and who is above whom.

Three methods for the means, each covering all arms at once with probability 1 - delta:

    posterior-ratio   in all rounds, for ever; exact likelihood       docs/beyond.md (6)
    mixture-width     in all rounds, for ever; W/V and its width      docs/beyond.md (2)
    min-width         up to a horizon; the paper's                    [eq:muhat_t,n, eq:epsilon_t,n]

And statements about the order of two arms, which hold in all rounds at once   docs/beyond.md (10).

Where agents are only calibrated, half of delta goes to the sets that hold their sensitivities, and the likelihood is
the greatest that these allow   docs/model.md (8) to (11).

All of it holds if means stand still, sensitivities and false positive rates are as believed, the tests of a visit are independent,
agents who visit one arm in one round look independently of each other, and outcomes are missing for reasons that do not depend on them;
what is said of the order needs different arms' outcomes of one round to be independent given the past, too.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import Flags, Floats, LearningTable
from heterobandits.core import families, indices
from heterobandits.core.calibrated import (
    LEAST_MEAN,
    fill_constants,
    fill_profile_ends,
    fill_profile_peaks,
    fill_profiles,
    highest_mean,
)
from heterobandits.core.likelihood import (
    ABOVE,
    BELOW,
    Outcomes,
    fill_fallen,
    fill_greatest,
    fill_likeliest,
    fill_log_likelihoods,
)
from heterobandits.core.posterior import fill_posterior
from heterobandits.core.seen import Seen, see
from heterobandits.core.work import work
from heterobandits.errors import (
    InvalidInput,
    parse_choice,
    parse_delta,
    parse_integer,
    parse_tables,
    repr_of,
)
from heterobandits.inference.beliefs import Beliefs
from heterobandits.interrupts import end_abandoned_work
from heterobandits.limits import DEFAULT_DELTA, HORIZON_MAX_ROUNDS
from heterobandits.model.prior import UNIFORM, Prior, parse_prior
from heterobandits.model.team import Team
from heterobandits.policies.policy import policy

IntervalMethod = Literal["posterior-ratio", "mixture-width", "min-width"]

INTERVAL_METHODS: tuple[IntervalMethod, ...] = ("posterior-ratio", "mixture-width", "min-width")
PAIRS_AT_ONCE = 20_000  # of arms
RANKING_MAX_ARMS = 2000  # arms in a table of every arm against every other


class Intervals(NamedTuple):
    """For each arm: the estimate of its mean and an interval within [0, 1]."""

    estimate: Floats
    lower: Floats
    upper: Floats


class Ranking(NamedTuple):
    """What is certain about the order of the arms.

    Attributes
    ----------
    above
        Table of arms by arms: whether the row's arm is above the column's.
    evidence
        The logarithm of the evidence for that. Where nobody is only calibrated, exp(-evidence) is a p-value valid at any
        time; otherwise exp(-evidence) + delta/2 is, as the sets of the calibration fail with probability delta/2.
    best, worst
        The best and the worst rank each arm can have, counted from 1.
    """

    above: Flags
    evidence: Floats
    best: npt.NDArray[np.intp]
    worst: npt.NDArray[np.intp]


@dataclass(frozen=True)
class Posteriors:
    """The exact posteriors of many means, side by side: of arms, or of arms in many trials.

    Attributes
    ----------
    seen
        Hits and misses of each mean by kind of agent.
    peak, greatest
        Where the log-likelihood peaks, up to where a report is certain, and its value there.
    log_evidence, mean
        ln Z   docs/beyond.md (5)   and the posterior mean.
    """

    seen: Outcomes
    peak: Floats
    greatest: Floats
    log_evidence: Floats
    mean: Floats

    @classmethod
    def of(
        cls,
        team: Team,
        pulls: LearningTable,
        successes: LearningTable,
        prior: Prior | None = None,
    ) -> "Posteriors":
        """From tables with a row for each agent and a column for each mean.

        What a prior states of each mean is in the evidence and in the posterior mean; nothing is learned from other means here.
        """
        lanes = pulls.shape[1]
        seen = families.outcomes(team.arrays, pulls, successes)
        peak, greatest = constrained_peak(seen)
        log_evidence, mean = np.empty((2, lanes))
        if prior is None or all(one in (None, UNIFORM) for one in prior.shapes):
            fill_posterior(peak, greatest, seen, work(0, lanes), log_evidence, mean)
        else:
            stated = Beliefs.of(team, pulls, successes, Prior(prior.shapes))
            log_evidence, mean = stated.log_evidence, stated.mean
        return cls(seen, peak, greatest, log_evidence, mean)

    def log_likelihood(self, means: Floats) -> Floats:
        """l of each at these means."""
        out = np.empty(len(means))
        least = np.where(self.seen.Y > 0.0, np.finfo(float).tiny, 0.0)  # at 0 nothing succeeds
        inside = np.maximum(means, least)
        fill_log_likelihoods(inside, self.seen, out)
        return out

    def ends(self, log_term: float) -> tuple[Floats, Floats]:
        """Where l is `log_term` below the evidence, or 0 and 1: the interval   docs/beyond.md (6)"""
        drop = self.greatest - self.log_evidence + log_term
        lower, upper = np.empty((2, len(drop)))
        fallen = (drop, 0.0, self.peak, self.greatest, self.seen, work(0, len(drop)))
        fill_fallen(ABOVE, 1.0, *fallen, upper)
        fill_fallen(BELOW, 1.0, *fallen, lower)
        return lower, upper

    def evidence(self, i: Any, j: Any) -> Floats:
        """The evidence that the means i are above the means j, pair by pair   docs/beyond.md (10)

        How much likelier the two are on the average over all pairs than at the best pair in
        the other order, which has both alike: where the pooled outcomes are likeliest.
        """
        first, second = self._of(i), self._of(j)
        pooled = first._replace(h=first.h + second.h, f=first.f + second.f, Y=first.Y + second.Y)
        _, alike = constrained_peak(pooled, 1.0)
        apart = np.zeros(len(alike))
        for k, seen in ((i, first), (j, second)):
            part = np.empty(len(apart))
            fill_greatest(np.minimum(self.peak[k], 1.0), seen, work(0, len(part)), part)
            apart += part
        ordered = np.minimum(self.peak[i], 1.0) > np.minimum(self.peak[j], 1.0)
        evidence: Floats = self.log_evidence[i] + self.log_evidence[j]
        return evidence - np.where(ordered, alike, apart)

    def _of(self, chosen: Any) -> Outcomes:
        """What was seen of some of the means."""
        h, f = (np.ascontiguousarray(part[:, chosen]) for part in (self.seen.h, self.seen.f))
        return self.seen._replace(h=h, f=f, Y=self.seen.Y[chosen])


@dataclass(frozen=True)
class Profiles:
    """`Posteriors` for agents that are only calibrated: the most that the reports can mean   docs/model.md (9), (10)

    Attributes
    ----------
    posteriors
        With the agents as they are believed to be.
    seen
        The tables, of one arm in many lanes, with what calibration allows.
    log_evidence
        Of the reports themselves, no constant left out.
    """

    posteriors: Posteriors
    seen: Seen
    log_evidence: Floats

    @classmethod
    def of(
        cls,
        team: Team,
        pulls: LearningTable,
        successes: LearningTable,
        delta: float,
        posteriors: Posteriors | None = None,
    ) -> "Profiles":
        """From tables with a row for each agent and a column for each mean; half of delta is the calibration's.

        Their posteriors may be known already.
        """
        posteriors = posteriors or Posteriors.of(team, pulls, successes)
        tables = (np.ascontiguousarray(table[:, None]) for table in (pulls, successes))
        seen = see(team.boxed(0.5 * delta), *tables)
        constants = np.empty(pulls.shape[1])
        fill_constants(seen, np.arange(len(constants)), constants)
        return cls(posteriors, seen, posteriors.log_evidence + constants)

    @property
    def mean(self) -> Floats:
        """The posterior means, with the agents as they are believed to be."""
        return self.posteriors.mean

    def log_likelihood(self, means: Floats) -> Floats:
        """l* of each at these means."""
        return profile_and_slope(means, self.seen)[0]

    def ends(self, log_term: float) -> tuple[Floats, Floats]:
        """Where l* is `log_term` below the evidence, or 0 and 1: the interval   docs/model.md (10)"""
        lanes = np.arange(len(self.log_evidence))
        level = self.log_evidence - log_term
        inside = np.clip(self.posteriors.peak, LEAST_MEAN, 1.0)
        lower, upper = np.empty((2, len(lanes)))
        for side, end in ((BELOW, lower), (ABOVE, upper)):
            how = (inside, self.seen, lanes, work(0, len(lanes)), end)
            fill_profile_ends(side, highest_mean(self.seen.agents), level, *how)
        return lower, np.minimum(1.0, upper)

    def evidence(self, i: Any, j: Any) -> Floats:
        """The evidence that the means i are above the means j, pair by pair   docs/model.md (11)

        Where nobody gives false alarms, exactly; else at least, as if agents could report differently of two arms.
        """
        ahead, behind = self._of(i), self._of(j)
        if self.seen.agents.phi_high.any():
            alike, both = profile_peak(_stack_teams(ahead, behind))
            up, down = (profile_and_slope(alike, seen)[1] for seen in (ahead, behind))
        else:
            alike, both = profile_peak(_pool_arms(ahead, behind))
            chance = likeliest_reports(alike, _pool_arms(ahead, behind))
            up, down = (slope_at(chance, seen) for seen in (ahead, behind))
        # the best pair in the other order has both alike if the first would rather be higher and the second lower
        ordered = (up >= 0.0) & (down <= 0.0)
        greatest = np.where(ordered, both, profile_peak(ahead)[1] + profile_peak(behind)[1])
        return np.asarray(self.log_evidence[i] + self.log_evidence[j] - greatest)

    def _of(self, chosen: Any) -> Seen:
        """What was seen of some of the means."""
        c, y = (np.ascontiguousarray(t[:, :, chosen]) for t in (self.seen.c, self.seen.y))
        return see(self.seen.agents, c, y)


def profile_and_slope(means: Floats, seen: Seen) -> tuple[Floats, Floats]:
    """l* at these means, and its slope."""
    height, slope = np.empty((2, len(means)))
    lanes = np.arange(len(means))
    fill_profiles(np.maximum(means, LEAST_MEAN), seen, lanes, height, slope)
    return height, slope


def profile_peak(seen: Seen) -> tuple[Floats, Floats]:
    """The mean up to 1 with the greatest l*, and that value."""
    means = np.empty(seen.c.shape[2])
    fill_profile_peaks(seen, np.arange(len(means)), work(0, len(means)), means)
    return means, profile_and_slope(means, seen)[0]


def likeliest_reports(means: Floats, seen: Seen) -> Floats:
    """How often each agent then reports 1 at its likeliest, agents by lanes; nobody gives false alarms."""
    agents = seen.agents
    with np.errstate(invalid="ignore"):
        share = seen.y[:, 0] / seen.c[:, 0]
    ends = (s[:, None] * means for s in (agents.s_low, agents.s_high))
    return np.asarray(np.clip(np.nan_to_num(share), *ends))


def slope_at(chance: Floats, seen: Seen) -> Floats:
    """The slope of l in the logarithm of the mean where the agents report so often."""
    y, f = seen.y[:, 0], seen.c[:, 0] - seen.y[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = np.where(f > 0, f * chance / (1.0 - chance), 0.0)
    return np.asarray((y - fall).sum(axis=0))


def _pool_arms(one: Seen, other: Seen) -> Seen:
    """Two arms treated as one."""
    return see(one.agents, one.c + other.c, one.y + other.y)


def _stack_teams(one: Seen, other: Seen) -> Seen:
    """Two arms treated as one arm that two teams visited, which may report differently."""
    twice = type(one.agents)(*(np.concatenate([column, column]) for column in one.agents))
    tables = (np.concatenate(pair) for pair in ((one.c, other.c), (one.y, other.y)))
    return see(twice, *tables)


def constrained_peak(seen: Outcomes, limit: float = math.inf) -> tuple[Floats, Floats]:
    """Where the log-likelihood is greatest up to `limit`, and its value there."""
    peak, greatest = np.empty((2, len(seen.Y)))
    room = work(0, len(seen.Y))
    fill_likeliest(seen, room, peak)
    peak = np.minimum(peak, limit)
    fill_greatest(peak, seen, room, greatest)
    return peak, greatest


def mean_intervals(
    pulls: Any,
    successes: Any,
    sensitivities: Any,
    *,
    method: IntervalMethod = "posterior-ratio",
    delta: float = DEFAULT_DELTA,
    horizon: int | None = None,
    prior: Any = None,
) -> Intervals:
    """An estimate and an interval for the mean of every arm, all of them right with probability 1 - delta.

    It needs sensitivities as believed, independent tests of a visit, agents who look independently of each other if they
    visit one arm in one round, and outcomes missing for reasons that
    do not depend on them; not that the agents were sent in any particular way.

    Parameters
    ----------
    pulls, successes
        The two tables, shape (agents, arms).
    sensitivities
        Of the agents, as believed; or a `Team`, which may give false alarms.
    method
        "posterior-ratio" and "mixture-width" hold in all rounds at once, for ever; "min-width"
        in all rounds up to a horizon that was fixed beforehand.
    horizon
        That horizon in rounds, for "min-width" alone. If an arm was pulled more often than it can be by then, its pulls
        count instead, and nothing is promised.
    prior
        What was believed of the means before anything was seen, as a problem takes it, for "posterior-ratio" alone: a wrong one
        makes intervals wider, and no less right. One that is learned from what is seen is refused.

    Returns
    -------
    Intervals
        Posterior means with posterior-ratio, W/V cut off at 0 and 1 with the others. An arm never
        pulled has the estimate 0.5 and the interval [0, 1].

    Examples
    --------
    Twelve tests with three positives, all by an agent of sensitivity 0.8:

    >>> known = mean_intervals([[12]], [[3]], [0.8])
    >>> [round(float(ends[0]), 3) for ends in known]
    [0.357, 0.038, 0.812]
    """
    parse_choice(method, "method", INTERVAL_METHODS)
    delta = parse_delta(delta)
    team = Team.of(sensitivities)
    c, y = parse_tables(pulls, successes, len(team))
    if (horizon is None) == (method == "min-width"):
        raise InvalidInput(
            "min-width's intervals need a horizon, fixed beforehand"
            if horizon is None
            else f"horizon is {repr_of(horizon)}: {method}'s intervals hold at any time and take none"
        )
    stated = parse_fixed_prior(prior, c.shape[1])
    if method == "posterior-ratio":
        return posterior_intervals(team, c, y, delta, stated)
    if not stated.is_uniform:
        raise InvalidInput(f"{method}'s intervals take no prior: use posterior-ratio's")
    if team.is_calibrated:
        raise InvalidInput(
            f"{method}'s intervals need sensitivities that are known, and these are calibrated: "
            "use posterior-ratio's"
        )
    rounds = 1 if horizon is None else parse_integer(horizon, "horizon", 1, HORIZON_MAX_ROUNDS)
    middle, half = policy(method, delta, rounds).band(team, c[:, :, None], y[:, :, None])
    middle, half = middle[0, :, 0], half[0, :, 0]
    return Intervals(*(np.clip(x, 0.0, 1.0) for x in (middle, middle - half, middle + half)))


def parse_fixed_prior(prior: Any, arms: int) -> Prior:
    """A prior that what is certain may go by: one that was fixed before anything was seen."""
    made = parse_prior(prior, arms)
    if made.learned:
        raise InvalidInput(
            "the prior is learned from what is seen: what is certain needs one that was fixed beforehand"
        )
    return made


def posterior_intervals(
    team: Team, c: LearningTable, y: LearningTable, delta: float, prior: Prior | None = None
) -> Intervals:
    """The posterior-ratio intervals from valid tables, which may have faded   docs/model.md (18)"""
    return certain_intervals(*exact_posteriors(team, c, y, delta, prior=prior))


def certain_intervals(known: Posteriors | Profiles, share: float) -> Intervals:
    """The same from what is known of the means, with the share of delta for them."""
    return Intervals(known.mean, *known.ends(mean_threshold(len(known.mean), share)))


def exact_posteriors(
    team: Team,
    c: LearningTable,
    y: LearningTable,
    delta: float,
    posteriors: Posteriors | None = None,
    prior: Prior | None = None,
) -> tuple[Posteriors | Profiles, float]:
    """What the exact likelihood says of many means, whose posteriors may be known already, and the share of delta for it.

    Where agents are only calibrated, the other half of delta is the calibration's.
    """
    posteriors = posteriors or Posteriors.of(team, c, y, prior)
    if team.is_calibrated:
        return Profiles.of(team, c, y, delta, posteriors), 0.5 * delta
    return posteriors, delta


def ranking(
    pulls: Any,
    successes: Any,
    sensitivities: Any,
    *,
    delta: float = DEFAULT_DELTA,
    prior: Any = None,
) -> Ranking:
    """Which arms are certainly above which: all of it right, in all rounds at once, with probability 1 - delta.

    Parameters and needs as in `mean_intervals`; beside those, different arms' outcomes of one round must be
    independent given the past. What follows from two statements is stated too.

    Examples
    --------
    >>> known = ranking([[40, 40, 40]], [[4, 6, 30]], [0.9])
    >>> known.above.tolist()
    [[False, False, False], [False, False, False], [True, True, False]]
    >>> known.best.tolist(), known.worst.tolist()
    ([2, 2, 1], [3, 3, 1])
    """
    delta = parse_delta(delta)
    team = Team.of(sensitivities)
    c, y = parse_tables(pulls, successes, len(team))
    return ranking_of_tables(team, c, y, delta, parse_fixed_prior(prior, c.shape[1]))


def ranking_of_tables(
    team: Team, c: LearningTable, y: LearningTable, delta: float, prior: Prior | None = None
) -> Ranking:
    """The ranking from valid tables, which may have faded   docs/model.md (18)"""
    arms = c.shape[1]
    if arms > RANKING_MAX_ARMS:
        raise InvalidInput(
            f"there are {arms:,} arms: a table of every arm against every other has up to {RANKING_MAX_ARMS:,}"
        )
    return certain_order(*exact_posteriors(team, c, y, delta, prior=prior))


def certain_order(known: Posteriors | Profiles, share: float) -> Ranking:
    """The same from what is known of the means, with the share of delta for it."""
    arms = len(known.mean)
    i, j = (~np.eye(arms, dtype=bool)).nonzero()
    evidence = np.full((arms, arms), -np.inf)
    for begin in range(0, len(i), PAIRS_AT_ONCE):
        end_abandoned_work()
        some = slice(begin, begin + PAIRS_AT_ONCE)
        evidence[i[some], j[some]] = known.evidence(i[some], j[some])
    above = evidence >= order_threshold(arms, share)
    for n in range(arms):  # what is above n is above all that n is above
        above |= above[:, n : n + 1] & above[n]
    return Ranking(above, evidence, 1 + above.sum(axis=0), arms - above.sum(axis=1))


def mean_threshold(arms: int, delta: float) -> float:
    """How far below the evidence a mean may lie: the log term of posterior-ratio."""
    (L,) = indices.evidence_terms(np.ones(1), indices.Size(A=1, K=1, N=arms), delta)
    return float(L)


def order_threshold(arms: int, delta: float) -> float:
    """The evidence from which on two arms count as ordered: ln of the number of pairs over delta."""
    return math.log(max(1, math.comb(arms, 2))) - math.log(delta)
