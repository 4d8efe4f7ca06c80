"""What people keep in spreadsheets: agents, arms and outcomes read from CSV, and visits written to CSV.

The first line of a file names its columns, in any order and case; it may be missing, or be one of other words. Commas, semicolons
and tabs part them, or the last blank parts a name from its number; a number may have a decimal comma, or be a percentage. Lines may
be numbered. Each mistake is named with its line.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from heterobandits.arrays import Integers
from heterobandits.campaigns.amounts import planned_tests_of
from heterobandits.campaigns.audit.history_text import is_far_from_plan
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.store import Telling
from heterobandits.campaigns.validation import (
    AGENT_FIELDS,
    ARM_FIELDS,
    NOT_DONE,
    FieldErrors,
    InvalidFields,
    check_member_count,
    parse_agents,
    parse_arms,
)
from heterobandits.errors import (
    InvalidInput,
    normalize_name,
    parse_integer,
    parse_rate,
    parse_sensitivity,
    repr_of,
    unknown_name,
)
from heterobandits.inference.beliefs import shapes_of_visits
from heterobandits.limits import VISIT_MAX_TESTS
from heterobandits.model.prior import BetaShape, check_weight
from heterobandits.model.team import Team
from heterobandits.planner.matching import AgentArm
from heterobandits.planner.roster import CALIBRATED_FIELDS

CELL_SEPARATORS = ",;\t"  # what parts cells
# What a spreadsheet computes begins with one of these, some of them in full width too. It may begin after a mark that is not ours:
# one that parts cells by semicolons sees another cell there. Blanks and quotes before it are no part of what that one reads.
CELL_START_REGEX = r"(?:\A|(?<=[;\t]))"
FORMULA_START_REGEX = r"(?=[\s\"']*[=+\-@＝＋－＠\t\r])"
FORMULA_PATTERN = re.compile(CELL_START_REGEX + FORMULA_START_REGEX)
ESCAPED_FORMULA_PATTERN = re.compile(f"{CELL_START_REGEX}'{FORMULA_START_REGEX}")
# the columns of agents where no line names them
PASTED_AGENT_COLUMNS = ("name", "sensitivity", "tests")
OUTCOME_FIELDS = ("agent", "arm", "outcome", "successes", "tests")
TEXT_COLUMNS = ("name", "agent", "arm", "prior")  # columns in which a comma is a comma
# the columns of pasted outcomes where no line names them
PASTED_OUTCOME_COLUMNS = ("round", "agent", "arm", "successes", "tests")
OUTCOME_COLUMN_ALIASES = {"found": "successes", "of": "tests"}
VISIT_FIELDS = (
    "round",
    "planned",
    "agent",
    "arm",
    "successes",
    "tests",
    "status",
    "tests_planned",
    "far",
    "sensitivity",
    "false_positive_rate",
    "planned_arm",
    "planned_at",
    "reported_by",
    "reported_at",
    "entered",
    "note",
)
SHARE_PATTERN = re.compile(r"(\d{1,18})\s*(?:/|of)\s*(\d{1,18})")
# a number as people write it: 0.85, 0,85, 85 %, 17/20, 17 of 20
RATE_REGEX = r"(?:\d*[.,]?\d+\s*%?|\d{1,18}\s*(?:/|of)\s*\d{1,18})"
BARE_LINE_PATTERN = re.compile(
    rf"(?P<name>[^,\t;\"]*?[^\s,\t;\"])\s*(?:\s|(?<=:))(?P<rate>{RATE_REGEX})"
)
LONE_DIGIT_PATTERN = re.compile(r"\d")  # if all have no more, they belong to names such as Ranger 2
DECIMAL_PATTERN = re.compile(r"[+-]?\d*[.,]?\d+")
PERCENT_PATTERN = re.compile(r"([+-]?\d*[.,]?\d+)\s*%")
LINE_NUMBER_PATTERN = re.compile(r"(\d{1,6})\s*[.)]\s+(?=\S)|(\d{1,6})[.)]?$")
BARE_PERCENT_MIN = 10  # from which on a number up to 100 without a sign is a percentage: 85 is 85 %, and 1.2 is a mistake
INTEGER_PATTERN = re.compile(r"[+-]?\d{1,18}")
OUTCOME_FORMS_TEXT = "0, 1, successes of tests such as 3/12, or - if it was not done"


class OutcomeLine(NamedTuple):
    """An outcome that somebody pasted: its line, as it stands and as it was understood, or why it was not."""

    number: int
    text: str
    round: Any = None
    agent: str = ""
    arm: str | None = None
    outcome: Any = None
    wrong: str | None = None


class CsvLine(NamedTuple):
    """One line of a file: its number, and its non-blank cells by column."""

    number: int
    cells: dict[str, str]


def escape_formula(text: str) -> str:
    """The text as a cell that no spreadsheet computes: with an apostrophe before anything it would take for a formula.

    So does one that has apostrophes before that already. `unescape_formula` takes just one away.

    >>> escape_formula("=1+1"), escape_formula("'=1+1"), escape_formula("'t Harde"), escape_formula("x;=1+1")
    ("'=1+1", "''=1+1", "'t Harde", "x;'=1+1")
    """
    return FORMULA_PATTERN.sub("'", text)


def unescape_formula(cell: str) -> str:
    """Undo `escape_formula`; any other cell stays as it is.

    >>> [unescape_formula(cell) for cell in ("'=1+1", "''=1+1", "'t Harde", "=1+1")]
    ['=1+1', "'=1+1", "'t Harde", '=1+1']
    """
    return ESCAPED_FORMULA_PATTERN.sub("", cell)


def read_team(agents: Path, arms: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Read agents and arms from two files, as `service.create` takes them; all mistakes in both are named at once."""
    errors: list[tuple[str, str]] = []
    made: list[Any] = []
    for read, path in ((read_agents, agents), (read_arms, arms)):
        try:
            made.append(read(path))
        except InvalidFields as wrong:
            errors += wrong.errors
    if errors:
        raise InvalidFields(errors)
    return made[0], made[1]


