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

from heterobandits.campaigns.analysis.probabilities import NothingKnown
from heterobandits.campaigns.outcomes import Stale
from heterobandits.campaigns.reducer import AlreadyReported, LinkEnded
from heterobandits.campaigns.responses_schema import CurrentJson, FieldErrorJson
from heterobandits.campaigns.storage.repository import KeyReused
from heterobandits.campaigns.storage.store import StoreUnavailable, UnknownCampaign, WriteConflict
from heterobandits.campaigns.validation import REPORT_MAX_ERRORS, InvalidFields
from heterobandits.errors import InvalidInput, repr_of
from heterobandits.web.warmup import WarmupProgress

PROBLEM_MEDIA_TYPE = "application/problem+json"
NO_SNIFF_HEADER = ("X-Content-Type-Options", "nosniff")  # with every answer
SERVER_LOGGER = logging.getLogger(__name__)  # goes to stderr
WHY_ELSEWHERE = "the server's output says why"
DATABASE_RETRY_AFTER_S = 2  # when the database may be back


class NotFound(InvalidInput):
    """The path names something that does not exist."""


class NotAdmitted(InvalidInput):
    """No token, or one that opens nothing."""


class Forbidden(InvalidInput):
    """A valid token that does not allow this."""


class BodyTooLarge(InvalidInput):
    """A body that is too large."""


class MalformedBody(InvalidInput):
    """A body that is not JSON."""


class WrongMediaType(InvalidInput):
    """A body that is not declared as JSON."""


class ServerBusy(InvalidInput):
    """The server is busy with other requests."""


class GettingReady(InvalidInput):
    """What is asked for needs rules that are being compiled, and how far that is."""

    def __init__(self, message: str, progress: WarmupProgress) -> None:
        super().__init__(message)
        self.progress = progress


class TooManyWrites(InvalidInput):
    """A link that has written too much, and after how many seconds it may write again."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class RefusedVisit(InvalidInput):
    """An error about a visit, with the visit's current report."""

    def __init__(self, error: InvalidInput, current: CurrentJson) -> None:
        super().__init__(str(error))
        self.error = error
        self.current = current


class ProblemKind(NamedTuple):
    """The name and status of an error."""

    error: type[Exception]
    status: int
    name: str
    title: str


PROBLEM_KINDS = (  # the first that fits
    ProblemKind(MalformedBody, 400, "malformed", "The body is not JSON"),
    ProblemKind(NotAdmitted, 401, "not-admitted", "A link's token is needed"),
    ProblemKind(LinkEnded, 401, "not-admitted", "A link's token is needed"),
    ProblemKind(Forbidden, 403, "forbidden", "The link does not allow this"),
    ProblemKind(UnknownCampaign, 404, "not-found", "Not there"),
    ProblemKind(NotFound, 404, "not-found", "Not there"),
    ProblemKind(AlreadyReported, 409, "already-reported", "Reported already"),
    ProblemKind(NothingKnown, 409, "nothing-known", "Nothing is known yet"),
    ProblemKind(WriteConflict, 409, "conflict", "Somebody else was faster"),
    ProblemKind(Stale, 412, "changed-since", "Changed since you looked"),
    ProblemKind(BodyTooLarge, 413, "too-large", "The body is too large"),
    ProblemKind(WrongMediaType, 415, "wrong-media", "The body is not sent as JSON"),
    ProblemKind(KeyReused, 422, "key-reused", "The idempotency key is of another request"),
    ProblemKind(TooManyWrites, 429, "too-many", "Too much was written"),
    ProblemKind(StoreUnavailable, 503, "unavailable", "The database cannot be used now"),
    ProblemKind(GettingReady, 503, "getting-ready", "The server is getting ready"),
    ProblemKind(ServerBusy, 503, "busy", "Too much is asked at once"),
    ProblemKind(InvalidInput, 422, "invalid-input", "The input cannot be used"),
)
FRAMEWORK_PROBLEMS = {  # that the framework raises
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
        kind = problem_kind_of(error)
        return Notice(*kind[1:], problem_text(error), retry_after_header(error))
    if isinstance(error, HTTPException):
        status, detail = error.status_code, error.detail
        name, title = FRAMEWORK_PROBLEMS.get(status, ("refused", "Refused"))
        if status == 404:
            detail = str(missing_page_error(request))
        elif status == 405:
            detail = f"{request.method} is not for {repr_of(request.url.path, 200)}"
        return Notice(status, name, title, detail, error.headers or {})
    detail = "something unforeseen happened; the server's output says what"
    return Notice(500, "failed", "The server failed", detail, dict([NO_SNIFF_HEADER]))


def problem_response(request: Request, error: Exception) -> Response:
    """The answer to a program, as RFC 9457 has it."""
    status, name, title, detail, headers = notice_of(request, error)
    about = {"title": title, "status": status, "detail": detail, "instance": request.url.path}
    details: dict[str, Any] = {"type": f"/problems/{name}", **about}
    if isinstance(error, RefusedVisit):
        details["current"] = error.current
    if isinstance(error, InvalidFields):
        details["errors"] = [
            {"path": place, "message": message}
            for place, message in error.errors[:REPORT_MAX_ERRORS]
        ]
    bearer = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    # ASCII: half characters come too
    return Response(json.dumps(details), status, {**headers, **bearer}, PROBLEM_MEDIA_TYPE)


def missing_page_error(request: Request) -> NotFound:
    """The error of an address where there is nothing."""
    return NotFound(f"there is nothing at {repr_of(request.url.path, 200)}")


def problem_text(error: InvalidInput) -> str:
    """The text of an error. Details of the database go only to the server's log."""
    if not isinstance(error, StoreUnavailable):
        return str(error)
    SERVER_LOGGER.warning("%s", error)
    return f"the database cannot be used now: {error.why or WHY_ELSEWHERE}"


def retry_after_header(error: InvalidInput) -> dict[str, str]:
    """The header that says when to ask again, if that helps."""
    if isinstance(error, TooManyWrites):
        return {"Retry-After": str(math.ceil(error.seconds))}
    if isinstance(error, GettingReady):
        return {"Retry-After": str(error.progress.retry_after)}
    return (
        {"Retry-After": str(DATABASE_RETRY_AFTER_S)} if problem_kind_of(error).status == 503 else {}
    )


def problem_kind_of(error: InvalidInput) -> ProblemKind:
    """What an error is called, and its status."""
    cause = error.error if isinstance(error, RefusedVisit) else error
    return next(kind for kind in PROBLEM_KINDS if isinstance(cause, kind.error))


def render_field_path(parts: tuple[Any, ...]) -> str:
    """A field's path as programs write it.

    >>> render_field_path(("body", "agents", 2, "sensitivity"))
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
        return missing_page_error(request)
    return invalid_fields_of(found)


def invalid_fields_of(found: Sequence[Any]) -> InvalidFields:
    """The error of fields that are not of their kind, as the framework names them."""
    errors: dict[str, str] = {}  # places by what is said of them
    for one in found[:REPORT_MAX_ERRORS]:
        where = render_field_path(tuple(part for part in one["loc"] if not _is_branch(part)))
        said = one["msg"][:1].lower() + one["msg"][1:]
        given = "" if one["type"] == "missing" else f" is {repr_of(one.get('input'))}"
        errors.setdefault(f"{where}{given}: {said}", where)
    return InvalidFields([(where, message) for message, where in errors.items()])


def _is_branch(part: Any) -> bool:
    """Whether a part of a field's path is no field, but the kind that pydantic tried."""
    return isinstance(part, str) and ("[" in part or part in ("float", "int", "str", "none"))
