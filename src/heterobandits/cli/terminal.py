"""Printing for a person: tables and lines that show names as they are, without markup."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from heterobandits.errors import escape_text

if TYPE_CHECKING:
    from rich.console import Console


def new_console(to_stderr: bool = False) -> "Console":
    """A console that shows brackets and colons as they are."""
    from rich.console import Console

    return Console(stderr=to_stderr, markup=False, emoji=False, highlight=False)


def print_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()
) -> None:
    """Print rows under a head, a line each; columns in `right` are aligned to the right.

    Nothing is cut or wrapped, so whatever reads the output finds every name whole, on its own line.
    """
    from rich.cells import cell_len

    lines = [head, *([escape_text(cell) for cell in row] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (pad_text(cell, widths[i], i in right) for i, cell in enumerate(line))
        print(("  " + "  ".join(cells)).rstrip())


def print_numbers(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """The same for a table with a name in the first column, and numbers in the others."""
    print_table(head, rows, right=range(1, len(head)))


def pad_text(text: str, width: int, right: bool = False) -> str:
    """The text padded with blanks to a display width."""
    from rich.cells import cell_len

    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks
