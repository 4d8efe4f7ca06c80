"""What the server counts: requests and how long they took, by the template of their path, never by whose they are."""

import os
import time

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heterobandits.web import COUNTED
from heterobandits.web.errors import NOT_GUESSED
from heterobandits.web.requests import ROUTE

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """The counts of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("route", "method", "status")
        self._requests = Counter(
            "heterobandits_requests", "Requests answered.", labels, registry=self._registry
        )
        self._seconds = Histogram(
            "heterobandits_request_seconds",
            "Seconds until the answer was sent.",
            labels[:2],
            registry=self._registry,
            buckets=BUCKETS,
        )

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """One more request."""
        known = method if method in METHODS else "other"
        self._requests.labels(route, known, str(status)).inc()
        self._seconds.labels(route, known).observe(seconds)

    def page(self) -> bytes:
        """All counts as Prometheus reads them."""
        registry = self._registry
        if COUNTED in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class Counted:
    """An app whose requests are counted, and whose answers are of no other type than they say."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).setdefault(*NOT_GUESSED)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            route = scope.get(ROUTE, "none")
            self._metrics.count(route, scope["method"], status, time.perf_counter() - began)
