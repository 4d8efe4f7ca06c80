"""Whether a log is whole: every event follows on the one before, can be, and every plan follows from what was known then."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from heterobandits.campaigns.events import NOTHING, Event, checked
from heterobandits.campaigns.folding import fold
from heterobandits.campaigns.log import Log
from heterobandits.campaigns.plans import check_again
from heterobandits.campaigns.state import State
from heterobandits.campaigns.store import UnknownCampaign
from heterobandits.errors import InvalidInput, UnsupportedVersion, shown


class Verified(NamedTuple):
    """A log that is whole: how many events and rounds it has, and the hash of the last event, which stands for all."""

    events: int
    rounds: int
    hash: str


def verify(log: Log, campaign: str, tell: Callable[[float], None] = lambda share: None) -> Verified:
    """Fold all events anew, check their hashes and make every plan again; names the first event that does not fit."""
    events = log.store.read(campaign)
    if not events:
        raise UnknownCampaign(f"there is no campaign {shown(campaign)}")
    state = replayed(events, tell)
    return Verified(state.number, len(state.rounds), state.hash)


def replayed(events: list[Event], tell: Callable[[float], None] = lambda share: None) -> State:
    """The state after these events, all of them checked."""
    state: State | None = None
    for part in up_to_plans(events):
        after = (0, NOTHING) if state is None else (state.number, state.hash)
        last = part[-1]
        try:
            before = fold(checked(part[:-1], *after), state) if part[:-1] else state
            after = (0, NOTHING) if before is None else (before.number, before.hash)
            following = fold(checked([last], *after), before)
            if last.kind == "round planned" and before is not None:
                check_again(before, last.body, following.rounds[-1].given)
        except UnsupportedVersion:
            raise
        except InvalidInput:
            raise first_wrong(part, state) from None
        state = following
        tell(state.number / len(events))
    assert state is not None
    return state


def up_to_plans(events: list[Event]) -> Iterator[list[Event]]:
    """The events in parts that end with a planned round: a fold copies the state once for each."""
    part: list[Event] = []
    for event in events:
        part.append(event)
        if event.kind == "round planned":
            yield part
            part = []
    if part:
        yield part


def first_wrong(part: list[Event], state: State | None) -> InvalidInput:
    """What is wrong with the first of these events that does not fit."""
    place = 0 if state is None else state.number
    for event in part:
        place += 1
        after = (0, NOTHING) if state is None else (state.number, state.hash)
        try:
            following = fold(checked([event], *after), state)
            if event.kind == "round planned" and state is not None:
                check_again(state, event.body, following.rounds[-1].given)
        except InvalidInput as error:
            said = str(error).removeprefix(f"event {place}").lstrip(" ,:")
            return InvalidInput(
                f"event {place}, {event.kind}, of {event.time} by {event.who}: {said}"
            )
        state = following
    raise AssertionError("every event fits")
