"""The decisions of the exact rules, by cheap numbers whose errors are known, and by exact ones only in doubt.

One new outcome barely moves a posterior. A cell holds what is known of one arm in one lane, and takes a new outcome
in by multiplying its densities at fixed nodes with the likelihood of that outcome: docs/engine.md has the equations.

    p_i = w_i f(x_i) span / Z, sum_i p_i = 1      the posterior at Gauss's nodes mu_i = low + span x_i
    mean = sum_i p_i mu_i;  ln Z grows by the logarithm of what was expected of the outcome

with f = exp(l) and l as in `likelihood`. What these sums are off by has two parts, both bounded:

    beyond the window   f is log-concave: beyond the last node it falls at least as it fell before it
    within it           f is a polynomial in mu with as many degrees as there were pulls. Of at most 2 Q - 2 the Q nodes
                        have mean and Z exactly; of more, they are off by less than 2.84 M / RHO^(2 Q - 2), where M is the
                        greatest |f| on Bernstein's ellipse RHO around the window, relative to Z: it is watched at ELLIPSE

When the bound is more than TOLERANCE, the nodes are laid anew around the mean.
"""

import itertools
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import boolean, config, float64, int32, int64, typeof, void

from heterobandits.core.assignment import assign, narrowed_table
from heterobandits.core.compiled import approximate, inlined, inner, kernel
from heterobandits.core.elementary import exp, ln
from heterobandits.core.posterior import gauss
from heterobandits.core.seen import AGENTS

Q = 32
NODES, WEIGHTS = gauss(Q)
STRETCH = 2.0
ANGLES = np.pi * (np.arange(8) + 0.5) / 8
ELLIPSE_X = 0.5 + 0.25 * (STRETCH + 1.0 / STRETCH) * np.cos(ANGLES)
ELLIPSE_Y = 0.25 * (STRETCH - 1.0 / STRETCH) * np.sin(ANGLES)
BETWEEN = 20.0  # M may be that much greater between those points
OFF = BETWEEN * (32.0 / 15.0) * STRETCH ** (-2.0 * (Q - 1)) / (1.0 - STRETCH**-2.0)
FEW = 2 * Q - 2  # pulls: the nodes on [0, 1] are exact
ROUNDED = 1e-12
TOLERANCE = 1e-7
REACH = 7.0  # standard deviations
DEEP = 23.0  # the least that l falls from the mean to the window's end
SMALLEST = 1e-250  # a product of expectations, before its logarithm is taken; none is larger than its reciprocal
# of an arm that are known by heart, if its index lasts or not; few where nothing is compiled, and that takes long
MOST_STATES = {True: 2**5, False: 2**4} if config.DISABLE_JIT else {True: 2**13, False: 2**11}
LOWEST = 600.0  # e to minus this power is as good as 0
LONGEST = 4000.0  # outcomes that are taken in before the nodes are laid anew: sums are rounded
STEPS = 8
CLEARLY = 1e-5  # more than l and ln Z are off by
COARSE = 3e-4  # what an index may be off by, in terms of the log term
TAIL_NODES, TAIL_WEIGHTS = gauss(16)
TAIL_DEEP = 14.0  # the same for the tail beyond an index, which need not be as exact
TAIL_TOLERANCE = 1e-4
TAIL_STRETCH = 3.0
TAIL_LONGER = 0.25 * (TAIL_STRETCH + 1.0 / TAIL_STRETCH) - 0.5
TAIL_WIDE = 0.25 * (TAIL_STRETCH - 1.0 / TAIL_STRETCH)
TAIL_FEW = 31  # pulls: the nodes are exact
TAIL_OFF = (32.0 / 15.0) * TAIL_STRETCH ** (-2.0 * 15) / (1.0 - TAIL_STRETCH**-2.0)
NEARLY = 1.0 - 1e-6
POINTS = len(ANGLES)
LOW, HIGH, SPAN, MEAN, EVIDENCE, PULLS, SINCE, EXPECTED, WORST, COUNTS = range(
    Q + POINTS, Q + POINTS + 10
)
AT, LEVEL, SLOPE, BEND, TWIST, BLUR = range(6)


