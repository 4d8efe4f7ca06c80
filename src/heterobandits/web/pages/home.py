"""Where links lead, the list of campaigns, and how one leaves."""

import re
import secrets

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from heterobandits.campaigns.audit.recovery import Found, all_found, entry_of
from heterobandits.campaigns.events import OWNER, now
from heterobandits.campaigns.state import moment
from heterobandits.campaigns.storage.repository import Log
from heterobandits.campaigns.storage.repository import Request as Asker
from heterobandits.campaigns.storage.store import StoreUnavailable
from heterobandits.errors import InvalidInput
from heterobandits.web.auth import Admission, Caller, Gate
from heterobandits.web.errors import NotFound
from heterobandits.web.pages.base import (
    COOKIE,
    KINDS_OF_FILES,
    LONGEST,
    OF_HOST,
    PageRoute,
    files,
    home,
    page,
    seen_again,
    start,
    tokens_of,
)
from heterobandits.web.requests import Asked, base_of, slow_down

MOST_LINKS = 20  # of a browser that the list of campaigns looks at
NEAR = ("same-origin", "same-site", "none")  # the browser sends its strict cookies along
HERE = "here"  # cookie and query that say the same number, if our own page has sent somebody
MOMENT = 600  # seconds that it takes to go on, at most
HELD = re.compile(f"(?:{OF_HOST})?" + COOKIE.format(f"({OWNER}|[0-9a-f]{{12}})"))

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/enter/{token}")
async def enter(request: Request, token: str) -> Response:
    """Where a link leads: its token becomes a cookie, and leaves the address bar.

    The page goes on by itself. A plain redirect would not do: after a link in a message, which is another site, browsers send no
    strict cookie until a page of our own has asked for the next. So who may come from another site first asks here once more,
    this time with all that the browser holds; and what is in somebody's hands already is not replaced unasked.
    """
    gate: Gate = request.app.state.gate
    found = await run_in_threadpool(gate.opened, token)
    if found is None:
        return await opens_nothing(request)
    caller, name = found.caller, found.campaign_name
    if not from_here(request):
        number = secrets.token_hex(16)
        # a browser without cookies would go round and round
        again = HERE in request.query_params
        answer = page(request, "enter.html", to=f"?{HERE}={number}", again=again, name=name, who=caller)  # fmt: skip
        keep(answer, request, HERE, number, MOMENT)
    else:
        other = await run_in_threadpool(in_force, gate, request, caller)
        if other is not None and other.caller.link != caller.link:
            both = ((other.caller, other.campaign_name), (caller, name))
            answer = page(request, "replace.html", links=both, to=start(other.caller))
            answer.headers["Referrer-Policy"] = "strict-origin"  # which forms need, and no more
            return answer
        answer = page(request, "enter.html", to=start(caller), again=False, name=name, who=caller)
        hold(answer, request, caller, token)
    answer.headers["Referrer-Policy"] = "no-referrer"  # the address is the key
    return answer


@router.post("/enter/{token}")
async def replace(request: Request, token: str) -> Response:
    """The same for somebody who was asked, and wants this link in place of the other."""
    caller = await run_in_threadpool(request.app.state.gate.caller, token)
    if caller is None:
        return await opens_nothing(request)
    answer = seen_again(start(caller))
    answer.headers["Referrer-Policy"] = "no-referrer"
    hold(answer, request, caller, token)
    return answer


async def opens_nothing(request: Request) -> Response:
    """What is said to somebody with a bad link, after a while."""
    await slow_down(request)
    return page(request, "enter.html", status=404, to=None, again=False, name=None, who=None)


def from_here(request: Request) -> bool:
    """Whether all that the browser holds came along, as it does unless another site has sent it here.

    Most say who has sent them, but not to a host name without TLS. Who was sent by our own page has a number from it in the
    address and in a strict cookie, and another site can neither read nor set that.
    """
    if request.headers.get("sec-fetch-site") in NEAR:
        return True
    return request.query_params.get(HERE) in tokens_of(request, HERE)


def in_force(gate: Gate, request: Request, caller: Caller) -> Admission | None:
    """Who this browser is where a link leads, before it is opened: by the link of that campaign, or the server's owner's."""
    owners = (OWNER,) if caller.campaign is None else (caller.campaign, OWNER)
    return next(filter(None, map(gate.opened, tokens_of(request, *owners))), None)


