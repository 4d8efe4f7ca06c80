"""Filtered decisions are those of the exact rule, whatever is played; their numbers are no further off than they say."""

import math
from dataclasses import replace

import numpy as np
import pytest

from heterobandits import CATALOGUE, Problem, simulate
from heterobandits.core import filtered
from heterobandits.model.drift import Changes
from heterobandits.simulation.engine import (
    Learning,
    PolicyWorld,
    count_doubts,
    few_pulls_table,
    new_control,
)

FILTERED = [name for name, entry in CATALOGUE.items() if entry.rule.refresh is not None]
SPREAD = [0.1, 0.35, 0.5, 0.55, 0.8]
PROBLEMS = {
    "1 x 2": Problem([0.3, 0.6], [0.8]),
    "1 x 4 of one kind": Problem([0.2, 0.8, 0.5, 0.55], [0.7]),
    "as many agents as arms": Problem([0.72, 0.74, 0.93, 0.61], [0.3, 0.5, 0.7, 0.9]),
    "two kinds": Problem([0.05, 0.1, 0.12, 0.15, 0.25, 0.3], [0.8, 0.8, 0.8, 0.95, 0.95]),
    "arms that tie": Problem([0.5, 0.5, 0.5, 0.5], [0.5, 0.9, 0.5]),
    "never and always": Problem([0.0, 1.0, 1.0, 0.0, 0.5], [1.0, 0.4, 1.0]),
    "close and hard to tell": Problem([0.5, 0.5001, 0.4999, 0.5002], [0.9, 0.05]),
    "rarely anything": Problem([0.001, 0.002, 0.004], [0.2, 0.3]),
    "many kinds": Problem(np.linspace(0.1, 0.9, 9), np.linspace(0.2, 1.0, 6)),
    "believed otherwise": Problem(SPREAD, [0.25, 0.5, 0.8], believed=[0.5, 0.5, 0.4]),
    "false alarms": Problem(SPREAD, [0.7, 0.9, 0.9], false_positive_rates=[0.1, 0.0, 0.05]),
    "several tests": Problem(SPREAD, [0.4, 0.9], tests=[3, 1]),
    "many tests": Problem(SPREAD, [0.4, 0.9], tests=[90, 40]),
    "more noise than news": Problem(
        [0.9, 0.6, 1.0, 0.0], [0.37, 0.4], false_positive_rates=[0.26, 0.3], tests=[60, 1]
    ),
    "means that change": Problem(SPREAD, [0.4, 0.9], drift=Changes([(80, SPREAD[::-1])])),
}


def exactly(entry):
    """The policy as its exact rule plays it."""
    return replace(entry, rule=entry.rule._replace(refresh=None))


def same_decisions(problem, name, horizon, trials, seed=0):
    """Whether both have the same regret in every trial at every checkpoint, to the last bit."""
    how = {"horizon": horizon, "trials": trials, "seed": seed, "keep": "all"}
    fast, exact = (simulate(problem, p, **how) for p in (CATALOGUE[name], exactly(CATALOGUE[name])))
    return np.array_equal(fast.kept, exact.kept)


def test_who_is_calibrated_is_not_filtered():
    """The filter knows nothing of what calibration leaves open."""
    known, tried = (
        Problem(SPREAD, [0.5, 0.9], **how) for how in ({}, {"calibration": [(9, 20), (18, 20)]})
    )
    entry = CATALOGUE["calibrated-sorted"]
    assert (PolicyWorld(known, entry).filtered, PolicyWorld(tried, entry).filtered) == (True, False)
    assert same_decisions(tried, "calibrated-sorted", 60, 8)


def test_the_policies_people_should_use_are_filtered():
    assert {"posterior-sorted", "season", "bayes-ucb", "thompson-sorted"} <= set(FILTERED)


@pytest.mark.parametrize("name", FILTERED)
class TestDecisions:
    """Of whole runs."""

    @pytest.mark.slow
    @pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
    def test_are_those_of_the_exact_rule(self, name, problem):
        assert same_decisions(problem, name, 150, 20)

    def test_of_random_problems(self, name):
        rng = np.random.default_rng(12)
        for seed in range(6):
            arms = rng.integers(2, 9)
            agents = rng.integers(1, arms + 1)
            means = rng.choice([rng.random(arms), rng.integers(0, 5, arms) / 4])
            problem = Problem(means, 0.05 + 0.95 * rng.random(agents))
            assert same_decisions(problem, name, 120, 12, seed), problem

    @pytest.mark.nightly
    def test_of_a_long_run(self, name):
        """Windows are laid anew again and again; outcomes are taken in by the thousand."""
        assert same_decisions(PROBLEMS["as many agents as arms"], name, 9000, 4)
        if name in ("posterior-ratio", "posterior-sorted", "season"):
            assert same_decisions(PROBLEMS["two kinds"], name, 4000, 4)


class TestNumbers:
    """Round by round."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", [n for n in FILTERED if n != "thompson-sorted"])
    @pytest.mark.parametrize("problem", ["two kinds", "false alarms", "rarely anything", "1 x 2"])
    def test_are_no_further_off_than_they_say(self, name, problem):
        fast, exact = (
            Learning(PolicyWorld(PROBLEMS[problem], p.until(400), 400), 3, 0, 32)
            for p in (CATALOGUE[name], exactly(CATALOGUE[name]))
        )
        known = 0
        for _ in range(400):
            fast.advance(1)
            exact.advance(1)
            off = fast.block.cells.off
            same = fast.block.index == exact.block.index  # infinite ones, too
            with np.errstate(invalid="ignore"):
                apart = np.abs(fast.block.index - exact.block.index)
            assert (same | (apart <= off)).all()
            known += ((off > 0) & (off < 1e-3)).sum()
        assert known > 0.2 * 400 * off.size

    @pytest.mark.parametrize("name", ["posterior-sorted", "season"])
    def test_leave_few_decisions_in_doubt(self, name):
        learning = Learning(
            PolicyWorld(PROBLEMS["two kinds"], CATALOGUE[name].until(300), 300), 0, 0, 128
        )
        control = new_control()
        learning.play(100, (), new_control(), np.empty((0, 128)))
        learning.play(300, (), control, np.empty((0, 128)))
        assert 0 < count_doubts(control) < 0.01 * 200 * 128

    def test_of_few_pulls_are_known_by_heart(self):
        """All that can have been seen of an arm, each once, in the order of its rank."""
        states, ranks = filtered.few_states(3, 2000)
        most = int(states.sum(axis=1).max())
        assert len(states) == math.comb(most + 3, 3) <= 2000 < math.comb(most + 4, 3)
        assert len({tuple(state) for state in states}) == len(states)
        assert states.min() == 0
        sums = np.cumsum(states, axis=1)
        assert (ranks[np.arange(3), sums].sum(axis=1) == np.arange(len(states))).all()

    def test_of_an_arm_never_pulled_are_the_rules(self):
        problem = PROBLEMS["two kinds"]
        few = few_pulls_table(CATALOGUE["posterior-sorted"], problem.team, problem.arms)
        assert few.values[0, 0] == math.inf
        assert few.values[1, 0] == pytest.approx(0.5, abs=1e-14)
