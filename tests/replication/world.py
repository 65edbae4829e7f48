"""The partitions of a broker on a disk in memory, without a broker around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk
from tests.replication.cluster_stand_in import NoController, NoFetchers
from tests.storage.batches import headers_in

from penstock.clock import SteppedClock
from penstock.cluster.core.image import BrokerImage, Image, PartitionImage, TopicImage
from penstock.config.log import LogSettings
from penstock.config.replication import ReplicationSettings
from penstock.coordination.paths import PartitionState
from penstock.errors import Refused
from penstock.replication.flusher import Flusher
from penstock.replication.local_logs import LocalLogs
from penstock.replication.partition import Partition
from penstock.replication.record_deletion import Wanted
from penstock.replication.replicas import Replicas
from penstock.replication.roles import Roles
from penstock.storage.directories import PartitionDirectories
from penstock.storage.journal import Journal
from penstock.storage.journal_file import FILE_BYTES
from penstock.storage.log import Appended
from penstock.wire.records import Record, build_batch, records_of

DATA = "/data"
WAIT_S = 10.0


@dataclass
class World:
    disk: FaultyDisk
    clock: SteppedClock
    pool: ThreadPoolExecutor
    upkeep: ThreadPoolExecutor
    flusher: Flusher
    replicas: Replicas

    async def partition(
        self, topic: str = "orders", config: Mapping[str, str] | None = None, *, as_id: UUID | None = None
    ) -> Partition:
        """The only one of this topic."""
        image = PartitionImage(PartitionState(leader=1, leader_epoch=0, replicas=(1,), isr=(1,)), version=0)
        await self.replicas.open_topic(TopicImage(topic, as_id or topic_id(topic), (image,), config or {}))
        found = self.replicas.find(topic, 0)
        assert isinstance(found, Partition)
        return found

    def write(self, partition: Partition, *values: bytes) -> Appended | Refused:
        """One batch, as a producer would send it."""
        now_ms = self.clock.now_ms()
        batch = build_batch([Record(place, now_ms, b"key", value) for place, value in enumerate(values)])
        return self.replicas.append(partition, memoryview(batch))


# One for each log that a test holds up, and one for the others.
SYNC_THREADS = 4


@asynccontextmanager
async def world(
    memory: PowerCutDisk, settings: LogSettings | None = None, *, journal_bytes: int = FILE_BYTES
) -> AsyncIterator[World]:
    """One life of a process, ended cleanly.

    Every log syncs its own files until `flusher.journal.start` tells that all are open.
    """
    disk, clock = FaultyDisk(memory), SteppedClock()
    with ThreadPoolExecutor(SYNC_THREADS) as pool, ThreadPoolExecutor(1) as upkeep:
        journal = Journal.open(disk, DATA, file_bytes=journal_bytes)
        flusher = Flusher(pool, asyncio.get_running_loop(), lambda seconds: None, clock, journal, SYNC_THREADS)
        image = Image("cluster", 1, [BrokerImage(1, "", 0, None)])
        roles = Roles(image, NoController(), NoFetchers(), ReplicationSettings(), clock)
        logs = LocalLogs(PartitionDirectories(disk, DATA), settings or LogSettings(), journal, pool, upkeep, clock)
        replicas = Replicas(logs, flusher, roles, pool, clock)
        try:
            yield World(disk, clock, pool, upkeep, flusher, replicas)
        finally:
            disk.syncs_may_run.set()
            disk.removals_may_run.set()
            disk.directories_may_go.set()
            await replicas.close()
            flusher.close()
            journal.close()


def topic_id(topic: str) -> UUID:
    return UUID(bytes=topic.encode().ljust(16, b"\0")[:16])


def values_in(partition: Partition, start: int = 0) -> list[bytes]:
    """What a reader can see."""
    data = bytes(partition.read(start, 2**20, at_least_one=True).load())
    position, found = 0, []
    for header in headers_in(data):
        batch = memoryview(data)[position : position + header.size]
        found += [bytes(record.value or b"") for record in records_of(batch, limit_bytes=2**20)]
        position += header.size
    return found


async def deleted(replicas: Replicas, topic: str, before_offset: int, timeout_ms: int = 0) -> int | Refused:
    """From its first partition."""
    (outcome,) = await replicas.deletion.delete([Wanted(topic, 0, before_offset)], timeout_ms)
    return outcome
