"""False alarms: agents who report 1 with probability phi + d mu, in every kernel that takes them.

Against the reference, which has the reports as coins with that probability; what the kernels make of it,
roots phi/d and slopes d/(1 - phi), it does not know.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reference
from false_alarms import Reporting
from heterobandits.core import likelihood, randomness
from heterobandits.core.seen import see
from heterobandits.core.work import desk
from heterobandits.model.team import Team
from heterobandits.policies.policy import policy
from test_posterior import KEYS, Lanes, index_rows, one, outcomes

# With a million pulls l is rounded to about 1e-10, and quad complains that it cannot get to 1e-13.
pytestmark = pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")

EXACT = 1e-9
ULP = 2.0**-52
CLOSE = 1.1 * likelihood.CLOSE  # closer than this to 1/s_1, relatively, the search does not look
ALARMS = st.one_of(
    st.just(0.0), st.sampled_from([1e-9, 0.001, 0.05, 0.3, 0.5]), st.floats(0.001, 0.8)
)
SHARES = st.one_of(st.sampled_from([1.0, 0.95, 0.8, 0.3, 0.01]), st.floats(0.01, 1.0))
LOGS = st.floats(0.1, 20.0)


@st.composite
def teams(draw):
    """(slope, offset) of some agents in any order: with and without false alarms, often some alike."""
    pairs = []
    for _ in range(draw(st.integers(1, 4))):
        phi = draw(ALARMS)
        pairs.append((draw(SHARES) * (1 - phi), phi))
    return [draw(st.sampled_from(pairs)) for _ in pairs] if draw(st.booleans()) else pairs


@st.composite
def histories(draw):
    """Agents, and what they reported of one arm: often as many 1s as false alarms alone would give, about."""
    pairs = draw(teams())
    c, y = map(list, draw(outcomes(len(pairs))))
    if draw(st.booleans()):
        more = st.floats(-2, 2)
        for a, (_, phi) in enumerate(pairs):
            false = c[a] * phi + draw(more) * math.sqrt(c[a] * phi * (1 - phi))
            y[a] = min(c[a], max(0, round(false)))
    return pairs, c, y


def team_of(pairs):
    return Reporting(*zip(*pairs, strict=True))


def known_of(history):
    """The reference's posterior."""
    pairs, c, y = history
    return reference.Reported([(*pair, n, k) for pair, n, k in zip(pairs, c, y, strict=True)])


def lanes_of(history):
    pairs, c, y = history
    return Lanes.of(team_of(pairs), c, y)


def rounding(known, mu):
    """What both l can be off by at mu: the last places of their terms, and of what they take the logarithm of."""
    size = 0.0
    for d, phi, c, y in known.reports:
        p = phi + d * mu
        if y:
            size += y * (abs(math.log(p)) + abs(math.log(d)) + abs(math.log(p / d)) + 1)
        if c > y:
            size += (c - y) * (abs(math.log1p(-p)) + 2 * abs(math.log1p(-phi)) + 1 / (1 - p))
    return 4 * ULP * size


def off_by(known, peak, end):
    """How far an end may be off: 1e-9 of it, and what the rounding of l moves it by, over the slope of l there."""
    level = rounding(known, peak) + rounding(known, known.peak) + rounding(known, end)
    return level / max(abs(known.slope(end)), 1e-300) + EXACT * end


def peak_of(known):
    """Where l peaks on [0, 1/s_1]."""
    return known.likeliest(math.nextafter(known.limit, 0))