def read_agents(path: Path) -> list[dict[str, Any]]:
    """The agents of a file with the columns name, sensitivity, false_positive_rate, tests, calibration ...; all checked."""
    text = read_text(path)
    if has_header(text, AGENT_FIELDS) or not pasted_agent_rows(text):
        return _parse_agents(parse_csv_lines(text, str(path), AGENT_FIELDS, ("name",)), str(path))
    return parse_pasted_agents(text, str(path))


def read_arms(path: Path) -> list[Any]:
    """The arms of a file with the columns name and prior, which says what is known of an arm beforehand; all checked."""
    return _parse_arms(read_csv_lines(path, ARM_FIELDS, ("name",)), str(path))


def read_last_season(
    path: Path, arms: Sequence[Mapping[str, Any]], counts: float = 1.0
) -> dict[str, BetaShape]:
    """What the visits in a file say of arms: `parse_last_season`."""
    return parse_last_season(read_text(path), arms, counts, str(path))


def parse_last_season(
    text: str, arms: Sequence[Mapping[str, Any]], counts: float = 1.0, what: str = ""
) -> dict[str, BetaShape]:
    """What visits of a season before say of arms: for each of these arms that was visited, a Beta.

    A line is a visit, with arm, successes and tests, and how its agent reported then: sensitivity and false_positive_rate, 1 and 0 if
    they are not said. Lines of other arms are refused: nothing is taken over by half.
    """
    check_weight(counts)
    numbers = {normalize_name(arm["name"]): n for n, arm in enumerate(arms)}
    names = [arm["name"] for arm in arms]
    errors = FieldErrors()
    sums: dict[tuple[float, float], Integers] = {}

    def read(cells: Mapping[str, str]) -> None:
        arm = normalize_name(unescape_formula(cells.get("arm", "")))
        if arm not in numbers:
            # to look for the one that is meant takes a while
            raise (
                unknown_name("arm", arm, names)
                if not errors.errors
                else InvalidInput(f"unknown arm {repr_of(arm)}")
            )
        tests = parse_integer(
            parse_number_or_text(cells.get("tests", "")), "tests", 0, VISIT_MAX_TESTS
        )
        found = parse_integer(
            parse_number_or_text(cells.get("successes", "")), "successes", 0, tests
        )
        s = parse_sensitivity(parse_rate_cell(cells.get("sensitivity") or "1"), "sensitivity")
        alarms = parse_rate_cell(cells.get("false_positive_rate") or "0")
        way = s, parse_rate(alarms, s)
        table = sums.setdefault(way, np.zeros((2, len(names)), np.int64))
        table[:, numbers[arm]] += tests, found

    for row in parse_csv_lines(text, what, VISIT_FIELDS, ("arm", "successes", "tests")):
        # one that was not done has neither
        if any(row.cells.get(field) for field in ("successes", "tests")):
            try:
                read(row.cells)
            except InvalidInput as error:
                place = _place_of_line(what, row.number)
                errors.note((place, f"{place}: {error}"))
    errors.end()
    if not sums or not counts:
        return {}
    team = Team([s for s, _ in sums], false_positive_rates=[phi for _, phi in sums])
    pulls, successes = np.stack(list(sums.values()), axis=1)
    visited = np.flatnonzero(pulls.any(axis=0))
    shapes = shapes_of_visits(team, pulls[:, visited], successes[:, visited], counts)
    return {names[n]: shape for n, shape in zip(visited, shapes, strict=True)}


