"""What a planner hands to people: the plan of a round, and why each agent is sent where it is."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Pair = tuple[int, int]


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
    """

    round: int
    assignment: tuple[int | None, ...]
    index: tuple[tuple[float, ...], ...]
    reasons: tuple[str, ...]
    agent_names: tuple[str, ...]
    arm_names: tuple[str, ...]
    absent: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    forbidden: frozenset[Pair] = frozenset()
    forced: frozenset[Pair] = frozenset()

    def __str__(self) -> str:
        lines = [f"round {self.round}"]
        for agent, arm, reason in zip(self.agent_names, self.assignment, self.reasons, strict=True):
            place = "stays home" if arm is None else self.arm_names[arm]
            lines.append(f"  {agent} -> {place}: {reason}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Explanation:
    """Why an agent is sent to an arm.

    Attributes
    ----------
    estimate, lower, upper
        Min-Width's estimate of the arm's mean and its interval, valid under adaptive sampling.
    index
        The number the policy ranks by.
    pulls, own_pulls
        How often the arm was pulled, by all agents and by this one.
    mode
        "exploit" if the estimates alone would send the agent to the same arm, else "explore".
    runner_up, runner_up_index
        The arm this agent would go to if its own were not to be had; None if there is no other.
    flip_index
        What the index of the agent's arm would have to be, all else as it is, for the agent to
        go to the runner-up instead.
    """

    agent: str
    arm: str
    estimate: float
    lower: float
    upper: float
    index: float
    pulls: int
    own_pulls: int
    mode: Literal["explore", "exploit"]
    runner_up: str | None
    runner_up_index: float | None
    flip_index: float | None

    def __str__(self) -> str:
        seen = (
            f"estimated {self.estimate:.3f} in [{self.lower:.3f}, {self.upper:.3f}] "
            f"from {self.pulls} pulls ({self.own_pulls} its own)"
            if self.pulls
            else "never pulled"
        )
        text = f"{self.agent} -> {self.arm} to {self.mode}: {seen}; index {self.index:.3f}"
        if self.runner_up is None or self.runner_up_index is None:
            return f"{text}; no other arm could be had"
        if self.flip_index == self.index:
            return f"{text}; tied with {self.runner_up}, chance decided"
        return (
            f"{text}; next is {self.runner_up} with {self.runner_up_index:.3f}, "
            f"if the index of {self.arm} were {self.flip_index:.3f}"
        )


class Circumstances(NamedTuple):
    """What is particular about a round."""

    absent: frozenset[int]
    closed: frozenset[int]
    forbidden: frozenset[Pair]
    forced: frozenset[Pair]
