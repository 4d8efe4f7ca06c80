"""The fold: a state and the events after it make the next state. Each kind of event has one function, which checks it first.

What cannot be is refused here, whoever wrote the event: the service asks the fold before it appends, and a log from
elsewhere is folded before it is kept.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from heterobandits.campaigns.events import (
    EVENT_KINDS,
    GENESIS_HASH,
    OWNER_NAME,
    SERVER_LINK,
    Draft,
    Event,
    is_timestamp,
    refuse_newer,
    seal_events,
    utc_now,
)
from heterobandits.campaigns.reasons import assigned_from, has_counted
from heterobandits.campaigns.rounds import PlannedRound, RoundGiven, Rounds
from heterobandits.campaigns.state import (
    LINK_ROLES,
    Agent,
    Arm,
    Link,
    State,
    parse_time,
)
from heterobandits.campaigns.validation import (
    CAMPAIGN_MAX_PAIRS,
    parse_agents,
    parse_arms,
    parse_display_name,
    parse_ends,
    parse_known_prior_kind,
    parse_new_name,
    parse_note,
    parse_on_change,
    parse_policy,
    parse_report_note,
    parse_season,
    parse_seed,
)
from heterobandits.campaigns.words import parse_words
from heterobandits.errors import (
    InvalidInput,
    parse_choice,
    parse_integer,
    parse_list,
    repr_of,
)
from heterobandits.limits import COUNT_MAX
from heterobandits.model.prior import parse_shape
from heterobandits.planner.history import parse_visit_outcome
from heterobandits.planner.knowledge import (
    add_forgetting,
    cut_forgettings,
    forget_again,
    take_back,
)
from heterobandits.planner.matching import AgentArm
from heterobandits.planner.planner import check_retirement, check_size
from heterobandits.planner.roster import (
    REVISED_SINCE_CHOICES,
    AgentRow,
    RevisedSince,
    revise_rows,
)
from heterobandits.planner.visits import Outcome, VisitReport
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords, words_of_body

EventBody = Mapping[str, Any]
CAMPAIGN_ID_PATTERN = re.compile("[0-9a-f]{12}")  # an id of a campaign or a link
NOWHERE = "0" * 12  # the id of a campaign that is written nowhere
HASH_PATTERN = re.compile("[0-9a-f]{64}")
# what that needs
REPLANNING_FIELD_TYPES = {"policy": dict, "seed": int, "index": str, "made_with": dict}
# what a state derives of agents and arms, and keeps
CACHED_STATE_FIELDS = ("team", "arm_names", "agent_names", "arm_numbers", "agent_numbers")


OWNER_ROLES = frozenset({"owner"})
PLANNER_ROLES = OWNER_ROLES | {"planner"}
REPORTER_ROLES = PLANNER_ROLES | {"reporter"}
PLANNER_EVENT_KINDS = {
    "round planned", "overridden", "arm forgotten", "arm remembered", "round closed", "note",
    "round cancelled", "round reopened"
}  # fmt: skip
REPORTER_EVENT_KINDS = {"reported", "corrected", "withdrawn"}
WRITER_ROLES_BY_KIND = {  # the roles whose links may write a kind of event
    kind: REPORTER_ROLES
    if kind in REPORTER_EVENT_KINDS
    else PLANNER_ROLES
    if kind in PLANNER_EVENT_KINDS
    else OWNER_ROLES
    for kind in EVENT_KINDS
} | {"imported": frozenset()}


class LinkEnded(InvalidInput):
    """A write with a link that is not valid, or not any more."""


def fold_events(events: Iterable[Event], state: State | None = None) -> State:
    """The state after these events; `state` itself stays as it is."""
    following = iter(events)
    if state is None:
        first = next(following, None)
        if first is None:
            raise InvalidInput("a campaign without events: the first says how it was created")
        made: State = _name_damaged_event(first, lambda: apply_creation(first))
    else:
        made = replace(
            state,
            agents=list(state.agents),
            rows=list(state.rows),
            arms=list(state.arms),
            rounds=state.rounds.copy(),
            links=dict(state.links),
            pulls=state.pulls.copy(),
            successes=state.successes.copy(),
        )
        kept = {
            name: state.__dict__[name] for name in CACHED_STATE_FIELDS if name in state.__dict__
        }
        made.__dict__.update(kept)
    for event in following:
        _apply_event(made, event)
    return made


def state_after_drafts(state: State | None, drafts: Iterable[Draft]) -> State:
    """The state as it would be after these, which are written nowhere; without a state they begin a campaign."""
    if state is None:
        where, number, previous, time = NOWHERE, 0, GENESIS_HASH, utc_now()
    else:
        where, number, previous = state.campaign, state.number, state.hash
        time = max(state.changed, utc_now())
    return fold_events(
        seal_events(drafts, where, after=number, previous=previous, time=time, who="-"), state
    )


def _apply_event(state: State, event: Event) -> None:
    """Apply an event to a state that nobody else uses."""
    refuse_newer(event, f"event {event.number}")
    if event.number != state.number + 1:
        raise InvalidInput(f"event {event.number} does not follow on event {state.number}")
    check_link(state, event.link, event.time)
    _name_damaged_event(event, lambda: check_writer(state, event))
    _name_damaged_event(event, lambda: REDUCER_BY_KIND[event.kind](state, event))
    state.number, state.hash, state.changed = event.number, event.hash, event.time


def check_link(state: State, link: str | None, time: str) -> None:
    """Refuse a write with a link that does not exist or is no longer valid."""
    if link is None or link == SERVER_LINK:
        return
    known = state.links.get(link)
    if known is None or not known.holds(time):
        ended = "not of this campaign" if known is None else "revoked, or has expired"
        raise LinkEnded(f"the link {repr_of(link)} is {ended}: ask for another one")


def check_writer(state: State, event: Event) -> None:
    """Refuse what is written with a link of another name, of a role that writes no such events, or for another agent."""
    if event.link is None:
        return
    if event.link == SERVER_LINK:
        check_name(event, OWNER_NAME)
        return
    link = state.links[event.link]
    check_name(event, link.name)
    if is_change_heeded(state, event):  # by the campaign, with whatever report showed the change
        return
    allowed = WRITER_ROLES_BY_KIND[event.kind]
    if event.kind == "overridden" and link.agent is not None:  # who says where they were
        allowed = REPORTER_ROLES
    if link.role not in allowed:
        raise InvalidInput(
            f"event {event.number}, {event.kind}, is by a {link.role}'s link, which writes no such events"
        )
    if link.agent is not None and state.agent(event.body["agent"]) != link.agent:
        raise InvalidInput(
            f"event {event.number}, {event.kind}, is by a link that is for the reports of one agent, who is another"
        )


def is_change_heeded(state: State, event: Event) -> bool:
    """Whether an event forgets an arm because it has changed, in a campaign that does so by itself."""
    heeded = event.kind == "arm forgotten" and event.body["because"] == "change"
    return heeded and state.on_change == "forget"


def check_name(event: Event, name: str) -> None:
    """Refuse an event that says another name than that of whoever holds its link."""
    if event.who != name:
        raise InvalidInput(
            f"event {event.number}, {event.kind}, says that {repr_of(event.who)} wrote it, by the link of {repr_of(name)}"
        )


def _name_damaged_event(event: Event, apply: Callable[[], Any]) -> Any:
    """Call `apply`, and name the event if its body lacks something."""
    try:
        return apply()
    except InvalidInput:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"event {event.number}, {event.kind}, is damaged: an entry is missing or of the wrong kind ({error})"
        ) from None


def apply_creation(event: Event) -> State:
    """The state in which a campaign begins."""
    refuse_newer(event, "event 1")
    if event.kind != "created" or event.number != 1:
        raise InvalidInput(f"event 1 is {repr_of(event.kind)}: a campaign begins with 'created'")
    if event.link not in (None, SERVER_LINK):
        raise LinkEnded(f"event 1 has the link {repr_of(event.link)}: there is none yet")
    if event.link == SERVER_LINK:
        check_name(event, OWNER_NAME)
    if not CAMPAIGN_ID_PATTERN.fullmatch(event.campaign):
        raise InvalidInput(
            f"campaign is {repr_of(event.campaign)}: an id of 12 letters from 0 to f"
        )
    body = event.body
    season = parse_season(body["season"])
    state = State(
        campaign=event.campaign,
        number=event.number,
        hash=event.hash,
        created=event.time,
        changed=event.time,
        name=parse_display_name(body["name"]),
        agents=[],
        rows=[],
        arms=[],
        policy=parse_policy(**body["policy"], season=season),
        seed=parse_seed(body["seed"]),
        season=season,
        rounds=Rounds([]),
        links={},
        pulls=np.zeros((0, 0), np.int64),
        successes=np.zeros((0, 0), np.int64),
        waiting=frozenset(),
        plans_by=parse_known_prior_kind(body.get("prior", "stated")),
        on_change=parse_on_change(body.get("on_change", "nothing")),
        ends=parse_ends(body.get("ends")),
        words=words_of_event(body) if "words" in body else DEFAULT_WORDS,
    )
    _add_arms(state, body["arms"])
    _add_agents(state, body["agents"])
    return state


def apply_agents(state: State, event: Event) -> None:
    """Add agents, from the next round on."""
    _add_agents(state, event.body["agents"])


def apply_arms(state: State, event: Event) -> None:
    """Add arms, from the next round on."""
    _add_arms(state, event.body["arms"])


def _add_agents(state: State, given: Any) -> None:
    check_pairs(state, agents=given)
    new = parse_agents(given, [agent.name for agent in state.agents])
    going = sum(not agent.retired for agent in state.agents) + len(new)
    check_size(going, sum(not arm.retired for arm in state.arms))
    for name, reports in new:
        state.agents.append(Agent(name, len(state.rows)))
        state.rows.append(AgentRow(len(state.agents) - 1, state.next_round, reports))
    _widen_tables(state)


def _add_arms(state: State, given: Any) -> None:
    check_pairs(state, arms=given)
    # a prior in words would be another one by another version
    new = parse_arms(given, [arm.name for arm in state.arms], stated=parse_shape)
    state.arms.extend(
        Arm(arm.name, since=state.next_round, prior=arm.prior, fixed=arm.prior) for arm in new
    )
    _widen_tables(state)


def check_pairs(state: State, agents: Any = (), arms: Any = ()) -> None:
    """Refuse more agents or arms than a campaign may have, before anything else is looked at of them."""
    news = (len(new) if isinstance(new, (list, tuple)) else 0 for new in (agents, arms))
    rows, arms = map(sum, zip((len(state.rows), len(state.arms)), news, strict=True))
    if rows * arms > CAMPAIGN_MAX_PAIRS:
        raise InvalidInput(
            f"there would be {rows:,} agents and {arms:,} arms: at most {CAMPAIGN_MAX_PAIRS:,} pairs of them"
        )


def _widen_tables(state: State) -> None:
    """Make room in the tables for new agents and arms."""
    more = [
        (0, size - had)
        for size, had in zip((len(state.rows), len(state.arms)), state.pulls.shape, strict=True)
    ]
    state.pulls, state.successes = np.pad(state.pulls, more), np.pad(state.successes, more)
    _drop_cached_names(state)


def _drop_cached_names(state: State) -> None:
    """Drop the cached names and team, so that they are derived again."""
    for name in CACHED_STATE_FIELDS:
        state.__dict__.pop(name, None)


def apply_rename(state: State, event: Event) -> None:
    """Rename an agent, an arm or the campaign; its id stays."""
    kind, key, name = event.body["what"], event.body.get("id"), event.body["name"]
    parse_choice(kind, "what", ("agent", "arm", "campaign"))
    if kind == "campaign":
        state.name = parse_display_name(name)
        return
    members: list[Any] = state.agents if kind == "agent" else state.arms
    n = state.member(kind, key)
    others = [one.name for i, one in enumerate(members) if i != n]
    members[n] = replace(members[n], name=parse_new_name(name, others))
    _drop_cached_names(state)


def apply_retirement(state: State, event: Event) -> None:
    """Stop planning with an agent or arm from the next round on; its outcomes still count."""
    _set_retirement(state, event.body, True)


def apply_return(state: State, event: Event) -> None:
    """Plan again with an agent or arm that was retired."""
    _set_retirement(state, event.body, False)


def _set_retirement(state: State, body: EventBody, gone: bool) -> None:
    kind = parse_choice(body["what"], "what", ("agent", "arm"))
    members: list[Any] = state.agents if kind == "agent" else state.arms
    n = state.member(kind, body["id"])  # type: ignore[arg-type]
    left = sum(not one.retired for one in members) + (-1 if gone else 1)
    check_retirement(kind, members[n].name, members[n].retired, gone, left)
    members[n] = replace(members[n], retired=gone)
    _drop_cached_names(state)


def apply_revision(state: State, event: Event) -> None:
    """Change how an agent reports: from now on if the agent has changed, or always if the statement was wrong."""
    body = event.body
    agent = state.agent(body["id"])
    since = cast(RevisedSince, parse_choice(body["since"], "since", REVISED_SINCE_CHOICES))
    given = {"name": state.agents[agent].name} | dict(body["reports"])
    ((_, reports),) = parse_agents([given], place=lambda i: "reports")
    went = any(round.arms_of(agent) for round in state.rounds)
    if since == "now" and went:
        check_pairs(state, agents=[reports])
    state.rows = revise_rows(state.rows, agent, reports, since, state.next_round, went)
    if len(state.rows) > len(state.pulls):
        state.agents[agent] = replace(state.agents[agent], row=len(state.rows) - 1)
    _widen_tables(state)


def apply_arm_revision(state: State, event: Event) -> None:
    """Change what is stated of an arm's mean; what is certain goes by it only if nothing was ever reported of the arm."""
    n = state.arm(event.body["id"])
    prior = parse_shape(event.body["prior"], "prior")
    fixed = state.arms[n].fixed if state.arms[n].seen else prior
    state.arms[n] = replace(state.arms[n], prior=prior, fixed=fixed)
    _drop_cached_names(state)


