"""The posterior of a mean: evidence, mean, draws, and the indices and intervals made from them.

Against SciPy's quad by way of the reference, against closed forms where there are any, and against
what docs/beyond.md proves.
"""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import reference
from heterobandits.core import elementary, families, likelihood, posterior, randomness
from heterobandits.core.compiled import compiled
from heterobandits.core.likelihood import Outcomes
from heterobandits.core.seen import see
from heterobandits.core.work import KEYS as KEY_ROWS
from heterobandits.core.work import desk, work
from heterobandits.inference.intervals import Posteriors
from heterobandits.model.team import Team
from heterobandits.policies.policy import policy

# With a million pulls l is rounded to about 1e-10, and quad complains that it cannot get to 1e-13.
pytestmark = pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")

TOLERANCE = 1e-9
SHARES = np.array([2.0**-33, 1e-6, 0.001, 0.04, 0.3, 0.5, 0.8, 0.99, 1 - 2.0**-33])
KEYS = st.tuples(*[st.integers(0, 2**32 - 1)] * 2)
DELTAS = st.floats(1e-6, 0.999)
SENSITIVITIES = st.one_of(st.sampled_from([1.0, 0.95, 0.8, 0.3, 0.01]), st.floats(0.01, 1.0))
PULLS = st.one_of(st.integers(0, 5), st.integers(0, 1000), st.integers(0, 10**6))
DRAWN = ("thompson", "thompson-sorted")
RATIOS = ("posterior-ratio", "posterior-ratio-decay", "posterior-sorted")
WAYS = ("none", "all", "best never fails", "few", "few failures", "any")


@st.composite
def outcomes(draw, agents):
    """Pulls and successes of one arm by each of some agents: often one of the extremes."""
    c = [draw(PULLS) for _ in range(agents)]
    way = draw(st.sampled_from(WAYS))
    if way == "none":
        return c, [0] * agents
    if way == "all":
        return c, c
    if way == "few":  # about as many as make the density reach down to 0, and less
        return c, [min(pulls, draw(st.integers(0, 40))) for pulls in c]
    if way == "few failures":
        return c, [pulls - min(pulls, draw(st.integers(0, 3))) for pulls in c]
    y = [int(pulls * draw(st.floats(0, 1))) for pulls in c]
    return c, [c[0], *y[1:]] if way == "best never fails" else y


@st.composite
def histories(draw):
    """Sensitivities in any order, some of them equal; pulls and successes of one arm by each agent."""
    s = draw(teams())
    return s, *draw(outcomes(len(s)))


@st.composite
def teams(draw):
    """Up to four sensitivities, of which half the time some are equal."""
    s = draw(st.lists(SENSITIVITIES, min_size=1, max_size=4))
    return [draw(st.sampled_from(s)) for _ in s] if draw(st.booleans()) else s


@st.composite
def tables(draw):
    """Sensitivities in any order, some of them equal, and tables c[A, N, 1], y[A, N, 1]."""
    s = draw(teams())
    A = len(s)
    N = draw(st.integers(A, A + 2))
    arms = [draw(outcomes(A)) for _ in range(N)]
    c, y = (np.array([arm[i] for arm in arms], np.int32).T[..., None].copy() for i in range(2))
    return np.array(s), c, y


