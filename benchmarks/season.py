"""A season whose end is known: the policy `season` beside `posterior-sorted`, on random problems of two sets.

    python benchmarks/season.py [PROBLEMS [TRIALS [HORIZON ...]]]

The power of the logarithm in docs/beyond.md (12) is looked at on the first set, and the one chosen is judged on the second: the regret of
`season` over that of `posterior-sorted`, geometric mean over the problems, the worst of them (its ratio and 99 % interval), and the ratio of the 95 %
quantiles over trials.
"""

import math
import sys

import numpy as np

from heterobandits import Problem, simulate
from heterobandits.core import indices
from heterobandits.simulation.engine import log_terms_of_rounds

problems = int(sys.argv[1]) if len(sys.argv) > 1 else 40
trials = int(sys.argv[2]) if len(sys.argv) > 2 else 96
horizons = [int(x) for x in sys.argv[3:]] or [50, 200, 2000]
POWERS = (0.0, 1.0, 1.25, 1.5)
OTHER = "posterior-sorted"


def drawn(seed: int) -> list[Problem]:
    """Random problems: 1 to 10 agents, up to 20 arms, means and sensitivities uniform."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(problems):
        agents = int(random.integers(1, 11))
        arms = int(random.integers(agents + 1, 21))
        found.append(Problem(random.random(arms), 0.05 + 0.95 * random.random(agents)))
    return found


def judged(some: list[Problem], horizon: int, power: float, seed: int) -> str:
    """The figures of one power."""
    indices.SEASON_POWER = power
    log_terms_of_rounds.cache_clear()
    logs, quantiles, worst = [], [], (0.0, "")
    for problem in some:
        results = simulate(problem, ["season", OTHER], horizon, trials, seed, keep="final")
        ratio = results.ratio("season", OTHER, level=0.99)
        value, low, high = (float(x[-1]) for x in ratio[1:])
        logs.append(math.log(value))
        worst = max(worst, (value, f"{value:.2f} [{low:.2f}, {high:.2f}]"))
        ends = [results.quantiles(name, [0.95])[0, 0] for name in ("season", OTHER)]
        quantiles.append(math.log(max(ends[0], 1e-9) / max(ends[1], 1e-9)))
    mean = math.exp(np.mean(logs))
    error = mean * np.std(logs, ddof=1) / len(logs) ** 0.5
    return f"{mean:.3f} ± {2 * error:.3f}; {worst[1]}; {math.exp(np.mean(quantiles)):.2f}"


for title, seed, powers in (("tuning", 1, POWERS), ("judging", 2, (1.25,))):
    some = drawn(seed)
    print(f"\n{title}: {len(some)} problems, {trials} trials\n")
    print(f"| power | {' | '.join(f'T = {t:,}' for t in horizons)} |")
    print(f"| --- | {' | '.join('---' for _ in horizons)} |", flush=True)
    for power in powers:
        cells = [judged(some, t, power, seed) for t in horizons]
        print(f"| {power} | {' | '.join(cells)} |", flush=True)
