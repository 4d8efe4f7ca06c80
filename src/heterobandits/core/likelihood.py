"""The exact likelihood of an arm's mean, and where it falls off.

An agent of the k-th kind reports 1 with probability p_k(mu) = offset_k + slope_k mu. What all agents
reported of an arm therefore has, up to a constant, the log-likelihood

    l(mu) = sum_j h_j ln(mu + r_j) + sum_k f_k ln(1 - s_k mu)           docs/beyond.md (3)

    h_j   successes of the agents with r_j = offset / slope
    f_k   failures of the agents with s_k = slope / (1 - offset)
    Y     all successes

Without false alarms there is one r, which is 0, and s_k is the sensitivity. l is concave in mu on
[0, 1/s_1), s_1 being the largest s.

Newton's method runs on all lanes at once. A lane that has converged is not touched again, so
that its bits do not depend on how long its neighbours take.
"""

import math
from typing import NamedTuple

import numpy as np

from heterobandits.core.compiled import compiled, inlined, inner
from heterobandits.core.elementary import exp, ln, ln_less
from heterobandits.core.work import beyond

MOST_STEPS = 100
FARTHEST = 690.0  # e to this power is a number still
LAST_BIT = 2.0**-52  # of a number, relative to it
ABOVE, BELOW = (
    1.0,
    -1.0,
)  # a peak; numbers, for numba compiles anew for every constant of another type
CLOSE = 1e-10  # relative size of the last step: its error is of the order of the square


class Outcomes(NamedTuple):
    """What was seen of an arm in each lane: r[j] and h[j, lane], s[k] and f[k, lane], s falling, Y[lane]."""

    r: np.ndarray
    h: np.ndarray
    s: np.ndarray
    f: np.ndarray
    Y: np.ndarray


@inlined
def large(step, mu, pole):
    """Whether one of Newton's steps to mu calls for another: it is not small beside mu and beside the distance
    to the pole of l at 1/s_1, as far as a double can tell that."""
    scale = mu if mu < pole - mu else pole - mu
    return step > CLOSE * scale + LAST_BIT * mu


@inlined
def pulled(seen, i):
    """Whether anything was seen in a lane."""
    pulls = seen.Y[i]
    for k in range(len(seen.s)):
        pulls += seen.f[k, i]
    return pulls > 0.0


@inlined
def hits_height(h, r, mu):
    """The part of l(mu) that h successes have."""
    return h * ln(mu + r)


@inlined
def hits_slope(h, r, mu):
    """The same of l'(mu)."""
    return h / (mu + r) if h > 0.0 else 0.0


@inlined
def missed(f, s, mu):
    """s mu or, where nobody of this kind has failed, 0: there 1 - s mu may be zero."""
    return s * mu if f > 0.0 else 0.0


@inlined
def misses_height(f, s, mu):
    """The part of l(mu) that f failures have."""
    return f * ln_less(missed(f, s, mu))


@inlined
def misses_slope(f, s, mu):
    """The same of l'(mu)."""
    return -f * s / (1.0 - missed(f, s, mu))


@compiled
def fill_log_likelihoods(mu, seen, out):
    """out[lane] = l(mu[lane]), for 0 <= mu < 1/s_1, and mu > 0 where an r is 0 and something succeeded."""
    B = len(mu)
    for j in range(len(seen.r)):
        r_j = seen.r[j]
        h_j = seen.h[j]
        if j == 0:
            for lane in range(B):
                out[lane] = hits_height(h_j[lane], r_j, mu[lane])
        else:
            for lane in range(B):
                out[lane] += hits_height(h_j[lane], r_j, mu[lane])
    for k in range(len(seen.s)):
        s_k = seen.s[k]
        f_k = seen.f[k]
        for lane in range(B):
            out[lane] += misses_height(f_k[lane], s_k, mu[lane])


@compiled
def fill_slopes(mu, seen, out):
    """out[lane] = l'(mu[lane]), for the same mu, or for mu = 0 if nothing succeeded where an r is 0."""
    B = len(mu)
    for j in range(len(seen.r)):
        r_j = seen.r[j]
        h_j = seen.h[j]
        if j == 0:
            for lane in range(B):
                out[lane] = hits_slope(h_j[lane], r_j, mu[lane])
        else:
            for lane in range(B):
                out[lane] += hits_slope(h_j[lane], r_j, mu[lane])
    for k in range(len(seen.s)):
        s_k = seen.s[k]
        f_k = seen.f[k]
        for lane in range(B):
            out[lane] += misses_slope(f_k[lane], s_k, mu[lane])


