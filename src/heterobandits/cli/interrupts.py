"""Ctrl-C: it ends the program at once until there is work to lose, and then it is an exception.

An exception can get lost: raised within an import or a callback, somebody may catch it who catches
everything. So at first there is none, and later there is a memory of it.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
MESSAGE = "heterobandits: interrupted"

_asked: list[bool] = []


def end_at_once(number: int, frame: FrameType | None) -> None:
    """End the program at once."""
    os.write(2, f"{MESSAGE}\n".encode())
    os._exit(INTERRUPTED)


@contextmanager
def at_once() -> Iterator[None]:
    """Within, Ctrl-C ends the program at once, if it was Python's to handle."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _asked.clear()
    signal.signal(signal.SIGINT, end_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise a KeyboardInterrupt, and remember it."""
    _asked.append(True)
    raise KeyboardInterrupt


def asked() -> bool:
    """Whether there was one."""
    return bool(_asked)


def raised() -> Callable[[], None]:
    """From now on Ctrl-C is a KeyboardInterrupt; the function returned raises one that got lost."""

    def check() -> None:
        if asked():
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, interrupt)
    return check
