"""Ctrl-C ends the program at once while there is no work to lose; later it raises an exception.

An exception can get lost: raised within an import or a callback, somebody may catch it who catches
everything. So at first there is none, and later there is a memory of it.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from heterobandits.cli.exit_codes import EXIT_INTERRUPTED

INTERRUPT_MESSAGE = "heterobandits: interrupted"

_interrupts: list[bool] = []


def exit_on_interrupt(number: int, frame: FrameType | None) -> None:
    """End the program at once."""
    os.write(2, f"{INTERRUPT_MESSAGE}\n".encode())
    os._exit(EXIT_INTERRUPTED)


@contextmanager
def exit_on_interrupts_within() -> Iterator[None]:
    """Within this context, Ctrl-C ends the program at once, if Python was to handle it."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _interrupts.clear()
    signal.signal(signal.SIGINT, exit_on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def raise_on_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise a KeyboardInterrupt, and remember it."""
    _interrupts.append(True)
    raise KeyboardInterrupt


def has_interrupt() -> bool:
    """Whether Ctrl-C was pressed."""
    return bool(_interrupts)


def raise_on_interrupts() -> Callable[[], None]:
    """From now on Ctrl-C raises KeyboardInterrupt; the returned function raises one that got lost."""

    def check() -> None:
        if has_interrupt():
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is exit_on_interrupt:
        signal.signal(signal.SIGINT, raise_on_interrupt)
    return check
