"""The service: what people do with a campaign, through a log in a real file."""

import re
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from heterobandits import InvalidInput
from heterobandits.campaigns import exchange, service
from heterobandits.campaigns.audit.history_text import EventNarrator, is_about, narrate_events
from heterobandits.campaigns.audit.recovery import campaign_entries
from heterobandits.campaigns.audit.report import render_audit
from heterobandits.campaigns.audit.verification import verify_log
from heterobandits.campaigns.events import (
    OWNER_NAME,
    SERVER_LINK,
    Draft,
    body_text,
    hash_of_event,
    render_event_line,
    render_timestamp,
    utc_now,
)
from heterobandits.campaigns.exchange import export_events, import_events
from heterobandits.campaigns.links import (
    hash_of_token,
    issue_link,
    issue_links,
    revoke_all_links,
    revoke_link,
)
from heterobandits.campaigns.outcomes import (
    Stale,
    correct_outcomes,
    report_outcomes,
    withdraw_outcomes,
)
from heterobandits.campaigns.reducer import AlreadyReported, LinkEnded, fold_events
from heterobandits.campaigns.storage import past_states
from heterobandits.campaigns.storage.repository import (
    Author,
    KeyReused,
    Repository,
    UnreadableLog,
)
from heterobandits.campaigns.storage.store import Store, UnknownCampaign, WriteConflict
from heterobandits.campaigns.validation import InvalidFields
from heterobandits.errors import appearance_of
from heterobandits.policies.policy import policy
from heterobandits.web.auth import Gate
from logs import events_of, run_sql
from markup import Page
from parks import AGENTS, ARMS, VERA, Watched, opened, park

pytestmark = pytest.mark.smoke

NOTE = Draft("note", {"text": "x", "round": None})
MALLORY = {"link": "b" * 12, "role": "owner", "name": "Mallory", "agent": None, "expires": None, "token_hash": "0" * 64}  # fmt: skip


@pytest.fixture
def log(tmp_path):
    return opened(tmp_path)


@pytest.fixture
def campaign(log):
    return park(log)


def sent(state, number):
    """Who went where in a round, by name."""
    round = state.round(number)
    return {state.agents[a].name: state.arms[n].name for a, n in round.sent}


class TestCreate:
    """How a campaign begins."""

    def test_every_mistake_is_named_and_nothing_is_kept(self, log):
        agents = [
            {"name": "Ana", "sensitivity": 1.2},
            {"name": "Ana", "sensitivity": 0.5},
            {"nam": 1},
        ]
        with pytest.raises(InvalidFields) as refused:
            park(log, agents=agents)
        places = [place for place, _ in refused.value.errors]
        assert places == [
            "agents[0].sensitivity",
            "agents[1].name",
            "agents[2]",
            "agents[2].name",
            "agents[2].sensitivity",
        ]
        assert log.store.heads() == []

    def test_mistakes_of_all_kinds_are_named_at_once(self, log):
        with pytest.raises(InvalidFields) as refused:
            park(log, name="", agents=[{"name": "Ana", "sensitivity": 2}], arms=["a", "a"], seed=-1)
        places = [place for place, _ in refused.value.errors]
        assert places == ["name", "agents[0].sensitivity", "arms[1].name", "seed"]

    @pytest.mark.parametrize("field", ["agents", "arms"])
    def test_a_list_that_is_none_is_named(self, log, field):
        with pytest.raises(InvalidFields) as refused:
            park(log, **{field: []})
        assert [place for place, _ in refused.value.errors] == [field]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"agents": []}, "agents is empty"),
            ({"arms": []}, "arms is empty"),
            ({"arms": ["a", "a"]}, "that name is taken"),
            ({"arms": ["only one"]}, "at most as many agents as arms"),
            ({"name": "  "}, "not blank"),
            ({"name": "x" * 201}, "201 letters"),
            ({"policy": "season"}, "say how many rounds"),
            ({"policy": "sesaon"}, "did you mean 'season'"),
            ({"policy": "oracle"}, "can be simulated, not planned with"),
            ({"name": "agent-1"}, "names like agent-1 and arm-1 are ids"),
            ({"name": "a\u202eb"}, "a name has no control"),
            ({"arms": ["a\0b", "b", "c"]}, "a name has no control"),
            ({"arms": ["a\nb", "b", "c"]}, "a name has no control"),
            ({"policy": "min-width", "memory": 5}, "min-width forgets nothing"),
            ({"delta": 0}, "delta"),
            ({"delta": 2}, "delta is 2: a probability strictly between 0 and 1"),
            ({"seed": -1}, "seed is -1"),
            ({"season": 0}, "season is 0"),
            (
                {"arms": [f"arm {i}" for i in range(10_001)]},
                "10,001 arms: a campaign has at most 10,000",
            ),
            (
                {
                    "agents": [{"name": f"a {i}", "sensitivity": 0.5} for i in range(210)],
                    "arms": [f"arm {i}" for i in range(5_000)],
                },
                "at most 1,000,000 pairs",
            ),
        ],
    )
    def test_what_is_refused(self, log, changes, message):
        with pytest.raises(InvalidInput, match=message):
            park(log, **changes)
        assert log.store.heads() == []

    def test_the_policy_follows_from_the_season(self, log):
        assert log.state(park(log)).policy.name == "posterior-sorted"
        state = log.state(park(log, season=30))
        assert (state.policy.name, state.policy.horizon, state.rounds_left) == ("season", 30, 30)

    def test_names_are_composed(self, log):
        state = log.state(park(log, name="Cafe\u0301", arms=["a\u0308", "b", "c"]))
        assert (state.name, state.arm_names[0]) == ("Café", "ä")
        assert state.arm("a\u0308") == 0


