"""Numbers and names of a sweep in words."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

WORDED_SETTINGS = ("sensitivities", "means", "false_positive_rates", "drift")


def render_numbers(values: Any) -> list[str]:
    """Numbers as texts, with as few digits as tell them apart, but three at least."""
    numbers = np.asarray(values)
    for digits in range(3, 18):
        texts = [number_text(value, digits) for value in numbers.tolist()]
        if len(set(texts)) == len(np.unique(numbers)):
            break
    return texts


def number_text(value: float, digits: int) -> str:
    """A number, with so many digits if it is not a whole one."""
    if abs(value) < 1e9 and value == int(value):
        return f"{int(value):,}"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="-")


def axis_in_words(name: str) -> str:
    """The name of an axis in words; the dotted name where words would be a riddle."""
    owner, _, key = name.partition(".")
    if key and owner in WORDED_SETTINGS:
        return f"{key} of the {owner}".replace("_", " ")
    return name if key else name.replace("_", " ")


def ratio_text(ratio: float | None) -> str:
    """A ratio, as text."""
    if ratio is None or math.isnan(ratio):
        return "–"
    if math.isinf(ratio):
        return "∞"
    return (
        f"{ratio:.2f}"
        if 0.095 <= ratio < 99.5
        else f"{ratio:.2g}"
        if ratio < 1
        else f"{ratio:,.0f}"
    )


def percent_text(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.6g} %"


def render_brief_count(count: int) -> str:
    """A count in few letters."""
    for unit, letter in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if count >= unit:
            return f"{count / (1000 if letter == 'k' else unit):.3g}{letter}"
    return f"{count:,}"


def render_enumeration(items: Sequence[str]) -> str:
    """A list in words."""
    return " and ".join((", ".join(items[:-1]), items[-1]) if len(items) > 1 else items)


def finite_or_none(value: float) -> float | None:
    """A number that JSON can hold, or None."""
    return float(value) if math.isfinite(value) else None
