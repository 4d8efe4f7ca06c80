"""Planner: one round at a time, with real circumstances, explained and saved."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import reference
from heterobandits import (
    CATALOGUE,
    PAPER,
    Explanation,
    InvalidInput,
    Plan,
    Planner,
    Policy,
    Problem,
    UnsupportedVersion,
    policy,
)
from heterobandits.core.randomness import uniform
from heterobandits.simulation import Block, World

PLANNED = [name for name in CATALOGUE if name != "oracle"]
MOST = 2**31 - 1


def optimism(pulls, successes, sensitivities, rounds):
    """A shared index of the user's own, infinite where nothing was pulled."""
    s = sensitivities[:, None, None]
    information = (s**2 * pulls).sum(axis=0)
    weighted = (s * successes).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        index = weighted / information + np.sqrt(math.log(2 + rounds) / information)
    return np.where(information > 0, index, np.inf)


def own_optimism(pulls, successes, sensitivities, rounds):
    """An index per agent of the user's own."""
    with np.errstate(divide="ignore", invalid="ignore"):
        index = successes / pulls + 0.4 / np.sqrt(sensitivities[:, None, None] * pulls)
    return np.where(pulls > 0, index, np.inf)


OWN = [
    Policy("optimism", index=optimism),
    Policy("random optimism", index=optimism, first="random"),
    Policy("own optimism", index=own_optimism, index_per="agent"),
]


def labelled(entry):
    return policy(entry).label


def fixed(table):
    """A policy whose index is this table: a list for all agents, or a row for each."""
    table = np.array(table, float)[..., None]
    per = "arm" if table.ndim == 2 else "agent"
    return Policy("fixed", index=lambda c, y, s, t: table, index_per=per)


def with_tables(planner, pulls, successes, rounds):
    """The same planner after `rounds` rounds that left these tables."""
    state = json.loads(planner.to_json())
    state |= {"rounds": rounds, "pulls": pulls, "successes": successes}
    own = planner.policy if planner.policy.index is not None else None
    return Planner.from_json(json.dumps(state), own)


def play(planner, rounds, means=None):
    """Let the planner run; an outcome is 1 if the arm's luck is below its mean."""
    arms = len(planner.arm_names)
    means = means or [(n + 1) / (arms + 1) for n in range(arms)]
    for _ in range(rounds):
        plan = planner.ask()
        r = planner.rounds + 1
        planner.tell(plan, [int(uniform(99, 0, r, n) < means[n]) for n in plan.assignment])
    return planner


def every_allowed(agents, arms, absent=(), closed=(), forbidden=(), forced=()):
    """Every assignment that is allowed, as dicts; as many agents are sent as there are arms for."""
    present = [a for a in range(agents) if a not in absent]
    free = [n for n in range(arms) if n not in closed]
    count = min(len(present), len(free))
    for who in itertools.combinations(present, count):
        for where in itertools.permutations(free, count):
            f = dict(zip(who, where, strict=True))
            if any(f.get(a) == n for a, n in forbidden) or any(f.get(a) != n for a, n in forced):
                continue
            yield f


def value(f, table, weights):
    return math.fsum(weights[a] * table[a][n] for a, n in f.items())


def sent(plan):
    return {a: n for a, n in enumerate(plan.assignment) if n is not None}


@st.composite
def sizes(draw, most=4):
    arms = draw(st.integers(1, most))
    return draw(st.integers(1, arms)), arms


@st.composite
def circumstances(draw, agents, arms, pairs=True):
    """Circumstances of a round by number; they may contradict each other."""
    found = {
        "absent": draw(st.sets(st.integers(0, agents - 1), max_size=2)),
        "closed": draw(st.sets(st.integers(0, arms - 1), max_size=2)),
    }
    if pairs:
        pair = st.tuples(st.integers(0, agents - 1), st.integers(0, arms - 1))
        found["forbidden"] = draw(st.sets(pair, max_size=4))
        found["forced"] = draw(st.sets(pair, max_size=1))
    return found


def contradictory(absent=(), closed=(), forbidden=(), forced=()):
    return any(a in absent or n in closed or (a, n) in forbidden for a, n in forced)


class TestMaking:
    @pytest.mark.parametrize(
        ("given", "culprit"),
        [
            ({"sensitivities": []}, "sensitivities is empty"),
            ({"sensitivities": [0.5, 0.0]}, r"sensitivities\[1\] is 0"),
            ({"sensitivities": [0.5, math.nan]}, r"sensitivities\[1\] is nan"),
            ({"sensitivities": 0.5}, "sensitivities is 0.5"),
            ({"arms": 0}, "arms is 0"),
            ({"arms": 1}, "2 agents and 1 arms"),
            ({"arms": 2.5}, "arms is 2.5"),
            ({"arms": "abc"}, "arms is 'abc'"),
            ({"arms": []}, "2 agents and 0 arms"),
            ({"arms": ["a", "a", "b"]}, r"arms\[1\] is 'a': names must differ"),
            ({"arms": ["a", " ", "b"]}, r"arms\[1\] is ' '"),
            ({"arms": np.array(3)}, "arms is"),
            ({"policy": "min-with"}, "did you mean 'min-width'"),
            ({"policy": "oracle"}, "oracle knows the true means"),
            ({"policy": None}, "unknown policy"),
            ({"seed": -1}, "seed is -1"),
            ({"seed": 2**64}, "seed is 18446744073709551616"),
            ({"seed": 0.5}, "seed is 0.5"),
            ({"trial": -1}, "trial is -1"),
            ({"agent_names": ["a"]}, "agent_names has 1 names"),
            ({"agent_names": ["a", "a"]}, r"agent_names\[1\]"),
        ],
    )
    def test_refused(self, given, culprit):
        with pytest.raises(InvalidInput, match=culprit):
            Planner(**{"sensitivities": [0.9, 0.5], "arms": 3, **given})

    def test_names(self):
        planner = Planner([0.9, 0.5], ["x", "y", "z"], agent_names=("Ada", "Bo"))
        assert planner.arm_names == ("x", "y", "z")
        assert planner.agent_names == ("Ada", "Bo")
        assert planner.sensitivities == (0.9, 0.5)
        assert planner.policy == policy("posterior-sorted")
        assert Planner([0.9], 2).arm_names == ("arm 1", "arm 2")
        assert Planner([0.9], 2).agent_names == ("agent 1",)

    def test_it_knows_nothing_at_first(self):
        planner = Planner([0.9, 0.5], 3)
        assert planner.rounds == 0
        assert planner.elapsed == 0
        assert planner.pulls.shape == planner.successes.shape == (2, 3)
        assert not planner.pulls.any()
        assert not planner.successes.any()


class TestAsking:
    @pytest.mark.parametrize("entry", [*PLANNED, *OWN], ids=labelled)
    def test_changes_nothing_and_can_be_repeated(self, entry):
        planner = Planner([0.9, 0.3, 0.6], 4, entry, seed=5)
        for _ in range(12):
            before = planner.to_json()
            plan = planner.ask()
            planner.explain(plan)
            planner.intervals()
            planner.ask(closed=[0])
            assert planner.ask() == plan
            assert planner.to_json() == before
            planner.tell(plan, [0, 1, 1])

    @pytest.mark.parametrize("entry", [*PLANNED, *OWN], ids=labelled)
    def test_a_plan_is_a_function_of_seed_round_and_tables(self, entry):
        one, two = (Planner([0.9, 0.3], 4, entry, seed=5, trial=2) for _ in "ab")
        for _ in range(10):
            plan = one.ask()
            assert two.ask() == plan
            one.tell(plan, [1, 0])
            two.tell(plan, [1, 0])

    def test_seed_trial_and_round_each_matter(self):
        def plans(rounds=0, **address):
            planner = with_tables(Planner([0.9, 0.3], 6, "random", **address), *zero, rounds)
            return planner.ask().assignment

        zero = ([[0] * 6] * 2, [[0] * 6] * 2)
        assert len({plans(seed=k) for k in range(20)}) > 5
        assert len({plans(seed=1, trial=k) for k in range(20)}) > 5
        assert len({plans(seed=1, rounds=k) for k in range(20)}) > 5

    def test_ties_fall_on_every_arm_alike(self):
        # 3000 tied rounds over 3 arms: each arm's count is binomial(3000, 1/3); 5.5 standard
        # deviations are exceeded with probability below 4e-8 for one arm, 2e-7 for all.
        counts = np.zeros(3)
        for seed in range(3000):
            counts[Planner([0.9], 3, seed=seed).ask().assignment[0]] += 1
        assert np.abs(counts - 1000).max() < 5.5 * math.sqrt(3000 * 2 / 9)

    def test_the_round_counts(self):
        planner = Planner([0.9, 0.3], 4)
        for r in range(1, 4):
            plan = planner.ask()
            assert plan.round == r
            planner.tell(plan, [None, None])
            assert planner.rounds == r


