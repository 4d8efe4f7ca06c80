"""What a recorded plan notes of its reasons, and plans of versions that did not note it."""

import pytest

from heterobandits.campaigns import plan_events
from heterobandits.campaigns.reasons import NOTED_FIELDS, assigned_from
from heterobandits.campaigns.reducer import parse_circumstances
from heterobandits.errors import InvalidInput
from states import begun, lived


def body_of(state):
    """The next plan as its event has it, and what it is of."""
    given = parse_circumstances(state)
    return given, plan_events.body_of_plan(state, given, plan_events.plan_of(state, given))


@pytest.fixture
def state():
    return lived(begun([0.9, 0.5], 4, season=9), [0.5, 0.2, 0.4, 0.1], 3)


def test_reasons_are_read_as_they_were_written(state):
    given, body = body_of(state)
    plan = plan_events.plan_of(state, given)
    read = [assigned_from(state, one).reason for one in body["assignments"]]
    assert read == list(plan.reasons)
    assert all(reason.pulls is not None for reason in read)


def test_a_plan_that_notes_less_follows_all_the_same(state):
    given, body = body_of(state)
    bare = [
        {name: value for name, value in one.items() if name not in NOTED_FIELDS}
        for one in body["assignments"]
    ]
    assert bare != body["assignments"]
    plan_events.check_recorded_plan(state, body | {"assignments": bare}, given)
    old = assigned_from(state, bare[0]).reason
    assert (old.pulls, old.lot, old.place) == (None, None, None)
    assert str(old) == "one of the 2 most promising arms"


@pytest.mark.parametrize("change", [{"pulls": 99}, {"code": "random"}, {"more": 1}, {"place": 7}])
def test_a_plan_that_notes_something_else_does_not_follow(state, change):
    given, body = body_of(state)
    first, *others = body["assignments"]
    wrong = [first | change, *others]
    with pytest.raises(InvalidInput, match="its assignments differ"):
        plan_events.check_recorded_plan(state, body | {"assignments": wrong}, given)
    with pytest.raises(InvalidInput, match="its assignments differ"):
        plan_events.check_recorded_plan(state, body | {"assignments": others}, given)


@pytest.mark.parametrize(
    "change",
    [
        {"place": 1.5, "finds": 0.9},
        {"place": -100, "finds": 0.9},
        {"place": True, "finds": 0.9},
        {"place": 1, "finds": 10**400},
        {"place": 1, "finds": 1.5},
        {"place": 1, "finds": None},
        {"pulls": 1.5},
        {"pulls": True},
        {"pulls": 10**5000},
        {"successes": 10**6},
        {"lot": 1},
        {"lot": True},
        {"visited": True},
        {"index": True},
    ],
)
def test_what_no_reason_can_note_is_refused(state, change):
    _, body = body_of(state)
    with pytest.raises(InvalidInput):
        assigned_from(state, body["assignments"][0] | change)


@pytest.mark.parametrize("lacking", ["pulls", "successes", "place", "finds"])
def test_half_of_what_belongs_together_is_refused(state, lacking):
    _, body = body_of(state)
    first = body["assignments"][0] | {"place": 1, "finds": 0.9}
    assert assigned_from(state, first).reason.place == 1
    with pytest.raises(InvalidInput, match="or neither"):
        assigned_from(state, {name: value for name, value in first.items() if name != lacking})


def test_what_is_no_number_is_refused(state):
    _, body = body_of(state)
    with pytest.raises(InvalidInput, match="whole number"):
        assigned_from(state, body["assignments"][0] | {"pulls": "many"})