class Few(NamedTuple):
    """What the exact rule says of an arm after few pulls: values[row, rank] by the rank of what was seen.

    Of D counts with the sums S_d of the first d + 1 of them the rank is sum_d ranks[d, S_d] = sum_d C(S_d + d, d + 1).
    The first row holds only if the index lasts: until its arm is pulled again. It is sought below 1, and may reach beyond; the curve whose
    root it is has a pole.
    """

    values: np.ndarray
    ranks: np.ndarray
    lasts: bool
    pole: float
    reaches: bool


class Cells(NamedTuple):
    """What a filter remembers of a block of trials.

    cell[n, lane] is what is known of an arm: p_i, |f|^2 at the ellipse, the rest by the names above and then the
    hits and misses by kind. off[row, n, lane] is what index[row, n, lane] may be off by, 0 where it is exact. hits[a, lane]
    are the last round's, and ends[i, n, lane] what is known of the index: AT a place, LEVEL, SLOPE, BEND, TWIST of the curve there and
    BLUR, by how much its level may be wrong; a SLOPE of 0 means nothing. The rest is room to work in.
    """

    index: np.ndarray
    cell: np.ndarray
    ends: np.ndarray
    off: np.ndarray
    hits: np.ndarray
    kept: np.ndarray
    close: np.ndarray
    low: np.ndarray
    high: np.ndarray
    lanes: np.ndarray
    arms: np.ndarray
    room: np.ndarray
    tail: np.ndarray
    rows: np.ndarray
    ties: np.ndarray
    sent: np.ndarray


