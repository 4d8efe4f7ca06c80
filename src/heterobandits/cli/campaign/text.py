"""What the commands of a campaign say: what was written, in words, and JSON for programs."""

import json
from typing import TYPE_CHECKING, Any

from heterobandits.campaigns.audit.history_text import Story

if TYPE_CHECKING:
    from heterobandits.campaigns.audit.recovery import Found
    from heterobandits.campaigns.events import Event
    from heterobandits.campaigns.state import State
    from heterobandits.campaigns.storage.repository import Done, Log


def json_of_event(event: "Event", text: str) -> dict[str, Any]:
    """An event for a program, with its words."""
    names = ("number", "time", "who", "link", "kind", "body", "hash")
    return {**{name: getattr(event, name) for name in names}, "text": text}


def pair_entries(state: "State", agent: int, arm: int | None) -> dict[str, Any]:
    """An agent and its arm for a program, by ids and names."""
    from heterobandits.campaigns.state import id_of

    who = {"agent": id_of("agent", agent), "agent_name": state.agents[agent].name}
    return who | arm_entries(state, arm, "arm")


def arm_entries(state: "State", arm: int | None, key: str) -> dict[str, Any]:
    """An arm, or none, under this key."""
    from heterobandits.campaigns.state import id_of

    if arm is None:
        return {key: None, f"{key}_name": None}
    return {key: id_of("arm", arm), f"{key}_name": state.arms[arm].name}


def before(log: "Log", state: "State", done: "Done") -> "State":
    """What stood before something was done: mostly what was just read, unless somebody else was faster."""
    number = done.events[0].number - 1 if done.events else state.number
    return state if state.number == number else log.at(state.campaign, number)


def print_change(log: "Log", state: "State", done: "Done", format: str) -> None:
    """What was written into a campaign that stood so when it was read, in words or as JSON."""
    print_done(before(log, state, done), done, format)


def print_done(state: "State", done: "Done", format: str) -> None:
    """What was written after this state, likewise."""
    story = Story(state)
    told = [(event, story.tell(event)) for event in done.events]
    if format == "json":
        after = done.state
        print_json(
            after,
            number=after.number,
            hash=after.hash,
            events=[json_of_event(*one) for one in told],
        )
        return
    for _, text in told:
        print(text)
    if not told:
        print("nothing new: that is what is known already")


def print_json(of: "State | Found", **entries: Any) -> None:
    """An object about a campaign, as one line."""
    print(json.dumps({"campaign": of.campaign, "name": of.name, **entries}))
