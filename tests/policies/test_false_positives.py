"""False positives as data of a problem: what is reported, what counts, what is believed, what is promised."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binom

import reference
from heterobandits import CATALOGUE, InvalidInput, Planner, Problem, simulate
from heterobandits.inference import bounds
from heterobandits.inference.intervals import mean_intervals, ranking
from heterobandits.model.team import Team
from heterobandits.policies.policy import policy
from heterobandits.simulation.coverage import WATCHABLE_PROMISES, coverage
from heterobandits.simulation.engine import Learning, PolicyWorld

FALSE_ALARM = 1e-6
ALARMS = Problem(
    [0.05, 0.3, 0.12, 0.25],
    [0.8, 0.95, 0.9],
    false_positive_rates=[0.03, 0.2, 0.0],
    agent_names=["antigen", "quick", "PCR"],
)


class TestProblem:
    """What is stated, and what is refused."""

    def test_what_is_reported_is_not_what_counts(self):
        """Sorted by sensitivity, though the most sensitive has the least slope; only true successes are earned."""
        problem = Problem([0.2, 0.6], [0.7, 0.9], false_positive_rates=[0.0, 0.5])
        assert problem.optimum == (0, 1)
        assert problem.expected_reward((0, 1)) == pytest.approx(0.7 * 0.2 + 0.9 * 0.6)
        assert problem.regret((1, 0)) == pytest.approx((0.9 - 0.7) * (0.6 - 0.2))
        assert problem.team.slope.tolist() == [0.7, 0.4]
        assert problem.team.offset.tolist() == [0.0, 0.5]
        assert problem.team.order.tolist() == [1, 0]

    def test_belief_is_the_truth_unless_it_is_said_otherwise(self):
        assert ALARMS.believed_false_positive_rates == (0.03, 0.2, 0.0)
        assert ALARMS.is_believed
        ignored = Problem(
            ALARMS.means,
            ALARMS.sensitivities,
            false_positive_rates=ALARMS.false_positive_rates,
            believed_false_positive_rates=[0.0] * 3,
        )
        assert not ignored.is_believed
        assert ignored.team.slope.tolist() == list(ALARMS.sensitivities)
        assert ignored.true_team.slope.tolist() == ALARMS.team.slope.tolist()

    @pytest.mark.parametrize("form", ["json", "toml"])
    def test_files(self, form, tmp_path):
        path = tmp_path / f"problem.{form}"
        other = Problem(
            ALARMS.means,
            ALARMS.sensitivities,
            false_positive_rates=[0.03, 0.2, 0.0],
            believed_false_positive_rates=[0.0, 0.0, 0.1],
        )
        for problem in (ALARMS, other, Problem([0.5], [0.5])):
            path.write_text(getattr(problem, f"to_{form}")(), "utf-8")
            assert Problem.load(path) == problem
        assert "false_positive_rates" not in path.read_text("utf-8")

    @pytest.mark.parametrize(
        ("rates", "culprit"),
        [
            ([0.03, 0.95, 0.0], "false_positive_rates of 'quick' is 0.95, its sensitivity 0.95"),
            ([0.03, 0.2, 1.0], "false_positive_rates of 'PCR' is 1, its sensitivity 0.9"),
            ([0.03, 0.2], "false_positive_rates has 2 entries: one for each of the 3 agents"),
            ([0.03, -0.2, 0], "false_positive_rates[1] is -0.2: a false positive rate is a prob"),
            ([0.03, math.nan, 0], "false_positive_rates[1] is nan"),
            (0.03, "false_positive_rates is 0.03: a list of numbers"),
            ([], "false_positive_rates is empty"),
        ],
    )
    def test_bad_rates_are_refused_by_name(self, rates, culprit):
        names = ALARMS.agent_names
        with pytest.raises(InvalidInput) as refused:
            Problem(
                ALARMS.means, ALARMS.sensitivities, agent_names=names, false_positive_rates=rates
            )
        assert culprit in str(refused.value)
        with pytest.raises(InvalidInput) as refused:
            Planner(ALARMS.sensitivities, 4, agent_names=names, false_positive_rates=rates)
        assert culprit in str(refused.value)
        with pytest.raises(InvalidInput) as refused:
            Problem(
                ALARMS.means,
                ALARMS.sensitivities,
                agent_names=names,
                believed_false_positive_rates=rates,
            )
        assert f"believed_{culprit}" in str(refused.value)

    def test_a_belief_below_the_true_rate_is_refused_with_the_belief(self):
        with pytest.raises(
            InvalidInput, match=r"believed_false_positive_rates of 'agent 1' is 0.3"
        ):
            Problem([0.5], [0.9], [0.2], false_positive_rates=[0.3])


class TestSimulation:
    """Outcomes with false alarms, in every policy."""

    @pytest.mark.parametrize("name", CATALOGUE)
    def test_no_false_alarms_change_no_bit(self, name):
        plain = Problem(ALARMS.means, ALARMS.sensitivities)
        none = Problem(ALARMS.means, ALARMS.sensitivities, false_positive_rates=[0.0] * 3)
        one, other = (simulate(p, name, 60, 40, seed=3, keep="all").kept for p in (plain, none))
        assert np.array_equal(one, other)

    def test_reports_come_as_often_as_they_should(self, seed):
        """Of agent a on arm n with probability phi + (s - phi) mu; binomial, false alarms: 1e-6 in all."""
        learning = Learning(PolicyWorld(ALARMS, policy("random")), seed, 0, 2000)
        learning.advance(60)
        pulls, successes = (t.sum(axis=2, dtype=int) for t in (learning.pulls, learning.successes))
        share = FALSE_ALARM / pulls.size / 2
        for a, n in itertools.product(range(3), range(4)):
            s, phi = ALARMS.sensitivities[a], ALARMS.false_positive_rates[a]
            p = s * ALARMS.means[n] + phi * (1 - ALARMS.means[n])
            low, high = binom.ppf(share, pulls[a, n], p), binom.isf(share, pulls[a, n], p)
            assert low <= successes[a, n] <= high

    def test_knowing_of_them_helps(self, seed):
        """Paired over 4,000 trials; without believing in them the quick test's alarms look like cases."""
        means, s, rates = [0.02, 0.05, 0.3, 0.35], [0.9, 0.6], [0.3, 0.0]
        known = Problem(means, s, false_positive_rates=rates)
        ignored = Problem(
            means, s, false_positive_rates=rates, believed_false_positive_rates=[0.0, 0.0]
        )
        runs = [simulate(p, "posterior-sorted", 400, 4000, seed) for p in (known, ignored)]
        first, second = (
            (r.mean("posterior-sorted")[-1], r.se("posterior-sorted")[-1]) for r in runs
        )
        assert second[0] - first[0] > 5.2 * math.hypot(first[1], second[1])


