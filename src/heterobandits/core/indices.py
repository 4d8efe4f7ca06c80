"""The rules: the paper's equations, each written once, with all that the engine needs to know of a rule.

Notation (Gordon, Rolf, Tambe 2024; the labels in brackets are those of the paper's source):

    A, N       number of agents, of arms
    K          number of kinds of agents: of distinct sensitivities
    F          number of assignments, N! / (N - A)!
    d[a]       slope of agent a: how much more often it reports 1 where there is something to report.
               The paper's sensitivity s[a], as believed by the planner, as long as nobody gives false alarms
    phi[a]     offset of agent a: how often it reports 1 where there is nothing
    mu[n]      mean of arm n
    c[a, n]    pulls of arm n by agent a                                   [eq:c_tan]
    y[a, n]    successes among them
    t          rounds elapsed; the theory has the horizon T in its place
    delta      probability with which any of the bounds may fail
    n          sum_a c_an, the pulls of an arm
    D          sum_a d_a c_an, the successes to be expected of these if the mean were 1
    S          sum_a (y_an - phi_a c_an), the successes without what is false
    V          sum_a d_a^2 c_an, the information gathered about an arm
    W          sum_a d_a (y_an - phi_a c_an), the successes weighted by sensitivity
    L          the log term of the round: ln(2 N G / delta) and its kin

The rules stand in the order of the paper: equation, log term, and the record that holds them. A family (`families`) makes the kernels
of a rule out of an equation. An arm (or agent-arm pair, or assignment) never pulled has an infinite
index, unless a prior speaks for it (thompson, bayes-ucb). Agents stand as the user listed them.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from heterobandits.core.beliefs import (
    draw_believed,
    end_believed,
    estimate_believed,
    quantile_believed,
)
from heterobandits.core.calibrated import (
    LEAST_MEAN,
    all_known,
    fill_constants,
    fill_profile_ends,
    fill_profiles,
)
from heterobandits.core.compiled import compiled, inlined, inner
from heterobandits.core.elementary import ln
from heterobandits.core.families import (
    Band,
    believed,
    counted,
    fill_plain_estimates,
    given,
    least_own,
    likelihood,
    own,
    own_band,
    plainly_pooled,
    pooled,
    pooled_band,
)
from heterobandits.core.filtered import (
    expand_nothing,
    expand_quantile,
    expand_ratio,
    filtered,
)
from heterobandits.core.leading import settle_leading
from heterobandits.core.likelihood import (
    ABOVE,
    CLOSE,
    fill_at_one,
    fill_fallen,
    fill_greatest,
    pulled,
)
from heterobandits.core.posterior import fill_draws, fill_posterior, fill_quantiles
from heterobandits.core.seen import IndexKernels
from heterobandits.core.work import KEYS, beyond

SEASON_POWER = 1.25  # of the logarithm of the rounds left; docs/beyond.md has what others bring
RHO = 1.0  # the information mixture-width is tuned to; near the best on the paper's domains


class Size(NamedTuple):
    """What a log term depends on beside t and delta."""

    A: int
    K: int
    N: int


class Rule(NamedTuple):
    """Everything the engine and the planner need to know of a policy's rule.

    Attributes
    ----------
    kernels
        For tables of whole and of real numbers: kernel(seen, desk, out) puts the index of arm n into out[row, n, lane].
    log_terms
        log_terms(t, size, delta): L after each of the rounds elapsed in the array t, all at least 1.
    index_per
        Whether a row of indices belongs to all agents ("arm") or each has its own ("agent"); for
        "assignment" the arms of a kernel are all assignments, and its one agent is the team.
    sorted_by
        Whether the agents are sorted on the chosen arms by the "index", or by a second row that the kernel fills:
        the "estimate".
    words
        The random words that an arm's index takes.
    remembers
        Whether to keep an index until its arm is pulled again: L must never change, and the kernel heed `remembered`.
    band
        The intervals that the index is the upper end of.
    calibrated
        Whether it looks at the sets that hold what was calibrated: half of delta is theirs.
    forgets
        "" if it looks at the two tables of learning. Else at tables of its own, of numbers that need not be whole: of the rounds
        in a "window" alone, or with a "discount" on every round since.
    season
        Whether its log term is of the rounds that are left, this one included, instead of those elapsed.
    refresh
        The filter, if it has one: a kernel of `filtered` that makes the same decisions faster.
    quantile
        Whether the index is a quantile of the posterior, which ends at 1; others end at 1/s_1.
    believed
        The kernels in place of these where a prior is not uniform; None if the rule goes by no prior.
    leads
        Whether the arms of the highest estimate lead, and another may be drawn to take the place of the last of them. Then the first
        of its words, one for each arm, are those that ties are broken with.
    """

    kernels: IndexKernels
    log_terms: Callable
    index_per: str = "arm"
    sorted_by: str = "index"
    words: int = 0
    remembers: bool = False
    band: Band | None = None
    calibrated: bool = False
    forgets: str = ""
    season: bool = False
    refresh: Callable | None = None
    quantile: bool = False
    believed: IndexKernels | None = None
    leads: bool = False

    @property
    def fill(self):
        """The kernel for the tables that it looks at in a run, under a uniform prior."""
        return self.kernel()

    def kernel(self, real=False, prior=False):
        """The kernel for tables of whole or of real numbers, for a prior that is uniform or not.

        The tables of a rule that forgets are always real.
        """
        kernels = self.believed if prior else self.kernels
        return kernels.real if real or self.forgets else kernels.whole


@compiled
def fill_ln_G(t, A, out):
    """out[i] = ln G(t[i], A), with G(t, A) = sum_{i=1..t} C(i + A - 1, A - 1) = C(t + A, A) - 1   [eq:G(T,A)]

    The binomial is a product of A factors 1 + t/i, so its logarithm has no cancellation;
    the factors are summed from the smallest, with the rounding error carried along.
    """
    for j in range(len(t)):
        if A == 1:
            out[j] = math.log(t[j])
            continue
        total = 0.0
        carry = 0.0
        for i in range(A, 0, -1):
            term = math.log1p(t[j] / i) - carry
            grown = total + term
            carry = (grown - total) - term
            total = grown
        out[j] = total + math.log1p(-math.exp(-total))


def ln_G(t, A):
    """ln G(t, A) of every t of an array; ln t for A = 1."""
    out = np.empty(len(t))
    fill_ln_G(t, A, out)
    return out


@inlined
def shared_estimate(W, V):
    """Estimate of an arm's mean from what all agents saw   [eq:muhat_t,n]"""
    return W / V


