"""What is probable of all means together: estimates, ordinary intervals, draws, and who is likely to be the best.

Everything here is as good as the prior. Where that is learned, the arms of which nothing is stated share a prior
Beta(m k, (1 - m) k), with m and k on a grid that what was seen of all of them weighs   docs/priors.md (13) to (15).
What is certain does not go by this: `intervals`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heterobandits.arrays import Floats, Integers, LearningTable
from heterobandits.caches import cached_property
from heterobandits.core import beliefs as kernels
from heterobandits.core.families import outcomes
from heterobandits.core.randomness import WORD_SIZE, round_words
from heterobandits.interrupts import end_abandoned_work
from heterobandits.model.belief_cells import ALL_ARMS_MAX_CELLS, belief_cells
from heterobandits.model.prior import PRIOR_MAX_COUNT, BetaShape, Prior
from heterobandits.model.team import Team

BELIEF_DRAWS = 4000  # draws that a chance is counted in: off by less than 0.016, 95 times of 100
BELIEF_MIN_DRAWS = 400  # of many arms: off by less than 0.05
QUANTILE_BLOCK_ARMS = 500  # between which it may end
BELIEF_MAX_MEANS = 2_000_000  # draws of means at once


@dataclass(frozen=True, eq=False)
class Beliefs:
    """The posterior of all means under a prior.

    Attributes
    ----------
    cells, room
        The cells in which a mean may lie with the priors, and what follows from them: `core.beliefs`.
    """

    cells: kernels.BeliefCells
    room: kernels.BeliefRoom

    @classmethod
    def of(
        cls, team: Team, pulls: LearningTable, successes: LearningTable, prior: Prior
    ) -> "Beliefs":
        """From tables with a row for each agent and a column for each arm.

        >>> known = Beliefs.of(Team([1.0]), np.array([[8]]), np.array([[1]]), Prior(((2.0, 3.0),)))
        >>> round(float(known.mean[0]), 4)  # (2 + 1) / (2 + 3 + 8)
        0.2308
        """
        seen = outcomes(team.arrays, pulls, successes)
        most = float(pulls.sum(axis=0, dtype=np.float64).max(initial=0.0))
        cells = belief_cells(team, prior, most)
        room = kernels.belief_room(cells)._replace(h=seen.h, f=seen.f)
        if len(cells.own_row) * len(cells.mu) <= ALL_ARMS_MAX_CELLS:
            kernels.fill_beliefs(cells, room)
        else:  # in steps, between which it may end
            kernels.fill_heights(cells, room.h, room.f, room.height, room.top)
            end_abandoned_work()
            if len(room.share):
                kernels.fill_shares(cells, room.height, room.evidence, room.share, room.density)
            end_abandoned_work()
            kernels.fill_densities(
                cells, room.height, room.evidence, room.share, room.density, room.ln_evidence
            )
        return cls(cells, room)

    def with_shares(self, other: "Beliefs") -> "Beliefs":
        """The same under the common priors that others make likely: each arm by what was seen of it here."""
        room = self.room._replace(
            share=other.room.share,
            density=np.empty_like(self.room.density),
            ln_evidence=np.empty_like(self.room.ln_evidence),
        )
        kernels.fill_densities(
            self.cells, room.height, room.evidence, room.share, room.density, room.ln_evidence
        )
        return Beliefs(self.cells, room)

    @property
    def arms(self) -> int:
        """The number of arms."""
        return len(self.room.density)

    @cached_property
    def mean(self) -> Floats:
        """The posterior mean of each arm."""
        return np.asarray(self.room.density @ self.cells.mu)

    @cached_property
    def variance(self) -> Floats:
        """The posterior variance of each arm's mean."""
        return np.asarray(self.room.density @ self.cells.mu**2 - self.mean**2)

    @cached_property
    def log_evidence(self) -> Floats:
        """The logarithm of how likely what was seen of each arm is on the average over its prior, as `Posteriors` has it."""
        return np.asarray(self.room.ln_evidence + self.room.top)

    @cached_property
    def likelihood(self) -> Floats:
        """The likelihood of every cell over the greatest, arms by cells."""
        return np.asarray(np.exp(self.room.height))

    def quantiles(self, share: float) -> Floats:
        """The mean below which each arm's lies with this probability; within a cell every mean is as likely."""
        edges, found = self.cells.edges, np.empty(self.arms)
        for first in range(0, self.arms, QUANTILE_BLOCK_ARMS):
            end_abandoned_work()
            rows = cumulative(self.room.density[first : first + QUANTILE_BLOCK_ARMS])
            found[first : first + len(rows)] = [np.interp(share, row, edges) for row in rows]
        return found

    def draws(self, count: int, seed: int, trial: int = 0) -> Floats:
        """Draws of all means together, arms by draws: the common prior first, then each arm's mean under it.

        The words are those of the round 0 of trials from `trial` on: slot n is that of arm n, and the one after the last that of the prior.
        """
        words = round_words(seed, trial, 0, 0, self.arms + 1, count)
        luck = (words + 0.5) * WORD_SIZE
        chosen = np.zeros(count, np.int64)
        if len(self.room.share):
            chosen = np.searchsorted(np.cumsum(self.room.share)[:-1], luck[-1]).astype(np.int64)
        out = np.empty((self.arms, count))
        first = np.arange(self.arms)[:, None]
        for g in np.unique(chosen):
            end_abandoned_work()
            some = np.flatnonzero(chosen == g)
            # the distribution functions of all arms in one row, each a step above the one before
            below = (cumulative(self.given(int(g))) + first).ravel()
            place = np.searchsorted(below, luck[:-1, some] + first, side="right") - 1
            place = np.minimum(place, below.size - 2)
            share = (luck[:-1, some] + first - below[place]) / (below[place + 1] - below[place])
            cell = place - first * len(self.cells.edges)
            low, high = self.cells.edges[cell], self.cells.edges[cell + 1]
            out[:, some] = low + share * (high - low)
        return out

    def given(self, candidate: int) -> Floats:
        """The posterior probabilities of all cells if the common prior were this one, arms by cells."""
        joint = self.room.density.copy()
        common = self.cells.own_row < 0
        if len(self.room.share):
            joint[common] = self.likelihood[common] * self.cells.candidates[candidate]
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def cumulative(density: Floats) -> Floats:
    """The probability below every edge of the cells, from 0 to 1."""
    below = np.zeros((len(density), density.shape[1] + 1))
    np.cumsum(density, axis=1, out=below[:, 1:])
    return below / below[:, -1:]


