"""Who goes where in a real round: agents absent, arms closed, pairs forbidden or forced.

Absence and closure leave the simulator's assignment as it is, on those who are left; it runs
on the simulator's kernel. Forbidden and forced pairs need an optimal matching, which
maximises the sum of sensitivity times index over everything that is allowed. Where both
apply to one index row they agree. Agents are as listed, in tables, rows and answers.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.core.assignment import BY_CHANCE, BY_SECOND_ROW, assign, table
from heterobandits.errors import InvalidInput, listed, located, located_pair
from heterobandits.team import Team

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]
Pair = tuple[int, int]

MOST_FINITE = 1e150  # beyond, indices count the same: their products must not overflow
NEVER_SEEN = 1e6  # an optimal matching cannot take infinities: an arm never pulled counts
#                   this many times the largest finite index


class Circumstances(NamedTuple):
    """What is particular about a round; agents and arms by number."""

    absent: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    forbidden: frozenset[Pair] = frozenset()
    forced: frozenset[Pair] = frozenset()
    left: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        agents: Sequence[str],
        arms: Sequence[str],
        absent: Iterable[Any] = (),
        closed: Iterable[Any] = (),
        forbidden: Iterable[Any] = (),
        forced: Iterable[Any] = (),
        left: Iterable[Any] = (),
    ) -> "Circumstances":
        """The circumstances, given by names or numbers of these agents and arms; refuses contradictions."""

        def pairs(given: Any, name: str) -> frozenset[Pair]:
            items = listed(given, name, "pairs (agent, arm)")
            return frozenset(located_pair(pair, name, agents, arms) for pair in items)

        away = frozenset(located(a, "agent", agents) for a in listed(absent, "absent", "agents"))
        shut = frozenset(located(n, "arm", arms) for n in listed(closed, "closed", "arms"))
        never, must = pairs(forbidden, "forbidden"), pairs(forced, "forced")
        gone = frozenset(located(a, "agent", agents) for a in listed(left, "left", "agents"))
        for a, n in sorted(must):
            for wrong, why in (
                (a in gone, "the agent left the team"),
                (a in away, "the agent is absent"),
                (n in shut, "the arm is closed"),
                ((a, n) in never, "the pair is forbidden as well"),
                (sum(b == a for b, _ in must) > 1, "the agent is forced to two arms"),
                (sum(m == n for _, m in must) > 1, "two agents are forced to that arm"),
            ):
                if wrong:
                    raise InvalidInput(f"forced pair ({agents[a]!r}, {arms[n]!r}): {why}")
        return cls(away, shut, never, must, gone)

    @property
    def away(self) -> frozenset[int]:
        """Who is not there to be sent."""
        return self.absent | self.left

    @property
    def paired(self) -> bool:
        """Whether pairs are forbidden or forced, so that picking in turn is not enough."""
        return bool(self.forbidden or self.forced)


class Luck(NamedTuple):
    """The random words of a round.

    Attributes
    ----------
    arms
        The tie-break of each arm, where all agents are offered the arms alike.
    own
        The same in each agent's own index row, (agents, arms), where each has one.
    turns
        The draw of each agent for its turn, where turns are random.
    """

    arms: Words
    own: Words
    turns: Words


def match(
    rows: Floats, dealt: int, team: Team, luck: Luck, circumstances: Circumstances
) -> dict[int, int]:
    """The arm of each agent that is sent somewhere.

    `rows` are the index rows, (1 or agents, arms) or, where the arms are dealt by a second
    row, (2, arms); `dealt` is how, as `core.assignment` numbers it.
    """
    if circumstances.paired:
        return paired_match(rows, dealt, team, luck, circumstances)
    turns = [a for a in team.order.tolist() if a not in circumstances.away]
    free = [n for n in range(rows.shape[1]) if n not in circumstances.closed]
    if len(turns) > len(free):  # the last ones stay home
        by_turn = sorted(turns, key=lambda a: -int(luck.turns[a])) if dealt == BY_CHANCE else turns
        turns = [a for a in turns if a in by_turn[: len(free)]]
    if not turns:
        return {}
    each_its_own = dealt != BY_SECOND_ROW and len(rows) > 1
    index = rows[turns] if each_its_own else rows
    ties = luck.own[turns] if each_its_own else luck.arms[None]
    out = np.empty((len(turns), 1), np.int32)
    assign(
        np.ascontiguousarray(index[:, free, None]),
        np.ascontiguousarray(ties[:, free].reshape(-1, 1)),
        np.ascontiguousarray(luck.turns[turns, None]),
        dealt,
        np.arange(len(turns)),
        table(len(turns), len(free), 1),
        out,
    )
    return {a: free[int(n)] for a, n in zip(turns, out[:, 0], strict=True)}


def paired_match(
    rows: Floats, dealt: int, team: Team, luck: Luck, circumstances: Circumstances
) -> dict[int, int]:
    """The same where pairs are forbidden or forced; a second row is matched on the arms the first chose."""
    if dealt != BY_SECOND_ROW:
        return optimal_match(for_each(team, rows), dealt, team, luck, circumstances)
    first, second = (for_each(team, row) for row in rows)
    chosen = optimal_match(first, dealt, team, luck, circumstances).values()
    others = frozenset(range(rows.shape[1])) - set(chosen)
    among = circumstances._replace(closed=circumstances.closed | others)
    return optimal_match(second, dealt, team, luck, among)


def for_each(team: Team, rows: Floats) -> Floats:
    """An index row for each agent, where they may share one."""
    return np.broadcast_to(rows, (len(team), rows.shape[-1]))


def weights(team: Team, dealt: int) -> Floats:
    """What an agent's index counts in an optimal matching: its sensitivity or, in random turns, all the same."""
    return np.ones(len(team)) if dealt == BY_CHANCE else team.slope


