"""The runner: every piece once, kept as it comes, whatever happens to others."""

import itertools
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

from heterobandits import Policy, Problem
from heterobandits.policies.policy import parse_policies
from heterobandits.simulation.engine import compile_kernels
from heterobandits.simulation.pool.pieces import Point, RunTotals, TrialsPiece
from heterobandits.simulation.pool.runner import FixedJob, Runner
from heterobandits.simulation.pool.shards import ShardStore
from heterobandits.simulation.pool.threads import Threads, play_batch

PROBLEM = Problem([0.1, 0.5, 0.3], [0.2, 0.9])


def point(seed=0, policies=("min-width", "cucb"), horizon=20):
    return Point(PROBLEM, parse_policies(policies), horizon, (horizon,), seed)


def run(jobs, store=None, threads=2, tell=lambda progress: None):
    """What came of jobs, by their number."""
    found = {}

    def finished(number, rows, failures):
        assert number not in found
        found[number] = (rows, failures)

    kept = ShardStore(None) if store is None else store
    Runner(iter(jobs), len(jobs), kept, Threads(threads)).run(finished, tell)
    return found


def numbers(rows):
    """Everything but the time it took."""
    return [row._replace(seconds=[]) for row in rows]


def counting(name="counting"):
    """A policy of one's own that counts its calls."""
    calls = []

    def index(known):
        calls.append(known.rounds)
        return known.successes.sum(axis=0) + 0.0

    return Policy(name, index=index), calls


@dataclass
class Doubling:
    """A job that wants twice as many trials until it has eight."""

    point: Point
    asked: list[int] = field(default_factory=list)

    def wants(self, rows):
        trials = sum(row.last - row.first for row in rows)
        self.asked.append(trials)
        return self.point.pieces(range(trials, max(1, 2 * trials))) if trials < 8 else []


def test_every_job_is_finished_with_its_rows():
    jobs = [FixedJob(point(seed).pieces(range(10))) for seed in range(50)]
    found = run(jobs)
    assert sorted(found) == list(range(50))
    for job, (rows, failures) in zip(jobs, (found[i] for i in range(50)), strict=True):
        assert failures == []
        control = np.zeros(3, np.int64)
        assert numbers(rows) == numbers(play_batch(job.pieces, control))


