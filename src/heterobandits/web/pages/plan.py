"""Rounds: planned, shown as a sheet, changed by hand and closed."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns import service
from heterobandits.campaigns.amounts import tests_planned
from heterobandits.campaigns.analysis.answers import together
from heterobandits.campaigns.preview import Preview
from heterobandits.campaigns.reasons import Assigned
from heterobandits.campaigns.rounds import PlannedRound, VisitReport
from heterobandits.campaigns.state import State, id_of
from heterobandits.errors import InvalidInput
from heterobandits.web.api.rounds import plan_in_turn
from heterobandits.web.connections import Limits
from heterobandits.web.errors import kind_of
from heterobandits.web.pages.base import (
    REFUSED,
    PageRoute,
    beside_fields,
    home,
    page,
    seen_again,
)
from heterobandits.web.pages.text import outcome_text, waiting_text, why_sentence
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Asked, Asking, find_named
from heterobandits.web.turns import computed, write_in_turn

AT_ONCE = 50  # rounds in a list
SPARE = 2  # pairs that may be added at once
HIDDEN = 3  # fields of the form that nobody sees
LATER = "Not in the team yet when this round was planned."
PAIRS = (("forced", "has to go to"), ("forbidden", "may not go to"))

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class PlanForm(NamedTuple):
    """The circumstances that a form says: ids of agents and arms, and pairs with what is set of them."""

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
        of = {kind: [(a, n) for k, a, n in self.pairs if k == kind] for kind, _ in PAIRS}
        return {"absent": self.absent, "closed": self.closed, **of}


class Sent(NamedTuple):
    """An agent in a plan: where it goes, why in a sentence, and by hand where else; `told` by arm."""

    agent: int
    name: str
    arm: str | None
    why: str
    moved: bool
    went: list[tuple[int, str, VisitReport | None, str]]


def form_from_query(form: Form) -> PlanForm:
    """What a form says; a pair that is not complete is not meant."""
    columns = (form.fields.get(name, []) for name in ("kind", "agent", "arm"))
    pairs = [(k, a, n) for k, a, n in zip(*columns, strict=False) if k and a and n]
    return PlanForm(form.texts("absent"), form.texts("closed"), pairs)


@router.get("/campaigns/{campaign}/plan")
async def read_plan(request: Request, asked: Asking) -> Response:
    """The plan of the next round as it would be, with what each circumstance costs; nothing is recorded."""
    given = form_from_query(asked.form)
    return await preview_in_turn(request, asked, given)


async def preview_in_turn(
    request: Request, asked: Asked, given: PlanForm, refused: InvalidInput | None = None
) -> Response:
    """The page of a plan that is only looked at, when it is the link's turn."""
    constraints = len(given.absent) + len(given.closed) + len(given.pairs)
    make = partial(previewed, request, asked, given, refused)
    return await computed(request, asked.state, make, constraints=constraints)


def previewed(
    request: Request, asked: Asked, given: PlanForm, refused: InvalidInput | None = None
) -> Response:
    """The page of a plan that is only looked at; `refused` is why it was not recorded."""
    state = asked.state
    made: Preview | None = None
    with beside_fields() as errors:
        made = service.preview(state, **given.circumstances)
    pairs = [*given.pairs, *[("", "", "")] * SPARE]
    return page(
        request,
        "plan.html",
        asked,
        kind_of(refused).status if refused is not None else 422 if errors else 200,
        agents=[(id_of("agent", a), one) for a, one in enumerate(state.agents) if not one.retired],
        arms=[(id_of("arm", n), one) for n, one in enumerate(state.arms) if not one.retired],
        given=given,
        pairs=pairs,
        # a browser sends a field for each tick and three for each pair, beside some that are hidden
        in_query=len(state.agents) + len(state.arms) + 3 * len(pairs) + HIDDEN <= Limits().fields,
        kinds=PAIRS,
        rows=[] if made is None else plan_rows(state, made.assignments),
        preview=made,
        waits=[(number, waiting_text(state, state.round(number))) for number in sorted(state.waiting)],
        errors=errors,
        note=refused,
    )  # fmt: skip


@router.post("/campaigns/{campaign}/plan")
async def record_plan(request: Request, asked: Asking) -> Response:
    """The next round, planned and recorded, if nothing has changed since it was looked at; or only looked at."""
    form = asked.form
    given = form_from_query(form)
    if form.text("look"):  # the form of a large team is too long for an address
        return await preview_in_turn(request, asked, given)
    try:
        check_shown(given, form)
        record = partial(recorded, asked, form.whole("number"))
        done = await plan_in_turn(request, asked, given.circumstances, record)
    except InvalidInput as error:
        if kind_of(error).status not in REFUSED:
            raise
        return await preview_in_turn(request, asked, given, error)
    return seen_again(home(asked.id, f"/rounds/{done}"))


def check_shown(given: PlanForm, form: Form) -> None:
    """Refuse circumstances that the plan was not looked at with."""
    if form.text("shown", given.text) != given.text:
        raise service.Stale("This is the plan with what is ticked now: look at it, then record it.")


