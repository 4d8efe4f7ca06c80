"""What all routes for programs share: a bearer token, JSON, the number of the event that an answer stands after."""

import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from starlette.responses import JSONResponse

from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import parse_plain_text
from heterobandits.errors import InvalidInput, repr_of
from heterobandits.web.request_fields import (
    BodyRequest,
    check_queries,
    fields_of_route,
    parse_body,
    place_error,
)
from heterobandits.web.requests import (
    GuardedRoute,
    RequestContext,
    RequestHandler,
    digest_of_request,
)

ETAG_PATTERN = re.compile(r'(?:W/)?"(\d{1,18})"')


class ApiRoute(GuardedRoute):
    """A route for programs."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The guard, which knows what the route takes."""
        self.fields = fields_of_route(self)
        # Of a campaign alone it is known before the work whether it is there; of a round or a policy, only after.
        self.is_of_campaign = (
            self.param_convertors.keys() == {"campaign"} and not self.fields.queries
        )
        return super().get_route_handler()

    def tokens(self, request: Request) -> list[str]:
        """The bearer token, if there is one."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return [token.strip()] if kind.lower() == "bearer" and token.strip() else []

    async def answer_admitted(self, request: Request, handle: RequestHandler) -> Response:
        """Refuse queries that nobody knows, name the fields that are wrong, and send nothing again that has not changed."""
        queries, body, _ = self.fields
        check_queries(request.query_params, queries)
        state: State | None = request.state.asked.campaign
        known = state if request.method == "GET" and is_unchanged(request, state) else None
        if known is not None and self.is_of_campaign:
            return not_modified_response(known)
        try:
            answer = await super().answer_admitted(request, handle)
        except InvalidInput as error:
            raise place_error(error, queries | body) from None
        return answer if known is None else not_modified_response(known)

    def read(self, request: BodyRequest) -> None:
        """Read the body as the route's model; the key and the condition are in the head."""
        asked: RequestContext = request.state.asked
        key, condition = (request.headers.get(name) for name in ("idempotency-key", "if-match"))
        if key is not None:
            parse_plain_text(key, "Idempotency-Key")
        digest = digest_of_request(request, request.url.query, condition or "")
        asked.asker = asked.asker._replace(key=key, digest=digest)
        if self.fields.body and asked.body:
            kind = request.headers.get("content-type", "")
            request.said = parse_body(asked.body, kind, self.fields)


def cache_headers(state: State) -> dict[str, str]:
    """Headers that date an answer and keep it private."""
    return {"ETag": f'"{state.number}"', "Cache-Control": "private, no-cache"}


def json_reply(state: State, shape: Any, status: int = 200) -> Response:
    """A JSON response with a shape made from this state."""
    return JSONResponse(shape, status, cache_headers(state))


def is_unchanged(request: Request, state: State | None) -> bool:
    """Whether the sender has the current version of the campaign."""
    seen = ETAG_PATTERN.findall(request.headers.get("if-none-match", ""))
    return state is not None and str(state.number) in seen


def not_modified_response(state: State) -> Response:
    """The answer 304 to somebody who has the current version."""
    return Response(status_code=304, headers=cache_headers(state))


def parse_if_match(condition: str) -> int | None:
    """The event that If-Match names; None for `*`, which accepts any."""
    if condition.strip() == "*":
        return None
    tag = ETAG_PATTERN.fullmatch(condition.strip())
    if tag is None:
        raise InvalidInput(f'If-Match is {repr_of(condition)}: an ETag such as "12", or *')
    return int(tag[1])


def parse_one_change(given: set[str], *kinds: tuple[str, ...]) -> tuple[str, ...]:
    """The kind of change that a body asks for, if it is one: an event is one change, and a request is done whole."""
    asked = [kind for kind in kinds if given & set(kind)]
    if len(asked) != 1:
        what = " or ".join(", ".join(kind) for kind in kinds)
        raise InvalidInput(f"the body has {len(asked)} changes: one at a time, {what}")
    return asked[0]
