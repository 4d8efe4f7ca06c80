"""Who goes where: the agents pick arms in turn, each the free arm with the highest index.

With one index row for all, the agent with turn q gets the arm of the q-th highest index:
the paper's sorted matching, which maximises sum_a s_a index_f(a). Ties go to the arm with
the larger random word, which makes every tied arm equally likely.

The arms so chosen may also be dealt to the agents in another order: by chance, or by a second
index row, the highest to the agent with the first turn.

order[q] is the agent with turn q; agents stand as listed in rows and answers. The words of ties and
draws belong to turns.
"""

import math
from typing import NamedTuple

import numpy as np

from heterobandits.core.compiled import compiled, inlined, inner

DEALT = ("by index", "by chance", "by the second row")
BY_INDEX, BY_CHANCE, BY_SECOND_ROW = range(len(DEALT))


class Table(NamedTuple):
    """Room to sort and pick in."""

    rank: np.ndarray
    taken: np.ndarray
    best: np.ndarray
    best_tie: np.ndarray
    picked: np.ndarray
    second: np.ndarray


def table(agents, arms, lanes):
    """Room for as many agents, arms and lanes."""
    return Table(
        rank=np.empty((arms, lanes), np.int32),
        taken=np.empty((arms, lanes), np.bool_),
        best=np.empty(lanes),
        best_tie=np.empty(lanes, np.uint32),
        picked=np.empty((agents, lanes), np.int32),
        second=np.empty((1, arms, lanes)),
    )


@inlined
def narrowed_table(table, lanes):
    """A part of it, for fewer lanes."""
    N = len(table.rank)
    A = len(table.picked)
    return Table(
        table.rank.reshape(table.rank.size)[: N * lanes].reshape((N, lanes)),
        table.taken.reshape(table.taken.size)[: N * lanes].reshape((N, lanes)),
        table.best[:lanes],
        table.best_tie[:lanes],
        table.picked.reshape(table.picked.size)[: A * lanes].reshape((A, lanes)),
        table.second.reshape(table.second.size)[: N * lanes].reshape((1, N, lanes)),
    )


@compiled
def sort_by_ranks(index, ties, order, table, out):
    """out[order[q], lane] = arm with the q-th highest index, by comparing all pairs of arms."""
    N, B = index.shape
    rank = table.rank
    for n in range(N):
        index_n = index[n]
        ties_n = ties[n]
        rank_n = rank[n]
        for lane in range(B):
            rank_n[lane] = 0
        for m in range(n):
            index_m = index[m]
            ties_m = ties[m]
            rank_m = rank[m]
            for lane in range(B):
                ahead = (index_n[lane] > index_m[lane]) | (
                    (index_n[lane] == index_m[lane]) & (ties_n[lane] > ties_m[lane])
                )
                rank_m[lane] += ahead
                rank_n[lane] += not ahead
    for q in range(len(order)):
        place = np.int32(q)
        out_q = out[order[q]]
        for n in range(N):
            arm = np.int32(n)
            rank_n = rank[n]
            for lane in range(B):
                out_q[lane] = arm if rank_n[lane] == place else out_q[lane]


@compiled
def pick_in_turn(index, ties, order, table, out):
    """out[order[q], lane] = arm picked at turn q: the best free arm by the agent's index row, or by the only one."""
    I, N, B = index.shape
    taken = table.taken
    best = table.best
    best_tie = table.best_tie
    for n in range(N):
        for lane in range(B):
            taken[n, lane] = False
    for q in range(len(order)):
        own_row = index[order[q] if I > 1 else 0]
        first_tie = q * N if I > 1 else 0
        pick = out[order[q]]
        for lane in range(B):
            pick[lane] = -1
            best[lane] = -math.inf
            best_tie[lane] = 0
        for n in range(N):
            index_n = own_row[n]
            ties_n = ties[first_tie + n]
            taken_n = taken[n]
            arm = np.int32(n)
            for lane in range(B):
                ahead = (not taken_n[lane]) & (
                    (pick[lane] < 0)
                    | (index_n[lane] > best[lane])
                    | ((index_n[lane] == best[lane]) & (ties_n[lane] > best_tie[lane]))
                )
                best[lane] = index_n[lane] if ahead else best[lane]
                best_tie[lane] = ties_n[lane] if ahead else best_tie[lane]
                pick[lane] = arm if ahead else pick[lane]
        if q + 1 < len(order):
            for n in range(N):
                taken_n = taken[n]
                arm = np.int32(n)
                for lane in range(B):
                    taken_n[lane] |= pick[lane] == arm


@compiled
def shuffle_turns(picked, draws, order, out):
    """out[a, lane] = what was picked at agent a's random turn: turns follow the draws, one for each agent."""
    A, B = picked.shape
    for q in range(A):
        for lane in range(B):
            turn = 0
            for b in range(A):
                turn += (draws[b, lane] > draws[q, lane]) | (
                    (draws[b, lane] == draws[q, lane]) & (b < q)
                )
            out[order[q], lane] = picked[order[turn], lane]


@inner
def fill_picked(picked, index, out):
    """out = an index row without the arms nobody picked."""
    A, B = picked.shape
    for n in range(len(index)):
        arm = np.int32(n)
        index_n = index[n]
        out_n = out[n]
        for lane in range(B):
            kept = False
            for a in range(A):
                kept |= picked[a, lane] == arm
            out_n[lane] = index_n[lane] if kept else -math.inf


@inner
def pick(by_ranks, index, ties, order, table, out):
    """One of the two."""
    if by_ranks:
        sort_by_ranks(index[0], ties, order, table, out)
    else:
        pick_in_turn(index, ties, order, table, out)


@compiled
def assign(index, ties, draws, dealt, order, table, out):
    """out[a, lane] = arm of agent a, from the index rows and the words of the round.

    Sorting costs N^2/2 comparisons and picking A N heavier ones; both give the same arms.
    """
    N = index.shape[1]
    A = len(order)
    by_ranks = N <= 4 * A
    if dealt == BY_SECOND_ROW:
        chosen = table.second
        if A < N:
            pick(by_ranks, index[:1], ties, order, table, table.picked)
            fill_picked(table.picked, index[1], table.second[0])
        else:
            chosen = index[1:]
        pick(by_ranks, chosen, ties, order, table, out)
    else:
        target = out if dealt == BY_INDEX else table.picked
        pick(by_ranks and len(index) == 1, index, ties, order, table, target)
        if dealt == BY_CHANCE:
            shuffle_turns(table.picked, draws, order, out)
