"""A season that forgives: rounds that are cancelled, and what was done last taken back."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heterobandits import InvalidInput
from heterobandits.campaigns import reversal, service
from heterobandits.campaigns.analysis.answers import confidence_of
from heterobandits.campaigns.analysis.shadows import shadow
from heterobandits.campaigns.audit.history_text import EventNarrator
from heterobandits.campaigns.audit.report import check_audit, render_audit
from heterobandits.campaigns.audit.verification import verify_log
from heterobandits.campaigns.events import EVENT_KINDS, Draft
from heterobandits.campaigns.files.csv_tables import render_visits
from heterobandits.campaigns.links import issue_link, revoke_link, revoke_some_links
from heterobandits.campaigns.outcomes import (
    Stale,
    body_of_visit,
    correct_outcomes,
    report_outcomes,
    withdraw_outcomes,
)
from heterobandits.campaigns.plan_events import plan_of
from heterobandits.campaigns.reducer import policy_body, state_after_drafts
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.campaigns.storage import repository, snapshots
from heterobandits.campaigns.storage.repository import Author
from heterobandits.planner.knowledge import Forgetting
from parks import ARMS, VERA, opened, park

ZOE = Author("Zoë")


def plain(state):
    """All that stands in a campaign but for the numbers, hashes and times of events, and for what nobody can unsee."""
    return {
        "name": state.name,
        "agents": state.agents,
        "rows": state.rows,
        "arms": [(arm.name, arm.retired, arm.since, arm.prior) for arm in state.arms],
        "policy": policy_body(state.policy),
        "season": state.season,
        "rounds": [
            (
                at.number,
                at.assignment,
                dict(at.moved),
                {pair: told.counts for pair, told in at.told.items()},
                at.given,
                at.closed,
            )
            for at in state.rounds
        ],
        "links": state.links,
        "pulls": state.pulls.tolist(),
        "successes": state.successes.tolist(),
        "waiting": state.waiting,
        "plans_by": state.plans_by,
        "gone": state.gone,
        "on_change": state.on_change,
        "archived": state.archived,
    }


def planned(log, campaign, **given):
    return service.plan_round(log, campaign, VERA, **given).state


def undone(log, campaign, author=VERA):
    return service.undo(log, campaign, author, log.state(campaign).number).state


def is_whole(log, campaign):
    """Whether a log verifies, and its audit is made again to the letter."""
    verify_log(log, campaign)
    events = log.store.read(campaign)
    return check_audit(render_audit(events)).same


AGENTS = st.sampled_from(["Ana", "Ben", "Chi"])
PLACES = st.sampled_from(ARMS)
OUTCOMES = st.sampled_from([0, 1, (3, 12), "not done"])
NUMBERS = st.integers(1, 4)
STEPS = st.one_of(
    st.tuples(st.just("plan"), st.lists(AGENTS, max_size=1)),
    st.tuples(st.just("plan"), st.just([])),
    st.tuples(st.just("cancel"), NUMBERS),
    st.tuples(st.just("report"), NUMBERS, st.dictionaries(AGENTS, OUTCOMES, min_size=1)),
    st.tuples(st.just("correct"), NUMBERS, st.dictionaries(AGENTS, OUTCOMES, min_size=1)),
    st.tuples(st.just("withdraw"), NUMBERS, st.lists(AGENTS, min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("override"), NUMBERS, AGENTS, st.lists(PLACES, max_size=2, unique=True)),
    st.tuples(st.just("close"), NUMBERS),
    st.tuples(st.just("forget"), PLACES),
    st.tuples(st.just("remember"), PLACES),
    st.tuples(st.just("revise"), AGENTS),
    st.tuples(st.just("retire"), AGENTS),
    st.tuples(st.just("return"), AGENTS),
    st.tuples(st.just("give up"), PLACES),
    st.tuples(st.just("rename"), AGENTS),
    st.tuples(st.just("season"), st.sampled_from([None, 4, 9])),
    st.tuples(st.just("policy"), st.sampled_from(["posterior-sorted", "thompson-window"])),
    st.tuples(st.just("prior"), st.sampled_from(["learned", "stated"])),
    st.tuples(st.just("believe"), PLACES, st.sampled_from([None, [2, 8]])),
    st.tuples(st.just("join"), st.just("Dan")),
    st.tuples(st.just("archive")),
    st.tuples(st.just("unarchive")),
)


def act(log, campaign, step):
    """Do a step; what was written, or nothing if it cannot be done."""
    kind, *rest = step
    where = (log, campaign, VERA)
    do = {
        "plan": lambda absent: service.plan_round(*where, absent=absent),
        "cancel": lambda n: service.cancel_round(*where, n),
        "report": lambda n, told: report_outcomes(*where, n, told),
        "correct": lambda n, told: correct_outcomes(*where, n, told),
        "withdraw": lambda n, who: withdraw_outcomes(*where, n, who),
        "override": lambda n, who, arms: service.override(*where, n, who, arms),
        "close": lambda n: service.close_round(*where, n),
        "forget": lambda arm: service.forget_arm(*where, arm),
        "remember": lambda arm: service.remember_arm(*where, arm),
        "revise": lambda who: service.revise(*where, who, {"sensitivity": 0.8}, "now"),
        "retire": lambda who: service.retire(*where, "agent", who),
        "return": lambda who: service.bring_back(*where, "agent", who),
        "give up": lambda arm: service.retire(*where, "arm", arm),
        "rename": lambda who: service.rename(*where, "agent", who, f"{who} {len(who)}"),
        "season": lambda season: service.set_season(*where, season),
        "policy": lambda name: service.set_policy(*where, name),
        "prior": lambda kind: service.set_prior(*where, kind),
        "believe": lambda arm, prior: service.revise_arm(*where, arm, prior),
        "join": lambda who: service.add_agents(*where, [{"name": who, "sensitivity": 0.7}]),
        "archive": lambda: service.archive(*where),
        "unarchive": lambda: service.unarchive(*where),
    }
    try:
        return do[kind](*rest).events
    except InvalidInput:
        return []


class TestAnySeason:
    """Laws that hold whatever has happened before."""

    @settings(max_examples=30)
    @given(steps=st.lists(STEPS, max_size=10), away=st.lists(AGENTS, max_size=1))
    def test_a_round_that_is_planned_and_cancelled_was_never_there(
        self, steps, away, tmp_path_factory
    ):
        log = opened(tmp_path_factory.mktemp("log"))
        campaign = park(log)
        for step in steps:
            act(log, campaign, step)
        before = log.state(campaign)
        if not act(log, campaign, ("plan", away)):
            return
        number = len(before.rounds) + 1
        act(log, campaign, ("override", number, "Ana", ["river"]))
        act(log, campaign, ("close", number))
        after = service.cancel_round(log, campaign, VERA, number).state
        assert plain(after) == plain(before)
        assert after.forgotten == before.forgotten
        assert confidence_of(after) == confidence_of(before)
        assert plan_of(after, RoundGiven()) == plan_of(before, RoundGiven())
        assert render_visits(after) == render_visits(before)

    @settings(max_examples=60)
    @given(steps=st.lists(STEPS, min_size=4, max_size=12))
    def test_what_is_undone_was_never_there(self, steps, tmp_path_factory):
        log = opened(tmp_path_factory.mktemp("log"))
        campaign = park(log, prior="stated")
        for step in steps:
            before = log.state(campaign)
            events = act(log, campaign, step)
            if not events:
                continue
            if all(event.kind in reversal.INVERSE_BY_KIND for event in events):
                assert plain(undone(log, campaign)) == plain(before)
                assert plan_of(log.state(campaign), RoundGiven()) == plan_of(before, RoundGiven())
                act(log, campaign, step)  # and the season goes on
            else:
                with pytest.raises(InvalidInput, match="cannot be undone"):
                    undone(log, campaign)
        state = log.state(campaign)
        again = snapshots.unpack_state(snapshots.pack_state(state))
        assert plain(again) == plain(state)
        assert is_whole(log, campaign)


class TestCancelledRound:
    """A round that is taken back, and what was done since it was planned."""

    def test_its_number_is_planned_again_and_the_season_is_as_long(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log, season=2)
        planned(log, campaign)
        first = planned(log, campaign, absent=["Ana"]).rounds[1]
        with pytest.raises(InvalidInput, match="after the end of the season"):
            planned(log, campaign)
        state = service.cancel_round(log, campaign, VERA, 2).state
        assert (state.waiting, state.rounds_left) == ({1}, 1)
        again = planned(log, campaign).rounds[1]
        assert (again.number, again.given.absent) == (2, frozenset())
        assert again.event == first.event + 2
        assert is_whole(log, campaign)

    def test_only_the_last_one_and_only_if_nothing_is_known_of_it(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        with pytest.raises(InvalidInput, match="round 1 is not planned"):
            service.cancel_round(log, campaign, VERA, 1)
        planned(log, campaign)
        planned(log, campaign)
        with pytest.raises(InvalidInput, match="from the last back, and that is 2"):
            service.cancel_round(log, campaign, VERA, 1)
        report_outcomes(log, campaign, VERA, 2, {"Ana": "not done"})
        with pytest.raises(InvalidInput, match=r"'Ana' to .* in round 2 is reported already"):
            service.cancel_round(log, campaign, VERA, 2)
        withdraw_outcomes(log, campaign, VERA, 2, ["Ana"])
        service.cancel_round(log, campaign, VERA, 2)
        assert len(service.cancel_round(log, campaign, VERA, 1).state.rounds) == 0

    def test_who_and_what_came_after_it_begins_with_the_round_that_has_its_number(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign)
        service.add_agents(log, campaign, VERA, [{"name": "Dan", "calibration": [9, 10]}])
        service.add_arms(log, campaign, VERA, ["pass"])
        service.revise(log, campaign, VERA, "Ana", {"sensitivity": 0.5}, "now")
        before = log.state(campaign)
        assert [row.since for row in before.rows] == [1, 1, 1, 2, 2]
        after = service.cancel_round(log, campaign, VERA, 1).state
        assert [row.since for row in after.rows] == [1] * 5
        assert [arm.since for arm in after.arms] == [1] * 6
        at = planned(log, campaign).rounds[0]
        state = log.state(campaign)
        assert len(at.sent) == 4  # Dan among them
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        state = log.state(campaign)
        row = state.agents[0].row
        assert state.rows[row].reports.sensitivity == 0.5
        assert state.pulls[row].sum() == 1  # as Ana reports since
        assert state.pulls[0].sum() == 0
        assert is_whole(log, campaign)

    def test_what_was_forgotten_after_it_is_forgotten_up_to_the_round_before(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        state = planned(log, campaign, forced=[("Ana", "river")])
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        planned(log, campaign)
        service.forget_arm(log, campaign, VERA, "river")
        assert log.state(campaign).gone == {0: 2}
        state = service.cancel_round(log, campaign, VERA, 2).state
        assert state.forgotten == (Forgetting(0, 1),)
        planned(log, campaign, forced=[("Ana", "river")])
        state = report_outcomes(log, campaign, VERA, 2, {"Ana": 1}).state
        assert state.knowledge.pulls[:, 0].sum() == 1  # of the second round alone
        assert is_whole(log, campaign)

    def test_nothing_is_forgotten_of_a_first_round_that_was_not_held(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign)
        service.forget_arm(log, campaign, VERA, "river")
        state = service.cancel_round(log, campaign, VERA, 1).state
        assert state.forgotten == ()
        planned(log, campaign)
        service.forget_arm(log, campaign, VERA, "river")
        assert is_whole(log, campaign)

    def test_another_policy_is_compared_with_the_rounds_that_were_held(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign)
        planned(log, campaign)
        service.cancel_round(log, campaign, VERA, 2)
        planned(log, campaign, absent=["Ana"])
        found = shadow(log, campaign, "thompson")
        assert [one.round for one in found.rounds] == [1, 2]
        assert found.rounds[1].planned[0] is None

    def test_the_history_tells_both_plans_and_what_was_changed_in_each(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign, forced=[("Ana", "river")])
        service.override(log, campaign, VERA, 1, "Ana", ["hill"])
        service.cancel_round(log, campaign, VERA, 1)
        planned(log, campaign, forced=[("Ana", "hill")])
        service.override(log, campaign, VERA, 1, "Ana", [])
        service.override(log, campaign, VERA, 1, "Ana", ["hill"])
        story = EventNarrator()
        said = [story.tell(event) for event in log.store.read(campaign)]
        assert said[3] == "cancelled round 1"
        assert said[4].startswith("planned round 1: Ana to hill")
        assert said[6] == "round 1: Ana went to hill, as planned"

    def test_a_round_that_was_reported_and_withdrawn_may_be_cancelled_past_states_stay(
        self, tmp_path
    ):
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign)
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        told = log.state(campaign).number
        withdraw_outcomes(log, campaign, VERA, 1, ["Ana"])
        service.cancel_round(log, campaign, VERA, 1)
        assert len(log.at(campaign, told).rounds[0].told) == 1
        with pytest.raises(InvalidInput, match="round 1 is not planned"):
            service.explain(log, campaign, 1)
        planned(log, campaign, absent=["Ana"])
        assert 0 not in service.explain(log, campaign, 1)


class TestUndo:
    """What was done last, by whom it was done, for a while."""

    def test_each_kind_of_event_can_be_undone_or_says_what_to_do_instead(self):
        assert set(reversal.INVERSE_BY_KIND) ^ set(reversal.LASTING_KINDS) == set(EVENT_KINDS)

    def test_nobody_else_can(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign)
        with pytest.raises(InvalidInput, match="Vera did that last"):
            undone(log, campaign, ZOE)

    def test_not_after_something_else(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        number = planned(log, campaign).number
        report_outcomes(log, campaign, ZOE, 1, {"Ana": 1})
        with pytest.raises(Stale, match="something else has happened since"):
            service.undo(log, campaign, VERA, number)

    def test_one_write_alone_after_a_clock_was_put_right(self, tmp_path, monkeypatch):
        """While it is behind, no two writes are of the same time."""
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign)
        monkeypatch.setattr(repository, "utc_now", lambda: "2020-01-01T00:00:00.000000Z")
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        service.rename(log, campaign, VERA, "campaign", None, "South park")
        times = [event.time for event in log.store.read(campaign)]
        assert times == sorted(set(times))
        undone(log, campaign)
        assert log.state(campaign).name == "North park"
        assert log.state(campaign).round(1).told

    def test_not_after_a_while(self, tmp_path, monkeypatch):
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign)
        monkeypatch.setattr(reversal, "UNDO_MAX_S", 0.0)
        with pytest.raises(InvalidInput, match="cannot be undone any more"):
            undone(log, campaign)

    def test_all_outcomes_of_one_report_and_the_arm_that_was_forgotten_for_them(self, tmp_path):
        log = opened(tmp_path)
        team = [{"name": "Ana", "sensitivity": 0.9, "tests": 12}]
        campaign = park(log, agents=team, arms=["river"], on_change="forget")
        for found in [0] * 4:
            planned(log, campaign)
            report_outcomes(
                log, campaign, VERA, len(log.state(campaign).rounds), {"Ana": (found, 12)}
            )
        for _ in range(6):
            planned(log, campaign)
            before = log.state(campaign)
            last = len(before.rounds)
            done = report_outcomes(log, campaign, VERA, last, {"Ana": (12, 12)})
            if len(done.events) > 1:
                break
        assert [event.kind for event in done.events] == ["reported", "arm forgotten"]
        assert plain(undone(log, campaign)) == plain(before)
        kinds = [event.kind for event in log.store.read(campaign)[-2:]]
        assert kinds == ["arm remembered", "withdrawn"]
        assert is_whole(log, campaign)

    def test_a_report_comes_back_with_all_that_was_said_with_it(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        state = planned(log, campaign)
        (agent, arm), *_ = state.rounds[0].sent
        where = body_of_visit(state.rounds[0], (agent, arm))
        said = where | {"successes": 0, "tests": 1, "from_elsewhere": "a note of a later version"}
        log.write(campaign, VERA, lambda state: [Draft("reported", said)])
        withdraw_outcomes(log, campaign, VERA, 1, [state.agents[agent].name])
        undone(log, campaign)
        assert log.store.read(campaign)[-1].body == said

    def test_an_arm_is_forgotten_as_it_was(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign)
        service.forget_arm(log, campaign, VERA, "river")
        before = planned(log, campaign)
        service.remember_arm(log, campaign, VERA, "river")
        state = undone(log, campaign)
        assert (state.gone, state.forgotten) == ({0: 1}, before.forgotten)
        again = Draft("arm forgotten", {"arm": "arm-2", "round": 1, "because": "again"})
        with pytest.raises(InvalidInput, match="'hill' was forgotten up to round 1 was not taken"):
            state_after_drafts(state, [again])
        story = EventNarrator()
        said = [story.tell(event) for event in log.store.read(campaign)]
        assert said[-1] == "forgot what was seen of river again, up to round 1"

    def test_twice_with_one_key_it_is_undone_once(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign)
        number = planned(log, campaign).number
        again = VERA._replace(key="k", digest="d")
        first = service.undo(log, campaign, again, number)
        second = service.undo(log, campaign, again, number)
        assert second.repeated
        assert len(second.state.rounds) == len(first.state.rounds) == 1


class TestArchive:
    """A campaign that is put away."""

    def test_nothing_is_planned_and_what_comes_late_is_taken(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        planned(log, campaign)
        assert service.archive(log, campaign, VERA).state.archived
        with pytest.raises(InvalidInput, match="is archived: bring it back to plan"):
            planned(log, campaign)
        with pytest.raises(InvalidInput, match="is archived already"):
            service.archive(log, campaign, VERA)
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        assert not service.unarchive(log, campaign, VERA).state.archived
        with pytest.raises(InvalidInput, match="is not archived"):
            service.unarchive(log, campaign, VERA)
        planned(log, campaign)
        assert is_whole(log, campaign)

    def test_a_snapshot_knows_it(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        state = service.archive(log, campaign, VERA).state
        assert snapshots.unpack_state(snapshots.pack_state(state)).archived
        assert json.dumps(plain(state)["archived"]) == "true"


class TestLinks:
    """Several links are revoked in one write."""

    def test_those_that_are_revoked_already_stay_so(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        for name in ("one", "two", "three"):
            issue_link(log, campaign, VERA, role="viewer", name=name)
        one, two, three = log.state(campaign).links
        revoke_link(log, campaign, VERA, one)
        done = revoke_some_links(log, campaign, VERA, [one, two, three])
        assert [event.body["link"] for event in done.events] == [two, three]
        assert len({event.time for event in done.events}) == 1
        with pytest.raises(InvalidInput, match="not there"):
            revoke_some_links(log, campaign, VERA, ["0" * 12])
