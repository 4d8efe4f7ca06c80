"""Figures people would show: regret curves in the paper's style, and regret beside its bound."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heterobandits.experiments.catalogue import Experiment
from heterobandits.experiments.tiny_worlds import OptimumDistance, by_policy
from heterobandits.inference.bounds import lower_bound, regret_bound
from heterobandits.limits import DEFAULT_DELTA
from heterobandits.output import files
from heterobandits.output.plots import (
    LIMIT_STYLE,
    OTHER_COLOURS,
    add_legend,
    draw_limit,
    label_of_limit,
    move_legend_beside,
    style_of,
)
from heterobandits.simulation.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN_INCHES = (4.4, 3.1)  # inches: readable at the width of a column
REGRET_WIDTH_INCHES = 5.8  # with the legend beside the curves
BUNCH_MAX_SHARE = 0.03  # of the height of the axes, between ends of curves that look like one
BUNCH_MAX_HEIGHT = (
    0.25  # of the height of the axes, below which a bunch leaves room for its own picture
)
EXPERIMENT_FONTS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 7.5,
    "legend.title_fontsize": 7,
    "lines.linewidth": 1.4,
}


def regret_figure(experiment: Experiment, results: Results, quick: bool) -> "Figure":
    """Mean regret of every policy over the rounds, with bands of two standard errors."""
    figure = new_figure(width=REGRET_WIDTH_INCHES)
    limit = lower_bound(experiment.problem)
    axes = results.plot(figure.subplots(), mark_quick(experiment.title, quick), limit)
    axes.set_xlabel("round")
    move_legend_beside(axes)
    magnify_bunch(axes, results)
    return figure


def magnify_bunch(axes: "Axes", results: Results) -> None:
    """Where three curves or more end so close together that they look like one, show the second half of these larger, in the free corner."""
    low, top = axes.get_ylim()
    ends = sorted(float(results.mean(label)[-1]) for label in results.policies)
    close = [end for end in ends if end - ends[0] < BUNCH_MAX_SHARE * (top - low)]
    if len(close) < 3 or len(close) == len(ends) or close[-1] > BUNCH_MAX_HEIGHT * top:
        return  # above a bunch at the bottom there is room
    rounds = np.array(results.rounds)
    late = rounds >= results.horizon / 2
    others = iter(OTHER_COLOURS * len(results.policies))
    inset = axes.inset_axes((0.09, 0.57, 0.38, 0.34))
    for label in results.policies:
        style, mean = style_of(label, others), results.mean(label)
        if mean[-1] <= close[-1]:
            width = 2.4 - 0.5 * min(len(inset.lines), 3)  # of two that coincide one sees both
            inset.plot(rounds[late], mean[late], style.colour, linestyle=style.dashes, lw=width)
    inset.margins(x=0)
    inset.set_title("the lowest curves, enlarged", fontsize=7, pad=2)
    inset.tick_params(labelsize=6, length=2)
    inset.grid(alpha=0.25)
    (left, right), (bottom, above) = inset.get_xlim(), inset.get_ylim()
    axes.indicate_inset((left, bottom, right - left, above - bottom), edgecolor="#666666")


def limit_figure(experiment: Experiment, results: Results, quick: bool) -> "Figure":
    """Regret over the least possible in the long run, which is the line at 1; regret, if it can be bounded."""
    figure = new_figure()
    axes = figure.subplots()
    rounds = np.array(results.rounds)
    late = rounds >= max(3, results.horizon / 300)
    limit = lower_bound(experiment.problem)
    least = limit * np.log(rounds[late]) if limit > 0 else 1.0
    others = iter(OTHER_COLOURS * len(results.policies))
    for label in results.policies:
        style = style_of(label, others)
        axes.plot(
            rounds[late],
            results.mean(label)[late] / least,
            color=style.colour,
            linestyle=style.dashes,
            label=style.title,
        )
    if limit > 0:
        axes.axhline(1.0, label=label_of_limit(limit), **LIMIT_STYLE)
    named = "regret / (C ln t)" if limit > 0 else "cumulative regret"
    axes.set(xscale="log", yscale="log", xlabel="round", ylabel=named)
    axes.set_title(mark_quick(experiment.title, quick))
    axes.grid(alpha=0.25)
    add_legend(axes, axes.lines, loc="upper left", ncols=2, fontsize=6)
    raise_upper_limit(axes, 0.7)
    return figure


def optimum_figure(distances: Sequence[OptimumDistance], quick: bool) -> "Figure":
    """Regret over the least possible in tiny worlds: a line for each policy, the best first, a mark for each world."""
    ratios = by_policy(distances)
    order = list(reversed(ratios))  # from below
    figure = new_figure(height=max(COLUMN_INCHES[1], 0.9 + 0.21 * len(order)))
    axes = figure.subplots()
    for world, marker, colour in zip(
        ratios[order[0]], "osD^v<>ph*", OTHER_COLOURS * 3, strict=False
    ):
        axes.plot(
            [ratios[label][world] for label in order],
            range(len(order)),
            marker,
            markersize=4.5,
            color=colour,
            alpha=0.85,
            label=world,
        )
    lines = list(axes.lines)
    axes.axvline(1.0, **LIMIT_STYLE)
    axes.set_yticks(range(len(order)))
    for text in axes.set_yticklabels([style_of(label).title for label in order]):
        text.set_parse_math(False)
    axes.set(xlabel="regret / the least possible", xlim=(0.97, None))
    axes.set_title(mark_quick("the best possible in tiny worlds", quick))
    axes.grid(alpha=0.25)
    add_legend(axes, lines, loc="upper right", fontsize=6.5)
    return figure


def theory_figure(experiment: Experiment, results: Results, quick: bool) -> "Figure":
    """The theorem's bound and the regret measured, on logarithmic axes."""
    figure = new_figure()
    axes = figure.subplots()
    rounds = np.array(results.rounds)
    bound = [regret_bound(experiment.problem, int(t)) for t in rounds]
    axes.plot(
        rounds,
        bound,
        color="black",
        linestyle="--",
        label=f"bound for Min-Width, δ = {DEFAULT_DELTA}",
    )
    draw_limit(axes, lower_bound(experiment.problem), results)
    for label in results.policies:
        style = style_of(label)
        axes.plot(
            rounds,
            results.mean(label),
            color=style.colour,
            linestyle=style.dashes,
            label=style.title,
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="round",
        ylabel="cumulative regret",
        xlim=(1, results.horizon),
    )
    axes.set_title(mark_quick(f"{experiment.title}: theory and measurement", quick))
    axes.grid(alpha=0.25)
    add_legend(axes, axes.lines, loc="upper left", ncols=2)
    raise_upper_limit(axes, 0.4)
    return figure


def raise_upper_limit(axes: "Axes", share: float) -> None:
    """Make room for the legend above the curves: a share of the height of a logarithmic axis."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** share)


def new_figure(width: float = COLUMN_INCHES[0], height: float = COLUMN_INCHES[1]) -> "Figure":
    """An empty figure, of a column's width."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def mark_quick(title: str, quick: bool) -> str:
    """The title, with a mark if the run was a quick one."""
    return f"{title}\n(quick run)" if quick else title


def save_report_figure(draw: Callable[[], "Figure"], folder: Path, name: str) -> str:
    """Draw a figure and write it in all formats; its SVG text is returned for the report."""
    return files.save_figure(draw, folder, name, EXPERIMENT_FONTS)
