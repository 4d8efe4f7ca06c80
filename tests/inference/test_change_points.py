"""Alarms: whether an arm has changed, how often that is said falsely, and what it does to a planner."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from heterobandits import InvalidInput, Planner, policy
from heterobandits.caches import BoundedCache
from heterobandits.inference import change_points as module
from heterobandits.inference.change_points import (
    CHANGE_RATE_MIN,
    alarm_threshold,
    change_log_shares,
    change_of_arm,
    greatest_change,
    look_visits,
)
from heterobandits.model.team import Team

S = [0.9, 0.6]


def evidence(s, visits, known=((0, 0),) * 2):
    """docs/model.md (19), term by term with SciPy's integrals; visits are (agent, successes, tests)."""

    def part(some, first):
        tables = [list(pair) for pair in (known if first else ((0, 0),) * len(s))]
        for agent, k, n in some:
            tables[agent][0] += n
            tables[agent][1] += k
        hits = sum(y for _, y in tables)
        return reference.Posterior(hits, [(x, c - y) for x, (c, y) in zip(s, tables, strict=True)])

    total, left = 0.0, 1.0
    for j in range(len(visits)):
        share = (1 - CHANGE_RATE_MIN) ** (j + 1) / ((j + 1) * -math.log(CHANGE_RATE_MIN))
        left -= share
        logs = part(visits[:j], True).log_evidence + part(visits[j:], False).log_evidence
        total += share * math.exp(logs)
    whole = part(visits, True)
    total += left * math.exp(whole.log_evidence)
    return math.log(total) - whole.top


def tables(visits, known=((0, 0),) * 2):
    """The same as columns of tables."""
    pulls, successes = np.zeros((2, 2, len(visits) + 1), np.int32)
    pulls[:, 0], successes[:, 0] = zip(*known, strict=True)
    for i, (agent, k, n) in enumerate(visits):
        pulls[agent, i + 1], successes[agent, i + 1] = n, k
    return pulls, successes


class TestEvidence:
    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def test_is_that_of_the_equation(self, data):
        n = st.integers(0, 4)
        visits = [
            (data.draw(st.integers(0, 1)), data.draw(st.integers(0, m)), m)
            for m in data.draw(st.lists(n, max_size=8))
        ]
        known = [(m, data.draw(st.integers(0, m))) for m in (data.draw(n), data.draw(n))]
        got = change_of_arm(Team(S), *tables(visits, known), 0.05)
        assert got.evidence == pytest.approx(evidence(S, visits, known), abs=1e-8)

    def test_nothing_seen_is_no_evidence(self):
        assert change_of_arm(Team(S), *tables([]), 0.05).evidence == pytest.approx(0.0, abs=1e-12)
        waiting = np.zeros((2, 5), np.int32)
        assert change_of_arm(Team(S), waiting, waiting, 0.05).evidence == pytest.approx(
            0.0, abs=1e-12
        )

    def test_shares_add_up_to_one(self):
        for visits in (0, 1, 7, 100_000, 2_000_000):
            assert np.exp(change_log_shares(visits)).sum() == pytest.approx(1.0, abs=1e-9)
        assert np.exp(change_log_shares(1)[0]) == pytest.approx(
            (1 - CHANGE_RATE_MIN) / -math.log(CHANGE_RATE_MIN)
        )

    def test_a_change_that_everybody_sees(self):
        visits = [(0, 5, 6)] * 5 + [(1, 0, 6)] * 5
        found = change_of_arm(Team(S), *tables(visits), 0.05)
        assert found.evidence > alarm_threshold(3, 0.05)
        assert found.visits == 5
        assert found.before > 0.7
        assert found.since < 0.1

    @pytest.mark.parametrize("phi", [0.0, 0.05])
    def test_calibrated_agents_need_more(self, phi):
        """What could be the agents is not the arm: at most the evidence with the agents known, and less here."""
        visits = [(0, 5, 6)] * 4 + [(1, 0, 6)] * 4
        known = Team(S, false_positive_rates=[phi] * 2)
        vague = Team(S, false_positive_rates=[phi] * 2, calibration=[(9, 10), (6, 10)])
        sure = Team(
            S, false_positive_rates=[phi] * 2, calibration=[(900_000, 10**6), (600_000, 10**6)]
        )
        exact, less, nearly = (
            change_of_arm(team, *tables(visits), 0.05).evidence for team in (known, vague, sure)
        )
        assert less < exact - 1
        assert nearly == pytest.approx(exact, abs=0.1)


