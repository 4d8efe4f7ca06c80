"""The families: each makes the kernels of a rule out of an equation for one arm in one lane.

A kernel maps the equation over the arms and lanes of a block, in one long loop where it can. The notation is that of `indices`,
where the equations stand.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from heterobandits.core.beliefs import fill_beliefs
from heterobandits.core.compiled import compiled, inner, kernel
from heterobandits.core.likelihood import (
    Outcomes,
    fill_likeliest,
)
from heterobandits.core.seen import BAND, index_kernels, see
from heterobandits.core.work import STRIP, beyond, narrowed


class Band(NamedTuple):
    """Intervals for the means: fill(seen, desk, estimate, width), in one row for all agents or one for each.

    Where nothing was pulled the estimate is 0.5, as in the paper, and the width infinite.
    """

    fill: Callable
    per: str


@inner
def weigh(first, d, phi, c, y, V, W):
    """Add what agents of one kind have seen to V and W, which begin with the first kind."""
    d_squared = d * d
    if first:
        for i in range(len(c)):
            V[i] = d_squared * c[i]
            W[i] = d * (y[i] - phi * c[i])
    elif phi == 0.0:
        for i in range(len(c)):
            V[i] += d_squared * c[i]
            W[i] += d * y[i]
    else:
        for i in range(len(c)):
            V[i] += d_squared * c[i]
            W[i] += d * (y[i] - phi * c[i])


@inner
def pool(seen, start, desk, V, W):
    """V and W from `start` on, as far as these go, in the long row of all arms in all lanes.

    Agents of one kind are counted together, in integers: arms that are equal on
    paper are then equal to the last bit, and the tie between them is broken by chance.
    """
    A, N, B = seen.c.shape
    c = seen.c.reshape((A, N * B))
    y = seen.y.reshape((A, N * B))
    agents = seen.agents
    stop = start + len(V)
    count = desk.counts[0, : len(V)]
    hits = desk.counts[1, : len(V)]
    q = 0
    while q < A:
        a = agents.by_kind[q]
        k = agents.kind[a]
        q += 1
        if q == A or agents.kind[agents.by_kind[q]] != k:
            weigh(k == 0, agents.d_k[k], agents.phi_k[k], c[a, start:stop], y[a, start:stop], V, W)
            continue
        c_a = c[a, start:stop]
        y_a = y[a, start:stop]
        for i in range(len(count)):
            count[i] = c_a[i]
            hits[i] = y_a[i]
        while q < A and agents.kind[agents.by_kind[q]] == k:
            c_a = c[agents.by_kind[q], start:stop]
            y_a = y[agents.by_kind[q], start:stop]
            for i in range(len(count)):
                count[i] += c_a[i]
                hits[i] += y_a[i]
            q += 1
        weigh(k == 0, agents.d_k[k], agents.phi_k[k], count, hits, V, W)


def pooled(equation):
    """Rules for what all agents saw of an arm, weighted by sensitivity: equation(W, V, L)."""

    def fill(seen, desk, out):
        whole = out[0].reshape(out[0].size)
        for start in range(0, len(whole), STRIP):
            row = whole[start : start + STRIP]
            L = seen.L[start % out.shape[2] :]
            V = desk.sums[0, : len(row)]
            W = desk.sums[1, : len(row)]
            pool(seen, start, desk, V, W)
            for i in range(len(row)):
                row[i] = equation(W[i], V[i], L[i]) if V[i] > 0.0 else math.inf

    return index_kernels(fill)


@inner
def pool_plainly(seen, start, desk, D, S):
    """D, S and, in desk.counts[2], n from `start` on, like `pool`, which has weights.

    Agents of one kind are counted together here as well.
    """
    A, N, B = seen.c.shape
    c = seen.c.reshape((A, N * B))
    y = seen.y.reshape((A, N * B))
    agents = seen.agents
    stop = start + len(D)
    count = desk.counts[0, : len(D)]
    hits = desk.counts[1, : len(D)]
    n = desk.counts[2, : len(D)]
    for i in range(len(D)):
        D[i] = 0.0
        S[i] = 0.0
        n[i] = 0
        count[i] = 0
        hits[i] = 0
    for q in range(A):
        a = agents.by_kind[q]
        k = agents.kind[a]
        c_a = c[a, start:stop]
        y_a = y[a, start:stop]
        for i in range(len(D)):
            count[i] += c_a[i]
            hits[i] += y_a[i]
        if q + 1 < A and agents.kind[agents.by_kind[q + 1]] == k:
            continue
        d = agents.d_k[k]
        phi = agents.phi_k[k]
        for i in range(len(D)):
            D[i] += d * count[i]
            S[i] += hits[i] - phi * count[i]
            n[i] += count[i]
            count[i] = 0
            hits[i] = 0


def plainly_pooled(equation):
    """Rules for what all agents saw of an arm, every outcome weighing the same: equation(S, D, n, L)."""

    def fill(seen, desk, out):
        whole = out[0].reshape(out[0].size)
        for start in range(0, len(whole), STRIP):
            row = whole[start : start + STRIP]
            L = seen.L[start % out.shape[2] :]
            D = desk.sums[0, : len(row)]
            S = desk.sums[1, : len(row)]
            pool_plainly(seen, start, desk, D, S)
            n = desk.counts[2, : len(row)]
            for i in range(len(row)):
                row[i] = equation(S[i], D[i], n[i], L[i]) if n[i] > 0 else math.inf

    return index_kernels(fill)


def own(equation):
    """Rules for what each agent saw of an arm alone, a row for each: equation(d, phi, c, y, L)."""

    def fill(seen, desk, out):
        A, N, B = seen.c.shape
        for a in range(A):
            d = seen.agents.d[a]
            phi = seen.agents.phi[a]
            for n in range(N):
                c = seen.c[a, n]
                y = seen.y[a, n]
                row = out[a, n]
                for i in range(B):
                    row[i] = equation(d, phi, c[i], y[i], seen.L[i]) if c[i] > 0 else math.inf

    return index_kernels(fill)


def least_own(equation):
    """The same, but the least of the agents' indices is the arm's for all of them   [eq:min-UCB_UCB_t,n]"""

    def fill(seen, desk, out):
        A, N, B = seen.c.shape
        out[0].fill(math.inf)
        for a in range(A):
            d = seen.agents.d[a]
            phi = seen.agents.phi[a]
            for n in range(N):
                c = seen.c[a, n]
                y = seen.y[a, n]
                row = out[0, n]
                for i in range(B):
                    index = equation(d, phi, c[i], y[i], seen.L[i]) if c[i] > 0 else math.inf
                    row[i] = index if index < row[i] else row[i]

    return index_kernels(fill)


def counted(equation):
    """Rules that count pulls and successes as if all agents were alike: equation(c, y, L)."""

    def fill(seen, desk, out):
        A, N, B = seen.c.shape
        c = seen.c.reshape((A, N * B))
        y = seen.y.reshape((A, N * B))
        whole = out[0].reshape(N * B)
        for start in range(0, N * B, STRIP):
            row = whole[start : start + STRIP]
            L = seen.L[start % B :]
            stop = start + len(row)
            c_a = c[0, start:stop]
            y_a = y[0, start:stop]
            if A == 1:
                for i in range(len(row)):
                    row[i] = equation(c_a[i], y_a[i], L[i]) if c_a[i] > 0 else math.inf
                continue
            count = desk.counts[0, : len(row)]
            hits = desk.counts[1, : len(row)]
            for i in range(len(row)):
                count[i] = c_a[i]
                hits[i] = y_a[i]
            for a in range(1, A):
                c_a = c[a, start:stop]
                y_a = y[a, start:stop]
                for i in range(len(row)):
                    count[i] += c_a[i]
                    hits[i] += y_a[i]
            for i in range(len(row)):
                row[i] = equation(count[i], hits[i], L[i]) if count[i] > 0 else math.inf

    return index_kernels(fill)


def given(equation):
    """Rules that learn nothing: equation(mu), the mean of the arm being known to the oracle alone."""

    def fill(seen, desk, out):
        _, N, B = seen.c.shape
        for n in range(N):
            row = out[0, n]
            for lane in range(B):
                row[lane] = equation(seen.mu[n])

    return index_kernels(fill)


@compiled
def count_by_kind(seen, places, out):
    """What was seen at these places, n B + lane each: hits and misses by kind of agent, as `likelihood` has them.

    Like `pool`, it counts agents of one kind together.
    """
    agents = seen.agents
    A, N, B = seen.c.shape
    c = seen.c.reshape((A, N * B))
    y = seen.y.reshape((A, N * B))
    for j in range(len(out.r)):
        for i in range(len(places)):
            out.h[j, i] = 0.0
    for k in range(len(out.s)):
        for i in range(len(places)):
            out.f[k, i] = 0.0
    for a in range(A):
        k = agents.kind[a]
        hit = out.h[agents.root[k]]
        missed = out.f[k]
        c_a = c[a]
        y_a = y[a]
        for i in range(len(places)):
            missed[i] += c_a[places[i]] - y_a[places[i]]
            hit[i] += y_a[places[i]]
    for i in range(len(places)):
        out.Y[i] = out.h[0, i]
    for j in range(1, len(out.r)):
        for i in range(len(places)):
            out.Y[i] += out.h[j, i]


def outcomes(agents, pulls, successes):
    """The same outside of a run, from tables [agent, lane] of one arm, which may have faded."""
    cell = np.float64 if pulls.dtype == np.float64 else np.int32
    block = see(agents, *(np.asarray(table, cell)[:, None].copy() for table in (pulls, successes)))
    lanes = pulls.shape[1]
    h, f = np.empty((len(agents.r), lanes)), np.empty((len(agents.s_k), lanes))
    counted = Outcomes(agents.r, h, agents.s_k, f, np.empty(lanes))
    count_by_kind(block, np.arange(lanes), counted)
    return counted


@inner
def fill_plain_estimates(seen, places, work, out):
    """out[i] = S/D at these places, infinite where nothing was pulled; agents of one kind counted together, as in `pool_plainly`."""
    agents = seen.agents
    A = len(agents.d)
    D, S, count, hits = work.floats[0], work.floats[1], work.floats[2], work.floats[3]
    for i in range(len(places)):
        D[i] = 0.0
        S[i] = 0.0
        count[i] = 0.0
        hits[i] = 0.0
    for q in range(A):
        a = agents.by_kind[q]
        k = agents.kind[a]
        c_a = seen.c[a].reshape(seen.c[a].size)
        y_a = seen.y[a].reshape(seen.y[a].size)
        for i in range(len(places)):
            count[i] += c_a[places[i]]
            hits[i] += y_a[places[i]]
        if q + 1 < A and agents.kind[agents.by_kind[q + 1]] == k:
            continue
        for i in range(len(places)):
            D[i] += agents.d_k[k] * count[i]
            S[i] += hits[i] - agents.phi_k[k] * count[i]
            count[i] = 0.0
            hits[i] = 0.0
    for i in range(len(places)):
        out[i] = S[i] / D[i] if D[i] > 0.0 else math.inf


@inner
def leave_rows(seen, out):
    """What a rule does that has no more to do with its index rows."""


def likelihood(choose, settle=leave_rows):
    """Rules for the exact likelihood of an arm's mean: choose(outcomes, peak, L, seen, places, work, index, estimate).

    It fills index[i] and, for a rule that sorts by it, estimate[i] at the places that are not remembered: whichever arms these
    belong to, as many are worked on at a time as there are lanes. What takes all arms of a lane together is up to settle(seen, out).
    """

    def fill(seen, desk, out):
        _, N, B = seen.c.shape
        J = len(seen.agents.r)
        K = len(seen.agents.s_k)
        remembered = seen.remembered.reshape(N * B)
        row = out[0].reshape(N * B)
        second = out[len(out) - 1].reshape(N * B)
        place = 0
        while place < N * B:
            todo = 0
            while place < N * B and todo < B:
                if not remembered[place]:
                    desk.places[todo] = place
                    todo += 1
                place += 1
            places = desk.places[:todo]
            work = narrowed(desk, todo)
            h = work.floats[:J]
            f = work.floats[J : J + K]
            outcomes = Outcomes(seen.agents.r, h, seen.agents.s_k, f, work.floats[J + K])
            count_by_kind(seen, places, outcomes)
            peak = work.floats[J + K + 1]
            index = work.floats[J + K + 2]
            estimate = work.floats[J + K + 3]
            L = work.floats[J + K + 4]
            for i in range(todo):
                L[i] = seen.L[places[i] % B]
            rest = beyond(work, J + K + 5, 0)
            fill_likeliest(outcomes, rest, peak)
            choose(outcomes, peak, L, seen, places, rest, index, estimate)
            for i in range(todo):
                row[places[i]] = index[i]
            if len(out) > 1:
                for i in range(todo):
                    second[places[i]] = estimate[i]
        settle(seen, out)

    return index_kernels(fill)


@compiled
def count_lane(seen, lane, room):
    """The hits and misses of every arm in one lane, by kind of agent."""
    agents = seen.agents
    A, N, _ = seen.c.shape
    room.h.fill(0.0)
    room.f.fill(0.0)
    for a in range(A):
        k = agents.kind[a]
        j = agents.root[k]
        for n in range(N):
            room.h[j, n] += seen.y[a, n, lane]
            room.f[k, n] += seen.c[a, n, lane] - seen.y[a, n, lane]


def believed(index_of, estimate_of):
    """Rules for the posterior under a prior: index_of(seen, n, lane) and estimate_of(seen, n), once the room has what is believed.

    One lane at a time, and every arm anew: where the prior is learned, what is seen of one arm moves all.
    """

    def fill(seen, desk, out):
        _, N, B = seen.c.shape
        for lane in range(B):
            count_lane(seen, lane, seen.room)
            fill_beliefs(seen.cells, seen.room)
            for n in range(N):
                out[0, n, lane] = index_of(seen, n, lane)
            if len(out) > 1:
                for n in range(N):
                    out[1, n, lane] = estimate_of(seen, n)

    return index_kernels(fill)


def pooled_band(estimate_of, half_width):
    """The intervals of a pooled rule: half_width(V, L) around estimate_of(W, V)."""

    def fill(seen, desk, estimate, width):
        middle = estimate[0].reshape(estimate[0].size)
        reach = width[0].reshape(width[0].size)
        for start in range(0, len(middle), STRIP):
            size = min(STRIP, len(middle) - start)
            L = seen.L[start % estimate.shape[2] :]
            V = desk.sums[0, :size]
            W = desk.sums[1, :size]
            pool(seen, start, desk, V, W)
            for i in range(size):
                seen_any = V[i] > 0.0
                middle[start + i] = estimate_of(W[i], V[i]) if seen_any else 0.5
                reach[start + i] = half_width(V[i], L[i]) if seen_any else math.inf

    return Band(kernel(fill, BAND), "arm")


def own_band(estimate_of, half_width):
    """The intervals of a rule of the agents' own outcomes: half_width(d, c, L) around estimate_of(d, phi, c, y)."""

    def fill(seen, desk, estimate, width):
        A, N, B = seen.c.shape
        for a in range(A):
            d = seen.agents.d[a]
            phi = seen.agents.phi[a]
            for n in range(N):
                for lane in range(B):
                    c = seen.c[a, n, lane]
                    y = seen.y[a, n, lane]
                    estimate[a, n, lane] = estimate_of(d, phi, c, y) if c > 0 else 0.5
                    width[a, n, lane] = half_width(d, c, seen.L[lane]) if c > 0 else math.inf

    return Band(kernel(fill, BAND), "agent")