def apply_prior(state: State, event: Event) -> None:
    """Change what plans go by where nothing is stated of an arm, from the next round on."""
    state.plans_by = parse_known_prior_kind(event.body["prior"])
    _drop_cached_names(state)


def apply_policy(state: State, event: Event) -> None:
    """Change the policy, or what happens when an arm has changed, from now on."""
    state.on_change = parse_on_change(event.body.get("on_change", state.on_change))
    state.policy = parse_policy(**event.body["policy"], season=state.season)
    _drop_cached_names(state)


def apply_season(state: State, event: Event) -> None:
    """Change the number of rounds in the season, and the day on which it ends, if that is said."""
    season = parse_season(event.body["season"])
    state.ends = parse_ends(event.body.get("ends", state.ends))
    if season is not None and season < len(state.rounds):
        raise InvalidInput(f"season is {season}: {len(state.rounds)} rounds are planned already")
    state.policy = parse_policy(**policy_body(state.policy), season=season)
    state.season = season
    _drop_cached_names(state)


def policy_body(policy: Any) -> dict[str, Any]:
    """A policy as the body of an event: its name and settings; the season has its own field."""
    return {"name": policy.name, "delta": policy.delta, "memory": policy.memory}


def apply_plan(state: State, event: Event) -> None:
    """Add a planned round: who goes where."""
    body = event.body
    number = state.next_round
    check_in_use(state)
    if parse_integer(body["round"], "round", 1) != number:
        raise InvalidInput(f"round {repr_of(body['round'])} is not the next: that is {number}")
    if state.season is not None and number > state.season:
        raise InvalidInput(
            f"round {number} is after the end of the season, which has {state.season}: make it longer, or "
            "without an end"
        )
    given = parse_circumstances(state, **{name: body[name] for name in GIVEN_FIELDS})
    assignment: list[int | None] = [None] * len(state.agents)
    for name, kind in REPLANNING_FIELD_TYPES.items():
        if not isinstance(body[name], kind):
            raise InvalidInput(f"{name} of a plan is {repr_of(body[name])}: a {kind.__name__}")
    has_counted(body)
    for one in body["assignments"]:
        agent, arm, _ = assigned_from(state, one)
        assignment[agent] = arm
    sent = [arm for arm in assignment if arm is not None]
    if len(body["assignments"]) != len(assignment) or len(set(sent)) < len(sent):
        raise InvalidInput("a plan has one entry for each agent, and each an arm of its own")
    by_row: list[int | None] = [None] * len(state.rows)
    for agent, arm in enumerate(assignment):
        by_row[state.agents[agent].row] = arm
    state.circumstances(given).check(by_row, state.team.names, state.arm_names)
    planned = PlannedRound(
        number, tuple(assignment), event=event.number, time=event.time, given=given
    )
    _replace_round(state, planned)


