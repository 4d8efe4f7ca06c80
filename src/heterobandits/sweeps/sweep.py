"""Running a sweep: all points of a specification, kept in a folder, and its tables when they are finished."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heterobandits.errors import InvalidInput, path_from
from heterobandits.machine import available_threads
from heterobandits.output.files import writable, write_aside, writing_to
from heterobandits.simulation.arguments import check_memory
from heterobandits.simulation.engine import compile_kernels
from heterobandits.simulation.pool.doubling import Doubling, least_and_most, trial_count
from heterobandits.simulation.pool.pieces import LEAST_TRIALS, PieceResult, Point
from heterobandits.simulation.pool.runner import Fixed, Job, Progress, Runner, Tell
from heterobandits.simulation.pool.shards import ShardStore
from heterobandits.simulation.pool.threads import Engine, Failure, Threads
from heterobandits.sweeps import reading
from heterobandits.sweeps.reading import read_sweep
from heterobandits.sweeps.spec import Chosen, Scalar, Spec
from heterobandits.sweeps.stopping import job_of_point, looks, totals
from heterobandits.sweeps.tables import RESULTS, FinishedPoint, Tables, sweep_digest

SHARDS = "shards"
FAILURES = "failures.json"


@dataclass(frozen=True)
class Failed:
    """A point that could not be run: which it is, what went wrong, and its definition."""

    point: int
    axes: dict[str, Scalar]
    error: str
    definition: str


@dataclass(frozen=True)
class Swept:
    """A sweep that is finished."""

    spec: Spec
    folder: Path
    failed: tuple[Failed, ...]
    rounds: int  # trial-rounds played now
    seconds: float

    @property
    def results(self) -> Path:
        """The table of results."""
        return self.folder / RESULTS


def point_of(spec: Spec, chosen: Chosen) -> Point:
    """A point of the specification for the runner."""
    most = least_and_most(looks(spec.stopping))[1]
    check_memory(len(chosen.policies), len(chosen.rounds), 0, most, LEAST_TRIALS)
    seed = spec.seed_of(chosen)
    return Point(chosen.problem, chosen.policies, chosen.horizon, chosen.rounds, seed)


def known_of(number: int, chosen: Chosen, job: Doubling, rows: list[PieceResult]) -> FinishedPoint:
    """A finished point from all its pieces."""
    looked, fresh, _ = job.parts(rows)
    seen, sums = totals(job.point, looked), totals(job.point, fresh)
    shape = sums.sums.shape[1:]
    largest = np.max([row.largest for row in rows], axis=0).reshape(shape)
    failed = np.sum([row.failed for row in rows], axis=0).reshape(shape)
    played, why = trial_count(rows), job.look(looked)
    return FinishedPoint(number, chosen, sums, seen, played, largest, failed, why)


def is_finished(spec: Spec, folder: Path) -> bool:
    """Whether the tables in a folder are those of this sweep, with all its points, and whole."""
    try:
        said = [reading.description_of(folder, table) for table in reading.NAMES]
        if any(one["digest"] != sweep_digest(spec) or one["failed"] for one in said):
            return False
        for table in reading.NAMES:
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
    tell: Tell = lambda progress: None,
    note: Callable[[str], None] = lambda text: None,
) -> Swept:
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
    player = (
        Threads(available_threads() if threads is None else threads) if engine is None else engine
    )
    try:
        return _sweep(spec, path_from(folder, "folder"), player, tell, note)
    finally:
        player.stop()


def _sweep(
    spec: Spec, folder: Path, engine: Engine, tell: Tell, note: Callable[[str], None]
) -> Swept:
    begin = time.perf_counter()
    spec.check()
    if is_finished(spec, folder):
        return Swept(spec, folder, (), 0, time.perf_counter() - begin)
    writable(folder)
    store = ShardStore(folder / SHARDS, note)
    compile_kernels(spec.policies)
    tables = Tables(spec)
    reference = [entry.label for entry in spec.policies].index(spec.reference)
    begun: dict[int, tuple[Chosen, Doubling]] = {}
    failed: list[Failed] = []
    last: list[Progress] = []

    def jobs() -> Iterator[Job]:
        for number in range(len(spec)):
            try:
                chosen = spec[number]
                point = point_of(spec, chosen)
            except InvalidInput as error:  # of very many points only some were made before
                failed.append(Failed(number, spec.axes_of(number), str(error), "{}"))
                yield Fixed([])
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
            failed.append(Failed(number, chosen.axes, failure.error, failure.definition))
            return
        tables.add(known_of(number, chosen, job, rows))

    def told(progress: Progress) -> None:
        last[:] = [progress]
        tell(progress)

    Runner(jobs(), len(spec), store, engine).run(finished, told)
    failed.sort(key=lambda one: one.point)
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write_failures(folder / FAILURES, failed)
        tables.write(folder, len(failed))
    return Swept(spec, folder, tuple(failed), last[-1].rounds, time.perf_counter() - begin)


def _write_failures(path: Path, failed: list[Failed]) -> None:
    """The points that failed, or no such file."""
    if not failed:
        with suppress(FileNotFoundError):
            path.unlink()
        return
    rows: list[dict[str, Any]] = [
        asdict(one) | {"definition": json.loads(one.definition)} for one in failed
    ]
    text = json.dumps(rows, indent=1, ensure_ascii=False)
    write_aside(path, lambda aside: aside.write_text(text, "utf-8"))
