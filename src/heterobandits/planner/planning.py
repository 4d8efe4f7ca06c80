"""The plan of a round as a function of what is known. Nothing is kept here.

Index rows and the assignment come from the very kernels the simulator runs, on a block of one
trial. Agents are as listed.
"""

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.core.assignment import BY_CHANCE
from heterobandits.core.leading import FIRST
from heterobandits.core.randomness import round_words, slots
from heterobandits.errors import InvalidInput
from heterobandits.model.team import Team
from heterobandits.planner.knowledge import Knowledge
from heterobandits.planner.matching import Circumstances, Luck, luck_favouring, match_agents
from heterobandits.planner.plans import Plan, Reason, ReasonCode
from heterobandits.policies.policy import Policy


class Address(NamedTuple):
    """Where the random words of a round stand."""

    seed: int
    trial: int
    round: int


def plan(
    team: Team,
    arms: tuple[str, ...],
    policy: Policy,
    knowledge: Knowledge,
    address: Address,
    circumstances: Circumstances,
) -> Plan:
    """Who goes where in the round at this address, if this is known and these are the circumstances.

    Examples
    --------
    >>> from heterobandits.policies.policy import policy
    >>> team, arms = Team([0.95, 0.8]), ("north", "east", "south")
    >>> known = Knowledge.of(2, 3, pulls=[[9, 9, 9], [9, 9, 9]], successes=[[8, 2, 5], [7, 1, 4]])
    >>> closed = Circumstances.of(team.names, arms, closed=["north"])
    >>> plan(team, arms, policy("min-width"), known, Address(0, 0, 1), closed).assignment
    (2, 1)
    """
    check_arguments(team, arms, policy, knowledge)
    luck = luck_of(team, len(arms), policy, address)
    rows = index_rows(team, policy, knowledge, address)
    matched = match_agents(rows, policy.dealt, team, luck, circumstances)
    index = index_table(team, policy, rows)
    assignment = tuple(matched.get(a) for a in range(len(team)))
    return Plan(
        round=address.round,
        assignment=assignment,
        index=index_tuples(team, policy, rows),
        reasons=tuple(
            reason_of_agent(team, policy, knowledge, rows, index, circumstances, assignment, a)
            for a in range(len(team))
        ),
        agent_names=team.names,
        arm_names=arms,
        circumstances=circumstances,
    )


def assignments_under(
    team: Team,
    arms: tuple[str, ...],
    policy: Policy,
    knowledge: Knowledge,
    address: Address,
    circumstances: Iterable[Circumstances],
) -> Iterator[dict[int, int] | None]:
    """Each circumstance's assignment, as `plan` would make it; None where there is none."""
    check_arguments(team, arms, policy, knowledge)
    luck = luck_of(team, len(arms), policy, address)
    rows = index_rows(team, policy, knowledge, address)
    for one in circumstances:
        try:
            yield match_agents(rows, policy.dealt, team, luck, one)
        except InvalidInput:
            yield None


def might_tie(
    team: Team,
    arms: tuple[str, ...],
    policy: Policy,
    knowledge: Knowledge,
    address: Address,
    circumstances: Circumstances,
    assignment: dict[int, int],
) -> bool:
    """Whether another way to break ties could have made this assignment; never if everything is random."""
    check_arguments(team, arms, policy, knowledge)
    luck = luck_of(team, len(arms), policy, address)
    rows = index_rows(team, policy, knowledge, address)
    favoured = luck_favouring(policy.dealt, team, luck, assignment)
    return (
        policy.learns
        and match_agents(rows, policy.dealt, team, favoured, circumstances) == assignment
    )


def check_plannable(policy: Policy) -> Policy:
    """The policy, if it can be planned with."""
    if policy.simulated_only:
        raise InvalidInput(
            f"{policy.name} {policy.simulated_only}: it can be simulated, not planned with"
        )
    return policy


def check_arguments(
    team: Team, arms: tuple[str, ...], policy: Policy, knowledge: Knowledge
) -> None:
    """Refuse a policy that cannot be planned with, and tables of other agents or arms."""
    check_plannable(policy)
    if knowledge.pulls.shape != (len(team), len(arms)):
        raise InvalidInput(
            f"the tables have the shape {knowledge.pulls.shape}: "
            f"there are {len(team)} agents and {len(arms)} arms"
        )


def luck_of(team: Team, arms: int, policy: Policy, address: Address) -> Luck:
    """The random words of the round, with the agents as listed."""
    agents = len(team)
    where = slots(agents, arms)
    place = np.argsort(team.order)  # the words belong to turns
    own = agents if policy.index_per == "agent" else 0
    return Luck(
        arms=round_words(*address, where.ties, arms)[:, 0],
        own=round_words(*address, where.ties, own * arms).reshape(own, arms)[place[:own]],
        turns=round_words(*address, where.draws, agents)[place, 0],
    )


