"""The state of a campaign after its events: agents and arms, rounds with their outcomes, and the two tables of learning.

Agents and arms have numbers, from 0 on, which never change; in events and for programs they are `agent-1`, `arm-1`. An
agent whose reports have changed for good has several rows in the tables, each with the first round it holds for: what it
found before counts as it was reported then.

A state is never changed once it is made: `folding.fold` makes the next one. So whoever reads one needs no lock.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from heterobandits.arrays import Integers, LearningTable
from heterobandits.caches import cached_property
from heterobandits.campaigns.rounds import PlannedRound, RoundGiven, Rounds
from heterobandits.campaigns.validation import MEMBER_ID_PATTERN
from heterobandits.errors import (
    InvalidInput,
    normalize_name,
    parse_integer,
    repr_of,
    unknown_name,
)
from heterobandits.model.prior import LEARNED, BetaShape, Prior, PriorKind
from heterobandits.model.team import Team
from heterobandits.planner.knowledge import (
    Forgetting,
    Knowledge,
    OnChange,
    Visit,
    counted_visits,
    fold_rounds,
    forgotten_arms,
    visits_under_way,
)
from heterobandits.planner.matching import AgentArm, Circumstances
from heterobandits.planner.roster import AgentRow, Reports, find_row, team_of_rows
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords
from heterobandits.policies.policy import Policy

MemberKind = Literal["agent", "arm"]
OfState = TypeVar("OfState")
TIME_PATTERN = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
LINK_ROLES = ("owner", "planner", "reporter", "viewer")


@dataclass(frozen=True)
class Agent:
    """Somebody who is sent: the name, whether retired, and the current row in the tables."""

    name: str
    row: int
    retired: bool = False


@dataclass(frozen=True)
class Arm:
    """A place: its name, whether retired, the first round that could visit it, and whether an outcome of it was ever reported.

    `prior` is the Beta that is stated of its mean, and `fixed` what was stated of it before the first outcome: what is certain goes
    by that. An outcome that was withdrawn has been seen all the same.
    """

    name: str
    retired: bool = False
    since: int = 1
    seen: bool = False
    prior: BetaShape | None = None
    fixed: BetaShape | None = None


@dataclass(frozen=True)
class Link:
    """A link: its holder may do what its role allows; the state has only the hash of its token."""

    id: str
    role: str
    name: str
    agent: int | None
    expires: str | None
    token_hash: str
    event: int
    revoked: bool = False
    made: str = ""

    def holds(self, time: str) -> bool:
        """Whether it still may be used, at this time."""
        return not self.revoked and (
            self.expires is None or parse_time(time) < parse_time(self.expires)
        )


@dataclass(eq=False)
class State:
    """A campaign after event `number`, whose hash is `hash`."""

    campaign: str
    number: int
    hash: str
    created: str
    changed: str
    name: str
    agents: list[Agent]
    rows: list[AgentRow]
    arms: list[Arm]
    policy: Policy
    seed: int
    season: int | None
    rounds: Rounds
    links: dict[str, Link]
    pulls: Integers
    successes: Integers
    waiting: frozenset[int]
    plans_by: PriorKind = "stated"
    forgotten: tuple[Forgetting, ...] = ()
    on_change: OnChange = "nothing"
    archived: bool = False
    ends: str | None = None
    words: CampaignWords = DEFAULT_WORDS

    @cached_property
    def team(self) -> Team:
        """Everybody who ever reported, a row for each way to report."""
        return team_of_rows(self.agent_names, self.rows)

    @cached_property
    def arm_names(self) -> tuple[str, ...]:
        """Of all arms."""
        return tuple(arm.name for arm in self.arms)

    @cached_property
    def agent_names(self) -> tuple[str, ...]:
        """Of all agents."""
        return tuple(agent.name for agent in self.agents)

    @cached_property
    def arm_numbers(self) -> dict[str, int]:
        """The numbers of all arms, by name."""
        return {arm.name: number for number, arm in enumerate(self.arms)}

    @cached_property
    def agent_numbers(self) -> dict[str, int]:
        """The numbers of all agents, by name."""
        return {agent.name: number for number, agent in enumerate(self.agents)}

    @property
    def next_round(self) -> int:
        """The number of the round that would be planned next."""
        return len(self.rounds) + 1

    @property
    def rounds_left(self) -> int | None:
        """How many rounds of the season are not planned yet; None if it has no end."""
        return None if self.season is None else max(0, self.season - len(self.rounds))

    def reports(self, agent: int) -> Reports:
        """How an agent reports now."""
        return self.rows[self.agents[agent].row].reports

    def agent(self, key: Any) -> int:
        """The number of an agent, given by its name or id."""
        return number_of_member(key, "agent", self.agent_numbers)

    def arm(self, key: Any) -> int:
        """The number of an arm, given by its name or id."""
        return number_of_member(key, "arm", self.arm_numbers)

    def member(self, kind: MemberKind, key: Any) -> int:
        """The number of an agent or arm, given by its name or id."""
        return self.agent(key) if kind == "agent" else self.arm(key)

    def pair(self, key: Any, name: str) -> AgentArm:
        """An agent and an arm, given by names or ids."""
        if not isinstance(key, (tuple, list)) or len(key) != 2:
            raise InvalidInput(f"{name} has {repr_of(key)}: pairs (agent, arm)")
        return self.agent(key[0]), self.arm(key[1])

    def round(self, number: Any) -> PlannedRound:
        """The round of this number."""
        n = parse_integer(number, "round", 0)
        if not 1 <= n <= len(self.rounds):
            planned = f"rounds 1 to {len(self.rounds)} are" if self.rounds else "none is yet"
            raise InvalidInput(f"round {repr_of(n)} is not planned: {planned}")
        return self.rounds[n - 1]

    def row_in(self, agent: int, number: int) -> int:
        """The row of an agent's visits in the round of this number."""
        return find_row(self.rows, self.agents[agent].row, number)

    def circumstances(self, given: RoundGiven) -> Circumstances:
        """The same for the rows of the team: who left stays home, and arms that were given up are closed."""
        row = [agent.row for agent in self.agents]
        here = {agent.row for agent in self.agents if not agent.retired}
        gone = {n for n, arm in enumerate(self.arms) if arm.retired}

        def rows(pairs: Iterable[AgentArm]) -> list[AgentArm]:
            return [(row[a], n) for a, n in pairs]

        return Circumstances.of(
            self.team.names,
            self.arm_names,
            [row[a] for a in given.absent],
            given.closed | gone,
            rows(given.forbidden),
            rows(given.forced),
            [i for i in range(len(self.rows)) if i not in here],
        )

    def visits(self, round: PlannedRound) -> Iterator[Visit]:
        """What is known of a round, by rows of the team."""
        return round.visits(self.row_in)

    def counted(self, round: PlannedRound) -> list[Visit]:
        """The same without what was forgotten."""
        return counted_visits(self.visits(round), self.gone)

    @property
    def gone(self) -> dict[int, int]:
        """The arms that were forgotten, each with the last round that does not count."""
        return forgotten_arms(self.forgotten)

    @property
    def prior(self) -> Prior:
        """What is believed of all means beforehand: as stated, or learned from all arms together where nothing is."""
        return Prior(tuple(arm.prior for arm in self.arms), learned=True)

    @property
    def fixed_prior(self) -> Prior:
        """What was stated before anything was seen, which is what certain statements may go by."""
        return Prior(tuple(arm.fixed for arm in self.arms))

    @cached_property
    def plan_knowledge(self) -> Knowledge:
        """What plans go by: what has been learned, and who is on the way."""
        known = self.knowledge
        return replace(known, under_way=self._under_way()) if self.waiting else known

    def _under_way(self) -> LearningTable:
        """The tests that agents are on the way to make: in rounds that wait, those of whom nothing is known and that will count."""
        gone = self.gone
        pairs = (
            [
                (self.row_in(a, number), n)
                for a, n in self.round(number).missing
                if number > gone.get(n, 0)
            ]
            if number in self.waiting
            else []
            for number in range(min(self.waiting), len(self.rounds) + 1)
        )
        window, fade = self.policy.window, self.policy.fade
        return visits_under_way(self.team, len(self.arms), list(pairs), window=window, fade=fade)

    @cached_property
    def knowledge(self) -> Knowledge:
        """What has been learned and counts, as the policy recalls it, and the prior that plans go by."""
        prior = replace(self.prior, learned=self.plans_by == LEARNED)
        if not self.policy.forgets and not self.gone:
            tables = (self.pulls.astype(np.int32), self.successes.astype(np.int32))
            return Knowledge(*tables, len(self.rounds), prior=prior)
        start = replace(Knowledge.of(len(self.rows), len(self.arms)), prior=prior)
        return fold_rounds(start, map(self.visits, self.rounds), self.gone, self.policy)


