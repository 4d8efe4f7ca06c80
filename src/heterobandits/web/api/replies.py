"""Answers to requests: JSON with the number of the event that it stands after."""

from typing import Any

from starlette.responses import JSONResponse, Response

from heterobandits.campaigns.state import State
from heterobandits.errors import InvalidInput
from heterobandits.web.requests import headers


def reply(state: State, shape: Any, status: int = 200) -> Response:
    """A shape, made of this state."""
    return JSONResponse(shape, status, headers(state))


def one_change(given: set[str], *kinds: tuple[str, ...]) -> tuple[str, ...]:
    """The kind of change that a body asks for, if it is one: an event is one change, and a request is done whole."""
    asked = [kind for kind in kinds if given & set(kind)]
    if len(asked) != 1:
        what = " or ".join(", ".join(kind) for kind in kinds)
        raise InvalidInput(f"the body has {len(asked)} changes: one at a time, {what}")
    return asked[0]
