"""What a campaign says of its arms: numbers by their own equations, and sentences that say no more than they do."""

import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain

import numpy as np
import pytest
from scipy.special import betaln, xlogy

from heterobandits.campaigns.analysis.answers import (
    FORECAST_MAX_VISITS,
    answers,
    shared_arm_warnings,
)
from heterobandits.campaigns.analysis.estimates import estimates
from heterobandits.campaigns.analysis.projection import project
from heterobandits.campaigns.preview import Preview
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.campaigns.validation import parse_policy
from heterobandits.inference.intervals import RANKING_MAX_ARMS, ranking_of_tables
from states import after, begun, lived, planned, reported

DELTA = 0.05


def seen(pulls, successes, agents=(1.0,), **options):
    """A campaign with these tables."""
    state = begun(list(agents), len(pulls[0]), **options)
    return replace(state, pulls=np.array(pulls), successes=np.array(successes))


def evidence(one, other):
    """That one arm is above another, both tested by an agent that never errs: pairs (successes, tests)."""
    k, n = one[0] + other[0], one[1] + other[1]
    alike = xlogy(k, k / n) + xlogy(n - k, 1.0 - k / n)
    return sum(betaln(s + 1.0, t - s + 1.0) for s, t in (one, other)) - alike


class TestEstimates:
    """An estimate for every arm, from all its outcomes."""

    def test_posterior_mean_and_interval_of_an_agent_that_never_errs(self):
        state = seen([[12, 0]], [[3, 0]], prior=(1, 1))
        known, unseen = estimates(state)
        assert known.estimate == pytest.approx(4 / 14, abs=1e-5)
        level = betaln(4, 10) - math.log(2 / DELTA)
        for end in (known.lower, known.upper):
            assert 3 * math.log(end) + 9 * math.log1p(-end) == pytest.approx(level, abs=1e-6)
        assert known.lower < known.estimate < known.upper
        assert (unseen.estimate, unseen.lower, unseen.upper) == (pytest.approx(0.5), 0.0, 1.0)

    def test_counts_are_of_outcomes_and_by_agent_over_all_its_rows(self):
        state = planned(begun([{"sensitivity": 0.9, "tests": 12}, 0.6], 2, policy="min-width"))
        first = dict(state.rounds[0].sent)
        state = reported(state, 1, {0: (3, 12), 1: None})
        better = {"sensitivity": 0.95, "tests": 5}
        state = after(
            state, ("agent revised", {"id": "agent-1", "since": "now", "reports": better})
        )
        state = planned(state, forced=[("agent A", state.arms[first[0]].name)])
        state = reported(state, 2, {0: (1, 5), 1: (1, 1)})
        assert len(state.rows) == 3
        one, other = (estimates(state)[n] for n in (first[0], 1 - first[0]))
        assert (one.pulls, one.successes, one.visits, one.by_agent) == (17, 4, 2, {0: 17})
        assert (other.pulls, other.successes, other.visits, other.by_agent) == (1, 1, 1, {1: 1})

    def test_ranks_are_among_all_arms_and_open_if_they_are_too_many(self):
        ranks = [(e.best_rank, e.worst_rank) for e in estimates(seen([[99] * 3], [[1, 90, 2]]))]
        assert ranks == [(2, 3), (1, 1), (2, 3)]
        many = RANKING_MAX_ARMS + 1
        state = seen([[99] * many], [[99] + [0] * (many - 1)])
        assert {(e.best_rank, e.worst_rank) for e in estimates(state)} == {(1, many)}
        assert "not worked out" in answers(state).sentences[0]

    def test_a_retired_arm_is_there_and_marked(self):
        state = after(begun([0.9], 2), ("retired", {"what": "arm", "id": "arm-2"}))
        assert [(e.name, e.retired) for e in estimates(state)] == [
            ("place 0", False),
            ("place 1", True),
        ]


