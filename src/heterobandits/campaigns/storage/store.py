"""The store: it keeps the events of campaigns in order, each once, and reports a write when it is on disk.

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
from typing import Any, NamedTuple, Self

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError

from heterobandits.campaigns.events import GENESIS_HASH, Event, NotInOrder, body_text, check_chain
from heterobandits.campaigns.storage.database import (
    DB_LOCK_TIMEOUT_S,
    StoreUnavailable,
    check_room,
    explain_refusals,
    open_database,
)
from heterobandits.campaigns.storage.link_keys import LinkKeys
from heterobandits.campaigns.storage.tables import (
    EVENTS_TABLE,
    KEYS_TABLE,
    LINK_USES_TABLE,
    SETTINGS_TABLE,
    SNAPSHOTS_TABLE,
)
from heterobandits.errors import InvalidInput, repr_of

__all__ = [
    "CampaignHead",
    "KeyedWrite",
    "LinkUse",
    "SettingConflict",
    "Snapshot",
    "Store",
    "StoreUnavailable",
    "UnknownCampaign",
    "WriteConflict",
]

DB_INTEGER_MAX = 2**63 - 1  # that a number in a database can be
ZERO_CHARACTER_PATTERN = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # the character in canonical JSON
INSERT_BY_DIALECT: dict[str, Callable[[sa.Table], Any]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}
STORABLE_TEXT_RULE = "a text has no character zero and no half characters"
RECONNECT_PAUSE_S = 0.2  # seconds, while a server comes back
EVENT_COLUMNS = [field.name for field in fields(Event)]
BODY_COLUMN = EVENT_COLUMNS.index("body")
FIRST_EVENTS = EVENTS_TABLE.alias("first")


def _heads_query() -> sa.Select[Any]:
    """The query for where campaigns stand: each one's last event and first time, both by primary key."""
    first, last = FIRST_EVENTS, EVENTS_TABLE.alias("last")
    newest = sa.select(sa.func.max(EVENTS_TABLE.c.number)).where(
        EVENTS_TABLE.c.campaign == first.c.campaign
    )
    columns = (first.c.campaign, last.c.number, last.c.hash, last.c.time, first.c.time)
    return (
        sa.select(*columns)
        .join(last, last.c.campaign == first.c.campaign)
        .where(first.c.number == sa.literal_column("1"))  # as the index of first events has it
        .where(last.c.number == newest.scalar_subquery())
    )


IS_OF_CAMPAIGN = EVENTS_TABLE.c.campaign == sa.bindparam("id")
HEADS_QUERY = _heads_query()
LAST_EVENT_QUERY = (
    sa.select(EVENTS_TABLE.c.number, EVENTS_TABLE.c.hash)
    .where(IS_OF_CAMPAIGN)
    .order_by(EVENTS_TABLE.c.number.desc())
    .limit(1)
)
EVENTS_QUERY = (
    sa.select(*(EVENTS_TABLE.c[name] for name in EVENT_COLUMNS))
    .where(
        IS_OF_CAMPAIGN, EVENTS_TABLE.c.number.between(sa.bindparam("least"), sa.bindparam("most"))
    )
    .order_by(EVENTS_TABLE.c.number)
)
SIZES = EVENTS_QUERY.with_only_columns(sa.func.length(EVENTS_TABLE.c.body))
SETTING_QUERY = sa.select(SETTINGS_TABLE.c.value).where(
    SETTINGS_TABLE.c.name == sa.bindparam("wanted")
)


class WriteConflict(InvalidInput):
    """Somebody else was first to write that event or to use that key."""


class SettingConflict(InvalidInput):
    """A setting has changed since it allowed this write."""


class UnknownCampaign(InvalidInput):
    """No campaign has that id."""


class CampaignHead(NamedTuple):
    """Where a campaign stands: its last event, and the time of its first."""

    campaign: str
    number: int
    hash: str
    time: str
    created: str


class KeyedWrite(NamedTuple):
    """The events `first` to `last` that a request with a key wrote; `digest` identifies the request."""

    digest: str
    campaign: str
    first: int
    last: int


KEY_QUERY = sa.select(*(KEYS_TABLE.c[name] for name in KeyedWrite._fields)).where(
    KEYS_TABLE.c.scope == sa.bindparam("of"), KEYS_TABLE.c.key == sa.bindparam("wanted")
)


class LinkUse(NamedTuple):
    """When a link was used for the first time, and for the last."""

    first: str
    last: str


class Telling(NamedTuple):
    """When an outcome was told, and by whom."""

    time: str
    who: str


class Snapshot(NamedTuple):
    """The state after event `number`, in the words of the version that made it."""

    number: int
    made_with: str
    data: bytes


