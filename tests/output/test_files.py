"""Results as files: JSON and back, CSV, Parquet, and the folder of a run."""

import csv
import io
import json
import math
import os
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heterobandits import InvalidInput, Problem, Results, UnsupportedVersion, simulate
from heterobandits.output.files import write_atomic
from heterobandits.simulation.results import _sum_exactly
from small_runs import NAMES, PROBLEM, bits, run

pytestmark = pytest.mark.smoke


@pytest.fixture(scope="module")
def results():
    return run()


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

    @pytest.mark.parametrize("newer", [2, 99, "2", None, 1.5, True, False, 0, -1])
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

    def test_a_byte_order_mark_is_taken(self, results):
        assert bits(Results.from_json("\ufeff" + results.to_json())) == bits(results)

    def test_a_key_that_is_there_twice_is_refused(self, results):
        text = results.to_json().replace('"seed": 7', '"seed": 7, "seed": 8')
        with pytest.raises(InvalidInput, match="damaged: 'seed' is there twice"):
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

    DAMAGE: ClassVar = {
        "horizon": ["many", None, math.inf, 0],
        "seed": [[], -math.inf],
        "rounds": [3, [], ["a", "b", "c", "d"]],
        "labels": [3, ["min-width"], ["min-width", "min-width", "cucb"], ["min-width", "\x1b[31m", "cucb"]],
        "policies": [[{}]],
        "trial_spans": [[[1]], [3], [], [[0, 30], [20, 40]], [[5, 5]]],
        "sums": ["1", [], [["x"]], [["1"]]],
        "products": [[[["1"]]], None],
        "kept": [[[1.0]], [[[1.0], [2.0, 3.0]]], "all"],
        "seconds": [None, [1.0]],
        "versions": [3],
        "partial": ["false"],
        "problem": [{"means": [2.0], "sensitivities": [0.5]}, None],
    }  # fmt: skip

    @pytest.mark.parametrize(
        ("field", "value"), [(f, v) for f, values in DAMAGE.items() for v in values]
    )
    def test_a_damaged_field_is_refused(self, results, field, value):
        payload = json.loads(results.to_json()) | {field: value}
        with pytest.raises(InvalidInput):
            Results.from_json(json.dumps(payload))

    @pytest.mark.parametrize("wrong", [math.nan, 1e6, -1.0, 0.25])
    def test_kept_trials_that_are_not_those_of_the_sums(self, wrong):
        payload = json.loads(run(keep="final").to_json())
        payload["kept"][0][0][0] = wrong
        with pytest.raises(InvalidInput, match="the kept trials do not add up to the sums"):
            Results.from_json(json.dumps(payload))

    @pytest.mark.parametrize("total", [10**400, -(10**30)])
    def test_sums_that_no_regrets_have(self, results, total):
        payload = json.loads(results.to_json())
        payload["sums"] = [[str(total)] * len(row) for row in payload["sums"]]
        square = str(total**2)  # the same in every trial of every policy
        payload["products"] = [[[square] * len(r) for r in b] for b in payload["products"]]
        with pytest.raises(InvalidInput, match="no trial can have"):
            Results.from_json(json.dumps(payload))

    def test_products_that_no_two_policies_have_together(self, results):
        """Of each alone they may be: of their difference the squares would sum to less than nothing."""
        payload = json.loads(results.to_json())
        alone = [[int(square) for square in payload["products"][p][p]] for p in (0, 1)]
        together = [str(one + other) for one, other in zip(*alone, strict=True)]
        payload["products"][0][1] = payload["products"][1][0] = together
        with pytest.raises(InvalidInput, match="squares are less than the sums allow"):
            Results.from_json(json.dumps(payload))

    @pytest.mark.parametrize("use", ["to_csv", "to_parquet", "save"])
    @pytest.mark.parametrize("path", [None, 5, "", "a\0b"])
    def test_what_is_no_path(self, results, use, path):
        with pytest.raises(InvalidInput, match=r"(path|folder) is"):
            getattr(results, use)(path)

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

    @pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
    def test_the_umask_says_who_may_read(self, results, tmp_path, umask, mode):
        before = os.umask(umask)
        try:
            written = results.save(tmp_path)
        finally:
            os.umask(before)
        assert {path.stat().st_mode & 0o777 for path in written} == {mode}

    def test_a_write_that_fails_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "results.json"
        path.write_text("old")

        def half_way(aside):
            aside.write_text("ne")
            assert path.read_text() == "old"
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            write_atomic(path, half_way)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_folder_that_cannot_be_is_refused(self, results, tmp_path):
        file = tmp_path / "file"
        file.write_text("in the way")
        for folder in (file, file / "below"):
            with pytest.raises(InvalidInput, match="cannot write to"):
                results.save(folder)
        assert file.read_text() == "in the way"


def test_what_rounding_took_below_zero_is_read_back():
    """Equal agents on as many arms: every assignment costs nothing, but for the last bits of the ledger."""
    problem = Problem([0.61, 0.23, 0.47, 0.9, 0.11], [0.7] * 5)
    made = simulate(problem, ["random", "min-width"], 3000, 20, keep="all", checkpoints=3)
    assert made.kept.min() < 0
    assert bits(Results.from_json(made.to_json())) == bits(made)


@given(st.lists(st.integers(-9, 2**52), min_size=1, max_size=50))
def test_sums_of_kept_trials_are_exact(units):
    assert _sum_exactly(np.array(units, np.float64)).tolist() == sum(units)
