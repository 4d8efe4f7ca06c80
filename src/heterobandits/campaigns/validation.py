"""Checks what people and programs hand to a campaign, and names every wrong field at once."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import date
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from heterobandits.errors import (
    TEXT_DIRECTION_MARKS,
    InvalidInput,
    appearance_of,
    parse_choice,
    parse_integer,
    parse_list,
    parse_name,
    parse_rate,
    parse_sensitivity,
    repr_of,
    unknown_name,
)
from heterobandits.limits import ADDRESS_MAX, COUNT_MAX, VISIT_MAX_TESTS
from heterobandits.model.calibration import estimate_of_trial, parse_trial
from heterobandits.model.prior import (
    LEARNED,
    BetaShape,
    PriorKind,
    parse_stated_prior,
)
from heterobandits.planner.history import parse_visit_outcome
from heterobandits.planner.knowledge import ON_CHANGE_CHOICES, OnChange
from heterobandits.planner.roster import Reports
from heterobandits.planner.visits import Outcome
from heterobandits.policies.catalogue import RECOMMENDED, RECOMMENDED_FOR_HORIZON
from heterobandits.policies.policy import Policy
from heterobandits.policies.policy import policy as catalogued

REPORT_MAX_ERRORS = 100  # that are told of at once
NAME_MAX_LETTERS = 200  # of a name
CAMPAIGN_MAX_MEMBERS = 10_000  # agents, and as many arms: of more, what is believed takes seconds
STATED_MAX_WORDS = 300  # different statements in words at once: each takes a millisecond or two
STATED_FEW_WORDS = 20  # so many are worked out in the time of something quick
NOTE_MAX_LETTERS = 10_000  # letters of a note
REPORT_NOTE_MAX_LETTERS = 500  # letters of a note with the report of a visit
CAMPAIGN_MAX_PAIRS = 1_000_000  # agents times arms: 16 MB of tables
DAY_PATTERN = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
MEMBER_ID_PATTERN = re.compile(r"(agent|arm)-([1-9]\d{0,8})")
# Letters of other alphabets, and digits, that look like these: what `unicodedata` does not know.
LOOKALIKE_LETTERS = {
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
INVISIBLE_PATTERN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
PRIOR_KINDS: tuple[PriorKind, ...] = (LEARNED, "stated")
NOT_DONE = "not done"  # in place of an outcome: nobody went, or nothing came of it

Validated = TypeVar("Validated")


class InvalidFields(InvalidInput):
    """Several mistakes at once, each with its place: `agents[2].sensitivity`, `line 7: tests`."""

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(message for _, message in errors[:REPORT_MAX_ERRORS]))
        self.errors = tuple(errors)


ARM_FIELDS = ("name", "prior")
AGENT_FIELDS = ("name", *(field.name for field in fields(Reports)))


class FieldErrors:
    """Collects errors, to raise them together or as soon as there are too many to show."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str]] = []

    def of(self, place: str, check: Callable[..., Validated], *arguments: Any) -> Validated | None:
        """What the check returns, called with the arguments and the place; None if it refuses, which is noted."""
        try:
            return check(*arguments, place)
        except InvalidInput as error:
            self.note((place, str(error)))
        return None

    def all(self, place: str, check: Callable[..., Validated], *arguments: Any) -> Validated | None:
        """The same for a check that knows the places of its errors itself."""
        try:
            return check(*arguments)
        except InvalidFields as wrong:
            self.note(*wrong.errors)
        except InvalidInput as error:
            self.note((place, str(error)))
        return None

    def note(self, *errors: tuple[str, str]) -> None:
        """Places with what is wrong there."""
        self.errors += errors
        if len(self.errors) >= REPORT_MAX_ERRORS:
            self.end()

    def end(self) -> None:
        """Raise them, if there are any."""
        if self.errors:
            raise InvalidFields(self.errors)


def parse_display_name(value: Any, name: str = "name") -> str:
    """`value` as the name of an agent, an arm, a campaign or a link."""
    text = parse_name(value, name)
    if len(text) > NAME_MAX_LETTERS:
        raise InvalidInput(f"{name} has {len(text):,} letters: at most {NAME_MAX_LETTERS}")
    if MEMBER_ID_PATTERN.fullmatch(text):
        raise InvalidInput(f"{name} is {repr_of(text)}: names like agent-1 and arm-1 are ids")
    return text


def parse_new_name(value: Any, taken: Iterable[str]) -> str:
    """`value` as a name that cannot be mistaken for one that is taken."""
    text = parse_display_name(value)
    if appearance_of(text) in {appearance_of(other) for other in taken}:
        raise InvalidInput(f"name is {repr_of(text)}: that name is taken")
    return text