class TestPooled:
    @settings(max_examples=200)
    @given(history=histories(), log=LOGS)
    def test_estimates_are_those_of_the_reports_less_the_false_alarms(self, history, log):
        """V = sum d^2 c, W = sum d (y - phi c): W/V, and the widths of V alone."""
        pairs, c, y = history
        V, W = reference.reported_sums(known_of(history).reports)
        shape = (len(c), 1, 1)
        table = [np.array(counts, np.int32).reshape(shape) for counts in (c, y)]
        team = team_of(pairs)
        # what is subtracted from what, the size that an error is measured by
        size = float(sum(d * (k + phi * n) for (d, phi), n, k in zip(pairs, c, y, strict=True)))
        widths = {
            "greedy": lambda V: 0.0,
            "min-width": lambda V: math.sqrt(log / (2 * V)),
            "mixture-width": lambda V: math.sqrt((V + 1) / 2 * (log + math.log1p(V) / 2)) / V,
        }
        for name, width in widths.items():
            got = one(index_rows(name, team, *table, log))
            if not V:
                assert got == math.inf
                continue
            wanted = float(W / V) + width(float(V))
            near = 1e-12 * (size / float(V) + width(float(V)))
            assert got == pytest.approx(wanted, rel=0, abs=near)

    @settings(max_examples=100)
    @given(history=histories(), log=LOGS)
    def test_bands_are_around_the_same_estimates(self, history, log):
        pairs, c, y = history
        V, W = reference.reported_sums(known_of(history).reports)
        table = [np.array(counts, np.int32).reshape(len(c), 1, 1) for counts in (c, y)]
        seen = see(team_of(pairs).arrays, *table, log_term=log)
        size = float(sum(d * (k + phi * n) for (d, phi), n, k in zip(pairs, c, y, strict=True)))
        estimate, width = np.full((2, 1, 1, 1), np.nan)
        policy("min-width").rule.band.fill(seen, desk(len(c), 1), estimate, width)
        if V:
            assert one(estimate) == pytest.approx(float(W / V), rel=0, abs=1e-12 * size / float(V))
            assert one(width) == pytest.approx(math.sqrt(log / (2 * float(V))), rel=1e-12)
        else:
            assert (one(estimate), one(width)) == (0.5, math.inf)
        estimate, width = np.full((2, len(c), 1, 1), np.nan)
        policy("no-sharing").rule.band.fill(seen, desk(len(c), 1), estimate, width)
        for a, ((d, phi), n, k) in enumerate(zip(pairs, c, y, strict=True)):
            mean = (k - phi * n) / (d * n) if n else 0.5
            reach = math.sqrt(log / (2 * n)) / d if n else math.inf
            near = 1e-12 * (k + phi * n) / (d * n) if n else 0.0
            assert estimate[a, 0, 0] == pytest.approx(mean, rel=0, abs=near)
            assert width[a, 0, 0] == pytest.approx(reach, rel=1e-12)


class TestOwn:
    @settings(max_examples=200)
    @given(history=histories(), log=LOGS)
    def test_indices_are_those_of_the_reports_less_the_false_alarms(self, history, log):
        """(y - phi c) / (d c) + sqrt(L / 2c) / d of each agent, and the least of them."""
        pairs, c, y = history
        table = [np.array(counts, np.int32).reshape(len(c), 1, 1) for counts in (c, y)]
        rows = index_rows("no-sharing", team_of(pairs), *table, log)[:, 0, 0]
        least = one(index_rows("min-ucb", team_of(pairs), *table, log))
        for (d, phi), n, k, got in zip(pairs, c, y, rows, strict=True):
            if not n:
                assert got == math.inf
                continue
            width = math.sqrt(log / (2 * n)) / d
            near = 1e-12 * ((k + phi * n) / (d * n) + width)
            assert got == pytest.approx((k - phi * n) / (d * n) + width, rel=0, abs=near)
        assert least == min(rows)


