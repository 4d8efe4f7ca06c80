"""The rounds to come, played and said: how much can be played while somebody waits, what came of it in words and as numbers
to draw, and how it reaches a page bit by bit.

Shared by the page of a campaign that looks ahead and by the one that tries a campaign on guessed means.
"""

import asyncio
import json
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, median_low
from typing import NamedTuple

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from heterobandits.campaigns.analysis.answers import mixed_text
from heterobandits.campaigns.analysis.projection import (
    Ahead,
    Guess,
    Worth,
    chance,
    guess_from,
    look_ahead,
    seconds_of,
    silent,
    with_other_team,
)
from heterobandits.campaigns.files.csv_tables import number_or_text
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import Collected, Reports
from heterobandits.errors import InvalidInput, sensitivity_from, whole_number
from heterobandits.output.pages import rendered
from heterobandits.planner.plans import count_text
from heterobandits.web.api.knowledge import MOST_ROUNDS
from heterobandits.web.pages.base import PRIVATE
from heterobandits.web.request_fields import Form
from heterobandits.web.turns import LONGEST, Left, Tell, alone, places_of

Line = dict[str, object]

WITHOUT_END = 20  # rounds that are looked ahead if the season has no end
LEAST_DRAWS, MOST_DRAWS = 20, 200
AIM = 3.0  # seconds that it should take
MOST_SECONDS = 5.0  # that it may take with the fewest draws; for more, fewer rounds are played
PATIENT_SECONDS = LONGEST  # and if somebody has said to wait for all of them
MOST_STEPS = 60  # of a curve; with more rounds several are one
WIDTH, HEIGHT = 360, 220  # of a chart, and the room beside its curves
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 8, 26
MOST_TICKS = 5
TOLD = 0.02  # shares that are told are at least so far apart


class Wish(NamedTuple):
    """What somebody wants played: so many rounds, of which `played` can be, with one more agent and guessed means or not."""

    rounds: int
    played: int
    draws: int
    add: Reports | None
    guess: Guess | None


class Step(NamedTuple):
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


class Hit(NamedTuple):
    """Where somebody points at a chart, and what is said then."""

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
    hits: list[Hit]


@dataclass(frozen=True)
class Outlook:
    """Everything that `outlook.html` shows."""

    note: str | None
    sentences: list[str]
    facts: list[tuple[str, str]]
    assumes: list[str]
    steps: list[Step]
    course: Chart
    looks: list[BestKnown]
    learning: Chart


def wish_fields(state: State, form: Form) -> dict[str, str]:
    """The fields of the form as they were filled in, or as they are offered."""
    return {
        "rounds": form.text("rounds", str(rounds_offered(state))),
        "sensitivity": form.text("sensitivity", sensitivity_offered(state)),
        "patient": form.text("patient"),
    }


def rounds_offered(state: State) -> int:
    """Those left of the season; some, if it has no end or is over."""
    return min(state.rounds_left or WITHOUT_END, MOST_ROUNDS)


def sensitivity_offered(state: State) -> str:
    """The one in the middle of the team, for one more agent; nothing if every arm has one already."""
    here = [r.sensitivity for r in reports_here(state)]
    return "" if is_full(state) else f"{median(here):.3g}"


def reports_here(state: State) -> list[Reports]:
    """How those report who are still sent."""
    return [state.rows[agent.row].reports for agent in state.agents if not agent.retired]


def is_full(state: State) -> bool:
    """Whether one more agent would have nowhere to go."""
    return len(reports_here(state)) >= sum(not arm.retired for arm in state.arms)


def wish_from(state: State, form: Form, *, guessed: bool = False) -> Wish:
    """What a form asks for: `rounds`, the `sensitivity` of one more agent or nothing, whether somebody is `patient`.

    With `guessed` also the means, between `low` and `high`. What is wrong is raised by field, all at once.
    """
    fields, errors = wish_fields(state, form), Collected()
    rounds = errors.of("rounds", parse_rounds, fields["rounds"])
    add = None
    if fields["sensitivity"]:
        add = errors.of("sensitivity", one_more, state, number_or_text(fields["sensitivity"]))
    guess = None
    if guessed:
        ends = (number_or_text(form.text(name)) for name in ("low", "high"))
        guess = errors.all("low", guess_from, *ends)
    errors.end()
    assert rounds is not None, "what is wrong has been named"
    seconds = PATIENT_SECONDS if fields["patient"] else MOST_SECONDS
    played = rounds_within(state, rounds, add is not None, seconds)
    return Wish(rounds, played, draws_within(state, played, add is not None), add, guess)


def parse_rounds(text: str, name: str) -> int:
    """A text as a number of rounds to play."""
    return whole_number(number_or_text(text), name, 1, MOST_ROUNDS)


