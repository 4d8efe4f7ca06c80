"""The client against a real server: every route has a method, answers as documented, and what is sent twice is done once."""

import inspect
import json
import re
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from heterobandits import client as module
from heterobandits.client import CampaignError, Campaigns, ServerUnreachable, encode_path_part
from heterobandits.web.app import SERVER_THREADS
from heterobandits.web.auth import API_ROUTE_ROLES
from serving import NORTH, OWNER, served

pytestmark = [pytest.mark.smoke, pytest.mark.server]

ARMS = [arm["name"] for arm in NORTH["arms"]]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("client") / "campaigns.db") as running:
        yield running


@pytest.fixture
def park(server):
    with Campaigns(server.url, OWNER) as client:
        yield client


@pytest.fixture
def north(park):
    made = park.create(NORTH["name"], NORTH["agents"], ARMS, seed=3, season=30)
    return made["id"]


class TestStory:
    """A season as a program runs it."""

    def test_three_rounds_with_all_that_happens(self, park, north):
        shown = park.preview(north, absent=["Ben"])
        planned = park.plan_round(north, absent=["Ben"])
        assert shown["assignments"] == planned["assignments"]
        first = park.report(north, 1, "Ana", 1)
        assert (first["successes"], first["tests"]) == (1, 1)
        park.plan_round(north)
        park.report(north, 1, "Chi", 3, 12)  # late
        fixed = park.correct(north, 1, "Ana", 0, seen=first["event"])
        assert fixed["successes"] == 0
        with pytest.raises(CampaignError) as late:
            park.correct(north, 1, "Ana", 1, seen=first["event"])
        assert (late.value.status, late.value.kind) == (412, "changed-since")
        assert late.value.current["event"] == fixed["event"]
        with pytest.raises(CampaignError) as twice:
            park.report(north, 1, "Ana", 1)
        assert (twice.value.status, twice.value.kind) == (409, "already-reported")
        (dan,) = park.add_agents(north, [{"name": "Dan / ?", "sensitivity": 0.8}])
        (ford,) = park.add_arms(north, ["ford"])
        assert park.change_agent(north, "Dan / ?", name="..")["id"] == dan["id"]
        assert park.change_agent(north, "..", retired=True)["retired"]
        assert park.change_agent(north, dan["id"], retired=False)["name"] == ".."
        assert park.change_agent(north, "Ben", sensitivity=0.7, since="now")["sensitivity"] == 0.7
        assert park.change_arm(north, "ford", name="weir")["id"] == ford["id"]
        park.plan_round(north, closed=["weir"], forced=[["Ana", "lake"]])
        moved = park.override(north, 3, "Ana", ["lake", "gate"])
        assert [v["arm"] for v in moved["visits"] if v["agent"] == "Ana"] == ["lake", "gate"]
        assert park.report(north, 3, "Ana", None, arm="gate")["missing"]
        assert park.withdraw(north, 3, "Ana", arm="gate")["waits"]
        assert park.close_round(north, 3)["closed"]
        park.plan_round(north)
        assert park.cancel_round(north, 4)["last"] == 3
        number = park.campaign(north)["number"]
        park.archive(north)
        assert [one["kind"] for one in park.undo(north, number + 1)] == ["brought back"]
        park.archive(north)
        assert not park.archive(north, archived=False)["archived"]
        assert park.choose_words(north, {"round": "week"})["words"]["rounds"] == "weeks"
        assert park.add_note(north, "rain", 3)["round"] == 3
        assert [one["round"] for one in park.rounds(north)] == [1, 2, 3]
        assert park.round(north, 1)["visits"][0]["successes"] == 0
        assert park.explanations(north, 3)[0]["agent"] == "Ana"
        assert park.campaign(north)["waiting"] == [2]
        assert [arm["name"] for arm in park.arms(north)] == [*ARMS, "weir"]
        assert park.answers(north)["sentences"]
        assert park.shadow(north, "cucb")["rounds"] == 3
        assert park.projection(north, rounds=2, draws=10)["rounds"] == 2
        assert park.worth(north, 0.9, rounds=2, draws=10)["plain"]["draws"] == 10
        several = park.worth(north, 0.9, rounds=2, draws=10, tests=12, false_positive_rate=0.1)
        assert several["more"] > park.worth(north, 0.9, rounds=2, draws=10)["more"]
        assert park.forget(north, "lake")["forgotten"] == 3
        assert park.remember(north, "lake")["forgotten"] is None
        assert len(park.sensitivities(north)["agents"]) == 4
        assert park.set_policy(north, on_change="forget")["on_change"] == "forget"
        assert park.rename(north, "South")["name"] == "South"
        assert park.set_season(north, 40)["season"] == 40
        assert park.set_policy(north, "cucb", delta=0.1)["policy"]["name"] == "cucb"
        assert north in [one["id"] for one in park.campaigns()]
        assert park.visits(north).startswith("round,")

    def test_what_is_exported_goes_elsewhere(self, park, north, tmp_path):
        park.plan_round(north)
        text = park.export(north)
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line["hash"] for line in lines] == [event["hash"] for event in park.events(north)]
        with served(tmp_path / "other.db") as other, Campaigns(other.url, OWNER) as there:
            now, was = there.import_events(text), park.campaign(north)
            assert {**now, "number": 0, "changed": ""} == {**was, "number": 0, "changed": ""}
            taken = there.export(north)
            assert taken.startswith(text)
            assert [json.loads(row)["kind"] for row in taken[len(text) :].splitlines()] == [
                "imported"
            ]

    def test_arms_are_names_or_have_one(self, park):
        """As the HTTP API has them, too, with what is known of one beforehand."""
        agents = [{"name": "Ana", "sensitivity": 0.9}]
        made = park.create("both", agents, ["river", {"name": "hill", "prior": "5 of 120"}])
        assert [arm["name"] for arm in made["arms"]] == ["river", "hill"]
        more = park.add_arms(made["id"], ["gate", {"name": "lake"}])
        assert [arm["name"] for arm in more][-2:] == ["gate", "lake"]

    def test_links_open_what_they_say(self, server, park, north):
        link = park.issue_link(north, "reporter", "Ana's phone", agent="Ana")
        park.plan_round(north)
        with Campaigns(server.url, link["token"]) as phone:
            assert phone.report(north, 1, "Ana", 1)["successes"] == 1
            with pytest.raises(CampaignError) as other:
                phone.report(north, 1, "Ben", 1)
            assert other.value.status == 403
            assert [one["name"] for one in park.links(north)] == ["Ana's phone"]
            assert park.revoke_link(north, link["id"])["revoked"]
            with pytest.raises(CampaignError) as shut:
                phone.campaign(north)
            assert shut.value.status == 401

    @pytest.mark.slow
    def test_who_reports_does_not_wait_for_long_computations(self, server, park, north):
        def project(number):
            with Campaigns(server.url, OWNER) as other:
                return other.projection(north, rounds=300, draws=200 + number)

        park.plan_round(north)
        park.report(north, 1, "Ana", 1)  # before that nothing can be forecast
        more = SERVER_THREADS + 2
        with ThreadPoolExecutor(more) as pool:
            asked = [pool.submit(project, number) for number in range(more)]
            time.sleep(0.2)
            assert park.plan_round(north)["round"] == 2
            assert sum(one.done() for one in asked) < 2
            assert [one.result()["draws"] for one in asked] == [200 + n for n in range(more)]

    def test_the_server_itself(self, park):
        assert park.health()["status"] == "ok"
        assert "heterobandits_requests_total" in park.metrics()
        assert "/api/campaigns" in park.description()["paths"]

    def test_mistakes_are_exceptions_with_every_field(self, park):
        with pytest.raises(CampaignError, match="sensitivity") as error:
            park.create("x", [{"name": "a", "sensitivity": 2}, {"name": "b"}], ["y"])
        assert [field["path"] for field in error.value.errors] == [
            "agents[0].sensitivity",
            "agents[1].sensitivity",
        ]


