"""Routes of what was learned: estimates, answers, what another policy would have done, what is to be expected."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from heterobandits.campaigns import responses_schema, serialization
from heterobandits.campaigns.analysis import projection
from heterobandits.campaigns.analysis.sensitivities import sensitivities
from heterobandits.campaigns.analysis.shadows import shadow
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import parse_reports
from heterobandits.errors import InvalidInput
from heterobandits.planner.plans import render_count
from heterobandits.planner.roster import Reports
from heterobandits.web.api.base import ApiRoute, json_reply
from heterobandits.web.requests import Context
from heterobandits.web.turns import (
    LONG_COMPUTATION_MAX_S,
    compute_alone,
    compute_for_state,
    compute_quick,
)

API_PROJECTION_MAX_DRAWS = 500
API_PROJECTION_MAX_ROUNDS = 1000

RoundsQuery = Annotated[int | None, Query(ge=1, le=API_PROJECTION_MAX_ROUNDS)]
DrawsQuery = Annotated[int, Query(ge=10, le=API_PROJECTION_MAX_DRAWS)]

router = APIRouter(route_class=ApiRoute)


@router.get("/api/campaigns/{campaign}/arms", response_model=responses_schema.EstimatesJson)
async def read_arms_route(request: Request, asked: Context) -> Response:
    """What is known of every arm: estimate, interval, ranks, and pulls by agent."""
    state = asked.state
    return await compute_for_state(
        request, state, lambda: json_reply(state, serialization.json_of_estimates(state))
    )


@router.get("/api/campaigns/{campaign}/answers", response_model=responses_schema.AnswersJson)
async def read_answers_route(request: Request, asked: Context) -> Response:
    """Which arms are certainly above which, which is the best, and what is not known yet, also in words."""
    state = asked.state
    return await compute_for_state(
        request, state, lambda: json_reply(state, serialization.json_of_answers(state))
    )


@router.get("/api/campaigns/{campaign}/agents", response_model=responses_schema.SensitivitiesJson)
async def read_agents_route(request: Request, asked: Context) -> Response:
    """How sensitive every agent is by the visits, and whether that is what was stated of it."""
    state = asked.state
    found = await compute_alone(request, lambda tell: sensitivities(state))
    return json_reply(state, serialization.json_of_sensitivities(state, found))


@router.get("/api/campaigns/{campaign}/shadow", response_model=responses_schema.ShadowJson)
async def read_shadow_route(
    request: Request,
    asked: Context,
    policy: Annotated[str, Query(max_length=200)],
    delta: Annotated[float | None, Query(allow_inf_nan=False)] = None,
) -> Response:
    """What another policy would have planned, from what was known at that time."""

    def follow(tell: Callable[[float], None]) -> Response:
        found = shadow(asked.log, asked.id, policy, delta, tell)
        return json_reply(asked.state, serialization.json_of_shadow(asked.state, found))

    return await compute_alone(request, follow)


@router.get("/api/campaigns/{campaign}/projection", response_model=responses_schema.ProjectionJson)
async def read_projection_route(
    request: Request, asked: Context, rounds: RoundsQuery = None, draws: DrawsQuery = 100
) -> Response:
    """The rest of the season, or so many rounds, on draws from what is known."""
    state = asked.state
    ahead = await compute_quick(request, parse_api_rounds, [state], rounds, draws)
    found = await compute_alone(
        request, lambda tell: projection.project(state, rounds=ahead, draws=draws, tell=tell)
    )
    return json_reply(asked.state, serialization.json_of_projection(found))


@router.get("/api/campaigns/{campaign}/worth", response_model=responses_schema.WorthJson)
async def read_worth_route(
    request: Request,
    asked: Context,
    sensitivity: Annotated[float, Query(allow_inf_nan=False)],
    agent: Annotated[str | None, Query(max_length=4000)] = None,
    tests: int | None = None,
    false_positive_rate: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    rounds: RoundsQuery = None,
    draws: DrawsQuery = 100,
) -> Response:
    """What one more agent that reports like this would find more, or an agent if it did; what is not said, it has of its own."""
    given = {
        "sensitivity": sensitivity,
        "tests": tests,
        "false_positive_rate": false_positive_rate,
    }
    state = asked.state

    def wanted() -> tuple[State, int]:
        number = None if agent is None else state.agent(agent)
        reports = reports_of_query(state, number, given)
        changed = projection.state_with_other_team(state, number, reports)
        return changed, parse_api_rounds([state, changed], rounds, draws)

    changed, ahead = await compute_for_state(request, state, wanted)
    worth = partial(projection.worth_of_team, state, changed, rounds=ahead, draws=draws)
    found = await compute_alone(request, lambda tell: worth(tell=tell))
    return json_reply(asked.state, serialization.json_of_worth(found))


def reports_of_query(state: State, agent: int | None, given: Mapping[str, Any]) -> Reports:
    """How an agent, or nobody known yet, would report with what is given."""
    stated = {name: value for name, value in given.items() if value is not None}
    full = stated if agent is None else state.reports(agent).revised(stated)
    return parse_reports(full)


def parse_api_rounds(states: Sequence[State], rounds: int | None, draws: int) -> int:
    """How many rounds to look ahead with each of these teams, if that can be computed while somebody waits."""
    ahead = states[0].rounds_left if rounds is None else rounds
    if ahead is None:
        raise InvalidInput("rounds is missing: the season has no end, so say how many")
    ahead = min(ahead, API_PROJECTION_MAX_ROUNDS)

    def seconds(rounds: int) -> float:
        return sum(projection.estimate_seconds(state, rounds, draws, False) for state in states)

    if seconds(ahead) > LONG_COMPUTATION_MAX_S:
        fitting = bisect_right(range(1, ahead), LONG_COMPUTATION_MAX_S, key=seconds)
        raise InvalidInput(
            f"rounds is {ahead} and draws {draws}: to compute that takes about {seconds(ahead):,.0f} seconds, and at most {LONG_COMPUTATION_MAX_S:g} "
            f"while you wait; with so many draws {render_count(fitting, 'round')} would do, or use `heterobandits campaign project`"
            if fitting
            else f"draws is {draws}: even one round takes over {LONG_COMPUTATION_MAX_S:g} seconds while you wait; say fewer, or use "
            "`heterobandits campaign project`"
        )
    return ahead
