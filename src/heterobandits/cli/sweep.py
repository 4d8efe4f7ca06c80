"""`heterobandits sweep`: a study of many points, which can be killed at any time."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterobandits.cli.exit_codes import EXIT_FAILURE
from heterobandits.cli.options import QuietOption, TableOrJson, ThreadsOption, parse_folder
from heterobandits.cli.terminal import print_numbers
from heterobandits.errors import InvalidInput, parse_integer

if TYPE_CHECKING:
    from heterobandits.simulation.pool.runner import Progress
    from heterobandits.simulation.pool.threads import Engine
    from heterobandits.sweeps.estimate import SweepSize
    from heterobandits.sweeps.spec import Spec
    from heterobandits.sweeps.sweep import FinishedSweep

PROGRESS_LINE_INTERVAL_S = 60  # between lines of progress where there is no terminal
SWEEP_MAX_SHOWN_FAILURES = 5  # that are shown


def sweep_command(
    spec: Annotated[
        str,
        typer.Argument(
            help="A .toml file, or an example that comes with heterobandits: closing-question, misbelief, drift.",
            metavar="SPEC",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            help="Folder for the tables and shards; what is there is not run again.",
            metavar="DIR",
            parser=parse_folder,
        ),
    ] = Path("sweep"),
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Say how large it is and about how long it takes, and run nothing."
        ),
    ] = False,
    threads: ThreadsOption = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Run on the Dask cluster of this scheduler.", metavar="tcp://HOST:PORT"),
    ] = None,
    scheduler_file: Annotated[
        Path | None,
        typer.Option(
            help="Run on the Dask cluster whose scheduler has written FILE.", metavar="FILE"
        ),
    ] = None,
    local_workers: Annotated[
        int | None,
        typer.Option(
            help="Run on a Dask cluster of N processes on this machine, which nobody else can reach.",
            metavar="N",
        ),
    ] = None,
    tls_ca_file: Annotated[
        Path | None,
        typer.Option(help="The authority that the scheduler's certificate is of.", metavar="FILE"),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(help="The certificate to show to the scheduler.", metavar="FILE"),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(help="The key of that certificate.", metavar="FILE"),
    ] = None,
    format: TableOrJson = "table",
    quiet: QuietOption = False,
) -> int:
    """Run a grid or a random design of problems, as a TOML file says; killed, it goes on when run again.

    Example: heterobandits sweep closing-question --output closing
    """
    from heterobandits.sweeps.sweep import sweep as run

    places = {
        "--threads": threads,
        "--scheduler": scheduler,
        "--scheduler-file": scheduler_file,
        "--local-workers": local_workers,
    }
    given = [option for option, value in places.items() if value is not None]
    if len(given) > 1:
        raise InvalidInput(f"{given[0]} and {given[1]}: one or the other")
    tls = None
    if any((tls_ca_file, tls_cert, tls_key)):
        if not (tls_ca_file and tls_cert and tls_key):
            raise InvalidInput("--tls-ca-file, --tls-cert and --tls-key: all three of them")
        if scheduler is None and scheduler_file is None:
            raise InvalidInput("--tls-ca-file is for --scheduler or --scheduler-file")
        tls = (tls_ca_file, tls_cert, tls_key)
    if threads is not None:
        parse_integer(threads, "threads", 1, 1024)
    loaded = load_spec(spec)
    if dry_run:
        print_estimate(loaded, threads, format)
        return 0
    with show_points(loaded, quiet) as (tell, note):
        note(render_size(loaded))
        engine = engine_of_options(threads, scheduler, scheduler_file, local_workers, note, tls)
        note(f"on {engine.where}")
        made = run(loaded, output, engine=engine, tell=tell, note=note)
    if format == "json":
        print(json.dumps(json_of_sweep(made)))
    else:
        print_sweep_standings(made)
    for failed in made.failed[:SWEEP_MAX_SHOWN_FAILURES]:
        axes = ", ".join(f"{path} = {value}" for path, value in failed.axes.items())
        place = f" ({axes})" if axes else ""
        print(f"heterobandits: point {failed.point}{place}: {failed.error}", file=sys.stderr)
    if made.failed:
        where = made.folder / "failures.json"
        print(
            f"heterobandits: {len(made.failed):,} of {len(loaded):,} points failed: {where}",
            file=sys.stderr,
        )
    return EXIT_FAILURE if made.failed else 0


def load_spec(text: str) -> "Spec":
    """Load a specification from a file, or an example by its name."""
    from heterobandits.sweeps.spec import Spec, example_specs

    known = example_specs()
    return Spec.load(known[text] if text in known and not Path(text).is_file() else text)


def engine_of_options(
    threads: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    local_workers: int | None,
    note: Callable[[str], None],
    tls: "tuple[Path, Path, Path] | None",
) -> "Engine":
    """The engine that the options ask for."""
    from heterobandits.machine import count_cores
    from heterobandits.simulation.pool.threads import Threads

    if scheduler is None and scheduler_file is None and local_workers is None:
        return Threads(count_cores() if threads is None else threads)
    from heterobandits.simulation.pool.dask_cluster import connect

    return connect(scheduler, scheduler_file, local_workers, note=note, tls=tls)


@contextmanager
def show_points(
    spec: "Spec", quiet: bool
) -> Iterator[tuple[Callable[["Progress"], None], Callable[[str], None]]]:
    """Two callbacks: how far it is, on a bar or, where there is no terminal, on a line a minute; and notes."""
    from heterobandits.cli.progress import show_share_and_notes

    lines = not quiet and not sys.stderr.isatty()
    told = time.monotonic()
    with show_share_and_notes(spec.policies, quiet) as (show, note):

        def tell(progress: "Progress") -> None:
            nonlocal told
            text = render_progress(progress)
            show(text, progress.jobs / progress.of)
            if lines and time.monotonic() - told >= PROGRESS_LINE_INTERVAL_S:
                told = time.monotonic()
                left = (
                    ""
                    if progress.left is None
                    else f", about {render_duration(progress.left)} left"
                )
                note(text + left)

        yield tell, note


def render_progress(progress: "Progress") -> str:
    """How far a sweep is, in words."""
    speed = progress.rounds / progress.seconds if progress.seconds > 0 else 0.0
    return (
        f"{progress.jobs:,} of {progress.of:,} points, {render_amount(progress.rounds)} rounds, "
        f"{render_amount(speed)} a second"
    )


def render_amount(number: float) -> str:
    """A large number as a person reads it.

    >>> render_amount(950), render_amount(12_300_000), render_amount(4.2e9)
    ('950', '12 million', '4.2 billion')
    """
    for size, word in ((1e12, " trillion"), (1e9, " billion"), (1e6, " million")):
        if number >= size:
            return f"{number / size:.{1 if number < 10 * size else 0}f}{word}"
    return f"{number:,.0f}"


def render_duration(seconds: float) -> str:
    """A time as a person reads it.

    >>> render_duration(0.4), render_duration(42), render_duration(600), render_duration(86_400)
    ('1 s', '42 s', '10 min', '24 h')
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.0f} h"


