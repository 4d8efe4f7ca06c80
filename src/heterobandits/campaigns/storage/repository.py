"""A store with the current states of its campaigns: reading a state, and writing what follows from it.

Whoever writes reads the state, makes the events that are to follow on it, lets the fold check them, and appends them. If
somebody else was faster, it reads on and tries again; what is no longer possible then is refused as such.
"""

import random
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import repeat
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from heterobandits.campaigns.events import (
    GENESIS_HASH,
    OWNER_NAME,
    Draft,
    Event,
    body_text,
    check_chain,
    is_far_ahead,
    render_timestamp,
    seal_events,
    utc_now,
)
from heterobandits.campaigns.reducer import LinkEnded, check_link, fold_events
from heterobandits.campaigns.state import State, parse_time
from heterobandits.campaigns.storage import snapshots
from heterobandits.campaigns.storage.past_states import PastStates, next_kept_event
from heterobandits.campaigns.storage.store import (
    SettingConflict,
    Snapshot,
    Store,
    StoreUnavailable,
    UnknownCampaign,
    WriteConflict,
)
from heterobandits.campaigns.validation import parse_display_name, parse_plain_text
from heterobandits.errors import InvalidInput, repr_of

WRITE_MAX_TRIES = 20
WRITE_RETRY_MAX_PAUSE_S = 0.02  # seconds before the second try, at most
WRITE_TIMEOUT_S = 20.0  # that a write is tried for, at most
STATE_CACHE_MAX_STATES = 256  # that are at hand
REFUSALS_MAX_ENTRIES = 1_000  # campaigns of which it is remembered that they cannot be read
CREATION_KEY_SCOPE = "*"  # the scope of keys of requests that make a campaign
NOTHING_TO_DO = InvalidInput("there is nothing to do")  # which is no mistake


class KeyReused(InvalidInput):
    """An idempotency key that another request has used."""


@dataclass
class Refusal:
    """Why a campaign cannot be read that ends with an event of this number and hash; its name, once somebody has looked for it."""

    last: tuple[int, str] | None
    why: str
    name: str | None = None


class UnreadableLog(InvalidInput):
    """A campaign whose events cannot be read, or cannot follow on each other."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.why)
        self.refusal = refusal


class Author(NamedTuple):
    """Who writes and by which link, with an idempotency key and a digest of the request, so that nothing is done twice.

    With the token of the server's owner that the store knows also its hash: once another one is there, nothing is written.
    `spend` hears how many bytes of bodies are about to be written, and may refuse; what somebody else was faster than it hears
    once more, as a negative number.
    """

    who: str
    key: str | None = None
    digest: str = ""
    link: str | None = None  # as in an event
    owner: str | None = None
    spend: Callable[[int], None] = lambda size: None

    def scope(self, of: str) -> str:
        """Where its key is known: nobody's keys are in the way of others."""
        return of if self.link is None else f"{of} {self.link}"


class WriteResult(NamedTuple):
    """What was written: the state after it, its events, and whether an earlier request with this key wrote them."""

    state: State
    events: list[Event]
    repeated: bool = False


def error_of_replaced_owner() -> LinkEnded:
    """The error for a token of the server's owner that is none any more."""
    return LinkEnded("the token of the server's owner was replaced: nothing was written")


def seal_drafts(drafts: Iterable[Draft], state: State, request: Author) -> list[Event]:
    """Turn drafts into events that follow on a state."""
    return seal_events(
        drafts,
        state.campaign,
        after=state.number,
        previous=state.hash,
        time=next_timestamp(state),
        who=parse_display_name(request.who, "who"),
        key=request.key,
        link=request.link,
    )


def next_timestamp(state: State) -> str:
    """The time for an event written now: after the last event, by which one write is told from another, unless that one's clock was wrong."""
    now = utc_now()
    if is_far_ahead(state.changed) or now > state.changed:
        return now
    return render_timestamp(parse_time(state.changed) + timedelta(microseconds=1))


