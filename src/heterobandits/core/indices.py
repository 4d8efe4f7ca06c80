"""The rules: the paper's equations, each written once, then mapped over arms and lanes.

Notation (Gordon, Rolf, Tambe 2024; the labels in brackets are those of the paper's source):

    A, N       number of agents, of arms
    K          number of distinct sensitivities
    F          number of assignments, N! / (N - A)!
    s[a]       sensitivity of agent a, as believed by the planner
    mu[n]      mean of arm n
    c[a, n]    pulls of arm n by agent a                                   [eq:c_tan]
    y[a, n]    successes among them
    t          rounds elapsed; the theory has the horizon T in its place
    delta      probability with which any of the bounds may fail
    V          sum_a s_a^2 c_an, the information gathered about an arm
    W          sum_a s_a y_an, the successes weighted by sensitivity
    L          the log term of the round: ln(2 N G / delta) and its kin

An arm (or agent-arm pair, or assignment) never pulled has an infinite index.
Agents stand in the order in which they pick, the most sensitive first.
"""

import math

import numpy as np

from heterobandits.core.compiled import compiled, inlined
from heterobandits.core.elementary import ln
from heterobandits.core.likelihood import fill_fallen, fill_greatest, fill_likeliest
from heterobandits.core.posterior import fill_draws, fill_posterior

RULES = (
    "min-width",
    "min-ucb",
    "no-sharing",
    "cucb",
    "ucb",
    "greedy",
    "random",
    "oracle",
    "min-width-grouped",
    "mixture-width",
    "kl-ucb",
    "posterior-ratio",
    "posterior-ratio-decay",
    "posterior-sorted",
    "thompson",
    "thompson-sorted",
)
(
    MIN_WIDTH,
    MIN_UCB,
    NO_SHARING,
    CUCB,
    UCB,
    GREEDY,
    RANDOM,
    ORACLE,
    MIN_WIDTH_GROUPED,
    MIXTURE_WIDTH,
    KL_UCB,
    POSTERIOR_RATIO,
    POSTERIOR_RATIO_DECAY,
    POSTERIOR_SORTED,
    THOMPSON,
    THOMPSON_SORTED,
) = range(len(RULES))

RHO = 1.0  # the information mixture-width is tuned to; near the best on the paper's domains


@compiled
def ln_G(t, A):
    """ln G(t, A), with G(t, A) = sum_{i=1..t} C(i + A - 1, A - 1) = C(t + A, A) - 1   [eq:G(T,A)]

    The binomial is a product of A factors 1 + t/i, so its logarithm has no cancellation;
    the factors are summed from the smallest, with the rounding error carried along.
    """
    if A == 1:
        return math.log(t)
    total = 0.0
    carry = 0.0
    for i in range(A, 0, -1):
        term = math.log1p(t / i) - carry
        grown = total + term
        carry = (grown - total) - term
        total = grown
    return total + math.log1p(-math.exp(-total))


@compiled
def log_term(rule, t, A, K, N, F, delta):
    """L after t >= 1 rounds: the logarithm under each policy's root."""
    if rule == MIN_WIDTH:
        return math.log(2 * N / delta) + ln_G(t, A)  # [eq:epsilon_t,n]
    if rule == MIN_WIDTH_GROUPED:
        return math.log(2 * N / delta) + ln_G(t, K)  # docs/beyond.md (1)
    if rule == MIXTURE_WIDTH:
        return math.log(N / delta)  # docs/beyond.md (2)
    if rule == KL_UCB:
        return math.log(t)  # docs/beyond.md (4)
    if rule == POSTERIOR_RATIO or rule == POSTERIOR_SORTED:
        return math.log(N) - math.log(delta)  # docs/beyond.md (6)
    if rule == POSTERIOR_RATIO_DECAY:
        return math.log(N) - math.log(delta) + math.log(t)  # docs/beyond.md (8)
    if rule == MIN_UCB or rule == NO_SHARING:
        return math.log(2 * A * N / delta) + math.log(t)  # [eq:epsilon_t,a,n]
    if rule == CUCB:
        return math.log(2 * N / delta) + math.log(t)  # [eq:cucb_alg_ucb]
    if rule == UCB:
        return math.log(2 * F / delta) + math.log(t)  # [eq:ucb_alg_ucb]
    return 0.0


