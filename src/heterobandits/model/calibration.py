"""What calibration says about the agents: sets that contain their sensitivities and false positive rates.

An agent was tried on `planted` things that were there and found `found` of them: its sensitivity lies in the set of those s that are
not too unlikely beside the average over all s, by the ratio of prior and posterior as for the means   docs/model.md (8).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.errors import (
    InvalidInput,
    check_one_per_agent,
    parse_integer,
    parse_list,
    repr_of,
)
from heterobandits.limits import COUNT_MAX

Trial = tuple[int, int] | None  # how many of how many; None if the number is known exactly


class CalibrationBox(NamedTuple):
    """The range of each agent's sensitivity and false positive rate."""

    s_low: Floats
    s_high: Floats
    phi_low: Floats
    phi_high: Floats


def parse_trials(values: Any, name: str, agents: Sequence[str]) -> tuple[Trial, ...]:
    """`values` as each agent's calibration: a pair, or None (in files []) for an agent that is known exactly."""
    if values is None:
        return (None,) * len(agents)
    items = parse_list(values, name, "pairs, one for each agent")
    check_one_per_agent(items, name, len(agents))
    return tuple(
        None
        if item is None or (isinstance(item, (list, tuple)) and not item)
        else parse_trial(item, f"{name} of {agent!r}")
        for agent, item in zip(agents, items, strict=True)
    )


def parse_trial(item: Any, name: str) -> tuple[int, int]:
    """`item` as how many successes an agent reported in how many tests."""
    pair = parse_list(item, name, "two numbers") if not isinstance(item, str) else []
    if len(pair) != 2:
        raise InvalidInput(f"{name} is {repr_of(item)}: how many of how many, such as (17, 20)")
    of = parse_integer(pair[1], f"{name}: the number of tests", 0, COUNT_MAX)
    return parse_integer(pair[0], f"{name}: what was reported", 0, of), of


def estimate_of_trial(trial: tuple[int, int]) -> float:
    """The posterior mean under a uniform prior: the estimate where a single number is needed."""
    found, of = trial
    return (found + 1) / (of + 2)


def estimates_of_trials(trials: Sequence[Trial], known: Sequence[float]) -> tuple[float, ...]:
    """Each agent's estimate; the known number where there was no calibration."""
    both = zip(trials, known, strict=True)
    return tuple(value if trial is None else estimate_of_trial(trial) for trial, value in both)


@lru_cache(maxsize=1024)
def chance_interval(trial: tuple[int, int], log_term: float) -> tuple[float, float]:
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
def calibration_box(
    sensitivities: tuple[float, ...],
    false_positive_rates: tuple[float, ...],
    calibration: tuple[Trial, ...],
    false_positive_calibration: tuple[Trial, ...],
    delta: float,
) -> CalibrationBox:
    """Sets that hold all numbers that were calibrated, with probability 1 - delta; the others are known."""
    both = (calibration, false_positive_calibration)
    count = sum(trial is not None for trials in both for trial in trials)
    ends = []
    for known, trials in zip((sensitivities, false_positive_rates), both, strict=True):
        sets = [
            (value, value) if trial is None else chance_interval(trial, math.log(count / delta))
            for value, trial in zip(known, trials, strict=True)
        ]
        ends += [np.array(side) for side in zip(*sets, strict=True)]
    return CalibrationBox(*ends)
