"""A pile of paper: the visits of a round as a table, a row each, or outcomes of any rounds pasted from a spreadsheet.

All rows are saved at once, or none. What is wrong stands beside its row, with what was typed.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns.amounts import planned_tests_of
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.files.csv_tables import OutcomeLine, parse_pasted_outcomes
from heterobandits.campaigns.outcomes import (
    OutcomeEffect,
    VisitOutcome,
    effects_of_outcomes,
    outcomes_ahead,
)
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import WriteResult
from heterobandits.campaigns.validation import NOT_DONE, InvalidFields
from heterobandits.errors import InvalidInput, parse_choice, repr_of
from heterobandits.planner.matching import AgentArm
from heterobandits.planner.visits import VisitReport
from heterobandits.web.errors import problem_kind_of
from heterobandits.web.pages.base import (
    REFUSAL_STATUSES,
    PageRoute,
    collect_field_errors,
    page_path,
    render_page,
    see_other,
)
from heterobandits.web.pages.report import visit_key
from heterobandits.web.pages.text import outcome_text
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Context, LaterAnswer, RequestContext, find_in_path
from heterobandits.web.turns import compute_by_size, compute_quick, write_in_turn

PASTE_MAX_LINES = 2_000  # visits that are pasted at once: half a second of writing
TABLE_MAX_QUICK_ROWS = 100  # rows of a table that is drawn beside what is quick
DONE_NOT = "-"  # what may be typed for a visit that was not done

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class PaperRow(NamedTuple):
    """A visit as a row: whose, where, what stands of it, and what its fields show."""

    key: str
    name: str
    place: str
    planned: int
    stands: str
    was: str
    found: str
    of: str
    missing: bool
    wrong: str = ""


class PastedRow(NamedTuple):
    """A line that was pasted, and what it would do or why it cannot be."""

    line: OutcomeLine
    does: str
    wrong: str = ""


@router.get("/campaigns/{campaign}/rounds/{round}/table")
async def show_table(request: Request, asked: Context, round: int) -> Response:
    """The visits of a round, a row each, with what is known of them."""
    at = find_in_path(asked.state.round, round)
    return await compute_by_size(
        request, lambda: render_paper_table(request, asked, at), len(at.sent) > TABLE_MAX_QUICK_ROWS
    )


def render_paper_table(
    request: Request,
    asked: RequestContext,
    at: PlannedRound,
    typed: Mapping[str, PaperRow] = MappingProxyType({}),
    wrong: str = "",
    status: int = 200,
) -> Response:
    """The page of the table, with rows as they were typed."""
    rows = [row_of_visit(asked.state, at, pair) for pair in at.sent]
    shown = [
        row._replace(found=had.found, of=had.of, missing=had.missing, wrong=had.wrong)
        if (had := typed.get(row.key)) is not None
        else row
        for row in rows
    ]
    return render_page(
        request,
        "paper_table.html",
        asked,
        status,
        round=at,
        rows=shown,
        wrong=wrong,
        saved=asked.form.text("saved") if status == 200 else "",
        home=page_path(asked.id),
    )


def row_of_visit(state: State, at: PlannedRound, pair: AgentArm) -> PaperRow:
    """A visit as a row that nobody has touched."""
    agent, arm = pair
    planned, told = planned_tests_of(state, agent, at), at.told.get(pair)
    counts = None if told is None else told.counts
    found, of = ("", str(planned)) if counts is None else (str(counts[0]), str(counts[1]))
    missing = told is not None and counts is None
    return PaperRow(
        " ".join(visit_key(pair)),
        state.agents[agent].name,
        state.arms[arm].name,
        planned,
        "" if told is None else outcome_text(told, planned),
        text_of_row(found, of, missing),
        found,
        of,
        missing,
    )


def text_of_row(found: str, of: str, missing: bool) -> str:
    """What the fields of a row say, in short: rows that say the same are the same."""
    if missing and not found:
        return DONE_NOT
    return f"{found}/{of}" if found else ""


@router.post("/campaigns/{campaign}/rounds/{round}/table")
async def submit_table(request: Request, asked: Context, round: int) -> Response:
    """All rows that were changed, saved at once, or none of them: what is wrong with them is found before others wait."""
    at = find_in_path(asked.state.round, round)
    large = len(asked.form.texts("visit")) > TABLE_MAX_QUICK_ROWS

    def judge() -> Callable[[State], list[Draft]]:
        entries = outcomes_of_rows(asked, at, typed_rows(asked.form))
        return outcomes_ahead(asked.state, entries, asked.caller.role)

    try:
        make = await compute_by_size(request, judge, large)
        done = await write_in_turn(request, asked.log.write, asked.id, asked.asker, make)
    except InvalidInput as error:
        kind = problem_kind_of(error)
        if kind.status not in REFUSAL_STATUSES:
            raise
        again = await compute_quick(request, asked.log.repeated, asked.id, asked.asker)
        if again is None:
            request.state.only_looks = True
            draw = partial(render_refused_table, request, asked, round, error, kind.status)
            return LaterAnswer(draw, large=large)
        done = again
    return see_other(page_path(asked.id, f"/rounds/{at.number}/table?saved={saved_visits(done)}"))


def render_refused_table(
    request: Request, asked: RequestContext, round: int, error: InvalidInput, status: int
) -> Response:
    """The page of the table as it was typed, with what is wrong beside the rows."""
    by_row = dict(error.errors) if isinstance(error, InvalidFields) else {"": str(error)}
    rows = typed_rows(asked.form)
    typed = {key: row._replace(wrong=by_row.get(key, "")) for key, row in rows.items()}
    at = asked.log.state(asked.id).round(round)
    shown = {" ".join(visit_key(pair)) for pair in at.sent}
    said = "; ".join(message for key, message in by_row.items() if key not in shown)
    return render_paper_table(request, asked, at, typed, said, status)


def saved_visits(done: WriteResult) -> int:
    """Of how many visits something was saved."""
    return sum(event.kind in ("reported", "corrected") for event in done.events)


def typed_rows(form: Form) -> dict[str, PaperRow]:
    """The rows of a form by visit, as they were typed."""
    columns = (form.fields.get(name, []) for name in ("visit", "was", "found", "of"))
    ticked = set(form.texts("missing"))
    return {
        key: PaperRow(key, "", "", 0, "", was, found.strip(), of.strip(), key in ticked)
        for key, was, found, of in zip(*columns, strict=False)
    }


def outcomes_of_rows(
    asked: RequestContext, at: PlannedRound, rows: Mapping[str, PaperRow]
) -> list[VisitOutcome]:
    """What the rows that were changed say; all that are wrong are named at once."""
    seen, made = asked.form.whole("seen"), list[VisitOutcome]()
    errors: list[tuple[str, str]] = []
    for key, row in rows.items():
        if text_of_row(row.found, row.of, row.missing) == row.was:
            continue
        agent, _, arm = key.partition(" ")
        try:
            made.append(VisitOutcome(key, at.number, agent, arm, outcome_of_row(row), seen))
        except InvalidInput as error:
            errors.append((key, str(error)))
    if errors:
        effects = effects_of_outcomes(asked.state, made, asked.caller.role)
        errors += [(one.entry.place, one.wrong) for one in effects if one.wrong is not None]
        raise InvalidFields(errors)
    return made


def outcome_of_row(row: PaperRow) -> Any:
    """What a row says, as the service takes it."""
    if row.missing and row.found in ("", DONE_NOT):
        return NOT_DONE
    if row.missing:
        raise InvalidInput("either how many were found, or not done")
    if row.found == DONE_NOT:
        return NOT_DONE
    if not row.found:
        raise InvalidInput(
            "this was reported: to delete the report, take it back on the page Report"
        )
    return count_of_cell(row.found, "found"), count_of_cell(row.of, "of")


def count_of_cell(text: str, name: str) -> int:
    """A cell as a whole number."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidInput(f"{name} is {repr_of(text)}: a whole number")
    return int(text)


