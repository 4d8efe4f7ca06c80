"""Reports of visits: entered with a thumb, corrected with the history beside them."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from heterobandits.campaigns.amounts import REPORTER_MAX_TIMES_PLANNED, planned_tests_of
from heterobandits.campaigns.audit.history_text import TOLD_KINDS, counts_text, is_late, said_text
from heterobandits.campaigns.events import Event
from heterobandits.campaigns.outcomes import (
    ReportDetails,
    Stale,
    correct_outcomes,
    report_outcomes,
    withdraw_outcomes,
)
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State, member_id
from heterobandits.campaigns.storage.repository import WriteResult
from heterobandits.campaigns.validation import NOT_DONE, REPORT_NOTE_MAX_LETTERS
from heterobandits.errors import InvalidInput, parse_choice
from heterobandits.limits import REPORT_MAX_TESTS
from heterobandits.planner.matching import AgentArm
from heterobandits.planner.visits import VisitReport
from heterobandits.planner.vocabulary import CampaignWords
from heterobandits.web.auth import check_agent
from heterobandits.web.errors import problem_kind_of
from heterobandits.web.pages.base import (
    PAGE_HEADERS,
    REFUSAL_STATUSES,
    PageRoute,
    page_path,
    render_page,
    see_other,
    wants_json,
)
from heterobandits.web.pages.text import outcome_text
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Context, LaterAnswer, RequestContext, find_in_path
from heterobandits.web.turns import LARGE_MIN_EVENTS, compute_by_size, compute_quick

VISIT_MAX_SHOWN_REPORTS = 5  # of the times that a visit was reported or corrected
QUERY_MAX_VISITS = 100  # visits that are asked for at once
# visits that are asked for on a page, the oldest first; of one round all
REPORT_MAX_WAITING_VISITS = 100
REPORT_LATEST_VISITS = 12  # visits that are shown after they were reported
REPORT_LATEST_ROUNDS = 40  # in which those are looked for
OUTCOME_BUTTONS = {"found": 1, "not found": 0, "not done": NOT_DONE}  # what a button says
REPORT_ACTIONS = (*OUTCOME_BUTTONS, "count", "withdraw")
REPORT_EVENT_TEXTS = {"reported": "", "corrected": "corrected to ", "withdrawn": "withdrawn"}

VisitPlace = tuple[PlannedRound, AgentArm]
VisitPasts = dict[tuple[int, int, int], tuple[int, list[tuple[str, str, str]]]]

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class ReportedVisit(NamedTuple):
    """A visit on the page: whose, where, with how many tests, and what is known of it with how that came to be: the last of it, after what was `before`."""

    round: int
    planned: int
    agent: str
    name: str
    arm: str
    place: str
    tests: int
    most: int
    told: VisitReport | None
    text: str
    note: str
    before: int
    past: list[tuple[str, str, str]]

    @property
    def key(self) -> str:
        """What tells it apart on the page."""
        return f"visit-{self.round}-{self.agent}-{self.arm}"


class MissingVisits(NamedTuple):
    """Visits of which nothing is known: the first of them, how many more there are, and in which rounds these are."""

    shown: list[VisitPlace]
    more: int
    others: set[int]


class RefusedReport(NamedTuple):
    """A refused report: its visit, the reason, and what was typed."""

    key: str
    why: str
    successes: str
    tests: str
    note: str
    elsewhere: str


@router.get("/campaigns/{campaign}/report")
async def read_report(request: Request, asked: Context) -> Response:
    """The visits that wait, and those that were reported last; with `round` all visits of that one."""
    which = asked.form.whole("round")
    only = None if which is None else find_in_path(asked.state.round, which)
    latest = await compute_quick(request, latest_visits, asked, only)
    return await compute_by_size(
        request,
        lambda: render_reports(request, asked, latest, only),
        reads_many(asked.state, latest),
    )


def reads_many(state: State, latest: list[VisitPlace]) -> bool:
    """Whether the pasts of these visits are looked for in so many events that it is in the way of what is quick."""
    first = min((at.event for at, _ in latest), default=state.number)
    return state.number - first > LARGE_MIN_EVENTS


def missing_visits(rounds: Iterable[PlannedRound], own: int | None, most: int) -> MissingVisits:
    """The visits in these rounds of which nothing is known, or those of one agent."""
    shown: list[VisitPlace] = []
    more, others = 0, set[int]()
    for at in rounds:
        pairs = [pair for pair in at.missing if own in (None, pair[0])]
        room = most - len(shown)
        shown += [(at, pair) for pair in pairs[:room]]
        if len(pairs) > room:
            more += len(pairs) - room
            others.add(at.number)
    return MissingVisits(shown, more, others)


def rounds_on_page(state: State, only: PlannedRound | None) -> Sequence[PlannedRound]:
    """The rounds whose visits the page has, whether they wait or not: the last ones, or that one."""
    return (
        state.rounds[max(0, len(state.rounds) - REPORT_LATEST_ROUNDS) :] if only is None else [only]
    )


def latest_visits(asked: RequestContext, only: PlannedRound | None) -> list[VisitPlace]:
    """The visits that were reported last; of one round all."""
    own = asked.caller.agent
    told = [
        (known.event, at, pair)
        for at in rounds_on_page(asked.state, only)
        for pair, known in at.told.items()
        if own in (None, pair[0]) and pair in at.sent
    ]
    latest = sorted(told, key=lambda one: one[0], reverse=True)[
        : REPORT_LATEST_VISITS if only is None else None
    ]
    return [(at, pair) for _, at, pair in latest]


def render_reports(
    request: Request,
    asked: RequestContext,
    latest: list[VisitPlace],
    only: PlannedRound | None = None,
    status: int = 200,
    refused: RefusedReport | None = None,
) -> Response:
    """The page of reports, or of one round's; with one that was refused."""
    state, own, role = asked.state, asked.caller.agent, asked.caller.role
    waiting = [state.round(number) for number in sorted(state.waiting)]

    def seen(places: list[VisitPlace]) -> list[ReportedVisit]:
        return [visit_on_page(state, *place, {}, role) for place in places]

    most = REPORT_MAX_WAITING_VISITS if only is None else len(only.missing)
    waits = missing_visits(
        waiting if only is None else [only] if not only.closed else [], own, most
    )
    late = missing_visits(
        (at for at in reversed(rounds_on_page(state, only)) if at.closed), own, most
    )
    past = pasts_of_visits(asked, latest)
    return render_page(
        request,
        "reporting.html",
        asked,
        status,
        waits=seen(waits.shown),
        late=seen(late.shown),
        more=waits.more + late.more,
        others=sorted(waits.others | late.others),
        only=only,
        reported=[visit_on_page(state, at, pair, past, role) for at, pair in latest],
        refused=refused,
        own=None if own is None else state.agents[own].name,
        rounds=len(state.rounds),
        arms=[
            (member_id("arm", n), one.name) for n, one in enumerate(state.arms) if not one.retired
        ],
        impossible=impossible_text("{found}", "{tests}", asked.state.words),
        note_letters=REPORT_NOTE_MAX_LETTERS,
        is_late=is_late,
    )


