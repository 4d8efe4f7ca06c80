"""Routes of a campaign as a whole: made, listed, changed, noted, exported and imported."""

import re
import unicodedata
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from fastapi import Request as HttpRequest
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Send

from heterobandits.campaigns import responses_schema, serialization, service
from heterobandits.campaigns.audit.recovery import campaign_entries
from heterobandits.campaigns.events import OnShare, render_event_line
from heterobandits.campaigns.exchange import import_events
from heterobandits.campaigns.files.csv_tables import render_visits
from heterobandits.campaigns.reducer import check_pairs
from heterobandits.campaigns.state import State, member_id
from heterobandits.campaigns.storage.repository import Author, Repository, WriteResult
from heterobandits.campaigns.storage.store import Telling
from heterobandits.campaigns.validation import (
    STATED_FEW_WORDS,
    InvalidFields,
    NewArm,
    check_member_count,
    count_priors_in_words,
    parse_agents,
    parse_arms,
)
from heterobandits.errors import InvalidInput, repr_of
from heterobandits.planner.planner import check_size
from heterobandits.web.api import requests_schema
from heterobandits.web.api.base import ApiRoute, cache_headers, json_reply, parse_one_change
from heterobandits.web.auth import API_BASE, is_allowed
from heterobandits.web.requests import Context, LaterAnswer, RequestContext
from heterobandits.web.turns import (
    LARGE_MIN_EVENTS,
    LARGE_MIN_FORM_BYTES,
    LARGE_MIN_IMPORT_BYTES,
    compute_alone,
    compute_by_size,
    compute_for_state,
    compute_quick,
    lists_many,
    write_in_turn,
)

NDJSON_MEDIA_TYPE = "application/x-ndjson"
EVENTS_PAGE_MAX = 1000  # events that are read at once
EXPORT_TURN_EVENTS = 250  # events that are exported in one turn, at most
POLICY_FIELDS = ("policy", "delta", "memory", "on_change")
REPORT_FIELDS = tuple(requests_schema.ReportsBody.model_fields)

router = APIRouter(route_class=ApiRoute)


@router.get("/api/campaigns", response_model=responses_schema.EntriesJson)
def list_campaigns_route(asked: Context) -> Response:
    """All campaigns, the oldest first; what is wrong with one is in the way of no other."""
    return JSONResponse(serialization.json_of_entries(campaign_entries(asked.log)))


@router.post("/api/campaigns", response_model=responses_schema.CampaignJson, status_code=201)
async def create_campaign_route(
    request: HttpRequest, asked: Context, body: requests_schema.CampaignBody
) -> Response:
    """A new campaign, whose body is checked before others wait."""
    make = partial(service.body_of_creation, **dict(body))
    checked = await compute_by_size(request, make, len(asked.body) > LARGE_MIN_FORM_BYTES)
    done = await write_in_turn(request, service.begin_campaign, asked.log, asked.asker, checked)
    return LaterAnswer(
        lambda: campaign_json(serialization.state_after(asked.log, done), 201),
        large=lists_many(done.state),
    )


def campaign_reply(state: State) -> Response:
    """A campaign that was written, as JSON: of a large one it takes a while, in which others may write."""
    return LaterAnswer(lambda: campaign_json(state), large=lists_many(state))


def campaign_json(state: State, status: int = 200) -> Response:
    """A campaign as JSON."""
    return json_reply(state, serialization.campaign(state), status)


@router.post(
    "/api/campaigns/import",
    response_model=responses_schema.CampaignJson,
    status_code=201,
    responses={
        200: {"model": responses_schema.CampaignJson, "description": "Everything was there already"}
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {NDJSON_MEDIA_TYPE: {"schema": {"type": "string"}}},
        }
    },
)
async def import_campaign_route(
    request: HttpRequest,
    asked: Context,
    keep_links: Annotated[bool, Query(description="Let the links of the file open here")] = False,
) -> Response:
    """A campaign that was exported, with the same events; one that is here already goes on from where it stands.

    The links that come with it are revoked here, unless they are kept: whoever wrote the file knows their tokens.
    """

    if len(asked.body) > LARGE_MIN_IMPORT_BYTES:
        return await compute_alone(request, lambda tell: import_body(asked, keep_links, tell))
    return await write_in_turn(request, import_body, asked, keep_links)


