"""What lets the page of reports open without a network: the worker that browsers keep, with the files that it needs."""

import hashlib
import json
from functools import cache

from fastapi import APIRouter, Request, Response

from heterobandits.output.pages import render_template
from heterobandits.web.pages.base import PAGE_HEADERS, PageRoute, static_files, static_path

SHELL_FILES = (
    "site.css",
    "site.js",
    "queue.js",
    "report.js",
    "codes.js",
    "icon.svg",
)  # of the page of reports

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/worker.js")
async def read_worker(request: Request) -> Response:
    """The worker of this version; that of another has another text, by which browsers know it. It may serve all paths below its own."""
    return Response(
        render_worker(request.app.state.demo), headers=PAGE_HEADERS, media_type="text/javascript"
    )


@cache
def render_worker(demo: bool) -> str:
    """The worker's text: what it needs to know, and where the rest of it is."""
    page = render_template(
        "site/away.html",
        caller=None,
        state=None,
        menu=[],
        at="/",
        style=static_path("site.css"),
        script=static_path("site.js"),
        static=static_path,
        demo=demo,
        undo=None,
    )
    version = hashlib.sha256(b"".join(map(static_path_bytes, sorted(static_files())))).hexdigest()
    site = {
        "version": version[:12],
        "files": [static_path(name) for name in SHELL_FILES],
        "away": page,
    }
    # a line separator is one in old scripts, and in no JSON
    text = json.dumps(site, ensure_ascii=True)
    parts = ", ".join(json.dumps(static_path(name)) for name in ("queue.js", "worker.js"))
    return f'"use strict";\nself.SITE = {text};\nimportScripts({parts});\n'


def static_path_bytes(name: str) -> bytes:
    """The address of a static file, which has the hash of what is in it."""
    return static_path(name).encode()
