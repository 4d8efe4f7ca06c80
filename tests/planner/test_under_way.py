"""Visits under way: plans count them with what is expected of them, what is certain does not, and reasons say so."""

import json
from functools import partial

import numpy as np
import pytest

from heterobandits import Planner, Policy, policy
from heterobandits.core.randomness import round_words
from heterobandits.inference.beliefs import Beliefs
from heterobandits.inference.expectations import expected_tables, posterior_means
from heterobandits.inference.intervals import Posteriors
from heterobandits.model.prior import parse_prior
from heterobandits.model.team import Team
from planners import OWN, PLANNED, labelled, play

NAMES = {"agent_names": ["Zoë", "Max", "Ana"]}
LEARNING = [entry for entry in [*PLANNED, *OWN] if policy(entry).learns]


def waiting(entry="min-width", arms=8, told=0, **given):
    """A planner after a round that was told, of which one visit is missing, and one that was not told at all."""
    planner = Planner([0.9, 0.5, 0.8], arms, entry, seed=3, **NAMES | given)
    play(planner, told)
    plan = planner.ask()
    planner.tell(plan, [1, 0, None])
    planner.accept(planner.ask())
    return planner


class TestTables:
    def test_of_a_perfect_agent_the_posterior_is_a_beta(self):
        """(1 + successes) / (2 + pulls)"""
        pulls, successes = (np.array([row], float)[:, :, None] for row in ([4, 0, 9], [3, 0, 2]))
        under_way = np.array([[2.0, 1.0, 0.0]])[:, :, None]
        made = expected_tables(Team([1.0]), pulls, successes, under_way)
        assert made[0].ravel().tolist() == [6.0, 1.0, 9.0]
        np.testing.assert_allclose(made[1].ravel(), [3 + 2 * 4 / 6, 0.5, 2.0], rtol=1e-12)

    def test_agents_report_what_is_true_of_them(self):
        team = Team([0.8, 0.6], false_positive_rates=[0.1, 0.0], tests=[3, 1])
        pulls, successes = np.array([[5, 0], [2, 1]]), np.array([[2, 0], [1, 1]])
        under_way = np.array([[3.0, 0.0], [1.0, 0.0]])
        mean = Posteriors.of(team, pulls, successes).mean
        made = expected_tables(team, *(t[:, :, None] for t in (pulls, successes, under_way)))
        assert made[0][:, :, 0].tolist() == [[8, 0], [3, 1]]
        wanted = [[2 + 3 * (0.1 + 0.7 * mean[0]), 0], [1 + 0.6 * mean[0], 1]]
        np.testing.assert_allclose(made[1][:, :, 0], wanted, rtol=1e-14)

    @pytest.mark.parametrize("given", [(1, 9), [(2, 3), None, (1, 9)], "learned"])
    def test_means_are_those_of_the_prior(self, given):
        team, prior = Team([0.9, 0.5]), parse_prior(given, 3)
        rng = np.random.default_rng(1)
        pulls = rng.integers(0, 9, (2, 3, 4))
        successes = rng.binomial(pulls, 0.2)
        made = posterior_means(team, pulls, successes, prior)
        for lane in range(4):
            alone = Beliefs.of(team, pulls[:, :, lane], successes[:, :, lane], prior).mean
            assert made[:, lane].tolist() == alone.tolist()
        none = np.zeros((2, 3, 1))
        if given == (1, 9):
            np.testing.assert_allclose(posterior_means(team, none, none, prior), 0.1, rtol=1e-3)

    def test_trials_side_by_side_change_nothing(self):
        team = Team([0.9, 0.5], false_positive_rates=[0.1, 0.0])
        rng = np.random.default_rng(1)
        pulls = rng.integers(0, 30, (2, 5, 33))
        successes = rng.binomial(pulls, 0.4)
        together = posterior_means(team, pulls, successes)
        for lane in range(33):
            alone = posterior_means(team, *(t[:, :, lane : lane + 1] for t in (pulls, successes)))
            assert alone.tobytes() == together[:, lane : lane + 1].tobytes()


