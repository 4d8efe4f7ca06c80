"""What all pages share: cookies with the links that people hold, forms from our own pages alone, and errors as pages."""

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import NamedTuple
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from heterobandits.campaigns import reversal
from heterobandits.campaigns.events import OWNER_NAME, SERVER_LINK, utc_now
from heterobandits.campaigns.reducer import LinkEnded
from heterobandits.campaigns.state import State, parse_time
from heterobandits.campaigns.validation import InvalidFields
from heterobandits.errors import InvalidInput
from heterobandits.output.pages import render_template
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords
from heterobandits.web.auth import PAGE_BASE, Caller, is_allowed
from heterobandits.web.errors import (
    NO_SNIFF_HEADER,
    Forbidden,
    GettingReady,
    MalformedBody,
    NotAdmitted,
    Notice,
    input_error,
    notice_of,
    problem_kind_of,
    problem_response,
)
from heterobandits.web.pages.wording import for_people
from heterobandits.web.request_fields import BodyRequest, Form
from heterobandits.web.requests import (
    GuardedRoute,
    RequestContext,
    RequestHandler,
    base_url_of,
    digest_of_request,
)

COOKIE_NAME = "hb_{}"  # by campaign, and of the server's owner: one browser may hold several links
HOST_COOKIE_PREFIX = "__Host-"  # before that over TLS: such a cookie no other host can have set, nor a page without TLS
COOKIE_MAX_AGE_S = 400 * 86_400  # seconds that browsers keep a cookie, at most
READY_RELOAD_S = 3  # seconds after which a page that waits for rules is asked for again
# what a person can do something about, on the page it was sent from
REFUSAL_STATUSES = (409, 412, 422)
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    # To others nothing. To ourselves all: with `no-referrer` a browser says of our own forms that they come from nowhere.
    "Referrer-Policy": "same-origin",
    **dict([NO_SNIFF_HEADER]),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
}


OPEN_LINK_MESSAGE = (
    "Open your link",
    "This browser holds no link that opens this page, or one that holds no longer: open the link that somebody gave you, or ask "
    "for another one.",
)
ERROR_TEXTS: dict[type[Exception], tuple[str, str]] = {  # what programs are told otherwise
    NotAdmitted: OPEN_LINK_MESSAGE,
    LinkEnded: OPEN_LINK_MESSAGE,
    MalformedBody: ("This cannot be read", "Open the page anew and try again."),
    Forbidden: ("Your link does not open this", "It is for something else: ask an owner of the campaign for another one."),
}  # fmt: skip


class MenuItem(NamedTuple):
    """A page of a campaign in its menu."""

    part: str
    text: str


CAMPAIGN_MENU = (
    MenuItem("", "Known"),
    MenuItem("/plan", "Plan"),
    MenuItem("/report", "Report"),
    MenuItem("/rounds", "{Rounds}"),
    MenuItem("/ahead", "Ahead"),
    MenuItem("/history", "History"),
    MenuItem("/team", "Team"),
)


class UndoOffer(NamedTuple):
    """What was done last by whoever looks, and for how many seconds they can undo it."""

    text: str
    event: int
    seconds: int


class ForeignForm(Forbidden):
    """A form that another site's page has sent."""


class PageRoute(GuardedRoute):
    """A page, or what a form of one is sent to: people hold their links as cookies."""

    def tokens(self, request: Request) -> list[str]:
        """Those of the campaign, and else of the server's owner."""
        campaign = request.path_params.get("campaign")
        return tokens_of(request, *(() if campaign is None else (campaign,)), OWNER_NAME)

    async def answer(self, request: Request, handle: RequestHandler) -> Response:
        """Refuse what another site has sent, before it is known who looks."""
        if request.method != "GET":
            check_origin(request)
        return await super().answer(request, handle)

    async def answer_admitted(self, request: Request, handle: RequestHandler) -> Response:
        """Look, beside the loop, for what can be undone on the page."""
        asked: RequestContext = request.state.asked
        if request.method == "GET" and may_undo(asked):
            request.state.undo = await run_in_threadpool(offer_of_undo, asked)
        return await super().answer_admitted(request, handle)

    def read(self, request: BodyRequest) -> None:
        """Read the form, and its key: with other fields it is of another request, as after a step back."""
        asked: RequestContext = request.state.asked
        asked.form = Form(asked.body)
        key, digest = asked.form.text("key"), digest_of_request(request)
        whole = f"{key[:64]}-{digest[:16]}" if key else None
        asked.asker = asked.asker._replace(key=whole, digest=digest)


