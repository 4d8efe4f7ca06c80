"""Who may open a campaign: links are issued, found again to be printed, and revoked."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from typing import Any

from heterobandits.campaigns.audit.recovery import CampaignEntry, campaign_entries
from heterobandits.campaigns.events import OWNER_NAME, SERVER_LINK, Draft, render_timestamp, utc_now
from heterobandits.campaigns.state import LINK_ROLES, Link, State, member_id, parse_time
from heterobandits.campaigns.storage.link_keys import token_of_link
from heterobandits.campaigns.storage.repository import (
    Author,
    Repository,
    WriteResult,
    next_timestamp,
)
from heterobandits.campaigns.validation import likeness_of, parse_display_name
from heterobandits.errors import InvalidInput, parse_choice, repr_of

VIEWER_ROLE = "viewer"
# whose links can be shown again: those of an owner or a planner open too much to be made by a key on a disk
PRINTED_ROLES = ("reporter", VIEWER_ROLE)
LINK_ID_BYTES = 6


def issue_link(
    log: Repository,
    campaign: str,
    request: Author,
    *,
    role: str,
    name: str,
    agent: Any = None,
    expires: str | None = None,
) -> tuple[WriteResult, str]:
    """Issue a link, and return its token: the log has only its hash, and only the key of links can make it again."""
    done, (token,) = issue_links(
        log, campaign, request, [(name, agent)], role=role, expires=expires
    )
    return done, token


def issue_links(
    log: Repository,
    campaign: str,
    request: Author,
    holders: Iterable[tuple[str, Any]],
    *,
    role: str,
    expires: str | None = None,
) -> tuple[WriteResult, list[str]]:
    """Issue several links, all or none, each with a name and an agent or None; returns their tokens."""
    parse_choice(role, "role", LINK_ROLES)
    whose = list(holders)
    links = [secrets.token_hex(LINK_ID_BYTES) for _ in whose]
    secret = log.store.link_keys.settle() if role in PRINTED_ROLES else None
    tokens = [token_of_link(campaign, link, secret) for link in links]

    def make(state: State) -> list[Draft]:
        until = None if expires is None else parse_time(expires, "expires")
        if until is not None and until <= parse_time(utc_now()):
            raise InvalidInput(f"expires is {repr_of(expires)}: a time to come")
        if until is not None and role != VIEWER_ROLE and until <= parse_time(next_timestamp(state)):
            raise InvalidInput(
                f"expires is {repr_of(expires)}: what happened last in this campaign is of {state.changed}, by a clock that was ahead, "
                "and nothing could be written with the link; let it end after that"
            )
        if role != VIEWER_ROLE:  # of whom nothing is ever written
            check_holders(state, whose)
        return [
            Draft("link issued", {
                "link": link,
                "role": role,
                "name": parse_display_name(name),
                "agent": None if agent is None else member_id("agent", state.agent(agent)),
                "expires": None if until is None else render_timestamp(until),
                "token_hash": hash_of_token(token),
            })
            for link, token, (name, agent) in zip(links, tokens, whose, strict=True)
        ]  # fmt: skip

    return log.write(campaign, request, make), tokens


def find_token(log: Repository, state: State, link: Link) -> str | None:
    """The token of a link, made again; None if it is another role's, or was not made with the key that there is now."""
    return find_tokens(log, state, [link]).get(link.id)


def find_tokens(log: Repository, state: State, links: Iterable[Link]) -> dict[str, str]:
    """The tokens of those of these links that can be made again, by the link's id."""
    secret = log.store.link_keys.find()
    if secret is None:
        return {}
    tokens = {
        link: token_of_link(state.campaign, link.id, secret)
        for link in links
        if link.role in PRINTED_ROLES
    }
    return {
        link.id: token for link, token in tokens.items() if hash_of_token(token) == link.token_hash
    }


def living_links(log: Repository, state: State) -> dict[int, tuple[Link, str]]:
    """The link of each agent that can be printed again, with its token: of several the one that holds longest, then the newest."""
    time = utc_now()
    holding = [one for one in state.links.values() if one.agent is not None and one.holds(time)]
    tokens = find_tokens(log, state, holding)
    found: dict[int, tuple[Link, str]] = {}
    for link in holding:
        if link.agent is not None and link.id in tokens:
            had = found.get(link.agent)
            if had is None or has_later_end(link, had[0]):
                found[link.agent] = link, tokens[link.id]
    return found


def has_later_end(one: Link, other: Link) -> bool:
    """Whether a link holds as long as another, or longer."""
    if one.expires is None or other.expires is None:
        return one.expires is None
    return parse_time(one.expires) >= parse_time(other.expires)


def check_holders(state: State, holders: Iterable[tuple[str, Any]]) -> None:
    """Refuse names that look like another link holder's, or like the server owner's: histories name people.

    Several links of one agent may have one name, and an agent's link may have the agent's, but for the owner's.
    """
    reserved = {likeness_of(OWNER_NAME), likeness_of(SERVER_LINK)}
    taken: list[tuple[str, int | None]] = [(OWNER_NAME, None), (SERVER_LINK, None)]
    writing = (
        one for one in state.links.values() if one.role != VIEWER_ROLE and one.holds(utc_now())
    )
    taken += [(link.name, link.agent) for link in writing]
    whose = {likeness_of(name): agent for name, agent in taken}
    for name, key in holders:
        agent = None if key is None else state.agent(key)
        like = likeness_of(parse_display_name(name))
        named = agent is not None and name == state.agents[agent].name and like not in reserved
        own = named or (agent is not None and whose.get(like) == agent)
        if like in whose and not own:
            raise InvalidInput(
                f"name is {repr_of(name)}: the history would not tell it from another who holds a link, or from the "
                "server's owner; give another name, or revoke that link first"
            )
        whose[like] = agent


def revoke_link(log: Repository, campaign: str, request: Author, link: str) -> WriteResult:
    """Revoke a link, even while somebody is writing with it."""

    def make(state: State) -> list[Draft]:
        return [Draft("link revoked", {"link": link})]

    return log.write(campaign, request, make, gives_way=False)


def revoke_some_links(
    log: Repository, campaign: str, request: Author, links: Iterable[str]
) -> WriteResult:
    """Revoke several links in one write; those that are revoked already stay so."""
    which = list(links)

    def make(state: State) -> list[Draft]:
        still = (link for link in which if not (link in state.links and state.links[link].revoked))
        return [Draft("link revoked", {"link": link}) for link in still]

    return log.write(campaign, request, make, gives_way=False)


def revoke_all_links(log: Repository, request: Author) -> Iterator[tuple[CampaignEntry, int]]:
    """Revoke all links that are not revoked, and yield each campaign with their number; one that cannot be read keeps its links.

    Those that have expired are among them: they would open again by a clock that goes back.
    """
    for campaign in campaign_entries(log):
        links = {} if campaign.state is None else campaign.state.links
        still = [link.id for link in links.values() if not link.revoked]
        for link in still:
            revoke_link(log, campaign.campaign, request, link)
        yield campaign, len(still)


def hash_of_token(token: str) -> str:
    """The hash under which a token is kept: 256 random bits need no salt."""
    return hashlib.sha256(token.encode()).hexdigest()
