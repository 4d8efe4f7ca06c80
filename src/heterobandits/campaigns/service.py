"""What people do with a campaign: plain functions of a repository, the campaign's id, and the author.

A function that changes something returns a `WriteResult`: the state after it and the events that were written. What only looks
takes a state, which `Log.state` has.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Literal

from heterobandits.campaigns.amounts import check_amount
from heterobandits.campaigns.analysis.answers import arms_to_forget
from heterobandits.campaigns.audit.recovery import CampaignEntry, campaign_entries
from heterobandits.campaigns.events import (
    OWNER_NAME,
    SERVER_LINK,
    Draft,
    Event,
    OnShare,
    announce_progress,
    check_chain,
    is_far_ahead,
    parse_event_line,
    render_event_line,
    render_timestamp,
    utc_now,
)
from heterobandits.campaigns.preview import Preview
from heterobandits.campaigns.reasons import Assigned, assigned_from, has_counted
from heterobandits.campaigns.reducer import (
    LinkEnded,
    check_pairs,
    fold_events,
    parse_circumstances,
    policy_body,
    state_after_drafts,
)
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import LINK_ROLES, State, member_id, parse_time
from heterobandits.campaigns.storage.repository import (
    CREATION_KEY_SCOPE,
    Author,
    Repository,
    WriteResult,
    next_timestamp,
    seal_drafts,
)
from heterobandits.campaigns.validation import (
    FieldErrors,
    check_member_count,
    likeness_of,
    parse_agents,
    parse_arms,
    parse_campaign_outcome,
    parse_display_name,
    parse_new_name,
    parse_note,
    parse_on_change,
    parse_plain_text,
    parse_policy,
    parse_prior_kind,
    parse_season,
    parse_seed,
)
from heterobandits.errors import InvalidInput, parse_choice, parse_delta, parse_list, repr_of
from heterobandits.model.prior import PriorKind, parse_stated_prior
from heterobandits.planner.knowledge import Forgetting, OnChange
from heterobandits.planner.plans import Explanation
from heterobandits.planner.roster import REVISED_SINCE_CHOICES, RevisedSince

VIEWER_ROLE = "viewer"
TOKEN_BYTES = 32
PART_BYTES = 1_000_000  # of events that are read at once: a tenth of a second
ID_BYTES = 6


class Stale(InvalidInput):
    """A correction of something that has changed since its author last looked."""


def create(log: Repository, request: Author, **given: Any) -> WriteResult:
    """Create a campaign from what `body_of_creation` takes; its id is `done.state.campaign`."""
    draft = Draft("created", body_of_creation(**given))
    return log.begin(secrets.token_hex(ID_BYTES), request, [draft])


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
    errors.end()
    then = {} if heeds is None else {"on_change": heeds}
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


def body_of_forgetting(state: State, arm: int, because: str) -> dict[str, Any]:
    """An arm that is forgotten, as the body of an event."""
    return {"arm": member_id("arm", arm), "round": len(state.rounds), "because": because}


def remember_arm(log: Repository, campaign: str, request: Author, arm: Any) -> WriteResult:
    """Take back that an arm was forgotten, the last time that it was."""
    return log.write(
        campaign,
        request,
        lambda state: [Draft("arm remembered", {"arm": member_id("arm", state.arm(arm))})],
    )


def heed_changes(state: State, round: int, drafts: list[Draft]) -> list[Draft]:
    """These and, in a campaign that forgets arms that have changed, an event for each arm of the round that thereby has."""
    if state.on_change == "nothing" or not drafts:
        return drafts
    after = state_after_drafts(state, drafts)
    arms = arms_to_forget(after, sorted({arm for _, arm in after.round(round).sent}))
    return drafts + [Draft("arm forgotten", body_of_forgetting(after, n, "change")) for n in arms]


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


def set_season(log: Repository, campaign: str, request: Author, season: int | None) -> WriteResult:
    """Change the number of rounds in the season; None for no end."""
    body = {"season": parse_season(season)}
    return log.write(campaign, request, lambda state: [Draft("season changed", body)])


def preview(state: State, **circumstances: Any) -> Preview:
    """The plan of the next round, without recording it; absent, closed, forbidden and forced are names or ids."""
    return Preview.of(state, parse_circumstances(state, **circumstances))


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
        return heed_changes(state, round, [Draft("overridden", body)])

    return log.write(campaign, request, make)


def report(
    log: Repository,
    campaign: str,
    request: Author,
    round: int,
    outcomes: Mapping[Any, Any],
    role: str = "owner",
) -> WriteResult:
    """Report outcomes of visits, all or none: by agent, or by (agent, arm) for an agent that went to several.

    An outcome is 0, 1, a pair (successes, tests), or "not done". What is reported already is refused, unless it is the same;
    and more tests than somebody of this role may report.
    """

    def make(state: State) -> list[Draft]:
        return heed_changes(state, round, outcome_drafts(state, "reported", round, outcomes, role))

    return log.write(campaign, request, make)


def correct(
    log: Repository,
    campaign: str,
    request: Author,
    round: int,
    outcomes: Mapping[Any, Any],
    seen: int | None = None,
    role: str = "owner",
) -> WriteResult:
    """Replace reported outcomes; refused if they have changed since event `seen`."""

    def make(state: State) -> list[Draft]:
        made = outcome_drafts(state, "corrected", round, outcomes, role, seen)
        return heed_changes(state, round, made)

    return log.write(campaign, request, make)


def withdraw(
    log: Repository,
    campaign: str,
    request: Author,
    round: int,
    agents: Iterable[Any],
    seen: int | None = None,
) -> WriteResult:
    """Take back what these agents (or pairs of agent and arm) reported for a round."""
    which = list(agents)

    def make(state: State) -> list[Draft]:
        at = state.round(round)
        pairs = [find_visit(state, at, key) for key in which]
        for pair in pairs:
            check_unchanged_since(state, at, pair, seen)
        made = [Draft("withdrawn", body_of_visit(at, pair)) for pair in pairs]
        return heed_changes(state, round, made)

    return log.write(campaign, request, make)


def outcome_drafts(
    state: State,
    kind: str,
    round: int,
    outcomes: Mapping[Any, Any],
    role: str = "owner",
    seen: int | None = None,
) -> list[Draft]:
    """An event of this kind for each outcome that is not known yet as it is given."""
    at = state.round(round)
    if not outcomes:
        raise InvalidInput("outcomes is empty: at least one outcome")
    given = []
    for key, outcome in outcomes.items():
        pair = find_visit(state, at, key)
        given.append((pair, parse_campaign_outcome(outcome, state.agents[pair[0]].name)))
    made = []
    for pair, counts in given:
        check_unchanged_since(state, at, pair, seen)
        told = at.told.get(pair)
        if told is None or told.counts != counts:
            check_amount(state, at, pair, counts, role)
            made.append(Draft(kind, body_of_visit(at, pair) | body_of_counts(counts)))
    return made


def find_visit(state: State, round: PlannedRound, key: Any) -> tuple[int, int]:
    """The visit that an agent, or a pair (agent, arm), means."""
    if isinstance(key, tuple):
        return state.pair(key, "outcomes")
    agent = state.agent(key)
    arms = round.arms_of(agent)
    name = state.agents[agent].name
    if not arms:
        raise InvalidInput(
            f"round {round.number} sent {name!r} nowhere: if it went somewhere, override the plan first"
        )
    if len(arms) > 1:
        places = ", ".join(state.arms[n].name for n in arms)
        raise InvalidInput(
            f"{name!r} went to {places} in round {round.number}: say which arm it is of"
        )
    return agent, arms[0]


def body_of_visit(round: PlannedRound, pair: tuple[int, int]) -> dict[str, Any]:
    """A visit as the bodies of events name it."""
    agent, arm = pair
    return {"round": round.number, "agent": member_id("agent", agent), "arm": member_id("arm", arm)}


def body_of_counts(counts: tuple[int, int] | None) -> dict[str, Any]:
    """The counts of a visit as the body of an event."""
    if counts is None:
        return {"missing": True}
    return {"successes": counts[0], "tests": counts[1]}


def check_unchanged_since(
    state: State, round: PlannedRound, pair: tuple[int, int], seen: int | None
) -> None:
    """Refuse to change a visit that has changed since event `seen`."""
    told = round.told.get(pair)
    if seen is not None and told is not None and told.event > seen:
        raise Stale(
            f"what {state.agents[pair[0]].name!r} reported of round {round.number} has changed since event {seen}: "
            f"event {told.event} did"
        )


def close_round(log: Repository, campaign: str, request: Author, round: int) -> WriteResult:
    """Stop waiting for a round; later reports still count."""
    return log.write(
        campaign,
        request,
        lambda state: [Draft("round closed", {"round": state.round(round).number})],
    )


def add_note(
    log: Repository, campaign: str, request: Author, text: str, round: int | None = None
) -> WriteResult:
    """Add a note for readers of the history."""
    body = {"text": parse_note(text), "round": round}
    return log.write(campaign, request, lambda state: [Draft("note", body)])


def issue_link(
    log: Repository,
    campaign: str,
    request: Author,
    *,
    role: str,
    name: str,
    agent: Any = None,
    expires: str | None = None,
) -> tuple[WriteResult, str]:
    """Issue a link, and return its token, which nobody can read again: the log has only its hash."""
    done, (token,) = issue_links(
        log, campaign, request, [(name, agent)], role=role, expires=expires
    )
    return done, token


def issue_links(
    log: Repository,
    campaign: str,
    request: Author,
    holders: Iterable[tuple[str, Any]],
    *,
    role: str,
    expires: str | None = None,
) -> tuple[WriteResult, list[str]]:
    """Issue several links, all or none, each with a name and an agent or None; returns their tokens."""
    parse_choice(role, "role", LINK_ROLES)
    whose = list(holders)
    links = [secrets.token_hex(ID_BYTES) for _ in whose]
    tokens = [f"hb_{campaign}_{link}_{secrets.token_urlsafe(TOKEN_BYTES)}" for link in links]

    def make(state: State) -> list[Draft]:
        until = None if expires is None else parse_time(expires, "expires")
        if until is not None and until <= parse_time(utc_now()):
            raise InvalidInput(f"expires is {repr_of(expires)}: a time to come")
        if until is not None and role != VIEWER_ROLE and until <= parse_time(next_timestamp(state)):
            raise InvalidInput(
                f"expires is {repr_of(expires)}: what happened last in this campaign is of {state.changed}, by a clock that was ahead, "
                "and nothing could be written with the link; let it end after that"
            )
        if role != VIEWER_ROLE:  # of whom nothing is ever written
            check_holders(state, whose)
        return [
            Draft("link issued", {
                "link": link,
                "role": role,
                "name": parse_display_name(name),
                "agent": None if agent is None else member_id("agent", state.agent(agent)),
                "expires": None if until is None else render_timestamp(until),
                "token_hash": hash_of_token(token),
            })
            for link, token, (name, agent) in zip(links, tokens, whose, strict=True)
        ]  # fmt: skip

    return log.write(campaign, request, make), tokens


def check_holders(state: State, holders: Iterable[tuple[str, Any]]) -> None:
    """Refuse names that look like another link holder's, or like the server owner's: histories name people.

    Several links of one agent may have one name, and an agent's link may have the agent's, but for the owner's.
    """
    reserved = {likeness_of(OWNER_NAME), likeness_of(SERVER_LINK)}
    taken: list[tuple[str, int | None]] = [(OWNER_NAME, None), (SERVER_LINK, None)]
    writing = (
        one for one in state.links.values() if one.role != VIEWER_ROLE and one.holds(utc_now())
    )
    taken += [(link.name, link.agent) for link in writing]
    whose = {likeness_of(name): agent for name, agent in taken}
    for name, key in holders:
        agent = None if key is None else state.agent(key)
        like = likeness_of(parse_display_name(name))
        named = agent is not None and name == state.agents[agent].name and like not in reserved
        own = named or (agent is not None and whose.get(like) == agent)
        if like in whose and not own:
            raise InvalidInput(
                f"name is {repr_of(name)}: the history would not tell it from another who holds a link, or from the "
                "server's owner; give another name, or revoke that link first"
            )
        whose[like] = agent


def revoke_link(log: Repository, campaign: str, request: Author, link: str) -> WriteResult:
    """Revoke a link, even while somebody is writing with it."""

    def make(state: State) -> list[Draft]:
        return [Draft("link revoked", {"link": link})]

    return log.write(campaign, request, make, gives_way=False)


def revoke_all_links(log: Repository, request: Author) -> Iterator[tuple[CampaignEntry, int]]:
    """Revoke all links that are not revoked, and yield each campaign with their number; one that cannot be read keeps its links.

    Those that have expired are among them: they would open again by a clock that goes back.
    """
    for campaign in campaign_entries(log):
        links = {} if campaign.state is None else campaign.state.links
        still = [link.id for link in links.values() if not link.revoked]
        for link in still:
            revoke_link(log, campaign.campaign, request, link)
        yield campaign, len(still)


def hash_of_token(token: str) -> str:
    """The hash under which a token is kept: 256 random bits need no salt."""
    return hashlib.sha256(token.encode()).hexdigest()


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
    return Preview.of(before, at.given, counted=has_counted(event.body)).explanations


def export(log: Repository, campaign: str) -> str:
    """All events, a line of JSON for each."""
    return "".join(f"{render_event_line(event)}\n" for event in history(log, campaign))


def import_events(
    log: Repository,
    request: Author,
    text: str,
    *,
    keep_links: bool = False,
    tell: OnShare = lambda share: None,
) -> WriteResult:
    """The campaign that was exported, with the same events and hashes; what is there already goes on from where it stands.

    Whoever wrote the file may have sealed it anew, and knows the tokens of its links. So if any of the new events was by a
    link, the log says that they were imported; and links that are new here are revoked, unless they are to be kept. It tells
    how far the looking is, which may end it; once it writes, it writes all.
    """
    again = log.repeated(CREATION_KEY_SCOPE, request)
    if again is not None:
        return again
    given = [row for row in text.removeprefix("\ufeff").split("\n") if row.strip()]
    rows = [parse_event_line(row) for row in announce_progress(given, tell, 0.0, 0.3)]
    events = list(check_chain(announce_progress(rows, tell, 0.3, 0.6)))
    if not events:
        raise InvalidInput("nothing to import: a file of events, a line of JSON for each")
    for who in {event.who for event in events}:
        parse_display_name(who, "who")
    for event in events:
        if event.key is not None:
            parse_plain_text(event.key, "key")
        if is_far_ahead(event.time):
            raise InvalidInput(
                f"event {event.number} is of {event.time}, more than a day ahead: the clock it was taken from was wrong, "
                "or this machine's is"
            )
    campaign = events[0].campaign
    there = log.store.read(campaign)
    if not there:
        new = events_after_import(events, 0, request, keep_links, tell)
        return log.begin_with(events + new, request)
    if [event.hash for event in events[: len(there)]] != [
        event.hash for event in there[: len(events)]
    ]:
        raise InvalidInput(
            f"there is a campaign {repr_of(campaign)} with another history: they part after event "
            f"{count_common_events(events, there)}"
        )
    if len(events) > len(there):
        new = events[len(there) :]
        new += events_after_import(events, len(there), request, keep_links, tell)
        log.append(new, CREATION_KEY_SCOPE, request)
        return WriteResult(log.state(campaign), new)
    log.check_owner(request)
    return WriteResult(log.state(campaign), [])


def events_after_import(
    events: list[Event], known: int, request: Author, keep: bool, tell: OnShare
) -> list[Event]:
    """What follows on events from elsewhere, which are checked here.

    If any after event `known` was by a link, they are said to be imported; the links among them are revoked, unless they are kept.
    """
    try:
        state = fold_events(announce_progress(events, tell, 0.6, 1.0))
    except LinkEnded as error:  # which is no fault of the link that imports
        raise InvalidInput(
            f"an event of the file is by a link that did not hold: {error}"
        ) from None
    came = [] if keep else [one for one in state.links.values() if one.event > known]
    drafts = [Draft("link revoked", {"link": one.id}) for one in came if not one.revoked]
    if any(event.link is not None for event in events[known:]):
        drafts.insert(0, Draft("imported", {"first": known + 1, "last": len(events)}))
    return seal_drafts(drafts, state, request)


def count_common_events(one: list[Event], other: list[Event]) -> int:
    """The number of events, from the first on, that two histories share."""
    same = 0
    for a, b in zip(one, other, strict=False):
        if a.hash != b.hash:
            break
        same += 1
    return same
