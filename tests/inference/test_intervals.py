"""What can be said about the arms: intervals, and who is above whom."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reference
from heterobandits import InvalidInput, Planner, policy
from heterobandits.inference.intervals import (
    INTERVAL_METHODS,
    Posteriors,
    mean_intervals,
    order_threshold,
    ranking,
)
from heterobandits.model.team import Team
from orders import evidence, likeliest_in_order, log_likelihood, posteriors, threshold
from planners import with_tables

# Beside a million pulls l has no more than ten digits, and quad says that it cannot reach thirteen.
pytestmark = pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
SENSITIVITIES = st.one_of(
    st.floats(0.01, 1.0), st.sampled_from([0.01, 0.1, 0.5, 0.8, 0.95, 1.0, 1.0])
)
DELTAS = st.floats(1e-6, 0.999)
PULLS = st.one_of(st.just(0), st.integers(1, 5), st.integers(1, 300), st.integers(1, 10**6))
EXACT = 1e-9  # what docs/beyond.md promises of ln Z, the posterior mean and every root
ULP = 2.0**-52


@st.composite
def histories(draw, most_arms=5, pulls=PULLS):
    """Sensitivities in any order, some of them equal, and tables with many extreme cells."""
    A = draw(st.integers(1, 4))
    N = draw(st.integers(1, most_arms))
    s = draw(st.lists(SENSITIVITIES, min_size=A, max_size=A))
    if draw(st.booleans()):
        s = [draw(st.sampled_from(s)) for _ in s]
    c = [[draw(pulls) for _ in range(N)] for _ in range(A)]
    y = [
        [draw(st.one_of(st.just(0), st.just(k), st.integers(0, k))) for k in row]
        for row in c
    ]  # fmt: skip
    return s, c, y


def rounding(known, mu):
    """What l can be off by at mu: the last places of its terms, and of 1 - s mu before its logarithm."""
    size = abs(known.hits * math.log(mu)) if known.hits else 0.0
    for s, f in known.failures:
        if f:
            size += f * (abs(math.log1p(-s * mu)) + 1 + s * mu / (1 - s * mu))
    return 4 * ULP * size


def reach(known, s, end):
    """How far an end of the interval can be off if ln Z is off by EXACT and the root by a share of EXACT.

    An error in the level moves the end by that over the slope of l. The level is counted from the
    peak, which is beyond 1 where more succeeded than was believed possible.
    """
    peak = reference.likeliest(known.hits, known.failures, math.nextafter(1 / max(s), 0))
    level = EXACT + rounding(known, peak) + rounding(known, known.peak) + rounding(known, end)
    slope = known.hits / end - sum(f * s / (1 - s * end) for s, f in known.failures)
    return level / abs(slope) + EXACT * end


class TestPosteriors:
    @settings(max_examples=60)
    @given(histories(), st.data())
    def test_the_log_likelihood_is_the_references(self, history, data):
        s, c, y = history
        inside = st.floats(1e-9, 1 - 1e-9)
        means = [data.draw(inside) for _ in c[0]]
        made = Posteriors.of(Team(s), np.array(c, np.int32), np.array(y, np.int32))
        for known, mu, value in zip(
            posteriors(s, c, y), means, made.log_likelihood(np.array(means)), strict=True
        ):
            wanted = log_likelihood(known, mu)
            assert value == pytest.approx(wanted, rel=0, abs=rounding(known, mu))

    def test_what_cannot_have_been_is_far_below_any_interval(self):
        """A success at mean 0, a failure of a perfect agent at mean 1; what must be is not."""
        for mean, impossible, certain in ((0.0, 1, 0), (1.0, 0, 1)):
            successes = np.array([[impossible, certain]], np.int32)
            made = Posteriors.of(Team([1.0]), np.ones((1, 2), np.int32), successes)
            value = made.log_likelihood(np.full(2, mean))
            assert value[0] < -700
            assert value[1] == 0


class TestPosteriorRatio:
    @settings(max_examples=300)
    @given(histories(), DELTAS)
    @example(([1.0], [[10**6]], [[0]]), 0.05)
    @example(([1.0], [[10**6]], [[10**6]]), 0.05)
    @example(([1.0, 0.3], [[10**6], [1]], [[10**6 - 1], [1]]), 1e-6)
    @example(([0.01, 0.02], [[10**6], [7]], [[10**6], [0]]), 0.5)
    @example(([0.5, 1.0, 0.5], [[0, 3], [0, 1], [0, 2]], [[0, 3], [0, 0], [0, 2]]), 0.9)
    def test_estimates_and_ends_are_the_references(self, history, delta):
        s, c, y = history
        made = mean_intervals(c, y, s, delta=delta)
        log = math.log(len(c[0]) / delta)
        for known, estimate, lower, upper in zip(posteriors(s, c, y), *made, strict=True):
            assert estimate == pytest.approx(known.mean, rel=EXACT)
            low, high = known.interval(log)
            # Where the set reaches 0 or 1 so does the interval; 1 is found as any root is.
            assert abs(lower - low) <= (reach(known, s, low) if low else 0.0)
            assert abs(upper - high) <= (reach(known, s, high) if high < 1 else EXACT)

    @settings(max_examples=60)
    @given(histories(), DELTAS)
    def test_the_posterior_mean_is_at_least_as_likely_as_the_average(self, history, delta):
        """l(mean) >= E[l] >= ln Z: so it is in the interval, whatever delta is."""
        s, c, y = history
        made = mean_intervals(c, y, s, delta=delta)
        for known, mean in zip(posteriors(s, c, y), made.estimate, strict=True):
            slack = EXACT + rounding(known, mean) + rounding(known, known.peak)
            # Where the mean is off by EXACT of itself, l is off by that times its slope there.
            slope = known.hits / mean - sum(f * s / (1 - s * mean) for s, f in known.failures)
            slack += EXACT * mean * abs(slope)
            assert log_likelihood(known, mean) >= known.log_evidence - slack

    @settings(max_examples=60)
    @given(histories(), DELTAS)
    def test_no_wider_than_the_regret_bound_counts_on(self, history, delta):
        """Every mean of (6) is within sqrt(2 D / V) of the peak, D = ln((n + 1) N / delta)."""
        s, c, y = history
        made = mean_intervals(c, y, s, delta=delta)
        N = len(c[0])
        for n, known in enumerate(posteriors(s, c, y)):
            pulls = reference.column(c, n)
            V = sum(s_a**2 * k for s_a, k in zip(s, pulls, strict=True))
            if V:
                D = math.log((sum(pulls) + 1) * N / delta)
                half = math.sqrt(2 * D / V) + EXACT
                assert known.peak - half <= made.lower[n] <= known.peak + EXACT
                assert known.peak - EXACT <= made.upper[n] <= known.peak + half

    def test_one_success_of_one_perfect_agent(self):
        """L = mu and Z = 1/2: the mean is 2/3, and l reaches ln Z - ln(1/delta) at delta/2."""
        made = mean_intervals([[1]], [[1]], [1.0], delta=0.1)
        assert made.estimate[0] == pytest.approx(2 / 3, rel=EXACT)
        assert made.lower[0] == pytest.approx(0.05, rel=EXACT)
        assert made.upper[0] == 1

    def test_one_failure_of_one_perfect_agent(self):
        """L = 1 - mu and Z = 1/2: the mirror image, with two arms to cover."""
        made = mean_intervals([[1, 0]], [[0, 0]], [1.0], delta=0.1)
        assert made.estimate[0] == pytest.approx(1 / 3, rel=EXACT)
        assert made.lower[0] == 0
        assert made.upper[0] == pytest.approx(1 - 0.05 / 2, rel=EXACT)


class TestMixtureWidth:
    @settings(max_examples=100)
    @given(histories(), DELTAS)
    def test_the_estimate_and_the_width_cut_to_what_a_mean_can_be(self, history, delta):
        s, c, y = history
        N = len(c[0])
        made = mean_intervals(c, y, s, method="mixture-width", delta=delta)
        for n in range(N):
            c_n, y_n = reference.column(c, n), reference.column(y, n)
            middle = reference.muhat_shared(s, c_n, y_n)
            half = reference.epsilon_mixture(s, c_n, N, delta)
            # The difference may cancel, so the error is measured against its larger part.
            off = 1e-12 * max(1.0, middle, half if half < math.inf else 1.0)
            assert made.estimate[n] == pytest.approx(min(1.0, middle), rel=1e-12)
            assert made.lower[n] == pytest.approx(min(1.0, max(0.0, middle - half)), abs=off)
            assert made.upper[n] == pytest.approx(min(1.0, middle + half), abs=off)


def every_method(s, c, y, delta):
    """The intervals of all methods, the paper's for a horizon that no arm's pulls exceed."""
    for method in INTERVAL_METHODS:
        horizon = 10**7 if method == "min-width" else None
        yield mean_intervals(c, y, s, method=method, delta=delta, horizon=horizon)


def same_bits(one, other):
    """Whether all arrays of the two have the same bits."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


