"""What people keep in spreadsheets: agents, arms and outcomes read from CSV, and visits written as CSV.

The first line of a file names its columns, in any order and case; of what is pasted it may be missing. Commas, semicolons and
tabs part them; with semicolons and tabs a number may have a decimal comma. Each mistake is named with its line.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heterobandits.campaigns.amounts import tests_planned
from heterobandits.campaigns.audit.history_text import is_far
from heterobandits.campaigns.rounds import Pair, PlannedRound
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import (
    AGENT_FIELDS,
    NOT_DONE,
    Collected,
    Wrong,
    agents_from,
    arms_from,
)
from heterobandits.errors import InvalidInput, shown, unknown

MARKS = ",;\t"  # what parts cells
# What a spreadsheet computes begins with one of these, some of them in full width too. It may begin after a mark that is not ours:
# one that parts cells by semicolons sees another cell there. Blanks and quotes before it are no part of what that one reads.
BEGINS = r"(?:\A|(?<=[;\t]))"
COMPUTED = r"(?=[\s\"']*[=+\-@＝＋－＠\t\r])"
FORMULA = re.compile(BEGINS + COMPUTED)
ESCAPED = re.compile(f"{BEGINS}'{COMPUTED}")
PASTED = ("name", "sensitivity", "tests")  # the columns of agents where no line names them
OUTCOME_FIELDS = ("agent", "arm", "outcome", "successes", "tests")
TEXTS = ("name", "agent", "arm")  # columns in which a comma is a comma
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
)
OF = re.compile(r"(\d{1,18})\s*(?:/|of)\s*(\d{1,18})")
WHOLE = re.compile(r"[+-]?\d{1,18}")
ALLOWED = "0, 1, successes of tests such as 3/12, or - if it was not done"


class CsvLine(NamedTuple):
    """A line of a file: its number, and its cells that are not blank by the name of their column."""

    number: int
    cells: dict[str, str]


def inert(text: str) -> str:
    """The text as a cell that no spreadsheet computes: with an apostrophe before whatever would be taken for a formula.

    So does one that has apostrophes before that already. `without_apostrophe` takes just one away.

    >>> inert("=1+1"), inert("'=1+1"), inert("'t Harde"), inert("x;=1+1")
    ("'=1+1", "''=1+1", "'t Harde", "x;'=1+1")
    """
    return FORMULA.sub("'", text)


def without_apostrophe(cell: str) -> str:
    """The text that `inert` made a cell of; any other as it is.

    >>> [without_apostrophe(cell) for cell in ("'=1+1", "''=1+1", "'t Harde", "=1+1")]
    ['=1+1', "'=1+1", "'t Harde", '=1+1']
    """
    return ESCAPED.sub("", cell)


def read_team(agents: Path, arms: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The agents and arms of two files, as `service.create` takes them; what is wrong in either is named at once."""
    errors: list[tuple[str, str]] = []
    made: list[Any] = []
    for read, path in ((read_agents, agents), (read_arm_names, arms)):
        try:
            made.append(read(path))
        except Wrong as wrong:
            errors += wrong.errors
    if errors:
        raise Wrong(errors)
    return made[0], made[1]


def read_agents(path: Path) -> list[dict[str, Any]]:
    """The agents of a file with the columns name, sensitivity, false_positive_rate, tests, calibration ...; all checked."""
    return _agents(csv_lines(path, AGENT_FIELDS, ("name",)), str(path))


def read_arm_names(path: Path) -> list[str]:
    """The names of the arms of a file, in its column name."""
    return _arms(csv_lines(path, ("name",), ("name",)), str(path))


def pasted_agents(text: str) -> list[dict[str, Any]]:
    """The agents of a text with such columns; without a line that names them they are name, sensitivity and perhaps tests."""
    if has_head(text, AGENT_FIELDS):
        return _agents(lines_in(text, "", AGENT_FIELDS, ("name",)))
    # Commas part nothing where anything else can: they may be in a name, or in a number.
    mark = next((mark for mark in reversed(MARKS) if mark in first_of(text)), ",")
    made, errors = [], []
    for number, cells in _cells(text, mark, ""):
        if any(cells[len(PASTED) :]):
            place = _place("", number)
            many = (
                f"{len(cells)} cells: {', '.join(PASTED)}, unless the first line names the columns"
            )
            errors.append((place, f"{place} has {many}"))
        made.append(_line(number, PASTED, cells, mark))
    if errors:
        raise Wrong(errors)
    return _agents(made)


