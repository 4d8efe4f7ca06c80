"""Who goes where in a real round: agents absent, arms closed, pairs forbidden or forced.

Absence and closure leave the simulator's assignment as it is, on those who are left; it runs
on the simulator's kernel. With forbidden or forced pairs the same is chosen among all that is
allowed, in three steps, each the best by an order that does not know of the pairs:

1. who goes, if there are more agents than arms: the first by turn;
2. the set of arms: the highest index, then the next, as far as everybody can still be matched. Such
   sets are the bases of a transversal matroid, so no other one has a higher first, second, ... index;
3. who goes to which: the greatest sum of sensitivity times sorting value; of equals the one that is best
   for the first by turn, then for the second, ...

So whatever forbids only what was not chosen changes nothing. Sums are exact: what ties is tied.
Agents are as listed, in tables, rows and answers.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import Flags, Floats
from heterobandits.core.assignment import BY_CHANCE, BY_SECOND_ROW, assign, table
from heterobandits.errors import InvalidInput, parse_list, position_of_member, positions_of_pair
from heterobandits.interrupts import end_abandoned_work
from heterobandits.model.team import Team

Words = npt.NDArray[np.uint32]
AgentArm = tuple[int, int]
PAIR_TYPES = (tuple, list)
Exact = float | Fraction
IndexRow = Sequence[Exact]  # an index row, or what stands for one


class Circumstances(NamedTuple):
    """What is particular about a round; agents and arms by number."""

    absent: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    forbidden: frozenset[AgentArm] = frozenset()
    forced: frozenset[AgentArm] = frozenset()
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

        def pairs(given: Any, name: str) -> frozenset[AgentArm]:
            one = (
                isinstance(given, tuple)
                and len(given) == 2
                and not isinstance(given[0], PAIR_TYPES)
            )
            items = (
                [given] if one else parse_list(given, name, "pairs (agent, arm), or one of them")
            )
            return frozenset(positions_of_pair(pair, name, agents, arms) for pair in items)

        def some(given: Any, name: str, kind: str, known: Sequence[str]) -> frozenset[int]:
            what = f"{kind}s, or one name"
            items = [given] if isinstance(given, str) else parse_list(given, name, what)
            return frozenset(position_of_member(key, kind, known) for key in items)

        away, shut = some(absent, "absent", "agent", agents), some(closed, "closed", "arm", arms)
        never, must = pairs(forbidden, "forbidden"), pairs(forced, "forced")
        gone = some(left, "left", "agent", agents)
        for a, n in sorted(must):
            places = [arms[m] for b, m in sorted(must) if b == a]
            others = [agents[b] for b, m in sorted(must) if m == n]
            for wrong, why in (
                (a in gone, "has left the team"),
                (a in away, "is absent"),
                (n in shut, "that arm is closed"),
                ((a, n) in never, "may not go there: choose one of the two"),
                (len(places) > 1, f"can go to one arm: {' and '.join(places)} are too many"),
                (len(others) > 1, f"an arm takes one agent: {' and '.join(others)} are too many"),
            ):
                if wrong:
                    raise InvalidInput(f"{agents[a]} has to go to {arms[n]}, but {why}")
        return cls(away, shut, never, must, gone)

    def check(
        self, assignment: Sequence[int | None], agents: Sequence[str], arms: Sequence[str]
    ) -> None:
        """Refuse an assignment that goes against them."""
        sent = {(a, n) for a, n in enumerate(assignment) if n is not None}
        for a, n in sorted(sent):
            for wrong, why in (
                (a in self.left, "who left the team"),
                (a in self.absent, "who is absent"),
                (n in self.closed, "which is closed"),
                ((a, n) in self.forbidden, "a pair that is forbidden"),
            ):
                if wrong:
                    raise InvalidInput(
                        f"the assignment sends {agents[a]!r} to {arms[n]!r}, {why} in this round"
                    )
        for a, n in sorted(self.forced - sent):
            raise InvalidInput(
                f"the assignment does not send {agents[a]!r} to {arms[n]!r}, a pair forced in this round"
            )

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


def match_agents(
    rows: Floats, dealt: int, team: Team, luck: Luck, circumstances: Circumstances
) -> dict[int, int]:
    """The arm of each agent that is sent somewhere.

    `rows` are the index rows, (1 or agents, arms) or, where the arms are dealt by a second
    row, (2, arms); `dealt` is how, as `core.assignment` numbers it.
    """
    if circumstances.paired:
        return match_with_pairs(rows, dealt, team, luck, circumstances)
    turns = [a for a in team.order.tolist() if a not in circumstances.away]
    free = [n for n in range(rows.shape[1]) if n not in circumstances.closed]
    if len(turns) > len(free):  # the last ones stay home
        by_turn = sorted(turns, key=lambda a: -int(luck.turns[a])) if dealt == BY_CHANCE else turns
        turns = [a for a in turns if a in by_turn[: len(free)]]
    if not turns:
        return {}
    own = has_own_rows(rows, dealt)
    index = rows[turns] if own else rows
    ties = luck.own[turns] if own else luck.arms[None]
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


def luck_favouring(dealt: int, team: Team, luck: Luck, assignment: dict[int, int]) -> Luck:
    """Random words that break every tie in favour of an assignment; the order of turns stays."""
    arms, own = np.zeros_like(luck.arms), np.zeros_like(luck.own)
    sent = [a for a in agents_in_turn(dealt, team, luck) if a in assignment]
    for later, agent in enumerate(reversed(sent)):
        arms[assignment[agent]] = later + 1
        own[agent : agent + 1, assignment[agent]] = 1  # nothing, where all share a row
    return Luck(arms, own, luck.turns)


def has_own_rows(rows: Sequence[IndexRow] | Floats, dealt: int) -> bool:
    """Whether every agent has an index row of its own."""
    return dealt != BY_SECOND_ROW and len(rows) > 1


def match_with_pairs(
    rows: Sequence[IndexRow] | Floats,
    dealt: int,
    team: Team,
    luck: Luck,
    circumstances: Circumstances,
) -> dict[int, int]:
    """`match_agents` for rounds with forbidden or forced pairs."""
    arms = len(rows[0])
    allowed = allowed_pairs(len(team), arms, circumstances)
    going = agents_going(agents_in_turn(dealt, team, luck), allowed, circumstances)
    if has_own_rows(rows, dealt):
        own = {a: sort_arms(rows[a], luck.own[a]) for a in going}
        return pick_for_all(going, allowed, own)
    chosen = best_matchable_arms(sort_arms(rows[0], luck.arms), going, allowed)
    return deal_arms(going, chosen, allowed, turn_weights(team, dealt), rows[-1], luck.arms)


def allowed_pairs(agents: int, arms: int, circumstances: Circumstances) -> Flags:
    """Which agent may go to which arm, shape (agents, arms)."""
    allowed = np.ones((agents, arms), np.bool_)
    allowed[list(circumstances.away)] = False
    allowed[:, list(circumstances.closed)] = False
    for a, n in circumstances.forbidden:
        allowed[a, n] = False
    for a, n in circumstances.forced:
        allowed[a], allowed[:, n] = False, False
        allowed[a, n] = True
    return allowed


def agents_in_turn(dealt: int, team: Team, luck: Luck) -> list[int]:
    """The agents in the order in which they pick."""
    order: list[int] = team.order.tolist()
    return sorted(order, key=lambda a: -int(luck.turns[a])) if dealt == BY_CHANCE else order


def turn_weights(team: Team, dealt: int) -> list[int]:
    """How much the value of each agent's arm counts, in whole numbers: its worth, or the same for all in random turns."""
    return integer_weights([Fraction(1 if dealt == BY_CHANCE else w) for w in team.worth.tolist()])