def check_in_use(state: State) -> None:
    """Refuse to plan for a campaign that was put away."""
    if state.archived:
        raise InvalidInput(
            f"{state.name!r} is archived: bring it back to plan another round; reports are taken all the same"
        )


def apply_cancellation(state: State, event: Event) -> None:
    """Take the last round back, of which nothing is known: the next to be planned has its number again.

    What began with the round after it begins with that one now; what was forgotten after it is forgotten up to the round before.
    """
    check_cancellable(state, state.round(event.body["round"]))
    state.rounds.drop_last()
    following = state.next_round
    state.waiting -= {following}
    state.rows = [replace(row, since=min(row.since, following)) for row in state.rows]
    state.arms = [replace(arm, since=min(arm.since, following)) for arm in state.arms]
    state.forgotten = tuple(cut_forgettings(state.forgotten, len(state.rounds)))
    _drop_cached_names(state)


def check_cancellable(state: State, round: PlannedRound) -> None:
    """Refuse to cancel a round that is not the last, or of which something is known."""
    if round.number < len(state.rounds):
        raise InvalidInput(
            f"round {round.number} is not the last: rounds are cancelled from the last back, and that is {len(state.rounds)}"
        )
    if round.told:
        agent, arm = next(iter(round.told))
        raise InvalidInput(
            f"round {round.number} cannot be cancelled: {_visit_text(state, round, (agent, arm))} is reported already; "
            "withdraw what was reported by mistake, or close the round"
        )


