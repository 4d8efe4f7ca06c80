"""Which link an event was written with; those of before say nothing of it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make room for it."""
    op.add_column("events", sa.Column("link", sa.Text))
