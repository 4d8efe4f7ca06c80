"""What a rule may look at: the agents, the two tables of learning and the log term, in a block of trials."""

from collections.abc import Callable
from types import FunctionType
from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int32, int64, typeof, types, uint32, void

from heterobandits.core.beliefs import BeliefCells, BeliefRoom, belief_room, no_cells
from heterobandits.core.compiled import compiled, kernel
from heterobandits.core.work import STRIP, desk


class Agents(NamedTuple):
    """The agents as kernels take them; `team.Team.arrays` makes it.

    d, phi and kind belong to the agents; by_kind lists these kind by kind, order as they pick. d_k, phi_k,
    s_k and root belong to the kinds, with s = d / (1 - phi) falling; r[root] = phi / d, each value once. Between
    s_low and s_high, phi_low and phi_high lie the sensitivity and the offset of an agent that was calibrated.
    """

    d: np.ndarray
    phi: np.ndarray
    kind: np.ndarray
    by_kind: np.ndarray
    order: np.ndarray
    d_k: np.ndarray
    phi_k: np.ndarray
    s_k: np.ndarray
    root: np.ndarray
    r: np.ndarray
    s_low: np.ndarray
    s_high: np.ndarray
    phi_low: np.ndarray
    phi_high: np.ndarray


class Seen(NamedTuple):
    """What a rule may look at in a block of trials.

    Attributes
    ----------
    agents, mu
        The agents; the means, which the oracle alone knows.
    c, y
        The two tables of learning, [agent, arm, lane].
    L
        The log term of the round in each lane, and those of the first lanes once more, as `log_row` lays them out.
    keys
        Random words, [slot, lane]: as many for each arm as the rule's record asks for.
    remembered
        Where remembered[n, lane], the tables of arm n are those that its index was computed from in the last round,
        with the same L: it need not be computed again.
    cells, room
        The priors of the arms, and room for what follows from them, where a rule goes by a prior that is not uniform.
    """

    agents: Agents
    mu: np.ndarray
    c: np.ndarray
    y: np.ndarray
    L: np.ndarray
    keys: np.ndarray
    remembered: np.ndarray
    cells: BeliefCells
    room: BeliefRoom


def log_row(lanes):
    """Room for the log terms of as many lanes, and for a strip of the first ones once more.

    A strip of the long row of all arms in all lanes may begin in any lane and go on with the next arm's first.
    """
    return np.empty(lanes + STRIP)


@compiled
def fill_log_row(terms, L):
    """Lay out the log terms of the lanes."""
    B = len(terms)
    for lane in range(B):
        L[lane] = terms[lane]
    for i in range(B, len(L)):
        L[i] = L[i - B]


def see(agents, pulls, successes, *, means=None, log_term=0.0, keys=None, cells=None):
    """What a rule looks at, outside of a run: nothing is known from a round before.

    The log term is one for all lanes, or an array; `cells` are those of a prior.
    """
    cells = no_cells() if cells is None else cells
    N, B = pulls.shape[1:]
    L = log_row(B)
    fill_log_row(np.broadcast_to(np.asarray(log_term, np.float64), B).copy(), L)
    return Seen(
        agents,
        np.zeros(N) if means is None else means,
        pulls,
        successes,
        L,
        np.zeros((0, B), np.uint32) if keys is None else keys,
        np.zeros((N, B), np.bool_),
        cells,
        belief_room(cells),
    )


AGENTS = types.NamedTuple([float64[::1]] * 2 + [int64[::1]] * 3 + [float64[::1]] * 3 + [int64[::1]] + [float64[::1]] * 5, Agents)  # fmt: skip

BELIEF_CELLS = typeof(no_cells())
BELIEF_ROOM = typeof(belief_room(no_cells()))


def _seen(cell):
    """The type of what is seen in tables of such cells."""
    table = cell[:, :, ::1]
    rest = [float64[::1], uint32[:, ::1], boolean[:, ::1], BELIEF_CELLS, BELIEF_ROOM]
    return types.NamedTuple([AGENTS, float64[::1], table, table, *rest], Seen)


SEEN = _seen(int32)
DESK = typeof(desk(1, 1))
FILL = void(SEEN, DESK, float64[:, :, ::1])
BAND = void(SEEN, DESK, float64[:, :, ::1], float64[:, :, ::1])
FILL_REAL = void(_seen(float64), typeof(desk(1, 1, np.float64)), float64[:, :, ::1])


class IndexKernels(NamedTuple):
    """The kernels of a rule: for tables of whole numbers, and for tables of real numbers.

    Real are the tables of a rule that forgets, and those in which visits under way count with what is expected of them.
    """

    whole: Callable
    real: Callable


def index_kernels(fill):
    """Both kernels of a rule, from one function; each is compiled when it is first used."""
    code = fill.__code__, fill.__globals__, fill.__name__, fill.__defaults__, fill.__closure__
    twin = FunctionType(*code)
    twin.__qualname__ = fill.__qualname__
    return IndexKernels(kernel(fill, FILL), kernel(twin, FILL_REAL, " real"))
