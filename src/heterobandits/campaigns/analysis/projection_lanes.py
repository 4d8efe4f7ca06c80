"""The rounds to come in many worlds side by side   docs/campaigns-answers.md

Draws are lanes of the kernels that plan a real round. All randomness is by address, so
that the same question has the same answer, and two teams are compared on the same worlds and the same luck:

    the mean of arm n             (seed, draw, round 0, slot n), after the common prior at slot N
    what a visit to arm n yields  (seed, draw, round, the slot of the arm's luck)
    which of it is true           (seed, TRUE + draw, round, slot n)
    what a rotation finds         (seed, TRUE + draw, round 0, slot 0), and the arm from which it starts, slot 1
    ties and draws of the policy  (seed, draw, round, as in a plan)
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from heterobandits.arrays import Floats, Integers
from heterobandits.campaigns.analysis.beliefs import beliefs_of
from heterobandits.campaigns.state import State
from heterobandits.core.assignment import assign, table
from heterobandits.core.randomness import WORD_SIZE, round_words, slots
from heterobandits.inference.intervals import exact_posteriors, order_threshold
from heterobandits.machine import count_cores
from heterobandits.model.prior import Prior
from heterobandits.planner.matching import has_own_rows

TRUTH_FIRST_TRIAL = 2**62  # the trials, from here on, whose luck says which reports are true
PROJECTION_MAX_CELLS = 4_000_000  # of a table, agents by arms by draws, at a time


@dataclass(frozen=True)
class GuessedMeans:
    """Bounds for guessed means: each arm's mean is drawn evenly between them, for a campaign that has no outcomes yet."""

    low: float
    high: float


class ProjectedDraws(NamedTuple):
    """Of each draw: the detections expected with its means, those made, the same of a rotation, and whether the best is known.

    Beside that, a round's detections if the means were known; and, for a course, those expected round by round, shape (draws,
    rounds), and whether the best is known at each look, shape (draws, looks).
    """

    expected: Floats
    made: Floats
    rotation: Floats
    rotation_made: Floats
    best_known: Floats
    best: Floats
    course: Floats
    known: Floats


