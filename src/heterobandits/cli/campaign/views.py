"""`heterobandits campaign status`, `agents`, `explain`, `history`, `shadow` and `project`: what is known, and what may come."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterobandits.campaigns.audit.history_text import waiting_in_words
from heterobandits.campaigns.audit.recovery import readable_events
from heterobandits.cli.campaign.arguments import (
    split_names,
)
from heterobandits.cli.campaign.options import (
    CampaignOption,
    FileArgument,
    LevelOption,
    RoundOption,
    find_campaign,
    open_campaign,
    open_repository,
    print_note,
    show_share,
)
from heterobandits.cli.campaign.text import print_json
from heterobandits.cli.exit_codes import EXIT_FAILURE
from heterobandits.cli.options import QuietOption, TableOrJson
from heterobandits.cli.terminal import print_table
from heterobandits.errors import InvalidInput, parse_integer, repr_of

if TYPE_CHECKING:
    from heterobandits.campaigns.analysis.projection import Projection
    from heterobandits.campaigns.rounds import PlannedRound
    from heterobandits.campaigns.state import State
    from heterobandits.planner.plans import Explanation

HISTORY_DEFAULT_EVENTS = 20  # events that are shown


def status_command(
    file: FileArgument,
    every: Annotated[
        bool, typer.Option("--all", help="All arms, however many, and those that were retired.")
    ] = False,
    campaign: CampaignOption = None,
    format: TableOrJson = "table",
) -> None:
    """Show where a campaign stands: what waits, what is known in words, and a chart of the intervals."""
    from heterobandits.campaigns.analysis.answers import answers
    from heterobandits.campaigns.analysis.estimates import estimates
    from heterobandits.campaigns.analysis.probabilities import probable
    from heterobandits.campaigns.audit.verification import ANCHOR_MIN_DIGITS
    from heterobandits.campaigns.serialization import json_of_status
    from heterobandits.cli.campaign.interval_chart import print_chart

    with open_campaign(file, campaign) as (_, state):
        found, said, likely = estimates(state), answers(state), probable(state)
    if format == "json":
        print_json(state, json_of_status(state))
        return
    season = "" if state.season is None else f" of {state.season:,}"
    word = state.words.round
    planned = f"{word} {len(state.rounds):,}{season}" if state.rounds else f"no {word} planned yet"
    print(
        f"{state.name} ({state.campaign}): {planned}, policy {state.policy.label}"
        + ", archived" * state.archived
    )
    for number in sorted(state.waiting):
        print(waiting_in_words(state, number))
    for sentence in (*likely.sentences, *said.sentences):
        print(sentence)
    print()
    print_chart([arm for arm in found if every or not arm.retired], every)
    print(f"after event {state.number:,}, hash {state.hash[:ANCHOR_MIN_DIGITS]}")


def agents_command(
    file: FileArgument, campaign: CampaignOption = None, format: TableOrJson = "table"
) -> None:
    """Show how sensitive each agent is by the visits, beside the others, and whether that is what was stated."""
    from heterobandits.campaigns.analysis.sensitivities import sensitivities
    from heterobandits.campaigns.serialization import json_of_sensitivities

    with open_campaign(file, campaign) as (_, state):
        found = sensitivities(state)
    if format == "json":
        print_json(state, json_of_sensitivities(state, found))
    else:
        print(found)


def explain_command(
    file: FileArgument,
    agents: Annotated[
        list[str] | None,
        typer.Argument(help="Whom; all if nobody is named.", metavar="AGENT", show_default=False),
    ] = None,
    round: RoundOption = None,
    campaign: CampaignOption = None,
    format: TableOrJson = "table",
) -> None:
    """Say why a round sent each agent where it did, from what was known then; the last round by default."""
    from heterobandits.campaigns import serialization, service

    with open_campaign(file, campaign) as (log, state):
        if round is None and not state.rounds:
            raise InvalidInput("no round is planned yet: nothing to explain")
        at = state.round(len(state.rounds) if round is None else round)
        there = sorted({*range(len(at.assignment)), *(agent for agent, _ in at.sent)})
        whom = [state.agent(one) for one in agents or []] or there
        reasons = {one.agent: str(one.reason) for one in service.recorded_plan(log, state, at)}
        found = service.explain(log, state.campaign, at.number)
        lines = [render_why(state, at, one, found.get(one), reasons.get(one)) for one in whom]
        if format == "json":
            why = [serialization.json_of_why(state, a, at, found[a]) for a in whom if a in found]
            answer = serialization.json_of_round(log, state, at.number) | {"explanations": why}
            print_json(state, answer)
            return
    print(f"{state.name}, {state.words.round} {at.number:,}")
    for line in lines:
        print(line)


def render_why(
    state: "State", round: "PlannedRound", agent: int, why: "Explanation | None", reason: str | None
) -> str:
    """Why an agent was sent where it was, and where it went instead; agents added later have no reason."""
    name, arms = state.agents[agent].name, round.arms_of(agent)
    went = f"went to {' and '.join(state.arms[arm].name for arm in arms)}"
    if reason is None:
        if not arms:
            raise InvalidInput(
                f"{name!r} came after {state.words.round} {round.number} and was not sent anywhere"
            )
        return (
            f"{name} came after {state.words.round} {round.number} was planned, and {went} by hand"
        )
    text = f"{name} stays home: {reason}" if why is None else str(why)
    planned = round.assignment[agent]
    if arms == (() if planned is None else (planned,)):
        return text
    return f"{text}; but {went if arms else 'stayed home'}"


def history_command(
    file: FileArgument,
    round: RoundOption = None,
    agent: Annotated[
        str | None, typer.Option(help="Only what is about this agent.", metavar="AGENT")
    ] = None,
    last: Annotated[
        int, typer.Option(help="How many events to show.", metavar="N")
    ] = HISTORY_DEFAULT_EVENTS,
    campaign: CampaignOption = None,
    format: TableOrJson = "table",
) -> int:
    """Show who did what, and when, the last events last.

    Of a damaged log all events are shown that can be read; then the exit code is 1.
    """
    from heterobandits.campaigns.audit.history_text import (
        EventNarrator,
        author_text,
        is_about,
        narrate_events,
    )
    from heterobandits.campaigns.serialization import json_of_event_with_text
    from heterobandits.campaigns.state import member_id, number_of_member
    from heterobandits.planner.vocabulary import DEFAULT_WORDS

    parse_integer(last, "--last", 1)
    with open_repository(file) as log:
        found = find_campaign(log, campaign, file)
        events = readable_events(log, found.campaign)
    state = found.state
    story = EventNarrator(words=DEFAULT_WORDS if state is None else state.words)
    everything = list(narrate_events(events, story))
    if round is not None and state is not None:
        state.round(round)
    met = {name: number for number, name in enumerate(story.agents)}
    agents = met if state is None else state.agent_numbers
    whom = None if agent is None else member_id("agent", number_of_member(agent, "agent", agents))
    fitting = [one for one in everything if is_about(one, round, whom)]
    if format == "json":
        shown_events = [json_of_event_with_text(one.event, one.text) for one in fitting[-last:]]
        earlier = max(0, len(fitting) - last)
        print_json(found, {"events": shown_events, "earlier": earlier, "wrong": found.wrong})
    else:
        rows = [
            (f"{event.number}", event.time[:19].replace("T", " "), author_text(event), text)
            for event, text, _ in fitting[-last:]
        ]
        print_table(("event", "time (UTC)", "who", "what"), rows, right=(0,))
        if len(fitting) > last:
            print(f"and {len(fitting) - last:,} before: --last {len(fitting)} shows them all")
    if found.wrong is None:
        return 0
    print_note(found.damage)
    return EXIT_FAILURE


def shadow_command(
    file: FileArgument,
    policy: Annotated[str, typer.Option(help="The other policy.", metavar="P")],
    delta: LevelOption = None,
    campaign: CampaignOption = None,
    format: TableOrJson = "table",
) -> None:
    """Show what another policy would have planned, in each round from what was known then."""
    from heterobandits.campaigns.analysis.shadows import shadow as follow
    from heterobandits.campaigns.serialization import json_of_shadow

    with open_campaign(file, campaign) as (log, state):
        found = follow(log, state.campaign, policy, delta)
    answer = json_of_shadow(state, found)
    if format == "json":
        print_json(state, answer)
        return
    for sentence in found.sentences:
        print(sentence)
    rows = [
        (f"{one['round']}", one["agent"], one["planned"] or "-", one["other"] or "-")
        for one in answer["differences"]
    ]
    if rows:
        print_table(
            (state.words.round, state.words.agent, "planned", found.policy), rows, right=(0,)
        )


def project_command(
    file: FileArgument,
    rounds: Annotated[
        int | None, typer.Option(help="How many; the rest of the season by default.", metavar="N")
    ] = None,
    add_agent: Annotated[
        float | None,
        typer.Option(help="And with one more agent of this sensitivity?", metavar="S"),
    ] = None,
    revise: Annotated[
        str | None,
        typer.Option(help="And if this agent had that sensitivity?", metavar="AGENT=S"),
    ] = None,
    draws: Annotated[int, typer.Option(help="How many worlds to play it in.", metavar="N")] = 200,
    seed: Annotated[int, typer.Option(help="Determines all luck.", metavar="S")] = 0,
    campaign: CampaignOption = None,
    format: TableOrJson = "table",
    quiet: QuietOption = False,
) -> None:
    """Play the rest of the season in worlds that fit what is known: what it is expected to yield.

    Example: heterobandits campaign project park.db --rounds 20 --add-agent 0.8
    """
    from heterobandits.campaigns import serialization
    from heterobandits.campaigns.analysis import projection
    from heterobandits.campaigns.validation import parse_reports

    if add_agent is not None and revise is not None:
        raise InvalidInput("--add-agent and --revise: one or the other")
    with open_campaign(file, campaign) as (_, state), show_share("projecting", quiet) as tell:
        asked: dict[str, Any] = {"rounds": rounds, "draws": draws, "seed": seed, "tell": tell}
        if add_agent is None and revise is None:
            plain, worth = projection.project(state, **asked), None
        else:
            agent, given = None, {"sensitivity": add_agent}
            if revise is not None:
                agent, given = parse_revision(state, revise)
            reports = parse_reports(given, "agent.{}".format)
            changed = projection.state_with_other_team(state, agent, reports)
            worth = projection.worth_of_team(state, changed, **asked)
            plain = worth.plain
    if format == "json":
        serialized = (
            serialization.json_of_projection(plain)
            if worth is None
            else serialization.json_of_worth(worth)
        )
        print_json(state, serialized)
        return
    print(
        f"{state.name}, the next {plain.rounds:,} rounds in {plain.draws:,} worlds that fit what is known:"
    )
    for line in render_projection(plain):
        print(line)
    for line in plain.warnings:
        print_note(line)
    if worth is not None:
        what = "with one more agent" if revise is None else f"with {revise}"
        print(f"{what}:")
        for line in render_projection(worth.other):
            print(line)
        print(f"  more detections: {worth.more:.2f}, standard error {worth.more_se:.2f}")


def render_projection(found: "Projection") -> Iterator[str]:
    """A projection in words."""
    from heterobandits.campaigns.analysis.projection import render_chance

    # of fewer than nine the least and the most hold less often
    often = "8 times of 10" if found.draws >= 9 else f"in all of {found.draws} draws"
    yield (
        f"  expected detections: {found.detections:.2f}, standard error {found.detections_se:.2f}; "
        f"from {found.low:g} to {found.high:g} {often}"
    )
    yield (
        f"  if agents went round the arms in turn instead: {found.rotation:.2f}; from {found.rotation_low:g} to {found.rotation_high:g} {often}"
    )
    known = render_chance(found.best_known, found.draws)
    yield f"  the chance that the best arm is known at the end is {known}"


def parse_revision(state: "State", text: str) -> tuple[int, dict[str, Any]]:
    """An agent and what it would report like, written as Ben=0.9."""
    from heterobandits.campaigns.files.csv_tables import parse_rate_cell

    name, value = split_names(
        text, "=", state.agent, lambda end: isinstance(parse_rate_cell(end), (int, float))
    )
    if "=" not in text:
        raise InvalidInput(f"--revise is {repr_of(text)}: an agent and a sensitivity, as Ben=0.9")
    agent = state.agent(name)
    return agent, state.reports(agent).revised({"sensitivity": parse_rate_cell(value)})
