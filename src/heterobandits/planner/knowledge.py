"""What has been learned: two tables, pulls and successes of every agent on every arm, folded from visits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import Counts, LearningTable
from heterobandits.errors import InvalidInput, parse_integer, parse_tables
from heterobandits.inference.expectations import expected_tables
from heterobandits.limits import COUNT_MAX
from heterobandits.model.prior import Prior
from heterobandits.model.team import Team
from heterobandits.policies.policy import Policy

OnChange = Literal["nothing", "forget"]
ON_CHANGE_CHOICES = ("nothing", "forget")  # what happens when an arm has changed
RecalledTables = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class Visit(NamedTuple):
    """What one agent brought back from one arm in one round; agent and arm by number."""

    round: int
    agent: int
    arm: int
    successes: int
    tests: int


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The two tables, agents by arms, the rounds behind them, and what was believed beforehand. Nobody can write into them.

    `recall_tables` is what a policy that forgets looks at instead: tables of its own. `under_way` is the table of the tests that
    agents are on the way to make: nothing certain goes by them, plans count them with what is expected of them.

    Examples
    --------
    >>> known = Knowledge.of(2, 3, [Visit(1, 0, 2, 3, 12), Visit(1, 1, 0, 1, 1)], rounds=1)
    >>> known.pulls.tolist(), known.successes.tolist(), known.elapsed
    ([[0, 0, 12], [1, 0, 0]], [[0, 0, 3], [1, 0, 0]], 12)
    """

    pulls: Counts
    successes: Counts
    rounds: int
    recalled: RecalledTables | None = None
    prior: Prior | None = None
    under_way: LearningTable | None = None

    def __post_init__(self) -> None:
        for field in ("pulls", "successes"):
            table = getattr(self, field).copy()
            table.flags.writeable = False
            object.__setattr__(self, field, table.view())  # which nobody can make writeable

    @property
    def tables(self) -> tuple[LearningTable, LearningTable]:
        """The two tables that a policy learns from: of everything, or of what it recalls if it forgets."""
        return (self.pulls, self.successes) if self.recalled is None else self.recalled

    def tables_of_plan(
        self, team: Team, prior: Prior | None
    ) -> tuple[LearningTable, LearningTable]:
        """The two tables that a policy plans by: real numbers as soon as visits are under way, which count as made.

        Whatever looks at index rows goes by these. The prior is that which the policy goes by.
        """
        if self.under_way is None or not self.under_way.any():
            return self.tables
        c, y = (table[:, :, None] for table in self.tables)
        pulls, successes = expected_tables(team, c, y, self.under_way[:, :, None], prior)
        return pulls[:, :, 0], successes[:, :, 0]

    def agents_under_way(self, arm: int) -> tuple[int, ...]:
        """The agents who are on the way to an arm."""
        if self.under_way is None:
            return ()
        return tuple(np.flatnonzero(self.under_way[:, arm]).tolist())

    @classmethod
    def of(
        cls,
        agents: int,
        arms: int,
        visits: Iterable[Visit] = (),
        *,
        pulls: Any = None,
        successes: Any = None,
        rounds: Any = 0,
    ) -> "Knowledge":
        """What these visits tell, on top of the tables given; `rounds` is the number of rounds in all."""
        if (pulls is None) != (successes is None):
            given, missing = ("successes", "pulls") if pulls is None else ("pulls", "successes")
            raise InvalidInput(f"{given} without {missing}: give both tables or neither")
        if pulls is None:
            pulls = successes = np.zeros((agents, arms), np.int32)
        tables = parse_tables(pulls, successes, agents, arms)
        return cls(*tables, parse_integer(rounds, "rounds", 0, COUNT_MAX)).after(visits)

    @property
    def elapsed(self) -> int:
        """t in the logarithms: the rounds or, where a visit yields many tests, the pulls of an arm.

        The union bounds count the ways in which an arm can have been pulled up to t times.
        """
        return max(self.rounds, int(self.pulls.sum(axis=0, dtype=np.int64).max()))

    def after(
        self, visits: Iterable[Visit], *, instead_of: Iterable[Visit] = (), rounds: int = 0
    ) -> "Knowledge":
        """The same with these visits, without those they stand for, and `rounds` rounds later."""
        pulls, successes = self.pulls.astype(np.int64), self.successes.astype(np.int64)
        for sign, some in ((1, visits), (-1, instead_of)):
            columns = np.array([visit[1:] for visit in some], np.int64).reshape(-1, 4)
            agent, arm, succeeded, tested = columns.T
            np.add.at(pulls, (agent, arm), sign * tested)
            np.add.at(successes, (agent, arm), sign * succeeded)
        if int(pulls.sum(axis=0).max()) > COUNT_MAX:
            raise InvalidInput(
                f"an arm would have over {COUNT_MAX:,} pulls: more than can be counted"
            )
        tables = (pulls.astype(np.int32), successes.astype(np.int32))
        return Knowledge(*tables, self.rounds + rounds, prior=self.prior)

    def without(self, arms: Iterable[int]) -> "Knowledge":
        """The same as if nothing had been seen of these arms."""
        tables = clear_arms((self.pulls, self.successes), arms)
        return Knowledge(*tables, self.rounds, prior=self.prior)

    def widened(self, agents: int, arms: int) -> "Knowledge":
        """The same for more agents and arms, of whom nothing is known yet."""
        more = [(0, agents - len(self.pulls)), (0, arms - self.pulls.shape[1])]
        tables = (np.pad(self.pulls, more), np.pad(self.successes, more))
        return Knowledge(*tables, self.rounds, prior=self.prior and self.prior.widened(arms))