class TestRoutes:
    """Each route has a method."""

    def test_all_of_them(self, monkeypatch):
        """Every method is called once, and what it asks for is noted instead of sent."""
        asked = set()

        class Noted(Exception):
            pass

        def send(self, method, where, **sent):
            asked.add((method, where))
            raise Noted

        monkeypatch.setattr(Campaigns, "_send", send)
        values = {
            "campaign": "C",
            "round": 1,
            "agent": "A",
            "arm": "N",
            "link": "L",
            "seen": None,
            "words": {},
        }
        with Campaigns("http://nowhere.invalid", OWNER) as client:
            methods = [
                m for name, m in inspect.getmembers(client, inspect.ismethod) if name[0] != "_"
            ]
            for method in methods:
                if method.__name__ == "close":
                    continue
                wanted = {
                    name: values.get(name, "x" if "text" in name or "name" in name else ["x"])
                    for name, one in inspect.signature(method).parameters.items()
                    if one.default is one.empty and one.kind is not one.VAR_KEYWORD
                }
                if "agents" in wanted:
                    wanted["agents"] = [{"name": "x"}]
                with pytest.raises(Noted):
                    method(**wanted)
        routes = {
            (method, route.format(campaign="C", round=1, agent="A", arm="N", link="L"))
            for method, route in API_ROUTE_ROLES
        }
        assert asked == routes


