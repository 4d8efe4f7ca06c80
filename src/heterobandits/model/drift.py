"""Places that change: what the means of the arms are in every round   docs/model.md (14) to (16)

    Changes   from some rounds on they are others
    Wave      they go up and down with a period
    Walk      they take a random step in every round

A drift is data of a problem and stands in its file as a table with the fields of one of these.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import Floats
from heterobandits.core.walk import fill_walk, room
from heterobandits.errors import (
    InvalidInput,
    parse_integer,
    parse_list,
    parse_means,
    parse_real,
    repr_of,
)
from heterobandits.limits import ADDRESS_MAX, COUNT_MAX

Means = tuple[float, ...]

__all__ = ["Changes", "Walk", "Wave"]


class Stretches(NamedTuple):
    """Stretches of rounds in which nothing changes: each one's first round, and its means, [stretch, arm]."""

    starts: npt.NDArray[np.int64]
    means: Floats


@dataclass(frozen=True, init=False)
class Changes:
    """From certain rounds on, the means are different   docs/model.md (14)

    Examples
    --------
    >>> Changes([(151, [0.5, 0.1])]).stretches((0.1, 0.5), 300).starts.tolist()
    [1, 151]
    """

    changes: tuple[tuple[int, Means], ...]

    def __init__(self, changes: Any) -> None:
        checked: list[tuple[int, Means]] = []
        for i, item in enumerate(parse_list(changes, "drift.changes", "pairs (round, means)")):
            pair = (
                []
                if isinstance(item, str)
                else parse_list(item, f"drift.changes[{i}]", "two parts")
            )
            if len(pair) != 2:
                raise InvalidInput(
                    f"drift.changes[{i}] is {repr_of(item)}: a round and the means from it on"
                )
            least = checked[-1][0] + 1 if checked else 2
            first = parse_integer(pair[0], f"the round of drift.changes[{i}]", least, COUNT_MAX)
            checked.append((first, parse_means(pair[1], f"the means of drift.changes[{i}]")))
        if not checked:
            raise InvalidInput(
                "drift.changes is empty: at least one round and the means from it on"
            )
        object.__setattr__(self, "changes", tuple(checked))

    def stretches(self, means: Means, rounds: int) -> Stretches:
        """Of the rounds up to this one."""
        parts = [(1, means), *(part for part in self.changes if part[0] <= rounds)]
        return Stretches(np.array([r for r, _ in parts]), np.array([row for _, row in parts]))

    def count(self, rounds: int) -> int:
        """How many stretches these are, at most."""
        return min(rounds, len(self.changes) + 1)


@dataclass(frozen=True)
class Wave:
    """The means go up and down, each arm a part of the period after the one before   docs/model.md (15)

    Examples
    --------
    >>> Wave(0.2, 4).stretches((0.5,), 4).means[:, 0].round(6).tolist()
    [0.5, 0.7, 0.5, 0.3]
    """

    amplitude: float
    period: float

    def __post_init__(self) -> None:
        amplitude = _parse_share(self.amplitude, "drift.amplitude")
        allowed = "a number of rounds, at least 2"
        period = parse_real(self.period, "drift.period", allowed)
        if period < 2:
            raise InvalidInput(f"drift.period is {period:g}: {allowed}")
        object.__setattr__(self, "amplitude", amplitude)
        object.__setattr__(self, "period", period)

    def stretches(self, means: Means, rounds: int) -> Stretches:
        """Of the rounds up to this one."""
        N = len(means)
        turns = np.arange(rounds)[:, None] / self.period + np.arange(N) / N
        rows = np.array(means) + self.amplitude * np.sin(2 * math.pi * turns)
        return Stretches(np.arange(1, rounds + 1), np.clip(rows, 0.0, 1.0))

    def count(self, rounds: int) -> int:
        """How many stretches these are."""
        return rounds


@dataclass(frozen=True)
class Walk:
    """The means take a random step in every round, the same steps in every trial   docs/model.md (16)"""

    step: float
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", _parse_share(self.step, "drift.step"))
        seed = parse_integer(self.seed, "drift.seed", 0, ADDRESS_MAX)
        object.__setattr__(self, "seed", seed)

    def stretches(self, means: Means, rounds: int) -> Stretches:
        """Of the rounds up to this one."""
        rows = np.empty((rounds, len(means)))
        rows[0] = means
        nowhere = np.uint64(ADDRESS_MAX)  # a trial that no simulation has, whatever its seed
        fill_walk(np.uint64(self.seed), nowhere, self.step, room(len(means)), rows)
        return Stretches(np.arange(1, rounds + 1), rows)

    def count(self, rounds: int) -> int:
        """How many stretches these are."""
        return rounds


Drift = Changes | Wave | Walk
DRIFT_KINDS: tuple[type[Drift], ...] = (Changes, Wave, Walk)


def _parse_share(value: Any, name: str) -> float:
    """`value` as a number in (0, 1]."""
    allowed = "a number in (0, 1]"
    number = parse_real(value, name, allowed)
    if not 0.0 < number <= 1.0:
        raise InvalidInput(f"{name} is {number:g}: {allowed}")
    return number


def parse_drift(value: Any, arms: int) -> Drift | None:
    """`value` as a drift of so many arms: one, or a table with the fields of one, or None."""
    drift = value
    if isinstance(value, dict):
        for kind in DRIFT_KINDS:
            known = [field.name for field in fields(kind)]
            if known[0] in value and set(value) <= set(known):
                try:
                    drift = kind(**value)
                except TypeError:  # one is missing
                    continue
    if drift is not None and not isinstance(drift, DRIFT_KINDS):
        forms = " or ".join(
            f"{{{', '.join(f.name for f in fields(kind))}}}" for kind in DRIFT_KINDS
        )
        raise InvalidInput(f"drift is {repr_of(value)}: a table with {forms}")
    for first, means in drift.changes if isinstance(drift, Changes) else ():
        if len(means) != arms:
            raise InvalidInput(
                f"drift.changes has {len(means)} means from round {first} on: "
                f"one for each of the {arms} arms"
            )
    return drift


def drift_to_dict(drift: Drift) -> dict[str, Any]:
    """The drift as it stands in files."""
    if isinstance(drift, Changes):
        return {"changes": [[first, list(means)] for first, means in drift.changes]}
    return asdict(drift)


def drift_of_rounds(rows: Iterable[Any]) -> tuple[Any, Changes | None]:
    """The means of the first round, and how they change, from one row of means per round; the last row stays."""
    table = [parse_means(row, f"means[{i}]") for i, row in enumerate(rows)]
    if not table:
        raise InvalidInput("means is empty: at least one row of means")
    for i, row in enumerate(table):
        if len(row) != len(table[0]):
            raise InvalidInput(
                f"means[{i}] has {len(row)} means and means[0] has {len(table[0])}: as many in each round"
            )
    changed = [(i + 1, row) for i, row in enumerate(table) if i > 0 and row != table[i - 1]]
    return table[0], Changes(changed) if changed else None
