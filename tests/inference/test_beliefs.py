"""Beliefs against plain transcriptions and against integrals of the continuous densities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import beta

from heterobandits.core import beliefs as kernels
from heterobandits.inference.beliefs import Beliefs, chances_of_draws
from heterobandits.inference.intervals import mean_intervals
from heterobandits.interrupts import ended_by
from heterobandits.model.belief_cells import common_priors, ln_priors
from heterobandits.model.prior import Prior
from heterobandits.model.team import Team
from heterobandits.policies.policy import policy


def transcribed(team, pulls, successes, prior):
    """Cells, candidates, shares and the posterior of every arm, line by line as docs/beyond.md (13) to (15) have them."""
    Q = 256
    mu = [math.sin((q + 0.5) * math.pi / (2 * Q)) ** 2 for q in range(Q)]

    def over_middle(q, c):
        """ln of the integral of x^(c - 1) from q to q + 1, over its value in the middle; 0 where c is 1 or more."""
        return 0.0 if c >= 1.0 else math.log(((q + 1) ** c - q**c) / c / (q + 0.5) ** (c - 1.0))

    def masses(a, b):
        heights = [
            (a - 0.5) * math.log(m)
            + (b - 0.5) * math.log1p(-m)
            + over_middle(q, 2 * a)
            + over_middle(Q - 1 - q, 2 * b)
            for q, m in enumerate(mu)
        ]
        top = max(heights)
        cells = np.array([math.exp(h - top) for h in heights])
        return cells / cells.sum()

    rows = []
    for n in range(pulls.shape[1]):
        row = np.zeros(Q)
        for a, (s, phi) in enumerate(
            zip(team.sensitivities, team.false_positive_rates, strict=True)
        ):
            p = phi + (s - phi) * np.array(mu)
            hits, misses = successes[a, n], pulls[a, n] - successes[a, n]
            row += hits * np.log(p) + misses * np.log1p(-p)
        rows.append(np.exp(row - row.max()))
    grid = [(a, b, w) for a, b, w in zip(*common_priors(), strict=True)] if prior.learned else []
    free = [n for n, one in enumerate(prior.shapes) if one is None and prior.learned]
    common = [np.maximum(masses(a, b), 1e-280) for a, b, _ in grid]
    share = np.array([w for *_, w in grid])
    for n, row in enumerate(rows):
        if n in free:
            share = share + np.log([float(row @ cells) for cells in common])
        elif grid:
            joint = row * masses(*prior.shapes[n])
            share = share + [float(joint @ np.log(cells)) / joint.sum() for cells in common]
    share = np.exp(share - share.max()) if grid else share
    share = share / share.sum() if grid else share
    out = []
    for n, row in enumerate(rows):
        if n in free:
            parts = [
                w * cells * row / (cells @ row) for w, cells in zip(share, common, strict=True)
            ]
            out.append(sum(parts))
        else:
            joint = row * masses(*(prior.shapes[n] or (1.0, 1.0)))
            out.append(joint / joint.sum())
    return np.array(mu), np.array(out)


TEAM = Team([0.9, 0.6, 0.9], false_positive_rates=[0.0, 0.05, 0.0])


@settings(max_examples=25, deadline=None)
@given(
    tests=st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=2, max_size=4),
    rate=st.floats(0.0, 1.0),
    learned=st.booleans(),
    stated=st.booleans(),
)
def test_the_posterior_is_the_transcribed_one(tests, rate, learned, stated):
    pulls = np.array(tests, np.int32).T.copy()
    successes = np.floor(rate * pulls).astype(np.int32)
    shapes = [(2.5, 30.0) if stated and n == 0 else None for n in range(pulls.shape[1])]
    prior = Prior(tuple(shapes), learned)
    mu, density = transcribed(TEAM, pulls, successes, prior)
    known = Beliefs.of(TEAM, pulls, successes, prior)
    np.testing.assert_allclose(known.room.density, density, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(known.mean, density @ mu, rtol=1e-12)


@pytest.mark.parametrize("shape", [(1.0, 1.0), (1.3, 40.0), (2.0, 60.0), (30.0, 3.0), (400.0, 5.5)])
@pytest.mark.parametrize(("pulls", "successes"), [(0, 0), (7, 0), (40, 3), (900, 850), (5000, 40)])
def test_cells_are_fine_enough(shape, pulls, successes):
    """A perfect agent's posterior is a Beta: means and quantiles are off by less than 1.5 % of its standard deviation."""
    known = Beliefs.of(Team([1.0]), *np.array([[[pulls]], [[successes]]]), Prior((shape,)))
    exact = beta(shape[0] + successes, shape[1] + pulls - successes)
    assert abs(known.mean[0] - exact.mean()) < 0.015 * exact.std()
    for share in (0.1, 0.5, 0.9):
        assert abs(known.quantiles(share)[0] - exact.ppf(share)) < 0.05 * exact.std()


