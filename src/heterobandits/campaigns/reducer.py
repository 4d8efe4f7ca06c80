"""The fold: a state and the events after it make the next state. Each kind of event has one function, which checks it first.

What cannot be is refused here, whoever wrote the event: the service asks the fold before it appends, and a log from
elsewhere is folded before it is kept.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from heterobandits.campaigns.events import (
    KINDS,
    NOTHING,
    OWNER,
    SERVER,
    Draft,
    Event,
    now,
    refuse_newer,
    sealed,
)
from heterobandits.campaigns.reasons import assigned_from
from heterobandits.campaigns.rounds import Pair, PlannedRound, RoundGiven, Rounds, VisitReport
from heterobandits.campaigns.state import (
    ROLES,
    Agent,
    AgentRow,
    Arm,
    Link,
    State,
    entry_number,
    moment,
)
from heterobandits.campaigns.validation import (
    MOST_PAIRS,
    agents_from,
    arms_from,
    called,
    new_name,
    policy_from,
    season_from,
    seed_from,
    text_from,
)
from heterobandits.errors import (
    InvalidInput,
    choice,
    listed,
    shown,
    whole_number,
)
from heterobandits.limits import MOST
from heterobandits.planner.history import Outcome, counted_outcome
from heterobandits.planner.planner import check_size

Body = Mapping[str, Any]
CAMPAIGN = re.compile("[0-9a-f]{12}")  # an id of a campaign or a link
NOWHERE = "0" * 12  # the id of a campaign that is written nowhere
HASH = re.compile("[0-9a-f]{64}")
MADE_AGAIN = {"policy": dict, "seed": int, "index": str, "made_with": dict}  # what that needs
NAMED = ("team", "arm_names", "agent_names")  # what a state derives of agents and arms, and keeps


OWNERS = frozenset({"owner"})
PLANNERS = OWNERS | {"planner"}
REPORTERS = PLANNERS | {"reporter"}
BY_PLANNERS = {"round planned", "overridden", "round closed", "note"}
BY_REPORTERS = {"reported", "corrected", "withdrawn"}
WRITERS = {  # the roles whose links may write a kind of event
    kind: REPORTERS if kind in BY_REPORTERS else PLANNERS if kind in BY_PLANNERS else OWNERS
    for kind in KINDS
} | {"imported": frozenset()}


class LinkEnded(InvalidInput):
    """What is written with a link that does not hold, or holds no longer."""


def fold(events: Iterable[Event], state: State | None = None) -> State:
    """The state after these events, which come after `state`; that one stays as it is."""
    following = iter(events)
    if state is None:
        first = next(following, None)
        if first is None:
            raise InvalidInput("a campaign without events: the first says how it was created")
        made: State = _numbered(first, lambda: created(first))
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
        kept = {name: state.__dict__[name] for name in NAMED if name in state.__dict__}
        made.__dict__.update(kept)
    for event in following:
        _apply(made, event)
    return made


def state_after_drafts(state: State | None, drafts: Iterable[Draft]) -> State:
    """The state as it would be after these, which are written nowhere; without a state they begin a campaign."""
    if state is None:
        where, number, previous, time = NOWHERE, 0, NOTHING, now()
    else:
        where, number, previous, time = state.campaign, state.number, state.hash, state.changed
    return fold(sealed(drafts, where, after=number, previous=previous, time=time, who="-"), state)


def _apply(state: State, event: Event) -> None:
    """Let an event take effect on a state that nobody else holds."""
    refuse_newer(event, f"event {event.number}")
    if event.number != state.number + 1:
        raise InvalidInput(f"event {event.number} does not follow on event {state.number}")
    check_link(state, event.link, event.time)
    _numbered(event, lambda: check_writer(state, event))
    _numbered(event, lambda: APPLY[event.kind](state, event))
    state.number, state.hash, state.changed = event.number, event.hash, event.time


def check_link(state: State, link: str | None, time: str) -> None:
    """Refuse what is written with a link that is not there, or holds no longer."""
    if link is None or link == SERVER:
        return
    known = state.links.get(link)
    if known is None or not known.holds(time):
        ended = "not of this campaign" if known is None else "revoked, or has expired"
        raise LinkEnded(f"the link {shown(link)} is {ended}: ask for another one")


def check_writer(state: State, event: Event) -> None:
    """Refuse what is written with a link of another name, of a role that writes no such events, or for another agent."""
    if event.link is None:
        return
    if event.link == SERVER:
        check_name(event, OWNER)
        return
    link = state.links[event.link]
    check_name(event, link.name)
    if link.role not in WRITERS[event.kind]:
        raise InvalidInput(
            f"event {event.number}, {event.kind}, is by a {link.role}'s link, which writes no such events"
        )
    if link.agent is not None and state.agent(event.body["agent"]) != link.agent:
        raise InvalidInput(
            f"event {event.number}, {event.kind}, is by a link that is for the reports of one agent, who is another"
        )


def check_name(event: Event, name: str) -> None:
    """Refuse an event that says another name than that of whoever holds its link."""
    if event.who != name:
        raise InvalidInput(
            f"event {event.number}, {event.kind}, says that {shown(event.who)} wrote it, by the link of {shown(name)}"
        )


def _numbered(event: Event, apply: Callable[[], Any]) -> Any:
    """What it returns; a body that lacks something is said of its event."""
    try:
        return apply()
    except InvalidInput:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"event {event.number}, {event.kind}, is damaged: an entry is missing or of the wrong kind ({error})"
        ) from None


def created(event: Event) -> State:
    """The state that a campaign begins with."""
    refuse_newer(event, "event 1")
    if event.kind != "created" or event.number != 1:
        raise InvalidInput(f"event 1 is {shown(event.kind)}: a campaign begins with 'created'")
    if event.link not in (None, SERVER):
        raise LinkEnded(f"event 1 has the link {shown(event.link)}: there is none yet")
    if event.link == SERVER:
        check_name(event, OWNER)
    if not CAMPAIGN.fullmatch(event.campaign):
        raise InvalidInput(f"campaign is {shown(event.campaign)}: an id of 12 letters from 0 to f")
    body = event.body
    season = season_from(body["season"])
    state = State(
        campaign=event.campaign,
        number=event.number,
        hash=event.hash,
        created=event.time,
        changed=event.time,
        name=called(body["name"]),
        agents=[],
        rows=[],
        arms=[],
        policy=policy_from(**body["policy"], season=season),
        seed=seed_from(body["seed"]),
        season=season,
        rounds=Rounds([]),
        links={},
        pulls=np.zeros((0, 0), np.int64),
        successes=np.zeros((0, 0), np.int64),
        waiting=frozenset(),
    )
    _add_arms(state, body["arms"])
    _add_agents(state, body["agents"])
    return state


def agents_added(state: State, event: Event) -> None:
    """New agents, from the next round on."""
    _add_agents(state, event.body["agents"])


def arms_added(state: State, event: Event) -> None:
    """New arms, from the next round on."""
    _add_arms(state, event.body["arms"])


def _add_agents(state: State, given: Any) -> None:
    check_pairs(state, agents=given)
    new = agents_from(given, [agent.name for agent in state.agents])
    going = sum(not agent.retired for agent in state.agents) + len(new)
    check_size(going, sum(not arm.retired for arm in state.arms))
    for name, reports in new:
        state.agents.append(Agent(name, len(state.rows)))
        state.rows.append(AgentRow(len(state.agents) - 1, state.next_round, reports))
    _widen(state)


def _add_arms(state: State, given: Any) -> None:
    check_pairs(state, arms=given)
    new = arms_from(given, [arm.name for arm in state.arms])
    state.arms.extend(Arm(name, since=state.next_round) for name in new)
    _widen(state)


def check_pairs(state: State, agents: Any = (), arms: Any = ()) -> None:
    """Refuse more agents or arms than a campaign may have, before anything else is looked at of them."""
    news = (len(new) if isinstance(new, (list, tuple)) else 0 for new in (agents, arms))
    rows, arms = map(sum, zip((len(state.rows), len(state.arms)), news, strict=True))
    if rows * arms > MOST_PAIRS:
        raise InvalidInput(
            f"there would be {rows:,} agents and {arms:,} arms: at most {MOST_PAIRS:,} pairs of them"
        )


def _widen(state: State) -> None:
    """Make room in the tables."""
    more = [
        (0, size - had)
        for size, had in zip((len(state.rows), len(state.arms)), state.pulls.shape, strict=True)
    ]
    state.pulls, state.successes = np.pad(state.pulls, more), np.pad(state.successes, more)
    _forget_names(state)


def _forget_names(state: State) -> None:
    """What was derived of agents and arms is derived again."""
    for name in NAMED:
        state.__dict__.pop(name, None)


def renamed(state: State, event: Event) -> None:
    """Another name for an agent, an arm or the campaign itself; who it is stays."""
    kind, key, name = event.body["what"], event.body.get("id"), event.body["name"]
    choice(kind, "what", ("agent", "arm", "campaign"))
    if kind == "campaign":
        state.name = called(name)
        return
    members: list[Any] = state.agents if kind == "agent" else state.arms
    n = entry_number(key, kind, [one.name for one in members])
    others = [one.name for i, one in enumerate(members) if i != n]
    members[n] = replace(members[n], name=new_name(name, others))
    _forget_names(state)


def retired(state: State, event: Event) -> None:
    """An agent or arm that is not planned with from the next round on; what was found counts."""
    _retire(state, event.body, True)


def returned(state: State, event: Event) -> None:
    """One that is planned with again."""
    _retire(state, event.body, False)


def _retire(state: State, body: Body, gone: bool) -> None:
    kind = choice(body["what"], "what", ("agent", "arm"))
    members: list[Any] = state.agents if kind == "agent" else state.arms
    n = entry_number(body["id"], kind, [one.name for one in members])  # type: ignore[arg-type]
    if members[n].retired == gone:
        raise InvalidInput(f"{members[n].name!r} {'is retired' if gone else 'is here'} already")
    left = sum(not one.retired for one in members) + (-1 if gone else 1)
    if not left:
        raise InvalidInput(f"{members[n].name!r} is the last {kind}: add another one before")
    if kind == "agent" and not gone:
        check_size(left, sum(not arm.retired for arm in state.arms))
    members[n] = replace(members[n], retired=gone)
    _forget_names(state)


def agent_revised(state: State, event: Event) -> None:
    """Another way to report: since now, if the agent has changed, or always, if it was stated wrongly."""
    body = event.body
    agent = entry_number(body["id"], "agent", [one.name for one in state.agents])
    since = choice(body["since"], "since", ("now", "always"))
    given = {"name": state.agents[agent].name} | dict(body["reports"])
    ((_, reports),) = agents_from([given], place=lambda i: "reports")
    mine = [i for i, row in enumerate(state.rows) if row.agent == agent]
    if since == "now" and any(round.arms_of(agent) for round in state.rounds):
        check_pairs(state, agents=[reports])
        state.agents[agent] = replace(state.agents[agent], row=len(state.rows))
        state.rows.append(AgentRow(agent, state.next_round, reports))
        _widen(state)
    else:  # stated wrongly, or nobody has seen it report yet
        for i in mine:
            first = state.next_round if since == "now" else state.rows[i].since
            state.rows[i] = replace(state.rows[i], since=first, reports=reports)
    _forget_names(state)


def policy_changed(state: State, event: Event) -> None:
    """Another policy, from the next round on."""
    state.policy = policy_from(**event.body["policy"], season=state.season)
    _forget_names(state)


def season_changed(state: State, event: Event) -> None:
    """Another number of rounds in the season."""
    season = season_from(event.body["season"])
    if season is not None and season < len(state.rounds):
        raise InvalidInput(f"season is {season}: {len(state.rounds)} rounds are planned already")
    state.policy = policy_from(**policy_body(state.policy), season=season)
    state.season = season
    _forget_names(state)


def policy_body(policy: Any) -> dict[str, Any]:
    """A policy as it stands in events: by name, with what was set; the season stands by itself."""
    return {"name": policy.name, "delta": policy.delta, "memory": policy.memory}


def round_planned(state: State, event: Event) -> None:
    """A round: who goes where."""
    body = event.body
    number = state.next_round
    if body["round"] != number:
        raise InvalidInput(f"round {shown(body['round'])} is not the next: that is {number}")
    if state.season is not None and number > state.season:
        raise InvalidInput(
            f"round {number} is after the end of the season, which has {state.season}: make it longer, or "
            "without an end"
        )
    given = given_from(state, **{name: body[name] for name in GIVEN})
    assignment: list[int | None] = [None] * len(state.agents)
    for name, kind in MADE_AGAIN.items():
        if not isinstance(body[name], kind):
            raise InvalidInput(f"{name} of a plan is {shown(body[name])}: a {kind.__name__}")
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
    _put(state, PlannedRound(number, event.number, event.time, given, tuple(assignment)))


GIVEN = ("absent", "closed", "forbidden", "forced")


def given_from(
    state: State, absent: Any = (), closed: Any = (), forbidden: Any = (), forced: Any = ()
) -> RoundGiven:
    """Circumstances given by names or ids; refuses contradictions."""
    given = RoundGiven(
        frozenset(state.agent(key) for key in listed(absent, "absent", "agents")),
        frozenset(state.arm(key) for key in listed(closed, "closed", "arms")),
        frozenset(state.pair(key, "forbidden") for key in listed(forbidden, "forbidden", "pairs")),
        frozenset(state.pair(key, "forced") for key in listed(forced, "forced", "pairs")),
    )
    state.circumstances(given)
    return given


def overridden(state: State, event: Event) -> None:
    """Somebody went elsewhere, stayed home, or went to several arms; what was told of a visit goes with it."""
    body = event.body
    round, agent = state.round(body["round"]), state.agent(body["agent"])
    arms = tuple(dict.fromkeys(state.arm(key) for key in listed(body["arms"], "arms", "arms")))
    before = round.arms_of(agent)
    if arms == before:
        raise InvalidInput(
            f"{state.agents[agent].name!r} goes there already in round {round.number}"
        )
    told = dict(round.told)
    lost = [arm for arm in before if arm not in arms and (agent, arm) in told]
    if lost and not len(before) == len(arms) == 1:
        raise InvalidInput(
            f"{_visit(state, round, (agent, lost[0]))} is reported already: withdraw that first"
        )
    for arm in lost:
        known = told.pop((agent, arm))
        _count(state, round, (agent, arm), known.counts, -1)
        _count(state, round, (agent, arms[0]), known.counts, 1)
        told[agent, arms[0]] = replace(known, event=event.number)
    _put(state, replace(round, moved={**round.moved, agent: arms}, told=told))


def reported(state: State, event: Event) -> None:
    """What came of a visit, for the first time."""
    round, pair, counts = _told(state, event.body)
    if pair in round.told:
        raise AlreadyTold(f"{_visit(state, round, pair)} is reported already: correct it")
    _tell(state, round, pair, VisitReport(counts, event.number))


def corrected(state: State, event: Event) -> None:
    """What came of a visit, instead of what was told."""
    round, pair, counts = _told(state, event.body)
    if pair not in round.told:
        raise InvalidInput(f"{_visit(state, round, pair)} is not reported yet: report it")
    _tell(state, round, pair, VisitReport(counts, event.number))


def withdrawn(state: State, event: Event) -> None:
    """What was told of a visit is taken back: it waits again."""
    round, pair = _pair(state, event.body)
    if pair not in round.told:
        raise InvalidInput(f"{_visit(state, round, pair)} is not reported")
    _tell(state, round, pair, None)


class AlreadyTold(InvalidInput):
    """A first report of a visit that was reported already."""


def _told(state: State, body: Body) -> tuple[PlannedRound, Pair, Outcome | None]:
    round, pair = _pair(state, body)
    if body.get("missing"):
        return round, pair, None
    name = state.agents[pair[0]].name
    return round, pair, counted_outcome((body["successes"], body["tests"]), name)


def _pair(state: State, body: Body) -> tuple[PlannedRound, Pair]:
    """The visit that a body speaks of."""
    round, agent = state.round(body["round"]), state.agent(body["agent"])
    arm = state.arm(body["arm"])
    if arm not in round.arms_of(agent):
        raise InvalidInput(
            f"round {round.number} did not send {state.agents[agent].name!r} to {state.arms[arm].name!r}: "
            "if it went there, override the plan first"
        )
    return round, (agent, arm)


def _visit(state: State, round: PlannedRound, pair: Pair) -> str:
    agent, arm = state.agents[pair[0]].name, state.arms[pair[1]].name
    return f"the visit of {agent!r} to {arm!r} in round {round.number}"


def _tell(state: State, round: PlannedRound, pair: Pair, told: VisitReport | None) -> None:
    """Put what is known of a visit into its round and into the tables."""
    known = dict(round.told)
    before = known.pop(pair, None)
    if before is not None:
        _count(state, round, pair, before.counts, -1)
    if told is not None:
        known[pair] = told
        _count(state, round, pair, told.counts, 1)
    _put(state, replace(round, told=known))


def _count(
    state: State, round: PlannedRound, pair: Pair, counts: Outcome | None, sign: int
) -> None:
    if counts is None:
        return
    row, arm = state.row_in(pair[0], round.number), pair[1]
    k, n = counts
    if sign > 0 and int(state.pulls[:, arm].sum()) + n > MOST:
        raise InvalidInput(_full(state, (round.number, pair), arm))
    state.pulls[row, arm] += sign * n
    state.successes[row, arm] += sign * k


def _full(state: State, but: tuple[int, Pair], arm: int) -> str:
    """That no more tests of an arm can be counted, and which visit has the most of them, but for this one."""
    _, number, pair = max(
        (known.counts[1], at.number, pair)
        for at in state.rounds
        for pair, known in at.told.items()
        if pair[1] == arm and known.counts is not None and (at.number, pair) != but
    )
    return (
        f"{state.arms[arm].name!r} would have over {MOST:,} tests, more than can be counted: correct "
        f"{_visit(state, state.round(number), pair)}, which has the most, if it is wrong"
    )


def round_closed(state: State, event: Event) -> None:
    """Nobody waits for a round any more; what comes later is taken all the same."""
    round = state.round(event.body["round"])
    if round.closed:
        raise InvalidInput(f"round {round.number} is closed already")
    _put(state, replace(round, closed=True))


def _put(state: State, round: PlannedRound) -> None:
    """A round in its place, with whether it waits."""
    state.rounds.put(round)
    number = {round.number}
    if round.waits != (round.number in state.waiting):
        state.waiting = state.waiting | number if round.waits else state.waiting - number


def noted(state: State, event: Event) -> None:
    """A note, of a round or of all: it changes nothing."""
    if text_from(event.body["text"]) != event.body["text"]:
        raise InvalidInput(f"text is {shown(event.body['text'])}: lines without blanks around them")
    if event.body["round"] is not None:
        state.round(event.body["round"])


def link_issued(state: State, event: Event) -> None:
    """A link for somebody."""
    body = event.body
    if not CAMPAIGN.fullmatch(body["link"]):
        raise InvalidInput(f"link is {shown(body['link'])}: an id of 12 letters from 0 to f")
    if body["link"] in state.links:
        raise InvalidInput(f"link {shown(body['link'])} is there already")
    choice(body["role"], "role", ROLES)
    agent = None if body["agent"] is None else state.agent(body["agent"])
    if agent is not None and body["role"] != "reporter":
        raise InvalidInput(f"agent is given for a {body['role']}: only a reporter is of one agent")
    if body["expires"] is not None:
        moment(body["expires"], "expires")
    if not HASH.fullmatch(body["token_hash"]):
        raise InvalidInput("a link has the hash of its token, 64 letters from 0 to f")
    state.links[body["link"]] = Link(
        body["link"],
        body["role"],
        called(body["name"]),
        agent,
        body["expires"],
        body["token_hash"],
        event.number,
    )


def link_revoked(state: State, event: Event) -> None:
    """A link that no longer opens anything."""
    link = state.links.get(event.body["link"])
    if link is None or link.revoked:
        known = "revoked already" if link else "not there"
        raise InvalidInput(f"link {shown(event.body['link'])} is {known}")
    state.links[link.id] = replace(link, revoked=True)


def imported(state: State, event: Event) -> None:
    """The events up to here, from a first one on, came from a file: it changes nothing."""
    first = whole_number(event.body["first"], "first", 1)
    if not first <= event.body["last"] == state.number:
        raise InvalidInput(
            f"events {first} to {shown(event.body['last'])} are not the last before event {event.number}"
        )


def _created_twice(state: State, event: Event) -> None:
    raise InvalidInput("a campaign is created once")


APPLY: dict[str, Callable[[State, Event], None]] = {
    "created": _created_twice,
    "agents added": agents_added,
    "arms added": arms_added,
    "renamed": renamed,
    "retired": retired,
    "returned": returned,
    "agent revised": agent_revised,
    "policy changed": policy_changed,
    "season changed": season_changed,
    "round planned": round_planned,
    "overridden": overridden,
    "reported": reported,
    "corrected": corrected,
    "withdrawn": withdrawn,
    "round closed": round_closed,
    "note": noted,
    "link issued": link_issued,
    "link revoked": link_revoked,
    "imported": imported,
}
