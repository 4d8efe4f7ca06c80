"""The cells of a team and a prior, as kernels take them: what outcomes and priors say of every mean   docs/priors.md (13)"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.core import beliefs as kernels
from heterobandits.model.prior import UNIFORM, BetaShape, Prior
from heterobandits.model.team import Team

CELLS_MIN, CELLS_MAX = 256, 8192
ALL_ARMS_MAX_CELLS = (
    2**19
)  # cells of all arms together, where there are more than `CELLS_MIN` of each
CELLS_MAX_KEPT = 8  # teams with priors of which the cells stay at hand: some megabytes each
LEVEL_LOGITS = np.arange(-7.0, 6.01, 0.5)  # of the common mean m: from 9 in 10,000 to 0.9975
STRENGTHS = 2.0 ** np.arange(-2.0, 15.01)  # the k of a common prior: what it counts for, in tests
CANDIDATE_MIN_SHAPE = 0.1  # of a and b of a candidate: most places are then empty, and a few rich
CANDIDATE_MAX_STRENGTH = 1024.0  # of a candidate, or else of an a this small:
RARE_MAX_SHAPE = 4.0
# of the weights, of m (1 - m) and of k: docs/priors.md has what others bring
LEVEL_POWER, STRENGTH_POWER, POLE_POWER = -0.65, -0.5, 3.0


class Candidates(NamedTuple):
    """The common priors among which the arms decide: a and b, and the logarithm of the weight of each beforehand."""

    a: Floats
    b: Floats
    ln_weight: Floats


@lru_cache(maxsize=1)
def common_priors() -> Candidates:
    """The grid of Beta(m k, (1 - m) k), in even steps of ln(m / (1 - m)) and of ln k, weighed as docs/priors.md says."""
    m, k = (part.ravel() for part in np.meshgrid(1.0 / (1.0 + np.exp(-LEVEL_LOGITS)), STRENGTHS))
    a, b = m * k, (1.0 - m) * k
    kept = (a >= CANDIDATE_MIN_SHAPE) & (b >= CANDIDATE_MIN_SHAPE)
    kept &= (k <= CANDIDATE_MAX_STRENGTH) | (a <= RARE_MAX_SHAPE)
    ln_weight = LEVEL_POWER * np.log(m * (1.0 - m)) + STRENGTH_POWER * np.log(k)
    poles = np.minimum(1.0, 2.0 * a) * np.minimum(
        1.0, 2.0 * b
    )  # 1 where the density in the angle has none
    ln_weight += POLE_POWER * np.log(poles)
    return Candidates(a[kept], b[kept], ln_weight[kept])


def cells_for(pulls: float, arms: int) -> int:
    """How many cells it takes for an arm of so many pulls: about half as wide, in the angle, as the posterior's standard deviation.

    Of many arms there are fewer.
    """
    wanted = 2.0 * math.pi * math.sqrt(max(1.0, pulls))
    most = min(CELLS_MAX, 1 << int(math.log2(ALL_ARMS_MAX_CELLS / arms + 1.0)))
    return max(CELLS_MIN, min(most, 1 << math.ceil(math.log2(wanted))))


def belief_cells(team: Team, prior: Prior | None, pulls: float) -> Any:
    """The cells for an arm of so many pulls at most, in the room of the kernels: `BeliefCells`; none without a prior."""
    if prior is None:
        return kernels.no_cells()
    arrays = team.arrays
    kinds = (tuple(arrays.r.tolist()), tuple(arrays.s_k.tolist()))
    return _cells_of_kinds(*kinds, prior, count_cells(prior, pulls))


def count_cells(prior: Prior, pulls: float) -> int:
    """How many cells each arm has, where an arm has so many pulls at most."""
    strongest = max((a + b for a, b in filter(None, prior.shapes)), default=0.0)
    return cells_for(pulls + strongest, len(prior.shapes))


@lru_cache(maxsize=CELLS_MAX_KEPT)
def _cells_of_kinds(
    roots: tuple[float, ...], slopes: tuple[float, ...], prior: Prior, count: int
) -> Any:
    mu, edges = kernels.means_of_cells(count)
    r, s = np.array(roots), np.array(slopes)
    ln_hit, ln_miss = np.empty((len(r), count)), np.empty((len(s), count))
    kernels.fill_cell_logs(mu, r, s, ln_hit, ln_miss)
    common = prior.learned and None in prior.shapes
    a, b, ln_weight = (part if common else part[:0] for part in common_priors())
    alone = [None if one is None and prior.learned else one or UNIFORM for one in prior.shapes]
    distinct: list[BetaShape] = sorted({one for one in alone if one is not None})
    rows = [-1 if one is None else distinct.index(one) for one in alone]
    candidates = np.empty((len(a), count))
    kernels.fill_chances(ln_priors(mu, a, b), candidates)
    own = (np.array([shape[i] for shape in distinct], float) for i in (0, 1))
    return kernels.BeliefCells(
        mu=mu,
        edges=edges,
        ln_hit=ln_hit,
        ln_miss=ln_miss,
        prior=np.ascontiguousarray(candidates.T),
        candidates=candidates,
        ln_prior=np.log(candidates.T if distinct else np.empty((0, 0))).copy(),
        ln_weight=ln_weight.copy(),
        ln_own=ln_priors(mu, *own),
        own_row=np.array(rows, np.int64),
    )


def ln_priors(mu: Floats, a: Floats, b: Floats) -> Floats:
    """The logarithms of the probabilities of cells with these middles under each Beta(a, b), priors by cells."""
    out = np.empty((len(a), len(mu)))
    kernels.fill_cell_priors(mu, a, b, out)
    return out
