"""Routes of links: issued, listed and revoked."""

from fastapi import APIRouter, Request, Response

from heterobandits.campaigns import responses_schema, serialization
from heterobandits.campaigns.links import issue_link, revoke_link
from heterobandits.web.api import requests_schema
from heterobandits.web.api.base import ApiRoute, json_reply
from heterobandits.web.errors import NotFound
from heterobandits.web.requests import Context
from heterobandits.web.turns import compute_by_size, lists_many

router = APIRouter(route_class=ApiRoute)


@router.get("/api/campaigns/{campaign}/links", response_model=responses_schema.LinksJson)
async def list_links_route(request: Request, asked: Context) -> Response:
    """All links of a campaign, also those that are revoked."""
    state = asked.state

    def draw() -> Response:
        uses = asked.log.store.uses(asked.id)
        links = [serialization.json_of_link(state, link, uses) for link in state.links.values()]
        return json_reply(state, {"links": links})

    return await compute_by_size(request, draw, lists_many(state))


@router.post(
    "/api/campaigns/{campaign}/links", response_model=responses_schema.NewLinkJson, status_code=201
)
def issue_link_route(asked: Context, body: requests_schema.LinkBody) -> Response:
    """A link for somebody. Its token is in this answer and nowhere else, not even in the same answer again."""
    done, token = issue_link(*asked.where, **body.model_dump())
    state = serialization.state_after(asked.log, done)
    known: str | None = None if done.repeated else token
    link = serialization.json_of_link(state, state.links[done.events[0].body["link"]])
    url = None if known is None else address_of_link(asked.base, known)
    answer = json_reply(state, {**link, "url": url, "token": known}, 201)
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.delete("/api/campaigns/{campaign}/links/{link}", response_model=responses_schema.LinkJson)
def revoke_link_route(asked: Context, link: str) -> Response:
    """A link no longer opens anything."""
    if link not in asked.state.links:
        raise NotFound(f"there is no link {link[:40]!r}")
    done = revoke_link(*asked.where, link)
    state = serialization.state_after(asked.log, done)
    return json_reply(state, serialization.json_of_link(state, state.links[link]))


def address_of_link(base: str, token: str) -> str:
    """Where a link leads."""
    return f"{base}/enter/{token}"
