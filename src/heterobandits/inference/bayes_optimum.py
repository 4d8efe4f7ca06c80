"""The best that can be done in tiny worlds: exact dynamic programming over the two tables   docs/limits.md (4), (5)

If nothing is known of the means but that each may be anything, the Bayes-optimal policy has the greatest reward on the average over all
means and all luck. What is known after some rounds is the two tables, and from a table an assignment leads to others with
probabilities that follow from it. So the best reward follows from the last round backwards. Arms are alike before they
are visited: tables that differ in the order of their columns count once.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.errors import InvalidInput, parse_integer
from heterobandits.inference.intervals import Posteriors
from heterobandits.model.team import Team
from heterobandits.policies.policy import Policy
from heterobandits.policies.policy import policy as catalogued

Column = tuple[tuple[int, int], ...]  # of an arm: pulls and successes of every agent
WorldTables = tuple[Column, ...]  # the columns of all arms, in ascending order
Assignment = tuple[int, ...]

TINY_WORLD_MAX_STATES = 3_000_000  # of all rounds together: some 2 GB
TINY_WORLD_MAX_AGENTS, TINY_WORLD_MAX_ARMS = 4, 8  # in more there is hardly a round to look at


class Optimum(NamedTuple):
    """The Bayes-optimal policy, or another, in a tiny world.

    Attributes
    ----------
    reward
        The expected number of successes, on the average over all means.
    regret
        How much less that is than the reward of those who know the means.
    states
        How many tables were looked at.
    """

    reward: float
    regret: float
    states: int


def bayes_optimal(sensitivities: Any, arms: int, horizon: int) -> Optimum:
    """The greatest reward, and so the least regret, on the average over all means: no policy is better there.

    The means are independent and uniform on [0, 1]. One test in a visit.

    Examples
    --------
    One agent and one arm: there is nothing to choose, and nothing to regret.

    >>> bayes_optimal([0.5], 1, 4)[:2]
    (1.0, 0.0)
    """
    return _solve_world(sensitivities, arms, horizon, None)


def bayes_regret(policy: str | Policy, sensitivities: Any, arms: int, horizon: int) -> Optimum:
    """The Bayes regret of a policy of the catalogue: its exact regret on the average over all means.

    Ties and random turns count with their chances. Not for policies that draw means, rank whole assignments or forget.
    """
    entry = catalogued(policy)
    if not is_computable(entry):
        raise InvalidInput(
            f"{entry.name} is not a function of the two tables: its regret can be simulated, not computed"
        )
    return _solve_world(sensitivities, arms, horizon, entry)


def is_computable(policy: Policy) -> bool:
    """Whether a policy depends on the two tables alone, apart from ties and turns."""
    draws = policy.rule is None or policy.rule.words > 0
    return not (draws or policy.simulated_only or policy.forgets)


def _solve_world(sensitivities: Any, arms: Any, horizon: Any, entry: Policy | None) -> Optimum:
    team = Team(sensitivities)
    parse_integer(len(team), "the number of agents", 1, TINY_WORLD_MAX_AGENTS)
    arms = parse_integer(arms, "arms", len(team), TINY_WORLD_MAX_ARMS)
    horizon = parse_integer(horizon, "horizon", 1, 1000)
    check_world_size(len(team), arms, horizon)
    entry = None if entry is None else entry.until(horizon)
    layers = list(_tables_by_round(team, arms, horizon))
    means = _posterior_means(
        team, {column for layer in layers for state in layer for column in state}
    )
    value: dict[WorldTables, float] = {}
    for t in range(horizon - 1, -1, -1):
        value = _rewards_from_round(team, layers[t], means, value, entry, t)
    (reward,) = value.values()
    known = sum(
        s * (arms - i) / (arms + 1) for i, s in enumerate(sorted(team.sensitivities, reverse=True))
    )  # the i-th largest of N uniform numbers is (N - i) / (N + 1) on the average
    states = sum(map(len, layers))
    return Optimum(reward, max(0.0, horizon * known - reward), states)


def check_world_size(agents: int, arms: int, horizon: int) -> None:
    """Refuse a world whose tables do not fit into memory, by multiplying rough counts for each agent."""
    most = math.comb(horizon - 1 + 2 * arms, 2 * arms) ** agents // math.factorial(arms)
    if most > 8 * TINY_WORLD_MAX_STATES:
        amount = f"{most:,}" if most < 10**15 else f"10^{len(str(most)) - 1}"
        raise InvalidInput(
            f"{agents} agents, {arms} arms and {horizon} rounds have up to {amount} tables: "
            f"at most about {TINY_WORLD_MAX_STATES:,} can be looked at"
        )


def _tables_by_round(team: Team, arms: int, horizon: int) -> Iterable[list[WorldTables]]:
    """The tables that are possible before each round."""
    layer: set[WorldTables] = {(((0, 0),) * len(team),) * arms}
    seen = 0
    for _ in range(horizon):
        seen += len(layer)
        if seen > TINY_WORLD_MAX_STATES:
            raise InvalidInput(
                f"{len(team)} agents, {arms} arms and {horizon} rounds have over {seen:,} tables: "
                f"at most {TINY_WORLD_MAX_STATES:,} can be looked at"
            )
        yield list(layer)
        layer = {
            tables_after(state, assignment, outcomes)
            for state in layer
            for assignment in distinct_assignments(state, len(team))
            for outcomes in itertools.product((0, 1), repeat=len(team))
        }


def distinct_assignments(state: WorldTables, agents: int) -> list[Assignment]:
    """The assignments that lead to different tables: of identical arms, the first is visited first."""
    found: dict[tuple[Column, ...], Assignment] = {}
    for assignment in itertools.permutations(range(len(state)), agents):
        found.setdefault(tuple(state[n] for n in assignment), assignment)
    return list(found.values())


def tables_after(
    state: WorldTables, assignment: Assignment, outcomes: tuple[int, ...]
) -> WorldTables:
    """The tables after a round."""
    columns = list(state)
    for a, (n, success) in enumerate(zip(assignment, outcomes, strict=True)):
        pulls, successes = columns[n][a]
        columns[n] = (*columns[n][:a], (pulls + 1, successes + success), *columns[n][a + 1 :])
    return tuple(sorted(columns))


def _posterior_means(team: Team, columns: set[Column]) -> dict[Column, float]:
    """The posterior mean of an arm with each of these columns."""
    every = list(columns)
    table = np.array(every, np.int32)  # [column, agent, pulls or successes]
    pulls, successes = (np.ascontiguousarray(table[:, :, i].T) for i in (0, 1))
    known = Posteriors.of(team, pulls, successes)
    return dict(zip(every, known.mean.tolist(), strict=True))


def _rewards_from_round(
    team: Team,
    layer: list[WorldTables],
    means: dict[Column, float],
    later: dict[WorldTables, float],
    entry: Policy | None,
    t: int,
) -> dict[WorldTables, float]:
    """The expected rewards from a round on, given those from the next round on; for the best policy or for this one."""
    s = team.sensitivities
    outcomes = list(itertools.product((0, 1), repeat=len(team)))

    def reward(state: WorldTables, assignment: Assignment) -> float:
        chances = [s[a] * means[state[n]] for a, n in enumerate(assignment)]
        total = sum(chances)
        if later:
            for found in outcomes:
                chance = math.prod(p if y else 1.0 - p for p, y in zip(chances, found, strict=True))
                total += chance * later[tables_after(state, assignment, found)]
        return total

    if entry is None:
        return {
            state: max(reward(state, f) for f in distinct_assignments(state, len(team)))
            for state in layer
        }
    plans = assignments_with_chances(team, entry, layer, t)
    return {
        state: sum(chance * reward(state, f) for chance, f in plan)
        for state, plan in zip(layer, plans, strict=True)
    }


def assignments_with_chances(
    team: Team, entry: Policy, layer: list[WorldTables], t: int
) -> list[list[tuple[float, Assignment]]]:
    """What a policy does with each of these tables after t rounds: assignments with their chances."""
    tables = np.array(layer, np.int32)  # [state, arm, agent, pulls or successes]
    pulls, successes = (np.ascontiguousarray(tables[..., i].transpose(2, 1, 0)) for i in (0, 1))
    agents, _, states = pulls.shape
    no_words = np.zeros((0, states), np.uint32)
    rows = entry.index_rows(team, pulls, successes, t, lambda first, count: no_words)
    turns = [tuple(team.order.tolist())]
    if entry.first == "random":
        turns = list(itertools.permutations(range(agents)))
    found = []
    for i in range(states):
        chances: dict[Assignment, float] = {}
        for order in turns:
            for chance, assignment in _assignments_by_ties(rows[:, :, i], order, entry):
                chances[assignment] = chances.get(assignment, 0.0) + chance / len(turns)
        found.append([(chance, f) for f, chance in chances.items()])
    return found


def _assignments_by_ties(
    rows: Floats, order: Sequence[int], entry: Policy
) -> list[tuple[float, Assignment]]:
    """Who goes where by these index rows if the agents pick in this order, with the chance that ties fall so."""
    if entry.sorted_by == "estimate":  # the first row chooses the arms, the second deals them
        chosen: dict[frozenset[int], float] = {}
        for chance, arms in _picks_by_ties([rows[0]] * len(order)):
            chosen[frozenset(arms)] = chosen.get(frozenset(arms), 0.0) + chance
        picks = []
        for some, share in chosen.items():
            row = np.where([n in some for n in range(rows.shape[1])], rows[1], -np.inf)
            picks += [(share * chance, arms) for chance, arms in _picks_by_ties([row] * len(order))]
    else:
        own = entry.index_per == "agent"
        picks = _picks_by_ties([rows[agent if own else 0] for agent in order])
    placed = []
    for chance, arms in picks:
        of = dict(zip(order, arms, strict=True))
        placed.append((chance, tuple(of[agent] for agent in range(len(order)))))
    return placed


def _picks_by_ties(rows: Sequence[Floats]) -> list[tuple[float, tuple[int, ...]]]:
    """The arms as they are picked one after the other, each time the highest left in a row, tied ones with equal chances."""
    ways: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]
    for row in rows:
        longer = []
        for chance, taken in ways:
            free = [n for n in range(len(row)) if n not in taken]
            top = max(row[n] for n in free)
            tied = [n for n in free if row[n] == top]
            longer += [(chance / len(tied), (*taken, n)) for n in tied]
        ways = longer
    return ways
