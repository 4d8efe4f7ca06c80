"""The rounds to come, played and said: how much can be played while somebody waits, and what came of it in words.

Shared by the page of a campaign that looks ahead and by the one that tries a campaign on guessed means.
"""

import math
from dataclasses import dataclass
from statistics import median, median_low
from typing import NamedTuple

from fastapi import Request, Response

from heterobandits.campaigns.analysis.answers import mixed_arms_text
from heterobandits.campaigns.analysis.projection import (
    Projection,
    SeasonOutlook,
    TeamWorth,
    estimate_seconds,
    ignore_progress,
    look_ahead,
    parse_guess,
    render_chance,
    state_with_other_team,
)
from heterobandits.campaigns.analysis.projection_lanes import GuessedMeans
from heterobandits.campaigns.events import OnShare
from heterobandits.campaigns.files.csv_tables import parse_number_or_text, parse_rate_cell
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import FieldErrors
from heterobandits.errors import InvalidInput, parse_integer, parse_sensitivity
from heterobandits.output.pages import render_template
from heterobandits.planner.plans import render_count
from heterobandits.planner.roster import Reports
from heterobandits.planner.vocabulary import CampaignWords
from heterobandits.web.api.knowledge import API_PROJECTION_MAX_ROUNDS
from heterobandits.web.pages.outlook_charts import (
    BestKnown,
    Chart,
    OutlookStep,
    course_chart,
    learning_chart,
    steps_of,
)
from heterobandits.web.request_fields import Form
from heterobandits.web.stream import stream_response
from heterobandits.web.turns import LONG_COMPUTATION_MAX_S, compute_alone

ENDLESS_SEASON_ROUNDS = 20  # rounds that are looked ahead if the season has no end
OUTLOOK_MIN_DRAWS, OUTLOOK_MAX_DRAWS = 20, 200
BEST_KNOWN_MIN_CHANCE = (
    0.05  # that the best arm is known by the end, to be worth a word and a chart
)
OUTLOOK_TARGET_S = 3.0  # seconds that it should take
OUTLOOK_MAX_S = 5.0  # that it may take with the fewest draws; for more, fewer rounds are played
PATIENT_OUTLOOK_MAX_S = LONG_COMPUTATION_MAX_S  # and if somebody has said to wait for all of them


class OutlookWish(NamedTuple):
    """What somebody wants to see: so many rounds, of which `played` are possible, perhaps with a team that has one more agent."""

    rounds: int
    played: int
    draws: int
    changed: State | None
    guess: GuessedMeans | None


@dataclass(frozen=True)
class Outlook:
    """Everything that `outlook.html` shows."""

    words: CampaignWords
    note: str | None
    sentences: list[str]
    facts: list[tuple[str, str]]
    assumes: list[str]
    steps: list[OutlookStep]
    turn: str
    course: Chart
    looks: list[BestKnown]
    learning: Chart | None


def wish_fields(state: State, form: Form) -> dict[str, str]:
    """The fields of the form as they were filled in, or as they are offered."""
    return {
        "rounds": form.text("rounds", str(suggest_rounds(state))),
        "sensitivity": form.text("sensitivity", suggest_sensitivity(state)),
        "patient": form.text("patient"),
    }


def suggest_rounds(state: State) -> int:
    """Those left of the season; some, if it has no end or is over."""
    return min(state.rounds_left or ENDLESS_SEASON_ROUNDS, API_PROJECTION_MAX_ROUNDS)


def suggest_sensitivity(state: State) -> str:
    """The one in the middle of the team, for one more agent; nothing if every arm has one already."""
    here = [r.sensitivity for r in reports_of_team(state)]
    return "" if has_no_free_arm(state) else f"{median(here):.3g}"


def reports_of_team(state: State) -> list[Reports]:
    """How those report who are still sent."""
    return [state.rows[agent.row].reports for agent in state.agents if not agent.retired]


def has_no_free_arm(state: State) -> bool:
    """Whether one more agent would have nowhere to go."""
    return len(reports_of_team(state)) >= sum(not arm.retired for arm in state.arms)


def parse_wish(state: State, form: Form, *, guessed: bool = False) -> OutlookWish:
    """The wish that a form expresses: `rounds`, perhaps the `sensitivity` of one more agent, and whether to be `patient`.

    With `guessed` also the means, between `low` and `high`. What is wrong is raised by field, all at once.
    """
    fields, errors = wish_fields(state, form), FieldErrors()
    rounds = errors.of("rounds", parse_rounds, fields["rounds"])
    changed = None
    if fields["sensitivity"]:
        changed = errors.of(
            "sensitivity", state_with_newcomer, state, parse_rate_cell(fields["sensitivity"])
        )
    guess = None
    if guessed:
        ends = (parse_rate_cell(form.text(name)) for name in ("low", "high"))
        guess = errors.all("low", parse_guess, *ends)
    errors.end()
    assert rounds is not None, "what is wrong has been named"
    seconds = PATIENT_OUTLOOK_MAX_S if fields["patient"] else OUTLOOK_MAX_S
    more = changed is not None
    played = fit_rounds(state, rounds, more, seconds)
    return OutlookWish(rounds, played, fit_draws(state, played, more), changed, guess)