@inlined
def shared_width(V, L):
    """Half the width of Min-Width's interval   [eq:epsilon_t,n]"""
    return math.sqrt(L / (2.0 * V))


@inlined
def min_width_index(W, V, L):
    """Min-Width's index of an arm   [eq:min-width-UCB_t,n]"""
    return shared_estimate(W, V) + shared_width(V, L)


def min_width_terms(t, size, delta):
    """ln(2 N G(t, A) / delta)   [eq:epsilon_t,n]"""
    return math.log(2 * size.N / delta) + ln_G(t, size.A)


MIN_WIDTH = Rule(
    pooled(min_width_index), min_width_terms, band=pooled_band(shared_estimate, shared_width)
)
MIN_WIDTH_WINDOW = Rule(MIN_WIDTH.kernels, min_width_terms, forgets="window")
MIN_WIDTH_DISCOUNTED = MIN_WIDTH_WINDOW._replace(forgets="discount")


@inlined
def own_estimate(d, phi, c, y):
    """Estimate of an arm's mean from what one agent saw   [eq:muhat_t,a,n]"""
    return (y - phi * c) / (d * c)


@inlined
def own_width(d, c, L):
    """Half the width of one agent's interval   [eq:epsilon_t,a,n]"""
    return math.sqrt(L / (2.0 * c)) / d


@inlined
def own_index(d, phi, c, y, L):
    """One agent's index of an arm: No-Sharing ranks by it, Min-UCB takes the least   [eq:UCB_t,a,n]"""
    return own_estimate(d, phi, c, y) + own_width(d, c, L)


def own_terms(t, size, delta):
    """ln(2 A N t / delta)   [eq:epsilon_t,a,n]"""
    return math.log(2 * size.A * size.N / delta) + ln_G(t, 1)


MIN_UCB = Rule(least_own(own_index), own_terms, band=own_band(own_estimate, own_width))
NO_SHARING = Rule(own(own_index), own_terms, index_per="agent", band=MIN_UCB.band)


@inlined
def plain_index(c, y, L):
    """The index without sensitivities, of an arm for CUCB   [eq:cucb_alg_ucb]
    and of an assignment for UCB   [eq:ucb_alg_ucb]"""
    return y / c + math.sqrt(L / (2.0 * c))


