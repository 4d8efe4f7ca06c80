"""Rules that seldom fail, and then for the rest of the season: what is said of them, and what may be."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evidence import handmade
from heterobandits import PAPER, Problem, simulate
from heterobandits.experiments import comparison
from heterobandits.experiments.catalogue import Experiment
from heterobandits.policies.policy import parse_policies
from heterobandits.simulation import moments
from heterobandits.simulation.engine import tally_regrets
from heterobandits.simulation.pool.pieces import PieceResult, Point
from heterobandits.simulation.results import binary_places, count_failed_trials
from heterobandits.sweeps import stopping
from heterobandits.sweeps.report import cells
from heterobandits.sweeps.stopping import Stopping, levels_of_point, verdicts_of_points

# one agent, two arms: the worst of 1,000 rounds costs 1,000 * 0.9 * 0.1 = 90
PROBLEM = Problem([0.8, 0.9], [0.9])
HORIZON, MOST = 1000, 90.0
PLACES = binary_places(HORIZON, 1)


def sums_of(x, y):
    """Two policies' regrets, trial by trial, as `moments` takes them."""
    sums, products = tally_regrets(np.array([x, y], float)[:, None, :], PLACES)
    return len(x), PLACES, *sums[:, 0], products[0, 0, 0], products[0, 1, 0], products[1, 1, 0]


def evidence(x, y):
    return float(moments.log_evidence(MOST, *sums_of(x, y)))


class TestEvidence:
    """The evidence that one policy has less regret than another, whatever the law of the regrets is."""

    @given(
        d=st.lists(st.floats(-MOST, MOST), min_size=1, max_size=40), level=st.floats(-20.0, 20.0)
    )
    def test_it_is_no_more_than_that_of_the_bets_themselves(self, d, level):
        """Each bet's product, trial by trial; what stands in `moments` needs sums and squares alone."""
        x, y = np.maximum(0, d), np.maximum(0, np.negative(d))
        products = [math.fsum(math.log1p(-u * one / MOST) for one in d) for u in moments.BET_SHARES]
        most = np.logaddexp.reduce(products) - math.log(len(products))
        assert evidence(x, y) <= most + 1e-9

    def test_equal_regrets_say_nothing(self):
        assert evidence(np.ones(50), np.ones(50)) == 0
        nowhere = moments.log_evidence(0.0, *sums_of(np.zeros(5), np.zeros(5)))
        assert nowhere == -math.inf  # all arms alike: there is no regret

    def test_a_difference_that_stays_is_found(self):
        """Gaps of a tenth of what can be lost, in 100 trials: at least exp(0.95 * 10 - 2.05 * 1) / 6."""
        assert evidence(np.full(100, 1.0), np.full(100, 10.0)) >= 0.95 * 10 - 2.05 - math.log(6)
        assert evidence(np.full(100, 10.0), np.full(100, 1.0)) < 0

    @pytest.mark.parametrize("share", [1 / 300, 1 / 100, 1 / 30, 1 / 10])
    def test_equals_are_seldom_put_in_order_however_rare_failures_are(self, share):
        """One fails in a share of the trials and loses all; the other loses as much on the average, always the same.

        The probability that the evidence reaches ln(1/0.01) at one of these looks or another is computed exactly: after n trials it
        depends on the number that failed alone.
        """
        alive, wrong, before = np.ones(1), 0.0, 0
        for n in (16, 64, 256, 1024):
            more = stats.binom.pmf(np.arange(n - before + 1), n - before, share)
            alive, before = np.convolve(alive, more), n
            for k in np.flatnonzero(alive > 1e-12):
                failing = np.where(np.arange(n) < k, MOST, 0.0)
                steady = np.full(n, share * MOST)
                found = max(evidence(failing, steady), evidence(steady, failing))
                if found >= math.log(2 / 0.01):
                    wrong += alive[k]
                    alive[k] = 0.0
        assert wrong <= 0.01

    def test_students_verdict_is_wrong_there_and_is_not_sure(self):
        """Failures in 1 % of the trials: of 64 trials half show none, and Student's interval excludes what is true."""
        random = np.random.default_rng(1)
        level = levels_of_point(Stopping(64, 64, None, None, 0.99), 2)
        wrong = sure = 0
        for _ in range(200):
            x = np.where(random.random(64) < 0.01, MOST, 0.0)
            found = verdicts_of_points(totals(np.stack([x, np.full(64, 0.01 * MOST)])), level)
            wrong += "ahead" in found.said
            sure += found.sure.any()
        assert wrong > 50
        assert sure == 0

    def test_results_have_it(self):
        results = simulate(PROBLEM, ["min-width", "greedy"], HORIZON, 60, seed=3, keep="final")
        x, y = results.regrets("min-width"), results.regrets("greedy")
        assert results.evidence("greedy", "min-width")[-1] == pytest.approx(
            evidence(y, x), rel=1e-9
        )


