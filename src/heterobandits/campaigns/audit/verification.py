"""Whether a log is intact: every event follows on the one before and is possible, and every plan follows from what was known."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from string import hexdigits
from typing import NamedTuple

from heterobandits.campaigns.audit.history_text import author_text
from heterobandits.campaigns.events import GENESIS_HASH, Event, check_chain
from heterobandits.campaigns.plan_events import check_recorded_forgetting, check_recorded_plan
from heterobandits.campaigns.reducer import fold_events
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage import snapshots
from heterobandits.campaigns.storage.repository import Repository
from heterobandits.campaigns.storage.store import UnknownCampaign
from heterobandits.errors import InvalidInput, UnsupportedVersion, parse_integer, repr_of
from heterobandits.machine import count_cores

ANCHOR_MIN_DIGITS = 12  # digits of a hash that people copy: 48 bits, which nobody meets by chance
HASH_DIGITS = 64
VERIFICATION_CAVEAT = (
    "whole does not say that no events were cut from the end, nor that all were not sealed anew: compare number and hash "
    "with a sheet, an audit or a note of before (--least N, --hash H)"
)


RECHECKED_KINDS = ("round planned", "arm forgotten")  # what is worked out again


class Anchor(NamedTuple):
    """What somebody noted about a log earlier: the first digits of an event's hash, and the number of events."""

    hash: str | None = None
    least: int | None = None

    def checked(self) -> "Anchor":
        """The same, if it can be what was written down."""
        digits = None if self.hash is None else self.hash.strip().lower()
        if digits is not None and not (
            ANCHOR_MIN_DIGITS <= len(digits) <= HASH_DIGITS and set(digits) <= set(hexdigits)
        ):
            raise InvalidInput(
                f"hash is {repr_of(self.hash)}: the first {ANCHOR_MIN_DIGITS} or more of the {HASH_DIGITS} digits, 0 to 9 and a to f"
            )
        least = None if self.least is None else parse_integer(self.least, "least", 1)
        return Anchor(digits, least)


class VerifiedLog(NamedTuple):
    """A log that is whole: how many events and rounds it has, the hash of the last event, which stands for all, and which event
    has the hash that was written down.
    """

    events: int
    rounds: int
    hash: str
    anchored: int | None = None


def verify_log(
    log: Repository,
    campaign: str,
    tell: Callable[[float], None] = lambda share: None,
    anchor: Anchor = Anchor(),  # noqa: B008 - a tuple
) -> VerifiedLog:
    """Fold all events anew, check their hashes and make every plan again; names the first event that does not fit.

    That events were cut from the end, or all of them sealed anew, shows only in comparison with what was written down, the
    `anchor`.
    """
    anchor = anchor.checked()
    events = log.store.read(campaign)
    if not events:
        raise UnknownCampaign(f"there is no campaign {repr_of(campaign)}")
    kept = log.store.snapshot(campaign)
    mark = 0 if kept is None or kept.made_with != snapshots.SNAPSHOT_FORMAT else kept.number

    def check_snapshot(state: State) -> None:
        if kept is not None and snapshots.pack_state(state) != kept.data:
            log.keep(state)
            raise InvalidInput(
                f"the snapshot of event {kept.number} was not what the events make, and what was shown since may be "
                "wrong: it is made anew now; verify once more"
            )

    state = replay_events(events, tell, mark, check_snapshot)
    return VerifiedLog(
        state.number, len(state.rounds), state.hash, number_of_anchor(events, anchor)
    )


def number_of_anchor(events: Sequence[Event], anchor: Anchor) -> int | None:
    """The number of the event whose hash an anchor gives, if it gives one; refuses a log without that event."""
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


def replay_events(
    events: list[Event],
    tell: Callable[[float], None] = lambda share: None,
    mark: int = 0,
    there: Callable[[State], None] = lambda state: None,
) -> State:
    """The state after these events, all of them checked; plans are computed again on all cores.

    `there` is called with the state after the event of number `mark`.
    """
    state: State | None = None
    cores = count_cores()
    with ThreadPoolExecutor(cores) as pool:
        checks: deque[PlanCheck] = deque()
        for part in split_at_plans(events, mark):
            before = state
            try:
                known, state = fold_part(part, before)
            except UnsupportedVersion:
                raise
            except InvalidInput:
                await_checks(checks)
                raise first_misfit(part, before) from None
            if part[-1].kind in RECHECKED_KINDS and known is not None:
                again = pool.submit(check_again, known, part[-1], state)
                checks.append(PlanCheck(part, before, again))
            await_checks(checks, 2 * cores)
            if state.number == mark:
                there(state)
            tell(state.number / len(events))
        await_checks(checks)
    assert state is not None
    return state


def check_again(before: State, event: Event, after: State) -> None:
    """Refuse a plan, or a change of an arm, that does not follow from the state before."""
    if event.kind == "round planned":
        check_recorded_plan(before, event.body, after.rounds[-1].given)
    else:
        check_recorded_forgetting(before, event.body)


class PlanCheck(NamedTuple):
    """A part of a log whose plan is being computed again, and the state before it."""

    part: list[Event]
    before: State | None
    again: Future[None]


def await_checks(checks: deque[PlanCheck], most: int = 0) -> None:
    """Wait for the oldest checks until at most `most` are left, and report a plan that does not fit."""
    while len(checks) > most:
        part, before, again = checks.popleft()
        try:
            again.result()
        except InvalidInput:
            raise first_misfit(part, before) from None


def fold_part(part: list[Event], state: State | None) -> tuple[State | None, State]:
    """The state before the last of these events, and the state after it."""
    if part[:-1]:
        state = fold_events(check_chain(part[:-1], *chain_end_of(state)), state)
    return state, fold_events(check_chain(part[-1:], *chain_end_of(state)), state)


def chain_end_of(state: State | None) -> tuple[int, str]:
    """The number and the hash that the next event must continue from."""
    return (0, GENESIS_HASH) if state is None else (state.number, state.hash)


def split_at_plans(events: list[Event], mark: int) -> Iterator[list[Event]]:
    """The events in parts that end with what is worked out again or with event `mark`: each fold copies the state once."""
    part: list[Event] = []
    for event in events:
        part.append(event)
        if event.kind in RECHECKED_KINDS or event.number == mark:
            yield part
            part = []
    if part:
        yield part


def first_misfit(part: list[Event], state: State | None) -> InvalidInput:
    """The error of the first of these events that does not fit."""
    place = 0 if state is None else state.number
    for event in part:
        place += 1
        try:
            _, following = fold_part([event], state)
            if event.kind in RECHECKED_KINDS and state is not None:
                check_again(state, event, following)
        except InvalidInput as error:
            said = str(error).removeprefix(f"event {place}").lstrip(" ,:")
            return InvalidInput(
                f"event {place}, {event.kind}, of {event.time} by {author_text(event)}: {said}"
            )
        state = following
    raise AssertionError("every event fits")
