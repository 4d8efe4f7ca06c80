"""Who may do what: the table of routes and roles, whose a token is, and how those who guess tokens are slowed down.

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
from heterobandits.campaigns.events import OWNER, SERVER, now
from heterobandits.campaigns.service import TOKEN_BYTES, token_hash
from heterobandits.campaigns.state import State
from heterobandits.campaigns.storage.repository import Log
from heterobandits.campaigns.storage.store import Store, UnknownCampaign
from heterobandits.errors import InvalidInput
from heterobandits.web.errors import Forbidden, NotAdmitted, NotFound

ANYONE = frozenset({"anyone"})
ALONE = frozenset({SERVER})  # the role of who holds the server's own token: everything
OWNERS = ALONE | reducer.OWNERS
PLANNERS = ALONE | reducer.PLANNERS
REPORTERS = ALONE | reducer.REPORTERS
READERS = PLANNERS | {"viewer"}
ALL = READERS | {"reporter"}

ONE = "/api/campaigns/{campaign}"  # for programs
HOME = "/campaigns/{campaign}"  # for people
Table = dict[tuple[str, str], frozenset[str]]
API: Table = {
    ("GET", "/api/openapi.json"): ANYONE,
    ("GET", "/api/health"): ANYONE,
    ("GET", "/metrics"): ANYONE,
    ("GET", "/api/campaigns"): ALONE,
    ("POST", "/api/campaigns"): ALONE,
    ("POST", "/api/campaigns/import"): ALONE,
    ("GET", ONE): ALL,
    ("PATCH", ONE): OWNERS,
    ("POST", f"{ONE}/agents"): OWNERS,
    ("PATCH", f"{ONE}/agents/{{agent}}"): OWNERS,
    ("POST", f"{ONE}/arms"): OWNERS,
    ("PATCH", f"{ONE}/arms/{{arm}}"): OWNERS,
    ("GET", f"{ONE}/rounds"): ALL,
    ("POST", f"{ONE}/rounds"): PLANNERS,
    ("GET", f"{ONE}/rounds/{{round}}"): ALL,
    ("POST", f"{ONE}/rounds/{{round}}/close"): PLANNERS,
    ("GET", f"{ONE}/rounds/{{round}}/explanations"): READERS,
    ("PUT", f"{ONE}/rounds/{{round}}/overrides/{{agent}}"): PLANNERS,
    ("PUT", f"{ONE}/rounds/{{round}}/outcomes/{{agent}}"): REPORTERS,
    ("DELETE", f"{ONE}/rounds/{{round}}/outcomes/{{agent}}"): REPORTERS,
    ("POST", f"{ONE}/notes"): PLANNERS,
    ("GET", f"{ONE}/arms"): READERS,
    ("GET", f"{ONE}/answers"): READERS,
    ("GET", f"{ONE}/shadow"): READERS,
    ("GET", f"{ONE}/projection"): READERS,
    ("GET", f"{ONE}/worth"): READERS,
    ("GET", f"{ONE}/visits.csv"): READERS,
    ("GET", f"{ONE}/events"): PLANNERS,
    ("GET", f"{ONE}/export"): PLANNERS,
    ("GET", f"{ONE}/links"): OWNERS,
    ("POST", f"{ONE}/links"): OWNERS,
    ("DELETE", f"{ONE}/links/{{link}}"): OWNERS,
}
PAGES: Table = {
    ("GET", "/"): ANYONE,
    ("GET", "/enter/{token}"): ANYONE,
    ("POST", "/enter/{token}"): ANYONE,
    ("POST", "/leave"): ANYONE,
    ("GET", "/static/{name}"): ANYONE,
    ("GET", "/new"): ALONE,
    ("POST", "/new"): ALONE,
    ("POST", "/new/check"): ALONE,
    ("POST", "/new/try"): ALONE,
    ("GET", HOME): READERS,
    ("GET", f"{HOME}/wall"): READERS,
    ("GET", f"{HOME}/plan"): PLANNERS,
    ("POST", f"{HOME}/plan"): PLANNERS,
    ("GET", f"{HOME}/rounds"): READERS,
    ("GET", f"{HOME}/rounds/{{round}}"): READERS,
    ("POST", f"{HOME}/rounds/{{round}}/override"): PLANNERS,
    ("POST", f"{HOME}/rounds/{{round}}/close"): PLANNERS,
    ("GET", f"{HOME}/report"): REPORTERS,
    ("POST", f"{HOME}/rounds/{{round}}/outcomes/{{agent}}"): REPORTERS,
    ("GET", f"{HOME}/ahead"): READERS,
    ("GET", f"{HOME}/ahead/run"): READERS,
    ("GET", f"{HOME}/compare"): READERS,
    ("GET", f"{HOME}/history"): PLANNERS,
    ("POST", f"{HOME}/notes"): PLANNERS,
    ("GET", f"{HOME}/audit.html"): PLANNERS,
    ("GET", f"{HOME}/events.ndjson"): PLANNERS,
    ("GET", f"{HOME}/visits.csv"): READERS,
    ("GET", f"{HOME}/team"): OWNERS,
    ("POST", f"{HOME}/agents"): OWNERS,
    ("POST", f"{HOME}/agents/{{agent}}"): OWNERS,
    ("POST", f"{HOME}/arms"): OWNERS,
    ("POST", f"{HOME}/arms/{{arm}}"): OWNERS,
    ("POST", f"{HOME}/settings"): OWNERS,
    ("POST", f"{HOME}/links"): OWNERS,
    ("POST", f"{HOME}/links/{{link}}"): OWNERS,
    ("POST", f"{HOME}/cards"): OWNERS,
}
ALLOWED = API | PAGES

# How many bytes of a body a route takes; of those that are not here a few fields.
FEW_FIELDS = 8_000  # three names of 200 letters in any alphabet, as programs escape them
LONG_TEXT = 200_000  # a note of 10,000 such letters; some 10,000 pairs that are forbidden
TABLES = 1_000_000  # some 10,000 agents or arms at once
WHOLE_CAMPAIGN = 20_000_000
BODIES = {
    ("POST", "/api/campaigns"): TABLES,
    ("POST", "/api/campaigns/import"): WHOLE_CAMPAIGN,
    ("POST", f"{ONE}/agents"): TABLES,
    ("POST", f"{ONE}/arms"): TABLES,
    ("POST", f"{ONE}/rounds"): LONG_TEXT,
    ("PUT", f"{ONE}/rounds/{{round}}/overrides/{{agent}}"): LONG_TEXT,
    ("POST", f"{ONE}/notes"): LONG_TEXT,
    ("POST", "/new"): TABLES,
    ("POST", "/new/check"): TABLES,
    ("POST", "/new/try"): TABLES,
    ("POST", f"{HOME}/plan"): LONG_TEXT,
    ("POST", f"{HOME}/rounds/{{round}}/override"): LONG_TEXT,
    ("POST", f"{HOME}/notes"): LONG_TEXT,
    ("POST", f"{HOME}/arms"): TABLES,
    ("POST", f"{HOME}/cards"): LONG_TEXT,
}

VARIABLE = "HETEROBANDITS_OWNER_TOKEN"
OWNERS_TOKEN = f"hb_{OWNER}_"  # how those begin that are made here
LEAST_TOKEN = 32  # letters of a token that somebody made up
TOKEN = re.compile(r"hb_([0-9a-f]{12})_([0-9a-f]{1,64})_[\w-]{1,100}", re.ASCII)


@dataclass(frozen=True)
class Caller:
    """Who asks: what it is called, its role, and for a link its campaign and perhaps the one agent it is for, its id and its end."""

    who: str
    role: str
    campaign: str | None = None
    agent: int | None = None
    link: str = SERVER
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
    """Who holds which token. Any number of threads may ask."""

    def __init__(self, log: Log, stated_hash: str | None) -> None:
        self._log = log
        self._stated_hash = stated_hash

    def caller(self, token: str) -> Caller | None:
        """Who holds this token; None if it opens nothing, or nothing any more."""
        found = self.opened(token)
        return None if found is None else found.caller

    def opened(self, token: str) -> Admission | None:
        """The same, for a link with its campaign."""
        hashed = token_hash(token)
        if self._owns(token, hashed):
            replaceable = hashed if self._stated_hash is None else None
            return Admission(token, Caller(OWNER, SERVER, owner=replaceable))
        found = TOKEN.fullmatch(token)
        if found is None or not self._log.may_open(found[1], hashed):
            return None
        try:
            state = self._log.state(found[1])
        except UnknownCampaign:
            return None
        link = state.links.get(found[2])
        if link is None or not same(hashed, link.token_hash) or not link.holds(now()):
            return None
        caller = Caller(link.name, link.role, found[1], link.agent, link.id, link.expires)
        return Admission(token, caller, state)

    def _owns(self, token: str, hashed: str) -> bool:
        """Whether a token is the server owner's: the one that was stated, or else the one in the store, which may be replaced."""
        known = self._stated_hash
        if known is None and token.startswith(OWNERS_TOKEN):
            known = self._log.store.setting(OWNER)
        return known is not None and same(hashed, known)

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
            raise not_there(campaign)
        if not may(caller.role, method, route):
            raise Forbidden(f"a link for a {caller.role} does not allow {method} {route}")
        if campaign is None or found.state is not None:
            return found
        try:
            return found._replace(state=self._log.state(campaign))
        except UnknownCampaign:
            raise not_there(campaign) from None


