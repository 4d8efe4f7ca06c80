"""Ctrl-C where an exception would do harm, or get lost: held back, or remembered. And computations that nobody wants any more."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

_LOOK: ContextVar[Callable[[], None]] = ContextVar("look", default=lambda: None)


@contextmanager
def ended_by(look: Callable[[], None]) -> Iterator[None]:
    """Within, what computes for long calls this now and then, which raises once nobody wants it any more."""
    before = _LOOK.set(look)
    try:
        yield
    finally:
        _LOOK.reset(before)


def end_if_unwanted() -> None:
    """What computes for long calls this, several times a second."""
    _LOOK.get()()


def _handler() -> Any:
    """What an interrupt does now; None if nothing of Python's, or not in this thread."""
    handler = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    return handler if here and callable(handler) else None


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Within, an interrupt strikes where the function that it gives is called, or at the end.

    Anywhere else it might strike in the moment between the taking of a lock and the care for giving it back, and those
    who wait for that lock would wait for ever.
    """
    handler = _handler()
    if handler is None:
        yield lambda: None
        return
    struck: list[tuple[int, FrameType | None]] = []

    def strike() -> None:
        if struck:
            handler(*struck.pop())

    signal.signal(signal.SIGINT, lambda number, frame: struck.append((number, frame)))
    try:
        yield strike
    finally:
        signal.signal(signal.SIGINT, handler)
        strike()


@contextmanager
def remembered() -> Iterator[None]:
    """Within, an interrupt that was raised is one in the end, whatever became of it.

    Numba calls Python from C to see what it was given. An exception there may come out as another, or not at all.
    """
    handler = _handler()
    if handler is None:
        yield
        return
    struck = False

    def strike(number: int, frame: FrameType | None) -> None:
        nonlocal struck
        struck = True
        handler(number, frame)

    signal.signal(signal.SIGINT, strike)
    try:
        yield
    except Exception:
        if not struck:
            raise
    finally:
        signal.signal(signal.SIGINT, handler)
    if struck:
        raise KeyboardInterrupt
