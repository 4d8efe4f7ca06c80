"""Events: what happened in a campaign, in order, each sealed with a hash of itself and of the one before.

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

from heterobandits.errors import InvalidInput, UnsupportedVersion, json_from, shown, whole_number

VERSION = 2
OWNER = "owner"  # what the holder of a server's own token is called, and the setting that has the token's hash
SERVER = "server"  # what stands for the link of whoever holds the server's own token
AHEAD = timedelta(days=1)  # by which clocks may differ
FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"  # of times
DEEPEST = 20  # that lists may lie in each other in a body
MOST_LISTS = (
    2_000_000  # in an event: a plan may forbid a million pairs, and has an entry for each agent
)
NOTHING = "0" * 64  # what the first event has for the hash of the one before
KINDS = (
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
)

CANONICAL_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
Given = TypeVar("Given")
Tell = Callable[[float], None]


class Draft(NamedTuple):
    """An event that is not in the log yet."""

    kind: str
    body: dict[str, Any]


class SealedBody:
    """Where an event that this process has sealed keeps the canonical JSON of its body. No copy of the event has it."""

    __slots__ = ("sealed_body",)
    sealed_body: str


@dataclass(frozen=True, slots=True)
class Event(SealedBody):
    """What happened: number in its campaign from 1 on, time in UTC, who did it, and what it was.

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
    version: int = VERSION
    link: str | None = None


class NotInOrder(InvalidInput):
    """An event that does not follow on the one before, or is not what its hash says."""


def canonical(value: Any) -> str:
    """The JSON text of a value, the same for equal values.

    >>> canonical({"b": [1, 0.5], "a": "ü"})
    '{"a":"ü","b":[1,0.5]}'
    """
    return CANONICAL_ENCODER.encode(value)


def now() -> str:
    """The time in UTC, to the microsecond, as it stands in events: 2026-03-01T09:30:00.000000Z."""
    return timestamp(datetime.now(UTC))


def timestamp(time: datetime) -> str:
    """A time in UTC as it stands in events."""
    return time.strftime(FORMAT)


def is_ahead(time: str) -> bool:
    """Whether a time is so far ahead that the clock it was taken from was wrong, or this machine's is."""
    return time > timestamp(datetime.now(UTC) + AHEAD)


def is_timestamp(text: str) -> bool:
    """Whether a text is a time as it stands in events, to the letter."""
    try:
        return timestamp(datetime.strptime(text, FORMAT)) == text
    except ValueError:
        return False


def depth(value: Any) -> int:
    """How deep lists and tables lie in each other.

    >>> depth({"a": [1, [2]]}), depth(1)
    (3, 0)
    """
    deepest, level = 0, [value]
    while level := [one for one in level if isinstance(one, (list, dict))]:
        deepest += 1
        level = [v for one in level for v in (one.values() if isinstance(one, dict) else one)]
    return deepest


def sealed(
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
    """The events that these drafts become after event `after`, whose hash is `previous`."""
    made = []
    for number, (kind, body) in enumerate(drafts, after + 1):
        event = Event(campaign, number, time, who, kind, body, key, previous, "", link=link)
        object.__setattr__(event, "sealed_body", canonical(body))
        object.__setattr__(event, "hash", hash_of(event))
        made.append(event)
        previous = event.hash
    return made


def body_text(event: Event) -> str:
    """The canonical JSON of the body of an event."""
    return event.sealed_body if is_sealed_here(event) else canonical(event.body)


def is_sealed_here(event: Event) -> bool:
    """Whether this process has sealed an event, which then has the hash it says."""
    return hasattr(event, "sealed_body")


def hash_of(event: Event) -> str:
    """What the hash of an event has to be, by the head of this module."""
    e = event
    by = [e.who] if e.version == 1 else [e.who, e.link]
    head = canonical([e.previous, e.campaign, e.number, e.time, *by, e.kind, e.version])
    text = f"{head[:-1]},{body_text(e)},{canonical(e.key)}]"
    return hashlib.sha256(text.encode()).hexdigest()


def check_chain(
    events: Iterable[Event], after: int = 0, previous: str = NOTHING
) -> Iterator[Event]:
    """The events, if each follows on the one before, is what its hash says, and is of a version known here."""
    campaign = None
    for event in events:
        campaign = campaign or event.campaign
        place = f"event {after + 1}"
        refuse_newer(event, place)
        if event.number != after + 1 or event.campaign != campaign:
            raise NotInOrder(
                f"{place} is missing: event {event.number} of campaign {shown(event.campaign)} is in its place"
            )
        if event.previous != previous:
            raise NotInOrder(f"{place} does not follow on the one before: that was changed")
        if not is_sealed_here(event) and event.hash != hash_of(event):
            raise NotInOrder(f"{place} is not what its hash says: it was changed")
        yield event
        after, previous = event.number, event.hash


def announce(
    given: Sequence[Given], tell: Tell, begin: float = 0.0, end: float = 1.0
) -> Iterator[Given]:
    """What is given, telling before each, and at last, how far a long computation is: from one share to another."""
    for number, one in enumerate(given):
        tell(begin + (end - begin) * number / len(given))
        yield one
    tell(end)


def refuse_newer(event: Event, place: str) -> None:
    """Refuse an event that a newer version has written: it is never guessed at."""
    if event.version > VERSION or event.kind not in KINDS:
        raise UnsupportedVersion(
            f"{place} is {shown(event.kind)} of version {event.version}: this version knows up to {VERSION}; "
            "use the newer heterobandits that wrote it"
        )


def line(event: Event) -> str:
    """An event as a line of NDJSON."""
    names = (name for name in Event.__slots__ if name != "link" or event.version > 1)
    return canonical({name: getattr(event, name) for name in names})


def from_line(text: str) -> Event:
    """The event that a line tells of; whether it fits is for `checked` to say."""
    if text.count("[") + text.count("{") > MOST_LISTS:  # reading them takes seconds
        raise InvalidInput(
            f"not an event of a campaign: over {MOST_LISTS:,} lists in {shown(text[:60])}"
        )
    try:
        read = json_from(text)
        event = Event(**read)
    except InvalidInput:
        raise
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(f"not an event of a campaign: {shown(text)}") from None
    texts = (event.campaign, event.time, event.who, event.kind, event.previous, event.hash)
    for value in texts:
        if not isinstance(value, str):
            raise InvalidInput(f"not an event of a campaign: {shown(value)} is not a text")
    optional = all(text is None or isinstance(text, str) for text in (event.key, event.link))
    if not optional or not isinstance(event.body, dict):
        raise InvalidInput(f"not an event of a campaign: {shown(text)}")
    if not is_timestamp(event.time):
        raise InvalidInput(f"time is {shown(event.time)}: such as 2026-03-01T09:30:00.000000Z")
    if depth(event.body) > DEEPEST:
        raise InvalidInput(f"event {shown(event.number)} has a body over {DEEPEST} lists deep")
    whole_number(event.number, "the number of an event", 1)
    whole_number(event.version, "the version of an event", 1)
    if event.version == 1 and event.link is not None:
        raise InvalidInput(f"event {event.number} has a link, which events of version 1 have not")
    try:
        canonical(
            [*texts, event.key, event.link, event.body]
        ).encode()  # half characters are no text
    except (ValueError, RecursionError):
        raise InvalidInput(
            f"event {event.number} has what no event can have: {shown(text)}"
        ) from None
    return event