def import_body(
    asked: RequestContext, keep_links: bool, tell: OnShare = lambda share: None
) -> Response:
    """The campaign whose events the body has, in the store."""
    try:
        text = asked.body.decode()
    except UnicodeDecodeError:
        raise InvalidInput(
            "the body is not UTF-8: a file of events, a line of JSON for each"
        ) from None
    done = import_events(asked.log, asked.asker, text, keep_links=keep_links, tell=tell)
    state = serialization.state_after(asked.log, done)
    return campaign_json(state, 201 if done.events else 200)


@router.get("/api/campaigns/{campaign}", response_model=responses_schema.CampaignJson)
async def read_campaign_route(request: HttpRequest, asked: Context) -> Response:
    """A campaign: its agents, arms, policy and season, and which rounds wait."""
    state = asked.state
    return await compute_by_size(request, lambda: campaign_json(state), lists_many(state))


@router.patch("/api/campaigns/{campaign}", response_model=responses_schema.CampaignJson)
def change_campaign_route(asked: Context, body: requests_schema.CampaignChange) -> Response:
    """Another name, another policy (with delta, memory and on_change), another season, prior or words, archived or back: one at a time."""
    given = body.model_fields_set - {name for name in POLICY_FIELDS if getattr(body, name) is None}
    kind = parse_one_change(
        given, ("name",), POLICY_FIELDS, ("season", "ends"), ("prior",), ("archived",), ("words",)
    )
    where = asked.where
    if kind == ("name",):
        done = service.rename(*where, "campaign", None, body.name)
    elif kind == ("season", "ends"):
        season = body.season if "season" in given else asked.state.season
        ends = [body.ends] if "ends" in given else []
        done = service.set_season(*where, season, *ends)
    elif kind == ("prior",):
        done = service.set_prior(*where, body.prior)
    elif kind == ("words",):
        done = service.choose_words(*where, body.words)
    elif kind == ("archived",):
        done = (service.archive if body.archived else service.unarchive)(*where)
    else:
        done = service.set_policy(*where, *(getattr(body, field) for field in POLICY_FIELDS))
    return campaign_reply(serialization.state_after(asked.log, done))


@router.post("/api/campaigns/{campaign}/undo", response_model=responses_schema.EventsJson)
def undo_route(asked: Context, body: requests_schema.UndoBody) -> Response:
    """What was done last is taken back, with all that was written with it, by whoever did it and for ten minutes."""
    done = service.undo(*asked.where, body.event)
    state = serialization.state_after(asked.log, done)
    events = serialization.json_of_events(done.events)
    return json_reply(state, {"events": events, "last": state.number})


@router.post(
    "/api/campaigns/{campaign}/agents", response_model=responses_schema.AgentsJson, status_code=201
)
async def add_agents_route(
    request: HttpRequest, asked: Context, body: requests_schema.AgentsBody
) -> Response:
    """New agents, from the next round on."""
    large = len(body.agents) > LARGE_MIN_EVENTS
    await compute_by_size(
        request, lambda: parse_new_members(asked, check_body_agents, body.agents), large
    )
    done = await write_in_turn(request, service.add_agents, *asked.where, body.agents)
    return await compute_by_size(request, lambda: agents_response(asked, done), large)


def parse_new_members(
    asked: RequestContext, check: Callable[[State, list[Any]], list[Any]], given: list[Any]
) -> list[Any]:
    """What a check of new members makes of them; what is given, if it was carried out before, which writing it finds."""
    try:
        return check(asked.state, given)
    except InvalidInput:
        if asked.log.repeated(asked.id, asked.asker) is None:
            raise
        return given


def check_body_agents(state: State, agents: list[Any]) -> list[Any]:
    """Refuse what this campaign does not take before others wait for it to be written."""
    check_member_count("agent", agents, len(state.agents))
    check_pairs(state, agents=agents)
    new = parse_agents(agents, state.agent_names)
    going = sum(not agent.retired for agent in state.agents) + len(new)
    check_size(going, sum(not arm.retired for arm in state.arms))
    return agents


def agents_response(asked: RequestContext, done: WriteResult) -> Response:
    """The new agents."""
    state = serialization.state_after(asked.log, done)
    new = range(len(state.agents))[-len(done.events[0].body["agents"]) :]
    return json_reply(state, {"agents": [serialization.json_of_agent(state, a) for a in new]}, 201)


