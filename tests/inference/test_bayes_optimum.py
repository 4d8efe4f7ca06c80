"""The Bayes-optimal policy of tiny worlds, against fractions, brute force and every policy of the catalogue."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from heterobandits import CATALOGUE, InvalidInput, Planner, Problem, policy, simulate
from heterobandits.inference.bayes_optimum import TINY_WORLD_MAX_STATES
from heterobandits.inference.bounds import bayes_optimal, bayes_regret

COMPUTED = [
    name
    for name, entry in CATALOGUE.items()
    if not (entry.simulated_only or entry.forgets or entry.rule.words)
]


@cache
def moment(s, column, more):
    """The integral of mu^more times the likelihood of an arm's pulls and successes, in fractions: a polynomial."""
    powers = {more + sum(y for _, y in column): Fraction(1)}
    for s_a, (c, y) in zip(s, column, strict=True):
        for _ in range(c - y):  # times 1 - s mu
            grown = {}
            for power, factor in powers.items():
                grown[power] = grown.get(power, 0) + factor
                grown[power + 1] = grown.get(power + 1, 0) - factor * s_a
            powers = grown
    return sum(factor / (power + 1) for power, factor in powers.items())


def exact_reward(s, arms, horizon):
    """The greatest reward by plain recursion over all tables in fractions; no arms are taken for alike."""
    agents = len(s)

    @cache
    def best(left, columns):
        if left == 0:
            return Fraction(0)
        values = []
        for f in itertools.permutations(range(arms), agents):
            means = [moment(s, columns[n], 1) / moment(s, columns[n], 0) for n in f]
            value = sum(x * m for x, m in zip(s, means, strict=True))
            for outcomes in itertools.product((0, 1), repeat=agents):
                chance, after = Fraction(1), [list(column) for column in columns]
                for a, (n, y) in enumerate(zip(f, outcomes, strict=True)):
                    chance *= s[a] * means[a] if y else 1 - s[a] * means[a]
                    c, k = after[n][a]
                    after[n][a] = (c + 1, k + y)
                value += chance * best(left - 1, tuple(map(tuple, after)))
            values.append(value)
        return max(values)

    return best(horizon, (((0, 0),) * agents,) * arms)


class TestOptimum:
    @pytest.mark.parametrize(
        ("s", "arms", "horizon"),
        [
            (["1"], 2, 4),
            (["7/10"], 2, 5),
            (["1/2"], 3, 3),
            (["9/10", "3/10"], 2, 3),
            (["9/10", "3/10"], 3, 2),
        ],
    )
    def test_is_that_of_fractions(self, s, arms, horizon):
        s = tuple(map(Fraction, s))
        wanted = float(exact_reward(s, arms, horizon))
        assert bayes_optimal([float(x) for x in s], arms, horizon).reward == pytest.approx(
            wanted, abs=1e-9
        )

    def test_by_hand(self):
        """One agent that sees all, two arms, two rounds: stay after a success (mean 2/3), change after a failure (1/2)."""
        known = bayes_optimal([1.0], 2, 2)
        assert known.reward == pytest.approx(1 / 2 + 1 / 2 * 2 / 3 + 1 / 2 * 1 / 2, abs=1e-12)
        assert known.regret == pytest.approx(2 * 2 / 3 - known.reward, abs=1e-12)

    def test_nothing_to_choose(self):
        known = bayes_optimal([0.6, 0.6], 2, 3)
        assert known.regret == pytest.approx(0.0, abs=1e-12)
        assert known.reward == pytest.approx(3 * 0.6 * (2 / 3 + 1 / 3), abs=1e-12)

    def test_one_more_round_is_worth_no_more_than_the_last_can_be(self):
        rewards = [bayes_optimal([0.8], 2, t).reward for t in range(1, 12)]
        gains = np.diff(rewards)
        assert (gains >= rewards[0] - 1e-12).all()
        assert (np.diff(gains) >= -1e-12).all()  # who knows more earns more
        assert (gains <= 0.8 * 2 / 3 + 1e-12).all()

    @pytest.mark.parametrize(
        ("s", "arms", "horizon"),
        [([0.7], 2, 9), ([0.9, 0.3], 3, 3), ([0.9, 0.4], 2, 5), ([0.5], 3, 6)],
    )
    def test_no_policy_is_better(self, s, arms, horizon):
        least = bayes_optimal(s, arms, horizon).regret
        found = {name: bayes_regret(name, s, arms, horizon).regret for name in COMPUTED}
        assert min(found.values()) >= least - 1e-10
        assert found["season"] <= 1.01 * least
        assert found["random"] > 1.2 * least

    def test_a_policys_regret_is_what_simulations_have(self, seed):
        """Means drawn 250 times; the mean over them is within 5.2 standard errors, false alarms: 2e-7 each."""
        random = np.random.default_rng(seed)
        names = ["min-width", "posterior-sorted", "season", "no-sharing", "cucb"]
        regrets = []
        for i in range(250):
            problem = Problem(random.random(3), [0.9, 0.3])
            results = simulate(problem, names, 5, 40, seed=i, checkpoints=1, threads=1)
            regrets.append([results.mean(name)[-1] for name in names])
        error = np.std(regrets, axis=0, ddof=1) / math.sqrt(len(regrets))
        wanted = [bayes_regret(name, [0.9, 0.3], 3, 5).regret for name in names]
        assert (abs(np.mean(regrets, axis=0) - wanted) < 5.2 * error).all()

    @pytest.mark.parametrize("name", ["thompson", "ucb", "oracle", "min-width-window"])
    def test_what_is_no_function_of_the_tables(self, name):
        with pytest.raises(InvalidInput, match="not a function of the two tables"):
            bayes_regret(name, [0.5], 2, 3)

    def test_what_is_too_large_is_refused_at_once(self):
        with pytest.raises(
            InvalidInput, match=r"2 agents, 4 arms and 50 rounds have up to 10\^\d+ tables"
        ):
            bayes_optimal([0.5, 0.4], 4, 50)
        assert bayes_optimal([0.5], 2, 12).states < TINY_WORLD_MAX_STATES

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (([0.5], 0, 3), "arms is 0"),
            (([0.5, 0.5], 1, 3), "arms is 1"),
            (([0.5], 2, 0), "horizon is 0"),
            (([2], 2, 3), r"sensitivities\[0\] is 2"),
        ],
    )
    def test_mistakes(self, arguments, words):
        with pytest.raises(InvalidInput, match=words):
            bayes_optimal(*arguments)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (([0.5], 1000, 9), "arms is 1000"),
            (([0.5] * 5, 8, 2), "the number of agents is 5"),
            (([0.5] * 4, 8, 1000), r"up to 10\^\d+ tables"),
        ],
    )
    def test_worlds_that_are_not_tiny(self, arguments, words):
        with pytest.raises(InvalidInput, match=words):
            bayes_optimal(*arguments)