class TestRounds:
    """Planning and reporting."""

    def test_a_preview_changes_nothing_and_the_plan_is_the_same(self, log, campaign):
        state = log.state(campaign)
        body = service.preview(state, absent=["Ben"], closed=["river"]).body
        assert service.preview(state, absent=["Ben"], closed=["river"]).body == body
        assert log.store.head(campaign).number == 1
        done = service.plan_round(log, campaign, VERA, absent=["Ben"], closed=["river"])
        assert done.events[0].body == body
        where = sent(done.state, 1)
        assert set(where) == {"Ana", "Chi"}
        assert "river" not in where.values()

    def test_a_plan_of_what_has_changed_meanwhile_is_refused(self, log, campaign):
        seen = log.state(campaign).hash
        service.add_note(log, campaign, VERA, "hello")
        with pytest.raises(Stale, match="Something was reported or changed since you looked"):
            service.plan_round(log, campaign, VERA, seen=seen)
        assert not log.state(campaign).rounds
        seen = log.state(campaign).hash
        assert service.plan_round(log, campaign, VERA, seen=seen).state.rounds

    def test_several_rounds_may_wait_and_results_come_in_any_order(self, log, campaign):
        for _ in range(3):
            service.plan_round(log, campaign, VERA)
        assert log.state(campaign).waiting == {1, 2, 3}
        report_outcomes(log, campaign, VERA, 3, {"Ana": 1})
        done = report_outcomes(log, campaign, VERA, 1, {"Ana": 0, "Ben": 1, "Chi": (3, 12)})
        assert done.state.waiting == {2, 3}
        assert done.state.pulls.sum() == 1 + 1 + 1 + 12

    def test_a_report_is_all_or_nothing(self, log, campaign):
        service.plan_round(log, campaign, VERA, absent=["Ben"])
        for wrong, message in (
            ({"Ana": 1, "Ben": 1}, "nowhere"),
            ({"Ana": 1, "Chi": (13, 12)}, "at most all of them"),
            ({"Ana": 1, "Dan": 1}, "unknown agent 'Dan'"),
            ({}, "outcomes is empty"),
        ):
            with pytest.raises(InvalidInput, match=message):
                report_outcomes(log, campaign, VERA, 1, wrong)
        assert log.store.head(campaign).number == 2

    def test_the_same_report_again_writes_nothing_and_another_is_refused(self, log, campaign):
        service.plan_round(log, campaign, VERA)
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        assert report_outcomes(log, campaign, VERA, 1, {"Ana": (1, 1)}).events == []
        with pytest.raises(
            AlreadyReported, match=r"'Ana'.*round 1 is reported already: correct it"
        ):
            report_outcomes(log, campaign, VERA, 1, {"Ana": 0})
        with pytest.raises(AlreadyReported):
            report_outcomes(log, campaign, VERA, 1, {"Ana": "not done"})

    def test_an_arm_that_is_full_says_which_visit_to_correct(self, log, campaign):
        for number, agent in ((1, "Ana"), (2, "Ben"), (3, "Chi")):
            service.plan_round(log, campaign, VERA, forced=[(agent, "river")])
            if number < 3:  # as earlier versions took it, and as it still may stand in a log
                body = {"round": number, "agent": agent, "arm": "river", "successes": 7}
                draft = Draft("reported", body | {"tests": 2**31 - 8 if number == 1 else 7})
                log.write(campaign, VERA, lambda state, draft=draft: [draft])
        full = r"'river' would have over 2,147,483,647 tests.* 'Ana' to 'river' in round 1,"
        with pytest.raises(InvalidInput, match=full):
            report_outcomes(log, campaign, VERA, 3, {"Chi": (3, 12)})
        with pytest.raises(InvalidInput, match=full):
            correct_outcomes(log, campaign, VERA, 2, {"Ben": (3, 12)})
        correct_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        report_outcomes(log, campaign, VERA, 3, {"Chi": (3, 12)})

    def test_a_correction_keeps_the_old_value_in_the_history(self, log, campaign):
        service.plan_round(log, campaign, VERA)
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        correct_outcomes(log, campaign, Author("Ana"), 1, {"Ana": "not done"})
        told = [e for e in service.history(log, campaign, 2) if e.body["agent"] == "agent-1"]
        assert [(e.who, e.kind) for e in told] == [("Vera", "reported"), ("Ana", "corrected")]
        assert [(e.body.get("successes"), e.body.get("missing")) for e in told] == [
            (1, None),
            (None, True),
        ]

    def test_a_correction_of_what_has_changed_meanwhile_is_refused(self, log, campaign):
        service.plan_round(log, campaign, VERA)
        seen = report_outcomes(log, campaign, VERA, 1, {"Ana": 1, "Ben": 1}).state.number
        correct_outcomes(log, campaign, VERA, 1, {"Ana": 0}, seen=seen)
        with pytest.raises(Stale, match=f"changed since event {seen}"):
            correct_outcomes(log, campaign, VERA, 1, {"Ana": 1}, seen=seen)
        correct_outcomes(log, campaign, VERA, 1, {"Ben": 0}, seen=seen)  # of others nothing has

    def test_what_was_withdrawn_waits_again(self, log, campaign):
        service.plan_round(log, campaign, VERA)
        seen = report_outcomes(log, campaign, VERA, 1, {"Ana": 1, "Ben": 1}).state.number
        correct_outcomes(log, campaign, VERA, 1, {"Ana": 0})
        with pytest.raises(Stale, match=f"changed since event {seen}"):
            withdraw_outcomes(log, campaign, VERA, 1, ["Ben", "Ana"], seen=seen)
        assert log.state(campaign).pulls.sum() == 2
        done = withdraw_outcomes(log, campaign, Author("Ben"), 1, ["Ben"], seen=seen)
        assert [(one.kind, one.who, one.body["agent"]) for one in done.events] == [
            ("withdrawn", "Ben", "agent-2")
        ]
        where = sent(done.state, 1)["Ana"]
        done = withdraw_outcomes(log, campaign, VERA, 1, [("Ana", where)])
        assert (done.state.pulls.sum(), len(done.state.round(1).missing)) == (0, 3)

    def test_what_cannot_be_planned_ahead_is_refused_when_it_is_recorded(self, log, campaign):
        look = service.plan_ahead(log.state(campaign), absent=["Zoe"])
        with pytest.raises(InvalidInput, match="unknown agent 'Zoe'"):
            service.plan_round(log, campaign, VERA, look=look)

    def test_a_plan_is_read_as_it_was_recorded(self, log, campaign):
        service.plan_round(log, campaign, VERA)
        state = service.plan_round(log, campaign, VERA).state
        for number in (1, 2):
            one = state.round(number)
            recorded = service.recorded_plan(log, state, one)
            assert [assigned.arm for assigned in recorded] == list(one.assignment)

    def test_plans_made_stay_as_they_were_and_the_next_follow_the_correction(self, tmp_path):
        plans = []
        for told, corrected in ((1, None), (0, None), (0, 1)):
            log = opened(tmp_path, f"{told}{corrected}.db")
            campaign = park(
                log, agents=[{"name": "Ana", "sensitivity": 0.9}], arms=["river", "hill"]
            )
            for number in (1, 2):
                service.plan_round(log, campaign, VERA)
                first = (
                    sent(log.state(campaign), number)["Ana"] == sent(log.state(campaign), 1)["Ana"]
                )
                report_outcomes(
                    log, campaign, VERA, number, {"Ana": (told * 12 if first else 6, 12)}
                )
            second = sent(service.plan_round(log, campaign, VERA).state, 3)
            if corrected:
                correct_outcomes(log, campaign, VERA, 1, {"Ana": (12, 12)})
                assert sent(log.state(campaign), 3) == second
            after = service.preview(log.state(campaign)).plan.assignment
            plans.append((second, after))
            assert verify_log(log, campaign).rounds == 3
        assert plans[0][1] == plans[2][1] != plans[1][1]
        assert plans[1][0] == plans[2][0]

    def test_who_went_elsewhere(self, log, campaign):
        state = service.plan_round(log, campaign, VERA).state
        away = next(arm for arm in state.arm_names if arm not in sent(state, 1).values())
        done = service.override(log, campaign, VERA, 1, "Ana", [away])
        assert sent(done.state, 1)["Ana"] == away
        done = service.override(log, campaign, VERA, 1, "Ben", [])
        assert "Ben" not in sent(done.state, 1)
        service.override(log, campaign, VERA, 1, "Chi", ["river", "hill"])
        with pytest.raises(InvalidInput, match="say which arm"):
            report_outcomes(log, campaign, VERA, 1, {"Chi": (3, 12)})
        done = report_outcomes(log, campaign, VERA, 1, {("Chi", "hill"): (3, 12), "Ana": 1})
        assert done.state.pulls[2, 1] == 12

    def test_an_agent_may_be_called_like_the_row_of_another(self, log, campaign):
        names = ["Ana (row 0)", "Ana (row 0) (row 0)"]
        service.add_agents(
            log, campaign, VERA, [{"name": name, "sensitivity": 0.5} for name in names]
        )
        service.plan_round(log, campaign, VERA)
        service.revise(log, campaign, VERA, "Ana", {"sensitivity": 0.95}, "now")
        state = service.plan_round(log, campaign, VERA).state
        assert state.team.names[0] == "Ana (row 0) (row 0) (row 0)"
        assert (len(state.rounds), len(set(state.team.names))) == (2, len(state.rows))

    def test_an_arm_that_is_named_often_is_written_once(self, log, campaign):
        service.plan_round(log, campaign, VERA)
        arms = ["river", "hill", *["river"] * 1000]
        (event,) = service.override(log, campaign, VERA, 1, "Ana", arms).events
        state = log.state(campaign)
        assert [state.arms[state.arm(arm)].name for arm in event.body["arms"]] == ["river", "hill"]

    def test_an_override_by_very_many_names_takes_no_time(self, log):
        names = [f"place {number}" for number in range(10_000)]
        campaign = park(log, agents=AGENTS[:1], arms=names)
        service.plan_round(log, campaign, VERA)
        began = time.thread_time()
        for number in (10_000, 9_999):
            done = service.override(log, campaign, VERA, 1, "Ana", names[:number])
            assert len(done.state.round(1).arms_of(0)) == number
        assert time.thread_time() - began < 0.9  # where each is searched for: over 1.2

    def test_after_the_season_nothing_is_planned(self, log):
        campaign = park(log, season=1)
        service.plan_round(log, campaign, VERA)
        with pytest.raises(InvalidInput, match="round 2 is after the end of the season"):
            service.plan_round(log, campaign, VERA)
        service.set_season(log, campaign, VERA, 2)
        assert service.plan_round(log, campaign, VERA).state.policy.horizon == 2

    def test_why_is_told_as_it_was_then(self, log, campaign):
        service.plan_round(log, campaign, VERA)
        then = {a: str(why) for a, why in service.explain(log, campaign, 1).items()}
        assert set(then) == {0, 1, 2}
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1, "Ben": 0, "Chi": (6, 12)})
        service.rename(log, campaign, VERA, "arm", "river", "stream")
        service.plan_round(log, campaign, VERA)
        assert {a: str(why) for a, why in service.explain(log, campaign, 1).items()} == then
        with pytest.raises(InvalidInput, match="round 3 is not planned"):
            service.explain(log, campaign, 3)

    def test_nothing_of_a_campaign_that_is_not_there(self, log):
        for act in (service.plan_round, service.explain):
            with pytest.raises((UnknownCampaign, TypeError)):
                act(log, "0123456789ab", VERA)
        with pytest.raises(UnknownCampaign):
            service.history(log, "0123456789ab")


