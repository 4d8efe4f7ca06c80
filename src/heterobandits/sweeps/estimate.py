"""How large a sweep is, and about how long it takes and how much it writes, from playing a little of it."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from heterobandits.simulation import engine
from heterobandits.simulation.engine import compile_kernels
from heterobandits.simulation.pool.doubling import trial_count, trial_limits
from heterobandits.simulation.pool.pieces import PieceResult, TrialsPiece
from heterobandits.simulation.pool.shards import ShardStore
from heterobandits.sweeps.spec import Spec, Stopping
from heterobandits.sweeps.stopping import job_of_point, look_trials
from heterobandits.sweeps.sweep import SHARDS_FOLDER, finish_point, point_of_spec
from heterobandits.sweeps.tables import SweepTables

SAMPLE_MAX_POINTS = 24  # points at most
SAMPLE_TARGET_S = 3.0
SAMPLE_POINT_MAX_S = 5.0  # for one of them
FINISH_TARGET_S = 10.0  # for points that are played until they have enough trials
SAMPLE_POINT_MAX_TRIALS = 64  # of each at most: they say how long the others take


@dataclass(frozen=True)
class SweepSize:
    """The minimum and maximum size of a sweep: with the fewest trials, and with all that are allowed.

    Attributes
    ----------
    rounds
        Trial-rounds of all policies.
    seconds
        On one core, which several share; `serial` are those of gathering and writing, which they do not.
    size
        Bytes on the disk.
    sampled
        How many points it was estimated from.
    finished
        How many of these were played until they had enough trials, where that differs from point to point.
    likely
        Seconds on one core if the others need as many trials as these; None if none was finished.
    """

    points: int
    trials: tuple[int, int]
    rounds: tuple[int, int]
    seconds: tuple[float, float]
    serial: float
    size: int
    sampled: int
    finished: int
    likely: float | None


def estimate_size(spec: Spec, seconds: float = SAMPLE_TARGET_S) -> SweepSize:
    """Estimate a sweep's size by playing some evenly spread points for a few seconds."""
    spec.check()
    compile_kernels(spec.policies)
    count = min(SAMPLE_MAX_POINTS, len(spec))
    # evenly spread, each shifted by a multiplicative hash of its place, so that they are not all of one draw
    width = len(spec) // count
    numbers = [
        len(spec) * i // count + (i * 0x9E3779B1 % 2**32 * width >> 32) for i in range(count)
    ]
    # in an order in which any number of them are spread
    numbers.sort(key=lambda number: (number * 0x9E3779B1) % 2**32)
    trials = min(SAMPLE_POINT_MAX_TRIALS, spec.stopping.trials)
    once = Stopping(trials, trials, None, None, spec.stopping.confidence)
    begin = time.perf_counter()
    taken = serial = 0.0
    rounds = played = pieces = sampled = written = 0
    with TemporaryDirectory() as folder:
        store, tables = ShardStore(Path(folder) / SHARDS_FOLDER), SweepTables(spec)
        for number in numbers:
            point = point_of_spec(spec, chosen := spec[number])
            control = engine.new_control()
            limit = threading.Timer(SAMPLE_POINT_MAX_S, engine.request_stop, [control])
            start = time.perf_counter()
            limit.start()
            row = TrialsPiece(point, range(trials)).play(control)
            limit.cancel()
            taken += time.perf_counter() - start
            played += engine.count_played_rounds(control)
            rounds += point.horizon * len(point.policies)
            pieces += point.piece_count(spec.stopping.trials)
            sampled += 1
            if row is not None:
                store.add(row)
                tables.add(finish_point(number, chosen, job_of_point(point, once, 0), [row]))
            if time.perf_counter() - begin > seconds:
                break
        start = time.perf_counter()
        store.write()
        tables.write(Path(folder), 0)
        serial = time.perf_counter() - start
        empty = Path(folder) / "empty"
        empty.mkdir()
        SweepTables(spec).write(empty, 0)
        fixed = sum(path.stat().st_size for path in empty.iterdir())
        written = sum(path.stat().st_size for path in Path(folder).rglob("*.parquet")) - 2 * fixed
    ends = trial_limits(look_trials(spec.stopping))
    scale = len(spec) / sampled
    pace = taken / max(1, played)  # seconds of a trial-round
    least, most = (round(scale * n * rounds) for n in ends)
    share = None if least == most else share_of_most(spec, numbers, seconds and FINISH_TARGET_S)
    return SweepSize(
        points=len(spec),
        trials=ends,
        rounds=(least, most),
        seconds=(least * pace, most * pace),
        serial=scale * serial,
        size=fixed + round(scale * max(0, written) * max(1, pieces / sampled)),
        sampled=sampled,
        finished=0 if share is None else share[0],
        likely=most * pace if least == most else None if share is None else share[1] * most * pace,
    )


def share_of_most(spec: Spec, numbers: list[int], seconds: float) -> tuple[int, float] | None:
    """How many of these points could be played in these seconds until they had enough trials, and the share that those played of
    all rounds that they may play; None if that was none.
    """
    control = engine.new_control()
    limit = threading.Timer(seconds, engine.request_stop, [control])
    reference = [entry.label for entry in spec.policies].index(spec.reference)
    finished, played, allowed = 0, 0, 0
    limit.start()
    for number in numbers:
        point = point_of_spec(spec, spec[number])
        job = job_of_point(point, spec.stopping, reference)
        rows: list[PieceResult] = []
        while pieces := job.wants(rows):
            found = [piece.play(control) for piece in pieces]
            done = [row for row in found if row is not None]
            if len(done) < len(pieces):
                limit.cancel()
                return (finished, played / allowed) if finished else None
            rows += done
        rounds = point.horizon * len(point.policies)
        finished += 1
        played += rounds * trial_count(rows)
        allowed += rounds * trial_limits(look_trials(spec.stopping))[1]
    limit.cancel()
    return finished, played / allowed
