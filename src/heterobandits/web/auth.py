"""Who may do what: roles and routes, whose token it is, and the delay for those who guess tokens.

A token is all that somebody needs; of the token itself only a hash is kept, and tokens are compared in a time that does not
depend on them.
"""

import hmac
import ipaddress
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heterobandits.campaigns import reducer
from heterobandits.campaigns.events import OWNER_NAME, SERVER_LINK, utc_now
from heterobandits.campaigns.links import hash_of_token
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Repository, UnreadableLog
from heterobandits.campaigns.storage.store import Store, UnknownCampaign
from heterobandits.errors import InvalidInput
from heterobandits.web.errors import Forbidden, NotAdmitted, NotFound

OWNER_TOKEN_BYTES = 32
ANYONE_ROLES = frozenset({"anyone"})
SERVER_ROLES = frozenset({SERVER_LINK})  # the role of who holds the server's own token: everything
OWNER_ACCESS = SERVER_ROLES | reducer.OWNER_ROLES
PLANNER_ACCESS = SERVER_ROLES | reducer.PLANNER_ROLES
REPORTER_ACCESS = SERVER_ROLES | reducer.REPORTER_ROLES
READER_ACCESS = PLANNER_ACCESS | {"viewer"}
LINK_ACCESS = READER_ACCESS | {"reporter"}

