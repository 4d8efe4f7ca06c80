"""Who computes when: few things at a time, and links take turns, so that nobody waits for all that somebody else has asked.

There are places for what is quick, for what is large and for what is long, each with threads of its own. Of one link one thing is
computed at a time in each of them, over however many connections it asks; the others of that link wait for each other.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import anyio
import anyio.to_thread
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from heterobandits.campaigns.state import State
from heterobandits.errors import InvalidInput
from heterobandits.interrupts import ended_by
from heterobandits.web.auth import network
from heterobandits.web.errors import Busy

PATIENCE = 20.0  # seconds that one waits while others compute
LONGEST = 10.0  # seconds that something long may be expected to take
GLANCES = 0.25  # seconds between looks whether whoever asked for it is still there
QUICK = (
    2  # that are computed at once: more would take the interpreter from whoever holds the database
)
LARGE = 1_000  # agents times arms: what is asked of all of them takes a tenth of a second or more
MANY = 500  # events that are read, or rows that are written: the same
MUCH = 100_000  # bytes of events that are imported: of a whole season it takes a second or more
READING = ("GET", "HEAD")
GONE = 499  # the status that is counted for whoever left before the answer, as others count it

Made = TypeVar("Made")
Tell = Callable[[float], None]


class Left(Exception):
    """Whoever had asked has gone."""


class Asker(NamedTuple):
    """Who asks: of which campaign, by which link or from where."""

    campaign: str
    link: str


@dataclass(eq=False)
class Waiting:
    """Somebody who waits for a place, since a turn."""

    asker: Asker
    came: int
    loop: asyncio.AbstractEventLoop
    called: asyncio.Event


class Turns:
    """So many places, of which a link has one at a time. Any number of threads may use it.

    The next place goes to whoever came first, but a campaign that had one since comes after all who came before that; so do the
    links of a campaign among each other.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[Waiting] = []
        self._holding: set[Asker] = set()
        self._turn = 0
        self._last: dict[
            str | Asker, int
        ] = {}  # after which turn a campaign, or link, had its last
        self._lock = threading.Lock()

    @property
    def full(self) -> bool:
        """Whether somebody who comes now has to wait."""
        return self._free == 0

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[None]:
        """Within, a place is held. Whoever has waited too long is told so; whoever has left gets none."""
        with self._lock:
            event = asyncio.Event()
            one = Waiting(asker_of(request), self._turn, asyncio.get_running_loop(), event)
            self._waiting.append(one)
            self._call_next()
            waits = one in self._waiting
        try:
            if waits:
                await patiently(one.called)
                if await request.is_disconnected():
                    raise HTTPException(GONE, "whoever asked has left")
                await admit_again(request)
            yield
        finally:
            with self._lock:
                if one in self._waiting:
                    self._waiting.remove(one)
                else:
                    self._free += 1
                    self._holding.remove(one.asker)
                self._call_next()

    def _call_next(self) -> None:
        """Give out the places that are free."""
        while self._free:
            able = [one for one in self._waiting if one.asker not in self._holding]
            if not able:
                break
            one = min(able, key=self._since)
            self._waiting.remove(one)
            self._free -= 1
            self._holding.add(one.asker)
            self._turn += 1
            self._last[one.asker] = self._last[one.asker.campaign] = self._turn + 1
            if not one.loop.is_closed():
                one.loop.call_soon_threadsafe(one.called.set)
        if not self._waiting:
            self._last.clear()  # nobody is in anybody's way

    def _since(self, one: Waiting) -> tuple[int, int]:
        last, came = self._last, one.came
        return max(came, last.get(one.asker.campaign, 0)), max(came, last.get(one.asker, 0))


async def admit_again(request: Request) -> None:
    """Refuse a link that has ended while its request waited, or was worked on."""
    again = getattr(request.state, "again", None)
    if again is not None:
        await again()


async def patiently(called: asyncio.Event) -> None:
    """Wait for one's turn, but not for ever."""
    try:
        with anyio.fail_after(PATIENCE):
            await called.wait()
    except TimeoutError:
        raise Busy(
            "others, or your own link, are having something long computed: try again in a moment"
        ) from None


