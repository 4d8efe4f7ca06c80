"""A mean that walks at random: a step up or down in every round, thrown back at 0 and 1   docs/model.md (16)"""

import numpy as np

from heterobandits.core.compiled import compiled
from heterobandits.core.randomness import WORD_SIZE, fill_words, words_needed


def room(arms):
    """The words of a round that `fill_walk` draws with."""
    return np.empty((words_needed(arms), 1), np.uint32)


@compiled
def fill_walk(seed, trial, step, words, out):
    """out[i, n] = the mean of arm n in round i + 1; out[0] is given. Steps are uniform in [-step, step]."""
    rounds, N = out.shape
    for i in range(1, rounds):
        fill_words(seed, trial, np.int64(i), words)
        for n in range(N):
            mu = out[i - 1, n] + step * (2.0 * WORD_SIZE * words[n, 0] - 1.0)
            mu = -mu if mu < 0.0 else mu
            out[i, n] = 2.0 - mu if mu > 1.0 else mu
