"""What is believed of the means before anything is seen: a Beta for an arm, or one learned from all arms together.

Beta(a, b) says as much as a - 1 successes and b - 1 failures of an agent that never errs: real numbers, at least 0.
It belongs to what is believed, as sensitivities do that are believed; outcomes and regret know nothing of it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from heterobandits.errors import InvalidInput, parse_list, parse_real, parse_sensitivity, repr_of

BetaShape = tuple[float, float]  # a and b of a Beta

UNIFORM: BetaShape = (1.0, 1.0)
PriorKind = Literal["learned", "stated"]  # what is believed of arms of which nothing is stated
LEARNED: PriorKind = "learned"
PRIOR_MAX_COUNT = 1e9  # of a or b
PRIOR_TEXT_MAX_LETTERS = 100
MOST_LN_SHAPE = math.log(1e6)  # of a, where words say what is believed
LEAST_RATE = 1e-9  # of what is typical: with less, nothing would be found in as many tests as count
HARDLY_EVER = 0.01  # the chance of a mean above what is said to be hardly ever exceeded


NUMBER_REGEX = r"(\d{1,9}(?:[.,]\d{1,9})?)\s*(%)?"
WHOLE_REGEX = r"(\d{1,9})"
FOUND_TEXT = re.compile(
    rf"{WHOLE_REGEX}\s*(?:/|of)\s*{WHOLE_REGEX}(?:\s*,?\s*(?:x|×|\*|counts)\s*{NUMBER_REGEX})?"
)
TYPICAL_TEXT = re.compile(
    rf"(?:typically\s+)?{NUMBER_REGEX}\s*(?:,|to|–|-)\s*(?:hardly ever above\s+)?{NUMBER_REGEX}"
)
AS_IF_TEXT = re.compile(
    r"(?:[^,]*,\s*)?as if (\d{1,9}(?:\.\d{1,9})?) were found in (\d{1,9}(?:\.\d{1,9})?) tests"
)


@dataclass(frozen=True)
class Prior:
    """What is believed of every arm beforehand.

    Attributes
    ----------
    shapes
        The Beta that is stated of each arm; None where nothing is stated.
    learned
        Whether the arms of which nothing is stated share a prior that is learned from all of them; it is uniform otherwise.
    """

    shapes: tuple[BetaShape | None, ...]
    learned: bool = False

    @property
    def is_uniform(self) -> bool:
        """Whether every mean is believed to be as likely as any other, whatever is seen of other arms."""
        uniform = (UNIFORM,) if self.learned else (UNIFORM, None)
        return all(one in uniform for one in self.shapes)

    @property
    def stated(self) -> tuple[BetaShape, ...]:
        """The stated Beta of each arm, uniform where nothing is stated."""
        return tuple(UNIFORM if one is None else one for one in self.shapes)

    def widened(self, arms: int) -> "Prior":
        """The same for more arms: what is stated of all arms alike is stated of them, too, and else nothing."""
        common = self.shapes[0] if len(set(self.shapes)) == 1 else None
        return Prior(self.shapes + (common,) * (arms - len(self.shapes)), self.learned)


def parse_prior(given: Any, arms: int) -> Prior:
    """A prior as people give it: None, "learned", a pair (a, b) for all arms, or a list with a pair or None for each.

    >>> parse_prior((2, 60), 2).shapes
    ((2.0, 60.0), (2.0, 60.0))
    >>> parse_prior("learned", 2)
    Prior(shapes=(None, None), learned=True)
    """
    if given is None or given is LEARNED or (isinstance(given, str) and given == LEARNED):
        return Prior((None,) * arms, given is not None)
    if isinstance(given, Prior):
        learned = bool(given.learned)
        listed: list[Any] = list(given.shapes)
    else:
        what = f'pairs (a, b), one for each arm, or one pair for all, or "{LEARNED}"'
        listed = parse_list(given, "prior", what)
        learned = bool(listed) and isinstance(listed[0], str) and listed[0] == LEARNED
        listed = listed[1:] if learned else listed
        if len(listed) == 2 and all(isinstance(one, (int, float)) for one in listed):
            listed = [listed] * arms
    if len(listed) != arms:
        raise InvalidInput(f"prior has {len(listed)} entries: one for each of the {arms} arms")
    shapes = tuple(parse_shape(one, f"prior[{n}]") for n, one in enumerate(listed))
    return Prior(shapes, learned)


def parse_shape(given: Any, name: str) -> BetaShape | None:
    """A pair (a, b) of a Beta, both at least 1; None, or nothing in a list, where nothing is stated."""
    pair = [] if given is None else parse_list(given, name, "numbers, a and b of a Beta")
    if not pair:
        return None
    if len(pair) != 2:
        raise InvalidInput(f"{name} is {repr_of(given)}: two numbers, a and b of a Beta")
    a, b = (parse_shape_number(one, name) for one in pair)
    return a, b


def parse_shape_number(given: Any, name: str) -> float:
    """`given` as a or b of a Beta."""
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(given, (bool, str)) or not 1.0 <= number <= PRIOR_MAX_COUNT:
        raise InvalidInput(
            f"{name} has {repr_of(given)}: a and b of a Beta are numbers from 1 to {PRIOR_MAX_COUNT:,.0f}"
        )
    return number


@lru_cache(maxsize=4096)  # a search, of a millisecond or two
def shape_of_words(typical: float, high: float) -> BetaShape:
    """The Beta of "typically so much, hardly ever above so much": the median, and what one place in 100 exceeds.

    Where no Beta with a and b of at least 1 has both: above one half that with b = 1 that has the first, below that with a = 1 that
    has the second.

    >>> [round(part, 2) for part in shape_of_words(0.02, 0.1)]
    [1.34, 50.55]
    """
    from scipy.optimize import brentq
    from scipy.special import betaincinv, btdtrib

    if not LEAST_RATE <= typical < high < 1.0:
        raise InvalidInput(
            f"typically {typical:g} and hardly ever above {high:g}: two numbers between 0 and 1, or in percent, the smaller one first "
            f"and {LEAST_RATE:g} at least"
        )

    def excess(t: float) -> float:
        """By how much one place in 100 is above `high`, under the Beta with a = e^t that has this median."""
        a = math.exp(t)
        return float(betaincinv(a, btdtrib(a, 0.5, typical), 1.0 - HARDLY_EVER)) - high

    upwards = math.log(0.5) / math.log(typical)  # Beta(upwards, 1) has this median
    if upwards >= 1.0 and excess(math.log(upwards)) <= 0.0:
        return check_stated_shape(upwards, 1.0)
    if excess(0.0) <= 0.0:  # even the widest is hardly ever so high: the places differ more
        return check_stated_shape(1.0, max(1.0, math.log(HARDLY_EVER) / math.log1p(-high)))
    if excess(MOST_LN_SHAPE) > 0.0:
        raise InvalidInput(
            f"typically {typical:g} and hardly ever above {high:g}: so close together that nothing is left to learn"
        )
    a = math.exp(brentq(excess, 0.0, MOST_LN_SHAPE))
    return check_stated_shape(a, max(1.0, float(btdtrib(a, 0.5, typical))))


def shape_of_range(low: float, high: float) -> BetaShape:
    """The Beta with the mean and the variance of a mean that lies anywhere between these two, each as likely.

    >>> shape_of_range(0.0, 1.0), [round(part, 1) for part in shape_of_range(0.01, 0.05)]
    ((1.0, 1.0), [6.5, 210.7])
    """
    mean, variance = 0.5 * (low + high), (high - low) ** 2 / 12.0
    tests = mean * (1.0 - mean) / variance - 1.0 if variance > 0.0 else math.inf
    if tests > PRIOR_MAX_COUNT:
        raise InvalidInput(
            f"from {low:g} to {high:g}: so close together that nothing is left to learn"
        )
    return max(1.0, mean * tests), max(1.0, (1.0 - mean) * tests)


def shape_of_counts(
    found: float, tests: float, sensitivity: float = 1.0, counts: float = 1.0
) -> BetaShape:
    """The Beta of "found so often in so many tests", which counts for this share of what it would count if it were seen now.

    Tests by an agent of sensitivity s count as s times as many tests by one that never errs.

    >>> shape_of_counts(5, 120, counts=0.5)
    (3.5, 58.5)
    """
    parse_sensitivity(sensitivity, "sensitivity")
    if not 0 <= found <= tests:
        raise InvalidInput(f"{found:g} found in {tests:g} tests: at most as many as tests")
    check_weight(counts)
    missed = max(0.0, sensitivity * tests - found)
    return check_stated_shape(1.0 + counts * found, 1.0 + counts * missed)


def check_stated_shape(a: float, b: float) -> BetaShape:
    """A Beta that somebody's words come to, if it is one that can be planned with."""
    if not all(1.0 <= part <= PRIOR_MAX_COUNT for part in (a, b)):
        raise InvalidInput(
            f"that is a Beta of {a:.3g} and {b:.3g}: as if over {PRIOR_MAX_COUNT:,.0f} tests were known, which leaves nothing to learn"
        )
    return a, b