class TestLikelihood:
    @settings(max_examples=300)
    @given(history=histories(), mu=st.floats(1e-6, 1 - 1e-6))
    def test_is_that_of_the_reports_but_for_a_constant(self, history, mu):
        lanes, known = lanes_of(history), known_of(history)
        got = one(lanes.log_likelihood([mu])) + known.dropped
        assert got == pytest.approx(known.log_likelihood(mu), rel=0, abs=rounding(known, mu))

    @settings(max_examples=300)
    @given(history=histories(), mu=st.floats(1e-6, 1 - 1e-6))
    def test_slope_and_curvature_are_the_references(self, history, mu):
        lanes, known = lanes_of(history), known_of(history)
        pole = max((d / (1 - phi) for d, phi, _, _ in known.reports), default=0.0)
        near = 1e-14 * (1 + 1 / (1 - pole * mu))  # what is left of the digits of 1 - s mu
        slope = one(lanes.at(likelihood.fill_slopes, [mu]))
        size = math.fsum(map(abs, known.slopes(mu)))
        assert slope == pytest.approx(known.slope(mu), rel=0, abs=near * size)
        bend = one(lanes.at(likelihood.fill_curvatures, [mu]))
        assert bend == pytest.approx(known.bend(mu), rel=2 * near)

    @pytest.mark.slow
    @settings(max_examples=500)
    @given(history=histories())
    @example(history=([(0.5, 0.5)], [10], [5]))  # as many as false alarms alone: flat at 0
    @example(history=([(0.5, 0.5)], [1000], [501]))
    @example(history=([(0.5, 0.5)], [10**6], [500_001]))
    @example(history=([(0.9, 0.1), (0.5, 0.0)], [10, 5], [10, 0]))
    @example(history=([(0.9, 0.1), (0.5, 0.0)], [10, 5], [0, 0]))
    @example(history=([(0.9, 0.1), (0.5, 0.0)], [10, 0], [10, 0]))
    @example(history=([(0.9, 1e-9)], [10**6], [1]))
    def test_peak_is_the_references(self, history):
        """The root of l' is as far off as l' is rounded, over its curvature; at most 1/s_1."""
        lanes, known = lanes_of(history), known_of(history)
        peak = one(lanes.peak)
        wanted = peak_of(known)
        assert 0 <= peak <= known.limit * (1 + ULP)
        if not known.reports:
            assert peak == pytest.approx(known.limit, rel=ULP)
            return
        if wanted >= known.limit * (1 - CLOSE):
            assert peak == pytest.approx(known.limit, rel=CLOSE)
            return
        size = 4 * ULP * math.fsum(map(abs, known.slopes(wanted)))
        near = EXACT * wanted + size / known.bend(wanted)
        assert abs(peak - wanted) <= near
        greatest = one(lanes.greatest) + known.dropped
        assert greatest == pytest.approx(
            known.log_likelihood(wanted), rel=0, abs=EXACT + rounding(known, wanted)
        )

    def test_peak_may_be_at_nothing_though_something_was_reported(self):
        """Fewer than the false alarms that are to be expected."""
        for c, y in ((10, 1), (10, 4), (10**6, 499_999)):
            lanes = lanes_of(([(0.4, 0.5)], [c], [y]))
            assert one(lanes.peak) == 0.0
            wanted = y * math.log(0.5 / 0.4)  # y ln r, and nothing of the failures
            assert one(lanes.greatest) == pytest.approx(wanted, rel=1e-12)

    def test_as_many_as_false_alarms_alone_peak_at_nothing(self):
        assert one(lanes_of(([(0.5, 0.5)], [10], [5])).peak) == 0.0
        assert one(lanes_of(([(0.5, 0.5)], [1000], [501])).peak) == pytest.approx(0.002, rel=1e-9)


