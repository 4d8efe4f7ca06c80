"""The rest of the season, played on what is known, and what another policy would have planned."""

from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns.analysis.probabilities import has_forecast, nothing_known_text
from heterobandits.campaigns.analysis.projection import estimate_seconds
from heterobandits.campaigns.analysis.shadows import is_different, shadow
from heterobandits.campaigns.events import OnShare
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Repository
from heterobandits.campaigns.validation import FieldErrors, parse_policy
from heterobandits.policies.policy import CATALOGUE
from heterobandits.web.pages.base import (
    PageRoute,
    collect_field_errors,
    render_page,
)
from heterobandits.web.pages.outlook import (
    OUTLOOK_MAX_S,
    OUTLOOK_MIN_DRAWS,
    Outlook,
    await_outlook,
    has_no_free_arm,
    parse_wish,
    stream_outlook,
    suggest_rounds,
    wish_fields,
)
from heterobandits.web.pages.policy_choice import policy_groups
from heterobandits.web.pages.wording import in_words
from heterobandits.web.requests import Context, RequestContext
from heterobandits.web.turns import compute_alone, compute_by_size, compute_quick, lists_many

COMPARISON_MAX_ROUNDS = 30  # rounds that differ, the last ones, in a table
STAYS_HOME_TEXT = "stays home"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/campaigns/{campaign}/ahead")
async def read_ahead(request: Request, asked: Context) -> Response:
    """What is to be expected of the rounds to come; nothing is computed before somebody asks for it."""
    state, form = asked.state, asked.form
    found: Outlook | None = None
    with collect_field_errors(asked.state.words) as errors:
        if form.text("run"):
            found = await await_outlook(
                request, state, await compute_quick(request, parse_wish, state, form)
            )
    return await compute_by_size(
        request, lambda: render_ahead(request, asked, errors, found), lists_many(state)
    )


def render_ahead(
    request: Request, asked: RequestContext, errors: dict[str, str], found: Outlook | None
) -> Response:
    """The page of the rounds to come."""
    state, form = asked.state, asked.form
    return render_page(
        request,
        "ahead.html",
        asked,
        status=422 if errors else 200,
        errors=errors,
        fields=wish_fields(state, form),
        full=has_no_free_arm(state),
        large=is_slow_projection(state),
        silent="" if has_forecast(state) or errors else nothing_known_text(state),
        outlook=found,
    )


@router.get("/campaigns/{campaign}/ahead/run")
async def run_ahead(request: Request, asked: Context) -> Response:
    """The same bit by bit; to a form that is not right the answer is an error, and the page itself says it beside the fields."""
    state, form = asked.state, asked.form
    wish = await compute_quick(request, parse_wish, state, form)
    return stream_outlook(request, state, wish)


def is_slow_projection(state: State) -> bool:
    """Whether playing the rest of the season takes so long that somebody has to be patient."""
    seconds = estimate_seconds(
        state, suggest_rounds(state), OUTLOOK_MIN_DRAWS, not has_no_free_arm(state)
    )
    return seconds > OUTLOOK_MAX_S


class DivertedAgent(NamedTuple):
    """An agent that another policy would have sent elsewhere."""

    agent: str
    planned: str
    other: str


class ShadowPage(NamedTuple):
    """Another policy beside what was planned: in words, the last rounds that differ, and how many more do."""

    summary: str
    sentences: list[str]
    rounds: list[tuple[int, list[DivertedAgent]]]
    more: int


@router.get("/campaigns/{campaign}/compare")
async def read_compare(request: Request, asked: Context) -> Response:
    """Where another policy would have sent the agents, round by round, from what was known then."""
    state, name = asked.state, asked.form.text("policy")
    found: ShadowPage | None = None
    with collect_field_errors(asked.state.words) as errors:
        if name:
            check_policy_field(state, name)
            found = await compute_alone(
                request, lambda tell: shadow_page(asked.log, state, name, tell)
            )
    return await compute_by_size(
        request,
        lambda: render_page(
            request,
            "compare.html",
            asked,
            status=422 if errors else 200,
            errors=errors,
            options=policy_groups(name, policies_for_shadow(state), own=state.policy.name),
            found=found,
        ),
        lists_many(state),
    )


def policies_for_shadow(state: State) -> list[str]:
    """Those that a campaign of such a season can be planned with."""
    endless = state.season is None
    return [
        name
        for name, entry in CATALOGUE.items()
        if not entry.simulated_only and not (endless and entry.in_season)
    ]


def check_policy_field(state: State, name: str) -> None:
    """Refuse what is no policy that can be planned with, beside its field."""
    errors = FieldErrors()
    errors.of("policy", lambda _: parse_policy(name, season=state.season))
    errors.end()


def shadow_page(log: Repository, state: State, name: str, tell: OnShare) -> ShadowPage:
    """Another policy on the log as it stands."""
    found = shadow(log, state.campaign, name, tell=tell)
    other = [one for one in found.rounds if is_different(one)]
    arms = [*state.arm_names, STAYS_HOME_TEXT]
    rounds = []
    for one in reversed(other[-COMPARISON_MAX_ROUNDS:]):
        pairs = zip(state.agent_names, one.planned, one.other, strict=False)
        moved = [
            DivertedAgent(agent, *(arms[-1 if place is None else place] for place in places))
            for agent, *places in pairs
            if places[0] != places[1]
        ]
        rounds.append((one.round, moved))
    return ShadowPage(
        in_words(CATALOGUE[name].summary, state.words),
        found.sentences,
        rounds,
        max(0, len(other) - COMPARISON_MAX_ROUNDS),
    )