def one_more(state: State, sensitivity: object, name: str) -> Reports:
    """One more agent of this sensitivity, who makes as many tests in a visit as those in the middle of the team."""
    tests = median_low(r.tests for r in reports_here(state))
    made = Reports(sensitivity_from(sensitivity, name), tests=tests)
    with_other_team(state, made, None)
    return made


def rounds_within(state: State, rounds: int, more: bool, seconds: float) -> int:
    """How many of the rounds can be played in this time with the fewest draws, one at least."""
    if seconds_of(state, 1, LEAST_DRAWS, more) > PATIENT_SECONDS:
        raise InvalidInput(
            f"with {count_text(len(state.rows), 'agent')} and {count_text(len(state.arms), 'arm')} a single round takes too long "
            "while you wait: use `heterobandits campaign project`"
        )
    wanted = seconds_of(state, rounds, LEAST_DRAWS, more)
    return rounds if wanted <= seconds else max(1, int(rounds * seconds / wanted))


def draws_within(state: State, rounds: int, more: bool) -> int:
    """The most draws, in tens, that can be played in the time that it should take."""
    tens = range(MOST_DRAWS, LEAST_DRAWS, -10)
    fitting = (draws for draws in tens if seconds_of(state, rounds, draws, more) <= AIM)
    return next(fitting, LEAST_DRAWS)


def outlook(state: State, wish: Wish, tell: Tell = silent) -> Outlook:
    """The rounds that are wished for, played; `tell` is told the share that is done and may end it by raising."""
    found = look_ahead(
        state, rounds=wish.played, draws=wish.draws, add=wish.add, guess=wish.guess, tell=tell
    )
    begun, course, plain = len(state.rounds), found.course, found.plain
    steps = steps_of(begun, found)
    looks = [
        BestKnown(f"Round {begun + look.round:,}", chance(look.known, wish.draws))
        for look in course.looks
    ]
    return Outlook(
        note=note_of(state, wish),
        sentences=outlook_sentences(state, wish, found),
        facts=[
            (
                figure(plain.detections),
                f"detections expected in {count_text(wish.played, 'round')}",
            ),
            (
                change_in_percent(plain.detections, plain.rotation),
                "compared with going round in turn",
            ),
            (
                share(plain.detections, wish.played * course.best),
                "of what the best assignment finds",
            ),
            (
                looks[-1].known,
                f"chance that the best arm is known by round {begun + wish.played:,}",
            ),
        ],
        assumes=assumptions(state, wish),
        steps=[step for step, _, _ in steps],
        course=course_chart(begun, wish.played, steps, found),
        looks=looks,
        learning=learning_chart(begun, wish, found, looks),
    )


def note_of(state: State, wish: Wish) -> str | None:
    """What is said first if not all rounds were played."""
    if wish.played == wish.rounds:
        return None
    seconds = seconds_of(state, wish.rounds, LEAST_DRAWS, wish.add is not None)
    return (
        f"These are the next {wish.played:,} of {wish.rounds:,} rounds: to play all of them takes about "
        f"{seconds:,.0f} seconds."
    )


def outlook_sentences(state: State, wish: Wish, found: Ahead) -> list[str]:
    """What came of it in plain sentences, the most important one first."""
    plain, course = found.plain, found.course
    ahead = "the next round" if wish.played == 1 else f"the next {wish.played:,} rounds"
    said = [
        f"In {ahead} the team is expected to make {figure(plain.detections)} detections"
        f"{versus(plain.detections, plain.rotation)}; 8 times of 10 it is between {plain.low:,.0f} and {plain.high:,.0f}."
    ]
    most = wish.played * course.best
    if most > 0.0:
        said.append(
            f"Whoever knew the mean of every arm would make {figure(most)}: the plans are expected to reach "
            f"{share(plain.detections, most)} of that."
        )
    first, end = (figure(course.detections[i]) for i in (0, -1))
    goes = f"begins with {first} detections a round and ends with {end}"
    known = chance(plain.best_known, wish.draws)
    said.append(
        f"It {f'makes {first} detections a round' if first == end else goes}; the chance that the best arm is known by "
        f"round {len(state.rounds) + wish.played:,} is {known}."
    )
    if found.worth is not None and wish.add is not None:
        said.append(worth_text(wish.add, found.worth))
    return said


def versus(detections: float, rotation: float) -> str:
    """How many more that is than going round in turn makes, within a sentence."""
    if rotation <= 0.0:
        return ""
    more = 100.0 * (detections / rotation - 1.0)
    if abs(more) < 0.5:
        return ", as many as going round the arms in turn"
    return (
        f", {abs(more):.0f} % {'more' if more > 0.0 else 'fewer'} than going round the arms in turn"
    )


