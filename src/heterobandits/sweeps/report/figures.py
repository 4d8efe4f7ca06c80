"""Maps of a sweep: who has the least regret where, and ratios of regret, with what is unclear hatched."""

import colorsys
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heterobandits.arrays import Flags, Floats
from heterobandits.output.plots import LIMIT_STYLE, OTHER_COLOURS, Style, style_of
from heterobandits.sweeps.report.cells import (
    AXIS_MAX_VALUES,
    AxisScale,
    CellRatios,
    MapCells,
    PointTables,
)
from heterobandits.sweeps.report.text import ratio_text, render_brief_count, render_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


NUMBERED_MAP_MAX_CELLS = 12  # columns and rows of a map that has room for numbers in its cells
FIGURE_NAME_MAX_LETTERS = 40  # of a name in a figure


def styles_of(labels: Sequence[str]) -> list[Style]:
    """How the policies are drawn, no two in the same colour."""
    others = itertools.chain(OTHER_COLOURS, map(colour_of_number, itertools.count()))
    return [style_of(label, others) for label in labels]


def colour_of_number(i: int) -> str:
    """A colour far from the ones before it, however many there were."""
    turn = (0.08 + i * (math.sqrt(5) - 1) / 2) % 1
    rgb = colorsys.hls_to_rgb(turn, 0.42 + 0.12 * (i % 2), 0.6)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def mix_with_white(colour: str, share: float = 0.62) -> tuple[float, float, float]:
    """The colour, mixed with this share of white."""
    from matplotlib.colors import to_rgb

    red, green, blue = (share + (1 - share) * part for part in to_rgb(colour))
    return red, green, blue


