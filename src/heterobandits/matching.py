"""Who goes where in a real round: agents absent, arms closed, pairs forbidden or forced.

Absence and closure leave the paper's sorted matching as it is, on those who are left; it runs
on the simulator's kernel. Forbidden and forced pairs need an optimal matching, which
maximises the sum of sensitivity times index over everything that is allowed. Where both
apply they agree.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.core.assignment import BY_CHANCE, BY_INDEX, assign
from heterobandits.errors import InvalidInput
from heterobandits.team import pick_order

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]
Pair = tuple[int, int]

MOST_FINITE = 1e150  # beyond, indices count the same: their products must not overflow
NEVER_SEEN = 1e6  # an optimal matching cannot take infinities: an arm never pulled counts
#                   this many times the largest finite index


class Circumstances(NamedTuple):
    """What is particular about a round."""

    absent: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    forbidden: frozenset[Pair] = frozenset()
    forced: frozenset[Pair] = frozenset()

    @property
    def paired(self) -> bool:
        """Whether pairs are forbidden or forced, so that picking in turn is not enough."""
        return bool(self.forbidden or self.forced)


@dataclass(frozen=True)
class Team:
    """The agents: how sensitive each is believed to be, and whether turns follow that or chance."""

    sensitivities: tuple[float, ...]
    random_turns: bool

    @property
    def order(self) -> list[int]:
        """The agents in the order in which they pick, where turns are not random."""
        return [int(a) for a in pick_order(self.sensitivities)]

    @property
    def weights(self) -> Floats:
        """What an agent's index counts in a matching: its sensitivity, or all the same."""
        return (
            np.ones(len(self.sensitivities)) if self.random_turns else np.array(self.sensitivities)
        )

    def table(self, rows: Floats) -> Floats:
        """Index rows, which have the agents in picking order, as a table with them as listed."""
        table = np.empty((len(self.sensitivities), rows.shape[1]))
        table[self.order] = rows[:, :, 0]
        return table


def match(rows: Floats, team: Team, words: Words, round_: Circumstances) -> dict[int, int]:
    """The arm of each agent that is sent somewhere.

    `rows` are the index rows of a block of one trial, (1 or agents, arms, 1), and `words` the
    round's: the luck of the arms, then ties, then draws for random turns.
    """
    if round_.paired:
        return optimal_match(team.table(rows), team, words, round_)
    arms = rows.shape[1]
    draws = words[2 * arms :]
    turns = [q for q, a in enumerate(team.order) if a not in round_.absent]
    free = [n for n in range(arms) if n not in round_.closed]
    if len(turns) > len(free):  # the last ones stay home
        if team.random_turns:
            turns.sort(key=lambda q: -int(draws[q]))
        turns = sorted(turns[: len(free)])
    if not turns:
        return {}
    own = turns if len(rows) > 1 else [0]
    ties = words[arms : arms + len(rows) * arms].reshape(len(rows), arms)
    picked, out = np.empty((2, len(turns), 1), np.int32)
    assign(
        np.ascontiguousarray(rows[own][:, free]),
        np.ascontiguousarray(ties[own][:, free].reshape(-1, 1)),
        np.ascontiguousarray(draws[turns][:, None] if team.random_turns else draws[:0, None]),
        BY_CHANCE if team.random_turns else BY_INDEX,
        picked,
        out,
    )
    return {team.order[q]: free[int(n)] for q, n in zip(turns, out[:, 0], strict=True)}


def sorted_match(rows: Floats, team: Team, words: Words, round_: Circumstances) -> dict[int, int]:
    """The arm of each agent where the first row decides which arms are visited, the second by whom."""
    chosen = match(rows[:1], team, words, round_).values()
    others = frozenset(range(rows.shape[1])) - set(chosen)
    return match(rows[1:], team, words, round_._replace(closed=round_.closed | others))


def optimal_match(table: Floats, team: Team, words: Words, round_: Circumstances) -> dict[int, int]:
    """The allowed assignment with the greatest sum of sensitivity times index.

    The arms are offered in the random order of their tie-breaks, so that among equal
    assignments none is favoured by the numbering of the arms.
    """
    from scipy.optimize import linear_sum_assignment

    arms = table.shape[1]
    luck = words[arms : 2 * arms]
    forced = dict(round_.forced)
    agents = [a for a in team.order if a not in round_.absent and a not in forced]
    taken = round_.closed | set(forced.values())
    free = sorted((n for n in range(arms) if n not in taken), key=lambda n: -int(luck[n]))
    value = (team.weights[:, None] * finite(table))[np.ix_(agents, free)]
    for a, n in round_.forbidden:
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
    table: Floats, team: Team, assignment: dict[int, int], round_: Circumstances, agent: int
) -> int | None:
    """The best arm for this agent, of those still free at its turn, if its own were not to be had."""
    index, mine = table[agent], assignment[agent]
    if team.random_turns:  # turn by turn the arms go in the order of their index
        before = {n for n in assignment.values() if index[n] > index[mine]}
    else:
        earlier = team.order[: team.order.index(agent)]
        before = {assignment[a] for a in earlier if a in assignment}
    free = set(range(len(index))) - round_.closed - before - {mine}
    return max(sorted(free), key=lambda n: index[n], default=None)


def next_in_match(
    table: Floats,
    shared: bool,
    team: Team,
    words: Words,
    round_: Circumstances,
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
    arm, weights, values = assignment[agent], team.weights, finite(table)
    x = values[agent, arm]

    def worth(matched: dict[int, int]) -> float:
        return float(sum(weights[a] * values[a, n] for a, n in matched.items()))

    falling: list[tuple[float, int]] = []
    rising: list[tuple[float, int]] = []
    others = set(team.order) - round_.absent - {agent} if shared else set()
    for heir in (None, *sorted(others)):
        pairs = round_._replace(forbidden=round_.forbidden | {(agent, arm)})
        if heir is not None:
            pairs = pairs._replace(forced=pairs.forced | {(heir, arm)})
        elif shared:
            pairs = pairs._replace(closed=pairs.closed | {arm})
        if len(dict(pairs.forced)) < len(pairs.forced) or pairs.forced & pairs.forbidden:
            continue
        try:
            other = optimal_match(table, team, words, pairs)
        except InvalidInput:  # not everybody can be sent like that
            continue
        if len(other) < len(assignment) or agent not in other:
            continue
        slope = float(weights[agent] - (0.0 if heir is None else weights[heir]))
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
