"""Places that change: means by round in problems, files, simulations and on the command line."""

import itertools
import json
import math
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import reference
from heterobandits import (
    CATALOGUE,
    Changes,
    InvalidInput,
    Policy,
    Problem,
    Results,
    Walk,
    Wave,
    coverage,
    policy,
    simulate,
)
from heterobandits.inference import bounds
from heterobandits.simulation.engine import Learning, PolicyWorld
from small_runs import assert_parts_are_the_whole

S = [0.9, 0.5]
MEANS = [0.1, 0.5, 0.3]
DRIFTS = {
    "changes": Changes([(4, [0.6, 0.2, 0.1]), (9, [0.0, 1.0, 0.3])]),
    "wave": Wave(0.4, 7),
    "walk": Walk(0.3, seed=5),
}
MOST_TRIAL = 2**64 - 1
FALSE_ALARM = 1e-6


def means_in(drift, round_, means=MEANS):
    """The means of a round, by docs/model.md (14) to (16), one after the other."""
    if isinstance(drift, Changes):
        return [list(row) for first, row in [(1, means), *drift.changes] if first <= round_][-1]
    if isinstance(drift, Wave):
        turn = [(round_ - 1) / drift.period + n / len(means) for n in range(len(means))]
        up = [drift.amplitude * math.sin(2 * math.pi * x) for x in turn]
        return [min(1.0, max(0.0, m + u)) for m, u in zip(means, up, strict=True)]
    now = list(means)
    for r in range(1, round_):
        for n in range(len(now)):
            u = reference.word(drift.seed, MOST_TRIAL, r, n) / 2**32
            m = now[n] + drift.step * (2 * u - 1)
            now[n] = -m if m < 0 else 2 - m if m > 1 else m
    return now


