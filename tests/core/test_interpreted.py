"""The core runs interpreted as well, and gives the same bits: so it reads and writes where it may and nowhere else.

Numba's kernels do not look whether an index is inside of an array; NumPy does. The same file is run twice: by
pytest, compiled, and as a script with NUMBA_DISABLE_JIT=1.
"""

import json
import os
import subprocess
import sys
from itertools import product

import numba
import numpy as np
import pytest

from false_alarms import Reporting
from heterobandits import CATALOGUE, Planner, Policy, Problem, simulate
from heterobandits.core.work import STRIP
from heterobandits.inference.intervals import INTERVAL_METHODS, mean_intervals, ranking
from heterobandits.policies.policy import parse_policies, policy
from heterobandits.simulation.engine import Learning, PolicyWorld, has_compiled_kernels
from test_posterior import Lanes, index_rows

ROUNDS, TRIALS, SEED = 8, 2, 7
PROBLEMS = {
    "1 x 2": Problem([0.3, 0.6], [0.8]),
    "2 x 3, believed otherwise": Problem([0.2, 0.5, 0.9], [0.5, 0.9], believed=[0.7, 0.6]),
    "3 x 3 with ties": Problem([0.1, 0.6, 0.6], [0.7, 0.9, 0.7]),
    "3 x 4, nothing and always": Problem([0.0, 1.0, 0.5, 0.5], [1.0, 0.4, 1.0]),
}
PLANNED = [name for name, entry in CATALOGUE.items() if not entry.simulated_only]
SHARED = ["min-width", "min-ucb", "cucb", "mixture-width", "greedy"]  # a row for all, by strips
HISTORIES = [  # pulls and successes of two arms by three agents: few, many, none, all
    ([[3, 0], [2, 0], [9, 1]], [[1, 0], [2, 0], [0, 1]]),
    ([[400, 10**6], [0, 3], [50, 10**6]], [[20, 999_999], [0, 3], [50, 10]]),
    ([[40, 12], [40, 7], [40, 1]], [[40, 0], [40, 0], [40, 0]]),
]


def optimism(known):
    """An index of one's own, with random words of its own."""
    s = known.team.slope[:, None, None]
    information = 1.0 + (s**2 * known.pulls).sum(axis=0)
    weighted = (s * known.successes).sum(axis=0)
    index = weighted / information + np.sqrt(np.log(1 / known.delta) / information)
    return index + 0.01 * known.uniforms(len(index))


def for_each(known):
    """The same for each agent alone."""
    return (known.successes + 1) / (known.team.slope[:, None, None] * (known.pulls + 1))


OWN = [
    Policy("optimism", index=optimism),
    Policy("random optimism", index=optimism, first="random"),
    Policy("for each", index=for_each, index_per="agent"),
]


def lossless(values):
    """Numbers as text that loses no bit."""
    array = np.asarray(values)
    if array.dtype == np.float64:
        return [float(x).hex() for x in array.ravel()]
    return array.ravel().tolist()


def played(problem):
    """Regrets of many policies on the same luck, after every round."""
    entries = [*CATALOGUE, *OWN]
    results = simulate(
        problem, entries, ROUNDS, TRIALS, SEED, keep="all", checkpoints=ROUNDS, threads=1
    )
    labels = [policy(entry).label for entry in entries]
    return {label: lossless(results.kept[i]) for i, label in enumerate(labels)}


def round_by_round(problem, entry):
    """What was sent and seen, and the indices it was sent by."""
    learning = Learning(PolicyWorld(problem, policy(entry)), SEED, 0, TRIALS)
    rounds = {"sent": [], "index": [], "successes": []}
    for _ in range(ROUNDS):
        learning.advance(1)
        rounds["sent"].append(lossless(learning.block.sent))
        if not learning.world.filtered:  # where only decisions are exact
            rounds["index"].append(lossless(learning.block.index))
        rounds["successes"].append(lossless(learning.successes))
    return rounds


def filtered(name):
    """So many rounds that a filter lays its nodes anew: an arm has more than 62 pulls."""
    learning = Learning(PolicyWorld(PROBLEMS["1 x 2"], policy(name).until(90)), SEED, 0, 2)
    learning.advance(90)
    assert learning.pulls.max() > 62
    return [lossless(learning.pulls), lossless(learning.successes)]


