"""COVID tests whose sensitivities are only calibrated: plugged in, or carried along.

    python benchmarks/calibration.py [DRAWS [TRIALS]]

Prints the tables of docs/model.md: regret at the end of the paper's 300 rounds, the share of seasons in which an interval for a
mean fails in any tenth round, and the mean width of these intervals at the end. Every season has a calibration of its own, so many
tests for each agent. The planner knows what is stated (the paper's cases: over, under, mix), or the calibration, or both.
"""

import sys

import numpy as np

from heterobandits import Problem
from heterobandits.engine import Learning, World
from heterobandits.experiments.domains import domain
from heterobandits.intervals import Posteriors, Profiles, mean_threshold
from heterobandits.policies import policy
from heterobandits.ranges import DEFAULT_DELTA as DELTA

SIZES = (10, 20, 50, 200)
EVERY = 10
draws = int(sys.argv[1]) if len(sys.argv) > 1 else 100
trials = int(sys.argv[2]) if len(sys.argv) > 2 else 32
covid = domain("covid")
TRUTH = covid.problem
STATED = {case: domain(f"covid-{case}").problem.believed for case in ("over", "under", "mix")}


def season(problem: Problem, name: str, seed: int) -> tuple[float, float, float]:
    """Mean regret, the share of trials in which an interval failed, and the mean width at the end."""
    learning = Learning(World(problem, policy(name)), seed, 0, trials)
    team, means = problem.team, np.repeat(problem.means, trials)
    failed = np.zeros(trials, bool)
    share = DELTA / 2 if team.is_calibrated else DELTA
    for _ in range(0, covid.horizon, EVERY):
        learning.advance(EVERY)
        c, y = (table.reshape(len(team), -1) for table in (learning.pulls, learning.successes))
        known = Profiles.of(team, c, y, DELTA) if team.is_calibrated else Posteriors.of(team, c, y)
        excess = known.log_evidence - known.log_likelihood(means)
        over = excess > mean_threshold(problem.arms, share)
        failed |= over.reshape(problem.arms, trials).any(axis=0)
    lower, upper = known.ends(mean_threshold(problem.arms, share))
    return float(learning.regrets().mean()), float(failed.mean()), float((upper - lower).mean())


def problem_of(kind: str, found: list[int], of: int) -> tuple[Problem, str]:
    """The problem as this planner sees it, and its policy."""
    trial = [(k, of) for k in found]
    how, _, case = kind.partition(", ")
    arguments: dict[str, object] = {}
    if how == "stated":
        arguments["believed"] = STATED[case]
    elif how == "plugged in":
        arguments["believed"] = [(k + 1) / (of + 2) for k in found]
    else:
        arguments = {"calibration": trial, "believed": STATED.get(case)}
    name = "calibrated-sorted" if how == "calibrated" else "posterior-sorted"
    return Problem(TRUTH.means, TRUTH.sensitivities, **arguments), name  # type: ignore[arg-type]


KINDS = (
    "plugged in",
    "calibrated",
    *(f"calibrated, {c}" for c in STATED),
    *(f"stated, {c}" for c in STATED),
)
table = {}
for of in SIZES:
    random = np.random.default_rng(of)
    for draw in range(draws):
        found = random.binomial(of, TRUTH.sensitivities).tolist()
        for kind in KINDS:
            row = season(*problem_of(kind, found, of), seed=draw)
            table.setdefault((kind, of), []).append(row)
print(f"| tests for each agent | {' | '.join(map(str, SIZES))} |")
print(f"| --- | {' | '.join('---:' for _ in SIZES)} |")
for kind in KINDS:
    cells = []
    for of in SIZES:
        rows = np.array(table[kind, of])
        regret, failed, width = rows.mean(axis=0)
        error = 2 * rows[:, 0].std(ddof=1) / len(rows) ** 0.5
        cells.append(f"{regret:.1f} ± {error:.1f}, {100 * failed:.1f} %, {width:.2f}")
    print(f"| {kind} | {' | '.join(cells)} |")