def same(one: str, other: str) -> bool:
    """Whether two texts are the same, in a time that does not depend on where they differ; any letters may be in them."""
    return hmac.compare_digest(one.encode(), other.encode())


def may(role: str, method: str, route: str) -> bool:
    """Whether a role opens a route."""
    return role in ALLOWED.get((method, route), frozenset())


def most_body(method: str, route: str) -> int:
    """How many bytes of a body a route takes."""
    return BODIES.get((method, route), FEW_FIELDS)


def is_open(method: str, route: str) -> bool:
    """Whether a route is for everybody; who may have an answer may have its head alone."""
    return ALLOWED.get(("GET" if method == "HEAD" else method, route)) == ANYONE


def not_there(campaign: str) -> NotFound:
    """The error for a campaign that is not there, or is not the caller's: nobody can tell which."""
    return NotFound(f"there is no campaign {campaign[:40]!r} that this link opens")


def check_agent(caller: Caller, agent: int) -> None:
    """Refuse a report of somebody whom the link is not for."""
    if caller.agent is not None and caller.agent != agent:
        raise Forbidden("this link is for the reports of one agent, who is another")


def new_token() -> str:
    """A token for the owner of a server."""
    return OWNERS_TOKEN + secrets.token_urlsafe(TOKEN_BYTES)


