"""What every route does beside its own work: admit who asks, bound and check what is said, answer what has not changed.

Nothing of a body is read before its sender is known, and a route that is not in the table of `auth` opens for nobody. What a body
says is looked at when it is its sender's turn, in a thread.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from heterobandits.campaigns import service
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Log
from heterobandits.campaigns.storage.repository import Request as Asker
from heterobandits.campaigns.validation import plain
from heterobandits.errors import InvalidInput, shown
from heterobandits.web import budgets
from heterobandits.web.auth import Caller, Gate, Slowing, is_open, most_body
from heterobandits.web.errors import NotAdmitted, NotFound
from heterobandits.web.request_fields import (
    Fields,
    Read,
    check_queries,
    fields_of,
    model_from_body,
    placed,
)
from heterobandits.web.turns import GONE, admit_again, beside, take_turns, takes_turns

ROUTE = "heterobandits.route"  # where a request keeps the template of its path
TAG = re.compile(r'(?:W/)?"(\d{1,18})"')

ROUND = re.compile(r"\d{1,18}", re.ASCII)
LENGTH = re.compile(r"\d{1,18}", re.ASCII)  # Python does not read a number of thousands of digits

Made = TypeVar("Made")
Admitted = tuple[Caller, State | None]
Handle = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Asked:
    """A request that was admitted: who asks, of which campaign as it stands, and with what body."""

    log: Log
    caller: Caller
    campaign: State | None
    asker: Asker
    body: bytes
    base: str

    @property
    def state(self) -> State:
        """The campaign that the path names, as it stood when the request came."""
        assert self.campaign is not None, "the route names a campaign"
        return self.campaign

    @property
    def id(self) -> str:
        """Of that campaign."""
        return self.state.campaign

    def agent(self, key: str) -> int:
        """The number of the agent that the path names."""
        return find_named(self.state.agent, key)

    def arm(self, key: str) -> int:
        """The number of the arm that the path names."""
        return find_named(self.state.arm, key)


class Guarded(APIRoute):
    """A route behind the gate."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What handles a request, once it is admitted."""
        route = self.path_format
        fields = fields_of(self)
        read = partial(looked_at, fields=fields)
        handle = take_turns(self, reading(self, read, super().get_route_handler()))
        # Of a campaign alone it is known before the work whether it is there; of a round or a policy, only after.
        of_campaign = self.param_convertors.keys() == {"campaign"} and not fields.queries

        async def guarded(request: Request) -> Response:
            request.scope[ROUTE] = route
            if is_open(request.method, route):
                return await handle(request)
            caller, state = await admit(request, route, bearer(request))
            check_round(request)
            check_queries(request.query_params, fields.queries)
            known = state if request.method == "GET" and unchanged(request, state) else None
            if known is not None and of_campaign:
                return not_again(known)
            key = request.headers.get("idempotency-key")
            if key is not None and request.method != "GET":
                plain(key, "Idempotency-Key")
            try:
                bounded = await received(request, route, caller, state)
                answer = await handle(bounded)
            except ClientDisconnect:
                return Response(status_code=GONE)
            except InvalidInput as error:
                raise placed(error, fields.queries | fields.body) from None
            return answer if known is None else not_again(known)

        return guarded


async def asked_of(request: Request) -> Asked:
    """What the guard found out."""
    found: Asked = request.state.asked
    return found


Asking = Annotated[Asked, Depends(asked_of)]


async def admitted_by(request: Request, route: str, token: str | None) -> Admitted:
    """Who asks with this token, if it may; after a wait the same is asked `again`."""
    campaign = request.path_params.get("campaign")
    gate: Gate = request.app.state.gate

    async def again() -> Admitted:
        return await run_in_threadpool(gate.admitted, token, request.method, route, campaign)

    found = await again()
    request.state.again = again
    return found


async def admit(request: Request, route: str, token: str | None) -> Admitted:
    """Who asks, if it may; the bearer of a bad token waits for the answer."""
    try:
        return await admitted_by(request, route, token)
    except NotAdmitted:
        if token is not None:
            await slow_down(request)
        raise


