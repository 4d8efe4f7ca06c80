"""Do the intervals keep their promise, and how wide are they? All policies on the paper's 36 settings.

For every policy and setting: the share of trials in which an interval of any arm, or a statement about
the order of two arms, was wrong in any round, which must be at most delta; and the mean width of the
intervals of each method after the last round. Some minutes on two cores:

    python benchmarks/coverage_study.py --trials 1000 --rounds 300

The last figures stand in docs/beyond.md.
"""

import argparse
import math
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from heterobandits import CATALOGUE, coverage, policy
from heterobandits.experiments.catalogue import SYNTHETIC
from heterobandits.inference.intervals import INTERVAL_METHODS, mean_intervals
from heterobandits.simulation.engine import Learning, PolicyWorld

DELTA = 0.05
WATCHED = ("posterior-ratio", "mixture-width", "min-width", "ranking")
WIDTH_TRIALS = 50


def study(job):
    """One policy on one setting: the shares of broken promises and the mean widths."""
    name, setting, trials, rounds, seed = job
    problem = SYNTHETIC[setting].problem
    found = coverage(problem, rounds, trials, seed, policy=name, delta=DELTA, watched=WATCHED)
    world = PolicyWorld(problem, policy(name))
    learning = Learning(world, seed, 0, WIDTH_TRIALS)
    learning.advance(rounds)
    widths = dict.fromkeys(INTERVAL_METHODS, 0.0)
    sensitivities = world.team.sensitivities
    for trial in range(WIDTH_TRIALS):
        counts = (learning.pulls[..., trial], learning.successes[..., trial])
        for method in INTERVAL_METHODS:
            horizon = rounds if method == "min-width" else None
            known = mean_intervals(
                *counts, sensitivities, method=method, delta=DELTA, horizon=horizon
            )
            widths[method] += float((known.upper - known.lower).mean()) / WIDTH_TRIALS
    return name, setting, found.failed, widths


def main():
    """Print the largest share over the settings for each policy, and the widths."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    jobs = [
        (name, setting, given.trials, given.rounds, given.seed)
        for name in CATALOGUE
        for setting in range(len(SYNTHETIC))
    ]
    shares = defaultdict(list)
    widths = defaultdict(list)
    with ProcessPoolExecutor() as workers:
        for name, _, broken, wide in workers.map(study, jobs, chunksize=4):
            for method in WATCHED:
                shares[name, method].append(broken[method])
            for method in INTERVAL_METHODS:
                widths[method].append(wide[method])
    allowed = DELTA + 5 * math.sqrt(DELTA * (1 - DELTA) / given.trials)
    print(f"largest share of {given.trials} trials over 36 settings, {given.rounds} rounds")
    print(f"{'policy':24}" + "".join(f"{method:>18}" for method in WATCHED))
    for name in CATALOGUE:
        print(f"{name:24}" + "".join(f"{max(shares[name, m]):18.4f}" for m in WATCHED))
    print(f"allowed {DELTA}; with five standard errors {allowed:.4f}")
    base = np.array(widths["min-width"])
    for method in INTERVAL_METHODS:
        ratio = np.array(widths[method]) / base
        print(
            f"width of {method}: {np.mean(widths[method]):.3f}, {np.median(ratio):.2f} of min-width's"
        )
    if any(max(values) > allowed for values in shares.values()):
        raise SystemExit("a promise is broken more often than it may be")


if __name__ == "__main__":
    main()