def worth_text(add: Reports, worth: Worth) -> str:
    """What one more agent is worth, as far as that can be told."""
    tests = f" and {add.tests} tests a visit" if add.tests > 1 else ""
    who = f"ne more agent with sensitivity {add.sensitivity:g}{tests}"
    error = f"standard error {figure(worth.more_se)}"
    if abs(worth.more) < 2.0 * worth.more_se or worth.more == 0.0:
        return f"What o{who} would add is not distinguishable from nothing: {worth.more:+.2f} detections, {error}."
    kind = "more" if worth.more > 0.0 else "fewer"
    return f"O{who} would make {figure(abs(worth.more))} detections {kind} ({error})."


def assumptions(state: State, wish: Wish) -> list[str]:
    """What was played, and what has to hold for it."""
    means = (
        "whose means fit what is known"
        if wish.guess is None
        else f"whose means are drawn evenly between {wish.guess.low:g} and {wish.guess.high:g}"
    )
    said = [
        f"Played with {state.policy.name} in {count_text(wish.draws, 'world')} {means}.",
        "Nobody is absent and nothing is closed, agents detect as they are believed to, and means stand still.",
    ]
    if state.waiting:
        said.append("Outcomes that rounds still wait for stay unknown.")
    return [*said, *filter(None, [mixed_text(state)])]


def figure(value: float) -> str:
    """A number with about two digits that mean something.

    >>> figure(1234.5), figure(61.4), figure(2.44), figure(0.056)
    ('1,234', '61', '2.4', '0.06')
    """
    digits = 0 if abs(value) >= 10.0 else 1 if abs(value) >= 1.0 else 2
    return f"{value:,.{digits}f}"


def change_in_percent(value: float, other: float) -> str:
    """By how much one is above the other.

    >>> change(131.0, 100.0), change(50.0, 100.0), change(1.0, 0.0)
    ('+31 %', '−50 %', '–')
    """
    if other <= 0.0:
        return "–"
    more = 100.0 * (value / other - 1.0)
    return f"{'−' if round(more) < 0 else '+'}{abs(more):.0f} %"


def share(value: float, whole: float) -> str:
    """How much of it, in percent."""
    return f"{100.0 * value / whole:.0f} %" if whole > 0.0 else "–"


def steps_of(begun: int, found: Ahead) -> list[tuple[Step, int, float]]:
    """The course in steps, each with its last round, from 1 on, and the detections in each of its rounds."""
    each = found.course.detections
    size = math.ceil(len(each) / MOST_STEPS)
    made = []
    for first in range(0, len(each), size):
        part = each[first : first + size]
        last = first + len(part)
        one = f"Round {begun + last:,}"
        name = one if len(part) == 1 else f"Rounds {begun + first + 1:,} to {begun + last:,}"
        mean = math.fsum(part) / len(part)
        others = (exact(found.course.rotation), exact(found.course.best))
        made.append((Step(name, exact(mean), *others), last, mean))
    return made


def exact(value: float) -> str:
    """A number of a table."""
    return f"{value:.2f}" if value < 100.0 else f"{value:,.1f}"