class TestMeans:
    @pytest.mark.parametrize("kind", DRIFTS)
    def test_every_round_has_the_means_of_its_equation(self, kind):
        problem = Problem(MEANS, S, drift=DRIFTS[kind])
        for t in range(1, 25):
            now = problem.at(t)
            assert now.means == pytest.approx(means_in(DRIFTS[kind], t), abs=1e-15)
            assert now.drift is None
            assert now.sensitivities == problem.sensitivities

    def test_a_table_with_a_row_for_each_round(self):
        rows = [MEANS, MEANS, [0.2, 0.5, 0.3], [0.2, 0.5, 0.3], [0.9, 0.0, 1.0]]
        for table in (rows, np.array(rows), tuple(map(tuple, rows))):
            problem = Problem(table, S)
            assert problem.means == tuple(MEANS)
            assert problem.drift == Changes([(3, rows[2]), (5, rows[4])])
            assert [list(problem.at(t).means) for t in range(1, 8)] == [*rows, rows[4], rows[4]]

    def test_rows_that_are_all_alike_do_not_change(self):
        assert Problem([MEANS] * 4, S) == Problem(MEANS, S)

    @given(st.floats(0.001, 1), st.integers(0, 2**64 - 1))
    def test_a_walk_stays_between_nought_and_one(self, step, seed):
        rows = Walk(step, seed).stretches((0.0, 1.0, 0.5), 200).means
        assert ((rows >= 0) & (rows <= 1)).all()
        assert (abs(np.diff(rows, axis=0)) <= step).all()

    def test_a_walk_takes_no_steps_that_a_trial_has_luck_by(self):
        """Else the luck of one trial would know where the means go."""
        step = np.diff(Walk(0.1, 7).stretches((0.5,), 2).means[:, 0])[0]
        assert step == pytest.approx(0.1 * (2 * reference.word(7, MOST_TRIAL, 1, 0) / 2**32 - 1))
        with pytest.raises(InvalidInput, match="trials"):
            simulate(Problem(MEANS, S), "random", 1, range(MOST_TRIAL, MOST_TRIAL + 1))

    @pytest.mark.parametrize("kind", DRIFTS)
    def test_files_and_copies_keep_it(self, kind, tmp_path):
        problem = Problem(MEANS, S, drift=DRIFTS[kind], arm_names=["a", "b", "c"])
        assert Problem.from_dict(problem.to_dict()) == problem
        assert Problem.from_json(problem.to_json()) == problem
        assert Problem.from_toml(problem.to_toml()) == problem
        assert pickle.loads(pickle.dumps(problem)) == problem
        assert hash(problem) == hash(Problem.from_dict(problem.to_dict()))
        assert problem != Problem(MEANS, S, arm_names=["a", "b", "c"])

    @pytest.mark.parametrize(
        ("drift", "words"),
        [
            ({"changes": []}, "drift.changes is empty"),
            ({"changes": [[1, MEANS]]}, r"the round of drift.changes\[0\] is 1"),
            ({"changes": [[5, MEANS], [5, MEANS]]}, r"the round of drift.changes\[1\] is 5"),
            ({"changes": [[5, [0.1]]]}, "1 means from round 5 on: one for each of the 3 arms"),
            ({"changes": [[5, [0.1, 2, 0.1]]]}, r"the means of drift.changes\[0\]\[1\] is 2"),
            ({"changes": [5]}, r"drift.changes\[0\] is 5"),
            ({"changes": ["ab"]}, r"drift.changes\[0\] is 'ab'"),
            ({"amplitude": 0.2}, "drift is .*amplitude, period"),
            ({"amplitude": 0.0, "period": 9}, "drift.amplitude is 0"),
            ({"amplitude": 0.1, "period": 1}, "drift.period is 1"),
            ({"amplitude": 0.1, "period": math.inf}, "drift.period is inf"),
            ({"step": 2}, "drift.step is 2"),
            ({"step": math.nan}, "drift.step is nan"),
            ({"step": 0.1, "seed": -1}, "drift.seed is -1"),
            ({"step": 0.1, "period": 3}, "drift is .*step, seed"),
            ({}, "drift is {}"),
            ("walk", "drift is 'walk'"),
            (3, "drift is 3"),
        ],
    )
    def test_mistakes_are_named(self, drift, words):
        with pytest.raises(InvalidInput, match=words):
            Problem(MEANS, S, drift=drift)

    @pytest.mark.parametrize(
        ("means", "words"),
        [
            ([[0.1, 0.2], [0.1]], r"means\[1\] has 1 means and means\[0\] has 2"),
            ([[0.1, 0.2], [0.1, 3]], r"means\[1\]\[1\] is 3"),
            ([[0.1, 0.2], 5], r"means\[1\] is 5"),
        ],
    )
    def test_mistakes_in_a_table(self, means, words):
        with pytest.raises(InvalidInput, match=words):
            Problem(means, [0.5])

    def test_both_a_table_and_a_drift(self):
        with pytest.raises(InvalidInput, match="means has a row for each round, and drift"):
            Problem([MEANS, MEANS], S, drift=Walk(0.1))

    def test_a_data_frame_is_a_table(self):
        frame = pd.DataFrame([[0.1, 0.2], [0.3, 0.4]])
        assert Problem(frame, [0.9]) == Problem([[0.1, 0.2], [0.3, 0.4]], [0.9])

    def test_a_table_without_rows(self):
        with pytest.raises(InvalidInput, match="means is empty"):
            Problem(np.zeros((0, 2)), [0.9])

    @pytest.mark.parametrize("drift", [Wave(0.2, 100), Walk(0.1)])
    def test_a_round_too_far_to_be_tabled(self, drift):
        with pytest.raises(InvalidInput, match=r"round 2,147,483,647 of a problem that changes"):
            Problem([0.1, 0.5], [0.9], drift=drift).at(2**31 - 1)