def parse_pasted_agents(text: str, what: str = "") -> list[dict[str, Any]]:
    """The agents of a text with such columns; without a line that names them they are name, sensitivity and perhaps tests.

    A first line that can be no agent, as it has no number where all others have one, is left out: `heading_of_agents` says which.
    """
    if has_header(text, AGENT_FIELDS):
        return _parse_agents(parse_csv_lines(text, what, AGENT_FIELDS, ("name",)), what)
    mark, rows = _split_agents(text, what)
    made, errors = [], []
    for number, cells in _without_line_numbers(_without_heading(rows)):
        if any(cells[len(PASTED_AGENT_COLUMNS) :]):
            place = _place_of_line(what, number)
            many = f"{len(cells)} cells: {', '.join(PASTED_AGENT_COLUMNS)}, unless the first line names the columns"
            errors.append((place, f"{place} has {many}"))
        made.append(_parse_csv_line(number, PASTED_AGENT_COLUMNS, cells, mark))
    if errors:
        raise InvalidFields(errors)
    return _parse_agents(made, what)


def heading_of_agents(text: str) -> str:
    """The first line, if it is left out because it can be no agent, as it stands there; empty if it is not.

    >>> heading_of_agents("Nom / Sensibilité\\nAna 0.9"), heading_of_agents("Ana 0.9\\nBen 0.8")
    ('Nom / Sensibilité', '')
    """
    try:
        if has_header(text, AGENT_FIELDS):
            return ""
        _, rows = _split_agents(text, "")
    except InvalidInput:
        return ""
    return first_line_of(text).strip() if len(_without_heading(rows)) < len(rows) else ""


def pasted_agent_rows(text: str) -> bool:
    """Whether every line, but perhaps a heading, has a name and a number, so that no line need name the columns."""
    try:
        _, rows = _split_agents(text, "")
    except InvalidInput:
        return False
    rows = _without_line_numbers(_without_heading(rows))
    return bool(rows) and all(len(row.cells) > 1 and is_rate(row.cells[1]) for row in rows)


class TextRow(NamedTuple):
    """A line of a text: its number, and all its cells."""

    number: int
    cells: list[str]


