"""Connections with TLS, within the limits of `connections` from their first byte on.

The framework would hand a connection over once its handshake is done, and count none before that: whoever begins handshakes
without an end would hold as many connections as the system has. And what it says of how much of an answer is still to be taken is
wrong beneath TLS. So here TLS stands between a connection and its transport: the connection counts, and its time runs, from the
moment somebody comes; what waits to be sent is what the transport below holds.
"""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

from heterobandits.web.auth import network_of
from heterobandits.web.budgets import Budgets

DECRYPTED_BYTES = 65_536  # that are handed on at once
HANDSHAKE_MAX_BYTES = 65_536  # that come before there is anything to decrypt
# A handshake takes a millisecond or two from all others, whoever asks for it. A browser makes some six for a page.
HANDSHAKE_PERIOD_S = 10.0
HANDSHAKES_EACH = 100  # of one address in that time


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What connections are encrypted with: this certificate, TLS 1.2 or newer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate, key)
    return context


class EncryptedConnection(asyncio.Protocol):
    """What comes encrypted, for a connection that knows nothing of it."""

    def __init__(
        self, inner: asyncio.Protocol, context: ssl.SSLContext, handshakes: Budgets
    ) -> None:
        self.inner = inner
        self.handshakes = handshakes
        self.context = context
        self.known = False  # whether the handshake is done
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._loose = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has come; the time for a request runs."""
        assert isinstance(transport, asyncio.Transport)
        self.raw = transport
        peer = transport.get_extra_info("peername")
        network = network_of(str(peer[0]) if peer else None)
        self.refused = self.handshakes.spend(network, HANDSHAKES_EACH) > 0.0
        self.inner.connection_made(EncryptedTransport(self))

    def data_received(self, data: bytes) -> None:
        """Some of a handshake, or of what was encrypted."""
        if self.refused:
            self.raw.abort()
            return
        self._incoming.write(data)
        try:
            if not self.known:
                self._loose += len(data)
                self._tls.do_handshake()
                self.known = True
            while not self.raw.is_closing():
                part = self._tls.read(DECRYPTED_BYTES)
                if not part:
                    self.eof_received()
                    break
                self.inner.data_received(part)
        except ssl.SSLWantReadError:
            if not self.known and self._loose > HANDSHAKE_MAX_BYTES:
                self.raw.abort()
        except ssl.SSLError:  # what came is not encrypted, or by nobody who was here
            self.send()  # an alert may say so
            self.raw.close()
            return
        self.send()

    def eof_received(self) -> None:
        """Nothing more comes: what is being answered has nobody to read it."""
        if self.known:
            self.inner.eof_received()
        self.raw.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """They have left."""
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Some of what was sent is not taken at once."""
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        """All of it is taken."""
        self.inner.resume_writing()

    def write(self, data: bytes) -> None:
        """Encrypt and send; before there is a key nothing can be said."""
        if self.known and not self.raw.is_closing():
            self._tls.write(data)
            self.send()

    def send(self) -> None:
        """Send what TLS has to say."""
        if self._outgoing.pending and not self.raw.is_closing():
            self.raw.write(self._outgoing.read())

    def close(self) -> None:
        """Say that this is the end, and hang up."""
        if self.known and not self.raw.is_closing():
            with suppress(ssl.SSLError):  # that the other side has not said so too
                self._tls.unwrap()
            self.send()
        self.raw.close()


class EncryptedTransport(asyncio.Transport):
    """The transport as the connection within sees it."""

    def __init__(self, connection: EncryptedConnection) -> None:
        super().__init__()
        self._connection = connection
        self._raw = connection.raw

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """About the transport below; that there is TLS is known by its context."""
        if name == "sslcontext":
            return self._connection.context
        return self._raw.get_extra_info(name, default)

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        """Send, encrypted."""
        if data:
            self._connection.write(bytes(data))

    def close(self) -> None:
        """Hang up once all is sent."""
        self._connection.close()

    def abort(self) -> None:
        """Hang up at once."""
        self._raw.abort()

    def is_closing(self) -> bool:
        """Whether it is being hung up."""
        return self._raw.is_closing()

    def pause_reading(self) -> None:
        """Take no more for now; what has come already is handed on."""
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Take more."""
        self._raw.resume_reading()

    def is_reading(self) -> bool:
        """Whether more is taken."""
        return self._raw.is_reading()

    def get_write_buffer_size(self) -> int:
        """How many encrypted bytes wait to be taken."""
        return self._raw.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """From how many on writing pauses, and at how many it goes on."""
        return self._raw.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Choose them."""
        self._raw.set_write_buffer_limits(high, low)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The connection within."""
        return self._connection.inner

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand what comes to another one."""
        assert isinstance(protocol, asyncio.Protocol)
        self._connection.inner = protocol
