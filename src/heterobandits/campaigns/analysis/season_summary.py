"""Where a season stands: what was found, what visits in turn would have found, and what the next round is expected to find.

found        the tests that reported a find, false alarms among them
true         how many of these are expected to be true   `beliefs.true_finds`
in turn      the finds that the reported tests would have made if agents had gone round the arms evenly: each of them with a chance of
             offset_a + slope_a m, m being the mean of all arms' means; expected, and between which numbers they would lie 8 times of 10
next         the detections that are expected of the plan of the next round, as `prices` has them
"""

from typing import NamedTuple

import numpy as np

from heterobandits.arrays import Integers
from heterobandits.campaigns.analysis.answers import mixed_arms_text, render_arms
from heterobandits.campaigns.analysis.beliefs import drawn_means, true_finds
from heterobandits.campaigns.analysis.prices import detection_weights, expected_detections
from heterobandits.campaigns.analysis.probabilities import (
    PROBABLE_TAIL_CHANCE,
    has_forecast,
    nothing_known_text,
)
from heterobandits.campaigns.analysis.projection_lanes import draw_rotation_finds
from heterobandits.campaigns.plan_events import plan_of
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.campaigns.state import State, once_for_state


class InTurn(NamedTuple):
    """The finds that visits in turn would have reported: expected, and between `low` and `high` with a probability of 80 %."""

    expected: float
    low: float
    high: float


class SeasonSummary(NamedTuple):
    """Where a campaign stands: visits with an outcome, tests made, finds, and the true finds among them if there are false alarms.

    `in_turn` is None before anything is reported and once an arm was forgotten, whose means before and since differ; `next_round` if the season is over or nothing can be forecast. `warnings` say
    what all of it goes by although it is known better, or why there is no forecast.
    """

    visits: int
    tests: int
    found: int
    true: float | None
    in_turn: InTurn | None
    next_round: float | None
    warnings: list[str]


@once_for_state
def summarize_season(state: State) -> SeasonSummary:
    """Summarise where a campaign stands."""
    tests = state.pulls.sum(axis=1)
    visits = sum(told.counts is not None for round in state.rounds for told in round.told.values())
    alarms = bool(state.team.offset.any())
    next_round = None
    if has_forecast(state) and state.rounds_left != 0:
        plan = plan_of(state, RoundGiven())
        next_round = expected_detections(detection_weights(state), enumerate(plan.assignment))
    silent = "" if has_forecast(state) else nothing_known_text(state)
    return SeasonSummary(
        visits=visits,
        tests=int(tests.sum()),
        found=int(state.successes.sum()),
        true=true_finds(state) if alarms and tests.any() else None,
        in_turn=finds_in_turn(state),
        next_round=next_round,
        warnings=[*filter(None, [silent, mixed_arms_text(state), forgotten_text(state)])],
    )


def finds_in_turn(state: State) -> InTurn | None:
    """What the tests so far would have found, by what is known now, if agents had gone round the arms evenly; None if that is not known."""
    tests, team = state.pulls.sum(axis=1), state.team
    if state.gone or not tests.any():
        return None
    means = drawn_means(state)
    level = float(means.mean())
    expected = float(tests @ team.offset) + float(tests @ team.slope) * level
    made = draw_rotation_finds(state.seed, 0, tests_in_turn(state), team.slope, team.offset, means)
    ends = np.quantile(made, [PROBABLE_TAIL_CHANCE, 1.0 - PROBABLE_TAIL_CHANCE])
    return InTurn(expected, *map(float, ends))


def tests_in_turn(state: State) -> Integers:
    """The tests of each agent's row at each stop, if the visits so far, in their order, had each gone to the next arm."""
    out = np.zeros((len(state.rows), len(state.arms)), np.int64)
    told = (visit for round in state.rounds for visit in state.visits(round) if visit.tests)
    for number, visit in enumerate(told):
        out[visit.agent, number % len(state.arms)] += visit.tests
    return out


def forgotten_text(state: State) -> str:
    """Why finds are not compared with visits in turn; empty if they are."""
    gone = [n for n in state.gone if state.pulls[:, n].any()]
    if not gone:
        return ""
    return (
        f"What visits in turn would have found is not worked out: {render_arms(state, gone, 'and')} "
        f"{'was' if len(gone) == 1 else 'were'} forgotten, and had another mean before."
    )
