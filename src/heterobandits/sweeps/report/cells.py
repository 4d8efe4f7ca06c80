"""The cells of a sweep: its points arranged on a plane or a line, and summed up.

Two axes span a plane, or one a line; points that differ in other axes or draws fall into one cell. A cell sums up its
points, which are different problems, by these rules:

- Its numbers are of the last round. Regrets are compared by the geometric mean of their ratios over the points; where
  one of them is 0 at some point, by the ratio of their means. Points where nobody has regret say nothing, and are left out.
- The winner has the least geometric mean of regret; where some regret is 0, the least mean.
- It wins clearly if it is ahead at every point, or if Student's intervals over the draws for its logarithmic ratio to
  every other policy, all of them together at the sweep's confidence, lie below 0 (its difference, where some regret is 0).
  Points of one draw share their luck, and count as one: as their mean.
- Policies whose regret is the least and the same in every trial of every point are tied, if each other policy is behind at every point
  or, by such intervals, clearly has more; else it is unclear which has the least.
- Where points were looked at until they were known well enough, their numbers are of the trials after the last look: whoever stops when
  a difference is large finds it too large, and all points of a cell would err to the same side.
- A ratio to the reference is clear if its interval excludes 1: that of the point where the cell has one, else Student's
  over the draws; or if the intervals of all its points lie on the same side of 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import Flags, Floats, Integers
from heterobandits.errors import InvalidInput, unknown_name
from heterobandits.sweeps.reading import read_sweep
from heterobandits.sweeps.report.text import axis_in_words, render_numbers
from heterobandits.sweeps.stopping import POINT_VERDICTS
from heterobandits.sweeps.tables import SIZE_COLUMNS

if TYPE_CHECKING:
    import pandas as pd


# axes that only draw anew: no plane is made of them unless it is asked for
LUCK_AXES = ("draw", "seed")
AXIS_MAX_VALUES = 40  # of an axis that is drawn value by value
AXIS_MAX_BINS = 12
CELL_TARGET_POINTS = 8  # that bins are made for: of fewer, intervals over points say little


@dataclass(frozen=True)
class PointTables:
    """The last round of every point; tables have a row for each point and a column for each policy."""

    places: "pd.DataFrame"  # where each stands on the axes, its trials, and why it stopped
    axes: list[str]
    policies: list[str]
    reference: int
    confidence: float
    regrets: Floats
    lower: Floats  # of the ratio to the reference
    upper: Floats
    verdicts: npt.NDArray[np.int8]  # positions in VERDICTS
    sure: Flags  # whether a verdict holds whatever seldom fails
    largest: Floats  # of all trials that were played
    failed: Integers
    draws: Integers  # whose luck is whose

    def have(self, verdict: str) -> Flags:
        """Which policies have this verdict at which points."""
        return np.asarray(self.verdicts == POINT_VERDICTS.index(verdict))


@dataclass(frozen=True)
class AxisScale:
    """An axis as it is drawn: the values or bins on it, and where each point falls."""

    name: str
    labels: list[str]
    values: Floats | None  # of each label, the median of a bin; None for texts
    codes: Integers
    binned: str  # what to say of bins, if there are any

    @property
    def title(self) -> str:
        """The name of the axis in words, where that is no riddle."""
        return axis_in_words(self.name)


@dataclass(frozen=True)
class CellRatios:
    """The regret of one policy over that of another in every cell; NaN where there is nothing to compare."""

    ratio: Floats
    lower: Floats
    upper: Floats
    side: Integers  # -1 if the interval lies below, 1 if it lies above, 0 if it does neither
    by_mean: Flags  # where the ratio is that of the means


@dataclass(frozen=True)
class MapCells:
    """The cells that have points, in the order of the second axis, then the first."""

    columns: Integers  # their places on the axes
    rows: Integers
    points: Integers
    trials: Integers
    winner: Integers
    state: list[str]  # "clear", "unclear" or "tied"
    tied: Flags  # a row for each cell, a column for each policy
    ratios: list[CellRatios]  # of each policy to the reference

    def are(self, state: str) -> Flags:
        """Which cells are in this state."""
        return np.array([one == state for one in self.state], dtype=bool)


def read_points(folder: Path, told: dict[str, Any]) -> PointTables:
    """What is known of the last round of every point."""
    import pandas as pd
    import pyarrow.compute as pc

    labels = list(told["policies"])
    places = list(dict.fromkeys((*told["axes"], *SIZE_COLUMNS)))
    measured = ["mean", "ratio_lower", "ratio_upper", "largest"]
    counted = ["trials", "played", "failed", "sure"]
    wanted = ["point", *places, "policy", "round", *counted, *measured, "verdict", "stopped"]
    at_the_end = pc.field("round") == pc.field("horizon")
    last = read_sweep(folder, "results", wanted, at_the_end)
    numbers, first, rows = np.unique(
        last["point"].to_numpy(), return_index=True, return_inverse=True
    )
    columns = pd.Index(labels).get_indexer(pd.Index(last["policy"].astype(object)))
    filled = np.zeros((len(numbers), len(labels)), dtype=bool)
    filled[rows[columns >= 0], columns[columns >= 0]] = True
    if len(numbers) == 0:
        raise InvalidInput(f"the sweep in {folder} has no points that were run: nothing to report")
    if len(last) != filled.size or not filled.all():
        raise InvalidInput(
            f"results.parquet in {folder} is damaged: not one row for each point and policy"
        )

    def table(values: Any, dtype: Any = np.float64) -> npt.NDArray[Any]:
        out = np.empty(filled.shape, dtype=dtype)
        out[rows, columns] = values
        return out

    verdicts = pd.Index(POINT_VERDICTS).get_indexer(pd.Index(last["verdict"].astype(object)))
    regrets, lower, upper, largest = (table(last[name].to_numpy(np.float64)) for name in measured)
    if (verdicts < 0).any() or not (regrets >= 0).all():
        raise InvalidInput(
            f"results.parquet in {folder} is damaged: a verdict or regret that is none"
        )
    return PointTables(
        places=last.iloc[first][["point", *places, "trials", "played", "stopped"]].reset_index(
            drop=True
        ),
        axes=list(told["axes"]),
        policies=labels,
        reference=labels.index(told["reference"]),
        confidence=float(told["confidence"]),
        regrets=regrets,
        lower=lower,
        upper=upper,
        verdicts=table(verdicts, np.int8),
        sure=table(last["sure"].to_numpy(bool), bool),
        largest=largest,
        failed=table(last["failed"].to_numpy(np.int64), np.int64),
        draws=draws_of(last.iloc[first]),
    )


def draws_of(places: "pd.DataFrame") -> Integers:
    """The draw of every point."""
    if "draw" not in places:
        return np.zeros(len(places), np.int64)
    return np.asarray(places["draw"].to_numpy(np.int64))


def scales_of(
    places: "pd.DataFrame", axes: Sequence[str], x: str | None, y: str | None
) -> list[AxisScale]:
    """The axes that are drawn, the horizontal one first: two, one or none."""
    names = choose_axes(places, axes, x, y)
    exact = [scale_of(places, name) for name in names]
    sizes = math.prod(len(scale.labels) for scale in exact)
    sparse = len(np.unique(cell_codes_of(exact))) < sizes / 2 if len(exact) == 2 else False
    wanted = len(places) / CELL_TARGET_POINTS
    bins = max(3, min(AXIS_MAX_BINS, int(math.sqrt(wanted) if len(exact) == 2 else wanted)))
    return [
        scale_of(places, scale.name, bins)
        if scale.values is not None and len(scale.labels) > (bins if sparse else AXIS_MAX_VALUES)
        else scale
        for scale in exact
    ]


def choose_axes(
    places: "pd.DataFrame", axes: Sequence[str], x: str | None, y: str | None
) -> list[str]:
    """The names of the axes that are drawn."""
    known = list(dict.fromkeys((*axes, *SIZE_COLUMNS)))
    for name in (x, y):
        if name is not None and name not in known:
            raise unknown_name("axis", name, known)
    if x is not None and x == y:
        raise InvalidInput(f"x and y are both {x!r}: two axes span a plane")
    counts = places[list(axes)].nunique()
    free = [name for name in axes if counts[name] > 1 and name not in (x, y)]
    free = [name for name in free if name.rpartition(".")[2] not in LUCK_AXES]
    free.sort(key=lambda name: (not is_numeric_axis(places, name), -counts[name]))
    if x is None:
        x = free.pop(0) if free else None
    if y is None:
        y = free.pop(0) if free else None
    return [name for name in (x, y) if name is not None]


def is_numeric_axis(places: "pd.DataFrame", name: str) -> bool:
    """Whether an axis is one of numbers."""
    return places.dtypes[name].kind in "iuf"


def scale_of(places: "pd.DataFrame", name: str, bins: int | None = None) -> AxisScale:
    """An axis with all its values, numbers in ascending order, or with so many bins of about as many points."""
    import pandas as pd

    if not is_numeric_axis(places, name):
        codes, texts = pd.factorize(places[name].astype(object))
        return AxisScale(name, [str(text) for text in texts], None, codes.astype(np.int64), "")
    numbers = places[name].to_numpy()
    if bins is None:
        values, codes = np.unique(numbers, return_inverse=True)
        return AxisScale(name, render_numbers(values), values.astype(float), codes, "")
    inner = np.unique(np.quantile(numbers, np.linspace(0, 1, bins + 1))[1:-1])
    codes = np.unique(np.searchsorted(inner, numbers, side="right"), return_inverse=True)[1]
    groups = pd.Series(numbers).groupby(codes)
    ends = zip(render_numbers(groups.min()), render_numbers(groups.max()), strict=True)
    labels = [low if low == high else f"{low} – {high}" for low, high in ends]
    said = (
        f"{axis_in_words(name)} has {len(np.unique(numbers)):,} values: they stand in {len(labels)} bins "
        "with about as many points each"
    )
    return AxisScale(name, labels, groups.median().to_numpy(np.float64), codes, said)


def cell_codes_of(scales: Sequence[AxisScale]) -> Integers:
    """The cell of each point: a number that grows with the second axis, then with the first."""
    if not scales:
        raise ValueError("no axis")
    first = scales[0]
    codes = first.codes if len(scales) == 1 else scales[1].codes * len(first.labels) + first.codes
    return np.asarray(codes, dtype=np.int64)


def cells_of(points: PointTables, scales: Sequence[AxisScale]) -> MapCells:
    """Every cell that has points, summed up by the rules at the top of this module."""
    regrets, P = points.regrets, len(points.policies)
    codes = cell_codes_of(scales) if scales else np.zeros(len(regrets), np.int64)
    numbers, cell = np.unique(codes, return_inverse=True)
    C = len(numbers)
    width = len(scales[0].labels) if scales else 1
    telling: Flags = np.any(regrets > 0, axis=1)
    zero = any_in_cells(telling & np.any(regrets == 0, axis=1), cell, C)
    with np.errstate(divide="ignore"):
        logs = np.where(telling[:, None], np.log(regrets), 0.0)
    scores = np.where(zero[cell, None], regrets, logs)
    totals = np.stack([np.bincount(cell, scores[:, p], C) for p in range(P)], axis=1)
    winner = totals.argmin(axis=1)
    mine = winner[cell]
    everyone = np.arange(len(cell))
    tail = (1 - points.confidence) / 2 / max(1, P - 1)
    beaten = np.zeros((C, P), dtype=bool)
    for p in range(P):
        pair = ratios_in_cells(
            regrets[everyone, mine], regrets[:, p], cell, C, points.draws, tail, telling, zero
        )
        beaten[:, p] = pair.side < 0
    ahead = points.have("ahead")[everyone, mine]
    some = any_in_cells(telling, cell, C)
    beats = (beaten | (winner[:, None] == np.arange(P))).all(axis=1)
    clear = some & (beats | all_in_cells(ahead | ~telling, cell, C))
    same, behind = points.have("same"), points.have("behind") | ~telling[:, None]
    tied, below = (
        np.stack([all_in_cells(flags[:, p], cell, C) for p in range(P)], axis=1)
        for flags in (same, behind)
    )
    tied &= (tied.sum(axis=1) > 1)[:, None] & tied[np.arange(C), winner][:, None]
    # that two are the same says nothing of a third
    tied &= (tied | beaten | below).all(axis=1, keepdims=True)
    return MapCells(
        columns=numbers % width,
        rows=numbers // width,
        points=np.bincount(cell, minlength=C),
        trials=np.bincount(cell, points.places["trials"].to_numpy(float), C).astype(np.int64),
        winner=winner,
        state=np.select([tied.any(axis=1), clear], ["tied", "clear"], "unclear").tolist(),
        tied=tied,
        ratios=[ratios_to_reference(points, p, cell, C) for p in range(P)],
    )


def any_in_cells(flags: Flags, cell: Integers, count: int) -> Flags:
    """Which cells have a point with this flag."""
    return np.asarray(np.bincount(cell[flags], minlength=count) > 0)


def all_in_cells(flags: Flags, cell: Integers, count: int) -> Flags:
    """Which cells have only points with this flag."""
    return ~any_in_cells(~flags, cell, count)


def ratios_in_cells(
    first: Floats,
    second: Floats,
    cell: Integers,
    count: int,
    draws: Integers,
    tail: float,
    telling: Flags | None = None,
    by_mean: Flags | None = None,
) -> CellRatios:
    """Two regrets at every point compared in every cell; each end of an interval fails with probability `tail`.

    By their means where `by_mean` says so or, if it is not given, where one of the two is 0 at some point. Only at points that
    are `telling`: if that is not given, where one of the two is not 0.
    """
    telling = (first > 0) | (second > 0) if telling is None else telling
    zero = telling & ((first == 0) | (second == 0))
    by_mean = any_in_cells(zero, cell, count) if by_mean is None else by_mean
    first, second = first[telling], second[telling]
    cell, draws = cell[telling], draws[telling]
    means = by_mean[cell]
    values = first - second
    values[~means] = np.log(first[~means]) - np.log(second[~means])
    # points of one draw share their luck: their mean counts once
    pairs, unit = np.unique(np.stack([cell, draws]), axis=1, return_inverse=True)
    values = np.bincount(unit, values) / np.bincount(unit)
    of_unit = pairs[0]
    n = np.bincount(of_unit, minlength=count)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = np.bincount(of_unit, values, count) / n
        squares = np.bincount(of_unit, (values - mean[of_unit]) ** 2, count)
        half = student_quantiles(n - 1, tail) * np.sqrt(squares / (n - 1) / n)
        half = np.where(n > 1, half, math.inf)
        of_means = np.bincount(cell, first, count) / np.bincount(cell, second, count)
        ratio = np.where(by_mean, of_means, np.exp(mean))
        lower, upper = (np.where(by_mean, math.nan, np.exp(mean + s * half)) for s in (-1, 1))
        side = np.where(mean + half < 0, -1, np.where(mean - half > 0, 1, 0))
    return CellRatios(ratio, lower, upper, side, by_mean & (n > 0))


def student_quantiles(freedom: Integers, tail: float) -> Floats:
    """Student's quantile with this tail above it; infinite without a degree of freedom."""
    from scipy.stats import t

    degrees, where = np.unique(np.maximum(freedom, 0), return_inverse=True)
    found = [t.ppf(1 - tail, degree) if degree > 0 else math.inf for degree in degrees]
    return np.array(found, dtype=np.float64)[where]


def ratios_to_reference(points: PointTables, policy: int, cell: Integers, count: int) -> CellRatios:
    """The regret of a policy over that of the reference in every cell."""
    first, second = points.regrets[:, policy], points.regrets[:, points.reference]
    found = ratios_in_cells(first, second, cell, count, points.draws, (1 - points.confidence) / 2)
    lower, upper = points.lower[:, policy], points.upper[:, policy]
    telling = (first > 0) | (second > 0)
    some = any_in_cells(telling, cell, count)
    side = found.side.copy()
    side[some & all_in_cells(~telling | (upper < 1), cell, count)] = -1
    side[some & all_in_cells(~telling | (lower > 1), cell, count)] = 1
    alone = (np.bincount(cell[telling], minlength=count) == 1) & ~found.by_mean
    place = np.zeros(count, dtype=np.int64)
    place[cell[telling]] = np.flatnonzero(telling)
    return CellRatios(
        found.ratio,
        np.where(alone, lower[place], found.lower),
        np.where(alone, upper[place], found.upper),
        side,
        found.by_mean,
    )
