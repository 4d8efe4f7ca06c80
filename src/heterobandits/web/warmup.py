"""Kernels are loaded before the first request: a tiny campaign is planned and looked at with every policy there is."""

from typing import Any

from heterobandits.campaigns import service
from heterobandits.campaigns.analysis.answers import answers
from heterobandits.campaigns.analysis.estimates import estimates
from heterobandits.campaigns.analysis.prices import prices
from heterobandits.campaigns.analysis.projection import project
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.plan_events import explanations_of_plan
from heterobandits.campaigns.reducer import policy_body, state_after_drafts
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import parse_policy
from heterobandits.policies.catalogue import RECOMMENDED_FOR_HORIZON
from heterobandits.policies.policy import CATALOGUE

WARMUP_SEASON_ROUNDS = 3
WARMUP_AGENTS = (  # all ways to report
    {"name": "a", "sensitivity": 0.9},
    {"name": "b", "sensitivity": 0.5, "false_positive_rate": 0.1, "tests": 2},
    {"name": "c", "calibration": [17, 20]},
)
WARMUP_CIRCUMSTANCES: dict[str, Any] = {"forbidden": [("a", "w")], "absent": ["c"]}


def load_kernels() -> None:
    """Do once everything that a request may need."""
    for name, entry in CATALOGUE.items():
        if not entry.simulated_only:
            exercise_state(play_campaign(name))
    project(play_campaign(RECOMMENDED_FOR_HORIZON), rounds=1, draws=2)


def play_campaign(policy: str) -> State:
    """A throwaway campaign after one round; while it waited, another was planned."""
    body = {
        "name": "to load kernels",
        "agents": list(WARMUP_AGENTS),
        "arms": [{"name": name} for name in "wxyz"],
        "policy": policy_body(parse_policy(policy, season=WARMUP_SEASON_ROUNDS)),
        "seed": 0,
        "season": WARMUP_SEASON_ROUNDS,
    }
    state = state_after_drafts(None, [Draft("created", body)])
    planned = service.preview(state).body
    state = state_after_drafts(state, [Draft("round planned", planned)])
    service.preview(state)  # with visits under way
    told = service.outcome_drafts(state, "reported", 1, {"a": 1, "b": (1, 2), "c": 0})
    return state_after_drafts(state, told)


def exercise_state(state: State) -> None:
    """Plan the next round with and without circumstances, and ask all there is to ask."""
    for circumstances in ({}, WARMUP_CIRCUMSTANCES):
        made = service.preview(state, **circumstances)
        explanations_of_plan(state, made.plan)
        prices(state, made.given, made.plan)
    estimates(state)
    answers(state)
