"""A job that doubles its trials until there are enough.

A point is looked at again and again, each time with twice as many trials, up to a limit. Whoever stops when a difference is
large finds it too large: so as many trials again are played after the last look, and these alone give the numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from heterobandits.simulation.pool.pieces import PieceResult, Point, TrialsPiece


class LookedTrials(NamedTuple):
    """The rows that were checked, those that supply the numbers, and whether the last check is done.

    Where there is but one look both are the same.
    """

    looked: list[PieceResult]
    fresh: list[PieceResult]
    over: bool


@dataclass(frozen=True)
class Doubling:
    """The trials of a point as a job of the runner.

    Attributes
    ----------
    numbers
        After how many trials it is looked at.
    enough
        Why all trials so far are enough; nothing if they are not.
    """

    point: Point
    numbers: Sequence[int]
    enough: Callable[[list[PieceResult]], Any]
    found: dict[int, Any] = field(default_factory=dict)  # by how many trials were looked at

    @property
    def cost(self) -> float:
        """What it costs at most."""
        return sum(piece.cost for piece in self.point.pieces(range(trial_limits(self.numbers)[1])))

    def wants(self, rows: list[PieceResult]) -> list[TrialsPiece]:
        """The trials up to the next look, or those after the last one; none if all are there."""
        if not rows:
            return self.point.pieces(range(self.numbers[0]))
        found, done = self.parts(rows), trial_count(rows)
        if not found.over:
            return self.point.pieces(range(done, next(n for n in self.numbers if n > done)))
        return [] if found.fresh else self.point.pieces(range(done, 2 * done))

    def parts(self, rows: list[PieceResult]) -> LookedTrials:
        """The rows by what they are for."""
        if len(self.numbers) == 1:
            return LookedTrials(rows, rows, True)
        done = trial_count(rows)
        for n in self.numbers:
            if n > done:
                break
            looked = [row for row in rows if row.last <= n]
            if n == self.numbers[-1] or self.look(looked):
                return LookedTrials(looked, [row for row in rows if row.first >= n], True)
        return LookedTrials(rows, [], False)

    def look(self, rows: list[PieceResult]) -> Any:
        """Why these trials are enough, if they are."""
        n = trial_count(rows)
        if n not in self.found:
            self.found[n] = self.enough(rows)
        return self.found[n]


def trial_count(rows: list[PieceResult]) -> int:
    """The trials in some rows."""
    return sum(row.last - row.first for row in rows)


def trial_limits(numbers: Sequence[int]) -> tuple[int, int]:
    """How many trials are played, those after the last look included, if looks come after so many.

    >>> trial_limits([64, 128, 200]), trial_limits([64])
    ((128, 400), (64, 64))
    """
    times = 1 if len(numbers) == 1 else 2
    return times * numbers[0], times * numbers[-1]


def doubling_numbers(first: int, most: int) -> list[int]:
    """A number, twice that, and so on, up to the most."""
    found = [first]
    while found[-1] < most:
        found.append(min(2 * found[-1], most))
    return found
