"""What is known: all arms with their intervals, in words too; also for a wall."""

from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns.analysis.answers import (
    ArmEstimate,
    answers,
    confidence_of,
    estimates,
    render_percent_floor,
    validity_text,
)
from heterobandits.campaigns.analysis.season_summary import summarize_season
from heterobandits.campaigns.state import State
from heterobandits.planner.plans import render_ends
from heterobandits.web.pages.base import PageRoute, render_page
from heterobandits.web.pages.text import rank_text, waiting_text
from heterobandits.web.requests import Context, RequestContext
from heterobandits.web.turns import compute_for_state

VISITS_TABLE_MAX_CELLS = 2000  # of the table of who was where: a larger one is for a spreadsheet
FOREST_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class ForestLine(NamedTuple):
    """An arm in the chart of all."""

    known: ArmEstimate
    interval: str
    rank: str
    is_certain: bool
    text: str


@router.get("/campaigns/{campaign}")
async def show_knowledge(request: Request, asked: Context) -> Response:
    """What is known, what waits, and what to do next."""
    return await compute_for_state(
        request, asked.state, lambda: render_known_page(request, asked, "known.html")
    )


@router.get("/campaigns/{campaign}/wall")
async def show_wall(request: Request, asked: Context) -> Response:
    """The same for a screen on the wall, which shows what is new by itself."""
    return await compute_for_state(
        request, asked.state, lambda: render_known_page(request, asked, "wall.html")
    )


def render_known_page(request: Request, asked: RequestContext, template: str) -> Response:
    """What is known, as a page."""
    state = asked.state
    return render_page(
        request,
        template,
        asked,
        lines=forest_lines(state),
        ticks=FOREST_TICKS,
        confidence=render_percent_floor(confidence_of(state)),
        when=validity_text(state),
        sentences=answers(state).sentences,
        standing=summarize_season(state),
        waits=[(number, waiting_text(state, state.round(number))) for number in sorted(state.waiting)],
        visits=visits_by_agent(state),
    )  # fmt: skip


def forest_lines(state: State) -> list[ForestLine]:
    """All arms, the highest estimate first, those that are retired last."""
    made = []
    for known in sorted(estimates(state), key=lambda one: (one.retired, -one.estimate)):
        rank = rank_text(known.best_rank, known.worst_rank)
        low, high = render_ends(known.lower, known.upper, 2)
        text = (
            f"{known.name}: estimated at {known.estimate:.2f}, between {low} and {high}, rank {rank}, "
            f"{known.successes} of {known.pulls} tests"
        )
        certain = known.best_rank == known.worst_rank
        made.append(ForestLine(known, f"{low} to {high}", rank, certain, text))
    return made


def visits_by_agent(state: State) -> list[tuple[str, list[int]]] | None:
    """How many tests each agent made on each arm; None if they are too many to look at."""
    if len(state.agents) * len(state.arms) > VISITS_TABLE_MAX_CELLS:
        return None
    made = [[0] * len(state.arms) for _ in state.agents]
    for row, pulls in zip(state.rows, state.pulls.tolist(), strict=True):
        made[row.agent] = [a + b for a, b in zip(made[row.agent], pulls, strict=True)]
    return list(zip(state.agent_names, made, strict=True))
