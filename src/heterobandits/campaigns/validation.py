"""What people and programs hand to a campaign, checked: every field that is wrong is named, all of them at once."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeVar

from heterobandits.errors import (
    TURNING,
    InvalidInput,
    appearance,
    listed,
    name_from,
    rate_from,
    sensitivity_from,
    shown,
    unknown,
    whole_number,
)
from heterobandits.limits import MOST, MOST_ADDRESS, MOST_TESTS
from heterobandits.model.calibration import Trial, estimate, trial_from
from heterobandits.planner.history import Outcome, counted_outcome
from heterobandits.policies.catalogue import RECOMMENDED, RECOMMENDED_FOR_HORIZON
from heterobandits.policies.policy import Policy
from heterobandits.policies.policy import policy as catalogued

MOST_ERRORS = 100  # that are told of at once
MOST_LETTERS = 200  # of a name
MOST_TEXT = 10_000  # letters of a note
MOST_PAIRS = 1_000_000  # agents times arms: 16 MB of tables
ID = re.compile(r"(agent|arm)-([1-9]\d{0,8})")
# Letters of other alphabets, and digits, that look like these: what `unicodedata` does not know.
ALIKE = {
    ord(other): letter
    for letter, others in {
        "A": "АΑ", "B": "ВΒ", "E": "ЕΕ", "S": "Ѕ", "J": "Ј", "K": "КΚ", "M": "МΜ", "H": "НΗ",
        "O": "ОΟՕ", "P": "РΡ", "C": "С", "T": "ТΤ", "Y": "УΥ", "X": "ХΧ", "Z": "Ζ", "N": "Ν",
        "3": "З", "a": "аαᴀ", "b": "ʙ", "c": "сᴄ", "d": "ԁᴅ", "e": "еᴇ", "f": "ꜰ", "g": "ɢց",
        "h": "һʜհ", "j": "јᴊ", "k": "кκᴋ", "m": "ᴍ", "n": "ɴո", "o": "оοօᴏ0", "p": "рρᴘ",
        "q": "ԛ", "r": "ʀ", "s": "ѕꜱ", "t": "ᴛ", "u": "υᴜս", "v": "νᴠ", "w": "ԝѡᴡ", "x": "хχ",
        "y": "уγʏ", "z": "ᴢ", "l": "іІӏӀιΙıℓɪʟ1iI|",
    }.items()
    for other in others
}  # fmt: skip
# What shows as nothing, or as a blank, and is no blank to Python: joiners, fillers, choices of a glyph, the empty Braille cell.
UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
NOT_DONE = "not done"  # in place of an outcome: nobody went, or nothing came of it

Made = TypeVar("Made")


class Wrong(InvalidInput):
    """Several things that are wrong at once, each with its place: `agents[2].sensitivity`, `line 7: tests`."""

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(message for _, message in errors[:MOST_ERRORS]))
        self.errors = tuple(errors)


@dataclass(frozen=True)
class Reports:
    """How an agent reports, as believed; what `Team` has in its columns."""

    sensitivity: float
    false_positive_rate: float = 0.0
    tests: int = 1
    calibration: Trial = None
    false_positive_calibration: Trial = None

    @property
    def body(self) -> dict[str, Any]:
        """The same for an event."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Reports":
        """The same from such a body."""
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in body.items()
        }
        return cls(**known)


AGENT_FIELDS = ("name", *(field.name for field in fields(Reports)))


