"""The campaigns of a file as they can be read: a damaged one is in nobody's way, and what is left of it can be seen."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from heterobandits.campaigns.audit.history_text import Story, printable
from heterobandits.errors import InvalidInput, appearance

if TYPE_CHECKING:
    from heterobandits.campaigns.events import Event
    from heterobandits.campaigns.state import State
    from heterobandits.campaigns.storage.repository import Log


class Found(NamedTuple):
    """A campaign of a file: what stands in it, or what is wrong with it."""

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


def entry_of(log: "Log", campaign: str) -> Found:
    """The campaign of this id, whether it can be read or not."""
    from heterobandits.campaigns.storage.database import StoreUnavailable

    try:
        state = log.state(campaign)
    except StoreUnavailable:  # which says nothing about the campaign
        raise
    except InvalidInput as error:
        return Found(campaign, last_name(log, campaign), None, printable(str(error)))
    return Found(campaign, state.name, state, None)


def all_found(log: "Log") -> Iterator[Found]:
    """All campaigns, in the order of their creation."""
    for head in log.store.heads():
        yield entry_of(log, head.campaign)


def namesake(log: "Log", name: str) -> Found | None:
    """The campaign that is called so, or looks as if it were."""
    seen = appearance(name)
    return next((there for there in all_found(log) if appearance(there.name) == seen), None)


def last_name(log: "Log", campaign: str) -> str:
    """What a damaged campaign was called last, as far as its events say; its id if none does."""
    story = Story()
    for event in readable_events(log, campaign):
        story.tell(event)
    return printable(str(story.names.get("campaign", campaign)))


def readable_events(log: "Log", campaign: str) -> "list[Event]":
    """All events of a campaign, but for those whose row cannot be read at all; whether they fit is not looked at."""
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
