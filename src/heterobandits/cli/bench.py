"""`heterobandits bench`: rounds per second of every policy, on this machine."""

import json
from typing import Annotated, Any

import typer

from heterobandits.cli.options import QuietOption, TableOrJson, ThreadsOption

START_TRIALS = 64


def bench(
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Only this policy, as often as you like.", metavar="NAME"),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="How long to measure each policy on each problem.")
    ] = 1.0,
    threads: ThreadsOption = None,
    format: TableOrJson = "table",
    quiet: QuietOption = False,
) -> None:
    """Measure rounds per second for every policy on four problems, compiling apart.

    A round is one assignment of all agents in one trial. Wall-clock time of all threads
    together, after a first run to compile, load and warm up.
    """
    from heterobandits import engine, simulation
    from heterobandits.errors import InvalidInput, real_number
    from heterobandits.policies import CATALOGUE
    from heterobandits.policies import policy as catalogued
    from heterobandits.provenance import machine

    if not real_number(seconds, "--seconds", "a positive number") > 0:
        raise InvalidInput(f"--seconds is {seconds:g}: a positive number")
    entries = [catalogued(name) for name in dict.fromkeys(policy or CATALOGUE)]
    cached = engine.kernels_cached(entries)
    compile_seconds = engine.compile_kernels(entries)
    used = threads or simulation.available_threads()
    measured: list[dict[str, Any]] = []
    for name, problem, horizon in instances():
        for entry in entries:
            try:
                entry.check_size(problem.agents, problem.arms)
            except InvalidInput:
                continue
            rate, trials, took = measure(problem, entry, horizon, seconds, used)
            measured.append(
                {
                    "problem": name,
                    "agents": problem.agents,
                    "arms": problem.arms,
                    "policy": entry.name,
                    "horizon": horizon,
                    "trials": trials,
                    "seconds": took,
                    "rounds_per_second": rate,
                }
            )
    report = {
        "machine": machine(),
        "threads": used,
        "compile_seconds": compile_seconds,
        "compiled_before": cached,
        "results": measured,
    }
    if format == "json":
        print(json.dumps(report))
    else:
        print_table(report, quiet)


def instances() -> list[tuple[str, Any, int]]:
    """The problems measured: three of the paper's and a larger one."""
    from heterobandits.experiments.domains import DOMAINS
    from heterobandits.problem import Problem

    large = Problem([(n + 1) / 51 for n in range(50)], [(a + 5) / 25 for a in range(20)])
    chosen = [(name, DOMAINS[name].problem, 1000) for name in ("covid", "hotel", "poaching-5")]
    return [*chosen, ("20x50", large, 200)]


def measure(
    problem: Any, entry: Any, horizon: int, seconds: float, threads: int
) -> tuple[float, int, float]:
    """Rounds per second, from a run that takes about `seconds`; also its trials and its time."""
    import time

    from heterobandits.simulation import simulate

    trials, took = START_TRIALS, 0.0
    while True:
        start = time.perf_counter()
        simulate(problem, [entry], horizon, trials, checkpoints=1, threads=threads)
        took = time.perf_counter() - start
        if took > seconds / 2 or trials > 10**8:
            return trials * horizon / took, trials, took
        trials = max(2 * trials, min(64 * trials, int(trials * 0.9 * seconds / took)))


def print_table(report: dict[str, Any], quiet: bool) -> None:
    """One row for each policy, one column for each problem."""
    from rich.console import Console
    from rich.table import Table

    rates: dict[str, dict[str, float]] = {}
    for result in report["results"]:
        title = f"{result['problem']}\n{result['agents']}×{result['arms']}"
        rates.setdefault(result["policy"], {})[title] = result["rounds_per_second"] / 1e6
    titles = list(dict.fromkeys(title for row in rates.values() for title in row))
    table = Table(title="million rounds per second")
    table.add_column("policy")
    for title in titles:
        table.add_column(title, justify="right")
    for name, row in rates.items():
        table.add_row(name, *(f"{row[t]:.2f}" if t in row else "refused" for t in titles))
    console = Console()
    console.print(table)
    if not quiet:
        how = "loaded from the cache" if report["compiled_before"] else "compiled"
        console.print(
            f"{report['machine']['processor']}, {report['threads']} threads; kernels {how} "
            f"in {report['compile_seconds']:.1f} s",
            highlight=False,
        )
