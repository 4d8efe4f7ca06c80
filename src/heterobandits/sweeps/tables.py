"""The tables of a sweep: `results.parquet`, a row for each point, policy and checkpoint, and `pairs.parquet`, one for each pair of policies.

They follow from the shards alone, in the order of the specification: the same bytes, however the sweep was run.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heterobandits.output.files import write_aside
from heterobandits.output.parquet import Parquet
from heterobandits.simulation import moments
from heterobandits.simulation.pool.pieces import (
    canonical_definition,
    made_with_versions,
    short_digest,
)
from heterobandits.sweeps.grammar import Interval
from heterobandits.sweeps.spec import Chosen, Spec
from heterobandits.sweeps.stopping import (
    VERDICTS,
    PointTotals,
    Stopped,
    levels,
    log_widths,
    verdicts,
)

FORMAT = 2
MARK = b"heterobandits_sweep"
RESULTS, PAIRS = "results.parquet", "pairs.parquet"
ALWAYS = ("agents", "arms", "horizon")
REASONS = ("fixed", "told apart", "narrow", "same", "limit")
TOGETHER = 2**15  # products of pairs from which numbers are made at once


class FinishedPoint(NamedTuple):
    """A finished point.

    Attributes
    ----------
    totals, looked
        Of the trials that give the numbers, and of those that gave the verdict.
    played, largest, failed
        How many trials there are of both kinds; their largest regret, and how many failed, [policy, checkpoint].
    """

    number: int
    chosen: Chosen
    totals: PointTotals
    looked: PointTotals
    played: int
    largest: Any
    failed: Any
    stopped: Stopped


def sweep_digest(spec: Spec) -> str:
    """What tells sweeps apart: the specification, and what can change a number."""
    return short_digest(
        canonical_definition(
            {"format": FORMAT, "spec": spec.to_dict(), "made_with": made_with_versions()}
        )
    )


def description_of_sweep(spec: Spec, failed: int) -> dict[str, Any]:
    """What the tables say of themselves."""
    stopping = spec.stopping
    return {
        "format": FORMAT,
        "digest": sweep_digest(spec),
        "title": spec.title,
        "axes": list(spec.axes),
        "policies": [entry.label for entry in spec.policies],
        "reference": spec.reference,
        "points": len(spec),
        "failed": failed,
        "confidence": stopping.confidence,
        "separate": stopping.separate,
        "precision": stopping.precision,
        "made_with": made_with_versions(),
        "spec": spec.to_dict(),
    }


class Tables:
    """The two tables as points come in, in any order."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._labels = [entry.label for entry in spec.policies]
        self._reference = self._labels.index(spec.reference)
        self._levels = levels(spec.stopping, len(self._labels))
        self._confidence = spec.stopping.confidence
        self._new: list[FinishedPoint] = []
        self._parts: tuple[list[Any], list[Any]] = ([], [])

    def add(self, known: FinishedPoint) -> None:
        """One point more."""
        self._new.append(known)
        if len(self._new) * known.totals.products.size >= TOGETHER:
            self._make()

    def write(self, folder: Path, failed: int) -> None:
        """Put both in place, sorted."""
        self._make()
        note = {MARK: json.dumps(description_of_sweep(self.spec, failed), sort_keys=True).encode()}
        if not _says(folder / RESULTS, note):  # or the two would be of different sweeps for a while
            (folder / RESULTS).unlink(missing_ok=True)
        empty = self._tables([], 1)
        for name, parts, none in zip((PAIRS, RESULTS), self._parts[::-1], empty[::-1], strict=True):
            table = pa.concat_tables([none, *parts])
            # pieces come in any order; within a point the rows are in theirs
            order = np.argsort(table["point"].to_numpy(), kind="stable")
            table = table.take(pa.array(order)).combine_chunks().replace_schema_metadata(note)
            write_aside(folder / name, partial(_write, table))

    def _make(self) -> None:
        """Turn the points that came in into rows."""
        for count in sorted({known.totals.sums.shape[-1] for known in self._new}):
            same = [known for known in self._new if known.totals.sums.shape[-1] == count]
            for parts, table in zip(self._parts, self._tables(same, count), strict=True):
                parts.append(table)
        self._new = []

    def _tables(self, points: list[FinishedPoint], K: int) -> tuple[Any, Any]:
        """The rows of points with as many checkpoints, of both tables."""
        P = len(self._labels)
        none, numbers = np.zeros(0, object), np.zeros((0, P, K), object)
        empty = PointTotals(none, none, numbers, np.zeros((0, P, P, K), object), np.zeros((0, K)))
        of = _together(empty, [k.totals for k in points])
        seen = _together(empty, [k.looked for k in points])
        return self._results(points, of, seen), self._pairs(points, of)

    def _results(self, points: list[FinishedPoint], of: PointTotals, seen: PointTotals) -> Any:
        P, K = of.sums.shape[1:]
        n, places = (part[:, None, None] for part in (of.trials, of.places))
        squares = of.products[:, np.arange(P), np.arange(P)]
        policies = np.broadcast_to(np.arange(P)[None, :, None], of.sums.shape)
        all_, reference = np.arange(P), np.full(P, self._reference)
        ratio, _ = moments.log_ratio(*of.pair(all_, reference))
        factor = np.exp(log_widths(of, self._reference, self._confidence))
        said, sure = verdicts(seen, self._levels)
        why = [REASONS.index(known.stopped) for known in points]
        columns = {
            **self._where(points, P, K),
            "policy": _named(policies, self._labels),
            "round": self._rounds(points, P),
            "trials": _repeated(of.trials, P * K),
            "mean": moments.mean(n, places, of.sums),
            "se": moments.standard_error(n, places, of.sums, squares),
            "ratio": ratio,
            "ratio_lower": ratio / factor,
            "ratio_upper": ratio * factor,
            "verdict": _named(np.vectorize(VERDICTS.index, otypes=[int])(said), VERDICTS),
            "sure": sure,
            "played": _repeated([known.played for known in points], P * K),
            "largest": _stacked([known.largest for known in points], np.float64),
            "failed": _stacked([known.failed for known in points], np.int64),
            "stopped": _named(np.repeat(np.array(why, int), P * K), REASONS),
        }
        return _table(columns)

    def _pairs(self, points: list[FinishedPoint], of: PointTotals) -> Any:
        P, K = of.sums.shape[1:]
        p, q = np.triu_indices(P, 1)
        pairs = of.pair(p, q)
        reach = moments.reach(self._confidence, of.trials)[:, None, None]
        difference, error = moments.difference(*pairs)
        ratio, log_error = moments.log_ratio(*pairs)
        factor = np.exp(reach * log_error)
        shape = difference.shape
        columns = {
            **self._where(points, len(p), K),
            "policy": _named(np.broadcast_to(p[None, :, None], shape), self._labels),
            "other": _named(np.broadcast_to(q[None, :, None], shape), self._labels),
            "round": self._rounds(points, len(p)),
            "trials": _repeated(of.trials, len(p) * K),
            "difference": difference,
            "difference_se": error,
            "difference_lower": difference - reach * error,
            "difference_upper": difference + reach * error,
            "ratio": ratio,
            "ratio_lower": ratio / factor,
            "ratio_upper": ratio * factor,
        }
        return _table(columns)

    def _where(self, points: list[FinishedPoint], rows: int, K: int) -> dict[str, Any]:
        """The columns that say which point it is."""
        each = rows * K
        columns: dict[str, Any] = {"point": _repeated([k.number for k in points], each)}
        for path in self.spec.axes:
            if path not in ALWAYS:
                values = pa.array([k.chosen.axes[path] for k in points], axis_type(self.spec, path))
                columns[path] = values.take(pa.array(np.repeat(np.arange(len(points)), each)))
        sizes = [(k.chosen.problem.agents, k.chosen.problem.arms, k.chosen.horizon) for k in points]
        table = np.array(sizes, np.int64).reshape(-1, 3)
        columns |= {name: _repeated(table[:, i], each) for i, name in enumerate(ALWAYS)}
        return columns

    def _rounds(self, points: list[FinishedPoint], rows: int) -> Any:
        return np.array([[k.chosen.rounds] * rows for k in points], np.int64)


