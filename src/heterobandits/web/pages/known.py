"""What is known: all arms with their intervals, in words too; also for a wall."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns.analysis.answers import (
    answers,
    assumptions_text,
    change_assumptions_text,
    confidence_of,
    mixed_arms,
    render_percent_floor,
    validity_text,
)
from heterobandits.campaigns.analysis.estimates import (
    ArmEstimate,
    mark_of_visits,
    order_by_estimate,
)
from heterobandits.campaigns.analysis.probabilities import (
    fit_rate_axis,
    probable,
    render_certain_ends,
    render_percent,
    render_rates,
)
from heterobandits.campaigns.analysis.season_summary import summarize_season
from heterobandits.campaigns.analysis.sensitivities import sensitivities
from heterobandits.campaigns.responses_schema import SensitivitiesJson
from heterobandits.campaigns.serialization import json_of_sensitivities
from heterobandits.campaigns.state import State, member_id, once_for_state
from heterobandits.web.pages.base import PageRoute, render_page
from heterobandits.web.pages.paging import Entry, ListPage, first_entry_in, page_of
from heterobandits.web.pages.text import rank_text, waiting_text
from heterobandits.web.requests import Context, RequestContext
from heterobandits.web.turns import compute_alone, compute_for_state

VISITS_TABLE_MAX_CELLS = 2000  # of the table of who was where: a larger one is for a spreadsheet
CHANGEABLE_MAX_ARMS = (
    20  # that are offered to be forgotten though nothing says that they have changed
)

WALL_MAX_PLACES = 30  # arms, and as many visits under way, that a screen on the wall has room for
WALL_COLUMN_MAX_PLACES = 15  # in a column of these
LONG_NAME_LETTERS = 20  # from which on a name on the wall takes two lines

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class WallVisit(NamedTuple):
    """Where somebody goes in a round that waits, and whether they have reported."""

    agent: str
    arm: str
    reported: bool


class WallRound(NamedTuple):
    """A round that waits, with some of its visits in columns, and how many more there are."""

    number: int
    columns: list[list[WallVisit]]
    more: int


class ForestLine(NamedTuple):
    """An arm in the chart of all."""

    known: ArmEstimate
    estimate: str
    interval: str
    among: str
    rank: str
    is_certain: bool
    mark: str
    text: str


@router.get("/campaigns/{campaign}")
async def show_knowledge(
    request: Request, asked: Context, agents: Literal["1"] | None = None
) -> Response:
    """What is known, what waits, and what to do next; with how sensitive the `agents` are, which takes a while."""
    if agents is not None:
        state = asked.state
        found = await compute_alone(request, lambda tell: sensitivities(state))
        told = json_of_sensitivities(state, found)
        return await compute_for_state(
            request, state, lambda: render_known_page(request, asked, told)
        )
    return await compute_for_state(request, asked.state, lambda: render_known_page(request, asked))


@router.get("/campaigns/{campaign}/wall")
async def show_wall(request: Request, asked: Context) -> Response:
    """Who goes where and what is known, for a screen on the wall, which shows what is new by itself."""
    return await compute_for_state(request, asked.state, lambda: render_wall(request, asked))


def render_wall(request: Request, asked: RequestContext) -> Response:
    """One screen with what matters today: rounds that wait first, then the arms, as many as there is room for."""
    state = asked.state
    lines = forest_lines(state)
    shown = [line for line in lines if not line.known.retired][:WALL_MAX_PLACES]
    scale = axis_end_of(lines)
    return render_page(
        request,
        "wall.html",
        asked,
        rounds=wall_rounds(state),
        columns=wall_columns(shown),
        more=sum(not line.known.retired for line in lines) - len(shown),
        scale=scale,
        ticks=ticks_of(scale),
        long=LONG_NAME_LETTERS,
        alarms=bool(state.team.offset.any()),
        said=[*probable(state).sentences[:1], *certain_best(state), *summarize_season(state).warnings],
        standing=summarize_season(state),
    )  # fmt: skip


def certain_best(state: State) -> list[str]:
    """The sentence that says which arm certainly is the best, once that is known."""
    known = answers(state)
    best = "" if known.best is None else state.arms[known.best].name
    return [one for one in known.sentences if best and one.startswith(f"{best} is certainly")][:1]


def wall_columns(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries in one column or two of the same height."""
    half = (len(entries) + 1) // 2 if len(entries) > WALL_COLUMN_MAX_PLACES else len(entries)
    return [list(part) for part in (entries[:half], entries[half:]) if part]