def test_evidence_is_the_integral():
    team, shape = Team([0.7, 0.4]), (1.5, 20.0)
    pulls, successes = np.array([[20], [9]]), np.array([[2], [1]])
    known = Beliefs.of(team, pulls, successes, Prior((shape,)))

    def joint(m):
        p, q = 0.7 * m, 0.4 * m
        return p**2 * (1 - p) ** 18 * q * (1 - q) ** 8 * beta(*shape).pdf(m)

    value, _ = integrate.quad(joint, 0.0, 1.0, epsabs=0.0)
    # the successes stand in l without the sensitivities, which do not depend on the mean
    constant = 2 * math.log(0.7) + math.log(0.4)
    assert known.log_evidence[0] + constant == pytest.approx(math.log(value), abs=1e-4)


def test_draws_have_the_posterior_together():
    """Of 20,000 draws, means within 6 standard errors, for any seed; and arms are rare or common together."""
    pulls = np.full((1, 6), 4)
    known = Beliefs.of(Team([1.0]), pulls, np.zeros_like(pulls), Prior((None,) * 6, True))
    draws = known.draws(20_000, seed=5)
    error = draws.std(axis=1) / math.sqrt(20_000)
    assert (np.abs(draws.mean(axis=1) - known.mean) < 6 * error + 1e-4).all()
    assert np.corrcoef(draws)[0, 1] > 0.1


def test_chances_count_ranks():
    draws = np.array([[0.1, 0.9], [0.5, 0.5], [0.3, 0.1]])
    best, among, count = chances_of_draws(draws, 2)
    assert (best.tolist(), among.tolist(), count) == ([0.5, 0.5, 0.0], [0.5, 1.0, 0.5], 2)


@pytest.mark.parametrize(
    "prior", [Prior((None,) * 3, True), Prior(((2.0, 30.0), None, (1.0, 4.0)))]
)
@pytest.mark.parametrize("name", ["season", "bayes-ucb", "posterior-sorted", "thompson-sorted"])
def test_index_rows_are_of_the_beliefs(name, prior):
    """The decisions' estimates are those that people see, and quantiles and ends what the densities say."""
    pulls = np.array([[5, 9, 3], [4, 0, 6]], np.int32)
    successes = np.array([[1, 0, 2], [0, 0, 1]], np.int32)
    team, how = Team([0.9, 0.6]), policy(name, horizon=40) if name == "season" else policy(name)
    words = np.full((6, 1), 2**31, np.uint32)
    rows = how.index_rows(
        team,
        pulls[:, :, None],
        successes[:, :, None],
        10,
        lambda first, count: words[:count],
        prior,
    )[:, :, 0]
    known = Beliefs.of(team, pulls, successes, prior)
    np.testing.assert_allclose(rows[1], known.mean, rtol=1e-13)
    if name == "thompson-sorted":
        wanted = known.quantiles(0.5)
    elif name == "posterior-sorted":
        L = math.log(3 / how.delta)
        inside = known.room.height >= (known.room.ln_evidence - L)[:, None]
        wanted = [known.cells.mu[row.nonzero()[0][-1]] for row in inside]
        for got, at, row in zip(rows[0], wanted, inside, strict=True):
            q = row.nonzero()[0][-1]
            if q == len(row) - 1:
                assert got > 1.0
            else:
                assert at <= got <= known.cells.mu[q + 1]
        return
    else:
        (L,) = how.log_terms_at(np.array([10]), team, 3)
        wanted = known.quantiles(1.0 - math.exp(-L))
    np.testing.assert_allclose(rows[0], wanted, atol=1e-12)