class TestTeam:
    """Changes from the next round on."""

    def test_a_new_ranger_and_a_new_area(self, log, campaign):
        service.plan_round(log, campaign, VERA)
        service.add_arms(log, campaign, VERA, ["pass", {"name": "cave"}])
        service.add_agents(log, campaign, VERA, [{"name": "Dan", "sensitivity": 0.7}])
        assert "Dan" in sent(service.plan_round(log, campaign, VERA).state, 2)
        assert "Dan" not in sent(log.state(campaign), 1)
        with pytest.raises(InvalidFields, match="that name is taken"):
            service.add_agents(log, campaign, VERA, [{"name": "Dan", "sensitivity": 0.7}])

    def test_leaving_and_returning(self, log, campaign):
        service.retire(log, campaign, VERA, "agent", "Ana")
        assert "Ana" not in sent(service.plan_round(log, campaign, VERA).state, 1)
        service.bring_back(log, campaign, VERA, "agent", "Ana")
        assert "Ana" in sent(service.plan_round(log, campaign, VERA).state, 2)

    def test_a_better_detector_or_a_wrong_statement(self, log, campaign):
        service.plan_round(log, campaign, VERA)
        report_outcomes(log, campaign, VERA, 1, {"Ana": 0})
        state = service.revise(log, campaign, VERA, "Ana", {"sensitivity": 0.95}, "now").state
        assert state.team.sensitivities == (0.9, 0.6, 18 / 22, 0.95)
        state = service.revise(log, campaign, VERA, "Ben", {"tests": 3}, "always").state
        row = state.rows[state.agents[1].row].reports
        assert (row.sensitivity, row.false_positive_rate, row.tests) == (0.6, 0.05, 3)
        state = service.revise(log, campaign, VERA, "Chi", {"calibration": [9, 10]}, "always").state
        assert state.rows[state.agents[2].row].reports.sensitivity == 10 / 12

    def test_what_is_stated_anew_replaces_what_it_was_known_by(self, log, campaign):
        state = service.revise(log, campaign, VERA, "Chi", {"sensitivity": 0.7}, "always").state
        chi = state.rows[state.agents[2].row].reports
        assert (chi.sensitivity, chi.calibration, chi.tests) == (0.7, None, 12)
        both = {"false_positive_calibration": [1, 18]}
        state = service.revise(log, campaign, VERA, "Ben", both, "always").state
        assert state.rows[state.agents[1].row].reports.false_positive_rate == 2 / 20

    def test_another_policy(self, log, campaign):
        state = service.set_policy(log, campaign, VERA, "min-width", 0.1).state
        assert (state.policy.name, state.policy.delta) == ("min-width", 0.1)
        state = service.set_policy(log, campaign, VERA, delta=0.2).state
        assert (state.policy.name, state.policy.delta) == ("min-width", 0.2)
        service.set_policy(log, campaign, VERA, "min-width-window", memory=50)
        state = service.set_policy(log, campaign, VERA, delta=0.1).state
        assert (state.policy.memory, state.policy.delta) == (50, 0.1)
        assert service.set_season(log, campaign, VERA, 9).state.rounds_left == 9

    def test_the_memory_of_one_policy_is_not_that_of_another(self, log, campaign):
        service.set_policy(log, campaign, VERA, "min-width-window", memory=50)
        state = service.set_policy(log, campaign, VERA, "posterior-sorted-window").state
        assert state.policy.memory == policy("posterior-sorted-window").memory != 50

    def test_what_is_wrong_with_what_is_stated_anew_is_named(self, log, campaign):
        with pytest.raises(InvalidFields) as refused:
            service.revise(log, campaign, VERA, "Ana", {"sensitivity": 2, "tests": 0}, "now")
        places = [place for place, _ in refused.value.errors]
        assert set(places) == {"reports.sensitivity", "reports.tests"}
        with pytest.raises(InvalidInput, match="since is 'then'"):
            service.revise(log, campaign, VERA, "Ana", {"sensitivity": 0.5}, "then")

    def test_names(self, log, campaign):
        service.rename(log, campaign, VERA, "agent", "Ana", "Anna")
        service.rename(log, campaign, VERA, "campaign", None, "South park")
        state = log.state(campaign)
        assert (state.agent_names[0], state.name) == ("Anna", "South park")
        with pytest.raises(InvalidInput, match="that name is taken"):
            service.rename(log, campaign, VERA, "agent", "Anna", "Ben")
        with pytest.raises(InvalidInput, match="unknown agent 'Ana': did you mean 'Anna'"):
            service.rename(log, campaign, VERA, "agent", "Ana", "X")

    def test_notes(self, log, campaign):
        service.add_note(log, campaign, VERA, "rain\r\nall day\n", None)
        assert service.history(log, campaign)[-1].body == {"text": "rain\nall day", "round": None}
        with pytest.raises(InvalidInput, match="round 1 is not planned"):
            service.add_note(log, campaign, VERA, "rain", 1)
        with pytest.raises(InvalidInput, match="text-direction"):
            service.add_note(log, campaign, VERA, "ra\u202ein")


