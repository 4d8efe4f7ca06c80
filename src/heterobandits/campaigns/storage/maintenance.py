"""Upkeep of a database: backup and restore, upgrade, check.

A backup is a database itself, in one SQLite file whatever it was taken from: all rows as they stood at one moment, with the
schema they had.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from heterobandits.campaigns.audit.verification import SHORT
from heterobandits.campaigns.events import NOTHING, check_chain
from heterobandits.campaigns.storage.database import (
    OWN,
    REVISION,
    VERSION_TABLE,
    Database,
    closing,
    connected,
    explain_refusals,
    made,
    reason_of_error,
    revision,
    upgrade_schema,
)
from heterobandits.campaigns.storage.store import Store
from heterobandits.campaigns.storage.tables import EVENTS, REFUSAL, TRIGGERS
from heterobandits.errors import InvalidInput, path_from, shown
from heterobandits.output.files import write_aside, writing_to

TRIGGERS_THERE = {  # and not switched off: how each is made, and what is done by the function that it calls, if it calls one
    "sqlite": "SELECT name, sql, '' FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'",
    "postgresql": "SELECT tgname, pg_get_triggerdef(pg_trigger.oid, true), prosrc "
    "FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid "
    "WHERE tgrelid = 'events'::regclass AND tgenabled IN ('O', 'A') AND NOT tgisinternal",
}
ROWS = 1000  # copied at a time
EVENTS_AT_ONCE = 10_000  # checked at a time


class Finding(NamedTuple):
    """What was looked at, how it stands, and whether that is as it should be."""

    what: str
    says: str
    fine: bool


def backup(database: str | Path, target: str | Path) -> Path:
    """The file that all of a database was copied to, while others may go on writing to it."""
    path = path_from(target, "target")
    if path.exists():
        raise InvalidInput(f"{path} is there already: a backup overwrites nothing")

    def write(aside: Path) -> None:
        aside.chmod(OWN)
        with closing(connected(aside)) as copy:
            _copy(source, copy, schema)

    with closing(connected(database)) as source:
        schema = _schema(source)
        with writing_to(path.absolute().parent):
            write_aside(path, write)
    return path


def restore(file: str | Path, database: str | Path) -> None:
    """Copy a backup into a database that is empty or not there yet, and bring it up to this version's schema."""
    with closing(connected(path_from(file, "backup"))) as source:
        schema = _schema(source)
        with closing(made(database)) as target:
            _copy(source, target, schema, REVISION)


def upgraded(database: str | Path) -> tuple[str, str]:
    """The schemas that a database had and has, brought up to this version's."""
    with closing(connected(database)) as place:
        before = _schema(place)
        with place.writing.begin() as connection:
            upgrade_schema(connection, place.name, REVISION)
    return before, REVISION


def check_database(database: str | Path) -> Iterator[Finding]:
    """What is found in a database: its file, its schema, and every campaign's chain of events."""
    with closing(connected(database)) as place:
        schema = _schema(place)
        yield Finding("schema", schema, True)
        fault = _fault(place)
        yield Finding("database", fault or "whole", fault is None)
        if schema < REVISION:
            yield Finding("campaigns", "not read: run `heterobandits db upgrade` first", False)
            return
        wrong = _wrong_triggers(place)
        says = f"{wrong}: events could be changed, deleted or not written; compare the hashes with earlier ones"
        yield Finding("append-only", says if wrong else "kept by triggers", not wrong)
        with place.engine.connect() as connection:
            named = sa.select(EVENTS.c.campaign).distinct()
            campaigns = sorted(connection.scalars(named))
    with Store(database, create=False) as store:
        for campaign in campaigns:
            what = f"campaign {shown(campaign)}"
            try:
                number, last = _end(store, campaign)
                says = f"{number:,} events, whole, the last with hash {last[:SHORT]}"
                yield Finding(what, says, True)
            except InvalidInput as error:
                yield Finding(what, str(error), False)


def _wrong_triggers(place: Database) -> str:
    """Which of the triggers that keep events are not there, switched off or other ones, and which were added; nothing if all is as it was made."""
    dialect = place.engine.dialect.name
    does = REFUSAL if dialect == "postgresql" else ""
    with place.engine.connect() as connection:
        rows = connection.exec_driver_sql(TRIGGERS_THERE[dialect])
        there = {name: (made, done) for name, made, done in rows}
    wrong = {
        name: "is another one" if name in there else "is missing"
        for name, made in TRIGGERS[dialect].items()
        if there.get(name) != (made, does)
    }
    wrong |= {name: "was added" for name in there if name not in TRIGGERS[dialect]}
    return ", ".join(f"{name} {how}" for name, how in wrong.items())


def _end(store: Store, campaign: str) -> tuple[int, str]:
    """The number and the hash of a campaign's last event, if the chain is whole."""
    number, last = 0, NOTHING
    while part := store.read(campaign, number, number + EVENTS_AT_ONCE):
        for event in check_chain(part, number, last):
            number, last = event.number, event.hash
    if number == 0 or store.head(campaign).number != number:
        raise InvalidInput(f"event {number + 1} is missing")
    return number, last


def _fault(place: Database) -> str | None:
    """What SQLite finds wrong with its file. A PostgreSQL server looks after its own."""
    if place.engine.dialect.name != "sqlite":
        return None
    try:
        with place.engine.connect() as connection:
            told = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one()
            if told != "ok":
                return f"damaged: {' '.join(str(told).split())}"
            lost = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    except sa.exc.DatabaseError as error:
        return reason_of_error(error)
    return None if lost is None else f"a row of {lost[0]} is of an event that is not there"


def _schema(place: Database) -> str:
    """The schema of a database that has one."""
    found = revision(place)
    if found is None:
        raise InvalidInput(f"{place.name} is an empty database: no campaigns are kept here")
    return found


def _copy(source: Database, target: Database, *schemas: str) -> None:
    """Copy all rows into an empty database, at the first of these schemas, and bring them up to the last; all or nothing."""
    first, *later = schemas
    with source.still.connect() as reading, target.writing.begin() as writing:
        if upgrade_schema(writing, target.name, first) is not None:
            raise InvalidInput(
                f"{target.name} has campaigns already: give a database that is empty or not there yet"
            )
        for table, rows in _rows(reading, source.name):
            writing.execute(sa.insert(table), rows)
        for schema in later:
            upgrade_schema(writing, target.name, schema)


def _rows(reading: sa.Connection, name: str) -> Iterator[tuple[sa.Table, list[dict[str, Any]]]]:
    """All rows of a database, some at a time; what cannot be read is said of it, not of where they go."""
    with explain_refusals(name):
        found = sa.MetaData()
        found.reflect(reading)
        for table in found.sorted_tables:
            if table.name == VERSION_TABLE:
                continue
            rows = reading.execution_options(yield_per=ROWS).execute(sa.select(table))
            for part in rows.mappings().partitions():
                yield table, [dict(row) for row in part]
