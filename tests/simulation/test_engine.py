"""The engine: a shard however it is cut, stopped or tallied; and what a policy of one's own is told."""

import itertools
import math
import threading
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from heterobandits import Planner, Policy, Problem, policy, simulate
from heterobandits.core.randomness import round_words, slots
from heterobandits.policies.policy import CATALOGUE
from heterobandits.simulation import engine
from heterobandits.simulation.engine import (
    Learning,
    PolicyWorld,
    Shard,
    play_shard,
    tally_regrets,
    worlds_of,
)
from heterobandits.simulation.results import binary_places
from heterobandits.testing import CONFORMANCE_CHECKS, check_one_path

PROBLEM = Problem([0.9, 0.2, 0.6, 0.5], [0.25, 1.0, 0.5], believed=[0.25, 0.5, 0.5])


def draw(known):
    """Thompson sampling in a few lines: a normal draw around the share of successes."""
    pulls, successes = known.pulls.sum(axis=0), known.successes.sum(axis=0)
    first, second = known.uniforms(2 * len(pulls)).reshape(2, *pulls.shape)
    normal = np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * math.pi * second)
    return (successes + 1) / (pulls + 2) + normal / np.sqrt(pulls + 2)


DRAWN = Policy("drawn", index=draw)
DRAWN_IN_TURN = Policy("drawn, random turns", index=draw, first="random")
EACH_DRAWS = Policy(
    "each draws",
    index=lambda known: known.uniforms(known.pulls[:, :, 0].size).reshape(known.pulls.shape),
    index_per="agent",
)
OWN = (DRAWN, DRAWN_IN_TURN, EACH_DRAWS)
PLAYED = (
    *(policy(name) for name in ("min-width", "no-sharing", "cucb", "ucb")),
    *(policy(name) for name in ("posterior-sorted", "thompson-sorted")),
    policy("min-ucb", delta=0.3, horizon=20),
    *OWN,
)
SHARD = Shard(
    worlds_of(PROBLEM, PLAYED), (1, 4, 9, 23), 2**50 + 7, trials=range(2**33, 2**33 + 60), kept=2
)


def assert_same(one, other):
    assert one.span == other.span
    assert one.sums.tolist() == other.sums.tolist()
    assert one.products.tolist() == other.products.tolist()
    assert one.kept.tobytes() == other.kept.tobytes()


@pytest.fixture(scope="module")
def whole():
    return play_shard(SHARD)


