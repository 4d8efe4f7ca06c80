"""What a rule needs to know of the agents: who picks first, who is alike, and the arrays of the kernels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from false_alarms import Reporting
from heterobandits import InvalidInput
from heterobandits.model.team import Team

SLOPES = st.one_of(st.sampled_from([1.0, 0.9, 0.5, 0.25, 0.1]), st.floats(1e-6, 1.0))


@st.composite
def reports(draw):
    """Slope and offset of some agents, offset + slope at most 1; often some are alike, or nearly."""
    count = draw(st.integers(1, 6))
    pairs = []
    for _ in range(count):
        phi = draw(st.one_of(st.just(0.0), st.sampled_from([0.5, 0.1]), st.floats(0, 0.9)))
        pairs.append((max(1e-6, draw(SLOPES) * (1 - phi)), phi))
    if draw(st.booleans()):
        pairs = [draw(st.sampled_from(pairs)) for _ in pairs]
    return pairs


def team_of(pairs):
    return Reporting(*zip(*pairs, strict=True))


def in_turn(slopes):
    """The agents as they pick: one after the other, the first listed of those with the largest slope left."""
    left = list(range(len(slopes)))
    order = []
    while left:
        best = max(slopes[a] for a in left)
        order.append(next(a for a in left if slopes[a] == best))
        left.remove(order[-1])
    return order


@settings(max_examples=200)
@given(slopes=st.lists(SLOPES, min_size=1, max_size=7))
def test_the_most_sensitive_picks_first_and_of_equals_the_first_listed(slopes):
    assert Team(slopes).order.tolist() == in_turn(slopes)


@settings(max_examples=200)
@given(pairs=reports())
def test_agents_are_of_one_kind_if_they_report_alike(pairs):
    team = team_of(pairs)
    assert sorted(team.kinds) == sorted(set(pairs))
    assert [team.kinds[k] for k in team.kind] == pairs
    for a, first in enumerate(pairs):
        for b, second in enumerate(pairs):
            assert (team.kind[a] == team.kind[b]) == (first == second)


def test_agents_of_equal_sensitivity_are_of_one_kind():
    team = Team([0.5, 0.9, 0.5, 0.2, 0.9])
    assert team.kinds == [(0.9, 0.0), (0.5, 0.0), (0.2, 0.0)]
    assert team.kind.tolist() == [1, 0, 1, 2, 0]
    assert team.arrays.by_kind.tolist() == [1, 4, 0, 2, 3]
    assert team.arrays.r.tolist() == [0.0]
    assert team.arrays.root.tolist() == [0, 0, 0]


def test_a_false_alarm_makes_another_kind():
    """Both of the first two fail with probability 0.5 (1 - mu), and succeed with other odds."""
    team = team_of([(0.5, 0.5), (0.5, 0.0), (0.5, 0.5), (1.0, 0.0)])
    assert team.kinds == [(1.0, 0.0), (0.5, 0.5), (0.5, 0.0)]
    assert team.arrays.s_k.tolist() == [1.0, 1.0, 0.5]
    assert team.arrays.r.tolist() == [0.0, 1.0]
    assert team.arrays.root.tolist() == [0, 1, 0]


@settings(max_examples=200)
@given(pairs=reports())
def test_the_arrays_are_those_of_plain_python(pairs):
    team = team_of(pairs)
    made = team.arrays
    assert list(zip(made.d.tolist(), made.phi.tolist(), strict=True)) == pairs
    assert made.kind.tolist() == team.kind.tolist()
    assert made.order.tolist() == team.order.tolist() == in_turn([d for d, _ in pairs])
    assert list(zip(made.d_k.tolist(), made.phi_k.tolist(), strict=True)) == team.kinds
    assert made.s_k.tolist() == [d / (1 - phi) for d, phi in team.kinds]
    assert made.s_k.tolist() == sorted(made.s_k.tolist(), reverse=True)
    assert made.r.tolist() == sorted({phi / d for d, phi in pairs})
    assert [made.r[j] for j in made.root] == [phi / d for d, phi in team.kinds]
    # kind by kind, and as listed within a kind
    assert made.by_kind.tolist() == sorted(range(len(pairs)), key=lambda a: (team.kind[a], a))


@given(pairs=reports())
def test_kernels_take_the_arrays_as_they_are(pairs):
    """Contiguous, of 64 bits, and in the order that the kernels' signature has."""
    whole = ("kind", "by_kind", "order", "root")
    for name, array in team_of(pairs).arrays._asdict().items():
        assert array.ndim == 1
        assert array.flags.c_contiguous
        assert array.dtype == (np.int64 if name in whole else np.float64)


@settings(max_examples=200)
@given(pairs=reports(), data=st.data())
def test_relabelling_the_agents_relabels_kinds_and_order(pairs, data):
    new = data.draw(st.permutations(range(len(pairs))))
    before, after = team_of(pairs), team_of([pairs[a] for a in new])
    assert after.kinds == before.kinds
    assert after.kind.tolist() == before.kind[new].tolist()
    # agents of equal slope may swap turns; the slopes at each turn stay
    assert before.slope[before.order].tolist() == after.slope[after.order].tolist()
    if len(set(before.slope.tolist())) == len(pairs):
        assert [new[a] for a in after.order] == before.order.tolist()
    for name in ("d_k", "phi_k", "s_k", "root", "r"):
        same = getattr(before.arrays, name), getattr(after.arrays, name)
        assert same[0].tobytes() == same[1].tobytes()


@given(slopes=st.lists(SLOPES, min_size=1, max_size=5))
def test_nobody_gives_false_alarms_unless_said(slopes):
    team = Team(slopes)
    assert team.slope.tolist() == slopes
    assert team.offset.tolist() == [0.0] * len(slopes)
    assert team.arrays.r.tolist() == [0.0]
    assert team.arrays.s_k.tolist() == sorted(set(slopes), reverse=True)


def test_a_team_is_what_it_was_made_of():
    team = Team([0.5, 0.9], ["ada", "bob"])
    assert len(team) == 2
    assert team.names == ("ada", "bob")
    assert Team([0.5, 0.9]).names == ("agent 1", "agent 2")
    assert team == Team((0.5, 0.9), ("ada", "bob"))
    assert team != Team([0.9, 0.5], ["ada", "bob"])
    assert hash(team) == hash(Team((0.5, 0.9), ("ada", "bob")))


@pytest.mark.parametrize("bad", [[], [0.0], [1.5], [float("nan")], None, "0.5", [[0.5]]])
def test_what_is_no_sensitivity_is_refused(bad):
    with pytest.raises(InvalidInput, match=r"^sensitivities"):
        Team(bad)
