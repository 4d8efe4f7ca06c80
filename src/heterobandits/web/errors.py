"""What an error is called and which status it has, in one table for programs and people; as RFC 9457 problem details for programs."""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from typing_extensions import TypedDict

from heterobandits.campaigns.reducer import AlreadyTold, LinkEnded
from heterobandits.campaigns.service import Stale
from heterobandits.campaigns.storage.repository import KeyReused
from heterobandits.campaigns.storage.store import Conflict, StoreUnavailable, UnknownCampaign
from heterobandits.campaigns.validation import MOST_ERRORS, Wrong
from heterobandits.errors import InvalidInput, shown
from heterobandits.web.api.responses_schema import CurrentJson, FieldErrorJson

MEDIA = "application/problem+json"
NOT_GUESSED = ("X-Content-Type-Options", "nosniff")  # with every answer
OUTPUT = logging.getLogger(__name__)  # goes to stderr
WHY_ELSEWHERE = "the server's output says why"
RETRY_SECONDS = 2  # when the database may be back


class NotFound(InvalidInput):
    """What the path names is not there."""


class NotAdmitted(InvalidInput):
    """No token, or one that opens nothing."""


class Forbidden(InvalidInput):
    """A token that does not open this."""


class TooLarge(InvalidInput):
    """A body that is larger than any that is needed."""


class Malformed(InvalidInput):
    """A body that is no JSON."""


class WrongMedia(InvalidInput):
    """A body that is not called JSON."""


class Busy(InvalidInput):
    """Too much is asked at once."""


class TooMany(InvalidInput):
    """A link has written too much; after so many seconds it may again."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class RefusedVisit(InvalidInput):
    """An error of a visit, with what is known of the visit now."""

    def __init__(self, error: InvalidInput, current: CurrentJson) -> None:
        super().__init__(str(error))
        self.error = error
        self.current = current


class Kind(NamedTuple):
    """What an error is called, and its status."""

    error: type[Exception]
    status: int
    name: str
    title: str


KINDS = (  # the first that fits
    Kind(Malformed, 400, "malformed", "The body is not JSON"),
    Kind(NotAdmitted, 401, "not-admitted", "A link's token is needed"),
    Kind(LinkEnded, 401, "not-admitted", "A link's token is needed"),
    Kind(Forbidden, 403, "forbidden", "The link does not allow this"),
    Kind(UnknownCampaign, 404, "not-found", "Not there"),
    Kind(NotFound, 404, "not-found", "Not there"),
    Kind(AlreadyTold, 409, "already-reported", "Reported already"),
    Kind(Conflict, 409, "conflict", "Somebody else was faster"),
    Kind(Stale, 412, "changed-since", "Changed since you looked"),
    Kind(TooLarge, 413, "too-large", "The body is too large"),
    Kind(WrongMedia, 415, "wrong-media", "The body is not sent as JSON"),
    Kind(KeyReused, 422, "key-reused", "The idempotency key is of another request"),
    Kind(TooMany, 429, "too-many", "Too much was written"),
    Kind(StoreUnavailable, 503, "unavailable", "The database cannot be used now"),
    Kind(Busy, 503, "busy", "Too much is asked at once"),
    Kind(InvalidInput, 422, "invalid-input", "The input cannot be used"),
)
OTHERS = {  # that the framework raises
    400: ("malformed", "The body is not JSON"),
    404: ("not-found", "Not there"),
    405: ("wrong-method", "The method is not allowed here"),
}


class ProblemDetails(TypedDict, total=False):
    """A problem, as RFC 9457 has it; `errors` names the fields that are wrong, `current` is what is known of a visit."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldErrorJson]
    current: CurrentJson


class Notice(NamedTuple):
    """What is said of an error, to programs and to people."""

    status: int
    name: str
    title: str
    detail: str
    headers: Mapping[str, str]