class TestShards:
    """Sums are whole numbers, and nothing in them depends on how trials are cut."""

    def test_what_a_shard_gives(self, whole):
        P, trials = len(PLAYED), len(SHARD.trials)
        assert whole.span == (2**33, 2**33 + 60)
        assert whole.sums.shape == (P, 4)
        assert whole.products.shape == (P, P, 4)
        assert {type(number) for number in (*whole.sums.flat, *whole.products.flat)} == {int}
        assert whole.kept.shape == (P, 2, trials)
        assert whole.seconds.shape == (P,)
        assert (whole.seconds > 0).all()
        sums, products = tally_regrets(whole.kept, binary_places(23, PROBLEM.agents))
        assert sums.tolist() == whole.sums[:, 2:].tolist()
        assert products.tolist() == whole.products[:, :, 2:].tolist()
        assert whole.kept.any(axis=-1).all()
        assert SHARD.trial_rounds == P * 23 * trials

    @settings(max_examples=20)
    @given(cuts=st.sets(st.integers(1, 59), max_size=4), data=st.data())
    def test_its_parts_add_up_to_it(self, whole, cuts, data):
        edges = [SHARD.trials[cut] for cut in sorted(cuts)]
        sums, products = np.zeros_like(whole.sums), np.zeros_like(whole.products)
        kept = []
        for edge in itertools.pairwise([SHARD.trials.start, *edges, SHARD.trials.stop]):
            lanes = data.draw(st.integers(1, 20))
            part = play_shard(replace(SHARD, trials=range(*edge), lanes=lanes))
            assert part.span == edge
            sums, products = sums + part.sums, products + part.products
            kept.append(part.kept)
        assert sums.tolist() == whole.sums.tolist()
        assert products.tolist() == whole.products.tolist()
        assert np.concatenate(kept, axis=-1).tobytes() == whole.kept.tobytes()

    @settings(max_examples=40)
    @given(
        call=st.integers(1, 25),
        lanes=st.integers(1, 20),
        checkpoints=st.sets(st.integers(1, 22), max_size=6),
        trials=st.integers(1, 45),
        entry=st.sampled_from(PLAYED),
    )
    def test_calls_of_few_rounds_change_no_bit(self, call, lanes, checkpoints, trials, entry):
        """In one call a shard may have more trials than lanes; in several, one block is played on."""
        shard = Shard(worlds_of(PROBLEM, [entry]), (*sorted(checkpoints), 23), 5, range(trials), 1)
        wanted = play_shard(shard)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(engine, "KERNEL_CALL_MAX_ROUNDS", call)
            got = play_shard(replace(shard, lanes=lanes))
        assert_same(got, wanted)

    @settings(max_examples=30)
    @given(
        steps=st.lists(st.integers(0, 9), max_size=8),
        lanes=st.integers(1, 9),
        entry=st.sampled_from(PLAYED),
    )
    def test_learning_goes_on_where_it_was(self, steps, lanes, entry):
        once, often = (Learning(PolicyWorld(PROBLEM, entry), 3, 11, lanes) for _ in range(2))
        for step in steps:
            often.advance(step)
        once.advance(sum(steps))
        assert once.elapsed == often.elapsed == sum(steps)
        assert (once.pulls == often.pulls).all()
        assert (once.successes == often.successes).all()
        assert (once.pulls.sum(axis=1) == sum(steps)).all()
        assert once.regrets().tobytes() == often.regrets().tobytes()

    @pytest.mark.parametrize("entry", PLAYED, ids=lambda entry: entry.name)
    def test_regret_is_what_the_pulls_cost(self, entry):
        """To 1e-12: the ledger is kept round by round, the tables count visits."""
        learning = Learning(PolicyWorld(PROBLEM, entry), 3, 11, 7)
        learning.advance(50)
        mu, s = np.array(PROBLEM.means), np.array(PROBLEM.sensitivities)
        paid = (s[:, None] * (mu[list(PROBLEM.optimum)][:, None] - mu))[:, :, None] * learning.pulls
        np.testing.assert_allclose(learning.regrets(), paid.sum(axis=(0, 1)), rtol=0, atol=1e-12)


class TestControl:
    """Another thread can end a shard and see how far it is."""

    LONG = Shard(worlds_of(PROBLEM, [policy("min-width")]), (50_000_000,), 0, range(64))

    @pytest.mark.parametrize("entry", [*CATALOGUE.values(), *OWN], ids=lambda entry: entry.name)
    def test_a_wish_to_stop_from_before_is_heard_before_the_first_round(self, entry):
        control = engine.new_control()
        engine.request_stop(control)
        assert play_shard(replace(SHARD, worlds=worlds_of(PROBLEM, [entry])), control) is None
        assert engine.count_played_rounds(control) == 0

    @pytest.mark.parametrize(
        "entry", ["min-width", "thompson-sorted", "ucb", DRAWN], ids=lambda e: policy(e).name
    )
    def test_a_long_shard_can_be_stopped(self, entry):
        shard = replace(self.LONG, worlds=worlds_of(PROBLEM, [policy(entry)]))
        engine.compile_kernels([policy(entry)])
        control = engine.new_control()
        answers = []
        thread = threading.Thread(
            target=lambda: answers.append(play_shard(shard, control)), daemon=True
        )
        thread.start()
        seen = [engine.count_played_rounds(control)]
        deadline = time.perf_counter() + 20
        while len(seen) < 4 and time.perf_counter() < deadline:
            time.sleep(0.05)
            if engine.count_played_rounds(control) > seen[-1]:
                seen.append(engine.count_played_rounds(control))
        assert len(seen) == 4, "nothing was played in 20 s"
        engine.request_stop(control)
        thread.join(60)
        assert not thread.is_alive()
        assert answers == [None]
        assert engine.count_played_rounds(control) < shard.trial_rounds
        assert all(done % 64 == 0 for done in seen)  # a round of all 64 trials at a time

    @pytest.mark.parametrize("entry", ["min-width", DRAWN], ids=lambda e: policy(e).name)
    @pytest.mark.parametrize(("trials", "lanes"), [(32, 512), (32, 16), (30, 10), (7, 1)])
    def test_trial_rounds_are_counted(self, entry, trials, lanes):
        entries = (policy(entry), policy("greedy"))
        shard = replace(
            SHARD, worlds=worlds_of(PROBLEM, entries), trials=range(trials), lanes=lanes
        )
        control = engine.new_control()
        assert play_shard(shard, control) is not None
        assert engine.count_played_rounds(control) == shard.trial_rounds == 2 * 23 * trials

    def test_a_shard_stopped_between_two_policies_is_no_shard(self):
        control = engine.new_control()

        def stop(known):
            engine.request_stop(control)
            return np.zeros(known.pulls.shape[1:])

        stopping = Policy("stopping", index=stop)
        shard = replace(
            SHARD, rounds=(1,), worlds=worlds_of(PROBLEM, [stopping, policy("greedy")]), kept=1
        )
        assert play_shard(shard, control) is None
        assert play_shard(replace(shard, worlds=shard.worlds[1:]), engine.new_control()) is not None


