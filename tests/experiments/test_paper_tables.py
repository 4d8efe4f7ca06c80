"""The paper's tables: percent changes, their cells, rankings."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from evidence import as_published, exchanged, run_fresh, with_means
from heterobandits import simulate
from heterobandits.experiments import tables
from heterobandits.experiments.catalogue import (
    FIGURES,
    MISJUDGED,
    PUBLISHED_PERCENT_CHANGES,
    PUBLISHED_REGRET,
    SYNTHETIC,
)
from heterobandits.experiments.tables import (
    RegretCell,
    papers_percent,
    rankings_table,
    ratio_percent,
)
from reference import PAPER


class TestPercent:
    """The paper's statistic, its bias, and the ratio of means."""

    ESTIMATED = (3, 5, 4, 8)
    TRUE = (2, 4, 5, 10)

    @staticmethod
    def mean_and_se(values):
        n = len(values)
        mean = Fraction(sum(values), n)
        variance = sum((v - mean) ** 2 for v in values) / (n - 1)
        return float(mean), math.sqrt(variance / n)

    def test_papers_percent_pairs_a_trial_with_its_neighbour(self):
        found = papers_percent(np.array(self.ESTIMATED, float), np.array(self.TRUE, float))
        allowed = []
        for other in ((10, 2, 4, 5), (4, 5, 10, 2)):
            pairs = zip(self.ESTIMATED, other, strict=True)
            allowed.append(self.mean_and_se([100 * (Fraction(e) / o - 1) for e, o in pairs]))
        # (3/10 + 5/2 + 4/4 + 8/5) / 4 - 1 = 35 %
        assert allowed[0][0] == 35
        assert any(found == pytest.approx(pair, rel=1e-12) for pair in allowed)

    def test_ratio_percent_is_that_of_the_means(self):
        change, se = ratio_percent(np.array(self.ESTIMATED, float), np.array(self.TRUE, float))
        ratio = Fraction(20, 21)
        pairs = zip(self.ESTIMATED, self.TRUE, strict=True)
        residuals = [(e - ratio * t) / Fraction(21, 4) for e, t in pairs]
        assert change == pytest.approx(float(100 * (ratio - 1)), rel=1e-12)
        assert se == pytest.approx(100 * self.mean_and_se(residuals)[1], rel=1e-12)

    def test_the_same_trials_have_a_ratio_of_one_without_error(self):
        regrets = np.array([3.5, 1.25, 8.0, 2.0])
        assert ratio_percent(regrets, regrets) == (0.0, 0.0)
        assert ratio_percent(3 * regrets, regrets) == (200.0, 0.0)

    def test_only_the_papers_statistic_is_biased(self, seed):
        """Two independent samples of the same regret: false alarms below 1e-6."""
        problem = FIGURES[0].problem
        first, second = (
            simulate(problem, ["min-ucb"], 300, trials, seed, keep="final").regrets("min-ucb")
            for trials in (range(6000), range(6000, 12_000))
        )
        biased, biased_se = papers_percent(first, second)
        ratio, ratio_se = ratio_percent(first, second)
        # The bias is E[X] E[1/X] - 1 > 0 by Jensen, here some 12 standard errors.
        assert biased > 5 * biased_se
        assert abs(ratio) < 5.5 * ratio_se

    def test_bias_of_a_known_distribution(self, seed):
        """For a gamma distribution of shape k the bias is 1 / (k - 1): 25 % for k = 5."""
        first, second = np.random.default_rng(seed).gamma(5, size=(2, 20_000))
        biased, biased_se = papers_percent(first, second)
        assert abs(biased - 25) < 5.5 * biased_se
        ratio, ratio_se = ratio_percent(first, second)
        assert abs(ratio) < 5.5 * ratio_se


class TestCell:
    """Whether a published figure and ours agree."""

    def test_level_and_deviations_belong_together(self):
        assert (
            round(stats.norm.ppf(0.5 + tables.TABLE_CONFIDENCE / 2), 1)
            == tables.TABLE_STANDARD_ERRORS
        )

    @pytest.mark.parametrize("side", [-1, 1])
    def test_edges(self, side):
        # errors 0.3 and 0.4 make 0.5; 3.3 of them and half a published decimal make 1.7
        def cell(off, published_se=0.3, ours_se=0.4):
            return RegretCell("cucb", "covid-mix", 10.0, published_se, 10 + side * off, ours_se)

        assert cell(0).agrees
        assert cell(1.6999).agrees
        assert not cell(1.7001).agrees
        assert cell(0.0499, 0, 0).agrees
        assert not cell(0.0501, 0, 0).agrees
        assert not cell(math.nan).agrees

    def test_tables_have_the_cells_of_the_paper(self, figures):
        for found, published in (
            (tables.robustness_regret_table(figures), PUBLISHED_REGRET),
            (tables.robustness_percent_table(figures), PUBLISHED_PERCENT_CHANGES),
        ):
            cells = {(c.policy, c.case): (c.published, c.published_se) for c in found}
            assert len(found) == len(cells) == 9
            for policy, row in published.items():
                assert [cells[policy, case] for case in MISJUDGED] == list(row)

    def test_regrets_are_those_at_the_horizon(self, figures):
        for cell in tables.robustness_regret_table(figures):
            regrets = figures[cell.case].regrets(cell.policy)
            assert cell.ours == pytest.approx(regrets.mean())
            assert cell.ours_se == pytest.approx(regrets.std(ddof=1) / math.sqrt(len(regrets)))

    def test_percent_changes_are_against_known_sensitivities(self, figures):
        for cell in tables.robustness_percent_table(figures):
            ours, true = (figures[name].regrets(cell.policy) for name in (cell.case, "covid"))
            assert cell.ratio == pytest.approx(100 * (ours.mean() / true.mean() - 1), abs=1e-9)
            pairs = [100 * ((ours / np.roll(true, shift)).mean() - 1) for shift in (1, -1)]
            assert any(cell.ours == pytest.approx(value) for value in pairs)

    def test_no_sharing_changes_only_by_the_papers_statistic(self, figures):
        cells = [c for c in tables.robustness_percent_table(figures) if c.policy == "no-sharing"]
        assert [(c.ratio, c.ratio_se) for c in cells] == [(0.0, 0.0)] * 3
        assert all(c.ours != 0 and c.ours_se > 0 for c in cells)


