"""Who and what a campaign has, its settings, and its links.

Every change is a form of its own. One that is refused is shown again, open, with what was typed and what is wrong beside each field.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from fastapi import APIRouter, Query, Request, Response

from heterobandits.campaigns import serialization, service
from heterobandits.campaigns.analysis.estimates import count_visits_by_arm
from heterobandits.campaigns.audit.history_text import reports_text
from heterobandits.campaigns.events import utc_now
from heterobandits.campaigns.files.csv_tables import (
    parse_number_or_text,
    parse_pasted_arms,
    parse_rate_cell,
)
from heterobandits.campaigns.link_ends import default_last_day
from heterobandits.campaigns.links import find_tokens, revoke_some_links
from heterobandits.campaigns.reducer import check_pairs
from heterobandits.campaigns.state import Arm, Link, MemberKind, State, member_id
from heterobandits.campaigns.validation import (
    STATED_FEW_WORDS,
    FieldErrors,
    InvalidFields,
    NewArm,
    check_member_count,
    parse_agents,
    parse_arms,
    parse_on_change,
    parse_policy,
    parse_prior_kind,
)
from heterobandits.campaigns.words import WORD_KINDS, render_word, words_in_texts
from heterobandits.errors import InvalidInput, parse_choice, parse_delta
from heterobandits.model.prior import PriorKind, render_shape
from heterobandits.planner.roster import CALIBRATED_FIELDS, Reports
from heterobandits.planner.vocabulary import CampaignWords
from heterobandits.policies.policy import CATALOGUE, forgetting_policies
from heterobandits.web.pages.base import (
    PageRoute,
    collect_field_errors,
    page_path,
    render_page,
    see_other,
)
from heterobandits.web.pages.paging import ListPage, first_entry_in, page_of
from heterobandits.web.pages.policy_choice import plannable_policies, policy_groups
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Context, LaterAnswer, RequestContext
from heterobandits.web.turns import (
    LARGE_MIN_EVENTS,
    compute_by_size,
    compute_quick,
    lists_many,
    write_in_turn,
)

# in a table, unless all are wanted
TEAM_MAX_SHOWN_LINKS = 30
SURE_MIN_ROUNDS = 10_000  # of a season, from which on it is asked whether that is right
ROLES_IN_WORDS = {
    "owner": "everything",
    "planner": "plans, changes by hand, closes {rounds}",
    "reporter": "reports, for all {agents} or for one",
    "viewer": "looks; for the wall",
}
REVISION_TEXTS = {
    "now": "From now on: what was found before counts as it was reported then.",
    "always": "That was wrong from the beginning: everything is worked out anew.",
}
PRIORS_IN_WORDS: dict[PriorKind, str] = {
    "learned": "what all {arms} together make likely",
    "stated": "nothing: every mean is as likely",
}
Said = TypeVar("Said")
# a form has one field for both
FORM_FIELD_OF = {other: one for one, other in CALIBRATED_FIELDS}

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class RefusedForm(NamedTuple):
    """A form that was refused: its name, errors by field, and what was typed; without a name if there was none."""

    form: str = ""
    errors: Mapping[str, str] = MappingProxyType({})
    given: Form = Form(b"")

    def wrong(self, form: str) -> Mapping[str, str]:
        """What is wrong with a form."""
        return self.errors if form == self.form else {}

    def text(self, form: str, field: str, stands: str = "") -> str:
        """What a field shows: what was typed, else what stands."""
        return self.given.text(field) if form == self.form else stands


NOTHING_TRIED = RefusedForm()


class MemberRow(NamedTuple):
    """An agent or arm in a table: how often it was tested or visited, how an agent reports, and what is known of an arm beforehand."""

    id: str
    name: str
    retired: bool
    times: int
    reports: Reports | None = None
    prior: str = ""


@router.get("/campaigns/{campaign}/team")
async def show_team(
    request: Request,
    asked: Context,
    agent: str | None = None,
    whole: Annotated[Literal["links"] | None, Query(alias="all")] = None,
) -> Response:
    """The team, the arms, the links and the settings, the list of links perhaps `whole`; or one agent, with all that can be changed of it."""
    if agent is not None:
        return await compute_quick(request, agent_page, request, asked, asked.agent(agent))
    return await compute_by_size(
        request, lambda: render_team(request, asked, whole=whole), lists_many(asked.state)
    )


def team_page(request: Request, asked: RequestContext, tried: RefusedForm) -> Response:
    """The page of the team with a form that was refused."""
    return LaterAnswer(lambda: render_team(request, asked, tried), large=lists_many(asked.state))


def render_team(
    request: Request,
    asked: RequestContext,
    tried: RefusedForm = NOTHING_TRIED,
    whole: str | None = None,
) -> Response:
    """The page of the team."""
    state = asked.state
    moment_now = utc_now()
    links = list(reversed(state.links.values()))
    parted = (
        [link for link in links if link.holds(moment_now)],
        [link for link in links if not link.holds(moment_now)],
    )
    most = len(links) if whole == "links" else TEAM_MAX_SHOWN_LINKS
    uses, keys = asked.log.store.uses(state.campaign), asked.log.store.link_keys
    holding, gone = ([serialization.json_of_link(state, link, uses) for link in part[:most]] for part in parted)  # fmt: skip
    shown = find_tokens(asked.log, state, parted[0][:most]).keys()
    lists = {kind: page_of_members(kind, tried, asked.form, state) for kind in ("agent", "arm")}
    tests, visits = tests_by_agent(state), count_visits_by_arm(state)
    chosen = tried.given.texts("agents") if tried.form == "cards" else []
    everybody = [(member_id("agent", a), one) for a, one in enumerate(state.agents)]
    return render_page(
        request,
        "team.html",
        asked,
        422 if tried.form else 200,
        tried=tried,
        here=page_path(state.campaign),
        lists=lists,
        agents=[agent_row(state, a, tests[a]) for a in lists["agent"].entries],
        arms=[arm_row(state, n, visits[n]) for n in lists["arm"].entries],
        holding=holding,
        printable=shown,
        gone=gone,
        more={"links": len(links) - len(holding) - len(gone)},
        active=[(key, one.name) for key, one in everybody if not one.retired],
        carded=[(key, one.name) for key, one in everybody if not one.retired or key in chosen],
        chosen=chosen,
        last_day=default_last_day(state),
        key_warnings=[one for one in (keys.lack, keys.warning) if one],
        roles=say_in_words(ROLES_IN_WORDS, state.words),
        words={kind: render_word(state.words, kind) for kind in WORD_KINDS},
        priors=say_in_words(PRIORS_IN_WORDS, state.words),
        policies=policy_groups(
            tried.text("policy", "policy", state.policy.name), plannable_policies()
        ),
        policy_title=CATALOGUE[state.policy.name].title,
        forgetting=forgetting_policies(),
    )


def say_in_words(texts: Mapping[Said, str], words: CampaignWords) -> dict[Said, str]:
    """These texts in the words of a campaign."""
    return {key: text.format(**words.body) for key, text in texts.items()}


def page_of_members(
    kind: MemberKind, tried: RefusedForm, form: Form, state: State
) -> ListPage[int]:
    """The numbers of the agents or arms on the page that is asked for, or on that of the one whose form was refused."""
    numbers = range(len(state.agents if kind == "agent" else state.arms))
    wrong = next((n for n in numbers if member_id(kind, n) == tried.form), None)
    return page_of(numbers, first_entry_in(form, f"{kind}s") if wrong is None else wrong + 1)


def tests_by_agent(state: State) -> list[int]:
    """How many tests each agent made so far."""
    tests = [0] * len(state.agents)
    for row, made in zip(state.rows, state.pulls.sum(axis=1).tolist(), strict=True):
        tests[row.agent] += made
    return tests


def agent_row(state: State, number: int, tests: int) -> MemberRow:
    """An agent, with the tests it made so far."""
    one = state.agents[number]
    reports = state.rows[one.row].reports
    return MemberRow(member_id("agent", number), one.name, one.retired, tests, reports)


def arm_row(state: State, number: int, visits: int) -> MemberRow:
    """An arm, with the visits it had so far."""
    one = state.arms[number]
    return MemberRow(
        member_id("arm", number), one.name, one.retired, visits, prior=prior_of_arm(one)
    )


def prior_of_arm(arm: Arm) -> str:
    """What is known of an arm beforehand, as its form takes it; nothing if nothing is."""
    return "" if arm.prior is None else render_shape(arm.prior)


def agent_page(
    request: Request, asked: RequestContext, number: int, tried: RefusedForm = NOTHING_TRIED
) -> Response:
    """The page of one agent; with a form that was refused."""
    state = asked.state
    rows = [row for row in state.rows if row.agent == number]
    ways = [
        (row.since, reports_text(row.reports.body, state.words))
        for row, later in zip(rows, [*rows[1:], None], strict=True)
        if later is None or later.since > row.since  # or no round was held in between
    ]
    return render_page(
        request,
        "agent.html",
        asked,
        422 if tried.form else 200,
        tried=tried,
        here=page_path(state.campaign),
        agent=agent_row(state, number, tests_by_agent(state)[number]),
        links=links_of_agent(state, number),
        ways=ways if len(ways) > 1 else [],
        since=REVISION_TEXTS,
    )


def links_of_agent(state: State, number: int) -> list[Link]:
    """The links with which an agent can report."""
    moment = utc_now()
    return [link for link in state.links.values() if link.agent == number and link.holds(moment)]


def reports_from_form(form: Form) -> dict[str, Any]:
    """How an agent reports, as a form has it: a number, or how many of how many a trial found; None for what is blank."""
    made: dict[str, Any] = {"tests": parse_typed_number(form.text("tests"))}
    for one, other in CALIBRATED_FIELDS:
        found = parse_rate_cell(form.text(one)) if form.text(one) else None
        made |= {other: found} if isinstance(found, list) else {one: found}
    return made


def parse_typed_number(text: str) -> Any:
    """A number as people type it, also with a decimal comma; the text if it is none, and None if it is blank."""
    return parse_number_or_text(text.replace(",", ".")) if text else None


def field_of_form(_: str, field: str) -> str:
    """The field of a form that a field of an agent stands in."""
    return FORM_FIELD_OF.get(field, field)


@contextmanager
def rename_fields_within(check: Callable[[], object]) -> Iterator[None]:
    """Within this context, errors get the form's own field names; the service uses others."""
    try:
        yield
    except InvalidFields:
        check()
        raise


