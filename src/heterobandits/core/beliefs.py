"""What is believed of all means at once, under priors that may be learned from all arms together.

The mean of an arm lies in one of Q cells, which are evenly wide in the angle theta with mu = sin^2 theta: there a posterior
is about as wide wherever it lies. A prior is the probability of every cell, so that all sums below are exact for it.

    e[n, q]        exp(l_n(mu_q)), l_n being the log-likelihood of `likelihood`
    prior[q, g]    the probability of cell q under the g-th candidate of a common prior
    Z[n, g]        sum_q e[n, q] prior[q, g]                                      docs/priors.md (13)
    share[g]       ~ weight[g] prod_n Z[n, g], over the arms without a prior of their own     (14)
    density[n, q]  e[n, q] sum_g share[g] prior[q, g] / Z[n, g]                              (15)

An arm with a prior of its own has that one in place of the mixture. It tells of the others what a mean would that was seen: in (14)
exp(sum_q density[n, q] ln prior[q, g]) stands for its Z.
"""

import math
from typing import NamedTuple

import numpy as np

from heterobandits.core.compiled import compiled, inlined, inner
from heterobandits.core.elementary import exp, ln, ln_less
from heterobandits.core.randomness import WORD_SIZE

LEAST_LN = -700.0  # below this, e to that power is taken to be 0
LEAST_CHANCE = 1e-280  # of a cell under a candidate: what no candidate makes likely is believed all the same once it was seen
LEAST_SHARE = 1e-15  # of a candidate: those with less are left out of the mixture


class BeliefCells(NamedTuple):
    """The cells, and what every outcome and every prior says of them.

    Attributes
    ----------
    mu, edges
        The mean in the middle of every cell, and those between which they lie, from 0 to 1.
    ln_hit, ln_miss
        ln(mu_q + r_j) for every root, [j, q], and ln(1 - s_k mu_q) for every kind of agent, [k, q].
    prior, candidates
        The candidates of a common prior, [q, g], and the same turned, [g, q].
    ln_weight
        The logarithm of the weight of each candidate before anything was seen.
    ln_prior
        The logarithms of the candidates, [q, g], if some arms have a prior of their own.
    ln_own, own_row
        The logarithms of priors of some arms alone, [i, q], and for each arm which of them is its, or -1.
    """

    mu: np.ndarray
    edges: np.ndarray
    ln_hit: np.ndarray
    ln_miss: np.ndarray
    prior: np.ndarray
    candidates: np.ndarray
    ln_prior: np.ndarray
    ln_weight: np.ndarray
    ln_own: np.ndarray
    own_row: np.ndarray


class BeliefRoom(NamedTuple):
    """Room for the beliefs of one trial: hits and misses of every arm by kind of agent, and what follows from them.

    height[n, q] is l_n(mu_q) less its greatest value, which is top[n].
    """

    h: np.ndarray
    f: np.ndarray
    height: np.ndarray
    evidence: np.ndarray
    share: np.ndarray
    density: np.ndarray
    ln_evidence: np.ndarray
    top: np.ndarray


def means_of_cells(count):
    """The mean in the middle of every cell, and the means between which they lie."""
    angles = (0.25 * math.pi * i / count for i in range(2 * count + 1))
    means = np.array([math.sin(angle) ** 2 for angle in angles])  # NumPy's sine is of the processor
    return means[1::2].copy(), means[::2].copy()


def no_cells():
    """For rules that take no prior."""
    return BeliefCells(
        *np.empty((2, 0)),
        *np.empty((5, 0, 0)),
        np.empty(0),
        np.empty((0, 0)),
        np.empty(0, np.int64),
    )


def belief_room(cells):
    """Room for a trial with these cells."""
    N, Q, G = len(cells.own_row), len(cells.mu), len(cells.ln_weight)
    return BeliefRoom(
        h=np.empty((len(cells.ln_hit), N)),
        f=np.empty((len(cells.ln_miss), N)),
        height=np.empty((N, Q)),
        evidence=np.empty((N, G)),
        share=np.empty(G),
        density=np.empty((N, Q)),
        ln_evidence=np.empty(N),
        top=np.empty(N),
    )


@compiled
def fill_cell_logs(mu, r, s, ln_hit, ln_miss):
    """What a hit and a miss by every kind of agent says of the cells."""
    for q in range(len(mu)):
        for j in range(len(r)):
            ln_hit[j, q] = ln(mu[q] + r[j])
        for k in range(len(s)):
            ln_miss[k, q] = ln_less(s[k] * mu[q])