class Store:
    """The campaigns of a database, for any number of threads at once; other processes may use it too."""

    def __init__(self, database: str | Path, *, create: bool = True) -> None:
        self._place = open_database(database, create=create)
        self.link_keys = LinkKeys.beside(database)
        weakref.finalize(self, self._place.engine.dispose)  # nobody need remember to close it
        self._for_reading, self._for_writing = self._place.reading, self._place.writing
        dialect = self._place.engine.dialect.name
        self._insert = INSERT_BY_DIALECT[dialect]
        # SQLite has one writer at a time. Threads wait for each other here, where they are woken, and not at the file.
        self._lock = Lock() if dialect == "sqlite" else None
        self._turn: AbstractContextManager[Any] = self._lock or nullcontext()

    def close(self) -> None:
        """Let go of the database."""
        self._place.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def check(self) -> None:
        """Refuse if the database cannot be read, or its disk is full, or it takes no writes."""
        self.setting("")  # whatever is there
        check_room(self._place)

    def heads(self) -> list[CampaignHead]:
        """Where all campaigns stand, in the order of their creation."""
        with self._reading() as connection:
            found = [CampaignHead(*row) for row in connection.execute(HEADS_QUERY)]
        return sorted(found, key=lambda head: (head.created, head.campaign))

    def head(self, campaign: str) -> CampaignHead:
        """Where a campaign stands."""
        if is_storable(campaign):
            with self._reading() as connection:
                row = connection.execute(
                    HEADS_QUERY.where(FIRST_EVENTS.c.campaign == campaign)
                ).first()
            if row is not None:
                return CampaignHead(*row)
        raise UnknownCampaign(f"there is no campaign {repr_of(campaign)}")

    def last(self, campaign: str) -> tuple[int, str] | None:
        """The number and the hash of a campaign's last event; None if it has none."""
        if not is_storable(campaign):
            return None
        with self._reading() as connection:
            row = connection.execute(LAST_EVENT_QUERY, {"id": campaign}).first()
        return None if row is None else (row.number, row.hash)

    def read(self, campaign: str, after: int = 0, upto: int | None = None) -> list[Event]:
        """The events of a campaign after one number and up to another, in order; none if there are none."""
        if not is_storable(campaign) or after >= DB_INTEGER_MAX:
            return []
        most = DB_INTEGER_MAX if upto is None else max(0, min(upto, DB_INTEGER_MAX))
        bounds = {"id": campaign, "least": max(after, 0) + 1, "most": most}
        with self._reading() as connection:
            rows = connection.execute(EVENTS_QUERY, bounds).all()
        return _events_of_rows(rows)

    def sizes(self, campaign: str, after: int, upto: int) -> list[int]:
        """How many letters the bodies of these events have, in order."""
        bounds = {"id": campaign, "least": after + 1, "most": min(upto, DB_INTEGER_MAX)}
        with self._reading() as connection:
            return list(connection.execute(SIZES, bounds).scalars())

    def news(self, campaign: str, number: int, hash: str) -> list[Event] | None:
        """The events after one that is known; None if the log does not have that one any more, as after an older copy was put back."""
        bounds = {"id": campaign, "least": number + 1, "most": DB_INTEGER_MAX}
        with self._reading() as connection:
            last = connection.execute(LAST_EVENT_QUERY, {"id": campaign}).first()
            if last is not None and tuple(last) == (number, hash):
                return []
            events = _events_of_rows(connection.execute(EVENTS_QUERY, bounds).all())
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
        body = sa.func.replace(EVENTS_TABLE.c.body, "}", ",")  # so that every member ends alike
        fits = [body.like(f"%{',%'.join(members)},%") for members in about]
        subject = sa.case(*((fit, n) for n, fit in enumerate(fits))).label("subject")
        seen = (
            sa.select(EVENTS_TABLE.c.number, subject)
            .where(
                EVENTS_TABLE.c.campaign == campaign,
                EVENTS_TABLE.c.number > after,
                EVENTS_TABLE.c.kind.in_(kinds),
            )
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
        columns = [EVENTS_TABLE.c[name] for name in EVENT_COLUMNS]
        last = (
            sa.select(*columns, ranked.c.subject, ranked.c["count"])
            .join(ranked, EVENTS_TABLE.c.number == ranked.c.number)
            .where(EVENTS_TABLE.c.campaign == campaign, ranked.c.place <= most)
            .order_by(EVENTS_TABLE.c.number)
        )
        with self._reading() as connection:
            rows = connection.execute(last).all()
        found: list[tuple[int, list[Event]]] = [(0, []) for _ in about]
        for row, event in zip(rows, _events_of_rows(rows), strict=True):
            found[row.subject] = (row[-1], [*found[row.subject][1], event])
        return found

    def issued(self, campaign: str, token_hash: str) -> bool:
        """Whether a link whose token has this hash was ever issued in a campaign."""
        found = sa.select(EVENTS_TABLE.c.number).where(
            EVENTS_TABLE.c.campaign == campaign,
            EVENTS_TABLE.c.kind == "link issued",
            EVENTS_TABLE.c.body.contains(token_hash),
        )
        with self._reading() as connection:
            return connection.execute(found.limit(1)).first() is not None

    def tellings(self, campaign: str, kinds: Iterable[str]) -> dict[int, Telling]:
        """When the events of these kinds were written, and by whom, by number."""
        columns = (EVENTS_TABLE.c.number, EVENTS_TABLE.c.time, EVENTS_TABLE.c.who)
        query = sa.select(*columns).where(
            EVENTS_TABLE.c.campaign == campaign, EVENTS_TABLE.c.kind.in_(kinds)
        )
        with self._reading() as connection:
            return {number: Telling(*told) for number, *told in connection.execute(query)}

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
        rows = _rows_of_events(events)
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
            except WriteConflict:
                if until is not None and self._has(events):
                    return None
                raise
            except DBAPIError as error:
                if until is None and not error.connection_invalidated:
                    raise
                until = until or time.monotonic() + DB_LOCK_TIMEOUT_S
                if time.monotonic() > until:
                    raise StoreUnavailable(
                        f"the database {self._place.name} is gone, and it is not known whether events "
                        f"{events[0].number} to {events[-1].number} of campaign {repr_of(events[0].campaign)} "
                        "were written: ask again when it is back",
                        "it is gone, and it is not known whether this was written: ask again when it is back",
                    ) from None
            time.sleep(RECONNECT_PAUSE_S)

    def _append_once(
        self,
        rows: list[dict[str, Any]],
        key: dict[str, Any] | None,
        given: tuple[str, str] | None,
    ) -> None:
        first = rows[0]
        campaign, number, previous = first["campaign"], first["number"], first["previous"]
        with self._turn, self._for_writing.begin() as connection:
            before = connection.execute(LAST_EVENT_QUERY, {"id": campaign}).first()
            if (before or (0, GENESIS_HASH)) != (number - 1, previous):
                there = "there is none" if before is None else f"the last is {before[0]}"
                raise WriteConflict(
                    f"event {number} of campaign {repr_of(campaign)} does not follow on what is there: {there}"
                )
            if given is not None:
                # Whoever replaces it waits for this to end: nothing that it allowed comes later.
                held = SETTING_QUERY.with_for_update(read=True)
                if connection.execute(held, {"wanted": given[0]}).scalar() != given[1]:
                    raise SettingConflict(f"the setting {repr_of(given[0])} was replaced")
            with _explain_conflict(
                f"event {number} of campaign {repr_of(campaign)} was written by somebody else"
            ):
                connection.execute(sa.insert(EVENTS_TABLE), rows)
            if key is not None:
                with _explain_conflict(f"the key {repr_of(key['key'])} was used before"):
                    connection.execute(sa.insert(KEYS_TABLE), key)

    def _has(self, events: Sequence[Event]) -> bool:
        """Whether these very events are there."""
        first, last = events[0], events[-1]
        found = self.read(first.campaign, first.number - 1, first.number)
        found += self.read(last.campaign, last.number - 1, last.number)
        return [one.hash for one in found] == [first.hash, last.hash]

    def keyed(self, scope: str, key: str) -> KeyedWrite | None:
        """What was written under a key, if anything was."""
        if not is_storable(scope) or not is_storable(key):
            return None
        with self._reading() as connection:
            row = connection.execute(KEY_QUERY, {"of": scope, "wanted": key}).first()
        return None if row is None else KeyedWrite(*row)

    def snapshot(self, campaign: str) -> Snapshot | None:
        """The snapshot that is kept of a campaign, if there is one."""
        if not is_storable(campaign):
            return None
        columns = [SNAPSHOTS_TABLE.c[name] for name in Snapshot._fields]
        query = sa.select(*columns).where(SNAPSHOTS_TABLE.c.campaign == campaign)
        with self._reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else Snapshot(*row)

    def keep_snapshot(self, campaign: str, snapshot: Snapshot) -> None:
        """Keep a snapshot of a campaign in place of the one before, unless that is of a later event."""
        refuse_unstorable(campaign, "campaign")
        refuse_unstorable(snapshot.made_with, "made_with")
        new = self._insert(SNAPSHOTS_TABLE).values(campaign=campaign, **snapshot._asdict())
        newer = new.on_conflict_do_update(
            index_elements=[SNAPSHOTS_TABLE.c.campaign],
            set_={name: new.excluded[name] for name in Snapshot._fields},
            where=SNAPSHOTS_TABLE.c.number <= new.excluded.number,
        )
        with self._writing() as connection:
            try:
                connection.execute(newer)
            except IntegrityError:
                raise InvalidInput(
                    f"there is no event {snapshot.number} of campaign {repr_of(campaign)} to keep a snapshot of"
                ) from None

    def settle(self, name: str, value: str) -> str:
        """The value of a setting: what is there, or this one if nothing was. The first to write it decides for all."""
        found = self.setting(name)  # most often it is there, and nobody has to wait
        if found is not None:
            return found
        refuse_unstorable(name, "the name of a setting")
        refuse_unstorable(value, "a setting")
        with self._writing() as connection:
            new = self._insert(SETTINGS_TABLE).values(name=name, value=value)
            connection.execute(new.on_conflict_do_nothing())
            return str(connection.execute(SETTING_QUERY, {"wanted": name}).scalar_one())

    def replace(self, name: str, value: str) -> None:
        """Let a setting have this value, whatever it had before."""
        refuse_unstorable(name, "the name of a setting")
        refuse_unstorable(value, "a setting")
        new = self._insert(SETTINGS_TABLE).values(name=name, value=value)
        with self._writing() as connection:
            connection.execute(
                new.on_conflict_do_update(
                    index_elements=[SETTINGS_TABLE.c.name], set_={"value": new.excluded.value}
                )
            )

    def setting(self, name: str) -> str | None:
        """The value of a setting, if it was settled."""
        if not is_storable(name):
            return None
        with self._reading() as connection:
            found = connection.execute(SETTING_QUERY, {"wanted": name}).scalar()
        return None if found is None else str(found)

    def note_use(self, campaign: str, link: str, time: str) -> bool:
        """Note that a link is in use; nobody waits for that, so it is left undone while others write."""
        if self._lock is not None and not self._lock.acquire(blocking=False):
            return False
        new = self._insert(LINK_USES_TABLE).values(
            campaign=campaign, link=link, first=time, last=time
        )
        newer = new.on_conflict_do_update(
            index_elements=[LINK_USES_TABLE.c.campaign, LINK_USES_TABLE.c.link],
            set_={"last": new.excluded.last},
            where=LINK_USES_TABLE.c.last < new.excluded.last,
        )
        try:
            hasty = self._for_writing.execution_options(patience=0.0)
            with explain_refusals(self._place.name), hasty.begin() as connection:
                connection.execute(newer)
        finally:
            if self._lock is not None:
                self._lock.release()
        return True

    def uses(self, campaign: str) -> dict[str, LinkUse]:
        """When the links of a campaign were used; those that never were are not there."""
        columns = (LINK_USES_TABLE.c[name] for name in ("link", *LinkUse._fields))
        query = sa.select(*columns).where(LINK_USES_TABLE.c.campaign == campaign)
        with self._reading() as connection:
            return {link: LinkUse(*times) for link, *times in connection.execute(query)}

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
def _explain_conflict(message: str) -> Iterator[None]:
    """Within this context, a row that already exists raises Conflict."""
    try:
        yield
    except IntegrityError:
        raise WriteConflict(message) from None


def is_storable(text: str) -> bool:
    """Whether every database can store a text: PostgreSQL has no character zero, and nobody has half characters."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def refuse_unstorable(text: str, name: str) -> None:
    """Refuse a text that some database cannot store."""
    if not is_storable(text):
        raise InvalidInput(f"{name} is {repr_of(text)}: {STORABLE_TEXT_RULE}")


def _rows_of_events(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Events as rows, after checking that each continues the one before and can be stored anywhere."""
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
        if not is_storable(texts) or (
            "u0000" in texts and ZERO_CHARACTER_PATTERN.search(bodies[-1])
        ):
            raise InvalidInput(
                f"event {event.number} has a text that cannot be kept: {STORABLE_TEXT_RULE}"
            )
    first = events[0]
    return [
        {name: getattr(event, name) for name in EVENT_COLUMNS} | {"body": body}
        for event, body in zip(
            check_chain(events, first.number - 1, first.previous), bodies, strict=True
        )
    ]


def _events_of_rows(rows: Sequence[Any]) -> list[Event]:
    """The events in some rows. Parsing all bodies at once takes half the time of parsing them one by one."""
    try:
        bodies = json.loads(f"[{','.join([row[BODY_COLUMN] for row in rows])}]")
        return [
            Event(*[*row[:BODY_COLUMN], body, *row[BODY_COLUMN + 1 : len(EVENT_COLUMNS)]])
            for row, body in zip(rows, bodies, strict=True)
        ]
    except ValueError:
        raise NotInOrder(_describe_damage(rows)) from None


def _describe_damage(rows: Sequence[Any]) -> str:
    """Which event has a body that cannot be read."""
    for row in rows:
        try:
            json.loads(row[BODY_COLUMN])
        except ValueError:
            return f"event {row.number} is not what its hash says: its body is no JSON"
    return f"an event from {rows[0].number} to {rows[-1].number} is not what its hash says"
