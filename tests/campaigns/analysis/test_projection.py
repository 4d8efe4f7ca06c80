"""The rest of a season on draws from the posterior: against a slow loop of plans, closed forms, and exact order."""

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import beta, binom

from heterobandits.campaigns.analysis import projection_lanes
from heterobandits.campaigns.analysis.projection import (
    Projection,
    eighty_percent_range,
    look_ahead,
    look_rounds,
    parse_guess,
    project,
    render_chance,
    state_with_other_team,
    worth_of_team,
)
from heterobandits.campaigns.analysis.projection_lanes import (
    GuessedMeans,
    ProjectionLanes,
    draw_means,
)
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.campaigns.validation import InvalidFields, Reports
from heterobandits.core.randomness import slots, uniform
from heterobandits.errors import InvalidInput
from heterobandits.inference.intervals import ranking_of_tables
from heterobandits.planner import planning
from heterobandits.planner.knowledge import Knowledge, Visit, recall_tables
from states import after, begun, lived, planned, reported

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
            faded = recall_tables(start, past, window=policy.window, fade=policy.fade)
            known = replace(known, recalled=faded)
        address = planning.Address(seed, draw, number)
        rules = state.circumstances(RoundGiven())
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
        state = replace(
            begun([1.0], 2, prior=(1, 1)), pulls=np.array([[0, n]]), successes=np.array([[0, k]])
        )
        drawn = draw_means(state, 7, 50)[1]
        law = beta(k + 1, n - k + 1)
        luck = [uniform(7, draw, 0, 1) + HALF_A_WORD for draw in range(50)]
        assert (
            np.abs(drawn - law.ppf(luck)).max() < 0.05 * law.std()
        )  # within a cell all means are as likely


class TestAgainstPlans:
    """Every draw is what planning round by round would give with the same words."""

    @pytest.mark.slow
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
        means = draw_means(state, 5, 4)
        lanes = ProjectionLanes(state, 5, 1, means[:, 1:])
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
        means = draw_means(state, 2, 3)
        played = [slow(state, 2, draw, means[:, draw], 6) for draw in range(3)]
        assert found.detections == pytest.approx(np.mean([one for one, _, _ in played]))
        every = sorted(made for _, made, _ in played)
        place = max(1, (len(every) + 1) // 10)
        low, high = every[place - 1], every[-place]
        assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))

    @pytest.mark.parametrize("prior", [None, (2, 6), (6, 6)])
    def test_best_is_known_where_the_order_names_it(self, prior):
        """On tables from nothing to much, of an arm that is clearly the best or not; by what was stated, as the order goes by it."""
        state = begun([{"sensitivity": 0.9, "tests": 3}, 0.6], 4, policy="min-width", prior=prior)
        means = np.array(
            [[0.9, 0.5, 0.3, 0.9], [0.2, 0.6, 0.2, 0.1], [0.1] * 4, [0.3, 0.1, 0.1, 0.1]]
        )
        lanes = ProjectionLanes(state, 3, 0, means)
        found = []
        for _ in range(150):
            lanes.play()
            for lane, known in enumerate(lanes.best_known().tolist()):
                tables = (lanes.pulls[:, :, lane], lanes.successes[:, :, lane])
                above = ranking_of_tables(
                    state.team, *map(np.ascontiguousarray, tables), 0.05, state.fixed_prior
                ).above
                assert known == (above[means[:, lane].argmax()].sum() == 3)
                found.append(known)
        assert 0.1 < np.mean(found) < 0.9


