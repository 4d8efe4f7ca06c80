"""The rounds of a campaign: who was sent where, who went elsewhere, and what is known about each visit.

In a snapshot rounds are flat lists of numbers, unpacked when somebody looks at them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from heterobandits.planner.matching import AgentArm
from heterobandits.planner.visits import RoundVisits, VisitReport

PACKED_VISIT_NUMBERS = 5  # numbers of a packed visit: agent, arm, successes, tests, event


@dataclass(frozen=True)
class RoundGiven:
    """The circumstances of a round, with agents and arms by number."""

    absent: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    forbidden: frozenset[AgentArm] = frozenset()
    forced: frozenset[AgentArm] = frozenset()


@dataclass(frozen=True, kw_only=True)
class PlannedRound(RoundVisits):
    """A planned round: its visits, and the event that planned it, when and for which circumstances."""

    event: int
    time: str
    given: RoundGiven
    closed: bool = False

    @property
    def waits(self) -> bool:
        """Whether somebody is still to report, and it was not closed."""
        planned = sum(arm is not None for arm in self.assignment)
        moved = sum(len(arms) - len(self.planned_arms(agent)) for agent, arms in self.moved.items())
        return not self.closed and len(self.told) < planned + moved


class Rounds(Sequence[PlannedRound]):
    """All rounds, of which some are still packed."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = list(items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, place: int) -> PlannedRound: ...
    @overload
    def __getitem__(self, place: slice) -> "Rounds": ...
    def __getitem__(self, place: int | slice) -> "PlannedRound | Rounds":
        if isinstance(place, slice):
            return Rounds(self._items[place])
        item = self._items[place]
        if not isinstance(item, PlannedRound):
            item = self._items[place] = unpack_round(item)
        return item

    def put(self, round: PlannedRound) -> None:
        """A round in its place; only by whom it belongs to."""
        self._items[round.number - 1 : round.number] = [round]

    def drop_last(self) -> None:
        """The same without the last round; only by whom it belongs to."""
        del self._items[-1]

    def copy(self) -> "Rounds":
        """The same, to be changed."""
        return Rounds(self._items)

    @property
    def packed(self) -> list[Any]:
        """All of them, packed."""
        return [
            pack_round(item) if isinstance(item, PlannedRound) else item for item in self._items
        ]


def pack_round(round: PlannedRound) -> list[Any]:
    """A round as lists of numbers."""
    told: list[int] = []
    for (agent, arm), known in round.told.items():
        told += (agent, arm, *(known.counts or (-1, -1)), known.event)
    said = [[known.time, known.entered, known.note] for known in round.told.values()]
    given = round.given
    return [
        round.number,
        round.event,
        round.time,
        [sorted(part) for part in (given.absent, given.closed, given.forbidden, given.forced)],
        [-1 if arm is None else arm for arm in round.assignment],
        [[agent, *arms] for agent, arms in round.moved.items()],
        told,
        round.closed,
        said,
    ]


def unpack_round(item: list[Any]) -> PlannedRound:
    """The round that `pack_round` packed."""
    number, event, time, (absent, closed, forbidden, forced), arms, moved, told, shut, said = item
    pairs = (frozenset(map(tuple, part)) for part in (forbidden, forced))
    visits = (told[i : i + PACKED_VISIT_NUMBERS] for i in range(0, len(told), PACKED_VISIT_NUMBERS))
    return PlannedRound(
        number,
        tuple(None if arm < 0 else arm for arm in arms),
        {agent: tuple(places) for agent, *places in moved},
        {
            (a, n): VisitReport(None if k < 0 else (k, t), e, *more)
            for (a, n, k, t, e), more in zip(visits, said, strict=True)
        },
        event=event,
        time=time,
        given=RoundGiven(frozenset(absent), frozenset(closed), *pairs),
        closed=shut,
    )
