"""The errors of the library, and the checks that raise them.

Every message says what is wrong, what was given and what is allowed, in one line, for the
person who made the mistake.
"""

import difflib
import json
import math
import operator
import os
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heterobandits.limits import LEAST_DELTA, LEAST_SENSITIVITY, MOST, MOST_TESTS

Counts = npt.NDArray[np.int32]

UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")  # categories: controls, half characters, ends of lines
TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

MOST_NAMED = 20  # of what is known, in a message
MOST_COMPARED = 200  # names that a wrong one is compared with, of at most so many letters as below: it takes long
LONGEST_COMPARED = 40

__all__ = ["InvalidInput", "UnsupportedVersion"]


class InvalidInput(ValueError):
    """An argument, file or answer that cannot be used; the message names the culprit."""


class UnsupportedVersion(InvalidInput):
    """A saved state written by a newer version of heterobandits than this one."""


def shown(value: object, limit: int = 60) -> str:
    """`value` as it appears in an error message: one line, never a page."""
    try:
        text = repr(value).replace("\n", " ")
    except (ValueError, RecursionError):  # a number of thousands of digits, a list without end
        text = f"a {type(value).__name__} too large to show"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def whole_number(value: Any, name: str, least: int, most: int | None = None) -> int:
    """`value` as an int within [least, most]; booleans and fractions are refused."""
    allowed = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} is {shown(value)}: a whole number {allowed}") from None
    if number < least or (most is not None and number > most):
        raise InvalidInput(f"{name} is {shown(number)}: a whole number {allowed}")
    return number


def real_number(value: Any, name: str, allowed: str) -> float:
    """`value` as a finite float; `allowed` completes the message."""
    try:
        if isinstance(value, (str, bytes, bytearray, bool, np.bool_, np.complexfloating)):
            raise TypeError
        if isinstance(value, np.ndarray) and value.dtype.kind not in "iuf":
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} is {shown(value)}: {allowed}") from None
    if not math.isfinite(number):
        raise InvalidInput(f"{name} is {number}: {allowed}")
    return number


def fraction(value: Any, name: str) -> float:
    """`value` as a float strictly between 0 and 1."""
    allowed = "a probability strictly between 0 and 1"
    number = real_number(value, name, allowed)
    if not 0.0 < number < 1.0:
        raise InvalidInput(f"{name} is {number:g}: {allowed}")
    return number


def delta_from(value: Any) -> float:
    """`value` as the probability with which bounds may fail, none so small that they are infinite."""
    number = fraction(value, "delta")
    if number < LEAST_DELTA:
        raise InvalidInput(f"delta is {number:g}: at least {LEAST_DELTA:g}, to be computed with")
    return number


def choice(value: Any, name: str, allowed: Sequence[str]) -> str:
    """`value`, if it is one of the texts allowed."""
    if not isinstance(value, str) or value not in allowed:
        options = " or ".join(repr(option) for option in allowed)
        raise InvalidInput(f"{name} is {shown(value)}: {options}")
    return value


def listed(values: Any, name: str, what: str) -> list[Any]:
    """`values` as a list; a text or a single number is not a list of them."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {shown(values)}: a list of {what}")
    try:
        return list(values)
    except (
        TypeError,  # an array without dimensions calls itself iterable
        OverflowError,  # a range longer than any list
    ):
        raise InvalidInput(f"{name} is {shown(values)}: a list of {what}") from None


def probabilities(values: Any, name: str, what: str, interval: str) -> tuple[float, ...]:
    """`values` as a tuple of probabilities in the interval '[0, 1]' or '(0, 1]'."""
    items = listed(values, name, "numbers")
    if not items:
        raise InvalidInput(f"{name} is empty: at least one {what}")
    return tuple(probability(item, f"{name}[{i}]", what, interval) for i, item in enumerate(items))


def probability(value: Any, name: str, what: str, interval: str) -> float:
    """`value` as a probability in the interval '[0, 1]' or '(0, 1]'."""
    allowed = f"a {what} is a probability in {interval}"
    number = real_number(value, name, allowed)
    if number > 1.0 or number < 0.0 or (number == 0.0 and interval == "(0, 1]"):
        raise InvalidInput(f"{name} is {number:g}: {allowed}")
    return number


def means_from(values: Any, name: str = "means") -> tuple[float, ...]:
    """`values` as the means of arms."""
    return probabilities(values, name, "mean", "[0, 1]")


def sensitivities_from(values: Any, name: str = "sensitivities") -> tuple[float, ...]:
    """`values` as sensitivities of agents."""
    checked = probabilities(values, name, "sensitivity", "(0, 1]")
    return tuple(sensitivity_from(number, f"{name}[{i}]") for i, number in enumerate(checked))


def sensitivity_from(value: Any, name: str = "sensitivity") -> float:
    """`value` as the sensitivity of an agent, not so small that its square is no number to divide by."""
    number = probability(value, name, "sensitivity", "(0, 1]")
    if number < LEAST_SENSITIVITY:
        raise InvalidInput(
            f"{name} is {number:g}: at least {LEAST_SENSITIVITY:g}, to be computed with"
        )
    return number


def rates_from(
    values: Any,
    sensitivities: Sequence[float],
    agents: Sequence[str],
    name: str = "false_positive_rates",
) -> tuple[float, ...]:
    """`values` as false positive rates of agents, each below the agent's sensitivity; none if not given."""
    if values is None:
        return (0.0,) * len(sensitivities)
    checked = probabilities(values, name, "false positive rate", "[0, 1]")
    each_agent(checked, name, len(sensitivities))
    for agent, rate, s in zip(agents, checked, sensitivities, strict=True):
        rate_from(rate, s, f"{name} of {agent!r}")
    return checked


