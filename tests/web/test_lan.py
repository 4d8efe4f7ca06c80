"""`heterobandits serve --lan` as a process: what it prints, that phones which trust it can work over TLS, and that the page with the
certificate gives that away and nothing else."""

import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import httpx
import pytest

from heterobandits.web.networks import lan_address
from serving import COLD, NORTH, OWNER, Server

pytestmark = [pytest.mark.usefixtures("ends"), pytest.mark.server]

BEARER = {"Authorization": f"Bearer {OWNER}"}


FILES = {
    "/": "text/html; charset=utf-8",
    "/heterobandits.crt": "application/x-x509-ca-cert",
    "/heterobandits.mobileconfig": "application/x-apple-aspen-config",
}


class LanPlace:
    """A server for a local network, what it printed, and clients that trust it."""

    def __init__(self, folder, *options):
        self.data = folder / "data"
        self.server = Server(
            folder / "x.db", "--lan", *options, env={"XDG_DATA_HOME": str(self.data)}, code=COLD
        )
        self.url = re.search(r"https://\S+", self.server.said)[0]
        lines = [self.server.said]
        while "how to remove it" not in lines[-1]:
            lines.append(self.server.process.stdout.readline())
        self.printed = "".join(lines)
        self.page = re.search(r"Open (http://\S+/) there", self.printed)[1]
        (self.authority,) = self.data.glob("heterobandits/lan/*/authority.pem")
        self.trust = ssl.create_default_context(cafile=self.authority)

    def ask(self, **given):
        return httpx.Client(base_url=self.url, verify=self.trust, timeout=60, **given)

    def wait_for_workers(self):
        """What comes before they listen is refused."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with suppress(httpx.TransportError), self.ask() as ask:
                return ask.get("/api/health")
        raise AssertionError("nobody listens")

    def raw(self):
        place = httpx.URL(self.page)
        return socket.create_connection((place.host, place.port), timeout=20)

    def sent(self, text):
        with self.raw() as line, suppress(ConnectionError):
            line.sendall(text)
            found = b""
            while part := line.recv(65_536):
                found += part
            return found
        return b""


@contextmanager
def lan(folder, *options):
    made = LanPlace(folder, *options)
    try:
        yield made
    finally:
        made.ended = made.server.end()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with lan(tmp_path_factory.mktemp("lan"), "--host", "127.0.0.1") as made:
        yield made


class TestServer:
    """Pages and the API, over TLS."""

    def test_it_says_what_phones_need(self, place):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        known = x509.load_pem_x509_certificate(place.authority.read_bytes())
        fingerprint = known.fingerprint(hashes.SHA256()).hex().upper()
        assert fingerprint in re.sub(r"\s", "", place.printed)
        assert str(place.authority.parent) in place.printed
        assert "warning" not in "".join(place.server.noted)
        assert not re.search(r"[█▀▄].*hb_|hb_.*[█▀▄]", place.printed)

    def test_the_printed_code_is_the_address_of_the_page(self, place):
        numpy, zxing = pytest.importorskip("numpy"), pytest.importorskip("zxingcpp")
        rows = [row for row in place.printed.splitlines() if set(row) & set("█▀▄")]
        halves = [[(one in "█▀", one in "█▄") for one in row] for row in rows]
        light = numpy.array([[cell[half] for cell in row] for row in halves for half in (0, 1)])
        picture = numpy.kron(255 * light.astype(numpy.uint8), numpy.ones((8, 8), numpy.uint8))
        (found,) = zxing.read_barcodes(picture)
        assert found.text == place.page

    def test_whoever_trusts_the_authority_reaches_it_and_nobody_else(self, place):
        with place.ask() as ask:
            assert ask.get("/api/health").json()["status"] == "ok"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{place.url}/api/health")

    def test_cookies_go_over_tls_alone_and_forms_come_from_its_own_pages(self, place):
        with place.ask(headers={"Sec-Fetch-Site": "none"}) as ask:
            set_cookie = ask.get(f"/enter/{OWNER}").headers["set-cookie"]
            assert set_cookie.startswith("__Host-hb_owner=")
            assert "; Secure" in set_cookie
            assert "Campaigns" in ask.get("/").text
            for origin, status in ((place.url.replace("https", "http"), 403), (place.url, 303)):
                answer = ask.post("/leave", headers={"Origin": origin})
                assert answer.status_code == status, answer.text

    def test_links_lead_to_tls(self, place):
        with place.ask(headers=BEARER) as ask:
            made = ask.post("/api/campaigns", json=NORTH).json()
            link = ask.post(
                f"/api/campaigns/{made['id']}/links", json={"role": "viewer", "name": "Eva"}
            ).json()
        assert link["url"] == f"{place.url}/enter/{link['token']}"

    @pytest.mark.slow
    def test_with_workers_and_the_same_authority_after_a_restart(self, tmp_path):
        seen = set()
        for workers in ("2", "1"):
            with lan(tmp_path, "--host", "127.0.0.1", "--workers", workers) as made:
                made.wait_for_workers()
                for _ in range(6):
                    with made.ask(headers=BEARER) as ask:
                        assert ask.get("/api/campaigns").status_code == 200
                    assert b"200 OK" in made.sent(b"GET / HTTP/1.1\r\n\r\n")
                seen.add(made.authority.read_bytes())
            assert made.ended[0] == 0
            assert "Traceback" not in made.ended[2]
        assert len(seen) == 1

    @pytest.mark.slow
    @pytest.mark.skipif(lan_address() is None, reason="this machine is in no network")
    def test_at_this_machines_own_address(self, tmp_path):
        with lan(tmp_path) as made:
            assert httpx.URL(made.url).host.strip("[]") == str(lan_address())
            with made.ask() as ask:
                assert ask.get("/api/health").status_code == 200


class TestPage:
    """The page with the certificate: it cannot be refused, and there is nothing else to be had."""

    @pytest.mark.parametrize("path", FILES)
    def test_what_there_is(self, place, path):
        answer = httpx.get(place.page + path.strip("/"))
        assert answer.status_code == 200
        assert answer.headers["content-type"] == FILES[path]
        assert "set-cookie" not in answer.headers
        assert len(answer.content) < 6_000
        assert b"hb_" not in answer.content
        head = httpx.head(place.page + path.strip("/"))
        assert (head.content, head.headers["content-length"]) == (b"", str(len(answer.content)))

    def test_the_certificate_is_the_authoritys_and_its_key_is_not_there(self, place):
        der = httpx.get(f"{place.page}heterobandits.crt").content
        assert ssl.DER_cert_to_PEM_cert(der).split() == place.authority.read_text().split()

    @pytest.mark.parametrize(
        "path",
        ["api/health", "api/campaigns", f"enter/{OWNER}", "static/site.css", "authority-key.pem", "server-key.pem",
         "../authority-key.pem", "%2e%2e/authority-key.pem", "/authority.pem", "heterobandits.crt/", "\xff"],
    )  # fmt: skip
    def test_there_is_nothing_else(self, place, path):
        asked = f"GET /{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {OWNER}\r\n\r\n"
        found = place.sent(asked.encode("latin-1"))
        assert found.startswith(b"HTTP/1.1 404 ")
        assert found.endswith(b"\r\n\r\n")

    @pytest.mark.parametrize(
        "method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"]
    )
    def test_it_takes_nothing(self, place, method):
        found = place.sent(f"{method} / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".encode())
        assert found.startswith(b"HTTP/1.1 405 ")

    @pytest.mark.parametrize(
        ("sent", "status"),
        [
            (b"\r\n\r\n", b"400"),
            (b"GET /\r\n\r\n", b"400"),
            (b"GET / HTTP/9.9\r\n\r\n", b"400"),
            (b"\x16\x03\x01\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 2_000, b"431"),
            (b"x" * 9_000, b"431"),
        ],
    )
    def test_what_cannot_be_read(self, place, sent, status):
        assert place.sent(sent).startswith(b"HTTP/1.1 " + status)

    def test_one_busy_client_is_in_nobodys_way(self, place):
        """Whoever holds as many connections as there may be of one address gets no more; the pages over TLS go on."""
        held = [place.raw() for _ in range(40)]
        try:
            for line in held:
                with suppress(ConnectionError):
                    line.sendall(b"GET / HTTP/1.1\r\n")
            with place.ask() as ask:
                assert ask.get("/api/health").status_code == 200
            other = socket.socket()
            other.bind(("127.0.0.2", 0))  # somebody else
            other.connect(held[0].getpeername())
            other.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert other.recv(1_000).startswith(b"HTTP/1.1 200")
            other.close()
        finally:
            for line in held:
                line.close()
        until = time.monotonic() + 20
        while not place.sent(b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200"):
            assert time.monotonic() < until


def started(tmp_path, *options, before=(), env=None):
    """What a server says that does not come to serving."""
    command = [*before, sys.executable, "-c", COLD, "serve", "--lan", "--database", str(tmp_path / "x.db"), "--port", "0"]  # fmt: skip
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), **(env or {})},
    )  # fmt: skip


def can_unshare():
    """Whether a process without a network can be had here."""
    tool = shutil.which("unshare")
    tried = tool and subprocess.run([tool, "-rn", "true"], capture_output=True, check=False)
    return bool(tried) and tried.returncode == 0


class TestNoServer:
    """What is wrong is said in a sentence."""

    @pytest.mark.skipif(not can_unshare(), reason="networks cannot be taken away here")
    def test_without_a_network(self, tmp_path):
        done = started(tmp_path, before=("unshare", "-rn"))
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "is in no network that phones could share" in done.stderr

    def test_an_address_that_is_none(self, tmp_path):
        done = started(tmp_path, "--host", "nowhere.invalid")
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "nowhere.invalid" in done.stderr

    def test_an_address_of_another_machine(self, tmp_path):
        done = started(tmp_path, "--host", "203.0.113.77")
        assert done.returncode == 2
        assert "cannot listen at 203.0.113.77" in done.stderr

    def test_nowhere_to_keep_the_certificate(self, tmp_path):
        (tmp_path / "data").write_text("a file")
        done = started(tmp_path, "--host", "127.0.0.1")
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "cannot be kept" in done.stderr

    def test_a_port_in_use(self, tmp_path):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            done = started(tmp_path, "--host", "127.0.0.1", "--port", port)
        assert done.returncode == 2
        assert f"cannot listen at 127.0.0.1:{port}" in done.stderr

    def test_without_the_package(self, tmp_path):
        hidden = tmp_path / "hidden"
        hidden.mkdir()
        (hidden / "cryptography.py").write_text("raise ImportError('hidden', name='cryptography')")
        done = started(tmp_path, env={"PYTHONPATH": str(hidden)})
        assert done.returncode == 2
        assert "needs cryptography: pip install 'heterobandits[campaigns]'" in done.stderr


@pytest.mark.skipif(
    not can_unshare() or shutil.which("ip") is None, reason="networks cannot be made here"
)
def test_a_network_of_ipv6_alone_that_leads_nowhere_else(tmp_path):
    """As on a boat: an interface with an address, and no way out."""
    script = (
        "ip link set lo up && ip -6 addr add fd12:3456::5/64 dev lo nodad && "
        f"exec {sys.executable} -c 'from heterobandits.web.networks import lan_address; print(lan_address())'"
    )
    done = subprocess.run(
        ["unshare", "-rn", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == "fd12:3456::5\n", done.stderr
