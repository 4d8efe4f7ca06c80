"""Rounds as they took place: who was sent where, and what is known so far about the outcomes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heterobandits.errors import (
    InvalidInput,
    parse_integer,
    parse_list,
    position_of_member,
    positions_of_pair,
    repr_of,
)
from heterobandits.limits import COUNT_MAX
from heterobandits.planner.knowledge import Visit
from heterobandits.planner.matching import Circumstances
from heterobandits.planner.plans import Plan

Outcome = tuple[int, int]  # successes, tests

PLAN_FIELD_TYPES = {  # what is looked at of a plan, which somebody may have put together by hand
    "assignment": tuple,
    "reasons": tuple,
    "agent_names": tuple,
    "arm_names": tuple,
    "circumstances": Circumstances,
}


@dataclass(frozen=True)
class Round:
    """A round that was accepted.

    Attributes
    ----------
    number
        From 1 on.
    assignment
        The arm of each agent; None for an agent that stayed home.
    outcomes
        What each agent brought back, (successes, tests); None as long as it is missing.
    circumstances
        Those of its plan.
    """

    number: int
    assignment: tuple[int | None, ...]
    outcomes: tuple[Outcome | None, ...]
    circumstances: Circumstances
    agent_names: tuple[str, ...]
    arm_names: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan) -> "Round":
        """The round a plan makes, before any outcome."""
        for field, kind in PLAN_FIELD_TYPES.items():
            if not isinstance(getattr(plan, field), kind):
                raise InvalidInput(
                    f"the plan's {field} is {repr_of(getattr(plan, field))}: as ask() gives it"
                )
        number = parse_integer(plan.round, "the plan's round", 1)
        agents, arms = plan.agent_names, plan.arm_names
        if len(plan.assignment) != len(agents):
            raise InvalidInput(
                f"the plan's assignment is {repr_of(plan.assignment)}: one arm per agent"
            )
        assignment = parse_assignment(plan.assignment, len(arms))
        plan.circumstances.check(assignment, agents, arms)
        nothing = (None,) * len(agents)
        return cls(number, assignment, nothing, plan.circumstances, agents, arms)

    def __str__(self) -> str:
        lines = [f"round {self.number}"]
        for agent, outcome in zip(self.agent_names, self.outcomes, strict=True):
            here = f"{self.sent[agent]}: {render_outcome(outcome)}" if agent in self.sent else None
            lines.append(f"  {agent} -> {here or 'stays home'}")
        return "\n".join(lines)

    @property
    def sent(self) -> dict[str, str]:
        """The arm of each agent that was sent somewhere, by their names."""
        pairs = zip(self.agent_names, self.assignment, strict=True)
        return {agent: self.arm_names[arm] for agent, arm in pairs if arm is not None}

    @property
    def missing(self) -> tuple[str, ...]:
        """The agents that were sent somewhere and whose outcome is not known."""
        outcomes = dict(zip(self.agent_names, self.outcomes, strict=True))
        return tuple(agent for agent in self.sent if outcomes[agent] is None)

    @property
    def awaited(self) -> list[tuple[int, int]]:
        """Whose outcome is missing, and of which arm, by number."""
        pairs = enumerate(zip(self.assignment, self.outcomes, strict=True))
        return [(a, n) for a, (n, outcome) in pairs if n is not None and outcome is None]

    @property
    def visits(self) -> tuple[Visit, ...]:
        """What is known of the round."""
        return tuple(
            Visit(self.number, agent, arm, *outcome)
            for agent, (arm, outcome) in enumerate(zip(self.assignment, self.outcomes, strict=True))
            if arm is not None and outcome is not None
        )

    def told(self, outcomes: Any) -> "Round":
        """The round with these outcomes as well; refuses one that is there already."""
        counted = self._counted(self._by_agent(outcomes)).items()
        new = {agent: outcome for agent, outcome in counted if outcome is not None}
        for agent in new:
            if self.outcomes[agent] is not None:
                raise InvalidInput(
                    f"round {self.number} has an outcome of {self.agent_names[agent]!r} already, "
                    f"{render_outcome(self.outcomes[agent])}: use correct to change it"
                )
        return self._with(new)

    def corrected(self, outcomes: Any) -> "Round":
        """The round with these outcomes in place of what is there; None, but not NaN, withdraws one."""
        given = self._by_agent(outcomes)
        counted = self._counted(given).items()
        return self._with({a: new for a, new in counted if new is not None or given[a] is None})

    def _with(self, changes: Mapping[int, Outcome | None]) -> "Round":
        known = enumerate(self.outcomes)
        return replace(self, outcomes=tuple(changes.get(a, outcome) for a, outcome in known))

    def _counted(self, outcomes: Mapping[int, Any]) -> dict[int, Outcome | None]:
        """What was reported by whom, checked."""
        counted: dict[int, Outcome | None] = {}
        for agent, outcome in outcomes.items():
            name = self.agent_names[agent]
            missing = is_missing(outcome)
            if not missing and self.assignment[agent] is None:
                raise InvalidInput(
                    f"outcomes has {repr_of(outcome)} for {name!r}: the plan sent it nowhere"
                )
            counted[agent] = None if missing else parse_visit_outcome(outcome, name)
        return counted

    def _by_agent(self, outcomes: Any) -> dict[int, Any]:
        # a mapping, or a column of a data frame, has pairs
        if isinstance(outcomes, type) or not hasattr(outcomes, "items"):
            items = parse_list(outcomes, "outcomes", "outcomes, one per agent, or a mapping")
            if len(items) != len(self.agent_names):
                raise InvalidInput(
                    f"outcomes has {len(items)} entries: one for each of the "
                    f"{len(self.agent_names)} agents, None where it is missing"
                )
            return dict(enumerate(items))
        given: dict[int, Any] = {}
        for key, outcome in outcomes.items():
            if not isinstance(outcomes, Mapping) and not isinstance(key, (str, tuple)):
                raise InvalidInput(
                    f"outcomes is a column whose index has {repr_of(key)}: an index of the agents' names, "
                    "as set_index makes one of another column; row numbers do not say whose is whose"
                )
            if isinstance(key, tuple):
                agent, arm = positions_of_pair(key, "outcomes", self.agent_names, self.arm_names)
                if self.assignment[agent] != arm:
                    raise InvalidInput(
                        f"outcomes has {self.agent_names[agent]!r} on {self.arm_names[arm]!r}: "
                        "the plan did not send it there"
                    )
            else:
                agent = position_of_member(key, "agent", self.agent_names)
            if agent in given:
                raise InvalidInput(f"outcomes has {self.agent_names[agent]!r} twice")
            given[agent] = outcome
        return given


def describe_differences(fixed: Round, made: Round) -> str:
    """The agents that two plans of a round send to different places, three at most."""

    def goes(record: Round, agent: str) -> str:
        return f"goes to {record.sent[agent]!r}" if agent in record.sent else "stays home"

    everyone = max(fixed.agent_names, made.agent_names, key=len)
    differ = [a for a in everyone if fixed.sent.get(a) != made.sent.get(a)]
    said = [f"{a!r} {goes(fixed, a)} there and {goes(made, a)} here" for a in differ[:3]]
    return ", ".join(said) + (", ..." if differ[3:] else "")


def parse_assignment(assignment: Any, arms: int) -> tuple[int | None, ...]:
    """An assignment with the arms as numbers, no two agents on one."""
    places = tuple(
        None if n is None else parse_integer(n, "an arm of the assignment", 0, arms - 1)
        for n in parse_list(assignment, "assignment", "arms")
    )
    sent = [n for n in places if n is not None]
    if len(set(sent)) < len(sent):
        raise InvalidInput(f"the assignment is {repr_of(places)}: each agent an arm of its own")
    return places


def render_outcome(outcome: Outcome | None) -> str:
    """An outcome as people read it."""
    return "no outcome yet" if outcome is None else f"{outcome[0]} of {outcome[1]}"


def is_missing(outcome: Any) -> bool:
    """Whether a value means that there is no outcome: None, NaN or pandas.NA."""
    if isinstance(outcome, (float, np.floating)):
        return math.isnan(outcome)
    return outcome is None or type(outcome).__name__ == "NAType"


def unwrap_float_count(number: Any) -> Any:
    """A whole number that a data frame holds as a float, as an int; anything else unchanged."""
    whole = isinstance(number, (float, np.floating)) and float(number).is_integer()
    return int(number) if whole else number


def parse_visit_outcome(outcome: Any, agent: str) -> Outcome:
    """An outcome, 0 or 1 or (successes, tests), as (successes, tests)."""
    if isinstance(outcome, (bool, np.bool_)):
        return int(outcome), 1
    if isinstance(outcome, (tuple, list)) and len(outcome) == 2:
        n = parse_integer(unwrap_float_count(outcome[1]), f"the tests of {agent!r}", 0, COUNT_MAX)
        k = parse_integer(unwrap_float_count(outcome[0]), f"the successes of {agent!r}", 0)
        if k > n:
            raise InvalidInput(
                f"the outcome of {agent!r} is {repr_of(k)} successes of {n} tests: at most all of them"
            )
        return k, n
    try:
        return parse_integer(unwrap_float_count(outcome), "outcome", 0, 1), 1
    except InvalidInput:
        raise InvalidInput(
            f"the outcome of {agent!r} is {repr_of(outcome)}: "
            "0, 1, a pair (successes, tests), or None or NaN where it is missing"
        ) from None