@inlined
def remembers(rule):
    """Whether an arm's index stays as it is until the arm is pulled again."""
    return rule == POSTERIOR_RATIO or rule == POSTERIOR_SORTED


@inlined
def draws_means(rule):
    """Whether the index of an arm is a draw from the posterior of its mean."""
    return rule == THOMPSON or rule == THOMPSON_SORTED


@compiled
def fill_log_terms(rule, elapsed, A, K, N, F, delta, out):
    """out[i] = L after elapsed + i rounds. Before the first round nothing was pulled, and L has no say."""
    for i in range(out.shape[0]):
        out[i] = log_term(rule, max(1.0, float(elapsed + i)), A, K, N, F, delta)


@inlined
def shared_estimate(W, V):
    """Estimate of an arm's mean from what all agents saw   [eq:muhat_t,n]"""
    return W / V


@inlined
def shared_width(V, L):
    """Half the width of Min-Width's interval   [eq:epsilon_t,n]"""
    return math.sqrt(L / (2.0 * V))


@inlined
def mixture_width(V, L):
    """Half the width of an interval that holds at all rounds at once   docs/beyond.md (2)"""
    return math.sqrt(0.5 * (V + RHO) * (L + 0.5 * ln(1.0 + V / RHO))) / V


@inlined
def own_estimate(s, c, y):
    """Estimate of an arm's mean from what one agent saw   [eq:muhat_t,a,n]"""
    return y / (s * c)


@inlined
def own_width(s, c, L):
    """Half the width of one agent's interval   [eq:epsilon_t,a,n]"""
    return math.sqrt(L / (2.0 * c)) / s


@inlined
def min_width_index(W, V, L):
    """Min-Width's index of an arm   [eq:min-width-UCB_t,n]"""
    return shared_estimate(W, V) + shared_width(V, L) if V > 0.0 else math.inf


@inlined
def mixture_index(W, V, L):
    """The estimate of all agents plus the width of the normal mixture   docs/beyond.md (2)"""
    return shared_estimate(W, V) + mixture_width(V, L) if V > 0.0 else math.inf


@inlined
def own_index(s, c, y, L):
    """One agent's index of an arm: No-Sharing ranks by it, Min-UCB takes the least   [eq:UCB_t,a,n]"""
    return own_estimate(s, c, y) + own_width(s, c, L) if c > 0 else math.inf


@inlined
def plain_index(c, y, L):
    """The index without sensitivities, of an arm for CUCB   [eq:cucb_alg_ucb]
    and of an assignment for UCB   [eq:ucb_alg_ucb]"""
    return y / c + math.sqrt(L / (2.0 * c)) if c > 0 else math.inf


@inlined
def greedy_index(W, V):
    """Min-Width's estimate without a width."""
    return shared_estimate(W, V) if V > 0.0 else math.inf


@compiled
def pool(s, c, y, n, count, hits, V, W):
    """V and W of arm n in every lane.

    Agents of equal sensitivity are counted together, in integers: arms that are equal on
    paper are then equal to the last bit, and the tie between them is broken by chance.
    """
    A = c.shape[0]
    B = c.shape[2]
    for lane in range(B):
        V[lane] = 0.0
        W[lane] = 0.0
    a = 0
    while a < A:
        c_an = c[a, n]
        y_an = y[a, n]
        for lane in range(B):
            count[lane] = c_an[lane]
            hits[lane] = y_an[lane]
        s_a = s[a]
        a += 1
        while a < A and s[a] == s_a:
            c_an = c[a, n]
            y_an = y[a, n]
            for lane in range(B):
                count[lane] += c_an[lane]
                hits[lane] += y_an[lane]
            a += 1
        s_a_squared = s_a * s_a
        for lane in range(B):
            V[lane] += s_a_squared * count[lane]
            W[lane] += s_a * hits[lane]