class TestEveryMethod:
    @settings(max_examples=100)
    @given(histories(), DELTAS)
    def test_probabilities_around_the_estimate(self, history, delta):
        for made in every_method(*history, delta):
            assert (made.lower >= 0).all()
            assert (made.lower <= made.estimate).all()
            assert (made.estimate <= made.upper).all()
            assert (made.upper <= 1).all()

    @settings(max_examples=100)
    @given(histories(), DELTAS, st.floats(1.01, 1000))
    def test_a_larger_delta_gives_an_interval_inside(self, history, delta, factor):
        """With deltas apart by a hundredth the ends are further apart than they can be off."""
        larger = min(delta * factor, 0.9999)
        if larger < 1.01 * delta:
            delta = larger / 1.01
        outer, inner = every_method(*history, delta), every_method(*history, larger)
        for wide, narrow in zip(outer, inner, strict=True):
            assert wide.estimate.tobytes() == narrow.estimate.tobytes()
            assert (wide.lower <= narrow.lower).all()
            assert (narrow.upper <= wide.upper).all()

    @pytest.mark.parametrize("method", ["posterior-ratio", "mixture-width"])
    def test_a_larger_delta_gives_a_narrower_interval(self, method):
        deltas = (1e-6, 1e-3, 0.05, 0.5, 0.999)
        tables = ([[40, 3], [5, 100]], [[20, 2], [1, 30]], [0.9, 0.7])
        made = [mean_intervals(*tables, method=method, delta=delta) for delta in deltas]
        for wide, narrow in itertools.pairwise(made):
            assert (narrow.upper - narrow.lower < wide.upper - wide.lower).all()

    @settings(max_examples=60)
    @given(histories(), DELTAS, st.data())
    def test_relabelling_the_agents_changes_no_bit(self, history, delta, data):
        s, c, y = history
        new = data.draw(st.permutations(range(len(s))))
        moved = [[table[a] for a in new] for table in (s, c, y)]
        for before, after in zip(
            every_method(*history, delta), every_method(*moved, delta), strict=True
        ):
            assert same_bits(before, after)

    @settings(max_examples=60)
    @given(histories(), DELTAS, st.data())
    def test_relabelling_the_arms_relabels_the_intervals(self, history, delta, data):
        s, c, y = history
        new = data.draw(st.permutations(range(len(c[0]))))
        moved = [[[row[n] for n in new] for row in table] for table in (c, y)]
        for before, after in zip(
            every_method(*history, delta), every_method(s, *moved, delta), strict=True
        ):
            assert same_bits([ends[new] for ends in before], after)

    @settings(max_examples=60)
    @given(histories(pulls=st.integers(0, 10**5)), DELTAS, st.data())
    def test_agents_of_equal_sensitivity_count_as_one(self, history, delta, data):
        """What two did together tells as much as if one had done it. (The paper's counts agents.)"""
        s, c, y = history
        hits = [data.draw(st.integers(0, k)) for k in y[0]]
        misses = [data.draw(st.integers(0, k - x)) for k, x in zip(c[0], y[0], strict=True)]
        tried = [x + z for x, z in zip(hits, misses, strict=True)]
        rest = [
            [k - x for k, x in zip(row, part, strict=True)]
            for row, part in ((c[0], tried), (y[0], hits))
        ]
        twins = [*s, s[0]], [tried, *c[1:], rest[0]], [hits, *y[1:], rest[1]]
        for method in ("posterior-ratio", "mixture-width"):
            one = mean_intervals(c, y, s, method=method, delta=delta)
            two = mean_intervals(*twins[1:], twins[0], method=method, delta=delta)
            assert same_bits(one, two)

    @settings(max_examples=30)
    @given(histories(), DELTAS)
    def test_nothing_is_said_of_an_arm_never_pulled(self, history, delta):
        s, c, y = history
        c, y = ([[*row, 0] for row in table] for table in (c, y))
        for made in every_method(s, c, y, delta):
            assert [ends[-1] for ends in made] == [0.5, 0.0, 1.0]

    def test_posterior_ratio_is_the_default_and_delta_a_twentieth(self):
        tables = ([[12, 4]], [[3, 4]], [0.8])
        assert same_bits(
            mean_intervals(*tables), mean_intervals(*tables, method="posterior-ratio", delta=0.05)
        )
        assert same_bits(ranking(*tables), ranking(*tables, delta=0.05))