class Repository:
    """The campaigns of a store. Any number of threads may use it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._states: OrderedDict[str, State] = OrderedDict()
        self._refusals: OrderedDict[str, Refusal] = OrderedDict()
        self.past = PastStates()
        self._kept: dict[str, int] = {}
        self._lock = threading.Lock()
        self._writing: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._folding: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def state(self, campaign: str) -> State:
        """What stands now. What is not at hand is folded once, however many ask; so is what cannot be read, until it changes."""
        last = self.store.last(campaign)
        known = self._states.get(campaign)
        if known is not None and (known.number, known.hash) == last:
            return self._remember(known)
        with self._turn(self._folding, campaign):
            refused = self._refusals.get(campaign)
            if refused is None or refused.last != last:
                try:
                    return self._read_on(campaign)
                except (StoreUnavailable, UnknownCampaign):  # which say nothing about its events
                    raise
                except InvalidInput as error:
                    refused = self._keep_refusal(campaign, Refusal(last, str(error)))
            raise UnreadableLog(refused)

    def _read_on(self, campaign: str) -> State:
        """What stands after what is at hand, or kept, and all that has come since."""
        known = self._states.get(campaign) or self._snapshot(campaign)
        news = None if known is None else self.store.news(campaign, known.number, known.hash)
        if news is None:  # nothing is known, or an older copy of the log was put back
            self._forget(campaign)
            known, news = None, self.store.read(campaign)
        if not news and known is None:
            raise UnknownCampaign(f"there is no campaign {repr_of(campaign)}")
        if not news:
            return self._remember(known)  # type: ignore[arg-type]
        after = (0, GENESIS_HASH) if known is None else (known.number, known.hash)
        return self._remember(fold_events(check_chain(news, *after), known))

    def _keep_refusal(self, campaign: str, refused: Refusal) -> Refusal:
        """Remember why a campaign cannot be read."""
        with self._lock:
            self._refusals[campaign] = refused
            if len(self._refusals) > REFUSALS_MAX_ENTRIES:
                self._refusals.popitem(last=False)
        return refused

    def _forget(self, campaign: str) -> None:
        """Have nothing of a campaign at hand any more."""
        with self._lock:
            self._states.pop(campaign, None)
            self._kept.pop(campaign, None)
        self.past.forget(campaign)

    def may_open(self, campaign: str, token_hash: str) -> bool:
        """Whether a campaign may have a link with this hash: one that is not at hand is folded for nobody who has none."""
        return campaign in self._states or self.store.issued(campaign, token_hash)

    def at(self, campaign: str, number: int) -> State:
        """What stood after event `number`; states on the way are at hand for the next who looks back."""
        known = self.past.before(campaign, number) or self._snapshot(campaign, number)
        while known is None or known.number < number:
            begin = 0 if known is None else known.number
            events = self.store.read(campaign, begin, next_kept_event(begin, number))
            if not events:
                break
            known = fold_events(events, known)
            self.past.keep(known)
        if known is None:
            raise UnknownCampaign(f"there is no campaign {repr_of(campaign)}")
        return known

    def write(
        self,
        campaign: str,
        request: Author,
        make: Callable[[State], Iterable[Draft]],
        *,
        gives_way: bool = True,
    ) -> WriteResult:
        """Append what `make` drafts for the state as it is when it is written; nothing if it drafts nothing.

        It is tried on the state at hand first, which mostly is the newest: the store says if it is not. A refusal holds
        only if the state is the newest and the request was not carried out before. What gives no way to others is tried for
        `WRITE_TIMEOUT_S` seconds, without a pause.
        """
        if request.key is not None:
            parse_plain_text(request.key, "Idempotency-Key")
        end = time.monotonic() + WRITE_TIMEOUT_S
        for attempt in range(WRITE_MAX_TRIES) if gives_way else repeat(0):
            if time.monotonic() > end:
                break
            with self._turn(
                self._writing, campaign
            ):  # those of this process need not be in each other's way
                state = self._states.get(campaign) or self.state(campaign)
                try:
                    events = seal_drafts(make(state), state, request)
                    if events:
                        after = fold_events(events, state)
                        self.append(events, campaign, request)
                        return WriteResult(self._remember(after), events)
                except WriteConflict:
                    refused = None
                except InvalidInput as error:
                    refused = error
                else:
                    refused = NOTHING_TO_DO
                newest = self.state(campaign)
                check_link(newest, request.link, utc_now())
                self.check_owner(request)
                again = self.repeated(campaign, request)
                if again is not None:
                    return again
                if refused is not None and newest.number == state.number:
                    if refused is NOTHING_TO_DO:
                        return WriteResult(state, [])
                    raise refused
            if refused is None:
                # the more others there seem to be
                time.sleep(random.random() * WRITE_RETRY_MAX_PAUSE_S * attempt)
        raise WriteConflict(
            f"campaign {repr_of(campaign)} is being changed by others without a pause: try again"
        )

    def begin(self, campaign: str, request: Author, drafts: Iterable[Draft]) -> WriteResult:
        """A new campaign of this id, with these first events."""
        events = seal_events(
            drafts,
            campaign,
            after=0,
            previous=GENESIS_HASH,
            time=utc_now(),
            who=parse_display_name(request.who, "who"),
            key=request.key,
            link=request.link,
        )
        return self.begin_with(events, request)

    def begin_with(self, events: list[Event], request: Author) -> WriteResult:
        """A new campaign with events that are sealed already."""
        again = self.repeated(CREATION_KEY_SCOPE, request)
        if again is not None:
            return again
        state = fold_events(check_chain(events))
        try:
            self.append(events, CREATION_KEY_SCOPE, request)
        except WriteConflict:
            again = self.repeated(CREATION_KEY_SCOPE, request)
            if again is None:
                raise
            return again
        return WriteResult(self._remember(state), events)

    def append(self, events: list[Event], scope: str, request: Author) -> None:
        """Write events that were folded, and under the request's key that they are what it wrote."""
        size = sum(len(body_text(event).encode()) for event in events)
        request.spend(size)
        # once more, as it writes
        given = None if request.owner is None else (OWNER_NAME, request.owner)
        try:
            self.store.append(
                events,
                scope=request.scope(scope),
                key=request.key,
                digest=request.digest,
                given=given,
            )
        except WriteConflict:
            request.spend(-size)
            raise
        except SettingConflict:
            raise error_of_replaced_owner() from None

    def check_owner(self, request: Author) -> None:
        """Refuse what is asked with a token of the server's owner that was replaced meanwhile."""
        if request.owner is not None and self.store.setting(OWNER_NAME) != request.owner:
            raise error_of_replaced_owner()

    def repeated(self, scope: str, request: Author) -> WriteResult | None:
        """What a request with this key has written before."""
        if request.key is None:
            return None
        found = self.store.keyed(
            request.scope(scope), parse_plain_text(request.key, "Idempotency-Key")
        )
        if found is None:
            return None
        if found.digest != request.digest:
            raise KeyReused(f"the key {repr_of(request.key)} was used for another request")
        self.check_owner(request)
        events = self.store.read(found.campaign, found.first - 1, found.last)
        return WriteResult(self.state(found.campaign), events, repeated=True)

    def _turn(
        self, turns: WeakValueDictionary[str, threading.Lock], campaign: str
    ) -> threading.Lock:
        with self._lock:
            return turns.setdefault(campaign, threading.Lock())

    def _remember(self, state: State) -> State:
        """The state, at hand for the next; every now and then it is kept in the store."""
        with self._lock:
            had = self._states.get(state.campaign)
            if had is None or had.number <= state.number:
                self._states[state.campaign] = state
            self._states.move_to_end(state.campaign)
            if len(self._states) > STATE_CACHE_MAX_STATES:
                dropped, _ = self._states.popitem(last=False)
                self._kept.pop(dropped, None)
            kept = self._kept.get(state.campaign, 0)
            due = state.number >= kept + max(snapshots.SNAPSHOT_MIN_EVENTS, state.number // 10)
            if due:
                self._kept[state.campaign] = state.number
        if due:
            self.keep(state)
        return state

    def keep(self, state: State) -> None:
        """Put a snapshot of a state into the store, if that can be."""
        data: Any = snapshots.pack_state(state)
        with suppress(StoreUnavailable):
            self.store.keep_snapshot(
                state.campaign, Snapshot(state.number, snapshots.SNAPSHOT_FORMAT, data)
            )

    def _snapshot(self, campaign: str, most: int | None = None) -> State | None:
        """The state that was kept, if one was, of an event up to `most`, and this version can read it."""
        found = self.store.snapshot(campaign)
        if found is None or found.made_with != snapshots.SNAPSHOT_FORMAT:
            return None
        if most is not None and found.number > most:
            return None
        try:
            state = snapshots.unpack_state(found.data)
        except (ValueError, KeyError, TypeError, zlib.error, InvalidInput):
            return None  # it may be thrown away at any time
        there = self.store.read(campaign, state.number - 1, state.number)
        if [event.hash for event in there] != [state.hash]:
            return None
        with self._lock:
            self._kept[campaign] = max(self._kept.get(campaign, 0), state.number)
        return state