class TestTogether:
    """Several who write, and the same request again."""

    def test_the_same_key_gives_the_first_answer(self, log, campaign):
        request = Author("Vera", "k1", "digest")
        first = service.plan_round(log, campaign, request)
        again = service.plan_round(log, campaign, request)
        assert (first.repeated, again.repeated) == (False, True)
        assert again.events == first.events
        assert len(log.state(campaign).rounds) == 1
        with pytest.raises(KeyReused, match="'k1' was used for another request"):
            service.plan_round(log, campaign, Author("Vera", "k1", "other"))

    def test_the_same_key_creates_once(self, log):
        request = Author("Vera", "k1", "digest")
        given = {"name": "x", "agents": [{"name": "Ana", "sensitivity": 0.9}], "arms": ["river"]}
        first = service.create(log, request, **given)
        assert service.create(log, request, **given).state.campaign == first.state.campaign
        assert len(log.store.heads()) == 1

    @pytest.mark.parametrize("separate", [False, True])
    def test_everybody_reports_at_once(self, log, tmp_path, separate):
        count = 8
        agents = [{"name": f"a{i}", "sensitivity": 0.5} for i in range(count)]
        campaign = park(log, agents=agents, arms=[f"n{i}" for i in range(count)])
        for _ in range(3):
            service.plan_round(log, campaign, VERA)
        wrong = []

        def work(i):
            mine = Repository(Store(tmp_path / "campaigns.db")) if separate else log
            try:
                for number in (1, 2, 3):
                    report_outcomes(mine, campaign, Author(f"a{i}"), number, {f"a{i}": i % 2})
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        state = log.state(campaign)
        assert state.pulls.sum() == 3 * count
        assert state.number == 4 + 3 * count
        assert not state.waiting
        assert verify_log(log, campaign).events == state.number

    def test_of_two_first_reports_one_is_told_so(self, log, tmp_path, campaign):
        service.plan_round(log, campaign, VERA)
        other = Repository(Store(tmp_path / "campaigns.db"))
        other.state(campaign)
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        with pytest.raises(AlreadyReported):
            report_outcomes(other, campaign, Author("Ben"), 1, {"Ana": 0})

    def test_of_two_plans_each_is_a_round(self, log, tmp_path, campaign):
        other = Repository(Store(tmp_path / "campaigns.db"))
        other.state(campaign)
        service.plan_round(log, campaign, VERA)
        assert len(service.plan_round(other, campaign, VERA).state.rounds) == 2

    def test_a_snapshot_is_never_needed(self, log, tmp_path, campaign, monkeypatch):
        from heterobandits.campaigns.storage import snapshots

        monkeypatch.setattr(snapshots, "SNAPSHOT_MIN_EVENTS", 3)
        for number in range(1, 6):
            service.plan_round(log, campaign, VERA)
            report_outcomes(log, campaign, VERA, number, {"Ana": 1, "Ben": 0})
        kept = log.store.snapshot(campaign)
        assert kept is not None
        hashes = {Repository(Store(tmp_path / "campaigns.db")).state(campaign).hash}
        log.store.keep_snapshot(campaign, kept._replace(data=b"damaged"))
        hashes.add(Repository(Store(tmp_path / "campaigns.db")).state(campaign).hash)
        log.store.keep_snapshot(campaign, kept._replace(made_with="another version"))
        hashes.add(Repository(Store(tmp_path / "campaigns.db")).state(campaign).hash)
        other = snapshots.pack_state(replace(log.state(campaign), hash="f" * 64, name="X"))
        log.store.keep_snapshot(campaign, kept._replace(data=other))
        again = Repository(Store(tmp_path / "campaigns.db")).state(campaign)
        assert again.name == "North park"
        assert hashes == {log.store.head(campaign).hash, again.hash}
        assert log.at(campaign, 3).number == 3


class TestLookingBack:
    """What stood after an event of long ago."""

    @pytest.fixture
    def season(self, tmp_path, monkeypatch):
        """A log with a season of 81 events, of which every 16th is kept in mind."""
        monkeypatch.setattr(past_states, "PAST_STEP_MIN_EVENTS", 16)
        log = Repository(Watched(tmp_path / "season.db"))
        campaign = park(log)
        for number in range(1, 21):
            service.plan_round(log, campaign, VERA)
            report_outcomes(
                log, campaign, VERA, number, {"Ana": 1, "Ben": 0, "Chi": (number % 13, 12)}
            )
        return log, campaign

    def test_it_is_folded_once(self, season):
        log, campaign = season
        state = log.at(campaign, 77)
        log.store.counted = 0
        assert log.at(campaign, 77) is state
        assert log.store.counted == 0

    def test_any_other_is_folded_from_one_nearby(self, season):
        log, campaign = season
        log.at(campaign, 81)
        for number in (80, 3, 40, 17, 81, 64, 16, 1, 79):
            log.store.counted = 0
            state = log.at(campaign, number)
            assert log.store.counted <= 16
            plain = fold_events(log.store.read(campaign, 0, number))
            assert (state.number, state.hash) == (number, plain.hash)
            assert (state.pulls == plain.pulls).all()
            assert (state.successes == plain.successes).all()
            assert list(state.rounds) == list(plain.rounds)
        assert log.at(campaign, 99).number == 81

    @pytest.mark.parametrize(
        ("bound", "most"), [("PAST_MAX_STATES", 3), ("PAST_MAX_CELLS", 3 * 15)]
    )
    def test_few_are_at_hand(self, season, monkeypatch, bound, most):
        monkeypatch.setattr(past_states, bound, most)
        log, campaign = season
        for number in range(1, 82):
            assert log.at(campaign, number).number == number
        assert len(log.past) == 3