def hold(answer: Response, request: Request, caller: Caller, token: str) -> None:
    """Let the browser hold a link, as long as that may be used."""
    left = LONGEST if caller.expires is None else seconds_between(now(), caller.expires)
    keep(answer, request, caller.campaign or OWNER, token, max(0, min(LONGEST, left)))


def keep(answer: Response, request: Request, name: str, value: str, seconds: int) -> None:
    """Let the browser hold something that no script reads, and that comes from pages of our own alone."""
    secure = base_of(request).startswith("https")
    answer.set_cookie(
        (OF_HOST if secure else "") + COOKIE.format(name),
        value,
        max_age=seconds,
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def seconds_between(one: str, other: str) -> int:
    """The whole seconds from one time to another.

    >>> seconds_between("2026-03-01T09:30:00Z", "2026-03-01T09:31:01.5Z")
    61
    """
    return int((moment(other) - moment(one)).total_seconds())


@router.post("/leave")
async def submit_leave(request: Request) -> Response:
    """Forget the links that this browser holds."""
    answer = seen_again("/")
    for name in filter(HELD.fullmatch, request.cookies):
        secure = name.startswith(OF_HOST)
        answer.delete_cookie(name, secure=secure, httponly=True, samesite="strict")
    return answer


@router.get("/static/{name}")
async def read_static(name: str) -> Response:
    """A file that pages are shown with; its address changes with it."""
    if name not in files():
        raise NotFound(f"there is no file {name[:40]!r}")
    kind = KINDS_OF_FILES[name.rpartition(".")[2]]
    kept = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(files()[name], headers=kept, media_type=kind)


@router.get("/")
async def show_home(request: Request) -> Response:
    """All campaigns for the server's owner, for others those whose links they hold; who holds none is told to open one."""
    gate: Gate = request.app.state.gate
    names = sorted(held(request), key=OWNER.__ne__)  # the server's owner first
    callers = await run_in_threadpool(callers_of, gate, request, names[:MOST_LINKS])
    if names and not callers:
        await slow_down(request)
    owner = next((one for one in callers if one.campaign is None), None)
    if owner is None and len(callers) == 1:
        return seen_again(start(callers[0]))
    if not callers:
        return page(request, "welcome.html")
    log: Log = request.app.state.log
    entries = await run_in_threadpool(campaign_cards, log, callers)
    who = owner or callers[0]
    asked = Asked(log, who, None, Asker(who.who))
    return page(
        request,
        "campaigns.html",
        asked,
        entries=entries,
        owns=owner is not None,
        more=len(names[MOST_LINKS:]),
    )


def held(request: Request) -> list[str]:
    """The campaigns whose links a browser holds, and the server's owner."""
    found = (HELD.fullmatch(name) for name in request.cookies)
    return list(dict.fromkeys(name[1] for name in found if name))


def callers_of(gate: Gate, request: Request, names: list[str]) -> list[Caller]:
    """Who looks, by each of the links of these names that hold; a damaged campaign is refused only if there is no other."""
    found, damaged = [], None
    for token in tokens_of(request, *names):
        try:
            found.append(gate.caller(token))
        except StoreUnavailable:  # which says nothing about the campaign
            raise
        except InvalidInput as error:
            damaged = error
    callers = [caller for caller in found if caller is not None]
    if damaged is not None and not callers:
        raise damaged
    return callers


def campaign_cards(log: Log, callers: list[Caller]) -> list[tuple[Found, str, str]]:
    """The campaigns to be seen, each with its page and since when nothing happened; the last first."""
    own = {caller.campaign: start(caller) for caller in callers if caller.campaign is not None}
    if any(caller.campaign is None for caller in callers):
        seen = list(all_found(log))
    else:
        seen = [entry_of(log, campaign) for campaign in own]
    made = [(one, own.get(one.campaign, home(one.campaign)), changed_of(one)) for one in seen]
    return sorted(made, key=lambda entry: entry[2], reverse=True)


def changed_of(one: Found) -> str:
    """When a campaign has changed last; a damaged one comes first."""
    return now() if one.state is None else one.state.changed
