"""Results: exact sums, merging, differences, files and the plot."""

import csv
import io
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy import stats

from heterobandits import InvalidInput, Policy, Problem, Results, UnsupportedVersion, simulate
from heterobandits.results import STYLES, binary_places, joined_spans, tally, write_aside

PROBLEM = Problem(
    [0.9, 0.2, 0.6],
    [0.5, 0.8],
    arm_names=["Ebene 1", "日本", 'a "quoted", one'],
    agent_names=["Ann", "Bo"],
)
NAMES = ("min-width", "cucb", "random")


def run(trials=40, keep="all", policies=NAMES, **options):
    return simulate(PROBLEM, policies, 30, trials, seed=7, keep=keep, checkpoints=4, **options)


@pytest.fixture(scope="module")
def results():
    return run()


@pytest.fixture(scope="module")
def shards():
    return [run(range(*edge)) for edge in ((0, 11), (11, 12), (12, 30), (35, 40))]


def bits(results):
    """Everything in results that is a number, but for the time it took."""
    numbers = [results.spans, results.sums.tolist(), results.products.tolist(), results.partial]
    for label in results.policies:
        numbers += [results.mean(label).tobytes(), results.se(label).tobytes()]
        numbers += [d.tobytes() for d in results.difference(label, results.policies[0])]
    if results.kept is not None:
        numbers += [results.kept_rounds, results.kept.tobytes()]
    return numbers


class TestTallies:
    """Sums in whole numbers, checked with fractions."""

    @settings(max_examples=100)
    @given(data=st.data(), horizon=st.integers(1, 2**20), agents=st.integers(1, 8))
    def test_sums_and_products_are_exact(self, data, horizon, agents):
        policies, checkpoints, trials = (data.draw(st.integers(1, 4)) for _ in range(3))
        most = float(horizon * agents)
        values = data.draw(
            st.lists(
                st.one_of(st.floats(0, most), st.sampled_from([0.0, most, 0.1, 1 / 3])),
                min_size=policies * checkpoints * trials,
                max_size=policies * checkpoints * trials,
            )
        )
        regrets = np.array(values).reshape(policies, checkpoints, trials)
        places = binary_places(horizon, agents)
        sums, products = tally(regrets, places)
        units = [
            [[round(Fraction(x) * Fraction(2) ** places) for x in row] for row in block]
            for block in regrets.tolist()
        ]
        for p in range(policies):
            for k in range(checkpoints):
                assert sums[p, k] == sum(units[p][k])
                for q in range(policies):
                    pairs = zip(units[p][k], units[q][k], strict=True)
                    assert products[p, q, k] == sum(x * y for x, y in pairs)

    @pytest.mark.parametrize(("horizon", "agents"), [(1, 1), (300, 5), (2**31 - 1, 1), (2**20, 8)])
    def test_the_largest_block_of_the_largest_regrets_does_not_overflow(self, horizon, agents):
        places = binary_places(horizon, agents)
        largest = horizon * agents
        sums, products = tally(np.full((2, 1, 512), float(largest)), places)
        assert (sums == 512 * largest * 2**places).all()
        assert (products == 512 * (largest * 2**places) ** 2).all()

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
                joined_spans(spans)
            return
        joined = joined_spans(spans)
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

    def test_what_one_part_did_not_keep_the_whole_has_not(self, results):
        merged = results.merge(run(range(100, 110), keep="moments"))
        assert merged.kept is None
        assert merged.trials == 50
        with pytest.raises(InvalidInput, match="kept different rounds"):
            results.merge(run(range(100, 110), keep="final"))

    def test_a_partial_part_makes_a_partial_whole(self, results):
        cut = replace(run(range(100, 110)), partial=True)
        assert results.merge(cut).partial
        assert cut.merge(results).partial
        assert not results.merge(run(range(100, 110))).partial


