"""One round at a time: ask for a plan, tell what came of it, have it explained. No I/O.

The planner's memory is the two tables, pulls and successes, and the number of rounds. A plan
is a function of them, the seed and the round's circumstances: asking changes nothing, and
asking again gives the same plan. Indices and the sorted matching come from the very kernels
the simulator runs, on a block of one trial.
"""

import json
import math
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heterobandits.core.assignment import BY_INDEX, assign
from heterobandits.core.indices import fill_assignment_indices
from heterobandits.core.randomness import round_words
from heterobandits.errors import (
    MOST,
    MOST_ADDRESS,
    InvalidInput,
    UnsupportedVersion,
    learned,
    listed,
    located,
    located_pair,
    names,
    sensitivities_from,
    shown,
    whole_number,
)
from heterobandits.intervals import Intervals, Method, Ranking, mean_intervals, ranking
from heterobandits.matching import (
    Circumstances,
    Team,
    match,
    next_in_match,
    next_in_turn,
    sorted_match,
)
from heterobandits.plans import Explanation, Plan
from heterobandits.policies import CATALOGUE, RECOMMENDED, Policy, assignments
from heterobandits.policies import policy as catalogued
from heterobandits.team import pick_order

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]

FORMAT = 1
NEVER_PULLED = {
    "arm": "never pulled",
    "agent": "never pulled by it",
    "assignment": "in an assignment never tried",
}


