"""The audit: one HTML file that tells a whole campaign to people without the software, with all events in it.

It is a pure function of the events and of this version. So whoever has the file can have it made again from the events in
it, and nobody can have changed a letter of what it says.
"""

import html
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from markupsafe import Markup

from heterobandits.campaigns.amounts import planned_tests_of
from heterobandits.campaigns.analysis.answers import (
    answers,
    confidence_of,
    render_percent_floor,
    validity_text,
)
from heterobandits.campaigns.analysis.beliefs import true_finds
from heterobandits.campaigns.analysis.estimates import (
    ArmEstimate,
    mark_of_visits,
    order_by_estimate,
)
from heterobandits.campaigns.analysis.probabilities import (
    fit_rate_axis,
    nothing_known_text,
    probable,
    render_certain_ends,
    render_rates,
)
from heterobandits.campaigns.analysis.season_summary import finds_in_turn
from heterobandits.campaigns.audit.history_text import (
    EventNarrator,
    author_text,
    counts_text,
    narrate_events,
    reports_text,
)
from heterobandits.campaigns.audit.verification import Anchor, number_of_anchor, replay_events
from heterobandits.campaigns.events import (
    Event,
    OnShare,
    announce_progress,
    check_chain,
    parse_event_line,
    render_event_line,
)
from heterobandits.campaigns.files.csv_tables import status_of_visit
from heterobandits.campaigns.outcomes import body_of_counts
from heterobandits.campaigns.reducer import fold_events
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State
from heterobandits.errors import InvalidInput, escape_text, repr_of
from heterobandits.output.pages import render_template
from heterobandits.provenance import digest_of_sources, version_of

PAGE_PREFIX = b"<!doctype html"  # what a page is recognised by
AUDIT_MAX_BYTES = 256_000_000  # of a page that is looked at: 100,000 outcomes take about 60 MB
EVENTS_OPENING_TAG, EVENTS_CLOSING_TAG = '<pre id="events">', "</pre>"  # around the events
GENERATOR_PATTERN = re.compile(
    r'<meta name="generator" content="(heterobandits [\w.+!-]{1,40}, sources [0-9a-f]{16})">',
    re.ASCII,
)
GENERATOR_MAX_OFFSET = 1_000  # letters at the beginning that say what made a page
DIFFERENCE_LETTERS = 40  # letters of a line that differs, from a few before the first that does


class AuditVisit(NamedTuple):
    """One visit of a round in words; `planned` names the plan's arm if somebody decided otherwise."""

    agent: str
    arm: str
    outcome: str
    planned: str | None


class AuditArm(NamedTuple):
    """An arm in percent; without an estimate if nobody was there and nothing is stated of it."""

    known: ArmEstimate
    estimate: str | None
    interval: str
    mark: str


class CheckedAudit(NamedTuple):
    """An audit with intact events: the state after them, the program that made the page, and the first line that differs."""

    state: State
    maker: str
    differs: str | None
    anchored: int | None = None

    @property
    def same(self) -> bool:
        """Whether every letter follows."""
        return self.differs is None


def render_audit(events: Sequence[Event], tell: OnShare = lambda share: None) -> str:
    """Render the audit of a campaign, one HTML page, from all its events; `tell` hears the progress and may stop it."""
    state = fold_events(check_chain(announce_progress(events, tell, 0.0, 0.3)))
    return _render_audit_page(events, state, audit_maker(), tell)


def audit_arms(state: State) -> list[AuditArm]:
    """All arms in the order of their estimates."""
    made = []
    for known in order_by_estimate(state):
        estimate, low, high = render_rates(known.estimate, known.low, known.high)
        if not known.visits and state.arms[known.arm].prior is None:
            made.append(AuditArm(known, None, "", mark_of_visits(known)))
        else:
            interval = f"{low.removesuffix(' %')} to {high}"
            made.append(AuditArm(known, estimate, interval, mark_of_visits(known)))
    return made


@cache
def audit_maker() -> str:
    """What makes audits here: the version, and a digest of the sources, any of which may change the page."""
    return f"heterobandits {version_of('heterobandits')}, sources {digest_of_sources()}"


