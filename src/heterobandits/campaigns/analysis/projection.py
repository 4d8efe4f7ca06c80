"""The rest of a season, played on draws from the posterior   docs/campaigns-answers.md

Every draw is a world: means of all arms from their exact posteriors, or as somebody guesses them, in which the campaign's policy plans
the rounds to come and learns from what they yield. Draws are lanes of the kernels that plan a real round. All randomness is by address, so
that the same question has the same answer, and two teams are compared on the same worlds and the same luck:

    the mean of arm n             (seed, draw, round 0, slot n)
    what a visit to arm n yields  (seed, draw, round, the slot of the arm's luck)
    which of it is true           (seed, TRUE + draw, round, slot n)
    ties and draws of the policy  (seed, draw, round, as in a plan)
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.campaigns.analysis.answers import mixed_text
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.reducer import state_after_drafts
from heterobandits.campaigns.state import State, id_of
from heterobandits.campaigns.validation import Collected, Reports, Wrong, seed_from
from heterobandits.core.assignment import assign, table
from heterobandits.core.randomness import WORD_SIZE, round_words, slots
from heterobandits.errors import InvalidInput, appearance, probability, whole_number
from heterobandits.inference.intervals import Posteriors, exactly_known, order_threshold
from heterobandits.machine import available_threads
from heterobandits.planner.matching import each_its_own

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

MOST_PROJECTED = 100_000  # rounds
MOST_DRAWS = 100_000
TRUE = 2**62  # the trials, from here on, whose luck says which reports are true
CELLS = 4_000_000  # of a table, agents by arms by draws, at a time
STEPS = 512  # between which the distribution of a mean is taken to be even
OUTSIDE = 40.0  # ln of the share of a posterior that is cut off at its ends, at most, below 0
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


@dataclass(frozen=True)
class Guess:
    """Every arm has a mean drawn evenly between these two, in place of its posterior: for a campaign that knows nothing yet."""

    low: float
    high: float


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


class ProjectedDraws(NamedTuple):
    """Of each draw: the detections expected with its means, those made, those of a rotation, and whether the best is known.

    Beside that, a round's detections if the means were known; and, for a course, those expected round by round, shape (draws,
    rounds), and whether the best is known at each look, shape (draws, looks).
    """

    expected: Floats
    made: Floats
    rotation: Floats
    best_known: Floats
    best: Floats
    course: Floats
    known: Floats


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


def play_draws(
    state: State,
    rounds: int,
    draws: int,
    seed: int,
    tell: Callable[[float], None],
    guess: Guess | None = None,
    looks: Sequence[int] = (),
) -> ProjectedDraws:
    """The rounds to come in so many draws, as many of them at a time as there is room for, in a thread for each core.

    With looks, after these rounds, the course is kept too: a number for each round of each draw.
    """
    means = drawn_means(state, seed, draws, guess)
    size = max(1, CELLS // (len(state.rows) * len(state.arms)))
    cores = available_threads()
    parts = []
    with ThreadPoolExecutor(cores) as pool:
        for first in range(0, draws, size):
            block = np.arange(first, min(first + size, draws))
            shares = [part for part in np.array_split(block, cores) if len(part)]
            lanes = [Lanes(state, seed, int(part[0]), means[:, part]) for part in shares]
            for number in range(1, rounds + 1):
                found = list(pool.map(Lanes.play, lanes))
                if looks:
                    for part, expected in zip(lanes, found, strict=True):
                        part.course.append(expected)
                if number in looks:
                    for part, known in zip(lanes, pool.map(Lanes.best_known, lanes), strict=True):
                        part.known.append(known)
                tell((first + len(block) * number / rounds) / draws)
            parts += [part.results(rounds) for part in lanes]
    return ProjectedDraws(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def drawn_means(state: State, seed: int, draws: int, guess: Guess | None = None) -> Floats:
    """Means of all arms from their posteriors, arms by draws; or evenly from the guess, by the same words.

    By inverting the distribution function, which is taken to be straight between STEPS + 1 means that are evenly spaced where
    the posterior is: its density is a step function, and a draw is off by up to 3 % of the posterior's standard deviation.
    """
    luck = uniforms(seed, 0, 0, 0, len(state.arms), draws)
    if guess is not None:
        return guess.low + (guess.high - guess.low) * luck
    known = Posteriors.of(state.team, *state.knowledge.tables)
    lower, upper = known.ends(OUTSIDE)
    grid = np.linspace(0.0, 1.0, STEPS + 1)
    places = lower + (upper - lower) * grid[:, None]
    heights = np.array([known.log_likelihood(means) for means in places])
    density = np.exp(heights - heights.max(axis=0))
    below = np.cumsum(density[1:] + density[:-1], axis=0)
    out = np.empty((len(state.arms), draws))
    for n in range(len(out)):
        share = np.concatenate([[0.0], below[:, n] / below[-1, n]])
        out[n] = np.interp(luck[n], share, places[:, n])
    return out


def uniforms(seed: int, trial: int, number: int, first: int, count: int, lanes: int) -> Floats:
    """Numbers strictly between 0 and 1 by their addresses, shape (count, lanes)."""
    words = round_words(seed, trial, number, first, count, lanes)
    return np.asarray((words + 0.5) * WORD_SIZE)


class Lanes:
    """A block of draws, round after round: the tables of each draw, and what was detected."""

    def __init__(self, state: State, seed: int, first: int, means: Floats) -> None:
        self.state, self.team, self.policy = state, state.team, state.policy
        self.seed, self.first, self.means = seed, first, means
        self.elapsed = len(state.rounds)
        here = {agent.row for agent in state.agents if not agent.retired}
        self.turns = [row for row in self.team.order.tolist() if row in here]
        self.free = np.array([n for n, arm in enumerate(state.arms) if not arm.retired])
        self.home = max(0, len(self.turns) - len(self.free))  # who has no arm to go to
        lanes = means.shape[1]
        pulls, successes = state.knowledge.tables
        cell = np.float64 if self.policy.forgets else np.int32
        self.pulls, self.successes = (
            np.repeat(part[:, :, None].astype(cell), lanes, axis=2) for part in (pulls, successes)
        )
        self.total = np.repeat(state.pulls.sum(axis=0)[:, None], lanes, axis=1)
        self.past: list[tuple[Places, Places, Places]] = []  # for a window
        self.expected, self.made = np.zeros((2, lanes))
        self.course: list[Floats] = []
        self.known: list[Floats] = []

    def play(self) -> Floats:
        """The next round of every draw: the detections that are expected of it."""
        sent = self.assigned()
        arm = np.minimum(sent, len(self.means) - 1)
        gone = sent < len(self.means)
        rows = np.array(self.turns)[:, None]
        lanes = np.arange(sent.shape[1])
        tests = np.where(gone, np.array(self.team.tests)[rows], 0)
        mean = self.means[arm, lanes]
        found = self.outcomes(arm, tests, mean)
        expected = (tests * np.array(self.team.sensitivities)[rows] * mean).sum(axis=0)
        self.expected += expected
        self.elapsed += 1
        self.remember(arm, tests, found)
        return np.asarray(expected, np.float64)

    def assigned(self) -> Places:
        """The arm of every agent in turn, turns by draws; one that is none for who stays home."""
        rows, arms, lanes = self.pulls.shape
        address = (self.seed, self.first, self.elapsed + 1)
        words = partial(round_words, *address, lanes=lanes)
        index = self.policy.index_rows(self.team, self.pulls, self.successes, self.rounds(), words)
        where, dealt = slots(rows, arms), self.policy.dealt
        place = np.argsort(self.team.order)  # the words belong to turns
        if each_its_own(index[:, :, 0], dealt):
            index = index[self.turns]
            ties = words(where.ties, rows * arms).reshape(rows, arms, lanes)[place[self.turns]]
        else:
            ties = words(where.ties, arms)[None]
        draws = words(where.draws, rows)[place[self.turns]]
        nowhere = [(0, 0), (0, self.home), (0, 0)]  # arms that only who has no other goes to
        index = np.pad(index[:, self.free], nowhere, constant_values=-np.inf)
        ties = np.pad(ties[:, self.free], nowhere)
        out = np.empty((len(self.turns), lanes), np.int32)
        assign(
            np.ascontiguousarray(index),
            np.ascontiguousarray(ties.reshape(-1, lanes)),
            np.ascontiguousarray(draws),
            dealt,
            np.arange(len(self.turns)),
            table(len(self.turns), index.shape[1], lanes),
            out,
        )
        places = np.concatenate([self.free, np.full(self.home, arms)])
        return np.asarray(places[out], np.int64)

    def rounds(self) -> Any:
        """t in the logarithms, as `planning.index_rows` has it, of each draw."""
        if self.policy.in_season:
            return self.elapsed
        return np.maximum(self.elapsed, self.total.max(axis=0))

    def outcomes(self, arm: Places, tests: Places, mean: Floats) -> Places:
        """How many tests report 1, by the luck of the arm; those that are true are noted."""
        lanes = np.arange(arm.shape[1])
        number = self.elapsed + 1
        luck = partial(uniforms, number=number, first=0, count=len(self.means), lanes=len(lanes))
        rows = np.array(self.turns)[:, None]
        chance = self.team.offset[rows] + self.team.slope[rows] * mean
        found = successes_by_luck(luck(self.seed, self.first)[arm, lanes], tests, chance)
        true = found
        if self.team.offset[self.turns].any():
            sure = np.array(self.team.sensitivities)[rows] * mean
            share = np.divide(sure, chance, out=np.zeros_like(chance), where=chance > 0.0)
            true = successes_by_luck(luck(self.seed, TRUE + self.first)[arm, lanes], found, share)
        self.made += true.sum(axis=0)
        return found

    def remember(self, arm: Places, tests: Places, found: Places) -> None:
        """Put a round into the tables; a policy that forgets loses what is older."""
        if self.policy.fade < 1.0:
            self.pulls *= self.policy.fade
            self.successes *= self.policy.fade
        np.add.at(self.total, (arm, np.arange(arm.shape[1])), tests)
        self.count(arm, tests, found)
        if self.policy.window:
            self.past.append((arm, tests, found))
            self.lose(self.elapsed - self.policy.window)

    def count(self, arm: Places, tests: Places, found: Places) -> None:
        """Add what agents brought back to the tables that the policy looks at."""
        rows, lanes = np.array(self.turns)[:, None], np.arange(arm.shape[1])
        self.pulls[rows, arm, lanes] += tests
        self.successes[rows, arm, lanes] += found

    def lose(self, number: int) -> None:
        """Take the round of this number out of the tables."""
        begun = len(self.state.rounds)
        if number > begun:
            arm, tests, found = self.past[number - begun - 1]
            self.count(arm, -tests, -found)
        elif number > 0:
            for visit in self.state.visits(self.state.rounds[number - 1]):
                self.pulls[visit.agent, visit.arm] -= visit.tests
                self.successes[visit.agent, visit.arm] -= visit.successes

    def results(self, rounds: int) -> ProjectedDraws:
        """What came of so many rounds."""
        rotation = rounds * detections_in_turn(self.means[self.free], self.team.worth[self.turns])
        kept = (by_draw(part, len(self.expected)) for part in (self.course, self.known))
        return ProjectedDraws(
            self.expected, self.made, rotation, self.best_known(), self.best_possible(), *kept
        )

    def best_possible(self) -> Floats:
        """A round's detections of the best assignment: who finds most to the arm with the highest mean, and so on."""
        falling = -np.sort(-self.means[self.free], axis=0)[: len(self.turns)]
        return np.asarray(self.team.worth[self.turns][: len(falling)] @ falling, np.float64)

    def best_known(self) -> Floats:
        """Whether the evidence is enough that the best arm is above each other one, 1 or 0."""
        _, arms, lanes = self.pulls.shape
        pulls, successes = (part.reshape(-1, arms * lanes) for part in (self.pulls, self.successes))
        known, share = exactly_known(self.team, pulls, successes, self.policy.delta)
        best = self.free[self.means[self.free].argmax(axis=0)]
        others = np.where(self.free[:-1, None] < best, self.free[:-1, None], self.free[1:, None])
        every = np.arange(lanes)
        i, j = (np.broadcast_to(n * lanes + every, others.shape).ravel() for n in (best, others))
        enough = known.evidence(i, j) >= order_threshold(arms, share)
        return np.asarray(enough.reshape(others.shape).all(axis=0), np.float64)


def by_draw(noted: Sequence[Floats], draws: int) -> Floats:
    """What was noted of every draw, time after time, with a row for each draw."""
    return np.array(noted, np.float64).reshape(len(noted), draws).T


def detections_in_turn(means: Floats, worth: Floats) -> Floats:
    """A round's detections if agents, of whom each finds so much, go round the arms in turn; who is too many stays home in turn."""
    each = means.sum(axis=0) / max(len(means), len(worth))
    return np.asarray(float(worth.sum()) * each)


def successes_by_luck(luck: Floats, tests: Places, chance: Floats) -> Places:
    """How many of so many tests succeed with this chance: the more the smaller the number that luck is."""
    if tests.max() <= 1:
        return np.asarray(tests * (luck < chance), np.int64)
    from scipy.stats import binom

    return np.asarray(binom.isf(luck, tests, np.clip(chance, 0.0, 1.0)), np.int64)