class Planner:
    """Plans rounds for agents of known sensitivity, and learns from what they report.

    Parameters
    ----------
    sensitivities
        Of each agent, as believed, in (0, 1].
    arms
        The number of arms, or their names.
    policy
        A name of the catalogue, or a policy made with `policy(...)` or `Policy(...)`; by default
        the one that `heterobandits compare` recommends.
    seed
        Decides ties and random turns.
    agent_names
        Names of the agents.
    trial
        The trial of a simulation with the same seed whose ties and turns to follow.

    Examples
    --------
    >>> planner = Planner([0.95, 0.8], ["floor 1", "floor 2", "floor 3"], seed=1)
    >>> plan = planner.ask(closed=["floor 2"])
    >>> sorted(plan.assignment)
    [0, 2]
    >>> planner.tell(plan, {"agent 1": 1, "agent 2": (3, 12)})
    >>> planner.rounds, int(planner.pulls.sum()), int(planner.successes.sum())
    (1, 13, 4)
    """

    def __init__(
        self,
        sensitivities: Any,
        arms: Any,
        policy: str | Policy = RECOMMENDED,
        seed: int = 0,
        *,
        agent_names: Any = None,
        trial: int = 0,
    ) -> None:
        self.sensitivities = sensitivities_from(sensitivities)
        agents = len(self.sensitivities)
        if isinstance(arms, Iterable):
            given = listed(arms, "arms", "names")
            self.arm_names = names(given, "arms", len(given), "arm")
        else:
            count = whole_number(arms, "arms", 1, 1_000_000)
            self.arm_names = names(None, "arms", count, "arm")
        if agents > len(self.arm_names):
            raise InvalidInput(
                f"there are {agents} agents and {len(self.arm_names)} arms: each agent needs an "
                "arm of its own, so at most as many agents as arms"
            )
        self.agent_names = names(agent_names, "agent_names", agents, "agent")
        self.policy = catalogued(policy)
        if self.policy.needs_means:
            raise InvalidInput(
                f"{self.policy.name} knows the true means: it can be simulated, not planned with"
            )
        self.policy.check_size(agents, len(self.arm_names))
        self.seed = whole_number(seed, "seed", 0, MOST_ADDRESS)
        self.trial = whole_number(trial, "trial", 0, MOST_ADDRESS)
        self.rounds = 0
        self.pulls = np.zeros((agents, len(self.arm_names)), np.int32)
        self.successes = np.zeros_like(self.pulls)
        self._order = pick_order(self.sensitivities)
        self._team = Team(self.sensitivities, self.policy.first == "random")
        self._assignments: dict[tuple[int, ...], tuple[int, int]] = {}  # pulls, successes: for ucb

    @property
    def elapsed(self) -> int:
        """t in the logarithms: the rounds told or, where a visit yields many tests, the pulls of an arm.

        The union bounds count the ways in which an arm can have been pulled up to t times.
        """
        return max(self.rounds, int(self.pulls.sum(axis=0, dtype=np.int64).max()))

    def intervals(self, method: Method = "posterior-ratio") -> Intervals:
        """An estimate and an interval for the mean of every arm, however the agents were sent.

        All of them hold with the policy's probability 1 - delta: with "posterior-ratio" and
        "mixture-width" in all rounds at once; with "min-width", the paper's, up to the policy's
        horizon or, if it has none, in any one round.
        """
        horizon = None
        if method == "min-width":
            anytime = self.policy.horizon == "anytime"
            horizon = max(1, self.elapsed) if anytime else int(self.policy.horizon)
        tables = (self.pulls, self.successes, self.sensitivities)
        return mean_intervals(*tables, method=method, delta=self.policy.delta, horizon=horizon)

    def ranking(self) -> Ranking:
        """Which arms are certainly above which, in all rounds at once, with the policy's 1 - delta."""
        tables = (self.pulls, self.successes, self.sensitivities)
        return ranking(*tables, delta=self.policy.delta)

    def ask(
        self,
        *,
        absent: Iterable[Any] = (),
        closed: Iterable[Any] = (),
        forbidden: Iterable[Any] = (),
        forced: Iterable[Any] = (),
    ) -> Plan:
        """The plan for the next round. Changes nothing.

        Parameters
        ----------
        absent
            Agents that stay home, by name or number.
        closed
            Arms nobody may go to.
        forbidden, forced
            Pairs (agent, arm) that must not, or must, be assigned. With any of these the
            assignment maximises the sum of sensitivity times index over all that is allowed
            (of the index alone for a policy with random turns, to which all agents are alike).
        """
        round_ = self._circumstances(absent, closed, forbidden, forced)
        if self.policy.index_per == "assignment":
            return self._ask_for_assignment(round_)
        rows = self._rows(self.policy)
        matched = self._match(rows, round_)
        arms = [matched.get(a) for a in range(len(self.sensitivities))]
        return self._plan(round_, arms, rows)

    def tell(self, plan: Plan, outcomes: Any) -> None:
        """Learn the outcomes of a plan; all of them are checked before any is counted.

        Parameters
        ----------
        plan
            The latest plan, of this round.
        outcomes
            A list with one outcome for each agent, or a mapping from agents, or from pairs
            (agent, arm), to outcomes. An outcome is 0 or 1, a pair (successes, tests), or None if
            it is missing; who is not in the mapping is missing too.
        """
        self._check_plan(plan)
        pulls, successes = np.zeros_like(self.pulls), np.zeros_like(self.successes)
        for agent, arm, k, n in plan.counted(outcomes):
            pulls[agent, arm], successes[agent, arm] = n, k
        if int((self.pulls.sum(axis=0, dtype=np.int64) + pulls.sum(axis=0)).max()) > MOST:
            raise InvalidInput(f"an arm would have over {MOST:,} pulls: more than can be counted")
        if self.policy.index_per == "assignment":
            self._tell_assignment(plan, pulls, successes)
        self.pulls += pulls
        self.successes += successes
        self.rounds += 1

    def explain(self, plan: Plan) -> tuple[Explanation, ...]:
        """Why each agent is sent where it is; for the plan of this round, before it is told."""
        self._check_plan(plan)
        known = self.intervals()
        order = self.ranking()
        seen = self.pulls.sum(axis=0)
        greedy = match(known.estimate[None, :, None], self._team, self._words(), plan.circumstances)
        explanations = []
        for agent, arm in enumerate(plan.assignment):
            if arm is None:
                continue
            other, flip = self._runner_up(plan, agent, arm)
            exploits = greedy.get(agent) == arm and seen[arm] > 0
            explanations.append(
                Explanation(
                    agent=self.agent_names[agent],
                    reason=plan.reasons[agent],
                    arm=self.arm_names[arm],
                    estimate=float(known.estimate[arm]),
                    lower=float(known.lower[arm]),
                    upper=float(known.upper[arm]),
                    best_rank=int(order.best[arm]),
                    worst_rank=int(order.worst[arm]),
                    index=plan.index[agent][arm],
                    pulls=int(seen[arm]),
                    own_pulls=int(self.pulls[agent, arm]),
                    mode="exploit" if exploits else "explore",
                    runner_up=None if other is None else self.arm_names[other],
                    runner_up_index=None if other is None else plan.index[agent][other],
                    flip_index=flip,
                )
            )
        return tuple(explanations)

    def to_json(self) -> str:
        """The planner as JSON text: what it was made with, the rounds and the two tables."""
        state: dict[str, Any] = {
            "heterobandits_planner": FORMAT,
            "policy": self.policy.parameters,
            "seed": self.seed,
            "trial": self.trial,
            "agent_names": list(self.agent_names),
            "arm_names": list(self.arm_names),
            "sensitivities": list(self.sensitivities),
            "rounds": self.rounds,
            "pulls": self.pulls.tolist(),
            "successes": self.successes.tolist(),
        }
        if self.policy.index_per == "assignment":
            state["assignments"] = [
                [list(f), *self._assignments[f]] for f in sorted(self._assignments)
            ]
        return json.dumps(state, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, policy: Policy | None = None) -> Self:
        """The planner that `to_json` wrote; a policy of your own must be given again."""
        try:
            state = json.loads(text)
            format_ = state["heterobandits_planner"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise InvalidInput(f"not a saved planner: {shown(text)}") from None
        if not isinstance(format_, int) or isinstance(format_, bool) or format_ < 1:
            raise InvalidInput(f"a saved planner of format {shown(format_)}: a whole number from 1")
        if format_ > FORMAT:
            raise UnsupportedVersion(
                f"a saved planner of format {format_}: this version reads up to {FORMAT}; "
                "use the newer heterobandits that wrote it"
            )
        try:
            saved = state["policy"]
            name = saved["name"]
            if policy is None and isinstance(name, str) and name not in CATALOGUE:
                raise InvalidInput(
                    f"the planner was saved with {name!r}, which is not in the catalogue: "
                    "give that policy again, as from_json(text, policy)"
                )
            if policy is not None and (not isinstance(policy, Policy) or policy.name != name):
                raise InvalidInput(
                    f"policy is {shown(policy)}: the planner was saved with {shown(name)}"
                )
            planner = cls(
                state["sensitivities"],
                state["arm_names"],
                catalogued(policy or name, delta=saved["delta"], horizon=saved["horizon"]),
                state["seed"],
                agent_names=state["agent_names"],
                trial=state["trial"],
            )
            planner._restore(state)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(
                f"a saved planner that is damaged: an entry is missing or of the wrong kind ({error})"
            ) from None
        return planner

    def _restore(self, state: dict[str, Any]) -> None:
        pulls, successes = learned(state["pulls"], state["successes"], *self.pulls.shape)
        self.rounds = whole_number(state["rounds"], "rounds", 0, MOST)
        self.pulls, self.successes = pulls, successes
        if self.policy.index_per == "assignment":
            self._restore_assignments(state["assignments"])

    def _restore_assignments(self, entries: Any) -> None:
        """Pulls and successes of whole assignments; they must add up to the tables."""
        agents, arms = self.pulls.shape
        pulls = np.zeros_like(self.pulls)
        for entry in listed(entries, "assignments", "entries [arms, pulls, successes]"):
            if not isinstance(entry, list) or len(entry) != 3:
                raise InvalidInput(f"assignments has {shown(entry)}: [arms, pulls, successes]")
            f = tuple(
                whole_number(n, "an arm of assignments", 0, arms - 1)
                for n in listed(entry[0], "an assignment", "arms")
            )
            if len(f) != agents or len(set(f)) != agents or f in self._assignments:
                raise InvalidInput(f"assignments has {shown(entry[0])}: one arm per agent, once")
            pulled = whole_number(entry[1], "pulls of an assignment", 1, MOST)
            most = pulled * agents
            succeeded = whole_number(entry[2], "successes of an assignment", 0, most)
            self._assignments[f] = (pulled, succeeded)
            pulls[range(agents), f] += pulled
        succeeded = sum(entry[1] for entry in self._assignments.values())
        if (pulls != self.pulls).any() or succeeded != int(self.successes.sum(dtype=np.int64)):
            raise InvalidInput("assignments do not add up to the tables of pulls and successes")

    def _circumstances(
        self,
        absent: Iterable[Any],
        closed: Iterable[Any],
        forbidden: Iterable[Any],
        forced: Iterable[Any],
    ) -> Circumstances:
        known = (self.agent_names, self.arm_names)
        away = frozenset(
            located(a, "agent", self.agent_names) for a in listed(absent, "absent", "agents")
        )
        shut = frozenset(
            located(n, "arm", self.arm_names) for n in listed(closed, "closed", "arms")
        )
        never = frozenset(
            located_pair(pair, "forbidden", *known)
            for pair in listed(forbidden, "forbidden", "pairs (agent, arm)")
        )
        must = frozenset(
            located_pair(pair, "forced", *known)
            for pair in listed(forced, "forced", "pairs (agent, arm)")
        )
        for a, n in sorted(must):
            what = f"forced pair ({self.agent_names[a]!r}, {self.arm_names[n]!r})"
            if a in away:
                raise InvalidInput(f"{what}: the agent is absent")
            if n in shut:
                raise InvalidInput(f"{what}: the arm is closed")
            if (a, n) in never:
                raise InvalidInput(f"{what}: the pair is forbidden as well")
            if sum(b == a for b, _ in must) > 1:
                raise InvalidInput(f"{what}: the agent is forced to two arms")
            if sum(m == n for _, m in must) > 1:
                raise InvalidInput(f"{what}: two agents are forced to that arm")
        return Circumstances(away, shut, never, must)

    def _rows(self, policy: Policy) -> Floats:
        """A policy's index rows for a block of one trial, agents in picking order."""
        s = np.array(self.sensitivities)[self._order]
        pulls = np.ascontiguousarray(self.pulls[self._order, :, None])
        successes = np.ascontiguousarray(self.successes[self._order, :, None])
        arms = len(self.arm_names)
        draws = np.ascontiguousarray(self._words()[2 * arms : 4 * arms, None])
        return policy.index_rows(s, pulls, successes, self._order, self.elapsed, draws)

    def _match(self, rows: Floats, round_: Circumstances) -> dict[int, int]:
        """The arm of each agent that is sent somewhere, by the policy's index rows."""
        how = sorted_match if self.policy.sorted_by == "estimate" else match
        return how(rows, self._team, self._words(), round_)

    def _words(self) -> Words:
        """The random words of the next round: luck of the arms (unused), ties, draws for turns or means."""
        agents, arms = self.pulls.shape
        slots = arms + self.policy.rows(agents) * arms + 2 * arms
        return np.asarray(round_words(self.seed, self.trial, self.rounds + 1, slots))

    def _plan(self, round_: Circumstances, arms: list[int | None], rows: Floats) -> Plan:
        by_estimate = self.policy.sorted_by == "estimate"
        table = self._team.table(rows[:1] if by_estimate else rows)
        forced = dict(round_.forced)
        reasons = []
        for a, n in enumerate(arms):
            if n is None:
                reasons.append("absent" if a in round_.absent else "no open arm is left")
            elif a in forced:
                reasons.append("forced")
            elif math.isinf(table[a, n]):
                reasons.append(NEVER_PULLED[self.policy.index_per])
            elif self.policy.name == "random":
                reasons.append("drawn at random")
            elif by_estimate:
                visited = sum(m is not None for m in arms)
                which = "the highest" if visited == 1 else f"among the highest {visited}"
                reasons.append(
                    f"index {table[a, n]:.3f}, {which}; posterior mean {rows[1, n, 0]:.3f}"
                )
            elif round_.paired:
                reasons.append(f"index {table[a, n]:.3f}, in the best allowed assignment")
            elif self.policy.index_per == "assignment":
                reasons.append(f"in the assignment with the highest index, {table[a, n]:.3f}")
            else:
                reasons.append(f"index {table[a, n]:.3f}, the highest left at its turn")
        return Plan(
            round=self.rounds + 1,
            assignment=tuple(arms),
            index=tuple(tuple(row) for row in table.tolist()),
            reasons=tuple(reasons),
            agent_names=self.agent_names,
            arm_names=self.arm_names,
            circumstances=round_,
        )

    def _check_plan(self, plan: Any) -> None:
        if not isinstance(plan, Plan):
            raise InvalidInput(f"plan is {shown(plan)}: a Plan, as ask() gives")
        if plan.agent_names != self.agent_names or plan.arm_names != self.arm_names:
            raise InvalidInput("the plan has other agents or arms: it was made by another planner")
        sent = [n for n in plan.assignment if n is not None]
        allowed = len(plan.assignment) == len(self.agent_names) and len(set(sent)) == len(sent)
        if not allowed or not all(n in range(len(self.arm_names)) for n in sent):
            raise InvalidInput(
                f"the plan's assignment is {shown(plan.assignment)}: one arm per agent"
            )
        if plan.round != self.rounds + 1:
            raise InvalidInput(
                f"the plan is for round {plan.round}: round {self.rounds + 1} is next; ask again"
            )

    def _runner_up(self, plan: Plan, agent: int, arm: int) -> tuple[int | None, float | None]:
        """The arm that would get this agent next, and what the index of its arm would have to be."""
        table, round_ = np.array(plan.index), plan.circumstances
        sent = {a: n for a, n in enumerate(plan.assignment) if n is not None}
        if (agent, arm) in round_.forced:
            return None, None
        if self.policy.index_per == "assignment":
            others = [n for n in range(len(table[agent])) if n != arm and table[agent, n] > -np.inf]
            other = max(others, key=lambda n: float(table[agent, n]), default=None)
        elif self.policy.sorted_by == "estimate":
            return self._next_in_set(plan, agent, arm)
        elif round_.paired:
            shared = self.policy.index_per == "arm"
            return next_in_match(table, shared, self._team, self._words(), round_, sent, agent)
        else:
            other = next_in_turn(table, self._team, sent, round_, agent)
        return other, None if other is None else float(table[agent, other])

    def _next_in_set(self, plan: Plan, agent: int, arm: int) -> tuple[int | None, float | None]:
        """The same where the index decides which arms are visited: an arm drops out below the next highest."""
        round_, index = plan.circumstances, plan.index[agent]
        without = round_._replace(closed=round_.closed | {arm})
        try:
            other = self._match(self._rows(self.policy), without).get(agent)
        except InvalidInput:  # the forbidden pairs leave no other way
            return None, None
        outside = set(range(len(index))) - round_.closed - set(plan.assignment)
        flip = max((index[n] for n in outside), default=None)
        return other, None if round_.paired else flip

    def _ask_for_assignment(self, round_: Circumstances) -> Plan:
        agents, arms = self.pulls.shape
        if round_.absent:
            who = self.agent_names[min(round_.absent)]
            raise InvalidInput(
                f"{who!r} is absent: {self.policy.name} ranks assignments of all agents and "
                "cannot plan without one; use another policy"
            )
        every = assignments(agents, arms)[:, np.argsort(self._order)]  # agents as they were listed
        allowed = ~np.isin(every, list(round_.closed)).any(axis=1)
        for a, n in round_.forbidden:
            allowed &= every[:, a] != n
        for a, n in round_.forced:
            allowed &= every[:, a] == n
        if not allowed.any():
            raise InvalidInput("no assignment is left: too many arms are closed or pairs forbidden")
        pulls = np.zeros((len(every), 1), np.int32)
        successes = np.zeros_like(pulls)
        place = (
            {f: i for i, f in enumerate(map(tuple, every.tolist()))} if self._assignments else {}
        )
        for f, (pulled, succeeded) in self._assignments.items():
            pulls[place[f]], successes[place[f]] = pulled, succeeded
        index = np.empty((len(every), 1))
        (L,) = self.policy.log_terms(np.array(self.sensitivities), arms, self.rounds, 1)
        fill_assignment_indices(pulls, successes, L, index)
        words = round_words(self.seed, self.trial, self.rounds + 1, arms + len(every))
        ties = words[arms:, None]
        chosen = np.empty((1, 1), np.int32)
        left = np.flatnonzero(allowed)
        assign(
            np.ascontiguousarray(index[left][None]),
            np.ascontiguousarray(ties[left]),
            np.ascontiguousarray(ties[:0]),
            BY_INDEX,
            chosen,
            chosen,
        )
        best = every[left[int(chosen[0, 0])]]
        table = np.full((agents, arms), -np.inf)
        for a in range(agents):
            np.maximum.at(table[a], every[left, a], index[left, 0])
        return self._plan(round_, [int(n) for n in best], table[self._order][:, :, None])

    def _tell_assignment(self, plan: Plan, pulls: Any, successes: Any) -> None:
        f = tuple(n for n in plan.assignment if n is not None)
        if len(f) < len(plan.assignment) or (pulls.sum(axis=1) != 1).any():
            raise InvalidInput(
                f"{self.policy.name} learns about whole assignments: it needs one outcome, "
                "0 or 1, from every agent in every round"
            )
        pulled, succeeded = self._assignments.get(f, (0, 0))
        self._assignments[f] = (pulled + 1, succeeded + int(successes.sum()))
