"""`heterobandits db`: backup, restore, upgrade and check of a database of campaigns."""

import json
from pathlib import Path
from typing import Annotated

import typer

from heterobandits.cli.campaign_options import installed
from heterobandits.cli.options import TableOrJson
from heterobandits.errors import InvalidInput

WRONG = 1

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="HETEROBANDITS_DATABASE",
        help="The file with the campaigns, or postgresql://user:password@host/database.",
        metavar="FILE|URL",
        show_default=False,
        show_envvar=True,
    ),
]

app = typer.Typer(help="Look after a database of campaigns.")
app.callback()(installed)


def stated(database: str | None) -> str:
    """The database that the option or the variable names."""
    if not database:
        raise InvalidInput("--database is needed, or HETEROBANDITS_DATABASE: a file or a URL")
    return database


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="The file to write.", metavar="TARGET")],
    database: DatabaseOption = None,
) -> None:
    """Copy a database, in use or not, into one SQLite file, which is a database itself.

    Example: heterobandits db backup --database rangers.db backups/monday.db
    """
    from heterobandits.campaigns import upkeep

    print(f"{upkeep.backup(stated(database), target)} is a backup of all campaigns")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="The backup.", metavar="BACKUP")],
    database: DatabaseOption = None,
) -> None:
    """Copy a backup into a database that is empty or not there yet.

    Example: heterobandits db restore backups/monday.db --database rangers.db
    """
    from heterobandits.campaigns import upkeep
    from heterobandits.campaigns.databases import name_of

    upkeep.restore(file, stated(database))
    print(f"{name_of(stated(database))} has all campaigns of {file}")


@app.command()
def upgrade(database: DatabaseOption = None) -> None:
    """Bring a database of an older version up to this one's schema.

    Example: heterobandits db upgrade --database rangers.db
    """
    from heterobandits.campaigns import upkeep

    before, after = upkeep.upgraded(stated(database))
    print(f"schema {after} already" if before == after else f"from schema {before} to {after}")


@app.command()
def check(database: DatabaseOption = None, format: TableOrJson = "table") -> int:
    """Read all of a database, and say of each campaign whether its events are as they were written.

    Example: heterobandits db check --database rangers.db
    """
    from heterobandits.campaigns import upkeep

    wrong = False
    for finding in upkeep.check(stated(database)):
        wrong |= not finding.fine
        line = f"{finding.what}: {finding.says}"
        print(json.dumps(finding._asdict()) if format == "json" else line)
    return WRONG if wrong else 0
