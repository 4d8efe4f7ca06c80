"""What Alembic runs: the migrations, on the connection and in the transaction that `databases` has opened."""

from alembic import context

from heterobandits.campaigns.storage.database import VERSION_TABLE


def migrate() -> None:
    """Run the migrations that the command at hand asks for."""
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, version_table=VERSION_TABLE)
    context.run_migrations()


if __name__ == "env_py":  # as Alembic calls it
    migrate()
