"""What a problem of a sweep may be made of: single numbers, lists, and laws for the numbers of all agents or arms.

    {low, high}         evenly spaced over the agents or arms; with drawn = true drawn uniformly between the two
    {centre, spread}    the same around a centre
    {times}, {within}   of what is believed: the truth times a factor, the same for all or drawn for each

The tables say what may stand where, and how it is checked; `problem_of` makes the problem.
"""

import math
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from heterobandits.errors import (
    InvalidInput,
    real_number,
    shown,
    whole_number,
)
from heterobandits.limits import MOST, MOST_ADDRESS, MOST_TESTS
from heterobandits.model.domains import domain
from heterobandits.model.drift import KINDS
from heterobandits.model.problem import Problem

Scalar = int | float | str
Check = Callable[[Any, str], Any]  # a value and its place -> the value, if it is allowed there
Luck = Callable[[str, int], list[float]]  # a name, and how many numbers
MOST_SIZE = 10**6  # agents, arms, or steps of an axis
DIGITS = 6  # of numbers that laws make


def whole_from(least: int, most: int) -> Check:
    """A whole number between two."""
    return lambda value, place: whole_number(value, place, least, most)


def real_from(allowed: str, fits: Callable[[float], bool]) -> Check:
    """A number that fits."""

    def check(value: Any, place: str) -> float:
        number = real_number(value, place, allowed)
        if not fits(number):
            raise InvalidInput(f"{place} is {number:g}: {allowed}")
        return number

    return check


def typed(kind: type, allowed: str) -> Check:
    """Whatever is of a kind."""

    def check(value: Any, place: str) -> Any:
        if not isinstance(value, kind):
            raise InvalidInput(f"{place} is {shown(value)}: {allowed}")
        return value

    return check


def domain_from(value: Any, place: str) -> str:
    """The name of one of the paper's domains."""
    try:
        domain(typed(str, "the name of a domain")(value, place))
    except InvalidInput as error:
        raise InvalidInput(f"{place} is {shown(value)}: {error}") from None
    return str(value)


SHARE = real_from("a number in [0, 1]", lambda x: 0 <= x <= 1)
POSITIVE = real_from("a number above 0", lambda x: x > 0)
FLAG = typed(bool, "true or false")
LIST = typed(list, "a list")
TABLE = typed(dict, "a table")

TRUTHS = {"believed": "sensitivities", "believed_false_positive_rates": "false_positive_rates"}
VECTORS = {  # and what each has an entry for
    "sensitivities": "agents",
    "means": "arms",
    "false_positive_rates": "agents",
    "believed": "agents",
    "believed_false_positive_rates": "agents",
}
EVEN: dict[str, Check] = {
    "low": SHARE,
    "high": SHARE,
    "centre": SHARE,
    "spread": real_from("a number from 0 on", lambda x: x >= 0),
}
WRONG: dict[str, Check] = {"times": POSITIVE, "within": SHARE}
FORMS = ({"low", "high"}, {"centre", "spread"})
DRIFT: dict[str, Check] = {
    "step": SHARE,
    "seed": whole_from(0, MOST_ADDRESS),
    "amplitude": SHARE,
    "period": POSITIVE,
}
WHOLE: dict[str, Check] = {
    "horizon": whole_from(1, MOST),
    "agents": whole_from(1, MOST_SIZE),
    "arms": whole_from(1, MOST_SIZE),
    "tests": whole_from(1, MOST_TESTS),
    "drift.seed": DRIFT["seed"],
}


def laws_of(name: str) -> dict[str, Check]:
    """The keys of the laws of a vector."""
    return EVEN | (WRONG if name in TRUTHS else {})


