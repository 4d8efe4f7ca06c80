"""Policies beside the best possible in tiny worlds."""

import pytest

from heterobandits import CATALOGUE, Policy
from heterobandits.experiments.tiny_worlds import (
    QUICK_TINY_WORLDS,
    TINY_WORLDS,
    TinyWorld,
    distances_to_optimum,
)

LEFT_OUT = {"ucb", "oracle", "pbm-pie", "thompson", "thompson-sorted", "own"}


def test_only_what_is_a_function_of_the_tables_is_computed():
    own = Policy("own", index=lambda known: known.pulls[0])
    found = distances_to_optimum([*CATALOGUE.values(), own], [TinyWorld((0.5,), 2, 1)])
    forgetting = {name for name, entry in CATALOGUE.items() if entry.forgets}
    assert {one.policy for one in found} == set(CATALOGUE) - LEFT_OUT - forgetting


def test_in_one_round_nobody_can_do_better():
    """Any arm has 1/2 on the average, and the better of two 2/3: with a sensitivity of 1/2 the difference is 1/12."""
    for one in distances_to_optimum(CATALOGUE.values(), [TinyWorld((0.5,), 2, 1)]):
        assert one.regret == pytest.approx(1 / 12, rel=1e-12)
        assert one.optimum == pytest.approx(1 / 12, rel=1e-12)
        assert one.ratio == pytest.approx(1.0, rel=1e-12)


def test_nobody_is_better_than_the_best():
    found = distances_to_optimum(CATALOGUE.values(), QUICK_TINY_WORLDS)
    assert len({one.world for one in found}) == len(QUICK_TINY_WORLDS)
    assert min(one.ratio for one in found) >= 1 - 1e-12
    by_name = {name: [one.ratio for one in found if one.policy == name] for name in CATALOGUE}
    assert max(by_name["season"]) < 1.01 < min(by_name["min-width"])


def test_a_world_is_named_by_its_size():
    assert TINY_WORLDS[2].title == "agents 0.9, 0.4; 2 arms, T = 8"