GIVEN_FIELDS = ("absent", "closed", "forbidden", "forced")


def parse_circumstances(
    state: State, absent: Any = (), closed: Any = (), forbidden: Any = (), forced: Any = ()
) -> RoundGiven:
    """The circumstances that names or ids describe; refuses contradictions."""
    given = RoundGiven(
        frozenset(state.agent(key) for key in parse_list(absent, "absent", "agents")),
        frozenset(state.arm(key) for key in parse_list(closed, "closed", "arms")),
        frozenset(
            state.pair(key, "forbidden") for key in parse_list(forbidden, "forbidden", "pairs")
        ),
        frozenset(state.pair(key, "forced") for key in parse_list(forced, "forced", "pairs")),
    )
    state.circumstances(given)
    return given


def apply_override(state: State, event: Event) -> None:
    """Record that an agent went elsewhere, stayed home or went to several arms; its report moves along."""
    body = event.body
    round, agent = state.round(body["round"]), state.agent(body["agent"])
    arms = tuple(dict.fromkeys(state.arm(key) for key in parse_list(body["arms"], "arms", "arms")))
    after = round.overridden(agent, arms, state.agents[agent].name, state.arm_names, event.number)
    for now, sign in ((round, -1), (after, 1)):
        for pair, known in now.told.items():
            if pair[0] == agent and pair not in (after if sign < 0 else round).told:
                if sign > 0 and not state.arms[pair[1]].seen:  # what was stated may be made of it
                    state.arms[pair[1]] = replace(state.arms[pair[1]], fixed=None)
                _add_counts(state, round, pair, known.counts, sign)
    _replace_round(state, after)


