"""What every page does beside its own work: see by a cookie who looks, refuse what another site has sent, say errors as pages."""

import hashlib
import secrets
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, RedirectResponse

from heterobandits.campaigns.events import OWNER, SERVER
from heterobandits.campaigns.reducer import LinkEnded
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import Wrong
from heterobandits.errors import InvalidInput, shown
from heterobandits.output.pages import rendered
from heterobandits.web.auth import HOME, Caller, is_open, may
from heterobandits.web.errors import (
    NOT_GUESSED,
    Forbidden,
    Malformed,
    NotAdmitted,
    NotFound,
    handle_problems,
    kind_of,
    problem_text,
    retry_after,
)
from heterobandits.web.requests import (
    ROUTE,
    Admitted,
    Asked,
    admitted_by,
    base_of,
    check_round,
    digest_of_request,
    reading,
    received,
    slow_down,
)
from heterobandits.web.turns import GONE, take_turns

COOKIE = "hb_{}"  # by campaign, and of the server's owner: one browser may hold several links
OF_HOST = "__Host-"  # before that over TLS: such a cookie no other host can have set, nor a page without TLS
LONGEST = 400 * 86_400  # seconds that browsers keep a cookie, at most
REFUSED = (409, 412, 422)  # what a person can do something about, on the page it was sent from
MOST_FIELDS = 20_000  # of a form
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


class Form:
    """What a form says: texts by the names of its fields."""

    def __init__(self, body: bytes) -> None:
        try:
            self.fields = parse_qs(
                body.decode(),
                keep_blank_values=True,
                max_num_fields=MOST_FIELDS,
                errors="strict",
            )
        except ValueError:
            raise Malformed("the form cannot be read: open the page anew and try again") from None

    def text(self, name: str, default: str = "") -> str:
        """The last of the texts of a field, without blanks around it."""
        return self.fields.get(name, [default])[-1].strip()

    def texts(self, name: str) -> list[str]:
        """All texts of a field that are not blank."""
        return [text.strip() for text in self.fields.get(name, []) if text.strip()]

    def whole(self, name: str) -> int | None:
        """A field as a whole number; None if it is blank."""
        text = self.text(name)
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise Wrong([(name, f"{name} is {shown(text)}: a whole number")])
        return int(text)


class Foreign(Forbidden):
    """A form that a page of another site has sent."""


class Paged(APIRoute):
    """A page, or what a form of one is sent to."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What handles a request, once it is known who asks."""
        handle = take_turns(self, reading(self, keyed, super().get_route_handler()))
        route = self.path_format

        async def paged(request: Request) -> Response:
            request.scope[ROUTE] = route
            try:
                if request.method != "GET":
                    check_origin(request)
                if is_open(request.method, route):
                    return await handle(request)
                caller, state = await admitted(request, route)
                check_round(request)
                return await handle(await received(request, route, caller, state))
            except ClientDisconnect:
                return Response(status_code=GONE)
            except RequestValidationError:  # of a number in the path that is none
                return error_page(request, nothing_at(request))
            except InvalidInput as error:
                return error_page(request, error)

        return paged


async def admitted(request: Request, route: str) -> Admitted:
    """Who looks, if it may: by the link of this campaign, or else of the server's owner."""
    campaign = request.path_params.get("campaign")
    tokens = tokens_of(request, *(() if campaign is None else (campaign,)), OWNER)
    for token in tokens:
        try:
            return await admitted_by(request, route, token)
        except NotAdmitted:
            continue  # a link that has ended is in nobody's way who holds another
    if tokens:
        await slow_down(request)
    raise NotAdmitted("no link")


def tokens_of(request: Request, *owners: str) -> list[str]:
    """The tokens in the cookies of these campaigns, or of the server's owner; over TLS it may have been set before that was there."""
    cookies, names = request.cookies, [COOKIE.format(owner) for owner in owners]
    held = (cookies.get(f"{OF_HOST}{name}") or cookies.get(name) for name in names)
    return [token for token in held if token]


def keyed(request: Request) -> None:
    """Note what makes sending a form twice harmless: the key that it brings; with other fields it is another request, as after a step back."""
    asked: Asked = request.state.asked
    key, digest = Form(asked.body).text("key"), digest_of_request(request)
    asker = asked.asker._replace(key=f"{key[:64]}-{digest[:16]}" if key else None, digest=digest)
    request.state.asked = replace(asked, asker=asker)


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


def error_page(request: Request, error: InvalidInput) -> Response:
    """What is said in place of a page."""
    kind = kind_of(error)
    title, detail = FOR_PEOPLE.get(type(error)) or (kind.title, problem_text(error))
    answer = page(request, "error.html", status=kind.status, title=title, detail=detail)
    answer.headers.update(retry_after(error))
    return answer


def nothing_at(request: Request) -> NotFound:
    """The error of an address where there is no page."""
    return NotFound(f"there is nothing at {shown(request.url.path, 200)}")


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
    """Answer what no route has caught: programs with problem details, people with a page."""
    handle_problems(app)
    of_programs = {kind: app.exception_handlers[kind] for kind in (HTTPException, Exception)}

    def either(kind: type[Exception]) -> Callable[[Request, Exception], Any]:
        async def handled(request: Request, error: Exception) -> Response:
            if request.url.path.split("/")[1] in ("api", "metrics"):
                answer: Response = await of_programs[kind](request, error)  # type: ignore[misc]
                return answer
            if isinstance(error, HTTPException):
                what = {404: "Not there", 405: "Not here"}.get(error.status_code, "Refused")
                detail = str(nothing_at(request)) if error.status_code == 404 else error.detail
                status = error.status_code
            else:
                what, status = "The server failed", 500
                detail = "something unforeseen happened; the server's output says what"
            return page(request, "error.html", status=status, title=what, detail=detail)

        return handled

    for kind in of_programs:
        app.add_exception_handler(kind, either(kind))


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