def _split_agents(text: str, what: str) -> tuple[str, list[TextRow]]:
    """What parts the cells of lines that name no columns, and the lines."""
    # Commas part nothing where anything else can: they may be in a name, or in a number.
    mark = next((mark for mark in ("\t", ";") if mark in text), "")
    if not mark:
        lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]  # fmt: skip
        bare = [BARE_LINE_PATTERN.fullmatch(line) for _, line in lines]
        rates = {found["rate"] for found in bare if found}
        if any(bare[:2]) and all(bare[1:]) and not all(map(LONE_DIGIT_PATTERN.fullmatch, rates)):
            pairs = zip(lines, bare, strict=True)
            return ";", [
                TextRow(number, [line] if found is None else [found["name"].rstrip(":").strip(), found["rate"]])
                for (number, line), found in pairs
            ]  # fmt: skip
        mark = ","
    rows = [TextRow(number, cells) for number, cells in _split_cells(text, mark, what)]
    if mark == ",":  # 0,85 is no agent of sensitivity 0 with 85 tests
        rows = [
            TextRow(number, [cells[0], f"0.{cells[2]}", *cells[3:]])
            if len(cells) > 2 and cells[1] == "0" and cells[2].isdigit()
            else TextRow(number, cells)
            for number, cells in rows
        ]
    return mark, rows


def _without_heading(rows: list[TextRow]) -> list[TextRow]:
    """The lines without a first one that has words, in any language, where all others have a number."""
    if len(rows) < 2 or any(is_rate(cell) for cell in rows[0].cells):
        return rows
    words = not any(c.isdigit() for cell in rows[0].cells for c in cell) and all(rows[0].cells)
    numbers = all(any(is_rate(cell) for cell in row.cells[1:]) for row in rows[1:])
    return rows[1:] if words and numbers else rows


def _without_line_numbers(rows: list[TextRow]) -> list[TextRow]:
    """The lines without the numbers of a list: 1 and so on, before the names or in a column of their own."""
    found = [LINE_NUMBER_PATTERN.match(row.cells[0]) for row in rows]
    counted = [match and int(match[1] or match[2]) for match in found]
    if len(rows) < 2 or counted != list(range(1, len(rows) + 1)):
        return rows
    if all(match and match[2] for match in found):  # a column of numbers
        column = all(len(row.cells) > 2 and not is_rate(row.cells[1]) for row in rows)
        return [TextRow(row.number, row.cells[1:]) for row in rows] if column else rows
    return [
        TextRow(row.number, [LINE_NUMBER_PATTERN.sub("", row.cells[0], count=1), *row.cells[1:]])
        for row in rows
    ]


def is_rate(text: str) -> bool:
    """Whether a text is a number as people write it, or how many of how many."""
    return re.fullmatch(RATE_REGEX, text.strip()) is not None


def parse_rate_cell(text: str) -> Any:
    """A sensitivity or the like as people write it: a number, a percentage, or how many of how many; else the text itself.

    >>> parse_rate_cell("0,85"), parse_rate_cell("85 %"), parse_rate_cell("85"), parse_rate_cell("17 of 20")
    (0.85, 0.85, 0.85, [17, 20])
    >>> parse_rate_cell("1"), parse_rate_cell("1.2"), parse_rate_cell("high")
    (1, 1.2, 'high')
    """
    text = text.strip()
    percent = PERCENT_PATTERN.fullmatch(text)
    if percent:
        return float(percent[1].replace(",", ".")) / 100.0
    found = parse_trial_cell(text)
    if isinstance(found, list):
        return found
    value = parse_number_or_text(
        text.replace(",", ".") if DECIMAL_PATTERN.fullmatch(text) else text
    )
    if isinstance(value, (int, float)) and BARE_PERCENT_MIN <= value <= 100:
        return value / 100.0
    return value


