"""The rest of a season on draws from the posterior: against a slow loop of plans, closed forms, and exact order."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, binom

from folded import after, begun, lived, planned, reported
from heterobandits import planning
from heterobandits.campaigns import projecting
from heterobandits.campaigns.inputs import Reports
from heterobandits.campaigns.projecting import Lanes, drawn_means, project, worth
from heterobandits.campaigns.rounds import Given
from heterobandits.core.randomness import slots, uniform
from heterobandits.errors import InvalidInput
from heterobandits.intervals import order_of
from heterobandits.knowledge import Knowledge, Visit, recalled

HALF_A_WORD = 2.0**-33
FAR = 5.0  # standard errors: a false alarm in 1.7 million, of a fixed seed


def successes_of(luck, tests, chance):
    """As many as there are numbers k for which at least k successes are more probable than luck."""
    return sum(luck < binom.sf(k - 1, tests, chance) for k in range(1, tests + 1))


def slow(state, seed, draw, means, rounds):
    """A draw, round by round with `planning.plan`: what is expected, what is made, and all assignments."""
    team, policy = state.team, state.policy
    past = [list(state.visits(round)) for round in state.rounds]
    expected, made, sent = 0.0, 0, []
    for number in range(len(state.rounds) + 1, len(state.rounds) + rounds + 1):
        start = Knowledge.of(len(team), len(state.arms))
        known = start.after([v for visits in past for v in visits], rounds=len(past))
        if policy.forgets:
            faded = recalled(start, past, window=policy.window, fade=policy.fade)
            known = replace(known, recalled=faded)
        address = planning.Address(seed, draw, number)
        rules = state.circumstances(Given())
        plan = planning.plan(team, state.arm_names, policy, known, address, rules)
        visits = []
        for row, arm in enumerate(plan.assignment):
            if arm is None:
                continue
            r = state.rows[row].reports
            chance = r.false_positive_rate + (r.sensitivity - r.false_positive_rate) * means[arm]
            where = slots(len(team), len(state.arms)).luck + arm
            luck = uniform(seed, draw, number, where) + HALF_A_WORD
            k = successes_of(luck, r.tests, chance)
            true = uniform(seed, 2**62 + draw, number, arm) + HALF_A_WORD
            made += successes_of(true, k, r.sensitivity * means[arm] / chance)
            expected += r.tests * r.sensitivity * means[arm]
            visits.append(Visit(number, row, arm, k, r.tests))
        past.append(visits)
        sent.append(plan.assignment)
    return expected, made, sent


SEVERAL = [0.4, {"sensitivity": 0.9, "tests": 3}, {"sensitivity": 0.6, "false_positive_rate": 0.2}]
FEWER = ("retired", {"what": "arm", "id": "arm-2"})


class TestDraws:
    """Means from the exact posterior."""

    @pytest.mark.parametrize(("k", "n"), [(0, 0), (3, 12), (0, 40), (50, 50), (700, 100_000)])
    def test_quantiles_of_an_agent_that_never_errs(self, k, n):
        state = replace(begun([1.0], 2), pulls=np.array([[0, n]]), successes=np.array([[0, k]]))
        drawn = drawn_means(state, 7, 50)[1]
        law = beta(k + 1, n - k + 1)
        luck = [uniform(7, draw, 0, 1) + HALF_A_WORD for draw in range(50)]
        assert np.abs(drawn - law.ppf(luck)).max() < 1e-3 * law.std()


class TestAgainstPlans:
    """Every draw is what planning round by round would give with the same words."""

    @pytest.mark.parametrize(
        "options",
        [
            {"season": 20},
            {"policy": "posterior-sorted"},
            {"policy": "min-width"},
            {"policy": "no-sharing"},
            {"policy": "cucb"},
            {"policy": "thompson"},
            {"policy": "min-width-window", "memory": 5},
            {"policy": "posterior-sorted-window", "memory": 9},
            {"policy": "posterior-sorted-discounted", "memory": 4},
        ],
        ids=lambda options: options.get("policy", "season"),
    )
    @pytest.mark.parametrize("arms", [5, 3], ids=["arms for all", "fewer arms than agents"])
    def test_the_same_assignments_and_outcomes(self, options, arms):
        state = lived(begun(SEVERAL, arms, **options), [0.9, 0.2, 0.6, 0.5, 0.1], 6)
        state = planned(state, absent=["agent A"])  # one that waits for its outcomes
        if arms == 3:
            state = after(state, FEWER)
        means = drawn_means(state, 5, 4)
        lanes = Lanes(state, 5, 1, means[:, 1:])
        sent = []
        for _ in range(8):
            sent.append(lanes.assigned())
            lanes.play()
        if not state.policy.forgets:
            assert (lanes.total == lanes.pulls.sum(axis=0)).all()
        for lane, draw in enumerate((1, 2, 3)):
            expected, made, plans = slow(state, 5, draw, means[:, draw], 8)
            assert lanes.expected[lane] == pytest.approx(expected, rel=1e-12)
            assert lanes.made[lane] == made
            for ours, plan in zip(sent, plans, strict=True):
                by_turn = [n if n < arms else None for n in ours[:, lane].tolist()]
                assert [plan[row] for row in lanes.turns] == by_turn

    def test_an_agent_that_was_revised_and_one_that_left(self):
        state = lived(begun(SEVERAL, 4, season=30), [0.9, 0.2, 0.6, 0.5], 4)
        better = {"id": "agent-2", "since": "now", "reports": {"sensitivity": 0.8}}
        state = after(
            state, ("agent revised", better), ("retired", {"what": "agent", "id": "agent-1"})
        )
        found = project(state, rounds=6, draws=3, seed=2)
        means = drawn_means(state, 2, 3)
        played = [slow(state, 2, draw, means[:, draw], 6) for draw in range(3)]
        assert found.detections == pytest.approx(np.mean([one for one, _, _ in played]))
        low, high = np.quantile([made for _, made, _ in played], (0.1, 0.9))
        assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))

    def test_best_is_known_where_the_order_names_it(self):
        """On tables from nothing to much, of an arm that is clearly the best or not."""
        state = begun([{"sensitivity": 0.9, "tests": 3}, 0.6], 4, policy="min-width")
        means = np.array(
            [[0.9, 0.5, 0.3, 0.9], [0.2, 0.6, 0.2, 0.1], [0.1] * 4, [0.3, 0.1, 0.1, 0.1]]
        )
        lanes = Lanes(state, 3, 0, means)
        found = []
        for _ in range(150):
            lanes.play()
            for lane, known in enumerate(lanes.best_known().tolist()):
                tables = (lanes.pulls[:, :, lane], lanes.successes[:, :, lane])
                above = order_of(state.team, *map(np.ascontiguousarray, tables), 0.05).above
                assert known == (above[means[:, lane].argmax()].sum() == 3)
                found.append(known)
        assert 0.1 < np.mean(found) < 0.9


class TestClosedForms:
    """What can be known without playing."""

    def test_one_agent_and_one_arm(self):
        agents = [{"sensitivity": 0.7, "tests": 2, "false_positive_rate": 0.1}]
        state = begun(agents, 1, season=25)
        found = project(state, draws=2000)
        assert found.rounds == 25
        worth_of_all = 25 * 2 * 0.7 * 0.5
        assert abs(found.detections - worth_of_all) < FAR * found.detections_se
        assert found.detections_se == pytest.approx(
            25 * 2 * 0.7 * math.sqrt(1 / 12) / math.sqrt(2000), rel=0.1
        )
        assert found.rotation == pytest.approx(found.detections)
        assert (found.best_known, found.best_known_se) == (1.0, 0.0)

    def test_detections_made_have_the_mean_that_is_expected(self):
        state = begun([{"sensitivity": 0.7, "tests": 3, "false_positive_rate": 0.3}, 0.9], 3)
        lanes = Lanes(state, 1, 0, drawn_means(state, 1, 4000))
        for _ in range(5):
            lanes.play()
        luck = lanes.made - lanes.expected
        assert abs(luck.mean()) < FAR * luck.std() / math.sqrt(len(luck))
        assert luck.std() > 0.5

    def test_equal_arms_leave_nothing_to_a_policy(self):
        state = begun([0.9, 0.5], 4, policy="min-width")
        pulls = np.full((2, 4), 10**7)
        state = replace(state, pulls=pulls, successes=np.array([[36 * 10**5] * 4, [2 * 10**6] * 4]))
        found = project(state, rounds=20, draws=50)
        assert found.rotation == pytest.approx(20 * 1.4 * 0.4, rel=1e-3)
        assert found.detections == pytest.approx(found.rotation, rel=1e-3)

    def test_a_rotation_sends_every_agent_to_every_arm(self):
        state = lived(begun([0.9, 0.5], 3, season=99), [0.9, 0.1, 0.4], 5)
        found = project(state, rounds=6, draws=7, seed=4)
        means = drawn_means(state, 4, 7)
        turns = [s * means[(a + t) % 3] for t in range(6) for a, s in enumerate((0.9, 0.5))]
        assert found.rotation == pytest.approx(np.sum(turns, axis=0).mean())


class TestWorth:
    """What another team is worth, on the same draws."""

    def test_who_finds_nothing_is_worth_about_nothing(self):
        state = lived(begun([0.9, 0.6], 5, season=30), [0.6, 0.3, 0.2, 0.1, 0.5], 5)
        found = worth(state, add=Reports(1e-4), draws=400)
        assert abs(found.more) < FAR * found.more_se + 25 * 1e-4
        assert found.more_se < 0.25 * found.plain.detections_se * math.sqrt(2)

    def test_one_more_agent_at_most_finds_what_it_could_alone(self):
        state = lived(begun([0.9, 0.6], 4, season=20), [0.6, 0.3, 0.2, 0.1], 5)
        found = worth(state, add=Reports(0.8, tests=3), draws=200)
        assert FAR * found.more_se < found.more < 15 * 3 * 0.8
        assert found.more == pytest.approx(found.other.detections - found.plain.detections)
        assert found.plain == project(state)
        assert found.other == project(state, add=Reports(0.8, tests=3))

    def test_a_better_detector_finds_in_proportion_where_there_is_one_arm(self):
        state = begun([0.4], 1, season=10)
        found = worth(state, revise=(0, Reports(0.8)), draws=50)
        assert found.other.detections == pytest.approx(2 * found.plain.detections)

    def test_what_was_found_before_counts_as_it_was_reported_then(self):
        state = reported(planned(begun([0.4], 1, season=10)), 1, {0: (1, 1)})
        plain, other = (drawn_means(s, 0, 5) for s in (
            state, projecting.with_other_team(state, None, (0, Reports(0.8))),
        ))  # fmt: skip
        assert (plain == other).all()


class TestHow:
    """The same answer whenever, and however, it is asked for; what cannot be is refused."""

    def test_neither_blocks_nor_repetition_change_anything(self, monkeypatch):
        state = lived(begun(SEVERAL, 5, season=20), [0.9, 0.2, 0.6, 0.5, 0.1], 4)
        before = state.number, state.pulls.copy(), len(state.agents)
        told = []
        found = project(state, draws=23, tell=told.append)
        monkeypatch.setattr(projecting, "CELLS", 75)
        assert project(state, draws=23) == found
        assert project(state, draws=23, seed=1) != found
        assert told == sorted(told)
        assert (len(told), told[-1]) == (16, 1.0)
        assert (state.number, len(state.agents)) == (before[0], before[2])
        assert (state.pulls == before[1]).all()

    def test_a_name_for_one_more_agent_is_found(self):
        state = after(
            begun([0.9], 4, season=5),
            ("agents added", {"agents": [{"name": "one more 0", "sensitivity": 0.5}]}),
        )
        assert project(state, add=Reports(0.5), draws=2).rounds == 5

    def test_what_cannot_be_projected(self):
        with pytest.raises(InvalidInput, match="the season has no end: say how many rounds"):
            project(begun([0.9], 2))
        with pytest.raises(InvalidInput, match="all 1 rounds of the season are planned"):
            project(planned(begun([0.9], 2, season=1)))
        state = begun([0.9, 0.5], 2, season=9)
        with pytest.raises(InvalidInput, match="rounds is 0: a whole number from 1"):
            project(state, rounds=0)
        with pytest.raises(InvalidInput, match="draws is 1: a whole number from 2"):
            project(state, draws=1)
        with pytest.raises(InvalidInput, match="there are 3 agents and 2 arms"):
            worth(state, add=Reports(0.5))
        with pytest.raises(InvalidInput, match="the number of an agent is 2"):
            project(state, revise=(2, Reports(0.5)))
