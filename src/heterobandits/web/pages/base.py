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
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from heterobandits.campaigns.events import OWNER, SERVER
from heterobandits.campaigns.reducer import LinkEnded
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import Wrong
from heterobandits.errors import InvalidInput
from heterobandits.output.pages import rendered
from heterobandits.web.auth import HOME, Caller, may
from heterobandits.web.errors import (
    NOT_GUESSED,
    Forbidden,
    Malformed,
    NotAdmitted,
    input_error,
    kind_of,
    notice_of,
    problem_response,
)
from heterobandits.web.request_fields import BodyRequest, Form
from heterobandits.web.requests import Asked, GuardedRoute, Handle, base_of, digest_of_request

COOKIE = "hb_{}"  # by campaign, and of the server's owner: one browser may hold several links
OF_HOST = "__Host-"  # before that over TLS: such a cookie no other host can have set, nor a page without TLS
LONGEST = 400 * 86_400  # seconds that browsers keep a cookie, at most
REFUSED = (409, 412, 422)  # what a person can do something about, on the page it was sent from
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PRIVATE = {
    "Cache-Control": "no-store",
    # To others nothing. To ourselves all: with `no-referrer` a browser says of our own forms that they come from nowhere.
    "Referrer-Policy": "same-origin",
    **dict([NOT_GUESSED]),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": POLICY,
}


OPEN_YOURS = (
    "Open your link",
    "This browser holds no link that opens this page, or one that holds no longer: open the link that somebody gave you, or ask "
    "for another one.",
)
FOR_PEOPLE: dict[type[Exception], tuple[str, str]] = {  # what programs are told otherwise
    NotAdmitted: OPEN_YOURS,
    LinkEnded: OPEN_YOURS,
    Malformed: ("This cannot be read", "Open the page anew and try again."),
    Forbidden: ("Your link does not open this", "It is for something else: ask an owner of the campaign for another one."),
}  # fmt: skip


class MenuItem(NamedTuple):
    """A page of a campaign in its menu."""

    part: str
    text: str


MENU = (
    MenuItem("", "Known"),
    MenuItem("/plan", "Plan"),
    MenuItem("/report", "Report"),
    MenuItem("/rounds", "Rounds"),
    MenuItem("/ahead", "Ahead"),
    MenuItem("/history", "History"),
    MenuItem("/team", "Team"),
)


class Foreign(Forbidden):
    """A form that a page of another site has sent."""


class PageRoute(GuardedRoute):
    """A page, or what a form of one is sent to: people hold their links as cookies."""

    def tokens(self, request: Request) -> list[str]:
        """Those of the campaign, and else of the server's owner."""
        campaign = request.path_params.get("campaign")
        return tokens_of(request, *(() if campaign is None else (campaign,)), OWNER)

    async def answer(self, request: Request, handle: Handle) -> Response:
        """Refuse what another site has sent, before it is known who looks."""
        if request.method != "GET":
            check_origin(request)
        return await super().answer(request, handle)

    def read(self, request: BodyRequest) -> None:
        """Read the form, and its key: with other fields it is of another request, as after a step back."""
        asked: Asked = request.state.asked
        asked.form = Form(asked.body)
        key, digest = asked.form.text("key"), digest_of_request(request)
        whole = f"{key[:64]}-{digest[:16]}" if key else None
        asked.asker = asked.asker._replace(key=whole, digest=digest)


def tokens_of(request: Request, *owners: str) -> list[str]:
    """The tokens in the cookies of these campaigns, or of the server's owner; over TLS it may have been set before that was there."""
    cookies, names = request.cookies, [COOKIE.format(owner) for owner in owners]
    held = (cookies.get(f"{OF_HOST}{name}") or cookies.get(name) for name in names)
    return [token for token in held if token]


def check_origin(request: Request) -> None:
    """Refuse what a page of another site has sent."""
    origin = request.headers.get("origin")
    if origin is None:
        own = request.headers.get("sec-fetch-site") == "same-origin"
    else:
        own = origin == base_of(request)
    if own:
        return
    said = "this was sent from another site: open the page anew and try again"
    if origin == base_of(request).replace("http://", "https://", 1):
        said += "; if this server is behind one with TLS, that has to pass on X-Forwarded-Proto"
    raise Foreign(said)


def home(campaign: str, part: str = "") -> str:
    """The address of a page of a campaign."""
    return HOME.format(campaign=campaign) + part


def start(caller: Caller) -> str:
    """The page that a link opens."""
    if caller.campaign is None:
        return "/"
    parts = {"reporter": "/report", "viewer": "/wall"}
    return home(caller.campaign, parts.get(caller.role, ""))


def page(
    request: Request,
    template: str,
    asked: Asked | None = None,
    status: int = 200,
    **data: object,
) -> Response:
    """A page of this template, in the frame that all have."""
    caller = None if asked is None else asked.caller
    state = None if asked is None else asked.campaign
    return HTMLResponse(
        rendered(
            f"site/{template}",
            caller=caller,
            role=None if caller is None else role_of(caller),
            state=state,
            menu=[] if caller is None or state is None else menu_of(caller, state),
            at=request.url.path,
            key=secrets.token_hex(8),
            style=static("site.css"),
            script=static("site.js"),
            static=static,
            demo=request.app.state.demo,
            **data,
        ),
        status,
        PRIVATE,
    )


def role_of(caller: Caller) -> str:
    """What somebody is, in words."""
    return "owner of this server" if caller.role == SERVER else caller.role


def menu_of(caller: Caller, state: State) -> list[tuple[str, str]]:
    """The pages of a campaign that somebody may open, with their addresses."""
    return [
        (home(state.campaign, place.part), place.text)
        for place in MENU
        if may(caller.role, "GET", f"{HOME}{place.part}")
    ]


def error_page(request: Request, error: Exception) -> Response:
    """What is said in place of a page."""
    notice = notice_of(request, error)
    title, detail = FOR_PEOPLE.get(type(error), (notice.title, notice.detail))
    answer = page(request, "error.html", status=notice.status, title=title, detail=detail)
    answer.headers.update(notice.headers)
    return answer


def seen_again(place: str) -> Response:
    """After something was done: the page that shows it, which may be loaded again."""
    return RedirectResponse(quote(place, safe="/?=&#%"), 303, PRIVATE)


@contextmanager
def beside_fields() -> Iterator[dict[str, str]]:
    """Within, what is wrong is noted by field, for a form that is shown again; what belongs to none under the empty name."""
    errors: dict[str, str] = {}
    try:
        yield errors
    except Wrong as wrong:
        errors |= dict(wrong.errors)
    except InvalidInput as error:
        if kind_of(error).status not in REFUSED:
            raise
        errors[""] = str(error)


def handle_errors(app: FastAPI) -> None:
    """Answer every error: programs with problem details, people with a page."""

    async def answer_error(request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            error = input_error(request, error)
        room = request.url.path.removeprefix("/").partition("/")[0]
        answer = problem_response if room in ("api", "metrics") else error_page
        return answer(request, error)

    for kind in (InvalidInput, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer_error)


KINDS_OF_FILES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def files() -> dict[str, bytes]:
    """The files that pages are shown with, by name."""
    folder = resources.files("heterobandits.web") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if "." in file.name}


@cache
def static(name: str) -> str:
    """The address of a file, which changes with it: so it may be kept for long."""
    return f"/static/{name}?v={hashlib.sha256(files()[name]).hexdigest()[:12]}"


def options_of(options: Sequence[tuple[str, str]], value: str) -> list[tuple[str, str, bool]]:
    """The options of a field, each with whether it is chosen."""
    return [(key, text, key == value) for key, text in options]
