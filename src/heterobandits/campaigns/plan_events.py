"""Plans of a campaign's rounds: made from its state, written into an event, and made again from the log to see that they fit."""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from heterobandits.campaigns.analysis.answers import certainty
from heterobandits.campaigns.reasons import assigned_body, assignments_of
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.campaigns.state import State, id_of
from heterobandits.core.compiled import SOURCE_DIGEST
from heterobandits.errors import InvalidInput, shown
from heterobandits.model.team import Team
from heterobandits.planner import planning
from heterobandits.planner.knowledge import Knowledge
from heterobandits.planner.plans import Explanation, Plan
from heterobandits.policies.policy import Policy
from heterobandits.provenance import version

Arguments = tuple[Team, tuple[str, ...], Policy, Knowledge, planning.Address]


def arguments(state: State, policy: Policy | None = None) -> Arguments:
    """What the plan of the next round follows from, but for the circumstances, as `planning.plan` takes it."""
    known = state if policy is None else replace(state, policy=policy)
    address = planning.Address(state.seed, 0, state.next_round)
    return state.team, state.arm_names, known.policy, known.knowledge, address


def plan_of(state: State, given: RoundGiven, policy: Policy | None = None) -> Plan:
    """The plan of the next round, by rows of the team; with another policy, if one is given."""
    return planning.plan(*arguments(state, policy), state.circumstances(given))


def plan_might_tie(
    state: State, given: RoundGiven, sent: dict[int, int], policy: Policy | None = None
) -> bool:
    """Whether the plan of the next round might send rows of the team so, had ties been broken otherwise."""
    return planning.might_tie(*arguments(state, policy), state.circumstances(given), sent)


def explanations(state: State, plan: Plan) -> dict[int, Explanation]:
    """Why this plan of the next round sends each agent where it goes, by number of the agent."""
    known = certainty(state)
    found = iter(planning.explain_plan(*arguments(state), plan, known.left_out, known))
    by_row = {row: next(found) for row, arm in enumerate(plan.assignment) if arm is not None}
    return {state.rows[row].agent: why for row, why in by_row.items()}


def body_of(state: State, given: RoundGiven, plan: Plan) -> dict[str, Any]:
    """A plan as it stands in an event."""
    return {
        "round": plan.round,
        **given_body(given),
        "assignments": [assigned_body(one) for one in assignments_of(state, plan)],
        "policy": state.policy.parameters,
        "seed": state.seed,
        "index": digest_of_index(plan),
        "made_with": made_with(),
    }


def given_body(given: RoundGiven) -> dict[str, Any]:
    """Circumstances by ids."""
    pairs = {
        name: [[id_of("agent", a), id_of("arm", n)] for a, n in sorted(some)]
        for name, some in (("forbidden", given.forbidden), ("forced", given.forced))
    }
    absent = [id_of("agent", a) for a in sorted(given.absent)]
    return {"absent": absent, "closed": [id_of("arm", n) for n in sorted(given.closed)], **pairs}


def digest_of_index(plan: Plan) -> str:
    """What tells index tables apart, to the last bit."""
    rows = {id(row): row for row in plan.index}  # agents mostly share one
    data = {key: np.array(row, "<f8").tobytes() for key, row in rows.items()}
    return hashlib.sha256(b"".join(data[id(row)] for row in plan.index)).hexdigest()


def made_with() -> dict[str, str]:
    """What can change a plan: the version, and a digest of the kernels' sources."""
    return {"heterobandits": version("heterobandits"), "kernels": SOURCE_DIGEST}


def check_again(state: State, body: dict[str, Any], given: RoundGiven) -> None:
    """Refuse a recorded plan that is not the one that follows from the state before it, bit for bit."""
    again = body_of(state, given, plan_of(state, given))
    for name in ("policy", "seed", "assignments", "index"):
        if body[name] != again[name]:
            other = body["made_with"] != again["made_with"]
            made = shown(body["made_with"].get("heterobandits")) if other else ""
            raise InvalidInput(
                f"the plan of round {body['round']} does not follow from what was known: its {name} differ"
                f"{'s' * (name != 'assignments')}"
                + (f"; it was made with version {made} or other kernels" if other else "")
            )
