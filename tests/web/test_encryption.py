"""Connections with TLS: they carry what others carry, and the limits of a connection hold from its first byte on."""

import ipaddress
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress

import pytest
import uvicorn
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from browsers import CHROMIUM, FLAGS
from heterobandits.web import encryption
from heterobandits.web.budgets import Budgets
from heterobandits.web.certificates import certificate_for
from heterobandits.web.connections import BoundedConnection, ConnectionLimits
from heterobandits.web.encryption import (
    HANDSHAKE_MAX_BYTES,
    HANDSHAKE_PERIOD_S,
    EncryptedConnection,
    tls_context,
)

pytestmark = [pytest.mark.usefixtures("ends"), pytest.mark.server]

LARGE = 10_000_000  # bytes
HELLO = bytes.fromhex("1603010200010001fc0303")  # the beginning of a handshake
ASKED = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def echo(scope, receive, send):
    """Answer a request with its own body, and under which scheme it came."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    body = scope["scheme"].encode() + b" " + body
    await answer(send, body)


async def large(scope, receive, send):
    """More than is taken at once."""
    await answer(send, b"x" * LARGE)


async def answer(send, body):
    head = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    return certificate_for(ipaddress.ip_address("127.0.0.1"), (), tmp_path_factory.mktemp("lan"))


@pytest.fixture
def encrypted(certified):
    """A function that serves an app within such limits."""
    context = tls_context(certified.certificate, certified.key)

    @contextmanager
    def serve(app=echo, **limits):
        class Quick(BoundedConnection):
            pass

        Quick.limits = ConnectionLimits(**limits)
        handshakes = Budgets(HANDSHAKE_PERIOD_S)
        settings = uvicorn.Config(
            app,
            http=lambda **given: EncryptedConnection(Quick(**given), context, handshakes),
            port=0,
            lifespan="off",
            log_level="error",
        )
        server = uvicorn.Server(settings)
        with socket.create_server(("127.0.0.1", 0)) as place:
            running = threading.Thread(target=server.run, kwargs={"sockets": [place]})
            running.start()
            made = Place(place.getsockname(), certified, server)
            yield made
            server.should_exit = True
            running.join()

    return serve


class Place:
    """A server with TLS, and lines to it."""

    def __init__(self, address, certified, server):
        self.address = address
        self._trusting = ssl.create_default_context(
            cafile=certified.authority.folder / "authority.pem"
        )
        self.connections = server.server_state.connections

    def raw(self):
        return socket.create_connection(self.address, timeout=20)

    def line(self, receive_bytes=None):
        raw = socket.socket()
        if receive_bytes is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.settimeout(20)
        raw.connect(self.address)
        return self._trusting.wrap_socket(raw, server_hostname="127.0.0.1")

    def said(self, *parts):
        """All that comes back until the other end hangs up."""
        with self.line() as line:
            for part in parts:
                line.sendall(part)
            return everything(line)


def everything(line, most=65_536):
    found = bytearray()
    with suppress(ConnectionError):
        while part := line.recv(most):
            found += part
    return bytes(found)


def eventually(true):
    until = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


class TestCarrying:
    """What is sent comes as it was sent."""

    @pytest.mark.parametrize("length", [0, 1, 16_384, 300_000])
    def test_bodies_of_any_size(self, encrypted, length):
        body = bytes(range(256)) * (length // 256 + 1)
        head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        with encrypted() as place:
            found = place.said(head % length + body[:length])
        assert found.endswith(b"\r\n\r\nhttps " + body[:length])

    def test_several_requests_in_one_piece_and_one_in_many(self, encrypted):
        kept = ASKED.replace(b"close", b"keep-alive")
        with encrypted() as place:
            assert place.said(kept + kept + ASKED).count(b"200 OK") == 3
            assert place.said(*(bytes([one]) for one in ASKED)).count(b"200 OK") == 1

    def test_a_large_answer_comes_whole_and_ends_as_tls_ends(self, encrypted):
        with encrypted(app=large) as place, place.line() as line:
            line.suppress_ragged_eofs = False  # an end without its alert could be a cut
            line.sendall(ASKED)
            assert len(everything(line)) > LARGE

    def test_only_new_versions(self, encrypted):
        with encrypted() as place:
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                old.maximum_version = ssl.TLSVersion.TLSv1_1
            old.set_ciphers("ALL:@SECLEVEL=0")
            with place.raw() as raw, pytest.raises(ssl.SSLError):
                old.wrap_socket(raw)

    @pytest.mark.parametrize("sent", [ASKED, b"\0" * 100, HELLO + b"\xff" * 600])
    def test_what_is_no_handshake_is_hung_up_on_and_nothing_of_it_is_answered(
        self, encrypted, sent
    ):
        with encrypted(seconds=1.0) as place:
            with place.raw() as raw:
                raw.sendall(sent)
                assert b"HTTP" not in everything(raw)
            assert place.said(ASKED).count(b"200 OK") == 1

    def test_who_leaves_in_the_middle_is_forgotten(self, encrypted):
        with encrypted() as place:
            for cut in (lambda raw: raw.sendall(HELLO), lambda raw: None):
                with place.raw() as raw:
                    cut(raw)
                    eventually(lambda: place.connections)
                eventually(lambda: not place.connections)
            with place.line() as line:
                line.sendall(ASKED[:10])
            eventually(lambda: not place.connections)


class TestLimits:
    """A connection is bounded before, in and after its handshake."""

    @pytest.mark.parametrize("sent", [b"", HELLO])
    def test_whoever_does_not_go_on_with_a_handshake_is_hung_up_on(self, encrypted, sent):
        with encrypted(seconds=0.3) as place, place.raw() as raw:
            raw.sendall(sent)
            began = time.monotonic()
            assert b"HTTP" not in everything(raw)
            assert time.monotonic() - began < 5

    def test_nor_does_a_byte_now_and_then_keep_a_handshake_open(self, encrypted):
        with encrypted(seconds=0.5) as place, place.raw() as raw:
            began = time.monotonic()
            with suppress(ConnectionError):
                for one in HELLO + bytes(10_000):
                    raw.sendall(bytes([one]))
                    time.sleep(0.02)
            assert time.monotonic() - began < 5

    def test_whoever_says_nothing_after_it_is_told(self, encrypted):
        with encrypted(seconds=0.3) as place:
            assert b"408" in place.said()
            assert b"408" in place.said(ASKED[:20])

    def test_handshakes_count_as_connections(self, encrypted):
        with encrypted(connections=2) as place, place.raw(), place.raw():
            eventually(lambda: len(place.connections) == 2)
            with place.raw() as third:
                third.sendall(HELLO)
                assert everything(third) == b""

    def test_a_handshake_without_end_is_cut(self, encrypted):
        record = (
            b"\x16\x03\x01\x40\x00\x01\x00\xff\xf0" + b"\0" * 16_379
        )  # of many that never say how it goes on
        sent = 0
        with encrypted() as place, place.raw() as raw, suppress(ConnectionError):
            for _ in range(1_000):
                raw.sendall(record)
                sent += len(record)
                time.sleep(0.01)
        assert sent < 10 * HANDSHAKE_MAX_BYTES

    def test_whoever_takes_no_answers_is_hung_up_on(self, encrypted):
        with encrypted(app=large, seconds=0.3) as place, place.line(4096) as line:
            line.sendall(ASKED)
            eventually(lambda: place.connections)
            eventually(lambda: not place.connections)

    def test_whoever_takes_an_answer_slowly_gets_it_all(self, encrypted):
        with encrypted(app=large, seconds=0.5) as place, place.line(4096) as line:
            line.sendall(ASKED)
            found, began = 0, time.monotonic()
            while part := line.recv(400_000 if time.monotonic() - began > 1 else 16_000):
                found += len(part)
                if time.monotonic() - began < 1:
                    time.sleep(0.02)
            assert found > LARGE

    def test_a_large_answer_is_not_held_for_long(self, encrypted):
        with encrypted(app=large, seconds=0.3, taking=1.0) as place, place.line(4096) as line:
            line.sendall(ASKED)
            found, began = 0, time.monotonic()
            with suppress(ConnectionError, ssl.SSLError):
                while part := line.recv(16_000):
                    found += len(part)
                    time.sleep(0.02)
            assert found < LARGE
            assert time.monotonic() - began < 5

    def test_what_is_held_for_all_is_bounded(self, encrypted):
        with (
            encrypted(app=large, unsent=25_000_000, seconds=100) as place,
            place.line(4096) as one,
            place.line(4096) as two,
            place.line(4096) as three,
        ):
            for line in (one, two, three):
                line.sendall(ASKED)
                eventually(lambda: any(at._held for at in place.connections))
            eventually(lambda: len(place.connections) == 2)


WORKER = b"self.addEventListener('install', () => self.skipWaiting());"
PAGE = b"<!doctype html><title>x</title>"


async def installable(scope, receive, send):
    """A page, and a service worker."""
    body, kind = (WORKER, b"text/javascript") if scope["path"] == "/sw.js" else (PAGE, b"text/html")
    head = [(b"content-length", b"%d" % len(body)), (b"content-type", kind)]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_page_over_it_may_have_a_service_worker(encrypted, certified):
    """In a browser that takes the certificate for good; one that has not been told so opens nothing."""
    import base64
    import hashlib

    from cryptography import x509
    from playwright.sync_api import Error, sync_playwright

    own = x509.load_pem_x509_certificate(certified.certificate.read_bytes()).public_key()
    info = own.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pin = base64.b64encode(hashlib.sha256(info).digest()).decode()
    trusting = f"--ignore-certificate-errors-spki-list={pin}"
    with encrypted(app=installable) as place, sync_playwright() as driver:
        address = f"https://127.0.0.1:{place.address[1]}/"
        for flags in ([], [trusting]):
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *flags])
            page = browser.new_page()
            if flags:
                page.goto(address)
                assert page.evaluate(
                    "navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready)"
                    ".then(ready => window.isSecureContext && ready.active !== null)"
                )
            else:
                with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
                    page.goto(address)
            browser.close()


def test_an_address_has_so_many_handshakes_in_a_while(encrypted, monkeypatch):
    """Or whoever begins them on and on takes their time from all others."""
    monkeypatch.setattr(encryption, "HANDSHAKES_EACH", 3)
    with encrypted() as place:
        for _ in range(3):
            place.line().close()
        with pytest.raises((OSError, ssl.SSLError)):
            place.line()
