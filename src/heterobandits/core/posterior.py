"""The posterior of an arm's mean under a uniform prior on [0, 1]: its evidence, mean and quantiles, draws from it.

With l the log-likelihood of `likelihood`, and in the same lanes,

    Z = integral of exp(l) over [0, 1]                                  docs/beyond.md (5)

exp(l) is log-concave, so what lies where l is more than DEPTH below its greatest value on [0, 1] is
a share of less than exp(-DEPTH) of Z. On the rest Gauss's quadrature with a fixed number of nodes is
as good as exact: exp(l) is a polynomial of as many degrees as there were pulls, or close to a
normal density if these are many.
"""

import math
from decimal import Decimal, localcontext

import numpy as np

from heterobandits.core.compiled import compiled, inner
from heterobandits.core.elementary import exp, ln
from heterobandits.core.likelihood import (
    ABOVE,
    BELOW,
    CLOSE,
    MOST_STEPS,
    fill_curvatures,
    fill_fallen,
    fill_greatest,
    fill_heights_and_slopes,
    fill_log_likelihoods,
    fill_slopes,
)
from heterobandits.core.randomness import WORD_SIZE, fill_stream
from heterobandits.core.work import KEYS, beyond

DEPTH = 27.0
SLACK = 3.5  # it need not be exact
FEW = 24  # successes so few that the density reaches down to 0 on the scale of its width


def gauss(count):
    """Nodes and weights of Gauss's quadrature on [0, 1], correctly rounded: the same bits on any machine.

    The nodes are the roots of the Legendre polynomial P of that degree, by Newton's method in 40 digits.
    """
    nodes, weights = np.empty((2, count))
    with localcontext(prec=40):
        for i in range(count):
            x = Decimal(-math.cos(math.pi * (i + 0.75) / (count + 0.5)))
            for _ in range(8):
                before, P = Decimal(1), x
                for k in range(1, count):
                    before, P = P, ((2 * k + 1) * x * P - k * before) / (k + 1)
                slope = count * (x * P - before) / (x * x - 1)
                x -= P / slope
            nodes[i] = (1 + x) / 2
            weights[i] = 1 / ((1 - x * x) * slope * slope)
    return nodes, weights


NODES, WEIGHTS = gauss(28)
MOST_ATTEMPTS = 1000  # more than half of them succeed


@inner
def fill_ends(peak, greatest, seen, work, top, low, high):
    """top[lane] = the greatest l on [0, 1]; low, high = where l has fallen by DEPTH from it, or 0, 1."""
    B = len(peak)
    drop = work.floats[0]
    inside = work.floats[1]
    rest = beyond(work, 2, 0)
    any_many = False
    for lane in range(B):
        inside[lane] = peak[lane] if peak[lane] < 1.0 else 1.0
        drop[lane] = DEPTH
    fill_greatest(inside, seen, rest, top)
    fill_fallen(ABOVE, 1.0, drop, SLACK, peak, greatest, seen, rest, high)
    for lane in range(B):
        many = seen.Y[lane] > FEW
        any_many = any_many | many
        low[lane] = 0.0
        drop[lane] = DEPTH + (greatest[lane] - top[lane]) if many else 0.0
    if any_many:
        fill_fallen(BELOW, 1.0, drop, SLACK, peak, greatest, seen, rest, inside)
        for lane in range(B):
            low[lane] = inside[lane] if drop[lane] > 0.0 else 0.0


@inner
def fill_density(node, low, high, top, seen, mu, out):
    """out[lane] = exp(l(mu) - top) at mu[lane], which is set to low + (high - low) node."""
    for lane in range(len(mu)):
        mu[lane] = low[lane] + (high[lane] - low[lane]) * node
    fill_log_likelihoods(mu, seen, out)
    for lane in range(len(mu)):
        out[lane] = exp(out[lane] - top[lane])


