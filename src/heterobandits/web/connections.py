"""Connections that are bounded before anybody is known: how large a head may be, how long it may take, and how many there are.

A server in front should bound them too. What a request asks for is bounded later, when it is known whose it is.
"""

from asyncio import TimerHandle, Transport
from typing import NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Limits(NamedTuple):
    """What a connection may take."""

    head: int = 65_536  # bytes, and what comes with the last of them
    seconds: float = 20.0  # for a head, and between two looks at a body
    bytes_a_second: int = 500  # of a body
    connections: int = 1_000


class Bounded(HttpToolsProtocol):
    """A connection within its limits; the answer is its last once the server is ending."""

    limits = Limits()
    ending = False
    _head: int | None = 0  # bytes of the head that is on the way; None while a body is
    _body = 0  # bytes of the body since the last look
    _timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Somebody has come."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(b"503 Service Unavailable", b"Retry-After: 2\r\n")
        else:
            self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """And has left."""
        self._look_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some of a head or a body."""
        if self._head is not None:
            self._head += len(data)
        else:
            self._body += len(data)
        super().data_received(data)
        if self._head is not None and self._head > self.limits.head:
            self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._look_later()

    def on_headers_complete(self) -> None:
        """A head is there; it is answered from now on."""
        self._head, self._body = None, 0
        self._look_later()
        super().on_headers_complete()
        if self.ending:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """A body is there."""
        self._head = 0
        self._look_no_more()
        super().on_message_complete()

    def _look_later(self) -> None:
        self._look_no_more()
        self._timer = self.loop.call_later(self.limits.seconds, self._look)

    def _look_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """End a connection on which too little came; while we read nothing ourselves, it is not the sender's fault."""
        enough = self.limits.bytes_a_second * self.limits.seconds
        if self._head is None and (self.flow.read_paused or self._body >= enough):
            self._body = 0
            self._look_later()
        else:
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes, more: bytes = b"") -> None:
        """Say why, if nothing else is being said, and hang up."""
        if self.cycle is None or self.cycle.response_complete:
            head = b"HTTP/1.1 %b\r\n%bConnection: close\r\nContent-Length: 0\r\n\r\n"
            self.transport.write(head % (status, more))
        self._look_no_more()
        self.transport.close()
