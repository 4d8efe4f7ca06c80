"""What people do with a campaign: plain functions of a repository, the campaign's id, and the author.

A function that changes something returns a `WriteResult`: the state after it and the events that were written. What only looks
takes a state, which `Log.state` has.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import accumulate
from typing import Any, Literal, NamedTuple

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
    AlreadyReported,
    LinkEnded,
    check_pairs,
    fold_events,
    parse_circumstances,
    policy_body,
    state_after_drafts,
)
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import LINK_ROLES, Link, State, member_id, parse_time
from heterobandits.campaigns.storage.link_keys import token_of_link
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
    parse_ends,
    parse_new_name,
    parse_note,
    parse_on_change,
    parse_plain_text,
    parse_policy,
    parse_prior_kind,
    parse_report_note,
    parse_season,
    parse_seed,
)
from heterobandits.campaigns.words import parse_words
from heterobandits.errors import InvalidInput, parse_choice, parse_delta, parse_list, repr_of
from heterobandits.model.prior import PriorKind, parse_stated_prior
from heterobandits.planner.knowledge import Forgetting, OnChange
from heterobandits.planner.plans import Explanation
from heterobandits.planner.roster import REVISED_SINCE_CHOICES, RevisedSince
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords

VIEWER_ROLE = "viewer"
# whose links can be shown again: those of an owner or a planner open too much to be made by a key on a disk
PRINTED_ROLES = ("reporter", VIEWER_ROLE)
TOKEN_BYTES = 32
PART_BYTES = 1_000_000  # of events that are read at once: a tenth of a second
ID_BYTES = 6


ENTRY_CLOCK_TOLERANCE = timedelta(minutes=5)  # by which a phone's clock may differ from ours


class Stale(InvalidInput):
    """A correction of something that has changed since its author last looked."""


class ReportDetails(NamedTuple):
    """What may be said with the report of a visit.

    `planned` is the event that planned its round, `elsewhere` the arm where the agent was instead, `entered` when it was typed by
    a clock that said `clock` when it was sent, and `note` a short text, empty for none.
    """

    planned: int | None = None
    elsewhere: Any = None
    entered: str | None = None
    clock: str | None = None
    note: str | None = None


def create(log: Repository, request: Author, **given: Any) -> WriteResult:
    """Create a campaign from what `body_of_creation` takes; its id is `done.state.campaign`."""
    return begin(log, request, body_of_creation(**given))


def begin(log: Repository, request: Author, body: dict[str, Any]) -> WriteResult:
    """Create a campaign from what `body_of_creation` has made."""
    return log.begin(secrets.token_hex(ID_BYTES), request, [Draft("created", body)])


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
    return heed_changes_in(state, {round}, drafts)


def heed_changes_in(state: State, rounds: Iterable[int], drafts: list[Draft]) -> list[Draft]:
    """The same for the arms of several rounds."""
    if state.on_change == "nothing" or not drafts:
        return drafts
    after = state_after_drafts(state, drafts)
    arms = arms_to_forget(
        after, sorted({arm for number in rounds for _, arm in after.round(number).sent})
    )
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
        return heed_changes(state, round, [Draft("overridden", body)])

    return log.write(campaign, request, make)


def report(
    log: Repository,
    campaign: str,
    request: Author,
    round: int,
    outcomes: Mapping[Any, Any],
    role: str = "owner",
    said: ReportDetails = ReportDetails(),  # noqa: B008 - a tuple
) -> WriteResult:
    """Report outcomes of visits, all or none: by agent, or by (agent, arm) for an agent that went to several.

    An outcome is 0, 1, a pair (successes, tests), or "not done". What is reported already is refused, unless it is the same;
    and more tests than somebody of this role may report. With `said.elsewhere` the one visit was at another arm than planned.
    """

    def make(state: State) -> list[Draft]:
        return heed_changes(state, round, report_drafts(state, round, outcomes, role, said))

    return log.write(campaign, request, make)


def correct(
    log: Repository,
    campaign: str,
    request: Author,
    round: int,
    outcomes: Mapping[Any, Any],
    seen: int | None = None,
    role: str = "owner",
    said: ReportDetails = ReportDetails(),  # noqa: B008 - a tuple
) -> WriteResult:
    """Replace reported outcomes; refused if they have changed since event `seen`. A note that is not given stays."""

    def make(state: State) -> list[Draft]:
        made = outcome_drafts(state, "corrected", round, outcomes, role, seen, said)
        return heed_changes(state, round, made)

    return log.write(campaign, request, make)


def withdraw(
    log: Repository,
    campaign: str,
    request: Author,
    round: int,
    agents: Iterable[Any],
    seen: int | None = None,
    planned: int | None = None,
) -> WriteResult:
    """Take back what these agents (or pairs of agent and arm) reported for a round."""
    which = list(agents)

    def make(state: State) -> list[Draft]:
        return heed_changes(state, round, withdrawal_drafts(state, round, which, seen, planned))

    return log.write(campaign, request, make)


def withdrawal_drafts(
    state: State,
    round: int,
    agents: Iterable[Any],
    seen: int | None = None,
    planned: int | None = None,
) -> list[Draft]:
    """An event for each of these reports that is taken back."""
    at = round_of_plan(state, round, planned)
    pairs = [find_visit(state, at, key) for key in agents]
    for pair in pairs:
        check_unchanged_since(state, at, pair, seen)
    return [Draft("withdrawn", body_of_visit(at, pair)) for pair in pairs]


def round_of_plan(state: State, round: int, planned: int | None) -> PlannedRound:
    """The round of this number, if event `planned` is the one that planned it: a number may be used again."""
    if planned is None:
        return state.round(round)
    if not 1 <= round <= len(state.rounds):
        raise Stale(f"Round {round} was cancelled since.")
    at = state.round(round)
    if at.event != planned:
        raise Stale(f"Round {round} was planned anew since: look at what it says now.")
    return at


def report_drafts(
    state: State,
    round: int,
    outcomes: Mapping[Any, Any],
    role: str = "owner",
    said: ReportDetails = ReportDetails(),  # noqa: B008 - a tuple
) -> list[Draft]:
    """First reports, and before that of somebody who was elsewhere than planned where that was."""
    if said.elsewhere is None:
        return outcome_drafts(state, "reported", round, outcomes, role, None, said)
    at = round_of_plan(state, round, said.planned)
    if len(outcomes) != 1:
        raise InvalidInput("elsewhere is given for several visits: it is of one")
    ((key, outcome),) = outcomes.items()
    agent, arm = find_visit(state, at, key)
    there = state.arm(said.elsewhere)
    arms, name = at.arms_of(agent), state.agents[agent].name
    moves: list[Draft] = []
    if there not in arms:  # unless that is known already
        if arm not in arms:
            raise InvalidInput(
                f"round {round} does not send {name!r} to {state.arms[arm].name!r} any more: look at what it says now"
            )
        if (agent, arm) in at.told:
            raise AlreadyReported(
                f"{at.visit_text(name, state.arms[arm].name)} is reported already: delete that report first"
            )
        places = [member_id("arm", there if n == arm else n) for n in arms]
        body = {"round": round, "agent": member_id("agent", agent), "arms": places}
        moves.append(Draft("overridden", body))
        state = state_after_drafts(state, moves)
    return moves + outcome_drafts(
        state,
        "reported",
        round,
        {(member_id("agent", agent), said.elsewhere): outcome},
        role,
        None,
        said,
    )


def outcome_drafts(
    state: State,
    kind: str,
    round: int,
    outcomes: Mapping[Any, Any],
    role: str = "owner",
    seen: int | None = None,
    said: ReportDetails = ReportDetails(),  # noqa: B008 - a tuple
) -> list[Draft]:
    """An event of this kind for each outcome that is not known yet as it is given."""
    at = round_of_plan(state, round, said.planned)
    note = None if said.note is None else said.note and parse_report_note(said.note)
    when = bounded_entry(said.entered, said.clock, at)
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
        stands = "" if told is None else told.note
        text = stands if note is None else note
        if told is None or (told.counts, stands) != (counts, text):
            check_amount(state, at, pair, counts, role)
            more = {name: value for name, value in (("entered", when), ("note", text)) if value}
            made.append(Draft(kind, body_of_visit(at, pair) | body_of_counts(counts) | more))
    return made


class VisitOutcome(NamedTuple):
    """An outcome of a visit among many: where it stands, for messages, and the visit by round, agent and arm, which may be left out.

    `seen` is the last event that its author knew of, or None if that does not matter.
    """

    place: str
    round: Any
    agent: Any
    arm: Any
    outcome: Any
    seen: int | None = None


class OutcomeEffect(NamedTuple):
    """What an outcome among many would do: nothing, where `draft` is None, as it is known already; or why it cannot be."""

    entry: VisitOutcome
    visit: tuple[int, tuple[int, int]] | None = None
    draft: Draft | None = None
    wrong: str | None = None


def effects_of_outcomes(
    state: State, entries: Iterable[VisitOutcome], role: str = "owner"
) -> list[OutcomeEffect]:
    """What each of these outcomes would do; a visit that is told already is corrected."""
    places: dict[tuple[int, tuple[int, int]], str] = {}
    made = []
    for entry in entries:
        try:
            at = state.round(entry.round)
            key = entry.agent if entry.arm is None else (entry.agent, entry.arm)
            pair = find_visit(state, at, key)
            visit = at.number, pair
            if visit in places:
                raise InvalidInput(f"this visit stands in {places[visit]} already")
            places[visit] = entry.place
            check_destination(state, at, pair)
            told = at.told.get(pair)
            counts = parse_campaign_outcome(entry.outcome, state.agents[pair[0]].name)
            draft = None
            if told is None or told.counts != counts:
                check_unchanged_since(state, at, pair, entry.seen)
                check_amount(state, at, pair, counts, role)
                kind = "reported" if told is None else "corrected"
                draft = Draft(kind, body_of_visit(at, pair) | body_of_counts(counts))
            made.append(OutcomeEffect(entry, visit, draft))
        except InvalidInput as error:
            made.append(OutcomeEffect(entry, wrong=str(error)))
    return made


def report_many(
    log: Repository,
    campaign: str,
    request: Author,
    entries: Iterable[VisitOutcome],
    role: str = "owner",
) -> WriteResult:
    """Report or correct outcomes of visits of any rounds, all or none; all mistakes are named at once."""
    given = list(entries)
    return log.write(campaign, request, lambda state: drafts_of_outcomes(state, given, role))


def outcomes_ahead(
    state: State, entries: Iterable[VisitOutcome], role: str = "owner"
) -> Callable[[State], list[Draft]]:
    """The same for `write`, with mistakes raised at once.

    The events are made of this state before others wait for them to be written; of another state they are made once more.
    """
    given = list(entries)
    made = drafts_of_outcomes(state, given, role)
    return lambda now: made if now.hash == state.hash else drafts_of_outcomes(now, given, role)


def drafts_of_outcomes(state: State, entries: Iterable[VisitOutcome], role: str) -> list[Draft]:
    """The events of these outcomes and what follows from them; all mistakes are named at once."""
    errors, drafts, rounds = FieldErrors(), list[Draft](), set[int]()
    for effect in effects_of_outcomes(state, entries, role):
        if effect.wrong is not None:
            errors.note((effect.entry.place, effect.wrong))
        elif effect.draft is not None and effect.visit is not None:
            drafts.append(effect.draft)
            rounds.add(effect.visit[0])
    errors.end()
    return heed_changes_in(state, rounds, drafts)


def check_destination(state: State, round: PlannedRound, pair: tuple[int, int]) -> None:
    """Refuse an outcome of a place where the agent was not sent."""
    agent, arm = pair
    if arm not in round.arms_of(agent):
        places = " and ".join(state.arms[n].name for n in round.arms_of(agent)) or "nowhere"
        raise InvalidInput(
            f"round {round.number} sent {state.agents[agent].name!r} to {places}, and not to {state.arms[arm].name!r}: "
            "if it was otherwise, change the round by hand first"
        )


def bounded_entry(entered: str | None, clock: str | None, at: PlannedRound) -> str | None:
    """When somebody typed a report, by our clock, if that can be; a wrong clock is no reason to refuse a report.

    `clock` is what the phone's clock said when it sent the report: as long ago as it says that this was typed, it was. What would
    then be after now, or before the round was planned, is left out, but for the minutes by which clocks may differ.
    """
    if entered is None:
        return None
    now = parse_time(utc_now())
    moment = parse_time(entered, "entered")
    try:
        if clock is not None:
            moment += now - parse_time(clock, "clock")
        if not parse_time(at.time) - ENTRY_CLOCK_TOLERANCE <= moment <= now + ENTRY_CLOCK_TOLERANCE:
            return None
    except OverflowError:
        return None
    return render_timestamp(min(moment, now))


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
    """Issue a link, and return its token: the log has only its hash, and only the key of links can make it again."""
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
    secret = log.store.link_keys.settle() if role in PRINTED_ROLES else None
    tokens = [token_of_link(campaign, link, secret) for link in links]

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


def find_token(log: Repository, state: State, link: Link) -> str | None:
    """The token of a link, made again; None if it is another role's, or was not made with the key that there is now."""
    return find_tokens(log, state, [link]).get(link.id)


