"""How much a micro-batch takes of what there is: the rules of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.spark.core.topic_partition import TopicPartition
from penstock.units import MINUTE_MS


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Offsets, over all partitions. With fewer than `min_offsets` nothing is read until `max_delay_ms` have passed."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * MINUTE_MS

    def is_too_early(self, available: int, since_last_batch_ms: int | None) -> bool:
        """`since_last_batch_ms` is None before the first batch, which waits for nothing."""
        if self.min_offsets is None or since_last_batch_ms is None:
            return False
        return available < self.min_offsets and since_last_batch_ms < self.max_delay_ms

    def limited(
        self, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """`ends`, moved back so that each partition gets its share of `max_offsets` by what it has.

        Every partition with something new gets at least one, so a few more than `max_offsets` are possible. A partition
        without a begin, or with one behind its end, keeps its end: planning says what is wrong with it.
        """
        sizes = {tp: end - begins[tp] for tp, end in ends.items() if tp in begins and end > begins[tp]}
        total = sum(sizes.values())
        if self.max_offsets is None or total <= self.max_offsets:
            return dict(ends)
        shares = {tp: max(1, self.max_offsets * size // total) for tp, size in sizes.items()}
        return {tp: min(end, begins[tp] + shares[tp]) if tp in shares else end for tp, end in ends.items()}
