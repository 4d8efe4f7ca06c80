"""Plans of a campaign's rounds: computed from its state, written into events, and computed again to check the log."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from heterobandits.campaigns.analysis.answers import arms_to_forget, certainty
from heterobandits.campaigns.reasons import (
    UNDER_WAY_COUNTED,
    assigned_body,
    assignments_of,
    has_counted,
    is_same_assignment,
)
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.campaigns.state import State, member_id
from heterobandits.core.compiled import SOURCE_DIGEST
from heterobandits.errors import InvalidInput, repr_of
from heterobandits.model.team import Team
from heterobandits.planner import planning
from heterobandits.planner.explanation import explain_plan
from heterobandits.planner.knowledge import Knowledge
from heterobandits.planner.plans import Explanation, Plan
from heterobandits.policies.policy import Policy
from heterobandits.provenance import version_of

PlanArguments = tuple[Team, tuple[str, ...], Policy, Knowledge, planning.Address]


def plan_arguments(
    state: State, policy: Policy | None = None, *, counted: bool = True
) -> PlanArguments:
    """What the next round's plan follows from, apart from the circumstances, as `planning.plan` takes it.

    Visits under way are `counted`, but by plans of logs from before this was so.
    """
    known = state if policy is None else replace(state, policy=policy)
    address = planning.Address(state.seed, 0, state.next_round)
    knowledge = known.plan_knowledge if counted else known.knowledge
    return state.team, state.arm_names, known.policy, knowledge, address


def plan_of(
    state: State, given: RoundGiven, policy: Policy | None = None, *, counted: bool = True
) -> Plan:
    """The plan of the next round, by rows of the team; by another policy, if one is given."""
    arguments = plan_arguments(state, policy, counted=counted)
    return planning.plan(*arguments, state.circumstances(given))


def plan_may_tie(
    state: State,
    given: RoundGiven,
    sent: dict[int, int],
    policy: Policy | None = None,
    *,
    counted: bool = True,
) -> bool:
    """Whether another way to break ties could have made the next round's plan send the agents like this."""
    arguments = plan_arguments(state, policy, counted=counted)
    return planning.might_tie(*arguments, state.circumstances(given), sent)


def explanations_of_plan(
    state: State, plan: Plan, *, counted: bool = True, agents: Iterable[int] | None = None
) -> dict[int, Explanation]:
    """Why this plan of the next round sends each agent where it goes, or each of these, by number of the agent."""
    known = certainty(state)
    arguments = plan_arguments(state, counted=counted)
    asked = None if agents is None else [state.agents[a].row for a in agents]
    found = iter(explain_plan(*arguments, plan, known.left_out, known, asked))
    sent = [row for row, arm in enumerate(plan.assignment) if arm is not None]
    by_row = {row: next(found) for row in sent if asked is None or row in asked}
    return {state.rows[row].agent: with_agent_names(state, why) for row, why in by_row.items()}


def with_agent_names(state: State, why: Explanation) -> Explanation:
    """The same with agents for rows where it says who is on the way: an agent may be of several rows."""
    rows = dict(zip(state.team.names, state.rows, strict=True))
    names = dict.fromkeys(state.agents[rows[name].agent].name for name in why.under_way)
    return replace(why, under_way=tuple(names)) if names else why


def body_of_plan(state: State, given: RoundGiven, plan: Plan) -> dict[str, Any]:
    """A plan as the body of an event, for which visits under way were counted."""
    return {
        "round": plan.round,
        **body_of_circumstances(given),
        "assignments": [assigned_body(one) for one in assignments_of(state, plan)],
        "policy": state.policy.parameters,
        "seed": state.seed,
        "index": digest_of_index(plan),
        "under_way": UNDER_WAY_COUNTED,
        "made_with": makers_of_plan(),
    }


def body_of_circumstances(given: RoundGiven) -> dict[str, Any]:
    """Circumstances by ids."""
    pairs = {
        name: [[member_id("agent", a), member_id("arm", n)] for a, n in sorted(some)]
        for name, some in (("forbidden", given.forbidden), ("forced", given.forced))
    }
    absent = [member_id("agent", a) for a in sorted(given.absent)]
    return {
        "absent": absent,
        "closed": [member_id("arm", n) for n in sorted(given.closed)],
        **pairs,
    }


def digest_of_index(plan: Plan) -> str:
    """A digest that tells index tables apart to the last bit."""
    rows = {id(row): row for row in plan.index}  # agents mostly share one
    data = {key: np.array(row, "<f8").tobytes() for key, row in rows.items()}
    return hashlib.sha256(b"".join(data[id(row)] for row in plan.index)).hexdigest()


def makers_of_plan() -> dict[str, str]:
    """What can change a plan: the version, and a digest of the kernels' sources."""
    return {"heterobandits": version_of("heterobandits"), "kernels": SOURCE_DIGEST}


def check_recorded_forgetting(state: State, body: dict[str, Any]) -> None:
    """Refuse that an arm was forgotten as one that has changed, if that does not follow from the state before."""
    if body["because"] == "change" and not arms_to_forget(state, [state.arm(body["arm"])]):
        raise InvalidInput(
            f"that {state.arms[state.arm(body['arm'])].name!r} has changed does not follow from what was known"
        )


def check_recorded_plan(state: State, body: dict[str, Any], given: RoundGiven) -> None:
    """Refuse a recorded plan that does not follow, bit for bit, from the state before it."""
    again = body_of_plan(state, given, plan_of(state, given, counted=has_counted(body)))
    pairs = zip(body["assignments"], again["assignments"], strict=False)
    same = len(body["assignments"]) == len(again["assignments"]) and all(
        is_same_assignment(*pair) for pair in pairs
    )
    for name in ("policy", "seed", "assignments", "index"):
        if not same if name == "assignments" else body[name] != again[name]:
            other = body["made_with"] != again["made_with"]
            made = repr_of(body["made_with"].get("heterobandits")) if other else ""
            raise InvalidInput(
                f"the plan of round {body['round']} does not follow from what was known: its {name} differ"
                f"{'s' * (name != 'assignments')}"
                + (f"; it was made with version {made} or other kernels" if other else "")
            )