def sort_arms(row: IndexRow | Floats, ties: Words) -> list[int]:
    """The arms by falling index, ties by the larger word."""
    return sorted(range(len(row)), key=lambda n: (-row[n], -int(ties[n]), n))


def add_to_matching(one: int, allowed: Flags, partner: dict[int, int]) -> bool:
    """Find a partner for this row of `allowed`, moving others along if that helps; returns whether it could.

    `partner` maps columns to rows, and stays as it is if it could not.
    """
    end_abandoned_work()
    reached: dict[int, tuple[int, int | None]] = {}
    queue: list[tuple[int, int | None]] = [(one, None)]
    for row, held in queue:
        for found in np.flatnonzero(allowed[row]).tolist():
            if found in reached:
                continue
            reached[found] = (row, held)
            if found in partner:
                queue.append((partner[found], found))
                continue
            column: int | None = found
            while column is not None:  # back along the path, everybody moves one on
                partner[column], column = reached[column]
            return True
    return False


def agents_going(turns: list[int], allowed: Flags, circumstances: Circumstances) -> list[int]:
    """The agents that go, in turn: as many as there are arms.

    They are the first ones and all that are forced, whose arms are nobody else's.
    """
    partner: dict[int, int] = {}
    going = [a for a in turns if add_to_matching(a, allowed, partner)]
    here = allowed.shape[0] - len(circumstances.away)
    free = allowed.shape[1] - len(circumstances.closed)
    if len(going) < min(here, free):
        raise InvalidInput(
            "no assignment is left: the forbidden pairs leave some agent without an arm; "
            "name it as absent or allow a pair"
            if here <= free
            else "no assignment is left: the forbidden pairs leave some open arm without an agent; "
            "close it or allow a pair"
        )
    return going