def notice_of(request: Request, error: Exception) -> Notice:
    """What is said of an error that a request has met; of one that nobody foresaw nothing, as it stands in the server's output."""
    if isinstance(error, InvalidInput):
        kind = kind_of(error)
        return Notice(*kind[1:], problem_text(error), retry_after(error))
    if isinstance(error, HTTPException):
        status, detail = error.status_code, error.detail
        name, title = OTHERS.get(status, ("refused", "Refused"))
        if status == 404:
            detail = str(nothing_at(request))
        elif status == 405:
            detail = f"{request.method} is not for {shown(request.url.path, 200)}"
        return Notice(status, name, title, detail, error.headers or {})
    detail = "something unforeseen happened; the server's output says what"
    return Notice(500, "failed", "The server failed", detail, dict([NOT_GUESSED]))


def problem_response(request: Request, error: Exception) -> Response:
    """The answer to a program, as RFC 9457 has it."""
    status, name, title, detail, headers = notice_of(request, error)
    about = {"title": title, "status": status, "detail": detail, "instance": request.url.path}
    details: dict[str, Any] = {"type": f"/problems/{name}", **about}
    if isinstance(error, RefusedVisit):
        details["current"] = error.current
    if isinstance(error, Wrong):
        details["errors"] = [
            {"path": place, "message": message} for place, message in error.errors[:MOST_ERRORS]
        ]
    bearer = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    # ASCII: half characters come too
    return Response(json.dumps(details), status, {**headers, **bearer}, MEDIA)


def nothing_at(request: Request) -> NotFound:
    """The error of an address where there is nothing."""
    return NotFound(f"there is nothing at {shown(request.url.path, 200)}")


def problem_text(error: InvalidInput) -> str:
    """What is said of an error. Which database it is, and what that says itself, only the server's output says."""
    if not isinstance(error, StoreUnavailable):
        return str(error)
    OUTPUT.warning("%s", error)
    return f"the database cannot be used now: {error.why or WHY_ELSEWHERE}"


def retry_after(error: InvalidInput) -> dict[str, str]:
    """The header that says when to ask again, if that helps."""
    if isinstance(error, TooMany):
        return {"Retry-After": str(math.ceil(error.seconds))}
    return {"Retry-After": str(RETRY_SECONDS)} if kind_of(error).status == 503 else {}


def kind_of(error: InvalidInput) -> Kind:
    """What an error is called, and its status."""
    cause = error.error if isinstance(error, RefusedVisit) else error
    return next(kind for kind in KINDS if isinstance(cause, kind.error))


def field_path(parts: tuple[Any, ...]) -> str:
    """A field's path as programs write it.

    >>> place(("body", "agents", 2, "sensitivity"))
    'agents[2].sensitivity'
    """
    text = ""
    for part in parts[1:] if len(parts) > 1 else parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def input_error(request: Request, error: RequestValidationError) -> InvalidInput:
    """What the framework found wrong, as an error of ours; a path without what it names is one that is not there."""
    found = error.errors()
    if any(one["loc"][0] == "path" for one in found):
        return nothing_at(request)
    return wrong_fields(found)


def wrong_fields(found: Sequence[Any]) -> Wrong:
    """The error of fields that are not of their kind, as the framework names them."""
    errors: dict[str, str] = {}  # places by what is said of them
    for one in found[:MOST_ERRORS]:
        where = field_path(tuple(part for part in one["loc"] if not _is_branch(part)))
        said = one["msg"][:1].lower() + one["msg"][1:]
        given = "" if one["type"] == "missing" else f" is {shown(one.get('input'))}"
        errors.setdefault(f"{where}{given}: {said}", where)
    return Wrong([(where, message) for message, where in errors.items()])


def _is_branch(part: Any) -> bool:
    """Whether a part of a field's path is no field, but the kind that pydantic tried."""
    return isinstance(part, str) and ("[" in part or part in ("float", "int", "str", "none"))
