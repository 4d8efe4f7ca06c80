"""The chart of ordinary intervals that a campaign prints on a terminal, aligned by display width in any script."""

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from heterobandits.cli.terminal import pad_text

if TYPE_CHECKING:
    from heterobandits.campaigns.analysis.estimates import ArmEstimate

CHART_MAX_ARMS = 30  # in a chart
CHART_NAME_MAX_CELLS = 24  # of a name beside its bar
CHART_BAR_MIN_CELLS = 20


class ChartMarks(NamedTuple):
    """The characters of a bar."""

    begin: str
    line: str
    middle: str
    end: str


UNICODE_MARKS = ChartMarks("├", "─", "●", "┤")
ASCII_MARKS = ChartMarks("|", "-", "o", "|")


def terminal_marks() -> ChartMarks:
    """The marks that this terminal can print."""
    try:
        "".join(UNICODE_MARKS).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII_MARKS
    return UNICODE_MARKS


def render_chart(found: Sequence["ArmEstimate"], width: int, drawn: ChartMarks) -> list[str]:
    """One line per arm, the highest estimate first: name, estimate, ordinary interval as a bar, certain ranks."""
    from heterobandits.campaigns.analysis.probabilities import fit_rate_axis, render_rates

    ordered = sorted(found, key=lambda arm: -arm.estimate)
    names = max(
        [cell_len(a.name) for a in ordered if cell_len(a.name) <= CHART_NAME_MAX_CELLS], default=0
    )
    ranks = [render_ranks(arm) for arm in ordered]
    last = max(len("rank"), *map(len, ranks))
    size = max(CHART_BAR_MIN_CELLS, width - names - last - len("  estimate    "))
    top = fit_rate_axis(max(arm.high for arm in ordered))
    ends = "0" + f"{100.0 * top:g} %".rjust(size - 1)
    lines = [f"{' ' * names}  estimate  {ends}  {'rank'.rjust(last)}"]
    for arm, rank in zip(ordered, ranks, strict=True):
        name = arm.name
        if cell_len(name) > names:  # shown whole, on a line of its own
            lines.append(name)
            name = ""
        line = render_bar((arm.low, arm.estimate, arm.high), top, size, drawn)
        estimate, _, _ = render_rates(arm.estimate, arm.low, arm.high)
        lines.append(f"{pad_text(name, names)}  {estimate:>8}  {line}  {rank.rjust(last)}".rstrip())
    return lines


def render_bar(
    interval: tuple[float, float, float], top: float, size: int, drawn: ChartMarks
) -> str:
    """An interval, lower end, middle and upper end, on a line of `size` letters from 0 to `top`.

    >>> render_bar((0.0, 0.5, 1.0), 1.0, 11, ASCII_MARKS), render_bar((0.2, 0.2, 0.2), 1.0, 11, ASCII_MARKS)
    ('|----o----|', '  o        ')
    """
    low, middle, high = (round(min(x, top) / top * (size - 1)) for x in interval)
    cells = [" "] * size
    cells[low : high + 1] = drawn.line * (high + 1 - low)
    cells[low], cells[high] = drawn.begin, drawn.end
    cells[middle] = drawn.middle
    return "".join(cells)


def render_ranks(arm: "ArmEstimate") -> str:
    """The ranks that an arm may have."""
    if arm.changed:
        return "changed"
    same = arm.best_rank == arm.worst_rank
    return f"{arm.best_rank}" if same else f"{arm.best_rank} to {arm.worst_rank}"


def print_chart(found: Sequence["ArmEstimate"], every: bool) -> None:
    """Print the chart, of some arms if there are many."""
    if not found:
        return
    ordered = sorted(found, key=lambda arm: -arm.estimate)
    shown = ordered if every else ordered[:CHART_MAX_ARMS]
    for line in render_chart(shown, shutil.get_terminal_size().columns, terminal_marks()):
        print(line)
    more = len(found) - len(shown)
    if more:
        print(f"and {more:,} more arms with lower estimates: --all shows them")