@compiled
def count_kinds(s, c, y, n, lanes, kinds, failures, successes):
    """Of arm n in these lanes: the failures by kind of agent and all successes; the number of kinds.

    Like `pool`, it counts agents of equal sensitivity together. s[k] of the k-th kind goes to kinds.
    """
    A = c.shape[0]
    K = 0
    for i in range(len(lanes)):
        successes[i] = 0.0
    for a in range(A):
        if a == 0 or s[a] != s[a - 1]:
            kinds[K] = s[a]
            for i in range(len(lanes)):
                failures[K, i] = 0.0
            K += 1
        failed = failures[K - 1]
        c_an = c[a, n]
        y_an = y[a, n]
        for i in range(len(lanes)):
            failed[i] += c_an[lanes[i]] - y_an[lanes[i]]
            successes[i] += y_an[lanes[i]]
    return K


@compiled
def fill_likelihood_indices(rule, s, c, y, n, L, draws, lanes, row, estimate):
    """The indices of arm n that follow from the exact likelihood of its mean, in these lanes.

    KL-UCB: the largest mean whose log-likelihood is within L of the greatest   docs/beyond.md (4)
    posterior-ratio and its kin: within L of the evidence   docs/beyond.md (6), (8)
    thompson and its kin: a draw from the posterior, with the key of the arm in `draws`   docs/beyond.md (9)

    To `estimate` goes the posterior mean, if the rule ranks by it too.
    """
    A = c.shape[0]
    B = len(lanes)
    kinds = np.empty(A)
    failures = np.empty((A, B))
    Y = np.empty(B)
    K = count_kinds(s, c, y, n, lanes, kinds, failures, Y)
    s_k = kinds[:K]
    f = failures[:K]
    peak = np.empty(B)
    greatest = np.empty(B)
    drop = np.empty(B)
    mean = np.empty(B)
    index = np.empty(B)
    fill_likeliest(Y, s_k, f, peak)
    if rule != THOMPSON:
        fill_greatest(peak, Y, s_k, f, greatest)
    if rule == KL_UCB:
        for i in range(B):
            drop[i] = L
    elif rule != THOMPSON:
        fill_posterior(peak, greatest, Y, s_k, f, drop, mean)
        for i in range(B):
            drop[i] = greatest[i] - drop[i] + L
    if draws_means(rule):  # remembers nothing: these lanes are all lanes
        fill_draws(draws[2 * n], draws[2 * n + 1], peak, Y, s_k, f, index)
    else:
        fill_fallen(True, 1.0 / s_k[0], drop, 0.0, peak, greatest, Y, s_k, f, index)
        for i in range(B):
            pulls = Y[i]
            for k in range(K):
                pulls += f[k, i]
            index[i] = index[i] if pulls > 0.0 else math.inf
    for i in range(B):
        row[lanes[i]] = index[i]
        estimate[lanes[i]] = mean[i]


