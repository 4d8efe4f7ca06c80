"""Sweeps from the specification to the tables: the same bytes however they are run, and nothing lost."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import heterobandits
from heterobandits import InvalidInput, Policy, simulate
from heterobandits.cli.sweep import render_estimate
from heterobandits.simulation.pool.shards import ShardStore
from heterobandits.simulation.pool.threads import Threads
from heterobandits.sweeps import estimate as sweeps_estimate
from heterobandits.sweeps import spec as module
from heterobandits.sweeps.estimate import estimate_size
from heterobandits.sweeps.reading import description_of, read_sweep
from heterobandits.sweeps.spec import Spec
from heterobandits.sweeps.sweep import sweep

pytestmark = pytest.mark.smoke

SPEC = """
title = "a small one"
seed = 3
horizon = 60
checkpoints = 2
policies = ["min-width", "cucb", {name = "min-ucb", delta = 0.01}]
reference = "cucb"
trials = 20
draws = 2

[problem]
arms = 4
sensitivities = {centre = 0.5}
means = {low = 0.1, high = 0.9, drawn = true}

[grid]
agents = [1, 3]
sensitivities.spread = [0.0, 0.6]
"""
TABLES = ("results.parquet", "pairs.parquet")


def spec(text=SPEC, **policies):
    return Spec.from_toml(text, policies)


def tables(folder):
    return [(folder / name).read_bytes() for name in TABLES]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A folder with the small sweep, run on one thread."""
    folder = tmp_path_factory.mktemp("sweep") / "deep" / "folder"
    made = sweep(spec(), folder, threads=1)
    assert made.failed == ()
    return folder


class TestTables:
    """What a researcher reads."""

    def test_every_number_is_that_of_a_simulation(self, swept):
        frame, pairs = read_sweep(swept), read_sweep(swept, "pairs")
        labels = [entry.label for entry in spec().policies]
        assert len(frame) == 8 * 3 * 2
        assert len(pairs) == 8 * 3 * 2
        for number, chosen in enumerate(spec()):
            seed = spec().seed_of(chosen)
            assert (seed == 3) == (chosen.axes["draw"] == 0)
            results = simulate(chosen.problem, chosen.policies, 60, 20, seed, checkpoints=2)
            part = frame[frame["point"] == number]
            assert part["policy"].tolist() == [label for label in labels for _ in range(2)]
            assert part["round"].tolist() == [30, 60] * 3
            assert set(part["trials"]) == {20}
            for label in labels:
                rows = part[part["policy"] == label]
                assert rows["mean"].tolist() == results.mean(label).tolist()
                assert rows["se"].tolist() == results.se(label).tolist()
                ratio = results.ratio(label, "cucb", 0.95)
                for name in ("value", "lower", "upper"):
                    column = "ratio" if name == "value" else f"ratio_{name}"
                    wanted = getattr(ratio, name)
                    assert rows[column].to_numpy() == pytest.approx(wanted, rel=1e-12, nan_ok=True)
            apart = pairs[pairs["point"] == number]
            couples = [(a, b) for i, a in enumerate(labels) for b in labels[i + 1 :]]
            assert list(dict.fromkeys(zip(apart["policy"], apart["other"], strict=True))) == couples
            for one, other in couples:
                rows = apart[(apart["policy"] == one) & (apart["other"] == other)]
                difference = results.difference(one, other, 0.95)
                assert rows["difference"].tolist() == difference.mean.tolist()
                assert rows["difference_se"].tolist() == difference.se.tolist()
                for name in ("lower", "upper"):
                    wanted = getattr(difference, name)
                    assert rows[f"difference_{name}"].to_numpy() == pytest.approx(wanted, rel=1e-12)

    def test_axes_are_columns(self, swept):
        frame = read_sweep(swept)
        points = frame.drop_duplicates("point")
        assert points["agents"].tolist() == [1, 1, 1, 1, 3, 3, 3, 3]
        assert points["sensitivities.spread"].tolist() == [0.0, 0.0, 0.6, 0.6] * 2
        assert points["draw"].tolist() == [0, 1] * 4
        assert set(points["arms"]) == {4}
        assert set(points["horizon"]) == {60}
        assert set(points["stopped"]) == {"fixed"}
        assert points.dtypes["agents"] == "int64"

    def test_one_agent_alone_sees_the_same_with_all(self, swept):
        """With A = 1 the paper's policies make the same choices: exactly the same regret."""
        frame = read_sweep(swept, where=[("agents", "==", 1)])
        same = frame[frame["policy"].isin(["min-width", "cucb"])]
        assert len(same) == 4 * 2 * 2
        assert (same["ratio"] == 1).all()

    def test_only_what_is_asked_for_is_read(self, swept):
        frame = heterobandits.read_sweep(
            swept, columns=["mean", "policy"], where=[("round", "==", 60)]
        )
        assert list(frame.columns) == ["mean", "policy"]
        assert len(frame) == 24
        with pytest.raises(InvalidInput, match=r"unknown column 'men': did you mean 'mean'"):
            read_sweep(swept, columns=["men"])
        with pytest.raises(InvalidInput, match="table is 'other'"):
            read_sweep(swept, "other")

    def test_what_it_says_of_itself(self, swept):
        said = description_of(swept)
        assert (said["title"], said["points"], said["failed"]) == ("a small one", 8, 0)
        assert said["axes"] == ["agents", "sensitivities.spread", "draw"]
        assert said["policies"] == ["min-width", "cucb", "min-ucb(delta=0.01)"]
        assert said["spec"]["seed"] == 3
        assert said["made_with"]["numpy"]

    def test_folders_that_are_no_sweep(self, tmp_path):
        with pytest.raises(InvalidInput, match="has no sweep"):
            read_sweep(tmp_path)
        (tmp_path / "shards").mkdir()
        with pytest.raises(InvalidInput, match="not finished"):
            read_sweep(tmp_path)
        (tmp_path / "results.parquet").write_bytes(b"PAR1")
        with pytest.raises(InvalidInput, match=r"cannot read .*results.parquet: "):
            read_sweep(tmp_path)
        pd.DataFrame({"mean": [1.0]}).to_parquet(tmp_path / "results.parquet")
        with pytest.raises(InvalidInput, match="not a table of a sweep"):
            read_sweep(tmp_path)


