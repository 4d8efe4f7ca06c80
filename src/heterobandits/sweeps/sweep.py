"""Running a sweep: all points of a specification, kept in a folder, and its tables when they are finished."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heterobandits.errors import InvalidInput, parse_path
from heterobandits.machine import count_cores
from heterobandits.output.files import check_writable, explain_write_errors, write_atomic
from heterobandits.simulation.arguments import check_memory
from heterobandits.simulation.engine import compile_kernels
from heterobandits.simulation.pool.doubling import Doubling, trial_count, trial_limits
from heterobandits.simulation.pool.pieces import PIECE_MIN_TRIALS, PieceResult, Point
from heterobandits.simulation.pool.runner import FixedJob, Job, OnProgress, Progress, Runner
from heterobandits.simulation.pool.shards import ShardStore
from heterobandits.simulation.pool.threads import Engine, Failure, Threads
from heterobandits.sweeps import reading
from heterobandits.sweeps.reading import read_sweep
from heterobandits.sweeps.spec import Chosen, Scalar, Spec
from heterobandits.sweeps.stopping import job_of_point, look_trials, totals_of_point
from heterobandits.sweeps.tables import RESULTS_FILE, FinishedPoint, SweepTables, sweep_digest

SHARDS_FOLDER = "shards"
FAILURES_FILE = "failures.json"


@dataclass(frozen=True)
class FailedPoint:
    """A point that could not be run: its number, the error, and its definition."""

    point: int
    axes: dict[str, Scalar]
    error: str
    definition: str


@dataclass(frozen=True)
class FinishedSweep:
    """A sweep that is finished."""

    spec: Spec
    folder: Path
    failed: tuple[FailedPoint, ...]
    rounds: int  # trial-rounds played now
    seconds: float

    @property
    def results(self) -> Path:
        """The table of results."""
        return self.folder / RESULTS_FILE


def point_of_spec(spec: Spec, chosen: Chosen) -> Point:
    """A point of the specification for the runner."""
    most = trial_limits(look_trials(spec.stopping))[1]
    check_memory(len(chosen.policies), len(chosen.rounds), 0, most, PIECE_MIN_TRIALS)
    seed = spec.seed_of(chosen)
    return Point(chosen.problem, chosen.policies, chosen.horizon, chosen.rounds, seed)


def finish_point(
    number: int, chosen: Chosen, job: Doubling, rows: list[PieceResult]
) -> FinishedPoint:
    """Finish a point from all its pieces."""
    looked, fresh, _ = job.parts(rows)
    seen, sums = totals_of_point(job.point, looked), totals_of_point(job.point, fresh)
    shape = sums.sums.shape[1:]
    largest = np.max([row.largest for row in rows], axis=0).reshape(shape)
    failed = np.sum([row.failed for row in rows], axis=0).reshape(shape)
    played, why = trial_count(rows), job.look(looked)
    return FinishedPoint(number, chosen, sums, seen, played, largest, failed, why)


def is_finished(spec: Spec, folder: Path) -> bool:
    """Whether a folder has intact tables of this sweep with all its points."""
    try:
        said = [reading.description_of(folder, table) for table in reading.SWEEP_TABLE_NAMES]
        if any(one["digest"] != sweep_digest(spec) or one["failed"] for one in said):
            return False
        for table in reading.SWEEP_TABLE_NAMES:
            read_sweep(folder, table)
    except (InvalidInput, KeyError):
        return False
    return True


def sweep(
    spec: Spec,
    folder: str | Path,
    *,
    engine: Engine | None = None,
    threads: int | None = None,
    tell: OnProgress = lambda progress: None,
    note: Callable[[str], None] = lambda text: None,
) -> FinishedSweep:
    """Run all points of a specification that are not in the folder yet, and write the tables.

    Parameters
    ----------
    engine
        What plays them, and is stopped in the end, whatever happens; threads of this process by default, as many as there
        are cores unless `threads` says otherwise.
    tell, note
        Called with how far it is, in the calling thread; with remarks for a person.

    Returns
    -------
    Swept
        On Ctrl-C, a KeyboardInterrupt instead: what was played is kept, and the next call goes on from there.
    """
    player = Threads(count_cores() if threads is None else threads) if engine is None else engine
    try:
        return _run_sweep(spec, parse_path(folder, "folder"), player, tell, note)
    finally:
        player.stop()


def _run_sweep(
    spec: Spec, folder: Path, engine: Engine, tell: OnProgress, note: Callable[[str], None]
) -> FinishedSweep:
    begin = time.perf_counter()
    spec.check()
    if is_finished(spec, folder):
        return FinishedSweep(spec, folder, (), 0, time.perf_counter() - begin)
    check_writable(folder)
    store = ShardStore(folder / SHARDS_FOLDER, note)
    compile_kernels(spec.policies)
    tables = SweepTables(spec)
    reference = [entry.label for entry in spec.policies].index(spec.reference)
    begun: dict[int, tuple[Chosen, Doubling]] = {}
    failed: list[FailedPoint] = []
    last: list[Progress] = []

    def jobs() -> Iterator[Job]:
        for number in range(len(spec)):
            try:
                chosen = spec[number]
                point = point_of_spec(spec, chosen)
            except InvalidInput as error:  # of very many points only some were made before
                failed.append(FailedPoint(number, spec.axes_of(number), str(error), "{}"))
                yield FixedJob([])
            else:
                job = job_of_point(point, spec.stopping, reference)
                begun[number] = (chosen, job)
                yield job

    def finished(number: int, rows: list[PieceResult], failures: list[Failure]) -> None:
        if number not in begun:
            return
        chosen, job = begun.pop(number)
        if failures:
            failure = failures[0]
            failed.append(FailedPoint(number, chosen.axes, failure.error, failure.definition))
            return
        tables.add(finish_point(number, chosen, job, rows))

    def told(progress: Progress) -> None:
        last[:] = [progress]
        tell(progress)

    Runner(jobs(), len(spec), store, engine).run(finished, told)
    failed.sort(key=lambda one: one.point)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write_failures(folder / FAILURES_FILE, failed)
        tables.write(folder, len(failed))
    return FinishedSweep(spec, folder, tuple(failed), last[-1].rounds, time.perf_counter() - begin)


def _write_failures(path: Path, failed: list[FailedPoint]) -> None:
    """The points that failed, or no such file."""
    if not failed:
        with suppress(FileNotFoundError):
            path.unlink()
        return
    rows: list[dict[str, Any]] = [
        asdict(one) | {"definition": json.loads(one.definition)} for one in failed
    ]
    text = json.dumps(rows, indent=1, ensure_ascii=False)
    write_atomic(path, lambda aside: aside.write_text(text, "utf-8"))