def cucb_terms(t, size, delta):
    """ln(2 N t / delta)   [eq:cucb_alg_ucb]"""
    return math.log(2 * size.N / delta) + ln_G(t, 1)


def ucb_terms(t, size, delta):
    """ln(2 F t / delta)   [eq:ucb_alg_ucb]"""
    F = math.perm(size.N, size.A)  # too large a number for a float, maybe
    return math.log(2 * F) - math.log(delta) + ln_G(t, 1)


CUCB = Rule(counted(plain_index), cucb_terms)
UCB = Rule(CUCB.kernels, ucb_terms, index_per="assignment")


def grouped_terms(t, size, delta):
    """ln(2 N G(t, K) / delta)   docs/beyond.md (1)"""
    return math.log(2 * size.N / delta) + ln_G(t, size.K)


MIN_WIDTH_GROUPED = Rule(MIN_WIDTH.kernels, grouped_terms, band=MIN_WIDTH.band)


@inlined
def mixture_width(V, L):
    """Half the width of an interval that holds at all rounds at once   docs/beyond.md (2)"""
    return math.sqrt(0.5 * (V + RHO) * (L + 0.5 * ln(1.0 + V / RHO))) / V


@inlined
def mixture_index(W, V, L):
    """The estimate of all agents plus the width of the normal mixture   docs/beyond.md (2)"""
    return shared_estimate(W, V) + mixture_width(V, L)


def mixture_terms(t, size, delta):
    """ln(N / delta)   docs/beyond.md (2)"""
    return np.full(len(t), math.log(size.N / delta))


MIXTURE_WIDTH = Rule(
    pooled(mixture_index), mixture_terms, band=pooled_band(shared_estimate, mixture_width)
)


@inner
def fill_upper_ends(drop, peak, greatest, outcomes, work, index):
    """index[i] = the largest mean whose log-likelihood is within drop[i] of the greatest; infinite if nothing was seen."""
    fill_fallen(ABOVE, 1.0 / outcomes.s[0], drop, 0.0, peak, greatest, outcomes, work, index)
    for i in range(len(index)):
        index[i] = index[i] if pulled(outcomes, i) else math.inf


@inner
def choose_likely(outcomes, peak, L, seen, places, work, index, estimate):
    """KL-UCB: the largest mean whose log-likelihood is within L of the greatest   docs/beyond.md (4)"""
    greatest = work.floats[0]
    drop = work.floats[1]
    fill_greatest(peak, outcomes, beyond(work, 2, 0), greatest)
    for i in range(len(peak)):
        drop[i] = L[i]
    fill_upper_ends(drop, peak, greatest, outcomes, beyond(work, 2, 0), index)


def kl_terms(t, size, delta):
    """ln t   docs/beyond.md (4)"""
    return ln_G(t, 1)


KL_UCB = Rule(likelihood(choose_likely), kl_terms)


@inlined
def plain_estimate(S, D):
    """Estimate of an arm's mean from what all agents saw, every outcome weighing the same   docs/beyond.md (15)"""
    return S / D


@inlined
def plain_width(D, n, L):
    """Half the width of Hoeffding's interval around it   docs/beyond.md (15)"""
    return math.sqrt(0.5 * n * L) / D


@inlined
def pbm_ucb_index(S, D, n, L):
    """PBM-UCB's index of an arm   docs/beyond.md (15)"""
    return plain_estimate(S, D) + plain_width(D, n, L)


PBM_UCB = Rule(plainly_pooled(pbm_ucb_index), kl_terms)


@inner
def fill_likeliest_apart(seen, places, out):
    """out[i] = the logarithm of how likely the reports are if every agent has a mean of its own, the likeliest one."""
    for i in range(len(places)):
        out[i] = 0.0
    for a in range(len(seen.c)):
        c_a = seen.c[a].reshape(seen.c[a].size)
        y_a = seen.y[a].reshape(seen.y[a].size)
        for i in range(len(places)):
            c = float(c_a[places[i]])
            y = float(y_a[places[i]])
            out[i] += y * ln(y / c) if y > 0.0 else 0.0
            out[i] += (c - y) * ln((c - y) / c) if c > y else 0.0


