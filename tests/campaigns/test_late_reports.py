"""Reports that come late, as from a phone that was away for days: of which plan they are, when they were typed, from where, with a note."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from heterobandits import InvalidInput
from heterobandits.campaigns import serialization, service
from heterobandits.campaigns.audit.history_text import EventNarrator
from heterobandits.campaigns.audit.report import check_audit, render_audit
from heterobandits.campaigns.audit.verification import verify_log
from heterobandits.campaigns.events import body_text, hash_of_event, render_timestamp
from heterobandits.campaigns.files.csv_tables import render_visits
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.outcomes import (
    ReportDetails,
    Stale,
    correct_outcomes,
    report_outcomes,
    withdraw_outcomes,
)
from heterobandits.campaigns.reducer import AlreadyReported, fold_events
from heterobandits.campaigns.state import State, parse_time
from heterobandits.campaigns.storage.repository import Author
from heterobandits.campaigns.storage.snapshots import pack_state, unpack_state
from parks import VERA, opened, park

pytestmark = pytest.mark.smoke


@pytest.fixture
def log(tmp_path):
    return opened(tmp_path)


@pytest.fixture
def campaign(log):
    made = park(log)
    service.plan_round(log, made, VERA)
    return made


def ana(log, campaign, role="reporter", agent="Ana", name="Ana"):
    """Somebody with a link."""
    done, _ = issue_link(log, campaign, VERA, role=role, name=name, agent=agent)
    return Author(name, link=done.events[0].body["link"])


def arms_of(state: State, agent=0):
    return [state.arms[n].name for n in state.round(1).arms_of(agent)]


def elsewhere(state, agent=0):
    """An arm to which the plan does not send the agent."""
    return next(n for n in state.arm_names if n not in arms_of(state, agent))


def in_minutes(minutes):
    return render_timestamp(datetime.now(UTC) + timedelta(minutes=minutes))


class TestPlan:
    """A report says which plan it is of, for the number of a round may be used again."""

    def test_of_the_plan_as_it_is(self, log, campaign):
        event = log.state(campaign).round(1).event
        done = report_outcomes(log, campaign, VERA, 1, {"Ana": 1}, said=ReportDetails(event))
        assert "planned" not in done.events[0].body
        correct_outcomes(log, campaign, VERA, 1, {"Ana": 0}, said=ReportDetails(event))
        withdraw_outcomes(log, campaign, VERA, 1, ["Ana"], planned=event)
        assert log.state(campaign).round(1).told == {}

    @pytest.mark.parametrize("number", [1, 2])
    def test_of_another_plan_it_is_refused(self, log, campaign, number):
        before = log.state(campaign).number
        said = ReportDetails(log.state(campaign).round(1).event - 1)
        for write in (
            lambda: report_outcomes(log, campaign, VERA, number, {"Ana": 1}, said=said),
            lambda: correct_outcomes(log, campaign, VERA, number, {"Ana": 1}, said=said),
            lambda: withdraw_outcomes(log, campaign, VERA, number, ["Ana"], planned=said.planned),
        ):
            with pytest.raises(Stale, match=f"^Round {number} was (planned anew|cancelled) since"):
                write()
        assert log.state(campaign).number == before


class TestTimes:
    """When it was typed and when it came; a wrong clock is no reason to refuse a report."""

    def entered(self, log, campaign, entered, clock=None):
        said = ReportDetails(entered=entered, clock=clock)
        return report_outcomes(log, campaign, VERA, 1, {"Ana": 1}, said=said).events[0]

    def test_both_are_kept(self, log, campaign):
        state = log.state(campaign)
        typed = render_timestamp(parse_time(state.round(1).time) + timedelta(microseconds=1))
        event = self.entered(log, campaign, typed)
        assert event.body["entered"] == typed < event.time
        told = log.state(campaign).round(1).told[0, *log.state(campaign).round(1).arms_of(0)]
        assert (told.time, told.entered) == (event.time, typed)

    @pytest.mark.parametrize("minutes", [60 * 24 * 365, 6, -60 * 24 * 365 * 30])
    def test_what_cannot_be_is_left_out(self, log, campaign, minutes):
        event = self.entered(log, campaign, in_minutes(minutes))
        assert "entered" not in event.body

    def test_a_minute_ahead_is_now(self, log, campaign):
        event = self.entered(log, campaign, in_minutes(1))
        assert parse_time(event.time) - parse_time(event.body["entered"]) < timedelta(seconds=50)

    @pytest.mark.parametrize("years", [-40, 40])
    def test_a_clock_that_is_wrong_by_years_still_says_how_long_ago(self, log, campaign, years):
        wrong = datetime.now(UTC) + timedelta(days=365 * years)
        typed, sent = (render_timestamp(wrong - timedelta(minutes=m)) for m in (4, 0))
        event = self.entered(log, campaign, typed, sent)
        ago = parse_time(event.time) - parse_time(event.body["entered"])
        assert timedelta(minutes=3.9) < ago < timedelta(minutes=5)

    @pytest.mark.parametrize(
        "time", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"], ids=["end", "beginning"]
    )
    def test_the_ends_of_time(self, log, campaign, time):
        assert "entered" not in self.entered(log, campaign, time, "2000-01-01T00:00:00Z").body

    def test_what_is_no_time_is_said(self, log, campaign):
        with pytest.raises(InvalidInput, match="entered is 'noon'"):
            self.entered(log, campaign, "noon")


class TestNotes:
    """A short text with a report."""

    def noted(self, log, campaign, note, write=report_outcomes, outcome=1):
        return write(log, campaign, VERA, 1, {"Ana": outcome}, said=ReportDetails(note=note))

    def test_it_stays_until_it_is_replaced(self, log, campaign):
        self.noted(log, campaign, " fog \n\n and rain ")
        (pair, told), *_ = log.state(campaign).round(1).told.items()
        assert told.note == "fog\nand rain"
        self.noted(log, campaign, None, correct_outcomes, 0)
        assert log.state(campaign).round(1).told[pair].note == "fog\nand rain"
        self.noted(log, campaign, "sun", correct_outcomes, 0)
        assert log.state(campaign).round(1).told[pair].note == "sun"
        done = self.noted(log, campaign, "", correct_outcomes, 0)
        assert log.state(campaign).round(1).told[pair].note == ""
        assert "note" not in done.events[0].body

    def test_the_same_again_writes_nothing_and_another_is_refused(self, log, campaign):
        self.noted(log, campaign, "fog")
        assert self.noted(log, campaign, "fog").events == []
        with pytest.raises(AlreadyReported):
            self.noted(log, campaign, "sun")

    @pytest.mark.parametrize(("note", "why"), [("x" * 501, "at most 500"), ("a\u202eb", "note is")])
    def test_what_is_no_note(self, log, campaign, note, why):
        with pytest.raises(InvalidInput, match=why):
            self.noted(log, campaign, note)

    def test_without_any_of_it_a_body_is_what_it_was(self, log, campaign):
        event = self.noted(log, campaign, None).events[0]
        arm = f"arm-{log.state(campaign).round(1).arms_of(0)[0] + 1}"
        plain = {"agent": "agent-1", "arm": arm, "round": 1, "successes": 1, "tests": 1}
        assert body_text(event) == json.dumps(plain, separators=(",", ":"))

    def test_everybody_who_looks_is_told(self, log, campaign):
        typed = render_timestamp(parse_time(log.state(campaign).round(1).time))
        said = ReportDetails(entered=typed, note="=fog")
        event = report_outcomes(log, campaign, VERA, 1, {"Ana": 1}, said=said).events[0]
        state = log.state(campaign)
        (row, *_) = csv.DictReader(io.StringIO(render_visits(state)))
        assert (row["entered"], row["note"]) == (typed, "'=fog")
        (pair, *_) = state.round(1).told
        shape = serialization.json_of_visit(state, state.round(1), pair)
        assert (shape["reported"], shape["entered"], shape["note"]) == (event.time, typed, "=fog")
        late = replace(event, time="2999-01-01T00:00:00.000000Z")
        day = f"{typed[:10]} {typed[11:16]}"
        assert EventNarrator(state).tell(late).endswith(f": 1 of 1, entered {day} UTC: =fog")
        again = unpack_state(pack_state(state))
        assert list(again.rounds) == list(state.rounds)
        verify_log(log, campaign)
        assert check_audit(render_audit(log.store.read(campaign))).same


class TestElsewhere:
    """Somebody says where they were, in one write, for themselves alone."""

    def test_it_is_written_with_the_report(self, log, campaign):
        who, state = ana(log, campaign), log.state(campaign)
        there = elsewhere(state)
        said = ReportDetails(state.round(1).event, there)
        done = report_outcomes(log, campaign, who, 1, {"Ana": 1}, "reporter", said)
        assert [event.kind for event in done.events] == ["overridden", "reported"]
        assert {event.who for event in done.events} == {"Ana"}
        assert arms_of(done.state) == [there]
        assert done.state.pulls[0, done.state.arm(there)] == 1
        again = report_outcomes(log, campaign, who, 1, {"Ana": 1}, "reporter", said)
        assert again.events == []  # as after an answer that was lost
        verify_log(log, campaign)

    def test_of_what_is_reported_it_is_refused(self, log, campaign):
        there = elsewhere(log.state(campaign))
        report_outcomes(log, campaign, VERA, 1, {"Ana": 0})
        with pytest.raises(AlreadyReported, match="delete that report first"):
            report_outcomes(log, campaign, VERA, 1, {"Ana": 1}, said=ReportDetails(elsewhere=there))
        with pytest.raises(InvalidInput, match="it is of one"):
            report_outcomes(
                log, campaign, VERA, 1, {"Ana": 1, "Ben": 1}, said=ReportDetails(elsewhere=there)
            )

    def test_somebody_who_was_moved_meanwhile(self, log, campaign):
        state = log.state(campaign)
        was = ("agent-1", f"arm-{state.round(1).arms_of(0)[0] + 1}")
        moved, other = [n for n in state.arm_names if n not in arms_of(state)][:2]
        service.override(log, campaign, VERA, 1, "Ana", [moved])
        with pytest.raises(InvalidInput, match="any more: look at what it says now"):
            report_outcomes(log, campaign, VERA, 1, {was: 1}, said=ReportDetails(elsewhere=other))
        report_outcomes(log, campaign, VERA, 1, {was: 1}, said=ReportDetails(elsewhere=moved))
        assert len(log.state(campaign).round(1).told) == 1

    def test_no_reporter_says_it_of_another(self, log, campaign):
        who, everybody = ana(log, campaign), ana(log, campaign, agent=None, name="Hut")
        there = elsewhere(log.state(campaign), 1)
        before = log.state(campaign).number
        for one, agent in ((who, "Ben"), (everybody, "Ana")):
            with pytest.raises(InvalidInput, match=r"another|writes no such events"):
                service.override(log, campaign, one, 1, agent, [there])
        assert log.state(campaign).number == before

    def test_nor_does_a_file(self, log, campaign):
        """What was changed in a file, with hashes that fit, is refused by the fold as well."""
        who, state = ana(log, campaign), log.state(campaign)
        there = elsewhere(state)
        said = ReportDetails(elsewhere=there)
        events = report_outcomes(log, campaign, who, 1, {"Ana": 1}, "reporter", said).events
        forged = replace(events[0], body=events[0].body | {"agent": "agent-2"})
        forged = replace(forged, hash=hash_of_event(forged))
        with pytest.raises(InvalidInput, match="one agent, who is another"):
            fold_events([forged], state)
        other = ana(log, campaign, agent=None, name="Hut")
        forged = replace(events[0], who="Hut", link=other.link)
        forged = replace(forged, hash=hash_of_event(forged))
        with pytest.raises(InvalidInput, match="a reporter's link, which writes no such events"):
            fold_events([forged], log_state_with(state, log.state(campaign)))

    @pytest.mark.parametrize(
        "more",
        [{"entered": "2999-01-01T00:00:00.000000Z"}, {"entered": "noon"}, {"entered": None}, {"entered": 3},
         {"note": ""}, {"note": " x"}, {"note": "x" * 501}, {"note": 3}],
        ids=str,
    )  # fmt: skip
    def test_what_no_report_says(self, log, campaign, more):
        before = log.state(campaign)
        event = report_outcomes(log, campaign, VERA, 1, {"Ana": 1}).events[0]
        forged = replace(event, body=event.body | more)
        with pytest.raises(InvalidInput):
            fold_events([replace(forged, hash=hash_of_event(forged))], before)


def log_state_with(state, later):
    """A state with the links of a later one."""
    return replace(state, links=later.links)
