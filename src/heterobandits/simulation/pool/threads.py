"""What plays pieces: threads of this process; `dask_cluster` has the processes of a Dask cluster.

An engine is handed batches of pieces and gives back, for every piece, what came of it: a row or a failure. One that
raises harms no other.
"""

import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple, Protocol

from heterobandits.errors import InvalidInput
from heterobandits.simulation import engine
from heterobandits.simulation.engine import Control
from heterobandits.simulation.pool.pieces import Piece, PieceResult


class Failure(NamedTuple):
    """A piece that raised an error."""

    place: tuple[str, int, int]
    definition: str
    error: str


Outcome = PieceResult | Failure
Batch = Sequence[Piece]


class Engine(Protocol):
    """Where batches are played."""

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

    def finished(self, seconds: float) -> list[tuple[Batch, list[Outcome]]]:
        """The batches that are finished, after waiting for at most so long if there is none."""

    @property
    def rounds(self) -> int:
        """The trial-rounds played so far of batches that are not given back, if that is known."""

    def stop(self) -> list[Outcome]:
        """Play nothing more, and give back what is finished of anything."""


def play_batch(batch: Batch, control: Control) -> list[Outcome]:
    """What came of the pieces that were played before `control` stopped it: of all, if it did not."""
    outcomes: list[Outcome] = []
    for piece in batch:
        if engine.is_stopped(control):
            break
        try:
            row = piece.play(control)
        except (Exception, SystemExit) as error:
            outcomes.append(Failure(piece.place, piece.definition, error_in_words(error)))
            continue
        if row is None:
            break
        outcomes.append(row)
    return outcomes


def error_in_words(error: BaseException) -> str:
    """An error and, if it was not foreseen, where it was raised, in one line."""
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
    """The cores of this machine: compiled code does not hold the interpreter lock."""

    def __init__(self, threads: int) -> None:
        self.workers = threads
        self._pool = ThreadPoolExecutor(threads)
        self._playing: dict[Future[list[Outcome]], tuple[Batch, Control]] = {}

    @property
    def where(self) -> str:
        """How many there are."""
        return f"{self.workers} thread{'s' * (self.workers > 1)}"

    def submit(self, batch: Batch) -> None:
        """Play a batch when there is room."""
        control = engine.new_control()
        self._playing[self._pool.submit(play_batch, batch, control)] = (batch, control)

    @property
    def waiting(self) -> int:
        """How many batches are not given back."""
        return len(self._playing)

    def finished(self, seconds: float) -> list[tuple[Batch, list[Outcome]]]:
        """The batches that are finished."""
        ready = wait(self._playing, seconds, FIRST_COMPLETED).done
        return [(self._playing.pop(future)[0], future.result()) for future in ready]

    @property
    def rounds(self) -> int:
        """The trial-rounds played so far of the others."""
        return sum(engine.done(control) for _, control in self._playing.values())

    def stop(self) -> list[Outcome]:
        """Stop the threads before their next round."""
        for _, control in self._playing.values():
            engine.stop(control)
        self._pool.shutdown(cancel_futures=True)
        futures: Iterable[Future[list[Outcome]]] = self._playing
        return [one for future in futures if not future.cancelled() for one in future.result()]