class TestPromises:
    def test_intervals_and_rank_statements_hold(self, seed):
        """Each fails in at most 5 % of the trials; of 400, more than 44 have a chance below 1e-6."""
        trials = 400
        study = coverage(ALARMS, 150, trials, seed)
        most = binom.isf(FALSE_ALARM / len(WATCHABLE_PROMISES), trials, 0.05)
        assert set(study.failed) == set(WATCHABLE_PROMISES)
        for name, share in study.failed.items():
            assert share * trials <= most, name
        assert study.over_regret_bound == 0
        assert study.worst_regret < study.regret_bound < math.inf

    def test_they_do_not_hold_without_believing_in_them(self, seed):
        ignored = Problem(
            ALARMS.means,
            ALARMS.sensitivities,
            false_positive_rates=ALARMS.false_positive_rates,
            believed_false_positive_rates=[0.0] * 3,
        )
        study = coverage(ignored, 400, 100, seed, watched=["posterior-ratio"])
        assert study.failed["posterior-ratio"] > 0.9
        assert study.regret_bound == math.inf

    @settings(max_examples=50)
    @given(data=st.data())
    def test_intervals_are_the_references(self, data):
        team = Team([0.9, 0.6], false_positive_rates=[data.draw(st.floats(0.0, 0.5)), 0.05])
        c = data.draw(st.lists(st.integers(0, 300), min_size=2, max_size=2))
        y = [data.draw(st.integers(0, n)) for n in c]
        known = mean_intervals(*([[n] for n in table] for table in (c, y)), team, delta=0.1)
        reports = list(zip(team.slope.tolist(), team.offset.tolist(), c, y, strict=True))
        wanted = reference.Reported(reports)
        assert known.estimate[0] == pytest.approx(wanted.mean, rel=1e-9, abs=1e-9)
        low, high = wanted.interval(math.log(1 / 0.1)) if sum(c) else (0.0, 1.0)
        assert known.lower[0] == pytest.approx(low, rel=1e-6, abs=1e-6)
        assert known.upper[0] == pytest.approx(high, rel=1e-6, abs=1e-6)

    def test_all_alarms_are_no_sign(self):
        """A tenth of the reports of an agent with a tenth of false alarms: the arm may well be empty."""
        c, y = [[400]], [[40]]
        assert mean_intervals(c, y, [0.9]).lower[0] > 0.05
        assert mean_intervals(c, y, Team([0.9], false_positive_rates=[0.1])).lower[0] == 0.0

    def test_what_is_ordered_is_ordered_by_what_is_found(self):
        """Two arms with as many reports: of one they come from an agent who cries wolf."""
        c, y = [[200, 0], [0, 200]], [[90, 0], [0, 90]]
        team = Team([0.95, 0.95], false_positive_rates=[0.0, 0.4])
        assert ranking(c, y, team).above.tolist() == [[False, True], [False, False]]
        assert not ranking(c, y, [0.95, 0.95]).above.any()