def errors_by_field(errors: Mapping[str, str], field: str) -> dict[str, str]:
    """The errors of a form by field; those without a field go beside this one."""
    return {place or field: message for place, message in errors.items()}


@router.post("/campaigns/{campaign}/agents")
def add_agent(request: Request, asked: Context) -> Response:
    """A new agent, from the next round on."""
    given = {"name": asked.form.text("name"), **reports_from_form(asked.form)}

    def check() -> None:
        parse_agents([given], asked.state.agent_names, lambda i: "", field_of_form)

    with collect_field_errors(asked.state.words) as errors, rename_fields_within(check):
        service.add_agents(*asked.where, [given])
        return see_other(page_path(asked.id, "/team#agents"))
    return team_page(request, asked, RefusedForm("agent", errors, asked.form))


@router.post("/campaigns/{campaign}/agents/{agent}")
def submit_agent(request: Request, asked: Context, agent: str) -> Response:
    """Another name, retired or back, or another way to report."""
    which = asked.agent(agent)
    key = member_id("agent", which)
    do = parse_choice(
        asked.form.text("do"), "do", ("rename", "retire", "return", "revise", "revoke")
    )
    with collect_field_errors(asked.state.words) as errors:
        if do == "revise":
            revise_by_form(asked, key)
        elif do == "revoke":
            revoke_some_links(
                *asked.where, [link.id for link in links_of_agent(asked.state, which)]
            )
        else:
            change_entry(asked, "agent", key, do)
        if do == "retire" and links_of_agent(asked.state, which):  # which still report
            return see_other(page_path(asked.id, f"/team?agent={key}"))
        return see_other(page_path(asked.id, f"/team#{key}"))
    known = errors_by_field(errors, "name") if do == "rename" else errors
    return agent_page(request, asked, which, RefusedForm(do, known, asked.form))