def check_weight(counts: float) -> None:
    """Refuse what something cannot count for."""
    if not 0.0 <= counts <= 1.0:
        raise InvalidInput(f"it counts for {counts:g}: from 0, not at all, to 1, as if seen now")


def parse_stated_prior(value: Any, name: str = "prior") -> BetaShape | None:
    """What is stated of a mean, as a Beta: its a and b; what is typical and what hardly ever exceeded; what was found before; or a text.

    >>> parse_stated_prior([2, 60]), parse_stated_prior({"found": 5, "tests": 120, "counts": 0.5})
    ((2.0, 60.0), (3.5, 58.5))
    """
    if isinstance(value, str):
        return parse_prior_text(value, name)
    if not isinstance(value, Mapping):
        return parse_shape(value, name)
    numbers = {key: parse_real(part, f"{name}.{key}", "a number") for key, part in value.items()}
    if set(numbers) == {"typical", "high"}:
        return shape_of_words(**numbers)
    if {"found", "tests"} <= set(numbers) <= {"found", "tests", "sensitivity", "counts"}:
        shape = shape_of_counts(**numbers)
        return shape if numbers.get("counts", 1.0) else None
    raise InvalidInput(
        f"{name} has {', '.join(map(str, value)) or 'nothing'}: typical and high, or found and tests, with sensitivity and counts if "
        "they are not 1"
    )