PROBLEMS = {
    "sorted": Problem([0.1, 0.4, 0.35, 0.8], [0.9, 0.6, 0.2]),
    "unsorted": Problem([0.1, 0.4, 0.35, 0.8], [0.3, 0.9, 0.6]),
    "believed in another order": Problem(
        [0.1, 0.4, 0.35, 0.8], [0.3, 0.9, 0.6], believed=[0.7, 0.25, 0.5]
    ),
    "equal": Problem([0.2, 0.4, 0.3, 0.5], [0.7, 0.7, 0.7]),
    "some equal": Problem([0.2, 0.4, 0.3, 0.5, 0.5], [0.7, 0.95, 0.7]),
    "one agent": Problem([0.2, 0.6, 0.5], [0.4]),
    "as many agents as arms": Problem([0.2, 0.6, 0.5, 0.9], [0.4, 0.9, 0.1, 0.5]),
    "one of each": Problem([0.5], [0.5]),
    "certain and impossible": Problem([0.0, 1.0, 1.0], [1.0, 1.0]),
}


class TestSimulator:
    @pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
    @pytest.mark.parametrize(
        "entry", [*PLANNED, *OWN, policy("min-width", delta=0.3, horizon=200)], ids=labelled
    )
    def test_planner_and_simulator_agree_in_every_round(self, problem, entry):
        seed, trial, rounds = 2**40 + 3, 2**33 + 1, 40
        entry = policy(entry)
        world = World.of(problem, entry)
        block = Block(world, seed, trial, 1)
        planner = Planner(problem.believed, problem.arms, entry, seed, trial=trial)
        for r in range(1, rounds + 1):
            plan = planner.ask()
            outcomes = [
                int(uniform(seed, trial, r, n) < s * problem.means[n])
                for s, n in zip(problem.sensitivities, plan.assignment, strict=True)
            ]
            planner.tell(plan, outcomes)
            block.advance(1)
            np.testing.assert_array_equal(planner.pulls[world.order], block.pulls[:, :, 0])
            np.testing.assert_array_equal(planner.successes[world.order], block.successes[:, :, 0])

    @pytest.mark.parametrize("s", [1.0, 0.9, 0.37])
    def test_with_one_agent_the_papers_policies_are_one(self, s):
        planners = [Planner([s], 4, name, seed=8) for name in PAPER]
        for r in range(1, 150):
            plans = [planner.ask() for planner in planners]
            assert {plan.assignment for plan in plans} == {plans[0].assignment}
            (n,) = plans[0].assignment
            for planner, plan in zip(planners, plans, strict=True):
                planner.tell(plan, [int(uniform(8, 0, r, n) < s * (0.2 + n / 6))])


class TestAbsentAndClosed:
    @pytest.mark.parametrize("entry", [p for p in [*PLANNED, *OWN] if p != "ucb"], ids=labelled)
    def test_absent_agents_stay_home_and_closed_arms_are_empty(self, entry):
        planner = Planner([0.3, 0.9, 0.6], ["a", "b", "c", "d"], entry, agent_names=["x", "y", "z"])
        for _ in range(8):
            plan = planner.ask(absent=["y"], closed=["c", 0])
            assert plan.assignment[1] is None
            assert plan.reasons[1] == "absent"
            assert sorted(n for n in plan.assignment if n is not None) == [1, 3]
            planner.tell(plan, [1, None, (2, 3)])
        assert planner.pulls.sum(axis=0).tolist()[0::2] == [0, 0]
        assert planner.pulls[1].sum() == 0

    @pytest.mark.parametrize(
        "entry",
        [p for p in [*PLANNED, *OWN] if policy(p).first == "most sensitive" and p != "ucb"],
        ids=labelled,
    )
    def test_the_least_sensitive_stay_home_when_arms_are_few(self, entry):
        planner = play(Planner([0.3, 0.9, 0.6], 4, entry), 12)
        plan = planner.ask(closed=[1, 3])
        assert plan.assignment[0] is None
        assert plan.reasons[0] == "no open arm is left"
        assert sorted(n for n in plan.assignment if n is not None) == [0, 2]
        plan = planner.ask(absent=[1], closed=[0, 1, 3])
        assert plan.assignment == (None, None, 2)

    def test_for_cucb_chance_says_who_stays_home(self):
        # 2000 draws among 3 agents: 5.5 standard deviations are exceeded with probability
        # below 4e-8 for one agent, 2e-7 for all.
        counts = np.zeros(3)
        for seed in range(2000):
            plan = Planner([0.9, 0.5, 0.1], 3, "cucb", seed=seed).ask(closed=[0, 2])
            (agent,) = sent(plan)
            counts[agent] += 1
        assert np.abs(counts - 2000 / 3).max() < 5.5 * math.sqrt(2000 * 2 / 9)

    @given(sizes(), st.data())
    def test_those_who_are_left_are_matched_in_order(self, size, data):
        agents, arms = size
        s = data.draw(st.lists(st.sampled_from([0.2, 0.5, 0.9]), min_size=agents, max_size=agents))
        index = data.draw(st.permutations([k / 8 for k in range(arms)]))
        how = data.draw(circumstances(agents, arms, pairs=False))
        plan = Planner(s, arms, fixed(index)).ask(**how)
        present = sorted(
            (a for a in range(agents) if a not in how["absent"]), key=lambda a: (-s[a], a)
        )
        free = sorted((n for n in range(arms) if n not in how["closed"]), key=lambda n: -index[n])
        assert sent(plan) == dict(zip(present, free, strict=False))

    @pytest.mark.parametrize("entry", [p for p in [*PLANNED, *OWN] if p != "ucb"], ids=labelled)
    def test_nobody_present_or_nothing_open(self, entry):
        planner = Planner([0.3, 0.9], 3, entry)
        for how in (
            {"absent": [0, 1]},
            {"closed": [0, 1, 2]},
            {"absent": [0, 1], "closed": [0, 1, 2]},
            {"absent": [0, 1], "forbidden": [(0, 0)]},
            {"closed": [0, 1, 2], "forbidden": [(0, 0)]},
        ):
            plan = planner.ask(**how)
            assert plan.assignment == (None, None)
            assert planner.explain(plan) == ()
            assert str(plan).count("stays home") == 2
        planner.tell(plan, [None, None])
        assert planner.rounds == 1
        assert not planner.pulls.any()

    @pytest.mark.parametrize(
        "entry", [p for p in [*PLANNED, *OWN] if p not in ("random", "thompson")], ids=labelled
    )
    def test_arms_never_pulled_come_first(self, entry):
        planner = Planner([0.5, 0.8], 5, entry, seed=3)
        if policy(entry).index_per == "assignment":
            seen = set()
            for _ in range(20):
                plan = planner.ask()
                seen.add(plan.assignment)
                planner.tell(plan, [1, 1])
            assert len(seen) == 20
        elif policy(entry).index_per == "agent":
            for _ in range(4):
                plan = planner.ask()
                planner.tell(plan, [1, 1])
            # The first to pick has no rival for what it has not seen.
            assert sorted(planner.pulls[1].tolist()) == [0, 1, 1, 1, 1]
        else:
            for _ in range(2):
                planner.tell(planner.ask(), [1, 1])
            assert sorted(planner.pulls.sum(axis=0).tolist()) == [0, 1, 1, 1, 1]
            (left,) = np.flatnonzero(planner.pulls.sum(axis=0) == 0)
            # The last one unseen is among the arms chosen, with pairs forbidden or not.
            assert left in planner.ask().assignment
            assert left in planner.ask(forbidden=[(1, left)]).assignment
            assert left in planner.ask(forbidden=[(0, left)]).assignment


