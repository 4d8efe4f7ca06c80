"""Planning as a function of what is known: the plan, its reasons."""

import math
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
            if not math.isinf(reason.index) and "highest" in reason.code:
                assert f"index {reason.index:.3f}" in str(reason)