def cell_bytes(counts):
    """The size of a cell, in whole lines of a cache."""
    return -(-(COUNTS + counts) // 8) * 64


def cells(agents, lanes, index, counts):
    """Room for as many, beside the rows of indices; `counts` is how many hits and misses are told apart. Without lanes there
    is no filter."""
    size = cell_bytes(counts) // 8
    rows, arms, _ = index.shape
    return Cells(
        index=index,
        cell=np.empty((arms, lanes, size)),
        ends=np.empty((6, arms, lanes)),
        off=np.empty((rows, arms, lanes)),
        hits=np.empty((agents, lanes), np.int32),
        kept=np.empty((arms, lanes), np.bool_),
        close=np.empty(lanes, np.bool_),
        low=np.empty(lanes),
        high=np.empty(lanes),
        lanes=np.empty(arms * lanes, np.int64),
        arms=np.empty(arms * lanes, np.int64),
        room=np.empty((6, lanes)),
        tail=np.empty(len(TAIL_NODES)),
        rows=np.empty(rows * arms * lanes),
        ties=np.empty(arms * lanes, np.uint32),
        sent=np.empty(agents * lanes, np.int32),
    )


CELLS = typeof(cells(1, 1, np.empty((1, 1, 1)), 1))
FEW_TYPE = typeof(Few(np.empty((1, 1)), np.empty((1, 1), np.int64), True, 1.0, True))
REFRESH = void(AGENTS, float64[::1], FEW_TYPE, int64[::1], int32[:, ::1], boolean, CELLS)


@cache
def few_states(counts, limit):
    """At most so many that can have been seen after few pulls, [state, count] by rank, and the ranks as `Few` has them."""
    most = 0
    while most < FEW and math.comb(most + 1 + counts, counts) <= limit:
        most += 1
    ranks = np.array([[math.comb(s + d, d + 1) for s in range(most + 1)] for d in range(counts)])
    states = np.array(sorted(itertools.combinations_with_replacement(range(most + 1), counts)))
    order = np.argsort(ranks[np.arange(counts), states].sum(axis=1))
    return np.diff(states[order], axis=1, prepend=0), ranks


@inner
def begin_cells(few, cells):
    """Nothing is known."""
    N, B, _ = cells.cell.shape
    cells.off.fill(0.0)
    cells.kept.fill(True)
    cells.cell.fill(0.0)
    cells.ends.fill(0.0)
    for n in range(N):
        for lane in range(B):
            for row in range(len(cells.index)):
                cells.index[row, n, lane] = few.values[row, 0]


@approximate
def height(cell, r, s, mu):
    """l(mu)   docs/beyond.md (3)"""
    J = len(r)
    total = 0.0
    for j in range(J):
        h = cell[COUNTS + j]
        total += h * ln(mu + r[j]) if h > 0.0 else 0.0
    for k in range(len(s)):
        f = cell[COUNTS + J + k]
        total += f * ln(1.0 - s[k] * mu) if f > 0.0 else 0.0
    return total


@approximate
def learn(cell, alpha, beta):
    """Take in an outcome that a mean mu makes as likely as alpha + beta mu."""
    low, span, mean = cell[LOW], cell[SPAN], cell[MEAN]
    expected = alpha + beta * mean
    per = 1.0 / expected
    start = (alpha + beta * low) * per
    step = beta * span * per
    mass = 0.0
    moment = 0.0
    for i in range(len(NODES)):
        p = cell[i] * (start + step * NODES[i])
        cell[i] = p
        mass += p
        moment += p * NODES[i]
    worst = 0.0
    for j in range(len(ELLIPSE_X)):
        real = start + step * ELLIPSE_X[j]
        imaginary = step * ELLIPSE_Y[j]
        square = cell[Q + j] * (real * real + imaginary * imaginary)
        cell[Q + j] = square
        worst += square
    cell[WORST] = worst
    product = cell[EXPECTED] * expected
    if product < SMALLEST or product > 1.0 / SMALLEST:
        cell[EVIDENCE] += ln(product)
        product = 1.0
    cell[EXPECTED] = product
    cell[MEAN] = low + span * moment / mass
    cell[SINCE] += 1.0


@inlined
def slim(cell, last, before):
    """Whether less than a third of the TOLERANCE is beyond the last node: f has fallen from the node before, by the factor
    r say, so that it goes on to fall at least that fast, and less than end wide / (1 - r) is there."""
    end = cell[last] * (1.0 / WEIGHTS[last])
    inside = cell[before] * (1.0 / WEIGHTS[before])
    wide = abs(NODES[last] - NODES[before])
    return end * wide * inside <= (TOLERANCE / 3.0) * (inside - end)


@inlined
def error(cell):
    """A bound on what Z is off by, relative to it; infinite if it is more than the TOLERANCE."""
    if cell[SPAN] == 1.0 and cell[PULLS] <= FEW:
        return ROUNDED
    good = cell[WORST] <= (TOLERANCE / (3.0 * OFF)) ** 2.0
    good &= cell[LOW] == 0.0 or slim(cell, 0, 1)
    good &= cell[HIGH] == 1.0 or slim(cell, Q - 1, Q - 2)
    return TOLERANCE if good else math.inf


@approximate
def lay_anew(cell, r, s):
    """Lay the nodes around the mean, or on [0, 1], and compute what is known there."""
    J = len(r)
    low = 0.0
    high = 1.0
    if cell[SPAN] > 0.0 and cell[PULLS] > FEW:
        mean = cell[MEAN]
        inside = (mean - cell[LOW]) / cell[SPAN]
        spread = 0.0
        for i in range(len(NODES)):
            spread += cell[i] * (NODES[i] - inside) * (NODES[i] - inside)
        sigma = cell[SPAN] * math.sqrt(spread)
        level = height(cell, r, s, mean) - DEEP
        low = max(0.0, mean - REACH * sigma)
        while low > 0.0 and height(cell, r, s, low) > level:
            low = max(0.0, low - sigma)
        while height(cell, r, s, low + 0.5 * sigma) < level:
            low += 0.5 * sigma
        high = min(1.0, mean + REACH * sigma)
        while high < 1.0 and height(cell, r, s, high) > level:
            high = min(1.0, high + sigma)
        while height(cell, r, s, high - 0.5 * sigma) < level:
            high -= 0.5 * sigma
    span = high - low
    for i in range(len(NODES)):
        cell[i] = 0.0
    for j in range(J):
        h = cell[COUNTS + j]
        for i in range(len(NODES)):
            cell[i] += h * ln(low + span * NODES[i] + r[j])
    for k in range(len(s)):
        f = cell[COUNTS + J + k]
        for i in range(len(NODES)):
            cell[i] += f * ln(1.0 - s[k] * (low + span * NODES[i]))
    top = cell[0]
    for i in range(len(NODES)):
        top = max(top, cell[i])
    mass = 0.0
    moment = 0.0
    for i in range(len(NODES)):
        p = WEIGHTS[i] * exp(max(-LOWEST, cell[i] - top))
        cell[i] = p
        mass += p
        moment += p * NODES[i]
    per = 1.0 / mass
    for i in range(len(NODES)):
        cell[i] *= per
    worst = 0.0
    for q in range(len(ELLIPSE_X)):
        x = low + span * ELLIPSE_X[q]
        y = span * ELLIPSE_Y[q]
        total = -2.0 * (top + ln(mass))
        for j in range(J):
            real = x + r[j]
            total += cell[COUNTS + j] * ln(real * real + y * y)
        for k in range(len(s)):
            real = 1.0 - s[k] * x
            total += cell[COUNTS + J + k] * ln(real * real + s[k] * s[k] * y * y)
        cell[Q + q] = exp(min(LOWEST, max(-LOWEST, total)))
        worst += cell[Q + q]
    cell[LOW] = low
    cell[HIGH] = high
    cell[SPAN] = span
    cell[MEAN] = low + span * moment * per
    cell[EVIDENCE] = top + ln(mass * span)
    cell[WORST] = worst
    cell[SINCE] = 0.0
    cell[EXPECTED] = 1.0


@inlined
def rank(cell, few):
    """The rank of what was seen."""
    total = 0
    sum_ = 0
    for d in range(len(few.ranks)):
        sum_ += np.int64(cell[COUNTS + d])
        total += few.ranks[d, sum_]
    return total


@approximate
def evaluate(L, pole, cells):
    """The indices by the parabolas that touch, and what they are off by at most.

    index = the root of g(x) = L + level + slope (x - at) - bend (x - at)^2 / 2 - ... beyond `at` or before it. No third
    derivative nearby is larger than three times the twist. Where the step is too long for that, or leads beyond 1, it is cut, and
    nothing is known.
    """
    ends = cells.ends
    _, N, B = ends.shape
    for n in range(N):
        at_n, level_n, slope_n = ends[AT, n], ends[LEVEL, n], ends[SLOPE, n]
        bend_n, twist_n, blur_n = ends[BEND, n], ends[TWIST, n], ends[BLUR, n]
        index, off = cells.index[0, n], cells.off[0, n]
        for i in range(B):
            excess = L[i] + level_n[i]
            inside = slope_n[i] * slope_n[i] + 2.0 * bend_n[i] * excess
            known = slope_n[i] < 0.0
            good = known & (inside > 0.0)
            root = math.sqrt(inside if good else 1.0)
            step = 2.0 * excess / (root - slope_n[i]) if good else 0.0
            size = abs(step)
            fall = step if step < 0.0 else 0.0
            steep = bend_n[i] * fall - slope_n[i]
            room = at_n[i] if at_n[i] < pole - at_n[i] else pole - at_n[i]
            cubic = 0.5 * twist_n[i] * size * size * size
            reach = 1.25 * (cubic + blur_n[i]) / steep
            near = good & (size <= 0.05 * room) & (steep > 0.0) & (cubic <= COARSE)
            far = at_n[i] + step >= NEARLY
            reach = math.inf if (not near) | far else reach
            half = 0.5 * room
            step = step if step < half else half
            step = step if step > -half else -half
            index[i] = at_n[i] + step if known else index[i]
            off[i] = reach if known else off[i]


@inlined
def blur(cell):
    """What ln Z and l are off by, at most."""
    return 1.1 * TOLERANCE + ROUNDED * (10.0 + abs(cell[EVIDENCE]))


@inlined
def put_end(cells, n, lane, level, slope, bend, twist):
    """Note what is known of an index."""
    cells.ends[LEVEL, n, lane] = level
    cells.ends[SLOPE, n, lane] = slope
    cells.ends[BEND, n, lane] = bend
    cells.ends[TWIST, n, lane] = twist


@approximate
def fill_derivatives(arms, lanes, r, s, cells, at, level, slope, bend, twist, count):
    """Add l(at) to the level, l' to the slope, -l'' to the bend, and to the twist half a bound on the third derivative.

    That is no larger than 1.17 times that within a twentieth of the way to a pole.
    """
    J = len(r)
    for j in range(J):
        r_j = r[j]
        for i in range(len(arms)):
            count[i] = cells.cell[arms[i], lanes[i], COUNTS + j]
        for i in range(len(arms)):
            rise = 1.0 / (at[i] + r_j)
            level[i] -= count[i] * ln(rise)
            weight = count[i] * rise
            slope[i] += weight
            weight *= rise
            bend[i] += weight
            twist[i] += weight * rise
    for k in range(len(s)):
        s_k = s[k]
        for i in range(len(arms)):
            count[i] = cells.cell[arms[i], lanes[i], COUNTS + J + k]
        for i in range(len(arms)):
            rest = 1.0 - s_k * at[i]
            pull = s_k / rest
            level[i] += count[i] * ln(rest)
            weight = count[i] * pull
            slope[i] -= weight
            weight *= pull
            bend[i] += weight
            twist[i] += weight * pull


@approximate
def expand_ratio(arms, lanes, r, s, cells):
    """l - ln Z and its derivatives at the places where indices are expected   docs/beyond.md (6)"""
    room = cells.room
    at, level, slope, bend, twist, count = room[0], room[1], room[2], room[3], room[4], room[5]
    for i in range(len(arms)):
        n, lane = arms[i], lanes[i]
        cell = cells.cell[n, lane]
        at[i] = cells.ends[AT, n, lane]
        count[i] = cell[EXPECTED]
        level[i] = -cell[EVIDENCE]
    for i in range(len(arms)):
        level[i] -= ln(count[i])
        slope[i] = 0.0
        bend[i] = 0.0
        twist[i] = 0.0
    fill_derivatives(arms, lanes, r, s, cells, at, level, slope, bend, twist, count)
    for i in range(len(arms)):
        n, lane = arms[i], lanes[i]
        put_end(cells, n, lane, level[i], slope[i], bend[i], twist[i])
        cells.ends[BLUR, n, lane] = blur(cells.cell[n, lane])


@inlined
def wildest(cell, r, s, at, span, slope):
    """A bound on ln |f| on the ellipse TAIL_STRETCH around [at, at + span], relative to f(at).

    l is concave, so that it is at most l(at) + slope (x - at); off the real axis, at x + i y, every factor grows by at most
    exp(y^2 / 2) over its distance to 0 squared. Of few hits it is better to take each factor at its largest.
    """
    J = len(r)
    least = at - TAIL_LONGER * span
    most = at + (1.0 + TAIL_LONGER) * span
    square = (TAIL_WIDE * span) ** 2.0
    hits = 0.0
    each = 0.0
    for j in range(J):
        h = cell[COUNTS + j]
        x = least + r[j]
        hits += 0.5 * h * square / (x * x) if x > 0.0 else (math.inf if h > 0.0 else 0.0)
        x = (most + r[j]) / (at + r[j])
        each += 0.5 * h * ln(x * x + square / (at + r[j]) ** 2.0)
    misses = 0.0
    alone = 0.0
    for k in range(len(s)):
        s_k = s[k]
        f = cell[COUNTS + J + k]
        rest = 1.0 - s_k * most
        misses += (
            0.5 * f * s_k * s_k * square / (rest * rest)
            if rest > 0.0
            else (math.inf if f > 0.0 else 0.0)
        )
        rest = 1.0 - s_k * least
        alone += 0.5 * f * ln((rest * rest + s_k * s_k * square) / (1.0 - s_k * at) ** 2.0)
    steep = max(-slope * TAIL_LONGER, slope * (1.0 + TAIL_LONGER)) * span
    return min(hits + misses + steep, each + alone)


@approximate
def expand_quantile(arms, lanes, r, s, cells):
    """The logarithm of the posterior's tail and its derivatives, likewise   docs/beyond.md (11)"""
    J = len(r)
    density = cells.tail
    for i in range(len(arms)):
        n, lane = arms[i], lanes[i]
        cell = cells.cell[n, lane]
        at = cells.ends[AT, n, lane]
        top = 0.0
        slope = 0.0
        bend = 0.0
        for j in range(J):
            rise = 1.0 / (at + r[j])
            weight = cell[COUNTS + j] * rise
            top -= cell[COUNTS + j] * ln(rise)
            slope += weight
            bend += weight * rise
        for k in range(len(s)):
            s_k = s[k]
            pull = s_k / (1.0 - s_k * at)
            weight = cell[COUNTS + J + k] * pull
            top += cell[COUNTS + J + k] * ln(1.0 - s_k * at)
            slope -= weight
            bend += weight * pull
        pace = math.sqrt(slope * slope + 2.0 * TAIL_DEEP * bend) - slope
        span = 1.0 - at
        if cell[PULLS] > TAIL_FEW:
            span = min(span, 2.0 * TAIL_DEEP / pace)
        mass = 0.0
        for _ in range(3):
            for q in range(len(TAIL_NODES)):
                density[q] = -top
            for j in range(J):
                r_j, h = r[j], cell[COUNTS + j]
                for q in range(len(TAIL_NODES)):
                    density[q] += h * ln(at + span * TAIL_NODES[q] + r_j)
            for k in range(len(s)):
                s_k, f = s[k], cell[COUNTS + J + k]
                for q in range(len(TAIL_NODES)):
                    density[q] += f * ln(1.0 - s_k * (at + span * TAIL_NODES[q]))
            mass = 0.0
            for q in range(len(TAIL_NODES)):
                density[q] = exp(max(-LOWEST, density[q]))
                mass += TAIL_WEIGHTS[q] * density[q]
            last, before = density[len(TAIL_NODES) - 1], density[len(TAIL_NODES) - 2]
            wide = TAIL_NODES[len(TAIL_NODES) - 1] - TAIL_NODES[len(TAIL_NODES) - 2]
            if span == 1.0 - at or last * wide * before <= TAIL_TOLERANCE * mass * (before - last):
                break
            span = min(1.0 - at, 1.4 * span)
            mass = 0.0
        few = cell[PULLS] <= TAIL_FEW
        wild = 0.0 if few else wildest(cell, r, s, at, span, slope)
        cells.ends[SLOPE, n, lane] = 0.0
        if mass > 0.0 and (few or TAIL_OFF * exp(min(LOWEST, wild)) <= TAIL_TOLERANCE * mass):
            mass *= span
            hazard = 1.0 / mass
            more = slope + hazard
            level = top + ln(mass) - cell[EVIDENCE] - ln(cell[EXPECTED])
            third = hazard * (more * more + hazard * more - bend)
            twist = abs(third) + 0.1 * hazard * bend
            put_end(cells, n, lane, level, -hazard, hazard * max(0.0, more), twist)
            cells.ends[BLUR, n, lane] = blur(cell) + 2.0 * TAIL_TOLERANCE


@inlined
def take_in(cell, hits, misses, agents, k):
    """Take in the outcomes of a visit by an agent of the k-th kind; what Z is then off by."""
    if cell[SPAN] == 0.0:
        lay_anew(cell, agents.r, agents.s_k)
    else:
        for _ in range(hits):
            learn(cell, agents.r[agents.root[k]], 1.0)
        for _ in range(misses):
            learn(cell, 1.0, -agents.s_k[k])
    off = error(cell)
    if off > TOLERANCE or cell[SINCE] > LONGEST:
        lay_anew(cell, agents.r, agents.s_k)
        off = error(cell)
    return off


@approximate
def expand_nothing(arms, lanes, r, s, cells):
    """For rules whose index is a draw: where there are as many agents as arms, it need not be known."""


@inlined
def prepare(cell, at, L, few, r, s, cells, n, lane):
    """Whether an index should be expanded, at a place that is noted; it may be known at once, or be left in doubt.

    Where l has not fallen far enough at 1, what is left is the index of the exact rule.
    """
    if cell[SPAN] == 0.0:
        lay_anew(cell, r, s)
    cells.off[0, n, lane] = math.inf
    cells.ends[SLOPE, n, lane] = 0.0
    cells.ends[AT, n, lane] = at
    if at <= 0.0 or error(cell) > TOLERANCE:
        return False
    if at < NEARLY:
        return True
    if not few.reaches:
        return False
    if cell[PULLS] == 0.0:
        cells.index[0, n, lane] = math.inf
        cells.off[0, n, lane] = 0.0
        return False
    left = L - cell[EVIDENCE] - ln(cell[EXPECTED])
    for k in range(len(s)):
        if s[k] == 1.0 and cell[COUNTS + len(r) + k] > 0.0:  # who cannot miss at a mean of 1
            left = -math.inf
    if left > -math.inf:
        left += height(cell, r, s, 1.0)
    if left > CLEARLY:
        cells.index[0, n, lane] = 1.0 + left
        cells.off[0, n, lane] = blur(cell)
        return False
    cells.ends[AT, n, lane] = 0.5 * (cell[MEAN] + 1.0)
    return left < -CLEARLY


def filtered(expand):
    """Rules whose index is a root that `expand` finds."""

    def refresh(agents, L, few, tests, sent, sorts, cells):
        A = len(sent)
        N, B = cells.index.shape[1:]
        J = len(agents.r)
        most = few.ranks.shape[1] - 1
        indexed = A < N or not sorts
        ends = cells.ends
        listed = 0
        for a in range(A):
            k = agents.kind[a]
            j = agents.root[k]
            for lane in range(B):
                n = sent[a, lane]
                if n < 0:
                    continue
                cell = cells.cell[n, lane]
                hits = cells.hits[a, lane]
                misses = tests[a] - hits
                cell[PULLS] += tests[a]
                cell[COUNTS + j] += hits
                cell[COUNTS + J + k] += misses
                if cell[PULLS] <= most:
                    known = rank(cell, few)
                    if sorts:
                        cells.index[1, n, lane] = few.values[1, known]
                    if few.lasts:
                        cells.index[0, n, lane] = few.values[0, known]
                        ends[AT, n, lane] = few.values[0, known]
                        continue
                off = take_in(cell, hits, misses, agents, k)
                if sorts and cell[PULLS] > most:
                    cells.index[1, n, lane] = cell[MEAN]
                    cells.off[1, n, lane] = 4.0 * off
                if indexed:
                    cells.index[0, n, lane] = cell[MEAN]
                    cells.off[0, n, lane] = math.inf
                    ends[SLOPE, n, lane] = 0.0
                    cells.arms[listed] = n
                    cells.lanes[listed] = lane
                    listed += 1
        if not indexed:
            return
        for turn in range(STEPS):
            if not few.lasts and turn < 2:  # any index may have moved
                listed = 0
                for n in range(N):
                    for lane in range(B):
                        if (
                            ends[SLOPE, n, lane] == 0.0
                            if turn == 0
                            else cells.off[0, n, lane] == math.inf
                        ):
                            cells.arms[listed] = n
                            cells.lanes[listed] = lane
                            listed += 1
            todo = 0
            for i in range(listed):
                n, lane = cells.arms[i], cells.lanes[i]
                new = ends[SLOPE, n, lane] == 0.0
                if turn == 0 or (not new and cells.off[0, n, lane] == math.inf):
                    at = ends[AT, n, lane] if new else cells.index[0, n, lane]
                    cell = cells.cell[n, lane]
                    if prepare(cell, at, L[lane], few, agents.r, agents.s_k, cells, n, lane):
                        cells.arms[todo] = n
                        cells.lanes[todo] = lane
                        todo += 1
            listed = todo
            if turn > 0 and listed == 0:
                break
            for start in range(0, listed, B):
                stop = min(listed, start + B)
                arms, lanes = cells.arms[start:stop], cells.lanes[start:stop]
                expand(arms, lanes, agents.r, agents.s_k, cells)
            evaluate(L, few.pole, cells)

    return kernel(refresh, REFRESH)


def _refresh_nothing(agents, L, few, tests, sent, sorts, cells):
    """For rules without a filter."""


NOTHING = kernel(_refresh_nothing, REFRESH)


@inner
def find_doubts(sent, order, sorts, cells):
    """Which lanes are in doubt, and how many; kept[n, lane] is false where an exact number is called for."""
    index = cells.index
    N, B = index.shape[1:]
    A = len(order)
    off, kept = cells.off, cells.kept
    close, low, high = cells.close, cells.low, cells.high
    for lane in range(B):
        close[lane] = False
    if A < N:
        for lane in range(B):
            low[lane] = math.inf
            high[lane] = -math.inf
        for n in range(N):
            arm = np.int32(n)
            row, off_n = index[0, n], off[0, n]
            for lane in range(B):
                close[lane] = False
            for a in range(A):
                sent_a = sent[a]
                for lane in range(B):
                    close[lane] |= sent_a[lane] == arm
            for lane in range(B):
                under = row[lane] - off_n[lane] if close[lane] else math.inf
                low[lane] = under if under < low[lane] else low[lane]
            for lane in range(B):
                over = -math.inf if close[lane] else row[lane] + off_n[lane]
                high[lane] = over if over > high[lane] else high[lane]
        for lane in range(B):
            close[lane] = not low[lane] > high[lane]
    row = 1 if sorts else 0
    rank, off_rank = index[row], off[row]
    for q in range(A - 1):
        sent_q, sent_p = sent[order[q]], sent[order[q + 1]]
        for lane in range(B):
            n, m = sent_q[lane], sent_p[lane]
            apart = rank[n, lane] - rank[m, lane] > off_rank[n, lane] + off_rank[m, lane]
            close[lane] |= not apart
    doubts = 0
    for lane in range(B):
        if not close[lane]:
            continue
        found = False
        if A < N:
            lowest = math.inf
            for a in range(A):
                n = sent[a, lane]
                lowest = min(lowest, index[0, n, lane] - off[0, n, lane])
            highest = -math.inf
            for n in range(N):
                free = True
                for a in range(A):
                    free &= sent[a, lane] != n
                if free:
                    reach = index[0, n, lane] + off[0, n, lane]
                    highest = max(highest, reach)
                    if reach >= lowest and off[0, n, lane] > 0.0:
                        kept[n, lane] = False
                        found = True
            for a in range(A):
                n = sent[a, lane]
                if index[0, n, lane] - off[0, n, lane] <= highest and off[0, n, lane] > 0.0:
                    kept[n, lane] = False
                    found = True
        for q in range(A - 1):
            n = sent[order[q], lane]
            m = sent[order[q + 1], lane]
            apart = off[row, n, lane] + off[row, m, lane]
            if apart > 0.0 and not index[row, n, lane] - index[row, m, lane] > apart:
                found = True
                if off[row, n, lane] > 0.0:
                    kept[n, lane] = False
                if off[row, m, lane] > 0.0:
                    kept[m, lane] = False
        if found:
            cells.lanes[doubts] = lane
            doubts += 1
    return doubts


@inner
def take_exact(cells):
    """Note which numbers are exact now; the next steps to the index begin there."""
    index = cells.index
    rows, N, B = index.shape
    for n in range(N):
        for lane in range(B):
            if not cells.kept[n, lane]:
                cells.kept[n, lane] = True
                for row in range(rows):
                    cells.off[row, n, lane] = 0.0
                cells.ends[AT, n, lane] = index[0, n, lane]
                cells.ends[SLOPE, n, lane] = 0.0


@inner
def assign_again(doubts, ties, dealt, order, cells, table, sent):
    """Who goes where in the lanes of doubt."""
    index = cells.index
    rows, N, _ = index.shape
    A = len(order)
    some = cells.rows[: rows * N * doubts].reshape((rows, N, doubts))
    some_ties = cells.ties[: N * doubts].reshape((N, doubts))
    some_sent = cells.sent[: A * doubts].reshape((A, doubts))
    for n in range(N):
        for i in range(doubts):
            lane = cells.lanes[i]
            some_ties[n, i] = ties[n, lane]
            for row in range(rows):
                some[row, n, i] = index[row, n, lane]
    assign(some, some_ties, some_ties, dealt, order, narrowed_table(table, doubts), some_sent)
    for a in range(A):
        for i in range(doubts):
            sent[a, cells.lanes[i]] = some_sent[a, i]