class TestAnswers:
    """Which arms are certainly above which, which is the best, what is not known."""

    def test_the_best_and_the_steps_of_the_order(self):
        known = answers(seen([[200] * 4], [[190, 20, 100, 25]]))
        assert (known.best, known.candidates, known.visits_needed) == (0, [0], None)
        assert known.above == [(0, 2), (2, 1), (2, 3)]
        assert known.confidence == pytest.approx(0.95)
        assert known.sentences[0] == (
            "place 0 is certainly the best of the 4 arms (with 95 % confidence)."
        )
        assert "place 2 is certainly above place 1 and place 3 (with 95 % confidence)." in (
            known.sentences
        )
        assert "holds in all rounds at once" in known.sentences[-1]

    def test_the_steps_say_all_that_is_certain(self):
        rng = np.random.default_rng(3)
        pulls = rng.integers(1, 400, (2, 9))
        successes = rng.binomial(pulls, np.array([[0.9], [0.5]]) * np.linspace(0.1, 0.9, 9))
        state = seen(pulls, successes, agents=(0.9, 0.5))
        above = np.zeros((9, 9), bool)
        for i, j in answers(state).above:
            above[i, j] = True
        closed = above.copy()
        for _ in range(9):
            closed |= (closed.astype(int) @ closed.astype(int)) > 0
        assert above.sum() < closed.sum()
        assert (closed == ranking_of_tables(state.team, pulls, successes, DELTA).above).all()

    def test_what_is_retired_is_not_spoken_of(self):
        state = seen([[200] * 3], [[190, 20, 100]])
        known = answers(after(state, ("retired", {"what": "arm", "id": "arm-1"})))
        assert (known.best, known.above) == (2, [(2, 1)])
        assert not any("place 0" in sentence for sentence in known.sentences)

    def test_nothing_reported(self):
        known = answers(planned(begun([0.9, 0.5], 3)))
        assert (known.best, known.above, known.candidates) == (None, [], [0, 1, 2])
        assert known.sentences == ["Nothing is known yet: no outcome has been reported."]

    def test_one_arm_is_the_only_one(self):
        known = answers(seen([[5]], [[2]]))
        assert known.best == 0
        assert known.sentences == ["place 0 is the only arm."]

    def test_unseen_arms_are_named(self):
        sentences = answers(seen([[30, 0, 0]], [[3, 0, 0]])).sentences
        assert "Nothing is known of place 1 and place 2 yet." in sentences

    def test_a_policy_that_forgets_promises_less(self):
        state = begun([{"sensitivity": 1.0, "tests": 200}], 2, policy="posterior-sorted-window")
        state = lived(state, [0.9, 0.1], 6)
        known = answers(state)
        assert known.best == 0
        assert "not for all at once, as posterior-sorted-window forgets" in known.sentences[-1]


class TestVisitsNeeded:
    """How many visits it takes, if the estimates are right."""

    def test_no_fewer_and_no_more_than_the_evidence_needs(self):
        tables = [(6, 20), (11, 20)]
        state = seen([[20, 20]], [[k for k, _ in tables]], prior=(1, 1))
        known = answers(state)
        assert known.best is None

        def grown(visits):
            return [(k + visits / 2 * (k + 1) / (n + 2), n + visits / 2) for k, n in tables]

        needed = known.visits_needed
        enough = [
            evidence(*reversed(grown(n))) >= math.log(1 / DELTA) for n in (needed - 1, needed)
        ]
        assert enough == [False, True]
        assert f"About {needed} more visits would tell" in known.sentences[1]

    def test_agents_share_the_visits_with_all_their_tests(self):
        """Twice as many tests in a visit take half as many visits."""
        once, twice = (
            answers(
                seen([[20, 20]], [[6, 11]], agents=[{"sensitivity": 1.0, "tests": t}])
            ).visits_needed
            for t in (1, 2)
        )
        assert twice == math.ceil(once / 2)
        beside = seen([[20, 20], [0, 0]], [[6, 11], [0, 0]], agents=(1.0, 1e-3))
        assert answers(beside).visits_needed == pytest.approx(2 * once, rel=0.01)

    def test_it_goes_by_what_is_shown_and_by_what_was_stated(self):
        """An estimate by a stated prior is less than the share of finds; what is certain goes by the prior, too."""
        few = answers(seen([[40, 40]], [[8, 14]], prior=(1, 1))).visits_needed
        state = seen([[40, 40]], [[8, 14]], prior=(2, 6))
        needed = answers(state).visits_needed
        assert needed > few
        each = needed / 2
        means = [one.estimate for one in estimates(state)]
        pulls, successes = (
            [40 + each] * 2,
            [k + each * mu for k, mu in zip((8, 14), means, strict=True)],
        )

        def evidence_of(a, b):
            known = [
                betaln(k + a, n - k + b) - betaln(a, b)
                for k, n in zip(successes, pulls, strict=True)
            ]
            k, n = sum(successes), sum(pulls)
            return sum(known) - k * math.log(k / n) - (n - k) * math.log1p(-k / n)

        assert evidence_of(2, 6) == pytest.approx(math.log(1 / DELTA), abs=0.05)

    def test_a_tie_takes_more_than_anybody_makes(self):
        known = answers(seen([[20, 20]], [[8, 8]]))
        assert known.visits_needed is None
        assert f"Even {FORECAST_MAX_VISITS:,} more visits would not tell" in known.sentences[1]


