"""A planner as plain JSON, versioned: what it was made with, and the rounds since.

Format 5 is the planner's arguments under their names, the agents' with an entry for each of the `rows`: the agent, and the
round from which on it reports like that; `history`: of each round the assignment, who `moved` to which arms by hand, the
outcomes so far (a list of those of an agent that went to several arms) and, where there were any, its circumstances; arms
that are `retired`; `forgotten`: arms, and the round up to which what was seen of them does not count; and the `prior`. Format 4
believed nothing beforehand, moved nobody, retired no arm, and had one row for each agent. Format 3 forgot nothing. Format 2 knew no false positives, tests or calibration. Format 1 had
neither history nor leavers: its tables are what the planner begins with.
"""

import json
import os
import warnings
from pathlib import Path
from typing import Any

from heterobandits.errors import (
    InvalidInput,
    UnsupportedVersion,
    parse_integer,
    parse_json,
    parse_list,
    parse_names,
    parse_path,
    repr_of,
)
from heterobandits.output.files import write_atomic
from heterobandits.planner.history import Round, parse_assignment
from heterobandits.planner.matching import Circumstances
from heterobandits.planner.roster import AgentRow, Reports
from heterobandits.planner.visits import RoundVisits
from heterobandits.policies.policy import CATALOGUE, Policy
from heterobandits.policies.policy import policy as catalogued

PLANNER_FORMAT = 5
NO_REPORTS = Reports(1.0)  # until they are read
PLANNER_LIST_FIELDS = (
    "sensitivities",
    "false_positive_rates",
    "tests",
    "calibration",
    "false_positive_calibration",
    "agent_names",
    "arm_names",
    "pulls",
    "successes",
    "rows",
    "left",
    "retired",
    "history",
    "forgotten",
)


def render_state(state: dict[str, Any]) -> str:
    """The state of a planner as text."""
    return json.dumps(
        {"heterobandits_planner": PLANNER_FORMAT, **state}, indent=1, ensure_ascii=False
    )


def parse_state(text: str) -> dict[str, Any]:
    """The saved state, upgraded to this format."""
    try:
        state = parse_json(text)
        format_ = state["heterobandits_planner"]
    except InvalidInput as error:
        raise InvalidInput(f"a saved planner that is damaged: {error}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidInput(f"not a saved planner: {repr_of(text)}") from None
    if not isinstance(format_, int) or isinstance(format_, bool) or format_ < 1:
        raise InvalidInput(f"a saved planner of format {repr_of(format_)}: a whole number from 1")
    if format_ > PLANNER_FORMAT:
        raise UnsupportedVersion(
            f"a saved planner of format {format_}: this version reads up to {PLANNER_FORMAT}; "
            "use the newer heterobandits that wrote it"
        )
    if format_ == 1:
        state |= {"left": [], "history": []}
    if format_ < 3 and isinstance(state.get("sensitivities"), list):
        agents = len(state["sensitivities"])
        state |= {"false_positive_rates": [0.0] * agents, "tests": [1] * agents}
        state |= {"calibration": [None] * agents, "false_positive_calibration": [None] * agents}
    if format_ < 4:
        state |= {"forgotten": [], "on_change": "nothing"}
    if format_ < 5 and isinstance(state.get("sensitivities"), list):
        state |= {"retired": [], "rows": [[a, 1] for a in range(len(state["sensitivities"]))]}
        state |= {"prior": None}
    for key in PLANNER_LIST_FIELDS:
        if not isinstance(state.get(key), list):
            raise InvalidInput(
                f"a saved planner that is damaged: {key} is {repr_of(state.get(key))}, not a list"
            )
    return dict(state)


def write_file(text: str, path: Any) -> None:
    """Put the text into a file, in UTF-8, whole: until it is on the disk the old file stays."""

    def write(aside: Path) -> None:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())

    place = parse_path(path)
    try:
        write_atomic(place, write)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"cannot write {repr_of(str(place), 300)}: {reason_of_refusal(error)}"
        ) from None


def read_file(path: Any) -> str:
    """The text of a file, with or without a mark of the byte order before it."""
    place = parse_path(path)
    try:
        return place.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else reason_of_refusal(error)
        raise InvalidInput(f"cannot read {repr_of(str(place), 300)}: {why}") from None


def reason_of_refusal(error: Exception) -> str:
    """Why a file could not be used, without its path."""
    return getattr(error, "strerror", None) or str(error)


