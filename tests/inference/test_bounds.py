"""What theory promises: widths and the regret bound as numbers, and that the promises are kept."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from heterobandits import InvalidInput, Problem, coverage, ln_G, regret_bound, widths
from heterobandits.inference import bounds
from heterobandits.inference.intervals import mean_intervals
from heterobandits.limits import COUNT_MAX, HORIZON_MAX_ROUNDS
from heterobandits.simulation.coverage import BAND_POLICIES

SENSITIVITY = st.floats(0.01, 1.0)
DELTAS = st.floats(1e-6, 0.999)
TOLERANCE = 1e-12


@st.composite
def histories(draw):
    """Sensitivities in any order, and tables of pulls and successes of the same agents."""
    A = draw(st.integers(1, 4))
    N = draw(st.integers(A, A + 2))
    s = draw(st.lists(SENSITIVITY, min_size=A, max_size=A))
    cell = st.one_of(st.just(0), st.integers(1, 1000))
    c = [[draw(cell) for _ in range(N)] for _ in range(A)]
    y = [[draw(st.integers(0, k)) for k in row] for row in c]
    return s, c, y


def most_pulls(c):
    """Of an arm by all agents: with several tests in a visit these may be more than the horizon."""
    return max(sum(reference.column(c, n)) for n in range(len(c[0])))


def test_more_pulls_than_the_horizon_count_instead_of_it():
    """1,000 tests of an arm cannot have been foreseen by a union bound over 10: by hand, with one agent."""
    half = math.sqrt(math.log(2 * 2 * 1000 / 0.05) / (2 * 0.8**2 * 1000))
    (width, _) = widths("min-width", [[1000, 10]], [0.8], horizon=10)
    assert width == pytest.approx(half, rel=TOLERANCE)
    made = mean_intervals([[1000, 10]], [[400, 1]], [0.8], method="min-width", horizon=10)
    assert made.upper[0] == pytest.approx(0.5 + half, rel=TOLERANCE)
    assert made.lower[0] == pytest.approx(0.5 - half, rel=TOLERANCE)


@settings(max_examples=60)
@given(history=histories(), T=st.integers(1, 300), delta=DELTAS)
def test_widths_are_the_papers(history, T, delta):
    s, c, _ = history
    A, N = len(c), len(c[0])
    t = max(T, most_pulls(c))
    own = [[reference.epsilon_own(s[a], c[a][n], A, N, t, delta) for n in range(N)]
           for a in range(A)]  # fmt: skip
    shared = [reference.epsilon_shared(s, reference.column(c, n), N, t, delta) for n in range(N)]
    np.testing.assert_allclose(widths("min-width", c, s, T, delta), shared, rtol=TOLERANCE)
    np.testing.assert_allclose(widths("no-sharing", c, s, T, delta), own, rtol=TOLERANCE)
    narrowest = np.min(own, axis=0)
    np.testing.assert_allclose(widths("min-ucb", c, s, T, delta), narrowest, rtol=TOLERANCE)


@settings(max_examples=60)
@given(history=histories(), T=st.integers(1, 300), delta=DELTAS)
def test_intervals_are_the_papers_cut_to_what_a_mean_can_be(history, T, delta):
    s, c, y = history
    N = len(c[0])
    made = mean_intervals(c, y, s, method="min-width", horizon=T, delta=delta)
    T = max(T, most_pulls(c))
    for n in range(N):
        c_n, y_n = reference.column(c, n), reference.column(y, n)
        middle = reference.muhat_shared(s, c_n, y_n)
        half = reference.epsilon_shared(s, c_n, N, T, delta)
        assert made.estimate[n] == pytest.approx(min(1.0, middle), rel=TOLERANCE)
        # The difference may cancel, so the error is measured against its larger part.
        reach = TOLERANCE * max(1.0, middle, half if half < math.inf else 1.0)
        assert made.lower[n] == pytest.approx(min(1.0, max(0.0, middle - half)), abs=reach)
        assert made.upper[n] == pytest.approx(min(1.0, middle + half), abs=reach)


@pytest.mark.parametrize(("agents", "arms"), [(1, 1), (3, 5), (170, 170), (300, 1000)])
def test_the_log_term_of_ucb_counts_every_assignment(agents, arms):
    """ln(2 t N!/(N-A)! / delta), the count being a whole number of any size."""
    wanted = math.log(2 * 50 * math.perm(arms, agents)) - math.log(0.1)
    assert bounds.log_term("ucb", agents, arms, 50, 0.1) == pytest.approx(wanted, rel=1e-14)


@given(T=st.integers(1, 10**9), A=st.integers(1, 60))
def test_ln_G_is_exact(T, A):
    assert ln_G(T, A) == pytest.approx(math.log(math.comb(T + A, A) - 1), rel=1e-13)


@settings(max_examples=60)
@given(
    s=st.lists(SENSITIVITY, min_size=1, max_size=6),
    extra=st.integers(0, 4),
    T=st.integers(1, 10**6),
    delta=DELTAS,
)
def test_the_regret_bound_is_the_theorems(s, extra, T, delta):
    """A(N-1) + 2 sqrt(2 A N T ln(2 N G(T, A) / delta)) max S / min S"""
    A = len(s)
    N = A + extra
    L = math.log(2 * N * (math.comb(T + A, A) - 1)) - math.log(delta)
    wanted = A * (N - 1) + 2 * (2 * A * N * T * L) ** 0.5 * max(s) / min(s)
    problem = Problem([0.5] * N, s)
    assert regret_bound(problem, T, delta) == pytest.approx(wanted, rel=TOLERANCE)


MISTAKEN = Problem([0.9, 0.1], [0.5, 0.9], believed=[0.9, 0.5])  # it sends them the wrong way round


def test_without_the_true_sensitivities_there_is_no_regret_bound(seed):
    """Sorted the wrong way round, two agents lose 0.32 in every round: no theorem can bound that."""
    assert regret_bound(MISTAKEN, 10**6) == math.inf
    seen = coverage(MISTAKEN, 100, 4, seed, watched=())
    assert (seen.regret_bound, seen.over_regret_bound) == (math.inf, 0)
    assert regret_bound(Problem([0.9, 0.1], [0.5, 0.9]), 10**6) < 60_000


def test_the_command_says_why_there_is_none(capsys):
    from heterobandits.cli import main

    arguments = [
        "bounds",
        "--means",
        "0.9,0.1",
        "--sensitivities",
        "0.5,0.9",
        "--horizon",
        "1000000",
    ]
    answers = {}
    for name, more in {
        "text": ["--believed", "0.9,0.5"],
        "json": ["--believed", "0.9,0.5", "--format", "json"],
        "right": [],
    }.items():
        with pytest.raises(SystemExit) as exit_:
            main([*arguments, *more])
        assert not exit_.value.code
        answers[name] = " ".join(capsys.readouterr().out.split())
    assert json.loads(answers["json"])["regret_bound"] is None
    assert "56,986" not in answers["text"]
    assert (
        "no bound on min-width's regret: the planner does not know the truth about the agents"
        in answers["text"]
    )
    assert "56,986" in answers["right"]
    assert "tests of a visit are independent" in answers["right"]


PROBLEMS = {
    "covid": (Problem([0.05, 0.1, 0.12, 0.15, 0.25, 0.3], [0.8, 0.8, 0.8, 0.95, 0.95]), 200),
    "hotel": (Problem([0.72, 0.74, 0.93, 0.61], [0.3, 0.5, 0.7, 0.9]), 300),
    "poaching": (Problem([0.1, 0.3, 0.5, 0.7, 0.9], [0.1, 0.2, 0.3]), 300),
    "one agent": (Problem([0.5, 0.4], [1.0]), 500),
}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["min-width", "random"])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_promises_are_kept(seed, name, policy, delta):
    """The share of 1,024 trials in which anything fails is at most delta.

    The bounds are generous: measured with 4,096 trials, the true rate is under a tenth of delta for
    the union bounds and at most 0.42 of delta for the mixture, and then chance exceeds delta
    with a probability under 1e-7 (Poisson tail).
    """
    problem, horizon = PROBLEMS[name]
    seen = coverage(problem, horizon, 1024, seed, policy=policy, delta=delta, watched=BAND_POLICIES)
    assert (seen.trials, seen.horizon, seen.delta) == (1024, horizon, delta)
    assert seen.failed["min-width"] <= delta
    assert seen.failed["min-ucb"] <= delta
    assert seen.failed["no-sharing"] <= delta
    assert seen.failed["min-width-grouped"] <= delta
    assert seen.failed["mixture-width"] <= delta
    if policy == "min-width":
        assert seen.over_regret_bound == 0
        assert 0 < seen.worst_regret < seen.regret_bound
    assert seen.regret_bound == regret_bound(problem, horizon, delta)


@pytest.mark.parametrize(
    ("problem", "policy"),
    [
        (Problem([0.9, 0.5, 0.2], [0.9, 0.6], believed=[0.6, 0.35]), "min-width"),
        (Problem([0.9, 0.5, 0.2], [0.9, 0.6], believed=[0.45, 0.6]), "random"),
        (Problem([0.3, 0.95], [0.7], believed=[0.45]), "no-sharing"),
    ],
)
def test_failures_are_counted_one_by_one(seed, problem, policy):
    """With mistaken beliefs the intervals do fail, and as often as in the plain transcription."""
    horizon, trials, delta = 60, 30, 0.9
    seen = coverage(problem, horizon, trials, seed, policy=policy, delta=delta)
    mu, s, believed = problem.means, problem.sensitivities, problem.believed
    A, N = len(s), len(mu)
    failed = {"min-width": 0, "no-sharing": 0, "min-ucb": 0}
    strains = {name: [] for name in failed}
    worst = 0.0
    G = reference.G(horizon, A)
    for trial in range(trials):
        wrong = dict.fromkeys(failed, False)
        most = dict.fromkeys(failed, 0.0)
        played = []
        for f, c, y in reference.play(policy, mu, s, horizon, seed, trial, believed):
            played.append(f)
            for n in range(N):
                c_n, y_n = reference.column(c, n), reference.column(y, n)
                W, V = reference.shared_sums(believed, c_n, y_n)
                if V:
                    half = math.sqrt(reference.log_of(2 * N * G, delta) / (2 * float(V)))
                    wrong["min-width"] |= abs(float(W / V) - mu[n]) >= half
                    most["min-width"] = max(most["min-width"], abs(float(W / V) - mu[n]) / half)
                own = [
                    (
                        reference.muhat_own(believed[a], c_n[a], y_n[a]),
                        reference.epsilon_own(believed[a], c_n[a], A, N, horizon, delta),
                    )
                    for a in range(A)
                ]
                wrong["no-sharing"] |= any(abs(m - mu[n]) >= half for m, half in own)
                wrong["min-ucb"] |= any(m + half <= mu[n] for m, half in own)
                seen_by = [(m, half) for m, half in own if half < math.inf]
                for m, half in seen_by:
                    most["no-sharing"] = max(most["no-sharing"], abs(m - mu[n]) / half)
                    most["min-ucb"] = max(most["min-ucb"], (mu[n] - m) / half)
        worst = max(worst, reference.regret(mu, s, played))
        for name, flag in wrong.items():
            failed[name] += flag
            strains[name].append(most[name])
    assert sum(failed.values()) > 0
    for name, some in strains.items():
        assert seen.needed[name] == pytest.approx(np.quantile(some, 1 - delta), rel=1e-9)
    for name, count in failed.items():
        assert seen.failed[name] == count / trials
    assert seen.worst_regret == pytest.approx(worst, abs=1e-9)


def test_underestimated_sensitivities_break_the_intervals(seed):
    """An agent thought half as sensitive makes every estimate twice too high."""
    problem = Problem([0.9, 0.6, 0.8], [0.8, 0.9], believed=[0.4, 0.45])
    seen = coverage(problem, 400, 64, seed)
    assert seen.failed["min-width"] == 1
    assert seen.failed["no-sharing"] == 1


def test_overestimated_sensitivities_break_the_upper_bounds(seed):
    """An agent thought five times as sensitive makes every estimate five times too low."""
    problem = Problem([0.9, 0.6, 0.8], [0.2, 0.18], believed=[1.0, 0.9])
    assert coverage(problem, 400, 64, seed).failed["min-ucb"] == 1


def test_a_regret_over_the_bound_is_counted(seed):
    """Choosing at random between 0 and 1 costs T/2 in T rounds, and the bound grows as sqrt(T ln T).

    For T = 1000 the bound is 365 and the regret 500 with standard deviation 16, 8.5 of those
    away; that any of 64 trials stays below has a probability under 1e-14.
    """
    problem = Problem([1.0, 0.0], [1.0])
    seen = coverage(problem, 1000, 64, seed, policy="random", delta=0.99)
    assert seen.regret_bound < 370
    assert seen.over_regret_bound == 1
    assert seen.worst_regret > 400


@pytest.mark.parametrize(
    "call",
    [
        lambda: ln_G(1.5, 2),
        lambda: ln_G(math.nan, 2),
        lambda: ln_G(True, 2),
        lambda: ln_G(10**400, 2),
        lambda: widths("cucb", [[1]], [0.5], 3),
        lambda: widths("min-width", [[1, 2.5]], [0.5], 3),
        lambda: widths("min-width", [[1, math.nan]], [0.5], 3),
        lambda: widths("min-width", [1, 2], [0.5], 3),
        lambda: widths("min-width", [[1, 2]], [0.5, 0.5], 3),
        lambda: widths("min-width", [[1], [2]], [0.5, 0.5], 3),
        lambda: widths("min-width", [[1]], [1.5], 3),
        lambda: widths("min-width", [[1]], [0.5], 3, delta=0),
        lambda: widths("min-width", "many", [0.5], 3),
        lambda: regret_bound(Problem([0.5], [0.5]), 3, delta=1.0),
        lambda: bounds.log_term("greedy", 1, 2, 3),
        lambda: coverage(Problem([0.5], [0.5]), 3, range(2)),
        lambda: coverage(Problem([0.5], [0.5]), 0, 2),
        lambda: coverage(Problem([0.5], [0.5]), 3, 2, seed=-1),
        lambda: coverage(Problem([0.5], [0.5]), 3, 2, delta=2),
        lambda: coverage(Problem([0.5], [0.5]), 3, 2, policy="min-widht"),
        lambda: coverage(None, 3, 2),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(InvalidInput):
        call()


@pytest.mark.parametrize("chance", ["a", 2, -0.1, None, math.nan])
def test_kl_is_of_two_probabilities(chance):
    for i, pair in enumerate([(chance, 0.5), (0.5, chance)]):
        with pytest.raises(InvalidInput) as raised:
            bounds.kl(*pair)
        wanted = f"(p, q)[{i}] is {chance!r}: a chance is a probability in [0, 1]"
        assert str(raised.value) == wanted


@pytest.mark.parametrize("name", [np.array(["min-width", "ucb"]), None, ["min-width"]])
def test_a_width_is_of_one_policy(name):
    with pytest.raises(InvalidInput, match="unknown policy with"):
        bounds.log_term(name, 2, 3, 10)
    with pytest.raises(InvalidInput, match="unknown policy with"):
        bounds.widths(name, [[1, 1], [1, 1]], [0.5, 0.5], 10)


ROUNDS = f"a whole number from 1 to {HORIZON_MAX_ROUNDS:,}"
TABLE = f"a table of whole numbers from 0 to {COUNT_MAX:,}, 2 agents by some arms"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ln_G(0, 2), f"horizon is 0: {ROUNDS}"),
        (lambda: ln_G(HORIZON_MAX_ROUNDS + 1, 2), f"horizon is {HORIZON_MAX_ROUNDS + 1}: {ROUNDS}"),
        (lambda: ln_G(1, 0), f"agents is 0: a whole number from 1 to {COUNT_MAX:,}"),
        (
            lambda: ln_G(1, COUNT_MAX + 1),
            f"agents is {COUNT_MAX + 1}: a whole number from 1 to {COUNT_MAX:,}",
        ),
        (lambda: bounds.log_term("min-ucb", 2, 3, 0), f"horizon is 0: {ROUNDS}"),
        (lambda: bounds.log_term("min-ucb", 2, 3, 1e300), f"horizon is 1e+300: {ROUNDS}"),
        (
            lambda: bounds.log_term("ucb", 0, 3, 1),
            f"agents is 0: a whole number from 1 to {COUNT_MAX:,}",
        ),
        (
            lambda: bounds.log_term("ucb", 3, 2, 1),
            f"arms is 2: a whole number from 3 to {COUNT_MAX:,}",
        ),
        (
            lambda: bounds.log_term("ucb", 2, COUNT_MAX + 1, 1),
            f"arms is {COUNT_MAX + 1}: a whole number from 2 to {COUNT_MAX:,}",
        ),
        (
            lambda: bounds.log_term("min-widht", 2, 3, 1),
            "unknown policy with a width 'min-widht': did you mean 'min-width'?",
        ),
        (lambda: widths("min-width", [[1, 1]] * 2, [0.5, 0.5], 0), f"horizon is 0: {ROUNDS}"),
        (
            lambda: widths("min-width", [[1, 1]] * 2, [0.5, 0.5], HORIZON_MAX_ROUNDS + 1),
            f"horizon is {HORIZON_MAX_ROUNDS + 1}: {ROUNDS}",
        ),
        (lambda: widths("min-width", [[1, -1]] * 2, [0.5, 0.5], 9), f"pulls[0][1] is -1: {TABLE}"),
        (
            lambda: widths("min-width", [[1], [1]], [0.5, 0.5], 9),
            "the number of arms is 1: a whole number at least 2",
        ),
        (
            lambda: widths("ucb", [[1, 1]] * 2, [0.5, 0.5], 9),
            "unknown policy with a width 'ucb': did you mean 'min-ucb'?",
        ),
        (
            lambda: regret_bound(Problem([0.5, 0.2], [0.9]), HORIZON_MAX_ROUNDS + 1),
            f"horizon is {HORIZON_MAX_ROUNDS + 1}: {ROUNDS}",
        ),
        (lambda: regret_bound(Problem([0.5, 0.2], [0.9]), 0), f"horizon is 0: {ROUNDS}"),
    ],
)
def test_bad_input_is_named_with_what_is_allowed(call, message):
    with pytest.raises(InvalidInput) as raised:
        call()
    assert str(raised.value) == message