def lower_bound(problem):
    """docs/limits.md (3) by trying every agent, with the divergences of the reports, and SciPy's best alternative."""
    team = problem.true_team
    agents = sorted(range(problem.agents), key=lambda a: -problem.sensitivities[a])
    mu = sorted(problem.means, reverse=True)
    best = sum(problem.sensitivities[a] * mu[q] for q, a in enumerate(agents))
    total = 0.0
    for m in mu[problem.agents :]:
        rates = []
        for explorer in agents:
            rest = [a for a in agents if a != explorer]
            earned = sum(problem.sensitivities[a] * mu[q] for q, a in enumerate(rest))
            cost = best - earned - problem.sensitivities[explorer] * m
            d, phi = team.slope[explorer], team.offset[explorer]
            p, q = phi + d * m, phi + d * mu[problem.agents - 1]
            kl = p * math.log(p / q) if p else 0.0
            kl += (1 - p) * math.log((1 - p) / (1 - q))
            rates.append(cost / kl)
        total += min(rates)
    return total


class TestBounds:
    @settings(max_examples=100)
    @given(data=st.data())
    def test_the_lower_bound_is_that_of_the_reports(self, data):
        mu = data.draw(st.lists(st.integers(1, 19), min_size=3, max_size=5, unique=True))
        s = [data.draw(st.integers(5, 20)) / 20 for _ in range(2)]
        phi = [data.draw(st.integers(0, 9)) / 10 * x for x in s]
        problem = Problem([x / 20 for x in mu], s, false_positive_rates=phi)
        assert bounds.lower_bound(problem) == pytest.approx(lower_bound(problem), rel=1e-9)

    def test_an_empty_arm_takes_as_long_as_its_false_alarms_say(self):
        """Without them a single report tells a mean of 0; with them it has the divergence of phi."""
        problem = Problem([0.5, 0.0], [0.8], false_positive_rates=[0.1])
        kl = bounds.kl(0.1, 0.45)
        assert bounds.lower_bound(problem) == pytest.approx(0.8 * 0.5 / kl)

    def test_false_alarms_cost(self):
        limits = [
            bounds.lower_bound(Problem([0.5, 0.3, 0.1], [0.9, 0.6], false_positive_rates=rates))
            for rates in ([0.0, 0.0], [0.05, 0.05], [0.3, 0.3])
        ]
        assert limits == sorted(limits)
        assert limits[0] < limits[2]

    def test_widths_and_the_regret_bound_have_the_slopes(self):
        """The width of one pull each is sqrt(L / 2 sum d^2); the bound has the least slope below."""
        team = Team([0.9, 0.6], false_positive_rates=[0.3, 0.1])
        (first, *_) = bounds.widths("min-width", [[1, 1], [1, 1]], team, 100, 0.05)
        log = bounds.log_term("min-width", 2, 2, 100, 0.05)
        assert first == pytest.approx(math.sqrt(log / (2 * (0.6**2 + 0.5**2))))
        own = bounds.widths("no-sharing", [[1, 1], [1, 1]], team, 100, 0.05)
        log = bounds.log_term("no-sharing", 2, 2, 100, 0.05)
        assert own[:, 0].tolist() == pytest.approx([math.sqrt(log / 2) / d for d in (0.6, 0.5)])
        problem = Problem([0.2, 0.4, 0.6], [0.9, 0.6], false_positive_rates=[0.3, 0.1])
        plain = Problem([0.2, 0.4, 0.6], [0.9, 0.5])
        assert bounds.regret_bound(problem, 50) == bounds.regret_bound(plain, 50)


