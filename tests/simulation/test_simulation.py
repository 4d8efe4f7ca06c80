"""The simulator: exact laws, replays, tiny worlds, the paper's numbers, interrupts, bad input."""

import functools
import itertools
import math
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numba import config

import reference
from heterobandits import CATALOGUE, PAPER, InvalidInput, Policy, Problem, Results, policy, simulate
from heterobandits.simulation import engine
from heterobandits.simulation.arguments import parse_checkpoints
from heterobandits.simulation.engine import Learning, PolicyWorld, Shard, compile_kernels, worlds_of
from heterobandits.simulation.pool import runner
from heterobandits.simulation.pool.pieces import SHARD_TARGET_ROUNDS, ShardPiece, cut_shard
from heterobandits.simulation.pool.runner import BATCHES_PER_WORKER
from heterobandits.simulation.pool.threads import Threads
from planners import OWN

ALL = tuple(CATALOGUE)
# Two-sided, a standard normal exceeds this with probability 2e-7.
REACH = 5.2

sensitivities = st.floats(0.05, 1.0)
means = st.floats(0.0, 1.0)


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Compile once before anything is timed or drawn."""
    compile_kernels(CATALOGUE.values())


@pytest.fixture(scope="module")
def whole(covid):
    """A run of all policies in one piece, to compare others with."""
    return simulate(covid, ALL, 35, 150, seed=3, keep="all", threads=1, checkpoints=7)


@st.composite
def problems(draw, most_agents=4):
    agents = draw(st.integers(1, most_agents))
    arms = draw(st.integers(agents, agents + 3))
    return Problem(
        draw(st.lists(means, min_size=arms, max_size=arms)),
        draw(st.lists(sensitivities, min_size=agents, max_size=agents)),
    )


def assert_same_bits(one, other):
    assert one.spans == other.spans
    assert one.rounds == other.rounds
    assert (one.sums == other.sums).all()
    assert (one.products == other.products).all()
    for label in one.policies:
        assert one.mean(label).tobytes() == other.mean(label).tobytes()
        assert one.se(label).tobytes() == other.se(label).tobytes()
        assert one.regrets(label).tobytes() == other.regrets(label).tobytes()
        for results in (one, other):
            assert results.quantiles(label, [0.1, 0.5]).shape == (2, len(results.kept_rounds))
        levels = [0.05, 0.5, 0.95]
        assert (one.quantiles(label, levels) == other.quantiles(label, levels)).all()
        for a, b in zip(
            one.difference(label, one.policies[0]),
            other.difference(label, one.policies[0]),
            strict=True,
        ):
            assert a.tobytes() == b.tobytes()


class TestExactLaws:
    """What must hold to the last bit."""

    @pytest.mark.parametrize("threads", [2, 5])
    @pytest.mark.parametrize("block", [1, 7, 64, 512, None])
    def test_threads_and_blocks_change_no_bit(self, covid, whole, threads, block):
        other = simulate(
            covid, ALL, 35, 150, seed=3, keep="all", threads=threads, block=block, checkpoints=7
        )
        assert_same_bits(whole, other)

    @pytest.mark.slow
    @settings(max_examples=8)
    @given(cuts=st.sets(st.integers(1, 149), max_size=5), data=st.data())
    def test_shards_merge_to_the_same_bits(self, covid, whole, cuts, data):
        edges = [0, *sorted(cuts), 150]
        shards = [
            simulate(covid, ALL, 35, range(*edge), seed=3, keep="all", checkpoints=7, block=32)
            for edge in itertools.pairwise(edges)
        ]
        shards = data.draw(st.permutations(shards))
        merged = shards[0]
        for shard in shards[1:]:
            merged = merged.merge(shard)
        assert_same_bits(whole, merged)

    def test_a_shard_far_out_has_trials_of_its_own(self, covid):
        far = range(2**40, 2**40 + 3)
        results = simulate(covid, "min-width", 30, far, seed=3, keep="all")
        assert results.spans == ((2**40, 2**40 + 3),)
        for i, trial in enumerate(far):
            alone = simulate(covid, "min-width", 30, range(trial, trial + 1), seed=3, keep="all")
            assert alone.regrets("min-width")[0] == results.regrets("min-width")[i]

    @pytest.mark.parametrize("name", ALL)
    def test_adding_a_policy_changes_no_other(self, covid, whole, name):
        alone = simulate(covid, name, 35, 150, seed=3, keep="all", checkpoints=7)
        assert alone.mean(name).tobytes() == whole.mean(name).tobytes()
        assert (alone.kept[0] == whole.kept[whole.position(name)]).all()

    def test_the_same_run_twice_is_the_same(self, covid, whole):
        again = simulate(covid, ALL, 35, 150, seed=3, keep="all", checkpoints=7)
        assert_same_bits(whole, again)
        other = simulate(covid, ALL, 35, 150, seed=4, keep="all", checkpoints=7)
        assert (other.regrets("min-width") != whole.regrets("min-width")).any()

    def test_what_is_kept_changes_no_moment(self, covid, whole):
        final = simulate(covid, ALL, 35, 150, seed=3, keep="final", checkpoints=7)
        moments = simulate(covid, ALL, 35, 150, seed=3, checkpoints=7)
        for label in ALL:
            assert (final.regrets(label) == whole.regrets(label)).all()
            assert moments.se(label).tobytes() == whole.se(label).tobytes()
        with pytest.raises(InvalidInput, match="no trial was kept"):
            moments.regrets("min-width")

    @settings(max_examples=15)
    @given(
        mu=st.lists(means, min_size=2, max_size=6), s=sensitivities, seed=st.integers(0, 2**64 - 1)
    )
    def test_one_agent_makes_all_policies_of_the_paper_equal(self, mu, s, seed):
        results = simulate(Problem(mu, [s]), PAPER, 60, 40, seed, keep="all")
        for other in results.kept[1:]:
            assert (other == results.kept[0]).all()

    @settings(max_examples=15)
    @given(problem=problems(), data=st.data(), seed=st.integers(0, 1000))
    def test_beliefs_that_keep_the_order_leave_no_sharing_alone(self, problem, data, seed):
        count = problem.agents
        values = st.lists(sensitivities, min_size=count, max_size=count, unique=True)
        sizes = sorted(data.draw(values), reverse=True)
        believed = [0.0] * count
        for size, agent in zip(sizes, reference.picking_order(problem.sensitivities), strict=True):
            believed[agent] = size
        mistaken = Problem(problem.means, problem.sensitivities, believed)
        runs = [simulate(p, "no-sharing", 60, 40, seed, keep="all") for p in (problem, mistaken)]
        assert (runs[0].kept == runs[1].kept).all()

    @settings(max_examples=25)
    @given(problem=problems(), data=st.data())
    def test_the_oracle_has_no_regret_whatever_is_believed(self, problem, data):
        count = problem.agents
        believed = data.draw(st.lists(sensitivities, min_size=count, max_size=count))
        mistaken = Problem(problem.means, problem.sensitivities, believed)
        results = simulate(mistaken, "oracle", 20, 5, keep="all")
        assert (results.kept == 0.0).all()
        assert (results.mean("oracle") == 0.0).all()

    @settings(max_examples=15)
    @given(problem=problems(), data=st.data())
    def test_relabelling_the_agents_changes_nothing(self, problem, data):
        """But for sums of faded outcomes, fractions whose last bit depends on the order of the agents and may break a tie."""
        new = data.draw(st.permutations(range(problem.agents)))
        moved = Problem(problem.means, [problem.sensitivities[a] for a in new])
        few = problem.agents <= 3
        names = [n for n in ALL if n != "posterior-sorted-discounted" and (n != "ucb" or few)]
        runs = [simulate(p, names, 30, 20, keep="all") for p in (problem, moved)]
        assert (runs[0].kept == runs[1].kept).all()

    @pytest.mark.parametrize("name", [*PAPER, "greedy"])
    def test_relabelling_the_arms_changes_only_the_luck(self, seed, name):
        """The two means differ by less than 5.2 standard errors; false alarms: 2e-7 each."""
        mu = [0.7, 0.1, 0.5, 0.35]
        runs = [
            simulate(Problem(mu_, [0.9, 0.4]), name, 50, 4000, seed=1000 * i + seed)
            for i, mu_ in enumerate((mu, mu[::-1]))
        ]
        first, second = ((run.mean(name)[-1], run.se(name)[-1]) for run in runs)
        assert abs(first[0] - second[0]) < REACH * math.hypot(first[1], second[1])


class TestOutcomes:
    """An agent succeeds if the arm's uniform number is below s mu, to the last of its 32 bits."""

    @pytest.mark.parametrize("entry", ["min-width", "ucb", "own"])
    @settings(max_examples=25)
    @given(
        seed=st.integers(0, 2**64 - 1), trial=st.integers(0, 2**40), s=st.sampled_from([1.0, 0.5])
    )
    def test_luck_is_compared_exactly(self, entry, seed, trial, s):
        if entry == "own":
            entry = Policy("own", index=lambda known: np.zeros(known.pulls.shape[1:]))
        word = reference.word(seed, trial, 1, 0)
        for chance, success in ((word / 2**32, 0), ((word + 1) / 2**32, 1)):
            if chance / s <= 1:
                world = PolicyWorld(Problem([chance / s], [s]), policy(entry))
                learning = Learning(world, seed, trial, 1)
                learning.advance(1)
                assert learning.pulls.item() == 1
                assert learning.successes.item() == success

    @pytest.mark.parametrize("name", ALL)
    def test_chances_of_nought_and_one_are_certain(self, name):
        world = PolicyWorld(Problem([0.0, 1.0], [1.0, 1.0]), policy(name))
        learning = Learning(world, 5, 0, 300)
        learning.advance(50)
        assert not learning.successes[:, 0].any()
        assert (learning.successes[:, 1] == learning.pulls[:, 1]).all()