@compiled
def fill_indices(rule, s, mu, c, y, L, draws, known, out):
    """out[i, n, lane] = index of arm n, in one row that all agents share or one row per agent.

    posterior-sorted and thompson-sorted have two: what arms are chosen by, and what the agents are sorted by on them.
    Where known[n, lane], the tables of the arm are those that `out` was filled from, with the
    same L; rules with an L that never changes then need not compute it again.
    """
    A, N, B = c.shape
    lanes = np.empty(B, np.int64)
    V = np.empty(B)
    W = np.empty(B)
    count = np.empty(B, np.int32)
    hits = np.empty(B, np.int32)
    for n in range(N):
        row = out[0, n]
        if rule == MIN_WIDTH or rule == MIN_WIDTH_GROUPED:
            pool(s, c, y, n, count, hits, V, W)
            for lane in range(B):
                row[lane] = min_width_index(W[lane], V[lane], L)
        elif rule == MIXTURE_WIDTH:
            pool(s, c, y, n, count, hits, V, W)
            for lane in range(B):
                row[lane] = mixture_index(W[lane], V[lane], L)
        elif rule == GREEDY:
            pool(s, c, y, n, count, hits, V, W)
            for lane in range(B):
                row[lane] = greedy_index(W[lane], V[lane])
        elif rule == MIN_UCB:
            for lane in range(B):
                row[lane] = math.inf
            for a in range(A):
                s_a = s[a]
                c_an = c[a, n]
                y_an = y[a, n]
                for lane in range(B):
                    index = own_index(s_a, c_an[lane], y_an[lane], L)
                    row[lane] = index if index < row[lane] else row[lane]  # [eq:min-UCB_UCB_t,n]
        elif rule == NO_SHARING:
            for a in range(A):
                s_a = s[a]
                c_an = c[a, n]
                y_an = y[a, n]
                row = out[a, n]
                for lane in range(B):
                    row[lane] = own_index(s_a, c_an[lane], y_an[lane], L)
        elif rule == CUCB:
            for lane in range(B):
                count[lane] = 0
                hits[lane] = 0
            for a in range(A):
                c_an = c[a, n]
                y_an = y[a, n]
                for lane in range(B):
                    count[lane] += c_an[lane]
                    hits[lane] += y_an[lane]
            for lane in range(B):
                row[lane] = plain_index(count[lane], hits[lane], L)
        elif rule >= KL_UCB:
            estimate = out[1, n] if len(out) > 1 else W
            todo = 0
            for lane in range(B):
                if not (remembers(rule) and known[n, lane]):
                    lanes[todo] = lane
                    todo += 1
            fill_likelihood_indices(rule, s, c, y, n, L, draws, lanes[:todo], row, estimate)
        elif rule == RANDOM:
            for lane in range(B):
                row[lane] = 0.0  # all arms tie
        elif rule == ORACLE:
            for lane in range(B):
                row[lane] = mu[n]


@compiled
def fill_assignment_indices(c, y, L, out):
    """out[f, lane] = UCB's index of assignment f, from its pulls c[f, lane] and summed successes y[f, lane]."""
    F, B = c.shape
    for f in range(F):
        c_f = c[f]
        y_f = y[f]
        row = out[f]
        for lane in range(B):
            row[lane] = plain_index(c_f[lane], y_f[lane], L)


@compiled
def fill_intervals(rule, s, c, y, L, estimate, width):
    """estimate and width [i, n, lane]: a row per agent for No-Sharing, one row for the others.

    Where nothing was pulled the estimate is 0.5, as in the paper, and the width infinite.
    """
    A, N, B = c.shape
    V = np.empty(B)
    W = np.empty(B)
    count = np.empty(B, np.int32)
    hits = np.empty(B, np.int32)
    for n in range(N):
        if rule != NO_SHARING:
            pool(s, c, y, n, count, hits, V, W)
            for lane in range(B):
                estimate[0, n, lane] = shared_estimate(W[lane], V[lane]) if V[lane] > 0.0 else 0.5
                if V[lane] == 0.0:
                    width[0, n, lane] = math.inf
                elif rule == MIXTURE_WIDTH:
                    width[0, n, lane] = mixture_width(V[lane], L)
                else:
                    width[0, n, lane] = shared_width(V[lane], L)
        else:
            for a in range(A):
                for lane in range(B):
                    pulls = c[a, n, lane]
                    seen = pulls > 0
                    estimate[a, n, lane] = own_estimate(s[a], pulls, y[a, n, lane]) if seen else 0.5
                    width[a, n, lane] = own_width(s[a], pulls, L) if seen else math.inf
