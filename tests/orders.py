"""The order of two arms, slow and plain: docs/beyond.md (10) by a search over both means."""

import math
from functools import cache

import numpy as np

import reference


def posteriors(s, c, y):
    """The reference's posterior of every arm."""
    return [
        reference.posterior_of(s, reference.column(c, n), reference.column(y, n))
        for n in range(len(c[0]))
    ]


def log_likelihood(known, mu):
    """l at any mean in [0, 1], also where it is minus infinity."""
    impossible = (mu == 0 and known.hits) or any(s * mu == 1 and f for s, f in known.failures)
    return -math.inf if impossible else reference.log_likelihood(known.hits, known.failures, mu)


@cache
def likeliest_in_order(i, j):
    """max of l_i(mu) + l_j(nu) over mu <= nu in [0, 1], and where: a grid that closes in on its best point.

    The sum is concave, and each grid holds the two cells on both sides of the best point of the last.
    """
    best, place = -math.inf, (0.5, 0.5)
    boxes = [(0.0, 1.0), (0.0, 1.0)]
    points = 33
    for _ in range(18):
        mu, nu = (np.linspace(*box, points) for box in boxes)
        total = np.array([log_likelihood(i, x) for x in mu])[:, None] + np.array(
            [log_likelihood(j, x) for x in nu]
        )
        total[mu[:, None] > nu] = -math.inf
        m, n = np.unravel_index(total.argmax(), total.shape)
        if total[m, n] > best:
            best, place = float(total[m, n]), (float(mu[m]), float(nu[n]))
        cells = [2 * (high - low) / (points - 1) for low, high in boxes]
        middles = (float(mu[m]), float(nu[n]))
        boxes = [
            (max(0.0, x - cell), min(1.0, x + cell)) for x, cell in zip(middles, cells, strict=True)
        ]
    return best, place


def evidence(i, j):
    """docs/beyond.md (10) for two posteriors."""
    return i.log_evidence + j.log_evidence - likeliest_in_order(i, j)[0]


def threshold(N, delta):
    """ln(N (N - 1) / 2 delta), with one pair at least."""
    return math.log(max(1, N * (N - 1) // 2) / delta)