class Lanes:
    """What the kernels take, an `Outcomes`, and the peak of its l."""

    def __init__(self, seen):
        self.seen = seen
        self.Y = seen.Y
        self.room = work(0, len(seen.Y))
        self.peak, self.greatest = self.rows(2)
        likelihood.fill_likeliest(seen, self.room, self.peak)
        likelihood.fill_greatest(self.peak, seen, self.room, self.greatest)

    @classmethod
    def by_kind(cls, s, Y, f):
        """Successes Y[lane] and failures f[k, lane] of agents without false alarms, the largest s first."""
        Y = np.atleast_1d(np.asarray(Y, float))
        f = np.ascontiguousarray(np.reshape(f, (len(s), len(Y))), float)
        return cls(Outcomes(np.zeros(1), Y[None].copy(), np.asarray(s, float), f, Y))

    @classmethod
    def of(cls, s, c, y):
        """One history of agents of these sensitivities, or of a Team, in one lane."""
        return cls.of_many(s, np.reshape(c, (-1, 1)), np.reshape(y, (-1, 1)))

    @classmethod
    def of_many(cls, s, c, y):
        """Pulls and successes [agent, lane], counted as the rules count them."""
        team = s if isinstance(s, Team) else Team(s)
        return cls(families.outcomes(team.arrays, np.asarray(c), np.asarray(y)))

    def rows(self, count):
        """Some rows, not a number anywhere."""
        return np.full((count, len(self.Y)), np.nan)

    def posterior(self):
        """ln Z and the mean."""
        log_evidence, mean = self.rows(2)
        posterior.fill_posterior(self.peak, self.greatest, self.seen, self.room, log_evidence, mean)
        return log_evidence, mean

    def bound(self):
        """The ends of the flat part of the bound on the density, and how fast it falls beyond, [4, lane]."""
        top, *bound = out = self.rows(5)
        posterior.fill_bound(self.peak, self.seen, self.room, top, *bound)
        return out[1:]

    def draws(self, keys):
        """A draw in each lane, with a key [2, lane]."""
        (out,) = self.rows(1)
        keys = np.asarray(keys, np.uint32)
        self.room.words[KEY_ROWS : KEY_ROWS + 2] = keys
        posterior.fill_draws(self.peak, self.seen, self.room, out)
        return out

    def fallen(self, above, drop, limit=math.inf, slack=0.0):
        """Where l has fallen by drop[lane] from its peak, above it or below."""
        (out,) = self.rows(1)
        drop = np.broadcast_to(np.asarray(drop, float), len(self.Y)).copy()
        limit = min(limit, 1 / self.seen.s[0])
        known = (self.peak, self.greatest, self.seen, self.room)
        side = likelihood.ABOVE if above else likelihood.BELOW
        likelihood.fill_fallen(side, limit, drop, slack, *known, out)
        return out

    def ends(self, log):
        """Where l is `log` below ln Z: below the peak (0 if nothing succeeded) and above it."""
        drop = self.greatest - self.posterior()[0] + log
        return self.fallen(False, drop, 1.0), self.fallen(True, drop)

    def at(self, fill, mu):
        """What a kernel fills at one mean in each lane: l, its slope or its curvature."""
        (out,) = self.rows(1)
        fill(np.asarray(mu, float), self.seen, out)
        return out

    def log_likelihood(self, mu):
        """l at one mean in each lane."""
        return self.at(likelihood.fill_log_likelihoods, mu)


def reference_of(s, c, y):
    return reference.posterior_of(tuple(s), tuple(c), tuple(y))


def one(array):
    """The only entry."""
    (value,) = np.ravel(array)
    return float(value)


def rounding(l):
    """How far two sums of the terms of l may differ: some units in the last place."""
    return 2e-15 * abs(l)


def index_rows(name, s, c, y, L, draws=None, known=None, out=None):
    """The library's index rows [i, n, lane]; for agents of these sensitivities, or for a Team."""
    A, N, B = c.shape
    entry = policy(name)
    team = s if isinstance(s, Team) else Team(s)
    keys = np.zeros((2 * N, B), np.uint32) if draws is None else draws
    out = np.full((entry.rows(A), N, B), np.nan) if out is None else out
    cell = np.float64 if entry.forgets else np.int32
    seen = see(team.arrays, c.astype(cell), y.astype(cell), log_term=L, keys=keys)
    seen = seen if known is None else seen._replace(remembered=known)
    entry.rule.fill(seen, desk(A, B, cell), out)
    return out


def log_term(name, t, s, N, delta):
    (L,) = policy(name, delta=delta).log_terms(Team(s), N, t)
    return L


def _fill_exponentials(x, out):
    for i in range(len(x)):
        out[i] = elementary.exp(x[i])


def test_the_vectorised_exponential_is_the_exponential():
    """To two units in the last place."""
    fill = compiled(_fill_exponentials)
    small = np.logspace(-300, -1, 4000)
    halves = np.arange(-1009, 1010) * math.log(2) / 2  # where the power of two changes
    x = np.concatenate(
        [
            np.linspace(-699.9, 699.9, 200_001),
            small,
            -small,
            *(np.nextafter(halves, way) for way in (-np.inf, np.inf)),
            [-0.0, 0.0, 1.0, -1.0],
        ]
    )
    x = x[np.abs(x) < 700]
    out = np.empty_like(x)
    fill(x, out)
    exact = np.array([math.exp(value) for value in x])
    assert (np.abs(out - exact) <= 2 * np.spacing(exact)).all()


