"""`heterobandits serve` as a process: its first lines, its end, its warnings, no tokens in its output, no compiling."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import uvicorn
from numba import config

from heterobandits.campaigns.links import hash_of_token
from heterobandits.campaigns.storage.store import Store
from heterobandits.web.auth import establish_owner
from heterobandits.web.connections import BoundedConnection, ConnectionLimits
from serving import NORTH, OWNER, SERVE, Server, served

pytestmark = [pytest.mark.usefixtures("ends"), pytest.mark.smoke, pytest.mark.server]

LARGE = 10_000_000  # bytes
HEADERS = {"Authorization": f"Bearer {OWNER}"}
# The compilations of the server, as it counts them itself: all until it listens are its own affair.
COUNTING = (
    """
import atexit, sys
from numba.core import event
class Listener(event.Listener):
    names = []
    def on_start(self, event):
        self.names.append(str(event.data))
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
import uvicorn
run = uvicorn.Server.run
def counted(*arguments, **options):
    Listener.names.clear()
    try:
        run(*arguments, **options)
    finally:
        print("compiled:", Listener.names, file=sys.stderr)
uvicorn.Server.run = counted
"""
    + SERVE
)


class TestStart:
    """What it says when it starts."""

    def test_the_first_line_has_the_address_and_the_owners_link_is_shown_once(self, tmp_path):
        database = tmp_path / "park.db"
        own = {"HETEROBANDITS_OWNER_TOKEN": ""}
        server = Server(database, env=own)
        assert httpx.get(f"{server.url}/api/health").json()["status"] == "ok"
        code, out, err = server.end()
        assert code == 0
        first, link = out.splitlines()
        assert first == f"{database} is served at {server.url}"
        token = link.rpartition("/enter/")[2]
        assert "loading the rules" in err
        assert "warning" not in err
        again = Server(database, env=own)
        answer = httpx.get(
            f"{again.url}/api/campaigns", headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.json() == {"campaigns": [], "damaged": []}
        code, out, err = again.end()
        assert code == 0
        assert len(out.splitlines()) == 1
        assert "hb_" not in out + err

    def test_whoever_has_the_machine_makes_another_link_for_the_owner(self, tmp_path):
        database = tmp_path / "park.db"
        with Store(database) as store:
            _, lost = establish_owner(store, None)
        own = {"HETEROBANDITS_OWNER_TOKEN": ""}
        server = Server(database, "--new-owner-link", env=own)
        opened = {}
        try:
            page = httpx.get(
                f"{server.url}/api/campaigns", headers={"Authorization": f"Bearer {lost}"}
            )
            opened["lost"] = page.status_code
        finally:
            code, out, err = server.end()
        assert code == 0
        link = re.fullmatch(
            rf"the owner's link, which is shown this once: {server.url}/enter/(hb_owner_[\w-]{{43}})",
            out.splitlines()[1],
        )
        assert opened["lost"] == 401
        assert "had before opens nothing any more" in err
        again = Server(database, env=own)
        try:
            given = {"Authorization": f"Bearer {link[1]}"}
            assert httpx.get(f"{again.url}/api/campaigns", headers=given).status_code == 200
        finally:
            again.end()

    def test_no_link_is_made_that_would_open_nothing(self, tmp_path, called_serve, monkeypatch):
        database = tmp_path / "park.db"
        with Store(database) as store:
            _, token = establish_owner(store, None)
        monkeypatch.setenv("HETEROBANDITS_OWNER_TOKEN", "o" * 43)
        code, out, err = called_serve("--database", database, "--port", 0, "--new-owner-link")
        assert (code, out) == (2, "")
        assert "HETEROBANDITS_OWNER_TOKEN is set" in err
        with Store(database) as store:
            assert store.setting("owner") == hash_of_token(token)
        monkeypatch.delenv("HETEROBANDITS_OWNER_TOKEN")
        code, _, err = called_serve("--demo", "--port", 0, "--new-owner-link")
        assert code == 2
        assert "a demo prints a link" in err

    def test_a_port_in_use_is_one_line(self, tmp_path, called_serve):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            code, out, err = called_serve("--database", tmp_path / "x.db", "--port", port)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert f"cannot listen at 127.0.0.1:{port}" in err
        assert not (tmp_path / "x.db").exists()

    @pytest.mark.parametrize("host", ["nowhere.invalid", "256.0.0.1", ""])
    def test_an_address_that_is_none(self, tmp_path, called_serve, host):
        code, _, err = called_serve(
            "--database", tmp_path / "x.db", "--host", host or "-", "--port", 0
        )
        assert code == 2
        assert err.count("\n") == 1

    def test_a_file_that_is_no_database(self, tmp_path, called_serve):
        (tmp_path / "x.db").write_text("no database at all, but a text that is long enough" * 20)
        code, _, err = called_serve("--database", tmp_path / "x.db", "--port", 0)
        assert code == 2
        assert err.count("\n") == 1

    def test_a_token_that_is_too_short(self, tmp_path, called_serve, monkeypatch):
        monkeypatch.setenv("HETEROBANDITS_OWNER_TOKEN", "short")
        code, _, err = called_serve("--database", tmp_path / "x.db", "--port", 0)
        assert code == 2
        assert "HETEROBANDITS_OWNER_TOKEN" in err
        assert "short" not in err


@pytest.fixture
def called_serve(capfd):
    """The command in this process, for what ends before it serves."""
    from heterobandits.cli import main

    def call(*options):
        with pytest.raises(SystemExit) as exit_:
            main(["serve", *map(str, options)])
        out, err = capfd.readouterr()
        notes = [line for line in err.splitlines() if "load" not in line]
        return int(exit_.value.code or 0), out, "".join(f"{line}\n" for line in notes)

    return call


class TestEnd:
    """It finishes what it has begun."""

    @pytest.mark.slow
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
    def test_requests_are_answered_before_it_ends(self, tmp_path, number, code):
        server = Server(tmp_path / "x.db")
        made = httpx.post(f"{server.url}/api/campaigns", json=NORTH, headers=HEADERS).json()
        place = f"{server.url}/api/campaigns/{made['id']}"
        answers = []

        def ask():
            query = "projection?rounds=300&draws=200"
            answers.append(httpx.get(f"{place}/{query}", headers=HEADERS, timeout=60))

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.3)
        ended, _, err = server.end(number)
        asking.join()
        assert ended == code
        assert answers[0].status_code == 200
        assert answers[0].json()["rounds"] == 300
        assert "Traceback" not in err

    @pytest.mark.slow
    def test_what_was_acknowledged_is_there_after_a_kill(self, tmp_path):
        server = Server(tmp_path / "x.db")
        made = httpx.post(f"{server.url}/api/campaigns", json=NORTH, headers=HEADERS).json()
        place = f"/api/campaigns/{made['id']}"
        planned = httpx.post(f"{server.url}{place}/rounds", headers=HEADERS)
        assert planned.status_code == 201
        server.end(signal.SIGKILL)
        with served(tmp_path / "x.db") as again:
            there = httpx.get(f"{again.url}{place}/rounds/1", headers=HEADERS).json()
        assert there == planned.json()


def children(process):
    """The processes that a process has started to answer; the one that compiles gives way to all others."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    numbers = [int(number) for number in listed.read_text().split()]
    return [number for number in numbers if niceness_of(number) == niceness_of(process.pid)]