def apply_forgetting(state: State, event: Event) -> None:
    """Count no longer what was seen of an arm in all the rounds so far."""
    arm, last = state.arm(event.body["arm"]), len(state.rounds)
    because = parse_choice(event.body["because"], "because", FORGETTING_CAUSES)
    name = state.arms[arm].name
    if because == "again":
        state.forgotten = tuple(forget_again(state.forgotten, arm, event.body["round"], name))
        return
    if parse_integer(event.body["round"], "round", 0) != last:
        raise InvalidInput(f"round {repr_of(event.body['round'])} is not the last: that is {last}")
    if not last:
        raise InvalidInput(f"nothing was seen of {name!r}: no round is planned yet")
    if because == "change" and state.on_change != "forget":
        raise InvalidInput(f"this campaign forgets no arm by itself, and {name!r} neither")
    after = add_forgetting(state.forgotten, arm, last)
    if len(after) == len(state.forgotten):
        raise InvalidInput(f"{name!r} is forgotten already, up to round {last}")
    state.forgotten = tuple(after)


FORGETTING_CAUSES = ("asked", "change", "again")


def apply_remembering(state: State, event: Event) -> None:
    """Take back that an arm was forgotten, the last time that it was."""
    arm = state.arm(event.body["arm"])
    state.forgotten = tuple(take_back(state.forgotten, arm, state.arms[arm].name))


def apply_report(state: State, event: Event) -> None:
    """Record the first outcome of a visit."""
    round, pair, told = _report_in_event(state, event)
    if pair in round.told:
        raise AlreadyReported(f"{_visit_text(state, round, pair)} is reported already: correct it")
    _set_report(state, round, pair, told)


