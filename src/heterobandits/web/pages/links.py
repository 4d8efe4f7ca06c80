"""Links: issued, revoked, and printed as cards with codes."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from heterobandits.campaigns import responses_schema, serialization, service
from heterobandits.campaigns.amounts import tests_planned
from heterobandits.campaigns.events import now, timestamp
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import ROLES, Link, State, id_of, moment
from heterobandits.campaigns.storage.repository import Request as Asker
from heterobandits.campaigns.validation import (
    Collected,
    called,
)
from heterobandits.errors import InvalidInput, choice, shown, whole_number
from heterobandits.web.api.links import address
from heterobandits.web.errors import NotFound
from heterobandits.web.pages.base import PageRoute, beside_fields, home, page, seen_again
from heterobandits.web.pages.plan import Sent, plan_rows
from heterobandits.web.pages.qr import qr, stays_here
from heterobandits.web.pages.team import (
    DAYS,
    MOST_DAYS,
    ROLES_IN_WORDS,
    Tried,
    errors_beside,
    team_page,
    usual_days,
)
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Asked, Asking
from heterobandits.web.turns import sized

MOST_CARDS = 200  # that are made at once: a second or more of drawing
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class Card(NamedTuple):
    """An agent with its new link; none, if it was made for the same request before. With a round, where it goes in it."""

    id: str
    name: str
    link: str
    url: str | None
    code: Markup | None
    row: Sent | None
    tests: int


@router.post("/campaigns/{campaign}/links")
def submit_link(request: Request, asked: Asking) -> Response:
    """A link for somebody, whose address is on this page and nowhere else."""
    form = asked.form
    with beside_fields() as errors:
        checked = Collected()
        agent = form.text("agent") or None
        role = checked.all("role", choice, form.text("role"), "role", ROLES)
        name = checked.of("name", called, form.text("name"))
        if agent is not None:
            checked.all("agent", asked.state.agent, agent)
        expires = checked.all("expires", expiry_from, form.text("expires"))
        checked.end()
        done, token = service.issue_link(
            *asked.where, role=role or "", name=name or "", agent=agent, expires=expires
        )
        state = serialization.state_after(asked.log, done)
        link = state.links[done.events[0].body["link"]]
        url = None if done.repeated else address(asked.base, token)
        return link_page(request, asked, serialization.link(state, link), url)
    return team_page(request, asked, Tried("link", errors_beside(errors, "agent"), form))


def link_page(
    request: Request, asked: Asked, link: responses_schema.LinkJson, url: str | None
) -> Response:
    """The page that shows a new link, this once."""
    return page(
        request,
        "link.html",
        asked,
        here=home(asked.id),
        link=link,
        may=ROLES_IN_WORDS[link["role"]],
        url=url,
        code=None if url is None else qr(url),
        base=asked.base,
        stays_here=stays_here(asked.base),
    )


def expiry_from(text: str) -> str | None:
    """Until when a link holds, from a number of days or its last day, in UTC; None if that is blank."""
    if not text:
        return None
    if DATE.fullmatch(text):
        try:
            until = moment(f"{text}T23:59:59Z")
        except InvalidInput:
            raise InvalidInput(f"expires is {shown(text)}: there is no such day") from None
        if until <= moment(now()):
            raise InvalidInput(f"expires is {shown(text)}: today or a day to come")
        return timestamp(until)
    if not text.isascii() or not text.isdigit():
        raise InvalidInput(
            f"expires is {shown(text)}: days, such as 30, or the last day, such as 2030-12-31"
        )
    return in_days(whole_number(int(text[:9]), "expires", 1, MOST_DAYS))


def in_days(days: int) -> str:
    """The time so many days from now."""
    return timestamp(moment(now()) + timedelta(days=days))


@router.post("/campaigns/{campaign}/links/{link}")
def change_link(asked: Asking, link: str) -> Response:
    """A link no longer opens anything."""
    choice(asked.form.text("do"), "do", ("revoke",))
    if link not in asked.state.links:
        raise NotFound(f"there is no link {link[:40]!r}")
    revoke(asked, [link])
    return seen_again(home(asked.id, "/team#links"))


def revoke(asked: Asked, links: Sequence[str]) -> None:
    """Revoke those of these links that are not revoked already, which is what was wanted."""
    known = asked.state.links
    for link in links:
        if link in known and not known[link].revoked:
            service.revoke_link(asked.log, asked.id, part_of(asked.asker, link), link)


def part_of(asker: Asker, what: str) -> Asker:
    """One of several writes of a request, with a key of its own."""
    return asker if asker.key is None else asker._replace(key=f"{asker.key}-{what}")


@router.post("/campaigns/{campaign}/cards")
async def make_cards(request: Request, asked: Asking) -> Response:
    """The page after a form of cards: codes of a whole team are not in the way of what is quick."""
    return await sized(request, lambda: carded(request, asked), True)


def carded(request: Request, asked: Asked) -> Response:
    """New reporters' links for these agents, each for one, as cards to print, which show them this once; or some revoked."""
    form = asked.form
    if form.text("do") == "revoke":
        revoke(asked, form.texts("link"))
        return seen_again(home(asked.id, "/team#links"))
    with beside_fields() as errors:
        checked = Collected()
        days = checked.all("days", days_from, form, asked.state)
        at = checked.all("round", round_from, form, asked.state)
        going = checked.all("agents", going_from, form, asked.state, at)
        checked.end()
        return cards_page(request, asked, days or DAYS, at, going or [])
    return team_page(request, asked, Tried("cards", errors, form))


