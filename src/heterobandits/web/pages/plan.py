"""Rounds: planned, shown as a sheet, changed by hand, closed and cancelled; and the last thing that was done, undone."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns import service
from heterobandits.campaigns.amounts import planned_tests_of
from heterobandits.campaigns.analysis.answers import shared_arm_warnings
from heterobandits.campaigns.events import Event
from heterobandits.campaigns.outcomes import Stale
from heterobandits.campaigns.preview import Preview
from heterobandits.campaigns.reasons import Assigned
from heterobandits.campaigns.reducer import check_cancellable
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State, member_id
from heterobandits.campaigns.storage.repository import WriteResult
from heterobandits.errors import InvalidInput
from heterobandits.planner.visits import VisitReport
from heterobandits.web.api.rounds import plan_in_turn
from heterobandits.web.connections import ConnectionLimits
from heterobandits.web.errors import problem_kind_of
from heterobandits.web.pages.base import (
    REFUSAL_STATUSES,
    PageRoute,
    collect_field_errors,
    page_path,
    render_page,
    see_other,
)
from heterobandits.web.pages.paging import first_entry_in, page_of
from heterobandits.web.pages.text import (
    ago_text,
    explanation_text,
    outcome_text,
    waiting_text,
    why_sentence,
)
from heterobandits.web.pages.wording import for_people
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Context, RequestContext, find_in_path, is_why_asked
from heterobandits.web.turns import compute_for_state, compute_quick, write_in_turn

ROUNDS_LIST_MAX = 50  # rounds in a list
PLAN_FORM_SPARE_PAIRS = 2  # pairs that may be added at once
FORM_MAX_PAIRS = 100  # that a page draws, each with all agents and arms to choose from
OVERTAKEN_MAX_EVENTS = 500  # of which it is looked whether they have happened since a page was made
STAYED_HOME = "-"  # in place of an arm where somebody went
HIDDEN = 5  # fields of the form that nobody sees, or that are sent by a button
PLAN_FORM_MAX_TICKS = (
    40  # agents and arms to tick that are shown at once; the others are a press away
)
LATE_AGENT_TEXT = "Not in the team yet when this {round} was planned."
# a page of a campaign where something can be done
CAMPAIGN_PLACE_PATTERN = re.compile(
    r"/campaigns/([0-9a-f]{12})(?:/(?:plan|report|rounds(?:/(\d{1,9}))?|ahead|history|team))?",
    re.ASCII,
)
PAIR_CHOICES = (("forced", "has to go to"), ("forbidden", "may not go to"))

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class PlanForm(NamedTuple):
    """The circumstances in a form: ids of agents and arms, and pairs with their setting."""

    absent: list[str]
    closed: list[str]
    pairs: list[tuple[str, str, str]]

    @property
    def text(self) -> str:
        """What tells circumstances apart."""
        return repr((sorted(self.absent), sorted(self.closed), sorted(self.pairs)))

    @property
    def circumstances(self) -> dict[str, Any]:
        """The same as the service takes it."""
        of = {kind: [(a, n) for k, a, n in self.pairs if k == kind] for kind, _ in PAIR_CHOICES}
        return {"absent": self.absent, "closed": self.closed, **of}


class PlanRow(NamedTuple):
    """One agent's row in a plan: where it goes, why, where else by hand, and its reports by arm."""

    agent: int
    name: str
    arm: str | None
    why: str
    moved: bool
    went: list[tuple[int, str, VisitReport | None, str]]
    tests: int = 1


def parse_plan_form(form: Form) -> PlanForm:
    """The circumstances that a form contains; incomplete pairs are ignored."""
    columns = (form.fields.get(name, []) for name in ("kind", "agent", "arm"))
    pairs = [(k, a, n) for k, a, n in zip(*columns, strict=False) if k and a and n]
    if len(pairs) > FORM_MAX_PAIRS:
        raise InvalidInput(
            f"there are {len(pairs):,} pairs: at most {FORM_MAX_PAIRS} on this page, and more by the API"
        )
    return PlanForm(form.texts("absent"), form.texts("closed"), pairs)


@router.get("/campaigns/{campaign}/plan")
async def read_plan(request: Request, asked: Context) -> Response:
    """The plan of the next round as it would be, with what each circumstance costs; nothing is recorded."""
    given = parse_plan_form(asked.form)
    return await preview_in_turn(request, asked, given)


