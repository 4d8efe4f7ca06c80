"""What people do with a campaign: plain functions of a log, the id of a campaign, and who asks.

A function that changes something returns a `Done`: the state after it and the events that were written. What only looks
takes a state, which `Log.state` has.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Literal

from heterobandits.campaigns.amounts import check_amount
from heterobandits.campaigns.audit.recovery import Found, all_found
from heterobandits.campaigns.events import (
    OWNER,
    SERVER,
    Draft,
    Event,
    Tell,
    announce,
    check_chain,
    from_line,
    is_ahead,
    line,
    now,
    timestamp,
)
from heterobandits.campaigns.preview import Preview
from heterobandits.campaigns.reasons import Assigned, assigned_from
from heterobandits.campaigns.reducer import LinkEnded, check_pairs, fold, given_from, policy_body
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import ROLES, State, id_of, moment
from heterobandits.campaigns.storage.repository import (
    ELSEWHERE,
    Done,
    Log,
    Request,
    next_time,
    seal_drafts,
)
from heterobandits.campaigns.validation import (
    Collected,
    agents_from,
    arms_from,
    called,
    likeness,
    new_name,
    outcome_from,
    plain,
    policy_from,
    season_from,
    seed_from,
    text_from,
)
from heterobandits.errors import InvalidInput, choice, delta_from, listed, shown
from heterobandits.planner.plans import Explanation

CALIBRATED = (
    ("sensitivity", "calibration"),
    ("false_positive_rate", "false_positive_calibration"),
)
VIEWER = "viewer"
TOKEN_BYTES = 32
PART_BYTES = 1_000_000  # of events that are read at once: a tenth of a second
ID_BYTES = 6


class Stale(InvalidInput):
    """A correction of what has changed since the one who corrects has looked."""


def create(log: Log, request: Request, **given: Any) -> Done:
    """A new campaign, of what `created_body` takes; its id is `done.state.campaign`."""
    draft = Draft("created", created_body(**given))
    return log.begin(secrets.token_hex(ID_BYTES), request, [draft])


def created_body(
    *,
    name: str,
    agents: Any,
    arms: Any,
    policy: str | None = None,
    delta: float | None = None,
    memory: int | None = None,
    seed: int = 0,
    season: int | None = None,
) -> dict[str, Any]:
    """A new campaign as it stands in its first event; all that is wrong with it is named at once."""
    errors = Collected()
    text = errors.of("name", called, name)
    team = errors.all("agents", agents_from, agents)
    places = errors.all("arms", arms_from, arms)
    start = errors.all("seed", seed_from, seed)
    rounds = errors.all("season", season_from, season)
    level = None if delta is None else errors.all("delta", delta_from, delta)
    chosen = errors.all("policy", policy_from, policy, level, rounds, memory)
    errors.end()
    return {
        "name": text,
        "agents": [{"name": n, **r.body} for n, r in team or ()],
        "arms": [{"name": n} for n in places or ()],
        "policy": policy_body(chosen),
        "seed": start,
        "season": rounds,
    }


def add_agents(log: Log, campaign: str, request: Request, agents: Any) -> Done:
    """New agents, from the next round on."""

    def make(state: State) -> list[Draft]:
        check_pairs(state, agents=agents)
        new = agents_from(agents, state.agent_names)
        return [Draft("agents added", {"agents": [{"name": n, **r.body} for n, r in new]})]

    return log.write(campaign, request, make)


def add_arms(log: Log, campaign: str, request: Request, arms: Any) -> Done:
    """New arms, from the next round on."""

    def make(state: State) -> list[Draft]:
        check_pairs(state, arms=arms)
        return [
            Draft("arms added", {"arms": [{"name": n} for n in arms_from(arms, state.arm_names)]})
        ]

    return log.write(campaign, request, make)


def member(state: State, kind: Literal["agent", "arm"], key: Any) -> dict[str, str]:
    """An agent or arm as it stands in events."""
    return {
        "what": kind,
        "id": id_of(kind, state.agent(key) if kind == "agent" else state.arm(key)),
    }


def rename(
    log: Log,
    campaign: str,
    request: Request,
    kind: Literal["agent", "arm", "campaign"],
    key: Any,
    name: str,
) -> Done:
    """Another name for an agent, an arm or (with no key) the campaign."""

    def make(state: State) -> list[Draft]:
        if kind == "campaign":
            return [Draft("renamed", {"what": kind, "name": called(name)})]
        which = member(state, kind, key)
        taken = state.agent_names if kind == "agent" else state.arm_names
        others = [one for i, one in enumerate(taken) if id_of(kind, i) != which["id"]]
        if kind == "agent":  # whose link may have its name
            check_holders(state, [(name, which["id"])])
        return [Draft("renamed", which | {"name": new_name(name, others)})]

    return log.write(campaign, request, make)


def retire(
    log: Log, campaign: str, request: Request, kind: Literal["agent", "arm"], key: Any
) -> Done:
    """An agent or arm is not planned with from the next round on; what was found counts."""
    return log.write(campaign, request, lambda state: [Draft("retired", member(state, kind, key))])


def bring_back(
    log: Log, campaign: str, request: Request, kind: Literal["agent", "arm"], key: Any
) -> Done:
    """One that was retired is planned with again."""
    return log.write(campaign, request, lambda state: [Draft("returned", member(state, kind, key))])


def revise(
    log: Log,
    campaign: str,
    request: Request,
    agent: Any,
    reports: Mapping[str, Any],
    since: Literal["now", "always"],
) -> Done:
    """Another way to report: since now, if the agent has changed, or always, if it was stated wrongly.

    `reports` has what changes: sensitivity, false_positive_rate, tests, calibration, false_positive_calibration.
    """

    def make(state: State) -> list[Draft]:
        number = state.agent(agent)
        given = {"name": state.agents[number].name} | revision_of(state, number, reports)
        ((_, made),) = agents_from([given], place=lambda i: "reports")
        body = {"id": id_of("agent", number), "since": since, "reports": made.body}
        return [Draft("agent revised", body)]

    choice(since, "since", ("now", "always"))
    return log.write(campaign, request, make)


def revision_of(state: State, agent: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """How an agent would report: as it does, but for what is given, which does not stand beside what it was stated with."""
    had = state.reports(agent).body
    for one, trial in CALIBRATED:
        if one in given:
            had[trial] = None
        elif given.get(trial) is not None:
            had[one] = None
    return had | dict(given)


def set_policy(
    log: Log,
    campaign: str,
    request: Request,
    policy: str | None = None,
    delta: float | None = None,
    memory: int | None = None,
) -> Done:
    """Another policy, or the same with another delta, from the next round on."""

    def make(state: State) -> list[Draft]:
        name = state.policy.name if policy is None else policy
        level = state.policy.delta if delta is None else delta
        kept = state.policy.memory if name == state.policy.name else None
        chosen = policy_from(name, level, state.season, kept if memory is None else memory)
        return [Draft("policy changed", {"policy": policy_body(chosen)})]

    return log.write(campaign, request, make)


def set_season(log: Log, campaign: str, request: Request, season: int | None) -> Done:
    """Another number of rounds in the season; None for no end."""
    body = {"season": season_from(season)}
    return log.write(campaign, request, lambda state: [Draft("season changed", body)])


def preview(state: State, **circumstances: Any) -> Preview:
    """The plan of the next round, which changes nothing; absent, closed, forbidden and forced by names or ids."""
    return Preview.of(state, given_from(state, **circumstances))


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
        if now.number != state.number:
            raise Overtaken(f"the plan follows from event {state.number}: the last is {now.number}")
        if refused is not None:
            raise refused
        return made

    return look


def plan_round(
    log: Log,
    campaign: str,
    request: Request,
    seen: int | None = None,
    look: Callable[..., Preview] = preview,
    **circumstances: Any,
) -> Done:
    """The next round, planned and recorded; several may wait for outcomes. Refused if anything happened after event `seen`.

    With `look` it is as that says of the state.
    """

    def make(state: State) -> list[Draft]:
        if seen is not None and seen != state.number:
            raise Stale(
                "Something was reported or changed since you looked, so the plan may be another one: look again, then "
                "record it."
            )
        return [Draft("round planned", look(state, **circumstances).body)]

    return log.write(campaign, request, make)


def override(
    log: Log, campaign: str, request: Request, round: int, agent: Any, arms: Iterable[Any]
) -> Done:
    """Somebody went elsewhere than planned: to these arms, mostly one, or to none."""
    places = listed(arms, "arms", "arms")

    def make(state: State) -> list[Draft]:
        body = {
            "round": state.round(round).number,
            "agent": id_of("agent", state.agent(agent)),
            "arms": list(dict.fromkeys(id_of("arm", state.arm(arm)) for arm in places)),
        }
        return [Draft("overridden", body)]

    return log.write(campaign, request, make)


def report(
    log: Log,
    campaign: str,
    request: Request,
    round: int,
    outcomes: Mapping[Any, Any],
    role: str = "owner",
) -> Done:
    """What came of visits, all of them or none: by agent, or by (agent, arm) of one that went to several.

    An outcome is 0, 1, a pair (successes, tests), or "not done". What is reported already is refused, unless it is the same;
    and more tests than somebody of this role may report.
    """

    def make(state: State) -> list[Draft]:
        return outcome_drafts(state, "reported", round, outcomes, role)

    return log.write(campaign, request, make)


def correct(
    log: Log,
    campaign: str,
    request: Request,
    round: int,
    outcomes: Mapping[Any, Any],
    seen: int | None = None,
    role: str = "owner",
) -> Done:
    """Other outcomes instead of those reported, given likewise; refused if they have changed since event `seen`."""

    def make(state: State) -> list[Draft]:
        return outcome_drafts(state, "corrected", round, outcomes, role, seen)

    return log.write(campaign, request, make)


def withdraw(
    log: Log,
    campaign: str,
    request: Request,
    round: int,
    agents: Iterable[Any],
    seen: int | None = None,
) -> Done:
    """What these agents (or pairs of agent and arm) reported of a round is taken back."""
    which = list(agents)

    def make(state: State) -> list[Draft]:
        at = state.round(round)
        pairs = [visit_meant(state, at, key) for key in which]
        for pair in pairs:
            check_seen(state, at, pair, seen)
        return [Draft("withdrawn", visit_body(at, pair)) for pair in pairs]

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
        pair = visit_meant(state, at, key)
        given.append((pair, outcome_from(outcome, state.agents[pair[0]].name)))
    made = []
    for pair, counts in given:
        check_seen(state, at, pair, seen)
        told = at.told.get(pair)
        if told is None or told.counts != counts:
            check_amount(state, at, pair, counts, role)
            made.append(Draft(kind, visit_body(at, pair) | counts_body(counts)))
    return made


def visit_meant(state: State, round: PlannedRound, key: Any) -> tuple[int, int]:
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


def visit_body(round: PlannedRound, pair: tuple[int, int]) -> dict[str, Any]:
    """A visit as it stands in events."""
    agent, arm = pair
    return {"round": round.number, "agent": id_of("agent", agent), "arm": id_of("arm", arm)}


def counts_body(counts: tuple[int, int] | None) -> dict[str, Any]:
    """What came of a visit, likewise."""
    if counts is None:
        return {"missing": True}
    return {"successes": counts[0], "tests": counts[1]}


def check_seen(state: State, round: PlannedRound, pair: tuple[int, int], seen: int | None) -> None:
    """Refuse to change what has changed since event `seen`."""
    told = round.told.get(pair)
    if seen is not None and told is not None and told.event > seen:
        raise Stale(
            f"what {state.agents[pair[0]].name!r} reported of round {round.number} has changed since event {seen}: "
            f"event {told.event} did"
        )


def close_round(log: Log, campaign: str, request: Request, round: int) -> Done:
    """Nobody waits for a round any more; what comes later is taken all the same."""
    return log.write(
        campaign,
        request,
        lambda state: [Draft("round closed", {"round": state.round(round).number})],
    )


def add_note(
    log: Log, campaign: str, request: Request, text: str, round: int | None = None
) -> Done:
    """A note for those who read the history."""
    body = {"text": text_from(text), "round": round}
    return log.write(campaign, request, lambda state: [Draft("note", body)])


def issue_link(
    log: Log,
    campaign: str,
    request: Request,
    *,
    role: str,
    name: str,
    agent: Any = None,
    expires: str | None = None,
) -> tuple[Done, str]:
    """A link for somebody, and its token, which nobody can read again: the log has only its hash."""
    done, (token,) = issue_links(
        log, campaign, request, [(name, agent)], role=role, expires=expires
    )
    return done, token


def issue_links(
    log: Log,
    campaign: str,
    request: Request,
    holders: Iterable[tuple[str, Any]],
    *,
    role: str,
    expires: str | None = None,
) -> tuple[Done, list[str]]:
    """Links for several, all of them or none: of each the name, and the one agent it is for or None; and their tokens."""
    choice(role, "role", ROLES)
    whose = list(holders)
    links = [secrets.token_hex(ID_BYTES) for _ in whose]
    tokens = [f"hb_{campaign}_{link}_{secrets.token_urlsafe(TOKEN_BYTES)}" for link in links]

    def make(state: State) -> list[Draft]:
        until = None if expires is None else moment(expires, "expires")
        if until is not None and until <= moment(now()):
            raise InvalidInput(f"expires is {shown(expires)}: a time to come")
        if until is not None and role != VIEWER and until <= moment(next_time(state)):
            raise InvalidInput(
                f"expires is {shown(expires)}: what happened last in this campaign is of {state.changed}, by a clock that was ahead, "
                "and nothing could be written with the link; let it end after that"
            )
        if role != VIEWER:  # of whom nothing is ever written
            check_holders(state, whose)
        return [
            Draft("link issued", {
                "link": link,
                "role": role,
                "name": called(name),
                "agent": None if agent is None else id_of("agent", state.agent(agent)),
                "expires": None if until is None else timestamp(until),
                "token_hash": token_hash(token),
            })
            for link, token, (name, agent) in zip(links, tokens, whose, strict=True)
        ]  # fmt: skip

    return log.write(campaign, request, make), tokens


def check_holders(state: State, holders: Iterable[tuple[str, Any]]) -> None:
    """Refuse names that look like the name of another who holds a link, or of the server's owner: histories say who by name.

    Several links of one agent may have one name, and an agent's link may have the agent's, but for the owner's.
    """
    reserved = {likeness(OWNER), likeness(SERVER)}
    taken: list[tuple[str, int | None]] = [(OWNER, None), (SERVER, None)]
    writing = (one for one in state.links.values() if one.role != VIEWER and one.holds(now()))
    taken += [(link.name, link.agent) for link in writing]
    whose = {likeness(name): agent for name, agent in taken}
    for name, key in holders:
        agent = None if key is None else state.agent(key)
        like = likeness(called(name))
        named = agent is not None and name == state.agents[agent].name and like not in reserved
        own = named or (agent is not None and whose.get(like) == agent)
        if like in whose and not own:
            raise InvalidInput(
                f"name is {shown(name)}: the history would not tell it from another who holds a link, or from the "
                "server's owner; give another name, or revoke that link first"
            )
        whose[like] = agent


def revoke_link(log: Log, campaign: str, request: Request, link: str) -> Done:
    """A link no longer opens anything, however much is written with it meanwhile."""

    def make(state: State) -> list[Draft]:
        return [Draft("link revoked", {"link": link})]

    return log.write(campaign, request, make, gives_way=False)


def revoke_open_links(log: Log, request: Request) -> Iterator[tuple[Found, int]]:
    """All campaigns, each with how many links were open in it and are revoked; of one that cannot be read none is."""
    for campaign in all_found(log):
        links = {} if campaign.state is None else campaign.state.links
        still = [link.id for link in links.values() if link.holds(now())]
        for link in still:
            revoke_link(log, campaign.campaign, request, link)
        yield campaign, len(still)


def token_hash(token: str) -> str:
    """What is kept of a token: 256 random bits need no salt."""
    return hashlib.sha256(token.encode()).hexdigest()


def history(log: Log, campaign: str, after: int = 0, upto: int | None = None) -> list[Event]:
    """The events after number `after`."""
    log.store.head(campaign)
    return log.store.read(campaign, after, upto)


def history_part(log: Log, campaign: str, after: int, upto: int) -> list[Event]:
    """The first of the events after number `after`, up to `upto`: as many as have `PART_BYTES`, but one at least."""
    sizes = accumulate(log.store.sizes(campaign, after, upto))
    fitting = sum(size <= PART_BYTES for size in sizes)
    return log.store.read(campaign, after, min(upto, after + max(1, fitting)))


def recorded_plan(log: Log, state: State, round: PlannedRound) -> list[Assigned]:
    """Who was sent where in a round, and why, as it was recorded."""
    (event,) = log.store.read(state.campaign, round.event - 1, round.event)
    return [assigned_from(state, one) for one in event.body["assignments"]]


def explain(log: Log, campaign: str, round: int | None = None) -> dict[int, Explanation]:
    """Why a round sent each agent where it was planned to go, from what was known then; of the last round if none is named."""
    state = log.state(campaign)
    at = state.round(len(state.rounds) if round is None else round)
    return Preview.of(log.at(campaign, at.event - 1), at.given).explanations


def export(log: Log, campaign: str) -> str:
    """All events, a line of JSON for each."""
    return "".join(f"{line(event)}\n" for event in history(log, campaign))


def import_events(
    log: Log,
    request: Request,
    text: str,
    *,
    keep_links: bool = False,
    tell: Tell = lambda share: None,
) -> Done:
    """The campaign that was exported, with the same events and hashes; what is there already goes on from where it stands.

    Whoever wrote the file may have sealed it anew, and knows the tokens of its links. So if any of the new events was by a
    link, the log says that they were imported; and links that are new here are revoked, unless they are to be kept. It tells
    how far the looking is, which may end it; once it writes, it writes all.
    """
    again = log.repeated(ELSEWHERE, request)
    if again is not None:
        return again
    given = [row for row in text.removeprefix("\ufeff").split("\n") if row.strip()]
    rows = [from_line(row) for row in announce(given, tell, 0.0, 0.3)]
    events = list(check_chain(announce(rows, tell, 0.3, 0.6)))
    if not events:
        raise InvalidInput("nothing to import: a file of events, a line of JSON for each")
    for who in {event.who for event in events}:
        called(who, "who")
    for event in events:
        if event.key is not None:
            plain(event.key, "key")
        if is_ahead(event.time):
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
            f"there is a campaign {shown(campaign)} with another history: they part after event "
            f"{common(events, there)}"
        )
    if len(events) > len(there):
        new = events[len(there) :]
        new += events_after_import(events, len(there), request, keep_links, tell)
        log.append(new, ELSEWHERE, request)
        return Done(log.state(campaign), new)
    log.check_owner(request)
    return Done(log.state(campaign), [])


def events_after_import(
    events: list[Event], known: int, request: Request, keep: bool, tell: Tell
) -> list[Event]:
    """What follows on events from elsewhere, which are checked here.

    If any after event `known` was by a link, they are said to be imported; the links among them are revoked, unless they are kept.
    """
    try:
        state = fold(announce(events, tell, 0.6, 1.0))
    except LinkEnded as error:  # which is no fault of the link that imports
        raise InvalidInput(
            f"an event of the file is by a link that did not hold: {error}"
        ) from None
    came = [] if keep else [one for one in state.links.values() if one.event > known]
    drafts = [Draft("link revoked", {"link": one.id}) for one in came if not one.revoked]
    if any(event.link is not None for event in events[known:]):
        drafts.insert(0, Draft("imported", {"first": known + 1, "last": len(events)}))
    return seal_drafts(drafts, state, request)


def common(one: list[Event], other: list[Event]) -> int:
    """How many first events two histories have in common."""
    same = 0
    for a, b in zip(one, other, strict=False):
        if a.hash != b.hash:
            break
        same += 1
    return same


def digest_of(*parts: Any) -> str:
    """What tells requests with the same idempotency key apart."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
