"""Plans of a campaign's rounds: computed from its state, written into events, and computed again to check the log."""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from heterobandits.campaigns.analysis.answers import certainty
from heterobandits.campaigns.reasons import assigned_body, assignments_of, is_same_assignment
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


def plan_arguments(state: State, policy: Policy | None = None) -> PlanArguments:
    """What the next round's plan follows from, apart from the circumstances, as `planning.plan` takes it."""
    known = state if policy is None else replace(state, policy=policy)
    address = planning.Address(state.seed, 0, state.next_round)
    return state.team, state.arm_names, known.policy, known.knowledge, address


def plan_of(state: State, given: RoundGiven, policy: Policy | None = None) -> Plan:
    """The plan of the next round, by rows of the team; by another policy, if one is given."""
    return planning.plan(*plan_arguments(state, policy), state.circumstances(given))


def plan_may_tie(
    state: State, given: RoundGiven, sent: dict[int, int], policy: Policy | None = None
) -> bool:
    """Whether another way to break ties could have made the next round's plan send the agents like this."""
    return planning.might_tie(*plan_arguments(state, policy), state.circumstances(given), sent)


def explanations_of_plan(state: State, plan: Plan) -> dict[int, Explanation]:
    """Why this plan of the next round sends each agent where it goes, by number of the agent."""
    known = certainty(state)
    found = iter(explain_plan(*plan_arguments(state), plan, known.left_out, known))
    by_row = {row: next(found) for row, arm in enumerate(plan.assignment) if arm is not None}
    return {state.rows[row].agent: why for row, why in by_row.items()}


def body_of_plan(state: State, given: RoundGiven, plan: Plan) -> dict[str, Any]:
    """A plan as the body of an event."""
    return {
        "round": plan.round,
        **body_of_circumstances(given),
        "assignments": [assigned_body(one) for one in assignments_of(state, plan)],
        "policy": state.policy.parameters,
        "seed": state.seed,
        "index": digest_of_index(plan),
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


def check_recorded_plan(state: State, body: dict[str, Any], given: RoundGiven) -> None:
    """Refuse a recorded plan that does not follow, bit for bit, from the state before it."""
    again = body_of_plan(state, given, plan_of(state, given))
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
