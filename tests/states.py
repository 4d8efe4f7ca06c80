"""States of campaigns without a store, for tests: drafts become events, and events are folded."""

import numpy as np

from heterobandits.campaigns import plan_events
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.reducer import (
    fold_events,
    parse_circumstances,
    policy_body,
    state_after_drafts,
)
from heterobandits.campaigns.state import member_id
from heterobandits.campaigns.validation import parse_policy
from logs import events_of

TIME = "2026-03-01T09:30:00.000000Z"
CAMPAIGN = "0123456789ab"


def begun(agents, arms, *, policy=None, delta=None, memory=None, season=None, seed=0, prior=None):
    """A new campaign; agents are sensitivities or entries without a name, arms names or how many, of each of which `prior` is stated."""
    entries = [
        {"name": f"agent {chr(65 + i)}", **(one if isinstance(one, dict) else {"sensitivity": one})}
        for i, one in enumerate(agents)
    ]
    names = [f"place {i}" for i in range(arms)] if isinstance(arms, int) else arms
    body = {
        "name": "North park",
        "agents": entries,
        "arms": [
            {"name": name} | ({} if prior is None else {"prior": list(prior)}) for name in names
        ],
        "policy": policy_body(parse_policy(policy, delta, season, memory)),
        "seed": seed,
        "season": season,
    }
    drafts = [Draft("created", body)]
    return fold_events(events_of(drafts, None, CAMPAIGN, TIME))


def after(state, *drafts):
    """The state after these as well, each a kind and a body."""
    return state_after_drafts(state, [Draft(*draft) for draft in drafts])


def planned(state, **circumstances):
    """The same with one more round planned."""
    given = parse_circumstances(state, **circumstances)
    body = plan_events.body_of_plan(state, given, plan_events.plan_of(state, given))
    return after(state, ("round planned", body))


def reported(state, number, counts):
    """The same with outcomes of a round: (successes, tests) by agent, or None for what was not done."""
    drafts = []
    for agent, told in counts.items():
        (arm,) = state.round(number).arms_of(agent)
        what = (
            {"missing": True}
            if told is None
            else dict(zip(("successes", "tests"), told, strict=True))
        )
        where = {"round": number, "agent": member_id("agent", agent), "arm": member_id("arm", arm)}
        drafts.append(("reported", where | what))
    return after(state, *drafts)


def lived(state, means, rounds, seed=0, **circumstances):
    """The same after so many rounds in a world of these means."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        state = planned(state, **circumstances)
        last, counts = state.rounds[-1], {}
        for agent, arm in last.sent:
            r = state.rows[state.agents[agent].row].reports
            chance = r.false_positive_rate + (r.sensitivity - r.false_positive_rate) * means[arm]
            counts[agent] = (int(rng.binomial(r.tests, chance)), r.tests)
        state = reported(state, last.number, counts)
    return state
