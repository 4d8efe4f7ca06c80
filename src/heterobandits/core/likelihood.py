"""The exact likelihood of an arm's mean, and where it falls off.

With Y successes in all and f_k failures by the agents of the k-th sensitivity s_k,

    l(mu) = Y ln mu + sum_k f_k ln(1 - s_k mu)                        docs/beyond.md (3)

up to a constant: concave in mu on (0, 1/s_1), s_1 being the largest sensitivity.
"""

import math

from heterobandits.core.compiled import compiled

MOST_STEPS = 100
CLOSE = 1e-10  # relative size of the last step: its error is of the order of the square


@compiled
def log_likelihood(mu, Y, s, f):
    """l(mu), for 0 < mu < 1/s_1."""
    total = Y * math.log(mu) if Y > 0 else 0.0
    for k in range(len(f)):
        if f[k] > 0:
            total += f[k] * math.log(1.0 - s[k] * mu)
    return total


@compiled
def likeliest(Y, s, f):
    """The mu in [0, 1/s_1] with the greatest likelihood.

    The root of q(mu) = sum_k f_k s_k mu / (1 - s_k mu) = Y. Every term of q is at most Y there, and q is
    at least what it would be if all failures were those of agents of the mean sensitivity,
    since it is convex in s: both bound the root from above. As q is increasing and convex in
    mu, Newton's steps come down to the root from there and never cross it.
    """
    if Y == 0:
        return 0.0
    mu = 1.0 / s[0]
    failures = 0
    weighted = 0.0
    for k in range(len(f)):
        if f[k] > 0:
            failures += f[k]
            weighted += f[k] * s[k]
            mu = min(mu, Y / (s[k] * (Y + f[k])))
    if failures == 0:
        return mu
    mu = min(mu, Y / (weighted / failures * (Y + failures)))
    for _ in range(MOST_STEPS):
        excess = -float(Y)
        slope = 0.0
        for k in range(len(f)):
            if f[k] > 0:
                pull = s[k] / (1.0 - s[k] * mu)
                excess += f[k] * pull * mu
                slope += f[k] * pull * (1.0 + pull * mu)
        if excess <= 0.0:  # at the root, or at 1/s_1 with the root beyond
            break
        step = excess / slope
        mu -= step
        if step <= CLOSE * mu:
            break
    return mu


@compiled
def highest_within(drop, Y, s, f):
    """The largest mu up to 1/s_1 whose log-likelihood is within `drop` of the greatest.

    Newton's method on z = sqrt(2 (l(peak) - l(mu))), which is nearly a straight line in mu: z rises
    from 0 at the peak, and the mu is wanted where it reaches sqrt(2 drop).
    """
    limit = 1.0 / s[0]
    peak = likeliest(Y, s, f)
    if limit - peak <= CLOSE * limit:
        return limit
    if drop <= 0.0:
        return peak
    greatest = log_likelihood(peak, Y, s, f) if peak > 0.0 else 0.0
    wanted = math.sqrt(2.0 * drop)
    mu = min(first_guess(drop, peak, Y, s, f), 0.5 * (peak + limit))
    for _ in range(MOST_STEPS):
        z = math.sqrt(max(0.0, 2.0 * (greatest - log_likelihood(mu, Y, s, f))))
        slope = -Y / mu
        for k in range(len(f)):
            if f[k] > 0:
                slope += f[k] * s[k] / (1.0 - s[k] * mu)
        after = mu + (wanted - z) * z / slope
        if after >= limit:
            after = 0.5 * (mu + limit)
            if limit - after <= CLOSE * limit:
                return limit
        elif not after > peak:
            after = 0.5 * (mu + peak)
        step = abs(after - mu)
        mu = after
        if step <= CLOSE * mu:
            break
    return mu


@compiled
def first_guess(drop, peak, Y, s, f):
    """Where a parabola with the likelihood's curvature at its peak, or a line, has fallen by `drop`."""
    slope = 0.0
    curvature = Y / (peak * peak) if peak > 0.0 else 0.0
    for k in range(len(f)):
        if f[k] > 0:
            pull = s[k] / (1.0 - s[k] * peak)
            slope += f[k] * pull
            curvature += f[k] * pull * pull
    return peak + (math.sqrt(2.0 * drop / curvature) if peak > 0.0 else drop / slope)
