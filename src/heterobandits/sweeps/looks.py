"""How many trials a point gets, and what they say: who has the least regret there, and how surely.

A point that is to be known precisely, or whose policies are to be told apart, is looked at again and again, each time with twice as
many trials, up to a limit. The error that is allowed is shared evenly by all the looks there may be, so that every
statement holds in spite of them. Intervals are Student's, on pairs of regrets on the same luck.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits import moments
from heterobandits.results import Integers, binary_places
from heterobandits.sweeps.points import Point, Row, Trials, squared, whole
from heterobandits.sweeps.spec import Stopping

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Stopped = Literal["fixed", "told apart", "narrow", "same", "limit"]

VERDICTS = ("ahead", "unclear", "same", "behind")
SAME_TRIALS = (
    300  # in which policies that differ in 1 % of the trials are alike with probability 0.05
)


def looks(stopping: Stopping) -> list[int]:
    """The numbers of trials after which a point is looked at: doubled, and the most in the end.

    >>> looks(Stopping(64, 200, 0.01, None, 0.95))
    [64, 128, 200]
    """
    return doubled(stopping.trials, stopping.most_trials)


def doubled(first: int, most: int) -> list[int]:
    """A number, twice that, and so on, up to the most."""
    found = [first]
    while found[-1] < most:
        found.append(min(2 * found[-1], most))
    return found


@dataclass(frozen=True)
class Levels:
    """The confidence of single statements, such that all of a point hold together.

    Attributes
    ----------
    interval
        Of an interval for one pair of policies, in spite of all looks.
    verdict
        Of the difference of two policies, such that no pair is put in the wrong order with more than the error that is
        allowed, in spite of all looks and pairs.
    """

    interval: float
    verdict: float


def levels(stopping: Stopping, policies: int) -> Levels:
    """Those of a point with so many policies."""
    count = len(looks(stopping))
    error = 1.0 - (stopping.confidence if stopping.separate is None else stopping.separate)
    return Levels(
        interval=1.0 - (1.0 - stopping.confidence) / count,
        verdict=1.0 - error / (count * max(1, policies * (policies - 1) // 2)),
    )


class Totals(NamedTuple):
    """Exact sums of some points with as many policies and checkpoints, as `moments` takes them.

    Attributes
    ----------
    trials, places
        One for each point.
    sums, products
        [point, policy, checkpoint] and [point, policy, policy, checkpoint].
    """

    trials: Integers
    places: Integers
    sums: Integers
    products: Integers

    def pair(self, p: Any, q: Any) -> tuple[Any, ...]:
        """Policies p and q, whole arrays of them if wished, as `moments` takes them: [point, pair, checkpoint]."""
        n, places = (part[:, None, None] for part in (self.trials, self.places))
        sums, products = self.sums, self.products
        return (
            *(n, places, sums[:, p], sums[:, q]),
            *(products[:, p, p], products[:, p, q], products[:, q, q]),
        )


def totals(point: Point, rows: list[Row]) -> Totals:
    """Those of one point, from all its pieces."""
    P, K = len(point.policies), len(point.rounds)
    trials = np.empty(1, object)
    trials[0] = sum(row.last - row.first for row in rows)
    places = np.full(1, binary_places(point.horizon, sum(point.problem.tests)), object)
    sums = sum((whole(row.sums, (1, P, K)) for row in rows), np.zeros((1, P, K), object))
    products = sum(
        (squared(row.products, P, K)[None] for row in rows), np.zeros((1, P, P, K), object)
    )
    return Totals(trials, places, np.asarray(sums), np.asarray(products))


class Compared(NamedTuple):
    """Every policy beside the one with the least mean regret, [point, policy, checkpoint].

    Attributes
    ----------
    best
        That policy, [point, checkpoint].
    apart
        Whether a policy has certainly more regret; never so for the best.
    same
        Whether it has as much regret in every trial; always so for the best.
    """

    best: npt.NDArray[np.intp]
    apart: Bools
    same: Bools


def compared(of: Totals, level: float) -> Compared:
    """Every policy beside the best at its point and checkpoint."""
    means = moments.mean(of.trials[:, None, None], of.places[:, None, None], of.sums)
    best = means.argmin(axis=1)
    point, checkpoint = np.indices(best.shape)
    every = np.arange(of.sums.shape[1])
    mean, error = moments.difference(
        *(of.trials[:, None, None], of.places[:, None, None]),
        *(of.sums, of.sums[point, best, checkpoint][:, None]),
        of.products[:, every, every],
        np.moveaxis(of.products[point, :, best, checkpoint], 2, 1),
        of.products[point, best, best, checkpoint][:, None],
    )
    reach = moments.reach(level, of.trials)[:, None, None]
    return Compared(best, mean - reach * error > 0, (mean == 0) & ~(error > 0))


def verdicts(of: Totals, level: float) -> npt.NDArray[np.object_]:
    """What can be said of every policy, [point, policy, checkpoint]: one of VERDICTS.

    It is ahead if it has certainly less regret than every other, and behind if another, that with the least, has certainly
    less. Several that have as little in every trial are the same.
    """
    _, apart, same = compared(of, level)
    P = apart.shape[1]
    lone = same.sum(axis=1, keepdims=True) == 1
    ahead = same & lone & (apart.sum(axis=1, keepdims=True) == P - 1)
    out = np.full(apart.shape, "unclear", object)
    out[same & ~lone] = "same"
    out[apart] = "behind"
    out[ahead] = "ahead"
    return out


def log_widths(of: Totals, other: int, level: float) -> Floats:
    """By which factor, as a logarithm, the intervals of all ratios to one policy's regret reach to each side, [point, policy, checkpoint]."""
    P = of.sums.shape[1]
    _, error = moments.log_ratio(*of.pair(np.arange(P), np.full(P, other)))
    return np.asarray(moments.reach(level, of.trials)[:, None, None] * error)


