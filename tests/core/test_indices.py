"""Every rule of the core against the plain transcription of its equation."""

import ast
import inspect
import itertools
import math
import re
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config, float64, int32, njit
from numba.core.errors import TypingError

import reference
from heterobandits.core import (
    assignment,
    calibrated,
    elementary,
    indices,
    likelihood,
    posterior,
    randomness,
    rounds,
)
from heterobandits.core.compiled import compiled
from heterobandits.core.seen import see
from heterobandits.core.work import STRIP, desk
from heterobandits.model.team import Team
from heterobandits.policies.policy import policy

DELTAS = st.floats(1e-6, 0.999)
SENSITIVITIES = st.one_of(
    st.floats(0.01, 1.0), st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8, 0.95, 1.0])
)
TOLERANCE = 1e-12
DRAW = 1234567890
# The policies that rank by the exact likelihood; for the first three the index is all they have.
LIKELIHOOD = [
    "kl-ucb",
    "posterior-ratio",
    "posterior-ratio-decay",
    "posterior-sorted",
    "thompson",
    "thompson-sorted",
]


@st.composite
def tables(draw, most_agents=5, equal=False):
    """Sensitivities in any order, often some equal, and tables c[A, N, B], y[A, N, B] with many empty cells."""
    A = draw(st.integers(1, most_agents))
    N = draw(st.integers(A, A + 3))
    B = draw(st.integers(1, 3))
    if equal:
        s = [draw(SENSITIVITIES)] * A
    else:
        s = draw(st.lists(SENSITIVITIES, min_size=A, max_size=A))
        if draw(st.booleans()):
            s = [draw(st.sampled_from(s)) for _ in s]
    pulls = st.one_of(st.just(0), st.integers(1, 5), st.integers(1, 10**6))
    c = np.array([draw(pulls) for _ in range(A * N * B)], np.int32).reshape(A, N, B)
    share = st.floats(0, 1)
    y = np.array([int(k * draw(share)) for k in c.ravel()], np.int32).reshape(A, N, B)
    return np.array(s), c, y


def library_rows(name, s, c, y, L, mu=None):
    """The index rows [row, arm, lane] of a policy of the catalogue, with this log term."""
    A, N, B = c.shape
    entry = policy(name)
    out = np.full((entry.rows(A), N, B), np.nan)
    keys = np.full((2 * N, B), DRAW, np.uint32)
    known = see(Team(s).arrays, c, y, means=mu, log_term=L, keys=keys)
    entry.rule.fill(known, desk(A, B), out)
    return out


def rows_after(name, s, c, y, t, delta):
    """The same after t rounds, as planner and simulator have them."""

    def words(first, count):
        return np.full((count, c.shape[2]), DRAW, np.uint32)

    return policy(name, delta=delta).index_rows(Team(s), c, y, t, words)


LEARNERS = [
    "min-width",
    "min-width-grouped",
    "mixture-width",
    "min-ucb",
    "no-sharing",
    "cucb",
    "pbm-ucb",
    "greedy",
]


@pytest.mark.parametrize("name", LEARNERS)
@settings(max_examples=60)
@given(table=tables(), t=st.integers(1, 300), delta=DELTAS)
def test_the_rule_is_the_papers(name, table, t, delta):
    s, c, y = table
    got = rows_after(name, s, c, y, t, delta)
    for lane in range(c.shape[2]):
        c_lane, y_lane = c[..., lane].tolist(), y[..., lane].tolist()
        wanted = reference.index_rows(name, s.tolist(), c_lane, y_lane, t, delta)
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
    rule = policy("ucb").rule
    (L,) = rule.log_terms(np.array([float(t)]), indices.Size(agents, 1, N), delta)
    # one agent, the team, and an arm for each assignment
    c, y = (np.array(counts, np.int32)[None, :, None] for counts in (pulls, hits))
    out = np.full((1, len(pulls), 1), np.nan)
    rule.fill(see(Team([1.0]).arrays, c, y, log_term=L), desk(1, 1), out)
    wanted = [reference.ucb_plain(C, Y, F, t, delta) for C, Y in zip(pulls, hits, strict=True)]
    np.testing.assert_allclose(out[0, :, 0], wanted, rtol=TOLERANCE, atol=0)


@given(table=tables())
def test_random_ties_all_arms_and_the_oracle_ranks_by_the_means(table):
    s, c, y = table
    mu = np.linspace(0.9, 0.1, c.shape[1])
    assert (library_rows("random", s, c, y, 1.0) == 0).all()
    assert (library_rows("oracle", s, c, y, 1.0, mu) == mu[None, :, None]).all()