class TestPairs:
    @settings(max_examples=250)
    @given(sizes(), st.booleans(), st.data())
    def test_the_assignment_is_the_best_of_all_that_are_allowed(self, size, shared, data):
        agents, arms = size
        s = data.draw(st.lists(st.floats(0.01, 1), min_size=agents, max_size=agents))
        # Not negative: the least sensitive stay home, which would not be best then.
        row = st.lists(
            st.floats(0, 3) | st.sampled_from([0.0, 0.5, 1.0]), min_size=arms, max_size=arms
        )
        table = data.draw(row if shared else st.lists(row, min_size=agents, max_size=agents))
        how = data.draw(circumstances(agents, arms))
        planner = Planner(s, arms, fixed(table))
        full = [table] * agents if shared else table
        best = max((value(f, full, s) for f in every_allowed(agents, arms, **how)), default=None)
        if contradictory(**how) or best is None:
            with pytest.raises(InvalidInput):
                planner.ask(**how)
            return
        plan = planner.ask(**how)
        if how["forbidden"] or how["forced"] or shared:
            assert sent(plan) in list(every_allowed(agents, arms, **how))
            assert value(sent(plan), full, s) == pytest.approx(best, rel=1e-12, abs=1e-12)

    @settings(max_examples=150)
    @given(sizes(), st.data())
    def test_sorted_and_optimal_matching_are_equally_good(self, size, data):
        agents, arms = size
        s = data.draw(st.lists(st.floats(0.01, 1), min_size=agents, max_size=agents))
        index = data.draw(st.lists(st.floats(-2, 3), min_size=arms, max_size=arms))
        planner = Planner(s, arms, fixed(index))
        sorted_plan = planner.ask()
        # Forbidding a pair that nobody wants leads through the optimal matching.
        spare = sorted(set(range(arms)) - set(sorted_plan.assignment))
        never = [(0, spare[-1])] if spare else []
        agent = data.draw(st.integers(0, agents - 1))
        forced = [(agent, sorted_plan.assignment[agent])]
        best = value(sent(sorted_plan), [index] * agents, s)
        for how in ({"forbidden": never}, {"forced": forced}):
            plan = planner.ask(**how)
            assert value(sent(plan), [index] * agents, s) == pytest.approx(best, abs=1e-12)

    @pytest.mark.parametrize("entry", PLANNED)
    def test_forbidden_and_forced_are_honoured(self, entry):
        planner = Planner([0.3, 0.9, 0.6], 4, entry)
        for _ in range(15):
            plan = planner.ask(forbidden=[(1, 0), (1, 1), ("agent 3", "arm 4")], forced=[(0, 2)])
            assert plan.assignment[0] == 2
            assert plan.assignment[1] == 3
            assert plan.assignment[2] in (0, 1)
            assert plan.reasons[0] == "forced"
            planner.tell(plan, [1, 0, 1])

    def test_pairs_of_those_who_are_away_are_idle(self):
        planner = Planner([0.3, 0.9], 3, fixed([0.1, 0.2, 0.3]))
        assert planner.ask(absent=[1], forbidden=[(1, 2)]).assignment == (2, None)
        assert planner.ask(closed=[2], forbidden=[(1, 2)]).assignment == (0, 1)

    @pytest.mark.parametrize(
        ("how", "culprit"),
        [
            ({"forced": [(0, 1)], "absent": [0]}, "'agent 1', 'arm 2'.*the agent is absent"),
            ({"forced": [(0, 1)], "closed": [1]}, "'agent 1', 'arm 2'.*the arm is closed"),
            ({"forced": [(0, 1)], "forbidden": [(0, 1)]}, "'agent 1', 'arm 2'.*forbidden as well"),
            ({"forced": [(0, 1), (0, 2)]}, "'agent 1'.*two arms"),
            ({"forced": [(0, 1), (1, 1)]}, "'arm 2'.*two agents"),
            ({"forbidden": [(0, 0), (0, 1), (0, 2)]}, "no assignment is left"),
            (
                {"forbidden": [(0, 1), (0, 2), (1, 1), (1, 2)]},
                "no assignment is left",
            ),
            ({"forced": [(0, 0)], "forbidden": [(1, 1), (1, 2)]}, "no assignment is left"),
        ],
    )
    @pytest.mark.parametrize("entry", ["min-width", "no-sharing", "cucb", "ucb"])
    def test_what_cannot_be_is_said(self, how, culprit, entry):
        if entry == "ucb" and "absent" in how:
            culprit = "absent"
        with pytest.raises(InvalidInput, match=culprit):
            Planner([0.9, 0.5], 3, entry).ask(**how)

    @pytest.mark.parametrize("field", ["absent", "closed", "forbidden", "forced"])
    @pytest.mark.parametrize(
        "given", [None, 5, "agent 1", [None], [9], [-1], [0.5], [True], ["agnt 1"], np.array(1)]
    )
    def test_who_and_where_must_exist(self, field, given):
        planner = Planner([0.9, 0.5], 3)
        with pytest.raises(InvalidInput):
            planner.ask(**{field: given})

    @pytest.mark.parametrize("pair", [(0,), (0, 1, 2), (0, 9), (9, 0), ("agent 1", "floor"), "ab"])
    @pytest.mark.parametrize("field", ["forbidden", "forced"])
    def test_a_pair_is_an_agent_and_an_arm(self, field, pair):
        with pytest.raises(InvalidInput):
            Planner([0.9, 0.5], 3).ask(**{field: [pair]})

    def test_a_misspelt_name_gives_the_nearest(self):
        planner = Planner([0.9, 0.5], ["floor 1", "lobby", "yard"], agent_names=["Ada", "Grace"])
        with pytest.raises(InvalidInput, match="unknown arm 'loby': did you mean 'lobby'"):
            planner.ask(closed=["loby"])
        with pytest.raises(InvalidInput, match="unknown agent 'Grce': did you mean 'Grace'"):
            planner.ask(absent=["Grce"])
        with pytest.raises(InvalidInput, match=r"unknown arm 'lobbi'.*'lobby'"):
            planner.ask(forced=[("Ada", "lobbi")])

    def test_what_was_particular_stays_with_the_plan(self):
        how = {"absent": [2], "closed": [3], "forbidden": [(0, 0)], "forced": [(1, 1)]}
        plan = Planner([0.9, 0.5, 0.4], 5).ask(**how)
        assert plan.circumstances._asdict() == {key: frozenset(how[key]) for key in how}


def ready():
    """A planner with a history and three named agents, of whom one stays home, and its plan."""
    planner = play(
        Planner([0.9, 0.5, 0.3], ["a", "b", "c", "d"], agent_names=["x", "y", "z"], seed=4), 9
    )
    return planner, planner.ask(absent=["z"])


