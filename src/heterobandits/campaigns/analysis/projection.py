"""The rest of a season, played on draws from the posterior   docs/campaigns-answers.md

Every draw is a world: means of all arms from their exact posteriors, or as somebody guesses them, in which the campaign's policy plans
the rounds to come and learns from what they yield. `projection_lanes` plays them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.campaigns.analysis.answers import mixed_arms_text
from heterobandits.campaigns.analysis.probabilities import check_forecast
from heterobandits.campaigns.analysis.projection_lanes import (
    GuessedMeans,
    ProjectedDraws,
    play_draws,
)
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.reducer import state_after_drafts
from heterobandits.campaigns.state import State, member_id
from heterobandits.campaigns.validation import FieldErrors, InvalidFields, parse_seed
from heterobandits.errors import InvalidInput, appearance_of, parse_integer, parse_probability
from heterobandits.model.belief_cells import CELLS_MIN, count_cells
from heterobandits.planner.roster import Reports

PROJECTION_MAX_ROUNDS = 100_000  # rounds
PROJECTION_MAX_DRAWS = 100_000
RANGE_TAIL_CHANCE = 0.1  # the chance to be below, or above, what is said of 8 times of 10
COURSE_MAX_LOOKS = 12  # of a course: whether the best arm is known costs about as much as a round
# Seconds measured on one core, with teams of 3 x 4 to 20 x 50: of a round, whatever is in it; of each agent with each arm in each draw,
# where the index is a quantile or looks at calibration and where not, and where visits have several tests so many times that; of
# each arm in each draw, where plans go by a prior that is learned and where it is stated; of each look whether the best arm is
# known, where agents are calibrated and where not. So many draws more are computed for want of lanes.
ROUND_COST_S = 2e-3
SLOW_CELL_COST_S, CELL_COST_S = 1.3e-6, 0.2e-6
SEVERAL_TESTS_FACTOR = 2.0
LEARNED_ARM_COST_S, STATED_ARM_COST_S = 1.2e-5, 2.5e-6
CALIBRATED_LOOK_COST_S, LOOK_COST_S = 4e-6, 0.3e-6
FIXED_COST_DRAWS = 12


@dataclass(frozen=True)
class Projection:
    """What the coming rounds are expected to yield.

    Attributes
    ----------
    detections, detections_se
        The true detections expected, and the standard error of that over the draws.
    low, high
        One more draw would make detections between these two, ends included, in 8 of 10 cases or more; with fewer than 9 draws, the
        least and the most that were made.
    rotation, rotation_low, rotation_high
        The detections expected if the agents went round the arms in turn instead, from an arm drawn at random, and between which they
        would be likewise in 8 of 10 cases or more.
    gain_low, gain_high
        What is expected of the plans over what is expected of visits in turn lies between these two in 8 of 10 draws of the means or
        more.
    best_known, best_known_se
        The share of draws at the end of which the evidence is enough that the arm that is the best is above each other one.
    warnings
        What does not hold of it, in words: that arms have changed.
    """

    rounds: int
    draws: int
    detections: float
    detections_se: float
    low: float
    high: float
    rotation: float
    rotation_low: float
    rotation_high: float
    gain_low: float
    gain_high: float
    best_known: float
    best_known_se: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TeamWorth:
    """What another team is worth: both projections, and how many more detections the other team makes on the same draws."""

    plain: Projection
    other: Projection
    more: float
    more_se: float


class CourseLook(NamedTuple):
    """The share of draws in which the best arm is known after so many rounds, and its standard error."""

    round: int
    known: float
    known_se: float


@dataclass(frozen=True)
class SeasonCourse:
    """How the coming rounds are expected to go, round by round.

    Attributes
    ----------
    detections
        The true detections expected of each round, the next one first.
    rotation, best
        Those of any round if the agents went round the arms in turn, and of the best assignment that there is, which
        whoever knows the means would make: by the inequality of rearrangement, whoever finds most on the arm with the highest mean.
    looks
        At rounds that are spaced evenly, MOST_LOOKS at most and the last among them: whether the best arm is known.
    """

    detections: tuple[float, ...]
    rotation: float
    best: float
    looks: tuple[CourseLook, ...]


@dataclass(frozen=True)
class SeasonOutlook:
    """The rest of the season: its expected yield, its course, and the worth of another team if one was given."""

    plain: Projection
    course: SeasonCourse
    worth: TeamWorth | None


def ignore_progress(share: float) -> None:
    """Ignore progress."""


def project(
    state: State,
    *,
    rounds: int | None = None,
    draws: int = 200,
    seed: int = 0,
    guess: GuessedMeans | None = None,
    tell: Callable[[float], None] = ignore_progress,
) -> Projection:
    """What the rest of the season is expected to yield if everybody comes and nothing is closed.

    `guess` says what the means are, in place of what is known; without it nothing is forecast before anything is known. `tell` is told the share that is done, and may end it all by
    raising. Outcomes that rounds still wait for are not known.
    """
    length = parse_projected_rounds(state, rounds)
    how = (length, parse_draws(draws), parse_seed(seed))
    if guess is None:
        check_forecast(state)
    return sum_up_draws(state, length, play_draws(state, *how, tell, guess))


def worth_of_team(
    state: State,
    changed: State,
    *,
    rounds: int | None = None,
    draws: int = 200,
    seed: int = 0,
    guess: GuessedMeans | None = None,
    tell: Callable[[float], None] = ignore_progress,
) -> TeamWorth:
    """What the rest of the season gains from another team, as `state_with_other_team` has it."""
    how = (parse_projected_rounds(state, rounds), parse_draws(draws), parse_seed(seed))
    if guess is None:
        check_forecast(state)
    plain = play_draws(state, *how, lambda share: tell(0.5 * share), guess)
    other = play_draws(changed, *how, lambda share: tell(0.5 + 0.5 * share), guess)
    return worth_of_draws(state, how[0], plain, other)


def look_ahead(
    state: State,
    changed: State | None = None,
    *,
    rounds: int | None = None,
    draws: int = 200,
    seed: int = 0,
    guess: GuessedMeans | None = None,
    tell: Callable[[float], None] = ignore_progress,
) -> SeasonOutlook:
    """What `project` and, with another team, `worth_of_team` say of the rest of the season, and how it goes round by round."""
    how = (parse_projected_rounds(state, rounds), parse_draws(draws), parse_seed(seed))
    if guess is None:
        check_forecast(state)
    part = 1.0 if changed is None else 0.5
    looks = look_rounds(how[0])
    plain = play_draws(state, *how, lambda share: tell(part * share), guess, looks)
    found = None
    if changed is not None:
        other = play_draws(changed, *how, lambda share: tell(0.5 + 0.5 * share), guess)
        found = worth_of_draws(state, how[0], plain, other)
    return SeasonOutlook(sum_up_draws(state, how[0], plain), course_of(how[0], looks, plain), found)


def parse_guess(low: Any, high: Any) -> GuessedMeans:
    """The means somebody guesses, between `low` and `high`."""
    errors = FieldErrors()
    ends = [
        errors.of(name, lambda value, name: parse_probability(value, name, "mean", "[0, 1]"), value)
        for name, value in (("low", low), ("high", high))
    ]
    errors.end()
    least, most = (end or 0.0 for end in ends)
    if least > most:
        raise InvalidFields(
            [("low", f"low is {least:g} and high {most:g}: the lowest mean comes first")]
        )
    return GuessedMeans(least, most)


def estimate_seconds(state: State, rounds: int, draws: int, more: bool) -> float:
    """Roughly how many seconds it takes to play so many rounds in so many draws, again with one more agent if asked."""
    rule = state.policy.rule
    several = max(state.team.tests) > 1
    slow = rule is not None and (rule.quantile or rule.calibrated)
    cell = (SLOW_CELL_COST_S if slow else CELL_COST_S) * (SEVERAL_TESTS_FACTOR if several else 1.0)
    prior = state.policy.prior_of(state.knowledge.prior)
    if (
        prior is not None
    ):  # whoever the agents are, an arm takes its time, for each cell that its mean may lie in
        arm = LEARNED_ARM_COST_S if prior.learned else STATED_ARM_COST_S
        most = float(state.knowledge.tables[0].sum(axis=0).max(initial=0))
        arm *= count_cells(prior, most) / CELLS_MIN
        cell += arm / (len(state.rows) + more)
    look = CALIBRATED_LOOK_COST_S if state.team.is_calibrated else LOOK_COST_S
    cells = (len(state.rows) + more) * len(state.arms)
    played = rounds * (1 + more) * (ROUND_COST_S + cell * cells * (draws + FIXED_COST_DRAWS))
    return played + min(rounds, COURSE_MAX_LOOKS) * look * cells * draws


def look_rounds(rounds: int) -> tuple[int, ...]:
    """The rounds of a course after which the projection checks whether the best arm is known."""
    count = min(rounds, COURSE_MAX_LOOKS)
    return tuple(-(-rounds * i // count) for i in range(1, count + 1))


def parse_projected_rounds(state: State, rounds: Any) -> int:
    """The number of rounds to project: as given, or those left of the season."""
    if rounds is not None:
        return parse_integer(rounds, "rounds", 1, PROJECTION_MAX_ROUNDS)
    if state.rounds_left is None:
        raise InvalidInput("the season has no end: say how many rounds to project")
    if not state.rounds_left:
        raise InvalidInput(
            f"all {state.season} rounds of the season are planned: say how many rounds to project"
        )
    return min(state.rounds_left, PROJECTION_MAX_ROUNDS)


def parse_draws(draws: Any) -> int:
    """`draws` as a number of draws: at least two, so that there is a standard error."""
    return parse_integer(draws, "draws", 2, PROJECTION_MAX_DRAWS)


def state_with_other_team(state: State, agent: int | None, reports: Reports) -> State:
    """The state if this agent reports like this from now on, or one more agent if it is None; nothing is written."""
    if agent is None:
        taken = {appearance_of(name) for name in state.agent_names}
        names = (f"one more {i}" for i in range(len(taken) + 1))
        name = next(name for name in names if name not in taken)
        draft = Draft("agents added", {"agents": [{"name": name, **reports.body}]})
    else:
        which = parse_integer(agent, "the number of an agent", 0, len(state.agents) - 1)
        body = {"id": member_id("agent", which), "since": "now", "reports": reports.body}
        draft = Draft("agent revised", body)
    return state_after_drafts(state, [draft])


def sum_up_draws(state: State, rounds: int, played: ProjectedDraws) -> Projection:
    """The projection that follows from all draws."""
    detections, error = mean_and_error(played.expected)
    known, known_error = mean_and_error(played.best_known)
    low, high = eighty_percent_range(played.made)
    rotation, _ = mean_and_error(played.rotation)
    least, most = eighty_percent_range(played.rotation_made)
    turned = np.maximum(played.rotation, np.finfo(float).tiny)
    gains = eighty_percent_range(np.where(played.rotation > 0.0, played.expected / turned, 1.0))
    draws = len(played.expected)
    mixed = mixed_arms_text(state)
    return Projection(
        rounds=rounds,
        draws=draws,
        detections=detections,
        detections_se=error,
        low=low,
        high=high,
        rotation=rotation,
        rotation_low=least,
        rotation_high=most,
        gain_low=gains[0],
        gain_high=gains[1],
        best_known=known,
        best_known_se=known_error,
        warnings=(mixed,) if mixed else (),
    )


def eighty_percent_range(values: Floats) -> tuple[float, float]:
    """A range that contains one more value with a chance of at least 80 %: it is as likely to take any place among the others.

    >>> eighty_percent_range(np.arange(1.0, 21.0)), eighty_percent_range(np.arange(1.0, 100.0)), eighty_percent_range(np.arange(1.0, 4.0))
    ((2.0, 19.0), (10.0, 90.0), (1.0, 3.0))
    """
    place = max(1, int(RANGE_TAIL_CHANCE * (len(values) + 1) + 1e-9))
    ordered = np.sort(values)
    return float(ordered[place - 1]), float(ordered[-place])


def render_chance(known: float, draws: int) -> str:
    """A share of draws as a chance in words; shares of 0 and 1 allow for what so few draws would miss.

    Others are rounded towards 1/2: what was in some draws and not in others is neither certain nor impossible.

    >>> render_chance(0.0, 100), render_chance(0.45, 100), render_chance(1.0, 20), render_chance(0.0, 2)
    ('under 3 %', '45 %', 'over 86 %', 'under 78 %')
    >>> render_chance(0.005, 200), render_chance(0.995, 200)
    ('1 %', '99 %')
    """
    rare = math.ceil(100.0 * (1.0 - 0.05 ** (1.0 / draws)))
    if known == 0.0:
        return f"under {rare} %"
    if known == 1.0:
        return f"over {100 - rare} %"
    percent = 100.0 * known
    nearer = math.ceil(percent - 1e-9) if known < 0.5 else math.floor(percent + 1e-9)
    return f"{nearer} %"


def worth_of_draws(
    state: State, rounds: int, plain: ProjectedDraws, other: ProjectedDraws
) -> TeamWorth:
    """What the other team is worth, compared draw by draw."""
    more, error = mean_and_error(other.expected - plain.expected)
    return TeamWorth(
        sum_up_draws(state, rounds, plain), sum_up_draws(state, rounds, other), more, error
    )


def course_of(rounds: int, looks: Sequence[int], played: ProjectedDraws) -> SeasonCourse:
    """The course that follows from all draws."""
    rotation, best = float(played.rotation.mean()) / rounds, float(played.best.mean())
    seen = zip(looks, played.known.T, strict=True)
    known = (CourseLook(number, *mean_and_error(column)) for number, column in seen)
    return SeasonCourse(tuple(played.course.mean(axis=0).tolist()), rotation, best, tuple(known))


def mean_and_error(values: Floats) -> tuple[float, float]:
    """The mean of some values and its standard error."""
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