class TestSimulation:
    @pytest.mark.parametrize("name", CATALOGUE)
    def test_changes_to_the_same_means_change_no_bit(self, name):
        still = Problem(MEANS, S)
        changing = Problem(MEANS, S, drift=Changes([(t, MEANS) for t in (2, 17, 40, 99)]))
        first, second = (
            simulate(p, name, 60, 30, seed=3, keep="all").kept for p in (still, changing)
        )
        assert np.array_equal(first, second)

    def test_before_the_first_change_nothing_is_different(self):
        still, changing = Problem(MEANS, S), Problem(MEANS, S, drift=Changes([(41, [1, 0, 0])]))
        both = [
            simulate(p, "min-width", 80, 50, keep="all", checkpoints=80).kept
            for p in (still, changing)
        ]
        assert np.array_equal(both[0][:, :40], both[1][:, :40])
        assert not np.array_equal(both[0][:, 40:], both[1][:, 40:])

    @pytest.mark.parametrize("kind", DRIFTS)
    def test_the_oracle_knows_every_round(self, kind):
        problem = Problem(MEANS, S, drift=DRIFTS[kind])
        results = simulate(problem, "oracle", 60, 20, keep="all")
        assert (results.kept == 0).all()

    @pytest.mark.parametrize("kind", DRIFTS)
    @pytest.mark.parametrize("tests", [None, [2, 5]])
    def test_threads_blocks_shards_and_calls_change_no_bit(self, kind, tests, monkeypatch):
        problem = Problem(MEANS, S, drift=DRIFTS[kind], tests=tests)
        own = Policy("own", index=lambda known: known.successes.sum(axis=0) + 0.0)
        some = ["min-width", "posterior-sorted", "ucb", own]
        assert_parts_are_the_whole(monkeypatch, problem, some, 40, 300)

    def test_outcomes_are_as_likely_as_the_means_of_their_round(self, seed):
        """Binomial in each round; false alarms: 1e-6."""
        drift = DRIFTS["changes"]
        learning = Learning(
            PolicyWorld(Problem(MEANS, S, drift=drift), policy("random"), 12), seed, 0, 4000
        )
        before = np.zeros((2, 2, 3), int)
        share = FALSE_ALARM / (12 * 6 * 2)
        for t in range(1, 13):
            learning.advance(1)
            now = np.array([table.sum(axis=2) for table in (learning.pulls, learning.successes)])
            pulls, successes = now - before
            before = now
            for a, n in itertools.product(range(2), range(3)):
                p = S[a] * means_in(drift, t)[n]
                low, high = binom.ppf(share, pulls[a, n], p), binom.isf(share, pulls[a, n], p)
                assert low <= successes[a, n] <= high

    def test_more_than_can_be_tabled_is_refused_at_once(self):
        problem = Problem([0.5] * 100, [0.5] * 50, drift=Walk(0.1))
        with pytest.raises(InvalidInput, match=r"change 999,999 times: at most 3,354 times"):
            simulate(problem, "min-width", 1_000_000, 1)

    def test_more_luck_than_can_be_computed_is_refused_at_once(self):
        problem = Problem([0.1], [0.9], tests=[1000], drift=Walk(0.1))
        with pytest.raises(
            InvalidInput, match=r"1000 tests whose chances change 15,999 times: at most 298"
        ):
            simulate(problem, "min-width", 16_000, 1)

    def test_long_runs_with_few_changes_are_not(self):
        problem = Problem([0.5] * 100, [0.5] * 50, drift=Changes([(3, [0.1] * 100)]))
        shape = PolicyWorld(problem, policy("random"), 10**8).arrays.threshold.shape
        assert shape == (2, 50, 100, 1)


class TestTheory:
    def test_there_is_no_bound_where_means_change(self):
        problem = Problem(MEANS, S, drift=Walk(0.01))
        assert bounds.regret_bound(problem, 100) == math.inf
        with pytest.raises(InvalidInput, match="the means of this problem change"):
            bounds.lower_bound(problem)

    def test_coverage_looks_at_the_means_of_the_round(self):
        """From 0.1 to 0.9 after a hundred rounds: no interval survives that; before, they do."""
        problem = Problem([0.1, 0.1], [1.0, 0.9], drift=Changes([(101, [0.9, 0.9])]))
        before = coverage(problem, 100, 50, policy="random", watched=("posterior-ratio",))
        after = coverage(problem, 110, 50, policy="random", watched=("posterior-ratio",))
        assert before.failed["posterior-ratio"] < 0.2
        assert after.failed["posterior-ratio"] == 1.0


