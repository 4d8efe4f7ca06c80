"""Why an agent goes where it goes, as events have it: numbers as JSON can hold them."""

import math
from collections.abc import Mapping
from typing import Any

from heterobandits.errors import InvalidInput, shown
from heterobandits.planner.plans import SENTENCES, Reason

INFINITE = "infinite"  # in place of a number that JSON does not have


def reason_of(assignment: Mapping[str, Any]) -> Reason:
    """The reason that an event has for an agent."""
    code, visited = assignment["code"], assignment["visited"]
    if code not in SENTENCES or not (visited is None or isinstance(visited, int)):
        raise InvalidInput(f"code is {shown(code)} of {shown(visited)}: a reason of a plan")
    index, estimate = (number_from_json(assignment[name]) for name in ("index", "estimate"))
    return Reason(code, index, estimate, visited)


def number_to_json(number: float | None) -> float | str | None:
    """A number as JSON can hold it."""
    return INFINITE if number is not None and math.isinf(number) else number


def number_from_json(value: float | str | None) -> float | None:
    """The number that was written."""
    if value is None:
        return None
    return math.inf if value == INFINITE else float(value)
