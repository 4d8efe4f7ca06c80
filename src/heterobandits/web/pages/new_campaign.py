"""How a campaign is made: from a template or pasted tables, checked as one types, and tried on guessed means first."""

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from heterobandits.campaigns import service
from heterobandits.campaigns.audit.recovery import namesake
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.files.csv_tables import (
    PASTED,
    inert,
    number_or_text,
    pasted_agents,
    pasted_arms,
)
from heterobandits.campaigns.files.templates import example, template_files
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import ELSEWHERE, Log
from heterobandits.campaigns.validation import AGENT_FIELDS, MOST_ERRORS, Wrong
from heterobandits.errors import InvalidInput
from heterobandits.limits import DEFAULT_DELTA
from heterobandits.planner.plans import count_text
from heterobandits.policies.catalogue import RECOMMENDED, RECOMMENDED_FOR_HORIZON
from heterobandits.policies.policy import CATALOGUE
from heterobandits.web.auth import most_body
from heterobandits.web.pages.base import (
    PRIVATE,
    PageRoute,
    beside_fields,
    home,
    options_of,
    page,
    seen_again,
)
from heterobandits.web.pages.outlook import Outlook, Wish, looked_ahead, tried, wish_from
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Asked, Asking
from heterobandits.web.warmup import state_after_drafts

FIELDS = {
    "name": "",
    "agents": "",
    "arms": "",
    "season": "",
    "policy": "",
    "delta": "",
    "seed": "0",
}
GUESSES = {"low": "0.05", "high": "0.5", "sensitivity": ""}
TRIED = 30  # rounds that are tried if the season has no end
TABLES: dict[str, Callable[[str], list[Any]]] = {"agents": pasted_agents, "arms": pasted_arms}
BLANK = FIELDS | GUESSES
MOST_SHOWN = 20  # lines that are wrong, of a table

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class Checked(NamedTuple):
    """What a form says: as `service.create` takes it, the campaign it would make, and what is wrong by field."""

    given: dict[str, Any]
    state: State | None
    errors: dict[str, list[str]]


@router.get("/new")
def show_new_campaign(request: Request, asked: Asking, template: str = "") -> Response:
    """The form, empty or filled from a template."""
    return form_page(request, asked, BLANK | (filled(template) if template else {}), template)


@router.post("/new")
def make(request: Request, asked: Asking) -> Response:
    """The campaign that the form says; if anything is wrong, the form again with all that was typed."""
    typed = typed_in(asked)
    made = campaign_from_texts(asked.log, typed)
    if made.errors:
        # Whoever presses twice finds that the name is taken, by what the first of them has made.
        again = asked.log.repeated(ELSEWHERE, asked.asker)
        if again is None:
            return form_page(request, asked, typed, told=field_notes(made), status=422)
        return seen_again(home(again.state.campaign))
    done = service.create(asked.log, asked.asker, **made.given)
    return seen_again(home(done.state.campaign))


@router.post("/new/check")
def check_form(asked: Asking) -> Response:
    """What sending the form would say beside its fields; nothing is written."""
    typed = typed_in(asked)
    made = campaign_from_texts(asked.log, typed)
    said = field_notes(made)
    if made.state is not None:
        said |= guesses(made.state, typed)[1]
        said.pop("", None)  # that trying it would take too long is no fault of a field
    return JSONResponse(said, headers=PRIVATE)


@router.post("/new/try")
async def try_first(request: Request, asked: Asking, stream: str = "") -> Response:
    """How the campaign would go on guessed means, bit by bit or as a page; of it nothing is kept, and so it needs no name."""
    typed = typed_in(asked)
    made = await run_in_threadpool(drafted, typed | {"name": "a try"})
    wish, errors = (None, {}) if made.state is None else guesses(made.state, typed)
    said = field_notes(made) | errors
    if made.state is None or wish is None:
        return form_page(request, asked, typed, told=said, status=422)
    if stream:
        return tried(request, made.state, wish)
    outlook = await looked_ahead(request, made.state, wish)
    return form_page(request, asked, typed, told=said, outlook=outlook)


def guesses(state: State, typed: Mapping[str, str]) -> tuple[Wish | None, dict[str, Any]]:
    """What is to be played of a season that nobody knows anything of yet, and what is said beside the fields that say so."""
    form = Form(b"")
    form.fields = {name: [typed[name].replace(",", ".")] for name in GUESSES if typed[name].strip()}
    if state.season is None:
        form.fields["rounds"] = [str(TRIED)]
    wish = None
    with beside_fields() as errors:
        wish = wish_from(state, form, guessed=True)
    told = {name: [errors[name]] if name in errors else [] for name in (*GUESSES, *errors)}
    return wish, {name: {"errors": wrong, "said": ""} for name, wrong in told.items()}


