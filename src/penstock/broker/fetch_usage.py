"""What consumers are served, as their tenants' usage. Followers are no consumers, and internal topics are nobody's."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.fetch_read import Row
from penstock.cluster.core.image import INTERNAL_TOPICS
from penstock.telemetry.usage import NO_TOPIC, ApiUsage
from penstock.wire.batch import count_records
from penstock.wire.stored_batches import StoredBatches


class FetchUsage:
    def __init__(self, usage: ApiUsage) -> None:
        self._usage = usage

    def asked(self, tenant: str, rows: Sequence[Row]) -> None:
        """A request is counted once, so it goes with a topic only if it has no other."""
        partition = rows[0].partition if rows else None
        topic = NO_TOPIC if partition is None else partition.topic
        for row in rows:
            if row.partition is None or row.partition.topic != topic:
                topic = NO_TOPIC
                break
        if topic not in INTERNAL_TOPICS:
            self._usage.count(tenant, topic, 0, 0, 1)

    def served(self, tenant: str, rows: Sequence[Row]) -> None:
        """What is in the answer, also if its client leaves before it has come."""
        for row in rows:
            if row.records and row.partition is not None and row.partition.topic not in INTERNAL_TOPICS:
                messages = size_bytes = 0
                first_offset = row.wanted.fetch_offset
                for data in row.records:
                    if isinstance(data, StoredBatches):
                        messages += data.records
                    else:
                        messages += count_records(data, first_offset)
                    size_bytes += len(data)
                    # Only the first begins in the middle of a batch.
                    first_offset = 0
                self._usage.count(tenant, row.partition.topic, messages, size_bytes, 0)