class TestTelling:
    @pytest.mark.parametrize(
        ("make", "counted"),
        [
            (lambda f: [1, 0, None], [(1, 1), (0, 1)]),
            (lambda f: (1, 0, None), [(1, 1), (0, 1)]),
            (lambda f: [True, False, None], [(1, 1), (0, 1)]),
            (lambda f: [np.int64(1), np.bool_(False), None], [(1, 1), (0, 1)]),
            (lambda f: np.array([1, 0, None], object), [(1, 1), (0, 1)]),
            (lambda f: iter([1, 0, None]), [(1, 1), (0, 1)]),
            (lambda f: [None, None, None], [(0, 0), (0, 0)]),
            (lambda f: {}, [(0, 0), (0, 0)]),
            (lambda f: {"x": 1, "y": 0}, [(1, 1), (0, 1)]),
            (lambda f: {0: 1, 1: 0, 2: None}, [(1, 1), (0, 1)]),
            (lambda f: {np.int8(0): 1, "y": 0}, [(1, 1), (0, 1)]),
            (lambda f: {(0, f[0]): 1, ("y", "abcd"[f[1]]): 0}, [(1, 1), (0, 1)]),
            (lambda f: {"x": (3, 12)}, [(3, 12), (0, 0)]),
            (lambda f: {"x": [3, 12], "y": (0, 0)}, [(3, 12), (0, 0)]),
            (lambda f: {"x": (np.int32(3), np.uint8(12)), "y": None}, [(3, 12), (0, 0)]),
            (lambda f: [(12, 12), (0, 7), None], [(12, 12), (0, 7)]),
        ],
    )
    def test_every_way_to_say_it(self, make, counted):
        planner, plan = ready()
        pulls, successes = planner.pulls.copy(), planner.successes.copy()
        for a, (k, n) in enumerate(counted):
            pulls[a, plan.assignment[a]] += n
            successes[a, plan.assignment[a]] += k
        planner.tell(plan, make(plan.assignment))
        assert planner.rounds == 10
        np.testing.assert_array_equal(planner.pulls, pulls)
        np.testing.assert_array_equal(planner.successes, successes)

    @pytest.mark.parametrize(
        ("make", "culprit"),
        [
            (lambda f: [(4, 3), 0, None], "'x' is 4 successes of 3 tests"),
            (lambda f: [(-1, 3), 0, None], "successes of 'x' is -1"),
            (lambda f: [(0, -1), 0, None], "tests of 'x' is -1"),
            (lambda f: [(0.5, 1), 0, None], "successes of 'x' is 0.5"),
            (lambda f: [(1, 2**31), 0, None], "tests of 'x'"),
            (lambda f: [1, (1, 10**5000), None], "tests of 'y'"),
            (lambda f: [1, (10**5000, 3), None], "'y'"),
            (lambda f: [1, (1,), None], "outcome of 'y' is"),
            (lambda f: [1, (1, 2, 3), None], "outcome of 'y' is"),
            (lambda f: [1, 0.5, None], "outcome of 'y' is 0.5"),
            (lambda f: [1, 1.0, None], "outcome of 'y' is 1.0"),
            (lambda f: [1, math.nan, None], "outcome of 'y' is nan"),
            (lambda f: [1, -1, None], "outcome of 'y' is -1"),
            (lambda f: [1, 2, None], "outcome of 'y' is 2"),
            (lambda f: [1, 10**5000, None], "outcome of 'y' is"),
            (lambda f: [1, "1", None], "outcome of 'y' is '1'"),
            (lambda f: [1, {}, None], "outcome of 'y' is"),
            (lambda f: [1, 0, 1], "1 for 'z': the plan sent it nowhere"),
            (lambda f: {"x": 1, "z": 0}, "0 for 'z': the plan sent it nowhere"),
            (lambda f: [1, 0], "outcomes has 2 entries"),
            (lambda f: [1, 0, None, None], "outcomes has 4 entries"),
            (lambda f: 1, "outcomes is 1"),
            (lambda f: None, "outcomes is None"),
            (lambda f: "101", "outcomes is '101'"),
            (lambda f: np.array(1), "outcomes is"),
            (lambda f: {"x": 1, "w": 0}, "unknown agent 'w'"),
            (lambda f: {"x": 1, 3: 0}, "number of an agent is 3"),
            (lambda f: {"x": 1, 10**5000: 0}, "number of an agent is"),
            (lambda f: {"x": 1, None: 0}, "None"),
            (lambda f: {"x": 1, 0: 0}, "outcomes has 'x' twice"),
            (lambda f: {"x": 1, ("x", f[0]): 1}, "outcomes has 'x' twice"),
            (lambda f: {0: None, "x": 1}, "outcomes has 'x' twice"),
            (lambda f: {("x", f[1]): 1}, "'x' on .*the plan did not send it there"),
            (lambda f: {("y", f[1]): 1, ("z", f[0]): 1}, "'z' on .*did not send it there"),
            (lambda f: {("y", f[1]): 1, ("x",): 1}, "pairs"),
            (lambda f: {("y", f[1]): 1, ("x", "e"): 1}, "unknown arm 'e'"),
        ],
    )
    def test_a_mistake_is_named_and_nothing_is_counted(self, make, culprit):
        planner, plan = ready()
        before = planner.to_json()
        with pytest.raises(InvalidInput, match=culprit):
            planner.tell(plan, make(plan.assignment))
        assert planner.to_json() == before
        planner.tell(plan, [1, 1, None])
        assert planner.rounds == 10

    def test_the_nearest_agent(self):
        planner = Planner([0.9], 2, agent_names=["team north"])
        with pytest.raises(InvalidInput, match="'team nort': did you mean 'team north'"):
            planner.tell(planner.ask(), {"team nort": 1})

    def test_a_plan_of_another_round(self):
        planner, plan = ready()
        planner.tell(plan, [1, 1, None])
        before = planner.to_json()
        for use in (lambda: planner.tell(plan, [1, 1, None]), lambda: planner.explain(plan)):
            with pytest.raises(InvalidInput, match="for round 10: round 11 is next"):
                use()
        assert planner.to_json() == before

    @pytest.mark.parametrize(
        "other",
        [
            Planner([0.9, 0.5], ["a", "b", "c"], agent_names=["x", "y"]),
            Planner([0.9, 0.5, 0.3], 4, agent_names=["x", "y", "z"]),
            Planner([0.9, 0.5, 0.3], ["a", "b", "c", "d"]),
            Planner([0.9, 0.5, 0.3, 0.2], 9),
        ],
    )
    def test_a_plan_of_another_planner(self, other):
        planner, _ = ready()
        planner = with_tables(planner, [[0] * 4] * 3, [[0] * 4] * 3, 0)
        before = planner.to_json()
        plan = other.ask()
        for use in (lambda: planner.tell(plan, {}), lambda: planner.explain(plan)):
            with pytest.raises(InvalidInput, match="another planner"):
                use()
        assert planner.to_json() == before

    @pytest.mark.parametrize("plan", [None, 1, "plan", {}, (0, 1, 2)])
    def test_what_is_no_plan(self, plan):
        planner, _ = ready()
        before = planner.to_json()
        for use in (lambda: planner.tell(plan, [1, 1, 1]), lambda: planner.explain(plan)):
            with pytest.raises(InvalidInput, match=r"plan is .*: a Plan"):
                use()
        assert planner.to_json() == before

    def test_more_pulls_than_can_be_counted(self):
        planner = Planner([0.9, 0.5], 2, fixed([1.0, 0.5]))
        planner.tell(planner.ask(), [(5, MOST - 1), 1])
        planner.tell(planner.ask(), [1, 1])
        assert planner.pulls[0, 0] == MOST
        before = planner.to_json()
        plan = planner.ask()
        with pytest.raises(InvalidInput, match="over 2,147,483,647 pulls"):
            planner.tell(plan, [1, 1])
        assert planner.to_json() == before
        # The pulls of all agents count together.
        with pytest.raises(InvalidInput, match="over 2,147,483,647 pulls"):
            planner.tell(planner.ask(forced=[(1, 0)]), [None, 1])
        assert planner.to_json() == before
        planner.tell(plan, [None, 1])
        assert planner.rounds == 3

    def test_elapsed_counts_tests_where_a_visit_yields_many(self):
        planner = Planner([0.9, 0.5], 2, fixed([1.0, 0.5]))
        assert planner.elapsed == 0
        for r in range(1, 4):
            planner.tell(planner.ask(), [1, 1])
            assert planner.elapsed == r
        planner.tell(planner.ask(), [(2, 10), None])
        assert planner.elapsed == 13
        planner.tell(planner.ask(forced=[(1, 0)]), [None, (0, 7)])
        assert planner.elapsed == 20  # of both agents on one arm
        for _ in range(20):
            planner.tell(planner.ask(), [None, None])
        assert planner.elapsed == 25

    def test_the_index_has_the_elapsed_tests_in_its_logarithm(self):
        planner = Planner([0.9, 0.5], 2, "cucb")
        plan = planner.ask()
        planner.tell(plan, [(30, 100), (9, 10)])
        first, second = plan.assignment
        for arm, k, n in ((first, 30, 100), (second, 9, 10)):
            exact = k / n + math.sqrt(math.log(2 * 2 * 100 / 0.05) / (2 * n))  # eq:cucb_alg_ucb
            assert planner.ask().index[0][arm] == pytest.approx(exact, rel=1e-12)