def play_draws(
    state: State,
    rounds: int,
    draws: int,
    seed: int,
    tell: Callable[[float], None],
    guess: GuessedMeans | None = None,
    looks: Sequence[int] = (),
) -> ProjectedDraws:
    """Play the coming rounds in so many draws, as many at a time as memory allows, in one thread per core.

    With looks, after these rounds, the course is kept too: a number for each round of each draw.
    """
    means = draw_means(state, seed, draws, guess)
    size = max(1, PROJECTION_MAX_CELLS // (len(state.rows) * len(state.arms)))
    cores = count_cores()
    parts = []
    with ThreadPoolExecutor(cores) as pool:
        for first in range(0, draws, size):
            block = np.arange(first, min(first + size, draws))
            shares = [part for part in np.array_split(block, cores) if len(part)]
            lanes = [ProjectionLanes(state, seed, int(part[0]), means[:, part]) for part in shares]
            for number in range(1, rounds + 1):
                found = list(pool.map(ProjectionLanes.play, lanes))
                if looks:
                    for part, expected in zip(lanes, found, strict=True):
                        part.course.append(expected)
                if number in looks:
                    for part, known in zip(
                        lanes, pool.map(ProjectionLanes.best_known, lanes), strict=True
                    ):
                        part.known.append(known)
                tell((first + len(block) * number / rounds) / draws)
            parts += [part.results(rounds) for part in lanes]
    return ProjectedDraws(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def draw_means(state: State, seed: int, draws: int, guess: GuessedMeans | None = None) -> Floats:
    """The arms' means drawn together from what is believed of them, arms by draws; or evenly from the guess."""
    if guess is not None:
        return guess.low + (guess.high - guess.low) * draw_uniforms(
            seed, 0, 0, 0, len(state.arms), draws
        )
    return beliefs_of(state).draws(draws, seed)


def draw_uniforms(seed: int, trial: int, number: int, first: int, count: int, lanes: int) -> Floats:
    """Random numbers strictly between 0 and 1 at these addresses, shape (count, lanes)."""
    words = round_words(seed, trial, number, first, count, lanes)
    return np.asarray((words + 0.5) * WORD_SIZE)


class ProjectionLanes:
    """A block of draws that are played side by side: the two tables of each, and its detections."""

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
        self.total = np.repeat(
            state.knowledge.pulls.sum(axis=0, dtype=np.int64)[:, None], lanes, axis=1
        )
        self.past: list[tuple[Integers, Integers, Integers]] = []  # for a window
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

    def assigned(self) -> Integers:
        """The arm of every agent in turn, turns by draws; one that is none for who stays home."""
        rows, arms, lanes = self.pulls.shape
        address = (self.seed, self.first, self.elapsed + 1)
        words = partial(round_words, *address, lanes=lanes)
        how = (self.rounds(), words, self.state.knowledge.prior)
        index = self.policy.index_rows(self.team, self.pulls, self.successes, *how)
        where, dealt = slots(rows, arms), self.policy.dealt
        place = np.argsort(self.team.order)  # the words belong to turns
        if has_own_rows(index[:, :, 0], dealt):
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

    def outcomes(self, arm: Integers, tests: Integers, mean: Floats) -> Integers:
        """How many tests report 1, by the luck of the arm; those that are true are noted."""
        lanes = np.arange(arm.shape[1])
        number = self.elapsed + 1
        luck = partial(
            draw_uniforms, number=number, first=0, count=len(self.means), lanes=len(lanes)
        )
        rows = np.array(self.turns)[:, None]
        chance = self.team.offset[rows] + self.team.slope[rows] * mean
        found = successes_by_luck(luck(self.seed, self.first)[arm, lanes], tests, chance)
        true = found
        if self.team.offset[self.turns].any():
            sure = np.array(self.team.sensitivities)[rows] * mean
            share = np.divide(sure, chance, out=np.zeros_like(chance), where=chance > 0.0)
            true = successes_by_luck(
                luck(self.seed, TRUTH_FIRST_TRIAL + self.first)[arm, lanes], found, share
            )
        self.made += true.sum(axis=0)
        return found

    def remember(self, arm: Integers, tests: Integers, found: Integers) -> None:
        """Put a round into the tables; a policy that forgets loses what is older."""
        if self.policy.fade < 1.0:
            self.pulls *= self.policy.fade
            self.successes *= self.policy.fade
        np.add.at(self.total, (arm, np.arange(arm.shape[1])), tests)
        self.count(arm, tests, found)
        if self.policy.window:
            self.past.append((arm, tests, found))
            self.lose(self.elapsed - self.policy.window)

    def count(self, arm: Integers, tests: Integers, found: Integers) -> None:
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
            for visit in self.state.counted(self.state.rounds[number - 1]):
                self.pulls[visit.agent, visit.arm] -= visit.tests
                self.successes[visit.agent, visit.arm] -= visit.successes

    def results(self, rounds: int) -> ProjectedDraws:
        """What came of so many rounds."""
        means = self.means[self.free]
        rotation = rounds * rotation_detections(means, self.team.worth[self.turns])
        stops = max(len(self.free), len(self.turns))
        tests = tests_of_rotation(np.array(self.team.tests)[self.turns], rounds, stops)
        slope, offset = np.array(self.team.sensitivities)[self.turns], np.zeros(len(self.turns))
        found = draw_rotation_finds(self.seed, self.first, tests, slope, offset, means)
        kept = (rows_by_draw(part, len(self.expected)) for part in (self.course, self.known))
        return ProjectedDraws(
            self.expected,
            self.made,
            rotation,
            found,
            self.best_known(),
            self.best_possible(),
            *kept,
        )

    def best_possible(self) -> Floats:
        """A round's detections of the best assignment: who finds most to the arm with the highest mean, and so on."""
        falling = -np.sort(-self.means[self.free], axis=0)[: len(self.turns)]
        return np.asarray(self.team.worth[self.turns][: len(falling)] @ falling, np.float64)

    def best_known(self) -> Floats:
        """Whether the evidence is enough that the best arm is above each other one, 1 or 0."""
        _, arms, lanes = self.pulls.shape
        pulls, successes = (part.reshape(-1, arms * lanes) for part in (self.pulls, self.successes))
        fixed = Prior(tuple(one for one in self.state.fixed_prior.shapes for _ in range(lanes)))
        known, share = exact_posteriors(self.team, pulls, successes, self.policy.delta, prior=fixed)
        best = self.free[self.means[self.free].argmax(axis=0)]
        others = np.where(self.free[:-1, None] < best, self.free[:-1, None], self.free[1:, None])
        every = np.arange(lanes)
        i, j = (np.broadcast_to(n * lanes + every, others.shape).ravel() for n in (best, others))
        enough = known.evidence(i, j) >= order_threshold(arms, share)
        return np.asarray(enough.reshape(others.shape).all(axis=0), np.float64)


def rows_by_draw(noted: Sequence[Floats], draws: int) -> Floats:
    """Values noted for every draw time after time, as one row for each draw."""
    return np.array(noted, np.float64).reshape(len(noted), draws).T


def rotation_detections(means: Floats, worth: Floats) -> Floats:
    """The detections in a round if the agents went round the arms in turn; agents beyond the number of arms take turns at home."""
    each = means.sum(axis=0) / max(len(means), len(worth))
    return np.asarray(float(worth.sum()) * each)


def tests_of_rotation(tests: Integers, rounds: int, stops: int) -> Integers:
    """The tests that each agent makes at each stop of a rotation, from the one where it starts: agents by stops.

    In every round the agents go to the next stops, one each.

    >>> tests_of_rotation(np.array([1, 5]), 3, 4).tolist()
    [[2, 0, 1, 0], [0, 10, 0, 5]]
    """
    agents = len(tests)
    cycle = stops // math.gcd(agents, stops)  # rounds after which it starts anew
    first = np.arange(min(rounds, cycle)) * agents
    times = rounds // cycle + (np.arange(len(first)) < rounds % cycle)
    out = np.zeros((agents, stops), np.int64)
    for place in range(agents):
        np.add.at(out[place], (first + place) % stops, times * tests[place])
    return out


def draw_rotation_finds(
    seed: int, first: int, tests: Integers, slope: Floats, offset: Floats, means: Floats
) -> Floats:
    """What a rotation from an arm drawn at random finds in each draw: `tests` are those of each agent at each stop, `means` arms by draws.

    Stops beyond the arms are at home. What is found has the mean and the variance of a sum of binomials, one for each agent and arm,
    and is drawn as one binomial that has both.
    """
    arms, lanes = means.shape
    stops = tests.shape[1]
    luck = draw_uniforms(seed, TRUTH_FIRST_TRIAL + first, 0, 0, 2, lanes)
    start = np.minimum((luck[1] * stops).astype(np.int64), stops - 1)
    here = np.concatenate([np.ones(arms), np.zeros(stops - arms)])  # and not at home
    mean = np.concatenate([means, np.zeros((stops - arms, lanes))])
    place = (np.arange(stops)[:, None] + start) % stops
    mean = np.take_along_axis(mean, place, axis=0)
    at_arm = np.broadcast_to(here.mean(), (stops, lanes)) if stops == arms else here[place]
    expected = (offset @ tests) @ at_arm + (slope @ tests) @ mean
    # of the chances: the variance is what is expected less this
    squares = (offset**2 @ tests) @ at_arm + (2.0 * offset * slope @ tests) @ mean
    squares += (slope**2 @ tests) @ mean**2
    chance = np.divide(squares, expected, out=np.zeros(lanes), where=expected > 0.0)
    made = np.divide(expected, chance, out=np.zeros(lanes), where=chance > 0.0)
    count = np.maximum(1, np.ceil(made)).astype(np.int64)
    found = successes_by_luck(luck[0], count, expected / count)
    return np.asarray(found, np.float64)


def successes_by_luck(luck: Floats, tests: Integers, chance: Floats) -> Integers:
    """The number of successes in so many tests at this chance; it falls as the random word `luck` grows."""
    if tests.max() <= 1:
        return np.asarray(tests * (luck < chance), np.int64)
    from scipy.stats import binom

    return np.asarray(binom.isf(luck, tests, np.clip(chance, 0.0, 1.0)), np.int64)