def recorded(asked: Asked, seen: int | None, **given: Any) -> int:
    """The number of the round that was planned, if nothing happened since it was looked at."""
    done = service.plan_round(asked.log, asked.id, asked.asker, seen, **given)
    return int(done.events[0].body["round"])


def plan_rows(
    state: State, assignments: Sequence[Assigned], at: PlannedRound | None = None
) -> list[Sent]:
    """Who goes where by a plan; with a round that was recorded, also what came of it, and who came later."""
    rows = [
        sent(state, agent, arm, why_sentence(reason, state.agents[agent].name), at)
        for agent, arm, reason in assignments
    ]
    planned = {row.agent for row in rows}
    for agent in sorted(() if at is None else at.moved.keys() - planned):
        rows.append(sent(state, agent, None, LATER, at))
    return rows


def sent(state: State, agent: int, arm: int | None, because: str, at: PlannedRound | None) -> Sent:
    """An agent in a plan that sends it to this arm; in a round, with where it went and what came of it."""
    went: list[tuple[int, str, VisitReport | None, str]] = []
    for n in () if at is None else at.arms_of(agent):
        told = None if at is None else at.told.get((agent, n))
        text = (
            ""
            if told is None or at is None
            else outcome_text(told, tests_planned(state, agent, at))
        )
        went.append((n, state.arms[n].name, told, text))
    moved = at is not None and agent in at.moved and [n for n, *_ in went] != [arm]
    place = None if arm is None else state.arms[arm].name
    return Sent(agent, state.agents[agent].name, place, because, moved, went)


@router.get("/campaigns/{campaign}/rounds")
def show_rounds(request: Request, asked: Asking) -> Response:
    """The rounds, the last first."""
    state = asked.state
    last = asked.form.whole("before")
    end = len(state.rounds) if not last else min(last - 1, len(state.rounds))
    rounds = state.rounds[max(0, end - AT_ONCE) : end]
    lines = [(at, waiting_text(state, at) if at.waits else "") for at in rounds]
    return page(request, "rounds.html", asked, lines=lines[::-1], first=max(0, end - AT_ONCE) + 1)


@router.get("/campaigns/{campaign}/rounds/{round}")
async def show_round(request: Request, asked: Asking, round: int) -> Response:
    """A round as a sheet: who goes where and why, and what came of it; with `why` all there is to say of it."""
    at = find_named(asked.state.round, round)
    events = at.event if asks_why(request) else 0
    return await computed(request, asked.state, lambda: sheet(request, asked, at), events)


def sheet(request: Request, asked: Asked, at: PlannedRound, error: str | None = None) -> Response:
    """The page of a round."""
    state = asked.state
    return page(
        request,
        "round.html",
        asked,
        200 if error is None else 422,
        round=at,
        rows=plan_rows(state, service.recorded_plan(asked.log, state, at), at),
        reasons=service.explain(asked.log, asked.id, at.number) if asks_why(request) else {},
        given=circumstances_text(state, at) + together(state, at),
        arms=[(id_of("arm", n), one.name) for n, one in enumerate(state.arms)],
        error=error,
        ids=[id_of("agent", a) for a in range(len(state.agents))],
    )


def asks_why(request: Request) -> bool:
    """Whether all there is to say of a round is asked for."""
    return "why" in Form(request.url.query.encode()).fields


def circumstances_text(state: State, at: PlannedRound) -> list[str]:
    """The circumstances of a round in words."""
    agents, arms, given = state.agent_names, state.arm_names, at.given
    made = [f"{agents[a]} was away." for a in sorted(given.absent)]
    made += [f"{arms[n]} was closed." for n in sorted(given.closed)]
    made += [f"{agents[a]} had to go to {arms[n]}." for a, n in sorted(given.forced)]
    return made + [f"{agents[a]} could not go to {arms[n]}." for a, n in sorted(given.forbidden)]


@router.post("/campaigns/{campaign}/rounds/{round}/override")
async def submit_override(request: Request, asked: Asking, round: int) -> Response:
    """Somebody went elsewhere than planned, which is recorded as such."""
    number = find_named(asked.state.round, round).number
    form = asked.form
    try:
        where = (asked.log, asked.id, asked.asker, number, form.text("agent"))
        await write_in_turn(request, service.override, *where, form.texts("arm"))
    except InvalidInput as error:
        if kind_of(error).status not in REFUSED:
            raise
        at, said = asked.state.round(number), str(error)
        return await computed(request, asked.state, lambda: sheet(request, asked, at, said))
    return seen_again(home(asked.id, f"/rounds/{number}"))


@router.post("/campaigns/{campaign}/rounds/{round}/close")
def submit_close(request: Request, asked: Asking, round: int) -> Response:
    """Nobody waits for a round any more; what comes later is taken all the same."""
    at = find_named(asked.state.round, round)
    number = at.number
    if not at.closed:  # who presses it twice wants it once
        service.close_round(asked.log, asked.id, asked.asker, number)
    return seen_again(home(asked.id, f"/rounds/{number}"))