class TestLinks:
    """Who holds a link."""

    def test_the_log_has_the_hash_of_a_token_and_not_the_token(self, log, campaign):
        done, token = issue_link(
            log, campaign, VERA, role="reporter", name="Ana's phone", agent="Ana"
        )
        (link,) = done.state.links.values()
        assert (link.role, link.agent, link.token_hash) == (
            "reporter",
            0,
            hash_of_token(token),
        )
        assert token.startswith(f"hb_{campaign}_{link.id}_")
        assert len(token.split("_", 3)[3]) == 43  # 32 bytes in base 64
        assert token not in export_events(log, campaign)
        assert token.split("_", 3)[3] not in export_events(log, campaign)

    def test_its_end_is_kept_in_utc(self, log, campaign):
        ends = "2099-01-01T02:00+02:00"
        done, _ = issue_link(log, campaign, VERA, role="viewer", name="wall", expires=ends)
        (link,) = done.state.links.values()
        assert link.expires == "2099-01-01T00:00:00.000000Z"

    def test_it_ends_with_its_time_or_when_it_is_revoked(self, log, campaign):
        done, _ = issue_link(
            log, campaign, VERA, role="viewer", name="wall", expires="2099-01-01T00:00:00Z"
        )
        (link,) = done.state.links.values()
        assert link.holds("2098-12-31T23:59:59Z")
        assert not link.holds("2099-01-01T00:00:00.000000Z")
        state = revoke_link(log, campaign, VERA, link.id).state
        assert not state.links[link.id].holds("2026-01-01T00:00:00Z")
        with pytest.raises(InvalidInput, match="revoked already"):
            revoke_link(log, campaign, VERA, link.id)

    def test_nothing_is_written_with_one_that_is_revoked(self, log, campaign, tmp_path):
        done, _ = issue_link(log, campaign, VERA, role="owner", name="Olga")
        olga = Author("Olga", link=done.events[0].body["link"])
        (written,) = service.add_note(log, campaign, olga, "hello").events
        assert written.link == olga.link
        other = Repository(Store(tmp_path / "campaigns.db"))  # who does not know of it yet
        assert other.state(campaign).links[olga.link].holds("2026-01-01T00:00:00Z")
        revoke_link(log, campaign, VERA, olga.link)
        for one in (log, other):
            with pytest.raises(LinkEnded, match="revoked"):
                issue_link(one, campaign, olga, role="owner", name="Olga again")
        (forged,) = events_of([NOTE], log.state(campaign), who="Olga", link=olga.link)
        for link, ended in (
            (olga.link, "revoked, or has expired"),
            ("f" * 12, "not of this campaign"),
        ):
            with pytest.raises(LinkEnded, match=f"the link '{link}' is {ended}"):
                fold_events([replace(forged, link=link)], log.state(campaign))
        with pytest.raises(LinkEnded):
            fold_events(events_of([Draft("created", {})], campaign=campaign, link="f" * 12))

    def test_a_revocation_gives_no_way_to_who_writes_without_a_pause(self, campaign, tmp_path):
        others = opened(tmp_path)

        class Rushed(Store):
            """Somebody else is always faster, until the 40th time."""

            rushed = 0

            def append(self, *given, **more):
                self.rushed += 1
                if self.rushed < 40:
                    service.add_note(others, campaign, VERA, "storm")
                super().append(*given, **more)

        done, _ = issue_link(others, campaign, VERA, role="planner", name="Pia")
        link = done.events[0].body["link"]
        with Rushed(tmp_path / "campaigns.db") as store:
            done = revoke_link(Repository(store), campaign, VERA, link)
        assert done.state.links[link].revoked
        assert store.rushed == 40

    def test_all_are_revoked_in_every_campaign(self, log, campaign):
        south = park(log, name="South park")
        for where, name in ((campaign, "Olga"), (campaign, "Pia"), (south, "Quin")):
            issue_link(log, where, VERA, role="planner", name=name)
        revoke_link(log, campaign, VERA, next(iter(log.state(campaign).links)))
        found = [(one.campaign, count) for one, count in revoke_all_links(log, VERA)]
        assert sorted(found) == sorted([(campaign, 1), (south, 1)])
        for where in (campaign, south):
            assert all(link.revoked for link in log.state(where).links.values())
            assert service.history(log, where)[-1].who == "Vera"

    def test_one_that_would_end_before_the_last_event_is_not_issued(self, log, campaign):
        ahead = render_timestamp(datetime.now(UTC) + timedelta(hours=23))
        log.store.append(events_of([NOTE], log.state(campaign), time=ahead))
        soon, later = (
            render_timestamp(datetime.now(UTC) + timedelta(hours=hours)) for hours in (2, 24)
        )
        with pytest.raises(InvalidInput, match="by a clock that was ahead"):
            issue_link(log, campaign, VERA, role="planner", name="Pia", expires=soon)
        issue_link(log, campaign, VERA, role="viewer", name="wall", expires=soon)
        done, _ = issue_link(log, campaign, VERA, role="planner", name="Pia", expires=later)
        pia = Author("Pia", link=done.events[0].body["link"])
        assert service.add_note(log, campaign, pia, "hello").events

    @pytest.mark.parametrize("name", ["Owner", "server", "PIA"])
    def test_no_agent_is_named_like_another_who_writes(self, log, campaign, name):
        issue_link(log, campaign, VERA, role="planner", name="Pia")
        with pytest.raises(InvalidInput, match="would not tell it from another"):
            service.rename(log, campaign, VERA, "agent", "Ana", name)
        issue_link(log, campaign, VERA, role="reporter", name="Ana", agent="Ana")
        service.rename(log, campaign, VERA, "agent", "Ana", "Ann")
        service.rename(log, campaign, VERA, "agent", "Ann", "Ana")

    def test_nobody_is_called_like_the_server_though_an_agent_is(self, log, campaign):
        service.add_agents(log, campaign, VERA, [{"name": "server", "sensitivity": 0.5}])
        for agent in ("server", None):
            with pytest.raises(InvalidInput, match="would not tell it from another"):
                issue_link(log, campaign, VERA, role="reporter", name="server", agent=agent)

    def test_keys_are_of_a_link(self, log, campaign):
        notes = {"Olga": "one", "Pia": "another"}
        for name, text in notes.items():
            done, _ = issue_link(log, campaign, VERA, role="planner", name=name)
            asks = Author(name, "week 3", text, done.events[0].body["link"])
            for repeated in (False, True):
                assert service.add_note(log, campaign, asks, text).repeated is repeated
        with pytest.raises(KeyReused):
            service.add_note(log, campaign, asks._replace(digest="other"), "other")

    @pytest.mark.parametrize(
        "name",
        [
            "owner", "Owner", "оwner", "0wner", "ow\u200bner", "ｏwner", "Olga", "OIga", "Оlga", "ow\u034fner", "ow\ufe0fner",
            "owner\u3164", "owner\u115f", "owner\u2800", "օwner", "OԜNER", "ᴏᴡɴᴇʀ", "ówner", "o\u0308wner", "server", "Ѕerver",
        ],
    )  # fmt: skip
    def test_no_name_looks_like_that_of_another_holder(self, log, campaign, name):
        done, _ = issue_link(log, campaign, VERA, role="planner", name="Olga")
        with pytest.raises(InvalidInput, match="another name"):
            issue_link(log, campaign, VERA, role="planner", name=name)
        with pytest.raises(InvalidInput, match="another name"):
            issue_links(log, campaign, VERA, [("Pia", None), ("PIA", None)], role="planner")
        revoke_link(log, campaign, VERA, done.events[0].body["link"])
        if appearance_of(name).casefold() == "olga":
            issue_link(log, campaign, VERA, role="planner", name=name)

    @pytest.mark.parametrize(("one", "other"), [("रमु", "रमे"), ("Ana", "Anna"), ("ow ner", "owner 2")])  # fmt: skip
    def test_names_that_look_different_are_two(self, log, campaign, one, other):
        for name in (one, other):
            issue_link(log, campaign, VERA, role="planner", name=name)

    def test_several_of_one_agent_may_have_one_name(self, log, campaign):
        for _ in range(2):
            issue_link(log, campaign, VERA, role="reporter", name="Ana", agent="Ana")
        with pytest.raises(InvalidInput, match="another name"):
            issue_link(log, campaign, VERA, role="reporter", name="Ana", agent="Ben")
        done, _ = issue_links(log, campaign, VERA, [("phone", "Chi")] * 2, role="reporter")
        assert len(done.events) == 2

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"role": "king"}, "role is 'king'"),
            ({"agent": "Ana"}, "only a reporter is of one agent"),
            ({"role": "reporter", "agent": "Zoe"}, "unknown agent 'Zoe'"),
            ({"expires": "2020-01-01T00:00:00Z"}, "a time to come"),
            ({"expires": "soon"}, "expires is 'soon'"),
            ({"name": ""}, "name is ''"),
        ],
    )
    def test_what_is_refused(self, log, campaign, given, message):
        with pytest.raises(InvalidInput, match=message):
            issue_link(log, campaign, VERA, **{"role": "viewer", "name": "x"} | given)
        assert log.store.head(campaign).number == 1