def course_chart(
    begun: int, rounds: int, steps: Sequence[tuple[Step, int, float]], found: Ahead
) -> Chart:
    """The detections expected round by round, beside those of a rotation and of the best assignment."""
    course = found.course
    most = max(course.best, *(mean for _, _, mean in steps)) or 1.0
    ends = [0, *(last for _, last, _ in steps)]
    middles = [across((low + high) / 2, rounds) for low, high in pairwise(ends)]
    edges = (LEFT, WIDTH - RIGHT)

    def level(value: float) -> list[tuple[float, float]]:
        return [(x, upward(value, most)) for x in edges]

    heights = [upward(mean, most) for _, _, mean in steps]
    points = [(edges[0], heights[0]), *zip(middles, heights, strict=True), (edges[1], heights[-1])]
    return Chart(
        *SIZE,
        up=[(upward(tick, most), f"{tick:g}") for tick in ticks(0.0, most)],
        along=round_ticks(begun, rounds),
        curves=[
            Curve("at best", "best", level(course.best)),
            Curve("in turn", "other", level(course.rotation)),
            Curve("planned", "curve", points),
        ],
        hits=hits(
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


def learning_chart(begun: int, wish: Wish, found: Ahead, looks: Sequence[BestKnown]) -> Chart:
    """The chance that the best arm is known, round by round."""
    rounds, seen = wish.played, found.course.looks
    return Chart(
        *SIZE,
        up=[(upward(tick, 1.0), f"{100 * tick:.0f} %") for tick in (0.0, 0.25, 0.5, 0.75, 1.0)],
        along=round_ticks(begun, rounds),
        curves=[
            Curve(
                "chance that the best arm is known",
                "curve",
                [(across(look.round - 0.5, rounds), upward(look.known, 1.0)) for look in seen],
            )
        ],
        hits=hits(
            rounds,
            (
                (look.round, f"{text.round}: {text.known}")
                for look, text in zip(seen, looks, strict=True)
            ),
        ),
    )


SIZE = (WIDTH, HEIGHT, LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM)


def across(rounds: float, of: int) -> float:
    """Where so many of the rounds end in a chart, from the left."""
    return round(LEFT + (WIDTH - LEFT - RIGHT) * rounds / of, 1)


def upward(value: float, most: float) -> float:
    """Where a number stands in a chart whose curves go up to `most`, from above."""
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / (1.02 * most), 1)


def hits(rounds: int, ends: Iterable[tuple[int, str]]) -> list[Hit]:
    """What is said where somebody points: a part of the chart up to the end of each of these rounds."""
    made, before = [], across(0, rounds)
    for last, text in ends:
        end = across(last, rounds)
        made.append(Hit(before, round(end - before, 1), text))
        before = end
    return made


def round_ticks(begun: int, rounds: int) -> list[tuple[float, str]]:
    """Rounds that are named under a chart, each in its middle."""
    named = ticks(begun + 1, begun + rounds, 1.0)
    return [(across(tick - begun - 0.5, rounds), f"{tick:,.0f}") for tick in named]


def ticks(low: float, high: float, least: float = 0.0) -> list[float]:
    """Round numbers between the two, MOST_TICKS at most, `least` apart or more.

    >>> ticks(16, 30, 1.0), ticks(0, 2.7), ticks(7, 7, 1.0)
    ([20.0, 25.0, 30.0], [0.0, 1.0, 2.0], [7.0])
    """
    wanted = max(least, (high - low) / MOST_TICKS)
    power = 10.0 ** math.floor(math.log10(wanted)) if wanted > 0.0 else 1.0
    apart = next(power * n for n in (1, 2, 5, 10) if power * n >= 0.999 * wanted)
    first = math.ceil(low / apart - 1e-9)
    return [n * apart for n in range(first, math.floor(high / apart + 1e-9) + 1)]


async def looked_ahead(request: Request, state: State, wish: Wish) -> Outlook:
    """The outlook, when it is ready: one at a time is computed."""
    return await alone(request, lambda tell: outlook(state, wish, tell))


def tried(request: Request, state: State, wish: Wish) -> Response:
    """The outlook bit by bit, as `streamed` has it: the markup of `outlook.html` comes last."""
    return streamed(
        request, lambda tell: rendered("site/outlook.html", outlook=outlook(state, wish, tell))
    )


def streamed(request: Request, compute: Callable[[Tell], str]) -> Response:
    """How far a long computation is, line by line, and at last the markup it makes.

    Lines of JSON: `{"share": 0.1}`, perhaps with what is `said` to whoever waits for others; then `{"html": ...}` or `{"error": ...}`.
    When the reader goes away, the next call of `tell` raises, and so ends the computation.
    """
    unbuffered = PRIVATE | {"X-Accel-Buffering": "no"}  # nginx would keep it until it is whole
    return StreamingResponse(
        stream_lines(request, compute), 200, unbuffered, "application/x-ndjson"
    )


async def stream_lines(request: Request, compute: Callable[[Tell], str]) -> AsyncIterator[str]:
    """The lines of such a stream."""
    loop, left = asyncio.get_running_loop(), threading.Event()
    said: asyncio.Queue[Line] = asyncio.Queue()
    told = 0.0

    def tell(done: float) -> None:
        nonlocal told
        if left.is_set():
            raise Left
        if done >= told + TOLD:
            told = done
            so_far: Line = {"share": round(done, 2)}
            loop.call_soon_threadsafe(said.put_nowait, so_far)

    async def work() -> None:
        # It goes on until `tell` has raised, so that nothing else is computed before this has ended.
        try:
            said.put_nowait({"html": await alone(request, begun)})
        except (Left, HTTPException):  # gone while it was computed, or before
            pass
        except InvalidInput as error:
            said.put_nowait({"error": str(error)})
        except Exception:
            said.put_nowait(
                {"error": "something unforeseen happened; the server's output says what"}
            )
            raise

    def begun(go_on: Tell) -> str:
        def both(done: float) -> None:
            go_on(done)
            tell(done)

        both(0.0)
        return compute(both)

    waits = places_of(request).long.full
    working = asyncio.create_task(work())
    try:
        more = {"said": "Others are having something computed: yours is next."} if waits else {}
        yield stream_line({"share": 0.0, **more})
        found: Line = {"share": 0.0}
        while "share" in found:
            found = await said.get()
            yield stream_line(found)
        await working
    finally:
        left.set()


def stream_line(found: Line) -> str:
    """A line of JSON."""
    return json.dumps(found) + "\n"
