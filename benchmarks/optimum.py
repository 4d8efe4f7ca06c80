"""How far from the best possible: the exact Bayes regret of policies over that of the Bayes-optimal one, in tiny worlds.

    python benchmarks/optimum.py [PROBLEMS]

Prints the table of docs/limits.md. What cannot be computed is simulated, on so many problems of drawn means with eight trials each, beside `season` on
the same luck, whose regret is known: ± 2 standard errors.
"""

import sys
import time

import numpy as np

from heterobandits import Problem, simulate
from heterobandits.inference.bayes_optimum import is_computable
from heterobandits.inference.bounds import bayes_optimal, bayes_regret
from heterobandits.policies.policy import CATALOGUE

WORLDS = [([0.7], 2, 15), ([0.7], 2, 40), ([0.7], 3, 14), ([0.7], 3, 20), ([0.9, 0.4], 2, 8), ([0.9, 0.4], 2, 12), ([0.9, 0.3], 3, 5)]  # fmt: skip
NAMES = [name for name, entry in CATALOGUE.items() if is_computable(entry)]
DRAWING = [
    name
    for name, entry in CATALOGUE.items()
    if not (is_computable(entry) or entry.needs_means or entry.forgets)
]
problems = int(sys.argv[1]) if len(sys.argv) > 1 else 4000


def simulated(s: list[float], arms: int, horizon: int, optimum: float) -> list[str]:
    """The regret of those that draw, over the optimum's."""
    random = np.random.default_rng(1)
    known = bayes_regret("season", s, arms, horizon).regret
    more = np.empty((problems, len(DRAWING)))
    for k in range(problems):
        problem = Problem(random.random(arms), s)
        run = simulate(problem, ["season", *DRAWING], horizon, 8, seed=k, checkpoints=1, threads=1)
        mean = np.array([run.mean(name)[-1] for name in run.policies])
        more[k] = mean[1:] - mean[0]
    ratio = (known + more.mean(axis=0)) / optimum
    reach = 2 * more.std(axis=0, ddof=1) / problems**0.5 / optimum
    return [f"{x:.3f} ± {y:.3f}" for x, y in zip(ratio, reach, strict=True)]


columns, head = [], []
for s, arms, horizon in WORLDS:
    begin = time.perf_counter()
    best = bayes_optimal(s, arms, horizon)
    head.append(f"{', '.join(map(str, s))}; {arms} arms, T = {horizon}")
    columns.append(
        [f"{best.regret:.4f}", f"{best.states:,}"]
        + [f"{bayes_regret(name, s, arms, horizon).regret / best.regret:.3f}" for name in NAMES]
        + simulated(s, arms, horizon, best.regret)
    )
    print(f"# {head[-1]}: {time.perf_counter() - begin:.0f} s", flush=True)
print(f"| agents; world | {' | '.join(head)} |\n| --- | {' | '.join('---:' for _ in WORLDS)} |")
for label, *cells in zip(
    ["the optimum's regret", "tables", *(f"`{name}`" for name in (*NAMES, *DRAWING))],
    *columns,
    strict=True,
):
    print(f"| {label} | {' | '.join(cells)} |")
