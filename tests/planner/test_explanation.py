"""Why an assignment was made, and what is known of the arms."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reference
from heterobandits import Explanation, Planner, policy
from heterobandits.core.assignment import BY_CHANCE, BY_INDEX, BY_SECOND_ROW
from heterobandits.core.randomness import uniform
from heterobandits.model.team import Team
from heterobandits.planner.explanation import next_arm_with_pairs
from heterobandits.planner.matching import Circumstances, Luck, match_agents
from planners import (
    OWN,
    PLANNED,
    circumstances,
    contradictory,
    every_allowed,
    fixed,
    labelled,
    sizes,
    with_tables,
)


def estimates(planner):
    """Min-Width's estimate and width of every arm, from the paper's equations.

    eq:muhat_t,n and eq:epsilon_t,n, with G counted as eq:G(T,A) defines it and exact sums.
    """
    A, N = planner.pulls.shape
    t = planner.elapsed if planner.policy.horizon == "anytime" else planner.policy.horizon
    G = sum(math.comb(i + A - 1, A - 1) for i in range(1, t + 1))
    s = [Fraction(x) for x in planner.sensitivities]
    found = []
    for n in range(N):
        V = sum(s[a] ** 2 * int(planner.pulls[a, n]) for a in range(A))
        W = sum(s[a] * int(planner.successes[a, n]) for a in range(A))
        if not V:
            found.append((0.5, math.inf))
            continue
        L = math.log(2 * N / planner.policy.delta) + math.log(G)
        found.append((float(W / V), math.sqrt(L / (2 * float(V)))))
    return found


@st.composite
def histories(draw, most=4, tests=30):
    """Sensitivities and tables as any history might have left them."""
    agents, arms = draw(sizes(most))
    s = draw(st.lists(st.floats(0.05, 1), min_size=agents, max_size=agents))
    pulls = [[draw(st.integers(0, tests)) for _ in range(arms)] for _ in range(agents)]
    successes = [[draw(st.integers(0, c)) for c in row] for row in pulls]
    return s, pulls, successes, draw(st.integers(1, 3 * tests))


class TestIntervals:
    @given(histories(), st.sampled_from([0.05, 0.4]), st.sampled_from(["anytime", 500]))
    def test_as_the_paper_has_them(self, history, delta, horizon):
        s, pulls, successes, rounds = history
        entry = policy("min-width", delta=delta, horizon=horizon)
        planner = with_tables(Planner(s, len(pulls[0]), entry), pulls, successes, rounds)
        known = planner.intervals("min-width")
        for n, (middle, width) in enumerate(estimates(planner)):
            assert known.estimate[n] == pytest.approx(min(1.0, middle), rel=1e-12)
            low, high = max(0.0, middle - width), min(1.0, middle + width)
            assert known.lower[n] == pytest.approx(min(1.0, low), rel=1e-9, abs=1e-12)
            assert known.upper[n] == pytest.approx(high, rel=1e-9, abs=1e-12)

    @given(histories(tests=100_000))
    def test_probabilities_that_contain_the_estimate(self, history):
        s, pulls, successes, rounds = history
        planner = with_tables(Planner(s, len(pulls[0])), pulls, successes, rounds)
        estimate, lower, upper = planner.intervals()
        for low, middle, high in zip(lower, estimate, upper, strict=True):
            assert 0.0 <= low <= middle <= high <= 1.0

    def test_when_more_succeeds_than_was_thought_possible(self):
        # The sensitivity was believed too low: the estimate W/V is beyond 1, and so is its interval.
        planner = Planner([0.5], 1)
        planner.tell(planner.ask(), [(1000, 1000)])
        estimate, lower, upper = (float(x[0]) for x in planner.intervals("min-width"))
        assert (estimate, upper) == (1.0, 1.0)
        assert 0.0 <= lower <= 1.0
        estimate, lower, upper = (float(x[0]) for x in planner.intervals())
        assert estimate == pytest.approx(1001 / 1002)  # the mean of 1001 mu^1000 on [0, 1]
        assert 0.98 < lower < estimate < upper == 1.0
        (explanation,) = planner.explain(planner.ask())
        assert explanation.lower <= explanation.estimate <= explanation.upper <= 1.0

    def test_nothing_is_known_of_an_arm_never_pulled(self):
        estimate, lower, upper = Planner([0.9], 2).intervals()
        assert (estimate.tolist(), lower.tolist(), upper.tolist()) == ([0.5] * 2, [0] * 2, [1] * 2)

    def test_they_shrink_with_pulls(self):
        planner = Planner([0.8, 0.4], 2)
        widths = []
        for r in range(6):
            planner.tell(planner.ask(), [(4 * 4**r, 10 * 4**r), (2 * 4**r, 10 * 4**r)])
            known = planner.intervals()
            widths.append(known.upper - known.lower)
        for wider, narrower in itertools.pairwise(widths):
            assert (narrower < wider).all()
        assert (widths[-1] < 0.1).all()


def explained(planner, plan):
    """The explanations by the number of the agent."""
    return {planner.agent_names.index(e.agent): e for e in planner.explain(plan)}


class TestExplaining:
    @given(histories(), st.sampled_from(["min-width", "min-ucb", "no-sharing", "greedy"]))
    def test_the_numbers_are_the_papers(self, history, name):
        s, pulls, successes, rounds = history
        agents, arms = len(pulls), len(pulls[0])
        planner = with_tables(Planner(s, arms, name), pulls, successes, rounds)
        plan = planner.ask()
        known, t = estimates(planner), planner.elapsed
        own = math.log(2 * agents * arms * t / 0.05)

        def own_index(a, n):  # eq:UCB_t,a,n
            c, y = pulls[a][n], successes[a][n]
            return (y / c + math.sqrt(own / (2 * c))) / s[a] if c else math.inf

        for a, e in explained(planner, plan).items():
            n = plan.assignment[a]
            assert e.arm == planner.arm_names[n]
            exact = reference.posterior_of(s, *(reference.column(x, n) for x in (pulls, successes)))
            assert e.estimate == pytest.approx(exact.mean, rel=1e-9)
            low, high = exact.interval(math.log(arms / 0.05))
            assert e.lower == pytest.approx(low, rel=1e-7, abs=1e-12)
            assert e.upper == pytest.approx(high, rel=1e-7)
            seen = sum(pulls[b][n] for b in range(agents))
            assert (e.pulls, e.own_pulls) == (seen, pulls[a][n])
            index = {
                "min-width": sum(known[n]),
                "min-ucb": min(own_index(b, n) for b in range(agents)),
                "no-sharing": own_index(a, n),
                "greedy": known[n][0] if seen else math.inf,
            }[name]
            assert e.index == plan.index[a][n] == pytest.approx(index, rel=1e-12)
            if e.runner_up is not None:
                other = planner.arm_names.index(e.runner_up)
                assert e.runner_up_index == plan.index[a][other]

    @settings(max_examples=150)
    @given(histories(), st.sampled_from(["min-width", "min-ucb", "no-sharing"]), st.data())
    def test_exploits_where_the_estimates_alone_would_send_it(self, history, name, data):
        s, pulls, successes, rounds = history
        pulls = [[c + 1 for c in row] for row in pulls]  # every arm is known to everyone
        successes = [[y // 2 for y in row] for row in successes]
        agents, arms = len(pulls), len(pulls[0])
        planner = with_tables(Planner(s, arms, name), pulls, successes, rounds)
        guess = [round(float(m), 9) for m in planner.intervals().estimate]
        assume(len(set(guess)) == arms)  # no arms that look alike
        how = data.draw(circumstances(agents, arms, pairs=False))
        plan = planner.ask(**how)
        present = sorted(set(range(agents)) - how["absent"], key=lambda a: (-s[a], a))
        free = sorted(set(range(arms)) - how["closed"], key=lambda n: -guess[n])
        greedy = dict(zip(present, free, strict=False))
        for a, e in explained(planner, plan).items():
            assert e.mode == ("exploit" if greedy[a] == plan.assignment[a] else "explore")

    def test_the_first_visit_explores(self):
        planner = Planner([0.9, 0.5], 3)
        for e in planner.explain(planner.ask()):
            assert e.mode == "explore"
            assert e.pulls == e.own_pulls == 0
            assert e.index == math.inf

    def test_greedy_always_exploits_what_it_has_seen(self):
        # More succeeds than the low sensitivities allow for: estimates are beyond 1.
        for seed in range(20):
            planner = Planner([0.3, 0.2], 3, "greedy", seed=seed)
            for _ in range(3):
                planner.tell(planner.ask(), [(9, 10), (7, 10)])
            for e in planner.explain(planner.ask()):
                assert e.mode == ("exploit" if e.pulls else "explore")

    @settings(max_examples=150)
    @given(sizes(5), st.booleans(), st.data())
    def test_in_turn_the_runner_up_is_the_best_that_was_free(self, size, shared, data):
        agents, arms = size
        s = data.draw(st.lists(st.floats(0.01, 1), min_size=agents, max_size=agents, unique=True))
        row = st.permutations([k / 8 for k in range(arms)])
        table = data.draw(row if shared else st.lists(row, min_size=agents, max_size=agents))
        how = data.draw(circumstances(agents, arms, pairs=False))
        planner = Planner(s, arms, fixed(table))
        plan = planner.ask(**how)
        full = [table] * agents if shared else table
        for a, e in explained(planner, plan).items():
            n = plan.assignment[a]
            taken = {plan.assignment[b] for b in range(agents) if s[b] > s[a]}
            free = set(range(arms)) - how["closed"] - taken - {n}
            if not free:
                assert (e.runner_up, e.runner_up_index, e.flip_index) == (None, None, None)
                continue
            other = max(free, key=lambda m: full[a][m])
            assert e.runner_up == planner.arm_names[other]
            assert e.runner_up_index == e.flip_index == full[a][other]
            for shift, goes in ((1e-6, n), (-1e-6, other)):
                changed = np.array(table, float)
                changed[n if shared else (a, n)] = e.flip_index + shift
                again = Planner(s, arms, fixed(changed)).ask(**how)
                assert again.assignment[a] == goes

    @pytest.mark.parametrize("kind", ["own", "shared", "random turns", "second row"])
    def test_with_pairs_the_flip_index_flips(self, kind):
        rng = np.random.default_rng(12)
        flipped = kept = 0
        dealt = {"random turns": BY_CHANCE, "second row": BY_SECOND_ROW}.get(kind, BY_INDEX)
        for _ in range(300):
            arms = int(rng.integers(2, 5))
            agents = int(rng.integers(1, arms + 1))
            team = Team(rng.choice([rng.uniform(0.1, 1), 0.5], agents))
            rows = rng.uniform(0, 2, ({"own": agents, "second row": 2}.get(kind, 1), arms))
            pairs = list(itertools.product(range(agents), range(arms)))
            some = rng.permutation(len(pairs))[:3]
            how = {
                "forbidden": [pairs[i] for i in some[: rng.integers(1, 3)]],
                "forced": [pairs[i] for i in some[2:] if rng.random() < 0.3],
                "closed": [int(rng.integers(arms))] if rng.random() < 0.2 else [],
            }
            if contradictory(**how) or not list(every_allowed(agents, arms, **how)):
                continue
            words = rng.integers(0, 2**32, (agents + 2, arms), np.uint32)
            luck = Luck(arms=words[0], own=words[2:], turns=words[1, :agents])
            given = Circumstances.of(team.names, [f"arm {n}" for n in range(arms)], **how)
            f = match_agents(rows, dealt, team, luck, given)
            for a, n in f.items():
                if (a, n) in how["forced"]:
                    continue
                row = a if kind == "own" else 0
                other, flip = next_arm_with_pairs(rows, dealt, team, luck, given, f, a)
                away = [g for g in every_allowed(agents, arms, **how) if g.get(a, n) != n]
                if other is None:  # somebody else would go instead
                    assert not [g for g in away if set(g) == set(f)]
                else:
                    assert other in [g[a] for g in away]
                moves = [(-9.0, n), (9.0, n)]  # no index sends it elsewhere
                if flip is not None:
                    beyond = math.copysign(1e-6, flip - rows[row, n])
                    moves = [(flip - beyond, n), (flip + beyond, other)]
                    if flip > rows[row, n]:  # nor does a lower one
                        moves.append((-9.0, n))
                for index, goes in moves:
                    changed = rows.copy()
                    changed[row, n] = index
                    assert match_agents(changed, dealt, team, luck, given)[a] == goes, (
                        rows,
                        how,
                        a,
                    )
                flipped, kept = flipped + (flip is not None), kept + (flip is None)
        assert flipped > 150
        assert kept > 10

    @pytest.mark.parametrize(
        ("s", "index", "moves"),
        [([0.5, 0.9, 0.7], 0.5, "rose above"), ([0.9, 0.5, 0.7], 0.9, "fell below")],
    )
    def test_an_arm_may_go_to_another_agent(self, s, index, moves):
        # Two assignments are allowed. With x for b they are worth s1 x + s2 + 0.2 s3 and s2 x + s3 + 0.2 s1,
        # as much as each other where (s1 - s2) x = 0.2 s1 - s2 + 0.8 s3: in both cases at 0.24 / 0.4.
        planner = Planner(s, ["a", "b", "c"], fixed([1.0, index, 0.2]))
        plan = planner.ask(forbidden=[(0, 0), (1, 2), (2, 1)])
        assert plan.assignment == (1, 0, 2)
        e = planner.explain(plan)[0]
        assert (e.arm, e.runner_up) == ("b", "c")
        assert e.flip_index == pytest.approx(0.6, rel=1e-12)
        assert str(e).endswith(f"would go to c (0.200) if b {moves} 0.600")

    def test_with_pairs_that_do_not_matter_the_reasons_stay(self):
        index = [0.9, 0.8, 0.7, 0.6]
        planner = Planner([0.9, 0.5], 4, fixed(index))
        free = planner.explain(planner.ask())
        bound = planner.explain(planner.ask(forbidden=[(0, 3)]))
        for one, other in zip(free, bound, strict=True):
            assert (one.runner_up, one.flip_index) == (other.runner_up, other.flip_index)

    @pytest.mark.parametrize("entry", [*PLANNED, *OWN], ids=labelled)
    @settings(max_examples=25)
    @given(st.data())
    def test_what_a_reason_says_is_so(self, entry, data):
        agents, arms = data.draw(sizes(4))
        pulls = [[data.draw(st.integers(0, 3)) for _ in range(arms)] for _ in range(agents)]
        successes = [[data.draw(st.integers(0, c)) for c in row] for row in pulls]
        how = data.draw(circumstances(agents, arms))
        assume(not contradictory(**how) and list(every_allowed(agents, arms, **how)))
        planner = Planner([0.9, 0.5, 0.5, 0.2][:agents], arms, entry)
        planner = with_tables(planner, pulls, successes, 12)
        plan = planner.ask(**how)
        seen = planner.pulls.sum(axis=0)
        for a, (n, reason) in enumerate(zip(plan.assignment, plan.reasons, strict=True)):
            if n is None:
                continue
            higher = sum(
                plan.index[a][m] > plan.index[a][n] for m in range(arms) if m not in how["closed"]
            )
            if reason.code in ("highest", "among the highest"):
                assert higher < reason.visited
            if reason.code == "best to be had":
                assert higher >= reason.visited
            if reason.code == "unseen":
                assert seen[n] == 0
            if reason.code == "unseen by it":
                assert pulls[a][n] == 0

    def test_an_infinite_index_of_an_arm_that_was_pulled(self):
        planner = Planner([0.9], ["a", "b"], fixed([math.inf, 1.0]))
        planner.tell(planner.ask(), [1])
        plan = planner.ask()
        assert plan.reasons[0].code == "highest left"
        assert str(plan).endswith("a: the most promising arm left: 1 found in 1 test")
        (e,) = planner.explain(plan)
        assert "index infinite, the highest left at its turn" in str(e)
        assert str(e).endswith("would go to b (1.000) if a fell below 1.000")

    def test_infinite_numbers_in_words(self):
        planner = Planner([0.9, 0.5], ["east", "west"], fixed([1.0, math.inf]))
        plan = planner.ask(forbidden=[(0, 1), (1, 0)])
        for e in planner.explain(plan):
            assert "inf)" not in str(e)
        (first,) = planner.explain(planner.ask(closed=["west"], absent=[1]))
        text = str(replace(first, runner_up="west", runner_up_index=math.inf, flip_index=2.0))
        assert text.endswith("would go to west (infinite) if east rose above 2.000")

    def test_without_another_arm_to_be_had(self):
        planner = Planner([0.9, 0.5], 2, fixed([1.0, 0.5]))
        first, last = planner.explain(planner.ask())
        assert (first.runner_up, first.flip_index) == ("arm 2", 0.5)
        assert (last.runner_up, last.runner_up_index, last.flip_index) == (None, None, None)
        assert "it could go nowhere else" in str(last)
        (forced, _) = planner.explain(planner.ask(forced=[(0, 1)]))
        assert forced.runner_up is None
        assert "; forced" in str(forced)
        assert not any(word in str(forced) for word in ("exploit", "explore", "nowhere else"))

    def test_who_stays_home_has_nothing_to_explain(self):
        planner = Planner([0.9, 0.5, 0.1], 3, agent_names=["x", "y", "z"])
        names = [e.agent for e in planner.explain(planner.ask(absent=["y"]))]
        assert names == ["x", "z"]

    @pytest.mark.parametrize("entry", [*PLANNED, *OWN], ids=labelled)
    def test_one_readable_line_each(self, entry):
        planner = Planner([0.8, 0.8, 0.4], ["a", "b", "c", "d"], entry, agent_names=["x", "y", "z"])
        ways = [{}, {"closed": ["d"]}, {"forbidden": [("x", "a")]}, {"forced": [("z", "a")]}]
        ways.append({"forbidden": [("x", "a"), ("x", "b"), ("y", "c")]})
        for r in range(16):
            plan = planner.ask(**ways[r % len(ways)])
            explanations = planner.explain(plan)
            assert len(explanations) == 3
            for e in explanations:
                assert isinstance(e, Explanation)
                text = str(e)
                assert len(text.splitlines()) == 1
                mode = "" if e.reason.code == "forced" else f" to {e.mode}"
                assert text.startswith(f"{e.agent} -> {e.arm}{mode}: ")
                assert len(text) < 240
                assert "None" not in text
                assert "nan" not in text
                if e.pulls:
                    low, high = math.floor(1000 * e.lower + 1e-9), math.ceil(1000 * e.upper - 1e-9)
                    ends = f"[{low / 1000:.3f}, {high / 1000:.3f}]"
                    assert f"estimated {e.estimate:.3f} in {ends}" in text
                    times = "1 pull" if e.pulls == 1 else f"{e.pulls} pulls"
                    assert f"from {times}, {e.own_pulls} its own" in text
                else:
                    assert "no pulls yet" in text
            planner.tell(plan, [int(uniform(3, 0, r, n) < 0.4) for n in plan.assignment])

    def test_two_who_are_alike_and_one_who_may_not(self):
        # No index of the arm would send the first agent on: the second would follow it there.
        planner = Planner([0.5, 0.5], 3, fixed([1.0, 0.9, 0.1]))
        plan = planner.ask(forbidden=[(0, 1)])
        assert plan.assignment == (0, 1)
        for e in planner.explain(plan):
            assert len(str(e).splitlines()) == 1
            assert "None" not in str(e)

    def test_arms_never_pulled_tie_with_pairs_too(self):
        planner = Planner([0.9, 0.5], 3, "min-width")
        for e in planner.explain(planner.ask(forbidden=[(0, 2)])):
            assert e.index == e.runner_up_index == e.flip_index == math.inf
            assert f"tied with {e.runner_up}, chance decided" in str(e)

    def test_a_tie_is_said(self):
        planner = Planner([0.9], 2, fixed([0.5, 0.5]))
        (e,) = planner.explain(planner.ask())
        assert e.flip_index == e.index == 0.5
        assert f"tied with {e.runner_up}, chance decided" in str(e)

    def test_the_plan_as_text(self):
        planner = Planner(
            [0.9, 0.5], ["a", "b", "c"], fixed([0.25, 1.5, 0.5]), agent_names=["x", "y"]
        )
        lines = str(planner.ask(absent=["y"])).splitlines()
        assert lines[0] == "round 1"
        assert lines[1] == "  x -> b: nobody has been there yet, the most promising arm left"
        assert lines[2] == "  y -> stays home: absent"
        assert len(lines) == 3
