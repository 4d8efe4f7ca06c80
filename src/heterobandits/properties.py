"""Properties of objects that never change, worked out once."""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

Derived = TypeVar("Derived")


class cached_property(functools.cached_property[Derived]):  # noqa: N801
    """The same without the lock that Python 3.11 has: one for all objects of a class, so that whoever asks one waits for any other.

    Two threads that ask the same object at once may both work it out, as from Python 3.12 on.
    """

    def __init__(self, derive: Callable[[Any], Derived]) -> None:
        super().__init__(derive)
        self.lock = nullcontext()
