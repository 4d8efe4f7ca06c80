"""What people change by hand: who went elsewhere, which arms are given up, how an agent reports."""

import json

import pytest

from heterobandits import InvalidInput, Planner

pytestmark = pytest.mark.smoke


def began(**given):
    """A planner with a fixed round: x goes to a, y to b."""
    planner = Planner([0.9, 0.5], list("abc"), agent_names=["x", "y"], seed=3, **given)
    planner.accept(planner.ask(forced=[("x", "a"), ("y", "b")]))
    return planner


def again(planner):
    """The planner, saved and restored."""
    text = planner.to_json()
    made = Planner.from_json(text)
    assert made.to_json() == text
    assert made.history == planner.history
    assert made.ask() == planner.ask()
    return made


class TestOverride:
    def test_an_agent_went_elsewhere(self):
        planner = began()
        planner.override(1, "y", "c")
        assert planner.history[0].assignment == (0, 1)
        assert planner.history[0].sent == {"x": "a", "y": "c"}
        planner = again(planner)
        planner.tell(1, {"x": 1, "y": (2, 3)})
        assert planner.pulls.tolist() == [[1, 0, 0], [0, 0, 3]]
        assert not planner.waiting

    def test_what_was_told_moves_along(self):
        planner = began()
        planner.tell(1, [1, (2, 3)])
        planner.override(1, 1, ["a"])  # where x is, too
        assert planner.pulls.tolist() == [[1, 0, 0], [3, 0, 0]]
        assert again(planner).history[0].outcomes == ((1, 1), (2, 3))
        planner.override(1, "y", ["b"])  # as planned, after all
        assert planner.pulls.tolist() == [[1, 0, 0], [0, 3, 0]]
        assert not planner.history[0].held.moved

    def test_to_several_arms(self):
        planner = began()
        planner.override(1, "x", ["a", "c"])
        with pytest.raises(InvalidInput, match="'x' went to a, c in round 1: say which arm"):
            planner.tell(1, {"x": (1, 1)})
        planner.tell(1, {("x", "c"): (1, 2)})
        assert planner.waiting[0].missing == ("x", "y")
        assert planner.history[0].outcomes == ((None, (1, 2)), None)
        planner = again(planner)
        assert str(planner.history[0]).splitlines()[1] == ("  x -> a: no outcome yet, c: 1 of 2")
        planner.tell(1, [[(0, 1), None], 1])
        planner.correct(1, {"x": [(1, 1), (0, 2)]})
        assert planner.successes.tolist() == [[1, 0, 0], [0, 1, 0]]
        with pytest.raises(InvalidInput, match="'x' to 'a' in round 1 is reported already"):
            planner.override(1, "x", "b")

    def test_home(self):
        planner = began()
        planner.override(1, "y", [])
        planner.tell(1, {"x": 1})
        assert not again(planner).waiting
        with pytest.raises(InvalidInput, match="1 for 'y': the plan sent it nowhere"):
            planner.tell(1, {"y": 1})

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ((2, "x", "b"), "round 2 is not fixed"),
            ((1, "z", "b"), "'z'"),
            ((1, "x", "d"), "'d'"),
            ((1, "x", ["a"]), "'x' goes there already in round 1"),
            ((1, "x", 5), "arms is 5"),
        ],
    )
    def test_what_is_refused(self, given, why):
        planner = began()
        before = planner.to_json()
        with pytest.raises(InvalidInput, match=why):
            planner.override(*given)
        assert planner.to_json() == before

    def test_the_same_plan_again_is_the_round_as_it_was_fixed(self):
        planner = Planner([0.9, 0.5], 3, seed=3)
        plan = planner.ask()
        planner.accept(plan)
        planner.override(1, 0, [])
        assert planner.accept(plan) == 1


class TestRetire:
    def test_nobody_is_sent_there_until_it_is_restored(self):
        planner = began()
        planner.tell(1, [1, 1])
        old = planner.ask()
        planner.retire("c")
        assert planner.retired == ("c",)
        assert "c (retired)" in str(planner)
        planner = again(planner)
        assert 2 not in planner.ask().assignment
        assert planner.ask() == planner.ask(closed="c")
        with pytest.raises(InvalidInput, match="before the team or the arms changed"):
            planner.accept(old)
        with pytest.raises(InvalidInput, match="that arm is closed"):
            planner.ask(forced=[("x", "c")])
        with pytest.raises(InvalidInput, match="at most as many agents as arms"):
            planner.join("z", 0.5)
        planner.restore("c")
        assert planner.ask() == old

    def test_what_is_refused(self):
        planner = began()
        with pytest.raises(InvalidInput, match="'a' is here already"):
            planner.restore("a")
        planner.retire("a")
        with pytest.raises(InvalidInput, match="'a' is retired already"):
            planner.retire("a")
        planner.retire("b")
        assert sorted(map(str, planner.ask().assignment)) == ["2", "None"]  # one stays home
        with pytest.raises(InvalidInput, match="'c' is the last arm: add another one before"):
            planner.retire("c")


