"""Who computes when: few computations at a time, and links take turns, so that nobody waits for all of another's requests.

There are places for what is quick, for what is large and for what is long, each with threads of its own. Of one link one thing is
computed at a time in each of them, over however many connections it asks; the others of that link wait for each other.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import anyio
import anyio.to_thread
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from heterobandits.campaigns.events import OnShare
from heterobandits.campaigns.state import State
from heterobandits.errors import InvalidInput
from heterobandits.interrupts import ended_by
from heterobandits.model.belief_cells import count_cells
from heterobandits.web.auth import network_of
from heterobandits.web.errors import ServerBusy

TURN_TIMEOUT_S = 20.0  # seconds that one waits while others compute
COMPUTATION_MAX_S = 20.0  # seconds that one computes at most
LONG_COMPUTATION_MAX_S = 10.0  # seconds that something long may be expected to take
DISCONNECT_POLL_S = 0.25  # seconds between looks whether whoever asked for it is still there
QUICK_PLACES = (
    2  # that are computed at once: more would take the interpreter from whoever holds the database
)
LARGE_PLACES = 2  # that are computed at once: one link holds one of them at most
# agents times arms: what is asked of all of them takes a tenth of a second or more
LARGE_MIN_PAIRS = 500
LARGE_MIN_CELLS = 100_000  # in which the means of all arms may lie: the same
LARGE_MIN_EVENTS = 500  # events that are read, or rows that are written: the same
# bytes of events that are imported: of a whole season it takes a second or more
LARGE_MIN_IMPORT_BYTES = 100_000
# bytes of a new campaign: of a hundred arms with priors in words to look at takes a tenth of a second
LARGE_MIN_FORM_BYTES = 2_000
READING_METHODS = ("GET", "HEAD")
# the status that is counted for whoever left before the answer, as others count it
CLIENT_GONE_STATUS = 499

Computed = TypeVar("Computed")


class ClientGone(Exception):
    """The client has disconnected."""


class TurnHolder(NamedTuple):
    """Who takes turns: a link of a campaign, or a network."""

    campaign: str
    link: str


@dataclass(eq=False)
class WaitingRequest:
    """A request that waits for a place."""

    asker: TurnHolder
    came: int
    loop: asyncio.AbstractEventLoop
    called: asyncio.Event


class TurnQueue:
    """A number of places, of which each link has one at a time. Any number of threads may use it.

    The next place goes to whoever came first, but a campaign that had one since comes after all who came before that; so do the
    links of a campaign among each other.

    A place may be one of another queue as well, whose link has no other there. Then it is given out once both are free: nobody
    holds the one and waits for the other. They come before all who want only that other place.
    """

    def __init__(self, places: int, within: "TurnQueue | None" = None) -> None:
        self._free = places
        self._within = within
        self._parts: list[TurnQueue] = []  # whose places are places of this one as well
        if within is not None:
            within._parts.append(self)
        self._waiting: list[WaitingRequest] = []
        self._holding: set[TurnHolder] = set()
        self._turn = 0
        self._last: dict[
            str | TurnHolder, int
        ] = {}  # after which turn a campaign, or link, had its last
        self._lock: threading.Lock = threading.Lock() if within is None else within._lock

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
            one = WaitingRequest(
                turn_holder_of(request), self._turn, asyncio.get_running_loop(), event
            )
            self._waiting.append(one)
            self._call_next()
            waits = one in self._waiting
        try:
            if waits:
                await limit_wait(one.called)
                if await request.is_disconnected():
                    raise HTTPException(CLIENT_GONE_STATUS, "whoever asked has left")
                await admit_again(request)
            yield
        finally:
            with self._lock:
                if one in self._waiting:
                    self._waiting.remove(one)
                else:
                    self._give_back(one.asker)
                (self._within or self)._call_next()

    def _may_hold(self, asker: TurnHolder) -> bool:
        """Whether a place is free for a link."""
        free = self._free > 0 and asker not in self._holding
        return free and (self._within is None or self._within._may_hold(asker))

    def _take(self, asker: TurnHolder) -> None:
        self._free -= 1
        self._holding.add(asker)
        if self._within is not None:
            self._within._take(asker)

    def _give_back(self, asker: TurnHolder) -> None:
        self._free += 1
        self._holding.remove(asker)
        if self._within is not None:
            self._within._give_back(asker)

    def _call_next(self) -> None:
        """Give out the places that are free."""
        for part in self._parts:
            part._call_next()
        while self._free:
            able = [one for one in self._waiting if self._may_hold(one.asker)]
            if not able:
                break
            one = min(able, key=self._since)
            self._waiting.remove(one)
            self._take(one.asker)
            self._turn += 1
            self._last[one.asker] = self._last[one.asker.campaign] = self._turn + 1
            if not one.loop.is_closed():
                one.loop.call_soon_threadsafe(one.called.set)
        if not self._waiting:
            self._last.clear()  # nobody is in anybody's way

    def _since(self, one: WaitingRequest) -> tuple[int, int]:
        last, came = self._last, one.came
        return max(came, last.get(one.asker.campaign, 0)), max(came, last.get(one.asker, 0))


async def admit_again(request: Request) -> None:
    """Refuse a link that has ended while its request waited, or was worked on."""
    again = getattr(request.state, "again", None)
    if again is not None:
        await again()


async def admit_who_looks(request: Request) -> None:
    """The same for a request that has written nothing."""
    if request.method in READING_METHODS or getattr(request.state, "only_looks", False):
        await admit_again(request)


async def limit_wait(called: asyncio.Event) -> None:
    """Wait for a turn, but not for ever."""
    try:
        with anyio.fail_after(TURN_TIMEOUT_S):
            await called.wait()
    except TimeoutError:
        raise ServerBusy(
            "others, or your own link, are having something long computed: try again in a moment"
        ) from None


class ServerPlaces:
    """The places of a server."""

    def __init__(self, large: int = LARGE_PLACES) -> None:
        self.quick = TurnQueue(QUICK_PLACES)
        # of those that are quick: only one may write at a time, others can read while the database is locked
        self.writing = TurnQueue(1, within=self.quick)
        self.health = TurnQueue(1)
        self.large = TurnQueue(large)
        self.long = TurnQueue(1)


def turn_holder_of(request: Request) -> TurnHolder:
    """Whose turn a request takes: its link's, or else its network's."""
    asked = getattr(request.state, "asked", None)
    campaign = request.path_params.get("campaign", "")
    if asked is None:
        return TurnHolder(campaign, network_of(request.client.host if request.client else None))
    return TurnHolder(campaign, asked.caller.link)


async def compute_quick(
    request: Request, compute: Callable[..., Computed], *given: Any
) -> Computed:
    """What something quick that writes nothing comes to, beside other quick things; nothing for a link that has ended meanwhile."""
    async with server_places_of(request).quick.turn(request):
        made = await run_in_threadpool(compute, *given)
        await admit_who_looks(request)
        return made


async def write_in_turn(request: Request, write: Callable[..., Computed], *given: Any) -> Computed:
    """What something quick comes to that may write."""
    async with hold_quick_place(request):
        return await run_in_threadpool(write, *given)


@asynccontextmanager
async def hold_quick_place(request: Request) -> AsyncIterator[None]:
    """Hold a place for quick work: one to write, unless the request can only read."""
    places = server_places_of(request)
    reads = request.method in READING_METHODS
    async with (places.quick if reads else places.writing).turn(request):
        yield


def asks_much(state: State, constraints: int = 0) -> bool:
    """Whether a question about all agents and arms, under so many constraints, is in the way of what is quick."""
    pairs = len(state.rows) * len(state.arms) * max(1, constraints)
    under_way = len(state.rows) * len(state.waiting)  # a plan looks at each of these visits
    if max(pairs, under_way) > LARGE_MIN_PAIRS:
        return True
    cells = count_cells(state.prior, float(state.pulls.sum(axis=0).max(initial=0)))
    return len(state.arms) * cells > LARGE_MIN_CELLS


def lists_many(state: State) -> bool:
    """Whether a list of all agents, arms and links is in the way of what is quick."""
    return len(state.rows) + len(state.arms) + len(state.links) > LARGE_MIN_EVENTS


async def compute_for_state(
    request: Request,
    state: State,
    compute: Callable[[], Computed],
    events: int = 0,
    constraints: int = 0,
) -> Computed:
    """Answer a question about all agents and arms, which folds so many events or writes so many rows.

    Of a large campaign it is not in the way of what is quick.
    """
    return await compute_by_size(
        request, compute, asks_much(state, constraints) or events > LARGE_MIN_EVENTS
    )


async def compute_by_size(
    request: Request, compute: Callable[[], Computed], large: bool
) -> Computed:
    """Compute something in the place for large work, or in one for quick work."""
    if large:
        return await compute_for_waiting_client(
            server_places_of(request).large, request, lambda tell: compute()
        )
    return await compute_quick(request, compute)


async def compute_alone(request: Request, compute: Callable[[OnShare], Computed]) -> Computed:
    """What a long computation comes to, one at a time. It tells how far it is, now and then, which may end it."""
    return await compute_for_waiting_client(server_places_of(request).long, request, compute)


async def compute_for_waiting_client(
    turns: TurnQueue, request: Request, compute: Callable[[OnShare], Computed]
) -> Computed:
    """What it comes to in a thread of its own, as long as somebody wants it.

    It ends when it looks up and whoever asked has left, when others would wait for it in vain, and when the server ends.
    """
    left = threading.Event()

    def computing() -> Computed:
        began = time.monotonic()

        def tell(share: float) -> None:
            if left.is_set():
                raise ClientGone
            if time.monotonic() - began > COMPUTATION_MAX_S:
                raise InvalidInput(
                    f"to compute this takes longer than {COMPUTATION_MAX_S:g} seconds, and others wait: use `heterobandits campaign`"
                )

        with ended_by(lambda: tell(0.0)):
            return compute(tell)

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(DISCONNECT_POLL_S)
        left.set()

    watching = asyncio.create_task(watch())
    try:
        return await compute_in_thread(turns, request, computing)
    except ClientGone:
        raise HTTPException(CLIENT_GONE_STATUS, "whoever asked has left") from None
    finally:
        left.set()  # for a server that ends waits no longer, but for its threads
        watching.cancel()


async def compute_in_thread(
    turns: TurnQueue, request: Request, compute: Callable[[], Computed]
) -> Computed:
    """What it comes to, in a thread of its own; nothing for a link that has ended meanwhile, unless it has written."""
    async with turns.turn(request):
        made = await anyio.to_thread.run_sync(compute, limiter=anyio.CapacityLimiter(1))
        await admit_who_looks(request)
        return made


def server_places_of(request: Request) -> ServerPlaces:
    """The places of the server that is asked."""
    places: ServerPlaces = request.app.state.places
    return places
