"""All commands in one app."""

from typing import Annotated

import typer

from heterobandits.cli.bench import bench
from heterobandits.cli.bounds import bounds
from heterobandits.cli.campaign.app import app as campaign
from heterobandits.cli.compare import compare
from heterobandits.cli.db import app as db
from heterobandits.cli.policies import policies
from heterobandits.cli.reproduce import hotel_means, reproduce
from heterobandits.cli.serve import serve
from heterobandits.cli.simulate import simulate
from heterobandits.cli.sweep import sweep
from heterobandits.cli.sweep_report import sweep_report
from heterobandits.errors import InvalidInput

app = typer.Typer(
    name="heterobandits",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    simulate,
    sweep,
    sweep_report,
    serve,
    reproduce,
    compare,
    policies,
    bounds,
    bench,
    hotel_means,
):
    app.command()(command)
app.add_typer(campaign, name="campaign")
app.add_typer(db, name="db")


def _print_version(wanted: bool) -> None:
    if wanted:
        from heterobandits.provenance import version

        print(f"heterobandits {version('heterobandits')}")
        raise typer.Exit


@app.callback()
def _start(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Send agents of unequal sensitivity to the right places, and learn from what they all see."""


def run(arguments: list[str]) -> int:
    """The exit code of a command; what the parser refuses is bad input."""
    try:
        return app(arguments, standalone_mode=False) or 0
    except typer.TyperException as error:
        raise InvalidInput(error.format_message()) from None
