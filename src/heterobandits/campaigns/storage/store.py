"""The store: where the events of campaigns are kept, in order, each once, and on the disk when it says so.

Two writers are decided by the primary key (campaign, number): one of them is told that somebody else was first. Beside the
events stand the keys of requests, written in the same transaction, and what may be thrown away at any time: snapshots.
"""

import json
import re
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Self

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError

from heterobandits.campaigns.events import NOTHING, Event, NotInOrder, body_text, check_chain
from heterobandits.campaigns.storage.database import (
    PATIENCE,
    StoreUnavailable,
    check_room,
    explain_refusals,
    open_database,
)
from heterobandits.campaigns.storage.tables import EVENTS, KEYS, SETTINGS, SNAPSHOTS
from heterobandits.errors import InvalidInput, shown

__all__ = [
    "Conflict",
    "Head",
    "Keyed",
    "Replaced",
    "Snapshot",
    "Store",
    "StoreUnavailable",
    "UnknownCampaign",
]

MOST = 2**63 - 1  # that a number in a database can be
ZERO = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # the character in canonical JSON
INSERT: dict[str, Callable[[sa.Table], Any]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}
ALLOWED_TEXT = "a text has no character zero and no half characters"
BETWEEN_TRIES = 0.2  # seconds, while a server comes back
COLUMNS = [field.name for field in fields(Event)]
BODY = COLUMNS.index("body")
FIRST = EVENTS.alias("first")


def _heads() -> sa.Select[Any]:
    """The query of where campaigns stand: the last event of each that has a first, both by the primary key."""
    first, last = FIRST, EVENTS.alias("last")
    newest = sa.select(sa.func.max(EVENTS.c.number)).where(EVENTS.c.campaign == first.c.campaign)
    columns = (first.c.campaign, last.c.number, last.c.hash, last.c.time, first.c.time)
    return (
        sa.select(*columns)
        .join(last, last.c.campaign == first.c.campaign)
        .where(first.c.number == sa.literal_column("1"))  # as the index of first events has it
        .where(last.c.number == newest.scalar_subquery())
    )


OF_CAMPAIGN = EVENTS.c.campaign == sa.bindparam("id")
HEADS = _heads()
LAST = (
    sa.select(EVENTS.c.number, EVENTS.c.hash)
    .where(OF_CAMPAIGN)
    .order_by(EVENTS.c.number.desc())
    .limit(1)
)
READ = (
    sa.select(*(EVENTS.c[name] for name in COLUMNS))
    .where(OF_CAMPAIGN, EVENTS.c.number.between(sa.bindparam("least"), sa.bindparam("most")))
    .order_by(EVENTS.c.number)
)
SIZES = READ.with_only_columns(sa.func.length(EVENTS.c.body))
SETTING = sa.select(SETTINGS.c.value).where(SETTINGS.c.name == sa.bindparam("wanted"))


class Conflict(InvalidInput):
    """Somebody else wrote that event, or used that key, first."""


class Replaced(InvalidInput):
    """A setting has another value than what is written was allowed by."""


class UnknownCampaign(InvalidInput):
    """No campaign has that id."""


class Head(NamedTuple):
    """Where a campaign stands: its last event, and when its first was."""

    campaign: str
    number: int
    hash: str
    time: str
    created: str


class Keyed(NamedTuple):
    """What a request with a key has written: the events from `first` to `last`; `digest` says which request it was."""

    digest: str
    campaign: str
    first: int
    last: int


KEYED = sa.select(*(KEYS.c[name] for name in Keyed._fields)).where(
    KEYS.c.scope == sa.bindparam("of"), KEYS.c.key == sa.bindparam("wanted")
)


class Snapshot(NamedTuple):
    """What the events up to `number` came to, in the words of the version that made it."""

    number: int
    made_with: str
    data: bytes


