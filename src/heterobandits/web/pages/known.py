"""What is known: all arms with their intervals, in words too; also for a wall."""

from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns.analysis.answers import (
    ArmEstimate,
    answers,
    confidence,
    estimates,
    percent_at_least,
    when_it_holds,
)
from heterobandits.campaigns.analysis.season_summary import standing
from heterobandits.campaigns.state import State
from heterobandits.web.pages.base import PageRoute, page
from heterobandits.web.pages.text import rank_text, waiting_text
from heterobandits.web.requests import Asked, Asking
from heterobandits.web.turns import computed

MOST_CELLS = 2000  # of the table of who was where: a larger one is for a spreadsheet
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class ForestLine(NamedTuple):
    """An arm in the chart of all."""

    known: ArmEstimate
    rank: str
    is_certain: bool
    text: str


@router.get("/campaigns/{campaign}")
async def read_known(request: Request, asked: Asking) -> Response:
    """What is known, what waits, and what to do next."""
    return await computed(request, asked.state, lambda: render_known(request, asked, "known.html"))


@router.get("/campaigns/{campaign}/wall")
async def read_wall(request: Request, asked: Asking) -> Response:
    """The same for a screen on the wall, which shows what is new by itself."""
    return await computed(request, asked.state, lambda: render_known(request, asked, "wall.html"))


def render_known(request: Request, asked: Asked, template: str) -> Response:
    """What is known, as a page."""
    state = asked.state
    return page(
        request,
        template,
        asked,
        lines=forest_lines(state),
        ticks=TICKS,
        confidence=percent_at_least(confidence(state)),
        when=when_it_holds(state),
        sentences=answers(state).sentences,
        standing=standing(state),
        waits=[(number, waiting_text(state, state.round(number))) for number in sorted(state.waiting)],
        visits=visits_by_agent(state),
    )  # fmt: skip


def forest_lines(state: State) -> list[ForestLine]:
    """All arms, the highest estimate first, those that are retired last."""
    made = []
    for known in sorted(estimates(state), key=lambda one: (one.retired, -one.estimate)):
        rank = rank_text(known.best_rank, known.worst_rank)
        text = (
            f"{known.name}: estimated at {known.estimate:.2f}, between {known.lower:.2f} and "
            f"{known.upper:.2f}, rank {rank}, {known.successes} of {known.pulls} tests"
        )
        made.append(ForestLine(known, rank, known.best_rank == known.worst_rank, text))
    return made


def visits_by_agent(state: State) -> list[tuple[str, list[int]]] | None:
    """How many tests each agent made on each arm; None if they are too many to look at."""
    if len(state.agents) * len(state.arms) > MOST_CELLS:
        return None
    made = [[0] * len(state.arms) for _ in state.agents]
    for row, pulls in zip(state.rows, state.pulls.tolist(), strict=True):
        made[row.agent] = [a + b for a, b in zip(made[row.agent], pulls, strict=True)]
    return list(zip(state.agent_names, made, strict=True))