def restore_policy(saved: Any, given: Policy | None) -> Policy:
    """The policy of a saved planner; a user's own policy must be passed again."""
    name = saved["name"]
    if given is None and isinstance(name, str) and name not in CATALOGUE:
        raise InvalidInput(
            f"the planner was saved with {name!r}, which is not in the catalogue: "
            "give that policy again, as Planner.load(path, policy)"
        )
    if given is not None and not isinstance(given, Policy):
        raise InvalidInput(
            f"policy is {repr_of(given)}: the Policy that the planner was saved with, which is needed "
            "if it is one of your own"
        )
    if given is not None and given.name != name:
        raise InvalidInput(
            f"policy is one named {given.name!r}: the planner was saved with {repr_of(name)}"
        )
    if given is not None and "index" in saved and given.parameters.get("index") != saved["index"]:
        warnings.warn(
            f"the planner was saved with a policy {name!r} whose index function was another, or of another "
            "version of Python: the next plans may differ from those it would have made",
            stacklevel=4,
        )
    parameters = (saved["delta"], saved["horizon"], saved.get("memory"))
    return catalogued(given or name, *parameters)


def state_of_round(record: Round) -> dict[str, Any]:
    """A round as it stands in the file."""
    circumstances = record.circumstances._asdict().items()
    moved = {"moved": sorted(record.held.moved.items())} if record.held.moved else {}
    return {
        "round": record.number,
        "assignment": record.assignment,
        **moved,
        "outcomes": record.outcomes,
        **{name: sorted(given) for name, given in circumstances if given},
    }


def restore_round(state: Any, number: int, agents: tuple[str, ...], arms: tuple[str, ...]) -> Round:
    """The round in a saved state; its agents are the team's first ones, for a team only grows."""
    if not isinstance(state, dict):
        raise InvalidInput(f"history has {repr_of(state)}: a round, with assignment and outcomes")
    rest = dict(state)
    if rest.pop("round") != number:
        raise InvalidInput(f"a saved planner that is damaged: round {number} is not in its place")
    assignment = parse_assignment(rest.pop("assignment"), len(arms))
    moved = parse_list(rest.pop("moved", []), "moved", "agents with their arms")
    outcomes = parse_list(rest.pop("outcomes"), "outcomes", "outcomes, one per agent")
    if not 1 <= len(assignment) <= len(agents):
        raise InvalidInput(
            f"a saved planner that is damaged: round {number} sends {len(assignment)} agents, "
            f"and there are {len(agents)}"
        )
    then = agents[: len(assignment)]
    circumstances = Circumstances.of(then, arms, **rest)
    circumstances.check(assignment, then, arms)
    record = Round(RoundVisits(number, assignment), circumstances, then, arms)
    for entry in moved:
        record = record.overridden(*parse_entry(entry, "moved", "an agent and its arms"))
    return record.told(outcomes)


def parse_entry(entry: Any, name: str, what: str) -> tuple[Any, Any]:
    """An entry of a list, which has two parts."""
    if not isinstance(entry, list) or len(entry) != 2:
        raise InvalidInput(f"{name} is {repr_of(entry)}: {what}")
    return entry[0], entry[1]


def restore_names(state: dict[str, Any]) -> tuple[tuple[str, ...], list[AgentRow]]:
    """The names of the agents, and the rows of the tables, without how they report."""
    names, rows = state["agent_names"], []
    if len(state["rows"]) != len(state["sensitivities"]):
        raise InvalidInput(
            "a saved planner that is damaged: rows has not one entry for each sensitivity"
        )
    for entry in state["rows"]:
        agent, since = parse_entry(entry, "rows", "an agent and a round")
        agent = parse_integer(agent, "the agent of a row", 0, len(names) - 1)
        rows.append(AgentRow(agent, parse_integer(since, "the round of a row", 1), NO_REPORTS))
    if {row.agent for row in rows} != set(range(len(names))):
        raise InvalidInput("a saved planner that is damaged: an agent has no row")
    return parse_names(names, "agent_names", len(names), "agent"), rows


def parse_retired_arms(retired: list[Any], arms: tuple[str, ...]) -> frozenset[int]:
    """The arms that were retired."""
    return frozenset(parse_integer(arm, "a retired arm", 0, len(arms) - 1) for arm in retired)