async def slow_down(request: Request) -> None:
    """Wait as long as the sender of a bad token has to."""
    slowing: Slowing = request.app.state.slowing
    await asyncio.sleep(slowing.seconds(request.client.host if request.client else None))


def bearer(request: Request) -> str | None:
    """The token that a request carries."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.strip() else None


async def received(request: Request, route: str, caller: Caller, state: State | None) -> Read:
    """A request with all of its body, whose link still holds; what that says is not looked at yet."""
    most = most_body(request.method, route)
    length = request.headers.get("content-length", "0")
    if "transfer-encoding" in request.headers:  # it does not say how long it is
        length = str(most + (request.method == "GET"))
    if not LENGTH.fullmatch(length) or int(length) > most:
        await refuse_large(most)
    bounded, body = Read(request.scope, request.receive), b""
    if request.method != "GET":  # whose body need not come at all
        bounded = Read(request.scope, within(request.receive, most))
        body = await bounded.body()
        if body:
            await admit_again(request)
    asker = Asker(caller.who, link=caller.link, owner=caller.owner)
    bounded.state.asked = Asked(request.app.state.log, caller, state, asker, body, base_of(request))
    return bounded


def reading(route: APIRoute, read: Callable[[Read], None], handle: Handle) -> Handle:
    """What handles a request after its body was read, in a thread, when it is the link's turn."""

    async def handled(request: Request) -> Response:
        if isinstance(request, Read) and request.method != "GET":
            if takes_turns(route):
                await beside(request, read, request)
            else:
                await run_in_threadpool(read, request)
        return await handle(request)

    return handled


def looked_at(request: Read, fields: Fields) -> None:
    """Note what the body says, and what makes sending it twice harmless."""
    asked: Asked = request.state.asked
    conditions = request.headers.get("if-match", "")
    digest = digest_of_request(request, request.url.query, conditions)
    key = request.headers.get("idempotency-key")
    request.state.asked = replace(asked, asker=asked.asker._replace(key=key, digest=digest))
    if fields.body and asked.body:
        request.said = model_from_body(asked.body, request.headers.get("content-type", ""), fields)


def digest_of_request(request: Request, *more: str) -> str:
    """What tells a request from others with the same key."""
    body = hashlib.sha256(request.state.asked.body).hexdigest()
    return service.digest_of(request.method, request.url.path, *more, body)


def check_round(request: Request) -> None:
    """Refuse a round that is no plain number: one round has one name, by which its reports are counted."""
    if not ROUND.fullmatch(request.path_params.get("round", "0")):
        raise NotFound(f"there is nothing at {shown(request.url.path, 200)}")


def base_of(request: Request) -> str:
    """The address under which the sender knows the server."""
    host = request.headers.get("host", "")
    if not re.fullmatch(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?", host, re.ASCII):
        host = "{}:{}".format(*request.scope.get("server") or ("127.0.0.1", 0))
    return f"{request.scope['scheme']}://{host}"


def within(receive: Receive, most: int) -> Receive:
    """The same messages, until there is more of the body than allowed."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            await refuse_large(most)
        return message

    return counted


async def refuse_large(most: int) -> None:
    """Refuse a body that is larger than the route takes, after a pause: what still comes of it has to be read past."""
    await asyncio.sleep(budgets.PAUSE)
    raise HTTPException(413, f"the body has over {most:,} bytes: at most that many")


def headers(state: State) -> dict[str, str]:
    """What says how new an answer is, and that it is not for others."""
    return {"ETag": f'"{state.number}"', "Cache-Control": "private, no-cache"}


def unchanged(request: Request, state: State | None) -> bool:
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


def find_named(look: Callable[[Any], Made], key: Any) -> Made:
    """What the path names; what is not there is not a wrong field, but not there."""
    try:
        return look(key)
    except InvalidInput as error:
        raise NotFound(str(error)) from None
