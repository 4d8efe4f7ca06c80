"""Agents join and leave, arms are added; what was learned stays. And nothing else can be changed."""

import numpy as np
import pytest

from heterobandits import InvalidInput, Planner, policy
from planners import OWN, PLANNED, labelled, play, with_tables


def begun(entry="posterior-sorted"):
    names = {"agent_names": ["x", "y", "z"]}
    return play(Planner([0.9, 0.5, 0.3], ["a", "b", "c"], entry, seed=4, **names), 9)


def directly(planner, **changes):
    """A planner made with the tables of another and with these arguments."""
    given = {
        "sensitivities": planner.sensitivities,
        "arms": planner.arm_names,
        "policy": planner.policy,
        "seed": planner.seed,
        "agent_names": planner.agent_names,
        "pulls": planner.pulls,
        "successes": planner.successes,
        "rounds": planner.rounds,
        "left": planner.left,
    }
    return Planner(**(given | changes))


# With the others, what a planner began with counts as of the last round: test_forgetting.py.
REMEMBERING = [name for name in PLANNED if not policy(name).forgets]
WAYS = [{}, {"closed": ["b"]}, {"absent": ["x"]}, {"forbidden": [("x", "a")]}]


def same_plans(one, two):
    for how in WAYS:
        plan = one.ask(**how)
        assert two.ask(**how) == plan
        assert two.explain(plan) == one.explain(plan)


class TestLeaving:
    @pytest.mark.parametrize("entry", [*REMEMBERING, *OWN], ids=labelled)
    def test_who_left_stays_home_and_what_it_found_counts(self, entry):
        planner = begun(entry)
        pulls, successes = planner.pulls, planner.successes
        whole = planner.ask(absent=["y"])
        planner.leave("y")
        assert planner.left == ("y",)
        plan = planner.ask()
        assert plan.assignment == whole.assignment
        assert plan.index == whole.index
        assert (plan.reasons[1].code, str(plan.reasons[1])) == ("left", "left the team")
        assert "  y -> stays home: left the team" in str(plan)
        np.testing.assert_array_equal(planner.pulls, pulls)
        np.testing.assert_array_equal(planner.successes, successes)
        same_plans(planner, directly(planner))
        assert planner.ask(absent=["y"]).assignment == plan.assignment
        with pytest.raises(InvalidInput, match="y has to go to a, but has left the team"):
            planner.ask(forced=[("y", "a")])

    def test_it_may_still_report(self):
        planner = begun()
        planner.accept(planner.ask())
        before = planner.pulls.sum()
        planner.leave("y")
        planner.tell(10, {"y": (1, 3)})
        planner.correct(9, {"y": None})
        assert planner.pulls.sum() == before + 2

    def test_it_may_return(self):
        planner = begun()
        plan = planner.ask()
        planner.leave(1)
        with pytest.raises(InvalidInput, match=r"'y' left with sensitivity 0.5, .*another name"):
            planner.join("y", 0.6)
        assert planner.left == ("y",)
        planner.join("y", 0.5)
        assert planner.left == ()
        assert planner.ask() == plan

    @pytest.mark.parametrize(
        ("agent", "culprit"),
        [("y", "'y' has left the team already"), ("w", "unknown agent 'w'"), (3, "number of an")],
    )
    def test_refused(self, agent, culprit):
        planner = begun()
        planner.leave("y")
        before = planner.to_json()
        with pytest.raises(InvalidInput, match=culprit):
            planner.leave(agent)
        assert planner.to_json() == before

    def test_a_plan_made_before_is_asked_for_again(self):
        planner = begun()
        plan = planner.ask()
        planner.leave("y")
        for use in (planner.accept, planner.explain, lambda plan: planner.tell(plan, {})):
            with pytest.raises(InvalidInput, match="before the team or the arms changed; ask agai"):
                use(plan)
        assert planner.rounds == 9

    def test_everybody_may_leave(self):
        planner = begun()
        for agent in "xyz":
            planner.leave(agent)
        assert planner.ask().assignment == (None,) * 3
        assert planner.accept(planner.ask()) == 10
        assert planner.waiting == ()


