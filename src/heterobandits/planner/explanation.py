"""Why each agent goes where a plan sends it: what is known of its arm, where it would go next, and at which index.

An explanation is made of the very index rows that the plan was made of.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.core.assignment import BY_CHANCE, BY_INDEX
from heterobandits.errors import InvalidInput
from heterobandits.inference.beliefs import Beliefs
from heterobandits.interrupts import end_abandoned_work
from heterobandits.model.team import Team
from heterobandits.planner.certainty import Certainty
from heterobandits.planner.knowledge import Knowledge
from heterobandits.planner.matching import (
    Circumstances,
    Exact,
    IndexRow,
    Luck,
    add_to_matching,
    agents_in_turn,
    allowed_pairs,
    deal_arms,
    has_own_rows,
    match_agents,
    match_with_pairs,
    turn_weights,
)
from heterobandits.planner.planning import (
    Address,
    check_arguments,
    index_rows,
    index_tuples,
    luck_of,
)
from heterobandits.planner.plans import Explanation, Plan
from heterobandits.policies.policy import Policy


def explain_plan(
    team: Team,
    arms: tuple[str, ...],
    policy: Policy,
    knowledge: Knowledge,
    address: Address,
    plan: Plan,
    changed: Collection[int] = (),
    known: Certainty | None = None,
    agents: Collection[int] | None = None,
) -> tuple[Explanation, ...]:
    """Why each agent is sent where it is, by a plan that was made with the same arguments.

    Of arms that have changed the plan knows nothing: they are marked, and nothing that is certain rests on them. What is
    `known` of the arms, without these, may have been worked out already. Each agent takes a plan of its own: of many perhaps only some
    `agents` are asked about.
    """
    check_arguments(team, arms, policy, knowledge)
    luck = luck_of(team, len(arms), policy, address)
    rows = index_rows(team, policy, knowledge, address)
    if plan.index != index_tuples(team, policy, rows):
        raise InvalidInput(
            f"the plan for round {plan.round} was made with other outcomes than count now, or for another length of the "
            "season: explain a plan before outcomes of earlier rounds are told, corrected or forgotten"
        )
    known = known or Certainty(
        team, knowledge.tables, policy.delta, tuple(changed), knowledge.prior
    )
    (_, lower, upper), order = known.intervals, known.order
    estimate = estimates_for_plan(team, policy, knowledge, known)
    recalled, _ = knowledge.tables
    seen = recalled.sum(axis=0)
    turns = BY_CHANCE if policy.first == "random" else BY_INDEX
    greedy = match_agents(estimate[None], turns, team, luck, plan.circumstances)
    explanations = []
    for agent, arm in enumerate(plan.assignment):
        if arm is None or not (agents is None or agent in agents):
            continue
        end_abandoned_work()
        other, flip = runner_up_of(team, policy, rows, luck, plan, agent, arm)
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
                under_way=tuple(team.names[a] for a in knowledge.agents_under_way(arm)),
            )
        )
    return tuple(explanations)


def runner_up_of(
    team: Team, policy: Policy, rows: Floats, luck: Luck, plan: Plan, agent: int, arm: int
) -> tuple[int | None, float | None]:
    """The arm that would get this agent next, and what the index of its arm would have to be."""
    circumstances = plan.circumstances
    sent = {a: n for a, n in enumerate(plan.assignment) if n is not None}
    if (agent, arm) in circumstances.forced:
        return None, None
    if circumstances.paired:
        return next_arm_with_pairs(rows, policy.dealt, team, luck, circumstances, sent, agent)
    if policy.sorted_by == "estimate":
        return next_arm_in_set(team, policy, rows, luck, plan, agent, arm)
    table = np.array(plan.index)
    other = next_arm_in_turn(table, policy.dealt, team, circumstances, sent, agent)
    return other, None if other is None else float(table[agent, other])


def next_arm_in_set(
    team: Team, policy: Policy, rows: Floats, luck: Luck, plan: Plan, agent: int, arm: int
) -> tuple[int | None, float | None]:
    """`runner_up_of` where the index decides which arms are visited: an arm drops out below the next highest."""
    circumstances, index = plan.circumstances, plan.index[agent]
    without = circumstances._replace(closed=circumstances.closed | {arm})
    other = match_agents(rows, policy.dealt, team, luck, without).get(agent)
    outside = set(range(len(index))) - circumstances.closed - set(plan.assignment)
    return other, max((index[n] for n in outside), default=None)


def estimates_for_plan(
    team: Team, policy: Policy, knowledge: Knowledge, known: Certainty
) -> Floats:
    """The posterior means of all arms, by the prior that the policy goes by."""
    prior = policy.prior_of(knowledge.prior)
    if prior is None:
        return known.posteriors.mean
    return Beliefs.of(team, *knowledge.tables, prior).mean


def next_arm_in_turn(
    table: Floats,
    dealt: int,
    team: Team,
    circumstances: Circumstances,
    assignment: dict[int, int],
    agent: int,
) -> int | None:
    """The best arm that is still free at this agent's turn, if its own were not available."""
    index, mine = table[agent], assignment[agent]
    if dealt == BY_CHANCE:  # turn by turn the arms go in the order of their index
        before = {n for n in assignment.values() if index[n] > index[mine]}
    else:
        order = team.order.tolist()
        before = {assignment[a] for a in order[: order.index(agent)] if a in assignment}
    free = set(range(len(index))) - circumstances.closed - before - {mine}
    return max(sorted(free), key=lambda n: index[n], default=None)


