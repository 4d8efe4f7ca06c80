"""Results: exact sums, merging, differences and quantiles."""

import itertools
import math
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy import stats

from heterobandits import InvalidInput, Policy, Problem, Results, simulate
from heterobandits.simulation.results import join_spans
from small_runs import NAMES, PROBLEM, bits, run

pytestmark = pytest.mark.smoke


@pytest.fixture(scope="module")
def results():
    return run()


@pytest.fixture(scope="module")
def shards():
    return [run(range(*edge)) for edge in ((0, 11), (11, 12), (12, 30), (35, 40))]


@pytest.fixture(scope="module")
def beside_oracle():
    return simulate(PROBLEM, ["min-width", "cucb", "oracle"], 60, 50, seed=3, keep="all")


class TestTallies:
    """Sums in whole numbers, checked with fractions."""

    def test_moments_are_those_of_the_trials(self, results):
        for p, label in enumerate(NAMES):
            kept = results.kept[p]
            np.testing.assert_allclose(results.mean(label), kept.mean(axis=-1), rtol=1e-12)
            se = kept.std(axis=-1, ddof=1) / math.sqrt(kept.shape[-1])
            np.testing.assert_allclose(results.se(label), se, rtol=1e-12)

    def test_mean_and_se_are_correctly_rounded(self, results):
        """The mean is the float nearest to the exact quotient of the rounded regrets."""
        unit = Fraction(2) ** results.places
        for p, label in enumerate(NAMES):
            for k in range(len(results.rounds)):
                units = [round(Fraction(x) * unit) for x in results.kept[p, k]]
                n = len(units)
                assert results.mean(label)[k] == float(Fraction(sum(units)) / unit / n)
                spread = Fraction(n * sum(u * u for u in units) - sum(units) ** 2)
                variance = spread / unit**2 / (n * n * (n - 1))
                assert results.se(label)[k] == math.sqrt(float(variance))

    def test_a_single_trial_has_no_standard_error(self):
        single = run(trials=1)
        assert np.isnan(single.se("cucb")).all()
        assert np.isfinite(single.mean("cucb")).all()
        assert "NaN" not in single.to_json()
        assert np.isnan(Results.from_json(single.to_json()).se("cucb")).all()


