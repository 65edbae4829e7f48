"""How far consumer groups are behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, cast

from prometheus_client import Metric
from prometheus_client.samples import Sample

from penstock.telemetry.metrics import Metrics

_NAME = "penstock_group_lag"


class GroupLag(NamedTuple):
    """Records between a group's committed offset and the high watermark of one partition."""

    group: str
    topic: str
    partition: int
    lag: int


class _Samples:
    """Made when the page is written, in a thread: a hundred thousand would hold up the event loop."""

    def __init__(self, rows: Iterable[GroupLag]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[Sample]:
        for row in self._rows:
            yield Sample(_NAME, {"group": row.group, "topic": row.topic, "partition": str(row.partition)}, row.lag)


def report_group_lag(metrics: Metrics, lags: Callable[[], Iterable[GroupLag]]) -> None:
    """`lags` is asked at each scrape; what it returns is iterated in another thread."""

    def collect() -> Iterator[Metric]:
        family = Metric(_NAME, "Records between a group's committed offset and the high watermark.", "gauge")
        family.samples = cast(list[Sample], _Samples(lags()))
        yield family

    metrics.register(collect)
