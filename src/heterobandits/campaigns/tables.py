"""The tables of a database of campaigns. Events are the truth; the others are written beside them, in the same transaction or later.

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

EVENTS = Table(
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
    EVENTS.c.campaign,
    sqlite_where=text("number = 1"),
    postgresql_where=text("number = 1"),
)

KEYS = Table(
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

SNAPSHOTS = Table(
    "snapshots",
    METADATA,
    Column("campaign", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("made_with", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    ForeignKeyConstraint(["campaign", "number"], ["events.campaign", "events.number"]),
)

TRIGGERS = {  # that keep events as they were written
    "sqlite": ("events_are_not_changed", "events_are_not_deleted", "events_are_not_replaced"),
    "postgresql": ("events_are_not_changed", "events_are_not_truncated"),
}

SETTINGS = Table(
    "settings",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
