"""Events in words: with names in place of ids, and with what each change changed."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from heterobandits.errors import escape_text, repr_of
from heterobandits.model.prior import parse_stated_prior, render_shape
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords

if TYPE_CHECKING:
    from heterobandits.campaigns.events import Event
    from heterobandits.campaigns.state import MemberKind, State

LATE_MIN_DELAY = timedelta(minutes=10)  # between typing a report and its arrival, to be told
TOLD_KINDS = ("reported", "corrected")
SENTENCE_MAX_NAMES = 12  # of those whom a round sends, in a sentence


def counts_text(body: Mapping[str, Any], planned: int | None = None) -> str:
    """The outcome in an event's body, in words; with the planned number of tests if the visit had far more or fewer.

    >>> counts_text({"successes": 3, "tests": 12}, 12), counts_text({"successes": 3, "tests": 5}, 12)
    ('3 of 12', '3 of 5 (12 planned)')
    """
    if body.get("missing"):
        return "not done"
    text = f"{body['successes']} of {body['tests']}"
    return f"{text} ({planned} planned)" if is_far_from_plan(body["tests"], planned) else text


def said_text(body: Mapping[str, Any], time: str) -> str:
    """What a report says beside its outcome: when it was typed, if that was long before the server had it, and the note.

    >>> said_text({"entered": "2026-03-02T08:05:00.000000Z", "note": "fog"}, "2026-03-06T17:00:00.000000Z")
    ', entered 2026-03-02 08:05 UTC: fog'
    """
    entered: Any = body.get("entered")
    late = entered is not None and is_late(entered, time)
    text = f", entered {entered[:10]} {entered[11:16]} UTC" if late else ""
    note = body.get("note")
    return f"{text}: {' / '.join(note.splitlines())}" if note else text


def is_late(entered: str, time: str) -> bool:
    """Whether a report came so long after it was typed that this is worth a word."""
    return datetime.fromisoformat(time) - datetime.fromisoformat(entered) >= LATE_MIN_DELAY


def is_far_from_plan(tests: int | None, planned: int | None) -> bool:
    """Whether a visit had more tests than planned, or fewer than half.

    >>> is_far_from_plan(12, 12), is_far_from_plan(6, 12), is_far_from_plan(5, 12), is_far_from_plan(13, 12), is_far_from_plan(None, 12)
    (False, False, True, True, False)
    """
    return tests is not None and planned is not None and (tests > planned or 2 * tests < planned)


def reports_text(body: Mapping[str, Any], words: CampaignWords = DEFAULT_WORDS) -> str:
    """How an agent reports, from an event's body; an imported body may leave out defaults."""
    parts = []
    if body.get("sensitivity") is not None:
        parts.append(f"sensitivity {body['sensitivity']:.3g}")
    if body.get("false_positive_rate"):
        parts.append(f"false positive rate {body['false_positive_rate']:.3g}")
    if (body.get("tests") or 1) != 1:
        parts.append(f"{body['tests']} {words.tests} a visit")
    for name in ("calibration", "false_positive_calibration"):
        if body.get(name):
            parts.append(f"{name.replace('_', ' ')} {body[name][0]}/{body[name][1]}")
    return ", ".join(parts)


def policy_text(body: Mapping[str, Any]) -> str:
    """The policy in an event's body, in words."""
    text = body.get("name") or "as recommended"
    if body.get("delta") is not None:
        text += f", delta {body['delta']:g}"
    return text if body.get("memory") is None else f"{text}, memory {body['memory']}"


def on_change_text(body: Mapping[str, Any], words: CampaignWords) -> str:
    """What an event's body says of arms that change, if it says anything."""
    if "on_change" not in body:
        return ""
    return f"; {words.an_arm} that changes is {'' if body['on_change'] == 'forget' else 'not '}forgotten"


def season_text(season: int | None, words: CampaignWords) -> str:
    """The length of a season."""
    return "without an end" if season is None else f"of {words.count(season, 'round')}"


def ends_text(body: Mapping[str, Any]) -> str:
    """The day on which a season ends, if an event's body has it."""
    return f", until {body['ends']}" if body.get("ends") else ""


def prior_text(given: Any, words: CampaignWords) -> str:
    """What an event's body states of an arm's mean."""
    shape = parse_stated_prior(given)
    return "nothing" if shape is None else render_shape(shape, words.tests)


def names_in_body(given: Sequence[Any]) -> list[str]:
    """The names of the new agents or arms in an event's body."""
    return [one if isinstance(one, str) else one["name"] for one in given]


def author_text(event: "Event") -> str:
    """Who wrote an event, with the id of the link they used: names may look alike, ids never do."""
    return event.who if event.link is None else f"{event.who} ({event.link})"


def tests_in_body(given: Any) -> int:
    """The number of tests in an agent's body; 1 if an imported body leaves it out."""
    return 1 if isinstance(given, str) else given.get("tests") or 1