def rate_from(value: Any, sensitivity: float, name: str = "false_positive_rate") -> float:
    """`value` as the false positive rate of an agent of this sensitivity, which is above it."""
    rate = probability(value, name, "false positive rate", "[0, 1]")
    if sensitivity - rate < LEAST_SENSITIVITY:
        raise InvalidInput(
            f"{name} is {rate:g}, its sensitivity {sensitivity:g}: who reports as often where "
            "there is nothing as where there is something tells nothing"
        )
    return rate


def tests_from(values: Any, agents: Sequence[str]) -> tuple[int, ...]:
    """`values` as numbers of tests that agents make in a visit; one if not given."""
    if values is None:
        return (1,) * len(agents)
    items = listed(values, "tests", "numbers")
    each_agent(items, "tests", len(agents))
    return tuple(
        whole_number(item, f"tests of {agent!r}", 1, MOST_TESTS)
        for agent, item in zip(agents, items, strict=True)
    )


def each_agent(values: Sequence[Any], name: str, agents: int) -> None:
    """Refuse a list that has not one entry for each agent."""
    if len(values) != agents:
        raise InvalidInput(f"{name} has {len(values)} entries: one for each of the {agents} agents")


def counts(values: Any, name: str, agents: int, arms: int | None = None) -> Counts:
    """`values` as a table of counts with a row for each agent and a column for each arm."""
    shape = f"{agents} agents by {'some' if arms is None else arms} arms"
    allowed = f"a table of whole numbers from 0 to {MOST:,}, {shape}"
    try:
        given = np.array(values)
        if given.dtype.kind not in "biuf":  # texts of digits and complex numbers would convert
            raise TypeError
        table = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} is {shown(values)}: {allowed}") from None
    if (
        table.ndim != 2
        or table.shape[0] != agents
        or table.shape[1] != (arms or table.shape[1] or 1)
    ):
        raise InvalidInput(f"{name} has the shape {table.shape}: {allowed}")
    wrong = np.argwhere(~((table >= 0) & (table <= MOST) & (table == np.floor(table))))
    if len(wrong):
        a, n = (int(i) for i in wrong[0])
        raise InvalidInput(f"{name}[{a}][{n}] is {table[a, n]:g}: {allowed}")
    return table.astype(np.int32)


def checked_tables(
    pulls: Any, successes: Any, agents: int, arms: int | None = None
) -> tuple[Counts, Counts]:
    """The two tables of learning: no more successes than pulls, and no arm with more than can be counted."""
    c = counts(pulls, "pulls", agents, arms)
    y = counts(successes, "successes", *c.shape)
    if (y > c).any():
        a, n = (int(i) for i in np.argwhere(y > c)[0])
        raise InvalidInput(f"successes[{a}][{n}] is {y[a, n]}: at most the {c[a, n]} pulls")
    if int(c.sum(axis=0, dtype=np.int64).max()) > MOST:
        raise InvalidInput(f"pulls has an arm with over {MOST:,} pulls: more than can be counted")
    return c, y


