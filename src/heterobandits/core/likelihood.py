"""The exact likelihood of an arm's mean, and where it falls off.

With Y successes in all and f_k failures by the agents of the k-th sensitivity s_k,

    l(mu) = Y ln mu + sum_k f_k ln(1 - s_k mu)                        docs/beyond.md (3)

up to a constant: concave in mu on (0, 1/s_1), s_1 being the largest sensitivity.

Newton's method runs on all lanes at once. A lane that has converged is not touched again, so
that its bits do not depend on how long its neighbours take.
"""

import math

import numpy as np

from heterobandits.core.compiled import compiled
from heterobandits.core.elementary import exp, ln

MOST_STEPS = 100
FARTHEST = 690.0  # e to this power is a number still
CLOSE = 1e-10  # relative size of the last step: its error is of the order of the square


@compiled
def fill_log_likelihoods(mu, Y, s, f, out):
    """out[lane] = l(mu[lane]), for 0 < mu < 1/s_1."""
    B = len(mu)
    for lane in range(B):
        out[lane] = Y[lane] * ln(mu[lane])
    for k in range(len(s)):
        s_k = s[k]
        f_k = f[k]
        for lane in range(B):
            # where nobody of this kind has failed, 1 - s mu may be zero
            rest = 1.0 - s_k * mu[lane] if f_k[lane] > 0.0 else 1.0
            out[lane] += f_k[lane] * ln(rest)


@compiled
def fill_slopes(mu, Y, s, f, out):
    """out[lane] = l'(mu[lane]), for 0 < mu < 1/s_1, or for mu = 0 if nothing succeeded."""
    B = len(mu)
    for lane in range(B):
        out[lane] = Y[lane] / mu[lane] if Y[lane] > 0.0 else 0.0
    for k in range(len(s)):
        s_k = s[k]
        f_k = f[k]
        for lane in range(B):
            out[lane] -= f_k[lane] * s_k / (1.0 - s_k * mu[lane]) if f_k[lane] > 0.0 else 0.0


@compiled
def fill_curvatures(mu, Y, s, f, out):
    """out[lane] = -l''(mu[lane]), for the same mu."""
    B = len(mu)
    for lane in range(B):
        rise = 1.0 / mu[lane] if Y[lane] > 0.0 else 0.0
        out[lane] = Y[lane] * rise * rise
    for k in range(len(s)):
        s_k = s[k]
        f_k = f[k]
        for lane in range(B):
            pull = s_k / (1.0 - s_k * mu[lane]) if f_k[lane] > 0.0 else 0.0
            out[lane] += f_k[lane] * pull * pull


@compiled
def fill_likeliest(Y, s, f, mu):
    """mu[lane] = the mu in [0, 1/s_1] with the greatest likelihood; 1/s_1 if nothing was seen.

    The root of q(mu) = sum_k f_k s_k mu / (1 - s_k mu) = Y. Every term of q is at most Y there, and q is
    at least what it would be if all failures were those of agents of the mean sensitivity,
    since it is convex in s: both bound the root from above. As q is increasing and convex in
    mu, Newton's steps come down to the root from there and never cross it.
    """
    B = len(mu)
    excess = np.zeros(B)
    slope = np.zeros(B)
    active = np.empty(B, np.bool_)
    for lane in range(B):
        mu[lane] = 1.0 / s[0]
    for k in range(len(s)):
        s_k = s[k]
        f_k = f[k]
        for lane in range(B):
            excess[lane] += f_k[lane]
            slope[lane] += f_k[lane] * s_k
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
        mu[lane] = 0.0 if (failures > 0.0) & (Y[lane] == 0.0) else mu[lane]
        active[lane] = (failures > 0.0) & (Y[lane] > 0.0)
    for _ in range(MOST_STEPS):
        for lane in range(B):
            excess[lane] = -Y[lane]
            slope[lane] = 0.0
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
            active[lane] = active[lane] & (step > CLOSE * mu[lane])
            moving += active[lane]
        if moving == 0:
            break


@compiled
def fill_greatest(mu, Y, s, f, out):
    """out[lane] = l(mu[lane]) where mu is a peak of l, which may lie at 0: nothing succeeded, l(0) = 0."""
    B = len(mu)
    inside = np.empty(B)
    for lane in range(B):
        inside[lane] = mu[lane] if mu[lane] > 0.0 else 1.0 / (2.0 * s[0])
    fill_log_likelihoods(inside, Y, s, f, out)
    for lane in range(B):
        out[lane] = out[lane] if mu[lane] > 0.0 else 0.0