class TestClosedForms:
    """What can be known without playing."""

    def test_one_agent_and_one_arm(self):
        agents = [{"sensitivity": 0.7, "tests": 2, "false_positive_rate": 0.1}]
        state = begun(agents, 1, season=25, prior=(1, 1))
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
        lanes = ProjectionLanes(state, 1, 0, draw_means(state, 1, 4000))
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
        means = draw_means(state, 4, 7)
        turns = [s * means[(a + t) % 3] for t in range(6) for a, s in enumerate((0.9, 0.5))]
        assert found.rotation == pytest.approx(np.sum(turns, axis=0).mean())

    @pytest.mark.parametrize(("agents", "arms", "rounds"), [(3, 12, 2), (2, 3, 7), (5, 3, 4)])
    def test_what_a_rotation_finds_is_that_of_one_that_is_played(self, agents, arms, rounds):
        """Mean and standard deviation of 40,000 draws beside those of all starts, for a mean that is rich and others that are not."""
        tests, slope = np.array([30, 12, 5, 1, 1])[:agents], np.array([0.9, 0.5, 0.7, 1.0, 0.6])[:agents]  # fmt: skip
        offset = np.array([0.0, 0.05, 0.0, 0.0, 0.1])[:agents]
        means = np.where(np.arange(arms) == 1, 0.8, 0.03)
        stops, lanes = max(agents, arms), 40_000
        visits = [
            [((start + t * agents + a) % stops, a) for t in range(rounds) for a in range(agents)]
            for start in range(stops)
        ]
        chance = offset[:, None] + slope[:, None] * means
        mean = [sum(tests[a] * chance[a, n] for n, a in all_ if n < arms) for all_ in visits]
        within = [
            sum(tests[a] * chance[a, n] * (1 - chance[a, n]) for n, a in all_ if n < arms)
            for all_ in visits
        ]
        variance = np.mean(within) + np.var(mean)
        table = projection_lanes.tests_of_rotation(tests, rounds, stops)
        lots = np.repeat(means[:, None], lanes, axis=1)
        found = projection_lanes.draw_rotation_finds(3, 0, table, slope, offset, lots)
        error = math.sqrt(variance / lanes)
        assert abs(found.mean() - np.mean(mean)) < FAR * error
        assert found.std() == pytest.approx(math.sqrt(variance), rel=0.03)


class TestWorth:
    """What another team is worth, on the same draws."""

    def test_who_finds_nothing_is_worth_about_nothing(self):
        state = lived(begun([0.9, 0.6], 5, season=30), [0.6, 0.3, 0.2, 0.1, 0.5], 5)
        found = worth_of_team(state, state_with_other_team(state, None, Reports(1e-4)), draws=400)
        assert abs(found.more) < FAR * found.more_se + 25 * 1e-4
        assert found.more_se < 0.25 * found.plain.detections_se * math.sqrt(2)

    def test_one_more_agent_at_most_finds_what_it_could_alone(self):
        state = lived(begun([0.9, 0.6], 4, season=20), [0.6, 0.3, 0.2, 0.1], 5)
        found = worth_of_team(
            state, state_with_other_team(state, None, Reports(0.8, tests=3)), draws=200
        )
        assert FAR * found.more_se < found.more < 15 * 3 * 0.8
        assert found.more == pytest.approx(found.other.detections - found.plain.detections)
        assert found.plain == project(state)
        assert found.other == project(state_with_other_team(state, None, Reports(0.8, tests=3)))

    def test_a_better_detector_finds_in_proportion_where_there_is_one_arm(self):
        state = begun([0.4], 1, season=10, prior=(1, 1))
        found = worth_of_team(state, state_with_other_team(state, 0, Reports(0.8)), draws=50)
        assert found.other.detections == pytest.approx(2 * found.plain.detections)

    def test_what_was_found_before_counts_as_it_was_reported_then(self):
        state = reported(planned(begun([0.4], 1, season=10, prior=(1, 1))), 1, {0: (1, 1)})
        plain, other = (draw_means(s, 0, 5) for s in (
            state, state_with_other_team(state, 0, Reports(0.8)),
        ))  # fmt: skip
        assert (plain == other).all()