class Store:
    """The campaigns of a database, for any number of threads at once; other processes may use it too."""

    def __init__(self, database: str | Path, *, create: bool = True) -> None:
        self._place = open_database(database, create=create)
        weakref.finalize(self, self._place.engine.dispose)  # nobody need remember to close it
        self._for_reading, self._for_writing = self._place.reading, self._place.writing
        dialect = self._place.engine.dialect.name
        self._insert = INSERT[dialect]
        # SQLite has one writer at a time. Threads wait for each other here, where they are woken, and not at the file.
        self._turn: AbstractContextManager[Any] = Lock() if dialect == "sqlite" else nullcontext()

    def close(self) -> None:
        """Let go of the database."""
        self._place.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def check(self) -> None:
        """Refuse if the database cannot be read, or its disk is full, or it takes no writes."""
        self.setting("")  # whatever is there
        check_room(self._place)

    def heads(self) -> list[Head]:
        """Where all campaigns stand, in the order of their creation."""
        with self._reading() as connection:
            found = [Head(*row) for row in connection.execute(HEADS)]
        return sorted(found, key=lambda head: (head.created, head.campaign))

    def head(self, campaign: str) -> Head:
        """Where a campaign stands."""
        if storable(campaign):
            with self._reading() as connection:
                row = connection.execute(HEADS.where(FIRST.c.campaign == campaign)).first()
            if row is not None:
                return Head(*row)
        raise UnknownCampaign(f"there is no campaign {shown(campaign)}")

    def read(self, campaign: str, after: int = 0, upto: int | None = None) -> list[Event]:
        """The events of a campaign after one number and up to another, in order; none if there are none."""
        if not storable(campaign) or after >= MOST:
            return []
        most = MOST if upto is None else max(0, min(upto, MOST))
        bounds = {"id": campaign, "least": max(after, 0) + 1, "most": most}
        with self._reading() as connection:
            rows = connection.execute(READ, bounds).all()
        return _events(rows)

    def sizes(self, campaign: str, after: int, upto: int) -> list[int]:
        """How many letters the bodies of these events have, in order."""
        bounds = {"id": campaign, "least": after + 1, "most": min(upto, MOST)}
        with self._reading() as connection:
            return list(connection.execute(SIZES, bounds).scalars())

    def news(self, campaign: str, number: int, hash: str) -> list[Event] | None:
        """The events after one that is known; None if the log does not have that one any more, as after an older copy was put back."""
        bounds = {"id": campaign, "least": number + 1, "most": MOST}
        with self._reading() as connection:
            last = connection.execute(LAST, {"id": campaign}).first()
            if last is not None and tuple(last) == (number, hash):
                return []
            events = _events(connection.execute(READ, bounds).all())
        return events if events and events[0].previous == hash else None

    def latest(
        self,
        campaign: str,
        after: int,
        about: Sequence[Sequence[str]],
        kinds: Iterable[str],
        most: int,
    ) -> list[tuple[int, list[Event]]]:
        """Of each subject how many events of these kinds after a number are about it, and the last of them, at most so many.

        A subject is what the JSON of a body has, member by member: `('"agent":"agent-1"', '"round":3')`.
        """
        body = sa.func.replace(EVENTS.c.body, "}", ",")  # so that every member ends alike
        fits = [body.like(f"%{',%'.join(members)},%") for members in about]
        subject = sa.case(*((fit, n) for n, fit in enumerate(fits))).label("subject")
        seen = (
            sa.select(EVENTS.c.number, subject)
            .where(EVENTS.c.campaign == campaign, EVENTS.c.number > after, EVENTS.c.kind.in_(kinds))
            .where(
                sa.or_(*(body.like(f"%{last},%") for last in {members[-1] for members in about}))
            )
            .subquery()
        )
        newest = sa.func.row_number().over(
            partition_by=seen.c.subject, order_by=seen.c.number.desc()
        )
        count = sa.func.count().over(partition_by=seen.c.subject)
        ranked = (
            sa.select(*seen.c, newest.label("place"), count.label("count"))
            .where(seen.c.subject.is_not(None))
            .subquery()
        )
        columns = [EVENTS.c[name] for name in COLUMNS]
        last = (
            sa.select(*columns, ranked.c.subject, ranked.c["count"])
            .join(ranked, EVENTS.c.number == ranked.c.number)
            .where(EVENTS.c.campaign == campaign, ranked.c.place <= most)
            .order_by(EVENTS.c.number)
        )
        with self._reading() as connection:
            rows = connection.execute(last).all()
        found: list[tuple[int, list[Event]]] = [(0, []) for _ in about]
        for row, event in zip(rows, _events(rows), strict=True):
            found[row.subject] = (row[-1], [*found[row.subject][1], event])
        return found

    def issued(self, campaign: str, token_hash: str) -> bool:
        """Whether a link whose token has this hash was ever issued in a campaign."""
        found = sa.select(EVENTS.c.number).where(
            EVENTS.c.campaign == campaign,
            EVENTS.c.kind == "link issued",
            EVENTS.c.body.contains(token_hash),
        )
        with self._reading() as connection:
            return connection.execute(found.limit(1)).first() is not None

    def append(
        self,
        events: Sequence[Event],
        *,
        scope: str = "",
        key: str | None = None,
        digest: str = "",
        given: tuple[str, str] | None = None,
    ) -> None:
        """Write events that follow on what is there, all or none; they are on the disk when this returns.

        With a `key`, what it has written is kept under it in the same transaction. If events or key are there already, that
        is a Conflict. They are written only while a setting has the value that is `given`, else it is Replaced.
        """
        rows = _rows(events)
        keyed = None
        if key is not None:
            keyed = {"scope": scope, "key": key, "digest": digest, "campaign": rows[0]["campaign"]}
            for name, text in keyed.items():
                refuse_unstorable(text, name)
            keyed |= {"first": rows[0]["number"], "last": rows[-1]["number"]}
        with explain_refusals(self._place.name):
            self._append_surely(events, rows, keyed, given)

    def _append_surely(
        self,
        events: Sequence[Event],
        rows: list[dict[str, Any]],
        key: dict[str, Any] | None,
        given: tuple[str, str] | None,
    ) -> None:
        """Append, and find out what became of it if the connection is lost on the way.

        Then the server may or may not have written it, or may be about to. So the same is tried again: either it is written
        now, or the events are found to be there, with the same hashes.
        """
        until = None
        while True:
            try:
                return self._append_once(rows, key, given)
            except Conflict:
                if until is not None and self._has(events):
                    return None
                raise
            except DBAPIError as error:
                if until is None and not error.connection_invalidated:
                    raise
                until = until or time.monotonic() + PATIENCE
                if time.monotonic() > until:
                    raise StoreUnavailable(
                        f"the database {self._place.name} is gone, and it is not known whether events "
                        f"{events[0].number} to {events[-1].number} of campaign {shown(events[0].campaign)} "
                        "were written: ask again when it is back",
                        "it is gone, and it is not known whether this was written: ask again when it is back",
                    ) from None
            time.sleep(BETWEEN_TRIES)

    def _append_once(
        self,
        rows: list[dict[str, Any]],
        key: dict[str, Any] | None,
        given: tuple[str, str] | None,
    ) -> None:
        first = rows[0]
        campaign, number, previous = first["campaign"], first["number"], first["previous"]
        with self._turn, self._for_writing.begin() as connection:
            before = connection.execute(LAST, {"id": campaign}).first()
            if (before or (0, NOTHING)) != (number - 1, previous):
                there = "there is none" if before is None else f"the last is {before[0]}"
                raise Conflict(
                    f"event {number} of campaign {shown(campaign)} does not follow on what is there: {there}"
                )
            if given is not None:
                # Whoever replaces it waits for this to end: nothing that it allowed comes later.
                held = SETTING.with_for_update(read=True)
                if connection.execute(held, {"wanted": given[0]}).scalar() != given[1]:
                    raise Replaced(f"the setting {shown(given[0])} was replaced")
            with _first(
                f"event {number} of campaign {shown(campaign)} was written by somebody else"
            ):
                connection.execute(sa.insert(EVENTS), rows)
            if key is not None:
                with _first(f"the key {shown(key['key'])} was used before"):
                    connection.execute(sa.insert(KEYS), key)

    def _has(self, events: Sequence[Event]) -> bool:
        """Whether these very events are there."""
        first, last = events[0], events[-1]
        found = self.read(first.campaign, first.number - 1, first.number)
        found += self.read(last.campaign, last.number - 1, last.number)
        return [one.hash for one in found] == [first.hash, last.hash]

    def keyed(self, scope: str, key: str) -> Keyed | None:
        """What was written under a key, if anything was."""
        if not storable(scope) or not storable(key):
            return None
        with self._reading() as connection:
            row = connection.execute(KEYED, {"of": scope, "wanted": key}).first()
        return None if row is None else Keyed(*row)

    def snapshot(self, campaign: str) -> Snapshot | None:
        """The snapshot that is kept of a campaign, if there is one."""
        if not storable(campaign):
            return None
        columns = [SNAPSHOTS.c[name] for name in Snapshot._fields]
        query = sa.select(*columns).where(SNAPSHOTS.c.campaign == campaign)
        with self._reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else Snapshot(*row)

    def keep_snapshot(self, campaign: str, snapshot: Snapshot) -> None:
        """Keep a snapshot of a campaign in place of the one before, unless that is of a later event."""
        refuse_unstorable(campaign, "campaign")
        refuse_unstorable(snapshot.made_with, "made_with")
        new = self._insert(SNAPSHOTS).values(campaign=campaign, **snapshot._asdict())
        newer = new.on_conflict_do_update(
            index_elements=[SNAPSHOTS.c.campaign],
            set_={name: new.excluded[name] for name in Snapshot._fields},
            where=SNAPSHOTS.c.number <= new.excluded.number,
        )
        with self._writing() as connection:
            try:
                connection.execute(newer)
            except IntegrityError:
                raise InvalidInput(
                    f"there is no event {snapshot.number} of campaign {shown(campaign)} to keep a snapshot of"
                ) from None

    def settle(self, name: str, value: str) -> str:
        """The value of a setting: what is there, or this one if nothing was. The first to write it decides for all."""
        found = self.setting(name)  # most often it is there, and nobody has to wait
        if found is not None:
            return found
        refuse_unstorable(name, "the name of a setting")
        refuse_unstorable(value, "a setting")
        with self._writing() as connection:
            new = self._insert(SETTINGS).values(name=name, value=value)
            connection.execute(new.on_conflict_do_nothing())
            return str(connection.execute(SETTING, {"wanted": name}).scalar_one())

    def replace(self, name: str, value: str) -> None:
        """Let a setting have this value, whatever it had before."""
        refuse_unstorable(name, "the name of a setting")
        refuse_unstorable(value, "a setting")
        new = self._insert(SETTINGS).values(name=name, value=value)
        with self._writing() as connection:
            connection.execute(
                new.on_conflict_do_update(
                    index_elements=[SETTINGS.c.name], set_={"value": new.excluded.value}
                )
            )

    def setting(self, name: str) -> str | None:
        """The value of a setting, if it was settled."""
        if not storable(name):
            return None
        with self._reading() as connection:
            found = connection.execute(SETTING, {"wanted": name}).scalar()
        return None if found is None else str(found)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with explain_refusals(self._place.name), self._for_reading.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with (
            explain_refusals(self._place.name),
            self._turn,
            self._for_writing.begin() as connection,
        ):
            yield connection


