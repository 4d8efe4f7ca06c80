"""From a sweep's TOML to its parts; every mistake is reported with its place."""

import importlib
import itertools
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, fields
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import numpy as np

from heterobandits.errors import (
    InvalidInput,
    parse_choice,
    parse_fraction,
    parse_integer,
    parse_list,
    parse_name,
    repr_of,
    unknown_name,
)
from heterobandits.limits import ADDRESS_MAX, COUNT_MAX
from heterobandits.policies.policy import CATALOGUE, Policy, parse_policies, policy
from heterobandits.sweeps.laws import (
    EVEN_LAW_FORMS,
    INTEGER_SETTINGS,
    LAW_DIGITS,
    LAW_MAX_SIZE,
    LIST_SETTINGS,
    SCALAR_CHECKS,
    SETTING_CHECKS,
    SETTINGS_BY_TABLE,
    TABLE_CHECK,
    VECTOR_OWNERS,
    Scalar,
    describe_laws,
)

SWEEP_MAX_POINTS = 10**8
POINT_MAX_TRIALS = 10**8  # of a point
RANGE_KEYS = ("from", "to", "steps", "scale")


@dataclass(frozen=True)
class Stopping:
    """How many trials a point gets: so many, or up to most_trials until its intervals are narrow or apart enough."""

    trials: int
    most_trials: int
    precision: float | None
    separate: float | None
    confidence: float


@dataclass(frozen=True)
class AxisInterval:
    """A random axis: a number between two, uniform or uniform in the logarithm; whole ones, both ends included."""

    low: float
    high: float
    scale: str
    whole: bool

    def at(self, u: float) -> int | float:
        """The number that belongs to a uniform one in [0, 1); it grows with that."""
        end = self.high + 1 if self.whole else self.high
        span = end - self.low
        value = self.low * (end / self.low) ** u if self.scale == "log" else self.low + span * u
        if self.whole:
            return min(int(self.high), max(int(self.low), math.floor(value)))
        return min(self.high, max(self.low, round_law_number(value)))

    def to_dict(self) -> dict[str, Any]:
        """The axis as it can stand in JSON."""
        return {"from": self.low, "to": self.high, "scale": self.scale, "whole": self.whole}


AxisValues = tuple[Scalar, ...]


def round_law_number(value: float) -> float:
    """A number rounded to the digits that laws use."""
    return float(f"{value:.{LAW_DIGITS}g}")


def parse_spec_fields(values: dict[str, Any], own: Mapping[str, Policy]) -> dict[str, Any]:
    """The fields of a Spec from what its TOML says."""
    known = ["title", "seed", "horizon", "checkpoints", "policies", "reference", "draws"]
    known += [*(field.name for field in fields(Stopping)), "problem", "grid", "random"]
    _check_keys(values, "a sweep", known)
    for key in ("policies", "trials"):
        if key not in values:
            raise InvalidInput(f"a sweep needs {key}")
    entries = _parse_spec_policies(values["policies"], own)
    labels = [entry.label for entry in entries]
    reference = values.get("reference", labels[0])
    if reference not in labels:
        raise unknown_name("reference", reference, labels)
    checkpoints = values.get("checkpoints", 1)
    if isinstance(checkpoints, list):
        rounds = (
            parse_integer(r, f"checkpoints[{i}]", 1, COUNT_MAX) for i, r in enumerate(checkpoints)
        )
        checkpoints = sorted(set(rounds))
    else:
        checkpoints = parse_integer(checkpoints, "checkpoints", 1)
    horizon = values.get("horizon")
    draws = parse_integer(values.get("draws", 1), "draws", 1, SWEEP_MAX_POINTS)
    shared = _parse_problem_table("", TABLE_CHECK(values.get("problem", {}), "problem"))
    grid = {path: _parse_grid_axis(path, law) for path, law in _parse_axes(values, "grid")}
    random = {path: _parse_random_axis(path, law) for path, law in _parse_axes(values, "random")}
    _check_axes(shared, grid, random)
    for one, other in (("arms", "arms_per_agent"), ("arms_per_agent", "arms")):
        if one in grid or one in random:
            shared.pop(other, None)
    if horizon is None and not {"horizon", "domain"} & {*shared, *grid, *random}:
        raise InvalidInput("a sweep needs horizon: the rounds in a trial, here or as an axis")
    if draws > 1 and not random and not _is_random(shared, grid):
        raise InvalidInput(
            f"draws is {draws:,}: nothing is drawn, so all would be the same; "
            "[random] axes, drawn = true and believed.within are"
        )
    points = math.prod(map(len, grid.values())) * draws
    if points > SWEEP_MAX_POINTS:
        raise InvalidInput(f"grid and draws make {points:,} points: at most {SWEEP_MAX_POINTS:,}")
    return {
        "title": parse_name(values["title"], "title") if "title" in values else "",
        "seed": parse_integer(values.get("seed", 0), "seed", 0, ADDRESS_MAX),
        "policies": entries,
        "reference": reference,
        "stopping": _parse_stopping(values),
        "draws": draws,
        "horizon": None if horizon is None else parse_integer(horizon, "horizon", 1, COUNT_MAX),
        "checkpoints": checkpoints,
        "shared": shared,
        "grid": grid,
        "random": random,
    }