async def preview_in_turn(
    request: Request, asked: RequestContext, given: PlanForm, refused: InvalidInput | None = None
) -> Response:
    """The page of a plan that is only looked at, when it is the link's turn."""
    request.state.only_looks = True
    constraints = len(given.absent) + len(given.closed) + len(given.pairs)
    make = partial(render_preview, request, asked, given, refused)
    return await compute_for_state(request, asked.state, make, constraints=constraints)


def render_preview(
    request: Request, asked: RequestContext, given: PlanForm, refused: InvalidInput | None = None
) -> Response:
    """The page of a plan that is not recorded; `refused` says why it could not be."""
    state = asked.state
    made: Preview | None = None
    with collect_field_errors(asked.state.words) as errors:
        made = service.preview(state, **given.circumstances)
    pairs = [*given.pairs, *[("", "", "")] * PLAN_FORM_SPARE_PAIRS]
    return render_page(
        request,
        "plan.html",
        asked,
        problem_kind_of(refused).status if refused is not None else 422 if errors else 200,
        agents=[(member_id("agent", a), one) for a, one in enumerate(state.agents) if not one.retired],
        arms=[(member_id("arm", n), one) for n, one in enumerate(state.arms) if not one.retired],
        given=given,
        pairs=pairs,
        # a browser sends a field for each tick and three for each pair, beside some that are hidden
        in_query=len(state.agents) + len(state.arms) + 3 * len(pairs) + HIDDEN <= ConnectionLimits().fields,
        kinds=PAIR_CHOICES,
        rows=page_of([] if made is None else plan_rows(state, made.assignments), first_entry_in(asked.form, "from") or first_entry_in(asked.form, "at")),
        most_ticks=PLAN_FORM_MAX_TICKS,
        preview=made,
        explained={} if made is None else explained_agents(state, made, asked.form),
        alarms=bool(state.team.offset.any()),
        waits=[(number, waiting_text(state, state.round(number))) for number in sorted(state.waiting)],
        errors=errors,
        note=None if refused is None else for_people(str(refused), state.words),
        over=is_season_over(state),
        unheard=unheard_round(state),
        asks=isinstance(refused, Unheard),
    )  # fmt: skip


def explained_agents(state: State, made: Preview, form: Form) -> dict[int, str]:
    """All there is to say of where those are sent who are asked about, each of whom takes a while."""
    known = {member_id("agent", a): a for a in range(len(state.agents))}
    asked = [known[key] for key in form.texts("why")[:1] if key in known]
    return (
        {a: explanation_text(why, state.words) for a, why in made.explanations(asked).items()}
        if asked
        else {}
    )


@router.post("/campaigns/{campaign}/plan")
async def record_plan(request: Request, asked: Context) -> Response:
    """The next round, planned and recorded, if nothing has changed since it was looked at; or only looked at."""
    form = asked.form
    given = parse_plan_form(form)
    if (
        form.text("look") or form.text("why") or form.text("from")
    ):  # the form of a large team is too long for an address
        return await preview_in_turn(request, asked, given)
    seen = form.text("seen") or None
    try:
        check_previewed_circumstances(asked.state, given, form)
        record = partial(record_preview, asked, seen, form.text("anyway"))
        done = await plan_in_turn(request, asked, given.circumstances, record)
    except Unheard as error:
        return await preview_in_turn(request, asked, given, error)
    except InvalidInput as error:
        if problem_kind_of(error).status not in REFUSAL_STATUSES:
            raise
        state = await compute_quick(request, asked.log.state, asked.id)
        if seen is None or seen == state.hash:
            return await preview_in_turn(request, asked, given, error)
        return await compute_quick(request, overtaken_page, request, asked, state, seen)
    number = int(done.events[0].body["round"])
    if not done.repeated:
        return see_other(page_path(asked.id, f"/rounds/{number}"))
    return await compute_quick(request, recorded_page, request, asked, done)


class Unheard(InvalidInput):
    """A plan of the next round while nothing is known of the last one: it may be a mistake."""


def check_previewed_circumstances(state: State, given: PlanForm, form: Form) -> None:
    """Refuse circumstances that the plan was not looked at with."""
    if form.text("shown", given.text) != given.text:
        raise Stale("This is the plan with what is ticked now: look at it, then record it.")


