"""What a campaign shows in a terminal: tables and the chart of intervals, aligned by how wide letters are in any script."""

import math
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, set_cell_size

from heterobandits.campaigns.audit.history_text import printable

if TYPE_CHECKING:
    from heterobandits.campaigns.analysis.answers import ArmEstimate

MOST_ARMS = 30  # in a chart
MOST_CELLS = 24  # of a name beside its bar
MOST_IN_TABLE = 40  # cells of a name in a table
LEAST_BAR = 20


class Marks(NamedTuple):
    """What a bar is drawn with, and what stands for the rest of a name."""

    begin: str
    line: str
    middle: str
    end: str
    more: str


DRAWN = Marks("├", "─", "●", "┤", "…")
ASCII = Marks("|", "-", "o", "|", "...")


def print_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Collection[int] = (),
    whole: Collection[int] = (),
) -> None:
    """Print rows under a head, a line each; columns in `right` are aligned to the right.

    Cells are cut where they are too long, but for columns in `whole`, which are sentences.
    """
    more = marks().more
    lines = [head]
    for row in rows:
        cells = [printable(cell) for cell in row]
        lines.append(
            [c if i in whole else cut(c, MOST_IN_TABLE, more) for i, c in enumerate(cells)]
        )
    widths = [max(cell_len(row[i]) for row in lines) for i in range(len(head))]
    for row in lines:
        aligned = (padded(cell, widths[i], i in right) for i, cell in enumerate(row))
        print(("  " + "  ".join(aligned)).rstrip())


def padded(text: str, width: int, right: bool = False) -> str:
    """The text with blanks up to a width in cells of the terminal."""
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def cut(text: str, width: int, more: str) -> str:
    """The text, or as much of it as fits into a width with `more` for the rest.

    >>> cut("salt lick", 9, "…"), cut("salt lick", 8, "…"), cut("東京タワー", 8, "…")
    ('salt lick', 'salt li…', '東京タ…')
    """
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - cell_len(more)).rstrip() + more


def marks() -> Marks:
    """What the terminal can print."""
    try:
        "".join(DRAWN).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return DRAWN


def chart(found: Sequence["ArmEstimate"], width: int, drawn: Marks) -> list[str]:
    """A line for each arm, the highest estimate first: name, estimate, its interval as a bar, ranks it can have."""
    ordered = sorted(found, key=lambda arm: -arm.estimate)
    names = max([cell_len(a.name) for a in ordered if cell_len(a.name) <= MOST_CELLS], default=0)
    ranks = [ranks_of_arm(arm) for arm in ordered]
    last = max(len("rank"), *map(len, ranks))
    size = max(LEAST_BAR, width - names - last - len("  estimate    "))
    top = scale(max(arm.upper for arm in ordered))
    ends = "0" + f"{top:.1f}".rjust(size - 1)
    lines = [f"{' ' * names}  estimate  {ends}  {'rank'.rjust(last)}"]
    for arm, rank in zip(ordered, ranks, strict=True):
        name = arm.name
        if cell_len(name) > names:  # shown whole, on a line of its own
            lines.append(name)
            name = ""
        line = bar((arm.lower, arm.estimate, arm.upper), top, size, drawn)
        lines.append(
            f"{padded(name, names)}  {arm.estimate:8.3f}  {line}  {rank.rjust(last)}".rstrip()
        )
    return lines


def scale(most: float) -> float:
    """Where the chart ends: the next tenth.

    >>> scale(0.31), scale(0.4), scale(0.0)
    (0.4, 0.4, 0.1)
    """
    return max(0.1, math.ceil(most * 10 - 1e-9) / 10)


def bar(interval: tuple[float, float, float], top: float, size: int, drawn: Marks) -> str:
    """An interval, lower end, middle and upper end, on a line of `size` letters from 0 to `top`.

    >>> bar((0.0, 0.5, 1.0), 1.0, 11, ASCII), bar((0.2, 0.2, 0.2), 1.0, 11, ASCII)
    ('|----o----|', '  o        ')
    """
    low, middle, high = (round(min(x, top) / top * (size - 1)) for x in interval)
    cells = [" "] * size
    cells[low : high + 1] = drawn.line * (high + 1 - low)
    cells[low], cells[high] = drawn.begin, drawn.end
    cells[middle] = drawn.middle
    return "".join(cells)


def ranks_of_arm(arm: "ArmEstimate") -> str:
    """The ranks that an arm can have."""
    if arm.changed:
        return "changed"
    same = arm.best_rank == arm.worst_rank
    return f"{arm.best_rank}" if same else f"{arm.best_rank} to {arm.worst_rank}"


def print_chart(found: Sequence["ArmEstimate"], every: bool) -> None:
    """Print the chart, of some arms if there are many."""
    if not found:
        return
    ordered = sorted(found, key=lambda arm: -arm.estimate)
    shown = ordered if every else ordered[:MOST_ARMS]
    for line in chart(shown, shutil.get_terminal_size().columns, marks()):
        print(line)
    more = len(found) - len(shown)
    if more:
        print(f"and {more:,} more arms with lower estimates: --all shows them")
