"""The paper's experiments: catalogue, tables, claims, finished runs, and the whole reproduction."""

import base64
import csv
import json
import math
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from heterobandits import InvalidInput, Problem, Results, simulate
from heterobandits.experiments import claims, report, runs, tables
from heterobandits.experiments.catalogue import (
    CASES,
    FIGURES,
    LONG,
    PUBLISHED_PERCENT,
    PUBLISHED_REGRET,
    SYNTHETIC,
    Experiment,
)
from heterobandits.experiments.claims import (
    CLAIMS,
    RANGERS,
    THEORY,
    Evidence,
    Judged,
    covered,
    first_apart,
    growing,
    joint,
    judge,
    sign,
)
from heterobandits.experiments.reproduce import GROUPS, Reproduction, chosen_experiments, reproduce
from heterobandits.experiments.runs import Kept, run_all, with_trials
from heterobandits.experiments.tables import (
    Cell,
    Percent,
    Ranking,
    papers_percent,
    rankings,
    ratio_percent,
)
from heterobandits.experiments.theory import Theory, check_theory, lemma_sum
from heterobandits.promises import WATCHED, Coverage, coverage
from heterobandits.results import binary_places, tally

PAPER = ("min-width", "min-ucb", "no-sharing", "cucb", "ucb")
AWARE = PAPER[:3]
SMALL = Experiment("small", "a small one", Problem([0.1, 0.5], [0.1, 0.9]), 40, 20, "no figure")
OTHER = Experiment("other", "another one", Problem([0.2, 0.9], [0.5, 0.6]), 30, 20, "no figure")


def handmade(problem, horizon, rounds, regrets):
    """Results whose regrets[policy, checkpoint, trial] were not simulated but given."""
    sums, products = tally(regrets, binary_places(horizon, problem.agents))
    return Results(
        problem=problem,
        policies=PAPER,
        parameters=tuple({"name": name} for name in PAPER),
        horizon=horizon,
        seed=0,
        rounds=tuple(rounds),
        spans=((0, regrets.shape[-1]),),
        sums=sums,
        products=products,
        seconds=(0.0,) * len(PAPER),
        partial=False,
        versions={},
        kept_rounds=tuple(rounds[-1:]),
        kept=regrets[:, -1:],
    )


def with_means(problem, horizon, rounds, means, noise=0.01):
    """Handmade results with these mean regrets[policy][checkpoint], and a little noise that is no policy's alone."""
    luck = np.array([-1.0, 1.0, -2.0, 2.0, 3.0, -3.0])
    own = np.array([np.roll(luck, p) for p in range(len(PAPER))])
    regrets = np.array(means, float)[:, :, None] + noise * own[:, None, :]
    return handmade(problem, horizon, rounds, regrets)


def exchanged(results, one, other):
    """The same results with the numbers of two policies exchanged."""
    order = list(range(len(results.policies)))
    p, q = results.position(one), results.position(other)
    order[p], order[q] = q, p
    return replace(
        results,
        sums=results.sums[order],
        products=results.products[np.ix_(order, order)],
        kept=None if results.kept is None else results.kept[order],
    )


def tripled(results, policy):
    """The same results, but for one policy with three times the regret."""
    factor = np.ones(len(results.policies), object)
    factor[results.position(policy)] = 3
    kept = results.kept * factor.astype(float)[:, None, None]
    return replace(
        results,
        sums=results.sums * factor[:, None],
        products=results.products * factor[:, None, None] * factor[None, :, None],
        kept=kept,
    )


def bits(results):
    """Everything in results that is a number, but for the time it took."""
    kept = None if results.kept is None else results.kept.tobytes()
    return results.rounds, results.spans, results.sums.tolist(), results.products.tolist(), kept


def run_fresh(experiments, seed):
    """The results of these experiments, without anything kept of earlier runs."""
    with TemporaryDirectory() as folder:
        return run_all(experiments, seed, Kept(Path(folder), resume=False))


def as_published(experiment):
    """Handmade results in which a setting's policies come out as published, clearly apart.

    The gaps grow with the spread of the sensitivities, as the abstract has it.
    """
    s = experiment.problem.sensitivities
    step = 10 * (1 + max(s) - min(s))
    means = [[20 + step * experiment.ranking.index(name)] for name in PAPER]
    return with_means(experiment.problem, 1000, (1000,), means)


def slowly_apart():
    """Handmade results of the three teams: the more rangers, the sooner the regrets are apart."""
    rounds = (10, 100, 200, 400)
    largest = {
        "poaching-2": (10, 11, 12, 30),
        "poaching-3": (10, 11, 30, 90),
        "poaching-5": (10, 30, 90, 270),
    }
    figures = {e.name: e for e in FIGURES}
    return {
        name: with_means(figures[name].problem, 400, rounds, [[10] * 4] * 4 + [list(row)])
        for name, row in largest.items()
    }


# every share of trials in which a promise failed is 0.01, but for the regret's
STUDY = Coverage(**dict.fromkeys(Coverage._fields, 0.01))._replace(
    trials=10_000,
    horizon=300,
    delta=0.05,
    regret_bound=900.0,
    worst_regret=80.0,
    over_regret_bound=0.0,
)
THEORY_HELD = Theory(STUDY, 1e-13, 0.9)


@pytest.fixture(scope="module")
def figures(seed):
    """All figures with few trials; more for the cases, whose differences are the smallest."""
    chosen = [
        replace(e, trials=400 if e.problem.agents == 5 and e.horizon == 300 else 150)
        for e in FIGURES
    ]
    return run_fresh(chosen, seed)


@pytest.fixture(scope="module")
def synthetic(seed):
    """All settings of the synthetic table, for a short while."""
    return run_fresh([replace(e, horizon=3000, trials=32) for e in SYNTHETIC], seed)


@pytest.fixture(scope="module")
def paper(figures):
    """Evidence for every claim: figures as simulated, the synthetic table as published."""
    table = {e.name: as_published(e) for e in SYNTHETIC}
    return Evidence({**figures, **table}, dict.fromkeys(THEORY, THEORY_HELD))