@inner
def ln_over_middle(q, c):
    """ln of the integral of x^(c - 1) from q to q + 1 over its value in the middle."""
    least = exp(c * ln(float(q))) if q > 0 else 0.0
    return ln((exp(c * ln(q + 1.0)) - least) / c) - (c - 1.0) * ln(q + 0.5)


@compiled
def fill_cell_priors(mu, a, b, out):
    """out[g, q] = the logarithm of the probability of cell q under Beta(a[g], b[g]).

    Its density in the angle is proportional to mu^(a - 1/2) (1 - mu)^(b - 1/2). Where a or b is below 1/2 that has a pole at an
    end, near which it is not as in the middle of a cell.
    """
    Q = len(mu)
    for g in range(len(a)):
        row = out[g]
        for q in range(Q):
            row[q] = (a[g] - 0.5) * ln(mu[q]) + (b[g] - 0.5) * ln_less(mu[q])
            if a[g] < 0.5:
                row[q] += ln_over_middle(q, 2.0 * a[g])
            if b[g] < 0.5:
                row[q] += ln_over_middle(Q - 1 - q, 2.0 * b[g])
        ln_total = log_of_sum(row)
        for q in range(len(mu)):
            row[q] -= ln_total


@inlined
def power(height):
    """e to this power; 0 where that is too small a number."""
    return exp(height) if height > LEAST_LN else 0.0


@compiled
def fill_chances(ln_chances, out):
    """out[g, q] = the probability of cell q under candidate g, from its logarithm; `LEAST_CHANCE` at least."""
    for g in range(len(ln_chances)):
        for q in range(ln_chances.shape[1]):
            out[g, q] = max(LEAST_CHANCE, power(ln_chances[g, q]))


@inner
def log_of_sum(row):
    """The logarithm of the sum of e to these powers."""
    top = -math.inf
    for q in range(len(row)):
        top = max(top, row[q])
    total = 0.0
    for q in range(len(row)):
        total += power(row[q] - top)
    return top + ln(total)


@compiled
def fill_heights(cells, h, f, out, tops):
    """out[n, q] = l_n(mu_q) less its greatest value, tops[n], from the hits h[j, n] and the misses f[k, n]."""
    N, Q = out.shape
    for n in range(N):
        row = out[n]
        for q in range(Q):
            row[q] = 0.0
        for j in range(len(h)):
            hits = h[j, n]
            if hits > 0.0:
                for q in range(Q):
                    row[q] += hits * cells.ln_hit[j, q]
        for k in range(len(f)):
            misses = f[k, n]
            if misses > 0.0:
                for q in range(Q):
                    row[q] += misses * cells.ln_miss[k, q]
        top = -math.inf
        for q in range(Q):
            top = max(top, row[q])
        tops[n] = top
        for q in range(Q):
            row[q] -= top


@compiled
def fill_own_density(cells, n, height, out):
    """out[q] = the posterior probability of cell q of an arm with a prior of its own; returns the logarithm of the evidence."""
    ln_own = cells.ln_own[cells.own_row[n]]
    for q in range(len(out)):
        out[q] = height[q] + ln_own[q]
    ln_evidence = log_of_sum(out)
    for q in range(len(out)):
        out[q] = power(out[q] - ln_evidence)
    return ln_evidence


@compiled
def fill_shares(cells, height, evidence, share, density):
    """evidence[n, g] = Z[n, g] over the greatest likelihood, and share[g]   docs/priors.md (13), (14)

    `density` has room for those of arms with a prior of their own.
    """
    N, Q = height.shape
    G = len(share)
    for g in range(G):
        share[g] = cells.ln_weight[g]
    for n in range(N):
        Z = evidence[n]
        if cells.own_row[n] >= 0:
            fill_own_density(cells, n, height[n], density[n])
            for g in range(G):
                Z[g] = 0.0
            for q in range(Q):
                row = cells.ln_prior[q]
                for g in range(G):
                    Z[g] += density[n, q] * row[g]
            for g in range(G):
                share[g] += Z[g]
            continue
        for g in range(G):
            Z[g] = 0.0  # and over LEAST_CHANCE at the end: where it is greatest, e is 1
        for q in range(
            Q
        ):  # in this order the compiler vectorises it, and sums alike on every machine
            e = power(height[n, q])
            row = cells.prior[q]
            for g in range(G):
                Z[g] += e * row[g]
        for g in range(G):
            share[g] += ln(Z[g])
    ln_total = log_of_sum(share)
    for g in range(G):
        share[g] = power(share[g] - ln_total)


