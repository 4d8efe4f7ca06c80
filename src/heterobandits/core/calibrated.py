"""The likelihood of an arm's mean when it is not known exactly how the agents report.

Of agent a it is known only that its sensitivity lies in [s_low, s_high] and its false positive rate in
[phi_low, phi_high]. A report of an arm of mean mu is then 1 with a probability between

    low_a(mu) = phi_low (1 - mu) + s_low mu      and      high_a(mu) = phi_high (1 - mu) + s_high mu,

and the greatest likelihood that what was reported of the arm can have with a mean of mu is

    l*(mu) = sum_a y_a ln p_a + (c_a - y_a) ln(1 - p_a),   p_a = y_a / c_a, brought between low and high.   docs/model.md (9)

It is concave in mu: the largest value of a concave function of mu and all p_a over a convex set of these.
"""

import math

from heterobandits.core.compiled import compiled, inlined
from heterobandits.core.elementary import ln, ln_less
from heterobandits.core.likelihood import ABOVE, CLOSE, MOST_STEPS, large

HALVINGS = 60  # of [0, 1], for the mean with the greatest l*
LEAST_MEAN = 1e-200  # in place of 0, where what was found cannot have been


@compiled
def fill_profiles(mu, seen, places, height, slope):
    """height[i] = l*(mu[i]) at places[i], n B + lane, and slope[i] = its derivative."""
    agents = seen.agents
    for i in range(len(places)):
        height[i] = 0.0
        slope[i] = 0.0
    for a in range(len(agents.d)):
        phi_low = agents.phi_low[a]
        phi_high = agents.phi_high[a]
        d_low = agents.s_low[a] - phi_low
        d_high = agents.s_high[a] - phi_high
        c_a = seen.c[a].reshape(seen.c[a].size)
        y_a = seen.y[a].reshape(seen.y[a].size)
        for i in range(len(places)):
            c = c_a[places[i]]
            y = y_a[places[i]]
            if c == 0:
                continue
            p = y / c
            d = 0.0
            low = phi_low + d_low * mu[i]
            high = min(1.0, phi_high + d_high * mu[i])
            if p < low:
                p = low
                d = d_low
            elif p > high:
                p = high
                d = d_high
            if y > 0:
                height[i] += y * ln(p)
                slope[i] += d * y / p
            if y < c:
                height[i] += (c - y) * ln_less(p)
                slope[i] -= d * (c - y) / (1.0 - p)


@compiled
def fill_constants(seen, places, out):
    """out[i] = what `likelihood` leaves out of l: with it, l is the logarithm of the probability of the reports."""
    agents = seen.agents
    for i in range(len(places)):
        out[i] = 0.0
    for a in range(len(agents.d)):
        hit = ln(agents.d[a])
        missed = ln_less(agents.phi[a])
        c_a = seen.c[a].reshape(seen.c[a].size)
        y_a = seen.y[a].reshape(seen.y[a].size)
        for i in range(len(places)):
            y = y_a[places[i]]
            out[i] += y * hit + (c_a[places[i]] - y) * missed


@inlined
def all_known(agents):
    """Whether no agent needed to be calibrated."""
    for a in range(len(agents.d)):
        if agents.s_low[a] < agents.s_high[a] or agents.phi_low[a] < agents.phi_high[a]:
            return False
    return True


@inlined
def highest_mean(agents):
    """From where on some agent would report 1 more often than always."""
    highest = math.inf
    for a in range(len(agents.d)):
        d = agents.s_low[a] - agents.phi_low[a]
        highest = min(highest, (1.0 - agents.phi_low[a]) / d) if d > 0.0 else highest
    return highest if highest < math.inf else 1.0


@compiled
def fill_profile_peaks(seen, places, work, mu):
    """mu[i] = the mean up to 1 with the greatest l*; of several the largest. It rises as far as its slope is positive."""
    height = work.floats[0]
    slope = work.floats[1]
    low = work.floats[2]
    high = work.floats[3]
    for i in range(len(places)):
        low[i] = LEAST_MEAN
        high[i] = 1.0
    for _ in range(HALVINGS):
        for i in range(len(places)):
            mu[i] = 0.5 * (low[i] + high[i])
        fill_profiles(mu, seen, places, height, slope)
        for i in range(len(places)):
            if slope[i] > 0.0:
                low[i] = mu[i]
            else:
                high[i] = mu[i]
    for i in range(len(places)):
        mu[i] = high[i]


@compiled
def fill_profile_ends(side, limit, level, inside, seen, places, work, mu):
    """mu[i] = the largest (or the least) mean up to the limit (down to 0) where l* is still at least level[i].

    inside[i] is a mean where it is. Newton's method between that and the end: beyond the answer the tangents of a concave
    function lead back to it and never cross it, on this side a step that leads too far is cut in half.
    """
    above = side == ABOVE
    end = limit * (1.0 - CLOSE) if above else LEAST_MEAN
    height = work.floats[0]
    slope = work.floats[1]
    inner = work.floats[2]
    outer = work.floats[3]
    active = work.flags[0]
    for i in range(len(places)):
        mu[i] = end
    fill_profiles(mu, seen, places, height, slope)
    for i in range(len(places)):
        inner[i] = inside[i] if inside[i] < end or not above else end
        outer[i] = end
        active[i] = height[i] < level[i]
        mu[i] = 0.5 * (inner[i] + outer[i]) if active[i] else (limit if above else 0.0)
    for _ in range(MOST_STEPS):
        fill_profiles(mu, seen, places, height, slope)
        moving = 0
        for i in range(len(places)):
            if not active[i]:
                continue
            if height[i] >= level[i]:
                inner[i] = mu[i]
            else:
                outer[i] = mu[i]
            after = mu[i] + (level[i] - height[i]) / slope[i] if slope[i] != 0.0 else outer[i]
            active[i] = large(abs(after - mu[i]), after, limit)
            if active[i] and (after > inner[i]) != (after < outer[i]):
                after = 0.5 * (inner[i] + outer[i])
                active[i] = large(abs(after - mu[i]), after, limit)
            mu[i] = after
            moving += active[i]
        if moving == 0:
            break