class TestDifference:
    """Paired differences on the same luck."""

    @pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
    def test_it_is_that_of_the_trials(self, results, level):
        paired = results.kept[0] - results.kept[2]
        trials = paired.shape[-1]
        difference = results.difference("min-width", "random", level)
        se = paired.std(axis=-1, ddof=1) / math.sqrt(trials)
        reach = stats.t.ppf(0.5 + level / 2, trials - 1) * se
        assert difference.rounds.tolist() == list(results.rounds)
        np.testing.assert_allclose(difference.mean, paired.mean(axis=-1), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(difference.se, se, rtol=1e-9)
        np.testing.assert_allclose(difference.lower, paired.mean(axis=-1) - reach, rtol=1e-9)
        np.testing.assert_allclose(difference.upper, paired.mean(axis=-1) + reach, rtol=1e-9)

    def test_a_policy_does_not_differ_from_itself(self, results):
        difference = results.difference("cucb", "cucb")
        assert not difference.mean.any()
        assert not difference.se.any()

    @pytest.mark.parametrize("level", [0, 1, -0.5, 2, math.nan, "0.95", None])
    def test_a_wrong_level_is_refused(self, results, level):
        with pytest.raises(InvalidInput, match="level"):
            results.difference("cucb", "random", level)

    def test_an_unknown_policy_is_refused_with_the_nearest(self, results):
        for call in (results.mean, results.se, results.regrets, results.rounds_per_second):
            with pytest.raises(InvalidInput, match="did you mean 'min-width'"):
                call("min-widht")
        with pytest.raises(InvalidInput, match="did you mean 'cucb'"):
            results.difference("random", "cuc")


class TestRatio:
    """Against the same formulas on the regrets of every trial."""

    def test_value_and_interval(self, beside_oracle):
        x, y = (beside_oracle.kept[beside_oracle.position(p)] for p in ("min-width", "cucb"))
        found = beside_oracle.ratio("min-width", "cucb", 0.99)
        wanted = x.mean(axis=-1) / y.mean(axis=-1)
        np.testing.assert_allclose(found.value, wanted, rtol=1e-12)
        relative = x / x.mean(axis=-1, keepdims=True) - y / y.mean(axis=-1, keepdims=True)
        reach = stats.t.ppf(0.995, 49) * stats.sem(relative, axis=-1)
        np.testing.assert_allclose(found.lower, wanted * np.exp(-reach), rtol=1e-9)
        np.testing.assert_allclose(found.upper, wanted * np.exp(reach), rtol=1e-9)
        assert found.rounds.tolist() == list(beside_oracle.rounds)

    def test_a_policy_beside_itself_is_exactly_alike(self, beside_oracle):
        found = beside_oracle.ratio("cucb", "cucb")
        assert (found.value == 1).all()
        np.testing.assert_allclose(found.upper, 1, rtol=1e-7)

    def test_no_regret_below_the_line_gives_no_number(self, beside_oracle):
        assert np.isnan(beside_oracle.ratio("cucb", "oracle").value).all()
        assert (beside_oracle.ratio("oracle", "cucb").value == 0).all()

    def test_one_trial_gives_no_interval(self):
        found = simulate(PROBLEM, ["min-width", "cucb"], 60, 1).ratio("min-width", "cucb")
        assert np.isfinite(found.value[-1])
        assert np.isnan(found.lower[-1])
        assert np.isnan(found.upper[-1])


class TestQuantiles:
    """Quantiles over the trials that were kept."""

    def test_they_are_those_of_the_trials(self, results):
        levels = [0, 0.05, 0.5, 1]
        wanted = np.quantile(np.sort(results.kept[1], axis=-1), levels, axis=-1)
        np.testing.assert_allclose(results.quantiles("cucb", levels), wanted)

    @pytest.mark.parametrize("levels", [[], [-0.1], [1.1], [math.nan], ["0.5"], [True], [None]])
    def test_wrong_levels_are_refused(self, results, levels):
        with pytest.raises(InvalidInput):
            results.quantiles("cucb", levels)

    def test_they_need_what_was_not_kept(self):
        with pytest.raises(InvalidInput, match="keep="):
            run(keep="moments").quantiles("cucb", [0.5])
        assert run(keep="final").quantiles("cucb", [0.5]).shape == (1, 1)


class TestMerge:
    """Shards put together."""

    def test_it_is_associative_and_commutative_to_the_bit(self, shards):
        a, b, c, d = shards
        wanted = bits(a.merge(b).merge(c).merge(d))
        for merged in (
            d.merge(c).merge(b).merge(a),
            a.merge(b.merge(c.merge(d))),
            a.merge(d).merge(b.merge(c)),
            c.merge(a).merge(d.merge(b)),
        ):
            assert bits(merged) == wanted
        assert a.merge(d).merge(b.merge(c)).spans == ((0, 30), (35, 40))

    def test_one_run_is_its_shards(self, results, shards):
        a, b, c, d = shards
        whole = d.merge(run(range(30, 35))).merge(c).merge(a.merge(b))
        assert bits(whole) == bits(results)

    @pytest.mark.parametrize("edge", [(0, 11), (10, 12), (0, 1), (5, 6), (29, 31)])
    def test_trials_that_are_there_already_are_refused(self, shards, edge):
        a, b, c, _ = shards
        both = a.merge(b).merge(c)
        with pytest.raises(InvalidInput, match="twice"):
            both.merge(run(range(*edge)))
        with pytest.raises(InvalidInput, match="twice"):
            run(range(*edge)).merge(both)

    @settings(max_examples=200)
    @given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=6))
    def test_spans_are_joined_or_refused_like_sets(self, parts):
        spans = [(start, start + size) for start, size in parts]
        trials = [trial for span in spans for trial in range(*span)]
        if len(set(trials)) < len(trials):
            with pytest.raises(InvalidInput, match="twice"):
                join_spans(spans)
            return
        joined = join_spans(spans)
        assert [trial for span in joined for trial in range(*span)] == sorted(trials)
        assert all(a[1] < b[0] for a, b in itertools.pairwise(joined))

    def test_another_experiment_is_refused(self, results):
        later = range(100, 103)
        others = {
            "seed": simulate(PROBLEM, NAMES, 30, later, seed=8, checkpoints=4),
            "horizon": simulate(PROBLEM, NAMES, 31, later, seed=7, checkpoints=4),
            "rounds": simulate(PROBLEM, NAMES, 30, later, seed=7, checkpoints=5),
            "policies": simulate(PROBLEM, NAMES[:2], 30, later, seed=7, checkpoints=4),
            "problem": simulate(
                Problem([0.9, 0.2, 0.5], [0.5, 0.8]), NAMES, 30, later, seed=7, checkpoints=4
            ),
        }
        for field, other in others.items():
            with pytest.raises(InvalidInput, match=f"different {field}"):
                results.merge(other)

    def test_other_versions_are_refused_and_both_are_named(self, results):
        other = replace(run(range(100, 103)), versions={**results.versions, "numba": "0.1.2"})
        both = rf"different versions.*{results.versions['numba']}.* and .*'0\.1\.2'"
        with pytest.raises(InvalidInput, match=both):
            results.merge(other)

    @pytest.mark.parametrize("keep", ["moments", "final"])
    def test_kept_trials_are_never_dropped(self, results, keep):
        other = run(range(100, 110), keep=keep)
        for one, two in ((results, other), (other, results)):
            with pytest.raises(InvalidInput, match="kept different rounds"):
                one.merge(two)

    def test_two_policies_of_one_name_are_refused(self):
        def scaled(factor):
            return lambda known: factor * known.pulls.sum(axis=0)

        def played(index, trials):
            return run(trials, policies=["cucb", Policy("own", index=index)])

        first = played(scaled(1.0), range(5))
        for other in (scaled(2.0), lambda known: known.successes.sum(axis=0), np.sum):
            own = Policy("own", index=other)
            assert own.parameters != first.parameters[1]
        with pytest.raises(InvalidInput, match="different parameters"):
            first.merge(played(scaled(-1.0), range(5, 9)))
        assert first.merge(played(scaled(1.0), range(5, 9))).trials == 9
        again = Results.from_json(first.to_json())
        assert again.merge(played(scaled(1.0), range(5, 9))).trials == 9

    def test_a_function_is_known_again_in_another_process(self):
        code = (
            "from functools import partial\nimport numpy as np\nfrom numba import njit\n"
            "from heterobandits.provenance import fingerprint\n"
            "def make(weights, names=frozenset({'a', 'b', 'c'})):\n"
            "    def index(known):\n"
            "        return weights @ known.pulls if 'x' in {'p', 'q', 'r'} else index(known)\n"
            "    return index\n"
            "class Rule:\n    def __init__(self, c):\n        self.c = c\n"
            "    def __call__(self, known):\n        return known.pulls * self.c\n"
            "print(fingerprint(make(np.arange(5000))), fingerprint(make(np.arange(5000) + 0.5)),\n"
            "      fingerprint(Rule(1)), fingerprint(Rule(2)), fingerprint(Rule(1).__call__),\n"
            "      fingerprint(partial(make, [1])), fingerprint(partial(make, [2])),\n"
            "      fingerprint(njit(lambda known: known)), fingerprint(njit(lambda known: 2 * known)))"
        )
        seen = {
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True,
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            ).stdout
            for seed in ("1", "2")
        }  # fmt: skip
        (prints,) = (text.split() for text in seen)
        assert len(set(prints)) == 9

    def test_a_partial_part_makes_a_partial_whole(self, results):
        cut = replace(run(range(100, 110)), partial=True)
        assert results.merge(cut).partial
        assert cut.merge(results).partial
        assert not results.merge(run(range(100, 110))).partial


