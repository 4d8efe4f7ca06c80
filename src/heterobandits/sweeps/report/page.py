"""The report of a sweep: which policy has the least regret where, by how much, and how sure that is."""

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heterobandits.errors import parse_path
from heterobandits.output.files import (
    FIGURE_FORMATS,
    check_writable,
    explain_write_errors,
    save_figure,
    write_atomic,
)
from heterobandits.output.pages import render_template
from heterobandits.output.plots import style_of
from heterobandits.simulation.pool.shards import OnNote
from heterobandits.sweeps.reading import description_of
from heterobandits.sweeps.report.cells import (
    AxisScale,
    MapCells,
    PointTables,
    cells_of,
    ratios_in_cells,
    read_points,
    scales_of,
)
from heterobandits.sweeps.report.figures import (
    FIGURE_NAME_MAX_LETTERS,
    colour_limit,
    line_figure,
    ratio_figure,
    styles_of,
    winner_figure,
)
from heterobandits.sweeps.report.text import (
    finite_or_none,
    percent_text,
    ratio_text,
    render_enumeration,
)
from heterobandits.sweeps.stopping import POINT_VERDICTS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


OPEN_TABLE_MAX_CELLS = 150  # cells in a table that is open from the start
SWEEP_FONTS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "legend.fontsize": 8,
    "hatch.linewidth": 0.7,
}
STOP_REASON_TEXTS = {
    "fixed": "with as many as asked for",
    "told apart": "as soon as the policies were told apart",
    "narrow": "as soon as the intervals were narrow enough",
    "same": "as equals in so many trials",
    "limit": "at the limit",
}

__all__ = ["Report", "write_report"]

SweepDrawing = tuple[str, str, str, Callable[[], "Figure"]]


@dataclass(frozen=True)
class Report:
    """What was written, and what it says: `data` as it can stand in JSON."""

    page: Path
    figures: list[Path]
    cells: Path
    data: dict[str, Any]

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        return str(self.data["headline"])

    def summary(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            **self.data,
            "page": str(self.page),
            "cells_file": str(self.cells),
            "figures": [str(path) for path in self.figures],
        }


def write_report(
    folder: str | Path,
    *,
    x: str | None = None,
    y: str | None = None,
    note: OnNote = lambda text: None,
) -> Report:
    """Read a finished sweep and write `report.html`, `cells.csv` and `figures/` into its folder.

    Parameters
    ----------
    x, y
        The axes of the plane, or "agents", "arms" or "horizon"; by default the two with the most values, numbers
        first, and none that only draws anew.
    note
        Called with remarks for a person.
    """
    folder = parse_path(folder, "folder")
    told = description_of(folder)
    points = read_points(folder, told)
    scales = scales_of(points.places, told["axes"], x, y)
    for scale in scales:
        if scale.binned:
            note(scale.binned)
    if told["failed"]:
        note(f"{failures_text(told['failed'])} not in the report")
    cells = cells_of(points, scales)
    check_writable(folder)
    drawings = folder / "figures"
    page, table = folder / "report.html", folder / "cells.csv"
    data = findings_of(points, scales, cells, told)
    with explain_write_errors(folder):
        drawings.mkdir(exist_ok=True)
        figures = [
            (title, caption, drawings / name, save_figure(draw, drawings, name, SWEEP_FONTS))
            for title, caption, name, draw in drawings_of(points, scales, cells, told["title"])
        ]
        text = cell_table(points, scales, cells).to_csv(index=False)
        write_atomic(table, lambda aside: aside.write_text(text, encoding="utf-8", newline=""))
        shown = [(title, caption, svg) for title, caption, _, svg in figures]
        html = render_sweep_page(points, scales, cells, told, data, shown)
        write_atomic(page, lambda aside: aside.write_text(html, encoding="utf-8"))
    paths = [
        path.with_name(f"{path.name}.{kind}")
        for _, _, path, _ in figures
        for kind in FIGURE_FORMATS
    ]
    return Report(page, paths, table, data)