def parse_prior_text(text: str, name: str = "prior") -> BetaShape | None:
    """What people write of a mean: what is typical and what it hardly ever exceeds, or what was found, and for how much it counts.

    What counts for nothing states nothing.

    >>> parse_prior_text("5 of 120"), parse_prior_text("5/120 x 0.5"), parse_prior_text("5 of 120, counts 50 %")
    ((6.0, 116.0), (3.5, 58.5), (3.5, 58.5))
    >>> parse_prior_text("5 of 120 x 0") is None
    True
    >>> parse_prior_text("3.2 %, as if 1 were found in 60 tests")  # as `render_shape` writes it
    (2.0, 60.0)
    >>> parse_prior_text("typically 2 %, hardly ever above 10 %") == parse_prior_text("2% to 10%") == shape_of_words(0.02, 0.1)
    True
    """
    if len(text) > PRIOR_TEXT_MAX_LETTERS:
        raise InvalidInput(f"{name} has {len(text):,} letters: at most {PRIOR_TEXT_MAX_LETTERS}")
    found = FOUND_TEXT.fullmatch(text.strip().lower())
    if found:
        successes, tests, counts, percent = found.groups()
        weight = rate_of_text(counts or "1", percent)
        shape = shape_of_counts(float(successes), float(tests), counts=weight)
        return shape if weight else None
    whole = AS_IF_TEXT.fullmatch(text.strip().lower())
    if whole:
        return shape_of_counts(*map(float, whole.groups()))
    words = TYPICAL_TEXT.fullmatch(text.strip().lower())
    if not words:
        raise InvalidInput(
            f"{name} is {repr_of(text)}: such as '2 % to 10 %', for typically 2 % and hardly ever above 10 %, or '5 of 120', for what "
            "was found before"
        )
    typical, one, high, other = words.groups()
    return shape_of_words(rate_of_text(typical, one or other), rate_of_text(high, other or one))


def rate_of_text(number: str, percent: str | None) -> float:
    """A rate as people write it, with a decimal comma, or in percent."""
    return float(number.replace(",", ".") + ("e-2" if percent else ""))


def render_shape(shape: BetaShape, tests_word: str = "tests") -> str:
    """A Beta in words: its mean, and what it counts for; in the words of the library it can be read again.

    >>> render_shape((2.0, 60.0))
    '3.2 %, as if 1 were found in 60 tests'
    >>> render_shape((1.234, 50.55))
    '2.4 %, as if 0.2 were found in 49.8 tests'
    """
    a, b = shape
    found, tests = round(a - 1.0, 1), round(a + b - 2.0, 1)
    return f"{100.0 * a / (a + b):.2g} %, as if {found:g} were found in {tests:g} {tests_word}"


def prior_to_plain(prior: Prior) -> Any:
    """A prior as it stands in files: an empty list where nothing is stated of an arm.

    >>> prior_to_plain(Prior((None, (2.0, 60.0)), learned=True))
    ['learned', [], [2.0, 60.0]]
    """
    if prior.learned and not any(prior.shapes):
        return LEARNED
    return [LEARNED] * prior.learned + [list(one or ()) for one in prior.shapes]
