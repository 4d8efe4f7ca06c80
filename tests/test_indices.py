"""Every rule of the core against the plain transcription of its equation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from heterobandits.core import indices

DELTAS = st.floats(1e-6, 0.999)
SENSITIVITIES = st.one_of(
    st.floats(0.01, 1.0), st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8, 0.95, 1.0])
)
TOLERANCE = 1e-12
DRAW = 1234567890
LIKELIHOOD = indices.RULES[indices.KL_UCB :]


@st.composite
def tables(draw, most_agents=5, equal=False):
    """Sensitivities in picking order and tables c[A, N, B], y[A, N, B] with many empty cells."""
    A = draw(st.integers(1, most_agents))
    N = draw(st.integers(A, A + 3))
    B = draw(st.integers(1, 3))
    if equal:
        s = [draw(SENSITIVITIES)] * A
    else:
        s = sorted(draw(st.lists(SENSITIVITIES, min_size=A, max_size=A)), reverse=True)
    pulls = st.one_of(st.just(0), st.integers(1, 5), st.integers(1, 10**6))
    c = np.array([draw(pulls) for _ in range(A * N * B)], np.int32).reshape(A, N, B)
    share = st.floats(0, 1)
    y = np.array([int(k * draw(share)) for k in c.ravel()], np.int32).reshape(A, N, B)
    return np.array(s), c, y


def library_rows(rule, s, c, y, L, mu=None):
    A, N, B = c.shape
    rows = A if rule == indices.NO_SHARING else 1 + indices.RULES[rule].endswith("-sorted")
    out = np.full((rows, N, B), np.nan)
    draws = np.full((2 * N, B), DRAW, np.uint32)
    known = np.zeros((N, B), np.bool_)
    indices.fill_indices(rule, s, np.zeros(N) if mu is None else mu, c, y, L, draws, known, out)
    return out


def log_term(rule, t, s, N, delta):
    A, K = len(s), len(set(s.tolist()))
    return indices.log_term(rule, float(t), A, K, N, float(math.perm(N, A)), delta)


LEARNERS = [
    "min-width",
    "min-width-grouped",
    "mixture-width",
    "min-ucb",
    "no-sharing",
    "cucb",
    "greedy",
]


@pytest.mark.parametrize("policy", LEARNERS)
@settings(max_examples=60)
@given(table=tables(), t=st.integers(1, 300), delta=DELTAS)
def test_the_rule_is_the_papers(policy, table, t, delta):
    s, c, y = table
    N, B = c.shape[1:]
    rule = indices.RULES.index(policy)
    got = library_rows(rule, s, c, y, log_term(rule, t, s, N, delta))
    for lane in range(B):
        c_lane, y_lane = c[..., lane].tolist(), y[..., lane].tolist()
        wanted = reference.index_rows(policy, s.tolist(), c_lane, y_lane, t, delta)
        np.testing.assert_allclose(got[..., lane], wanted, rtol=TOLERANCE, atol=0)
        np.testing.assert_array_equal(np.isinf(got[..., lane]), np.isinf(wanted))


@settings(max_examples=60)
@given(
    pulls=st.lists(st.integers(0, 10**6), min_size=1, max_size=24),
    agents=st.integers(1, 4),
    t=st.integers(1, 10**6),
    delta=DELTAS,
    data=st.data(),
)
def test_the_rule_of_ucb_is_the_papers(pulls, agents, t, delta, data):
    hits = [data.draw(st.integers(0, agents * C)) for C in pulls]
    N = agents + 2
    F = math.perm(N, agents)
    out = np.full((len(pulls), 1), np.nan)
    L = indices.log_term(indices.UCB, float(t), agents, 1, N, float(F), delta)
    indices.fill_assignment_indices(
        np.array(pulls, np.int32)[:, None], np.array(hits, np.int32)[:, None], L, out
    )
    wanted = [reference.ucb_plain(C, Y, F, t, delta) for C, Y in zip(pulls, hits, strict=True)]
    np.testing.assert_allclose(out[:, 0], wanted, rtol=TOLERANCE, atol=0)


@given(table=tables())
def test_random_ties_all_arms_and_the_oracle_ranks_by_the_means(table):
    s, c, y = table
    mu = np.linspace(0.9, 0.1, c.shape[1])
    assert (library_rows(indices.RANDOM, s, c, y, 1.0) == 0).all()
    assert (library_rows(indices.ORACLE, s, c, y, 1.0, mu) == mu[None, :, None]).all()


@pytest.mark.parametrize("policy", [*LEARNERS, *LIKELIHOOD[:3]])
def test_an_arm_never_pulled_has_an_infinite_index(policy):
    s = np.array([0.9, 0.5])
    c = np.array([[3, 0, 0], [2, 1, 0]], np.int32)[..., None]
    y = np.array([[1, 0, 0], [2, 1, 0]], np.int32)[..., None]
    rows = library_rows(indices.RULES.index(policy), s, c, y, 2.0)[..., 0]
    assert np.isposinf(rows[:, 2]).all()
    if policy == "no-sharing":
        assert np.isposinf(rows[0, 1])
        assert np.isfinite(rows[1, 1])
    else:
        assert np.isfinite(rows[:, :2]).all()


@settings(max_examples=60)
@given(table=tables(), t=st.integers(1, 100), delta=DELTAS)
def test_estimates_and_widths_are_the_papers(table, t, delta):
    s, c, y = table
    A, N, B = c.shape
    widths = {
        indices.MIN_WIDTH: lambda c_n: reference.epsilon_shared(s.tolist(), c_n, N, t, delta),
        indices.MIN_WIDTH_GROUPED: lambda c_n: reference.epsilon_grouped(
            s.tolist(), c_n, N, t, delta
        ),
        indices.MIXTURE_WIDTH: lambda c_n: reference.epsilon_mixture(s.tolist(), c_n, N, delta),
    }
    for rule in (*widths, indices.NO_SHARING):
        rows = A if rule == indices.NO_SHARING else 1
        estimate, width = np.full((2, rows, N, B), np.nan)
        indices.fill_intervals(rule, s, c, y, log_term(rule, t, s, N, delta), estimate, width)
        for n in range(N):
            for lane in range(B):
                c_n, y_n = c[:, n, lane].tolist(), y[:, n, lane].tolist()
                if rule in widths:
                    middle = [reference.muhat_shared(s.tolist(), c_n, y_n)]
                    half = [widths[rule](c_n)]
                else:
                    middle = [reference.muhat_own(*cell) for cell in zip(s, c_n, y_n, strict=True)]
                    half = [
                        reference.epsilon_own(*cell, A, N, t, delta)
                        for cell in zip(s, c_n, strict=True)
                    ]
                np.testing.assert_allclose(estimate[:, n, lane], middle, rtol=TOLERANCE, atol=0)
                np.testing.assert_allclose(width[:, n, lane], half, rtol=TOLERANCE, atol=0)


@settings(max_examples=50)
@given(T=st.integers(1, 400), A=st.integers(1, 12))
def test_G_is_the_sum_of_binomials(T, A):
    exact = reference.G(T, A)
    assert exact == math.comb(T + A, A) - 1
    assert indices.ln_G(float(T), A) == pytest.approx(math.log(exact), rel=1e-13)


@pytest.mark.parametrize("A", [1, 2, 3, 5, 17, 100, 1000])
@pytest.mark.parametrize("T", [1, 2, 3, 10, 300, 5000, 10**6, 10**9])
def test_ln_G_for_large_sizes(T, A):
    """Python takes the logarithm of a whole number of any size."""
    exact = math.log(math.comb(T + A, A) - 1)
    assert indices.ln_G(float(T), A) == pytest.approx(exact, rel=1e-13)


@given(T=st.integers(1, 10**12))
def test_one_agent_gives_ln_t(T):
    assert indices.ln_G(float(T), 1) == math.log(T)


@pytest.mark.parametrize(
    "policy",
    [
        *reference.PAPER,
        "min-width-grouped",
        "mixture-width",
        "posterior-ratio",
        "posterior-ratio-decay",
        "posterior-sorted",
    ],
)
@given(t=st.integers(1, 200), A=st.integers(2, 4), extra=st.integers(0, 3), delta=DELTAS)
def test_log_terms_are_tabled_by_round(policy, t, A, extra, delta):
    N = A + extra
    F = math.perm(N, A)
    counts = {
        "min-width": lambda t: 2 * N * reference.G(t, A),
        "min-ucb": lambda t: 2 * A * N * t,
        "no-sharing": lambda t: 2 * A * N * t,
        "cucb": lambda t: 2 * N * t,
        "ucb": lambda t: 2 * F * t,
        "min-width-grouped": lambda t: 2 * N * reference.G(t, A - 1),
        "mixture-width": lambda t: N,
        "posterior-ratio": lambda t: N,
        "posterior-ratio-decay": lambda t: N * t,
        "posterior-sorted": lambda t: N,
    }
    out = np.empty(3)
    rule = indices.RULES.index(policy)
    indices.fill_log_terms(rule, t - 1, A, A - 1, N, float(F), delta, out)
    wanted = [reference.log_of(counts[policy](max(1, t - 1 + i)), delta) for i in range(3)]
    np.testing.assert_allclose(out, wanted, rtol=TOLERANCE, atol=0)


@settings(max_examples=60)
@given(table=tables(equal=True), t=st.integers(1, 10**6), delta=DELTAS)
def test_equal_agents_make_min_width_cucb_divided_by_s(table, t, delta):
    """With G counted by group, G(t, 1) = t, the two indices differ by the factor s alone, to 1e-12."""
    s, c, y = table
    N = c.shape[1]
    grouped, pooled = indices.MIN_WIDTH_GROUPED, indices.CUCB
    shared = library_rows(grouped, s, c, y, log_term(grouped, t, s, N, delta))
    plain = library_rows(pooled, s, c, y, log_term(pooled, t, s, N, delta))
    np.testing.assert_allclose(shared, plain / s[0], rtol=TOLERANCE, atol=0)


@settings(max_examples=60)
@given(table=tables(), data=st.data())
def test_swapping_counts_among_equal_agents_changes_no_bit(table, data):
    """An arm's index depends on what agents of a kind did together, not on which of them did it."""
    s, c, y = table
    # Tables as before, but each agent has a twin, and what the two did is split at random.
    twins = np.repeat(s, 2)
    splits = []
    for _ in range(2):
        share_c = np.array([data.draw(st.integers(0, int(k))) for k in c.ravel()]).reshape(c.shape)
        share_y = np.array([data.draw(st.integers(0, int(k))) for k in y.ravel()]).reshape(c.shape)
        pair = [
            np.stack([part, whole - part], axis=1) for part, whole in ((share_c, c), (share_y, y))
        ]
        shape = (2 * len(s), *c.shape[1:])
        splits.append([np.ascontiguousarray(table.reshape(shape), np.int32) for table in pair])
    for rule in (
        indices.MIN_WIDTH,
        indices.MIXTURE_WIDTH,
        indices.KL_UCB,
        indices.POSTERIOR_SORTED,
        indices.THOMPSON,
        indices.THOMPSON_SORTED,
        indices.GREEDY,
        indices.CUCB,
    ):
        rows = [library_rows(rule, twins, *split, 3.7) for split in splits]
        assert rows[0].tobytes() == rows[1].tobytes()
        assert rows[0].tobytes() == library_rows(rule, s, c, y, 3.7).tobytes()


