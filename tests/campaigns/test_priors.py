"""What is known of a campaign's arms beforehand: how it is said, what it counts for, and what is certain all the same."""

import math
import re

import numpy as np
import pytest
from scipy.stats import beta

from heterobandits import InvalidInput
from heterobandits.campaigns import service
from heterobandits.campaigns.analysis.answers import certainty
from heterobandits.campaigns.analysis.beliefs import true_finds
from heterobandits.campaigns.analysis.probabilities import has_forecast, probable
from heterobandits.campaigns.analysis.season_summary import finds_in_turn, summarize_season
from heterobandits.campaigns.audit.verification import verify_log
from heterobandits.campaigns.files.csv_tables import read_last_season, render_visits
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.storage import snapshots
from heterobandits.campaigns.validation import parse_arms
from heterobandits.model.belief_cells import common_priors
from heterobandits.model.prior import parse_stated_prior, shape_of_words
from parks import VERA, opened
from states import after, begun, lived, planned, reported


def test_what_may_be_stated():
    for said in ("2 % to 10 %", {"typical": 0.02, "high": 0.1}, list(shape_of_words(0.02, 0.1))):
        assert parse_stated_prior(said) == pytest.approx(shape_of_words(0.02, 0.1))
    with pytest.raises(
        InvalidInput, match="prior has typical: typical and high, or found and tests"
    ):
        parse_stated_prior({"typical": 0.02})


def test_so_many_different_words_at_once():
    arms = [{"name": f"place {n}", "prior": f"{n} of 1000"} for n in range(301)]
    with pytest.raises(InvalidInput, match="301 different priors in words: at most 300 at once"):
        parse_arms(arms)
    assert len(parse_arms([one | {"prior": "1 of 9"} for one in arms])) == 301


class TestStated:
    """A prior that is stated of an arm."""

    def test_certain_statements_go_by_what_was_stated_before_the_first_outcome(self):
        state = begun([0.9], 2)
        early = after(state, ("arm revised", {"id": "arm-1", "prior": [2, 60]}))
        assert early.arms[0].fixed == (2.0, 60.0)
        state = reported(planned(state, closed=["place 1"]), 1, {0: (0, 1)})
        late = after(state, ("arm revised", {"id": "arm-1", "prior": [2, 60]}))
        assert (late.arms[0].prior, late.arms[0].fixed) == ((2.0, 60.0), None)
        before, since = (certainty(one).intervals.upper.tolist() for one in (state, late))
        assert before == since
        assert probable(late).arms[0].estimate < probable(state).arms[0].estimate

    @pytest.mark.parametrize("way", ["withdrawn", "moved away"])
    def test_nothing_that_was_seen_is_unseen_again(self, way):
        """Else a prior could be made of an outcome that then is reported once more: 19 % of 2,000 such seasons missed the mean, not 5 %."""
        state = begun([0.9], 2)
        state = reported(planned(state, closed=["place 1"]), 1, {0: (1, 1)})
        visit = {"round": 1, "agent": "agent-1"}
        away = ("withdrawn", visit | {"arm": "arm-1"})
        if way == "moved away":
            away = ("overridden", visit | {"arms": ["arm-2"]})
        state = after(state, away)
        assert not state.pulls[:, 0].any()
        state = after(state, ("arm revised", {"id": "arm-1", "prior": [60, 2]}))
        assert (state.arms[0].prior, state.arms[0].fixed) == ((60.0, 2.0), None)
        assert snapshots.unpack_state(snapshots.pack_state(state)).arms == state.arms

    def test_an_outcome_that_is_moved_to_an_arm_may_be_what_was_stated_of_it(self):
        state = reported(planned(begun([0.9], 2), closed=["place 1"]), 1, {0: (1, 1)})
        state = after(state, ("arm revised", {"id": "arm-2", "prior": [60, 2]}))
        assert state.arms[1].fixed == (60.0, 2.0)
        state = after(state, ("overridden", {"round": 1, "agent": "agent-1", "arms": ["arm-2"]}))
        assert (state.arms[1].prior, state.arms[1].fixed) == ((60.0, 2.0), None)

    def test_arms_that_are_alike_are_called_likely_the_best_all_or_not_at_all(self):
        """Which of them is the best in most draws is chance. With false alarms and calibration estimates differ in their last bits."""
        for going, named in ((1, 1), (2, 2), (4, 0)):
            state = begun([0.7] * going, 8, prior=(1.6, 59.7))
            assert not [s for s in probable(state).sentences if s.startswith("Most")]
            state = planned(state, closed=[f"place {n}" for n in range(going, 8)])
            state = reported(state, 1, dict.fromkeys(range(going), (2, 14)))
            said = [
                s for s in probable(state).sentences if s.startswith("Most likely best: place ")
            ]
            chances = re.findall(r"\((\d+) %\)", " ".join(said))
            assert len(chances) == named
            assert len(set(chances)) == min(1, named)

    def test_it_survives_a_snapshot_and_a_verification(self, tmp_path):
        log = opened(tmp_path)
        agents = [{"name": "Ana", "sensitivity": 0.9}]
        arms = [{"name": "ford", "prior": "5 of 120"}, "gate", "hill"]
        made = service.create(log, VERA, name="Park", agents=agents, arms=arms, season=9).state
        service.revise_arm(log, made.campaign, VERA, "gate", "2 % to 10 %")
        service.set_prior(log, made.campaign, VERA, "stated")
        service.plan_round(log, made.campaign, VERA)
        state = report_outcomes(log, made.campaign, VERA, 1, {"Ana": 1}).state
        service.plan_round(log, made.campaign, VERA)
        again = snapshots.unpack_state(snapshots.pack_state(state))
        assert (again.arms, again.plans_by) == (state.arms, "stated")
        assert verify_log(log, made.campaign).rounds == 2


