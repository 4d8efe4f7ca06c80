"""From exact sums over trials to statistics: means, errors, paired differences and ratios.

    n       trials
    x, y    sums over the trials of the regrets of two policies, in units of 2**-places
    xx, xy  sums of their squares and products, in units of 4**-places

All of these are whole numbers, or arrays of Python's whole numbers that go together, so that rounding happens once, at the end.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Estimate(NamedTuple):
    """Estimates, and their standard errors: not a number where there is one trial."""

    value: Floats
    error: Floats


def quotient(dividend: Any, divisor: Any) -> Floats:
    """Whole numbers divided, each rounded once."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.asarray(dividend, object) / np.asarray(divisor, object), np.float64)


def scaled(number: Any, places: Any) -> Any:
    """Whole numbers times 2**places."""
    return np.left_shift(np.asarray(number, object), np.asarray(places, object))


def freedom(n: Any) -> Any:
    """The trials less one; one where there is one."""
    return np.maximum(np.asarray(n - 1, object), np.asarray(1, object))


def if_several(n: Any, values: Floats) -> Floats:
    """The values where there is more than one trial."""
    return np.asarray(np.where(np.asarray(n, np.float64) < 2, np.nan, values))


def mean(n: Any, places: Any, x: Any) -> Floats:
    """The mean over the trials."""
    return quotient(x, scaled(n, places))


def standard_error(n: Any, places: Any, x: Any, xx: Any) -> Floats:
    """The standard error of the mean."""
    unit = scaled(n * n * freedom(n), 2 * places)
    return if_several(n, np.sqrt(quotient(n * xx - x * x, unit)))


def difference(n: Any, places: Any, x: Any, y: Any, xx: Any, xy: Any, yy: Any) -> Estimate:
    """The mean over the trials of the difference of two regrets on the same luck."""
    squares = xx - 2 * xy + yy
    return Estimate(mean(n, places, x - y), standard_error(n, places, x - y, squares))


def log_ratio(n: Any, places: Any, x: Any, y: Any, xx: Any, xy: Any, yy: Any) -> Estimate:
    """The ratio of two means and the standard error of its logarithm; not a number where the second mean is zero.

    The variance is that of x / mean x - y / mean y over the pairs (x, y) of regrets.
    """
    scale = scaled(n * freedom(n), 2 * places)
    p, q = mean(n, places, x), mean(n, places, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(q > 0, p / q, np.nan)
        spread = (
            quotient(n * xx - x * x, scale) / p**2
            - 2 * quotient(n * xy - x * y, scale) / (p * q)
            + quotient(n * yy - y * y, scale) / q**2
        )
        error = np.sqrt(np.maximum(spread, 0.0) / np.asarray(n, np.float64))
    return Estimate(value, if_several(n, error))


def reach(level: Any, n: Any) -> Floats:
    """How many standard errors Student's interval of this confidence reaches to each side."""
    from scipy.special import stdtrit

    degrees = np.asarray(freedom(n), np.float64)
    return np.asarray(stdtrit(degrees, 0.5 + np.asarray(level) / 2))