def revise_by_form(asked: RequestContext, agent: str) -> None:
    """Another way to report, as a form says it."""
    reports, since = reports_from_form(asked.form), asked.form.text("since")
    checked = FieldErrors()
    checked.all("since", parse_choice, since, "since", tuple(REVISION_TEXTS))
    checked.all("", parse_agents, [{"name": "agent", **reports}], (), lambda i: "", field_of_form)
    checked.end()
    service.revise(*asked.where, agent, reports, "always" if since == "always" else "now")


def change_entry(asked: RequestContext, kind: Literal["agent", "arm"], key: str, do: str) -> None:
    """Another name for an agent or arm, or it is retired, or back."""
    if do == "rename":
        service.rename(*asked.where, kind, key, asked.form.text("name"))
    else:
        (service.retire if do == "retire" else service.bring_back)(*asked.where, kind, key)


@router.post("/campaigns/{campaign}/arms")
async def submit_arms(request: Request, asked: Context) -> Response:
    """New arms, a line for each, from the next round on."""
    with collect_field_errors(asked.state.words) as errors:
        large = is_large_list(asked)
        names = await compute_by_size(request, lambda: new_arms(asked), large)
        await write_in_turn(request, add_new_arms, asked, names)
        return see_other(page_path(asked.id, "/team#arms"))
    known = {"arms": "; ".join(errors.values())}
    return team_page(request, asked, RefusedForm("arms", known, asked.form))


