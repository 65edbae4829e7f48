from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from penstock.telemetry.broker import BrokerMetrics, report_memory
from penstock.telemetry.groups import GroupLag, report_group_lag
from penstock.telemetry.histogram import LATENCY_SECONDS, Histogram
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.storage import LogMetrics, LogSize, report_journal


@given(st.lists(st.floats(min_value=0, max_value=100), max_size=50))
def test_every_bucket_counts_the_values_up_to_its_bound(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    expected = [float(bisect_left(sorted(values), bound) + values.count(bound)) for bound in LATENCY_SECONDS]
    assert [count for _, count in histogram.buckets()] == [*expected, float(len(values))]
    assert histogram.sum == sum(values)


def test_what_the_broker_counts_is_what_a_scraper_sees() -> None:
    metrics = Metrics()
    broker = BrokerMetrics(metrics)
    broker.bytes_in += 10
    broker.bytes_out += 20
    broker.connections = 3
    broker.connections_refused += 1
    broker.connections_closed_for_cause += 2
    broker.requests_in_flight = 5
    broker.throttled_requests += 1
    broker.throttle_ms += 1500
    broker.unexpected_errors += 1
    broker.errors["NOT_COORDINATOR"] += 7
    broker.latency_of("Produce").observe(0.002)
    broker.latency_of("Produce").observe(0.2)

    assert metrics.value("penstock_received_bytes_total") == 10
    assert metrics.value("penstock_sent_bytes_total") == 20
    assert metrics.value("penstock_connections") == 3
    assert metrics.value("penstock_connections_refused_total") == 1
    assert metrics.value("penstock_connections_closed_for_cause_total") == 2
    assert metrics.value("penstock_requests_in_flight") == 5
    assert metrics.value("penstock_throttled_requests_total") == 1
    assert metrics.value("penstock_throttle_seconds_total") == 1.5
    assert metrics.value("penstock_unexpected_errors_total") == 1
    assert metrics.value("penstock_errors_total", error="NOT_COORDINATOR") == 7
    assert metrics.value("penstock_request_seconds_bucket", api="Produce", le="0.0025") == 1
    assert metrics.value("penstock_request_seconds_count", api="Produce") == 2


def test_memory_is_asked_for_at_each_scrape() -> None:
    metrics = Metrics()
    taken = {"requests": 4096, "replies": 100}
    report_memory(metrics, lambda: taken["requests"], lambda: taken["replies"])
    assert metrics.value("penstock_request_memory_bytes") == 4096
    taken["replies"] = 0
    assert metrics.value("penstock_reply_memory_bytes") == 0


def test_log_sizes_flush_times_and_lag_are_asked_for_at_each_scrape() -> None:
    metrics = Metrics()
    sizes: list[LogSize] = []
    lags: list[GroupLag] = []
    logs = LogMetrics(metrics, lambda: sizes)
    report_group_lag(metrics, lambda: lags)
    logs.flush.observe(0.004)
    sizes.append(LogSize("orders", 2, size_bytes=100, start_offset=5, end_offset=9))
    lags.append(GroupLag("billing", "orders", 2, lag=4))

    assert metrics.value("penstock_flush_seconds_count") == 1
    assert metrics.value("penstock_log_bytes", topic="orders", partition="2") == 100
    assert metrics.value("penstock_log_start_offset", topic="orders", partition="2") == 5
    assert metrics.value("penstock_log_end_offset", topic="orders", partition="2") == 9
    assert metrics.value("penstock_group_lag", group="billing", topic="orders", partition="2") == 4
    lags.clear()
    assert metrics.value("penstock_group_lag", group="billing", topic="orders", partition="2") is None


class CountedLags:
    """How often it was gone through."""

    def __init__(self) -> None:
        self.times = 0

    def __iter__(self) -> Iterator[GroupLag]:
        self.times += 1
        yield GroupLag("billing", "orders", 2, lag=4)


def test_lags_are_gone_through_when_the_page_is_written() -> None:
    """There may be a hundred thousand, and the snapshot is taken on the event loop."""
    metrics, lags = Metrics(), CountedLags()
    report_group_lag(metrics, lambda: lags)
    snapshot = metrics.snapshot()
    assert lags.times == 0
    for accept in ("", "application/openmetrics-text; version=1.0.0"):
        page, _ = snapshot.page(accept)
        assert b'penstock_group_lag{group="billing",partition="2",topic="orders"} 4' in page
        assert b"# TYPE penstock_group_lag gauge" in page
    assert lags.times == 2


def test_two_nodes_in_one_process_do_not_share_counts() -> None:
    one, other = Metrics(), Metrics()
    BrokerMetrics(one).bytes_in += 10
    BrokerMetrics(other)
    assert other.value("penstock_received_bytes_total") == 0


def test_the_page_is_what_prometheus_parses() -> None:
    metrics = Metrics()
    BrokerMetrics(metrics).latency_of("Fetch").observe(1)
    page, content_type = metrics.snapshot().page("text/plain")
    assert content_type.startswith("text/plain")
    names = {family.name for family in text_string_to_metric_families(page.decode())}
    assert {"penstock_request_seconds", "penstock_connections", "process_resident_memory_bytes"} <= names


def test_open_metrics_on_request() -> None:
    page, content_type = Metrics().snapshot().page("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert page.endswith(b"# EOF\n")


def test_a_snapshot_keeps_the_values_of_its_moment() -> None:
    metrics = Metrics()
    broker = BrokerMetrics(metrics)
    snapshot = metrics.snapshot()
    broker.connections = 3
    assert b"penstock_connections 0.0" in snapshot.page("")[0]
    assert b"penstock_connections 3.0" in metrics.snapshot().page("")[0]


def test_the_journal_is_counted() -> None:
    metrics = Metrics()
    report_journal(metrics, lambda: 7, lambda: 4096)
    assert metrics.value("penstock_journal_commits_total") == 7
    assert metrics.value("penstock_journal_bytes_total") == 4096