@pytest.mark.parametrize("odd", [(0, 100_000), (100_000, 100_000), (3, 1_000_000)])
def test_an_arm_unlike_all_others_is_believed_by_what_was_seen_of_it(odd):
    """400 arms of one half make common priors likely under which this one is impossible; its estimate was no number."""
    pulls = np.full((1, 401), 100_000)
    successes = pulls // 2
    successes[0, -1], pulls[0, -1] = odd
    known = Beliefs.of(Team([1.0]), pulls, successes, Prior((None,) * 401, learned=True))
    assert known.mean[:-1] == pytest.approx(np.full(400, 0.5), abs=0.01)
    assert known.mean[-1] == pytest.approx(odd[0] / odd[1], abs=1e-4)
    low, high = (known.quantiles(share)[-1] for share in (0.1, 0.9))
    assert low <= known.mean[-1] <= high
    assert np.isfinite(known.draws(400, 0)).all()


def test_the_level_of_what_is_rare_is_learned():
    """50 arms of 1 in 1,000, each tested 4,000 times, say what to believe of one that nobody has visited."""
    pulls = np.full((1, 51), 4_000)
    successes = pulls // 1_000
    pulls[0, -1] = successes[0, -1] = 0
    known = Beliefs.of(Team([1.0]), pulls, successes, Prior((None,) * 51, learned=True))
    assert known.mean[-1] == pytest.approx(0.001, rel=0.15)


def test_many_arms_take_no_more_than_some_megabytes():
    pulls = np.full((1, 2_000), 1_000_000)
    shapes = tuple((1.0 + n, 1e6) for n in range(2_000))
    known = Beliefs.of(Team([1.0]), pulls, pulls // 2, Prior(shapes))
    assert known.room.density.nbytes <= 8 * 2**19
    assert known.cells.ln_own.nbytes <= 8 * 2**19


@pytest.mark.parametrize(("a", "b"), [(0.1, 0.1), (0.1, 0.9), (0.3, 5.0), (0.5, 2.0), (2.0, 60.0)])
def test_the_cells_have_the_probabilities_of_a_beta(a, b):
    """Between cells 0, 1, 3, ... and all below: with the integral of the density, which SciPy has."""
    mu, edges = kernels.means_of_cells(256)
    chances = np.exp(ln_priors(mu, np.array([a]), np.array([b])))[0]
    below = np.cumsum(chances)[[0, 1, 3, 10, 30, 100, 200, 250, 254]]
    exact = beta.cdf(edges[1:][[0, 1, 3, 10, 30, 100, 200, 250, 254]], a, b)
    assert below == pytest.approx(exact, abs=0.003)


def test_a_rich_place_among_empty_ones_is_believed_to_be_rich():
    """13 arms had nothing in 200 tests, one 4 of 4: at 3.2 % the estimate lay outside what is certain of it."""
    pulls, successes = np.full((1, 14), 200), np.zeros((1, 14), int)
    pulls[0, -1] = successes[0, -1] = 4
    known = Beliefs.of(Team([1.0]), pulls, successes, Prior((None,) * 14, learned=True))
    certain = mean_intervals(pulls, successes, [1.0])
    assert certain.lower[-1] <= known.mean[-1] <= certain.upper[-1]
    assert known.mean[-1] > 0.4
    assert known.mean[:-1].max() < 0.003


def test_quantiles_of_many_arms_end_once_nobody_wants_them():
    known = Beliefs.of(Team([1.0]), *np.zeros((2, 1, 1200), np.int64), Prior((None,) * 1200, True))
    whole, looks = known.quantiles(0.1), []

    class Gone(Exception):
        pass

    def leave():
        looks.append(1)
        if len(looks) == 2:
            raise Gone

    with ended_by(leave), pytest.raises(Gone):
        known.quantiles(0.1)
    assert whole.shape == (1200,)