def render_size(spec: "Spec") -> str:
    """The size of a sweep in one line."""
    stopping = spec.stopping
    trials = f"{stopping.trials:,} trials each"
    if stopping.most_trials > stopping.trials:
        trials = f"{stopping.trials:,} to {stopping.most_trials:,} trials each, and as many again"
    one = len(spec.policies) == 1
    return (
        f"{len(spec):,} point{'s' * (len(spec) != 1)}, {len(spec.policies)} "
        f"polic{'y' if one else 'ies'}, {trials}"
    )


def print_estimate(spec: "Spec", threads: int | None, format: str) -> None:
    """Print how much work a sweep would be."""
    from dataclasses import asdict

    from heterobandits.machine import count_cores
    from heterobandits.sweeps.estimate import estimate_size

    cores = threads or count_cores()
    found = estimate_size(spec)
    if format == "json":
        print(json.dumps({**asdict(found), "threads": cores, "spec": spec.to_dict()}))
        return
    if spec.title:
        print(spec.title)
    print(render_size(spec))
    for path, values in spec.grid.items():
        shown = ", ".join(map(str, values[:12])) + (", ..." if len(values) > 12 else "")
        print(f"  {path}: {shown}")
    for path in spec.random:
        print(f"  {path}: drawn")
    if spec.draws > 1:
        print(f"  {spec.draws:,} draws")
    print(
        f"policies: {', '.join(entry.label for entry in spec.policies)}; reference: {spec.reference}"
    )
    for line in render_estimate(found, cores):
        print(line)