@compiled
def fill_densities(cells, height, evidence, share, out, ln_evidence):
    """out[n, q] = the posterior probability that the mean of arm n lies in cell q   docs/priors.md (15)

    ln_evidence[n] = the logarithm of the mean of e[n, q], over its greatest value, under the arm's prior: its own, or what the
    other arms have made of the common one.
    """
    N, Q = height.shape
    for n in range(N):
        row = out[n]
        if cells.own_row[n] >= 0:
            ln_evidence[n] = fill_own_density(cells, n, height[n], row)
            continue
        norm = 0.0
        for q in range(Q):
            row[q] = 0.0
        for g in range(len(share)):
            if share[g] > LEAST_SHARE:
                weight = share[g] / evidence[n, g]
                norm += weight
                candidate = cells.candidates[g]
                for q in range(Q):
                    row[q] += weight * candidate[q]
        total = 0.0
        for q in range(Q):
            row[q] *= power(height[n, q])
            total += row[q]
        for q in range(Q):
            row[q] /= total
        ln_evidence[n] = ln(total) - ln(norm)


@compiled
def fill_beliefs(cells, room):
    """The posterior of every arm in room.density, from the hits and misses in the room."""
    fill_heights(cells, room.h, room.f, room.height, room.top)
    if len(room.share) > 0:
        fill_shares(cells, room.height, room.evidence, room.share, room.density)
    fill_densities(cells, room.height, room.evidence, room.share, room.density, room.ln_evidence)


@inlined
def believed_mean(cells, density):
    """The posterior mean of an arm."""
    total = 0.0
    for q in range(len(density)):
        total += density[q] * cells.mu[q]
    return total


@inlined
def believed_quantile(cells, density, above):
    """The mean that is exceeded with this probability; within a cell every mean is as likely."""
    q = len(density)
    rest = above
    while q > 0 and rest >= 0.0:
        q -= 1
        rest -= density[q]
    share = min(1.0, -rest / density[q]) if density[q] > 0.0 else 0.0
    return cells.edges[q] + share * (cells.edges[q + 1] - cells.edges[q])


@inlined
def believed_end(cells, height, ln_evidence, L):
    """The largest mean whose likelihood is within L of the evidence, or 1 and how much more likely 1 is   docs/beyond.md (6)

    Between the middles of cells the logarithm is taken to be a line.
    """
    q = len(height) - 1
    least = ln_evidence - L
    if height[q] > least:
        return 1.0 + height[q] - least
    while q > 0 and height[q] <= least:
        q -= 1
    if height[q] <= least:
        return 0.0
    share = (height[q] - least) / (height[q] - height[q + 1])
    return cells.mu[q] + share * (cells.mu[q + 1] - cells.mu[q])


@inlined
def estimate_believed(seen, n):
    """The posterior mean under a prior   docs/priors.md (15)"""
    return believed_mean(seen.cells, seen.room.density[n])


@inlined
def end_believed(seen, n, lane):
    """posterior-ratio and its kin under a prior: as `choose_not_ruled_out`   docs/beyond.md (6)"""
    pulls = 0.0
    for k in range(len(seen.room.f)):
        pulls += seen.room.f[k, n]
    for j in range(len(seen.room.h)):
        pulls += seen.room.h[j, n]
    end = believed_end(seen.cells, seen.room.height[n], seen.room.ln_evidence[n], seen.L[lane])
    return end if pulls > 0.0 else math.inf


@inlined
def draw_believed(seen, n, lane):
    """thompson under a prior: where the posterior's distribution function is a random number   docs/beyond.md (9)"""
    above = (seen.keys[2 * n, lane] + 0.5) * WORD_SIZE
    return believed_quantile(seen.cells, seen.room.density[n], above)


@inlined
def quantile_believed(seen, n, lane):
    """bayes-ucb and season under a prior: as `choose_exceeded`   docs/beyond.md (11)"""
    return believed_quantile(seen.cells, seen.room.density[n], math.exp(-seen.L[lane]))