def optimal_match(
    table: Floats, dealt: int, team: Team, luck: Luck, circumstances: Circumstances
) -> dict[int, int]:
    """The allowed assignment with the greatest sum of sensitivity times index.

    The arms are offered in the random order of their tie-breaks, so that among equal
    assignments none is favoured by the numbering of the arms.
    """
    from scipy.optimize import linear_sum_assignment

    forced = dict(circumstances.forced)
    agents = [a for a in team.order.tolist() if a not in circumstances.away and a not in forced]
    taken = circumstances.closed | set(forced.values())
    offered = [n for n in range(table.shape[1]) if n not in taken]
    free = sorted(offered, key=lambda n: -int(luck.arms[n]))
    value = (weights(team, dealt)[:, None] * finite(table))[np.ix_(agents, free)]
    for a, n in circumstances.forbidden:
        if a in agents and n in free:
            value[agents.index(a), free.index(n)] = -np.inf
    try:
        matched = zip(*linear_sum_assignment(value, maximize=True), strict=True)
    except ValueError:
        raise InvalidInput(
            "no assignment is left: the forbidden pairs leave some agent without an arm; "
            "name it as absent or allow a pair"
        ) from None
    return forced | {agents[i]: free[j] for i, j in matched}


def finite(table: Floats) -> Floats:
    """The table with infinities replaced by numbers that outweigh all others."""
    large = stand_in(table)
    return np.clip(table, -large, large)


def stand_in(table: Floats) -> float:
    """What stands for infinity beside the finite numbers of the table."""
    largest = float(np.abs(table[np.isfinite(table)]).max(initial=1.0))
    return NEVER_SEEN * min(largest, MOST_FINITE)


def next_in_turn(
    table: Floats,
    dealt: int,
    team: Team,
    circumstances: Circumstances,
    assignment: dict[int, int],
    agent: int,
) -> int | None:
    """The best arm for this agent, of those still free at its turn, if its own were not to be had."""
    index, mine = table[agent], assignment[agent]
    if dealt == BY_CHANCE:  # turn by turn the arms go in the order of their index
        before = {n for n in assignment.values() if index[n] > index[mine]}
    else:
        order = team.order.tolist()
        before = {assignment[a] for a in order[: order.index(agent)] if a in assignment}
    free = set(range(len(index))) - circumstances.closed - before - {mine}
    return max(sorted(free), key=lambda n: index[n], default=None)


def next_in_match(
    table: Floats,
    shared: bool,
    dealt: int,
    team: Team,
    luck: Luck,
    circumstances: Circumstances,
    assignment: dict[int, int],
    agent: int,
) -> tuple[int | None, float | None]:
    """Where an optimal matching would send this agent next, and the index of its arm that does it.

    As a function of x, the index of the agent's arm, the best matching with the agent there
    is worth w x + a constant, w being the agent's weight. Without it, each heir who might
    take the arm instead makes a line of its own, with the heir's weight (nothing if nobody
    takes it, or if each agent has an index of its own). The agent leaves where its line is
    first crossed: as x falls or, if no line is flatter, as it rises.
    """
    arm, weight, values = assignment[agent], weights(team, dealt), finite(table)
    x = values[agent, arm]

    def worth(matched: dict[int, int]) -> float:
        return float(sum(weight[a] * values[a, n] for a, n in matched.items()))

    falling: list[tuple[float, int]] = []
    rising: list[tuple[float, int]] = []
    others = set(range(len(team))) - circumstances.away - {agent} if shared else set()
    for heir in (None, *sorted(others)):
        pairs = circumstances._replace(forbidden=circumstances.forbidden | {(agent, arm)})
        if heir is not None:
            pairs = pairs._replace(forced=pairs.forced | {(heir, arm)})
        elif shared:
            pairs = pairs._replace(closed=pairs.closed | {arm})
        if len(dict(pairs.forced)) < len(pairs.forced) or pairs.forced & pairs.forbidden:
            continue
        try:
            other = optimal_match(table, dealt, team, luck, pairs)
        except InvalidInput:  # not everybody can be sent like that
            continue
        if len(other) < len(assignment) or agent not in other:
            continue
        slope = float(weight[agent] - (0.0 if heir is None else weight[heir]))
        loss = worth(assignment) - worth(other)
        if slope == 0.0:
            if math.isclose(loss, 0.0, abs_tol=1e-12 * max(1.0, abs(x))):
                falling.append((x, other[agent]))
            continue
        (falling if slope > 0 else rising).append((x - loss / slope, other[agent]))
    if falling or rising:
        crossing, runner_up = max(falling, key=_first) if falling else min(rising, key=_first)
        beyond = abs(crossing) >= stand_in(table) * (1 - 1e-9)
        return runner_up, math.copysign(math.inf, crossing) if beyond else float(crossing)
    return None, None


def _first(pair: tuple[float, int]) -> float:
    return pair[0]
