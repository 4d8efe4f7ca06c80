"""How far from the best possible: the exact Bayes regret of policies over that of the Bayes-optimal one, in tiny worlds.

    python benchmarks/optimum.py

Prints the table of docs/limits.md. `thompson` and its kin draw means, and are left out.
"""

import time

from heterobandits.bounds import bayes_optimal, bayes_regret
from heterobandits.optimum import is_computable
from heterobandits.policies import CATALOGUE

WORLDS = [([0.7], 2, 15), ([0.7], 2, 40), ([0.7], 3, 14), ([0.7], 3, 20), ([0.9, 0.4], 2, 8), ([0.9, 0.4], 2, 12), ([0.9, 0.3], 3, 5)]  # fmt: skip
NAMES = [name for name, entry in CATALOGUE.items() if is_computable(entry)]

columns, head = [], []
for s, arms, horizon in WORLDS:
    begin = time.perf_counter()
    best = bayes_optimal(s, arms, horizon)
    head.append(f"{', '.join(map(str, s))}; {arms} arms, T = {horizon}")
    columns.append(
        [f"{best.regret:.4f}", f"{best.states:,}"]
        + [f"{bayes_regret(name, s, arms, horizon).regret / best.regret:.3f}" for name in NAMES]
    )
    print(f"# {head[-1]}: {time.perf_counter() - begin:.0f} s", flush=True)
print(f"| agents; world | {' | '.join(head)} |\n| --- | {' | '.join('---:' for _ in WORLDS)} |")
for label, *cells in zip(
    ["the optimum's regret", "tables", *(f"`{name}`" for name in NAMES)], *columns, strict=True
):
    print(f"| {label} | {' | '.join(cells)} |")