@compiled
def fill_posterior(peak, greatest, seen, work, log_evidence, mean):
    """log_evidence[lane] = ln Z, and the posterior mean."""
    B = len(peak)
    top = work.floats[0]
    low = work.floats[1]
    high = work.floats[2]
    mu = work.floats[3]
    density = work.floats[4]
    mass = work.floats[5]
    moment = work.floats[6]
    fill_ends(peak, greatest, seen, beyond(work, 7, 0), top, low, high)
    for lane in range(B):
        mass[lane] = 0.0
        moment[lane] = 0.0
    for i in range(len(NODES)):
        fill_density(NODES[i], low, high, top, seen, mu, density)
        for lane in range(B):
            mass[lane] += WEIGHTS[i] * density[lane]
            moment[lane] += WEIGHTS[i] * density[lane] * mu[lane]
    for lane in range(B):
        log_evidence[lane] = top[lane] + ln(mass[lane] * (high[lane] - low[lane]))
        mean[lane] = moment[lane] / mass[lane]


@compiled
def fill_quantiles(L, peak, greatest, log_evidence, seen, work, mu):
    """mu[lane] = the mean that is exceeded with posterior probability exp(-L[lane]); the posterior mean before.

    From there Newton's method on the logarithm of the tail's mass, which is concave in mu, in a bracket. The
    tail ends where it is as small beside the mass sought as what `fill_ends` leaves out is beside Z.
    """
    B = len(peak)
    top = work.floats[0]
    low = work.floats[1]
    high = work.floats[2]
    end = work.floats[3]
    at = work.floats[4]
    density = work.floats[5]
    tail = work.floats[6]
    active = work.flags[0]
    rest = beyond(work, 7, 1)
    fill_ends(peak, greatest, seen, rest, top, low, high)
    for lane in range(B):
        tail[lane] = DEPTH + L[lane] + (greatest[lane] - log_evidence[lane])
    fill_fallen(ABOVE, 1.0, tail, SLACK, peak, greatest, seen, rest, end)
    for lane in range(B):
        high[lane] = end[lane]
        active[lane] = L[lane] > 0.0
    for _ in range(MOST_STEPS):
        for lane in range(B):
            tail[lane] = 0.0
        for i in range(len(NODES)):
            fill_density(NODES[i], mu, end, top, seen, at, density)
            for lane in range(B):
                tail[lane] += WEIGHTS[i] * density[lane]
        fill_density(0.0, mu, end, top, seen, at, density)
        moving = 0
        for lane in range(B):
            mass = tail[lane] * (end[lane] - mu[lane])
            excess = ln(mass) + top[lane] - log_evidence[lane] + L[lane]
            low[lane] = mu[lane] if excess > 0.0 else low[lane]
            high[lane] = high[lane] if excess > 0.0 else mu[lane]
            after = mu[lane] + excess * mass / density[lane]
            inside = (after >= low[lane]) & (after <= high[lane])
            after = after if inside else 0.5 * (low[lane] + high[lane])
            step = abs(after - mu[lane])
            mu[lane] = after if active[lane] else mu[lane]
            active[lane] = active[lane] & (step > CLOSE * after)
            moving += active[lane]
        if moving == 0:
            break
    for lane in range(B):
        mu[lane] = mu[lane] if L[lane] > 0.0 else 0.0  # exceeded with certainty


@compiled
def fill_bound(peak, seen, work, top, low, low_scale, high, high_scale):
    """A bound on exp(l - top), top being the greatest l on [0, 1]: 1 from low to high, with tails beyond.

    l is concave, so that no line that touches it lies below it anywhere   docs/beyond.md (9)
    """
    B = len(peak)
    mode = work.floats[0]
    slope = work.floats[1]
    curvature = work.floats[2]
    rest = beyond(work, 3, 0)
    for lane in range(B):
        mode[lane] = peak[lane] if peak[lane] < 1.0 else 1.0
    fill_greatest(mode, seen, rest, top)
    fill_slopes(mode, seen, slope)
    fill_curvatures(mode, seen, curvature)
    fill_tails(BELOW, mode, top, slope, curvature, seen, rest, low, low_scale)
    fill_tails(ABOVE, mode, top, slope, curvature, seen, rest, high, high_scale)