@pytest.mark.parametrize("policy", [*LEARNERS, *LIKELIHOOD])
@settings(max_examples=30)
@given(table=tables(), data=st.data())
def test_relabelling_the_arms_relabels_the_indices(policy, table, data):
    s, c, y = table
    new = data.draw(st.permutations(range(c.shape[1])))
    rule = indices.RULES.index(policy)
    moved = library_rows(rule, s, c[:, new].copy(), y[:, new].copy(), 3.7)
    assert moved.tobytes() == library_rows(rule, s, c, y, 3.7)[:, new].tobytes()


@settings(max_examples=200)
@given(table=tables(), t=st.one_of(st.integers(2, 300), st.integers(2, 10**6)))
def test_kl_ucb_is_the_references(table, t):
    """To 1e-9, the precision the likelihood itself has beside a million pulls."""
    s, c, y = table
    N, B = c.shape[1:]
    got = library_rows(indices.KL_UCB, s, c, y, log_term(indices.KL_UCB, t, s, N, 0.05))
    for lane in range(B):
        c_lane, y_lane = c[..., lane].tolist(), y[..., lane].tolist()
        wanted = reference.index_rows("kl-ucb", s.tolist(), c_lane, y_lane, t, 0.05)
        np.testing.assert_allclose(got[..., lane], wanted, rtol=1e-9, atol=0)


