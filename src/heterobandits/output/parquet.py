"""The one way in which Parquet files are read: Arrow opens them itself.

Of a Python file, or of bytes, a thread of Arrow's may be the last to hold what was read, and needs the interpreter to free
it. If that is just ending, the thread is ended in the middle of it, and the process aborts.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


class ParquetReader:
    """A Parquet file, open as it was at this moment: its schema, and its rows as a table."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(os.fsencode(path))  # as text, only a path that is UTF-8
        self.schema: Any = pq.ParquetFile(self._file).schema_arrow

    def read(self, columns: Sequence[str] | None = None, where: Any = None) -> Any:
        """Some columns, and the rows that fit; all by default. Checksums that are wrong are an error."""
        return pq.read_table(
            self._file,
            columns=columns,
            filters=where,
            page_checksum_verification=True,
            use_threads=False,
        )
