"""A planner saved, restored, corrected, and given garbage."""

import json
import math
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from heterobandits import InvalidInput, Plan, Planner, Policy, Problem, UnsupportedVersion, policy
from planners import (
    OWN,
    PLANNED,
    circumstances,
    contradictory,
    every_allowed,
    labelled,
    optimism,
    play,
    ready,
    sent,
    sizes,
)

pytestmark = pytest.mark.smoke

FORMAT_1 = {
    "heterobandits_planner": 1,
    "policy": {"name": "min-width", "delta": 0.05, "horizon": "anytime"},
    "seed": 7,
    "trial": 2,
    "agent_names": ["x", "y"],
    "arm_names": ["a", "b", "c"],
    "sensitivities": [0.9, 0.5],
    "rounds": 5,
    "pulls": [[6, 3, 6], [2, 1, 2]],
    "successes": [[2, 0, 2], [1, 0, 1]],
}


def began():
    """A planner that began with tables: of two rounds since it knows the outcomes, of a third one half."""
    planner = Planner(
        [0.5, 0.3], 3, pulls=[[3, 4, 2], [5, 1, 6]], successes=[[1, 2, 0], [2, 0, 3]], rounds=6
    )
    play(planner, 2).tell(planner.ask(), [None, (2, 3)])
    return planner