@pytest.mark.parametrize("name", [*LEARNERS, *LIKELIHOOD[:3]])
def test_an_arm_never_pulled_has_an_infinite_index(name):
    s = np.array([0.9, 0.5])
    c = np.array([[3, 0, 0], [2, 1, 0]], np.int32)[..., None]
    y = np.array([[1, 0, 0], [2, 1, 0]], np.int32)[..., None]
    rows = library_rows(name, s, c, y, 2.0)[..., 0]
    assert np.isposinf(rows[:, 2]).all()
    if name == "no-sharing":
        assert np.isposinf(rows[0, 1])
        assert np.isfinite(rows[1, 1])
    else:
        assert np.isfinite(rows[:, :2]).all()


@settings(max_examples=60)
@given(table=tables(), t=st.integers(1, 100), delta=DELTAS)
def test_estimates_and_widths_are_the_papers(table, t, delta):
    s, c, y = table
    A, N, B = c.shape
    # an arm may have been pulled more often than planned, in one trial or another
    most = np.maximum(t, c.sum(axis=0).max(axis=0)).tolist()
    widths = {
        "min-width": lambda c_n, T: reference.epsilon_shared(s.tolist(), c_n, N, T, delta),
        "min-width-grouped": lambda c_n, T: reference.epsilon_grouped(s.tolist(), c_n, N, T, delta),
        "mixture-width": lambda c_n, T: reference.epsilon_mixture(s.tolist(), c_n, N, delta),
    }
    for name in (*widths, "no-sharing", "min-ucb"):
        estimate, width = policy(name, delta=delta, horizon=t).band(Team(s), c, y)
        assert estimate.shape == width.shape == (1 if name in widths else A, N, B)
        middle, half = np.empty((2, *estimate.shape))
        for n in range(N):
            for lane in range(B):
                c_n, y_n = c[:, n, lane].tolist(), y[:, n, lane].tolist()
                if name in widths:
                    middle[:, n, lane] = reference.muhat_shared(s.tolist(), c_n, y_n)
                    half[:, n, lane] = widths[name](c_n, most[lane])
                else:
                    middle[:, n, lane] = [
                        reference.muhat_own(*cell) for cell in zip(s, c_n, y_n, strict=True)
                    ]
                    half[:, n, lane] = [
                        reference.epsilon_own(*cell, A, N, most[lane], delta)
                        for cell in zip(s, c_n, strict=True)
                    ]
        np.testing.assert_allclose(estimate, middle, rtol=TOLERANCE, atol=0)
        np.testing.assert_allclose(width, half, rtol=TOLERANCE, atol=0)


@settings(max_examples=50)
@given(T=st.integers(1, 400), A=st.integers(1, 12))
def test_G_is_the_sum_of_binomials(T, A):
    exact = reference.G(T, A)
    assert exact == math.comb(T + A, A) - 1
    assert indices.ln_G(np.array([float(T)]), A)[0] == pytest.approx(math.log(exact), rel=1e-13)


@pytest.mark.parametrize("A", [1, 2, 3, 5, 17, 100, 1000])
@pytest.mark.parametrize("T", [1, 2, 3, 10, 300, 5000, 10**6, 10**9])
def test_ln_G_for_large_sizes(T, A):
    """Python takes the logarithm of a whole number of any size."""
    exact = math.log(math.comb(T + A, A) - 1)
    assert indices.ln_G(np.array([float(T)]), A)[0] == pytest.approx(exact, rel=1e-13)


@given(T=st.integers(1, 10**12))
def test_one_agent_gives_ln_t(T):
    assert indices.ln_G(np.array([float(T)]), 1)[0] == math.log(T)


@pytest.mark.parametrize(
    "name",
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
def test_log_terms_are_tabled_by_round(name, t, A, extra, delta):
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
    team = Team([0.3, *np.linspace(0.3, 0.9, A - 1)])  # A - 1 kinds
    out = policy(name, delta=delta).log_terms(team, N, t - 1, 3)
    wanted = [reference.log_of(counts[name](max(1, t - 1 + i)), delta) for i in range(3)]
    np.testing.assert_allclose(out, wanted, rtol=TOLERANCE, atol=0)


@settings(max_examples=60)
@given(table=tables(equal=True), t=st.integers(1, 10**6), delta=DELTAS)
def test_equal_agents_make_min_width_cucb_divided_by_s(table, t, delta):
    """With G counted by group, G(t, 1) = t, the two indices differ by the factor s alone, to 1e-12."""
    s, c, y = table
    shared = rows_after("min-width-grouped", s, c, y, t, delta)
    plain = rows_after("cucb", s, c, y, t, delta)
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
    for name in ("min-width", "mixture-width", *LIKELIHOOD, "greedy", "cucb", "pbm-ucb"):
        rows = [library_rows(name, twins, *split, 3.7) for split in splits]
        assert rows[0].tobytes() == rows[1].tobytes()
        assert rows[0].tobytes() == library_rows(name, s, c, y, 3.7).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LEARNERS, *LIKELIHOOD])