def pasted_arms(text: str) -> list[str]:
    """The names of arms in a text, one a line, or in the first column of a spreadsheet; a first line `name` may be above them."""
    if has_head(text, ("name",)):
        return _arms(lines_in(text, "", ("name",), ("name",)))
    # A comma or a semicolon in a list of names is most likely part of a name: nothing is cut off there.
    rows = _cells(text, "\t", "")
    return _arms([_line(number, ("name",), cells, "\t") for number, cells in rows])


def _agents(rows: Sequence[CsvLine], what: str = "") -> list[dict[str, Any]]:
    """The agents in these lines, checked."""
    given = [_agent(row.cells) for row in rows]
    places = [_place(what, row.number) for row in rows]
    blank = {
        _of(place, "name") for place, one in zip(places, given, strict=True) if "name" not in one
    }
    try:
        made = agents_from(given, place=places.__getitem__, of=_of)
    except Wrong as wrong:
        raise Wrong([
            (place, f"{place} is blank: every agent has a name" if place in blank else message)
            for place, message in wrong.errors
        ]) from None  # fmt: skip
    return [{"name": name, **reports.body} for name, reports in made]


def _arms(rows: Sequence[CsvLine], what: str = "") -> list[str]:
    """The names of the arms in these lines, checked."""
    given = [{"name": without_apostrophe(row.cells.get("name", ""))} for row in rows]
    places = [_place(what, row.number) for row in rows]
    return arms_from(given, place=places.__getitem__, of=_of)


def read_outcomes(path: Path) -> list[tuple[str, str | tuple[str, str], str]]:
    """Of each line its place, the agent (or the agent and the arm), and the outcome as `outcome_of` takes it.

    The columns are agent and outcome (or successes and tests), and arm for those who went to several.
    """
    errors, made = Collected(), []
    for row in csv_lines(path, OUTCOME_FIELDS, ("agent",)):
        place = _place(str(path), row.number)
        entry = errors.of(place, _entry, row.cells)
        if entry is not None:
            made.append((place, *entry))
    errors.end()
    return made


def _entry(cells: dict[str, str], place: str) -> tuple[str | tuple[str, str], str]:
    """Whose visit a line is about, and the outcome, which is in one cell or in two."""
    counted = [cells[name] for name in ("successes", "tests") if name in cells]
    if "agent" not in cells:
        raise InvalidInput(f"{place}: agent is missing: a name")
    if ("outcome" in cells) == bool(counted) or len(counted) == 1:
        raise InvalidInput(f"{place}: outcome is missing: {ALLOWED}; or both successes and tests")
    agent = without_apostrophe(cells["agent"])
    visit = (agent, without_apostrophe(cells["arm"])) if "arm" in cells else agent
    return visit, "/".join(counted) if counted else cells["outcome"]


def parse_outcome(text: str) -> int | tuple[int, int] | str:
    """An outcome as people write it.

    >>> parse_outcome("1"), parse_outcome("3/12"), parse_outcome("-")
    (1, (3, 12), 'not done')
    """
    text = without_apostrophe(text.strip())
    if text in ("-", NOT_DONE):
        return NOT_DONE
    counts = OF.fullmatch(text)
    if counts:
        successes, tests = int(counts[1]), int(counts[2])
        if successes > tests:
            raise InvalidInput(f"the outcome is {shown(text)}: at most all tests are successes")
        return successes, tests
    if text in ("0", "1"):
        return int(text)
    raise InvalidInput(f"the outcome is {shown(text)}: {ALLOWED}")


def csv_lines(path: Path, columns: Sequence[str], needed: Sequence[str]) -> list[CsvLine]:
    """The lines of a file that are not blank, by the columns that its first line names."""
    return lines_in(read_text(path), str(path), columns, needed)


