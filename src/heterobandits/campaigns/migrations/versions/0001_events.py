"""The first schema: events that the database itself refuses to change, keys of requests, snapshots, settings."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

REFUSALS = {
    "sqlite": (
        "CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events "
        "BEGIN SELECT RAISE(ABORT, 'events are never changed'); END",
        "CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events "
        "BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END",
        # INSERT OR REPLACE deletes without the trigger above
        "CREATE TRIGGER events_are_not_replaced BEFORE INSERT ON events WHEN EXISTS "
        "(SELECT 1 FROM events WHERE campaign = NEW.campaign AND number = NEW.number) "
        "BEGIN SELECT RAISE(ABORT, 'events are never replaced'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION refuse_change_of_events() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'events are never changed or deleted'; END $$",
        "CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE ON events "
        "FOR EACH ROW EXECUTE FUNCTION refuse_change_of_events()",
        "CREATE TRIGGER events_are_not_truncated BEFORE TRUNCATE ON events "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_events()",
    ),
}


def upgrade() -> None:
    """Make the tables, and the triggers that keep the log as it is."""
    op.create_table(
        "events",
        sa.Column("campaign", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("time", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    first = sa.text("number = 1")
    op.create_index(
        "events_first", "events", ["campaign"], sqlite_where=first, postgresql_where=first
    )
    op.create_table(
        "keys",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["campaign", "last"], ["events.campaign", "events.number"]),
    )
    op.create_table(
        "snapshots",
        sa.Column("campaign", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("made_with", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["campaign", "number"], ["events.campaign", "events.number"]),
    )
    op.create_table(
        "settings",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    for statement in REFUSALS[op.get_bind().dialect.name]:
        op.execute(statement)