def _check_keys(table: dict[str, Any], where: str, known: list[str]) -> None:
    for key in table:
        if key not in known:
            raise unknown_name(f"key of {where}", key, known)


def _parse_stopping(values: dict[str, Any]) -> Stopping:
    trials = parse_integer(values["trials"], "trials", 1, POINT_MAX_TRIALS)
    precision, separate = values.get("precision"), values.get("separate")
    if precision is not None:
        precision = parse_fraction(_parse_percent(precision), "precision")
    if separate is not None:
        separate = parse_fraction(separate, "separate")
    stops = precision is not None or separate is not None
    most = min(64 * trials, POINT_MAX_TRIALS) if stops else trials
    if "most_trials" in values:
        if not stops:
            raise InvalidInput("most_trials needs precision or separate: what more trials are for")
        most = parse_integer(values["most_trials"], "most_trials", trials, POINT_MAX_TRIALS)
    if stops and trials == 1:
        raise InvalidInput("trials is 1: at least 2 with precision or separate, to see them differ")
    confidence = parse_fraction(values.get("confidence", 0.95), "confidence")
    return Stopping(trials, most, precision, separate, confidence)


def _parse_percent(value: Any) -> Any:
    """A text such as "1 %" as a number."""
    if not isinstance(value, str):
        return value
    try:
        if not value.endswith("%"):
            raise ValueError
        return float(value[:-1]) / 100
    except ValueError:
        raise InvalidInput(f"precision is {value!r}: a number such as 0.01 or '1 %'") from None


def _parse_problem_table(path: str, table: dict[str, Any]) -> dict[str, Any]:
    """[problem], or a table in it, checked."""
    _check_keys(table, f"problem.{path}".rstrip("."), SETTINGS_BY_TABLE[path])
    return {key: _parse_setting(f"{path}.{key}".lstrip("."), value) for key, value in table.items()}


def _parse_setting(path: str, value: Any) -> Any:
    place = f"problem.{path}"
    if isinstance(value, dict) and path in SETTINGS_BY_TABLE:
        return _parse_problem_table(path, value)
    if isinstance(value, list) and path in LIST_SETTINGS:
        if not value:
            raise InvalidInput(f"{place} is empty: at least one number")
        return [SCALAR_CHECKS[path](item, f"{place}[{i}]") for i, item in enumerate(value)]
    if path in VECTOR_OWNERS and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InvalidInput(
            f"{place} is {repr_of(value)}: a number, a list of them, or {describe_laws(path)}"
        )
    return SETTING_CHECKS[path](value, place)


def _parse_axes(values: dict[str, Any], where: str) -> list[tuple[str, Any]]:
    """The axes of the table [grid] or [random], by their paths."""
    found = list(_flatten_table(TABLE_CHECK(values.get(where, {}), where), ""))
    for i, (path, law) in enumerate(found):
        if path not in SCALAR_CHECKS:
            raise unknown_name(f"axis of {where}", path, list(SCALAR_CHECKS))
        if path in dict(found[:i]):
            raise InvalidInput(f"{where}.{path} is there twice")
        if not law or not isinstance(law, list | dict):
            steps = ", steps" if where == "grid" else ""
            what = "is empty" if law in ([], {}) else f"is {repr_of(law)}"
            raise InvalidInput(f"{where}.{path} {what}: a list of values or {{from, to{steps}}}")
    return found


