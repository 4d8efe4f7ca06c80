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


def end_abandoned_work() -> None:
    """What computes for long calls this, several times a second."""
    _LOOK.get()()


def _interrupt_handler() -> Any:
    """The current handler of interrupts; None if it is not Python's, or this is another thread."""
    handler = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    return handler if here and callable(handler) else None


@contextmanager
def hold_back_interrupts() -> Iterator[Callable[[], None]]:
    """Within this context, an interrupt takes effect only where the yielded function is called, or at the end.

    Anywhere else it might strike in the moment between the taking of a lock and the care for giving it back, and those
    who wait for that lock would wait for ever.
    """
    handler = _interrupt_handler()
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
def remember_interrupts() -> Iterator[None]:
    """Within this context, an interrupt that was swallowed is raised at the end.

    Numba calls Python from C to see what it was given. An exception there may come out as another, or not at all.
    """
    handler = _interrupt_handler()
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
