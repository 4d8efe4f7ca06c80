"""The quantiles of an arm's posterior: exact for one perfect agent, by quadrature for others."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaincc, betainccinv

from heterobandits.core.likelihood import Outcomes, fill_greatest, fill_likeliest
from heterobandits.core.posterior import fill_posterior, fill_quantiles
from heterobandits.core.work import work


def exceeded(s, hits, failures, L):
    """The means exceeded with probability exp(-L), one lane for each of the hits."""
    Y = np.array(hits, float)
    f = np.array(failures, float).reshape(len(s), len(Y))
    seen = Outcomes(np.zeros(1), Y[None].copy(), np.array(s), f, Y)
    room = work(len(s), len(Y))
    peak, greatest, log_evidence, mu = np.empty((4, len(Y)))
    fill_likeliest(seen, room, peak)
    fill_greatest(peak, seen, room, greatest)
    fill_posterior(peak, greatest, seen, room, log_evidence, mu)
    fill_quantiles(np.array(L, float), peak, greatest, log_evidence, seen, room, mu)
    return mu


counts = st.integers(0, 10) | st.integers(0, 100_000)


@given(counts, counts, st.floats(0.01, 20))
def test_a_perfect_agent_has_a_beta_posterior(hits, failures, L):
    (mu,) = exceeded([1.0], [hits], [[failures]], [L])
    assert mu == pytest.approx(betainccinv(hits + 1, failures + 1, math.exp(-L)), abs=1e-9)


@given(
    st.integers(0, 60),
    st.tuples(st.integers(0, 60), st.integers(0, 60)),
    st.tuples(st.floats(0.5, 1), st.floats(0.05, 0.4)),
    st.floats(0.05, 12),
)
def test_the_tail_has_the_mass_it_should(hits, failures, s, L):
    (mu,) = exceeded(s, [hits], [[f] for f in failures], [L])

    def log_likelihood(x):
        low = hits * math.log(x) if hits else 0.0
        pairs = zip(s, failures, strict=True)
        return low + sum(f * math.log1p(-s_k * x) for s_k, f in pairs if f and s_k * x < 1)

    grid = np.linspace(1e-6, 1 - 1e-6, 2001)
    peak = max(grid, key=log_likelihood)
    top = log_likelihood(peak)

    def mass(start):
        cuts = [x for x in (start, peak, 1.0) if x >= start]
        exact = {"epsabs": 0, "epsrel": 1e-11, "limit": 500}
        parts = pairwise(cuts)
        return sum(
            quad(lambda x: math.exp(log_likelihood(x) - top), a, b, **exact)[0] for a, b in parts
        )

    assert mass(mu) / mass(1e-300) == pytest.approx(math.exp(-L), rel=1e-6)


def test_neighbours_change_no_bit_and_certainty_means_zero():
    hits, failures = [3, 0, 70, 12, 0], [[5, 9, 2, 0, 0]]
    L = [2.0, 0.5, 9.0, 0.0, 3.0]
    together = exceeded([0.8], hits, failures, L)
    alone = [
        exceeded([0.8], [h], [[f]], [t])[0] for h, f, t in zip(hits, failures[0], L, strict=True)
    ]
    assert together.tolist() == alone
    assert together[3] == 0.0
    assert together[4] == pytest.approx(1 - math.exp(-3.0), abs=1e-9)  # nothing seen: uniform


def test_less_is_exceeded_more_often():
    L = np.linspace(0.1, 15, 40)
    mu = exceeded([1.0], [7] * 40, [[30] * 40], L)
    assert (np.diff(mu) > 0).all()
    assert betaincc(8, 31, mu) == pytest.approx(np.exp(-L), rel=1e-7)