class TestExactlyUnaffected:
    """What a misjudged sensitivity cannot change, to the bit."""

    @pytest.mark.parametrize("policy", ["no-sharing", "cucb", "ucb"])
    @pytest.mark.parametrize("case", MISJUDGED)
    def test_regrets_are_the_same_to_the_bit(self, figures, policy, case):
        true = figures["covid"].regrets(policy)
        assert figures[case].regrets(policy).tobytes() == true.tobytes()
        assert true.std() > 0

    @pytest.mark.parametrize("policy", ["min-width", "min-ucb"])
    @pytest.mark.parametrize("case", MISJUDGED)
    def test_the_others_are_affected(self, figures, policy, case):
        assert (figures[case].regrets(policy) != figures["covid"].regrets(policy)).any()


class TestRankings:
    """The published order beside ours."""

    ROW = SYNTHETIC[0]

    def verdict(self, results):
        (row,) = rankings_table({self.ROW.name: results})
        return row.verdict

    def test_as_published(self):
        (row,) = rankings_table({self.ROW.name: as_published(self.ROW), "covid": None})
        assert row.verdict == "match"
        assert row.ours == self.ROW.ranking == ("min-width", "min-ucb", "no-sharing", "ucb", "cucb")
        # steps of 10 (1 + 0.9 - 0.1) from 20 on
        assert row.means == pytest.approx([20, 38, 56, 74, 92], abs=1e-6)

    @pytest.mark.parametrize("pair", [*pairwise(ROW.ranking), ("min-width", "cucb")])
    def test_any_pair_in_the_other_order_is_a_mismatch(self, pair):
        assert self.verdict(exchanged(as_published(self.ROW), *pair)) == "mismatch"

    def test_an_order_that_may_be_chance_is_tied(self):
        means = dict(zip(self.ROW.ranking, (20, 40.1, 40, 60, 80), strict=True))
        table = [[means[name]] for name in PAPER]
        results = with_means(self.ROW.problem, 1000, (1000,), table, noise=1)
        assert self.verdict(results) == "tied"
        # the same means without the noise are apart
        results = with_means(self.ROW.problem, 1000, (1000,), table, noise=0.001)
        assert self.verdict(results) == "mismatch"

    def test_simulated(self, synthetic):
        rows = rankings_table(synthetic)
        assert [row.experiment.name for row in rows] == [e.name for e in SYNTHETIC]
        for row in rows:
            run = synthetic[row.experiment.name]
            assert list(row.means) == sorted(row.means)
            assert [run.mean(label)[-1] for label in row.ours] == list(row.means)
            if row.verdict == "match":
                assert row.ours == row.experiment.ranking

    def test_a_clear_setting(self, seed):
        """Neighbours in the order are over 20 standard errors apart: false alarms below 1e-6."""
        row = {e.name: e for e in SYNTHETIC}["synthetic-1_5-by-5_9"]
        results = run_fresh([replace(row, horizon=3000, trials=512)], seed)
        (found,) = rankings_table(results)
        assert found.verdict == "match"
        turned = exchanged(results[row.name], "min-width", "cucb")
        (found,) = rankings_table({row.name: turned})
        assert found.verdict == "mismatch"

    def test_json(self, synthetic):
        for row in rankings_table(synthetic):
            entry = json.loads(json.dumps(row.to_dict()))
            assert list(entry) == [
                "means",
                "sensitivities",
                "published",
                "ours",
                "regret",
                "verdict",
            ]
            assert tuple(entry["means"]) == row.experiment.problem.means
            assert tuple(entry["sensitivities"]) == row.experiment.problem.sensitivities
            assert tuple(entry["published"]) == row.experiment.ranking
            assert tuple(entry["ours"]) == row.ours
            assert tuple(entry["regret"]) == row.means
