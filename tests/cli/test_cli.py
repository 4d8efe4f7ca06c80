"""The command line as other programs and people meet it: output, exit codes, bad input, speed of start."""

import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import heterobandits
from heterobandits import CATALOGUE, Problem, simulate
from processes import COMMAND, run

pytestmark = pytest.mark.smoke

MEANS = "0.05,0.1,0.12,0.15,0.25,0.3"
SENSITIVITIES = "0.8,0.8,0.8,0.95,0.95"
COVID = ["--means", MEANS, "--sensitivities", SENSITIVITIES]


def test_json_is_the_contract() -> None:
    done = run(
        "simulate", *COVID, "--believed", "0.85,0.85,0.85,0.98,0.98", "--policy", "min-width",
        "--policy", "cucb", "--horizon", "300", "--trials", "100", "--seed", "7",
        "--checkpoints", "30", "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert answer["problem"]["means"] == [0.05, 0.1, 0.12, 0.15, 0.25, 0.3]
    assert answer["problem"]["believed"] == [0.85, 0.85, 0.85, 0.98, 0.98]
    assert (answer["horizon"], answer["trials"], answer["seed"]) == (300, 100, 7)
    assert [entry["policy"] for entry in answer["results"]] == ["min-width", "cucb"]
    problem = Problem.from_dict(answer["problem"])
    results = simulate(problem, ["min-width", "cucb"], 300, 100, 7)
    for entry in answer["results"]:
        assert entry["rounds"] == list(range(10, 301, 10))
        assert entry["mean"] == results.mean(entry["policy"]).tolist()
        assert entry["se"] == results.se(entry["policy"]).tolist()
        assert entry["seconds"] > 0
        assert entry["rounds_per_second"] == pytest.approx(100 * 300 / entry["seconds"])


def test_all_is_the_papers_five(called) -> None:
    code, out, _ = called(
        "simulate", "--problem", "covid", "--policy", "all", "--trials", "3", "--format", "json"
    )
    assert code == 0
    names = [entry["policy"] for entry in json.loads(out)["results"]]
    assert names == ["min-width", "min-ucb", "no-sharing", "cucb", "ucb"]


def test_delta_and_policy_horizon_reach_the_policies(called) -> None:
    common = ("simulate", "--problem", "hotel", "--policy", "min-width", "--horizon", "50", "--trials", "20", "--format", "json")  # fmt: skip
    means = {}
    for extra in ((), ("--delta", "0.5"), ("--policy-horizon", "100000")):
        code, out, _ = called(*common, *extra)
        assert code == 0
        (entry,) = json.loads(out)["results"]
        means[entry["policy"]] = entry["mean"][-1]
    assert list(means) == ["min-width", "min-width(delta=0.5)", "min-width(horizon=100000)"]
    assert len(set(means.values())) == 3


def test_csv_and_table(called) -> None:
    common = ("simulate", "--problem", "hotel", "--policy", "oracle", "--policy", "random", "--horizon", "40", "--trials", "5")  # fmt: skip
    code, out, _ = called(*common, "--checkpoints", "4", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["round"] for row in rows] == ["10", "20", "30", "40"] * 2
    assert {row["mean"] for row in rows if row["policy"] == "oracle"} == {"0.0"}
    code, out, _ = called(*common)
    assert code == 0
    assert out.index("oracle") < out.index("random")
    assert "5 trials" in out


def test_outcomes_come_late(called) -> None:
    common = ("simulate", *COVID, "--policy", "min-width", "--horizon", "40", "--trials", "9")
    found = {}
    for how in ((), ("--delay", "0"), ("--delay", "5"), ("--delay", "5", "--under-way", "ignored")):
        code, out, _ = called(*common, *how, "--format", "json")
        assert code == 0
        told = json.loads(out)
        found[how] = told["results"][0]["mean"]
        assert ("delay" in told) == (how[1:2] == ("5",))
    plain, none, counted, ignored = found.values()
    assert plain == none
    assert counted not in (plain, ignored)
    code, out, _ = called(*common, "--delay", "5", "--under-way", "ignored")
    assert "9 trials, outcomes 5 rounds late, visits under way ignored; SE" in out
    code, _, err = called("simulate", *COVID, "--delay", "5", "--trials", "9", "--horizon", "40")
    assert code == 2
    assert err.startswith("heterobandits: ucb ranks whole assignments")


def test_output_folder(tmp_path: Path, called) -> None:
    folder = tmp_path / "new" / "folder"
    code, _, err = called("simulate", *COVID, "--policy", "min-width", "--horizon", "20", "--trials", "9", "--output", str(folder)
    )  # fmt: skip
    assert code == 0
    names = ["regret.png", "results.csv", "results.json", "results.parquet"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert all(name in err for name in names)
    assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "file").write_text("")
    code, _, err = called("simulate", *COVID, "--policy", "min-width", "--horizon", "20", "--trials", "9", "--output", str(tmp_path / "file")
    )  # fmt: skip
    assert code == 2
    assert err.startswith("heterobandits: cannot write to")


def test_problem_files(tmp_path: Path, called) -> None:
    problem = Problem([0.2, 0.6], [0.5], arm_names=["Süd", "Nord"])
    (tmp_path / "p.json").write_text(problem.to_json(), encoding="utf-8")
    (tmp_path / "p.toml").write_text(problem.to_toml(), encoding="utf-8")
    for name in ("p.json", "p.toml"):
        code, out, _ = called("simulate", "--problem", str(tmp_path / name), "--policy", "oracle", "--horizon", "5", "--trials", "2", "--format", "json"
        )  # fmt: skip
        assert code == 0
        assert Problem.from_dict(json.loads(out)["problem"]) == problem


# How a problem may be said: options, and the fields that they are.
OPTIONS = {
    "tests": (("--tests", "4,1"), {"tests": [4, 1]}),
    "false alarms": (
        ("--false-positives", "0.1,0.02", "--believed-false-positives", "0,0.05"),
        {"false_positive_rates": [0.1, 0.02], "believed_false_positive_rates": [0.0, 0.05]},
    ),
    "calibration": (
        ("--calibration", "17/20,-", "--false-positive-calibration", "-,1/50"),
        {"calibration": [(17, 20), None], "false_positive_calibration": [None, (1, 50)]},
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("name", ["min-width", "calibrated-sorted"])
def test_it_plays_what_the_library_plays(case, name, called) -> None:
    options, fields = OPTIONS[case]
    how = ("--horizon", "30", "--trials", "20", "--policy", name, "--format", "json")
    lists = ("--means", "0.05,0.3,0.1", "--sensitivities", "0.8,0.95")
    code, out, _ = called("simulate", *lists, *options, *how)
    assert code == 0
    answer = json.loads(out)
    problem = Problem([0.05, 0.3, 0.1], [0.8, 0.95], **fields)
    assert Problem.from_dict(answer["problem"]) == problem
    wanted = simulate(problem, name, 30, 20).mean(name)[-1]
    assert answer["results"][0]["mean"][-1] == wanted


def test_names_are_data_not_markup(tmp_path: Path, called) -> None:
    arms = ["[/foo]", "camp [north]", "[link=https://example.org]a[/link]", ":smile: [red]x"]
    problem = Problem(
        [0.8, 0.6, 0.4, 0.2],
        [0.9, 0.8, 0.7, 0.6],
        arm_names=arms,
        agent_names=[f"[b]{i}" for i in range(4)],
    )
    (tmp_path / "p.json").write_text(problem.to_json(), encoding="utf-8")
    code, out, err = called("bounds", "--problem", str(tmp_path / "p.json"), "--horizon", "9")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    for i, arm in enumerate(arms):
        assert any(
            line.split() == [*f"best place for [b]{i}".split(), *arm.split()] for line in lines
        )


def test_policies_lists_all(called) -> None:
    code, out, _ = called("policies", "--format", "json")
    entries = json.loads(out)
    assert code == 0
    assert sum(entry["paper"] for entry in entries) == 5
    code, text, _ = called("policies")
    assert code == 0
    for entry in entries:
        for field in ("name", "summary", "equation", "guarantee", "cost"):
            assert entry[field]
            assert entry[field] in text


def test_bounds(called) -> None:
    # G(2, 2) = 2 + 3 = 5; with N = 2 and delta = 0.5 the log term is ln(2 * 2 * 5 / 0.5) = ln 40.
    arguments = ("bounds", "--means", "0.1,0.5", "--sensitivities", "0.5,1", "--horizon", "2", "--delta", "0.5")  # fmt: skip
    code, out, _ = called(*arguments, "--coverage", "50", "--format", "json")
    answer = json.loads(out)
    assert code == 0
    assert answer["optimum"] == [0, 1]
    assert answer["expected_reward"] == pytest.approx(0.5 * 0.1 + 1 * 0.5)
    assert answer["ln_G"] == pytest.approx(1.6094379124341003)
    assert answer["log_terms"]["min-width"] == pytest.approx(3.6888794541139363)
    # A (N - 1) + 2 sqrt(2 A N T ln 40) max S / min S = 2 + 2 sqrt(16 ln 40) 2
    assert answer["regret_bound"] == pytest.approx(2 + 16 * 3.6888794541139363**0.5)
    assert answer["coverage"]["trials"] == 50
    code, text, _ = called(*arguments)
    assert code == 0
    assert "32.7" in text


def test_a_table_is_neither_cut_nor_wrapped(tmp_path: Path, called, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    long = "the slope above the old quarry, where the road from the village ends"
    problem = Problem([0.2, 0.6], [0.5], arm_names=["gate", long])
    (tmp_path / "p.json").write_text(problem.to_json(), encoding="utf-8")
    code, out, _ = called("bounds", "--problem", str(tmp_path / "p.json"), "--horizon", "9")
    assert code == 0
    assert [
        line.split("agent 1")[1].strip() for line in out.splitlines() if "best place" in line
    ] == [long]


@pytest.mark.slow
def test_bench_measures_every_policy(called) -> None:
    how = ("--seconds", "0.001", "--threads", "1", "--format", "json")
    code, out, _ = called("bench", *how)
    report = json.loads(out)
    assert code == 0
    measured = {(entry["problem"], entry["policy"]) for entry in report["results"]}
    assert len(measured) == 4 * len(CATALOGUE) - 1
    assert ("20x50", "ucb") not in measured
    for entry in report["results"]:
        rate = entry["trials"] * entry["horizon"] / entry["seconds"]
        assert entry["rounds_per_second"] == pytest.approx(rate)
    assert report["compile_seconds"] >= 0


BAD_INPUT = {
    "no problem": ([], "--means and --sensitivities are needed"),
    "not a number": (["--means", "0.1,x", "--sensitivities", "0.5", "--horizon", "5"], "--means has 'x'"),
    "nan": (["--means", "0.1,nan", "--sensitivities", "0.5", "--horizon", "5"], "means[1] is nan"),
    "empty": (["--means", "", "--sensitivities", "0.5", "--horizon", "5"], "--means has ''"),
    "out of range": (["--means", "0.1,0.2,0.3", "--sensitivities", "0.5,0.5,1.2", "--horizon", "5"], "sensitivities[2] is 1.2"),
    "more agents than arms": (["--means", "0.1", "--sensitivities", "0.5,0.5", "--horizon", "5"], "at most as many agents as arms"),
    "no horizon": (COVID, "--horizon is needed"),
    "zero horizon": ([*COVID, "--horizon", "0"], "horizon is 0"),
    "negative trials": ([*COVID, "--horizon", "5", "--trials", "-3"], "trials is -3"),
    "huge seed": ([*COVID, "--horizon", "5", "--seed", str(2**64)], "seed is"),
    "delta of one": ([*COVID, "--horizon", "5", "--delta", "1"], "delta is 1"),
    "nearest policy": ([*COVID, "--horizon", "5", "--policy", "minwidth"], "did you mean 'min-width'?"),
    "nearest domain": (["--problem", "cvid"], "did you mean 'covid'?"),
    "file not there": (["--problem", "nowhere.json", "--horizon", "5"], "cannot read nowhere.json"),
    "both": (["--problem", "covid", "--means", "0.1"], "give one or the other"),
    "bad format": ([*COVID, "--horizon", "5", "--format", "xml"], "--format"),
    "bad policy horizon": ([*COVID, "--horizon", "5", "--policy-horizon", "-1"], "--policy-horizon is '-1'"),
    "unknown option": ([*COVID, "--horizont", "5"], "--horizont"),
    "threads": ([*COVID, "--horizon", "5", "--threads", "0"], "threads is 0"),
    "checkpoints": ([*COVID, "--horizon", "5", "--checkpoints", "0"], "checkpoints is 0"),
    "too many assignments": (["--means", ",".join(["0.5"] * 20), "--sensitivities", ",".join(["0.5"] * 10), "--horizon", "5", "--policy", "ucb"], "670,442,572,800 assignments"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_clear_line(case: str, called) -> None:
    arguments, expected = BAD_INPUT[case]
    code, out, err = called("simulate", *arguments)
    assert code == 2
    assert out == ""
    assert expected in err
    assert err.startswith("heterobandits: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (("--output", ""), "the folder is ''"),
        (("--means", ""), "--means has ''"),
        (("--believed", ""), "--believed has ''"),
    ],
)
def test_an_empty_text_is_not_taken_for_nothing(
    arguments: tuple[str, str],
    culprit: str,
    tmp_path: Path,
    called,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a variable of the shell that is not set."""
    monkeypatch.chdir(tmp_path)
    how = ("simulate", "--problem", "covid", "--policy", "greedy", "--trials", "3")
    code, out, err = called(*how, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert culprit in err
    assert list(tmp_path.iterdir()) == []


def test_bad_input_has_no_traceback_in_a_process() -> None:
    done = run("simulate", "--means", "2", "--sensitivities", "0.5", "--horizon", "5")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "heterobandits: means[0] is 2: a mean is a probability in [0, 1]\n"


words = st.one_of(
    st.sampled_from(["--means", "--sensitivities", "--believed", "--horizon", "--trials", "--seed",
                     "--policy", "--delta", "--checkpoints", "--format", "--problem", "--threads",
                     "0.5", "0.1,0.9", "0", "1", "2", "json", "covid", "min-width", "-1", "nan", "inf"]),
    st.text(max_size=8),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    command=st.sampled_from(["simulate", "bounds", "policies"]),
    arguments=st.lists(words, max_size=8),
)
@example(
    command="simulate", arguments=["--means", "0.5", "--sensitivities", "0.5", "--horizon", "2"]
)
def test_garbage_never_ends_in_a_traceback(command: str, arguments: list[str]) -> None:
    from contextlib import redirect_stderr, redirect_stdout

    from heterobandits.cli import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as exit_:
        main([command, *arguments])
    code = exit_.value.code or 0
    assert code in (0, 2)
    assert code == 0 or (err.getvalue().count("\n") == 1 and len(err.getvalue()) > 20)


def test_help_names_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("simulate", "policies", "bounds", "bench"))


def test_importing_loads_nothing_heavy() -> None:
    heavy = ["numba", "scipy", "pandas", "pyarrow", "matplotlib", "rich", "typer"]
    code = f"import heterobandits, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_loads_no_kernels() -> None:
    heavy = ["numba", "scipy", "pandas", "pyarrow", "matplotlib"]
    code = (
        "import sys\nfrom heterobandits.cli import main\n"
        "try:\n main(['--help'])\nexcept SystemExit:\n pass\n"
        f"print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_a_terminal_shows_progress_on_stderr_only() -> None:
    master, slave = pty.openpty()
    done = subprocess.Popen(
        [*COMMAND, "simulate", "--problem", "covid", "--policy", "ucb", "--trials", "2000",
         "--format", "json"],
        stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )  # fmt: skip
    os.close(slave)
    seen = b""
    with suppress(OSError):  # that is how the terminal's end is read
        while chunk := os.read(master, 65536):
            seen += chunk
    assert done.stdout is not None
    with done.stdout:
        assert json.loads(done.stdout.read())["trials"] == 2000
    os.close(master)
    assert done.wait() == 0
    assert re.search(rb"simulating", seen)
    assert re.search(rb"\d+%", seen)


@pytest.mark.slow
def test_ctrl_c_gives_what_is_complete(called) -> None:
    # 300,000 trials of 300 rounds take minutes with ucb; a block of them well under a second.
    command = ("simulate", "--problem", "covid", "--policy", "ucb", "--threads", "1", "--trials")
    assert called(*command, "2")[0] == 0  # so that nothing need be compiled
    done = subprocess.Popen(
        [*COMMAND, *command, "300000", "--format", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process = psutil.Process(done.pid)
    while (
        process.cpu_times().user < 4
    ):  # a second or two of them to start, however busy the machine is
        time.sleep(0.05)
    done.send_signal(signal.SIGINT)
    out, err = done.communicate(timeout=60)
    assert done.returncode == 130
    answer = json.loads(out)
    assert answer["partial"] is True
    assert 0 < answer["trials"] < 300000
    assert f"{answer['trials']:,} of 300,000 trials are complete" in err


SMALL = ("--means", "0.1,0.5", "--sensitivities", "0.5", "--horizon", "9")
RATINGS = "id,a,b,place,c,d,e,f,clean\n" + "7,,,Punta Cana δ,,,,,5\n" * 500

# Every command, as quickly as it can be had.
COMMANDS: dict[str, tuple[str, ...]] = {
    "simulate": ("simulate", *SMALL, "--policy", "min-width", "--trials", "3"),
    "simulate, json": ("simulate", *SMALL, "--policy", "min-width", "--trials", "3", "--format", "json"),
    "simulate, csv": ("simulate", *SMALL, "--policy", "min-width", "--trials", "3", "--format", "csv"),
    "bounds": ("bounds", *SMALL),
    "policies": ("policies",),
    "policies, json": ("policies", "--format", "json"),
    "bench": ("bench", "--policy", "min-width", "--seconds", "0.001"),
    "reproduce": ("reproduce", "--only", "synthetic-1_9-by-1_9", "--trials", "2", "--output", "made"),
    "reproduce, list": ("reproduce", "--list"),
    "compare": ("compare", "--policy", "min-width", "--only", "random", "--quick", "--trials", "2", "--output", "made"),
    "hotel-means": ("hotel-means", "ratings.dat"),
    "hotel-means, json": ("hotel-means", "ratings.dat", "--format", "json"),
    "help": ("--help",),
    "version": ("--version",),
}  # fmt: skip
# One for each way to print: tables, text, JSON, and what comes after a long run.
WAYS = (
    "simulate",
    "simulate, csv",
    "policies",
    "policies, json",
    "hotel-means",
    "reproduce",
    "help",
)


def in_folder(
    folder: Path, command: str, **environment: str
) -> tuple[list[str], dict[str, str], str]:
    """How to start a command in a folder with what it needs: arguments, environment, folder."""
    (folder / "ratings.dat").write_text(RATINGS, encoding="utf-8")
    path = os.pathsep.join(os.path.abspath(place) for place in sys.path if place)
    return (
        [*COMMAND, *COMMANDS[command]],
        {**os.environ, "PYTHONPATH": path, **environment},
        str(folder),
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", [*WAYS, "bounds", "bench", "compare"])
def test_a_full_disk_behind_stdout_is_one_line(command: str, tmp_path: Path) -> None:
    arguments, environment, folder = in_folder(tmp_path, command)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            arguments, stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment, check=False
        )  # fmt: skip
    line = "heterobandits: the output cannot be printed: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, line)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_stdout_is_one_line(command: str, tmp_path: Path) -> None:
    arguments, environment, folder = in_folder(tmp_path, command)
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *arguments],
        stderr=subprocess.PIPE, text=True, cwd=folder, env=environment, check=False,
    )  # fmt: skip
    line = "heterobandits: stdout is closed: there is nowhere to print to\n"
    assert (done.returncode, done.stderr) == (1, line)


@pytest.mark.slow
@pytest.mark.parametrize("command", WAYS)
def test_a_pipe_cut_after_a_line_ends_quietly(command: str, tmp_path: Path) -> None:
    arguments, environment, folder = in_folder(tmp_path, command)
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -1 >/dev/null', "sh", *arguments],
        stderr=subprocess.PIPE, text=True, cwd=folder, env=environment, check=False,
    )  # fmt: skip
    assert done.stderr == ""


NARROW = {
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "encoding"),
    [*((name, "C") for name in WAYS), *((name, "cp1252") for name in WAYS[:4])],
)
def test_letters_that_cannot_be_printed_are_escaped(
    command: str, encoding: str, tmp_path: Path
) -> None:
    arguments, environment, folder = in_folder(tmp_path, command, **NARROW[encoding])
    done = subprocess.run(arguments, capture_output=True, cwd=folder, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("cp1252" if encoding == "cp1252" else "ascii")
    assert len(text) > 10
    if command.endswith("json"):
        json.loads(text)
    if command == "policies":
        assert r"\u03b4" in text  # the δ of every width


@pytest.mark.slow
@pytest.mark.parametrize("command", ["simulate", "reproduce"])
def test_a_folder_whose_name_is_no_text_is_a_folder(command: str, tmp_path: Path) -> None:
    arguments, environment, folder = in_folder(tmp_path, command)
    name = os.fsdecode(b"a\xffb")
    done = subprocess.run(
        [*arguments, "--output", name], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
    assert r"a\udcffb" in done.stdout + done.stderr
    made = {path.name for path in (tmp_path / name).iterdir()}
    assert made >= ({"results.parquet", "regret.png"} if command == "simulate" else {"numbers.parquet", "report.html"})  # fmt: skip


DIGITS = "9" * 5000
LONG_NUMBERS = [
    ("simulate", *SMALL, "--policy-horizon", DIGITS),
    *(("simulate", *SMALL, option, DIGITS) for option in ("--trials", "--seed", "--checkpoints", "--threads")),
    ("simulate", *SMALL[:-1], DIGITS),
    ("simulate", "--means", DIGITS, *SMALL[2:]),
    ("bounds", *SMALL[:-1], DIGITS),
    ("bounds", *SMALL, "--coverage", DIGITS),
    ("reproduce", "--trials", DIGITS),
    ("compare", "--trials", DIGITS),
    ("bench", "--threads", DIGITS),
    ("bench", "--seconds", DIGITS),
    ("bench", "--seconds", "1e308"),
    ("hotel-means", "ratings.dat", "--least", DIGITS),
    ("hotel-means", "ratings.dat", "--clean", DIGITS),
]  # fmt: skip


@pytest.mark.parametrize("arguments", LONG_NUMBERS, ids=lambda given: " ".join(given)[:60])
def test_a_number_of_thousands_of_digits_is_one_short_line(
    arguments: tuple[str, ...], tmp_path: Path, called, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ratings.dat").write_text(RATINGS, encoding="utf-8")
    code, out, err = called(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert 20 < len(err) < 600


# Ctrl-C strikes while a module is sought; with `swallow`, where somebody catches everything.
STRIKING = """
import signal, sys
from importlib.machinery import PathFinder
module, swallow, *sys.argv[1:] = sys.argv[1:]
class Striking:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == module:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                if swallow == "no":
                    raise
sys.meta_path.insert(0, Striking)
from heterobandits.cli import main
main()
"""


@pytest.mark.parametrize("swallow", ["yes", "no"])
@pytest.mark.parametrize(
    "module", ["typer", "rich", "numpy", "numba", "heterobandits.simulation.simulation"]
)
def test_ctrl_c_during_imports_ends_at_once(module: str, swallow: str, tmp_path: Path) -> None:
    arguments, environment, folder = in_folder(tmp_path, "simulate")
    done = subprocess.run(
        [sys.executable, "-c", STRIKING, module, swallow, *arguments[len(COMMAND) :]],
        capture_output=True, text=True, cwd=folder, env=environment, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "heterobandits: interrupted\n")


def test_ctrl_c_in_the_first_moment_ends_quietly(tmp_path: Path) -> None:
    arguments, environment, folder = in_folder(tmp_path, "simulate")
    done = subprocess.run(
        [sys.executable, "-c", STRIKING, "heterobandits.cli.interrupts", "no", *arguments[len(COMMAND) :]],
        capture_output=True, text=True, cwd=folder, env=environment, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_that_got_lost_in_the_work_is_raised_again() -> None:
    from heterobandits.cli import interrupts

    before = signal.getsignal(signal.SIGINT)
    with interrupts.exit_on_interrupts_within():
        check = interrupts.raise_on_interrupts()
        check()
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_that_an_interrupt_became_is_an_interrupt(
    called, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that was not made of it is none."""

    def strike(*_: object, **__: object) -> None:
        with suppress(KeyboardInterrupt):
            if struck:
                signal.raise_signal(signal.SIGINT)
        raise TypeError("something else")

    monkeypatch.setattr("heterobandits.simulation.simulation.check_memory", strike)
    struck = True
    code, out, err = called("simulate", *SMALL, "--trials", "2")
    assert (code, out, err) == (130, "", "heterobandits: interrupted\n")
    struck = False
    with pytest.raises(TypeError, match="something else"):
        called("simulate", *SMALL, "--trials", "2")


def test_the_folder_is_tried_before_the_work(tmp_path: Path, called) -> None:
    # With 10**15 trials this test would not end if the work came first.
    (tmp_path / "file").write_text("in the way")
    code, out, err = called(
        "simulate", *SMALL, "--trials", str(10**15), "--output", str(tmp_path / "file")
    )
    assert (code, out) == (2, "")
    assert err == f"heterobandits: cannot write to {tmp_path / 'file'}: File exists\n"


def test_what_is_refused_leaves_no_folder(tmp_path: Path, called) -> None:
    made, before = tmp_path / "not" / "yet", tmp_path / "before"
    before.mkdir()
    for folder in (made, before):
        code, _, err = called("simulate", *SMALL, "--trials", "0", "--output", str(folder))
        assert code == 2
        assert err.startswith("heterobandits: trials is 0: ")
    assert list(tmp_path.iterdir()) == [before]
    assert called("simulate", *SMALL, "--trials", "2", "--output", str(made))[0] == 0
    assert (made / "results.json").exists()


def test_one_trial_has_no_error_to_show(called) -> None:
    both = ("--policy", "min-width", "--policy", "oracle")
    code, out, _ = called("simulate", *SMALL, *both, "--trials", "1")
    assert code == 0
    assert "nan" not in out
    assert "9 rounds, 1 trial, on the same luck" in " ".join(out.split())


@pytest.mark.parametrize("command", ["reproduce", "compare"])
def test_trials_that_cannot_be_kept_are_refused_at_once(
    command: str, tmp_path: Path, called
) -> None:
    code, out, err = called(command, "--trials", str(10**15), "--output", str(tmp_path / "made"))
    assert (code, out) == (2, "")
    assert re.fullmatch(
        r"heterobandits: 1,000,000,000,000,000 trials of .* would need \d+ PB of memory: .*\n", err
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
def test_bad_input_without_a_stderr_still_has_its_code(stderr: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {stderr}', "sh", *COMMAND, "bounds", "--means", "2"],
        stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_source_tree_that_is_not_installed_can_be_run(tmp_path: Path) -> None:
    # All packages but ours, and no site that would find it installed.
    packages = tmp_path / "packages"
    packages.mkdir()
    for folder in (place for place in sys.path if place.endswith("-packages")):
        for path in Path(folder).iterdir():
            if "heterobandits" not in path.name and not (packages / path.name).exists():
                (packages / path.name).symlink_to(path)
    source = tmp_path / "source"
    source.mkdir()
    (source / "heterobandits").symlink_to(Path(heterobandits.__file__).parent)
    # Nor is anything compiled for it, which would take longer than to run without.
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{packages}", "NUMBA_DISABLE_JIT": "1"}  # fmt: skip
    command = [sys.executable, "-S", "-m", "heterobandits"]
    done = subprocess.run(
        [*command, *COMMANDS["simulate"], "--output", "made"],
        capture_output=True, text=True, cwd=tmp_path, env=environment, check=False,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    versions = json.loads((tmp_path / "made" / "results.json").read_text("utf-8"))["versions"]
    assert versions["heterobandits"] == "unknown"
    assert versions["numpy"] == np.__version__
    said = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, env=environment, check=False
    )
    assert (said.returncode, said.stdout) == (0, "heterobandits unknown\n")


def test_what_cannot_be_printed_is_saved(tmp_path: Path) -> None:
    arguments, environment, folder = in_folder(tmp_path, "simulate")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*arguments, "--output", "made"], stdout=full, stderr=subprocess.PIPE, cwd=folder, env=environment, check=False
        )  # fmt: skip
    assert done.returncode == 1
    assert json.loads((tmp_path / "made" / "results.json").read_text("utf-8"))["trials"] == 3


@pytest.mark.parametrize("format_", ["table", "json"])
def test_a_reader_that_leaves_ends_the_program_quietly(format_: str) -> None:
    done = subprocess.Popen(
        [*COMMAND, "policies", "--format", format_], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert done.stdout is not None
    done.stdout.close()
    _, err = done.communicate(timeout=60)
    assert err == b""
    assert done.returncode == 1
