"""What happened and that it is whole: the history, the audit, and files to take away."""

from collections import OrderedDict
from threading import Lock
from typing import Literal, NamedTuple
from weakref import WeakValueDictionary

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns import service
from heterobandits.campaigns.audit.history_text import (
    EventNarrator,
    EventText,
    is_about,
    narrate_events,
)
from heterobandits.campaigns.audit.report import render_audit
from heterobandits.campaigns.events import Event, OnShare
from heterobandits.campaigns.files.csv_tables import render_visits
from heterobandits.campaigns.state import State, member_id
from heterobandits.campaigns.storage.repository import Repository
from heterobandits.campaigns.validation import FieldErrors, parse_note
from heterobandits.web.api.campaigns import (
    ExportResponse,
    disposition_of_file,
    stream_export,
    tellings_of,
)
from heterobandits.web.pages.base import (
    PAGE_HEADERS,
    PageRoute,
    collect_field_errors,
    page_path,
    render_page,
    see_other,
    select_options,
)
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Context, RequestContext
from heterobandits.web.turns import compute_alone, compute_for_state, compute_quick, write_in_turn

HISTORY_PAGE_EVENTS = 100  # events on a page
# events whose words are at hand, but for those of the campaign told last
CHRONICLES_MAX_EVENTS = 20_000
AUDIT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox"
)


router = APIRouter(route_class=PageRoute, include_in_schema=False)


