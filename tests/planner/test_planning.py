"""Planning as a function of what is known: the plan, its reasons."""

from typing import get_args

import numpy as np
import pytest

from heterobandits import InvalidInput, Planner, Policy, policy
from heterobandits.model.team import Team
from heterobandits.planner.explanation import explain_plan
from heterobandits.planner.knowledge import Knowledge
from heterobandits.planner.matching import Circumstances
from heterobandits.planner.planning import Address, plan
from heterobandits.planner.plans import REASON_SENTENCES, Reason, ReasonCode
from planners import OWN, PLANNED, labelled, play

ARMS = ("a", "b", "c", "d")
PULLS = [[4, 0, 9, 1], [2, 0, 3, 0], [0, 0, 8, 5]]
SUCCESSES = [[1, 0, 9, 0], [2, 0, 0, 0], [0, 0, 4, 4]]
WAYS = [
    {},
    {"absent": [1]},
    {"closed": [0, 2]},
    {"left": [0], "absent": [2]},
    {"forbidden": [(0, 1), (2, 2)]},
    {"forced": [(2, 3)]},
]


def arguments(entry, how):
    team = Team([0.3, 0.9, 0.6], ["x", "y", "z"])
    known = Knowledge.of(3, 4, pulls=PULLS, successes=SUCCESSES, rounds=11)
    circumstances = Circumstances.of(team.names, ARMS, **how)
    return team, ARMS, policy(entry), known, Address(5, 2, 12), circumstances


class TestPlan:
    @pytest.mark.parametrize("how", WAYS, ids=str)
    @pytest.mark.parametrize("entry", [*PLANNED, *OWN], ids=labelled)
    def test_the_same_arguments_give_the_same_plan_and_stay_as_they_are(self, entry, how):
        given, again = arguments(entry, how), arguments(entry, how)
        made = plan(*given)
        assert plan(*given) == plan(*again) == made
        said = explain_plan(*given[:-1], made)
        assert explain_plan(*again[:-1], made) == said
        assert given[0] == again[0]
        assert given[5] == again[5]
        assert given[3].pulls.tolist() == PULLS
        assert given[3].successes.tolist() == SUCCESSES
        assert [e.agent for e in said] == [
            agent for agent, arm in zip("xyz", made.assignment, strict=True) if arm is not None
        ]

    @pytest.mark.parametrize("how", WAYS, ids=str)
    @pytest.mark.parametrize("entry", [*PLANNED, *OWN], ids=labelled)
    def test_the_planner_adds_nothing(self, entry, how):
        given = arguments(entry, how)
        rest = {key: value for key, value in how.items() if key != "left"}
        planner = Planner(
            [0.3, 0.9, 0.6],
            ARMS,
            entry,
            5,
            agent_names=["x", "y", "z"],
            trial=2,
            pulls=PULLS,
            successes=SUCCESSES,
            rounds=11,
            left=how.get("left", ()),
        )
        made = planner.ask(**rest)
        assert made == plan(*given)
        assert planner.explain(made) == explain_plan(*given[:-1], made)

    def test_other_policies_can_be_asked_on_the_same_history(self):
        planner = play(Planner([0.3, 0.9], 4, "min-width", seed=3), 15)
        known = Knowledge.of(2, 4, pulls=planner.pulls, successes=planner.successes, rounds=15)
        team, arms = Team(planner.sensitivities), planner.arm_names
        for name in PLANNED:
            other = Planner(
                [0.3, 0.9], 4, name, 3, pulls=known.pulls, successes=known.successes, rounds=15
            )
            shadow = plan(team, arms, policy(name), known, Address(3, 0, 16), Circumstances())
            assert shadow == other.ask()

    @pytest.mark.parametrize("name", ["ucb", "oracle"])
    def test_policies_that_can_only_be_simulated(self, name):
        given = arguments("min-width", {})
        with pytest.raises(InvalidInput, match=f"{name} .*: it can be simulated, not planned with"):
            plan(*given[:2], policy(name), *given[3:])

    def test_tables_of_other_agents(self):
        given = arguments("min-width", {})
        with pytest.raises(InvalidInput, match=r"shape \(2, 4\): there are 3 agents and 4 arms"):
            plan(*given[:3], Knowledge.of(2, 4), *given[4:])

    @pytest.mark.parametrize("what", ["pulls", "successes", "slope", "offset", "order", "kind"])
    def test_a_function_that_scribbles(self, what):
        def scribble(known):
            array = getattr(known if what in ("pulls", "successes") else known.team, what)
            array += array
            return np.zeros(known.pulls.shape[1:])

        given = arguments(Policy("scribble", index=scribble), {})
        before = plan(*arguments("min-width", {}))
        with pytest.raises(ValueError, match="read-only"):
            plan(*given)
        assert given[3].pulls.tolist() == PULLS
        assert given[3].successes.tolist() == SUCCESSES
        assert given[0].slope.tolist() == [0.3, 0.9, 0.6]
        assert plan(*given[:2], policy("min-width"), *given[3:]) == before


