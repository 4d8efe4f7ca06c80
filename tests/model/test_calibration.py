"""Agents that are only calibrated: sets that hold, intervals carried through them, and what visits say of agents."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binom

import reference
from heterobandits import InvalidInput, Planner, Problem, simulate
from heterobandits.inference.agent_sensitivity import agent_intervals, likeliest_sensitivities
from heterobandits.inference.intervals import (
    Profiles,
    Ranking,
    mean_intervals,
    mean_threshold,
    ranking,
)
from heterobandits.interrupts import ended_by
from heterobandits.model.calibration import calibration_box, chance_interval
from heterobandits.model.team import Team
from heterobandits.policies.policy import policy
from heterobandits.simulation.coverage import coverage

FALSE_ALARM = 1e-6
DELTA = 0.05


@st.composite
def histories(draw, arms=1):
    """A calibrated team without false alarms, and what it reported."""
    agents = draw(st.integers(1, 3))
    calibration = []
    for _ in range(agents):
        of = draw(st.sampled_from([0, 1, 5, 20, 200]))
        calibration.append(draw(st.one_of(st.none(), st.tuples(st.integers(0, of), st.just(of)))))
    s = [draw(st.sampled_from([0.3, 0.6, 0.9, 1.0])) for _ in range(agents)]
    c = [[draw(st.sampled_from([0, 1, 4, 30, 300])) for _ in range(arms)] for _ in range(agents)]
    y = [[draw(st.integers(0, n)) for n in row] for row in c]
    return Team(s, calibration=calibration), np.array(c, np.int32), np.array(y, np.int32)


class TestSets:
    """What calibration alone says of a number."""

    @settings(max_examples=60)
    @given(data=st.data(), of=st.sampled_from([1, 2, 10, 20, 300]), log=st.floats(0.5, 12))
    def test_is_where_the_likelihood_is_not_too_far_below_the_evidence(self, data, of, log):
        found = data.draw(st.integers(0, of))
        known = reference.Posterior(found, ((1.0, of - found),))
        low, high = chance_interval((found, of), log)
        wanted = known.interval(log)
        assert (low, high) == pytest.approx(wanted, rel=1e-7, abs=1e-7)

    def test_nothing_tried_says_nothing(self):
        assert chance_interval((0, 0), 3.0) == (0.0, 1.0)

    def test_every_number_that_was_calibrated_has_its_share_of_delta(self):
        trials = ((17, 20), None, (3, 5))
        alarms = (None, None, (1, 30))
        made = calibration_box((0.8, 0.7, 0.6), (0.1, 0.0, 0.05), trials, alarms, 0.03)
        log = math.log(3 / 0.03)  # three numbers
        assert made.s_low.tolist() == [
            chance_interval((17, 20), log)[0],
            0.7,
            chance_interval((3, 5), log)[0],
        ]
        assert made.s_high.tolist() == [
            chance_interval((17, 20), log)[1],
            0.7,
            chance_interval((3, 5), log)[1],
        ]
        assert made.phi_low.tolist() == [0.1, 0.0, chance_interval((1, 30), log)[0]]
        assert made.phi_high.tolist() == [0.1, 0.0, chance_interval((1, 30), log)[1]]

    @pytest.mark.parametrize("chance", [0.05, 0.5, 0.85, 0.98])
    def test_they_hold(self, chance):
        """Summed over all outcomes of 20 tests: the true chance is outside with probability delta at most."""
        outside = sum(
            binom.pmf(k, 20, chance)
            for k in range(21)
            if not chance_interval((k, 20), math.log(1 / DELTA))[0]
            <= chance
            <= chance_interval((k, 20), math.log(1 / DELTA))[1]
        )
        assert outside <= DELTA


class TestTeam:
    def test_what_is_planned_with_follows_from_calibration(self):
        team = Team(
            None, calibration=[(17, 20), (0, 0)], false_positive_calibration=[None, (1, 30)]
        )
        assert team.sensitivities == (18 / 22, 0.5)
        assert team.false_positive_rates == (0.0, 2 / 32)
        assert team.is_calibrated
        assert not Team([0.5], calibration=[None]).is_calibrated
        stated = Team([0.9, 0.5], calibration=[(17, 20), None])
        assert stated.sensitivities == (0.9, 0.5)

    @pytest.mark.parametrize(
        ("given_", "culprit"),
        [
            ([(21, 20), None], "calibration of 'agent 1': what was reported is 21: a whole number"),
            ([(17, 20)], "calibration has 1 entries: one for each of the 2 agents"),
            ([17, 20], "calibration of 'agent 1' is 17: a list of two numbers"),
            ([(1, 2, 3), None], "calibration of 'agent 1' is (1, 2, 3): how many of how many"),
            ([("a", 3), None], "what was reported is 'a'"),
            (["17/20", None], "calibration of 'agent 1' is '17/20': how many of how many"),
            ([(1, -1), None], "the number of tests is -1"),
        ],
    )
    def test_what_is_wrong_is_named(self, given_, culprit):
        for refusing in (
            lambda: Team([0.5, 0.6], calibration=given_),
            lambda: Problem([0.5, 0.6], [0.5, 0.6], calibration=given_),
            lambda: Planner([0.5, 0.6], 3, calibration=given_),
        ):
            with pytest.raises(InvalidInput) as refused:
                refusing()
            assert culprit in str(refused.value)

    def test_someone_must_say_how_sensitive_they_are(self):
        with pytest.raises(
            InvalidInput,
            match="sensitivities is None: a list of numbers, unless all are calibrated",
        ):
            Team(None)
        with pytest.raises(InvalidInput, match="'agent 2' has neither a sensitivity nor a calib"):
            Team(None, calibration=[(1, 2), None])

    @pytest.mark.parametrize("form", ["json", "toml"])
    def test_problem_files(self, form):
        problem = Problem(
            [0.1, 0.5, 0.3],
            [0.85, 0.9],
            calibration=[(17, 20), None],
            false_positive_rates=[0.02, 0.0],
            false_positive_calibration=[(1, 20), (0, 40)],
        )
        assert problem.believed == (18 / 22, 0.9)
        assert problem.believed_false_positive_rates == (2 / 22, 1 / 42)
        assert not problem.is_believed
        text = getattr(problem, f"to_{form}")()
        assert getattr(Problem, f"from_{form}")(text) == problem


def greatest(team, c, y, mu, sets):
    """The greatest log-likelihood over the corners and the insides of the sets, agent by agent, on a fine grid."""
    total = 0.0
    for a in range(len(team)):
        if not c[a]:
            continue
        s = np.linspace(sets.s_low[a], sets.s_high[a], 4001)
        phi = sets.phi_low[a]
        p = phi + (s - phi) * mu
        with np.errstate(divide="ignore", invalid="ignore"):
            l = np.where(y[a] > 0, y[a] * np.log(p), 0.0)
            l = l + np.where(c[a] > y[a], (c[a] - y[a]) * np.log1p(-p), 0.0)
        total += np.nanmax(l)
    return total


class TestIntervals:
    @settings(max_examples=60)
    @given(history=histories())
    def test_ends_are_where_some_way_to_report_is_just_likely_enough(self, history):
        """On a grid of ways to report: at the ends nothing better than the level, inside something at least as good."""
        team, c, y = history
        profiles = Profiles.of(team, c, y, DELTA)
        log = mean_threshold(1, DELTA / 2)
        (lower,), (upper,) = profiles.ends(log)
        sets = team.boxed(DELTA / 2)
        constant = sum(
            k * math.log(s) for k, s in zip(y[:, 0], team.sensitivities, strict=True) if k
        )
        reports = [
            (s, 0.0, n, k) for s, n, k in zip(team.sensitivities, c[:, 0], y[:, 0], strict=True)
        ]
        level = reference.Reported(reports).log_evidence - log if c.any() else -log
        assert profiles.log_evidence[0] - log == pytest.approx(level, abs=1e-7)
        assert math.isfinite(constant)
        size = 1e-3 + 1e-6 * int(c.sum())
        for end, outside in ((lower, lower - 1e-3), (upper, upper + 1e-3)):
            if 0 < end < 1:
                assert greatest(team, c[:, 0], y[:, 0], end, sets) == pytest.approx(level, abs=size)
            if 0 < outside < 1 and 0 < end < 1:
                assert greatest(team, c[:, 0], y[:, 0], outside, sets) < level + 1e-9
        middle = 0.5 * (lower + upper)
        assert greatest(team, c[:, 0], y[:, 0], middle, sets) > level - size

    def test_of_agents_that_are_known_they_are_the_old_ones(self):
        """With half of delta."""
        c, y = [[40, 3, 0], [10, 200, 0]], [[9, 3, 0], [1, 150, 0]]
        plain = Team([0.9, 0.6], false_positive_rates=[0.0, 0.1])
        profiles = Profiles.of(plain, np.array(c, np.int32), np.array(y, np.int32), 0.1)
        got = profiles.ends(mean_threshold(3, 0.05))
        wanted = mean_intervals(c, y, plain, delta=0.05)
        np.testing.assert_allclose(got, wanted[1:], rtol=1e-8, atol=1e-12)

    def test_more_calibration_makes_them_narrower(self):
        c, y = [[50], [50]], [[20], [15]]
        widths = []
        for of in (10, 20, 50, 200, 10**6):
            team = Team(None, calibration=[(round(0.9 * of), of), (round(0.7 * of), of)])
            known = mean_intervals(c, y, team)
            widths.append(float(known.upper[0] - known.lower[0]))
        assert widths == sorted(widths, reverse=True)
        exact = mean_intervals(c, y, [0.9, 0.7], delta=DELTA / 2)
        assert widths[-1] == pytest.approx(float(exact.upper[0] - exact.lower[0]), abs=5e-3)

    def test_they_hold_over_calibration_and_visits(self, seed):
        """600 seasons with calibrations of 20 tests of their own: at most 5 % fail anywhere, and more than 55 have a
        chance below 1e-6. To plug in the estimate fails in far more."""
        random = np.random.default_rng(seed)
        s, mu = np.array([0.9, 0.6]), np.array([0.2, 0.7, 0.95])
        failed = plugged = 0
        seasons = 600
        for _ in range(seasons):
            found = random.binomial(20, s)
            team = Team(None, calibration=[(int(k), 20) for k in found])
            c, y = np.zeros((2, 2, 3), np.int32)
            wrong = [False, False]
            for visits in (5, 20, 80, 400):
                more = np.full((2, 3), visits, np.int32)
                c, y = c + more, y + random.binomial(more, np.outer(s, mu)).astype(np.int32)
                plain = Team(team.sensitivities)
                for i, known in enumerate(
                    (mean_intervals(c, y, team), mean_intervals(c, y, plain))
                ):
                    wrong[i] |= bool(((known.lower > mu) | (known.upper < mu)).any())
            failed += wrong[0]
            plugged += wrong[1]
        assert failed <= binom.isf(FALSE_ALARM, seasons, DELTA)
        assert plugged > binom.isf(FALSE_ALARM, seasons, DELTA)

    def test_false_alarms_are_calibrated_too(self):
        c, y = [[400]], [[40]]
        known = Team([0.9], false_positive_rates=[0.03])
        unsure = Team([0.9], false_positive_calibration=[(1, 20)])
        assert mean_intervals(c, y, known).lower[0] > 0.01
        assert mean_intervals(c, y, unsure).lower[0] == 0.0

    @pytest.mark.parametrize("method", ["mixture-width", "min-width"])
    def test_the_others_need_what_is_known(self, method):
        team = Team(None, calibration=[(17, 20)])
        horizon = 10 if method == "min-width" else None
        with pytest.raises(InvalidInput, match=f"{method}'s intervals need sensitivities that are"):
            mean_intervals([[3]], [[1]], team, method=method, horizon=horizon)


class TestRanking:
    def test_the_p_value_of_an_order_has_the_calibrations_half_of_delta(self):
        """Two arms of mean 0.9, one visited by an agent that is known and one by an agent of sensitivity 0.2 that found
        the one thing planted, which happens with probability 0.2: exp(-evidence) is no p-value, but for delta/2."""
        delta, n = 0.99, 20_000
        team = Team([1.0, 2 / 3], calibration=[None, (1, 1)])
        assert (
            0.2 < team.box(delta / 2).s_low[1] <= 0.25
        )  # the set fails, as it may with probability delta/2
        found = ranking([[n, 0], [0, n]], [[0.9 * n, 0], [0, 0.18 * n]], team, delta=delta)
        assert math.exp(-found.evidence[0, 1]) < 1e-6 < 0.2 < delta / 2
        assert "exp(-evidence) + delta/2" in " ".join(Ranking.__doc__.split())

    @settings(max_examples=25, deadline=None)
    @given(history=histories(arms=2))
    def test_is_never_more_certain_than_some_way_to_report_allows(self, history):
        """Against a grid of pairs in the other order and of sensitivities that both arms share."""
        team, c, y = history
        sets = team.boxed(DELTA / 2)
        profiles = Profiles.of(team, c, y, DELTA)
        (evidence,) = profiles.evidence(np.array([0]), np.array([1]))
        grid = np.linspace(0.01, 0.99, 25)
        best = -math.inf
        for mu, nu in itertools.combinations_with_replacement(grid, 2):
            total = 0.0
            for a in range(len(team)):
                s = np.linspace(max(1e-9, sets.s_low[a]), sets.s_high[a], 50)
                l = binom.logpmf(y[a, 0], c[a, 0], s * mu) + binom.logpmf(y[a, 1], c[a, 1], s * nu)
                l -= binom.logpmf(y[a, 0], c[a, 0], 0.5) + c[a, 0] * math.log(2)
                l -= binom.logpmf(y[a, 1], c[a, 1], 0.5) + c[a, 1] * math.log(2)
                total += l.max()
            best = max(best, total)
        # binom.logpmf counts orders, which are subtracted as those of a fair coin
        assert evidence <= profiles.log_evidence.sum() - best + 1e-6

    @pytest.mark.parametrize("means", [(0.8, 0.2), (0.5, 0.5), (0.1, 0.6)])
    def test_with_false_alarms_agents_may_report_differently_of_two_arms(self, means):
        """Against a grid of pairs in the other order, at each of which agents report as often as suits what they reported."""
        tried = {"calibration": [(150, 200), (170, 200)]}
        team = Team(None, **tried, false_positive_calibration=[(10, 200), (0, 300)])
        c = np.array([[400, 300], [200, 500]], np.int32)
        y = np.rint(c * (0.05 + 0.7 * np.array(means))).astype(np.int32)
        profiles = Profiles.of(team, c, y, DELTA)
        (evidence,) = profiles.evidence(np.array([0]), np.array([1]))
        sets = team.boxed(DELTA / 2)
        mu = np.linspace(1e-6, 1.0, 2001)[:, None, None]
        least, most = (
            (phi + (s - phi) * mu[:, 0])[:, :, None]
            for s, phi in ((sets.s_low, sets.phi_low), (sets.s_high, sets.phi_high))
        )
        chance = np.clip(y / c, least, most)  # means by agents by arms
        first, second = (y * np.log(chance) + (c - y) * np.log1p(-chance)).sum(axis=1).T
        best = (first + np.maximum.accumulate(second[::-1])[::-1]).max()
        assert evidence == pytest.approx(profiles.log_evidence.sum() - best, abs=1e-3)
        assert (evidence > math.log(1 / DELTA)) == (means[0] > means[1])

    def test_what_calibration_leaves_open_is_common_to_both_arms(self):
        """An agent known within a factor of two still tells two arms apart that it visited itself."""
        c, y = [[200, 200]], [[60, 120]]
        unsure = Team(None, calibration=[(5, 8)])
        known = ranking(c, y, unsure)
        assert known.above.tolist() == [[False, False], [True, False]]
        ends = mean_intervals(c, y, unsure)
        assert ends.upper[0] > ends.lower[1]

    def test_two_agents_on_two_arms_are_no_comparison(self):
        c, y = [[200, 0], [0, 200]], [[60, 0], [0, 120]]
        assert ranking(c, y, [0.9, 0.9]).above[1, 0]
        unsure = Team(None, calibration=[(9, 10), (9, 10)])
        assert not ranking(c, y, unsure).above.any()


class TestPolicy:
    def test_it_plays_posterior_sorted_if_all_is_known(self):
        """But for half of delta, to the bit."""
        problem = Problem([0.2, 0.5, 0.3, 0.4], [0.9, 0.6], false_positive_rates=[0.1, 0.0])
        entries = [policy("calibrated-sorted", delta=0.1), policy("posterior-sorted", delta=0.05)]
        one, other = (simulate(problem, e, 200, 50, seed=3, keep="all").kept for e in entries)
        assert np.array_equal(one, other)

    @pytest.mark.parametrize("phi", [None, [0.1, 0.3]])
    def test_of_agents_that_are_nearly_known_its_index_is_posterior_sorteds(self, phi):
        """But for half of delta, in 2,000 random tables: each found all but a few of two billion."""
        random = np.random.default_rng(5)
        most = 2**31 - 1
        calibration = [(round(s * most), most) for s in (0.9, 0.6)]
        team = Team([0.9, 0.6], false_positive_rates=phi, calibration=calibration)
        pulled = random.random((2, 1, 2000)) < 0.8
        c = np.where(pulled, random.integers(1, 200, pulled.shape), 0).astype(np.int32)
        y = random.binomial(c, random.random((1, 1, 2000))).astype(np.int32)
        rows = [
            policy(name, delta=delta).index_rows(
                team, c, y, 50, lambda first, count: np.zeros((count, 2000), np.uint32)
            )
            for name, delta in (("calibrated-sorted", 0.1), ("posterior-sorted", 0.05))
        ]
        np.testing.assert_allclose(np.minimum(1, rows[0]), np.minimum(1, rows[1]), rtol=2e-3)
        # beyond 1 what is left of l(1): 200 failures each, and sensitivities known to 3.4e-5
        np.testing.assert_allclose(rows[0], rows[1], rtol=2e-3, atol=200 * 3.4e-5 * (10 + 2.5))

    def test_its_index_is_the_upper_end_of_the_interval(self):
        team = Team(None, calibration=[(17, 20), (12, 20)], false_positive_rates=[0.03, 0.0])
        c, y = [[30, 5, 9], [20, 0, 100]], [[9, 1, 2], [4, 0, 11]]
        planner = Planner(
            None,
            3,
            "calibrated-sorted",
            calibration=[(17, 20), (12, 20)],
            false_positive_rates=[0.03, 0.0],
            pulls=c,
            successes=y,
        )
        plan = planner.ask()
        known = mean_intervals(c, y, team)
        np.testing.assert_allclose(np.minimum(1, plan.index[0]), known.upper, rtol=1e-9)
        assert planner.intervals().upper.tolist() == known.upper.tolist()


class TestAgents:
    def test_it_ends_soon_once_nobody_wants_it(self):
        """However many agents there are: it is looked up at each of the sensitivities that are tried."""
        looks = []

        class Gone(Exception):
            pass

        def leave():
            looks.append(1)
            if len(looks) == 3:
                raise Gone

        team = Team(None, calibration=[(9, 10)] * 6)
        tables = np.full((6, 4), 8), np.full((6, 4), 3)
        with ended_by(leave), pytest.raises(Gone):
            agent_intervals(*tables, team)

    def test_one_who_finds_less_than_believed_before_calibration_is_contradicted(self):
        """Twenty tests leave room for a sensitivity of 0.5: the set of 17 of 20 is 0.47 to 0.99 (8). 60 visits to each of four places do not."""
        means, s = np.array([0.1, 0.3, 0.5, 0.7]), np.array([0.9, 0.9, 0.3])
        reports = np.rint(60 * (0.03 + (s[:, None] - 0.03) * means)).astype(int)
        planner = Planner(
            None, 4, calibration=[(18, 20), (18, 20), (17, 20)], false_positive_rates=[0.03] * 3,
            pulls=np.full((3, 4), 60), successes=reports, agent_names=["Anna", "Ben", "Cleo"],
        )  # fmt: skip
        known = planner.agents()
        assert known.verdict == ("agrees",) * 3
        assert known.finds == ("as believed", "as believed", "less")
        assert known.upper[2] < planner.sensitivities[2]
        last = str(known).splitlines()[-1]
        assert last.startswith("  Cleo finds less than believed: by the visits ")
        assert last.endswith("planned with 0.818")

    def test_one_who_is_worse_than_believed_is_named(self):
        """20 planted each, all found well; on the same arms the third finds a quarter of what the others find."""
        pulls = [[150, 150, 150]] * 3
        successes = [[130, 90, 40], [128, 92, 41], [30, 21, 9]]
        calibration = [(18, 20), (20, 20), (19, 20)]
        planner = Planner(
            None, 3, calibration=calibration, pulls=pulls, successes=successes,
            agent_names=["Anna", "Ben", "Cleo"],
        )  # fmt: skip
        known = planner.agents()
        assert known.verdict == ("agrees", "agrees", "worse")
        assert known.upper[2] < known.calibrated[2, 0]
        text = str(known)
        assert text.splitlines()[0].split()[:2] == ["agent", "sensitivity"]
        assert "Cleo is worse than stated: by the visits" in text.splitlines()[-1]
        assert "Anna is" not in text

    def test_nobody_is_judged_by_a_place_that_has_changed(self):
        """Ben takes over a place that has become empty. Before it was left out, he was called worse in 19 of 30 such seasons; of an agent as
        stated that may be said with probability 0.05, beside that of a false alarm (seeded).
        """
        called = []
        for seed in range(8):
            chance = np.random.default_rng(seed)
            planner = Planner([0.9, 0.9], ["a", "b", "c"], agent_names=["Ana", "Ben"])
            for week in range(120):
                means = [0.8 if week < 60 else 0.1, 0.5, 0.5]
                first, other = ("Ana", "Ben") if week < 60 else ("Ben", "Ana")
                plan = planner.ask(forced=[(first, "a"), (other, "bc"[week % 2])])
                found = chance.random(2) < 0.9 * np.array(means)[list(plan.assignment)]
                planner.tell(plan, found.astype(int).tolist())
            assert planner.changes().changed.tolist() == [True, False, False]
            known = planner.agents()
            called.append(known.verdict)
            assert known.left_out == ("a",)
            assert str(known).endswith("\n  a has changed: what was seen of it is left out")
        assert called == [("agrees", "agrees")] * 8

    def test_alone_nothing_is_identified(self):
        """Half the sensitivity and twice the means: only that no mean is above 1."""
        known = agent_intervals([[300, 300]], [[60, 120]], Team(None, calibration=[(0, 0)]))
        assert known.upper[0] == 1.0
        assert known.lower[0] < 0.4
        assert known.verdict == ("agrees",)

    def test_beside_one_who_is_known_the_other_is(self):
        """The second finds half of what the first finds, whose sensitivity is 0.8."""
        c, y = [[2000, 2000], [2000, 2000]], [[320, 1280], [160, 640]]
        team = Team([0.8, 0.5], calibration=[None, (0, 0)])
        known = agent_intervals(c, y, team)
        assert known.estimate.tolist() == pytest.approx([0.8, 0.4], abs=1e-6)
        assert 0.3 < known.lower[1] < 0.4 < known.upper[1] < 0.5

    def test_the_likeliest_are_scipys(self):
        """All sensitivities and means at once, by minimising."""
        c = np.array([[60, 40], [50, 70], [30, 30]])
        y = np.array([[20, 30], [9, 33], [3, 9]])
        team = Team([0.8, 0.7, 0.5], calibration=[None, (14, 20), (5, 10)])

        def minus(x):
            s, mu = np.array([0.8, *x[:2]]), x[2:]
            p = np.outer(s, mu)
            l = (y * np.log(p) + (c - y) * np.log1p(-p)).sum()
            l += binom.logpmf(14, 20, s[1]) + binom.logpmf(5, 10, s[2])
            return -l

        limits = [(1e-6, 1 - 1e-6)] * 4
        found = minimize(minus, [0.5, 0.5, 0.5, 0.5], bounds=limits, tol=1e-14).x
        assert likeliest_sensitivities(team, c, y).tolist() == pytest.approx(
            [0.8, *found[:2]], abs=1e-4
        )

    def test_the_statements_hold(self, seed):
        """24 seasons of agents as they were calibrated: a false verdict, or an interval without the truth, in at most
        5 % of them; more than 9 have a chance below 1e-6."""
        random = np.random.default_rng(seed)
        s, mu = np.array([0.9, 0.5]), np.array([0.3, 0.8])
        seasons, wrong = 24, 0
        for _ in range(seasons):
            found = random.binomial(20, s)
            c = np.full((2, 2), 60)
            y = random.binomial(c, np.outer(s, mu))
            known = agent_intervals(c, y, Team(None, calibration=[(int(k), 20) for k in found]))
            outside = (known.lower > s) | (known.upper < s)
            wrong += bool(outside.any()) or set(known.verdict) != {"agrees"}
        assert wrong <= binom.isf(FALSE_ALARM, seasons, DELTA)


class TestPlanner:
    def test_it_is_kept(self, tmp_path):
        planner = Planner(
            None, 3, calibration=[(17, 20), (19, 20)], false_positive_calibration=[(1, 50), None]
        )
        planner.tell(planner.ask(), [1, 0])
        planner.join("agent 3", 0.7, calibration=(14, 20))
        assert planner.calibration == ((17, 20), (19, 20), (14, 20))
        planner.save(tmp_path / "planner.json")
        again = Planner.load(tmp_path / "planner.json")
        assert again.to_json() == planner.to_json()
        assert again.ask() == planner.ask()
        assert str(again.intervals()) == str(planner.intervals())
        planner.leave("agent 3")
        planner.join("agent 3", 0.7)
        assert planner.left == ()
        state = json.loads(planner.to_json())
        for key in ("calibration", "false_positive_calibration"):
            with pytest.raises(InvalidInput, match=key):
                Planner.from_json(json.dumps({k: v for k, v in state.items() if k != key}))


class TestCommandLine:
    LISTS = ("--means", "0.05,0.3,0.1", "--sensitivities", "0.8,0.95", "--horizon", "30")

    @pytest.mark.parametrize(
        ("text", "culprit"),
        [
            ("17/20", "calibration has 1 entries"),
            ("17/20,x", "--calibration has 'x': how many of how many"),
            ("21/20,-", "calibration of 'agent 1': what was reported is 21"),
            ("", "--calibration has ''"),
        ],
    )
    def test_what_is_wrong_is_named(self, called, text, culprit):
        code, out, err = called("simulate", *self.LISTS, "--calibration", text)
        assert (code, out) == (2, "")
        assert culprit in err
        assert err.count("\n") == 1


def test_what_is_watched_is_what_is_promised(seed):
    """The intervals and rank statements that calibrated agents give rise to, in every round of 200 trials; the calibration is
    what it is, a good one, so hardly any fail: more than 28 have a chance below 1e-6. Plugged in as if it were known, they fail."""
    problem = Problem([0.2, 0.5, 0.8], [0.9, 0.6], calibration=[(15, 20), (14, 20)])
    trials = 200
    study = coverage(problem, 400, trials, seed, watched=["posterior-ratio", "ranking"])
    most = binom.isf(FALSE_ALARM / 2, trials, DELTA)
    assert all(share * trials <= most for share in study.failed.values())
    plugged = Problem([0.2, 0.5, 0.8], [0.9, 0.6], believed=problem.believed)
    study = coverage(plugged, 400, trials, seed, watched=["posterior-ratio"])
    assert study.failed["posterior-ratio"] * trials > most


class TestFoundByAStranger:
    @pytest.mark.parametrize("rate", [0.0, 0.1])
    def test_what_is_believed_of_alarms_beside_their_calibration_is_kept_in_files(self, rate):
        problem = Problem(
            [0.5, 0.6], [0.9], false_positive_rates=[rate],
            false_positive_calibration=[(1, 9)], believed_false_positive_rates=[rate],
        )  # fmt: skip
        assert Problem.from_json(problem.to_json()) == problem
        assert Problem.from_toml(problem.to_toml()) == problem
        usual = Problem(
            [0.5, 0.6], [0.9], false_positive_rates=[rate], false_positive_calibration=[(1, 9)]
        )
        assert "believed_false_positive_rates" not in usual.to_dict()
        assert Problem.from_json(usual.to_json()) == usual

    def test_calibration_in_arrays(self):
        listed = Planner(None, 3, calibration=[(17, 20), (18, 20)])
        assert (
            Planner(None, 3, calibration=np.array([[17, 20], [18, 20]])).calibration
            == listed.calibration
        )
        with pytest.raises(InvalidInput, match="calibration of 'agent 1' is"):
            Planner([0.9], 3, calibration=[np.array([])])

    @pytest.mark.parametrize("method", ["min-width", "mixture-width"])
    def test_fewer_reports_than_false_alarms(self, method):
        """The estimate is below 0, where no mean is: cut off, like the interval."""
        planner = Planner(
            [1.0], 2, false_positive_rates=[0.5], pulls=[[100, 0]], successes=[[10, 0]], rounds=100
        )
        known = planner.intervals(method)
        for column in known:
            assert ((column >= 0) & (column <= 1)).all()
        assert (known.lower <= known.upper).all()
