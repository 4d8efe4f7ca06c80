"""The app: all routes over a log of campaigns, behind the gate, and their description as OpenAPI."""

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

from heterobandits.campaigns.storage.repository import Log
from heterobandits.provenance import version
from heterobandits.web.api import campaigns, knowledge, links, rounds, server
from heterobandits.web.auth import ALLOWED, ANYONE, Gate, Slowing
from heterobandits.web.budgets import Budgets
from heterobandits.web.errors import KINDS, MEDIA, ProblemDetails
from heterobandits.web.metrics import Counted, Metrics
from heterobandits.web.pages import ahead, history, home, known, new_campaign, plan, report, team
from heterobandits.web.pages import links as link_pages
from heterobandits.web.pages.base import handle_errors
from heterobandits.web.turns import QUICK, Places

ROUTERS = (server, campaigns, rounds, knowledge, links)
PAGES = (home, new_campaign, known, plan, report, ahead, history, team, link_pages)
THREADS = 2 * QUICK  # that answer requests: so many compute, and so many look meanwhile who asks
SWITCH = (
    0.0002  # seconds after which a thread gives way to another: a request changes threads often
)
SCHEMAS = "#/components/schemas/"
PROBLEM = {MEDIA: {"schema": {"$ref": f"{SCHEMAS}ProblemDetails"}}}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key again gives the first answer, and nothing is done twice.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}

CAMPAIGN = {
    "name": "campaign",
    "in": "path",
    "required": True,
    "description": "The id of a campaign.",
    "schema": {"type": "string"},
}


def create_app(log: Log, owner_hash: str | None, demo: bool = False) -> FastAPI:
    """The app over these campaigns. A demo says so on every page.

    Who holds the token with this hash owns the server; without one, who holds the token whose hash is in the store.
    """
    app = FastAPI(
        title="heterobandits",
        version=version("heterobandits"),
        openapi_url=None,  # whose route would write it anew for everybody
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=few_threads,
        generate_unique_id_function=lambda route: route.name.removesuffix("_route"),
    )
    app.state.log = log
    app.state.gate = Gate(log, owner_hash)
    app.state.slowing = Slowing()
    app.state.metrics = Metrics()
    app.state.demo = demo
    app.state.places = Places()
    app.state.budgets = Budgets()
    app.state.chronicles = history.Chronicles()
    for module in (*ROUTERS, *PAGES):
        app.include_router(module.router)
    handle_errors(app)
    app.add_middleware(Counted, metrics=app.state.metrics)
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
async def few_threads(app: FastAPI) -> AsyncIterator[None]:
    """Within, few threads answer requests, and none holds the interpreter for long: neither to compute nor to look for garbage."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    gc.freeze()  # what was loaded stays, and need not be looked through while all wait
    yield
    gc.unfreeze()
    sys.setswitchinterval(before)


def openapi_of(app: FastAPI) -> dict[str, Any]:
    """The app as OpenAPI: with the token that is needed, the problems it may answer with, and the key of writes."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    made = get_openapi(title=app.title, version=app.version, routes=app.routes)
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schema = TypeAdapter(ProblemDetails).json_schema(ref_template=SCHEMAS + "{model}")
    schemas |= schema.pop("$defs", {})
    schemas["ProblemDetails"] = schema
    components["securitySchemes"] = {"link": {"type": "http", "scheme": "bearer"}}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            if ALLOWED.get((method.upper(), path)) != ANYONE:
                describe(method.upper(), path, operation)
    app.openapi_schema = made
    return made


def describe(method: str, path: str, operation: dict[str, Any]) -> None:
    """Add what all routes behind the gate have in common."""
    operation["security"] = [{"link": []}]
    responses, parameters = operation["responses"], operation.setdefault("parameters", [])
    for kind in KINDS:
        described = {"description": kind.title, "content": PROBLEM}
        responses.setdefault(str(kind.status), described)
    if "{campaign}" in path:  # the guard reads it, before the route does its work
        parameters.insert(0, CAMPAIGN)
    if method != "GET":
        parameters.append(KEY)
    elif "{campaign}" in path:
        responses["304"] = {"description": "The campaign has not changed since that ETag"}
