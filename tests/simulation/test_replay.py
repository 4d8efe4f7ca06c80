"""The engine plays what the plain transcription plays on the same addresses, whatever features come together.

A trial has a policy, a size, means that may drift, visits that may be of several tests, agents that may give false alarms,
beliefs that may be mistaken, and parameters. The cases contain every pair of these that can occur together.
"""

import itertools

import numpy as np
import pytest

import reference
from heterobandits import CATALOGUE, Changes, Problem, Walk, Wave, policy, simulate

HORIZON, SEED, FIRST_TRIAL = 25, 2**50 + 9, 2**33
DISCOUNTED = "posterior-sorted-discounted"
# whose reference integrates at every step of a search, or anew in every round
SLOW = ("bayes-ucb", "season", DISCOUNTED)

SIZES = {
    "covid": ([0.05, 0.1, 0.12, 0.15, 0.25, 0.3], [0.8, 0.8, 0.8, 0.95, 0.95]),
    "square": ([0.72, 0.74, 0.93, 0.61], [0.3, 0.5, 0.7, 0.9]),
    "weak": ([0.1, 0.9, 0.5, 0.3], [0.2, 0.3]),
    "certain": ([0.0, 1.0, 1.0], [1.0, 0.5]),
}
FACTORS = {
    "name": tuple(CATALOGUE),
    "drift": ("none", "changes", "wave", "walk"),
    "size": tuple(SIZES),
    "tests": ("one", "several"),
    "alarms": ("none", "false"),
    "belief": ("right", "mistaken", "calibrated"),
    "parameters": ("usual", "short", "long", "memory 2", "memory 7", "memory 30"),
}
PARAMETERS = {
    "usual": {},
    "short": {"horizon": 7, "delta": 0.9},  # which is over before the trial is
    "long": {"horizon": 400, "delta": 0.5},
    **{f"memory {rounds}": {"memory": rounds} for rounds in (2, 7, 30)},
}


def can_occur(case):
    """Whether there is such a trial, and the transcription says of it what the paper says."""
    name, parameters = case["name"], case["parameters"]
    forgets = name in reference.FORGETS
    if forgets != parameters.startswith("memory"):
        return False
    if parameters != "usual" and not forgets and not CATALOGUE[name].fixed_horizon:
        return False
    if name == "ucb" and case["size"] == "covid":  # 720 assignments, a word for each
        return False
    if (
        name == "calibrated-sorted" and case["belief"] == "calibrated"
    ):  # transcribed for known agents
        return False
    # indices that tie on paper, 1/s of several arms or those of arms that succeeded alike in other rounds: sums of parts are
    # rounded, and rounding then decides
    return name != DISCOUNTED or (case["size"] != "square" and parameters != "memory 2")


def pairs(case):
    """Every two features of a case."""
    return set(itertools.combinations(case.items(), 2))


def pairwise_cover():
    """Cases, each the one with the most pairs that no case before it has, until there are no such pairs left."""
    by_start = {}  # of a policy and a drift, all cases
    for values in itertools.product(*FACTORS.values()):
        case = dict(zip(FACTORS, values, strict=True))
        if can_occur(case):
            by_start.setdefault(values[:2], []).append((case, pairs(case)))
    left = set().union(*(found for cases in by_start.values() for _, found in cases))
    for start in itertools.cycle(by_start):
        case, found = max(by_start[start], key=lambda one: len(one[1] & left))
        if found & left:
            left -= found
            yield case
        if not left:
            return


def problem_of(case):
    """The problem of a case."""
    means, s = SIZES[case["size"]]
    agents = range(len(s))
    drift = {
        "none": None,
        "changes": Changes([(4, means[::-1]), (9, [*means[1:], 1.0])]),
        "wave": Wave(0.4, 7),
        "walk": Walk(0.3, seed=5),
    }[case["drift"]]
    alarms = case["alarms"] == "false"
    belief = {
        "right": {},
        "mistaken": {
            "believed": [0.9 - 0.13 * ((3 * a) % 5) for a in agents],
            "believed_false_positive_rates": [0.05 * ((a + 1) % 3) for a in agents],
        },
        "calibrated": {
            "calibration": [(17 - 3 * a, 20) for a in agents],
            "false_positive_calibration": [(a, 30) for a in agents],
        },
    }[case["belief"]]
    return Problem(
        means,
        s,
        drift=drift,
        tests=None if case["tests"] == "one" else [1 + (5 * a + 3) % 7 for a in agents],
        false_positive_rates=[0.1 * (a % 3) for a in agents] if alarms else None,
        **{field: value for field, value in belief.items() if alarms or "false" not in field},
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", list(pairwise_cover()), ids=lambda case: "-".join(case.values()))
def test_every_trial_is_the_references(case):
    """Round by round: the words, the means of the round, and its own optimum."""
    name, problem, parameters = case["name"], problem_of(case), PARAMETERS[case["parameters"]]
    entry = policy(name, **parameters)
    trials = range(FIRST_TRIAL, FIRST_TRIAL + (1 if name in SLOW else 2))
    results = simulate(problem, entry, HORIZON, trials, SEED, keep="all", checkpoints=HORIZON)
    s = problem.sensitivities
    worth = [n * x for n, x in zip(problem.tests, s, strict=True)]
    means = [problem.at(t).means for t in range(1, HORIZON + 1)]
    for i, trial in enumerate(trials):
        play = reference.play(
            name,
            lambda t: means[t - 1],
            s,
            HORIZON,
            SEED,
            trial,
            problem.believed,
            delta=entry.delta,
            fixed_t=parameters.get("horizon"),
            phi=problem.false_positive_rates if case["alarms"] == "false" else None,
            rates=problem.believed_false_positive_rates,
            tests=problem.tests,
            memory=entry.memory,
        )
        regrets = [
            reference.regret(now, worth, [f]) for now, (f, _, _) in zip(means, play, strict=True)
        ]
        curve = list(itertools.accumulate(regrets))
        np.testing.assert_allclose(results.kept[0, :, i], curve, rtol=0, atol=1e-8)
