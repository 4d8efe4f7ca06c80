"""Routes of what was learned: estimates, answers, what another policy would have done, what is to be expected."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from heterobandits.campaigns import projecting
from heterobandits.campaigns.inputs import Collected, Reports, reports_from
from heterobandits.campaigns.service import CALIBRATED
from heterobandits.campaigns.state import State
from heterobandits.errors import InvalidInput
from heterobandits.web import shapes, views
from heterobandits.web.computing import alone, computed
from heterobandits.web.guard import Asking, Guarded
from heterobandits.web.replies import reply

MOST_DRAWS = 500
MOST_ROUNDS = 1000
MOST_WORK = 40_000_000  # agents times arms times rounds times draws: about half a minute

Rounds = Annotated[int | None, Query(ge=1, le=MOST_ROUNDS)]
Draws = Annotated[int, Query(ge=10, le=MOST_DRAWS)]

router = APIRouter(route_class=Guarded)


@router.get("/api/campaigns/{campaign}/arms", response_model=shapes.Estimates)
async def read_arms(request: Request, asked: Asking) -> Response:
    """What is known of every arm: estimate, interval, ranks, and pulls by agent."""
    state = asked.state
    return await computed(request, state, lambda: reply(state, views.estimates(state)))


@router.get("/api/campaigns/{campaign}/answers", response_model=shapes.Answers)
async def read_answers(request: Request, asked: Asking) -> Response:
    """Which arms are certainly above which, which is the best, and what is not known yet, also in words."""
    state = asked.state
    return await computed(request, state, lambda: reply(state, views.answers(state)))


@router.get("/api/campaigns/{campaign}/shadow", response_model=shapes.Shadow)
async def read_shadow(
    request: Request,
    asked: Asking,
    policy: Annotated[str, Query(max_length=200)],
    delta: Annotated[float | None, Query(allow_inf_nan=False)] = None,
) -> Response:
    """What another policy would have planned, from what was known at that time."""
    found = await alone(request, lambda: views.shadow(asked.log, asked.state, policy, delta))
    return reply(asked.state, found)


@router.get("/api/campaigns/{campaign}/projection", response_model=shapes.Projection)
async def read_projection(
    request: Request, asked: Asking, rounds: Rounds = None, draws: Draws = 100
) -> Response:
    """The rest of the season, or so many rounds, on draws from what is known."""
    ahead = rounds_of(asked.state, rounds, draws)
    found = await alone(request, lambda: projecting.project(asked.state, rounds=ahead, draws=draws))
    return reply(asked.state, views.projection(found))


@router.get("/api/campaigns/{campaign}/worth", response_model=shapes.Worth)
async def read_worth(
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
    number = None if agent is None else asked.state.agent(agent)
    reports = reports_of(asked.state, number, given)
    ahead = rounds_of(asked.state, rounds, 2 * draws)
    add = reports if number is None else None
    revise = None if number is None else (number, reports)
    found = await alone(
        request,
        lambda: projecting.worth(asked.state, rounds=ahead, draws=draws, add=add, revise=revise),
    )
    answer = {
        "plain": views.projection(found.plain),
        "other": views.projection(found.other),
        "more": found.more,
        "more_se": found.more_se,
    }
    return reply(asked.state, answer)


def reports_of(state: State, agent: int | None, given: Mapping[str, Any]) -> Reports:
    """How an agent, or nobody known yet, would report with what is given."""
    stated = {name: value for name, value in given.items() if value is not None}
    had = {} if agent is None else state.rows[state.agents[agent].row].reports.body
    for one, trial in CALIBRATED:
        if one in stated:
            had[trial] = None
    errors = Collected()
    made = reports_from(had | stated, errors, lambda field: field)
    errors.end()
    assert made is not None, "what is wrong has been named"
    return made


def rounds_of(state: State, rounds: int | None, draws: int) -> int:
    """How many rounds to look ahead, if that can be computed while somebody waits."""
    ahead = state.rounds_left if rounds is None else rounds
    if ahead is None:
        raise InvalidInput("rounds is missing: the season has no end, so say how many")
    ahead = min(ahead, MOST_ROUNDS)
    if ahead * draws * len(state.rows) * len(state.arms) > MOST_WORK:
        raise InvalidInput(
            f"rounds is {ahead} and draws {draws}: too much to compute while you wait; fewer, or with "
            "`heterobandits campaign project`"
        )
    return ahead