def _render_audit_page(
    events: Sequence[Event], state: State, made_by: str, tell: OnShare = lambda share: None
) -> str:
    """Render the audit of these events and the state they lead to, as `made_by` would have."""
    rounds = [
        (round, list(audit_visits(state, round)))
        for round in announce_progress(state.rounds, tell, 0.3, 0.5)
    ]
    lines = "\n".join(
        render_event_line(event) for event in announce_progress(events, tell, 0.5, 0.7)
    )
    arms, tests = audit_arms(state), int(state.pulls.sum())
    return render_template(
        "audit.html",
        maker=made_by,
        state=state,
        w=state.words,
        rounds=rounds,
        visits=sum(len(round.sent) for round in state.rounds),
        outcomes=sum(
            known.counts is not None for round in state.rounds for known in round.told.values()
        ),
        sentences=answers(state).sentences,
        confidence=render_percent_floor(confidence_of(state)),
        when=validity_text(state),
        arms=arms,
        scale=fit_rate_axis(max((one.known.high for one in arms if one.estimate), default=1.0)),
        certain_ends=render_certain_ends,
        likely=probable(state).sentences or [nothing_known_text(state)],
        tests=tests,
        found=int(state.successes.sum()),
        true_found=true_finds(state) if tests and state.team.offset.any() else None,
        in_turn=finds_in_turn(state),
        agents=[
            (agent, reports_text(state.rows[agent.row].reports.body, state.words))
            for agent in state.agents
        ],
        # as the page is written
        told=narrate_events(
            announce_progress(events, tell, 0.7, 1.0), EventNarrator(words=state.words)
        ),
        printable=escape_text,
        author=author_text,
        # Quotes stay as they are, and so the lines can be read and taken from the file as it lies on the disk.
        events=Markup(html.escape(lines, quote=False)),
    )


def audit_visits(state: State, round: PlannedRound) -> Iterator[AuditVisit]:
    """The visits of a round by agent, and the agents that somebody kept at home."""
    for agent in sorted({*range(len(round.assignment)), *round.moved}):
        name, arms = state.agents[agent].name, round.arms_of(agent)
        arm = round.assignment[agent] if agent < len(round.assignment) else None
        planned = None
        if arms != (() if arm is None else (arm,)):
            planned = "nowhere" if arm is None else state.arms[arm].name
        for place in arms:
            known = round.told.get((agent, place))
            status = status_of_visit(round, (agent, place))
            outcome = status
            if known is not None:
                tests = planned_tests_of(state, agent, round)
                outcome = counts_text(body_of_counts(known.counts), tests)
            yield AuditVisit(name, state.arms[place].name, outcome, planned)
        if planned is not None and not arms:
            yield AuditVisit(name, "stayed home", "", planned)


def check_audit(
    text: str,
    tell: OnShare = lambda share: None,
    anchor: Anchor = Anchor(),  # noqa: B008 - a tuple
) -> CheckedAudit:
    """Check an audit: every event fits, every plan follows, and these events make exactly this page.

    If another version has made it and its text is not what this one would write, that may be due to the version: the events
    are checked all the same, and `same` is false.
    """
    anchor = anchor.checked()
    page = text.replace("\r\n", "\n")  # as mail and some editors have it; no browser shows that
    made = GENERATOR_PATTERN.search(page[:GENERATOR_MAX_OFFSET])
    events = parse_audit_events(page)
    if made is None:
        raise InvalidInput("it does not say which version made it: it was changed")
    state = replay_events(events, tell)
    found = number_of_anchor(events, anchor)
    again = _render_audit_page(events, state, made[1])
    differs = None if again == page else describe_first_difference(page, again)
    if differs is not None and made[1] == audit_maker():
        raise InvalidInput(f"the page does not say what its events say: {differs}")
    return CheckedAudit(state, made[1], differs, found)


def parse_audit_events(page: str) -> list[Event]:
    """The events that an audit contains; nothing checks whether they fit.

    It is searched for two marks, and not parsed: whatever else may be in the page, its letters are compared later.
    """
    _, _, rest = page.partition(EVENTS_OPENING_TAG)
    lines, closed, _ = rest.partition(EVENTS_CLOSING_TAG)
    if not closed:
        raise InvalidInput("no events are in it: it is no audit of a campaign, or was cut off")
    made = []
    for row in html.unescape(lines).split("\n"):
        try:
            made.append(parse_event_line(row))
        except InvalidInput as error:
            raise InvalidInput(f"event {len(made) + 1}: {error}") from None
    return made


def describe_first_difference(page: str, again: str) -> str:
    """The first line of a page that is not as it should be."""
    pairs = zip_longest(page.split("\n"), again.split("\n"))
    number, (one, other) = next((i, pair) for i, pair in enumerate(pairs, 1) if len({*pair}) > 1)
    letters = enumerate(zip_longest(one or "", other or ""))
    first = max(0, next((i for i, (a, b) in letters if a != b), 0) - DIFFERENCE_LETTERS // 4)
    has, needs = (
        "nothing" if row is None else repr_of(row[first : first + DIFFERENCE_LETTERS])
        for row in (one, other)
    )
    return f"line {number} has {has}, they make {needs}"