def followed(stated):
    """All pairs that follow from those stated: whoever can be reached from an arm is below it."""
    N = len(stated)
    above = [[False] * N for _ in range(N)]
    for start in range(N):
        left = [start]
        while left:
            at = left.pop()
            for n in range(N):
                if stated[at][n] and not above[start][n]:
                    above[start][n] = True
                    left.append(n)
    return above


# Counts at which arms are sometimes in doubt and sometimes not.
CLOSE = st.one_of(st.just(0), st.integers(1, 60), st.integers(1, 60), st.integers(1, 10**6))


class TestRanking:
    @settings(max_examples=150)
    @given(histories(4, CLOSE))
    @example(([1.0], [[10**6, 10**6, 0]], [[0, 10**6, 0]]))
    @example(([1.0], [[10**6, 10**6]], [[500_000, 500_100]]))
    @example(([0.3, 0.2], [[50, 50, 9], [0, 50, 9]], [[50, 50, 9], [0, 49, 0]]))
    @example(([0.5, 1.0], [[9, 9], [0, 1]], [[9, 9], [0, 0]]))
    def test_the_evidence_is_that_of_a_search_over_both_means(self, history):
        s, c, y = history
        known = posteriors(s, c, y)
        made = ranking(c, y, s).evidence
        assert np.isneginf(made.diagonal()).all()
        for (i, one), (j, other) in itertools.permutations(enumerate(known), 2):
            _, (mu, nu) = likeliest_in_order(one, other)
            off = 2 * EXACT + rounding(one, one.peak) + rounding(other, other.peak)
            off += (rounding(one, mu) if mu else 0.0) + (rounding(other, nu) if nu else 0.0)
            assert made[i, j] == pytest.approx(evidence(one, other), rel=0, abs=off)

    @settings(max_examples=60)
    @given(histories(4, CLOSE))
    def test_no_evidence_for_an_order_the_outcomes_do_not_have(self, history):
        """If the likeliest means are not in that order, (10) is not positive."""
        s, c, y = history
        known = posteriors(s, c, y)
        made = ranking(c, y, s).evidence
        for (i, one), (j, other) in itertools.permutations(enumerate(known), 2):
            if one.peak <= other.peak:
                off = 2 * EXACT + rounding(one, one.peak) + rounding(other, other.peak)
                assert made[i, j] <= off

    @settings(max_examples=150)
    @given(histories(5, CLOSE), DELTAS)
    def test_what_the_evidence_says_and_what_follows_is_stated(self, history, delta):
        s, c, y = history
        made = ranking(c, y, s, delta=delta)
        N = len(c[0])
        stated = (made.evidence >= threshold(N, delta)).tolist()
        assert made.above.tolist() == followed(stated)
        assert not (made.above & made.above.T).any()

    @settings(max_examples=60)
    @given(histories(5, CLOSE), DELTAS)
    def test_ranks_are_those_of_the_orders_that_are_left(self, history, delta):
        s, c, y = history
        made = ranking(c, y, s, delta=delta)
        N = len(c[0])
        ranks = []
        for order in itertools.permutations(range(N)):
            rank = {n: r for r, n in enumerate(order, start=1)}
            if all(rank[i] < rank[j] for i, j in np.argwhere(made.above).tolist()):
                ranks.append([rank[n] for n in range(N)])
        assert made.best.tolist() == np.min(ranks, axis=0).tolist()
        assert made.worst.tolist() == np.max(ranks, axis=0).tolist()

    @settings(max_examples=60)
    @given(histories(5, CLOSE), DELTAS, st.data())
    def test_relabelling_the_arms_relabels_the_statements(self, history, delta, data):
        s, c, y = history
        new = data.draw(st.permutations(range(len(c[0]))))
        moved = [[[row[n] for n in new] for row in table] for table in (c, y)]
        before, after = ranking(c, y, s, delta=delta), ranking(*moved, s, delta=delta)
        for table, moved_table in zip(before[:2], after[:2], strict=True):
            assert table[np.ix_(new, new)].tobytes() == moved_table.tobytes()
        assert same_bits([ranks[new] for ranks in before[2:]], after[2:])

    @settings(max_examples=60)
    @given(histories(5, CLOSE), DELTAS, st.data())
    def test_relabelling_the_agents_changes_no_bit(self, history, delta, data):
        new = data.draw(st.permutations(range(len(history[0]))))
        s, c, y = ([table[a] for a in new] for table in history)
        before = ranking(history[1], history[2], history[0], delta=delta)
        assert same_bits(before, ranking(c, y, s, delta=delta))

    @settings(max_examples=60)
    @given(histories(5, CLOSE), DELTAS, DELTAS)
    def test_a_larger_delta_states_no_less(self, history, one, other):
        s, c, y = history
        few, many = (ranking(c, y, s, delta=delta) for delta in sorted((one, other)))
        assert not (few.above & ~many.above).any()
        assert (few.best <= many.best).all()
        assert (many.worst <= few.worst).all()

    def test_what_follows_is_stated_though_its_own_evidence_is_not_enough(self):
        """A million pulls of the lowest arm count as a longer search for its mean than 5,000 of the middle one."""
        made = ranking([[22, 5000, 10**6]], [[22, 3000, 540_000]], [1.0], delta=0.06)
        needed = math.log(3 / 0.06)
        assert made.evidence[0, 2] < needed < made.evidence[0, 1] < made.evidence[1, 2]
        assert made.above.tolist() == [[False, True, True], [False, False, True], [False] * 3]
        assert made.best.tolist() == made.worst.tolist() == [1, 2, 3]

    def test_every_pair_is_counted(self):
        """The same two arms are certain among themselves, and not beside ten more that nobody saw."""
        pulls, successes = [20, 20], [17, 5]
        two = ranking([pulls], [successes], [0.9])
        more = ranking([pulls + [0] * 10], [successes + [0] * 10], [0.9])
        assert two.evidence[0, 1] == more.evidence[0, 1]
        assert math.log(1 / 0.05) < two.evidence[0, 1] < math.log(66 / 0.05)
        assert two.above.tolist() == [[False, True], [False, False]]
        assert not more.above.any()
        assert two.best.tolist() == two.worst.tolist() == [1, 2]
        assert more.best.tolist() == [1] * 12
        assert more.worst.tolist() == [12] * 12

    @pytest.mark.parametrize("arms", [1, 2, 3, 4, 12, 1000])
    @pytest.mark.parametrize("delta", [0.05, 1e-6])
    def test_the_evidence_needed_counts_unordered_pairs(self, arms, delta):
        """delta is shared out among N (N - 1) / 2 pairs: of both orders of a pair at most one can be wrong."""
        pairs = len(list(itertools.combinations(range(arms), 2)))
        wanted = math.log(max(1, pairs) / delta)
        assert order_threshold(arms, delta) == pytest.approx(wanted, rel=1e-14)

    SIX = ([[20, 20, 0, 0, 0, 0]], [[15, 3, 0, 0, 0, 0]])

    def test_evidence_enough_for_as_many_arms_but_not_for_their_pairs(self):
        """Six arms have fifteen pairs: ln(6 / delta) would not do."""
        made = ranking(*self.SIX, [0.9])
        delta = math.exp(
            -made.evidence[0, 1]
        )  # what this evidence is enough for, if there is one pair
        assert not ranking(*self.SIX, [0.9], delta=10 * delta).above.any()
        assert ranking(*self.SIX, [0.9], delta=16 * delta).above[0, 1]

    def test_one_arm_is_first_and_last(self):
        made = ranking([[5], [3]], [[2], [0]], [0.9, 0.4])
        assert made.above.tolist() == [[False]]
        assert made.evidence.tolist() == [[-math.inf]]
        assert made.best.tolist() == made.worst.tolist() == [1]

    @settings(max_examples=30)
    @given(histories(4, CLOSE), DELTAS)
    def test_nothing_is_said_of_an_arm_never_pulled(self, history, delta):
        s, c, y = history
        c, y = ([[*row, 0] for row in table] for table in (c, y))
        made = ranking(c, y, s, delta=delta)
        assert not made.above[-1].any()
        assert not made.above[:, -1].any()
        assert (made.best[-1], made.worst[-1]) == (1, len(c[0]))

    def test_nothing_is_said_before_the_first_pull(self):
        made = ranking([[0, 0, 0]], [[0, 0, 0]], [0.5], delta=0.999)
        assert not made.above.any()
        assert made.evidence[~np.eye(3, dtype=bool)] == pytest.approx([0.0] * 6, abs=EXACT)

    def test_agents_of_other_sensitivity_are_not_compared_by_their_successes(self):
        """The second arm has fewer successes of as many pulls, by an agent that misses four of five."""
        made = ranking([[2000, 0], [0, 2000]], [[1000, 0], [0, 380]], [1.0, 0.2])
        assert made.above.tolist() == [[False, False], [True, False]]


