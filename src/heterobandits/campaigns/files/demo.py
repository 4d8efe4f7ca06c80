"""A made-up half season to look at: a park with rangers, with everything that happens in one.

It is played from a seed on means that are made up as well, a round a day up to yesterday.
"""

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from heterobandits.campaigns import service
from heterobandits.campaigns.events import NOTHING, Draft, Event, sealed, timestamp
from heterobandits.campaigns.files.templates import example
from heterobandits.campaigns.reducer import fold
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Log, Request

NAME = "North park (demo)"
SEASON = 60
HALF = SEASON // 2  # rounds that are over
MEANS = (0.9, 0.08, 0.3, 0.12, 0.05, 0.35, 0.1, 0.03, 0.2, 0.06)  # of the template's areas
SEED = 6
PLANNER = "Vera"


class DemoSeason:
    """The events of a season as they are made up, a while apart."""

    def __init__(self, campaign: str, begin: datetime) -> None:
        self.campaign, self.time = campaign, begin
        self.events: list[Event] = []
        self.state: State | None = None

    @property
    def now(self) -> State:
        """What stands after what has happened."""
        assert self.state is not None, "it has begun"
        return self.state

    def tell(self, who: str, *drafts: Draft, minutes: float = 1.0) -> None:
        """What happens next, and by whom."""
        self.time += timedelta(minutes=minutes)
        number, previous = (0, NOTHING) if self.state is None else (self.now.number, self.now.hash)
        new = sealed(
            drafts, self.campaign, after=number, previous=previous, time=timestamp(self.time), who=who
        )  # fmt: skip
        self.state = fold(new, self.state)
        self.events += new

    def plan(self, **circumstances: Any) -> PlannedRound:
        """The next round, planned."""
        body = service.preview(self.now, **circumstances).body
        self.tell(PLANNER, Draft("round planned", body))
        return self.now.rounds[-1]

    def report(self, at: PlannedRound, luck: random.Random, but: Iterable[str] = ()) -> None:
        """What everybody found, but for some."""
        for agent, arm in at.sent:
            name = self.now.agents[agent].name
            if name not in but:
                found = luck.random() < MEANS[arm] * self.now.team.sensitivities[agent]
                self.outcome(at, name, int(found))

    def outcome(self, at: PlannedRound, name: str, outcome: Any, kind: str = "reported") -> None:
        """What one of them found."""
        (draft,) = service.outcome_drafts(self.now, kind, at.number, {name: outcome})
        self.tell(name, draft, minutes=37.0)


def half_season(campaign: str, end: datetime | None = None) -> list[Event]:
    """The events of a season of which half is over."""
    luck = random.Random(SEED)
    last = datetime.now(UTC) if end is None else end
    begin = (last - timedelta(days=HALF + 1)).replace(hour=7, minute=0, second=0, microsecond=0)
    story = DemoSeason(campaign, begin)
    body = service.created_body(
        **example("rangers") | {"name": NAME, "seed": SEED, "season": SEASON}
    )
    story.tell(PLANNER, Draft("created", body))
    for day in range(1, HALF + 1):
        story.time = begin + timedelta(days=day)
        if day == 4:
            story.report(story.plan(absent=["Ben"], closed=["lake shore"]), luck)
        elif day == 9:
            at = story.plan()
            story.report(at, luck, but=["Eva"])
            story.outcome(at, "Eva", "not done")
            story.tell(PLANNER, Draft("note", {"text": "The bridge was out.", "round": day}))
        elif day == 11:
            at = story.plan()
            story.report(at, luck, but=["Dan"])
            story.outcome(at, "Dan", 1)
            story.outcome(at, "Dan", 0, "corrected")
        else:
            story.report(story.plan(), luck, but=["Femi"] if day == HALF else [])
    return story.events


def begin_demo(log: Log) -> str:
    """The id of a new campaign in which half a season has been made up."""
    made = half_season("d3e05ea50000")
    return log.begin_with(made, Request(PLANNER)).state.campaign
