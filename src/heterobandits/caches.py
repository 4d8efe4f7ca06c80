"""What is worked out once and kept at hand: properties of objects that never change, and caches of bounded size."""

import functools
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Generic, TypeVar

Derived = TypeVar("Derived")
Remembered = TypeVar("Remembered")


class cached_property(functools.cached_property[Derived]):  # noqa: N801
    """The same without the lock that Python 3.11 has: one for all objects of a class, so that whoever asks one waits for any other.

    Two threads that ask the same object at once may both work it out, as from Python 3.12 on.
    """

    def __init__(self, derive: Callable[[Any], Derived]) -> None:
        super().__init__(derive)
        self.lock = nullcontext()


class BoundedCache(Generic[Remembered]):
    """A cache of bounded size, keyed by everything a value follows from; the oldest go first. Threads share it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: dict[object, Remembered] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: object) -> Remembered | None:
        """What is at hand under this key."""
        with self._lock:
            return self._known.get(key)

    def keep(self, key: object, known: Remembered) -> None:
        """Keep it at hand."""
        with self._lock:
            self._known[key] = known
            while len(self._known) > self.most:
                del self._known[next(iter(self._known))]