class TestPlanner:
    @settings(max_examples=40)
    @given(histories(pulls=CLOSE), st.sampled_from([0.05, 0.3]))
    def test_says_what_its_tables_say(self, history, delta):
        s, c, y = history
        s, c, y = (table[: len(c[0])] for table in history)  # no more agents than arms
        entry = policy("posterior-sorted", delta=delta)
        planner = with_tables(Planner(s, len(c[0]), entry), c, y, 50)
        assert same_bits(planner.ranking(), ranking(c, y, s, delta=delta))
        assert same_bits(planner.intervals(), mean_intervals(c, y, s, delta=delta))
        for method in ("posterior-ratio", "mixture-width"):
            wanted = mean_intervals(c, y, s, method=method, delta=delta)
            assert same_bits(planner.intervals(method), wanted)
        elapsed = max(50, *(sum(reference.column(c, n)) for n in range(len(c[0]))))
        wanted = mean_intervals(c, y, s, method="min-width", horizon=elapsed, delta=delta)
        assert same_bits(planner.intervals("min-width"), wanted)

    def test_the_papers_hold_up_to_the_policys_horizon(self):
        tables = ([[900, 400]], [[300, 200]])
        planner = with_tables(Planner([0.8], 2, policy("min-width", horizon=7000)), *tables, 50)
        wanted = mean_intervals(*tables, [0.8], method="min-width", horizon=7000)
        assert same_bits(planner.intervals("min-width"), wanted)
        now = mean_intervals(*tables, [0.8], method="min-width", horizon=900)
        assert (wanted.upper > now.upper).all()

    @pytest.mark.parametrize("method", ["min-widht", "kl-ucb", "", None, 3, ["min-width"]])
    def test_an_unknown_method_is_refused(self, method):
        with pytest.raises(InvalidInput, match=r"^method is .*'mixture-width'"):
            Planner([0.8], 2).intervals(method)

    @pytest.mark.parametrize(
        ("pulls", "successes", "texts"),
        [
            ([40, 40, 40], [30, 4, 6], ["certainly rank 1", "rank 2 to 3", "rank 2 to 3"]),
            ([4000, 4000, 4000], [30, 2000, 900], [f"certainly rank {r}" for r in (3, 1, 2)]),
            ([1, 2, 3], [1, 0, 2], ["rank 1 to 3"] * 3),
            ([300, 9, 300], [30, 4, 290], ["rank 2 to 3", "rank 1 to 3", "rank 1 to 2"]),
        ],
    )
    def test_an_explanation_says_the_ranks_and_the_interval(self, pulls, successes, texts):
        names = ["north", "south", "east"]
        tables = [pulls, [0] * 3], [successes, [0] * 3]
        planner = with_tables(Planner([0.9, 0.6], names), *tables, 50)
        for n, name in enumerate(names):
            plan = planner.ask(forced=[(0, name)])
            first = planner.explain(plan)[0]
            assert first.arm == name
            known = reference.posterior_of([0.9], pulls[n : n + 1], successes[n : n + 1])
            low, high = known.interval(math.log(3 / 0.05))
            times = "1 pull" if pulls[n] == 1 else f"{pulls[n]} pulls"
            ends = f"[{math.floor(1000 * low) / 1000:.3f}, {math.ceil(1000 * high) / 1000:.3f}]"
            said = f"estimated {known.mean:.3f} in {ends} from {times}, {pulls[n]} its own, {texts[n]}; "
            assert said in str(first)
            ranks = [int(word) for word in texts[n].split() if word.isdigit()]
            assert (first.best_rank, first.worst_rank) == (ranks[0], ranks[-1])

    def test_an_explanation_gives_no_rank_to_an_arm_never_pulled(self):
        planner = with_tables(Planner([0.9], 2), [[30, 0]], [[9, 0]], 50)
        (first,) = planner.explain(planner.ask(forced=[(0, 1)]))
        assert (first.best_rank, first.worst_rank) == (1, 2)
        assert "no pulls yet" in str(first)
        assert "rank" not in str(first)


