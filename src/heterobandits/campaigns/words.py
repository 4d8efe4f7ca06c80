"""What a campaign calls its agents, arms, rounds and tests, from what people and programs hand to it."""

from collections.abc import Mapping
from typing import Any

from heterobandits.campaigns.validation import FieldErrors, InvalidFields
from heterobandits.errors import InvalidInput, normalize_name, repr_of
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords, plural_of

WORD_KINDS = ("agent", "arm", "round", "test")
WORD_MAX_LETTERS = 30
WORD_HINT = f"a word of 1 to {WORD_MAX_LETTERS} letters, such as ranger"


def parse_words(given: Any, name: str = "words") -> CampaignWords:
    """The words that a table gives by kind; a kind that is left out keeps the library's, a plural that is left out is regular.

    >>> parse_words({"agent": "ranger", "test": "Check"}).tests
    'Checks'
    """
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{name} is {repr_of(given)}: a table such as {{'agent': 'ranger'}}")
    errors, found = FieldErrors(), DEFAULT_WORDS.body
    for key in given:
        if key not in found:
            errors.note((f"{name}.{key}", f"{name} has {repr_of(key)}: {', '.join(found)}"))
    for kind in WORD_KINDS:
        one, many = given.get(kind), given.get(f"{kind}s")
        if one is not None:
            word = errors.of(f"{name}.{kind}", parse_word, one)
            found |= {kind: word or "", f"{kind}s": plural_of(word or "")}
        if many is not None:
            found[f"{kind}s"] = errors.of(f"{name}.{kind}s", parse_word, many) or ""
    errors.end()
    check_different(found, name)
    return CampaignWords(**found)


def parse_word(value: Any, name: str) -> str:
    """`value` as a word: letters, with blanks and hyphens between them."""
    text = normalize_name(value) if isinstance(value, str) else ""
    parts = text.replace("-", " ").split(" ")
    if not all(part.isalpha() for part in parts) or len(text) > WORD_MAX_LETTERS:
        raise InvalidInput(f"{name} is {repr_of(value)}: {WORD_HINT}")
    return text


def check_different(found: Mapping[str, str], name: str) -> None:
    """Refuse one word for two kinds: nobody could tell what is meant."""
    kinds: dict[str, str] = {}
    for key, word in found.items():
        kind = key.removesuffix("s")
        other = kinds.setdefault(word.casefold(), kind)
        if other != kind:
            said = (
                f"{name} has {repr_of(word)} for {other} and for {kind}: each has a word of its own"
            )
            raise InvalidFields([(f"{name}.{kind}", said)])


def parse_words_list(text: str) -> CampaignWords:
    """Four words between commas, for agent, arm, round and test; an irregular plural follows after a slash.

    >>> words = parse_words_list("person/people, area, week, check")
    >>> words.agents, words.arms
    ('people', 'areas')
    """
    parts = text.split(",")
    if len(parts) != len(WORD_KINDS):
        raise InvalidInput(
            f"words is {repr_of(text)}: four words, for agent, arm, round and test, such as ranger,area,week,check"
        )
    return parse_words(words_in_texts(dict(zip(WORD_KINDS, parts, strict=True))))


def words_in_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """What is typed for each kind, such as week or person/people, as `parse_words` takes it; blank for the library's word."""
    found: dict[str, str] = {}
    for kind, text in texts.items():
        one, slash, many = (part.strip() for part in text.partition("/"))
        found |= {kind: one} if one or slash else {}
        found |= {f"{kind}s": many} if slash else {}
    return found


def render_word(words: CampaignWords, kind: str) -> str:
    """A word as it is typed: with its plural if that is irregular.

    >>> render_word(parse_words({"agent": "person", "agents": "people"}), "agent"), render_word(DEFAULT_WORDS, "test")
    ('person/people', 'test')
    """
    one, many = words.of(kind), words.of(kind, 2)
    return one if many == plural_of(one) else f"{one}/{many}"
