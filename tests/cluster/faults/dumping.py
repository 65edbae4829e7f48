"""The logs of all replicas as events, read from their files without the brokers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.faults.payload import name_of
from tests.cluster.history.events import Event, Replica, Stored, StoredRecord
from tests.cluster.history.recording import now_ns

from penstock.disk.local import LocalDisk
from penstock.storage.core.log_files import LOG_SUFFIX
from penstock.storage.core.scan import ANY_OFFSET, valid_batches
from penstock.units import MIB
from penstock.wire.batch import BatchHeader
from penstock.wire.records import records_of

MAX_RECORDS_BYTES = 64 * MIB


def dumped_replica(
    data_dir: Path,
    broker: int,
    topic: str,
    partition: int,
    *,
    high_watermark: int,
    in_sync: bool,
    compacted: bool = False,
) -> Iterator[Event]:
    """Nothing must be written meanwhile. A broker that has no such directory has an empty log, which is a finding."""
    segments = sorted((data_dir / "topics" / topic / f"partition-{partition}").glob(f"*{LOG_SUFFIX}"))
    yield Replica(
        at_ns=now_ns(),
        topic=topic,
        partition=partition,
        broker=broker,
        log_start=int(segments[0].stem.partition("-")[0]) if segments else 0,
        high_watermark=high_watermark,
        in_sync=in_sync,
        compacted=compacted,
    )
    for segment in segments:
        file = LocalDisk().open(str(segment))
        try:
            for position, header in valid_batches(file, 0, file.size(), ANY_OFFSET, gap_at_end=True):
                yield _stored(broker, topic, partition, header, file.read(position, header.size))
        finally:
            file.close()


def _stored(broker: int, topic: str, partition: int, header: BatchHeader, batch: bytes) -> Stored:
    records: tuple[StoredRecord, ...] = ()
    if not header.is_control:
        records = tuple(
            StoredRecord(
                record.offset,
                None if record.value is None else name_of(record.value),
                None if record.key is None else record.key.decode(errors="replace"),
            )
            for record in records_of(batch, limit_bytes=MAX_RECORDS_BYTES)
        )
    return Stored(
        at_ns=now_ns(),
        topic=topic,
        partition=partition,
        broker=broker,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        digest=hashlib.sha256(batch).hexdigest()[:16],
        records=records,
    )
