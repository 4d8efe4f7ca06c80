"""Who may do what: every route and method with every role; tokens that open nothing; how guessing is slowed down."""

import asyncio
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import httpx
import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.events import Draft, parse_event_line, render_event_line
from heterobandits.campaigns.links import hash_of_token, issue_link, revoke_link
from heterobandits.campaigns.reducer import WRITER_ROLES_BY_KIND
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.campaigns.storage.store import Store
from heterobandits.errors import InvalidInput
from heterobandits.web.app import create_app
from heterobandits.web.auth import (
    ANYONE_ROLES,
    API_BASE,
    API_ROUTE_ROLES,
    BadTokenBackoff,
    Gate,
    establish_owner,
    network_of,
    new_owner_token,
    renew_owner_token,
)
from heterobandits.web.turns import QUICK_PLACES
from logs import events_of
from parks import Watched
from serving import NORTH, OWNER, Asker, Visitor, app_on, served, somebody

ROLES = ("owner", "planner", "reporter", "viewer")
# Said again, in the words of the documentation, and by route instead of by role.
MAY = {
    "viewer": {
        f"GET {API_BASE}{part}"
        for part in (
            "", "/rounds", "/rounds/{round}", "/rounds/{round}/explanations", "/arms", "/agents", "/answers",
            "/shadow", "/projection", "/worth", "/visits.csv",
        )
    },
    "reporter": {
        f"GET {API_BASE}",
        f"GET {API_BASE}/rounds",
        f"GET {API_BASE}/rounds/{{round}}",
        f"PUT {API_BASE}/rounds/{{round}}/outcomes/{{agent}}",
        f"DELETE {API_BASE}/rounds/{{round}}/outcomes/{{agent}}",
    },
}  # fmt: skip
MAY["planner"] = MAY["viewer"] | MAY["reporter"] | {
    f"GET {API_BASE}/events",
    f"GET {API_BASE}/export",
    f"POST {API_BASE}/rounds",
    f"DELETE {API_BASE}/rounds/{{round}}",
    f"POST {API_BASE}/rounds/{{round}}/close",
    f"POST {API_BASE}/undo",
    f"PUT {API_BASE}/rounds/{{round}}/overrides/{{agent}}",
    f"PUT {API_BASE}/forgotten/{{arm}}",
    f"DELETE {API_BASE}/forgotten/{{arm}}",
    f"POST {API_BASE}/notes",
}  # fmt: skip
MAY["owner"] = MAY["planner"] | {
    f"PATCH {API_BASE}",
    f"POST {API_BASE}/agents",
    f"PATCH {API_BASE}/agents/{{agent}}",
    f"POST {API_BASE}/arms",
    f"PATCH {API_BASE}/arms/{{arm}}",
    f"GET {API_BASE}/links",
    f"POST {API_BASE}/links",
    f"DELETE {API_BASE}/links/{{link}}",
}
MAY["server"] = MAY["owner"] | {
    "GET /api/campaigns",
    "POST /api/campaigns",
    "POST /api/campaigns/import",
}
HEADS = {("HEAD", "/api/openapi.json"), ("HEAD", "/api/health")}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
BODIES = {  # that would change something
    f"PATCH {API_BASE}": {"name": "taken over"},
    f"POST {API_BASE}/agents": {"agents": [{"name": "Mal", "sensitivity": 0.5}]},
    f"PATCH {API_BASE}/agents/{{agent}}": {"name": "Mal"},
    f"POST {API_BASE}/arms": {"arms": [{"name": "moon"}]},
    f"PATCH {API_BASE}/arms/{{arm}}": {"name": "moon"},
    f"POST {API_BASE}/rounds": {},
    f"PUT {API_BASE}/rounds/{{round}}/overrides/{{agent}}": {"arms": []},
    f"PUT {API_BASE}/rounds/{{round}}/outcomes/{{agent}}": {"successes": 1, "tests": 1},
    f"POST {API_BASE}/notes": {"text": "hello"},
    f"POST {API_BASE}/undo": {"event": 1},
    f"POST {API_BASE}/links": {"role": "owner", "name": "Mal"},
    "POST /api/campaigns": NORTH,
}
QUERIES = {
    f"GET {API_BASE}/shadow": "?policy=cucb",
    f"GET {API_BASE}/projection": "?rounds=1&draws=10",
    f"GET {API_BASE}/worth": "?sensitivity=0.5&rounds=1&draws=10",
}