def unheard_round(state: State) -> int | None:
    """The number of the last round, if it waits and nothing is known of it at all."""
    last = state.rounds[-1] if state.rounds else None
    return last.number if last is not None and last.waits and not last.told else None


def record_preview(
    asked: RequestContext, seen: str | None, anyway: str, **given: Any
) -> WriteResult:
    """What recording the plan comes to, if the last event still has the hash that it had on the page.

    While nothing is known of the last round, whoever records another has to say that it is meant: by its number.
    """
    look = given.pop("look", service.preview)

    def heed(state: State, **circumstances: Any) -> Preview:
        number = unheard_round(state)
        if number is not None and anyway != str(number):
            raise Unheard(
                f"{state.words.Round} {number} is recorded, and there is no outcome of it yet. Is it time for {state.words.round} {number + 1}?"
            )
        made: Preview = look(state, **circumstances)
        return made

    return service.plan_round(asked.log, asked.id, asked.asker, seen, heed, **given)


def recorded_page(request: Request, asked: RequestContext, done: WriteResult) -> Response:
    """The page after a form that was sent before: its round is recorded already, and no other."""
    number, event = int(done.events[0].body["round"]), done.events[0].number
    state, w = done.state, done.state.words
    there = number <= len(state.rounds) and state.round(number).event == event
    said = (
        f"{w.Round} {number} is recorded already"
        if there
        else f"{w.Round} {number} was recorded, and cancelled since"
    )
    links = (
        [(page_path(asked.id, f"/rounds/{number}"), f"Open {w.round} {number}")] if there else []
    )
    return notice_page(request, asked, state, said, ["Nothing was recorded now."], links, 200)


def overtaken_page(request: Request, asked: RequestContext, state: State, seen: str) -> Response:
    """The page in place of a plan that something was faster than: what has happened since it was looked at."""
    latest = asked.log.store.read(
        asked.id, max(0, state.number - OVERTAKEN_MAX_EVENTS), state.number
    )
    place = next((i for i, event in enumerate(latest) if event.hash == seen), None)
    since = [] if place is None else latest[place + 1 :]
    said = [*news_text(state, since), "So the plan may be another one, and nothing was recorded."]
    recorded = [event.body["round"] for event in since if event.kind == "round planned"]
    links = [
        (page_path(asked.id, f"/rounds/{number}"), f"Open {state.words.round} {number}")
        for number in dict.fromkeys(recorded)
        if number <= len(state.rounds)
    ]
    return notice_page(request, asked, state, "Nothing was recorded", said, links, 412)


def notice_page(
    request: Request,
    asked: RequestContext,
    state: State,
    title: str,
    sentences: Sequence[str],
    links: Sequence[tuple[str, str]],
    status: int,
) -> Response:
    """The page that says why no round was recorded; the plan of the next is one press away, and not on it."""
    ending = (
        []
        if is_season_over(state)
        else [(page_path(asked.id, "/plan"), f"Look at {state.words.round} {state.next_round}")]
    )
    return render_page(
        request,
        "notice.html",
        asked,
        status,
        title=title,
        sentences=sentences,
        links=[*links, *ending],
    )


def is_season_over(state: State) -> bool:
    """Whether no round of the season is left to be planned."""
    return state.rounds_left == 0


def news_text(state: State, since: Sequence[Event]) -> list[str]:
    """What has happened, in sentences: rounds one by one, the rest counted."""
    if not since:
        return ["Something was reported or changed since you looked."]
    made, outcomes, others = [], 0, 0
    for event in since:
        if event.kind in ("round planned", "round cancelled"):
            what = "recorded" if event.kind == "round planned" else "cancelled"
            made.append(
                f"{state.words.Round} {event.body['round']} was {what} {ago_text(event.time)} by {event.who}."
            )
        elif event.kind in ("reported", "corrected", "withdrawn"):
            outcomes += 1
        else:
            others += 1
    if outcomes:
        made.append(
            f"{'An outcome was' if outcomes == 1 else f'{outcomes:,} outcomes were'} reported since you looked."
        )
    if others:
        made.append(
            f"{'Something else was' if others == 1 else f'{others:,} other things were'} changed since you looked."
        )
    return made


