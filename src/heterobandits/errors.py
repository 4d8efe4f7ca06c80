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

from heterobandits.arrays import Counts
from heterobandits.limits import COUNT_MAX, DELTA_MIN, SENSITIVITY_MIN, VISIT_MAX_TESTS

# categories: controls, half characters, ends of lines
UNPRINTABLE_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
TEXT_DIRECTION_MARKS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)

LETTER_MAX_MARKS = 30  # accents and the like on one letter, as in Unicode's stream-safe text
MESSAGE_MAX_KNOWN_NAMES = 20  # of what is known, in a message
# names that a wrong one is compared with, of at most so many letters as below: it takes long
SUGGESTION_MAX_NAMES = 200
SUGGESTION_MAX_LETTERS = 40

__all__ = ["InvalidInput", "UnsupportedVersion"]


class InvalidInput(ValueError):
    """An argument, file or answer that cannot be used; the message names the culprit."""


class UnsupportedVersion(InvalidInput):
    """A saved state written by a newer version of heterobandits than this one."""


def repr_of(value: object, limit: int = 60) -> str:
    """`value` as an error message shows it: one line, never a page."""
    try:
        text = repr(value).replace("\n", " ")
    except (ValueError, RecursionError):  # a number of thousands of digits, a list without end
        text = f"a {type(value).__name__} too large to show"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def escape_text(text: str) -> str:
    """The text with everything escaped that a terminal must not receive: an imported event may contain anything."""
    if text.isprintable():  # nearly every text; it is asked of thousands
        return text
    return "".join(
        c.encode("unicode_escape").decode()
        if c in TEXT_DIRECTION_MARKS or unicodedata.category(c) in UNPRINTABLE_CATEGORIES
        else c
        for c in text
    )


def parse_integer(value: Any, name: str, least: int, most: int | None = None) -> int:
    """`value` as an int within [least, most]; booleans and fractions are refused."""
    allowed = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} is {repr_of(value)}: a whole number {allowed}") from None
    if number < least or (most is not None and number > most):
        raise InvalidInput(f"{name} is {repr_of(number)}: a whole number {allowed}")
    return number


def parse_real(value: Any, name: str, allowed: str) -> float:
    """`value` as a finite float; `allowed` completes the message."""
    try:
        if isinstance(value, (str, bytes, bytearray, bool, np.bool_, np.complexfloating)):
            raise TypeError
        if isinstance(value, np.ndarray) and value.dtype.kind not in "iuf":
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} is {repr_of(value)}: {allowed}") from None
    if not math.isfinite(number):
        raise InvalidInput(f"{name} is {number}: {allowed}")
    return number


def parse_fraction(value: Any, name: str) -> float:
    """`value` as a float strictly between 0 and 1."""
    allowed = "a probability strictly between 0 and 1"
    number = parse_real(value, name, allowed)
    if not 0.0 < number < 1.0:
        raise InvalidInput(f"{name} is {number:g}: {allowed}")
    return number


def parse_delta(value: Any) -> float:
    """`value` as the probability with which bounds may fail; not so small that they become infinite."""
    number = parse_fraction(value, "delta")
    if number < DELTA_MIN:
        raise InvalidInput(f"delta is {number:g}: at least {DELTA_MIN:g}, to be computed with")
    return number


def parse_choice(value: Any, name: str, allowed: Sequence[str]) -> str:
    """`value`, if it is one of the texts allowed."""
    if not isinstance(value, str) or value not in allowed:
        options = " or ".join(repr(option) for option in allowed)
        raise InvalidInput(f"{name} is {repr_of(value)}: {options}")
    return value


