"""What people do with a campaign and its rounds: plain functions of a repository, the campaign's id, and the author.

A function that changes something returns a `WriteResult`: the state after it and the events that were written. What only looks
takes a state, which `Repository.state` has.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any, Literal

from heterobandits.campaigns.events import Draft, Event
from heterobandits.campaigns.links import check_holders
from heterobandits.campaigns.outcomes import Stale, body_of_forgetting, heed_changes
from heterobandits.campaigns.preview import Preview
from heterobandits.campaigns.reasons import Assigned, assigned_from, has_counted
from heterobandits.campaigns.reducer import check_pairs, parse_circumstances, policy_body
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State, member_id
from heterobandits.campaigns.storage.repository import Author, Repository, WriteResult
from heterobandits.campaigns.validation import (
    FieldErrors,
    check_member_count,
    parse_agents,
    parse_arms,
    parse_display_name,
    parse_ends,
    parse_new_name,
    parse_note,
    parse_on_change,
    parse_policy,
    parse_prior_kind,
    parse_season,
    parse_seed,
)
from heterobandits.campaigns.words import parse_words
from heterobandits.errors import InvalidInput, parse_choice, parse_delta, parse_list
from heterobandits.model.prior import PriorKind, parse_stated_prior
from heterobandits.planner.knowledge import Forgetting, OnChange
from heterobandits.planner.plans import Explanation
from heterobandits.planner.roster import REVISED_SINCE_CHOICES, RevisedSince
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords

PART_BYTES = 1_000_000  # of events that are read at once: a tenth of a second
CAMPAIGN_ID_BYTES = 6


def create(log: Repository, request: Author, **given: Any) -> WriteResult:
    """Create a campaign from what `body_of_creation` takes; its id is `done.state.campaign`."""
    return begin_campaign(log, request, body_of_creation(**given))


def begin_campaign(log: Repository, request: Author, body: dict[str, Any]) -> WriteResult:
    """Create a campaign from what `body_of_creation` has made."""
    return log.begin(secrets.token_hex(CAMPAIGN_ID_BYTES), request, [Draft("created", body)])


def body_of_creation(
    *,
    name: str,
    agents: Any,
    arms: Any,
    policy: str | None = None,
    delta: float | None = None,
    memory: int | None = None,
    seed: int = 0,
    season: int | None = None,
    prior: PriorKind | None = None,
    on_change: OnChange | None = None,
    ends: str | None = None,
    words: Mapping[str, Any] | CampaignWords | None = None,
) -> dict[str, Any]:
    """A new campaign as the body of its first event; all mistakes are named at once."""
    errors = FieldErrors()
    errors.all("agents", check_member_count, "agent", agents)
    errors.all("arms", check_member_count, "arm", arms)
    errors.end()
    text = errors.of("name", parse_display_name, name)
    team = errors.all("agents", parse_agents, agents)
    places = errors.all("arms", parse_arms, arms)
    start = errors.all("seed", parse_seed, seed)
    rounds = errors.all("season", parse_season, season)
    level = None if delta is None else errors.all("delta", parse_delta, delta)
    chosen = errors.all("policy", parse_policy, policy, level, rounds, memory)
    believed = errors.all("prior", parse_prior_kind, prior)
    heeds = None if on_change is None else errors.all("on_change", parse_on_change, on_change)
    last = errors.all("ends", parse_ends, ends)
    called = errors.all("words", words_of, words)
    errors.end()
    then: dict[str, Any] = {} if heeds is None else {"on_change": heeds}
    then |= {} if last is None else {"ends": last}
    if called is not None and called != DEFAULT_WORDS:
        then["words"] = called.body
    return {
        "name": text,
        "agents": [{"name": n, **r.body} for n, r in team or ()],
        "arms": [arm.body for arm in places or ()],
        "policy": policy_body(chosen),
        "seed": start,
        "season": rounds,
        "prior": believed,
        **then,
    }


def words_of(given: Mapping[str, Any] | CampaignWords | None) -> CampaignWords:
    """Words as they are given: as a table by kind, or checked already; None for the library's."""
    return (
        given if isinstance(given, CampaignWords) else parse_words({} if given is None else given)
    )


