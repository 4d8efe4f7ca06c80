"""What happens to a request before its route does its work. There is one guard for programs and for people.

It admits whoever sends the request, bounds and reads the body, looks again if that was slow, waits for the link's turn and then
lets the route answer. `api.base` and `pages.base` say where the sender's tokens are and how a body is read. The guard reads nothing
of a body before it knows the sender, and a route that is not in the table of `auth` opens for nobody.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from heterobandits.caches import cached_property
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.errors import InvalidInput
from heterobandits.web.auth import (
    ALL_RULES_ROUTES,
    OWN_RULE_ROUTES,
    REPORT_ROUTES,
    WHY_ROUTES,
    Admission,
    BadTokenBackoff,
    Caller,
    Gate,
    body_max_bytes,
    is_public,
)
from heterobandits.web.budgets import REFUSAL_PAUSE_S, refuse_too_many, spend_bytes
from heterobandits.web.errors import (
    BodyTooLarge,
    GettingReady,
    NotAdmitted,
    NotFound,
    missing_page_error,
)
from heterobandits.web.link_uses import note_link_use
from heterobandits.web.request_fields import BodyRequest, Form
from heterobandits.web.turns import (
    CLIENT_GONE_STATUS,
    LARGE_MIN_IMPORT_BYTES,
    admit_again,
    admit_who_looks,
    compute_by_size,
    hold_quick_place,
)
from heterobandits.web.warmup import Warmup

ROUTE_KEY = "heterobandits.route"  # where a request keeps the template of its path
NUMBER = re.compile(r"\d{1,18}", re.ASCII)  # Python does not read a number of thousands of digits
HOST = re.compile(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?", re.ASCII)

FoundItem = TypeVar("FoundItem")
RequestHandler = Callable[[Request], Awaitable[Response]]


@dataclass
class RequestContext:
    """A request that was admitted: who asks, of which campaign as it stands; and, once the guard has read it, with what body."""

    log: Repository
    caller: Caller
    campaign: State | None
    asker: Author
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
    def where(self) -> tuple[Repository, str, Author]:
        """What every change of that campaign begins with."""
        return self.log, self.id, self.asker

    @cached_property
    def form(self) -> Form:
        """The fields of the query; of the body, once a page has read one."""
        return Form(self.query)

    def agent(self, key: str) -> int:
        """The number of the agent that the path names."""
        return find_in_path(self.state.agent, key)

    def arm(self, key: str) -> int:
        """The number of the arm that the path names."""
        return find_in_path(self.state.arm, key)


class LaterAnswer(Response):
    """What a route that may write returns, if the answer takes a while to draw: the guard draws it once the turn to write is over."""

    def __init__(self, draw: Callable[[], Response], *, large: bool) -> None:
        super().__init__()
        self.draw = draw
        self.large = large


class GuardedRoute(APIRoute):
    """A route that checks tokens."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The guard, and behind it what the framework does."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            request.scope[ROUTE_KEY] = self.path_format
            try:
                return await self.answer(request, handle)
            except ClientDisconnect:
                return Response(status_code=CLIENT_GONE_STATUS)

        return guarded

    def tokens(self, request: Request) -> Sequence[str]:
        """The tokens that came with a request."""
        raise NotImplementedError

    def read(self, request: BodyRequest) -> None:
        """Note what a body says, and what makes sending it twice harmless. It takes time: threads do it."""
        raise NotImplementedError

    async def answer(self, request: Request, handle: RequestHandler) -> Response:
        """Admit the sender, if the route is not for everybody."""
        if is_public(request.method, self.path_format):
            return await self.answer_in_turn(request, handle)
        await admit_or_slow_down(request, self.path_format, self.tokens(request))
        refuse_until_ready(request, self.path_format)
        if not NUMBER.fullmatch(request.path_params.get("round", "0")):
            # one round has one name, by which its reports are counted
            raise missing_page_error(request)
        answer = await self.answer_admitted(request, handle)
        note_link_use(request, request.state.asked.caller, answer)
        return answer

    async def answer_admitted(self, request: Request, handle: RequestHandler) -> Response:
        """Bound the body and take it in; who only looks need not send it."""
        most = body_max_bytes(request.method, self.path_format)
        await check_length(request, most)
        if request.method == "GET":
            return await self.answer_in_turn(request, handle)
        request = BodyRequest(request.scope, limit_body(request.receive, most))
        request.state.asked.body = await receive_body(request)
        await refuse_too_many(request)
        return await self.answer_in_turn(request, handle)

    async def answer_in_turn(self, request: Request, handle: RequestHandler) -> Response:
        """Read the body and answer, each when it is the link's turn: who reads is in the way of nobody who writes.

        What is asynchronous takes its turns itself, where it computes.
        """
        if isinstance(request, BodyRequest):
            body = request.state.asked.body
            await compute_by_size(
                request, partial(self.read, request), len(body) > LARGE_MIN_IMPORT_BYTES
            )
        if asyncio.iscoroutinefunction(self.endpoint):
            answer = await handle(request)
        else:
            async with hold_quick_place(request):
                answer = await handle(request)
                await admit_who_looks(request)
        if isinstance(answer, LaterAnswer):
            return await compute_by_size(request, answer.draw, answer.large)
        return answer


