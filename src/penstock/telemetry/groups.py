"""How far consumer groups are behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from penstock.telemetry.metrics import Metrics


class GroupLag(NamedTuple):
    """Records between a group's committed offset and the high watermark of one partition."""

    group: str
    topic: str
    partition: int
    lag: int


def report_group_lag(metrics: Metrics, lags: Callable[[], Iterable[GroupLag]]) -> None:
    """`lags` is asked at each scrape."""

    def collect() -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "penstock_group_lag",
            "Records between a group's committed offset and the high watermark.",
            labels=["group", "topic", "partition"],
        )
        for row in lags():
            family.add_metric([row.group, row.topic, str(row.partition)], row.lag)
        yield family

    metrics.register(collect)