def findings_of(
    points: PointTables, scales: Sequence[AxisScale], cells: MapCells, told: dict[str, Any]
) -> dict[str, Any]:
    """The findings as JSON can hold them."""
    trials = points.places["trials"]
    stopped = points.places["stopped"].astype(str).value_counts()
    return {
        "title": told["title"],
        "headline": sweep_headline(points, scales, cells),
        "x": scales[0].name if scales else None,
        "y": scales[1].name if len(scales) > 1 else None,
        "reference": points.policies[points.reference],
        "confidence": points.confidence,
        "points": len(points.places),
        "failed": int(told["failed"]),
        "cells": {
            "all": len(cells.state),
            **{state: cells.state.count(state) for state in ("clear", "unclear", "tied")},
        },
        "policies": standing_lines(points, cells),
        "trials": {
            "least": int(trials.min()),
            "median": float(trials.median()),
            "most": int(trials.max()),
            "again": bool((points.places["played"] > trials).any()),
            "stopped": {str(why): int(count) for why, count in stopped.items()},
        },
    }


def sweep_headline(points: PointTables, scales: Sequence[AxisScale], cells: MapCells) -> str:
    """The answer in a sentence."""
    titles = [style_of(label).title for label in points.policies]
    if len(titles) == 1:
        return f"{titles[0]} was run alone: there is nothing to compare it with."
    count = len(cells.state)
    if count == 1:
        name = titles[cells.winner[0]]
        everywhere = "" if len(points.places) == 1 else f" over the {len(points.places):,} points"
        match cells.state[0]:
            case "clear":
                return f"{name} clearly has the least regret{everywhere}."
            case "tied":
                equal = [title for title, flag in zip(titles, cells.tied[0], strict=True) if flag]
                return (
                    f"{render_enumeration(equal)} have the least regret{everywhere}, all the same."
                )
        return f"No policy is clearly ahead; {name} has the least regret{everywhere}."
    noun = "cells" if len(scales) > 1 else "places"
    won = np.bincount(cells.winner[cells.are("clear")], minlength=len(titles))
    order = [p for p in np.argsort(-won, kind="stable") if won[p]]
    if not order:
        said = f"No policy wins clearly in any of {count:,} {noun}"
    else:
        first, *others = order
        won_first = f"{titles[first]} wins clearly in {won[first]:,} of {count:,} {noun}"
        said = render_enumeration([won_first, *(f"{titles[p]} in {won[p]:,}" for p in others)])
    unclear, tied = (cells.state.count(state) for state in ("unclear", "tied"))
    rest = [f"{unclear:,} {'is' if unclear == 1 else 'are'} unclear"] if unclear else []
    if tied:
        rest.append(f"in {tied:,} the best are equal")
    return f"{said}; {render_enumeration(rest)}." if rest else f"{said}."


def standing_lines(points: PointTables, cells: MapCells) -> list[dict[str, Any]]:
    """A line for each policy, in the order of the specification."""
    regrets = points.regrets
    whole = np.zeros(len(regrets), dtype=np.int64)
    tail = (1 - points.confidence) / 2
    reference, best = regrets[:, points.reference], regrets.min(axis=1)
    found = []
    for p, label in enumerate(points.policies):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = regrets[:, p] / reference
        worst = None if np.isnan(ratios).all() else int(np.nanargmax(ratios))
        over = ratios_in_cells(regrets[:, p], reference, whole, 1, points.draws, tail)
        to_best = ratios_in_cells(regrets[:, p], best, whole, 1, points.draws, tail)
        counts = {verdict: int(points.have(verdict)[:, p].sum()) for verdict in POINT_VERDICTS}
        won = cells.winner == p
        found.append(
            {
                "policy": label,
                "won": int((won & cells.are("clear")).sum()),
                "won_unclear": int((won & cells.are("unclear")).sum()),
                "tied": int(cells.tied[:, p].sum()),
                "ratio": finite_or_none(over.ratio[0]),
                "ratio_of_means": bool(over.by_mean[0]),
                "over_best": finite_or_none(to_best.ratio[0]),
                "over_best_of_means": bool(to_best.by_mean[0]),
                "worst_ratio": None if worst is None else finite_or_none(ratios[worst]),
                "worst_point": None if worst is None else int(points.places["point"].iloc[worst]),
                "worst_at": None if worst is None else axes_of_point(points, worst),
                **counts,
                "sure": int(points.sure[:, p].sum()),
                "failed": int(points.failed[:, p].sum()),
                "played": int(points.places["played"].sum()),
                "largest": finite_or_none(points.largest[:, p].max()),
            }
        )
    return found


