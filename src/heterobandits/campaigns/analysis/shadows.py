"""What another policy would have planned in each round, from what was known then and under the same circumstances."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from heterobandits.campaigns.analysis.projection import ignore_progress
from heterobandits.campaigns.events import Event
from heterobandits.campaigns.plan_events import plan_may_tie, plan_of
from heterobandits.campaigns.reasons import assigned_from, has_counted
from heterobandits.campaigns.reducer import GIVEN_FIELDS, fold_events, parse_circumstances
from heterobandits.campaigns.service import history
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Repository
from heterobandits.campaigns.validation import parse_policy
from heterobandits.planner.plans import render_count
from heterobandits.planner.vocabulary import CampaignWords
from heterobandits.policies.policy import Policy, forgetting_policies


@dataclass(frozen=True)
class ShadowedRound:
    """One round: where each agent was planned to go, and where the other policy would have sent it.

    `tied` if that is another assignment, and one of the two policies, had it broken ties otherwise, would have planned the other one.
    """

    round: int
    planned: tuple[int | None, ...]
    other: tuple[int | None, ...]
    tied: bool = False


@dataclass(frozen=True)
class Shadow:
    """All rounds beside those of another policy: how many differ, how many more differ only in ties, and what that means."""

    policy: str
    rounds: list[ShadowedRound]
    differ: int
    tied: int
    sentences: list[str]


def shadow(
    log: Repository,
    campaign: str,
    policy: str,
    delta: float | None = None,
    tell: Callable[[float], None] = ignore_progress,
) -> Shadow:
    """What a policy would have planned in each round of a campaign that was not cancelled, in one pass over its log.

    Its delta, and its memory if it forgets, are those of the campaign at that time, unless a delta is given. `tell` is told
    the share that is done, and may end it all by raising.
    """
    rounds: list[ShadowedRound] = []
    state: State | None = None
    since: list[Event] = []  # the events after `state`
    events = history(log, campaign)
    for event in events:
        tell(event.number / len(events))
        if event.kind == "round planned":
            state = fold_events(since, state)
            since = []
            rounds.append(shadow_round(state, event, policy_for_shadow(state, policy, delta)))
        elif event.kind == "round cancelled":
            rounds.pop()
        since.append(event)
    last = fold_events(since, state)
    name = policy_for_shadow(last, policy, delta).name
    differ, tied = sum(map(is_different, rounds)), sum(one.tied for one in rounds)
    return Shadow(name, rounds, differ, tied, shadow_sentences(name, rounds, last.words))


def policy_for_shadow(state: State, name: str, delta: float | None) -> Policy:
    """The other policy, set up as this campaign would have used it at this time."""
    level = state.policy.delta if delta is None else delta
    memory = state.policy.memory if name in forgetting_policies() else None
    return parse_policy(name, level, state.season, memory)


def shadow_round(state: State, event: Event, policy: Policy) -> ShadowedRound:
    """The round that this event planned, beside the plan of another policy for the state before the event."""
    body = event.body
    given = parse_circumstances(state, **{name: body[name] for name in GIVEN_FIELDS})
    sent = (assigned_from(state, one) for one in body["assignments"])
    places = {one.agent: one.arm for one in sent}
    planned = tuple(places[a] for a in range(len(state.agents)))
    counted = has_counted(body)
    plan = plan_of(state, given, policy, counted=counted)
    other = tuple(plan.assignment[agent.row] for agent in state.agents)
    tied = planned != other and (
        plan_may_tie(state, given, arms_by_row(state, planned), policy, counted=counted)
        or plan_may_tie(state, given, arms_by_row(state, other), counted=counted)
    )
    return ShadowedRound(body["round"], planned, other, tied)


def arms_by_row(state: State, places: Iterable[int | None]) -> dict[int, int]:
    """The arms of the agents that are sent somewhere, by row of the team."""
    return {a.row: arm for a, arm in zip(state.agents, places, strict=True) if arm is not None}


def is_different(one: ShadowedRound) -> bool:
    """Whether the other policy would have sent anybody elsewhere, not only because of a tie."""
    return one.planned != one.other and not one.tied


def shadow_sentences(name: str, rounds: list[ShadowedRound], words: CampaignWords) -> list[str]:
    """Sentences on how much the plans differ, and on what nobody can know."""
    if not rounds:
        return [f"No {words.round} has been planned yet."]
    changed = sum(is_different(one) for one in rounds)
    of_all = words.count(len(rounds), "round")
    ties = sum(one.tied for one in rounds)
    chance = [
        f"In {words.count(ties, 'round')} they differ only where {words.arms} tie, as all do before anything is known: chance decided, no policy."
    ] * bool(ties)
    if not changed:
        but = ", but for ties" if ties else ""
        return [f"{name} would have planned the same in {of_all}{but}.", *chance]
    moved = sum(
        a != b
        for one in rounds
        if is_different(one)
        for a, b in zip(one.planned, one.other, strict=True)
    )
    return [
        f"{name} would have planned {changed:,} of {of_all} differently: somebody would have gone elsewhere or "
        f"stayed home {render_count(moved, 'time')}.",
        f"Each {words.round} is planned from what was known then, which came of the plans that were made: what its own plans would "
        "have found nobody knows.",
        *chance,
    ]
