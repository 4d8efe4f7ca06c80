"""What can be said about the arms, however the agents were sent: intervals for the means, and who is above whom.

Three methods for the means, each covering all arms at once with probability 1 - delta:

    posterior-ratio   in all rounds, for ever; exact likelihood       docs/beyond.md (6)
    mixture-width     in all rounds, for ever; W/V and its width      docs/beyond.md (2)
    min-width         up to a horizon; the paper's                    [eq:muhat_t,n, eq:epsilon_t,n]

And statements about the order of two arms, which hold in all rounds at once   docs/beyond.md (10).
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.core import indices
from heterobandits.core.likelihood import (
    fill_fallen,
    fill_greatest,
    fill_likeliest,
    fill_log_likelihoods,
)
from heterobandits.core.posterior import fill_posterior
from heterobandits.errors import (
    DEFAULT_DELTA,
    MOST_ROUNDS,
    InvalidInput,
    choice,
    fraction,
    learned,
    sensitivities_from,
    shown,
    whole_number,
)
from heterobandits.team import pick_order

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Method = Literal["posterior-ratio", "mixture-width", "min-width"]

METHODS: tuple[Method, ...] = ("posterior-ratio", "mixture-width", "min-width")


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
        The logarithm of the evidence for that; exp(-evidence) is a p-value valid at any time.
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
    kinds
        The distinct sensitivities, the largest first.
    successes, failures
        Of each mean in all, and by each kind (a row).
    peak, greatest
        Where the log-likelihood peaks, up to 1 / the largest sensitivity, and its value there.
    log_evidence, mean
        ln Z   docs/beyond.md (5)   and the posterior mean.
    """

    kinds: Floats
    successes: Floats
    failures: Floats
    peak: Floats
    greatest: Floats
    log_evidence: Floats
    mean: Floats

    @classmethod
    def of(cls, sensitivities: Floats, pulls: Counts, successes: Counts) -> "Posteriors":
        """From tables with a row for each agent and a column for each mean."""
        ascending, kind = np.unique(sensitivities, return_inverse=True)
        kinds = ascending[::-1].copy()
        failed = np.zeros((len(kinds), pulls.shape[1]))
        np.add.at(failed, len(kinds) - 1 - kind, pulls - successes)
        hits = successes.sum(axis=0, dtype=np.float64)
        peak, greatest = highest(kinds, hits, failed)
        log_evidence, mean = np.empty((2, len(hits)))
        fill_posterior(peak, greatest, hits, kinds, failed, log_evidence, mean)
        return cls(kinds, hits, failed, peak, greatest, log_evidence, mean)

    def log_likelihood(self, means: Floats) -> Floats:
        """l of each at these means."""
        out = np.empty(len(self.successes))
        inside = np.maximum(means, np.finfo(float).tiny)  # at 0 nothing can have succeeded
        fill_log_likelihoods(inside, self.successes, self.kinds, self.failures, out)
        return out

    def ends(self, log_term: float) -> tuple[Floats, Floats]:
        """Where l is `log_term` below the evidence, or 0 and 1: the interval   docs/beyond.md (6)"""
        learned = (self.successes, self.kinds, self.failures)
        drop = self.greatest - self.log_evidence + log_term
        lower, upper = np.empty((2, len(drop)))
        fill_fallen(True, 1.0, drop, 0.0, self.peak, self.greatest, *learned, upper)
        seen = self.successes > 0
        drop = np.where(seen, drop, 0.0)
        fill_fallen(False, 1.0, drop, 0.0, self.peak, self.greatest, *learned, lower)
        return np.where(seen, lower, 0.0), upper

    def evidence(self, i: Any, j: Any) -> Floats:
        """The evidence that the means i are above the means j, pair by pair   docs/beyond.md (10)

        How much likelier the two are on the average over all pairs than at the best pair in
        the other order, which has both alike: where the pooled outcomes are likeliest.
        """
        hits = self.successes[i] + self.successes[j]
        failed = np.ascontiguousarray(self.failures[:, i] + self.failures[:, j])
        _, alike = highest(self.kinds, hits, failed, 1.0)
        apart = np.zeros(len(hits))
        for k in (i, j):
            inside = np.minimum(self.peak[k], 1.0)
            part = np.empty(len(hits))
            mine = np.ascontiguousarray(self.failures[:, k])
            fill_greatest(inside, self.successes[k], self.kinds, mine, part)
            apart += part
        ordered = np.minimum(self.peak[i], 1.0) > np.minimum(self.peak[j], 1.0)
        evidence: Floats = self.log_evidence[i] + self.log_evidence[j]
        return evidence - np.where(ordered, alike, apart)


