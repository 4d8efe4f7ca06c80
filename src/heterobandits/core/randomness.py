"""Randomness by address: the word that belongs to (seed, trial, round, slot), and no other state.

The generator is Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
easy as 1, 2, 3", 2011). One counter gives four words of 32 bits, here the words of four
neighbouring slots:

    counter = (slot // 4, round, low half of trial, high half of trial)
    key     = (low half of seed, high half of seed)

What the slots of a round mean, for N arms:

    n              the luck of arm n: agent a succeeds there if uniform < s_a mu_n
    N + i N + n    the tie-break of arm n in index row i (one row if the agents share it)
    2 N + a        the draw of agent a for its turn, where turns are random (rows are shared)
    2 N + 2 n      and the next: the key of the stream that arm n's mean is drawn from (thompson and its kin)
"""

import numpy as np

from heterobandits.core.compiled import compiled, inlined

MULTIPLIER_0 = np.uint64(0xD2511F53)
MULTIPLIER_1 = np.uint64(0xCD9E8D57)
WEYL_0 = np.uint64(0x9E3779B9)
WEYL_1 = np.uint64(0xBB67AE85)
LOW_HALF = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
WORDS_PER_COUNTER = 4
WORD_SIZE = 2.0**-32


@inlined
def philox(c0, c1, c2, c3, k0, k1):
    """Four random words from a counter of four words and a key of two (each 32 bits in a uint64)."""
    for _ in range(10):
        product_0 = (c0 & LOW_HALF) * MULTIPLIER_0
        product_1 = (c2 & LOW_HALF) * MULTIPLIER_1
        c0 = (product_1 >> HALF) ^ c1 ^ k0
        c2 = (product_0 >> HALF) ^ c3 ^ k1
        c1 = product_1 & LOW_HALF
        c3 = product_0 & LOW_HALF
        k0 = (k0 + WEYL_0) & LOW_HALF
        k1 = (k1 + WEYL_1) & LOW_HALF
    return c0, c1, c2, c3


@compiled
def philox_words(counter, key, out):
    """Philox 4x32-10 of one counter (four words) and key (two words), for known-answer tests."""
    out[0], out[1], out[2], out[3] = philox(
        counter[0], counter[1], counter[2], counter[3], key[0], key[1]
    )


@compiled
def fill_words(seed, trial, round_, out):
    """Fill out[slot, lane] with the words of slots 0, 1, ... of trials trial, trial + 1, ...

    The number of rows must be a multiple of four.
    """
    k0 = np.uint64(seed) & LOW_HALF
    k1 = np.uint64(seed) >> HALF
    first = np.uint64(trial)
    for group in range(out.shape[0] // WORDS_PER_COUNTER):
        row_0 = out[4 * group]
        row_1 = out[4 * group + 1]
        row_2 = out[4 * group + 2]
        row_3 = out[4 * group + 3]
        for lane in range(out.shape[1]):
            address = first + np.uint64(lane)
            w0, w1, w2, w3 = philox(
                np.uint64(group), np.uint64(round_), address & LOW_HALF, address >> HALF, k0, k1
            )
            row_0[lane] = w0
            row_1[lane] = w1
            row_2[lane] = w2
            row_3[lane] = w3


@compiled
def fill_stream(key_0, key_1, counter, out):
    """Fill out[0 .. 3, lane] with the words at this counter of a stream of its own for each lane's key."""
    row_0 = out[0]
    row_1 = out[1]
    row_2 = out[2]
    row_3 = out[3]
    zero = np.uint64(0)
    for lane in range(out.shape[1]):
        w0, w1, w2, w3 = philox(
            np.uint64(counter), zero, zero, zero, np.uint64(key_0[lane]), np.uint64(key_1[lane])
        )
        row_0[lane] = w0
        row_1[lane] = w1
        row_2[lane] = w2
        row_3[lane] = w3


def words_needed(slots):
    """The number of rows `fill_words` needs so that `slots` slots are filled."""
    return -(-slots // WORDS_PER_COUNTER) * WORDS_PER_COUNTER


def round_words(seed, trial, round_, slots):
    """The words of slots 0 .. slots - 1 of one trial's round, as an array of uint32."""
    out = np.empty((words_needed(slots), 1), np.uint32)
    fill_words(np.uint64(seed), np.uint64(trial), np.int64(round_), out)
    return out[:slots, 0]


def uniform(seed, trial, round_, slot):
    """The number in [0, 1) that belongs to this address: a multiple of 2**-32."""
    return float(round_words(seed, trial, round_, slot + 1)[slot]) * WORD_SIZE
