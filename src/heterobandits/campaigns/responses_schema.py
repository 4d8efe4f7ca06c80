"""The shapes of the answers, for the server and the command line that give them and the client that reads them.

Agents and arms have a name, which may change, and an id, which does not. Times are in UTC. A number that is infinite is the
text "infinite", which JSON has no other word for.
"""

from typing import Any, Literal

from typing_extensions import (
    TypedDict,
)  # the server reads these, and before Python 3.12 needs this one

JsonNumber = float | Literal["infinite"] | None


class HealthJson(TypedDict):
    """Whether the server can do its work; and whether it can plan by every rule, or by how many of them yet."""

    status: Literal["ok", "unavailable"]
    database: Literal["ok", "unavailable"]
    version: str
    ready: bool
    rules_ready: int
    rules: int


class NamedJson(TypedDict):
    """An agent or arm."""

    id: str
    name: str


class PairJson(TypedDict):
    """An agent and an arm."""

    agent: str
    agent_id: str
    arm: str
    arm_id: str


class MemberJson(NamedJson):
    """An agent or arm, and whether it is planned with no more."""

    retired: bool


class ArmJson(MemberJson):
    """An arm, and the Beta that is stated of its mean; what was seen of it up to the round that is `forgotten` does not count."""

    prior: list[float] | None
    forgotten: int | None


class AgentJson(MemberJson):
    """An agent, and how it reports now."""

    sensitivity: float
    false_positive_rate: float
    tests: int
    calibration: list[int] | None
    false_positive_calibration: list[int] | None


class AgentsJson(TypedDict):
    """Those who were added."""

    agents: list[AgentJson]


class ArmsJson(TypedDict):
    """Those that were added."""

    arms: list[ArmJson]


class PolicyJson(TypedDict):
    """What plans the rounds."""

    name: str
    delta: float | None
    memory: int | None


class EntryJson(NamedJson):
    """A campaign in the list of all: `number` is that of its last event, `rounds` says how many are planned, `waiting` which wait."""

    created: str
    changed: str
    number: int
    rounds: int
    waiting: list[int]
    archived: bool


class WordsJson(TypedDict):
    """What a campaign calls its agents, arms, rounds and tests."""

    agent: str
    agents: str
    arm: str
    arms: str
    round: str
    rounds: str
    test: str
    tests: str


class CampaignJson(EntryJson):
    """A campaign."""

    policy: PolicyJson
    seed: int
    season: int | None
    ends: str | None
    words: WordsJson
    prior: str
    on_change: Literal["nothing", "forget"]
    agents: list[AgentJson]
    arms: list[ArmJson]


class DamagedJson(NamedJson):
    """A campaign that cannot be read, its last name that can be, and what is wrong."""

    wrong: str


class EntriesJson(TypedDict):
    """All campaigns, the oldest first: those that can be read, and those that are damaged."""

    campaigns: list[EntryJson]
    damaged: list[DamagedJson]


class CircumstancesJson(TypedDict):
    """What a round was planned under."""

    absent: list[NamedJson]
    closed: list[NamedJson]
    forbidden: list[PairJson]
    forced: list[PairJson]


class AssignmentJson(TypedDict):
    """Where an agent is sent, or nowhere, and why: a code for programs and a sentence for people."""

    agent: str
    agent_id: str
    arm: str | None
    arm_id: str | None
    code: str
    reason: str
    index: JsonNumber
    estimate: JsonNumber
    visited: int | None
    pulls: int | None
    successes: int | None
    lot: int | None
    place: int | None
    finds: float | None


class CurrentJson(TypedDict):
    """What is known of a visit now: it `waits` for its outcome, was `missing`, or has successes of tests, by an event.

    `reported` is the time of that event, `entered` when somebody typed it, if that was said, and `note` what was said with it.
    """

    waits: bool
    missing: bool
    successes: int | None
    tests: int | None
    event: int | None
    reported: str | None
    entered: str | None
    note: str | None


class VisitJson(PairJson, CurrentJson):
    """A visit and what is known of it; `far` if it had more tests than planned, or not half as many."""

    round: int
    tests_planned: int
    far: bool


class RoundJson(TypedDict):
    """A round: the plan as it was made, and its visits, with those whom somebody sent elsewhere since."""

    round: int
    event: int
    time: str
    closed: bool
    waits: bool
    circumstances: CircumstancesJson
    assignments: list[AssignmentJson]
    visits: list[VisitJson]
    warnings: list[str]


class PriceJson(TypedDict):
    """What a constraint costs, in detections: those that the plan without it is expected to make more, or less if negative."""

    kind: str
    agent_id: str | None
    arm_id: str | None
    lost: float
    text: str


class PricesJson(TypedDict):
    """Detections that the plan is expected to make, the most that these circumstances allow, and what each costs; null before anything
    is known."""

    expected: float | None
    best: float | None
    constraints: list[PriceJson]
    warnings: list[str]


class PreviewJson(TypedDict):
    """The plan of the next round as it would be made now; nothing is recorded."""

    round: int
    circumstances: CircumstancesJson
    assignments: list[AssignmentJson]
    prices: PricesJson


class RoundEntryJson(TypedDict):
    """A round in the list of all: how many visits it has, and of how many something is known."""

    round: int
    time: str
    closed: bool
    waits: bool
    visits: int
    told: int


class RoundsJson(TypedDict):
    """Rounds in order; `last` is the number of the last one planned."""

    rounds: list[RoundEntryJson]
    last: int


