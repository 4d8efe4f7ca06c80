"""The campaigns of a file, readable or not: a damaged one blocks no other, and shows what is left of it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from heterobandits.campaigns.audit.history_text import EventNarrator
from heterobandits.errors import InvalidInput, appearance_of, escape_text

if TYPE_CHECKING:
    from heterobandits.campaigns.events import Event
    from heterobandits.campaigns.state import State
    from heterobandits.campaigns.storage.repository import Repository


class CampaignEntry(NamedTuple):
    """One campaign of a file: its state, or what is wrong with it."""

    campaign: str
    name: str
    state: "State | None"
    wrong: str | None

    @property
    def title(self) -> str:
        """What it is called in a message."""
        return f"campaign {self.name!r} ({self.campaign})"

    @property
    def damage(self) -> str:
        """What is wrong, of which campaign."""
        return f"{self.title} cannot be read: {self.wrong}"

    @property
    def whole(self) -> "State":
        """What stands in it; refuses a damaged one."""
        if self.state is None:
            raise InvalidInput(self.damage)
        return self.state


def entry_of(log: "Repository", campaign: str) -> CampaignEntry:
    """The campaign with this id, whether or not it can be read."""
    from heterobandits.campaigns.storage.repository import UnreadableLog

    try:
        state = log.state(campaign)
    except UnreadableLog as error:
        refused = error.refusal
        refused.name = refused.name or last_name_of(log, campaign)
        return CampaignEntry(campaign, refused.name, None, escape_text(refused.why))
    return CampaignEntry(campaign, state.name, state, None)


def campaign_entries(log: "Repository") -> Iterator[CampaignEntry]:
    """All campaigns, oldest first."""
    for head in log.store.heads():
        yield entry_of(log, head.campaign)


def find_namesake(log: "Repository", name: str) -> CampaignEntry | None:
    """The campaign that has this name, or one that looks the same."""
    seen = appearance_of(name)
    return next(
        (there for there in campaign_entries(log) if appearance_of(there.name) == seen), None
    )


def last_name_of(log: "Repository", campaign: str) -> str:
    """The last name of a damaged campaign, as far as its events can be read; else its id."""
    story = EventNarrator()
    for event in readable_events(log, campaign):
        story.tell(event)
    return escape_text(str(story.names.get("campaign", campaign)))


def readable_events(log: "Repository", campaign: str) -> "list[Event]":
    """All events of a campaign whose rows can be read; nothing checks whether they fit together."""
    from heterobandits.campaigns.events import NotInOrder

    def read(after: int, upto: int) -> "list[Event]":
        try:
            return log.store.read(campaign, after, upto)
        except NotInOrder:
            if upto - after == 1:
                return []
        middle = (after + upto) // 2
        return read(after, middle) + read(middle, upto)

    return read(0, log.store.head(campaign).number)