def parse_list(values: Any, name: str, what: str) -> list[Any]:
    """`values` as a list; a text or a single number is not a list of them."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {repr_of(values)}: a list of {what}")
    try:
        return list(values)
    except (
        TypeError,  # an array without dimensions calls itself iterable
        OverflowError,  # a range longer than any list
    ):
        raise InvalidInput(f"{name} is {repr_of(values)}: a list of {what}") from None


def parse_probabilities(values: Any, name: str, what: str, interval: str) -> tuple[float, ...]:
    """`values` as a tuple of probabilities in the interval '[0, 1]' or '(0, 1]'."""
    items = parse_list(values, name, "numbers")
    if not items:
        raise InvalidInput(f"{name} is empty: at least one {what}")
    return tuple(
        parse_probability(item, f"{name}[{i}]", what, interval) for i, item in enumerate(items)
    )


def parse_probability(value: Any, name: str, what: str, interval: str) -> float:
    """`value` as a probability in the interval '[0, 1]' or '(0, 1]'."""
    allowed = f"a {what} is a probability in {interval}"
    number = parse_real(value, name, allowed)
    if number > 1.0 or number < 0.0 or (number == 0.0 and interval == "(0, 1]"):
        raise InvalidInput(f"{name} is {number:g}: {allowed}")
    return number


def parse_means(values: Any, name: str = "means") -> tuple[float, ...]:
    """`values` as the means of arms."""
    return parse_probabilities(values, name, "mean", "[0, 1]")


def parse_sensitivities(values: Any, name: str = "sensitivities") -> tuple[float, ...]:
    """`values` as sensitivities of agents."""
    checked = parse_probabilities(values, name, "sensitivity", "(0, 1]")
    return tuple(parse_sensitivity(number, f"{name}[{i}]") for i, number in enumerate(checked))


def parse_sensitivity(value: Any, name: str = "sensitivity") -> float:
    """`value` as the sensitivity of an agent, not so small that its square is no number to divide by."""
    number = parse_probability(value, name, "sensitivity", "(0, 1]")
    if number < SENSITIVITY_MIN:
        raise InvalidInput(
            f"{name} is {number:g}: at least {SENSITIVITY_MIN:g}, to be computed with"
        )
    return number


def parse_rates(
    values: Any,
    sensitivities: Sequence[float],
    agents: Sequence[str],
    name: str = "false_positive_rates",
) -> tuple[float, ...]:
    """`values` as false positive rates of agents, each below the agent's sensitivity; none if not given."""
    if values is None:
        return (0.0,) * len(sensitivities)
    checked = parse_probabilities(values, name, "false positive rate", "[0, 1]")
    check_one_per_agent(checked, name, len(sensitivities))
    for agent, rate, s in zip(agents, checked, sensitivities, strict=True):
        parse_rate(rate, s, f"{name} of {agent!r}")
    return checked


def parse_rate(value: Any, sensitivity: float, name: str = "false_positive_rate") -> float:
    """`value` as the false positive rate of an agent of this sensitivity, which is above it."""
    rate = parse_probability(value, name, "false positive rate", "[0, 1]")
    if sensitivity - rate < SENSITIVITY_MIN:
        raise InvalidInput(
            f"{name} is {rate:g}, its sensitivity {sensitivity:g}: who reports as often where "
            "there is nothing as where there is something tells nothing"
        )
    return rate


def parse_tests(values: Any, agents: Sequence[str]) -> tuple[int, ...]:
    """`values` as numbers of tests that agents make in a visit; one if not given."""
    if values is None:
        return (1,) * len(agents)
    items = parse_list(values, "tests", "numbers")
    check_one_per_agent(items, "tests", len(agents))
    return tuple(
        parse_integer(item, f"tests of {agent!r}", 1, VISIT_MAX_TESTS)
        for agent, item in zip(agents, items, strict=True)
    )


def check_one_per_agent(values: Sequence[Any], name: str, agents: int) -> None:
    """Refuse a list whose length is not the number of agents."""
    if len(values) != agents:
        raise InvalidInput(f"{name} has {len(values)} entries: one for each of the {agents} agents")


def parse_counts(values: Any, name: str, agents: int, arms: int | None = None) -> Counts:
    """`values` as a table of counts with a row for each agent and a column for each arm."""
    shape = f"{agents} agents by {'some' if arms is None else arms} arms"
    allowed = f"a table of whole numbers from 0 to {COUNT_MAX:,}, {shape}"
    try:
        given = np.array(values)
        if given.dtype.kind not in "biuf":  # texts of digits and complex numbers would convert
            raise TypeError
        table = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} is {repr_of(values)}: {allowed}") from None
    if (
        table.ndim != 2
        or table.shape[0] != agents
        or table.shape[1] != (arms or table.shape[1] or 1)
    ):
        raise InvalidInput(f"{name} has the shape {table.shape}: {allowed}")
    wrong = np.argwhere(~((table >= 0) & (table <= COUNT_MAX) & (table == np.floor(table))))
    if len(wrong):
        a, n = (int(i) for i in wrong[0])
        raise InvalidInput(f"{name}[{a}][{n}] is {table[a, n]:g}: {allowed}")
    return table.astype(np.int32)


def parse_tables(
    pulls: Any, successes: Any, agents: int, arms: int | None = None
) -> tuple[Counts, Counts]:
    """The two tables of learning, checked: no more successes than pulls, and no arm with more than can be counted."""
    c = parse_counts(pulls, "pulls", agents, arms)
    y = parse_counts(successes, "successes", *c.shape)
    if (y > c).any():
        a, n = (int(i) for i in np.argwhere(y > c)[0])
        raise InvalidInput(f"successes[{a}][{n}] is {y[a, n]}: at most the {c[a, n]} pulls")
    if int(c.sum(axis=0, dtype=np.int64).max()) > COUNT_MAX:
        raise InvalidInput(
            f"pulls has an arm with over {COUNT_MAX:,} pulls: more than can be counted"
        )
    return c, y


def normalize_name(text: str) -> str:
    """The text as names are stored: in Unicode's composed form, NFC, without surrounding blanks.

    Composing sorts the marks on a letter in a time that grows with their square, and nothing else runs meanwhile.
    """
    marks = 0
    for character in text if not text.isascii() else "":
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks > LETTER_MAX_MARKS:
            raise InvalidInput(
                f"{repr_of(text)} has a letter with over {LETTER_MAX_MARKS} marks: at most that many"
            )
    return unicodedata.normalize("NFC", text).strip()