@router.patch(
    "/api/campaigns/{campaign}/agents/{agent:path}", response_model=responses_schema.AgentJson
)
def change_agent_route(asked: Context, agent: str, body: requests_schema.AgentChange) -> Response:
    """Another name, retired or back, or another way to report since now or always: one at a time."""
    number = asked.agent(agent)
    key = member_id("agent", number)
    given = body.model_fields_set
    where = asked.where
    kind = parse_one_change(given, ("name",), ("retired",), (*REPORT_FIELDS, "since"))
    if kind == ("name",):
        done = service.rename(*where, "agent", key, body.name)
    elif kind == ("retired",):
        done = (service.retire if body.retired else service.bring_back)(*where, "agent", key)
    else:
        reports = body.model_dump(include=given & set(REPORT_FIELDS))
        if not reports:
            raise InvalidInput(
                f"since is {repr_of(body.since)}: say what is so since then, as well"
            )
        done = revise_by_body(where, key, reports, body.since)
    state = serialization.state_after(asked.log, done)
    return json_reply(state, serialization.json_of_agent(state, number))


def revise_by_body(
    where: tuple[Repository, str, Author], agent: str, reports: dict[str, Any], since: Any
) -> WriteResult:
    """What was written for another way to report; what is wrong is named as the body has it."""
    try:
        return service.revise(*where, agent, reports, since)
    except InvalidFields as wrong:
        own = [[text.removeprefix("reports.") for text in error] for error in wrong.errors]
        raise InvalidFields([(place, message) for place, message in own]) from None


@router.post(
    "/api/campaigns/{campaign}/arms", response_model=responses_schema.ArmsJson, status_code=201
)
async def add_arms_route(
    request: HttpRequest, asked: Context, body: requests_schema.ArmsBody
) -> Response:
    """New arms, from the next round on."""
    large = len(body.arms) > LARGE_MIN_EVENTS
    large = large or count_priors_in_words(body.arms) > STATED_FEW_WORDS
    arms = await compute_by_size(
        request, lambda: parse_new_members(asked, parse_body_arms, body.arms), large
    )
    done = await write_in_turn(request, service.add_arms, *asked.where, arms)
    return await compute_by_size(request, lambda: arms_response(asked, done), large)


def parse_body_arms(state: State, arms: list[Any]) -> list[NewArm]:
    """The arms, if this campaign takes them: with what is said of their means in words worked out, before others wait."""
    check_member_count("arm", arms, len(state.arms))
    check_pairs(state, arms=arms)
    return parse_arms(arms, state.arm_names)


def arms_response(asked: RequestContext, done: WriteResult) -> Response:
    """The new arms."""
    state = serialization.state_after(asked.log, done)
    new = range(len(state.arms))[-len(done.events[0].body["arms"]) :]
    return json_reply(state, {"arms": [serialization.json_of_arm(state, n) for n in new]}, 201)


@router.patch("/api/campaigns/{campaign}/arms/{arm:path}", response_model=responses_schema.ArmJson)
def change_arm_route(asked: Context, arm: str, body: requests_schema.ArmChange) -> Response:
    """Another name, retired or back, or what is known of its mean beforehand: one at a time."""
    number = asked.arm(arm)
    key = member_id("arm", number)
    where = asked.where
    done: WriteResult
    kind = parse_one_change(body.model_fields_set, ("name",), ("retired",), ("prior",))
    if kind == ("name",):
        done = service.rename(*where, "arm", key, body.name)
    elif kind == ("prior",):
        done = service.revise_arm(*where, key, body.prior)
    else:
        done = (service.retire if body.retired else service.bring_back)(*where, "arm", key)
    state = serialization.state_after(asked.log, done)
    return json_reply(state, serialization.json_of_arm(state, number))


@router.put(
    "/api/campaigns/{campaign}/forgotten/{arm:path}", response_model=responses_schema.ArmJson
)
def forget_arm_route(asked: Context, arm: str) -> Response:
    """What was seen of an arm up to the last round that was planned no longer counts: it has changed."""
    return forgotten_response(asked, asked.arm(arm), service.forget_arm)


@router.delete(
    "/api/campaigns/{campaign}/forgotten/{arm:path}", response_model=responses_schema.ArmJson
)
def remember_arm_route(asked: Context, arm: str) -> Response:
    """That an arm was forgotten is taken back, the last time that it was."""
    return forgotten_response(asked, asked.arm(arm), service.remember_arm)


