"""The rows of a range, gathered from batches until they are worth an Arrow batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.arrow_batches import ArrowBatches
from penstock.spark.core.failures import ClientFailure
from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.row_columns import Column, wanted_bits
from penstock.spark.record_columns import record_columns
from penstock.units import MIB
from penstock.wire.batch import HEADER_BYTES, BatchHeader, crc_of
from penstock.wire.compression import decompress
from penstock.wire.varints import MalformedRecord

# Enough that the cost of a batch is nothing beside that of its rows; little enough to be held several times.
MAX_ROWS = 64 * 1024
MAX_DATA_BYTES = 16 * MIB
# What one compressed batch may become: a hundred times what brokers take by default.
MAX_UNPACKED_BYTES = 256 * MIB


class RangeRows:
    """One Arrow batch has MAX_ROWS and MAX_DATA_BYTES at most, or what a single batch of records has beyond that."""

    def __init__(self, wanted: OffsetRange, columns: Sequence[Column]) -> None:
        self._wanted = wanted
        self._columns = record_columns(wanted_bits(columns))
        self._arrow = ArrowBatches(columns, wanted.topic_partition)
        # How much larger batches are when they are unpacked, as far as that is known.
        self._ratio = 0.0

    def add(
        self, records: memoryview, batches: Sequence[tuple[BatchHeader, int, int]], position: int
    ) -> Iterator[pa.RecordBatch]:
        """Copies the records from `position` on. Raises ClientFailure for a batch that is damaged."""
        columns, end = self._columns, self._wanted.end
        for header, at, behind in batches:
            batch = records[at:behind]
            try:
                if crc_of(batch) != header.crc:
                    raise MalformedRecord("it does not match its CRC")
                payload = self._payload(batch, header)
                if columns.data_bytes + len(payload) > MAX_DATA_BYTES and columns.rows:
                    yield from self.rest()
                columns.append(payload, header, position, end)
            except (MalformedRecord, PenstockError) as error:
                where = f"the batch at offset {header.base_offset} of {self._wanted.topic_partition}"
                raise ClientFailure(f"{where} cannot be read: {error}") from error
            if columns.rows >= MAX_ROWS:
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What was gathered so far."""
        if self._columns.rows:
            made = self._arrow.batch(self._columns.take())
            for start in range(0, made.num_rows, MAX_ROWS):
                yield made.slice(start, MAX_ROWS)

    def _payload(self, batch: memoryview, header: BatchHeader) -> memoryview | bytes | bytearray:
        records = batch[HEADER_BYTES:]
        if not header.compression or (not header.record_count and not records):
            # The second is what compaction leaves of a batch, whose compression says nothing.
            return records
        expected_bytes = int(self._ratio * len(records))
        unpacked = decompress(
            header.compression, records, limit_bytes=MAX_UNPACKED_BYTES, expected_bytes=expected_bytes
        )
        # Batches of a topic are alike; a little more room costs less than a second run.
        self._ratio = 1.25 * len(unpacked) / max(1, len(records))
        return unpacked
