"""Links: issued, shown again, revoked, and printed as cards with codes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from heterobandits.campaigns import responses_schema, serialization, service
from heterobandits.campaigns.amounts import planned_tests_of
from heterobandits.campaigns.events import utc_now
from heterobandits.campaigns.link_ends import default_last_day, parse_last_day
from heterobandits.campaigns.links import (
    find_token,
    issue_link,
    issue_links,
    living_links,
    revoke_some_links,
)
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import LINK_ROLES, Link, State, member_id
from heterobandits.campaigns.validation import (
    FieldErrors,
    parse_display_name,
)
from heterobandits.errors import InvalidInput, parse_choice
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
    ROLES_IN_WORDS,
    RefusedForm,
    errors_by_field,
    say_in_words,
    team_page,
)
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Context, RequestContext
from heterobandits.web.turns import admit_again, compute_by_size, compute_quick

CARDS_MAX_AGENTS = 200  # that are made at once: a second or more of drawing

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class LinkCard(NamedTuple):
    """An agent with a link; no code, if that cannot be shown again or nobody needs one. With a round, where the agent goes in it."""

    id: str
    name: str
    link: str
    url: str | None
    code: Markup | None
    row: PlanRow | None
    tests: int
    until: str | None = None
    again: bool = False


@router.post("/campaigns/{campaign}/links")
def submit_link(request: Request, asked: Context) -> Response:
    """A link for somebody, with its address."""
    form = asked.form
    with collect_field_errors(asked.state.words) as errors:
        checked = FieldErrors()
        agent = form.text("agent") or None
        role = checked.all("role", parse_choice, form.text("role"), "role", LINK_ROLES)
        name = checked.of("name", parse_display_name, form.text("name"))
        if agent is not None:
            checked.all("agent", asked.state.agent, agent)
        expires = checked.all("expires", parse_last_day, form.text("expires"))
        checked.end()
        done, token = issue_link(
            *asked.where, role=role or "", name=name or "", agent=agent, expires=expires
        )
        state = serialization.state_after(asked.log, done)
        link = state.links[done.events[0].body["link"]]
        known = find_token(asked.log, state, link) if done.repeated else token
        return link_page(request, asked, state, link, known)
    return team_page(request, asked, RefusedForm("link", errors_by_field(errors, "agent"), form))


@router.get("/campaigns/{campaign}/links/{link}")
async def show_link(request: Request, asked: Context, link: str) -> Response:
    """A link once more, for whoever has lost it, if its token can be made again."""
    known = find_link(asked.state, link)

    def draw() -> Response:
        holds = known.holds(utc_now())
        token = find_token(asked.log, asked.state, known) if holds else None
        return link_page(request, asked, asked.state, known, token)

    return await compute_quick(request, draw)


def find_link(state: State, link: str) -> Link:
    """The link that the path names."""
    if link not in state.links:
        raise NotFound(f"there is no link {link[:40]!r}")
    return state.links[link]


def link_page(
    request: Request, asked: RequestContext, state: State, known: Link, token: str | None
) -> Response:
    """The page that shows a link, and says whether it can be shown again."""
    link: responses_schema.LinkJson = serialization.json_of_link(state, known)
    url = None if token is None else address_of_link(asked.base, token)
    return render_page(
        request,
        "link.html",
        asked,
        here=page_path(asked.id),
        link=link,
        may=say_in_words(ROLES_IN_WORDS, state.words)[link["role"]],
        url=url,
        code=None if url is None else render_qr(url),
        again=token is not None and token == find_token(asked.log, state, known),
        holds=known.holds(utc_now()),
        base=asked.base,
        stays_here=is_unreachable_base(asked.base),
    )


@router.post("/campaigns/{campaign}/links/{link}")
def change_link(asked: Context, link: str) -> Response:
    """A link no longer opens anything."""
    parse_choice(asked.form.text("do"), "do", ("revoke",))
    revoke_links(asked, [find_link(asked.state, link).id])
    return see_other(page_path(asked.id, "/team#links"))


def revoke_links(asked: RequestContext, links: Sequence[str]) -> None:
    """Revoke those of these links that are still open."""
    revoke_some_links(*asked.where, [link for link in links if link in asked.state.links])


@router.post("/campaigns/{campaign}/cards")
async def make_cards(request: Request, asked: Context) -> Response:
    """The page after a form of cards: codes of a whole team are not in the way of what is quick."""
    answer = await compute_by_size(request, lambda: issue_cards(request, asked), True)
    await admit_again(request)  # there are codes in it, of links that hold
    return answer


def issue_cards(request: Request, asked: RequestContext) -> Response:
    """Reporters' links for these agents, each for one, as cards to print; those that hold already again, unless new ones are wanted.

    Or some are revoked.
    """
    form = asked.form
    if form.text("do") == "revoke":
        revoke_links(asked, form.texts("link"))
        return see_other(page_path(asked.id, "/team#links"))
    with collect_field_errors(asked.state.words) as errors:
        checked = FieldErrors()
        expires = checked.all("expires", parse_card_end, form, asked.state)
        at = checked.all("round", parse_card_round, form, asked.state)
        going = checked.all("agents", parse_card_agents, form, asked.state, at)
        checked.end()
        return cards_page(request, asked, expires, at, going or [])
    return team_page(request, asked, RefusedForm("cards", errors, form))


def parse_card_end(form: Form, state: State) -> str | None:
    """Until when new cards hold: as the form says, blank for ever; a form without the field, as that of a round, leaves it to the season."""
    return parse_last_day(form.text("expires", default_last_day(state)))


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
            f"cards for {len(going):,} {state.words.agents}: at most {CARDS_MAX_AGENTS} at once; tick some, and then the others"
        )
    return going


def cards_page(
    request: Request,
    asked: RequestContext,
    expires: str | None,
    at: PlannedRound | None,
    going: Sequence[int],
) -> Response:
    """The page of cards, with whose other links still hold."""
    state = asked.state
    rows: dict[int, PlanRow] = {}
    if at is not None:
        planned = service.recorded_plan(asked.log, state, at)
        rows = {row.agent: row for row in plan_rows(state, planned, at)}
    made = cards_of(asked, going, expires, at, rows)
    earlier = earlier_links_of(state, going, {card.link for card in made})
    names = dict.fromkeys(state.agents[link.agent or 0].name for link in earlier)
    return render_page(
        request,
        "cards.html",
        asked,
        here=page_path(asked.id),
        round=at,
        last_day="" if expires is None else expires[:10],
        cards=made,
        again=[card for card in made if card.again],
        lost=any(card.link and card.code is None for card in made),
        lack=asked.log.store.link_keys.lack,
        earlier=earlier,
        whose=list(names),
        base=asked.base,
        stays_here=is_unreachable_base(asked.base),
    )


def cards_of(
    asked: RequestContext,
    agents: Sequence[int],
    expires: str | None,
    at: PlannedRound | None,
    rows: Mapping[int, PlanRow],
) -> list[LinkCard]:
    """A card for each of these agents: with the link that holds, or else one that is made now. Who stays home in a round needs none."""
    state = asked.state
    living = {} if asked.form.text("do") == "new" else living_links(asked.log, state)
    sent = [a for a in agents if at is None or at.arms_of(a)]
    missing = [a for a in sent if a not in living]
    made = new_links_of(asked, missing, expires) if missing else {}
    cards = []
    for agent in agents:
        name, key = state.agents[agent].name, member_id("agent", agent)
        tests = 0 if at is None else planned_tests_of(state, agent, at)
        card = LinkCard(key, name, "", None, None, rows.get(agent), tests)
        if agent in sent:
            link, token = living[agent] if agent in living else made[agent]
            url = None if token is None else address_of_link(asked.base, token)
            code = None if url is None else render_qr(url)
            card = card._replace(
                link=link.id, url=url, code=code, until=link.expires, again=agent in living
            )
        cards.append(card)
    return cards


def new_links_of(
    asked: RequestContext, agents: Sequence[int], expires: str | None
) -> dict[int, tuple[Link, str | None]]:
    """A new link for each of these agents, with its token; without it, if it was made before and cannot be made again."""
    state = asked.state
    holders = [(state.agents[a].name, member_id("agent", a)) for a in agents]
    done, tokens = issue_links(*asked.where, holders, role="reporter", expires=expires)
    after = serialization.state_after(asked.log, done)
    links = [after.links[event.body["link"]] for event in done.events]
    known: Sequence[str | None] = tokens
    if done.repeated:
        known = [find_token(asked.log, after, link) for link in links]
    return {agent: (link, token) for agent, link, token in zip(agents, links, known, strict=True)}


def earlier_links_of(state: State, agents: Sequence[int], printed: set[str]) -> list[Link]:
    """The links with which these agents can still report, but for those that are printed."""
    time = utc_now()
    return [
        link
        for link in state.links.values()
        if link.agent in agents and link.id not in printed and link.holds(time)
    ]
