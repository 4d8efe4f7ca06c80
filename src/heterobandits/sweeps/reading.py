"""Reading a sweep: its tables as data frames, by column, and what they say of themselves."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from heterobandits.errors import InvalidInput, parse_choice, parse_list, parse_path, unknown_name
from heterobandits.output.parquet import ParquetReader
from heterobandits.sweeps.tables import SWEEP_FORMAT, SWEEP_METADATA_KEY

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_sweep"]


SWEEP_TABLE_NAMES: tuple[Literal["results", "pairs"], ...] = ("results", "pairs")


def description_of(folder: str | Path, table: str = "results") -> dict[str, Any]:
    """What a sweep's table says about itself: title, axes, policies, specification, versions."""
    with _open_table(parse_path(folder, "folder"), table) as found:
        return _description_in(found)


def read_sweep(
    folder: str | Path,
    table: Literal["results", "pairs"] = "results",
    columns: Sequence[str] | None = None,
    where: Any = None,
) -> "pd.DataFrame":
    """A table of a finished sweep as a data frame; only what is asked for is read.

    Parameters
    ----------
    folder
        Where `heterobandits sweep` has put it.
    table
        "results" has a row for each point, policy and checkpoint; "pairs" one for each point, pair of policies and
        checkpoint, with their paired difference and ratio.
    columns
        Some of its columns; all by default.
    where
        Only the rows that fit, as `pyarrow.parquet.read_table` takes its filters: `[("agents", "==", 5)]`.
    """
    folder = parse_path(folder, "folder")
    parse_choice(table, "table", SWEEP_TABLE_NAMES)
    with _open_table(folder, table) as opened:
        known = opened.schema.names
        wanted = known if columns is None else parse_list(columns, "columns", "names of columns")
        for name in wanted:
            if name not in known:
                raise unknown_name("column", name, known)
        found = opened.read(wanted, where)
    frame: pd.DataFrame = found.to_pandas(ignore_metadata=True, use_threads=False)
    return frame


@contextmanager
def _open_table(folder: Path, table: str) -> Iterator[ParquetReader]:
    """One of the files, if it belongs to a sweep; read errors name it."""
    path = folder / f"{table}.parquet"
    if not path.exists():
        unfinished = (folder / "shards").exists()
        raise InvalidInput(
            f"{folder} has a sweep that is not finished: run `heterobandits sweep` there once more"
            if unfinished
            else f"{folder} has no sweep: `heterobandits sweep SPEC.toml --output {folder}` makes one"
        )
    try:
        found = ParquetReader(path)
        _description_in(found)
        yield found
    except InvalidInput:
        raise
    except (pa.ArrowException, OSError, TypeError, ValueError, LookupError) as error:
        reason = " ".join(str(error).split())
        raise InvalidInput(f"cannot read {path}: {reason}") from None


def _description_in(file: ParquetReader) -> dict[str, Any]:
    note = (file.schema.metadata or {}).get(SWEEP_METADATA_KEY)
    if note is None:
        raise InvalidInput("not a table of a sweep")
    said = json.loads(note)
    if not isinstance(said, dict):
        raise InvalidInput("not a table of a sweep")
    if said.get("format") != SWEEP_FORMAT:
        raise InvalidInput(
            f"a table of format {said.get('format')}: this version reads {SWEEP_FORMAT}"
        )
    return said