def _flatten_table(table: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        inner = (
            isinstance(value, dict)
            and key in SETTINGS_BY_TABLE
            and not value.keys() & {*RANGE_KEYS}
        )
        if inner and value:
            yield from _flatten_table(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _parse_axis_values(place: str, path: str, values: list[Any]) -> AxisValues:
    return tuple(SCALAR_CHECKS[path](value, f"{place}[{i}]") for i, value in enumerate(values))


def _parse_interval(
    place: str, path: str, law: dict[str, Any], known: list[str]
) -> tuple[Any, Any, str]:
    """Between what an axis runs, and on which scale."""
    _check_keys(law, place, known)
    for key in known:
        if key not in law and key != "scale":
            raise InvalidInput(f"{place} needs {key}: {repr_of(law)} has none")
    low, high = (SCALAR_CHECKS[path](law[key], f"{place}.{key}") for key in ("from", "to"))
    if not isinstance(low, int | float):
        raise InvalidInput(f"{place} is {repr_of(law)}: a list of texts")
    if not low < high:
        raise InvalidInput(f"{place}.to is {high:g}: above {place}.from, {low:g}")
    scale = parse_choice(law.get("scale", "even"), f"{place}.scale", ("even", "log"))
    if scale == "log" and low <= 0:
        raise InvalidInput(f"{place}.from is {low:g}: above 0 on a logarithmic scale")
    return low, high, scale


def _parse_grid_axis(path: str, law: Any) -> AxisValues:
    place = f"grid.{path}"
    if isinstance(law, list):
        values = _parse_axis_values(place, path, law)
    else:
        low, high, scale = _parse_interval(place, path, law, [*RANGE_KEYS])
        steps = parse_integer(law["steps"], f"{place}.steps", 2, LAW_MAX_SIZE)
        parts = np.linspace(0.0, 1.0, steps)[1:-1]
        between = low * (high / low) ** parts if scale == "log" else low + (high - low) * parts
        tidy = (lambda x: math.floor(x + 0.5)) if path in INTEGER_SETTINGS else round_law_number
        values = (low, *map(tidy, between.tolist()), high)
    seen: set[Scalar] = set()
    for i, value in enumerate(values):
        if value in seen:
            raise InvalidInput(f"{place}[{i}] is {value}: it is there already")
        seen.add(value)
    return values


def _parse_random_axis(path: str, law: Any) -> AxisValues | AxisInterval:
    place = f"random.{path}"
    if isinstance(law, list):
        return _parse_axis_values(place, path, law)
    low, high, scale = _parse_interval(place, path, law, ["from", "to", "scale"])
    whole = isinstance(law["from"], int) and isinstance(law["to"], int)
    if whole and path not in INTEGER_SETTINGS and high <= 1:
        raise InvalidInput(
            f"{place} is from 0 to 1, whole numbers, with none between: "
            "write 0.0 and 1.0 for those that are not whole"
        )
    if whole and high - low >= 2**32:
        raise InvalidInput(f"{place}.to is {high}: at most {2**32 - 1:,} above {place}.from")
    return AxisInterval(low, high, scale, whole)


def _check_axes(
    shared: dict[str, Any],
    grid: dict[str, AxisValues],
    random: dict[str, AxisValues | AxisInterval],
) -> None:
    """Refuse axes that cannot be combined with each other or with [problem], and incomplete laws."""
    found = [("grid", path) for path in grid] + [("random", path) for path in random]
    for (table, path), (other_table, other) in itertools.combinations(found, 2):
        nested = f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")
        if nested or {path, other} == {"arms", "arms_per_agent"}:
            raise InvalidInput(f"{table}.{path} and {other_table}.{other}: one or the other")
    if "arms" in shared and "arms_per_agent" in shared:
        raise InvalidInput("problem.arms and problem.arms_per_agent: one or the other")
    tops, inner = {*shared}, {name: set[str]() for name in SETTINGS_BY_TABLE}
    for table, path in found:
        name, _, key = path.partition(".")
        tops.add(name)
        if key:
            inner[name].add(key)
            if not isinstance(shared.get(name, {}), dict):
                raise InvalidInput(
                    f"{table}.{path} goes into problem.{name}, which is {repr_of(shared[name])}"
                )
    for name in ("sensitivities", "means"):
        if name not in tops and "domain" not in tops:
            raise InvalidInput(
                f"problem needs {name}: a number, a list of them, or {describe_laws(name)}"
            )
    for name in VECTOR_OWNERS:
        law = shared.get(name, {} if inner[name] else None)
        if isinstance(law, dict):
            keys = {*inner[name], *law}
            if keys - {"drawn"} not in EVEN_LAW_FORMS and keys not in ({"times"}, {"within"}):
                has = f"has {', '.join(sorted(keys))}" if keys else "is empty"
                raise InvalidInput(f"problem.{name} {has}: {describe_laws(name)}")


def _is_random(shared: dict[str, Any], grid: dict[str, AxisValues]) -> bool:
    laws = (shared.get(name) for name in VECTOR_OWNERS)
    inside = any(isinstance(law, dict) and (law.get("drawn") or "within" in law) for law in laws)
    return inside or any(path.endswith(".within") for path in grid)


def _parse_spec_policies(given: Any, own: Mapping[str, Policy]) -> tuple[Policy, ...]:
    found: list[Policy] = []
    items = [given] if isinstance(given, str) else parse_list(given, "policies", "policies")
    for i, item in enumerate(items):
        try:
            found += _policy_variants({"name": item} if isinstance(item, str) else item, own)
        except InvalidInput as error:
            raise InvalidInput(f"policies[{i}]: {error}") from error.__cause__
    return parse_policies(found)


def _policy_variants(table: Any, own: Mapping[str, Policy]) -> list[Policy]:
    """A policy with every combination of the parameters that are listed for it."""
    parameters = ["delta", "horizon", "memory"]
    TABLE_CHECK(table, "a policy")
    _check_keys(table, "a policy", ["name", "python", *parameters])
    if ("name" in table) == ("python" in table):
        raise InvalidInput(
            f"{repr_of(table)} has to have a name, or the place of a policy in python"
        )
    if "python" in table:
        entry = _import_policy(table["python"])
    else:
        name = table["name"]
        known = {**CATALOGUE, **own}
        if not isinstance(name, str) or name not in known:
            raise unknown_name("policy", name, list(known))
        entry = known[name]
    listed_: dict[str, list[Any]] = {}
    for key in parameters:
        if key in table:
            listed_[key] = table[key] if isinstance(table[key], list) else [table[key]]
            if not listed_[key]:
                raise InvalidInput(f"{key} is empty: at least one value")
    return [
        policy(entry, **dict(zip(listed_, values, strict=True)))
        for values in itertools.product(*listed_.values())
    ]


def _import_policy(place: Any) -> Policy:
    """The policy of one's own that a module has under a name, as "module:name" says."""
    module, _, name = place.partition(":") if isinstance(place, str) else ("", "", "")
    if not module or not name or module.startswith("."):
        raise InvalidInput(
            f"python is {repr_of(place)}: a module and a name, as 'mymodule:optimism'"
        )
    _refuse_shadow(module, place)
    try:
        with redirect_stdout(sys.stderr):  # what it prints is no result
            found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # whatever is wrong in code of one's own
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InvalidInput(f"python is {place!r}, which cannot be imported: {what}") from error
    if not isinstance(found, Policy):
        raise InvalidInput(f"python is {place!r}, which is {repr_of(found)}: a Policy")
    return found


def _refuse_shadow(module: str, place: str) -> None:
    """Refuse a module whose name another one that is in use has."""
    top = module.partition(".")[0]
    if top not in sys.modules:
        return
    wanted, used = PathFinder.find_spec(top), getattr(sys.modules[top], "__file__", None)
    if wanted and wanted.origin and used and not Path(wanted.origin).samefile(used):
        raise InvalidInput(
            f"python is {place!r}: {wanted.origin} cannot be imported beside {used}, "
            "a module of the same name that is in use: give it another name"
        )


@contextmanager
def search_folder_first(folder: Path) -> Iterator[None]:
    """Within this context, modules are looked up in this folder first."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