def days_from(form: Form, state: State) -> int:
    """How many days cards are to hold."""
    days = form.whole("days")
    return usual_days(state) if days is None else whole_number(days, "days", 1, MOST_DAYS)


def round_from(form: Form, state: State) -> PlannedRound | None:
    """The round that cards are for, if they are for one."""
    which = form.whole("round")
    return None if which is None else state.round(which)


def going_from(form: Form, state: State, at: PlannedRound | None) -> list[int]:
    """For whom cards are: those that are ticked, else all who are not retired, or still go somewhere in the round."""
    ticked = form.texts("agents")
    if not ticked and form.text("ticks"):  # somebody saw them, and ticked nobody
        raise InvalidInput("tick whom cards are for")
    going = sorted({state.agent(key) for key in ticked}) or [
        a
        for a, agent in enumerate(state.agents)
        if not agent.retired or (at is not None and at.arms_of(a))
    ]
    if len(going) > MOST_CARDS:
        raise InvalidInput(
            f"cards for {len(going):,} agents: at most {MOST_CARDS} at once; tick some, and then the others"
        )
    return going


def cards_page(
    request: Request, asked: Asked, days: int, at: PlannedRound | None, going: Sequence[int]
) -> Response:
    """The page of new cards, with whose earlier links still hold."""
    state = asked.state
    rows: dict[int, Sent] = {}
    if at is not None:
        planned = service.recorded_plan(asked.log, state, at)
        rows = {row.agent: row for row in plan_rows(state, planned, at)}
    expires = in_days(days)
    made = cards_of(asked, going, expires, at, rows)
    earlier = earlier_links(state, going, {card.link for card in made})
    names = dict.fromkeys(state.agents[link.agent or 0].name for link in earlier)
    return page(
        request,
        "cards.html",
        asked,
        here=home(asked.id),
        round=at,
        days=days,
        until=expires,
        cards=made,
        again=any(card.url is None for card in made),
        earlier=earlier,
        whose=list(names),
        base=asked.base,
        stays_here=stays_here(asked.base),
    )


def cards_of(
    asked: Asked,
    agents: Sequence[int],
    expires: str,
    at: PlannedRound | None,
    rows: Mapping[int, Sent],
) -> list[Card]:
    """A card for each of these agents, with a link that is new."""
    state = asked.state
    holders = [(state.agents[a].name, id_of("agent", a)) for a in agents]
    done, tokens = service.issue_links(*asked.where, holders, role="reporter", expires=expires)
    made = []
    for agent, (name, key), event, token in zip(agents, holders, done.events, tokens, strict=True):
        url = None if done.repeated else address(asked.base, token)
        code = None if url is None else qr(url)
        tests = 0 if at is None else tests_planned(state, agent, at)
        made.append(Card(key, name, event.body["link"], url, code, rows.get(agent), tests))
    return made


def earlier_links(state: State, agents: Sequence[int], new: set[str]) -> list[Link]:
    """The links with which these agents can still report, but for those that are new."""
    time = now()
    return [
        link
        for link in state.links.values()
        if link.agent in agents and link.id not in new and link.holds(time)
    ]
