"""What came of visits: reported with a thumb, corrected with the history beside it."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns import service
from heterobandits.campaigns.amounts import tests_planned
from heterobandits.campaigns.audit.history_text import counts_text
from heterobandits.campaigns.events import Event
from heterobandits.campaigns.rounds import Pair, PlannedRound, VisitReport
from heterobandits.campaigns.service import Stale
from heterobandits.campaigns.state import State, id_of
from heterobandits.campaigns.storage.repository import Done
from heterobandits.campaigns.validation import NOT_DONE
from heterobandits.errors import InvalidInput, choice
from heterobandits.web.auth import check_agent
from heterobandits.web.errors import kind_of
from heterobandits.web.pages.base import REFUSED, PageRoute, home, page, seen_again
from heterobandits.web.pages.text import outcome_text
from heterobandits.web.requests import Asked, Asking, find_named
from heterobandits.web.turns import MANY, beside, sized

SHOWN = 5  # of the times that a visit was reported or corrected
SUBJECTS = 100  # visits that are asked for at once
MOST_WAITING = 100  # visits that are asked for on a page, the oldest first; of one round all
LAST = 12  # visits that are shown after they were reported
ROUNDS = 40  # in which those are looked for
SINGLE = {"found": 1, "not found": 0, "not done": NOT_DONE}  # what a button says
DOES = (*SINGLE, "count", "withdraw")
KINDS = {"reported": "", "corrected": "corrected to ", "withdrawn": "withdrawn"}

Place = tuple[PlannedRound, Pair]
Past = dict[tuple[int, int, int], tuple[int, list[tuple[str, str, str]]]]

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class ReportedVisit(NamedTuple):
    """A visit on the page: whose, where, with how many tests, and what is known of it with how that came to be: the last of it, after what was `before`."""

    round: int
    agent: str
    name: str
    arm: str
    place: str
    tests: int
    told: VisitReport | None
    text: str
    before: int
    past: list[tuple[str, str, str]]

    @property
    def key(self) -> str:
        """What tells it apart on the page."""
        return f"visit-{self.round}-{self.agent}-{self.arm}"


class RefusedReport(NamedTuple):
    """A report that was refused: of which visit, why, and what was typed."""

    key: str
    why: str
    successes: str
    tests: str


@router.get("/campaigns/{campaign}/report")
async def read_report(request: Request, asked: Asking) -> Response:
    """The visits that wait, and those that were reported last; with `round` all visits of that one."""
    which = asked.form.whole("round")
    only = None if which is None else find_named(asked.state.round, which)
    latest = await beside(request, latest_of, asked, only)
    events = asked.state.number - min((at.event for at, _ in latest), default=asked.state.number)
    return await sized(request, lambda: render_reports(request, asked, latest, only), events > MANY)


def rounds_shown(state: State, only: PlannedRound | None) -> Sequence[PlannedRound]:
    """The rounds whose visits the page has, whether they wait or not: the last ones, or that one."""
    return state.rounds[max(0, len(state.rounds) - ROUNDS) :] if only is None else [only]


def latest_of(asked: Asked, only: PlannedRound | None) -> list[Place]:
    """The visits that were reported last; of one round all."""
    own = asked.caller.agent
    told = [
        (known.event, at, pair)
        for at in rounds_shown(asked.state, only)
        for pair, known in at.told.items()
        if own in (None, pair[0]) and pair in at.sent
    ]
    latest = sorted(told, key=lambda one: one[0], reverse=True)[: LAST if only is None else None]
    return [(at, pair) for _, at, pair in latest]


def render_reports(
    request: Request,
    asked: Asked,
    latest: list[Place],
    only: PlannedRound | None = None,
    status: int = 200,
    refused: RefusedReport | None = None,
) -> Response:
    """The page of reports, or of one round's; with one that was refused."""
    state, own = asked.state, asked.caller.agent
    waiting = [state.round(number) for number in sorted(state.waiting)]

    def missing(rounds: Iterable[PlannedRound]) -> list[Place]:
        return [(at, pair) for at in rounds for pair in at.missing if own in (None, pair[0])]

    def seen(places: list[Place]) -> list[ReportedVisit]:
        return [visit_on_page(state, *place, {}) for place in places]

    waits = missing(waiting if only is None else [only] if not only.closed else [])
    late = missing(at for at in reversed(rounds_shown(state, only)) if at.closed)
    most = MOST_WAITING if only is None else len(waits) + len(late)

    past = past_of(asked, latest)
    return page(
        request,
        "reporting.html",
        asked,
        status,
        waits=seen(waits[:most]),
        late=seen(late[:most]),
        more=len(waits[most:]) + len(late[most:]),
        others=sorted({at.number for at, _ in waits[most:] + late[most:]}),
        only=only,
        reported=[visit_on_page(state, at, pair, past) for at, pair in latest],
        refused=refused,
        own=None if own is None else state.agents[own].name,
        rounds=len(state.rounds),
    )


