"""`heterobandits campaign plan`, `report`, `correct` and what else happens in a round."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterobandits.campaigns.audit.history_text import waits
from heterobandits.cli.campaign.arguments import (
    gathered,
    outcomes_of,
    parse_pairs,
    parse_places,
    parse_visit,
    the_round,
)
from heterobandits.cli.campaign.options import (
    CampaignOption,
    FileArgument,
    OutcomesArgument,
    RoundOption,
    ThisRoundOption,
    WhoOption,
    by,
    open_campaign,
    print_note,
)
from heterobandits.cli.campaign.text import (
    before,
    pair_entries,
    print_change,
    print_json,
)
from heterobandits.cli.options import TableOrJson

if TYPE_CHECKING:
    from heterobandits.campaigns.analysis.prices import Prices
    from heterobandits.campaigns.rounds import RoundGiven
    from heterobandits.campaigns.state import State


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
    from heterobandits.campaigns import service
    from heterobandits.campaigns.reducer import given_from

    with open_campaign(file, campaign) as (log, state):
        circumstances: dict[str, Any] = {
            "absent": absent or [],
            "closed": closed or [],
            "forbidden": parse_pairs(state, forbid or [], "--forbid"),
            "forced": parse_pairs(state, force or [], "--force"),
        }
        if preview:
            known_then, body = state, service.preview_body(state, **circumstances)
        else:
            done = service.plan_round(log, state.campaign, by(who), **circumstances)
            (event,) = done.events
            known_then, body = before(log, state, done), event.body
        price = priced(known_then, given_from(known_then, **circumstances))
    if format == "json":
        print_json(state, **plan_entries(known_then, body, price), recorded=not preview)
    else:
        print_plan(known_then, body, price, preview)
    for number in sorted(known_then.waiting):
        print_note(waits(known_then, number))


def priced(state: "State", given: "RoundGiven") -> "Prices | None":
    """What the circumstances of a round cost, if there are any."""
    from heterobandits.campaigns.analysis.prices import prices
    from heterobandits.campaigns.rounds import RoundGiven

    return None if given == RoundGiven() else prices(state, given)


def plan_entries(state: "State", body: dict[str, Any], price: "Prices | None") -> dict[str, Any]:
    """A plan for a program."""
    from heterobandits.campaigns.reasons import reason_of

    assignments = [
        pair_entries(state, agent, None if one["arm"] is None else state.arm(one["arm"]))
        | {name: one[name] for name in ("code", "index", "estimate")}
        | {"reason": str(reason_of(one))}
        for agent, one in enumerate(body["assignments"])
    ]
    circumstances = {name: body[name] for name in ("absent", "closed", "forbidden", "forced")}
    return {
        "round": body["round"],
        **circumstances,
        "assignments": assignments,
        "prices": None if price is None else price_entries(state, price),
        "waiting": sorted(state.waiting),
    }


def price_entries(state: "State", price: "Prices") -> dict[str, Any]:
    """What the circumstances cost, for a program."""
    from heterobandits.campaigns.state import id_of

    constraints = [
        {
            "kind": one.kind,
            "agent": None if one.agent is None else id_of("agent", one.agent),
            "arm": None if one.arm is None else id_of("arm", one.arm),
            "lost": one.lost,
            "text": one.text,
        }
        for one in price.constraints
    ]
    return {
        "expected": price.expected,
        "best": price.best,
        "constraints": constraints,
        "warnings": price.warnings,
    }


def print_plan(state: "State", body: dict[str, Any], price: "Prices | None", preview: bool) -> None:
    """A plan for a person."""
    from heterobandits.campaigns.reasons import reason_of
    from heterobandits.cli.campaign.tables import print_table

    season = "" if state.season is None else f" of {state.season:,}"
    print(f"{state.name}, round {body['round']:,}{season}" + (", a preview" if preview else ""))
    rows = [
        (
            state.agent_names[agent],
            "-" if one["arm"] is None else state.arm_names[state.arm(one["arm"])],
            str(reason_of(one)),
        )
        for agent, one in enumerate(body["assignments"])
        if not state.agents[agent].retired
    ]
    print_table(("agent", "goes to", "why"), rows, whole=(2,))
    if price is not None:
        for constraint in price.constraints:
            print(constraint.text)
        for line in price.warnings:
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
    from heterobandits.campaigns import service
    from heterobandits.campaigns.files.csv_tables import read_outcomes
    from heterobandits.errors import InvalidInput

    if bool(outcomes) == (csv is not None):
        raise InvalidInput("outcomes such as Ana=1, or --csv: one of them says what came of it")
    with open_campaign(file, campaign) as (log, state):
        at = the_round(state, round)
        entries = read_outcomes(csv) if csv is not None else outcomes_of(state, outcomes or [])
        told = gathered(state, at, entries, "reported")
        done = service.report(log, state.campaign, by(who), at.number, told)
        print_change(log, state, done, format)
        if at.number in done.state.waiting:
            print_note(waits(done.state, at.number))


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
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        entries = outcomes_of(state, outcomes or [])
        told = gathered(state, state.round(round), entries, "corrected")
        done = service.correct(log, state.campaign, by(who), round, told)
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
    from heterobandits.campaigns import service

    with open_campaign(file, campaign) as (log, state):
        which = [parse_visit(state, text) for text in agents]
        done = service.withdraw(log, state.campaign, by(who), round, which)
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
    from heterobandits.campaigns.analysis.answers import together

    with open_campaign(file, campaign) as (log, state):
        agent, arms = parse_places(state, went)
        done = service.override(log, state.campaign, by(who), round, agent, arms)
        print_change(log, state, done, format)
    for warning in together(done.state, done.state.round(round)):
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
        done = service.close_round(log, state.campaign, by(who), round)
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
        done = service.add_note(log, state.campaign, by(who), text, round)
        print_change(log, state, done, format)
