"""What visits found: outcomes are reported, corrected and taken back, one by one or many at once.

In a campaign that forgets arms that have changed, an event for each such arm follows.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from heterobandits.campaigns.amounts import check_amount
from heterobandits.campaigns.analysis.answers import arms_to_forget
from heterobandits.campaigns.events import Draft, render_timestamp, utc_now
from heterobandits.campaigns.reducer import AlreadyReported, state_after_drafts
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State, member_id, parse_time
from heterobandits.campaigns.storage.repository import Author, Repository, WriteResult
from heterobandits.campaigns.validation import (
    FieldErrors,
    parse_campaign_outcome,
    parse_report_note,
)
from heterobandits.errors import InvalidInput

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


def body_of_forgetting(state: State, arm: int, because: str) -> dict[str, Any]:
    """An arm that is forgotten, as the body of an event."""
    return {"arm": member_id("arm", arm), "round": len(state.rounds), "because": because}


def heed_changes(state: State, drafts: list[Draft]) -> list[Draft]:
    """These and, in a campaign that forgets arms that have changed, an event for each arm that shows it by them.

    Only arms are looked at of which they say something: a report of one visit takes the same time in a round of a thousand.
    """
    if state.on_change == "nothing" or not drafts:
        return drafts
    after = state_after_drafts(state, drafts)
    arms = arms_to_forget(after, sorted(arms_of_drafts(state, drafts)))
    return drafts + [Draft("arm forgotten", body_of_forgetting(after, n, "change")) for n in arms]


def arms_of_drafts(state: State, drafts: Iterable[Draft]) -> set[int]:
    """The arms of which outcomes come, go or change by these."""
    arms = set()
    for kind, body in drafts:
        if kind == "overridden":
            agent = state.agent(body["agent"])
            arms |= {*state.round(body["round"]).arms_of(agent), *map(state.arm, body["arms"])}
        else:
            arms.add(state.arm(body["arm"]))
    return arms


def report_outcomes(
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
        return heed_changes(state, report_drafts(state, round, outcomes, role, said))

    return log.write(campaign, request, make)


def correct_outcomes(
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
        return heed_changes(state, made)

    return log.write(campaign, request, make)


def withdraw_outcomes(
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
        return heed_changes(state, withdrawal_drafts(state, round, which, seen, planned))

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
    errors, drafts = FieldErrors(), list[Draft]()
    for effect in effects_of_outcomes(state, entries, role):
        if effect.wrong is not None:
            errors.note((effect.entry.place, effect.wrong))
        elif effect.draft is not None:
            drafts.append(effect.draft)
    errors.end()
    return heed_changes(state, drafts)


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