def apply_correction(state: State, event: Event) -> None:
    """Replace the outcome of a visit."""
    round, pair, told = _report_in_event(state, event)
    if pair not in round.told:
        raise InvalidInput(f"{_visit_text(state, round, pair)} is not reported yet: report it")
    _set_report(state, round, pair, told)


def apply_withdrawal(state: State, event: Event) -> None:
    """Take back the outcome of a visit: it waits again."""
    round, pair = _pair_in_body(state, event.body)
    if pair not in round.told:
        raise InvalidInput(f"{_visit_text(state, round, pair)} is not reported")
    _set_report(state, round, pair, None)


class AlreadyReported(InvalidInput):
    """A first report of a visit that already has one."""


def _report_in_event(state: State, event: Event) -> tuple[PlannedRound, AgentArm, VisitReport]:
    """The visit that an event reports, and what it says of it."""
    body = event.body
    round, pair = _pair_in_body(state, body)
    counts: Outcome | None = None
    if not body.get("missing"):
        name = state.agents[pair[0]].name
        counts = parse_visit_outcome((body["successes"], body["tests"]), name)
    entered: Any = body.get("entered")
    note = body.get("note", "")
    if "entered" in body and not (is_timestamp(entered) and entered <= event.time):
        raise InvalidInput(
            f"entered is {repr_of(entered)}: a time such as 2026-03-01T09:30:00.000000Z, not after the report came"
        )
    if "note" in body and parse_report_note(note) != note:
        raise InvalidInput(f"note is {repr_of(note)}: lines without blanks around them")
    return round, pair, VisitReport(counts, event.number, event.time, entered, note)


def _pair_in_body(state: State, body: EventBody) -> tuple[PlannedRound, AgentArm]:
    """The agent and the arm of the visit that a body names."""
    round, agent = state.round(body["round"]), state.agent(body["agent"])
    arm = state.arm(body["arm"])
    if arm not in round.arms_of(agent):
        raise InvalidInput(
            f"round {round.number} did not send {state.agents[agent].name!r} to {state.arms[arm].name!r}: "
            "if it went there, override the plan first"
        )
    return round, (agent, arm)


def _visit_text(state: State, round: PlannedRound, pair: AgentArm) -> str:
    return round.visit_text(state.agents[pair[0]].name, state.arms[pair[1]].name)


def _set_report(
    state: State, round: PlannedRound, pair: AgentArm, told: VisitReport | None
) -> None:
    """Put what is known of a visit into its round and into the tables."""
    known = dict(round.told)
    before = known.pop(pair, None)
    if before is not None:
        _add_counts(state, round, pair, before.counts, -1)
    if told is not None:
        known[pair] = told
        _add_counts(state, round, pair, told.counts, 1)
    _replace_round(state, replace(round, told=known))


def _add_counts(
    state: State, round: PlannedRound, pair: AgentArm, counts: Outcome | None, sign: int
) -> None:
    if counts is None:
        return
    row, arm = state.row_in(pair[0], round.number), pair[1]
    k, n = counts
    if sign > 0 and int(state.pulls[:, arm].sum()) + n > COUNT_MAX:
        raise InvalidInput(_full_arm_text(state, (round.number, pair), arm))
    if n and not state.arms[arm].seen:
        state.arms[arm] = replace(state.arms[arm], seen=True)
    state.pulls[row, arm] += sign * n
    state.successes[row, arm] += sign * k


def _full_arm_text(state: State, but: tuple[int, AgentArm], arm: int) -> str:
    """The message that an arm can count no more tests, with the visit that has the most of them."""
    _, number, pair = max(
        (known.counts[1], at.number, pair)
        for at in state.rounds
        for pair, known in at.told.items()
        if pair[1] == arm and known.counts is not None and (at.number, pair) != but
    )
    return (
        f"{state.arms[arm].name!r} would have over {COUNT_MAX:,} tests, more than can be counted: correct "
        f"{_visit_text(state, state.round(number), pair)}, which has the most, if it is wrong"
    )


def apply_closing(state: State, event: Event) -> None:
    """Stop waiting for a round; later reports still count."""
    round = state.round(event.body["round"])
    if round.closed:
        raise InvalidInput(f"round {round.number} is closed already")
    _replace_round(state, replace(round, closed=True))


def apply_reopening(state: State, event: Event) -> None:
    """Wait again for a round that was closed."""
    round = state.round(event.body["round"])
    if not round.closed:
        raise InvalidInput(f"round {round.number} is not closed")
    _replace_round(state, replace(round, closed=False))


