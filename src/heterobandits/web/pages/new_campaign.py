"""How a campaign is made: from a template or pasted tables, checked as one types, and tried on guessed means first."""

import csv
import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from heterobandits.campaigns import service
from heterobandits.campaigns.analysis.projection import parse_guess
from heterobandits.campaigns.audit.recovery import find_namesake
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.files.csv_tables import (
    PASTED_AGENT_COLUMNS,
    escape_formula,
    heading_of_agents,
    parse_last_season,
    parse_number_or_text,
    parse_pasted_agents,
    parse_pasted_arms,
    parse_rate_cell,
)
from heterobandits.campaigns.files.templates import load_template, template_files
from heterobandits.campaigns.reducer import state_after_drafts
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import CREATION_KEY_SCOPE, Repository
from heterobandits.campaigns.validation import (
    AGENT_FIELDS,
    REPORT_MAX_ERRORS,
    FieldErrors,
    InvalidFields,
    likeness_of,
)
from heterobandits.campaigns.words import WORD_KINDS, parse_words, words_in_texts
from heterobandits.errors import InvalidInput, parse_real, parse_sensitivity
from heterobandits.limits import DEFAULT_DELTA
from heterobandits.model.prior import render_shape, shape_of_range
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords
from heterobandits.web.auth import body_max_bytes
from heterobandits.web.pages.base import (
    PAGE_HEADERS,
    PageRoute,
    collect_field_errors,
    page_path,
    render_page,
    see_other,
)
from heterobandits.web.pages.outlook import (
    Outlook,
    OutlookWish,
    await_outlook,
    parse_wish,
    stream_outlook,
)
from heterobandits.web.pages.policy_choice import plannable_policies, policy_groups
from heterobandits.web.pages.team import SURE_MIN_ROUNDS
from heterobandits.web.pages.wording import for_people
from heterobandits.web.request_fields import Form
from heterobandits.web.requests import Context, LaterAnswer, RequestContext
from heterobandits.web.turns import (
    LARGE_MIN_FORM_BYTES,
    compute_by_size,
    compute_quick,
    write_in_turn,
)

WORD_FORM_FIELDS = {f"{kind}_word": kind for kind in WORD_KINDS}
CAMPAIGN_FORM_FIELDS = {
    "name": "",
    **dict.fromkeys(WORD_FORM_FIELDS, ""),
    "agents": "",
    "arms": "",
    "visits": "",
    "counts": "1",
    "season": "",
    "ends": "",
    "policy": "",
    "delta": "",
    "seed": "0",
}
GUESS_FORM_FIELDS = {"low": "0.05", "high": "0.5", "sensitivity": ""}
TICK_FORM_FIELDS = {
    "keep": "",
    "sure": "",
}  # the guess is what is known beforehand; what is asked about is right
WORDS_ON_FORM = (
    *("agent", "agents", "Agents", "an_agent", "arm", "arms", "Arms", "Rounds"),
    *("a_test", "tests"),
)
TRIAL_SEASON_ROUNDS = 30  # rounds that are tried if the season has no end
TABLE_PARSERS: dict[str, Callable[[str], list[Any]]] = {
    "agents": parse_pasted_agents,
    "arms": parse_pasted_arms,
}
BLANK_FORM = CAMPAIGN_FORM_FIELDS | GUESS_FORM_FIELDS | TICK_FORM_FIELDS
KNOWN_MAX_LINES = 40  # arms, beside the field, of which something is known beforehand
TABLE_MAX_SHOWN_ERRORS = 20  # lines that are wrong, of a table

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class CheckedForm(NamedTuple):
    """A checked form: as `service.create` takes it, the campaign it would make, and errors by field."""

    given: dict[str, Any]
    state: State | None
    errors: dict[str, list[str]]


@router.get("/new")
def show_new_campaign(request: Request, asked: Context, template: str = "") -> Response:
    """The form, empty or filled from a template."""
    return form_page(
        request, asked, BLANK_FORM | (fields_of_template(template) if template else {}), template
    )