class TestSaving:
    @pytest.mark.parametrize("entry", [*PLANNED, *OWN, policy("cucb", delta=0.2)], ids=labelled)
    def test_the_same_text_and_the_same_plans(self, entry):
        planner = Planner([0.6, 0.9], ["a", 'b"\\', "ç\U0001f98f"], entry, seed=2**64 - 1, trial=7)
        for r in range(20):
            own = planner.policy if planner.policy.index is not None else None
            text = planner.to_json()
            again = Planner.from_json(text, own)
            assert again.to_json() == text
            assert again.policy == planner.policy
            plan = planner.ask()
            assert again.ask() == plan
            assert again.explain(plan) == planner.explain(plan)
            planner.tell(plan, [r % 2, int(r % 3 == 0)])
            again.tell(plan, [r % 2, int(r % 3 == 0)])
            assert again.to_json() == planner.to_json()
            planner = again

    def test_it_is_plain_json_with_the_tables(self):
        planner, _ = ready()
        state = json.loads(planner.to_json())
        assert [entry["round"] for entry in state["history"]] == list(range(1, 10))
        pulls, successes = np.array(state["pulls"]), np.array(state["successes"])
        assert (state["rounds"], pulls.sum(), successes.sum()) == (0, 0, 0)
        for entry in state["history"]:
            for a, (n, (hits, tests)) in enumerate(
                zip(entry["assignment"], entry["outcomes"], strict=True)
            ):
                pulls[a, n] += tests
                successes[a, n] += hits
        assert pulls.tolist() == planner.pulls.tolist()
        assert successes.tolist() == planner.successes.tolist()

    def test_what_the_planner_began_with(self):
        planner = began()
        state = json.loads(planner.to_json())
        assert state["pulls"] == [[3, 4, 2], [5, 1, 6]]
        assert state["successes"] == [[1, 2, 0], [2, 0, 3]]
        assert state["rounds"] == 6
        assert planner.rounds == 9
        again = Planner.from_json(planner.to_json())
        assert again.history == planner.history
        assert again.waiting == planner.waiting == planner.history[-1:]
        assert again.waiting[0].missing == ("agent 1",)
        assert str(again.waiting[0]) == str(planner.waiting[0])

    def test_monday_and_friday(self):
        arms = ["north", "east", "swamp"]
        monday = Planner([0.9, 0.5], arms, seed=3, agent_names=["Ana", "Bo"])
        plan = monday.ask(closed=["swamp"])
        number = monday.accept(plan)
        saved = monday.to_json()
        friday = Planner.from_json(saved)
        (waiting,) = friday.waiting
        assert waiting.number == number == 1
        assert waiting.missing == ("Ana", "Bo")
        assert waiting.circumstances.closed == {2}
        assert set(waiting.sent.values()) == {"north", "east"}
        friday.tell(number, {"Ana": (3, 12), "Bo": 0})
        monday.tell(plan, {"Ana": (3, 12), "Bo": 0})
        assert friday.to_json() == monday.to_json()
        assert friday.pulls[0].tolist() == [12 * (n == plan.assignment[0]) for n in range(3)]
        assert friday.waiting == ()

    def test_outcomes_go_to_the_arms_that_were_visited(self, tmp_path):
        arms, file = ["north", "east", "swamp"], tmp_path / "park.json"
        monday = Planner([0.9, 0.5], arms, seed=3, agent_names=["Ana", "Bo"])
        early = monday.ask(forced=[("Ana", "swamp")])  # before the swamp was closed
        plan = monday.ask(closed=["swamp"])
        monday.save(file)  # nothing is fixed yet: the plan itself says who went where
        friday = Planner.load(file)
        friday.tell(plan, {"Ana": 1, "Bo": 0})
        assert friday.pulls.tolist() == [
            [int(n == plan.assignment[a]) for n in range(3)] for a in range(2)
        ]
        monday.accept(plan)
        monday.save(file)
        friday = Planner.load(file)
        before = friday.to_json()
        with pytest.raises(InvalidInput, match=r"round 1, which was fixed with another: .*'swamp'"):
            friday.tell(early, {"Ana": 1, "Bo": 0})
        assert friday.to_json() == before
        assert friday.ask().round == 2  # asked again without the closure, it is another round
        with pytest.raises(InvalidInput, match="'Ana' on 'swamp': the plan did not send it there"):
            friday.tell(1, {("Ana", "swamp"): 1})
        friday.tell(1, {"Ana": 1, "Bo": 0})
        assert friday.pulls[:, 2].tolist() == [0, 0]
        assert friday.pulls.sum() == 2
        assert friday.waiting == ()

    def test_who_left_and_what_was_added(self):
        planner = play(Planner([0.9, 0.5], 2, "cucb", agent_names=["x", "y"]), 3)
        planner.accept(planner.ask())
        planner.leave("y")
        planner.join("z", 0.7)
        planner.leave("x")
        planner.join("w", 0.2)
        planner.accept(planner.ask(absent=["w"]))
        planner.add_arm("yard")
        again = Planner.from_json(planner.to_json())
        assert again.to_json() == planner.to_json()
        assert again.left == ("x", "y")
        assert again.history == planner.history
        assert again.ask() == planner.ask()
        for one in (planner, again):
            one.tell(4, {"x": 1, "y": 0})
            one.tell(5, {"z": (2, 2)})
        assert again.to_json() == planner.to_json()

    def test_what_format_1_had(self):
        planner = Planner.from_json(json.dumps(FORMAT_1))
        arguments = {k: v for k, v in FORMAT_1.items() if k != "heterobandits_planner"}
        arguments["policy"] = "min-width"
        arguments["arms"] = arguments.pop("arm_names")
        assert planner.to_json() == Planner(**arguments).to_json()
        assert planner.pulls.tolist() == FORMAT_1["pulls"]
        assert planner.successes.tolist() == FORMAT_1["successes"]
        assert (planner.rounds, planner.history, planner.left) == (5, (), ())
        assert planner.ask().round == 6

    def test_what_format_1_had_of_ucb(self):
        ucb = {"name": "ucb", "delta": 0.05, "horizon": "anytime"}
        state = FORMAT_1 | {
            "policy": ucb,
            "rounds": 2,
            "pulls": [[1, 1, 0], [0, 0, 2]],
            "successes": [[1, 1, 0], [0, 0, 1]],
            "assignments": [[[0, 2], 1, 2], [[1, 2], 1, 1]],
        }
        with pytest.raises(InvalidInput, match=r"ucb ranks whole assignments .* can be simulated"):
            Planner.from_json(json.dumps(state))

    def test_policies_made_with_numpy_numbers_can_be_saved(self):
        own = Policy("own", index=optimism, delta=np.float32(0.25), horizon=np.int64(9))
        planner = play(Planner([0.5, 0.4], 3, own), 3)
        again = Planner.from_json(planner.to_json(), own)
        assert again.ask() == planner.ask()

    def test_a_policy_of_ones_own_must_be_given_again(self):
        planner = play(Planner([0.5, 0.4], 3, OWN[0]), 5)
        with pytest.raises(InvalidInput, match="'optimism'"):
            Planner.from_json(planner.to_json())
        with pytest.raises(InvalidInput, match=r"'own optimism'.*saved with 'optimism'"):
            Planner.from_json(planner.to_json(), OWN[2])
        with pytest.raises(InvalidInput, match="saved with 'optimism'"):
            Planner.from_json(planner.to_json(), policy("min-width"))
        assert Planner.from_json(planner.to_json(), OWN[0]).ask() == planner.ask()

    @pytest.mark.parametrize("given", ["min-width", "optimism", 5, ["min-width"]])
    def test_the_policy_given_is_a_policy(self, given):
        for entry in ("min-width", OWN[0]):
            text = Planner([0.5], 2, entry).to_json()
            with pytest.raises(InvalidInput) as caught:
                Planner.from_json(text, given)
            assert str(caught.value) == (
                f"policy is {given!r}: the Policy that the planner was saved with, which is needed "
                "if it is one of your own"
            )

    @pytest.mark.parametrize("newer", [6, 7, 10**6])
    def test_what_a_newer_version_wrote(self, newer):
        state = json.loads(Planner([0.5], 2).to_json())
        state["heterobandits_planner"] = newer
        with pytest.raises(UnsupportedVersion, match=f"format {newer}: .* newer heterobandits"):
            Planner.from_json(json.dumps(state))
        # Whatever else a newer version may have changed.
        with pytest.raises(UnsupportedVersion):
            Planner.from_json(json.dumps({"heterobandits_planner": newer, "memory": {}}))

    @pytest.mark.parametrize("name", ["min-width", "cucb"])
    def test_every_part_is_needed(self, name):
        planner = play(Planner([0.5, 0.3], 3, name), 6)
        state = json.loads(planner.to_json())
        for key in state["history"][2]:
            history = json.loads(planner.to_json())["history"]
            del history[2][key]
            with pytest.raises(InvalidInput):
                Planner.from_json(json.dumps(state | {"history": history}))
        for key in state:
            rest = {k: v for k, v in state.items() if k != key}
            with pytest.raises(InvalidInput):
                Planner.from_json(json.dumps(rest))
        for key in state["policy"]:
            rest = {k: v for k, v in state["policy"].items() if k != key}
            with pytest.raises(InvalidInput):
                Planner.from_json(json.dumps(state | {"policy": rest}))
        with pytest.raises(InvalidInput):
            Planner.from_json(json.dumps(state | {"pulls": None, "successes": None}))

    STATES: ClassVar = {
        "heterobandits_planner": [0, -1, True, "1", 1.5, None],
        "policy": [
            None, "min-width", [], {"name": "min-with", "delta": 0.05, "horizon": "anytime"},
            {"name": "oracle", "delta": 0.05, "horizon": "anytime"},
            {"name": ["min-width"], "delta": 0.05, "horizon": "anytime"},
            {"name": "min-width", "delta": 5, "horizon": "anytime"},
            {"name": "min-width", "delta": 0.05, "horizon": "soon"},
        ],
        "seed": [-1, 0.5, "0"],
        "trial": [None],
        "agent_names": [None, ["x"], ["x", "x"]],
        "arm_names": [["a", "b"], "abc", 3],
        "sensitivities": [[0.5], [0.5, math.nan], [0.5, 0], None],
        "rounds": [-1, 1.5, math.inf, None, True],
        "pulls": [
            None, 5, [[9, 9, 9]], [[9, 9], [9, 9]], [[9, 9, 9], [9, 9]], [[9, 9, 9], [9, 9, -1]],
            [[9, 9, 9], [9, 9, math.nan]], [[9, 9, 9], [9, 9, math.inf]], [[9, 9, 9], [9, 9, 1.5]],
            [[9, 9, 9], [9, 9, "many"]], [[9, 9, 9], [9, 9, None]], [[9, 9, 9], [9, 9, 2**31]],
            [[9, 9, 2**31 - 1], [9, 9, 1]], [[9, 9, 9], [9, 9, 10**400]], [[[9], [9], [9]], [[9], [9], [9]]],
            [[0, 0, 0], [0, 0, 0]],
        ],
        "successes": [[[99, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, -1]], [[0, 0, 0], [0, 0, 0.5]], [[0, 0, 0]], {}],
        "left": [None, 1, [2], ["agent 3"], [True]],
        "history": [None, 3, {}, "all", [5], [[]], ["round"], [None], [{}]],
    }  # fmt: skip

    @pytest.mark.parametrize(
        ("field", "value"), [(f, v) for f, values in STATES.items() for v in values]
    )
    def test_damaged_states(self, field, value):
        planner = began()
        state = json.loads(planner.to_json())
        assert Planner.from_json(json.dumps(state)).to_json() == planner.to_json()
        with pytest.raises(InvalidInput):
            Planner.from_json(json.dumps(state | {field: value}))

    ROUNDS: ClassVar = {
        "round": [7, "8", None],
        "assignment": [
            None, 5, "ab", [], [0], [0, 1, 2], [0, 0], [0, 3], [0, -1], [0, 1.5], [0, True],
            [None, None],  # they have outcomes
        ],
        "outcomes": [
            None, 5, "11", {"agent 1": 1}, [[1, 1]], [[1, 1], [1, 1], None], [[2, 1], [1, 1]], [[1], [1, 1]],
            [[1, 1], [-1, 1]], [[1, 1], [0.5, 1]], [[1, 1], [0, 2**31]], [[1, 1], "1"],
            [[1, 1], [0, 2**31 - 1]],  # with the rest more than can be counted
        ],
        "absent": [None, [5]],
        "closed": [["arm 4"]],
        "forbidden": [[[0]]],
        "forced": [[[0, 1], [0, 2]]],
        "left": [0],
        "weather": ["rain"],
    }  # fmt: skip

    @pytest.mark.parametrize(
        ("field", "value"), [(f, v) for f, values in ROUNDS.items() for v in values]
    )
    def test_damaged_rounds(self, field, value):
        state = json.loads(began().to_json())
        state["history"][1][field] = value
        with pytest.raises(InvalidInput):
            Planner.from_json(json.dumps(state))

    def test_rounds_that_are_lost_or_out_of_order(self):
        state = json.loads(began().to_json())
        for history in (state["history"][1:], state["history"][::-1]):
            with pytest.raises(InvalidInput, match="round 7 is not in its place"):
                Planner.from_json(json.dumps(state | {"history": history}))

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "null",
            "1",
            "[]",
            '"text"',
            "{}",
            "[" * 100_000,
            "not json",
            b"\xff\xfe",
            5,
            None,
            Problem([0.5], [0.5]).to_json(),
        ],
    )
    def test_other_things(self, text):
        with pytest.raises(InvalidInput, match="not a saved planner"):
            Planner.from_json(text)

    def test_a_text_cut_short(self):
        text = play(Planner([0.5, 0.3], 3, "cucb"), 3).to_json()
        for end in range(len(text)):
            with pytest.raises(InvalidInput):
                Planner.from_json(text[:end])


