"""Wrong logarithms of Min-Width, planted one at a time.

Each lowers or raises the regret by less than the errors of the published tables, so that no figure of the paper
sees it. What sees it is the comparison with the paper's equation.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import reference
import test_indices
from heterobandits import Problem
from heterobandits.core import indices
from heterobandits.policies.policy import policy
from heterobandits.simulation.engine import Learning, PolicyWorld

# A = 2 agents, N = 3 arms, t = 4 rounds, delta = 0.05. Arm 0: V = 1 * 2 + 0.25 * 4 = 3 and W = 1 * 1 + 0.5 * 2 = 2
S = np.array([1.0, 0.5])
PULLS = np.array([[2, 2, 0], [4, 0, 0]], np.int32)[..., None]
SUCCESSES = np.array([[1, 1, 0], [2, 0, 0]], np.int32)[..., None]
T, DELTA = 4, 0.05
# G(4, 2) = 2 + 3 + 4 + 5 = 14, and 2 * 3 * 14 / 0.05 = 1680
RIGHT = 1680
# a wrong log term, and what then stands in the logarithm: with G(4, 1) = 4, and with G(5, 2) = 14 + 6
MUTANTS = {
    "without the 2": (lambda t, N, A: N * reference.G(t, A), 840),
    "G(t, A - 1)": (lambda t, N, A: 2 * N * reference.G(t, A - 1), 480),
    "t + 1": (lambda t, N, A: 2 * N * reference.G(t + 1, A), 2400),
}


def by_hand(inside):
    """The indices of the three arms [eq:min-width-UCB_t,n], with this number in the logarithm."""
    return [
        2 / 3 + math.sqrt(math.log(inside) / 6),
        1 / 2 + math.sqrt(math.log(inside) / 4),
        math.inf,
    ]


def with_terms(count, delta=DELTA):
    """Min-Width with ln(count(t, N, A) / delta) for its log term."""

    def log_terms(t, size, delta):
        return np.array([reference.log_of(count(int(x), size.N, size.A), delta) for x in t])

    entry = policy("min-width", delta=delta)
    return replace(entry, rule=indices.MIN_WIDTH._replace(log_terms=log_terms))


def compare():
    """What tests/core/test_indices.py does with the tables that hypothesis makes, on this one."""
    test = test_indices.test_the_rule_is_the_papers.hypothesis.inner_test
    test("min-width", (S, PULLS, SUCCESSES), T, DELTA)


def rows(entry):
    """The indices of the three arms."""
    return entry.index_rows(
        test_indices.Team(S), PULLS, SUCCESSES, T, lambda *_: np.empty((0, 1), np.uint32)
    )


def agreed(entry, rounds=12):
    """Whether the simulator ranks by the paper's equation in each round, with the rounds before it for t."""
    learning = Learning(PolicyWorld(Problem([0.2, 0.5, 0.9], S), entry), 0, 0, 8)
    learning.advance(2)  # until every arm was pulled, in most trials
    same = []
    for t in range(2, rounds):
        c, y = learning.pulls.copy(), learning.successes.copy()
        learning.advance(1)
        for lane in range(8):
            wanted = reference.index_rows("min-width", S.tolist(), c[..., lane].tolist(), y[..., lane].tolist(), t, DELTA)  # fmt: skip
            got = learning.block.index[..., lane]
            same.append(np.allclose(got, wanted, rtol=test_indices.TOLERANCE, atol=0))
    return all(same)


def test_the_rule_is_right_by_hand():
    np.testing.assert_allclose(
        rows(policy("min-width", DELTA))[0, :, 0], by_hand(RIGHT), rtol=1e-14
    )
    compare()
    assert agreed(policy("min-width", DELTA))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_seen(monkeypatch, name):
    count, inside = MUTANTS[name]
    mutant = with_terms(count)
    np.testing.assert_allclose(rows(mutant)[0, :, 0], by_hand(inside), rtol=1e-14)
    monkeypatch.setattr(test_indices, "policy", lambda name, delta: mutant)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare()
    assert not agreed(mutant)


def test_planting_alone_is_not_seen(monkeypatch):
    """The paper's own count, planted in the same way, passes."""
    planted = with_terms(lambda t, N, A: 2 * N * reference.G(t, A))
    monkeypatch.setattr(test_indices, "policy", lambda name, delta: planted)
    compare()
    assert agreed(planted)
