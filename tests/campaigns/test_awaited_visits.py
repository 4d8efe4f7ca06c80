"""Visits under way in campaigns: which these are, that plans count them, and that logs from before that are still whole."""

import numpy as np
import pytest

from heterobandits import InvalidInput
from heterobandits.campaigns import plan_events, serialization, service
from heterobandits.campaigns.analysis.answers import certainty
from heterobandits.campaigns.analysis.estimates import estimates
from heterobandits.campaigns.analysis.shadows import shadow
from heterobandits.campaigns.audit.verification import replay_events, verify_log
from heterobandits.campaigns.events import Draft, render_event_line
from heterobandits.campaigns.exchange import import_events
from heterobandits.campaigns.reducer import parse_circumstances
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.planner import planning
from heterobandits.planner.knowledge import Knowledge
from heterobandits.web.pages.text import why_sentence
from logs import events_of
from parks import VERA, opened, park
from states import after, begun, planned, reported

POLICIES = ["season", "min-width", "posterior-sorted", "no-sharing", "min-width-window"]


def pairs(state):
    """Who is on the way where."""
    table = state.plan_knowledge.under_way
    return [] if table is None else [tuple(pair) for pair in np.argwhere(table).tolist()]


class TestWho:
    def test_whoever_was_sent_and_said_nothing(self):
        state = planned(begun([0.9, {"sensitivity": 0.8, "tests": 12}, 0.7], 6))
        first = dict(state.rounds[0].sent)
        assert state.knowledge.under_way is None
        assert pairs(state) == sorted(first.items())
        assert state.plan_knowledge.under_way[1, first[1]] == 12
        state = reported(state, 1, {0: (1, 1)})
        assert pairs(state) == sorted((a, n) for a, n in first.items() if a != 0)
        state = reported(state, 1, {1: None})  # not done
        assert pairs(state) == [(2, first[2])]
        assert pairs(reported(state, 1, {2: (0, 1)})) == []
        assert reported(state, 1, {2: (0, 1)}).plan_knowledge is not None

    def test_nobody_of_a_round_that_was_closed(self):
        state = planned(planned(planned(begun([0.9, 0.8], 6))))
        state = after(state, ("round closed", {"round": 2}))
        assert pairs(state) == sorted(state.rounds[0].sent + state.rounds[2].sent)
        state = after(state, ("round closed", {"round": 1}), ("round closed", {"round": 3}))
        assert pairs(state) == []

    def test_who_was_sent_elsewhere_by_hand(self):
        state = planned(begun([0.9, 0.8], 6))
        (_, mine), (_, other) = state.rounds[0].sent
        free = next(n for n in range(6) if n not in (mine, other))
        arms = [f"arm-{n + 1}" for n in (free, mine)]
        state = after(state, ("overridden", {"round": 1, "agent": "agent-1", "arms": arms}))
        assert pairs(state) == sorted([(0, free), (0, mine), (1, other)])
        state = after(state, ("overridden", {"round": 1, "agent": "agent-1", "arms": []}))
        assert pairs(state) == [(1, other)]

    def test_who_has_changed_goes_as_before(self, tmp_path):
        log = opened(tmp_path)
        c = park(log, policy="min-width")
        service.plan_round(log, c, VERA)
        service.revise(log, c, VERA, "Ben", {"sensitivity": 0.8}, "now")
        service.plan_round(log, c, VERA)
        state = log.state(c)
        (row,) = [i for i, one in enumerate(state.rows) if one.agent == 1 and one.since == 2]
        arms = [dict(round.sent)[1] for round in state.rounds]
        assert [pair for pair in pairs(state) if pair[0] in (1, row)] == [
            (1, arms[0]),
            (row, arms[1]),
        ]
        said = service.preview(state).explanations()
        names = {name for why in said.values() for name in why.under_way}
        assert names <= {"Ana", "Ben", "Chi"}
        assert "Ben" in names


class TestPlans:
    @pytest.mark.parametrize("name", POLICIES)
    def test_they_are_those_of_what_is_under_way(self, name):
        how = {"memory": 2} if name.endswith("window") else {}
        policy = {} if name == "season" else {"policy": name}
        state = begun([0.9, 0.8, 0.6], 6, season=9, seed=2, **policy, **how)
        for _ in range(3):
            state = planned(state)
        state = reported(state, 1, {0: (1, 1), 2: (0, 1)})
        under_way, window = np.zeros((3, 6)), 2 if how else 9
        for round in state.rounds[-window:]:
            for pair in round.missing:
                under_way[pair] += 1
        known = state.knowledge
        plain = Knowledge(known.pulls, known.successes, 3, known.recalled, known.prior, under_way)
        address = planning.Address(2, 0, 4)
        rest = (state.policy, plain, address, state.circumstances(RoundGiven()))
        wanted = planning.plan(state.team, state.arm_names, *rest)
        assert plan_events.plan_of(state, RoundGiven()) == wanted
        ignored = plan_events.plan_of(state, RoundGiven(), counted=False)
        assert ignored.index != wanted.index
        assert not any(reason.awaited for reason in ignored.reasons)
        assert any(reason.awaited for reason in wanted.reasons)

    def test_a_round_that_waits_is_not_planned_again(self):
        """Eight go somewhere else in the next four rounds: there are forty places."""
        state = begun([0.9] * 8, 40, season=26)
        for _ in range(5):
            state = planned(state)
        assert sorted(n for round in state.rounds for _, n in round.sent) == list(range(40))

    def test_nothing_certain_goes_by_it(self):
        state = reported(planned(begun([0.9, 0.8], 4)), 1, {0: (1, 1), 1: (0, 1)})
        waits = planned(state)
        assert estimates(waits) == estimates(state)
        assert (
            certainty(waits).intervals.upper.tolist() == certainty(state).intervals.upper.tolist()
        )