class World:
    """Two campaigns, and links of every role, good and bad."""

    def __init__(self, folder):
        self.app, self.log = app_on(folder / "campaigns.db")
        self.app.state.slowing.FIRST = 0.0  # it has tests of its own
        me = Author("Vera")
        self.north = service.create(self.log, me, **NORTH).state.campaign
        self.south = service.create(self.log, me, **NORTH).state.campaign
        service.plan_round(self.log, self.north, me)
        self.tokens = {"server": OWNER}
        for role in ROLES:
            self.tokens[role] = self.issued(role)
        self.link = self.tokens["viewer"].split("_")[2]
        self.tokens["reporter of Ana"] = self.issued("reporter", agent="Ana")
        self.tokens["of another campaign"] = self.issued("owner", campaign=self.south)
        self.tokens["expired"] = self.issued("owner", seconds=1)
        self.tokens["revoked"] = self.issued("owner")
        revoked = self.tokens["revoked"].split("_")[2]
        revoke_link(self.log, self.north, me, revoked)
        good = self.tokens["owner"]
        self.tokens["none"] = None
        self.tokens["changed at its end"] = good[:-1] + ("A" if good[-1] != "A" else "B")
        self.tokens["with another link's id"] = good.replace(good.split("_")[2], self.link)
        self.tokens["without a secret"] = "_".join(good.split("_")[:3]) + "_"
        self.tokens["a hash instead"] = hash_of_token(good)
        self.tokens["of no campaign"] = good.replace(self.north, "0" * 12)
        self.tokens["made up"] = new_owner_token()
        self.tokens["empty"] = ""
        time.sleep(1.1)  # until the one that expires has

    def issued(self, role, agent=None, campaign=None, seconds=None):
        expires = None
        if seconds is not None:
            expires = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
        _, token = issue_link(
            self.log, campaign or self.north, Author("Vera"),
            role=role, name=f"{role} link {len(self.log.state(campaign or self.north).links)}", agent=agent, expires=expires,
        )  # fmt: skip
        return token

    def address(self, route):
        values = {
            "campaign": self.north,
            "round": "1",
            "agent": "Ana",
            "arm": "river",
            "link": self.link,
        }
        return re.sub(r"{(\w+)}", lambda name: values.get(name[1], "x"), route)

    def asked(self, holder, method, route):
        """The answer to a request that would change something if it were allowed."""
        name = f"{method} {route}"
        with Asker(self.app, self.tokens[holder]) as ask:
            return ask.request(
                method, self.address(route) + QUERIES.get(name, ""), json=BODIES.get(name)
            )


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("roles"))
    yield made
    made.log.store.close()


def routes(app):
    """Every path of the app with each of its methods, whatever put them there."""
    described = {
        (method.upper(), path)
        for path, operations in app.openapi()["paths"].items()
        for method in operations
    }
    return described | {("GET", "/api/openapi.json")}


BAD = (
    "none", "expired", "revoked", "changed at its end", "with another link's id",
    "without a secret", "a hash instead", "of no campaign", "made up", "empty",
)  # fmt: skip
GUARDED = sorted(name for name, roles in API_ROUTE_ROLES.items() if roles != ANYONE_ROLES)