class Places:
    """The places of a server."""

    def __init__(self) -> None:
        self.quick = Turns(QUICK)
        self.writing = Turns(1)  # of those that are quick
        self.health = Turns(1)
        self.large = Turns(1)
        self.long = Turns(1)


def asker_of(request: Request) -> Asker:
    """Who asks: by the link that was admitted, else by where they come from."""
    asked = getattr(request.state, "asked", None)
    campaign = request.path_params.get("campaign", "")
    if asked is None:
        return Asker(campaign, network(request.client.host if request.client else None))
    return Asker(campaign, asked.caller.link)


async def beside(request: Request, compute: Callable[..., Made], *given: Any) -> Made:
    """What something quick that writes nothing comes to, beside other quick things."""
    async with places_of(request).quick.turn(request):
        return await run_in_threadpool(compute, *given)


async def write_in_turn(request: Request, write: Callable[..., Made], *given: Any) -> Made:
    """What something quick comes to that may write."""
    async with quickly(request):
        return await run_in_threadpool(write, *given)


@asynccontextmanager
async def quickly(request: Request) -> AsyncIterator[None]:
    """Within, a place for what is quick is held. One at a time may write there: while the database is locked others can read."""
    places = places_of(request)
    async with AsyncExitStack() as held:
        if request.method not in READING:
            await held.enter_async_context(places.writing.turn(request))
        await held.enter_async_context(places.quick.turn(request))
        yield


def asks_much(state: State, constraints: int = 0) -> bool:
    """Whether a question about all agents and arms, under so many constraints, is in the way of what is quick."""
    return len(state.rows) * len(state.arms) * max(1, constraints) > LARGE


async def computed(
    request: Request,
    state: State,
    compute: Callable[[], Made],
    events: int = 0,
    constraints: int = 0,
) -> Made:
    """What a question about all agents and arms comes to, for which so many events are folded, or rows written.

    Of a large campaign it is not in the way of what is quick.
    """
    return await sized(request, compute, asks_much(state, constraints) or events > MANY)


async def sized(request: Request, compute: Callable[[], Made], large: bool) -> Made:
    """What something comes to, in the place for what is large or in one for what is quick."""
    if large:
        return await compute_while_wanted(places_of(request).large, request, lambda tell: compute())
    return await beside(request, compute)


async def alone(request: Request, compute: Callable[[Tell], Made]) -> Made:
    """What a long computation comes to, one at a time. It tells how far it is, now and then, which may end it."""
    return await compute_while_wanted(places_of(request).long, request, compute)


async def compute_while_wanted(
    turns: Turns, request: Request, compute: Callable[[Tell], Made]
) -> Made:
    """What it comes to in a thread of its own, as long as somebody wants it.

    It ends when it looks up and whoever asked has left, when others would wait for it in vain, and when the server ends.
    """
    left = threading.Event()

    def computing() -> Made:
        began = time.monotonic()

        def tell(share: float) -> None:
            if left.is_set():
                raise Left
            if time.monotonic() - began > PATIENCE:
                raise InvalidInput(
                    f"to compute this takes longer than {PATIENCE:g} seconds, and others wait: use `heterobandits campaign`"
                )

        with ended_by(lambda: tell(0.0)):
            return compute(tell)

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(GLANCES)
        left.set()

    watching = asyncio.create_task(watch())
    try:
        return await apart(turns, request, computing)
    except Left:
        raise HTTPException(GONE, "whoever asked has left") from None
    finally:
        left.set()  # for a server that ends waits no longer, but for its threads
        watching.cancel()


async def apart(turns: Turns, request: Request, compute: Callable[[], Made]) -> Made:
    """What it comes to, in a thread of its own; nothing for a link that has ended meanwhile, unless it has written."""
    async with turns.turn(request):
        made = await anyio.to_thread.run_sync(compute, limiter=anyio.CapacityLimiter(1))
        if request.method in READING:
            await admit_again(request)
        return made


def places_of(request: Request) -> Places:
    """The places of the server that is asked."""
    places: Places = request.app.state.places
    return places
