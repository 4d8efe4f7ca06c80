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

from heterobandits.output.files import write_atomic
from heterobandits.output.parquet import ParquetReader
from heterobandits.simulation import moments
from heterobandits.simulation.pool.pieces import (
    render_definition,
    short_digest,
    versions_of_results,
)
from heterobandits.sweeps.grammar import AxisInterval
from heterobandits.sweeps.spec import Chosen, Spec
from heterobandits.sweeps.stopping import (
    POINT_VERDICTS,
    PointTotals,
    StopReason,
    levels_of_point,
    log_widths,
    verdicts_of_points,
)

SWEEP_FORMAT = 2
SWEEP_METADATA_KEY = b"heterobandits_sweep"
RESULTS_FILE, PAIRS_FILE = "results.parquet", "pairs.parquet"
SIZE_COLUMNS = ("agents", "arms", "horizon")
STOP_REASONS = ("fixed", "told apart", "narrow", "same", "limit")
BATCH_MAX_PRODUCTS = 2**15  # products of pairs from which numbers are made at once


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
    stopped: StopReason


def sweep_digest(spec: Spec) -> str:
    """A digest that identifies a sweep: its specification, and everything that can change a number."""
    return short_digest(
        render_definition(
            {"format": SWEEP_FORMAT, "spec": spec.to_dict(), "made_with": versions_of_results()}
        )
    )


def description_of_sweep(spec: Spec, failed: int) -> dict[str, Any]:
    """What the tables say of themselves."""
    stopping = spec.stopping
    return {
        "format": SWEEP_FORMAT,
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
        "made_with": versions_of_results(),
        "spec": spec.to_dict(),
    }