class TestFallen:
    @settings(max_examples=400)
    @given(history=histories(), drop=st.one_of(st.floats(0.01, 40), st.just(0.0), st.just(-1.0)))
    def test_ends_are_the_references(self, history, drop):
        """Below it ends at 0 where l(0) has not fallen that far, above at 1/s_1."""
        lanes, known = lanes_of(history), known_of(history)
        peak = peak_of(known)
        got = {above: one(lanes.fallen(above, drop)) for above in (False, True)}
        if drop <= 0:
            assert set(got.values()) == {one(lanes.peak)}
            return
        if not known.reports:
            assert got == {False: 0.0, True: pytest.approx(known.limit, rel=ULP)}
            return
        level = known.log_likelihood(peak) - drop
        upper = known.highest(level, known.limit)
        near = (1 - CLOSE) * known.limit
        if min(upper, got[True]) < near:
            end = min(upper, near)
            assert abs(min(got[True], near) - end) <= off_by(known, peak, end)
        assert got[True] <= known.limit * (1 + ULP)
        # the peak itself may be beyond 1, where `lowest` does not look
        if known.at_zero() < level:
            lower = reference.halved(0.0, peak, lambda mu: known.log_likelihood(mu) < level)[1]
            assert abs(got[False] - lower) <= off_by(known, peak, lower)
        elif got[False] > 0:
            assert known.at_zero() <= level + rounding(known, peak) + rounding(known, got[False])
        assert got[False] <= peak * (1 + EXACT) + EXACT

    def test_nearly_down_at_nothing_beside_many_false_alarms(self):
        """A first guess right beside the peak, where l has not fallen by more than it is rounded, is no answer."""
        history = [(0.5, 0.5)], [237_155], [118_821]
        known = known_of(history)
        wanted = reference.halved(
            0.0, peak_of(known), lambda mu: known.log_likelihood(mu) < known.top - 0.5
        )[1]
        assert 0 < wanted < 1e-6
        got = one(lanes_of(history).fallen(False, 0.5))
        assert abs(got - wanted) <= off_by(known, peak_of(known), wanted)

    def test_below_it_ends_at_nothing_where_a_success_may_be_a_false_alarm(self):
        """One report of 1 in two: ln(1/2 + r) is not far above ln r."""
        lanes = lanes_of(([(0.5, 0.2)], [2], [1]))
        known = known_of(([(0.5, 0.2)], [2], [1]))
        fall = known.log_likelihood(peak_of(known)) - known.at_zero()
        assert one(lanes.fallen(False, fall * 1.001)) == 0.0
        assert one(lanes.fallen(False, fall * 0.999)) > 0.0
        # and without false alarms nowhere, as nothing succeeds where there is nothing
        assert one(Lanes.of([0.5], [2], [1]).fallen(False, 30.0)) > 0.0


class TestPosterior:
    @settings(max_examples=400)
    @given(history=histories())
    def test_evidence_and_mean_are_the_references(self, history):
        lanes, known = lanes_of(history), known_of(history)
        log_evidence, mean = map(one, lanes.posterior())
        near = EXACT + rounding(known, known.peak)
        assert abs(log_evidence + known.dropped - known.log_evidence) <= near
        assert mean == pytest.approx(known.mean, rel=EXACT, abs=0)

    def test_evidence_of_one_report(self):
        """The integral of phi + d mu, and of its complement, without what is dropped."""
        d, phi = 0.6, 0.3
        for hit, dropped in ((1, math.log(d)), (0, math.log(1 - phi))):
            log_evidence, mean = map(one, lanes_of(([(d, phi)], [1], [hit])).posterior())
            p = phi + d / 2
            wanted = math.log(p if hit else 1 - p) - dropped
            assert log_evidence == pytest.approx(wanted, rel=0, abs=1e-14)
            moment = phi / 2 + d / 3 if hit else 1 / 2 - (phi / 2 + d / 3)
            assert mean == pytest.approx(moment / (p if hit else 1 - p), rel=1e-14)


