"""What a planner hands to people: the plan of a round, and why each agent is sent where it is."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from heterobandits.errors import (
    MOST,
    InvalidInput,
    listed,
    located,
    located_pair,
    shown,
    whole_number,
)
from heterobandits.matching import Circumstances


@dataclass(frozen=True)
class Plan:
    """Who goes where in a round, and the index table behind it.

    Attributes
    ----------
    round
        The number of the round, from 1 on.
    assignment
        The arm of each agent; None for an agent that stays home.
    index
        The index of every agent (row) for every arm (column). For a policy that ranks whole
        assignments, the highest index among the assignments with that pair.
    reasons
        One line for each agent.
    circumstances
        Who was absent, what was closed, forbidden or forced, by number.
    """

    round: int
    assignment: tuple[int | None, ...]
    index: tuple[tuple[float, ...], ...]
    reasons: tuple[str, ...]
    agent_names: tuple[str, ...]
    arm_names: tuple[str, ...]
    circumstances: Circumstances

    def __str__(self) -> str:
        lines = [f"round {self.round}"]
        for agent, arm, reason in zip(self.agent_names, self.assignment, self.reasons, strict=True):
            place = "stays home" if arm is None else self.arm_names[arm]
            lines.append(f"  {agent} -> {place}: {reason}")
        return "\n".join(lines)

    def counted(self, outcomes: Any) -> list[tuple[int, int, int, int]]:
        """(agent, arm, successes, tests) of every outcome reported, as `Planner.tell` takes them."""
        counted = []
        for agent, outcome in self._by_agent(outcomes).items():
            name, arm = self.agent_names[agent], self.assignment[agent]
            if outcome is None:
                continue
            if arm is None:
                raise InvalidInput(
                    f"outcomes has {shown(outcome)} for {name!r}: the plan sent it nowhere"
                )
            counted.append((agent, arm, *counted_outcome(outcome, name)))
        return counted

    def _by_agent(self, outcomes: Any) -> dict[int, Any]:
        if not isinstance(outcomes, Mapping):
            items = listed(outcomes, "outcomes", "outcomes, one per agent, or a mapping")
            if len(items) != len(self.agent_names):
                raise InvalidInput(
                    f"outcomes has {len(items)} entries: one for each of the "
                    f"{len(self.agent_names)} agents, None where it is missing"
                )
            return dict(enumerate(items))
        given: dict[int, Any] = {}
        for key, outcome in outcomes.items():
            if isinstance(key, tuple):
                agent, arm = located_pair(key, "outcomes", self.agent_names, self.arm_names)
                if self.assignment[agent] != arm:
                    raise InvalidInput(
                        f"outcomes has {self.agent_names[agent]!r} on {self.arm_names[arm]!r}: "
                        "the plan did not send it there"
                    )
            else:
                agent = located(key, "agent", self.agent_names)
            if agent in given:
                raise InvalidInput(f"outcomes has {self.agent_names[agent]!r} twice")
            given[agent] = outcome
        return given


@dataclass(frozen=True)
class Explanation:
    """Why an agent is sent to an arm.

    Attributes
    ----------
    reason
        The plan's reason for this agent.
    estimate, lower, upper
        The posterior mean of the arm and an interval for its mean that holds in all rounds at once.
    best_rank, worst_rank
        The best and the worst rank the arm can have among all arms, counted from 1; this holds
        in all rounds at once, too.
    index
        The number the policy ranks by.
    pulls, own_pulls
        How often the arm was pulled, by all agents and by this one.
    mode
        "exploit" if the estimates alone would send the agent to the same arm, else "explore".
    runner_up, runner_up_index
        The arm this agent would go to if its own were not to be had; None if there is no other.
    flip_index
        What the index of the agent's arm would have to fall below (or, if it is higher than the
        index, rise above), all else as it is, for the agent to go to the runner-up instead.
    """

    agent: str
    arm: str
    reason: str
    estimate: float
    lower: float
    upper: float
    best_rank: int
    worst_rank: int
    index: float
    pulls: int
    own_pulls: int
    mode: Literal["explore", "exploit"]
    runner_up: str | None
    runner_up_index: float | None
    flip_index: float | None

    def _rank(self) -> str:
        if self.best_rank == self.worst_rank:
            return f"certainly rank {self.best_rank}"
        return f"rank {self.best_rank} to {self.worst_rank}"

    def __str__(self) -> str:
        times = "1 pull" if self.pulls == 1 else f"{self.pulls} pulls"
        seen = (
            f"estimated {self.estimate:.3f} in [{self.lower:.3f}, {self.upper:.3f}] "
            f"from {times}, {self.own_pulls} its own, {self._rank()}"
            if self.pulls
            else "no pulls yet"
        )
        text = f"{self.agent} -> {self.arm} to {self.mode}: {seen}; {self.reason}"
        if self.runner_up is None or self.runner_up_index is None:
            return text if self.reason == "forced" else f"{text}; it could go nowhere else"
        if self.flip_index is None:
            return f"{text}; after it {self.runner_up} ({self.runner_up_index:.3f})"
        if self.flip_index == self.index or math.isclose(self.flip_index, self.index, rel_tol=1e-9):
            return f"{text}; tied with {self.runner_up}, chance decided"
        moves = "fell below" if self.flip_index < self.index else "rose above"
        return (
            f"{text}; would go to {self.runner_up} ({self.runner_up_index:.3f}) "
            f"if {self.arm} {moves} {self.flip_index:.3f}"
        )


def counted_outcome(outcome: Any, agent: str) -> tuple[int, int]:
    """An outcome, 0 or 1 or (successes, tests), as (successes, tests)."""
    if isinstance(outcome, (bool, np.bool_)):
        return int(outcome), 1
    if isinstance(outcome, (tuple, list)) and len(outcome) == 2:
        n = whole_number(outcome[1], f"the tests of {agent!r}", 0, MOST)
        k = whole_number(outcome[0], f"the successes of {agent!r}", 0)
        if k > n:
            raise InvalidInput(
                f"the outcome of {agent!r} is {shown(k)} successes of {n} tests: at most all of them"
            )
        return k, n
    try:
        return whole_number(outcome, "outcome", 0, 1), 1
    except InvalidInput:
        raise InvalidInput(
            f"the outcome of {agent!r} is {shown(outcome)}: "
            "0, 1, a pair (successes, tests), or None"
        ) from None
