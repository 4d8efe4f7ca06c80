"""The first schema: events that the database itself refuses to change, keys of requests, snapshots, settings."""

import sqlalchemy as sa
from alembic import op

from heterobandits.campaigns.storage.tables import POSTGRES_REFUSAL, TRIGGERS_BY_DIALECT

revision = "0001"
down_revision = None


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
    dialect = op.get_bind().dialect.name
    if dialect == "postgresql":
        op.execute(
            f"CREATE FUNCTION refuse_change_of_events() RETURNS trigger LANGUAGE plpgsql AS $${POSTGRES_REFUSAL}$$"
        )
    for statement in TRIGGERS_BY_DIALECT[dialect].values():
        op.execute(statement)