class EventNarrator:
    """Puts events into words one after the other, and remembers the state that this takes."""

    def __init__(self, state: "State | None" = None, words: CampaignWords = DEFAULT_WORDS) -> None:
        self.words = words if state is None else state.words
        self.names: dict[str, str] = {}
        self._links: dict[str, str] = {}  # whose, by id
        self._told: dict[tuple[int, str], dict[str, str]] = {}
        self._plans: dict[int, dict[str, str | None]] = {}
        self._tests: dict[str, int] = {}  # of a visit, by agent
        self._tests_then: dict[int, dict[str, int]] = {}  # the same when a round was planned
        self._state = state
        if state is not None:
            self.names = {"campaign": state.name}
            self._links = {link.id: link.name for link in state.links.values()}
            self._meet("agent", state.agent_names)
            self._meet("arm", state.arm_names)

    def tell(self, event: "Event") -> str:
        """What happened, in a sentence; an event that is damaged or of a newer version is shown as it is."""
        from heterobandits.campaigns.events import EVENT_KINDS, EVENT_VERSION

        if event.kind in EVENT_KINDS and event.version <= EVENT_VERSION:
            tell = getattr(self, f"_{event.kind.replace(' ', '_')}")
            with suppress(LookupError, TypeError, ValueError, AttributeError):
                more = said_text(event.body, event.time) if event.kind in TOLD_KINDS else ""
                return escape_text(tell(event.body) + more)
        return escape_text(f"{event.kind}, which cannot be read: {repr_of(event.body)}")

    @property
    def agents(self) -> list[str]:
        """The names of all agents so far."""
        return [name for key, name in self.names.items() if key.startswith("agent-")]

    def _meet(self, kind: str, names: Sequence[str]) -> None:
        """Remember the names of agents or arms that are new."""
        there = sum(key.startswith(f"{kind}-") for key in self.names)
        for number, name in enumerate(names, there + 1):
            self.names[f"{kind}-{number}"] = name

    def _join(self, agents: Sequence[Any]) -> None:
        """Remember agents that are new, and their tests."""
        first = len(self.agents) + 1
        self._meet("agent", names_in_body(agents))
        new = {f"agent-{n}": tests_in_body(one) for n, one in enumerate(agents, first)}
        self._tests = self._tests | new

    def _counts(self, body: Mapping[str, Any]) -> str:
        """What came of a visit, with what was planned if it is far from that."""
        agent, round = self._id("agent", body["agent"]), body["round"]
        if self._state is None:
            then = self._tests_then.get(round, {})
            return counts_text(body, then.get(agent, self._tests.get(agent)))
        from heterobandits.campaigns.amounts import planned_tests_of

        number, at = self._state.agent(agent), self._state.round(round)
        return counts_text(body, planned_tests_of(self._state, number, at))

    def _id(self, kind: "MemberKind", key: str) -> str:
        """The id of an agent or arm; one from elsewhere may stand there by name."""
        if key in self.names:
            return key
        same = (i for i, name in self.names.items() if name == key and i.startswith(f"{kind}-"))
        return next(same, key)

    def _reports(self, body: Mapping[str, Any]) -> dict[str, str]:
        """What is told of an agent's visits in a round, by arm: kept as events come, begun with what the state knows."""
        round, agent = body["round"], self._id("agent", body["agent"])
        if (round, agent) not in self._told:
            self._told[round, agent] = self._known(round, agent)
        return self._told[round, agent]

    def _known(self, round: int, agent: str) -> dict[str, str]:
        """What the state knows of an agent's visits in a round, by arm."""
        if self._state is None:
            return {}
        from heterobandits.campaigns.outcomes import body_of_counts
        from heterobandits.campaigns.state import member_id

        number = self._state.agent(agent)
        visits = self._state.round(round).told.items()
        which = {"round": round, "agent": agent}
        return {
            member_id("arm", n): self._counts(which | body_of_counts(told.counts))
            for (a, n), told in visits
            if a == number
        }

    def _planned(self, body: Mapping[str, Any]) -> str | None:
        """Where the plan of a round sends an agent."""
        from heterobandits.campaigns.state import member_id

        round, agent = body["round"], self._id("agent", body["agent"])
        if self._state is None:
            return self._plans[round].get(agent)
        arms = dict(enumerate(self._state.round(round).assignment))
        arm = arms.get(self._state.agent(agent))
        return None if arm is None else member_id("arm", arm)

    def _name(self, key: str) -> str:
        """The name of an agent or arm; one from elsewhere may stand there by name."""
        return self.names.get(key, key)

    def _who(self, body: Mapping[str, Any]) -> str:
        return self._name(body["agent"])

    def _created(self, body: Mapping[str, Any]) -> str:
        self.names["campaign"] = body["name"]
        self._join(body["agents"])
        self._meet("arm", names_in_body(body["arms"]))
        agents = self.words.count(len(body["agents"]), "agent")
        arms = self.words.count(len(body["arms"]), "arm")
        return (
            f"created {body['name']}: {agents}, {arms}, policy "
            f"{policy_text(body['policy'])}, a season {season_text(body['season'], self.words)}{ends_text(body)}{on_change_text(body, self.words)}"
        )

    def _agents_added(self, body: Mapping[str, Any]) -> str:
        self._join(body["agents"])
        each = (f"{one['name']} ({reports_text(one, self.words)})" for one in body["agents"])
        return f"added {', '.join(each)}"

    def _arms_added(self, body: Mapping[str, Any]) -> str:
        names = names_in_body(body["arms"])
        self._meet("arm", names)
        each = (
            f"{name} ({prior_text(one['prior'], self.words)})"
            if isinstance(one, dict) and "prior" in one
            else name
            for name, one in zip(names, body["arms"], strict=True)
        )
        return f"added the {self.words.of('arm', len(names))} {', '.join(each)}"

    def _renamed(self, body: Mapping[str, Any]) -> str:
        key = body.get("id") or "campaign"
        old = self._name(key)
        self.names[self._id(body["what"], key)] = body["name"]
        what = self.words.body.get(body["what"], body["what"])
        return f"renamed the {what} {old} to {body['name']}"

    def _retired(self, body: Mapping[str, Any]) -> str:
        return f"retired {self._name(body['id'])}"

    def _returned(self, body: Mapping[str, Any]) -> str:
        return f"brought back {self._name(body['id'])}"

    def _agent_revised(self, body: Mapping[str, Any]) -> str:
        self._tests = self._tests | {self._id("agent", body["id"]): tests_in_body(body["reports"])}
        since = (
            f"from the next {self.words.round} on"
            if body["since"] == "now"
            else "from the beginning"
        )
        return f"revised {self._name(body['id'])}, {since}: {reports_text(body['reports'], self.words)}"

    def _arm_revised(self, body: Mapping[str, Any]) -> str:
        return f"stated of {self._name(body['id'])} beforehand: {prior_text(body['prior'], self.words)}"

    def _prior_changed(self, body: Mapping[str, Any]) -> str:
        learned = body["prior"] == "learned"
        return f"let plans go by {f'what all {self.words.arms} together make likely' if learned else f'what is stated of each {self.words.arm} alone'}"

    def _policy_changed(self, body: Mapping[str, Any]) -> str:
        return (
            f"changed the policy to {policy_text(body['policy'])}{on_change_text(body, self.words)}"
        )

    def _season_changed(self, body: Mapping[str, Any]) -> str:
        return (
            f"changed the season to one {season_text(body['season'], self.words)}{ends_text(body)}"
        )

    def _round_planned(self, body: Mapping[str, Any]) -> str:
        self._tests_then[body["round"]] = self._tests
        sent = [one for one in body["assignments"] if one["arm"] is not None]
        self._plans[body["round"]] = {
            self._id("agent", one["agent"]): self._id("arm", one["arm"]) for one in sent
        }
        text = f"planned {self.words.round} {body['round']}"
        if len(sent) > SENTENCE_MAX_NAMES:
            text += f" for {len(sent)} {self.words.agents}"
        elif sent:
            each = (f"{self._who(one)} to {self._name(one['arm'])}" for one in sent)
            text += f": {', '.join(each)}"
        return "; ".join([text, *self._given(body)])

    def _given(self, body: Mapping[str, Any]) -> Iterator[str]:
        """The circumstances of a round."""
        for name in ("absent", "closed"):
            if body[name]:
                yield f"{name} {', '.join(self._name(key) for key in body[name])}"
        for name in ("forbidden", "forced"):
            pairs = (f"{self._name(a)} to {self._name(n)}" for a, n in body[name])
            if body[name]:
                yield f"{name} {', '.join(pairs)}"

    def _overridden(self, body: Mapping[str, Any]) -> str:
        arms = list(dict.fromkeys(self._id("arm", arm) for arm in body["arms"]))
        places = [self._name(arm) for arm in arms]
        went = f"went to {' and '.join(places)}" if places else "stayed home"
        planned = self._planned(body)
        same = arms == ([] if planned is None else [planned])
        text = f"{self.words.round} {body['round']}: {self._who(body)} {went}, {'as' if same else 'not as'} planned"
        reports = self._reports(body)
        for arm in [arm for arm in reports if arm not in arms]:  # what was told of the one visit
            reports[arms[0]] = reports.pop(arm)
            text += f"; its report of {reports[arms[0]]} goes with it"
        return text

    def _arm_forgotten(self, body: Mapping[str, Any]) -> str:
        why = {"change": ", which has changed", "again": " again"}.get(body["because"], "")
        return f"forgot what was seen of {self._name(body['arm'])}{why}, up to {self.words.round} {body['round']}"

    def _arm_remembered(self, body: Mapping[str, Any]) -> str:
        return f"took back that {self._name(body['arm'])} was forgotten"

    def _at(self, body: Mapping[str, Any]) -> str:
        return f"{self.words.round} {body['round']}: {self._who(body)} at {self._name(body['arm'])}"

    def _reported(self, body: Mapping[str, Any]) -> str:
        text = self._reports(body)[self._id("arm", body["arm"])] = self._counts(body)
        return f"{self._at(body)}: {text}"

    def _corrected(self, body: Mapping[str, Any]) -> str:
        arm, reports = self._id("arm", body["arm"]), self._reports(body)
        before, reports[arm] = reports.get(arm, "nothing"), self._counts(body)
        return f"{self._at(body)}: corrected to {reports[arm]}, before it was {before}"

    def _withdrawn(self, body: Mapping[str, Any]) -> str:
        before = self._reports(body).pop(self._id("arm", body["arm"]), "nothing")
        return f"{self._at(body)}: withdrawn, before it was {before}"

    def _round_closed(self, body: Mapping[str, Any]) -> str:
        return f"closed {self.words.round} {body['round']}"

    def _round_reopened(self, body: Mapping[str, Any]) -> str:
        return f"opened {self.words.round} {body['round']} again"

    def _round_cancelled(self, body: Mapping[str, Any]) -> str:
        return f"cancelled {self.words.round} {body['round']}"  # of which nothing is told any more

    def _archived(self, body: Mapping[str, Any]) -> str:
        return "archived the campaign"

    def _brought_back(self, body: Mapping[str, Any]) -> str:
        return "brought the campaign back from the archive"

    def _words_chosen(self, body: Mapping[str, Any]) -> str:
        words = body["words"]
        return f"chose the words {words['agent']}, {words['arm']}, {words['round']} and {words['test']}"

    def _note(self, body: Mapping[str, Any]) -> str:
        text = " / ".join(body["text"].splitlines())
        return text if body["round"] is None else f"{self.words.round} {body['round']}: {text}"

    def _link_issued(self, body: Mapping[str, Any]) -> str:
        of = "" if body["agent"] is None else f" of {self._who(body)}"
        until = "" if body["expires"] is None else f", until {body['expires'][:10]}"
        self._links[body["link"]] = body["name"]
        return f"issued a link to {body['name']}, {body['role']}{of}{until}"

    def _link_revoked(self, body: Mapping[str, Any]) -> str:
        whose = self._links.get(body["link"])
        return f"revoked the link {body['link']}" + ("" if whose is None else f" of {whose}")

    def _imported(self, body: Mapping[str, Any]) -> str:
        first, last = body["first"], body["last"]
        which = f"event {first}" if first == last else f"events {first:,} to {last:,}"
        return f"imported {which} from a file, which alone says who wrote that"


