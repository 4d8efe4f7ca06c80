"""Elementary functions written so that the compiler can vectorise them over lanes."""

import numpy as np

from heterobandits.core.compiled import inlined

LN_2 = 0.6931471805599453
SQRT_2 = 1.4142135623730951
FRACTION_BITS = 52
FRACTION = 0xFFFFFFFFFFFFF
EXPONENT_OF_ONE = 0x3FF0000000000000
BIAS = 1023


@inlined
def ln(x):
    """The natural logarithm of a normal, positive x, to the last bits of a double.

    x = 2^k m with m in [sqrt(1/2), sqrt(2)], and ln m = 2 artanh f with f = (m - 1) / (m + 1), whose
    series f + f^3/3 + f^5/5 + ... ends after f^21, since f^2 < 0.03.
    """
    bits = np.float64(x).view(np.int64)
    k = (bits >> FRACTION_BITS) - BIAS
    m = np.int64((bits & FRACTION) | EXPONENT_OF_ONE).view(np.float64)
    upper = m > SQRT_2
    m = 0.5 * m if upper else m
    k = k + 1 if upper else k
    f = (m - 1.0) / (m + 1.0)
    g = f * f
    series = 1 / 21
    series = series * g + 1 / 19
    series = series * g + 1 / 17
    series = series * g + 1 / 15
    series = series * g + 1 / 13
    series = series * g + 1 / 11
    series = series * g + 1 / 9
    series = series * g + 1 / 7
    series = series * g + 1 / 5
    series = series * g + 1 / 3
    return k * LN_2 + 2.0 * (f + f * g * series)
