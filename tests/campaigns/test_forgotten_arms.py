"""Arms that are forgotten: by somebody, or by a campaign itself when a report shows that they have changed."""

import numpy as np
import pytest

from heterobandits import InvalidInput
from heterobandits.campaigns import service
from heterobandits.campaigns.analysis.answers import (
    answers,
    changed_arms,
    confidence_of,
    unseen_arms,
)
from heterobandits.campaigns.analysis.estimates import estimates
from heterobandits.campaigns.analysis.projection import project
from heterobandits.campaigns.analysis.sensitivities import sensitivities, sensitivity_notes
from heterobandits.campaigns.audit.history_text import EventNarrator
from heterobandits.campaigns.audit.report import check_audit, render_audit
from heterobandits.campaigns.audit.verification import verify_log
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.outcomes import arms_of_drafts, body_of_forgetting, report_outcomes
from heterobandits.campaigns.plan_events import check_recorded_forgetting
from heterobandits.campaigns.reducer import fold_events, state_after_drafts
from heterobandits.campaigns.storage import snapshots
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.campaigns.storage.store import Store

VERA = Author("Vera")
ARMS = ["ford", "gate", "hill"]


def opened(folder):
    return Repository(Store(folder / "park.db"))


def park(log, arms=ARMS, agents=((0.9, 1), (0.6, 12)), **given):
    team = [
        {"name": name, "sensitivity": s, "tests": tests}
        for name, (s, tests) in zip(("Ana", "Ben"), agents, strict=False)
    ]
    done = service.create(log, VERA, name="North park", agents=team, arms=list(arms), **given)
    return done.state.campaign


def played(log, campaign, rounds, outcome):
    """So many rounds more; `outcome` has successes of tests of an arm."""
    for _ in range(rounds):
        at = service.plan_round(log, campaign, VERA).state.rounds[-1]
        state = log.state(campaign)
        told = {
            state.agents[a].name: outcome(state.arms[n].name, state.reports(a).tests)
            for a, n in at.sent
        }
        report_outcomes(log, campaign, VERA, at.number, told)
    return log.state(campaign)


def none_then_all(log, campaign):
    """The one arm is empty for a while, and then is full: an alarm."""
    played(log, campaign, 10, lambda arm, tests: (0, tests))
    return played(log, campaign, 10, lambda arm, tests: (tests, tests))


def said(log, campaign):
    story = EventNarrator()
    return [story.tell(event) for event in log.store.read(campaign)]