class TestTable:
    """The table of the code is what is documented, and has all routes."""

    def test_it_has_every_route_of_the_app(self, world):
        assert routes(world.app) == set(API_ROUTE_ROLES)

    def test_it_says_what_the_documentation_says(self):
        for role, may in MAY.items():
            assert {f"{m} {r}" for (m, r), roles in API_ROUTE_ROLES.items() if role in roles} == may
        public = {name for name, roles in API_ROUTE_ROLES.items() if roles == ANYONE_ROLES}
        assert {path for _, path in public} == {
            "/api/openapi.json", "/api/health", "/metrics",
        }  # fmt: skip
        assert {method for method, _ in public} == {"GET"}


class TestEveryRoute:
    """With every role on every route and method: what is not allowed is refused and changes nothing."""

    @pytest.mark.parametrize("role", ROLES)
    def test_what_a_role_may_not(self, world, role):
        before = world.log.store.heads()
        tried = 0
        for method, route in GUARDED:
            if f"{method} {route}" not in MAY[role]:
                answer = world.asked(role, method, route)
                assert answer.status_code == 403, (method, route)
                assert answer.json()["type"] == "/problems/forbidden"
                tried += 1
        assert tried == len(GUARDED) - len(MAY[role])
        assert world.log.store.heads() == before

    @pytest.mark.parametrize("holder", BAD)
    def test_without_a_token_that_opens_anything(self, world, holder):
        before = world.log.store.heads()
        for method, route in GUARDED:
            answer = world.asked(holder, method, route)
            assert answer.status_code == 401, (method, route)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "North" not in answer.text
        assert world.log.store.heads() == before

    def test_with_a_link_of_another_campaign(self, world):
        before = world.log.store.heads()
        with Asker(world.app, world.tokens["of another campaign"]) as ask:
            nowhere = ask.get("/api/campaigns/000000000000").json()
        for method, route in GUARDED:
            answer = world.asked("of another campaign", method, route)
            assert answer.status_code == (404 if "{campaign}" in route else 403), (method, route)
            if (method, route) == ("GET", API_BASE):  # nor can it tell whether there is one
                said = answer.json()
                for one in (said, nowhere):
                    one["detail"] = re.sub("[0-9a-f]{12}", "", one["detail"])
                    one.pop("instance")
                assert said == nowhere
        assert world.log.store.heads() == before

    def test_methods_that_no_route_has(self, world):
        before = world.log.store.heads()
        paths = {route for _, route in API_ROUTE_ROLES}
        for method, route in product(METHODS, sorted(paths)):
            if (method, route) not in {*API_ROUTE_ROLES, *HEADS}:
                answer = world.asked("server", method, route)
                # a path may be another's too, as /api/campaigns/import is one of a campaign
                assert answer.status_code in (404, 405), (method, route)
        assert world.log.store.heads() == before

    @pytest.mark.slow
    def test_what_a_role_may(self, world, tmp_path):
        """In a world of its own for each: nothing is refused that is allowed."""
        for role in ("server", *ROLES):
            folder = tmp_path / role
            folder.mkdir()
            own = World(folder)
            for name in sorted(
                MAY[role], key=lambda name: ("DELETE" in name, "PATCH" in name, name)
            ):
                method, route = name.split(" ", 1)
                answer = own.asked(role, method, route)
                assert answer.status_code not in (401, 403, 404, 405), (role, name, answer.text)
                assert answer.status_code < 500
            own.log.store.close()

    def test_a_reporter_of_one_agent_reports_of_no_other(self, world):
        before = world.log.store.heads()
        with Asker(world.app, world.tokens["reporter of Ana"]) as ask:
            for agent in ("Ben", "agent-2", "Chi"):
                place = f"/api/campaigns/{world.north}/rounds/1/outcomes/{agent}"
                for answer in (
                    ask.put(place, json={"successes": 1, "tests": 1}),
                    ask.put(place, json={"successes": 1, "tests": 1}, headers={"If-Match": "*"}),
                    ask.delete(place),
                ):
                    assert answer.status_code == 403, answer.text
            assert world.log.store.heads() == before
            own = f"/api/campaigns/{world.north}/rounds/1/outcomes/Ana"
            assert ask.put(own, json={"successes": 1, "tests": 1}).status_code in (200, 201)

    def test_a_reporter_reports_ten_times_the_planned_tests_at_most(self, world):
        planned = service.plan_round(world.log, world.north, Author("Vera")).state
        before = planned.number
        place = f"/api/campaigns/{world.north}/rounds/{planned.next_round - 1}/outcomes"
        any_ = {"If-Match": "*"}
        with Asker(world.app, world.tokens["reporter"]) as ask:
            for agent, most in (("Ana", 10), ("Chi", 120)):
                for tests in (most + 1, 2**31 - 1):
                    answer = ask.put(f"{place}/{agent}", json={"successes": tests, "tests": tests})
                    assert answer.status_code == 422, answer.text
                    (error,) = answer.json()["errors"]
                    assert error["path"] == "tests"
                    assert f"at most {most}" in error["message"]
            assert world.log.state(world.north).number == before
            assert ask.put(f"{place}/Ana", json={"successes": 10, "tests": 10}).status_code == 201
            answer = ask.put(f"{place}/Ana", json={"successes": 0, "tests": 11}, headers=any_)
            assert answer.status_code == 422
        for role, tests in (("planner", 11), ("owner", 1000), ("server", 1_000_000)):
            with Asker(world.app, world.tokens[role]) as ask:
                body = {"successes": 0, "tests": tests}
                assert ask.put(f"{place}/Ana", json=body, headers=any_).status_code == 200
                answer = ask.put(f"{place}/Chi", json={"successes": 0, "tests": 1_000_001})
                assert answer.status_code == 422
                assert answer.json()["errors"][0]["path"] == "tests"
        with Asker(world.app, world.tokens["reporter"]) as ask:  # the same again is no mistake
            assert (
                ask.put(f"{place}/Ana", json={"successes": 0, "tests": 1_000_000}).status_code
                == 200
            )

    def test_who_wrote_it_is_the_link(self, world):
        with Asker(world.app, world.tokens["planner"]) as ask:
            ask.post(f"/api/campaigns/{world.north}/notes", json={"text": "rain"})
        assert world.log.store.read(world.north)[-1].who.startswith("planner link")

    def test_nothing_of_a_body_is_read_before_its_sender_is_known(self, world):
        with Asker(world.app, None) as ask:
            answer = ask.post("/api/campaigns", content=b"{" * 3_000_000)
        assert answer.status_code == 401


