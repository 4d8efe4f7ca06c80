"""Which arms have changed, from the visits to them, and which of these a policy still mixes up   docs/model.md (19), (20)

Planners and campaigns make `ArmVisits` of their rounds, and what follows from those stands here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heterobandits.arrays import Counts
from heterobandits.inference.change_points import greatest_change, team_threshold
from heterobandits.interrupts import end_abandoned_work
from heterobandits.model.team import Team
from heterobandits.planner.knowledge import Knowledge
from heterobandits.planner.visits import RoundVisits, RowIn


class ArmVisits(NamedTuple):
    """The visits to an arm, those without an outcome included, as zeros.

    Attributes
    ----------
    rounds
        The round of each visit; first comes the last round before any of them, for what was known at the start.
    pulls, successes
        Agents by visits.
    """

    rounds: list[int]
    pulls: Counts
    successes: Counts

    def since(self, round: int) -> "ArmVisits":
        """The visits after this round, as if nothing had been known before."""
        first = 1 + int(np.searchsorted(self.rounds[1:], round, side="right"))
        tables = (np.pad(table[:, first:], ((0, 0), (1, 0))) for table in self[1:])
        return ArmVisits([round, *self.rounds[first:]], *tables)


def visits_by_arm(
    rounds: Iterable[RoundVisits],
    arms: Iterable[int],
    start: Knowledge,
    forgotten: Mapping[int, int],
    row_in: RowIn | None = None,
) -> dict[int, ArmVisits]:
    """The visits to each of these arms, after what was known at the start; those of one round count as one visit.

    What was seen of an arm up to the round in which it was `forgotten` does not count.
    """
    begins = {arm: max(forgotten.get(arm, 0), start.rounds) for arm in arms}
    numbers = {arm: [begin] for arm, begin in begins.items()}
    cells: dict[int, list[tuple[int, int, int, int]]] = {arm: [] for arm in begins}
    for round in rounds:
        going = {arm for _, arm in round.sent if arm in begins and round.number > begins[arm]}
        for arm in going:
            numbers[arm].append(round.number)
        for visit in round.visits(row_in):
            if visit.arm in going:
                column = len(numbers[visit.arm]) - 1
                cells[visit.arm].append((visit.agent, column, visit.tests, visit.successes))
    made = {}
    for arm in begins:
        tables = np.zeros((2, len(start.pulls), len(numbers[arm])), np.int32)
        if arm not in forgotten:
            tables[:, :, 0] = start.pulls[:, arm], start.successes[:, arm]
        agents, columns, tests, found = np.array(cells[arm], np.int32).reshape(-1, 4).T
        for table, counts in zip(tables, (tests, found), strict=True):
            np.add.at(table, (agents, columns), counts)
        made[arm] = ArmVisits(numbers[arm], *tables)
    return made


class ArmAlarm(NamedTuple):
    """What the visits to an arm say of a change.

    Attributes
    ----------
    arm
        By number.
    changed
        Whether the evidence is enough for an alarm.
    evidence
        The logarithm of the evidence that the arm has had more than one mean.
    after
        The last round before the change, most likely.
    before, since
        The posterior means of what was seen up to that round, and since.
    again
        Whether the visits since then are not of one mean either, so that `since` is no mean that the arm had.
    """

    arm: int
    changed: bool
    evidence: float
    after: int
    before: float
    since: float
    again: bool


@dataclass(frozen=True)
class ChangeDetector:
    """How much evidence an alarm takes: one of these arms, seen by this team, false ones with delta at most."""

    team: Team
    arms: int
    delta: float

    def change_of(self, arm: int, visits: ArmVisits) -> ArmAlarm:
        """What the visits to an arm say of a change."""
        found = greatest_change(self.team, visits.pulls, visits.successes, self.delta)
        changed, after = self._is_enough(found.evidence), visits.rounds[found.visits]
        again = changed and self.has_changed(visits.since(after))
        return ArmAlarm(arm, changed, found.evidence, after, found.before, found.since, again)

    def has_changed(self, visits: ArmVisits) -> bool:
        """Whether these visits raise an alarm."""
        found = greatest_change(self.team, visits.pulls, visits.successes, self.delta)
        return self._is_enough(found.evidence)

    def changes(self, visits: Mapping[int, ArmVisits]) -> list[ArmAlarm]:
        """What the visits to each arm say of a change."""
        found = []
        for arm, its in visits.items():
            end_abandoned_work()
            found.append(self.change_of(arm, its))
        return found

    def changed_arms(self, visits: Mapping[int, ArmVisits]) -> list[int]:
        """The arms whose visits raise an alarm."""
        return [arm for arm, its in visits.items() if self.has_changed(its)]

    def mixed_arms(
        self, changes: Iterable[ArmAlarm], visits: Mapping[int, ArmVisits], window_begun: int
    ) -> list[int]:
        """The arms that have changed since the first visit to them that the policy recalls: those after the round `window_begun`.

        What a window has seen since it began may be of one mean again, unless a later alarm says otherwise. A policy
        without a window recalls something of every visit: its window begins after round -1.
        """

        def is_mixed(one: ArmAlarm) -> bool:
            late = one.after > window_begun
            return one.changed and (late or self._changes_after(visits[one.arm], window_begun))

        return sorted(one.arm for one in filter(is_mixed, changes))

    def _changes_after(self, visits: ArmVisits, round: int) -> bool:
        """Whether the visits after this round raise an alarm, or one alarm after another in all visits leads beyond it."""
        if self.has_changed(visits.since(round)):
            return True
        while True:
            found = greatest_change(self.team, visits.pulls, visits.successes, self.delta)
            if not self._is_enough(found.evidence):
                return False
            after = visits.rounds[found.visits]
            if after > round:
                return True
            if after == visits.rounds[0] and not visits.pulls[:, 0].any():
                return False  # nothing is left out that there was
            visits = visits.since(after)

    def _is_enough(self, evidence: float) -> bool:
        return evidence >= team_threshold(self.team, self.arms, self.delta)
