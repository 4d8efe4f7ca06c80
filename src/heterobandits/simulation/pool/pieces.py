"""A point of a study: a problem, the policies that meet it on the same luck, and a horizon; its trials come in pieces.

Whatever its numbers follow from stands in a point's definition, and the digest of that is the key under which they are
kept. How its trials are cut into pieces depends on the point alone, so that pieces of different runs fit together.
"""

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from heterobandits.core.compiled import SOURCE_DIGEST
from heterobandits.model.problem import Problem
from heterobandits.policies.policy import Policy
from heterobandits.provenance import versions
from heterobandits.simulation import engine
from heterobandits.simulation.engine import Control, Shard
from heterobandits.simulation.results import Integers, Results, failed_trials, joined_spans
from heterobandits.simulation.simulation import MOST_REGRETS

Floats = npt.NDArray[np.float64]

ROUNDS_A_PIECE = 2**27  # of all its policies: seconds of one core
LEAST_TRIALS = 128  # side by side half as many take a tenth longer each
KEY_LETTERS = 32
PIECE_COST = 1e6  # about a millisecond


@cache
def made_with_versions() -> dict[str, str]:
    """What can change a number: versions, and the digest of the kernels' sources."""
    return {**versions(), "kernels": SOURCE_DIGEST[:KEY_LETTERS]}


def canonical_definition(definition: dict[str, Any]) -> str:
    """A definition as a text that is the same whenever it says the same."""
    return json.dumps(definition, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def short_digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:KEY_LETTERS]


class PieceResult(NamedTuple):
    """What came of a piece, as it is kept; what has several dimensions is flat, in C order.

    Attributes
    ----------
    sums, products
        As `engine.Played` has them; of the products only [p, q, checkpoint] with p <= q.
    seconds
        That each policy took.
    kept
        Numbers of single trials.
    largest, failed
        The most regret of a trial and how many have failed, each flat over [policy, checkpoint].
    """

    key: str
    first: int
    last: int
    definition: str
    sums: list[int]
    products: list[int]
    seconds: list[float]
    kept: list[float]
    largest: list[float]
    failed: list[int]

    @property
    def place(self) -> tuple[str, int, int]:
        """Which piece it is of."""
        return self.key, self.first, self.last


class Piece(Protocol):
    """A piece of work that can be played anywhere: all that it needs travels with it."""

    @property
    def place(self) -> tuple[str, int, int]:
        """The key of its definition, and the range of what it plays."""

    @property
    def definition(self) -> str:
        """What its numbers follow from, for a person and for the store."""

    @property
    def rounds(self) -> int:
        """The trial-rounds in it."""

    @property
    def cost(self) -> float:
        """About how long it takes, in arbitrary units."""

    def play(self, control: Control) -> PieceResult | None:
        """What comes of it; None if `control` stopped it before."""


