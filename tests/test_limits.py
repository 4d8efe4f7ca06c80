"""The lower bound: against the linear program over all assignments, and cases done by hand."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from heterobandits import InvalidInput, Problem, lower_bound

probability = st.integers(1, 19).map(lambda i: i / 20)


def bernoulli_kl(p, q):
    return sum(x * math.log(x / y) for x, y in ((p, q), (1 - p, 1 - q)) if x)


def by_linear_program(means, sensitivities):
    """min sum_f w_f regret_f, so that every arm below the best A is told from the least of them."""
    A = len(sensitivities)
    threshold = sorted(means)[-A]
    every = list(itertools.permutations(range(len(means)), A))
    best = max(sum(s * means[n] for s, n in zip(sensitivities, f, strict=True)) for f in every)
    regret = [
        best - sum(s * means[n] for s, n in zip(sensitivities, f, strict=True)) for f in every
    ]
    must = [n for n, mean in enumerate(means) if mean < threshold]
    if not must:
        return 0.0
    information = np.array(
        [
            [
                bernoulli_kl(
                    sensitivities[f.index(n)] * means[n], sensitivities[f.index(n)] * threshold
                )
                if n in f
                else 0.0
                for f in every
            ]
            for n in must
        ]
    )
    # Rows differ by orders of magnitude; scaling them leaves the program as it is.
    scale = information.max(axis=1, keepdims=True)
    solved = linprog(regret, A_ub=-information / scale, b_ub=-1 / scale[:, 0])
    assert solved.status == 0
    return solved.fun


@given(
    st.lists(probability, min_size=1, max_size=5),
    st.lists(probability, min_size=1, max_size=3),
)
def test_it_is_the_linear_program_over_all_assignments(means, sensitivities):
    assume(len(sensitivities) <= len(means))
    wanted = by_linear_program(means, sensitivities)
    assert lower_bound(Problem(means, sensitivities)) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_one_agent_is_lai_and_robbins():
    s, means = 0.6, [0.9, 0.5, 0.2]
    wanted = sum(s * (0.9 - m) / bernoulli_kl(s * m, s * 0.9) for m in means[1:])
    assert lower_bound(Problem(means, [s])) == pytest.approx(wanted, rel=1e-12)


def test_two_agents_by_hand():
    # Agent 1 (0.9) on 0.8, agent 2 (0.5) on 0.6; the arm 0.4 is to be told from 0.6.
    # Agent 2 goes there: 0.5 (0.6 - 0.4). Agent 1 goes there: it loses 0.9 (0.8 - 0.4), and
    # agent 2 moves up and gains 0.5 (0.8 - 0.6).
    by_second = 0.5 * 0.2 / bernoulli_kl(0.5 * 0.4, 0.5 * 0.6)
    by_first = (0.9 * 0.4 - 0.5 * 0.2) / bernoulli_kl(0.9 * 0.4, 0.9 * 0.6)
    problem = Problem([0.4, 0.8, 0.6], [0.9, 0.5])
    assert lower_bound(problem) == pytest.approx(min(by_second, by_first), rel=1e-12)


def test_as_many_agents_as_arms_see_everything():
    assert lower_bound(Problem([0.1, 0.5, 0.9], [0.3, 0.2, 0.9])) == 0.0


def test_ties_with_the_least_of_the_best_cost_nothing():
    assert lower_bound(Problem([0.7, 0.5, 0.5], [0.3, 0.2])) == 0.0
    tied = lower_bound(Problem([0.7, 0.5, 0.5, 0.1], [0.3, 0.2]))
    assert tied == pytest.approx(lower_bound(Problem([0.7, 0.5, 0.1], [0.3, 0.2])), rel=1e-12)


def test_a_certain_success_and_an_arm_that_never_succeeds():
    assert lower_bound(Problem([1.0, 0.3], [1.0])) == 0.0  # one failure rules arm 1's mean out
    wanted = 0.5 * 0.6 / -math.log(1 - 0.5 * 0.6)  # kl(0, q) = -ln(1 - q)
    assert lower_bound(Problem([0.6, 0.0], [0.5])) == pytest.approx(wanted, rel=1e-12)


def test_belief_and_labels_do_not_matter():
    problem = Problem([0.4, 0.8, 0.6, 0.1], [0.9, 0.5], believed=[0.5, 0.9])
    relabelled = Problem([0.1, 0.6, 0.8, 0.4], [0.5, 0.9])
    assert lower_bound(problem) == pytest.approx(lower_bound(relabelled), rel=1e-12)


def test_what_is_no_problem():
    with pytest.raises(InvalidInput, match="problem is 3"):
        lower_bound(3)
