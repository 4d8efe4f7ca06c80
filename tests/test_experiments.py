"""The paper's experiments: the catalogue, running them, and what is kept of finished runs."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from evidence import OTHER, SMALL, run_fresh
from heterobandits import InvalidInput, Problem, Results, simulate
from heterobandits.experiments import runs
from heterobandits.experiments.catalogue import (
    CASES,
    FIGURES,
    LONG,
    PUBLISHED_PERCENT,
    PUBLISHED_REGRET,
    SYNTHETIC,
)
from heterobandits.experiments.claims import RANGERS
from heterobandits.experiments.reproduce import GROUPS, chosen_experiments
from heterobandits.experiments.runs import Kept, run_all, with_trials
from reference import PAPER

AWARE = PAPER[:3]


def bits(results):
    """Everything in results that is a number, but for the time it took."""
    kept = None if results.kept is None else results.kept.tobytes()
    return results.rounds, results.spans, results.sums.tolist(), results.products.tolist(), kept


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