class TestJoining:
    @pytest.mark.parametrize("entry", [*REMEMBERING, *OWN], ids=labelled)
    def test_plans_are_those_of_a_planner_made_so(self, entry):
        planner = begun(entry)
        planner.leave("x")
        planner.join("w", 0.7)
        assert planner.agent_names == ("x", "y", "z", "w")
        assert planner.sensitivities == (0.9, 0.5, 0.3, 0.7)
        assert planner.pulls[3].tolist() == [0, 0, 0]
        same_plans(planner, directly(planner))
        planner.tell(planner.ask(), {"w": 1, "z": (0, 2), "y": (0, 0)})
        assert planner.pulls[3].sum() == 1
        same_plans(planner, directly(planner))

    @pytest.mark.parametrize("entry", [*REMEMBERING, *OWN], ids=labelled)
    def test_more_may_have_come_and_gone_than_there_are_arms(self, entry):
        planner = Planner([0.9, 0.5], 2, entry, seed=1)
        for k in range(3, 9):
            planner.tell(planner.ask(), {k - 3: (1, 2), k - 2: (0, 0)})
            planner.leave(k - 3)
            planner.join(f"agent {k}", k / 10)
        plan = planner.ask()
        assert [a for a, n in enumerate(plan.assignment) if n is not None] == [6, 7]
        assert len(planner.explain(plan)) == 2
        assert planner.pulls.sum() == 12
        own = planner.policy if planner.policy.index is not None else None
        again = Planner.from_json(planner.to_json(), own)
        assert again.ask() == plan
        assert again.to_json() == planner.to_json()
        assert directly(planner).ask() == plan
        if policy(entry).first == "random":
            assert planner.ask(closed=[0]).assignment.count(None) == 7

    @pytest.mark.parametrize(
        ("name", "sensitivity", "culprit"),
        [
            ("w", 0.5, "there are 4 agents and 3 arms: each agent needs an arm of its own"),
            ("x", 0.9, "'x' is in the team already"),
            (" ", 0.5, "^name is ' ': a name is a text that is not blank"),
            (5, 0.5, "a name is a text that is not blank"),
            ("w", 1.2, r"sensitivities\[3\] is 1.2"),
            ("w", None, r"sensitivities\[3\] is None"),
            ("x ", 0.9, "'x' is in the team already"),
            ("x\u200b", 0.9, "names must differ"),
            ("w", np.True_, r"sensitivities\[3\] is"),
        ],
    )
    def test_refused(self, name, sensitivity, culprit):
        planner = begun()
        before = planner.to_json()
        with pytest.raises(InvalidInput, match=culprit):
            planner.join(name, sensitivity)
        assert planner.to_json() == before

    def test_a_name_that_looks_the_same_is_the_same(self):
        """Composed, and as a letter with an accent after it."""
        planner = Planner([0.5], 3, agent_names=["R\u00edo"])
        with pytest.raises(InvalidInput, match="in the team already"):
            planner.join("Ri\u0301o", 0.7)

    def test_a_return_needs_an_arm_too(self):
        planner = begun()
        planner.leave("x")
        planner.join("w", 0.7)
        with pytest.raises(InvalidInput, match="4 agents and 3 arms"):
            planner.join("x", 0.9)
        assert planner.left == ("x",)

    def test_rounds_from_before_are_told_as_they_were(self):
        planner = begun()
        plan = planner.ask()
        planner.accept(plan)
        planner.leave("x")
        planner.join("w", 0.7)
        planner.add_arm("d")
        assert planner.accept(plan) == 10
        with pytest.raises(InvalidInput, match="outcomes has 4 entries: one for each of the 3"):
            planner.tell(10, [1, 1, 1, None])
        planner.tell(plan, [1, None, None])
        planner.tell(10, [None, 1, 1])
        assert planner.waiting == ()
        assert planner.pulls[:3, :3].sum() == 30


class TestArms:
    @pytest.mark.parametrize("entry", [*REMEMBERING, *OWN], ids=labelled)
    def test_plans_are_those_of_a_planner_made_so(self, entry):
        planner = begun(entry)
        pulls = planner.pulls.tolist()
        planner.add_arm("d")
        assert planner.arm_names == ("a", "b", "c", "d")
        assert planner.pulls.tolist() == [[*row, 0] for row in pulls]
        assert {round_.arm_names for round_ in planner.history} == {planner.arm_names}
        same_plans(planner, directly(planner))

    def test_then_another_agent_fits(self):
        planner = begun()
        planner.add_arm("d")
        planner.join("w", 0.7)
        assert sorted(planner.ask().assignment) == [0, 1, 2, 3]

    @pytest.mark.parametrize(
        ("name", "culprit"),
        [
            ("a", "there is an arm 'a' already"),
            (" a", "there is an arm 'a' already"),
            ("a\u200b", r"^arms\[3\] is 'a\\u200b': names must differ"),
            (np.array(["d", "e"]), r"^name is array\("),
            ("", "^name is '': a name is a text"),
            (None, "a name is a text"),
        ],
    )
    def test_refused(self, name, culprit):
        planner = begun()
        before = planner.to_json()
        with pytest.raises(InvalidInput, match=culprit):
            planner.add_arm(name)
        assert planner.to_json() == before


class TestReadOnly:
    @pytest.mark.parametrize(
        "name",
        [
            "sensitivities",
            "agent_names",
            "arm_names",
            "policy",
            "seed",
            "trial",
            "pulls",
            "successes",
            "rounds",
            "elapsed",
            "left",
            "history",
            "waiting",
        ],
    )
    def test_nothing_can_be_assigned(self, name):
        planner = begun()
        before = planner.to_json()
        with pytest.raises(AttributeError):
            setattr(planner, name, getattr(planner, name))
        assert planner.to_json() == before

    def test_the_tables_cannot_be_written(self):
        planner = begun()
        for table in (planner.pulls, planner.successes):
            with pytest.raises(ValueError, match="read-only"):
                table[0, 0] += 1
            with pytest.raises(ValueError, match="WRITEABLE"):
                table.flags.writeable = True

    @pytest.mark.parametrize("name", ["sensitivity", "Pulls", "names", "agents"])
    def test_nothing_can_be_added(self, name):
        with pytest.raises(AttributeError, match=name):
            setattr(begun(), name, 1)

    def test_tables_given_are_copied(self):
        pulls = np.full((1, 2), 3, np.int32)
        successes = np.ones((1, 2), np.int32)
        planner = Planner([0.5], 2, pulls=pulls, successes=successes, rounds=3)
        pulls += 1
        successes += 1
        assert planner.pulls.tolist() == [[3, 3]]
        assert planner.successes.tolist() == [[1, 1]]
        assert planner.rounds == 3
        assert planner.ask().round == 4

    def test_a_planner_with_tables_goes_on_like_one_that_was_told(self):
        planner = begun()
        again = with_tables(planner, planner.pulls, planner.successes, planner.rounds)
        for _ in range(5):
            plan = planner.ask()
            assert again.ask() == plan
            planner.tell(plan, [1, 0, (1, 4)])
            again.tell(plan, [1, 0, (1, 4)])
        np.testing.assert_array_equal(again.pulls, planner.pulls)
