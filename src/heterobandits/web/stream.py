"""A long computation that tells a page how far it is, line by line."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from heterobandits.campaigns.events import OnShare
from heterobandits.errors import InvalidInput
from heterobandits.web.pages.base import PAGE_HEADERS
from heterobandits.web.turns import ClientGone, compute_alone, server_places_of

StreamLine = dict[str, object]

SHARE_MIN_STEP = 0.02  # shares that are told are at least so far apart


def stream_response(request: Request, compute: Callable[[OnShare], str]) -> Response:
    """Stream the progress of a long computation line by line, and at last its markup.

    Lines of JSON: `{"share": 0.1}`, perhaps with what is `said` to whoever waits for others; then `{"html": ...}` or `{"error": ...}`.
    When the reader goes away, the next call of `tell` raises, and so ends the computation.
    """
    unbuffered = PAGE_HEADERS | {"X-Accel-Buffering": "no"}  # nginx would keep it until it is whole
    return StreamingResponse(
        stream_lines(request, compute), 200, unbuffered, "application/x-ndjson"
    )


async def stream_lines(request: Request, compute: Callable[[OnShare], str]) -> AsyncIterator[str]:
    """The lines of such a stream."""
    loop, left = asyncio.get_running_loop(), threading.Event()
    said: asyncio.Queue[StreamLine] = asyncio.Queue()
    told = 0.0

    def tell(done: float) -> None:
        nonlocal told
        if left.is_set():
            raise ClientGone
        if done >= told + SHARE_MIN_STEP:
            told = done
            so_far: StreamLine = {"share": round(done, 2)}
            loop.call_soon_threadsafe(said.put_nowait, so_far)

    async def work() -> None:
        # It goes on until `tell` has raised, so that nothing else is computed before this has ended.
        try:
            said.put_nowait({"html": await compute_alone(request, begun)})
        except (ClientGone, HTTPException):  # gone while it was computed, or before
            pass
        except InvalidInput as error:
            said.put_nowait({"error": str(error)})
        except Exception:
            said.put_nowait(
                {"error": "something unforeseen happened; the server's output says what"}
            )
            raise

    def begun(go_on: OnShare) -> str:
        def both(done: float) -> None:
            go_on(done)
            tell(done)

        both(0.0)
        return compute(both)

    waits = server_places_of(request).long.full
    working = asyncio.create_task(work())
    try:
        more = {"said": "Others are having something computed: yours is next."} if waits else {}
        yield stream_line({"share": 0.0, **more})
        found: StreamLine = {"share": 0.0}
        while "share" in found:
            found = await said.get()
            yield stream_line(found)
        await working
    finally:
        left.set()


def stream_line(found: StreamLine) -> str:
    """A line of JSON."""
    return json.dumps(found) + "\n"