def parse_pasted_arms(text: str, taken: Iterable[str] = ()) -> list[Any]:
    """The arms in a text: a name a line, or a spreadsheet's columns, which a first line names; without it the first is the name."""
    if has_header(text, ARM_FIELDS):
        return _parse_arms(parse_csv_lines(text, "", ARM_FIELDS, ("name",)), taken=taken)
    # A comma or a semicolon in a list of names is most likely part of a name: nothing is cut off there.
    rows = [TextRow(number, cells) for number, cells in _split_cells(text, "\t", "")]
    rows = _without_line_numbers(rows)
    lines = [_parse_csv_line(number, ("name",), cells, "\t") for number, cells in rows]
    return _parse_arms(lines, taken=taken)


def _parse_agents(rows: Sequence[CsvLine], what: str = "") -> list[dict[str, Any]]:
    """The agents in these lines, checked."""
    check_member_count("agent", rows)
    given = [_parse_agent(row.cells) for row in rows]
    places = [_place_of_line(what, row.number) for row in rows]
    blank = {
        _place_of_field(place, "name")
        for place, one in zip(places, given, strict=True)
        if "name" not in one
    }
    try:
        made = parse_agents(given, place=places.__getitem__, of=_place_of_field)
    except InvalidFields as wrong:
        raise InvalidFields([
            (place, f"{place} is blank: every agent has a name" if place in blank else message)
            for place, message in wrong.errors
        ]) from None  # fmt: skip
    return [{"name": name, **reports.body} for name, reports in made]


def _parse_arms(rows: Sequence[CsvLine], what: str = "", taken: Iterable[str] = ()) -> list[Any]:
    """The arms in these lines, checked: their names, or what is stated of them, too."""
    check_member_count("arm", rows)
    given = [_parse_arm(row.cells) for row in rows]
    places = [_place_of_line(what, row.number) for row in rows]
    made = parse_arms(given, taken, place=places.__getitem__, of=_place_of_field)
    return [arm.name if arm.prior is None else arm.body for arm in made]


def _parse_arm(cells: Mapping[str, str]) -> dict[str, Any]:
    """An arm's cells as an entry of a list of arms."""
    return {"name": unescape_formula(cells.get("name", "")), "prior": cells.get("prior") or None}


def read_outcomes(path: Path) -> list[tuple[str, str | tuple[str, str], str]]:
    """For each line its place, its agent (or agent and arm), and its outcome as `parse_outcome` takes it.

    The columns are agent and outcome (or successes and tests), and arm for those who went to several.
    """
    errors, made = FieldErrors(), []
    for row in read_csv_lines(path, OUTCOME_FIELDS, ("agent",)):
        place = _place_of_line(str(path), row.number)
        entry = errors.of(place, _parse_outcome_line, row.cells)
        if entry is not None:
            made.append((place, *entry))
    errors.end()
    return made


def _parse_outcome_line(cells: dict[str, str], place: str) -> tuple[str | tuple[str, str], str]:
    """The agent (and arm) of a line, and its outcome, which takes one cell or two."""
    counted = [_whole_cell(cells[name]) for name in ("successes", "tests") if name in cells]
    if "agent" not in cells:
        raise InvalidInput(f"{place}: agent is missing: a name")
    if set(cells) & {"outcome", "successes", "tests"} == {"successes"} and (
        counted[0] in ("-", NOT_DONE) or SHARE_PATTERN.fullmatch(counted[0])
    ):  # which says all of it
        cells, counted = cells | {"outcome": counted[0]}, []
    if ("outcome" in cells) == bool(counted) or len(counted) == 1:
        raise InvalidInput(
            f"{place}: outcome is missing: {OUTCOME_FORMS_TEXT}; or both successes and tests"
        )
    agent = unescape_formula(cells["agent"])
    visit = (agent, unescape_formula(cells["arm"])) if "arm" in cells else agent
    return visit, "/".join(counted) if counted else cells["outcome"]


