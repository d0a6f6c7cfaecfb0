"""What a server of environments counts, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agentgym.tools.env_server.sessions import Sessions


class _Collected(Collector):
    """Reads the counts when they are asked for."""

    def __init__(self, sessions: Sessions):
        self._sessions = sessions

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield GaugeMetricFamily("agentgym_sessions", "Open sessions.", len(self._sessions))
        counts, busy_s = self._sessions.tally.totals()
        requests = CounterMetricFamily("agentgym_requests", "Requests by outcome.", labels=("op", "outcome"))
        for (op, outcome), count in counts.items():
            requests.add_metric((op, outcome), count)
        yield requests
        seconds = CounterMetricFamily("agentgym_request_seconds", "Seconds spent on requests.", labels=("op",))
        for op, spent in busy_s.items():
            seconds.add_metric((op,), spent)
        yield seconds


def metrics_of(sessions: Sessions) -> CollectorRegistry:
    """Return a registry of the metrics of a server's sessions."""
    registry = CollectorRegistry()
    registry.register(_Collected(sessions))
    return registry


def as_text(metrics: CollectorRegistry) -> bytes:
    """Return metrics as text."""
    return generate_latest(metrics)