class TestParts:
    """Events that are read at once."""

    def test_they_have_so_many_bytes_or_are_one(self, log, campaign, monkeypatch):
        for letters in (10, 10, 500, 10):
            service.add_note(log, campaign, VERA, "x" * letters)
        monkeypatch.setattr(service, "PART_BYTES", 100)

        def part(after, upto=9):
            return [one.number for one in service.history_part(log, campaign, after, upto)]

        assert [part(after) for after in range(6)] == [[1], [2, 3], [3], [4], [5], []]
        assert (part(1, 2), part(2, 2)) == ([2], [])


class TestFiles:
    """Export and import."""

    @pytest.fixture
    def lived(self, log, campaign):
        for number in (1, 2):
            service.plan_round(log, campaign, VERA)
            report_outcomes(log, campaign, VERA, number, {"Ana": 1})
        correct_outcomes(log, campaign, VERA, 1, {"Ana": 0})
        return campaign

    def test_elsewhere_it_has_the_same_state_and_hashes(self, log, lived, tmp_path):
        text = export_events(log, lived)
        other = opened(tmp_path, "other.db")
        done = import_events(other, VERA, text)
        assert done.state.hash == log.state(lived).hash
        assert export_events(other, lived) == text
        assert verify_log(other, lived) == verify_log(log, lived)

    def test_once_more_changes_nothing_and_a_longer_one_goes_on(self, log, lived, tmp_path):
        other = opened(tmp_path, "other.db")
        import_events(other, VERA, export_events(log, lived))
        assert import_events(other, VERA, export_events(log, lived)).events == []
        service.plan_round(log, lived, VERA)
        done = import_events(other, VERA, export_events(log, lived))
        assert [e.kind for e in done.events] == ["round planned"]
        assert done.state.hash == log.state(lived).hash

    def test_the_same_key_imports_once(self, log, lived, tmp_path):
        other = opened(tmp_path, "other.db")
        request = Author("Vera", "k1", "digest")
        first = import_events(other, request, export_events(log, lived))
        again = import_events(other, request, export_events(log, lived))
        assert (first.repeated, again.repeated) == (False, True)
        assert again.events == first.events

    def test_changed_bodies_under_old_hashes_are_not_taken_for_what_is_there(self, log, lived):
        events = service.history(log, lived)
        events[0] = replace(events[0], body=events[0].body | {"name": "South park"})
        with pytest.raises(InvalidInput, match="event 1 is not what its hash says"):
            import_events(log, VERA, "\n".join(map(render_event_line, events)))

    def test_another_history_is_refused(self, log, lived, tmp_path):
        other = opened(tmp_path, "other.db")
        import_events(other, VERA, export_events(log, lived))
        service.plan_round(log, lived, VERA)
        service.close_round(other, lived, VERA, 2)
        number = log.state(lived).number - 1
        with pytest.raises(InvalidInput, match=f"another history: they part after event {number}"):
            import_events(other, VERA, export_events(log, lived))

    def test_links_come_along_only_if_they_are_kept(self, log, lived, tmp_path):
        _, token = issue_link(log, lived, VERA, role="owner", name="Olga")
        (link,) = log.state(lived).links
        text = export_events(log, lived)
        kept, left = opened(tmp_path, "kept.db"), opened(tmp_path, "left.db")
        done = import_events(kept, VERA, text, keep_links=True)
        assert done.state.hash == log.state(lived).hash
        assert done.state.links[link].holds(utc_now())
        asks = Author("owner", link=SERVER_LINK)
        done = import_events(left, asks, text)
        assert [event.kind for event in done.events[-2:]] == ["link issued", "link revoked"]
        assert (done.events[-1].who, done.events[-1].link) == ("owner", SERVER_LINK)
        assert Gate(left, "").caller(token) is None
        assert import_events(left, asks, text).events == []
        (forged,) = events_of(
            [Draft("link issued", MALLORY | {"link": "ab" * 6})], log.state(lived)
        )
        done = import_events(kept, VERA, text + render_event_line(forged) + "\n")
        assert [one.id for one in done.state.links.values() if one.holds(utc_now())] == [link]

    @pytest.mark.parametrize(
        ("role", "kind", "body"),
        [
            ("viewer", "note", {"text": "x", "round": None}),
            ("reporter", "renamed", {"what": "campaign", "name": "mine"}),
            ("planner", "season changed", {"season": 99}),
            ("planner", "link issued", MALLORY),
            ("reporter of Ben", "withdrawn", {"round": 1, "agent": "agent-1", "arm": "arm-1"}),
            ("nobody", "note", {"text": "x", "round": None}),
        ],
    )  # fmt: skip
    def test_nothing_is_taken_that_its_link_does_not_write(self, log, lived, tmp_path, role, kind, body):  # fmt: skip
        link = "a" * 12
        if role != "nobody":
            agent = "Ben" if role.endswith("Ben") else None
            given = {"role": role.split()[0], "name": "Mallory", "agent": agent}
            done, _ = issue_link(log, lived, VERA, **given)
            link = done.events[0].body["link"]
        last = log.state(lived)
        (forged,) = events_of([Draft(kind, body)], last, who="Mallory", link=link)
        text = export_events(log, lived)
        other = opened(tmp_path, "other.db")
        for _ in range(2):  # as a whole, and as what follows
            with pytest.raises(
                InvalidInput, match=r"writes no such|is another|did not hold"
            ) as caught:
                import_events(other, VERA, text + render_event_line(forged) + "\n")
            assert not isinstance(caught.value, LinkEnded)
            import_events(other, VERA, text, keep_links=True)
        assert other.state(lived).number > last.number - 1

    def test_a_link_that_has_expired_is_revoked_too(self, log, lived, tmp_path, monkeypatch):
        """Or a clock that goes back would let it open."""
        ends = render_timestamp(datetime.now(UTC) + timedelta(hours=1))
        issue_link(log, lived, VERA, role="planner", name="Pia", expires=ends)
        text = export_events(log, lived)
        later = render_timestamp(datetime.now(UTC) + timedelta(hours=2))
        monkeypatch.setattr(exchange, "utc_now", lambda: later, raising=False)
        (link,) = import_events(opened(tmp_path, "other.db"), VERA, text).state.links.values()
        assert link.revoked

    def forged(self, log, campaign, **by):
        """The export of a campaign with one more note, sealed anew."""
        events = events_of([NOTE], log.state(campaign), **by)
        return export_events(log, campaign) + "".join(
            f"{render_event_line(event)}\n" for event in events
        )

    def test_what_comes_from_a_file_does_not_pass_for_what_was_written_here(self, log, lived):
        done, _ = issue_link(log, lived, VERA, role="planner", name="Pia")
        link, number = done.events[0].body["link"], done.state.number
        text = self.forged(log, lived, who="Pia", link=link)
        asks = Author(OWNER_NAME, link=SERVER_LINK)
        note, told = import_events(log, asks, text).events
        assert (note.who, note.link) == ("Pia", link)
        assert (told.kind, told.who, told.link) == ("imported", OWNER_NAME, SERVER_LINK)
        assert told.body == {"first": number + 1, "last": number + 1}
        assert log.state(lived).links[link].holds(utc_now())
        said = list(narrate_events(service.history(log, lived), EventNarrator()))[-1]
        assert (
            said.text == f"imported event {number + 1} from a file, which alone says who wrote that"
        )
        assert is_about(said, 1, "agent-1")
        assert said.text in Page(render_audit(service.history(log, lived))).text
        assert import_events(log, asks, text).events == []

    def test_a_campaign_from_a_server_is_told_from_one_of_this_server(self, log, lived, tmp_path):
        text = self.forged(log, lived, who=OWNER_NAME, link=SERVER_LINK)
        other = opened(tmp_path, "other.db")
        events = import_events(other, VERA, text).events
        assert "".join(f"{render_event_line(event)}\n" for event in events[:-1]) == text
        assert (events[-1].kind, events[-1].body) == (
            "imported",
            {"first": 1, "last": len(events) - 1},
        )

    @pytest.mark.parametrize(
        ("role", "who"), [("planner", "Chi"), ("server", "Vera"), ("server", "оwner")]
    )
    def test_nobody_writes_by_the_link_of_another(self, log, lived, role, who):
        link = SERVER_LINK
        if role == "planner":
            done, _ = issue_link(log, lived, VERA, role="planner", name="Pia")
            link = done.events[0].body["link"]
        before = log.state(lived).number
        with pytest.raises(InvalidInput, match=r"says that .* wrote it, by the link of"):
            import_events(log, VERA, self.forged(log, lived, who=who, link=link))
        assert log.state(lived).number == before
        with pytest.raises(InvalidInput, match="by the link of"):
            fold_events(
                events_of([Draft("created", {})], campaign=lived, who=who, link=SERVER_LINK)
            )

    @pytest.mark.parametrize("body", [{"first": 1, "last": 1}, {"first": 9, "last": 6}, {"first": 0, "last": 6}, {"last": 6}])  # fmt: skip
    def test_only_the_last_events_can_have_been_imported(self, log, lived, body):
        state = log.state(lived)
        assert state.number == 6
        fold_events(events_of([Draft("imported", {"first": 3, "last": 6})], state), state)
        with pytest.raises(InvalidInput, match=r"first|are not the last"):
            fold_events(events_of([Draft("imported", body)], state), state)

    def test_one_wrong_clock_dates_nothing_else(self, log, lived, tmp_path):
        ahead = events_of([NOTE], log.state(lived), time="9999-12-31T23:59:59.999999Z")
        text = export_events(log, lived) + render_event_line(ahead[0]) + "\n"
        with pytest.raises(InvalidInput, match="more than a day ahead"):
            import_events(opened(tmp_path, "other.db"), VERA, text)
        log.store.append(ahead)  # as a program with a wrong clock did
        (after,) = service.add_note(log, lived, VERA, "later").events
        assert after.time[:4] == utc_now()[:4]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "nothing to import"),
            ("\n\n", "nothing to import"),
            ("hello", "not an event of a campaign"),
            ('{"a": 1}', "not an event of a campaign"),
        ],
    )
    def test_what_is_no_export_is_refused(self, log, text, message):
        with pytest.raises(InvalidInput, match=message):
            import_events(log, VERA, text)
        assert log.store.heads() == []

    @pytest.mark.parametrize(
        ("field", "value"),
        [("who", "a\u202eb"), ("who", ""), ("time", "yesterday"), ("key", "\x1b[31m")],
    )
    def test_what_nobody_could_have_written_is_refused(self, log, lived, tmp_path, field, value):
        other = opened(tmp_path, "other.db")
        events = [replace(e, **{field: value}) for e in service.history(log, lived)[:1]]
        events = [replace(e, hash=hash_of_event(e)) for e in events]
        with pytest.raises(InvalidInput, match=field):
            import_events(other, VERA, "\n".join(map(render_event_line, events)))
        assert other.store.heads() == []

    def test_a_changed_line_is_refused_and_nothing_is_kept(self, log, lived, tmp_path):
        other = opened(tmp_path, "other.db")
        events = service.history(log, lived)
        events[3] = replace(events[3], who="Mallory")
        with pytest.raises(InvalidInput, match="event 4"):
            import_events(other, VERA, "\n".join(map(render_event_line, events)))
        assert other.store.heads() == []


