"""The command line: thin commands that parse, call the library and print.

Results go to stdout; notes go to stderr, and progress too, but only to a terminal. Exit code 0 is
fine, 1 says that whoever read the output has left (or that the paper is contradicted, where that
was asked), 2 is bad input with one line on stderr, 130
is an interrupt.
"""

import os
import sys
from typing import Annotated

import typer

from heterobandits.cli.bench import bench
from heterobandits.cli.bounds import bounds
from heterobandits.cli.compare import compare
from heterobandits.cli.policies import policies
from heterobandits.cli.reproduce import hotel_means, reproduce
from heterobandits.cli.simulate import simulate

BAD_INPUT = 2
INTERRUPTED = 130

app = typer.Typer(
    name="heterobandits",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (simulate, reproduce, compare, policies, bounds, bench, hotel_means):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

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


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    from heterobandits.errors import InvalidInput

    try:
        code = app(arguments or sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.stdout.flush()
    except InvalidInput as error:
        code = _complain(str(error))
    except BrokenPipeError:  # whoever read our output has gone; Python must not flush into it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except typer.TyperException as error:
        code = _complain(error.format_message())
    if code == INTERRUPTED:
        print("heterobandits: interrupted", file=sys.stderr)
    sys.exit(code or 0)


def _complain(message: str) -> int:
    print("heterobandits: " + " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT
