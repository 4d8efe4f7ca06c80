"""The plan of a round, and its explanation, as functions of what is known. Nothing is kept here.

Index rows and the assignment come from the very kernels the simulator runs, on a block of one
trial. Agents are as listed.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from heterobandits.core.assignment import BY_CHANCE, BY_INDEX
from heterobandits.core.randomness import round_words, slots
from heterobandits.errors import InvalidInput
from heterobandits.model.team import Team
from heterobandits.planner.certainty import Certainty
from heterobandits.planner.knowledge import Knowledge
from heterobandits.planner.matching import (
    Circumstances,
    Floats,
    Luck,
    favouring,
    match,
    next_in_turn,
    next_with_pairs,
)
from heterobandits.planner.plans import Code, Explanation, Plan, Reason
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
    matched = match(rows, policy.dealt, team, luck, circumstances)
    index = index_table(team, policy, rows)
    assignment = tuple(matched.get(a) for a in range(len(team)))
    return Plan(
        round=address.round,
        assignment=assignment,
        index=in_tuples(team, policy, rows),
        reasons=tuple(
            reason_for(policy, knowledge, rows, index, circumstances, assignment, a)
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
    """Who would go where under each of these circumstances, as `plan` has it; None where no assignment is left."""
    check_arguments(team, arms, policy, knowledge)
    luck = luck_of(team, len(arms), policy, address)
    rows = index_rows(team, policy, knowledge, address)
    for one in circumstances:
        try:
            yield match(rows, policy.dealt, team, luck, one)
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
    """Whether the plan might be this assignment, had ties been broken otherwise; never, where all is drawn at random."""
    check_arguments(team, arms, policy, knowledge)
    luck = luck_of(team, len(arms), policy, address)
    rows = index_rows(team, policy, knowledge, address)
    favoured = favouring(policy.dealt, team, luck, assignment)
    return policy.learns and match(rows, policy.dealt, team, favoured, circumstances) == assignment


def explain_plan(
    team: Team,
    arms: tuple[str, ...],
    policy: Policy,
    knowledge: Knowledge,
    address: Address,
    plan: Plan,
    changed: Collection[int] = (),
    known: Certainty | None = None,
) -> tuple[Explanation, ...]:
    """Why each agent is sent where it is, by a plan that was made with the same arguments.

    Of arms that have changed the plan knows nothing: they are marked, and nothing that is certain rests on them. What is
    `known` of the arms, without these, may have been worked out already.
    """
    check_arguments(team, arms, policy, knowledge)
    luck = luck_of(team, len(arms), policy, address)
    rows = index_rows(team, policy, knowledge, address)
    if plan.index != in_tuples(team, policy, rows):
        raise InvalidInput(
            f"the plan for round {plan.round} was made with other outcomes than count now, or for another length of the "
            "season: explain a plan before outcomes of earlier rounds are told, corrected or forgotten"
        )
    known = known or Certainty(team, knowledge.tables, policy.delta, tuple(changed))
    estimate, (_, lower, upper), order = known.posteriors.mean, known.intervals, known.order
    recalled, _ = knowledge.tables
    seen = recalled.sum(axis=0)
    turns = BY_CHANCE if policy.first == "random" else BY_INDEX
    greedy = match(estimate[None], turns, team, luck, plan.circumstances)
    explanations = []
    for agent, arm in enumerate(plan.assignment):
        if arm is None:
            continue
        other, flip = runner_up(team, policy, rows, luck, plan, agent, arm)
        exploits = greedy.get(agent) == arm and seen[arm] > 0
        explanations.append(
            Explanation(
                agent=team.names[agent],
                reason=plan.reasons[agent],
                arm=arms[arm],
                estimate=float(estimate[arm]),
                lower=float(lower[arm]),
                upper=float(upper[arm]),
                best_rank=1 if order is None else int(order.best[arm]),
                worst_rank=len(arms) if order is None else int(order.worst[arm]),
                index=plan.index[agent][arm],
                pulls=round(float(seen[arm])),
                own_pulls=round(float(recalled[agent, arm])),
                mode="exploit" if exploits else "explore",
                runner_up=None if other is None else arms[other],
                runner_up_index=None if other is None else plan.index[agent][other],
                flip_index=flip,
                changed=arm in changed,
            )
        )
    return tuple(explanations)


def plannable(policy: Policy) -> Policy:
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
    plannable(policy)
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
    """The policy's index rows: (1 or agents, arms) or, where it sorts by a second row, (2, arms)."""
    pulls, successes = (t[:, :, None].copy() for t in knowledge.tables)
    words = partial(round_words, *address)
    elapsed = knowledge.rounds if policy.in_season else knowledge.elapsed
    return policy.index_rows(team, pulls, successes, elapsed, words)[:, :, 0]


def index_table(team: Team, policy: Policy, rows: Floats) -> Floats:
    """The index of every agent for every arm."""
    index = rows[:1] if policy.sorted_by == "estimate" else rows
    return np.broadcast_to(index, (len(team), rows.shape[1]))


def in_tuples(team: Team, policy: Policy, rows: Floats) -> tuple[tuple[float, ...], ...]:
    """The same for a plan; where all agents have one index, they share it."""
    shared = policy.sorted_by == "estimate" or len(rows) == 1
    own = tuple(map(tuple, (rows[:1] if shared else rows).tolist()))
    return own * len(team) if shared else own


def reason_for(
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
    code: Code
    if (agent, arm) in circumstances.forced:
        code = "forced"
    elif math.isinf(here) and not knowledge.pulls[agent if own else slice(None), arm].any():
        code = "unseen by it" if own else "unseen"
    elif math.isinf(here) and policy.forgets:
        code = "forgotten"
    elif not policy.learns:
        code = "random"
    elif by_estimate:
        higher = index[agent] > here
        higher[list(circumstances.closed)] = False
        high = int(higher.sum()) < visited
        code = "best to be had" if not high else "highest" if visited == 1 else "among the highest"
    else:
        code = "best allowed" if circumstances.paired else "highest left"
    return Reason(code, here, float(rows[1, arm]) if by_estimate else None, visited)


def runner_up(
    team: Team, policy: Policy, rows: Floats, luck: Luck, plan: Plan, agent: int, arm: int
) -> tuple[int | None, float | None]:
    """The arm that would get this agent next, and what the index of its arm would have to be."""
    circumstances = plan.circumstances
    sent = {a: n for a, n in enumerate(plan.assignment) if n is not None}
    if (agent, arm) in circumstances.forced:
        return None, None
    if circumstances.paired:
        return next_with_pairs(rows, policy.dealt, team, luck, circumstances, sent, agent)
    if policy.sorted_by == "estimate":
        return next_in_set(team, policy, rows, luck, plan, agent, arm)
    table = np.array(plan.index)
    other = next_in_turn(table, policy.dealt, team, circumstances, sent, agent)
    return other, None if other is None else float(table[agent, other])


def next_in_set(
    team: Team, policy: Policy, rows: Floats, luck: Luck, plan: Plan, agent: int, arm: int
) -> tuple[int | None, float | None]:
    """The same where the index decides which arms are visited: an arm drops out below the next highest."""
    circumstances, index = plan.circumstances, plan.index[agent]
    without = circumstances._replace(closed=circumstances.closed | {arm})
    other = match(rows, policy.dealt, team, luck, without).get(agent)
    outside = set(range(len(index))) - circumstances.closed - set(plan.assignment)
    return other, max((index[n] for n in outside), default=None)
