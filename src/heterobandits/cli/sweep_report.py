"""`heterobandits sweep-report`: which policy has the least regret where, as a page with maps."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterobandits.cli.options import QuietOption, TableOrJson, parse_folder
from heterobandits.cli.terminal import print_numbers

if TYPE_CHECKING:
    from heterobandits.sweeps.report.page import Report


def sweep_report_command(
    folder: Annotated[
        Path,
        typer.Argument(help="The folder of a finished sweep.", metavar="DIR", parser=parse_folder),
    ],
    x: Annotated[
        str | None,
        typer.Option(
            help="The horizontal axis of the maps; that with the most values by default.",
            metavar="AXIS",
            show_default=False,
        ),
    ] = None,
    y: Annotated[
        str | None,
        typer.Option(
            help="The vertical one; that with the most values but one by default.",
            metavar="AXIS",
            show_default=False,
        ),
    ] = None,
    format: TableOrJson = "table",
    quiet: QuietOption = False,
) -> None:
    """Report a sweep: maps of the winner and of regret ratios, and a page around them, in its folder.

    Example: heterobandits sweep-report plane --x sensitivities.spread --y arms_per_agent
    """
    from heterobandits.sweeps.report.page import write_report

    def note(text: str) -> None:
        if not quiet:
            print(f"heterobandits: {text}", file=sys.stderr)

    made = write_report(folder, x=x, y=y, note=note)
    if format == "json":
        print(json.dumps(made.summary()))
        return
    print_report_standings(made)
    print(made.headline)
    print(made.page)


def print_report_standings(made: "Report") -> None:
    """The policies for a terminal."""
    from heterobandits.sweeps.report.text import ratio_text

    told = made.data
    rows = [
        (
            row["policy"],
            *(f"{row[key]:,}" for key in ("won", "won_unclear", "tied")),
            ratio_text(row["ratio"]),
            ratio_text(row["over_best"]),
            "/".join(f"{row[key]:,}" for key in ("ahead", "same", "unclear", "behind")),
        )
        for row in told["policies"]
    ]
    print_numbers(("policy", "won", "unclear", "equal", "ratio", "over best", "points"), rows)
    print(
        f"cells won clearly, won but unclear, and equal; regret over that of {told['reference']} and of the best of "
        "each point, geometric means; points ahead/same/unclear/behind"
    )
