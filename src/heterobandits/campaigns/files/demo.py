"""A made-up half season to look at: a park with rangers in which everything happens that can.

It is played from a seed on means that are made up as well, a round a day up to yesterday.
"""

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from heterobandits.campaigns import service
from heterobandits.campaigns.events import GENESIS_HASH, Draft, Event, render_timestamp, seal_events
from heterobandits.campaigns.files.templates import load_template
from heterobandits.campaigns.outcomes import outcome_drafts
from heterobandits.campaigns.reducer import fold_events
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Author, Repository

DEMO_NAME = "North park (demo)"
DEMO_SEASON_ROUNDS = 60
DEMO_FINISHED_ROUNDS = DEMO_SEASON_ROUNDS // 2  # rounds that are over
DEMO_MEANS = (0.9, 0.08, 0.3, 0.12, 0.05, 0.35, 0.1, 0.03, 0.2, 0.06)  # of the template's areas
DEMO_SEED = 6
DEMO_PLANNER_NAME = "Vera"


class DemoSeason:
    """The events of a made-up season, a while apart."""

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
        number, previous = (
            (0, GENESIS_HASH) if self.state is None else (self.now.number, self.now.hash)
        )
        new = seal_events(
            drafts, self.campaign, after=number, previous=previous, time=render_timestamp(self.time), who=who
        )  # fmt: skip
        self.state = fold_events(new, self.state)
        self.events += new

    def plan(self, **circumstances: Any) -> PlannedRound:
        """The next round, planned."""
        body = service.preview(self.now, **circumstances).body
        self.tell(DEMO_PLANNER_NAME, Draft("round planned", body))
        return self.now.rounds[-1]

    def report(self, at: PlannedRound, luck: random.Random, but: Iterable[str] = ()) -> None:
        """What everybody found, but for some."""
        for agent, arm in at.sent:
            name = self.now.agents[agent].name
            if name not in but:
                found = luck.random() < DEMO_MEANS[arm] * self.now.team.sensitivities[agent]
                self.outcome(at, name, int(found))

    def outcome(self, at: PlannedRound, name: str, outcome: Any, kind: str = "reported") -> None:
        """What one of them found."""
        (draft,) = outcome_drafts(self.now, kind, at.number, {name: outcome})
        self.tell(name, draft, minutes=37.0)


def demo_events(campaign: str, end: datetime | None = None) -> list[Event]:
    """The events of a season that is half over."""
    luck = random.Random(DEMO_SEED)
    last = datetime.now(UTC) if end is None else end
    begin = (last - timedelta(days=DEMO_FINISHED_ROUNDS + 1)).replace(
        hour=7, minute=0, second=0, microsecond=0
    )
    story = DemoSeason(campaign, begin)
    template = load_template("rangers")
    body = service.body_of_creation(
        **template
        | {"name": DEMO_NAME, "seed": DEMO_SEED, "season": DEMO_SEASON_ROUNDS}
        | {"words": template["words"] | {"round": "day"}}
    )
    story.tell(DEMO_PLANNER_NAME, Draft("created", body))
    for day in range(1, DEMO_FINISHED_ROUNDS + 1):
        story.time = begin + timedelta(days=day)
        if day == 4:
            story.report(story.plan(absent=["Ben"], closed=["lake shore"]), luck)
        elif day == 9:
            at = story.plan()
            story.report(at, luck, but=["Eva"])
            story.outcome(at, "Eva", "not done")
            story.tell(
                DEMO_PLANNER_NAME, Draft("note", {"text": "The bridge was out.", "round": day})
            )
        elif day == 11:
            at = story.plan()
            story.report(at, luck, but=["Dan"])
            story.outcome(at, "Dan", 1)
            story.outcome(at, "Dan", 0, "corrected")
        else:
            story.report(story.plan(), luck, but=["Femi"] if day == DEMO_FINISHED_ROUNDS else [])
    return story.events


def create_demo(log: Repository) -> str:
    """Create a campaign with half a made-up season, and return its id."""
    made = demo_events("d3e05ea50000")
    return log.begin_with(made, Author(DEMO_PLANNER_NAME)).state.campaign