class TestJson:
    """The file without loss."""

    @pytest.mark.parametrize("keep", ["moments", "final", "all"])
    def test_the_round_trip_loses_nothing(self, keep):
        made = run(keep=keep).merge(run(range(2**60, 2**60 + 5), keep=keep))
        again = Results.from_json(made.to_json())
        assert bits(again) == bits(made)
        for field in ("problem", "policies", "parameters", "horizon", "seed", "rounds",
                      "seconds", "versions", "kept_rounds"):  # fmt: skip
            assert getattr(again, field) == getattr(made, field)
        assert again.to_json() == made.to_json()
        assert again.merge(run(range(100, 105), keep=keep)).trials == made.trials + 5

    def test_it_says_what_was_run(self, results):
        payload = json.loads(results.to_json())
        assert payload["problem"] == PROBLEM.to_dict()
        assert payload["seed"] == 7
        assert payload["trials"] == 40
        assert payload["trial_spans"] == [[0, 40]]
        assert [entry["name"] for entry in payload["policies"]] == list(NAMES)
        assert {"python", "numpy", "numba", "heterobandits"} <= payload["versions"].keys()

    @pytest.mark.parametrize("newer", [2, 99, "2", None, 1.5])
    def test_a_newer_format_is_refused(self, results, newer):
        payload = json.loads(results.to_json()) | {"heterobandits_results": newer}
        with pytest.raises(UnsupportedVersion, match="format"):
            Results.from_json(json.dumps(payload))

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "null", "3", '"text"', "{}", "[" * 100_000, '{"a": 1}', "\0"]
    )
    def test_another_text_is_refused(self, text):
        with pytest.raises(InvalidInput, match="not the results"):
            Results.from_json(text)

    def test_half_a_file_is_refused(self, results):
        text = results.to_json()
        for cut in (10, len(text) // 2, len(text) - 2):
            with pytest.raises(InvalidInput):
                Results.from_json(text[:cut])

    NEEDED = ("problem", "labels", "policies", "horizon", "seed", "rounds", "trial_spans", "sums",
              "products", "seconds", "partial", "versions", "kept_rounds", "kept")  # fmt: skip

    @pytest.mark.parametrize("field", NEEDED)
    def test_a_missing_field_is_refused(self, results, field):
        payload = json.loads(results.to_json())
        del payload[field]
        with pytest.raises(InvalidInput, match="damaged"):
            Results.from_json(json.dumps(payload))

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("horizon", "many"),
            ("horizon", None),
            ("horizon", math.inf),
            ("horizon", 0),
            ("seed", []),
            ("seed", -math.inf),
            ("rounds", 3),
            ("rounds", []),
            ("rounds", ["a", "b", "c", "d"]),
            ("labels", 3),
            ("labels", ["min-width"]),
            ("policies", [{}]),
            ("trial_spans", [[1]]),
            ("trial_spans", [3]),
            ("trial_spans", []),
            ("trial_spans", [[0, 30], [20, 40]]),
            ("trial_spans", [[5, 5]]),
            ("sums", "1"),
            ("sums", []),
            ("sums", [["x"]]),
            ("sums", [["1"]]),
            ("products", [[["1"]]]),
            ("products", None),
            ("kept", [[1.0]]),
            ("kept", [[[1.0], [2.0, 3.0]]]),
            ("kept", "all"),
            ("seconds", None),
            ("seconds", [1.0]),
            ("versions", 3),
            ("problem", {"means": [2.0], "sensitivities": [0.5]}),
            ("problem", None),
        ],
    )
    def test_a_damaged_field_is_refused(self, results, field, value):
        payload = json.loads(results.to_json()) | {field: value}
        with pytest.raises(InvalidInput):
            Results.from_json(json.dumps(payload))

    @settings(max_examples=200)
    @given(
        field=st.sampled_from(NEEDED),
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=6,
        ),
    )
    def test_what_is_read_from_a_damaged_file_can_be_used(self, results, field, value):
        payload = json.loads(results.to_json()) | {field: value}
        try:
            read = Results.from_json(json.dumps(payload))
        except InvalidInput:
            return
        assert len(read.to_frame()) == len(read.policies) * len(read.rounds)


class TestTables:
    """CSV, Parquet and the data frame."""

    def check(self, frame, results):
        assert len(frame) == len(results.policies) * len(results.rounds)
        for label in results.policies:
            rows = frame[frame.policy == label]
            assert rows["round"].tolist() == list(results.rounds)
            assert rows["mean"].tolist() == results.mean(label).tolist()
            assert rows["se"].tolist() == results.se(label).tolist()
            assert set(rows["trials"]) == {results.trials}

    def test_the_frame_has_a_row_for_each_policy_and_checkpoint(self, results):
        frame = results.to_frame()
        self.check(frame, results)
        for level, column in ((0.05, "q05"), (0.5, "q50"), (0.95, "q95")):
            wanted = np.quantile(results.kept, level, axis=-1).ravel()
            np.testing.assert_allclose(frame[column], wanted)
        assert "q50" not in run(keep="final").to_frame()

    def test_csv_carries_provenance_and_reads_back(self, results, tmp_path):
        path = tmp_path / "results.csv"
        results.to_csv(path)
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
        assert json.loads(first.removeprefix("# ")) == results.provenance()
        exact = pd.DataFrame(csv.DictReader(io.StringIO(rest)))
        for column, kind in (("round", int), ("trials", int), ("mean", float), ("se", float)):
            exact[column] = [kind(text) for text in exact[column]]
        self.check(exact, results)
        # Some versions of pandas read the last digit of a number carelessly.
        frame = pd.read_csv(path, comment="#")
        assert frame["policy"].tolist() == exact["policy"].tolist()
        np.testing.assert_allclose(frame["mean"], exact["mean"], rtol=1e-15)

    def test_parquet_carries_provenance_and_reads_back(self, results, tmp_path):
        path = tmp_path / "results.parquet"
        results.to_parquet(path)
        self.check(pd.read_parquet(path), results)
        note = json.loads(pq.read_schema(path).metadata[b"heterobandits"])
        assert note == results.provenance()

    def test_provenance_is_enough_to_run_it_again(self, results):
        note = json.loads(json.dumps(results.provenance()))
        again = simulate(
            Problem.from_dict(note["problem"]),
            [entry["name"] for entry in note["policies"]],
            note["horizon"],
            range(*note["trial_spans"][0]),
            note["seed"],
            checkpoints=4,
            keep="all",
        )
        assert bits(again) == bits(results)