def axes_of_point(points: PointTables, i: int) -> dict[str, Any]:
    """Where a point stands on the axes."""
    row = points.places[points.axes].iloc[[i]].to_dict("list")
    return {str(name): values[0] for name, values in row.items()}


def cell_table(points: PointTables, scales: Sequence[AxisScale], cells: MapCells) -> "pd.DataFrame":
    """A line for each cell with its numbers, for `cells.csv`."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for scale, places in zip(scales, (cells.columns, cells.rows), strict=False):
        columns[scale.name] = [scale.labels[i] for i in places]
    columns |= {
        "points": cells.points,
        "trials": cells.trials,
        "winner": [points.policies[p] for p in cells.winner],
        "state": cells.state,
        "tied": ["; ".join(itertools.compress(points.policies, row)) for row in cells.tied],
    }
    for label, found in zip(points.policies, cells.ratios, strict=True):
        columns |= {
            f"ratio {label}": found.ratio,
            f"lower {label}": found.lower,
            f"upper {label}": found.upper,
        }
    return pd.DataFrame(columns)


def render_sweep_page(
    points: PointTables,
    scales: Sequence[AxisScale],
    cells: MapCells,
    told: dict[str, Any],
    data: dict[str, Any],
    figures: Sequence[tuple[str, str, str]],
) -> str:
    """The whole page. `figures` are (title, caption, SVG text), the main one first."""
    titles = [style_of(label).title for label in points.policies]
    made = {**{k: told[k] for k in ("made_with", "spec")}, "report": {k: data[k] for k in "xy"}}
    return render_template(
        "sweep.html",
        quick=False,
        title=told["title"],
        headline=data["headline"],
        numbers=sweep_numbers(data, len(scales)),
        main=figures[0] if figures else None,
        figures=figures[1:],
        reference=titles[points.reference],
        confidence=percent_text(points.confidence),
        certainty=percent_text(told["separate"] or points.confidence),
        rule=winner_rule_text(points),
        policies=[
            standing_texts(row, points.reference == p) for p, row in enumerate(data["policies"])
        ],
        titles=titles,
        axes=[scale.title for scale in scales],
        cells=list(cell_rows(points, scales, cells)),
        most_listed=OPEN_TABLE_MAX_CELLS,
        trials=stopping_text(data["trials"]),
        points=f"{data['points']:,}",
        failed=failures_text(data["failed"]) if data["failed"] else "",
        provenance=json.dumps(made, indent=1, ensure_ascii=False, default=str),
    )


def winner_rule_text(points: PointTables) -> str:
    """How the winner of a cell is found, in words."""
    level = percent_text(points.confidence)
    return (
        "The winner of a cell has the least geometric mean of regret over its points; where some regret is 0, the least "
        "mean; points where nobody has regret are left out. It wins clearly if it is ahead at every point of the cell, or if "
        "Student's intervals over the draws for its ratio to every other policy, all of them together at "
        f"{level}, lie below 1."
    )


def failures_text(count: int) -> str:
    """How many points failed, as the beginning of a sentence."""
    return "1 point failed, and is" if count == 1 else f"{count:,} points failed, and are"


def sweep_numbers(data: dict[str, Any], axes: int) -> list[tuple[str, str]]:
    """The headline numbers, each with a few words."""
    cells, trials = data["cells"], data["trials"]
    found = [(f"{data['points']:,}", "points" if data["points"] != 1 else "point")]
    if axes and len(data["policies"]) > 1:
        noun = "cells" if axes > 1 else "places"
        found.append((f"{cells['clear']:,} / {cells['all']:,}", f"{noun} with a clear winner"))
    least, most = trials["least"], trials["most"]
    span = f"{least:,}" if least == most else f"{least:,} – {most:,}"
    return [*found, (span, "trials of a point")]


def standing_texts(row: dict[str, Any], is_reference: bool) -> dict[str, Any]:
    """A line of the table of policies, as texts."""
    known = row["worst_point"] is not None
    worst = "∞" if row["worst_ratio"] is None else ratio_text(row["worst_ratio"])
    place = ", ".join(f"{name} = {value}" for name, value in (row["worst_at"] or {}).items())
    return {
        **row,
        "title": style_of(row["policy"]).title,
        "failed": f"{row['failed']:,}",
        "played": f"{row['played']:,}",
        "largest": "∞" if row["largest"] is None else f"{row['largest']:,.0f}",
        "reference": is_reference,
        "ratio": ratio_text(row["ratio"]),
        "over_best": ratio_text(row["over_best"]),
        "worst": worst if known else "–",
        "where": f"point {row['worst_point']}{': ' * bool(place)}{place}" if known else "",
    }


def stopping_text(trials: dict[str, Any]) -> str:
    """How many trials the points took, and why they stopped, in words."""
    if trials["least"] == trials["most"]:
        said = f"Every point was played in {trials['least']:,} trials"
    else:
        said = (
            f"A point took from {trials['least']:,} to {trials['most']:,} trials, "
            f"{trials['median']:,.0f} in the median"
        )
    stopped = trials["stopped"]
    if set(stopped) == {"fixed"}:
        return f"{said}."
    reasons = [f"{count:,} {STOP_REASON_TEXTS.get(why, why)}" for why, count in stopped.items()]
    again = " Then as many again were played, and the numbers are of these." * trials["again"]
    return f"{said}. They stopped: {render_enumeration(reasons)}.{again}"


def cell_rows(
    points: PointTables, scales: Sequence[AxisScale], cells: MapCells
) -> Iterator[dict[str, Any]]:
    """The table of cells, as texts."""
    titles = [style_of(label).title for label in points.policies]
    for i, state in enumerate(cells.state):
        equal = list(itertools.compress(titles, cells.tied[i]))
        places = zip(scales, (cells.columns[i], cells.rows[i]), strict=False)
        yield {
            "places": [scale.labels[place] for scale, place in places],
            "winner": " = ".join(equal) if state == "tied" else titles[cells.winner[i]],
            "state": state,
            "points": f"{cells.points[i]:,}",
            "trials": f"{cells.trials[i]:,}",
            "ratios": [
                {
                    "ratio": ratio_text(found.ratio[i]),
                    "interval": ""
                    if p == points.reference or math.isnan(found.lower[i])
                    else f"{ratio_text(found.lower[i])} – {ratio_text(found.upper[i])}",
                    "mark": {-1: "yes", 1: "no"}.get(int(found.side[i]), ""),
                }
                for p, found in enumerate(cells.ratios)
            ],
        }


def drawings_of(
    points: PointTables, scales: Sequence[AxisScale], cells: MapCells, title: str
) -> Iterator[SweepDrawing]:
    """Title, caption, file name and drawing function of each figure; none without axes or comparisons."""
    if not scales or len(points.policies) == 1:
        return
    styles = styles_of(points.policies)
    reference = styles[points.reference].title
    level = percent_text(points.confidence)
    bins = "".join(
        f" {scale.binned[0].upper()}{scale.binned[1:]}." for scale in scales if scale.binned
    )
    if len(scales) == 1:
        yield (
            f"Regret over that of {reference}",
            f"Regret after the last round over that of {reference}, which is the line at 1; bands are intervals at {level}."
            + bins,
            "ratios",
            partial(line_figure, points, scales[0], cells, styles, title),
        )
        return
    yield (
        "Who has the least regret",
        f"Who has the least regret after the last round. {winner_rule_text(points)}{bins}",
        "winners",
        partial(winner_figure, scales, cells, styles, title),
    )
    limit = colour_limit(cells.ratios)
    for p, style in enumerate(styles):
        if p == points.reference:
            continue
        slug = re.sub(r"[^a-z0-9]+", "-", points.policies[p].lower()).strip("-")[
            :FIGURE_NAME_MAX_LETTERS
        ]
        yield (
            f"{style.title}: regret over that of {reference}",
            f"{style.title}: regret over that of {reference}, geometric means over the points of a cell; "
            f"hatched where the interval at {level} includes 1.",
            f"ratio-{p + 1}-{slug}".rstrip("-"),
            partial(ratio_figure, scales, cells, cells.ratios[p], style.title, reference, limit),
        )