class TestAsked:
    """Somebody who plans forgets an arm."""

    def test_what_was_seen_counts_no_more(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log, arms=[{"name": name, "prior": [1, 1]} for name in ARMS])
        before = played(log, campaign, 6, lambda arm, tests: (tests, tests))
        state = service.forget_arm(log, campaign, VERA, "ford").state
        assert state.gone == {0: 6}
        assert state.pulls.tolist() == before.pulls.tolist()  # all that was reported
        assert not state.knowledge.pulls[:, 0].any()
        assert (state.knowledge.pulls[:, 1:] == before.knowledge.pulls[:, 1:]).all()
        found = estimates(state)[0]
        assert (found.estimate, found.pulls) == (pytest.approx(0.5), int(before.pulls[:, 0].sum()))
        assert unseen_arms(state, range(3)) == [0]
        assert "ford was forgotten: what was seen there up to round 6 does not count." in (
            answers(state).sentences
        )
        assert project(state, rounds=2, draws=10).rounds == 2

    def test_what_comes_late_of_those_rounds_does_not_count_either(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        service.plan_round(log, campaign, VERA)
        state = log.state(campaign)
        (agent, arm), *_ = state.rounds[0].sent
        service.forget_arm(log, campaign, VERA, state.arms[arm].name)
        state = report_outcomes(log, campaign, VERA, 1, {state.agents[agent].name: 1}).state
        assert state.pulls[agent, arm] == 1
        assert not state.knowledge.pulls.any()

    def test_it_is_taken_back(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        before = played(log, campaign, 3, lambda arm, tests: (0, tests))
        service.forget_arm(log, campaign, VERA, "ford")
        played(log, campaign, 2, lambda arm, tests: (0, tests))
        service.forget_arm(log, campaign, VERA, "ford")
        state = service.remember_arm(log, campaign, VERA, "ford").state
        assert state.gone == {0: 3}
        state = service.remember_arm(log, campaign, VERA, "ford").state
        assert state.gone == {}
        assert (state.knowledge.pulls == state.pulls).all()
        with pytest.raises(InvalidInput, match="'ford' was not forgotten"):
            service.remember_arm(log, campaign, VERA, "ford")
        assert confidence_of(state) == pytest.approx(confidence_of(before) - 2 * 0.05 * 2 / 3)

    def test_what_is_refused(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        with pytest.raises(InvalidInput, match="nothing was seen of 'ford': no round is planned"):
            service.forget_arm(log, campaign, VERA, "ford")
        with pytest.raises(InvalidInput, match="lake"):
            service.forget_arm(log, campaign, VERA, "lake")
        state = played(log, campaign, 2, lambda arm, tests: (0, tests))
        service.forget_arm(log, campaign, VERA, "ford")
        assert not service.forget_arm(log, campaign, VERA, "arm-1").events  # once is enough
        state = log.state(campaign)
        for body, why in (
            ({"arm": "arm-1", "round": 2, "because": "asked"}, "forgotten already, up to round 2"),
            ({"arm": "arm-2", "round": 1, "because": "asked"}, "round 1 is not the last"),
            ({"arm": "arm-2", "round": 2, "because": "change"}, "forgets no arm by itself"),
            ({"arm": "arm-2", "round": 2, "because": "weather"}, "because"),
            ({"arm": "arm-2", "round": 2}, "is damaged"),
        ):
            with pytest.raises(InvalidInput, match=why):
                state_after_drafts(state, [Draft("arm forgotten", body)])

    @pytest.mark.parametrize("policy", ["posterior-sorted", "posterior-sorted-window"])
    def test_histories_snapshots_verification_and_audits_know_it(self, policy, tmp_path):
        log = opened(tmp_path)
        memory = 5 if policy.endswith("window") else None
        campaign = park(log, policy=policy, memory=memory)
        played(log, campaign, 3, lambda arm, tests: (0, tests))
        service.forget_arm(log, campaign, VERA, "ford")
        state = played(log, campaign, 2, lambda arm, tests: (tests, tests))
        service.remember_arm(log, campaign, VERA, "ford")
        service.forget_arm(log, campaign, VERA, "gate")
        state = log.state(campaign)
        again = snapshots.unpack_state(snapshots.pack_state(state))
        assert (again.forgotten, again.on_change) == (state.forgotten, state.on_change)
        events = log.store.read(campaign)
        assert fold_events(events).forgotten == state.forgotten
        assert verify_log(log, campaign).events == len(events)
        assert check_audit(render_audit(events)).same
        assert "forgot what was seen of ford, up to round 3" in said(log, campaign)
        assert "took back that ford was forgotten" in said(log, campaign)


class TestByItself:
    """A campaign that forgets arms that have changed."""

    def test_it_forgets_with_the_report_that_shows_it(self, tmp_path):
        log = opened(tmp_path)
        quiet = park(log, ["ford"], [(0.9, 3)])
        assert none_then_all(log, quiet).gone == {}
        heeding = park(log, ["ford"], [(0.9, 3)], on_change="forget")
        state = none_then_all(log, heeding)
        assert [one.arm for one in state.forgotten] == [0]
        assert changed_arms(log.state(quiet))
        assert not changed_arms(state)
        kinds = [event.kind for event in log.store.read(heeding)]
        assert kinds[kinds.index("arm forgotten") - 1] == "reported"
        assert verify_log(log, heeding).rounds == 20
        last = state.gone[0]
        assert f"forgot what was seen of ford, which has changed, up to round {last}" in (
            said(log, heeding)
        )
        assert said(log, heeding)[0].endswith("; an arm that changes is forgotten")

    def test_a_reporter_reports_what_shows_it(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log, ["ford"], [(0.9, 3)], on_change="forget")
        done, _ = issue_link(log, campaign, VERA, role="reporter", name="Rita")
        (link,) = done.state.links
        rita = Author("Rita", link=link)
        for number in range(1, 21):
            service.plan_round(log, campaign, VERA)
            hits = 0 if number <= 10 else 3
            done = report_outcomes(log, campaign, rita, number, {"Ana": (hits, 3)}, "reporter")
        assert done.state.forgotten
        with pytest.raises(InvalidInput, match="a reporter's link, which writes no such events"):
            service.forget_arm(log, campaign, rita, "ford")

    def test_a_change_that_was_none_is_found_out(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log, on_change="forget")
        state = played(log, campaign, 2, lambda arm, tests: (0, tests))
        body = body_of_forgetting(state, 0, "change")
        with pytest.raises(InvalidInput, match="'ford' has changed does not follow"):
            check_recorded_forgetting(state, body)
        log.write(campaign, VERA, lambda now: [Draft("arm forgotten", body)])
        with pytest.raises(InvalidInput, match=r"arm forgotten.*does not follow"):
            verify_log(log, campaign)

    def test_it_is_a_setting(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        assert log.state(campaign).on_change == "nothing"
        assert "on_change" not in log.store.read(campaign)[0].body
        done = service.set_policy(log, campaign, VERA, on_change="forget")
        assert done.state.on_change == "forget"
        assert service.set_policy(log, campaign, VERA, delta=0.1).state.on_change == "forget"
        assert said(log, campaign)[1].endswith("; an arm that changes is forgotten")
        with pytest.raises(InvalidInput, match="on_change is 'maybe'"):
            service.set_policy(log, campaign, VERA, on_change="maybe")
        with pytest.raises(InvalidInput, match="on_change is 'maybe'"):
            park(log, on_change="maybe")


class TestSensitivities:
    def test_who_finds_less_than_stated(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log, ["ford", "gate"], [(0.9, 20), (0.9, 20)])
        state = log.state(campaign)
        for number in range(1, 21):
            both = (
                (("Ana", "ford"), ("Ben", "gate"))
                if number % 2
                else (("Ana", "gate"), ("Ben", "ford"))
            )
            service.plan_round(log, campaign, VERA, forced=both)
            report_outcomes(log, campaign, VERA, number, {"Ana": (14, 20), "Ben": (4, 20)})
        state = log.state(campaign)
        found = sensitivities(state)
        assert found.verdict[1] == "worse"
        assert any("than stated" in note for note in sensitivity_notes(found))

    def test_an_agent_that_was_revised_is_told_of_as_it_is_now(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        played(log, campaign, 2, lambda arm, tests: (0, tests))
        state = service.revise(log, campaign, VERA, "Ana", {"sensitivity": 0.5}, "now").state
        assert len(state.rows) == 3
        found = sensitivities(state)
        np.testing.assert_array_equal(found.sensitivity, [0.5, 0.6])
        assert len(str(found).splitlines()) >= 3


def test_a_report_looks_at_its_own_arm_alone(tmp_path):
    """However many others the round has; who is sent elsewhere leaves one and comes to another."""
    log = opened(tmp_path)
    campaign = park(log)
    state = service.plan_round(log, campaign, VERA).state
    (there,) = state.round(1).arms_of(0)
    told = Draft("reported", {"round": 1, "agent": "agent-1", "arm": f"arm-{there + 1}", "missing": True})  # fmt: skip
    assert arms_of_drafts(state, [told]) == {there}
    other = (there + 1) % 3
    moved = Draft("overridden", {"round": 1, "agent": "agent-1", "arms": [f"arm-{other + 1}"]})
    assert arms_of_drafts(state, [moved]) == {there, other}