class TestDraws:
    @settings(max_examples=300)
    @given(history=histories(), key=KEYS)
    def test_are_the_references(self, history, key):
        """As far off as the edges of the bound are, which are as exact as l, over its slope, at most the width."""
        lanes, known = lanes_of(history), known_of(history)
        got = one(lanes.draws(np.array([key]).T))
        near = rounding(known, known.peak) * reference.bound(known).mass
        wanted = reference.drawn(known, key)
        assert got == pytest.approx(wanted, rel=0, abs=EXACT * wanted + 10 * near)

    @settings(max_examples=200)
    @given(history=histories())
    def test_are_made_under_a_bound_of_the_density(self, history):
        """Nowhere too low, by more than l is rounded, and so close that more than half are accepted."""
        low, low_scale, high, high_scale = lanes_of(history).bound()[:, 0]
        known = known_of(history)
        spread = known.mass
        grid = known.peak + np.concatenate([np.linspace(-12, 12, 97), [-1e3, 1e3, 1e5]]) * spread
        for mu in grid[(grid > 0) & (grid < 1)]:
            beyond = (low - mu) / low_scale if mu < low else 0.0
            beyond = (mu - high) / high_scale if mu > high else beyond
            if (
                known.log_likelihood(mu) == -math.inf
            ):  # so close to 1 that a failure cannot have been
                continue
            near = 1e-12 + 2 * rounding(known, known.peak) + rounding(known, mu)
            assert -beyond >= known.log_likelihood(mu) - known.top - near
        mass = low_scale + (high - low) + high_scale
        assert 0.5 <= known.mass / mass <= 1 + 1e-9

    @pytest.mark.parametrize(
        ("c", "y"),
        [
            ((0, 0, 0), (0, 0, 0)),
            ((0, 3, 0), (0, 3, 0)),
            ((0, 4, 0), (0, 1, 0)),
            ((0, 40, 9), (0, 1, 0)),
            ((3, 12, 30), (1, 4, 3)),
            ((0, 200, 0), (0, 21, 0)),
            ((10**5,) * 3, (40_000, 10_100, 11)),
        ],
        ids=str,
    )
    def test_follow_the_posterior(self, seed, c, y):
        """Kolmogorov's distance of 100,000 draws is too large with probability 1e-6 at most (Massart's bound)."""
        draws = 100_000
        pairs = [(0.5, 0.4), (0.8, 0.1), (0.3, 0.0)]
        words = np.empty((4, draws), np.uint32)
        randomness.fill_words(np.uint64(seed), np.uint64(0), np.int64(1), words)
        table = [np.repeat(np.array(x, np.int32), draws).reshape(3, 1, draws) for x in (c, y)]
        got = index_rows("thompson", team_of(pairs), *table, 0.0, words[2:].copy())[0, 0]
        known = known_of((pairs, c, y))
        # at every hundredth draw: the distance over all of [0, 1] is greater by a thousandth at most
        ordered = np.sort(got)
        grid = ordered[::100]
        shares = np.array([known.share_below(float(mu)) for mu in grid])
        below = np.searchsorted(ordered, grid, side="right") / draws
        assert np.abs(below - shares).max() <= math.sqrt(math.log(2 / 1e-6) / (2 * draws))


class TestIndex:
    def short_of_limit(self, known, index):
        return min(index, (1 - CLOSE) * known.limit)

    @settings(max_examples=300)
    @given(history=histories(), log=LOGS)
    def test_is_the_references(self, history, log):
        """To 1e-9, and what the rounding of l moves it by."""
        pairs, c, y = history
        known = known_of(history)
        table = [np.array(counts, np.int32).reshape(len(c), 1, 1) for counts in (c, y)]
        (likely,) = index_rows("kl-ucb", team_of(pairs), *table, log)
        ratio, mean = index_rows("posterior-sorted", team_of(pairs), *table, log)
        assert one(mean) == pytest.approx(known.mean, rel=EXACT, abs=0)
        if not any(c):
            assert one(likely) == one(ratio) == math.inf
            return
        assert one(likely) <= known.limit * (1 + ULP)
        end = self.short_of_limit(known, known.kl_ucb(log))
        near = off_by(known, peak_of(known), end)
        assert abs(self.short_of_limit(known, one(likely)) - end) <= near
        wanted = known.ratio(log)
        if wanted > 1:
            off = rounding(known, known.peak) + rounding(known, 1.0) + EXACT * wanted
        else:
            off = off_by(known, peak_of(known), self.short_of_limit(known, wanted))
        at_pole = 1 - CLOSE < wanted <= 1
        assert abs(one(ratio) - wanted) <= off + (CLOSE if at_pole else 0.0)

    @pytest.mark.parametrize("pairs", [[(0.5, 0.2), (0.7, 0.0)], [(0.5, 0.5), (0.3, 0.3)]], ids=str)
    def test_in_every_small_table(self, pairs):
        """All outcomes of up to four pulls by each of two agents, side by side, against a grid of means."""
        outcomes_ = [(pulls, hits) for pulls in range(5) for hits in range(pulls + 1)]
        c, y = np.array(list(itertools.product(outcomes_, repeat=2)), np.int32)[1:].T
        limit = min((1 - phi) / d for d, phi in pairs)
        grid = np.linspace(0, limit - 1e-9, 100_001)
        log = 1.5
        index = index_rows("kl-ucb", team_of(pairs), c[:, None].copy(), y[:, None].copy(), log)
        for lane in range(c.shape[1]):
            l = np.zeros_like(grid)
            with np.errstate(divide="ignore"):
                for a, (d, phi) in enumerate(pairs):
                    hits, misses = int(y[a, lane]), int(c[a, lane] - y[a, lane])
                    l += hits * np.log(phi + d * grid) if hits else 0.0
                    l += misses * np.log1p(-phi - d * grid) if misses else 0.0
            wanted = grid[l >= l.max() - log].max()
            assert index[0, 0, lane] == pytest.approx(wanted, abs=3e-5)