def add_agents(log: Repository, campaign: str, request: Author, agents: Any) -> WriteResult:
    """Add agents, from the next round on."""

    def make(state: State) -> list[Draft]:
        check_member_count("agent", agents, len(state.agents))
        check_pairs(state, agents=agents)
        new = parse_agents(agents, state.agent_names)
        return [Draft("agents added", {"agents": [{"name": n, **r.body} for n, r in new]})]

    return log.write(campaign, request, make)


def add_arms(log: Repository, campaign: str, request: Author, arms: Any) -> WriteResult:
    """Add arms, given as `parse_arms` takes them, from the next round on."""

    def make(state: State) -> list[Draft]:
        check_member_count("arm", arms, len(state.arms))
        check_pairs(state, arms=arms)
        new = parse_arms(arms, state.arm_names)
        return [Draft("arms added", {"arms": [arm.body for arm in new]})]

    return log.write(campaign, request, make)


def body_of_member(state: State, kind: Literal["agent", "arm"], key: Any) -> dict[str, str]:
    """An agent or arm as the bodies of events name it."""
    return {"what": kind, "id": member_id(kind, state.member(kind, key))}


def rename(
    log: Repository,
    campaign: str,
    request: Author,
    kind: Literal["agent", "arm", "campaign"],
    key: Any,
    name: str,
) -> WriteResult:
    """Rename an agent, an arm or (with no key) the campaign."""

    def make(state: State) -> list[Draft]:
        if kind == "campaign":
            return [Draft("renamed", {"what": kind, "name": parse_display_name(name)})]
        which = body_of_member(state, kind, key)
        taken = state.agent_names if kind == "agent" else state.arm_names
        others = [one for i, one in enumerate(taken) if member_id(kind, i) != which["id"]]
        if kind == "agent":  # whose link may have its name
            check_holders(state, [(name, which["id"])])
        return [Draft("renamed", which | {"name": parse_new_name(name, others)})]

    return log.write(campaign, request, make)


def retire(
    log: Repository, campaign: str, request: Author, kind: Literal["agent", "arm"], key: Any
) -> WriteResult:
    """Stop planning with an agent or arm from the next round on; its outcomes still count."""
    return log.write(
        campaign, request, lambda state: [Draft("retired", body_of_member(state, kind, key))]
    )


def bring_back(
    log: Repository, campaign: str, request: Author, kind: Literal["agent", "arm"], key: Any
) -> WriteResult:
    """Plan again with an agent or arm that was retired."""
    return log.write(
        campaign, request, lambda state: [Draft("returned", body_of_member(state, kind, key))]
    )


def forget_arm(log: Repository, campaign: str, request: Author, arm: Any) -> WriteResult:
    """What was seen of an arm up to the last round that was planned no longer counts: it has changed.

    Outcomes of those rounds may still be reported and corrected; on this arm they do not count either.
    """

    def make(state: State) -> list[Draft]:
        number, last = state.arm(arm), len(state.rounds)
        known = Forgetting(number, last) in state.forgotten
        return [] if known else [Draft("arm forgotten", body_of_forgetting(state, number, "asked"))]

    return log.write(campaign, request, make)


def remember_arm(log: Repository, campaign: str, request: Author, arm: Any) -> WriteResult:
    """Take back that an arm was forgotten, the last time that it was."""
    return log.write(
        campaign,
        request,
        lambda state: [Draft("arm remembered", {"arm": member_id("arm", state.arm(arm))})],
    )


def revise(
    log: Repository,
    campaign: str,
    request: Author,
    agent: Any,
    reports: Mapping[str, Any],
    since: RevisedSince,
) -> WriteResult:
    """Change how an agent reports: from now on if the agent has changed, or always if the statement was wrong.

    `reports` has what changes: sensitivity, false_positive_rate, tests, calibration, false_positive_calibration.
    """

    def make(state: State) -> list[Draft]:
        number = state.agent(agent)
        given = {"name": state.agents[number].name} | state.reports(number).revised(reports)
        ((_, made),) = parse_agents([given], place=lambda i: "reports")
        body = {"id": member_id("agent", number), "since": since, "reports": made.body}
        return [Draft("agent revised", body)]

    parse_choice(since, "since", REVISED_SINCE_CHOICES)
    return log.write(campaign, request, make)