def parse_rounds(text: str, name: str) -> int:
    """A text as a number of rounds to play."""
    return parse_integer(parse_number_or_text(text), name, 1, API_PROJECTION_MAX_ROUNDS)


def state_with_newcomer(state: State, sensitivity: object, name: str) -> State:
    """The state with one more agent of this sensitivity, who makes as many tests in a visit as those in the middle of the team."""
    tests = median_low(r.tests for r in reports_of_team(state))
    return state_with_other_team(
        state, None, Reports(parse_sensitivity(sensitivity, name), tests=tests)
    )


def fit_rounds(state: State, rounds: int, more: bool, seconds: float) -> int:
    """How many of the rounds can be played in this time with the fewest draws, one at least."""
    if estimate_seconds(state, 1, OUTLOOK_MIN_DRAWS, more) > PATIENT_OUTLOOK_MAX_S:
        raise InvalidInput(
            f"with {state.words.count(len(state.rows), 'agent')} and {state.words.count(len(state.arms), 'arm')} a single {state.words.round} takes too long "
            "while you wait: use `heterobandits campaign project`"
        )
    wanted = estimate_seconds(state, rounds, OUTLOOK_MIN_DRAWS, more)
    return rounds if wanted <= seconds else max(1, int(rounds * seconds / wanted))


def fit_draws(state: State, rounds: int, more: bool) -> int:
    """The most draws, in tens, that can be played in the time that it should take."""
    tens = range(OUTLOOK_MAX_DRAWS, OUTLOOK_MIN_DRAWS, -10)
    fitting = (
        draws for draws in tens if estimate_seconds(state, rounds, draws, more) <= OUTLOOK_TARGET_S
    )
    return next(fitting, OUTLOOK_MIN_DRAWS)


def compute_outlook(state: State, wish: OutlookWish, tell: OnShare = ignore_progress) -> Outlook:
    """Play the rounds that somebody wishes for; `tell` hears the share done and may stop it by raising."""
    how = {"rounds": wish.played, "draws": wish.draws}
    found = look_ahead(state, wish.changed, **how, guess=wish.guess, tell=tell)
    begun, course, plain, w = len(state.rounds), found.course, found.plain, state.words
    steps = steps_of(begun, found, w)
    looks = [
        BestKnown(f"{w.Round} {begun + look.round:,}", render_chance(look.known, wish.draws))
        for look in course.looks
    ]
    return Outlook(
        words=w,
        note=note_of_outlook(state, wish),
        sentences=outlook_sentences(state, wish, found),
        facts=[
            (
                render_figure(plain.detections),
                f"detections expected in {w.count(wish.played, 'round')}",
            ),
            (
                render_gain(plain),
                f"compared with visits in turn, 8 times of 10 ({render_rotation_range(plain)} detections)",
            ),
            (
                render_share(plain.detections, wish.played * course.best),
                "of what the best assignment finds",
            ),
            *(
                [
                    (
                        looks[-1].known,
                        f"chance that the best {w.arm} is known by {w.round} {begun + wish.played:,}",
                    )
                ]
                if plain.best_known >= BEST_KNOWN_MIN_CHANCE
                else []
            ),
        ],
        assumes=outlook_assumptions(state, wish),
        steps=[step for step, _, _ in steps],
        turn=render_rotation_range(plain),
        course=course_chart(begun, wish.played, steps, found),
        looks=looks,
        learning=learning_chart(begun, wish.played, found, looks, w)
        if plain.best_known >= BEST_KNOWN_MIN_CHANCE
        else None,
    )


def note_of_outlook(state: State, wish: OutlookWish) -> str | None:
    """A note to show first if not all rounds could be played."""
    if wish.played == wish.rounds:
        return None
    seconds = estimate_seconds(state, wish.rounds, OUTLOOK_MIN_DRAWS, wish.changed is not None)
    return (
        f"These are the next {wish.played:,} of {state.words.count(wish.rounds, 'round')}: to play all of them takes about "
        f"{seconds:,.0f} seconds."
    )