WATCHED = """
import sys
from pathlib import Path
from heterobandits import read_sweep
from heterobandits.sweeps.sweep import sweep
from heterobandits.sweeps.spec import Spec

opened = []

def watch(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".parquet") and arguments[1] in (None, "r", "rb"):
        opened.append(arguments)

folder = Path(sys.argv[1])
spec = Spec.load(folder / "spec.toml")
assert sweep(spec, folder / "out").rounds > 0
sys.addaudithook(watch)
assert sweep(spec, folder / "out").rounds == 0  # the tables are there
(folder / "out" / "pairs.parquet").unlink()
assert sweep(spec, folder / "out").rounds == 0  # and are made again from the shards
assert len(read_sweep(folder / "out", where=[("round", "==", 60)])) == 24
assert opened == [], opened
"""
READERS = {"ParquetFile", "ParquetDataset", "read_table", "read_schema", "read_metadata", "read_parquet", "dataset"}  # fmt: skip


class TestReading:
    """Arrow opens what it reads: of a Python file its threads may free something when there is no interpreter any more."""

    @pytest.mark.parametrize("name", [b"plain", b"no \xff text"])
    def test_no_python_file_reaches_arrow(self, tmp_path, name):
        folder = tmp_path / os.fsdecode(name)
        folder.mkdir()
        (folder / "spec.toml").write_text(SPEC, "utf-8")
        command = [sys.executable, "-c", WATCHED, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    def test_there_is_one_reader(self):
        sources = Path(heterobandits.__file__).parent
        readers = {
            path.relative_to(sources).as_posix()
            for path in sources.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if (isinstance(node, ast.Attribute) and node.attr in READERS)
            or (
                isinstance(node, ast.ImportFrom | ast.Import)
                and READERS & {name.name.rpartition(".")[2] for name in node.names}
            )
        }
        assert readers == {"output/parquet.py"}


class TestRunning:
    """The same bytes, whatever happened on the way."""

    def test_on_any_number_of_threads(self, swept, tmp_path):
        sweep(spec(), tmp_path, threads=3)
        assert tables(tmp_path) == tables(swept)

    def test_a_finished_one_is_not_touched(self, swept):
        before = {path: path.stat().st_mtime_ns for path in swept.rglob("*.parquet")}
        made = sweep(spec(), swept)
        assert made.rounds == 0
        assert before == {path: path.stat().st_mtime_ns for path in swept.rglob("*.parquet")}

    def test_the_engine_is_stopped_whatever_happens(self, swept, tmp_path):
        stopped = []

        class Watched(Threads):
            def stop(self):
                stopped.append(self)
                return super().stop()

        sweep(spec(), swept, engine=Watched(1))  # finished
        assert len(stopped) == 1
        (tmp_path / "file").write_text("")
        with pytest.raises(InvalidInput, match="cannot write to"):
            sweep(spec(), tmp_path / "file" / "below", engine=Watched(1))
        assert len(stopped) == 2

    def test_tables_that_are_gone_or_damaged_are_made_again(self, tmp_path):
        sweep(spec(), tmp_path)
        whole = tables(tmp_path)
        flipped = bytearray(whole[0])
        flipped[60] ^= 1
        other = sweep(spec(SPEC.replace("trials = 20", "trials = 21")), tmp_path / "other")
        others = (other.folder / "pairs.parquet").read_bytes()
        for name, data in (
            ("pairs.parquet", None),
            ("pairs.parquet", b"garbage"),
            ("pairs.parquet", others),
            ("results.parquet", b"PAR1"),
            ("results.parquet", flipped),
        ):
            path = tmp_path / name
            path.unlink() if data is None else path.write_bytes(data)
            made = sweep(spec(), tmp_path)
            assert made.rounds == 0
            assert tables(tmp_path) == whole

    def test_only_new_points_run(self, swept, tmp_path):
        sweep(spec(SPEC.replace("agents = [1, 3]", "agents = [3]")), tmp_path)
        made = sweep(spec(), tmp_path)
        # those of the one agent, which has no spread: two points of each draw are the same and played once
        assert made.rounds == 2 * 20 * 60 * 3
        assert tables(tmp_path) == tables(swept)
        more = sweep(spec(SPEC.replace("draws = 2", "draws = 3")), tmp_path)
        assert more.rounds == 3 * 20 * 60 * 3  # the third draws
        assert tables(tmp_path) != tables(swept)
        again = sweep(spec(), tmp_path)
        assert again.rounds == 0
        assert tables(tmp_path) == tables(swept)

    @pytest.mark.parametrize(("draws", "stays"), [(2, True), (3, False)])
    def test_a_table_goes_only_for_that_of_another_sweep(self, draws, stays, tmp_path):
        """Who has finished beside another coordinator reads its table while that one writes the same."""
        sweep(spec(), tmp_path)
        (tmp_path / "pairs.parquet").unlink()
        (tmp_path / "pairs.parquet").mkdir()  # which no file can replace: writing ends there
        with pytest.raises(InvalidInput, match="cannot write"):
            sweep(spec(SPEC.replace("draws = 2", f"draws = {draws}")), tmp_path)
        assert (tmp_path / "results.parquet").exists() == stays

    def test_a_damaged_shard_is_redone(self, swept, tmp_path):
        sweep(spec(), tmp_path)
        for path in (tmp_path / "shards").iterdir():
            path.write_bytes(path.read_bytes()[:-100])
        (tmp_path / "pairs.parquet").unlink()
        notes = []
        made = sweep(spec(), tmp_path, note=notes.append)
        assert made.rounds == 6 * 20 * 60 * 3
        assert notes
        assert all("run again" in text for text in notes)
        assert tables(tmp_path) == tables(swept)

    def test_an_interrupt_keeps_what_is_finished(self, swept, tmp_path):
        def tell(progress):
            if progress.jobs:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sweep(spec(), tmp_path, threads=1, tell=tell)
        assert not (tmp_path / "results.parquet").exists()
        assert len(list(ShardStore(tmp_path / "shards"))) >= 1
        sweep(spec(), tmp_path)
        assert tables(tmp_path) == tables(swept)

    def test_a_poisoned_point_is_reported_and_stops_nothing(self, tmp_path):
        def index(known):
            if len(known.team) == 3:
                raise RuntimeError("three are too many")
            return known.successes.sum(axis=0) + 0.0

        text = SPEC.replace('"cucb", ', '"cucb", "moody", ')
        made = sweep(spec(text, moody=Policy("moody", index=index)), tmp_path)
        assert [one.point for one in made.failed] == [4, 5, 6, 7]
        assert made.failed[0].axes == {"agents": 3, "sensitivities.spread": 0.0, "draw": 0}
        assert made.failed[0].error.startswith("RuntimeError: three are too many (")
        stored = json.loads((tmp_path / "failures.json").read_text("utf-8"))
        assert stored[0]["definition"]["problem"]["sensitivities"] == [0.5, 0.5, 0.5]
        assert sorted(set(read_sweep(tmp_path)["point"])) == [0, 1, 2, 3]
        assert description_of(tmp_path)["failed"] == 4
        # mended, only these run, and nothing of the failure is left
        well = Policy("moody", index=lambda known: known.successes.sum(axis=0) + 0.0)
        again = sweep(spec(text, moody=well), tmp_path)
        assert again.failed == ()
        assert not (tmp_path / "failures.json").exists()
        assert len(read_sweep(tmp_path)) == 8 * 4 * 2

    def test_precision_adds_trials_point_by_point(self, tmp_path):
        text = SPEC.replace("trials = 20", "trials = 20\nmost_trials = 300\nprecision = '8 %'")
        sweep(spec(text), tmp_path)
        frame = read_sweep(tmp_path)
        last = frame[frame["round"] == 60]
        assert set(last["trials"]) <= {20, 40, 80, 160, 300}
        assert len(set(last["trials"])) > 1
        assert (last["played"] == 2 * last["trials"]).all()
        narrow = last["stopped"] == "narrow"
        assert narrow.any()
        limited = last[last["stopped"] == "limit"]
        assert set(limited["trials"]) <= {300}
        # one that is narrow was so with so many trials from the beginning, and is shown by as many that came after
        number = int(last[narrow & (last["trials"] > 20)]["point"].iloc[0])
        rows = last[last["point"] == number]
        count = int(rows["trials"].iloc[0])
        chosen = spec(text)[number]
        seed = spec(text).seed_of(chosen)
        how = {"seed": seed, "checkpoints": 2, "keep": "final"}
        looked = simulate(chosen.problem, chosen.policies, 60, count, **how)
        after = simulate(chosen.problem, chosen.policies, 60, range(count, 2 * count), **how)
        for entry, row in zip(chosen.policies, rows.to_dict("records"), strict=True):
            label = entry.label
            if label != "cucb":
                first = looked.ratio(label, "cucb", 1 - 0.05 / 5)  # five looks there may be
                assert (first.upper[-1] / first.lower[-1]) ** 0.5 - 1 <= 0.08
            shown = after.ratio(label, "cucb", 0.95)
            assert row["mean"] == after.mean(label)[-1]
            assert row["ratio_upper"] == pytest.approx(shown.upper[-1], rel=1e-12, nan_ok=True)
            both = [looked.regrets(label), after.regrets(label)]
            assert row["largest"] == max(part.max() for part in both)

    def test_of_very_many_points_one_may_be_wrong(self, tmp_path, monkeypatch):
        """Not all were made before: it is a failure like another, and the others run."""
        monkeypatch.setattr(module, "CHECK_MAX_POINTS", 0)
        text = SPEC.replace(
            "agents = [1, 3]", "agents = [1, 3]\nfalse_positive_rates = [0.0, 0.45, 0.01]"
        )
        with pytest.raises(InvalidInput, match="tells nothing"):
            list(spec(text))
        made = sweep(spec(text), tmp_path)
        assert made.failed
        assert all("tells nothing" in one.error for one in made.failed)
        assert all(one.axes["false_positive_rates"] == 0.45 for one in made.failed)
        assert len(set(read_sweep(tmp_path)["point"])) + len(made.failed) == 24

    @pytest.mark.slow
    @pytest.mark.parametrize("change", ["first", "constant", "helper"])
    def test_a_policy_whose_code_changed_is_run_again(self, tmp_path, change):
        """Whatever of it changed: its record, a constant it reads, or a function it calls in another file."""
        code = (
            "from heterobandits import Policy\nimport own_helper_{c}\nK = 1.0\n"
            "def index(known):\n    return K * own_helper_{c}.score(known)\n"
            "mine = Policy('mine', index=index, first='most sensitive')\n"
        ).replace("{c}", change)  # fmt: skip
        helper = "def score(known):\n    return known.successes.sum(axis=0) + 0.0\n"
        text = SPEC.replace('"cucb", ', f'"cucb", {{python = "own_main_{change}:mine"}}, ')
        (tmp_path / "spec.toml").write_text(text, "utf-8")
        run = (
            "import sys; from heterobandits.sweeps.sweep import sweep;"
            "from heterobandits.sweeps.spec import Spec;"
            "print(sweep(Spec.load(sys.argv[1] + '/spec.toml'), sys.argv[1] + '/out').rounds)"
        )
        counts = []
        for step in range(3):
            if step == 2:
                code = code.replace("most sensitive", "random") if change == "first" else code
                code = code.replace("K = 1.0", "K = -1.0") if change == "constant" else code
                helper = helper.replace("+ 0.0", "* -1.0") if change == "helper" else helper
            (tmp_path / f"own_main_{change}.py").write_text(code, "utf-8")
            (tmp_path / f"own_helper_{change}.py").write_text(helper, "utf-8")
            done = subprocess.run(
                [sys.executable, "-B", "-c", run, str(tmp_path)], capture_output=True, text=True, check=False
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            counts.append(int(done.stdout))
        assert counts[0] == counts[2] > 0
        assert counts[1] == 0

    def test_without_points_that_succeed_there_are_empty_tables(self, tmp_path):
        def index(known):
            raise RuntimeError

        text = (
            SPEC.replace('["min-width"', '["bad"')
            .replace('"cucb",', "")
            .replace('reference = "cucb"', "")
        )
        made = sweep(spec(text, bad=Policy("bad", index=index)), tmp_path)
        assert len(made.failed) == 8
        assert len(read_sweep(tmp_path)) == 0
        assert "mean" in read_sweep(tmp_path, "results").columns


LONGER = (
    SPEC.replace("horizon = 60", "horizon = 20_000")
    .replace("draws = 2", "draws = 6")
    .replace("agents = [1, 3]", "agents = [2, 3]")
)
# every piece goes to the disk at once, so that there is something to keep after a moment
EAGER = (
    "import sys; from heterobandits.simulation.pool.shards import ShardStore;"
    "ShardStore.write_if_due = ShardStore.write;"
    "from heterobandits.cli import main; main(sys.argv[1:])"
)


def started(path, folder, *options):
    return subprocess.Popen(
        [sys.executable, "-c", EAGER, "sweep", str(path), "--output", str(folder), *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def until(condition, process, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    """A sweep that takes a few seconds: its file, and the tables of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("longer")
    path = folder / "spec.toml"
    path.write_text(LONGER, "utf-8")
    sweep(Spec.load(path), folder / "whole")
    return path, tables(folder / "whole")


class TestCommand:
    """As people meet it."""

    def test_killed_twice_it_finishes_with_the_same_bytes(self, longer, tmp_path):
        path, whole = longer
        shards = tmp_path / "shards"
        counts = [0]
        for _ in range(2):
            process = started(path, tmp_path)
            try:
                until(lambda: len(list(shards.glob("*.parquet"))) > counts[-1], process)
            finally:
                os.kill(process.pid, signal.SIGKILL)
                process.communicate()
            counts.append(len(list(shards.glob("*.parquet"))))
        assert 0 < counts[1] < counts[2]
        kept = len(list(ShardStore(shards)))
        assert 0 < kept < 24
        process = started(path, tmp_path, "--format", "json")
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)["rounds"] == (24 - kept) * 20 * 20_000 * 3
        assert tables(tmp_path) == whole

    def test_ctrl_c_stops_within_a_second(self, longer, tmp_path):
        path, whole = longer
        process = started(path, tmp_path)
        until(lambda: list((tmp_path / "shards").glob("*.parquet")), process)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (
            time.monotonic() - begin < 2
        )  # a second, and one for the end of the process beside other tests
        assert (process.returncode, out) == (130, "")
        assert "Traceback" not in err
        assert err.splitlines()[-1] == "heterobandits: interrupted"
        sweep(Spec.load(path), tmp_path)
        assert tables(tmp_path) == whole

    def test_two_at_once_do_not_harm_each_other(self, longer, tmp_path):
        path, whole = longer
        both = [started(path, tmp_path) for _ in range(2)]
        for process in both:
            _, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            assert "damaged" not in err
        assert tables(tmp_path) == whole
        assert {p.suffix for p in (tmp_path / "shards").iterdir()} == {".parquet"}

    @pytest.mark.slow
    def test_processes_give_the_same_bytes(self, called, swept, tmp_path):
        if find_spec("distributed") is None and os.environ.get("CI") != "true":
            pytest.skip("Dask is not installed: pip install 'heterobandits[dask]'")
        (tmp_path / "spec.toml").write_text(SPEC, "utf-8")
        folder = tmp_path / "out"
        code, _, err = called(
            "sweep", tmp_path / "spec.toml", "--output", folder, "--local-workers", "2"
        )
        assert code == 0, err
        assert "on 2 workers at tls://127.0.0.1:" in err
        assert "dashboard http://127.0.0.1:" in err
        assert tables(folder) == tables(swept)

    def test_the_table_for_a_person(self, called, swept, tmp_path):
        (tmp_path / "spec.toml").write_text(SPEC, "utf-8")
        code, out, err = called("sweep", tmp_path / "spec.toml", "--output", swept)
        assert code == 0
        assert "a small one" in out
        assert "min-ucb(delta=0.01)" in out
        assert "results.parquet after" in out
        assert "8 points, 3 policies, 20 trials each" in err
        code, out, err = called(
            "sweep", tmp_path / "spec.toml", "--output", swept, "-q", "--format", "json"
        )
        answer = json.loads(out)
        assert (code, err) == (0, "")
        frame = read_sweep(swept)
        last = frame[frame["round"] == 60]
        for row in answer["policies"]:
            part = last[last["policy"] == row["policy"]]
            counts = part["verdict"].value_counts().to_dict()
            assert {name: row[name] for name in counts} == counts
        assert answer["trials"] == {"least": 20, "median": 20, "most": 20}

    def test_failures_are_said_and_the_exit_code_is_one(self, called, tmp_path):
        (tmp_path / "mine.py").write_text(
            "from heterobandits import Policy\n"
            "def index(known):\n    raise RuntimeError('never again')\n"
            "bad = Policy('bad', index=index)\n", "utf-8",
        )  # fmt: skip
        text = SPEC.replace('"cucb", ', '"cucb", {python = "mine:bad"}, ')
        (tmp_path / "spec.toml").write_text(text, "utf-8")
        code, out, err = called(
            "sweep", tmp_path / "spec.toml", "--output", tmp_path / "out", "--format", "json"
        )
        assert code == 1
        assert len(json.loads(out)["failed"]) == 8
        lines = err.splitlines()
        assert (
            "point 0 (agents = 1, sensitivities.spread = 0.0, draw = 0): RuntimeError: never again"
            in err
        )
        assert lines[-1].endswith(f"8 of 8 points failed: {tmp_path / 'out' / 'failures.json'}")

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["nowhere.toml"], "cannot read nowhere.toml"),
            (["closing-question", "--threads", "0"], "threads is 0"),
            (["closing-question", "--threads", "-3", "--dry-run"], "threads is -3"),
            (["closing-question", "--threads", "2", "--local-workers", "2"], "one or the other"),
            (["closing-question", "--scheduler", "a", "--scheduler-file", "b"], "one or the other"),
            ([], "SPEC"),
        ],
    )
    def test_bad_input_is_one_line(self, called, tmp_path, arguments, expected):
        code, out, err = called("sweep", *arguments, "--output", tmp_path / "out", "-q")
        assert (code, out) == (2, "")
        assert expected in err
        assert err.count("\n") == 1
        assert not (tmp_path / "out").exists()

    @pytest.mark.slow
    def test_an_example_into_a_folder_of_its_name(self, called, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "drift").mkdir()
        code, out, _ = called("sweep", "drift", "--dry-run")
        assert code == 0
        assert "Forgetting over the step of a walk" in out

    def test_json_has_no_nan(self, called, tmp_path):
        text = SPEC.replace("means = {low = 0.1, high = 0.9, drawn = true}", "means = 0.5").replace(
            "draws = 2", ""
        )
        (tmp_path / "spec.toml").write_text(text, "utf-8")
        code, out, _ = called(
            "sweep", tmp_path / "spec.toml", "--output", tmp_path / "o", "--format", "json"
        )
        assert code == 0
        assert [row["ratio"] for row in json.loads(out)["policies"]] == [None] * 3
        assert "NaN" not in out
        assert "–" in called("sweep", tmp_path / "spec.toml", "--output", tmp_path / "o")[1]

    def test_a_mistake_is_said_with_its_place(self, called, tmp_path):
        (tmp_path / "spec.toml").write_text(
            SPEC.replace("agents = [1, 3]", "agents = [1, 30]"), "utf-8"
        )
        code, _, err = called("sweep", tmp_path / "spec.toml", "--output", tmp_path / "out", "-q")
        assert code == 2
        assert "agents = 30" in err
        assert "at most as many agents as arms" in err

    @pytest.mark.slow
    def test_a_dry_run_says_what_it_comes_to(self, called, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, out, err = called("sweep", "closing-question", "--dry-run", "--threads", "4")
        assert (code, err) == (0, "")
        assert "1,440 points, 4 policies, 64 to 1,024 trials each, and as many again" in out
        assert "arms_per_agent: 1.0, 1.25" in out
        assert "on 4 cores" in out
        assert "disk: about" in out
        assert list(tmp_path.iterdir()) == []

    def test_an_estimate_counts_rounds(self):
        found = estimate_size(spec(), seconds=0.0)
        assert found.points == 8
        assert found.rounds == (8 * 20 * 60 * 3,) * 2
        assert found.sampled == 1
        more = estimate_size(spec(SPEC.replace("trials = 20", "trials = 20\nprecision = 0.1")))
        assert more.trials == (40, 2560)  # after the last look as many again
        assert more.rounds[1] == 64 * more.rounds[0]
        assert more.seconds[1] == pytest.approx(64 * more.seconds[0])
        assert more.sampled == 8

    def test_an_estimate_says_one_measured_time(self):
        """How many trials points need is measured on some of them that are played to the end."""
        needy = SPEC.replace("trials = 20", "trials = 20\nmost_trials = 5_120\nprecision = 0.1")
        found = estimate_size(spec(needy))
        assert found.finished == 8  # all there are
        least, most = found.seconds
        assert least < found.likely < most
        text = "\n".join(render_estimate(found, 2))
        assert "time: about " in text
        assert "as the 8 points that it has played to the end" in text
        assert " if all need the fewest or the most" in text
        # where all need as many, it is just that
        same = estimate_size(spec())
        assert (same.finished, same.likely) == (0, same.seconds[0])
        assert re.search(r"time: about \S+ \S+ on 2 cores.*, from 8 points$", "\n".join(render_estimate(same, 2)), re.M)  # fmt: skip

    def test_an_estimate_says_what_its_range_depends_on(self, monkeypatch):
        monkeypatch.setattr(sweeps_estimate, "FINISH_TARGET_S", 0.0)
        found = estimate_size(spec(SPEC.replace("trials = 20", "trials = 20\nprecision = 0.1")))
        assert (found.finished, found.likely) == (0, None)
        assert "it depends on how many trials points need" in "\n".join(render_estimate(found, 2))

    def test_an_estimate_of_what_is_long_takes_no_longer(self, monkeypatch):
        """64 trials of ten million rounds are stopped in the middle, and the rest is extrapolated."""
        monkeypatch.setattr(sweeps_estimate, "SAMPLE_POINT_MAX_S", 0.5)
        text = SPEC.replace("horizon = 60", "horizon = 10_000_000").replace(
            "trials = 20", "trials = 100_000_000"
        )
        begin = time.monotonic()
        found = estimate_size(spec(text), seconds=0.5)
        assert time.monotonic() - begin < 10
        assert found.rounds[0] == 8 * 10**8 * 10**7 * 3
        assert found.seconds[0] > 1e6

    def test_an_estimate_of_the_disk_is_not_far_off(self, swept):
        written = sum(path.stat().st_size for path in swept.rglob("*.parquet"))
        assert written / 3 < estimate_size(spec()).size < 3 * written


def test_shards_say_what_they_are(swept):
    """A stranger with a Parquet reader finds the whole definition of every number."""
    (path, *_) = (swept / "shards").iterdir()
    row = pq.read_table(path).to_pylist()[0]
    what = json.loads(row["definition"])
    assert what["horizon"] == 60
    assert [entry["name"] for entry in what["policies"]] == ["min-width", "cucb", "min-ucb"]
    assert set(what["made_with"]) == {"python", "heterobandits", "numpy", "numba", "kernels"}
    assert Path(path).stem.isalnum()