class TestLinks:
    """Where a link leads, and how it ends."""

    def test_a_revoked_link_is_shut_at_once(self, world):
        token = world.issued("viewer")
        place = f"/api/campaigns/{world.north}"
        with Asker(world.app, token) as holder, Asker(world.app) as owner:
            assert holder.get(place).status_code == 200
            assert owner.delete(f"{place}/links/{token.split('_')[2]}").json()["revoked"]
            assert holder.get(place).status_code == 401

    def test_for_a_bad_token_no_campaign_is_read(self, tmp_path):
        _, log = app_on(tmp_path / "x.db")
        campaign = service.create(log, Author("Vera"), **NORTH).state.campaign
        _, good = issue_link(log, campaign, Author("Vera"), role="viewer", name="Eva")
        log.store.close()
        with Watched(tmp_path / "x.db") as store:
            app = create_app(Repository(store), None)
            app.state.slowing.FIRST = 0.0
            place = f"/api/campaigns/{campaign}"
            with Asker(app, good[:-1] + ("A" if good[-1] != "A" else "B")) as guesser:
                assert guesser.get(place).status_code == 401
                assert (
                    guesser.get(f"/enter/{guesser.headers['authorization'][7:]}").status_code == 404
                )
            assert store.counted == 0
            with Asker(app, good) as holder:
                assert holder.get(place).status_code == 200

    def test_of_a_campaign_that_cannot_be_read_only_the_servers_owner_hears(self, tmp_path):
        _, log = app_on(tmp_path / "x.db")
        me = Author("Vera")
        campaign = service.create(log, me, **NORTH).state.campaign
        ended, held = (
            issue_link(log, campaign, me, role="owner", name=name)[1] for name in ("Eva", "Fay")
        )
        state = revoke_link(log, campaign, me, ended.split("_")[2]).state
        (last,) = log.store.read(campaign, state.number - 1)
        draft = Draft("note", {"text": "secret", "round": 9})
        log.store.append(events_of([draft], last, link=ended.split("_")[2]))
        log.store.close()
        with Watched(tmp_path / "x.db") as store:
            app = create_app(Repository(store), hash_of_token(OWNER))
            app.state.slowing.FIRST = 0.0
            place, read = f"/api/campaigns/{campaign}", []
            for token in (ended, held):
                with Asker(app, token) as asking:
                    answer = asking.get(place)
                    assert (answer.status_code, "event" in answer.text) == (401, False)
                    assert asking.get(f"/enter/{token}").status_code == 404
                    read.append(store.counted)
            assert read == [last.number + 1] * 2
            with Asker(app) as owner:
                answer = owner.get(place)
                assert answer.status_code == 422
                assert f"the link '{ended.split('_')[2]}' is revoked" in answer.json()["detail"]

    def test_no_answer_has_a_hash_or_a_token_of_a_link(self, world):
        with Asker(world.app) as ask:
            page = ask.get(f"/api/campaigns/{world.north}/links").text
        for token in filter(None, world.tokens.values()):
            assert token not in page
            assert hash_of_token(token) not in page

    @pytest.mark.parametrize("kept", ["é" * 64, "", "\u0000" * 64])
    def test_a_hash_that_is_none_opens_nothing(self, tmp_path, kept):
        app, log = app_on(tmp_path / "x.db")
        assert Gate(log, kept).caller(OWNER) is None
        me = Author("Vera")
        state = service.create(log, me, **NORTH).state
        done, token = issue_link(log, state.campaign, me, role="owner", name="Eva")
        assert app.state.gate.caller(token).who == "Eva"
        ((link, known),) = done.state.links.items()
        done.state.links[link] = replace(known, token_hash=kept)  # as of a file from elsewhere
        assert app.state.gate.caller(token) is None