class TestConflict:
    """When others never pause."""

    def test_it_is_said(self, log, campaign, monkeypatch):
        from heterobandits.campaigns.storage import repository as module

        monkeypatch.setattr(module, "WRITE_MAX_TRIES", 2)
        other = Repository(log.store)

        def always_late(state):
            service.add_note(other, campaign, VERA, "first")
            return [service.Draft("note", {"text": "second", "round": None})]

        with pytest.raises(WriteConflict, match="changed by others without a pause"):
            log.write(campaign, VERA, always_late)

    def test_only_what_is_written_is_charged(self, log, campaign, tmp_path):
        other, faster = Repository(Store(tmp_path / "campaigns.db")), ["one", "two", "three"]
        spent = []

        def late(state):
            if faster:
                service.add_note(other, campaign, VERA, faster.pop())
            return [service.Draft("note", {"text": "second", "round": None})]

        done = log.write(campaign, VERA._replace(spend=spent.append), late)
        (event,) = done.events
        assert len(spent) > 2
        assert sum(spent) == len(body_text(event).encode())


class TestTheServersOwner:
    """Whose token is known by its hash, until there is another."""

    def test_nothing_is_written_with_a_token_that_was_replaced(self, log, campaign):
        log.store.settle(OWNER_NAME, "old")
        owner = Author(OWNER_NAME, link=SERVER_LINK, owner="old")
        number = service.add_note(log, campaign, owner, "in time").state.number
        log.store.replace(OWNER_NAME, "new")
        for write in (
            lambda: service.add_note(log, campaign, owner, "late"),
            lambda: service.create(log, owner, name="South park", agents=AGENTS, arms=ARMS),
        ):
            with pytest.raises(LinkEnded, match="token of the server's owner was replaced"):
                write()
        assert [head.number for head in log.store.heads()] == [number]

    @pytest.mark.parametrize("what", ["a note", "a campaign", "an import", "a report"])
    def test_nothing_is_told_again_to_a_token_that_was_replaced(self, log, campaign, what):
        log.store.settle(OWNER_NAME, "old")
        owner = Author(OWNER_NAME, link=SERVER_LINK, owner="old")
        keyed = owner._replace(key="k1", digest="digest")
        service.plan_round(log, campaign, owner)
        text = export_events(log, campaign)
        ask = {
            "a note": lambda: service.add_note(log, campaign, keyed, "in time"),
            "a campaign": lambda: service.create(
                log, keyed, name="South park", agents=AGENTS, arms=ARMS
            ),
            "an import": lambda: import_events(log, owner, text),
            "a report": lambda: report_outcomes(log, campaign, owner, 1, {"Ana": 1}),
        }[what]
        ask()
        number = log.store.heads()
        ask()
        log.store.replace(OWNER_NAME, "new")
        with pytest.raises(LinkEnded, match="token of the server's owner was replaced"):
            ask()
        assert log.store.heads() == number