class TestCommandLine:
    @pytest.mark.parametrize(
        ("text", "drift"),
        [
            ("4=0.6,0.2,0.1;9=0,1,0.3", DRIFTS["changes"]),
            ("wave=0.4/7", DRIFTS["wave"]),
            ("walk=0.3/5", DRIFTS["walk"]),
            ("walk=0.3", Walk(0.3)),
        ],
    )
    def test_the_option_is_the_field(self, called, text, drift):
        how = (
            "--sensitivities",
            "0.9,0.5",
            "--horizon",
            "20",
            "--trials",
            "30",
            "--format",
            "json",
        )
        _, out, _ = called("simulate", "--means", "0.1,0.5,0.3", "--drift", text, "-q", *how)
        problem = Problem(MEANS, S, drift=drift)
        assert Problem.from_dict(json.loads(out)["problem"]) == problem
        mean = simulate(problem, "min-width", 20, 30).mean("min-width").tolist()
        assert json.loads(out)["results"][0]["mean"] == mean

    def test_a_file_with_a_row_for_each_round(self, called, tmp_path):
        rows = [[0.05, 0.1, 0.12, 0.15, 0.25, 0.3]] * 5 + [[0.3, 0.25, 0.15, 0.12, 0.1, 0.05]]
        path = tmp_path / "means.csv"
        path.write_text(
            "\n".join(",".join(map(str, row)) for row in rows) + "\n\n", encoding="utf-8-sig"
        )
        how = ("--problem", "covid", "--drift", path, "--trials", "5", "-q", "--format", "json")
        _, out, _ = called("simulate", *how)
        stated = Problem.from_dict(json.loads(out)["problem"])
        assert stated.drift == Changes([(6, rows[5])])
        assert stated.arm_names[0] == "floor 1"

    @pytest.mark.parametrize(
        "text", ["4", "4=", "x=0.1", "wave=0.1", "walk=", "walk=a/b", "", "4=0.1;"]
    )
    def test_what_cannot_be_read(self, called, text):
        code, out, err = called("simulate", "--problem", "covid", "--drift", text, "--trials", "5")
        assert (code, out) == (2, "")
        assert f"--drift is {text!r}: such as 151=0.5" in err
        assert len(err.splitlines()) == 1

    @pytest.mark.parametrize(
        ("line", "words"), [("0.1,x", "line 2 of .*has 'x'"), ("0.1,0.2", "means.1. has 2 means")]
    )
    def test_a_file_that_cannot_be_used(self, called, tmp_path, line, words):
        path = tmp_path / "means.csv"
        path.write_text(f"0.1,0.2,0.3\n{line}\n")
        how = ("--sensitivities", "0.5", "--horizon", "5", "--drift", path)
        code, _, err = called("simulate", *how)
        assert code == 2
        assert re.search(words, err)
        path.write_text("0.1,0.2\n")
        code, _, err = called("simulate", "--means", "0.1,0.2", *how)
        assert code == 2
        assert "leave --means out" in err
        path.unlink()
        assert "cannot read" in called("simulate", *how)[2]

    def test_bounds_say_that_there_are_none(self, called):
        how = ("bounds", "--problem", "covid", "--drift", "walk=0.1")
        found = json.loads(called(*how, "--format", "json")[1])
        assert found["lower_bound"] is found["regret_bound"] is None
        out = called(*how)[1]
        assert "no bound on min-width's regret: the means change" in out
        assert "per ln T" not in out

    def test_results_are_saved_without_a_limit(self, called, tmp_path):
        how = ("simulate", "--problem", "covid", "--drift", "wave=0.1/50", "--trials", "20", "-q")
        code, _, _ = called(*how, "--output", tmp_path)
        assert code == 0
        saved = Results.from_json((tmp_path / "results.json").read_text())
        assert saved.problem.drift == Wave(0.1, 50)