def plan_rows(
    state: State, assignments: Sequence[Assigned], at: PlannedRound | None = None
) -> list[PlanRow]:
    """Who goes where by a plan; with a round that was recorded, also what came of it, and who came later."""
    rows = [
        plan_row(state, agent, arm, why_sentence(reason, state.agents[agent].name, state.words), at)
        for agent, arm, reason in assignments
    ]
    planned = {row.agent for row in rows}
    for agent in sorted(() if at is None else at.moved.keys() - planned):
        rows.append(
            plan_row(state, agent, None, LATE_AGENT_TEXT.format(round=state.words.round), at)
        )
    return rows


def plan_row(
    state: State, agent: int, arm: int | None, because: str, at: PlannedRound | None
) -> PlanRow:
    """An agent in a plan that sends it to this arm; in a round, with where it went and what came of it."""
    went: list[tuple[int, str, VisitReport | None, str]] = []
    for n in () if at is None else at.arms_of(agent):
        told = None if at is None else at.told.get((agent, n))
        text = (
            ""
            if told is None or at is None
            else outcome_text(told, planned_tests_of(state, agent, at))
        )
        went.append((n, state.arms[n].name, told, text))
    moved = at is not None and agent in at.moved and [n for n, *_ in went] != [arm]
    place = None if arm is None else state.arms[arm].name
    tests = 1 if at is None else planned_tests_of(state, agent, at)
    return PlanRow(agent, state.agents[agent].name, place, because, moved, went, tests)


@router.get("/campaigns/{campaign}/rounds")
def show_rounds(request: Request, asked: Context) -> Response:
    """The rounds, the last first."""
    state = asked.state
    last = asked.form.whole("before")
    end = len(state.rounds) if not last else min(last - 1, len(state.rounds))
    rounds = state.rounds[max(0, end - ROUNDS_LIST_MAX) : end]
    lines = [(at, waiting_text(state, at) if at.waits else "") for at in rounds]
    return render_page(
        request, "rounds.html", asked, lines=lines[::-1], first=max(0, end - ROUNDS_LIST_MAX) + 1
    )


@router.get("/campaigns/{campaign}/rounds/{round}")
async def show_round(request: Request, asked: Context, round: int) -> Response:
    """A round as a sheet: who goes where and why, and what came of it; with `why` all there is to say of it."""
    at = find_in_path(asked.state.round, round)
    events = at.event if is_why_asked(request) else 0
    return await compute_for_state(
        request, asked.state, lambda: render_sheet(request, asked, at), events
    )


def render_sheet(
    request: Request, asked: RequestContext, at: PlannedRound, error: str | None = None
) -> Response:
    """The page of a round."""
    state = asked.state
    goers: dict[int, list[str]] = {}  # who goes where
    for agent, arm in at.sent:
        goers.setdefault(arm, []).append(state.agents[agent].name)
    return render_page(
        request,
        "round.html",
        asked,
        200 if error is None else 422,
        round=at,
        rows=plan_rows(state, service.recorded_plan(asked.log, state, at), at),
        reasons=explained_round(asked, at.number) if is_why_asked(request) else {},
        given=circumstances_text(state, at) + shared_arm_warnings(state, at),
        arms=[
            (member_id("arm", n), one.name, goers.get(n, [])) for n, one in enumerate(state.arms)
        ],
        goers=goers,
        cancellable=at.number == len(state.rounds) and not at.told,
        error=error,
        ids=[member_id("agent", a) for a in range(len(state.agents))],
    )


def explained_round(asked: RequestContext, number: int) -> dict[int, str]:
    """All there is to say of where a round sent each agent."""
    found = service.explain(asked.log, asked.id, number)
    return {agent: explanation_text(why, asked.state.words) for agent, why in found.items()}


def circumstances_text(state: State, at: PlannedRound) -> list[str]:
    """The circumstances of a round in words."""
    agents, arms, given = state.agent_names, state.arm_names, at.given
    made = [f"{agents[a]} was away." for a in sorted(given.absent)]
    made += [f"{arms[n]} was closed." for n in sorted(given.closed)]
    made += [f"{agents[a]} had to go to {arms[n]}." for a, n in sorted(given.forced)]
    return made + [f"{agents[a]} could not go to {arms[n]}." for a, n in sorted(given.forbidden)]