def test_kl_ucb_in_every_small_table():
    """All outcomes of up to five pulls by each of two agents, against a grid of means."""
    s = np.array([0.6, 0.4])
    grid = np.linspace(1e-9, 1 / 0.6 - 1e-9, 100_001)
    for c in itertools.product(range(6), repeat=2):
        for y in itertools.product(*(range(pulls + 1) for pulls in c)):
            if not sum(c):
                continue
            with np.errstate(divide="ignore"):
                likelihood = sum(y) * np.log(grid) + sum(
                    (c[a] - y[a]) * np.log1p(-s[a] * grid) for a in range(2)
                )
            tables_ = (np.array(v, np.int32).reshape(2, 1, 1) for v in (c, y))
            (got,) = library_rows(indices.KL_UCB, s, *tables_, 1.5).ravel()
            wanted = grid[likelihood >= likelihood.max() - 1.5].max()
            assert got == pytest.approx(wanted, abs=3e-5)


def test_the_vectorised_logarithm_is_the_logarithm():
    """To two units in the last place, relative to what it adds up from k ln 2 and ln m."""
    fill = indices.compiled(_fill_logarithms)
    near_one = np.logspace(-15, -0.5, 4000)
    x = np.concatenate([1 + near_one, 1 - near_one, np.logspace(-300, 300, 40000), [0.5, 1.0, 2.0]])
    out = np.empty_like(x)
    fill(x, out)
    exact = np.log(x)
    assert (np.abs(out - exact) <= 2 * np.spacing(np.maximum(np.abs(exact), 2e-16))).all()


def _fill_logarithms(x, out):
    for i in range(len(x)):
        out[i] = indices.ln(x[i])
