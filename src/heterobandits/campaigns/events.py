"""Events: what happened in a campaign, in order, each sealed with a hash over itself and the event before.

    hash = SHA-256 of the canonical JSON of [previous, campaign, number, time, who, link, kind, version, body, key]

Events of version 1 have no link, and none in their hash.
Canonical JSON has sorted keys, no blanks, no escapes but those that JSON needs, and no numbers that are not finite. So the
same events have the same hashes in any database and in any file, and nobody can change one without changing all that follow.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from heterobandits.errors import (
    InvalidInput,
    UnsupportedVersion,
    parse_integer,
    parse_json,
    repr_of,
)

EVENT_VERSION = 2
OWNER_NAME = "owner"  # what the holder of a server's own token is called, and the setting that has the token's hash
SERVER_LINK = "server"  # what stands for the link of whoever holds the server's own token
CLOCK_TOLERANCE = timedelta(days=1)  # by which clocks may differ
TIMESTAMP_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"  # of times
BODY_MAX_DEPTH = 20  # that lists may lie in each other in a body
MOST_LISTS = (
    2_000_000  # in an event: a plan may forbid a million pairs, and has an entry for each agent
)
GENESIS_HASH = "0" * 64  # what the first event has for the hash of the one before
EVENT_KINDS = (
    "created",
    "agents added",
    "arms added",
    "renamed",
    "retired",
    "returned",
    "agent revised",
    "policy changed",
    "season changed",
    "round planned",
    "overridden",
    "reported",
    "corrected",
    "withdrawn",
    "round closed",
    "note",
    "link issued",
    "link revoked",
    "imported",
    "arm revised",
    "prior changed",
    "arm forgotten",
    "arm remembered",
    "round cancelled",
    "round reopened",
    "archived",
    "brought back",
    "words chosen",
)

CANONICAL_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
Announced = TypeVar("Announced")
OnShare = Callable[[float], None]


class Draft(NamedTuple):
    """An event that has not been written yet."""

    kind: str
    body: dict[str, Any]


class SealedBody:
    """Where an event that this process has sealed keeps the canonical JSON of its body. No copy of the event has it."""

    __slots__ = ("sealed_body",)
    sealed_body: str


@dataclass(frozen=True, slots=True)
class Event(SealedBody):
    """One thing that happened: its number in the campaign from 1 on, its time in UTC, who did it, and what it was.

    `key` is what the one who wrote it called the request, so that the same request again does nothing twice. `link` is the
    id of the link that it was written with: names may be given to several, ids may not. It is `server` for the server's own
    token, and None for whoever has the database itself, as on the command line.
    """

    campaign: str
    number: int
    time: str
    who: str
    kind: str
    body: dict[str, Any]
    key: str | None
    previous: str
    hash: str
    version: int = EVENT_VERSION
    link: str | None = None


class NotInOrder(InvalidInput):
    """An event that does not continue from the one before, or does not match its hash."""


def canonical_json(value: Any) -> str:
    """The JSON text of a value; equal values have equal texts.

    >>> canonical_json({"b": [1, 0.5], "a": "ü"})
    '{"a":"ü","b":[1,0.5]}'
    """
    return CANONICAL_ENCODER.encode(value)


def utc_now() -> str:
    """The current time in UTC as events write it, to the microsecond: 2026-03-01T09:30:00.000000Z."""
    return render_timestamp(datetime.now(UTC))


def render_timestamp(time: datetime) -> str:
    """A UTC time as events write it."""
    return time.strftime(TIMESTAMP_FORMAT)


def is_far_ahead(time: str) -> bool:
    """Whether a time is so far in the future that a clock must be wrong."""
    return time > render_timestamp(datetime.now(UTC) + CLOCK_TOLERANCE)


def is_timestamp(text: str) -> bool:
    """Whether a text is exactly a time as events write it."""
    try:
        return render_timestamp(datetime.strptime(text, TIMESTAMP_FORMAT)) == text
    except ValueError:
        return False


def nesting_depth(value: Any) -> int:
    """How deeply lists and tables are nested.

    >>> nesting_depth({"a": [1, [2]]}), nesting_depth(1)
    (3, 0)
    """
    deepest, level = 0, [value]
    while level := [one for one in level if isinstance(one, (list, dict))]:
        deepest += 1
        level = [v for one in level for v in (one.values() if isinstance(one, dict) else one)]
    return deepest


def seal_events(
    drafts: Iterable[Draft],
    campaign: str,
    *,
    after: int,
    previous: str,
    time: str,
    who: str,
    key: str | None = None,
    link: str | None = None,
) -> list[Event]:
    """Turn drafts into events that continue after event `after`, whose hash is `previous`."""
    made = []
    for number, (kind, body) in enumerate(drafts, after + 1):
        event = Event(campaign, number, time, who, kind, body, key, previous, "", link=link)
        object.__setattr__(event, "sealed_body", canonical_json(body))
        object.__setattr__(event, "hash", hash_of_event(event))
        made.append(event)
        previous = event.hash
    return made


def body_text(event: Event) -> str:
    """The canonical JSON of the body of an event."""
    return event.sealed_body if is_sealed_here(event) else canonical_json(event.body)


def is_sealed_here(event: Event) -> bool:
    """Whether this process has sealed an event, which then has the hash it says."""
    return hasattr(event, "sealed_body")


def hash_of_event(event: Event) -> str:
    """The hash that an event must have, as the top of this module defines it."""
    e = event
    by = [e.who] if e.version == 1 else [e.who, e.link]
    head = canonical_json([e.previous, e.campaign, e.number, e.time, *by, e.kind, e.version])
    text = f"{head[:-1]},{body_text(e)},{canonical_json(e.key)}]"
    return hashlib.sha256(text.encode()).hexdigest()


def check_chain(
    events: Iterable[Event], after: int = 0, previous: str = GENESIS_HASH
) -> Iterator[Event]:
    """Yield the events after checking that each continues the one before, matches its hash and has a known version."""
    campaign = None
    for event in events:
        campaign = campaign or event.campaign
        place = f"event {after + 1}"
        refuse_newer(event, place)
        if event.number != after + 1 or event.campaign != campaign:
            raise NotInOrder(
                f"{place} is missing: event {event.number} of campaign {repr_of(event.campaign)} is in its place"
            )
        if event.previous != previous:
            raise NotInOrder(f"{place} does not follow on the one before: that was changed")
        if not is_sealed_here(event) and event.hash != hash_of_event(event):
            raise NotInOrder(f"{place} is not what its hash says: it was changed")
        yield event
        after, previous = event.number, event.hash


def announce_progress(
    given: Sequence[Announced], tell: OnShare, begin: float = 0.0, end: float = 1.0
) -> Iterator[Announced]:
    """Yield the items of a long computation, and report progress before each and at the end, from one share to another."""
    for number, one in enumerate(given):
        tell(begin + (end - begin) * number / len(given))
        yield one
    tell(end)


def refuse_newer(event: Event, place: str) -> None:
    """Refuse an event that a newer version wrote: this version never guesses at it."""
    if event.version > EVENT_VERSION or event.kind not in EVENT_KINDS:
        raise UnsupportedVersion(
            f"{place} is {repr_of(event.kind)} of version {event.version}: this version knows up to {EVENT_VERSION}; "
            "use the newer heterobandits that wrote it"
        )


def render_event_line(event: Event) -> str:
    """An event as a line of NDJSON."""
    names = (name for name in Event.__slots__ if name != "link" or event.version > 1)
    return canonical_json({name: getattr(event, name) for name in names})


def parse_event_line(text: str) -> Event:
    """The event in a line of NDJSON; `check_chain` decides whether it fits."""
    if text.count("[") + text.count("{") > MOST_LISTS:  # reading them takes seconds
        raise InvalidInput(
            f"not an event of a campaign: over {MOST_LISTS:,} lists in {repr_of(text[:60])}"
        )
    try:
        read = parse_json(text)
        event = Event(**read)
    except InvalidInput:
        raise
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(f"not an event of a campaign: {repr_of(text)}") from None
    texts = (event.campaign, event.time, event.who, event.kind, event.previous, event.hash)
    for value in texts:
        if not isinstance(value, str):
            raise InvalidInput(f"not an event of a campaign: {repr_of(value)} is not a text")
    optional = all(text is None or isinstance(text, str) for text in (event.key, event.link))
    if not optional or not isinstance(event.body, dict):
        raise InvalidInput(f"not an event of a campaign: {repr_of(text)}")
    if not is_timestamp(event.time):
        raise InvalidInput(f"time is {repr_of(event.time)}: such as 2026-03-01T09:30:00.000000Z")
    if nesting_depth(event.body) > BODY_MAX_DEPTH:
        raise InvalidInput(
            f"event {repr_of(event.number)} has a body over {BODY_MAX_DEPTH} lists deep"
        )
    parse_integer(event.number, "the number of an event", 1)
    parse_integer(event.version, "the version of an event", 1)
    if event.version == 1 and event.link is not None:
        raise InvalidInput(f"event {event.number} has a link, which events of version 1 have not")
    try:
        canonical_json(
            [*texts, event.key, event.link, event.body]
        ).encode()  # half characters are no text
    except (ValueError, RecursionError):
        raise InvalidInput(
            f"event {event.number} has what no event can have: {repr_of(text)}"
        ) from None
    return event