class TestPlans:
    @pytest.mark.parametrize("prior", [None, (1, 9), "learned"])
    @pytest.mark.parametrize("entry", LEARNING, ids=labelled)
    def test_the_index_is_that_of_the_expected_tables(self, entry, prior):
        planner = waiting(entry, told=4, prior=prior)
        entry = planner.policy
        known = None if planner.policy.forgets else (planner.pulls, planner.successes)
        if known is None:  # after six rounds a window has all
            fade = entry.fade
            tables = np.zeros((2, 3, 8))
            for record in planner.history:
                tables *= fade
                for visit in record.visits:
                    tables[:, visit.agent, visit.arm] += (visit.tests, visit.successes)
            known = tables
        under_way = np.zeros((3, 8))
        last, newest = planner.history[-2:]
        under_way[2, last.assignment[2]] += entry.fade
        for a, n in enumerate(newest.assignment):
            under_way[a, n] += 1.0
        team = Team([0.9, 0.5, 0.8])
        own = entry.prior_of(parse_prior(prior, 8))
        given = (np.array(table, float)[:, :, None] for table in (*known, under_way))
        tables = expected_tables(team, *given, own)
        words = partial(round_words, 3, 0, 7)
        rows = entry.index_rows(team, *tables, 6, words, own)[:, :, 0]
        made = np.array(planner.ask().index)
        wanted = rows if len(rows) == 3 else np.repeat(rows[:1], 3, axis=0)
        np.testing.assert_allclose(made, wanted, rtol=1e-12)

    @pytest.mark.parametrize("entry", ["min-width", "posterior-sorted", "season"])
    def test_nobody_is_sent_where_somebody_goes_while_there_is_more_to_see(self, entry):
        planner = Planner([0.9] * 8, 40, policy(entry, horizon=26), seed=5)
        gone = []
        for _ in range(5):
            plan = planner.ask()
            planner.accept(plan)
            gone += plan.assignment
        assert sorted(gone) == list(range(40))

    def test_an_agent_that_waits_for_nobody_is_planned_in_whole_numbers(self):
        seen = []

        def watch(known):
            seen.append((known.pulls[:, :, 0].tolist(), known.pulls.dtype.kind))
            return np.zeros(known.pulls.shape[1:])

        planner = Planner([0.9, 0.5], 2, Policy("watch", index=watch), seed=1)
        plan = planner.ask()
        planner.tell(plan, [1, None])
        here = plan.assignment[0]
        planner.ask()
        planner.tell(1, [None, 0])
        planner.ask()
        before = [[0, 0], [0, 0]]
        after = [[1 - here, here], [here, 1 - here]]
        assert seen == [(before, "i"), (after, "f"), (after, "i")]

    @pytest.mark.parametrize("entry", LEARNING, ids=labelled)
    def test_once_all_is_told_plans_are_those_of_who_never_waited(self, entry):
        late, prompt = (Planner([0.9, 0.5, 0.8], 8, entry, seed=3) for _ in range(2))
        for r in range(1, 4):
            plan = late.ask()
            late.accept(plan)
            prompt.tell(prompt.ask(forced=list(enumerate(plan.assignment))), [r % 2, 0, 1])
        for r in (2, 1, 3):
            assert late.ask() != prompt.ask()
            late.tell(r, [r % 2, 0, 1])
        assert late.ask() == prompt.ask()

    @pytest.mark.parametrize(
        "end",
        [
            lambda planner: planner.tell(1, {"Ana": (0, 0)}),
            lambda planner: planner.tell(1, {"Ana": 1}),
            lambda planner: planner.forget(planner.history[0].assignment[2]),
        ],
        ids=["not made", "told", "forgotten"],
    )
    def test_who_is_not_on_the_way_any_more(self, end):
        planner = Planner([0.9, 0.5, 0.8], 8, "min-width", seed=3, **NAMES)
        planner.tell(planner.ask(), [1, 0, None])
        there = planner.history[0].assignment[2]
        known = planner._known(2)
        assert known.agents_under_way(there) == (2,)
        assert known.under_way.sum() == 1
        end(planner)
        assert planner._known(2).agents_under_way(there) == ()
        assert (planner._known(2).under_way is None) == (planner.waiting == ())
        planner.correct(1, {"Ana": None})  # nothing is known of it again
        told = planner.forgotten == ()
        assert planner._known(2).agents_under_way(there) == ((2,) if told else ())

    def test_tests_of_a_visit_count(self):
        planner = Planner([0.9, 0.5], 4, "min-width", seed=3, tests=[12, 1])
        plan = planner.ask()
        planner.accept(plan)
        assert planner._known(2).under_way[0, plan.assignment[0]] == 12

    def test_a_planner_that_was_saved_plans_the_same(self):
        planner = waiting(told=3)
        again = Planner.from_json(planner.to_json())
        assert again.ask() == planner.ask()
        assert again.explain(again.ask()) == planner.explain(planner.ask())
        assert json.loads(again.to_json()) == json.loads(planner.to_json())

    def test_agents_who_join_and_arms_that_are_added(self):
        planner = waiting(told=1)
        planner.join("Bob", 0.7)
        planner.add_arm("new")
        plan = planner.ask()
        assert len(plan.assignment) == 4
        assert planner._known(planner.rounds + 1).under_way.shape == (4, 9)
        assert planner.explain(plan)