def composed(text: str) -> str:
    """The text as names are kept: in Unicode's composed form, NFC, without the blanks around it."""
    return unicodedata.normalize("NFC", text).strip()


def appearance(name: str) -> str:
    """What people see of a name: characters of no width are left out, and blanks are one blank."""
    seen = name if name.isascii() else "".join(c for c in name if unicodedata.category(c) != "Cf")
    return " ".join(seen.split())


def name_from(value: Any, name: str) -> str:
    """`value` as a name: one line of text that shows as it is written, composed."""
    if not isinstance(value, str) or not appearance(value):
        raise InvalidInput(f"{name} is {shown(value)}: a name is a text that is not blank")
    for character in value:
        if character in TURNING or unicodedata.category(character) in UNPRINTABLE:
            raise InvalidInput(
                f"{name} is {shown(value)}: a name has no control, line-end or text-direction "
                f"characters, such as {shown(character)}"
            )
    return composed(value)


def names(values: Any, name: str, count: int, prefix: str) -> tuple[str, ...]:
    """`values` as `count` distinct, non-empty names; `prefix 1`, `prefix 2`, ... if not given."""
    if values is None:
        return tuple(f"{prefix} {i + 1}" for i in range(count))
    items = listed(values, name, "names")
    if len(items) != count:
        raise InvalidInput(f"{name} has {len(items)} names: there are {count} {prefix}s to name")
    checked: dict[str, str] = {}
    for i, item in enumerate(items):
        text = name_from(item, f"{name}[{i}]")
        if appearance(text) in checked:
            raise InvalidInput(f"{name}[{i}] is {shown(item)}: names must differ from each other")
        checked[appearance(text)] = text
    return tuple(checked.values())


def path_from(given: Any, name: str = "path") -> Path:
    """`given` as a path."""
    if not isinstance(given, (str, os.PathLike)):
        raise InvalidInput(f"{name} is {shown(given)}: the path of a file or folder")
    text = os.fsdecode(given)
    if not text or "\0" in text:
        raise InvalidInput(f"{name} is {shown(given)}: the path of a file or folder, not empty")
    return Path(text)


def json_from(text: str) -> Any:
    """What a JSON text says, with or without a byte order mark; a key that is there twice is refused."""

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen = set()
            for key, _ in pairs:
                if key in seen:
                    raise InvalidInput(f"{shown(key)} is there twice")
                seen.add(key)
        return found

    plain = text.removeprefix("\ufeff") if isinstance(text, str) else text
    return json.loads(plain, object_pairs_hook=table)


def unknown(kind: str, value: object, known: Sequence[str]) -> InvalidInput:
    """The error for a name that is not `known`, with the nearest one that is."""
    wrong = shown(value, LONGEST_COMPARED).strip("'\"")
    short = [name for name in known[:MOST_COMPARED] if len(name) <= LONGEST_COMPARED]
    near = difflib.get_close_matches(wrong, short, n=1, cutoff=0.5)
    some = ", ".join(known[:MOST_NAMED]) + (", ..." if len(known) > MOST_NAMED else "")
    hint = f"did you mean {near[0]!r}?" if near else f"known are {some}"
    return InvalidInput(f"unknown {kind} {shown(value)}: {hint}")


def located_name(key: Any, kind: str, known: Sequence[str]) -> int:
    """The position of a name."""
    if not isinstance(key, str) or composed(key) not in known:
        raise unknown(kind, key, known)
    return known.index(composed(key))


def located(key: Any, kind: str, known: Sequence[str]) -> int:
    """The position of an agent or arm given by its name or its number, which counts from 0."""
    if isinstance(key, str):
        return located_name(key, kind, known)
    try:
        return whole_number(key, f"the number of an {kind}", 0, len(known) - 1)
    except InvalidInput:
        last = len(known) - 1
        raise InvalidInput(
            f"the number of an {kind} is {shown(key)}: "
            f"a number from 0, {known[0]!r}, to {last}, {known[last]!r}"
        ) from None


def located_pair(
    key: Any, name: str, agents: Sequence[str], arms: Sequence[str]
) -> tuple[int, int]:
    """The positions of a pair (agent, arm)."""
    if not isinstance(key, (tuple, list)) or len(key) != 2:
        raise InvalidInput(
            f"{name} has {shown(key)}: pairs (agent, arm), as ({agents[0]!r}, {arms[0]!r})"
        )
    return located(key[0], "agent", agents), located(key[1], "arm", arms)
