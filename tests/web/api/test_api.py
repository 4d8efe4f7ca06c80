"""The HTTP API as programs use it: what each route answers, keys, ETags, problems, names of any letters."""

import asyncio
import csv
import difflib
import io
import json
import os
import re
import sqlite3
import threading
import time
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import ClassVar
from urllib.parse import quote

import pytest
from pydantic import TypeAdapter
from scipy.stats import beta
from starlette.exceptions import HTTPException
from starlette.requests import Request

from heterobandits.campaigns import (
    plan_events,
    reducer,
    responses_schema,
    serialization,
    service,
    validation,
)
from heterobandits.campaigns.analysis import projection
from heterobandits.campaigns.events import OWNER_NAME
from heterobandits.campaigns.exchange import export_events
from heterobandits.campaigns.links import revoke_link
from heterobandits.campaigns.storage.repository import Author as Who
from heterobandits.campaigns.storage.store import StoreUnavailable
from heterobandits.campaigns.validation import Reports
from heterobandits.interrupts import end_abandoned_work
from heterobandits.planner import planning
from heterobandits.web import budgets
from heterobandits.web import turns as module
from heterobandits.web.api import base, campaigns, knowledge
from heterobandits.web.auth import (
    ANYONE_ROLES,
    API_ROUTE_ROLES,
    BODY_MAX_BYTES_BY_ROUTE,
    LINK_ACCESS,
    OWNER_ACCESS,
    PLANNER_ACCESS,
    READER_ACCESS,
    REPORTER_ACCESS,
    ROUTE_ROLES,
    SERVER_ROLES,
    SMALL_BODY_MAX_BYTES,
)
from heterobandits.web.errors import PROBLEM_KINDS
from heterobandits.web.pages import report, team
from heterobandits.web.request_fields import parse_body
from paths import DOCS
from serving import NORTH, OWNER, UNKNOWN, Asker, Visitor, app_on, calling, somebody, until

HOSTILE = (
    "a/b",
    "50%",
    "a?b#c",
    "..",
    "x y",
    "日本",
    "عربى",
    "<b>&amp;",
    "%2F",
    "=1+1",
    "a//b",
    "arms",
)


JSON = {"Content-Type": "application/json"}


@pytest.fixture
def made(tmp_path):
    """The app and its log, over an empty database."""
    app, log = app_on(tmp_path / "campaigns.db")
    return app, log


@pytest.fixture
def ask(made):
    with Asker(made[0]) as client:
        yield client


@pytest.fixture
def log(made):
    return made[1]


@pytest.fixture
def north(ask):
    """A campaign with a round that waits."""
    place = f"/api/campaigns/{ask.post('/api/campaigns', json=NORTH).json()['id']}"
    assert ask.post(f"{place}/rounds", json={"absent": ["Ben"]}).status_code == 201
    return place


def conforms(shape, answer, status=200):
    """What an answer says, if it has the status and the shape."""
    assert answer.status_code == status, answer.text
    TypeAdapter(shape).validate_python(answer.json(), strict=True, extra="forbid")
    assert set(answer.json()) == set(shape.__annotations__)
    return answer.json()