class TestWhoGoesWhere:
    """Why this arm, and why this agent."""

    @pytest.mark.parametrize("entry", ["posterior-sorted", "min-width", "bayes-ucb"])
    def test_where_nothing_is_known_a_lot_is_drawn(self, entry):
        planner = Planner([0.9, 0.5, 0.7], 14, entry)
        made = planner.ask(closed=[3])
        turns = {0: "first", 1: "third", 2: "second"}
        for agent, reason in enumerate(made.reasons):
            assert (reason.pulls, reason.successes, reason.lot) == (0, 0, 13)
            first, *more = str(reason).split("; ", 2)
            assert first == "nobody has been there yet"
            assert more[0].startswith("drawn by lot among 13")
            # with one index for all, who goes to which of these is by lot, too; where they choose in turn it is not
            eyes = f"{turns[agent]} to choose" in str(reason)
            assert eyes == (reason.code == "highest left")

    def test_the_best_eyes_go_to_the_best_place(self):
        planner = Planner([0.6, 0.9, 0.85], ["a", "b", "c"], "posterior-sorted")
        planner.tell(
            planner.ask(forced=[(0, "a"), (1, "b"), (2, "c")]), [(0, 9), (30, 40), (10, 40)]
        )
        made = planner.ask()
        assert made.assignment == (0, 1, 2)
        assert [str(reason).partition("; ")[2] for reason in made.reasons] == [
            "third-best eyes to the third-best place: finds 6 of 10",
            "best eyes to the best place: finds 9 of 10",
            "second-best eyes to the second-best place: finds 8.5 of 10",
        ]
        assert str(made.reasons[1]).startswith(
            "one of the 3 most promising arms: 30 found in 40 tests"
        )

    @pytest.mark.parametrize(
        ("team", "tests"), [([0.9, 0.9, 0.9], None), ([0.9, 0.8, 0.7], [1, 2, 9])]
    )
    def test_where_eyes_do_not_decide_they_are_not_given(self, team, tests):
        planner = Planner(team, 3, "posterior-sorted", tests=tests)
        planner.tell(planner.ask(), [(1, 9), (3, 9), (5, 9)])
        assert [reason.place for reason in planner.ask().reasons] == [None] * 3

    def test_with_pairs_that_are_set_nothing_more_is_said(self):
        made = Planner([0.9, 0.5], 5, "posterior-sorted").ask(forced=[(0, 1)])
        assert [(one.lot, one.place) for one in made.reasons] == [(None, None)] * 2


class TestReasons:
    def test_every_code_has_its_sentence(self):
        assert set(REASON_SENTENCES) == set(get_args(ReasonCode))
        for code in REASON_SENTENCES:
            text = str(Reason(code, 0.25, 0.5, 3))
            assert text
            assert "{" not in text

    @pytest.mark.parametrize(
        ("entry", "how", "codes"),
        [
            ("min-width", {}, ["highest left", "unseen", "highest left"]),
            (
                "min-width",
                {"closed": [1], "absent": [2]},
                ["highest left", "highest left", "absent"],
            ),
            ("min-width", {"left": [1], "closed": [0, 1, 2]}, ["no arm", "left", "highest left"]),
            ("min-width", {"forced": [(0, 0)]}, ["forced", "unseen", "best allowed"]),
            ("no-sharing", {"absent": [1, 2]}, ["unseen by it", "absent", "absent"]),
            (
                "posterior-sorted",
                {"absent": [0, 1], "closed": [1]},
                ["absent", "absent", "highest"],
            ),
            ("posterior-sorted", {"closed": [1]}, ["among the highest"] * 3),
            ("random", {}, ["random"] * 3),
        ],
    )
    def test_what_decided(self, entry, how, codes):
        made = plan(*arguments(entry, how))
        assert [reason.code for reason in made.reasons] == codes
        for a, (n, reason) in enumerate(zip(made.assignment, made.reasons, strict=True)):
            assert f": {reason}" in str(made)
            if n is None:
                assert reason == Reason(reason.code)
                continue
            assert reason.index == made.index[a][n]
            assert reason.visited == sum(m is not None for m in made.assignment)
            assert (reason.estimate is not None) == (entry == "posterior-sorted")
            assert (reason.pulls, reason.successes) == tuple(
                int(table[:, n].sum()) for table in arguments(entry, how)[3].tables
            )
            if "highest" in reason.code:
                assert f"{reason.successes} found in {reason.pulls} test" in str(reason)
                assert f"index {reason.index:.3f}" in reason.in_numbers
