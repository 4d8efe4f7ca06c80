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
from heterobandits.planner.matching import AgentArm, Circumstances
from heterobandits.planner.plans import Plan
from heterobandits.planner.visits import Outcome, RoundVisits, VisitReport

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
    held
        Who went where, and what is known of it.
    circumstances
        Those of its plan.
    """

    held: RoundVisits
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
        return cls(RoundVisits(number, assignment), plan.circumstances, agents, arms)

    def __str__(self) -> str:
        lines = [f"round {self.number}"]
        for agent, name in enumerate(self.agent_names):
            each = [
                f"{self.arm_names[n]}: {render_outcome(self._outcome((agent, n)))}"
                for n in self.held.arms_of(agent)
            ]
            lines.append(f"  {name} -> {', '.join(each) or 'stays home'}")
        return "\n".join(lines)

    @property
    def number(self) -> int:
        """From 1 on."""
        return self.held.number

    @property
    def assignment(self) -> tuple[int | None, ...]:
        """The arm that the plan has for each agent; None for an agent that it keeps home."""
        return self.held.assignment

    @property
    def outcomes(self) -> tuple[Any, ...]:
        """What each agent brought back, (successes, tests), or None as long as it is missing; a tuple of these of who went to several arms."""

        def of(agent: int) -> Any:
            each = tuple(self._outcome((agent, n)) for n in self.held.arms_of(agent))
            return each if len(each) > 1 else each[0] if each else None

        return tuple(of(agent) for agent in range(len(self.agent_names)))

    @property
    def sent(self) -> dict[str, str]:
        """The arm of each agent that went somewhere, by their names; several are joined by "and"."""
        pairs = ((a, self.held.arms_of(a)) for a in range(len(self.agent_names)))
        return {
            self.agent_names[a]: " and ".join(self.arm_names[n] for n in arms)
            for a, arms in pairs
            if arms
        }

    @property
    def planned(self) -> dict[str, str]:
        """The arm that the plan has for each agent that it sends somewhere, by their names."""
        pairs = zip(self.agent_names, self.assignment, strict=True)
        return {agent: self.arm_names[arm] for agent, arm in pairs if arm is not None}

    @property
    def missing(self) -> tuple[str, ...]:
        """The agents that went somewhere and of whom an outcome is not known."""
        return tuple(dict.fromkeys(self.agent_names[agent] for agent, _ in self.held.missing))

    @property
    def awaited(self) -> list[tuple[int, int]]:
        """Whose outcome is missing, and of which arm, by number."""
        return self.held.missing

    @property
    def visits(self) -> tuple[Visit, ...]:
        """What is known of the round, by agent."""
        return tuple(sorted(self.held.visits()))

    def told(self, outcomes: Any) -> "Round":
        """The round with these outcomes as well; refuses one that is there already."""
        counted = self._counted(self._by_visit(outcomes)).items()
        new = {pair: outcome for pair, outcome in counted if outcome is not None}
        for pair in new:
            if self._outcome(pair) is not None:
                raise InvalidInput(
                    f"round {self.number} has an outcome of {self.agent_names[pair[0]]!r} already, "
                    f"{render_outcome(self._outcome(pair))}: use correct to change it"
                )
        return self._with(new)

    def corrected(self, outcomes: Any) -> "Round":
        """The round with these outcomes in place of what is there; None, but not NaN, withdraws one."""
        given = self._by_visit(outcomes)
        counted = self._counted(given).items()
        return self._with({p: new for p, new in counted if new is not None or given[p] is None})

    def overridden(self, agent: Any, arms: Any) -> "Round":
        """The round with an agent who went to these arms, mostly one, or to none; its report moves along."""
        a = position_of_member(agent, "agent", self.agent_names)
        given = [arms] if isinstance(arms, str) else parse_list(arms, "arms", "arms, or one name")
        places = dict.fromkeys(position_of_member(key, "arm", self.arm_names) for key in given)
        held = self.held.overridden(a, tuple(places), self.agent_names[a], self.arm_names)
        return replace(self, held=held)

    def _outcome(self, pair: AgentArm) -> Outcome | None:
        known = self.held.told.get(pair)
        return None if known is None else known.counts

    def _with(self, changes: Mapping[AgentArm, Outcome | None]) -> "Round":
        known = dict(self.held.told)
        for pair, outcome in changes.items():
            known.pop(pair, None)
            if outcome is not None:
                known[pair] = VisitReport(outcome)
        return replace(self, held=replace(self.held, told=known))

    def _counted(self, outcomes: Mapping[AgentArm, Any]) -> dict[AgentArm, Outcome | None]:
        """What was reported of which visit, checked."""
        return {
            pair: None
            if is_missing(outcome)
            else parse_visit_outcome(outcome, self.agent_names[pair[0]])
            for pair, outcome in outcomes.items()
        }

    def _by_visit(self, outcomes: Any) -> dict[AgentArm, Any]:
        # a mapping, or a column of a data frame, has pairs
        if isinstance(outcomes, type) or not hasattr(outcomes, "items"):
            items = parse_list(outcomes, "outcomes", "outcomes, one per agent, or a mapping")
            if len(items) != len(self.agent_names):
                raise InvalidInput(
                    f"outcomes has {len(items)} entries: one for each of the "
                    f"{len(self.agent_names)} agents, None where it is missing"
                )
            listed = (self._visits_of(agent, item) for agent, item in enumerate(items))
            return {pair: outcome for each in listed for pair, outcome in each.items()}
        given: dict[AgentArm, Any] = {}
        for key, outcome in outcomes.items():
            if not isinstance(outcomes, Mapping) and not isinstance(key, (str, tuple)):
                raise InvalidInput(
                    f"outcomes is a column whose index has {repr_of(key)}: an index of the agents' names, "
                    "as set_index makes one of another column; row numbers do not say whose is whose"
                )
            if isinstance(key, tuple):
                agent, arm = positions_of_pair(key, "outcomes", self.agent_names, self.arm_names)
                if arm not in self.held.arms_of(agent):
                    raise InvalidInput(
                        f"outcomes has {self.agent_names[agent]!r} on {self.arm_names[arm]!r}: "
                        "the plan did not send it there"
                    )
                new = {(agent, arm): outcome}
            else:
                new = self._visits_of(position_of_member(key, "agent", self.agent_names), outcome)
            for pair in new:
                if pair in given:
                    raise InvalidInput(f"outcomes has {self.agent_names[pair[0]]!r} twice")
            given |= new
        return given

    def _visits_of(self, agent: int, outcome: Any) -> dict[AgentArm, Any]:
        """The visits of an agent with what is given for it: one outcome, or of several visits as many."""
        name, arms = self.agent_names[agent], self.held.arms_of(agent)
        if not arms and not is_missing(outcome):
            raise InvalidInput(
                f"outcomes has {repr_of(outcome)} for {name!r}: the plan sent it nowhere"
            )
        pairs = [(agent, n) for n in arms]
        if len(arms) < 2 or is_missing(outcome):
            return dict.fromkeys(pairs, outcome)
        each = outcome if isinstance(outcome, (tuple, list)) else ()
        if len(each) != len(arms) or not all(
            one is None or isinstance(one, (tuple, list)) for one in each
        ):
            places = ", ".join(self.arm_names[n] for n in arms)
            raise InvalidInput(
                f"{name!r} went to {places} in round {self.number}: say which arm it is of"
            )
        return dict(zip(pairs, each, strict=True))


def describe_differences(fixed: Round, made: Round) -> str:
    """The agents that two plans of a round send to different places, three at most."""

    def goes(record: Round, agent: str) -> str:
        return f"goes to {record.planned[agent]!r}" if agent in record.planned else "stays home"

    everyone = max(fixed.agent_names, made.agent_names, key=len)
    differ = [a for a in everyone if fixed.planned.get(a) != made.planned.get(a)]
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