class Campaign(RuleBasedStateMachine):
    """Rounds under any circumstances, told late and corrected, beside a ledger kept by hand."""

    @initialize(data=st.data(), entry=st.sampled_from(PLANNED + OWN))
    def begin(self, data, entry):
        self.agents, self.arms = data.draw(sizes(5))
        s = data.draw(st.lists(st.floats(0.05, 1), min_size=self.agents, max_size=self.agents))
        self.planner = Planner(s, self.arms, entry, seed=data.draw(st.integers(0, 2**64 - 1)))
        self.sent = []  # of each round
        self.ledger = {}  # (round, agent): (arm, successes, tests)
        self.left = set()

    @rule(data=st.data(), accept=st.booleans())
    def round(self, data, accept):
        how = data.draw(circumstances(self.agents, self.arms))
        away = how | {"absent": how["absent"] | self.left}
        allowed = next(every_allowed(self.agents, self.arms, **away), None)
        before = self.planner.to_json()
        if contradictory(**away) or allowed is None:
            with pytest.raises(InvalidInput):
                self.planner.ask(**how)
            assert self.planner.to_json() == before
            return
        plan = self.planner.ask(**how)
        taken = sent(plan)
        assert len(set(taken.values())) == len(taken)
        assert not away["absent"] & set(taken)
        assert not how["closed"] & set(taken.values())
        assert not how["forbidden"] & set(taken.items())
        assert how["forced"] <= set(taken.items())
        here, free = self.agents - len(away["absent"]), self.arms - len(how["closed"])
        assert len(taken) == min(here, free)
        assert len(self.planner.explain(plan)) == len(taken)
        assert len(str(plan).splitlines()) == 1 + self.agents
        self.sent.append(taken)
        number = len(self.sent)
        if accept:
            assert self.planner.accept(plan) == number
            assert self.planner.accept(plan) == number
            return
        self.planner.tell(plan, self.outcomes(data, number, taken))

    def outcomes(self, data, number, agents):
        """Outcomes of some of these agents, told in one of many ways, and in the ledger."""
        outcomes = {}
        for a in agents:
            tests = data.draw(st.none() | st.integers(0, 5))
            if tests is None:
                continue
            n = self.sent[number - 1][a]
            hits = data.draw(st.integers(0, tests))
            plain = tests == 1 and data.draw(st.booleans())
            key = data.draw(st.sampled_from([a, f"agent {a + 1}", (a, n)]))
            outcomes[key] = hits if plain else (hits, tests)
            self.ledger[number, a] = (n, hits, tests)
        return outcomes

    @rule(data=st.data())
    def late(self, data):
        if not self.sent:
            return
        number = data.draw(st.integers(1, len(self.sent)))
        waiting = [a for a in self.sent[number - 1] if (number, a) not in self.ledger]
        self.planner.tell(number, self.outcomes(data, number, waiting))

    @rule(data=st.data())
    def twice(self, data):
        if not self.ledger:
            return
        number, a = data.draw(st.sampled_from(sorted(self.ledger)))
        before = self.planner.to_json()
        with pytest.raises(InvalidInput, match="use correct"):
            self.planner.tell(number, {a: 1})
        assert self.planner.to_json() == before

    @rule(data=st.data())
    def correct(self, data):
        if not self.ledger:
            return
        number, a = data.draw(st.sampled_from(sorted(self.ledger)))
        del self.ledger[number, a]
        withdrawn = {f"agent {a + 1}": None}
        self.planner.correct(number, self.outcomes(data, number, [a]) or withdrawn)

    @rule(s=st.floats(0.05, 1))
    def join(self, s):
        if self.agents > 7:
            return
        before = self.planner.to_json()
        if self.agents - len(self.left) == self.arms:
            with pytest.raises(InvalidInput, match="at most as many agents as arms"):
                self.planner.join(f"agent {self.agents + 1}", s)
            assert self.planner.to_json() == before
            return
        self.agents += 1
        self.planner.join(f"agent {self.agents}", s)

    @rule(data=st.data())
    def leave(self, data):
        here = sorted(set(range(self.agents)) - self.left)
        if here:
            a = data.draw(st.sampled_from(here))
            self.left.add(a)
            self.planner.leave(data.draw(st.sampled_from([a, f"agent {a + 1}"])))

    @rule(data=st.data())
    def come_back(self, data):
        if self.left and self.agents - len(self.left) < self.arms:
            a = data.draw(st.sampled_from(sorted(self.left)))
            self.left.remove(a)
            self.planner.join(f"agent {a + 1}", self.planner.sensitivities[a])

    @rule()
    def add_arm(self):
        if self.arms < 6:
            self.arms += 1
            self.planner.add_arm(f"arm {self.arms}")

    @rule()
    def restart(self):
        own = self.planner.policy if self.planner.policy.index is not None else None
        again = Planner.from_json(self.planner.to_json(), own)
        assert again.history == self.planner.history
        self.planner = again

    @invariant()
    def the_tables_are_the_ledger(self):
        if not hasattr(self, "planner"):
            return
        pulls = np.zeros((self.agents, self.arms), int)
        successes = np.zeros_like(pulls)
        for (_, a), (n, k, tests) in self.ledger.items():
            pulls[a, n] += tests
            successes[a, n] += k
        np.testing.assert_array_equal(self.planner.pulls, pulls)
        np.testing.assert_array_equal(self.planner.successes, successes)
        assert self.planner.rounds == len(self.sent)
        assert self.planner.elapsed == max(len(self.sent), pulls.sum(axis=0).max())
        missing = {
            (r, f"agent {a + 1}")
            for r, taken in enumerate(self.sent, 1)
            for a in taken
            if (r, a) not in self.ledger
        }
        waiting = self.planner.waiting
        assert {(round_.number, a) for round_ in waiting for a in round_.missing} == missing


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.builds(pow, st.just(10), st.just(5000))  # too long for Python to print
    | st.sampled_from([np.array(1), np.array([0, 1]), np.int8(1), 1j, "agent 1", 0, 1])
)
garbage = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.none() | st.integers(-1, 3) | st.text(max_size=2) | st.tuples(st.integers(0, 2)),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


