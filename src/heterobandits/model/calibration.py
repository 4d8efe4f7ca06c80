"""What calibration says of the agents: sets that hold their sensitivities and false positive rates.

An agent was tried on `planted` things that were there and found `found` of them: its sensitivity lies in the set of those s that are
not too unlikely beside the average over all s, by the ratio of prior and posterior as for the means   docs/model.md (8).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.errors import InvalidInput, each_agent, listed, shown, whole_number
from heterobandits.limits import MOST

Floats = npt.NDArray[np.float64]
Trial = tuple[int, int] | None  # how many of how many; None if the number is known exactly


class Box(NamedTuple):
    """Between what each agent's sensitivity and false positive rate lie."""

    s_low: Floats
    s_high: Floats
    phi_low: Floats
    phi_high: Floats


def trials_from(values: Any, name: str, agents: Sequence[str]) -> tuple[Trial, ...]:
    """`values` as what calibration found of each agent: a pair, or None (in files []) for one that is known exactly."""
    if values is None:
        return (None,) * len(agents)
    items = listed(values, name, "pairs, one for each agent")
    each_agent(items, name, len(agents))
    return tuple(
        None
        if item is None or (isinstance(item, (list, tuple)) and not item)
        else trial_from(item, f"{name} of {agent!r}")
        for agent, item in zip(agents, items, strict=True)
    )


def trial_from(item: Any, name: str) -> tuple[int, int]:
    """`item` as what one agent reported of how many tests."""
    pair = listed(item, name, "two numbers") if not isinstance(item, str) else []
    if len(pair) != 2:
        raise InvalidInput(f"{name} is {shown(item)}: how many of how many, such as (17, 20)")
    of = whole_number(pair[1], f"{name}: the number of tests", 0, MOST)
    return whole_number(pair[0], f"{name}: what was reported", 0, of), of


def estimate(trial: tuple[int, int]) -> float:
    """The mean of the posterior under a uniform prior: what is plugged in where one number is wanted."""
    found, of = trial
    return (found + 1) / (of + 2)


def posterior_means(trials: Sequence[Trial], known: Sequence[float]) -> tuple[float, ...]:
    """The same of each agent; what is known where nothing was tried."""
    both = zip(trials, known, strict=True)
    return tuple(value if trial is None else estimate(trial) for trial, value in both)


@lru_cache(maxsize=1024)
def chances(trial: tuple[int, int], log_term: float) -> tuple[float, float]:
    """Between what the chance lies: where its log-likelihood is `log_term` below the evidence, or 0 and 1."""
    from scipy.optimize import (
        brentq,
    )  # which takes half a second to import: who does not calibrate need not wait
    from scipy.special import betaln, xlog1py, xlogy

    found, of = trial
    level = float(betaln(found + 1, of - found + 1)) - log_term

    def excess(chance: float) -> float:
        return float(xlogy(found, chance) + xlog1py(of - found, -chance)) - level

    peak = found / of if of else 0.5

    def end(outermost: float, limit: float) -> float:
        """Where the chance becomes too unlikely, or the limit if it does not before that as far as a double can tell."""
        if excess(outermost) >= 0.0:
            return limit
        return float(brentq(excess, outermost, peak, xtol=1e-14))

    return end(np.finfo(float).tiny, 0.0), end(math.nextafter(1.0, 0.0), 1.0)


@lru_cache(maxsize=256)
def box(
    sensitivities: tuple[float, ...],
    false_positive_rates: tuple[float, ...],
    calibration: tuple[Trial, ...],
    false_positive_calibration: tuple[Trial, ...],
    delta: float,
) -> Box:
    """Sets that hold all numbers that were calibrated, with probability 1 - delta; the others are known."""
    both = (calibration, false_positive_calibration)
    count = sum(trial is not None for trials in both for trial in trials)
    ends = []
    for known, trials in zip((sensitivities, false_positive_rates), both, strict=True):
        sets = [
            (value, value) if trial is None else chances(trial, math.log(count / delta))
            for value, trial in zip(known, trials, strict=True)
        ]
        ends += [np.array(side) for side in zip(*sets, strict=True)]
    return Box(*ends)