class TestLooks:
    """The evidence is looked at as it was after earlier visits, too: what comes later takes no alarm back."""

    @pytest.mark.parametrize("team", [Team(S), Team(S, calibration=[(9, 10), (6, 10)])])
    @pytest.mark.parametrize("lanes", [2**15, 40])
    def test_the_greatest_is_that_of_every_prefix(self, team, lanes, monkeypatch):
        """One after the other, whatever is at hand and however many are worked out at a time."""
        monkeypatch.setattr(module, "ALARM_MAX_LANES", lanes)
        monkeypatch.setattr(module, "CHANGE_CACHE", BoundedCache(100))
        monkeypatch.setattr(module, "SUSPICION_CACHE", BoundedCache(100))
        random = np.random.default_rng(5)
        visits = [
            (int(random.integers(2)), int(random.binomial(5, 0.8 if i < 12 else 0.4)), 5)
            for i in range(40)
        ]
        for told in (40, 31, 40, 33):
            pulls, successes = tables(visits[:told])
            after = [*look_visits(told), told]
            each = [
                change_of_arm(team, pulls[:, : n + 1], successes[:, : n + 1], 0.05) for n in after
            ]
            found = greatest_change(team, pulls, successes, 0.05)
            best = max(each, key=lambda one: one.evidence)
            assert (found.evidence, found.visits) == (best.evidence, best.visits)
            parts = np.split(pulls, [best.visits + 1], 1), np.split(successes, [best.visits + 1], 1)
            means = [
                module.Posteriors.of(team, c.sum(1, np.int32)[:, None], y.sum(1, np.int32)[:, None])
                for c, y in zip(*parts, strict=True)
            ]
            assert [found.before, found.since] == [float(known.mean[0]) for known in means]

    def test_are_the_same_whatever_is_known(self):
        """After each of the first thousand visits, and then whenever there are a thousandth more."""
        for visits in (*range(20), *range(990, 1100)):
            assert look_visits(visits) == [n for n in look_visits(2_000) if n < visits]
        steps = np.array(look_visits(100_000))
        assert steps[:1_000].tolist() == list(range(1, 1_001))
        assert (steps[1:] <= np.ceil(1.001 * steps[:-1])).all()

    @pytest.mark.parametrize(("tests", "begin", "bad"), [(12, 116, 3), (40, 58, 1), (40, 116, 2)])
    def test_an_alarm_stays_however_short_the_change_was(self, tests, begin, bad):
        """0.7, then a few visits of 0.1, then 0.7 again: what raised an alarm at any visit is there to the end."""
        random = np.random.default_rng(3)
        means = np.r_[np.full(begin, 0.7), np.full(bad, 0.1), np.full(60, 0.7)]
        pulls, successes = tables([(0, int(k), tests) for k in random.binomial(tests, 0.9 * means)])
        needed = alarm_threshold(3, 0.05)
        assert (
            greatest_change(Team(S), pulls[:, :begin], successes[:, :begin], 0.05).evidence < needed
        )
        raised = [
            greatest_change(Team(S), pulls[:, :n], successes[:, :n], 0.05).evidence >= needed
            for n in range(begin + bad, len(means) + 2)
        ]
        assert True in raised[:4]
        assert all(raised[raised.index(True) :])
        assert change_of_arm(Team(S), pulls, successes, 0.05).evidence < needed

    def test_a_place_that_changes_back_has_changed_and_its_means_are_of_all_that_is_known(self):
        visits = [(0, 7, 10)] * 30 + [(0, 1, 10)] * 5 + [(0, 7, 10)] * 100
        needed = alarm_threshold(3, 0.05)
        assert change_of_arm(Team(S), *tables(visits), 0.05).evidence < needed
        assert change_of_arm(Team(S), *tables(visits[:35]), 0.05).evidence > needed
        found = greatest_change(Team(S), *tables(visits), 0.05)
        assert found.evidence > needed
        assert found.visits == 30
        assert found.before == pytest.approx(7 / 9, abs=0.01)
        assert found.since == pytest.approx(7 / 9 - 6 / 9 * 5 / 105, abs=0.01)


def season(planner, means_in, rounds, random):
    """Rounds on which outcomes are drawn; yields after each."""
    for t in range(1, rounds + 1):
        plan = planner.ask()
        now = means_in(t)
        arms = plan.assignment
        planner.tell(
            plan,
            [
                int(random.random() < s * now[n])
                for s, n in zip(planner.sensitivities, arms, strict=True)
            ],
        )
        yield t