class WhyJson(PairJson):
    """Why an agent was sent to an arm, from what was known then."""

    text: str
    reason: str
    mode: str
    estimate: float
    lower: float
    upper: float
    best_rank: int
    worst_rank: int
    index: JsonNumber
    pulls: int
    own_pulls: int
    runner_up: str | None
    runner_up_index: JsonNumber
    flip_index: JsonNumber
    changed: bool
    under_way: list[str]


class ExplanationsJson(TypedDict):
    """Why a round sent its agents where they went."""

    round: int
    explanations: list[WhyJson]


class PullsOfJson(TypedDict):
    """How often an agent pulled an arm."""

    agent: str
    agent_id: str
    pulls: int


class EstimateJson(MemberJson):
    """What is known of an arm."""

    changed: bool
    estimate: float
    low: float
    high: float
    best_chance: float
    among_chance: float
    lower: float
    upper: float
    best_rank: int
    worst_rank: int
    pulls: int
    successes: int
    visits: int
    by_agent: list[PullsOfJson]


class EstimatesJson(TypedDict):
    """What is known of all arms, in their order."""

    arms: list[EstimateJson]


class AboveJson(TypedDict):
    """An arm that is certainly above another."""

    above: NamedJson
    below: NamedJson


class ChangeJson(TypedDict):
    """An arm that has changed, most likely after this round: its average means before and since, and whether it has again since."""

    arm: str
    arm_id: str
    after: int
    before: float
    since: float
    again: bool


class AnswersJson(TypedDict):
    """What can be said of the arms, with this confidence, in numbers and in words; `probable` has what is likely, in words."""

    probable: list[str]
    confidence: float
    best: NamedJson | None
    above: list[AboveJson]
    candidates: list[NamedJson]
    visits_needed: int | None
    changed: list[ChangeJson]
    sentences: list[str]


class SensitivityJson(NamedJson):
    """How sensitive an agent is: as planned with, by its calibration, by all that is known, and by the visits alone."""

    sensitivity: float
    calibrated: list[float]
    estimate: float
    lower: float
    upper: float
    verdict: Literal["agrees", "worse", "better"]
    finds: Literal["as believed", "less", "more"]


class SensitivitiesJson(TypedDict):
    """How sensitive all agents are by the visits, in numbers, and in words where that is not what was stated."""

    agents: list[SensitivityJson]
    sentences: list[str]


class ShadowedJson(TypedDict):
    """Where an agent was sent in a round, and where another policy would have sent it."""

    round: int
    agent: str
    agent_id: str
    planned: str | None
    planned_id: str | None
    other: str | None
    other_id: str | None


class ShadowJson(TypedDict):
    """What another policy would have planned: the `differ`ences, out of all that was planned; `tied` more do only in ties."""

    policy: str
    rounds: int
    differ: int
    tied: int
    differences: list[ShadowedJson]
    sentences: list[str]


class ProjectionJson(TypedDict):
    """The rest of the season, on draws from what is known."""

    rounds: int
    draws: int
    detections: float
    detections_se: float
    low: float
    high: float
    rotation: float
    rotation_low: float
    rotation_high: float
    gain_low: float
    gain_high: float
    best_known: float
    best_known_se: float
    warnings: list[str]


class WorthJson(TypedDict):
    """What one more agent, or a better one, would find more in the rest of the season."""

    plain: ProjectionJson
    other: ProjectionJson
    more: float
    more_se: float


class EventJson(TypedDict):
    """An event of the log."""

    campaign: str
    number: int
    time: str
    who: str
    kind: str
    version: int
    body: dict[str, Any]
    key: str | None
    previous: str
    hash: str
    link: str | None


class EventsJson(TypedDict):
    """Events in order; `last` is the number of the last one there is."""

    events: list[EventJson]
    last: int


class NoteJson(TypedDict):
    """A note as it was written."""

    event: int
    time: str
    who: str
    text: str
    round: int | None


class LinkJson(TypedDict):
    """A link, without what opens it: when it was made, and when it was used last, to the hour."""

    id: str
    role: str
    name: str
    agent: str | None
    agent_id: str | None
    expires: str | None
    revoked: bool
    made: str
    last_used: str | None


class LinksJson(TypedDict):
    """All links of a campaign."""

    links: list[LinkJson]


class NewLinkJson(LinkJson):
    """A link with its token and address, which are said once: asked again with the same key, both are null."""

    url: str | None
    token: str | None


class FieldErrorJson(TypedDict):
    """A field that is wrong."""

    path: str
    message: str


class StatusJson(CampaignJson):
    """On the command line: where a campaign stands after the event with this `hash`, and the visits that it waits for."""

    hash: str
    visits: list[VisitJson]
    estimates: list[EstimateJson]
    answers: AnswersJson


class PricedRoundJson(RoundJson):
    """On the command line: a round as it was recorded, with what its circumstances cost."""

    prices: PricesJson


class ExplainedRoundJson(RoundJson):
    """On the command line: a round, and why it sent those who were asked about where it did."""

    explanations: list[WhyJson]


class NarratedEventJson(EventJson):
    """On the command line: an event, and what happened in words."""

    text: str


class WrittenJson(TypedDict):
    """On the command line: what a command has written; `number` and `hash` are those of the last event there is."""

    number: int
    hash: str
    events: list[NarratedEventJson]


class HistoryJson(TypedDict):
    """On the command line: the last events that fit, how many do `earlier`, and what is `wrong` with a damaged log."""

    events: list[NarratedEventJson]
    earlier: int
    wrong: str | None
