"""What the commands of a campaign share: their options, and opening the repository they work on."""

import getpass
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

import typer

from heterobandits.cli import interrupts
from heterobandits.cli.terminal import new_console
from heterobandits.errors import MESSAGE_MAX_KNOWN_NAMES, InvalidInput, normalize_name, repr_of

if TYPE_CHECKING:
    from heterobandits.campaigns.audit.recovery import CampaignEntry
    from heterobandits.campaigns.state import State
    from heterobandits.campaigns.storage.repository import Author, Repository

DATABASE_HELP = (
    "The file with the campaigns, or postgresql://user@host/database; a password is better kept in PGPASSWORD or ~/.pgpass, or "
    "with all of the URL in the variable."
)


def print_note(text: str) -> None:
    """Print a line for the person at the terminal, apart from the result."""
    print(f"heterobandits: {text}", file=sys.stderr)


def has_password(database: str) -> bool:
    """Whether a URL has a password in it."""
    try:
        url = urlsplit(database)
    except ValueError:  # which is refused elsewhere
        return False
    return bool(url.scheme and (url.password or parse_qs(url.query).get("password")))


def warn_of_password(
    context: typer.Context, option: typer.CallbackParam, database: str | None
) -> str | None:
    """The database; warns whoever put a password on the command line about who can read it."""
    source = context.get_parameter_source(option.name or "")
    if source is not None and source.name == "COMMANDLINE" and has_password(database or ""):
        print_note(
            "warning: everybody on this machine can read a password on the command line; keep it in PGPASSWORD or ~/.pgpass, or for "
            "serve and db the whole URL in HETEROBANDITS_DATABASE"
        )
    return database


FileArgument = Annotated[
    str,
    typer.Argument(
        help="Where campaigns are kept: an SQLite file, or postgresql://user@host/database; its password is kept in PGPASSWORD or "
        "~/.pgpass.",
        callback=warn_of_password,
        metavar="FILE",
        show_default=False,
    ),
]
CampaignOption = Annotated[
    str | None,
    typer.Option(
        "--campaign", help="Which one, if FILE holds several: its name or id.", metavar="NAME|ID"
    ),
]
WhoOption = Annotated[
    str | None,
    typer.Option(
        "--who",
        help="Who does this, for the history; your login name by default.",
        metavar="NAME",
        envvar="HETEROBANDITS_WHO",
        show_envvar=False,
    ),
]
RoundOption = Annotated[
    int | None, typer.Option("--round", help="The number of the round.", metavar="N")
]
ThisRoundOption = Annotated[int, typer.Option("--round", help="The number of the round.", metavar="N")]  # fmt: skip
SeasonOption = Annotated[
    str | None,
    typer.Option(
        "--season", help="How many rounds there will be; none if it has no end.", metavar="N|none"
    ),
]
EndsOption = Annotated[
    str | None,
    typer.Option(
        "--ends", help="The day on which the season ends; none if nobody knows.", metavar="DAY|none"
    ),
]
WordsOption = Annotated[
    str | None,
    typer.Option(
        "--words",
        help="What agent, arm, round and test are called on pages and in sentences, such as ranger,area,week,check; person/people for one with a plural of its own.",
        metavar="A,B,C,D",
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy", help="Who is sent where by what rule; see heterobandits policies.", metavar="P"
    ),
]
LevelOption = Annotated[
    float | None,
    typer.Option(
        "--delta", help="Probability with which intervals and answers may fail.", metavar="D"
    ),
]
PriorKindOption = Annotated[
    Literal["learned", "stated"] | None,
    typer.Option(
        "--prior",
        help="What plans go by of arms of which nothing is stated: what all arms make likely, or nothing.",
    ),
]
StatedOption = Annotated[
    str | None,
    typer.Option(
        "--stated",
        help="What is known of an arm's mean beforehand: '2 % to 10 %' for typically 2 %, hardly ever above 10 %; '5 of 120', and "
        "'5 of 120 x 0.5' if that counts for half.",
        metavar="TEXT",
    ),
]
MemoryOption = Annotated[
    int | None,
    typer.Option("--memory", help="How many rounds a policy that forgets looks back.", metavar="N"),
]
OnChangeOption = Annotated[
    Literal["nothing", "forget"] | None,
    typer.Option("--on-change", help="Whether an arm that has changed is forgotten by itself."),
]
SensitivityOption = Annotated[
    float | None,
    typer.Option("--sensitivity", help="The chance to find what is there.", metavar="S"),
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--false-positive-rate", help="The chance to report what is not there.", metavar="R"
    ),
]
TestsOfOne = Annotated[
    int | None, typer.Option("--tests", help="How many tests it makes in a visit.", metavar="N")
]
FoundOption = Annotated[
    str | None,
    typer.Option("--calibration", help="What it found of what was planted.", metavar="17/20"),
]
AlarmsOption = Annotated[
    str | None,
    typer.Option(
        "--false-positive-calibration", help="Its alarms in empty places.", metavar="0/20"
    ),
]
OutcomesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="Ana=1 Ben=0 Chi=3/12 Dan=- (not done); Ana@ford=1 of one who went to several.",
        metavar="AGENT=OUTCOME...",
        show_default=False,
    ),
]


