"""What is believed of a campaign's arms by its prior: what all that is probable goes by, plans and forecasts among it."""

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.campaigns.state import State, once_for_state
from heterobandits.inference.beliefs import Beliefs, draws_for


@once_for_state
def beliefs_of(state: State) -> Beliefs:
    """The posterior of all means, by the tables that the policy looks at."""
    return Beliefs.of(state.team, *state.knowledge.tables, state.prior)


def beliefs_before_forgetting(state: State) -> Beliefs:
    """The same, but of each arm that was forgotten by what was seen of it until then, and by nothing since."""
    pulls, successes = (table.copy() for table in state.knowledge.tables)
    gone = state.gone
    pulls[:, list(gone)] = successes[:, list(gone)] = 0
    for round in state.rounds[: max(gone.values(), default=0)]:
        for visit in state.visits(round):
            if round.number <= gone.get(visit.arm, 0):
                pulls[visit.agent, visit.arm] += visit.tests
                successes[visit.agent, visit.arm] += visit.successes
    return Beliefs.of(state.team, pulls, successes, state.prior)


@once_for_state
def drawn_means(state: State) -> Floats:
    """Draws of all means together, arms by draws, in which chances are counted."""
    return beliefs_of(state).draws(draws_for(len(state.arms)), state.seed)


@once_for_state
def true_finds(state: State) -> float:
    """How many of the successes reported are expected to be true, where agents give false alarms.

    A success of agent a at an arm of mean mu is true with probability s_a mu / (phi_a + d_a mu). What was found at an arm before it
    was forgotten is judged by what was seen of it until then.
    """
    counted = state.successes - (lost := forgotten_successes(state))
    parts = [(counted, beliefs_of(state))]
    if lost.any():
        parts.append((lost, beliefs_before_forgetting(state)))
    return sum(float((part * true_shares(state, known)).sum()) for part, known in parts)


def forgotten_successes(state: State) -> Floats:
    """The successes that no longer count, rows by arms."""
    lost = np.zeros(state.successes.shape)
    gone = state.gone
    for round in state.rounds[: max(gone.values(), default=0)]:
        for visit in state.visits(round):
            if round.number <= gone.get(visit.arm, 0):
                lost[visit.agent, visit.arm] += visit.successes
    return lost


def true_shares(state: State, known: Beliefs) -> Floats:
    """The probability that a success is true, rows by arms."""
    team, mu = state.team, known.cells.mu
    s, phi = np.array(team.sensitivities)[:, None], np.array(team.false_positive_rates)[:, None]
    return np.asarray((s * mu / (phi + (s - phi) * mu)) @ known.room.density.T)
