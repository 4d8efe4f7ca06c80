"""Routes of what was learned: estimates, answers, what another policy would have done, what is to be expected."""

from collections.abc import Callable
from typing import Annotated, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response

from heterobandits.campaigns import projecting
from heterobandits.campaigns.inputs import Reports
from heterobandits.campaigns.state import State
from heterobandits.errors import InvalidInput, sensitivity_from
from heterobandits.web import shapes, views
from heterobandits.web.guard import Asking, Guarded
from heterobandits.web.problems import Busy
from heterobandits.web.replies import reply

MOST_DRAWS = 500
MOST_ROUNDS = 1000
MOST_WORK = 40_000_000  # agents times arms times rounds times draws: about half a minute
PATIENCE = 20.0  # seconds that one waits while another computes

Rounds = Annotated[int | None, Query(ge=1, le=MOST_ROUNDS)]
Draws = Annotated[int, Query(ge=10, le=MOST_DRAWS)]

Made = TypeVar("Made")

router = APIRouter(route_class=Guarded)


@router.get("/api/campaigns/{campaign}/arms", response_model=shapes.Estimates)
def read_arms(asked: Asking) -> Response:
    """What is known of every arm: estimate, interval, ranks, and pulls by agent."""
    return reply(asked.state, views.estimates(asked.state))


@router.get("/api/campaigns/{campaign}/answers", response_model=shapes.Answers)
def read_answers(asked: Asking) -> Response:
    """Which arms are certainly above which, which is the best, and what is not known yet, also in words."""
    return reply(asked.state, views.answers(asked.state))


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
    rounds: Rounds = None,
    draws: Draws = 100,
) -> Response:
    """What one more agent of this sensitivity would find more, or an agent if it had this one."""
    reports = Reports(sensitivity_from(sensitivity))
    ahead = rounds_of(asked.state, rounds, 2 * draws)
    add = reports if agent is None else None
    revise = None if agent is None else (asked.state.agent(agent), reports)
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


async def alone(request: Request, compute: Callable[[], Made]) -> Made:
    """What a long computation comes to: one at a time, in a thread of its own, so that whoever reports need not wait."""
    limiter: anyio.CapacityLimiter = request.app.state.long
    try:
        with anyio.fail_after(PATIENCE):
            await limiter.acquire_on_behalf_of(request)
    except TimeoutError:
        raise Busy("others are having something long computed: try again in a moment") from None
    try:
        return await anyio.to_thread.run_sync(compute, limiter=anyio.CapacityLimiter(1))
    finally:
        limiter.release_on_behalf_of(request)
