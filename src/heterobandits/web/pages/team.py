"""Who and what a campaign has, its settings, and its links, also as cards to print.

Every change is a form of its own. One that is refused is shown again, open, with what was typed and what is wrong beside each field.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from heterobandits.campaigns import responses_schema, serialization, service
from heterobandits.campaigns.amounts import tests_planned
from heterobandits.campaigns.analysis.answers import visits_of
from heterobandits.campaigns.audit.history_text import reports_text
from heterobandits.campaigns.events import now, timestamp
from heterobandits.campaigns.files.csv_tables import number_or_text, pasted_arms, trial
from heterobandits.campaigns.reducer import check_pairs
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import ROLES, Link, State, id_of, moment
from heterobandits.campaigns.storage.repository import Request as Asker
from heterobandits.campaigns.validation import (
    Collected,
    Reports,
    Wrong,
    agents_from,
    arms_from,
    called,
    policy_from,
)
from heterobandits.errors import InvalidInput, choice, delta_from, shown, whole_number
from heterobandits.policies.policy import CATALOGUE, forgetting
from heterobandits.web.api.links import address
from heterobandits.web.errors import NotFound
from heterobandits.web.pages.base import PageRoute, beside_fields, home, page, seen_again
from heterobandits.web.pages.plan import Sent, plan_rows
from heterobandits.web.pages.qr import qr, stays_here
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Asked, Asking
from heterobandits.web.turns import MUCH, beside, sized, write_in_turn

DAYS = 90  # that cards hold, if the season has no end
MOST_DAYS = 3650
MOST_CARDS = 200  # that are made at once: a second or more of drawing
MOST_LINKS = 30  # in a table, unless all are wanted
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
ROLES_IN_WORDS = {
    "owner": "everything",
    "planner": "plans, changes by hand, closes rounds",
    "reporter": "reports, for all agents or for one",
    "viewer": "looks; for the wall",
}
SINCE = {
    "now": "From now on: what was found before counts as it was reported then.",
    "always": "It was stated wrongly: everything is worked out anew.",
}
FIELDS = {other: one for one, other in service.CALIBRATED}  # a form has one field for both

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class Tried(NamedTuple):
    """A form that was refused: its name, what is wrong by field, and what was typed; of no name, if none was."""

    form: str = ""
    errors: Mapping[str, str] = MappingProxyType({})
    given: Form = Form(b"")

    def wrong(self, form: str) -> Mapping[str, str]:
        """What is wrong with a form."""
        return self.errors if form == self.form else {}

    def text(self, form: str, field: str, stands: str = "") -> str:
        """What a field shows: what was typed, else what stands."""
        return self.given.text(field) if form == self.form else stands


NOTHING = Tried()


class Member(NamedTuple):
    """An agent or arm in a table: how often it was tested or visited, and how an agent reports."""

    id: str
    name: str
    retired: bool
    times: int
    reports: Reports | None = None


class Card(NamedTuple):
    """An agent with its new link; none, if it was made for the same request before. With a round, where it goes in it."""

    id: str
    name: str
    link: str
    url: str | None
    code: Markup | None
    row: Sent | None
    tests: int


@router.get("/campaigns/{campaign}/team")
def show_team(
    request: Request, asked: Asking, agent: str | None = None, links: str | None = None
) -> Response:
    """The team, the arms, the links and the settings; or one agent, with all that can be changed of it."""
    if agent is not None:
        return agent_page(request, asked, asked.agent(agent))
    return team_page(request, asked, all_links=links == "all")


def team_page(
    request: Request, asked: Asked, tried: Tried = NOTHING, *, all_links: bool = False
) -> Response:
    """The page of the team; with a form that was refused."""
    state = asked.state
    moment_now = now()
    links = list(reversed(state.links.values()))
    holding = [link for link in links if link.holds(moment_now)]
    gone = [link for link in links if not link.holds(moment_now)]
    shown_links = (holding, gone) if all_links else (holding[:MOST_LINKS], gone[:MOST_LINKS])
    chosen = tried.given.texts("agents") if tried.form == "cards" else None
    return page(
        request,
        "team.html",
        asked,
        422 if tried.form else 200,
        tried=tried,
        here=home(state.campaign),
        agents=[agent_of(state, a) for a in range(len(state.agents))],
        arms=[
            Member(id_of("arm", n), arm.name, arm.retired, visits)
            for n, (arm, visits) in enumerate(zip(state.arms, visits_of(state), strict=True))
        ],
        holding=[serialization.link(state, link) for link in shown_links[0]],
        gone=[serialization.link(state, link) for link in shown_links[1]],
        more=len(links) - sum(map(len, shown_links)),
        chosen=chosen,
        days=usual_days(state),
        roles=ROLES_IN_WORDS,
        policies={name: one for name, one in CATALOGUE.items() if not one.simulated_only},
        forgetting=forgetting(),
    )


def agent_of(state: State, number: int) -> Member:
    """An agent, with the tests it made so far."""
    one = state.agents[number]
    rows = [i for i, row in enumerate(state.rows) if row.agent == number]
    tests = int(state.pulls[rows].sum())
    reports = state.rows[one.row].reports
    return Member(id_of("agent", number), one.name, one.retired, tests, reports)


def agent_page(request: Request, asked: Asked, number: int, tried: Tried = NOTHING) -> Response:
    """The page of one agent; with a form that was refused."""
    state = asked.state
    ways = [
        (row.since, reports_text(row.reports.body)) for row in state.rows if row.agent == number
    ]
    return page(
        request,
        "agent.html",
        asked,
        422 if tried.form else 200,
        tried=tried,
        here=home(state.campaign),
        agent=agent_of(state, number),
        ways=ways if len(ways) > 1 else [],
        since=SINCE,
    )


def reports_from_form(form: Form) -> dict[str, Any]:
    """How an agent reports, as a form has it: a number, or how many of how many a trial found; None for what is blank."""
    made: dict[str, Any] = {"tests": number_as_typed(form.text("tests"))}
    for one, other in service.CALIBRATED:
        found = trial(form.text(one))
        made |= {other: found} if isinstance(found, list) else {one: number_as_typed(found)}
    return made


def number_as_typed(text: str) -> Any:
    """A number as people type it, also with a decimal comma; the text if it is none, and None if it is blank."""
    return number_or_text(text.replace(",", ".")) if text else None


def of_form(_: str, field: str) -> str:
    """The field of a form that a field of an agent stands in."""
    return FIELDS.get(field, field)


@contextmanager
def under_form_names(check: Callable[[], object]) -> Iterator[None]:
    """Within, what is refused is said as this check says it, which knows the form: the service names places of its own."""
    try:
        yield
    except Wrong:
        check()
        raise


def errors_beside(errors: Mapping[str, str], field: str) -> dict[str, str]:
    """The errors of a form, with what belongs to no field beside this one."""
    return {place or field: message for place, message in errors.items()}


@router.post("/campaigns/{campaign}/agents")
def add_agent(request: Request, asked: Asking) -> Response:
    """A new agent, from the next round on."""
    given = {"name": asked.form.text("name"), **reports_from_form(asked.form)}

    def check() -> None:
        agents_from([given], asked.state.agent_names, lambda i: "", of_form)

    with beside_fields() as errors, under_form_names(check):
        service.add_agents(*asked.where, [given])
        return seen_again(home(asked.id, "/team#agents"))
    return team_page(request, asked, Tried("agent", errors, asked.form))


@router.post("/campaigns/{campaign}/agents/{agent}")
def submit_agent(request: Request, asked: Asking, agent: str) -> Response:
    """Another name, retired or back, or another way to report."""
    which = asked.agent(agent)
    key = id_of("agent", which)
    do = choice(asked.form.text("do"), "do", ("rename", "retire", "return", "revise"))
    with beside_fields() as errors:
        if do == "revise":
            revise_by_form(asked, key)
        else:
            change_entry(asked, "agent", key, do)
        return seen_again(home(asked.id, f"/team#{key}"))
    known = errors_beside(errors, "name") if do == "rename" else errors
    return agent_page(request, asked, which, Tried(do, known, asked.form))


def revise_by_form(asked: Asked, agent: str) -> None:
    """Another way to report, as a form says it."""
    reports, since = reports_from_form(asked.form), asked.form.text("since")
    checked = Collected()
    checked.all("since", choice, since, "since", tuple(SINCE))
    checked.all("", agents_from, [{"name": "agent", **reports}], (), lambda i: "", of_form)
    checked.end()
    service.revise(*asked.where, agent, reports, "always" if since == "always" else "now")


def change_entry(asked: Asked, kind: Literal["agent", "arm"], key: str, do: str) -> None:
    """Another name for an agent or arm, or it is retired, or back."""
    if do == "rename":
        service.rename(*asked.where, kind, key, asked.form.text("name"))
    else:
        (service.retire if do == "retire" else service.bring_back)(*asked.where, kind, key)


@router.post("/campaigns/{campaign}/arms")
async def submit_arms(request: Request, asked: Asking) -> Response:
    """New arms, a line for each, from the next round on."""
    with beside_fields() as errors:
        names = await sized(request, lambda: new_arms(asked), len(asked.body) > MUCH)
        await write_in_turn(request, add_new_arms, asked, names)
        return seen_again(home(asked.id, "/team#arms"))
    known = {"arms": "; ".join(errors.values())}
    return await beside(request, team_page, request, asked, Tried("arms", known, asked.form))


def new_arms(asked: Asked) -> list[str]:
    """The names that the form has, if a campaign of this size takes so many."""
    names = pasted_arms(asked.form.text("arms"))
    check_pairs(asked.state, arms=names)
    return names


def add_new_arms(asked: Asked, names: list[str]) -> None:
    """Record them; what is wrong is named by its line."""

    def check() -> None:
        arms_from(names, asked.state.arm_names, lambda i: f"name {i + 1}", lambda where, _: where)

    with under_form_names(check):
        service.add_arms(*asked.where, names)


@router.post("/campaigns/{campaign}/arms/{arm}")
def submit_arm(request: Request, asked: Asking, arm: str) -> Response:
    """Another name, or retired or back."""
    key = id_of("arm", asked.arm(arm))
    do = choice(asked.form.text("do"), "do", ("rename", "retire", "return"))
    with beside_fields() as errors:
        change_entry(asked, "arm", key, do)
        return seen_again(home(asked.id, f"/team#{key}"))
    known = errors_beside(errors, "name") if do == "rename" else errors
    return team_page(request, asked, Tried(key, known, asked.form))


@router.post("/campaigns/{campaign}/settings")
def change_settings(request: Request, asked: Asking) -> Response:
    """Another name, another season or another policy."""
    form = asked.form
    do = choice(form.text("do"), "do", ("name", "season", "policy"))
    with beside_fields() as errors:
        if do == "name":
            service.rename(*asked.where, "campaign", None, form.text("name"))
        elif do == "season":
            service.set_season(*asked.where, form.whole("season"))
        else:
            set_policy_by_form(asked, form)
        return seen_again(home(asked.id, "/team#settings"))
    return team_page(request, asked, Tried(do, errors_beside(errors, do), form))


def set_policy_by_form(asked: Asked, form: Form) -> None:
    """Another policy, as a form says it; what is blank stays as it is."""
    name, season = form.text("policy") or asked.state.policy.name, asked.state.season
    delta, memory = number_as_typed(form.text("delta")), number_as_typed(form.text("memory"))
    checked = Collected()
    if delta is not None:
        checked.all("delta", delta_from, delta)
    if checked.all("policy", policy_from, name, None, season) is not None:
        checked.all("memory", policy_from, name, None, season, memory)
    checked.end()
    service.set_policy(*asked.where, name, delta, memory)


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


def usual_days(state: State) -> int:
    """How many days cards hold unless somebody says otherwise: as many as the season has rounds."""
    return min(state.season or DAYS, MOST_DAYS)


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