def is_large_list(asked: RequestContext) -> bool:
    """Whether a form has so many new arms, or may have so many priors in words, that to read them is in the way of what is quick."""
    first, *lines = asked.form.text("arms").splitlines() or [""]
    stated = len(lines) > STATED_FEW_WORDS and "prior" in first.lower()
    return stated or len(lines) > LARGE_MIN_EVENTS


def new_arms(asked: RequestContext) -> list[Any]:
    """The arms that the form has, if this campaign takes them; what was recorded before, writing it finds."""
    state, text = asked.state, asked.form.text("arms")
    try:
        names = parse_pasted_arms(text, state.arm_names)
        check_member_count("arm", names, len(state.arms))
        check_pairs(state, arms=names)
        return parse_form_arms(state, names)
    except InvalidInput:
        if asked.log.repeated(asked.id, asked.asker) is None:
            raise
        return parse_pasted_arms(text)


def parse_form_arms(state: State, names: list[Any]) -> list[NewArm]:
    """New arms; what is wrong is named by its line."""
    return parse_arms(names, state.arm_names, lambda i: f"name {i + 1}", lambda where, _: where)


def add_new_arms(asked: RequestContext, names: list[Any]) -> None:
    """Record them; what is wrong is named by its line."""

    with rename_fields_within(lambda: parse_form_arms(asked.state, names)):
        service.add_arms(*asked.where, names)


@router.post("/campaigns/{campaign}/arms/{arm}")
def submit_arm(request: Request, asked: Context, arm: str) -> Response:
    """Another name, or retired or back, or what is known of it beforehand."""
    number = asked.arm(arm)
    key = member_id("arm", number)
    do = parse_choice(asked.form.text("do"), "do", ("rename", "retire", "return", "believe"))
    with collect_field_errors(asked.state.words) as errors:
        if do == "believe":
            revise_arm_by_form(asked, number)
        else:
            change_entry(asked, "arm", key, do)
        return see_other(page_path(asked.id, f"/team#{key}"))
    known = errors_by_field(errors, {"rename": "name", "believe": "prior"}.get(do, ""))
    return team_page(request, asked, RefusedForm(key, known, asked.form))