KINDS = {
    "POST /api/campaigns/import": ["imported"],
    f"PATCH {API_BASE}": [
        "renamed",
        "policy changed",
        "season changed",
        "prior changed",
        "archived",
        "brought back",
        "words chosen",
    ],
    f"POST {API_BASE}/agents": ["agents added"],
    f"PATCH {API_BASE}/agents/{{agent}}": ["renamed", "retired", "returned", "agent revised"],
    f"POST {API_BASE}/arms": ["arms added"],
    f"PATCH {API_BASE}/arms/{{arm}}": ["renamed", "retired", "returned", "arm revised"],
    f"POST {API_BASE}/rounds": ["round planned"],
    f"DELETE {API_BASE}/rounds/{{round}}": ["round cancelled"],
    f"POST {API_BASE}/undo": ["round cancelled", "round reopened"],
    f"POST {API_BASE}/rounds/{{round}}/close": ["round closed"],
    f"PUT {API_BASE}/rounds/{{round}}/overrides/{{agent}}": ["overridden"],
    f"PUT {API_BASE}/rounds/{{round}}/outcomes/{{agent}}": ["reported", "corrected"],
    f"DELETE {API_BASE}/rounds/{{round}}/outcomes/{{agent}}": ["withdrawn"],
    f"PUT {API_BASE}/forgotten/{{arm}}": ["arm forgotten"],
    f"DELETE {API_BASE}/forgotten/{{arm}}": ["arm remembered"],
    f"POST {API_BASE}/notes": ["note"],
    f"POST {API_BASE}/links": ["link issued"],
    f"DELETE {API_BASE}/links/{{link}}": ["link revoked"],
}


