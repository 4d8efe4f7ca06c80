"""What sweeps cost beside the engine, and how large they may be: `python benchmarks/sweeps.py [PART ...]`.

    overhead   shards of half a second through the runner, beside the engine alone
    workers    two processes of a Dask cluster beside one
    large      100,000 points: time, memory, disk, resuming, reading, the report

The last figures stand in docs/sweeps.md.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

LARGE = """
title = "a large one"
horizon = 50
policies = ["min-width", "min-ucb", "no-sharing", "cucb", "greedy"]
trials = 16
draws = 10_000
[problem]
arms = 6
sensitivities = {low = 0.2, high = 0.9, drawn = true}
means = {low = 0.1, high = 0.9, drawn = true}
[grid]
agents = [1, 2, 3, 4, 5]
false_positive_rates = [0.0, 0.05]
"""
# means and sensitivities as in the paper's settings; each point takes a second or so of a core
EVEN = """
horizon = 20_000
policies = ["min-width", "min-ucb", "no-sharing", "cucb"]
trials = 256
draws = 24
[problem]
agents = 3
arms = 6
sensitivities = {low = 0.2, high = 0.9}
means = {low = 0.1, high = 0.9, drawn = true}
"""


def megabytes() -> float:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def overhead() -> None:
    """The runner on one thread beside the engine alone, in turns."""
    from heterobandits.simulation import engine
    from heterobandits.simulation.engine import compile_kernels
    from heterobandits.simulation.pool.pieces import TrialsPiece
    from heterobandits.simulation.pool.runner import FixedJob, Runner
    from heterobandits.simulation.pool.shards import ShardStore
    from heterobandits.simulation.pool.threads import Threads
    from heterobandits.sweeps.spec import Spec
    from heterobandits.sweeps.sweep import point_of_spec

    spec = Spec.from_toml(EVEN)
    compile_kernels(spec.policies)
    ratios = []
    for turn in range(3):
        points = [point_of_spec(spec, spec[i]) for i in range(8 * turn, 8 * turn + 8)]
        pieces = [TrialsPiece(point, range(256)) for point in points]
        begin = time.perf_counter()
        alone = [piece.play(engine.new_control()) for piece in pieces]
        middle = time.perf_counter()
        with TemporaryDirectory() as folder:
            jobs = [FixedJob([piece]) for piece in pieces]
            found: list[object] = []
            run = Runner(jobs, len(jobs), ShardStore(Path(folder)), Threads(1))
            run.run(lambda number, rows, failures, found=found: found.extend(rows))
        end = time.perf_counter()
        assert len(found) == len(alone)
        ratios.append((end - middle) / (middle - begin))
        print(f"a piece of {(middle - begin) / 8:.2f} s: the runner takes {ratios[-1]:.3f} of that")


def workers() -> None:
    """The same sweep on one process and on two, in turns, kernels being compiled."""
    from heterobandits.simulation.pool.dask_cluster import connect
    from heterobandits.sweeps.spec import Spec
    from heterobandits.sweeps.sweep import sweep

    spec = Spec.from_toml(EVEN)
    for turn in range(3):
        seconds = {}
        for count in (1, 2):
            cluster = connect(local_workers=count)
            with TemporaryDirectory() as warm, TemporaryDirectory() as folder:
                try:
                    # the first pieces load kernels in every process
                    small = EVEN.replace("draws = 24", "draws = 8").replace(
                        "20_000", f"{20 + turn}"
                    )
                    sweep(Spec.from_toml(small), warm, engine=Kept(cluster))
                    begin = time.perf_counter()
                    sweep(spec, folder, engine=cluster)
                    seconds[count] = time.perf_counter() - begin
                finally:
                    cluster.stop()
        print(
            f"1 process {seconds[1]:.1f} s, 2 processes {seconds[2]:.1f} s: {seconds[1] / seconds[2]:.2f} times"
        )


class Kept:
    """An engine that another sweep is going to use as well."""

    def __init__(self, engine: object) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def stop(self) -> list[object]:
        """Nothing is left to be stopped: the sweep is finished."""
        return []


def large() -> None:
    """A sweep of many small points in a process of its own, then again, then its report."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "spec.toml"
        path.write_text(LARGE, "utf-8")
        for what in ("run", "resume", "rebuild", "read", "report"):
            subprocess.run([sys.executable, __file__, what, folder], check=True)
        files = list(Path(folder).rglob("*.parquet"))
        size = sum(file.stat().st_size for file in files)
        print(f"{len(files)} files, {size / 1e6:.0f} MB")


def step(what: str, folder: Path) -> None:
    """One step of it, in this process."""
    from heterobandits import read_sweep
    from heterobandits.sweeps.report.page import write_report
    from heterobandits.sweeps.spec import Spec
    from heterobandits.sweeps.sweep import sweep

    begin = time.perf_counter()
    if what in ("run", "resume", "rebuild"):
        if what == "rebuild":  # as after a kill in the last moment
            (folder / "out" / "results.parquet").unlink()
        made = sweep(Spec.load(folder / "spec.toml"), folder / "out")
        print(f"{what}: {len(made.spec):,} points, {made.rounds:,} rounds", end=", ")
    elif what == "read":
        frame = read_sweep(folder / "out")
        print(f"read: {len(frame):,} rows", end=", ")
    else:
        print(f"report: {write_report(folder / 'out').page.name}", end=", ")
    print(f"{time.perf_counter() - begin:.1f} s, {megabytes():.0f} MB", flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if len(arguments) == 2 and Path(arguments[1]).is_dir():
        step(arguments[0], Path(arguments[1]))
    else:
        for part in arguments or ["overhead", "workers", "large"]:
            {"overhead": overhead, "workers": workers, "large": large}[part]()
