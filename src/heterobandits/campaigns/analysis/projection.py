"""The rest of a season, played on draws from the posterior   docs/campaigns-answers.md

Every draw is a world: means of all arms from their exact posteriors, or as somebody guesses them, in which the campaign's policy plans
the rounds to come and learns from what they yield. `projection_lanes` plays them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.campaigns.analysis.answers import mixed_text
from heterobandits.campaigns.analysis.projection_lanes import Guess, ProjectedDraws, play_draws
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.reducer import state_after_drafts
from heterobandits.campaigns.state import State, id_of
from heterobandits.campaigns.validation import Collected, Reports, Wrong, seed_from
from heterobandits.errors import InvalidInput, appearance, probability, whole_number

Floats = npt.NDArray[np.float64]

MOST_PROJECTED = 100_000  # rounds
MOST_DRAWS = 100_000
EACH_SIDE = 0.1  # the chance to be below, or above, what is said of 8 times of 10
MOST_LOOKS = 12  # of a course: whether the best arm is known costs about as much as a round
# Seconds measured on one core, with teams of 3 x 4 to 20 x 50: of a round, whatever is in it; of each agent with each arm in each draw,
# where the index is a quantile or looks at calibration and where not, and where visits have several tests so many times that; of each
# look whether the best arm is known, where agents are calibrated and where not. So many draws more are computed for want of lanes.
A_ROUND = 2e-3
SLOW_CELL, CELL = 1.3e-6, 0.2e-6
SEVERAL_TESTS = 2.0
CALIBRATED_LOOK, LOOK = 4e-6, 0.3e-6
SPARE = 12


@dataclass(frozen=True)
class Projection:
    """What the rounds to come are expected to yield.

    Attributes
    ----------
    detections, detections_se
        The true detections expected, and the standard error of that over the draws.
    low, high
        One more draw would make detections between these two, ends included, in 8 of 10 cases or more; with fewer than 9 draws, the
        least and the most that were made.
    rotation
        The detections expected if the agents went round the arms in turn instead, from an arm drawn at random.
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
    best_known: float
    best_known_se: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Worth:
    """What another team is worth: both projections, and how many more detections the other one makes on the same draws."""

    plain: Projection
    other: Projection
    more: float
    more_se: float


class Look(NamedTuple):
    """After so many rounds, the share of draws in which the best arm is known, and its standard error."""

    round: int
    known: float
    known_se: float