def may_undo(asked: RequestContext) -> bool:
    """Whether somebody may undo things in a campaign in which something has just happened."""
    if asked.campaign is None or not is_allowed(asked.caller.role, "POST", f"{PAGE_BASE}/undo"):
        return False
    return 0.0 <= seconds_since(asked.campaign.changed) < reversal.UNDO_MAX_S


def offer_of_undo(asked: RequestContext) -> UndoOffer | None:
    """What whoever looks did last and can undo."""
    done = reversal.written_last(asked.log, asked.state)
    if not reversal.can_be_undone(done, asked.asker.who, asked.asker.link):
        return None
    left = int(reversal.UNDO_MAX_S - seconds_since(asked.state.changed))
    return UndoOffer(reversal.describe_write(done), asked.state.number, left)


def seconds_since(time: str) -> float:
    """The seconds since a time."""
    return (parse_time(utc_now()) - parse_time(time)).total_seconds()


def wants_json(request: Request) -> bool:
    """Whether a script of a page has sent this, which reads no page."""
    return "application/json" in request.headers.get("accept", "")


def tokens_of(request: Request, *owners: str) -> list[str]:
    """The tokens in the cookies of these campaigns, or of the server's owner.

    Over TLS only those count that no other host, and nobody who answers in the server's place without TLS, can have set.
    """
    prefix = HOST_COOKIE_PREFIX if is_encrypted(request) else ""
    held = (request.cookies.get(f"{prefix}{COOKIE_NAME.format(owner)}") for owner in owners)
    return [token for token in held if token]


def is_encrypted(request: Request) -> bool:
    """Whether the browser asks over TLS."""
    return base_url_of(request).startswith("https")


def check_origin(request: Request) -> None:
    """Refuse what another site's page has sent."""
    origin = request.headers.get("origin")
    if origin is None:
        own = request.headers.get("sec-fetch-site") == "same-origin"
    else:
        own = origin == base_url_of(request)
    if own:
        return
    said = "this was sent from another site: open the page anew and try again"
    if origin == base_url_of(request).replace("http://", "https://", 1):
        said += "; if this server is behind one with TLS, that has to pass on X-Forwarded-Proto"
    raise ForeignForm(said)


def page_path(campaign: str, part: str = "") -> str:
    """The address of a page of a campaign."""
    return PAGE_BASE.format(campaign=campaign) + part


def start_page_path(caller: Caller) -> str:
    """The page that a link opens."""
    if caller.campaign is None:
        return "/"
    parts = {"reporter": "/report", "viewer": "/wall"}
    return page_path(caller.campaign, parts.get(caller.role, ""))


def render_page(
    request: Request,
    template: str,
    asked: RequestContext | None = None,
    status: int = 200,
    **data: object,
) -> Response:
    """Render this template in the frame that all pages share."""
    caller = None if asked is None else asked.caller
    state = None if asked is None else asked.campaign
    return HTMLResponse(
        render_template(
            f"site/{template}",
            caller=caller,
            role=None if caller is None else render_role(caller),
            state=state,
            w=DEFAULT_WORDS if state is None else state.words,
            menu=[] if caller is None or state is None else menu_entries(caller, state),
            at=request.url.path,
            key=secrets.token_hex(8),
            style=static_path("site.css"),
            script=static_path("site.js"),
            static=static_path,
            demo=request.app.state.demo,
            undo=None if state is None else getattr(request.state, "undo", None),
            printed=utc_now(),
            **data,
        ),
        status,
        PAGE_HEADERS,
    )