def test_a_fixed_horizon_is_another_policy_than_anytime(covid):
    entries = [policy("min-width"), policy("min-width", horizon=10**6)]
    results = simulate(covid, entries, 200, 50, keep="final")
    assert results.policies == ("min-width", "min-width(horizon=1000000)")
    anytime, fixed = (results.regrets(label) for label in results.policies)
    assert (anytime != fixed).any()
    # A larger logarithm explores longer; see the paper's "setting T -> t".
    assert results.difference(results.policies[1], "min-width").lower[-1] > 0


WORLDS = {
    "1x2": ([0.9, 0.3], [0.6], None, 4),
    "2x2": ([0.8, 0.1], [0.9, 0.4], None, 4),
    "2x2 equal agents": ([0.9, 0.2], [0.7, 0.7], None, 4),
    "2x2 mistaken": ([0.8, 0.1], [0.9, 0.4], [0.5, 0.6], 4),
    "2x3": ([0.2, 0.9, 0.6], [0.8, 0.5], None, 3),
    "1x3": ([0.1, 0.5, 1.0], [0.9], None, 5),
}


@pytest.mark.parametrize("name", [*PAPER, "random", "greedy"])
@pytest.mark.parametrize("world", WORLDS)
def test_tiny_worlds_have_the_enumerated_mean(seed, world, name):
    """The simulated mean regret at the horizon is the exact one, within 5.2 standard errors.

    All outcomes, tie-breaks and turns are enumerated; false alarms: 2e-7 each.
    """
    mu, s, believed, horizon = WORLDS[world]
    exact = reference.expected_regrets(name, mu, s, horizon, believed)
    results = simulate(Problem(mu, s, believed), name, horizon, 100_000, seed)
    reach = REACH * results.se(name)[-1] + 1e-12
    assert results.mean(name)[-1] == pytest.approx(exact[-1], rel=0, abs=reach)


