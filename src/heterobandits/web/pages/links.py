"""Links: issued, revoked, and printed as cards with codes."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from heterobandits.campaigns import responses_schema, serialization, service
from heterobandits.campaigns.amounts import planned_tests_of
from heterobandits.campaigns.events import render_timestamp, utc_now
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import LINK_ROLES, Link, State, member_id, parse_time
from heterobandits.campaigns.validation import (
    FieldErrors,
    parse_display_name,
)
from heterobandits.errors import InvalidInput, parse_choice, parse_integer, repr_of
from heterobandits.web.api.links import address_of_link
from heterobandits.web.errors import NotFound
from heterobandits.web.pages.base import (
    PageRoute,
    collect_field_errors,
    page_path,
    render_page,
    see_other,
)
from heterobandits.web.pages.plan import PlanRow, plan_rows
from heterobandits.web.pages.qr import is_unreachable_base, render_qr
from heterobandits.web.pages.team import (
    CARD_DEFAULT_DAYS,
    LINK_MAX_DAYS,
    ROLES_IN_WORDS,
    RefusedForm,
    default_days,
    errors_by_field,
    team_page,
)
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Context, RequestContext
from heterobandits.web.turns import compute_by_size

CARDS_MAX_AGENTS = 200  # that are made at once: a second or more of drawing
DATE_PATTERN = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class LinkCard(NamedTuple):
    """An agent with its new link; none, if it was made for the same request before. With a round, where it goes in it."""

    id: str
    name: str
    link: str
    url: str | None
    code: Markup | None
    row: PlanRow | None
    tests: int


@router.post("/campaigns/{campaign}/links")
def submit_link(request: Request, asked: Context) -> Response:
    """A link for somebody, whose address is on this page and nowhere else."""
    form = asked.form
    with collect_field_errors() as errors:
        checked = FieldErrors()
        agent = form.text("agent") or None
        role = checked.all("role", parse_choice, form.text("role"), "role", LINK_ROLES)
        name = checked.of("name", parse_display_name, form.text("name"))
        if agent is not None:
            checked.all("agent", asked.state.agent, agent)
        expires = checked.all("expires", parse_expiry, form.text("expires"))
        checked.end()
        done, token = service.issue_link(
            *asked.where, role=role or "", name=name or "", agent=agent, expires=expires
        )
        state = serialization.state_after(asked.log, done)
        link = state.links[done.events[0].body["link"]]
        url = None if done.repeated else address_of_link(asked.base, token)
        return link_page(request, asked, serialization.json_of_link(state, link), url)
    return team_page(request, asked, RefusedForm("link", errors_by_field(errors, "agent"), form))


def link_page(
    request: Request, asked: RequestContext, link: responses_schema.LinkJson, url: str | None
) -> Response:
    """The page that shows a new link, this once."""
    return render_page(
        request,
        "link.html",
        asked,
        here=page_path(asked.id),
        link=link,
        may=ROLES_IN_WORDS[link["role"]],
        url=url,
        code=None if url is None else render_qr(url),
        base=asked.base,
        stays_here=is_unreachable_base(asked.base),
    )


def parse_expiry(text: str) -> str | None:
    """Until when a link holds, from a number of days or its last day, in UTC; None if that is blank."""
    if not text:
        return None
    if DATE_PATTERN.fullmatch(text):
        try:
            until = parse_time(f"{text}T23:59:59Z")
        except InvalidInput:
            raise InvalidInput(f"expires is {repr_of(text)}: there is no such day") from None
        if until <= parse_time(utc_now()):
            raise InvalidInput(f"expires is {repr_of(text)}: today or a day to come")
        return render_timestamp(until)
    if not text.isascii() or not text.isdigit():
        raise InvalidInput(
            f"expires is {repr_of(text)}: days, such as 30, or the last day, such as 2030-12-31"
        )
    return time_in_days(parse_integer(int(text[:9]), "expires", 1, LINK_MAX_DAYS))


def time_in_days(days: int) -> str:
    """The time so many days from now."""
    return render_timestamp(parse_time(utc_now()) + timedelta(days=days))


@router.post("/campaigns/{campaign}/links/{link}")
def change_link(asked: Context, link: str) -> Response:
    """A link no longer opens anything."""
    parse_choice(asked.form.text("do"), "do", ("revoke",))
    if link not in asked.state.links:
        raise NotFound(f"there is no link {link[:40]!r}")
    revoke_links(asked, [link])
    return see_other(page_path(asked.id, "/team#links"))


def revoke_links(asked: RequestContext, links: Sequence[str]) -> None:
    """Revoke those of these links that are still open."""
    service.revoke_some_links(*asked.where, [link for link in links if link in asked.state.links])


@router.post("/campaigns/{campaign}/cards")
async def make_cards(request: Request, asked: Context) -> Response:
    """The page after a form of cards: codes of a whole team are not in the way of what is quick."""
    return await compute_by_size(request, lambda: issue_cards(request, asked), True)


def issue_cards(request: Request, asked: RequestContext) -> Response:
    """New reporters' links for these agents, each for one, as cards to print, which show them this once; or some revoked."""
    form = asked.form
    if form.text("do") == "revoke":
        revoke_links(asked, form.texts("link"))
        return see_other(page_path(asked.id, "/team#links"))
    with collect_field_errors() as errors:
        checked = FieldErrors()
        days = checked.all("days", parse_days, form, asked.state)
        at = checked.all("round", parse_card_round, form, asked.state)
        going = checked.all("agents", parse_card_agents, form, asked.state, at)
        checked.end()
        return cards_page(request, asked, days or CARD_DEFAULT_DAYS, at, going or [])
    return team_page(request, asked, RefusedForm("cards", errors, form))