@inner
def fill_heights_and_slopes(mu, seen, height, slope):
    """height[lane] = l(mu[lane]) and slope[lane] = l'(mu[lane]), for the same mu: both in one pass."""
    B = len(mu)
    for j in range(len(seen.r)):
        r_j = seen.r[j]
        h_j = seen.h[j]
        first = j == 0
        for lane in range(B):
            up = hits_height(h_j[lane], r_j, mu[lane])
            height[lane] = up + (0.0 if first else height[lane])
            slope[lane] = hits_slope(h_j[lane], r_j, mu[lane]) + (0.0 if first else slope[lane])
    for k in range(len(seen.s)):
        s_k = seen.s[k]
        f_k = seen.f[k]
        for lane in range(B):
            height[lane] += misses_height(f_k[lane], s_k, mu[lane])
            slope[lane] += misses_slope(f_k[lane], s_k, mu[lane])


@compiled
def fill_curvatures(mu, seen, out):
    """out[lane] = -l''(mu[lane]), for the same mu."""
    B = len(mu)
    for lane in range(B):
        out[lane] = 0.0
    for j in range(len(seen.r)):
        r_j = seen.r[j]
        h_j = seen.h[j]
        for lane in range(B):
            rise = 1.0 / (mu[lane] + r_j) if h_j[lane] > 0.0 else 0.0
            out[lane] += h_j[lane] * rise * rise
    for k in range(len(seen.s)):
        s_k = seen.s[k]
        f_k = seen.f[k]
        for lane in range(B):
            pull = s_k / (1.0 - s_k * mu[lane]) if f_k[lane] > 0.0 else 0.0
            out[lane] += f_k[lane] * pull * pull


@compiled
def fill_likeliest(seen, work, mu):
    """mu[lane] = the mu in [0, 1/s_1] with the greatest likelihood; 1/s_1 if nothing was seen.

    The root of q(mu) = -mu l'(mu) = sum_k f_k s_k mu / (1 - s_k mu) - sum_j h_j mu / (mu + r_j). Each
    term of the first sum is at most Y there, and that sum is at least what it would be if all failures
    were those of agents of the mean s, since it is convex in s: both bound the root from above. As q
    is convex in mu and grows beyond the root, Newton's steps come down to it and never cross it.
    """
    B = len(mu)
    r, h, s, f, Y = seen
    pole = 1.0 / s[0]
    excess = work.floats[0]
    slope = work.floats[1]
    active = work.flags[0]
    for lane in range(B):
        mu[lane] = pole
        excess[lane] = 0.0
        slope[lane] = 0.0
    for k in range(len(s)):
        s_k = s[k]
        f_k = f[k]
        for lane in range(B):
            excess[lane] += f_k[lane]
            slope[lane] += f_k[lane] * s_k
        for lane in range(B):  # few arrays in a loop, or the compiler does not vectorise it
            alone = Y[lane] / (s_k * (Y[lane] + f_k[lane])) if f_k[lane] > 0.0 else mu[lane]
            mu[lane] = alone if alone < mu[lane] else mu[lane]
    for lane in range(B):
        failures = excess[lane]
        alike = (
            Y[lane] * failures / (slope[lane] * (Y[lane] + failures))
            if failures > 0.0
            else mu[lane]
        )
        mu[lane] = alike if alike < mu[lane] else mu[lane]
        active[lane] = (failures > 0.0) & (Y[lane] > 0.0)
    falling = slope  # -l'(0) = sum_k f_k s_k, which is there, less sum_j h_j / r_j
    for j in range(len(r)):
        r_j = r[j]
        h_j = h[j]
        if r_j > 0.0:
            for lane in range(B):
                falling[lane] -= h_j[lane] / r_j
        else:
            for lane in range(B):
                falling[lane] = -math.inf if h_j[lane] > 0.0 else falling[lane]
    for lane in range(B):
        falls = (excess[lane] > 0.0) & (falling[lane] >= 0.0)
        mu[lane] = 0.0 if falls else mu[lane]
        active[lane] = active[lane] & (not falls)
    for _ in range(MOST_STEPS):
        plain = h[0]
        for lane in range(B):
            excess[lane] = -plain[lane] if r[0] == 0.0 else 0.0
            slope[lane] = 0.0
        for j in range(len(r)):
            r_j = r[j]
            h_j = h[j]
            if r_j > 0.0:
                for lane in range(B):
                    share = 1.0 / (mu[lane] + r_j)
                    excess[lane] -= h_j[lane] * mu[lane] * share
                    slope[lane] -= h_j[lane] * r_j * share * share
        for k in range(len(s)):
            s_k = s[k]
            f_k = f[k]
            for lane in range(B):
                pull = s_k / (1.0 - s_k * mu[lane]) if f_k[lane] > 0.0 else 0.0
                excess[lane] += f_k[lane] * pull * mu[lane]
                slope[lane] += f_k[lane] * pull * (1.0 + pull * mu[lane])
        moving = 0
        for lane in range(B):
            # no excess: at the root, or at 1/s_1 with the root beyond
            active[lane] = active[lane] & (excess[lane] > 0.0)
            step = excess[lane] / slope[lane] if active[lane] else 0.0
            mu[lane] -= step
            active[lane] = active[lane] & large(step, mu[lane], pole)
            moving += active[lane]
        if moving == 0:
            break