def parse_pasted_outcomes(text: str) -> list[OutcomeLine]:
    """The outcomes in a text, a visit a line: round, agent, arm, found, of; a first line may name the columns, in another order.

    What is wrong with a line stands with it, so that all of them can be looked at before anything is written.
    """
    known = (*OUTCOME_FIELDS, *PASTED_OUTCOME_COLUMNS, *OUTCOME_COLUMN_ALIASES)
    if has_header(text, known):
        mark = _separator_of_header(text)
        rows = _split_cells(text, mark, "")
        _, head = next(rows)
        names = [OUTCOME_COLUMN_ALIASES.get(name, name) for name in map(_column_name, head)]
        for name in ("round", "agent"):
            if name not in names:
                raise InvalidInput(
                    f"no column is called {name!r}: the first line names the columns"
                )
    else:
        mark = next((one for one in reversed(CELL_SEPARATORS) if one in first_line_of(text)), ",")
        rows, names = _split_cells(text, mark, ""), list(PASTED_OUTCOME_COLUMNS)
    return [_parse_pasted_outcome(number, names, cells, mark) for number, cells in rows]


def _parse_pasted_outcome(
    number: int, names: Sequence[str], cells: Sequence[str], mark: str
) -> OutcomeLine:
    """A pasted line, understood or not."""
    plain = OutcomeLine(number, ", ".join(cell for cell in cells if cell))
    found = _parse_csv_line(number, names, cells, mark).cells
    place = _place_of_line("", number)
    try:
        if any(cells[len(names) :]):
            raise InvalidInput(f"{place}: {len(cells)} cells, and {len(names)} columns")
        if "round" not in found:
            raise InvalidInput(f"{place}: round is missing: its number")
        visit, said = _parse_outcome_line(found, place)
        outcome = parse_outcome(said)
    except InvalidInput as error:
        return plain._replace(wrong=str(error).removeprefix(f"{place}: "))
    agent, arm = visit if isinstance(visit, tuple) else (visit, None)
    which = parse_number_or_text(_whole_cell(found["round"]))
    return plain._replace(round=which, agent=agent, arm=arm, outcome=outcome)


def _whole_cell(text: str) -> str:
    """A whole number as spreadsheets may write it: without decimals that are zero.

    >>> [_whole_cell(text) for text in ("3.0", "3", "3.5", "not done")]
    ['3', '3', '3.5', 'not done']
    """
    return re.sub(r"\A(\d{1,18})\.0+\Z", r"\1", text)


def parse_outcome(text: str) -> int | tuple[int, int] | str:
    """An outcome as people write it.

    >>> parse_outcome("1"), parse_outcome("3/12"), parse_outcome("-")
    (1, (3, 12), 'not done')
    """
    text = unescape_formula(text.strip())
    if text in ("-", NOT_DONE):
        return NOT_DONE
    counts = SHARE_PATTERN.fullmatch(text)
    if counts:
        successes, tests = int(counts[1]), int(counts[2])
        if successes > tests:
            raise InvalidInput(f"the outcome is {repr_of(text)}: at most all tests are successes")
        return successes, tests
    if text in ("0", "1"):
        return int(text)
    raise InvalidInput(f"the outcome is {repr_of(text)}: {OUTCOME_FORMS_TEXT}")


def read_csv_lines(path: Path, columns: Sequence[str], needed: Sequence[str]) -> list[CsvLine]:
    """Read the non-blank lines of a file, by the columns that its first line names."""
    return parse_csv_lines(read_text(path), str(path), columns, needed)