class TestCatalogue:
    """What is run, and what was published about it."""

    def test_the_table_has_36_settings_with_names_of_their_own(self):
        assert len(SYNTHETIC) == 36
        names = [e.name for e in (*FIGURES, *SYNTHETIC, *LONG)]
        assert len(set(names)) == len(names)
        settings = {(e.problem.means, e.problem.sensitivities) for e in SYNTHETIC}
        assert len(settings) == 36

    def test_rankings_rank_the_papers_five(self):
        assert all(sorted(e.ranking) == sorted(PAPER) for e in SYNTHETIC)
        assert not any(e.ranking for e in (*FIGURES, *LONG))

    def test_who_is_first(self):
        first = Counter(e.ranking[0] for e in SYNTHETIC)
        assert first == {"min-width": 24, "min-ucb": 11, "cucb": 1}
        (identical,) = (e for e in SYNTHETIC if len(set(e.problem.sensitivities)) == 1)
        assert identical.ranking[0] == "cucb"
        # Min-UCB is only ever first where there are arms left over.
        fewer = [e.problem.agents < e.problem.arms for e in SYNTHETIC if e.ranking[0] == "min-ucb"]
        assert all(fewer)

    def test_sizes_of_the_settings(self):
        sizes = Counter((e.problem.agents, e.problem.arms) for e in SYNTHETIC)
        assert sizes == {(2, 2): 16, (3, 3): 5, (2, 3): 14, (2, 4): 1}

    def test_horizons_are_the_figures(self):
        horizons = {e.name: e.horizon for e in FIGURES}
        assert {horizons[name] for name in ("covid", *CASES)} == {300}
        assert {horizons[name] for name in ("hotel", *RANGERS)} == {5000}
        assert {e.horizon for e in SYNTHETIC} == {100_000}
        assert [e.horizon for e in LONG] == [45_000, 90_000, 60_000, 30_000]

    def test_trials_of_the_paper(self):
        published = {e.name: e.published_trials for e in FIGURES}
        assert {published[case] for case in CASES} == {500}
        assert {published[name] for name in ("covid", "hotel", *RANGERS)} == {90}

    def test_the_cases_misjudge_what_they_say(self):
        problems = {e.name: e.problem for e in FIGURES}
        signs = {
            name: {
                math.copysign(1, b - s) for b, s in zip(p.believed, p.sensitivities, strict=True)
            }
            for name, p in problems.items()
            if name in CASES
        }
        assert signs == {"covid-over": {1}, "covid-under": {-1}, "covid-mix": {1, -1}}
        assert all(problems[case].means == problems["covid"].means for case in CASES)

    def test_published_tables_have_nine_cells(self):
        for table in (PUBLISHED_REGRET, PUBLISHED_PERCENT):
            assert tuple(table) == AWARE
            assert [len(row) for row in table.values()] == [3, 3, 3]
            assert all(se > 0 for row in table.values() for _, se in row)

    def test_groups_name_experiments_that_are_there(self):
        names = {e.name for e in (*FIGURES, *SYNTHETIC, *LONG)}
        assert all(set(group) <= names for group in GROUPS.values())
        assert set().union(*GROUPS.values()) == names

    def test_chosen_experiments(self):
        def named(only, long=False):
            return [e.name for e in chosen_experiments(only, long)]

        assert len(named([])) == 9 + 36
        assert len(named([], long=True)) == 9 + 36 + 4
        assert named(["robustness"]) == ["covid", *CASES]
        assert named(["hotel", "covid", "hotel", "theory"]) == ["covid", "hotel", "poaching-5"]
        assert named(["hotel"], long=True) == ["hotel", *GROUPS["long"]]
        with pytest.raises(InvalidInput, match=r"unknown experiment 'poching': .*'poaching'"):
            named(["covid", "poching"])


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
        assert round(stats.norm.ppf(0.5 + tables.LEVEL / 2), 1) == tables.DEVIATIONS

    @pytest.mark.parametrize("side", [-1, 1])
    def test_edges(self, side):
        # errors 0.3 and 0.4 make 0.5; 3.3 of them and half a published decimal make 1.7
        def cell(off, published_se=0.3, ours_se=0.4):
            return Cell("cucb", "covid-mix", 10.0, published_se, 10 + side * off, ours_se)

        assert cell(0).agrees
        assert cell(1.6999).agrees
        assert not cell(1.7001).agrees
        assert cell(0.0499, 0, 0).agrees
        assert not cell(0.0501, 0, 0).agrees
        assert not cell(math.nan).agrees

    def test_tables_have_the_cells_of_the_paper(self, figures):
        for found, published in (
            (tables.robustness_regret(figures), PUBLISHED_REGRET),
            (tables.robustness_percent(figures), PUBLISHED_PERCENT),
        ):
            cells = {(c.policy, c.case): (c.published, c.published_se) for c in found}
            assert len(found) == len(cells) == 9
            for policy, row in published.items():
                assert [cells[policy, case] for case in CASES] == list(row)

    def test_regrets_are_those_at_the_horizon(self, figures):
        for cell in tables.robustness_regret(figures):
            regrets = figures[cell.case].regrets(cell.policy)
            assert cell.ours == pytest.approx(regrets.mean())
            assert cell.ours_se == pytest.approx(regrets.std(ddof=1) / math.sqrt(len(regrets)))

    def test_percent_changes_are_against_known_sensitivities(self, figures):
        for cell in tables.robustness_percent(figures):
            ours, true = (figures[name].regrets(cell.policy) for name in (cell.case, "covid"))
            assert cell.ratio == pytest.approx(100 * (ours.mean() / true.mean() - 1), abs=1e-9)
            pairs = [100 * ((ours / np.roll(true, shift)).mean() - 1) for shift in (1, -1)]
            assert any(cell.ours == pytest.approx(value) for value in pairs)

    def test_no_sharing_changes_only_by_the_papers_statistic(self, figures):
        cells = [c for c in tables.robustness_percent(figures) if c.policy == "no-sharing"]
        assert [(c.ratio, c.ratio_se) for c in cells] == [(0.0, 0.0)] * 3
        assert all(c.ours != 0 and c.ours_se > 0 for c in cells)