def parse_days(form: Form, state: State) -> int:
    """How many days cards shall be valid."""
    days = form.whole("days")
    return default_days(state) if days is None else parse_integer(days, "days", 1, LINK_MAX_DAYS)


def parse_card_round(form: Form, state: State) -> PlannedRound | None:
    """The round that cards are for, if they are for one."""
    which = form.whole("round")
    return None if which is None else state.round(which)


def parse_card_agents(form: Form, state: State, at: PlannedRound | None) -> list[int]:
    """The agents to make cards for: the ticked ones, else all who are active or still go somewhere in the round."""
    ticked = form.texts("agents")
    if not ticked and form.text("ticks"):  # somebody saw them, and ticked nobody
        raise InvalidInput("tick whom cards are for")
    going = sorted({state.agent(key) for key in ticked}) or [
        a
        for a, agent in enumerate(state.agents)
        if not agent.retired or (at is not None and at.arms_of(a))
    ]
    if len(going) > CARDS_MAX_AGENTS:
        raise InvalidInput(
            f"cards for {len(going):,} agents: at most {CARDS_MAX_AGENTS} at once; tick some, and then the others"
        )
    return going


def cards_page(
    request: Request,
    asked: RequestContext,
    days: int,
    at: PlannedRound | None,
    going: Sequence[int],
) -> Response:
    """The page of new cards, with whose earlier links still hold."""
    state = asked.state
    rows: dict[int, PlanRow] = {}
    if at is not None:
        planned = service.recorded_plan(asked.log, state, at)
        rows = {row.agent: row for row in plan_rows(state, planned, at)}
    expires = time_in_days(days)
    made = cards_of(asked, going, expires, at, rows)
    earlier = earlier_links_of(state, going, {card.link for card in made})
    names = dict.fromkeys(state.agents[link.agent or 0].name for link in earlier)
    return render_page(
        request,
        "cards.html",
        asked,
        here=page_path(asked.id),
        round=at,
        days=days,
        until=expires,
        cards=made,
        again=any(card.url is None for card in made),
        earlier=earlier,
        whose=list(names),
        base=asked.base,
        stays_here=is_unreachable_base(asked.base),
    )


def cards_of(
    asked: RequestContext,
    agents: Sequence[int],
    expires: str,
    at: PlannedRound | None,
    rows: Mapping[int, PlanRow],
) -> list[LinkCard]:
    """A card for each of these agents, with a link that is new."""
    state = asked.state
    holders = [(state.agents[a].name, member_id("agent", a)) for a in agents]
    done, tokens = service.issue_links(*asked.where, holders, role="reporter", expires=expires)
    made = []
    for agent, (name, key), event, token in zip(agents, holders, done.events, tokens, strict=True):
        url = None if done.repeated else address_of_link(asked.base, token)
        code = None if url is None else render_qr(url)
        tests = 0 if at is None else planned_tests_of(state, agent, at)
        made.append(LinkCard(key, name, event.body["link"], url, code, rows.get(agent), tests))
    return made


def earlier_links_of(state: State, agents: Sequence[int], new: set[str]) -> list[Link]:
    """The links with which these agents can still report, but for those that are new."""
    time = utc_now()
    return [
        link
        for link in state.links.values()
        if link.agent in agents and link.id not in new and link.holds(time)
    ]