def find_tokens(log: Repository, state: State, links: Iterable[Link]) -> dict[str, str]:
    """The tokens of those of these links that can be made again, by the link's id."""
    secret = log.store.link_keys.find()
    if secret is None:
        return {}
    tokens = {
        link: token_of_link(state.campaign, link.id, secret)
        for link in links
        if link.role in PRINTED_ROLES
    }
    return {
        link.id: token for link, token in tokens.items() if hash_of_token(token) == link.token_hash
    }


def living_links(log: Repository, state: State) -> dict[int, tuple[Link, str]]:
    """The link of each agent that can be printed again, with its token: of several the one that holds longest, then the newest."""
    time = utc_now()
    holding = [one for one in state.links.values() if one.agent is not None and one.holds(time)]
    tokens = find_tokens(log, state, holding)
    found: dict[int, tuple[Link, str]] = {}
    for link in holding:
        if link.agent is not None and link.id in tokens:
            had = found.get(link.agent)
            if had is None or has_later_end(link, had[0]):
                found[link.agent] = link, tokens[link.id]
    return found


def has_later_end(one: Link, other: Link) -> bool:
    """Whether a link holds as long as another, or longer."""
    if one.expires is None or other.expires is None:
        return one.expires is None
    return parse_time(one.expires) >= parse_time(other.expires)


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


def revoke_some_links(
    log: Repository, campaign: str, request: Author, links: Iterable[str]
) -> WriteResult:
    """Revoke several links in one write; those that are revoked already stay so."""
    which = list(links)

    def make(state: State) -> list[Draft]:
        still = (link for link in which if not (link in state.links and state.links[link].revoked))
        return [Draft("link revoked", {"link": link}) for link in still]

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
    return Preview.of(before, at.given, counted=has_counted(event.body)).explanations()


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
