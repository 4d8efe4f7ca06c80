"""The whole reproduction: its folder, its report, and a claim that is contradicted."""

import base64
import csv
import json
import re
from collections import Counter
from dataclasses import replace
from html import unescape

import pandas as pd
import pytest

from evidence import exchange
from heterobandits import InvalidInput, simulate
from heterobandits.experiments import report, runs
from heterobandits.experiments.catalogue import FIGURES, MISJUDGED, SYNTHETIC
from heterobandits.experiments.claims import CLAIMS, JudgedClaim
from heterobandits.experiments.reproduce import Reproduction, reproduce
from heterobandits.experiments.tables import PercentCell, PublishedRanking, RegretCell
from heterobandits.simulation.pool.shards import ShardStore
from markup import Page
from reference import PAPER

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

    @pytest.mark.slow
    def test_all_files_are_there(self, folders):
        wanted = {"report.html", "numbers.parquet", "provenance.json"}
        drawn = ["covid", "covid-theory", *MISJUDGED]
        wanted |= {f"figures/{name}.{kind}" for name in drawn for kind in ("svg", "png", "pdf")}
        wanted |= {
            f"tables/{name}.csv"
            for name in ("claims", "coverage", "robustness_regret", "robustness_percent", "synthetic_rankings", "calibration")
        }  # fmt: skip
        found = files(folders[0][1])
        kept = {name for name in found if name.startswith("runs/")}
        assert kept
        assert {name[-8:] for name in kept} == {".parquet"}
        assert set(found) - kept == wanted
        for name, data in found.items():
            start = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml", ".parquet": b"PAR1"}
            assert data.startswith(start.get(name[name.rindex(".") :], b""))
            assert data

    def test_the_same_seed_gives_the_same_bytes(self, folders):
        one, two = (files(folder) for _, folder in folders)
        timed = {"report.html", "provenance.json"}
        same = [name for name in one if name not in timed and not name.startswith("runs/")]
        assert len(same) == 5 * 3 + 6 + 1
        for name in same:
            assert one[name] == two[name], name

    def test_another_seed_gives_other_numbers(self, folders, tmp_path):
        reproduce(tmp_path, only=["covid-mix"], trials=6, seed=6)
        one, two = files(folders[0][1]), files(tmp_path)
        assert one["figures/covid-mix.svg"] != two["figures/covid-mix.svg"]

    def test_numbers_are_the_curves(self, folders):
        frame = pd.read_parquet(folders[0][1] / "numbers.parquet")
        assert set(frame["experiment"]) == {"covid", *MISJUDGED, *ONLY[1:]}
        results = simulate(
            FIGURES[0].problem, PAPER, 300, 6, 5, checkpoints=runs.experiment_checkpoints(300)
        )
        for label in PAPER:
            rows = frame[(frame["experiment"] == "covid") & (frame["policy"] == label)]
            assert rows["round"].tolist() == list(results.rounds)
            assert rows["mean"].tolist() == results.mean(label).tolist()
            assert rows["se"].tolist() == results.se(label).tolist()
            assert set(rows["trials"]) == {6}

    def test_tables_hold_what_the_summary_says(self, folders):
        made, folder = folders[0]
        summary = json.loads(json.dumps(made.summary()))
        tables = {**summary["tables"], **summary["beyond"], "claims": summary["claims"]}
        for name, rows in tables.items():
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
        assert list(summary) == ["claims", "tables", "beyond", "quick", "report", "seconds"]
        assert list(summary["tables"]) == [
            "robustness_regret",
            "robustness_percent",
            "synthetic_rankings",
        ]
        assert [len(rows) for rows in summary["tables"].values()] == [9, 9, 2]
        assert list(summary["beyond"]) == ["calibration"]
        assert len(summary["beyond"]["calibration"]) == 23
        assert all(list(c) == ["id", "text", "verdict", "evidence"] for c in summary["claims"])
        assert summary["quick"] is False
        assert summary["report"] == str(folder / "report.html")
        assert summary["seconds"] > 0

    def test_provenance(self, folders):
        provenance = json.loads((folders[0][1] / "provenance.json").read_text("utf-8"))
        assert provenance["seed"] == 5
        assert provenance["quick"] is False
        assert provenance["trials"] == dict.fromkeys(["covid", *MISJUDGED, *ONLY[1:]], 6)
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

    def test_figures_come_before_tables(self, folders):
        page = (folders[0][1] / "report.html").read_text("utf-8")
        assert page.index("<figure>") < page.rindex("<figure>") < page.index("<table")

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
        judged = JudgedClaim(CLAIMS[0], "fail", "a < b & c > d <script>x</script>")
        text = report.render_report([judged], [], [], [], [], '{"a": "<b>"}', False)
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
        found = report.report_headline(
            [JudgedClaim(CLAIMS[0], verdict, "") for verdict in verdicts]
        )
        assert found.startswith(sentence)

    @pytest.mark.usefixtures("svg_alone")
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
        kept = ShardStore(tmp_path / "runs")
        stored = [json.loads(kept.row(place).definition) for place in kept]
        assert sorted(what["horizon"] for what in stored) == [500, 20_000]

    @pytest.mark.usefixtures("svg_alone")
    def test_resume_in_the_same_folder(self, tmp_path):
        reproduce(tmp_path, only=["two-by-two"], trials=5, seed=2)
        (two,) = (e for e in FIGURES if e.name == "two-by-two")
        rounds = runs.experiment_checkpoints(500)
        stored = simulate(two.problem, PAPER, 500, 5, 2, checkpoints=rounds)
        exchange(tmp_path / "runs", two, "min-width", "ucb")
        numbers = []
        for resume in (True, False):
            reproduce(tmp_path, only=["two-by-two"], trials=5, seed=2, resume=resume)
            frame = pd.read_parquet(tmp_path / "numbers.parquet")
            numbers.append(frame[frame["policy"] == "min-width"]["mean"].tolist())
        assert numbers == [stored.mean("ucb").tolist(), stored.mean("min-width").tolist()]

    @pytest.mark.usefixtures("svg_alone")
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

    @pytest.mark.usefixtures("svg_alone")
    def test_what_is_shown_names_the_experiments(self, tmp_path):
        seen = []
        reproduce(tmp_path, only=["two-by-two"], trials=3, show=lambda *what: seen.append(what))
        titles = list(dict(seen))
        assert titles == ["two agents, two arms", "checking the theory", "drawing"]
        shares = [share for _, share in seen]
        assert shares == sorted(shares)


