"""Routes of links: issued, listed, revoked, and where a link leads."""

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse

from heterobandits.campaigns import service
from heterobandits.campaigns.log import Log
from heterobandits.pages import rendered
from heterobandits.web import bodies, shapes, views
from heterobandits.web.access import Caller
from heterobandits.web.guard import Asking, Guarded, slow_down
from heterobandits.web.problems import NotFound
from heterobandits.web.replies import reply

PRIVATE = {  # the address is the key: it is kept nowhere and told to nobody
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
}

router = APIRouter(route_class=Guarded)


@router.get("/api/campaigns/{campaign}/links", response_model=shapes.Links)
def list_links(asked: Asking) -> Response:
    """All links of a campaign, also those that are revoked."""
    links = [views.link(asked.state, link) for link in asked.state.links.values()]
    return reply(asked.state, {"links": links})


@router.post("/api/campaigns/{campaign}/links", response_model=shapes.NewLink, status_code=201)
def issue_link(asked: Asking, body: bodies.LinkBody) -> Response:
    """A link for somebody. Its token is in this answer and nowhere else, not even in the same answer again."""
    done, token = service.issue_link(asked.log, asked.id, asked.asker, **body.model_dump())
    state = views.after(asked.log, done)
    known: str | None = None if done.repeated else token
    link = views.link(state, state.links[done.events[0].body["link"]])
    url = None if known is None else address(asked.base, known)
    return reply(state, {**link, "url": url, "token": known}, 201)


@router.delete("/api/campaigns/{campaign}/links/{link}", response_model=shapes.Link)
def revoke_link(asked: Asking, link: str) -> Response:
    """A link no longer opens anything."""
    if link not in asked.state.links:
        raise NotFound(f"there is no link {link[:40]!r}")
    done = service.revoke_link(asked.log, asked.id, asked.asker, link)
    state = views.after(asked.log, done)
    return reply(state, views.link(state, state.links[link]))


@router.get(
    "/enter/{token}",
    response_class=HTMLResponse,
    responses={404: {"description": "It opens nothing", "content": {"text/html": {}}}},
)
async def enter(request: Request, token: str) -> Response:
    """Where a link leads: what it is for."""
    caller = await run_in_threadpool(request.app.state.gate.caller, token)
    if caller is None:
        await slow_down(request)
        return HTMLResponse(rendered("enter.html", caller=None, campaign=None), 404, PRIVATE)
    name = await run_in_threadpool(named, request.app.state.log, caller)
    return HTMLResponse(rendered("enter.html", caller=caller, campaign=name), 200, PRIVATE)


def named(log: Log, caller: Caller) -> str | None:
    """The name of the campaign that a link is of."""
    return None if caller.campaign is None else log.state(caller.campaign).name


def address(base: str, token: str) -> str:
    """Where a link leads."""
    return f"{base}/enter/{token}"
