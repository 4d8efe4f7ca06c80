"""When links are used: noted at most once an hour for each, once the answer has been sent, and never in anybody's way.

It is no event: who looks at a page changes nothing. What cannot be noted, as in a database that takes no writes, is left out.
"""

import asyncio
import time
from collections import OrderedDict

import anyio
import anyio.to_thread
from fastapi import Request, Response
from starlette.background import BackgroundTask

from heterobandits.campaigns.events import SERVER_LINK, utc_now
from heterobandits.campaigns.storage.store import Store
from heterobandits.errors import InvalidInput
from heterobandits.web.auth import Caller

LINK_USE_PERIOD_S = 3600.0  # seconds in which a link's use is noted once
LINK_USE_RETRY_S = (
    60.0  # seconds after which it is tried again, if others were writing or it failed
)
LINK_USES_MAX_ENTRIES = 10_000  # links of which it is remembered when that was


class LinkUseNotes:
    """Which links have been noted a short while ago, by this process. Its methods are called in the event loop alone."""

    def __init__(self) -> None:
        self._due: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._writing: set[asyncio.Task[None]] = set()

    def is_due(self, campaign: str, link: str) -> bool:
        """Whether a use of the link is to be noted; then it is not for the next minute."""
        moment = time.monotonic()
        if self._due.get((campaign, link), moment) > moment:
            return False
        self._remember(campaign, link, moment + LINK_USE_RETRY_S)
        return True

    def _remember(self, campaign: str, link: str, due: float) -> None:
        self._due[campaign, link] = due
        self._due.move_to_end((campaign, link))
        if len(self._due) > LINK_USES_MAX_ENTRIES:
            self._due.popitem(last=False)

    async def begin(self, store: Store, campaign: str, link: str) -> None:
        """Begin to note a use; whoever asked does not wait for it."""
        task = asyncio.create_task(self.note(store, campaign, link))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def finish(self) -> None:
        """Wait until all uses that were begun are noted: a server that ends has nothing open."""
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def note(self, store: Store, campaign: str, link: str) -> None:
        """Note a use, in a thread that answers nobody."""

        def write() -> bool:
            try:
                return store.note_use(campaign, link, utc_now())
            except InvalidInput:
                return False

        if await anyio.to_thread.run_sync(write, limiter=anyio.CapacityLimiter(1)):
            self._remember(campaign, link, time.monotonic() + LINK_USE_PERIOD_S)


def note_link_use(request: Request, caller: Caller, answer: Response) -> None:
    """Have the use of a link noted after its answer, if that is due."""
    if caller.link == SERVER_LINK or caller.campaign is None or answer.background is not None:
        return
    notes: LinkUseNotes = request.app.state.link_uses
    if notes.is_due(caller.campaign, caller.link):
        store = request.app.state.log.store
        answer.background = BackgroundTask(notes.begin, store, caller.campaign, caller.link)