@router.post("/new")
async def submit_new_campaign(request: Request, asked: Context) -> Response:
    """The campaign that the form says; if anything is wrong, the form again with all that was typed."""
    typed, large = texts_of_form(asked), is_large_form(asked)
    made = await compute_by_size(request, lambda: campaign_from_texts(asked.log, typed), large)
    if made.errors:
        # Whoever presses twice finds that the name is taken, by what the first of them has made.
        again = await compute_quick(request, asked.log.repeated, CREATION_KEY_SCOPE, asked.asker)
        if again is None:
            draw = partial(form_page, request, asked, typed, status=422)
            return LaterAnswer(lambda: draw(told=notes_of_fields(made, typed)), large=large)
        return see_other(page_path(again.state.campaign))
    create = partial(service.create, asked.log, asked.asker, **made.given)
    done = await write_in_turn(request, create)
    return see_other(page_path(done.state.campaign))


@router.post("/new/check")
async def check_form(request: Request, asked: Context) -> Response:
    """What sending the form would say beside its fields; nothing is written."""
    request.state.only_looks = True
    return await compute_by_size(request, lambda: notes_response(asked), is_large_form(asked))


def is_large_form(asked: RequestContext) -> bool:
    """Whether a form has so much in it that to look at it is in the way of what is quick."""
    return len(asked.body) > LARGE_MIN_FORM_BYTES


def notes_response(asked: RequestContext) -> Response:
    """What is to be said of the form, for the script of its page."""
    typed = texts_of_form(asked)
    made = campaign_from_texts(asked.log, typed)
    said = notes_of_fields(made, typed)
    said |= parse_guesses(made.state, typed)[1] if made.state is not None else check_guesses(typed)
    said["words"] = {"errors": [], "said": "", "by_name": words_on_form(typed)}
    said.pop("", None)  # that trying it would take too long is no fault of a field
    return JSONResponse(said, headers=PAGE_HEADERS)


@router.post("/new/try")
async def try_first(request: Request, asked: Context, stream: str = "") -> Response:
    """How the campaign would go on guessed means, bit by bit or as a page; of it nothing is kept, and so it needs no name."""
    request.state.only_looks = True
    typed, large = texts_of_form(asked), is_large_form(asked)

    def checked() -> tuple[State | None, OutlookWish | None, dict[str, Any]]:
        made = draft_campaign(typed | {"name": "a try"})
        wish, errors = (None, {}) if made.state is None else parse_guesses(made.state, typed)
        return made.state, wish, notes_of_fields(made, typed) | errors

    state, wish, said = await compute_by_size(request, checked, large)
    outlook: Outlook | None = None
    if state is not None and wish is not None:
        if stream:
            return stream_outlook(request, state, wish)
        outlook = await await_outlook(request, state, wish)
    status = 200 if outlook else 422
    draw = partial(form_page, request, asked, typed, told=said, outlook=outlook, status=status)
    return await compute_by_size(request, draw, large)


def parse_guesses(
    state: State, typed: Mapping[str, str]
) -> tuple[OutlookWish | None, dict[str, Any]]:
    """What is to be played of a season that nobody knows anything of yet, and what is said beside the fields that say so."""
    form = Form(b"")
    form.fields = {name: [typed[name]] for name in GUESS_FORM_FIELDS if typed[name].strip()}
    if state.season is None:
        form.fields["rounds"] = [str(TRIAL_SEASON_ROUNDS)]
    wish = None
    with collect_field_errors(state.words) as errors:
        wish = parse_wish(state, form, guessed=True)
    told = {
        name: [errors[name]] if name in errors else [] for name in (*GUESS_FORM_FIELDS, *errors)
    }
    return wish, {name: {"errors": wrong, "said": ""} for name, wrong in told.items()}


