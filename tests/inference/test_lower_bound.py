"""The lower bound: against the linear program over all assignments, and cases done by hand."""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from heterobandits import InvalidInput, Problem, lower_bound
from heterobandits.inference.bounds import kl
from heterobandits.model.domains import domain_of_name

DIGITS = 800  # beside 1, the square of the least double times the least sensitivity

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


@given(st.lists(probability, min_size=1, max_size=5), st.lists(probability, min_size=1, max_size=3))
def test_it_is_the_linear_program_over_all_assignments(means, sensitivities):
    assume(len(sensitivities) <= len(means))
    wanted = by_linear_program(means, sensitivities)
    assert lower_bound(Problem(means, sensitivities)) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_it_is_the_linear_program_for_the_slots_of_a_page():
    """Three positions and eleven items, 990 lists, of attractions and examinations as they were fitted to a log."""
    page = domain_of_name("slots").problem
    wanted = by_linear_program(page.means, page.sensitivities)
    assert lower_bound(page) == pytest.approx(wanted, rel=1e-9)


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


@pytest.mark.parametrize(
    ("means", "sensitivities"),
    [([1.0, 0.3], [1.0]), ([1.0, 0.5], [0.5]), ([1.0, 1.0, 0.5], [0.9, 0.5])],
)
def test_nothing_is_above_an_arm_that_never_fails(means, sensitivities):
    """Where the least of the best arms has a mean of 1, no other arm can take its place."""
    assert lower_bound(Problem(means, sensitivities)) == 0.0


def test_an_arm_that_never_succeeds():
    wanted = 0.5 * 0.6 / -math.log(1 - 0.5 * 0.6)  # kl(0, q) = -ln(1 - q)
    assert lower_bound(Problem([0.6, 0.0], [0.5])) == pytest.approx(wanted, rel=1e-12)


def exact_kl(p, q):
    """The divergence in many digits, of the doubles or decimals as they are."""
    with localcontext(prec=DIGITS):
        p, q = Decimal(p), Decimal(q)
        parts = ((p, q), (1 - p, 1 - q))
        return sum((x * (x / y).ln() for x, y in parts if x), Decimal(0))


def exact_lower_bound(means, sensitivities):
    """Equations (2) and (3) of docs/limits.md in many digits, agent by agent and arm by arm."""
    with localcontext(prec=DIGITS):
        s = sorted((Decimal(x) for x in sensitivities), reverse=True)
        mu = sorted((Decimal(x) for x in means), reverse=True)
        least = mu[len(s) - 1]

        def value(team):
            return sum(x * y for x, y in zip(team, mu, strict=False))

        return float(
            sum(
                min(
                    (value(s) - value(s[:a] + s[a + 1 :]) - s[a] * m)
                    / exact_kl(s[a] * m, s[a] * least)
                    for a in range(len(s))
                )
                for m in mu
                if m < least
            )
        )


unit = st.floats(0, 1)
close = st.sampled_from([1e-16, 1e-12, 1e-8, 1e-4, 1e-2, 0.05, 0.1])


@given(p=unit, q=st.floats(1e-12, 1 - 1e-12))
def test_the_divergence_to_the_last_digits(p, q):
    assert kl(p, q) == pytest.approx(float(exact_kl(p, q)), rel=1e-13, abs=0)


@given(q=st.floats(1e-6, 1 - 1e-6), distance=close, sign=st.sampled_from([-1, 1]))
def test_the_divergence_of_close_ones(q, distance, sign):
    p = min(1.0, max(0.0, q * (1 + sign * distance)))
    assert kl(p, q) == pytest.approx(float(exact_kl(p, q)), rel=1e-13, abs=0)


def test_the_divergence_at_the_ends():
    assert [kl(0.0, 0.0), kl(1.0, 1.0), kl(0.3, 0.3)] == [0.0, 0.0, 0.0]
    assert [kl(p, q) for p, q in ((0.5, 0.0), (0.5, 1.0), (0.0, 1.0), (1.0, 0.0))] == [math.inf] * 4
    assert kl(0.0, 0.25) == pytest.approx(-math.log(0.75), rel=1e-14)
    assert kl(1.0, 0.25) == pytest.approx(math.log(4), rel=1e-14)


@pytest.mark.parametrize(
    ("means", "sensitivities"),
    [
        ([0.5, 0.5 - 1e-8], [0.9]),
        ([0.30000000000000004, 0.3, 0.1], [0.9]),
        ([0.30000000000000004, 0.3, 0.1], [0.9, 0.3]),
        ([0.7, math.nextafter(0.7, 0), 0.6, 0.2], [1.0, 0.5]),
        ([1 - 2**-53, 0.3, 0.0], [1.0]),
        ([1e-300, 5e-301, 0.0], [1.0, 1e-50]),
        ([5e-324, 0.0, 0.0], [1e-50]),
    ],
)
def test_close_means_and_tiny_numbers(means, sensitivities):
    wanted = exact_lower_bound(means, sensitivities)
    assert lower_bound(Problem(means, sensitivities)) == pytest.approx(wanted, rel=1e-13, abs=0)


@settings(max_examples=50)
@given(
    means=st.lists(st.floats(0, 1 - 1e-9), min_size=1, max_size=7),
    sensitivities=st.lists(st.floats(1e-6, 1), min_size=1, max_size=4),
)
def test_it_is_the_sum_over_the_arms_to_the_last_digits(means, sensitivities):
    assume(len(sensitivities) <= len(means))
    wanted = exact_lower_bound(means, sensitivities)
    assert lower_bound(Problem(means, sensitivities)) == pytest.approx(wanted, rel=1e-12, abs=0)


def test_belief_and_labels_do_not_matter():
    problem = Problem([0.4, 0.8, 0.6, 0.1], [0.9, 0.5], believed=[0.5, 0.9])
    relabelled = Problem([0.1, 0.6, 0.8, 0.4], [0.5, 0.9])
    assert lower_bound(problem) == pytest.approx(lower_bound(relabelled), rel=1e-12)


def test_what_is_no_problem():
    with pytest.raises(InvalidInput, match="problem is 3"):
        lower_bound(3)
