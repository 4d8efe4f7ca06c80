"""What a run may be asked for: how many rounds and trials, noted when, and no more than this machine can hold."""

import sys
from collections.abc import Iterable
from operator import length_hint
from typing import Any

from heterobandits.errors import InvalidInput, parse_integer, parse_list, repr_of
from heterobandits.limits import (
    ADDRESS_MAX,
    COUNT_MAX,
    DRIFT_TABLE_MAX_CELLS,
    LOG_TABLE_MAX_TERMS,
    TEST_LUCK_MAX_WORK,
)
from heterobandits.machine import machine_memory_bytes, render_bytes
from heterobandits.model.problem import Problem

SUM_BYTES = 300  # about what a sum over the trials takes while whole numbers are made of it


def estimate_checkpoint_count(checkpoints: int | Iterable[int], horizon: int) -> int:
    """About how many checkpoints there will be, before any is made."""
    if isinstance(checkpoints, Iterable):
        try:
            return length_hint(checkpoints)
        except OverflowError:  # a range longer than any list
            return sys.maxsize
    return min(parse_integer(checkpoints, "checkpoints", 1), horizon)


def parse_checkpoints(checkpoints: int | Iterable[int], horizon: int) -> tuple[int, ...]:
    """Rounds at which regret is noted: that many, evenly spaced, or those given; the horizon is always last."""
    if isinstance(checkpoints, Iterable):
        given = [
            parse_integer(value, f"checkpoints[{i}]", 1, horizon)
            for i, value in enumerate(parse_list(checkpoints, "checkpoints", "rounds"))
        ]
        return tuple(sorted({*given, horizon}))
    count = estimate_checkpoint_count(checkpoints, horizon)
    return tuple(-(-horizon * (i + 1) // count) for i in range(count))


def parse_horizon(horizon: Any, problem: Problem) -> int:
    """`horizon`, if this problem can be played for so many rounds."""
    rounds = parse_integer(horizon, "horizon", 1, COUNT_MAX // sum(problem.tests))
    if problem.several_tests and rounds * max(problem.tests) > LOG_TABLE_MAX_TERMS:
        raise InvalidInput(
            f"horizon is {rounds:,} rounds of up to {max(problem.tests)} tests on an arm: at most "
            f"{LOG_TABLE_MAX_TERMS:,} tests, for each of which there is a logarithm"
        )
    if problem.drift is not None:
        chances = problem.agents * problem.arms * max(problem.tests)
        if problem.drift.count(rounds) * chances > DRIFT_TABLE_MAX_CELLS:
            raise InvalidInput(
                f"horizon is {rounds:,} rounds in which the means change {problem.drift.count(rounds) - 1:,} times: "
                f"at most {DRIFT_TABLE_MAX_CELLS // chances - 1:,} times with so many agents, arms and tests, whose chances are tabled"
            )
        tests = max(problem.tests)
        work = problem.agents * problem.arms * (100 + tests**2) // 100
        if problem.several_tests and problem.drift.count(rounds) * work > TEST_LUCK_MAX_WORK:
            raise InvalidInput(
                f"horizon is {rounds:,} rounds of up to {tests} tests whose chances change {problem.drift.count(rounds) - 1:,} times: "
                f"at most {max(1, TEST_LUCK_MAX_WORK // work) - 1:,} times, as the luck of each is computed exactly"
            )
    return rounds


def parse_trial_range(trials: int | range) -> range:
    """The trials of a run: that many from 0 on, or a shard given as a range."""
    if isinstance(trials, range):
        inside = 0 <= trials.start < trials.stop <= ADDRESS_MAX // 2
        if not inside or trials.step != 1:
            raise InvalidInput(
                f"trials is {repr_of(trials)}: a range of consecutive trials from 0 on"
            )
        return trials
    return range(parse_integer(trials, "trials", 1, ADDRESS_MAX // 2))


def check_memory(policies: int, checkpoints: int, kept: int, trials: int, playing: int = 0) -> None:
    """Refuse a run that cannot fit into this machine, before it begins; its trials alone cost nothing.

    `kept` are the checkpoints at which every trial is kept, `playing` the trials played at a time.
    """
    regrets = policies * (kept * trials + checkpoints * playing)
    size = 8 * regrets + SUM_BYTES * checkpoints * policies * (policies + 1)
    if size > machine_memory_bytes():
        raise InvalidInput(
            f"{trials:,} trials of {policies} policies at {checkpoints:,} checkpoints, kept at {kept:,}, "
            f"would need {render_bytes(size)} of memory: this machine has {render_bytes(machine_memory_bytes())}"
        )
