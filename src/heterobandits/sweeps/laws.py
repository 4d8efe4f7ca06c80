"""What the problems of a sweep are made of: single numbers, lists, and laws for the numbers of all agents or arms.

    {low, high}         evenly spaced over the agents or arms; with drawn = true drawn uniformly between the two
    {centre, spread}    the same around a centre
    {times}, {within}   of what is believed: the truth times a factor, the same for all or drawn for each

The tables say what may stand where, and how it is checked; `problem_of_settings` makes the problem.
"""

import math
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from heterobandits.errors import (
    InvalidInput,
    parse_choice,
    parse_integer,
    parse_real,
    repr_of,
)
from heterobandits.limits import ADDRESS_MAX, COUNT_MAX, VISIT_MAX_TESTS
from heterobandits.model.domains import domain_of_name
from heterobandits.model.drift import DRIFT_KINDS
from heterobandits.model.problem import Problem

Scalar = int | float | str
ValueCheck = Callable[[Any, str], Any]  # a value and its place -> the value, if it is allowed there
DrawFunction = Callable[[str, int], list[float]]  # a name, and how many numbers
LAW_MAX_SIZE = 10**6  # agents, arms, or steps of an axis
LAW_DIGITS = 6  # of numbers that laws make


def integer_check(least: int, most: int) -> ValueCheck:
    """A whole number between two."""
    return lambda value, place: parse_integer(value, place, least, most)


def real_check(allowed: str, fits: Callable[[float], bool]) -> ValueCheck:
    """A number that fits."""

    def check(value: Any, place: str) -> float:
        number = parse_real(value, place, allowed)
        if not fits(number):
            raise InvalidInput(f"{place} is {number:g}: {allowed}")
        return number

    return check


def type_check(kind: type, allowed: str) -> ValueCheck:
    """A check for values of one type."""

    def check(value: Any, place: str) -> Any:
        if not isinstance(value, kind):
            raise InvalidInput(f"{place} is {repr_of(value)}: {allowed}")
        return value

    return check


def parse_domain(value: Any, place: str) -> str:
    """The name of a domain."""
    try:
        domain_of_name(type_check(str, "the name of a domain")(value, place))
    except InvalidInput as error:
        raise InvalidInput(f"{place} is {repr_of(value)}: {error}") from None
    return str(value)


def parse_prior_name(value: Any, place: str) -> str:
    """What the planner believes of the means beforehand, by name."""
    return parse_choice(value, place, PRIOR_NAMES)


PRIOR_NAMES = ("uniform", "learned", "true")  # the last is the Beta that the means are drawn from
SHARE_CHECK = real_check("a number in [0, 1]", lambda x: 0 <= x <= 1)
POSITIVE_CHECK = real_check("a number above 0", lambda x: x > 0)
FLAG_CHECK = type_check(bool, "true or false")
LIST_CHECK = type_check(list, "a list")
TABLE_CHECK = type_check(dict, "a table")

TRUTH_OF_BELIEF = {
    "believed": "sensitivities",
    "believed_false_positive_rates": "false_positive_rates",
}
VECTOR_OWNERS = {  # and what each has an entry for
    "sensitivities": "agents",
    "means": "arms",
    "false_positive_rates": "agents",
    "believed": "agents",
    "believed_false_positive_rates": "agents",
}
EVEN_LAW_KEYS: dict[str, ValueCheck] = {
    "low": SHARE_CHECK,
    "high": SHARE_CHECK,
    "centre": SHARE_CHECK,
    "spread": real_check("a number from 0 on", lambda x: x >= 0),
    "a": POSITIVE_CHECK,
    "b": POSITIVE_CHECK,
}
MISBELIEF_LAW_KEYS: dict[str, ValueCheck] = {"times": POSITIVE_CHECK, "within": SHARE_CHECK}
EVEN_LAW_FORMS = ({"low", "high"}, {"centre", "spread"}, {"a", "b"})
DRIFT_KEYS: dict[str, ValueCheck] = {
    "step": SHARE_CHECK,
    "seed": integer_check(0, ADDRESS_MAX),
    "amplitude": SHARE_CHECK,
    "period": POSITIVE_CHECK,
}
INTEGER_SETTINGS: dict[str, ValueCheck] = {
    "horizon": integer_check(1, COUNT_MAX),
    "agents": integer_check(1, LAW_MAX_SIZE),
    "arms": integer_check(1, LAW_MAX_SIZE),
    "tests": integer_check(1, VISIT_MAX_TESTS),
    "drift.seed": DRIFT_KEYS["seed"],
}


def law_keys_of(name: str) -> dict[str, ValueCheck]:
    """The keys of the laws of a vector."""
    return EVEN_LAW_KEYS | (MISBELIEF_LAW_KEYS if name in TRUTH_OF_BELIEF else {})