def test_what_is_stated_of_one_arm_tells_of_the_others():
    """Or a forecast would take them for arms of one half, and one of them that is stated would be enough for it."""
    body = after(begun([0.9], 12), ("arm revised", {"id": "arm-1", "prior": [5.0, 95.0]}))
    known = {n: one.estimate for n, one in probable(body).arms.items()}
    assert known[0] == pytest.approx(0.05, rel=0.01)
    assert all(0.03 < known[n] < 0.25 for n in range(1, 12))


class TestLastSeason:
    """Visits of a season before, from a spreadsheet that a campaign wrote."""

    @pytest.mark.parametrize("alarms", [0.0, 0.03])
    @pytest.mark.parametrize("counts", [1.0, 0.5])
    def test_the_visits_of_a_campaign_become_priors(self, tmp_path, alarms, counts):
        """The Beta with the mean and the variance of all that the visits say, by sums over exact masses of 4,000 pieces.

        The common priors are weighed by all visits, whatever these count for.
        """
        agents = [
            {"sensitivity": 0.5, "tests": 40, "false_positive_rate": alarms},
            {"sensitivity": 0.9, "tests": 10},
        ]
        state = lived(begun(agents, ["ford", "gate"]), (0.2, 0.01), 9)
        (path := tmp_path / "visits.csv").write_text(render_visits(state))
        found = read_last_season(path, [{"name": "gate"}, {"name": "ford"}], counts)
        ends = np.sin(np.linspace(0.0, math.pi / 2, 4001)) ** 2
        mu = (ends[1:] + ends[:-1]) / 2
        common = common_priors()
        masses = np.array([np.diff(beta.cdf(ends, a, b)) for a, b in zip(common.a, common.b, strict=True)])  # fmt: skip
        ln = np.zeros((2, len(mu)))
        for n in range(2):
            for s, phi, c, y in zip((0.5, 0.9), (alarms, 0.0), state.pulls[:, n], state.successes[:, n], strict=True):  # fmt: skip
                chance = phi + (s - phi) * mu
                ln[n] += y * np.log(chance) + (c - y) * np.log1p(-chance)
        ln -= ln.max(axis=1, keepdims=True)
        share = np.exp(common.ln_weight) * np.prod(masses @ np.exp(ln).T, axis=1)
        for n, name in enumerate(("ford", "gate")):
            joint = masses * np.exp(counts * ln[n])
            density = (share / share.sum() / joint.sum(axis=1)) @ joint
            mean = density @ mu
            worth = mean * (1 - mean) / (density @ (mu - mean) ** 2) - 1
            worth = max(worth, 1 / mean)  # a and b are at least 1
            exact = mean * worth, (1 - mean) * worth
            assert found[name] == pytest.approx(exact, rel=0.01)

    def test_rare_places_stay_rare_however_little_a_visit_counts(self, tmp_path):
        """30 areas of 2 in 100: what each of them has by itself would be drawn towards one half."""
        state = lived(begun([{"sensitivity": 0.9, "tests": 5}] * 10, 30), [0.02] * 30, 30)
        (path := tmp_path / "visits.csv").write_text(render_visits(state))
        arms = [{"name": arm.name} for arm in state.arms]
        for counts in (1.0, 0.5, 0.1):
            found = read_last_season(path, arms, counts)
            assert 0.01 < np.mean([a / (a + b) for a, b in found.values()]) < 0.04
        assert read_last_season(path, arms, 0.0) == {}

    def test_what_counts_for_nothing_states_nothing(self):
        for nothing in ("5 of 120 x 0", {"found": 5, "tests": 120, "counts": 0}):
            (arm,) = parse_arms([{"name": "ford", "prior": nothing}])
            assert arm.body == {"name": "ford"}

    def test_nothing_is_taken_over_by_half(self, tmp_path):
        (path := tmp_path / "visits.csv").write_text(
            "arm,successes,tests\nford,1,5\nfrod,1,5\nford,7,5\nford,,\n"
        )
        with pytest.raises(InvalidInput) as refused:
            read_last_season(path, [{"name": "ford"}])
        (first, one), (second, two) = refused.value.errors
        assert ("line 3" in first, "line 4" in second) == (True, True)
        assert "did you mean 'ford'" in one
        assert "successes is 7" in two


