"""A point of a study: a problem, the policies that meet it on the same luck, and a horizon; its trials come in pieces.

Whatever its numbers follow from stands in a point's definition, and the digest of that is the key under which they are
kept. How its trials are cut into pieces depends on the point alone, so that pieces of different runs fit together. A run
that nobody takes up again keeps no pieces: its shards are cut for its threads, and their sums are added up as they come.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import BigIntegers, Floats
from heterobandits.caches import cached_property
from heterobandits.core.compiled import SOURCE_DIGEST
from heterobandits.model.problem import Problem
from heterobandits.policies.policy import Policy
from heterobandits.provenance import versions_in_use
from heterobandits.simulation import engine
from heterobandits.simulation.engine import BLOCK_MAX_LANES, Control, Shard
from heterobandits.simulation.results import Results, count_failed_trials, join_spans

PieceKey = tuple[str, int, int]

PIECE_MAX_ROUNDS = 2**27  # of all its policies: seconds of one core
PIECE_MIN_TRIALS = 128  # side by side half as many take a tenth longer each
SHARD_MAX_REGRETS = 2**21  # of a piece in memory, 16 MB
SHARD_TARGET_ROUNDS = 2**20  # long enough that a thread seldom waits for the interpreter
# in how many shards of many blocks a thread plays its even share of what is left
SHARDS_PER_THREAD_SHARE = 4
SHARD_MIN_LANES = 64  # fewer than this side by side are played much more slowly
POINT_KEY_LETTERS = 32
PIECE_FIXED_COST = 1e6  # about a millisecond


@cache
def versions_of_results() -> dict[str, str]:
    """What can change a number: versions, and the digest of the kernels' sources."""
    return {**versions_in_use(), "kernels": SOURCE_DIGEST[:POINT_KEY_LETTERS]}


def render_definition(definition: dict[str, Any]) -> str:
    """A definition as text; equal definitions have equal texts."""
    return json.dumps(definition, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def short_digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:POINT_KEY_LETTERS]