def forgotten_response(
    asked: RequestContext, number: int, change: Callable[..., WriteResult]
) -> Response:
    """An arm after it was forgotten or remembered."""
    state = serialization.state_after(asked.log, change(*asked.where, member_id("arm", number)))
    return json_reply(state, serialization.json_of_arm(state, number))


@router.post(
    "/api/campaigns/{campaign}/notes", response_model=responses_schema.NoteJson, status_code=201
)
def add_note_route(asked: Context, body: requests_schema.NoteBody) -> Response:
    """A note for those who read the history."""
    done = service.add_note(*asked.where, body.text, body.round)
    (event,) = done.events
    return json_reply(
        serialization.state_after(asked.log, done), serialization.json_of_note(event), 201
    )


@router.get("/api/campaigns/{campaign}/events", response_model=responses_schema.EventsJson)
async def read_events_route(
    request: HttpRequest,
    asked: Context,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=EVENTS_PAGE_MAX)] = EVENTS_PAGE_MAX,
) -> Response:
    """The events after a number, in order, so many at most; fewer if they are large, but one at least."""
    state, last = asked.state, asked.state.number
    upto = min(after + limit, last)

    def read() -> Response:
        found = service.history_part(asked.log, state.campaign, after, upto)
        return json_reply(state, {"events": serialization.json_of_events(found), "last": last})

    return await compute_for_state(request, state, read, upto - after)


@router.get(
    "/api/campaigns/{campaign}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON_MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
async def export_campaign_route(request: HttpRequest, asked: Context) -> Response:
    """All events, a line of JSON for each: what `import` takes."""
    name = f'attachment; filename="{asked.id}.ndjson"'
    return ExportResponse(
        stream_export(request, asked.log, asked.state),
        headers=cache_headers(asked.state) | {"Content-Disposition": name},
    )


class ExportResponse(StreamingResponse):
    """An export. If it cannot go on, it breaks off without an end, so that nobody takes a part for the whole."""

    media_type = NDJSON_MEDIA_TYPE

    async def stream_response(self, send: Send) -> None:
        """Send the parts; it is too late to say why there are no more."""
        with suppress(InvalidInput, HTTPException):
            await super().stream_response(send)


async def stream_export(request: HttpRequest, log: Repository, state: State) -> AsyncIterator[str]:
    """All lines of a campaign as it stood, some at a time: a long season need not be held in memory, and others have their turn."""
    after = 0
    while after < state.number:
        text, after = await compute_quick(request, render_event_lines, log, state, after)
        yield text


def render_event_lines(log: Repository, state: State, after: int) -> tuple[str, int]:
    """The first events after a number, a line of JSON for each, and the number of the last of them."""
    upto = min(after + EXPORT_TURN_EVENTS, state.number)
    found = service.history_part(log, state.campaign, after, upto)
    if not found:
        raise InvalidInput(f"event {after + 1} is gone: an older copy of the database was put back")
    return "".join(f"{render_event_line(event)}\n" for event in found), found[-1].number


@router.get(
    "/api/campaigns/{campaign}/visits.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def read_visits_route(
    request: HttpRequest, asked: Context, separator: Literal[",", ";"] = ","
) -> Response:
    """All visits for a spreadsheet; with semicolons numbers have a decimal comma."""
    state = asked.state
    more = cache_headers(state) | {"Content-Disposition": disposition_of_file(state, "visits.csv")}
    text = await compute_for_state(
        request, state, lambda: render_visits(state, tellings_of(asked), separator), state.number
    )
    return Response(text, headers=more, media_type="text/csv; charset=utf-8")


def tellings_of(asked: RequestContext) -> dict[int, Telling]:
    """Who reported what, and when, for whoever may read the log."""
    if not is_allowed(asked.caller.role, "GET", f"{API_BASE}/events"):
        return {}
    return asked.log.store.tellings(asked.id, ("reported", "corrected"))


def disposition_of_file(state: State, name: str) -> str:
    """A header by which a browser saves a file under the campaign's name, and an old one under what of it is ASCII."""
    words = " ".join(re.sub(r'[\\/:*?"<>|\s]+', " ", state.name).split()).strip(". ")
    whole = f"{words or state.campaign} {name}"
    bare = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^\w .-]+", "", bare, flags=re.ASCII).strip(". ") or state.campaign
    return f"attachment; filename=\"{plain} {name}\"; filename*=UTF-8''{quote(whole, safe='')}"