def likeness_of(name: str) -> str:
    """What a hasty reader sees of a name: letters that look alike become the same, across alphabets and cases.

    >>> likeness_of("оwner") == likeness_of("Owner"), likeness_of("ow\u200bner") == likeness_of("0wner")
    (True, True)
    >>> likeness_of("ówner\u3164") == likeness_of("owner")
    True
    """
    seen = appearance_of(
        INVISIBLE_PATTERN.sub("", unicodedata.normalize("NFKD", appearance_of(name)))
    )
    bare = "".join(c for c in seen if not is_accent(c))
    # Some letters look alike as capitals only, and some are known here as small ones.
    return bare.translate(LOOKALIKE_LETTERS).casefold().translate(LOOKALIKE_LETTERS)


def is_accent(character: str) -> bool:
    """Whether a character is drawn onto the one before, as accents are; vowel signs do not count."""
    place = unicodedata.combining(character)
    return place == 1 or place >= 200


def parse_note(value: Any, name: str = "text", most: int = NOTE_MAX_LETTERS) -> str:
    """`value` as a text of several lines that looks the way it was written."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} is {repr_of(value)}: a text that is not blank")
    if len(value) > most:
        raise InvalidInput(f"{name} has {len(value):,} letters: at most {most:,}")
    lines = [parse_name(part, name) for part in value.splitlines() if part.strip()]
    return "\n".join(lines)


def parse_report_note(value: Any) -> str:
    """`value` as the note of a report."""
    return parse_note(value, "note", REPORT_NOTE_MAX_LETTERS)


def parse_plain_text(value: Any, name: str) -> str:
    """`value` as a short text without control or text-direction characters, such as an idempotency key."""
    if not isinstance(value, str) or not 1 <= len(value) <= NAME_MAX_LETTERS:
        raise InvalidInput(f"{name} is {repr_of(value)}: a text of 1 to {NAME_MAX_LETTERS} letters")
    if not value.isprintable() or TEXT_DIRECTION_MARKS & set(value):
        raise InvalidInput(f"{name} is {repr_of(value)}: printable letters")
    return value


def place_of_field(where: str, field: str) -> str:
    """The place of an entry's field, as programs write it."""
    return f"{where}.{field}"


def parse_reports(given: Mapping[str, Any], place: Callable[[str], str] = str) -> Reports:
    """How an agent reports; `place` names a field's place."""
    errors = FieldErrors()

    def field(name: str, check: Callable[..., Any], *arguments: Any) -> Any:
        value = given.get(name)
        return None if value is None else errors.of(place(name), check, value, *arguments)

    found = field("calibration", parse_trial)
    alarms = field("false_positive_calibration", parse_trial)
    tests = field("tests", lambda value, name: parse_integer(value, name, 1, VISIT_MAX_TESTS))
    s = field("sensitivity", parse_sensitivity)
    if s is None and found is not None:
        s = estimate_of_trial(found)
    if s is None and not errors.errors:
        where = place("sensitivity")
        errors.note((where, f"{where} is missing: a probability in (0, 1]"))
    rate = None if s is None else field("false_positive_rate", parse_rate, s)
    if rate is None and alarms is not None and s is not None:
        rate = errors.of(
            place("false_positive_calibration"), parse_rate, estimate_of_trial(alarms), s
        )
    errors.end()
    assert s is not None, "what is wrong has been named"
    return Reports(s, rate or 0.0, tests or 1, found, alarms)


def parse_agents(
    given: Any,
    taken: Iterable[str] = (),
    place: Callable[[int], str] = "agents[{}]".format,
    of: Callable[[str, str], str] = place_of_field,
) -> list[tuple[str, Reports]]:
    """Agents with their names and how they report; `place` names an agent's place, and `of` a field's."""
    errors, made = FieldErrors(), []
    for where, name, item in _parse_named_entries(
        given, "agent", taken, place, of, AGENT_FIELDS, errors
    ):
        reports = errors.all(where, parse_reports, item, partial(of, where))
        if reports is not None:
            made.append((name, reports))
    errors.end()
    return made


