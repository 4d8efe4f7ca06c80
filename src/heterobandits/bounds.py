"""What theory promises: G, the widths of the intervals, the regret bound and the lower bound.

The equations stand in `core/indices.py`; here they take arrays, are checked, and are put
together to the theorem's bound on the regret [eq:min_width_regret_bound].
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from heterobandits.core import indices
from heterobandits.errors import (
    DEFAULT_DELTA,
    MOST,
    MOST_ROUNDS,
    counts,
    fraction,
    sensitivities_from,
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


def log_term(
    policy: str, agents: int, arms: int, horizon: int, delta: float = DEFAULT_DELTA
) -> float:
    """The logarithm under the root of this policy's width, such as ln(2 N G(T, A) / delta)."""
    if policy not in indices.RULES[: indices.UCB + 1]:
        raise unknown("policy with a width", policy, indices.RULES[: indices.UCB + 1])
    horizon = whole_number(horizon, "horizon", 1, MOST_ROUNDS)
    agents = whole_number(agents, "agents", 1, MOST)
    arms = whole_number(arms, "arms", agents, MOST)
    delta = fraction(delta, "delta")
    assignments = float(math.perm(arms, agents)) if policy == "ucb" else 1.0
    rule = indices.RULES.index(policy)
    return float(indices.log_term(rule, float(horizon), agents, agents, arms, assignments, delta))


def widths(
    policy: str, pulls: Any, sensitivities: Any, horizon: int, delta: float = DEFAULT_DELTA
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
    s = np.array(sensitivities_from(sensitivities))
    c = counts(pulls, "pulls", len(s))
    agents, arms = c.shape
    L = log_term(policy, agents, arms, horizon, delta)
    rule = indices.MIN_WIDTH if policy == "min-width" else indices.NO_SHARING
    estimate = np.empty((1 if rule == indices.MIN_WIDTH else agents, arms, 1))
    width = np.empty_like(estimate)
    table = c[:, :, None]
    indices.fill_intervals(rule, s, table, table, L, estimate, width)
    return width[:, :, 0] if policy == "no-sharing" else width[:, :, 0].min(axis=0)


def regret_bound(problem: Problem, horizon: int, delta: float = DEFAULT_DELTA) -> float:
    """What Min-Width's regret after `horizon` rounds stays below with probability 1 - delta.

    The theorem's A (N - 1) + 2 sqrt(2 A N T ln(2 N G(T, A) / delta)) max S / min S
    [eq:min_width_regret_bound], for a planner that knows the sensitivities.
    """
    A, N = stated(problem).agents, problem.arms
    T = whole_number(horizon, "horizon", 1, MOST_ROUNDS)
    L = log_term("min-width", A, N, T, delta)
    spread = max(problem.sensitivities) / min(problem.sensitivities)
    return A * (N - 1) + 2.0 * math.sqrt(2 * A * N * T * L) * spread


def kl(p: float, q: float) -> float:
    """The Kullback-Leibler divergence of a Bernoulli(p) from a Bernoulli(q), in nats."""
    total = 0.0
    for x, y in ((p, q), (1.0 - p, 1.0 - q)):
        if x > 0.0:
            total += math.inf if y == 0.0 else x * math.log(x / y)
    return max(0.0, total)


def exploration_cost(problem: Problem, agent: int, arm: int) -> float:
    """What a round costs in which this agent visits this arm and the others stay at their best.

    The others move up, sorted, on the best arms that are left: equation (2) of docs/limits.md.
    """
    others = sorted((s for a, s in enumerate(problem.sensitivities) if a != agent), reverse=True)
    free = sorted((m for n, m in enumerate(problem.means) if n != arm), reverse=True)
    rest = sum(s * m for s, m in zip(others, free, strict=False))
    here = problem.sensitivities[agent] * problem.means[arm]
    return max(0.0, problem.expected_reward(problem.optimum) - here - rest)


def lower_bound(problem: Problem) -> float:
    """The least regret per ln T that any uniformly good policy must pay in the long run.

    The Graves-Lai constant of this structure, equation (3) of docs/limits.md: arms among the
    best A are seen for free, and each other arm n is explored by the agent for whom that is
    cheapest, cost / kl(s mu_n, s mu_(A)). Zero if there are as many agents as arms.

    Examples
    --------
    One agent with sensitivity 1 has the constant of Lai and Robbins:

    >>> round(lower_bound(Problem([0.5, 0.25], [1.0])), 6)
    1.911139
    >>> round(0.25 / kl(0.25, 0.5), 6)
    1.911139
    """
    stated(problem)
    threshold = sorted(problem.means, reverse=True)[problem.agents - 1]
    constant = 0.0
    for arm, mean in enumerate(problem.means):
        if mean >= threshold:
            continue
        constant += min(
            exploration_cost(problem, agent, arm) / kl(s * mean, s * threshold)
            for agent, s in enumerate(problem.sensitivities)
        )
    return constant
