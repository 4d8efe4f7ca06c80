"""One round at a time: making a planner, asking it, telling it, and the simulator's rounds."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from heterobandits import PAPER, InvalidInput, Planner, Problem, policy
from heterobandits.core.randomness import uniform
from heterobandits.inference import intervals
from heterobandits.simulation.engine import Learning, PolicyWorld
from planners import OWN, PLANNED, fixed, labelled, play, ready, with_tables

pytestmark = pytest.mark.smoke

MOST = 2**31 - 1


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
            ({"policy": "oracle"}, "oracle knows the true means: it can be simulated, not planned"),
            (
                {"policy": "ucb"},
                "ucb ranks whole assignments and needs every outcome of every round: it can be sim",
            ),
            ({"policy": None}, "unknown policy"),
            ({"seed": -1}, "seed is -1"),
            ({"seed": 2**64}, "seed is 18446744073709551616"),
            ({"seed": 0.5}, "seed is 0.5"),
            ({"trial": -1}, "trial is -1"),
            ({"agent_names": ["a"]}, "agent_names has 1 names"),
            ({"agent_names": ["a", "a"]}, r"agent_names\[1\]"),
            ({"pulls": [[1, 1, 1]] * 2}, "pulls without successes: give both tables or neither"),
            ({"successes": [[1, 1, 1]] * 2}, "successes without pulls"),
            ({"pulls": [[1, 1]] * 2, "successes": [[1, 1]] * 2}, "pulls has the shape"),
            ({"pulls": [[1] * 3] * 2, "successes": [[1, 1, 2]] * 2}, "at most the 1 pulls"),
            (
                {"pulls": [[1] * 3] * 2, "successes": [[0, -5, 0]] * 2},
                r"successes\[0\]\[1\] is -5: a table of whole numbers from 0",
            ),
            ({"rounds": -1}, "rounds is -1"),
            ({"rounds": 1.5}, "rounds is 1.5"),
            ({"left": 1}, "left is 1: a list of agents"),
            ({"left": ["Bo"]}, "unknown agent 'Bo'"),
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
    @pytest.mark.slow
    @pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
    @pytest.mark.parametrize(
        "entry", [*PLANNED, *OWN, policy("min-width", delta=0.3, horizon=200)], ids=labelled
    )
    def test_planner_and_simulator_agree_in_every_round(self, problem, entry):
        seed, trial, rounds = 2**40 + 3, 2**33 + 1, 40
        entry = policy(entry)
        learning = Learning(PolicyWorld(problem, entry), seed, trial, 1)
        planner = Planner(problem.believed, problem.arms, entry, seed, trial=trial)
        for r in range(1, rounds + 1):
            plan = planner.ask()
            outcomes = [
                int(uniform(seed, trial, r, n) < s * problem.means[n])
                for s, n in zip(problem.sensitivities, plan.assignment, strict=True)
            ]
            planner.tell(plan, outcomes)
            learning.advance(1)
            np.testing.assert_array_equal(planner.pulls, learning.pulls[:, :, 0])
            np.testing.assert_array_equal(planner.successes, learning.successes[:, :, 0])

    @pytest.mark.parametrize("s", [1.0, 0.9, 0.37])
    def test_with_one_agent_the_papers_policies_are_one(self, s):
        planners = [Planner([s], 4, name, seed=8) for name in PAPER if name in PLANNED]
        for r in range(1, 150):
            plans = [planner.ask() for planner in planners]
            assert {plan.assignment for plan in plans} == {plans[0].assignment}
            (n,) = plans[0].assignment
            for planner, plan in zip(planners, plans, strict=True):
                planner.tell(plan, [int(uniform(8, 0, r, n) < s * (0.2 + n / 6))])


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
            (lambda f: [1.0, 0.0, math.nan], [(1, 1), (0, 1)]),
            (lambda f: np.array([1.0, math.nan, math.nan]), [(1, 1), (0, 0)]),
            (lambda f: np.array([1, 0, math.nan], np.float32), [(1, 1), (0, 1)]),
            (lambda f: {"x": np.float64(1.0), "y": np.nan, "z": np.nan}, [(1, 1), (0, 0)]),
            (lambda f: {"x": (3.0, np.float64(12.0)), "y": (np.int64(0), 7)}, [(3, 12), (0, 7)]),
            (lambda f: pd.Series([0.0, 1.0], ["y", "x"]), [(1, 1), (0, 1)]),
            (lambda f: pd.Series([1, 0, None], list("xyz"), dtype="Int64"), [(1, 1), (0, 1)]),
            (
                lambda f: pd.Series([True, False, None], list("xyz"), dtype="boolean"),
                [(1, 1), (0, 1)],
            ),
            (lambda f: dict(zip("xyz", pd.Series([1, 0, None]), strict=True)), [(1, 1), (0, 1)]),
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
            (lambda f: [1, math.inf, None], "outcome of 'y' is inf"),
            (lambda f: [(3, math.nan), 0, None], "tests of 'x' is nan"),
            (lambda f: [(2.5, 3.0), 0, None], "successes of 'x' is 2.5"),
            (lambda f: [1, np.float64(2.0), None], "outcome of 'y' is .*2.0"),
            (lambda f: [1, 0, 0.0], "0.0 for 'z': the plan sent it nowhere"),
            (lambda f: pd.Series([1, 0, 1], ["x", "y", "x"]), "outcomes has 'x' twice"),
            (lambda f: pd.Series([1, 0, 1]), "row numbers do not say whose is whose"),
            (lambda f: pd.DataFrame({"who": ["z"], "found": [1]})["found"], "index has 0"),
            (lambda f: dict, "one per agent, or a mapping"),
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
            (lambda f: {"x": 1, 3: 0}, "number of an agent is 3: .*from 0, 'x', to 2, 'z'"),
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
        planner, _ = ready()
        further, _ = ready()
        further = play(further, 2)
        before = planner.to_json()
        plan = further.ask()
        for use in (planner.accept, planner.explain, lambda plan: planner.tell(plan, {})):
            with pytest.raises(
                InvalidInput, match="round 12 is not fixed: rounds 1 to 9 are; round 10 is next"
            ):
                use(plan)
        assert planner.to_json() == before
        early = Planner([0.9, 0.5, 0.3], planner.arm_names, agent_names=planner.agent_names).ask()
        later = with_tables(planner, planner.pulls, planner.successes, 9)
        with pytest.raises(
            InvalidInput, match="round 1 is not fixed: none is yet; round 10 is next"
        ):
            later.tell(early, {})

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
        for use in (planner.accept, planner.explain, lambda plan: planner.tell(plan, {})):
            with pytest.raises(InvalidInput, match="another planner"):
                use(plan)
        assert planner.to_json() == before

    @pytest.mark.parametrize("plan", [None, 1.0, True, "plan", {}, (0, 1, 2)])
    def test_what_is_no_plan(self, plan):
        planner, _ = ready()
        before = planner.to_json()
        for use in (
            planner.accept,
            planner.explain,
            lambda plan: planner.tell(plan, [1, 1, 1]),
            lambda plan: planner.correct(plan, [1, 1, 1]),
        ):
            with pytest.raises(InvalidInput, match=r"plan is .*: a Plan"):
                use(plan)
        for use in (planner.accept, planner.explain):
            with pytest.raises(InvalidInput, match="plan is 1: a Plan"):
                use(1)
        assert planner.to_json() == before

    def test_one_report_never_leaves_no_room_for_others(self):
        planner = Planner([0.9, 0.5], 2, fixed([1.0, 0.5]), agent_names=["Ana", "Ben"])
        plan, before = planner.ask(), planner.to_json()
        for tests in (1_000_001, MOST):
            with pytest.raises(
                InvalidInput, match=f"tests of 'Ana' are {tests:,}: at most 1,000,000"
            ):
                planner.tell(plan, [(5, tests), 1])
        assert planner.to_json() == before
        planner.tell(plan, [(5, 1_000_000), 1])
        with pytest.raises(InvalidInput, match="at most 1,000,000"):
            planner.correct(1, {"Ben": (0, MOST)})
        planner.tell(planner.ask(), [1, 1])
        assert planner.pulls[0, 0] == 1_000_001

    def test_more_pulls_than_can_be_counted(self):
        known = {"pulls": [[MOST - 1, 0], [0, 0]], "successes": [[5, 0], [0, 0]]}
        planner = Planner([0.9, 0.5], 2, fixed([1.0, 0.5]), **known)
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
        assert planner.rounds == 2

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


class TestReading:
    def made(self):
        planner = Planner([0.9, 0.5], ["north", "the swamp"], agent_names=["Ana", "Bo"], seed=1)
        planner.tell(planner.ask(forced=[("Ana", "north")]), {"Ana": (3, 12), "Bo": 1})
        planner.accept(planner.ask(absent=["Bo"], closed=["the swamp"]))
        return planner

    def test_the_planner_in_one_line(self):
        assert repr(self.made()) == (
            "<Planner: 2 agents, 2 arms, posterior-sorted, seed 1, 2 rounds, 1 waiting>"
        )
        assert (
            repr(Planner([0.5], 1, "cucb")) == "<Planner: 1 agent, 1 arm, cucb, seed 0, 0 rounds>"
        )

    def test_the_planner_as_a_table(self):
        planner = self.made()
        planner.leave("Bo")
        assert [line.split() for line in str(planner).splitlines()] == [
            repr(planner)[1:-1].split(),
            ["agent", "sensitivity", "pulls", "successes"],
            ["Ana", "0.9", "12", "3"],
            ["Bo", "(left)", "0.5", "1", "1"],
            ["arm", "pulls", "successes"],
            ["north", "12", "3"],
            ["the", "swamp", "1", "1"],
            ["round", "2", "waits", "for", "Ana"],
        ]
        assert len({len(line) for line in str(planner).splitlines()[1:4]}) == 1

    def test_long_tables_are_cut(self):
        text = str(Planner([0.5] * 40, 500))
        assert len(text.splitlines()) < 60
        assert "... and 480 more" in text

    def test_intervals_with_names(self):
        planner = self.made()
        known = planner.intervals()
        assert known.arm_names == planner.arm_names
        lines = str(known).splitlines()
        assert lines[0].split() == ["arm", "estimate", "lower", "upper"]
        for n, name in enumerate(planner.arm_names):
            estimate, lower, upper = (1000 * float(x[n]) for x in known)
            outward = (estimate, math.floor(lower + 1e-9), math.ceil(upper - 1e-9))
            numbers = [f"{x / 1000:.3f}" for x in outward]
            assert lines[n + 1].split() == [*name.split(), *numbers]
            assert f"{name}: {numbers[0]} in [{numbers[1]}, {numbers[2]}]" in repr(known)
        assert "\n" not in repr(known)
        estimate, lower, upper = known  # still three arrays
        assert (lower <= estimate).all()
        assert (estimate <= upper).all()

    def test_the_ranking_with_names(self):
        planner = Planner(
            [0.9], ["a", "b", "c"], pulls=[[400, 400, 400]], successes=[[40, 60, 300]], rounds=1200
        )
        known = planner.ranking()
        assert known.arm_names == ("a", "b", "c")
        assert known.best.tolist() == [2, 2, 1]
        assert [line.split() for line in str(known).splitlines()] == [
            ["arm", "rank", "certainly", "above"],
            ["a", "2", "to", "3", "-"],
            ["b", "2", "to", "3", "-"],
            ["c", "1", "a,", "b"],
        ]
        assert repr(known) == "<Ranking: a 2 to 3, b 2 to 3, c 1>"


class TestPlansOfOthers:
    """A plan is what its circumstances allow, whoever made or altered it."""

    @pytest.mark.parametrize(
        ("how", "assignment", "culprit"),
        [
            ({"closed": ["a"]}, (0, 1), "sends 'x' to 'a', which is closed"),
            ({"absent": ["y"]}, (0, 1), "sends 'y' to 'b', who is absent"),
            ({"forbidden": ("x", "c")}, (2, 1), "sends 'x' to 'c', a pair that is forbidden"),
            ({"forced": ("x", "c")}, (0, 2), "does not send 'x' to 'c', a pair forced"),
        ],
    )
    def test_one_against_its_circumstances_is_refused(self, how, assignment, culprit):
        planner = Planner([0.9, 0.6], ["a", "b", "c"], agent_names=["x", "y"])
        plan = replace(planner.ask(**how), assignment=assignment)
        for use in (planner.accept, lambda plan: planner.tell(plan, [1, 1])):
            with pytest.raises(InvalidInput, match=culprit):
                use(plan)
        assert planner.rounds == 0
        planner.accept(planner.ask(**how))
        saved = json.loads(planner.to_json())
        saved["history"][0]["assignment"] = list(assignment)
        with pytest.raises(InvalidInput, match=culprit):
            Planner.from_json(json.dumps(saved))

    def test_one_that_goes_elsewhere_but_nowhere_forbidden_is_taken(self):
        planner = Planner([0.9, 0.6], ["a", "b", "c"])
        planner.accept(replace(planner.ask(closed=["a"]), assignment=(2, 1)))
        assert planner.history[0].assignment == (2, 1)


@pytest.mark.parametrize("given", [["north", "north "], ["north", "no\u200brth"], ["a  b", "a b"]])
def test_names_that_look_alike_are_not_two(given):
    with pytest.raises(InvalidInput, match=r"\[1\] is .*: names must differ from each other"):
        Planner([0.9], given)


def test_blanks_around_a_name_do_not_count():
    planner = Planner([0.9], [" north", "south "])
    assert planner.arm_names == ("north", "south")
    assert planner.ask(closed=["north "]).assignment == (1,)


def test_a_joiner_in_an_emoji_or_a_word_stays():
    """The characters of no width that some scripts need are kept; they alone make no other name."""
    family = "\U0001f469\u200d\U0001f33e"
    assert Planner([0.9], [family, "\u0645\u06cc\u200c\u062e"]).arm_names[0] == family


@pytest.mark.parametrize("method", [np.array(["min-width"]), None, "none", ["min-width"]])
def test_a_method_that_is_none(method):
    with pytest.raises(InvalidInput, match="method is"):
        Planner([0.9], 2).intervals(method)


def test_of_very_many_arms_no_order_is_said():
    planner = Planner([0.9], intervals.RANKING_MAX_ARMS + 1)
    plan = planner.ask()
    (explanation,) = planner.explain(plan)
    assert (explanation.best_rank, explanation.worst_rank) == (1, intervals.RANKING_MAX_ARMS + 1)
    with pytest.raises(InvalidInput, match="there are 2,001 arms"):
        planner.ranking()


def test_what_is_shown_of_a_team_that_shrank_and_waits():
    planner = Planner([0.9, 0.6, 0.5], ["a", "b", "c"], agent_names=["x", "y", "z"])
    planner.accept(planner.ask())
    assert "round 1 waits for x, y, z" in str(planner)
    planner.leave("y")
    assert repr(planner).startswith("<Planner: 2 agents, 3 arms")


@pytest.mark.parametrize("delta", [0.001, 0.4])
def test_the_ranking_is_as_certain_as_the_policy(delta):
    tables = {"pulls": [[12, 12]], "successes": [[9, 1]]}
    planner = Planner([0.9], 2, policy("posterior-sorted", delta=delta), **tables)
    wanted = intervals.ranking(*tables.values(), [0.9], delta=delta)
    assert planner.ranking().above.tolist() == wanted.above.tolist()
    assert wanted.above.any() == (delta == 0.4)  # the evidence is exp(3.47)
