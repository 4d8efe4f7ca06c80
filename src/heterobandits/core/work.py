"""Room to work in: every array that a kernel needs for the time of a round, made once for a block of trials.

Kernels allocate nothing. What they need beside their arguments they take from the rows of a `Work`, which
begins anew with the rows that are left for every function they call: `beyond`.
"""

from typing import NamedTuple

import numpy as np

from heterobandits.core.compiled import inlined
from heterobandits.core.randomness import WORDS_PER_COUNTER

FLOAT_ROWS = (
    32  # more than the deepest chain of calls takes, beside two rows for each kind of agent
)
FLAG_ROWS = 2
KEYS = WORDS_PER_COUNTER  # the first of two rows of words for the keys of streams
WORD_ROWS = KEYS + 2
STRIP = 512  # of a long row, what is worked on at a time: it should stay in a core's first cache
SKEW = 40  # rows a power of two apart would crowd into the same places of that cache


class Work(NamedTuple):
    """Rows of one value for each lane."""

    floats: np.ndarray
    flags: np.ndarray
    words: np.ndarray


class Desk(NamedTuple):
    """Room for a block of trials: what `narrowed` cuts a `Work` for some of its lanes from, and strips of long rows."""

    floats: np.ndarray
    flags: np.ndarray
    words: np.ndarray
    places: np.ndarray
    sums: np.ndarray
    counts: np.ndarray


def desk(agents, lanes, counts=np.int32):
    """Room for as many agents in as many lanes; `counts` is what the tables hold."""
    return Desk(
        floats=np.empty((FLOAT_ROWS + 2 * agents) * lanes),
        flags=np.empty(FLAG_ROWS * lanes, np.bool_),
        words=np.empty(WORD_ROWS * lanes, np.uint32),
        places=np.empty(lanes, np.int64),
        sums=np.empty((2, STRIP + SKEW)),
        counts=np.empty((3, STRIP + SKEW), counts),
    )


def work(agents, lanes):
    """A `Work` of its own for as many agents in as many lanes."""
    return Work(
        floats=np.empty((FLOAT_ROWS + 2 * agents, lanes)),
        flags=np.empty((FLAG_ROWS, lanes), np.bool_),
        words=np.empty((WORD_ROWS, lanes), np.uint32),
    )


@inlined
def narrowed(desk, lanes):
    """A `Work` for this many lanes."""
    rows = len(desk.floats) // len(desk.places)
    return Work(
        desk.floats[: rows * lanes].reshape((rows, lanes)),
        desk.flags[: FLAG_ROWS * lanes].reshape((FLAG_ROWS, lanes)),
        desk.words[: WORD_ROWS * lanes].reshape((WORD_ROWS, lanes)),
    )


@inlined
def beyond(work, floats, flags):
    """What is left of it after so many rows."""
    return Work(work.floats[floats:], work.flags[flags:], work.words)