class Collected:
    """Errors as they come, to be raised together, or as soon as there are as many as are told of."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str]] = []

    def of(self, place: str, check: Callable[..., Made], *arguments: Any) -> Made | None:
        """What the check returns, called with the arguments and the place; None if it refuses, which is noted."""
        try:
            return check(*arguments, place)
        except InvalidInput as error:
            self.note((place, str(error)))
        return None

    def all(self, place: str, check: Callable[..., Made], *arguments: Any) -> Made | None:
        """The same for a check that knows the places of its errors itself."""
        try:
            return check(*arguments)
        except Wrong as wrong:
            self.note(*wrong.errors)
        except InvalidInput as error:
            self.note((place, str(error)))
        return None

    def note(self, *errors: tuple[str, str]) -> None:
        """Places with what is wrong there."""
        self.errors += errors
        if len(self.errors) >= MOST_ERRORS:
            self.end()

    def end(self) -> None:
        """Raise them, if there are any."""
        if self.errors:
            raise Wrong(self.errors)


def called(value: Any, name: str = "name") -> str:
    """`value` as a name of an agent, an arm, a campaign or a link."""
    text = name_from(value, name)
    if len(text) > MOST_LETTERS:
        raise InvalidInput(f"{name} has {len(text):,} letters: at most {MOST_LETTERS}")
    if ID.fullmatch(text):
        raise InvalidInput(f"{name} is {shown(text)}: names like agent-1 and arm-1 are ids")
    return text


def new_name(value: Any, taken: Iterable[str], name: str = "name") -> str:
    """`value` as a name that looks like none of those taken."""
    text = called(value, name)
    if appearance(text) in {appearance(other) for other in taken}:
        raise InvalidInput(f"{name} is {shown(text)}: that name is taken")
    return text


def likeness(name: str) -> str:
    """What a hasty reader sees of a name: letters that look alike are the same, whichever alphabet or case they are of.

    >>> likeness("оwner") == likeness("Owner"), likeness("ow\u200bner") == likeness("0wner")
    (True, True)
    >>> likeness("ówner\u3164") == likeness("owner")
    True
    """
    seen = appearance(UNSEEN.sub("", unicodedata.normalize("NFKD", appearance(name))))
    bare = "".join(c for c in seen if not is_accent(c))
    # Some letters look alike as capitals only, and some are known here as small ones.
    return bare.translate(ALIKE).casefold().translate(ALIKE)


def is_accent(character: str) -> bool:
    """Whether a character is set above, below or through the one before, as accents are; signs of vowels are not."""
    place = unicodedata.combining(character)
    return place == 1 or place >= 200


def text_from(value: Any, name: str = "text") -> str:
    """`value` as a text of several lines that shows as it is written."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} is {shown(value)}: a text that is not blank")
    if len(value) > MOST_TEXT:
        raise InvalidInput(f"{name} has {len(value):,} letters: at most {MOST_TEXT:,}")
    lines = [name_from(part, name) for part in value.splitlines() if part.strip()]
    return "\n".join(lines)


def plain(value: Any, name: str) -> str:
    """`value` as a short text without control or text-direction characters, such as an idempotency key."""
    if not isinstance(value, str) or not 1 <= len(value) <= MOST_LETTERS:
        raise InvalidInput(f"{name} is {shown(value)}: a text of 1 to {MOST_LETTERS} letters")
    if not value.isprintable() or TURNING & set(value):
        raise InvalidInput(f"{name} is {shown(value)}: printable letters")
    return value


def of_field(where: str, field: str) -> str:
    """The place of a field of an entry, as programs write it."""
    return f"{where}.{field}"


def reports_from(
    given: Mapping[str, Any], errors: Collected, place: Callable[[str], str]
) -> Reports | None:
    """How an agent reports; what is wrong is noted at the place of its field."""

    def field(name: str, check: Callable[..., Any], *arguments: Any) -> Any:
        value = given.get(name)
        return None if value is None else errors.of(place(name), check, value, *arguments)

    before = len(errors.errors)
    found = field("calibration", trial_from)
    alarms = field("false_positive_calibration", trial_from)
    tests = field("tests", lambda value, name: whole_number(value, name, 1, MOST_TESTS))
    s = field("sensitivity", sensitivity_from)
    if s is None and found is not None:
        s = estimate(found)
    if s is None and len(errors.errors) == before:
        where = place("sensitivity")
        errors.note((where, f"{where} is missing: a probability in (0, 1]"))
    rate = None if s is None else field("false_positive_rate", rate_from, s)
    if rate is None and alarms is not None and s is not None:
        rate = errors.of(place("false_positive_calibration"), rate_from, estimate(alarms), s)
    if s is None or len(errors.errors) > before:
        return None
    return Reports(s, rate or 0.0, tests or 1, found, alarms)


