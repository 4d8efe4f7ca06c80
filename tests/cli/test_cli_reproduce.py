"""`heterobandits reproduce` and `hotel-means` as people and programs meet them."""

import json
import os
import pty
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from evidence import exchange
from heterobandits import PAPER, InvalidInput, simulate
from heterobandits.experiments.catalogue import FIGURES, LONG, SYNTHETIC
from heterobandits.experiments.hotels import read_hotel_means
from heterobandits.simulation.pool.shards import ShardStore
from processes import COMMAND, run

pytestmark = pytest.mark.usefixtures("svg_alone")

UNDRAWN = SYNTHETIC[0]  # it has no figure, so it takes no time

# what theory promises is checked on every domain of the theory that was run
THEORY_IDS = [
    "smaller-logarithm",
    "coverage-min-width",
    "coverage-min-ucb",
    "coverage-no-sharing",
    "regret-bound",
    "closed-form",
    "lemma",
]


def one_line(err):
    assert err.startswith("heterobandits: ")
    assert err.count("\n") == 1
    return err


class TestReproduce:
    """Output, exit codes, bad input."""

    def test_list(self, called, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, out, err = called("reproduce", "--list")
        assert (code, err) == (0, "")
        assert list(tmp_path.iterdir()) == []
        lines = out.splitlines()
        groups = [line.partition(":")[0] for line in lines[: lines.index("")]]
        wanted = "covid hotel poaching two-by-two robustness synthetic theory long"
        assert groups == wanted.split(" ")
        assert "robustness: covid, covid-over, covid-under, covid-mix" in lines
        assert "synthetic: 36 settings" in lines
        rows = [line.split() for line in lines[lines.index("") + 1 :]]
        assert [row[0] for row in rows] == [e.name for e in (*FIGURES, *SYNTHETIC, *LONG)]
        told = json.loads(called("reproduce", "--list", "--format", "json")[1])
        assert list(told["groups"]) == groups
        assert [e["name"] for e in told["experiments"]] == [row[0] for row in rows]
        assert rows[0][1:6] == ["2,000", "trials", "of", "300", "rounds"]

    @pytest.mark.slow
    def test_json_is_the_contract(self, called, tmp_path):
        folder = tmp_path / "out"
        code, out, err = called(
            "reproduce", "--only", "hotel", "--trials", "20", "--format", "json", "--output", folder
        )
        assert (code, err) == (0, "")
        assert out.count("\n") == 1
        answer = json.loads(out)
        assert list(answer) == ["claims", "tables", "beyond", "quick", "report", "seconds"]
        ids = [claim["id"] for claim in answer["claims"]]
        assert ids[:3] == ["hotel-always", "hotel-order", "hotel-baselines"]
        assert ids[3:] == THEORY_IDS
        for claim in answer["claims"]:
            assert list(claim) == ["id", "text", "verdict", "evidence"]
            assert claim["verdict"] in ("pass", "fail", "unclear")
            assert claim["text"]
            assert claim["evidence"]
        assert answer["tables"] == {
            "robustness_regret": [],
            "robustness_percent": [],
            "synthetic_rankings": [],
        }
        assert answer["beyond"] == {"calibration": []}
        assert answer["quick"] is False
        assert answer["report"] == str(folder / "report.html")
        assert (folder / "report.html").is_file()
        assert answer["seconds"] > 0

    def test_json_of_a_ranking(self, called, tmp_path):
        code, out, err = called(
            "reproduce", "--only", "synthetic-1_9-by-1_9", "--trials", "4", "--format", "json",
            "--output", tmp_path,
        )  # fmt: skip
        assert (code, err) == (0, "")
        answer = json.loads(out)
        assert answer["claims"] == []
        (row,) = answer["tables"]["synthetic_rankings"]
        assert row["means"] == row["sensitivities"] == [0.1, 0.9]
        assert row["published"] == ["min-width", "min-ucb", "no-sharing", "ucb", "cucb"]
        assert sorted(row["ours"]) == sorted(row["published"])
        assert row["regret"] == sorted(row["regret"])
        assert row["verdict"] in ("match", "tied", "mismatch")

    def test_quick_is_marked(self, called, tmp_path):
        code, out, err = called("reproduce", "--quick", "--only", "covid", "--output", tmp_path)
        assert (code, err) == (0, "")
        assert out.startswith("quick run: ")
        page = (tmp_path / "report.html").read_text("utf-8")
        assert "Quick run:" in page
        assert "A quick run judges none of " in page
        assert "A quick run judges none of " in out
        for word in ("claims hold", "contradicted", "✗", "✓ pass", "? unclear"):
            assert word not in page
            assert word not in out
        code, out, _ = called(
            "reproduce", "--quick", "--resume", "--only", "covid", "--format", "json",
            "--output", tmp_path,
        )  # fmt: skip
        assert code == 0
        assert json.loads(out)["quick"] is True

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["results[/b]", "a [bold]b", "Süd :warning: %s {0}"])
    def test_a_folder_may_have_any_name(self, called, tmp_path, name):
        folder = tmp_path / name
        code, out, _ = called(
            "reproduce", "--only", "two-by-two", "--trials", "3", "--output", folder
        )
        assert code == 0
        assert str(folder / "report.html") in out

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["--only", "covd"], "unknown experiment 'covd': did you mean 'covid'?"),
            (["--only", "hotel, robustnes"], "did you mean 'robustness'?"),
            (["--only", "synthetic-1_9-by-1_8"], "did you mean 'synthetic-1_9-by-1_"),
            (["--only", ""], "unknown experiment ''"),
            (["--only", ","], "unknown experiment ''"),
            (["--only", "covid,"], "unknown experiment ''"),
            (["--only", "covid", "--trials", "0"], "trials is 0: a whole number at least 2"),
            (["--only", "covid", "--trials", "1"], "trials is 1"),
            (["--only", "covid", "--trials", "-5"], "trials is -5"),
            (["--only", "covid", "--trials", "many"], "--trials"),
            (["--only", "covid", "--trials", "2", "--seed", "-1"], "seed is -1"),
            (["--only", "covid", "--trials", "2", "--seed", str(2**64)], "seed is"),
            (["--only", "covid", "--format", "csv"], "--format"),
            (["--onyl", "covid"], "--onyl"),
        ],
    )
    def test_bad_input_is_one_clear_line(self, called, tmp_path, arguments, expected):
        code, out, err = called("reproduce", *arguments, "--output", tmp_path)
        assert code == 2
        assert out == ""
        assert expected in one_line(err)
        assert not (tmp_path / "report.html").exists()

    def test_a_folder_below_a_file(self, tmp_path):
        (tmp_path / "file").write_text("")
        done = run("reproduce", "--only", "covid", "--output", tmp_path / "file" / "below")
        assert done.returncode == 2
        assert done.stdout == ""
        assert one_line(done.stderr).startswith("heterobandits: cannot write to ")

    @pytest.mark.slow
    def test_strict(self, called, tmp_path):
        common = ("reproduce", "--only", "hotel", "--trials", "30", "--output", tmp_path)
        code, out, _ = called(*common, "--strict", "--format", "json")
        verdicts = {claim["id"]: claim["verdict"] for claim in json.loads(out)["claims"]}
        assert code == 0
        assert "fail" not in verdicts.values()
        exchange(tmp_path / "runs", FIGURES[1], "min-width", "cucb")
        code, out, _ = called(*common, "--resume", "--strict")
        assert code == 1
        assert out.startswith("6 of 10 claims hold, 1 is unclear, 3 are contradicted.")
        assert out.count("\n  fail: ") == 3
        code, out, _ = called(*common, "--resume", "--format", "json")
        assert code == 0
        turned = {claim["id"]: claim["verdict"] for claim in json.loads(out)["claims"]}
        assert [name for name, verdict in turned.items() if verdict == "fail"] == [
            "hotel-always",
            "hotel-order",
            "hotel-baselines",
        ]

    @pytest.mark.slow
    def test_tables(self, called, tmp_path):
        """As a person sees them; and the cells of the robustness table can contradict too."""
        common = ("reproduce", "--only", "robustness", "--trials", "60", "--output", tmp_path)
        code, out, err = called(*common, "--strict")
        assert (code, err) == (0, "")
        assert " of 17 claims hold, " in out.splitlines()[0]
        assert "9 of 9 regrets agree" in out
        assert "of 9 percent changes agree" in out
        assert out.splitlines()[-2].startswith("beyond the paper, regret ")
        # nothing can be said of No-Sharing, which is not affected
        assert "unclear: Overestimating hurts No-Sharing less than underestimating." in out
        assert out.splitlines()[-1].startswith(f"{tmp_path / 'report.html'} after ")
        (mix,) = (e for e in FIGURES if e.name == "covid-mix")
        exchange(tmp_path / "runs", mix, "min-width", "ucb")
        code, out, _ = called(*common, "--resume", "--strict", "--format", "json")
        assert code == 1
        wrong = [
            (cell["policy"], cell["case"])
            for cell in json.loads(out)["tables"]["robustness_regret"]
            if not cell["agrees"]
        ]
        assert wrong == [("min-width", "covid-mix")]

    @pytest.mark.slow
    def test_a_damaged_run_is_run_again(self, called, tmp_path):
        common = ("reproduce", "--only", "two-by-two", "--trials", "5", "--output", tmp_path)
        assert called(*common)[0] == 0
        whole = (tmp_path / "numbers.parquet").read_bytes()
        (path,) = (tmp_path / "runs").iterdir()
        path.write_bytes(path.read_bytes()[:100])
        code, _, err = called(*common, "--resume", "--quiet")
        assert (code, err) == (0, "")
        assert (tmp_path / "numbers.parquet").read_bytes() == whole
        # and so is everything without --resume
        (two,) = (e for e in FIGURES if e.name == "two-by-two")
        exchange(tmp_path / "runs", two, "min-width", "cucb")
        assert called(*common, "--resume", "--quiet")[0] == 0
        assert (tmp_path / "numbers.parquet").read_bytes() != whole
        assert called(*common, "--quiet")[0] == 0
        assert (tmp_path / "numbers.parquet").read_bytes() == whole

    def test_a_failure_half_way_leaves_the_earlier_report(self, called, tmp_path):
        common = ("reproduce", "--only", "two-by-two", "--output", tmp_path)
        assert called(*common, "--trials", "5")[0] == 0
        good = (tmp_path / "report.html").read_bytes()
        (tmp_path / "tables").rename(tmp_path / "away")
        (tmp_path / "tables").write_text("in the way")
        code, out, err = called(*common, "--trials", "6")
        assert (code, out) == (2, "")
        assert "cannot write to" in one_line(err)
        assert (tmp_path / "report.html").read_bytes() == good