def check_guesses(typed: Mapping[str, str]) -> dict[str, Any]:
    """What is said beside the guesses while there is no campaign yet to play them with."""
    checked = FieldErrors()
    checked.all("low", parse_guess, *(parse_rate_cell(typed[name]) for name in ("low", "high")))
    if typed["sensitivity"].strip():
        checked.of("sensitivity", parse_sensitivity, parse_rate_cell(typed["sensitivity"]))
    with collect_field_errors() as errors:
        checked.end()
    told = {name: [errors[name]] if name in errors else [] for name in GUESS_FORM_FIELDS}
    return {name: {"errors": wrong, "said": ""} for name, wrong in told.items()}


def form_page(
    request: Request,
    asked: RequestContext,
    typed: Mapping[str, str],
    template: str = "",
    told: Mapping[str, Any] | None = None,
    outlook: Outlook | None = None,
    status: int = 200,
) -> Response:
    """The form with these texts in its fields, what is told beside them, and what came of trying it."""
    return render_page(
        request,
        "new.html",
        asked,
        status,
        typed=typed,
        words=words_on_form(typed),
        told=told or {},
        wrong=[field for field, one in (told or {}).items() if one["errors"]],
        templates={name: description_of_template(name)[0] for name in template_files()},
        begun=template,
        outlook=outlook,
        made_up=description_of_template(template)[1] if template else None,
        policies=policy_groups(typed["policy"], plannable_policies()),
        more=any(typed[field] != CAMPAIGN_FORM_FIELDS[field] for field in ("delta", "seed")),
        before=any(typed[field] != CAMPAIGN_FORM_FIELDS[field] for field in ("visits", "counts")),
        delta=DEFAULT_DELTA,
        most=body_max_bytes("POST", "/new"),
    )


def words_of_texts(typed: Mapping[str, str]) -> CampaignWords:
    """The words that the form says; the library's as long as they cannot be used, which is said beside them."""
    with suppress(InvalidInput):
        return parse_words(words_in_texts({kind: typed[f] for f, kind in WORD_FORM_FIELDS.items()}))
    return DEFAULT_WORDS


def words_on_form(typed: Mapping[str, str]) -> dict[str, str]:
    """The words that labels and hints of the form say, by the name that they have on its page."""
    words = words_of_texts(typed)
    return {name: getattr(words, name) for name in WORDS_ON_FORM}


def texts_of_form(asked: RequestContext) -> dict[str, str]:
    """The texts of the fields as they were typed: of a table the blanks count, and the lines."""
    fields = asked.form.fields
    return {name: fields.get(name, [default])[-1] for name, default in BLANK_FORM.items()}


def campaign_from_texts(log: Repository, typed: Mapping[str, str]) -> CheckedForm:
    """The campaign that these texts say, of which nothing is written; a name that is taken is wrong."""
    made = draft_campaign(typed)
    there = find_namesake(log, typed["name"])
    if there is not None:
        made.errors["name"] = [f"there is a {there.title} already: choose another name"]
    return made


def draft_campaign(typed: Mapping[str, str]) -> CheckedForm:
    """The campaign of a form, without regard to the names of other campaigns."""
    given: dict[str, Any] = {"name": typed["name"], "policy": typed["policy"].strip() or None}
    errors: dict[str, list[str]] = {}
    words = words_of_texts(typed)
    for field, read in TABLE_PARSERS.items():
        given[field], wrong = parse_table(read, typed[field], words)
        if wrong:
            errors[field] = wrong
    if typed["visits"].strip():
        errors |= add_last_season(given, typed)
    if typed["keep"]:
        errors |= keep_guess(given, typed)
    for field in ("season", "delta", "seed"):
        text = typed[field].strip() or CAMPAIGN_FORM_FIELDS[field]
        given[field] = (
            parse_number_or_text(text.replace(",", ".") if field == "delta" else text)
            if text
            else None
        )
    given["ends"] = typed["ends"].strip() or None
    given["words"] = words_in_texts({kind: typed[f] for f, kind in WORD_FORM_FIELDS.items()})
    try:
        state = state_after_drafts(None, [Draft("created", service.body_of_creation(**given))])
    except InvalidFields as wrong_fields:
        for place, message in wrong_fields.errors:
            errors.setdefault(field_of_place(place), [for_people(message, words)])
    except InvalidInput as error:  # there are too many of one or the other
        errors["arms"] = [for_people(str(error), words)]
    asked = [] if typed["sure"] else questions_of(given, words)
    if asked:
        errors["sure"] = asked
    return CheckedForm(given, None if errors else state, errors)


