"""Who and what a campaign has, its settings, and its links.

Every change is a form of its own. One that is refused is shown again, open, with what was typed and what is wrong beside each field.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns import serialization, service
from heterobandits.campaigns.analysis.answers import visits_of
from heterobandits.campaigns.audit.history_text import reports_text
from heterobandits.campaigns.events import now
from heterobandits.campaigns.files.csv_tables import number_or_text, pasted_arms, trial
from heterobandits.campaigns.reducer import check_pairs
from heterobandits.campaigns.state import State, id_of
from heterobandits.campaigns.validation import (
    Collected,
    Reports,
    Wrong,
    agents_from,
    arms_from,
    policy_from,
)
from heterobandits.errors import choice, delta_from
from heterobandits.policies.policy import CATALOGUE, forgetting
from heterobandits.web.pages.base import PageRoute, beside_fields, home, page, seen_again
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Asked, Asking
from heterobandits.web.turns import MUCH, beside, sized, write_in_turn

DAYS = 90  # that cards hold, if the season has no end
MOST_DAYS = 3650
MOST_LINKS = 30  # in a table, unless all are wanted
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


def usual_days(state: State) -> int:
    """How many days cards hold unless somebody says otherwise: as many as the season has rounds."""
    return min(state.season or DAYS, MOST_DAYS)