class TestUCB:
    def test_it_needs_everyone(self):
        planner = Planner([0.9, 0.5], 3, "ucb")
        with pytest.raises(InvalidInput, match="'agent 2' is absent: ucb"):
            planner.ask(absent=[1])
        with pytest.raises(InvalidInput, match="no assignment is left"):
            planner.ask(closed=[0, 1])

    @pytest.mark.parametrize("outcomes", [[1, None], {}, {"agent 1": 1}, [1, (1, 2)], [1, (0, 0)]])
    def test_it_needs_one_outcome_from_each(self, outcomes):
        planner = play(Planner([0.9, 0.5], 3, "ucb"), 5)
        before = planner.to_json()
        with pytest.raises(InvalidInput, match="one outcome, 0 or 1, from every agent"):
            planner.tell(planner.ask(), outcomes)
        assert planner.to_json() == before

    def test_it_goes_where_the_assignments_index_is_highest(self):
        planner = Planner([0.5, 0.9], 3, "ucb", seed=2)
        seen = dict.fromkeys(itertools.permutations(range(3), 2), (0, 0))
        for r in range(1, 60):
            how = {"closed": [r % 3]} if r % 5 == 0 else {}
            plan = planner.ask(**how)
            t = max(1, r - 1)
            index = {
                f: y / c + math.sqrt(math.log(2 * t * 6 / 0.05) / (2 * c)) if c else math.inf
                for f, (c, y) in seen.items()
                if not set(f) & set(how.get("closed", ()))
            }  # eq:ucb_alg_ucb
            assert index[plan.assignment] == pytest.approx(max(index.values()), rel=1e-12)
            for a, n in itertools.product(range(2), range(3)):
                top = max((i for f, i in index.items() if f[a] == n), default=-math.inf)
                assert plan.index[a][n] == pytest.approx(top, rel=1e-12)
            for e in planner.explain(plan):
                a, n = int(e.agent[-1]) - 1, int(e.arm[-1]) - 1
                rest = max(i for f, i in index.items() if f[a] != n)
                assert e.runner_up != e.arm
                assert e.runner_up_index == pytest.approx(rest, rel=1e-12)
                assert e.flip_index == e.runner_up_index
            outcomes = [int(uniform(7, 0, r, n) < 0.3 * (n + 1)) for n in plan.assignment]
            planner.tell(plan, outcomes)
            c, y = seen[plan.assignment]
            seen[plan.assignment] = (c + 1, y + sum(outcomes))


def estimates(planner):
    """Min-Width's estimate and width of every arm, from the paper's equations.

    eq:muhat_t,n and eq:epsilon_t,n, with G counted as eq:G(T,A) defines it and exact sums.
    """
    A, N = planner.pulls.shape
    t = planner.elapsed if planner.policy.horizon == "anytime" else planner.policy.horizon
    G = sum(math.comb(i + A - 1, A - 1) for i in range(1, t + 1))
    s = [Fraction(x) for x in planner.sensitivities]
    found = []
    for n in range(N):
        V = sum(s[a] ** 2 * int(planner.pulls[a, n]) for a in range(A))
        W = sum(s[a] * int(planner.successes[a, n]) for a in range(A))
        if not V:
            found.append((0.5, math.inf))
            continue
        L = math.log(2 * N / planner.policy.delta) + math.log(G)
        found.append((float(W / V), math.sqrt(L / (2 * float(V)))))
    return found


@st.composite
def histories(draw, most=4, tests=30):
    """Sensitivities and tables as any history might have left them."""
    agents, arms = draw(sizes(most))
    s = draw(st.lists(st.floats(0.05, 1), min_size=agents, max_size=agents))
    pulls = [[draw(st.integers(0, tests)) for _ in range(arms)] for _ in range(agents)]
    successes = [[draw(st.integers(0, c)) for c in row] for row in pulls]
    return s, pulls, successes, draw(st.integers(1, 3 * tests))


class TestIntervals:
    @given(histories(), st.sampled_from([0.05, 0.4]), st.sampled_from(["anytime", 500]))
    def test_as_the_paper_has_them(self, history, delta, horizon):
        s, pulls, successes, rounds = history
        entry = policy("min-width", delta=delta, horizon=horizon)
        planner = with_tables(Planner(s, len(pulls[0]), entry), pulls, successes, rounds)
        known = planner.intervals("min-width")
        for n, (middle, width) in enumerate(estimates(planner)):
            assert known.estimate[n] == pytest.approx(min(1.0, middle), rel=1e-12)
            low, high = max(0.0, middle - width), min(1.0, middle + width)
            assert known.lower[n] == pytest.approx(min(1.0, low), rel=1e-9, abs=1e-12)
            assert known.upper[n] == pytest.approx(high, rel=1e-9, abs=1e-12)

    @given(histories(tests=100_000))
    def test_probabilities_that_contain_the_estimate(self, history):
        s, pulls, successes, rounds = history
        planner = with_tables(Planner(s, len(pulls[0])), pulls, successes, rounds)
        estimate, lower, upper = planner.intervals()
        for low, middle, high in zip(lower, estimate, upper, strict=True):
            assert 0.0 <= low <= middle <= high <= 1.0

    def test_when_more_succeeds_than_was_thought_possible(self):
        # The sensitivity was believed too low: the estimate W/V is beyond 1, and so is its interval.
        planner = Planner([0.5], 1)
        planner.tell(planner.ask(), [(1000, 1000)])
        estimate, lower, upper = (float(x[0]) for x in planner.intervals("min-width"))
        assert (estimate, upper) == (1.0, 1.0)
        assert 0.0 <= lower <= 1.0
        estimate, lower, upper = (float(x[0]) for x in planner.intervals())
        assert estimate == pytest.approx(1001 / 1002)  # the mean of 1001 mu^1000 on [0, 1]
        assert 0.98 < lower < estimate < upper == 1.0
        (explanation,) = planner.explain(planner.ask())
        assert explanation.lower <= explanation.estimate <= explanation.upper <= 1.0

    def test_nothing_is_known_of_an_arm_never_pulled(self):
        estimate, lower, upper = Planner([0.9], 2).intervals()
        assert (estimate.tolist(), lower.tolist(), upper.tolist()) == ([0.5] * 2, [0] * 2, [1] * 2)

    def test_they_shrink_with_pulls(self):
        planner = Planner([0.9, 0.7], 2)
        widths = []
        for r in range(6):
            planner.tell(planner.ask(), [(4 * 4**r, 10 * 4**r)] * 2)
            known = planner.intervals()
            widths.append(known.upper - known.lower)
        for wider, narrower in itertools.pairwise(widths):
            assert (narrower < wider).all()
        assert (widths[-1] < 0.1).all()


def explained(planner, plan):
    """The explanations by the number of the agent."""
    return {planner.agent_names.index(e.agent): e for e in planner.explain(plan)}