def planned(name):
    """Some plans, by a planner who learns, and what it says of them."""
    planner = Planner([0.5, 0.9, 0.5], ["a", "b", "c", "d"], name, seed=3)
    said = []
    for r in range(4):
        plan = planner.ask(closed=["b"] if r == 2 else [], absent=[0] if r == 3 else [])
        told = [None if n is None else (n + r) % 3 == 0 for n in plan.assignment]
        reasons = [(str(one), one.index.hex()) for one in planner.explain(plan)]
        said.append([plan.assignment, [lossless(row) for row in plan.index], reasons])
        planner.tell(plan, [None if x is None else int(x) for x in told])
    return said


def checked_problem():
    """Intervals and rankings, of few outcomes and of many."""
    said = []
    for pulls, successes in HISTORIES:
        for method in INTERVAL_METHODS:
            horizon = 10**7 if method == "min-width" else None
            tables = (pulls, successes, [0.5, 1.0, 0.5])
            made = mean_intervals(*tables, method=method, horizon=horizon)
            said.append([lossless(part) for part in made])
        said.append([lossless(part) for part in ranking(pulls, successes, [0.5, 1.0, 0.5])])
    return said


def with_false_alarms():
    """Every rule that knows of them, for as many kinds as there are agents: most room is needed then."""
    team = Reporting([0.5, 0.8, 0.3], [0.4, 0.1, 0.0])
    said = {}
    for (i, tables), name in product(enumerate(HISTORIES), CATALOGUE):
        if policy(name).index_per != "assignment":
            c, y = (np.array(table, np.int32)[..., None].repeat(2, axis=2) for table in tables)
            keys = np.arange(8, dtype=np.uint32).reshape(4, 2)
            said[f"{name} {i}"] = lossless(index_rows(name, team, c, y, 3.7, keys))
    for i, (c, y) in enumerate(HISTORIES):
        lanes = Lanes.of_many(team, c, y)
        parts = [lanes.peak, *lanes.posterior(), *lanes.ends(2.0), *lanes.bound()]
        said[f"posterior {i}"] = lossless(parts)
    return said


def in_strips():
    """Rows longer than what is worked on at a time."""
    rng = np.random.default_rng(1)
    c = rng.integers(0, 5, (3, 1, STRIP + 1)).astype(np.int32)
    y = rng.binomial(c, 0.3).astype(np.int32)
    return {name: lossless(index_rows(name, [0.5, 0.9, 0.5], c, y, 3.7)) for name in SHARED}


def everything():
    """All of it, in lists, texts and whole numbers."""
    said = {
        "compiled": not numba.config.DISABLE_JIT,
        "ready": has_compiled_kernels(parse_policies(list(CATALOGUE))),
        "intervals": checked_problem(),
        "false alarms": with_false_alarms(),
        "strips": in_strips(),
    }
    for title, problem in PROBLEMS.items():
        said[f"regret {title}"] = played(problem)
        for entry in (*CATALOGUE, *OWN):
            said[f"rounds {title} {policy(entry).label}"] = round_by_round(problem, entry)
    for name in PLANNED:
        said[f"plans {name}"] = planned(name)
    for name in ("posterior-sorted", "season"):
        said[f"filtered {name}"] = filtered(name)
    return json.loads(json.dumps(said))


@pytest.fixture(scope="module")
def both():
    """What the compiled and the interpreted core say; a warning is an error there as here."""
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return everything(), json.loads(done.stdout)


@pytest.mark.slow
def test_one_was_compiled_and_the_other_not(both):
    compiled, interpreted = both
    assert compiled["compiled"]
    assert not interpreted["compiled"]
    assert interpreted["ready"]  # there is nothing to compile


def test_both_say_the_same_to_the_bit(both):
    """exp and ln are the core's own, of IEEE arithmetic alone, and all else is that or the C library's."""
    compiled, interpreted = both
    assert compiled.keys() == interpreted.keys()
    apart = {part for part in compiled if compiled[part] != interpreted[part]}
    assert apart <= {"compiled", "ready"}


if __name__ == "__main__":
    json.dump(everything(), sys.stdout)