@inner
def choose_leading(outcomes, peak, L, seen, places, work, index, estimate):
    """pbm-pie: the largest mean up to 1 from which the reports diverge by L at most   docs/beyond.md (16), and S/D

    The divergence is the log-likelihood if every agent has a mean of its own less that of one mean for all.
    """
    greatest, drop, constant = work.floats[0], work.floats[1], work.floats[2]
    rest = beyond(work, 3, 0)
    fill_greatest(peak, outcomes, rest, greatest)
    fill_likeliest_apart(seen, places, drop)
    fill_constants(seen, places, constant)
    for i in range(len(peak)):
        drop[i] = L[i] - (drop[i] - constant[i] - greatest[i])
    fill_fallen(ABOVE, 1.0, drop, 0.0, peak, greatest, outcomes, rest, index)
    for i in range(len(peak)):
        index[i] = min(1.0, index[i])
    fill_plain_estimates(seen, places, rest, estimate)


PBM_PIE = Rule(
    likelihood(choose_leading, settle_leading),
    kl_terms,
    sorted_by="estimate",
    words=2,
    leads=True,
)


@inner
def choose_not_ruled_out(outcomes, peak, L, seen, places, work, index, estimate):
    """posterior-ratio and its kin: the largest mean within L of the evidence, or how much more likely 1 is, and the posterior
    mean   docs/beyond.md (6), (8)"""
    greatest = work.floats[0]
    log_evidence = work.floats[1]
    drop = work.floats[2]
    at_one = work.floats[3]
    rest = beyond(work, 4, 0)
    fill_greatest(peak, outcomes, rest, greatest)
    fill_posterior(peak, greatest, outcomes, rest, log_evidence, estimate)
    for i in range(len(peak)):
        drop[i] = greatest[i] - log_evidence[i] + L[i]
    fill_fallen(ABOVE, 1.0, drop, 0.0, peak, greatest, outcomes, rest, index)
    fill_at_one(outcomes, at_one)
    for i in range(len(peak)):
        left = at_one[i] - log_evidence[i] + L[i]
        index[i] = reached(index[i], left) if pulled(outcomes, i) else math.inf


@inlined
def reached(end, left):
    """The index where the interval ends, or beyond 1 if l(1) is above what is ruled out by something   docs/beyond.md (6)"""
    return 1.0 + left if left > 0.0 else end


def evidence_terms(t, size, delta):
    """ln(N / delta)   docs/beyond.md (6)"""
    return np.full(len(t), math.log(size.N) - math.log(delta))


def decaying_terms(t, size, delta):
    """ln(N t / delta)   docs/beyond.md (8)"""
    return math.log(size.N) - math.log(delta) + ln_G(t, 1)


POSTERIOR_RATIO = Rule(
    likelihood(choose_not_ruled_out),
    evidence_terms,
    remembers=True,
    refresh=filtered(expand_ratio),
    believed=believed(end_believed, estimate_believed),
)
POSTERIOR_RATIO_DECAY = Rule(
    POSTERIOR_RATIO.kernels,
    decaying_terms,
    refresh=POSTERIOR_RATIO.refresh,
    believed=POSTERIOR_RATIO.believed,
)
POSTERIOR_SORTED = Rule(
    POSTERIOR_RATIO.kernels,
    evidence_terms,
    sorted_by="estimate",
    remembers=True,
    refresh=POSTERIOR_RATIO.refresh,
    believed=POSTERIOR_RATIO.believed,
)
POSTERIOR_SORTED_WINDOW = Rule(
    POSTERIOR_RATIO.kernels,
    evidence_terms,
    sorted_by="estimate",
    forgets="window",
    believed=POSTERIOR_RATIO.believed,
)
POSTERIOR_SORTED_DISCOUNTED = POSTERIOR_SORTED_WINDOW._replace(forgets="discount")


@inner
def choose_possible(outcomes, peak, L, seen, places, work, index, estimate):
    """calibrated-sorted: the largest mean within L of the evidence for some way to report, and the posterior mean
    docs/model.md (10)"""
    if all_known(seen.agents):  # then arms that tie on paper tie to the bit
        choose_not_ruled_out(outcomes, peak, L, seen, places, work, index, estimate)
    else:
        greatest, level, inside = work.floats[0], work.floats[1], work.floats[2]
        rest = beyond(work, 3, 0)
        fill_greatest(peak, outcomes, rest, greatest)
        fill_posterior(peak, greatest, outcomes, rest, level, estimate)
        fill_constants(seen, places, greatest)
        for i in range(len(peak)):
            inside[i] = min(1.0, max(LEAST_MEAN, peak[i]))
            level[i] += greatest[i] - L[i]
        fill_profile_ends(ABOVE, 1.0, level, inside, seen, places, rest, index)
        for i in range(len(peak)):
            inside[i] = 1.0 - CLOSE
        fill_profiles(inside, seen, places, greatest, rest.floats[0])
        for i in range(len(peak)):
            left = greatest[i] - level[i]
            index[i] = reached(index[i], left) if pulled(outcomes, i) else math.inf