def wall_rounds(state: State) -> list[WallRound]:
    """The rounds that wait, the last first, and of those before it who has not reported, as long as there is room."""
    made, room = [], WALL_MAX_PLACES
    last = max(state.waiting, default=0)
    for number in sorted(state.waiting, reverse=True):
        at = state.round(number)
        visits = [
            WallVisit(state.agents[agent].name, state.arms[arm].name, (agent, arm) in at.told)
            for agent, arm in at.sent
            if number == last or (agent, arm) not in at.told
        ]
        visits.sort(key=lambda visit: visit.reported)
        shown = visits[: max(0, room)]
        if shown:
            made.append(WallRound(number, wall_columns(shown), len(visits) - len(shown)))
        room = min(room - len(shown), WALL_COLUMN_MAX_PLACES - len(shown))
    return made


def assumptions_of(state: State) -> list[str]:
    """What has to hold for what is certain: the sentences that stand behind a press."""
    return [assumptions_text(state), change_assumptions_text(state)]


def render_known_page(
    request: Request, asked: RequestContext, sensitive: SensitivitiesJson | None = None
) -> Response:
    """What is known, as a page."""
    state = asked.state
    lines, likely = forest_lines(state), probable(state)
    scale = axis_end_of(lines)
    certain, assumed = answers(state).sentences, assumptions_of(state)
    shown: ListPage[ForestLine] = page_of(lines, first_entry_in(asked.form, "from"))
    return render_page(
        request,
        "known.html",
        asked,
        lines=shown.entries,
        list=shown,
        any_retired=any(line.known.retired for line in lines),
        scale=scale,
        ticks=ticks_of(scale),
        ranked=any(line.known.worst_rank - line.known.best_rank < len(lines) - 1 for line in lines),
        among=likely.among if likely.among < len(likely.arms) else 0,
        alarms=bool(state.team.offset.any()),
        confidence=render_percent_floor(confidence_of(state)),
        when=validity_text(state),
        probable=likely.sentences,
        sentences=[one for one in certain if one not in assumed],
        assumed=[one for one in certain if one in assumed],
        standing=summarize_season(state),
        waits=[(number, waiting_text(state, state.round(number))) for number in sorted(state.waiting)],
        visits=visits_by_agent(state),
        changeable=changeable_arms(state),
        sensitive=sensitive,
    )  # fmt: skip


class ChangeableArm(NamedTuple):
    """An arm that can be forgotten, or was: then `last` is the last round that does not count."""

    id: str
    name: str
    last: int | None


def changeable_arms(state: State) -> list[ChangeableArm]:
    """The arms that were forgotten, and those that have changed or, if they are few, all others."""
    last = state.gone
    few = len(state.arms) <= CHANGEABLE_MAX_ARMS
    offered = range(len(state.arms)) if few else sorted({*last, *mixed_arms(state)})
    return [
        ChangeableArm(member_id("arm", n), state.arms[n].name, last.get(n))
        for n in offered
        if not state.arms[n].retired
    ]


@once_for_state
def forest_lines(state: State) -> list[ForestLine]:
    """All arms, in the order of their estimates."""
    made, draws = [], probable(state).draws
    for known in order_by_estimate(state):
        rank = rank_text(known.best_rank, known.worst_rank)
        low, high = render_certain_ends(known.lower, known.upper)
        estimate, *ends = render_rates(known.estimate, known.low, known.high)
        among = "" if known.retired else render_percent(known.among_chance, draws)
        text = (
            f"{known.name}: estimated at {estimate}, 8 times of 10 between {ends[0]} and {ends[1]}, certainly between {low} and {high}, "
            f"rank {rank}, {known.successes} of {state.words.count(known.pulls, 'test')}"
        )
        made.append(
            ForestLine(
                known=known,
                estimate=estimate,
                interval=f"{ends[0].removesuffix(' %')} to {ends[1]}",
                among=among,
                rank=rank,
                is_certain=known.best_rank == known.worst_rank,
                mark=mark_of_visits(known),
                text=text,
            )
        )
    return made


def axis_end_of(lines: list[ForestLine]) -> float:
    """The mean at which the axis ends: all ordinary intervals of arms that were visited fit."""
    here = [line.known for line in lines if not line.known.retired]
    return fit_rate_axis(max((one.high for one in here if one.visits), default=1.0))


def ticks_of(scale: float) -> list[tuple[float, str]]:
    """Marks of the axis: at its ends, and in the middle."""
    return [(part * scale, f"{100.0 * part * scale:g} %") for part in (0.0, 0.5, 1.0)]


@once_for_state
def visits_by_agent(state: State) -> list[tuple[str, list[int]]] | None:
    """How many tests each agent made on each arm; None if they are too many to look at."""
    if len(state.agents) * len(state.arms) > VISITS_TABLE_MAX_CELLS:
        return None
    made = [[0] * len(state.arms) for _ in state.agents]
    for row, pulls in zip(state.rows, state.pulls.tolist(), strict=True):
        made[row.agent] = [a + b for a, b in zip(made[row.agent], pulls, strict=True)]
    return list(zip(state.agent_names, made, strict=True))
