"""What theory promises: G, the widths of the intervals, the regret bound and the lower bound.

The equations stand in `core/indices.py`; here they take arrays, are checked, and are put
together to the theorem's bound on the regret [eq:min_width_regret_bound].
"""

import math
from typing import Any

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.core import indices
from heterobandits.errors import (
    InvalidInput,
    parse_counts,
    parse_delta,
    parse_integer,
    parse_probabilities,
    unknown_name,
)
from heterobandits.inference.bayes_optimum import bayes_optimal, bayes_regret
from heterobandits.limits import COUNT_MAX, DEFAULT_DELTA, HORIZON_MAX_ROUNDS
from heterobandits.model.problem import Problem, parse_problem
from heterobandits.model.team import Team
from heterobandits.policies.catalogue import PAPER
from heterobandits.policies.policy import CATALOGUE
from heterobandits.policies.policy import policy as catalogued

__all__ = [
    "bayes_optimal",
    "bayes_regret",
    "kl",
    "ln_G",
    "log_term",
    "lower_bound",
    "regret_bound",
    "widths",
]

LAG_SERIES_LIMIT = 0.05  # below, the first twelve terms of a series are as good as all
LAG_SERIES = [*((-1) ** (k + 1) / (k + 1) for k in range(12, 0, -1)), 0.0]  # x/2 - x^2/3 + ...
POLICIES_WITH_WIDTHS = tuple(name for name in PAPER if CATALOGUE[name].has_band)


def ln_G(horizon: int, agents: int) -> float:
    """ln G(T, A), the logarithm of the number of ways in which A agents can have pulled an arm.

    Examples
    --------
    G(3, 2) = C(5, 2) - 1 = 9:

    >>> round(math.exp(ln_G(3, 2)), 12)
    9.0
    """
    horizon = parse_integer(horizon, "horizon", 1, HORIZON_MAX_ROUNDS)
    agents = parse_integer(agents, "agents", 1, COUNT_MAX)
    return float(indices.ln_G(np.array([float(horizon)]), agents)[0])