def apply_archiving(state: State, event: Event) -> None:
    """Put a campaign away: nothing is planned any more until somebody brings it back."""
    if state.archived:
        raise InvalidInput(f"{state.name!r} is archived already")
    state.archived = True


def apply_retrieval(state: State, event: Event) -> None:
    """Bring back a campaign that was put away."""
    if not state.archived:
        raise InvalidInput(f"{state.name!r} is not archived")
    state.archived = False


def apply_words(state: State, event: Event) -> None:
    """Call agents, arms, rounds and tests something else from now on."""
    state.words = words_of_event(event.body)


def words_of_event(body: EventBody) -> CampaignWords:
    """The words in the body of an event, which has all eight."""
    return parse_words(words_of_body(body["words"]).body)


def _replace_round(state: State, round: PlannedRound) -> None:
    """Replace a round in the state, and note whether it waits."""
    state.rounds.put(round)
    number = {round.number}
    if round.waits != (round.number in state.waiting):
        state.waiting = state.waiting | number if round.waits else state.waiting - number


def apply_note(state: State, event: Event) -> None:
    """Check a note, on one round or on all; it changes nothing else."""
    if parse_note(event.body["text"]) != event.body["text"]:
        raise InvalidInput(
            f"text is {repr_of(event.body['text'])}: lines without blanks around them"
        )
    if event.body["round"] is not None:
        state.round(event.body["round"])


def apply_link(state: State, event: Event) -> None:
    """Add a link for somebody."""
    body = event.body
    if not CAMPAIGN_ID_PATTERN.fullmatch(body["link"]):
        raise InvalidInput(f"link is {repr_of(body['link'])}: an id of 12 letters from 0 to f")
    if body["link"] in state.links:
        raise InvalidInput(f"link {repr_of(body['link'])} is there already")
    parse_choice(body["role"], "role", LINK_ROLES)
    agent = None if body["agent"] is None else state.agent(body["agent"])
    if agent is not None and body["role"] != "reporter":
        raise InvalidInput(f"agent is given for a {body['role']}: only a reporter is of one agent")
    if body["expires"] is not None:
        parse_time(body["expires"], "expires")
    if not HASH_PATTERN.fullmatch(body["token_hash"]):
        raise InvalidInput("a link has the hash of its token, 64 letters from 0 to f")
    state.links[body["link"]] = Link(
        body["link"],
        body["role"],
        parse_display_name(body["name"]),
        agent,
        body["expires"],
        body["token_hash"],
        event.number,
        made=event.time,
    )


def apply_revocation(state: State, event: Event) -> None:
    """Revoke a link: it opens nothing any more."""
    link = state.links.get(event.body["link"])
    if link is None or link.revoked:
        known = "revoked already" if link else "not there"
        raise InvalidInput(f"link {repr_of(event.body['link'])} is {known}")
    state.links[link.id] = replace(link, revoked=True)


def apply_import(state: State, event: Event) -> None:
    """The events up to here, from a first one on, came from a file: it changes nothing."""
    first = parse_integer(event.body["first"], "first", 1)
    if not first <= parse_integer(event.body["last"], "last", 1) == state.number:
        raise InvalidInput(
            f"events {first} to {repr_of(event.body['last'])} are not the last before event {event.number}"
        )


def _refuse_second_creation(state: State, event: Event) -> None:
    raise InvalidInput("a campaign is created once")


REDUCER_BY_KIND: dict[str, Callable[[State, Event], None]] = {
    "created": _refuse_second_creation,
    "agents added": apply_agents,
    "arms added": apply_arms,
    "renamed": apply_rename,
    "retired": apply_retirement,
    "returned": apply_return,
    "agent revised": apply_revision,
    "arm revised": apply_arm_revision,
    "policy changed": apply_policy,
    "prior changed": apply_prior,
    "season changed": apply_season,
    "round planned": apply_plan,
    "overridden": apply_override,
    "arm forgotten": apply_forgetting,
    "arm remembered": apply_remembering,
    "reported": apply_report,
    "corrected": apply_correction,
    "withdrawn": apply_withdrawal,
    "round closed": apply_closing,
    "note": apply_note,
    "link issued": apply_link,
    "link revoked": apply_revocation,
    "imported": apply_import,
    "round cancelled": apply_cancellation,
    "round reopened": apply_reopening,
    "archived": apply_archiving,
    "brought back": apply_retrieval,
    "words chosen": apply_words,
}
