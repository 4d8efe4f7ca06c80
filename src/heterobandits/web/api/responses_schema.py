"""The shapes of the answers, for the server that writes them and the client that reads them.

Agents and arms have a name, which may change, and an id, which does not. Times are in UTC. A number that is infinite is the
text "infinite", which JSON has no other word for.
"""

from typing import Any, Literal

from typing_extensions import (
    TypedDict,
)  # the server reads these, and before Python 3.12 needs this one

Number = float | Literal["infinite"] | None


class Health(TypedDict):
    """Whether the server can do its work."""

    status: Literal["ok", "unavailable"]
    database: Literal["ok", "unavailable"]
    version: str


class Named(TypedDict):
    """An agent or arm."""

    id: str
    name: str


class Pair(TypedDict):
    """An agent and an arm."""

    agent: str
    agent_id: str
    arm: str
    arm_id: str


class Agent(TypedDict):
    """An agent, and how it reports now."""

    id: str
    name: str
    retired: bool
    sensitivity: float
    false_positive_rate: float
    tests: int
    calibration: list[int] | None
    false_positive_calibration: list[int] | None


class Arm(TypedDict):
    """An arm."""

    id: str
    name: str
    retired: bool


class Agents(TypedDict):
    """Those who were added."""

    agents: list[Agent]


class Arms(TypedDict):
    """Those that were added."""

    arms: list[Arm]


class Policy(TypedDict):
    """What plans the rounds."""

    name: str
    delta: float | None
    memory: int | None


class Campaign(TypedDict):
    """A campaign: `number` is that of its last event, `rounds` says how many are planned, `waiting` which wait."""

    id: str
    name: str
    created: str
    changed: str
    number: int
    policy: Policy
    seed: int
    season: int | None
    rounds: int
    waiting: list[int]
    agents: list[Agent]
    arms: list[Arm]


class Entry(TypedDict):
    """A campaign in the list of all."""

    id: str
    name: str
    created: str
    changed: str
    number: int
    rounds: int
    waiting: list[int]


class Entries(TypedDict):
    """All campaigns, the oldest first."""

    campaigns: list[Entry]


class Circumstances(TypedDict):
    """What a round was planned under."""

    absent: list[Named]
    closed: list[Named]
    forbidden: list[Pair]
    forced: list[Pair]


class Assignment(TypedDict):
    """Where an agent is sent, or nowhere, and why: a code for programs and a sentence for people."""

    agent: str
    agent_id: str
    arm: str | None
    arm_id: str | None
    code: str
    reason: str
    index: Number
    estimate: Number
    visited: int | None


class Visit(TypedDict):
    """A visit and what is known of it: `waits` for its outcome, was `missing`, or has successes of tests, by an event.

    `far` if it had more tests than planned, or not half as many.
    """

    round: int
    agent: str
    agent_id: str
    arm: str
    arm_id: str
    waits: bool
    missing: bool
    successes: int | None
    tests: int | None
    event: int | None
    tests_planned: int
    far: bool


class Round(TypedDict):
    """A round: the plan as it was made, and its visits, with those whom somebody sent elsewhere since."""

    round: int
    event: int
    time: str
    closed: bool
    waits: bool
    circumstances: Circumstances
    assignments: list[Assignment]
    visits: list[Visit]
    warnings: list[str]


class Price(TypedDict):
    """What a constraint costs, in detections: those that the plan without it is expected to make more, or less if negative."""

    kind: str
    agent_id: str | None
    arm_id: str | None
    lost: float
    text: str


class Prices(TypedDict):
    """Detections that the plan is expected to make, the most that these circumstances allow, and what each costs."""

    expected: float
    best: float
    constraints: list[Price]


class Preview(TypedDict):
    """The plan of the next round as it would be made now; nothing is recorded."""

    round: int
    circumstances: Circumstances
    assignments: list[Assignment]
    prices: Prices


class RoundEntry(TypedDict):
    """A round in the list of all: how many visits it has, and of how many something is known."""

    round: int
    time: str
    closed: bool
    waits: bool
    visits: int
    told: int


class Rounds(TypedDict):
    """Rounds in order; `last` is the number of the last one planned."""

    rounds: list[RoundEntry]
    last: int


class Why(TypedDict):
    """Why an agent was sent to an arm, from what was known then."""

    agent: str
    agent_id: str
    arm: str
    arm_id: str
    text: str
    reason: str
    mode: str
    estimate: float
    lower: float
    upper: float
    best_rank: int
    worst_rank: int
    index: Number
    pulls: int
    own_pulls: int
    runner_up: str | None
    runner_up_index: Number
    flip_index: Number
    changed: bool


class Explanations(TypedDict):
    """Why a round sent its agents where they went."""

    round: int
    explanations: list[Why]


class PullsOf(TypedDict):
    """How often an agent pulled an arm."""

    agent: str
    agent_id: str
    pulls: int


class Estimate(TypedDict):
    """What is known of an arm."""

    id: str
    name: str
    retired: bool
    changed: bool
    estimate: float
    lower: float
    upper: float
    best_rank: int
    worst_rank: int
    pulls: int
    successes: int
    visits: int
    by_agent: list[PullsOf]


class Estimates(TypedDict):
    """What is known of all arms, in their order."""

    arms: list[Estimate]


class Above(TypedDict):
    """An arm that is certainly above another."""

    above: Named
    below: Named


class Change(TypedDict):
    """An arm that has changed, most likely after this round: its means before and since."""

    arm: str
    arm_id: str
    after: int
    before: float
    since: float


class Answers(TypedDict):
    """What can be said of the arms, with this confidence, in numbers and in words."""

    confidence: float
    best: Named | None
    above: list[Above]
    candidates: list[Named]
    visits_needed: int | None
    changed: list[Change]
    sentences: list[str]


class Shadowed(TypedDict):
    """Where an agent was sent in a round, and where another policy would have sent it."""

    round: int
    agent: str
    agent_id: str
    planned: str | None
    planned_id: str | None
    other: str | None
    other_id: str | None


class Shadow(TypedDict):
    """What another policy would have planned: the `differ`ences, out of all that was planned; `tied` more do only in ties."""

    policy: str
    rounds: int
    differ: int
    tied: int
    differences: list[Shadowed]
    sentences: list[str]


class Projection(TypedDict):
    """The rest of the season, on draws from what is known."""

    rounds: int
    draws: int
    detections: float
    detections_se: float
    low: float
    high: float
    rotation: float
    best_known: float
    best_known_se: float
    warnings: list[str]


class Worth(TypedDict):
    """What one more agent, or a better one, would find more in the rest of the season."""

    plain: Projection
    other: Projection
    more: float
    more_se: float


class Event(TypedDict):
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


class Events(TypedDict):
    """Events in order; `last` is the number of the last one there is."""

    events: list[Event]
    last: int


class Note(TypedDict):
    """A note as it was written."""

    event: int
    time: str
    who: str
    text: str
    round: int | None


class Link(TypedDict):
    """A link, without what opens it."""

    id: str
    role: str
    name: str
    agent: str | None
    agent_id: str | None
    expires: str | None
    revoked: bool


class Links(TypedDict):
    """All links of a campaign."""

    links: list[Link]


class NewLink(Link):
    """A link with its token and address, which are said once: asked again with the same key, both are null."""

    url: str | None
    token: str | None


class FieldError(TypedDict):
    """A field that is wrong."""

    path: str
    message: str


class Current(TypedDict):
    """What is known of a visit now."""

    waits: bool
    missing: bool
    successes: int | None
    tests: int | None
    event: int | None
