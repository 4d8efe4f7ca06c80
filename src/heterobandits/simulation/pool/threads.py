"""What plays pieces: threads of this process or an executor; `dask_cluster` has the processes of a Dask cluster.

An engine is handed batches of pieces and gives back, for every piece, what came of it: a row or a failure. One that
raises harms no other.
"""

import traceback
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import NamedTuple, Protocol

from heterobandits.errors import InvalidInput
from heterobandits.simulation import engine
from heterobandits.simulation.engine import Control
from heterobandits.simulation.pool.pieces import Piece, PieceKey, PieceResult


class Failure(NamedTuple):
    """A piece that raised an error."""

    place: PieceKey
    definition: str
    error: str


PieceOutcome = PieceResult | Failure
Batch = Sequence[Piece]
Errors = tuple[type[BaseException], ...]

ANY_ERROR: Errors = (Exception, SystemExit)


class Engine(Protocol):
    """Something that plays batches."""

    @property
    def workers(self) -> int:
        """How many batches are played at a time, at the moment."""

    @property
    def where(self) -> str:
        """The same for a person."""

    def submit(self, batch: Batch) -> None:
        """Play a batch when there is room."""

    @property
    def waiting(self) -> int:
        """How many batches are handed in and not given back."""

    def finished(self, seconds: float) -> list[tuple[Batch, list[PieceOutcome]]]:
        """The batches that are finished, after waiting for at most so long if there is none."""

    @property
    def rounds(self) -> int:
        """The trial-rounds played so far of batches that are not given back, if that is known."""

    def stop(self) -> list[PieceOutcome]:
        """Play nothing more, and give back what is finished of anything."""


def play_batch(batch: Batch, control: Control, caught: Errors = ANY_ERROR) -> list[PieceOutcome]:
    """The results of the pieces that were played before `control` stopped the batch.

    A piece that raises an error that is `caught` is a failure; any other error goes on to the caller.
    """
    outcomes: list[PieceOutcome] = []
    for piece in batch:
        if engine.is_stopped(control):
            break
        try:
            row = piece.play(control)
        except caught as error:
            outcomes.append(Failure(piece.place, piece.definition, render_error(error)))
            continue
        if row is None:
            break
        outcomes.append(row)
    return outcomes


def render_error(error: BaseException) -> str:
    """An error in one line, with the place where it was raised if it was unforeseen."""
    if isinstance(error, InvalidInput):
        return str(error)
    try:
        text = " ".join(str(error).split()) or "no reason given"
    except Exception:  # of an error that cannot even say what it is
        text = "no reason that can be read"
    *_, last = traceback.extract_tb(error.__traceback__) or [None]
    where = f" ({last.filename}, line {last.lineno}, in {last.name})" if last else ""
    return f"{type(error).__name__}: {text}{where}"


class Threads:
    """The cores of this machine, as compiled code does not hold the interpreter lock; or whatever an executor plays on.

    Without an executor it has so many threads of its own. An error that is not `caught` ends the run.
    """

    def __init__(
        self, threads: int, executor: Executor | None = None, caught: Errors = ANY_ERROR
    ) -> None:
        self.workers = threads
        self._is_own = executor is None
        self._pool = ThreadPoolExecutor(threads) if executor is None else executor
        self._caught = caught
        self._playing: dict[Future[list[PieceOutcome]], tuple[Batch, Control]] = {}
        self._last = engine.new_control()

    @property
    def where(self) -> str:
        """How many there are."""
        return f"{self.workers} thread{'s' * (self.workers > 1)}"

    def submit(self, batch: Batch) -> None:
        """Play a batch when there is room."""
        self._last = control = engine.new_control()
        self._playing[self._pool.submit(play_batch, batch, control, self._caught)] = batch, control

    @property
    def waiting(self) -> int:
        """How many batches are not given back."""
        return len(self._playing)

    def finished(self, seconds: float) -> list[tuple[Batch, list[PieceOutcome]]]:
        """The batches that are finished."""
        ready = wait(self._playing, seconds, FIRST_COMPLETED).done
        came = {future: future.result() for future in ready}  # or an error, and all stay for `stop`
        return [(self._playing.pop(future)[0], outcomes) for future, outcomes in came.items()]

    @property
    def rounds(self) -> int:
        """The trial-rounds played so far of the others; none where an executor plays in another process."""
        # a last block may play lanes that nobody asked for
        return sum(
            min(engine.count_played_rounds(control), sum(piece.rounds for piece in batch))
            for batch, control in self._playing.values()
        )

    def stop(self) -> list[PieceOutcome]:
        """Stop the threads before their next round."""
        # an executor that raised in `submit` may have taken its batch
        engine.request_stop(self._last)
        for future, (_, control) in self._playing.items():
            engine.request_stop(control)
            future.cancel()
        if self._is_own:
            self._pool.shutdown()
        elif isinstance(self._pool, ThreadPoolExecutor):  # elsewhere a control is a copy
            wait(self._playing)
        came = [future for future in self._playing if future.done() and not future.cancelled()]
        return [one for future in came if not future.exception() for one in future.result()]
