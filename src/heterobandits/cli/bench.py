"""`heterobandits bench`: rounds per second of every policy, on this machine."""

import json
from typing import Annotated, Any

import typer

from heterobandits.cli.options import QuietOption, TableOrJson, ThreadsOption
from heterobandits.cli.terminal import print_numbers
from heterobandits.errors import InvalidInput, parse_integer, parse_real

FIRST_TRIALS_PER_THREAD = 1  # for each thread
SCALING_CHECKPOINTS = (1, 30, 300)
BENCH_MAX_S = 3600
BENCH_RUNS = 3  # others use the machine too: the fastest is the one they disturbed least


def bench_command(
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Only this policy, as often as you like.", metavar="NAME"),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="How long to measure each policy on each problem, three times.")
    ] = 1.0,
    threads: ThreadsOption = None,
    scaling: Annotated[
        bool,
        typer.Option(
            "--scaling",
            help="Measure 1, 2, 4, ... threads instead, with 30 and 300 checkpoints (1 and all with a single one), "
            "on the COVID domain.",
        ),
    ] = False,
    format: TableOrJson = "table",
    quiet: QuietOption = False,
) -> None:
    """Measure rounds per second for every policy on four problems, compiling apart.

    A round is one assignment of all agents in one trial. Wall-clock time of all threads
    together, after a first run to compile, load and warm up.
    """
    from heterobandits.machine import count_cores
    from heterobandits.policies.policy import CATALOGUE
    from heterobandits.policies.policy import policy as catalogued
    from heterobandits.provenance import describe_machine
    from heterobandits.simulation import engine

    allowed = f"a positive number, at most {BENCH_MAX_S:,}"
    if not 0 < parse_real(seconds, "--seconds", allowed) <= BENCH_MAX_S:
        raise InvalidInput(f"--seconds is {seconds:g}: {allowed}")
    entries = [catalogued(name) for name in dict.fromkeys(policy or CATALOGUE)]
    cached = engine.has_compiled_kernels(entries)
    compile_seconds = engine.compile_kernels(entries)
    used = count_cores() if threads is None else parse_integer(threads, "--threads", 1, 1024)
    measured: list[dict[str, Any]] = []
    for name, problem, horizon, crew, checkpoints in (
        scaling_speeds(used) if scaling else bench_instances(used)
    ):
        for entry in entries:
            try:
                entry.check_size(problem.agents, problem.arms)
            except InvalidInput:
                continue
            rate, trials, took = measure_speed(problem, entry, horizon, seconds, crew, checkpoints)
            measured.append(
                {
                    "problem": name,
                    "agents": problem.agents,
                    "arms": problem.arms,
                    "policy": entry.name,
                    "horizon": horizon,
                    "threads": crew,
                    "checkpoints": checkpoints,
                    "trials": trials,
                    "seconds": took,
                    "rounds_per_second": rate,
                }
            )
    report = {
        "machine": describe_machine(),
        "threads": used,
        "compile_seconds": compile_seconds,
        "compiled_before": cached,
        "results": measured,
    }
    if format == "json":
        print(json.dumps(report))
    else:
        (print_scaling if scaling else print_speeds)(report)
        if not quiet:
            print_machine(report)


def bench_instances(threads: int) -> list[tuple[str, Any, int, int, int]]:
    """What is measured: (name, problem, horizon, threads, checkpoints) for three of the paper's problems and a larger one."""
    from heterobandits.model.domains import DOMAINS
    from heterobandits.model.problem import Problem

    large = Problem([(n + 1) / 51 for n in range(50)], [(a + 5) / 25 for a in range(20)])
    chosen = [
        (name, DOMAINS[name].problem, 1000, threads, 1) for name in ("covid", "hotel", "poaching-5")
    ]
    return [*chosen, ("20x50", large, 200, threads, 1)]


def scaling_speeds(threads: int) -> list[tuple[str, Any, int, int, int]]:
    """The same for the scaling: threads doubled up to all of them, few and many checkpoints."""
    from heterobandits.model.domains import DOMAINS

    domain = DOMAINS["covid"]
    crews = sorted({threads, *(2**i for i in range(threads.bit_length()))})
    return [
        ("covid", domain.problem, domain.horizon, crew, checkpoints)
        for checkpoints in SCALING_CHECKPOINTS
        for crew in (crews if checkpoints > 1 else sorted({1, threads}))
    ]


def measure_speed(
    problem: Any, entry: Any, horizon: int, seconds: float, threads: int, checkpoints: int
) -> tuple[float, int, float]:
    """Rounds per second, from the fastest of some runs of about `seconds`; also its trials and its time."""
    import time

    from heterobandits.simulation.simulation import simulate

    def run(trials: int) -> float:
        start = time.perf_counter()
        simulate(problem, [entry], horizon, trials, checkpoints=checkpoints, threads=threads)
        return time.perf_counter() - start

    trials = FIRST_TRIALS_PER_THREAD * threads
    took = run(trials)
    while took < seconds / 2 and trials < 10**8:
        trials = max(2 * trials, min(64 * trials, int(trials * 0.9 * seconds / took)))
        took = run(trials)
    took = min(took, *(run(trials) for _ in range(BENCH_RUNS - 1)))
    return trials * horizon / took, trials, took


def print_speeds(report: dict[str, Any]) -> None:
    """One row for each policy, one column for each problem."""
    rates: dict[str, dict[str, float]] = {}
    for result in report["results"]:
        title = f"{result['problem']} {result['agents']}×{result['arms']}"
        rates.setdefault(result["policy"], {})[title] = result["rounds_per_second"] / 1e6
    titles = list(dict.fromkeys(title for row in rates.values() for title in row))
    cells = {
        name: [f"{row[t]:.2f}" if t in row else "refused" for t in titles]
        for name, row in rates.items()
    }
    print_rates("million rounds per second", titles, cells)


def print_scaling(report: dict[str, Any]) -> None:
    """For each number of checkpoints a table: million rounds per second by threads, and all threads over one."""
    for checkpoints in SCALING_CHECKPOINTS:
        rates: dict[str, list[float]] = {}
        crews = []
        for result in report["results"]:
            if result["checkpoints"] == checkpoints:
                rates.setdefault(result["policy"], []).append(result["rounds_per_second"] / 1e6)
                crews.append(result["threads"])
        titles = [f"{crew} thread{'s' * (crew > 1)}" for crew in dict.fromkeys(crews)]
        cells = {
            name: [*(f"{rate:.2f}" for rate in row), f"×{row[-1] / row[0]:.1f}"]
            for name, row in rates.items()
        }
        noun = "checkpoint" if checkpoints == 1 else "checkpoints"
        heading = f"million rounds per second, {checkpoints} {noun}"
        print_rates(heading, [*titles, "all over one"], cells)


def print_rates(title: str, headings: list[str], cells: dict[str, list[str]]) -> None:
    """A table with a row for each policy."""
    print(title)
    print_numbers(("policy", *headings), [(name, *row) for name, row in cells.items()])


def print_machine(report: dict[str, Any]) -> None:
    """Print which machine was measured."""
    how = "loaded from the cache" if report["compiled_before"] else "compiled"
    print(
        f"{report['machine']['processor']}, {report['threads']} threads; kernels {how} "
        f"in {report['compile_seconds']:.1f} s"
    )