class TestExplaining:
    @given(histories(), st.sampled_from(["min-width", "min-ucb", "no-sharing", "greedy"]))
    def test_the_numbers_are_the_papers(self, history, name):
        s, pulls, successes, rounds = history
        agents, arms = len(pulls), len(pulls[0])
        planner = with_tables(Planner(s, arms, name), pulls, successes, rounds)
        plan = planner.ask()
        known, t = estimates(planner), planner.elapsed
        own = math.log(2 * agents * arms * t / 0.05)

        def own_index(a, n):  # eq:UCB_t,a,n
            c, y = pulls[a][n], successes[a][n]
            return (y / c + math.sqrt(own / (2 * c))) / s[a] if c else math.inf

        for a, e in explained(planner, plan).items():
            n = plan.assignment[a]
            assert e.arm == planner.arm_names[n]
            exact = reference.posterior_of(s, *(reference.column(x, n) for x in (pulls, successes)))
            assert e.estimate == pytest.approx(exact.mean, rel=1e-9)
            low, high = exact.interval(math.log(arms / 0.05))
            assert e.lower == pytest.approx(low, rel=1e-7, abs=1e-12)
            assert e.upper == pytest.approx(high, rel=1e-7)
            seen = sum(pulls[b][n] for b in range(agents))
            assert (e.pulls, e.own_pulls) == (seen, pulls[a][n])
            index = {
                "min-width": sum(known[n]),
                "min-ucb": min(own_index(b, n) for b in range(agents)),
                "no-sharing": own_index(a, n),
                "greedy": known[n][0] if seen else math.inf,
            }[name]
            assert e.index == plan.index[a][n] == pytest.approx(index, rel=1e-12)
            if e.runner_up is not None:
                other = planner.arm_names.index(e.runner_up)
                assert e.runner_up_index == plan.index[a][other]

    @settings(max_examples=150)
    @given(histories(), st.sampled_from(["min-width", "min-ucb", "no-sharing"]), st.data())
    def test_exploits_where_the_estimates_alone_would_send_it(self, history, name, data):
        s, pulls, successes, rounds = history
        pulls = [[c + 1 for c in row] for row in pulls]  # every arm is known to everyone
        successes = [[y // 2 for y in row] for row in successes]
        agents, arms = len(pulls), len(pulls[0])
        planner = with_tables(Planner(s, arms, name), pulls, successes, rounds)
        guess = [round(float(m), 9) for m in planner.intervals().estimate]
        assume(len(set(guess)) == arms)  # no arms that look alike
        how = data.draw(circumstances(agents, arms, pairs=False))
        plan = planner.ask(**how)
        present = sorted(set(range(agents)) - how["absent"], key=lambda a: (-s[a], a))
        free = sorted(set(range(arms)) - how["closed"], key=lambda n: -guess[n])
        greedy = dict(zip(present, free, strict=False))
        for a, e in explained(planner, plan).items():
            assert e.mode == ("exploit" if greedy[a] == plan.assignment[a] else "explore")

    def test_the_first_visit_explores(self):
        planner = Planner([0.9, 0.5], 3)
        for e in planner.explain(planner.ask()):
            assert e.mode == "explore"
            assert e.pulls == e.own_pulls == 0
            assert e.index == math.inf

    def test_greedy_always_exploits_what_it_has_seen(self):
        # More succeeds than the low sensitivities allow for: estimates are beyond 1.
        for seed in range(20):
            planner = Planner([0.3, 0.2], 3, "greedy", seed=seed)
            for _ in range(3):
                planner.tell(planner.ask(), [(9, 10), (7, 10)])
            for e in planner.explain(planner.ask()):
                assert e.mode == ("exploit" if e.pulls else "explore")

    @settings(max_examples=150)
    @given(sizes(5), st.booleans(), st.data())
    def test_in_turn_the_runner_up_is_the_best_that_was_free(self, size, shared, data):
        agents, arms = size
        s = data.draw(st.lists(st.floats(0.01, 1), min_size=agents, max_size=agents, unique=True))
        row = st.permutations([k / 8 for k in range(arms)])
        table = data.draw(row if shared else st.lists(row, min_size=agents, max_size=agents))
        how = data.draw(circumstances(agents, arms, pairs=False))
        planner = Planner(s, arms, fixed(table))
        plan = planner.ask(**how)
        full = [table] * agents if shared else table
        for a, e in explained(planner, plan).items():
            n = plan.assignment[a]
            taken = {plan.assignment[b] for b in range(agents) if s[b] > s[a]}
            free = set(range(arms)) - how["closed"] - taken - {n}
            if not free:
                assert (e.runner_up, e.runner_up_index, e.flip_index) == (None, None, None)
                continue
            other = max(free, key=lambda m: full[a][m])
            assert e.runner_up == planner.arm_names[other]
            assert e.runner_up_index == e.flip_index == full[a][other]
            for shift, goes in ((1e-6, n), (-1e-6, other)):
                changed = np.array(table, float)
                changed[n if shared else (a, n)] = e.flip_index + shift
                again = Planner(s, arms, fixed(changed)).ask(**how)
                assert again.assignment[a] == goes

    @pytest.mark.parametrize("shared", [False, True], ids=["per agent", "shared"])
    def test_with_pairs_the_flip_index_flips(self, shared):
        rng = np.random.default_rng(12)
        flipped = 0
        for _ in range(300):
            arms = int(rng.integers(2, 5))
            agents = int(rng.integers(1, arms + 1))
            s = rng.uniform(0.1, 1, agents).tolist()
            table = rng.uniform(0, 2, arms if shared else (agents, arms))
            pairs = list(itertools.product(range(agents), range(arms)))
            chosen = rng.permutation(len(pairs))[:3]
            how = {
                "forbidden": [pairs[i] for i in chosen[: rng.integers(1, 3)]],
                "forced": [pairs[i] for i in chosen[2:] if rng.random() < 0.3],
                "closed": [int(rng.integers(arms))] if rng.random() < 0.2 else [],
            }
            if contradictory(**how) or not list(every_allowed(agents, arms, **how)):
                continue
            planner = Planner(s, arms, fixed(table))
            plan = planner.ask(**how)
            for a, e in explained(planner, plan).items():
                n = plan.assignment[a]
                away = [f for f in every_allowed(agents, arms, **how) if f.get(a) != n]
                if not away or (a, n) in how["forced"]:
                    assert (e.runner_up, e.flip_index) == (None, None)
                    continue
                if not shared:  # no other agent's value hangs on this one's index
                    other = max(away, key=lambda f: value(f, table, s)).get(a)
                    assert e.runner_up == (None if other is None else planner.arm_names[other])
                if e.flip_index is None:
                    continue
                flipped += 1
                other = planner.arm_names.index(e.runner_up)
                beyond = math.copysign(1e-6, e.flip_index - e.index)
                for shift, goes in ((-beyond, n), (beyond, other)):
                    changed = table.copy()
                    changed[n if shared else (a, n)] = e.flip_index + shift
                    again = Planner(s, arms, fixed(changed)).ask(**how)
                    assert again.assignment[a] == goes, (s, table.tolist(), how, str(e))
        assert flipped > 200  # of some 320

    def test_without_another_arm_to_be_had(self):
        planner = Planner([0.9, 0.5], 2, fixed([1.0, 0.5]))
        first, last = planner.explain(planner.ask())
        assert (first.runner_up, first.flip_index) == ("arm 2", 0.5)
        assert (last.runner_up, last.runner_up_index, last.flip_index) == (None, None, None)
        assert "it could go nowhere else" in str(last)
        (forced, _) = planner.explain(planner.ask(forced=[(0, 1)]))
        assert forced.runner_up is None

    def test_who_stays_home_has_nothing_to_explain(self):
        planner = Planner([0.9, 0.5, 0.1], 3, agent_names=["x", "y", "z"])
        names = [e.agent for e in planner.explain(planner.ask(absent=["y"]))]
        assert names == ["x", "z"]

    @pytest.mark.parametrize("entry", [*PLANNED, *OWN], ids=labelled)
    def test_one_readable_line_each(self, entry):
        planner = Planner([0.8, 0.8, 0.4], ["a", "b", "c", "d"], entry, agent_names=["x", "y", "z"])
        ways = [{}, {"closed": ["d"]}, {"forbidden": [("x", "a")]}, {"forced": [("z", "a")]}]
        ways.append({"forbidden": [("x", "a"), ("x", "b"), ("y", "c")]})
        for r in range(16):
            plan = planner.ask(**ways[r % len(ways)])
            explanations = planner.explain(plan)
            assert len(explanations) == 3
            for e in explanations:
                assert isinstance(e, Explanation)
                text = str(e)
                assert len(text.splitlines()) == 1
                assert text.startswith(f"{e.agent} -> {e.arm} to {e.mode}")
                assert len(text) < 240
                assert "None" not in text
                assert "nan" not in text
                if e.pulls:
                    assert f"estimated {e.estimate:.3f} in [{e.lower:.3f}, {e.upper:.3f}]" in text
                    times = "1 pull" if e.pulls == 1 else f"{e.pulls} pulls"
                    assert f"from {times}, {e.own_pulls} its own" in text
                else:
                    assert "no pulls yet" in text
            planner.tell(plan, [int(uniform(3, 0, r, n) < 0.4) for n in plan.assignment])

    def test_two_who_are_alike_and_one_who_may_not(self):
        # No index of the arm would send the first agent on: the second would follow it there.
        planner = Planner([0.5, 0.5], 3, fixed([1.0, 0.9, 0.1]))
        plan = planner.ask(forbidden=[(0, 1)])
        assert plan.assignment == (0, 1)
        for e in planner.explain(plan):
            assert len(str(e).splitlines()) == 1
            assert "None" not in str(e)

    def test_arms_never_pulled_tie_with_pairs_too(self):
        planner = Planner([0.9, 0.5], 3, "min-width")
        for e in planner.explain(planner.ask(forbidden=[(0, 2)])):
            assert e.index == e.runner_up_index == e.flip_index == math.inf
            assert f"tied with {e.runner_up}, chance decided" in str(e)

    def test_a_tie_is_said(self):
        planner = Planner([0.9], 2, fixed([0.5, 0.5]))
        (e,) = planner.explain(planner.ask())
        assert e.flip_index == e.index == 0.5
        assert f"tied with {e.runner_up}, chance decided" in str(e)

    def test_the_plan_as_text(self):
        planner = Planner(
            [0.9, 0.5], ["a", "b", "c"], fixed([0.25, 1.5, 0.5]), agent_names=["x", "y"]
        )
        lines = str(planner.ask(absent=["y"])).splitlines()
        assert lines[0] == "round 1"
        assert lines[1].startswith("  x -> b: index 1.500")
        assert lines[2] == "  y -> stays home: absent"
        assert len(lines) == 3


class TestSaving:
    @pytest.mark.parametrize("entry", [*PLANNED, *OWN, policy("cucb", delta=0.2)], ids=labelled)
    def test_the_same_text_and_the_same_plans(self, entry):
        planner = Planner(
            [0.6, 0.9], ["a", 'b"\\\n', "ç\U0001f98f"], entry, seed=2**64 - 1, trial=7
        )
        for r in range(20):
            own = planner.policy if planner.policy.index is not None else None
            text = planner.to_json()
            again = Planner.from_json(text, own)
            assert again.to_json() == text
            assert again.policy == planner.policy
            plan = planner.ask()
            assert again.ask() == plan
            assert again.explain(plan) == planner.explain(plan)
            planner.tell(plan, [r % 2, int(r % 3 == 0)])
            again.tell(plan, [r % 2, int(r % 3 == 0)])
            assert again.to_json() == planner.to_json()
            planner = again

    def test_it_is_plain_json_with_the_tables(self):
        planner, _ = ready()
        state = json.loads(planner.to_json())
        assert state["pulls"] == planner.pulls.tolist()
        assert state["successes"] == planner.successes.tolist()
        assert state["rounds"] == 9

    def test_policies_made_with_numpy_numbers_can_be_saved(self):
        own = Policy("own", index=optimism, delta=np.float32(0.25), horizon=np.int64(9))
        planner = play(Planner([0.5, 0.4], 3, own), 3)
        again = Planner.from_json(planner.to_json(), own)
        assert again.ask() == planner.ask()

    def test_a_policy_of_ones_own_must_be_given_again(self):
        planner = play(Planner([0.5, 0.4], 3, OWN[0]), 5)
        with pytest.raises(InvalidInput, match="'optimism'"):
            Planner.from_json(planner.to_json())
        with pytest.raises(InvalidInput, match=r"'own optimism'.*saved with 'optimism'"):
            Planner.from_json(planner.to_json(), OWN[2])
        with pytest.raises(InvalidInput, match="saved with 'optimism'"):
            Planner.from_json(planner.to_json(), policy("min-width"))
        assert Planner.from_json(planner.to_json(), OWN[0]).ask() == planner.ask()

    @pytest.mark.parametrize("given", ["min-width", 5, ["min-width"]])
    def test_the_policy_given_is_a_policy(self, given):
        planner = Planner([0.5], 2)
        try:
            again = Planner.from_json(planner.to_json(), given)
        except InvalidInput as error:
            assert "policy" in str(error)  # noqa: PT017 - a name may be refused or understood
        else:
            assert again.policy.name == given == "min-width"

    @pytest.mark.parametrize("newer", [2, 3, 10**6])
    def test_what_a_newer_version_wrote(self, newer):
        state = json.loads(Planner([0.5], 2).to_json())
        state["heterobandits_planner"] = newer
        with pytest.raises(UnsupportedVersion, match=f"format {newer}: .* newer heterobandits"):
            Planner.from_json(json.dumps(state))
        # Whatever else a newer version may have changed.
        with pytest.raises(UnsupportedVersion):
            Planner.from_json(json.dumps({"heterobandits_planner": newer, "memory": {}}))

    @pytest.mark.parametrize("name", ["min-width", "ucb"])
    def test_every_part_is_needed(self, name):
        planner = play(Planner([0.5, 0.3], 3, name), 6)
        state = json.loads(planner.to_json())
        for key in state:
            rest = {k: v for k, v in state.items() if k != key}
            with pytest.raises(InvalidInput):
                Planner.from_json(json.dumps(rest))
        for key in state["policy"]:
            rest = {k: v for k, v in state["policy"].items() if k != key}
            with pytest.raises(InvalidInput):
                Planner.from_json(json.dumps(state | {"policy": rest}))

    @pytest.mark.parametrize(
        "damage",
        [
            {"heterobandits_planner": 0},
            {"heterobandits_planner": -1},
            {"heterobandits_planner": True},
            {"heterobandits_planner": "1"},
            {"heterobandits_planner": 1.5},
            {"heterobandits_planner": None},
            {"policy": None},
            {"policy": "min-width"},
            {"policy": []},
            {"policy": {"name": "min-with", "delta": 0.05, "horizon": "anytime"}},
            {"policy": {"name": "oracle", "delta": 0.05, "horizon": "anytime"}},
            {"policy": {"name": ["min-width"], "delta": 0.05, "horizon": "anytime"}},
            {"policy": {"name": "min-width", "delta": 5, "horizon": "anytime"}},
            {"policy": {"name": "min-width", "delta": 0.05, "horizon": "soon"}},
            {"seed": -1},
            {"seed": 0.5},
            {"seed": "0"},
            {"trial": None},
            {"agent_names": ["x"]},
            {"agent_names": ["x", "x"]},
            {"arm_names": ["a", "b"]},
            {"arm_names": "abc"},
            {"sensitivities": [0.5]},
            {"sensitivities": [0.5, math.nan]},
            {"sensitivities": [0.5, 0]},
            {"sensitivities": None},
            {"rounds": -1},
            {"rounds": 1.5},
            {"rounds": math.inf},
            {"rounds": None},
            {"rounds": True},
            {"pulls": None},
            {"pulls": 5},
            {"pulls": [[9, 9, 9]]},
            {"pulls": [[9, 9], [9, 9]]},
            {"pulls": [[9, 9, 9], [9, 9]]},
            {"pulls": [[9, 9, 9], [9, 9, -1]]},
            {"pulls": [[9, 9, 9], [9, 9, math.nan]]},
            {"pulls": [[9, 9, 9], [9, 9, math.inf]]},
            {"pulls": [[9, 9, 9], [9, 9, 1.5]]},
            {"pulls": [[9, 9, 9], [9, 9, "many"]]},
            {"pulls": [[9, 9, 9], [9, 9, None]]},
            {"pulls": [[9, 9, 9], [9, 9, 2**31]]},
            {"pulls": [[9, 9, 2**31 - 1], [9, 9, 1]]},
            {"pulls": [[9, 9, 9], [9, 9, 10**400]]},
            {"pulls": [[[9], [9], [9]], [[9], [9], [9]]]},
            {"pulls": [[0, 0, 0], [0, 0, 0]]},
            {"successes": [[99, 0, 0], [0, 0, 0]]},
            {"successes": [[0, 0, 0], [0, 0, -1]]},
            {"successes": [[0, 0, 0], [0, 0, 0.5]]},
            {"successes": [[0, 0, 0]]},
            {"successes": {}},
        ],
    )
    def test_damaged_states(self, damage):
        planner = play(Planner([0.5, 0.3], 3), 6)
        state = json.loads(planner.to_json())
        assert Planner.from_json(json.dumps(state)).to_json() == planner.to_json()
        with pytest.raises(InvalidInput):
            Planner.from_json(json.dumps(state | damage))

    @pytest.mark.parametrize(
        "damage",
        [
            None,
            5,
            "all",
            [5],
            [[]],
            [[[0, 1], 1]],
            [[[0, 1], 1, 1, 1]],
            [[[0], 1, 1]],
            [[[0, 0], 1, 1]],
            [[[0, 3], 1, 1]],
            [[[0, -1], 1, 1]],
            [[[0, 1], -1, 0]],
            [[[0, 1], 1, 3]],
            [[[0, 1], 1.5, 1]],
            [[[0, 1], 1, None]],
            [["ab", 1, 1]],
            # Not what the two tables say:
            [],
            [[[0, 1], 1, 1]],
        ],
    )
    def test_damaged_assignments(self, damage):
        planner = play(Planner([0.5, 0.3], 3, "ucb"), 6)
        state = json.loads(planner.to_json())
        with pytest.raises(InvalidInput):
            Planner.from_json(json.dumps(state | {"assignments": damage}))

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "null",
            "1",
            "[]",
            '"text"',
            "{}",
            "[" * 100_000,
            "not json",
            b"\xff\xfe",
            5,
            None,
            Problem([0.5], [0.5]).to_json(),
        ],
    )
    def test_other_things(self, text):
        with pytest.raises(InvalidInput, match="not a saved planner"):
            Planner.from_json(text)

    def test_a_text_cut_short(self):
        text = play(Planner([0.5, 0.3], 3, "ucb"), 3).to_json()
        for end in range(len(text)):
            with pytest.raises(InvalidInput):
                Planner.from_json(text[:end])


