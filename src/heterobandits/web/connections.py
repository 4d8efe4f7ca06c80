"""Connections that are bounded before anybody is known: how large a head and a body may be, how long they and an answer may
take, how many requests wait for their answers, how much of these is held, and how many connections there are.

A server in front should bound them too. What a request asks for is bounded later, when it is known whose it is.
"""

import socket
from asyncio import TimerHandle, Transport
from typing import ClassVar, NamedTuple, NoReturn

from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from heterobandits.web.auth import BODY_MAX_BYTES_BY_ROUTE

WRITE_BUFFER_BYTES = 65_536  # bytes of an answer that the system takes at once


class ConnectionLimits(NamedTuple):
    """The limits of a connection."""

    head: int = 65_536  # bytes, and what comes with the last of them; so much of a body, too, may be none of its content
    # of a head: what is more, the framework would go through while nobody else is answered
    path: int = 8_192  # bytes
    fields: int = 500  # in the query
    headers: int = 100  # lines
    header_bytes: int = 16_384  # of all lines
    cookies: int = 250  # and escapes in them: for each Python before 3.11.10 and 3.12.6 goes through the rest again
    # bytes of a body's content; whoever says a little too much is told by the route
    body: int = 2 * max(BODY_MAX_BYTES_BY_ROUTE.values())
    # of a body, beside one for each `chunk_bytes` of its content: a chunk takes as long to read as many bytes
    chunks: int = 1_000
    chunk_bytes: int = 256
    waiting: int = 4  # requests on one connection, while one is answered
    seconds: float = 20.0  # for a head, and between two looks at a body or an answer
    bytes_a_second: int = 500  # of a body, and of an answer
    past: float = 5.0  # for what is left of a body after its answer
    taking: float = 300.0  # for an answer to be taken, however large
    unsent: int = 256_000_000  # bytes of answers that are held, of all connections of the process
    connections: int = 1_000