def old(events):
    """A log as it was before plans counted visits under way, sealed with good hashes: its plans ignore them."""
    drafts, state = [], None
    for event in events:
        body = dict(event.body)
        if event.kind == "round planned":
            given = parse_circumstances(state, **{k: body[k] for k in ("absent", "closed", "forbidden", "forced")})  # fmt: skip
            plan = plan_events.plan_of(state, given, counted=False)
            body = plan_events.body_of_plan(state, given, plan)
            del body["under_way"]
        drafts.append(Draft(event.kind, body))
        sealed = events_of(drafts, None, events[0].campaign, events[0].time, events[0].who)
        state = replay_events(sealed[:1]) if state is None else after(state, drafts[-1])
    return sealed


@pytest.fixture(scope="module", params=["min-width", "posterior-sorted", "no-sharing"])
def logs(request, tmp_path_factory):
    """A log of today, and the same as it would have been; nothing is reported in either."""
    log = opened(tmp_path_factory.mktemp("log"))
    campaign = park(log, policy=request.param)
    for _ in range(4):
        service.plan_round(log, campaign, VERA)
    service.plan_round(log, campaign, VERA, absent=["Ben"], forced=[("Ana", "hill")])
    events = log.store.read(campaign)
    return events, old(events)


class TestLogs:
    def test_plans_say_that_they_count(self, logs):
        today, before = ([e.body for e in events if e.kind == "round planned"] for events in logs)
        assert [body["under_way"] for body in today] == ["counted"] * 5
        assert not any("under_way" in body for body in before)
        assert not any("awaited" in one for body in before for one in body["assignments"])
        assert any(one.get("awaited") for body in today for one in body["assignments"])
        assert today[0]["index"] == before[0]["index"]
        assert all(one["index"] != other["index"] for one, other in zip(today[1:], before[1:], strict=True))  # fmt: skip

    def test_both_are_whole(self, logs):
        for events in logs:
            state = replay_events(events)
            assert len(state.rounds) == 5

    @pytest.mark.parametrize("which", [0, 1])
    def test_the_mark_belongs_to_the_plan(self, logs, which):
        """One that is taken away or added is found, though the hashes are good."""
        events = logs[which]
        number = [e.number for e in events if e.kind == "round planned"][2]
        drafts = [Draft(e.kind, dict(e.body)) for e in events]
        body = drafts[number - 1].body
        if which:
            body["under_way"] = "counted"
        else:
            del body["under_way"]
        sealed = events_of(drafts, None, events[0].campaign, events[0].time, events[0].who)
        with pytest.raises(InvalidInput, match=rf"^event {number}, .*plan of round 3 does not fol"):
            replay_events(sealed)

    @pytest.mark.parametrize(
        ("changes", "culprit"),
        [
            ({"under_way": "maybe"}, "under_way of a plan is 'maybe': 'counted', or not there"),
            ({"under_way": True}, "under_way of a plan is True"),
        ],
    )
    def test_another_mark_is_refused(self, logs, changes, culprit):
        first = logs[0][0]
        drafts = [Draft(e.kind, e.body) for e in logs[0][:2]]
        drafts[1] = Draft("round planned", drafts[1].body | changes)
        sealed = events_of(drafts, None, first.campaign, first.time, first.who)
        with pytest.raises(InvalidInput, match=culprit):
            replay_events(sealed)

    def test_an_old_log_is_explained_shadowed_and_goes_on(self, logs, tmp_path):
        log = opened(tmp_path)
        text = "".join(f"{render_event_line(event)}\n" for event in logs[1])
        c = import_events(log, VERA, text).state.campaign
        own = log.state(c).policy.name
        assert shadow(log, c, own).sentences == [f"{own} would have planned the same in 5 rounds."]
        for number in range(1, 6):
            for why in service.explain(log, c, number).values():
                assert why.under_way == ()
                assert not why.reason.awaited
        made = service.plan_round(log, c, VERA)
        said = service.explain(log, c, 6)
        assert any(why.under_way for why in said.values())
        assert {a: why.reason for a, why in said.items()} == {
            one.agent: one.reason
            for one in service.recorded_plan(log, made.state, made.state.rounds[-1])
            if one.arm is not None
        }
        assert shadow(log, c, own).differ == 0
        assert verify_log(log, c).rounds == 6


class TestWords:
    def test_a_page_and_a_program_are_told(self, logs):
        state = replay_events(logs[0])
        made = service.preview(state)
        told = [one for one in made.assignments if one.reason.awaited]
        assert told
        for agent, arm, reason in told:
            assert why_sentence(reason, "Ana").endswith(". Somebody is on the way there.")
            why = made.explanations()[agent]
            at = made.state.rounds[-1]
            assert any(f"{name} " in str(why) for name in why.under_way)
            assert arm is not None
            if at.assignment[agent] is not None:
                said = serialization.json_of_why(state, agent, at, why)
                assert list(said["under_way"]) == list(why.under_way)
                assert said["reason"].endswith("somebody is on the way there")
