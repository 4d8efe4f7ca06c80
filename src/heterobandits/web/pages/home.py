"""Where links lead, the list of campaigns, and how one leaves."""

import re
import secrets

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from heterobandits.campaigns.audit.recovery import CampaignEntry, campaign_entries, entry_of
from heterobandits.campaigns.events import OWNER_NAME, utc_now
from heterobandits.campaigns.state import parse_time
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.web.auth import Admission, Caller, Gate
from heterobandits.web.errors import NotFound
from heterobandits.web.pages.base import (
    COOKIE_MAX_AGE_S,
    COOKIE_NAME,
    HOST_COOKIE_PREFIX,
    STATIC_MEDIA_TYPES,
    PageRoute,
    is_encrypted,
    page_path,
    render_page,
    see_other,
    start_page_path,
    static_files,
    tokens_of,
)
from heterobandits.web.requests import RequestContext, delay_bad_token

BROWSER_MAX_LINKS = 20  # of a browser that the list of campaigns looks at
# the browser sends its strict cookies along
SAME_SITE_VALUES = ("same-origin", "same-site", "none")
CONFIRMATION_NAME = (
    "here"  # cookie and query that say the same number, if our own page has sent somebody
)
CONFIRMATION_MAX_S = 600  # seconds that it takes to go on, at most
COOKIE_NAME_PATTERN = re.compile(
    f"(?:{HOST_COOKIE_PREFIX})?" + COOKIE_NAME.format(f"({OWNER_NAME}|[0-9a-f]{{12}})")
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/enter/{token}")
async def open_link(request: Request, token: str) -> Response:
    """Open a link: its token becomes a cookie and leaves the address bar.

    The page goes on by itself. A plain redirect would not do: after a link in a message, which is another site, browsers send no
    strict cookie until a page of our own has asked for the next. So who may come from another site first asks here once more,
    this time with all that the browser holds; and what is in somebody's hands already is not replaced unasked.
    """
    gate: Gate = request.app.state.gate
    found = await run_in_threadpool(gate.opened, token)
    if found is None:
        return await bad_link_page(request)
    caller, name = found.caller, found.campaign_name
    if not is_from_here(request):
        number = secrets.token_hex(16)
        # a browser without cookies would go round and round
        again = CONFIRMATION_NAME in request.query_params
        answer = render_page(request, "enter.html", to=f"?{CONFIRMATION_NAME}={number}", again=again, name=name, who=caller)  # fmt: skip
        set_cookie(answer, request, CONFIRMATION_NAME, number, CONFIRMATION_MAX_S)
    else:
        other = await run_in_threadpool(current_caller, gate, request, caller)
        if other is not None and other.caller.link != caller.link:
            both = ((other.caller, other.campaign_name), (caller, name))
            answer = render_page(
                request, "replace.html", links=both, to=start_page_path(other.caller)
            )
            answer.headers["Referrer-Policy"] = "strict-origin"  # which forms need, and no more
            return answer
        answer = render_page(
            request, "enter.html", to=start_page_path(caller), again=False, name=name, who=caller
        )
        set_link_cookie(answer, request, caller, token)
    answer.headers["Referrer-Policy"] = "no-referrer"  # the address is the key
    return answer


@router.post("/enter/{token}")
async def replace_link(request: Request, token: str) -> Response:
    """Open a link in place of another one, after the person has agreed."""
    caller = await run_in_threadpool(request.app.state.gate.caller, token)
    if caller is None:
        return await bad_link_page(request)
    answer = see_other(start_page_path(caller))
    answer.headers["Referrer-Policy"] = "no-referrer"
    set_link_cookie(answer, request, caller, token)
    return answer


async def bad_link_page(request: Request) -> Response:
    """The answer to a bad link, after a delay."""
    await delay_bad_token(request)
    return render_page(request, "enter.html", status=404, to=None, again=False, name=None, who=None)


def is_from_here(request: Request) -> bool:
    """Whether the browser sent all its cookies, which it does unless another site sent it here.

    Most say who has sent them, but not to a host name without TLS. Who was sent by our own page has a number from it in the
    address and in a strict cookie, and another site can neither read nor set that.
    """
    if request.headers.get("sec-fetch-site") in SAME_SITE_VALUES:
        return True
    return request.query_params.get(CONFIRMATION_NAME) in tokens_of(request, CONFIRMATION_NAME)


def current_caller(gate: Gate, request: Request, caller: Caller) -> Admission | None:
    """Who this browser already is where a link leads: by that campaign's link, or as the owner."""
    owners = (OWNER_NAME,) if caller.campaign is None else (caller.campaign, OWNER_NAME)
    return next(filter(None, map(gate.opened, tokens_of(request, *owners))), None)


def set_link_cookie(answer: Response, request: Request, caller: Caller, token: str) -> None:
    """Set a cookie with a link, for as long as the link is valid."""
    left = (
        COOKIE_MAX_AGE_S if caller.expires is None else seconds_between(utc_now(), caller.expires)
    )
    set_cookie(
        answer, request, caller.campaign or OWNER_NAME, token, max(0, min(COOKIE_MAX_AGE_S, left))
    )


def set_cookie(answer: Response, request: Request, name: str, value: str, seconds: int) -> None:
    """Set a cookie that scripts cannot read and that only our own pages send."""
    secure = is_encrypted(request)
    answer.set_cookie(
        (HOST_COOKIE_PREFIX if secure else "") + COOKIE_NAME.format(name),
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
    return int((parse_time(other) - parse_time(one)).total_seconds())


@router.get("/leave")
async def ask_leave(request: Request) -> Response:
    """Whether this browser is to forget its links, and what that means."""
    names = cookie_campaigns(request)
    if not names:
        return see_other("/")
    return render_page(request, "leave.html", held=len(names), owns=OWNER_NAME in names)


@router.post("/leave")
async def submit_leave(request: Request) -> Response:
    """Forget the links that this browser holds, and nothing else: what waits there to be sent stays."""
    answer = see_other("/")
    for name in filter(COOKIE_NAME_PATTERN.fullmatch, request.cookies):
        secure = name.startswith(HOST_COOKIE_PREFIX)
        answer.delete_cookie(name, secure=secure, httponly=True, samesite="strict")
    return answer


@router.get("/static/{name}")
async def read_static(name: str) -> Response:
    """A file that pages are shown with; its address changes with it."""
    if name not in static_files():
        raise NotFound(f"there is no file {name[:40]!r}")
    kind = STATIC_MEDIA_TYPES[name.rpartition(".")[2]]
    kept = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(static_files()[name], headers=kept, media_type=kind)


@router.get("/")
async def show_home(request: Request) -> Response:
    """All campaigns for the server's owner, for others those whose links they hold; who holds none is told to open one."""
    gate: Gate = request.app.state.gate
    names = sorted(cookie_campaigns(request), key=OWNER_NAME.__ne__)  # the server's owner first
    callers = await run_in_threadpool(callers_of, gate, request, names[:BROWSER_MAX_LINKS])
    if names and not callers:
        await delay_bad_token(request)
    owner = next((one for one in callers if one.campaign is None), None)
    if owner is None and len(callers) == 1:
        return see_other(start_page_path(callers[0]))
    if not callers:
        return render_page(request, "welcome.html")
    log: Repository = request.app.state.log
    entries = await run_in_threadpool(campaign_cards, log, callers)
    who = owner or callers[0]
    asked = RequestContext(log, who, None, Author(who.who))
    return render_page(
        request,
        "campaigns.html",
        asked,
        entries=[one for one in entries if not is_archived(one[0])],
        archived=[one for one in entries if is_archived(one[0])],
        owns=owner is not None,
        more=len(names[BROWSER_MAX_LINKS:]),
    )


def cookie_campaigns(request: Request) -> list[str]:
    """The campaigns for which a browser has links, and the server's owner."""
    found = (COOKIE_NAME_PATTERN.fullmatch(name) for name in request.cookies)
    return list(dict.fromkeys(name[1] for name in found if name))


def callers_of(gate: Gate, request: Request, names: list[str]) -> list[Caller]:
    """Who looks, by each of the links of these names that hold."""
    found = map(gate.caller, tokens_of(request, *names))
    return [caller for caller in found if caller is not None]


def campaign_cards(log: Repository, callers: list[Caller]) -> list[tuple[CampaignEntry, str, str]]:
    """The campaigns to be seen, each with its page and since when nothing happened; the last first."""
    own = {
        caller.campaign: start_page_path(caller)
        for caller in callers
        if caller.campaign is not None
    }
    if any(caller.campaign is None for caller in callers):
        seen = list(campaign_entries(log))
    else:
        seen = [entry_of(log, campaign) for campaign in own]
    made = [
        (one, own.get(one.campaign, page_path(one.campaign)), last_change_of(one)) for one in seen
    ]
    return sorted(made, key=lambda entry: entry[2], reverse=True)


def is_archived(one: CampaignEntry) -> bool:
    """Whether a campaign was put away."""
    return one.state is not None and one.state.archived


def last_change_of(one: CampaignEntry) -> str:
    """When a campaign last changed; damaged ones sort first."""
    return utc_now() if one.state is None else one.state.changed