class EventText(NamedTuple):
    """An event in words, and the ids of the agents and arms that it added."""

    event: "Event"
    text: str
    new: Sequence[str]


def narrate_events(events: "Iterable[Event]", story: EventNarrator) -> Iterator[EventText]:
    """Each event with its words, in order."""
    for event in events:
        before = len(story.names)
        text = story.tell(event)
        brought = list(story.names)[before:] if len(story.names) > before else ()
        yield EventText(event, text, brought)


def is_about(one: EventText, round: int | None, agent: str | None) -> bool:
    """Whether an event is about this round and this agent, by id; None is any. An import is about all."""
    body: Any = one.event.body
    if (
        not isinstance(body, dict) or one.event.kind == "imported"
    ):  # a damaged event is about anything
        return True
    if round is not None and body.get("round") != round:
        return False
    if agent is None or agent in one.new or agent in (body.get("agent"), body.get("id")):
        return True
    sent = body.get("assignments")
    each = (
        (one.get("agent") for one in sent if isinstance(one, dict))
        if isinstance(sent, list)
        else ()
    )
    return agent in each


def waiting_in_words(state: "State", number: int) -> str:
    """For whom a round waits, in words."""
    round = state.round(number)
    who = (
        state.agents[agent].name
        + (f" at {state.arms[arm].name}" if len(round.arms_of(agent)) > 1 else "")
        for agent, arm in round.missing
    )
    return f"round {number} waits for {', '.join(who)}"


def render_minute(time: Any) -> str:
    """A time of an event as people read it, to the minute; anything else as it stands.

    >>> render_minute("2026-12-13T23:59:48.826785Z")
    '2026-12-13 23:59 UTC'
    """
    found = re.match(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)", str(time), re.ASCII)
    return str(time) if found is None else f"{found[1]} {found[2]} UTC"