@router.get("/campaigns/{campaign}/paste")
async def show_paste(request: Request, asked: Context) -> Response:
    """A field for what a spreadsheet has."""
    return await compute_quick(request, render_paste, request, asked, "")


@router.post("/campaigns/{campaign}/paste")
async def submit_paste(request: Request, asked: Context) -> Response:
    """What each line would do; or all of them, saved at once, as they were looked at.

    What is wrong with them is found before others wait.
    """
    form = asked.form
    do, text = parse_choice(form.text("do"), "do", ("look", "save")), form.text("text")
    large, wrong = text.count("\n") > TABLE_MAX_QUICK_ROWS, ""
    request.state.only_looks = do == "look"
    if do == "save" and form.text("looked") != digest_of_text(text):
        wrong = "This is not the text that you looked at: see what it would do, then save it."
    elif do == "save":
        done: WriteResult | None = None
        with collect_field_errors(asked.state.words) as errors:
            make = await compute_by_size(request, lambda: judge_paste(asked, text), large)
            done = await write_in_turn(request, asked.log.write, asked.id, asked.asker, make)
        if done is None:
            done = await compute_quick(request, asked.log.repeated, asked.id, asked.asker)
        if done is not None:
            return see_other(page_path(asked.id, f"/paste?saved={saved_visits(done)}"))
        wrong = errors.get("", "Nothing was saved: see which lines are wrong.")
    request.state.only_looks = True
    return LaterAnswer(lambda: render_paste(request, asked, text, wrong), large=large)