def visit_on_page(
    state: State, at: PlannedRound, pair: AgentArm, past: VisitPasts, role: str
) -> ReportedVisit:
    """A visit as the page has it."""
    agent, arm = pair
    told, tests = at.told.get(pair), planned_tests_of(state, agent, at)
    ids = visit_key(pair)
    count, known = past.get((at.number, agent, arm), (0, []))
    return ReportedVisit(
        at.number,
        at.event,
        ids[0],
        state.agents[agent].name,
        ids[1],
        state.arms[arm].name,
        tests,
        REPORTER_MAX_TIMES_PLANNED * tests if role == "reporter" else REPORT_MAX_TESTS,
        told,
        "" if told is None else outcome_text(told, tests),
        "" if told is None else told.note,
        count - len(known),
        known,
    )


def pasts_of_visits(asked: RequestContext, visits: list[VisitPlace]) -> VisitPasts:
    """How the outcomes of visits came to be: of each how often something was told, and of the last times the time, who, and what."""
    made: VisitPasts = {}
    for begin in range(0, len(visits), QUERY_MAX_VISITS):
        some = visits[begin : begin + QUERY_MAX_VISITS]
        first = min(at.event for at, _ in some)
        about = [subject_of(at, *pair) for at, pair in some]
        found = asked.log.store.latest(
            asked.id, first, about, REPORT_EVENT_TEXTS, VISIT_MAX_SHOWN_REPORTS
        )
        for (at, pair), (count, events) in zip(some, found, strict=True):
            told = [(event.time, event.who, render_report_event(event)) for event in events]
            made[at.number, *pair] = (count, told)
    return made


def subject_of(at: PlannedRound, agent: int, arm: int) -> list[str]:
    """What the events of a visit have; of somebody who went to one arm it is all that was told, wherever that was thought to be."""
    places = [f'"arm":"{member_id("arm", arm)}"'] if len(at.arms_of(agent)) > 1 else []
    return [f'"agent":"{member_id("agent", agent)}"', *places, f'"round":{at.number}']