def half_terms(t, size, delta):
    """ln(2 N / delta)   docs/model.md (10)"""
    return evidence_terms(t, size, 0.5 * delta)


CALIBRATED_SORTED = Rule(
    likelihood(choose_possible),
    half_terms,
    sorted_by="estimate",
    remembers=True,
    calibrated=True,
    refresh=POSTERIOR_RATIO.refresh,  # where nobody needed to be calibrated
)


@inner
def fill_keys(seen, places, words):
    """The keys of the streams that draws at these places are made with."""
    B = seen.c.shape[2]
    for i in range(len(places)):
        n, lane = places[i] // B, places[i] % B
        words[KEYS, i] = seen.keys[2 * n, lane]
        words[KEYS + 1, i] = seen.keys[2 * n + 1, lane]


@inner
def choose_drawn(outcomes, peak, L, seen, places, work, index, estimate):
    """thompson: a draw from the posterior   docs/beyond.md (9)"""
    fill_keys(seen, places, work.words)
    fill_draws(peak, outcomes, work, index)


@inner
def choose_drawn_and_sort(outcomes, peak, L, seen, places, work, index, estimate):
    """thompson-sorted: a draw from the posterior   docs/beyond.md (9)   and the posterior mean"""
    greatest = work.floats[0]
    log_evidence = work.floats[1]
    rest = beyond(work, 2, 0)
    fill_greatest(peak, outcomes, rest, greatest)
    fill_posterior(peak, greatest, outcomes, rest, log_evidence, estimate)
    fill_keys(seen, places, work.words)
    fill_draws(peak, outcomes, rest, index)


def no_terms(t, size, delta):
    """Rules without a log term."""
    return np.zeros(len(t))


THOMPSON = Rule(
    likelihood(choose_drawn),
    no_terms,
    words=2,
    believed=believed(draw_believed, estimate_believed),
)
THOMPSON_SORTED = Rule(
    likelihood(choose_drawn_and_sort),
    no_terms,
    sorted_by="estimate",
    words=2,
    refresh=filtered(expand_nothing),
    believed=THOMPSON.believed,
)


@inner
def choose_exceeded(outcomes, peak, L, seen, places, work, index, estimate):
    """bayes-ucb: the mean exceeded with posterior probability 1/t, and the posterior mean   docs/beyond.md (11)"""
    greatest, log_evidence = work.floats[0], work.floats[1]
    rest = beyond(work, 2, 0)
    fill_greatest(peak, outcomes, rest, greatest)
    fill_posterior(peak, greatest, outcomes, rest, log_evidence, estimate)
    for i in range(len(peak)):
        index[i] = estimate[i]
    fill_quantiles(L, peak, greatest, log_evidence, outcomes, rest, index)


BAYES_UCB = Rule(
    likelihood(choose_exceeded),
    kl_terms,
    sorted_by="estimate",
    refresh=filtered(expand_quantile),
    quantile=True,
    believed=believed(quantile_believed, estimate_believed),
)


def season_terms(r, size, delta):
    """ln(1 + r / ln^k r), r being the rounds left   docs/beyond.md (12)"""
    return np.log1p(r / np.maximum(1.0, np.log(r)) ** SEASON_POWER)


SEASON = Rule(
    BAYES_UCB.kernels,
    season_terms,
    sorted_by="estimate",
    season=True,
    refresh=BAYES_UCB.refresh,
    quantile=True,
    believed=BAYES_UCB.believed,
)


@inlined
def greedy_index(W, V, L):
    """Min-Width's estimate without a width."""
    return shared_estimate(W, V)


@inlined
def no_index(mu):
    """All arms tie."""
    return 0.0


@inlined
def known_mean(mu):
    """What only the oracle knows."""
    return mu


GREEDY = Rule(pooled(greedy_index), no_terms)
RANDOM = Rule(given(no_index), no_terms)
ORACLE = Rule(given(known_mean), no_terms)
