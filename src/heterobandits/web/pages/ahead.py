"""The rest of the season, played on what is known, and what another policy would have planned."""

from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns.analysis.projection import seconds_of
from heterobandits.campaigns.analysis.shadows import differs, shadow
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Log
from heterobandits.campaigns.validation import Collected, policy_from
from heterobandits.policies.policy import CATALOGUE
from heterobandits.web.pages.base import PageRoute, beside_fields, options_of, page
from heterobandits.web.pages.outlook import (
    LEAST_DRAWS,
    MOST_SECONDS,
    Outlook,
    is_full,
    looked_ahead,
    rounds_offered,
    tried,
    wish_fields,
    wish_from,
)
from heterobandits.web.requests import Asking
from heterobandits.web.turns import Tell, alone, beside

MOST_COMPARED = 30  # rounds that differ, the last ones, in a table
NOWHERE = "stays home"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/campaigns/{campaign}/ahead")
async def read_ahead(request: Request, asked: Asking) -> Response:
    """What is to be expected of the rounds to come; nothing is computed before somebody asks for it."""
    state, form = asked.state, asked.form
    found: Outlook | None = None
    with beside_fields() as errors:
        if form.text("run"):
            found = await looked_ahead(
                request, state, await beside(request, wish_from, state, form)
            )
    return page(
        request,
        "ahead.html",
        asked,
        status=422 if errors else 200,
        errors=errors,
        fields=wish_fields(state, form),
        full=is_full(state),
        large=is_large(state),
        outlook=found,
    )


@router.get("/campaigns/{campaign}/ahead/run")
async def run_ahead(request: Request, asked: Asking) -> Response:
    """The same bit by bit; to a form that is not right the answer is an error, and the page itself says it beside the fields."""
    state, form = asked.state, asked.form
    wish = await beside(request, wish_from, state, form)
    return tried(request, state, wish)


def is_large(state: State) -> bool:
    """Whether to play the rest of the season takes so long that somebody may have to be patient."""
    seconds = seconds_of(state, rounds_offered(state), LEAST_DRAWS, not is_full(state))
    return seconds > MOST_SECONDS


class Elsewhere(NamedTuple):
    """An agent that another policy would have sent elsewhere."""

    agent: str
    planned: str
    other: str


class ShadowPage(NamedTuple):
    """Another policy beside what was planned: in words, the last rounds that differ, and how many more do."""

    summary: str
    sentences: list[str]
    rounds: list[tuple[int, list[Elsewhere]]]
    more: int


@router.get("/campaigns/{campaign}/compare")
async def read_compare(request: Request, asked: Asking) -> Response:
    """Where another policy would have sent the agents, round by round, from what was known then."""
    state, name = asked.state, asked.form.text("policy")
    found: ShadowPage | None = None
    with beside_fields() as errors:
        if name:
            check_policy_field(state, name)
            found = await alone(request, lambda tell: shadow_page(asked.log, state, name, tell))
    return page(
        request,
        "compare.html",
        asked,
        status=422 if errors else 200,
        errors=errors,
        options=options_of(
            [(one, policy_in_words(state, one)) for one in shadow_policies(state)], name
        ),
        found=found,
    )


def shadow_policies(state: State) -> list[str]:
    """Those that a campaign of such a season can be planned with."""
    endless = state.season is None
    return [
        name
        for name, entry in CATALOGUE.items()
        if not entry.simulated_only and not (endless and entry.in_season)
    ]


def policy_in_words(state: State, name: str) -> str:
    """A policy as it is offered."""
    return f"{name} (of this campaign)" if name == state.policy.name else name


def check_policy_field(state: State, name: str) -> None:
    """Refuse what is no policy that can be planned with, beside its field."""
    errors = Collected()
    errors.of("policy", lambda _: policy_from(name, season=state.season))
    errors.end()


def shadow_page(log: Log, state: State, name: str, tell: Tell) -> ShadowPage:
    """Another policy on the log as it stands."""
    found = shadow(log, state.campaign, name, tell=tell)
    other = [one for one in found.rounds if differs(one)]
    arms = [*state.arm_names, NOWHERE]
    rounds = []
    for one in reversed(other[-MOST_COMPARED:]):
        pairs = zip(state.agent_names, one.planned, one.other, strict=False)
        moved = [
            Elsewhere(agent, *(arms[-1 if place is None else place] for place in places))
            for agent, *places in pairs
            if places[0] != places[1]
        ]
        rounds.append((one.round, moved))
    return ShadowPage(
        CATALOGUE[name].summary, found.sentences, rounds, max(0, len(other) - MOST_COMPARED)
    )