def render_estimate(found: "SweepSize", cores: int) -> Iterator[str]:
    """An estimate in words."""
    from heterobandits.machine import render_bytes
    from heterobandits.sweeps.estimate import FINISH_TARGET_S

    def span(values: tuple[Any, ...], shown: Callable[[float], str]) -> str:
        least, most = (shown(value) for value in values)
        return least if least == most else f"{least} to {most}"

    least, most = (found.serial + part / cores for part in found.seconds)
    yield f"rounds: {span(found.rounds, render_amount)}"
    on = f"on {cores} core{'s' * (cores > 1)} of this machine as busy as it is now"
    if found.likely is None:
        yield (
            f"time: {span((least, most), render_duration)} {on}: it depends on how many trials points need, "
            f"and none of them was done in {FINISH_TARGET_S:g} seconds"
        )
    elif not found.finished:
        number = f"{found.sampled} point{'s' * (found.sampled > 1)}"
        yield f"time: about {render_duration(found.serial + found.likely / cores)} {on}, from {number}"
    else:
        number = f"{found.finished} point{'s' * (found.finished > 1)}"
        yield (
            f"time: about {render_duration(found.serial + found.likely / cores)} {on}, if all points need as many trials "
            f"as the {number} that it has played to the end; {span((least, most), render_duration)} if all need the fewest or the most"
        )
    yield f"disk: about {render_bytes(max(1, found.size))}"


def count_standings(made: "FinishedSweep") -> tuple[list[dict[str, Any]], dict[str, int]]:
    """For each policy, the number of points where it is ahead at the horizon; and how many trials points took."""
    from heterobandits.simulation.results import geometric_mean
    from heterobandits.sweeps.reading import read_sweep
    from heterobandits.sweeps.report.text import finite_or_none
    from heterobandits.sweeps.stopping import POINT_VERDICTS

    counted = ["sure", "failed", "played"]
    columns = ["point", "policy", "round", "horizon", "verdict", "ratio", "trials", *counted]
    frame = read_sweep(made.folder, columns=columns)
    frame = frame[frame["round"] == frame["horizon"]]
    rows = []
    for label in (entry.label for entry in made.spec.policies):
        part = frame[frame["policy"] == label]
        counts = part["verdict"].value_counts()
        rows.append(
            {
                "policy": label,
                **{verdict: int(counts.get(verdict, 0)) for verdict in POINT_VERDICTS},
                "ratio": finite_or_none(geometric_mean(part["ratio"].dropna())),
                **{name: int(part[name].sum()) for name in counted},
            }
        )
    trials = frame.drop_duplicates("point")["trials"]
    spread = {"least": trials.min(), "median": trials.median(), "most": trials.max()}
    return rows, {name: int(value) for name, value in spread.items()} if len(trials) else {}


def json_of_sweep(made: "FinishedSweep") -> dict[str, Any]:
    """What `--format json` prints."""
    from dataclasses import asdict

    rows, trials = count_standings(made)
    return {
        "title": made.spec.title,
        "points": len(made.spec),
        "reference": made.spec.reference,
        "policies": rows,
        "trials": trials,
        "failed": [asdict(one) | {"definition": json.loads(one.definition)} for one in made.failed],
        "rounds": made.rounds,
        "results": str(made.results),
        "seconds": made.seconds,
    }


def print_sweep_standings(made: "FinishedSweep") -> None:
    """How often each policy is ahead, for a terminal."""
    from heterobandits.sweeps.report.text import ratio_text

    found, trials = count_standings(made)
    verdicts = ("ahead", "unclear", "behind", "same")
    rows = [
        (
            row["policy"],
            *(f"{row[verdict]:,}" for verdict in verdicts),
            ratio_text(row["ratio"]),
            f"{row['sure']:,}",
            f"{row['failed'] / max(1, row['played']):.2%}",
        )
        for row in found
    ]
    if made.spec.title:
        print(made.spec.title)
    print_numbers(("policy", *verdicts, "ratio", "sure", "failed"), rows)
    print(
        f"points where a policy has clearly the least regret, where that is unclear, where another has "
        f"clearly less, and where several have the same; regret over {made.spec.reference}'s, geometric mean; at how many points "
        "the verdict is sure, whatever seldom fails; share of trials that failed, with over ten times the median's regret"
    )
    if trials:
        print(
            "trials a point: {least:,} at least, {median:,} in the median, {most:,} at most".format(
                **trials
            )
        )
    print(
        f"{made.results} after {made.seconds:.0f} s; heterobandits sweep-report {made.folder} draws it"
    )