@settings(max_examples=30)
@given(table=tables(), data=st.data())
def test_relabelling_the_arms_relabels_the_indices(name, table, data):
    s, c, y = table
    new = data.draw(st.permutations(range(c.shape[1])))
    moved = library_rows(name, s, c[:, new].copy(), y[:, new].copy(), 3.7)
    assert moved.tobytes() == library_rows(name, s, c, y, 3.7)[:, new].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LEARNERS, *LIKELIHOOD])
@settings(max_examples=30)
@given(table=tables(), data=st.data())
def test_relabelling_the_agents_relabels_the_rows_of_each_and_changes_no_other(name, table, data):
    """Agents are as listed everywhere, and nothing but the rows of their own depends on how they are."""
    s, c, y = table
    new = data.draw(st.permutations(range(len(s))))
    moved = library_rows(name, s[new], c[new].copy(), y[new].copy(), 3.7)
    before = library_rows(name, s, c, y, 3.7)
    assert moved.tobytes() == (before[new] if name == "no-sharing" else before).tobytes()


@pytest.mark.parametrize("name", [*LEARNERS, *LIKELIHOOD])
@pytest.mark.parametrize("lanes", [STRIP - 1, STRIP, STRIP + 1])
def test_a_long_row_is_that_of_its_cells_one_by_one(name, lanes):
    """Rows longer than a strip are worked on in parts, one of which may hold a single cell."""
    rng = np.random.default_rng(lanes)
    s = np.array([0.5, 0.9, 0.5])
    c = rng.integers(0, 4, (3, 1, lanes)).astype(np.int32)
    y = rng.binomial(c, 0.4).astype(np.int32)
    together = library_rows(name, s, c, y, 3.7)
    assert not np.isnan(together).any()
    for lane in (0, 1, lanes // 2, lanes - 2, lanes - 1):
        cut = (np.ascontiguousarray(table[..., [lane]]) for table in (c, y))
        assert library_rows(name, s, *cut, 3.7).tobytes() == together[..., [lane]].tobytes()


@pytest.mark.slow
@settings(max_examples=200)
@given(table=tables(), t=st.one_of(st.integers(2, 300), st.integers(2, 10**6)))
def test_kl_ucb_is_the_references(table, t):
    """To 1e-9, the precision the likelihood itself has beside a million pulls."""
    s, c, y = table
    got = rows_after("kl-ucb", s, c, y, t, 0.05)
    for lane in range(c.shape[2]):
        c_lane, y_lane = c[..., lane].tolist(), y[..., lane].tolist()
        wanted = reference.index_rows("kl-ucb", s.tolist(), c_lane, y_lane, t, 0.05)
        np.testing.assert_allclose(got[..., lane], wanted, rtol=1e-9, atol=0)


def test_kl_ucb_in_every_small_table():
    """All outcomes of up to five pulls by each of two agents, against a grid of means."""
    s = np.array([0.4, 0.6])
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
            (got,) = library_rows("kl-ucb", s, *tables_, 1.5).ravel()
            wanted = grid[likelihood >= likelihood.max() - 1.5].max()
            assert got == pytest.approx(wanted, abs=3e-5)


def test_the_vectorised_logarithm_is_the_logarithm():
    """To two units in the last place, relative to what it adds up from k ln 2 and ln m."""
    fill = compiled(_fill_logarithms)
    near_one = np.logspace(-15, -0.5, 4000)
    x = np.concatenate([1 + near_one, 1 - near_one, np.logspace(-300, 300, 40000), [0.5, 1.0, 2.0]])
    out = np.empty_like(x)
    fill(x, out)
    exact = np.log(x)
    assert (np.abs(out - exact) <= 2 * np.spacing(np.maximum(np.abs(exact), 2e-16))).all()


def test_the_vectorised_logarithm_of_what_is_left_of_one():
    """To four units in the last place, however little is taken away."""
    fill = compiled(_fill_logarithms_of_the_rest)
    x = np.concatenate([np.logspace(-300, -0.001, 40000), np.linspace(0, 0.999, 40000)])
    out = np.empty_like(x)
    fill(x, out)
    exact = np.log1p(-x)
    assert (np.abs(out - exact) <= 4 * np.spacing(np.abs(exact))).all()


def _fill_logarithms(x, out):
    for i in range(len(x)):
        out[i] = elementary.ln(x[i])


def _fill_logarithms_of_the_rest(x, out):
    for i in range(len(x)):
        out[i] = elementary.ln_less(x[i])


def equations():
    """The functions of one lane: all that are compiled into the loops of the families."""
    for module in (elementary, indices):
        for name, function in vars(module).items():
            options = getattr(function, "targetoptions", {})
            if options.get("inline") == "always" and function.__module__ == module.__name__:
                yield pytest.param(function, id=name)


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
def test_the_equations_are_found():
    """The next test looks at them all; these are in the paper and beyond."""
    found = {param.id for param in equations()}
    assert found >= {"ln", "exp", "min_width_index", "own_index", "plain_index", "mixture_index"}


@pytest.mark.parametrize("equation", list(equations()))
def test_an_equation_is_arithmetic_of_scalars(equation):
    """It compiles for numbers alone, without Python's objects, and allocates nothing: any device can run it."""
    counts = {"c", "y"}
    names = inspect.signature(equation.py_func).parameters
    alone = njit(nogil=True, error_model="numpy")(equation.py_func)
    alone.compile(tuple(int32 if name in counts else float64 for name in names))
    (code,) = alone.inspect_llvm().values()
    assert alone.nopython_signatures
    assert "NRT_" not in code  # numba's runtime, which allocates and counts references
    body, *_ = re.findall(r"^define[^{]*\{.*?^\}", code, re.MULTILINE | re.DOTALL)
    assert not re.search(r"call [^\n]*@Py", body)


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
def test_a_kernel_cannot_allocate():
    """Numba refuses to compile it; so every kernel that runs allocates nothing."""

    def allocates(size):
        return np.zeros(size)[0]

    with pytest.raises(TypingError, match="zeros"):
        compiled(allocates)(3)


def kernels():
    """All functions that are compiled by themselves, not into their callers."""
    for module in (assignment, calibrated, indices, likelihood, posterior, randomness, rounds):
        for name, part in vars(module).items():
            options = getattr(part, "targetoptions", {"inline": "always"})
            if options.get("inline") != "always" and part.__module__ == module.__name__:
                yield pytest.param(part.py_func, id=name)


@pytest.mark.parametrize("function", list(kernels()))
def test_a_kernel_hands_back_nothing_but_constants(function):
    """An array would not count as held by whoever gets it, and be freed under its hands."""
    source = ast.parse(textwrap.dedent(inspect.getsource(function)))
    answers = [node.value for node in ast.walk(source) if isinstance(node, ast.Return)]
    assert all(isinstance(answer, ast.Constant) for answer in answers)


@st.composite
def crowds(draw):
    """Sensitivities, false alarms or none, and tables of one lane; few pulls and many, and now and then every pair seen."""
    A = draw(st.integers(1, 4))
    N = draw(st.integers(A, A + 4))
    s = draw(st.lists(SENSITIVITIES, min_size=A, max_size=A))
    shares = draw(st.one_of(st.just([0.0] * A), st.lists(st.sampled_from([0.0, 0.1, 0.6]), min_size=A, max_size=A)))  # fmt: skip
    least = draw(st.sampled_from([0, 1, 1]))
    pulls = st.one_of(st.integers(least, 3), st.integers(least, 40), st.integers(least, 10**4))
    c = [[draw(pulls) for _ in range(N)] for _ in range(A)]
    y = [[draw(st.integers(0, k)) for k in row] for row in c]
    return s, [share * s_a for share, s_a in zip(shares, s, strict=True)], c, y


@settings(max_examples=400, deadline=None)
@given(crowd=crowds(), t=st.integers(2, 10**5), seed=st.integers(0, 2**32))
def test_pbm_pie_is_the_references(crowd, t, seed):
    """Who leads, who is drawn by which words, and in the beginning who is called: to 1e-9, the precision of the bound."""
    s, phi, c, y = crowd
    A, N = len(c), len(c[0])
    team = Team(s, false_positive_rates=phi)
    keys = np.random.default_rng(seed).integers(0, 2**32, 2 * N, np.uint32)
    asked = []

    def words(first, count):
        asked.append((first, count))
        return keys[:, None].copy()

    tables_ = (np.array(table, np.int32)[:, :, None] for table in (c, y))
    got = policy("pbm-pie").index_rows(team, *tables_, t, words)[..., 0]
    assert asked == [(randomness.slots(A, N).ties, 2 * N)]
    reports = [[(s[a] - phi[a], phi[a], c[a][n], y[a][n]) for a in range(A)] for n in range(N)]
    wanted = reference.pie_rows(reports, t, keys.tolist(), team.order.tolist())
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-15)