def outlook_sentences(state: State, wish: OutlookWish, found: SeasonOutlook) -> list[str]:
    """The outlook in plain sentences, the most important first."""
    plain, course = found.plain, found.course
    w = state.words
    ahead = f"the next {w.round}" if wish.played == 1 else f"the next {wish.played:,} {w.rounds}"
    said = [
        f"In {ahead} the team is expected to make {render_figure(plain.detections)} detections ({plain.low:,.0f} to {plain.high:,.0f}, 8 times of 10)"
        f"{versus_rotation_text(plain, w)}."
    ]
    most = wish.played * course.best
    if most > 0.0:
        said.append(
            f"With perfect knowledge: {render_figure(most)}; the plans are expected to reach "
            f"{render_share(plain.detections, most)} of that."
        )
    first, end = (render_figure(course.detections[i]) for i in (0, -1))
    goes = f"begins with {first} detections {w.a_round} and ends with {end}"
    known = render_chance(plain.best_known, wish.draws)
    by_then = f"; the chance that the best {w.arm} is known by {w.round} {len(state.rounds) + wish.played:,} is {known}"
    said.append(
        f"It {f'makes {first} detections {w.a_round}' if first == end else goes}"
        f"{by_then if plain.best_known >= BEST_KNOWN_MIN_CHANCE else ''}."
    )
    if found.worth is not None and wish.changed is not None:
        said.append(worth_text(reports_of_team(wish.changed)[-1], found.worth, w))
    return said


def render_rotation_range(plain: Projection) -> str:
    """How many detections visits in turn make 8 times of 10."""
    return f"{plain.rotation_low:,.0f} to {plain.rotation_high:,.0f}"


def versus_rotation_text(plain: Projection, w: CampaignWords) -> str:
    """How many more detections that is than visits in turn, as part of a sentence."""
    if plain.rotation <= 0.0:
        return ""
    often = render_rotation_range(plain)
    least, most = percent_of_gain(plain)
    if least < 1:
        return f"; visits to the {w.arms} in turn may find as much ({often})"
    return f", {least} to {most} % more than visits to the {w.arms} in turn ({often})"


def percent_of_gain(plain: Projection) -> tuple[int, int]:
    """By how much the plans are above visits in turn 8 times of 10, in whole percent."""
    return math.floor(100.0 * (plain.gain_low - 1.0)), math.ceil(100.0 * (plain.gain_high - 1.0))


def render_gain(plain: Projection) -> str:
    """The same, short; nothing while visits in turn may find as much."""
    least, most = percent_of_gain(plain)
    return f"+{least} to {most} %" if least >= 1 else "–"


def worth_text(newcomer: Reports, worth: TeamWorth, w: CampaignWords) -> str:
    """What one more agent is worth, as far as one can tell."""
    tests = f" and {newcomer.tests} {w.tests} a visit" if newcomer.tests > 1 else ""
    who = f"ne more {w.agent} with sensitivity {newcomer.sensitivity:g}{tests}"
    error = f"standard error {render_figure(worth.more_se)}"
    if abs(worth.more) < 2.0 * worth.more_se or worth.more == 0.0:
        return f"What o{who} would add is not distinguishable from nothing: {worth.more:+.2f} detections, {error}."
    kind = "more" if worth.more > 0.0 else "fewer"
    return f"O{who} would make {render_figure(abs(worth.more))} detections {kind} ({error})."


def outlook_assumptions(state: State, wish: OutlookWish) -> list[str]:
    """What was played, and what has to hold for it."""
    means = (
        "whose means fit what is known"
        if wish.guess is None
        else f"whose means are drawn evenly between {wish.guess.low:g} and {wish.guess.high:g}"
    )
    said = [
        f"Played with {state.policy.name} in {render_count(wish.draws, 'world')} {means}.",
        f"Nobody is absent and nothing is closed, {state.words.agents} detect as they are believed to, and means stand still.",
    ]
    if state.team.offset.any():
        said.append("Detections are true ones: false alarms are not counted.")
    if state.waiting:
        said.append(f"Outcomes that {state.words.rounds} still wait for stay unknown.")
    return [*said, *filter(None, [mixed_arms_text(state)])]


def render_figure(value: float) -> str:
    """A number with about two significant digits.

    >>> render_figure(1234.5), render_figure(61.4), render_figure(2.44), render_figure(0.056)
    ('1,234', '61', '2.4', '0.06')
    """
    digits = 0 if abs(value) >= 10.0 else 1 if abs(value) >= 1.0 else 2
    return f"{value:,.{digits}f}"


def render_share(value: float, whole: float) -> str:
    """How much of it, in percent, never more than it is.

    >>> render_share(99.6, 100.0), render_share(1.0, 0.0)
    ('99 %', '–')
    """
    return f"{math.floor(100.0 * value / whole + 1e-9)} %" if whole > 0.0 else "–"


async def await_outlook(request: Request, state: State, wish: OutlookWish) -> Outlook:
    """The outlook, once it is computed; only one is computed at a time."""
    return await compute_alone(request, lambda tell: compute_outlook(state, wish, tell))


def stream_outlook(request: Request, state: State, wish: OutlookWish) -> Response:
    """Stream the outlook; the markup of `outlook.html` comes last."""
    return stream_response(
        request,
        lambda tell: render_template(
            "site/outlook.html", outlook=compute_outlook(state, wish, tell)
        ),
    )