@compiled
def fill_fallen(above, limit, drop, slack, peak, greatest, Y, s, f, mu):
    """mu[lane] = where l has fallen by drop[lane] from l(peak) = greatest, above the peak or below it;
    the peak where drop is not positive.

    Above, the answer ends at the limit, 1/s_1 at most; below, Y must not be 0. Newton's method on
    z = sqrt(2 (greatest - l)), which is nearly a straight line in mu: it rises from 0 at the peak, and
    the mu is wanted where it reaches sqrt(2 drop). It stops early once l is within `slack` of there.
    """
    B = len(mu)
    side = 1.0 if above else -1.0
    last = min(limit, (1.0 - CLOSE) / s[0])  # closer to the pole of l one does not look
    height = np.empty(B)
    slope = np.empty(B)
    wanted = np.empty(B)
    lowest = np.empty(B)
    highest = np.empty(B)
    active = np.empty(B, np.bool_)
    fill_first_guesses(above, drop, peak, Y, s, f, mu)
    for lane in range(B):
        slope[lane] = last
    fill_log_likelihoods(slope, Y, s, f, height)
    for lane in range(B):
        wanted[lane] = math.sqrt(2.0 * drop[lane] if drop[lane] > 0.0 else 0.0)
        falls = (peak[lane] < last) & (greatest[lane] - height[lane] > drop[lane])
        active[lane] = (drop[lane] > 0.0) & (falls | (not above))
        lowest[lane] = peak[lane] if above else 0.0
        highest[lane] = last if above else peak[lane]
        guess = mu[lane] if mu[lane] < highest[lane] else 0.5 * (peak[lane] + highest[lane])
        # far below the peak Y ln mu is nearly all of l
        away = drop[lane] / Y[lane] if (not above) & active[lane] else 0.0
        far = peak[lane] * exp(-away if away < FARTHEST else -FARTHEST)
        guess = guess if above | (guess > 0.2 * peak[lane]) else far
        mu[lane] = guess if active[lane] else limit
    for _ in range(MOST_STEPS):
        fill_log_likelihoods(mu, Y, s, f, height)
        fill_slopes(mu, Y, s, f, slope)
        # few arrays in a loop, or the compiler does not vectorise it
        for lane in range(B):
            fall = 2.0 * (greatest[lane] - height[lane])
            z = math.sqrt(fall if fall > 0.0 else 0.0)
            height[lane] = wanted[lane] - z
            slope[lane] = mu[lane] - height[lane] * z / slope[lane]
        for lane in range(B):
            up = side * height[lane] > 0.0
            lowest[lane] = mu[lane] if up else lowest[lane]
            highest[lane] = highest[lane] if up else mu[lane]
        moving = 0
        for lane in range(B):
            after = slope[lane]
            inside = (after >= lowest[lane]) & (after <= highest[lane])
            after = after if inside else 0.5 * (lowest[lane] + highest[lane])
            lack = height[lane]
            off = abs(lack * (2.0 * wanted[lane] - lack))  # twice what l is off
            step = abs(after - mu[lane])
            mu[lane] = after if active[lane] else mu[lane]
            active[lane] = active[lane] & (off > 2.0 * slack) & (step > CLOSE * after)
            moving += active[lane]
        if moving == 0:
            break
    for lane in range(B):
        mu[lane] = mu[lane] if drop[lane] > 0.0 else peak[lane]


@compiled
def fill_first_guesses(above, drop, peak, Y, s, f, mu):
    """About where the likelihood has fallen by `drop`, from its derivatives at the peak.

    With the standard deviation sigma of a normal density of the same curvature, at
    peak +- sqrt(2 drop) sigma, moved a bit by the skewness; a line's fall where the peak is at 0.
    """
    B = len(mu)
    slope = np.empty(B)
    curvature = np.empty(B)
    third = np.zeros(B)
    fill_slopes(peak, Y, s, f, slope)
    fill_curvatures(peak, Y, s, f, curvature)
    for k in range(len(s)):
        s_k = s[k]
        f_k = f[k]
        for lane in range(B):
            pull = s_k / (1.0 - s_k * peak[lane]) if f_k[lane] > 0.0 else 0.0
            third[lane] += f_k[lane] * pull * pull * pull
    side = 1.0 if above else -1.0
    for lane in range(B):
        fall = drop[lane] if drop[lane] > 0.0 else 0.0
        if peak[lane] > 0.0:
            rise = 1.0 / peak[lane]
            sigma = 1.0 / math.sqrt(curvature[lane])
            skew = 2.0 * (Y[lane] * rise * rise * rise - third[lane]) * sigma * sigma * sigma
            z = math.sqrt(2.0 * fall)
            bent = side * skew * z
            away = 1.0 + bent / 6.0 if bent > 0.0 else 1.0 / (1.0 - bent / 4.0)
            mu[lane] = peak[lane] + side * sigma * z * away
        else:
            mu[lane] = -fall / slope[lane]