@pytest.mark.slow
def test_kernels_are_compiled_by_whichever_thread_comes_first():
    """In a process that has compiled nothing: of two threads that begin with the same policy, one would fail."""
    code = (
        "from test_runner import *;"
        "found = run([FixedJob(point(seed).pieces(range(5))) for seed in range(40)], threads=8);"
        "print([failure.error for _, failures in found.values() for failure in failures])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout == "[]\n"


def test_what_the_store_has_is_not_played(tmp_path):
    own, calls = counting()
    jobs = [FixedJob(point(seed, (own,)).pieces(range(5))) for seed in range(4)]
    first = run(jobs[:3], ShardStore(tmp_path))
    assert len(calls) == 3 * 20
    again = run(jobs, ShardStore(tmp_path))
    assert len(calls) == 4 * 20
    assert [numbers(again[i][0]) for i in range(3)] == [numbers(first[i][0]) for i in range(3)]


def test_a_piece_that_two_jobs_want_is_played_once():
    own, calls = counting()
    job = FixedJob(point(0, (own,)).pieces(range(5)))
    found = run([job, job, job])
    assert len(calls) == 20
    assert found[0] == found[1] == found[2]


def test_a_job_may_want_more(tmp_path):
    job = Doubling(point())
    rows, failures = run([job], ShardStore(tmp_path))[0]
    assert job.asked == [0, 1, 2, 4, 8]
    assert [(row.first, row.last) for row in rows] == [(0, 1), (1, 2), (2, 4), (4, 8)]
    assert failures == []
    again = Doubling(point())
    assert run([again], ShardStore(tmp_path))[0][0] == rows
    assert again.asked == job.asked


def test_a_piece_that_raises_harms_no_other(tmp_path):
    def index(known):
        raise RuntimeError("a poisoned\npoint")

    bad = point(7, (Policy("bad", index=index),))
    jobs = [FixedJob(point(seed).pieces(range(5))) for seed in range(6)]
    jobs.insert(2, FixedJob(bad.pieces(range(5))))
    found = run(jobs, ShardStore(tmp_path))
    assert [len(found[i][0]) for i in range(7)] == [1, 1, 0, 1, 1, 1, 1]
    ((failure,),) = (failures for _, failures in found.values() if failures)
    assert failure.place == (bad.key, 0, 5)
    assert failure.definition == bad.definition
    assert failure.error.startswith("RuntimeError: a poisoned point (")
    assert "line" in failure.error
    # it is not kept: the next run tries again
    assert len(list(ShardStore(tmp_path))) == 6


def test_an_error_of_the_caller_keeps_what_was_played(tmp_path):
    def finished(number, rows, failures):
        raise ZeroDivisionError

    jobs = [FixedJob(point(seed).pieces(range(5))) for seed in range(3)]
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        Runner(jobs, 3, ShardStore(tmp_path), Threads(2)).run(finished)
    assert len(list(ShardStore(tmp_path))) >= 1
    assert threading.active_count() == before


def test_there_may_be_fewer_jobs_than_said():
    found = {}
    jobs = (FixedJob(point(seed).pieces(range(5))) for seed in range(7))
    Runner(jobs, 10**18, ShardStore(None), Threads(2)).run(
        lambda number, rows, failures: found.update({number: len(rows)})
    )
    assert found == dict.fromkeys(range(7), 1)


def test_batches_of_no_seconds_have_one_piece_each_and_wait_for_nothing():
    """Of jobs without end only those are begun that are handed out."""
    begun, sizes = [], []

    class Watched(Threads):
        def submit(self, batch):
            sizes.append(len(batch))
            super().submit(batch)

    def jobs():
        for seed in itertools.count():
            begun.append(seed)
            yield FixedJob(
                [TrialsPiece(point(seed), range(5)), TrialsPiece(point(seed), range(5, 9))]
            )

    def finished(number, rows, failures):
        if number == 20:
            raise ZeroDivisionError

    totals = RunTotals(point(), range(1))
    totals.add = lambda row: None
    with pytest.raises(ZeroDivisionError):
        Runner(jobs(), 10**18, totals, Watched(2), batch_seconds=0.0).run(finished)
    assert set(sizes) == {1}
    assert 20 < len(begun) <= len(sizes) // 2 + 1 <= 25


@pytest.mark.slow
def test_small_pieces_come_in_batches(monkeypatch):
    sizes = []
    submit = Threads.submit
    monkeypatch.setattr(
        Threads, "submit", lambda self, batch: sizes.append(len(batch)) or submit(self, batch)
    )
    run([FixedJob(point(seed).pieces(range(2))) for seed in range(2000)])
    assert sum(sizes) == 2000
    assert len(sizes) < 200
    # the last ones are shared by the threads
    assert sizes[-1] < max(sizes)


def test_no_thread_waits_for_the_next_batch():
    """While pieces are played, as many batches as there are threads lie ready beside those in play."""
    seen = []

    class Watched(Threads):
        def finished(self, seconds):
            seen.append(self.waiting)
            return super().finished(seconds)

    # a batch takes longer than to hand one out, on a busy machine too
    own = Policy("slow", index=lambda known: time.sleep(0.002) or 0.0 * known.pulls.sum(axis=0))
    jobs = [FixedJob(point(seed, (own,)).pieces(range(2))) for seed in range(40)]
    Runner(jobs, 40, ShardStore(None), Watched(2)).run(lambda *what: None)
    assert max(seen) == 4
    # until the last batches are handed out there is always one to come
    assert min(seen[: len(seen) // 2]) >= 3


def test_progress_grows_to_everything():
    told = []
    run([FixedJob(point(seed).pieces(range(5))) for seed in range(30)], tell=told.append)
    assert [p.jobs for p in told] == sorted(p.jobs for p in told)
    assert (told[0].jobs, told[0].rounds, told[0].left) == (0, 0, None)
    last = told[-1]
    assert (last.jobs, last.of, last.rounds, last.left) == (30, 30, 30 * 5 * 20 * 2, 0.0)


def test_an_interrupt_stops_within_a_second_and_keeps_finished_pieces(tmp_path):
    """The second piece of a batch would take half an hour; the first is finished and kept."""
    long = Point(PROBLEM, parse_policies(["min-width"]), 2**27, (2**27,), 0)
    jobs = [FixedJob([*point().pieces(range(5)), *long.pieces(range(512))])]
    compile_kernels(point().policies)
    begin = time.monotonic()

    def tell(progress):
        if time.monotonic() > begin + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(jobs, ShardStore(tmp_path), 1, tell)
    assert time.monotonic() - begin < 2
    assert list(ShardStore(tmp_path)) == [(point().key, 0, 5)]