class Campaign(RuleBasedStateMachine):
    """Rounds under any circumstances, beside a ledger kept by hand."""

    @initialize(data=st.data(), entry=st.sampled_from([p for p in PLANNED if p != "ucb"] + OWN))
    def begin(self, data, entry):
        self.agents, self.arms = data.draw(sizes(5))
        s = data.draw(st.lists(st.floats(0.05, 1), min_size=self.agents, max_size=self.agents))
        self.planner = Planner(s, self.arms, entry, seed=data.draw(st.integers(0, 2**64 - 1)))
        self.ledger = []
        self.rounds = 0

    @rule(data=st.data())
    def round(self, data):
        how = data.draw(circumstances(self.agents, self.arms))
        allowed = next(every_allowed(self.agents, self.arms, **how), None)
        before = self.planner.to_json()
        if contradictory(**how) or allowed is None:
            with pytest.raises(InvalidInput):
                self.planner.ask(**how)
            assert self.planner.to_json() == before
            return
        plan = self.planner.ask(**how)
        taken = sent(plan)
        assert len(set(taken.values())) == len(taken)
        assert not how["absent"] & set(taken)
        assert not how["closed"] & set(taken.values())
        assert not how["forbidden"] & set(taken.items())
        assert how["forced"] <= set(taken.items())
        here, free = self.agents - len(how["absent"]), self.arms - len(how["closed"])
        assert len(taken) == min(here, free)
        assert len(self.planner.explain(plan)) == len(taken)
        assert len(str(plan).splitlines()) == 1 + self.agents
        outcomes = {}
        for a, n in taken.items():
            tests = data.draw(st.none() | st.integers(0, 5))
            if tests is None:
                continue
            hits = data.draw(st.integers(0, tests))
            plain = tests == 1 and data.draw(st.booleans())
            key = data.draw(st.sampled_from([a, f"agent {a + 1}", (a, n)]))
            outcomes[key] = hits if plain else (hits, tests)
            self.ledger.append((a, n, hits, tests))
        self.planner.tell(plan, outcomes)
        self.rounds += 1

    @rule()
    def restart(self):
        own = self.planner.policy if self.planner.policy.index is not None else None
        self.planner = Planner.from_json(self.planner.to_json(), own)

    @invariant()
    def the_tables_are_the_ledger(self):
        if not hasattr(self, "planner"):
            return
        pulls = np.zeros((self.agents, self.arms), int)
        successes = np.zeros_like(pulls)
        for a, n, k, tests in self.ledger:
            pulls[a, n] += tests
            successes[a, n] += k
        np.testing.assert_array_equal(self.planner.pulls, pulls)
        np.testing.assert_array_equal(self.planner.successes, successes)
        assert self.planner.rounds == self.rounds
        assert self.planner.elapsed == max(self.rounds, pulls.sum(axis=0).max())