class Forgetting(NamedTuple):
    """An arm of which nothing counts that was seen up to the round `last`, unless that was taken back."""

    arm: int
    last: int
    taken_back: bool = False


def forgotten_arms(entries: Iterable[Forgetting], before: int | None = None) -> dict[int, int]:
    """The arms that were forgotten before a round, each with the last round that does not count."""
    return {
        arm: last for arm, last, back in entries if not back and (before is None or last < before)
    }


def add_forgetting(entries: Sequence[Forgetting], arm: int, rounds: int) -> list[Forgetting]:
    """The same with an arm that is forgotten after so many rounds; once is enough."""
    new = Forgetting(arm, rounds)
    return [*entries] if new in entries else [*entries, new]


def take_back(entries: Sequence[Forgetting], arm: int, name: str) -> list[Forgetting]:
    """The same after it is taken back that an arm was forgotten, the last time that it was."""
    places = [i for i, one in enumerate(entries) if one.arm == arm and not one.taken_back]
    if not places:
        raise InvalidInput(f"{name!r} was not forgotten")
    return [
        one._replace(taken_back=one.taken_back or i == places[-1]) for i, one in enumerate(entries)
    ]


def forget_again(entries: Sequence[Forgetting], arm: int, last: int, name: str) -> list[Forgetting]:
    """The same after an arm is forgotten again as it was, up to the round `last`, which somebody had taken back."""
    places = [i for i, one in enumerate(entries) if one == Forgetting(arm, last, True)]
    if not places:
        raise InvalidInput(f"that {name!r} was forgotten up to round {last} was not taken back")
    return [
        one._replace(taken_back=one.taken_back and i != places[-1]) for i, one in enumerate(entries)
    ]


def cut_forgettings(entries: Iterable[Forgetting], rounds: int) -> list[Forgetting]:
    """The same if only so many rounds were held: nothing is forgotten that nobody saw, and nothing twice."""
    cut = (one._replace(last=min(one.last, rounds)) for one in entries)
    kept: list[Forgetting] = []
    for one in cut:
        if one.last and (one.taken_back or one not in kept):
            kept.append(one)
    return kept


def counted_visits(visits: Iterable[Visit], gone: Mapping[int, int]) -> list[Visit]:
    """The visits that count, where arms have been forgotten up to some round."""
    return [visit for visit in visits if visit.round > gone.get(visit.arm, 0)]


def fold_rounds(
    start: Knowledge, rounds: Iterable[Iterable[Visit]], gone: Mapping[int, int], policy: Policy
) -> Knowledge:
    """What these rounds teach, after what was known at the start, but for what was forgotten; as the policy recalls it."""
    kept = [counted_visits(visits, gone) for visits in rounds]
    start = start.without(gone)
    known = start.after(chain.from_iterable(kept), rounds=len(kept))
    if not policy.forgets:
        return known
    recalled = recall_tables(start, kept, window=policy.window, fade=policy.fade)
    return replace(known, recalled=recalled)


def clear_arms(
    tables: tuple[LearningTable, LearningTable], arms: Iterable[int]
) -> tuple[LearningTable, LearningTable]:
    """Two tables as if nothing had been seen of these arms."""
    pulls, successes = (table.copy() for table in tables)
    some = list(arms)
    pulls[:, some] = successes[:, some] = 0
    return pulls, successes


def recall_tables(
    start: Knowledge, rounds: Sequence[Iterable[Visit]], *, window: int, fade: float
) -> RecalledTables:
    """What a forgetting policy still sees of these rounds: the last `window`, or all of them faded   docs/model.md (17), (18)

    What was known at the start counts as if it had been seen in the round before the first.
    """
    pulls, successes = start.pulls.astype(np.float64), start.successes.astype(np.float64)
    if window and len(rounds) >= window:
        pulls[:], successes[:] = 0.0, 0.0
    for visits in rounds[-window:]:
        pulls *= fade
        successes *= fade
        for visit in visits:
            pulls[visit.agent, visit.arm] += visit.tests
            successes[visit.agent, visit.arm] += visit.successes
    return pulls, successes


def visits_under_way(
    team: Team,
    arms: int,
    rounds: Sequence[Iterable[tuple[int, int]]],
    *,
    window: int = 0,
    fade: float = 1.0,
) -> LearningTable:
    """The table of the tests that agents are on the way to make, from the pairs (agent, arm) of each round so far.

    A policy that forgets counts them as it will count their outcomes.
    """
    out, tests = np.zeros((len(team), arms)), np.array(team.tests)
    for pairs in rounds[-window:]:
        if fade < 1.0:
            out *= fade
        agents, places = np.array(list(pairs), np.int64).reshape(-1, 2).T
        np.add.at(out, (agents, places), tests[agents])
    return out
