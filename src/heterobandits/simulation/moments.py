"""From exact sums over trials to statistics: means, errors, paired differences and ratios.

    n       trials
    x, y    sums over the trials of the regrets of two policies, in units of 2**-places
    xx, xy  sums of their squares and products, in units of 4**-places
    R       the most regret that a trial can have

All of these but R are whole numbers, or arrays of Python's whole numbers that go together, so that rounding happens once, at the end.
"""

from typing import Any, NamedTuple

import numpy as np

from heterobandits.arrays import Floats

BET_SHARES = (0.95, 0.5, 0.25, 0.125, 0.0625, 0.03125)  # shares of what could be lost at once


class Estimates(NamedTuple):
    """Estimates, and their standard errors: not a number where there is one trial."""

    value: Floats
    error: Floats


def divide_rounding_once(dividend: Any, divisor: Any) -> Floats:
    """Whole numbers divided, each rounded once."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.asarray(dividend, object) / np.asarray(divisor, object), np.float64)


def scale_by_power(number: Any, places: Any) -> Any:
    """Whole numbers times 2**places."""
    return np.left_shift(np.asarray(number, object), np.asarray(places, object))


def degrees_of_freedom(n: Any) -> Any:
    """The trials less one; one where there is one."""
    return np.maximum(np.asarray(n - 1, object), np.asarray(1, object))


def nan_if_single(n: Any, values: Floats) -> Floats:
    """The values if there is more than one trial, else NaN."""
    return np.asarray(np.where(np.asarray(n, np.float64) < 2, np.nan, values))


def mean_of_sums(n: Any, places: Any, x: Any) -> Floats:
    """The mean over the trials."""
    return divide_rounding_once(x, scale_by_power(n, places))


def standard_error_of_sums(n: Any, places: Any, x: Any, xx: Any) -> Floats:
    """The standard error of the mean."""
    unit = scale_by_power(n * n * degrees_of_freedom(n), 2 * places)
    return nan_if_single(n, np.sqrt(divide_rounding_once(n * xx - x * x, unit)))


def paired_difference(n: Any, places: Any, x: Any, y: Any, xx: Any, xy: Any, yy: Any) -> Estimates:
    """The mean over the trials of the difference of two regrets on the same luck."""
    squares = xx - 2 * xy + yy
    return Estimates(
        mean_of_sums(n, places, x - y), standard_error_of_sums(n, places, x - y, squares)
    )


def log_ratio(n: Any, places: Any, x: Any, y: Any, xx: Any, xy: Any, yy: Any) -> Estimates:
    """The ratio of two means and the standard error of its logarithm; not a number where the second mean is zero.

    The variance is that of x / mean x - y / mean y over the pairs (x, y) of regrets.
    """
    scale = scale_by_power(n * degrees_of_freedom(n), 2 * places)
    p, q = mean_of_sums(n, places, x), mean_of_sums(n, places, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(q > 0, p / q, np.nan)
        spread = (
            divide_rounding_once(n * xx - x * x, scale) / p**2
            - 2 * divide_rounding_once(n * xy - x * y, scale) / (p * q)
            + divide_rounding_once(n * yy - y * y, scale) / q**2
        )
        error = np.sqrt(np.maximum(spread, 0.0) / np.asarray(n, np.float64))
    return Estimates(value, nan_if_single(n, error))


def log_evidence(R: Any, n: Any, places: Any, x: Any, y: Any, xx: Any, xy: Any, yy: Any) -> Floats:
    """The logarithm of the evidence that the first policy has less regret in expectation than the second.

    If it has not, this ever reaches ln(1/e) with probability e at most, however often you look and whatever the law of the
    regrets is. For the differences d = x - y of the trials, none of which exceeds R, are then at least 0 in
    expectation, so that for a bet u in (0, 1) the product of all 1 - u d / R is a supermartingale. As
    ln(1 - z) >= -z - z^2 (-ln(1 - u) - u) / u^2 for z <= u, it is at least

        exp(-u sum d / R - (-ln(1 - u) - u) sum d^2 / R^2),

    and so is the mean of these over some bets.
    """
    most = np.asarray(R, np.float64)
    unit = np.where(most > 0, most, 1.0)
    total = divide_rounding_once(x - y, scale_by_power(np.ones_like(n), places)) / unit
    squares = (
        divide_rounding_once(xx - 2 * xy + yy, scale_by_power(np.ones_like(n), 2 * places))
        / unit**2
    )
    grown = [-u * total + (np.log1p(-u) + u) * squares for u in BET_SHARES]
    evidence = np.logaddexp.reduce(grown) - np.log(len(BET_SHARES))
    return np.asarray(np.where(most > 0, evidence, -np.inf))


def student_quantile(level: Any, n: Any) -> Floats:
    """How many standard errors Student's interval of this confidence extends to each side."""
    from scipy.special import stdtrit

    degrees = np.asarray(degrees_of_freedom(n), np.float64)
    return np.asarray(stdtrit(degrees, 0.5 + np.asarray(level) / 2))
