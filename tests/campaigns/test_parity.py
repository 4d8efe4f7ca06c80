"""A planner and a campaign are told the same story: they know the same, plan the same to the last bit, and refuse the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import states
from heterobandits import InvalidInput, Planner
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.outcomes import body_of_forgetting, heed_changes
from heterobandits.campaigns.plan_events import plan_of
from heterobandits.campaigns.reducer import parse_circumstances, policy_body
from heterobandits.campaigns.state import member_id
from heterobandits.campaigns.storage import snapshots
from heterobandits.campaigns.validation import parse_reports

POLICIES = (
    ("posterior-sorted", None),
    ("min-width", None),
    ("thompson-sorted", None),
    ("posterior-sorted-window", 2),
    ("min-width-discounted", 3),
)


class Story:
    """What happens to both."""

    def __init__(self, data, policy, memory, on_change):
        self.draw = data.draw
        team = self.draw(st.lists(st.sampled_from([0.9, 0.6, 0.6, 0.4]), min_size=2, max_size=3))
        arms = [f"place {n}" for n in range(self.draw(st.integers(3, 4)))]
        seed = self.draw(st.integers(0, 9))
        self.state = states.begun(team, arms, policy=policy, memory=memory, seed=seed)
        policy = self.state.policy
        heeds = {"policy": policy_body(policy), "on_change": on_change}
        self.state = states.after(self.state, ("policy changed", heeds))
        names = list(self.state.agent_names)
        self.planner = Planner(team, arms, policy, seed, agent_names=names, on_change=on_change)

    def both(self, tell_planner, *drafts, round=None):
        """Tell both, or have both refuse; whether it was told."""
        try:
            made = drafts if round is None else heed_changes(self.state, list(drafts))
            after = states.after(self.state, *made)
        except InvalidInput:
            text = self.planner.to_json()
            with pytest.raises(InvalidInput):
                tell_planner()
            assert self.planner.to_json() == text
            return
        tell_planner()
        self.state = after

    def some(self, names):
        return self.draw(st.sampled_from(list(names)))

    def a_round(self):
        if not self.planner.history:
            return None
        return self.draw(st.integers(1, self.planner.rounds))

    def plan(self):
        away = [self.some(self.state.agent_names)] if self.draw(st.booleans()) else []
        shut = [self.some(self.state.arm_names)] if self.draw(st.booleans()) else []
        try:
            after = states.planned(self.state, absent=away, closed=shut)
        except InvalidInput:
            with pytest.raises(InvalidInput):
                self.planner.ask(absent=away, closed=shut)
            return
        plan = self.planner.ask(absent=away, closed=shut)
        assert plan == plan_of(
            self.state, parse_circumstances(self.state, absent=away, closed=shut)
        )
        self.planner.accept(plan)
        self.state = after

    def visit(self):
        """A visit of some round: its agent's name then, the agent and the arm."""
        number = self.a_round()
        if number is None or not self.state.round(number).sent:
            return None
        agent, arm = self.some(self.state.round(number).sent)
        return number, agent, arm

    def outcome(self, kind):
        found = self.visit()
        if found is None:
            return
        number, agent, arm = found
        hits = self.draw(st.sampled_from([0, 0, 40]))
        body = {"round": number, "agent": member_id("agent", agent), "arm": member_id("arm", arm)}
        counts = {} if kind == "withdrawn" else {"successes": hits, "tests": 40}
        which = (self.state.agents[agent].name, self.state.arms[arm].name)
        told = (agent, arm) in self.state.round(number).told
        tell = self.planner.tell if kind == "reported" else self.planner.correct
        if kind != "reported" and not told:
            return  # the planner corrects what it has not heard of
        outcomes = {which: None if kind == "withdrawn" else (hits, 40)}
        self.both(lambda: tell(number, outcomes), (kind, body | counts), round=number)

    def override(self):
        number = self.a_round()
        if number is None:
            return
        agent = self.draw(st.integers(0, len(self.state.rounds[number - 1].assignment) - 1))
        arms = self.draw(st.lists(st.sampled_from(self.state.arm_names), max_size=2, unique=True))
        body = {
            "round": number,
            "agent": member_id("agent", agent),
            "arms": [member_id("arm", self.state.arm(arm)) for arm in arms],
        }
        name = self.state.agents[agent].name
        self.both(
            lambda: self.planner.override(number, name, arms), ("overridden", body), round=number
        )

    def forget(self):
        arm = self.some(self.state.arm_names)
        number = self.state.arm(arm)
        if self.state.rounds and all(
            one[:2] != (number, len(self.state.rounds)) for one in self.state.forgotten
        ):
            body = body_of_forgetting(self.state, number, "asked")
            self.both(lambda: self.planner.forget(arm), ("arm forgotten", body))

    def remember(self):
        arm = self.some(self.state.arm_names)
        body = {"arm": member_id("arm", self.state.arm(arm))}
        self.both(lambda: self.planner.remember(arm), ("arm remembered", body))

    def retire(self):
        arm = self.some(self.state.arm_names)
        body = {"what": "arm", "id": member_id("arm", self.state.arm(arm))}
        self.both(lambda: self.planner.retire(arm), ("retired", body))

    def restore(self):
        arm = self.some(self.state.arm_names)
        body = {"what": "arm", "id": member_id("arm", self.state.arm(arm))}
        self.both(lambda: self.planner.restore(arm), ("returned", body))

    def leave(self):
        agent = self.some(self.state.agent_names)
        if sum(not one.retired for one in self.state.agents) > 1:  # a planner waits for others
            body = {"what": "agent", "id": member_id("agent", self.state.agent(agent))}
            self.both(lambda: self.planner.leave(agent), ("retired", body))

    def come_back(self):
        agent = self.state.agent(self.some(self.state.agent_names))
        body = {"what": "agent", "id": member_id("agent", agent)}
        name, s = self.state.agents[agent].name, self.state.reports(agent).sensitivity
        going, there = (
            sum(not one.retired for one in some) for some in (self.state.agents, self.state.arms)
        )
        # a campaign takes back more than there are arms, and a planner does not
        if going >= there:
            return
        self.both(lambda: self.planner.join(name, s), ("returned", body))

    def join(self):
        name = f"agent {len(self.state.agents)} who came"
        agents = [{"name": name, "sensitivity": 0.5}]
        self.both(lambda: self.planner.join(name, 0.5), ("agents added", {"agents": agents}))

    def add_arm(self):
        name = f"place {len(self.state.arms)}"
        self.both(lambda: self.planner.add_arm(name), ("arms added", {"arms": [{"name": name}]}))

    def revise(self):
        agent = self.state.agent(self.some(self.state.agent_names))
        since = self.draw(st.sampled_from(["now", "always"]))
        change = self.draw(
            st.sampled_from([{"sensitivity": 0.7}, {"calibration": [17, 20]}, {"tests": 3}])
        )
        reports = self.state.reports(agent).revised(change)
        known = parse_reports(reports).body
        body = {"id": member_id("agent", agent), "since": since, "reports": known}
        name = self.state.agents[agent].name
        given = {key: tuple(v) if isinstance(v, list) else v for key, v in change.items()}
        self.both(lambda: self.planner.revise(name, since, **given), ("agent revised", body))

    def check(self):
        mine, theirs = self.planner._known(self.planner.rounds + 1), self.state.knowledge
        for a, b in zip(
            (*mine.tables, mine.pulls, mine.successes),
            (*theirs.tables, theirs.pulls, theirs.successes),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)
        assert mine.elapsed == theirs.elapsed
        assert self.planner._team == self.state.team
        assert {self.planner.arm_names.index(arm): n for arm, n in self.planner.forgotten} == (
            self.state.gone
        )
        assert [sorted(record.held.sent) for record in self.planner.history] == (
            [
                sorted((self.state.row_in(a, at.number), n) for a, n in at.sent)
                for at in self.state.rounds
            ]
        )
        assert self.planner.ask() == plan_of(self.state, parse_circumstances(self.state))

    def restart(self):
        text = self.planner.to_json()
        again = Planner.from_json(text)
        assert again.history == self.planner.history
        assert again.to_json() == text
        self.planner = again
        self.state = snapshots.unpack_state(snapshots.pack_state(self.state))


