"""How a season stands: what was found so far, and what the same visits would have found in turn.

found      the tests that reported a find, false alarms among them
in turn    sum over the reported tests of offset_a + slope_a m, with m the mean of the posterior means of all arms in use:
           what they would have reported, by what is known now, if agents had gone round the arms evenly
"""

from typing import NamedTuple

import numpy as np

from heterobandits.campaigns.state import State
from heterobandits.intervals import Posteriors


class Standing(NamedTuple):
    """What a campaign has come to: visits with an outcome, tests made in them, finds, and finds expected in turn."""

    visits: int
    tests: int
    found: int
    in_turn: float


def standing(state: State) -> Standing:
    """How a campaign stands."""
    here = [n for n, arm in enumerate(state.arms) if not arm.retired]
    mean = float(Posteriors.of(state.team, *state.knowledge.tables).mean[here].mean())
    tests = state.pulls.sum(axis=1)
    visits = sum(told.counts is not None for round in state.rounds for told in round.told.values())
    expected = float(np.dot(tests, state.team.offset + state.team.slope * mean))
    return Standing(visits, int(tests.sum()), int(state.successes.sum()), expected)
