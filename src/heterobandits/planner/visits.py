"""Who went where in a round, by the plan or by hand, and what came of it: for planners and campaigns alike."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from heterobandits.errors import InvalidInput
from heterobandits.planner.knowledge import Visit
from heterobandits.planner.matching import AgentArm

Outcome = tuple[int, int]  # successes, tests
RowIn = Callable[[int, int], int]  # the row in the tables of an agent in a round


@dataclass(frozen=True)
class VisitReport:
    """The report of a visit: (successes, tests), or None if nobody did it.

    In a campaign it has the event that reported it last and the time of that, when somebody typed it if that was said, and a note.
    """

    counts: Outcome | None
    event: int = 0
    time: str = ""
    entered: str | None = None
    note: str = ""


@dataclass(frozen=True)
class RoundVisits:
    """The visits of a round: the planned arm of each agent, and the reports.

    `moved` has the arms of those whom somebody sent elsewhere by hand; `told` what is known of each visit.
    """

    number: int
    assignment: tuple[int | None, ...]
    moved: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    told: Mapping[AgentArm, VisitReport] = field(default_factory=dict)

    def arms_of(self, agent: int) -> tuple[int, ...]:
        """Where an agent went: mostly one arm, or none."""
        return self.moved[agent] if agent in self.moved else self.planned_arms(agent)

    def planned_arms(self, agent: int) -> tuple[int, ...]:
        """Where the plan sends an agent: one arm, or none."""
        arm = self.assignment[agent] if agent < len(self.assignment) else None
        return () if arm is None else (arm,)

    @property
    def sent(self) -> list[AgentArm]:
        """Who went where, by agent."""
        agents = sorted({*range(len(self.assignment)), *self.moved})
        return [(agent, arm) for agent in agents for arm in self.arms_of(agent)]

    @property
    def missing(self) -> list[AgentArm]:
        """The visits of which nothing is known."""
        return [pair for pair in self.sent if pair not in self.told]

    def visits(self, row_in: RowIn | None = None) -> Iterator[Visit]:
        """What is known of the round, by rows of the tables: agents' numbers, unless there is a `row_in`."""
        for (agent, arm), told in self.told.items():
            if told.counts is not None:
                row = agent if row_in is None else row_in(agent, self.number)
                yield Visit(self.number, row, arm, *told.counts)

    def overridden(
        self,
        agent: int,
        arms: tuple[int, ...],
        name: str,
        arm_names: tuple[str, ...],
        event: int = 0,
    ) -> Self:
        """The same with an agent who went to these arms instead, or stayed home; the report of its one visit moves along."""
        before = self.arms_of(agent)
        if arms == before:
            raise InvalidInput(f"{name!r} goes there already in round {self.number}")
        lost = [arm for arm in before if arm not in arms and (agent, arm) in self.told]
        if lost and not len(before) == len(arms) == 1:
            raise InvalidInput(
                f"{self.visit_text(name, arm_names[lost[0]])} is reported already: withdraw that first"
            )
        moved = dict.fromkeys(lost, arms[0]) if lost else {}
        told = {
            pair: known
            for pair, known in self.told.items()
            if pair[0] != agent or pair[1] not in moved
        }
        for arm, other in moved.items():
            told[agent, other] = replace(self.told[agent, arm], event=event)
        by_hand = {**self.moved, agent: arms}
        if arms == self.planned_arms(agent):  # as planned after all
            del by_hand[agent]
        return replace(self, moved=by_hand, told=told)

    def visit_text(self, agent: str, arm: str) -> str:
        """A visit of the round, in words."""
        return f"the visit of {agent!r} to {arm!r} in round {self.number}"