def text_colour_on(colour: Any) -> str:
    """Black or white, whichever reads better on this colour."""
    from matplotlib.colors import to_rgb

    linear = [c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return "white" if np.dot((0.2126, 0.7152, 0.0722), linear) < 0.22 else "#1c2430"


def short_name(name: str) -> str:
    """The name, shortened to fit into a figure."""
    return (
        name if len(name) <= FIGURE_NAME_MAX_LETTERS else name[: FIGURE_NAME_MAX_LETTERS - 1] + "…"
    )


def new_map(
    scales: Sequence[AxisScale], cell: tuple[float, float], extra: float
) -> "tuple[Figure, Axes]":
    """An empty map with cells of about this size in inches, ticks and names of the axes."""
    from matplotlib.figure import Figure

    across, up = scales
    columns, rows = len(across.labels), len(up.labels)
    aside = 0.06 * max(map(len, up.labels)) + 0.75
    width = max(4.4, columns * cell[0] + aside + extra)
    figure = Figure(figsize=(width, rows * cell[1] + 1.7), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, columns), ylim=(0, rows), facecolor="#f1f3f5")
    longest = min(FIGURE_NAME_MAX_LETTERS, max(map(len, across.labels)))
    fits = 0.08 * longest <= cell[0]
    every = (
        1
        if columns <= NUMBERED_MAP_MAX_CELLS or across.values is None
        else math.ceil(0.09 * longest / cell[0])
    )
    name_ticks(axes.xaxis, across, every)
    name_ticks(axes.yaxis, up, 1 if cell[1] >= 0.17 or up.values is None else 2)
    if not fits and every == 1:
        for text in axes.get_xticklabels():
            text.set(rotation=45, ha="right", rotation_mode="anchor")
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)
    axes.set_xlabel(across.title, parse_math=False)
    axes.set_ylabel(up.title, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure, axes


def name_ticks(axis: "Axis", scale: AxisScale, every: int) -> None:
    """A label in the middle of every so many columns or rows."""
    axis.set_ticks(
        [i + 0.5 for i in range(0, len(scale.labels), every)],
        labels=[short_name(label) for label in scale.labels[::every]],
    )


def cell_size(scales: Sequence[AxisScale], widest: float) -> tuple[float, float]:
    """Width and height of a cell of a map, in inches, so that the map is about so wide at most."""
    columns, rows = (len(scale.labels) for scale in scales)
    across = min(1.0, max(0.14, widest / columns))
    return across, min(across, 0.65, max(0.14, 0.8 * widest / rows))


def corners(cells: MapCells, which: Flags, left: float = 0.0, right: float = 1.0) -> list[Floats]:
    """The outlines of some cells, or of a stripe of each."""
    box = np.array([(left, 0), (right, 0), (right, 1), (left, 1)])
    return [
        box + np.array((x, y)) for x, y in zip(cells.columns[which], cells.rows[which], strict=True)
    ]


def winner_figure(
    scales: Sequence[AxisScale], cells: MapCells, styles: Sequence[Style], title: str
) -> "Figure":
    """In each cell the colour of the winner: strong where it wins clearly, pale and hatched where it does not."""
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    size = cell_size(scales, 6.2)
    figure, axes = new_map(scales, size, 0.3)
    clear, unclear, tied = (cells.are(state) for state in ("clear", "unclear", "tied"))
    keys: list[tuple[Any, str]] = []
    grey = "#8a94a0"
    line = 0.8 if max(len(scale.labels) for scale in scales) <= AXIS_MAX_VALUES else 0.2

    def fill(boxes: list[Floats], colour: Any, hatched: str | None = None) -> None:
        axes.add_collection(PolyCollection(boxes, facecolors=[colour], edgecolors=[colour], lw=0))
        if hatched is not None:
            axes.add_collection(
                PolyCollection(boxes, facecolors="none", edgecolors=[hatched], lw=0, hatch="/////")
            )

    for p, style in enumerate(styles):
        mine = cells.winner == p
        if (mine & clear).any():
            fill(corners(cells, mine & clear), style.colour)
        if (mine & unclear).any():
            fill(corners(cells, mine & unclear), mix_with_white(style.colour), style.colour)
        if (mine & ~tied).any() or cells.tied[:, p].any():
            keys.append((Patch(facecolor=style.colour), short_name(style.title)))
    equals = cells.tied.sum(axis=1)
    for count in np.unique(equals[tied]):
        for stripe in range(count):
            place = np.cumsum(cells.tied, axis=1) == stripe + 1
            which = place.argmax(axis=1)
            for p, style in enumerate(styles):
                one = tied & (equals == count) & (which == p)
                if one.any():
                    fill(
                        corners(cells, one, stripe / count, (stripe + 1) / count),
                        mix_with_white(style.colour, 0.35),
                    )
    for i in range(1, len(scales[0].labels)):
        axes.axvline(i, color="white", lw=line)
    for i in range(1, len(scales[1].labels)):
        axes.axhline(i, color="white", lw=line)
    if unclear.any():
        keys.append(
            (Patch(facecolor=mix_with_white(grey), edgecolor=grey, hatch="/////", lw=0), "unclear")
        )
    if tied.any():
        keys.append((striped_key(), "equal"))
    if len(cells.state) < math.prod(len(scale.labels) for scale in scales):
        keys.append((Patch(facecolor="#f1f3f5", edgecolor="#c5ccd4"), "no points"))
    if all(len(scale.labels) <= NUMBERED_MAP_MAX_CELLS for scale in scales):
        colours = [
            {"clear": styles[w].colour, "unclear": mix_with_white(styles[w].colour)}.get(
                state, "white"
            )
            for w, state in zip(cells.winner, cells.state, strict=True)
        ]
        write_texts(axes, cells, trials_text(cells), colours, ~clear, size)
    axes.set_title(f"{short_title(title)}who has the least regret", parse_math=False)
    legend_below(figure, *zip(*keys, strict=True))
    return figure


def legend_below(figure: "Figure", handles: Sequence[Any], names: Sequence[str]) -> None:
    """A legend under the chart, in as many columns as there is room for."""
    from matplotlib.legend_handler import HandlerTuple

    columns = int((figure.get_figwidth() - 0.3) / (0.5 + 0.06 * max(map(len, names))))
    legend = figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=max(1, min(columns, len(names))),
        frameon=False,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def short_title(title: str) -> str:
    """The title of a sweep on a line of its own, if it has one."""
    return f"{title if len(title) <= 60 else title[:59] + '…'}\n" if title else ""


def striped_key() -> tuple[Any, ...]:
    """The key of a cell with several winners."""
    from matplotlib.patches import Patch

    return Patch(facecolor="#b9c0c8"), Patch(facecolor="#8a94a0")


def trials_text(cells: MapCells) -> list[str]:
    """Points and trials of each cell; the points are left out where all cells have one."""
    several = (cells.points > 1).any()
    return [
        f"{count:,} point{'s' * (count != 1)}\n{render_brief_count(trials)} trials"
        if several
        else f"{render_brief_count(trials)}\ntrials"
        for count, trials in zip(cells.points.tolist(), cells.trials.tolist(), strict=True)
    ]


def write_texts(
    axes: "Axes",
    cells: MapCells,
    texts: Sequence[str],
    colours: Sequence[Any],
    covered: Flags,
    size: tuple[float, float],
) -> None:
    """A text in the middle of each cell; where the cell is hatched or striped, `covered`, on a patch of its colour."""
    longest = max(max(map(len, text.split("\n"))) for text in texts)
    lines = max(text.count("\n") + 1 for text in texts)
    font = max(
        3.5, min(7.5, 72 * 0.88 * size[0] / (0.56 * longest), 72 * 0.7 * size[1] / (1.25 * lines))
    )
    places = zip(cells.columns, cells.rows, strict=True)
    for (x, y), text, colour, patched in zip(places, texts, colours, covered, strict=True):
        axes.text(
            x + 0.5,
            y + 0.5,
            text,
            ha="center",
            va="center",
            fontsize=font,
            linespacing=1.1,
            color=text_colour_on(colour),
            bbox={"facecolor": colour, "lw": 0, "pad": 0.8} if patched else None,
        )


def colour_limit(ratios: Sequence[CellRatios]) -> float:
    """The logarithm of the ratio at the end of the colours, which all maps share."""
    with np.errstate(divide="ignore"):
        logs = np.abs(np.log(np.concatenate([found.ratio for found in ratios])))
    logs = logs[np.isfinite(logs)]
    return float(
        np.clip(np.quantile(logs, 0.95) if len(logs) else 0.0, math.log(1.1), math.log(100))
    )


def ratio_figure(
    scales: Sequence[AxisScale],
    cells: MapCells,
    found: CellRatios,
    title: str,
    reference: str,
    limit: float,
) -> "Figure":
    """Regret over that of the reference: blue where it is less, red where it is more, hatched where that is unclear."""
    import matplotlib as mpl
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Normalize

    size = cell_size(scales, 4.3)
    figure, axes = new_map(scales, size, 0.9)
    colours = mpl.colormaps["RdBu_r"]
    scale = Normalize(-limit, limit)
    with np.errstate(divide="ignore"):
        logs = np.log(found.ratio)
    known = ~np.isnan(logs)
    faces = np.full((len(logs), 4), (0.87, 0.88, 0.9, 1.0))
    # the darkest ends are left out: black on blue is hard to read
    faces[known] = colours(0.5 + 0.84 * (scale(np.clip(logs[known], -limit, limit)) - 0.5))
    every = np.ones(len(logs), dtype=bool)
    axes.add_collection(
        PolyCollection(corners(cells, every), facecolors=faces, edgecolors=faces, lw=0)
    )
    unclear = known & (found.side == 0)
    if unclear.any():
        hatch = PolyCollection(
            corners(cells, unclear), facecolors="none", edgecolors="#9aa3ad", lw=0, hatch="/////"
        )
        axes.add_collection(hatch)
    for i in range(1, len(scales[0].labels)):
        axes.axvline(i, color="white", lw=0.6)
    for i in range(1, len(scales[1].labels)):
        axes.axhline(i, color="white", lw=0.6)
    if all(len(one.labels) <= NUMBERED_MAP_MAX_CELLS for one in scales):
        texts = [ratio_text(ratio) for ratio in found.ratio]
        write_texts(axes, cells, texts, list(faces), unclear, size)
    said = f"{short_name(title)}:\nregret over that of {short_name(reference)}"
    axes.set_title(said.replace("\n", " ") if len(said) < 48 else said, parse_math=False)
    trimmed = mpl.colors.LinearSegmentedColormap.from_list(
        "ratio", colours(np.linspace(0.08, 0.92, 256))
    )
    beyond = np.abs(logs[np.isfinite(logs)]) > limit
    bar = figure.colorbar(
        mpl.cm.ScalarMappable(scale, trimmed),
        ax=axes,
        extend="both" if beyond.any() or np.isinf(logs).any() else "neither",
        fraction=0.05,
        aspect=24,
    )
    ticks = ratio_ticks(math.exp(-limit), math.exp(limit))
    bar.set_ticks([math.log(tick) for tick in ticks], labels=[f"{tick:g}" for tick in ticks])
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7.5, length=2)
    return figure


def ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios between two, 1 among them, not too many."""
    low, high = low * (1 - 1e-9), high * (1 + 1e-9)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7), tuple(np.arange(10, 100) / 10)):
        ticks = [d * 10**k for k in decades for d in digits if low <= d * 10**k <= high]
        if len(ticks) >= 4:
            break
    thinned = -(-len(ticks) // 9)
    one = min(range(len(ticks)), key=lambda i: abs(ticks[i] - 1))
    return [round(tick, 9) for i, tick in enumerate(ticks) if (i - one) % thinned == 0]


def line_figure(
    points: PointTables, scale: AxisScale, cells: MapCells, styles: Sequence[Style], title: str
) -> "Figure":
    """Regret over that of the reference along an axis, with its interval, for every policy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2, 4.2 + 0.08 * len(styles)), layout="constrained")
    axes = figure.subplots()
    places = np.arange(float(len(scale.labels))) if scale.values is None else scale.values
    shown = np.concatenate([found.ratio for found in cells.ratios])
    shown = np.append(shown[np.isfinite(shown) & (shown > 0)], 1.0)
    low, high = shown.min(), shown.max()
    room = max(1.15, (high / low) ** 0.12)
    lines = []
    for p, (style, found) in enumerate(zip(styles, cells.ratios, strict=True)):
        x = places[cells.columns]
        if p == points.reference:
            lines += axes.plot(x, np.ones(len(x)), **LIMIT_STYLE)
            continue
        with np.errstate(invalid="ignore"):
            ratio = np.where(found.ratio > 0, found.ratio, math.nan)
            ends = np.clip((found.lower, found.upper), low / room**2, high * room**2)
        look: dict[str, Any] = {"color": style.colour, "marker": "o", "ms": 3.5}
        if scale.values is None:  # texts have no order to draw a line along
            x = x + (p + 0.5 - len(styles) / 2) * 0.6 / len(styles)
            lines += axes.plot(x, ratio, linestyle="", **look)
            axes.vlines(x, *ends, color=style.colour, lw=1.2)
        else:
            lines += axes.plot(x, ratio, linestyle=style.dashes, **look)
            axes.fill_between(x, *ends, color=style.colour, alpha=0.16, lw=0)
    axes.set(yscale="log", ylim=(low / room, high * room))
    ticks = ratio_ticks(*axes.get_ylim())
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks([], minor=True)
    if scale.values is None:
        axes.set_xticks(places, [short_name(label) for label in scale.labels])
        for text in axes.get_xticklabels():
            text.set(parse_math=False, rotation=30 if max(map(len, scale.labels)) > 9 else 0)
    else:
        even = is_logarithmic(scale.values)
        axes.set_xscale("log" if even else "linear")
        apart = np.diff(np.log(scale.values) if even else scale.values)
        if len(apart) and apart.min() > 0.06 * apart.sum():
            axes.set_xticks(scale.values, render_numbers(scale.values))
            axes.set_xticks([], minor=True)
    axes.set_xlabel(scale.title, parse_math=False)
    axes.set_ylabel(
        f"regret over that of {short_name(styles[points.reference].title)}", parse_math=False
    )
    axes.set_title(short_title(title).rstrip(), parse_math=False)
    axes.grid(alpha=0.25)
    legend_below(figure, lines, [short_name(style.title) for style in styles])
    return figure


def is_logarithmic(values: Floats) -> bool:
    """Whether the values of an axis are spaced more evenly in their logarithms."""
    if len(values) < 3 or values[0] <= 0 or values[-1] < 8 * values[0]:
        return False
    gaps = np.diff(values), np.diff(np.log(values))
    plain, logarithmic = (float(gap.std() / gap.mean()) for gap in gaps)
    return logarithmic < plain
