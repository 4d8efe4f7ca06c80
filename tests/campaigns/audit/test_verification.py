"""Verifying: every event and every plan is made again from the log alone, and the first that does not fit is named."""

from dataclasses import replace

import pytest

from heterobandits import InvalidInput
from heterobandits.campaigns import service
from heterobandits.campaigns.audit.verification import replay_events, verify_log
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.outcomes import correct_outcomes, report_outcomes
from heterobandits.campaigns.storage import snapshots
from heterobandits.campaigns.storage.store import Snapshot, UnknownCampaign
from logs import events_of
from parks import VERA, opened, park


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """The log of a season with an absence, a late result, a correction, a new ranger and a better detector."""
    log = opened(tmp_path_factory.mktemp("log"))
    campaign = park(log)
    service.plan_round(log, campaign, VERA, absent=["Ben"])
    report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
    service.plan_round(log, campaign, VERA, closed=["river"], forbidden=[("Ana", "hill")])
    report_outcomes(log, campaign, VERA, 1, {"Chi": (3, 12)})
    report_outcomes(log, campaign, VERA, 2, {"Ana": 0, "Ben": 1})
    correct_outcomes(log, campaign, VERA, 1, {"Ana": 0})
    service.add_agents(log, campaign, VERA, [{"name": "Dan", "sensitivity": 0.7}])
    service.revise(log, campaign, VERA, "Ben", {"sensitivity": 0.8}, "now")
    service.plan_round(log, campaign, VERA)
    assert verify_log(log, campaign).rounds == 3
    return log.store.read(campaign)


def resealed(events, number, **changes):
    """The log with an event changed by somebody who knows how to make hashes."""
    drafts = [Draft(e.kind, e.body) for e in events]
    drafts[number - 1] = Draft(
        changes.get("kind", events[number - 1].kind), changes.get("body", events[number - 1].body)
    )
    first = events[0]
    return events_of(drafts, None, first.campaign, first.time, first.who)


def number_of(events, kind, nth=0):
    return [e.number for e in events if e.kind == kind][nth]


class TestVerify:
    """What is found out."""

    def test_a_log_that_was_not_changed(self, events):
        state = replay_events(events)
        assert (state.number, len(state.rounds), state.hash) == (len(events), 3, events[-1].hash)
        assert replay_events(resealed(events, 1)).number == len(events)

    def test_how_far_it_is_is_told(self, events):
        shares = []
        replay_events(events, shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1.0

    @pytest.mark.parametrize("number", range(1, 11))
    def test_any_change_is_found_at_its_event(self, events, number):
        changed = list(events)
        changed[number - 1] = replace(events[number - 1], who="Mallory")
        kind = events[number - 1].kind
        with pytest.raises(
            InvalidInput,
            match=rf"^event {number}, {kind}, of .* by Mallory: is not what its hash says",
        ):
            replay_events(changed)

    @pytest.mark.parametrize("nth", [0, 1, 2])
    @pytest.mark.parametrize("what", ["arm", "index of one", "all indices", "seed", "policy"])
    def test_a_plan_that_does_not_follow_is_named_even_with_good_hashes(self, events, nth, what):
        number = number_of(events, "round planned", nth)
        body = dict(events[number - 1].body)
        one = [dict(a) for a in body["assignments"]]
        if what == "arm":
            taken = {a["arm"] for a in one} | set(body["closed"])
            free = next(a for a in ("arm-1", "arm-2", "arm-3", "arm-4", "arm-5") if a not in taken)
            one[0]["arm"] = free if ["agent-1", free] not in body["forbidden"] else one[0]["arm"]
            if one[0]["arm"] == body["assignments"][0]["arm"]:
                one[2]["arm"] = free
        elif what == "index of one":
            one[0]["index"] = 0.123
        body["assignments"] = one
        if what == "all indices":
            body["index"] = "0" * 64
        elif what == "seed":
            body["seed"] = 4
        elif what == "policy":
            body["policy"] = body["policy"] | {"delta": 0.06}
        match = rf"^event {number}, round planned, .*the plan of round {nth + 1} does not follow"
        with pytest.raises(InvalidInput, match=match):
            replay_events(resealed(events, number, body=body))

    def test_a_changed_outcome_shows_in_the_next_plan(self, events):
        number = number_of(events, "corrected")
        body = events[number - 1].body | {"successes": 1}
        with pytest.raises(InvalidInput, match="the plan of round 3 does not follow"):
            replay_events(resealed(events, number, body=body))

    def test_a_plan_of_other_kernels_says_so(self, events):
        number = number_of(events, "round planned")
        body = events[number - 1].body | {
            "index": "0" * 64,
            "made_with": {"heterobandits": "9.9", "kernels": "other"},
        }
        with pytest.raises(InvalidInput, match=r"made with version '9\.9' or other kernels"):
            replay_events(resealed(events, number, body=body))

    def test_what_cannot_be_is_named(self, events):
        number = number_of(events, "reported")
        body = events[number - 1].body | {"successes": 9}
        with pytest.raises(
            InvalidInput, match=rf"^event {number}, reported, .*9 successes of 1 tests"
        ):
            replay_events(resealed(events, number, body=body))

    def test_a_change_in_the_database_is_found(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        service.plan_round(log, campaign, VERA)
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        path = tmp_path / "campaigns.db"
        log.store.close()
        import sqlite3

        with sqlite3.connect(path) as connection:
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f'DROP TRIGGER "{name}"')
            connection.execute(
                "UPDATE events SET body = replace(body, '\"successes\":1', '\"successes\":0')"
            )
        connection.close()
        log = opened(tmp_path)
        with pytest.raises(InvalidInput, match=r"^event 3, reported, .* is not what its hash says"):
            verify_log(log, campaign)
        with pytest.raises(InvalidInput, match="event 3"):
            log.state(campaign)

    def test_a_snapshot_that_lies_is_found_and_made_anew(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        service.plan_round(log, campaign, VERA)
        state = report_outcomes(log, campaign, VERA, 1, {"Ana": 1}).state
        lie = snapshots.pack_state(replace(state, successes=state.successes * 0))
        log.store.keep_snapshot(campaign, Snapshot(state.number, snapshots.SNAPSHOT_FORMAT, lie))
        assert opened(tmp_path).state(campaign).successes.sum() == 0
        with pytest.raises(InvalidInput, match=r"snapshot of event 3 .* verify once more"):
            verify_log(opened(tmp_path), campaign)
        assert verify_log(opened(tmp_path), campaign).events == 3
        assert opened(tmp_path).state(campaign).successes.sum() == 1

    def test_nothing_there(self, tmp_path):
        with pytest.raises(UnknownCampaign):
            verify_log(opened(tmp_path), "0123456789ab")