@dataclass(frozen=True)
class Point:
    """A problem, policies and a horizon.

    Attributes
    ----------
    rounds
        The checkpoints; the last one is the horizon.
    kept
        At how many of the last checkpoints every trial's regret is kept, beside the sums.
    """

    problem: Problem
    policies: tuple[Policy, ...]
    horizon: int
    rounds: tuple[int, ...]
    seed: int
    kept: int = 0

    def __reduce__(self) -> Any:
        """It travels without what was computed from it."""
        return Point, tuple(getattr(self, field.name) for field in fields(self))

    @cached_property
    def definition(self) -> str:
        """All that its numbers follow from."""
        return canonical_definition(
            {
                "problem": self.problem.to_dict(),
                "policies": [entry.parameters for entry in self.policies],
                "horizon": self.horizon,
                "rounds": list(self.rounds),
                "seed": self.seed,
                "kept": self.kept,
                "made_with": made_with_versions(),
            }
        )

    @cached_property
    def key(self) -> str:
        """The digest of that."""
        return short_digest(self.definition)

    @cached_property
    def worlds(self) -> tuple[engine.PolicyWorld, ...]:
        """The problem as each policy meets it."""
        entries = (entry.until(self.horizon) for entry in self.policies)
        return engine.worlds(self.problem, entries, self.horizon)

    def piece_count(self, trials: int) -> int:
        """In how many pieces so many trials are cut."""
        most = min(
            ROUNDS_A_PIECE // (self.horizon * len(self.policies)),
            MOST_REGRETS // (len(self.policies) * len(self.rounds)),
        )
        return max(1, trials // max(LEAST_TRIALS, most))

    def pieces(self, trials: range) -> list["Trials"]:
        """These trials, in pieces of about the same size."""
        count = self.piece_count(len(trials))
        ends = [trials.start + len(trials) * i // count for i in range(count + 1)]
        return [Trials(self, range(*ends[i : i + 2])) for i in range(count)]

    def results(self, rows: list[PieceResult], threads: int = 1) -> Results:
        """The results of pieces, none of them there twice, that so many threads played side by side."""
        P, K = len(self.policies), len(self.rounds)
        rows = sorted(rows, key=lambda row: row.first)
        kept = [np.reshape(row.kept, (P, self.kept, -1)) for row in rows] if self.kept else None
        return Results(
            problem=self.problem,
            policies=tuple(entry.label for entry in self.policies),
            parameters=tuple(entry.parameters for entry in self.policies),
            horizon=self.horizon,
            seed=self.seed,
            rounds=self.rounds,
            spans=joined_spans((row.first, row.last) for row in rows),
            sums=sum((whole_array(row.sums, (P, K)) for row in rows), np.zeros((P, K), object)),
            products=sum(
                (squared(row.products, P, K) for row in rows), np.zeros((P, P, K), object)
            ),
            seconds=tuple(np.sum([row.seconds for row in rows], axis=0) / threads),
            partial=False,
            versions=versions(),
            kept_rounds=self.rounds[len(self.rounds) - self.kept :],
            kept=None if kept is None else np.concatenate(kept, axis=-1),
        )


@dataclass(frozen=True)
class Trials:
    """A piece of a point: a range of its trials."""

    point: Point
    trials: range

    @property
    def place(self) -> tuple[str, int, int]:
        """The key of the point, and the range."""
        return self.point.key, self.trials.start, self.trials.stop

    @property
    def definition(self) -> str:
        """The point's."""
        return self.point.definition

    @property
    def rounds(self) -> int:
        """Of all trials, by all policies."""
        return len(self.trials) * self.point.horizon * len(self.point.policies)

    @property
    def cost(self) -> float:
        """Rounds times cells of the tables, and what is done once for any piece."""
        problem = self.point.problem
        return PIECE_COST + self.rounds * (10.0 + problem.agents * problem.arms)

    def play(self, control: Control) -> PieceResult | None:
        """Play it."""
        point = self.point
        lanes = max(world.lanes for world in point.worlds)
        P, K = len(point.policies), len(point.rounds)
        most = point.problem.most_regret(point.rounds)
        shard = Shard(point.worlds, point.rounds, point.seed, self.trials, K, lanes)
        played = engine.play(shard, control)
        if played is None:
            return None
        products = played.products[pairs_of(P)]
        return PieceResult(
            *self.place,
            self.definition,
            played.sums.ravel().tolist(),
            products.ravel().tolist(),
            played.seconds.tolist(),
            played.kept[:, K - point.kept :].ravel().tolist(),
            played.kept.max(axis=-1).ravel().tolist(),
            failed_trials(played.kept, most).ravel().tolist(),
        )


def whole_array(numbers: list[int], shape: tuple[int, ...]) -> Integers:
    """Whole numbers of any size as an array."""
    out = np.empty(len(numbers), object)
    out[:] = numbers
    return out.reshape(shape)


@cache
def pairs_of(P: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """All p <= q."""
    return np.triu_indices(P)


def squared(products: list[int], P: int, K: int) -> Integers:
    """The products of all pairs of policies from those of p <= q."""
    out = np.empty((P, P, K), object)
    rows, columns = pairs_of(P)
    out[rows, columns] = out[columns, rows] = whole_array(products, (len(rows), K))
    return out
