"""Who goes where: the compiled pickers against the plain one, the optimum and chance."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.stats import chi2

import reference
from heterobandits import Problem
from heterobandits.core.assignment import (
    BY_CHANCE,
    BY_INDEX,
    BY_SECOND_ROW,
    assign,
    pick_in_turn,
    shuffle_turns,
    sort_by_ranks,
    table,
)
from heterobandits.core.randomness import fill_words, words_needed
from heterobandits.model.team import Team
from heterobandits.policies.policy import policy
from heterobandits.simulation.engine import Learning, PolicyWorld

FALSE_ALARM = 1e-7
TIED = st.sampled_from([-1.0, 0.0, 0.25, 0.25000000000000006, 0.5, math.inf, math.inf])


@st.composite
def index_tables(draw, rows=1):
    """Index rows full of ties and infinities, distinct tie words, and the order in which the agents pick."""
    N = draw(st.integers(1, 8))
    A = draw(st.integers(1, N))
    B = draw(st.integers(1, 4))
    I = rows if rows == 1 else A
    values = draw(st.lists(TIED, min_size=I * N * B, max_size=I * N * B))
    words = draw(st.lists(st.integers(0, 2**32 - 1), min_size=I * N * B, max_size=I * N * B,
                          unique=True))  # fmt: skip
    shape = (I, N, B)
    order = np.array(draw(st.permutations(range(A))), np.int64)
    return np.array(values).reshape(shape), np.array(words, np.uint32).reshape(shape), order


def picked_by_reference(index, ties, order):
    """What is picked at each turn: the rows are those of the agents as listed, the words those of the turns."""
    B = index.shape[-1]
    rows = index[order] if len(index) > 1 else index
    lanes = [
        reference.greedy_assignment(rows[..., b].tolist(), ties[..., b].tolist(), len(order))
        for b in range(B)
    ]
    return np.array(lanes).T


def by_agent(turns, order):
    """What agents got, from what was picked at each turn."""
    out = np.empty_like(turns)
    for q, a in enumerate(order):
        out[a] = turns[q]
    return out


@settings(max_examples=300)
@given(made=index_tables())
def test_sorting_and_picking_agree_with_the_reference(made):
    index, ties, order = made
    _, N, B = index.shape
    A = len(order)
    wanted = by_agent(picked_by_reference(index, ties, order), order)
    for pick, rows in ((sort_by_ranks, index[0]), (pick_in_turn, index)):
        out = np.full((A, B), -7, np.int32)
        pick(rows, ties.reshape(N, B), order, table(A, N, B), out)
        np.testing.assert_array_equal(out, wanted)


@settings(max_examples=200)
@given(made=index_tables(rows=2))
def test_picking_by_own_rows_agrees_with_the_reference(made):
    index, ties, order = made
    _, N, B = index.shape
    A = len(order)
    words, wanted = ties.reshape(-1, B), by_agent(picked_by_reference(index, ties, order), order)
    for pick, *how in ((pick_in_turn, order), (assign, words[:0], BY_INDEX, order)):
        out = np.full((A, B), -7, np.int32)
        pick(index, words, *how, table(A, N, B), out)
        np.testing.assert_array_equal(out, wanted)


@settings(max_examples=100)
@given(made=index_tables(), data=st.data())
def test_assign_sends_the_agent_with_the_larger_draw_first(made, data):
    """Turn q has draw q, and so has the agent who would pick at turn q were it not for chance."""
    index, ties, order = made
    _, N, B = index.shape
    A = len(order)
    draws = np.array(
        data.draw(st.lists(st.integers(0, 5), min_size=A * B, max_size=A * B)), np.uint32
    ).reshape(A, B)
    out = np.full((A, B), -7, np.int32)
    for dealt in (BY_INDEX, BY_CHANCE):
        assign(index, ties.reshape(N, B), draws, dealt, order, table(A, N, B), out)
        in_turn = picked_by_reference(index, ties, order)
        for lane in range(B):
            turns = list(range(A))
            if dealt == BY_CHANCE:
                turns.sort(key=lambda q: (-int(draws[q, lane]), q))
            agents = [order[q] for q in turns]
            assert out[agents, lane].tolist() == in_turn[:, lane].tolist()


@settings(max_examples=300)
@given(made=index_tables(rows=2))
def test_the_second_row_deals_what_the_first_one_picked(made):
    index, ties, order = made
    rows, N, B = index.shape
    A = len(order)
    index, ties = (np.repeat(both[:1], 2, axis=0) if rows == 1 else both for both in (index, ties))
    out = np.full((A, B), -7, np.int32)
    words = np.ascontiguousarray(ties[0])
    assign(index[:2].copy(), words, words[:0], BY_SECOND_ROW, order, table(A, N, B), out)
    for lane in range(B):
        chosen = reference.greedy_assignment(index[:1, :, lane], ties[:1, :, lane], A)
        best_first = sorted(chosen, key=lambda n: (index[1, n, lane], words[n, lane]), reverse=True)
        tied = len({(index[1, n, lane], words[n, lane]) for n in chosen}) < A
        assert sorted(out[:, lane].tolist()) == sorted(chosen)
        assert tied or out[order, lane].tolist() == best_first


@pytest.mark.slow
@settings(max_examples=100)
@given(
    s=st.lists(st.floats(0.01, 1), min_size=1, max_size=4),
    index=st.lists(st.floats(0, 10), min_size=4, max_size=6),
    words=st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6, unique=True),
)
def test_a_shared_row_maximises_the_sum_of_s_times_index(s, index, words):
    """The paper's sorted matching solves the assignment problem: eq:using_alg."""
    s = np.array(s)
    index = np.array(index)
    A, N = len(s), len(index)
    ties = np.array(words[:N], np.uint32)[:, None]
    value = s[:, None] * index
    best = max(sum(value[a, f[a]] for a in range(A)) for f in itertools.permutations(range(N), A))
    assert value[linear_sum_assignment(value, maximize=True)].sum() == pytest.approx(best)
    for pick, rows in ((sort_by_ranks, index[:, None]), (pick_in_turn, index[None, :, None])):
        out = np.empty((A, 1), np.int32)
        pick(rows, ties, Team(s).order, table(A, N, 1), out)
        assert len(set(out[:, 0])) == A
        assert value[np.arange(A), out[:, 0]].sum() == pytest.approx(best, rel=1e-12)