class SweepTables:
    """The two tables, filled as points come in, in any order."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._labels = [entry.label for entry in spec.policies]
        self._reference = self._labels.index(spec.reference)
        self._levels = levels_of_point(spec.stopping, len(self._labels))
        self._confidence = spec.stopping.confidence
        self._new: list[FinishedPoint] = []
        self._parts: tuple[list[Any], list[Any]] = ([], [])

    def add(self, known: FinishedPoint) -> None:
        """One point more."""
        self._new.append(known)
        if len(self._new) * known.totals.products.size >= BATCH_MAX_PRODUCTS:
            self._make()

    def write(self, folder: Path, failed: int) -> None:
        """Put both in place, sorted."""
        self._make()
        note = {
            SWEEP_METADATA_KEY: json.dumps(
                description_of_sweep(self.spec, failed), sort_keys=True
            ).encode()
        }
        # or the two would be of different sweeps for a while
        if not _has_description(folder / RESULTS_FILE, note):
            (folder / RESULTS_FILE).unlink(missing_ok=True)
        empty = self._tables([], 1)
        for name, parts, none in zip(
            (PAIRS_FILE, RESULTS_FILE), self._parts[::-1], empty[::-1], strict=True
        ):
            table = pa.concat_tables([none, *parts])
            # pieces come in any order; within a point the rows are in theirs
            order = np.argsort(table["point"].to_numpy(), kind="stable")
            table = table.take(pa.array(order)).combine_chunks().replace_schema_metadata(note)
            write_atomic(folder / name, partial(_write_table, table))

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
        of = _join_totals(empty, [k.totals for k in points])
        seen = _join_totals(empty, [k.looked for k in points])
        return self._results(points, of, seen), self._pairs(points, of)

    def _results(self, points: list[FinishedPoint], of: PointTotals, seen: PointTotals) -> Any:
        P, K = of.sums.shape[1:]
        n, places = (part[:, None, None] for part in (of.trials, of.places))
        squares = of.products[:, np.arange(P), np.arange(P)]
        policies = np.broadcast_to(np.arange(P)[None, :, None], of.sums.shape)
        all_, reference = np.arange(P), np.full(P, self._reference)
        ratio, _ = moments.log_ratio(*of.pair(all_, reference))
        factor = np.exp(log_widths(of, self._reference, self._confidence))
        said, sure = verdicts_of_points(seen, self._levels)
        why = [STOP_REASONS.index(known.stopped) for known in points]
        columns = {
            **self._where(points, P, K),
            "policy": _names_of_numbers(policies, self._labels),
            "round": self._rounds(points, P),
            "trials": _repeat_values(of.trials, P * K),
            "mean": moments.mean_of_sums(n, places, of.sums),
            "se": moments.standard_error_of_sums(n, places, of.sums, squares),
            "ratio": ratio,
            "ratio_lower": ratio / factor,
            "ratio_upper": ratio * factor,
            "verdict": _names_of_numbers(
                np.vectorize(POINT_VERDICTS.index, otypes=[int])(said), POINT_VERDICTS
            ),
            "sure": sure,
            "played": _repeat_values([known.played for known in points], P * K),
            "largest": _stack_tables([known.largest for known in points], np.float64),
            "failed": _stack_tables([known.failed for known in points], np.int64),
            "stopped": _names_of_numbers(np.repeat(np.array(why, int), P * K), STOP_REASONS),
        }
        return _arrow_table(columns)

    def _pairs(self, points: list[FinishedPoint], of: PointTotals) -> Any:
        P, K = of.sums.shape[1:]
        p, q = np.triu_indices(P, 1)
        pairs = of.pair(p, q)
        reach = moments.student_quantile(self._confidence, of.trials)[:, None, None]
        difference, error = moments.paired_difference(*pairs)
        ratio, log_error = moments.log_ratio(*pairs)
        factor = np.exp(reach * log_error)
        shape = difference.shape
        columns = {
            **self._where(points, len(p), K),
            "policy": _names_of_numbers(np.broadcast_to(p[None, :, None], shape), self._labels),
            "other": _names_of_numbers(np.broadcast_to(q[None, :, None], shape), self._labels),
            "round": self._rounds(points, len(p)),
            "trials": _repeat_values(of.trials, len(p) * K),
            "difference": difference,
            "difference_se": error,
            "difference_lower": difference - reach * error,
            "difference_upper": difference + reach * error,
            "ratio": ratio,
            "ratio_lower": ratio / factor,
            "ratio_upper": ratio * factor,
        }
        return _arrow_table(columns)

    def _where(self, points: list[FinishedPoint], rows: int, K: int) -> dict[str, Any]:
        """The columns that say which point it is."""
        each = rows * K
        columns: dict[str, Any] = {"point": _repeat_values([k.number for k in points], each)}
        for path in self.spec.axes:
            if path not in SIZE_COLUMNS:
                values = pa.array([k.chosen.axes[path] for k in points], axis_type(self.spec, path))
                columns[path] = values.take(pa.array(np.repeat(np.arange(len(points)), each)))
        sizes = [(k.chosen.problem.agents, k.chosen.problem.arms, k.chosen.horizon) for k in points]
        table = np.array(sizes, np.int64).reshape(-1, 3)
        columns |= {name: _repeat_values(table[:, i], each) for i, name in enumerate(SIZE_COLUMNS)}
        return columns

    def _rounds(self, points: list[FinishedPoint], rows: int) -> Any:
        return np.array([[k.chosen.rounds] * rows for k in points], np.int64)


def axis_type(spec: Spec, path: str) -> Any:
    """The type of an axis: whole numbers, other numbers, or texts."""
    if path == "draw":
        return pa.int64()
    law = spec.grid[path] if path in spec.grid else spec.random[path]
    if isinstance(law, AxisInterval):
        return pa.int64() if law.whole else pa.float64()
    if any(isinstance(value, str) for value in law):
        return pa.string()
    return pa.int64() if all(isinstance(value, int) for value in law) else pa.float64()


def _join_totals(empty: PointTotals, points: list[PointTotals]) -> PointTotals:
    """The totals of several points, joined."""
    return PointTotals(*(np.concatenate(part) for part in zip(empty, *points, strict=True)))


def _stack_tables(tables: list[Any], dtype: Any) -> Any:
    return np.concatenate([np.zeros(0, dtype), *(np.ravel(table) for table in tables)]).astype(
        dtype
    )


def _repeat_values(values: Any, times: int) -> Any:
    return np.repeat(np.asarray(values, np.int64), times)


def _names_of_numbers(numbers: Any, names: Any) -> Any:
    """Numbers as the names they stand for."""
    indices = pa.array(np.ravel(numbers).astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(names), pa.string()))


def _arrow_table(columns: dict[str, Any]) -> Any:
    arrays = {
        name: pa.array(np.ravel(values)) if isinstance(values, np.ndarray) else values
        for name, values in columns.items()
    }
    return pa.table(arrays)


def _has_description(path: Path, note: dict[bytes, bytes]) -> bool:
    """Whether a table says this of itself."""
    try:
        return bool(ParquetReader(path).schema.metadata == note)
    except (OSError, pa.ArrowException):
        return False


def _write_table(table: Any, path: Path) -> None:
    with path.open("wb") as file:  # pyarrow takes no path that is not UTF-8
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)