API_BASE = "/api/campaigns/{campaign}"  # for programs
PAGE_BASE = "/campaigns/{campaign}"  # for people
RouteRoles = dict[tuple[str, str], frozenset[str]]
API_ROUTE_ROLES: RouteRoles = {
    ("GET", "/api/openapi.json"): ANYONE_ROLES,
    ("GET", "/api/health"): ANYONE_ROLES,
    ("GET", "/metrics"): ANYONE_ROLES,
    ("GET", "/api/campaigns"): SERVER_ROLES,
    ("POST", "/api/campaigns"): SERVER_ROLES,
    ("POST", "/api/campaigns/import"): SERVER_ROLES,
    ("GET", API_BASE): LINK_ACCESS,
    ("PATCH", API_BASE): OWNER_ACCESS,
    ("POST", f"{API_BASE}/agents"): OWNER_ACCESS,
    ("PATCH", f"{API_BASE}/agents/{{agent}}"): OWNER_ACCESS,
    ("POST", f"{API_BASE}/arms"): OWNER_ACCESS,
    ("PATCH", f"{API_BASE}/arms/{{arm}}"): OWNER_ACCESS,
    ("GET", f"{API_BASE}/rounds"): LINK_ACCESS,
    ("POST", f"{API_BASE}/rounds"): PLANNER_ACCESS,
    ("GET", f"{API_BASE}/rounds/{{round}}"): LINK_ACCESS,
    ("DELETE", f"{API_BASE}/rounds/{{round}}"): PLANNER_ACCESS,
    ("POST", f"{API_BASE}/rounds/{{round}}/close"): PLANNER_ACCESS,
    ("GET", f"{API_BASE}/rounds/{{round}}/explanations"): READER_ACCESS,
    ("PUT", f"{API_BASE}/rounds/{{round}}/overrides/{{agent}}"): PLANNER_ACCESS,
    ("PUT", f"{API_BASE}/rounds/{{round}}/outcomes/{{agent}}"): REPORTER_ACCESS,
    ("DELETE", f"{API_BASE}/rounds/{{round}}/outcomes/{{agent}}"): REPORTER_ACCESS,
    ("PUT", f"{API_BASE}/forgotten/{{arm}}"): PLANNER_ACCESS,
    ("DELETE", f"{API_BASE}/forgotten/{{arm}}"): PLANNER_ACCESS,
    ("POST", f"{API_BASE}/notes"): PLANNER_ACCESS,
    ("POST", f"{API_BASE}/undo"): PLANNER_ACCESS,
    ("GET", f"{API_BASE}/agents"): READER_ACCESS,
    ("GET", f"{API_BASE}/arms"): READER_ACCESS,
    ("GET", f"{API_BASE}/answers"): READER_ACCESS,
    ("GET", f"{API_BASE}/shadow"): READER_ACCESS,
    ("GET", f"{API_BASE}/projection"): READER_ACCESS,
    ("GET", f"{API_BASE}/worth"): READER_ACCESS,
    ("GET", f"{API_BASE}/visits.csv"): READER_ACCESS,
    ("GET", f"{API_BASE}/events"): PLANNER_ACCESS,
    ("GET", f"{API_BASE}/export"): PLANNER_ACCESS,
    ("GET", f"{API_BASE}/links"): OWNER_ACCESS,
    ("POST", f"{API_BASE}/links"): OWNER_ACCESS,
    ("DELETE", f"{API_BASE}/links/{{link}}"): OWNER_ACCESS,
}
PAGE_ROUTE_ROLES: RouteRoles = {
    ("GET", "/"): ANYONE_ROLES,
    ("GET", "/enter/{token}"): ANYONE_ROLES,
    ("POST", "/enter/{token}"): ANYONE_ROLES,
    ("GET", "/leave"): ANYONE_ROLES,
    ("POST", "/leave"): ANYONE_ROLES,
    ("GET", "/static/{name}"): ANYONE_ROLES,
    ("GET", "/worker.js"): ANYONE_ROLES,
    ("GET", "/new"): SERVER_ROLES,
    ("POST", "/new"): SERVER_ROLES,
    ("POST", "/new/check"): SERVER_ROLES,
    ("POST", "/new/try"): SERVER_ROLES,
    ("GET", PAGE_BASE): READER_ACCESS,
    ("GET", f"{PAGE_BASE}/wall"): READER_ACCESS,
    ("GET", f"{PAGE_BASE}/plan"): PLANNER_ACCESS,
    ("POST", f"{PAGE_BASE}/plan"): PLANNER_ACCESS,
    ("GET", f"{PAGE_BASE}/rounds"): READER_ACCESS,
    ("GET", f"{PAGE_BASE}/rounds/{{round}}"): READER_ACCESS,
    ("POST", f"{PAGE_BASE}/rounds/{{round}}/override"): PLANNER_ACCESS,
    ("POST", f"{PAGE_BASE}/rounds/{{round}}/close"): PLANNER_ACCESS,
    ("GET", f"{PAGE_BASE}/rounds/{{round}}/cancel"): PLANNER_ACCESS,
    ("POST", f"{PAGE_BASE}/rounds/{{round}}/cancel"): PLANNER_ACCESS,
    ("POST", f"{PAGE_BASE}/undo"): PLANNER_ACCESS,
    ("GET", f"{PAGE_BASE}/report"): REPORTER_ACCESS,
    ("POST", f"{PAGE_BASE}/rounds/{{round}}/outcomes/{{agent}}"): REPORTER_ACCESS,
    ("GET", f"{PAGE_BASE}/rounds/{{round}}/table"): PLANNER_ACCESS,
    ("POST", f"{PAGE_BASE}/rounds/{{round}}/table"): PLANNER_ACCESS,
    ("GET", f"{PAGE_BASE}/paste"): PLANNER_ACCESS,
    ("POST", f"{PAGE_BASE}/paste"): PLANNER_ACCESS,
    ("POST", f"{PAGE_BASE}/report/handover"): PLANNER_ACCESS,
    ("GET", f"{PAGE_BASE}/ahead"): READER_ACCESS,
    ("GET", f"{PAGE_BASE}/ahead/run"): READER_ACCESS,
    ("GET", f"{PAGE_BASE}/compare"): READER_ACCESS,
    ("GET", f"{PAGE_BASE}/history"): PLANNER_ACCESS,
    ("POST", f"{PAGE_BASE}/notes"): PLANNER_ACCESS,
    ("GET", f"{PAGE_BASE}/audit.html"): PLANNER_ACCESS,
    ("GET", f"{PAGE_BASE}/events.ndjson"): PLANNER_ACCESS,
    ("GET", f"{PAGE_BASE}/visits.csv"): READER_ACCESS,
    ("GET", f"{PAGE_BASE}/team"): OWNER_ACCESS,
    ("POST", f"{PAGE_BASE}/agents"): OWNER_ACCESS,
    ("POST", f"{PAGE_BASE}/agents/{{agent}}"): OWNER_ACCESS,
    ("POST", f"{PAGE_BASE}/arms"): OWNER_ACCESS,
    ("POST", f"{PAGE_BASE}/arms/{{arm}}"): OWNER_ACCESS,
    ("POST", f"{PAGE_BASE}/forgotten/{{arm}}"): PLANNER_ACCESS,
    ("POST", f"{PAGE_BASE}/settings"): OWNER_ACCESS,
    ("POST", f"{PAGE_BASE}/links"): OWNER_ACCESS,
    ("GET", f"{PAGE_BASE}/links/{{link}}"): OWNER_ACCESS,
    ("POST", f"{PAGE_BASE}/links/{{link}}"): OWNER_ACCESS,
    ("POST", f"{PAGE_BASE}/cards"): OWNER_ACCESS,
}
ROUTE_ROLES = API_ROUTE_ROLES | PAGE_ROUTE_ROLES

