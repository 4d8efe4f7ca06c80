"""What is believed of the means beforehand: what people may say, and what it comes to."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta

from heterobandits import InvalidInput, Problem
from heterobandits.model.prior import (
    Prior,
    parse_prior,
    parse_prior_text,
    parse_stated_prior,
    prior_to_plain,
    shape_of_counts,
    shape_of_words,
)


def test_one_pair_is_for_all_arms():
    assert parse_prior([2, 60], 2) == Prior(((2.0, 60.0), (2.0, 60.0)))


def test_two_arms_may_have_a_pair_each():
    assert parse_prior([[2, 60], None], 2) == Prior(((2.0, 60.0), None))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("learnt", "prior is 'learnt': a list of pairs"),
        ([[0.5, 3]], r"prior\[0\] has 0.5: a and b of a Beta are numbers from 1"),
        ([[1, 2, 3]], r"prior\[0\] is \[1, 2, 3\]: two numbers"),
        ([[1, 2]] * 3, "prior has 3 entries: one for each of the 1 arms"),
        ([[1, float("nan")]], r"prior\[0\] has nan"),
        ([[1, "2"]], r"prior\[0\] has '2'"),
    ],
)
def test_refusals_name_the_mistake(given, said):
    with pytest.raises(InvalidInput, match=said):
        parse_prior(given, 1)


SHAPES = st.none() | st.tuples(*[st.floats(1.0, 1e6)] * 2)


@given(shapes=st.lists(SHAPES, min_size=1, max_size=4), learned=st.booleans())
def test_what_stands_in_files_is_read_back(shapes, learned):
    prior = Prior(tuple(shapes), learned)
    assert parse_prior(prior_to_plain(prior), len(shapes)) == prior
    problem = Problem([0.5] * len(shapes), [0.9], prior=prior)
    for text in (Problem.from_json(problem.to_json()), Problem.from_toml(problem.to_toml())):
        same = text.prior == prior or (prior.is_uniform and text.prior.is_uniform)
        assert same


@given(typical=st.floats(0.01, 0.9), share=st.floats(0.1, 0.9999))
@example(typical=0.8, share=0.9995)  # of which the mean was 99 %
def test_words_are_quantiles_where_a_beta_has_both(typical, share):
    high = typical + share * (1.0 - typical)
    a, b = shape_of_words(typical, high)
    assert min(a, b) >= 1.0
    both = beta(a, b).median(), beta(a, b).ppf(0.99)
    if min(a, b) > 1.0:
        assert both == pytest.approx((typical, high), rel=1e-6)
    elif typical > 0.5:  # and else the one that matters there
        assert both[0] == pytest.approx(typical, rel=1e-6)
    elif (a, b) != (1.0, 1.0):
        assert both[1] == pytest.approx(high, rel=1e-6)


def test_more_found_than_missed_is_no_belief_below_uniform():
    assert shape_of_counts(9, 10, sensitivity=0.8) == (10.0, 1.0)


@pytest.mark.parametrize("percent", ["0.00001", "0.000001", "0,00002", "12.5"])
def test_percents_are_read_as_they_are_written(percent):
    exact = float(Fraction(percent.replace(",", ".")) / 100)
    assert parse_prior_text(f"{percent} % to 40 %") == shape_of_words(exact, 0.4)


@pytest.mark.parametrize(
    "given",
    [
        {"typical": 1e-252, "high": 2e-252},
        {"typical": 1e-300, "high": 0.5},
        {"typical": 1e-9, "high": 1.1e-9},
        {"found": 0, "tests": 1e308, "sensitivity": 1e308},
        {"found": 0, "tests": 1e308, "sensitivity": 1e308, "counts": 0},
        {"found": 0, "tests": 1e308},
        {"found": 0, "tests": 1e10},
        {"found": 0, "tests": 0, "sensitivity": -5},
        {"found": 0, "tests": 10, "sensitivity": 0},
        "0.00000001 % to 1 %",
    ],
)
def test_what_comes_to_no_beta_is_refused(given):
    with pytest.raises(InvalidInput):
        parse_stated_prior(given)


def test_words_that_leave_nothing_to_learn_are_refused():
    with pytest.raises(InvalidInput, match="so close together"):
        shape_of_words(0.5, 0.5001)
