"""The rounds to come, played and said: how much can be played while somebody waits, and what came of it in words.

Shared by the page of a campaign that looks ahead and by the one that tries a campaign on guessed means.
"""

import math
from dataclasses import dataclass
from statistics import median, median_low
from typing import NamedTuple

from fastapi import Request, Response

from heterobandits.campaigns.analysis.answers import mixed_text
from heterobandits.campaigns.analysis.projection import (
    Ahead,
    Worth,
    chance,
    guess_from,
    look_ahead,
    seconds_of,
    silent,
    with_other_team,
)
from heterobandits.campaigns.analysis.projection_lanes import Guess
from heterobandits.campaigns.files.csv_tables import number_or_text
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import Collected, Reports
from heterobandits.errors import InvalidInput, sensitivity_from, whole_number
from heterobandits.output.pages import rendered
from heterobandits.planner.plans import count_text
from heterobandits.web.api.knowledge import MOST_ROUNDS
from heterobandits.web.pages.outlook_charts import (
    BestKnown,
    Chart,
    Step,
    course_chart,
    learning_chart,
    steps_of,
)
from heterobandits.web.request_fields import Form
from heterobandits.web.stream import streamed
from heterobandits.web.turns import LONGEST, Tell, alone

WITHOUT_END = 20  # rounds that are looked ahead if the season has no end
LEAST_DRAWS, MOST_DRAWS = 20, 200
AIM = 3.0  # seconds that it should take
MOST_SECONDS = 5.0  # that it may take with the fewest draws; for more, fewer rounds are played
PATIENT_SECONDS = LONGEST  # and if somebody has said to wait for all of them


class Wish(NamedTuple):
    """What somebody wants played: so many rounds, of which `played` can be, with one more agent and guessed means or not."""

    rounds: int
    played: int
    draws: int
    add: Reports | None
    guess: Guess | None


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
        learning=learning_chart(begun, wish.played, found, looks),
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

    >>> change_in_percent(131.0, 100.0), change_in_percent(50.0, 100.0), change_in_percent(1.0, 0.0)
    ('+31 %', '−50 %', '–')
    """
    if other <= 0.0:
        return "–"
    more = 100.0 * (value / other - 1.0)
    return f"{'−' if round(more) < 0 else '+'}{abs(more):.0f} %"


def share(value: float, whole: float) -> str:
    """How much of it, in percent, never more than it is.

    >>> share(99.6, 100.0), share(1.0, 0.0)
    ('99 %', '–')
    """
    return f"{math.floor(100.0 * value / whole + 1e-9)} %" if whole > 0.0 else "–"


async def looked_ahead(request: Request, state: State, wish: Wish) -> Outlook:
    """The outlook, when it is ready: one at a time is computed."""
    return await alone(request, lambda tell: outlook(state, wish, tell))


def tried(request: Request, state: State, wish: Wish) -> Response:
    """The outlook bit by bit, as `streamed` has it: the markup of `outlook.html` comes last."""
    return streamed(
        request, lambda tell: rendered("site/outlook.html", outlook=outlook(state, wish, tell))
    )
