"""What theory promises: G, the widths of the intervals and the regret bound, as numbers.

The equations stand in `core/indices.py`; here they take arrays, are checked, and are put
together to the theorem's bound on the regret [eq:min_width_regret_bound].
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from heterobandits.core import indices
from heterobandits.errors import (
    MOST,
    MOST_ROUNDS,
    counts,
    fraction,
    probabilities,
    unknown,
    whole_number,
)
from heterobandits.problem import Problem, stated

Floats = npt.NDArray[np.float64]

WITH_WIDTHS = ("min-width", "min-ucb", "no-sharing")


def ln_G(horizon: int, agents: int) -> float:
    """ln G(T, A), the logarithm of the number of ways in which A agents can have pulled an arm.

    Examples
    --------
    G(3, 2) = C(5, 2) - 1 = 9:

    >>> round(math.exp(ln_G(3, 2)), 12)
    9.0
    """
    horizon = whole_number(horizon, "horizon", 1, MOST_ROUNDS)
    agents = whole_number(agents, "agents", 1, MOST)
    return float(indices.ln_G(float(horizon), agents))


def log_term(policy: str, agents: int, arms: int, horizon: int, delta: float = 0.05) -> float:
    """The logarithm under the root of this policy's width, such as ln(2 N G(T, A) / delta)."""
    if policy not in indices.RULES[: indices.UCB + 1]:
        raise unknown("policy with a width", policy, indices.RULES[: indices.UCB + 1])
    horizon = whole_number(horizon, "horizon", 1, MOST_ROUNDS)
    agents = whole_number(agents, "agents", 1, MOST)
    arms = whole_number(arms, "arms", agents, MOST)
    delta = fraction(delta, "delta")
    assignments = float(math.perm(arms, agents)) if policy == "ucb" else 1.0
    rule = indices.RULES.index(policy)
    return float(indices.log_term(rule, float(horizon), agents, arms, assignments, delta))


def widths(
    policy: str, pulls: Any, sensitivities: Any, horizon: int, delta: float = 0.05
) -> Floats:
    """Half the widths of the intervals around the estimates, infinite where nothing was pulled.

    Parameters
    ----------
    policy
        "min-width", one width for each arm [eq:epsilon_t,n]; "no-sharing", one for each agent
        and arm [eq:epsilon_t,a,n]; "min-ucb", for each arm the narrowest of its agents'.
    pulls
        Table of pulls, shape (agents, arms).
    """
    if policy not in WITH_WIDTHS:
        raise unknown("policy with a width", policy, WITH_WIDTHS)
    s = np.array(probabilities(sensitivities, "sensitivities", "sensitivity", zero=False))
    c = counts(pulls, "pulls", len(s))
    agents, arms = c.shape
    L = log_term(policy, agents, arms, horizon, delta)
    rule = indices.MIN_WIDTH if policy == "min-width" else indices.NO_SHARING
    estimate = np.empty((1 if rule == indices.MIN_WIDTH else agents, arms, 1))
    width = np.empty_like(estimate)
    table = c[:, :, None]
    indices.fill_intervals(rule, s, table, table, L, estimate, width)
    return width[:, :, 0] if policy == "no-sharing" else width[:, :, 0].min(axis=0)


def regret_bound(problem: Problem, horizon: int, delta: float = 0.05) -> float:
    """What Min-Width's regret after `horizon` rounds stays below with probability 1 - delta.

    The theorem's A (N - 1) + 2 sqrt(2 A N T ln(2 N G(T, A) / delta)) max S / min S
    [eq:min_width_regret_bound], for a planner that knows the sensitivities.
    """
    A, N = stated(problem).agents, problem.arms
    T = whole_number(horizon, "horizon", 1, MOST_ROUNDS)
    L = log_term("min-width", A, N, T, delta)
    spread = max(problem.sensitivities) / min(problem.sensitivities)
    return A * (N - 1) + 2.0 * math.sqrt(2 * A * N * T * L) * spread
