"""The app: all routes over a repository of campaigns, behind the guard, and their OpenAPI description."""

import gc
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool

from heterobandits.campaigns.storage.repository import Repository
from heterobandits.provenance import version_of
from heterobandits.web.api import campaigns, knowledge, links, rounds, server
from heterobandits.web.auth import ANYONE_ROLES, ROUTE_ROLES, BadTokenBackoff, Gate
from heterobandits.web.budgets import Budgets
from heterobandits.web.errors import PROBLEM_KINDS, PROBLEM_MEDIA_TYPE, ProblemDetails
from heterobandits.web.link_uses import LinkUseNotes
from heterobandits.web.metrics import CountedApp, Metrics
from heterobandits.web.pages import (
    ahead,
    handover,
    history,
    home,
    known,
    new_campaign,
    offline,
    paper,
    plan,
    report,
    team,
)
from heterobandits.web.pages import links as link_pages
from heterobandits.web.pages.base import handle_errors
from heterobandits.web.turns import QUICK_PLACES, ServerPlaces
from heterobandits.web.warmup import Warmup

API_MODULES = (server, campaigns, rounds, knowledge, links)
PAGE_MODULES = (
    home,
    offline,
    new_campaign,
    known,
    plan,
    handover,
    report,
    paper,
    ahead,
    history,
    team,
    link_pages,
)
# that answer requests: so many compute, and so many look meanwhile who asks
SERVER_THREADS = 2 * QUICK_PLACES
THREAD_SWITCH_INTERVAL_S = (
    0.0002  # seconds after which a thread gives way to another: a request changes threads often
)
SCHEMAS_PREFIX = "#/components/schemas/"
PROBLEM_CONTENT = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": f"{SCHEMAS_PREFIX}ProblemDetails"}}}
IDEMPOTENCY_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key again gives the first answer, and nothing is done twice.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}

CAMPAIGN_PARAMETER = {
    "name": "campaign",
    "in": "path",
    "required": True,
    "description": "The id of a campaign.",
    "schema": {"type": "string"},
}


def create_app(
    log: Repository, owner_hash: str | None, demo: bool = False, warmup: Warmup | None = None
) -> FastAPI:
    """The app over these campaigns. A demo is marked as one on every page.

    Who holds the token with this hash owns the server; without one, who holds the token whose hash is in the store. Without a warmup
    nobody waits for kernels: they are loaded or compiled when a request needs them.
    """
    app = FastAPI(
        title="heterobandits",
        version=version_of("heterobandits"),
        openapi_url=None,  # whose route would write it anew for everybody
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=limit_threads,
        generate_unique_id_function=lambda route: route.name.removesuffix("_route"),
    )
    app.state.log = log
    app.state.gate = Gate(log, owner_hash)
    app.state.slowing = BadTokenBackoff()
    app.state.metrics = Metrics()
    app.state.demo = demo
    app.state.warmup = warmup
    app.state.places = ServerPlaces()
    app.state.budgets = Budgets()
    app.state.link_uses = LinkUseNotes()
    app.state.chronicles = history.Chronicles()
    for module in (*API_MODULES, *PAGE_MODULES):
        app.include_router(module.router)
    handle_errors(app)
    app.add_middleware(CountedApp, metrics=app.state.metrics)
    app.openapi = lambda: openapi_of(app)  # type: ignore[method-assign]

    @cache
    def written() -> bytes:
        return json.dumps(app.openapi(), ensure_ascii=False).encode()

    async def openapi(request: Request) -> Response:
        text = await run_in_threadpool(written)
        return Response(text, media_type="application/json")

    app.add_route("/api/openapi.json", openapi, include_in_schema=False)
    return app


@asynccontextmanager
async def limit_threads(app: FastAPI) -> AsyncIterator[None]:
    """Within this context, few threads answer requests, and none holds the interpreter for long."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = SERVER_THREADS
    before = sys.getswitchinterval()
    sys.setswitchinterval(THREAD_SWITCH_INTERVAL_S)
    gc.freeze()  # what was loaded stays, and need not be looked through while all wait
    yield
    await app.state.link_uses.finish()
    gc.unfreeze()
    sys.setswitchinterval(before)


def openapi_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description of the app, with the token, the problems and the idempotency key that routes share."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    made = get_openapi(title=app.title, version=app.version, routes=app.routes)
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schema = TypeAdapter(ProblemDetails).json_schema(ref_template=SCHEMAS_PREFIX + "{model}")
    schemas |= schema.pop("$defs", {})
    schemas["ProblemDetails"] = schema
    components["securitySchemes"] = {"link": {"type": "http", "scheme": "bearer"}}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            if ROUTE_ROLES.get((method.upper(), path)) != ANYONE_ROLES:
                describe_operation(method.upper(), path, operation)
    app.openapi_schema = made
    return made


def describe_operation(method: str, path: str, operation: dict[str, Any]) -> None:
    """Add what all guarded routes have in common."""
    operation["security"] = [{"link": []}]
    responses, parameters = operation["responses"], operation.setdefault("parameters", [])
    for kind in PROBLEM_KINDS:
        described = {"description": kind.title, "content": PROBLEM_CONTENT}
        responses.setdefault(str(kind.status), described)
    if "{campaign}" in path:  # the guard reads it, before the route does its work
        parameters.insert(0, CAMPAIGN_PARAMETER)
    if method != "GET":
        parameters.append(IDEMPOTENCY_KEY_PARAMETER)
    elif "{campaign}" in path:
        responses["304"] = {"description": "The campaign has not changed since that ETag"}