def render_role(caller: Caller) -> str:
    """A caller's role in words."""
    return "owner of this server" if caller.role == SERVER_LINK else caller.role


def menu_entries(caller: Caller, state: State) -> list[tuple[str, str]]:
    """The pages of a campaign that somebody may open, with their addresses."""
    return [
        (page_path(state.campaign, place.part), place.text.format(Rounds=state.words.Rounds))
        for place in CAMPAIGN_MENU
        if is_allowed(caller.role, "GET", f"{PAGE_BASE}{place.part}")
    ]


def error_page(request: Request, error: Exception) -> Response:
    """What is said in place of a page."""
    notice = notice_of(request, error)
    if isinstance(error, GettingReady):
        return getting_ready_page(request, error, notice)
    title, detail = ERROR_TEXTS.get(type(error), (notice.title, notice.detail))
    asked: RequestContext | None = getattr(request.state, "asked", None)
    state = None if asked is None else asked.campaign
    said = for_people(detail, DEFAULT_WORDS if state is None else state.words)
    # what was reported may wait in this browser, whatever it may open: the page says so
    answer = render_page(
        request,
        "error.html",
        status=notice.status,
        title=title,
        detail=said,
        keeps=notice.status == 401,
    )
    answer.headers.update(notice.headers)
    return answer


def getting_ready_page(request: Request, error: GettingReady, notice: Notice) -> Response:
    """What is said while rules are compiled: how far that is; the page asks again by itself."""
    campaign = request.path_params.get("campaign")
    may_report = is_allowed(request.state.asked.caller.role, "GET", f"{PAGE_BASE}/report")
    again = request.method == "GET"
    state: State | None = request.state.asked.campaign
    reports = state is None or state.on_change != "forget"
    answer = render_page(
        request,
        "getting-ready.html",
        status=notice.status,
        progress=error.progress,
        again=again,
        reports=reports,
        report=page_path(campaign, "/report") if campaign and may_report and reports else None,
    )
    answer.headers.update(notice.headers)
    if again:
        answer.headers["Refresh"] = str(READY_RELOAD_S)
    return answer


def see_other(place: str) -> Response:
    """Redirect after a form was handled, so that the next page can be reloaded."""
    return RedirectResponse(quote(place, safe="/?=&#%"), 303, PAGE_HEADERS)


@contextmanager
def collect_field_errors(words: CampaignWords = DEFAULT_WORDS) -> Iterator[dict[str, str]]:
    """Within this context, errors are collected by field, for showing the form again; the rest under the empty name."""
    errors: dict[str, str] = {}
    try:
        yield errors
    except InvalidFields as wrong:
        errors |= {place: for_people(message, words) for place, message in wrong.errors}
    except InvalidInput as error:
        if problem_kind_of(error).status not in REFUSAL_STATUSES:
            raise
        errors[""] = for_people(str(error), words)


def handle_errors(app: FastAPI) -> None:
    """Answer every error: programs with problem details, people with a page."""

    async def answer_error(request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            error = input_error(request, error)
        room = request.url.path.removeprefix("/").partition("/")[0]
        program = room in ("api", "metrics") or wants_json(request)
        answer = problem_response if program else error_page
        return answer(request, error)

    for kind in (InvalidInput, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer_error)


STATIC_MEDIA_TYPES = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "png": "image/png",
    "webmanifest": "application/manifest+json",
}


@cache
def static_files() -> dict[str, bytes]:
    """The files that pages are shown with, by name."""
    folder = resources.files("heterobandits.web") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if "." in file.name}


@cache
def static_path(name: str) -> str:
    """The address of a static file; it changes with the file, so browsers may keep it for long."""
    return f"/static/{name}?v={hashlib.sha256(static_files()[name]).hexdigest()[:12]}"


def select_options(options: Sequence[tuple[str, str]], value: str) -> list[tuple[str, str, bool]]:
    """The options of a field, each with whether it is selected."""
    return [(key, text, key == value) for key, text in options]