class TestFalseAlarms:
    def test_are_rarer_than_promised(self, seed):
        """delta = 0.5 and 400 seasons of 30 visits to an arm, looked at after every third; a share above 0.5 + 5 standard errors has
        a chance below 1e-6. (The alarm is careful: few seasons have one.)"""
        random = np.random.default_rng(seed)
        false = 0
        for _ in range(400):
            mean, agents = random.random(), random.integers(0, 2, 30)
            outcomes = random.random(30) < np.array(S)[agents] * mean
            visits = [(int(a), int(y), 1) for a, y in zip(agents, outcomes, strict=True)]
            pulls, successes = tables(visits)
            now = (
                greatest_change(Team(S), pulls[:, :i], successes[:, :i], 0.5)
                for i in range(4, 32, 3)
            )
            false += any(found.evidence >= alarm_threshold(1, 0.5) for found in now)
        assert false / 400 <= 0.5 + 5 * 0.5 / math.sqrt(400)

    def test_a_martingale_by_enumeration(self):
        """All outcomes of four visits: with the true likelihood for the greatest, e is 1 on the average, exactly."""
        s, mu = 0.8, 0.35
        team = Team([s])
        average = 0.0
        for k in range(2**4):
            hits = np.array([[0, *(k >> i & 1 for i in range(4))]], np.int32)
            pulls = np.array([[0, 1, 1, 1, 1]], np.int32)
            found = change_of_arm(team, pulls, hits, 0.05)
            y = int(hits.sum())
            top = min(1.0, y / 4 / s)
            p, q = s * mu, s * top
            greatest = q**y * (1 - q) ** (4 - y)
            average += (
                math.exp(found.evidence)
                * greatest
                / (p**y * (1 - p) ** (4 - y))
                * p**y
                * (1 - p) ** (4 - y)
            )
        assert average == pytest.approx(1.0, abs=1e-9)


