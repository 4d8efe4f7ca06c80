"""What was done last, taken back: which events were written together, whether they can be undone, and what undoes them.

Nothing is deleted. Whoever undoes something writes ordinary events that say the opposite, and the history keeps both.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from heterobandits.campaigns.events import Draft, Event, utc_now
from heterobandits.campaigns.outcomes import body_of_counts, body_of_visit
from heterobandits.campaigns.reducer import policy_body
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import Arm, State, member_id, parse_time
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.errors import InvalidInput
from heterobandits.planner.matching import AgentArm

UNDO_MAX_S = 600.0  # for which something can be undone
FIRST_READ_EVENTS = 2  # of the end of a log, to find what was written together
LASTING_KINDS = {  # what cannot be undone, and what can be done instead
    "created": "a campaign stays: archive it",
    "agents added": "who was added stays in the history: retire them",
    "arms added": "what was added stays in the history: retire it",
    "agent revised": "rounds count by how somebody reported then: revise them again",
    "round cancelled": "a cancelled round does not come back: plan it again",
    "note": "a note stays: write another one",
    "link issued": "somebody may hold the link already: revoke it",
    "link revoked": "a revoked link opens nothing any more: make another one",
    "imported": "imported events stay: archive the campaign",
}


class WrittenLast(NamedTuple):
    """The events that were written together last, and the repository they are from."""

    log: Repository
    state: State
    events: list[Event]

    @property
    def before(self) -> State:
        """The state before them."""
        return self.log.at(self.state.campaign, self.events[0].number - 1)


_written: WeakKeyDictionary[State, list[Event]] = WeakKeyDictionary()


def written_last(log: Repository, state: State) -> WrittenLast:
    """What was written last: the events at the end of the log that one write has made. It is looked for once."""
    if state not in _written:
        _written[state] = _read_last_write(log, state)
    return WrittenLast(log, state, _written[state])


def _read_last_write(log: Repository, state: State) -> list[Event]:
    count = FIRST_READ_EVENTS
    while True:
        events = log.store.read(state.campaign, max(0, state.number - count), state.number)
        together = [one for one in events if mark_of_write(one) == mark_of_write(events[-1])]
        if len(together) < len(events) or count >= state.number:
            return together
        count *= 8


def mark_of_write(event: Event) -> tuple[str | None, ...]:
    """What the events of one write have in common, and no two writes."""
    return event.time, event.who, event.link, event.key


def can_be_undone(done: WrittenLast, who: str, link: str | None) -> bool:
    """Whether whoever this is can undo it now."""
    try:
        check_undo(done, who, link)
    except InvalidInput:
        return False
    return True


def check_undo(done: WrittenLast, who: str, link: str | None) -> None:
    """Refuse to undo what somebody else did, what was done too long ago, and what lasts."""
    last = done.events[-1]
    if (last.who, last.link) != (who, link):
        raise InvalidInput(f"{last.who} did that last: nobody else can undo it")
    for event in done.events:
        if event.kind not in INVERSE_BY_KIND:
            why = LASTING_KINDS[event.kind]
            raise InvalidInput(f"{event.kind!r} cannot be undone: {why}")
    passed = (parse_time(utc_now()) - parse_time(last.time)).total_seconds()
    if not 0.0 <= passed <= UNDO_MAX_S:
        raise InvalidInput(
            f"what was done over {UNDO_MAX_S / 60:g} minutes ago cannot be undone any more"
        )


def drafts_of_undo(log: Repository, state: State, request: Author) -> list[Draft]:
    """The events that take back what was done last, the last of it first."""
    done = written_last(log, state)
    check_undo(done, request.who, request.link)
    return [INVERSE_BY_KIND[event.kind](done, event) for event in reversed(done.events)]


def _draft_cancellation(done: WrittenLast, event: Event) -> Draft:
    return Draft("round cancelled", {"round": event.body["round"]})


def _draft_override(done: WrittenLast, event: Event) -> Draft:
    before = done.before
    agent = before.agent(event.body["agent"])
    arms = before.round(event.body["round"]).arms_of(agent)
    went = [member_id("arm", arm) for arm in arms]
    return Draft("overridden", {
        "round": event.body["round"], "agent": member_id("agent", agent), "arms": went
    })  # fmt: skip


def _visit_of(state: State, event: Event) -> tuple[PlannedRound, AgentArm]:
    body = event.body
    return state.round(body["round"]), (state.agent(body["agent"]), state.arm(body["arm"]))


def _draft_withdrawal(done: WrittenLast, event: Event) -> Draft:
    return Draft("withdrawn", body_of_visit(*_visit_of(done.state, event)))


def _draft_report(done: WrittenLast, event: Event, kind: str) -> Draft:
    """The report of a visit that stood before, with all that was said with it."""
    before = done.before
    at, pair = _visit_of(before, event)
    told = at.told[pair]
    (source,) = done.log.store.read(before.campaign, told.event - 1, told.event)
    said = source.body if source.kind in ("reported", "corrected") else body_of_counts(told.counts)
    return Draft(kind, {**said, **body_of_visit(at, pair)})


def _draft_season(done: WrittenLast, event: Event) -> Draft:
    before = done.before
    ends = {"ends": before.ends} if "ends" in event.body else {}
    return Draft("season changed", {"season": before.season, **ends})


def _draft_rename(done: WrittenLast, event: Event) -> Draft:
    kind, before = event.body["what"], done.before
    if kind == "campaign":
        return Draft("renamed", {"what": kind, "name": before.name})
    number = before.member(kind, event.body["id"])
    members: Any = before.agents if kind == "agent" else before.arms
    which = {"what": kind, "id": member_id(kind, number)}
    return Draft("renamed", which | {"name": members[number].name})


def _draft_policy(done: WrittenLast, event: Event) -> Draft:
    before = done.before
    heeds = {"on_change": before.on_change} if "on_change" in event.body else {}
    return Draft("policy changed", {"policy": policy_body(before.policy), **heeds})


def _draft_prior(done: WrittenLast, event: Event) -> Draft:
    before = done.before
    number = before.arm(event.body["id"])
    arm: Arm = before.arms[number]
    if arm.fixed != arm.prior and done.state.arms[number].fixed != arm.fixed:
        raise InvalidInput(f"what was stated of {arm.name!r} cannot be undone: state it again")
    prior = None if arm.prior is None else list(arm.prior)
    return Draft("arm revised", {"id": member_id("arm", number), "prior": prior})


def _draft_remembering(done: WrittenLast, event: Event) -> Draft:
    return Draft("arm remembered", {"arm": event.body["arm"]})


def _draft_forgetting(done: WrittenLast, event: Event) -> Draft:
    before = done.before
    arm = before.arm(event.body["arm"])
    body = {"arm": member_id("arm", arm), "round": before.gone[arm], "because": "again"}
    return Draft("arm forgotten", body)


def _draft_same(kind: str) -> Callable[[WrittenLast, Event], Draft]:
    """An inverse that names the same as the event does."""
    return lambda done, event: Draft(kind, dict(event.body))


INVERSE_BY_KIND: dict[str, Callable[[WrittenLast, Event], Draft]] = {
    "round planned": _draft_cancellation,
    "overridden": _draft_override,
    "round closed": _draft_same("round reopened"),
    "round reopened": _draft_same("round closed"),
    "retired": _draft_same("returned"),
    "returned": _draft_same("retired"),
    "arm forgotten": _draft_remembering,
    "arm remembered": _draft_forgetting,
    "reported": _draft_withdrawal,
    "corrected": lambda done, event: _draft_report(done, event, "corrected"),
    "withdrawn": lambda done, event: _draft_report(done, event, "reported"),
    "renamed": _draft_rename,
    "season changed": _draft_season,
    "policy changed": _draft_policy,
    "prior changed": lambda done, event: Draft("prior changed", {"prior": done.before.plans_by}),
    "arm revised": _draft_prior,
    "archived": _draft_same("brought back"),
    "brought back": _draft_same("archived"),
    "words chosen": lambda done, event: Draft("words chosen", {"words": done.before.words.body}),
}


def describe_write(done: WrittenLast) -> str:
    """What was done last, in a short sentence."""
    state, first = done.state, done.events[0]
    body, w = first.body, state.words
    count = sum(event.kind == first.kind for event in done.events)

    def name() -> str:
        if "what" in body and body["what"] == "campaign":
            return state.name
        key = body.get("id") or body.get("arm")
        if body.get("what") == "agent":
            return state.agents[state.agent(key)].name
        return state.arms[state.arm(key)].name

    def visit() -> str:
        return "An outcome was" if count == 1 else f"{count} outcomes were"

    words: dict[str, Callable[[], str]] = {
        "round planned": lambda: f"{w.Round} {body['round']} was recorded.",
        "overridden": lambda: (
            f"Where {state.agents[state.agent(body['agent'])].name} went in {w.round} {body['round']} was recorded."
        ),
        "round closed": lambda: f"{w.Round} {body['round']} was closed.",
        "round reopened": lambda: f"{w.Round} {body['round']} is open again.",
        "retired": lambda: f"{name()} was retired.",
        "returned": lambda: f"{name()} is back.",
        "arm forgotten": lambda: f"{name()} was forgotten.",
        "arm remembered": lambda: f"What was seen of {name()} counts again.",
        "reported": lambda: f"{visit()} reported in {w.round} {body['round']}.",
        "corrected": lambda: f"{visit()} corrected in {w.round} {body['round']}.",
        "withdrawn": lambda: f"{visit()} taken back in {w.round} {body['round']}.",
        "renamed": lambda: f"{name()} has a new name.",
        "season changed": lambda: "The season was changed.",
        "policy changed": lambda: "The policy was changed.",
        "prior changed": lambda: "What plans go by was changed.",
        "arm revised": lambda: f"What is known of {name()} beforehand was changed.",
        "archived": lambda: "The campaign was archived.",
        "brought back": lambda: "The campaign is out of the archive.",
        "words chosen": lambda: "The words of the campaign were changed.",
    }
    return words[first.kind]()