def field_of_place(place: str) -> str:
    """The field of the form in which something is wrong."""
    field, _, kind = place.partition("[")[0].partition(".")
    return f"{kind.removesuffix('s')}_word" if field == "words" else field


def questions_of(given: Mapping[str, Any], words: CampaignWords) -> list[str]:
    """What can be meant and most likely is not: a season of a million rounds, two names that a hasty reader takes for one."""
    asked = []
    season = given.get("season")
    if isinstance(season, int) and season >= SURE_MIN_ROUNDS:
        asked.append(f"{words.count(season, 'round')} in the season: is that right?")
    for field in TABLE_PARSERS:
        alike: dict[str, str] = {}
        for row in given[field]:
            name = row["name"] if isinstance(row, dict) else row
            other = alike.setdefault(likeness_of(name), name)
            if other != name:
                asked.append(f"{other} and {name}: are these two?")
    return asked[:TABLE_MAX_SHOWN_ERRORS]


def add_last_season(given: dict[str, Any], typed: Mapping[str, str]) -> dict[str, list[str]]:
    """State of arms what the visits of last season say of them; what is wrong with these, by field."""
    entries = [state_of_arm(arm) for arm in given["arms"]]
    counts = 1.0
    with collect_field_errors() as errors:
        counts = parse_share(typed["counts"] or "1")
    if errors:
        return {"counts": list(errors.values())}
    if not entries:  # which is said of the arms
        return {}

    def read(text: str) -> list[Any]:
        before = parse_last_season(text, entries, counts)
        return [state_of_arm(entry, before.get(entry["name"])) for entry in entries]

    made, wrong = parse_table(read, typed["visits"], words_of_texts(typed))
    if wrong:
        return {"visits": wrong}
    given["arms"] = made
    return {}


def parse_share(text: str) -> float:
    """A share as people write it, such as 0.5 or 50 %."""
    number, percent = text.strip().removesuffix("%").strip().replace(",", "."), "%" in text
    value = parse_real(
        parse_number_or_text(number), "counts", "a share from 0 to 1, such as 0.5 or 50 %"
    )
    share = 0.01 * value if percent else value
    if not 0.0 <= share <= 1.0:
        raise InvalidInput(f"counts is {text}: from 0, not at all, to 1, as if seen now")
    return share


def keep_guess(given: dict[str, Any], typed: Mapping[str, str]) -> dict[str, list[str]]:
    """State the guess of every arm of which nothing is stated; what is wrong with it, by field."""
    with collect_field_errors() as errors:
        ends = (parse_rate_cell(typed[name]) for name in ("low", "high"))
        guess = parse_guess(*ends)
        shape = list(shape_of_range(guess.low, guess.high))
        given["arms"] = [state_of_arm(arm, shape) for arm in given["arms"]]
    return {field or "low": [message] for field, message in errors.items()}


def state_of_arm(arm: Any, prior: Any = None) -> dict[str, Any]:
    """An arm of a table, of which this is stated unless something is."""
    entry = {"name": arm} if isinstance(arm, str) else dict(arm)
    return entry if entry.get("prior") is not None else entry | {"prior": prior}


def parse_table(
    read: Callable[[str], list[Any]], text: str, words: CampaignWords
) -> tuple[list[Any], list[str]]:
    """What stands in a table, and what is wrong with its lines."""
    try:
        return read(text.removeprefix("\ufeff")), []
    except InvalidFields as wrong:
        return [], [for_people(message, words) for _, message in wrong.errors]
    except InvalidInput as error:
        return [], [for_people(str(error), words)]