def judge_paste(asked: RequestContext, text: str) -> Callable[[State], list[Draft]]:
    """The events that a text makes, if none of its lines is wrong."""
    lines = pasted_lines(text)
    unread = [(place_of_line(line), line.wrong) for line in lines if line.wrong is not None]
    if unread:
        raise InvalidFields(unread)
    entries = outcomes_of_lines(lines, asked.form.whole("seen"))
    return outcomes_ahead(asked.state, entries, asked.caller.role)


def render_paste(request: Request, asked: RequestContext, text: str, wrong: str = "") -> Response:
    """The page with a text, and what each of its lines would do."""
    state = asked.log.state(asked.id)
    rows: list[PastedRow] = []
    with collect_field_errors(asked.state.words) as errors:
        rows = pasted_rows(state, pasted_lines(text), asked.caller.role) if text.strip() else []
    wrong = wrong or "; ".join(errors.values())
    fine = [row for row in rows if not row.wrong]
    return render_page(
        request,
        "paper_paste.html",
        asked,
        422 if wrong else 200,
        text=text,
        rows=rows,
        looked=digest_of_text(text) if rows and len(fine) == len(rows) else "",
        new=sum(row.does != STANDS_TEXT for row in fine),
        bad=len(rows) - len(fine),
        wrong=wrong,
        saved=asked.form.text("saved") if request.method == "GET" else "",
        seen=state.number,
        home=page_path(asked.id),
    )


STANDS_TEXT = "stands already"


def pasted_lines(text: str) -> list[OutcomeLine]:
    """The lines of a text, at most so many."""
    lines = parse_pasted_outcomes(text)
    if len(lines) > PASTE_MAX_LINES:
        raise InvalidInput(f"there are {len(lines):,} lines: at most {PASTE_MAX_LINES:,} at once")
    return lines


def place_of_line(line: OutcomeLine) -> str:
    """What a line is called."""
    return f"line {line.number}"


def outcomes_of_lines(lines: Iterable[OutcomeLine], seen: int | None) -> list[VisitOutcome]:
    """What the lines that were understood say, as the service takes it."""
    return [
        VisitOutcome(place_of_line(line), line.round, line.agent, line.arm, line.outcome, seen)
        for line in lines
        if line.wrong is None
    ]


def pasted_rows(state: State, lines: list[OutcomeLine], role: str) -> list[PastedRow]:
    """What each line would do, in words."""
    entries = outcomes_of_lines(lines, None)
    effects = {effect.entry.place: effect for effect in effects_of_outcomes(state, entries, role)}
    return [
        PastedRow(line, "", line.wrong)
        if line.wrong is not None
        else row_of_effect(state, line, effects[place_of_line(line)])
        for line in lines
    ]


def row_of_effect(state: State, line: OutcomeLine, effect: OutcomeEffect) -> PastedRow:
    """What a line would do, in words."""
    if effect.wrong is not None or effect.visit is None:
        return PastedRow(line, "", effect.wrong or "")
    number, pair = effect.visit
    at = state.round(number)
    planned, told = planned_tests_of(state, pair[0], at), at.told.get(pair)
    place = state.arms[pair[1]].name
    if effect.draft is None:
        return PastedRow(line, STANDS_TEXT)
    body = effect.draft.body
    counts = None if body.get("missing") else (body["successes"], body["tests"])
    says = outcome_text(VisitReport(counts, 0), planned)
    if told is None:
        return PastedRow(line, f"reports {says} at {place}")
    return PastedRow(line, f"corrects {outcome_text(told, planned)} at {place} to {says}")


def digest_of_text(text: str) -> str:
    """What tells a text from another."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
