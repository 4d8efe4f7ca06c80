"""Our own table beside the paper's robustness: agents that are only calibrated."""

import math
import signal
import threading
from dataclasses import asdict, astuple, replace
from pathlib import Path

import numpy as np
import pytest

from heterobandits import InvalidInput, Problem, coverage, simulate
from heterobandits.experiments import calibration_study, figures, report
from heterobandits.experiments.calibration_study import (
    SeasonMeans,
    Study,
    StudyRow,
    draw_calibrations,
    play_season,
    play_study,
    seed_of_season,
    study_job,
    study_rows,
    sum_up_seasons,
)
from heterobandits.experiments.catalogue import MISJUDGED, SYNTHETIC
from heterobandits.experiments.claims import CLAIMS, JudgedClaim
from heterobandits.experiments.reproduce import Reproduction, chosen_policies, reproduce
from heterobandits.experiments.runs import run_works
from heterobandits.experiments.tables import PercentCell, PublishedRanking, RegretCell
from heterobandits.inference.intervals import mean_intervals
from heterobandits.policies.policy import policy
from heterobandits.simulation.engine import Learning, PolicyWorld
from heterobandits.simulation.pool.shards import ShardStore
from markup import Page
from reference import PAPER

SMALL = Study(2, 3)
CELLS = [
    *(
        (planner, tests)
        for planner in (
            "plugged in",
            "calibrated",
            "calibrated, stated over",
            "calibrated, stated under",
            "calibrated, stated mix",
        )
        for tests in (10, 20, 50, 200)
    ),
    ("stated over", 0),
    ("stated under", 0),
    ("stated mix", 0),
]
OVER = [0.85, 0.85, 0.85, 0.98, 0.98]
UNDER = [0.75, 0.75, 0.75, 0.9, 0.9]
MIX = [0.75, 0.75, 0.75, 0.98, 0.98]


@pytest.fixture(scope="module")
def rows():
    """The whole table, from few calibrations."""
    return play_study(SMALL, threads=1)


def handmade(draws=24, trials=8):
    """A table in which no two numbers are alike."""
    return [
        StudyRow(planner, tests, 5.0 + i, 0.25 + i / 100, i / 250, 0.1 + i / 100, draws, trials)
        for i, (planner, tests) in enumerate(CELLS)
    ]


def watched_by_hand(problem, name, seed, trials):
    """A season trial by trial, arm by arm: what play_season should say of the intervals."""
    learning = Learning(PolicyWorld(problem, policy(name)), seed, 0, trials)
    failed = set()
    for _ in range(30):
        learning.advance(10)
        ends = []
        for i in range(trials):
            tables = (table[:, :, i].copy() for table in (learning.pulls, learning.successes))
            known = mean_intervals(*tables, problem.team)
            ends.append(list(zip(known.lower, known.upper, strict=True)))
            inside = [low <= m <= up for m, (low, up) in zip(problem.means, ends[i], strict=True)]
            if not all(inside):
                failed.add(i)
    widths = [up - low for trial in ends for low, up in trial]
    return len(failed) / trials, sum(widths) / len(widths)


class TestSeason:
    """Regret, failures and widths of the trials of one calibration."""

    @pytest.mark.parametrize(
        ("known", "name"),
        [
            ({"believed": [0.56, 0.56, 0.56, 0.66, 0.66]}, "posterior-sorted"),
            ({"calibration": [(3, 20), (3, 20), (3, 20), (5, 20), (5, 20)]}, "calibrated-sorted"),
            ({"calibration": [(16, 20)] * 3 + [(19, 20)] * 2}, "calibrated-sorted"),
        ],
        ids=["believed far off", "calibrated by bad luck", "calibrated"],
    )
    def test_it_is_what_trials_one_by_one_say(self, covid, known, name):
        problem = Problem(covid.means, covid.sensitivities, **known)
        season = play_season(problem, 5, 6)
        failed, width = watched_by_hand(problem, name, 5, 6)
        assert season.failed == failed
        assert season.width == pytest.approx(width, rel=1e-9)
        regrets = simulate(problem, name, 300, 6, 5, keep="final").regrets(name)
        assert season.regret == pytest.approx(regrets.mean(), rel=1e-12)
        # who looks in every round sees no fewer failures
        every_round = coverage(problem, 300, 6, 5, policy=name, watched=["posterior-ratio"])
        assert season.failed <= every_round.failed["posterior-ratio"]
        if "16" not in str(known):
            assert 0 < season.failed < 1, "a share that could tell nothing"


