"""What the log counts: sizes, offsets, flushes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from penstock.telemetry.histogram import Histogram
from penstock.telemetry.metrics import Metrics


class LogSize(NamedTuple):
    topic: str
    partition: int
    size_bytes: int
    start_offset: int
    end_offset: int


def report_journal(metrics: Metrics, commits: Callable[[], int], written_bytes: Callable[[], int]) -> None:
    """Both are asked at each scrape."""

    def collect() -> Iterator[Metric]:
        yield CounterMetricFamily(
            "penstock_journal_commits", "Syncs of the journal, each of which made many appends durable.", commits()
        )
        yield CounterMetricFamily("penstock_journal_bytes", "Bytes written to the journal.", written_bytes())

    metrics.register(collect)


class LogMetrics:
    def __init__(self, metrics: Metrics, sizes: Callable[[], Iterable[LogSize]]) -> None:
        """`sizes` is asked at each scrape."""
        # Seconds per fdatasync, of a log or of the journal.
        self.flush = Histogram()
        self._sizes = sizes
        metrics.register(self._collect)

    def _collect(self) -> Iterator[Metric]:
        yield HistogramMetricFamily(
            "penstock_flush_seconds",
            "Time of one fdatasync of a log or of the journal.",
            self.flush.buckets(),
            self.flush.sum,
        )
        labels = ["topic", "partition"]
        size = GaugeMetricFamily("penstock_log_bytes", "Size of a partition's log.", labels=labels)
        start = GaugeMetricFamily("penstock_log_start_offset", "First offset that can be read.", labels=labels)
        end = GaugeMetricFamily("penstock_log_end_offset", "Offset of the next record.", labels=labels)
        for row in self._sizes():
            key = [row.topic, str(row.partition)]
            size.add_metric(key, row.size_bytes)
            start.add_metric(key, row.start_offset)
            end.add_metric(key, row.end_offset)
        yield from (size, start, end)
