"""Rounds: planned, shown as a sheet, changed by hand and closed."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns import service
from heterobandits.campaigns.amounts import planned_tests_of
from heterobandits.campaigns.analysis.answers import shared_arm_warnings
from heterobandits.campaigns.preview import Preview
from heterobandits.campaigns.reasons import Assigned
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State, member_id
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
from heterobandits.web.pages.text import explanation_text, outcome_text, waiting_text, why_sentence
from heterobandits.web.pages.wording import for_people
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Context, RequestContext, find_in_path
from heterobandits.web.turns import compute_for_state, write_in_turn

ROUNDS_LIST_MAX = 50  # rounds in a list
PLAN_FORM_SPARE_PAIRS = 2  # pairs that may be added at once
FORM_MAX_PAIRS = 100  # that a page draws, each with all agents and arms to choose from
HIDDEN = 5  # fields of the form that nobody sees, or that are sent by a button
PLAN_FORM_MAX_TICKS = (
    40  # agents and arms to tick that are shown at once; the others are a press away
)
LATE_AGENT_TEXT = "Not in the team yet when this round was planned."
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
    with collect_field_errors() as errors:
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
        note=None if refused is None else for_people(str(refused)),
    )  # fmt: skip


def explained_agents(state: State, made: Preview, form: Form) -> dict[int, str]:
    """All there is to say of where those are sent who are asked about, each of whom takes a while."""
    known = {member_id("agent", a): a for a in range(len(state.agents))}
    asked = [known[key] for key in form.texts("why")[:1] if key in known]
    return (
        {a: explanation_text(why) for a, why in made.explanations(asked).items()} if asked else {}
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
    try:
        check_previewed_circumstances(given, form)
        record = partial(record_preview, asked, form.text("seen") or None)
        done = await plan_in_turn(request, asked, given.circumstances, record)
    except InvalidInput as error:
        if problem_kind_of(error).status not in REFUSAL_STATUSES:
            raise
        return await preview_in_turn(request, asked, given, error)
    return see_other(page_path(asked.id, f"/rounds/{done}"))


def check_previewed_circumstances(given: PlanForm, form: Form) -> None:
    """Refuse circumstances that the plan was not looked at with."""
    if form.text("shown", given.text) != given.text:
        raise service.Stale("This is the plan with what is ticked now: look at it, then record it.")


def record_preview(asked: RequestContext, seen: str | None, **given: Any) -> int:
    """The number of the round that was planned, if the last event still has the hash that it had on the page."""
    done = service.plan_round(asked.log, asked.id, asked.asker, seen, **given)
    return int(done.events[0].body["round"])


def plan_rows(
    state: State, assignments: Sequence[Assigned], at: PlannedRound | None = None
) -> list[PlanRow]:
    """Who goes where by a plan; with a round that was recorded, also what came of it, and who came later."""
    rows = [
        plan_row(state, agent, arm, why_sentence(reason, state.agents[agent].name), at)
        for agent, arm, reason in assignments
    ]
    planned = {row.agent for row in rows}
    for agent in sorted(() if at is None else at.moved.keys() - planned):
        rows.append(plan_row(state, agent, None, LATE_AGENT_TEXT, at))
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
    return PlanRow(agent, state.agents[agent].name, place, because, moved, went)


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
    return render_page(
        request,
        "round.html",
        asked,
        200 if error is None else 422,
        round=at,
        rows=plan_rows(state, service.recorded_plan(asked.log, state, at), at),
        reasons=explained_round(asked, at.number) if is_why_asked(request) else {},
        given=circumstances_text(state, at) + shared_arm_warnings(state, at),
        arms=[(member_id("arm", n), one.name) for n, one in enumerate(state.arms)],
        error=error,
        ids=[member_id("agent", a) for a in range(len(state.agents))],
    )


def explained_round(asked: RequestContext, number: int) -> dict[int, str]:
    """All there is to say of where a round sent each agent."""
    found = service.explain(asked.log, asked.id, number)
    return {agent: explanation_text(why) for agent, why in found.items()}


def is_why_asked(request: Request) -> bool:
    """Whether the full explanation of a round is wanted."""
    return "why" in Form(request.url.query.encode()).fields


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
        await write_in_turn(request, service.override, *where, form.texts("arm"))
    except InvalidInput as error:
        if problem_kind_of(error).status not in REFUSAL_STATUSES:
            raise
        at, said = asked.state.round(number), for_people(str(error))
        return await compute_for_state(
            request, asked.state, lambda: render_sheet(request, asked, at, said)
        )
    return see_other(page_path(asked.id, f"/rounds/{number}"))


@router.post("/campaigns/{campaign}/rounds/{round}/close")
def submit_close(request: Request, asked: Context, round: int) -> Response:
    """Nobody waits for a round any more; what comes later is taken all the same."""
    at = find_in_path(asked.state.round, round)
    number = at.number
    if not at.closed:  # who presses it twice wants it once
        service.close_round(asked.log, asked.id, asked.asker, number)
    return see_other(page_path(asked.id, f"/rounds/{number}"))
