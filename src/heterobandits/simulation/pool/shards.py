"""Where pieces are kept: Parquet files that are the result and the restart log in one.

A file has a row for each piece in it and is named by the digest of which these are. It is written aside and put in place
when it is complete, so a run may be killed at any moment, and two runs may share a folder: they write the same rows. A file
that cannot be read is put out of the way, and its pieces are played again. Sums are kept exactly, as decimals
without a fraction.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heterobandits.output.files import explain_write_errors, write_atomic
from heterobandits.output.parquet import ParquetReader
from heterobandits.simulation.pool.pieces import PieceKey, PieceResult, short_digest

SHARD_FORMAT = 2
SHARD_METADATA_KEY = b"heterobandits_shard"
DECIMAL_TYPE = pa.decimal256(76, 0)  # two to the 251 and more
DECIMAL_BYTES = 32
SHARD_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("definition", pa.string()),
        ("sums", pa.list_(DECIMAL_TYPE)),
        ("products", pa.list_(DECIMAL_TYPE)),
        ("seconds", pa.list_(pa.float64())),
        ("kept", pa.list_(pa.float64())),
        ("largest", pa.list_(pa.float64())),
        ("failed", pa.list_(pa.int64())),
        ("digest", pa.string()),  # of all the others
    ],
    metadata={SHARD_METADATA_KEY: str(SHARD_FORMAT).encode()},
)
# and what is left of one half written
SHARD_FILE_PATTERN = re.compile(r"[0-9a-f]{32}\.parquet(\.[0-9a-f]{8})?")
STALE_FILE_AGE_S = 3600  # after which nobody is writing it any more
PIECE_KEY_COLUMNS = ["key", "first", "last"]
SHARD_CACHE_MAX_FILES = 16  # of which the rows are kept in memory
DAMAGE_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, UnicodeDecodeError)

OnNote = Callable[[str], None]


class ShardStore:
    """The pieces stored in a folder, or only in memory if there is none.

    `note` is told, in a line for a person, of every file that cannot be used.
    """

    def __init__(self, folder: Path | None, note: OnNote = lambda text: None) -> None:
        self.folder = folder
        self.note = note
        self._files: dict[PieceKey, Path] = {}
        self._rows: OrderedDict[Path, dict[PieceKey, PieceResult]] = OrderedDict()
        self._waiting: dict[PieceKey, PieceResult] = {}
        self._began = self._written = time.monotonic()
        for path in [] if folder is None else sorted(folder.glob("*.parquet*")):
            if not path.is_file() or not SHARD_FILE_PATTERN.fullmatch(path.name):
                continue
            if path.suffix != ".parquet":
                _delete_stale(path)
                continue
            for place in self._places(path):
                self._files.setdefault(place, path)

    def clear(self) -> None:
        """Begin anew: what was kept here by earlier runs is deleted."""
        for path in set(self._files.values()):
            with explain_write_errors(path.parent):
                path.unlink(missing_ok=True)
        self._files.clear()
        self._rows.clear()

    def __contains__(self, place: PieceKey) -> bool:
        return place in self._files or place in self._waiting

    def __iter__(self) -> Iterator[PieceKey]:
        return iter([*self._files, *self._waiting])

    def row(self, place: PieceKey) -> PieceResult | None:
        """What is kept of a piece, if it is there and can be read."""
        if place in self._waiting:
            return self._waiting[place]
        path = self._files.get(place)
        if path is None:
            return None
        if path not in self._rows:
            self._rows[path] = {row.place: row for row in self._read(path)}
            while len(self._rows) > SHARD_CACHE_MAX_FILES:
                self._rows.popitem(last=False)
        self._rows.move_to_end(path)
        row = self._rows[path].get(place)
        if row is None:
            del self._files[place]
        return row

    def add(self, row: PieceResult) -> None:
        """Keep a piece, on the disk soon."""
        if row.place not in self:
            self._waiting[row.place] = row

    def write(self) -> None:
        """Write what is not on the disk yet."""
        if not self._waiting or self.folder is None:
            return
        rows = sorted(self._waiting.values(), key=lambda row: row.place)
        path = self.folder / f"{short_digest(repr([row.place for row in rows]))}.parquet"
        with explain_write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, lambda aside: _write_shard(aside, rows))
        self._files.update(dict.fromkeys(self._waiting, path))
        self._waiting.clear()
        self._written = time.monotonic()

    def write_if_due(self, least: float = 2.0, share: float = 0.01) -> None:
        """Write if the last time is some seconds ago, or a share of the time since the beginning if that is more.

        So a kill costs little of what was done, and a long run has no more files than can be read quickly.
        """
        now = time.monotonic()
        if now - self._written >= max(least, share * (now - self._began)):
            self.write()

    def _places(self, path: Path) -> list[PieceKey]:
        """Which pieces lie in a file; none if it cannot be read."""
        try:
            found = ParquetReader(path)
            if (found.schema.metadata or {}).get(SHARD_METADATA_KEY) != SHARD_SCHEMA.metadata[
                SHARD_METADATA_KEY
            ]:
                self.note(f"{path} is no shard of this version, and is left alone")
                return []
            table = found.read(PIECE_KEY_COLUMNS)
            return list(zip(*(table[name].to_pylist() for name in PIECE_KEY_COLUMNS), strict=True))
        except DAMAGE_ERRORS as error:
            self._complain(path, error)
            return []

    def _read(self, path: Path) -> Iterator[PieceResult]:
        """The rows of a file; none if it is damaged, and it is put out of the way."""
        try:
            yield from _rows_of_shard(ParquetReader(path).read())
        except (*DAMAGE_ERRORS, TypeError) as error:
            self._complain(path, error)

    def _complain(self, path: Path, error: Exception) -> None:
        reason = " ".join(str(error).split())[:200]
        self.note(f"{path} cannot be used, and what it had is run again: {reason}")
        with suppress(OSError):
            path.rename(path.with_suffix(".damaged"))


def _write_shard(path: Path, rows: Sequence[PieceResult]) -> None:
    """The rows as a Parquet file."""
    columns: list[Any] = [
        pa.array([getattr(row, field.name) for row in rows], field.type)
        for field in SHARD_SCHEMA
        if field.name not in ("sums", "products", "digest")
    ]
    columns.append(pa.array([row_digest(row) for row in rows]))
    columns[4:4] = [
        _column_of_lists([getattr(row, name) for row in rows]) for name in ("sums", "products")
    ]
    with path.open("wb") as file:  # pyarrow takes no path that is not UTF-8
        table = pa.Table.from_arrays(columns, schema=SHARD_SCHEMA)
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def _column_of_lists(lists: Sequence[Sequence[int]]) -> Any:
    """Lists of whole numbers as a column; a decimal is, in memory, its 32 bytes."""
    flat = b"".join(
        n.to_bytes(DECIMAL_BYTES, "little", signed=True) for numbers in lists for n in numbers
    )
    ends = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    values = pa.Array.from_buffers(DECIMAL_TYPE, int(ends[-1]), [None, pa.py_buffer(flat)])
    return pa.ListArray.from_arrays(pa.array(ends), values)


def _lists_of_column(column: Any) -> Iterator[list[int]]:
    """The lists of whole numbers of a column."""
    for chunk in column.chunks:
        ends = chunk.offsets.to_numpy()
        values = chunk.values
        data = (
            memoryview(values.buffers()[1])[DECIMAL_BYTES * values.offset :] if len(values) else b""
        )
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            yield [
                int.from_bytes(
                    data[DECIMAL_BYTES * i : DECIMAL_BYTES * (i + 1)], "little", signed=True
                )
                for i in range(first, last)
            ]


def _rows_of_shard(table: Any) -> Iterable[PieceResult]:
    """The rows of a table."""
    if not table.schema.equals(SHARD_SCHEMA):
        raise ValueError("not the columns of a shard")
    plain = (
        _lists_of_column(table[field.name])
        if field.name in ("sums", "products")
        else table[field.name].to_pylist()
        for field in SHARD_SCHEMA
    )
    rows = []
    for *values, digest_ in zip(*plain, strict=True):
        row = PieceResult(*values)
        if row_digest(row) != digest_:
            raise ValueError("a row that is not as it was written")
        rows.append(row)
    return rows


def row_digest(row: PieceResult) -> str:
    """A digest of a row, so that no damage goes unnoticed."""
    return short_digest(repr(tuple(row)))


def _delete_stale(path: Path) -> None:
    """Delete a partly written file that a killed process left."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > STALE_FILE_AGE_S:
            path.unlink()