class TestManyPulls:
    """Against the same in forty digits."""

    def log_likelihood(self, s, Y, f, mu):
        """Equation (3), of doubles as they are."""
        return Y * mu.ln() + sum(
            f_k * (1 - Decimal(s_k) * mu).ln() for s_k, f_k in zip(s, f, strict=True)
        )

    @pytest.mark.parametrize("pulls", [10**6, 10**8, 2 * 10**9])
    def test_of_a_rare_thing_are_rounded_relative_to_its_likelihood(self, seed, pulls):
        """Not relative to the pulls, each of which adds about s mu: their logarithms are rounded to four
        units in the last place at most, and s mu to half a unit.
        """
        rng = np.random.default_rng(seed)
        ulp = 2.0**-52
        for mu in rng.uniform(1e-5, 0.02, 40).tolist():
            s = 0.95, 0.8
            hits = [round(pulls * s_k * mu / 2) for s_k in s]
            f = [pulls // 2 - y for y in hits]
            lanes = Lanes.by_kind(s, sum(hits), f)
            with localcontext(prec=40):
                exact = self.log_likelihood(s, sum(hits), f, Decimal(mu))
                off = float(abs(Decimal(one(lanes.log_likelihood(np.array([mu])))) - exact))
            size = sum(hits) * abs(math.log(mu)) + 2 * sum(f) * mu
            assert off <= 5 * ulp * size

    @pytest.mark.parametrize(
        ("s", "Y", "f"),
        [
            ((1.0, 1 - 1e-7), 2 * 10**9, (1, 30)),
            ((1.0, 0.9999), 10**8, (1, 1000)),
            ((1.0, 1 - 1e-6, 0.5), 10**9, (2, 5, 1)),
        ],
    )
    def test_the_peak_is_found_close_to_where_a_failure_is_impossible(self, s, Y, f):
        """The distance from there counts: l at the peak is exact up to the rounding of the mean, times its pulls."""
        lanes = Lanes.by_kind(s, Y, f)
        with localcontext(prec=40):
            low, high = Decimal("0.5"), 1 - Decimal(10) ** -20
            for _ in range(130):
                mu = (low + high) / 2
                slope = Y / mu - sum(
                    f_k * Decimal(s_k) / (1 - Decimal(s_k) * mu)
                    for s_k, f_k in zip(s, f, strict=True)
                )
                low, high = (mu, high) if slope > 0 else (low, mu)
            off = float(Decimal(one(lanes.greatest)) - self.log_likelihood(s, Y, f, low))
            away = float((Decimal(one(lanes.peak)) - low) / (1 - low))
        assert abs(away) <= 1e-6
        assert abs(off) <= 2.0**-52 * Y


class TestEvidenceAndMean:
    @pytest.mark.parametrize(
        ("share", "pulls", "off"),
        [
            (0.5, 10**6, 2e-10), (0.5, 10**8, 1e-8), (0.25, 2 * 10**9, 3e-7),
            (0.9, 10**6, 4e-10), (0.99, 10**8, 5e-8), (0.999, 2 * 10**9, 2e-6),
        ],
    )  # fmt: skip
    def test_with_many_pulls_and_false_alarms(self, share, pulls, off):
        """docs/beyond.md, Numerics: to 45 digits by the trapezoidal rule, for a density that is as good as normal."""
        s = 0.9
        phi = share * s
        hits = int(pulls * (phi + (s - phi) * 0.4))
        (got,) = Posteriors.of(
            Team([s], false_positive_rates=[phi]), np.array([[pulls]]), np.array([[hits]])
        ).log_evidence
        with localcontext(prec=45):
            d = Decimal(s) - Decimal(phi)
            r, q = Decimal(phi) / d, d / (1 - Decimal(phi))
            peak = (Decimal(hits) / pulls - Decimal(phi)) / d
            information = hits / (peak + r) ** 2 + (pulls - hits) * (q / (1 - q * peak)) ** 2
            step = 1 / (4 * information.sqrt())
            means = [peak + k * step for k in range(-60, 61)]
            assert 0 < means[0] < means[-1] < 1
            l = [hits * (mu + r).ln() + (pulls - hits) * (1 - q * mu).ln() for mu in means]
            exact = max(l) + (step * sum((x - max(l)).exp() for x in l)).ln()
            assert abs(Decimal(float(got)) - exact) <= off

    @settings(max_examples=500)
    @given(history=histories())
    def test_are_the_references(self, history):
        """1e-9, and for ln Z the rounding of the l that it is made from."""
        log_evidence, mean = map(one, Lanes.of(*history).posterior())
        exact = reference_of(*history)
        assert abs(log_evidence - exact.log_evidence) <= TOLERANCE + rounding(exact.top)
        assert mean == pytest.approx(exact.mean, rel=TOLERANCE, abs=0)

    @settings(max_examples=200)
    @given(
        fewer=st.integers(0, 1000),
        more=st.one_of(st.integers(0, 1000), st.integers(0, 10**6)),
        swapped=st.booleans(),
    )
    def test_of_an_agent_that_misses_nothing_are_those_of_a_beta_density(
        self, fewer, more, swapped
    ):
        """Z = 1 / ((n + 1) C(n, Y)), in whole numbers."""
        Y, F = (fewer, more) if swapped else (more, fewer)
        n = Y + F
        log_evidence, mean = map(one, Lanes.by_kind([1.0], Y, F).posterior())
        exact = -math.log((n + 1) * math.comb(n, Y))
        assert abs(log_evidence - exact) <= TOLERANCE + rounding(exact)
        assert mean == pytest.approx((Y + 1) / (n + 2), rel=TOLERANCE, abs=0)

    @settings(max_examples=200)
    @given(s=SENSITIVITIES, F=PULLS)
    def test_without_successes_are_those_of_a_power(self, s, F):
        """The integrals of (1 - s mu)^F and mu (1 - s mu)^F, by way of q = 1 - s mu."""
        log_evidence, mean = map(one, Lanes.by_kind([s], 0, F).posterior())
        q = 1 - s
        exact = (1 - q ** (F + 1)) / (s * (F + 1))
        assert abs(log_evidence - math.log(exact)) <= TOLERANCE
        # E[q] = 1 - s E[mu]: both sides of that, as E[mu] itself would be a difference of equals
        exact_q = (1 - q ** (F + 2)) / (F + 2) / (s * exact)
        assert 1 - s * mean == pytest.approx(exact_q, rel=TOLERANCE, abs=0)

    @settings(max_examples=100)
    @given(s=st.lists(SENSITIVITIES, min_size=1, max_size=3, unique=True), Y=PULLS)
    def test_without_failures_sensitivities_have_no_say(self, s, Y):
        log_evidence, mean = map(one, Lanes.by_kind(sorted(s)[::-1], Y, [0] * len(s)).posterior())
        assert log_evidence == pytest.approx(-math.log(Y + 1), rel=0, abs=TOLERANCE)
        assert mean == pytest.approx((Y + 1) / (Y + 2), rel=TOLERANCE, abs=0)

    def test_before_the_first_pull_are_those_of_the_prior(self):
        for s in ([1.0], [0.01], [0.3, 0.9], [0.9, 0.3, 0.9]):
            log_evidence, mean = map(one, Lanes.of(s, [0] * len(s), [0] * len(s)).posterior())
            assert abs(log_evidence) <= 1e-14
            assert mean == pytest.approx(0.5, rel=1e-14)


class TestDraws:
    @settings(max_examples=400)
    @given(history=histories(), key=KEYS)
    def test_are_the_references(self, history, key):
        s, c, y = history
        failures = tuple(reference.failures_by_kind(s, c, y))
        got = one(Lanes.of(*history).draws(np.array([key]).T))
        assert got == pytest.approx(reference.thompson(sum(y), failures, key), rel=TOLERANCE, abs=0)

    @settings(max_examples=300)
    @given(history=histories())
    def test_are_made_under_a_bound_of_the_density(self, history):
        """Nowhere too low, by more than l is rounded, and so close that more than half are accepted."""
        _, c, y = history
        low, low_scale, high, high_scale = Lanes.of(*history).bound()[:, 0]
        exact = reference_of(*history)
        spread = exact.mass
        grid = exact.peak + np.concatenate([np.linspace(-12, 12, 97), [-1e3, 1e3, 1e5]]) * spread
        for mu in grid[(grid > 0) & (grid < 1)]:
            beyond = (low - mu) / low_scale if mu < low else 0.0
            beyond = (mu - high) / high_scale if mu > high else beyond
            l = reference.log_likelihood(sum(y), exact.failures, mu)
            assert -beyond >= l - exact.top - 2 * rounding(exact.top) - 1e-12 - 2e-15 * sum(c)
        mass = low_scale + (high - low) + high_scale
        assert 0.5 <= exact.mass / mass <= 1 + 1e-9

    @settings(max_examples=300)
    @given(history=histories())
    def test_are_proposed_where_the_bound_has_the_share_below(self, history):
        low, low_scale, high, high_scale = bound = Lanes.of(*history).bound()[:, 0]
        got, log_bound = np.full((2, len(SHARES)), np.nan)
        lanes = [np.full(len(SHARES), x) for x in bound]
        posterior.fill_proposals(SHARES, *lanes, got, log_bound)
        mass = low_scale + (high - low) + high_scale
        for share, mu, log in zip(SHARES, got, log_bound, strict=True):
            rounded = 4 * np.spacing(max(abs(mu), low, high))  # of mu
            if mu < low:  # the integral of exp((x - low) / low_scale) up to mu
                assert log == pytest.approx(
                    (mu - low) / low_scale, rel=1e-14, abs=rounded / low_scale
                )
                below = low_scale * math.exp((mu - low) / low_scale) / mass
            elif mu > high:
                assert log == pytest.approx(
                    (high - mu) / high_scale, rel=1e-14, abs=rounded / high_scale
                )
                below = 1 - high_scale * math.exp((high - mu) / high_scale) / mass
            else:
                assert log == 0
                below = (low_scale + mu - low) / mass
            # the bound is at most 1
            assert below == pytest.approx(share, rel=0, abs=1e-14 + rounded / mass)

    def test_before_the_first_pull_are_the_streams_first_number(self):
        """The bound is the uniform prior itself."""
        for key in [(0, 0), (1, 2), (2**32 - 1, 7)]:
            for s in ([1.0], [0.01], [0.9, 0.3]):
                got = one(Lanes.of(s, [0] * len(s), [0] * len(s)).draws(np.array([key]).T))
                assert got == (reference.philox((0, 0, 0, 0), key)[0] + 0.5) / 2**32

    @pytest.mark.parametrize(
        ("c", "y"),
        [
            ((0, 0, 0), (0, 0, 0)),
            ((0, 0, 1), (0, 0, 1)),
            ((0, 0, 4), (0, 0, 1)),
            ((0, 40, 0), (0, 0, 0)),
            ((3, 12, 30), (0, 4, 3)),
            ((0, 9, 2), (0, 9, 2)),
            ((10**5,) * 3, (9, 20, 11)),
        ],
        ids=str,
    )
    def test_follow_the_posterior(self, seed, c, y):
        """Kolmogorov's distance of 100,000 draws is too large with probability 1e-6 at most (Massart's bound).

        The draws are those of as many trials in the simulator: of their addresses.
        """
        draws = 100_000
        words = np.empty((4, draws), np.uint32)
        randomness.fill_words(np.uint64(seed), np.uint64(0), np.int64(1), words)
        s = np.array([1.0, 0.9, 0.3])
        table = [np.repeat(np.array(x, np.int32), draws).reshape(3, 1, draws) for x in (c, y)]
        # the key of the only arm follows its luck and its tie-break
        got = index_rows("thompson", s, *table, 0.0, words[2:].copy())[0, 0]
        exact = reference_of(s.tolist(), c, y)
        # at every hundredth draw: the distance over all of [0, 1] is greater by a thousandth at most
        ordered = np.sort(got)
        grid = ordered[::100]
        shares = np.array([exact.share_below(float(mu)) for mu in grid])
        below = np.searchsorted(ordered, grid, side="right") / draws
        assert np.abs(below - shares).max() <= math.sqrt(math.log(2 / 1e-6) / (2 * draws))


class TestIndex:
    # Closer than this to 1/s_1, relatively, the search does not look: 1/s_1 is the answer.
    AT_LIMIT = 1.1 * likelihood.CLOSE

    @pytest.mark.slow
    @pytest.mark.parametrize("name", RATIOS)
    @settings(max_examples=200)
    @given(table=tables(), t=st.one_of(st.integers(1, 300), st.integers(1, 10**6)), delta=DELTAS)
    def test_is_the_references(self, name, table, t, delta):
        """To 1e-9, which is what l allows.

        l is concave and falls by D = max l - ln Z + ln(N/delta) between its peak and the index, so its slope at
        the index is at least D / index: an error e in l or ln Z moves the index by e/D, relatively. e is
        2e-15 |l| or less; max l >= -0.7 n, as at 1/2 no factor is less than 1/2; n < 5e6; and D is about ln(n) / 2
        > 7 for so many pulls. With fewer, e vanishes faster than D; where max l > 0, D is greater than that.
        Beyond 1 an index is off by e itself, and the l of an arm that reaches 1 is no further below max l than D.
        """
        s, c, y = table
        N = c.shape[1]
        got = index_rows(name, s, c, y, log_term(name, t, s, N, delta))[..., 0]
        wanted = reference.index_rows(
            name, s.tolist(), c[..., 0].tolist(), y[..., 0].tolist(), t, delta
        )
        np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))
        wanted_index = np.array(wanted[0])
        seen = np.isfinite(wanted_index)
        at_pole = (wanted_index <= 1) & (wanted_index > 1 - self.AT_LIMIT)
        off = np.where(wanted_index > 1, 2e-15 * c.sum(), np.where(at_pole, self.AT_LIMIT, 0.0))
        apart = abs(got[0][seen] - wanted_index[seen])
        assert (apart <= TOLERANCE * wanted_index[seen] + off[seen]).all()
        if name == "posterior-sorted":
            np.testing.assert_allclose(got[1], wanted[1], rtol=TOLERANCE, atol=0)

    @settings(max_examples=200)
    @given(table=tables(), level=st.floats(1.0, 1e6))
    def test_a_quantile_is_no_further_from_the_mean_than_is_proven(self, table, level):
        """docs/beyond.md (14), with p = 1/level; the rounding of the numbers is a millionth of it."""
        s, c, y = table
        quantile, mean = index_rows("season", s, c, y, math.log(level))
        n = c.sum(axis=0)
        V = np.tensordot(s**2, c, axes=1)
        pulled = n > 0
        assert (quantile - mean)[~pulled].max(initial=-1.0) <= 0.5
        reach = (np.sqrt(2 * np.log((n + 1) * level)) + 1)[pulled] / np.sqrt(V[pulled])
        assert ((quantile - mean)[pulled] <= reach * (1 + 1e-6)).all()

    @pytest.mark.parametrize("s", [(0.6, 0.4), (0.5, 1.0)])
    def test_in_every_small_table(self, s):
        """All outcomes of up to four pulls by each of two agents, side by side."""
        outcomes_ = [(pulls, hits) for pulls in range(5) for hits in range(pulls + 1)]
        c, y = np.array(list(itertools.product(outcomes_, repeat=2)), np.int32)[1:].T
        L = 1.5
        index, mean = index_rows(
            "posterior-sorted", np.array(s), c[:, None].copy(), y[:, None].copy(), L
        )
        for lane in range(c.shape[1]):
            known = s, tuple(c[:, lane].tolist()), tuple(y[:, lane].tolist())
            wanted = reference.ucb_posterior(*known, L)
            assert index[0, lane] == pytest.approx(wanted, rel=TOLERANCE, abs=0)
            assert mean[0, lane] == pytest.approx(reference_of(*known).mean, rel=TOLERANCE, abs=0)

    def test_an_arm_never_seen_goes_before_one_whose_only_visit_succeeded(self):
        """docs/beyond.md (6), with L = s mu and Z = s/2 after one success; 1 + ln(N/delta) would come second."""
        c = np.array([[[0], [1]]])
        words = lambda first, count: np.zeros((count, 1), np.uint32)  # noqa: E731
        index, mean = policy("posterior-sorted").index_rows(Team([0.9]), c, c, 1, words)[:, :, 0]
        beyond = 1 + math.log(2) + math.log(2 / 0.05)
        assert index.tolist() == [math.inf, pytest.approx(beyond, rel=TOLERANCE)]
        assert 1 + math.log(2 / 0.05) < beyond
        assert mean.tolist() == pytest.approx([1 / 2, 2 / 3], rel=TOLERANCE)

    def test_close_to_its_limit(self):
        """Three failures in 256,278 pulls: 1.1e-9 below 1, and not 1e-10."""
        L = math.log(1 / 1e-6)
        c, y = (np.array([[[k]]], np.int32) for k in (256_278, 256_275))
        got = one(index_rows("posterior-ratio", np.array([1.0]), c, y, L))
        wanted = reference.ucb_posterior([1.0], [256_278], [256_275], L)
        assert got == pytest.approx(wanted, rel=TOLERANCE, abs=0)

    @settings(max_examples=200)
    @given(history=histories(), arms=st.integers(1, 9), delta=DELTAS)
    def test_bounds_the_means_that_are_not_too_unlikely(self, history, arms, delta):
        """At both ends l is ln(N/delta) below the evidence, unless there is no more room.

        As exact as l is, and as the ends are, times the slope of l there.
        """
        s, c, y = history
        log = math.log(arms / delta)
        lanes = Lanes.of(s, c, y)
        lower, index = map(one, lanes.ends(log))
        log_evidence, mean = map(one, lanes.posterior())
        peak = one(lanes.peak)
        level = log_evidence - log
        failures = reference.failures_by_kind(s, c, y)
        assert 0 <= lower <= peak <= index <= 1 / max(s)
        assert lower <= mean <= index
        for end in (lower, index):
            if end == 0 or end > (1 - self.AT_LIMIT) / max(s):
                continue
            slope = sum(y) / end + sum(f * s_k / (1 - s_k * end) for s_k, f in failures)
            near = 1e-10 + rounding(level) + 2e-15 * sum(c) + 2e-15 * slope * end
            l = reference.log_likelihood(sum(y), failures, end)
            assert abs(l - level) <= near
        if lower == 0:
            assert sum(y) == 0
        if index > (1 - self.AT_LIMIT) / max(s):
            inside = (1 - self.AT_LIMIT) / max(s)
            # l rises by no more than this from there to 1/s_1
            gained = self.AT_LIMIT * sum(y) / (1 - self.AT_LIMIT)
            l = reference.log_likelihood(sum(y), failures, inside)
            assert inside <= peak or l >= level - gained - rounding(level)

    @settings(max_examples=100)
    @given(table=tables(), t=st.integers(1, 10**6), deltas=st.lists(DELTAS, min_size=2, max_size=4))
    def test_falls_with_delta_and_rises_with_the_round_where_that_counts(self, table, t, deltas):
        s, c, y = table
        N = c.shape[1]
        fixed, decay = "posterior-ratio", "posterior-ratio-decay"
        rounds = sorted({1, 2, t})

        def index(name, round_, delta):
            return index_rows(name, s, c, y, log_term(name, round_, s, N, delta))

        by_delta = [index(fixed, t, delta) for delta in sorted(deltas, reverse=True)]
        by_round = [index(decay, round_, max(deltas)) for round_ in rounds]
        assert by_round[0].tobytes() == by_delta[0].tobytes()
        for rising in (by_delta, by_round):
            for less, more in itertools.pairwise(rising):
                assert (more >= less * (1 - self.AT_LIMIT)).all()
        # a factor of 2 in the round shows, if anything was seen and it is not next to a pole
        free = (c.sum(axis=0) > 0) & (abs(by_round[1][0] - 1) > 1e-6)
        assert (by_round[1] > by_round[0])[0, free].all()


