"""Computations that take long: one at a time, in a thread of its own, so that whoever reports need not wait."""

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from fastapi import Request
from starlette.concurrency import run_in_threadpool

from heterobandits.campaigns.state import State
from heterobandits.web.problems import Busy

PATIENCE = 20.0  # seconds that one waits while another computes
LARGE = 1_000  # agents times arms: what is asked of all of them takes a tenth of a second or more

Made = TypeVar("Made")


async def computed(request: Request, state: State, compute: Callable[[], Made]) -> Made:
    """What a question about all agents and arms comes to: of a large campaign alone, of others beside the rest."""
    if len(state.rows) * len(state.arms) > LARGE:
        return await alone(request, compute)
    return await run_in_threadpool(compute)


async def alone(request: Request, compute: Callable[[], Made]) -> Made:
    """What a long computation comes to; whoever has waited too long for others is told so."""
    limiter: anyio.CapacityLimiter = request.app.state.long
    try:
        with anyio.fail_after(PATIENCE):
            await limiter.acquire_on_behalf_of(request)
    except TimeoutError:
        raise Busy("others are having something long computed: try again in a moment") from None
    try:
        return await anyio.to_thread.run_sync(compute, limiter=anyio.CapacityLimiter(1))
    finally:
        limiter.release_on_behalf_of(request)