# That need the kernels of the campaign's own rule; `ALL_RULES_ROUTES` may need any.
OWN_RULE_ROUTES = frozenset(
    {
        ("POST", f"{API_BASE}/rounds"),
        ("GET", f"{API_BASE}/rounds/{{round}}/explanations"),
        ("GET", f"{API_BASE}/agents"),
        ("GET", f"{API_BASE}/arms"),
        ("GET", f"{API_BASE}/answers"),
        ("GET", PAGE_BASE),
        ("GET", f"{PAGE_BASE}/wall"),
        ("GET", f"{PAGE_BASE}/plan"),
        ("POST", f"{PAGE_BASE}/plan"),
        ("GET", f"{PAGE_BASE}/audit.html"),
    }
)
# The same only if `why` is asked.
WHY_ROUTES = frozenset({("GET", f"{PAGE_BASE}/rounds/{{round}}")})
# The same only of a campaign that forgets arms that have changed, which each report may show.
REPORT_ROUTES = frozenset(
    {
        ("PUT", f"{API_BASE}/rounds/{{round}}/overrides/{{agent}}"),
        ("PUT", f"{API_BASE}/rounds/{{round}}/outcomes/{{agent}}"),
        ("DELETE", f"{API_BASE}/rounds/{{round}}/outcomes/{{agent}}"),
        ("POST", f"{PAGE_BASE}/rounds/{{round}}/override"),
        ("POST", f"{PAGE_BASE}/rounds/{{round}}/outcomes/{{agent}}"),
        ("POST", f"{PAGE_BASE}/rounds/{{round}}/table"),
        ("POST", f"{PAGE_BASE}/paste"),
        ("POST", f"{PAGE_BASE}/report/handover"),
    }
)
ALL_RULES_ROUTES = frozenset(
    {
        ("GET", f"{API_BASE}/shadow"),
        ("GET", f"{API_BASE}/projection"),
        ("GET", f"{API_BASE}/worth"),
        ("POST", "/new/try"),
        ("GET", f"{PAGE_BASE}/ahead"),
        ("GET", f"{PAGE_BASE}/ahead/run"),
        ("GET", f"{PAGE_BASE}/compare"),
    }
)

# How many bytes of a body a route takes; of those that are not here a few fields.
SMALL_BODY_MAX_BYTES = 8_000  # three names of 200 letters in any alphabet, as programs escape them
TEXT_BODY_MAX_BYTES = 200_000  # a note of 10,000 such letters; some 10,000 pairs that are forbidden
TABLES_BODY_MAX_BYTES = 1_000_000  # some 10,000 agents or arms at once
IMPORT_BODY_MAX_BYTES = 20_000_000
BODY_MAX_BYTES_BY_ROUTE = {
    ("POST", "/api/campaigns"): TABLES_BODY_MAX_BYTES,
    ("POST", "/api/campaigns/import"): IMPORT_BODY_MAX_BYTES,
    ("POST", f"{API_BASE}/agents"): TABLES_BODY_MAX_BYTES,
    ("POST", f"{API_BASE}/arms"): TABLES_BODY_MAX_BYTES,
    ("POST", f"{API_BASE}/rounds"): TEXT_BODY_MAX_BYTES,
    ("PUT", f"{API_BASE}/rounds/{{round}}/overrides/{{agent}}"): TEXT_BODY_MAX_BYTES,
    ("POST", f"{API_BASE}/notes"): TEXT_BODY_MAX_BYTES,
    ("POST", "/new"): TABLES_BODY_MAX_BYTES,
    ("POST", "/new/check"): TABLES_BODY_MAX_BYTES,
    ("POST", "/new/try"): TABLES_BODY_MAX_BYTES,
    ("POST", f"{PAGE_BASE}/plan"): TEXT_BODY_MAX_BYTES,
    ("POST", f"{PAGE_BASE}/rounds/{{round}}/override"): TEXT_BODY_MAX_BYTES,
    ("POST", f"{PAGE_BASE}/rounds/{{round}}/table"): TEXT_BODY_MAX_BYTES,
    ("POST", f"{PAGE_BASE}/paste"): TEXT_BODY_MAX_BYTES,
    ("POST", f"{PAGE_BASE}/notes"): TEXT_BODY_MAX_BYTES,
    ("POST", f"{PAGE_BASE}/report/handover"): TEXT_BODY_MAX_BYTES,
    ("POST", f"{PAGE_BASE}/arms"): TABLES_BODY_MAX_BYTES,
    ("POST", f"{PAGE_BASE}/cards"): TEXT_BODY_MAX_BYTES,
}