class NewArm(NamedTuple):
    """An arm to be added, and the Beta that is stated of its mean."""

    name: str
    prior: BetaShape | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The same for an event."""
        return {"name": self.name} | ({} if self.prior is None else {"prior": list(self.prior)})


def count_priors_in_words(given: Any) -> int:
    """How many different statements in words there are of new arms: each is a search."""
    entries = given if isinstance(given, (list, tuple)) else ()
    words = (one.get("prior") for one in entries if isinstance(one, Mapping))
    return len({repr(said) for said in words if isinstance(said, (str, Mapping))})


def check_priors(given: Any) -> None:
    """Refuse more different statements in words than are worked out while somebody waits."""
    different = count_priors_in_words(given)
    if different > STATED_MAX_WORDS:
        raise InvalidInput(
            f"arms have {different:,} different priors in words: at most {STATED_MAX_WORDS} at once; others as [a, b]"
        )


def check_member_count(kind: str, given: Any, had: int = 0) -> None:
    """Refuse more agents or arms than people can ask a campaign to have, before anything else is looked at of them."""
    count = had + (len(given) if isinstance(given, (list, tuple)) else 0)
    if count > CAMPAIGN_MAX_MEMBERS:
        raise InvalidInput(
            f"there would be {count:,} {kind}s: a campaign has at most {CAMPAIGN_MAX_MEMBERS:,}"
        )


def parse_arms(
    given: Any,
    taken: Iterable[str] = (),
    place: Callable[[int], str] = "arms[{}]".format,
    of: Callable[[str, str], str] = place_of_field,
    stated: Callable[[Any, str], BetaShape | None] = parse_stated_prior,
) -> list[NewArm]:
    """Arms, given as their names or as {"name": ..., "prior": ...}, with what is `stated` of their means.

    Of those that were parsed before only the names are looked at: others may have taken them since.
    """
    errors = FieldErrors()
    made = []
    check_priors(given)
    entries = list(_parse_named_entries(given, "arm", taken, place, of, ARM_FIELDS, errors))
    if errors.errors and count_priors_in_words(given) > STATED_FEW_WORDS:
        errors.end()  # nothing is worked out that is refused all the same
    for where, name, item in entries:
        if isinstance(item, NewArm):
            made.append(item)
            continue
        prior = errors.of(of(where, "prior"), stated, item.get("prior"))
        made.append(NewArm(name, prior))
    errors.end()
    return made


def parse_prior_kind(value: Any, name: str = "prior") -> PriorKind:
    """What plans go by where nothing is stated of an arm; learned if nothing is said."""
    return LEARNED if value is None else parse_known_prior_kind(value, name)


def parse_known_prior_kind(value: Any, name: str = "prior") -> PriorKind:
    """The same of an event, which says it."""
    return cast(PriorKind, parse_choice(value, name, PRIOR_KINDS))


def _parse_named_entries(
    given: Any,
    kind: str,
    taken: Iterable[str],
    place: Callable[[int], str],
    of: Callable[[str, str], str],
    fields: Sequence[str],
    errors: FieldErrors,
) -> Iterator[tuple[str, str, Any]]:
    """The place, name and remaining fields of each entry; mistakes in names are collected."""
    items = parse_list(given, f"{kind}s", "names")
    if not items:
        raise InvalidInput(f"{kind}s is empty: at least one {kind}")
    seen = {appearance_of(text) for text in taken}
    for i, given_item in enumerate(items):
        where = place(i)
        item = {"name": given_item} if isinstance(given_item, str) else given_item
        name: str | None
        if isinstance(item, NewArm):
            name = item.name
        elif not isinstance(item, Mapping):
            errors.note((where, f"{where} is {repr_of(item)}: an {kind} with a name"))
            continue
        else:
            for key in item:
                if key not in fields:
                    errors.note((where, f"{where}: {unknown_name('field', key, fields)}"))
            name = errors.of(of(where, "name"), parse_display_name, item.get("name"))
        if name is not None and appearance_of(name) in seen:
            there = of(where, "name")
            errors.note((there, f"{there} is {repr_of(name)}: that name is taken"))
        seen |= {appearance_of(name)} if name is not None else set()
        yield where, name or "", item


def parse_policy(
    name: Any = None, delta: Any = None, season: int | None = None, memory: Any = None
) -> Policy:
    """A policy of the catalogue that can be planned with, for a season of that length; the recommended one if none is named."""
    from heterobandits.planner.planning import check_plannable

    if name is None:
        name = RECOMMENDED if season is None else RECOMMENDED_FOR_HORIZON
    if not isinstance(name, str):
        raise InvalidInput(f"policy is {repr_of(name)}: the name of a policy")
    made = check_plannable(catalogued(name, delta, None, memory))
    if not made.in_season:
        return made
    if season is None:
        raise InvalidInput(f"{name} goes by the length of the season: say how many rounds it has")
    return made.until(season)


def parse_on_change(value: Any) -> OnChange:
    """`value` as what happens when an arm has changed."""
    return cast(OnChange, parse_choice(value, "on_change", ON_CHANGE_CHOICES))


def parse_season(value: Any) -> int | None:
    """`value` as a season's number of rounds; None if it has no end."""
    return None if value is None else parse_integer(value, "season", 1, COUNT_MAX)


def parse_ends(value: Any, name: str = "ends") -> str | None:
    """`value` as the day on which a season ends, such as 2026-12-31; None if that is not known."""
    if value is None:
        return None
    try:
        if not isinstance(value, str) or not DAY_PATTERN.fullmatch(value):
            raise ValueError
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise InvalidInput(f"{name} is {repr_of(value)}: a day, such as 2030-12-31") from None


def parse_seed(value: Any) -> int:
    """`value` as a seed."""
    return parse_integer(value, "seed", 0, ADDRESS_MAX)


def parse_campaign_outcome(value: Any, agent: str) -> Outcome | None:
    """`value` as (successes, tests), from 0, 1 or a pair; None if the visit was not done."""
    if isinstance(value, str) and value == NOT_DONE:
        return None
    return parse_visit_outcome(value, agent)
