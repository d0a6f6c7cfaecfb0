"""Counts of an environment server, in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from agentgym.interop.remote.wire import OPERATIONS


class Metrics:
    """The counts of one server.

    Args:
        sessions: Returns the number of open sessions.
    """

    def __init__(self, sessions: Callable[[], int]):
        self._registry = registry = CollectorRegistry()
        Gauge("agentgym_sessions", "Open sessions.", registry=registry).set_function(sessions)
        self._requests = Counter("agentgym_requests", "Requests by outcome.", ("op", "outcome"), registry=registry)
        self._seconds = Counter("agentgym_request_seconds", "Seconds spent on requests.", ("op",), registry=registry)

    def note(self, op: Any, reply: Mapping[str, Any], seconds: float) -> None:
        """Count a request. Its outcome is `ok` or the kind of error."""
        name = op if op in OPERATIONS else "unknown"
        self._requests.labels(name, reply["error"]["kind"] if "error" in reply else "ok").inc()
        self._seconds.labels(name).inc(seconds)

    def as_text(self) -> bytes:
        """Return all counts as text."""
        return generate_latest(self._registry)