def words_of(seed, slots, lanes, round_=1):
    out = np.empty((words_needed(slots), lanes), np.uint32)
    fill_words(np.uint64(seed), np.uint64(0), np.int64(round_), out)
    return out


def uniform_p(columns, possible):
    """The p-value of a chi-square test that every one of the possible columns is as likely."""
    seen = dict.fromkeys(possible, 0)
    for column in map(tuple, columns.T.tolist()):
        seen[column] += 1  # a column that is not possible is an error
    observed = np.array(list(seen.values()))
    expected = observed.sum() / len(observed)
    return chi2.sf(((observed - expected) ** 2 / expected).sum(), len(observed) - 1)


@pytest.mark.parametrize("tied", [0.0, math.inf])
@pytest.mark.parametrize("pick", [sort_by_ranks, pick_in_turn])
def test_ties_are_broken_uniformly(seed, pick, tied):
    """Arms 0, 2 and 3 tie above arm 1: each order is as likely. False alarms: 1e-7 each."""
    lanes = 30_000
    index = np.full((4, lanes), tied)
    index[1] = -1.0
    out = np.empty((3, lanes), np.int32)
    rows = index if pick is sort_by_ranks else index[None]
    pick(rows, words_of(seed, 4, lanes), np.array([1, 2, 0]), table(3, 4, lanes), out)
    assert uniform_p(out, list(itertools.permutations((0, 2, 3)))) > FALSE_ALARM


def test_turns_are_uniform_over_orders(seed):
    """Each of the 24 orders of four agents is as likely. False alarms: 1e-7."""
    lanes = 60_000
    picked = np.repeat(np.arange(4, dtype=np.int32)[:, None], lanes, axis=1)
    out = np.empty_like(picked)
    shuffle_turns(picked, words_of(seed, 4, lanes), np.array([2, 0, 3, 1]), out)
    assert uniform_p(out, list(itertools.permutations(range(4)))) > FALSE_ALARM


@pytest.mark.parametrize("name", [*reference.PAPER, "greedy", "random"])
def test_the_first_assignment_is_any_as_likely(seed, name):
    """Nothing is known in round 1, so all 12 assignments are as likely. False alarms: 1e-7 each."""
    problem = Problem([0.2, 0.9, 0.5, 0.4], [0.3, 0.8])
    lanes = 48_000
    block = Learning(PolicyWorld(problem, policy(name)), seed, 0, lanes)
    block.advance(1)
    arms = block.pulls.argmax(axis=1)
    assert (block.pulls.sum(axis=1) == 1).all()
    assert uniform_p(arms, list(itertools.permutations(range(4), 2))) > FALSE_ALARM


def test_cucb_sends_agents_to_the_top_arms_in_any_order(seed):
    """With distinct indices the arms are settled and only the turns are left to chance.

    Arm 2 succeeds always, arm 0 never: after each arm was seen, cucb's two top arms are the
    same in all trials, and each agent is on either with probability 1/2. False alarms: 1e-7.
    """
    problem = Problem([0.0, 1.0, 1.0], [1.0, 1.0])
    lanes = 20_000
    block = Learning(PolicyWorld(problem, policy("cucb")), seed, 0, lanes)
    block.advance(40)
    before = block.pulls.copy()
    block.advance(1)
    arms = (block.pulls - before).argmax(axis=1)
    top = arms[:, (arms != 0).all(axis=0)]
    assert top.shape[1] > lanes / 2
    assert uniform_p(top, [(1, 2), (2, 1)]) > FALSE_ALARM