TestCampaign = Campaign.TestCase
TestCampaign.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


def works_or_refuses(call):
    """The result, or None where the input was refused with a message."""
    try:
        return call()
    except InvalidInput as error:
        assert str(error)  # noqa: PT017 - either outcome is right, but a refusal says why
        return None


class TestFiles:
    def test_there_and_back(self, tmp_path):
        planner = Planner([0.9, 0.5], ["Río", "沼", "c"], agent_names=["Ána", "B"], seed=2)
        planner.tell(planner.ask(), [1, (3, 12)])
        planner.accept(planner.ask(closed="沼"))
        for path in (tmp_path / "Río.json", str(tmp_path / "text.json")):
            assert planner.save(path) is None
            assert Planner.load(path).to_json() == planner.to_json()
            data = Path(path).read_bytes()
            assert data.decode("utf-8") == planner.to_json() + "\n"
            assert "沼".encode() in data
        (tmp_path / "bom.json").write_bytes(b"\xef\xbb\xbf" + data)
        assert Planner.load(tmp_path / "bom.json").to_json() == planner.to_json()

    def test_a_policy_of_ones_own(self, tmp_path):
        planner = play(Planner([0.5, 0.4], 3, OWN[0]), 5)
        planner.save(tmp_path / "own.json")
        with pytest.raises(InvalidInput, match="'optimism', which is not in the catalogue"):
            Planner.load(tmp_path / "own.json")
        assert Planner.load(tmp_path / "own.json", OWN[0]).ask() == planner.ask()

    def test_utf_8_whatever_the_locale(self, tmp_path):
        code = (
            "import sys; from heterobandits import Planner; "
            "Planner([0.5], ['R\\xedo']).save(sys.argv[1]); Planner.load(sys.argv[1])"
        )
        plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        file = str(tmp_path / "planner.json")
        subprocess.run([sys.executable, "-c", code, file], check=True, env=os.environ | plain)
        assert Planner.load(file).arm_names == ("Río",)

    def test_what_fails_leaves_the_old_file(self, tmp_path):
        file = tmp_path / "planner.json"
        planner = Planner([0.9, 0.5], 3)
        planner.save(file)
        before = file.read_bytes()
        planner = play(planner, 20)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (len(before) + 1, limits[1])
        )  # a disk that is full
        try:
            with pytest.raises(
                InvalidInput, match=r"cannot write .*planner\.json.: File too large"
            ):
                planner.save(file)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert file.read_bytes() == before
        assert list(tmp_path.iterdir()) == [file]
        planner.save(file)
        assert Planner.load(file).rounds == 20

    @pytest.mark.parametrize("path", ["no/such/folder.json", "", ".", "a\0b"])
    def test_where_nothing_can_be(self, path, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        no_path = path in ("", "a\0b")
        with pytest.raises(InvalidInput, match="path is" if no_path else "cannot write"):
            Planner([0.5], 2).save(path)
        with pytest.raises(InvalidInput, match="path is" if no_path else "cannot read"):
            Planner.load(path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("path", [None, 5, ["a"]])
    def test_what_is_no_path(self, path):
        for use in (Planner([0.5], 2).save, Planner.load):
            with pytest.raises(InvalidInput, match=r"path is .*: the path of a file"):
                use(path)

    def test_what_is_no_planner(self, tmp_path):
        file = tmp_path / "x.json"
        for data, said in ((b"\xff\xfe{", "not UTF-8"), (b"{}", "not a saved planner")):
            file.write_bytes(data)
            with pytest.raises(InvalidInput, match=said):
                Planner.load(file)


def test_a_key_that_is_there_twice_is_refused():
    text = Planner([0.9, 0.5], 3).to_json()
    assert Planner.from_json("\ufeff" + text).rounds == 0
    with pytest.raises(InvalidInput, match=r"damaged: 'sensitivities' is there twice"):
        Planner.from_json('{"sensitivities": [0.1, 0.2],' + text[1:])


class TestGarbage:
    @given(
        garbage | st.just([0.5]),
        garbage | st.just(3),
        garbage | st.just("min-width"),
        garbage | st.just(0),
        garbage | st.none(),
        garbage | st.just(0),
    )
    def test_making(self, s, arms, entry, seed, names, trial):
        if isinstance(arms, int) and arms > 10_000:
            arms %= 10_000
        made = works_or_refuses(
            lambda: Planner(s, arms, entry, seed, agent_names=names, trial=trial)
        )
        assert made is None or len(made.ask().assignment) == len(made.sensitivities)

    @settings(max_examples=200)
    @given(
        garbage | st.just(()), garbage | st.just(()), garbage | st.just(()), garbage | st.just(())
    )
    def test_asking(self, absent, closed, forbidden, forced):
        planner = Planner([0.9, 0.5], 3)
        how = {"absent": absent, "closed": closed, "forbidden": forbidden, "forced": forced}
        plan = works_or_refuses(lambda: planner.ask(**how))
        assert plan is None or isinstance(plan, Plan)

    @settings(max_examples=200)
    @given(garbage | st.lists(garbage, min_size=2, max_size=2))
    def test_telling(self, outcomes):
        planner = Planner([0.9, 0.5], 3)
        before = planner.to_json()
        works_or_refuses(lambda: planner.tell(planner.ask(), outcomes))
        assert planner.rounds == 1 or planner.to_json() == before
        assert (planner.successes <= planner.pulls).all()

    @given(garbage)
    def test_a_plan_that_is_none(self, plan):
        planner = Planner([0.9, 0.5], 3)
        assert works_or_refuses(lambda: planner.tell(plan, [1, 1])) is None
        assert works_or_refuses(lambda: planner.explain(plan)) is None
        assert planner.rounds == 0

    @pytest.mark.parametrize("assignment", [(9, 0), (-1, 0), (0,), (0, 1, 2), (0, 0), (0.5, 1)])
    def test_a_plan_that_was_tampered_with(self, assignment):
        planner = Planner([0.9, 0.5], 3)
        before = planner.to_json()
        plan = replace(planner.ask(), assignment=assignment)
        for use in (lambda: planner.tell(plan, [1, 1]), lambda: planner.explain(plan)):
            with pytest.raises(InvalidInput):
                use()
        assert planner.to_json() == before

    @settings(max_examples=200)
    @given(st.data())
    def test_loading(self, data):
        planner = play(
            Planner([0.5, 0.3], 3, data.draw(st.sampled_from(["no-sharing", "cucb"]))), 2
        )
        state = json.loads(planner.to_json())
        key = data.draw(st.sampled_from(sorted(state)))
        jsonable = st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=6,
        )
        state[key] = data.draw(jsonable)
        if key == "arm_names" and isinstance(state[key], int):
            state[key] %= 100
        again = works_or_refuses(lambda: Planner.from_json(json.dumps(state)))
        assert again is None or len(again.ask().assignment) == len(again.sensitivities)

    @given(garbage)
    def test_loading_anything(self, text):
        assert works_or_refuses(lambda: Planner.from_json(text)) is None


def test_another_policy_of_the_same_name_is_noticed():
    def hopeful(known):
        return known.successes.sum(axis=0) + 1.0

    def gloomy(known):
        return -known.successes.sum(axis=0) - 1.0

    text = Planner([0.9, 0.5], 3, Policy("mine", index=hopeful)).to_json()
    assert Planner.from_json(text, Policy("mine", index=hopeful)).policy.index is hopeful
    older = json.loads(text)
    del older["policy"]["index"]  # written before functions were told apart: nothing to compare
    Planner.from_json(json.dumps(older), Policy("mine", index=gloomy))
    with pytest.warns(UserWarning, match="'mine' whose index function was another"):
        assert Planner.from_json(text, Policy("mine", index=gloomy)).policy.index is gloomy
