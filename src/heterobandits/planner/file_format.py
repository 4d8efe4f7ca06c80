"""A planner as plain JSON, versioned: what it was made with, and the rounds since.

Format 4 is the planner's arguments under their names, `history`: of each round the assignment, the
outcomes so far and, where there were any, its circumstances; and `forgotten`: arms, and the round up to which what was seen
of them does not count. Format 3 forgot nothing. Format 2 knew no false positives, tests or calibration. Format 1 had
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
    json_from,
    listed,
    path_from,
    shown,
)
from heterobandits.output.files import write_aside
from heterobandits.planner.history import Round, assigned
from heterobandits.planner.matching import Circumstances
from heterobandits.policies.policy import CATALOGUE, Policy
from heterobandits.policies.policy import policy as catalogued

FORMAT = 4
LISTS = (
    "sensitivities",
    "false_positive_rates",
    "tests",
    "calibration",
    "false_positive_calibration",
    "agent_names",
    "arm_names",
    "pulls",
    "successes",
    "left",
    "history",
    "forgotten",
)


def text_of_state(state: dict[str, Any]) -> str:
    """The state of a planner as text."""
    return json.dumps({"heterobandits_planner": FORMAT, **state}, indent=1, ensure_ascii=False)


def read_state(text: str) -> dict[str, Any]:
    """The state that was written, brought up to this format."""
    try:
        state = json_from(text)
        format_ = state["heterobandits_planner"]
    except InvalidInput as error:
        raise InvalidInput(f"a saved planner that is damaged: {error}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidInput(f"not a saved planner: {shown(text)}") from None
    if not isinstance(format_, int) or isinstance(format_, bool) or format_ < 1:
        raise InvalidInput(f"a saved planner of format {shown(format_)}: a whole number from 1")
    if format_ > FORMAT:
        raise UnsupportedVersion(
            f"a saved planner of format {format_}: this version reads up to {FORMAT}; "
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
    for key in LISTS:
        if not isinstance(state.get(key), list):
            raise InvalidInput(
                f"a saved planner that is damaged: {key} is {shown(state.get(key))}, not a list"
            )
    return dict(state)


def write_file(text: str, path: Any) -> None:
    """Put the text into a file, in UTF-8, whole: until it is on the disk the old file stays."""

    def write(aside: Path) -> None:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())

    place = path_from(path)
    try:
        write_aside(place, write)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"cannot write {shown(str(place), 300)}: {reason_of_refusal(error)}"
        ) from None


def read_file(path: Any) -> str:
    """The text of a file, with or without a mark of the byte order before it."""
    place = path_from(path)
    try:
        return place.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else reason_of_refusal(error)
        raise InvalidInput(f"cannot read {shown(str(place), 300)}: {why}") from None


def reason_of_refusal(error: Exception) -> str:
    """Why a file could not be used, without its path."""
    return getattr(error, "strerror", None) or str(error)


def saved_policy(saved: Any, given: Policy | None) -> Policy:
    """The policy of a saved planner; one of the user's own must be given again."""
    name = saved["name"]
    if given is None and isinstance(name, str) and name not in CATALOGUE:
        raise InvalidInput(
            f"the planner was saved with {name!r}, which is not in the catalogue: "
            "give that policy again, as Planner.load(path, policy)"
        )
    if given is not None and not isinstance(given, Policy):
        raise InvalidInput(
            f"policy is {shown(given)}: the Policy that the planner was saved with, which is needed "
            "if it is one of your own"
        )
    if given is not None and given.name != name:
        raise InvalidInput(
            f"policy is one named {given.name!r}: the planner was saved with {shown(name)}"
        )
    if given is not None and "index" in saved and given.parameters.get("index") != saved["index"]:
        warnings.warn(
            f"the planner was saved with a policy {name!r} whose index function was another, or of another "
            "version of Python: the next plans may differ from those it would have made",
            stacklevel=4,
        )
    parameters = (saved["delta"], saved["horizon"], saved.get("memory"))
    return catalogued(given or name, *parameters)


def round_state(record: Round) -> dict[str, Any]:
    """A round as it stands in the file."""
    circumstances = record.circumstances._asdict().items()
    return {
        "round": record.number,
        "assignment": record.assignment,
        "outcomes": record.outcomes,
        **{name: sorted(given) for name, given in circumstances if given},
    }


def saved_round(state: Any, number: int, agents: tuple[str, ...], arms: tuple[str, ...]) -> Round:
    """The round that a state tells of; its agents are the first of all, for the team only grows."""
    if not isinstance(state, dict):
        raise InvalidInput(f"history has {shown(state)}: a round, with assignment and outcomes")
    rest = dict(state)
    if rest.pop("round") != number:
        raise InvalidInput(f"a saved planner that is damaged: round {number} is not in its place")
    assignment = assigned(rest.pop("assignment"), len(arms))
    outcomes = listed(rest.pop("outcomes"), "outcomes", "outcomes, one per agent")
    if not 1 <= len(assignment) <= len(agents):
        raise InvalidInput(
            f"a saved planner that is damaged: round {number} sends {len(assignment)} agents, "
            f"and there are {len(agents)}"
        )
    then = agents[: len(assignment)]
    circumstances = Circumstances.of(then, arms, **rest)
    circumstances.check(assignment, then, arms)
    nothing = (None,) * len(then)
    return Round(number, assignment, nothing, circumstances, then, arms).told(outcomes)


def saved_history(
    history: list[Any], first: int, agents: tuple[str, ...], arms: tuple[str, ...]
) -> list[Round]:
    """All the rounds, numbered from the first on."""
    return [saved_round(state, number, agents, arms) for number, state in enumerate(history, first)]