STEPS = (
    *["plan", "reported", "reported", "override"] * 2,
    *("corrected", "withdrawn", "forget", "remember", "retire", "restore", "leave"),
    *("come_back", "join", "add_arm", "revise", "revise", "restart"),
)


@pytest.mark.parametrize(("policy", "memory"), POLICIES, ids=[name for name, _ in POLICIES])
@settings(max_examples=40, deadline=None)
@given(data=st.data(), on_change=st.sampled_from(["nothing", "forget"]))
def test_one_story(policy, memory, data, on_change):
    story = Story(data, policy, memory, on_change)
    story.plan()
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=16)):
        if step in ("reported", "corrected", "withdrawn"):
            story.outcome(step)
        else:
            getattr(story, step)()
        story.check()


def test_a_change_is_heeded_by_both_at_once():
    """An arm that is empty for a while, and then full, is forgotten with the same report."""
    state = states.begun([0.9], ["ford"], policy="posterior-sorted")
    heeds = {"policy": policy_body(state.policy), "on_change": "forget"}
    state = states.after(state, ("policy changed", heeds))
    planner = Planner([0.9], ["ford"], state.policy, agent_names=["agent A"], on_change="forget")
    for number in range(1, 21):
        state = states.planned(state)
        planner.accept(planner.ask())
        told = {"round": number, "agent": "agent-1", "arm": "arm-1", "tests": 3}
        body = told | {"successes": 3 * (number > 10)}
        state = states.after(state, *heed_changes(state, [Draft("reported", body)]))
        planner.tell(number, {"agent A": (3 * (number > 10), 3)})
        assert dict(planner.forgotten) == ({"ford": state.gone[0]} if state.gone else {})
        assert planner.ask() == plan_of(state, parse_circumstances(state))
    assert state.gone
