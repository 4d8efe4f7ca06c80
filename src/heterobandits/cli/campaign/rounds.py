"""`heterobandits campaign plan`, `report`, `correct` and what else happens in a round."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterobandits.campaigns.audit.history_text import waiting_in_words
from heterobandits.cli.campaign.arguments import (
    collect_outcomes,
    find_round,
    parse_outcomes,
    parse_pairs,
    parse_places,
    parse_visit,
)
from heterobandits.cli.campaign.options import (
    CampaignOption,
    FileArgument,
    OutcomesArgument,
    RoundOption,
    ThisRoundOption,
    WhoOption,
    author_of,
    open_campaign,
    print_note,
)
from heterobandits.cli.campaign.text import (
    print_change,
    print_json,
    state_before,
)
from heterobandits.cli.options import TableOrJson
from heterobandits.cli.terminal import print_table
from heterobandits.errors import InvalidInput

if TYPE_CHECKING:
    from heterobandits.campaigns.preview import Preview


def plan_command(
    file: FileArgument,
    absent: Annotated[
        list[str] | None,
        typer.Option(help="Somebody who stays home, as often as needed.", metavar="AGENT"),
    ] = None,
    closed: Annotated[
        list[str] | None,
        typer.Option(help="An arm that nobody may go to, as often as needed.", metavar="ARM"),
    ] = None,
    forbid: Annotated[
        list[str] | None,
        typer.Option(help="An agent who may not go to an arm.", metavar="AGENT=ARM"),
    ] = None,
    force: Annotated[
        list[str] | None,
        typer.Option(help="An agent who has to go to an arm.", metavar="AGENT=ARM"),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Only look: nothing is recorded.")
    ] = False,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Plan the next round: who goes where, and why.

    Example: heterobandits campaign plan park.db --absent Ana --closed "river bend"
    """
    from heterobandits.campaigns import serialization, service

    with open_campaign(file, campaign) as (log, state):
        circumstances: dict[str, Any] = {
            "absent": absent or [],
            "closed": closed or [],
            "forbidden": parse_pairs(state, forbid or [], "--forbid"),
            "forced": parse_pairs(state, force or [], "--force"),
        }
        if preview:
            made = service.preview(state, **circumstances)
        else:
            done = service.plan_round(log, state.campaign, author_of(who), **circumstances)
            made = service.preview(state_before(log, state, done), **circumstances)
        if format == "table":
            print_plan(made, recorded=not preview)
        elif preview:
            print_json(state, serialization.json_of_preview(made))
        else:
            planned = serialization.json_of_round(log, done.state, made.plan.round)
            print_json(state, planned | {"prices": serialization.json_of_prices(made.prices)})
    for number in sorted(made.state.waiting):
        print_note(waiting_in_words(made.state, number))


def print_plan(made: "Preview", recorded: bool) -> None:
    """Print a plan for a person."""
    from heterobandits.campaigns.rounds import RoundGiven

    state = made.state
    season = "" if state.season is None else f" of {state.season:,}"
    planned = f"{state.words.round} {made.plan.round:,}{season}"
    print(f"{state.name}, {planned}" + ("" if recorded else ", a preview"))
    rows = [
        (state.agent_names[agent], "-" if arm is None else state.arm_names[arm], str(reason))
        for agent, arm, reason in made.assignments
        if not state.agents[agent].retired
    ]
    print_table((state.words.agent, "goes to", "why"), rows)
    if made.given != RoundGiven():
        for constraint in made.prices.constraints:
            print(constraint.text)
        for line in made.prices.warnings:
            print_note(line)