def form_page(
    request: Request,
    asked: Asked,
    typed: Mapping[str, str],
    template: str = "",
    told: Mapping[str, Any] | None = None,
    outlook: Outlook | None = None,
    status: int = 200,
) -> Response:
    """The form with these texts in its fields, what is told beside them, and what came of trying it."""
    return page(
        request,
        "new.html",
        asked,
        status,
        typed=typed,
        told=told or {},
        wrong=[field for field, one in (told or {}).items() if one["errors"]],
        templates={name: description_of_template(name)[0] for name in template_files()},
        begun=template,
        outlook=outlook,
        made_up=description_of_template(template)[1] if template else None,
        policies=options_of(policy_options(), typed["policy"]),
        more=any(typed[field] != FIELDS[field] for field in ("policy", "delta", "seed")),
        delta=DEFAULT_DELTA,
        most=most_body("POST", "/new"),
    )


def typed_in(asked: Asked) -> dict[str, str]:
    """The texts of the fields as they were typed: of a table the blanks count, and the lines."""
    fields = asked.form.fields
    return {name: fields.get(name, [default])[-1] for name, default in BLANK.items()}


def campaign_from_texts(log: Log, typed: Mapping[str, str]) -> Checked:
    """The campaign that these texts say, of which nothing is written; a name that is taken is wrong."""
    made = drafted(typed)
    there = namesake(log, typed["name"])
    if there is not None:
        made.errors["name"] = [f"there is a {there.title} already: choose another name"]
    return made


def drafted(typed: Mapping[str, str]) -> Checked:
    """The same, whatever other campaigns are called."""
    given: dict[str, Any] = {"name": typed["name"], "policy": typed["policy"].strip() or None}
    errors: dict[str, list[str]] = {}
    for field, read in TABLES.items():
        given[field], wrong = table_lines(read, typed[field])
        if wrong:
            errors[field] = wrong
    for field in ("season", "delta", "seed"):
        text = typed[field].strip() or FIELDS[field]
        given[field] = (
            number_or_text(text.replace(",", ".") if field == "delta" else text) if text else None
        )
    try:
        state = state_after_drafts(None, [Draft("created", service.created_body(**given))])
    except Wrong as wrong_fields:
        for place, message in wrong_fields.errors:
            errors.setdefault(place.partition("[")[0], [message])
    except InvalidInput as error:  # there are too many of one or the other
        errors["arms"] = [str(error)]
    return Checked(given, None if errors else state, errors)


def table_lines(read: Callable[[str], list[Any]], text: str) -> tuple[list[Any], list[str]]:
    """What stands in a table, and what is wrong with its lines."""
    try:
        return read(text.removeprefix("\ufeff")), []
    except Wrong as wrong:
        return [], [message for _, message in wrong.errors]
    except InvalidInput as error:
        return [], [str(error)]


def field_notes(made: Checked) -> dict[str, Any]:
    """What is said beside each field: what is wrong with it, and how many a table has."""
    said: dict[str, Any] = {}
    for field in FIELDS:
        errors = made.errors.get(field, [])
        more = len(errors) - MOST_SHOWN
        cut = ", at least" if len(errors) >= MOST_ERRORS else ""
        rest = [f"and {more:,} more{cut}"] if more > 0 else []
        said[field] = {"errors": errors[:MOST_SHOWN] + rest, "said": ""}
    for field in TABLES:
        rows = made.given[field]
        said[field] |= {"count": len(rows), "said": rows_in_words(field, rows) if rows else ""}
    return said


def rows_in_words(field: str, rows: list[Any]) -> str:
    """How many there are, with the first and the last as they were understood."""
    names = [row["name"] if isinstance(row, dict) else row for row in rows]
    ends = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return f"{count_text(len(rows), field.removesuffix('s'))}: {ends}"


def policy_options() -> list[tuple[str, str]]:
    """What can be planned with, by name; what is recommended first."""
    ended, endless = (CATALOGUE[name].title for name in (RECOMMENDED_FOR_HORIZON, RECOMMENDED))
    recommended = f"Recommended: {ended}, or {endless} if the season has no end"
    known = [(name, entry.title) for name, entry in CATALOGUE.items() if not entry.simulated_only]
    return [("", recommended), *known]


def filled(template: str) -> dict[str, str]:
    """The fields of the form as a template has them."""
    found = example(template)
    agents = found["agents"]
    known = dict.fromkeys(
        (*PASTED, *AGENT_FIELDS)
    )  # those with long names last, so that columns stand in line
    columns = [field for field in known if any(field in agent for agent in agents)]
    rows = [columns, *([cell(agent.get(field, "")) for field in columns] for agent in agents)]
    arms = [[cell(name)] for name in found["arms"]]
    return {"agents": tabbed(rows), "arms": tabbed(arms), "season": str(found.get("season", ""))}


def cell(value: Any) -> str:
    """A value as people write it in a spreadsheet."""
    return "/".join(map(str, value)) if isinstance(value, list) else inert(str(value))


def tabbed(rows: list[list[str]]) -> str:
    """Rows as a spreadsheet gives them when they are copied."""
    text = io.StringIO(newline="")
    csv.writer(text, "excel-tab", lineterminator="\n").writerows(rows)
    return text.getvalue()


def description_of_template(template: str) -> list[str]:
    """What a template says of itself, in the comment above it: what it is about, and that it is made up."""
    lines = template_files()[template].read_text("utf-8").replace("`", '"').splitlines()
    above = [line.removeprefix("#").strip() for line in lines[: lines.index("")]]
    return " ".join(line or "\n" for line in above).split(" \n ")
