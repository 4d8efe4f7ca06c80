"""What the campaign commands print: what was written, in words, and JSON for programs."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heterobandits.campaigns.audit.history_text import EventNarrator

if TYPE_CHECKING:
    from heterobandits.campaigns.audit.recovery import CampaignEntry
    from heterobandits.campaigns.state import State
    from heterobandits.campaigns.storage.repository import Repository, WriteResult


def state_before(log: "Repository", state: "State", done: "WriteResult") -> "State":
    """The state before a write: usually the one just read, unless somebody else wrote in between."""
    number = done.events[0].number - 1 if done.events else state.number
    return state if state.number == number else log.at(state.campaign, number)


def print_change(log: "Repository", state: "State", done: "WriteResult", format: str) -> None:
    """Print what was written since this state was read, in words or as JSON."""
    print_write_result(state_before(log, state, done), done, format)


def print_write_result(state: "State", done: "WriteResult", format: str) -> None:
    """Print what was written after this state, in words or as JSON."""
    from heterobandits.campaigns.serialization import json_of_event_with_text

    story = EventNarrator(state)
    told = [(event, story.tell(event)) for event in done.events]
    if format == "json":
        after = done.state
        print_json(
            after,
            {
                "number": after.number,
                "hash": after.hash,
                "events": [json_of_event_with_text(*one) for one in told],
            },
        )
        return
    for _, text in told:
        print(text)
    if not told:
        print("nothing new: that is what is known already")


def print_json(of: "State | CampaignEntry", answer: Mapping[str, Any]) -> None:
    """What a campaign answers a program, as one line that also says which campaign it is."""
    print(json.dumps({"campaign": of.campaign, "name": of.name, **answer}))