def owner_of(store: Store, stated: str | None) -> tuple[str | None, str | None]:
    """The hash of the owner's token if one is stated, and the token itself if it was made now: it cannot be read again."""
    if stated:
        if len(stated) < LEAST_TOKEN or not stated.isascii() or not stated.isprintable():
            raise InvalidInput(
                f"{VARIABLE} has {len(stated)} letters: at least {LEAST_TOKEN} that are hard to guess, in ASCII"
            )
        return token_hash(stated), None
    if store.setting(OWNER) is not None:
        return None, None
    token = new_token()
    settled = store.settle(OWNER, token_hash(token))
    return None, token if settled == token_hash(token) else None


def renew_owner(store: Store) -> str:
    """A new token for the owner of a server, in place of the one that the store knows, which opens nothing any more."""
    token = new_token()
    store.replace(OWNER, token_hash(token))
    return token


class Slowing:
    """How long those wait who come with bad tokens: longer every time, by where they come from."""

    FIRST = 0.05  # seconds
    LONGEST = 5.0
    QUIET = 300.0  # seconds after which it begins anew
    MOST = 10_000  # addresses that are remembered

    def __init__(self) -> None:
        self._bad: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._lock = threading.Lock()

    def seconds(self, address: str | None) -> float:
        """How long the bearer of one more bad token is to wait."""
        known = network(address)
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


def network(address: str | None) -> str:
    """Whom an address is counted with: of version 6 one household has 2^64 of them."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:  # as a server on :: sees those of version 4
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network(f"{found}/64".replace(f"%{found.scope_id}", ""), strict=False))