def test_of_so_many_positives_about_so_many_are_true():
    """One arm known to be at 0.5 by its prior: a success is true with probability 0.9 / (0.1 + 0.9) of it: 0.45 / 0.5."""
    agents = [{"sensitivity": 0.9, "false_positive_rate": 0.1, "tests": 10}]
    state = begun(agents, 1, prior=(5000, 5000))
    state = reported(planned(state), 1, {0: (5, 10)})
    assert true_finds(state) == pytest.approx(5 * 0.45 / 0.5, rel=0.01)


def test_what_was_true_before_an_arm_was_forgotten_was_true():
    """An arm of one half becomes empty and is forgotten: of what was positive there most is true as it was."""
    agents = [{"sensitivity": 0.9, "false_positive_rate": 0.05, "tests": 100}]
    state = begun(agents, 2, prior=(1, 1))
    for number in (1, 2):
        state = reported(planned(state, closed=["place 1"]), number, {0: (48, 100)})
    before = true_finds(state)
    assert before == pytest.approx(96 * 0.92, rel=0.05)
    state = after(state, ("arm forgotten", {"arm": "arm-1", "round": 2, "because": "asked"}))
    assert true_finds(state) == pytest.approx(before, rel=1e-9)
    state = reported(planned(state, closed=["place 1"]), 3, {0: (5, 100)})
    assert true_finds(state) == pytest.approx(before, abs=3.0)
    assert finds_in_turn(state) is None
    assert "place 0 was forgotten" in summarize_season(state).warnings[-1]


def test_nothing_is_forecast_of_what_is_forgotten():
    state = reported(planned(begun([0.9], 2), closed=["place 1"]), 1, {0: (1, 1)})
    assert has_forecast(state)
    state = after(state, ("arm forgotten", {"arm": "arm-1", "round": 1, "because": "asked"}))
    assert not has_forecast(state)


def test_what_visits_in_turn_would_find_has_luck_in_it():
    """A known mean of 1/2 and 100 tests: 80 % of binomial counts lie within 1.28 standard deviations of 5, about 44 to 56."""
    state = begun([{"sensitivity": 1.0, "tests": 100}], 1, prior=(5e5, 5e5))
    state = reported(planned(state), 1, {0: (50, 100)})
    turn = finds_in_turn(state)
    assert turn.expected == pytest.approx(50, abs=0.5)
    assert (turn.low, turn.high) == (pytest.approx(43.6, abs=1), pytest.approx(56.4, abs=1))


@pytest.mark.parametrize(("agents", "arms"), [(1, 40), (2, 60)])
def test_no_arm_is_given_up_that_nobody_visited(agents, arms):
    """Of 40 arms one agent visits each with a chance of 1 in 40: all were called not worth a visit after the first."""
    state = lived(begun([0.9] * agents, arms), [0.3] * arms, 1)
    said = " ".join(probable(state).sentences)
    for n in range(arms):
        if not state.pulls[:, n].any():
            assert f"place {n}," not in said.partition("Probably not")[2]
    assert "more, whose" not in said
