"""The tables of a campaign database. Events are the truth; all other tables are derived from them.

A migration makes them (`migrations/`); these are the tables as the last of them leaves them.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

METADATA = MetaData()

EVENTS_TABLE = Table(
    "events",
    METADATA,
    Column("campaign", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("time", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("body", Text, nullable=False),  # canonical JSON, whose bytes must stay
    Column("key", Text),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("link", Text),
)
# The campaigns there are, found without a look at all their events.
Index(
    "events_first",
    EVENTS_TABLE.c.campaign,
    sqlite_where=text("number = 1"),
    postgresql_where=text("number = 1"),
)

KEYS_TABLE = Table(
    "keys",
    METADATA,
    Column("scope", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("campaign", Text, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    ForeignKeyConstraint(["campaign", "last"], ["events.campaign", "events.number"]),
)

SNAPSHOTS_TABLE = Table(
    "snapshots",
    METADATA,
    Column("campaign", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("made_with", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    ForeignKeyConstraint(["campaign", "number"], ["events.campaign", "events.number"]),
)

# What keeps events as they were written: the first migration makes it, and it is compared with what is there, to the letter.
TRIGGERS_BY_DIALECT = {
    "sqlite": {
        "events_are_not_changed": "CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events "
        "BEGIN SELECT RAISE(ABORT, 'events are never changed'); END",
        "events_are_not_deleted": "CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events "
        "BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END",
        # INSERT OR REPLACE deletes without the trigger above
        "events_are_not_replaced": "CREATE TRIGGER events_are_not_replaced BEFORE INSERT ON events WHEN EXISTS "
        "(SELECT 1 FROM events WHERE campaign = NEW.campaign AND number = NEW.number) "
        "BEGIN SELECT RAISE(ABORT, 'events are never replaced'); END",
    },
    "postgresql": {  # in the words and the order of pg_get_triggerdef
        "events_are_not_changed": "CREATE TRIGGER events_are_not_changed BEFORE DELETE OR UPDATE ON events "
        "FOR EACH ROW EXECUTE FUNCTION refuse_change_of_events()",
        "events_are_not_truncated": "CREATE TRIGGER events_are_not_truncated BEFORE TRUNCATE ON events "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_events()",
    },
}
POSTGRES_REFUSAL = " BEGIN RAISE EXCEPTION 'events are never changed or deleted'; END "  # the body of that function

# When links were used, for whoever looks after them: it is no part of the history, and may be thrown away at any time.
LINK_USES_TABLE = Table(
    "link_uses",
    METADATA,
    Column("campaign", Text, primary_key=True),
    Column("link", Text, primary_key=True),
    Column("first", Text, nullable=False),
    Column("last", Text, nullable=False),
)

SETTINGS_TABLE = Table(
    "settings",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
