"""How many trials a point gets, and what they show: who has the least regret, and how certain that is.

A point that is to be known precisely, or whose policies are to be told apart, is looked at again and again, as `Doubling` has it.
The error that is allowed is shared evenly by all the looks there may be, so that every verdict holds in spite of them. Intervals are Student's, on pairs of regrets on the same luck. They take means
for nearly normal, which those of rules that seldom fail are not: a verdict is sure if it holds by the evidence of `moments` as well.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import BigIntegers, Flags, Floats
from heterobandits.simulation import moments
from heterobandits.simulation.pool.doubling import Doubling, doubling_numbers, trial_count
from heterobandits.simulation.pool.pieces import PieceResult, Point
from heterobandits.simulation.results import binary_places
from heterobandits.sweeps.spec import Stopping

StopReason = Literal["fixed", "told apart", "narrow", "same", "limit"]

POINT_VERDICTS = ("ahead", "unclear", "same", "behind")
SAME_MIN_TRIALS = (
    300  # in which policies that differ in 1 % of the trials are alike with probability 0.05
)


def look_trials(stopping: Stopping) -> list[int]:
    """The numbers of trials after which a point is checked: doubling, up to the maximum.

    >>> look_trials(Stopping(64, 200, 0.01, None, 0.95))
    [64, 128, 200]
    """
    return doubling_numbers(stopping.trials, stopping.most_trials)


@dataclass(frozen=True)
class StatementLevels:
    """Confidence levels for single statements that make all statements at one checkpoint hold together.

    Attributes
    ----------
    interval
        Of an interval for one pair of policies, in spite of all looks.
    verdict
        Of the difference of two policies, such that no pair is put in the wrong order with more than the error that is
        allowed, in spite of all looks and pairs.
    evidence
        What the evidence for an order of two policies has to reach, likewise; looks cost it nothing.
    """

    interval: float
    verdict: float
    evidence: float


def levels_of_point(stopping: Stopping, policies: int) -> StatementLevels:
    """The levels for a point with so many policies."""
    shared = len(look_trials(stopping))
    pairs = max(1, policies * (policies - 1) // 2)
    error = 1.0 - (stopping.confidence if stopping.separate is None else stopping.separate)
    return StatementLevels(
        interval=1.0 - (1.0 - stopping.confidence) / shared,
        verdict=1.0 - error / (shared * pairs),
        evidence=math.log(2 * pairs / error),  # equals can be put in the wrong order in two ways
    )


class PointTotals(NamedTuple):
    """Exact sums for points with the same numbers of policies and checkpoints, as `moments` takes them.

    Attributes
    ----------
    trials, places
        One for each point.
    sums, products
        [point, policy, checkpoint] and [point, policy, policy, checkpoint].
    most
        The most regret that a trial can have, [point, checkpoint].
    """

    trials: BigIntegers
    places: BigIntegers
    sums: BigIntegers
    products: BigIntegers
    most: Floats

    def pair(self, p: Any, q: Any) -> tuple[Any, ...]:
        """Policies p and q, whole arrays of them if wished, as `moments` takes them: [point, pair, checkpoint]."""
        n, places = (part[:, None, None] for part in (self.trials, self.places))
        sums, products = self.sums, self.products
        return (
            *(n, places, sums[:, p], sums[:, q]),
            *(products[:, p, p], products[:, p, q], products[:, q, q]),
        )

    def best(self) -> npt.NDArray[np.intp]:
        """The policy with the least mean regret, [point, checkpoint]."""
        n, places = (part[:, None, None] for part in (self.trials, self.places))
        return np.asarray(moments.mean_of_sums(n, places, self.sums).argmin(axis=1))

    def beside(self, best: npt.NDArray[np.intp]) -> tuple[Any, ...]:
        """These policies, and every other one beside them, as `moments` takes them: [point, policy, checkpoint]."""
        n, places = (part[:, None, None] for part in (self.trials, self.places))
        point, checkpoint = np.indices(best.shape)
        every = np.arange(self.sums.shape[1])
        mixed = np.moveaxis(self.products[point, :, best, checkpoint], 2, 1)
        own = self.products[point, best, best, checkpoint][:, None]
        least = self.sums[point, best, checkpoint][:, None]
        return n, places, least, self.sums, own, mixed, self.products[:, every, every]


def totals_of_point(point: Point, rows: list[PieceResult]) -> PointTotals:
    """The totals of one point, from all its pieces."""
    run = point.totals(rows)
    trials = np.full(1, trial_count(rows), object)
    places = np.full(1, binary_places(point.horizon, sum(point.problem.tests)), object)
    most = point.problem.most_regret(point.rounds)[None]
    return PointTotals(trials, places, run.sums[None], run.products[None], most)


class Standings(NamedTuple):
    """Every policy beside the one with the least mean regret, [point, policy, checkpoint].

    Attributes
    ----------
    best
        That policy, [point, checkpoint].
    apart
        Whether Student's interval says that a policy has more regret; never so for the best.
    same
        Whether it has as much regret in every trial; always so for the best.
    """

    best: npt.NDArray[np.intp]
    apart: Flags
    same: Flags


def standings_of_points(of: PointTotals, level: float) -> Standings:
    """Every policy beside the best at its point and checkpoint."""
    best = of.best()
    mean, error = moments.paired_difference(*of.beside(best))
    reach = moments.student_quantile(level, of.trials)[:, None, None]
    return Standings(best, -mean - reach * error > 0, (mean == 0) & ~(error > 0))


class Verdicts(NamedTuple):
    """What can be said of every policy, [point, policy, checkpoint].

    Attributes
    ----------
    said
        One of VERDICTS. By Student's intervals: ahead if it has less regret than every other, behind if the one with the least
        has less. Several that have as little in every trial are the same.
    sure
        Whether that it is ahead or behind is so whatever the law of the regrets, rare failures that nobody saw included.
    """

    said: npt.NDArray[np.object_]
    sure: Flags


def verdicts_of_points(of: PointTotals, at: StatementLevels) -> Verdicts:
    """What these levels allow us to say about every policy."""
    best, apart, same = standings_of_points(of, at.verdict)
    evidence = moments.log_evidence(of.most[:, None], *of.beside(best))
    P = apart.shape[1]
    lone = same.sum(axis=1, keepdims=True) == 1
    ahead = same & lone & (apart.sum(axis=1, keepdims=True) == P - 1)
    certain = apart & (evidence >= at.evidence)
    out = np.full(apart.shape, "unclear", object)
    out[same & ~lone] = "same"
    out[apart] = "behind"
    out[ahead] = "ahead"
    return Verdicts(out, certain | (ahead & (certain.sum(axis=1, keepdims=True) == P - 1)))


def log_widths(of: PointTotals, other: int, level: float) -> Floats:
    """By which factor, as a logarithm, the intervals of all ratios to one policy's regret reach to each side, [point, policy, checkpoint]."""
    P = of.sums.shape[1]
    _, error = moments.log_ratio(*of.pair(np.arange(P), np.full(P, other)))
    return np.asarray(moments.student_quantile(level, of.trials)[:, None, None] * error)