class TestAnOlderCopy:
    """Of the same file, put back under a log that has read further."""

    @pytest.fixture
    def put_back(self, log, campaign, tmp_path):
        """A log that knows three events, of which two are there."""
        link = issue_link(log, campaign, VERA, role="planner", name="Pia")[0].state.links
        before = sqlite3.connect(":memory:")
        with closing(sqlite3.connect(tmp_path / "campaigns.db")) as file:
            file.backup(before)
        service.add_note(log, campaign, VERA, "lost")
        known = log.state(campaign).number
        log.at(campaign, known)
        with closing(sqlite3.connect(tmp_path / "campaigns.db")) as file:
            before.backup(file)
        before.close()
        return next(iter(link)), known

    def test_what_is_gone_is_shown_no_more(self, log, campaign, put_back):
        _, known = put_back
        assert log.state(campaign).number == known - 1
        assert [event.kind for event in log.store.read(campaign)][-1] == "link issued"
        assert log.at(campaign, known).number == known - 1

    def test_a_link_is_revoked_and_others_write(self, log, campaign, put_back):
        link, known = put_back
        done = revoke_link(log, campaign, VERA, link)
        assert done.state.number == known
        assert done.state.links[link].revoked
        assert service.add_note(log, campaign, VERA, "on it goes").state.number == known + 1

    def test_another_history_of_the_same_length(self, log, campaign, put_back, tmp_path):
        _, known = put_back
        other = Repository(Store(tmp_path / "campaigns.db"))
        service.add_note(other, campaign, VERA, "another")
        other.store.close()
        assert log.state(campaign).hash == log.store.read(campaign)[-1].hash
        assert service.add_note(log, campaign, VERA, "on it goes").state.number == known + 1

    @pytest.mark.parametrize("way", ["ahead", "on a page"])
    def test_no_plan_of_another_history_is_recorded(self, log, campaign, put_back, tmp_path, way):
        state = log._states[campaign]
        with Store(tmp_path / "campaigns.db") as store:
            service.rename(Repository(store), campaign, VERA, "arm", "river", "delta")
        given = {"look": service.plan_ahead(state)} if way == "ahead" else {"seen": state.hash}
        assert log.state(campaign).number == state.number
        with pytest.raises(Stale):
            service.plan_round(log, campaign, VERA, **given)

    def test_a_campaign_that_is_gone(self, log, campaign, tmp_path):
        empty = sqlite3.connect(":memory:")
        with closing(sqlite3.connect(tmp_path / "campaigns.db")) as file:
            file.backup(empty)
            for trigger in [
                row[0]
                for row in empty.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            ]:
                empty.execute(f'DROP TRIGGER "{trigger}"')
            empty.execute("DELETE FROM keys")
            empty.execute("DELETE FROM events")
            empty.commit()
            empty.backup(file)
        empty.close()
        with pytest.raises(UnknownCampaign):
            log.state(campaign)

    def test_a_revocation_is_not_tried_for_ever(self, log, campaign, monkeypatch):
        from heterobandits.campaigns.storage import repository as module

        monkeypatch.setattr(module, "WRITE_TIMEOUT_S", 0.3)
        done, _ = issue_link(log, campaign, VERA, role="planner", name="Pia")
        link = next(iter(done.state.links))

        def never(*given, **named):
            raise WriteConflict("somebody else was first")

        monkeypatch.setattr(log.store, "append", never)
        with pytest.raises(WriteConflict, match="changed by others without a pause"):
            revoke_link(log, campaign, VERA, link)


class TestManyCampaigns:
    """What is at hand of campaigns does not grow with how many there are."""

    def test_of_those_that_nobody_asks_for_nothing_is_kept(self, log, monkeypatch):
        from heterobandits.campaigns.storage import repository as module

        monkeypatch.setattr(module, "STATE_CACHE_MAX_STATES", 3)
        monkeypatch.setattr(module.snapshots, "SNAPSHOT_MIN_EVENTS", 2)
        for number in range(8):
            campaign = park(log, name=f"park {number}")
            service.plan_round(log, campaign, VERA)
            service.add_note(log, campaign, VERA, "all is well")
        assert len(log._states) == 3
        assert len(log._kept) == 3
        assert len(log._writing) == len(log._folding) == 0

    def test_one_that_is_not_at_hand_is_folded_once_however_many_ask(
        self, log, campaign, monkeypatch
    ):
        from heterobandits.campaigns.storage import repository as module

        others, folds = Repository(log.store), []
        together = threading.Barrier(4)

        def slowly(*given):
            folds.append(given)
            time.sleep(0.2)  # enough for the others to come
            return fold_events(*given)

        def ask():
            together.wait()
            found.append(others.state(campaign).number)

        monkeypatch.setattr(module, "fold_events", slowly)
        found, asking = [], [threading.Thread(target=ask) for _ in range(4)]
        for one in asking:
            one.start()
        for one in asking:
            one.join()
        assert found == [log.state(campaign).number] * 4
        assert len(folds) == 1

    def test_two_who_write_at_once_have_one_turn(self, log, campaign):
        turn = log._turn(log._writing, campaign)
        assert log._turn(log._writing, campaign) is turn
        assert log._turn(log._writing, "another") is not turn


class TestUnreadable:
    """A log that cannot be folded: why is found out once, and again when it has changed."""

    @pytest.fixture
    def file(self, tmp_path):
        return str(tmp_path / "campaigns.db")

    @pytest.fixture
    def spoilt(self, log, campaign, file):
        """A function that spoils the log behind our code, and the log as somebody who comes later opens it."""

        def spoil(how):
            state = service.rename(log, campaign, VERA, "campaign", None, "East park").state
            service.add_note(log, campaign, VERA, "all is well")
            triggers = run_sql(file, "SELECT name FROM sqlite_master WHERE type = 'trigger'")
            run_sql(file, *(f"DROP TRIGGER {name}" for (name,) in triggers))
            if how == "refused":
                (last,) = log.store.read(campaign, state.number)
                log.store.append(events_of([Draft("round closed", {"round": 9})], last))
            elif how == "an ended link":
                (last,) = log.store.read(campaign, state.number)
                log.store.append(events_of([NOTE], last, link="b" * 12))
            else:
                change = {"no text": "body = '{'", "broken": "previous = hash"}[how]
                run_sql(file, f"UPDATE events SET {change} WHERE number = 3")
            return Repository(Watched(file))

        return spoil

    @pytest.mark.parametrize("how", ["refused", "an ended link", "no text", "broken"])
    def test_nothing_is_read_again_of_what_has_not_changed(self, campaign, spoilt, how):
        late = spoilt(how)
        with pytest.raises(UnreadableLog) as first:
            late.state(campaign)
        (listed,) = campaign_entries(late)
        assert (listed.name, listed.state, listed.wrong) == ("East park", None, str(first.value))
        read = late.store.counted
        with pytest.raises(UnreadableLog, match=re.escape(str(first.value))):
            late.state(campaign)
        assert list(campaign_entries(late)) == [listed]
        assert late.store.counted == read

    def test_who_knew_what_was_before_does_not_read_it_again_either(self, log, campaign, spoilt):
        file = spoilt("refused").store
        late = Repository(file)
        late._states[campaign] = log._states[campaign]
        for read in (1, 1):
            with pytest.raises(UnreadableLog, match="round 9 is not planned"):
                late.state(campaign)
            assert file.counted == read

    def test_what_has_changed_is_looked_at_anew(self, campaign, spoilt, file):
        late = spoilt("refused")
        with pytest.raises(UnreadableLog):
            late.state(campaign)
        number, _ = late.store.last(campaign)
        run_sql(file, f"DELETE FROM events WHERE number = {number}")
        assert late.state(campaign).number == number - 1

    def test_few_are_remembered(self, log, monkeypatch):
        from heterobandits.campaigns.storage import repository as module

        monkeypatch.setattr(module, "REFUSALS_MAX_ENTRIES", 3)
        for number in range(8):
            log.store.append(events_of([NOTE], campaign=f"{number:012x}"))
        assert all(one.wrong for one in campaign_entries(log))
        assert len(log._refusals) == 3
