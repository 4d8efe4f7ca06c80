"""How policies are drawn: regret over the rounds, and the least regret possible in the long run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from heterobandits.results import Results

OTHER_COLOURS = ("#9467bd", "#e377c2", "#bcbd22", "#17becf", "#aa3377")
LIMIT_STYLE: dict[str, Any] = {"color": "#444444", "linestyle": (0, (1, 2)), "lw": 1}


class Style(NamedTuple):
    """How a policy is drawn."""

    title: str
    colour: str
    dashes: str | tuple[int, tuple[int, ...]]


def style_of(label: str, others: Iterator[str] | None = None) -> Style:
    """How the policy of this label is drawn; one that is not in the catalogue takes the next colour."""
    from heterobandits.policies import CATALOGUE  # with numba, which reading results can do without

    known = CATALOGUE.get(label)
    if known is None:
        return Style(label, next(others or iter(OTHER_COLOURS)), "-")
    return Style(known.title, known.colour, known.dashes)


def draw_regret(
    results: "Results", ax: "Axes | None" = None, title: str = "", limit: float | None = None
) -> "Axes":
    """Mean regret over the rounds with a band of two standard errors; the limit's curve if it is given."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6, 4), layout="constrained")[1]
    others = iter(OTHER_COLOURS * len(results.policies))
    rounds = np.array((0, *results.rounds))
    for label in results.policies:
        style = style_of(label, others)
        mean = np.array((0.0, *results.mean(label)))
        band = 2 * np.nan_to_num(np.array((0.0, *results.se(label))))
        ax.plot(rounds, mean, color=style.colour, linestyle=style.dashes, label=style.title)
        ax.fill_between(rounds, mean - band, mean + band, color=style.colour, alpha=0.2, lw=0)
    top = ax.get_ylim()[1]
    if limit is not None:
        draw_limit(ax, limit, results.horizon)
    ax.set(xlabel="round", ylabel="cumulative regret", title=title, xlim=(0, results.horizon))
    ax.set_ylim(0, top)
    ax.grid(alpha=0.25)
    noted = "interrupted, " if results.partial else ""
    ax.legend(title=f"{noted}{results.trials:,} trials ± 2 SE", title_fontsize="small")
    return ax


def limit_label(limit: float) -> str:
    """What a legend says of the least regret possible in the long run, limit times ln t."""
    return "limit for t → ∞: " + (f"{limit:.3g} ln t" if limit > 0 else "bounded")


def draw_limit(ax: "Axes", limit: float, horizon: int) -> None:
    """The least regret possible in the long run, limit times ln t; at finite t some policies are below."""
    rounds = np.unique(np.geomspace(1, max(2, horizon), 200))
    ax.plot(rounds, limit * np.log(rounds), label=limit_label(limit), **LIMIT_STYLE)