def units(regrets, places):
    """The regrets in Python's whole numbers, rounded half to even like the engine's."""
    unit = Fraction(2) ** places
    return [[[round(Fraction(x) * unit) for x in row] for row in rows] for rows in regrets.tolist()]


def assert_exact(regrets, places):
    sums, products = tally_regrets(regrets, places)
    whole = units(regrets, places)
    P, K, _ = regrets.shape
    for p, k in itertools.product(range(P), range(K)):
        assert sums[p, k] == sum(whole[p][k])
        for q in range(P):
            pairs = zip(whole[p][k], whole[q][k], strict=True)
            assert products[p, q, k] == products[q, p, k] == sum(x * y for x, y in pairs)


class TestTallies:
    """Sums in whole numbers, checked with fractions."""

    @settings(max_examples=100)
    @given(data=st.data(), horizon=st.integers(1, 2**20), agents=st.integers(1, 8))
    def test_sums_and_products_are_exact(self, data, horizon, agents):
        policies, checkpoints, trials = (data.draw(st.integers(1, 4)) for _ in range(3))
        most = float(horizon * agents)
        values = data.draw(
            st.lists(
                st.one_of(st.floats(0, most), st.sampled_from([0.0, most, 0.1, 1 / 3])),
                min_size=policies * checkpoints * trials,
                max_size=policies * checkpoints * trials,
            )
        )
        regrets = np.array(values).reshape(policies, checkpoints, trials)
        places = binary_places(horizon, agents)
        sums, products = tally_regrets(regrets, places)
        units = [
            [[round(Fraction(x) * Fraction(2) ** places) for x in row] for row in block]
            for block in regrets.tolist()
        ]
        for p in range(policies):
            for k in range(checkpoints):
                assert sums[p, k] == sum(units[p][k])
                for q in range(policies):
                    pairs = zip(units[p][k], units[q][k], strict=True)
                    assert products[p, q, k] == sum(x * y for x, y in pairs)

    @pytest.mark.parametrize(("horizon", "agents"), [(1, 1), (300, 5), (2**31 - 1, 1), (2**20, 8)])
    def test_the_largest_block_of_the_largest_regrets_does_not_overflow(self, horizon, agents):
        places = binary_places(horizon, agents)
        largest = horizon * agents
        sums, products = tally_regrets(np.full((2, 1, 512), float(largest)), places)
        assert (sums == 512 * largest * 2**places).all()
        assert (products == 512 * (largest * 2**places) ** 2).all()

    @settings(max_examples=60)
    @given(
        data=st.data(),
        places=st.integers(-10, 60),
        shape=st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 12)),
    )
    def test_regrets_just_below_nought_and_near_52_bits(self, data, places, shape):
        """The ledger of an optimum found twice may fall a few roundings below nought."""
        most = 2**52 - 1
        unit = st.one_of(
            st.integers(-3, 3),
            st.integers(most - 3, most),
            st.integers(-most, 3 - most),
            st.integers(-most, most),
            st.sampled_from([2**26, 2**26 - 1, -(2**26), -(2**26) - 1, 2**32, 2**51, 2**52]),
            st.sampled_from([0.5, -0.5, 1.5, -1e-9, 1e-300, -0.0]),
        )
        count = math.prod(shape)
        values = data.draw(st.lists(unit, min_size=count, max_size=count))
        regrets = np.array([float(value) for value in values]).reshape(shape) * 2.0**-places
        assert_exact(regrets, places)

    @pytest.mark.parametrize("trials", [511, 512, 513, 1024, 5000])
    def test_more_trials_than_lanes(self, trials):
        random = np.random.default_rng(trials)
        regrets = random.random((3, 2, trials)) * 2.0**20 - 2.0**10
        regrets[0, 0] = 2.0**20
        assert_exact(regrets, 32)

    def test_many_of_the_largest_regrets_do_not_overflow(self):
        """A million trials of 52 bits: the sums fill 72 bits, the products 124."""
        trials, largest = 2**20 + 3, 2**52 - 1
        sums, products = tally_regrets(np.full((2, 1, trials), float(largest)), 0)
        assert (sums == trials * largest).all()
        assert (products == trials * largest**2).all()
        sums, products = tally_regrets(np.full((2, 1, trials), -float(largest)), 0)
        assert (sums == -trials * largest).all()
        assert (products == trials * largest**2).all()

    def test_tables_that_are_cut_out_of_others(self):
        regrets = np.arange(240.0).reshape(4, 6, 10)
        for cut in (regrets[::2], regrets[:, 1::2], regrets[..., ::3], regrets.transpose(1, 0, 2)):
            assert_exact(cut, 5)


