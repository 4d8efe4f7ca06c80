"""Every rule for tables of real numbers, in which visits under way count with what is expected of them."""

from functools import partial

import numpy as np
import pytest
from numba import config

import reference
from heterobandits import CATALOGUE, policy
from heterobandits.core.compiled import inlined
from heterobandits.core.families import counted
from heterobandits.core.randomness import round_words
from heterobandits.core.seen import see
from heterobandits.core.work import desk
from heterobandits.model.prior import Prior
from heterobandits.model.team import Team

RULES = [name for name, entry in CATALOGUE.items() if entry.index_per != "assignment"]
LEARNING = [name for name in RULES if CATALOGUE[name].learns]
EXACT = [
    name
    for name in LEARNING
    if "width" in name or name in ("min-ucb", "no-sharing", "cucb", "pbm-ucb")
]
SENSITIVITIES = [0.9, 0.5, 0.8, 0.5]
TEAMS = {
    "silent": Team(SENSITIVITIES),
    "false alarms": Team(SENSITIVITIES, false_positive_rates=[0.1, 0.0, 0.0, 0.05]),
    "calibrated": Team(calibration=[(17, 20), (9, 20), (16, 20), (9, 20)], sensitivities=None),
}
ROUNDS = 200  # more than the tests of an arm
PRIORS = {"uniform": None, "stated": Prior(((2.0, 3.0),) * 6), "learned": Prior((None,) * 6, True)}


def tables(seed, lanes=7):
    """Whole numbers; nobody was ever on the first arm."""
    rng = np.random.default_rng(seed)
    c = rng.integers(0, 9, (4, 6, lanes)).astype(np.int32)
    c[:, 0] = 0
    return c, rng.binomial(c, 0.3).astype(np.int32)


def rows(name, team, c, y, prior=None):
    words = partial(round_words, 3, 0, 5, lanes=c.shape[2])
    return policy(name).index_rows(team, c, y, ROUNDS, words, prior)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
@pytest.mark.parametrize("team", TEAMS.values(), ids=TEAMS.keys())
@pytest.mark.parametrize("name", RULES)
def test_whole_numbers_are_real_numbers(name, team, prior):
    """To the last bit, so that a plan does not change by the kernel that makes it."""
    c, y = tables(1)
    whole = rows(name, team, c, y, prior)
    assert rows(name, team, c.astype(float), y.astype(float), prior).tobytes() == whole.tobytes()


@pytest.mark.parametrize("team", ["silent", "false alarms"])
@pytest.mark.parametrize("name", LEARNING)
def test_fractions_are_the_references(name, team):
    c, y = (table.astype(float) for table in tables(2, 3))
    c[0, 2:4] += 0.25
    y[0, 2:4] += 0.125
    c[2, 1] += 3.0
    y[2, 1] += 0.7
    made = rows(name, TEAMS[team], c, y)
    slope, offset = TEAMS[team].slope.tolist(), TEAMS[team].offset.tolist()
    base, how = reference.FORGETS.get(name, (name, None))
    t = reference.recalled(how, policy(name).memory, ROUNDS) if how else ROUNDS
    for lane in range(3):
        if policy(name).rule.words:
            words = round_words(3, 0, 5, policy(name).first_draw(4, 6), 12, 3)[:, lane].tolist()
        else:
            words = None
        mine, mine_y = c[:, :, lane].tolist(), y[:, :, lane].tolist()
        if any(offset):
            reports = [
                [(slope[a], offset[a], mine[a][n], mine_y[a][n]) for a in range(4)]
                for n in range(6)
            ]
            wanted = reference.reported_rows(base, reports, t, 0.05, None, words)
        else:
            wanted = reference.index_rows(base, slope, mine, mine_y, t, 0.05, None, words)
        # the quadrature is exact for whole numbers; a fraction of a success leaves the density an edge at 0
        rtol = 1e-12 if name in EXACT else 2e-5
        np.testing.assert_allclose(made[:, :, lane], wanted, rtol=rtol)


@inlined
def share(c, y, L):
    return y / c


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_a_kernel_that_nobody_calls_is_not_compiled():
    both = counted(share)
    c, y = tables(3, 2)
    out = np.empty((1, 6, 2))
    both.whole(see(TEAMS["silent"].arrays, c, y), desk(4, 2), out)
    assert both.whole.dispatcher.signatures
    assert not both.real.dispatcher.signatures
    again = np.empty((1, 6, 2))
    real = (c.astype(float), y.astype(float))
    both.real(see(TEAMS["silent"].arrays, *real), desk(4, 2, np.float64), again)
    assert again.tobytes() == out.tobytes()
    assert len(both.real.dispatcher.signatures) == len(both.whole.dispatcher.signatures) == 1