def equal_to(of: Totals, other: int) -> Bools:
    """Whether a policy has as much regret as another one in every trial, [point, policy, checkpoint]."""
    P = of.sums.shape[1]
    mean, error = moments.difference(*of.pair(np.arange(P), np.full(P, other)))
    return np.asarray((mean == 0) & ~(error > 0))


def stopped(of: Totals, stopping: Stopping, reference: int) -> Stopped | None:
    """Why no more trials of a single point are needed, at its last checkpoint; None if they are.

    With `precision` alone every policy's ratio to the reference is to be narrow enough; with `separate` every policy is to be
    told apart from the best; with both one or the other is enough, the ratio being that to the best.
    """
    if stopping.precision is None and stopping.separate is None:
        return "fixed"
    last = Totals(of.trials, of.places, of.sums[..., -1:], of.products[..., -1:])
    level = levels(stopping, of.sums.shape[1])
    best, apart, same = compared(last, level.verdict)
    n = int(of.trials[0])
    # that several were alike in a few trials says little
    alike, told = same[0, :, 0] & (n >= SAME_TRIALS), apart[0, :, 0]
    alike[int(best[0, 0])] = True
    if stopping.separate is not None and (told | alike).all():
        return "told apart" if alike.sum() == 1 else "same"
    if stopping.precision is not None:
        other = reference if stopping.separate is None else int(best[0, 0])
        equal = equal_to(last, other)[0, :, 0]
        settled = log_widths(last, other, level.interval)[0, :, 0] <= np.log1p(stopping.precision)
        settled &= ~equal  # an interval without width is none
        settled |= equal & (n >= SAME_TRIALS)
        settled[other] = True
        if stopping.separate is not None:
            settled |= told
        if settled.all():
            return "narrow"
    return "limit" if n >= stopping.most_trials else None


@dataclass(frozen=True)
class Looked:
    """A point as a job of the runner: trials until it is known well enough."""

    point: Point
    stopping: Stopping
    reference: int

    def wants(self, rows: list[Row]) -> list[Trials]:
        """The trials up to the next look."""
        done = sum(row.last - row.first for row in rows)
        if done >= self.stopping.most_trials:
            return []
        if done and stopped(totals(self.point, rows), self.stopping, self.reference) is not None:
            return []
        up_to = next(n for n in looks(self.stopping) if n > done)
        return self.point.pieces(range(done, up_to))
