"""Reading a sweep: its tables as data frames, by column, and what they say of themselves."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from heterobandits.errors import InvalidInput, choice, listed, path_from, unknown
from heterobandits.output.parquet import Parquet
from heterobandits.sweeps.tables import FORMAT, MARK

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_sweep"]


NAMES: tuple[Literal["results", "pairs"], ...] = ("results", "pairs")


def description_of(folder: str | Path, table: str = "results") -> dict[str, Any]:
    """What a table of a sweep says of itself: title, axes, policies, the specification, versions."""
    with _opened(path_from(folder, "folder"), table) as found:
        return _said(found)


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
    folder = path_from(folder, "folder")
    choice(table, "table", NAMES)
    with _opened(folder, table) as opened:
        known = opened.schema.names
        wanted = known if columns is None else listed(columns, "columns", "names of columns")
        for name in wanted:
            if name not in known:
                raise unknown("column", name, known)
        found = opened.read(wanted, where)
    frame: pd.DataFrame = found.to_pandas(ignore_metadata=True, use_threads=False)
    return frame


@contextmanager
def _opened(folder: Path, table: str) -> Iterator[Parquet]:
    """One of the files, if it is of a sweep; what cannot be read of it within is said of it."""
    path = folder / f"{table}.parquet"
    if not path.exists():
        unfinished = (folder / "shards").exists()
        raise InvalidInput(
            f"{folder} has a sweep that is not finished: run `heterobandits sweep` there once more"
            if unfinished
            else f"{folder} has no sweep: `heterobandits sweep SPEC.toml --output {folder}` makes one"
        )
    try:
        found = Parquet(path)
        _said(found)
        yield found
    except InvalidInput:
        raise
    except (pa.ArrowException, OSError, TypeError, ValueError, LookupError) as error:
        reason = " ".join(str(error).split())
        raise InvalidInput(f"cannot read {path}: {reason}") from None


def _said(file: Parquet) -> dict[str, Any]:
    note = (file.schema.metadata or {}).get(MARK)
    if note is None:
        raise InvalidInput("not a table of a sweep")
    said = json.loads(note)
    if not isinstance(said, dict):
        raise InvalidInput("not a table of a sweep")
    if said.get("format") != FORMAT:
        raise InvalidInput(f"a table of format {said.get('format')}: this version reads {FORMAT}")
    return said