def totals(regrets):
    """Totals of one point with these regrets[policy, trial]."""
    return stopping.totals_of_point(point_of(len(regrets)), [row_of(regrets, 0)])


def point_of(policies):
    """A point with so many policies, whatever they are."""
    names = ("min-width", "cucb", "min-ucb", "no-sharing")[:policies]
    return Point(PROBLEM, parse_policies(names), HORIZON, (HORIZON,), 0)


def row_of(regrets, first):
    """A piece with these regrets[policy, trial]."""
    P, n = regrets.shape
    sums, products = tally_regrets(np.ascontiguousarray(regrets, float)[:, None, :], PLACES)
    upper = products[np.triu_indices(P)]
    return PieceResult("key", first, first + n, "{}", sums.ravel().tolist(), upper.ravel().tolist(), [0.0], [], [0.0] * P, [0] * P)  # fmt: skip


@given(
    means=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    sensitivities=st.lists(st.floats(0.1, 1), min_size=1, max_size=3),
)
def test_the_most_regret_is_that_of_the_worst_assignment(means, sensitivities):
    sensitivities = sensitivities[: len(means)]
    problem = Problem(means, sensitivities)
    worst = max(
        problem.regret(arms) for arms in permutations(range(len(means)), len(sensitivities))
    )
    assert problem.most_regret([1, 7]) == pytest.approx([worst, 7 * worst], abs=1e-12)


def test_the_most_regret_where_places_change():
    """From round 3 on the arms lie 0.5 apart instead of 0.1; in a wave every round counts for itself."""
    changed = Problem([0.8, 0.9], [0.9], drift={"changes": [[3, [0.6, 0.1]]]})
    assert changed.most_regret([1, 2, 3, 10]) == pytest.approx([0.09, 0.18, 0.63, 0.18 + 8 * 0.45])
    wave = Problem([0.2, 0.5], [0.9], drift={"amplitude": 0.2, "period": 10})
    each = [abs(np.subtract(*wave.at(t).means)) * 0.9 for t in range(1, 21)]
    assert wave.most_regret([4, 20]) == pytest.approx([sum(each[:4]), sum(each)])


def test_failed_trials_have_over_ten_times_the_medians_regret():
    """And over a hundredth of what can be lost: little beside almost nothing is no failure."""
    regrets = np.array([[1.0] * 7 + [10.0, 10.1, 500.0], [0.0] * 8 + [2.0, 0.9], [5.0] * 10])
    assert count_failed_trials(regrets, 100.0).tolist() == [2, 1, 0]
    assert count_failed_trials(regrets, [100.0, 300.0, 100.0]).tolist() == [2, 0, 0]
    assert count_failed_trials(regrets[None], 20_000.0).tolist() == [[1, 0, 0]]
    assert (
        count_failed_trials(np.array([0.0, 0.0, 1e-15]), 0.0) == 0
    )  # all arms alike: rounding is no failure


