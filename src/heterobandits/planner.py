"""One round at a time: ask for a plan, tell what came of it, have it explained. No I/O.

The planner's memory is the two tables, pulls and successes, and the number of rounds. A plan
is a function of them, the seed and the round's circumstances: asking changes nothing, and
asking again gives the same plan. Indices and the sorted matching come from the very kernels
the simulator runs, on a block of one trial.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heterobandits.core.assignment import assign
from heterobandits.core.indices import fill_assignment_indices
from heterobandits.core.randomness import round_words
from heterobandits.errors import (
    MOST,
    InvalidInput,
    UnsupportedVersion,
    counts,
    listed,
    names,
    probabilities,
    shown,
    unknown,
    whole_number,
)
from heterobandits.intervals import Intervals, min_width_intervals
from heterobandits.plans import Circumstances, Explanation, Pair, Plan
from heterobandits.policies import Policy, assignments
from heterobandits.policies import policy as catalogued
from heterobandits.problem import pick_order

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]

FORMAT = 1
NEVER_SEEN = 1e6  # in an optimal matching, which cannot take infinities, an arm never pulled
#                   counts a million times the largest finite index


class Planner:
    """Plans rounds for agents of known sensitivity, and learns from what they report.

    Parameters
    ----------
    sensitivities
        Of each agent, as believed, in (0, 1].
    arms
        The number of arms, or their names.
    policy
        A name of the catalogue, or a policy made with `policy(...)` or `Policy(...)`.
    seed
        Decides ties and random turns.
    agent_names
        Names of the agents.
    trial
        The trial of a simulation with the same seed whose ties and turns to follow.

    Examples
    --------
    >>> planner = Planner([0.95, 0.8], ["floor 1", "floor 2", "floor 3"], "min-width", seed=1)
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
        policy: str | Policy = "min-width",
        seed: int = 0,
        *,
        agent_names: Any = None,
        trial: int = 0,
    ) -> None:
        self.sensitivities = probabilities(
            sensitivities, "sensitivities", "sensitivity", zero=False
        )
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
        self.seed = whole_number(seed, "seed", 0, 2**64 - 1)
        self.trial = whole_number(trial, "trial", 0, 2**64 - 1)
        self.rounds = 0
        self.pulls = np.zeros((agents, len(self.arm_names)), np.int32)
        self.successes = np.zeros_like(self.pulls)
        self._order = pick_order(self.sensitivities)
        self._team: dict[tuple[int, ...], tuple[int, int]] = {}  # of assignments, for ucb alone

    @property
    def elapsed(self) -> int:
        """t in the logarithms: the rounds told or, where a visit yields many tests, the pulls of an arm.

        The union bounds count the ways in which an arm can have been pulled up to t times.
        """
        return max(1, self.rounds, int(self.pulls.sum(axis=0, dtype=np.int64).max()))

    def intervals(self) -> Intervals:
        """An estimate and an interval for the mean of every arm, valid under adaptive sampling."""
        horizon = self.elapsed if self.policy.horizon == "anytime" else self.policy.horizon
        s = np.array(self.sensitivities)
        return min_width_intervals(self.pulls, self.successes, s, horizon, self.policy.delta)

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
            assignment maximises the sum of sensitivity times index over all that is allowed.
        """
        round_ = self._circumstances(absent, closed, forbidden, forced)
        if self.policy.index_per == "assignment":
            return self._ask_for_assignment(round_)
        rows, words = self._rows(), self._words()
        matched = self._match(rows, words, round_)
        arms = [matched.get(a) for a in range(len(self.sensitivities))]
        table = self._table(rows)
        return self._plan(round_, arms, table)

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
        if not isinstance(plan, Plan):
            raise InvalidInput(f"plan is {shown(plan)}: a Plan, as ask() gives")
        if plan.agent_names != self.agent_names or plan.arm_names != self.arm_names:
            raise InvalidInput("the plan has other agents or arms: it was made by another planner")
        self._check_current(plan)
        pulls, successes = np.zeros_like(self.pulls), np.zeros_like(self.successes)
        for agent, arm, outcome in self._outcomes(plan, outcomes):
            k, n = self._counted(outcome, self.agent_names[agent])
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
        if not isinstance(plan, Plan):
            raise InvalidInput(f"plan is {shown(plan)}: a Plan, as ask() gives")
        self._check_current(plan)
        round_ = Circumstances(plan.absent, plan.closed, plan.forbidden, plan.forced)
        known = self.intervals()
        seen = self.pulls.sum(axis=0)
        guess = np.where(seen > 0, known.estimate, np.inf)[None, :, None]
        greedy = self._match(guess, self._words(), round_)
        explanations = []
        for agent, arm in enumerate(plan.assignment):
            if arm is None:
                continue
            other, flip = self._runner_up(plan, agent, arm)
            exploits = greedy.get(agent) == arm and seen[arm] > 0
            explanations.append(
                Explanation(
                    agent=self.agent_names[agent],
                    arm=self.arm_names[arm],
                    estimate=float(known.estimate[arm]),
                    lower=float(known.lower[arm]),
                    upper=float(known.upper[arm]),
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
            "policy": {
                "name": self.policy.name,
                "delta": self.policy.delta,
                "horizon": self.policy.horizon,
            },
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
            state["assignments"] = [[list(f), *self._team[f]] for f in sorted(self._team)]
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
            if policy is None:
                policy = catalogued(saved["name"], delta=saved["delta"], horizon=saved["horizon"])
            elif policy.name != saved["name"]:
                raise InvalidInput(
                    f"policy is {policy.name!r}: the planner was saved with {saved['name']!r}"
                )
            planner = cls(
                state["sensitivities"],
                state["arm_names"],
                policy,
                state["seed"],
                agent_names=state["agent_names"],
                trial=state["trial"],
            )
            planner._restore(state)
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"a saved planner that is damaged: {error!r}") from None
        return planner

    def _restore(self, state: dict[str, Any]) -> None:
        shape = self.pulls.shape
        pulls = counts(state["pulls"], "pulls", *shape)
        successes = counts(state["successes"], "successes", *shape)
        if (successes > pulls).any():
            a, n = (int(i) for i in np.argwhere(successes > pulls)[0])
            raise InvalidInput(
                f"successes[{a}][{n}] is {successes[a, n]}: at most the {pulls[a, n]} pulls"
            )
        if int(pulls.sum(axis=0, dtype=np.int64).max()) > MOST:
            raise InvalidInput(f"an arm has over {MOST:,} pulls: more than can be counted")
        self.rounds = whole_number(state["rounds"], "rounds", 0, MOST)
        self.pulls, self.successes = pulls, successes
        for entry in state.get("assignments", []):
            arms, pulled, succeeded = entry
            f = tuple(whole_number(n, "an arm of assignments", 0, shape[1] - 1) for n in arms)
            if len(f) != shape[0] or len(set(f)) != shape[0]:
                raise InvalidInput(f"assignments has {shown(arms)}: one arm per agent, none twice")
            pulled = whole_number(pulled, "pulls of an assignment", 0, MOST)
            most = pulled * shape[0]
            self._team[f] = (pulled, whole_number(succeeded, "successes of an assignment", 0, most))

    def _circumstances(
        self,
        absent: Iterable[Any],
        closed: Iterable[Any],
        forbidden: Iterable[Any],
        forced: Iterable[Any],
    ) -> Circumstances:
        away = frozenset(self._agent(a) for a in listed(absent, "absent", "agents"))
        shut = frozenset(self._arm(n) for n in listed(closed, "closed", "arms"))
        never = frozenset(
            self._pair(p, "forbidden") for p in listed(forbidden, "forbidden", "pairs")
        )
        must = frozenset(self._pair(p, "forced") for p in listed(forced, "forced", "pairs"))
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

    def _agent(self, key: Any) -> int:
        return _located(key, "agent", self.agent_names)

    def _arm(self, key: Any) -> int:
        return _located(key, "arm", self.arm_names)

    def _pair(self, key: Any, name: str) -> Pair:
        if isinstance(key, (str, bytes)) or not isinstance(key, Iterable):
            raise InvalidInput(f"{name} has {shown(key)}: pairs (agent, arm)")
        items = list(key)
        if len(items) != 2:
            raise InvalidInput(f"{name} has {shown(key)}: pairs (agent, arm)")
        return self._agent(items[0]), self._arm(items[1])

    def _rows(self) -> Floats:
        """The policy's index rows for a block of one trial, agents in picking order."""
        s = np.array(self.sensitivities)[self._order]
        pulls = np.ascontiguousarray(self.pulls[self._order, :, None])
        successes = np.ascontiguousarray(self.successes[self._order, :, None])
        elapsed = self.elapsed if self.rounds else 0
        return self.policy.index_rows(s, pulls, successes, self._order, elapsed)

    def _words(self) -> Words:
        """The random words of the next round: luck of the arms (unused), ties, draws for turns."""
        agents, arms = self.pulls.shape
        slots = arms + self.policy.rows(agents) * arms + agents
        return np.asarray(round_words(self.seed, self.trial, self.rounds + 1, slots))

    def _table(self, rows: Floats) -> Floats:
        """Index rows as a table with the agents as they were listed."""
        agents, arms = self.pulls.shape
        table = np.empty((agents, arms))
        table[self._order] = rows[:, :, 0]
        return table

    def _match(self, rows: Floats, words: Words, round_: Circumstances) -> dict[int, int]:
        """The arm of each agent that is sent somewhere."""
        arms = rows.shape[1]
        agents = [a for a in self._order.tolist() if a not in round_.absent]
        free = [n for n in range(arms) if n not in round_.closed]
        if round_.forbidden or round_.forced:
            return self._optimal_match(rows, words, round_, agents, free)
        shared = len(rows) == 1
        random_turns = self.policy.first == "random"
        draws = words[2 * arms :]
        turn_of = {a: q for q, a in enumerate(self._order.tolist())}
        if random_turns:
            agents.sort(key=lambda a: -int(draws[turn_of[a]]))
        agents = agents[: len(free)]
        if not agents:
            return {}
        if random_turns:
            agents.sort(key=lambda a: turn_of[a])
        picking = [turn_of[a] for a in agents]
        index = rows[:, free] if shared else rows[picking][:, free]
        ties = words[arms : arms + len(rows) * arms].reshape(len(rows), arms)
        ties = ties[:, free] if shared else ties[picking][:, free]
        picked, out = np.empty((2, len(agents), 1), np.int32)
        assign(
            np.ascontiguousarray(index),
            np.ascontiguousarray(ties.reshape(-1, 1)),
            np.ascontiguousarray(draws[picking][:, None] if random_turns else draws[:0, None]),
            random_turns,
            picked,
            out,
        )
        return {a: free[int(n)] for a, n in zip(agents, out[:, 0], strict=True)}

    def _optimal_match(
        self, rows: Floats, words: Words, round_: Circumstances, agents: list[int], free: list[int]
    ) -> dict[int, int]:
        """The allowed assignment with the greatest sum of sensitivity times index.

        The arms are offered in the random order of their tie-breaks, so that of equal
        assignments none is favoured by the numbering of the arms.
        """
        from scipy.optimize import linear_sum_assignment

        arms = rows.shape[1]
        forced = dict(round_.forced)
        table = self._finite(self._table(rows))
        luck = words[arms : 2 * arms]
        agents = [a for a in agents if a not in forced]
        free = sorted((n for n in free if n not in forced.values()), key=lambda n: -int(luck[n]))
        value = self._weights()[agents, None] * table[np.ix_(agents, free)]
        for i, a in enumerate(agents):
            for j, n in enumerate(free):
                if (a, n) in round_.forbidden:
                    value[i, j] = -np.inf
        try:
            chosen_agents, chosen_arms = linear_sum_assignment(value, maximize=True)
        except ValueError:
            raise InvalidInput(
                "no assignment is left: the forbidden pairs leave some agent without an arm; "
                "name it as absent or allow a pair"
            ) from None
        matched = {agents[i]: free[j] for i, j in zip(chosen_agents, chosen_arms, strict=True)}
        return forced | matched

    def _finite(self, table: Floats) -> Floats:
        finite = table[np.isfinite(table)]
        large = NEVER_SEEN * max(1.0, float(np.abs(finite).max(initial=0.0)))
        return np.clip(table, -large, large)

    def _weights(self) -> Floats:
        """What an agent's index counts in a matching: its sensitivity, or nothing where all are alike."""
        if self.policy.first == "random":
            return np.ones(len(self.sensitivities))
        return np.array(self.sensitivities)

    def _plan(self, round_: Circumstances, arms: list[int | None], table: Floats) -> Plan:
        forced = dict(round_.forced)
        reasons = []
        for a, n in enumerate(arms):
            if n is None:
                reasons.append("absent" if a in round_.absent else "no open arm is left")
            elif a in forced:
                reasons.append("forced")
            elif math.isinf(table[a, n]):
                own = self.policy.index_per == "agent"
                reasons.append("never pulled by it" if own else "never pulled")
            elif round_.forbidden or round_.forced:
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
            **round_._asdict(),
        )

    def _check_current(self, plan: Plan) -> None:
        if plan.round != self.rounds + 1:
            raise InvalidInput(
                f"the plan is for round {plan.round}: round {self.rounds + 1} is next; ask again"
            )

    def _outcomes(self, plan: Plan, outcomes: Any) -> list[tuple[int, int, Any]]:
        """(agent, arm, outcome) for every outcome that is not missing."""
        if isinstance(outcomes, Mapping):
            given: dict[int, Any] = {}
            for key, outcome in outcomes.items():
                pair = self._pair(key, "outcomes") if isinstance(key, tuple) else None
                agent = self._agent(key) if pair is None else pair[0]
                if agent in given:
                    raise InvalidInput(f"outcomes has {self.agent_names[agent]!r} twice")
                if pair is not None and plan.assignment[agent] != pair[1]:
                    raise InvalidInput(
                        f"outcomes has {self.agent_names[agent]!r} on {self.arm_names[pair[1]]!r}: "
                        "the plan did not send it there"
                    )
                given[agent] = outcome
        else:
            items = listed(outcomes, "outcomes", "outcomes, one per agent, or a mapping")
            if len(items) != len(self.agent_names):
                raise InvalidInput(
                    f"outcomes has {len(items)} entries: one for each of the "
                    f"{len(self.agent_names)} agents, None where it is missing"
                )
            given = dict(enumerate(items))
        found = []
        for agent, outcome in given.items():
            if outcome is None:
                continue
            arm = plan.assignment[agent]
            if arm is None:
                raise InvalidInput(
                    f"outcomes has {shown(outcome)} for {self.agent_names[agent]!r}: "
                    "the plan sent it nowhere"
                )
            found.append((agent, arm, outcome))
        return found

    def _counted(self, outcome: Any, agent: str) -> tuple[int, int]:
        """An outcome as (successes, tests)."""
        allowed = "0, 1, a pair (successes, tests), or None"
        if isinstance(outcome, (bool, np.bool_)):
            return int(outcome), 1
        if isinstance(outcome, (tuple, list)):
            if len(outcome) != 2:
                raise InvalidInput(f"the outcome of {agent!r} is {shown(outcome)}: {allowed}")
            n = whole_number(outcome[1], f"the tests of {agent!r}", 0, MOST)
            k = whole_number(outcome[0], f"the successes of {agent!r}", 0)
            if k > n:
                raise InvalidInput(
                    f"the outcome of {agent!r} is {k} successes of {n} tests: at most all of them"
                )
            return k, n
        try:
            return whole_number(outcome, "", 0, 1), 1
        except InvalidInput:
            raise InvalidInput(f"the outcome of {agent!r} is {shown(outcome)}: {allowed}") from None

    def _runner_up(self, plan: Plan, agent: int, arm: int) -> tuple[int | None, float | None]:
        """The arm that would get this agent next, and what the index of its arm would have to be."""
        index = plan.index[agent]
        if (agent, arm) in plan.forced:
            return None, None
        if self.policy.index_per == "assignment":
            others = {n for n in range(len(index)) if index[n] > -math.inf}
        elif plan.forbidden or plan.forced:
            return self._runner_up_of_match(plan, agent, arm)
        else:
            others = set(range(len(index))) - plan.closed - self._picked_before(plan, agent)
        other = max(others - {arm}, key=lambda n: index[n], default=None)
        return other, None if other is None else index[other]

    def _picked_before(self, plan: Plan, agent: int) -> set[int]:
        """The arms that were taken when this agent's turn came."""
        if self.policy.first == "random":  # turn by turn the arms go in order of their index
            index, mine = plan.index[agent], plan.assignment[agent]
            assert mine is not None
            return {n for n in plan.assignment if n is not None and index[n] > index[mine]}
        order = self._order.tolist()
        earlier = order[: order.index(agent)]
        return {n for n in (plan.assignment[a] for a in earlier) if n is not None}

    def _runner_up_of_match(
        self, plan: Plan, agent: int, arm: int
    ) -> tuple[int | None, float | None]:
        never = plan.forbidden | {(agent, arm)}
        round_ = Circumstances(plan.absent, plan.closed, never, plan.forced)
        try:
            other = self._match(self._rows(), self._words(), round_)
        except InvalidInput:  # without this pair no assignment is left
            return None, None
        if agent not in other:
            return None, None
        weights, table = self._weights(), self._finite(np.array(plan.index))
        chosen = ((a, n) for a, n in enumerate(plan.assignment) if n is not None)
        loss = sum(weights[a] * table[a, n] for a, n in chosen) - sum(
            weights[a] * table[a, n] for a, n in other.items()
        )
        # Both sums are linear in the arm's index: the one by this agent's weight, the other by
        # that of whoever takes the arm instead, if it is the same index that counts for both.
        heirs = [a for a, n in other.items() if n == arm and self.policy.index_per == "arm"]
        slope = weights[agent] - sum(weights[a] for a in heirs)
        flip = table[agent, arm] - (loss / slope if slope else 0.0)
        return other[agent], float(flip)

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
        place = {f: i for i, f in enumerate(map(tuple, every.tolist()))} if self._team else {}
        for f, (pulled, succeeded) in self._team.items():
            pulls[place[f]], successes[place[f]] = pulled, succeeded
        index = np.empty((len(every), 1))
        (L,) = self.policy.log_terms(agents, arms, self.rounds, 1)
        fill_assignment_indices(pulls, successes, L, index)
        words = round_words(self.seed, self.trial, self.rounds + 1, arms + len(every))
        ties = words[arms:, None]
        chosen = np.empty((1, 1), np.int32)
        left = np.flatnonzero(allowed)
        assign(
            np.ascontiguousarray(index[left][None]),
            np.ascontiguousarray(ties[left]),
            np.ascontiguousarray(ties[:0]),
            False,
            chosen,
            chosen,
        )
        best = every[left[int(chosen[0, 0])]]
        table = np.full((agents, arms), -np.inf)
        for a in range(agents):
            np.maximum.at(table[a], every[left, a], index[left, 0])
        return self._plan(round_, [int(n) for n in best], table)

    def _tell_assignment(self, plan: Plan, pulls: Any, successes: Any) -> None:
        f = tuple(n for n in plan.assignment if n is not None)
        if len(f) < len(plan.assignment) or (pulls.sum(axis=1) != 1).any():
            raise InvalidInput(
                f"{self.policy.name} learns about whole assignments: it needs one outcome, "
                "0 or 1, from every agent in every round"
            )
        pulled, succeeded = self._team.get(f, (0, 0))
        self._team[f] = (pulled + 1, succeeded + int(successes.sum()))


def _located(key: Any, kind: str, known: tuple[str, ...]) -> int:
    """The position of an agent or arm given by its name or its number."""
    if isinstance(key, str):
        if key not in known:
            raise unknown(kind, key, known)
        return known.index(key)
    return whole_number(key, f"the number of an {kind}", 0, len(known) - 1)