# What an axis may be, by its dotted path: the numbers and texts of a problem, and the horizon.
SCALARS: dict[str, Check] = {
    "domain": domain_from,
    "arms_per_agent": POSITIVE,
    **WHOLE,
    **dict.fromkeys(VECTORS, SHARE),
    **{f"{name}.{key}": check for name in VECTORS for key, check in laws_of(name).items()},
    **{f"drift.{key}": check for key, check in DRIFT.items()},
}
# What else may stand in [problem].
OTHERS: dict[str, Check] = {
    **{f"{name}.drawn": FLAG for name in VECTORS},
    **dict.fromkeys(
        ("calibration", "false_positive_calibration", "arm_names", "agent_names"), LIST
    ),
    "drift": TABLE,
    "drift.changes": LIST,
}
CHECKS = SCALARS | OTHERS
TABLES: dict[str, list[str]] = {
    "": [path for path in CHECKS if "." not in path and path != "horizon"],
    **{name: [*laws_of(name), "drawn"] for name in VECTORS},
    "drift": [field.name for kind in KINDS for field in fields(kind)],
}
LISTS = {*VECTORS, "tests"}  # where a list of the numbers may stand for one for all


@cache
def _domain_settings(name: str) -> dict[str, Any]:
    values = domain(name).problem.to_dict()
    if values["believed"] == values["sensitivities"]:
        del values["believed"]
    return values


def problem_of(settings: dict[str, Any], luck: Luck) -> Problem:
    """The problem that these settings describe."""
    base: dict[str, Any] = {}
    if "domain" in settings:
        base = dict(_domain_settings(settings.pop("domain")))
        if "sensitivities" in settings:  # what was believed of others
            base.pop("believed", None)
    given, ratio = settings.pop("arms", None), settings.pop("arms_per_agent", None)
    values = {**base, **settings}
    counts = {"agents": _count("agents", values.pop("agents", None), "sensitivities", values, base)}
    if ratio is not None:
        wanted = math.floor(round(ratio * counts["agents"], 9) + 0.5)
        given = max(counts["agents"], wanted)
    counts["arms"] = _count("arms", given, "means", values, base)
    for names, of in (("agent_names", "agents"), ("arm_names", "arms")):
        if names not in settings and len(values.get(names, ())) != counts[of]:
            values.pop(names, None)
    if isinstance(values.get("tests"), int):
        values["tests"] = [values["tests"]] * counts["agents"]
    for name, of in VECTORS.items():  # what is true before what is believed of it
        if name in values and not isinstance(values[name], list):
            truth = values.get(TRUTHS.get(name, ""))
            values[name] = _vector(name, values[name], counts[of], luck, truth)
    return Problem(**values)


def _count(
    name: str, given: int | None, vector: str, values: dict[str, Any], base: dict[str, Any]
) -> int:
    """How many agents or arms there are: as many as the list that says so, as given, or as in the domain."""
    if isinstance(values[vector], list):
        length = len(values[vector])
        if given is not None and given != length:
            raise InvalidInput(f"{name} is {given}: {vector} is a list of {length}")
        return length
    if given is not None:
        return given
    if vector in base:
        return len(base[vector])
    raise InvalidInput(f"problem needs {name}: how many, as {vector} is no list")


def _vector(name: str, law: Any, count: int, luck: Luck, truth: list[float] | None) -> list[float]:
    """The numbers that a law makes."""
    if not isinstance(law, dict):
        return [law] * count
    if "times" in law or "within" in law:
        if truth is None:
            raise InvalidInput(f"{name} needs {TRUTHS[name]}: it is a factor of them")
        if "times" in law:
            factors = [law["times"]] * len(truth)
        else:
            factors = [1 + law["within"] * (2 * u - 1) for u in luck(name, len(truth))]
        return [min(1.0, round(x * f, DIGITS)) for x, f in zip(truth, factors, strict=True)]
    if "low" in law:
        low, high = law["low"], law["high"]
        if low > high:
            raise InvalidInput(f"{name}.low is {low:g}: at most {name}.high, {high:g}")
    else:
        low, high = law["centre"] - law["spread"] / 2, law["centre"] + law["spread"] / 2
    if law.get("drawn"):
        parts = luck(name, count)
    else:
        parts = [j / (count - 1) for j in range(count)] if count > 1 else [0.5]
    # with + 0.0 there is no -0.0
    return [round(low + (high - low) * part, DIGITS) + 0.0 for part in parts]


def forms_of(name: str) -> str:
    """The laws of a vector, for a message."""
    beliefs = [f"{{{key}}}" for key in WRONG] if name in TRUTHS else []
    return " or ".join(["{low, high}", "{centre, spread}", *beliefs])