class TestChanges:
    """An arm that has changed is said so first."""

    def test_an_arm_that_went_from_all_to_nothing(self):
        state = begun([1.0], 1)
        for n in range(1, 41):
            state = reported(planned(state), n, {0: (int(n <= 25), 1)})
        known = answers(state)
        (changed,) = known.changed
        assert (changed.arm, changed.after) == (0, 25)
        assert (changed.before, changed.since) == (pytest.approx(26 / 27), pytest.approx(1 / 17))
        said = "place 0 has changed (with 95 % confidence), most likely after round 25: on the average "
        assert known.sentences[0] == f"{said}0.963 before, 0.059 since."
        assert "with 95 % confidence" in known.sentences[0]

    def test_visits_of_several_agents_in_a_round_count_together(self):
        """Who went along by hand is in the same column: ten tests a round instead of one bring the alarm sooner."""

        def alarmed(agents, rounds):
            state = begun([1.0] * agents, agents)
            for n in range(1, rounds + 1):
                state = planned(state, forced=[("agent A", "place 0")])
                for a in range(1, agents):
                    body = {"round": n, "agent": f"agent-{a + 1}", "arms": ["arm-1"]}
                    state = after(state, ("overridden", body))
                told = {a: (int(n <= rounds // 2), 1) for a in range(agents)}
                state = reported(state, n, told)
            return [(c.arm, c.after) for c in answers(state).changed]

        assert alarmed(1, 6) == []
        assert alarmed(4, 6) == [(0, 3)]

    def test_arms_that_stand_still_are_not_named(self):
        state = lived(begun([0.9, 0.7], 3), [0.2, 0.5, 0.8], 40)
        assert answers(state).changed == []


@cache
def fallen():
    """South is the best for 100 rounds, and then falls to 0.05: before, and 20 rounds after."""
    park = begun([0.9, 0.6], ["north", "east", "south"], policy="posterior-sorted", prior=(1, 1))
    before = lived(park, [0.1, 0.2, 0.9], 100, seed=1)
    return before, lived(before, [0.1, 0.2, 0.05], 20, seed=1)


class TestLeftOut:
    """An arm that has changed has no one mean: nothing that is certain of it goes on being said."""

    def test_it_is_no_longer_the_best_nor_above_any(self):
        before, state = map(answers, fallen())
        assert (before.best, before.changed) == (2, [])
        assert [one.arm for one in state.changed] == [2]
        assert 2 not in {state.best, *state.candidates, *chain(*state.above)}
        assert not any("south is certainly" in sentence for sentence in state.sentences)
        assert state.sentences[1] == (
            "What follows leaves out south: what was seen of it before and since is not of one mean."
        )

    def test_its_interval_and_rank_are_open_and_those_of_others_do_not_rest_on_it(self):
        _, state = fallen()
        *others, south = estimates(state)
        assert (south.changed, south.lower, south.upper) == (True, 0.0, 1.0)
        assert (south.best_rank, south.worst_rank) == (1, 3)
        assert not any(one.changed for one in others)
        assert {one.best_rank for one in others} == {1}

    def test_visits_needed_are_of_the_others(self):
        _, state = fallen()
        both = replace(state, arms=state.arms[:2], pulls=state.pulls[:, :2], rounds=[],
                       successes=state.successes[:, :2])  # fmt: skip
        few, many = (answers(one).visits_needed for one in (both, state))
        assert few is not None
        assert many is not None
        assert few <= many < 2 * few  # three pairs share delta in place of one

    def test_a_window_that_begins_after_the_change_has_one_mean(self):
        _, state = fallen()
        for memory, left in ((15, []), (60, [2])):
            policy = parse_policy("posterior-sorted-window", DELTA, None, memory)
            found = estimates(replace(state, policy=policy))
            assert [one.arm for one in found if one.changed] == left

    def test_why_somebody_goes_there_says_so(self):
        _, state = fallen()
        sent = {why.arm: why for why in Preview.of(state, RoundGiven()).explanations().values()}
        south = sent["south"]
        assert (south.changed, south.lower, south.upper) == (True, 0.0, 1.0)
        assert (south.best_rank, south.worst_rank) == (1, 3)
        assert "but it has changed" in str(south)
        assert not re.search(r"rank \d|\[", str(south))
        (other,) = (why for arm, why in sent.items() if arm != "south")
        assert not other.changed
        assert other.best_rank == 1  # which the order of south does not decide

    def test_a_projection_says_that_it_goes_by_all_that_was_seen(self):
        before, state = fallen()
        assert project(before, rounds=2, draws=5).warnings == ()
        assert project(state, rounds=2, draws=5).warnings == (
            "south has changed: here, as in plans, what was seen of it before and since counts as of one mean.",
        )

    def test_a_second_change_within_the_window_leaves_it_out_again(self):
        """0.95 for 15 rounds, 0.05 for 10, then 0.5: a window of 10 rounds holds both means for a while, and then one."""
        park = begun([{"sensitivity": 1.0, "tests": 20}], 1)
        found = {}
        for n in range(1, 41):
            park = reported(planned(park), n, {0: (19 if n <= 15 else 1 if n <= 25 else 10, 20)})
            policy = parse_policy("posterior-sorted-window", DELTA, None, 10)
            (one,) = estimates(replace(park, policy=policy))
            found[n] = one.changed
        assert found[16]
        assert not found[25]  # ten rounds of 0.05
        assert all(found[n] for n in range(28, 34))
        assert not found[35]

    def test_it_stays_left_out_when_it_changes_back(self):
        """0.8 for ten rounds, 0.1 for five, and then 0.8 again: its visits are nearly of one mean, and it was none."""
        park = begun([{"sensitivity": 1.0, "tests": 10}], ["a", "b"])
        for n in range(1, 81):
            found = 1 if 10 < n <= 15 else 8
            park = reported(planned(park, closed=["b"]), n, {0: (found, 10)})
            (one, _) = estimates(park)
            assert one.changed == (n >= 12)
        assert [(one.arm, one.after) for one in answers(park).changed] == [(0, 10)]
        assert (one.lower, one.upper) == (0.0, 1.0)
        for memory, left in ((40, False), (69, True)):
            policy = parse_policy("posterior-sorted-window", DELTA, None, memory)
            assert estimates(replace(park, policy=policy))[0].changed == left
        for n in range(11, 16):
            body = {"round": n, "agent": "agent-1", "arm": "arm-1", "successes": 8, "tests": 10}
            park = after(park, ("corrected", body))
        assert answers(park).changed == []

    def test_it_is_not_visited_within_the_window(self):
        """It changed after round 10 and is closed from round 21 on: a window of 5 rounds holds no visit to it."""
        park = begun([{"sensitivity": 1.0, "tests": 10}], ["a", "b"])
        for n in range(1, 31):
            found = 8 if n <= 10 else 1
            park = reported(planned(park, closed=["b" if n <= 20 else "a"]), n, {0: (found, 10)})
        park = replace(park, policy=parse_policy("posterior-sorted-window", DELTA, None, 5))
        (one, _) = estimates(park)
        assert (one.changed, one.lower, one.upper) == (False, 0.0, 1.0)
        assert [one.arm for one in answers(park).changed] == [0]

    def test_a_second_change_that_the_window_alone_does_not_show_leaves_it_out(self):
        """0 for 20 rounds, 1 for 30, then 0.5 for 5: the window of 10 rounds begins among those of 1."""
        park = begun([{"sensitivity": 1.0, "tests": 4}], ["a"])
        for n in range(1, 56):
            found = 0 if n <= 20 else 4 if n <= 50 else 2
            park = reported(planned(park), n, {0: (found, 4)})
        policy = parse_policy("posterior-sorted-window", DELTA, None, 10)
        (one,) = estimates(replace(park, policy=policy))
        assert answers(park).changed[0].after == 20
        assert (one.changed, one.lower, one.upper) == (True, 0.0, 1.0)

    def test_what_a_change_needs_is_not_that_means_stand_still(self):
        park = begun([{"sensitivity": 1.0, "tests": 20}], ["a"])
        for n in range(1, 21):
            park = reported(planned(park), n, {0: (18 if n <= 10 else 2, 20)})
        *_, last = answers(park).sentences
        assert last.startswith(
            "That an arm has changed holds in all rounds at once if its outcomes"
        )
        assert not any("means stand still" in sentence for sentence in answers(park).sentences)

    def test_a_third_mean_is_told_as_another_change(self):
        park = begun([{"sensitivity": 1.0, "tests": 20}], ["a"])
        for n in range(1, 61):
            found = 18 if n <= 20 or n > 40 else 2
            park = reported(planned(park), n, {0: (found, 20)})
        (one,) = answers(park).changed
        assert one.again
        assert answers(park).sentences[0] == (
            f"a has changed (with 95 % confidence), most likely after round {one.after} and again since: on the average "
            f"{one.before:.3f} before."
        )

    def test_the_only_one_that_is_left_is_not_the_best(self):
        """Of what is left out nothing is known: b may be better or worse than a is now."""
        park = begun([{"sensitivity": 1.0, "tests": 50}], ["a", "b"])
        for n in range(1, 9):
            park = reported(planned(park, closed=["b"]), n, {0: (45 if n <= 4 else 2, 50)})
        known = answers(park)
        assert [one.arm for one in known.changed] == [0]
        assert (known.best, known.candidates) == (None, [1])
        assert "b is the only other arm." in known.sentences

    def test_all_have_changed(self):
        state = begun([1.0], 1)
        for n in range(1, 41):
            state = reported(planned(state), n, {0: (int(n <= 25), 1)})
        known = answers(state)
        assert (known.best, known.candidates, known.above) == (None, [], [])
        assert not any("only arm" in sentence for sentence in known.sentences)


class TestConfidence:
    """Arms that come later have a share of delta of their own: what is said of all rounds holds a little less surely."""

    def test_arms_added_one_by_one(self):
        """By hand: with an arm more the new ones of all pairs may fail, each with delta over the number of pairs."""
        state = planned(begun([0.9], 3, delta=DELTA))
        assert answers(state).confidence == pytest.approx(1 - DELTA)
        state = after(state, ("arms added", {"arms": [{"name": "ford"}]}))
        assert answers(state).confidence == pytest.approx(1 - DELTA * (1 + 3 / 6))
        state = after(planned(state), ("arms added", {"arms": [{"name": "gate"}]}))
        assert answers(state).confidence == pytest.approx(1 - DELTA * (1 + 3 / 6 + 4 / 10))

    @pytest.mark.parametrize("first", [1, 2, 3])
    @pytest.mark.parametrize("more", [[1] * 6, [2, 1, 3]])
    def test_neither_the_order_nor_intervals_fail_more_often_than_is_said(self, first, more):
        """From scratch: each new arm may fail with delta over the arms of then, each new pair with delta over the pairs; an arm that
        is alone and gets another counts as if it had spent all of delta, though there is no order of one."""
        delta = Fraction(1, 1000)
        state = planned(begun([0.9], first, delta=float(delta)))
        arms, intervals, said = first, delta, delta
        order = delta if first > 1 else Fraction(0)
        for round, k in enumerate(more, 1):
            names = [{"name": f"new {round} {i}"} for i in range(k)]
            state = planned(after(state, ("arms added", {"arms": names})))
            new = k * arms + math.comb(k, 2)
            arms += k
            intervals += delta * Fraction(k, arms)
            order += delta * Fraction(new, math.comb(arms, 2))
            said += delta * (1 - Fraction((arms - k) * (arms - k - 1), arms * (arms - 1)))
            found = answers(state).confidence
            assert found == pytest.approx(float(1 - said), abs=1e-12)
            assert max(intervals, order) <= said
        assert 1 - found >= float(max(intervals, order)) - 1e-12

    @pytest.mark.parametrize("since", ["now", "always"])
    def test_an_arm_that_is_alone_is_not_new_when_its_agent_is_calibrated(self, since):
        park = reported(planned(begun([0.9], 1, delta=DELTA)), 1, {0: (1, 1)})
        body = {"id": "agent-1", "since": since, "reports": {"calibration": [18, 20]}}
        found = answers(after(park, ("agent revised", body))).confidence
        assert found == pytest.approx(1 - DELTA * (1.5 if since == "now" else 1.0))

    @pytest.mark.parametrize(("since", "spent"), [("now", 1.5), ("always", 1.0)])
    def test_a_first_calibration_of_somebody_who_stayed_home(self, since, spent):
        """Up to then all of delta was the arms': with it the sets of sensitivities have half of it more, unless it was always so."""
        park = begun([0.9, 0.6], 3, delta=DELTA)
        for n in range(1, 4):
            park = reported(planned(park, absent=["agent B"]), n, {0: (1, 1)})
        reports = {"calibration": [12, 20]}
        body = {"id": "agent-2", "since": since, "reports": reports}
        found = answers(after(park, ("agent revised", body))).confidence
        assert found == pytest.approx(1 - DELTA * spent)

    def test_it_is_what_is_said(self):
        agent = {"sensitivity": 1.0, "tests": 50}
        state = lived(begun([agent], 2, delta=DELTA), [0.9, 0.1], 6)
        state = after(state, ("arms added", {"arms": [{"name": "ford"}]}))
        assert 0.916 < 1 - DELTA * (1 + 2 / 3) < 0.917
        assert any("(with 91.6 % confidence)" in one for one in answers(state).sentences)

    def test_arms_that_were_there_before_the_first_round_came_at_the_start(self):
        state = after(begun([0.9], 3), ("arms added", {"arms": [{"name": "ford"}]}))
        assert answers(planned(state)).confidence == pytest.approx(0.95)

    def test_agents_that_are_calibrated(self):
        """Half of delta is theirs, in shares as well; the arms had all of it before the first of them came."""
        agent = {"sensitivity": 0.9, "calibration": [18, 20]}
        assert answers(begun([agent], 3, delta=DELTA)).confidence == pytest.approx(1 - DELTA)
        more = ("agents added", {"agents": [{"name": "Gus", **agent}]})
        first = after(planned(begun([0.9], 3, delta=DELTA)), more)
        assert answers(first).confidence == pytest.approx(1 - 1.5 * DELTA)
        second = after(planned(begun([agent], 3, delta=DELTA)), more)
        assert answers(second).confidence == pytest.approx(1 - DELTA * (1 + 1 / 4))


class TestTogether:
    """Two agents who were on one arm in one round may have seen the same: that is said where it has happened."""

    def gone_along(self, told):
        """A and B on place 0 in round 2; what B reports of it."""
        state = planned(begun([0.9, 0.9], 2))
        state = reported(state, 1, {0: (1, 1), 1: (0, 1)})
        state = planned(state, forced=[("agent A", "place 0")])
        body = {"round": 2, "agent": "agent-2", "arms": ["arm-1"]}
        return reported(after(state, ("overridden", body)), 2, {0: (1, 1), 1: told})

    def test_the_rounds_and_arms_are_named_once_both_count(self):
        (said,) = [one for one in answers(self.gone_along((1, 1))).sentences if "together" in one]
        assert said.startswith("Agents were together at place 0 in round 2: ")
        for state in (self.gone_along(None), lived(begun([0.9, 0.9], 2), [0.5, 0.5], 3)):
            assert not any("together" in one for one in answers(state).sentences)

    def test_a_round_says_so_as_soon_as_two_are_sent_to_one_arm(self):
        first, second = self.gone_along(None).rounds
        state = self.gone_along(None)
        assert shared_arm_warnings(state, first) == []
        (said,) = shared_arm_warnings(state, second)
        assert said.startswith("agent A and agent B are both sent to place 0 in round 2: ")