class TestLanes:
    """A lane's bits do not depend on its neighbours, however different these are."""

    S = (0.9, 1.0, 0.3)

    def outcomes(self, seed):
        """c, y [k, lane]: from nothing to a million pulls, side by side, in no order."""
        rng = np.random.default_rng(seed)
        most = rng.choice([0, 1, 5, 40, 1000, 10**6], (3, 61))
        c = rng.integers(0, most, endpoint=True)
        share = rng.choice([0.0, 1.0, 1e-5, 1 - 1e-5, 0.2, 0.5], 61)
        y = rng.binomial(c, share)
        c[:, :4], y[:, :4] = 0, 0
        c[:, 1], y[:, 1] = 10**6, (0, 400_000, 10**6)
        c[:, 2], y[:, 2] = (10**6, 0, 1), (999_999, 0, 1)
        return c.astype(np.int32), y.astype(np.int32)

    def test_evidence_mean_ends_and_draws_alone_and_together(self, seed):
        c, y = self.outcomes(seed)
        count = c.shape[1]
        keys = np.random.default_rng(seed).integers(0, 2**32, (2, count), np.uint32)

        def everything(which):
            lanes = Lanes.of_many(self.S, c[:, which], y[:, which])
            parts = (*lanes.posterior(), *lanes.ends(3.0), lanes.draws(keys[:, which]))
            return np.array([lanes.peak, lanes.greatest, *parts])

        together = everything(slice(None))
        assert not np.isnan(together).any()
        for lane in range(count):
            alone = everything(slice(lane, lane + 1))
            assert alone.tobytes() == together[:, [lane]].tobytes()

    @pytest.mark.parametrize("name", [*RATIOS, *DRAWN])
    def test_indices_alone_and_together(self, name, seed):
        s = np.array(self.S)
        c, y = (np.ascontiguousarray(table[:, None]) for table in self.outcomes(seed))
        draws = np.random.default_rng(seed).integers(0, 2**32, (2, c.shape[2]), np.uint32)
        together = index_rows(name, s, c, y, 4.2, draws)
        assert not np.isnan(together).any()
        for lane in range(c.shape[2]):
            cut = [table[..., [lane]] for table in (c, y, draws)]
            alone = index_rows(name, s, cut[0].copy(), cut[1].copy(), 4.2, cut[2].copy())
            assert alone.tobytes() == together[..., [lane]].tobytes()

    @pytest.mark.parametrize("name", [*RATIOS, *DRAWN])
    def test_what_is_known_already_needs_no_filling(self, name, seed):
        """An arm that nobody has visited keeps its index, if the index depends on its outcomes alone."""
        s = np.array(self.S)
        c, y = (np.ascontiguousarray(table[:, None]) for table in self.outcomes(seed))
        whole = index_rows(name, s, c, y, 4.2)
        known = np.random.default_rng(seed).random(c.shape[1:]) < 0.5
        partly = np.where(known, whole, np.nan)
        index_rows(name, s, c, y, 4.2, known=known, out=partly)
        assert partly.tobytes() == whole.tobytes()
        unknown = np.full(whole.shape, np.nan)
        index_rows(name, s, c, y, 4.2, known=known, out=unknown)
        # the rule may look at what is known; whether anything ever is, its record says
        assert np.isnan(unknown[:, known]).all()
        assert policy(name).rule.remembers == (name in ("posterior-ratio", "posterior-sorted"))