@dataclass(frozen=True)
class Course:
    """How the rounds to come are expected to go, one after the other.

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
    looks: tuple[Look, ...]


@dataclass(frozen=True)
class Ahead:
    """The rest of the season at once: what it is expected to yield, how it goes, and what another team is worth if one was named."""

    plain: Projection
    course: Course
    worth: Worth | None


def silent(share: float) -> None:
    """Nobody is told how far it is."""


def project(
    state: State,
    *,
    rounds: int | None = None,
    draws: int = 200,
    seed: int = 0,
    add: Reports | None = None,
    revise: tuple[int, Reports] | None = None,
    guess: Guess | None = None,
    tell: Callable[[float], None] = silent,
) -> Projection:
    """What the rest of the season is expected to yield, if nobody is absent and nothing closed.

    `add` is one more agent, who reports like this; `revise` an agent, by number, whose reports are these from now on; `guess` says
    what the means are, in place of what is known. `tell` is told the share that is done, and may end it all by raising. Outcomes
    that rounds still wait for are not known.
    """
    length = rounds_from(state, rounds)
    changed = with_other_team(state, add, revise)
    how = (length, draws_from(draws), seed_from(seed))
    return sum_up_draws(state, length, play_draws(changed, *how, tell, guess))


def worth(
    state: State,
    *,
    add: Reports | None = None,
    revise: tuple[int, Reports] | None = None,
    rounds: int | None = None,
    draws: int = 200,
    seed: int = 0,
    guess: Guess | None = None,
    tell: Callable[[float], None] = silent,
) -> Worth:
    """What one more agent, or one whose reports are others, is worth in the rest of the season."""
    how = (rounds_from(state, rounds), draws_from(draws), seed_from(seed))
    changed = with_other_team(state, add, revise)
    plain = play_draws(state, *how, lambda share: tell(0.5 * share), guess)
    other = play_draws(changed, *how, lambda share: tell(0.5 + 0.5 * share), guess)
    return worth_of_draws(state, how[0], plain, other)


def look_ahead(
    state: State,
    *,
    add: Reports | None = None,
    rounds: int | None = None,
    draws: int = 200,
    seed: int = 0,
    guess: Guess | None = None,
    tell: Callable[[float], None] = silent,
) -> Ahead:
    """What `project` and, with one more agent, `worth` say of the rest of the season, and how it goes round by round."""
    how = (rounds_from(state, rounds), draws_from(draws), seed_from(seed))
    changed = None if add is None else with_other_team(state, add, None)
    part = 1.0 if changed is None else 0.5
    looks = looks_of(how[0])
    plain = play_draws(state, *how, lambda share: tell(part * share), guess, looks)
    found = None
    if changed is not None:
        other = play_draws(changed, *how, lambda share: tell(0.5 + 0.5 * share), guess)
        found = worth_of_draws(state, how[0], plain, other)
    return Ahead(sum_up_draws(state, how[0], plain), course_of(how[0], looks, plain), found)


def guess_from(low: Any, high: Any) -> Guess:
    """The means somebody guesses, between `low` and `high`."""
    errors = Collected()
    ends = [
        errors.of(name, lambda value, name: probability(value, name, "mean", "[0, 1]"), value)
        for name, value in (("low", low), ("high", high))
    ]
    errors.end()
    least, most = (end or 0.0 for end in ends)
    if least > most:
        raise Wrong([("low", f"low is {least:g} and high {most:g}: the lowest mean comes first")])
    return Guess(least, most)


def seconds_of(state: State, rounds: int, draws: int, more: bool) -> float:
    """About how long it takes to play so many rounds in so many draws, once more with one more agent."""
    rule = state.policy.rule
    several = max(state.team.tests) > 1
    slow = rule is not None and (rule.quantile or rule.calibrated)
    cell = (SLOW_CELL if slow else CELL) * (SEVERAL_TESTS if several else 1.0)
    look = CALIBRATED_LOOK if state.team.is_calibrated else LOOK
    cells = (len(state.rows) + more) * len(state.arms)
    played = rounds * (1 + more) * (A_ROUND + cell * cells * (draws + SPARE))
    return played + min(rounds, MOST_LOOKS) * look * cells * draws


def looks_of(rounds: int) -> tuple[int, ...]:
    """The rounds of a course after which is looked whether the best arm is known."""
    count = min(rounds, MOST_LOOKS)
    return tuple(-(-rounds * i // count) for i in range(1, count + 1))


def rounds_from(state: State, rounds: Any) -> int:
    """How many rounds to project: those left of the season if nothing is said."""
    if rounds is not None:
        return whole_number(rounds, "rounds", 1, MOST_PROJECTED)
    if state.rounds_left is None:
        raise InvalidInput("the season has no end: say how many rounds to project")
    if not state.rounds_left:
        raise InvalidInput(
            f"all {state.season} rounds of the season are planned: say how many rounds to project"
        )
    return min(state.rounds_left, MOST_PROJECTED)


def draws_from(draws: Any) -> int:
    """`draws` as a number of draws, two at least for a standard error."""
    return whole_number(draws, "draws", 2, MOST_DRAWS)


def with_other_team(state: State, add: Reports | None, revise: tuple[int, Reports] | None) -> State:
    """The state as it would be with one more agent, or another way to report; nothing is written."""
    drafts = []
    if add is not None:
        taken = {appearance(name) for name in state.agent_names}
        names = (f"one more {i}" for i in range(len(taken) + 1))
        name = next(name for name in names if name not in taken)
        drafts.append(Draft("agents added", {"agents": [{"name": name, **add.body}]}))
    if revise is not None:
        agent, reports = revise
        which = whole_number(agent, "the number of an agent", 0, len(state.agents) - 1)
        body = {"id": id_of("agent", which), "since": "now", "reports": reports.body}
        drafts.append(Draft("agent revised", body))
    return state_after_drafts(state, drafts)


def sum_up_draws(state: State, rounds: int, played: ProjectedDraws) -> Projection:
    """The projection that all draws make."""
    detections, error = mean_and_error(played.expected)
    known, known_error = mean_and_error(played.best_known)
    low, high = eight_of_ten(played.made)
    rotation, _ = mean_and_error(played.rotation)
    draws = len(played.expected)
    mixed = mixed_text(state)
    return Projection(
        rounds=rounds,
        draws=draws,
        detections=detections,
        detections_se=error,
        low=low,
        high=high,
        rotation=rotation,
        best_known=known,
        best_known_se=known_error,
        warnings=(mixed,) if mixed else (),
    )


def eight_of_ten(values: Floats) -> tuple[float, float]:
    """Between which one more value lies in 8 of 10 cases or more: a value is as likely to have any place among the others.

    >>> eight_of_ten(np.arange(1.0, 21.0)), eight_of_ten(np.arange(1.0, 100.0)), eight_of_ten(np.arange(1.0, 4.0))
    ((2.0, 19.0), (10.0, 90.0), (1.0, 3.0))
    """
    place = max(1, int(EACH_SIDE * (len(values) + 1) + 1e-9))
    ordered = np.sort(values)
    return float(ordered[place - 1]), float(ordered[-place])


def chance(known: float, draws: int) -> str:
    """A share of draws as a chance: of none, or of all, what would come out so in 5 % of cases; of many draws 3 of as many.

    Others are rounded towards 1/2: what was in some draws and not in others is neither certain nor impossible.

    >>> chance(0.0, 100), chance(0.45, 100), chance(1.0, 20), chance(0.0, 2)
    ('under 3 %', '45 %', 'over 86 %', 'under 78 %')
    >>> chance(0.005, 200), chance(0.995, 200)
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
) -> Worth:
    """What the other team is worth, draw by draw."""
    more, error = mean_and_error(other.expected - plain.expected)
    return Worth(
        sum_up_draws(state, rounds, plain), sum_up_draws(state, rounds, other), more, error
    )


def course_of(rounds: int, looks: Sequence[int], played: ProjectedDraws) -> Course:
    """The course that all draws make."""
    rotation, best = float(played.rotation.mean()) / rounds, float(played.best.mean())
    seen = zip(looks, played.known.T, strict=True)
    known = (Look(number, *mean_and_error(column)) for number, column in seen)
    return Course(tuple(played.course.mean(axis=0).tolist()), rotation, best, tuple(known))


def mean_and_error(values: Floats) -> tuple[float, float]:
    """The mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