def once_for_state(work: Callable[[State], OfState]) -> Callable[[State], OfState]:
    """`work`, done once for each state: a state never changes, and many people look at the same one."""
    found: WeakKeyDictionary[State, OfState] = WeakKeyDictionary()

    @wraps(work)
    def known(state: State) -> OfState:
        if state not in found:
            found[state] = work(state)
        return found[state]

    return known


def number_of_member(key: Any, kind: MemberKind, known: Mapping[str, int]) -> int:
    """The number of the agent or arm that has this name or id."""
    number = find_member_number(key, kind, known)
    if number is None:
        raise unknown_name(kind, key, tuple(known))
    return number


def find_member_number(key: Any, kind: MemberKind, known: Mapping[str, int]) -> int | None:
    """The same without a word on what is not there, which takes a while."""
    if isinstance(key, str):
        found = MEMBER_ID_PATTERN.fullmatch(key)
        if found and found[1] == kind and int(found[2]) <= len(known):
            return int(found[2]) - 1
        return known.get(normalize_name(key))
    return None


def member_id(kind: MemberKind, number: int) -> str:
    """The id of an agent or arm.

    >>> member_id("agent", 0)
    'agent-1'
    """
    return f"{kind}-{number + 1}"


def parse_time(text: Any, name: str = "time") -> datetime:
    """A time that can be compared; without a zone it is UTC."""
    try:
        if not isinstance(text, str) or not TIME_PATTERN.fullmatch(text):
            raise ValueError
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(f"{name} is {repr_of(text)}: such as 2026-03-01T09:30:00Z") from None