def refused(answer, status, kind):
    """The problem that an answer tells of."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"] == f"/problems/{kind}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"].startswith("/")
    return problem


def paths(answer):
    """The fields that a refusal names."""
    return [error["path"] for error in refused(answer, 422, "invalid-input")["errors"]]


class TestCampaigns:
    """Made, listed, changed."""

    def test_a_new_campaign_is_as_asked_for(self, ask):
        answer = ask.post("/api/campaigns", json=NORTH)
        said = conforms(responses_schema.CampaignJson, answer, 201)
        assert [agent["name"] for agent in said["agents"]] == ["Ana", "Ben", "Chi"]
        assert [arm["id"] for arm in said["arms"]] == ["arm-1", "arm-2", "arm-3", "arm-4"]
        assert said["agents"][2]["sensitivity"] == pytest.approx(17 / 20, abs=0.05)
        assert (said["seed"], said["season"], said["rounds"]) == (3, 30, 0)
        assert answer.headers["etag"] == '"1"'
        assert ask.get(f"/api/campaigns/{said['id']}").json() == said
        listed = conforms(responses_schema.EntriesJson, ask.get("/api/campaigns"))
        assert [one["id"] for one in listed["campaigns"]] == [said["id"]]

    def test_every_wrong_field_is_named_at_once(self, ask, log):
        agents = [
            {"name": "Ana", "sensitivity": 1.5},
            {"name": "Ana", "sensitivity": 0.5},
            {"name": "Ben", "sensitivity": "high", "weight": 3},
            7,
        ]
        problem = refused(
            ask.post("/api/campaigns", json=NORTH | {"agents": agents}), 422, "invalid-input"
        )
        assert [error["path"] for error in problem["errors"]] == [
            "agents[0].sensitivity",
            "agents[1].name",
            "agents[2]",
            "agents[2].sensitivity",
            "agents[3]",
        ]
        assert log.store.heads() == []

    @pytest.mark.parametrize(
        ("change", "path"),
        [
            ({"name": 5}, "name"),
            ({"season": "long"}, "season"),
            ({"seed": 1.5}, "seed"),
            ({"seed": True}, "seed"),
            ({"colour": "red"}, "colour"),
            ({"arms": "river"}, "arms"),
        ],
    )
    def test_fields_of_the_wrong_kind_have_their_path(self, ask, change, path):
        problem = refused(ask.post("/api/campaigns", json=NORTH | change), 422, "invalid-input")
        assert [error["path"] for error in problem["errors"]] == [path]
        assert problem["errors"][0]["message"].startswith(path)

    @pytest.mark.parametrize("number", ["NaN", "1e999"])
    def test_numbers_that_are_none_are_refused(self, ask, number):
        body = json.dumps(NORTH).replace("0.9", number)
        answer = ask.post("/api/campaigns", content=body, headers=JSON)
        problem = refused(answer, 422, "invalid-input")
        assert problem["errors"][0]["path"] == "agents[0].sensitivity"

    def test_one_change_at_a_time(self, ask, north):
        said = conforms(
            responses_schema.CampaignJson, ask.patch(north, json={"name": "South park"})
        )
        assert said["name"] == "South park"
        assert ask.patch(north, json={"season": None}).status_code == 422  # its policy goes by it
        said = ask.patch(north, json={"policy": "cucb", "delta": 0.1}).json()
        assert said["policy"] == {"name": "cucb", "delta": 0.1, "memory": None}
        assert ask.patch(north, json={"season": None}).json()["season"] is None
        nothing = {"policy": None, "delta": None, "memory": None}
        for count, body in ((0, {}), (0, nothing), (2, {"name": "x", "season": 4})):
            detail = refused(ask.patch(north, json=body), 422, "invalid-input")["detail"]
            assert f"{count} changes" in detail
        assert ask.patch(north, json=nothing | {"policy": "min-width"}).status_code == 200

    def test_agents_and_arms_come_and_go(self, ask, north):
        new = conforms(
            responses_schema.AgentsJson,
            ask.post(f"{north}/agents", json={"agents": [{"name": "Dan", "sensitivity": 0.8}]}),
            201,
        )
        assert [(one["id"], one["name"]) for one in new["agents"]] == [("agent-4", "Dan")]
        arms = conforms(
            responses_schema.ArmsJson,
            ask.post(f"{north}/arms", json={"arms": [{"name": "ford"}]}),
            201,
        )
        ford = {"id": "arm-5", "name": "ford", "retired": False, "prior": None, "forgotten": None}
        assert arms["arms"] == [ford]
        assert ask.patch(f"{north}/arms/ford", json={"retired": True}).json()["retired"]
        assert not ask.patch(f"{north}/arms/arm-5", json={"retired": False}).json()["retired"]
        dan = f"{north}/agents/Dan"
        assert conforms(responses_schema.AgentJson, ask.patch(dan, json={"retired": True}))[
            "retired"
        ]
        assert ask.patch(f"{north}/agents/agent-4", json={"name": "Dora"}).json()["name"] == "Dora"
        refused(ask.patch(dan, json={"retired": False}), 404, "not-found")
        ana = ask.patch(f"{north}/agents/Ana", json={"sensitivity": 0.7, "since": "always"}).json()
        assert ana["sensitivity"] == 0.7
        refused(ask.patch(f"{north}/agents/Ana", json={"sensitivity": 0.7}), 422, "invalid-input")

    @pytest.mark.parametrize(
        ("where", "change", "path"),
        [
            ("", {"name": None}, "name"),
            ("", {"policy": "none-such"}, "policy"),
            ("/agents/Ana", {"name": None}, "name"),
            ("/agents/Ana", {"name": "Ben"}, "name"),
            ("/agents/Ana", {"retired": None}, "retired"),
            ("/agents/Ana", {"sensitivity": 0.7}, "since"),
            ("/agents/Ana", {"sensitivity": 0.7, "since": None}, "since"),
            ("/agents/Ana", {"since": "now"}, "since"),
            ("/arms/river", {"retired": None}, "retired"),
            ("/arms/river", {"prior": [0.5, 2]}, "prior"),
            ("/arms/river", {"prior": "much"}, "prior"),
            ("/arms/river", {"prior": {"found": 5}}, "prior"),
            ("", {"prior": "none-such"}, "prior"),
        ],
    )
    def test_a_change_that_is_none_or_wrong_is_refused_with_its_field(
        self, ask, north, log, where, change, path
    ):
        before = log.store.heads()
        answer = ask.patch(f"{north}{where}", json=change)
        assert paths(answer) == [path]
        assert path in answer.json()["errors"][0]["message"].split(":")[0]
        assert log.store.heads() == before

    @pytest.mark.parametrize(
        ("given", "stands"),
        [
            ([2, 60], [2.0, 60.0]),
            ("5 of 120, counts 50 %", [3.5, 58.5]),
            ({"found": 5, "tests": 120, "counts": 0.5}, [3.5, 58.5]),
            (None, None),
        ],
    )
    def test_what_is_known_beforehand_is_stated_in_one_of_several_ways(
        self, ask, north, given, stands
    ):
        ask.patch(f"{north}/arms/river", json={"prior": [1, 1]})
        answer = ask.patch(f"{north}/arms/river", json={"prior": given})
        assert conforms(responses_schema.ArmJson, answer)["prior"] == stands
        assert ask.get(north).json()["arms"][0]["prior"] == stands

    def test_what_plans_go_by_where_nothing_is_stated(self, ask, north):
        assert ask.get(north).json()["prior"] == "learned"
        changed = ask.patch(north, json={"prior": "stated"})
        assert conforms(responses_schema.CampaignJson, changed)["prior"] == "stated"

    @pytest.mark.parametrize(
        ("change", "path"),
        [
            ({"role": "king"}, "role"),
            ({"expires": (datetime.now(UTC) - timedelta(days=1)).isoformat()}, "expires"),
        ],
    )
    def test_a_link_that_cannot_be_has_its_wrong_field(self, ask, north, change, path):
        body = {"role": "reporter", "name": "Ana's phone", "agent": "Ana"}
        assert paths(ask.post(f"{north}/links", json=body | change)) == [path]

    def test_what_is_exported_is_imported_with_its_hashes(self, ask, north, tmp_path):
        page = ask.get(f"{north}/export")
        assert page.headers["content-type"] == "application/x-ndjson"
        other, log = app_on(tmp_path / "other.db")
        with Asker(other) as there:
            changed = page.content.replace(b"Ana", b"Ann")
            refused(there.post("/api/campaigns/import", content=changed), 422, "invalid-input")
            assert log.store.heads() == []
            said = there.post("/api/campaigns/import", content=page.content)
            now = conforms(responses_schema.CampaignJson, said, 201)
            was = ask.get(north).json()
            assert now | {"number": 0, "changed": ""} == was | {"number": 0, "changed": ""}
            taken = there.get(f"{north}/export").content
            assert taken.startswith(page.content)
            (more,) = map(json.loads, taken[len(page.content) :].splitlines())
            assert (more["kind"], more["who"], more["link"]) == ("imported", "owner", "server")
            assert more["body"] == {"first": 1, "last": was["number"]}
            assert there.post("/api/campaigns/import", content=page.content).status_code == 200
            refused(there.post("/api/campaigns/import", content=b"\xff"), 422, "invalid-input")

    def test_events_come_in_pages(self, ask, north):
        said = conforms(responses_schema.EventsJson, ask.get(f"{north}/events"))
        assert [event["kind"] for event in said["events"]] == ["created", "round planned"]
        page = ask.get(f"{north}/events?after=1&limit=1").json()
        assert page == {"events": said["events"][1:], "last": 2}
        assert ask.get(f"{north}/events?after=9").json()["events"] == []

    def test_notes_are_in_the_history(self, ask, north):
        said = conforms(
            responses_schema.NoteJson,
            ask.post(f"{north}/notes", json={"text": "rain", "round": 1}),
            201,
        )
        assert (said["text"], said["round"], said["who"]) == ("rain", 1, "owner")
        assert ask.get(f"{north}/events?after=2").json()["events"][0]["kind"] == "note"
        assert paths(ask.post(f"{north}/notes", json={"text": "rain", "round": 7})) == ["round"]


class TestRounds:
    """Planned, overridden, reported, corrected, withdrawn, closed."""

    def test_a_preview_makes_one_plan_and_no_event(self, ask, north, monkeypatch):
        plan, plans = planning.plan, []

        def counted_plan(*given):
            plans.append(given)
            return plan(*given)

        monkeypatch.setattr(planning, "plan", counted_plan)
        monkeypatch.setattr(plan_events, "digest_of_index", None)  # which an event would need
        answer = ask.post(f"{north}/rounds?preview=true", json={"absent": ["Ben"]})
        assert answer.status_code == 200
        assert len(plans) == 1

    def test_a_preview_records_nothing_and_is_what_is_planned(self, ask, north, log):
        given = {"closed": ["river"], "forced": [["Ana", "lake"]]}
        before = log.store.heads()
        shown = conforms(
            responses_schema.PreviewJson, ask.post(f"{north}/rounds?preview=true", json=given)
        )
        assert log.store.heads() == before
        planned = conforms(responses_schema.RoundJson, ask.post(f"{north}/rounds", json=given), 201)
        assert planned["assignments"] == shown["assignments"]
        assert planned["circumstances"] == shown["circumstances"]
        assert planned["assignments"][0]["arm"] == "lake"
        assert {cost["kind"] for cost in shown["prices"]["constraints"]} == {"closed", "forced"}

    def test_before_anything_is_known_nothing_is_priced(self, ask):
        made = ask.post("/api/campaigns", json=UNKNOWN).json()
        answer = ask.post(
            f"/api/campaigns/{made['id']}/rounds?preview=true", json={"closed": ["river"]}
        )
        prices = conforms(responses_schema.PreviewJson, answer)["prices"]
        assert (prices["expected"], prices["best"], prices["constraints"]) == (None, None, [])
        assert "so nothing can be forecast" in prices["warnings"][0]

    def test_a_round_tells_who_went_where_and_what_waits(self, ask, north):
        said = conforms(responses_schema.RoundJson, ask.get(f"{north}/rounds/1"))
        assert said["circumstances"]["absent"] == [{"id": "agent-2", "name": "Ben"}]
        assert [one["arm"] is None for one in said["assignments"]] == [False, True, False]
        assert [visit["agent"] for visit in said["visits"]] == ["Ana", "Chi"]
        assert said["waits"]
        assert all(visit["waits"] for visit in said["visits"])
        rounds = conforms(responses_schema.RoundsJson, ask.get(f"{north}/rounds"))
        assert [(one["visits"], one["told"]) for one in rounds["rounds"]] == [(2, 0)]

    def test_a_report_then_a_correction(self, ask, north):
        ana = f"{north}/rounds/1/outcomes/Ana"
        first = ask.put(ana, json={"successes": 1, "tests": 1})
        assert conforms(responses_schema.VisitJson, first, 201)["event"] == 3
        again = ask.put(ana, json={"successes": 1, "tests": 1})
        assert (again.status_code, again.headers["etag"]) == (200, '"3"')
        problem = refused(ask.put(ana, json={"successes": 0, "tests": 1}), 409, "already-reported")
        assert problem["current"] == {
            "waits": False, "missing": False, "successes": 1, "tests": 1, "event": 3,
            "reported": first.json()["reported"], "entered": None, "note": None,
        }  # fmt: skip
        seen = first.headers["etag"]
        fixed = ask.put(ana, json={"successes": 0, "tests": 1}, headers={"If-Match": seen})
        assert conforms(responses_schema.VisitJson, fixed)["successes"] == 0
        late = ask.put(ana, json={"missing": True}, headers={"If-Match": seen})
        problem = refused(late, 412, "changed-since")
        assert problem["current"]["successes"] == 0
        assert problem["current"]["event"] == 4
        forced = ask.put(ana, json={"missing": True}, headers={"If-Match": "*"})
        assert conforms(responses_schema.VisitJson, forced)["missing"]

    def test_what_may_be_said_with_a_report(self, ask, north):
        ana, round_ = f"{north}/rounds/1/outcomes/Ana", ask.get(f"{north}/rounds/1").json()
        went = {one["arm"] for one in round_["visits"] if one["agent"] == "Ana"}
        there = next(name for name in ("river", "hill", "gate", "lake") if name not in went)
        outcome = {"successes": 1, "tests": 1, "note": "fog", "elsewhere": there}
        stale = ask.put(ana, json=outcome | {"planned": round_["event"] + 7})
        assert "planned anew" in refused(stale, 412, "changed-since")["detail"]
        given = outcome | {"planned": round_["event"], "entered": round_["time"]}
        visit = conforms(responses_schema.VisitJson, ask.put(ana, json=given), 201)
        assert (visit["arm"], visit["note"], visit["entered"]) == (there, "fog", round_["time"])
        assert visit["reported"] > visit["entered"]
        fixed = ask.put(ana, json={"missing": True}, headers={"If-Match": "*"})
        assert conforms(responses_schema.VisitJson, fixed)["note"] == "fog"
        moved = {"missing": True, "elsewhere": there}
        assert refused(ask.put(ana, json=moved, headers={"If-Match": "*"}), 422, "invalid-input")

    def test_a_change_elsewhere_does_not_hinder_a_correction(self, ask, north):
        ana, chi = (f"{north}/rounds/1/outcomes/{name}" for name in ("Ana", "Chi"))
        seen = ask.put(ana, json={"successes": 1, "tests": 1}).headers["etag"]
        ask.put(chi, json={"successes": 3, "tests": 12})
        fixed = ask.put(ana, json={"successes": 0, "tests": 1}, headers={"If-Match": seen})
        assert fixed.status_code == 200

    def test_an_etag_of_another_history_is_refused(self, ask, north):
        ana = f"{north}/rounds/1/outcomes/Ana"
        ask.put(ana, json={"successes": 1, "tests": 1})
        ahead = ask.put(ana, json={"successes": 0, "tests": 1}, headers={"If-Match": '"99"'})
        assert refused(ahead, 412, "changed-since")["current"]["successes"] == 1
        ahead = ask.delete(ana, headers={"If-Match": '"99"'})
        assert refused(ahead, 412, "changed-since")["current"]["successes"] == 1
        wrong = ask.put(ana, json={"successes": 0, "tests": 1}, headers={"If-Match": "soon"})
        refused(wrong, 422, "invalid-input")

    @pytest.mark.parametrize("told", [True, False])
    @pytest.mark.parametrize("tag", ["*", '"3"'])
    def test_only_what_has_changed_since_is_called_so(self, ask, north, told, tag):
        """With If-Match, whether there is something to correct or not, what is wrong in itself is wrong."""
        ana = f"{north}/rounds/1/outcomes/Ana"
        ask.post(f"{north}/notes", json={"text": "rain"})
        if told:
            ask.put(ana, json={"successes": 1, "tests": 1})
        seen, body = {"If-Match": tag}, {"successes": 0, "tests": 1}
        wrong = ask.put(ana, json={"successes": 5, "tests": 1}, headers=seen)
        assert paths(wrong) == ["successes"]
        for method in ("PUT", "DELETE"):
            given = body if method == "PUT" else None
            refused(
                ask.request(method, ana, json=given, headers={"If-Match": "x"}),
                422,
                "invalid-input",
            )
            bad = seen | {"Idempotency-Key": "k" * 201}
            refused(ask.request(method, ana, json=given, headers=bad), 422, "invalid-input")
            nowhere = ask.request(method, f"{ana}?arm=lake", json=given, headers=seen)
            assert (
                "did not send 'Ana' to 'lake'" in refused(nowhere, 422, "invalid-input")["detail"]
            )
        key = seen | {"Idempotency-Key": "rain"}
        ask.post(f"{north}/notes", json={"text": "rain"}, headers=key)
        refused(ask.put(ana, json=body, headers=key), 422, "key-reused")
        if not told:
            problem = refused(ask.put(ana, json=body, headers=seen), 412, "changed-since")
            assert problem["current"]["waits"]

    def test_what_was_withdrawn_waits_again(self, ask, north):
        ana = f"{north}/rounds/1/outcomes/Ana"
        seen = ask.put(ana, json={"successes": 1, "tests": 1}).headers["etag"]
        assert conforms(responses_schema.VisitJson, ask.delete(ana))["waits"]
        refused(ask.delete(ana), 422, "invalid-input")
        late = ask.put(ana, json={"successes": 0, "tests": 1}, headers={"If-Match": seen})
        assert refused(late, 412, "changed-since")["current"]["waits"]
        assert ask.put(ana, json={"successes": 0, "tests": 1}).status_code == 201

    @pytest.mark.parametrize(
        ("body", "named"),
        [
            ({}, ["successes", "tests"]),
            ({"successes": 1}, ["tests"]),
            ({"missing": True, "tests": 1}, ["tests"]),
            ({"successes": 0.5, "tests": 1}, ["successes"]),
            ({"successes": -1, "tests": -1}, ["tests", "successes"]),
        ],
    )
    def test_half_an_outcome_is_none(self, ask, north, log, body, named):
        before = log.store.heads()
        assert paths(ask.put(f"{north}/rounds/1/outcomes/Ana", json=body)) == named
        assert log.store.heads() == before

    def test_who_went_to_several_arms_says_which(self, ask, north):
        moved = ask.put(f"{north}/rounds/1/overrides/Ben", json={"arms": ["gate", "arm-4"]})
        visits = conforms(responses_schema.RoundJson, moved)["visits"]
        assert [(one["agent"], one["arm"]) for one in visits if one["agent"] == "Ben"] == [
            ("Ben", "gate"),
            ("Ben", "lake"),
        ]
        ben = f"{north}/rounds/1/outcomes/Ben"
        refused(ask.put(ben, json={"successes": 1, "tests": 1}), 422, "invalid-input")
        said = ask.put(f"{ben}?arm=lake", json={"successes": 1, "tests": 1})
        assert conforms(responses_schema.VisitJson, said, 201)["arm_id"] == "arm-4"
        refused(ask.put(f"{ben}?arm=moon", json={"successes": 1, "tests": 1}), 404, "not-found")
        assert ask.delete(f"{ben}?arm=lake").json()["waits"]

    def test_a_closed_round_does_not_wait(self, ask, north):
        assert not conforms(responses_schema.RoundJson, ask.post(f"{north}/rounds/1/close"))[
            "waits"
        ]
        refused(ask.post(f"{north}/rounds/1/close"), 422, "invalid-input")

    def test_the_last_round_is_cancelled_and_only_it(self, ask, north, log):
        first = ask.get(f"{north}/rounds/1").json()
        ask.post(f"{north}/rounds")
        refused(ask.delete(f"{north}/rounds/1"), 422, "invalid-input")
        refused(ask.delete(f"{north}/rounds/3"), 404, "not-found")
        key = {"Idempotency-Key": "cancel 2"}
        said = conforms(responses_schema.RoundsJson, ask.delete(f"{north}/rounds/2", headers=key))
        assert (said["last"], [one["round"] for one in said["rounds"]]) == (1, [1])
        # the answer was lost, and it is asked again
        assert ask.delete(f"{north}/rounds/2", headers=key).json() == said
        refused(ask.get(f"{north}/rounds/2"), 404, "not-found")
        assert ask.get(f"{north}/rounds/1").json() == first
        assert conforms(responses_schema.RoundsJson, ask.delete(f"{north}/rounds/1")) == {
            "rounds": [],
            "last": 0,
        }
        again = conforms(responses_schema.RoundJson, ask.post(f"{north}/rounds"), 201)
        assert again["round"] == 1

    def test_what_was_done_last_is_undone(self, ask, north):
        last = ask.get(north).json()["number"]
        ask.post(f"{north}/rounds/1/close")
        refused(ask.post(f"{north}/undo", json={"event": last}), 412, "changed-since")
        answer = ask.post(f"{north}/undo", json={"event": last + 1})
        said = conforms(responses_schema.EventsJson, answer)
        assert [one["kind"] for one in said["events"]] == ["round reopened"]
        assert said["last"] == last + 2
        assert ask.get(f"{north}/rounds/1").json()["waits"]
        ask.post(f"{north}/notes", json={"text": "rain"})
        refused(ask.post(f"{north}/undo", json={"event": last + 3}), 422, "invalid-input")
        refused(ask.post(f"{north}/undo", json={}), 422, "invalid-input")

    def test_nobody_undoes_what_another_did(self, ask, north, made):
        link = ask.post(f"{north}/links", json={"role": "planner", "name": "Zoë"}).json()
        ask.post(f"{north}/rounds/1/close")
        last = ask.get(north).json()["number"]
        with Asker(made[0], link["token"]) as zoe:
            refused(zoe.post(f"{north}/undo", json={"event": last}), 422, "invalid-input")

    def test_a_campaign_is_put_away_and_brought_back(self, ask, north):
        assert conforms(responses_schema.CampaignJson, ask.get(north))["archived"] is False
        assert ask.patch(north, json={"archived": True}).json()["archived"]
        refused(ask.post(f"{north}/rounds"), 422, "invalid-input")
        refused(ask.patch(north, json={"archived": True}), 422, "invalid-input")
        refused(ask.patch(north, json={"archived": False, "name": "x"}), 422, "invalid-input")
        assert not ask.patch(north, json={"archived": False}).json()["archived"]

    def test_why(self, ask, north):
        said = conforms(
            responses_schema.ExplanationsJson, ask.get(f"{north}/rounds/1/explanations")
        )
        assert [one["agent"] for one in said["explanations"]] == ["Ana", "Chi"]
        assert said["explanations"][0]["text"].startswith("Ana -> ")


class TestKnowledge:
    """What the campaign says after some rounds."""

    @pytest.fixture
    def told(self, ask, north):
        ask.put(f"{north}/rounds/1/outcomes/Ana", json={"successes": 1, "tests": 1})
        ask.put(f"{north}/rounds/1/outcomes/Chi", json={"successes": 3, "tests": 12})
        return north

    def test_before_anything_is_known_nothing_is_forecast(self, ask):
        north = f"/api/campaigns/{ask.post('/api/campaigns', json=UNKNOWN).json()['id']}"
        for part in ("/projection?rounds=2&draws=10", "/worth?sensitivity=0.5&rounds=2&draws=10"):
            said = refused(ask.get(f"{north}{part}"), 409, "nothing-known")
            assert "so nothing can be forecast" in said["detail"]
        ask.patch(f"{north}/arms/hill", json={"prior": [1, 1]})
        said = refused(ask.get(f"{north}/projection?rounds=2&draws=10"), 409, "nothing-known")
        assert "nothing is stated of most arms" in said["detail"]
        ask.patch(f"{north}/arms/gate", json={"prior": [1, 1]})
        found = conforms(
            responses_schema.ProjectionJson, ask.get(f"{north}/projection?rounds=2&draws=20")
        )
        assert found["rotation_low"] <= found["rotation"] <= found["rotation_high"]

    def test_what_is_probable_by_hand(self, ask):
        """A perfect agent finds 3 in 8 on one of two arms whose means are all as likely: Beta(4, 6) there, Beta(1, 1) on the other."""
        arms = [{"name": name, "prior": [1, 1]} for name in "xy"]
        agents = [{"name": "Ana", "sensitivity": 1.0, "tests": 8}]
        body = NORTH | {"name": "Two", "agents": agents, "arms": arms}
        two = f"/api/campaigns/{ask.post('/api/campaigns', json=body).json()['id']}"
        ask.post(f"{two}/rounds", json={"closed": ["y"]})
        ask.put(f"{two}/rounds/1/outcomes/Ana", json={"successes": 3, "tests": 8})
        x, y = ask.get(f"{two}/arms").json()["arms"]
        for one, known in ((x, beta(4, 6)), (y, beta(1, 1))):
            assert one["estimate"] == pytest.approx(known.mean(), abs=1e-5)
            assert (one["low"], one["high"]) == pytest.approx(known.ppf([0.1, 0.9]), abs=1e-3)
        # y is below x with the chance that a number drawn evenly is below x: its mean, 0.4, counted in 4,000 draws, so that
        # five standard errors are 0.039
        assert x["best_chance"] == pytest.approx(0.4, abs=0.039)
        assert x["best_chance"] + y["best_chance"] == pytest.approx(1.0)
        assert (x["among_chance"], y["among_chance"]) == (x["best_chance"], y["best_chance"])
        said = conforms(responses_schema.AnswersJson, ask.get(f"{two}/answers"))["probable"]
        percent = [round(100 * one["best_chance"]) for one in (x, y)]
        assert said == [f"Most likely best: y ({percent[1]} %), x ({percent[0]} %)."]

    def test_arms_add_up_to_what_was_reported(self, ask, told):
        arms = conforms(responses_schema.EstimatesJson, ask.get(f"{told}/arms"))["arms"]
        assert [arm["name"] for arm in arms] == ["river", "hill", "gate", "lake"]
        assert sum(arm["pulls"] for arm in arms) == 13
        assert sum(arm["successes"] for arm in arms) == 4
        by_agent = {one["agent"]: one["pulls"] for arm in arms for one in arm["by_agent"]}
        assert by_agent == {"Ana": 1, "Chi": 12}

    def test_an_arm_is_forgotten_and_that_is_taken_back(self, ask, told):
        gone = f"{told}/forgotten/river"
        for _ in range(2):  # twice is once
            arm = conforms(responses_schema.ArmJson, ask.put(gone))
            assert (arm["name"], arm["forgotten"]) == ("river", 1)
        back = conforms(responses_schema.ArmJson, ask.delete(f"{told}/forgotten/arm-1"))
        assert back["forgotten"] is None
        assert "was not forgotten" in refused(ask.delete(gone), 422, "invalid-input")["detail"]
        refused(ask.put(f"{told}/forgotten/moon"), 404, "not-found")
        kinds = [event["kind"] for event in ask.get(f"{told}/events").json()["events"]]
        assert kinds[-2:] == ["arm forgotten", "arm remembered"]

    def test_what_happens_when_an_arm_has_changed_is_a_setting(self, ask, told):
        assert ask.get(told).json()["on_change"] == "nothing"
        changed = ask.patch(told, json={"on_change": "forget"})
        assert conforms(responses_schema.CampaignJson, changed)["on_change"] == "forget"
        refused(ask.patch(told, json={"on_change": "maybe"}), 422, "invalid-input")

    def test_how_sensitive_the_agents_are(self, ask, told):
        found = conforms(responses_schema.SensitivitiesJson, ask.get(f"{told}/agents"))
        assert [one["name"] for one in found["agents"]] == ["Ana", "Ben", "Chi"]
        assert {one["finds"] for one in found["agents"]} == {"as believed"}
        assert found["sentences"] == []

    def test_answers_shadow_projection_and_worth(self, ask, told):
        assert conforms(responses_schema.AnswersJson, ask.get(f"{told}/answers"))["sentences"]
        own = conforms(responses_schema.ShadowJson, ask.get(f"{told}/shadow?policy=season"))
        assert (own["rounds"], own["differ"], own["differences"]) == (1, 0, [])
        refused(ask.get(f"{told}/shadow?policy=none-such"), 422, "invalid-input")
        ahead = conforms(
            responses_schema.ProjectionJson, ask.get(f"{told}/projection?rounds=2&draws=10")
        )
        assert (ahead["rounds"], ahead["draws"]) == (2, 10)
        one_more = conforms(
            responses_schema.WorthJson, ask.get(f"{told}/worth?sensitivity=0.9&rounds=2&draws=10")
        )
        assert one_more["plain"] == ahead
        better = ask.get(f"{told}/worth?sensitivity=0.99&agent=Ben&rounds=2&draws=10")
        assert conforms(responses_schema.WorthJson, better)["plain"] == ahead

    def test_who_reports_as_it_does_finds_nothing_more(self, ask):
        """On the same worlds with the same luck: all that is not said of an agent is its own."""
        dan = {"name": "Dan", "sensitivity": 0.7, "false_positive_rate": 0.1, "tests": 12}
        made = ask.post("/api/campaigns", json=NORTH | {"agents": [*NORTH["agents"], dan]}).json()
        worth = f"/api/campaigns/{made['id']}/worth?rounds=3&draws=20&agent=Dan"
        same = ask.get(f"{worth}&sensitivity=0.7").json()
        assert (same["more"], same["more_se"]) == (0.0, 0.0)
        assert ask.get(f"{worth}&sensitivity=0.7&tests=1").json()["more"] < 0.0
        assert ask.get(f"{worth}&sensitivity=0.9").json()["more"] > 0.0
        assert paths(ask.get(f"{worth}&sensitivity=0.05")) == ["false_positive_rate"]

    def test_a_new_agent_may_make_several_tests(self, ask, told, log):
        state = log.state(told.rpartition("/")[2])
        said = ask.get(
            f"{told}/worth?sensitivity=0.9&tests=12&false_positive_rate=0.05&rounds=3&draws=20"
        ).json()
        changed = projection.state_with_other_team(state, None, Reports(0.9, 0.05, 12))
        found = projection.worth_of_team(state, changed, rounds=3, draws=20)
        assert (said["more"], said["more_se"]) == (found.more, found.more_se)
        plain = ask.get(f"{told}/worth?sensitivity=0.9&rounds=3&draws=20").json()
        assert plain["more"] < said["more"]

    @pytest.mark.parametrize(
        ("query", "named"),
        [
            ("sensitivity=7", ["sensitivity"]),
            ("sensitivity=0.5&tests=0&false_positive_rate=0.6", ["tests", "false_positive_rate"]),
            ("sensitivity=0.5&agent=Zoe", ["agent"]),
            ("sensitivity=0.5&test=3", ["test"]),
        ],
    )
    def test_what_cannot_be_of_worth_is_named(self, ask, told, query, named):
        assert paths(ask.get(f"{told}/worth?rounds=1&draws=10&{query}")) == named

    @pytest.mark.parametrize("query", ["rounds=0", "draws=100000", "rounds=1e9", "draws=x"])
    def test_projections_are_bounded(self, ask, told, query):
        refused(ask.get(f"{told}/projection?{query}"), 422, "invalid-input")

    def test_what_would_hold_the_long_place_is_refused(self, ask):
        agents = [{"name": f"a{i}", "calibration": [17, 40], "tests": 30} for i in range(20)]
        given = {"name": "Slow", "agents": agents, "policy": "bayes-ucb", "season": None}
        arms = [{"name": f"n{i}", "prior": [1, 1]} for i in range(50)]
        slow = ask.post("/api/campaigns", json=NORTH | given | {"arms": arms}).json()["id"]
        answers = []
        for query in ("projection?", "worth?sensitivity=0.5&tests=30&"):
            answer = ask.get(f"/api/campaigns/{slow}/{query}rounds=1000&draws=40")
            refused(answer, 422, "invalid-input")
            answers.append(int(re.search(r"with so many draws (\d+) rounds", answer.text)[1]))
        assert answers[0] > 2 * answers[1] > 20
        answer = ask.get(f"/api/campaigns/{slow}/worth?sensitivity=0.5&rounds=1&draws=500")
        assert answer.status_code == 200

    def test_an_outcome_far_from_the_plan_is_marked(self, ask, told):
        for _ in range(2):
            ask.post(f"{told}/rounds")
        asked = {"Chi": (13, True), "Ana": (1, False)}
        for agent, (tests, far) in asked.items():
            body = {"successes": 0, "tests": tests}
            seen = conforms(
                responses_schema.VisitJson,
                ask.put(f"{told}/rounds/2/outcomes/{agent}", json=body),
                201,
            )
            assert seen["far"] is far
        again = ask.put(f"{told}/rounds/3/outcomes/Chi", json={"successes": 0, "tests": 5}).json()
        assert (again["tests_planned"], again["far"]) == (12, True)
        rows = list(csv.DictReader(io.StringIO(ask.get(f"{told}/visits.csv").text)))
        marked = [(row["round"], row["agent"], row["tests_planned"]) for row in rows if row["far"]]
        assert marked == [("2", "Chi", "12"), ("3", "Chi", "12")]
        waits = [visit for visit in ask.get(f"{told}/rounds/3").json()["visits"] if visit["waits"]]
        assert waits
        assert not any(visit["far"] for visit in waits)

    def test_visits_for_a_spreadsheet(self, ask, told):
        page = ask.get(f"{told}/visits.csv")
        assert page.headers["content-type"] == "text/csv; charset=utf-8"
        assert [line.split(",")[2] for line in page.text.splitlines()] == [
            "agent",
            "Ana",
            "Chi",
            "Ben",
        ]
        assert page.text.splitlines()[3].split(",")[6] == "absent"


class TestLargeCampaigns:
    """What takes long is computed one at a time, so that there are threads for others."""

    ASKED = (
        ("GET", "/arms"),
        ("GET", "/answers"),
        ("GET", "/rounds/1/explanations"),
        ("POST", "/rounds?preview=true"),
        ("GET", "/shadow?policy=cucb"),
        ("GET", "/projection?rounds=1&draws=10"),
        ("GET", "/worth?sensitivity=0.5&rounds=1&draws=10"),
    )
    ALWAYS_LONG = 3  # the last of them, whatever the campaign

    def made(self, ask, agents, arms):
        body = {
            "name": "large",
            "agents": [{"name": f"a{i}", "sensitivity": 0.5} for i in range(agents)],
            "arms": [{"name": f"n{i}"} for i in range(arms)],
        }
        place = f"/api/campaigns/{ask.post('/api/campaigns', json=body).json()['id']}"
        assert ask.post(f"{place}/rounds").status_code == 201
        return place

    def test_who_asks_while_another_computes_waits_and_nobody_else(self, made, ask, monkeypatch):
        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.05)
        small, large = self.made(ask, 3, 4), self.made(ask, 4, 300)
        app = made[0]

        async def statuses(place, asked):
            places = app.state.places
            async with (
                places.large.turn(somebody()),
                places.long.turn(somebody()),
                calling(app, OWNER) as client,
            ):
                sent = [await client.request(method, place + path) for method, path in asked]
            return [answer.status_code for answer in sent]

        assert asyncio.run(statuses(large, self.ASKED)) == [503] * len(self.ASKED)
        quick = self.ASKED[: -self.ALWAYS_LONG]
        assert asyncio.run(statuses(small, quick)) == [200] * len(quick)
        others = [("GET", ""), ("GET", "/rounds/1"), ("POST", "/rounds/1/close")]
        assert asyncio.run(statuses(large, others)) == [200, 200, 200]
        plan = [("POST", "/rounds")]
        assert asyncio.run(statuses(large, plan)) == [503]
        assert asyncio.run(statuses(small, plan)) == [201]

    def test_the_more_constraints_are_priced_the_larger_it_is(self, made, ask, monkeypatch):
        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.05)
        place = self.made(ask, 3, 100)
        home = place.removeprefix("/api")

        async def statuses(constraints):
            closed = [f"arm-{n + 1}" for n in range(constraints)]
            query = "&".join(f"closed={arm}" for arm in closed)
            app, cookie = made[0], {"Cookie": f"hb_owner={OWNER}"}
            async with app.state.places.large.turn(somebody()), calling(app, OWNER) as client:
                preview = await client.post(f"{place}/rounds?preview=1", json={"closed": closed})
                page = await client.get(f"{home}/plan?{query}", headers=cookie)
            return preview.status_code, page.status_code

        assert asyncio.run(statuses(1)) == (200, 200)
        assert asyncio.run(statuses(2)) == (503, 503)

    @pytest.mark.parametrize(("prior", "status"), [([2, 9], 200), ([1e9, 1e9], 503)])
    def test_the_more_cells_a_mean_may_lie_in_the_larger_it_is(
        self, made, ask, prior, status, monkeypatch
    ):
        """As many as a strong prior asks for: 100 arms have half a million of them."""
        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.05)
        place, app = self.made(ask, 1, 100), made[0]
        assert ask.patch(f"{place}/arms/n0", json={"prior": prior}).status_code == 200

        async def asked():
            async with app.state.places.large.turn(somebody()), calling(app, OWNER) as client:
                return (await client.get(f"{place}/answers")).status_code

        assert asyncio.run(asked()) == status

    def test_a_preview_is_in_the_way_of_nobody_who_writes(self, made, ask, monkeypatch):
        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.05)
        place, app = self.made(ask, 3, 4), made[0]
        home = place.removeprefix("/api")

        async def statuses():
            form = {
                "data": {"look": "1"},
                "headers": {"Cookie": f"hb_owner={OWNER}", "Origin": "http://127.0.0.1"},
            }
            async with app.state.places.writing.turn(somebody()), calling(app, OWNER) as client:
                preview = await client.post(f"{place}/rounds?preview=true")
                page = await client.post(f"{home}/plan", **form)
                recorded = await client.post(f"{place}/rounds")
            return [answer.status_code for answer in (preview, page, recorded)]

        assert asyncio.run(statuses()) == [200, 200, 503]

    @pytest.mark.parametrize("kind", ["agents", "arms", "page"])
    def test_what_no_campaign_takes_is_refused_in_nobodys_way(self, made, ask, kind, monkeypatch):
        """By how much it is, before the entries are looked at."""
        place, app = self.made(ask, 4, 300), made[0]
        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.05)
        monkeypatch.setattr(reducer, "CAMPAIGN_MAX_PAIRS", 2_000)
        for owner in (service, campaigns, team):
            for name in ("agents_from", "arms_from"):
                monkeypatch.delattr(owner, name, raising=False)

        async def answered():
            async with app.state.places.writing.turn(somebody()), calling(app, OWNER) as client:
                if kind == "page":
                    form = {"arms": "\n".join(f"x{n}" for n in range(400))}
                    origin = {"Cookie": f"hb_owner={OWNER}", "Origin": "http://127.0.0.1"}
                    home = place.removeprefix("/api")
                    return await client.post(f"{home}/arms", data=form, headers=origin)
                return await client.post(f"{place}/{kind}", json={kind: ["x"] * 400})

        answer = asyncio.run(answered())
        assert answer.status_code == 422
        assert ("may come to 2,000" if kind == "page" else "at most 2,000 pairs") in answer.text

    @pytest.mark.parametrize(
        ("kind", "given", "said"),
        [
            ("arms", [*(f"x{n}" for n in range(9)), "n1"], "name is taken"),
            ("agents", [{"name": "a1", "sensitivity": 0.5}], "name is taken"),
            ("agents", [{"name": f"x{n}", "sensitivity": 0.5} for n in range(9)], "13"),
            ("arms", [f"x{n}" for n in range(10_000)], "at most 10,000"),
            ("agents", [f"x{n}" for n in range(10_000)], "at most 10,000"),
        ],
    )
    def test_what_this_campaign_does_not_take_is_refused_in_nobodys_way(
        self, made, ask, kind, given, said, monkeypatch
    ):
        """A name that is taken, or one more than there may be, is found before others wait."""
        place, app = self.made(ask, 4, 6), made[0]
        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.05)

        async def answered():
            async with app.state.places.writing.turn(somebody()), calling(app, OWNER) as client:
                return await client.post(f"{place}/{kind}", json={kind: given})

        assert said in refused(asyncio.run(answered()), 422, "invalid-input")["detail"]

    def test_a_new_campaign_is_checked_in_nobodys_way(self, made, monkeypatch):
        app = made[0]
        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.05)
        wrong = {"name": "north", "agents": [{"name": "x", "sensitivity": 2}], "arms": ["a", "b"]}

        async def answered():
            async with app.state.places.writing.turn(somebody()), calling(app, OWNER) as client:
                return await client.post("/api/campaigns", json=wrong)

        assert "sensitivity" in refused(asyncio.run(answered()), 422, "invalid-input")["detail"]

    @pytest.mark.parametrize("kind", ["agents", "arms"])
    def test_the_same_key_again_finds_what_was_added(self, made, ask, kind):
        place = self.made(ask, 1, 6)
        given = {"arms": ["x"], "agents": [{"name": "x", "sensitivity": 0.5}]}[kind]
        key = {"Idempotency-Key": "one"}
        answers = [ask.post(f"{place}/{kind}", json={kind: given}, headers=key) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json() == answers[1].json()

    @pytest.mark.parametrize("way", ["program", "page"])
    def test_priors_in_words_are_worked_out_in_the_way_of_nobody(self, made, ask, way, monkeypatch):
        """Once, where there are many in the place for what is large, and not at all beside a name that is taken."""
        place, app, worked = self.made(ask, 1, 6), made[0], []
        shape = validation.parse_stated_prior

        def counted(value, name):
            worked.extend([value] if isinstance(value, str) else [])
            return shape(value, name)

        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.2)
        monkeypatch.setattr(validation.parse_arms, "__defaults__", (*validation.parse_arms.__defaults__[:-1], counted))  # fmt: skip

        async def statuses(count, *more):
            arms = [{"name": f"x{n}", "prior": f"2 % to {10 + n} %"} for n in range(count)]
            arms += [{"name": name} for name in more]
            if way == "program":
                path, sent = f"{place}/arms", {"json": {"arms": arms}}
            else:
                rows = ["name\tprior", *("\t".join(one.values()) for one in arms)]
                path, sent = place.removeprefix("/api") + "/arms", {"data": {"arms": "\n".join(rows)}}  # fmt: skip
            sent["headers"] = {"Cookie": f"hb_owner={OWNER}", "Origin": "http://127.0.0.1"}
            async with app.state.places.large.turn(somebody()), calling(app, OWNER) as client:
                busy = await client.post(path, **sent)
            worked.clear()
            async with calling(app, OWNER) as client:
                free = await client.post(path, **sent)
            return busy.status_code, free.status_code, len(worked)

        done = 201 if way == "program" else 303
        assert asyncio.run(statuses(30, "n1")) == (503, 422, 0)
        assert asyncio.run(statuses(30)) == (503, done, 30)

    @pytest.mark.parametrize("way", ["program", "page"])
    def test_a_plan_is_made_before_others_wait_for_it_and_again_if_they_were_faster(
        self, made, ask, log, way, monkeypatch
    ):
        place, preview, planned = self.made(ask, 4, 300), service.preview, []
        home, campaign = place.removeprefix("/api"), place.rpartition("/")[2]

        def faster(state, **given):
            assert not made[0].state.places.writing.full
            if not planned:
                service.add_note(log, campaign, Who("Pia"), "faster")
            planned.append((state.number, given["absent"]))
            return preview(state, **given)

        monkeypatch.setattr(service, "preview", faster)
        given = {"absent": ["agent-1"]}
        if way == "program":
            key = {"Idempotency-Key": "one"}
            answers = [ask.post(f"{place}/rounds", json=given, headers=key) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [201, 201]
            assert answers[0].json() == answers[1].json()
        else:
            with Visitor(made[0], OWNER) as visitor:
                assert visitor.submit(f"{home}/plan", **given, anyway="1").status_code == 303
        assert planned[:2] == [(2, ["agent-1"]), (3, ["agent-1"])]
        assert log.state(campaign).round(2).given.absent == {0}

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("GET", "/answers", None),
            ("GET", "/rounds/1/explanations", None),
            ("POST", "/rounds?preview=true", {"forbidden": [["a0", "n1"]]}),
            ("POST", "/rounds", {"forbidden": [["a0", "n1"]]}),
        ],
    )
    def test_what_is_large_ends_before_others_wait_in_vain(
        self, made, ask, method, path, body, monkeypatch
    ):
        place = self.made(ask, 3, 4)
        monkeypatch.setattr(module, "LARGE_MIN_PAIRS", 0)
        monkeypatch.setattr(module, "COMPUTATION_MAX_S", -1.0)
        answer = ask.request(method, place + path, json=body)
        assert "takes longer" in refused(answer, 422, "invalid-input")["detail"]

    def test_long_histories_are_large_too(self, made, ask, north, monkeypatch):
        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.05)
        app = made[0]

        async def statuses():
            async with app.state.places.large.turn(somebody()), calling(app, OWNER) as client:
                sent = [
                    await client.get(north + path)
                    for path in ("/visits.csv", "/rounds/1/explanations")
                ]
            return [answer.status_code for answer in sent]

        assert asyncio.run(statuses()) == [200, 200]
        monkeypatch.setattr(module, "LARGE_MIN_EVENTS", 0)
        assert asyncio.run(statuses()) == [503, 503]

    def test_what_is_large_for_one_link_is_in_nobodys_way(self, made, ask, north, monkeypatch):
        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.05)
        monkeypatch.setattr(module, "LARGE_MIN_PAIRS", 0)
        app = made[0]
        app.state.places = module.ServerPlaces()

        async def statuses():
            large = app.state.places.large
            async with large.turn(somebody(1)), calling(app, OWNER) as client:
                first = await client.get(f"{north}/arms")
                async with large.turn(somebody(2)):
                    return first.status_code, (await client.get(f"{north}/answers")).status_code

        assert asyncio.run(statuses()) == (200, 503)

    def test_the_page_of_reports_is_large_where_it_reads_a_long_history(
        self, made, ask, north, monkeypatch
    ):
        monkeypatch.setattr(module, "TURN_TIMEOUT_S", 0.05)
        app, page = made[0], north.removeprefix("/api") + "/report"
        told = {"successes": 1, "tests": 1}
        for _ in range(2):
            number = ask.post(f"{north}/rounds").json()["round"]
            assert ask.put(f"{north}/rounds/{number}/outcomes/Ana", json=told).status_code == 201

        async def statuses():
            cookie = {"Cookie": f"hb_owner={OWNER}"}
            async with app.state.places.large.turn(somebody()), calling(app, OWNER) as client:
                sent = [
                    await client.get(f"{page}{query}", headers=cookie)
                    for query in ("", f"?round={number - 1}", f"?round={number}")
                ]
            return [answer.status_code for answer in sent]

        assert asyncio.run(statuses()) == [200, 200, 200]
        monkeypatch.setattr(report, "LARGE_MIN_EVENTS", 1)  # but not what came since the last round
        assert asyncio.run(statuses()) == [503, 503, 200]


class TestByWhichLink:
    """What is written has the id of the link it was written with."""

    def test_events_and_keys_are_those_of_a_link(self, made, ask, north):
        issued = [
            ask.post(f"{north}/links", json={"role": "planner", "name": name}).json()
            for name in ("Pia", "Quin")
        ]
        for link in issued:
            with Asker(made[0], link["token"]) as client:
                key = {"Idempotency-Key": "the same"}
                answers = [
                    client.post(f"{north}/notes", json={"text": link["name"]}, headers=key)
                    for _ in range(2)
                ]
                assert [answer.status_code for answer in answers] == [201, 201]
        events = ask.get(f"{north}/events").json()["events"]
        written = [(e["link"], e["who"], e["body"]["text"]) for e in events if e["kind"] == "note"]
        assert written == [(link["id"], link["name"], link["name"]) for link in issued]
        assert events[0]["link"] == "server"

    def test_pages_write_with_it_as_well(self, made, ask, north):
        link = ask.post(f"{north}/links", json={"role": "planner", "name": "Pia"}).json()
        home = north.removeprefix("/api")
        with Visitor(made[0], link["token"]) as visitor:
            assert visitor.submit(f"{home}/notes", text="Fog.", round="").status_code == 303
        assert ask.get(f"{north}/events").json()["events"][-1]["link"] == link["id"]


class TestTurns:
    """However many connections a link has, others wait for one of its requests at most."""

    def links(self, ask, *roles):
        """A new campaign with a round, and links of these roles."""
        place = f"/api/campaigns/{ask.post('/api/campaigns', json=NORTH).json()['id']}"
        assert ask.post(f"{place}/rounds").status_code == 201
        bodies = ({"role": role, "name": f"{role} {i}"} for i, role in enumerate(roles))
        return place, [ask.post(f"{place}/links", json=body).json()["token"] for body in bodies]

    def test_whoever_writes_waits_for_nobody_who_came_before_to_read(self):
        async def order():
            places, done = module.ServerPlaces(), []
            quick, writing = places.quick, places.writing

            async def take(name, turns, request):
                async with turns.turn(request):
                    done.append(name)

            async with AsyncExitStack() as held, asyncio.TaskGroup() as group:
                for number in range(1, module.QUICK_PLACES):  # so that there is one place for all
                    await held.enter_async_context(quick.turn(somebody(-number)))
                async with quick.turn(somebody(0)):
                    for count, one in enumerate(("read", "read too", "write"), 1):
                        turns = writing if one == "write" else quick
                        group.create_task(take(one, turns, somebody(count)))
                        await until(lambda count=count: quick.waiting + writing.waiting == count)
                await until(lambda: len(done) == 3)
            return done

        assert asyncio.run(order()) == ["write", "read", "read too"]

    def test_nobody_holds_the_turn_to_write_and_waits_for_what_the_own_link_computes(
        self, made, ask
    ):
        """Others write meanwhile, and whoever waits goes on once that is done."""
        app = made[0]
        north, (planner,) = self.links(ask, "planner")
        mine = somebody()
        mine.scope |= {"app": app, "method": "POST"}

        async def asked():
            places = app.state.places
            async with places.quick.turn(mine):  # as for a page that takes a while
                late = asyncio.create_task(module.write_in_turn(mine, lambda: "late"))
                await until(lambda: places.quick.waiting + places.writing.waiting == 1)
                async with asyncio.timeout(5), calling(app, planner) as other:
                    answer = await other.post(f"{north}/notes", json={"text": "y"})
                waits = not late.done()
            return answer.status_code, waits, await late

        assert asyncio.run(asked()) == (201, True, "late")

    async def order(self, app, turns, busy, *asked):
        """In which order these are answered, who all came while nothing was free: name, token and path of each."""
        done = []

        async def send(name, token, path):
            async with calling(app, token) as client:
                answer = await client.get(path)
            assert answer.status_code == 200, answer.text
            done.append(name)

        async with AsyncExitStack() as held, asyncio.TaskGroup() as group:
            for number in range(1, busy):  # so that there is one place for all
                await held.enter_async_context(turns.turn(somebody(number)))
            async with turns.turn(somebody()):
                for count, one in enumerate(asked, 1):
                    group.create_task(send(*one))
                    await until(lambda count=count: turns.waiting == count)
        return done

    @pytest.mark.parametrize(
        ("kind", "busy", "path"),
        [
            ("quick", module.QUICK_PLACES, ""),
            ("quick", module.QUICK_PLACES, "/arms"),
            ("quick", module.QUICK_PLACES, "/export"),
            ("large", 1, "/rounds/1/explanations"),
            ("large", 1, "/events?limit=2"),
            ("large", 1, "/visits.csv"),
            ("long", 1, "/projection?rounds=1&draws=10"),
        ],
    )
    def test_many_connections_of_a_link_are_in_nobodys_way(self, made, ask, monkeypatch, kind, busy, path):  # fmt: skip
        if kind == "large":
            monkeypatch.setattr(module, "LARGE_MIN_EVENTS", 0)
        app = made[0]
        (north, (flooding,)), (south, (other,)) = self.links(ask, "planner"), self.links(ask, "planner")  # fmt: skip
        turns = getattr(app.state.places, kind)
        flood = [("flood", flooding, north + path)] * 8
        found = asyncio.run(self.order(app, turns, busy, *flood, ("other", other, south + path)))
        assert "other" in found[:2]
        assert turns.waiting == 0

    def test_who_has_no_link_takes_turns_by_where_they_come_from(self, made, ask):
        app = made[0]
        north, (viewer,) = self.links(ask, "viewer")
        asked = [("nobody", None, "/metrics")] * 8 + [("viewer", viewer, north)]
        found = asyncio.run(self.order(app, app.state.places.quick, module.QUICK_PLACES, *asked))
        assert "viewer" in found[:2]

    def test_campaigns_take_turns_and_in_a_campaign_its_links(self, made, ask):
        app = made[0]
        (north, many), (south, (other,)) = self.links(ask, *["viewer"] * 3), self.links(ask, "viewer")  # fmt: skip
        path = "/projection?rounds=1&draws=10"
        asked = [("one", many[0], north + path)] * 3
        asked += [("two", many[1], north + path), ("three", many[2], north + path)]
        asked += [("other", other, south + path)] * 2
        found = asyncio.run(self.order(app, app.state.places.long, 1, *asked))
        assert found == ["one", "other", "two", "other", "three", "one", "one"]

    def test_a_link_has_one_place_at_a_time_and_the_other_is_for_others(self, made):
        turns = made[0].state.places.quick

        async def again():
            async with turns.turn(somebody(1)):
                pass

        async def taken():
            async with asyncio.TaskGroup() as group, turns.turn(somebody(1)):
                second = group.create_task(again())
                await until(lambda: turns.waiting == 1)
                async with turns.turn(somebody(2)):
                    assert (turns.full, second.done()) == (True, False)

        asyncio.run(taken())

    def test_long_imports_and_cards_are_not_in_the_way_of_what_is_quick(
        self, made, ask, monkeypatch
    ):
        app = made[0]
        north, _ = self.links(ask)
        export = ask.get(f"{north}/export").text
        monkeypatch.setattr(campaigns, "LARGE_MIN_IMPORT_BYTES", 0)
        large, long = app.state.places.large, app.state.places.long

        async def asked():
            cookie = {"Cookie": f"hb_owner={OWNER}", "Origin": "http://127.0.0.1"}
            async with calling(app, OWNER) as client, asyncio.TaskGroup() as group:
                sent = []
                async with large.turn(somebody()), long.turn(somebody()):
                    importing = client.post("/api/campaigns/import", content=export)
                    sent.append(group.create_task(importing))
                    path = f"{north.removeprefix('/api')}/cards"
                    form = {"days": "1", "agents": "agent-1"}
                    making = client.post(path, data=form, headers=cookie)
                    sent.append(group.create_task(making))
                    await until(lambda: (large.waiting, long.waiting) == (1, 1))
            return [one.result().status_code for one in sent]

        assert asyncio.run(asked()) == [200, 200]

    def test_while_the_database_is_locked_others_read(self, made, ask, tmp_path):
        app = made[0]
        north, tokens = self.links(ask, "planner", "planner", "viewer")
        locking = sqlite3.connect(tmp_path / "campaigns.db", isolation_level=None)

        async def asked():
            async with AsyncExitStack() as held, asyncio.TaskGroup() as group:
                clients = [await held.enter_async_context(calling(app, one)) for one in tokens]
                locking.execute("BEGIN IMMEDIATE")
                for client in clients[:2]:
                    group.create_task(client.post(f"{north}/notes", json={"text": "x"}))
                await until(lambda: app.state.places.writing.waiting == 1)
                try:
                    async with asyncio.timeout(3):
                        seen = [await clients[2].get(path) for path in (north, "/api/health")]
                finally:
                    locking.execute("ROLLBACK")
            return [answer.status_code for answer in seen]

        with closing(locking):
            assert asyncio.run(asked()) == [200, 200]

    def test_health_is_said_when_nothing_is_free(self, made):
        app = made[0]

        async def asked():
            async with AsyncExitStack() as held, calling(app, None) as client:
                for number in range(module.QUICK_PLACES):
                    turn = app.state.places.quick.turn(somebody(number))
                    await held.enter_async_context(turn)
                async with asyncio.timeout(3):
                    return (await client.get("/api/health")).status_code

        assert asyncio.run(asked()) == 200

    @pytest.mark.parametrize(
        ("kind", "busy", "path"),
        [
            ("quick", module.QUICK_PLACES, "/rounds/1"),
            ("quick", module.QUICK_PLACES, "/arms"),
            ("long", 1, "/projection?rounds=1&draws=10"),
        ],
    )
    def test_a_link_that_ends_while_it_waits_is_told_nothing(self, made, ask, kind, busy, path):
        app = made[0]
        north, (viewer,) = self.links(ask, "viewer")
        turns = getattr(app.state.places, kind)
        campaign, link = north.rpartition("/")[2], viewer.split("_")[2]

        async def asked():
            async with calling(app, viewer) as one, AsyncExitStack() as held:
                for number in range(busy):
                    await held.enter_async_context(turns.turn(somebody(number)))
                answer = asyncio.create_task(one.get(north + path))
                await until(lambda: turns.waiting == 1)
                who = Who(OWNER_NAME)
                await asyncio.to_thread(revoke_link, made[1], campaign, who, link)
                await held.aclose()
                return await answer

        assert asyncio.run(asked()).status_code == 401

    @pytest.mark.parametrize(
        ("kind", "path", "query"),
        [
            ("long", "/projection", b"rounds=1&draws=10"),
            ("quick", "", b""),
            ("large", "/arms", b""),
        ],
    )
    def test_nothing_is_computed_for_whoever_has_left(
        self, made, ask, kind, path, query, monkeypatch
    ):
        monkeypatch.setattr(module, "LARGE_MIN_PAIRS", 0)
        app = made[0]
        north, (viewer,) = self.links(ask, "viewer")
        sent = []

        async def receive():
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        async def asked():
            scope = {
                "type": "http",
                "method": "GET",
                "scheme": "http",
                "path": f"{north}{path}",
                "query_string": query,
                "headers": [(b"authorization", f"Bearer {viewer}".encode())],
            }
            turns = getattr(app.state.places, kind)
            async with asyncio.TaskGroup() as group, AsyncExitStack() as held:
                for number in range(module.QUICK_PLACES if kind == "quick" else 1):
                    await held.enter_async_context(turns.turn(somebody(number)))
                group.create_task(app(scope, receive, send))
                await until(lambda: turns.waiting == 1)
            return turns.waiting, turns.full

        assert asyncio.run(asked()) == (0, False)
        assert sent[0]["status"] == 499

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("worth?sensitivity=.5&rounds=1000&draws=500", 422),
            ("worth?sensitivity=.5&rounds=1&draws=10&agent=nobody", 422),
            ("projection?rounds=1000&draws=500", 422),
            ("history?agent=nobody", 422),
            ("rounds/1/outcomes/nobody", 404),
        ],
    )
    def test_nothing_is_worked_out_while_nobody_else_is_answered(
        self, made, ask, path, status, monkeypatch
    ):
        """And how many rounds would do is found in few steps."""
        steps, (north, (planner,)) = [], self.links(ask, "planner")

        def watch(owner, name):
            done = getattr(owner, name)

            def watched(*given, **more):
                steps.append(threading.current_thread() is threading.main_thread())
                return done(*given, **more)

            monkeypatch.setattr(owner, name, watched)

        watch(projection, "estimate_seconds")
        watch(projection, "state_with_other_team")
        watch(difflib, "get_close_matches")
        monkeypatch.setattr(knowledge, "LONG_COMPUTATION_MAX_S", 0.01)
        with Asker(made[0], planner) as asking:
            if "outcomes" in path:
                body = {"successes": 1, "tests": 1}
                answer = asking.put(f"{north}/{path}", json=body)
            else:
                page = north.removeprefix("/api") if "history" in path else north
                answer = asking.get(f"{page}/{path}", headers={"Cookie": f"hb_owner={OWNER}"})
        assert answer.status_code == status, answer.text
        assert 1 <= len(steps) < 40
        assert not any(steps)

    def revoking(self, monkeypatch, owner, name, log, campaign):
        """Have the link of a viewer or planner revoked while this is done; how often it is."""
        done, times = getattr(owner, name), []

        def while_revoked(*given, **more):
            if not times:
                (link,) = log.state(campaign).links
                revoke_link(log, campaign, Who("Pia"), link)
            times.append(name)
            return done(*given, **more)

        monkeypatch.setattr(owner, name, while_revoked)
        return times

    @pytest.mark.parametrize(
        ("path", "owner", "name"),
        [
            ("answers", serialization, "json_of_answers"),
            ("projection?rounds=1&draws=10", projection, "project"),
            ("rounds?preview=true", serialization, "json_of_preview"),
            ("rounds/1", serialization, "json_of_round"),
        ],
    )
    @pytest.mark.parametrize("pairs", [0, 1_000], ids=["large", "quick"])
    def test_whose_link_ends_meanwhile_is_told_nothing(
        self, made, ask, log, path, owner, name, pairs, monkeypatch
    ):
        monkeypatch.setattr(module, "LARGE_MIN_PAIRS", pairs)
        north, (planner,) = self.links(ask, "planner")
        times = self.revoking(monkeypatch, owner, name, log, north.rpartition("/")[2])
        with Asker(made[0], planner) as looking:
            previews = "preview" in path
            answer = (
                looking.post(f"{north}/{path}", json={})
                if previews
                else looking.get(f"{north}/{path}")
            )
            refused(answer, 401, "not-admitted")
        assert times

    @pytest.mark.parametrize("way", ["program", "page"])
    def test_an_export_breaks_off_with_the_link(self, made, ask, log, way, monkeypatch, caplog):
        monkeypatch.setattr(campaigns, "EXPORT_TURN_EVENTS", 1)
        north, (planner,) = self.links(ask, "planner")
        campaign = north.rpartition("/")[2]
        times = self.revoking(monkeypatch, campaigns, "render_event_lines", log, campaign)
        head, path = (b"authorization", f"Bearer {planner}".encode()), f"{north}/export"
        if way == "page":
            head = (b"cookie", f"hb_{campaign}={planner}".encode())
            path = f"/campaigns/{campaign}/events.ndjson"
        scope = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "query_string": b"",
            "headers": [head],
        }
        sent = []

        async def send(message):
            sent.append(message)

        asyncio.run(made[0](scope, asyncio.Event().wait, send))
        assert len(times) == 1
        assert sent[0]["status"] == 200
        assert not any(part["body"] for part in sent[1:])
        assert all(part["more_body"] for part in sent[1:])  # so that the server hangs up
        assert caplog.records == []

    @pytest.mark.parametrize("kind", ["large", "long"])
    def test_what_is_computed_ends_with_the_server(self, made, kind):
        app, begun, ended = made[0], threading.Event(), threading.Event()

        async def receive():
            await asyncio.sleep(60)

        def compute(tell=None):
            try:
                for _ in range(10_000):
                    end_abandoned_work()
                    begun.set()
                    time.sleep(0.001)
            except module.ClientGone:
                ended.set()

        async def asked():
            scope = {
                "type": "http",
                "method": "GET",
                "app": app,
                "path_params": {},
                "client": None,
                "state": {},
            }
            request = Request(scope, receive)
            begin = (
                module.compute_alone
                if kind == "long"
                else partial(module.compute_by_size, large=True)
            )
            asking = asyncio.create_task(begin(request, compute))
            await until(begun.is_set)
            asking.cancel()  # which the server does with what takes too long for it to end
            with pytest.raises(asyncio.CancelledError):
                await asking

        asyncio.run(asked())
        assert ended.wait(5)

    def test_what_is_long_ends_when_its_asker_has_left(self, made):
        app, begun, ended = made[0], threading.Event(), threading.Event()

        async def receive():
            while not begun.is_set():
                await asyncio.sleep(0.001)
            return {"type": "http.disconnect"}

        def compute(tell):
            try:
                for _ in range(10_000):
                    tell(0.5)
                    begun.set()
                    time.sleep(0.001)
            finally:
                ended.set()

        async def asked():
            scope = {
                "type": "http",
                "method": "GET",
                "app": app,
                "path_params": {},
                "client": None,
                "state": {},
            }
            with pytest.raises(HTTPException) as caught:
                await module.compute_alone(Request(scope, receive), compute)
            return caught.value.status_code, app.state.places.long.full

        assert asyncio.run(asked()) == (module.CLIENT_GONE_STATUS, False)
        assert ended.is_set()

    def test_what_is_long_ends_before_others_wait_in_vain(self, made, ask, monkeypatch):
        monkeypatch.setattr(module, "COMPUTATION_MAX_S", -1.0)
        north, (viewer,) = self.links(ask, "viewer")
        with Asker(made[0], viewer) as looking:
            for part in ("shadow?policy=cucb", "projection?rounds=1&draws=10"):
                refused(looking.get(f"{north}/{part}"), 422, "invalid-input")

    def test_an_import_ends_before_others_wait_in_vain(
        self, ask, log, north, monkeypatch, tmp_path
    ):
        (head,) = log.store.heads()
        text = export_events(log, head.campaign)
        monkeypatch.setattr(campaigns, "LARGE_MIN_IMPORT_BYTES", 0)
        monkeypatch.setattr(module, "COMPUTATION_MAX_S", -1.0)
        elsewhere, other = app_on(tmp_path / "other.db")
        with Asker(elsewhere) as there:
            answer = there.post("/api/campaigns/import", content=text)
        assert "takes longer" in refused(answer, 422, "invalid-input")["detail"]
        assert other.store.heads() == []

    def test_an_export_comes_in_parts(self, ask, log, north, monkeypatch):
        monkeypatch.setattr(campaigns, "EXPORT_TURN_EVENTS", 2)
        (head,) = log.store.heads()
        assert head.number % 2 == 0
        ask.post(f"{north}/notes", json={"text": "x"})
        assert ask.get(f"{north}/export").text == export_events(log, head.campaign)

    def test_large_events_come_in_parts(self, ask, log, north, monkeypatch):
        monkeypatch.setattr(service, "PART_BYTES", 1_000)
        for _ in range(3):
            ask.post(f"{north}/notes", json={"text": "x" * 600})
        (head,) = log.store.heads()
        assert ask.get(f"{north}/export").text == export_events(log, head.campaign)
        numbers = [one["number"] for one in ask.get(f"{north}/events?after=2").json()["events"]]
        assert numbers == [3]


class TestBudgets:
    """What is written stays, so that a link may not write without end."""

    TOLD: ClassVar = {"successes": 1, "tests": 1}

    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch):
        monkeypatch.setattr(budgets, "REFUSAL_PAUSE_S", 0.0)

    def link(self, ask, place, role):
        token = ask.post(f"{place}/links", json={"role": role, "name": role}).json()["token"]
        return {"Authorization": f"Bearer {token}"}

    def tell(self, ask, place, agent, link, number=1):
        told = {"successes": number % 2, "tests": 1}
        path = f"{place}/rounds/1/outcomes/{agent}"
        return ask.put(path, json=told, headers=link | {"If-Match": "*"})

    def test_a_link_writes_so_much_an_hour(self, ask, log, north, monkeypatch):
        monkeypatch.setattr(budgets, "REPORTER_HOURLY_WRITES", 6)
        monkeypatch.setattr(budgets, "AGENT_HOURLY_WRITES", 0)
        reporter, planner = (self.link(ask, north, role) for role in ("reporter", "planner"))
        ask.put(f"{north}/rounds/1/outcomes/Ana", json=self.TOLD, headers=reporter)
        for number in range(5):
            assert self.tell(ask, north, "Ana", reporter, number).status_code == 200
        last = log.store.heads()[0].number
        answer = self.tell(ask, north, "Ana", reporter, 1)
        problem = refused(answer, 429, "too-many")
        assert "within an hour: wait" in problem["detail"]
        assert 0 < int(answer.headers["retry-after"]) <= 3600 / 6
        assert ask.delete(f"{north}/rounds/1/outcomes/Ana", headers=reporter).status_code == 429
        assert log.store.heads()[0].number == last
        assert ask.get(north, headers=reporter).status_code == 200
        for number in range(10):
            assert self.tell(ask, north, "Ana", planner, number).status_code == 200
            assert self.tell(ask, north, "Ana", {}, number + 1).status_code == 200

    def test_all_agents_of_a_large_team_may_report_by_one_link(self, ask, monkeypatch):
        monkeypatch.setattr(budgets, "REPORTER_HOURLY_WRITES", 3)
        monkeypatch.setattr(budgets, "AGENT_HOURLY_WRITES", 1)
        team = [{"name": f"a{i}", "sensitivity": 0.5} for i in range(20)]
        arms = [{"name": f"n{i}"} for i in range(20)]
        body = NORTH | {"agents": team, "arms": arms}
        place = f"/api/campaigns/{ask.post('/api/campaigns', json=body).json()['id']}"
        ask.post(f"{place}/rounds")
        link = self.link(ask, place, "reporter")
        told = [
            ask.put(f"{place}/rounds/1/outcomes/a{i}", json=self.TOLD, headers=link).status_code
            for i in range(20)
        ]
        assert told == [201] * 20
        assert self.tell(ask, place, "a1", link, 2).status_code == 429

    def test_a_link_writes_so_many_bytes_an_hour(self, ask, log, north, monkeypatch):
        monkeypatch.setattr(budgets, "BYTES", 10_000)
        planner = self.link(ask, north, "planner")

        def note(letters, link):
            return ask.post(f"{north}/notes", json={"text": "ü" * letters}, headers=link)

        assert note(4_000, planner).status_code == 201
        last = log.store.heads()[0].number
        answer = note(1_000, planner)
        assert "0.01 MB within an hour" in refused(answer, 429, "too-many")["detail"]
        assert 0 < int(answer.headers["retry-after"]) <= 3600
        assert log.store.heads()[0].number == last
        assert note(100, planner).status_code == 201
        assert note(9_000, {}).status_code == 201

    def test_a_visit_is_changed_so_often_by_whatever_name(self, ask, north, monkeypatch):
        monkeypatch.setattr(budgets, "VISIT_HOURLY_WRITES", 4)
        link = self.link(ask, north, "reporter")
        for path in ("1/outcomes/Ana", "1/outcomes/agent-1", "01/outcomes/Ana"):
            ask.put(f"{north}/rounds/{path}", json=self.TOLD, headers=link)
        assert self.tell(ask, north, "Ana", link, 2).status_code == 200
        answer = self.tell(ask, north, "agent-1", link, 1)
        assert "look at what stands there" in refused(answer, 429, "too-many")["detail"]
        assert 0 < int(answer.headers["retry-after"]) <= 3600 / 4
        assert ask.put(f"{north}/rounds/1/outcomes/Chi", json=self.TOLD, headers=link).status_code == 201  # fmt: skip
        assert self.tell(ask, north, "Ana", {}, 1).status_code == 200

    def test_on_a_page_it_is_said_too(self, made, ask, north, monkeypatch):
        monkeypatch.setattr(budgets, "VISIT_HOURLY_WRITES", 1)
        token = ask.post(f"{north}/links", json={"role": "reporter", "name": "R"}).json()["token"]
        place = north.removeprefix("/api")
        arm = ask.get(f"{north}/rounds/1").json()["visits"][0]["arm_id"]
        with Visitor(made[0], token) as visitor:
            path = f"{place}/rounds/1/outcomes/agent-1"
            assert visitor.submit(path, do="found", arm=arm).status_code == 303
            answer = visitor.submit(path, do="found", arm=arm)
        assert answer.status_code == 429
        assert "before you change it again" in answer.text
        assert int(answer.headers["retry-after"]) > 0

    def test_a_budget_fills_again(self, monkeypatch):
        monkeypatch.setattr(budgets, "BUDGETS_MAX_ENTRIES", 3)
        left = budgets.Budgets(period_s=0.2)
        assert [left.spend("me", 2) for _ in range(2)] == [0.0, 0.0]
        assert 0.0 < left.spend("me", 2) <= 0.1
        asyncio.run(until(lambda: left.spend("me", 2) == 0.0))
        for number in range(9):
            left.spend(number, 2)
        assert len(left) == 3

    def test_what_is_given_back_can_be_spent_again(self):
        left = budgets.Budgets()
        assert left.spend("me", 100, 90) == 0.0
        assert left.spend("me", 100, 60) > 0.0
        left.spend("me", 100, -90)
        assert left.spend("me", 100, 100) == 0.0
        assert left.spend("me", 100, 60) > 0.0


class TestNames:
    """Any name that a campaign takes can stand in a path."""

    def test_in_paths(self, ask):
        agents = [{"name": name, "sensitivity": 0.5} for name in HOSTILE]
        body = NORTH | {"agents": agents, "arms": [{"name": name} for name in HOSTILE]}
        place = f"/api/campaigns/{ask.post('/api/campaigns', json=body).json()['id']}"
        ask.post(f"{place}/rounds")
        for number, name in enumerate(HOSTILE, 1):
            part = quote(name, safe="").replace(".", "%2E")
            visit = f"{place}/rounds/1/outcomes/{part}"
            said = ask.put(visit, json={"successes": 1, "tests": 1})
            assert conforms(responses_schema.VisitJson, said, 201)["agent"] == name
            assert ask.delete(visit).json()["agent_id"] == f"agent-{number}"
            moved = ask.put(f"{place}/rounds/1/overrides/{part}", json={"arms": []})
            assert moved.status_code == 200
            for what in ("arm", "agent"):
                plain = ask.patch(f"{place}/{what}s/{part}", json={"name": f"plain {number}"})
                assert plain.json()["id"] == f"{what}-{number}"

    def test_half_a_character_is_refused(self, ask, log):
        body = json.dumps(NORTH | {"arms": [{"name": "\ud800"}]})
        answer = ask.post("/api/campaigns", content=body, headers=JSON)
        assert paths(answer) == ["arms[0].name"]
        assert log.store.heads() == []


class TestKeys:
    """The same key again gives the first answer, and nothing is done twice."""

    def test_every_kind_of_write(self, ask, north, log):
        writes = [
            ("POST", "/api/campaigns", NORTH),
            ("POST", f"{north}/rounds", {}),
            ("PUT", f"{north}/rounds/1/outcomes/Ana", {"successes": 1, "tests": 1}),
            ("PUT", f"{north}/rounds/1/overrides/Ben", {"arms": ["gate"]}),
            ("POST", f"{north}/rounds/1/close", None),
            ("POST", f"{north}/notes", {"text": "rain"}),
            ("POST", f"{north}/agents", {"agents": [{"name": "Dan", "sensitivity": 0.5}]}),
            ("POST", f"{north}/arms", {"arms": [{"name": "ford"}]}),
            ("PATCH", f"{north}/agents/Dan", {"name": "Dora"}),
            ("PATCH", f"{north}/arms/ford", {"retired": True}),
            ("PATCH", north, {"name": "South park"}),
            ("DELETE", f"{north}/rounds/1/outcomes/Ana", None),
        ]
        answers = []
        for number, (method, path, body) in enumerate(writes):
            key = {"Idempotency-Key": f"key {number}"}
            first = ask.request(method, path, json=body, headers=key)
            assert first.is_success, (path, first.text)
            answers.append((key, first))
        heads = log.store.heads()
        # Dan is Dora now, so that what names it in a path is not there: by id it would be.
        for (method, path, body), (key, first) in zip(writes, answers, strict=True):
            again = ask.request(method, path, json=body, headers=key)
            if path.endswith("/agents/Dan"):
                refused(again, 404, "not-found")
                continue
            assert (again.status_code, again.text) == (first.status_code, first.text)
            assert again.headers["etag"] == first.headers["etag"]
        assert log.store.heads() == heads

    def test_a_key_of_another_request_is_refused(self, ask, north, log):
        key = {"Idempotency-Key": "k"}
        ask.post(f"{north}/notes", json={"text": "rain"}, headers=key)
        before = log.store.heads()
        other = ask.post(f"{north}/notes", json={"text": "sun"}, headers=key)
        refused(other, 422, "key-reused")
        refused(ask.post(f"{north}/rounds", headers=key), 422, "key-reused")
        assert log.store.heads() == before

    def test_an_import_has_its_first_answer_again(self, log, tmp_path):
        campaign = service.create(log, Who("Vera"), **NORTH).state.campaign
        north = f"/api/campaigns/{campaign}"
        short = export_events(log, campaign)
        service.add_note(log, campaign, Who("Vera"), "rain")
        long = export_events(log, campaign)
        other, log = app_on(tmp_path / "other.db")
        with Asker(other) as there:
            where = "/api/campaigns/import"
            firsts = {}
            for text, key in (
                (short, "short"),
                (long, "long"),
            ):  # the second goes on with the first
                firsts[key] = there.post(where, content=text, headers={"Idempotency-Key": key})
            there.post(f"{north}/notes", json={"text": "sun"})
            for text, key in ((short, "short"), (long, "long")):
                again = there.post(where, content=text, headers={"Idempotency-Key": key})
                first = firsts[key]
                assert (again.status_code, first.status_code) == (201, 201)
                assert (again.text, again.headers["etag"]) == (first.text, first.headers["etag"])
            before = log.store.heads()
            for text in (long, long + "\n"):
                mixed = there.post(where, content=text, headers={"Idempotency-Key": "short"})
                refused(mixed, 422, "key-reused")
            assert log.store.heads() == before

    def test_what_wrote_nothing_does_not_keep_its_key(self, ask, north):
        ana, key = f"{north}/rounds/1/outcomes/Ana", {"Idempotency-Key": "k"}
        ask.put(ana, json={"successes": 1, "tests": 1})
        same = ask.put(ana, json={"successes": 1, "tests": 1}, headers=key)
        assert same.status_code == 200
        note = ask.post(f"{north}/notes", json={"text": "rain"}, headers=key)
        assert note.status_code == 201

    def test_keys_are_of_one_campaign(self, ask, north):
        other = f"/api/campaigns/{ask.post('/api/campaigns', json=NORTH).json()['id']}"
        for place in (north, other):
            sent = ask.post(
                f"{place}/notes", json={"text": place[-12:]}, headers={"Idempotency-Key": "k"}
            )
            assert sent.json()["text"] == place[-12:]

    @pytest.mark.parametrize("key", ["", "k" * 201, "a\tb"])
    def test_keys_that_are_none(self, ask, north, key):
        answer = ask.post(f"{north}/rounds", headers={"Idempotency-Key": key})
        refused(answer, 422, "invalid-input")

    def test_a_token_is_told_once(self, ask, north):
        body, key = {"role": "viewer", "name": "Eva"}, {"Idempotency-Key": "k"}
        first = conforms(
            responses_schema.NewLinkJson, ask.post(f"{north}/links", json=body, headers=key), 201
        )
        again = conforms(
            responses_schema.NewLinkJson, ask.post(f"{north}/links", json=body, headers=key), 201
        )
        assert first["token"]
        assert first["url"].endswith(f"/enter/{first['token']}")
        assert again == first | {"token": None, "url": None}


class TestTags:
    """ETags are numbers of events."""

    READ = (
        "", "/rounds", "/rounds/1", "/rounds/1/explanations", "/arms", "/answers", "/links",
        "/events", "/export", "/visits.csv", "/shadow?policy=cucb",
        "/projection?rounds=1&draws=10", "/worth?sensitivity=0.5&rounds=1&draws=10",
    )  # fmt: skip

    def test_what_has_not_changed_is_not_sent_again(self, ask, north):
        for path in self.READ:
            first = ask.get(f"{north}{path}")
            assert (first.status_code, first.headers["etag"]) == (200, '"2"')
            for tag in ('"2"', 'W/"2"', '"1", "2"'):
                again = ask.get(f"{north}{path}", headers={"If-None-Match": tag})
                assert (again.status_code, again.content) == (304, b"")
                assert again.headers["etag"] == '"2"'
        ask.post(f"{north}/notes", json={"text": "rain"})
        for path in self.READ:
            later = ask.get(f"{north}{path}", headers={"If-None-Match": '"2"'})
            assert (later.status_code, later.headers["etag"]) == (200, '"3"')

    def test_what_is_not_there_has_not_stayed_the_same(self, ask, north):
        for path, status, kind in (
            ("/rounds/999", 404, "not-found"),
            ("/rounds/999/explanations", 404, "not-found"),
            ("/shadow", 422, "invalid-input"),
            ("/shadow?policy=none-such", 422, "invalid-input"),
            ("/projection?rounds=0", 422, "invalid-input"),
            ("/worth?sensitivity=7&rounds=1", 422, "invalid-input"),
            ("/events?after=x", 422, "invalid-input"),
            ("?colour=red", 422, "invalid-input"),
        ):
            answer = ask.get(f"{north}{path}", headers={"If-None-Match": '"2"'})
            refused(answer, status, kind)


class TestProblems:
    """Whatever goes wrong is a problem with a type, and never a failure."""

    def test_bodies_that_are_no_json(self, ask, north):
        for body in (b"{", b"", b"\xff\xfe", b'{"name": 1e', b"[" * 100_000, b"9" * 10_000):
            answer = ask.post("/api/campaigns", content=body, headers=JSON)
            assert answer.status_code in (400, 422), body
            assert answer.headers["content-type"] == "application/problem+json"
        refused(ask.post("/api/campaigns", content=b"{", headers=JSON), 400, "malformed")  # fmt: skip

    @pytest.mark.parametrize(
        "body",
        [
            b'{"text": "rain", "text": "sun"}',
            b'{"text": "rain", "round": {"a": 1, "a": 1}}',
            b'\xef\xbb\xbf{"text": "rain", "text": "rain"}',
        ],
    )
    def test_bodies_that_say_something_twice(self, ask, north, log, body):
        before = log.store.heads()
        answer = ask.post(f"{north}/notes", content=body, headers=JSON)
        assert "is there twice" in refused(answer, 400, "malformed")["detail"]
        assert log.store.heads() == before

    @pytest.mark.parametrize("twice", [True, False])
    def test_bodies_of_very_many_keys_stop_nobody(self, ask, north, twice):
        keys = [f'"k{i}": 0' for i in range(40_000)] + ['"k39999": 0'] * twice
        began = time.monotonic()
        answer = ask.post(f"{north}/agents", content=f"{{{', '.join(keys)}}}", headers=JSON)
        assert time.monotonic() - began < 3  # not the minute of looking at every pair of keys
        if twice:
            assert "'k39999' is there twice" in refused(answer, 400, "malformed")["detail"]
        else:
            assert len(refused(answer, 422, "invalid-input")["errors"]) == 100

    def test_very_many_wrong_queries_are_not_all_named(self, ask, north):
        query = "&".join(f"q{i}=" for i in range(1_000))
        assert len(refused(ask.get(f"{north}?{query}"), 422, "invalid-input")["errors"]) == 100

    def test_a_long_body_is_read_while_others_are_answered(self, made):
        """Not in the thread of the event loop."""
        body = json.dumps({"text": "x", "more": [{"a": i} for i in range(70_000)]})
        with pytest.MonkeyPatch.context() as patch, Asker(made[0]) as ask:
            place = f"/api/campaigns/{ask.post('/api/campaigns', json=NORTH).json()['id']}/agents"
            threads = set()
            loads = json.loads
            patch.setattr(
                json, "loads",
                lambda *given, **how: (threads.add(threading.current_thread()), loads(*given, **how))[1],
            )  # fmt: skip
            answer = ask.post(place, content=body, headers=JSON)
        assert threads
        assert threading.main_thread() not in threads
        refused(answer, 422, "invalid-input")

    def test_bodies_that_are_not_called_json(self, ask, north, log):
        before = log.store.heads()
        for media in (None, "application/x-www-form-urlencoded", "text/plain", "application/jsonl"):
            headers = {} if media is None else {"Content-Type": media}
            answer = ask.post(f"{north}/notes", content=b'{"text": "rain"}', headers=headers)
            problem = refused(answer, 415, "wrong-media")
            assert "send Content-Type: application/json" in problem["detail"]
        assert log.store.heads() == before
        for media in ("application/json; charset=utf-8", "Application/JSON", "application/x+json"):
            content, headers = b'{"text": "rain"}', {"Content-Type": media}
            assert ask.post(f"{north}/notes", content=content, headers=headers).status_code == 201

    @pytest.mark.parametrize(
        ("method", "path", "said"),
        [
            ("POST", "/rounds?previw=true", "did you mean 'preview'?"),
            ("POST", "/rounds?preview=true&dry=1", "unknown query 'dry'"),
            ("PUT", "/rounds/1/outcomes/Ana?Arm=river", "did you mean 'arm'?"),
            ("POST", "/rounds/1/close?force", "this has none"),
            ("GET", "?verbose=1", "this has none"),
        ],
    )
    def test_queries_that_nobody_knows(self, ask, north, log, method, path, said):
        before = log.store.heads()
        body = {"successes": 1, "tests": 1} if method == "PUT" else None
        problem = refused(ask.request(method, f"{north}{path}", json=body), 422, "invalid-input")
        assert said in problem["errors"][-1]["message"]
        assert log.store.heads() == before

    def test_an_upload_that_is_dropped_ends_quietly(self, made, ask, north, log):
        before = log.store.heads()
        messages = iter(
            [
                {"type": "http.request", "body": b'{"te', "more_body": True},
                {"type": "http.disconnect"},
            ]
        )
        sent = []

        async def receive():
            return next(messages)

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
            "scheme": "http", "path": f"{north}/notes", "raw_path": f"{north}/notes".encode(),
            "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1), "server": ("h", 80),
            "headers": [(b"authorization", f"Bearer {OWNER}".encode())],
        }  # fmt: skip
        asyncio.run(made[0](scope, receive, send))
        route = 'route="/api/campaigns/{campaign}/notes"'
        page = ask.get("/metrics").text
        assert f'heterobandits_requests_total{{method="POST",{route},status="499"}} 1.0' in page
        assert f'{route},status="500"' not in page
        assert log.store.heads() == before

    def test_bodies_that_are_too_large(self, ask, north, log):
        before = log.store.heads()
        large = json.dumps({"text": "x" * 200_001})
        answer = ask.post(f"{north}/notes", content=large, headers=JSON)
        assert "at most" in refused(answer, 413, "too-large")["detail"]
        pieces = (b"x" * 90_000 for _ in range(3))  # it does not say how long it is
        refused(ask.post(f"{north}/notes", content=pieces), 413, "too-large")
        told = {"successes": 1, "tests": 1}
        large = json.dumps(told) + " " * 8_000
        answer = ask.put(f"{north}/rounds/1/outcomes/Ana", content=large, headers=JSON)
        assert "over 8,000 bytes" in refused(answer, 413, "too-large")["detail"]
        long = {"Content-Length": "0" * 5_000 + "2"} | JSON  # more digits than Python reads
        refused(ask.post(f"{north}/notes", content=b"{}", headers=long), 413, "too-large")
        longest = {"text": "\U0001f600" * 10_000}  # as programs escape it, twelve bytes a letter
        assert ask.post(f"{north}/notes", json=longest).status_code == 201
        before = log.store.heads()
        refused(ask.post("/api/campaigns/import", content=b"x" * 20_000_001), 413, "too-large")
        refused(ask.post("/api/campaigns/import", content=b"x" * 1_000_001), 422, "invalid-input")
        assert log.store.heads() == before

    def test_a_body_of_what_is_only_looked_at_is_not_read(self, made, ask, north):
        async def receive():
            raise AssertionError("the body was asked for")

        statuses = []

        async def send(message):
            statuses.append(message.get("status"))

        headers = {"authorization": f"Bearer {OWNER}", "content-length": "8000"}
        request = {
            "type": "http", "method": "GET", "path": north, "query_string": b"", "scheme": "http",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        asyncio.run(made[0](request, receive, send))
        assert statuses[0] == 200
        for more in ({"content": b"x" * 8_001}, {"content": iter([b"x"])}):
            refused(ask.request("GET", north, **more), 413, "too-large")

    def test_what_is_read_of_a_body_waits_for_its_turn(self, made, ask, north, monkeypatch):
        """And a link that has spent its budget is told so before."""
        monkeypatch.setattr(budgets, "REFUSAL_PAUSE_S", 0.0)
        monkeypatch.setattr(budgets, "REPORTER_HOURLY_WRITES", 1)
        monkeypatch.setattr(budgets, "AGENT_HOURLY_WRITES", 0)
        token = ask.post(f"{north}/links", json={"role": "reporter", "name": "R"}).json()["token"]
        bearer = {"Authorization": f"Bearer {token}"}
        place = f"{north}/rounds/1/outcomes/Ana"
        read = []
        monkeypatch.setattr(
            base, "parse_body", lambda *given: (read.append(made[0].state.places.quick._holding.copy()), parse_body(*given))[1]
        )  # fmt: skip
        assert ask.put(place, content=b"{", headers=JSON | bearer).status_code == 400
        assert [[asker.campaign for asker in one] for one in read] == [[north.split("/")[-1]]]
        assert ask.put(place, content=b"{", headers=JSON | bearer).status_code == 429
        assert len(read) == 1

    def test_of_very_many_wrong_entries_a_hundred_are_named(self, ask, north):
        for entry in ("7", '{"name":""}', '{"name":"x","sensitivity":7}'):
            content = f'{{"agents":[{",".join([entry] * 9_000)}]}}'
            answer = ask.post(f"{north}/agents", content=content, headers=JSON)
            assert len(refused(answer, 422, "invalid-input")["errors"]) == 100
            assert len(answer.content) < 30_000
        many = f'{{"absent":[{",".join(["1"] * 90_000)}], "more": 1}}'
        answer = ask.post(f"{north}/rounds", content=many, headers=JSON)
        assert paths(answer) == ["absent[0]", "more"]

    def test_a_round_has_one_name(self, ask, north):
        """By another its reports would be counted apart."""
        for name in (
            "0",
            "2",
            "-1",
            "1.5",
            "1.0",
            "+1",
            "%201",
            "1_0",
            "-0",
            "1e0",
            "x",
            "9" * 5_000,
        ):
            assert ask.get(f"{north}/rounds/{name}").status_code == 404
            answer = ask.put(f"{north}/rounds/{name}/outcomes/Ana", json={"missing": True})
            refused(answer, 404, "not-found")

    def test_what_is_not_there(self, ask, north):
        for path in ("/api", "/api/nothing", f"{north}/", "/api/docs", "/api/campaigns/"):
            refused(ask.get(path), 404, "not-found")
        refused(ask.get("/api/campaigns/000000000000"), 404, "not-found")
        refused(ask.get("/api/campaigns/%00"), 404, "not-found")
        refused(ask.put(f"{north}/rounds/1/outcomes/Zoe", json={"missing": True}), 404, "not-found")
        refused(ask.patch(f"{north}/arms/moon", json={"name": "sun"}), 404, "not-found")
        refused(ask.delete(f"{north}/links/none"), 404, "not-found")

    def test_methods_that_are_not_for_it(self, ask, north):
        answer = ask.put(north)
        refused(answer, 405, "wrong-method")
        assert set(answer.headers["allow"].split(", ")) >= {"GET"}

    def test_a_database_that_is_gone(self, ask, north, log, monkeypatch):
        def gone(*arguments, **options):
            raise StoreUnavailable("the database x.db: the disk is full", "the disk is full")

        monkeypatch.setattr(log.store, "append", gone)
        answer = ask.post(f"{north}/rounds")
        assert refused(answer, 503, "unavailable")["detail"].endswith("the disk is full")
        assert int(answer.headers["retry-after"]) > 0
        monkeypatch.setattr(log.store, "check", gone)
        health = ask.get("/api/health")
        assert health.status_code == 503
        assert health.json()["database"] == "unavailable"
        assert "x.db" not in health.text

    def test_health_looks_whether_the_disk_is_full(self, ask, monkeypatch):
        assert ask.get("/api/health").status_code == 200
        asked = os.statvfs

        def full(path):
            found = list(asked(path))
            found[3:5] = 0, 0  # blocks that are free
            return os.statvfs_result(found)

        monkeypatch.setattr(os, "statvfs", full)
        assert ask.get("/api/health").status_code == 503

    def test_which_database_it_is_only_the_server_says(self, tmp_path, caplog):
        app, _log = app_on(tmp_path / "secret place.db")
        with Asker(app) as ask:
            campaign = ask.post("/api/campaigns", json=NORTH).json()["id"]
            (tmp_path / "secret place.db").unlink()
            answer = ask.get(f"/api/campaigns/{campaign}")
        assert "output says why" in refused(answer, 503, "unavailable")["detail"]
        assert "secret place.db: the file or its -wal" in caplog.text
        with Asker(app, None) as visitor:
            visitor.cookies.set("hb_owner", OWNER)
            page = visitor.get(f"/campaigns/{campaign}")
        assert page.status_code == 503
        assert "output says why" in page.text
        for told in (answer.text, page.text):
            assert "secret" not in told

    def test_no_answer_is_taken_for_another_type(self, ask, north):
        for place in ("/metrics", "/api/health", "/api/openapi.json", "/static/site.js", north, f"{north}/visits.csv"):  # fmt: skip
            answer = ask.get(place)
            assert answer.status_code == 200
            assert answer.headers.get_list("x-content-type-options") == ["nosniff"]

    def test_what_has_a_token_in_it_is_kept_nowhere(self, ask, north):
        answer = ask.post(f"{north}/links", json={"role": "viewer", "name": "wall"})
        assert answer.json()["token"]
        assert answer.headers["cache-control"] == "no-store"

    def test_what_is_unforeseen_says_nothing_of_itself(self, made, north, monkeypatch):
        monkeypatch.setattr(service, "add_note", lambda *arguments: 1 / 0)
        with Asker(made[0], strict=False) as ask:
            answer = ask.post(f"{north}/notes", json={"text": "rain"})
        problem = refused(answer, 500, "failed")
        assert "zero" not in answer.text
        assert "Traceback" not in problem["detail"]


class TestServer:
    """Health, metrics and the description."""

    def test_health_needs_no_token(self, made):
        with Asker(made[0], None) as ask:
            said = conforms(responses_schema.HealthJson, ask.get("/api/health"))
            head = ask.head("/api/health")
        assert (said["status"], said["database"]) == ("ok", "ok")
        assert head.status_code == 200

    def test_metrics_have_templates_and_no_names(self, ask, north):
        ask.get(f"{north}/rounds/1")
        ask.get("/nowhere")
        ask.request("BREW", north)
        page = ask.get("/metrics").text
        route = 'route="/api/campaigns/{campaign}/rounds/{round}"'
        counted = f'heterobandits_requests_total{{method="GET",{route},status="200"}} 1.0'
        assert counted in page
        assert 'heterobandits_requests_total{method="GET",route="none",status="404"} 1.0' in page
        assert 'heterobandits_requests_total{method="other",route="none",status="405"} 1.0' in page
        assert "heterobandits_request_seconds_bucket" in page
        assert north.rpartition("/")[2] not in page
        assert OWNER not in page

    def test_the_description_has_every_route_with_its_problems(self, ask):
        described = ask.get("/api/openapi.json").json()
        put = described["paths"]["/api/campaigns/{campaign}/rounds/{round}/outcomes/{agent}"]["put"]
        assert {"200", "201", "401", "403", "404", "409", "412", "413", "422", "503"} <= set(
            put["responses"]
        )
        names = {parameter["name"].lower() for parameter in put["parameters"]}
        assert {"idempotency-key", "if-match", "campaign", "round", "agent", "arm"} <= names
        problem = put["responses"]["422"]["content"]
        assert list(problem) == ["application/problem+json"]
        assert "HTTPValidationError" not in described["components"]["schemas"]


class TestDocumentation:
    """The page of the API is true."""

    PAGE = (DOCS / "http-api.md").read_text("utf-8")
    WORDS: ClassVar = {
        "anyone": ANYONE_ROLES,
        "server's owner": SERVER_ROLES,
        "all": LINK_ACCESS,
        "owner": OWNER_ACCESS,
        "owner, planner": PLANNER_ACCESS,
        "owner, planner, viewer": READER_ACCESS,
        "owner, planner, reporter": REPORTER_ACCESS,
    }

    def test_it_has_how_large_a_body_may_be(self):
        rows = re.findall(r"^\| ([\d,]+) \| ([^|]+) \|", self.PAGE, re.M)
        said = {
            route: int(most.replace(",", ""))
            for most, routes in rows
            for route in re.findall(r"`([A-Z]+) (/\S*)`", routes)
        }
        assert said == BODY_MAX_BYTES_BY_ROUTE
        assert BODY_MAX_BYTES_BY_ROUTE.keys() <= ROUTE_ROLES.keys()
        assert str(SMALL_BODY_MAX_BYTES) in [most.replace(",", "") for most, _ in rows]

    def test_it_has_every_route_and_who_may(self):
        rows = re.findall(r"^\| `([A-Z]+) (/\S*)` \| ([^|]+) \|", self.PAGE, re.M)
        assert {(method, path): self.WORDS[who] for method, path, who in rows} == API_ROUTE_ROLES
        assert len(rows) == len(API_ROUTE_ROLES)

    def test_it_has_every_problem(self):
        rows = dict(re.findall(r"^\| (\d{3}) \| ([^|]+) \|", self.PAGE, re.M))
        named = {
            (int(status), name)
            for status, text in rows.items()
            for name in re.findall(r"/problems/([\w-]+)", text)
        }
        known = {(kind.status, kind.name) for kind in PROBLEM_KINDS}
        assert named == known | {(405, "wrong-method")}
