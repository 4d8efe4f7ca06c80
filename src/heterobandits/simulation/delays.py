"""Outcomes that come late: what is known before a round in a block of trials, and which visits are under way.

A visit of round r is known from round r + delay + 1 on. What is not known yet counts in plans as `inference.expectations` has it,
or is ignored: to measure what counting is worth.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import Counts, LearningTable
from heterobandits.inference.expectations import expected_tables
from heterobandits.model.prior import Prior
from heterobandits.model.team import Team
from heterobandits.policies.policy import Policy


class PlayedRound(NamedTuple):
    """The arm of every agent in every trial, and how many of its tests succeeded there."""

    number: int
    arms: Counts
    found: Counts


class LateOutcomes:
    """What a policy knows in a block of trials whose outcomes come `delay` rounds late.

    `pulls` and `successes` are the tables of all that is known; a policy that forgets recalls less.
    """

    def __init__(
        self,
        policy: Policy,
        team: Team,
        shape: tuple[int, int, int],
        delay: int,
        *,
        counted: bool,
    ) -> None:
        self.policy, self.team, self.delay, self.counted = policy, team, delay, counted
        self.pulls, self.successes = np.zeros((2, *shape), np.int32)
        self.elapsed = 0
        self._under_way: deque[PlayedRound] = deque()
        self._recalled = np.zeros((2, *(shape if policy.forgets else (0, 0, 0))))
        self._window: deque[PlayedRound] = deque()  # what is known of it

    @property
    def most_pulls(self) -> npt.NDArray[np.int64]:
        """The most tests of an arm that are known, in each trial."""
        return np.asarray(self.pulls.sum(axis=0, dtype=np.int64).max(axis=0))

    def tables(self, prior: Prior | None) -> tuple[LearningTable, LearningTable]:
        """The two tables that the policy plans the next round by."""
        pulls, successes = self._known()
        if not self.counted or not self._under_way:
            return pulls, successes
        awaited = np.zeros(self.pulls.shape)
        for played in self._under_way:
            awaited *= self.policy.fade
            if self._recalls(played):
                self._add(awaited, played, self._tests)
        return expected_tables(self.team, pulls, successes, awaited, prior)

    def remember(self, arms: Counts, found: Counts) -> None:
        """Take in a round that was played, and what becomes known after it."""
        self.elapsed += 1
        self._under_way.append(PlayedRound(self.elapsed, arms, found))
        if len(self._under_way) > self.delay:
            self._learn(self._under_way.popleft())
        while self._window and not self._recalls(self._window[0]):
            self._count(self._recalled[0], self._recalled[1], self._window.popleft(), -1)

    def _learn(self, played: PlayedRound) -> None:
        """An outcome of every agent becomes known."""
        self._count(self.pulls, self.successes, played)
        if self.policy.forgets:
            self._recalled *= self.policy.fade
            self._count(self._recalled[0], self._recalled[1], played)
        if self.policy.window:
            self._window.append(played)

    def _known(self) -> tuple[LearningTable, LearningTable]:
        """The known tables, as the policy recalls them."""
        if not self.policy.forgets:
            return self.pulls, self.successes
        recalled = self._recalled.copy()
        for _ in self._under_way:  # the rounds since
            recalled *= self.policy.fade
        return recalled[0], recalled[1]

    def _recalls(self, played: PlayedRound) -> bool:
        """Whether the window of the policy, if it has one, still has this round."""
        return not self.policy.window or played.number > self.elapsed - self.policy.window

    @property
    def _tests(self) -> Counts:
        return np.asarray(self.team.tests, np.int32)[:, None]

    def _count(
        self, pulls: LearningTable, successes: LearningTable, played: PlayedRound, sign: int = 1
    ) -> None:
        """Count a round in two tables, or take it out of them."""
        self._add(pulls, played, sign * self._tests)
        self._add(successes, played, sign * played.found)

    def _add(self, table: LearningTable, played: PlayedRound, what: Counts) -> None:
        """Add a number for every agent where it went."""
        agents, lanes = (np.arange(size) for size in played.arms.shape)
        table[agents[:, None], played.arms, lanes] += what