# Published at T = 300 from 500 trials: mean and its standard error (table:robustness-regret).
ROBUSTNESS = {
    "overestimated": ([0.85] * 3 + [0.98] * 2, {
        "min-width": (10.8, 0.1), "min-ucb": (14.0, 0.1), "no-sharing": (17.5, 0.1)}),
    "underestimated": ([0.75] * 3 + [0.9] * 2, {
        "min-width": (11.0, 0.1), "min-ucb": (15.2, 0.2), "no-sharing": (17.6, 0.1)}),
    "mix": ([0.75] * 3 + [0.98] * 2, {
        "min-width": (11.7, 0.1), "min-ucb": (18.0, 0.2), "no-sharing": (17.5, 0.1)}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", ROBUSTNESS)
def test_the_papers_robustness_table(seed, covid, case):
    """Each mean lies within two of the paper's standard errors and 5.2 of ours, plus its rounding.

    Two standard errors are the band of the paper's own figures, and its numbers are rounded to
    0.05. The paper's draw is fixed, so only ours (20,000 trials) can raise a false alarm: at
    most 2e-7 for each number.
    """
    believed, published = ROBUSTNESS[case]
    problem = Problem(covid.means, covid.sensitivities, believed)
    results = simulate(problem, list(published), 300, 20_000, seed)
    for name, (mean, se) in published.items():
        reach = 0.05 + 2 * se + REACH * results.se(name)[-1]
        assert reach < 0.6
        assert results.mean(name)[-1] == pytest.approx(mean, rel=0, abs=reach)


class TestCheckpoints:
    """When regret is noted."""

    @settings(max_examples=200)
    @given(count=st.integers(1, 200), horizon=st.integers(1, 10**6))
    def test_a_number_of_them_is_evenly_spaced_and_ends_at_the_horizon(self, count, horizon):
        rounds = parse_checkpoints(count, horizon)
        assert len(rounds) == min(count, horizon)
        assert rounds[-1] == horizon
        steps = {b - a for a, b in zip((0, *rounds[:-1]), rounds, strict=True)}
        assert min(steps) >= 1
        assert max(steps) - min(steps) <= 1

    @settings(max_examples=100)
    @given(horizon=st.integers(1, 1000), data=st.data())
    def test_a_list_is_sorted_and_the_horizon_added(self, horizon, data):
        given_rounds = data.draw(st.lists(st.integers(1, horizon), max_size=10))
        assert parse_checkpoints(given_rounds, horizon) == tuple(sorted({*given_rounds, horizon}))

    def test_regret_at_a_checkpoint_is_that_of_a_shorter_run(self, covid):
        results = simulate(covid, PAPER[:4], 40, 30, keep="all", checkpoints=[25, 7])
        assert results.rounds == (7, 25, 40)
        for k, round_ in enumerate(results.rounds):
            shorter = simulate(covid, PAPER[:4], round_, 30, keep="final")
            assert (shorter.kept[:, 0] == results.kept[:, k]).all()


class TestOwnPolicies:
    """A policy of the user's, written in NumPy, is played like one of the catalogue."""

    # Powers of two make all sums exact in any order; the agents are not listed in picking order.
    PROBLEM = Problem([0.9, 0.2, 0.6, 0.5], [0.25, 1.0, 0.5], believed=[0.25, 0.5, 0.5])

    @staticmethod
    def quotient(a, b):
        with np.errstate(divide="ignore", invalid="ignore"):
            return a / b

    def min_width(self, known):
        s = known.team.slope[:, None, None]
        agents, arms, _ = known.pulls.shape
        V = (s**2 * known.pulls).sum(axis=0)
        W = (s * known.successes).sum(axis=0)
        G = math.comb(max(1, known.rounds) + agents, agents) - 1
        L = math.log(2 * arms * G / known.delta)
        index = self.quotient(W, V) + np.sqrt(self.quotient(L, 2 * V))
        return np.where(V > 0, index, np.inf)

    def no_sharing(self, known):
        s, c = known.team.slope[:, None, None], known.pulls
        agents, arms, _ = c.shape
        L = math.log(2 * agents * arms * max(1, known.rounds) / known.delta)
        index = self.quotient(known.successes, s * c) + np.sqrt(self.quotient(L, 2 * c)) / s
        return np.where(c > 0, index, np.inf)

    def cucb(self, known):
        c, y = known.pulls.sum(axis=0), known.successes.sum(axis=0)
        L = math.log(2 * len(c) * max(1, known.rounds) / known.delta)
        index = self.quotient(y, c) + np.sqrt(self.quotient(L, 2 * c))
        return np.where(c > 0, index, np.inf)

    @pytest.mark.parametrize("block", [None, 3])
    def test_they_play_like_the_catalogues(self, block):
        own = [
            Policy("my min-width", index=self.min_width),
            Policy("my no-sharing", index=self.no_sharing, index_per="agent"),
            Policy("my cucb", index=self.cucb, first="random"),
        ]
        published = ["min-width", "no-sharing", "cucb"]
        results = simulate(self.PROBLEM, own + published, 80, 40, seed=11, keep="all", block=block)
        for name in published:
            mine, theirs = results.position(f"my {name}"), results.position(name)
            assert (results.kept[mine] == results.kept[theirs]).all()
            assert results.kept[mine].any()

    @pytest.mark.parametrize(
        ("answer", "complaint"),
        [
            (lambda known: np.zeros((2, 2)), "shape"),
            (lambda known: np.full(known.pulls.shape[1:], np.nan), "NaN"),
            (lambda known: "arm 1", "arm 1"),
            (lambda known: None, "shape"),
        ],
    )
    def test_a_wrong_answer_is_refused_by_name(self, answer, complaint):
        mine = Policy("mine", index=answer)
        with pytest.raises(InvalidInput, match=complaint) as caught:
            simulate(self.PROBLEM, mine, 5, 3)
        assert "'mine'" in str(caught.value)

    def test_an_error_in_it_reaches_the_user(self):
        def broken(known):
            raise ZeroDivisionError("my mistake")

        with pytest.raises(ZeroDivisionError, match="my mistake"):
            simulate(self.PROBLEM, Policy("broken", index=broken), 5, 3)


def run_python(code, *args, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        **kwargs,
    )


@pytest.mark.slow
def test_memory_does_not_grow_with_trials_or_rounds():
    """2,000 trials of 20,000 rounds: even a byte for each would be 40 MB, a float 320 MB.

    A process of its own, because the highest memory use of a process never falls.
    """
    code = """
import resource, sys
from heterobandits import Problem, simulate
problem = Problem([0.3, 0.6, 0.5], [0.5, 0.9])
def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
simulate(problem, "min-width", 1000, 1100, threads=2)
before = most()
simulate(problem, "min-width", 20_000, 2000, threads=2)
unit = 1 if sys.platform == "darwin" else 1024
print((most() - before) * unit)
"""
    assert int(run_python(code).stdout) < 8e6


class TestProgressAndInterrupts:
    """What is done is told, and Ctrl-C keeps what is complete."""

    def test_progress_rises_to_the_total(self, covid):
        seen = []
        simulate(
            covid, ["min-width", "cucb"], 300, 700, progress=lambda *now: seen.append(now), block=32
        )
        done = [now for now, _ in seen]
        assert {total for _, total in seen} == {2 * 300 * 700}
        assert done == sorted(done)
        assert done[-1] == 2 * 300 * 700

    def test_an_interrupt_keeps_what_is_complete(self, covid):
        """The callback runs in the calling thread, where Ctrl-C strikes as well."""

        def interrupt(done, total):
            if done >= 40 * 2000:
                raise KeyboardInterrupt

        results = simulate(
            covid, "min-width", 2000, 200_000, seed=2, keep="final", block=16, progress=interrupt
        )
        assert results.partial
        assert 0 < results.trials < 200_000
        self.assert_equal_to_runs_of_these_spans(results)

    def assert_equal_to_runs_of_these_spans(self, results):
        again = None
        for start, stop in results.spans:
            part = simulate(
                results.problem,
                results.policies,
                results.horizon,
                range(start, stop),
                results.seed,
                keep="final",
            )
            again = part if again is None else again.merge(part)
        assert_same_bits(again, results)

    @pytest.mark.usefixtures("ends")
    def test_nothing_complete_lets_the_interrupt_go_on(self, covid):
        def interrupt(done, total):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            simulate(covid, "min-width", ENDLESS, 64, progress=interrupt)

    @pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
    def test_ctrl_c_while_numba_looks_at_a_kernel_is_an_interrupt(self, covid):
        """It does so in Python called from C, where another error is made of it."""
        simulate(covid, "min-width", 3, 2)  # nothing is left to compile
        struck = []

        def trace(frame, event, arg):
            if frame.f_code.co_name == "_numba_unpickle" and not struck:
                struck.append(frame)
                signal.raise_signal(signal.SIGINT)

        before, tracing = signal.getsignal(signal.SIGINT), sys.gettrace()
        sys.settrace(trace)
        try:
            with pytest.raises(KeyboardInterrupt):
                simulate(covid, "min-width", 3, 2)
        finally:
            sys.settrace(tracing)
        assert struck
        assert signal.getsignal(signal.SIGINT) is before

    @pytest.mark.usefixtures("ends")
    def test_another_error_in_the_callback_stops_the_run(self, covid):
        def fail(done, total):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            simulate(covid, "min-width", ENDLESS, 64, progress=fail)

    @pytest.mark.slow
    @pytest.mark.parametrize("delay", [0.0, 0.05, 0.11, 0.23])
    def test_ctrl_c_ends_a_long_run(self, delay):
        """Long before its end, which is minutes away, it says that it has stopped.

        Many small blocks, and several moments: an interrupt may strike while a lock is held.
        """
        code = """
import sys
from heterobandits import Problem, simulate
problem = Problem([0.05, 0.1, 0.12, 0.15, 0.25, 0.3], [0.8, 0.8, 0.8, 0.95, 0.95])
told = []
def progress(done, total):
    if done >= 20 * 64 * 2 * 500 and not told:
        told.append(print("started", flush=True))
results = simulate(problem, ["min-width", "cucb"], 500, 2_000_000, seed=8, keep="final",
                   block=64, progress=progress)
print("stopped", flush=True)
print(results.to_json())
"""
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            watchdog = threading.Timer(30, process.kill)
            watchdog.start()
            try:
                assert process.stdout.readline() == "started\n"
                time.sleep(delay)
                process.send_signal(signal.SIGINT)
                assert process.stdout.readline() == "stopped\n", "it did not stop in 30 s"
                text = (
                    process.stdout.read()
                )  # communicate() would lose what readline() has read ahead
                errors = process.stderr.read()
                process.wait()
            finally:
                watchdog.cancel()
                process.kill()
        assert process.returncode == 0, errors
        results = Results.from_json(text)
        assert results.partial
        assert 0 < results.trials < 2_000_000
        self.assert_equal_to_runs_of_these_spans(results)

    def test_ctrl_c_while_the_blocks_are_handed_out_ends_the_run_too(self):
        """Many small blocks take a while to hand out; few of the trials are played."""
        code = """
import os, signal, threading
from heterobandits import Problem, policy, simulate
from heterobandits.simulation.engine import compile_kernels
compile_kernels([policy("min-width")])
problem = Problem([0.5, 0.2, 0.3], [0.9, 0.5])
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    print(simulate(problem, "min-width", 1000, 16 * 10**9, block=16).trials)
except KeyboardInterrupt:
    print(0)
"""
        assert int(run_python(code).stdout) < 10**9


class Struck(ThreadPoolExecutor):
    """Threads whose owner presses Ctrl-C whenever it hands something out."""

    handed = returned = 0

    def submit(self, *arguments, **named):
        self.handed += 1
        signal.raise_signal(signal.SIGINT)
        future = super().submit(*arguments, **named)
        self.returned += 1
        return future


def test_an_interrupt_does_not_strike_while_locks_may_be_held(covid):
    """It waits until what was begun is done, ends the run, and leaves Ctrl-C as it was."""
    before = signal.getsignal(signal.SIGINT)
    with Struck(2) as pool:
        try:
            results = simulate(covid, "min-width", 300, 1_000_000, executor=pool)
        except KeyboardInterrupt:
            results = None
        assert pool.handed == pool.returned == 1
    assert results is None or results.partial
    assert signal.getsignal(signal.SIGINT) is before


class Counting(ThreadPoolExecutor):
    """Threads that know which shards they were given, and may be told to fail at one of them."""

    def __init__(self, threads, fail_at=None, error=RuntimeError, before=True):
        super().__init__(threads)
        self.given, self.taken = [], []
        self.fail_at, self.error, self.before = fail_at, error, before

    def __exit__(self, *error):
        for _, control in self.given:  # what a failing test leaves behind
            engine.request_stop(control)
        super().__exit__(*error)

    def submit(self, play, batch, control, *how):
        (piece,) = batch
        self.given.append((piece.shard, control))
        fails = len(self.given) == self.fail_at
        if fails and self.before:
            raise self.error("no more")
        self.taken.append(super().submit(play, batch, control, *how))
        if fails:
            raise self.error("no more")
        return self.taken[-1]


class AtOnce(Executor):
    """Plays a shard before it answers, and tells of it after a while."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def submit(self, play, *what):
        future = Future()
        played = play(*what)
        if self.seconds:
            threading.Timer(self.seconds, future.set_result, [played]).start()
        else:
            future.set_result(played)
        return future


@pytest.fixture(scope="module")
def processes():
    """Two processes that begin anew, so that everything they play was sent to them."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


# Longer than anyone waits: it has to be stopped.
ENDLESS = 400_000_000


class TestExecutors:
    """Whoever plays the shards, the results are the same bits."""

    @pytest.mark.slow
    @pytest.mark.parametrize("threads", [1, 3, None])
    @pytest.mark.parametrize("block", [7, None])
    def test_threads_of_the_users_own(self, covid, whole, threads, block):
        with ThreadPoolExecutor(2) as pool:
            for _ in range(2):  # it is left as it was
                other = simulate(
                    covid, ALL, 35, 150, seed=3, keep="all", checkpoints=7,
                    executor=pool, threads=threads, block=block,
                )  # fmt: skip
                assert_same_bits(whole, other)

    def test_the_calling_thread(self, covid, whole):
        other = simulate(covid, ALL, 35, 150, 3, keep="all", checkpoints=7, executor=AtOnce())
        assert_same_bits(whole, other)

    @pytest.mark.slow
    def test_processes(self, covid, whole, processes):
        entries = [policy(name) for name in ALL]
        other = simulate(
            covid, entries, 35, 150, seed=3, keep="all", checkpoints=7,
            executor=processes, threads=2, block=16,
        )  # fmt: skip
        assert_same_bits(whole, other)

    def test_processes_take_parameters_and_functions_of_a_module_along(self, covid, processes):
        entries = [policy("min-width", delta=0.3, horizon=60), *OWN]
        runs = [
            simulate(covid, entries, 30, 20, seed=3, keep="all", threads=2, executor=executor)
            for executor in (None, processes)
        ]
        assert_same_bits(*runs)

    def test_a_function_that_cannot_be_sent_is_an_error(self, covid, processes):
        own = Policy("local", index=lambda known: np.zeros(known.pulls.shape[1:]))
        with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
            simulate(covid, own, 3, 5, executor=processes)

    def test_an_interrupt_keeps_what_processes_have_completed(self, covid, processes):
        def interrupt(done, total):
            if done:
                raise KeyboardInterrupt

        results = simulate(
            covid, "min-width", 200, 10**9, keep="final",
            executor=processes, threads=2, block=16, progress=interrupt,
        )  # fmt: skip
        assert results.partial
        assert 0 < results.trials < 10**9
        again = [simulate(covid, "min-width", 200, range(*s), keep="final") for s in results.spans]
        assert_same_bits(functools.reduce(Results.merge, again), results)

    @pytest.mark.usefixtures("ends")
    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.parametrize("fail_at", [1, 2, 4])
    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_one_that_takes_no_more_ends_the_run(self, covid, before, fail_at, error):
        """Nothing is left playing, not even a shard that was taken when the error struck."""
        with Counting(2, fail_at, error, before) as pool:
            with pytest.raises(error, match="no more"):
                simulate(covid, "min-width", ENDLESS, 1000, block=16, threads=2, executor=pool)
            assert len(pool.given) == fail_at
            assert len(pool.taken) == fail_at - before
            assert not wait(pool.taken, 60).not_done

    def test_one_that_was_shut_down_is_an_error(self, covid):
        pool = ThreadPoolExecutor(1)
        pool.shutdown()
        with pytest.raises(RuntimeError, match="after shutdown"):
            simulate(covid, "min-width", 3, 5, executor=pool)

    @pytest.mark.usefixtures("ends")
    @pytest.mark.parametrize("own_pool", [True, False])
    def test_an_error_in_one_shard_stops_the_others(self, covid, own_pool):
        calls = itertools.count()

        def fails_once(known):
            if next(calls) == 3:
                raise ZeroDivisionError("my mistake")
            return np.zeros(known.pulls.shape[1:])

        own = Policy("fails once", index=fails_once)
        with ThreadPoolExecutor(3) as pool:
            executor = pool if own_pool else None
            with pytest.raises(ZeroDivisionError, match="my mistake"):
                simulate(covid, own, ENDLESS, 1000, block=16, threads=3, executor=executor)

    def test_an_interrupt_of_one_process_keeps_what_others_have_completed(self, covid):
        class SecondStruck(AtOnce):
            given = 0

            def submit(self, *what):
                self.given += 1
                future = super().submit(*what)
                if self.given == 2:
                    future = Future()
                    future.set_exception(KeyboardInterrupt())
                return future

        pool = SecondStruck()
        results = simulate(covid, "min-width", 30, 320, block=64, threads=2, executor=pool)
        assert pool.given == BATCHES_PER_WORKER * 2
        assert results.spans == ((0, 64), (128, 256))
        assert results.partial


class TestShards:
    """How a run is cut, and how much of it is under way."""

    @settings(max_examples=200)
    @given(
        first=st.integers(0, 2**62),
        trials=st.integers(1, 3000),
        horizon=st.integers(1, 10**6),
        threads=st.integers(1, 64),
        lanes=st.integers(1, 512),
        checkpoints=st.integers(1, 100),
    )
    def test_every_trial_is_in_one_shard(
        self, covid, first, trials, horizon, threads, lanes, checkpoints
    ):
        entries = (policy("min-width"), policy("ucb"))
        numbers = range(first, first + trials)
        rounds = (*range(1, min(checkpoints, horizon)), horizon)
        whole = Shard(worlds_of(covid, entries), rounds, 5, numbers, lanes=lanes)
        parts = list(cut_shard(whole, threads))
        assert [trial for part in parts for trial in part.trials] == list(numbers)
        assert {replace(part, trials=numbers) for part in parts} == {whole}
        assert len(parts) >= min(threads, trials) / 2

    @pytest.mark.usefixtures("ends")
    def test_a_run_without_end_is_not_cut_beforehand(self, covid):
        """A list of its shards would have 10^9 entries."""

        def interrupt(done, total):
            assert total == 10**12 * 100
            if done > BATCHES_PER_WORKER * 2 * SHARD_TARGET_ROUNDS:  # then one is complete
                raise KeyboardInterrupt

        with Counting(2) as pool:
            results = simulate(
                covid, "min-width", 100, 10**12, threads=2, executor=pool, progress=interrupt
            )
            played = {trial for shard, _ in pool.given for trial in shard.trials}
        assert results.partial
        assert 0 < results.trials <= len(played)
        done = {trial for span in results.spans for trial in range(*span)}
        assert done <= played
        largest = max(len(shard.trials) for shard, _ in pool.given)
        assert len(played - done) <= BATCHES_PER_WORKER * 2 * largest

    def test_the_longest_run_there_is_can_be_interrupted(self, covid):
        def interrupt(done, total):
            if done > BATCHES_PER_WORKER * SHARD_TARGET_ROUNDS:  # then one is complete
                raise KeyboardInterrupt

        results = simulate(covid, "min-width", 10, 2**63 - 1, threads=1, progress=interrupt)
        assert results.partial
        assert results.trials > 0

    def test_no_more_are_under_way_than_are_wanted(self, covid, monkeypatch):
        monkeypatch.setattr(runner, "RUNNER_WATCH_INTERVAL_S", 0.01)
        seen = []

        def interrupt(done, total):
            seen.append(done)
            if len(seen) == 30:
                raise KeyboardInterrupt

        with Counting(2) as pool:
            with pytest.raises(KeyboardInterrupt):
                simulate(
                    covid, "min-width", ENDLESS, 1000,
                    block=16, threads=2, executor=pool, progress=interrupt,
                )  # fmt: skip
            assert len(pool.given) == BATCHES_PER_WORKER * 2
        assert seen == sorted(seen)
        assert seen[-1] > 0

    def test_progress_counts_no_trial_that_nobody_asked_for(self, covid):
        """17 trials in two blocks of nine lanes: the last lane plays for nobody."""
        shard = Shard(worlds_of(covid, [policy("min-width")]), (100,), 0, range(17), lanes=16)
        pool = Threads(1, AtOnce(0.35))
        pool.submit([ShardPiece(shard)])
        assert pool.rounds == 17 * 100
        ((_, (row,)),) = pool.finished(60)
        assert row.place == ("", 0, 17)
        assert pool.rounds == 0


GOOD = {
    "problem": Problem([0.5, 0.2, 0.4], [0.9, 0.3]),
    "policies": "min-width",
    "horizon": 3,
    "trials": 2,
    "seed": 0,
    "checkpoints": 2,
    "keep": "moments",
    "threads": 1,
    "block": 1,
    "executor": None,
    "progress": None,
}
NOT_WHOLE = (math.nan, math.inf, 1.5, True, "3", None, [3], b"3", 3j, {}, np.float64(2.0))
REFUSED = [
    *(("horizon", value) for value in (0, -1, 2**31, *NOT_WHOLE)),
    *(("trials", value) for value in (0, -1, 2**64, *NOT_WHOLE)),
    *(("trials", value) for value in (range(0), range(-2, 2), range(0, 9, 2), range(5, 3))),
    *(("trials", value) for value in (range(2**64, 2**64 + 2), range(2**70))),
    *(("seed", value) for value in (-1, 2**64, *NOT_WHOLE)),
    *(("checkpoints", value) for value in (0, -1, math.nan, 1.5, True, "3", None, b"3")),
    *(("checkpoints", value) for value in ([0], [4], [-1], [1.5], [True], ["1"], [None], [[1]])),
    *(("keep", value) for value in ("everything", None, 1, True, ["all"], "")),
    *(("threads", value) for value in (0, -1, 2000, math.nan, math.inf, 1.5, True, "3", [3])),
    *(("block", value) for value in (0, -1, 10**9, math.nan, math.inf, 1.5, True, "3", [3])),
    *(("problem", value) for value in (None, [0.5], "covid", {}, 3)),
    *(("policies", value) for value in (None, [], 3, [None], "min-widht", [3], "", b"ucb")),
    ("progress", 3),
    *(("executor", value) for value in (2, True, "threads", [], b"pool", ThreadPoolExecutor)),
]


@pytest.mark.parametrize(("argument", "value"), REFUSED, ids=lambda value: repr(value)[:40])
def test_bad_input_is_refused_by_name(argument, value):
    with pytest.raises(InvalidInput) as caught:
        simulate(**{**GOOD, argument: value})
    culprit = {"policies": "polic", "problem": "problem"}.get(argument, argument)
    assert culprit in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("min-widht", "min-width"),
        ("minucb", "min-ucb"),
        ("no_sharing", "no-sharing"),
        ("CUCB2cucb", "cucb"),
    ],
)
def test_an_unknown_policy_is_answered_with_the_nearest(typo, meant):
    with pytest.raises(InvalidInput, match=f"unknown policy '{typo}': did you mean '{meant}'"):
        simulate(GOOD["problem"], typo, 3, 2)