def shapes_of_visits(
    team: Team, pulls: LearningTable, successes: LearningTable, counts: float = 1.0
) -> list[BetaShape]:
    """For each arm, the Beta with the mean and the variance of what these visits say of it under a prior learned from all of them.

    What is known of the arms together is taken over whole. Each arm's own visits count for a share of what they would count if they
    were made now: so the less they count, the more an arm is believed to be as the others are.

    >>> shape, = shapes_of_visits(Team([1.0]), np.array([[800]]), np.array([[200]]))
    >>> round(shape[0] / sum(shape), 3)
    0.25
    """
    learned = Prior((None,) * pulls.shape[1], learned=True)
    known = Beliefs.of(team, pulls, successes, learned)
    if counts < 1.0:
        known = Beliefs.of(team, counts * pulls, counts * successes, learned).with_shares(known)
    return [
        shape_of_moments(mean, variance)
        for mean, variance in zip(known.mean.tolist(), known.variance.tolist(), strict=True)
    ]


def shape_of_moments(mean: float, variance: float) -> BetaShape:
    """The Beta of this mean and variance; where a or b would be below 1, the least that keeps the mean.

    >>> shape_of_moments(0.25, 0.0375), shape_of_moments(0.25, 0.15)
    ((1.0, 3.0), (1.0, 3.0))
    """
    tests = mean * (1.0 - mean) / max(variance, 1.0 / PRIOR_MAX_COUNT**2) - 1.0
    tests = min(max(tests, 1.0 / min(mean, 1.0 - mean)), PRIOR_MAX_COUNT)
    return max(1.0, mean * tests), max(1.0, (1.0 - mean) * tests)


def draws_for(arms: int) -> int:
    """In how many draws chances of so many arms are counted.

    >>> draws_for(14), draws_for(5000)
    (4000, 400)
    """
    return max(BELIEF_MIN_DRAWS, min(BELIEF_DRAWS, BELIEF_MAX_MEANS // arms))


class Chances(NamedTuple):
    """What is probable of some arms, counted in draws: that each is the best of them, and among the best so many."""

    best: Floats
    among: Floats
    draws: int


def chances_of_draws(draws: Floats, among: int) -> Chances:
    """The share of draws, arms by draws, in which each arm is the best, and among the best so many."""
    arms, count = draws.shape
    ranks: Integers = np.argsort(np.argsort(-draws, axis=0, kind="stable"), axis=0)
    return Chances((ranks == 0).mean(axis=1), (ranks < min(among, arms)).mean(axis=1), count)