TestCampaign = Campaign.TestCase
TestCampaign.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.builds(pow, st.just(10), st.just(5000))  # too long for Python to print
    | st.sampled_from([np.array(1), np.array([0, 1]), np.int8(1), 1j, "agent 1", 0, 1])
)
garbage = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.none() | st.integers(-1, 3) | st.text(max_size=2) | st.tuples(st.integers(0, 2)),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def works_or_refuses(call):
    """The result, or None where the input was refused with a message."""
    try:
        return call()
    except InvalidInput as error:
        assert str(error)  # noqa: PT017 - either outcome is right, but a refusal says why
        return None


class TestGarbage:
    @given(
        garbage | st.just([0.5]),
        garbage | st.just(3),
        garbage | st.just("min-width"),
        garbage | st.just(0),
        garbage | st.none(),
        garbage | st.just(0),
    )
    def test_making(self, s, arms, entry, seed, names, trial):
        if isinstance(arms, int) and arms > 10_000:
            arms %= 10_000
        made = works_or_refuses(
            lambda: Planner(s, arms, entry, seed, agent_names=names, trial=trial)
        )
        assert made is None or len(made.ask().assignment) == len(made.sensitivities)

    @settings(max_examples=200)
    @given(
        garbage | st.just(()), garbage | st.just(()), garbage | st.just(()), garbage | st.just(())
    )
    def test_asking(self, absent, closed, forbidden, forced):
        planner = Planner([0.9, 0.5], 3)
        how = {"absent": absent, "closed": closed, "forbidden": forbidden, "forced": forced}
        plan = works_or_refuses(lambda: planner.ask(**how))
        assert plan is None or isinstance(plan, Plan)

    @settings(max_examples=200)
    @given(garbage | st.lists(garbage, min_size=2, max_size=2))
    def test_telling(self, outcomes):
        planner = Planner([0.9, 0.5], 3)
        before = planner.to_json()
        works_or_refuses(lambda: planner.tell(planner.ask(), outcomes))
        assert planner.rounds == 1 or planner.to_json() == before
        assert (planner.successes <= planner.pulls).all()

    @given(garbage)
    def test_a_plan_that_is_none(self, plan):
        planner = Planner([0.9, 0.5], 3)
        assert works_or_refuses(lambda: planner.tell(plan, [1, 1])) is None
        assert works_or_refuses(lambda: planner.explain(plan)) is None
        assert planner.rounds == 0

    @pytest.mark.parametrize("assignment", [(9, 0), (-1, 0), (0,), (0, 1, 2), (0, 0), (0.5, 1)])
    def test_a_plan_that_was_tampered_with(self, assignment):
        planner = Planner([0.9, 0.5], 3)
        before = planner.to_json()
        plan = replace(planner.ask(), assignment=assignment)
        for use in (lambda: planner.tell(plan, [1, 1]), lambda: planner.explain(plan)):
            with pytest.raises(InvalidInput):
                use()
        assert planner.to_json() == before

    @settings(max_examples=200)
    @given(st.data())
    def test_loading(self, data):
        planner = play(Planner([0.5, 0.3], 3, data.draw(st.sampled_from(["ucb", "cucb"]))), 2)
        state = json.loads(planner.to_json())
        key = data.draw(st.sampled_from(sorted(state)))
        jsonable = st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=6,
        )
        state[key] = data.draw(jsonable)
        if key == "arm_names" and isinstance(state[key], int):
            state[key] %= 100
        again = works_or_refuses(lambda: Planner.from_json(json.dumps(state)))
        assert again is None or len(again.ask().assignment) == len(again.sensitivities)

    @given(garbage)
    def test_loading_anything(self, text):
        assert works_or_refuses(lambda: Planner.from_json(text)) is None
