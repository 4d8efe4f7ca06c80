"""Routes of what was learned: estimates, answers, what another policy would have done, what is to be expected."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Query, Response

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

router = APIRouter(route_class=Guarded)
turn = threading.BoundedSemaphore(
    1
)  # projections take both cores; whoever reports must not wait for them


@router.get("/api/campaigns/{campaign}/arms", response_model=shapes.Estimates)
def read_arms(asked: Asking) -> Response:
    """What is known of every arm: estimate, interval, ranks, and pulls by agent."""
    return reply(asked.state, views.estimates(asked.state))


@router.get("/api/campaigns/{campaign}/answers", response_model=shapes.Answers)
def read_answers(asked: Asking) -> Response:
    """Which arms are certainly above which, which is the best, and what is not known yet, also in words."""
    return reply(asked.state, views.answers(asked.state))


@router.get("/api/campaigns/{campaign}/shadow", response_model=shapes.Shadow)
def read_shadow(
    asked: Asking,
    policy: Annotated[str, Query(max_length=200)],
    delta: Annotated[float | None, Query(allow_inf_nan=False)] = None,
) -> Response:
    """What another policy would have planned, from what was known at that time."""
    with alone():
        return reply(asked.state, views.shadow(asked.log, asked.state, policy, delta))


@router.get("/api/campaigns/{campaign}/projection", response_model=shapes.Projection)
def read_projection(asked: Asking, rounds: Rounds = None, draws: Draws = 100) -> Response:
    """The rest of the season, or so many rounds, on draws from what is known."""
    ahead = rounds_of(asked.state, rounds, draws)
    with alone():
        found = projecting.project(asked.state, rounds=ahead, draws=draws)
    return reply(asked.state, views.projection(found))


@router.get("/api/campaigns/{campaign}/worth", response_model=shapes.Worth)
def read_worth(
    asked: Asking,
    sensitivity: Annotated[float, Query(allow_inf_nan=False)],
    agent: Annotated[str | None, Query(max_length=4000)] = None,
    rounds: Rounds = None,
    draws: Draws = 100,
) -> Response:
    """What one more agent of this sensitivity would find more, or an agent if it had this one."""
    s = sensitivity_from(sensitivity)
    ahead = rounds_of(asked.state, rounds, 2 * draws)
    change: dict[str, object] = {"add": Reports(s)}
    if agent is not None:
        change = {"revise": (asked.state.agent(agent), Reports(s))}
    with alone():
        found = projecting.worth(asked.state, rounds=ahead, draws=draws, **change)  # type: ignore[arg-type]
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


@contextmanager
def alone() -> Iterator[None]:
    """Within, nobody else computes something long."""
    if not turn.acquire(timeout=PATIENCE):
        raise Busy("others are having something long computed: try again in a moment")
    try:
        yield
    finally:
        turn.release()
