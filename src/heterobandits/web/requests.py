"""What happens to a request before its route does its work. There is one guard for programs and for people.

It admits whoever sends the request, bounds and reads the body, looks again if that was slow, waits for the link's turn and then
lets the route answer. `api.base` and `pages.base` say where the sender's tokens are and how a body is read. The guard reads nothing
of a body before it knows the sender, and a route that is not in the table of `auth` opens for nobody.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from heterobandits.campaigns import service
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Log
from heterobandits.campaigns.storage.repository import Request as Asker
from heterobandits.errors import InvalidInput
from heterobandits.web.auth import Admission, Caller, Gate, Slowing, is_open, most_body
from heterobandits.web.budgets import PAUSE, refuse_too_many, spend_bytes
from heterobandits.web.errors import NotAdmitted, NotFound, TooLarge, nothing_at
from heterobandits.web.request_fields import BodyRequest, Form
from heterobandits.web.turns import GONE, MUCH, admit_again, quickly, sized

ROUTE = "heterobandits.route"  # where a request keeps the template of its path
NUMBER = re.compile(r"\d{1,18}", re.ASCII)  # Python does not read a number of thousands of digits
HOST = re.compile(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?", re.ASCII)

Made = TypeVar("Made")
Handle = Callable[[Request], Awaitable[Response]]


@dataclass
class Asked:
    """A request that was admitted: who asks, of which campaign as it stands; and, once the guard has read it, with what body."""

    log: Log
    caller: Caller
    campaign: State | None
    asker: Asker
    base: str = ""
    query: bytes = b""
    body: bytes = b""

    @property
    def state(self) -> State:
        """The campaign that the path names, as it stood when the request came."""
        assert self.campaign is not None, "the route names a campaign"
        return self.campaign

    @property
    def id(self) -> str:
        """Of that campaign."""
        return self.state.campaign

    @property
    def where(self) -> tuple[Log, str, Asker]:
        """What every change of that campaign begins with."""
        return self.log, self.id, self.asker

    @cached_property
    def form(self) -> Form:
        """The fields of the query; of the body, once a page has read one."""
        return Form(self.query)

    def agent(self, key: str) -> int:
        """The number of the agent that the path names."""
        return find_named(self.state.agent, key)

    def arm(self, key: str) -> int:
        """The number of the arm that the path names."""
        return find_named(self.state.arm, key)


class GuardedRoute(APIRoute):
    """A route behind the gate."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The guard, and behind it what the framework does."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            request.scope[ROUTE] = self.path_format
            try:
                return await self.answer(request, handle)
            except ClientDisconnect:
                return Response(status_code=GONE)

        return guarded

    def tokens(self, request: Request) -> Sequence[str]:
        """The tokens that came with a request."""
        raise NotImplementedError

    def read(self, request: BodyRequest) -> None:
        """Note what a body says, and what makes sending it twice harmless. It takes time: threads do it."""
        raise NotImplementedError

    async def answer(self, request: Request, handle: Handle) -> Response:
        """Admit the sender, if the route is not for everybody."""
        if is_open(request.method, self.path_format):
            return await self.answer_in_turn(request, handle)
        await admit(request, self.path_format, self.tokens(request))
        if not NUMBER.fullmatch(request.path_params.get("round", "0")):
            raise nothing_at(request)  # one round has one name, by which its reports are counted
        return await self.answer_admitted(request, handle)

    async def answer_admitted(self, request: Request, handle: Handle) -> Response:
        """Bound the body and take it in; who only looks need not send it."""
        most = most_body(request.method, self.path_format)
        await check_length(request, most)
        if request.method == "GET":
            return await self.answer_in_turn(request, handle)
        request = BodyRequest(request.scope, within(request.receive, most))
        request.state.asked.body = await receive_body(request)
        await refuse_too_many(request)
        return await self.answer_in_turn(request, handle)

    async def answer_in_turn(self, request: Request, handle: Handle) -> Response:
        """Read the body and answer, each when it is the link's turn: who reads is in the way of nobody who writes.

        What is asynchronous takes its turns itself, where it computes.
        """
        if isinstance(request, BodyRequest):
            body = request.state.asked.body
            await sized(request, partial(self.read, request), len(body) > MUCH)
        if asyncio.iscoroutinefunction(self.endpoint):
            return await handle(request)
        async with quickly(request):
            return await handle(request)


async def asked_of(request: Request) -> Asked:
    """What the guard found out."""
    found: Asked = request.state.asked
    return found


Asking = Annotated[Asked, Depends(asked_of)]


async def admit(request: Request, route: str, tokens: Sequence[str]) -> None:
    """Note who asks, if the first of these tokens that opens anything opens this; whoever has only bad ones waits for the answer."""
    gate: Gate = request.app.state.gate
    campaign = request.path_params.get("campaign")

    async def look(*tokens: str) -> Admission:
        return await run_in_threadpool(gate.admitted, tokens, request.method, route, campaign)

    try:
        found = await look(*tokens)
    except NotAdmitted:
        if tokens:
            await slow_down(request)
        raise
    caller = found.caller
    spend = partial(spend_bytes, request)
    asker = Asker(caller.who, link=caller.link, owner=caller.owner, spend=spend)
    request.state.asked = Asked(
        request.app.state.log,
        caller,
        found.state,
        asker,
        base_of(request),
        request.scope["query_string"],
    )
    request.state.again = partial(look, found.token)


async def slow_down(request: Request) -> None:
    """Wait as long as the sender of a bad token has to."""
    slowing: Slowing = request.app.state.slowing
    await asyncio.sleep(slowing.seconds(request.client.host if request.client else None))


async def check_length(request: Request, most: int) -> None:
    """Refuse a body that says that it is larger than allowed."""
    length = request.headers.get("content-length", "0")
    if "transfer-encoding" in request.headers:  # it does not say how long it is
        length = str(most + (request.method == "GET"))
    if not NUMBER.fullmatch(length) or int(length) > most:
        await refuse_large(most)


async def receive_body(request: Request) -> bytes:
    """Wait for the body of a request, whose link still holds: if it was not there yet, the link may have ended while it came."""
    waited: list[bool] = []
    asyncio.get_running_loop().call_soon(waited.append, True)  # which runs if we wait
    body = await request.body()
    if waited:
        await admit_again(request)
    return body


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
    await asyncio.sleep(PAUSE)
    raise TooLarge(f"the body has over {most:,} bytes: at most that many")


def digest_of_request(request: Request, *more: str) -> str:
    """What tells a request from others with the same key."""
    body = hashlib.sha256(request.state.asked.body).hexdigest()
    return service.digest_of(request.method, request.url.path, *more, body)


def base_of(request: Request) -> str:
    """The address under which the sender knows the server."""
    host = request.headers.get("host", "")
    if not HOST.fullmatch(host):
        host = "{}:{}".format(*request.scope.get("server") or ("127.0.0.1", 0))
    return f"{request.scope['scheme']}://{host}"


def find_named(look: Callable[[Any], Made], key: Any) -> Made:
    """What the path names; what is not there is not a wrong field, but not there."""
    try:
        return look(key)
    except InvalidInput as error:
        raise NotFound(str(error)) from None