class TestKnown:
    """What a policy of one's own is told."""

    @staticmethod
    def told(play, **changes):
        """What such a policy is told while `play_shard` plays it."""
        seen = []

        def index(known):
            seen.append((known, known.pulls.copy(), known.words(5), known.uniforms(5)))
            return np.zeros(known.pulls.shape[1:])

        play(Policy("listening", index=index, **changes))
        return seen

    def simulated(self, rounds=3, lanes=4, seed=9, trial=6, **changes):
        def play(own):
            Learning(PolicyWorld(PROBLEM, own), seed, trial, lanes).advance(rounds)

        return self.told(play, **changes)

    def planned(self, rounds=3, seed=9, trial=6, **changes):
        def play(own):
            planner = Planner(PROBLEM.believed, PROBLEM.arms, own, seed, trial=trial)
            for _ in range(rounds):
                plan = planner.ask()
                planner.tell(plan, [1, 0, 1])

        return self.told(play, **changes)

    @pytest.mark.parametrize("where", ["simulated", "planned"])
    def test_its_parameters_the_team_and_the_rounds(self, where):
        changes = {"delta": 0.125, "horizon": 77}
        seen = getattr(self, where)(**changes)
        assert len(seen) == 3
        for r, (known, pulls, _, _) in enumerate(seen):
            assert (known.delta, known.horizon, known.rounds) == (0.125, 77, r)
            assert known.team.sensitivities == PROBLEM.believed
            assert known.team.slope.tolist() == list(PROBLEM.believed)
            assert pulls.shape[:2] == (3, 4)
            assert (pulls.sum(axis=1) == r).all()
        assert {known.horizon for known, *_ in getattr(self, where)()} == {"anytime"}
        assert {known.delta for known, *_ in getattr(self, where)()} == {0.05}

    def test_simulate_tells_the_same(self):
        changes = {"delta": 0.125, "horizon": 77}
        seen = self.told(lambda own: simulate(PROBLEM, own, 3, 4, 9), **changes)
        assert {(k.delta, k.horizon, k.team.sensitivities) for k, *_ in seen} == {
            (0.125, 77, PROBLEM.believed)
        }

    def test_its_words_are_the_same_again_and_differ_between_rounds_and_trials(self):
        words = [words for _, _, words, _ in self.simulated()]
        again = [words for _, _, words, _ in self.simulated()]
        assert [w.tobytes() for w in words] == [w.tobytes() for w in again]
        assert {(w.dtype, w.shape) for w in words} == {(np.dtype(np.uint32), (5, 4))}
        assert len(np.unique(words)) == 3 * 5 * 4  # two of 60 words alike: 4e-7
        other = [words for _, _, words, _ in self.simulated(seed=10)]
        assert not np.isin(words, other).any()

    def test_they_are_numbers_below_one(self):
        for _, _, words, uniforms in self.simulated():
            assert uniforms.tolist() == (words / 2**32).tolist()
            assert uniforms.min() >= 0
            assert uniforms.max() < 1

    def test_planner_and_simulator_give_the_same_words(self):
        for lane in range(4):
            planned = self.planned(trial=6 + lane)
            for (_, _, words, _), (_, _, one, _) in zip(self.simulated(), planned, strict=True):
                assert one[:, 0].tolist() == words[:, lane].tolist()

    def test_a_block_of_other_trials_gives_the_words_of_the_trial(self):
        for lane in range(4):
            alone = self.simulated(lanes=1, trial=6 + lane)
            for (_, _, words, _), (_, _, one, _) in zip(self.simulated(), alone, strict=True):
                assert one[:, 0].tolist() == words[:, lane].tolist()

    def test_fewer_words_are_the_first_of_more(self):
        (known, *_), *_ = self.simulated(rounds=1)
        many = known.words(99)
        for count in (0, 1, 4, 5, 98):
            assert known.words(count).tolist() == many[:count].tolist()

    @pytest.mark.parametrize(("agents", "arms"), [(1, 1), (1, 2), (2, 2), (3, 4), (8, 9)])
    def test_they_lie_where_no_policy_draws(self, agents, arms):
        where = slots(agents, arms)
        taken = set(range(where.luck, where.luck + arms))
        for entry in (*CATALOGUE.values(), *OWN):
            rows = agents if entry.index_per == "agent" else 1
            taken |= set(range(where.ties, where.ties + rows * arms))
            draws = entry.draws(agents, arms)
            taken |= set(range(where.draws, where.draws + draws))
        assert max(taken) < where.own

        def listen(known):
            got.append(known.words(3))
            return np.zeros(known.pulls.shape[1:])

        got = []
        problem = Problem(np.linspace(0.1, 0.9, arms), [0.5] * agents)
        Learning(PolicyWorld(problem, Policy("own", index=listen)), 4, 7, 2).advance(1)
        assert got[0].tolist() == round_words(4, 7, 1, where.own, 3, 2).tolist()
        for i, lane in itertools.product(range(3), range(2)):
            assert got[0][i, lane] == reference.word(4, 7 + lane, 1, where.own + i)

    @pytest.mark.parametrize("what", ["pulls", "successes"])
    def test_its_tables_cannot_be_written_to(self, what):
        def scribble(known):
            getattr(known, what)[0, 0, 0] = 1
            return np.zeros(known.pulls.shape[1:])

        own = Policy("scribble", index=scribble)
        for attempt in (
            lambda: simulate(PROBLEM, own, 3, 2),
            lambda: Learning(PolicyWorld(PROBLEM, own), 0, 0, 2).advance(1),
            lambda: Planner(PROBLEM.believed, PROBLEM.arms, own).ask(),
        ):
            with pytest.raises(ValueError, match="read-only"):
                attempt()

    @pytest.mark.parametrize("entry", [DRAWN, DRAWN_IN_TURN], ids=lambda entry: entry.name)
    @pytest.mark.parametrize("check", CONFORMANCE_CHECKS, ids=lambda check: check.__name__)
    def test_one_that_draws_conforms(self, entry, check):
        check(entry)

    def test_one_in_which_each_agent_draws_walks_one_path(self):
        check_one_path(EACH_DRAWS)

    def test_one_that_draws_learns(self, seed):
        """Less than half of random's regret, by over ten standard errors; false alarms: 1e-20."""
        problem = Problem([0.1, 0.5, 0.9], [0.9, 0.5])
        results = simulate(problem, [DRAWN, "random"], 300, 1000, seed)
        mean, se = results.mean("drawn")[-1], results.se("drawn")[-1]
        assert mean + 10 * se < results.mean("random")[-1] / 2


class TestCompiling:
    """Kernels are made ready without calling a user's function."""

    def test_a_function_made_for_its_problem_is_played_on_no_other(self):
        prior = np.array([0.1, 0.7, 0.2, 0.3])[:, None]
        shapes = set()

        def index(known):
            shapes.add(known.pulls.shape[:2])
            return np.broadcast_to(prior, known.pulls.shape[1:])

        own = Policy("prior", index=index)
        assert engine.compile_kernels([own, policy("min-width")]) >= 0
        assert not shapes
        simulate(PROBLEM, own, 3, 5)
        assert shapes == {(3, 4)}

    def test_what_is_compiled_is_cached(self):
        engine.compile_kernels([*CATALOGUE.values(), *OWN])
        assert engine.has_compiled_kernels([*CATALOGUE.values(), *OWN])
        assert engine.has_compiled_kernels([])