def niceness_of(number):
    """How much a process gives way to others; None if it has ended meanwhile."""
    try:
        return os.getpriority(os.PRIO_PROCESS, number)
    except ProcessLookupError:
        return None


def is_gone(number):
    """Whether a process has ended; one that nobody has waited for counts."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def eventually(true):
    until = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """A server of two processes."""
    server = Server(tmp_path_factory.mktemp("workers") / "x.db", "--workers", "2")
    yield server
    server.end()


@pytest.mark.skipif(
    not Path("/proc").exists(), reason="the children of a process are looked up in /proc"
)
class TestWorkers:
    """Several processes answer at one address, and end together."""

    def ask(self, server, path="/api/health", **given):
        """Over a connection of its own, which any of them may take."""
        return httpx.request(
            given.pop("method", "GET"), server.url + path, headers=HEADERS, **given
        )

    @pytest.mark.slow
    def test_all_of_them_know_what_one_has_written(self, workers):
        made = self.ask(workers, "/api/campaigns", method="POST", json=NORTH).json()
        place = f"/api/campaigns/{made['id']}"
        for number in range(1, 9):
            planned = self.ask(workers, f"{place}/rounds", method="POST")
            assert planned.json()["round"] == number
        assert {self.ask(workers, place).json()["rounds"] for _ in range(8)} == {8}
        # they count together
        wanted = '{method="POST",route="/api/campaigns/{campaign}/rounds",status="201"} 8.0'
        assert f"heterobandits_requests_total{wanted}" in self.ask(workers, "/metrics").text

    def test_one_that_dies_is_replaced(self, workers):
        eventually(lambda: len(children(workers.process)) == 2)
        before = children(workers.process)
        os.kill(before[0], signal.SIGKILL)
        eventually(lambda: len(set(children(workers.process)) - set(before)) == 1)
        eventually(lambda: "another one takes its place" in "".join(workers.noted))
        assert self.ask(workers).status_code == 200

    @pytest.mark.slow
    def test_one_that_is_just_being_forked_ends_too(self):
        """The signal comes when the child is there and its parent does not know its number yet."""
        code = (
            "import os, signal, time\n"
            "from heterobandits.cli.workers import supervise_workers\n"
            "fork = os.fork\n"
            "def fork_and_end():\n"
            "    child = fork()\n"
            "    if child:\n"
            "        os.kill(os.getpid(), signal.SIGTERM)\n"
            "    return child\n"
            "os.fork = fork_and_end\n"
            "supervise_workers(2, lambda: time.sleep(300), print)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], timeout=60, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
    def test_they_end_together(self, tmp_path, number, code):
        server = Server(tmp_path / "x.db", "--workers", "2")
        eventually(lambda: len(children(server.process)) == 2)
        there = children(server.process)
        ended, _, err = server.end(number)
        assert ended == code
        assert "Traceback" not in err
        assert all(map(is_gone, there))

    def test_they_do_not_outlive_the_first(self, tmp_path):
        server = Server(tmp_path / "x.db", "--workers", "2")  # of its own: it is killed
        eventually(lambda: len(children(server.process)) == 2)
        there = children(server.process)
        server.end(signal.SIGKILL)
        eventually(lambda: all(map(is_gone, there)))


class TestOutput:
    """No token is in what the server prints."""

    @pytest.mark.slow
    def test_whatever_is_asked_and_other_addresses_than_loopback_are_warned_of(self, tmp_path):
        server = Server(tmp_path / "x.db", "--host", "0.0.0.0")
        with httpx.Client(base_url=server.url, headers=HEADERS) as ask:
            place = f"/api/campaigns/{ask.post('/api/campaigns', json=NORTH).json()['id']}"
            link = ask.post(f"{place}/links", json={"role": "viewer", "name": "Eva"}).json()
            bad = "hb_" + "f" * 12 + "_" + "e" * 12 + "_" + "s" * 43
            for token in (link["token"], bad):
                ask.get(f"/enter/{token}")
                ask.post(f"/enter/{token}")
                ask.get(place, headers={"Authorization": f"Bearer {token}"})
                ask.get(f"{place}?token={token}")
                ask.post(
                    f"{place}/rounds", content=b"{", headers={"Authorization": f"Bearer {token}"}
                )
        with socket.create_connection(server.url.removeprefix("http://").split(":")) as raw:
            raw.sendall(f"GET /enter/{bad} HTTP/9.9\r\n\r\n".encode())  # what it cannot parse
            raw.recv(1000)
        with socket.create_connection(server.url.removeprefix("http://").split(":")) as raw:
            raw.sendall(  # and what is never said to its end
                f"POST {place}/notes HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {OWNER}\r\n"
                'Content-Length: 1000\r\n\r\n{"te'.encode()
            )
            time.sleep(0.3)
        counted = '"/api/campaigns/{campaign}/notes",status="499"} 1.0'
        eventually(lambda: counted in httpx.get(f"{server.url}/metrics").text)
        _, out, err = server.end()
        assert "Traceback" not in err
        assert "warning: http://0.0.0.0:" in err
        assert "without TLS" in err
        assert link["url"] == f"{server.url}/enter/{link['token']}"
        for token in (OWNER, link["token"], bad):
            assert token not in out + err
            assert token[-20:] not in out + err


def test_behind_tls_forms_come_from_https_alone(tmp_path):
    server = Server(tmp_path / "x.db")
    with httpx.Client(base_url=server.url, headers={"Host": "parks.example.org"}) as ask:

        def sent(scheme, proto=None):
            headers = {"Origin": f"{scheme}://parks.example.org"}
            return ask.post("/leave", headers=headers | ({"X-Forwarded-Proto": proto} if proto else {}))  # fmt: skip

        assert sent("https", "https").status_code == 303
        assert sent("http", "https").status_code == 403
        assert sent("http").status_code == 303
        forgotten = sent("https")  # the server in front does not say that it has TLS
        assert forgotten.status_code == 403
        assert "has to pass on X-Forwarded-Proto" in forgotten.text
    server.end()


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
async def length(scope, receive, send):
    """Answer a request with how long its body was."""
    body, more = b"", scope["type"] == "http"
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    text = str(len(body)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})  # fmt: skip
    await send({"type": "http.response.body", "body": text})


async def large(scope, receive, send):
    """More than is taken at once."""
    head = [(b"content-length", b"%d" % LARGE)]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b"x" * LARGE})


async def hasty(scope, receive, send):
    """An answer that does not wait for the body."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})  # fmt: skip
    await send({"type": "http.response.body", "body": b"early"})


