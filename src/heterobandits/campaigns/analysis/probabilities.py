"""What is probable of the arms: estimates, ordinary 80 % intervals, and who is likely to be among the best   docs/campaigns-answers.md

All of it goes by the prior: what is stated of an arm, or what all arms together make likely of those of which nothing is stated. It comes
true about as often as it says, on the average over such campaigns. What is certain stands in `answers`, and asks for less.
"""

import math
from dataclasses import dataclass

from heterobandits.campaigns.analysis.answers import mixed_arms_text, render_arms, unseen_arms
from heterobandits.campaigns.analysis.beliefs import beliefs_of, drawn_means
from heterobandits.campaigns.state import State, once_for_state
from heterobandits.errors import InvalidInput
from heterobandits.inference.beliefs import chances_of_draws

PROBABLE_TAIL_CHANCE = 0.1  # the chance to be below, or above, an ordinary interval
SENTENCE_MIN_CHANCE = 0.05  # of an arm to be named as one of the likely best
SENTENCE_CHANCES = 0.8  # the chance that the best is one of those that are named
SENTENCE_MAX_BEST = 3  # arms that are named as likely the best
RATE_AXIS_ENDS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.6,
    0.8,
    1.0,
)  # means at which an axis may end
ALIKE_DIGITS = 9  # of means that count as the same
# to be among the best, below which a visit is probably not worth it: this, and this share of an arm's chance if all are alike
UNPROMISING_CHANCE = 0.05
UNPROMISING_SHARE = 0.25


@dataclass(frozen=True)
class ArmChances:
    """What is probable of an arm in use.

    Attributes
    ----------
    estimate, low, high
        The posterior mean, and the mean lies between these two with a probability of 80 %.
    best, among
        The chance that it is the best of all arms in use, and that it is among the best so many as there are agents to send.
    """

    arm: int
    estimate: float
    low: float
    high: float
    best: float
    among: float


@dataclass(frozen=True)
class Probable:
    """What is probable of all arms in use, in numbers and in words; no sentence before anything is known.

    `among` is how many agents there are to send, and chances are counted in `draws`.
    """

    arms: dict[int, ArmChances]
    among: int
    draws: int
    sentences: list[str]


def has_forecast(state: State) -> bool:
    """Whether anything can be forecast: something was reported that counts, or is stated of half of the arms in use beforehand."""
    stated = [arm.prior is not None for arm in state.arms if not arm.retired]
    return bool(state.knowledge.pulls.any()) or 0 < len(stated) <= 2 * sum(stated)


def nothing_known_text(state: State) -> str:
    """Why there is no forecast."""
    of = (
        f"most {state.words.arms}"
        if any(arm.prior for arm in state.arms)
        else f"any {state.words.arm}"
    )
    return f"Nothing was reported yet, and nothing is stated of {of} beforehand: so nothing can be forecast."


class NothingKnown(InvalidInput):
    """A forecast is asked for before anything is known."""


def check_forecast(state: State) -> None:
    """Refuse a forecast of a campaign of which nothing is known."""
    if not has_forecast(state):
        raise NothingKnown(nothing_known_text(state))


@once_for_state
def probable(state: State) -> Probable:
    """What is probable of the arms in use."""
    known = beliefs_of(state)
    here = [n for n, arm in enumerate(state.arms) if not arm.retired]
    going = sum(not agent.retired for agent in state.agents)
    chances = chances_of_draws(drawn_means(state)[here], going)
    ends = [known.quantiles(share) for share in (PROBABLE_TAIL_CHANCE, 1.0 - PROBABLE_TAIL_CHANCE)]
    found = {
        n: ArmChances(
            arm=n,
            estimate=float(known.mean[n]),
            low=float(ends[0][n]),
            high=float(ends[1][n]),
            best=float(best),
            among=float(among),
        )
        for n, best, among in zip(here, chances.best, chances.among, strict=True)
    }
    made = Probable(found, min(going, len(here)), chances.draws, [])
    if has_forecast(state) and len(here) > 1:
        made.sentences.extend(chance_sentences(state, made))
    return made