# What an axis may be, by its dotted path: the numbers and texts of a problem, and the horizon.
SCALAR_CHECKS: dict[str, ValueCheck] = {
    "domain": parse_domain,
    "prior": parse_prior_name,
    "arms_per_agent": POSITIVE_CHECK,
    **INTEGER_SETTINGS,
    **dict.fromkeys(VECTOR_OWNERS, SHARE_CHECK),
    **{
        f"{name}.{key}": check for name in VECTOR_OWNERS for key, check in law_keys_of(name).items()
    },
    **{f"drift.{key}": check for key, check in DRIFT_KEYS.items()},
}
# What else may stand in [problem].
OTHER_CHECKS: dict[str, ValueCheck] = {
    **{f"{name}.drawn": FLAG_CHECK for name in VECTOR_OWNERS},
    **dict.fromkeys(
        ("calibration", "false_positive_calibration", "arm_names", "agent_names"), LIST_CHECK
    ),
    "drift": TABLE_CHECK,
    "drift.changes": LIST_CHECK,
}
SETTING_CHECKS = SCALAR_CHECKS | OTHER_CHECKS
SETTINGS_BY_TABLE: dict[str, list[str]] = {
    "": [path for path in SETTING_CHECKS if "." not in path and path != "horizon"],
    **{name: [*law_keys_of(name), "drawn"] for name in VECTOR_OWNERS},
    "drift": [field.name for kind in DRIFT_KINDS for field in fields(kind)],
}
LIST_SETTINGS = {*VECTOR_OWNERS, "tests"}  # where a list of the numbers may stand for one for all


@cache
def _domain_settings(name: str) -> dict[str, Any]:
    values = domain_of_name(name).problem.to_dict()
    if values["believed"] == values["sensitivities"]:
        del values["believed"]
    return values


def problem_of_settings(settings: dict[str, Any], luck: DrawFunction) -> Problem:
    """The problem that these settings describe."""
    base: dict[str, Any] = {}
    if "domain" in settings:
        base = dict(_domain_settings(settings.pop("domain")))
        if "sensitivities" in settings:  # what was believed of others
            base.pop("believed", None)
    given, ratio = settings.pop("arms", None), settings.pop("arms_per_agent", None)
    values = {**base, **settings}
    prior = _prior_of_law(values.pop("prior", "uniform"), values["means"])
    counts = {
        "agents": _size_of_vector(
            "agents", values.pop("agents", None), "sensitivities", values, base
        )
    }
    if ratio is not None:
        wanted = math.floor(round(ratio * counts["agents"], 9) + 0.5)
        given = max(counts["agents"], wanted)
    counts["arms"] = _size_of_vector("arms", given, "means", values, base)
    for names, of in (("agent_names", "agents"), ("arm_names", "arms")):
        if names not in settings and len(values.get(names, ())) != counts[of]:
            values.pop(names, None)
    if isinstance(values.get("tests"), int):
        values["tests"] = [values["tests"]] * counts["agents"]
    for name, of in VECTOR_OWNERS.items():  # what is true before what is believed of it
        if name in values and not isinstance(values[name], list):
            truth = values.get(TRUTH_OF_BELIEF.get(name, ""))
            values[name] = _numbers_of_law(name, values[name], counts[of], luck, truth)
    return Problem(**values, prior=prior)


def _prior_of_law(name: str, law: Any) -> Any:
    """The prior of this name, as a problem takes it."""
    if name != "true":
        return None if name == "uniform" else name
    if not isinstance(law, dict) or set(law) - {"drawn"} != {"a", "b"}:
        raise InvalidInput("prior is 'true', which is the Beta of means = {a, b}: there is none")
    if min(law["a"], law["b"]) < 1.0:
        raise InvalidInput(
            f"prior is 'true', and means have a = {law['a']:g} and b = {law['b']:g}: a prior has both from 1 on"
        )
    return law["a"], law["b"]


def _size_of_vector(
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


def _numbers_of_law(
    name: str, law: Any, count: int, luck: DrawFunction, truth: list[float] | None
) -> list[float]:
    """The numbers that a law makes."""
    if not isinstance(law, dict):
        return [law] * count
    if "times" in law or "within" in law:
        if truth is None:
            raise InvalidInput(f"{name} needs {TRUTH_OF_BELIEF[name]}: it is a factor of them")
        if "times" in law:
            factors = [law["times"]] * len(truth)
        else:
            factors = [1 + law["within"] * (2 * u - 1) for u in luck(name, len(truth))]
        return [min(1.0, round(x * f, LAW_DIGITS)) for x, f in zip(truth, factors, strict=True)]
    if "a" in law:
        from scipy.special import betaincinv

        parts = luck(name, count) if law.get("drawn") else [(j + 0.5) / count for j in range(count)]
        return [round(float(betaincinv(law["a"], law["b"], part)), LAW_DIGITS) for part in parts]
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
    return [round(low + (high - low) * part, LAW_DIGITS) + 0.0 for part in parts]


def describe_laws(name: str) -> str:
    """The laws of a vector, for a message."""
    beliefs = [f"{{{key}}}" for key in MISBELIEF_LAW_KEYS] if name in TRUTH_OF_BELIEF else []
    return " or ".join(["{low, high}", "{centre, spread}", "{a, b}", *beliefs])