def equals_policy(of: PointTotals, other: int) -> Flags:
    """Whether a policy has as much regret as another one in every trial, [point, policy, checkpoint]."""
    P = of.sums.shape[1]
    mean, error = moments.paired_difference(*of.pair(np.arange(P), np.full(P, other)))
    return np.asarray((mean == 0) & ~(error > 0))


def stop_reason_of(of: PointTotals, stopping: Stopping, reference: int) -> StopReason | None:
    """Why a point needs no more trials, judged at its last checkpoint; None if it does.

    With `precision` alone every policy's ratio to the reference is to be narrow enough; with `separate` every policy is to be
    told apart from the best; with both one or the other is enough, the ratio being that to the best.
    """
    if stopping.precision is None and stopping.separate is None:
        return "fixed"
    last = of._replace(
        sums=of.sums[..., -1:], products=of.products[..., -1:], most=of.most[..., -1:]
    )
    level = levels_of_point(stopping, of.sums.shape[1])
    best, apart, same = standings_of_points(last, level.verdict)
    n = int(of.trials[0])
    # that several were alike in a few trials says little
    alike, told = same[0, :, 0] & (n >= SAME_MIN_TRIALS), apart[0, :, 0]
    alike[int(best[0, 0])] = True
    if stopping.separate is not None and (told | alike).all():
        return "told apart" if alike.sum() == 1 else "same"
    if stopping.precision is not None:
        other = reference if stopping.separate is None else int(best[0, 0])
        equal = equals_policy(last, other)[0, :, 0]
        settled = log_widths(last, other, level.interval)[0, :, 0] <= np.log1p(stopping.precision)
        settled &= ~equal  # an interval without width is none
        settled |= equal & (n >= SAME_MIN_TRIALS)
        settled[other] = True
        if stopping.separate is not None:
            settled |= told
        if settled.all():
            return "narrow"
    return "limit" if n >= stopping.most_trials else None


def job_of_point(point: Point, stopping: Stopping, reference: int) -> Doubling:
    """A point as a job of the runner: trials until it is known well enough."""

    def enough(rows: list[PieceResult]) -> StopReason | None:
        return stop_reason_of(totals_of_point(point, rows), stopping, reference)

    return Doubling(point, look_trials(stopping), enough)
