"""The next round as it would be planned now: one plan, and all that is said of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from heterobandits.caches import cached_property
from heterobandits.campaigns.analysis.prices import Prices, prices
from heterobandits.campaigns.plan_events import body_of_plan, explanations_of_plan, plan_of
from heterobandits.campaigns.reasons import Assigned, assignments_of
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.campaigns.state import State
from heterobandits.planner.plans import Explanation, Plan


@dataclass(frozen=True, eq=False)
class Preview:
    """A plan of the next round under these circumstances, which nobody has recorded; what is said of it is worked out once.

    Visits under way are `counted`, unless it is a plan again that was recorded before this was so.
    """

    state: State
    given: RoundGiven
    plan: Plan
    counted: bool = True

    @classmethod
    def of(cls, state: State, given: RoundGiven, *, counted: bool = True) -> "Preview":
        """The plan that follows from this state."""
        return cls(state, given, plan_of(state, given, counted=counted), counted)

    @property
    def assignments(self) -> list[Assigned]:
        """Who would go where, and why, by agent."""
        return assignments_of(self.state, self.plan)

    def explanations(self, agents: Iterable[int] | None = None) -> dict[int, Explanation]:
        """All there is to say of why, by number of the agent, of those who are sent; or of these alone, as each takes a while."""
        return explanations_of_plan(self.state, self.plan, counted=self.counted, agents=agents)

    @cached_property
    def prices(self) -> Prices:
        """What the round is expected to detect, and what each circumstance costs."""
        return prices(self.state, self.given, self.plan)

    @cached_property
    def body(self) -> dict[str, Any]:
        """The plan as it would stand in its event."""
        return body_of_plan(self.state, self.given, self.plan)
