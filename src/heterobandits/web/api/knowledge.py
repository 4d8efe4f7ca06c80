"""Routes of what was learned: estimates, answers, what another policy would have done, what is to be expected."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from heterobandits.campaigns import responses_schema, serialization
from heterobandits.campaigns.analysis import projection
from heterobandits.campaigns.analysis.shadows import shadow
from heterobandits.campaigns.service import revision_of
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import Collected, Reports, reports_from
from heterobandits.errors import InvalidInput
from heterobandits.planner.plans import count_text
from heterobandits.web.api.base import ApiRoute, reply
from heterobandits.web.requests import Asking
from heterobandits.web.turns import LONGEST, alone, beside, computed

MOST_DRAWS = 500
MOST_ROUNDS = 1000

Rounds = Annotated[int | None, Query(ge=1, le=MOST_ROUNDS)]
Draws = Annotated[int, Query(ge=10, le=MOST_DRAWS)]

router = APIRouter(route_class=ApiRoute)


@router.get("/api/campaigns/{campaign}/arms", response_model=responses_schema.EstimatesJson)
async def read_arms_route(request: Request, asked: Asking) -> Response:
    """What is known of every arm: estimate, interval, ranks, and pulls by agent."""
    state = asked.state
    return await computed(
        request, state, lambda: reply(state, serialization.json_of_estimates(state))
    )


@router.get("/api/campaigns/{campaign}/answers", response_model=responses_schema.AnswersJson)
async def read_answers_route(request: Request, asked: Asking) -> Response:
    """Which arms are certainly above which, which is the best, and what is not known yet, also in words."""
    state = asked.state
    return await computed(
        request, state, lambda: reply(state, serialization.json_of_answers(state))
    )


@router.get("/api/campaigns/{campaign}/shadow", response_model=responses_schema.ShadowJson)
async def read_shadow_route(
    request: Request,
    asked: Asking,
    policy: Annotated[str, Query(max_length=200)],
    delta: Annotated[float | None, Query(allow_inf_nan=False)] = None,
) -> Response:
    """What another policy would have planned, from what was known at that time."""

    def follow(tell: Callable[[float], None]) -> Response:
        found = shadow(asked.log, asked.id, policy, delta, tell)
        return reply(asked.state, serialization.json_of_shadow(asked.state, found))

    return await alone(request, follow)


@router.get("/api/campaigns/{campaign}/projection", response_model=responses_schema.ProjectionJson)
async def read_projection_route(
    request: Request, asked: Asking, rounds: Rounds = None, draws: Draws = 100
) -> Response:
    """The rest of the season, or so many rounds, on draws from what is known."""
    state = asked.state
    ahead = await beside(request, rounds_of, [state], rounds, draws)
    found = await alone(
        request, lambda tell: projection.project(state, rounds=ahead, draws=draws, tell=tell)
    )
    return reply(asked.state, serialization.projection(found))


@router.get("/api/campaigns/{campaign}/worth", response_model=responses_schema.WorthJson)
async def read_worth_route(
    request: Request,
    asked: Asking,
    sensitivity: Annotated[float, Query(allow_inf_nan=False)],
    agent: Annotated[str | None, Query(max_length=4000)] = None,
    tests: int | None = None,
    false_positive_rate: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    rounds: Rounds = None,
    draws: Draws = 100,
) -> Response:
    """What one more agent that reports like this would find more, or an agent if it did; what is not said, it has of its own."""
    given = {
        "sensitivity": sensitivity,
        "tests": tests,
        "false_positive_rate": false_positive_rate,
    }
    state = asked.state

    def wanted() -> dict[str, Any]:
        number = None if agent is None else state.agent(agent)
        reports = reports_with(state, number, given)
        add = reports if number is None else None
        revise = None if number is None else (number, reports)
        teams = [state, projection.with_other_team(state, add, revise)]
        return {"add": add, "revise": revise, "rounds": rounds_of(teams, rounds, draws)}

    wish = await computed(request, state, wanted)
    found = await alone(
        request, lambda tell: projection.worth(state, draws=draws, tell=tell, **wish)
    )
    return reply(asked.state, serialization.json_of_worth(found))


def reports_with(state: State, agent: int | None, given: Mapping[str, Any]) -> Reports:
    """How an agent, or nobody known yet, would report with what is given."""
    stated = {name: value for name, value in given.items() if value is not None}
    full = stated if agent is None else revision_of(state, agent, stated)
    errors = Collected()
    made = reports_from(full, errors, lambda field: field)
    errors.end()
    assert made is not None, "what is wrong has been named"
    return made


def rounds_of(states: Sequence[State], rounds: int | None, draws: int) -> int:
    """How many rounds to look ahead with each of these teams, if that can be computed while somebody waits."""
    ahead = states[0].rounds_left if rounds is None else rounds
    if ahead is None:
        raise InvalidInput("rounds is missing: the season has no end, so say how many")
    ahead = min(ahead, MOST_ROUNDS)

    def seconds(rounds: int) -> float:
        return sum(projection.seconds_of(state, rounds, draws, False) for state in states)

    if seconds(ahead) > LONGEST:
        fitting = bisect_right(range(1, ahead), LONGEST, key=seconds)
        raise InvalidInput(
            f"rounds is {ahead} and draws {draws}: to compute that takes about {seconds(ahead):,.0f} seconds, and at most {LONGEST:g} "
            f"while you wait; with so many draws {count_text(fitting, 'round')} would do, or use `heterobandits campaign project`"
            if fitting
            else f"draws is {draws}: even one round takes over {LONGEST:g} seconds while you wait; say fewer, or use "
            "`heterobandits campaign project`"
        )
    return ahead
