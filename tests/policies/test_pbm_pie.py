"""PBM-PIE: its beginning, whom it draws to challenge whom and how often, and what a plan says of it."""

import math
from collections import Counter

import numpy as np
import pytest

import reference
from heterobandits import Planner, Problem, policy
from heterobandits.model.team import Team
from heterobandits.simulation.engine import Learning, PolicyWorld

# four arms: two lead, the third may be as good as the second, the fourth cannot be
PULLS = [[40, 40, 6, 400], [40, 40, 6, 400]]
SUCCESSES = [[30, 20, 2, 20], [20, 13, 1, 10]]
SENSITIVITIES = [0.9, 0.6]


@pytest.mark.parametrize("arms", range(1, 9))
@pytest.mark.parametrize("tests", [1, 5])
def test_it_begins_with_every_agent_at_every_arm_once(arms, tests):
    for agents in range(1, arms + 1):
        s = np.linspace(0.3, 0.9, agents).round(2).tolist()
        problem = Problem([0.5] * arms, s, tests=[tests] * agents)
        learning = Learning(PolicyWorld(problem, policy("pbm-pie")), 11, 0, 16)
        before = None
        for _ in range(arms):
            learning.advance(1)
            sent = learning.block.sent.copy()
            if before is not None:  # the agents are listed from the last to the first to pick
                assert (sent[1:] == before[:-1]).all()
            before = sent
        assert (learning.pulls == tests).all()


def test_a_beginning_is_over_once_some_agent_has_been_everywhere():
    rows = rows_of([[1, 1, 1], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]])
    assert rows.max() < 10
    rows = rows_of([[1, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]])
    assert rows[0].min() > 10


def rows_of(pulls, successes, keys=None):
    """The index and the estimate of every arm after 100 rounds."""
    count = 2 * len(pulls[0])
    keys = np.zeros(count, np.uint32) if keys is None else keys
    tables = (np.array(table, np.int32)[:, :, None] for table in (pulls, successes))
    entry = policy("pbm-pie")
    return entry.index_rows(Team(SENSITIVITIES), *tables, 100, lambda first, n: keys[:, None])[
        ..., 0
    ]


def test_half_of_the_time_an_arm_is_drawn_that_may_be_as_good():
    """Of two that can be, each is drawn in a quarter of 4,000 rounds: six standard errors are 0.041."""
    pulls, successes = ([[*row, row[2]] for row in table] for table in (PULLS, SUCCESSES))
    estimates = rows_of(pulls, successes, np.full(10, 2**31, np.uint32))[1]
    random = np.random.default_rng(5)
    drawn = Counter()
    for _ in range(4000):
        index, estimate = rows_of(pulls, successes, random.integers(0, 2**32, 10, np.uint32))
        assert (estimate == estimates).all()
        higher = np.flatnonzero(index != estimate)
        assert len(higher) <= 1
        assert (index[higher] >= estimate[1]).all()
        drawn[tuple(higher.tolist())] += 1
    assert set(drawn) == {(), (2,), (4,)}
    assert drawn[()] / 4000 == pytest.approx(1 / 2, abs=0.048)
    assert drawn[(2,)] / 4000 == pytest.approx(1 / 4, abs=0.041)


def test_the_bound_is_where_the_divergence_reaches_ln_t():
    """By a grid of means, with no root found."""
    keys = np.zeros(8, np.uint32)
    index, _ = rows_of(PULLS, SUCCESSES, keys)
    grid = np.linspace(1e-6, 1 - 1e-6, 200_001)
    total = np.zeros(len(grid))
    for s, c, y in ((s, PULLS[a][2], SUCCESSES[a][2]) for a, s in enumerate(SENSITIVITIES)):
        p = y / c
        total += c * (p * np.log(p / (s * grid)) + (1 - p) * np.log((1 - p) / (1 - s * grid)))
    assert index[2] == pytest.approx(grid[total <= math.log(100)].max(), abs=1e-5)


def test_where_even_the_likeliest_mean_diverges_by_more_it_is_the_bound():
    """Two agents who cannot both be right of the last arm. Its estimate is below the last leader's, the likeliest mean above."""
    pulls, successes = [[400, 400, 100], [400, 400, 100]], [[300, 222, 90], [200, 147, 0]]
    index, estimate = rows_of(pulls, successes, np.zeros(6, np.uint32))
    likeliest = reference.likeliest(90, [(0.6, 100), (0.9, 10)], 1.0)
    assert estimate[2] < estimate[1] < likeliest
    assert index[2] == pytest.approx(likeliest, rel=1e-9)


def test_the_one_that_is_drawn_gets_the_least_sensitive_agent_and_a_plan_says_so():
    said = Counter()
    for seed in range(40):
        planner = Planner(
            SENSITIVITIES, 4, "pbm-pie", seed, pulls=PULLS, successes=SUCCESSES, rounds=500
        )
        plan = planner.ask()
        codes = tuple(reason.code for reason in plan.reasons)
        said[codes, plan.assignment] += 1
        for reason in plan.reasons:
            assert ("challenge" in reason.in_numbers) == (reason.code == "challenger")
        assert len(planner.explain(plan)) == 2
    assert set(said) == {
        (("leading", "leading"), (0, 1)),
        (("leading", "challenger"), (0, 2)),
    }


def test_a_plan_says_that_it_begins():
    plan = Planner(SENSITIVITIES, 4, "pbm-pie").ask()
    assert [reason.code for reason in plan.reasons] == ["beginning"] * 2
    assert "to begin with everybody goes everywhere once" in str(plan)
