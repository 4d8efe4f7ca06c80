"""Where links lead, the list of campaigns, and how one leaves."""

import re

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from heterobandits.campaigns.events import now
from heterobandits.campaigns.finding import Found, all_found, found
from heterobandits.campaigns.log import Log
from heterobandits.campaigns.log import Request as Asker
from heterobandits.web.access import OWNER, Caller, Gate
from heterobandits.web.guard import Asked, base_of, slow_down
from heterobandits.web.problems import NotFound
from heterobandits.web.site.paging import (
    COOKIE,
    KINDS_OF_FILES,
    LONGEST,
    Paged,
    files,
    home,
    page,
    seen_again,
    start,
    tokens_of,
)

HELD = re.compile(COOKIE.format(f"({OWNER}|[0-9a-f]{{12}})"))

router = APIRouter(route_class=Paged, include_in_schema=False)


@router.get("/enter/{token}")
async def enter(request: Request, token: str) -> Response:
    """Where a link leads: its token becomes a cookie, and leaves the address bar.

    The page goes on by itself. A plain redirect would not do: after a link in a message, which is another site, browsers send no
    strict cookie until a page of our own has asked for the next.
    """
    caller = await run_in_threadpool(request.app.state.gate.caller, token)
    if caller is None:
        await slow_down(request)
        return page(request, "enter.html", status=404, to=None, name=None, who=None)
    name = await run_in_threadpool(named, request.app.state.log, caller)
    answer = page(request, "enter.html", to=start(caller), name=name, who=caller)
    answer.headers["Referrer-Policy"] = "no-referrer"  # the address is the key
    answer.set_cookie(
        COOKIE.format(caller.campaign or OWNER),
        token,
        max_age=LONGEST,
        secure=base_of(request).startswith("https"),
        httponly=True,
        samesite="strict",
    )
    return answer


def named(log: Log, caller: Caller) -> str | None:
    """The name of the campaign that a link is of."""
    return None if caller.campaign is None else log.state(caller.campaign).name


@router.post("/leave")
async def leave(request: Request) -> Response:
    """Forget the links that this browser holds."""
    answer = seen_again("/")
    for name in held(request):
        answer.delete_cookie(COOKIE.format(name), httponly=True, samesite="strict")
    return answer


@router.get("/static/{name}")
async def read_static(name: str) -> Response:
    """A file that pages are shown with; its address changes with it."""
    if name not in files():
        raise NotFound(f"there is no file {name[:40]!r}")
    kind = KINDS_OF_FILES[name.rpartition(".")[2]]
    kept = {
        "Cache-Control": "public, max-age=31536000, immutable",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(files()[name], headers=kept, media_type=kind)


@router.get("/")
async def begin(request: Request) -> Response:
    """All campaigns for the server's owner, for others those whose links they hold; who holds none is told to open one."""
    gate: Gate = request.app.state.gate
    callers = await run_in_threadpool(callers_of, gate, request)
    if held(request) and not callers:
        await slow_down(request)
    owner = next((one for one in callers if one.campaign is None), None)
    if owner is None and len(callers) == 1:
        return seen_again(start(callers[0]))
    if not callers:
        return page(request, "welcome.html")
    log: Log = request.app.state.log
    entries = await run_in_threadpool(listed, log, callers)
    who = Asked(log, owner or callers[0], None, Asker((owner or callers[0]).who), b"", "")
    return page(request, "campaigns.html", who, entries=entries, owns=owner is not None)


def held(request: Request) -> list[str]:
    """The campaigns whose links a browser holds, and the server's owner."""
    found = (HELD.fullmatch(name) for name in request.cookies)
    return [name[1] for name in found if name]


def callers_of(gate: Gate, request: Request) -> list[Caller]:
    """Who looks, by each of the links that hold."""
    found = (gate.caller(token) for name in held(request) for token in tokens_of(request, name))
    return [caller for caller in found if caller is not None]


def listed(log: Log, callers: list[Caller]) -> list[tuple[Found, str, str]]:
    """The campaigns to be seen, each with its page and since when nothing happened; the last first."""
    own = {caller.campaign: start(caller) for caller in callers if caller.campaign is not None}
    if any(caller.campaign is None for caller in callers):
        seen = list(all_found(log))
    else:
        seen = [found(log, campaign) for campaign in own]
    made = [(one, own.get(one.campaign, home(one.campaign)), changed_of(one)) for one in seen]
    return sorted(made, key=lambda entry: entry[2], reverse=True)


def changed_of(one: Found) -> str:
    """When a campaign has changed last; a damaged one comes first."""
    return now() if one.state is None else one.state.changed