@contextmanager
def bounded(app=length, **limits):
    """Connections within such limits: a function that sends bytes and returns all that comes back until the other end hangs up."""

    class Quick(BoundedConnection):
        ending = limits.pop("ending", False)

    Quick.limits = ConnectionLimits(**limits)
    settings = uvicorn.Config(app, http=Quick, port=0, lifespan="off", log_level="error")
    server = uvicorn.Server(settings)
    with socket.create_server(("127.0.0.1", 0)) as place:
        running = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        running.start()

        def said(parts):
            with socket.create_connection(place.getsockname(), timeout=20) as line:
                with suppress(ConnectionError):
                    for part in parts:
                        line.sendall(part)
                found = b""
                with suppress(ConnectionError):
                    while part := line.recv(65_536):
                        found += part
            return found

        said.address = place.getsockname()
        said.connections = lambda: server.server_state.connections
        yield said
        server.should_exit = True
        running.join()


@contextmanager
def reading_slowly(said, close=True):
    """A line that has asked for an answer and takes no more of it than it reads."""
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(20)
        line.connect(said.address)
        how = b"close" if close else b"keep-alive"
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: " + how + b"\r\n\r\n")
        yield line


class TestConnections:
    """What a connection may take before anybody is known."""

    HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"

    def test_a_head_without_end_is_refused(self):
        with bounded(head=10_000) as said:
            for one in (b"x: " + b"y" * 500 + b"\r\n", b"y" * 500):
                assert b"431" in said([self.HEAD, *[one] * 2_000])
            assert said([self.HEAD + b"Content-Length: 0\r\nConnection: close\r\n\r\n"]).endswith(
                b"0"
            )

    @pytest.mark.parametrize(
        "some", [b"", b"POST / HT", HEAD, HEAD + b"Content-Length: 9\r\n\r\nab"]
    )
    def test_whoever_does_not_go_on_is_hung_up_on(self, some):
        with bounded(seconds=0.2) as said:
            assert b"408" in said([some])

    @pytest.mark.parametrize(
        ("begun", "late"),
        [
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\r\n"),
            (HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * 50, b"x" * 50),
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", b"0\r\n\r\n"),
        ],
        ids=["an empty line", "the rest of a body", "the end of chunks"],
    )
    def test_what_comes_after_an_answer_and_begins_nothing_does_not_keep_it_open(self, begun, late):
        def slowly():
            yield begun
            time.sleep(0.1)  # and is answered
            yield late

        with bounded(app=hasty, seconds=0.2) as said:
            assert said(slowly()).count(b"early") == 1

    def test_what_is_around_a_body_has_an_end_too(self):
        with bounded(head=10_000) as said:
            head = self.HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            for begun in (head, head + b"1\r\na\r\n"):
                for one in (b"0\r\n", b"0\r\nx: ", b"0\r\nx", b"1;"):
                    more = b"x: y\r\n" * 100 if one == b"0\r\n" else b"y" * 500
                    assert b"431" in said([begun, one, *[more] * 2_000])
            assert said([head, b"1;a=b\r\na\r\n" * 900, b"0\r\nx: y\r\n\r\n"]).endswith(b"900")

    def test_a_body_in_very_many_chunks_is_refused(self):
        head = self.HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        large = b"100\r\n" + b"a" * 256 + b"\r\n"
        with bounded(chunks=10) as said:
            for chunks, letters in ((b"1\r\na\r\n" * 9, b"9"), (large * 100, b"25600")):
                assert said([head + chunks + b"0\r\n\r\n"]).endswith(letters)
            for chunks in (b"1\r\na\r\n" * 11, large + b"1\r\na\r\n" * 20):
                found = said([head + chunks + b"0\r\n\r\n"])
                assert (found.count(b"HTTP/1.1"), b"413" in found) == (1, True)

    def test_a_body_has_an_end(self):
        with bounded(body=1_000) as said:
            head = self.HEAD + b"Connection: close\r\nContent-Length: 9000\r\n\r\n"
            assert b"413" in said([head, *[b"y" * 500] * 18])

    def test_few_requests_wait_on_a_connection(self):
        with bounded(waiting=3) as said:
            one = self.HEAD + b"Content-Length: 2\r\n\r\nab"
            found = said([one * 1_000, one * 1_000])
            assert found.count(b"200 OK") == 4  # one that is answered, and three
            assert found.lower().count(b"connection: close") == 1
            last = self.HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n"
            assert said([one * 3 + last]).count(b"200 OK") == 4
            slowly = (said_once for said_once in [*[one] * 20, last] if not time.sleep(0.01))
            assert said(slowly).count(b"200 OK") == 21

    @pytest.mark.parametrize(
        ("most", "more", "status"),
        [
            (b"/" + b"x" * 8_191, b"/" + b"x" * 8_192, b"414"),
            (b"/?" + b"a&" * 499, b"/?" + b"a&" * 500, b"414"),
            (b"x: y\r\n" * 98, b"x: y\r\n" * 99, b"431"),  # beside two others
            (b"x: " + b"y" * 16_000 + b"\r\n", b"x: " + b"y" * 16_400 + b"\r\n", b"431"),
            (b"Cookie: " + b"a;" * 249, b"Cookie: " + b"a;" * 250, b"431"),
            (
                b'Cookie: a="' + b"\\" * 249 + b'"',
                b'Cookie: a="' + b"\\" * 250 + b'"',
                b"431",
            ),
            (
                b"Cookie: a\r\n" * 98,
                b"Cookie: " + b";" * 125 + b"\r\nCookie: " + b";" * 125,
                b"431",
            ),
        ],
        ids=["path", "fields", "headers", "bytes", "cookies", "escapes", "cookies in lines"],
    )
    def test_a_head_that_takes_long_to_go_through_is_refused(self, most, more, status):
        def asked(part):
            target, lines = (
                (part, b"") if part.startswith(b"/") else (b"/", part.rstrip() + b"\r\n")
            )
            return b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n" % (target, lines)

        answered = []

        async def counted(scope, receive, send):
            answered.append(scope)
            await length(scope, receive, send)

        with bounded(app=counted) as said:
            assert said([asked(most)]).startswith(b"HTTP/1.1 200")
            assert said([asked(more)]).startswith(b"HTTP/1.1 " + status)
        assert len(answered) == 1

    def test_what_a_connection_asks_for_in_advance_takes_little_memory(self):
        assert ConnectionLimits().waiting * ConnectionLimits().headers <= 400

    def test_what_cannot_be_read_is_refused(self):
        with bounded() as said:
            for begun in (b"", self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n"):
                assert b"400" in said([begun, b"!\r\n\r\n"])

    def test_a_body_may_take_its_time_while_it_comes(self):
        with bounded(seconds=0.2, bytes_a_second=50) as said:
            head = self.HEAD + b"Connection: close\r\nContent-Length: 100\r\n\r\n"

            def slowly():
                yield head
                for _ in range(10):
                    time.sleep(0.1)
                    yield b"0123456789"

            assert said(slowly()).endswith(b"\r\n\r\n100")

    def test_whoever_takes_no_answers_is_hung_up_on(self):
        with bounded(app=large, seconds=0.3) as said, socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(said.address)
            line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
            eventually(said.connections)
            eventually(lambda: not said.connections())

    def test_whoever_takes_an_answer_slowly_gets_it_all(self):
        with bounded(app=large, seconds=0.5) as said, socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(said.address)
            line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            found, began = 0, time.monotonic()
            while part := line.recv(400_000 if time.monotonic() - began > 1 else 20_000):
                found += len(part)
                if time.monotonic() - began < 1:
                    time.sleep(0.02)
            assert found > LARGE

    def test_a_large_answer_is_not_held_for_long(self):
        with bounded(app=large, seconds=0.3, taking=1.0) as said, reading_slowly(said) as line:
            found, began = 0, time.monotonic()
            with suppress(ConnectionError):
                while part := line.recv(100_000):
                    found += len(part)
                    time.sleep(0.05)  # two megabytes a second at most, where ten are asked for
            assert found < LARGE
            assert time.monotonic() - began < 3

    def test_what_is_held_for_all_is_bounded_and_whoever_has_taken_least_goes(self):
        asked = []

        async def counted(scope, receive, send):
            asked.append(scope)
            await large(scope, receive, send)

        with (
            bounded(app=counted, unsent=25_000_000, seconds=100) as said,
            reading_slowly(said) as first,
            reading_slowly(said),
        ):
            found = 0
            while found < LARGE // 2:
                found += len(first.recv(100_000))
            with reading_slowly(said):
                eventually(lambda: len(asked) == 3)  # all are there, or one was until just now
                eventually(lambda: len(said.connections()) == 2)
                while part := first.recv(400_000):
                    found += len(part)
            assert found > LARGE

    def test_a_request_is_answered_once_the_answer_before_it_is_taken(self):
        asked = []

        async def counted(scope, receive, send):
            asked.append(scope)
            await large(scope, receive, send)

        with bounded(app=counted) as said, reading_slowly(said, close=False) as line:
            last = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            time.sleep(0.2)
            line.sendall(last.replace(b"close", b"keep-alive") + last)
            time.sleep(0.3)
            assert len(asked) == 1
            found = 0
            while part := line.recv(400_000):
                found += len(part)
            assert found > 3 * LARGE
            assert len(asked) == 3

    def test_a_body_that_comes_after_its_answer_is_not_waited_for(self):
        with bounded(app=hasty, past=0.2) as said:
            answer = said([self.HEAD + b"Content-Length: 1000000\r\n\r\n" + b"x" * 1000])
            assert answer.endswith(b"early")
            rest = [b"x" * 500_000, self.HEAD + b"Content-Length: 0\r\nConnection: close\r\n\r\n"]
            answer = said([self.HEAD + b"Content-Length: 500000\r\n\r\n", *rest])
            assert answer.count(b"early") == 2  # what came was read past

    def test_there_are_so_many_at_most(self):
        with (
            bounded(connections=2) as said,
            socket.create_connection(said.address),
            socket.create_connection(said.address),
        ):
            assert b"503" in said([])

    def test_an_answer_is_the_last_once_the_server_ends(self):
        with bounded(ending=True) as said:  # or this would wait for the next request
            assert b"connection: close" in said([self.HEAD + b"Content-Length: 0\r\n\r\n"]).lower()


class TestCompiling:
    """Kernels are loaded at the start: no request waits for a compiler."""

    @pytest.mark.slow
    def test_the_first_requests_compile_nothing(self, tmp_path):
        server = Server(tmp_path / "x.db", code=COUNTING)
        with httpx.Client(base_url=server.url, headers=HEADERS, timeout=60) as ask:
            for change in (
                {},
                {"policy": "posterior-sorted"},
                {"policy": "min-width"},
                {"policy": "cucb"},
                {"policy": "thompson"},
                {"policy": "posterior-sorted-discounted"},
                {"policy": "calibrated-sorted"},
            ):
                made = ask.post("/api/campaigns", json=NORTH | change)
                place = f"/api/campaigns/{made.json()['id']}"
                given = {
                    "forbidden": [["Ana", "river"]],
                    "forced": [["Ben", "gate"]],
                    "closed": ["hill"],
                }
                for body in ({}, {"absent": ["Ben"]}, given):
                    assert ask.post(f"{place}/rounds?preview=true", json=body).status_code == 200
                    assert ask.post(f"{place}/rounds", json=body).status_code == 201
                ask.put(f"{place}/rounds/1/outcomes/Ana", json={"successes": 1, "tests": 1})
                ask.put(f"{place}/rounds/1/outcomes/Chi", json={"successes": 5, "tests": 12})
                for part in (
                    "arms", "answers", "rounds/1/explanations", "rounds/3/explanations",
                    "projection?rounds=2&draws=10", "worth?sensitivity=0.8&rounds=2&draws=10",
                    "shadow?policy=greedy",
                ):  # fmt: skip
                    assert ask.get(f"{place}/{part}").status_code == 200
        code, _, err = server.end()
        assert code == 0
        assert "compiled: []" in err.splitlines()


EARLY = (
    """
import os, signal, uvicorn
run = uvicorn.Server.run
def early(*arguments, **options):
    os.kill(os.getpid(), signal.SIGTERM)
    run(*arguments, **options)
uvicorn.Server.run = early
"""
    + SERVE
)


def test_a_signal_just_before_it_begins_is_not_lost(tmp_path):
    server = Server(tmp_path / "x.db", code=EARLY)
    code, _, err = server.end(0)
    assert code == 0
    assert "Traceback" not in err


OTHER = (
    """
import asyncio
from uvicorn.protocols.websockets import auto
class Other(asyncio.Protocol):
    def __init__(self, **options):
        pass
    def connection_made(self, transport):
        transport.write(b"another protocol")
        transport.close()
auto.AutoWebSocketsProtocol = Other
"""
    + SERVE
)


def test_no_other_protocol_takes_over_a_connection_and_whoever_asks_writes_no_output(tmp_path):
    server = Server(tmp_path / "x.db", code=OTHER)
    place = server.url.removeprefix("http://").split(":")
    with socket.create_connection(place) as raw:
        raw.sendall(
            b"GET /api/health HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert raw.recv(1000).startswith(b"HTTP/1.1 200")
    for wrong in (b"!\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 1_000):
        with socket.create_connection(place) as raw:
            raw.sendall(wrong)
            assert raw.recv(1000).startswith(b"HTTP/1.1 4")
    _, _, printed = server.end()
    assert all(line.startswith("heterobandits: ") for line in printed.splitlines())
