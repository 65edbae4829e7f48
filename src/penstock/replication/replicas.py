"""The partitions of this broker: found by name or id, opened and closed as topics come and go.

Here what storage raises becomes a value, once; callers match on `Refused`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from penstock.clock import Clock
from penstock.cluster.core.image import INTERNAL_TOPICS, TopicImage
from penstock.config.log import LogSettings
from penstock.disk.interface import Space
from penstock.errors import PenstockError, Problem, Refused
from penstock.replication.flusher import Flusher
from penstock.replication.key_checks import KeyChecks
from penstock.replication.partition import Partition
from penstock.storage.directories import PartitionDirectories
from penstock.storage.log import Appended, Log
from penstock.wire.batch import BatchHeader
from penstock.wire.batch_rules import check_produced, check_timestamp

logger = logging.getLogger(__name__)

_BUSY = Refused(
    Problem.BUSY,
    "so many records for compacted topics, which all have to be looked at, came at once that this batch has to be sent "
    "again",
)


class Replicas:
    """All methods run on the event loop's thread; blocking work goes to the pool."""

    def __init__(
        self,
        directories: PartitionDirectories,
        defaults: LogSettings,
        flusher: Flusher,
        pool: ThreadPoolExecutor,
        upkeep: ThreadPoolExecutor,
        clock: Clock,
    ) -> None:
        """`upkeep` has one thread, so that what is begun in it is done in order."""
        self._directories = directories
        self._defaults = defaults
        self._flusher = flusher
        self._pool = pool
        self._upkeep = upkeep
        self._clock = clock
        self._topics: dict[str, list[Partition]] = {}
        self._names: dict[UUID, str] = {}
        self._key_checks = KeyChecks()
        # When an append last failed for want of space.
        self.disk_full_ms: int | None = None
        # At the end: all that was taken is on disk.
        self.closed_cleanly = False

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._topics.values():
            yield from partitions

    # Finding

    def find(self, topic: str, index: int) -> Partition | Refused:
        partitions = self._topics.get(topic)
        if partitions is None or not 0 <= index < len(partitions):
            return Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index} does not exist")
        return partitions[index]

    def find_by_id(self, topic_id: UUID, index: int) -> Partition | Refused:
        name = self._names.get(topic_id)
        if name is None:
            return Refused(Problem.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        return self.find(name, index)

    def leader(self, topic: str, index: int, current_leader_epoch: int) -> Partition | Refused:
        """Like `find`, refused when the client's idea of the leader's epoch (-1: it has none) differs from ours."""
        return _of_epoch(self.find(topic, index), current_leader_epoch)

    def leader_by_id(self, topic_id: UUID, index: int, current_leader_epoch: int) -> Partition | Refused:
        return _of_epoch(self.find_by_id(topic_id, index), current_leader_epoch)

    # Appending

    def append(self, partition: Partition, records: memoryview, sender: object = None) -> Appended | Refused:
        """From a producer: checked in full. `records` must be writable and is stamped in place.

        `sender`: whose share of the event loop's time it takes where the records have to be looked at.
        """
        settings = partition.log.settings
        now_ms = self._clock.now_ms()
        try:
            header = check_produced(records, settings.max_message_bytes)
            if settings.message_timestamp_type == "CreateTime":
                check_timestamp(
                    header, now_ms, settings.message_timestamp_before_max_ms, settings.message_timestamp_after_max_ms
                )
            if "compact" in settings.cleanup_policy:
                if not self._key_checks.has_time_for(header, sender):
                    partition.log.producer_states.refuse(header, now_ms)
                    return _BUSY
                self._key_checks.check(records, sender)
            return self._append(partition, records, header, now_ms)
        except PenstockError as error:
            return self._refused(partition, error)

    def append_own(self, partition: Partition, records: memoryview, header: BatchHeader) -> Appended | Refused:
        """From this broker itself, for internal topics: built here, so not checked again."""
        try:
            return self._append(partition, records, header, self._clock.now_ms())
        except PenstockError as error:
            return self._refused(partition, error)

    def _append(self, partition: Partition, records: memoryview, header: BatchHeader, now_ms: int) -> Appended:
        appended = partition.append(records, header, now_ms)
        if partition.log.sync_is_due(now_ms):
            self._flusher.request(partition)
        return appended

    def _refused(self, partition: Partition, error: PenstockError) -> Refused:
        if partition.log.failure is not None:
            # Those who wait for what was appended before would wait for ever.
            partition.stop(Problem.STORAGE_FAILED, partition.log.failure)
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            self.disk_full_ms = self._clock.now_ms()
        return Refused.by(error)

    # Topics coming and going

    async def open_topic(self, topic: TopicImage) -> None:
        """Opens what is missing of the topic's partitions and takes over its settings. Raises PenstockError."""
        settings = self._defaults.overridden_by(topic.config)
        partitions = self._topics.get(topic.name, [])
        for partition in partitions:
            partition.log.settings = settings
            partition.on_settings_changed()
            if partition.waits_for_sync:
                self._flusher.request(partition)
        # With flush.policy=acked, what was shown under `os` is on disk before the change is answered.
        await self._flusher.durable([partition for partition in partitions if partition.waits_for_sync])
        missing = range(len(partitions), len(topic.partitions))
        # All or none: a partition that clients can find takes writes, which nothing may take back.
        loop = asyncio.get_running_loop()
        logs = await loop.run_in_executor(self._pool, self._open_logs, topic, missing, settings)
        opened = [
            Partition(topic.name, topic.id, index, log, topic.partitions[index].leader_epoch)
            for index, log in zip(missing, logs, strict=True)
        ]
        self._topics[topic.name] = partitions + opened
        self._names[topic.id] = topic.name

    def _open_logs(self, topic: TopicImage, indexes: range, settings: LogSettings) -> list[Log]:
        try:
            paths = self._directories.claim(topic.name, topic.id, indexes)
        except OSError as error:
            text = f"the directories of {topic.name} cannot be made: {error}"
            raise PenstockError(Problem.STORAGE_FAILED, text) from error
        logs: list[Log] = []
        try:
            for index, path in zip(indexes, paths, strict=True):
                share = self._flusher.journal.share_for(topic.id, index)
                log = Log.open(self._directories.disk, path, settings, now_ms=self._clock.now_ms(), share=share)
                logs.append(log)
                if log.recovery.noteworthy:
                    what = str(log.recovery)
                    logger.warning("log.recovered", extra={"topic": topic.name, "partition": index, "what": what})
        except PenstockError:
            for log in logs:
                log.abandon()
            raise
        return logs

    async def drop_topic(self, name: str) -> None:
        """Nobody waits on it any more when this returns; its files are gone or set aside, or go at the next start."""
        partitions = self._topics.pop(name, [])
        for partition in partitions:
            self._names.pop(partition.topic_id, None)
            partition.stop(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"{name} was deleted")
        await self._flusher.drained(partitions)
        for partition in partitions:
            partition.log.abandon()
            self._flusher.forget(partition)
        try:
            # Behind all that retention and compaction have begun there: they know files by their names, which a topic
            # that is made anew has too.
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._upkeep, self._directories.remove_topic, name)
        except OSError as error:
            logger.warning("topic.files.kept", extra={"topic": name, "why": str(error), "do": "see to the disk"})

    async def remove_strangers(self, names: Set[str]) -> None:
        """At start: what topics left behind that were deleted while this node was down."""
        await asyncio.get_running_loop().run_in_executor(self._pool, self._remove_strangers, names)

    def _remove_strangers(self, names: Set[str]) -> None:
        for topic in {directory.topic for directory in self._directories.existing()} - names:
            self._directories.remove_topic(topic)
        self._directories.sweep()

    # Administration

    async def delete_records(self, topic: str, index: int, before_offset: int) -> int | Refused:
        """The partition's new start offset; -1 stands for the high watermark."""
        partition = self.find(topic, index)
        if isinstance(partition, Refused):
            return partition
        if topic in INTERNAL_TOPICS:
            return Refused(Problem.INVALID_TOPIC_NAME, f"{topic} is internal: only the broker deletes from it")
        if "delete" not in partition.log.settings.cleanup_policy:
            text = f"{topic} is compacted: delete a key by writing null for it, or add delete to its cleanup.policy"
            return Refused(Problem.POLICY_VIOLATION, text)
        wanted = partition.high_watermark if before_offset == -1 else before_offset
        if not 0 <= wanted <= partition.high_watermark:
            text = f"offset {wanted} is not between 0 and the high watermark {partition.high_watermark}"
            return Refused(Problem.OFFSET_OUT_OF_RANGE, text)
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, partition.log.write_start, wanted)
        except PenstockError as error:
            return Refused.by(error)
        return partition.log.move_start(wanted)

    @property
    def directory(self) -> str:
        return self._directories.path

    def disk_space(self) -> Space:
        return self._directories.space()

    async def close(self) -> None:
        """Clean shutdown: everything synced and checkpointed."""
        loop = asyncio.get_running_loop()
        partitions = list(self)
        await self._flusher.drained(partitions)
        for partition in partitions:
            partition.stop(Problem.NOT_LEADER, "this broker is stopping")
        # Together: the file system serves syncs that come at once with one commit of its journal.
        closing = [loop.run_in_executor(self._pool, partition.log.close) for partition in partitions]
        failures = [
            (partition, why)
            for partition, why in zip(partitions, await asyncio.gather(*closing), strict=True)
            if why is not None
        ]
        for partition, why in failures:
            where = {"topic": partition.topic, "partition": partition.index}
            logger.error(
                "log.closed.unclean", extra={**where, "why": why, "do": "check the disk before the next start"}
            )
        self.closed_cleanly = not failures
        self._topics.clear()


def _of_epoch(partition: Partition | Refused, current_leader_epoch: int) -> Partition | Refused:
    if isinstance(partition, Refused) or current_leader_epoch in (-1, partition.leader_epoch):
        return partition
    if current_leader_epoch < partition.leader_epoch:
        return Refused(Problem.FENCED_LEADER_EPOCH, f"epoch {current_leader_epoch} is over: refresh the metadata")
    return Refused(Problem.UNKNOWN_LEADER_EPOCH, f"epoch {current_leader_epoch} is not known here yet")
