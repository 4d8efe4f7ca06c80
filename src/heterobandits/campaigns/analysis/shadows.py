"""What another policy would have planned, round by round, from what was known then and under the same circumstances."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from heterobandits.campaigns.analysis.projection import silent
from heterobandits.campaigns.events import Event
from heterobandits.campaigns.plan_events import plan_might_tie, plan_of
from heterobandits.campaigns.reasons import assigned_from
from heterobandits.campaigns.reducer import GIVEN, fold, given_from
from heterobandits.campaigns.service import history
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Log
from heterobandits.campaigns.validation import policy_from
from heterobandits.planner.plans import count_text
from heterobandits.policies.policy import Policy, forgetting


@dataclass(frozen=True)
class Shadowed:
    """A round: the arm of each agent, by number, as it was planned and as the other policy would have planned it.

    `tied` if that is another assignment, and one of the two policies, had it broken ties otherwise, would have planned the other one.
    """

    round: int
    planned: tuple[int | None, ...]
    other: tuple[int | None, ...]
    tied: bool = False


@dataclass(frozen=True)
class Shadow:
    """All rounds beside those of another policy, how many differ, how many more only in ties, and what it means in words."""

    policy: str
    rounds: list[Shadowed]
    differ: int
    tied: int
    sentences: list[str]


def shadow(
    log: Log,
    campaign: str,
    policy: str,
    delta: float | None = None,
    tell: Callable[[float], None] = silent,
) -> Shadow:
    """What a policy would have planned in each round of a campaign, in one pass over its log.

    Its delta, and its memory if it forgets, are those of the campaign at that time, unless a delta is given. `tell` is told
    the share that is done, and may end it all by raising.
    """
    rounds: list[Shadowed] = []
    state: State | None = None
    since: list[Event] = []  # the events after `state`
    events = history(log, campaign)
    for event in events:
        tell(event.number / len(events))
        if event.kind == "round planned":
            state = fold(since, state)
            since = []
            rounds.append(shadowed(state, event, other_policy(state, policy, delta)))
        since.append(event)
    name = other_policy(fold(since, state), policy, delta).name
    differ, tied = sum(map(differs, rounds)), sum(one.tied for one in rounds)
    return Shadow(name, rounds, differ, tied, shadow_sentences(name, rounds))


def other_policy(state: State, name: str, delta: float | None) -> Policy:
    """The other policy as it would have stood in a campaign at this time."""
    level = state.policy.delta if delta is None else delta
    memory = state.policy.memory if name in forgetting() else None
    return policy_from(name, level, state.season, memory)


def shadowed(state: State, event: Event, policy: Policy) -> Shadowed:
    """A round that was planned by this event, which follows on the state, beside that of another policy."""
    body = event.body
    given = given_from(state, **{name: body[name] for name in GIVEN})
    sent = (assigned_from(state, one) for one in body["assignments"])
    places = {one.agent: one.arm for one in sent}
    planned = tuple(places[a] for a in range(len(state.agents)))
    plan = plan_of(state, given, policy)
    other = tuple(plan.assignment[agent.row] for agent in state.agents)
    tied = planned != other and (
        plan_might_tie(state, given, by_row(state, planned), policy)
        or plan_might_tie(state, given, by_row(state, other))
    )
    return Shadowed(body["round"], planned, other, tied)


def by_row(state: State, places: Iterable[int | None]) -> dict[int, int]:
    """The arms of those who are sent somewhere, by row of the team."""
    return {a.row: arm for a, arm in zip(state.agents, places, strict=True) if arm is not None}


def differs(one: Shadowed) -> bool:
    """Whether anybody would have gone elsewhere, and not only in ties."""
    return one.planned != one.other and not one.tied


def shadow_sentences(name: str, rounds: list[Shadowed]) -> list[str]:
    """How much differs, and what cannot be known."""
    if not rounds:
        return ["No round has been planned yet."]
    changed = sum(differs(one) for one in rounds)
    of_all = count_text(len(rounds), "round")
    ties = sum(one.tied for one in rounds)
    chance = [
        f"In {count_text(ties, 'round')} they differ only where arms tie, as all do before anything is known: chance decided, no policy."
    ] * bool(ties)
    if not changed:
        but = ", but for ties" if ties else ""
        return [f"{name} would have planned the same in {of_all}{but}.", *chance]
    moved = sum(
        a != b
        for one in rounds
        if differs(one)
        for a, b in zip(one.planned, one.other, strict=True)
    )
    return [
        f"{name} would have planned {changed:,} of {of_all} differently: somebody would have gone elsewhere or "
        f"stayed home {count_text(moved, 'time')}.",
        "Each round is planned from what was known then, which came of the plans that were made: what its own plans would "
        "have found nobody knows.",
        *chance,
    ]