def highest(
    kinds: Floats, successes: Floats, failures: Floats, limit: float = math.inf
) -> tuple[Floats, Floats]:
    """Where the log-likelihood is greatest up to `limit`, and its value there."""
    peak, greatest = np.empty((2, len(successes)))
    fill_likeliest(successes, kinds, failures, peak)
    peak = np.minimum(peak, limit)
    fill_greatest(peak, successes, kinds, failures, greatest)
    return peak, greatest


def mean_intervals(
    pulls: Any,
    successes: Any,
    sensitivities: Any,
    *,
    method: Method = "posterior-ratio",
    delta: float = DEFAULT_DELTA,
    horizon: int | None = None,
) -> Intervals:
    """An estimate and an interval for the mean of every arm, all of them right with probability 1 - delta.

    Parameters
    ----------
    pulls, successes
        The two tables, shape (agents, arms).
    sensitivities
        Of the agents, as believed.
    method
        "posterior-ratio" and "mixture-width" hold in all rounds at once, for ever; "min-width"
        in all rounds up to a horizon that was fixed beforehand.
    horizon
        That horizon, for "min-width" alone.

    Returns
    -------
    Intervals
        Posterior means with posterior-ratio, W/V cut off at 1 with the others. An arm never
        pulled has the estimate 0.5 and the interval [0, 1].

    Examples
    --------
    Twelve tests with three positives, all by an agent of sensitivity 0.8:

    >>> known = mean_intervals([[12]], [[3]], [0.8])
    >>> [round(float(ends[0]), 3) for ends in known]
    [0.357, 0.038, 0.812]
    """
    choice(method, "method", METHODS)
    delta = fraction(delta, "delta")
    s = np.array(sensitivities_from(sensitivities))
    c, y = learned(pulls, successes, len(s))
    agents, arms = c.shape
    if (horizon is None) == (method == "min-width"):
        raise InvalidInput(
            "min-width's intervals need a horizon, fixed beforehand"
            if horizon is None
            else f"horizon is {shown(horizon)}: {method}'s intervals hold at any time and take none"
        )
    if method == "posterior-ratio":
        posteriors = Posteriors.of(s, c, y)
        return Intervals(posteriors.mean, *posteriors.ends(mean_threshold(arms, delta)))
    rounds = 1 if horizon is None else whole_number(horizon, "horizon", 1, MOST_ROUNDS)
    rule = indices.RULES.index(method)
    L = indices.log_term(rule, float(rounds), agents, agents, arms, 1.0, delta)
    estimate, width = np.empty((2, 1, arms, 1))
    order = pick_order(s)
    tables = (np.ascontiguousarray(table[order, :, None]) for table in (c, y))
    indices.fill_intervals(rule, s[order], *tables, L, estimate, width)
    middle, half = estimate[0, :, 0], width[0, :, 0]
    return Intervals(
        np.minimum(1.0, middle), np.clip(middle - half, 0.0, 1.0), np.minimum(1.0, middle + half)
    )


def ranking(
    pulls: Any, successes: Any, sensitivities: Any, *, delta: float = DEFAULT_DELTA
) -> Ranking:
    """Which arms are certainly above which: all of it right, in all rounds at once, with probability 1 - delta.

    Parameters as in `mean_intervals`. What follows from two statements is stated too.

    Examples
    --------
    >>> known = ranking([[40, 40, 40]], [[4, 6, 30]], [0.9])
    >>> known.above.tolist()
    [[False, False, False], [False, False, False], [True, True, False]]
    >>> known.best.tolist(), known.worst.tolist()
    ([2, 2, 1], [3, 3, 1])
    """
    delta = fraction(delta, "delta")
    s = np.array(sensitivities_from(sensitivities))
    c, y = learned(pulls, successes, len(s))
    arms = c.shape[1]
    posteriors = Posteriors.of(s, c, y)
    i, j = (~np.eye(arms, dtype=bool)).nonzero()
    evidence = np.full((arms, arms), -np.inf)
    evidence[i, j] = posteriors.evidence(i, j)
    above = evidence >= order_threshold(arms, delta)
    for n in range(arms):  # what is above n is above all that n is above
        above |= above[:, n : n + 1] & above[n]
    return Ranking(above, evidence, 1 + above.sum(axis=0), arms - above.sum(axis=1))


def mean_threshold(arms: int, delta: float) -> float:
    """How far below the evidence a mean may lie: the log term of posterior-ratio."""
    return float(indices.log_term(indices.POSTERIOR_RATIO, 1.0, 1, 1, arms, 1.0, delta))


def order_threshold(arms: int, delta: float) -> float:
    """The evidence from which on two arms count as ordered: ln of the number of pairs over delta."""
    return math.log(max(1, math.comb(arms, 2))) - math.log(delta)
