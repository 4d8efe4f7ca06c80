"""`heterobandits db`: backup, restore, upgrade and check of a database of campaigns."""

import json
from pathlib import Path
from typing import Annotated

import typer

from heterobandits.cli.campaign.options import (
    DATABASE_HELP,
    WhoOption,
    author_of,
    check_extra,
    open_repository,
    print_note,
    warn_of_password,
)
from heterobandits.cli.exit_codes import EXIT_FAILURE
from heterobandits.cli.options import TableOrJson
from heterobandits.errors import InvalidInput

BACKUP_TOKEN_NOTE = "the token of the server's owner is that of the backup too; heterobandits db new-owner makes another"

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="HETEROBANDITS_DATABASE",
        help=DATABASE_HELP,
        callback=warn_of_password,
        metavar="FILE|URL",
        show_default=False,
        show_envvar=True,
    ),
]

app = typer.Typer(help="Look after a database of campaigns.")
app.callback()(check_extra)


def database_of_option(database: str | None) -> str:
    """The database named by the option or the environment variable."""
    if not database:
        raise InvalidInput("--database is needed, or HETEROBANDITS_DATABASE: a file or a URL")
    return database


@app.command("backup")
def backup_command(
    target: Annotated[Path, typer.Argument(help="The file to write.", metavar="TARGET")],
    database: DatabaseOption = None,
) -> None:
    """Copy a database, in use or not, into one SQLite file, which is a database itself.

    Example: heterobandits db backup --database rangers.db backups/monday.db
    """
    from heterobandits.campaigns.storage import maintenance

    print(
        f"{maintenance.backup_database(database_of_option(database), target)} is a backup of all campaigns"
    )


@app.command("restore")
def restore_command(
    file: Annotated[Path, typer.Argument(help="The backup.", metavar="BACKUP")],
    database: DatabaseOption = None,
    revoke_links: Annotated[
        bool,
        typer.Option(
            "--revoke-links",
            help="Revoke all links in the copy, also those that have expired; make new ones for those who need them.",
        ),
    ] = False,
    who: WhoOption = None,
) -> None:
    """Copy a backup into a database that is empty or not there yet. Stop the server first.

    Links that were revoked after the backup was made open again, unless all are revoked with --revoke-links.

    Example: heterobandits db restore backups/monday.db --database rangers.db --revoke-links
    """
    from heterobandits.campaigns.storage import maintenance
    from heterobandits.campaigns.storage.database import name_of_database

    request = author_of(who) if revoke_links else None
    maintenance.restore_database(file, database_of_option(database))
    print(f"{name_of_database(database_of_option(database))} has all campaigns of {file}")
    if request is None:
        print_note(
            "links that were revoked after the backup was made open again: revoke them anew, or restore with --revoke-links; "
            f"{BACKUP_TOKEN_NOTE}"
        )
        return
    from heterobandits.campaigns.links import revoke_all_links

    revoked = 0
    with open_repository(database_of_option(database)) as log:
        for campaign, count in revoke_all_links(log, request):
            revoked += count
            if campaign.wrong is not None:
                print_note(f"{campaign.damage}; its links are as they were")
    print(f"links that were not revoked in it and now are revoked: {revoked}")
    print_note(BACKUP_TOKEN_NOTE)


@app.command("new-owner")
def new_owner_command(database: DatabaseOption = None) -> None:
    """Make a new token for the owner of the server, in place of the old one, which opens nothing from now on.

    A server that is running knows at once. HETEROBANDITS_OWNER_TOKEN, where a server was started with it, stands in place of
    both.

    Example: heterobandits db new-owner --database rangers.db
    """
    from heterobandits.campaigns.storage.store import Store
    from heterobandits.web.auth import OWNER_TOKEN_VARIABLE, renew_owner_token

    with Store(database_of_option(database), create=False) as store:
        token = renew_owner_token(store)
    print(f"the owner's new token, which is shown this once: {token}")
    print(f"as a link: the address of the server, and /enter/{token}")
    print_note(
        f"the old one opens nothing any more; but a server that was started with {OWNER_TOKEN_VARIABLE} knows that token alone, until it is "
        "started without"
    )


@app.command("upgrade")
def upgrade_command(database: DatabaseOption = None) -> None:
    """Bring a database of an older version up to this one's schema.

    Example: heterobandits db upgrade --database rangers.db
    """
    from heterobandits.campaigns.storage import maintenance

    before, after = maintenance.upgrade_database(database_of_option(database))
    print(f"schema {after} already" if before == after else f"from schema {before} to {after}")


@app.command("check")
def check_command(database: DatabaseOption = None, format: TableOrJson = "table") -> int:
    """Read all of a database, and say of each campaign whether its events are as they were written.

    Events cut from the end show only in comparison with the number and the hash of earlier: see campaign verify.

    Example: heterobandits db check --database rangers.db
    """
    from heterobandits.campaigns.storage import maintenance

    wrong = False
    for finding in maintenance.check_database(database_of_option(database)):
        wrong |= not finding.fine
        line = f"{finding.what}: {finding.says}"
        print(json.dumps(finding._asdict()) if format == "json" else line)
    return EXIT_FAILURE if wrong else 0
