"""The batches as the broker keeps them, read past every client library's convenience."""

from __future__ import annotations

from dataclasses import dataclass

from aiokafka.record import MemoryRecords  # type: ignore[import-untyped]
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.interop.leaders import brokers, leaders

_CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


@dataclass(frozen=True)
class StoredBatch:
    base_offset: int
    record_count: int
    codec: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    log_append_time: bool
    max_timestamp_ms: int
    is_control: bool


def stored_batches(bootstrap: str, topic: str, partition: int = 0, offset: int = 0) -> list[StoredBatch]:
    """Fetch hands out stored bytes as they are, so its answer shows what is on disk."""
    leader = brokers(bootstrap)[leaders(bootstrap.split(",")[0], topic)[partition]]
    with RawConnection(leader) as connection:
        response = connection.ask(requests.fetch(topic, offset, partition=partition))
    row = response.responses[0].partitions[0]
    assert row.error_code == 0, row.error_code
    batches = MemoryRecords(bytes(row.records or b""))
    found = []
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        found.append(
            StoredBatch(
                base_offset=batch.base_offset,
                record_count=batch.next_offset - batch.base_offset,
                codec=_CODECS[batch.compression_type],
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                log_append_time=batch.timestamp_type == 1,
                max_timestamp_ms=batch.max_timestamp,
                is_control=batch.is_control_batch,
            )
        )
    return found