def revise_arm(
    log: Repository, campaign: str, request: Author, arm: Any, prior: Any
) -> WriteResult:
    """Change what is stated of an arm's mean, as `parse_stated_prior` takes it; None for nothing."""
    errors = FieldErrors()
    shape = errors.of("prior", parse_stated_prior, prior)
    errors.end()
    body = {"prior": None if shape is None else list(shape)}
    return log.write(
        campaign,
        request,
        lambda state: [Draft("arm revised", {"id": member_id("arm", state.arm(arm)), **body})],
    )


def set_prior(log: Repository, campaign: str, request: Author, prior: PriorKind) -> WriteResult:
    """Change what plans go by where nothing is stated of an arm, from the next round on."""
    body = {"prior": parse_prior_kind(prior)}
    return log.write(campaign, request, lambda state: [Draft("prior changed", body)])


def set_policy(
    log: Repository,
    campaign: str,
    request: Author,
    policy: str | None = None,
    delta: float | None = None,
    memory: int | None = None,
    on_change: OnChange | None = None,
) -> WriteResult:
    """Change the policy or its parameters, from the next round on, or what happens when an arm has changed, from now on."""

    def make(state: State) -> list[Draft]:
        name = state.policy.name if policy is None else policy
        level = state.policy.delta if delta is None else delta
        kept = state.policy.memory if name == state.policy.name else None
        chosen = parse_policy(name, level, state.season, kept if memory is None else memory)
        then = {} if on_change is None else {"on_change": parse_on_change(on_change)}
        return [Draft("policy changed", {"policy": policy_body(chosen), **then})]

    return log.write(campaign, request, make)


def set_season(
    log: Repository, campaign: str, request: Author, season: int | None, *ends: Any
) -> WriteResult:
    """Change the number of rounds in the season, None for no end; and, if it is said, the day on which it ends, None if nobody knows."""
    errors = FieldErrors()
    body: dict[str, Any] = {"season": errors.all("season", parse_season, season)}
    for day in ends:
        body["ends"] = errors.all("ends", parse_ends, day)
    errors.end()
    return log.write(campaign, request, lambda state: [Draft("season changed", body)])


def preview(state: State, **circumstances: Any) -> Preview:
    """The plan of the next round, without recording it; absent, closed, forbidden and forced are names or ids."""
    return Preview.of(state, parse_circumstances(state, **circumstances))


def choose_words(
    log: Repository, campaign: str, request: Author, words: Mapping[str, Any] | CampaignWords
) -> WriteResult:
    """Change what agents, arms, rounds and tests are called, as `parse_words` takes it."""
    chosen = words_of(words)
    return log.write(
        campaign,
        request,
        lambda state: (
            [] if state.words == chosen else [Draft("words chosen", {"words": chosen.body})]
        ),
    )


class Overtaken(Stale):
    """A plan that was made ahead of what has happened since."""


def plan_ahead(state: State, **circumstances: Any) -> Callable[[State], Preview]:
    """The plan that follows from this state, or why there is none, made before it is written: for that state, and no other."""
    refused: InvalidInput | None = None
    try:
        made = preview(state, **circumstances)
        _ = made.body  # takes a while, too
    except InvalidInput as error:
        refused = error

    def look(now: State) -> Preview:
        if now.hash != state.hash:
            raise Overtaken(
                f"the plan follows from event {state.number}, which is not the last any more"
            )
        if refused is not None:
            raise refused
        return made

    return look


def plan_round(
    log: Repository,
    campaign: str,
    request: Author,
    seen: str | None = None,
    look: Callable[..., Preview] = preview,
    **circumstances: Any,
) -> WriteResult:
    """Plan and record the next round; several may wait for outcomes. Refused unless the last event has the hash `seen`.

    With `look` it is as that says of the state.
    """

    def make(state: State) -> list[Draft]:
        if seen is not None and seen != state.hash:
            raise Stale(
                "Something was reported or changed since you looked, so the plan may be another one: look again, then "
                "record it."
            )
        return [Draft("round planned", look(state, **circumstances).body)]

    return log.write(campaign, request, make)


