"""One round at a time: ask for a plan, fix it, tell what came of it, have it explained.

A planner holds the team, the arms, the tables it began with and the rounds since. What is
known is folded from them, and a plan is a function of that (`planning.plan`): asking changes
nothing, and asking again gives the same plan.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Self, cast

import numpy as np

from heterobandits.arrays import Counts, LearningTable
from heterobandits.errors import (
    InvalidInput,
    parse_choice,
    parse_integer,
    parse_list,
    parse_name,
    parse_names,
    position_of_member,
    repr_of,
    unknown_name,
)
from heterobandits.inference.agent_sensitivity import agent_intervals
from heterobandits.inference.beliefs import Beliefs, chances_of_draws, draws_for
from heterobandits.inference.intervals import (
    INTERVAL_METHODS,
    IntervalMethod,
    Intervals,
    mean_intervals,
    posterior_intervals,
    ranking_of_tables,
)
from heterobandits.limits import ADDRESS_MAX, REPORT_MAX_TESTS
from heterobandits.model.prior import Prior, parse_prior, prior_to_plain
from heterobandits.model.team import Team
from heterobandits.planner import file_format, planning
from heterobandits.planner.changes import ArmVisits, ChangeDetector, visits_by_arm
from heterobandits.planner.explanation import explain_plan
from heterobandits.planner.history import Round, describe_differences
from heterobandits.planner.knowledge import (
    ON_CHANGE_CHOICES,
    Forgetting,
    Knowledge,
    OnChange,
    add_forgetting,
    clear_arms,
    counted_visits,
    fold_rounds,
    forgotten_arms,
    take_back,
    visits_under_way,
)
from heterobandits.planner.matching import Circumstances
from heterobandits.planner.plans import (
    Explanation,
    NamedAgents,
    NamedAlarms,
    NamedChances,
    NamedIntervals,
    NamedRanking,
    Plan,
    render_count,
    render_table,
)
from heterobandits.planner.roster import (
    REVISED_SINCE_CHOICES,
    AgentRow,
    Reports,
    RevisedSince,
    reports_of_agents,
    revise_rows,
    row_names,
    team_of_rows,
)
from heterobandits.policies.catalogue import RECOMMENDED, RECOMMENDED_FOR_HORIZON
from heterobandits.policies.policy import Policy
from heterobandits.policies.policy import policy as catalogued

FOREIGN_PLAN_MESSAGE = (
    "the plan has other agents or arms: it was made by another planner, or before the team or the "
    "arms changed; ask again"
)

SINGULAR_NAMES = {"sensitivities": "sensitivity", "false_positive_rates": "false positive rate"}
COLUMN_NAMES = {"sensitivity": "sensitivities", "false_positive_rate": "false_positive_rates"}
REVISION_FIELDS = tuple(field.name for field in fields(Reports))


class Planner:
    """Plans rounds for agents of known sensitivity, and learns from what they report.

    Parameters
    ----------
    sensitivities
        Of each agent, as believed, in (0, 1]. None if all are calibrated.
    arms
        The number of arms, or their names.
    policy
        A name of the catalogue, or a policy made with `policy(...)` or `Policy(...)`; by default
        the one that `heterobandits compare` recommends.
    seed
        Decides ties, random turns and what a policy draws.
    agent_names
        Names of the agents.
    trial
        The trial of a simulation with the same seed whose ties and turns to follow.
    pulls, successes, rounds
        What is known already: the two tables, agents by arms, and the rounds behind them.
    left
        Agents who left the team: what they found counts, and nobody sends them anywhere.
    false_positive_rates
        How often each agent is believed to report a success where there is nothing; never if not given.
    tests
        How many tests each agent makes in a visit: who finds most in a visit picks first. One if not given. What is told
        may be of more or fewer tests.
    calibration, false_positive_calibration
        Of each agent how many of how many things it found that were known to be there, such as (17, 20), and how many false
        alarms it gave in how many places known to be empty; None where the number is known exactly. Intervals and rank
        statements then hold although it is not, and `agents()` compares calibration and visits.
    on_change
        What happens when `changes()` says that an arm has changed: "nothing", or "forget": what was seen of the arm
        up to then no longer counts.
    prior
        What is believed of the arms' means beforehand: (a, b) for a Beta of all arms, a list with a pair or None for each, or
        "learned", one that all arms share and that is learned from what is seen of them. Policies of the posterior go by it. So does
        what is certain by what is stated, and it holds if that was not made of the outcomes, those in `pulls` among them.

    Examples
    --------
    >>> planner = Planner([0.95, 0.8], ["floor 1", "floor 2", "floor 3"], seed=1)
    >>> plan = planner.ask(closed=["floor 2"])
    >>> sorted(plan.assignment)
    [0, 2]
    >>> planner.accept(plan)
    1
    >>> planner.tell(1, {"agent 1": 1})
    >>> [round.missing for round in planner.waiting]
    [('agent 2',)]
    >>> planner.tell(1, {"agent 2": (3, 12)})
    >>> planner.rounds, int(planner.pulls.sum()), int(planner.successes.sum())
    (1, 13, 4)
    """

    __slots__ = (
        "_arms",
        "_awaited",
        "_forgotten",
        "_history",
        "_knowledge",
        "_left",
        "_names",
        "_on_change",
        "_policy",
        "_retired",
        "_rows",
        "_seed",
        "_start",
        "_team",
        "_trial",
    )

    def __init__(
        self,
        sensitivities: Any,
        arms: Any,
        policy: str | Policy = RECOMMENDED,
        seed: int = 0,
        *,
        agent_names: Any = None,
        trial: int = 0,
        pulls: Any = None,
        successes: Any = None,
        rounds: int = 0,
        left: Iterable[Any] = (),
        false_positive_rates: Any = None,
        tests: Any = None,
        calibration: Any = None,
        false_positive_calibration: Any = None,
        on_change: OnChange = "nothing",
        prior: Any = None,
    ) -> None:
        self._on_change = parse_choice(on_change, "on_change", ON_CHANGE_CHOICES)
        self._team = Team(
            sensitivities,
            agent_names,
            false_positive_rates=false_positive_rates,
            tests=tests,
            calibration=calibration,
            false_positive_calibration=false_positive_calibration,
        )
        self._names = self._team.names
        self._rows = [
            AgentRow(a, 1, reports) for a, reports in enumerate(reports_of_agents(self._team))
        ]
        self._retired: frozenset[int] = frozenset()
        if isinstance(arms, Iterable):
            given = parse_list(arms, "arms", "names")
            self._arms = parse_names(given, "arms", len(given), "arm")
        else:
            self._arms = parse_names(None, "arms", parse_integer(arms, "arms", 1, 1_000_000), "arm")
        self._left = frozenset(
            position_of_member(a, "agent", self._team.names)
            for a in parse_list(left, "left", "agents")
        )
        check_size(len(self._team) - len(self._left), len(self._arms))
        self._policy = planning.check_plannable(catalogued(policy))
        self._seed = parse_integer(seed, "seed", 0, ADDRESS_MAX)
        self._trial = parse_integer(trial, "trial", 0, ADDRESS_MAX)
        self._start = Knowledge.of(
            len(self._team), len(self._arms), pulls=pulls, successes=successes, rounds=rounds
        )
        self._start = replace(self._start, prior=parse_prior(prior, len(self._arms)))
        self._knowledge = self._start
        self._history: list[Round] = []
        self._awaited: set[int] = set()  # the numbers of the rounds that wait
        self._forgotten: list[Forgetting] = []

    def __repr__(self) -> str:
        parts = [
            render_count(len(self.agent_names) - len(self._left), "agent"),
            render_count(len(self.arm_names), "arm"),
            self.policy.label,
            f"seed {self.seed}",
            render_count(self.rounds, "round"),
        ]
        waiting = [f"{len(self.waiting)} waiting"] if self.waiting else []
        return f"<Planner: {', '.join(parts + waiting)}>"

    def __str__(self) -> str:
        """The agents and the arms with what is known of them, whose outcomes are missing, and which arms have changed."""

        def sums(axis: int) -> list[tuple[str, str]]:
            both = (self.pulls, self.successes)
            pulls, successes = (t.sum(axis=axis, dtype=np.int64).tolist() for t in both)
            return [(str(c), str(y)) for c, y in zip(pulls, successes, strict=True)]

        agents = [name + " (left)" * (a in self._left) for a, name in enumerate(self.agent_names)]
        how = {"sensitivity": self.sensitivities}
        if any(self.false_positive_rates):
            how["false positives"] = self.false_positive_rates
        if max(self.tests) > 1:
            how["tests"] = self.tests
        reports = ([f"{rate:g}" for rate in rates] for rates in how.values())
        by_agent = zip(agents, *reports, *zip(*sums(1), strict=True), strict=True)
        arms = [name + " (retired)" * (n in self._retired) for n, name in enumerate(self.arm_names)]
        by_arm = zip(arms, *zip(*sums(0), strict=True), strict=True)
        waiting = [f"round {r.number} waits for {', '.join(r.missing)}" for r in self.waiting]
        return "\n".join(
            [
                repr(self)[1:-1],
                render_table(("agent", *how, "pulls", "successes"), by_agent),
                render_table(("arm", "pulls", "successes"), by_arm),
                *waiting,
                *(f"{arm} was forgotten after round {last}" for arm, last in self.forgotten),
                *self.changes().warnings,
            ]
        )

    @property
    def sensitivities(self) -> tuple[float, ...]:
        """Of every agent, those who left included."""
        return self._team.sensitivities

    @property
    def false_positive_rates(self) -> tuple[float, ...]:
        """Of every agent, those who left included."""
        return self._team.false_positive_rates

    @property
    def tests(self) -> tuple[int, ...]:
        """How many tests each agent makes in a visit."""
        return self._team.tests

    @property
    def calibration(self) -> tuple[tuple[int, int] | None, ...]:
        """What each agent found of what was planted; None where its sensitivity is known."""
        return self._team.calibration

    @property
    def agent_names(self) -> tuple[str, ...]:
        """Of every agent, those who left included."""
        return self._team.names

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Of every arm."""
        return self._arms

    @property
    def policy(self) -> Policy:
        """The policy it plans with."""
        return self._policy

    @property
    def seed(self) -> int:
        """What decides ties and random turns."""
        return self._seed

    @property
    def trial(self) -> int:
        """The trial whose ties and turns it follows."""
        return self._trial

    @property
    def left(self) -> tuple[str, ...]:
        """The agents who left the team."""
        return tuple(self.agent_names[a] for a in sorted(self._left))

    @property
    def retired(self) -> tuple[str, ...]:
        """The arms that were given up."""
        return tuple(self._arms[n] for n in sorted(self._retired))

    @property
    def pulls(self) -> Counts:
        """How often each agent (row) pulled each arm (column); read-only."""
        return self._knowledge.pulls

    @property
    def successes(self) -> Counts:
        """How often each agent (row) succeeded on each arm (column); read-only."""
        return self._knowledge.successes

    @property
    def rounds(self) -> int:
        """The number of rounds fixed, those before the planner began included."""
        return self._knowledge.rounds

    @property
    def elapsed(self) -> int:
        """t in the logarithms: the rounds or, where a visit yields many tests, the pulls of an arm."""
        return self._knowledge.elapsed

    @property
    def prior(self) -> Prior:
        """What was believed of the arms' means beforehand."""
        assert self._start.prior is not None
        return self._start.prior

    @property
    def on_change(self) -> str:
        """What happens when an arm has changed."""
        return self._on_change

    @property
    def forgotten(self) -> tuple[tuple[str, int], ...]:
        """The arms that were forgotten, each with the last round that does not count."""
        return tuple(
            (self._arms[one.arm], one.last) for one in self._forgotten if not one.taken_back
        )

    @property
    def history(self) -> tuple[Round, ...]:
        """The rounds fixed since the planner began, with the outcomes told so far."""
        return tuple(self._history)

    @property
    def waiting(self) -> tuple[Round, ...]:
        """The rounds that still wait for outcomes; `round.missing` says of whom."""
        return tuple(record for record in self._history if record.missing)

    def intervals(self, method: IntervalMethod = "posterior-ratio") -> NamedIntervals:
        """An estimate and an interval for the mean of every arm, however the agents were sent.

        All of them hold with the policy's probability 1 - delta: with "posterior-ratio" and
        "mixture-width" in all rounds at once; with "min-width", the paper's, up to the policy's
        horizon or, if it has none, in any one round. If the policy forgets, they are of what it recalls, and hold in any one
        round, if no mean changed meanwhile; if an arm was forgotten, since then. An arm that has changed, as `changes` has it, has
        no one mean: its interval is all from 0 to 1.
        """
        parse_choice(method, "method", INTERVAL_METHODS)
        delta, horizon, fixed = self.policy.delta, None, Prior(self.prior.shapes)
        if self.policy.forgets and method != "posterior-ratio":
            raise InvalidInput(
                f"{method}'s intervals need all that was seen, and {self.policy.name} forgets: use posterior-ratio's"
            )
        if method == "min-width":
            anytime = self.policy.horizon == "anytime"
            horizon = max(1, self.rounds) if anytime else int(self.policy.horizon)

        def from_tables(pulls: LearningTable, successes: LearningTable) -> Intervals:
            if method == "posterior-ratio":
                return posterior_intervals(self._team, pulls, successes, delta, fixed)
            tables = (pulls, successes, self._team)
            return mean_intervals(*tables, method=method, delta=delta, horizon=horizon)

        known, mixed = from_tables(*self._tables()), self._mixed(self.rounds + 1)
        if mixed:
            compared = from_tables(*clear_arms(self._tables(), mixed))
            known = compared._replace(estimate=known.estimate)
        return NamedIntervals.of(known, self.arm_names)

    def ranking(self) -> NamedRanking:
        """Which arms are certainly above which, in all rounds at once, with the policy's 1 - delta.

        If the policy forgets, in any one round, as with `intervals`. Of an arm that has changed nothing is certain.
        """
        compared = clear_arms(self._tables(), self._mixed(self.rounds + 1))
        fixed = Prior(self.prior.shapes)
        return NamedRanking.of(
            ranking_of_tables(self._team, *compared, self.policy.delta, fixed), self.arm_names
        )

    def probable(self) -> NamedChances:
        """What is probable of the arms by the prior and what was seen: ordinary intervals, and who is likely to be the best.

        Of what is said with 80 % about 80 of 100 come true, on the average over means as the prior has them; `intervals` and
        `ranking` say what is certain, whatever the means are. Retired arms are counted, too.
        """
        known = Beliefs.of(self._team, *self._tables(), self.prior)
        going = len(self._team) - len(self._left)
        chances = chances_of_draws(
            known.draws(draws_for(len(self._arms)), self.seed, self.trial), going
        )
        low, high = (known.quantiles(share) for share in (0.1, 0.9))
        return NamedChances(known.mean, low, high, chances.best, chances.among, self.arm_names)

    def changes(self) -> NamedAlarms:
        """Which arms have changed, and since when   docs/model.md (19), (20)

        If none ever does, a false alarm is ever raised with the policy's delta at most, however often one looks, if outcomes
        of an arm are told in the order of its visits. An alarm stays when the arm changes back, and goes when it is
        forgotten; it may go when an outcome is corrected, or one of an earlier visit comes late.
        """
        return NamedAlarms.of(self._detector.changes(self._visits(self.rounds + 1)), self.arm_names)

    def lasts(self, rounds: int) -> None:
        """Say how many rounds the season has in all, for a policy that goes by it; it may become longer or shorter."""
        if not self.policy.in_season:
            raise InvalidInput(
                f"{self.policy.name} does not go by the length of the season: {RECOMMENDED_FOR_HORIZON} does"
            )
        self._policy = catalogued(self.policy, horizon=rounds)

    def forget(self, arm: Any) -> None:
        """What was seen of an arm up to the last round that was fixed no longer counts: it has changed.

        Outcomes of those rounds may still be told and corrected; on this arm they do not count either.
        """
        place = position_of_member(arm, "arm", self._arms)
        self._forgotten = add_forgetting(self._forgotten, place, self.rounds)
        self._knowledge = self._folded(self.rounds + 1)

    def remember(self, arm: Any) -> None:
        """Take back that an arm was forgotten, the last time that it was."""
        place = position_of_member(arm, "arm", self._arms)
        self._forgotten = take_back(self._forgotten, place, self._arms[place])
        self._knowledge = self._folded(self.rounds + 1)

    def agents(self) -> NamedAgents:
        """How sensitive each agent is by the visits, beside the others, and whether that agrees with what was stated.

        "agrees" means no more than that the visits do not contradict it. It needs places that stand still: one that changed
        between the visits of two agents looks like a difference between them, so arms that have changed, as `changes` has it, are
        left out. All of it holds in all rounds at once, with the policy's 1 - delta, unless a false alarm leaves out an arm; see
        `agent_sensitivity.agent_intervals`.
        """
        left = [
            one.arm for one in self._detector.changes(self._visits(self.rounds + 1)) if one.changed
        ]
        tables = clear_arms((self.pulls, self.successes), left)
        known = agent_intervals(*tables, self._team, delta=self.policy.delta)
        return NamedAgents.of(known, self.agent_names, tuple(self._arms[n] for n in left))

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
            Agents that stay home, by name or number; numbers count from 0, so 1 is "agent 2".
        closed
            Arms nobody may go to, likewise.
        forbidden, forced
            Pairs (agent, arm) that must not, or must, be assigned. The arms with the highest
            indices to which everybody can be matched are then dealt for the greatest sum of
            sensitivity times index (`matching`). Forbidding a pair that the plan does not use, or
            forcing one that it uses, changes nothing.
        """
        known = (self.agent_names, self.arm_names)
        how = Circumstances.of(*known, absent, closed, forbidden, forced, self._left)
        if self._retired:
            shut = how.closed | self._retired
            how = Circumstances.of(*known, how.absent, shut, how.forbidden, how.forced, how.left)
        return planning.plan(*self._given(self.rounds + 1), how)

    def accept(self, plan: Plan) -> int:
        """Fix a plan as the next round, which then waits for outcomes; its number.

        Accepting the plan of a round once more changes nothing. A plan is known by its round and by the names of agents
        and arms: give these names of their own if you keep several planners.
        """
        record = self._round_of(parse_plan(plan))
        if record.number > self.rounds:
            self._keep(record)
        return record.number

    def tell(self, plan: Plan | Round | int, outcomes: Any) -> None:
        """Learn outcomes of a round, at any time and in parts; all are checked before any is counted.

        Parameters
        ----------
        plan
            A plan, which is accepted if it was not yet, or a round that was fixed, or its number.
        outcomes
            A list with one outcome for each agent, or a mapping from agents, or from pairs
            (agent, arm), to outcomes; or a column of a data frame, whose index has the agents' names. An
            outcome is 0 or 1, a pair (successes, tests), or None or NaN if it is still missing;
            who is not in the mapping is missing too, and counts in plans as on the way. (0, 0) says that a visit was not made,
            or that nothing will ever be known of it. At most 1,000,000 tests of a visit, so that none fills what can be counted.
        """
        before = self._round_of(plan)
        record = before.told(outcomes)
        check_amounts(before, record)
        self._keep(record)
        self._heed(record)

    def correct(self, plan: Plan | Round | int, outcomes: Any) -> None:
        """Put these outcomes, given as to `tell`, in place of what was told; None withdraws one.

        NaN, as a data frame has it where nothing is said, changes nothing.
        """
        before = self._fixed(self._round_of(plan).number)
        record = before.corrected(outcomes)
        check_amounts(before, record)
        self._keep(record)
        self._heed(record)

    def override(self, plan: Plan | Round | int, agent: Any, arms: Any) -> None:
        """Record that an agent went elsewhere than a fixed round planned: to this arm, to several, or with () to none.

        Any number of agents may have gone to one arm; what is certain then needs their outcomes to be independent of each
        other, too. What was told of the agent's one visit moves along. The agent is one who was in the team then.
        """
        record = self._fixed(self._round_of(plan).number).overridden(agent, arms)
        self._keep(record)
        self._heed(record)

    def explain(self, plan: Plan) -> tuple[Explanation, ...]:
        """Why each agent is sent where it is; for the plan of the next round, or of one that was fixed.

        A plan is explained by what it was made with: not after outcomes of earlier rounds came in.
        """
        number = self._round_of(parse_plan(plan)).number
        self._check_team(plan)
        return explain_plan(*self._given(number), plan, self._mixed(number))

    def join(
        self,
        name: str,
        sensitivity: float,
        false_positive_rate: float | None = None,
        tests: int | None = None,
        calibration: tuple[int, int] | None = None,
    ) -> None:
        """A new agent from the next round on, or one who left and returns.

        Who returns reports as it did, and what it found counts so: with another sensitivity it needs another name.
        """
        name = parse_name(name, "name")
        if name in self.agent_names and name not in self.left:
            raise InvalidInput(f"{name!r} is in the team already")
        if name in self.agent_names and name not in self._names:
            raise InvalidInput(f"{name!r} is how an agent reported before it was revised")
        columns = self._team.columns
        given = {
            "sensitivities": sensitivity,
            "agent_names": name,
            "false_positive_rates": false_positive_rate,
            "tests": tests,
            "calibration": calibration,
        }
        if name not in self.left:
            usual = {"false_positive_rates": 0.0, "tests": 1}
            new = usual | {key: value for key, value in given.items() if value is not None}
            new["sensitivities"] = sensitivity
            team = Team(**{key: (*column, new.get(key)) for key, column in columns.items()})
            names, left = (*self._names, name), self._left
            row = AgentRow(len(self._names), self.rounds + 1, reports_of_agents(team)[-1])
            rows = [*self._rows, row]
        else:
            agent = self.agent_names.index(name)
            had = {key: column[agent] for key, column in columns.items()}
            now = had | {key: value for key, value in given.items() if value is not None}
            if Team(**{key: [value] for key, value in now.items()}) != self._team.picked([agent]):
                changed = [
                    f"{SINGULAR_NAMES.get(key, key)} {had[key]}"
                    for key in now
                    if now[key] != had[key]
                ]
                raise InvalidInput(
                    f"{name!r} left with {', '.join(changed)}, with which all it found counts: "
                    "let it return with that, or give it another name"
                )
            names, rows, left = self._names, self._rows, self._left - {agent}
        check_size(len(rows) - len(left), len(self._arms) - len(self._retired))
        self._names, self._left = names, left
        self._seat(rows)

    def leave(self, agent: Any) -> None:
        """An agent leaves the team: from the next round on it stays home. What it found counts."""
        place = position_of_member(agent, "agent", self.agent_names)
        if place in self._left:
            raise InvalidInput(f"{self.agent_names[place]!r} has left the team already")
        self._left |= {place}

    def revise(self, agent: Any, since: RevisedSince, **reports: Any) -> None:
        """Change how an agent reports: since "now" if it has changed, "always" if it was stated wrongly.

        `reports` has what changes: sensitivity, false_positive_rate, tests, calibration, false_positive_calibration. What an
        agent found that has changed counts as it was reported: under the same name with the number of its row, among those
        who left.
        """
        place = position_of_member(agent, "agent", self.agent_names)
        since = cast(RevisedSince, parse_choice(since, "since", REVISED_SINCE_CHOICES))
        one = self._rows[place].agent
        if place != self._row_of(one):
            raise InvalidInput(
                f"{self.agent_names[place]!r} is how {self._names[one]!r} reported before it was revised"
            )
        for key in reports:
            if key not in REVISION_FIELDS:
                raise unknown_name("field", key, REVISION_FIELDS)
        made = parse_revised_reports(self._names[one], self._rows[place].reports.revised(reports))
        mine = [i for i, row in enumerate(self._rows) if row.agent == one]
        went = any(record.held.arms_of(i) for record in self._history for i in mine)
        rows = revise_rows(self._rows, one, made, since, self.rounds + 1, went)
        if len(rows) > len(self._rows):
            gone = {place, len(rows) - 1} if place in self._left else {place}
            self._left |= gone
        self._seat(rows)

    def retire(self, arm: Any) -> None:
        """Give an arm up: from the next round on nobody is sent there. What was found there counts."""
        place = position_of_member(arm, "arm", self._arms)
        left = len(self._arms) - len(self._retired) - 1
        check_retirement("arm", self._arms[place], place in self._retired, True, left)
        self._retired |= {place}

    def restore(self, arm: Any) -> None:
        """Plan again with an arm that was retired."""
        place = position_of_member(arm, "arm", self._arms)
        check_retirement("arm", self._arms[place], place in self._retired, False)
        self._retired -= {place}

    def add_arm(self, name: str) -> None:
        """A new arm from the next round on."""
        name = parse_name(name, "name")
        if name in self._arms:
            raise InvalidInput(f"there is an arm {name!r} already")
        self._arms = parse_names((*self._arms, name), "arms", len(self._arms) + 1, "arm")
        self._widen()

    def to_json(self) -> str:
        """The planner as JSON text: what it was made with, and the rounds since."""
        return file_format.render_state(
            {
                "policy": self.policy.parameters,
                "seed": self.seed,
                "trial": self.trial,
                "agent_names": self._names,
                "rows": [(row.agent, row.since) for row in self._rows],
                "arm_names": self.arm_names,
                "sensitivities": self.sensitivities,
                "false_positive_rates": self.false_positive_rates,
                "tests": self.tests,
                "calibration": self.calibration,
                "false_positive_calibration": self._team.false_positive_calibration,
                "left": sorted(self._left),
                "retired": sorted(self._retired),
                "rounds": self._start.rounds,
                "pulls": self._start.pulls.tolist(),
                "successes": self._start.successes.tolist(),
                "history": [file_format.state_of_round(record) for record in self._history],
                "on_change": self.on_change,
                "forgotten": [one[:2] for one in self._forgotten if not one.taken_back],
                "prior": prior_to_plain(self.prior),
            }
        )

    @classmethod
    def from_json(cls, text: str, policy: Policy | None = None) -> Self:
        """The planner that `to_json` wrote; a policy of your own must be given again."""
        state = file_format.parse_state(text)
        try:
            names, rows = file_format.restore_names(state)
            planner = cls(
                state["sensitivities"],
                state["arm_names"],
                file_format.restore_policy(state["policy"], policy),
                state["seed"],
                agent_names=row_names(names, rows),
                trial=state["trial"],
                pulls=state["pulls"],
                successes=state["successes"],
                rounds=state["rounds"],
                left=state["left"],
                false_positive_rates=state["false_positive_rates"],
                tests=state["tests"],
                calibration=state["calibration"],
                false_positive_calibration=state["false_positive_calibration"],
                on_change=state["on_change"],
                prior=state["prior"],
            )
            planner._names = names
            planner._rows = [
                replace(row, reports=own.reports)
                for row, own in zip(rows, planner._rows, strict=True)
            ]
            first = planner.rounds + 1
            for number, saved in enumerate(state["history"], first):
                then = tuple(row_names(names, planner._rows, number))
                planner._keep(file_format.restore_round(saved, number, then, planner.arm_names))
            planner._retired = file_format.parse_retired_arms(state["retired"], planner.arm_names)
            planner._forget_all(state["forgotten"])
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(
                f"a saved planner that is damaged: an entry is missing or of the wrong kind ({error})"
            ) from None
        return planner

    def save(self, path: Any) -> None:
        """Write the planner to a file, the rounds that wait included; the old file stays until the new one is whole."""
        file_format.write_file(self.to_json(), path)

    @classmethod
    def load(cls, path: Any, policy: Policy | None = None) -> Self:
        """The planner that `save` wrote; a policy of your own must be given again."""
        return cls.from_json(file_format.read_file(path), policy)

    def _given(
        self, number: int
    ) -> tuple[Team, tuple[str, ...], Policy, Knowledge, planning.Address]:
        """What a plan for this round follows from, but for the circumstances."""
        address = planning.Address(self.seed, self.trial, number)
        return self._team, self._arms, self.policy, self._known(number), address

    def _tables(self) -> tuple[LearningTable, LearningTable]:
        """What the policy looks at now."""
        return self._known(self.rounds + 1).tables

    def _known(self, number: int) -> Knowledge:
        """What was known before this round, and whose outcomes of earlier rounds are missing."""
        kept = number > self.rounds and not self.policy.forgets
        known = self._knowledge if kept else self._folded(number)
        first = min(self._awaited, default=number)
        return (
            known if first >= number else replace(known, under_way=self._under_way(first, number))
        )

    def _under_way(self, first: int, before: int) -> LearningTable:
        """The tests that agents are on the way to make since the first round that waits, and before another."""
        gone = forgotten_arms(self._forgotten, before)
        begun = 1 + self._start.rounds
        pairs = [
            [(a, n) for a, n in record.awaited if record.number > gone.get(n, 0)]
            if record.number in self._awaited
            else []
            for record in self._history[first - begun : before - begun]
        ]
        size = (self._team, len(self._arms))
        window, fade = self.policy.window, self.policy.fade
        return visits_under_way(*size, pairs, window=window, fade=fade)

    def _folded(self, number: int) -> Knowledge:
        """The same, from the first round on."""
        earlier = self._history[: number - 1 - self._start.rounds]
        rounds = (record.held.visits() for record in earlier)
        return fold_rounds(
            self._start, rounds, forgotten_arms(self._forgotten, number), self.policy
        )

    def _visits(self, before: int, arms: Iterable[int] | None = None) -> dict[int, ArmVisits]:
        """The visits to these arms, or to all, since they were forgotten, before this round."""
        earlier = self._history[: before - 1 - self._start.rounds]
        some = range(len(self._arms)) if arms is None else arms
        gone = forgotten_arms(self._forgotten, before)
        return visits_by_arm((record.held for record in earlier), some, self._start, gone)

    @property
    def _detector(self) -> ChangeDetector:
        return ChangeDetector(self._team, len(self._arms), self.policy.delta)

    def _mixed(self, number: int) -> list[int]:
        """The arms that had changed before a round, since the first visit to them that the policy recalled."""
        begun = number - 1 - self.policy.window if self.policy.window else -1
        visits, detector = self._visits(number), self._detector
        return detector.mixed_arms(detector.changes(visits), visits, begun)

    def _heed(self, record: Round) -> None:
        """Forget the arms of a round that have changed, if that is wanted."""
        if self._on_change == "forget":
            visits = self._visits(self.rounds + 1, sorted({n for _, n in record.held.sent}))
            for arm in self._detector.changed_arms(visits):
                self.forget(arm)

    def _forget_all(self, forgotten: Any) -> None:
        """Forget what a saved planner had forgotten."""
        before = 0
        for entry in forgotten:
            arm, last = file_format.parse_entry(entry, "forgotten", "an arm and a round")
            before = parse_integer(last, "a forgotten round", before, self.rounds)
            place = parse_integer(arm, "a forgotten arm", 0, len(self._arms) - 1)
            self._forgotten.append(Forgetting(place, before))
        self._knowledge = self._folded(self.rounds + 1)

    def _round_of(self, given: Any) -> Round:
        """The round that a plan or a number means, as it was fixed; or as the next plan would fix it."""
        if not isinstance(given, (Plan, Round)):
            return self._fixed(given)
        made = Round.of(given) if isinstance(given, Plan) else given
        place = made.number - 1 - self._start.rounds
        then = self._history[place].agent_names if 0 <= place < len(self._history) else ()
        agents, arms = made.agent_names, made.arm_names
        known = (*then, *self.agent_names[len(then) :])[: len(agents)]
        if (agents, arms) != (known, self.arm_names[: len(arms)]):
            raise InvalidInput(FOREIGN_PLAN_MESSAGE)
        if made.number == self.rounds + 1 and isinstance(given, Plan):
            self._check_team(given)
            return made
        fixed = self._fixed(made.number)
        if made.planned != fixed.planned:
            raise InvalidInput(
                f"the plan is for round {made.number}, which was fixed with another: "
                f"{describe_differences(fixed, made)}; round {self.rounds + 1} is next, ask for it"
            )
        return fixed

    def _check_team(self, plan: Plan) -> None:
        """Refuse a plan for other agents or arms than there are now."""
        made_for = (plan.agent_names, plan.arm_names, plan.circumstances.left)
        shut = plan.circumstances.closed
        if made_for != (self.agent_names, self.arm_names, self._left) or self._retired - shut:
            raise InvalidInput(FOREIGN_PLAN_MESSAGE)

    def _fixed(self, number: Any) -> Round:
        """The round of this number."""
        try:
            n = parse_integer(number, "round", 0)
        except InvalidInput:
            raise InvalidInput(
                f"plan is {repr_of(number)}: a Plan, as ask() gives, or the number of a round"
            ) from None
        place = n - 1 - self._start.rounds
        if place not in range(len(self._history)):
            fixed = f"rounds {self._start.rounds + 1} to {self.rounds} are"
            raise InvalidInput(
                f"round {repr_of(n)} is not fixed: {fixed if self._history else 'none is yet'}; "
                f"round {self.rounds + 1} is next, ask for it"
            )
        return self._history[place]

    def _keep(self, record: Round) -> None:
        """Put a round into the history, in its place, and what is known of it into the tables."""
        place = record.number - 1 - self._start.rounds
        before = self._history[place : place + 1]
        replaced = [visit for old in before for visit in old.visits]
        new = 0 if before else 1
        gone = forgotten_arms(self._forgotten)
        now, old = (counted_visits(some, gone) for some in (record.visits, replaced))
        self._knowledge = self._knowledge.after(now, instead_of=old, rounds=new)
        self._history[place : place + 1] = [record]
        (self._awaited.add if record.missing else self._awaited.discard)(record.number)

    def _row_of(self, agent: int) -> int:
        """The row by which an agent reports now."""
        return max(i for i, row in enumerate(self._rows) if row.agent == agent)

    def _seat(self, rows: list[AgentRow]) -> None:
        """Let the agents report like this."""
        self._rows, self._team = rows, team_of_rows(self._names, rows)
        self._widen()

    def _widen(self) -> None:
        """Make room in the tables for agents who joined and arms that were added."""
        size = len(self._team), len(self._arms)
        self._start, self._knowledge = self._start.widened(*size), self._knowledge.widened(*size)
        self._history = [replace(record, arm_names=self._arms) for record in self._history]


def parse_plan(given: Any) -> Plan:
    """`given`, if it is a plan."""
    if not isinstance(given, Plan):
        raise InvalidInput(f"plan is {repr_of(given)}: a Plan, as ask() gives")
    return given


def check_amounts(before: Round, record: Round) -> None:
    """Refuse new outcomes of more tests than one visit can have; a planner that was saved keeps what it has."""
    for visit in set(record.visits) - set(before.visits):
        if visit.tests > REPORT_MAX_TESTS:
            raise InvalidInput(
                f"the tests of {record.agent_names[visit.agent]!r} are {visit.tests:,}: at most {REPORT_MAX_TESTS:,} of one visit"
            )


def parse_revised_reports(name: str, stated: Mapping[str, Any]) -> Reports:
    """How an agent reports that was revised; what calibration makes likely where nothing else is stated."""
    columns = {COLUMN_NAMES.get(key, key): value for key, value in stated.items()}
    made = Team(
        **{key: None if v is None else [v] for key, v in columns.items()}, agent_names=[name]
    )
    return reports_of_agents(made)[0]


def check_retirement(kind: str, name: str, is_retired: bool, retires: bool, left: int = 1) -> None:
    """Refuse that an agent or arm is retired twice, or returns without having been, or that none is left."""
    if is_retired == retires:
        raise InvalidInput(f"{name!r} is {'retired' if retires else 'here'} already")
    if not left:
        raise InvalidInput(f"{name!r} is the last {kind}: add another one before")


def check_size(agents: int, arms: int) -> None:
    """Refuse more agents than arms."""
    if agents > arms:
        raise InvalidInput(
            f"there are {agents} agents and {arms} arms: each agent needs an "
            "arm of its own, so at most as many agents as arms"
        )
