"""Who goes where: the agents pick arms in turn, each the free arm with the highest index.

With one index row for all, the agent with turn q gets the arm of the q-th highest index:
the paper's sorted matching, which maximises sum_a s_a index_f(a). Ties go to the arm with
the larger random word, which makes every tied arm equally likely.

The arms so chosen may also be dealt to the agents in another order: by chance, or by a second
index row, the highest to the agent with the first turn.
"""

import math

import numpy as np

from heterobandits.core.compiled import compiled

DEALT = ("by index", "by chance", "by the second row")
BY_INDEX, BY_CHANCE, BY_SECOND_ROW = range(len(DEALT))


@compiled
def sort_by_ranks(index, ties, count, out):
    """out[q, lane] = arm with the q-th highest index, q < count, by comparing all pairs of arms."""
    N, B = index.shape
    rank = np.empty((N, B), np.int32)
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
    for q in range(count):
        place = np.int32(q)
        out_q = out[q]
        for n in range(N):
            arm = np.int32(n)
            rank_n = rank[n]
            for lane in range(B):
                out_q[lane] = arm if rank_n[lane] == place else out_q[lane]


@compiled
def pick_in_turn(index, ties, count, out):
    """out[q, lane] = arm picked q-th: the best free arm by index row q, or by row 0 if there is only one."""
    I, N, B = index.shape
    taken = np.zeros((N, B), np.bool_)
    best = np.empty(B)
    best_tie = np.empty(B, np.uint32)
    for q in range(count):
        row = q if I > 1 else 0
        pick = out[q]
        for lane in range(B):
            pick[lane] = -1
            best[lane] = -math.inf
            best_tie[lane] = 0
        for n in range(N):
            index_n = index[row, n]
            ties_n = ties[row * N + n]
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
        if q + 1 < count:
            for n in range(N):
                taken_n = taken[n]
                arm = np.int32(n)
                for lane in range(B):
                    taken_n[lane] |= pick[lane] == arm


@compiled
def shuffle_turns(picked, draws, out):
    """out[a, lane] = what was picked at agent a's turn, the turns being the order of the agents' draws."""
    A, B = picked.shape
    for a in range(A):
        for lane in range(B):
            turn = 0
            for b in range(A):
                turn += (draws[b, lane] > draws[a, lane]) | (
                    (draws[b, lane] == draws[a, lane]) & (b < a)
                )
            out[a, lane] = picked[turn, lane]


@compiled
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


@compiled
def assign(index, ties, draws, dealt, picked, out):
    """out[a, lane] = arm of agent a, from the index rows and the words of the round.

    Sorting costs N^2/2 comparisons and picking A N heavier ones; both give the same arms.
    """
    N = index.shape[1]
    A = out.shape[0]
    target = out if dealt == BY_INDEX else picked
    chooser = index[:1] if dealt == BY_SECOND_ROW else index
    if len(chooser) == 1 and N <= 4 * A:
        sort_by_ranks(chooser[0], ties, A, target)
    else:
        pick_in_turn(chooser, ties, A, target)
    if dealt == BY_CHANCE:
        shuffle_turns(picked, draws, out)
    elif dealt == BY_SECOND_ROW:
        second = np.empty(index[:1].shape)
        fill_picked(picked, index[1], second[0])
        pick_in_turn(second, ties, A, out)
