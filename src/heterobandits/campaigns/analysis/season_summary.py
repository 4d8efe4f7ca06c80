"""Where a season stands: what was found, what is to come, and what visits in turn would have found.

found            the tests that reported a find, false alarms among them
in turn          sum over the reported tests of offset_a + slope_a m, with m the mean of the posterior means of all arms:
                 what they would have reported, by what is known now, if agents had gone round the arms evenly
ahead            the detections that are expected of the plan of the next round, as `prices` has them, times the rounds left:
                 what is learned on the way makes it more
ahead in turn    the same of a round in which everybody goes round the arms in turn
"""

from typing import NamedTuple

import numpy as np

from heterobandits.campaigns.analysis.answers import certainty, mixed_arms_text
from heterobandits.campaigns.analysis.prices import detection_weights, expected_detections
from heterobandits.campaigns.analysis.projection_lanes import rotation_detections
from heterobandits.campaigns.plan_events import plan_of
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.campaigns.state import State


class SeasonSummary(NamedTuple):
    """Where a campaign stands: visits with an outcome, tests made, finds, and the finds expected from visits in turn.

    `ahead` and `ahead_in_turn` are the detections expected of the rounds left, at the rate of the next; None if the season has no
    end, or is over. `warnings` say what all of it goes by although it is known better.
    """

    visits: int
    tests: int
    found: int
    in_turn: float
    ahead: float | None
    ahead_in_turn: float | None
    warnings: list[str]


def summarize_season(state: State) -> SeasonSummary:
    """Summarise where a campaign stands."""
    means = certainty(state).posteriors.mean
    tests = state.pulls.sum(axis=1)
    visits = sum(told.counts is not None for round in state.rounds for told in round.told.values())
    expected = float(np.dot(tests, state.team.offset + state.team.slope * means.mean()))
    ahead = turned = None
    if state.rounds_left:
        going = [agent.row for agent in state.agents if not agent.retired]
        plan = plan_of(state, RoundGiven())
        ahead = state.rounds_left * expected_detections(
            detection_weights(state), enumerate(plan.assignment)
        )
        here = [n for n, arm in enumerate(state.arms) if not arm.retired]
        turned = state.rounds_left * float(
            rotation_detections(means[here], state.team.worth[going])
        )
    warnings = [*filter(None, [mixed_arms_text(state)])]
    found = int(state.successes.sum())
    return SeasonSummary(visits, int(tests.sum()), found, expected, ahead, turned, warnings)