OWNER_TOKEN_VARIABLE = "HETEROBANDITS_OWNER_TOKEN"
OWNER_TOKEN_PREFIX = f"hb_{OWNER_NAME}_"  # how those begin that are made here
OWNER_TOKEN_MIN_LETTERS = 32  # letters of a token that somebody made up
LINK_TOKEN_PATTERN = re.compile(r"hb_([0-9a-f]{12})_([0-9a-f]{1,64})_[\w-]{1,100}", re.ASCII)


@dataclass(frozen=True)
class Caller:
    """Who asks: name and role, and for a link its campaign, perhaps its one agent, its id and its end."""

    who: str
    role: str
    campaign: str | None = None
    agent: int | None = None
    link: str = SERVER_LINK
    expires: str | None = None
    owner: str | None = (
        None  # the hash of the server's own token, where that is one that may be replaced
    )


class Admission(NamedTuple):
    """Who holds a token, and the campaign that is asked about, or else the link's, as it stands."""

    token: str
    caller: Caller
    state: State | None = None

    @property
    def campaign_name(self) -> str | None:
        """The name of that campaign."""
        return None if self.state is None else self.state.name


class Gate:
    """Knows who holds which token. Any number of threads may use it."""

    def __init__(self, log: Repository, stated_hash: str | None) -> None:
        self._log = log
        self._stated_hash = stated_hash

    def caller(self, token: str) -> Caller | None:
        """Who holds this token; None if it opens nothing, or nothing any more."""
        found = self.opened(token)
        return None if found is None else found.caller

    def opened(self, token: str) -> Admission | None:
        """The same, for a link with its campaign. Of one that cannot be read, nobody can be shown to hold a link."""
        hashed = hash_of_token(token)
        if self._owns(token, hashed):
            replaceable = hashed if self._stated_hash is None else None
            return Admission(token, Caller(OWNER_NAME, SERVER_LINK, owner=replaceable))
        found = LINK_TOKEN_PATTERN.fullmatch(token)
        if found is None or not self._log.may_open(found[1], hashed):
            return None
        try:
            state = self._log.state(found[1])
        except (UnknownCampaign, UnreadableLog):
            return None
        link = state.links.get(found[2])
        if link is None or not is_same_secret(hashed, link.token_hash) or not link.holds(utc_now()):
            return None
        caller = Caller(link.name, link.role, found[1], link.agent, link.id, link.expires)
        return Admission(token, caller, state)

    def _owns(self, token: str, hashed: str) -> bool:
        """Whether a token is the server owner's: the one that was stated, or else the one in the store, which may be replaced."""
        known = self._stated_hash
        if known is None and token.startswith(OWNER_TOKEN_PREFIX):
            known = self._log.store.setting(OWNER_NAME)
        return known is not None and is_same_secret(hashed, known)

    def admitted(
        self, tokens: Sequence[str], method: str, route: str, campaign: str | None
    ) -> Admission:
        """Whoever asks for this, if the first of these tokens that opens anything opens it."""
        # A link that has ended is in nobody's way who holds another.
        found = next(filter(None, map(self.opened, tokens)), None)
        if found is None:
            given = "a token that opens nothing, or no longer" if tokens else "no token"
            raise NotAdmitted(f"{given}: send the token of a link as Authorization: Bearer hb_...")
        caller = found.caller
        if campaign is not None and caller.campaign not in (None, campaign):
            raise missing_campaign_error(campaign)
        if not is_allowed(caller.role, method, route):
            raise Forbidden(f"a link for a {caller.role} does not allow {method} {route}")
        if campaign is None or found.state is not None:
            return found
        try:
            return found._replace(state=self._log.state(campaign))
        except UnknownCampaign:
            raise missing_campaign_error(campaign) from None


