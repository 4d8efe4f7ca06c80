"""How sensitive each agent of a campaign is by its visits, beside what was stated of it   docs/model.md (12), (13)"""

from heterobandits.campaigns.analysis.answers import changed_arms
from heterobandits.campaigns.state import State
from heterobandits.inference.agent_sensitivity import AgentSensitivities, agent_intervals
from heterobandits.planner.knowledge import clear_arms
from heterobandits.planner.plans import NamedAgents


def sensitivities(state: State) -> NamedAgents:
    """What the visits that count say of each agent as it reports now, without arms that have changed; for many agents that takes seconds."""
    known, left = state.knowledge, [one.arm for one in changed_arms(state)]
    tables = clear_arms((known.pulls, known.successes), left)
    found = agent_intervals(*tables, state.team, delta=state.policy.delta)
    now = [agent.row for agent in state.agents]
    of_now = AgentSensitivities(
        found.sensitivity[now],
        found.calibrated[now],
        found.estimate[now],
        found.lower[now],
        found.upper[now],
        tuple(found.verdict[row] for row in now),
    )
    return NamedAgents.of(of_now, state.agent_names, tuple(state.arm_names[n] for n in left))


def sensitivity_notes(known: NamedAgents) -> list[str]:
    """A sentence for each agent that is not as it was stated or believed to be."""
    return [f"{note.strip()}." for note in known.notes]