def axis_type(spec: Spec, path: str) -> Any:
    """Whether an axis has whole numbers, others, or texts."""
    if path == "draw":
        return pa.int64()
    law = spec.grid[path] if path in spec.grid else spec.random[path]
    if isinstance(law, Interval):
        return pa.int64() if law.whole else pa.float64()
    if any(isinstance(value, str) for value in law):
        return pa.string()
    return pa.int64() if all(isinstance(value, int) for value in law) else pa.float64()


def _together(empty: PointTotals, points: list[PointTotals]) -> PointTotals:
    """The totals of several points as one."""
    return PointTotals(*(np.concatenate(part) for part in zip(empty, *points, strict=True)))


def _stacked(tables: list[Any], dtype: Any) -> Any:
    return np.concatenate([np.zeros(0, dtype), *(np.ravel(table) for table in tables)]).astype(
        dtype
    )


def _repeated(values: Any, times: int) -> Any:
    return np.repeat(np.asarray(values, np.int64), times)


def _named(numbers: Any, names: Any) -> Any:
    """Numbers as the names they stand for."""
    indices = pa.array(np.ravel(numbers).astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(names), pa.string()))


def _table(columns: dict[str, Any]) -> Any:
    arrays = {
        name: pa.array(np.ravel(values)) if isinstance(values, np.ndarray) else values
        for name, values in columns.items()
    }
    return pa.table(arrays)


def _says(path: Path, note: dict[bytes, bytes]) -> bool:
    """Whether a table says this of itself."""
    try:
        return bool(Parquet(path).schema.metadata == note)
    except (OSError, pa.ArrowException):
        return False


def _write(table: Any, path: Path) -> None:
    with path.open("wb") as file:  # pyarrow takes no path that is not UTF-8
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)
