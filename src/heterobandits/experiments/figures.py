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
    style_of,
)
from heterobandits.simulation.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN_INCHES = (4.4, 3.1)  # inches: readable at the width of a column
EXPERIMENT_FONTS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 7.5,
    "legend.title_fontsize": 7,
    "lines.linewidth": 1.4,
}


def regret_figure(experiment: Experiment, results: Results, quick: bool) -> "Figure":
    """Mean regret of every policy over the rounds, with bands of two standard errors."""
    figure = new_figure()
    limit = lower_bound(experiment.problem)
    axes = results.plot(figure.subplots(), mark_quick(experiment.title, quick), limit)
    axes.set_xlabel("round")
    return figure


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
    else:
        axes.plot([], [], label=label_of_limit(limit), **LIMIT_STYLE)
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


def new_figure(height: float = COLUMN_INCHES[1]) -> "Figure":
    """An empty figure of a column's width."""
    from matplotlib.figure import Figure

    return Figure(figsize=(COLUMN_INCHES[0], height), layout="constrained")


def mark_quick(title: str, quick: bool) -> str:
    """The title, with a mark if the run was a quick one."""
    return f"{title}\n(quick run)" if quick else title


def save_report_figure(draw: Callable[[], "Figure"], folder: Path, name: str) -> str:
    """Draw a figure and write it in all formats; its SVG text is returned for the report."""
    return files.save_figure(draw, folder, name, EXPERIMENT_FONTS)