def parse_csv_lines(
    text: str, what: str, columns: Sequence[str], needed: Sequence[str]
) -> list[CsvLine]:
    """Parse the non-blank lines of a text; `what`, if given, names the text in front of each mistake."""
    mark = _separator_of_header(text)
    rows = _split_cells(text, mark, what)
    number, head = next(rows, (1, [""]))
    names = [_column_name(cell) for cell in head]
    while names and not names[-1]:
        names.pop()
    place = _place_of_line(what, number)
    for i, name in enumerate(names):
        if name not in columns:
            raise InvalidInput(
                f"{place}: {unknown_name('column', head[i], columns)}; the first line names the columns"
            )
        if name in names[:i]:
            raise InvalidInput(f"{place}: two columns are called {name!r}")
    for name in needed:
        if name not in names:
            raise InvalidInput(
                f"{place}: no column is called {name!r}: the first line names the columns"
            )
    made, errors = [], []
    for number, cells in rows:
        if any(cells[len(names) :]):
            place = _place_of_line(what, number)
            errors.append((place, f"{place} has {len(cells)} cells: the first has {len(names)}"))
        made.append(_parse_csv_line(number, names, cells, mark))
    if errors:
        raise InvalidFields(errors)
    if not made:
        raise InvalidInput(f"{what or 'the text'} has no lines after the first: at least one")
    return made


def has_header(text: str, columns: Sequence[str]) -> bool:
    """Whether the first non-blank line names a column.

    >>> has_header("Name;Sensitivity", ("name",)), has_header("Ana;0,9", ("name",))
    (True, False)
    """
    try:
        _, head = next(_split_cells(text, _separator_of_header(text), ""), (1, [""]))
    except InvalidInput:  # parted otherwise, there may be sense in it
        return False
    return any(_column_name(cell) in columns for cell in head)


def _separator_of_header(text: str) -> str:
    """The character that separates the columns of the header."""
    return max(CELL_SEPARATORS, key=first_line_of(text).count)


def first_line_of(text: str) -> str:
    """The first non-blank line."""
    return next((line for line in text.splitlines() if line.strip()), "")


def _column_name(cell: str) -> str:
    """The column that a cell of the header names, in any case, with blanks or dashes."""
    return "_".join(re.split(r"[\s_-]+", cell.lower()))


def _parse_csv_line(number: int, names: Sequence[str], cells: Sequence[str], mark: str) -> CsvLine:
    """The non-blank cells of a line, by column."""
    known = {name: cell for name, cell in zip(names, cells, strict=False) if cell}
    return CsvLine(
        number,
        {n: c if n in TEXT_COLUMNS else _replace_decimal_comma(c, mark) for n, c in known.items()},
    )


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"cannot read {path}: save it as UTF-8") from None