def test_who_may_ask_for_an_event_is_who_may_have_written_it():
    for route, kinds in KINDS.items():
        method, path = route.split()
        for kind in kinds:
            assert API_ROUTE_ROLES[method, path] == WRITER_ROLES_BY_KIND[kind] | {"server"}
    assert {kind for kinds in KINDS.values() for kind in kinds} == set(WRITER_ROLES_BY_KIND) - {
        "created"
    }


class TestOwner:
    """The token of the server's owner."""

    def test_it_is_made_once_and_kept_as_a_hash(self, tmp_path):
        _, log = app_on(tmp_path / "x.db")
        stated, token = establish_owner(log.store, None)
        assert stated is None  # the gate looks into the store, where it may be replaced
        assert log.store.setting("owner") == hash_of_token(token)
        assert len(token) >= len("hb_owner_") + 43  # 256 bits in letters of six
        assert establish_owner(log.store, None) == (None, None)
        log.store.close()
        assert token.encode() not in (tmp_path / "x.db").read_bytes()

    def test_one_that_is_set_stands_in_its_place(self, tmp_path):
        _, log = app_on(tmp_path / "x.db")
        assert establish_owner(log.store, OWNER) == (hash_of_token(OWNER), None)
        with pytest.raises(InvalidInput, match="at least 32"):
            establish_owner(log.store, "short")

    def test_another_in_its_place_counts_at_once(self, database, called, monkeypatch):
        monkeypatch.setenv("HETEROBANDITS_DATABASE", database)
        with Store(database) as store:
            _, old = establish_owner(store, None)
            app = create_app(Repository(store), None)
            with Asker(app, old) as asker, Visitor(app, old) as visitor:
                assert asker.get("/api/campaigns").status_code == 200
                assert visitor.get("/new").status_code == 200
                code, out, err = called("db", "new-owner")
                assert code == 0
                assert asker.get("/api/campaigns").status_code == 401
                assert visitor.get("/new").status_code == 401
            (new,) = set(re.findall(r"hb_owner_[\w-]{43}", out))
            assert "shown this once" in out
            assert "HETEROBANDITS_OWNER_TOKEN" in err
            with Asker(app, new) as asker:
                assert asker.get("/api/campaigns").status_code == 200
            assert store.setting("owner") == hash_of_token(new)
            with Asker(create_app(Repository(store), hash_of_token(OWNER)), new) as asker:
                assert asker.get("/api/campaigns").status_code == 401  # one that was stated wins

    def test_it_writes_nothing_once_it_was_replaced_while_it_waited(self, database):
        with Store(database) as store:
            log = Repository(store)
            _, old = establish_owner(store, None)
            app = create_app(log, None)
            with Asker(app, old) as asker:
                north = f"/api/campaigns/{asker.post('/api/campaigns', json=NORTH).json()['id']}"
                export = asker.get(f"{north}/export").text
            first = parse_event_line(export.splitlines()[0])
            elsewhere = events_of(
                [Draft(first.kind, first.body)], None, "c0ffee000001", first.time, "Zoë"
            )
            heads = store.heads()
            quick, writing = app.state.places.quick, app.state.places.writing
            written = [
                ("/api/campaigns", {"json": NORTH}),
                ("/api/campaigns/import", {"content": render_event_line(*elsewhere)}),
                (f"{north}/notes", {"json": {"text": "x"}}),
            ]

            async def asked():
                inside = httpx.ASGITransport(app)
                headers = {"Authorization": f"Bearer {old}"}
                given = {"transport": inside, "base_url": "http://127.0.0.1", "headers": headers}
                async with (
                    httpx.AsyncClient(**given) as client,
                    asyncio.TaskGroup() as group,
                    AsyncExitStack() as held,
                ):
                    for number in range(QUICK_PLACES):
                        await held.enter_async_context(quick.turn(somebody(number)))
                    asking = [group.create_task(client.post(p, **m)) for p, m in written]
                    while quick.waiting + writing.waiting < len(written):
                        await asyncio.sleep(0.001)
                    renew_owner_token(store)
                return [one.result().status_code for one in asking]

            assert asyncio.run(asked()) == [401] * 3
            assert store.heads() == heads

    def test_it_writes_nothing_once_it_was_replaced_while_its_body_came(self, tmp_path):
        with Store(tmp_path / "x.db") as store:
            _, old = establish_owner(store, None)

            answers = []

            async def receive():
                renew_owner_token(store)
                return {"type": "http.request", "body": json.dumps(NORTH).encode()}

            async def send(message):
                answers.append(message.get("status"))

            headers = {"Authorization": f"Bearer {old}", "Content-Type": "application/json"}
            request = {
                "type": "http", "method": "POST", "path": "/api/campaigns", "query_string": b"", "scheme": "http",
                "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            }  # fmt: skip
            asyncio.run(create_app(Repository(store), None)(request, receive, send))
            assert answers[0] == 401
            assert store.heads() == []


class TestSlowing:
    """Bad tokens are slowed down, by where they come from."""

    def test_it_grows_up_to_a_bound_and_others_do_not_wait(self):
        slowing = BadTokenBackoff()
        waits = [slowing.seconds("10.0.0.1") for _ in range(12)]
        assert waits[:4] == [0.05, 0.1, 0.2, 0.4]
        assert max(waits) == waits[-1] == 5.0
        assert slowing.seconds("10.0.0.2") == 0.05

    def test_memory_is_bounded(self):
        slowing = BadTokenBackoff()
        for number in range(slowing.MOST + 500):
            slowing.seconds(f"10.{number // 65536}.{number // 256 % 256}.{number % 256}")
        assert len(slowing) == slowing.MOST

    def test_it_begins_anew_after_a_quiet_while(self, monkeypatch):
        slowing = BadTokenBackoff()
        moments = iter([0.0, 1.0, 2.0, 2.0 + slowing.QUIET + 1])
        monkeypatch.setattr(time, "monotonic", lambda: next(moments))
        assert [slowing.seconds("::1") for _ in range(4)] == [0.05, 0.1, 0.2, 0.05]

    def test_a_household_of_version_6_is_one(self):
        assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") == "2001:db8::/64"
        assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
        assert network_of("fe80::1%eth0") == "fe80::/64"
        assert (
            network_of("::ffff:10.0.0.1") == network_of("10.0.0.1") != network_of("::ffff:10.0.0.2")
        )
        assert network_of(None) == network_of("no address") == "unknown"

    @pytest.mark.slow
    def test_on_a_real_server_good_tokens_are_not_slowed(self, tmp_path):
        with served(tmp_path / "x.db") as server:

            def asked(token):
                began = time.monotonic()
                headers = {"Authorization": f"Bearer {token}"}
                answer = httpx.get(f"{server.url}/api/campaigns", headers=headers, timeout=30)
                return answer.status_code, time.monotonic() - began

            bad = [asked(new_owner_token()) for _ in range(5)]
            assert {status for status, _ in bad} == {401}
            for (_, seconds), least in zip(bad, (0.05, 0.1, 0.2, 0.4, 0.8), strict=True):
                assert seconds >= least
            with ThreadPoolExecutor(1) as pool:  # while a bad one waits 1.6 s
                waiting = pool.submit(asked, new_owner_token())
                time.sleep(0.2)
                status, seconds = asked(OWNER)
                assert status == 200
                assert not waiting.done()
                assert seconds < 1.4
                assert waiting.result()[1] >= 1.6
