"""What happened and that it is whole: the history, the audit, and files to take away."""

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple
from weakref import WeakValueDictionary

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from heterobandits.campaigns import service
from heterobandits.campaigns.audit.history_text import EventText, Story, concerns, tell_events
from heterobandits.campaigns.audit.report import audit
from heterobandits.campaigns.events import Event
from heterobandits.campaigns.files.csv_tables import visits_csv
from heterobandits.campaigns.state import State, id_of
from heterobandits.campaigns.storage.repository import Log
from heterobandits.campaigns.validation import Collected, text_from
from heterobandits.web.api.campaigns import NDJSON, exported
from heterobandits.web.pages.base import (
    PRIVATE,
    PageRoute,
    beside_fields,
    home,
    options_of,
    page,
    seen_again,
)
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Asked, Asking
from heterobandits.web.turns import Tell, alone, beside, computed, write_in_turn

AT_ONCE = 100  # events on a page
MOST_KEPT = 20_000  # events whose words are at hand, but for those of the campaign told last
OWN_STYLE = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox"
)


router = APIRouter(route_class=PageRoute, include_in_schema=False)


class Chronicles:
    """Events in words, with those at hand that somebody has looked at.

    They are told from the first on, as words need what was before: the names of that time, and what a correction corrects.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Story, list[EventText]]] = OrderedDict()
        self._telling: WeakValueDictionary[str, Lock] = WeakValueDictionary()  # one at a time
        self._lock = Lock()

    def told(self, log: Log, state: State) -> list[EventText]:
        """All events of a campaign as it stood, each with its words."""
        with self._lock:
            telling = self._telling.setdefault(state.campaign, Lock())
        with telling:
            with self._lock:
                story, known = self._kept.pop(state.campaign, (Story(), []))
            new = service.history(log, state.campaign, len(known), state.number)
            if not follows(
                known, new, state
            ):  # it was taken from elsewhere, where it went another way
                story, known = Story(), []
                new = service.history(log, state.campaign, 0, state.number)
            known += tell_events(new, story)
            with self._lock:
                self._kept[state.campaign] = (story, known)
                while len(self._kept) > 1 and self._count() > MOST_KEPT:
                    self._kept.popitem(last=False)
            return known[: state.number]

    def _count(self) -> int:
        return sum(len(each) for _, each in self._kept.values())


def follows(known: list[EventText], new: list[Event], state: State) -> bool:
    """Whether events follow on those known, up to this state."""
    if new:
        return not known or new[0].previous == known[-1].event.hash
    return known[state.number - 1].event.hash == state.hash


class Filter(NamedTuple):
    """Which events are asked for: of this round, about this agent, before this number; None is any."""

    round: int | None = None
    agent: int | None = None
    before: int | None = None


class Shown(NamedTuple):
    """Events for a page, the last first, and before which number the pages beside it begin; 0 is the first page."""

    events: list[EventText]
    older: int | None = None
    newer: int | None = None


@router.get("/campaigns/{campaign}/history")
async def read_history(request: Request, asked: Asking) -> Response:
    """What happened, the last first."""
    form = asked.form
    wanted, seen = Filter(), Shown([])
    with beside_fields() as errors:
        wanted = await beside(request, filter_of, asked.state, form)
        seen = await looked(request, asked, wanted)
    return render_history(request, asked, form, wanted, seen, errors)


async def looked(request: Request, asked: Asked, wanted: Filter) -> Shown:
    """What a look at all events finds."""
    state = asked.state
    return await computed(
        request,
        state,
        lambda: event_page(asked, wanted, request.app.state.chronicles),
        state.number,
    )


def filter_of(state: State, form: Form) -> Filter:
    """What the query asks for; refuses rounds and agents that are not there."""
    errors = Collected()
    number = errors.all("round", form.whole, "round")
    if number is not None:
        errors.of("round", lambda value, _: state.round(value), number)
    name = form.text("agent")
    agent = errors.of("agent", lambda key, _: state.agent(key), name) if name else None
    before = errors.of("", lambda _: form.whole("before"))
    errors.end()
    return Filter(number, agent, before)


def event_page(asked: Asked, wanted: Filter, chronicles: Chronicles) -> Shown:
    """The page of events that is asked for."""
    state = asked.state
    agent = None if wanted.agent is None else id_of("agent", wanted.agent)
    everything = chronicles.told(asked.log, state)
    fitting = [one for one in everything if concerns(one, wanted.round, agent)]
    before = state.number + 1 if wanted.before is None else wanted.before
    end = sum(one.event.number < before for one in fitting)
    begin = max(0, end - AT_ONCE)
    newer = None
    if end < len(fitting):
        following = end + AT_ONCE
        newer = fitting[following].event.number if following < len(fitting) else 0
    older = fitting[begin].event.number if begin else None
    return Shown(fitting[begin:end][::-1], older, newer)


def render_history(
    request: Request,
    asked: Asked,
    form: Form,
    wanted: Filter,
    seen: Shown,
    errors: dict[str, str],
    wrong: dict[str, str] | None = None,
) -> Response:
    """The page with these events; `errors` are of the filter, `wrong` of the note, which `form` then has."""
    state = asked.state
    agents = [(id_of("agent", i), name) for i, name in enumerate(state.agent_names)]
    key = "" if wanted.agent is None else id_of("agent", wanted.agent)
    return page(
        request,
        "history.html",
        asked,
        422 if errors or wrong else 200,
        events=seen.events,
        older=seen.older,
        newer=seen.newer,
        round=form.text("round") if wrong is None else "",
        agent=key,
        agents=options_of([("", "anybody"), *agents], key),
        errors=errors,
        wrong=wrong or {},
        note=form.text("text") if wrong is not None else "",
        note_round=form.text("round") if wrong is not None else "",
        home=home(state.campaign),
    )


@router.post("/campaigns/{campaign}/notes")
async def submit_note(request: Request, asked: Asking) -> Response:
    """A note for those who read the history."""
    form = asked.form
    with beside_fields() as wrong:
        errors = Collected()
        text = errors.of("text", lambda value, _: text_from(value, "the note"), form.text("text"))
        number = errors.all("round", form.whole, "round")
        if number is not None:
            errors.of("round", lambda value, _: asked.state.round(value), number)
        errors.end()
        await write_in_turn(request, service.add_note, *asked.where, text or "", number)
    if not wrong:
        return seen_again(home(asked.id, "/history"))
    seen = await looked(request, asked, Filter())
    return render_history(request, asked, form, Filter(), seen, {}, wrong)


@router.get("/campaigns/{campaign}/audit.html")
async def read_audit(request: Request, asked: Asking) -> Response:
    """The audit, to be kept."""
    state = asked.state

    def make(tell: Tell) -> str:
        return audit(service.history(asked.log, state.campaign, 0, state.number), tell)

    text = await alone(request, make)
    more = attached(state, "audit.html") | {"Content-Security-Policy": OWN_STYLE}
    return Response(text, headers=more, media_type="text/html; charset=utf-8")


@router.get("/campaigns/{campaign}/events.ndjson")
async def show_events(request: Request, asked: Asking) -> Response:
    """All events, a line of JSON for each: what `campaign import` takes."""
    return StreamingResponse(
        exported(request, asked.log, asked.state),
        headers=attached(asked.state, "events.ndjson"),
        media_type=NDJSON,
    )


@router.get("/campaigns/{campaign}/visits.csv")
async def show_visits(request: Request, asked: Asking) -> Response:
    """All visits for a spreadsheet, which without a mark would guess at the letters."""
    state = asked.state
    text = await computed(request, state, lambda: visits_csv(state), state.number)
    return Response(
        text.encode("utf-8-sig"),
        headers=attached(asked.state, "visits.csv"),
        media_type="text/csv; charset=utf-8",
    )


def attached(state: State, name: str) -> dict[str, str]:
    """The headers of a file that is kept under this name and not shown."""
    return PRIVATE | {"Content-Disposition": f'attachment; filename="{state.campaign}-{name}"'}