def next_arm_with_pairs(
    rows: Floats,
    dealt: int,
    team: Team,
    luck: Luck,
    circumstances: Circumstances,
    assignment: dict[int, int],
    agent: int,
) -> tuple[int | None, float | None]:
    """Where the agent would go next given these pairs, and the index of its arm at which it would.

    The agent keeps its arm as long as the arm's index stays in an interval: below, the arm is not visited or
    goes to somebody with less weight or a later turn, above to somebody with more or an earlier one. Its ends
    are among the `thresholds`, between which nothing changes; which of them it is says the match itself, with
    an index between two. The lower end comes first. Without any, the runner-up is where the agent would go
    if it were forbidden to go where it goes.
    """
    arm = assignment[agent]
    exact: list[list[Exact]] = [list(row) for row in rows.tolist()]
    row = exact[agent if has_own_rows(rows, dealt) else 0]
    here = row[arm]

    def goes(x: Exact) -> int:
        row[arm] = x
        try:
            return match_with_pairs(exact, dealt, team, luck, circumstances)[agent]
        finally:
            row[arm] = here

    ends = match_thresholds(exact, dealt, team, luck, circumstances, assignment, agent)
    below = sorted((x for x in ends if -math.inf < x <= here), reverse=True)
    above = sorted(x for x in ends if here <= x < math.inf)
    for some, last in ((below, -math.inf), (above, math.inf)):
        beyond = [number_between(x, y) for x, y in pairwise([*some, last])]
        first = bisect_left(beyond, True, key=lambda x: goes(x) != arm)
        if first < len(some):
            return goes(beyond[first]), float(some[first])
    never = circumstances._replace(forbidden=circumstances.forbidden | {(agent, arm)})
    try:
        return match_with_pairs(rows, dealt, team, luck, never).get(agent), None
    except InvalidInput:  # nothing else is left
        return None, None


def match_thresholds(
    rows: Sequence[IndexRow],
    dealt: int,
    team: Team,
    luck: Luck,
    circumstances: Circumstances,
    assignment: dict[int, int],
    agent: int,
) -> set[Exact]:
    """The indices of the agent's arm at which its match can change.

    They are the other indices that it is compared with and, where the arms are dealt by the index, those at
    which a dealing that gives the arm to an heir is as good. As functions of the index both are lines,
    with the weights of the agent and the heir for slopes.
    """
    arm = assignment[agent]
    own = has_own_rows(rows, dealt)
    row = rows[agent if own else 0]
    found = {x for n, x in enumerate(row) if n != arm and n not in circumstances.closed}
    if dealt != BY_INDEX or own:
        return found
    weight = turn_weights(team, dealt)
    exact = [Fraction(0 if math.isinf(x) else x) for x in row]

    def constant(dealing: dict[int, int]) -> tuple[int, Fraction]:
        """What all the other arms are worth: how much of it is infinite, and the rest."""
        others = [(weight[a], n) for a, n in dealing.items() if n != arm]
        infinite = sum(s * int(math.copysign(1, row[n])) for s, n in others if math.isinf(row[n]))
        return infinite, sum((s * exact[n] for s, n in others), Fraction())

    allowed = allowed_pairs(len(team), len(row), circumstances)
    going = [a for a in agents_in_turn(dealt, team, luck) if a in assignment]
    infinite, rest = constant(assignment)
    for heir in going:
        if weight[heir] == weight[agent] or not allowed[heir, arm]:
            continue
        left = allowed.copy()
        left[heir], left[:, arm] = False, False
        left[heir, arm] = True
        partner: dict[int, int] = {}
        arms = sorted(assignment.values())
        inside = np.zeros_like(left)
        inside[:, arms] = left[:, arms]
        if not all(add_to_matching(a, inside, partner) for a in going):
            continue
        other = constant(deal_arms(going, arms, left, weight, row, luck.arms))
        if other[0] == infinite:
            found.add((other[1] - rest) / (weight[agent] - weight[heir]))
    return found


def number_between(x: Exact, y: Exact) -> Exact:
    """A number between two others, either of which may be infinite."""
    if math.isinf(x) and math.isinf(y):
        return Fraction(0)
    if math.isinf(x):
        x, y = y, x
    if math.isinf(y):
        return Fraction(x) + (1 if y > x else -1)
    return (Fraction(x) + Fraction(y)) / 2