class TestRevise:
    def test_from_now_on(self):
        planner = began()
        planner.tell(1, {"x": 1})
        planner.revise("y", "now", sensitivity=0.8)
        assert planner.agent_names == ("x", "y (row 1)", "y")
        assert planner.left == ("y (row 1)",)
        assert planner.sensitivities == (0.9, 0.5, 0.8)
        planner.tell(1, {"y": (1, 4)})  # who still was as before
        planner = again(planner)
        assert planner.history[0].agent_names == ("x", "y")
        planner.tell(planner.ask(), {"y": 1})
        assert planner.pulls.sum(axis=1).tolist() == [1, 4, 1]
        planner.correct(1, {"y": (0, 4)})
        assert planner.successes.sum(axis=1).tolist() == [1, 0, 1]
        for change in (planner.leave, lambda a: planner.revise(a, "now", tests=2)):
            with pytest.raises(InvalidInput):
                change("y (row 1)")
        with pytest.raises(InvalidInput, match="is how an agent reported before it was revised"):
            planner.join("y (row 1)", 0.5)

    def test_always(self):
        planner = began()
        planner.tell(1, [1, 1])
        planner.revise("y", "now", sensitivity=0.8)
        planner.revise("y", "always", calibration=(17, 20), tests=3)
        stated = Planner(
            None,
            list("abc"),
            seed=3,
            calibration=[(17, 20)],
        ).sensitivities
        assert planner.sensitivities == (0.9, *stated * 2)
        assert planner.tests == (1, 3, 3)
        again(planner)

    def test_who_went_nowhere_yet_has_no_second_row(self):
        planner = Planner([0.9, 0.5], 3)
        planner.revise("agent 1", "now", false_positive_rate=0.1)
        assert planner.agent_names == ("agent 1", "agent 2")
        assert planner.false_positive_rates == (0.1, 0.0)

    def test_who_left_and_was_revised_returns_so(self):
        planner = began()
        planner.leave("y")
        planner.revise("y", "now", sensitivity=0.8)
        assert planner.left == ("y (row 1)", "y")
        planner.join("y", 0.8)
        assert planner.left == ("y (row 1)",)
        again(planner)

    def test_a_name_like_that_of_a_row(self):
        planner = began()
        planner.add_arm("d")
        planner.join("y (row 1)", 0.7)
        planner.revise("y", "now", sensitivity=0.8)
        assert planner.agent_names == ("x", "y (row 1) (row 1)", "y (row 1)", "y")
        again(planner)

    @pytest.mark.parametrize(
        ("given", "reports", "why"),
        [
            (("z", "now"), {"tests": 2}, "'z'"),
            (("x", "soon"), {"tests": 2}, "since is 'soon'"),
            (("x", "now"), {"sensitivity": 1.5}, r"sensitivit.* is 1\.5"),
            (("x", "now"), {"mood": 2}, "mood"),
        ],
    )
    def test_what_is_refused(self, given, reports, why):
        planner = began()
        before = planner.to_json()
        with pytest.raises(InvalidInput, match=why):
            planner.revise(*given, **reports)
        assert planner.to_json() == before


class TestSavedFormats:
    def test_format_4_had_one_row_for_each_agent(self):
        planner = began()
        planner.tell(1, [1, 0])
        planner.forget("a")
        state = json.loads(planner.to_json())
        assert state.pop("rows") == [[0, 1], [1, 1]]
        assert state.pop("retired") == []
        state["heterobandits_planner"] = 4
        assert Planner.from_json(json.dumps(state)).to_json() == planner.to_json()

    @pytest.mark.parametrize(
        ("part", "damaged", "why"),
        [
            ("rows", [[0, 1]], "rows has not one entry"),
            ("rows", [[0, 1], [0, 1]], "an agent has no row"),
            ("rows", [[0, 1], [2, 1]], "the agent of a row"),
            ("rows", [[0, 1], [1, 0]], "the round of a row"),
            ("rows", [[0, 1], 1], "rows is 1: an agent and a round"),
            ("retired", [3], "a retired arm"),
            ("retired", 3, "retired is 3, not a list"),
        ],
    )
    def test_damage_is_named(self, part, damaged, why):
        state = json.loads(began().to_json()) | {part: damaged}
        with pytest.raises(InvalidInput, match=why):
            Planner.from_json(json.dumps(state))

    def test_who_moved_is_checked(self):
        state = json.loads(began().to_json())
        for moved in ([5], [[0, [9]]], [[7, [0]]], 3):
            state["history"][0]["moved"] = moved
            with pytest.raises(InvalidInput):
                Planner.from_json(json.dumps(state))
