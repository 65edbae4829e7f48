"""What the Kafka edge counts: requests, bytes, connections, errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from penstock.telemetry.histogram import Histogram
from penstock.telemetry.metrics import Metrics


class BrokerMetrics:
    """Plain numbers, so that counting costs the hot path an addition."""

    def __init__(self, metrics: Metrics) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections = 0
        self.connections_refused = 0
        self.connections_closed_for_cause = 0
        self.requests_in_flight = 0
        self.throttled_requests = 0
        self.throttle_ms = 0
        # Bugs. Every test asserts that there were none.
        self.unexpected_errors = 0
        # Refusals by Kafka's name of the error code.
        self.errors: Counter[str] = Counter()
        self._latency: dict[str, Histogram] = {}
        metrics.register(self._collect)

    def latency_of(self, api_name: str) -> Histogram:
        """Where dispatch notes the seconds from a request's last byte to its reply; look it up once per API."""
        return self._latency.setdefault(api_name, Histogram())

    def _collect(self) -> Iterator[Metric]:
        latency = HistogramMetricFamily(
            "penstock_request_seconds", "From a request's last byte to its reply, long polls included.", labels=["api"]
        )
        for name, histogram in sorted(self._latency.items()):
            latency.add_metric([name], histogram.buckets(), histogram.sum)
        yield latency
        errors = CounterMetricFamily("penstock_errors", "Refusals by Kafka error name.", labels=["error"])
        for name, count in sorted(self.errors.items()):
            errors.add_metric([name], count)
        yield errors
        yield from self._counters()
        yield GaugeMetricFamily("penstock_connections", "Open client connections.", self.connections)
        yield GaugeMetricFamily("penstock_requests_in_flight", "Requests not yet answered.", self.requests_in_flight)

    def _counters(self) -> Iterator[Metric]:
        for name, doc, value in (
            ("received_bytes", "Bytes from Kafka clients.", self.bytes_in),
            ("sent_bytes", "Bytes to Kafka clients.", self.bytes_out),
            ("connections_refused", "Connections beyond max.connections.", self.connections_refused),
            (
                "connections_closed_for_cause",
                "Connections closed because of what the client did; the log says why.",
                self.connections_closed_for_cause,
            ),
            ("throttled_requests", "Requests answered with a throttle time.", self.throttled_requests),
            ("throttle_seconds", "Throttle time given to clients.", self.throttle_ms / 1000),
            ("unexpected_errors", "Bugs; the log has their tracebacks.", self.unexpected_errors),
        ):
            yield CounterMetricFamily(f"penstock_{name}", doc, value)


def report_memory(metrics: Metrics, request_bytes: Callable[[], int], reply_bytes: Callable[[], int]) -> None:
    """Both are asked at each scrape."""

    def collect() -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "penstock_request_memory_bytes",
            "Memory that requests on their way in hold; queued.max.request.bytes limits it.",
            request_bytes(),
        )
        yield GaugeMetricFamily(
            "penstock_reply_memory_bytes",
            "Memory that replies hold which clients have not read; queued.max.response.bytes limits it.",
            reply_bytes(),
        )

    metrics.register(collect)