GOOD = {"pulls": [[12, 5], [3, 0]], "successes": [[3, 5], [1, 0]], "sensitivities": [0.8, 0.5]}
BAD = {
    "pulls": [
        None, 12, "many", b"12", {"a": 1}, [], [12, 5], [[12, 5]], [[12, 5], [3, 0], [1, 1]], [[12, 5], [3]],
        [[[12, 5], [3, 0]]], [[12, -5], [3, 0]], [[12, 5.5], [3, 0]], [[12, math.nan], [3, 0]],
        [[12, math.inf], [3, 0]], [[12, None], [3, 0]], [[12, "five"], [3, 0]], [[12, 5j], [3, 0]],
        [[12, object()], [3, 0]], [[2**31, 5], [3, 0]], [[10**400, 5], [3, 0]], [[], []], [["12", "5"], ["3", "0"]],
        np.array([[12, 5], [3, 0]]) + 1j,
    ],
    "successes": [
        None, "some", [[3, 5]], [[3], [1]], [[3, 5, 0], [1, 0, 0]], [[13, 5], [1, 0]], [[3, 5], [1, 1]],
        [[3, -1], [1, 0]], [[3, 0.5], [1, 0]], [[3, math.nan], [1, 0]], [["3", "5"], ["1", "0"]],
    ],
    "sensitivities": [
        None, 0.8, "0.8", [], [0.8, 0.0], [0.8, 1.2], [0.8, -0.5], [0.8, math.nan], [0.8, math.inf], [0.8, None],
        [0.8, "0.5"], [0.8, 10**400], [[0.8], [0.5]],
    ],
    "delta": [0, 1, 2, -0.05, math.nan, None, True, "0.05", [0.05]],
}  # fmt: skip
CALLS = {
    "posterior-ratio": mean_intervals,
    "mixture-width": partial(mean_intervals, method="mixture-width"),
    "min-width": partial(mean_intervals, method="min-width", horizon=100),
    "ranking": ranking,
}
CELL = st.one_of(
    st.integers(), st.floats(), st.none(), st.booleans(), st.complex_numbers(), st.text(max_size=3)
)
JUNK = st.one_of(
    CELL,
    st.binary(max_size=3),
    st.lists(CELL, max_size=3),
    st.lists(st.lists(CELL, min_size=1, max_size=3), max_size=3),
    st.dictionaries(CELL.filter(lambda key: key == key), CELL, max_size=2),
)