def index_rows(team: Team, policy: Policy, knowledge: Knowledge, address: Address) -> Floats:
    """The policy's index rows: (1 or agents, arms), or (2, arms) if it sorts by a second row."""
    tables = knowledge.tables_of_plan(team, policy.prior_of(knowledge.prior))
    pulls, successes = (t[:, :, None].copy() for t in tables)
    words = partial(round_words, *address)
    elapsed = knowledge.rounds if policy.in_season else knowledge.elapsed
    rows = policy.index_rows(team, pulls, successes, elapsed, words, knowledge.prior)
    return rows[:, :, 0]


def index_table(team: Team, policy: Policy, rows: Floats) -> Floats:
    """The index of every agent for every arm."""
    index = rows[:1] if policy.sorted_by == "estimate" else rows
    return np.broadcast_to(index, (len(team), rows.shape[1]))


def index_tuples(team: Team, policy: Policy, rows: Floats) -> tuple[tuple[float, ...], ...]:
    """The index table as tuples for a plan; agents share one if they have the same index."""
    shared = policy.sorted_by == "estimate" or len(rows) == 1
    own = tuple(map(tuple, (rows[:1] if shared else rows).tolist()))
    return own * len(team) if shared else own


def reason_of_agent(
    team: Team,
    policy: Policy,
    knowledge: Knowledge,
    rows: Floats,
    index: Floats,
    circumstances: Circumstances,
    assignment: tuple[int | None, ...],
    agent: int,
) -> Reason:
    """Why an agent goes where it goes, or nowhere."""
    arm = assignment[agent]
    if arm is None:
        gone, away = agent in circumstances.left, agent in circumstances.absent
        return Reason("left" if gone else "absent" if away else "no arm")
    here = float(index[agent, arm])
    by_estimate = policy.sorted_by == "estimate"
    visited = sum(n is not None for n in assignment)
    own = policy.index_per == "agent"
    there = knowledge.agents_under_way(arm)
    pulled = knowledge.pulls[agent if own else slice(None), arm].any()
    unseen = not pulled and not (agent in there if own else there)
    code: ReasonCode
    if (agent, arm) in circumstances.forced:
        code = "forced"
    elif math.isinf(here) and unseen:
        code = "unseen by it" if own else "unseen"
    elif math.isinf(here) and policy.forgets:
        code = "forgotten"
    elif not policy.learns:
        code = "random"
    elif policy.leads and here > 0.5 * FIRST:
        code = "beginning"
    elif by_estimate:
        higher = index[agent] > here
        higher[list(circumstances.closed)] = False
        high = int(higher.sum()) < visited
        if policy.leads:
            challenges = here > rows[1, arm]
            code = "best allowed" if not high else "challenger" if challenges else "leading"
        else:
            code = (
                "best to be had" if not high else "highest" if visited == 1 else "among the highest"
            )
    else:
        code = "best allowed" if circumstances.paired else "highest left"
    pulls, successes = (round(float(table[:, arm].sum())) for table in knowledge.tables)
    judged = policy.learns and code != "forced" and not circumstances.paired
    place = place_of_agent(team, policy, rows, assignment, agent) if judged else None
    return Reason(
        code,
        here,
        float(rows[1, arm]) if by_estimate else None,
        visited,
        bool(there),
        pulls=pulls,
        successes=successes,
        lot=count_equals(policy, rows, index[agent], circumstances, arm) if judged else None,
        place=place,
        finds=None if place is None else team.sensitivities[agent],
    )


def count_equals(
    policy: Policy, rows: Floats, index: Floats, circumstances: Circumstances, arm: int
) -> int | None:
    """How many open arms are as good to the policy as this one, itself among them; None if no other is."""
    alike = index == index[arm]
    if policy.sorted_by == "estimate":
        alike &= rows[1] == rows[1, arm]
    alike[list(circumstances.closed)] = False
    count = int(alike.sum())
    return count if count > 1 else None


def place_of_agent(
    team: Team,
    policy: Policy,
    rows: Floats,
    assignment: tuple[int | None, ...],
    agent: int,
) -> int | None:
    """Why an agent goes to its arm and not to another one that is visited, as `Reason.place` says it."""
    sent = {a: n for a, n in enumerate(assignment) if n is not None}
    going, arms = list(sent), list(sent.values())
    if len({team.tests[a] for a in going}) > 1 or len({team.sensitivities[a] for a in going}) < 2:
        return None  # eyes alone do not say who finds most
    worth = team.worth[going]
    eyes = 1 + int((worth > team.worth[agent]).sum())
    if policy.sorted_by == "estimate":
        means = rows[1, arms]
        place = 1 + int((means > rows[1, sent[agent]]).sum())
        alone = int((means == rows[1, sent[agent]]).sum()) == 1
        return place if place == eyes and alone else None
    if policy.dealt == BY_CHANCE:
        return None
    return 1 + [a for a in team.order.tolist() if a in sent].index(agent)