class TestStudy:
    """All planners after all numbers of tests."""

    def test_every_planner_and_number_of_tests(self, rows):
        assert [(row.planner, row.tests) for row in rows] == CELLS
        assert {(row.draws, row.trials) for row in rows} == {(2, 3)}

    @pytest.mark.parametrize(
        ("planner", "tests", "name", "known"),
        [
            ("plugged in", 10, "posterior-sorted", lambda f: {"believed": [(k + 1) / 12 for k in f]}),
            ("calibrated", 50, "calibrated-sorted", lambda f: {"calibration": [(k, 50) for k in f]}),
            ("calibrated, stated mix", 10, "calibrated-sorted",
             lambda f: {"calibration": [(k, 10) for k in f], "believed": MIX}),
            ("calibrated, stated over", 200, "calibrated-sorted",
             lambda f: {"calibration": [(k, 200) for k in f], "believed": OVER}),
            ("stated over", 0, "posterior-sorted", lambda f: {"believed": OVER}),
            ("stated under", 0, "posterior-sorted", lambda f: {"believed": UNDER}),
        ],
    )  # fmt: skip
    def test_a_cell_computed_anew(self, rows, covid, planner, tests, name, known):
        """The luck of a calibration is that of a seed of its own; its error is over calibrations."""
        random = np.random.default_rng(tests)
        means = []
        for draw in range(2):
            found = random.binomial(tests, covid.sensitivities).tolist()
            problem = Problem(covid.means, covid.sensitivities, **known(found))
            results = simulate(problem, name, 300, 3, seed=draw, keep="final")
            means.append(float(results.regrets(name).mean()))
        (row,) = (row for row in rows if (row.planner, row.tests) == (planner, tests))
        assert row.regret == pytest.approx(sum(means) / 2, rel=1e-12)
        # of two numbers the standard error of the mean is half their distance
        assert row.regret_se == pytest.approx(abs(means[0] - means[1]) / 2, rel=1e-9)

    def test_summed_up_by_hand(self):
        seasons = [
            SeasonMeans(3.0, 0.0, 0.125),
            SeasonMeans(5.0, 0.5, 0.25),
            SeasonMeans(10.0, 0.25, 0.75),
        ]
        row = sum_up_seasons(Study(3, 4), "calibrated", 20, seasons)
        # squares of -3, -1 and 4 make 26; over 2 the variance, and that over 3 the error's square
        error = math.sqrt(13 / 3)
        assert astuple(row) == ("calibrated", 20, 6.0, pytest.approx(error), 0.25, 0.375, 3, 4)

    def test_the_same_bits_on_two_threads(self, rows):
        assert play_study(SMALL, threads=2) == rows

    def test_calibrations_are_shares_of_the_tests(self):
        drawn = draw_calibrations(1000, 50, 7)
        assert len(drawn) == 50
        assert {of for found in drawn for _, of in found} == {1000}
        shares = np.mean([[k / of for k, of in found] for found in drawn], axis=0)
        # 50,000 tests: five standard errors are below 0.009
        assert shares == pytest.approx([0.8, 0.8, 0.8, 0.95, 0.95], abs=0.009)
        assert drawn != draw_calibrations(1000, 50, 8)
        assert drawn[:3] == draw_calibrations(1000, 3, 7)

    def test_seeds_have_luck_of_their_own(self):
        assert [seed_of_season(0, draw) for draw in range(3)] == [0, 1, 2]
        seeds = {seed_of_season(seed, draw) for seed in range(1000) for draw in range(100)}
        assert len(seeds) == 100_000
        assert 0 <= seed_of_season(2**64 - 1, 99) < 2**64

    def test_another_seed_gives_other_rows(self, rows):
        others = play_study(replace(SMALL, seed=1))
        same = [row for row, other in zip(rows, others, strict=True) if row.regret == other.regret]
        assert same == []

    @pytest.mark.parametrize(
        ("trials", "draws", "each"),
        [(None, 24, 8), (2, 2, 1), (3, 3, 1), (6, 2, 3), (64, 8, 8), (60, 8, 8), (10**9, 24, 8)],
    )
    def test_as_many_trials_as_are_asked_for(self, trials, draws, each):
        assert Study.of(trials, 4) == Study(draws, each, 4)

    @pytest.mark.parametrize(
        ("given", "culprit"),
        [((1, 8), "draws is 1"), ((2, 0), "trials is 0"), ((2, 1, -1), "seed is -1")],
    )
    def test_what_is_no_study(self, given, culprit):
        with pytest.raises(InvalidInput, match=culprit):
            Study(*given)

    def test_an_interrupt_ends_it_and_keeps_what_is_finished(self, rows, tmp_path):
        before = threading.active_count()

        def report(title, share):
            assert title == "COVID tests, sensitivities only calibrated"
            if share > 0:
                signal.raise_signal(signal.SIGINT)

        store = ShardStore(tmp_path)
        with pytest.raises(KeyboardInterrupt):
            run_works([study_job(SMALL)], store, report, threads=2)
        assert 0 < len(list(ShardStore(tmp_path))) < 46
        assert threading.active_count() == before
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        (played,) = run_works([study_job(SMALL)], ShardStore(tmp_path), threads=2)
        assert study_rows(SMALL, played) == rows

    @pytest.fixture
    def played(self, monkeypatch):
        """The seasons that were played: quickly, and all alike."""
        seasons = []

        def play(*season):
            seasons.append(season)
            return SeasonMeans(5.0, 0.0, 0.25)

        monkeypatch.setattr(calibration_study, "play_season", play)
        return seasons

    def test_what_is_kept_is_not_played_again(self, played):
        store = ShardStore(None)
        (first,) = run_works([study_job(SMALL)], store)
        assert len(played) == 46
        (again,) = run_works([study_job(SMALL)], store)
        assert len(played) == 46
        assert study_rows(SMALL, again) == study_rows(SMALL, first)
        # one calibration more: what was drawn before is the same
        run_works([study_job(replace(SMALL, draws=3))], store)
        assert len(played) == 46 + 23

    @pytest.mark.parametrize(
        "name", ["INTERVAL_LOOK_ROUNDS", "DEFAULT_DELTA", "versions_of_results", "seed", "trials"]
    )
    def test_another_definition_is_played(self, played, monkeypatch, name):
        store = ShardStore(None)
        run_works([study_job(SMALL)], store)
        others = {
            "INTERVAL_LOOK_ROUNDS": 20,
            "DEFAULT_DELTA": 0.1,
            "versions_of_results": lambda: {"numpy": "1.0"},
        }
        if name in others:
            monkeypatch.setattr(calibration_study, name, others[name])
            run_works([study_job(SMALL)], store)
        else:
            run_works([study_job(replace(SMALL, **{name: 5}))], store)
        assert len(played) == 2 * 46


