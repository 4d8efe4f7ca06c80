"""Elementary functions written so that the compiler can vectorise them over lanes."""

import numpy as np

from heterobandits.core.compiled import inlined

LN_2 = 0.6931471805599453
LN_2_HIGH = float.fromhex(
    "0x1.62e42fefa3800p-1"
)  # ln 2 to 43 bits: times a small whole number, exact
LN_2_LOW = float.fromhex("0x1.ef35793c76730p-45")  # and the rest of it
PER_LN_2 = 1.4426950408889634
ROUNDER = 1.5 * 2.0**52  # a double this large has no fraction: adding it rounds
SQRT_2 = 1.4142135623730951
FRACTION_BITS = 52
FRACTION = 0xFFFFFFFFFFFFF
EXPONENT_OF_ONE = 0x3FF0000000000000
BIAS = 1023


@inlined
def ln(x):
    """The natural logarithm of a normal, positive x, to the last bits of a double.

    x = 2^k m with m in [sqrt(1/2), sqrt(2)], and ln m = 2 artanh f with f = (m - 1) / (m + 1). What
    follows f in its series f + f^3/3 + f^5/5 + ... is f^3 times a polynomial of degree 6 in f^2 < 0.03,
    the Chebyshev approximation of that series: off by 2e-16 at most, before the factor f^3.
    """
    bits = np.float64(x).view(np.int64)
    k = (bits >> FRACTION_BITS) - BIAS
    m = np.int64((bits & FRACTION) | EXPONENT_OF_ONE).view(np.float64)
    upper = m > SQRT_2
    m = 0.5 * m if upper else m
    k = k + 1 if upper else k
    f = (m - 1.0) / (m + 1.0)
    g = f * f
    series = 0.07308224842521703
    series = series * g + 0.07665860800278021
    series = series * g + 0.09091444562630861
    series = series * g + 0.1111110556739754
    series = series * g + 0.14285714312987743
    series = series * g + 0.19999999999949752
    series = series * g + 0.3333333333333335
    return k * LN_2 + 2.0 * (f + f * g * series)


@inlined
def ln_less(x):
    """ln(1 - x) for 0 <= x < 1, to the last bits of a double however small x is.

    What is lost when 1 - x is rounded is added to its logarithm: of a small x it is all that counts.
    """
    rest = 1.0 - x
    return ln(rest) + ((1.0 - rest) - x)


@inlined
def exp(x):
    """e^x for -700 < x < 700, to the last bits of a double.

    x = k ln 2 + r with |r| <= ln(2)/2, and e^r = 1 + r + r^2 times a polynomial of degree 9, the Chebyshev
    approximation of what follows in the series, off by 1.1e-16 at most. 2^k goes into the exponent.
    """
    rounded = x * PER_LN_2 + ROUNDER
    k = rounded - ROUNDER
    r = (x - k * LN_2_HIGH) - k * LN_2_LOW
    series = 2.510038549551032e-08
    series = series * r + 2.7620088445409746e-07
    series = series * r + 2.7557268459997064e-06
    series = series * r + 2.4801521295954376e-05
    series = series * r + 0.00019841269863053618
    series = series * r + 0.0013888888917213717
    series = series * r + 0.008333333333330062
    series = series * r + 0.04166666666662413
    series = series * r + 0.16666666666666669
    series = series * r + 0.5000000000000001
    series = 1.0 + (r + r * r * series)
    exponent = np.float64(rounded).view(np.int64) << FRACTION_BITS
    return np.int64(np.float64(series).view(np.int64) + exponent).view(np.float64)
