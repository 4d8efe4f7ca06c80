"""Reports that a phone could not send, as lines that were copied, shared or scanned: looked at first, then saved.

A line is `HB1;campaign;agent;round;planned;arm;outcome;seen;entered;elsewhere;note;check`, in which nothing has a blank: what is
none of that in the text, as of mails and chats, is left out. `check` is the CRC-32 of the rest, so that a line which was cut is known.
"""

import re
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.outcomes import (
    ReportDetails,
    heed_changes,
    outcome_drafts,
    report_drafts,
    withdrawal_drafts,
)
from heterobandits.campaigns.reducer import state_after_drafts
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import NOT_DONE
from heterobandits.errors import InvalidInput, parse_choice
from heterobandits.web.pages.base import PageRoute, render_page
from heterobandits.web.requests import Context, LaterAnswer, RequestContext
from heterobandits.web.turns import compute_by_size, write_in_turn

HANDED_MAX_LINES = 200  # at once
HANDED_LINE_PATTERN = re.compile(r"HB1;[^\s\"'<>]+")
HANDED_PARTS = 11  # of a line before its check
HANDED_OUTCOME_PATTERN = re.compile(r"(\d{1,9})/(\d{1,9})", re.ASCII)
NOT_DONE_SIGN, DELETED_SIGN = "-", "x"
HANDED_NUMBER_PATTERN = re.compile(r"\d{1,18}", re.ASCII)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class HandedReport(NamedTuple):
    """A report as a line says it."""

    campaign: str
    agent: str
    round: int
    arm: str
    outcome: Any
    seen: int | None
    said: ReportDetails


class HandedLine(NamedTuple):
    """What comes of a line: of whom it is, what it says, and why it is refused, if it is; `news` if it changes anything."""

    subject: str
    text: str
    wrong: str = ""
    news: bool = False


class JudgedLines(NamedTuple):
    """What comes of lines: a verdict for each, and the events that they make."""

    verdicts: list[HandedLine]
    drafts: list[Draft]

    def with_changes(self, state: State) -> "JudgedLines":
        """The same, with events for the arms that thereby have changed, if this campaign forgets those."""
        return self._replace(drafts=heed_changes(state, self.drafts))


@router.post("/campaigns/{campaign}/report/handover")
async def submit_handover(request: Request, asked: Context) -> Response:
    """What these lines come to, a verdict for each; saved, if somebody has looked at them before.

    They are judged before others wait for them to be written, and once more only if something has happened since.
    """
    do = parse_choice(asked.form.text("do"), "do", ("look", "save"))
    text, role, state = asked.form.text("lines"), asked.caller.role, asked.state
    request.state.only_looks = do == "look"

    def judge() -> tuple[list[str], str, JudgedLines]:
        lines, error = handed_lines(text)
        judged = judge_handover(state, lines, role)
        return lines, error, judged.with_changes(state) if do == "save" else judged

    lines, error, judged = await compute_by_size(request, judge, True)
    if do == "save" and judged.drafts:
        save = partial(save_handover, asked, lines, judged)
        verdicts = await write_in_turn(request, save)
    else:
        request.state.only_looks, verdicts = True, judged.verdicts

    def draw() -> Response:
        return handover_page(request, asked, verdicts, do == "save" and not error, text, error)

    return LaterAnswer(draw, large=False)


def handed_lines(text: str) -> tuple[list[str], str]:
    """The lines in a text, and why there are none to look at, if so."""
    lines = list(dict.fromkeys(HANDED_LINE_PATTERN.findall(text)))
    if not lines:
        return [], "There is no line that begins with HB1 in this text."
    if len(lines) > HANDED_MAX_LINES:
        return [], f"These are {len(lines):,} lines: at most {HANDED_MAX_LINES} at once."
    return lines, ""


def handover_page(
    request: Request,
    asked: RequestContext,
    verdicts: Sequence[HandedLine],
    saved: bool,
    text: str,
    error: str,
) -> Response:
    """The page with a verdict for each line."""
    return render_page(
        request,
        "handover.html",
        asked,
        422 if error else 200,
        verdicts=verdicts,
        saved=saved,
        lines=text,
        error=error,
        news=sum(one.news for one in verdicts),
    )