async def context_of_request(request: Request) -> RequestContext:
    """The admitted request that the guard has stored."""
    found: RequestContext = request.state.asked
    return found


Context = Annotated[RequestContext, Depends(context_of_request)]


async def admit_or_slow_down(request: Request, route: str, tokens: Sequence[str]) -> None:
    """Note who asks, if the first of these tokens that opens anything opens this; whoever has only bad ones waits for the answer."""
    gate: Gate = request.app.state.gate
    campaign = request.path_params.get("campaign")

    async def look(*tokens: str) -> Admission:
        return await run_in_threadpool(gate.admitted, tokens, request.method, route, campaign)

    try:
        found = await look(*tokens)
    except NotAdmitted:
        if tokens:
            await delay_bad_token(request)
        raise
    caller = found.caller
    spend = partial(spend_bytes, request)
    asker = Author(caller.who, link=caller.link, owner=caller.owner, spend=spend)
    request.state.asked = RequestContext(
        request.app.state.log,
        caller,
        found.state,
        asker,
        base_url_of(request),
        request.scope["query_string"],
    )
    request.state.again = partial(look, found.token)


def refuse_until_ready(request: Request, route: str) -> None:
    """Refuse what needs rules that are not loaded yet."""
    warmup: Warmup | None = request.app.state.warmup
    if warmup is None or warmup.ready:
        return
    asked, needs = request.state.asked, (request.method, route)
    if needs in ALL_RULES_ROUTES or (
        needs_own_rule(request, needs) and not warmup.has_rule(asked.state.policy.name)
    ):
        progress = warmup.progress
        raise GettingReady(f"the server is getting ready: {progress.text}", progress)


def needs_own_rule(request: Request, route: tuple[str, str]) -> bool:
    """Whether a request needs the kernels of its campaign's own rule."""
    if route in REPORT_ROUTES:
        asked: RequestContext = request.state.asked
        return asked.state.on_change == "forget"
    return route in OWN_RULE_ROUTES or (route in WHY_ROUTES and is_why_asked(request))


def is_why_asked(request: Request) -> bool:
    """Whether the full explanation of a round is wanted."""
    return "why" in Form(request.url.query.encode()).fields


async def delay_bad_token(request: Request) -> None:
    """Delay the answer to a bad token."""
    slowing: BadTokenBackoff = request.app.state.slowing
    await asyncio.sleep(slowing.seconds(request.client.host if request.client else None))


async def check_length(request: Request, most: int) -> None:
    """Refuse a body that says that it is larger than allowed."""
    length = request.headers.get("content-length", "0")
    if "transfer-encoding" in request.headers:  # it does not say how long it is
        length = str(most + (request.method == "GET"))
    if not NUMBER.fullmatch(length) or int(length) > most:
        await refuse_large_body(most)


async def receive_body(request: Request) -> bytes:
    """Wait for the body of a request, whose link still holds: if it was not there yet, the link may have ended while it came."""
    waited: list[bool] = []
    asyncio.get_running_loop().call_soon(waited.append, True)  # which runs if we wait
    body = await request.body()
    if waited:
        await admit_again(request)
    return body


def limit_body(receive: Receive, most: int) -> Receive:
    """Pass messages on until the body exceeds the limit."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            await refuse_large_body(most)
        return message

    return counted


async def refuse_large_body(most: int) -> None:
    """Refuse a body that is too large for its route, after a pause: whatever still arrives of it has to be read."""
    await asyncio.sleep(REFUSAL_PAUSE_S)
    raise BodyTooLarge(f"the body has over {most:,} bytes: at most that many")


def digest_of_request(request: Request, *more: str) -> str:
    """A digest that tells apart requests with the same key."""
    body = hashlib.sha256(request.state.asked.body).hexdigest()
    return digest_of(request.method, request.url.path, *more, body)


def digest_of(*parts: str) -> str:
    """A digest that tells apart requests with the same idempotency key."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def base_url_of(request: Request) -> str:
    """The address at which the sender reaches the server."""
    host = request.headers.get("host", "")
    if not HOST.fullmatch(host):
        host = "{}:{}".format(*request.scope.get("server") or ("127.0.0.1", 0))
    return f"{request.scope['scheme']}://{host}"


def find_in_path(look: Callable[[Any], FoundItem], key: Any) -> FoundItem:
    """Find what the path names; a missing one is 404, not a wrong field."""
    try:
        return look(key)
    except InvalidInput as error:
        raise NotFound(str(error)) from None
