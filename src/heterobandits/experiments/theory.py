"""The paper's theory, checked by numbers: coverage of the bounds, G's closed form, the lemma."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from heterobandits.inference.bounds import ln_G
from heterobandits.model.problem import Problem
from heterobandits.policies.policy import policy
from heterobandits.simulation.coverage import BAND_POLICIES, Coverage, coverage
from heterobandits.simulation.engine import Learning, PolicyWorld

COVERAGE_TRIALS = 10_000
COVERAGE_HORIZON_ROUNDS = 300


@dataclass(frozen=True)
class TheoryCheck:
    """What was found in one domain."""

    coverage: Coverage
    error_of_ln_g: float  # the largest, against the sum of binomials
    lemma_share: float  # the lemma's sum over its bound, the larger of simulated and worst case


@lru_cache(maxsize=8)
def check_theory(problem: Problem, horizon: int, trials: int, seed: int) -> TheoryCheck:
    """Coverage, closed form and lemma on one domain, over the first rounds of its figure."""
    horizon = min(horizon, COVERAGE_HORIZON_ROUNDS)
    study = coverage(problem, horizon, trials, seed, watched=BAND_POLICIES)
    counted = (
        (t, sum(math.comb(i + problem.agents - 1, problem.agents - 1) for i in range(1, t + 1)))
        for t in (1, 2, 3, 10, 100, horizon)
    )
    error = max(abs(ln_G(t, problem.agents) - math.log(G)) for t, G in counted)
    learning = Learning(PolicyWorld(problem, policy("min-width")), seed, 0, 256)
    learning.advance(horizon)
    simulated = learning.pulls.sum(axis=0).T
    even = np.full((1, problem.arms), problem.agents * horizon / problem.arms)
    bound = 2 * math.sqrt(problem.agents * problem.arms * horizon)
    share = max(lemma_sum(pulls) / bound for pulls in (*simulated, *np.ceil(even)))
    return TheoryCheck(study, error, share)


def lemma_sum(pulls: np.ndarray) -> float:
    """The lemma's sum of 1/sqrt(c) over all pulls: for each arm 1 + 1/sqrt(2) + ... + 1/sqrt(c)."""
    roots = np.concatenate(([0.0], np.cumsum(1 / np.sqrt(np.arange(1, int(pulls.max()) + 1)))))
    return float(roots[pulls.astype(int)].sum())
