"""Maintenance of a database: backup, restore, upgrade and check.

A backup is a database itself, in one SQLite file whatever it was taken from: all rows as they stood at one moment, with the
schema they had.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from heterobandits.campaigns.audit.verification import ANCHOR_MIN_DIGITS
from heterobandits.campaigns.events import GENESIS_HASH, check_chain
from heterobandits.campaigns.storage.database import (
    NEW_FILE_MODE,
    SCHEMA_REVISION,
    VERSION_TABLE,
    Database,
    close_afterwards,
    connect_database,
    create_database,
    explain_refusals,
    reason_of_error,
    schema_revision_of,
    upgrade_schema,
)
from heterobandits.campaigns.storage.link_keys import LinkKeys
from heterobandits.campaigns.storage.store import Store
from heterobandits.campaigns.storage.tables import (
    EVENTS_TABLE,
    POSTGRES_REFUSAL,
    TRIGGERS_BY_DIALECT,
)
from heterobandits.errors import InvalidInput, parse_path, repr_of
from heterobandits.output.files import explain_write_errors, write_atomic

# and not switched off: how each is made, and what is done by the function that it calls, if it calls one
TRIGGER_QUERIES = {
    "sqlite": "SELECT name, sql, '' FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'",
    "postgresql": "SELECT tgname, pg_get_triggerdef(pg_trigger.oid, true), prosrc "
    "FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid "
    "WHERE tgrelid = 'events'::regclass AND tgenabled IN ('O', 'A') AND NOT tgisinternal",
}
COPY_BATCH_ROWS = 1000  # copied at a time
CHECK_BATCH_EVENTS = 10_000  # checked at a time


class DatabaseFinding(NamedTuple):
    """One thing that was checked, how it stands, and whether that is right."""

    what: str
    says: str
    fine: bool


def backup_database(database: str | Path, target: str | Path) -> Path:
    """Copy a whole database into a file while others may keep writing, and return the file."""
    path = parse_path(target, "target")
    if path.exists():
        raise InvalidInput(f"{path} is there already: a backup overwrites nothing")

    def write(aside: Path) -> None:
        aside.chmod(NEW_FILE_MODE)
        with close_afterwards(connect_database(aside)) as copy:
            _copy_rows(source, copy, schema)

    with close_afterwards(connect_database(database)) as source:
        schema = _schema_of(source)
        with explain_write_errors(path.absolute().parent):
            write_atomic(path, write)
    return path


def restore_database(file: str | Path, database: str | Path) -> None:
    """Copy a backup into a database that is empty or not there yet, and bring it up to this version's schema."""
    with close_afterwards(connect_database(parse_path(file, "backup"))) as source:
        schema = _schema_of(source)
        with close_afterwards(create_database(database)) as target:
            _copy_rows(source, target, schema, SCHEMA_REVISION)


def upgrade_database(database: str | Path) -> tuple[str, str]:
    """Upgrade a database to this version's schema, and return the schemas before and after."""
    with close_afterwards(connect_database(database)) as place:
        before = _schema_of(place)
        with place.writing.begin() as connection:
            upgrade_schema(connection, place.name, SCHEMA_REVISION)
    return before, SCHEMA_REVISION


def check_database(database: str | Path) -> Iterator[DatabaseFinding]:
    """Check a database: its file, its schema, and every campaign's chain of events."""
    with close_afterwards(connect_database(database)) as place:
        schema = _schema_of(place)
        yield DatabaseFinding("schema", schema, True)
        fault = _sqlite_fault(place)
        yield DatabaseFinding("database", fault or "whole", fault is None)
        if schema < SCHEMA_REVISION:
            yield DatabaseFinding(
                "campaigns", "not read: run `heterobandits db upgrade` first", False
            )
            return
        wrong = _describe_wrong_triggers(place)
        says = f"{wrong}: events could be changed, deleted or not written; compare the hashes with earlier ones"
        yield DatabaseFinding("append-only", says if wrong else "kept by triggers", not wrong)
        readable = LinkKeys.beside(database).warning
        if readable is not None:
            yield DatabaseFinding("key of links", readable, False)
        with place.engine.connect() as connection:
            named = sa.select(EVENTS_TABLE.c.campaign).distinct()
            campaigns = sorted(connection.scalars(named))
    with Store(database, create=False) as store:
        for campaign in campaigns:
            what = f"campaign {repr_of(campaign)}"
            try:
                number, last = _chain_end(store, campaign)
                says = f"{number:,} events, whole, the last with hash {last[:ANCHOR_MIN_DIGITS]}"
                yield DatabaseFinding(what, says, True)
            except InvalidInput as error:
                yield DatabaseFinding(what, str(error), False)


def _describe_wrong_triggers(place: Database) -> str:
    """Which of the triggers that protect events are missing, disabled, changed or foreign; empty if none."""
    dialect = place.engine.dialect.name
    does = POSTGRES_REFUSAL if dialect == "postgresql" else ""
    with place.engine.connect() as connection:
        rows = connection.exec_driver_sql(TRIGGER_QUERIES[dialect])
        there = {name: (made, done) for name, made, done in rows}
    wrong = {
        name: "is another one" if name in there else "is missing"
        for name, made in TRIGGERS_BY_DIALECT[dialect].items()
        if there.get(name) != (made, does)
    }
    wrong |= {name: "was added" for name in there if name not in TRIGGERS_BY_DIALECT[dialect]}
    return ", ".join(f"{name} {how}" for name, how in wrong.items())


def _chain_end(store: Store, campaign: str) -> tuple[int, str]:
    """The number and the hash of a campaign's last event, if the chain is intact."""
    number, last = 0, GENESIS_HASH
    while part := store.read(campaign, number, number + CHECK_BATCH_EVENTS):
        for event in check_chain(part, number, last):
            number, last = event.number, event.hash
    if number == 0 or store.head(campaign).number != number:
        raise InvalidInput(f"event {number + 1} is missing")
    return number, last


def _sqlite_fault(place: Database) -> str | None:
    """What SQLite finds wrong with its file; a PostgreSQL server checks its own."""
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


def _schema_of(place: Database) -> str:
    """The schema of a database that has one."""
    found = schema_revision_of(place)
    if found is None:
        raise InvalidInput(f"{place.name} is an empty database: no campaigns are kept here")
    return found


def _copy_rows(source: Database, target: Database, *schemas: str) -> None:
    """Copy all rows into an empty database with the first of these schemas, then upgrade it to the last; all or nothing."""
    first, *later = schemas
    with source.still.connect() as reading, target.writing.begin() as writing:
        if upgrade_schema(writing, target.name, first) is not None:
            raise InvalidInput(
                f"{target.name} has campaigns already: give a database that is empty or not there yet"
            )
        for table, rows in _read_rows(reading, source.name):
            writing.execute(sa.insert(table), rows)
        for schema in later:
            upgrade_schema(writing, target.name, schema)


def _read_rows(
    reading: sa.Connection, name: str
) -> Iterator[tuple[sa.Table, list[dict[str, Any]]]]:
    """All rows of a database in batches; a read error names this database, not the target."""
    with explain_refusals(name):
        found = sa.MetaData()
        found.reflect(reading)
        for table in found.sorted_tables:
            if table.name == VERSION_TABLE:
                continue
            rows = reading.execution_options(yield_per=COPY_BATCH_ROWS).execute(sa.select(table))
            for part in rows.mappings().partitions():
                yield table, [dict(row) for row in part]