def test_the_same_policy_twice_is_refused():
    with pytest.raises(InvalidInput, match="'min-ucb' is given twice"):
        simulate(GOOD["problem"], ["min-ucb", "ucb", "min-ucb"], 3, 2)


def test_ucb_refuses_too_many_assignments():
    """12!/4! assignments are 19,958,400."""
    problem = Problem(np.linspace(0.1, 0.9, 12), [0.5] * 8)
    with pytest.raises(InvalidInput, match="ucb would have to rank 19,958,400 assignments"):
        simulate(problem, "ucb", 3, 2)
    huge = Problem([0.5] * 300, [0.5] * 200)
    with pytest.raises(InvalidInput, match="assignments of 200 agents to 300 arms"):
        simulate(huge, "ucb", 3, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ucb", "cucb", "no-sharing", "oracle"])
def test_a_catalogue_policy_made_by_hand_is_that_policy_or_refused(name):
    """Policy("ucb") names the rule alone: what the catalogue knows of it must not be lost.

    In a process of its own, since a rule played with the wrong shape may end the process.
    """
    code = """
import sys
from heterobandits import InvalidInput, Policy, Problem, simulate
name = sys.argv[1]
try:
    made = Policy(name)
except InvalidInput:
    print("refused")
else:
    problem = Problem([0.5, 0.2, 0.4], [0.9, 0.3], believed=[0.3, 0.9])
    runs = [simulate(problem, entry, 30, 20, keep="final") for entry in (made, name)]
    print("the same" if (runs[0].kept == runs[1].kept).all() else "another")
"""
    assert run_python(code, name).stdout.strip() in ("refused", "the same")


# Values that no argument wants, or only some do; none makes a long run.
GARBAGE = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(-(2**70), -1),
    st.integers(2**64, 2**70),
    st.integers(0, 5),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.complex_numbers(),
    st.lists(st.one_of(st.none(), st.integers(-2, 5), st.floats(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from([
        range(3), range(-1, 2), range(2**64, 2**64 + 1), object(), int, {1, 2}, np.array(0.5),
        np.array(3), np.int8(2), np.float32(0.5), np.array([1, 2]), np.array([[0.5, 0.2]]),
        np.array([]), np.nan, np.bool_(True), np.array(["ucb"]), 10**400, iter([1]), (0.5, 0.2),
    ]),
)  # fmt: skip


@settings(max_examples=400)
@given(argument=st.sampled_from(sorted(GOOD)), value=GARBAGE)
def test_garbage_is_refused_or_works(argument, value):
    assume(argument != "progress" or value is not int)  # a function, which fails by itself
    try:
        results = simulate(**{**GOOD, argument: value})
    except InvalidInput:
        return
    assert results.trials == sum(stop - start for start, stop in results.spans) > 0


@settings(max_examples=300)
@given(
    argument=st.sampled_from(["means", "sensitivities", "believed", "arm_names", "agent_names"]),
    value=GARBAGE,
)
def test_garbage_makes_no_problem(argument, value):
    good = {"means": [0.5, 0.2], "sensitivities": [0.9, 0.3]}
    try:
        problem = Problem(**{**good, argument: value})
    except InvalidInput:
        return
    assert all(0 <= mean <= 1 for mean in problem.means)
    assert all(0 < s <= 1 for s in problem.sensitivities + problem.believed)
    assert len(problem.arm_names) == problem.arms >= problem.agents


@settings(max_examples=200)
@given(argument=st.sampled_from(["name", "delta", "horizon"]), value=GARBAGE)
def test_garbage_makes_no_policy(argument, value):
    try:
        entry = policy(**{"name": "min-width", argument: value})
    except InvalidInput:
        return
    assert 0 < entry.delta < 1
    assert entry.horizon == "anytime" or entry.horizon >= 1


class TestMemory:
    """What cannot fit is refused before the work; trials alone cost nothing."""

    PROBLEM = Problem([0.2, 0.7], [0.5])

    @pytest.mark.parametrize(
        ("horizon", "trials", "options", "least", "said"),
        [
            # eight bytes for each trial, and for each checkpoint of it
            (300, 10**12, {"keep": "final"}, 8 * 10**12, "TB"),
            (300, 10**12, {"keep": "all", "checkpoints": 300}, 8 * 300 * 10**12, "PB"),
            (300, 10**15, {"keep": "all", "checkpoints": range(1, 301)}, 8 * 300 * 10**15, "EB"),
            # two sums of a whole number of Python's each, with a pointer to it
            (2 * 10**9, 10, {"checkpoints": 10**9}, 2 * 36 * 10**9, "GB|TB"),
            (2 * 10**9, 10, {"checkpoints": range(1, 10**9)}, 2 * 36 * 10**9, "GB|TB"),
        ],
    )
    def test_it_says_what_it_would_need(self, horizon, trials, options, least, said):
        with pytest.raises(
            InvalidInput, match=rf"would need [\d.]+ ({said}) of memory: "
        ) as refused:
            simulate(self.PROBLEM, "min-width", horizon, trials, **options)
        amount, unit = re.search(r"need ([\d.]+) (\wB)", str(refused.value)).groups()
        needed = float(amount) * 1000 ** (1 + "kMGTPE".index(unit[0]))
        assert needed > 0.99 * least
        assert f"{trials:,} trials" in str(refused.value)

    def test_trials_alone_cost_nothing(self):
        def stop(done, whole):
            assert whole == 10**12 * 20
            if done > 2**22:
                raise KeyboardInterrupt

        compile_kernels([policy("min-width")])
        tracemalloc.start()
        try:
            results = simulate(self.PROBLEM, "min-width", 20, 10**12, progress=stop)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert results.partial
        assert 0 < results.trials < 10**12
        assert peak < 2**28  # a byte for each trial would be four thousand times that


def test_checkpoints_longer_than_any_list(covid):
    with pytest.raises(InvalidInput, match=r"would need|checkpoints is"):
        simulate(covid, "greedy", 300, 10, checkpoints=range(1, 10**30))