@compiled
def fill_greatest(mu, seen, work, out):
    """out[lane] = l(mu[lane]) where mu is a peak of l, which may lie at 0."""
    B = len(mu)
    inside = work.floats[0]
    for lane in range(B):
        inside[lane] = mu[lane] if mu[lane] > 0.0 else 1.0 / (2.0 * seen.s[0])
    fill_log_likelihoods(inside, seen, out)
    if seen.r[len(seen.r) - 1] > 0.0:
        fill_at_zero(seen, inside)
        for lane in range(B):
            out[lane] = out[lane] if mu[lane] > 0.0 else inside[lane]
    else:  # nothing can have succeeded, and l(0) = 0
        for lane in range(B):
            out[lane] = out[lane] if mu[lane] > 0.0 else 0.0


@inner
def fill_at_zero(seen, out):
    """out[lane] = l(0): minus infinity where something succeeded that cannot have with a mean of 0."""
    for lane in range(len(out)):
        out[lane] = 0.0
    for j in range(len(seen.r)):
        r_j = seen.r[j]
        h_j = seen.h[j]
        value = math.log(r_j) if r_j > 0.0 else -math.inf
        for lane in range(len(out)):
            out[lane] += h_j[lane] * value if h_j[lane] > 0.0 else 0.0


@inner
def fill_at_one(seen, out):
    """out[lane] = l(1)"""
    for lane in range(len(out)):
        out[lane] = 0.0
    for j in range(len(seen.r)):
        value = ln(1.0 + seen.r[j])
        h_j = seen.h[j]
        for lane in range(len(out)):
            out[lane] += h_j[lane] * value
    for k in range(len(seen.s)):
        sure = seen.s[k] == 1.0  # who cannot miss at a mean of 1
        value = -1.0 if sure else ln_less(seen.s[k])
        f_k = seen.f[k]
        for lane in range(len(out)):
            never = sure & (f_k[lane] > 0.0)
            out[lane] = -math.inf if never else out[lane] + f_k[lane] * value


