"""Rows into the records of batches, partition by partition. The kernel does the same where it was built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.spark.core.murmur import murmur2
from penstock.spark.core.sink_rows import invalid_partition, too_large
from penstock.spark.sink_columns import FilledBatch, RowRefused, SinkColumns
from penstock.wire.varints import put_varint

# What a batch has around its records.
_BATCH_BYTES = 61


class PureBatchFilling:
    """Of one topic. A batch is full when it has `batch_bytes`, or the next record would make it more than that.

    Records with a key go where Kafka's own partitioner sends them. Those without go to one partition after another, a
    batch each, so that batches are large; the first is `first_partition`.
    """

    def __init__(self, partitions: int, batch_bytes: int, max_request_bytes: int, first_partition: int) -> None:
        self._partitions = partitions
        self._batch_bytes = batch_bytes
        self._max_request_bytes = max_request_bytes
        self._sticky = first_partition % partitions
        self._open: dict[int, _OpenBatch] = {}
        self.held_bytes = 0

    def limit(self, batch_bytes: int) -> None:
        """From now on: the topic takes no larger ones."""
        self._batch_bytes = min(batch_bytes, self._batch_bytes)

    def append(self, rows: SinkColumns, now_ms: int) -> list[FilledBatch]:
        """Those that are full now. Rows without a timestamp have `now_ms`. Raises RowRefused."""
        full: list[FilledBatch] = []
        count = len(rows.values)
        for key, value, partition, timestamp_ms, headers in zip(
            _values(rows.keys, count),
            rows.values.to_pylist(),
            _values(rows.partitions, count),
            _values(rows.timestamps_ms, count),
            _values(rows.headers, count),
            strict=True,
        ):
            chosen = self._partition(key, partition)
            self._put(chosen, key, value, now_ms if timestamp_ms is None else timestamp_ms, headers or (), full)
        return full

    def take(self) -> list[FilledBatch]:
        """All that is left."""
        left = [batch.filled(partition) for partition, batch in self._open.items()]
        self._open.clear()
        self.held_bytes = 0
        return left

    def _partition(self, key: bytes | None, wanted: int | None) -> int:
        if wanted is not None:
            if not 0 <= wanted < self._partitions:
                raise RowRefused(invalid_partition(wanted, self._partitions))
            return wanted
        return self._sticky if key is None else murmur2(key) % self._partitions

    def _put(
        self,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Sequence[dict[str, Any]],
        full: list[FilledBatch],
    ) -> None:
        batch = self._open.get(partition)
        if batch is None:
            batch = self._open[partition] = _OpenBatch(timestamp_ms)
        record = batch.record(key, value, timestamp_ms, headers)
        size = len(record) + _BATCH_BYTES
        if size > self._max_request_bytes:
            raise RowRefused(too_large(size, self._max_request_bytes))
        if batch.count and size + len(batch.payload) > self._batch_bytes:
            full.append(self._close(partition))
            if partition == self._sticky:
                self._sticky = (partition + 1) % self._partitions
            # Its deltas are other ones in another batch.
            batch = self._open[partition] = _OpenBatch(timestamp_ms)
            record = batch.record(key, value, timestamp_ms, headers)
        batch.add(record, timestamp_ms)
        self.held_bytes += len(record)

    def _close(self, partition: int) -> FilledBatch:
        filled = self._open.pop(partition).filled(partition)
        self.held_bytes -= len(filled.payload)
        return filled


class _OpenBatch:
    def __init__(self, base_timestamp_ms: int) -> None:
        self.payload = bytearray()
        self.count = 0
        self._base_timestamp_ms = base_timestamp_ms
        self._max_timestamp_ms = base_timestamp_ms

    def record(
        self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Sequence[dict[str, Any]]
    ) -> bytearray:
        body = bytearray(1)
        put_varint(body, timestamp_ms - self._base_timestamp_ms)
        put_varint(body, self.count)
        _put_bytes(body, key)
        _put_bytes(body, value)
        put_varint(body, len(headers))
        for header in headers:
            name = None if header is None else header["key"]
            if name is None:
                raise RowRefused("A header has no key")
            _put_bytes(body, name.encode())
            _put_bytes(body, header["value"])
        record = bytearray()
        put_varint(record, len(body))
        return record + body

    def add(self, record: bytearray, timestamp_ms: int) -> None:
        self.payload += record
        self.count += 1
        self._max_timestamp_ms = max(self._max_timestamp_ms, timestamp_ms)

    def filled(self, partition: int) -> FilledBatch:
        return FilledBatch(partition, self.payload, self.count, self._base_timestamp_ms, self._max_timestamp_ms)


def _values(column: Any, count: int) -> list[Any]:
    return [None] * count if column is None else list(column.to_pylist())


def _put_bytes(body: bytearray, value: bytes | None) -> None:
    if value is None:
        body.append(1)
    else:
        put_varint(body, len(value))
        body += value