LEARNERS = [
    "min-width",
    "min-width-grouped",
    "mixture-width",
    "greedy",
    "min-ucb",
    "no-sharing",
    "pbm-ucb",
]
LIKELIHOOD = ["kl-ucb", "posterior-ratio", "posterior-sorted", "thompson", "thompson-sorted"]


@st.composite
def tables(draw):
    """Agents with false alarms or without, and tables of some arms in some lanes."""
    pairs = draw(teams())
    A, N, B = len(pairs), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    cells = [draw(outcomes(A)) for _ in range(N * B)]
    c, y = (
        np.array([cell[i] for cell in cells], np.int32).T.reshape(A, N, B).copy() for i in range(2)
    )
    return pairs, c, y


class TestEveryRule:
    @pytest.mark.parametrize("name", [*LEARNERS, *LIKELIHOOD, "cucb"])
    @settings(max_examples=30)
    @given(table=tables())
    def test_no_false_alarms_give_the_bits_of_a_team_that_knows_of_none(self, name, table):
        pairs, c, y = table
        slopes = [d for d, _ in pairs]
        keys = np.full((2 * c.shape[1], c.shape[2]), 77, np.uint32)
        silent = index_rows(name, Reporting(slopes, [0.0] * len(slopes)), c, y, 3.7, keys)
        assert silent.tobytes() == index_rows(name, Team(slopes), c, y, 3.7, keys).tobytes()

    @pytest.mark.parametrize("name", [*LEARNERS, *LIKELIHOOD])
    @settings(max_examples=30)
    @given(table=tables(), data=st.data())
    def test_relabelling_the_agents_relabels_the_rows_of_each_and_changes_no_other(
        self, name, table, data
    ):
        pairs, c, y = table
        new = data.draw(st.permutations(range(len(pairs))))
        before = index_rows(name, team_of(pairs), c, y, 3.7)
        moved = team_of([pairs[a] for a in new]), c[new].copy(), y[new].copy()
        after = index_rows(name, *moved, 3.7)
        assert after.tobytes() == (before[new] if name == "no-sharing" else before).tobytes()

    @pytest.mark.parametrize("name", [*LEARNERS, *LIKELIHOOD])
    @settings(max_examples=30)
    @given(table=tables())
    def test_lanes_alone_and_together(self, name, table):
        """A lane's bits do not depend on its neighbours."""
        pairs, c, y = table
        together = index_rows(name, team_of(pairs), c, y, 3.7)
        assert not np.isnan(together).any()
        for lane in range(c.shape[2]):
            cut = (np.ascontiguousarray(counts[..., [lane]]) for counts in (c, y))
            alone = index_rows(name, team_of(pairs), *cut, 3.7)
            assert alone.tobytes() == together[..., [lane]].tobytes()

    @pytest.mark.parametrize("name", [*LEARNERS[:4], *LIKELIHOOD])
    @settings(max_examples=30)
    @given(table=tables(), data=st.data())
    def test_agents_who_report_alike_count_as_one(self, name, table, data):
        """What two of them did together tells as much as if one had done it."""
        pairs, c, y = table
        split = [
            np.array([data.draw(st.integers(0, int(k))) for k in counts.ravel()], np.int32)
            for counts in (y, c - y)
        ]
        hits, misses = (part.reshape(c.shape) for part in split)
        tried = hits + misses
        twins = [*pairs, *pairs]
        both = [np.concatenate(pair) for pair in ((tried, c - tried), (hits, y - hits))]
        wanted = index_rows(name, team_of(pairs), c, y, 3.7)
        assert index_rows(name, team_of(twins), *both, 3.7).tobytes() == wanted.tobytes()
