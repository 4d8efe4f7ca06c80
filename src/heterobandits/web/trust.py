"""The page at which phones get the certificate of a server on the local network, and nothing else.

It comes without TLS, since phones trust the server only afterwards. So it has no secret: a fingerprint says whether what came is
what was sent. It reads a head of a few lines, answers from memory, hangs up, and knows neither cookies nor tokens.
"""

import asyncio
import base64
import hashlib
from asyncio import TimerHandle
from collections import Counter
from typing import ClassVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from heterobandits.output.pages import render_template
from heterobandits.web.certificates import Authority, render_profile

CERTIFICATE_PATH = "/heterobandits.crt"
PROFILE_PATH = "/heterobandits.mobileconfig"
TRUST_HEAD_MAX_BYTES = 8_192  # of a request
TRUST_TIMEOUT_S = 10.0  # for a request to come, and for an answer to be taken
TRUST_MAX_CONNECTIONS = 200  # at once
TRUST_MAX_CONNECTIONS_EACH = 20  # from one address
TRUST_STYLE = (
    "body{font:1.05rem/1.5 system-ui,sans-serif;margin:0;color:#1b1b1b;background:#fff}"
    "main{max-width:38rem;margin:0 auto;padding:1rem}li{margin:.6rem 0}code{overflow-wrap:anywhere;font-size:1.05rem}"
    ".button{display:inline-block;padding:.7rem 1rem;border-radius:.4rem;background:#14532d;color:#fff;text-decoration:none}"
)


class TrustAnswers:
    """All that is answered, made beforehand."""

    def __init__(self, authority: Authority, server: str) -> None:
        constraints = authority.certificate.extensions.get_extension_for_class(x509.NameConstraints)
        allowed = constraints.value.permitted_subtrees or ()
        page = render_template(
            "site/trust.html",
            style=TRUST_STYLE,
            server=server,
            name=authority.name,
            fingerprint=authority.fingerprint,
            network=next(one.value for one in allowed if isinstance(one, x509.IPAddress)),
            names=[one.value for one in allowed if isinstance(one, x509.DNSName)],
            certificate_path=CERTIFICATE_PATH,
            profile_path=PROFILE_PATH,
            file=CERTIFICATE_PATH.strip("/"),
        ).encode()
        certificate = authority.certificate.public_bytes(Encoding.DER)
        self.files = {
            "/": (page, "text/html; charset=utf-8"),
            CERTIFICATE_PATH: (certificate, "application/x-x509-ca-cert"),
            PROFILE_PATH: (render_profile(authority), "application/x-apple-aspen-config"),
        }

    def answer(self, head: bytes) -> bytes:
        """The answer to a request."""
        line = head.partition(b"\r\n")[0].split(b" ")
        if len(line) != 3 or not line[2].startswith(b"HTTP/1."):
            return answer_bytes("400 Bad Request")
        method, path, _ = line
        if method not in (b"GET", b"HEAD"):
            return answer_bytes("405 Method Not Allowed", more="Allow: GET, HEAD\r\n")
        found = self.files.get(path.partition(b"?")[0].decode("latin-1"))
        if found is None:
            return answer_bytes("404 Not Found")
        body, kind = found
        return answer_bytes("200 OK", body, kind, head_only=method == b"HEAD")


def answer_bytes(
    status: str,
    body: bytes = b"",
    kind: str = "text/plain",
    more: str = "",
    *,
    head_only: bool = False,
) -> bytes:
    """An answer of HTTP, after which there is none."""
    style = base64.b64encode(hashlib.sha256(TRUST_STYLE.encode()).digest()).decode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        f"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
        f"Content-Security-Policy: default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors 'none'\r\n{more}\r\n"
    )
    return head.encode() + (b"" if head_only else body)


class TrustConnection(asyncio.Protocol):
    """One request, and its answer."""

    all_of_them: ClassVar[Counter[str]] = Counter()  # by address, of this process

    def __init__(self, answers: TrustAnswers) -> None:
        self._answers = answers
        self._head = b""
        self._timer: TimerHandle | None = None
        self._address: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has come; of those that are too many nobody is heard."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        address = str((transport.get_extra_info("peername") or ("",))[0])
        counted = self.all_of_them
        if (
            counted.total() >= TRUST_MAX_CONNECTIONS
            or counted[address] >= TRUST_MAX_CONNECTIONS_EACH
        ):
            transport.abort()
            return
        self._address = address
        counted[address] += 1
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TRUST_TIMEOUT_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """And has left."""
        if self._timer is not None:
            self._timer.cancel()
        if self._address is not None:
            self.all_of_them[self._address] -= 1
            if not self.all_of_them[self._address]:
                del self.all_of_them[self._address]

    def data_received(self, data: bytes) -> None:
        """Some of a head; what follows it is not read."""
        if self._transport.is_closing():
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._end_with(self._answers.answer(self._head))
        elif len(self._head) > TRUST_HEAD_MAX_BYTES:
            self._end_with(answer_bytes("431 Request Header Fields Too Large"))

    def _end_with(self, answer: bytes) -> None:
        self._transport.write(answer)
        self._transport.close()
