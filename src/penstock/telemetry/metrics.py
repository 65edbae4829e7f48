"""The metrics of one node. Not the process's: several nodes can live in one test process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


class Metrics:
    """Parts count in plain numbers, and are asked for them when Prometheus asks.

    What a part registers is called on the event loop's thread, so it may read the part's state as it is.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)

    def register(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._registry.register(_Callback(collect))

    def snapshot(self) -> Snapshot:
        return Snapshot(list(self._registry.collect()))

    def value(self, name: str, **labels: str) -> float | None:
        """One sample as a scraper would see it now; None if there is none. For checks and tests."""
        return self._registry.get_sample_value(name, labels)


class Snapshot(Collector):
    """All values at one moment; safe to use from another thread."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families

    def page(self, accept: str) -> tuple[bytes, str]:
        """What a scraper gets and its content type, in the format that its Accept header prefers."""
        encode, content_type = choose_encoder(accept)
        return encode(self), content_type


class _Callback(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def describe(self) -> Iterable[Metric]:
        # Without it the registry would collect at registration, when the part may not be ready.
        return ()

    def collect(self) -> Iterable[Metric]:
        return self._collect()
