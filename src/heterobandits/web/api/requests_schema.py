"""What requests may say, as models: their fields, and of what kind. What is allowed in them, the campaign itself says."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, SkipValidation

from heterobandits.campaigns.validation import MOST_LETTERS, MOST_TEXT

Text = Annotated[str, Field(max_length=20 * MOST_LETTERS)]  # blanks around a name may be many
Counted = Annotated[list[int], Field(min_length=2, max_length=2)]
# These may be left out of a change, but not be null; what they are then is not said, so that nobody sends it.
Name = Annotated[Text, Field(default_factory=str)]
Retired = Annotated[bool, Field(default_factory=bool)]
PairOf = Annotated[list[Text], Field(min_length=2, max_length=2)]
# Of a long list the first entry that is wrong is told of.
Texts = Annotated[list[Text], FailFast()]
Pairs = Annotated[list[PairOf], FailFast()]


class Body(BaseModel):
    """A body has no other fields, and a text is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ReportsBody(Body):
    """How an agent reports."""

    sensitivity: float | None = None
    false_positive_rate: float | None = None
    tests: int | None = None
    calibration: Counted | None = None
    false_positive_calibration: Counted | None = None


class AgentBody(ReportsBody):
    """A new agent."""

    name: Text


class ArmBody(Body):
    """A new arm."""

    name: Text


# Entries are checked by the campaign, which names every field of every entry that is wrong, all at once.
AgentEntry = SkipValidation[AgentBody]
ArmEntry = SkipValidation[ArmBody]


class CampaignBody(Body):
    """A new campaign."""

    name: Text
    agents: list[AgentEntry]
    arms: list[ArmEntry]
    policy: Text | None = None
    delta: float | None = None
    memory: int | None = None
    seed: int = 0
    season: int | None = None


class CampaignChange(Body):
    """One change of a campaign: its name, its policy with delta and memory, or its season, which may have no end."""

    name: Name
    policy: Text | None = None
    delta: float | None = None
    memory: int | None = None
    season: int | None = None


class AgentsBody(Body):
    """New agents."""

    agents: list[AgentEntry]


class ArmsBody(Body):
    """New arms."""

    arms: list[ArmEntry]


class ArmChange(Body):
    """One change of an arm: its name, or whether it is retired."""

    name: Name
    retired: Retired


class AgentChange(ReportsBody):
    """One change of an agent: its name, whether it is retired, or how it reports, since now or always."""

    name: Name
    retired: Retired
    since: Literal["now", "always"] | None = None


class RoundBody(Body):
    """The circumstances of a round, by names or ids."""

    absent: Texts = []
    closed: Texts = []
    forbidden: Pairs = []
    forced: Pairs = []


class OverrideBody(Body):
    """Where an agent went instead: mostly one arm, or none."""

    arms: Texts


class OutcomeBody(Body):
    """What came of a visit: successes of tests, or nothing, if it is missing."""

    successes: int | None = None
    tests: int | None = None
    missing: bool = False


class NoteBody(Body):
    """A note, of a round or of all."""

    text: Annotated[str, Field(max_length=2 * MOST_TEXT)]
    round: int | None = None


class LinkBody(Body):
    """A new link."""

    role: Text
    name: Text
    agent: Text | None = None
    expires: Text | None = None
