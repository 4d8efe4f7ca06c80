"""Randomness by address: the word that belongs to (seed, trial, round, slot), and no other state.

The generator is Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
easy as 1, 2, 3", 2011). One counter gives four words of 32 bits, here the words of four
neighbouring slots:

    counter = (slot // 4, round, low half of trial, high half of trial)
    key     = (low half of seed, high half of seed)

What the slots of a round mean stands in `Slots`.
"""

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

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


class Slots(NamedTuple):
    """Where the words of a round begin, by what they are for.

    Attributes
    ----------
    luck
        One for each arm: agent a succeeds on arm n if the uniform number is below the probability of that.
    ties
        One for each arm: of tied arms the one with the larger word wins. Where each agent has
        an index row of its own, as many again for each further turn.
    draws
        Where the agents share their index rows, one for each agent by its turn (if turns are random), or
        as many for each arm as the rule takes: thompson and its kin take the key of a stream.
    own
        For whatever a policy of the user's own draws.
    """

    luck: int
    ties: int
    draws: int
    own: int


def slots(A, N):
    """The slots of a round with A agents and N arms."""
    return Slots(luck=0, ties=N, draws=2 * N, own=(A + 3) * N)


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


@lru_cache(maxsize=4096)
def luck_of_tests(tests, chance):
    """How lucky an arm's word must be: at least k of so many tests succeed if it is at most the k-th of these.

    One word decides how many: it is compared with the exact probabilities that at least 1, 2, ... tests of
    this chance succeed, rounded up to a multiple of 2**-32. -1 means never.
    """
    p = Fraction(chance)
    a, whole = p.numerator, p.denominator
    b = whole - a
    if b == 0:
        return (2**32 - 1,) * tests
    # C(n, k) a^k b^(n-k) over whole^n, from k = n down: each from the one before, in whole numbers
    term, tail, certain, highest = a**tests, 0, whole**tests, []
    for k in range(tests, 0, -1):
        tail += term
        highest.append(-(-(tail << 32) // certain) - 1)
        term = term * b * k // (a * (tests - k + 1)) if a else 0
    return tuple(reversed(highest))


def words_needed(count):
    """The number of rows `fill_words` needs so that `count` slots are filled."""
    return -(-count // WORDS_PER_COUNTER) * WORDS_PER_COUNTER


def round_words(seed, trial, round_, first, count, lanes=1):
    """The words of `count` slots from `first` on, in a round of neighbouring trials: shape (count, lanes)."""
    out = np.empty((words_needed(first + count), lanes), np.uint32)
    fill_words(np.uint64(seed), np.uint64(trial), np.int64(round_), out)
    return np.ascontiguousarray(out[first : first + count])


def uniform(seed, trial, round_, slot):
    """The number in [0, 1) that belongs to this address: a multiple of 2**-32."""
    return float(round_words(seed, trial, round_, slot, 1)[0, 0]) * WORD_SIZE