class TestExactlyUnaffected:
    """What a misjudged sensitivity cannot change, to the bit."""

    @pytest.mark.parametrize("policy", ["no-sharing", "cucb", "ucb"])
    @pytest.mark.parametrize("case", CASES)
    def test_regrets_are_the_same_to_the_bit(self, figures, policy, case):
        true = figures["covid"].regrets(policy)
        assert figures[case].regrets(policy).tobytes() == true.tobytes()
        assert true.std() > 0

    @pytest.mark.parametrize("policy", ["min-width", "min-ucb"])
    @pytest.mark.parametrize("case", CASES)
    def test_the_others_are_affected(self, figures, policy, case):
        assert (figures[case].regrets(policy) != figures["covid"].regrets(policy)).any()


class TestRankings:
    """The published order beside ours."""

    ROW = SYNTHETIC[0]

    def verdict(self, results):
        (row,) = rankings({self.ROW.name: results})
        return row.verdict

    def test_as_published(self):
        (row,) = rankings({self.ROW.name: as_published(self.ROW), "covid": None})
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
        rows = rankings(synthetic)
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
        (found,) = rankings(results)
        assert found.verdict == "match"
        turned = exchanged(results[row.name], "min-width", "cucb")
        (found,) = rankings({row.name: turned})
        assert found.verdict == "mismatch"

    def test_json(self, synthetic):
        for row in rankings(synthetic):
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


class TestVerdicts:
    """From intervals to pass, fail or unclear."""

    @pytest.mark.parametrize(
        ("lower", "upper", "verdict"),
        [
            (-2, -1, "pass"),
            (-2, -1e-300, "pass"),
            (-2, 0, "unclear"),
            (-1, 1, "unclear"),
            (0, 0, "unclear"),
            (0, 2, "unclear"),
            (1e-300, 2, "fail"),
            (1, 2, "fail"),
            (math.nan, math.nan, "unclear"),
        ],
    )
    def test_sign(self, lower, upper, verdict):
        assert sign(lower, upper) == verdict

    @pytest.mark.parametrize(
        ("verdicts", "together"),
        [
            (["pass"], "pass"),
            (["pass", "pass"], "pass"),
            (["pass", "unclear"], "unclear"),
            (["unclear", "fail", "pass"], "fail"),
            (["fail"], "fail"),
            (["pass"] * 35 + ["fail"], "fail"),
        ],
    )
    def test_joint(self, verdicts, together):
        assert joint(verdicts) == together
        assert joint(iter(reversed(verdicts))) == together

    @pytest.mark.parametrize(
        ("values", "verdict"),
        [
            ([(1, 0), (2, 0), (3, 0)], "pass"),
            # 3.3 times the hypotenuse of 3 and 4 is 16.5
            ([(0, 3), (16.51, 4)], "pass"),
            ([(0, 3), (16.49, 4)], "unclear"),
            ([(0, 3), (-16.49, 4)], "unclear"),
            ([(0, 3), (-16.51, 4)], "fail"),
            ([(1, 0), (3, 0), (2, 0)], "fail"),
            ([(1, 0), (1, 0), (2, 0)], "unclear"),
        ],
    )
    def test_growing(self, values, verdict):
        assert growing(values) == verdict

    def test_lower_regret(self):
        results = as_published(SYNTHETIC[0])
        assert claims.lower_regret(results, "min-width", PAPER) == "pass"
        assert claims.lower_regret(results, "min-ucb", ["ucb", "cucb"]) == "pass"
        assert claims.lower_regret(results, "min-ucb", PAPER) == "fail"
        same = with_means(SYNTHETIC[0].problem, 1000, (1000,), [[5.0]] * 5)
        assert claims.lower_regret(same, "cucb", PAPER) == "unclear"

    def test_first_apart(self):
        # ratios 1, 1.2, 1.6, 2 in rounds 10, 20, 30, 50
        table = [[10, 10, 10, 10]] * 4 + [[10, 12, 16, 20]]
        results = with_means(Problem([0.1, 0.5], [0.1, 0.9]), 50, (10, 20, 30, 50), table, noise=0)
        assert first_apart(results, 1.1) == pytest.approx(15)
        assert first_apart(results, 1.5) == pytest.approx(27.5)
        assert first_apart(results, 1.8) == pytest.approx(40)
        assert first_apart(results, 2.5) == math.inf
        apart = replace(results, sums=tripled(results, "ucb").sums)
        assert first_apart(apart, 1.5) == 10

    def test_first_apart_when_nobody_has_any_regret_yet(self):
        """With few trials a first round can be without regret: then nothing is apart."""
        table = [[0, 10, 10]] * 4 + [[0, 10, 20]]
        results = with_means(SMALL.problem, 50, (1, 20, 50), table, noise=0)
        assert first_apart(results, 1.5) == pytest.approx(35)

    @pytest.mark.parametrize(
        ("share", "trials", "verdict"),
        [
            (0.0, 10_000, "pass"),
            (0.0, 10, "unclear"),  # too few to tell
            (0.03, 10_000, "pass"),
            (0.05, 10_000, "unclear"),
            (0.08, 10_000, "fail"),
            (1.0, 10_000, "fail"),
        ],
    )
    @pytest.mark.parametrize("name", ["min_width", "min_ucb", "no_sharing"])
    def test_covered(self, name, share, trials, verdict):
        study = THEORY_HELD.coverage._replace(trials=trials, **{name: share})
        held = replace(THEORY_HELD, coverage=THEORY_HELD.coverage._replace(trials=10**6))
        evidence = Evidence({}, {"covid": held, "hotel": replace(held, coverage=study)})
        found, text = covered(name)(evidence)
        assert found == verdict
        assert f"hotel {share:.4f}" in text


