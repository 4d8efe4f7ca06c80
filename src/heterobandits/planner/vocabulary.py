"""The words of a campaign for those who go, where they go, how often, and what is counted there: rangers, areas, weeks, checks.

Whoever plans a campaign chooses them once, and all that people read says them. Programs keep agent, arm, round and test.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

VOWELS = "aeiou"
SIBILANTS = ("s", "x", "z", "ch", "sh")


def plural_of(word: str) -> str:
    """The plural of a word, as English mostly makes it.

    >>> [plural_of(word) for word in ("week", "city", "day", "box")]
    ['weeks', 'cities', 'days', 'boxes']
    """
    small = word.lower()
    if small.endswith("y") and len(word) > 1 and small[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + ("es" if small.endswith(SIBILANTS) else "s")


@dataclass(frozen=True)
class CampaignWords:
    """Four kinds of things, each in singular and plural.

    >>> DEFAULT_WORDS.count(1, "round"), DEFAULT_WORDS.count(12_000, "test"), DEFAULT_WORDS.Rounds, DEFAULT_WORDS.an_agent
    ('1 round', '12,000 tests', 'Rounds', 'an agent')
    """

    agent: str = "agent"
    agents: str = "agents"
    arm: str = "arm"
    arms: str = "arms"
    round: str = "round"
    rounds: str = "rounds"
    test: str = "test"
    tests: str = "tests"

    @property
    def body(self) -> dict[str, str]:
        """All eight, as events and programs know them."""
        return asdict(self)

    def of(self, kind: str, count: int = 1) -> str:
        """The word for so many of a kind: agent, arm, round or test."""
        return str(getattr(self, kind if count == 1 else f"{kind}s"))

    def count(self, count: int, kind: str) -> str:
        """So many of a kind, in words: 1 week, 3 checks."""
        return f"{count:,} {self.of(kind, count)}"

    @property
    def Agent(self) -> str:
        """To begin a sentence or a heading with."""
        return begin_upper(self.agent)

    @property
    def Agents(self) -> str:
        """To begin a sentence or a heading with."""
        return begin_upper(self.agents)

    @property
    def Arm(self) -> str:
        """To begin a sentence or a heading with."""
        return begin_upper(self.arm)

    @property
    def Arms(self) -> str:
        """To begin a sentence or a heading with."""
        return begin_upper(self.arms)

    @property
    def Round(self) -> str:
        """To begin a sentence or a heading with."""
        return begin_upper(self.round)

    @property
    def Rounds(self) -> str:
        """To begin a sentence or a heading with."""
        return begin_upper(self.rounds)

    @property
    def Test(self) -> str:
        """To begin a sentence or a heading with."""
        return begin_upper(self.test)

    @property
    def Tests(self) -> str:
        """To begin a sentence or a heading with."""
        return begin_upper(self.tests)

    @property
    def an_agent(self) -> str:
        """One of the agents, with the article."""
        return with_article(self.agent)

    @property
    def an_arm(self) -> str:
        """One of the arms, with the article."""
        return with_article(self.arm)

    @property
    def An_arm(self) -> str:
        """The same to begin a sentence with."""
        return begin_upper(self.an_arm)

    @property
    def a_round(self) -> str:
        """One of the rounds, with the article."""
        return with_article(self.round)

    @property
    def a_test(self) -> str:
        """One of the tests, with the article."""
        return with_article(self.test)


def begin_upper(text: str) -> str:
    """The text with a capital first letter; the rest stays as it is, such as that of PCR team."""
    return text[:1].upper() + text[1:]


def with_article(word: str) -> str:
    """The word after a or an, by its first letter."""
    return f"{'an' if word[:1].lower() in VOWELS else 'a'} {word}"


def words_of_body(body: Mapping[str, str]) -> CampaignWords:
    """The words in the body of an event, which has all eight."""
    return CampaignWords(**{field.name: body[field.name] for field in fields(CampaignWords)})


DEFAULT_WORDS = CampaignWords()