def is_same_secret(one: str, other: str) -> bool:
    """Whether two texts are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())


def is_allowed(role: str, method: str, route: str) -> bool:
    """Whether a role may use a route."""
    return role in ROUTE_ROLES.get((method, route), frozenset())


def body_max_bytes(method: str, route: str) -> int:
    """The maximum number of bytes in a route's body."""
    return BODY_MAX_BYTES_BY_ROUTE.get((method, route), SMALL_BODY_MAX_BYTES)


def is_public(method: str, route: str) -> bool:
    """Whether anybody may use a route; HEAD follows GET."""
    return ROUTE_ROLES.get(("GET" if method == "HEAD" else method, route)) == ANYONE_ROLES


def missing_campaign_error(campaign: str) -> NotFound:
    """The error for a campaign that does not exist or is not the caller's: nobody can tell which."""
    return NotFound(f"there is no campaign {campaign[:40]!r} that this link opens")


def check_agent(caller: Caller, agent: int) -> None:
    """Refuse a report for an agent that the link is not for."""
    if caller.agent is not None and caller.agent != agent:
        raise Forbidden("this link is for the reports of one agent, who is another")


def new_owner_token() -> str:
    """A token for the owner of a server."""
    return OWNER_TOKEN_PREFIX + secrets.token_urlsafe(OWNER_TOKEN_BYTES)


def establish_owner(store: Store, stated: str | None) -> tuple[str | None, str | None]:
    """The hash of the owner's token, and the token itself if it was made now: nobody can read it again."""
    if stated:
        if (
            len(stated) < OWNER_TOKEN_MIN_LETTERS
            or not stated.isascii()
            or not stated.isprintable()
        ):
            raise InvalidInput(
                f"{OWNER_TOKEN_VARIABLE} has {len(stated)} letters: at least {OWNER_TOKEN_MIN_LETTERS} that are hard to guess, in ASCII"
            )
        return hash_of_token(stated), None
    if store.setting(OWNER_NAME) is not None:
        return None, None
    token = new_owner_token()
    settled = store.settle(OWNER_NAME, hash_of_token(token))
    return None, token if settled == hash_of_token(token) else None


def renew_owner_token(store: Store) -> str:
    """A new owner token in place of the one that the store knows, which stops working."""
    token = new_owner_token()
    store.replace(OWNER_NAME, hash_of_token(token))
    return token


class BadTokenBackoff:
    """Delays senders of bad tokens, longer each time, by network."""

    FIRST = 0.05  # seconds
    LONGEST = 5.0
    QUIET = 300.0  # seconds after which it begins anew
    MOST = 10_000  # addresses that are remembered

    def __init__(self) -> None:
        self._bad: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._lock = threading.Lock()

    def seconds(self, address: str | None) -> float:
        """How long the bearer of one more bad token is to wait."""
        known = network_of(address)
        with self._lock:
            count, last = self._bad.pop(known, (0, 0.0))
            moment = time.monotonic()
            count = 1 if moment - last > self.QUIET else count + 1
            self._bad[known] = (count, moment)
            if len(self._bad) > self.MOST:
                self._bad.popitem(last=False)
        return min(self.LONGEST, self.FIRST * 2.0 ** min(count - 1, 30))

    def __len__(self) -> int:
        return len(self._bad)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def network_of(address: str | None) -> str:
    """The network that an address belongs to: in IPv6 one household has 2^64 addresses."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:  # as a server on :: sees those of version 4
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network(f"{found}/64".replace(f"%{found.scope_id}", ""), strict=False))