def save_handover(
    asked: RequestContext, lines: Sequence[str], judged: JudgedLines
) -> list[HandedLine]:
    """Write what these lines report, as they were judged when the request came, but for those that are refused, in one write."""
    verdicts = judged.verdicts

    def make(state: State) -> list[Draft]:
        nonlocal verdicts
        now = judged
        if state.hash != asked.state.hash:
            now = judge_handover(state, lines, asked.caller.role).with_changes(state)
        verdicts = now.verdicts
        return now.drafts

    asked.log.write(asked.id, asked.asker, make)
    return verdicts


def judge_handover(state: State, lines: Sequence[str], role: str) -> JudgedLines:
    """What each of these lines comes to after those before it, and the events that they make."""
    verdicts, made = list[HandedLine](), list[Draft]()
    for line in lines:
        subject, text = line[:60], ""
        try:
            given = parse_handover(line)
            if given.campaign != state.campaign:
                raise InvalidInput("It is of another campaign.")
            subject, text = handover_subject(state, given), handover_text(state, given)
            drafts = drafts_of_handover(state, given, role)
            if drafts:
                state = state_after_drafts(state, drafts)
            made += drafts
            verdicts.append(HandedLine(subject, text, news=bool(drafts)))
        except InvalidInput as error:
            verdicts.append(HandedLine(subject, text, str(error)))
    return JudgedLines(verdicts, made)


def drafts_of_handover(state: State, given: HandedReport, role: str) -> list[Draft]:
    """The events that a line makes of this state."""
    key, said = (given.agent, given.arm), given.said
    if given.outcome == DELETED_SIGN:
        return withdrawal_drafts(state, given.round, [key], given.seen, said.planned)
    outcomes = {key: given.outcome}
    if given.seen is None:
        return report_drafts(state, given.round, outcomes, role, said)
    return outcome_drafts(state, "corrected", given.round, outcomes, role, given.seen, said)


def parse_handover(line: str) -> HandedReport:
    """The report that a line hands over."""
    body, _, check = line.rpartition(";")
    try:
        parts = [unquote(part, errors="strict") for part in body.split(";")]
    except UnicodeDecodeError:
        parts = []
    if not is_whole(body, check) or len(parts) != HANDED_PARTS:
        raise InvalidInput("This line is cut off or was changed on its way: ask for it once more.")
    _, campaign, agent, round, planned, arm, outcome, seen, entered, elsewhere, note = parts
    said = ReportDetails(number_in(planned), elsewhere or None, entered or None, None, note)
    return HandedReport(
        campaign,
        agent,
        number_in(round) or 0,
        arm,
        parse_handover_outcome(outcome),
        number_in(seen),
        said,
    )


def is_whole(body: str, check: str) -> bool:
    """Whether a line is as it was made."""
    return f"{zlib.crc32(body.encode()):08x}" == check


def number_in(text: str) -> int | None:
    """A whole number, or None if there is none."""
    if text and not HANDED_NUMBER_PATTERN.fullmatch(text):
        raise InvalidInput("This line says a number that is none.")
    return int(text) if text else None


def parse_handover_outcome(text: str) -> Any:
    """An outcome as a line says it."""
    if text == NOT_DONE_SIGN:
        return NOT_DONE
    counts = HANDED_OUTCOME_PATTERN.fullmatch(text)
    if counts is None and text != DELETED_SIGN:
        raise InvalidInput("This line says no outcome.")
    return DELETED_SIGN if counts is None else (int(counts[1]), int(counts[2]))


def handover_subject(state: State, given: HandedReport) -> str:
    """Whose report a line is, of where and when."""
    agent, arm = state.agents[state.agent(given.agent)].name, state.arms[state.arm(given.arm)].name
    return f"{agent} at {arm}, {state.words.round} {given.round}"


def handover_text(state: State, given: HandedReport) -> str:
    """What a line reports."""
    outcome = given.outcome
    if outcome == DELETED_SIGN:
        return "delete the report"
    text = outcome if isinstance(outcome, str) else f"{outcome[0]} of {outcome[1]}"
    said = given.said
    if said.elsewhere is not None:
        text += f", at {state.arms[state.arm(said.elsewhere)].name}"
    return f"{text}, {said.note}" if said.note else text
