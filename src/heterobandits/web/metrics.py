"""What the server counts: requests and their durations by route, never by person."""

import os
import time

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heterobandits.web import METRICS_FOLDER_VARIABLE
from heterobandits.web.errors import NO_SNIFF_HEADER
from heterobandits.web.requests import ROUTE_KEY

METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTED_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
DURATION_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


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
            buckets=DURATION_BUCKETS_S,
        )

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """One more request."""
        known = method if method in COUNTED_METHODS else "other"
        self._requests.labels(route, known, str(status)).inc()
        self._seconds.labels(route, known).observe(seconds)

    def page(self) -> bytes:
        """All counts as Prometheus reads them."""
        registry = self._registry
        if METRICS_FOLDER_VARIABLE in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class CountedApp:
    """An app whose requests are counted, and whose answers browsers must not guess the type of."""

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
                MutableHeaders(scope=message).setdefault(*NO_SNIFF_HEADER)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            route = scope.get(ROUTE_KEY, "none")
            self._metrics.count(route, scope["method"], status, time.perf_counter() - began)