class TestPlanner:
    def changed(self, on_change="nothing", rounds=120, **how):
        planner = Planner(
            S, ["north", "east", "south"], agent_names=["Anna", "Ben"], on_change=on_change, **how
        )
        random = np.random.default_rng(4)
        for _ in season(
            planner, lambda t: [0.1, 0.3, 0.9] if t <= 60 else [0.1, 0.3, 0.05], rounds, random
        ):
            pass
        return planner

    def test_says_so(self):
        planner = self.changed()
        found = planner.changes()
        assert found.changed.tolist() == [False, False, True]
        assert 55 <= found.after[2] <= 66
        assert found.before[2] > 0.7
        assert found.since[2] < 0.2
        sentence = f"south has changed, most likely after round {found.after[2]}: on the average "
        assert sentence in str(found)
        assert sentence in str(planner)
        assert planner.forgotten == ()
        assert planner.pulls.sum() == 240
        why = {one.arm: one for one in planner.explain(planner.ask())}
        assert [arm for arm, one in why.items() if one.changed] == ["south"]
        assert "but it has changed" in str(why["south"])
        assert (why["south"].lower, why["south"].upper) == (0.0, 1.0)

    def test_says_nothing_before_there_is_anything_to_say(self):
        planner = self.changed(rounds=60)
        assert not planner.changes().changed.any()
        assert "changed" not in str(planner)
        assert not Planner(S, 3).changes().changed.any()

    def test_an_alarm_stays_when_the_arm_changes_back_and_goes_when_it_was_a_mistake(self):
        """Ten tests a visit: 8 of them find something for ten rounds, 1 for five, and then 8 again."""
        planner = Planner([1.0], ["north", "south"], tests=[10])
        for n in range(1, 116):
            found = 1 if 10 < n <= 15 else 8
            planner.tell(planner.ask(forced=[(0, "north")]), [(found, 10)])
            assert planner.changes().changed[0] == (n >= 12)
        assert planner.changes().after[0] == 10
        assert [one.changed for one in planner.explain(planner.ask(forced=[(0, 0)]))] == [True]
        for n in range(11, 16):
            planner.correct(n, [(8, 10)])
        assert not planner.changes().changed.any()

    def test_forgets_if_it_is_told_to(self):
        planner = self.changed("forget")
        (arm, last), *rest = planner.forgotten
        assert (arm, rest) == ("south", [])
        assert 61 <= last <= 90
        assert planner.rounds == 120
        later = [v for r in planner.history if r.number > last for v in r.visits if v.arm == 2]
        assert planner.pulls[:, 2].sum() == len(later)
        assert planner.successes[:, 2].sum() == sum(v.successes for v in later)
        assert not planner.changes().changed.any()
        remembered = self.changed()
        np.testing.assert_array_equal(planner.history[: last - 1], remembered.history[: last - 1])
        assert planner.intervals().upper[2] < 1.0

    @pytest.mark.parametrize("method", ["posterior-ratio", "mixture-width", "min-width"])
    def test_nothing_is_certain_of_an_arm_that_has_changed(self, method):
        planner = self.changed(rounds=90)
        assert planner.changes().changed.tolist() == [False, False, True]
        known, order = planner.intervals(method), planner.ranking()
        assert (known.lower[2], known.upper[2]) == (0.0, 1.0)
        assert known.estimate[2] > 0.3  # of all that was seen
        assert (known.upper[:2] < 1.0).all()
        assert (order.best[2], order.worst[2]) == (1, 3)
        assert not order.above[2].any()
        assert not order.above[:, 2].any()

    def test_an_arm_that_changed_and_was_not_visited_within_the_window_is_as_if_never_seen(self):
        window = policy("posterior-sorted-window", memory=5)
        planner = Planner([0.9], ["north", "south"], window, tests=[20])
        for n in range(1, 31):
            away = "south" if n <= 20 else "north"
            plan = planner.ask(closed=[away])
            planner.tell(plan, [(16 if n <= 10 else 1 if n <= 20 else 4, 20)])
        assert planner.changes().changed.tolist() == [True, False]
        known = planner.intervals()
        assert (known.estimate[0], known.lower[0], known.upper[0]) == (0.5, 0.0, 1.0)
        assert not any(why.changed for why in planner.explain(planner.ask(closed=["north"])))

    def test_a_saved_planner_has_not_remembered(self):
        planner = self.changed("forget")
        again = Planner.from_json(planner.to_json())
        assert again.on_change == "forget"
        assert again.forgotten == planner.forgotten
        np.testing.assert_array_equal(again.pulls, planner.pulls)
        assert again.ask() == planner.ask()
        assert again.to_json() == planner.to_json()

    def test_what_was_fixed_before_is_explained_by_what_was_known_then(self):
        planner = self.changed()
        number = planner.accept(plan := planner.ask())
        before = planner.explain(plan)
        planner.forget("south")
        assert planner.explain(plan) == before
        assert planner.forgotten == (("south", number),)

    def test_by_hand(self):
        planner = Planner(
            S, 3, pulls=[[4, 0, 0], [0, 3, 0]], successes=[[2, 0, 0], [0, 1, 0]], rounds=4
        )
        first = planner.ask()
        planner.accept(first)
        planner.forget(0)
        assert planner.pulls[:, 0].tolist() == [0, 0]
        assert planner.pulls[:, 1].tolist() == [0, 3]
        before = planner.pulls.copy()
        planner.tell(first, [1, 1])  # late: what was seen on the forgotten arm does not count
        gained = (planner.pulls - before).sum(axis=0).tolist()
        assert gained == [0 if n == 0 else int(n in first.assignment) for n in range(3)]
        planner.correct(first, [0, 0])
        assert planner.successes[:, 0].tolist() == [0, 0]
        planner.tell(second := planner.ask(forced=[(0, 0)]), [1, 1])
        assert planner.pulls[:, 0].tolist() == [1, 0]
        assert planner.explain(second)
        planner.add_arm("new")
        planner.join("new agent", 0.5)
        assert planner.pulls[:, 0].tolist() == [1, 0, 0]

    def test_forgetting_twice(self):
        planner = Planner(S, 3)
        for _ in range(2):
            planner.tell(planner.ask(forced=[(0, 0)]), [1, 1])
            planner.forget(0)
        assert planner.forgotten == (("arm 1", 1), ("arm 1", 2))
        assert planner.pulls[:, 0].sum() == 0
        again = Planner.from_json(planner.to_json())
        assert again.pulls[:, 0].sum() == 0

    @pytest.mark.parametrize(
        "policy", ["posterior-sorted", "min-width-window", "posterior-sorted-discounted"]
    )
    def test_a_forgotten_arm_is_as_good_as_unseen(self, policy):
        planner = Planner(S, 3, policy)
        for _ in range(10):
            planner.tell(planner.ask(), [1, 0])
        planner.forget(1)
        plan = planner.ask()
        assert plan.index[0][1] == math.inf
        assert 1 in plan.assignment

    def test_late_outcomes_change_no_place_in_the_order(self):
        """The evidence is that of the visits in the order of their rounds, whenever outcomes come."""
        prompt, late = Planner(S, 2, "random"), Planner(S, 2, "random")
        random = np.random.default_rng(0)
        held = []
        for _ in range(20):
            plan, outcomes = prompt.ask(), random.integers(0, 2, 2).tolist()
            prompt.tell(plan, outcomes)
            late.accept(late.ask())
            held.append(outcomes)
        for number in random.permutation(20).tolist():
            late.tell(number + 1, held[number])
        np.testing.assert_allclose(late.changes().evidence, prompt.changes().evidence, atol=1e-12)

    @pytest.mark.parametrize("on_change", ["alarm", None, 3])
    def test_what_may_happen(self, on_change):
        with pytest.raises(InvalidInput, match=r"on_change is .*'nothing' or 'forget'"):
            Planner(S, 3, on_change=on_change)

    @pytest.mark.parametrize(
        ("forgotten", "words"),
        [
            ([[0]], r"forgotten is \[0\]: an arm and a round"),
            ([[7, 1]], "a forgotten arm is 7"),
            ([[0, 99]], "a forgotten round is 99"),
            ([[0, 2], [1, 1]], "a forgotten round is 1"),
            ("x", "forgotten is 'x', not a list"),
            ([3], "forgotten is 3"),
        ],
    )
    def test_a_damaged_file(self, forgotten, words):
        planner = Planner(S, 3)
        for _ in range(3):
            planner.tell(planner.ask(), [1, 0])
        state = json.loads(planner.to_json()) | {"forgotten": forgotten}
        with pytest.raises(InvalidInput, match=words):
            Planner.from_json(json.dumps(state))

    def test_older_files_forgot_nothing(self):
        planner = Planner(S, 3)
        planner.tell(planner.ask(), [1, 0])
        state = json.loads(planner.to_json())
        del state["forgotten"], state["on_change"]
        again = Planner.from_json(json.dumps(state | {"heterobandits_planner": 3}))
        assert (again.forgotten, again.on_change) == ((), "nothing")
        assert again.ask() == planner.ask()

    def test_arms_that_are_not_there(self):
        with pytest.raises(InvalidInput, match="unknown arm 'west'"):
            Planner(S, ["north", "east"]).forget("west")


