"""What can be said about the arms: an estimate and an interval for every mean.

Min-Width's interval [eq:muhat_t,n, eq:epsilon_t,n] holds for all arms and all rounds up to the
horizon at once with probability 1 - delta, however the agents were sent: the union bound
runs over every way in which the arm can have been pulled, so adaptive sampling is covered.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.core import indices
from heterobandits.problem import pick_order

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]


class Intervals(NamedTuple):
    """For each arm: the estimate of its mean and an interval within [0, 1]."""

    estimate: Floats
    lower: Floats
    upper: Floats


def min_width_intervals(
    pulls: Counts, successes: Counts, sensitivities: Floats, horizon: int, delta: float
) -> Intervals:
    """Min-Width's interval for every arm, from tables of shape (agents, arms).

    An estimate is cut off at 1, which a mean cannot exceed; an arm never pulled has the
    estimate 0.5, as in the paper, and the interval [0, 1].
    """
    agents, arms = pulls.shape
    order = pick_order(sensitivities)
    L = indices.log_term(indices.MIN_WIDTH, float(horizon), agents, agents, arms, 1.0, delta)
    estimate = np.empty((1, arms, 1))
    width = np.empty((1, arms, 1))
    indices.fill_intervals(
        indices.MIN_WIDTH,
        sensitivities[order],
        np.ascontiguousarray(pulls[order, :, None]),
        np.ascontiguousarray(successes[order, :, None]),
        L,
        estimate,
        width,
    )
    middle, half = estimate[0, :, 0], width[0, :, 0]
    return Intervals(
        np.minimum(1.0, middle), np.clip(middle - half, 0.0, 1.0), np.minimum(1.0, middle + half)
    )
