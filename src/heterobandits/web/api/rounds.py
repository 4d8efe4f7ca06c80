"""Routes of rounds: planned, looked at, overridden, reported, corrected, closed and explained."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Query, Request, Response

from heterobandits.campaigns import responses_schema, serialization, service
from heterobandits.campaigns.outcomes import (
    ReportDetails,
    Stale,
    correct_outcomes,
    find_visit,
    report_outcomes,
    withdraw_outcomes,
)
from heterobandits.campaigns.reducer import AlreadyReported
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State, member_id
from heterobandits.campaigns.storage.store import WriteConflict
from heterobandits.campaigns.validation import (
    NOT_DONE,
    FieldErrors,
    InvalidFields,
    parse_campaign_outcome,
)
from heterobandits.errors import InvalidInput
from heterobandits.limits import COUNT_MAX
from heterobandits.web.api import requests_schema
from heterobandits.web.api.base import ApiRoute, json_reply, parse_if_match
from heterobandits.web.auth import check_agent
from heterobandits.web.errors import RefusedVisit
from heterobandits.web.requests import Context, RequestContext, find_in_path
from heterobandits.web.turns import (
    asks_much,
    compute_by_size,
    compute_for_state,
    compute_quick,
    write_in_turn,
)

ROUNDS_PAGE_MAX = 1000  # rounds that are listed at once
TRIES = 5  # plans of a large campaign while others write

Made = TypeVar("Made")

router = APIRouter(route_class=ApiRoute)


@router.get("/api/campaigns/{campaign}/rounds", response_model=responses_schema.RoundsJson)
def list_rounds_route(
    asked: Context,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=ROUNDS_PAGE_MAX)] = ROUNDS_PAGE_MAX,
) -> Response:
    """The rounds after a number, in order, so many at most."""
    rounds = asked.state.rounds[after : after + limit]
    entries = [serialization.json_of_round_entry(at) for at in rounds]
    return json_reply(asked.state, {"rounds": entries, "last": len(asked.state.rounds)})


@router.post(
    "/api/campaigns/{campaign}/rounds",
    response_model=responses_schema.RoundJson,
    status_code=201,
    responses={
        200: {
            "model": responses_schema.PreviewJson,
            "description": "A preview: nothing is recorded",
        }
    },
)
async def plan_round_route(
    request: Request,
    asked: Context,
    body: requests_schema.RoundBody | None = None,
    preview: bool = False,
) -> Response:
    """The next round, planned and recorded; with preview=true only shown, with what the circumstances cost."""
    given = dict(body or requests_schema.RoundBody())
    state = asked.state
    if preview:
        request.state.only_looks = True
        constraints = sum(map(len, given.values()))
        return await compute_for_state(
            request, state, lambda: preview_response(state, given), constraints=constraints
        )
    return await plan_in_turn(request, asked, given, partial(plan_response, asked))


def preview_response(state: State, given: dict[str, Any]) -> Response:
    """The next round as it would be."""
    return json_reply(state, serialization.json_of_preview(service.preview(state, **given)))


async def plan_in_turn(
    request: Request, asked: RequestContext, given: dict[str, Any], record: Callable[..., Made]
) -> Made:
    """What recording the next round comes to. That of a large campaign is planned before others wait for it to be written.

    If something has happened since, it is planned again.
    """
    state = asked.state
    if not asks_much(state, sum(map(len, given.values()))):
        return await write_in_turn(request, partial(record, **given))
    for _ in range(TRIES):
        planned = partial(service.plan_ahead, state, **given)
        look = await compute_by_size(request, planned, True)
        try:
            return await write_in_turn(request, partial(record, look=look))
        except service.Overtaken:
            state = await compute_quick(request, asked.log.state, asked.id)
    raise WriteConflict(
        "others write without a pause, and the plan follows from what they write: try again"
    )


def plan_response(asked: RequestContext, **given: Any) -> Response:
    """The next round, recorded."""
    done = service.plan_round(asked.log, asked.id, asked.asker, **given)
    state = serialization.state_after(asked.log, done)
    return json_reply(
        state, serialization.json_of_round(asked.log, state, done.events[0].body["round"]), 201
    )


@router.get("/api/campaigns/{campaign}/rounds/{round}", response_model=responses_schema.RoundJson)
def read_round_route(asked: Context, round: int) -> Response:
    """A round: the plan, its visits with what is known of them, and what waits."""
    number = find_in_path(asked.state.round, round).number
    return json_reply(asked.state, serialization.json_of_round(asked.log, asked.state, number))


@router.delete(
    "/api/campaigns/{campaign}/rounds/{round}", response_model=responses_schema.RoundsJson
)
def cancel_round_route(asked: Context, round: int) -> Response:
    """The last round is cancelled, of which nothing is reported: the next one has its number. What is left are the rounds before."""
    try:
        done = service.cancel_round(*asked.where, round)
    except InvalidInput:
        find_in_path(asked.log.state(asked.id).round, round)
        raise
    state = serialization.state_after(asked.log, done)
    last = state.rounds[-1:]
    entries = [serialization.json_of_round_entry(at) for at in last]
    return json_reply(state, {"rounds": entries, "last": len(state.rounds)})


@router.post(
    "/api/campaigns/{campaign}/rounds/{round}/close", response_model=responses_schema.RoundJson
)
def close_round_route(asked: Context, round: int) -> Response:
    """Nobody waits for a round any more; what comes later is taken all the same."""
    number = find_in_path(asked.state.round, round).number
    done = service.close_round(asked.log, asked.id, asked.asker, number)
    state = serialization.state_after(asked.log, done)
    return json_reply(state, serialization.json_of_round(asked.log, state, number))


@router.get(
    "/api/campaigns/{campaign}/rounds/{round}/explanations",
    response_model=responses_schema.ExplanationsJson,
)
async def explain_round_route(request: Request, asked: Context, round: int) -> Response:
    """Why a round sent each agent where it was planned to go, from what was known then."""
    at = find_in_path(asked.state.round, round)
    return await compute_for_state(
        request, asked.state, lambda: explanations_response(asked, at), at.event
    )


def explanations_response(asked: RequestContext, at: PlannedRound) -> Response:
    """Why a round is as it was planned."""
    told = service.explain(asked.log, asked.id, at.number)
    why = [serialization.json_of_why(asked.state, agent, at, one) for agent, one in told.items()]
    return json_reply(asked.state, {"round": at.number, "explanations": why})


@router.put(
    "/api/campaigns/{campaign}/rounds/{round}/overrides/{agent:path}",
    response_model=responses_schema.RoundJson,
)
def override_route(
    asked: Context, round: int, agent: str, body: requests_schema.OverrideBody
) -> Response:
    """Somebody went elsewhere than planned: to these arms, mostly one, or to none."""
    key = member_id("agent", asked.agent(agent))
    number = find_in_path(asked.state.round, round).number
    done = service.override(asked.log, asked.id, asked.asker, number, key, body.arms)
    state = serialization.state_after(asked.log, done)
    return json_reply(state, serialization.json_of_round(asked.log, state, number))


IfMatch = Annotated[
    str | None,
    Header(description='The ETag that was seen, such as "12", or * for whatever is there.'),
]
ArmQuery = Annotated[
    str | None, Query(description="Which arm, if the agent went to several.", max_length=4000)
]


@router.put(
    "/api/campaigns/{campaign}/rounds/{round}/outcomes/{agent:path}",
    response_model=responses_schema.VisitJson,
    responses={201: {"model": responses_schema.VisitJson, "description": "A first report"}},
)
def tell_outcome_route(
    asked: Context,
    round: int,
    agent: str,
    body: requests_schema.OutcomeBody,
    arm: ArmQuery = None,
    if_match: IfMatch = None,
) -> Response:
    """What came of a visit: a first report, or with If-Match a correction."""
    at, key = find_visit_in_path(asked, round, agent, arm)
    outcome = {key: parse_outcome_body(body, asked.state.agents[asked.agent(agent)].name)}
    seen = None if if_match is None else parse_if_match(if_match)
    where = (asked.log, asked.id, asked.asker, at.number, outcome)
    try:
        said = ReportDetails(body.planned, body.elsewhere, body.entered, None, body.note)
        if if_match is None:
            done = report_outcomes(*where, role=asked.caller.role, said=said)
        else:
            if body.elsewhere is not None:
                raise InvalidInput(
                    "elsewhere is given for a correction: take the report back first"
                )
            check_event_is_there(asked, seen)
            done = correct_outcomes(*where, seen, role=asked.caller.role, said=said)
    except InvalidInput as error:
        raise refused_visit_error(asked, at, key, error, if_match is not None) from None
    state = serialization.state_after(asked.log, done)
    first = any(event.kind == "reported" for event in done.events)
    if body.elsewhere is not None:
        key = (key[0] if isinstance(key, tuple) else key, body.elsewhere)
    return json_reply(state, visit_response(state, at, key), 201 if first else 200)


@router.delete(
    "/api/campaigns/{campaign}/rounds/{round}/outcomes/{agent:path}",
    response_model=responses_schema.VisitJson,
)
def withdraw_outcome_route(
    asked: Context, round: int, agent: str, arm: ArmQuery = None, if_match: IfMatch = None
) -> Response:
    """What was told of a visit is taken back: it waits again."""
    at, key = find_visit_in_path(asked, round, agent, arm)
    seen = None if if_match is None else parse_if_match(if_match)
    try:
        check_event_is_there(asked, seen)
        done = withdraw_outcomes(asked.log, asked.id, asked.asker, at.number, [key], seen)
    except InvalidInput as error:
        raise refused_visit_error(asked, at, key, error, if_match is not None) from None
    state = serialization.state_after(asked.log, done)
    return json_reply(state, visit_response(state, at, key))


def find_visit_in_path(
    asked: RequestContext, round: int, agent: str, arm: str | None
) -> tuple[PlannedRound, Any]:
    """The round and the visit that a path names, by ids: a name may change while a request is on its way."""
    number = asked.agent(agent)
    check_agent(asked.caller, number)
    at = find_in_path(asked.state.round, round)
    key = member_id("agent", number)
    return at, key if arm is None else (key, member_id("arm", find_in_path(asked.state.arm, arm)))


def parse_outcome_body(body: requests_schema.OutcomeBody, agent: str) -> Any:
    """An outcome as the campaign takes it; what it would refuse is named by its field."""
    counts = {"successes": body.successes, "tests": body.tests}
    given = [name for name, value in counts.items() if value is not None]
    if body.missing:
        if given:
            raise InvalidFields(
                [(name, f"{name} is given for a visit that is missing") for name in given]
            )
        return NOT_DONE
    lacking = [name for name in counts if name not in given]
    if lacking:
        raise InvalidFields([(name, f"{name} is missing: a whole number") for name in lacking])
    errors = FieldErrors()
    errors.all("tests", parse_campaign_outcome, (0, body.tests), agent)
    most = COUNT_MAX if errors.errors else body.tests
    errors.all("successes", parse_campaign_outcome, (body.successes, most), agent)
    errors.end()
    return (body.successes, body.tests)


def check_event_is_there(asked: RequestContext, seen: int | None) -> None:
    """Refuse an event that is not there: it is of another history."""
    if seen is not None and seen > asked.state.number:
        raise Stale(f"event {seen} is not there: the last is {asked.state.number}")


def refused_visit_error(
    asked: RequestContext, at: PlannedRound, key: Any, error: InvalidInput, conditional: bool
) -> InvalidInput:
    """The error with what is known of the visit now, if that is what it is about."""
    state = asked.log.state(asked.id)
    now = state.round(at.number)
    try:
        which = find_visit(state, now, key)
    except InvalidInput:
        return error
    if which not in now.sent:
        return error
    known = serialization.json_of_current(now.told.get(which))
    if conditional and known["waits"] and type(error) is InvalidInput:
        return RefusedVisit(Stale(str(error)), known)  # there is nothing that could be corrected
    return RefusedVisit(error, known) if isinstance(error, (AlreadyReported, Stale)) else error


def visit_response(state: State, at: PlannedRound, key: Any) -> responses_schema.VisitJson:
    """A visit as an answer."""
    now = state.round(at.number)
    return serialization.json_of_visit(state, now, find_visit(state, now, key))
