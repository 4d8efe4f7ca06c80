"""Requests made at random from the app's own description: no failure, and every answer is as described.

HETEROBANDITS_FUZZ says how many are made for each route: a few by default, thousands for a long run.
"""

import os
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from heterobandits.campaigns import serialization, service
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.storage.repository import Author
from heterobandits.web.auth import API_ROUTE_ROLES
from serving import NORTH, OWNER, app_on

if find_spec("schemathesis") is None:
    assert os.environ.get("CI") != "true", "schemathesis is not installed: nothing is tested"
    pytest.skip("schemathesis is not installed", allow_module_level=True)
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    ignored_auth,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

EXAMPLES = int(os.environ.get("HETEROBANDITS_FUZZ", "12"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
    ignored_auth,
]
ROUTES = sorted(set(API_ROUTE_ROLES) - {("GET", "/api/openapi.json")})
PLAIN = {("GET", path) for path in ("/api/campaigns", "/api/health", "/metrics")}
KNOWN = {"round": 1, "agent": "Ana", "arm": "river", "link": "none"}


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return str(value).encode(errors="replace")


class World:
    """The app over a campaign in which something has happened."""

    def __init__(self, path):
        self.app, self.log = app_on(path)
        self.app.state.slowing.FIRST = 0.0
        me = Author("Vera")
        self.campaign = service.create(self.log, me, **NORTH).state.campaign
        service.plan_round(self.log, self.campaign, me)
        report_outcomes(self.log, self.campaign, me, 1, {"Ana": 1})
        issue_link(self.log, self.campaign, me, role="viewer", name="Eva")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("fuzz") / "campaigns.db")
    yield made
    made.log.store.close()


@pytest.fixture(scope="module")
def described(world):
    return schemathesis.openapi.from_asgi("/api/openapi.json", world.app)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "route"), ROUTES)
@pytest.mark.parametrize("mode", GenerationMode)
def test_every_answer_is_as_described(world, described, method, route, mode):
    """To what is described and to what is not. The campaign is there; the rest of a path is so half of the time."""
    if mode is GenerationMode.NEGATIVE and (method, route) in PLAIN:
        pytest.skip("there is nothing to say wrongly")
    asked = []

    @given(case=described[route][method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        parts = case.path_parameters or {}
        for name in parts:
            if name == "campaign":
                parts[name] = world.campaign
            elif name in KNOWN and len(str(parts[name])) % 2:
                parts[name] = KNOWN[name]
        answer = case.call_and_validate(headers={"Authorization": f"Bearer {OWNER}"}, checks=CHECKS)
        asked.append(answer.status_code)

    ask()
    assert asked


def test_a_failure_would_be_seen(tmp_path, monkeypatch):
    """The same checks find an answer that is not as described."""
    app, log = app_on(tmp_path / "x.db")
    found = schemathesis.openapi.from_asgi("/api/openapi.json", app)
    case = found["/api/campaigns"]["GET"].Case()
    headers = {"Authorization": f"Bearer {OWNER}"}
    case.call_and_validate(headers=headers, checks=CHECKS)
    service.create(log, Author("Vera"), **NORTH)
    monkeypatch.setattr(serialization, "json_of_entry", lambda state: {"id": 7})
    with pytest.raises(schemathesis.checks.FailureGroup):
        case.call_and_validate(headers=headers, checks=CHECKS)
