"""A cache of past states, so that looking back need not fold a log from its first event."""

import threading
from collections import OrderedDict

from heterobandits.campaigns.state import State

PAST_MAX_STATES = 64  # states that are at hand
PAST_MAX_CELLS = 4_000_000  # of their tables together: 64 MB
PAST_STEP_MIN_EVENTS = 512  # events between two states that are kept on the way, at least
PAST_MAX_STEPS = 32  # of them in a log, at most


class PastStates:
    """The past states that were used last. Any number of threads may use it."""

    def __init__(self) -> None:
        self._states: OrderedDict[tuple[str, int], State] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._states)

    def before(self, campaign: str, number: int) -> State | None:
        """The last state at hand of a campaign up to event `number`."""
        with self._lock:
            known = [n for name, n in self._states if name == campaign and n <= number]
            if not known:
                return None
            self._states.move_to_end((campaign, max(known)))
            return self._states[campaign, max(known)]

    def keep(self, state: State) -> None:
        """Have a state at hand, and those no longer that nobody has looked at for longest."""
        with self._lock:
            self._states[state.campaign, state.number] = state
            self._states.move_to_end((state.campaign, state.number))
            cells = sum(kept.pulls.size for kept in self._states.values())
            while len(self._states) > PAST_MAX_STATES or (
                cells > PAST_MAX_CELLS and len(self._states) > 1
            ):
                cells -= self._states.popitem(last=False)[1].pulls.size

    def forget(self, campaign: str) -> None:
        """Have no state of a campaign at hand any more."""
        with self._lock:
            for name in [name for name in self._states if name[0] == campaign]:
                del self._states[name]


def next_kept_event(number: int, upto: int) -> int:
    """The event whose state is cached next on the way from one event to another.

    >>> [next_kept_event(0, 8_400), next_kept_event(600, 8_400), next_kept_event(8_300, 8_400), next_kept_event(0, 100_000)]
    [512, 1024, 8400, 4096]
    """
    step = max(PAST_STEP_MIN_EVENTS, 1 << (upto // PAST_MAX_STEPS).bit_length())
    return min(upto, number - number % step + step)