@router.post("/campaigns/{campaign}/forgotten/{arm}")
def submit_forgotten(request: Request, asked: Context, arm: str) -> Response:
    """What was seen of an arm up to now counts no more, or again."""
    key = member_id("arm", asked.arm(arm))
    do = parse_choice(asked.form.text("do"), "do", ("forget", "remember"))
    (service.forget_arm if do == "forget" else service.remember_arm)(*asked.where, key)
    return see_other(page_path(asked.id, "#forgotten"))


def revise_arm_by_form(asked: RequestContext, number: int) -> None:
    """What is known of an arm beforehand, as a form says it; left as it stood it is not rounded."""
    text = asked.form.text("prior").strip()
    if text != prior_of_arm(asked.state.arms[number]):
        service.revise_arm(*asked.where, member_id("arm", number), text or None)


@router.post("/campaigns/{campaign}/settings")
def change_settings(request: Request, asked: Context) -> Response:
    """Another name, another season, other words, another prior or another policy; archived, or back."""
    form = asked.form
    do = parse_choice(
        form.text("do"),
        "do",
        ("name", "season", "words", "prior", "policy", "archive", "unarchive"),
    )
    with collect_field_errors(asked.state.words) as errors:
        if do == "name":
            service.rename(*asked.where, "campaign", None, form.text("name"))
        elif do == "season":
            set_season_by_form(asked, form)
        elif do == "words":
            choose_words_by_form(asked, form)
        elif do == "prior":
            service.set_prior(*asked.where, parse_prior_kind(form.text("prior")))
        elif do in ("archive", "unarchive"):
            (service.archive if do == "archive" else service.unarchive)(*asked.where)
        else:
            set_policy_by_form(asked, form)
        return see_other(page_path(asked.id, "/team#settings"))
    return team_page(request, asked, RefusedForm(do, errors_by_field(errors, do), form))


def set_season_by_form(asked: RequestContext, form: Form) -> None:
    """Another season, and the day on which it ends, as a form says it; a form without that field leaves it as it is."""
    ends = [form.text("ends") or None] if "ends" in form.fields else []
    rounds = form.whole("season")
    if rounds is not None and rounds >= SURE_MIN_ROUNDS and not form.text("sure"):
        raise InvalidFields(
            [
                (
                    "season",
                    f"{asked.state.words.count(rounds, 'round')} in the season: is that right?",
                )
            ]
        )
    service.set_season(*asked.where, rounds, *ends)


def choose_words_by_form(asked: RequestContext, form: Form) -> None:
    """Other words, as a form says them; the library's own where it is blank."""
    typed = {kind: form.text(f"{kind}_word") for kind in WORD_KINDS}
    try:
        service.choose_words(*asked.where, words_in_texts(typed))
    except InvalidFields as wrong:
        raise InvalidFields(
            [(word_field_of(place), text) for place, text in wrong.errors]
        ) from None


def word_field_of(place: str) -> str:
    """The field of a form for the word of which something is wrong."""
    return f"{place.removeprefix('words.').removesuffix('s')}_word"


def set_policy_by_form(asked: RequestContext, form: Form) -> None:
    """Another policy, as a form says it; what is blank stays as it is."""
    name, season = form.text("policy") or asked.state.policy.name, asked.state.season
    delta, memory = parse_typed_number(form.text("delta")), parse_typed_number(form.text("memory"))
    heeded: Any = form.text("on_change") or asked.state.on_change
    checked = FieldErrors()
    if delta is not None:
        checked.all("delta", parse_delta, delta)
    if checked.all("policy", parse_policy, name, None, season) is not None:
        checked.all("memory", parse_policy, name, None, season, memory)
    checked.all("on_change", parse_on_change, heeded)
    checked.end()
    service.set_policy(*asked.where, name, delta, memory, heeded)