class TestContradicted:
    """Every kind of contradiction counts, and nothing else."""

    GOOD = RegretCell("cucb", "covid-mix", 10.0, 0.1, 10.1, 0.1)
    GOOD_PERCENT = PercentCell("cucb", "covid-mix", 1.0, 0.5, 1.2, 0.5, 0.0, 0.1)

    def made(self, **changes):
        row = PublishedRanking(SYNTHETIC[0], SYNTHETIC[0].ranking, (1, 2, 3, 4, 5), "match")
        return Reproduction(
            **{
                "claims": [
                    JudgedClaim(CLAIMS[0], "pass", ""),
                    JudgedClaim(CLAIMS[1], "unclear", ""),
                ],
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
        fails = JudgedClaim(CLAIMS[2], "fail", "")
        mismatch = replace(made.rankings[0], verdict="mismatch")
        assert self.made(claims=[*made.claims, fails]).contradicted
        assert self.made(rankings=[*made.rankings, mismatch]).contradicted
        assert self.made(regret=[self.GOOD, replace(self.GOOD, ours=11.0)]).contradicted
        assert self.made(
            percent=[self.GOOD_PERCENT, replace(self.GOOD_PERCENT, ours=9)]
        ).contradicted

    def test_the_ratio_beside_a_percent_change_contradicts_nothing(self):
        assert not self.made(percent=[replace(self.GOOD_PERCENT, ratio=50.0)]).contradicted