class TestGuess:
    """Means that somebody guesses, in place of the posterior."""

    def test_means_are_even_between_the_ends_by_the_words_of_the_posterior(self):
        state = lived(begun([0.9], 3, season=9), [0.9, 0.1, 0.4], 3)
        means = draw_means(state, 7, 5, GuessedMeans(0.2, 0.6))
        for arm in range(3):
            luck = [uniform(7, draw, 0, arm) + HALF_A_WORD for draw in range(5)]
            assert means[arm] == pytest.approx([0.2 + 0.4 * u for u in luck], abs=1e-15)

    def test_means_that_are_sure_leave_nothing_to_chance(self):
        state = begun([0.9, {"sensitivity": 0.5, "tests": 4}], 3, season=10)
        found = look_ahead(state, guess=GuessedMeans(0.3, 0.3), draws=5)
        each = (0.9 + 4 * 0.5) * 0.3
        assert found.course.detections == pytest.approx([each] * 10)
        assert found.course.best == pytest.approx(each)
        assert found.course.rotation == pytest.approx((0.9 + 4 * 0.5) * 0.3)
        assert found.plain.detections == pytest.approx(10 * each)
        assert found.plain.detections_se == pytest.approx(0.0, abs=1e-12)

    def test_only_the_means_are_others(self):
        """With the means of a posterior that is all at 0.5, a guess of 0.5 plays the same rounds."""
        state = begun([1.0, 0.5], 4, policy="min-width")
        pulls = np.array([[10**8] * 4, [0] * 4])
        state = replace(state, pulls=pulls, successes=pulls // 2)
        plain, guessed = (
            project(state, rounds=9, draws=20, guess=g) for g in (None, GuessedMeans(0.5, 0.5))
        )
        assert guessed.detections == pytest.approx(plain.detections, rel=1e-3)
        assert (guessed.low, guessed.high) == (plain.low, plain.high)

    def test_it_goes_for_what_another_team_is_worth(self):
        state = begun([0.4], 2, season=10)
        found = worth_of_team(
            state,
            state_with_other_team(state, None, Reports(0.8)),
            guess=GuessedMeans(0.5, 0.5),
            draws=4,
        )
        assert found.plain.detections == pytest.approx(10 * 0.4 * 0.5)
        assert found.more == pytest.approx(10 * 0.8 * 0.5)
        both = look_ahead(
            state,
            state_with_other_team(state, None, Reports(0.8)),
            guess=GuessedMeans(0.5, 0.5),
            draws=4,
        )
        assert both.worth == found

    @pytest.mark.parametrize(
        ("low", "high", "wrong"),
        [
            (0.6, 0.2, {"low": "low is 0.6 and high 0.2: the lowest mean comes first"}),
            (-0.1, 2, {"low": "low is -0.1: a mean is", "high": "high is 2: a mean is"}),
            ("much", 0.5, {"low": "low is 'much': a mean is"}),
        ],
    )
    def test_what_is_no_guess(self, low, high, wrong):
        with pytest.raises(InvalidFields) as caught:
            parse_guess(low, high)
        found = dict(caught.value.errors)
        assert found.keys() == wrong.keys()
        assert all(found[field].startswith(text) for field, text in wrong.items())

    def test_ends_may_be_none_and_all(self):
        assert parse_guess(0, 1) == GuessedMeans(0.0, 1.0)
        assert parse_guess(0.3, 0.3) == GuessedMeans(0.3, 0.3)


class TestCourse:
    """Round by round: against plans one by one, worlds enumerated in full, and all assignments."""

    @pytest.mark.parametrize("options", [{"season": 20}, {"policy": "cucb"}])
    def test_every_round_is_what_planning_it_gives(self, options):
        state = lived(begun(SEVERAL, 5, **options), [0.9, 0.2, 0.6, 0.5, 0.1], 4)
        found = look_ahead(state, rounds=4, draws=3, seed=5).course
        means = draw_means(state, 5, 3)
        until = [
            np.mean([slow(state, 5, draw, means[:, draw], rounds)[0] for draw in range(3)])
            for rounds in range(1, 5)
        ]
        assert found.detections == pytest.approx(np.diff([0.0, *until]))

    @pytest.mark.parametrize("high", [1.0, 0.5])
    def test_one_agent_and_two_arms_in_full(self, high):
        """Min-width goes to either arm, then to the other, then to the one that had the success; of equals to either.

        With s m for the chance of a success on an arm of the mean m, drawn evenly up to `high`: E m = h/2, E m^2 = h^2/3. In round 3
        the first arm alone has had a success with probability s m (1 - s n), none or both with 1 - s (m + n) + 2 s^2 m n.
        """
        s, e1, e2, draws = 0.8, high / 2, high**2 / 3, 20_000
        found = look_ahead(
            begun([s], 2, policy="min-width"), rounds=3, draws=draws, guess=GuessedMeans(0.0, high)
        ).course
        one = 2 * s * e2 * (1 - s * e1)
        even = 0.5 * (2 * e1 - s * (2 * e2 + 2 * e1**2) + 2 * s**2 * 2 * e1 * e2)
        error = s * high * math.sqrt(1 / 12) / math.sqrt(draws)
        for ours, exact in zip(found.detections, [s * e1, s * e1, s * (one + even)], strict=True):
            assert abs(ours - exact) < FAR * error
        assert abs(found.rotation - s * e1) < FAR * error
        assert abs(found.best - s * high * 2 / 3) < FAR * error
        assert found.detections[2] > found.rotation + FAR * error
        assert found.detections[0] + found.detections[1] == pytest.approx(2 * found.rotation)

    @pytest.mark.parametrize("arms", [5, 3], ids=["arms for all", "fewer arms than agents"])
    def test_the_best_assignment_is_the_best_of_all(self, arms):
        state = begun(SEVERAL, arms, season=9, prior=(1, 1))
        if arms == 3:
            state = after(state, FEWER)
        found = look_ahead(state, rounds=2, draws=6, seed=3).course
        free = [n for n, arm in enumerate(state.arms) if not arm.retired]
        places = [*free, *[None] * max(0, 3 - len(free))]
        finds = [0.4, 3 * 0.9, 0.6]
        best = [
            max(
                sum(w * means[n] for w, n in zip(finds, sent, strict=True) if n is not None)
                for sent in permutations(places, 3)
            )
            for means in draw_means(state, 3, 6).T
        ]
        assert found.best == pytest.approx(np.mean(best))
        assert max(found.detections) <= found.best

    def test_each_look_is_the_end_of_fewer_rounds(self):
        state = lived(
            begun([{"sensitivity": 0.9, "tests": 9}], 2, season=60, prior=(1, 1)), [0.9, 0.2], 2
        )
        found = look_ahead(state, rounds=40, draws=30).course
        assert [look.round for look in found.looks] == [
            4,
            7,
            10,
            14,
            17,
            20,
            24,
            27,
            30,
            34,
            37,
            40,
        ]
        for look in found.looks[::3]:
            fewer = project(state, rounds=look.round, draws=30)
            assert (look.known, look.known_se) == (fewer.best_known, fewer.best_known_se)
            assert sum(found.detections[: look.round]) == pytest.approx(fewer.detections)
        assert found.looks[0].known < found.looks[-1].known

    @pytest.mark.parametrize("rounds", [1, 2, 11, 12, 13, 1000])
    def test_looks_are_few_and_end_at_the_end(self, rounds):
        looks = look_rounds(rounds)
        assert len(looks) == min(rounds, 12)
        assert looks[-1] == rounds
        apart = np.diff([0, *looks])
        assert apart.min() >= 1
        assert apart.max() - apart.min() <= 1

    def test_it_says_what_the_others_say(self, monkeypatch):
        state = lived(begun(SEVERAL, 5, season=20), [0.9, 0.2, 0.6, 0.5, 0.1], 4)
        told = []
        found = look_ahead(
            state, state_with_other_team(state, None, Reports(0.7)), draws=23, tell=told.append
        )
        assert found.plain == project(state, draws=23)
        assert found.worth == worth_of_team(
            state, state_with_other_team(state, None, Reports(0.7)), draws=23
        )
        assert sum(found.course.detections) == pytest.approx(found.plain.detections)
        assert 16 * found.course.rotation == pytest.approx(found.plain.rotation)
        assert told == sorted(told)
        assert told[-1] == 1.0
        monkeypatch.setattr(projection_lanes, "PROJECTION_MAX_CELLS", 75)
        assert (
            look_ahead(state, state_with_other_team(state, None, Reports(0.7)), draws=23) == found
        )
        alone = look_ahead(state, draws=23, tell=told.append)
        assert (alone.plain, alone.course, alone.worth) == (found.plain, found.course, None)
        assert told[-1] == 1.0

    def test_who_is_told_may_end_it(self):
        class Enough(Exception):
            """Nobody wants to know any more."""

        told = []

        def tell(share):
            told.append(share)
            if share > 0.2:
                raise Enough

        with pytest.raises(Enough):
            look_ahead(begun([0.9], 2, season=100, prior=(1, 1)), draws=2, tell=tell)
        assert len(told) == 21


class TestHow:
    """The same answer whenever, and however, it is asked for; what cannot be is refused."""

    def test_neither_blocks_nor_repetition_change_anything(self, monkeypatch):
        state = lived(begun(SEVERAL, 5, season=20), [0.9, 0.2, 0.6, 0.5, 0.1], 4)
        before = state.number, state.pulls.copy(), len(state.agents)
        told = []
        found = project(state, draws=23, tell=told.append)
        monkeypatch.setattr(projection_lanes, "PROJECTION_MAX_CELLS", 75)
        assert project(state, draws=23) == found
        assert project(state, draws=23, seed=1) != found
        assert told == sorted(told)
        assert (len(told), told[-1]) == (16, 1.0)
        assert (state.number, len(state.agents)) == (before[0], before[2])
        assert (state.pulls == before[1]).all()

    def test_a_name_for_one_more_agent_is_found(self):
        state = after(
            begun([0.9], 4, season=5, prior=(1, 1)),
            ("agents added", {"agents": [{"name": "one more 0", "sensitivity": 0.5}]}),
        )
        assert project(state_with_other_team(state, None, Reports(0.5)), draws=2).rounds == 5

    @pytest.mark.parametrize("draws", [2, 9, 20, 100, 200, 999])
    def test_a_chance_is_neither_certain_nor_impossible_by_rounding(self, draws):
        said = [render_chance(k / draws, draws) for k in range(draws + 1)]
        assert not {"0 %", "100 %", "under 0 %", "over 100 %"} & set(said)
        numbers = [int(text.split()[-2]) for text in said[1:-1]]
        assert numbers == sorted(numbers)
        for k, number in enumerate(numbers, 1):
            assert abs(number - 50) <= abs(100 * k / draws - 50) + 1e-9
            assert abs(number - 100 * k / draws) < 1
        assert [100 - number for number in reversed(numbers)] == numbers

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
            worth_of_team(state, state_with_other_team(state, None, Reports(0.5)))
        with pytest.raises(InvalidInput, match="the number of an agent is 2"):
            project(state_with_other_team(state, 2, Reports(0.5)))


@pytest.mark.parametrize("draws", [9, 20, 50, 100, 200])
def test_one_more_world_lies_between_low_and_high_8_times_of_10(draws):
    """Each of all that there are is as likely as any to be the one that is still to come."""
    values = np.arange(draws + 1.0)
    ends = [eighty_percent_range(np.delete(values, i)) for i in range(draws + 1)]
    inside = [low <= one <= high for one, (low, high) in zip(values, ends, strict=True)]
    assert 0.8 <= np.mean(inside) < 0.9


def test_none_of_few_draws_is_no_chance_of_nothing():
    from heterobandits.cli.campaign.views import render_projection

    found = Projection(5, 100, 1.0, 0.1, 0.0, 2.0, 1.0, 0.5, 1.5, 1.0, 2.0, 0.0, 0.0)
    assert list(render_projection(found))[-1].endswith("at the end is under 3 %")