def notes_of_fields(made: CheckedForm, typed: Mapping[str, str]) -> dict[str, Any]:
    """What is said beside each field: what is wrong with it, and how many a table has."""
    said: dict[str, Any] = {}
    words = words_of_texts(typed)
    for field in CAMPAIGN_FORM_FIELDS:
        errors = made.errors.get(field, [])
        more = len(errors) - TABLE_MAX_SHOWN_ERRORS
        cut = ", at least" if len(errors) >= REPORT_MAX_ERRORS else ""
        rest = [f"and {more:,} more{cut}"] if more > 0 else []
        said[field] = {"errors": errors[:TABLE_MAX_SHOWN_ERRORS] + rest, "said": ""}
    said["sure"] = {"errors": made.errors.get("sure", []), "said": ""}
    for field in made.errors.keys() - said.keys():
        said[field] = {"errors": made.errors[field], "said": ""}
    for field in TABLE_PARSERS:
        rows = made.given[field]
        said[field] |= {
            "count": len(rows),
            "said": render_row_count(field, rows, words) if rows else "",
        }
    heading = heading_of_agents(typed["agents"])
    if heading and not made.errors.get("agents"):
        said["agents"]["lines"] = [f"The first line, {heading}, is taken as a heading."]
    lines = [] if made.state is None else known_lines(made.state)
    if lines:
        said["arms"]["lines"] = lines
    return said


def known_lines(state: State) -> list[str]:
    """What is known beforehand, by arm."""
    stated = [(arm.name, arm.prior) for arm in state.arms if arm.prior is not None]
    lines = [
        f"{name}: {render_shape(prior, state.words.tests)}"
        for name, prior in stated[:KNOWN_MAX_LINES]
    ]
    more = len(stated) - len(lines)
    if lines:
        lines.insert(0, f"Known beforehand of {len(stated):,} of {len(state.arms):,}:")
    return [*lines, f"and {more:,} more"] if more > 0 else lines


def render_row_count(field: str, rows: list[Any], words: CampaignWords) -> str:
    """How many there are, with the first and the last as they were understood."""
    names = [row["name"] if isinstance(row, dict) else row for row in rows]
    ends = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return f"{words.count(len(rows), field.removesuffix('s'))}: {ends}"


def fields_of_template(template: str) -> dict[str, str]:
    """The form's fields, filled from a template."""
    found = load_template(template)
    agents = found["agents"]
    known = dict.fromkeys(
        (*PASTED_AGENT_COLUMNS, *AGENT_FIELDS)
    )  # those with long names last, so that columns stand in line
    columns = [field for field in known if any(field in agent for agent in agents)]
    rows = [
        columns,
        *([render_cell(agent.get(field, "")) for field in columns] for agent in agents),
    ]
    arms = [[render_cell(name)] for name in found["arms"]]
    return {
        "agents": render_tabbed_rows(rows),
        "arms": render_tabbed_rows(arms),
        "season": str(found.get("season", "")),
        **{f"{kind}_word": word for kind, word in found["words"].items()},
    }


def render_cell(value: Any) -> str:
    """A value as people write it in a spreadsheet."""
    return "/".join(map(str, value)) if isinstance(value, list) else escape_formula(str(value))


def render_tabbed_rows(rows: list[list[str]]) -> str:
    """Rows as a spreadsheet copies them."""
    text = io.StringIO(newline="")
    csv.writer(text, "excel-tab", lineterminator="\n").writerows(rows)
    return text.getvalue()


def description_of_template(template: str) -> list[str]:
    """What a template says of itself, in the comment above it: what it is about, and that it is made up."""
    lines = template_files()[template].read_text("utf-8").replace("`", '"').splitlines()
    above = [line.removeprefix("#").strip() for line in lines[: lines.index("")]]
    return " ".join(line or "\n" for line in above).split(" \n ")
