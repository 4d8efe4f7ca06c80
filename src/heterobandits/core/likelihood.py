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
from heterobandits.core.elementary import ln

MOST_STEPS = 100
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
def fill_highest_within(drop, Y, s, f, mu):
    """mu[lane] = the largest mu up to 1/s_1 whose log-likelihood is within `drop` of the greatest.

    Newton's method on z = sqrt(2 (l(peak) - l(mu))), which is nearly a straight line in mu: z rises
    from 0 at the peak, and the mu is wanted where it reaches sqrt(2 drop).
    """
    B = len(mu)
    limit = 1.0 / s[0]
    peak = np.empty(B)
    greatest = np.empty(B)
    height = np.empty(B)
    slope = np.empty(B)
    active = np.empty(B, np.bool_)
    fill_likeliest(Y, s, f, peak)
    if drop <= 0.0:
        for lane in range(B):
            mu[lane] = peak[lane]
        return
    for lane in range(B):
        mu[lane] = peak[lane] if peak[lane] > 0.0 else 1.0  # there Y = 0, and 0 ln 1 = 0
    fill_log_likelihoods(mu, Y, s, f, greatest)
    fill_first_guesses(drop, peak, Y, s, f, mu)
    for lane in range(B):
        greatest[lane] = greatest[lane] if peak[lane] > 0.0 else 0.0
        active[lane] = limit - peak[lane] > CLOSE * limit
        halfway = 0.5 * (peak[lane] + limit)
        mu[lane] = halfway if halfway < mu[lane] else mu[lane]
        mu[lane] = mu[lane] if active[lane] else limit
    wanted = math.sqrt(2.0 * drop)
    for _ in range(MOST_STEPS):
        fill_log_likelihoods(mu, Y, s, f, height)
        for lane in range(B):
            slope[lane] = -Y[lane] / mu[lane]
        for k in range(len(s)):
            s_k = s[k]
            f_k = f[k]
            for lane in range(B):
                slope[lane] += f_k[lane] * s_k / (1.0 - s_k * mu[lane]) if f_k[lane] > 0.0 else 0.0
        moving = 0
        for lane in range(B):
            fall = 2.0 * (greatest[lane] - height[lane])
            z = math.sqrt(fall if fall > 0.0 else 0.0)
            after = mu[lane] + (wanted - z) * z / slope[lane]
            after = after if after < limit else 0.5 * (mu[lane] + limit)
            after = after if after > peak[lane] else 0.5 * (mu[lane] + peak[lane])
            reached = limit - after <= CLOSE * limit
            after = limit if reached else after
            step = abs(after - mu[lane])
            mu[lane] = after if active[lane] else mu[lane]
            active[lane] = active[lane] & (not reached) & (step > CLOSE * after)
            moving += active[lane]
        if moving == 0:
            break


@compiled
def fill_first_guesses(drop, peak, Y, s, f, mu):
    """Where a parabola with the likelihood's curvature at its peak, or a line, has fallen by `drop`."""
    B = len(mu)
    slope = np.zeros(B)
    curvature = np.zeros(B)
    for k in range(len(s)):
        s_k = s[k]
        f_k = f[k]
        for lane in range(B):
            pull = s_k / (1.0 - s_k * peak[lane]) if f_k[lane] > 0.0 else 0.0
            slope[lane] += f_k[lane] * pull
            curvature[lane] += f_k[lane] * pull * pull
    for lane in range(B):
        if peak[lane] > 0.0:
            bend = curvature[lane] + Y[lane] / (peak[lane] * peak[lane])
            mu[lane] = peak[lane] + math.sqrt(2.0 * drop / bend)
        else:
            mu[lane] = drop / slope[lane]