class PieceResult(NamedTuple):
    """The stored result of a piece; arrays of several dimensions are flat, in C order.

    Attributes
    ----------
    sums, products
        As `engine.ShardSums` has them; of the products only [p, q, checkpoint] with p <= q.
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
    kept: list[float] | Floats
    largest: list[float]
    failed: list[int]

    @property
    def place(self) -> PieceKey:
        """Which piece it is of."""
        return self.key, self.first, self.last


class Piece(Protocol):
    """A piece of work that can be played anywhere: it carries everything it needs."""

    @property
    def place(self) -> PieceKey:
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
    delay, under_way
        By how many rounds outcomes come late, and what policies make of visits until then.
    """

    problem: Problem
    policies: tuple[Policy, ...]
    horizon: int
    rounds: tuple[int, ...]
    seed: int
    kept: int = 0
    delay: int = 0
    under_way: str = "counted"

    def __reduce__(self) -> Any:
        """It travels without what was computed from it."""
        return Point, tuple(getattr(self, field.name) for field in fields(self))

    @cached_property
    def definition(self) -> str:
        """All that its numbers follow from."""
        return render_definition(
            {
                "problem": self.problem.to_dict(),
                "policies": [entry.parameters for entry in self.policies],
                "horizon": self.horizon,
                "rounds": list(self.rounds),
                "seed": self.seed,
                "kept": self.kept,
                "made_with": versions_of_results(),
                **({"delay": self.delay, "under_way": self.under_way} if self.delay else {}),
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
        counted = self.under_way == "counted"
        return engine.worlds_of(self.problem, entries, self.horizon, self.delay, counted=counted)

    def piece_count(self, trials: int) -> int:
        """In how many pieces so many trials are cut."""
        most = min(
            PIECE_MAX_ROUNDS // (self.horizon * len(self.policies)),
            SHARD_MAX_REGRETS // (len(self.policies) * len(self.rounds)),
        )
        return max(1, trials // max(PIECE_MIN_TRIALS, most))

    def pieces(self, trials: range) -> list["TrialsPiece"]:
        """These trials, in pieces of about the same size."""
        count = self.piece_count(len(trials))
        ends = [trials.start + len(trials) * i // count for i in range(count + 1)]
        return [TrialsPiece(self, range(*ends[i : i + 2])) for i in range(count)]

    def totals(self, rows: list[PieceResult]) -> "RunTotals":
        """What neighbouring pieces add up to, none of them there twice."""
        first, last = min(row.first for row in rows), max(row.last for row in rows)
        totals = RunTotals(self, range(first, last))
        for row in rows:
            totals.add(row)
        return totals


@dataclass(frozen=True)
class TrialsPiece:
    """A piece of a point: a range of its trials."""

    point: Point
    trials: range

    @property
    def place(self) -> PieceKey:
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
        return PIECE_FIXED_COST + self.rounds * (10.0 + problem.agents * problem.arms)

    def play(self, control: Control) -> PieceResult | None:
        """Play it."""
        point = self.point
        P, K = len(point.policies), len(point.rounds)
        shard = Shard(point.worlds, point.rounds, point.seed, self.trials, kept=K)
        row = ShardPiece(shard).play(control)
        if row is None:
            return None
        regrets = np.reshape(row.kept, (P, K, -1))
        failed = count_failed_trials(regrets, point.problem.most_regret(point.rounds))
        return row._replace(
            key=point.key,
            definition=point.definition,
            kept=regrets[:, K - point.kept :].ravel().tolist(),
            largest=regrets.max(axis=-1).ravel().tolist(),
            failed=failed.ravel().tolist(),
        )


@dataclass(frozen=True)
class ShardPiece:
    """A shard as a piece that is kept nowhere: its worlds travel with it, and regrets stay as they lie in memory."""

    shard: Shard
    definition = ""

    @property
    def place(self) -> PieceKey:
        """The range of its trials."""
        return "", self.shard.trials.start, self.shard.trials.stop

    @property
    def rounds(self) -> int:
        """Of all trials, by all policies."""
        return self.shard.trial_rounds

    @property
    def cost(self) -> float:
        """The same."""
        return self.rounds

    def play(self, control: Control) -> PieceResult | None:
        """Play it."""
        played = engine.play_shard(self.shard, control)
        if played is None:
            return None
        products = played.products[pairs_of_policies(len(played.sums))]
        return PieceResult(
            *self.place,
            self.definition,
            played.sums.ravel().tolist(),
            products.ravel().tolist(),
            played.seconds.tolist(),
            kept=played.kept.ravel(),
            largest=[],
            failed=[],
        )


def shard_max_trials(policies: int, checkpoints: int, horizon: int, lanes: int) -> int:
    """The largest number of trials in a shard: whole blocks of so many lanes, within limits of time and memory."""
    blocks = min(
        SHARD_TARGET_ROUNDS // (horizon * BLOCK_MAX_LANES),
        SHARD_MAX_REGRETS // (policies * checkpoints * lanes),
    )
    return lanes * max(1, blocks)


def cut_shard(whole: Shard, threads: int) -> Iterator[Shard]:
    """The shard cut into smaller ones, so that the threads that play them end at about the same time.

    The next one has whole blocks while much is left, and then an even share of what is left, but no fewer
    than FEW_LANES trials. A thread alone waits for nobody.
    """
    most = shard_max_trials(len(whole.worlds), len(whole.rounds), whole.rounds[-1], whole.lanes)
    first, last = whole.trials.start, whole.trials.stop
    while first < last:
        share = -(-(last - first) // threads)
        blocks = share // (SHARDS_PER_THREAD_SHARE * whole.lanes if threads > 1 else whole.lanes)
        size = min(most, max(blocks * whole.lanes, min(share, whole.lanes), SHARD_MIN_LANES))
        size = min(size, last - first, -(-len(whole.trials) // threads))
        yield replace(whole, trials=range(first, first + size))
        first += size


def integer_array(numbers: list[int], shape: tuple[int, ...]) -> BigIntegers:
    """Whole numbers of any size as an array."""
    out = np.empty(len(numbers), object)
    out[:] = numbers
    return out.reshape(shape)


@cache
def pairs_of_policies(P: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """All p <= q."""
    return np.triu_indices(P)


def square_products(products: list[int], P: int, K: int) -> BigIntegers:
    """The products of all pairs of policies from those of p <= q."""
    out = np.empty((P, P, K), object)
    rows, columns = pairs_of_policies(P)
    out[rows, columns] = out[columns, rows] = integer_array(products, (len(rows), K))
    return out


class RowStore(Protocol):
    """Where the rows of a run are kept. One that has none to give back needs only `add`."""

    def row(self, place: PieceKey) -> PieceResult | None:
        """What is kept of a piece, if it is there and can be read."""
        return None

    def add(self, row: PieceResult) -> None:
        """Keep what came of a piece."""

    def write_if_due(self) -> None:
        """Write what is not written yet, if the last time was a while ago."""
        return

    def write(self) -> None:
        """Write what is not written yet."""
        return


class RunTotals(RowStore):
    """What neighbouring trials of a point add up to as they come, in any order: all that is kept of them."""

    def __init__(self, point: Point, trials: range) -> None:
        P, K = len(point.policies), len(point.rounds)
        self.point, self.trials = point, trials
        self.spans: tuple[tuple[int, int], ...] = ()
        self.sums = np.zeros((P, K), object)
        self.products = np.zeros((P, P, K), object)
        self.seconds = np.zeros(P)
        self.kept = np.empty((P, point.kept, len(trials))) if point.kept else None

    def add(self, row: PieceResult) -> None:
        """Count what came of some of the trials."""
        P, K = self.sums.shape
        if self.kept is not None:
            start, stop = (trial - self.trials.start for trial in (row.first, row.last))
            self.kept[..., start:stop] = np.reshape(row.kept, (P, self.point.kept, -1))
        self.spans = join_spans((*self.spans, (row.first, row.last)))
        self.sums += integer_array(row.sums, (P, K))
        self.products += square_products(row.products, P, K)
        self.seconds += row.seconds

    def results(self, threads: int = 1) -> Results:
        """The results so far, which so many threads played side by side."""
        point, kept, first = self.point, self.kept, self.trials.start
        partial = sum(stop - start for start, stop in self.spans) < len(self.trials)
        if partial and kept is not None:
            kept = np.concatenate([kept[..., a - first : b - first] for a, b in self.spans], -1)
        return Results(
            problem=point.problem,
            policies=tuple(entry.label for entry in point.policies),
            parameters=tuple(entry.parameters for entry in point.policies),
            horizon=point.horizon,
            seed=point.seed,
            rounds=point.rounds,
            spans=self.spans,
            sums=self.sums,
            products=self.products,
            seconds=tuple((self.seconds / threads).tolist()),
            partial=partial,
            versions=versions_in_use(),
            kept_rounds=point.rounds[len(point.rounds) - point.kept :],
            kept=kept,
            delay=point.delay,
            under_way=point.under_way,
        )
