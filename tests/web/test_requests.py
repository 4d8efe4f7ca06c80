"""The guard: of an outcome that arrives everything is done once, and a link that ends while its body comes is told nothing."""

import asyncio
import hashlib
import json
import threading
from collections import Counter

import httpx
import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.links import issue_link, revoke_link
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.web.request_fields import Form
from serving import NORTH, Asker, Visitor, app_on

ME = Author("Vera")
BODY = {"round", "agent", "arm", "successes", "tests"}


def has_body(value):
    """Whether a value is the body of a reported event, or has one."""
    if isinstance(value, dict):
        return set(value) == BODY and isinstance(value["agent"], str)
    return isinstance(value, list) and any(map(has_body, value))


@pytest.fixture
def counts(monkeypatch):
    """How often things were done that cost something."""
    found = Counter()

    def count(owner, name, what, counts=lambda *given: True):
        done = getattr(owner, name)

        def counted(*given, **more):
            if counts(*given):
                found[what] += 1
                if threading.current_thread() is threading.main_thread():
                    found["on the event loop"] += 1
            return done(*given, **more)

        monkeypatch.setattr(owner, name, counted)

    count(Repository, "state", "state read")
    count(Form, "__init__", "body parsed")
    count(json, "loads", "body parsed", lambda text: "successes" in text)
    count(json.JSONEncoder, "encode", "event written", lambda _, value: has_body(value))
    count(hashlib, "sha256", "event hashed", lambda data=b"": b'"reported"' in data)
    return found


@pytest.fixture
def park(tmp_path):
    """The app, its log, and a campaign with a round."""
    app, log = app_on(tmp_path / "x.db")
    campaign = service.create(log, ME, **NORTH).state.campaign
    yield app, log, service.plan_round(log, campaign, ME).state
    log.store.close()


def token_of(log, state, role):
    _, token = issue_link(log, state.campaign, ME, role=role, name="Rita")
    return token


class TestOneOutcome:
    """A report by a link."""

    ONCE = dict.fromkeys(("state read", "body parsed", "event written", "event hashed"), 1)

    def test_by_a_program(self, park, counts):
        app, log, state = park
        place = f"/api/campaigns/{state.campaign}/rounds/1/outcomes/agent-1"
        with Asker(app, token_of(log, state, "reporter")) as ask:
            counts.clear()
            assert ask.put(place, json={"successes": 1, "tests": 1}).status_code == 201
        assert counts == self.ONCE

    def test_by_a_page(self, park, counts):
        app, log, state = park
        (arm,) = state.round(1).arms_of(0)
        outcome = {"arm": f"arm-{arm + 1}", "do": "count", "successes": "1", "tests": "1"}
        with Visitor(app) as visitor:
            visitor.cookies.set(f"hb_{state.campaign}", token_of(log, state, "reporter"))
            counts.clear()
            place = f"/campaigns/{state.campaign}/rounds/1/outcomes/agent-1"
            assert visitor.submit(place, **outcome, key="k").status_code == 303
        assert counts == self.ONCE


@pytest.mark.parametrize("ends", [False, True], ids=["it holds", "it ends"])
@pytest.mark.parametrize("kind", ["program", "page"])
def test_a_link_that_ends_while_its_body_comes_is_told_nothing(park, kind, ends):
    """Of what is only looked at, too, where no event is written that would be refused."""
    app, log, state = park
    token = token_of(log, state, "planner")
    if kind == "program":
        path, body, status = f"/api/campaigns/{state.campaign}/rounds?preview=true", b"{}", 200
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    else:  # whoever looked at another plan is shown this one
        path, body, status = f"/campaigns/{state.campaign}/plan", b"shown=another", 412
        headers = {"Cookie": f"hb_{state.campaign}={token}", "Origin": "http://h"}

    async def late():
        if ends:
            link = token.split("_")[2]
            await asyncio.to_thread(revoke_link, log, state.campaign, ME, link)
        await asyncio.sleep(0)
        yield body

    async def asked():
        inside = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=inside, base_url="http://h") as client:
            return await client.post(path, content=late(), headers=headers)

    answer = asyncio.run(asked())
    assert answer.status_code == (401 if ends else status)
    told = any(name in answer.text for name in ("North park", *state.arm_names))
    assert told == (not ends)
