"""The paper's experiments: the catalogue, running them, and what is kept of finished runs."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from evidence import OTHER, SMALL, run_fresh
from heterobandits import InvalidInput, Policy, Problem, simulate
from heterobandits.experiments import runs
from heterobandits.experiments.catalogue import (
    FIGURES,
    LONG,
    MISJUDGED,
    PUBLISHED_PERCENT_CHANGES,
    PUBLISHED_REGRET,
    SYNTHETIC,
)
from heterobandits.experiments.claims import RANGERS
from heterobandits.experiments.reproduce import EXPERIMENT_GROUPS, chosen_experiments
from heterobandits.experiments.runs import run_experiments, with_trials
from heterobandits.machine import count_cores
from heterobandits.simulation.pool import pieces
from heterobandits.simulation.pool.shards import ShardStore
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
        assert {horizons[name] for name in ("covid", *MISJUDGED)} == {300}
        assert {horizons[name] for name in ("hotel", *RANGERS)} == {5000}
        assert {e.horizon for e in SYNTHETIC} == {100_000}
        assert [e.horizon for e in LONG] == [45_000, 90_000, 60_000, 30_000]

    def test_trials_of_the_paper(self):
        published = {e.name: e.published_trials for e in FIGURES}
        assert {published[case] for case in MISJUDGED} == {500}
        assert {published[name] for name in ("covid", "hotel", *RANGERS)} == {90}

    def test_the_cases_misjudge_what_they_say(self):
        problems = {e.name: e.problem for e in FIGURES}
        signs = {
            name: {
                math.copysign(1, b - s) for b, s in zip(p.believed, p.sensitivities, strict=True)
            }
            for name, p in problems.items()
            if name in MISJUDGED
        }
        assert signs == {"covid-over": {1}, "covid-under": {-1}, "covid-mix": {1, -1}}
        assert all(problems[case].means == problems["covid"].means for case in MISJUDGED)

    def test_published_tables_have_nine_cells(self):
        for table in (PUBLISHED_REGRET, PUBLISHED_PERCENT_CHANGES):
            assert tuple(table) == AWARE
            assert [len(row) for row in table.values()] == [3, 3, 3]
            assert all(se > 0 for row in table.values() for _, se in row)

    def test_groups_name_experiments_that_are_there(self):
        names = {e.name for e in (*FIGURES, *SYNTHETIC, *LONG)}
        assert all(set(group) <= names for group in EXPERIMENT_GROUPS.values())
        assert set().union(*EXPERIMENT_GROUPS.values()) == names

    def test_chosen_experiments(self):
        def named(only, long=False):
            return [e.name for e in chosen_experiments(only, long)]

        assert len(named([])) == 9 + 36
        assert len(named([], long=True)) == 9 + 36 + 4
        assert named(["robustness"]) == ["covid", *MISJUDGED]
        assert named(["hotel", "covid", "hotel", "theory"]) == ["covid", "hotel", "poaching-5"]
        assert named(["hotel"], long=True) == ["hotel", *EXPERIMENT_GROUPS["long"]]
        with pytest.raises(InvalidInput, match=r"unknown experiment 'poching': .*'poaching'"):
            named(["covid", "poching"])


class TestRuns:
    """Finished pieces are kept, and used again only if nothing has changed."""

    MARK = 123.0

    def kept(self, tmp_path, experiment=SMALL, seed=3):
        """A folder with a finished run whose time is marked, so that one can see it was used."""
        store = ShardStore(tmp_path / "runs")
        run_experiments([experiment], seed, store)
        rows = [store.row(place) for place in store]
        assert len(rows) == 1
        store.clear()
        for row in rows:
            assert self.MARK not in row.seconds
            store.add(row._replace(seconds=[self.MARK] * len(row.seconds)))
        store.write()
        return tmp_path / "runs"

    def was_used(self, results):
        """Whether these are the marked ones; the time is that of all threads, divided by their number."""
        return set(results.seconds) == {self.MARK / count_cores()}

    def again(self, folder, experiment=SMALL, seed=3, notes=None):
        note = [].append if notes is None else notes.append
        return run_experiments([experiment], seed, ShardStore(folder, note)).results[
            experiment.name
        ]

    def test_a_finished_run_is_used(self, tmp_path):
        folder = self.kept(tmp_path)
        (path,) = folder.iterdir()
        before = path.read_bytes()
        fresh = run_fresh([SMALL], 3)["small"]
        again = self.again(folder)
        assert self.was_used(again)
        assert bits(again) == bits(fresh)
        assert [(p, p.read_bytes()) for p in folder.iterdir()] == [(path, before)]

    def test_its_results_are_those_of_simulate(self):
        rounds = runs.experiment_checkpoints(40)
        options = {"seed": 3, "checkpoints": rounds, "keep": "final"}
        results = simulate(SMALL.problem, PAPER, 40, 20, **options)
        again = run_fresh([SMALL], 3)["small"]
        assert bits(again) == bits(results)
        for field in ("problem", "policies", "parameters", "horizon", "seed", "partial"):
            assert getattr(again, field) == getattr(results, field)
        assert again.kept_rounds == results.kept_rounds
        assert again.versions == results.versions

    def test_not_without_resume(self, tmp_path):
        self.kept(tmp_path)
        store = runs.open_store(tmp_path, False, print)
        assert list(store) == []
        assert list((tmp_path / "runs").iterdir()) == []
        assert not self.was_used(run_experiments([SMALL], 3, store).results["small"])

    @pytest.mark.parametrize(
        "changed",
        [
            replace(SMALL, trials=21),
            replace(SMALL, horizon=41),
            replace(SMALL, problem=Problem([0.1, 0.6], [0.1, 0.9])),
            replace(SMALL, problem=Problem([0.1, 0.5], [0.1, 0.9], [0.2, 0.9])),
            replace(SMALL, policies=PAPER[:4]),
            replace(SMALL, policies=PAPER[::-1]),
            replace(SMALL, ranking=PAPER),
        ],
        ids=["trials", "horizon", "means", "believed", "policies", "their order", "what is kept"],
    )
    def test_another_definition_is_run_again(self, tmp_path, changed):
        notes = []
        again = self.again(self.kept(tmp_path), changed, notes=notes)
        assert len(again.seconds) == len(changed.policies)
        assert not self.was_used(again)
        assert bits(again) == bits(run_fresh([changed], 3)["small"])
        assert notes == []

    def test_another_seed_is_run_again(self, tmp_path):
        again = self.again(self.kept(tmp_path), seed=4)
        assert again.seed == 4
        assert not self.was_used(again)
        assert bits(again) == bits(run_fresh([SMALL], 4)["small"])

    @pytest.mark.parametrize("changed", ["numpy", "python", "kernels"])
    def test_what_other_versions_made_is_run_again(self, tmp_path, changed, monkeypatch):
        others = {**pieces.versions_of_results(), changed: "1.0"}
        monkeypatch.setattr(pieces, "versions_of_results", lambda: others)
        folder = self.kept(tmp_path)
        assert self.was_used(self.again(folder))
        monkeypatch.undo()
        assert not self.was_used(self.again(folder))

    def test_a_policy_that_raises_is_named_with_its_experiment(self, tmp_path):
        def index(known):
            raise ZeroDivisionError("no such luck")

        bad = replace(SMALL, policies=(*PAPER, Policy("bad", index=index)))
        with pytest.raises(
            InvalidInput, match=r"a small one: ZeroDivisionError: no such luck \(.*line"
        ):
            run_experiments([OTHER, bad], 0, ShardStore(tmp_path))
        # what is finished by then is kept, and goes on
        assert len(list(tmp_path.iterdir())) <= 1

    def test_an_interrupt_leaves_the_finished_ones(self, tmp_path):
        def interrupt(title, share):
            if share > 0:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_experiments([SMALL, OTHER], 3, ShardStore(tmp_path), interrupt)
        assert len(list(tmp_path.iterdir())) == 1
        store = ShardStore(tmp_path)
        assert 1 <= len(list(store)) <= 2
        found = run_experiments([OTHER, SMALL], 3, store).results
        assert list(found) == ["other", "small"]
        fresh = run_fresh([OTHER, SMALL], 3)
        assert [bits(r) for r in found.values()] == [bits(r) for r in fresh.values()]

    def test_no_more_trials_than_are_enough(self):
        """Played in parts of 5 and 10 trials, until somebody says so, and then as many again; each part is looked at once."""
        asked = []

        def enough(experiment, results):
            asked.append((experiment.name, results.spans))
            return results.trials >= 10

        parts = replace(SMALL, at_first=5)
        store = ShardStore(None)
        found, looked, _ = run_experiments([parts, OTHER], 3, store, enough=enough)
        assert asked == [("small", ((0, 5),)), ("small", ((0, 10),))]
        assert (found["small"].spans, looked["small"].spans) == (((10, 20),), ((0, 10),))
        assert found["other"] is looked["other"]
        assert found["other"].trials == 20
        ten = run_fresh([replace(SMALL, trials=10)], 3)["small"]
        assert bits(looked["small"])[1:] == bits(ten)[1:]
        limited = run_experiments([parts], 3, store, enough=lambda *what: False)
        assert bits(limited.looked["small"]) == bits(run_fresh([SMALL], 3)["small"])
        assert limited.results["small"].spans == ((20, 40),)
        assert with_trials([parts], 7)[0].at_first is None

    def test_a_folder_that_cannot_be_written_to(self, tmp_path):
        (tmp_path / "file").write_text("")
        for folder in (tmp_path / "file" / "runs", tmp_path / "file"):
            with pytest.raises(InvalidInput, match=r"cannot write to .*file.*: "):
                run_experiments([SMALL], 0, ShardStore(folder))

    def test_the_share_of_the_work_grows_to_all_of_it(self, tmp_path):
        seen = []
        run_experiments([OTHER, SMALL], 0, ShardStore(tmp_path), lambda *what: seen.append(what))
        shares = [share for _, share in seen]
        assert set(dict(seen)) <= {SMALL.title, OTHER.title}
        assert seen[0][0] == SMALL.title  # the longer one first
        assert shares == sorted(shares)
        assert shares[0] == 0
        assert shares[-1] == 1

    @pytest.mark.parametrize("horizon", [1, 2, 7, 40, 300, 100_000])
    def test_checkpoints_end_at_the_horizon(self, horizon):
        rounds = runs.experiment_checkpoints(horizon)
        assert rounds[0] == 1
        assert rounds[-1] == horizon
        assert all(a < b for a, b in pairwise(rounds))

    def test_with_trials(self):
        assert [e.trials for e in with_trials([SMALL, OTHER], 7)] == [7, 7]
        assert with_trials([SMALL, OTHER], None) == [SMALL, OTHER]