def chance_sentences(state: State, known: Probable) -> list[str]:
    """What is probable in words: which arms are most likely the best, and which are probably not worth a visit."""
    likely = likely_best(known)
    names = {n: f"{state.arms[n].name} ({render_percent(best, known.draws)})" for n, best in likely}
    sentences = [f"Most likely best: {', '.join(names.values())}."] if names else []
    least = min(UNPROMISING_CHANCE, UNPROMISING_SHARE * known.among / len(known.arms))
    hardly_known = [n for n in unseen_arms(state, list(known.arms)) if state.arms[n].prior is None]
    poor = [
        one.arm
        for one in sorted(known.arms.values(), key=lambda one: one.best)
        if one.among < least and one.arm not in names and one.arm not in hardly_known
    ]
    if poor and known.among < len(known.arms):
        best = "the best" if known.among == 1 else f"the best {known.among}"
        each = "chance" if len(poor) == 1 else "chances"
        sentences.append(
            f"Probably not worth a visit: {render_arms(state, poor, 'and')}, whose {each} to be "
            f"among {best} {'is' if len(poor) == 1 else 'are'} below {100.0 * least:.2g} %."
        )
    mixed = mixed_arms_text(state)
    return [*sentences, mixed] if mixed else sentences


def likely_best(known: Probable) -> list[tuple[int, float]]:
    """The few arms that are most likely the best, each with its chance, if that is more than the luck of the draws.

    Arms that are alike are named all or not at all: of which draw has which of them as the best, only chance decides.
    """
    groups: dict[tuple[float, ...], list[ArmChances]] = {}
    for one in known.arms.values():
        groups.setdefault(likeness_of_chances(one), []).append(one)
    even = 1.0 / len(known.arms)
    least = even + 2.0 * math.sqrt(even * (1.0 - even) / known.draws)
    named: list[tuple[int, float]] = []
    for group in sorted(groups.values(), key=lambda alike: -mean_chance(alike)):
        each = mean_chance(group)
        said = sum(chance for _, chance in named)
        if len(named) + len(group) > SENTENCE_MAX_BEST:
            break
        if each <= least if not named else each < SENTENCE_MIN_CHANCE or said >= SENTENCE_CHANCES:
            break
        named += [(one.arm, each) for one in group]
    return named


def likeness_of_chances(arm: ArmChances) -> tuple[float, ...]:
    """What arms have in common of which the same is believed, but for rounding."""
    return tuple(round(part, ALIKE_DIGITS) for part in (arm.estimate, arm.low, arm.high))


def mean_chance(arms: list[ArmChances]) -> float:
    """The chance of each of these arms to be the best, where the same is believed of all of them."""
    return sum(one.best for one in arms) / len(arms)


def render_percent(chance: float, draws: int) -> str:
    """A chance that was counted in draws, in whole percent; nothing is certain that was only counted.

    >>> render_percent(0.584, 4000), render_percent(1.0, 4000), render_percent(0.0, 4000)
    ('58 %', 'over 99 %', 'under 1 %')
    """
    percent = round(100.0 * chance)
    if percent >= 100:
        return "over 99 %"
    return "under 1 %" if percent < 1 else f"{percent} %"


def render_rates(estimate: float, low: float, high: float) -> list[str]:
    """A mean and its ordinary interval in percent, with the digits that mean something at its width.

    >>> render_rates(0.0312, 0.0123, 0.0571), render_rates(0.5, 0.41, 0.59)
    (['3.1 %', '1.2 %', '5.7 %'], ['50 %', '41 %', '59 %'])
    """
    width = high - low
    digits = 0 if width >= 0.1 else 1 if width >= 0.01 else 2
    return [f"{100.0 * rate:.{digits}f} %" for rate in (estimate, low, high)]


def render_certain_ends(lower: float, upper: float) -> tuple[str, str]:
    """The ends of an interval in whole percent, rounded so that all of it lies between them.

    >>> render_certain_ends(0.0312, 0.571)
    ('3 %', '58 %')
    """
    least, most = math.floor(100.0 * lower + 1e-9), math.ceil(100.0 * upper - 1e-9)
    return f"{least} %", f"{most} %"


def fit_rate_axis(most: float) -> float:
    """The mean at which an axis ends that has room for this one.

    >>> fit_rate_axis(0.057), fit_rate_axis(0.41), fit_rate_axis(0.0)
    (0.1, 0.6, 0.01)
    """
    return next(end for end in RATE_AXIS_ENDS if most <= end or end == RATE_AXIS_ENDS[-1])
