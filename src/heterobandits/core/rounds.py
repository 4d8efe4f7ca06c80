"""The loop over rounds for a block of trials: words, indices, assignment, outcomes, tables.

Notation as in `indices`; besides, for the truth that only the simulator knows:

    limit[a, n]   agent a succeeds on arm n if the arm's word is at most this; -1 means never
    gap[a, n]     s_a (mu_f*(a) - mu_n), what a pull by a of n costs against the optimum f*
"""

import numpy as np

from heterobandits.core.assignment import BY_CHANCE, BY_INDEX, assign
from heterobandits.core.compiled import compiled
from heterobandits.core.indices import (
    draws_means,
    fill_assignment_indices,
    fill_indices,
    remembers,
)
from heterobandits.core.randomness import fill_words
from heterobandits.core.randomness import words_needed as _words_needed

words_needed = compiled(_words_needed)


@compiled
def observe(assigned, words, limit, c, y):
    """Send every agent to its arm: count the pull, and the success if the arm's luck is good enough."""
    A, N, B = c.shape
    for a in range(A):
        sent = assigned[a]
        for n in range(N):
            arm = np.int32(n)  # 32 bits like the lanes, or the comparison would widen them
            c_an = c[a, n]
            y_an = y[a, n]
            word = words[n]
            highest = np.uint32(max(0, limit[a, n]))
            possible = limit[a, n] >= 0
            for lane in range(B):
                here = sent[lane] == arm
                c_an[lane] += here
                y_an[lane] += here & possible & (word[lane] <= highest)


@compiled
def fill_unvisited(assigned, out):
    """out[n, lane] = whether nobody was sent to arm n."""
    A, B = assigned.shape
    for n in range(len(out)):
        arm = np.int32(n)
        row = out[n]
        for lane in range(B):
            row[lane] = True
        for a in range(A):
            sent = assigned[a]
            for lane in range(B):
                row[lane] &= sent[lane] != arm


@compiled
def play_round(index, dealt, seed, trial, round_, limit, c, y):
    """One round of a block by index rows made elsewhere (a user's own policy)."""
    I, N, B = index.shape
    A = c.shape[0]
    words = np.empty((words_needed(N + I * N + A), B), np.uint32)
    picked = np.empty((A, B), np.int32)
    assigned = np.empty((A, B), np.int32)
    fill_words(seed, trial, round_, words)
    assign(index, words[N:], words[2 * N :], dealt, picked, assigned)
    observe(assigned, words, limit, c, y)


@compiled
def play_rounds(rule, rows, dealt, seed, trial, first_round, L, s, mu, limit, c, y):
    """Play one round for each log term L[i], round numbers from first_round; the tables c, y are the state."""
    A, N, B = c.shape
    draws = 2 * N if draws_means(rule) else A if dealt == BY_CHANCE else 0
    words = np.empty((words_needed(N + rows * N + draws), B), np.uint32)
    index = np.empty((rows, N, B))
    picked = np.empty((A, B), np.int32)
    assigned = np.empty((A, B), np.int32)
    known = np.zeros((N, B), np.bool_)
    for i in range(L.shape[0]):
        fill_words(seed, trial, first_round + i, words)
        fill_indices(rule, s, mu, c, y, L[i], words[2 * N :], known, index)
        assign(index, words[N:], words[2 * N :], dealt, picked, assigned)
        observe(assigned, words, limit, c, y)
        if remembers(rule):
            fill_unvisited(assigned, known)


@compiled
def play_assignment_rounds(arms, seed, trial, first_round, L, limit, C, Y, c, y):
    """The same for UCB, which ranks whole assignments: arms[f, a], pulls C[f, lane], summed successes Y[f, lane]."""
    A, N, B = c.shape
    F = arms.shape[0]
    words = np.empty((words_needed(N + F), B), np.uint32)
    index = np.empty((1, F, B))
    chosen = np.empty((1, B), np.int32)
    for i in range(L.shape[0]):
        fill_words(seed, trial, first_round + i, words)
        fill_assignment_indices(C, Y, L[i], index[0])
        assign(index, words[N:], words, BY_INDEX, chosen, chosen)
        for lane in range(B):
            f = chosen[0, lane]
            C[f, lane] += 1
            for a in range(A):
                n = arms[f, a]
                success = np.int64(words[n, lane]) <= limit[a, n]
                c[a, n, lane] += 1
                y[a, n, lane] += success
                Y[f, lane] += success


@compiled
def fill_regrets(gap, c, out):
    """out[lane] = regret so far, from the pulls alone: sum_an c_an gap_an   [eq:regret_def]"""
    A, N, B = c.shape
    for lane in range(B):
        out[lane] = 0.0
    for a in range(A):
        for n in range(N):
            gap_an = gap[a, n]
            c_an = c[a, n]
            for lane in range(B):
                out[lane] += gap_an * c_an[lane]
