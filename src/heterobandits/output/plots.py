"""How policies are drawn: regret over the rounds, and the least regret possible in the long run."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heterobandits.errors import parse_real

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from heterobandits.simulation.results import Results

OTHER_COLOURS = ("#9467bd", "#e377c2", "#bcbd22", "#17becf", "#aa3377")
LIMIT_STYLE: dict[str, Any] = {"color": "#444444", "linestyle": (0, (1, 2)), "lw": 1}


class Style(NamedTuple):
    """How a policy is drawn."""

    title: str
    colour: str
    dashes: str | tuple[int, tuple[int, ...]]


def style_of(label: str, others: Iterator[str] | None = None) -> Style:
    """How the policy of this label is drawn; one that is not in the catalogue takes the next colour."""
    from heterobandits.policies.policy import (
        CATALOGUE,  # with numba, which reading results can do without
    )

    known = CATALOGUE.get(label)
    if known is None:
        return Style(label, next(others or iter(OTHER_COLOURS)), "-")
    return Style(known.title, known.colour, known.dashes)


def draw_regret(
    results: "Results", ax: "Axes | None" = None, title: str = "", limit: float | None = None
) -> "Axes":
    """Mean regret over the rounds with a band of two standard errors; the limit's curve if it is given."""
    beside = False
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(7, 4), layout="constrained")[1]
        beside = True
    others = iter(OTHER_COLOURS * len(results.policies))
    rounds = np.array((0, *results.rounds))
    lines = []
    for label in results.policies:
        style = style_of(label, others)
        mean = np.array((0.0, *results.mean(label)))
        band = 2 * np.nan_to_num(np.array((0.0, *results.se(label))))
        lines += ax.plot(
            rounds, mean, color=style.colour, linestyle=style.dashes, label=style.title
        )
        ax.fill_between(rounds, mean - band, mean + band, color=style.colour, alpha=0.2, lw=0)
    top = ax.get_ylim()[1]
    if limit is not None:
        lines += draw_limit(ax, parse_real(limit, "limit", "regret per ln T"), results)
    ax.set(xlabel="round", ylabel="cumulative regret", xlim=(0, results.horizon))
    ax.set_title(title, parse_math=False)
    ax.set_ylim(0, top)
    ax.grid(alpha=0.25)
    noted = "interrupted, " if results.partial else ""
    add_legend(ax, lines, title=f"{noted}{results.trials:,} trials ± 2 SE", title_fontsize="small")
    if beside:
        move_legend_beside(ax)
    return ax


def add_legend(ax: "Axes", lines: "Iterable[Line2D]", **options: Any) -> None:
    """A legend in which a name is a name: none is read as mathematics, none hidden for its first letter."""
    lines = list(lines)
    legend = ax.legend(lines, [str(line.get_label()) for line in lines], **options)
    for text in legend.get_texts():
        text.set_parse_math(False)


def move_legend_beside(ax: "Axes") -> None:
    """Put the legend to the right of the axes, where no curve runs under it; the figure's layout has to leave room."""
    legend = ax.get_legend()
    assert legend is not None
    legend.set_loc("upper left")
    legend.set_bbox_to_anchor((1.01, 1.0), ax.transAxes)
    legend.borderaxespad = 0.0


def label_of_limit(limit: float) -> str:
    """What a legend says of the least regret possible in the long run, limit times ln t."""
    return f"limit for t → ∞: {limit:.3g} ln t"


def is_above_limit(limit: float, results: "Results") -> bool:
    """Whether the limit, limit times ln t, is a law for this run: no policy ends below it."""
    least = min(results.mean(label)[-1] for label in results.policies)
    return bool(limit * np.log(results.horizon) <= least)


def draw_limit(ax: "Axes", limit: float, results: "Results") -> "list[Line2D]":
    """The least regret possible in the long run, limit times ln t, if the run is long enough for that law.

    A limit of zero says that regret can stay bounded: that is no line.
    """
    if limit <= 0 or not is_above_limit(limit, results):
        return []
    rounds = np.unique(np.geomspace(1, max(2, results.horizon), 200))
    return ax.plot(rounds, limit * np.log(rounds), label=label_of_limit(limit), **LIMIT_STYLE)