@contextmanager
def proxied(url, lose):
    """A way to the server on which the first `lose` answers get lost after the server has given them."""
    host, port = url.removeprefix("http://").split(":")
    lost = []
    with socket.create_server(("127.0.0.1", 0)) as front:
        front.settimeout(20)

        def serve():
            while True:
                try:
                    near, _ = front.accept()
                except OSError:
                    return
                with near, socket.create_connection((host, int(port))) as far:
                    far.settimeout(20)
                    near.settimeout(20)
                    request = b""
                    while b"\r\n\r\n" not in request:
                        request += near.recv(65536)
                    head, _, body = request.partition(b"\r\n\r\n")
                    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
                    while len(body) < int(fields.get(b"content-length", 0)):
                        body += near.recv(65536)
                    head = head.replace(b"Connection: keep-alive", b"Connection: close")
                    far.sendall(head + b"\r\n\r\n" + body)
                    answer = b""
                    while piece := far.recv(65536):
                        answer += piece
                    if len(lost) < lose:
                        lost.append(answer)
                        continue
                    near.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{front.getsockname()[1]}", lost
        front.shutdown(socket.SHUT_RDWR)
        thread.join(20)


@contextmanager
def answering(answers):
    """The address of a server that gives these answers, one a connection, and what it was asked."""
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as front:

        def serve():
            for answer in answers:
                near, _ = front.accept()
                with near:
                    asked.append(near.recv(65536))
                    near.sendall(answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{front.getsockname()[1]}", asked
        thread.join(20)


class TestLoss:
    """What may not have arrived is sent again, and done once."""

    def test_an_answer_that_got_lost(self, server, park, north, monkeypatch):
        monkeypatch.setattr(module, "CLIENT_FIRST_PAUSE_S", 0.01)
        with proxied(server.url, lose=2) as (url, lost), Campaigns(url, OWNER) as far:
            planned = far.plan_round(north)
        assert len(lost) == 2
        assert all(b"201 Created" in answer for answer in lost)
        assert planned["round"] == 1
        assert [event["kind"] for event in park.events(north)] == ["created", "round planned"]

    def test_a_server_that_is_not_there(self, monkeypatch):
        monkeypatch.setattr(module, "CLIENT_FIRST_PAUSE_S", 0.001)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        with Campaigns(f"http://127.0.0.1:{port}", OWNER) as client:
            with pytest.raises(ServerUnreachable, match=str(port)) as error:
                client.campaigns()
            assert OWNER not in str(error.value)

    @pytest.mark.parametrize("status", [b"429 Too Many Requests", b"503 Service Unavailable"])
    def test_who_is_asked_to_wait_waits_and_sends_the_same_again(self, status, monkeypatch):
        monkeypatch.setattr(module, "CLIENT_FIRST_PAUSE_S", 0.01)
        early = b"HTTP/1.1 %s\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n" % status
        done = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
        with answering([early, done]) as (url, asked), Campaigns(url, OWNER) as client:
            begun = time.monotonic()
            assert client.plan_round("0123456789ab") == {}
            assert time.monotonic() - begun >= 1.0
        keys = [re.search(rb"(?i)idempotency-key: (\w+)", one)[1] for one in asked]
        assert len(keys) == 2
        assert keys[0] == keys[1]

    def test_who_is_asked_to_wait_long_is_told_so(self):
        late = b"HTTP/1.1 429 Too Many\r\nRetry-After: 72\r\nContent-Length: 0\r\n\r\n"
        with (
            answering([late]) as (url, asked),
            Campaigns(url, OWNER) as client,
            pytest.raises(CampaignError) as error,
        ):
            client.plan_round("0123456789ab")
        assert (error.value.status, len(asked)) == (429, 1)

    def test_an_answer_that_is_no_problem_of_ours(self):
        page = b"<html>bad gateway</html>"
        with socket.create_server(("127.0.0.1", 0)) as front:

            def serve():
                near, _ = front.accept()
                with near:
                    near.recv(65536)
                    near.sendall(
                        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d\r\n\r\n" % len(page) + page
                    )

            thread = threading.Thread(target=serve)
            thread.start()
            client = Campaigns(f"http://127.0.0.1:{front.getsockname()[1]}", OWNER)
            with client, pytest.raises(CampaignError, match="status 502") as error:
                client.health()
            thread.join()
        assert error.value.errors == []


class TestImport:
    """The client stands alone."""

    def test_it_needs_no_server_side(self):
        code = (
            "import sys; from heterobandits.client import Campaigns; "
            "print(sorted({'fastapi', 'pydantic', 'sqlalchemy', 'uvicorn'} & set(sys.modules)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]"

    @pytest.mark.parametrize("name", ["a/b", "..", ".", "50%", "?#", "é", "a b"])
    def test_no_name_leaves_its_place_in_a_path(self, name):
        import httpx

        url = (
            httpx.Client(base_url="http://h")
            .build_request("GET", f"/x/{encode_path_part(name)}/y")
            .url
        )
        assert url.path == f"/x/{name}/y"
        assert url.raw_path.count(b"/") == 3