def report_command(
    file: FileArgument,
    outcomes: OutcomesArgument = None,
    round: RoundOption = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            help="A file with the columns agent, outcome (and arm) instead.", metavar="OUTCOMES.CSV"
        ),
    ] = None,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Report what came of visits: all of it is taken, or nothing.

    Example: heterobandits campaign report park.db Ana=1 Ben=0 Chi=3/12 Dan=-
    """
    from heterobandits.campaigns.files.csv_tables import read_outcomes
    from heterobandits.campaigns.outcomes import report_outcomes

    if bool(outcomes) == (csv is not None):
        raise InvalidInput("outcomes such as Ana=1, or --csv: one of them says what came of it")
    with open_campaign(file, campaign) as (log, state):
        at = find_round(state, round)
        entries = read_outcomes(csv) if csv is not None else parse_outcomes(state, outcomes or [])
        told = collect_outcomes(state, at, entries, "reported")
        done = report_outcomes(log, state.campaign, author_of(who), at.number, told)
        print_change(log, state, done, format)
        if at.number in done.state.waiting:
            print_note(waiting_in_words(done.state, at.number))


def correct_command(
    file: FileArgument,
    outcomes: OutcomesArgument,
    round: ThisRoundOption,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Put other outcomes in place of those reported; the old ones stay in the history.

    Example: heterobandits campaign correct park.db --round 1 Ana=0
    """
    from heterobandits.campaigns.outcomes import correct_outcomes

    with open_campaign(file, campaign) as (log, state):
        entries = parse_outcomes(state, outcomes or [])
        told = collect_outcomes(state, state.round(round), entries, "corrected")
        done = correct_outcomes(log, state.campaign, author_of(who), round, told)
        print_change(log, state, done, format)


def withdraw_command(
    file: FileArgument,
    agents: Annotated[
        list[str],
        typer.Argument(
            help="Whose outcomes: Ana, or Ana@ford.", metavar="AGENT...", show_default=False
        ),
    ],
    round: ThisRoundOption,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Take back what was reported: the visits wait again."""
    from heterobandits.campaigns.outcomes import withdraw_outcomes

    with open_campaign(file, campaign) as (log, state):
        which = [parse_visit(state, text) for text in agents]
        done = withdraw_outcomes(log, state.campaign, author_of(who), round, which)
        print_change(log, state, done, format)


def override_command(
    file: FileArgument,
    went: Annotated[
        str,
        typer.Argument(
            help="Ana=ford, Ana=ford+gate for two, Ana=- for none.",
            metavar="AGENT=ARM",
            show_default=False,
        ),
    ],
    round: ThisRoundOption,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Record that somebody went elsewhere than planned, to several arms, or stayed home.

    Example: heterobandits campaign override park.db --round 2 Ana=ford
    """
    from heterobandits.campaigns import service
    from heterobandits.campaigns.analysis.answers import shared_arm_warnings

    with open_campaign(file, campaign) as (log, state):
        agent, arms = parse_places(state, went)
        done = service.override(log, state.campaign, author_of(who), round, agent, arms)
        print_change(log, state, done, format)
    for warning in shared_arm_warnings(done.state, done.state.round(round)):
        print_note(warning)


def close_command(
    file: FileArgument,
    round: ThisRoundOption,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Wait no longer for a round; what comes later is taken all the same."""
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        done = service.close_round(log, state.campaign, author_of(who), round)
        print_change(log, state, done, format)


def cancel_command(
    file: FileArgument,
    round: ThisRoundOption,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Cancel the last round, of which nothing is reported: the next one has its number.

    Example: heterobandits campaign cancel park.db --round 3
    """
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        done = service.cancel_round(log, state.campaign, author_of(who), round)
        print_change(log, state, done, format)


def undo_command(
    file: FileArgument,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Take back what you did last, if nothing else has happened since and it is not ten minutes ago.

    Who was added, notes and links stay: the command says what to do instead.
    """
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        done = service.undo(log, state.campaign, author_of(who), state.number)
        print_change(log, state, done, format)


def note_command(
    file: FileArgument,
    text: Annotated[str, typer.Argument(help="What to note.", metavar="TEXT", show_default=False)],
    round: RoundOption = None,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Put a note into the history, of a round or of all."""
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        done = service.add_note(log, state.campaign, author_of(who), text, round)
        print_change(log, state, done, format)
