"""Policies that forget: their tables, their indices, their trials, and what is proven of them."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from heterobandits import Changes, InvalidInput, Planner, Problem, policy, simulate
from heterobandits.core import rounds
from heterobandits.inference.intervals import Posteriors, mean_threshold
from heterobandits.model.team import Team
from heterobandits.planner.knowledge import Knowledge, Visit, recall_tables
from heterobandits.policies.policy import CATALOGUE, forgetting_policies
from heterobandits.simulation.engine import Learning, PolicyWorld
from heterobandits.simulation.results import Results
from heterobandits.testing import check_one_path
from small_runs import assert_parts_are_the_whole

NAMES = tuple(reference.FORGETS)
MEANS, S = [0.2, 0.7, 0.4], [0.9, 0.5]
MOVING = Changes([(8, [0.9, 0.1, 0.2]), (21, [0.1, 0.3, 0.8])])


def test_these_are_all():
    assert forgetting_policies() == NAMES
    assert all(CATALOGUE[name].origin == "forgetting" for name in NAMES)


class TestTrials:
    @pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("window")])
    def test_a_window_as_long_as_the_season_forgets_nothing(self, name):
        base, _ = reference.FORGETS[name]
        problem = Problem(MEANS, S)
        results = simulate(problem, [base, policy(name, memory=50)], 50, 60, seed=4, keep="all")
        np.testing.assert_array_equal(results.kept[0], results.kept[1])
        shorter = simulate(problem, policy(name, memory=20), 50, 60, seed=4, keep="all").kept
        assert np.array_equal(shorter[0, :12], results.kept[0, :12])
        assert not np.array_equal(shorter[0], results.kept[0])

    @pytest.mark.parametrize("name", NAMES)
    def test_threads_blocks_shards_and_calls_change_no_bit(self, name, monkeypatch):
        problem = Problem(MEANS, S, drift=MOVING)
        assert_parts_are_the_whole(monkeypatch, problem, policy(name, memory=6), 40, 200)

    @pytest.mark.parametrize("name", NAMES)
    def test_planner_and_simulator_walk_one_path(self, name):
        check_one_path(policy(name, memory=5))

    def test_all_of_them_are_played_by_one_kernel_more(self):
        """Compiled for tables of whole numbers and for those that fade, and for nothing else."""
        simulate(Problem(MEANS, S), [*NAMES, "min-width", "posterior-sorted"], 3, 2)
        assert len(rounds.play_trials.signatures) <= 2
        window, discounted = (CATALOGUE[f"min-width-{how}"] for how in ("window", "discounted"))
        assert window.rule.fill is discounted.rule.fill
        assert len(window.rule.fill.dispatcher.signatures) == 1

    def test_forgetting_pays_where_places_change(self):
        """Best and worst arm change places; the differences are many standard errors."""
        problem = Problem([0.1, 0.3, 0.5], [0.9, 0.6], drift=Changes([(501, [0.5, 0.3, 0.1])]))
        results = simulate(problem, ["posterior-sorted", "posterior-sorted-discounted"], 1000, 200)
        gain = results.difference("posterior-sorted", "posterior-sorted-discounted", level=1 - 1e-6)
        assert gain.upper[14] < 0 < gain.lower[-1]


class TestTables:
    @settings(max_examples=50)
    @given(st.data())
    def test_every_visit_counts_for_what_its_age_says(self, data):
        memory = data.draw(st.integers(2, 9))
        rounds = data.draw(st.integers(0, 20))
        tests = st.integers(0, 5)
        visits = [
            [
                Visit(r + 1, a, n, data.draw(st.integers(0, m)), m)
                for a, n in ((0, 1), (1, r % 3))
                if (m := data.draw(tests))
            ]
            for r in range(rounds)
        ]
        start = Knowledge.of(
            2, 3, pulls=[[3, 0, 0], [0, 2, 0]], successes=[[1, 0, 0], [0, 2, 0]], rounds=4
        )
        for how in ("window", "discount"):
            window, fade = (memory, 1.0) if how == "window" else (0, 1 - 1 / memory)
            got = recall_tables(start, visits, window=window, fade=fade)
            wanted = np.array([start.pulls, start.successes]) * float(
                reference.weight(how, memory, rounds)
            )
            for r, some in enumerate(visits):
                for v in some:
                    share = float(reference.weight(how, memory, rounds - 1 - r))
                    wanted[:, v.agent, v.arm] += np.array([v.tests, v.successes]) * share
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-300)

    @pytest.mark.parametrize("s", [1.0, 0.7])
    def test_the_posterior_of_parts_of_outcomes(self, s):
        """Powers that are not whole are no polynomials: as docs/model.md (18) says, the quadrature is right to 0.002 in ln Z."""
        parts = [0.01, 0.1, 0.2, 0.5, 1.5, 2.25, 17.3, 40.7]
        cases = list(itertools.product(parts, parts))
        y, f = np.array(cases).T
        known = Posteriors.of(Team([s]), (y + f)[None], y[None])
        for i, (hits, failures) in enumerate(cases):
            exact = reference.Posterior(hits, [(s, failures)])
            assert known.log_evidence[i] == pytest.approx(exact.log_evidence, abs=0.002)
            assert known.mean[i] == pytest.approx(exact.mean, abs=1e-4)

    def test_the_two_tables_of_learning_stay_whole(self):
        planner = Planner(S, 3, policy("posterior-sorted-window", memory=2))
        for _ in range(5):
            planner.tell(planner.ask(), [1, 0])
        assert planner.pulls.sum() == 10
        assert planner.successes.sum() == 5


class TestPlanner:
    def played(self, name, rounds=6, **how):
        planner = Planner(S, ["a", "b", "c"], policy(name, memory=3), agent_names=["x", "y"], **how)
        for i in range(rounds):
            planner.tell(planner.ask(closed=["c"] if i > 1 else []), [i % 2, 1])
        return planner

    @pytest.mark.parametrize("name", NAMES)
    def test_intervals_are_of_what_is_recalled(self, name):
        """A window by hand, against a planner that began with these tables."""
        planner = self.played(name)
        if name.endswith("discounted"):
            team = planner._team
            pulls, successes = planner._folded(7).tables
            posteriors = Posteriors.of(team, pulls, successes)
            hits = successes.sum(axis=0)
            failures = [(0.5, pulls[1] - successes[1]), (0.9, pulls[0] - successes[0])]
            for n in range(3):
                known = reference.Posterior(hits[n], [(s, f[n]) for s, f in failures])
                got = [float(column[n]) for column in planner.intervals()]
                assert got == pytest.approx(
                    [known.mean, *known.interval(math.log(3 / 0.05))], abs=1e-8
                )
                assert posteriors.log_evidence[n] == pytest.approx(known.log_evidence, abs=1e-9)
            return
        visits = [v for r in planner.history[-3:] for v in r.visits]
        known = Knowledge.of(2, 3, visits, rounds=0)
        other = Planner(S, 3, pulls=known.pulls, successes=known.successes)
        np.testing.assert_allclose(planner.intervals(), other.intervals(), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(planner.ranking().above, other.ranking().above)

    @pytest.mark.parametrize("method", ["min-width", "mixture-width"])
    def test_other_intervals_are_refused(self, method):
        with pytest.raises(InvalidInput, match=f"{method}'s intervals need all that was seen"):
            self.played("min-width-window").intervals(method)

    def test_what_was_forgotten_is_said(self):
        planner = self.played("posterior-sorted-window")
        plan = planner.ask()
        agent = plan.assignment.index(2)
        assert plan.reasons[agent].code == "forgotten"
        assert "forgotten" in str(plan)
        assert planner.explain(plan)

    @pytest.mark.parametrize("name", NAMES)
    def test_a_saved_planner_goes_on_alike(self, name):
        planner = self.played(name)
        again = Planner.from_json(planner.to_json())
        assert again.policy == planner.policy
        assert again.policy.memory == 3
        assert again.ask() == planner.ask()

    def test_late_outcomes_belong_to_their_round(self):
        planner = Planner(S, 3, policy("min-width-discounted", memory=4))
        first = planner.ask()
        planner.accept(first)
        second = planner.ask()
        planner.tell(second, [1, 1])
        planner.tell(first, [1, 0])
        prompt = Planner(S, 3, policy("min-width-discounted", memory=4))
        prompt.tell(first, [1, 0])
        prompt.tell(second, [1, 1])
        assert planner.ask().index == prompt.ask().index


class TestParameters:
    def test_label_parameters_and_pickles(self):
        entry = policy("min-width-window", memory=7)
        assert entry.label == "min-width-window(memory=7)"
        assert entry.parameters["memory"] == 7
        assert policy("min-width-window").label == "min-width-window"
        assert policy("min-width-window").memory == 300
        assert "memory" not in policy("min-width").parameters
        import pickle

        assert pickle.loads(pickle.dumps(entry)).memory == 7

    @pytest.mark.parametrize("memory", [1, 0, -3, 2.5, "x", 10**6, True])
    def test_what_memory_may_be(self, memory):
        with pytest.raises(InvalidInput, match="a policy's memory is"):
            policy("min-width-window", memory=memory)

    def test_who_forgets_nothing_has_none(self):
        with pytest.raises(InvalidInput, match="min-width forgets nothing, min-width-window and"):
            policy("min-width", memory=7)

    def test_long_windows_are_played_in_narrow_blocks(self):
        world = PolicyWorld(
            Problem([0.5] * 20, [0.5] * 20), policy("min-width-window", memory=100_000)
        )
        assert world.lanes == 16

    def test_results_are_read_back(self, tmp_path):
        results = simulate(Problem(MEANS, S), policy("min-width-window", memory=7), 20, 5)
        assert Results.from_json(results.to_json()).parameters == results.parameters


class TestCommandLine:
    HOW = ("simulate", "--problem", "covid", "--trials", "20", "-q", "--format", "json")

    def test_memory_is_for_those_who_forget(self, called):
        both = ("--policy", "min-width", "--policy", "min-width-window", "--memory", "9")
        code, out, _ = called(*self.HOW, *both)
        assert code == 0
        labels = [row["policy"] for row in json.loads(out)["results"]]
        assert labels == ["min-width", "min-width-window(memory=9)"]

    def test_nobody_forgets(self, called):
        code, _, err = called(*self.HOW, "--memory", "9")
        assert code == 2
        assert "--memory is for policies that forget, min-width-window" in err

    def test_the_catalogue_says_what_they_are_for(self, called):
        assert "min-width-window (for places that change)" in called("policies")[1]


class TestProven:
    """docs/model.md (17), (18): in any one round, if no mean changes, all intervals hold with probability 1 - delta."""

    @pytest.mark.parametrize("name", NAMES[2:])
    def test_intervals_hold_in_any_one_round(self, name, seed):
        """2,000 trials at each of four rounds; a share over 0.2 + 5.5 standard errors has a chance below 1e-6 in all."""
        delta, trials = 0.2, 2000
        problem = Problem([0.05, 0.6, 0.9], [1.0, 0.6])
        entry = policy(name, delta=delta, memory=15)
        learning = Learning(PolicyWorld(problem, entry), seed, 0, trials)
        means = np.repeat(problem.means, trials)
        for _ in range(4):
            learning.advance(20)
            tables = (t.reshape(2, -1) for t in (learning.block.C, learning.block.Y))
            known = Posteriors.of(problem.team, *tables)
            excess = known.log_evidence - known.log_likelihood(means)
            failed = (excess > mean_threshold(3, delta)).reshape(3, trials).any(axis=0).mean()
            assert failed <= delta + 5.5 * math.sqrt(delta * (1 - delta) / trials)

    def test_the_power_of_a_likelihood_ratio_is_at_most_one_on_average(self):
        """What (18) rests on, in fractions: E[(q/p)^w] <= 1 for w in [0, 1]; here for all p, q of a grid."""
        grid = [Fraction(k, 10) for k in range(1, 10)]
        for p, q in itertools.product(grid, grid):
            for w in (0.0, 0.25, 0.5, 0.9, 1.0):
                average = (
                    float(p) * float(q / p) ** w + float(1 - p) * float((1 - q) / (1 - p)) ** w
                )
                assert average <= 1 + 1e-12


class TestFoundByAStranger:
    def test_a_window_counts_the_tests_that_it_has(self):
        """docs/model.md (17): the union bound needs t to be at least the pulls of any arm in the window."""
        planner = Planner([0.9], ["a", "b"], policy("min-width-window", memory=2))
        for i in range(6):
            planner.tell(planner.ask(forced=[(0, i % 2)]), [(500, 1000)])
        index = planner.ask().index[0]
        wanted = 500 / 900 + math.sqrt(math.log(2 * 2 * 1000 / 0.05) / (2 * 0.81 * 1000))
        assert index == pytest.approx((wanted, wanted), rel=1e-12)

    def test_explanations_are_of_what_is_recalled(self):
        entry = policy("posterior-sorted-window", memory=10)
        planner = Planner(
            S, 3, entry, pulls=[[300] * 3] * 2, successes=[[200, 10, 5], [100, 6, 5]], rounds=900
        )
        for _ in range(10):
            planner.tell(planner.ask(closed=[1]), [1, 0])
        told = {e.arm: e for e in planner.explain(planner.ask(closed=[0]))}
        assert (told["arm 2"].pulls, told["arm 2"].own_pulls, told["arm 2"].mode) == (
            0,
            0,
            "explore",
        )
        assert "no pulls left; not pulled for so long" in str(told["arm 2"])
        assert told["arm 3"].pulls == 10