def test_speed_is_told(results):
    """40 trials of 30 rounds."""
    assert min(results.seconds) > 0
    timed = replace(results, seconds=(2.0, 0.5, 0.0))
    assert timed.rounds_per_second("min-width") == 600
    assert timed.rounds_per_second("cucb") == 2400
    assert math.isnan(timed.rounds_per_second("random"))


def test_regrets_are_those_at_the_horizon(results):
    for p, label in enumerate(NAMES):
        assert results.regrets(label).tobytes() == results.kept[p, -1].tobytes()


def test_merging_adds_the_seconds(shards):
    one, other = (
        replace(part, seconds=s) for part, s in zip(shards[:2], [(1, 2, 3), (4, 5, 7)], strict=True)
    )
    assert one.merge(other).seconds == (5, 7, 10)


def test_what_was_kept_of_the_trials_must_be_the_same():
    with pytest.raises(InvalidInput) as raised:
        run(keep="final").merge(run(range(40, 50), keep="all"))
    assert str(raised.value) == (
        "results that kept different rounds of their trials cannot be merged: (30,) and (8, 15, 23, 30)"
    )


def test_it_is_drawn_where_one_wants_it(results):
    ax = Figure().subplots()
    assert results.plot(ax) is ax
    assert ax.get_title() == ""
    assert results.plot(ax, "a title").get_title() == "a title"


