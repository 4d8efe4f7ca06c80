"""The runner: it plays the pieces of many points in one pool, keeps each result as it comes, and plays nothing twice.

What is to be run is a series of jobs. A job says which pieces it wants, is told what came of them, and may then want more.
Pieces that the store has are not played. Small ones are handed to the engine in batches, so that neither handing
out nor keeping them costs much beside playing them. No more jobs are begun than keep the engine busy.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from heterobandits.interrupts import hold_back_interrupts
from heterobandits.simulation.pool.pieces import Piece, PieceKey, PieceResult, RowStore
from heterobandits.simulation.pool.threads import Engine, Failure

BATCH_TARGET_S = 1.0
BATCH_MIN_S = 0.05  # of a batch when little is left
FIRST_BATCH_S = 0.1
FIRST_SPEED_COST_PER_S = 2e8  # cost a second, until it is measured
BATCHES_PER_WORKER = 2  # batches for each worker: the next is there when one ends
RUNNER_WATCH_INTERVAL_S = 0.1
SPEED_SMOOTHING = 0.3  # what a new measurement counts for


class Job(Protocol):
    """Something to be run."""

    def wants(self, rows: list[PieceResult]) -> Sequence[Piece]:
        """The pieces to play next, when all that it wanted so far has come to these rows; none if it is finished."""


@dataclass(frozen=True)
class FixedJob:
    """A job whose pieces are all known from the beginning."""

    pieces: list[Piece]

    def wants(self, rows: list[PieceResult]) -> list[Piece]:
        """All of them at first."""
        return [] if rows else self.pieces


class Progress(NamedTuple):
    """How far a run is."""

    jobs: int  # finished
    of: int
    cost: float  # of the pieces that are there
    rounds: int  # trial-rounds played in this run
    seconds: float
    left: float | None  # seconds, if that can be said


@dataclass
class RunningJob:
    """A job in progress."""

    number: int
    job: Job
    rows: list[PieceResult] = field(default_factory=list)
    missing: dict[PieceKey, Piece] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    played: bool = False


OnFinished = Callable[[int, list[PieceResult], list[Failure]], None]
OnProgress = Callable[[Progress], None]


class Runner:
    """One run of some jobs, at most `count` of them; pieces are joined to batches that take so many seconds."""

    def __init__(
        self,
        jobs: Iterable[Job],
        count: int,
        store: RowStore,
        engine: Engine,
        batch_seconds: float = BATCH_TARGET_S,
    ) -> None:
        self._jobs = iter(jobs)
        self._begun = 0
        self._all_begun = False
        self._count = count
        self._store = store
        self._engine = engine
        self._batch_seconds = batch_seconds
        self._ready: deque[Piece] = deque()
        self._ready_cost = 0.0
        self._owners: dict[PieceKey, list[RunningJob]] = {}
        self._done = 0
        self._played_jobs = 0
        self._rounds = 0
        self._speed = FIRST_SPEED_COST_PER_S
        self._measured = False
        self._cost = 0.0
        self._begin = time.monotonic()

    def run(
        self,
        finished: OnFinished = lambda number, rows, failures: None,
        tell: OnProgress = lambda progress: None,
    ) -> None:
        """Run all jobs. `finished` is told of each, in any order, with its number and what came of it.

        On an interrupt, or whatever else goes wrong, what was played is kept.
        """
        with hold_back_interrupts() as strike:
            try:
                tell(self.progress())
                while not self._all_begun or self._done < self._begun:
                    self._hand_out(finished, strike)
                    if self._engine.waiting:
                        self._gather(self._engine.finished(RUNNER_WATCH_INTERVAL_S), finished)
                        self._store.write_if_due()
                    tell(self.progress())
                    strike()
            finally:
                try:
                    for outcome in self._engine.stop():
                        if isinstance(outcome, PieceResult):
                            self._store.add(outcome)
                finally:
                    self._store.write()

    def progress(self) -> Progress:
        """How far it is."""
        seconds = time.monotonic() - self._begin
        # what was read from the store took no time: only what was played says how long the rest takes
        pace = seconds / self._played_jobs if self._played_jobs else None
        left = None if pace is None else pace * (self._count - self._done)
        rounds = self._rounds + self._engine.rounds
        return Progress(self._done, self._count, self._cost, rounds, seconds, left)

    def _fill(self, finished: OnFinished, until: float) -> None:
        """Begin jobs until enough is ready for all workers, and something at least."""
        wanted = self._speed * self._batch_seconds * BATCHES_PER_WORKER * self._engine.workers
        while (not self._ready or self._ready_cost < wanted) and time.monotonic() < until:
            job = next(self._jobs, None)
            if job is None:
                self._all_begun = True
                return
            self._begun += 1
            self._go_on(RunningJob(self._begun - 1, job), finished)

    def _go_on(self, one: RunningJob, finished: OnFinished) -> None:
        """Ask a job for what it wants until something of it has to be played, or it is finished."""
        while not one.failures:
            pieces = one.job.wants(one.rows)
            if not pieces:
                break
            for piece in pieces:
                row = self._store.row(piece.place)
                if row is not None:
                    one.rows.append(row)
                    self._cost += piece.cost
                    continue
                one.played = True
                one.missing[piece.place] = piece
                owners = self._owners.setdefault(piece.place, [])
                owners.append(one)
                if len(owners) == 1:  # two jobs may want the same
                    self._ready.append(piece)
                    self._ready_cost += piece.cost
            if one.missing:
                return
        finished(one.number, one.rows, one.failures)
        self._done += 1
        self._played_jobs += one.played

    def _hand_out(self, finished: OnFinished, strike: Callable[[], None]) -> None:
        """Hand batches to the engine: so large that they take a while, and smaller ones at both ends."""
        until = time.monotonic() + RUNNER_WATCH_INTERVAL_S
        while self._engine.waiting < BATCHES_PER_WORKER * self._engine.workers:
            self._fill(finished, until)
            if not self._ready:
                break
            seconds = min(self._batch_seconds, BATCH_TARGET_S if self._measured else FIRST_BATCH_S)
            if self._all_begun:
                share = self._ready_cost / self._speed / (BATCHES_PER_WORKER * self._engine.workers)
                seconds = min(seconds, max(BATCH_MIN_S, share))
            batch = [self._ready.popleft()]
            cost = batch[0].cost
            while self._ready and cost + self._ready[0].cost <= seconds * self._speed:
                batch.append(self._ready.popleft())
                cost += batch[-1].cost
            self._ready_cost -= cost
            self._engine.submit(batch)
            strike()
        strike()

    def _gather(self, batches: Iterable[tuple[Any, list[Any]]], finished: OnFinished) -> None:
        """Keep what came of batches, and let their jobs go on."""
        came: list[PieceResult | Failure] = []
        for batch, outcomes in batches:
            pieces = {piece.place: piece for piece in batch}
            self._measure(batch, outcomes)
            for outcome in outcomes:
                self._rounds += pieces[outcome.place].rounds
                self._cost += pieces[outcome.place].cost
                if isinstance(outcome, PieceResult):
                    self._store.add(outcome)
            came += outcomes
        for outcome in came:  # whatever their jobs do, all of them are kept by now
            for one in self._owners.pop(outcome.place):
                self._take(one, outcome, finished)

    def _take(self, one: RunningJob, outcome: PieceResult | Failure, finished: OnFinished) -> None:
        del one.missing[outcome.place]
        if isinstance(outcome, PieceResult):
            one.rows.append(outcome)
        else:
            one.failures.append(outcome)
        if not one.missing:
            self._go_on(one, finished)

    def _measure(self, batch: Iterable[Piece], outcomes: Iterable[PieceResult | Failure]) -> None:
        """Learn how long things take."""
        seconds = sum(sum(row.seconds) for row in outcomes if isinstance(row, PieceResult))
        cost = sum(piece.cost for piece in batch)
        if seconds > 0:
            speed = cost / seconds
            self._speed += (SPEED_SMOOTHING if self._measured else 1.0) * (speed - self._speed)
            self._measured = True
