"""Options of the source and the sink that a pipeline sets itself: other values would make its ledger a lie."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.pipelines.core.refusal import PipelineRefused

OF_SOURCE = frozenset(
    name.lower()
    for name in (
        "kafka.bootstrap.servers",
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "includeHeaders",
    )
)
OF_SINK = frozenset(
    name.lower()
    for name in ("kafka.bootstrap.servers", "topic", "delivery", "txnAppId", "txnVersion", "includeTimestamp")
)


def refuse_own(names: Iterable[str], own: frozenset[str]) -> None:
    """Names count without their case, as Spark takes them."""
    taken = sorted(name for name in names if name.lower() in own)
    if taken:
        raise PipelineRefused(f"{', '.join(taken)}: the pipeline sets that itself, by its own arguments")
