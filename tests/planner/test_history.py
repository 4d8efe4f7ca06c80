"""Rounds that are fixed, told late, in parts and out of order, and corrected."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heterobandits import InvalidInput, Planner, Round
from planners import PLANNED, circumstances, fixed, play, ready, sent, sizes


def named(**given):
    return Planner([0.9, 0.5], ["a", "b", "c"], fixed([3, 2, 1]), agent_names=["x", "y"], **given)


class TestAccepting:
    def test_a_round_is_fixed_and_waits(self):
        planner, plan = ready()
        assert planner.waiting == ()
        assert planner.accept(plan) == 10
        assert planner.rounds == len(planner.history) == 10
        (waiting,) = planner.waiting
        assert isinstance(waiting, Round)
        assert waiting == planner.history[-1]
        assert (waiting.number, waiting.missing) == (10, ("x", "y"))
        assert waiting.assignment == plan.assignment
        assert waiting.circumstances == plan.circumstances
        assert waiting.sent == {"x": "abcd"[plan.assignment[0]], "y": "abcd"[plan.assignment[1]]}
        assert waiting.visits == ()
        assert planner.ask().round == 11

    def test_nothing_is_learned_by_it(self):
        planner, plan = ready()
        pulls, successes = planner.pulls, planner.successes
        planner.accept(plan)
        np.testing.assert_array_equal(planner.pulls, pulls)
        np.testing.assert_array_equal(planner.successes, successes)

    def test_once_more_is_harmless(self):
        planner, plan = ready()
        planner.accept(plan)
        before = planner.to_json()
        assert planner.accept(plan) == 10
        assert planner.to_json() == before
        planner.tell(plan, [1, None, None])
        play(planner, 2)
        before = planner.to_json()
        assert planner.accept(plan) == 10
        assert planner.to_json() == before

    def test_another_plan_of_the_round_is_refused_with_both(self):
        planner = named()
        planner.accept(planner.ask())
        other = replace(planner.ask(), round=1, assignment=(None, 2))
        before = planner.to_json()
        both = (
            "for round 1, which was fixed with another: 'x' goes to 'a' there and stays home here, "
            "'y' goes to 'b' there and goes to 'c' here; round 2 is next"
        )
        for use in (planner.accept, planner.explain, lambda plan: planner.tell(plan, {"y": 1})):
            with pytest.raises(InvalidInput, match=both):
                use(other)
        with pytest.raises(InvalidInput, match=both):
            planner.correct(other, {"y": 1})
        assert planner.to_json() == before

    def test_the_difference_is_told_in_one_line_for_many_agents(self):
        planner = Planner([0.5] * 40, 50, seed=1)
        one, two = planner.ask(), planner.ask(closed=[0, 1, 2, 3])
        planner.accept(one)
        with pytest.raises(InvalidInput, match=r"here, \.\.\.; round 2 is next") as error:
            planner.accept(two)
        assert len(str(error.value)) < 300

    def test_no_round_is_skipped(self):
        planner = named()
        plan = replace(planner.ask(), round=2)
        with pytest.raises(InvalidInput, match="round 2 is not fixed: none is yet; round 1 is nex"):
            planner.accept(plan)

    def test_a_plan_changed_by_hand(self):
        planner = named()
        planner.tell(replace(planner.ask(), assignment=(np.int64(2), None)), [1, None])
        assert planner.pulls.tolist() == [[0, 0, 1], [0, 0, 0]]
        assert Planner.from_json(planner.to_json(), planner.policy).history == planner.history

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("round", "x"), ("round", 1.5), ("round", True), ("round", None), ("round", 0),
            ("assignment", 5), ("reasons", None), ("agent_names", 5), ("arm_names", None),
            ("circumstances", None), ("circumstances", (1, 2, 3, 4, 5)),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("use", ["accept", "tell", "explain"])
    def test_a_plan_made_of_other_things(self, use, field, value):
        planner = named()
        plan = replace(planner.ask(), **{field: value})
        arguments = (plan, [1, 0]) if use == "tell" else (plan,)
        with pytest.raises(InvalidInput, match=f"the plan's {field} is "):
            getattr(planner, use)(*arguments)
        assert (planner.rounds, planner.history) == (0, ())

    def test_the_round_as_text(self):
        planner = named()
        planner.tell(planner.ask(), {"x": (3, 12)})
        planner.accept(planner.ask(absent=["x"]))
        assert [str(round_).splitlines() for round_ in planner.history] == [
            ["round 1", "  x -> a: 3 of 12", "  y -> b: no outcome yet"],
            ["round 2", "  x -> stays home", "  y -> a: no outcome yet"],
        ]


class TestLate:
    @pytest.mark.parametrize("by", ["plan", "number", "round"])
    def test_in_parts_and_out_of_order(self, by):
        planner = named()
        plans = []
        for _ in range(3):
            plans.append(planner.ask())
            planner.accept(plans[-1])

        def told(number, outcomes):
            which = {
                "plan": plans[number - 1],
                "number": number,
                "round": planner.history[number - 1],
            }
            planner.tell(which[by], outcomes)
            return [(round_.number, round_.missing) for round_ in planner.waiting]

        assert told(3, {"y": 1}) == [(1, ("x", "y")), (2, ("x", "y")), (3, ("x",))]
        assert told(1, [1, None]) == [(1, ("y",)), (2, ("x", "y")), (3, ("x",))]
        assert told(2, {("x", "a"): (2, 5), "y": (0, 0)}) == [(1, ("y",)), (3, ("x",))]
        assert told(1, {"y": 0}) == [(3, ("x",))]
        assert told(3, {}) == [(3, ("x",))]
        assert told(3, [0, None]) == []
        assert planner.rounds == 3
        assert planner.pulls.tolist() == [[7, 0, 0], [0, 2, 0]]
        assert planner.successes.tolist() == [[3, 0, 0], [0, 1, 0]]
        assert planner.history[1].outcomes == ((2, 5), (0, 0))

    def test_twice_is_refused(self):
        planner = named()
        plan = planner.ask()
        planner.tell(plan, {"x": (3, 12)})
        before = planner.to_json()
        for again in ({"x": (3, 12)}, {"y": 1, "x": 0}, [0, None], {"x": (0, 0)}):
            with pytest.raises(
                InvalidInput, match="round 1 has an outcome of 'x' already, 3 of 12: use correct"
            ):
                planner.tell(plan, again)
            assert planner.to_json() == before
        planner.tell(plan, {"y": (0, 0)})
        with pytest.raises(InvalidInput, match="'y' already, 0 of 0: use correct"):
            planner.tell(plan, {"y": 1})
        planner.tell(plan, {"x": None})
        assert planner.pulls.sum() == 12

    @pytest.mark.parametrize("number", [0, 5, 8, 10**5000], ids=["0", "5", "8", "huge"])
    def test_rounds_that_were_not_fixed(self, number):
        planner = named(pulls=[[1, 1, 1]] * 2, successes=[[0, 1, 1]] * 2, rounds=5)
        with pytest.raises(InvalidInput, match="is not fixed: none is yet; round 6 is next"):
            planner.tell(6, {"x": 1})
        for _ in range(2):
            planner.accept(planner.ask())
        before = planner.to_json()
        for use in (planner.tell, planner.correct):
            with pytest.raises(InvalidInput, match=r"not fixed: rounds 6 to 7 are; round 8 is ne"):
                use(number, {"x": 1})
        assert planner.to_json() == before

    @pytest.mark.slow
    @pytest.mark.parametrize("entry", PLANNED)
    def test_what_is_known_does_not_depend_on_when_it_came(self, entry):
        late, prompt = (Planner([0.3, 0.9], 4, entry, seed=6) for _ in "ab")
        plans = []
        for _ in range(6):
            plans.append(late.ask())
            late.accept(plans[-1])
        for r in (3, 0, 5, 1, 4, 2):
            late.tell(plans[r], [(r, 7), r % 2])
        for r, plan in enumerate(plans):
            prompt.tell(plan, [(r, 7), r % 2])
        assert late.to_json() == prompt.to_json()
        assert late.ask() == prompt.ask()

    def test_a_plan_explains_itself_until_what_it_was_made_with_changes(self):
        planner = Planner([0.9, 0.5], 3, seed=2)
        play(planner, 4)
        first = planner.ask()
        reasons = planner.explain(first)
        planner.accept(first)
        assert planner.explain(first) == reasons
        second = planner.ask()
        planner.explain(second)
        planner.tell(first, [1, 0])
        assert planner.explain(first) == reasons
        with pytest.raises(InvalidInput, match="plan for round 6 was made with other outcomes"):
            planner.explain(second)
        assert planner.accept(second) == 6
        planner.explain(planner.ask())


class TestCorrecting:
    def test_replaces_and_withdraws(self):
        planner = named()
        plan = planner.ask()
        planner.tell(plan, {"x": (3, 12), "y": 1})
        planner.correct(1, {"x": (1, 10)})
        assert planner.pulls.tolist() == [[10, 0, 0], [0, 1, 0]]
        assert planner.successes.tolist() == [[1, 0, 0], [0, 1, 0]]
        planner.correct(plan, {"y": None})
        assert planner.pulls.tolist() == [[10, 0, 0], [0, 0, 0]]
        assert planner.waiting[0].missing == ("y",)
        planner.tell(1, {"y": 0})
        planner.correct(planner.history[0], [None, 1])
        assert planner.pulls.tolist() == [[0, 0, 0], [0, 1, 0]]
        assert planner.successes.tolist() == [[0, 0, 0], [0, 1, 0]]
        assert planner.rounds == 1

    def test_what_a_data_frame_does_not_say_changes_nothing(self):
        planner = named()
        planner.tell(planner.ask(), {"x": 1, "y": 1})
        planner.correct(1, pd.Series({"x": 0.0, "y": math.nan}))
        assert planner.history[0].outcomes == ((0, 1), (1, 1))
        planner.correct(1, pd.Series({"x": pd.NA, "y": 0}, dtype="Int64"))
        assert planner.history[0].outcomes == ((0, 1), (0, 1))
        planner.correct(1, pd.Series({"x": None, "y": 1}, dtype=object))
        assert planner.history[0].outcomes == (None, (1, 1))

    @pytest.mark.parametrize(
        ("outcomes", "culprit"),
        [
            ({"x": (4, 3)}, "'x' is 4 successes of 3 tests"),
            ({"x": 0, "y": 2}, "outcome of 'y' is 2"),
            ({"x": 0, "z": 0}, "unknown agent 'z'"),
            ([1], "outcomes has 1 entries"),
            ({("x", "b"): 1}, "the plan did not send it there"),
            ({"x": (0, 2**31 - 1)}, "at most 1,000,000"),
        ],
    )
    def test_a_mistake_is_named_and_nothing_is_changed(self, outcomes, culprit):
        planner = named()
        for _ in range(2):
            planner.tell(planner.ask(), [(3, 12), 1])
        before = planner.to_json()
        with pytest.raises(InvalidInput, match=culprit):
            planner.correct(1, outcomes)
        assert planner.to_json() == before

    def test_a_plan_that_was_never_fixed(self):
        planner = named()
        with pytest.raises(InvalidInput, match="round 1 is not fixed"):
            planner.correct(planner.ask(), {"x": 1})
        assert planner.rounds == 0

    @settings(max_examples=60)
    @given(st.data())
    def test_a_corrected_history_is_as_good_as_one_told_right(self, data):
        agents, arms = data.draw(sizes())
        outcome = st.integers(0, 4).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
        entry = data.draw(st.sampled_from(["posterior-sorted", "no-sharing", "cucb"]))
        s = data.draw(st.lists(st.floats(0.05, 1), min_size=agents, max_size=agents))
        planner, fresh = (Planner(s, arms, entry, seed=1) for _ in "ab")
        plans, truth = [], []
        for _ in range(data.draw(st.integers(1, 4))):
            plans.append(planner.ask(**data.draw(circumstances(agents, arms, pairs=False))))
            planner.tell(plans[-1], {a: data.draw(outcome) for a in sent(plans[-1])})
            truth.append({a: planner.history[-1].outcomes[a] for a in sent(plans[-1])})
        for _ in range(data.draw(st.integers(1, 5))):
            r = data.draw(st.integers(1, len(plans)))
            if truth[r - 1]:
                a = data.draw(st.sampled_from(sorted(truth[r - 1])))
                truth[r - 1][a] = data.draw(st.none() | outcome)
                planner.correct(r, {a: truth[r - 1][a]})
        for plan, outcomes in zip(plans, truth, strict=True):
            fresh.tell(plan, outcomes)
        np.testing.assert_array_equal(planner.pulls, fresh.pulls)
        np.testing.assert_array_equal(planner.successes, fresh.successes)
        assert planner.to_json() == fresh.to_json()
        assert planner.ask() == fresh.ask()
