"""Which offsets a micro-batch holds, from where it and the one before it end."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.pipelines.core.ledger import Range
from penstock.spark.core.source_offset import SourceOffset
from penstock.spark.core.topic_partition import TopicPartition


def batch_ranges(
    before: SourceOffset | None, end: SourceOffset, starts: Mapping[TopicPartition, int]
) -> tuple[Range, ...]:
    """`starts` are of a query's first batch, which has none before it, unless its end says where it began: they may be

    other ones when it is done again. A partition that is new later begins at 0.
    """
    begins = (end.begins or starts) if before is None else before.offsets
    return tuple(
        Range(*partition, begins.get(partition, 0), offset)
        for partition, offset in sorted(end.offsets.items())
        if begins.get(partition, 0) < offset
    )
