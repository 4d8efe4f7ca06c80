"""Whether a log is whole: every event follows on the one before, can be, and every plan follows from what was known then."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from string import hexdigits
from typing import NamedTuple

from heterobandits.campaigns.audit.history_text import author
from heterobandits.campaigns.events import NOTHING, Event, check_chain
from heterobandits.campaigns.plan_events import check_again
from heterobandits.campaigns.reducer import fold
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage import snapshots
from heterobandits.campaigns.storage.repository import Log
from heterobandits.campaigns.storage.store import UnknownCampaign
from heterobandits.errors import InvalidInput, UnsupportedVersion, shown, whole_number
from heterobandits.machine import available_threads

SHORT = 12  # digits of a hash that people copy: 48 bits, which nobody meets by chance
DIGITS = 64
NOT_SAID = (
    "whole does not say that no events were cut from the end, nor that all were not sealed anew: compare number and hash "
    "with a sheet, an audit or a note of before (--least N, --hash H)"
)


class Anchor(NamedTuple):
    """What was written down of a log earlier: the first digits of the hash of an event, and how many events there were."""

    hash: str | None = None
    least: int | None = None

    def checked(self) -> "Anchor":
        """The same, if it can be what was written down."""
        digits = None if self.hash is None else self.hash.strip().lower()
        if digits is not None and not (
            SHORT <= len(digits) <= DIGITS and set(digits) <= set(hexdigits)
        ):
            raise InvalidInput(
                f"hash is {shown(self.hash)}: the first {SHORT} or more of the {DIGITS} digits, 0 to 9 and a to f"
            )
        least = None if self.least is None else whole_number(self.least, "least", 1)
        return Anchor(digits, least)


class Verified(NamedTuple):
    """A log that is whole: how many events and rounds it has, the hash of the last event, which stands for all, and which event
    has the hash that was written down.
    """

    events: int
    rounds: int
    hash: str
    anchored: int | None = None


def verify(
    log: Log,
    campaign: str,
    tell: Callable[[float], None] = lambda share: None,
    anchor: Anchor = Anchor(),  # noqa: B008 - a tuple
) -> Verified:
    """Fold all events anew, check their hashes and make every plan again; names the first event that does not fit.

    That events were cut from the end, or all of them sealed anew, shows only in comparison with what was written down, the
    `anchor`.
    """
    anchor = anchor.checked()
    events = log.store.read(campaign)
    if not events:
        raise UnknownCampaign(f"there is no campaign {shown(campaign)}")
    kept = log.store.snapshot(campaign)
    mark = 0 if kept is None or kept.made_with != snapshots.FORMAT else kept.number

    def check_snapshot(state: State) -> None:
        if kept is not None and snapshots.write_snapshot(state) != kept.data:
            log.keep(state)
            raise InvalidInput(
                f"the snapshot of event {kept.number} was not what the events make, and what was shown since may be "
                "wrong: it is made anew now; verify once more"
            )

    state = replayed(events, tell, mark, check_snapshot)
    return Verified(state.number, len(state.rounds), state.hash, anchored(events, anchor))


def anchored(events: Sequence[Event], anchor: Anchor) -> int | None:
    """The number of the event that has the hash of an anchor, if it has one; refuses a log that does not hold it."""
    if anchor.least is not None and len(events) < anchor.least:
        raise InvalidInput(
            f"there are {len(events):,} events, and there were at least {anchor.least:,}: the last were cut off"
        )
    if anchor.hash is None:
        return None
    for event in events:
        if event.hash.startswith(anchor.hash):
            return event.number
    raise InvalidInput(
        f"no event has the hash {anchor.hash}: events were cut from the end, or all were sealed anew, or it is of another campaign"
    )


def replayed(
    events: list[Event],
    tell: Callable[[float], None] = lambda share: None,
    mark: int = 0,
    there: Callable[[State], None] = lambda state: None,
) -> State:
    """The state after these events, all of them checked; plans are made again on all cores.

    `there` is called with the state after the event of number `mark`.
    """
    state: State | None = None
    cores = available_threads()
    with ThreadPoolExecutor(cores) as pool:
        checks: deque[Check] = deque()
        for part in up_to_plans(events, mark):
            before = state
            try:
                known, state = folded(part, before)
            except UnsupportedVersion:
                raise
            except InvalidInput:
                settle(checks)
                raise first_wrong(part, before) from None
            if part[-1].kind == "round planned" and known is not None:
                again = pool.submit(check_again, known, part[-1].body, state.rounds[-1].given)
                checks.append(Check(part, before, again))
            settle(checks, 2 * cores)
            if state.number == mark:
                there(state)
            tell(state.number / len(events))
        settle(checks)
    assert state is not None
    return state


class Check(NamedTuple):
    """A part of a log whose plan is being made again, and the state before it."""

    part: list[Event]
    before: State | None
    again: Future[None]


def settle(checks: deque[Check], most: int = 0) -> None:
    """Wait for the first checks, until at most so many are left; a plan that does not fit is said."""
    while len(checks) > most:
        part, before, again = checks.popleft()
        try:
            again.result()
        except InvalidInput:
            raise first_wrong(part, before) from None


def folded(part: list[Event], state: State | None) -> tuple[State | None, State]:
    """The states before the last of these events and after it."""
    if part[:-1]:
        state = fold(check_chain(part[:-1], *end_of(state)), state)
    return state, fold(check_chain(part[-1:], *end_of(state)), state)


def end_of(state: State | None) -> tuple[int, str]:
    """The number and the hash that the next event follows on."""
    return (0, NOTHING) if state is None else (state.number, state.hash)


def up_to_plans(events: list[Event], mark: int) -> Iterator[list[Event]]:
    """The events in parts that end with a planned round, or the event `mark`: a fold copies the state once for each."""
    part: list[Event] = []
    for event in events:
        part.append(event)
        if event.kind == "round planned" or event.number == mark:
            yield part
            part = []
    if part:
        yield part


def first_wrong(part: list[Event], state: State | None) -> InvalidInput:
    """What is wrong with the first of these events that does not fit."""
    place = 0 if state is None else state.number
    for event in part:
        place += 1
        try:
            _, following = folded([event], state)
            if event.kind == "round planned" and state is not None:
                check_again(state, event.body, following.rounds[-1].given)
        except InvalidInput as error:
            said = str(error).removeprefix(f"event {place}").lstrip(" ,:")
            return InvalidInput(
                f"event {place}, {event.kind}, of {event.time} by {author(event)}: {said}"
            )
        state = following
    raise AssertionError("every event fits")
