"""Where a plan sends each agent, and why: as a value, and as events have it, with numbers as JSON can hold them."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from heterobandits.campaigns.state import State, member_id
from heterobandits.errors import InvalidInput, parse_integer, parse_sensitivity, repr_of
from heterobandits.limits import ADDRESS_MAX
from heterobandits.planner.plans import REASON_SENTENCES, Plan, Reason

UNDER_WAY_COUNTED = "counted"  # in the body of a plan that counts visits under way
NOTED_FIELDS = ("pulls", "successes", "lot", "place", "finds")  # of a reason, if they are known
# the least of those that are whole numbers
WHOLE_NOTED_LEAST = {"pulls": 0, "successes": 0, "lot": 2, "place": 1}
INFINITE_TEXT = "infinite"  # in place of a number that JSON does not have


class Assigned(NamedTuple):
    """The arm that a plan sends an agent to, or None, and why; both by number."""

    agent: int
    arm: int | None
    reason: Reason


def assignments_of(state: State, plan: Plan) -> list[Assigned]:
    """Who goes where by a plan, by agent."""
    rows = [agent.row for agent in state.agents]
    return [Assigned(a, plan.assignment[row], plan.reasons[row]) for a, row in enumerate(rows)]


def assigned_body(one: Assigned) -> dict[str, Any]:
    """The same of one agent, as it stands in events."""
    agent, arm, reason = one
    awaited = {"awaited": True} if reason.awaited else {}
    return {
        "agent": member_id("agent", agent),
        "arm": None if arm is None else member_id("arm", arm),
        "code": reason.code,
        "index": number_to_json(reason.index),
        "estimate": number_to_json(reason.estimate),
        "visited": reason.visited,
        **awaited,
        **{
            name: getattr(reason, name)
            for name in NOTED_FIELDS
            if getattr(reason, name) is not None
        },
    }


def is_same_assignment(known: Mapping[str, Any], again: Mapping[str, Any]) -> bool:
    """Whether an entry of a recorded plan is as it would be made again, but for what earlier versions did not note."""
    return {
        name: value for name, value in again.items() if name in known or name not in NOTED_FIELDS
    } == known


def assigned_from(state: State, body: Mapping[str, Any]) -> Assigned:
    """The same from such a body."""
    code, visited = body["code"], body["visited"]
    if (
        code not in REASON_SENTENCES
        or isinstance(visited, bool)
        or not isinstance(visited, int | None)
    ):
        raise InvalidInput(f"code is {repr_of(code)} of {repr_of(visited)}: a reason of a plan")
    index, estimate = (number_from_json(body[name]) for name in ("index", "estimate"))
    noted = noted_numbers(body)
    arm = None if body["arm"] is None else state.arm(body["arm"])
    awaited = body.get("awaited", False)
    if not isinstance(awaited, bool):
        raise InvalidInput(f"awaited is {repr_of(awaited)}: whether somebody is on the way there")
    reason = Reason(code, index, estimate, visited, awaited, **noted)
    return Assigned(state.agent(body["agent"]), arm, reason)


def noted_numbers(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a reason notes beside the index, as it can be."""
    noted = {name: body[name] for name in NOTED_FIELDS if name in body}
    for name in WHOLE_NOTED_LEAST.keys() & noted.keys():
        parse_integer(noted[name], f"{name} of a reason", WHOLE_NOTED_LEAST[name], ADDRESS_MAX)
    if "finds" in noted:
        parse_sensitivity(noted["finds"], "finds of a reason")
    for one, other in (("pulls", "successes"), ("place", "finds")):
        if (one in noted) != (other in noted):
            raise InvalidInput(f"a reason has {repr_of(noted)}: {one} and {other}, or neither")
    if noted.get("successes", 0) > noted.get("pulls", 0):
        raise InvalidInput(f"a reason has {repr_of(noted)}: at most as many successes as pulls")
    return noted


def has_counted(body: Mapping[str, Any]) -> bool:
    """Whether the plan in this body counts visits under way; older ones, without a word on them, ignore them."""
    said = body.get("under_way")
    if said not in (None, UNDER_WAY_COUNTED):
        raise InvalidInput(
            f"under_way of a plan is {repr_of(said)}: {UNDER_WAY_COUNTED!r}, or not there where visits under way are ignored"
        )
    return said is not None


def number_to_json(number: float | None) -> float | str | None:
    """A number as JSON can hold it."""
    return INFINITE_TEXT if number is not None and math.isinf(number) else number


def number_from_json(value: float | str | None) -> float | None:
    """The number that `number_to_json` wrote."""
    if value is None:
        return None
    if value == INFINITE_TEXT:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{repr_of(value)} is no number of a plan")
    return float(value)