class TestFoundByAStranger:
    def test_what_was_known_at_the_start_can_be_forgotten(self):
        """With 0 rounds behind it, too: the alarm must not look at it either."""
        planner = Planner([0.9], ["a", "b"], pulls=[[100, 100]], successes=[[90, 10]])
        planner.forget("a")
        for _ in range(15):
            planner.tell(planner.ask(forced=[(0, "a")]), [0])
        assert not planner.changes().changed.any()
        fresh = Planner([0.9], 1)
        for _ in range(15):
            fresh.tell(fresh.ask(), [0])
        assert planner.changes().evidence[0] == pytest.approx(
            fresh.changes().evidence[0], abs=1e-12
        )

    def test_a_mistyped_outcome_can_be_taken_back(self):
        planner = Planner([0.9], ["a", "b"], on_change="forget")
        for _ in range(30):
            planner.tell(planner.ask(forced=[(0, "a")]), [(8, 10)])
        planner.tell(number := planner.accept(planner.ask(forced=[(0, "a")])), [(0, 100)])
        assert planner.forgotten == (("a", 31),)
        assert "a was forgotten after round 31" in str(planner)
        planner.correct(number, [(80, 100)])
        planner.remember("a")
        assert planner.forgotten == ()
        assert planner.pulls.tolist() == [[400, 0]]
        assert planner.successes.tolist() == [[320, 0]]
        with pytest.raises(InvalidInput, match="'a' was not forgotten"):
            planner.remember("a")

    def test_forgetting_once_more_in_a_round_changes_nothing(self):
        planner = Planner(S, 3)
        planner.tell(planner.ask(), [1, 0])
        planner.forget(0)
        planner.forget(0)
        assert planner.forgotten == (("arm 1", 1),)

    @pytest.mark.parametrize("delta", [1e-15, 1e-60, 1e-200])
    @pytest.mark.parametrize("trial", [(19, 20), (1, 3), (17, 20)])
    def test_calibration_with_a_small_delta(self, delta, trial):
        from heterobandits.model.calibration import chance_interval

        low, high = chance_interval(trial, -math.log(delta))
        assert 0.0 <= low < trial[0] / trial[1] < high <= 1.0