def _split_cells(text: str, mark: str, what: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each non-blank line; a quoted cell may span several."""
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True, strict=True
    )
    begins = 1
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield begins, cells
            begins = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInput(f"{_place_of_line(what, begins)}: this is no CSV: {error}") from None


def _replace_decimal_comma(cell: str, mark: str) -> str:
    """The cell with a decimal point for a decimal comma, unless commas separate cells."""
    decimal = re.fullmatch(r"\d*,\d+(?:\s*%)?", cell)
    return cell.replace(",", ".") if mark != "," and decimal else cell


def _parse_agent(cells: dict[str, str]) -> dict[str, Any]:
    """An agent's cells, with numbers as numbers; a cell that should be a number and is not is refused by its field."""
    read = {
        "name": unescape_formula,
        "calibration": parse_trial_cell,
        "false_positive_calibration": parse_trial_cell,
        "sensitivity": parse_rate_cell,
        "false_positive_rate": parse_rate_cell,
    }
    made = {name: read.get(name, parse_number_or_text)(cell) for name, cell in cells.items()}
    for rate, trial in CALIBRATED_FIELDS:  # 17 of 20 is a trial, in whichever column it stands
        if isinstance(made.get(rate), list) and trial not in made:
            made[trial] = made.pop(rate)
    return made


def parse_number_or_text(text: str) -> Any:
    """The number in a text; the text itself if it is not a number."""
    try:
        return int(text) if INTEGER_PATTERN.fullmatch(text) else float(text)
    except ValueError:
        return text


def parse_trial_cell(text: str) -> Any:
    """A text such as 17/20 as a list of two numbers; the text itself if it is nothing like that."""
    found = SHARE_PATTERN.fullmatch(text)
    return text if found is None else [int(found[1]), int(found[2])]


def _place_of_line(what: str, number: int) -> str:
    """The place of a line, for a message."""
    return f"{what}, line {number}" if what else f"line {number}"


def _place_of_field(place: str, field: str) -> str:
    return f"{place}: {field}"


def render_visits(
    state: State, tellings: Mapping[int, Telling] = MappingProxyType({}), separator: str = ","
) -> str:
    """All visits as CSV for a spreadsheet, one line each, by round and agent; below those of a round who was absent or stayed home.

    `tellings` says of events when they were written, and by whom. With semicolons decimals have a comma.
    """
    page = io.StringIO(newline="")
    table = csv.writer(page, delimiter=separator)
    table.writerow(VISIT_FIELDS)
    for round in state.rounds:
        planned_at = round.time[:16].replace("T", " ")
        for agent, arm in round.sent:
            names = (escape_formula(state.agents[agent].name), escape_formula(state.arms[arm].name))
            found, tests = _counts_of_visit(round, (agent, arm))
            planned = planned_tests_of(state, agent, round)
            told = round.told.get((agent, arm))
            said = None if told is None else tellings.get(told.event)
            reports = state.rows[state.row_in(agent, round.number)].reports
            comma = "," if separator == ";" else "."
            table.writerow(
                [
                    round.number,
                    round.time,
                    *names,
                    found,
                    tests,
                    status_of_visit(round, (agent, arm)),
                    planned,
                    "yes" if is_far_from_plan(tests, planned) else "",
                    str(reports.sensitivity).replace(".", comma),
                    str(reports.false_positive_rate).replace(".", comma),
                    _planned_arm(state, round, agent),
                    planned_at,
                    "" if said is None else escape_formula(said.who),
                    "" if said is None else said.time[:16].replace("T", " "),
                    *_sayings_of_visit(round, (agent, arm)),
                ]
            )
        for agent, why in _agents_at_home(state, round):
            row = [""] * len(VISIT_FIELDS)
            row[:3] = [str(round.number), round.time, escape_formula(state.agents[agent].name)]
            row[VISIT_FIELDS.index("status")] = why
            row[VISIT_FIELDS.index("planned_arm")] = _planned_arm(state, round, agent)
            row[VISIT_FIELDS.index("planned_at")] = planned_at
            table.writerow(row)
    return page.getvalue()


def _planned_arm(state: State, round: PlannedRound, agent: int) -> str:
    """Where the plan of a round sent an agent, who may have gone elsewhere."""
    arm = round.assignment[agent] if agent < len(round.assignment) else None
    return "" if arm is None else escape_formula(state.arms[arm].name)


def _agents_at_home(state: State, round: PlannedRound) -> Iterator[tuple[int, str]]:
    """Who went nowhere in a round, and why; of who is no longer in the team it is told only if something was said of them then."""
    for agent in range(len(round.assignment)):
        if not round.arms_of(agent):
            if agent in round.given.absent:
                yield agent, "absent"
            elif agent in round.moved or not state.agents[agent].retired:
                yield agent, "stayed home"


def _counts_of_visit(round: PlannedRound, pair: AgentArm) -> tuple[int | None, int | None]:
    told = round.told.get(pair)
    return (None, None) if told is None or told.counts is None else told.counts


def _sayings_of_visit(round: PlannedRound, pair: AgentArm) -> tuple[str, str]:
    """When the report of a visit was typed, and its note."""
    told = round.told.get(pair)
    return ("", "") if told is None else (told.entered or "", escape_formula(told.note))


def status_of_visit(round: PlannedRound, pair: AgentArm) -> str:
    """The status of a visit in one word."""
    told = round.told.get(pair)
    if told is None:
        return "missing" if round.closed else "waiting"
    return NOT_DONE if told.counts is None else "reported"