class TestPlanner:
    def test_it_is_kept_and_shown(self, tmp_path):
        planner = Planner([0.9, 0.7], 3, false_positive_rates=[0.05, 0.0])
        assert planner.false_positive_rates == (0.05, 0.0)
        plan = planner.ask()
        planner.tell(plan, [1, 0])
        planner.join("agent 3", 0.8, 0.1)
        assert planner.false_positive_rates == (0.05, 0.0, 0.1)
        path = tmp_path / "planner.json"
        planner.save(path)
        again = Planner.load(path)
        assert again.to_json() == planner.to_json()
        assert again.ask() == planner.ask()
        assert again.false_positive_rates == (0.05, 0.0, 0.1)
        lines = str(planner).splitlines()
        assert lines[1].split() == [
            "agent",
            "sensitivity",
            "false",
            "positives",
            "pulls",
            "successes",
        ]
        assert lines[4].split()[2:4] == ["0.8", "0.1"]
        assert "false" not in str(Planner([0.9], 2))

    def test_who_returns_has_the_rate_it_had(self):
        planner = Planner([0.9, 0.7], 3, false_positive_rates=[0.05, 0.0])
        planner.leave("agent 1")
        with pytest.raises(InvalidInput, match=r"left with false positive rate 0\.05,"):
            planner.join("agent 1", 0.9, 0.1)
        planner.join("agent 1", 0.9)
        assert planner.left == ()
        assert planner.false_positive_rates == (0.05, 0.0)
        with pytest.raises(InvalidInput, match=r"'agent 4' is 0\.9, its sensitivity 0.8"):
            planner.join("agent 4", 0.8, 0.9)
        assert len(planner.agent_names) == 2

    def test_an_older_file_has_no_false_alarms(self):
        planner = Planner([0.9, 0.7], 3)
        state = json.loads(planner.to_json())
        assert state["heterobandits_planner"] == 5
        del state["false_positive_rates"]
        with pytest.raises(InvalidInput, match="false_positive_rates"):
            Planner.from_json(json.dumps(state))
        state["heterobandits_planner"] = 2
        assert Planner.from_json(json.dumps(state)).to_json() == planner.to_json()

    def test_its_intervals_are_those_of_its_team(self):
        pulls, successes = [[40, 0], [30, 60]], [[9, 0], [2, 20]]
        planner = Planner(
            [0.9, 0.7], 2, pulls=pulls, successes=successes, false_positive_rates=[0.2, 0.1]
        )
        team = Team([0.9, 0.7], false_positive_rates=[0.2, 0.1])
        known = planner.intervals()
        assert np.array_equal(known, mean_intervals(pulls, successes, team))
        for arm, explained in enumerate(
            sorted(planner.explain(planner.ask()), key=lambda e: e.arm)
        ):
            assert explained.lower == known.lower[arm]


def test_the_likeliest_mean_is_scipys():
    """Of many reports with false alarms: the estimate is near the likeliest mean, found by minimising."""
    reports = [(0.6, 0.3, 5000, 2100), (0.75, 0.05, 4000, 700)]

    def minus_log_likelihood(mu):
        return -sum(binom.logpmf(y, c, phi + d * mu) for d, phi, c, y in reports)

    likeliest = minimize_scalar(minus_log_likelihood, bounds=(0, 1), method="bounded").x
    team = Team([0.9, 0.8], false_positive_rates=[0.3, 0.05])
    known = mean_intervals([[5000], [4000]], [[2100], [700]], team)
    assert known.estimate[0] == pytest.approx(likeliest, abs=1e-3)


class TestCommandLine:
    LISTS = ("--means", "0.05,0.3,0.1", "--sensitivities", "0.8,0.95")

    def test_beside_a_domain_they_stand_in_for_what_it_says(self, called):
        alarms = ("--false-positives", "0.1,0.1,0.1,0.01,0.01")
        code, out, _ = called("bounds", "--problem", "covid", *alarms, "--format", "json")
        assert code == 0
        problem = Problem.from_dict(json.loads(out)["problem"])
        assert problem.false_positive_rates == (0.1, 0.1, 0.1, 0.01, 0.01)
        assert problem.sensitivities == (0.8, 0.8, 0.8, 0.95, 0.95)
        assert json.loads(out)["lower_bound"] == bounds.lower_bound(problem)

    @pytest.mark.parametrize(
        ("text", "culprit"),
        [
            ("0.1", "has 1 entries: one for each of the 2 agents"),
            ("0.1,0.95", "of 'agent 2' is 0.95, its sensitivity 0.95"),
            ("0.1,x", "--false-positives has 'x'"),
            ("", "--false-positives has ''"),
        ],
    )
    def test_what_is_wrong_is_named(self, called, text, culprit):
        code, out, err = called(
            "simulate", *self.LISTS, "--false-positives", text, "--horizon", "5"
        )
        assert (code, out) == (2, "")
        assert culprit in err
        assert err.count("\n") == 1