class TestCertainty:
    @pytest.mark.parametrize("entry", ["min-width", "season", "posterior-sorted-discounted"])
    def test_nothing_certain_goes_by_visits_under_way(self, entry):
        planner = Planner([0.9, 0.5, 0.8], 5, entry, seed=3)
        play(planner, 5)
        plan = planner.ask()
        twin = Planner.from_json(planner.to_json())
        planner.accept(plan)
        twin.tell(plan, [(0, 0)] * 3)
        assert planner.pulls.tolist() == twin.pulls.tolist()
        assert str(planner.intervals()) == str(twin.intervals())
        assert str(planner.ranking()) == str(twin.ranking())
        assert str(planner.changes()) == str(twin.changes())
        assert str(planner.agents()) == str(twin.agents())
        assert (planner.rounds, planner.elapsed) == (twin.rounds, twin.elapsed)
        assert planner.ask() != twin.ask()
        for one, other in zip(
            planner.explain(planner.ask()),
            twin.explain(twin.ask(forced=list(enumerate(planner.ask().assignment)))),
            strict=True,
        ):
            for what in ("estimate", "lower", "upper", "best_rank", "worst_rank", "pulls"):
                assert getattr(one, what) == getattr(other, what)


class TestReasons:
    def test_words(self):
        planner = Planner([0.9, 0.5, 0.8], 3, "min-width", seed=3, **NAMES)
        first = planner.ask()
        planner.accept(first)
        gone = {n: a for a, n in enumerate(first.assignment)}
        plan = planner.ask()
        for reason, arm in zip(plan.reasons, plan.assignment, strict=True):
            assert reason.awaited == (arm in gone)
            assert str(reason).endswith("; somebody is on the way there")
            assert reason.code == "highest left"
        for said in planner.explain(plan):
            who = NAMES["agent_names"][gone[planner.arm_names.index(said.arm)]]
            assert said.under_way == (who,)
            assert f": no outcome yet, {who} is on the way there; index " in str(said)
            assert "no pulls" not in str(said)
            assert "somebody" not in str(said)
        planner.tell(1, [1, 1, 1])
        planner.accept(planner.ask())
        planner.accept(planner.ask())
        texts = [str(said) for said in planner.explain(planner.ask())]
        assert any("from 1 pull, " in text and " are on the way there; " in text for text in texts)

    @pytest.mark.parametrize("entry", LEARNING, ids=labelled)
    def test_of_no_arm_that_somebody_goes_to_it_is_said_that_there_is_nothing(self, entry):
        planner = waiting(entry, arms=4)
        plan = planner.ask()
        there = {n for record in planner.history for _, n in record.awaited}
        for said, reason in zip(planner.explain(plan), plan.reasons, strict=True):
            arm = planner.arm_names.index(said.arm)
            assert reason.awaited == bool(said.under_way) == (arm in there)
            if arm in there:
                assert reason.code != "unseen"
                assert "no pulls yet" not in str(said)
                assert "on the way there" in str(said)
            else:
                assert "on the way" not in str(said) + str(reason)

    def test_a_round_that_was_fixed_is_explained_by_who_was_on_the_way_then(self):
        planner = Planner([0.9, 0.5, 0.8], 5, "min-width", seed=3)
        plans = []
        for _ in range(4):
            plans.append(planner.ask())
            planner.accept(plans[-1])
        said = [[one.under_way for one in planner.explain(plan)] for plan in plans]
        assert said[0] == [(), (), ()]
        planner.tell(4, [1, 0, 1])
        planner.forget(plans[0].assignment[0])  # which counts from now on
        for plan, before in zip(plans, said, strict=True):
            assert [one.under_way for one in planner.explain(plan)] == before