class Chronicles:
    """Events in words, with those at hand that somebody has looked at.

    They are told from the first on, as words need what was before: the names of that time, and what a correction corrects.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[EventNarrator, list[EventText]]] = OrderedDict()
        self._telling: WeakValueDictionary[str, Lock] = WeakValueDictionary()  # one at a time
        self._lock = Lock()

    def told(self, log: Repository, state: State) -> list[EventText]:
        """All events of a campaign as it stood, each with its words."""
        with self._lock:
            telling = self._telling.setdefault(state.campaign, Lock())
        with telling:
            with self._lock:
                begun: tuple[EventNarrator, list[EventText]] = (
                    EventNarrator(words=state.words),
                    [],
                )
                story, known = self._kept.pop(state.campaign, begun)
            if story.words != state.words:
                story, known = begun
            new = service.history(log, state.campaign, len(known), state.number)
            if not is_continuation(
                known, new, state
            ):  # it was taken from elsewhere, where it went another way
                story, known = EventNarrator(words=state.words), []
                new = service.history(log, state.campaign, 0, state.number)
            known += narrate_events(new, story)
            with self._lock:
                self._kept[state.campaign] = (story, known)
                while len(self._kept) > 1 and self._count() > CHRONICLES_MAX_EVENTS:
                    self._kept.popitem(last=False)
            return known[: state.number]

    def _count(self) -> int:
        return sum(len(each) for _, each in self._kept.values())


def is_continuation(known: list[EventText], new: list[Event], state: State) -> bool:
    """Whether events continue the known ones up to this state."""
    if new:
        return not known or new[0].previous == known[-1].event.hash
    return known[state.number - 1].event.hash == state.hash


class EventFilter(NamedTuple):
    """Which events to show: of this round, about this agent, before this number; None is any."""

    round: int | None = None
    agent: int | None = None
    before: int | None = None


class EventsPage(NamedTuple):
    """Events for a page, the last first, and before which number the pages beside it begin; 0 is the first page."""

    events: list[EventText]
    older: int | None = None
    newer: int | None = None


@router.get("/campaigns/{campaign}/history")
async def read_history(request: Request, asked: Context) -> Response:
    """What happened, the last first."""
    form = asked.form
    wanted, seen = EventFilter(), EventsPage([])
    with collect_field_errors(asked.state.words) as errors:
        wanted = await compute_quick(request, filter_of, asked.state, form)
        seen = await search_events(request, asked, wanted)
    return render_history(request, asked, form, wanted, seen, errors)


async def search_events(request: Request, asked: RequestContext, wanted: EventFilter) -> EventsPage:
    """Search all events for what is wanted."""
    state = asked.state
    return await compute_for_state(
        request,
        state,
        lambda: event_page(asked, wanted, request.app.state.chronicles),
        state.number,
    )


def filter_of(state: State, form: Form) -> EventFilter:
    """What the query asks for; refuses rounds and agents that are not there."""
    errors = FieldErrors()
    number = errors.all("round", form.whole, "round")
    if number is not None:
        errors.of("round", lambda value, _: state.round(value), number)
    name = form.text("agent")
    agent = errors.of("agent", lambda key, _: state.agent(key), name) if name else None
    before = errors.of("", lambda _: form.whole("before"))
    errors.end()
    return EventFilter(number, agent, before)


def event_page(asked: RequestContext, wanted: EventFilter, chronicles: Chronicles) -> EventsPage:
    """The page of events that is asked for."""
    state = asked.state
    agent = None if wanted.agent is None else member_id("agent", wanted.agent)
    everything = chronicles.told(asked.log, state)
    fitting = [one for one in everything if is_about(one, wanted.round, agent)]
    before = state.number + 1 if wanted.before is None else wanted.before
    end = sum(one.event.number < before for one in fitting)
    begin = max(0, end - HISTORY_PAGE_EVENTS)
    newer = None
    if end < len(fitting):
        following = end + HISTORY_PAGE_EVENTS
        newer = fitting[following].event.number if following < len(fitting) else 0
    older = fitting[begin].event.number if begin else None
    return EventsPage(fitting[begin:end][::-1], older, newer)


def render_history(
    request: Request,
    asked: RequestContext,
    form: Form,
    wanted: EventFilter,
    seen: EventsPage,
    errors: dict[str, str],
    wrong: dict[str, str] | None = None,
) -> Response:
    """The page with these events; `errors` are of the filter, `wrong` of the note, which `form` then has."""
    state = asked.state
    agents = [(member_id("agent", i), name) for i, name in enumerate(state.agent_names)]
    key = "" if wanted.agent is None else member_id("agent", wanted.agent)
    return render_page(
        request,
        "history.html",
        asked,
        422 if errors or wrong else 200,
        events=seen.events,
        older=seen.older,
        newer=seen.newer,
        round=form.text("round") if wrong is None else "",
        agent=key,
        agents=select_options([("", "anybody"), *agents], key),
        errors=errors,
        wrong=wrong or {},
        note=form.text("text") if wrong is not None else "",
        note_round=form.text("round") if wrong is not None else "",
        home=page_path(state.campaign),
    )


@router.post("/campaigns/{campaign}/notes")
async def submit_note(request: Request, asked: Context) -> Response:
    """A note for those who read the history."""
    form = asked.form
    with collect_field_errors(asked.state.words) as wrong:
        errors = FieldErrors()
        text = errors.of("text", lambda value, _: parse_note(value, "the note"), form.text("text"))
        number = errors.all("round", form.whole, "round")
        if number is not None:
            errors.of("round", lambda value, _: asked.state.round(value), number)
        errors.end()
        await write_in_turn(request, service.add_note, *asked.where, text or "", number)
    if not wrong:
        return see_other(page_path(asked.id, "/history"))
    seen = await search_events(request, asked, EventFilter())
    return render_history(request, asked, form, EventFilter(), seen, {}, wrong)


@router.get("/campaigns/{campaign}/audit.html")
async def read_audit(request: Request, asked: Context) -> Response:
    """The audit, to be kept."""
    state = asked.state

    def make(tell: OnShare) -> str:
        return render_audit(service.history(asked.log, state.campaign, 0, state.number), tell)

    text = await compute_alone(request, make)
    more = attachment_headers(state, "audit.html") | {
        "Content-Security-Policy": AUDIT_SECURITY_POLICY
    }
    return Response(text, headers=more, media_type="text/html; charset=utf-8")


@router.get("/campaigns/{campaign}/events.ndjson")
async def show_events(request: Request, asked: Context) -> Response:
    """All events, a line of JSON for each: what `campaign import` takes."""
    return ExportResponse(
        stream_export(request, asked.log, asked.state),
        headers=attachment_headers(asked.state, "events.ndjson"),
    )


@router.get("/campaigns/{campaign}/visits.csv")
async def show_visits(
    request: Request, asked: Context, separator: Literal[",", ";"] = ","
) -> Response:
    """All visits for a spreadsheet, which without a mark would guess at the letters; with semicolons for one that wants these."""
    state = asked.state
    text = await compute_for_state(
        request, state, lambda: render_visits(state, tellings_of(asked), separator), state.number
    )
    return Response(
        text.encode("utf-8-sig"),
        headers=attachment_headers(asked.state, "visits.csv"),
        media_type="text/csv; charset=utf-8",
    )


def attachment_headers(state: State, name: str) -> dict[str, str]:
    """Headers that make a browser save a file under this name."""
    return PAGE_HEADERS | {"Content-Disposition": disposition_of_file(state, name)}
