"""How many trials a point gets, and what is said of its policies."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from heterobandits import Policy, Problem
from heterobandits.policies.policy import parse_policies
from heterobandits.simulation.engine import tally_regrets
from heterobandits.simulation.pool.doubling import trial_count
from heterobandits.simulation.pool.pieces import Point
from heterobandits.simulation.results import binary_places
from heterobandits.sweeps import stopping as module
from heterobandits.sweeps.stopping import (
    PointTotals,
    StatementLevels,
    Stopping,
    job_of_point,
    levels_of_point,
    stop_reason_of,
    verdicts_of_points,
)

HORIZON = 1000
PLACES = binary_places(HORIZON, 2)


def of(*regrets):
    """Totals of one point with these regrets of its policies, trial by trial."""
    table = np.array(regrets, float)[:, None, :]
    sums, products = tally_regrets(table, PLACES)
    whole = np.empty(1, object)
    whole[0] = table.shape[-1]
    most = np.full((1, 1), 2.0 * HORIZON)
    return PointTotals(whole, np.full(1, PLACES, object), sums[None], products[None], most)


def said(totals, level):
    """The verdicts at this level, for each policy."""
    return verdicts_of_points(totals, StatementLevels(level, level, 0.0)).said[0, :, 0].tolist()


def stopping(trials=8, most=64, precision=None, separate=None, confidence=0.95):
    return Stopping(trials, most, precision, separate, confidence)


class TestLooks:
    """When a point is looked at, and at which level."""

    @given(trials=st.integers(1, 10**6), factor=st.integers(1, 10**4), more=st.integers(0, 100))
    def test_they_double_up_to_the_most(self, trials, factor, more):
        found = module.look_trials(stopping(trials, trials * factor + more))
        assert found[0] == trials
        assert found[-1] == trials * factor + more
        assert all(b == 2 * a for a, b in pairwise(found[:-1]))
        assert all(a < b <= 2 * a for a, b in pairwise(found))

    def test_the_error_is_shared(self):
        # looks after 8, 16, 32 and 64 trials; six pairs of four policies
        found = levels_of_point(stopping(separate=0.99), 4)
        assert 1 - found.interval == pytest.approx(0.05 / 4)
        assert 1 - found.verdict == pytest.approx(0.01 / (4 * 6))
        # each of six pairs can be put in the wrong order in two ways; looks cost bets nothing
        assert math.exp(-found.evidence) == pytest.approx(0.01 / 12)
        alone = levels_of_point(stopping(8, 8), 2)
        assert alone.interval == alone.verdict == pytest.approx(0.95)
        assert levels_of_point(stopping(8, 8), 1).verdict == pytest.approx(0.95)
        assert math.exp(-alone.evidence) == pytest.approx(0.05 / 2)


class TestVerdicts:
    """Who has the least regret, by pairs on the same luck."""

    def test_ahead_behind_unclear_and_same(self):
        luck = np.array([0.0, 3.0, 1.0, 2.0, 5.0, 4.0])
        noise = np.array([0.1, -0.1, 0.2, -0.2, 0.1, -0.1])
        clear = of(10 + luck, 12 + luck + noise, 20 + luck - noise)
        assert said(clear, 0.95) == ["ahead", "behind", "behind"]
        close = of(10 + luck, 10.01 + luck + noise, 20 + luck)
        assert said(close, 0.95) == ["unclear", "unclear", "behind"]
        same = of(10 + luck, 10 + luck, 20 + luck + noise)
        assert said(same, 0.95) == ["same", "same", "behind"]
        nothing = of(0 * luck, 0 * luck)
        assert said(nothing, 0.95) == ["same", "same"]
        alone = of(luck)
        assert said(alone, 0.95) == ["ahead"]

    def test_as_scipy_says(self):
        """A policy is behind just where the paired t-test of the difference from the best says so."""
        random = np.random.default_rng(5)
        seen = set()
        for _ in range(60):
            regrets = random.normal(50, 3, 12) + random.normal(
                random.uniform(0, 3, (4, 1)), 2, (4, 12)
            )
            best = regrets.mean(axis=1).argmin()
            found = said(of(*regrets), 0.9)
            for p in range(4):
                if p != best:
                    test = stats.ttest_rel(regrets[p], regrets[best])
                    behind = test.confidence_interval(0.9).low > 0
                    assert (found[p] == "behind") == behind
                    seen.add(found[p])
            clear = all(found[p] == "behind" for p in range(4) if p != best)
            assert found[best] == ("ahead" if clear else "unclear")
        assert seen == {"behind", "unclear"}

    def test_one_trial_says_nothing_of_what_differs(self):
        assert said(of([1.0], [2.0]), 0.95) == ["unclear", "unclear"]


class TestStopped:
    """Why a point gets no more trials."""

    LUCK = np.array([0.0, 3.0, 1.0, 2.0, 5.0, 4.0, 2.0, 1.0])
    NOISE = np.array([0.1, -0.1, 0.2, -0.2, 0.1, -0.1, 0.3, -0.3])

    def test_as_many_as_said(self):
        assert stop_reason_of(of(self.LUCK, 1 + self.LUCK), stopping(8, 8), 0) == "fixed"

    def test_told_apart(self):
        clear = of(10 + self.LUCK, 12 + self.LUCK + self.NOISE)
        close = of(10 + self.LUCK, 10 + self.LUCK + self.NOISE)
        assert stop_reason_of(clear, stopping(separate=0.99), 0) == "told apart"
        assert stop_reason_of(close, stopping(separate=0.99), 0) is None
        assert stop_reason_of(close, stopping(most=8, separate=0.99), 0) == "limit"

    def test_narrow(self):
        """The half width of the interval, in the logarithm of the ratio, by hand."""
        x, y = 10 + self.LUCK + self.NOISE, 12 + self.LUCK
        spread = np.std(x / x.mean() - y / y.mean(), ddof=1) / math.sqrt(8)
        reach = stats.t.ppf(1 - 0.05 / 4 / 2, 7) * spread
        within = math.expm1(reach)
        for reference in (0, 1):
            assert (
                stop_reason_of(of(x, y), stopping(precision=within * 1.001), reference) == "narrow"
            )
            assert stop_reason_of(of(x, y), stopping(precision=within * 0.999), reference) is None

    def test_either_is_enough(self):
        """The second is told apart from the first, and the third is as good as equal to it."""
        three = of(10 + self.LUCK, 20 + self.LUCK + self.NOISE, 10 + self.LUCK + self.NOISE)
        assert stop_reason_of(three, stopping(separate=0.99), 1) is None
        assert stop_reason_of(three, stopping(precision=0.03), 1) is None
        assert stop_reason_of(three, stopping(precision=0.03, separate=0.99), 1) == "narrow"

    @pytest.mark.parametrize("regret", [0.0, 1.0])
    def test_equals_are_equal_after_many_trials(self, regret):
        """Regret or none: eight trials say little, three hundred that they differ in 1 % of trials at most."""
        few = of(regret * self.LUCK, regret * self.LUCK)
        many = of(*[regret * np.tile(self.LUCK, 40)] * 2)
        for how, why in (
            ({"separate": 0.99}, "same"),
            ({"precision": 0.01}, "narrow"),
            ({"precision": 0.01, "separate": 0.99}, "same"),
        ):
            assert stop_reason_of(few, stopping(most=4096, **how), 0) is None
            assert stop_reason_of(many, stopping(most=4096, **how), 0) == why
            assert stop_reason_of(few, stopping(most=8, **how), 0) == "limit"
        assert 0.99**module.SAME_MIN_TRIALS < 0.05

    def test_no_pair_is_put_in_the_wrong_order_too_often(self, seed):
        """Sixteen policies that are equally good: one is called behind in 5 % at most, of 300 points 35 with 1 - 1e-6.

        Allowing for the 15 pairs of one of them instead of all 120, some 20 % would be, 60 points.
        """
        random = np.random.default_rng([seed, 17])
        level = levels_of_point(stopping(30, 30), 16).verdict
        wrong = 0
        for _ in range(300):
            found = said(of(*(100 + random.normal(0, 5, (16, 30)))), level)
            wrong += "behind" in found
        assert wrong <= stats.binom.isf(1e-6, 300, 0.05)
        assert stats.binom.isf(1e-6, 300, 0.05) < 40

    def test_only_the_last_checkpoint_counts(self):
        early = np.stack([self.NOISE, self.NOISE[::-1]])
        late = np.stack([10 + self.LUCK, 12 + self.LUCK + self.NOISE])
        sums, products = tally_regrets(np.stack([early, late], axis=1) + 1, PLACES)
        whole = np.full(1, 8, object)
        places = np.full(1, PLACES, object)
        both = PointTotals(
            whole, places, sums[None], products[None], np.full((1, 2), 2.0 * HORIZON)
        )
        assert stop_reason_of(both, stopping(separate=0.99), 0) == "told apart"

    def test_looking_again_does_not_spoil_the_level(self, seed):
        """Two policies that are equally good, looked at up to five times: told apart by mistake in 5 % at most.

        Of 600 points that are at most 30 in the mean, and with probability 1 - 1e-6 at most 58. Without sharing the error
        some 14 % would be, 84 points.
        """
        random = np.random.default_rng([seed, 13])
        how = stopping(16, 256, separate=0.95)
        wrong = 0
        for _ in range(600):
            regrets = 100 + random.normal(0, 10, 256) + random.normal(0, 5, (2, 256))
            for n in module.look_trials(how):
                why = stop_reason_of(of(*regrets[:, :n]), how, 0)
                if why is not None:
                    break
            wrong += why == "told apart"
        assert wrong <= stats.binom.isf(1e-6, 600, 0.05)
        assert stats.binom.isf(1e-6, 600, 0.05) == 58


class TestJob:
    """A point asks for trials until it is known well enough."""

    def point(self, *policies):
        problem = Problem([0.1, 0.5, 0.3], [0.2, 0.9])
        return Point(problem, parse_policies(policies), 50, (50,), 1)

    @settings(max_examples=10)
    @given(
        separate=st.sampled_from([None, 0.9, 0.999]), precision=st.sampled_from([None, 0.05, 0.5])
    )
    def test_it_ends_where_it_is_stopped(self, separate, precision):
        point = self.point("min-width", "cucb")
        how = stopping(8, 64 if separate or precision else 8, precision, separate)
        job = job_of_point(point, how, 0)
        rows, asked = [], []
        while pieces := job.wants(rows):
            control = np.zeros(3, np.int64)
            rows += [piece.play(control) for piece in pieces]
            asked.append(sum(row.last - row.first for row in rows))
        looked, fresh, over = job.parts(rows)
        assert over
        n = trial_count(looked)
        *before, last = [k for k in module.look_trials(how) if k <= n]
        assert last == n
        assert (looked[0].first, looked[0].last) == (0, 8)
        why = job.look(looked)
        assert why == stop_reason_of(module.totals_of_point(point, looked), how, 0) is not None
        assert (why == "limit") <= (n == how.most_trials)
        for k in before:
            early = [row for row in looked if row.last <= k]
            assert stop_reason_of(module.totals_of_point(point, early), how, 0) is None
        if why == "fixed":
            assert (asked, fresh) == ([8], looked)
        else:  # as many trials again, that nobody looked at
            assert asked == [*before, n, 2 * n]
            assert (fresh[0].first, fresh[-1].last, trial_count(fresh)) == (n, 2 * n, n)

    def test_policies_of_ones_own_too(self):
        own = Policy("own", index=lambda known: known.successes.sum(axis=0) + 0.0)
        rows = [
            piece.play(np.zeros(3, np.int64))
            for piece in job_of_point(self.point("min-width", own), stopping(8, 8), 0).wants([])
        ]
        assert int(module.totals_of_point(self.point("min-width", own), rows).trials[0]) == 8