class BoundedConnection(HttpToolsProtocol):
    """A connection within its limits; once the server is shutting down, its next answer is the last."""

    limits = ConnectionLimits()
    ending = False
    _loose = 0  # bytes since a head, a piece of a body's content or a whole request was there: of a head, of trailers
    _in_body = False
    _content = 0  # bytes of the body
    _chunks = 0  # that it came in
    _fresh = 0  # bytes of the body, and of what is around it, since the last look
    _deaf = False  # there were too many requests, and no more are heard
    _header_bytes = 0  # of the head that comes
    _excess: bytes | None = None  # why a head was refused, or a body in chunks
    _timer: TimerHandle | None = None
    _held = 0  # bytes of an answer that were not taken at once
    _unsent = 0  # bytes of it at the last look
    _sending: TimerHandle | None = None
    # all of the process that have something to send
    _holding: ClassVar[set["BoundedConnection"]] = set()

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Somebody has come."""
        super().connection_made(transport)
        self.app = self._in_order(self.app)
        # It is known of every answer whether it is taken: the system holds little of it.
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, WRITE_BUFFER_BYTES
        )
        transport.set_write_buffer_limits(0)
        if len(self.connections) > self.limits.connections:
            self._refuse(b"503 Service Unavailable", b"Retry-After: 2\r\n")
        else:
            self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """And has left."""
        self._look_no_more()
        self._send_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some of a head or a body."""
        if self._deaf:
            self.flow.pause_reading()
            return
        self._loose += len(data)
        self._fresh += len(data)
        super().data_received(data)
        if self._loose > self.limits.head:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._content > self.limits.body:
            self._refuse(b"413 Content Too Large")
        elif self._timer is None and self._idle and not self.transport.is_closing():
            self._look_later()  # what came, such as an empty line, has ended the wait for a request and may not begin one

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read, or is too much; those who ask too often at once are owed what they asked before."""
        if not self._deaf:
            self._refuse(self._excess or b"400 Bad Request")

    def on_message_begin(self) -> None:
        """A head begins; where too many wait already, the last of them is the last of the connection."""
        if len(self.pipeline) >= self.limits.waiting:
            self._deaf = True
            self._end_with_this_answer()
            raise InterruptedError  # the parser goes no further
        super().on_message_begin()
        self._header_bytes = 0
        self._look_later()

    def on_headers_complete(self) -> None:
        """A head is there; it is answered from now on."""
        path, _, query = self.url.partition(b"?")
        if len(path) > self.limits.path or query.count(b"&") >= self.limits.fields:
            self._stop(b"414 URI Too Long")
        if self._cookies > self.limits.cookies:
            self._stop(b"431 Request Header Fields Too Large")
        self._loose, self._content, self._chunks, self._fresh = 0, 0, 0, 0
        self._look_later()
        super().on_headers_complete()
        self._in_body = True
        if self.ending:
            self._end_with_this_answer()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of a head is there; one that follows a body is for nobody."""
        if self._in_body:
            return
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value)
        if len(self.headers) > self.limits.headers or self._header_bytes > self.limits.header_bytes:
            self._stop(b"431 Request Header Fields Too Large")

    def on_body(self, body: bytes) -> None:
        """A piece of a body is there."""
        self._loose = 0
        self._content += len(body)
        super().on_body(body)

    def on_chunk_header(self) -> None:
        """A chunk of a body begins."""
        self._chunks += 1
        if self._chunks > self.limits.chunks + self._content // self.limits.chunk_bytes:
            self._stop(b"413 Content Too Large")

    def on_message_complete(self) -> None:
        """A body is there."""
        self._loose, self._in_body = 0, False
        self._look_no_more()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is given; if its body is still coming, that has to end soon."""
        body_comes = self._in_body and not self.pipeline
        super().on_response_complete()
        if body_comes and not self.transport.is_closing():
            self._look_no_more()
            self._timer = self.loop.call_later(self.limits.past, self.transport.close)

    @property
    def _cookies(self) -> int:
        """How many cookies the head has, and escapes in them."""
        lines = [value for name, value in self.headers if name == b"cookie"]
        return sum(line.count(b";") + line.count(b"\\") + 1 for line in lines)

    def _stop(self, why: bytes) -> NoReturn:
        """Have the parser go no further in a head, or a body in chunks, that is too much."""
        self._excess = why
        raise InterruptedError

    def _end_with_this_answer(self) -> None:
        """Hang up after the answer to the newest request. The answer says so: before 0.53 uvicorn does not add it."""
        self.cycle.keep_alive = False
        self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"close")]

    def _in_order(self, app: ASGI3Application) -> ASGI3Application:
        """The app, which begins with a request once the answer before it is taken: of a connection one is held."""

        async def answer(
            scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
        ) -> None:
            await self.flow.drain()
            await app(scope, receive, send)

        return answer

    def pause_writing(self) -> None:
        """Some of an answer is not taken at once."""
        super().pause_writing()
        self._held = self.transport.get_write_buffer_size()
        self._holding.add(self)
        self._send_later()
        self._make_room()

    def resume_writing(self) -> None:
        """All of it is taken."""
        super().resume_writing()
        self._send_no_more()

    def _send_later(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._sending = self.loop.call_later(self.limits.seconds, self._look_at_sending)

    def _send_no_more(self) -> None:
        self._holding.discard(self)
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _look_at_sending(self) -> None:
        """End a connection that takes too little of its answers, whoever has closed it: the rest would be kept for ever."""
        taken = self._unsent - self.transport.get_write_buffer_size()
        rate = max(self.limits.bytes_a_second, self._held / self.limits.taking)
        if taken >= rate * self.limits.seconds:
            self._send_later()
        else:
            self.transport.abort()

    def _make_room(self) -> None:
        """While too much is held for all connections, end the one with most of it still to send."""
        over = sum(one._held for one in self._holding) - self.limits.unsent
        while over > 0:
            last = max(self._holding, key=lambda one: one.transport.get_write_buffer_size())
            over -= last._held
            last._send_no_more()
            last.transport.abort()

    @property
    def _idle(self) -> bool:
        """Whether every request that has come is answered."""
        return self.cycle is None or self.cycle.response_complete

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
        if self._in_body and (self.flow.read_paused or self._fresh >= enough):
            self._fresh = 0
            self._look_later()
        else:
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes, more: bytes = b"") -> None:
        """Say why, unless something else is being said or was said of this request, and hang up."""
        if self._in_body:
            silent = not self.pipeline and not self.cycle.response_started
        else:
            silent = self._idle
        if silent:
            head = b"HTTP/1.1 %b\r\n%bConnection: close\r\nContent-Length: 0\r\n\r\n"
            self.transport.write(head % (status, more))
        self._look_no_more()
        self.transport.close()
