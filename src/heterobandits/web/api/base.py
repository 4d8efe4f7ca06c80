"""What all routes for programs share: a bearer token, JSON, the number of the event that an answer stands after."""

import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from starlette.responses import JSONResponse

from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import plain
from heterobandits.errors import InvalidInput, shown
from heterobandits.web.request_fields import (
    BodyRequest,
    check_queries,
    fields_of,
    model_from_body,
    placed,
)
from heterobandits.web.requests import Asked, GuardedRoute, Handle, digest_of_request

TAG = re.compile(r'(?:W/)?"(\d{1,18})"')


class ApiRoute(GuardedRoute):
    """A route for programs."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The guard, which knows what the route takes."""
        self.fields = fields_of(self)
        # Of a campaign alone it is known before the work whether it is there; of a round or a policy, only after.
        self.is_of_campaign = (
            self.param_convertors.keys() == {"campaign"} and not self.fields.queries
        )
        return super().get_route_handler()

    def tokens(self, request: Request) -> list[str]:
        """The bearer token, if there is one."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return [token.strip()] if kind.lower() == "bearer" and token.strip() else []

    async def answer_admitted(self, request: Request, handle: Handle) -> Response:
        """Refuse queries that nobody knows, name the fields that are wrong, and send nothing again that has not changed."""
        queries, body, _ = self.fields
        check_queries(request.query_params, queries)
        state: State | None = request.state.asked.campaign
        known = state if request.method == "GET" and is_unchanged(request, state) else None
        if known is not None and self.is_of_campaign:
            return not_again(known)
        try:
            answer = await super().answer_admitted(request, handle)
        except InvalidInput as error:
            raise placed(error, queries | body) from None
        return answer if known is None else not_again(known)

    def read(self, request: BodyRequest) -> None:
        """Read the body as the route's model; the key and the condition are in the head."""
        asked: Asked = request.state.asked
        key, condition = (request.headers.get(name) for name in ("idempotency-key", "if-match"))
        if key is not None:
            plain(key, "Idempotency-Key")
        digest = digest_of_request(request, request.url.query, condition or "")
        asked.asker = asked.asker._replace(key=key, digest=digest)
        if self.fields.body and asked.body:
            kind = request.headers.get("content-type", "")
            request.said = model_from_body(asked.body, kind, self.fields)


def headers(state: State) -> dict[str, str]:
    """What says how new an answer is, and that it is not for others."""
    return {"ETag": f'"{state.number}"', "Cache-Control": "private, no-cache"}


def reply(state: State, shape: Any, status: int = 200) -> Response:
    """A shape, made of this state."""
    return JSONResponse(shape, status, headers(state))


def is_unchanged(request: Request, state: State | None) -> bool:
    """Whether the sender has seen the campaign as it stands."""
    seen = TAG.findall(request.headers.get("if-none-match", ""))
    return state is not None and str(state.number) in seen


def not_again(state: State) -> Response:
    """The answer to who has seen it all."""
    return Response(status_code=304, headers=headers(state))


def seen_from(condition: str) -> int | None:
    """The event that If-Match says was seen; None for `*`, which takes what is there."""
    if condition.strip() == "*":
        return None
    tag = TAG.fullmatch(condition.strip())
    if tag is None:
        raise InvalidInput(f'If-Match is {shown(condition)}: an ETag such as "12", or *')
    return int(tag[1])


def one_change(given: set[str], *kinds: tuple[str, ...]) -> tuple[str, ...]:
    """The kind of change that a body asks for, if it is one: an event is one change, and a request is done whole."""
    asked = [kind for kind in kinds if given & set(kind)]
    if len(asked) != 1:
        what = " or ".join(", ".join(kind) for kind in kinds)
        raise InvalidInput(f"the body has {len(asked)} changes: one at a time, {what}")
    return asked[0]
