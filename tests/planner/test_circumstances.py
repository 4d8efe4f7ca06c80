"""Absent agents, closed arms, forbidden and forced pairs."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heterobandits import InvalidInput, Planner, policy
from planners import (
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
    with_tables,
)

# Their index of an arm never pulled is that of its prior, or of nothing, or says when pbm-pie begins with it.
FINITE = ("pbm-pie", "random", "thompson", "thompson-sorted", "bayes-ucb", "season")


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
        "entry", [p for p in [*PLANNED, *OWN] if policy(p).first == "most sensitive"], ids=labelled
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
        "entry", [p for p in [*PLANNED, *OWN] if p not in FINITE], ids=labelled
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


# Indices that tie, exactly and up to rounding, and those of arms never pulled.
INDEX = st.sampled_from([-math.inf, -0.5, 0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 1.0, 1e200, math.inf])
SENSITIVITY = st.sampled_from([0.1, 0.2, 0.3, 0.1 + 0.2, 0.7, 1.0])


def worth(f, row, s):
    """The sum of sensitivity times index, exactly: how much of it is infinite, and the rest."""
    infinite = sum(
        Fraction(s[a]) * int(math.copysign(1, row[n])) for a, n in f.items() if math.isinf(row[n])
    )
    return infinite, sum(
        Fraction(s[a]) * Fraction(row[n]) for a, n in f.items() if not math.isinf(row[n])
    )


def who_goes_first(f, turns):
    """By turns, whether an agent goes: the greater, the earlier are those who go."""
    return [a in f for a in turns]


def best_first(row, f):
    """The index of every arm visited, the highest first."""
    return sorted((row[n] for n in f.values()), reverse=True)


@st.composite
def asked(draw, most=4):
    """Sensitivities, the number of arms, and circumstances that leave some assignment."""
    agents, arms = draw(sizes(most))
    s = draw(st.lists(SENSITIVITY, min_size=agents, max_size=agents))
    how = draw(circumstances(agents, arms))
    assume(not contradictory(**how))
    allowed = list(every_allowed(agents, arms, **how))
    assume(allowed)
    return s, arms, how, allowed


class TestLaw:
    """Forbidding a pair that the plan does not use, or forcing one that it uses, changes nothing."""

    def check(self, planner, how, data):
        plan = planner.ask(**how)
        used = sorted(sent(plan).items())
        pairs = itertools.product(range(len(planner.agent_names)), range(len(planner.arm_names)))
        unused = [pair for pair in pairs if pair not in used]
        never = data.draw(st.sets(st.sampled_from(unused))) if unused else set()
        must = data.draw(st.sets(st.sampled_from(used))) if used else set()
        more = {**how, "forbidden": how["forbidden"] | never, "forced": how["forced"] | must}
        again = planner.ask(**more)
        assert again.assignment == plan.assignment
        assert again.index == plan.index

    @pytest.mark.slow
    @pytest.mark.parametrize("entry", [*PLANNED, *OWN], ids=labelled)
    @settings(max_examples=40)
    @given(asked(5), st.data())
    def test_for_every_policy(self, entry, case, data):
        s, arms, how, _ = case
        pulls = [[data.draw(st.integers(0, 5)) for _ in range(arms)] for _ in s]
        successes = [[data.draw(st.integers(0, c)) for c in row] for row in pulls]
        planner = Planner(s, arms, entry, data.draw(st.integers(0, 99)))
        self.check(with_tables(planner, pulls, successes, 20), how, data)

    @settings(max_examples=300)
    @given(asked(), st.sampled_from(["shared", "random turns", "own"]), st.data())
    def test_for_indices_that_tie(self, case, kind, data):
        s, arms, how, _ = case
        row = st.lists(INDEX, min_size=arms, max_size=arms)
        table = data.draw(st.lists(row, min_size=len(s), max_size=len(s)) if kind == "own" else row)
        entry = fixed(table, first="random" if kind == "random turns" else "most sensitive")
        self.check(Planner(s, arms, entry, data.draw(st.integers(0, 9))), how, data)

    def test_an_arm_that_somebody_else_may_visit_is_not_given_up(self):
        planner = with_tables(
            Planner([0.9, 0.5], 3, seed=1), [[19, 3, 15], [9, 9, 8]], [[8, 2, 8], [5, 2, 3]], 50
        )
        free = planner.ask()
        assert free.assignment == (2, 1)
        assert planner.ask(forbidden=[(1, 2)]).assignment == free.assignment
        assert planner.ask(forbidden=[(1, 2), (0, 0)], forced=[(0, 2)]).assignment == (2, 1)

    def test_a_great_team(self):
        rng = np.random.default_rng(5)
        s, index = rng.uniform(0.1, 1, 60).round(1), rng.uniform(0, 1, 80).round(2)
        for entry in (fixed(index), fixed(rng.uniform(0, 1, (60, 80)).round(1))):
            planner = Planner(s, 80, entry)
            plan = planner.ask()
            unused = [(a, n) for a, n in np.ndindex(60, 80) if plan.assignment[a] != n]
            never = [unused[i] for i in rng.permutation(len(unused))[:2000]]
            assert planner.ask(forbidden=never).assignment == plan.assignment
            assert planner.ask(forced=list(sent(plan).items())[::7]).assignment == plan.assignment


class TestPairs:
    @settings(max_examples=400)
    @given(asked(), st.booleans(), st.data())
    def test_the_best_arms_dealt_best(self, case, by_chance, data):
        s, arms, how, allowed = case
        row = data.draw(st.lists(INDEX, min_size=arms, max_size=arms))
        entry = fixed(row, first="random" if by_chance else "most sensitive")
        plan = sent(Planner(s, arms, entry).ask(**how))
        assert plan in allowed
        if not by_chance:
            turns = sorted(set(range(len(s))) - how["absent"], key=lambda a: (-s[a], a))
            forced = {a for a, _ in how["forced"]}
            turns.sort(key=lambda a: a not in forced)
            first = max(who_goes_first(f, turns) for f in allowed)
            allowed = [f for f in allowed if who_goes_first(f, turns) == first]
            assert plan in allowed
        greatest = max(best_first(row, f) for f in allowed)
        assert best_first(row, plan) == greatest
        if not by_chance:
            equal = [f for f in allowed if best_first(row, f) == greatest]
            arms_of = [f for f in equal if set(f.values()) == set(plan.values())]
            assert worth(plan, row, s) == max(worth(f, row, s) for f in arms_of)

    @pytest.mark.parametrize("name", ["posterior-sorted", "thompson-sorted", "bayes-ucb"])
    @settings(max_examples=60)
    @given(asked(), st.data())
    def test_the_posterior_mean_deals_where_it_sorts(self, name, case, data):
        s, arms, how, allowed = case
        pulls = [[data.draw(st.integers(0, 5)) for _ in range(arms)] for _ in s]
        successes = [[data.draw(st.integers(0, c)) for c in row] for row in pulls]
        planner = with_tables(Planner(s, arms, name), pulls, successes, 20)
        made = planner.ask(**how)
        plan, row, mean = sent(made), made.index[0], planner.intervals().estimate.tolist()
        allowed = [f for f in allowed if set(f) == set(plan)]
        greatest = max(best_first(row, f) for f in allowed)
        assert best_first(row, plan) == greatest
        equal = [f for f in allowed if set(f.values()) == set(plan.values())]
        best = max(worth(f, mean, s) for f in equal)
        assert float(worth(plan, mean, s)[1]) == pytest.approx(float(best[1]), rel=1e-9)

    @settings(max_examples=300)
    @given(asked(), st.data())
    def test_with_an_index_each_they_pick_in_turn(self, case, data):
        s, arms, how, allowed = case
        row = st.lists(INDEX, min_size=arms, max_size=arms)
        table = data.draw(st.lists(row, min_size=len(s), max_size=len(s)))
        plan = sent(Planner(s, arms, fixed(table)).ask(**how))
        left = [f for f in allowed if set(f) == set(plan)]
        for a in sorted(plan, key=lambda a: (-s[a], a)):  # what the earlier ones picked is gone
            assert table[a][plan[a]] == max(table[a][f[a]] for f in left)
            left = [f for f in left if f[a] == plan[a]]
        assert left == [plan]

    def test_in_random_turns_everybody_is_as_likely_to_go_first(self):
        # Agent 3 may go to the best or the worst of three arms, so it gets the best, and chance deals
        # the others: 2000 draws, 5.5 standard deviations are exceeded with probability below 4e-8.
        first = 0
        for seed in range(2000):
            planner = Planner([0.9, 0.5, 0.1], 4, fixed([3, 2, 1, 0], first="random"), seed)
            plan = planner.ask(forbidden=[(2, 1), (2, 2)])
            assert plan.assignment[2] == 0
            assert set(plan.assignment) == {0, 1, 2}
            first += plan.assignment[0] == 1
        assert abs(first - 1000) < 5.5 * math.sqrt(500)

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
            ({"forced": [(0, 1)], "absent": [0]}, "agent 1 has to go to arm 2, but is absent"),
            (
                {"forced": [(0, 1)], "closed": [1]},
                "agent 1 has to go to arm 2, but that arm is closed",
            ),
            (
                {"forced": [(0, 1)], "forbidden": [(0, 1)]},
                "agent 1 has to go to arm 2, but may not go there",
            ),
            (
                {"forced": [(0, 1), (0, 2)]},
                "agent 1 .* can go to one arm: arm 2 and arm 3 are too many",
            ),
            (
                {"forced": [(0, 1), (1, 1)]},
                "agent 1 .* an arm takes one agent: agent 1 and agent 2 are too many",
            ),
            ({"forbidden": [(0, 0), (0, 1), (0, 2)]}, "no assignment is left"),
            ({"forbidden": [(0, 1), (0, 2), (1, 1), (1, 2)]}, "no assignment is left"),
            (
                {"forced": [(0, 0)], "forbidden": [(1, 1), (1, 2)]},
                "without an arm; name it as absent",
            ),
            (
                {"closed": [0, 1], "forbidden": [(0, 2), (1, 2)]},
                "some open arm without an agent; close it",
            ),
        ],
    )
    @pytest.mark.parametrize("entry", ["min-width", "no-sharing", "cucb"])
    def test_what_cannot_be_is_said(self, how, culprit, entry):
        with pytest.raises(InvalidInput, match=culprit):
            Planner([0.9, 0.5], 3, entry).ask(**how)

    @pytest.mark.parametrize("field", ["absent", "closed", "forbidden", "forced"])
    @pytest.mark.parametrize(
        "given", [None, 5, "agnt 1", [None], [9], [-1], [0.5], [True], ["agnt 1"], np.array(1)]
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

    def test_one_name_or_pair_will_do(self):
        planner = Planner([0.9, 0.5], ["Swamp", "Hill", "Ford"], agent_names=["Ana", "Bo"])
        assert planner.ask(closed="Swamp", absent="Bo") == planner.ask(
            closed=["Swamp"], absent=["Bo"]
        )
        one = planner.ask(forbidden=("Ana", "Swamp"), forced=(1, 0))
        assert one == planner.ask(forbidden=[("Ana", "Swamp")], forced=[("Bo", "Swamp")])
        assert one.assignment[1] == 0
        for how, said in (
            ({"closed": 1}, "closed is 1: a list of arms, or one name"),
            ({"absent": None}, "absent is None: a list of agents, or one name"),
            ({"closed": "Swmp"}, "unknown arm 'Swmp': did you mean 'Swamp'?"),
            (
                {"forbidden": ["Ana", "Swamp"]},
                "forbidden has 'Ana': pairs (agent, arm), as ('Ana', 'Swamp')",
            ),
            ({"forced": "Ana"}, "forced is 'Ana': a list of pairs (agent, arm), or one of them"),
        ):
            with pytest.raises(InvalidInput) as caught:
                planner.ask(**how)
            assert str(caught.value) == said

    def test_numbers_count_from_0(self):
        planner = Planner([0.9, 0.5], 3)
        for how, named in (
            ({"absent": [1]}, {"absent": ["agent 2"]}),
            ({"closed": [0]}, {"closed": ["arm 1"]}),
            ({"forbidden": [(1, 2)]}, {"forbidden": [("agent 2", "arm 3")]}),
            ({"forced": [(0, 1)]}, {"forced": [("agent 1", "arm 2")]}),
        ):
            assert planner.ask(**how) == planner.ask(**named)
        for key, value in (("absent", [2]), ("absent", [-1]), ("absent", [0.0])):
            with pytest.raises(InvalidInput) as caught:
                planner.ask(**{key: value})
            assert str(caught.value) == (
                f"the number of an agent is {value[0]}: a number from 0, 'agent 1', to 1, 'agent 2'"
            )
        with pytest.raises(InvalidInput, match="an arm is 3: a number from 0, 'arm 1', to 2, 'arm"):
            planner.ask(closed=[3])

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
