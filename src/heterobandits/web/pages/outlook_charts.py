"""The rounds to come as charts: the detections expected round by round, and the chance that the best arm is known."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from heterobandits.campaigns.analysis.projection import SeasonOutlook
from heterobandits.planner.vocabulary import CampaignWords

CURVE_MAX_STEPS = 60  # of a curve; with more rounds several are one
CHART_WIDTH, CHART_HEIGHT = 360, 220  # of a chart, and the room beside its curves
CHART_MARGIN_LEFT, CHART_MARGIN_RIGHT, CHART_MARGIN_TOP, CHART_MARGIN_BOTTOM = 46, 8, 8, 26
CHART_BOX = (
    CHART_WIDTH,
    CHART_HEIGHT,
    CHART_MARGIN_LEFT,
    CHART_WIDTH - CHART_MARGIN_RIGHT,
    CHART_MARGIN_TOP,
    CHART_HEIGHT - CHART_MARGIN_BOTTOM,
)
CHART_MAX_TICKS = 5


class OutlookStep(NamedTuple):
    """Some rounds, from the first to the last: the detections expected in each of them, going round in turn, and at best."""

    rounds: str
    detections: str
    rotation: str
    best: str


class BestKnown(NamedTuple):
    """The chance that the best arm is known after a round."""

    round: str
    known: str


class Curve(NamedTuple):
    """A curve of a chart: what it is of, how it is drawn, and where."""

    name: str
    kind: str
    points: list[tuple[float, float]]


class ChartHit(NamedTuple):
    """An area of a chart, and the text shown when somebody points at it."""

    x: float
    width: float
    text: str


class Chart(NamedTuple):
    """What a chart is drawn from."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    up: list[tuple[float, str]]
    along: list[tuple[float, str]]
    curves: list[Curve]
    hits: list[ChartHit]


def steps_of(
    begun: int, found: SeasonOutlook, w: CampaignWords
) -> list[tuple[OutlookStep, int, float]]:
    """The course in steps, each with its last round, from 1 on, and the detections in each of its rounds."""
    each = found.course.detections
    size = math.ceil(len(each) / CURVE_MAX_STEPS)
    made = []
    for first in range(0, len(each), size):
        part = each[first : first + size]
        last = first + len(part)
        one = f"{w.Round} {begun + last:,}"
        name = one if len(part) == 1 else f"{w.Rounds} {begun + first + 1:,} to {begun + last:,}"
        mean = math.fsum(part) / len(part)
        others = (render_exact(found.course.rotation), render_exact(found.course.best))
        made.append((OutlookStep(name, render_exact(mean), *others), last, mean))
    return made


def render_exact(value: float) -> str:
    """A number of a table."""
    return f"{value:.2f}" if value < 100.0 else f"{value:,.1f}"


def course_chart(
    begun: int, rounds: int, steps: Sequence[tuple[OutlookStep, int, float]], found: SeasonOutlook
) -> Chart:
    """The detections expected round by round, beside those of a rotation and of the best assignment."""
    course = found.course
    most = max(course.best, *(mean for _, _, mean in steps)) or 1.0
    ends = [0, *(last for _, last, _ in steps)]
    middles = [chart_x((low + high) / 2, rounds) for low, high in pairwise(ends)]
    edges = (CHART_MARGIN_LEFT, CHART_WIDTH - CHART_MARGIN_RIGHT)

    def level(value: float) -> list[tuple[float, float]]:
        return [(x, chart_y(value, most)) for x in edges]

    heights = [chart_y(mean, most) for _, _, mean in steps]
    points = [(edges[0], heights[0]), *zip(middles, heights, strict=True), (edges[1], heights[-1])]
    return Chart(
        *CHART_BOX,
        up=[(chart_y(tick, most), f"{tick:g}") for tick in round_number_ticks(0.0, most)],
        along=round_ticks(begun, rounds),
        curves=[
            Curve("at best", "best", level(course.best)),
            Curve("in turn", "other", level(course.rotation)),
            Curve("planned", "curve", points),
        ],
        hits=chart_hits(
            rounds,
            (
                (
                    last,
                    f"{s.rounds}: {s.detections} detections, in turn {s.rotation}, best {s.best}",
                )
                for s, last, _ in steps
            ),
        ),
    )


def learning_chart(
    begun: int, rounds: int, found: SeasonOutlook, looks: Sequence[BestKnown], w: CampaignWords
) -> Chart:
    """The chance that the best arm is known, round by round."""
    seen = found.course.looks
    return Chart(
        *CHART_BOX,
        up=[(chart_y(tick, 1.0), f"{100 * tick:.0f} %") for tick in (0.0, 0.25, 0.5, 0.75, 1.0)],
        along=round_ticks(begun, rounds),
        curves=[
            Curve(
                f"chance that the best {w.arm} is known",
                "curve",
                [(chart_x(look.round - 0.5, rounds), chart_y(look.known, 1.0)) for look in seen],
            )
        ],
        hits=chart_hits(
            rounds,
            (
                (look.round, f"{text.round}: {text.known}")
                for look, text in zip(seen, looks, strict=True)
            ),
        ),
    )


def chart_x(rounds: float, of: int) -> float:
    """The horizontal position where so many rounds end in a chart."""
    return round(
        CHART_MARGIN_LEFT + (CHART_WIDTH - CHART_MARGIN_LEFT - CHART_MARGIN_RIGHT) * rounds / of, 1
    )


def chart_y(value: float, most: float) -> float:
    """The vertical position of a value in a chart whose curves reach up to `most`."""
    return round(
        CHART_HEIGHT
        - CHART_MARGIN_BOTTOM
        - (CHART_HEIGHT - CHART_MARGIN_TOP - CHART_MARGIN_BOTTOM) * value / (1.02 * most),
        1,
    )


def chart_hits(rounds: int, ends: Iterable[tuple[int, str]]) -> list[ChartHit]:
    """What is said where somebody points: a part of the chart up to the end of each of these rounds."""
    made, before = [], chart_x(0, rounds)
    for last, text in ends:
        end = chart_x(last, rounds)
        made.append(ChartHit(before, round(end - before, 1), text))
        before = end
    return made


def round_ticks(begun: int, rounds: int) -> list[tuple[float, str]]:
    """Rounds that are named under a chart, each in its middle."""
    named = round_number_ticks(begun + 1, begun + rounds, 1.0)
    return [(chart_x(tick - begun - 0.5, rounds), f"{tick:,.0f}") for tick in named]


def round_number_ticks(low: float, high: float, least: float = 0.0) -> list[float]:
    """Round numbers between the two, MOST_TICKS at most, `least` apart or more.

    >>> round_number_ticks(16, 30, 1.0), round_number_ticks(0, 2.7), round_number_ticks(7, 7, 1.0)
    ([20.0, 25.0, 30.0], [0.0, 1.0, 2.0], [7.0])
    """
    wanted = max(least, (high - low) / CHART_MAX_TICKS)
    power = 10.0 ** math.floor(math.log10(wanted)) if wanted > 0.0 else 1.0
    apart = next(power * n for n in (1, 2, 5, 10) if power * n >= 0.999 * wanted)
    first = math.ceil(low / apart - 1e-9)
    return [n * apart for n in range(first, math.floor(high / apart + 1e-9) + 1)]
