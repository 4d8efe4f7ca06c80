"""The specification of a sweep: a TOML file that says which problems, policies and horizons to run.

    [problem]   what all points share: numbers, lists, or laws for the numbers of all agents or arms
    [grid]      axes of which every combination is run, the last one running fastest
    [random]    axes that are drawn anew in every draw

A point is one problem, the policies and a horizon; it is made when it is asked for. What is drawn has an address,
(seed, draw, name), as all luck has: neither other axes nor more draws change it. Draws run faster than the grid.
"""

import hashlib
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from heterobandits.caches import cached_property
from heterobandits.core.randomness import WORD_SIZE, round_words
from heterobandits.errors import (
    InvalidInput,
    parse_path,
    repr_of,
)
from heterobandits.limits import ADDRESS_MAX
from heterobandits.model.domains import domain_of_name
from heterobandits.model.problem import Problem
from heterobandits.policies.policy import Policy
from heterobandits.simulation.arguments import parse_checkpoints, parse_horizon
from heterobandits.sweeps.grammar import (
    AxisInterval,
    AxisValues,
    Stopping,
    parse_spec_fields,
    search_folder_first,
)
from heterobandits.sweeps.laws import Scalar, problem_of_settings

CHECK_MAX_POINTS = 20_000  # points that are all tried before a run: a second or two
CHECK_MAX_VALUES = 1000  # values of an axis that are tried before a run
NO_POLICIES: Mapping[str, Policy] = MappingProxyType({})
# 2**64 over the golden ratio: its multiples keep away from each other
DRAW_SEED_FACTOR = 0x9E3779B97F4A7C15

__all__ = ["Chosen", "Scalar", "Spec", "Stopping", "example_specs"]


@dataclass(frozen=True)
class Chosen:
    """One point of a sweep: where it stands on the axes, and what is run there."""

    axes: dict[str, Scalar]
    problem: Problem
    policies: tuple[Policy, ...]
    horizon: int
    rounds: tuple[int, ...]