class TestReproduction:
    """Where the table stands, and where it does not."""

    @pytest.fixture
    def quickly(self, monkeypatch):
        """The study and the drawing cost nothing; whether the study was played is noted."""
        calls = []

        def play(problem, seed, trials, control):
            calls.append(trials)
            return SeasonMeans(5.0, 0.0, 0.25)

        monkeypatch.setattr(calibration_study, "play_season", play)
        monkeypatch.setattr(figures, "save_report_figure", lambda draw, folder, name: "<svg></svg>")
        return calls

    def test_it_is_played_beside_the_papers(self, tmp_path, quickly):
        seen = []
        options = {"trials": 6, "seed": 3, "quick": True}
        made = reproduce(
            tmp_path, only=["robustness"], **options, show=lambda *what: seen.append(what)
        )
        assert quickly == [3] * 46
        assert [(row.planner, row.tests) for row in made.calibrated] == CELLS
        assert {(row.regret, row.regret_se, row.draws, row.trials) for row in made.calibrated} == {
            (5.0, 0.0, 2, 3)
        }
        assert list(dict(seen))[-2:] == ["checking the theory", "drawing"]
        shares = [share for _, share in seen]
        assert shares == sorted(shares)
        quickly.clear()
        again = reproduce(tmp_path, only=["robustness"], **options, resume=True)
        assert again.calibrated == made.calibrated
        assert quickly == []

    def test_only_other_parts_do_without_it(self, tmp_path, quickly):
        reproduce(tmp_path, only=["robustness"], trials=2, quick=True)
        assert (tmp_path / "tables" / "calibration.csv").is_file()
        quickly.clear()
        others = ["covid", "covid-over", "two-by-two"]
        made = reproduce(tmp_path, only=others, trials=2, quick=True)
        assert quickly == []
        assert made.summary()["beyond"] == {"calibration": []}
        assert not (tmp_path / "tables" / "calibration.csv").exists()
        assert "calibrated" not in (tmp_path / "report.html").read_text("utf-8").lower()

    def test_which_policies_are_compiled(self):
        assert chosen_policies(["hotel", "covid"], False) == PAPER
        needed = (*PAPER, "posterior-sorted", "calibrated-sorted")
        assert chosen_policies(["robustness"], False) == needed
        assert chosen_policies(["covid", *MISJUDGED], False) == needed
        assert chosen_policies([], False) == needed

    def page(self, calibrated):
        judged = [JudgedClaim(CLAIMS[0], "pass", "as seen")]
        cell = ("cucb", "covid-mix", 10.0, 0.1, 10.0, 0.1)
        ranking = PublishedRanking(SYNTHETIC[0], SYNTHETIC[0].ranking, (1, 2, 3, 4, 5), "match")
        tables = ([RegretCell(*cell)], [PercentCell(*cell, 0.0, 0.1)], [ranking])
        return report.render_report(judged, *tables, [], "made so", False, calibrated)

    def test_the_report_has_it_apart_from_the_papers(self):
        with_, without = (Page(self.page(rows)) for rows in (handmade(), []))
        heading = "Our own addition: agents that are only calibrated"
        assert heading not in without.text
        before, after = with_.text.split(heading)
        # all that the paper is compared with stands before it, and is the same without it
        rest, made = without.text.split("How it was made")
        assert before == rest
        assert after.endswith(f"How it was made{made}")
        assert "Not in the paper, and no part of the verdict" in after
        assert "24 calibrations" in after
        assert "8 trials each" in after
        assert "docs/model.md" in after
        assert with_.tags["table"] == without.tags["table"] + 1

    def test_every_cell_is_in_the_report(self):
        text = self.page(handmade())
        page = Page(text)
        own = text[text.index('<table class="own">') :]
        assert own.count("<tr>") == 1 + 8
        assert own.count('colspan="1"') == 20
        assert own.count('colspan="4"') == 3
        assert "tests of each agent 10 20 50 200 plugged in" in page.text
        # the second row's second cell is the sixth: 5 + 5, 0.30 twice, 5/250, 0.15
        assert "calibrated 9.0 ± 0.6 1.6 % · 0.14 10.0 ± 0.6 2.0 % · 0.15" in page.text
        assert "stated mix 27.0 ± 0.9 8.8 % · 0.32" in page.text

    def test_nothing_in_it_contradicts_the_paper(self):
        made = Reproduction([], [], [], [], 0.0, False, Path(), handmade())
        assert not made.contradicted
        assert not any(made.summary()["tables"].values())
        assert made.summary()["beyond"]["calibration"] == [asdict(row) for row in handmade()]
        assert report.report_numbers([], [], [], []) == []

    def test_a_line_for_the_terminal(self):
        assert report.calibration_line(handmade()) == (
            "beyond the paper, regret with 10 tests of each agent: 5.0 plugged in, 9.0 calibrated; "
            "with 200: 8.0 plugged in, 12.0 calibrated"
        )
