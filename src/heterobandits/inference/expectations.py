"""What is expected of visits under way, whose outcomes are not known yet   docs/planning.md

Plans count such a visit as made: its tests as pulls, and as successes those that are expected of them, a real number. What is
certain never does.
"""

import numpy as np

from heterobandits.arrays import Floats, LearningTable
from heterobandits.inference.beliefs import Beliefs
from heterobandits.inference.intervals import Posteriors
from heterobandits.model.prior import Prior
from heterobandits.model.team import Team


def expected_tables(
    team: Team,
    pulls: LearningTable,
    successes: LearningTable,
    under_way: LearningTable,
    prior: Prior | None = None,
) -> tuple[Floats, Floats]:
    """The two tables with the tests that are under way, shape (agents, arms, trials); the prior is uniform if there is none.

    Of a test of agent a on arm n offset_a + slope_a m_n successes are expected, m_n being the posterior mean by what is known.

    >>> one = np.ones((1, 2, 1))
    >>> pulls, successes = expected_tables(Team([0.8]), 0 * one, 0 * one, 3 * one)
    >>> pulls.ravel().tolist(), successes.round(6).ravel().tolist()
    ([3.0, 3.0], [1.2, 1.2])
    """
    mean = posterior_means(team, pulls, successes, prior)
    chance = team.offset[:, None, None] + team.slope[:, None, None] * mean
    return pulls + 1.0 * under_way, successes + under_way * chance


def posterior_means(
    team: Team, pulls: LearningTable, successes: LearningTable, prior: Prior | None = None
) -> Floats:
    """The posterior mean of every arm in every trial, shape (arms, trials)."""
    agents, arms, trials = pulls.shape
    if prior is None:
        c, y = (table.reshape(agents, arms * trials) for table in (pulls, successes))
        return Posteriors.of(team, c, y).mean.reshape(arms, trials)
    each = (
        Beliefs.of(team, pulls[:, :, lane], successes[:, :, lane], prior).mean
        for lane in range(trials)
    )
    return np.stack(list(each), axis=1)
