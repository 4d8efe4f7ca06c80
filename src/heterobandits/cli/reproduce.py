"""`heterobandits reproduce` and `heterobandits hotel-means`: the paper, with one command."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterobandits.cli.exit_codes import EXIT_FAILURE
from heterobandits.cli.experiments import TrialsOption, run_and_print
from heterobandits.cli.options import (
    QuietOption,
    ResumeOption,
    SeedOption,
    TableOrJson,
    parse_folder,
)

if TYPE_CHECKING:
    from heterobandits.experiments.reproduce import Reproduction


def reproduce_command(
    output: Annotated[
        Path,
        typer.Option(
            help="Folder for the report, figures, tables and numbers.",
            metavar="DIR",
            parser=parse_folder,
        ),
    ] = Path("reproduction"),
    only: Annotated[
        str | None,
        typer.Option(
            help="Only these experiments or groups, with commas; see --list.", metavar="NAMES"
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few trials, in seconds; marked as such.")
    ] = False,
    long: Annotated[bool, typer.Option("--long", help="Also the authors' longer runs.")] = False,
    trials: TrialsOption = None,
    seed: SeedOption = 0,
    resume: ResumeOption = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if something contradicts the paper.")
    ] = False,
    format: TableOrJson = "table",
    quiet: QuietOption = False,
) -> int:
    """Run every experiment of the paper and write a report: each figure, table and claim, checked."""
    if list_:
        print_groups(format)
        return 0
    from heterobandits.experiments.reproduce import chosen_policies
    from heterobandits.experiments.reproduce import reproduce as run

    names = [] if only is None else [name.strip() for name in only.split(",")]
    work = partial(
        run,
        output,
        only=names,
        quick=quick,
        long=long,
        trials=trials,
        seed=seed,
        resume=resume,
    )
    made = run_and_print(work, chosen_policies(names, long), print_verdict, format, quiet)
    return EXIT_FAILURE if strict and made.contradicted else 0


def print_groups(format: str) -> None:
    """The groups, and what is in them."""
    from heterobandits.experiments.catalogue import FIGURES, LONG, SYNTHETIC
    from heterobandits.experiments.reproduce import EXPERIMENT_GROUPS

    if format == "json":
        fields = ("name", "trials", "horizon", "shown_in")
        every = [{f: getattr(e, f) for f in fields} for e in (*FIGURES, *SYNTHETIC, *LONG)]
        print(json.dumps({"groups": EXPERIMENT_GROUPS, "experiments": every}))
        return
    for group, names in EXPERIMENT_GROUPS.items():
        print(f"{group}: {', '.join(names) if len(names) < 9 else f'{len(names)} settings'}")
    print()
    for experiment in (*FIGURES, *SYNTHETIC, *LONG):
        print(
            f"{experiment.name:34} {experiment.trials:5,} trials of {experiment.horizon:7,} rounds  "
            f"{experiment.shown_in}"
        )


def print_verdict(made: "Reproduction") -> None:
    """The verdict, what does not plainly hold, and where to look."""
    from heterobandits.experiments.report import calibration_line, report_headline

    print(report_headline(made.claims, made.quick))
    if made.quick:
        return
    for judged in made.claims:
        if judged.verdict != "pass":
            print(f"  {judged.verdict}: {judged.claim.text} ({judged.evidence})")
    for title, cells in (("regrets", made.regret), ("percent changes", made.percent)):
        if cells:
            agreeing = sum(cell.agrees for cell in cells)
            print(f"{agreeing} of {len(cells)} {title} agree with the published ones")
    if made.rankings:
        verdicts = [row.verdict for row in made.rankings]
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("match", "tied", "mismatch"))
        print(f"of {len(verdicts)} rankings: {counts}")
    if made.calibrated:
        print(calibration_line(made.calibrated))


def hotel_means_command(
    file: Annotated[Path, typer.Argument(help="PrefLib's 00040-00000001.dat.", metavar="FILE")],
    location: Annotated[str, typer.Option(help="Only hotels there.")] = "Punta Cana",
    least: Annotated[int, typer.Option(help="Only hotels with as many ratings.")] = 500,
    clean: Annotated[float, typer.Option(help="A rating from here on says clean.")] = 4.0,
    format: TableOrJson = "table",
) -> None:
    """Compute the hotel domain's means from your copy of the Trip Advisor ratings."""
    from heterobandits.experiments import hotels

    found = hotels.read_hotel_means(file, location, least, clean)
    if format == "json":
        rows = [
            {"hotel": h.hotel, "location": h.location, "ratings": h.ratings, "mean": h.mean}
            for h in found.hotels
        ]
        print(json.dumps({"hotels": rows, "complaints": list(found.complaints)}))
    else:
        for h in found.hotels:
            print(f"{h.mean:.4f}  {h.ratings:6,} ratings  {h.hotel}  {h.location}")
        print("--means " + ",".join(f"{h.mean:.4f}" for h in found.hotels))
    for complaint in found.complaints:
        print(f"heterobandits: {file}: {complaint}", file=sys.stderr)