def visit_on_page(state: State, at: PlannedRound, pair: Pair, past: Past) -> ReportedVisit:
    """A visit as the page has it."""
    agent, arm = pair
    told, tests = at.told.get(pair), tests_planned(state, agent, at)
    ids = visit_key(pair)
    count, known = past.get((at.number, agent, arm), (0, []))
    return ReportedVisit(
        at.number,
        ids[0],
        state.agents[agent].name,
        ids[1],
        state.arms[arm].name,
        tests,
        told,
        "" if told is None else outcome_text(told, tests),
        count - len(known),
        known,
    )


def past_of(asked: Asked, visits: list[Place]) -> Past:
    """How the outcomes of visits came to be: of each how often something was told, and of the last times the time, who, and what."""
    made: Past = {}
    for begin in range(0, len(visits), SUBJECTS):
        some = visits[begin : begin + SUBJECTS]
        first = min(at.event for at, _ in some)
        about = [subject_of(at, *pair) for at, pair in some]
        found = asked.log.store.latest(asked.id, first, about, KINDS, SHOWN)
        for (at, pair), (count, events) in zip(some, found, strict=True):
            told = [(event.time, event.who, told_text(event)) for event in events]
            made[at.number, *pair] = (count, told)
    return made


def subject_of(at: PlannedRound, agent: int, arm: int) -> list[str]:
    """What the events of a visit have; of somebody who went to one arm it is all that was told, wherever that was thought to be."""
    places = [f'"arm":"{id_of("arm", arm)}"'] if len(at.arms_of(agent)) > 1 else []
    return [f'"agent":"{id_of("agent", agent)}"', *places, f'"round":{at.number}']


def told_text(event: Event) -> str:
    """What an event made of an outcome."""
    counts = "" if event.kind == "withdrawn" else counts_text(event.body)
    return f"{KINDS[event.kind]}{counts}"


@router.post("/campaigns/{campaign}/rounds/{round}/outcomes/{agent}")
def tell(request: Request, asked: Asking, round: int, agent: str) -> Response:
    """What came of a visit: a first report; with what was seen of it before, a correction, or taken back.

    What is wrong with it is shown on the page that it came from.
    """
    who = asked.agent(agent)
    check_agent(asked.caller, who)
    number = find_named(asked.state.round, round).number
    pair = (who, asked.arm(asked.form.text("arm")))
    try:
        write(asked, number, pair)
    except InvalidInput as error:
        kind = kind_of(error)
        if kind.status not in REFUSED:
            raise
        place = "-".join([f"visit-{number}", *visit_key(pair)])
        typed = (asked.form.text("successes"), asked.form.text("tests"))
        refused = RefusedReport(place, str(error), *typed)
        return render_reports(request, asked, latest_of(asked, None), None, kind.status, refused)
    only = asked.form.whole("only")
    return seen_again(home(asked.id, "/report" if only is None else f"/report?round={only}"))


def visit_key(pair: Pair) -> tuple[str, str]:
    """The agent and the arm of a visit, by ids: a name may change while a request is on its way."""
    agent, arm = pair
    return id_of("agent", agent), id_of("arm", arm)


def write(asked: Asked, round: int, pair: Pair) -> None:
    """Do what a form says; what was done for the same form before has to stand still."""
    done = write_report_form(asked, round, visit_key(pair))
    known = done.state.round(round).told.get(pair)
    stands = None if known is None else known.event
    if done.repeated and stands not in (None, *(one.number for one in done.events)):
        raise Stale("This was saved before, and has been changed since: look at what stands now.")
    if done.repeated and stands is None and done.events[-1].kind != "withdrawn":
        raise Stale("This was saved before, and has been taken back since: press once more.")


def write_report_form(asked: Asked, round: int, key: tuple[str, str]) -> Done:
    """What a form says, done."""
    form, where = asked.form, (*asked.where, round)
    do = choice(form.text("do"), "do", DOES)
    seen = form.whole("seen")
    if do == "withdraw":
        return service.withdraw(*where, [key], seen)
    outcome: Any = SINGLE.get(do)
    if do == "count":
        outcome = (form.whole("successes"), form.whole("tests"))
        if None in outcome:
            raise InvalidInput("say how many were found, of how many tests")
    role = asked.caller.role
    if seen is None:
        return service.report(*where, {key: outcome}, role=role)
    return service.correct(*where, {key: outcome}, seen, role=role)