def agents_from(
    given: Any,
    taken: Iterable[str] = (),
    place: Callable[[int], str] = "agents[{}]".format,
    of: Callable[[str, str], str] = of_field,
) -> list[tuple[str, Reports]]:
    """Agents with their names and how they report; `place` says where an agent stands, and `of` where a field of it."""
    errors, made = Collected(), []
    for where, name, item in _named(given, "agent", taken, place, of, AGENT_FIELDS, errors):
        reports = reports_from(item, errors, partial(of, where))
        if reports is not None:
            made.append((name, reports))
    errors.end()
    return made


def arms_from(
    given: Any,
    taken: Iterable[str] = (),
    place: Callable[[int], str] = "arms[{}]".format,
    of: Callable[[str, str], str] = of_field,
) -> list[str]:
    """Names of arms, given as such or as {"name": ...}."""
    errors = Collected()
    made = [name for _, name, _ in _named(given, "arm", taken, place, of, ("name",), errors)]
    errors.end()
    return made


def _named(
    given: Any,
    kind: str,
    taken: Iterable[str],
    place: Callable[[int], str],
    of: Callable[[str, str], str],
    fields: Sequence[str],
    errors: Collected,
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The place, the name and the rest of each entry; what is wrong with the name is noted."""
    items = listed(given, f"{kind}s", "names")
    if not items:
        raise InvalidInput(f"{kind}s is empty: at least one {kind}")
    seen = {appearance(text) for text in taken}
    for i, given_item in enumerate(items):
        where = place(i)
        item = {"name": given_item} if isinstance(given_item, str) else given_item
        if not isinstance(item, Mapping):
            errors.note((where, f"{where} is {shown(item)}: an {kind} with a name"))
            continue
        for key in item:
            if key not in fields:
                errors.note((where, f"{where}: {unknown('field', key, fields)}"))
        name = errors.of(of(where, "name"), called, item.get("name"))
        if name is not None and appearance(name) in seen:
            there = of(where, "name")
            errors.note((there, f"{there} is {shown(name)}: that name is taken"))
        seen |= {appearance(name)} if name is not None else set()
        yield where, name or "", item


def policy_from(
    name: Any = None, delta: Any = None, season: int | None = None, memory: Any = None
) -> Policy:
    """A policy of the catalogue that can be planned with, for a season of that length; the recommended one if none is named."""
    from heterobandits.planner.planning import plannable

    if name is None:
        name = RECOMMENDED if season is None else RECOMMENDED_FOR_HORIZON
    if not isinstance(name, str):
        raise InvalidInput(f"policy is {shown(name)}: the name of a policy")
    made = plannable(catalogued(name, delta, None, memory))
    if not made.in_season:
        return made
    if season is None:
        raise InvalidInput(f"{name} goes by the length of the season: say how many rounds it has")
    return made.until(season)


def season_from(value: Any) -> int | None:
    """`value` as the number of rounds of a season; None if it has no end."""
    return None if value is None else whole_number(value, "season", 1, MOST)


def seed_from(value: Any) -> int:
    """`value` as a seed."""
    return whole_number(value, "seed", 0, MOST_ADDRESS)


def outcome_from(value: Any, agent: str) -> Outcome | None:
    """`value` as (successes, tests), from 0, 1 or a pair; None for what was not done."""
    if isinstance(value, str) and value == NOT_DONE:
        return None
    return counted_outcome(value, agent)
