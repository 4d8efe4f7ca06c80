"""What requests may contain, as models of fields and types; the campaign itself checks the values."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, SkipValidation

from heterobandits.campaigns.validation import (
    NAME_MAX_LETTERS,
    NOTE_MAX_LETTERS,
    REPORT_NOTE_MAX_LETTERS,
)

# blanks around a name may be many
ShortText = Annotated[str, Field(max_length=20 * NAME_MAX_LETTERS)]
CountsPair = Annotated[list[int], Field(min_length=2, max_length=2)]
# These may be left out of a change, but not be null; what they are then is not said, so that nobody sends it.
NameField = Annotated[ShortText, Field(default_factory=str)]
RetiredField = Annotated[bool, Field(default_factory=bool)]
NamePair = Annotated[list[ShortText], Field(min_length=2, max_length=2)]
# Of a long list the first entry that is wrong is told of.
ShortTexts = Annotated[list[ShortText], FailFast()]
NamePairs = Annotated[list[NamePair], FailFast()]


class Body(BaseModel):
    """A body has no other fields, and a text is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ReportsBody(Body):
    """How an agent reports."""

    sensitivity: float | None = None
    false_positive_rate: float | None = None
    tests: int | None = None
    calibration: CountsPair | None = None
    false_positive_calibration: CountsPair | None = None


class AgentBody(ReportsBody):
    """A new agent."""

    name: ShortText


# a and b of a Beta; a text such as "2 % to 10 %" or "5 of 120"; or typical and high, or found and tests, as numbers
StatedPrior = list[float] | ShortText | dict[str, float] | None


class ArmBody(Body):
    """A new arm, and what is known of its mean beforehand."""

    name: ShortText
    prior: StatedPrior = None


# Entries are checked by the campaign, which names every field of every entry that is wrong, all at once.
AgentEntry = SkipValidation[AgentBody]
ArmEntry = SkipValidation[ArmBody]


# as `parse_words` takes them: by kind, agent or agents, arm, round, test
WordsField = dict[ShortText, ShortText]


class CampaignBody(Body):
    """A new campaign."""

    name: ShortText
    agents: list[AgentEntry]
    arms: list[ArmEntry]
    policy: ShortText | None = None
    delta: float | None = None
    memory: int | None = None
    seed: int = 0
    season: int | None = None
    ends: ShortText | None = None
    prior: Literal["learned", "stated"] | None = None
    on_change: ShortText | None = None
    words: WordsField | None = None


class CampaignChange(Body):
    """One change of a campaign: its name, its policy with delta, memory and on_change, its season, which may have no end, with the day on which it ends, its prior, its words, or whether it is archived."""

    name: NameField
    policy: ShortText | None = None
    delta: float | None = None
    memory: int | None = None
    on_change: ShortText | None = None
    season: int | None = None
    ends: ShortText | None = None
    prior: Literal["learned", "stated"] = "learned"
    archived: bool = False
    words: WordsField = {}


class UndoBody(Body):
    """What is to be undone: the number of the last event, which says that nothing else has happened since."""

    event: int


class AgentsBody(Body):
    """New agents."""

    agents: list[AgentEntry]


class ArmsBody(Body):
    """New arms."""

    arms: list[ArmEntry]


class ArmChange(Body):
    """One change of an arm: its name, whether it is retired, or what is known of its mean beforehand."""

    name: NameField
    retired: RetiredField
    prior: StatedPrior = None


class AgentChange(ReportsBody):
    """One change of an agent: its name, whether it is retired, or how it reports, since now or always."""

    name: NameField
    retired: RetiredField
    since: Literal["now", "always"] | None = None


class RoundBody(Body):
    """The circumstances of a round, by names or ids."""

    absent: ShortTexts = []
    closed: ShortTexts = []
    forbidden: NamePairs = []
    forced: NamePairs = []


class OverrideBody(Body):
    """Where an agent went instead: mostly one arm, or none."""

    arms: ShortTexts


class OutcomeBody(Body):
    """What came of a visit: successes of tests, or nothing, if it is missing.

    `planned` is the event that planned the round, `entered` when somebody typed this, and `elsewhere` the arm where the agent was
    instead of where the plan sent it.
    """

    successes: int | None = None
    tests: int | None = None
    missing: bool = False
    planned: int | None = None
    elsewhere: str | None = None
    entered: str | None = None
    note: Annotated[str | None, Field(max_length=2 * REPORT_NOTE_MAX_LETTERS)] = None


class NoteBody(Body):
    """A note, of a round or of all."""

    text: Annotated[str, Field(max_length=2 * NOTE_MAX_LETTERS)]
    round: int | None = None


class LinkBody(Body):
    """A new link."""

    role: ShortText
    name: ShortText
    agent: ShortText | None = None
    expires: ShortText | None = None