class TestBadInput:
    @pytest.mark.parametrize("call", CALLS)
    def test_what_is_spoilt_below_is_good(self, call):
        CALLS[call](**GOOD)

    @pytest.mark.parametrize("call", CALLS)
    @pytest.mark.parametrize(
        ("name", "value"), [(name, v) for name, values in BAD.items() for v in values]
    )
    def test_is_refused_by_name(self, call, name, value):
        with pytest.raises(InvalidInput, match=rf"^{name}\b"):
            CALLS[call](**GOOD | {name: value})

    @pytest.mark.parametrize(
        "tables",
        [
            ([[5], [5]], [[1], [1]], [0.5]),  # an agent without a sensitivity
            ([[5]], [[1]], [0.5, 0.6]),  # and one without a row
        ],
    )
    def test_tables_of_other_agents_are_refused(self, tables):
        for call in (mean_intervals, ranking):
            with pytest.raises(InvalidInput, match=r"^pulls has the shape .* agents by some arms"):
                call(*tables)

    @pytest.mark.parametrize("method", ["min-widht", "no-sharing", "", None, 3, ["min-width"]])
    def test_an_unknown_method_is_refused(self, method):
        with pytest.raises(InvalidInput, match=r"^method is "):
            mean_intervals(**GOOD, method=method)

    def test_the_papers_intervals_need_a_horizon(self):
        with pytest.raises(InvalidInput, match=r"^min-width.* need a horizon"):
            mean_intervals(**GOOD, method="min-width")

    @pytest.mark.parametrize("method", ["posterior-ratio", "mixture-width"])
    @pytest.mark.parametrize("horizon", [100, 0, "100", math.nan])
    def test_the_others_take_none(self, method, horizon):
        with pytest.raises(InvalidInput, match=rf"^horizon is .*{method}"):
            mean_intervals(**GOOD, method=method, horizon=horizon)

    @pytest.mark.parametrize("horizon", [0, -1, 2.5, math.nan, "100", True, [100], 2**53 + 1])
    def test_a_horizon_is_a_number_of_rounds(self, horizon):
        with pytest.raises(InvalidInput, match=r"^horizon is "):
            mean_intervals(**GOOD, method="min-width", horizon=horizon)

    @settings(max_examples=300)
    @given(st.sampled_from(list(CALLS)), st.sampled_from([*GOOD, "delta"]), JUNK)
    def test_nothing_but_invalid_input_escapes(self, call, name, junk):
        said = name
        try:
            CALLS[call](**GOOD | {name: junk})
        except InvalidInput as error:
            said = str(error)
        # two that do not go together are laid to the other one
        assert said.startswith((*GOOD, "delta"))
        assert "\n" not in said

    @pytest.mark.parametrize(
        ("tables", "delta"),
        [
            (([[5, 12]], [[5, 3]], [1e-50]), 0.05),
            (([[1, 3]], [[1, 3]], [1.0]), 1e-40),
            (([[5, 12]], [[5, 3]], [0.5]), 1e-200),
        ],
    )
    def test_the_smallest_numbers_are_taken(self, tables, delta):
        """A sensitivity or a delta of almost nothing."""
        pulls, successes, s = tables
        made = mean_intervals(*tables, delta=delta)
        for known, lower in zip(posteriors(s, pulls, successes), made.lower, strict=True):
            low, _ = known.interval(math.log(2) - math.log(delta))
            assert lower == pytest.approx(low, rel=1e-6, abs=0)

    @pytest.mark.parametrize("method", ["posterior-ratio", "mixture-width"])
    def test_more_pulls_by_equal_agents_than_fit_in_a_cell(self, method):
        most = 2**31 - 1
        with pytest.raises(InvalidInput, match="more than can be counted"):
            mean_intervals([[most]] * 2, [[most // 2]] * 2, [0.9] * 2, method=method)
