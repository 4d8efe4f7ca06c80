"""Several tests in a visit: as data of a problem, in the simulator, the planner and the bounds."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import reference
from heterobandits import CATALOGUE, InvalidInput, Planner, Policy, Problem, simulate
from heterobandits.core.randomness import luck_of_tests
from heterobandits.inference import bounds
from heterobandits.limits import VISIT_MAX_TESTS
from heterobandits.policies.policy import policy
from heterobandits.simulation.coverage import WATCHABLE_PROMISES, coverage
from heterobandits.simulation.engine import Learning, PolicyWorld
from heterobandits.testing import check_one_path

FALSE_ALARM = 1e-6
MANY = Problem([0.05, 0.3, 0.12, 0.25], [0.5, 0.95, 0.9], tests=[12, 1, 3])


class TestLuck:
    """One word decides how many of the tests succeed."""

    @settings(max_examples=200)
    @given(n=st.integers(1, 30), p=st.floats(0, 1), word=st.integers(0, 2**32 - 1))
    @example(n=3, p=0.0, word=0)
    @example(n=3, p=1.0, word=2**32 - 1)
    @example(n=30, p=5e-324, word=0)
    def test_is_the_inverse_of_the_binomial_distribution(self, n, p, word):
        highest = luck_of_tests(n, p)
        assert len(highest) == n
        assert sum(word <= limit for limit in highest) == reference.succeeded(word, n, p)

    @pytest.mark.parametrize(("n", "p"), [(12, 0.3), (1000, 0.95), (1000, 1e-3), (7, 0.5)])
    def test_every_number_is_as_likely_as_it_should_be(self, n, p):
        """To 2^-32, and that of at least k never less than it is, against SciPy's distribution."""
        least = (np.array(luck_of_tests(n, p)) + 1) / 2**32
        exact = binom.sf(np.arange(n), n, p)
        assert (least - exact <= 2**-32 + 1e-13).all()
        assert (least - exact >= -1e-13).all()
        assert (np.diff(least) <= 0).all()

    @given(p=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
    def test_of_one_test_is_the_old_one(self, p, seed):
        (highest,) = luck_of_tests(1, p)
        assert (seed <= highest) == (seed < Fraction(p) * 2**32)

    def test_more_chance_or_more_tests_never_find_less(self):
        """What makes luck common: of one word, k grows with the chance and with the tests."""
        for word in (0, 2**20, 2**31, 2**32 - 2**20):
            found = [
                [sum(word <= x for x in luck_of_tests(n, p)) for p in (0.1, 0.3, 0.301, 0.9)]
                for n in (1, 2, 5, 12)
            ]
            assert all(row == sorted(row) for row in found)
            assert all(list(column) == sorted(column) for column in zip(*found, strict=True))


class TestProblem:
    def test_a_visit_is_worth_its_tests(self):
        assert MANY.team.worth.tolist() == pytest.approx([6.0, 0.95, 2.7])
        assert MANY.team.order.tolist() == [0, 2, 1]
        assert MANY.optimum == (1, 2, 3)
        assert MANY.expected_reward((1, 2, 3)) == pytest.approx(6 * 0.3 + 0.95 * 0.12 + 2.7 * 0.25)
        assert MANY.regret((2, 1, 3)) == pytest.approx((6 - 0.95) * (0.3 - 0.12))

    @pytest.mark.parametrize("form", ["json", "toml"])
    def test_files(self, form, tmp_path):
        path = tmp_path / f"problem.{form}"
        for problem in (MANY, Problem([0.5], [0.5])):
            path.write_text(getattr(problem, f"to_{form}")(), "utf-8")
            assert Problem.load(path) == problem
        assert "tests" not in path.read_text("utf-8")

    @pytest.mark.parametrize(
        ("tests", "culprit"),
        [
            ([1, 0, 2], "tests of 'agent 2' is 0: a whole number from 1 to 1,000"),
            ([1, 2, 2.0], "tests of 'agent 3' is 2.0"),
            ([1, True, 2], "tests of 'agent 2' is True"),
            ([1, VISIT_MAX_TESTS + 1, 2], "tests of 'agent 2' is 1001"),
            ([1, 2], "tests has 2 entries: one for each of the 3 agents"),
            (3, "tests is 3: a list of numbers"),
        ],
    )
    def test_bad_numbers_are_refused_by_name(self, tests, culprit):
        for refusing in (
            lambda: Problem(MANY.means, MANY.sensitivities, tests=tests),
            lambda: Planner(MANY.sensitivities, 4, tests=tests),
        ):
            with pytest.raises(InvalidInput) as refused:
                refusing()
            assert culprit in str(refused.value)

    def test_more_rounds_than_there_are_logarithms_for(self):
        with pytest.raises(InvalidInput, match=r"horizon is 2,000,000 rounds of up to 12 tests"):
            simulate(MANY, "min-width", 2_000_000, 1)


class TestSimulation:
    @pytest.mark.parametrize("name", CATALOGUE)
    def test_one_test_each_changes_no_bit(self, name):
        plain = Problem(MANY.means, MANY.sensitivities)
        one = Problem(MANY.means, MANY.sensitivities, tests=[1, 1, 1])
        first, second = (simulate(p, name, 60, 40, seed=3, keep="all").kept for p in (plain, one))
        assert np.array_equal(first, second)

    @pytest.mark.parametrize("horizon", [5, 60])
    @pytest.mark.parametrize("name", ["min-width", "no-sharing", "min-width-window"])
    def test_a_fixed_horizon_counts_the_most_tests_of_an_arm_until_there_are_more(
        self, name, horizon
    ):
        entry = policy(name, horizon=horizon)
        results = simulate(MANY, entry, 40, 4, seed=5, keep="final")
        mu, s, worth = MANY.means, MANY.sensitivities, MANY.team.worth.tolist()
        for trial in range(4):
            play = reference.play(
                name, mu, s, 40, 5, trial, fixed_t=horizon, tests=MANY.tests, memory=entry.memory
            )
            regret = reference.regret(mu, worth, [f for f, _, _ in play])
            assert results.regrets(entry.label)[trial] == pytest.approx(regret, abs=1e-8)

    @pytest.mark.parametrize("name", ["min-width", "no-sharing", "kl-ucb", "cucb", "mixture-width"])
    def test_blocks_of_any_width_and_calls_of_any_length(self, name, monkeypatch):
        """Every lane has a log term of its own, whatever stands beside it and whenever one looks."""
        whole = simulate(MANY, name, 50, 700, seed=2, keep="all")
        for block in (1, 7, 100):
            parts = simulate(MANY, name, 50, 700, seed=2, keep="all", block=block)
            assert np.array_equal(whole.kept, parts.kept)
        from heterobandits.simulation import engine

        monkeypatch.setattr(engine, "KERNEL_CALL_MAX_ROUNDS", 7)
        parts = simulate(MANY, name, 50, 700, seed=2, keep="all")
        assert np.array_equal(whole.kept, parts.kept)

    def test_a_policy_of_ones_own_is_told_the_tests(self):
        """Min-Width again in NumPy: t is an array, one for each trial."""
        seen = []

        def index(known):
            seen.append(np.shape(known.rounds))
            t = np.maximum(1, known.rounds)
            d = known.team.slope[:, None, None]
            V = (d**2 * known.pulls).sum(axis=0)
            W = (d * known.successes).sum(axis=0)
            A, N, _ = known.pulls.shape
            ln_g = np.array([math.log(math.comb(int(x) + A, A) - 1) for x in np.atleast_1d(t)])
            with np.errstate(divide="ignore", invalid="ignore"):
                found = W / V + np.sqrt((np.log(2 * N / known.delta) + ln_g) / (2 * V))
            return np.where(V > 0, found, np.inf)

        own = Policy("own", index=index)
        results = simulate(MANY, [own, "min-width"], 40, 50, seed=4, keep="all")
        np.testing.assert_allclose(results.kept[0], results.kept[1], rtol=0, atol=1e-9)
        assert all(len(shape) == 1 for shape in seen)

    def test_tests_succeed_as_often_as_they_should(self, seed):
        """Binomial in all; false alarms: 1e-6."""
        learning = Learning(PolicyWorld(MANY, policy("random")), seed, 0, 1000)
        learning.advance(40)
        pulls, successes = (t.sum(axis=2, dtype=int) for t in (learning.pulls, learning.successes))
        share = FALSE_ALARM / pulls.size / 2
        for a, n in itertools.product(range(3), range(4)):
            assert pulls[a, n] % MANY.tests[a] == 0
            p = MANY.sensitivities[a] * MANY.means[n]
            low, high = binom.ppf(share, pulls[a, n], p), binom.isf(share, pulls[a, n], p)
            assert low <= successes[a, n] <= high

    @pytest.mark.parametrize("name", ["min-width", "posterior-sorted", "no-sharing", "cucb"])
    def test_planner_and_simulator_walk_one_path_beyond_the_horizon(self, name):
        check_one_path(
            policy(name, horizon=20)
        )  # in one of its problems somebody makes three tests

    def test_many_tests_learn_faster(self, seed):
        """Ten tests by everybody earn and learn ten times: per test there is less regret; 5.2 standard errors."""
        means, s = [0.1, 0.3, 0.5], [0.9, 0.6]
        one = simulate(Problem(means, s), "posterior-sorted", 300, 2000, seed)
        ten = simulate(Problem(means, s, tests=[10, 10]), "posterior-sorted", 300, 2000, seed)
        name = "posterior-sorted"
        error = math.hypot(one.se(name)[-1], ten.se(name)[-1] / 10)
        assert one.mean(name)[-1] - ten.mean(name)[-1] / 10 > 5.2 * error


class TestPromises:
    def test_intervals_and_rank_statements_hold(self, seed):
        """Each fails in at most 5 % of the trials; of 300, more than 36 have a chance below 1e-6."""
        trials = 300
        study = coverage(MANY, 100, trials, seed)
        most = binom.isf(FALSE_ALARM / len(WATCHABLE_PROMISES), trials, 0.05)
        for name, share in study.failed.items():
            assert share * trials <= most, name
        assert study.worst_regret < study.regret_bound < math.inf

    @pytest.mark.parametrize("name", ["min-width", "min-ucb", "no-sharing", "min-width-grouped"])
    @pytest.mark.parametrize("told", [0, 1, 49, 50, 500, 600])
    def test_up_to_the_horizon_the_logarithm_is_that_of_the_proof(self, name, told):
        """docs/model.md (7): an arm has up to T·max n tests, however many it has yet."""
        A, N, T = 3, 4, 50
        most = T * max(MANY.tests)
        ways = {
            "min-width": math.comb(most + A, A) - 1,
            "min-width-grouped": math.comb(most + A, A) - 1,  # all three are of their own kind
        }.get(name, A * most)
        wanted = math.log(2 * N * ways / 0.05)
        entry = policy(name, horizon=T)
        assert entry.proven != "nothing"
        assert entry.log_terms(MANY.team, N, told)[0] == pytest.approx(wanted, rel=1e-14)
        c = np.zeros((A, N, 1), int)
        c[0, 0] = told
        _, width = entry.band(MANY.team, c, c)
        if told:
            root = math.sqrt(wanted / (2 * told)) / MANY.sensitivities[0]
            assert width[0, 0, 0] == pytest.approx(root, rel=1e-14)

    @pytest.mark.parametrize("told", [0, 1, 7, 12, 24, 600])
    def test_a_window_counts_all_the_tests_that_an_arm_can_have_in_it(self, told):
        """docs/model.md (17): after t rounds, fixed beforehand, these are max n·min(t, w), however few it has."""
        A, N, w = 3, 4, 10
        for rounds in (1, 2, 9, 10, 11, 100):
            if told > rounds * max(MANY.tests):
                continue
            most = max(MANY.tests) * min(rounds, w)
            wanted = math.log(2 * N * (math.comb(most + A, A) - 1) / 0.05)
            (L,) = policy("min-width-window", memory=w).log_terms(MANY.team, N, max(rounds, told))
            assert wanted * (1 - 1e-14) <= L
            full = max(MANY.tests) * w
            assert math.log(2 * N * (math.comb(full + A, A) - 1) / 0.05) * (1 + 1e-14) >= L

    def test_a_planners_intervals_of_one_round_count_the_tests_there_can_have_been(self):
        planner = Planner([0.9, 0.8], ["a", "b"], "min-width", tests=[5, 1])
        for i in range(40):
            planner.tell(planner.ask(forced=[(0, i % 2)]), [(2, 5), (1, 1)])
        most = 40 * 5
        log = math.log(2 * 2 * (math.comb(most + 2, 2) - 1) / 0.05)
        V, W = 0.81 * 100 + 0.64 * 20, 0.9 * 40 + 0.8 * 20
        known = planner.intervals("min-width")
        assert known.upper[0] == pytest.approx(W / V + math.sqrt(log / (2 * V)), rel=1e-12)
        assert known.lower[0] == pytest.approx(W / V - math.sqrt(log / (2 * V)), rel=1e-12)

    def test_the_regret_bound(self):
        """docs/model.md (7), term by term, and the paper's with one test each."""
        A, N, T = 3, 4, 50
        log = bounds.log_term("min-width", A, N, T * 12)
        spread = 0.95 / 0.5
        wanted = 12 * A * (N - 1) + 2 * 12 * math.sqrt(2 * A * N * T * log / 1) * spread
        assert bounds.regret_bound(MANY, T) == pytest.approx(wanted)
        equal = Problem(MANY.means, MANY.sensitivities, tests=[4, 4, 4])
        log = bounds.log_term("min-width", A, N, T * 4)
        wanted = 4 * A * (N - 1) + 2 * 4 * math.sqrt(2 * A * N * T * log / 4) * spread
        assert bounds.regret_bound(equal, T) == pytest.approx(wanted)

    def test_the_lower_bound_has_the_information_of_all_tests(self):
        """One agent: n times the cost, n times the information, so the constant stays; a helper with many tests
        explores cheaply for its information only if it costs little."""
        for n in (1, 7):
            one = Problem([0.5, 0.25], [0.8], tests=[n])
            assert bounds.lower_bound(one) == pytest.approx(0.8 * 0.25 / bounds.kl(0.2, 0.4))
        mu, s, tests = [0.6, 0.5, 0.3], [0.9, 0.2], [1, 3]
        problem = Problem(mu, s, tests=tests)
        # the one with 0.9 picks first; if it explores the other moves up
        costs = [0.9 * 0.6 + 0.6 * 0.5 - (0.6 * 0.6 + 0.9 * 0.3), 0.6 * (0.5 - 0.3)]
        gains = [bounds.kl(0.9 * 0.3, 0.9 * 0.5), 3 * bounds.kl(0.2 * 0.3, 0.2 * 0.5)]
        wanted = min(cost / gain for cost, gain in zip(costs, gains, strict=True))
        assert bounds.lower_bound(problem) == pytest.approx(wanted)


class TestPlanner:
    def test_they_are_kept_and_shown(self, tmp_path):
        planner = Planner([0.9, 0.7], 3, tests=[1, 12])
        planner.tell(planner.ask(), [1, (3, 12)])
        planner.join("agent 3", 0.8, tests=5)
        assert planner.tests == (1, 12, 5)
        planner.save(tmp_path / "planner.json")
        again = Planner.load(tmp_path / "planner.json")
        assert again.to_json() == planner.to_json()
        assert again.tests == (1, 12, 5)
        lines = str(planner).splitlines()
        assert lines[1].split() == ["agent", "sensitivity", "tests", "pulls", "successes"]
        assert lines[3].split()[2:] == ["0.7", "12", "12", "3"]

    def test_who_finds_most_in_a_visit_has_the_best_arm(self):
        tables = {"pulls": [[50, 50, 50]] * 2, "successes": [[40, 5, 20], [30, 4, 15]]}
        plain = Planner([0.9, 0.7], 3, "greedy", **tables).ask()
        many = Planner([0.9, 0.7], 3, "greedy", tests=[1, 12], **tables).ask()
        assert plain.assignment == (0, 2)
        assert many.assignment == (2, 0)
        # and so it is where pairs are forbidden, and the arms are dealt by matching
        paired = Planner([0.9, 0.7], 3, "greedy", tests=[1, 12], **tables)
        assert paired.ask(forbidden=[(0, 1)]).assignment == (2, 0)

    def test_who_returns_makes_the_tests_it_made(self):
        planner = Planner([0.9, 0.7], 3, tests=[1, 12])
        planner.leave("agent 2")
        with pytest.raises(InvalidInput, match=r"left with tests 12,"):
            planner.join("agent 2", 0.7, tests=3)
        planner.join("agent 2", 0.7)
        assert planner.tests == (1, 12)

    def test_an_older_file_has_one_test_each(self):
        planner = Planner([0.9, 0.7], 3)
        state = json.loads(planner.to_json())
        del state["tests"]
        state["heterobandits_planner"] = 2
        assert Planner.from_json(json.dumps(state)).tests == (1, 1)


class TestCommandLine:
    LISTS = ("--means", "0.05,0.3,0.1", "--sensitivities", "0.8,0.95", "--horizon", "30")

    @pytest.mark.parametrize(
        ("text", "culprit"),
        [
            ("4", "tests has 1 entries: one for each of the 2 agents"),
            ("4,0", "tests of 'agent 2' is 0"),
            ("4,1.5", "--tests has '1.5': whole numbers separated by commas"),
            ("4," + "9" * 5000, "--tests has"),
        ],
    )
    def test_what_is_wrong_is_named(self, called, text, culprit):
        code, out, err = called("simulate", *self.LISTS, "--tests", text)
        assert (code, out) == (2, "")
        assert culprit in err
        assert err.count("\n") == 1