@contextmanager
def _first(message: str) -> Iterator[None]:
    """What is there already when it is written within is a Conflict."""
    try:
        yield
    except IntegrityError:
        raise Conflict(message) from None


def storable(text: str) -> bool:
    """Whether every database can hold a text: PostgreSQL has no character zero, and half a character is none."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def refuse_unstorable(text: str, name: str) -> None:
    """Refuse a text that not every database can hold."""
    if not storable(text):
        raise InvalidInput(f"{name} is {shown(text)}: {ALLOWED_TEXT}")


def _rows(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Events as rows, if each follows on the one before and can be kept anywhere."""
    if not events:
        raise InvalidInput("no events to append: at least one")
    bodies = []
    for event in events:
        bodies.append(body_text(event))
        texts = (
            event.campaign
            + event.time
            + event.who
            + (event.key or "")
            + (event.link or "")
            + bodies[-1]
        )
        if not storable(texts) or ("u0000" in texts and ZERO.search(bodies[-1])):
            raise InvalidInput(
                f"event {event.number} has a text that cannot be kept: {ALLOWED_TEXT}"
            )
    first = events[0]
    return [
        {name: getattr(event, name) for name in COLUMNS} | {"body": body}
        for event, body in zip(
            check_chain(events, first.number - 1, first.previous), bodies, strict=True
        )
    ]


def _events(rows: Sequence[Any]) -> list[Event]:
    """The events of rows. All bodies are parsed at once, in half the time that one after the other takes."""
    try:
        bodies = json.loads(f"[{','.join([row[BODY] for row in rows])}]")
        return [
            Event(*[*row[:BODY], body, *row[BODY + 1 : len(COLUMNS)]])
            for row, body in zip(rows, bodies, strict=True)
        ]
    except ValueError:
        raise NotInOrder(_damage(rows)) from None


def _damage(rows: Sequence[Any]) -> str:
    """Which of the events has a body that cannot be read."""
    for row in rows:
        try:
            json.loads(row[BODY])
        except ValueError:
            return f"event {row.number} is not what its hash says: its body is no JSON"
    return f"an event from {rows[0].number} to {rows[-1].number} is not what its hash says"
