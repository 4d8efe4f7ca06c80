"""A real server of campaigns for tests, and the app itself without one."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import httpx
from starlette.requests import Request

from heterobandits.campaigns.links import hash_of_token
from heterobandits.campaigns.storage.repository import Repository
from heterobandits.campaigns.storage.store import Store
from heterobandits.web.app import create_app
from heterobandits.web.auth import BadTokenBackoff, Gate
from heterobandits.web.budgets import Budgets
from heterobandits.web.link_uses import LinkUseNotes
from heterobandits.web.pages.history import Chronicles
from heterobandits.web.turns import ServerPlaces

OWNER = "hb_owner_" + "o" * 43
SERVE = """
import sys
from heterobandits.cli import main
main(sys.argv[1:])
"""
COLD = f"""
from heterobandits.web import warmup
warmup.prepare_kernels = lambda note: warmup.Warmup([])
{SERVE}"""  # kernels are loaded when they are needed, which is soon enough for a test
NORTH = {
    "name": "North park",
    "agents": [
        {"name": "Ana", "sensitivity": 0.9},
        {"name": "Ben", "sensitivity": 0.6},
        {"name": "Chi", "calibration": [17, 20], "tests": 12},
    ],
    "arms": [
        *({"name": name} for name in ("river", "hill")),
        *({"name": name, "prior": [1, 1]} for name in ("gate", "lake")),  # of half of them
    ],
    "seed": 3,
    "season": 30,
}
UNKNOWN = NORTH | {"arms": ["river", "hill", "gate", "lake"]}  # of which nothing can be forecast


class Asker(httpx.Client):
    """A client of the app itself, with a token, that may be none."""

    def __init__(self, app, token=OWNER, *, strict=True):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = Inside(app, strict)
        super().__init__(transport=transport, base_url="http://127.0.0.1", headers=headers)


class Visitor(Asker):
    """A browser without JavaScript: it holds links as cookies, and sends forms as a page of the site does."""

    def __init__(self, app, *tokens):
        super().__init__(app, None)
        self.headers["Sec-Fetch-Site"] = "none"  # as if addresses were typed
        self._tokens = tokens
        self.headers["Sec-Fetch-Site"] = "none"  # nobody has sent it here

    def __enter__(self):
        super().__enter__()
        for token in self._tokens:
            answer = self.get(f"/enter/{token}")
            assert answer.status_code == 200
            if "set-cookie" not in answer.headers:  # it holds another one, and is asked
                assert self.submit(f"/enter/{token}").status_code == 303
        return self

    def submit(self, path, /, **fields):
        """What a form is answered with; the next page is not opened."""
        return self.post(path, data=fields, headers={"Origin": "http://127.0.0.1"})


class Inside(httpx.BaseTransport):
    """The app answers in this process; what it fails with is raised here, if it is strict."""

    def __init__(self, app, strict):
        self._app = httpx.ASGITransport(app, raise_app_exceptions=strict)
        self._runner = asyncio.Runner()

    def handle_request(self, request):
        request.read()
        return self._runner.run(self._answer(request))

    async def _answer(self, request):
        answer = await self._app.handle_async_request(request)
        body = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=body)

    def close(self):
        self._runner.close()


class NoLinkUses(LinkUseNotes):
    """Notes none: a loop of a test ends with its last answer, and nobody waits there for what is still written."""

    def is_due(self, campaign, link):
        return False


TAKEN, IDLE = [], []  # apps; a route takes longer to build than to answer, so apps are used again
STATE = {
    "slowing": BadTokenBackoff,
    "places": partial(
        ServerPlaces, large=1
    ),  # so that one who holds it is in the way of all others
    "budgets": Budgets,
    "chronicles": Chronicles,
    "warmup": lambda: None,
    "link_uses": NoLinkUses,
}


def app_on(path):
    """The app over a database, and its log; apps that other tests have left have their routes already."""
    if not path.exists():
        path.write_bytes(empty_database())
    log = Repository(Store(path))
    app = IDLE.pop() if IDLE else create_app(log, None)
    TAKEN.append(app)
    app.state.log, app.state.gate = log, Gate(log, hash_of_token(OWNER))
    app.state.metrics.__init__()  # in its place, for what counts requests holds on to it
    for name, make in STATE.items():
        setattr(app.state, name, make())
    return app, log


@contextmanager
def lent_apps():
    """Apps that are made within are idle afterwards, and their stores closed."""
    before = len(TAKEN)
    yield
    for app in TAKEN[before:]:
        app.state.log.store.close()
    IDLE.extend(TAKEN[before:])
    del TAKEN[before:]


@cache
def empty_database():
    """The bytes of a database without campaigns, which takes longer to make than to copy."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        Store(path).close()
        return path.read_bytes()


def somebody(number=0):
    """A request by somebody else, of another campaign."""

    async def receive():
        await asyncio.Event().wait()

    path = {"campaign": f"another {number}"}
    return Request({"type": "http", "path_params": path, "client": None, "state": {}}, receive)


def calling(app, token):
    """A client that may ask for many things at once."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    inside = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=inside, base_url="http://127.0.0.1", headers=headers)


async def until(condition):
    """Wait until something is so."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


class Server:
    """A server in a process of its own."""

    def __init__(self, database, *options, env=None, code=SERVE):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, "serve", "--database", str(database), "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HETEROBANDITS_OWNER_TOKEN": OWNER, **(env or {})},
        )  # fmt: skip
        self.noted = []
        self._reader = threading.Thread(target=self._read_notes, daemon=True)
        self._reader.start()
        self.said = self.process.stdout.readline()
        found = re.search(r"https?://\S+", self.said)
        if found is None:
            self.process.wait(10)
            raise AssertionError(f"it does not serve: {self.said!r} {''.join(self.noted)!r}")
        self.url = found[0]

    def _read_notes(self):
        self.noted.extend(self.process.stderr)

    def end(self, number=signal.SIGTERM):
        """Its exit code and all it printed."""
        self.process.send_signal(number)
        rest = self.process.stdout.read()
        code = self.process.wait(30)
        self._reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()
        return code, self.said + rest, "".join(self.noted)


@contextmanager
def served(database, *options, env=None):
    """A server that is ended in any case, and loads no kernels before it is asked."""
    server = Server(database, *options, env=env, code=COLD)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()