def appearance_of(name: str) -> str:
    """What people see of a name: without characters of no width, and with single blanks."""
    seen = name if name.isascii() else "".join(c for c in name if unicodedata.category(c) != "Cf")
    return " ".join(seen.split())


def parse_name(value: Any, name: str) -> str:
    """`value` as a name: one line of text that looks the way it is written, in composed form."""
    if not isinstance(value, str) or not appearance_of(value):
        raise InvalidInput(f"{name} is {repr_of(value)}: a name is a text that is not blank")
    for character in value:
        if (
            character in TEXT_DIRECTION_MARKS
            or unicodedata.category(character) in UNPRINTABLE_CATEGORIES
        ):
            raise InvalidInput(
                f"{name} is {repr_of(value)}: a name has no control, line-end or text-direction "
                f"characters, such as {repr_of(character)}"
            )
    return normalize_name(value)


def parse_names(values: Any, name: str, count: int, prefix: str) -> tuple[str, ...]:
    """`values` as `count` distinct, non-empty names; `prefix 1`, `prefix 2`, ... if not given."""
    if values is None:
        return tuple(f"{prefix} {i + 1}" for i in range(count))
    items = parse_list(values, name, "names")
    if len(items) != count:
        raise InvalidInput(f"{name} has {len(items)} names: there are {count} {prefix}s to name")
    checked: dict[str, str] = {}
    for i, item in enumerate(items):
        text = parse_name(item, f"{name}[{i}]")
        if appearance_of(text) in checked:
            raise InvalidInput(f"{name}[{i}] is {repr_of(item)}: names must differ from each other")
        checked[appearance_of(text)] = text
    return tuple(checked.values())


def parse_path(given: Any, name: str = "path") -> Path:
    """`given` as a path."""
    if not isinstance(given, (str, os.PathLike)):
        raise InvalidInput(f"{name} is {repr_of(given)}: the path of a file or folder")
    text = os.fsdecode(given)
    if not text or "\0" in text:
        raise InvalidInput(f"{name} is {repr_of(given)}: the path of a file or folder, not empty")
    return Path(text)


def parse_json(text: str) -> Any:
    """The value of a JSON text, with or without a byte order mark; refuses a key that appears twice."""

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen = set()
            for key, _ in pairs:
                if key in seen:
                    raise InvalidInput(f"{repr_of(key)} is there twice")
                seen.add(key)
        return found

    plain = text.removeprefix("\ufeff") if isinstance(text, str) else text
    return json.loads(plain, object_pairs_hook=table)


def unknown_name(kind: str, value: object, known: Sequence[str]) -> InvalidInput:
    """The error for a name that is not in `known`; it suggests the nearest one that is."""
    wrong = repr_of(value, SUGGESTION_MAX_LETTERS).strip("'\"")
    short = [name for name in known[:SUGGESTION_MAX_NAMES] if len(name) <= SUGGESTION_MAX_LETTERS]
    near = difflib.get_close_matches(wrong, short, n=1, cutoff=0.5)
    some = ", ".join(known[:MESSAGE_MAX_KNOWN_NAMES]) + (
        ", ..." if len(known) > MESSAGE_MAX_KNOWN_NAMES else ""
    )
    hint = f"did you mean {near[0]!r}?" if near else f"known are {some}"
    return InvalidInput(f"unknown {kind} {repr_of(value)}: {hint}")


def position_of_name(key: Any, kind: str, known: Sequence[str]) -> int:
    """The position of a name."""
    if not isinstance(key, str) or normalize_name(key) not in known:
        raise unknown_name(kind, key, known)
    return known.index(normalize_name(key))


def position_of_member(key: Any, kind: str, known: Sequence[str]) -> int:
    """The position of an agent or arm given by its name or its number, which counts from 0."""
    if isinstance(key, str):
        return position_of_name(key, kind, known)
    try:
        return parse_integer(key, f"the number of an {kind}", 0, len(known) - 1)
    except InvalidInput:
        last = len(known) - 1
        raise InvalidInput(
            f"the number of an {kind} is {repr_of(key)}: "
            f"a number from 0, {known[0]!r}, to {last}, {known[last]!r}"
        ) from None


def positions_of_pair(
    key: Any, name: str, agents: Sequence[str], arms: Sequence[str]
) -> tuple[int, int]:
    """The positions of a pair (agent, arm)."""
    if not isinstance(key, (tuple, list)) or len(key) != 2:
        raise InvalidInput(
            f"{name} has {repr_of(key)}: pairs (agent, arm), as ({agents[0]!r}, {arms[0]!r})"
        )
    return position_of_member(key[0], "agent", agents), position_of_member(key[1], "arm", arms)