def best_matchable_arms(arms: list[int], going: list[int], allowed: Flags) -> list[int]:
    """The first of these arms that all who go can be matched to."""
    may_have = allowed[going].T
    partner: dict[int, int] = {}
    return [n for n in arms if len(partner) < len(going) and add_to_matching(n, may_have, partner)]


def pick_for_all(turns: list[int], allowed: Flags, best: dict[int, list[int]]) -> dict[int, int]:
    """The agents in turn take the first of their best arms that leaves an arm for everybody else."""
    left, holder = allowed.copy(), dict[int, int]()
    for a in turns:
        add_to_matching(a, left, holder)
    for a in turns:
        for n in best[a]:
            if not left[a, n]:
                continue
            others, trial = left.copy(), {m: b for m, b in holder.items() if b != a}
            others[:, n] = False
            driven_out, trial[n] = trial.get(n), a
            if driven_out is None or add_to_matching(driven_out, others, trial):
                break
        left, holder = others, trial
    return {a: n for n, a in holder.items()}


def deal_arms(
    going: list[int],
    chosen: list[int],
    allowed: Flags,
    weight: list[int],
    values: IndexRow | Floats,
    ties: Words,
) -> dict[int, int]:
    """The best way to deal the chosen arms to the agents that go; of equals, the best by turn."""
    best = np.zeros_like(allowed)
    arms = sorted(chosen, key=lambda n: -values[n])
    agents = sorted(going, key=lambda a: -weight[a])
    best[np.ix_(agents, arms)] = lossless_pairs(
        [weight[a] for a in agents], [values[n] for n in arms], allowed[np.ix_(agents, arms)]
    )
    return pick_for_all(going, best, dict.fromkeys(going, sort_arms(values, ties)))


def integer_weights(numbers: list[Fraction]) -> list[int]:
    """Whole numbers in the same proportions."""
    unit = math.lcm(1, *(x.denominator for x in numbers))
    return [int(x * unit) for x in numbers]


def lossless_pairs(s: list[int], values: IndexRow, allowed: Flags) -> Flags:
    """The pairs that occur in matchings with the greatest sum of weight s times value v.

    Both lists fall, and are of one length. The Hungarian method in whole numbers: prices u of the agents
    and w of the arms have u[i] + w[j] >= s[i] v[j] for every pair allowed, and a matching is
    best if and only if its pairs have equality. The prices begin with those of the sorted matching, the best
    one if nothing were forbidden; an infinite value outweighs all that are not.
    """
    finite = integer_weights([Fraction(x) for x in values if not math.isinf(x)])
    beyond = 1 + 2 * sum(s) * max((abs(x) for x in finite), default=0)
    rest = iter(finite)
    v = [int(math.copysign(1, x)) * beyond if math.isinf(x) else next(rest) for x in values]
    size = len(s)
    w = [0] * size
    for j in range(size - 1):
        w[j + 1] = w[j] - s[j] * (v[j] - v[j + 1])
    u = [s[i] * v[i] - w[i] for i in range(size)]
    may = [np.flatnonzero(row).tolist() for row in allowed]
    holder = {i: i for i in range(size) if allowed[i, i]}
    for root in range(size):
        if allowed[root, root]:
            continue
        least: dict[int, int] = {}  # the gap of each arm seen to the tree that grows from the root
        reached: dict[int, tuple[int, int | None]] = {}
        tree: dict[int | None, int] = {None: root}  # by the arm held: the agents in the tree
        held: int | None = None
        while True:
            i = tree[held]
            for j in may[i]:
                gap = u[i] + w[j] - s[i] * v[j]
                if j not in tree and gap < least.get(j, gap + 1):
                    least[j], reached[j] = gap, (i, held)
            j = min(least, key=least.__getitem__)
            step = least.pop(j)
            for arm, agent in tree.items():
                u[agent] -= step
                if arm is not None:
                    w[arm] += step
            least = {other: gap - step for other, gap in least.items()}
            if j not in holder:
                break
            held, tree[j] = j, holder[j]
        held = j
        while held is not None:
            holder[held], held = reached[held]
    tight = np.zeros_like(allowed)
    for i, arms in enumerate(may):
        tight[i, [j for j in arms if u[i] + w[j] == s[i] * v[j]]] = True
    return tight