class TestWhatIsProven:
    """The steps of the proof of docs/beyond.md (7), on what the library computes."""

    @settings(max_examples=300)
    @given(history=histories(), arms=st.integers(1, 9), delta=DELTAS)
    def test_evidence_mean_and_interval_stay_near_the_peak(self, history, arms, delta):
        s, c, y = history
        n = sum(c)
        lanes = Lanes.of(s, c, y)
        log_evidence, mean = map(one, lanes.posterior())
        peak = min(1.0, one(lanes.peak)) if n else 0.5
        top = reference_of(s, c, y).top  # l at the peak on [0, 1]
        near = 1e-14 + rounding(top)
        assert top - math.log(n + 1) - near - TOLERANCE <= log_evidence <= top + near
        V = sum(s_k**2 * c_k for s_k, c_k in zip(s, c, strict=True))
        if n:
            lower, upper = map(one, lanes.ends(math.log(arms / delta)))
            width = math.sqrt(2 * math.log((n + 1) * arms / delta) / V)
            assert abs(mean - peak) <= 1 / math.sqrt(V)
            assert peak - lower <= width
            assert min(1.0, upper) - peak <= width

    @settings(max_examples=200)
    @given(history=histories(), data=st.data())
    def test_the_likelihood_is_at_least_as_concave_as_a_parabola(self, history, data):
        """-l'' >= V: between two means l lies above its chord, by V/8 times their distance squared."""
        s, c, y = history
        ends = [data.draw(st.floats(1e-6, 1 - 1e-6)) for _ in range(2)]
        first, second, middle = (
            one(Lanes.of(s, c, y).log_likelihood([mu])) for mu in (*ends, sum(ends) / 2)
        )
        V = sum(s_k**2 * c_k for s_k, c_k in zip(s, c, strict=True))
        bulge = V * (ends[1] - ends[0]) ** 2 / 8
        near = rounding(first) + rounding(second) + 2e-15 * sum(c)
        assert middle - (first + second) / 2 >= bulge - near


@pytest.mark.parametrize("mean", [0.02, 0.2, 0.5, 0.98])
def test_the_evidence_rarely_ever_speaks_against_the_truth(seed, mean):
    """Ville: ln Z - l(mean) exceeds ln(1/delta) in any of 200 pulls with probability delta at most.

    For each mean more fail than is put up with, about five standard errors above delta, with probability
    1e-6 at most. In truth some 3 % do: a bound that never failed would be wider than it need be.
    """
    trials, pulls, delta = 4000, 200, 0.05
    s = np.array([0.9, 0.3])
    rng = np.random.default_rng(1000 * seed + round(100 * mean))
    c, y = np.zeros((2, 2, trials))
    failed = np.zeros(trials, bool)
    for i in range(pulls):
        k = i % 2
        c[k] += 1
        y[k] += rng.random(trials) < s[k] * mean
        lanes = Lanes.of_many(s, c, y)
        ratio = lanes.posterior()[0] - lanes.log_likelihood(np.full(trials, mean))
        failed |= ratio > math.log(1 / delta)
    assert failed.sum() <= binom.isf(1e-6, trials, delta)
    assert failed.mean() > 0.01