def override(
    log: Repository, campaign: str, request: Author, round: int, agent: Any, arms: Iterable[Any]
) -> WriteResult:
    """Record that an agent went elsewhere than planned: to these arms, usually one, or to none."""
    places = parse_list(arms, "arms", "arms")

    def make(state: State) -> list[Draft]:
        body = {
            "round": state.round(round).number,
            "agent": member_id("agent", state.agent(agent)),
            "arms": list(dict.fromkeys(member_id("arm", state.arm(arm)) for arm in places)),
        }
        return heed_changes(state, [Draft("overridden", body)])

    return log.write(campaign, request, make)


def close_round(log: Repository, campaign: str, request: Author, round: int) -> WriteResult:
    """Stop waiting for a round; later reports still count."""
    return log.write(
        campaign,
        request,
        lambda state: [Draft("round closed", {"round": state.round(round).number})],
    )


def cancel_round(
    log: Repository, campaign: str, request: Author, round: int, planned: int | None = None
) -> WriteResult:
    """Take back the last round that was planned, of which nothing is reported: the next one has its number again.

    Refused if another event than `planned` has planned the round meanwhile.
    """

    def make(state: State) -> list[Draft]:
        at = state.round(round)
        if planned is not None and at.event != planned:
            raise Stale(
                f"round {at.number} was cancelled already, and planned anew since you looked"
            )
        return [Draft("round cancelled", {"round": at.number})]

    return log.write(campaign, request, make)


def undo(log: Repository, campaign: str, request: Author, number: int) -> WriteResult:
    """Take back what was done last, with all that was written with it, if event `number` still is the last of it.

    Whoever did it can undo it, for `reversal.UNDO_MAX_S` seconds.
    """
    from heterobandits.campaigns.reversal import drafts_of_undo

    def make(state: State) -> list[Draft]:
        if state.number != number:
            raise Stale(
                f"event {number} is not the last any more: something else has happened since, and nothing was undone"
            )
        return drafts_of_undo(log, state, request)

    return log.write(campaign, request, make)


def archive(log: Repository, campaign: str, request: Author) -> WriteResult:
    """Put a campaign away: it is not listed, and nothing is planned; what is reported late is taken all the same."""
    return log.write(campaign, request, lambda state: [Draft("archived", {})])


def unarchive(log: Repository, campaign: str, request: Author) -> WriteResult:
    """Bring back a campaign that was put away."""
    return log.write(campaign, request, lambda state: [Draft("brought back", {})])


def add_note(
    log: Repository, campaign: str, request: Author, text: str, round: int | None = None
) -> WriteResult:
    """Add a note for readers of the history."""
    body = {"text": parse_note(text), "round": round}
    return log.write(campaign, request, lambda state: [Draft("note", body)])


def history(log: Repository, campaign: str, after: int = 0, upto: int | None = None) -> list[Event]:
    """The events after number `after`."""
    log.store.head(campaign)
    return log.store.read(campaign, after, upto)


def history_part(log: Repository, campaign: str, after: int, upto: int) -> list[Event]:
    """The first of the events after number `after`, up to `upto`: as many as have `PART_BYTES`, but one at least."""
    sizes = accumulate(log.store.sizes(campaign, after, upto))
    fitting = sum(size <= PART_BYTES for size in sizes)
    return log.store.read(campaign, after, min(upto, after + max(1, fitting)))


def recorded_plan(log: Repository, state: State, round: PlannedRound) -> list[Assigned]:
    """Who was sent where in a round, and why, as it was recorded."""
    (event,) = log.store.read(state.campaign, round.event - 1, round.event)
    return [assigned_from(state, one) for one in event.body["assignments"]]


def explain(log: Repository, campaign: str, round: int | None = None) -> dict[int, Explanation]:
    """Why a round sent each agent where it did, from what was known then; by default the last round."""
    state = log.state(campaign)
    at = state.round(len(state.rounds) if round is None else round)
    (event,) = log.store.read(campaign, at.event - 1, at.event)
    before = log.at(campaign, at.event - 1)
    return Preview.of(before, at.given, counted=has_counted(event.body)).explanations()