class TestTheory:
    """The lemma's sum, G's closed form, coverage on a small domain."""

    @pytest.mark.parametrize("pulls", [[0], [1], [4, 0, 3], [7, 2, 300, 1], [0, 0]])
    def test_lemma_sum(self, pulls):
        wanted = math.fsum(1 / math.sqrt(i) for c in pulls for i in range(1, c + 1))
        assert lemma_sum(np.array(pulls, np.int32)) == pytest.approx(wanted, rel=1e-13)
        assert lemma_sum(np.array(pulls, float)) == pytest.approx(wanted, rel=1e-13)

    @pytest.mark.parametrize("experiment", [SMALL, OTHER])
    def test_a_small_domain(self, experiment, seed):
        found = check_theory(experiment, 300, seed)
        # the theory is the paper's, and what follows from its estimate
        watched = [name for name in WATCHED if name not in ("posterior-ratio", "ranking")]
        assert found.coverage == coverage(
            experiment.problem, experiment.horizon, 300, seed, watched=watched
        )
        assert found.coverage.trials == 300
        assert 0 <= found.error_of_ln_g < 1e-11
        # Equal shares make the lemma's sum largest, because it is concave in every arm's pulls.
        A, N = experiment.problem.agents, experiment.problem.arms
        each = -(-A * experiment.horizon // N)
        even = N * math.fsum(1 / math.sqrt(i) for i in range(1, each + 1))
        share = even / (2 * math.sqrt(A * N * experiment.horizon))
        assert found.lemma_share == pytest.approx(share, rel=1e-12)
        assert found.lemma_share < 1

    def test_long_horizons_are_cut(self):
        long = replace(SMALL, horizon=100_000)
        assert check_theory(long, 5, 0).coverage.horizon == 300


def on(results, change):
    """Evidence with these changes to some of its results."""
    return lambda evidence: replace(
        evidence,
        results={
            **evidence.results,
            **{name: change(evidence.results[name]) for name in results},
        },
    )


def swap(one, other, names):
    """Two policies' numbers exchanged in the results of these names."""
    return on(names, lambda results: exchanged(results, one, other))


def swap_runs(one, other):
    """The results of two experiments exchanged."""
    return lambda evidence: replace(
        evidence,
        results={
            **evidence.results,
            one: evidence.results[other],
            other: evidence.results[one],
        },
    )


def theory_with(**changes):
    """Theory found otherwise on one of the domains."""

    def change(evidence):
        inner = {k: v for k, v in changes.items() if k in Coverage._fields}
        outer = {k: v for k, v in changes.items() if k not in inner}
        study = THEORY_HELD.coverage._replace(**inner)
        found = replace(THEORY_HELD, coverage=study, **outer)
        return replace(evidence, theory={**evidence.theory, "hotel": found})

    return change


def as_is(evidence):
    return evidence


def apart_handmade(evidence):
    return replace(evidence, results={**evidence.results, **slowly_apart()})


def both(first, second):
    return lambda evidence: second(first(evidence))


ALL = tuple(e.name for e in SYNTHETIC)
AHEAD = tuple(
    e.name for e in SYNTHETIC if e.ranking.index("min-ucb") < e.ranking.index("min-width")
)
(IDENTICAL,) = (e.name for e in SYNTHETIC if e.ranking[0] == "cucb")
ONE_2X2, *_ = (e.name for e in SYNTHETIC if e.problem.agents == e.problem.arms == 2)
*_, ONE_3X3 = (e.name for e in SYNTHETIC if e.problem.agents == e.problem.arms == 3)

# For each claim: evidence with which it passes, and an exchange with which it must not.
# Differences too small for few trials are replaced by larger ones of another case.
EXCHANGES = {
    "covid-start": (as_is, on(["covid"], lambda r: tripled(r, "no-sharing"))),
    "covid-best": (as_is, swap("min-width", "min-ucb", ["covid"])),
    "covid-cucb": (as_is, swap("cucb", "ucb", ["covid"])),
    "hotel-always": (as_is, swap("min-width", "min-ucb", ["hotel"])),
    "hotel-order": (as_is, swap("min-ucb", "no-sharing", ["hotel"])),
    "hotel-baselines": (as_is, swap("no-sharing", "ucb", ["hotel"])),
    "poaching-later": (apart_handmade, both(apart_handmade, swap_runs("poaching-2", "poaching-5"))),
    "poaching-benefit": (as_is, swap_runs("poaching-3", "poaching-5")),
    "poaching-gap": (as_is, swap_runs("poaching-2", "poaching-3")),
    "synthetic-2x2": (as_is, swap("min-width", "min-ucb", [ONE_2X2])),
    "synthetic-3x3": (as_is, swap("min-width", "min-ucb", [ONE_3X3])),
    "as-many-agents": (as_is, swap("min-width", "min-ucb", ["poaching-5"])),
    "min-ucb-sometimes": (as_is, swap("min-width", "min-ucb", AHEAD)),
    "rankings": (as_is, swap("ucb", "cucb", [ONE_3X3])),
    "best-is-aware": (as_is, swap("no-sharing", "min-width", [ONE_2X2])),
    "cucb-identical": (as_is, swap("cucb", "min-ucb", [IDENTICAL])),
    "varied-gains": (as_is, swap("min-width", "cucb", [ONE_2X2])),
    "over-under-min-width": (
        swap_runs("covid-under", "covid-mix"),
        swap_runs("covid-over", "covid-mix"),
    ),
    "over-under-min-ucb": (
        swap_runs("covid-under", "covid-mix"),
        swap_runs("covid-over", "covid-mix"),
    ),
    "over-under-no-sharing": (
        both(
            swap("no-sharing", "min-ucb", ["covid", *CASES]), swap_runs("covid-under", "covid-mix")
        ),
        both(
            swap("no-sharing", "min-ucb", ["covid", *CASES]), swap_runs("covid-over", "covid-mix")
        ),
    ),
    "mix-hurts-most": (as_is, swap_runs("covid-over", "covid-mix")),
    "no-sharing-least": (as_is, swap("no-sharing", "min-ucb", ["covid", *CASES])),
    "robustly-best": (as_is, swap("min-width", "min-ucb", ["covid-mix"])),
    "canonical-unaffected": (as_is, swap("cucb", "ucb", ["covid-mix"])),
    "smaller-logarithm": (
        as_is,
        # with one agent there is nothing to share: the two logarithms are the same
        on(["hotel"], lambda r: replace(r, problem=Problem([0.1, 0.5], [0.5]))),
    ),
    "coverage-min-width": (as_is, theory_with(min_width=0.08)),
    "coverage-min-ucb": (as_is, theory_with(min_ucb=0.08)),
    "coverage-no-sharing": (as_is, theory_with(no_sharing=0.08)),
    "regret-bound": (as_is, theory_with(over_regret_bound=0.06)),
    "closed-form": (as_is, theory_with(error_of_ln_g=1e-3)),
    "lemma": (as_is, theory_with(lemma_share=1.01)),
}


class TestClaims:
    """Every claim can pass, and every claim can fail."""

    def test_ids_are_unique_and_there_are_enough(self):
        ids = [claim.id for claim in CLAIMS]
        assert len(set(ids)) == len(ids) >= 15
        assert len({claim.text for claim in CLAIMS}) == len(ids)
        names = {e.name for e in (*FIGURES, *SYNTHETIC)}
        assert all(claim.needs and set(claim.needs) <= names for claim in CLAIMS)
        assert all(claim.section and claim.text.endswith(".") for claim in CLAIMS)

    def test_every_claim_has_an_exchange_here(self):
        assert set(EXCHANGES) == {claim.id for claim in CLAIMS}

    @pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
    def test_exchanged_numbers_turn_the_verdict(self, paper, claim):
        holds, fails = EXCHANGES[claim.id]
        verdict, text = claim.check(holds(paper))
        assert verdict == "pass", text
        turned, other = claim.check(fails(paper))
        assert turned == "fail", other
        assert text
        assert "nan" not in text + other

    @pytest.mark.parametrize(
        ("claim", "change"),
        [
            ("synthetic-2x2", swap("min-width", "ucb", ALL)),
            ("synthetic-3x3", swap("min-width", "ucb", ALL)),
            ("min-ucb-sometimes", swap("min-ucb", "ucb", ALL)),
            ("best-is-aware", swap("min-width", "ucb", ALL)),
            ("cucb-identical", swap("cucb", "ucb", ALL)),
            ("varied-gains", swap("min-width", "cucb", ALL)),
            ("rankings", swap("min-width", "cucb", ALL)),
        ],
    )
    def test_simulated_settings_can_contradict_too(self, synthetic, claim, change):
        (check,) = (c.check for c in CLAIMS if c.id == claim)
        turned, _ = check(change(Evidence(synthetic, {})))
        assert turned == "fail"

    def test_no_sharing_exactly_unaffected_is_unclear(self, paper):
        (check,) = (c.check for c in CLAIMS if c.id == "over-under-no-sharing")
        verdict, text = check(paper)
        assert verdict == "unclear"
        assert "the same to the bit" in text

    def test_who_is_ahead_too_late_is_unclear(self):
        """Min-Width ahead only in the last of the rounds is no "at all times"."""
        hotel = {e.name: e for e in FIGURES}["hotel"].problem
        rounds = (10, 1000, 2000)
        late = [[5, 50, 60]] + [[5, 50, 90 + p] for p in range(4)]
        early = [[5, 50, 60]] + [[9 + p, 80 + p, 90 + p] for p in range(4)]
        behind = [[5, 50, 60]] + [[9 + p, 40 + p, 90 + p] for p in range(4)]
        (check,) = (c.check for c in CLAIMS if c.id == "hotel-always")
        found = [
            check(Evidence({"hotel": with_means(hotel, 2000, rounds, table)}, {}))
            for table in (early, late, behind)
        ]
        assert [verdict for verdict, _ in found] == ["pass", "unclear", "fail"]
        # the evidence must not deny what the verdict says
        assert ["at none of 3" in text for _, text in found] == [True, True, False]

    def test_only_claims_whose_needs_are_there_are_judged(self, paper):
        def ids(names, theory=()):
            results = {name: paper.results[name] for name in names}
            return [
                j.claim.id for j in judge(Evidence(results, dict.fromkeys(theory, THEORY_HELD)))
            ]

        assert ids([]) == []
        assert ids(["two-by-two"]) == []
        assert ids(["covid"]) == ["covid-start", "covid-best", "covid-cucb"]
        assert ids(["covid", "covid-over", "covid-mix"]) == ids(["covid"])
        assert len(ids(["covid", *CASES])) == 3 + 7
        assert ids(RANGERS) == ["poaching-later", "poaching-benefit", "poaching-gap"]
        assert ids(ALL[1:]) == []
        assert len(ids(ALL)) == 7
        assert "lemma" not in ids(THEORY)
        assert "lemma" in ids(THEORY, THEORY)
        everything = judge(paper)
        assert [j.claim for j in everything] == list(CLAIMS)
        assert {j.verdict for j in everything} <= {"pass", "fail", "unclear"}
        for judged in everything:
            assert (judged.verdict, judged.evidence) == judged.claim.check(paper)


class TestRuns:
    """Finished runs are kept, and used again only if nothing has changed."""

    MARK = (123.0,) * 5

    def kept(self, tmp_path, experiment=SMALL, seed=3):
        """A folder with a finished run whose time is marked, so that one can see it was used."""
        kept = Kept(tmp_path / "runs", resume=True)
        (results,) = run_all([experiment], seed, kept).values()
        assert results.seconds != self.MARK
        kept.save(experiment, replace(results, seconds=self.MARK))
        return kept

    def test_a_finished_run_is_used(self, tmp_path):
        kept = self.kept(tmp_path)
        before = kept.path(SMALL).read_bytes()
        fresh = run_fresh([SMALL], 3)["small"]
        again = run_all([SMALL], 3, kept)["small"]
        assert again.seconds == self.MARK
        assert bits(again) == bits(fresh)
        assert kept.path(SMALL).read_bytes() == before

    def test_not_without_resume(self, tmp_path):
        kept = self.kept(tmp_path)
        again = run_all([SMALL], 3, replace(kept, resume=False))["small"]
        assert again.seconds != self.MARK
        stored = Results.from_json(kept.path(SMALL).read_text("utf-8"))
        assert stored.seconds == again.seconds

    @pytest.mark.parametrize(
        "changed",
        [
            replace(SMALL, trials=21),
            replace(SMALL, horizon=41),
            replace(SMALL, problem=Problem([0.1, 0.6], [0.1, 0.9])),
            replace(SMALL, problem=Problem([0.1, 0.5], [0.1, 0.9], [0.2, 0.9])),
            replace(SMALL, policies=PAPER[:4]),
            replace(SMALL, policies=PAPER[::-1]),
        ],
        ids=["trials", "horizon", "means", "believed", "policies", "order of policies"],
    )
    def test_another_definition_is_run_again(self, tmp_path, changed):
        notes = []
        again = run_all([changed], 3, self.kept(tmp_path), note=notes.append)["small"]
        assert len(again.seconds) == len(changed.policies)
        assert self.MARK[0] not in again.seconds
        assert bits(again) == bits(run_fresh([changed], 3)["small"])
        assert notes == []

    def test_another_seed_is_run_again(self, tmp_path):
        again = run_all([SMALL], 4, self.kept(tmp_path))["small"]
        assert again.seed == 4
        assert again.seconds != self.MARK
        assert bits(again) == bits(run_fresh([SMALL], 4)["small"])

    @pytest.mark.parametrize("change", ["version", "partial"])
    def test_other_versions_and_partial_runs_are_run_again(self, tmp_path, change):
        kept = self.kept(tmp_path)
        stored = Results.from_json(kept.path(SMALL).read_text("utf-8"))
        changes = {
            "version": {"versions": {**stored.versions, "numpy": "1.0"}},
            "partial": {"partial": True},
        }
        kept.save(SMALL, replace(stored, **changes[change]))
        again = run_all([SMALL], 3, kept)["small"]
        assert again.seconds != self.MARK
        assert not again.partial

    @pytest.mark.parametrize("change", ["other trials", "other checkpoints", "nothing kept"])
    def test_a_run_that_is_not_ours_is_run_again(self, tmp_path, change):
        """As many trials of the same problem, but not what the experiment would have made."""
        kept = self.kept(tmp_path)
        options = {"trials": 20, "checkpoints": runs.checkpoints(40), "keep": "final"}
        options |= {
            "other trials": {"trials": range(20, 40)},
            "other checkpoints": {"checkpoints": 4},
            "nothing kept": {"keep": "moments"},
        }[change]
        results = simulate(SMALL.problem, PAPER, 40, seed=3, **options)
        kept.save(SMALL, replace(results, seconds=self.MARK))
        again = run_all([SMALL], 3, kept)["small"]
        assert again.seconds != self.MARK
        assert bits(again) == bits(run_fresh([SMALL], 3)["small"])

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"",
            lambda data: data[: len(data) // 2],
            lambda data: b"\xff\xfe" + data,
            lambda data: b"[1, 2]",
            lambda data: data.replace(b'"sums": [', b'"sums": ["x", ', 1),
            lambda data: data.replace(
                b'"heterobandits_results": 1', b'"heterobandits_results": 99'
            ),
        ],
        ids=["empty", "half", "not text", "a list", "sums", "newer format"],
    )
    def test_a_damaged_file_is_run_again_with_a_note(self, tmp_path, damage):
        kept = self.kept(tmp_path)
        path = kept.path(SMALL)
        path.write_bytes(damage(path.read_bytes()))
        notes = []
        fresh = run_fresh([SMALL], 3)["small"]
        again = run_all([SMALL], 3, kept, note=notes.append)["small"]
        assert bits(again) == bits(fresh)
        assert len(notes) == 1
        assert str(path) in notes[0]
        assert "run again" in notes[0]
        # what is kept now is whole
        assert bits(Results.from_json(path.read_text("utf-8"))) == bits(fresh)

    def test_nothing_but_the_runs_is_left(self, tmp_path):
        kept = Kept(tmp_path / "deep" / "runs", resume=False)
        run_all([SMALL, OTHER], 0, kept)
        run_all([SMALL, OTHER], 1, kept)
        names = sorted(path.name for path in kept.folder.iterdir())
        assert names == ["other.json", "small.json"]

    def test_an_interrupt_leaves_the_finished_ones(self, tmp_path):
        kept = Kept(tmp_path / "runs", resume=True)

        def interrupt(title, share):
            if title == OTHER.title and share > 0.5:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_all([SMALL, OTHER], 3, kept, interrupt)
        assert [path.name for path in kept.folder.iterdir()] == ["small.json"]
        before = kept.path(SMALL).stat().st_mtime_ns
        found = run_all([SMALL, OTHER], 3, kept)
        assert list(found) == ["small", "other"]
        assert kept.path(SMALL).stat().st_mtime_ns == before
        fresh = run_fresh([SMALL, OTHER], 3)
        assert [bits(r) for r in found.values()] == [bits(r) for r in fresh.values()]

    def test_a_folder_that_cannot_be_written_to(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(InvalidInput, match=r"cannot write to .*file.*: "):
            run_all([SMALL], 0, Kept(tmp_path / "file" / "runs", resume=True))
        with pytest.raises(InvalidInput, match="cannot write to"):
            run_all([SMALL], 0, Kept(tmp_path / "file", resume=False))

    def test_the_share_of_the_work_grows_to_all_of_it(self, tmp_path):
        seen = []
        kept = Kept(tmp_path, resume=False)
        run_all([SMALL, OTHER], 0, kept, lambda title, share: seen.append((title, share)))
        shares = [share for _, share in seen]
        assert list(dict(seen)) == [SMALL.title, OTHER.title]
        assert shares == sorted(shares)
        assert shares[0] == 0
        assert shares[-1] <= 1
        # two agents and two arms in both, so that their rounds, 40 and 30, say how long they take
        starts = dict(reversed(seen))
        assert starts[OTHER.title] == pytest.approx(40 / 70)

    @pytest.mark.parametrize("horizon", [1, 2, 7, 40, 300, 100_000])
    def test_checkpoints_end_at_the_horizon(self, horizon):
        rounds = runs.checkpoints(horizon)
        assert rounds[0] == 1
        assert rounds[-1] == horizon
        assert all(a < b for a, b in pairwise(rounds))

    def test_with_trials(self):
        assert [e.trials for e in with_trials([SMALL, OTHER], 7)] == [7, 7]
        assert with_trials([SMALL, OTHER], None) == [SMALL, OTHER]


class Page(HTMLParser):
    """Whether tags are balanced, what the page refers to, and its text."""

    VOID = frozenset({"meta", "br", "img", "hr", "input"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.references, self.words = [], Counter(), [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.references += [v for k, v in attributes if k in ("src", "href", "srcset", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


ONLY = ["robustness", "synthetic-5_9-by-4_6", "synthetic-1_5_9-by-5_5"]


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same reproduction, made twice."""
    made = []
    for name in ("one", "two"):
        folder = tmp_path_factory.mktemp(name) / "new" / "folder"
        made.append((reproduce(folder, only=ONLY, trials=6, seed=5), folder))
    return made


class TestReproduce:
    """Everything in a folder, with one call."""

    def test_all_files_are_there(self, folders):
        wanted = {"report.html", "numbers.parquet", "provenance.json"}
        drawn = ["covid", "covid-theory", *CASES]
        wanted |= {f"figures/{name}.{kind}" for name in drawn for kind in ("svg", "png", "pdf")}
        wanted |= {
            f"tables/{name}.csv"
            for name in ("claims", "coverage", "robustness_regret", "robustness_percent", "synthetic_rankings")
        }  # fmt: skip
        wanted |= {f"runs/{name}.json" for name in ("covid", *CASES, *ONLY[1:])}
        found = files(folders[0][1])
        assert set(found) == wanted
        for name, data in found.items():
            start = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml", ".parquet": b"PAR1"}
            assert data.startswith(start.get(name[name.rindex(".") :], b""))
            assert data

    def test_the_same_seed_gives_the_same_bytes(self, folders):
        one, two = (files(folder) for _, folder in folders)
        timed = {"report.html", "provenance.json"}
        same = [name for name in one if name not in timed and not name.startswith("runs/")]
        assert len(same) == 5 * 3 + 5 + 1
        for name in same:
            assert one[name] == two[name], name

    def test_another_seed_gives_other_numbers(self, folders, tmp_path):
        reproduce(tmp_path, only=["covid-mix"], trials=6, seed=6)
        one, two = files(folders[0][1]), files(tmp_path)
        assert one["figures/covid-mix.svg"] != two["figures/covid-mix.svg"]

    def test_numbers_are_the_curves(self, folders):
        frame = pd.read_parquet(folders[0][1] / "numbers.parquet")
        assert set(frame["experiment"]) == {"covid", *CASES, *ONLY[1:]}
        results = simulate(FIGURES[0].problem, PAPER, 300, 6, 5, checkpoints=runs.checkpoints(300))
        for label in PAPER:
            rows = frame[(frame["experiment"] == "covid") & (frame["policy"] == label)]
            assert rows["round"].tolist() == list(results.rounds)
            assert rows["mean"].tolist() == results.mean(label).tolist()
            assert rows["se"].tolist() == results.se(label).tolist()
            assert set(rows["trials"]) == {6}

    def test_tables_hold_what_the_summary_says(self, folders):
        made, folder = folders[0]
        summary = json.loads(json.dumps(made.summary()))
        for name, rows in {**summary["tables"], "claims": summary["claims"]}.items():
            with (folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
                written = list(csv.DictReader(file))
            assert len(written) == len(rows) > 0
            for line, row in zip(written, rows, strict=True):
                assert line.pop("quick") == "False"
                assert list(line) == list(row)
                for key, value in row.items():
                    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
                    assert line[key] == text

    def test_summary_is_the_contract(self, folders):
        made, folder = folders[0]
        summary = made.summary()
        assert list(summary) == ["claims", "tables", "quick", "report", "seconds"]
        assert list(summary["tables"]) == [
            "robustness_regret",
            "robustness_percent",
            "synthetic_rankings",
        ]
        assert [len(rows) for rows in summary["tables"].values()] == [9, 9, 2]
        assert all(list(c) == ["id", "text", "verdict", "evidence"] for c in summary["claims"])
        assert summary["quick"] is False
        assert summary["report"] == str(folder / "report.html")
        assert summary["seconds"] > 0

    def test_provenance(self, folders):
        provenance = json.loads((folders[0][1] / "provenance.json").read_text("utf-8"))
        assert provenance["seed"] == 5
        assert provenance["quick"] is False
        assert provenance["trials"] == dict.fromkeys(["covid", *CASES, *ONLY[1:]], 6)
        assert {"python", "numpy", "numba", "heterobandits"} <= set(provenance["versions"])

    def test_the_report_is_one_file(self, folders):
        page = Page((folders[0][1] / "report.html").read_text("utf-8"))
        assert not page.tags["script"]
        assert not page.tags["link"]
        assert not page.tags["iframe"]
        assert page.tags["html"] == page.tags["h1"] == page.tags["title"] == 1
        assert page.tags["img"] == len(page.references) == 5
        assert all(ref.startswith("data:image/svg+xml;base64,") for ref in page.references)
        text = (folders[0][1] / "report.html").read_text("utf-8")
        outside = re.sub(r"base64,[A-Za-z0-9+/=]*", "", text)
        assert "http://" not in outside
        assert "https://" not in outside
        assert not re.search(r"url\(|@import", outside)

    def test_figures_in_the_report_are_those_in_the_folder(self, folders):
        folder = folders[0][1]
        page = Page((folder / "report.html").read_text("utf-8"))
        shown = {base64.b64decode(ref.partition(",")[2]) for ref in page.references}
        assert shown == {path.read_bytes() for path in (folder / "figures").glob("*.svg")}

    def test_the_report_starts_with_the_verdict(self, folders):
        made, folder = folders[0]
        page = Page((folder / "report.html").read_text("utf-8"))
        count = Counter(judged.verdict for judged in made.claims)
        words = f"{count['pass']} of {len(made.claims)} claims hold, {count['unclear']} "
        assert words in page.text
        assert page.text.index(words) < page.text.index("Claims of the text")
        assert "Quick run" not in page.text

    def test_the_report_has_every_claim_and_cell(self, folders):
        made, folder = folders[0]
        text = Page((folder / "report.html").read_text("utf-8")).text
        assert len(made.claims) == 17  # three of COVID, seven of robustness, seven of the theory
        marks = {"pass": "✓ pass", "fail": "✗ fail", "unclear": "? unclear"}
        for judged in made.claims:
            where = text.index(judged.claim.text)
            assert text[:where].rstrip().endswith(marks[judged.verdict])
            assert judged.claim.id in text[where:]
            assert judged.claim.section in text[where:]
            assert judged.evidence in text[where:]
        for cell in made.regret:
            assert f"{cell.published:.1f} ± {cell.published_se:.1f}" in text
            assert f"{cell.ours:.2f} ± {cell.ours_se:.2f}" in text
        for cell in made.percent:
            exact = cell.policy == "no-sharing"
            assert ("0 exactly" if exact else f"{cell.ratio:+.1f} ± {cell.ratio_se:.1f}") in text
        # the published rankings of the two settings
        assert "Min-Width, Min-UCB, No-Sharing, UCB, CUCB" in text
        assert "CUCB, Min-UCB, No-Sharing, Min-Width, UCB" in text
        assert len(made.rankings) == 2

    def test_what_a_claim_says_is_not_markup(self):
        judged = Judged(CLAIMS[0], "fail", "a < b & c > d <script>x</script>")
        text = report.render([judged], [], [], [], [], '{"a": "<b>"}', False)
        page = Page(text)
        assert judged.evidence in page.text
        assert not page.tags["script"]
        assert '{"a": "<b>"}' in unescape(page.text)

    @pytest.mark.parametrize(
        ("verdicts", "sentence"),
        [
            ([], "No claim of the text"),
            (["pass"], "1 of 1 claims hold, 0 are unclear, 0 are contradicted."),
            (["pass", "fail", "unclear"], "1 of 3 claims hold, 1 is unclear, 1 is contradicted."),
            (["fail", "fail"], "0 of 2 claims hold, 0 are unclear, 2 are contradicted."),
        ],
    )
    def test_headline(self, verdicts, sentence):
        found = report.headline([Judged(CLAIMS[0], verdict, "") for verdict in verdicts])
        assert found.startswith(sentence)

    def test_quick_is_marked_everywhere(self, tmp_path):
        made = reproduce(tmp_path, only=["two-by-two", "synthetic-1_9-by-1_9"], quick=True)
        assert made.quick
        page = Page((tmp_path / "report.html").read_text("utf-8"))
        assert page.text.index("Quick run") < page.text.index("No claim of the text")
        # the letters of a figure are paths; a comment says which
        assert "(quick run)" in (tmp_path / "figures" / "two-by-two.svg").read_text("utf-8")
        provenance = json.loads((tmp_path / "provenance.json").read_text("utf-8"))
        assert provenance["quick"] is True
        assert set(provenance["trials"].values()) == {64}
        assert pd.read_parquet(tmp_path / "numbers.parquet")["quick"].all()
        assert pd.read_csv(tmp_path / "tables" / "synthetic_rankings.csv")["quick"].all()
        stored = (tmp_path / "runs" / "synthetic-1_9-by-1_9.json").read_text("utf-8")
        assert Results.from_json(stored).horizon == 20_000

    def test_resume_in_the_same_folder(self, tmp_path):
        reproduce(tmp_path, only=["two-by-two"], trials=5, seed=2)
        path = tmp_path / "runs" / "two-by-two.json"
        stored = Results.from_json(path.read_text("utf-8"))
        marked = exchanged(stored, "min-width", "ucb")
        path.write_text(marked.to_json(), "utf-8")
        numbers = []
        for resume in (True, False):
            reproduce(tmp_path, only=["two-by-two"], trials=5, seed=2, resume=resume)
            frame = pd.read_parquet(tmp_path / "numbers.parquet")
            numbers.append(frame[frame["policy"] == "min-width"]["mean"].tolist())
        assert numbers == [stored.mean("ucb").tolist(), stored.mean("min-width").tolist()]

    def test_an_earlier_report_survives_a_run_that_fails(self, tmp_path):
        reproduce(tmp_path, only=["two-by-two"], trials=5)
        good = (tmp_path / "report.html").read_bytes()
        for path in (tmp_path / "figures").iterdir():
            path.unlink()
        (tmp_path / "figures").rmdir()
        (tmp_path / "figures").write_text("in the way")
        with pytest.raises(InvalidInput, match="cannot write to"):
            reproduce(tmp_path, only=["two-by-two"], trials=7)
        assert (tmp_path / "report.html").read_bytes() == good
        assert not list(tmp_path.glob("report.html.*"))

    def test_a_folder_that_cannot_be_made_is_refused_before_any_work(self, tmp_path):
        (tmp_path / "file").write_text("")
        shown = []
        with pytest.raises(InvalidInput, match=r"cannot write to .*file"):
            reproduce(
                tmp_path / "file" / "x", only=["covid"], show=lambda *what: shown.append(what)
            )
        assert shown == []

    @pytest.mark.parametrize("trials", [0, 1, -3, 2.5, "7", True])
    def test_wrong_trials_are_refused(self, tmp_path, trials):
        with pytest.raises(InvalidInput, match="trials is"):
            reproduce(tmp_path, only=["covid"], trials=trials)

    def test_what_is_shown_names_the_experiments(self, tmp_path):
        seen = []
        reproduce(tmp_path, only=["two-by-two"], trials=3, show=lambda *what: seen.append(what))
        titles = list(dict(seen))
        assert titles == ["two agents, two arms", "checking the theory", "drawing"]
        shares = [share for _, share in seen]
        assert shares == sorted(shares)


class TestContradicted:
    """Every kind of contradiction counts, and nothing else."""

    GOOD = Cell("cucb", "covid-mix", 10.0, 0.1, 10.1, 0.1)
    GOOD_PERCENT = Percent("cucb", "covid-mix", 1.0, 0.5, 1.2, 0.5, 0.0, 0.1)

    def made(self, **changes):
        row = Ranking(SYNTHETIC[0], SYNTHETIC[0].ranking, (1, 2, 3, 4, 5), "match")
        return Reproduction(
            **{
                "claims": [Judged(CLAIMS[0], "pass", ""), Judged(CLAIMS[1], "unclear", "")],
                "regret": [self.GOOD],
                "percent": [self.GOOD_PERCENT],
                "rankings": [row, replace(row, verdict="tied")],
                "seconds": 0.0,
                "quick": False,
                "folder": None,
                **changes,
            }
        )

    def test_unclear_and_tied_are_no_contradictions(self):
        assert not self.made().contradicted
        assert not self.made(claims=[], regret=[], percent=[], rankings=[]).contradicted

    def test_each_kind_is_one(self):
        made = self.made()
        fails = Judged(CLAIMS[2], "fail", "")
        mismatch = replace(made.rankings[0], verdict="mismatch")
        assert self.made(claims=[*made.claims, fails]).contradicted
        assert self.made(rankings=[*made.rankings, mismatch]).contradicted
        assert self.made(regret=[self.GOOD, replace(self.GOOD, ours=11.0)]).contradicted
        assert self.made(
            percent=[self.GOOD_PERCENT, replace(self.GOOD_PERCENT, ours=9)]
        ).contradicted

    def test_the_ratio_beside_a_percent_change_contradicts_nothing(self):
        assert not self.made(percent=[replace(self.GOOD_PERCENT, ratio=50.0)]).contradicted