class TestSeason:
    def test_the_end_is_that_of_the_run(self):
        problem = Problem([0.2, 0.5, 0.6], [0.9, 0.5])
        results = simulate(problem, ["season", policy("season", horizon=40)], 40, 50, keep="all")
        assert results.policies == ("season", "season(horizon=40)")
        np.testing.assert_array_equal(results.kept[0], results.kept[1])
        longer = simulate(problem, "season", 80, 50, keep="all", checkpoints=range(1, 41)).kept
        assert not np.array_equal(longer[:, :40], results.kept[:1, :40])

    def test_the_log_term_is_of_the_rounds_left(self):
        """docs/beyond.md (12): ln(1 + r / ln^1.25 r), with ln r at least 1."""
        from heterobandits.model.team import Team

        terms = policy("season", horizon=100).log_terms(Team([0.5]), 3, 0, 120)
        for t, term in enumerate(terms):
            r = max(1, 100 - t)
            assert term == pytest.approx(math.log(1 + r / max(1.0, math.log(r)) ** 1.25), rel=1e-14)
        as_long_again = policy("season").log_terms(Team([0.5]), 3, 0, 30)
        assert as_long_again[17] == pytest.approx(math.log(1 + 17 / math.log(17) ** 1.25))

    @pytest.mark.parametrize(("s", "arms", "T"), [((0.7,), 2, 20), ((0.9, 0.4), 2, 8), ((0.9, 0.3), 3, 4)])  # fmt: skip
    def test_its_bayes_regret_is_below_its_bound(self, s, arms, T):
        """docs/beyond.md (13)"""
        r = np.arange(1, T + 1)
        p = 1 / (1 + r / np.maximum(1, np.log(r)) ** 1.25)
        term = 2 * (2 * math.sqrt(math.log(T + 1)) + 1) * math.sqrt(len(s) * arms * T)
        wide = term * max(s) / min(s)
        for name, missed in (("season", p.sum()), ("bayes-ucb", 2 + math.log(T))):
            bound = max(s) * arms * (0.5 + missed) + wide
            assert 0 < bayes_regret(name, s, arms, T).regret < bound

    def test_several_tests_do_not_shorten_it(self):
        one = Problem([0.2, 0.5, 0.6], [0.9, 0.5], tests=[3, 1])
        whole = simulate(one, "season", 30, 20, seed=3, keep="all", checkpoints=30).kept
        fixed = simulate(
            one, policy("season", horizon=30), 30, 20, seed=3, keep="all", checkpoints=30, block=3
        ).kept
        np.testing.assert_array_equal(whole, fixed)

    def test_a_planner_is_told_how_long(self):
        planner = Planner([0.9, 0.5], 3, policy("season", horizon=10))
        for _ in range(4):
            planner.tell(planner.ask(), [1, 0])
        before = planner.ask()
        planner.lasts(1000)
        assert planner.policy.horizon == 1000
        longer = planner.ask()
        assert max(longer.index[0]) > max(before.index[0])
        again = Planner.from_json(planner.to_json())
        assert again.ask() == longer
        with pytest.raises(InvalidInput, match="another length of the season"):
            planner.explain(before)
        planner.lasts(10)
        assert planner.ask() == before

    def test_who_does_not_go_by_it(self):
        with pytest.raises(
            InvalidInput, match="posterior-sorted does not go by the length of the season"
        ):
            Planner([0.5], 2).lasts(10)
        with pytest.raises(InvalidInput, match="a policy's horizon is 0"):
            Planner([0.5], 2, "season").lasts(0)

    def test_the_last_rounds_exploit(self):
        """With one round left the index is the median; with many, far above it."""
        pulls = np.array([[[30], [2]]], np.int32)
        successes = np.array([[[18], [1]]], np.int32)
        from heterobandits.model.team import Team

        def index(elapsed):
            words = lambda first, count: np.zeros((count, 1), np.uint32)  # noqa: E731
            return policy("season", horizon=1000).index_rows(
                Team([0.9]), pulls, successes, elapsed, words
            )[0, :, 0]

        assert index(0)[1] > index(0)[0]
        assert index(999)[0] > index(999)[1]