class TestSave:
    """The folder of a run."""

    FILES = ("results.json", "results.csv", "results.parquet", "regret.png")

    def test_it_writes_four_files(self, results, tmp_path):
        folder = tmp_path / "new" / "folder"
        written = results.save(folder, title="Dormitory")
        assert [path.name for path in written] == list(self.FILES)
        assert sorted(path.name for path in folder.iterdir()) == sorted(self.FILES)
        text = (folder / "results.json").read_text(encoding="utf-8")
        assert bits(Results.from_json(text)) == bits(results)
        assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert len(pd.read_csv(folder / "results.csv", comment="#")) == 12
        assert len(pd.read_parquet(folder / "results.parquet")) == 12

    def test_it_replaces_what_was_there(self, results, tmp_path):
        for name in self.FILES:
            (tmp_path / name).write_text("old")
        results.save(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(self.FILES)
        for name in self.FILES:
            assert (tmp_path / name).read_bytes() != b"old"

    def test_a_write_that_fails_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "results.json"
        path.write_text("old")

        def half_way(aside):
            aside.write_text("ne")
            assert path.read_text() == "old"
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            write_aside(path, half_way)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_folder_that_cannot_be_is_refused(self, results, tmp_path):
        file = tmp_path / "file"
        file.write_text("in the way")
        for folder in (file, file / "below"):
            with pytest.raises(InvalidInput, match="cannot write to"):
                results.save(folder)
        assert file.read_text() == "in the way"


class TestPlot:
    """The figure."""

    def test_a_line_and_a_band_for_each_policy(self, results):
        ax = results.plot(Figure().subplots(), title="Dormitory")
        assert len(ax.lines) == len(ax.collections) == len(NAMES)
        for line, band, label in zip(ax.lines, ax.collections, NAMES, strict=True):
            assert line.get_label() == STYLES[label].title
            assert to_hex(line.get_color()) == STYLES[label].colour
            assert line.get_xdata().tolist() == [0, *results.rounds]
            assert line.get_ydata().tolist() == [0, *results.mean(label)]
            corners = band.get_paths()[0].vertices
            mean, se = results.mean(label)[-1], results.se(label)[-1]
            at_end = corners[corners[:, 0] == results.horizon][:, 1]
            assert at_end.min() == pytest.approx(mean - 2 * se)
            assert at_end.max() == pytest.approx(mean + 2 * se)
        assert ax.get_xlabel() == "round"
        assert ax.get_ylabel() == "cumulative regret"
        assert ax.get_title() == "Dormitory"
        assert "40 trials" in ax.get_legend().get_title().get_text()
        titles = [text.get_text() for text in ax.get_legend().get_texts()]
        assert titles == [STYLES[label].title for label in NAMES]

    def test_it_makes_axes_if_none_are_given(self, results):
        ax = results.plot()
        assert len(ax.lines) == 3
        plt.close(ax.figure)

    def test_own_policies_have_lines_of_their_own(self):
        own = [Policy(f"own {i}", index=lambda c, y, s, t: np.zeros(c.shape[1:])) for i in range(7)]
        ax = run(trials=3, policies=["ucb", *own]).plot(Figure().subplots())
        assert [line.get_label() for line in ax.lines] == ["UCB", *(f"own {i}" for i in range(7))]

    def test_an_interrupted_run_says_so(self, results):
        ax = replace(results, partial=True).plot(Figure().subplots())
        assert "interrupted" in ax.get_legend().get_title().get_text()


def test_speed_is_told(results):
    for label in NAMES:
        assert results.rounds_per_second(label) > 0
        assert results.seconds[results.position(label)] > 0