@router.post("/campaigns/{campaign}/rounds/{round}/override")
async def submit_override(request: Request, asked: Context, round: int) -> Response:
    """Somebody went elsewhere than planned, which is recorded as such."""
    number = find_in_path(asked.state.round, round).number
    form = asked.form
    try:
        where = (asked.log, asked.id, asked.asker, number, form.text("agent"))
        await write_in_turn(request, service.override, *where, parse_override_arms(form))
    except InvalidInput as error:
        if problem_kind_of(error).status not in REFUSAL_STATUSES:
            raise
        at, said = asked.state.round(number), for_people(str(error), asked.state.words)
        return await compute_for_state(
            request, asked.state, lambda: render_sheet(request, asked, at, said)
        )
    return see_other(page_path(asked.id, f"/rounds/{number}"))


def parse_override_arms(form: Form) -> list[str]:
    """Where somebody went instead, by a form in which nothing is chosen beforehand."""
    chosen = form.texts("arm")
    if not chosen:
        raise InvalidInput("Choose where they went, or that they stayed home.")
    arms = [key for key in chosen if key != STAYED_HOME]
    if arms and STAYED_HOME in chosen:
        raise InvalidInput("Choose where they went, or that they stayed home: it cannot be both.")
    return arms


@router.get("/campaigns/{campaign}/rounds/{round}/cancel")
def ask_cancel(request: Request, asked: Context, round: int) -> Response:
    """Whether a round is to be cancelled, and what that means."""
    at = find_in_path(asked.state.round, round)
    return cancel_page(request, asked, at)


def cancel_page(
    request: Request, asked: RequestContext, at: PlannedRound, error: str | None = None
) -> Response:
    """The page that asks before a round is cancelled, or says why it cannot be."""
    with collect_field_errors(asked.state.words) as errors:
        check_cancellable(asked.state, at)
    said = error or errors.get("")
    status = 200 if error is None else 422
    return render_page(
        request, "cancel.html", asked, status, round=at, error=said, sent=len(at.sent)
    )


@router.post("/campaigns/{campaign}/rounds/{round}/cancel")
def submit_cancel(request: Request, asked: Context, round: int) -> Response:
    """The last round is cancelled; one that was planned in its place since is another one."""
    planned = asked.form.whole("planned")
    try:
        service.cancel_round(asked.log, asked.id, asked.asker, round, planned)
    except InvalidInput as error:
        if problem_kind_of(error).status not in REFUSAL_STATUSES:
            raise
        state = asked.log.state(asked.id)
        if round > len(state.rounds):  # it is cancelled
            return see_other(page_path(asked.id, "/rounds"))
        return cancel_page(request, asked, find_in_path(asked.state.round, round), str(error))
    return see_other(page_path(asked.id, "/rounds"))


@router.post("/campaigns/{campaign}/undo")
def submit_undo(request: Request, asked: Context) -> Response:
    """What was done last is taken back, if it still is the last."""
    try:
        done = service.undo(*asked.where, asked.form.whole("event") or 0)
    except InvalidInput as error:
        if problem_kind_of(error).status not in REFUSAL_STATUSES:
            raise
        said = (
            "Something else has happened since."
            if isinstance(error, Stale)
            else f"It cannot be undone any more: {error}."
        )
        back = [(page_path(asked.id), "Go on")]
        status = problem_kind_of(error).status
        return render_page(
            request,
            "notice.html",
            asked,
            status,
            title="Nothing was undone",
            sentences=[said],
            links=back,
        )
    return see_other(place_after_undo(asked.form.text("to"), done.state))


def place_after_undo(place: str, state: State) -> str:
    """The page that somebody undid something on, or the nearest that is still there."""
    begin = page_path(state.campaign)
    found = CAMPAIGN_PLACE_PATTERN.fullmatch(place)
    if found is None or found[1] != state.campaign:
        return begin
    if found[2] is not None and int(found[2]) > len(state.rounds):
        return page_path(state.campaign, "/rounds")
    return place


@router.post("/campaigns/{campaign}/rounds/{round}/close")
def submit_close(request: Request, asked: Context, round: int) -> Response:
    """Nobody waits for a round any more; what comes later is taken all the same."""
    at = find_in_path(asked.state.round, round)
    number = at.number
    if not at.closed:  # who presses it twice wants it once
        service.close_round(asked.log, asked.id, asked.asker, number)
    return see_other(page_path(asked.id, f"/rounds/{number}"))