class TestInterrupt:
    """Ctrl-C loses nothing that was finished."""

    @pytest.mark.slow
    def test_resume_goes_on_from_what_was_kept(self, tmp_path):
        # settings of 100,000 rounds, of which every one takes a while
        chosen = SYNTHETIC[:12]
        only = ",".join(e.name for e in chosen)
        common = ("reproduce", "--only", only, "--trials", "40", "--output", tmp_path)
        runs = tmp_path / "runs"
        process = subprocess.Popen(
            [*COMMAND, *map(str, common)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 60
        while not list(runs.glob("*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, ""), err
        assert "Traceback" not in err
        assert len(err.strip().splitlines()) <= 1
        assert not (tmp_path / "report.html").exists()
        kept = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in runs.iterdir()}
        assert {path.suffix for path in kept} == {".parquet"}  # and nothing half-written
        assert 2 <= len(list(ShardStore(runs))) < len(chosen)
        done = run(*common, "--resume", "--format", "json")
        assert done.returncode == 0
        assert len(list(ShardStore(runs))) == len(chosen)
        for path, (changed, data) in kept.items():
            assert path.stat().st_mtime_ns == changed
            assert path.read_bytes() == data
        rows = json.loads(done.stdout)["tables"]["synthetic_rankings"]
        assert len(rows) == len(chosen)
        # and what came out is what one run would have said
        row = rows[0]
        alone = simulate(chosen[0].problem, PAPER, 100_000, 40)
        assert row["regret"] == sorted(float(alone.mean(p)[-1]) for p in PAPER)


class TestProgress:
    """What a person at a terminal sees."""

    def on_a_terminal(self, *arguments):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        )
        os.close(slave)
        seen = b""
        with suppress(OSError):  # that is how the terminal's end is read
            while chunk := os.read(master, 65536):
                seen += chunk
        with process.stdout:
            out = process.stdout.read()
        os.close(master)
        assert process.wait() == 0
        return out, seen.decode()

    @pytest.mark.slow
    def test_it_names_what_is_running(self, tmp_path):
        chosen = SYNTHETIC[:2]
        out, seen = self.on_a_terminal(
            "reproduce", "--only", ",".join(e.name for e in chosen), "--trials", "30", "--format", "json",
            "--output", tmp_path,
        )  # fmt: skip
        assert json.loads(out)["quick"] is False
        assert any(experiment.title in seen for experiment in chosen)
        assert "%" in seen

    @pytest.mark.slow
    def test_a_damaged_run_is_noted(self, tmp_path):
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / f"{'a' * 32}.parquet").write_text("PAR1")
        _, seen = self.on_a_terminal(
            "reproduce", "--only", UNDRAWN.name, "--trials", "5", "--resume", "--output", tmp_path
        )
        assert "cannot be used, and what it had is run again" in " ".join(seen.split())

    @pytest.mark.slow
    def test_quiet_shows_nothing(self, tmp_path):
        out, seen = self.on_a_terminal(
            "reproduce", "--only", UNDRAWN.name, "--trials", "5", "--quiet", "--output", tmp_path
        )
        assert seen == ""
        assert b"report.html" in out


HEADER = "Hotel_ID,Overall,Date,Location,Value,Rooms,Service,Checkin,Cleanliness,Business\n"


def line(hotel, rating, location="Punta Cana"):
    return f"{hotel},4,2009-01-01,{location},3,3,3,3,{rating},3\n"


class TestHotelMeans:
    """Means from a file of ratings, with everything such files have in them."""

    def means(self, called, path, *arguments):
        """Exit code, {hotel: (ratings, mean)}, complaints, stderr."""
        code, out, err = called("hotel-means", path, "--format", "json", *arguments)
        if code:
            assert out == ""
            return code, {}, [], err
        answer = json.loads(out)
        assert list(answer) == ["hotels", "complaints"]
        hotels = {h["hotel"]: (h["ratings"], h["mean"]) for h in answer["hotels"]}
        assert len(hotels) == len(answer["hotels"])
        return code, hotels, answer["complaints"], err

    def write(self, tmp_path, text, encoding="utf-8"):
        path = tmp_path / "ratings.dat"
        path.write_bytes(text.encode(encoding))
        return path

    def test_the_share_of_clean_ratings(self, called, tmp_path):
        ratings = {"a": (5, 4, 3, 1), "b": (4, 4, 4), "c": (3.5, 3.9, 4.0, 5), "d": (1, 2)}
        text = HEADER + "".join(line(h, r) for h, row in ratings.items() for r in row)
        found = self.means(called, self.write(tmp_path, text), "--least", "2")
        # a rating of exactly 4 says clean
        assert found == (0, {"a": (4, 0.5), "b": (3, 1.0), "c": (4, 0.5), "d": (2, 0.0)}, [], "")

    def test_the_limit_of_ratings(self, called, tmp_path):
        text = HEADER + line("x", 5) * 3 + line("y", 5) * 2
        path = self.write(tmp_path, text)
        assert set(self.means(called, path, "--least", "2")[1]) == {"x", "y"}
        assert set(self.means(called, path, "--least", "3")[1]) == {"x"}
        code, _, _, err = self.means(called, path, "--least", "4")
        assert code == 2
        assert "no hotel in 'Punta Cana' with at least 4 ratings" in one_line(err)

    def test_500_ratings_are_enough(self, called, tmp_path):
        text = HEADER + line("x", 5) * 500 + line("y", 5) * 499
        assert self.means(called, self.write(tmp_path, text))[1] == {"x": (500, 1.0)}

    def test_only_ratings_count_towards_the_limit(self, called, tmp_path):
        text = HEADER + line("x", 5) * 2 + line("x", -1) * 9 + line("y", 2) * 3
        found = self.means(called, self.write(tmp_path, text), "--least", "3")
        assert found[1] == {"y": (3, 0.0)}

    @pytest.mark.parametrize("rating", ["-1", "0", "0.0", "-1.0"])
    def test_what_is_not_positive_is_no_rating(self, called, tmp_path, rating):
        text = HEADER + line("x", 5) + line("x", rating) + line("x", 1)
        found = self.means(called, self.write(tmp_path, text), "--least", "1")
        assert found == (0, {"x": (2, 0.5)}, [], "")

    @pytest.mark.parametrize("rating", ["", "clean", "4,5", "n/a", "nan", "inf"])
    def test_what_is_no_number_is_left_out(self, called, tmp_path, rating):
        quoted = f'"{rating}"'
        text = HEADER + line("x", 5) + line("x", quoted) + line("x", 1)
        code, hotels, _, _ = self.means(called, self.write(tmp_path, text), "--least", "1")
        assert code == 0
        assert hotels == {"x": (2, 0.5)}

    def test_what_is_no_number_is_reported_by_its_line(self, called, tmp_path):
        text = HEADER + line("x", 5) + line("x", "clean") + line("elsewhere", "dirty", "Rome")
        path = self.write(tmp_path, text)
        _, _, complaints, err = self.means(called, path, "--least", "1")
        (complaint,) = complaints
        assert "line 3" in complaint
        assert "'clean'" in complaint
        assert complaint in one_line(err)

    def test_short_lines_are_reported_by_number(self, called, tmp_path):
        text = HEADER + line("x", 5) + "short,1,2\n" + line("x", 1) + "x\n" + line("x", 5)
        path = self.write(tmp_path, text)
        code, hotels, complaints, err = self.means(called, path, "--least", "1")
        assert code == 0
        assert hotels == {"x": (3, pytest.approx(2 / 3))}
        assert [complaint[:16] for complaint in complaints] == [
            "line 3 has 3 col",
            "line 5 has 1 col",
        ]
        lines = err.splitlines()
        assert len(lines) == 2
        for complaint, shown in zip(complaints, lines, strict=True):
            assert shown == f"heterobandits: {path}: {complaint}"

    def test_a_line_of_nine_columns_is_long_enough(self, called, tmp_path):
        text = HEADER + "x,4,d,Punta Cana,3,3,3,3,5\n" + "y,4,d,Punta Cana,3,3,3,5\n"
        found = self.means(called, self.write(tmp_path, text), "--least", "1")
        assert found[1] == {"x": (1, 1.0)}
        assert len(found[2]) == 1

    def test_blank_lines_are_nothing(self, called, tmp_path):
        text = HEADER + "\n" + line("x", 5) + "\n\n" + line("x", 1) + "\n"
        found = self.means(called, self.write(tmp_path, text), "--least", "1")
        assert found == (0, {"x": (2, 0.5)}, [], "")

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
    def test_names_in_any_script(self, called, tmp_path, end, encoding):
        names = ["Hôtel Zoë", "日本の宿", "Ünter den Linden 🏨"]
        text = HEADER + "".join(line(name, 5) for name in names)
        path = self.write(tmp_path, text.replace("\n", end), encoding)
        found = self.means(called, path, "--least", "1")
        assert found == (0, dict.fromkeys(sorted(names), (1, 1.0)), [], "")

    def test_names_that_would_move_the_cursor_are_complained_of(self, called, tmp_path):
        text = HEADER + line("x", 5) + line("\x1b[31mred", 5)
        code, hotels, complaints, _ = self.means(called, self.write(tmp_path, text), "--least", "1")
        assert (code, hotels) == (0, {"x": (1, 1.0)})
        (complaint,) = complaints
        assert complaint.startswith("line 3: ")
        assert "\x1b" not in complaint

    @pytest.mark.parametrize(
        ("given", "culprit"),
        [
            ({"path": None}, "path is None"),
            ({"path": "a\0b"}, "path is"),
            ({"location": None}, "location is None"),
            ({"least": 10**5000}, "least is"),
        ],
    )
    def test_what_is_no_argument(self, given, culprit, tmp_path):
        with pytest.raises(InvalidInput, match=culprit):
            read_hotel_means(**{"path": self.write(tmp_path, HEADER), **given})

    def test_a_mark_at_the_start_does_not_hide_a_hotel(self, called, tmp_path):
        # the header line is skipped whatever stands in it; the first hotel must keep its name
        text = HEADER + line("x", 5) + line("x", 1)
        found = self.means(called, self.write(tmp_path, text, "utf-8-sig"), "--least", "1")
        assert found[1] == {"x": (2, 0.5)}

    def test_latin_1(self, called, tmp_path):
        text = HEADER + line("Hôtel Zoë", 5) + line("Hôtel Zoë", 2)
        path = self.write(tmp_path, text, "latin-1")
        assert self.means(called, path, "--least", "1")[1] == {"Hôtel Zoë": (2, 0.5)}

    def test_quoted_commas_quotes_and_newlines(self, called, tmp_path):
        text = (
            HEADER
            + line('"Sun, Sea ""and"" Sand"', 5)
            + line("x", 4, '"Punta Cana,\nDominican Republic"')
            + line("short", "")[:8]
            + "\n"
        )
        path = self.write(tmp_path, text)
        code, hotels, complaints, _ = self.means(called, path, "--least", "1")
        assert code == 0
        assert hotels == {'Sun, Sea "and" Sand': (1, 1.0), "x": (1, 1.0)}
        # lines of the file are counted, not rows: the second row takes lines 3 and 4
        assert len(complaints) == 1
        assert complaints[0].startswith("line 5 ")

    def test_other_locations(self, called, tmp_path):
        text = HEADER + line("x", 5) + line("y", 5, "Rome") + line("z", 1, "PUNTA CANA (east)")
        path = self.write(tmp_path, text)
        assert set(self.means(called, path, "--least", "1")[1]) == {"x", "z"}
        assert set(self.means(called, path, "--least", "1", "--location", "rome")[1]) == {"y"}
        code, _, _, err = self.means(called, path, "--least", "1", "--location", "Oslo")
        assert code == 2
        assert "no hotel in 'Oslo'" in one_line(err)

    @pytest.mark.parametrize("clean", ["nan", "inf", "-inf"])
    def test_clean_is_a_number(self, called, tmp_path, clean):
        path = tmp_path / "ratings.dat"
        path.write_text(HEADER + line("x", 5), encoding="utf-8")
        code, out, err = called("hotel-means", path, "--least", "1", "--clean", clean)
        assert (code, out) == (2, "")
        assert err == f"heterobandits: clean is {clean}: a rating from which on a hotel is clean\n"

    def test_from_which_rating_on_is_clean(self, called, tmp_path):
        path = self.write(tmp_path, HEADER + "".join(line("x", r) for r in (1, 2, 3, 4, 5)))
        for clean, share in (("1", 1.0), ("3", 0.6), ("4", 0.4), ("4.5", 0.2), ("6", 0.0)):
            found = self.means(called, path, "--least", "1", "--clean", clean)
            assert found[1] == {"x": (5, pytest.approx(share))}

    def test_table(self, called, tmp_path):
        text = HEADER + line("Süd", 5) + line("Süd", 2) + line("Süd", 2) + line("Nord", 4)
        code, out, err = called("hotel-means", self.write(tmp_path, text), "--least", "1")
        assert (code, err) == (0, "")
        first, second, means = out.splitlines()
        assert first.split() == ["1.0000", "1", "ratings", "Nord", "Punta", "Cana"]
        assert second.split() == ["0.3333", "3", "ratings", "Süd", "Punta", "Cana"]
        assert means == "--means 1.0000,0.3333"

    def test_in_a_process(self, tmp_path):
        path = self.write(tmp_path, HEADER + line("日本", 5) + "short\n")
        done = run("hotel-means", path, "--least", "1", "--format", "json")
        assert done.returncode == 0
        assert json.loads(done.stdout)["hotels"] == [
            {"hotel": "日本", "location": "Punta Cana", "ratings": 1, "mean": 1.0}
        ]
        assert "line 3" in one_line(done.stderr)

    @pytest.mark.parametrize("text", ["", "\n", HEADER, HEADER.rstrip("\n"), "\ufeff"])
    def test_a_file_without_hotels(self, called, tmp_path, text):
        code, out, err = called("hotel-means", self.write(tmp_path, text))
        assert (code, out) == (2, "")
        assert "has no hotel" in one_line(err)

    def test_a_file_that_cannot_be_read(self, called, tmp_path):
        for path in (tmp_path / "nowhere.dat", tmp_path):
            code, out, err = called("hotel-means", path)
            assert (code, out) == (2, "")
            assert one_line(err).startswith(f"heterobandits: cannot read {path}: ")

    def test_an_open_quote_is_no_traceback(self, called, tmp_path):
        text = HEADER + line("x", 5) + '"' + line("y", 5) * 4000
        code, _, err = called("hotel-means", self.write(tmp_path, text), "--least", "1")
        assert code == 2
        one_line(err)
