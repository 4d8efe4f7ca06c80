"""`heterobandits campaign add`, `retire`, `return`, `forget`, `remember`, `rename`, `revise`, `set` and `archive`: what changes between rounds."""

from typing import Annotated, Literal

import typer

from heterobandits.cli.campaign.options import (
    AlarmsOption,
    CampaignOption,
    EndsOption,
    FileArgument,
    FoundOption,
    LevelOption,
    MemoryOption,
    OnChangeOption,
    PolicyOption,
    PriorKindOption,
    RateOption,
    SeasonOption,
    SensitivityOption,
    StatedOption,
    TestsOfOne,
    WhoOption,
    WordsOption,
    author_of,
    open_campaign,
    parse_ends_option,
    parse_season_option,
    reports_of_options,
)
from heterobandits.cli.campaign.text import (
    print_change,
)
from heterobandits.cli.options import TableOrJson
from heterobandits.errors import InvalidInput

KindArgument = Annotated[
    Literal["agent", "arm"], typer.Argument(help="What it is.", show_default=False)
]
NameArgument = Annotated[str, typer.Argument(help="Its name.", metavar="NAME", show_default=False)]


def add_command(
    file: FileArgument,
    kind: KindArgument,
    name: NameArgument,
    sensitivity: Annotated[
        float | None,
        typer.Argument(
            help="Of an agent: the chance to find what is there.",
            metavar="SENSITIVITY",
            show_default=False,
        ),
    ] = None,
    tests: TestsOfOne = None,
    false_positive_rate: RateOption = None,
    calibration: FoundOption = None,
    false_positive_calibration: AlarmsOption = None,
    stated: StatedOption = None,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Add an agent or an arm, from the next round on.

    Example: heterobandits campaign add park.db agent Gus 0.8
    """
    from heterobandits.campaigns import service
    from heterobandits.campaigns.validation import parse_agents, parse_arms

    given = reports_of_options(
        sensitivity=sensitivity,
        false_positive_rate=false_positive_rate,
        tests=tests,
        calibration=calibration,
        false_positive_calibration=false_positive_calibration,
    )
    if kind == "arm" and given:
        raise InvalidInput(f"{', '.join(given)}: an arm has only a name and what is stated of it")
    if kind == "agent" and stated is not None:
        raise InvalidInput("--stated is of an arm's mean: an agent has a sensitivity")
    with open_campaign(file, campaign) as (log, state):
        request = author_of(who)
        if kind == "agent":
            new = [{"name": name, **given}]
            parse_agents(new, state.agent_names, of=place_of_argument)
            done = service.add_agents(log, state.campaign, request, new)
        else:
            places = [{"name": name, "prior": stated}]
            parse_arms(places, state.arm_names, of=place_of_argument)
            done = service.add_arms(log, state.campaign, request, places)
        print_change(log, state, done, format)


def place_of_argument(where: str, field: str) -> str:
    """Where on the command line a mistake is, in place of a list of agents or arms."""
    return field


def retire_command(
    file: FileArgument,
    kind: KindArgument,
    name: NameArgument,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Plan no more with an agent or an arm; what was found there counts."""
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        done = service.retire(log, state.campaign, author_of(who), kind, name)
        print_change(log, state, done, format)


def bring_back_command(
    file: FileArgument,
    kind: KindArgument,
    name: NameArgument,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Plan again with an agent or an arm that was retired."""
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        done = service.bring_back(log, state.campaign, author_of(who), kind, name)
        print_change(log, state, done, format)


def forget_command(
    file: FileArgument,
    arm: NameArgument,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Count no longer what was seen of an arm up to now: it has changed.

    Example: heterobandits campaign forget park.db ford
    """
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        done = service.forget_arm(log, state.campaign, author_of(who), arm)
        print_change(log, state, done, format)


def remember_command(
    file: FileArgument,
    arm: NameArgument,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Take back that an arm was forgotten, the last time that it was."""
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        done = service.remember_arm(log, state.campaign, author_of(who), arm)
        print_change(log, state, done, format)


def rename_command(
    file: FileArgument,
    kind: Annotated[
        Literal["agent", "arm", "campaign"], typer.Argument(help="What it is.", show_default=False)
    ],
    old: Annotated[str, typer.Argument(help="Its name now.", metavar="OLD", show_default=False)],
    new: Annotated[str, typer.Argument(help="Its new name.", metavar="NEW", show_default=False)],
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Give an agent, an arm or the campaign another name, which holds for all that was."""
    from heterobandits.campaigns import service

    with open_campaign(file, old if kind == "campaign" else campaign) as (log, state):
        done = service.rename(log, state.campaign, author_of(who), kind, old, new)
        print_change(log, state, done, format)


def revise_command(
    file: FileArgument,
    agent: Annotated[str, typer.Argument(help="Who.", metavar="AGENT", show_default=False)],
    since: Annotated[
        Literal["now", "always"],
        typer.Option(help="now if it has changed, always if it was stated wrongly."),
    ],
    sensitivity: SensitivityOption = None,
    tests: TestsOfOne = None,
    false_positive_rate: RateOption = None,
    calibration: FoundOption = None,
    false_positive_calibration: AlarmsOption = None,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Say anew how an agent reports.

    Example: heterobandits campaign revise park.db Ben --sensitivity 0.8 --since now
    """
    from heterobandits.campaigns import service

    given = reports_of_options(
        sensitivity=sensitivity,
        false_positive_rate=false_positive_rate,
        tests=tests,
        calibration=calibration,
        false_positive_calibration=false_positive_calibration,
    )
    if not given:
        raise InvalidInput("nothing to revise: say what changes, such as --sensitivity 0.8")
    with open_campaign(file, campaign) as (log, state):
        done = service.revise(log, state.campaign, author_of(who), agent, given, since)
        print_change(log, state, done, format)


def believe_command(
    file: FileArgument,
    arm: Annotated[str, typer.Argument(help="Which.", metavar="ARM", show_default=False)],
    stated: Annotated[
        str,
        typer.Argument(
            help="'2 % to 10 %', '5 of 120', or none for nothing.",
            metavar="TEXT",
            show_default=False,
        ),
    ],
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Say what is known of an arm's mean beforehand.

    Example: heterobandits campaign believe park.db "salt lick" "2 % to 10 %"
    """
    from heterobandits.campaigns import service

    prior = None if stated == "none" else stated
    with open_campaign(file, campaign) as (log, state):
        done = service.revise_arm(log, state.campaign, author_of(who), arm, prior)
        print_change(log, state, done, format)


def set_command(
    file: FileArgument,
    season: SeasonOption = None,
    ends: EndsOption = None,
    policy: PolicyOption = None,
    delta: LevelOption = None,
    memory: MemoryOption = None,
    prior: PriorKindOption = None,
    on_change: OnChangeOption = None,
    words: WordsOption = None,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Change the season, the policy, the prior or what happens when an arm has changed, from the next round on; or the words of pages."""
    from heterobandits.campaigns import service
    from heterobandits.campaigns.words import parse_words_list

    other = any(given is not None for given in (policy, delta, memory, on_change))
    lasts = season is not None or ends is not None
    if other + lasts + (prior is not None) + (words is not None) != 1:
        raise InvalidInput(
            "--season with --ends, --prior, --words, or --policy, --delta, --memory and --on-change: one change at a time"
        )
    with open_campaign(file, campaign) as (log, state):
        request = author_of(who)
        if prior is not None:
            done = service.set_prior(log, state.campaign, request, prior)
        elif words is not None:
            chosen = parse_words_list(words)
            done = service.choose_words(log, state.campaign, request, chosen)
        elif other:
            done = service.set_policy(
                log, state.campaign, request, policy, delta, memory, on_change
            )
        else:
            rounds = state.season if season is None else parse_season_option(season)
            day = [] if ends is None else [parse_ends_option(ends)]
            done = service.set_season(log, state.campaign, request, rounds, *day)
        print_change(log, state, done, format)


def archive_command(
    file: FileArgument,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Put a campaign away: nothing is planned until it is back; what is reported late is taken."""
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        done = service.archive(log, state.campaign, author_of(who))
        print_change(log, state, done, format)


def unarchive_command(
    file: FileArgument,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Bring back a campaign that was put away."""
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        done = service.unarchive(log, state.campaign, author_of(who))
        print_change(log, state, done, format)