def render_report_event(event: Event) -> str:
    """What an event did to an outcome, in words."""
    counts = "" if event.kind == "withdrawn" else counts_text(event.body)
    more = said_text(event.body, event.time) if event.kind in TOLD_KINDS else ""
    return f"{REPORT_EVENT_TEXTS[event.kind]}{counts}{more}"


@router.post("/campaigns/{campaign}/rounds/{round}/outcomes/{agent}")
def submit_report(request: Request, asked: Context, round: int, agent: str) -> Response:
    """What came of a visit: a first report; with what was seen of it before, a correction, or taken back.

    What is wrong with it is shown on the page that it came from.
    """
    who = asked.agent(agent)
    check_agent(asked.caller, who)
    form, clock = asked.form, request.headers.get("heterobandits-clock")
    if form.whole("planned") is None:
        find_in_path(asked.state.round, round)
    pair = (who, asked.arm(form.text("arm")))
    try:
        done = write_form_once(asked, round, pair, clock)
    except InvalidInput as error:
        kind = problem_kind_of(error)
        if kind.status not in REFUSAL_STATUSES or wants_json(request):
            raise
        place = "-".join([f"visit-{round}", *visit_key(pair)])
        typed = (form.text(name) for name in ("successes", "tests", "note", "elsewhere"))
        refused = RefusedReport(place, str(error), *typed)
        latest = latest_visits(asked, None)
        draw = partial(render_reports, request, asked, latest, None, kind.status, refused)
        return LaterAnswer(draw, large=reads_many(asked.state, latest))
    if wants_json(request):  # of a script, which looks at the page by itself
        return JSONResponse({"saved": done.state.number}, headers=PAGE_HEADERS)
    only = form.whole("only")
    return see_other(page_path(asked.id, "/report" if only is None else f"/report?round={only}"))


def visit_key(pair: AgentArm) -> tuple[str, str]:
    """The agent and the arm of a visit, by ids: a name may change while a request is on its way."""
    agent, arm = pair
    return member_id("agent", agent), member_id("arm", arm)


def write_form_once(
    asked: RequestContext, round: int, pair: AgentArm, clock: str | None
) -> WriteResult:
    """Do what a form says; a form sent again must find its visit as it left it."""
    done = write_report_form(asked, round, visit_key(pair), clock)
    if not done.repeated:
        return done
    agent, arm = pair
    for event in done.events:
        if event.kind == "overridden":  # the agent was elsewhere, and so is the report
            arm = done.state.arm(done.events[-1].body["arm"])
    rounds = done.state.rounds
    known = rounds[round - 1].told.get((agent, arm)) if round <= len(rounds) else None
    stands = None if known is None else known.event
    if stands not in (None, *(one.number for one in done.events)):
        raise Stale("This was saved before, and has been changed since: look at what stands now.")
    if stands is None and done.events[-1].kind != "withdrawn":
        raise Stale("This was saved before, and has been taken back since: press once more.")
    return done


def write_report_form(
    asked: RequestContext, round: int, key: tuple[str, str], clock: str | None
) -> WriteResult:
    """What a form says, done."""
    form, where = asked.form, (*asked.where, round)
    do = parse_choice(form.text("do"), "do", REPORT_ACTIONS)
    seen, planned = form.whole("seen"), form.whole("planned")
    if do == "withdraw":
        return withdraw_outcomes(*where, [key], seen, planned)
    outcome: Any = OUTCOME_BUTTONS.get(do)
    if do == "count":
        outcome = parse_form_counts(form, asked.state.words)
    said = ReportDetails(
        planned,
        form.text("elsewhere") or None,
        form.text("entered") or None,
        clock,
        form.text("note"),
    )
    role = asked.caller.role
    if seen is None:
        return report_outcomes(*where, {key: outcome}, role, said)
    return correct_outcomes(*where, {key: outcome}, seen, role, said)


def parse_form_counts(form: Form, words: CampaignWords) -> tuple[int, int]:
    """How many of how many, as a form says it."""
    found, tests = form.whole("successes"), form.whole("tests")
    if found is None or tests is None:
        raise InvalidInput(f"say how many were found, of how many {words.tests}")
    if found > tests:
        raise InvalidInput(impossible_text(found, tests, words))
    return found, tests


def impossible_text(found: Any, tests: Any, words: CampaignWords) -> str:
    """What is said of more finds than tests."""
    return f"{found} of {tests} cannot be. How many of the {tests} {words.tests} found something?"