def log_term(
    policy: str, agents: int, arms: int, horizon: int, delta: float = DEFAULT_DELTA
) -> float:
    """The logarithm under the root of this policy's width, such as ln(2 N G(T, A) / delta)."""
    if not isinstance(policy, str) or policy not in PAPER:
        raise unknown_name("policy with a width", policy, PAPER)
    horizon = parse_integer(horizon, "horizon", 1, HORIZON_MAX_ROUNDS)
    agents = parse_integer(agents, "agents", 1, COUNT_MAX)
    arms = parse_integer(arms, "arms", agents, COUNT_MAX)
    rule = CATALOGUE[policy].rule
    assert rule is not None
    size = indices.Size(agents, agents, arms)
    (L,) = rule.log_terms(np.array([float(horizon)]), size, parse_delta(delta))
    return float(L)


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
    sensitivities
        Of the agents, as believed; or a `Team`, which may give false alarms.
    """
    if not isinstance(policy, str) or policy not in POLICIES_WITH_WIDTHS:
        raise unknown_name("policy with a width", policy, POLICIES_WITH_WIDTHS)
    team = Team.of(sensitivities)
    c = parse_counts(pulls, "pulls", len(team))[:, :, None]
    parse_integer(c.shape[1], "the number of arms", len(team))
    horizon = parse_integer(horizon, "horizon", 1, HORIZON_MAX_ROUNDS)
    _, width = catalogued(policy, delta, horizon).band(team, c, c)
    return width[:, :, 0] if policy == "no-sharing" else width[:, :, 0].min(axis=0)


def regret_bound(problem: Problem, horizon: int, delta: float = DEFAULT_DELTA) -> float:
    """What Min-Width's regret after `horizon` rounds stays below with probability 1 - delta.

    The theorem's A (N - 1) + 2 sqrt(2 A N T ln(2 N G(T, A) / delta)) max S / min S
    [eq:min_width_regret_bound], with the least slope s - phi in place of min S if there are false alarms
    docs/model.md (5), and for several tests in a visit as in docs/model.md (7); for a policy with this horizon
    and a planner that knows the agents: infinite if what it believes of them is not true, or if the means change.
    `policies.NEEDS` says what else it needs.
    """
    A, N = parse_problem(problem).agents, problem.arms
    T = parse_integer(horizon, "horizon", 1, HORIZON_MAX_ROUNDS)
    tests = problem.tests
    L = log_term("min-width", A, N, T * max(tests), delta)
    if not problem.is_believed or problem.drift is not None:
        return math.inf
    spread = max(problem.sensitivities) / float(min(problem.team.slope))
    return max(tests) * (A * (N - 1) + 2.0 * math.sqrt(2 * A * N * T * L / min(tests)) * spread)


def logarithm_lag(p: Any, q: Any, d: Any) -> Floats:
    """1 - ln(q/p) / (d/p), with d = q - p: how far the logarithm lags behind its argument.

    It has the sign of d and vanishes with it; by its series where the two nearly cancel.
    """
    x = d / p
    close = abs(x) < LAG_SERIES_LIMIT
    plain = np.where(np.isinf(x), 1.0, 1.0 - np.log(q / p) / x)
    return np.where(close, np.polyval(LAG_SERIES, np.where(close, x, 0.0)), plain)


def kl(p: float, q: float) -> float:
    """The Kullback-Leibler divergence of a Bernoulli(p) from a Bernoulli(q), in nats.

    p ln(p/q) + (1-p) ln((1-p)/(1-q)), put together from two parts of the same sign, so that it is
    right to the last digits for a close p and q too.
    """
    (p, q) = (np.float64(x) for x in parse_probabilities([p, q], "(p, q)", "chance", "[0, 1]"))
    d = q - p
    with np.errstate(all="ignore"):
        return (
            float(d * (logarithm_lag(p, q, d) - logarithm_lag(1.0 - p, 1.0 - q, -d))) if d else 0.0
        )


def lower_bound(problem: Problem) -> float:
    """The least regret per ln T that any uniformly good policy must pay in the long run.

    The bound of Lagrée, Vernade and Cappé (2016) for the position-based model, here with false positives and several
    tests as well, equation (3) of docs/limits.md. Arms among the best A are seen for free, and each other arm n is
    explored by the agent for whom that is cheapest, cost / kl(p(mu_n), p(mu_A)), p(mu) = phi + (s - phi) mu being how often it reports 1. Zero if
    there are as many agents as arms, or if even the least of the best A has a mean of 1. It does not depend on what the
    planner believes. There is none where the means change.

    Examples
    --------
    One agent with sensitivity 1 has the constant of Lai and Robbins:

    >>> round(lower_bound(Problem([0.5, 0.25], [1.0])), 6)
    1.911139
    >>> round(0.25 / kl(0.25, 0.5), 6)
    1.911139
    """
    A = parse_problem(problem).agents
    if problem.drift is not None:
        raise InvalidInput(
            "the means of this problem change: the lower bound is of means that stand still"
        )
    team = problem.true_team
    mu = np.sort(problem.means)[::-1]
    worth, slope, offset = (x[team.order] for x in (team.worth, team.slope, team.offset))
    informative = slope * np.array(team.tests)[team.order]
    least = mu[A - 1]
    mu_n = mu[mu < least]
    if least == 1.0 or not len(mu_n):
        return 0.0
    # What the others lose by moving up, the last part of (2): agent by agent, from the least sensitive on.
    detour = np.append(np.cumsum((-np.diff(worth) * (mu[: A - 1] - least))[::-1])[::-1], 0.0)
    columns = (worth, informative, slope, offset, detour)
    worth, informative, slope, offset, detour = (column[:, None] for column in columns)
    gap = least - mu_n
    root, miss = offset / slope, slope / (1.0 - offset)  # of p and 1 - p as functions of mu
    with np.errstate(all="ignore"):
        # Cost and divergence of a visit, both over its tests, the slope and the gap.
        cost = worth / informative * (1.0 + detour / worth / gap)
        found = logarithm_lag(mu_n + root, least + root, gap)
        missed = logarithm_lag(1.0 - miss * mu_n, 1.0 - miss * least, -miss * gap)
        return float((cost / (found - missed)).min(axis=0).sum())
