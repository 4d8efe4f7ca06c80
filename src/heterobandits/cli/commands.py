"""All commands in one app."""

from typing import Annotated

import typer

from heterobandits.cli.bench import bench_command
from heterobandits.cli.bounds import bounds_command
from heterobandits.cli.campaign.app import app as campaign
from heterobandits.cli.compare import compare_command
from heterobandits.cli.db import app as db
from heterobandits.cli.policies import policies_command
from heterobandits.cli.reproduce import hotel_means_command, reproduce_command
from heterobandits.cli.serve import serve_command
from heterobandits.cli.simulate import simulate_command
from heterobandits.cli.sweep import sweep_command
from heterobandits.cli.sweep_report import sweep_report_command
from heterobandits.errors import InvalidInput

app = typer.Typer(
    name="heterobandits",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
TOP_COMMANDS = (
    simulate_command,
    sweep_command,
    sweep_report_command,
    serve_command,
    reproduce_command,
    compare_command,
    policies_command,
    bounds_command,
    bench_command,
    hotel_means_command,
)
for command in TOP_COMMANDS:
    app.command(command.__name__.removesuffix("_command").replace("_", "-"))(command)
app.add_typer(campaign, name="campaign")
app.add_typer(db, name="db")


def _print_version(wanted: bool) -> None:
    if wanted:
        from heterobandits.provenance import version_of

        print(f"heterobandits {version_of('heterobandits')}")
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


def run_command(arguments: list[str]) -> int:
    """The exit code of a command; what the parser refuses is bad input."""
    try:
        return app(arguments, standalone_mode=False) or 0
    except typer.TyperException as error:
        raise InvalidInput(error.format_message()) from None
