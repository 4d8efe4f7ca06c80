"""A small run of three policies, what in it is a number, and a run in parts."""

import numpy as np

from heterobandits import Problem, simulate
from heterobandits.simulation import engine

PROBLEM = Problem(
    [0.9, 0.2, 0.6],
    [0.5, 0.8],
    arm_names=["Ebene 1", "日本", 'a "quoted", one'],
    agent_names=["Ann", "Bo"],
)
NAMES = ("min-width", "cucb", "random")


def run(trials=40, keep="all", policies=NAMES, **options):
    return simulate(PROBLEM, policies, 30, trials, seed=7, keep=keep, checkpoints=4, **options)


def bits(results):
    """Everything in results that is a number, but for the time it took."""
    numbers = [results.spans, results.sums.tolist(), results.products.tolist(), results.partial]
    for label in results.policies:
        numbers += [results.mean(label).tobytes(), results.se(label).tobytes()]
        numbers += [d.tobytes() for d in results.difference(label, results.policies[0])]
    if results.kept is not None:
        numbers += [results.kept_rounds, results.kept.tobytes()]
    return numbers


def assert_parts_are_the_whole(monkeypatch, problem, policies, horizon, trials):
    """Threads, blocks, shards and calls of few rounds change no bit of what is kept of a run."""

    def kept(which=trials, **options):
        return simulate(problem, policies, horizon, which, seed=2, keep="all", **options)

    whole = kept(threads=1).kept
    assert np.array_equal(kept(threads=2, block=7).kept, whole)
    cut = trials // 3
    assert np.array_equal(kept(range(cut)).merge(kept(range(cut, trials))).kept, whole)
    monkeypatch.setattr(engine, "KERNEL_CALL_MAX_ROUNDS", 6)
    assert np.array_equal(kept().kept, whole)
