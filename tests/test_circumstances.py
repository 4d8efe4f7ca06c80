"""Absent agents, closed arms, forbidden and forced pairs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heterobandits import InvalidInput, Planner, policy
from planning import (
    OWN,
    PLANNED,
    circumstances,
    contradictory,
    every_allowed,
    fixed,
    labelled,
    play,
    sent,
    sizes,
    value,
)

# Their index of an arm never pulled is that of its prior, or of nothing.
FINITE = ("random", "thompson", "thompson-sorted", "bayes-ucb")


class TestAbsentAndClosed:
    @pytest.mark.parametrize("entry", [*PLANNED, *OWN], ids=labelled)
    def test_absent_agents_stay_home_and_closed_arms_are_empty(self, entry):
        planner = Planner([0.3, 0.9, 0.6], ["a", "b", "c", "d"], entry, agent_names=["x", "y", "z"])
        for _ in range(8):
            plan = planner.ask(absent=["y"], closed=["c", 0])
            assert plan.assignment[1] is None
            assert str(plan.reasons[1]) == plan.reasons[1].code == "absent"
            assert sorted(n for n in plan.assignment if n is not None) == [1, 3]
            planner.tell(plan, [1, None, (2, 3)])
        assert planner.pulls.sum(axis=0).tolist()[0::2] == [0, 0]
        assert planner.pulls[1].sum() == 0

    @pytest.mark.parametrize(
        "entry",
        [p for p in [*PLANNED, *OWN] if policy(p).first == "most sensitive"],
        ids=labelled,
    )
    def test_the_least_sensitive_stay_home_when_arms_are_few(self, entry):
        planner = play(Planner([0.3, 0.9, 0.6], 4, entry), 12)
        plan = planner.ask(closed=[1, 3])
        assert plan.assignment[0] is None
        assert str(plan.reasons[0]) == "no open arm is left"
        assert sorted(n for n in plan.assignment if n is not None) == [0, 2]
        plan = planner.ask(absent=[1], closed=[0, 1, 3])
        assert plan.assignment == (None, None, 2)

    def test_for_cucb_chance_says_who_stays_home(self):
        # 2000 draws among 3 agents: 5.5 standard deviations are exceeded with probability
        # below 4e-8 for one agent, 2e-7 for all.
        counts = np.zeros(3)
        for seed in range(2000):
            plan = Planner([0.9, 0.5, 0.1], 3, "cucb", seed=seed).ask(closed=[0, 2])
            (agent,) = sent(plan)
            counts[agent] += 1
        assert np.abs(counts - 2000 / 3).max() < 5.5 * math.sqrt(2000 * 2 / 9)

    @given(sizes(), st.data())
    def test_those_who_are_left_are_matched_in_order(self, size, data):
        agents, arms = size
        s = data.draw(st.lists(st.sampled_from([0.2, 0.5, 0.9]), min_size=agents, max_size=agents))
        index = data.draw(st.permutations([k / 8 for k in range(arms)]))
        how = data.draw(circumstances(agents, arms, pairs=False))
        plan = Planner(s, arms, fixed(index)).ask(**how)
        present = sorted(
            (a for a in range(agents) if a not in how["absent"]), key=lambda a: (-s[a], a)
        )
        free = sorted((n for n in range(arms) if n not in how["closed"]), key=lambda n: -index[n])
        assert sent(plan) == dict(zip(present, free, strict=False))

    @pytest.mark.parametrize("entry", [*PLANNED, *OWN], ids=labelled)
    def test_nobody_present_or_nothing_open(self, entry):
        planner = Planner([0.3, 0.9], 3, entry)
        for how in (
            {"absent": [0, 1]},
            {"closed": [0, 1, 2]},
            {"absent": [0, 1], "closed": [0, 1, 2]},
            {"absent": [0, 1], "forbidden": [(0, 0)]},
            {"closed": [0, 1, 2], "forbidden": [(0, 0)]},
        ):
            plan = planner.ask(**how)
            assert plan.assignment == (None, None)
            assert planner.explain(plan) == ()
            assert str(plan).count("stays home") == 2
        planner.tell(plan, [None, None])
        assert planner.rounds == 1
        assert not planner.pulls.any()

    @pytest.mark.parametrize(
        "entry",
        [p for p in [*PLANNED, *OWN] if p not in FINITE],
        ids=labelled,
    )
    def test_arms_never_pulled_come_first(self, entry):
        planner = Planner([0.5, 0.8], 5, entry, seed=3)
        if policy(entry).index_per == "agent":
            for _ in range(4):
                plan = planner.ask()
                planner.tell(plan, [1, 1])
            # The first to pick has no rival for what it has not seen.
            assert sorted(planner.pulls[1].tolist()) == [0, 1, 1, 1, 1]
        else:
            for _ in range(2):
                planner.tell(planner.ask(), [1, 1])
            assert sorted(planner.pulls.sum(axis=0).tolist()) == [0, 1, 1, 1, 1]
            (left,) = np.flatnonzero(planner.pulls.sum(axis=0) == 0)
            # The last one unseen is among the arms chosen, with pairs forbidden or not.
            assert left in planner.ask().assignment
            assert left in planner.ask(forbidden=[(1, left)]).assignment
            assert left in planner.ask(forbidden=[(0, left)]).assignment


class TestPairs:
    @settings(max_examples=250)
    @given(sizes(), st.booleans(), st.data())
    def test_the_assignment_is_the_best_of_all_that_are_allowed(self, size, shared, data):
        agents, arms = size
        s = data.draw(st.lists(st.floats(0.01, 1), min_size=agents, max_size=agents))
        # Not negative: the least sensitive stay home, which would not be best then.
        row = st.lists(
            st.floats(0, 3) | st.sampled_from([0.0, 0.5, 1.0]), min_size=arms, max_size=arms
        )
        table = data.draw(row if shared else st.lists(row, min_size=agents, max_size=agents))
        how = data.draw(circumstances(agents, arms))
        planner = Planner(s, arms, fixed(table))
        full = [table] * agents if shared else table
        best = max((value(f, full, s) for f in every_allowed(agents, arms, **how)), default=None)
        if contradictory(**how) or best is None:
            with pytest.raises(InvalidInput):
                planner.ask(**how)
            return
        plan = planner.ask(**how)
        if how["forbidden"] or how["forced"] or shared:
            assert sent(plan) in list(every_allowed(agents, arms, **how))
            assert value(sent(plan), full, s) == pytest.approx(best, rel=1e-12, abs=1e-12)

    @settings(max_examples=150)
    @given(sizes(), st.data())
    def test_sorted_and_optimal_matching_are_equally_good(self, size, data):
        agents, arms = size
        s = data.draw(st.lists(st.floats(0.01, 1), min_size=agents, max_size=agents))
        index = data.draw(st.lists(st.floats(-2, 3), min_size=arms, max_size=arms))
        planner = Planner(s, arms, fixed(index))
        sorted_plan = planner.ask()
        # Forbidding a pair that nobody wants leads through the optimal matching.
        spare = sorted(set(range(arms)) - set(sorted_plan.assignment))
        never = [(0, spare[-1])] if spare else []
        agent = data.draw(st.integers(0, agents - 1))
        forced = [(agent, sorted_plan.assignment[agent])]
        best = value(sent(sorted_plan), [index] * agents, s)
        for how in ({"forbidden": never}, {"forced": forced}):
            plan = planner.ask(**how)
            assert value(sent(plan), [index] * agents, s) == pytest.approx(best, abs=1e-12)

    @pytest.mark.parametrize("entry", PLANNED)
    def test_forbidden_and_forced_are_honoured(self, entry):
        planner = Planner([0.3, 0.9, 0.6], 4, entry)
        for _ in range(15):
            plan = planner.ask(forbidden=[(1, 0), (1, 1), ("agent 3", "arm 4")], forced=[(0, 2)])
            assert plan.assignment[0] == 2
            assert plan.assignment[1] == 3
            assert plan.assignment[2] in (0, 1)
            assert str(plan.reasons[0]) == plan.reasons[0].code == "forced"
            planner.tell(plan, [1, 0, 1])

    def test_pairs_of_those_who_are_away_are_idle(self):
        planner = Planner([0.3, 0.9], 3, fixed([0.1, 0.2, 0.3]))
        assert planner.ask(absent=[1], forbidden=[(1, 2)]).assignment == (2, None)
        assert planner.ask(closed=[2], forbidden=[(1, 2)]).assignment == (0, 1)

    @pytest.mark.parametrize(
        ("how", "culprit"),
        [
            ({"forced": [(0, 1)], "absent": [0]}, "'agent 1', 'arm 2'.*the agent is absent"),
            ({"forced": [(0, 1)], "closed": [1]}, "'agent 1', 'arm 2'.*the arm is closed"),
            ({"forced": [(0, 1)], "forbidden": [(0, 1)]}, "'agent 1', 'arm 2'.*forbidden as well"),
            ({"forced": [(0, 1), (0, 2)]}, "'agent 1'.*two arms"),
            ({"forced": [(0, 1), (1, 1)]}, "'arm 2'.*two agents"),
            ({"forbidden": [(0, 0), (0, 1), (0, 2)]}, "no assignment is left"),
            (
                {"forbidden": [(0, 1), (0, 2), (1, 1), (1, 2)]},
                "no assignment is left",
            ),
            ({"forced": [(0, 0)], "forbidden": [(1, 1), (1, 2)]}, "no assignment is left"),
        ],
    )
    @pytest.mark.parametrize("entry", ["min-width", "no-sharing", "cucb"])
    def test_what_cannot_be_is_said(self, how, culprit, entry):
        with pytest.raises(InvalidInput, match=culprit):
            Planner([0.9, 0.5], 3, entry).ask(**how)

    @pytest.mark.parametrize("field", ["absent", "closed", "forbidden", "forced"])
    @pytest.mark.parametrize(
        "given", [None, 5, "agent 1", [None], [9], [-1], [0.5], [True], ["agnt 1"], np.array(1)]
    )
    def test_who_and_where_must_exist(self, field, given):
        planner = Planner([0.9, 0.5], 3)
        with pytest.raises(InvalidInput):
            planner.ask(**{field: given})

    @pytest.mark.parametrize("pair", [(0,), (0, 1, 2), (0, 9), (9, 0), ("agent 1", "floor"), "ab"])
    @pytest.mark.parametrize("field", ["forbidden", "forced"])
    def test_a_pair_is_an_agent_and_an_arm(self, field, pair):
        with pytest.raises(InvalidInput):
            Planner([0.9, 0.5], 3).ask(**{field: [pair]})

    def test_a_misspelt_name_gives_the_nearest(self):
        planner = Planner([0.9, 0.5], ["floor 1", "lobby", "yard"], agent_names=["Ada", "Grace"])
        with pytest.raises(InvalidInput, match="unknown arm 'loby': did you mean 'lobby'"):
            planner.ask(closed=["loby"])
        with pytest.raises(InvalidInput, match="unknown agent 'Grce': did you mean 'Grace'"):
            planner.ask(absent=["Grce"])
        with pytest.raises(InvalidInput, match=r"unknown arm 'lobbi'.*'lobby'"):
            planner.ask(forced=[("Ada", "lobbi")])

    def test_what_was_particular_stays_with_the_plan(self):
        how = {"absent": [2], "closed": [3], "forbidden": [(0, 0)], "forced": [(1, 1)]}
        plan = Planner([0.9, 0.5, 0.4], 5).ask(**how)
        wanted = {key: frozenset(how[key]) for key in how} | {"left": frozenset()}
        assert plan.circumstances._asdict() == wanted
