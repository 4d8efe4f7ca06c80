"""What the commands of a campaign say: what was written, in words, and JSON for programs."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heterobandits.campaigns.audit.history_text import Story

if TYPE_CHECKING:
    from heterobandits.campaigns.audit.recovery import Found
    from heterobandits.campaigns.state import State
    from heterobandits.campaigns.storage.repository import Done, Log


def before(log: "Log", state: "State", done: "Done") -> "State":
    """What stood before something was done: mostly what was just read, unless somebody else was faster."""
    number = done.events[0].number - 1 if done.events else state.number
    return state if state.number == number else log.at(state.campaign, number)


def print_change(log: "Log", state: "State", done: "Done", format: str) -> None:
    """What was written into a campaign that stood so when it was read, in words or as JSON."""
    print_done(before(log, state, done), done, format)


def print_done(state: "State", done: "Done", format: str) -> None:
    """What was written after this state, likewise."""
    from heterobandits.campaigns.serialization import json_of_narrated

    story = Story(state)
    told = [(event, story.tell(event)) for event in done.events]
    if format == "json":
        after = done.state
        print_json(
            after,
            {
                "number": after.number,
                "hash": after.hash,
                "events": [json_of_narrated(*one) for one in told],
            },
        )
        return
    for _, text in told:
        print(text)
    if not told:
        print("nothing new: that is what is known already")


def print_json(of: "State | Found", answer: Mapping[str, Any]) -> None:
    """What a campaign answers a program, as one line that also says which campaign it is."""
    print(json.dumps({"campaign": of.campaign, "name": of.name, **answer}))