@dataclass(frozen=True)
class Spec:
    """A sweep: its points are made when they are asked for.

    Examples
    --------
    >>> spec = Spec.from_toml('''
    ... horizon = 100
    ... trials = 10
    ... policies = ["min-width", "cucb"]
    ... problem = {arms = 3, sensitivities = {centre = 0.5}, means = {low = 0.1, high = 0.9}}
    ... grid = {agents = [1, 2], sensitivities.spread = [0.0, 0.4]}
    ... ''')
    >>> len(spec), spec.reference
    (4, 'min-width')
    >>> spec[3].axes, spec[3].problem.sensitivities
    ({'agents': 2, 'sensitivities.spread': 0.4}, (0.3, 0.7))
    """

    title: str
    seed: int
    policies: tuple[Policy, ...]
    reference: str
    stopping: Stopping
    draws: int
    horizon: int | None
    checkpoints: int | list[int]
    shared: dict[str, Any]
    grid: dict[str, AxisValues]
    random: dict[str, AxisValues | AxisInterval]

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes: those of the grid, the random ones, and "draw" if there are several."""
        return (*self.grid, *self.random, *(("draw",) if self.draws > 1 else ()))

    def __len__(self) -> int:
        return self._points

    @cached_property
    def _points(self) -> int:
        return math.prod(map(len, self.grid.values())) * self.draws

    def __iter__(self) -> Iterator[Chosen]:
        return map(self.point, range(len(self)))

    def __getitem__(self, i: int) -> Chosen:
        return self.point(i)

    def point(self, i: int) -> Chosen:
        """The i-th point, from 0; negative numbers count from the end."""
        i = range(len(self))[i]
        axes, draw = self._place(i)
        settings = dict(self.shared)
        for path, value in axes.items():
            name, _, key = path.partition(".")
            settings[name] = {**settings.get(name, {}), key: value} if key else value
        settings.pop("draw", None)
        horizon = settings.pop("horizon", self.horizon)
        if horizon is None:
            horizon = domain_of_name(settings["domain"]).horizon
        try:
            problem = problem_of_settings(
                settings, lambda name, count: self._luck(name, draw, count)
            )
            horizon = parse_horizon(horizon, problem)
            for entry in self._ranking:
                entry.check_size(problem.agents, problem.arms)
            rounds = parse_checkpoints(self.checkpoints, horizon)
        except InvalidInput as error:
            where = ", ".join(f"{path} = {value}" for path, value in axes.items())
            raise InvalidInput(f"point {i}{f' ({where})' if where else ''}: {error}") from None
        return Chosen(axes, problem, self.policies, horizon, rounds)

    @cached_property
    def _ranking(self) -> list[Policy]:
        """The policies that refuse problems of some sizes."""
        return [entry for entry in self.policies if entry.index_per == "assignment"]

    def _place(self, i: int) -> tuple[dict[str, Scalar], int]:
        """Where the i-th point stands on the axes, and its draw."""
        cell, draw = divmod(i, self.draws)
        axes: dict[str, Scalar] = dict.fromkeys(self.axes, draw)
        for path, values in reversed(self.grid.items()):
            cell, j = divmod(cell, len(values))
            axes[path] = values[j]
        for path, law in self.random.items():
            u = self._luck(path, draw, 1)[0]
            axes[path] = law.at(u) if isinstance(law, AxisInterval) else law[int(u * len(law))]
        return axes, draw

    def axes_of(self, i: int) -> dict[str, Scalar]:
        """Where the i-th point stands on the axes, whether there can be such a point or not."""
        return self._place(i)[0]

    def _luck(self, name: str, draw: int, count: int) -> list[float]:
        """The first numbers in [0, 1) that belong to a name in a draw."""
        words = round_words(_seed_of_name(self.seed, name), draw, 0, 0, count)
        return [word * WORD_SIZE for word in words[:, 0].tolist()]

    def seed_of(self, chosen: Chosen) -> int:
        """The seed of a point's trials: cells of the grid share their luck, draws do not."""
        return (self.seed + int(chosen.axes.get("draw", 0)) * DRAW_SEED_FACTOR) % (ADDRESS_MAX + 1)

    def check(self) -> None:
        """Make every point, or, where these are very many, the first, the last, and one for each value of each axis.

        The others are at their first value then. Of an axis with very many values some are tried, of a random one the lowest and the highest that are
        drawn, or each that is in its list.
        """
        if len(self) <= CHECK_MAX_POINTS:
            for i in range(len(self)):
                self.point(i)
            return
        numbers = {0, len(self) - 1}
        stride = self.draws
        for values in reversed(self.grid.values()):
            every = -(-len(values) // CHECK_MAX_VALUES)
            numbers.update(j * stride for j in range(0, len(values), every))
            stride *= len(values)
        for path, law in self.random.items():
            lanes = min(self.draws, CHECK_MAX_VALUES**2)
            u = round_words(_seed_of_name(self.seed, path), 0, 0, 0, 1, lanes)[0] * WORD_SIZE
            if isinstance(law, AxisInterval):
                numbers |= {int(u.argmin()), int(u.argmax())}
            else:
                firsts = np.unique((u * len(law)).astype(np.int64), return_index=True)[1]
                numbers.update(firsts.tolist())
        for i in sorted(numbers):
            self.point(i)

    def to_dict(self) -> dict[str, Any]:
        """What the specification says, as it can stand in JSON; equal for texts that mean the same.

        The grid is a list of pairs, as the order of its axes numbers the points.
        """
        random = {
            path: law.to_dict() if isinstance(law, AxisInterval) else list(law)
            for path, law in sorted(self.random.items())
        }
        stopping = {field.name: getattr(self.stopping, field.name) for field in fields(Stopping)}
        return {
            "title": self.title,
            "seed": self.seed,
            "horizon": self.horizon,
            "checkpoints": self.checkpoints,
            "policies": [entry.parameters for entry in self.policies],
            "reference": self.reference,
            **stopping,
            "draws": self.draws,
            "problem": _sort_keys(self.shared),
            "grid": [[path, list(values)] for path, values in self.grid.items()],
            "random": random,
        }

    @classmethod
    def from_toml(cls, text: str, policies: Mapping[str, Policy] = NO_POLICIES) -> Self:
        """The specification from TOML text; `policies` of one's own may be listed in it by their names here."""
        if not isinstance(text, str):
            raise InvalidInput(f"not a sweep in TOML: {repr_of(text)} is no text")
        try:
            values = tomllib.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"not a sweep in TOML: {error}") from None
        for name, entry in policies.items():
            if not isinstance(entry, Policy):
                raise InvalidInput(f"policies[{name!r}] is {repr_of(entry)}: a Policy")
        return cls(**parse_spec_fields(values, policies))

    @classmethod
    def load(cls, path: str | Path, policies: Mapping[str, Policy] = NO_POLICIES) -> Self:
        """The specification from a TOML file, in whose folder modules of one's own are looked for first."""
        path = parse_path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise InvalidInput(f"cannot read {path}: {why}") from None
        try:
            with search_folder_first(path.parent.resolve()):
                return cls.from_toml(text, policies)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from error.__cause__


def example_specs() -> dict[str, Path]:
    """The specifications that come with the library, by name."""
    folder = Path(str(resources.files("heterobandits.sweeps") / "examples"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


@cache
def _seed_of_name(seed: int, name: str) -> int:
    """The seed for values drawn under this name, different from the seed of the trials."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def _sort_keys(value: Any) -> Any:
    """The same with the keys of all tables in order."""
    if isinstance(value, dict):
        return {key: _sort_keys(part) for key, part in sorted(value.items())}
    return value