def lines_in(text: str, what: str, columns: Sequence[str], needed: Sequence[str]) -> list[CsvLine]:
    """The same of a text; `what` it is called stands before the line of each mistake, if it is called anything."""
    mark = _mark_of_head(text)
    rows = _cells(text, mark, what)
    number, head = next(rows, (1, [""]))
    names = [_column(cell) for cell in head]
    while names and not names[-1]:
        names.pop()
    place = _place(what, number)
    for i, name in enumerate(names):
        if name not in columns:
            raise InvalidInput(
                f"{place}: {unknown('column', head[i], columns)}; the first line names the columns"
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
            place = _place(what, number)
            errors.append((place, f"{place} has {len(cells)} cells: the first has {len(names)}"))
        made.append(_line(number, names, cells, mark))
    if errors:
        raise Wrong(errors)
    if not made:
        raise InvalidInput(f"{what or 'the text'} has no lines after the first: at least one")
    return made


def has_head(text: str, columns: Sequence[str]) -> bool:
    """Whether the first line that is not blank names a column.

    >>> has_head("Name;Sensitivity", ("name",)), has_head("Ana;0,9", ("name",))
    (True, False)
    """
    try:
        _, head = next(_cells(text, _mark_of_head(text), ""), (1, [""]))
    except InvalidInput:  # parted otherwise, there may be sense in it
        return False
    return any(_column(cell) in columns for cell in head)


def _mark_of_head(text: str) -> str:
    """What parts the columns that the first line names."""
    return max(MARKS, key=first_of(text).count)


def first_of(text: str) -> str:
    """The first line that is not blank."""
    return next((line for line in text.splitlines() if line.strip()), "")


def _column(cell: str) -> str:
    """The name of a column as people write it, in any case, with blanks or dashes."""
    return "_".join(re.split(r"[\s_-]+", cell.lower()))


def _line(number: int, names: Sequence[str], cells: Sequence[str], mark: str) -> CsvLine:
    """The cells of a line that are not blank, by their columns."""
    known = {name: cell for name, cell in zip(names, cells, strict=False) if cell}
    return CsvLine(number, {n: c if n in TEXTS else _decimal(c, mark) for n, c in known.items()})


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"cannot read {path}: save it as UTF-8") from None


def _cells(text: str, mark: str, what: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line that is not blank; a cell in quotes may span several."""
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
        raise InvalidInput(f"{_place(what, begins)}: this is no CSV: {error}") from None


def _decimal(cell: str, mark: str) -> str:
    """The cell with a point for a decimal comma, where commas part nothing."""
    return cell.replace(",", ".") if mark != "," and re.fullmatch(r"\d*,\d+", cell) else cell


def _agent(cells: dict[str, str]) -> dict[str, Any]:
    """The cells of an agent as numbers, where they are; what is none is refused with its field."""
    read = {"name": without_apostrophe, "calibration": trial, "false_positive_calibration": trial}
    return {name: read.get(name, number_or_text)(cell) for name, cell in cells.items()}


def number_or_text(text: str) -> Any:
    """A number as it was written; the text itself if it is none."""
    try:
        return int(text) if WHOLE.fullmatch(text) else float(text)
    except ValueError:
        return text


def trial(text: str) -> Any:
    """How many of how many, as a list; the text itself if it says no such thing."""
    found = OF.fullmatch(text)
    return text if found is None else [int(found[1]), int(found[2])]


def _place(what: str, number: int) -> str:
    """A line, of what."""
    return f"{what}, line {number}" if what else f"line {number}"


def _of(place: str, field: str) -> str:
    return f"{place}: {field}"


def visits_csv(state: State) -> str:
    """All visits, a line for each, by round and agent, for a spreadsheet."""
    page = io.StringIO(newline="")
    table = csv.writer(page)
    table.writerow(VISIT_FIELDS)
    for round in state.rounds:
        for agent, arm in round.sent:
            names = (inert(state.agents[agent].name), inert(state.arms[arm].name))
            found, tests = _counts(round, (agent, arm))
            planned = tests_planned(state, agent, round)
            table.writerow(
                [
                    round.number,
                    round.time,
                    *names,
                    found,
                    tests,
                    status_of(round, (agent, arm)),
                    planned,
                    "yes" if is_far(tests, planned) else "",
                ]
            )
    return page.getvalue()


def _counts(round: PlannedRound, pair: Pair) -> tuple[int | None, int | None]:
    told = round.told.get(pair)
    return (None, None) if told is None or told.counts is None else told.counts


def status_of(round: PlannedRound, pair: Pair) -> str:
    """What is known of a visit, in a word."""
    told = round.told.get(pair)
    if told is None:
        return "missing" if round.closed else "waiting"
    return NOT_DONE if told.counts is None else "reported"
