"""`heterobandits compare`: which policy to use, by measurement."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterobandits.cli.experiments import TrialsOption, run_and_print
from heterobandits.cli.options import (
    QuietOption,
    ResumeOption,
    SeedOption,
    TableOrJson,
    parse_folder,
)
from heterobandits.cli.terminal import print_numbers

if TYPE_CHECKING:
    from heterobandits.experiments.comparison import Comparison


def compare_command(
    output: Annotated[
        Path,
        typer.Option(
            help="Folder for the leaderboard, figures and runs.", metavar="DIR", parser=parse_folder
        ),
    ] = Path("comparison"),
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy to compare with the paper's five, as often as you like; "
            "all of those beyond the paper by default.",
            metavar="NAME",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only 'settings', the paper's 36, 'domains', its five, or 'random', 200 drawn problems; "
            "as often as you like.",
            metavar="GROUP",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few trials and short horizons; marked as such.")
    ] = False,
    trials: TrialsOption = None,
    seed: SeedOption = 0,
    resume: ResumeOption = False,
    format: TableOrJson = "table",
    quiet: QuietOption = False,
) -> None:
    """Compare policies with the best of the paper's five and with the lower bound; write a leaderboard.

    Example: heterobandits compare --policy posterior-sorted --only domains
    """
    from heterobandits.experiments import comparison
    from heterobandits.policies.catalogue import BEYOND_PAPER, PAPER

    chosen = tuple(dict.fromkeys(policy or BEYOND_PAPER))
    run = partial(
        comparison.compare,
        output,
        policies=chosen,
        groups=tuple(dict.fromkeys(only or comparison.COMPARISON_GROUPS)),
        quick=quick,
        trials=trials,
        seed=seed,
        resume=resume,
    )
    run_and_print(run, dict.fromkeys((*PAPER, *chosen)), print_leaderboard, format, quiet)


def print_leaderboard(made: "Comparison") -> None:
    """The leaderboard for a terminal."""
    from heterobandits.experiments.leaderboard import advice_texts, leaderboard_headline

    groups = list(dict.fromkeys(row.group for row in made.rows))
    ahead, risks = [], []
    for entry in made.standings():
        parts = [entry["groups"].get(group) for group in groups]
        cells = [
            "" if p is None else f"{p['ratio']:.2f}  {p['ahead']}/{p['unclear']}/{p['behind']}"
            for p in parts
        ]
        ahead.append((entry["policy"], *cells, f"{entry['million_rounds_per_second']:.1f}"))
        whole = entry["all"]
        limit = whole["to_limit"]
        risks.append((
            entry["policy"],
            f"{whole['sure']}",
            f"{whole['failed'] / whole['played']:.2%}",
            f"{whole['to_min_width']:.2f}",
            "" if limit is None else f"{limit:.2f}",
        ))  # fmt: skip
    print_numbers(("policy", *groups, "M/s"), ahead)
    print(
        "regret over that of the best of the paper's five on the same problem; ahead/unclear/behind at 99 %; million rounds per second"
    )
    print_numbers(("policy", "sure", "failed", "over min-width", "over C ln T"), risks)
    print(
        "how many of these verdicts are sure, whatever seldom fails; share of trials that failed, with over ten times the median's "
        "regret; then medians"
    )
    print(leaderboard_headline(made))
    for case, gain in advice_texts(made):
        print(f"{case}: {gain}.")