def test_a_piece_has_the_largest_regret_and_what_failed():
    """Greedy settles on the wrong arm now and then; at every checkpoint."""
    point = Point(PROBLEM, parse_policies(["greedy", "min-width"]), 2000, (50, 2000), 5)
    row = point.pieces(range(100))[0].play(np.zeros(3, np.int64))
    whole = simulate(PROBLEM, ["greedy", "min-width"], 2000, 100, seed=5, checkpoints=[50, 2000], keep="all")  # fmt: skip
    assert np.reshape(row.largest, (2, 2)) == pytest.approx(whole.kept.max(axis=-1))
    median = np.median(whole.kept, axis=-1, keepdims=True)
    far = 0.01 * PROBLEM.most_regret([50, 2000])[None, :, None]
    failed = ((whole.kept > 10 * median) & (whole.kept > far)).sum(axis=-1)
    assert np.reshape(row.failed, (2, 2)).tolist() == failed.tolist()
    assert failed[0, 1] > 0
    assert failed[1, 1] == 0


class TestNumbers:
    """Whoever stops when a difference is large finds it too large: numbers are of the trials after that."""

    STOPPING = Stopping(16, 128, None, 0.95, 0.95)

    def played(self, random, gap):
        """The mean log ratio of two policies by what was looked at, and by what came after."""
        regrets = np.maximum(0.1, 20 + random.normal(0, 4, (2, 256)) + np.array([[0.0], [gap]]))
        point, rows = point_of(2), []
        job = stopping.job_of_point(point, self.STOPPING, 0)
        while wanted := job.wants(rows):
            for piece in wanted:
                trials = regrets[:, piece.trials.start : piece.trials.stop]
                rows.append(row_of(trials, piece.trials.start))
        parts = job.parts(rows)
        found = [stopping.totals_of_point(point, some) for some in (parts.looked, parts.fresh)]
        return [moments.mean_of_sums(t.trials, t.places, t.sums[0, :, 0]) for t in found]

    def test_differences_are_not_too_large(self, seed):
        """Of a true difference of 1.4, 1 standard error of 16 trials; five standard errors are a false alarm in 2e-6."""
        random = np.random.default_rng([seed, 23])
        means = np.array([self.played(random, 1.4) for _ in range(1500)])
        looked, fresh = (means[:, i, 1] - means[:, i, 0] for i in (0, 1))
        assert abs(fresh.mean() - 1.4) <= 5 * stats.sem(fresh)
        assert looked.mean() - 1.4 > 5 * stats.sem(looked)  # and so they would be

    @pytest.mark.slow
    def test_a_cells_interval_over_draws_covers(self, seed):
        """Twenty draws with the same ratio: of 120 cells at least 0.95 do, less what chance takes in one of a million."""
        random = np.random.default_rng([seed, 29])
        truth = math.log(21.4 / 20.0)
        covered = {0: 0, 1: 0}
        draws = np.arange(20)
        for _ in range(120):
            means = np.array([self.played(random, 1.4) for _ in draws])
            for i in covered:
                one = cells.ratios_in_cells(means[:, i, 1], means[:, i, 0], np.zeros(20, np.int64), 1, draws, 0.025)  # fmt: skip
                covered[i] += one.lower[0] <= math.exp(truth) <= one.upper[0]
        assert covered[1] >= stats.binom.ppf(1e-6, 120, 0.95)
        assert covered[0] < stats.binom.ppf(1e-6, 120, 0.95)


def test_none_of_equals_is_behind_too_often(seed):
    """The paper's five and another, all equally good: one of them is behind in 0.5 % at most, of 2,000 runs in 27 with 1 - 1e-6.

    Beside the one that happens to have the least regret it was in 2.1 %, 42 runs.
    """
    random = np.random.default_rng([seed, 31])
    names = (*PAPER, "mixture-width")
    experiment = Experiment("p", "a problem", PROBLEM, HORIZON, 60, "", policies=names)
    wrong = 0
    for _ in range(2000):
        regrets = 20 + random.normal(0, 3, (6, 1, 60))
        made = handmade(PROBLEM, HORIZON, (HORIZON,), regrets, names)
        wrong += comparison.verdict_of(experiment, made, "mixture-width")[0] == "behind"
    assert wrong <= stats.binom.isf(1e-6, 2000, 0.005)
    assert stats.binom.isf(1e-6, 2000, 0.005) < 30