@compiled
def fill_fallen(side, limit, drop, slack, peak, greatest, seen, work, mu):
    """mu[lane] = where l has fallen by drop[lane] from l(peak) = greatest, ABOVE the peak or BELOW it;
    the peak where drop is not positive.

    Above, the answer ends at the limit, 1/s_1 at most; below at 0. Newton's method on
    z = sqrt(2 (greatest - l)), which is nearly a straight line in mu: it rises from 0 at the peak, and
    the mu is wanted where it reaches sqrt(2 drop). It stops early once l is within `slack` of there.
    """
    B = len(mu)
    Y = seen.Y
    above = side == ABOVE
    pole = 1.0 / seen.s[0]
    last = min(limit, (1.0 - CLOSE) / seen.s[0])  # closer to the pole of l one does not look
    height = work.floats[0]
    slope = work.floats[1]
    step_to = slope  # it takes the slope's place
    wanted = work.floats[2]
    lowest = work.floats[3]
    highest = work.floats[4]
    active = work.flags[0]
    # beside many false alarms a guess may be so close to the peak that l, as rounded, has not fallen there
    nearest = 0.9 if seen.r[len(seen.r) - 1] > 0.0 else 1.0
    fill_first_guesses(side, drop, peak, seen, beyond(work, 5, 1), mu)
    if above:
        for lane in range(B):
            step_to[lane] = last
        fill_log_likelihoods(step_to, seen, height)
    else:
        fill_at_zero(seen, height)
    for lane in range(B):
        wanted[lane] = math.sqrt(2.0 * drop[lane] if drop[lane] > 0.0 else 0.0)
        falls = ((peak[lane] < last) | (not above)) & (greatest[lane] - height[lane] > drop[lane])
        active[lane] = (drop[lane] > 0.0) & falls
        lowest[lane] = peak[lane] if above else 0.0
        highest[lane] = last if above else peak[lane]
        guess = mu[lane] if mu[lane] < highest[lane] else 0.5 * (peak[lane] + highest[lane])
        # far below the peak Y ln mu is nearly all of l
        away = drop[lane] / Y[lane] if (not above) & active[lane] else 0.0
        far = peak[lane] * exp(-away if away < FARTHEST else -FARTHEST)
        far = far if far < nearest * peak[lane] else nearest * peak[lane]
        guess = guess if above | (guess > 0.2 * peak[lane]) else far
        end = limit if above else 0.0
        mu[lane] = guess if active[lane] else end
    for _ in range(MOST_STEPS):
        fill_heights_and_slopes(mu, seen, height, slope)
        # few arrays in a loop, or the compiler does not vectorise it
        for lane in range(B):
            fall = 2.0 * (greatest[lane] - height[lane])
            z = math.sqrt(fall if fall > 0.0 else 0.0)
            height[lane] = wanted[lane] - z
            step_to[lane] = mu[lane] - height[lane] * z / slope[lane]
        for lane in range(B):
            up = side * height[lane] > 0.0
            lowest[lane] = mu[lane] if up else lowest[lane]
            highest[lane] = highest[lane] if up else mu[lane]
        moving = 0
        for lane in range(B):
            after = step_to[lane]
            inside = (after >= lowest[lane]) & (after <= highest[lane])
            after = after if inside else 0.5 * (lowest[lane] + highest[lane])
            lack = height[lane]
            off = abs(lack * (2.0 * wanted[lane] - lack))  # twice what l is off
            step = abs(after - mu[lane])
            mu[lane] = after if active[lane] else mu[lane]
            active[lane] = active[lane] & (off > 2.0 * slack) & large(step, after, pole)
            moving += active[lane]
        if moving == 0:
            break
    for lane in range(B):
        mu[lane] = mu[lane] if drop[lane] > 0.0 else peak[lane]


@inner
def fill_first_guesses(side, drop, peak, seen, work, mu):
    """About where the likelihood has fallen by `drop`, from its derivatives at the peak.

    With the standard deviation sigma of a normal density of the same curvature, at
    peak +- sqrt(2 drop) sigma, moved a bit by the skewness; a line's fall where the peak is at 0.
    """
    B = len(mu)
    slope = work.floats[0]
    curvature = work.floats[1]
    third = work.floats[2]
    rising = work.floats[3]
    fill_slopes(peak, seen, slope)
    fill_curvatures(peak, seen, curvature)
    for lane in range(B):
        third[lane] = 0.0
        rising[lane] = 0.0
    for j in range(len(seen.r)):
        r_j = seen.r[j]
        h_j = seen.h[j]
        for lane in range(B):
            rise = 1.0 / (peak[lane] + r_j) if h_j[lane] > 0.0 else 0.0
            rising[lane] += h_j[lane] * rise * rise * rise
    for k in range(len(seen.s)):
        s_k = seen.s[k]
        f_k = seen.f[k]
        for lane in range(B):
            pull = s_k / (1.0 - s_k * peak[lane]) if f_k[lane] > 0.0 else 0.0
            third[lane] += f_k[lane] * pull * pull * pull
    for lane in range(B):
        fall = drop[lane] if drop[lane] > 0.0 else 0.0
        bend = curvature[lane] if curvature[lane] > 0.0 else 1.0  # nothing seen: any guess will do
        steep = slope[lane] if slope[lane] < 0.0 else -1.0
        sigma = 1.0 / math.sqrt(bend)
        skew = 2.0 * (rising[lane] - third[lane]) * sigma * sigma * sigma
        z = math.sqrt(2.0 * fall)
        bent = side * skew * z
        away = 1.0 + bent / 6.0 if bent > 0.0 else 1.0 / (1.0 - bent / 4.0)
        curved = peak[lane] + side * sigma * z * away
        mu[lane] = curved if peak[lane] > 0.0 else -fall / steep