def test_what_is_shown_of_results_is_short_and_says_what_matters(results):
    text = repr(results)
    assert "\n" not in text
    assert len(text) < 300
    assert "2 agents, 3 arms, 30 rounds, 40 trials" in text
    for label in NAMES:
        assert f"{label} {results.mean(label)[-1]:.4g} ± {results.se(label)[-1]:.2g}" in text
    assert "interrupted" in repr(replace(results, partial=True))


@pytest.mark.parametrize("name", [np.array(["cucb", "ucb"]), ["cucb"], None, 3])
@pytest.mark.parametrize("use", ["mean", "se", "regrets", "position", "rounds_per_second"])
def test_a_policy_is_named_by_one_text(use, name):
    with pytest.raises(InvalidInput, match="unknown policy in these results"):
        getattr(run(keep="final"), use)(name)


@pytest.mark.parametrize("other", [None, "results", 3])
def test_only_results_are_merged(results, other):
    with pytest.raises(InvalidInput, match=f"^other is {other!r}: Results, as simulate gives$"):
        results.merge(other)


@pytest.mark.parametrize("levels", [0.5, None, "0.5", [], [2.0], ["a"], range(10**30)])
def test_quantiles_take_a_list_of_levels(levels):
    with pytest.raises(InvalidInput, match=r"probabilities is|a quantile's level is"):
        run(keep="all").quantiles("cucb", levels)


def test_the_limit_to_draw_is_a_number(results):
    with pytest.raises(InvalidInput, match=r"limit is '0\.5'"):
        results.plot(limit="0.5")


@pytest.mark.parametrize("trials", [1, 2])
def test_the_line_counts_trials_and_says_what_was_cut_off(trials):
    made = replace(run(trials=trials), partial=trials == 1)
    shown = repr(made)
    assert f"30 rounds, {['1 trial, interrupted', '2 trials'][trials - 1]}; regret ± SE: " in shown
    means = [f"{label} {made.mean(label)[-1]:.4g} ± {made.se(label)[-1]:.2g}" for label in NAMES]
    assert shown.endswith(f"regret ± SE: {', '.join(means)}>")


def test_two_trials_have_one_degree_of_freedom():
    two = run(trials=2)
    found = two.difference("min-width", "cucb", 0.9)
    np.testing.assert_allclose(
        found.upper - found.mean, stats.t.ppf(0.95, 1) * found.se, rtol=1e-12
    )


@pytest.mark.parametrize("use", ["difference", "ratio"])
def test_a_level_that_is_none(results, use):
    with pytest.raises(InvalidInput, match=r"^level is 1: a probability"):
        getattr(results, use)("cucb", "random", 1.0)