@inner
def fill_tails(side, mode, top, slope, curvature, seen, work, edge, scale):
    """The edge from which the bound of `fill_bound` falls as exp(-|mu - edge| / scale), ABOVE the mode or BELOW it.

    The line that touches l where it has fallen by about 1: with that, proposals are accepted most often. If
    this is outside (0, 1), edge is 1 or 0 and scale is 0.
    """
    B = len(mode)
    touch = work.floats[0]
    height = work.floats[1]
    steepness = work.floats[2]
    inside = work.flags[0]
    for lane in range(B):
        falling = -side * slope[lane] if side * slope[lane] < 0.0 else 0.0
        pace = falling + math.sqrt(falling * falling + 2.0 * curvature[lane])
        touch[lane] = mode[lane] + side * (2.0 / pace if pace > 0.0 else math.inf)
        inside[lane] = (touch[lane] > 0.0) & (touch[lane] < 1.0)
        touch[lane] = touch[lane] if inside[lane] else 0.5
    fill_heights_and_slopes(touch, seen, height, steepness)
    for lane in range(B):
        scale[lane] = -side / steepness[lane] if inside[lane] else 0.0
        start = touch[lane] - side * (top[lane] - height[lane]) * scale[lane]
        start = start if side * (start - mode[lane]) > 0.0 else mode[lane]
        edge[lane] = start if inside[lane] else 0.5 * (1.0 + side)


@compiled
def fill_proposals(u, low, low_scale, high, high_scale, mu, log_bound):
    """mu[lane] = where the bound has a share u[lane] of its mass below, and its logarithm there.

    u is in (0, 1), and mu may lie outside of [0, 1], on a tail.
    """
    for lane in range(len(u)):
        total = low_scale[lane] + (high[lane] - low[lane]) + high_scale[lane]
        under = u[lane] * total
        over = (1.0 - u[lane]) * total
        below = under < low_scale[lane]
        above = over < high_scale[lane]
        share = over / high_scale[lane] if above else 1.0
        share = under / low_scale[lane] if below else share
        fall = ln(share)
        inside = low[lane] + (under - low_scale[lane])
        beyond_high = high[lane] - fall * high_scale[lane] if above else inside
        mu[lane] = low[lane] + fall * low_scale[lane] if below else beyond_high
        log_bound[lane] = fall


@compiled
def fill_draws(peak, seen, work, mu):
    """mu[lane] = a draw from the posterior, made with the random stream of the lane's key   docs/beyond.md (9)

    The keys stand in work.words[KEYS], in two rows.

    Von Neumann's rejection: a proposal under the bound is accepted with probability exp(l - top) / bound,
    which leaves draws from the posterior itself.
    """
    B = len(peak)
    top = work.floats[0]
    low = work.floats[1]
    low_scale = work.floats[2]
    high = work.floats[3]
    high_scale = work.floats[4]
    u = work.floats[5]
    at = work.floats[6]
    log_bound = work.floats[7]
    height = work.floats[8]
    waiting = work.flags[0]
    fill_bound(peak, seen, beyond(work, 9, 1), top, low, low_scale, high, high_scale)
    for lane in range(B):
        waiting[lane] = True
    for attempt in range(MOST_ATTEMPTS):
        first = 2 * (attempt % 2)
        if first == 0:
            fill_stream(work.words[KEYS], work.words[KEYS + 1], attempt // 2, work.words)
        proposal = work.words[first]
        verdict = work.words[first + 1]
        for lane in range(B):
            u[lane] = (proposal[lane] + 0.5) * WORD_SIZE
        fill_proposals(u, low, low_scale, high, high_scale, at, log_bound)
        for lane in range(B):
            outside = (at[lane] <= 0.0) | (at[lane] >= 1.0)
            log_bound[lane] = math.inf if outside else log_bound[lane]  # never accepted
            at[lane] = 0.5 if outside else at[lane]
        fill_log_likelihoods(at, seen, height)
        # few arrays in a loop, or the compiler does not vectorise it
        for lane in range(B):
            log_bound[lane] += ln((verdict[lane] + 0.5) * WORD_SIZE)
        for lane in range(B):
            height[lane] -= top[lane]
        left = 0
        for lane in range(B):
            under = log_bound[lane] <= height[lane]
            mu[lane] = at[lane] if waiting[lane] & under else mu[lane]
            waiting[lane] &= not under
            left += waiting[lane]
        if left == 0:
            break
