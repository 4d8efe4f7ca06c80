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

from heterobandits.campaigns.amounts import tests_planned
from heterobandits.campaigns.analysis.answers import (
    answers,
    confidence,
    estimates,
    percent_at_least,
    when_it_holds,
)
from heterobandits.campaigns.audit.history_text import (
    Story,
    author,
    counts_text,
    printable,
    reports_text,
    tell_events,
)
from heterobandits.campaigns.audit.verification import Anchor, anchored, replayed
from heterobandits.campaigns.events import (
    Event,
    Tell,
    announce,
    check_chain,
    from_line,
    line,
)
from heterobandits.campaigns.files.csv_tables import status_of
from heterobandits.campaigns.reducer import fold
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.service import counts_body
from heterobandits.campaigns.state import State
from heterobandits.errors import InvalidInput, shown
from heterobandits.output.pages import rendered
from heterobandits.provenance import sources_digest, version

BEGINS = b"<!doctype html"  # what a page is recognised by
MOST_BYTES = 256_000_000  # of a page that is looked at: 100,000 outcomes take about 60 MB
OPENS, CLOSES = '<pre id="events">', "</pre>"  # around the events
MADE = re.compile(
    r'<meta name="generator" content="(heterobandits [\w.+!-]{1,40}, sources [0-9a-f]{16})">',
    re.ASCII,
)
HEAD = 1_000  # letters at the beginning that say what made a page
AROUND = 40  # letters of a line that differs, from a few before the first that does


class AuditVisit(NamedTuple):
    """A visit of a round in words; `planned` is where the plan would have it, if somebody decided otherwise."""

    agent: str
    arm: str
    outcome: str
    planned: str | None


class Audited(NamedTuple):
    """An audit whose events are whole: what stands after them, what made it, and the first line that does not follow from them."""

    state: State
    maker: str
    differs: str | None
    anchored: int | None = None

    @property
    def same(self) -> bool:
        """Whether every letter follows."""
        return self.differs is None


def audit(events: Sequence[Event], tell: Tell = lambda share: None) -> str:
    """The audit of a campaign, an HTML page, from all its events; it tells how far it is, which may end it."""
    state = fold(check_chain(announce(events, tell, 0.0, 0.3)))
    return _page(events, state, maker(), tell)


@cache
def maker() -> str:
    """What makes audits here: the version, and a digest of its sources, as any of them may change a letter of one."""
    return f"heterobandits {version('heterobandits')}, sources {sources_digest()}"


def _page(
    events: Sequence[Event], state: State, made_by: str, tell: Tell = lambda share: None
) -> str:
    """The audit of these events, which make this state, as if that version had made it."""
    rounds = [
        (round, list(visits(state, round))) for round in announce(state.rounds, tell, 0.3, 0.5)
    ]
    lines = "\n".join(line(event) for event in announce(events, tell, 0.5, 0.7))
    return rendered(
        "audit.html",
        maker=made_by,
        state=state,
        rounds=rounds,
        visits=sum(len(round.sent) for round in state.rounds),
        outcomes=sum(
            known.counts is not None for round in state.rounds for known in round.told.values()
        ),
        sentences=answers(state).sentences,
        confidence=percent_at_least(confidence(state)),
        when=when_it_holds(state),
        arms=estimates(state),
        agents=[
            (agent, reports_text(state.rows[agent.row].reports.body)) for agent in state.agents
        ],
        told=tell_events(announce(events, tell, 0.7, 1.0), Story()),  # as the page is written
        printable=printable,
        author=author,
        # Quotes stay as they are, and so the lines can be read and taken from the file as it lies on the disk.
        events=Markup(html.escape(lines, quote=False)),
    )


def visits(state: State, round: PlannedRound) -> Iterator[AuditVisit]:
    """The visits of a round, by agent; and who was to go somewhere and stayed home by hand."""
    for agent in sorted({*range(len(round.assignment)), *round.moved}):
        name, arms = state.agents[agent].name, round.arms_of(agent)
        arm = round.assignment[agent] if agent < len(round.assignment) else None
        planned = None
        if arms != (() if arm is None else (arm,)):
            planned = "nowhere" if arm is None else state.arms[arm].name
        for place in arms:
            known = round.told.get((agent, place))
            status = status_of(round, (agent, place))
            outcome = status
            if known is not None:
                tests = tests_planned(state, agent, round)
                outcome = counts_text(counts_body(known.counts), tests)
            yield AuditVisit(name, state.arms[place].name, outcome, planned)
        if planned is not None and not arms:
            yield AuditVisit(name, "stayed home", "", planned)


def checked_audit(
    text: str,
    tell: Tell = lambda share: None,
    anchor: Anchor = Anchor(),  # noqa: B008 - a tuple
) -> Audited:
    """An audit, checked: every event fits, every plan follows, and the page is what these events make, to the letter.

    If another version has made it and its text is not what this one would write, that may be due to the version: the events
    are checked all the same, and `same` is false.
    """
    anchor = anchor.checked()
    page = text.replace("\r\n", "\n")  # as mail and some editors have it; no browser shows that
    made = MADE.search(page[:HEAD])
    events = events_in(page)
    if made is None:
        raise InvalidInput("it does not say which version made it: it was changed")
    state = replayed(events, tell)
    found = anchored(events, anchor)
    again = _page(events, state, made[1])
    differs = None if again == page else first_difference(page, again)
    if differs is not None and made[1] == maker():
        raise InvalidInput(f"the page does not say what its events say: {differs}")
    return Audited(state, made[1], differs, found)


def events_in(page: str) -> list[Event]:
    """The events that stand in an audit; whether they fit is not looked at.

    It is searched for two marks, and not parsed: whatever else may be in the page, its letters are compared later.
    """
    _, _, rest = page.partition(OPENS)
    lines, closed, _ = rest.partition(CLOSES)
    if not closed:
        raise InvalidInput("no events are in it: it is no audit of a campaign, or was cut off")
    made = []
    for row in html.unescape(lines).split("\n"):
        try:
            made.append(from_line(row))
        except InvalidInput as error:
            raise InvalidInput(f"event {len(made) + 1}: {error}") from None
    return made


def first_difference(page: str, again: str) -> str:
    """The first line of a page that is not what it has to be."""
    pairs = zip_longest(page.split("\n"), again.split("\n"))
    number, (one, other) = next((i, pair) for i, pair in enumerate(pairs, 1) if len({*pair}) > 1)
    letters = enumerate(zip_longest(one or "", other or ""))
    first = max(0, next((i for i, (a, b) in letters if a != b), 0) - AROUND // 4)
    has, needs = (
        "nothing" if row is None else shown(row[first : first + AROUND]) for row in (one, other)
    )
    return f"line {number} has {has}, they make {needs}"
