"""`heterobandits campaign link`, `links` and `revoke`: who may do what through a server."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from heterobandits.cli.campaign.options import (
    CampaignOption,
    FileArgument,
    WhoOption,
    author_of,
    open_campaign,
    print_note,
)
from heterobandits.cli.campaign.text import print_change, print_json
from heterobandits.cli.options import TableOrJson
from heterobandits.cli.terminal import print_table
from heterobandits.errors import InvalidInput, repr_of

if TYPE_CHECKING:
    from heterobandits.campaigns.state import Link, State

LinkArgument = Annotated[
    str, typer.Argument(help="Its id, as links says it.", metavar="LINK", show_default=False)
]


def link_command(
    file: FileArgument,
    name: Annotated[str, typer.Argument(help="For whom.", metavar="NAME", show_default=False)],
    role: Annotated[
        Literal["owner", "planner", "reporter", "viewer"],
        typer.Option(help="What it is for."),
    ] = "reporter",
    agent: Annotated[
        str | None,
        typer.Option(help="The one agent for whom a reporter reports.", metavar="AGENT"),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Its last day, in UTC; none if it holds until it is revoked. By default a month after the season, or a year from now.",
            metavar="DAY|none",
        ),
    ] = None,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Make a link for somebody. What opens it is printed after it.

    Example: heterobandits campaign link park.db "Ana's phone" --agent Ana --until 2030-12-31
    """
    from heterobandits.campaigns.link_ends import default_last_day, parse_last_day
    from heterobandits.campaigns.links import PRINTED_ROLES, issue_link
    from heterobandits.campaigns.serialization import json_of_link

    with open_campaign(file, campaign) as (log, state):
        day = default_last_day(state) if until is None else until
        expires = None if day.strip().lower() == "none" else parse_last_day(day)
        done, token = issue_link(
            log, state.campaign, author_of(who), role=role, name=name, agent=agent, expires=expires
        )
        if format == "json":
            link = done.state.links[done.events[0].body["link"]]
            print_json(done.state, {"link": json_of_link(done.state, link), "token": token})
            return
        print_change(log, state, done, format)
        print_token(token)
        if role not in PRINTED_ROLES:
            print_note("it is shown this once")
        elif log.store.link_keys.lack is not None:
            print_note(f"it is shown this once: {log.store.link_keys.lack}")


def print_token(token: str) -> None:
    """What opens a link."""
    print(f"as a link: the address of the server, and /enter/{token}")


def links_command(
    file: FileArgument,
    show: Annotated[
        str | None,
        typer.Option(
            "--show", help="Show what opens this reporter's or viewer's link again.", metavar="LINK"
        ),
    ] = None,
    campaign: CampaignOption = None,
    format: TableOrJson = "table",
) -> None:
    """List the links: for whom, made when, used last, and until when they hold.

    Example: heterobandits campaign links park.db
    """
    from heterobandits.campaigns.events import utc_now
    from heterobandits.campaigns.links import find_token
    from heterobandits.campaigns.serialization import json_of_link

    with open_campaign(file, campaign) as (log, state):
        if show is not None:
            link = find_known_link(state, show)
            token = find_token(log, state, link) if link.holds(utc_now()) else None
            if token is None:
                raise InvalidInput(
                    f"the link {repr_of(show)} cannot be shown again: it is an owner's or a planner's, opens nothing any more, or was "
                    "made without the key that there is now"
                )
            print_token(token)
            return
        uses = log.store.uses(state.campaign)
        links = [json_of_link(state, link, uses) for link in state.links.values()]
        now = utc_now()
        holding = {link.id for link in state.links.values() if link.holds(now)}
    if format == "json":
        print_json(state, {"links": links})
        return
    rows = [
        (
            link["id"],
            link["name"],
            link["role"] + (f" of {link['agent']}" if link["agent"] else ""),
            link["made"][:10],
            (link["last_used"] or "never")[:10],
            "revoked"
            if link["revoked"]
            else (link["expires"] or "no end")[:10] + ("" if link["id"] in holding else ", over"),
        )
        for link in links
    ]
    print_table(("id", "for", "role", "made", "last used", "valid until"), rows)


def find_known_link(state: "State", link: str) -> "Link":
    """The link of this id."""
    if link not in state.links:
        raise InvalidInput(f"there is no link {repr_of(link)}: campaign links names them")
    return state.links[link]


def revoke_command(
    file: FileArgument,
    link: LinkArgument,
    campaign: CampaignOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Revoke a link: it opens nothing any more, also on a server that is running."""
    from heterobandits.campaigns.links import revoke_link

    with open_campaign(file, campaign) as (log, state):
        known = find_known_link(state, link)
        done = revoke_link(log, state.campaign, author_of(who), known.id)
        print_change(log, state, done, format)