def check_extra() -> None:
    """Refuse to start without the extra that campaigns need."""
    if any(find_spec(name) is None for name in ("sqlalchemy", "alembic")):
        raise InvalidInput("campaigns need a database: pip install 'heterobandits[campaigns]'")


@contextmanager
def open_repository(file: str, *, create: bool = False) -> Iterator["Repository"]:
    """The log of the campaigns in a file or database."""
    from heterobandits.campaigns.storage.database import address_of_database
    from heterobandits.campaigns.storage.repository import Repository
    from heterobandits.campaigns.storage.store import Store

    where = address_of_database(file)
    if isinstance(where, Path) and where.is_dir():
        raise InvalidInput(
            f"{file} is a folder: campaigns are kept in a file, such as {where / 'park.db'}"
        )
    with Store(file, create=create) as store:
        yield Repository(store)


@contextmanager
def open_campaign(file: str, campaign: str | None) -> Iterator[tuple["Repository", "State"]]:
    """The log, and what stands in the campaign that is meant."""
    with open_repository(file) as log:
        yield log, find_campaign(log, campaign, file).whole


def find_campaign(log: "Repository", campaign: str | None, file: str) -> "CampaignEntry":
    """The campaign with this name or id, or the only one there is."""
    from heterobandits.campaigns.audit.recovery import campaign_entries, entry_of

    ids = [head.campaign for head in log.store.heads()]
    if not ids:
        raise InvalidInput(f"{file} has no campaign yet: make one with heterobandits campaign new")
    if campaign in ids:
        return entry_of(log, str(campaign))
    if campaign is None and len(ids) == 1:
        return entry_of(log, ids[0])
    there = list(campaign_entries(log))
    fitting = [one for one in there if campaign is None or one.name == normalize_name(campaign)]
    if len(fitting) == 1:
        return fitting[0]
    some = [f"{one.name!r} ({one.campaign})" for one in fitting or there]
    named = ", ".join(some[:MESSAGE_MAX_KNOWN_NAMES]) + (
        ", ..." if len(some) > MESSAGE_MAX_KNOWN_NAMES else ""
    )
    if not fitting:
        raise InvalidInput(
            f"no campaign in {file} is called {repr_of(campaign)}: there are {named}"
        )
    raise InvalidInput(f"{file} has {named}: say which with --campaign")


def author_of(who: str | None) -> "Author":
    """The author: the name given, or the login name."""
    from heterobandits.campaigns.storage.repository import Author

    if who is not None:
        return Author(who)
    try:
        return Author(getpass.getuser())
    except (OSError, KeyError):  # a user without a name
        raise InvalidInput("who is not known: say it with --who") from None


def parse_season_option(text: str | None) -> int | None:
    """The number of rounds that an option gives; None for none."""
    if text is None or text.strip().lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"season is {repr_of(text)}: a number of rounds, or none") from None


def parse_ends_option(text: str) -> str | None:
    """The day that an option gives; None for none."""
    return None if text.strip().lower() == "none" else text.strip()


def reports_of_options(**given: float | str | None) -> dict[str, Any]:
    """How an agent reports, from the options given; of texts the numbers."""
    from heterobandits.campaigns.files.csv_tables import parse_trial_cell

    return {
        name: parse_trial_cell(value) if isinstance(value, str) else value
        for name, value in given.items()
        if value is not None
    }


@contextmanager
def show_share(title: str, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A callback for the share done: it moves a progress bar on a terminal, and raises interrupts."""
    from rich.progress import Progress

    check = interrupts.raise_on_interrupts()
    hidden = quiet or not sys.stderr.isatty()
    with Progress(console=new_console(to_stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task(title, total=1.0)

        def tell(share: float) -> None:
            check()
            bar.update(task, completed=share)

        yield tell
