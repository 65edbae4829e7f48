"""The partitions of this broker: found by name or id, opened and closed as topics come and go.

Here what storage raises becomes a value, once; callers match on `Refused`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID

from penstock.clock import Clock
from penstock.cluster.core.image import TopicImage
from penstock.disk.interface import Space
from penstock.errors import PenstockError, Problem, Refused
from penstock.replication.flusher import Flusher
from penstock.replication.giving_way import GivingWay
from penstock.replication.key_checks import KeyChecks
from penstock.replication.local_logs import LocalLogs
from penstock.replication.overtaking import Overtaking, check_start
from penstock.replication.partition import NOT_LEADING, Partition
from penstock.replication.record_deletion import RecordDeletion
from penstock.replication.roles import Roles
from penstock.replication.waiters import HANDING_OVER
from penstock.storage.due import sync_is_due
from penstock.storage.log import Appended
from penstock.wire.batch import TRANSACTIONAL, BatchHeader
from penstock.wire.batch_rules import check_produced, check_timestamp

logger = logging.getLogger(__name__)

_BUSY: Final = Refused(
    Problem.BUSY,
    "so many records for compacted topics, which all have to be looked at, came at once that this batch has to be sent "
    "again",
)
_TOO_FEW_REPLICAS: Final = Refused(Problem.NOT_ENOUGH_REPLICAS, "fewer replicas than min.insync.replicas are in sync")
# Of partitions whose replicas are on other brokers.
_ELSEWHERE: Final = Refused(Problem.NOT_LEADER, "this broker has no replica of the partition")

# Why a batch in a transaction may not be appended now; None: it may.
Hold = Callable[[BatchHeader], Refused | None]


class Replicas:
    """All methods run on the event loop's thread; blocking work goes to the pool."""

    def __init__(self, logs: LocalLogs, flusher: Flusher, roles: Roles, pool: ThreadPoolExecutor, clock: Clock) -> None:
        self.logs = logs
        self._flusher = flusher
        self.roles = roles
        self._pool = pool
        self._clock = clock
        # By index; refused where the replicas are elsewhere.
        self._topics: dict[str, list[Partition | Refused]] = {}
        self._names: dict[UUID, str] = {}
        self._key_checks = KeyChecks()
        self.overtaking = Overtaking()
        self.giving_way = GivingWay(self._all, clock)
        self.deletion = RecordDeletion(self.leader, pool, clock)
        # When an append last failed for want of space.
        self.disk_full_ms: int | None = None
        # At the end: all that was taken is on disk.
        self.closed_cleanly = False

    def __iter__(self) -> Iterator[Partition]:
        """Those whose logs can be used now."""
        return (partition for partition in self._all() if partition.settled.is_set())

    def _all(self) -> list[Partition]:
        return [row for rows in self._topics.values() for row in rows if isinstance(row, Partition)]

    # Finding

    def find(self, topic: str, index: int) -> Partition | Refused:
        """Whatever its role is."""
        partitions = self._topics.get(topic)
        if partitions is None or not 0 <= index < len(partitions):
            return Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index} does not exist")
        return partitions[index]

    def find_by_id(self, topic_id: UUID, index: int) -> Partition | Refused:
        name = self._names.get(topic_id)
        if name is None:
            return Refused(Problem.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        return self.find(name, index)

    def leader(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition | Refused:
        """Refused when this broker does not lead it, or when the client's idea of the leader's epoch (-1: it has none)

        differs from ours.
        """
        partition = self.find(topic, index)
        if isinstance(partition, Refused):
            return partition
        refused = epoch_problem(partition, current_leader_epoch)
        return refused or (NOT_LEADING if partition.leadership is None else partition)

    # Appending

    def append(
        self,
        partition: Partition,
        records: memoryview,
        sender: object = None,
        *,
        for_all: bool = False,
        hold: Hold | None = None,
    ) -> Appended | Refused:
        """From a producer: checked in full. `records` must be writable and is stamped in place.

        `sender`: whose share of the event loop's time it takes where the records have to be looked at. `for_all`: with
        acks=all, which needs enough replicas. `hold`: asked of a batch in a transaction when nothing else stands
        against it. Without it such batches are refused.
        """
        settings = partition.log.settings
        now_ms = self._clock.now_ms()
        try:
            header = check_produced(records, settings.max_message_bytes, hold is not None)
            if settings.message_timestamp_type == "CreateTime":
                check_timestamp(
                    header, now_ms, settings.message_timestamp_before_max_ms, settings.message_timestamp_after_max_ms
                )
            if partition.hand_over.under_way is not None:
                partition.log.producer_states.refuse(header, now_ms)
                return HANDING_OVER
            if for_all and partition.lacks_replicas:
                partition.log.producer_states.refuse(header, now_ms)
                return _TOO_FEW_REPLICAS
            if "compact" in settings.cleanup_policy:
                if not self._key_checks.has_time_for(header, sender):
                    partition.log.producer_states.refuse(header, now_ms)
                    return _BUSY
                self._key_checks.check(records, sender)
            if hold is not None and header.attributes & TRANSACTIONAL and (refused := hold(header)) is not None:
                return refused
            return self._append(partition, records, header, now_ms)
        except PenstockError as error:
            if error.problem is Problem.OUT_OF_ORDER_SEQUENCE:
                return self.overtaking.judge(partition, header, error, now_ms)
            return self._refused(partition, error)

    def append_own(self, partition: Partition, records: memoryview, header: BatchHeader) -> Appended | Refused:
        """What this broker built itself, or has checked before it had to wait: not checked again. As with acks=all."""
        now_ms = self._clock.now_ms()
        if partition.lacks_replicas:
            partition.log.producer_states.refuse(header, now_ms)
            return _TOO_FEW_REPLICAS
        try:
            return self._append(partition, records, header, now_ms)
        except PenstockError as error:
            if error.problem is Problem.OUT_OF_ORDER_SEQUENCE:
                return self.overtaking.judge(partition, header, error, now_ms)
            return self._refused(partition, error)

    def _append(self, partition: Partition, records: memoryview, header: BatchHeader, now_ms: int) -> Appended:
        if header.base_sequence > 0 and header.producer_id >= 0:
            check_start(partition, header, now_ms)
        appended = partition.append(records, header, now_ms)
        if sync_is_due(partition.log, now_ms):
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

    # Topics coming, changing and going

    async def open_topic(self, topic: TopicImage) -> None:
        """The topic as it is now: opens what this broker has become a replica of, gives every partition its role, takes

        over the settings, and deletes what has been moved away. Raises PenstockError. Waits for no disk when leaders
        have changed and nothing else.
        """
        if topic.name in self._topics and topic.id not in self._names:
            # Deleted and made anew while this broker did not look.
            await self.drop_topic(topic.name)
        settings = self.logs.settings_of(topic.config)
        rows = self._topics.get(topic.name, [])
        here = [self.roles.node_id in image.replicas for image in topic.partitions]
        gone: list[Partition] = []
        for index, row in enumerate(rows):
            if isinstance(row, Partition):
                if here[index]:
                    self.roles.learn(row, topic.partitions[index].state, topic.partitions[index].version)
                else:
                    rows[index] = _ELSEWHERE
                    gone.append(row)
        await self._close(gone, Refused(Problem.NOT_LEADER, f"this broker is no replica of {topic.name} any more"))
        changed = [row for row in rows if isinstance(row, Partition) and row.log.settings != settings]
        if changed:
            await self.logs.change(topic, settings)
        for partition in changed:
            partition.log.settings = settings
            partition.on_settings_changed(self._clock.now_ms())
            if partition.waits_for_sync:
                self._flusher.request(partition)
        # With flush.policy=acked, what was shown under `os` is on disk before the change is answered.
        await self._flusher.durable([partition for partition in changed if partition.waits_for_sync])
        missing = [i for i, is_here in enumerate(here) if is_here and not (i < len(rows) and _is_open(rows[i]))]
        # All or none: a partition that clients can find takes writes, which nothing may take back.
        logs = await self.logs.open(topic, missing, settings)
        opened = {
            index: Partition(self.roles.node_id, topic.name, topic.id, index, log)
            for index, log in zip(missing, logs, strict=True)
        }
        for index, partition in opened.items():
            partition.was_unsynced = topic.id in self.logs.left_unsynced
            self.roles.learn(partition, topic.partitions[index].state, topic.partitions[index].version)
        kept = rows + [_ELSEWHERE] * (len(topic.partitions) - len(rows))
        self._topics[topic.name] = [opened.get(index, row) for index, row in enumerate(kept)]
        self._names[topic.id] = topic.name
        if gone:
            await self.logs.remove(topic.name, [partition.index for partition in gone])

    async def drop_topic(self, name: str, *, keep: bool = False) -> None:
        """Nobody waits on it any more when this returns; its files are gone or set aside, or go at the next start.

        `keep`: they are set aside for a while.
        """
        rows = self._topics.pop(name, [])
        self._names = {topic_id: known for topic_id, known in self._names.items() if known != name}
        gone = [row for row in rows if isinstance(row, Partition)]
        await self._close(gone, Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"{name} was deleted"), keep=keep)
        await self.logs.remove(name, keep=keep)

    async def _close(self, partitions: Sequence[Partition], refused: Refused, *, keep: bool = False) -> None:
        """Their files are about to go. `keep`: only aside, so they get all that the journal has and then forgets."""
        for partition in partitions:
            partition.stop(refused.problem, refused.text)
            self.roles.close(partition)
            await partition.settled.wait()
        await self._flusher.drained(partitions)
        if keep:
            loop = asyncio.get_running_loop()
            await asyncio.gather(*(loop.run_in_executor(self._pool, each.log.close) for each in partitions))
        for partition in partitions:
            partition.log.abandon()
            self._flusher.forget(partition)

    async def remove_strangers(self, names: Set[str]) -> None:
        """At start, when all topics were shown: what is on disk of others, and of partitions that are elsewhere now."""
        known = {
            name: {row.index for row in self._topics.get(name, ()) if isinstance(row, Partition)} for name in names
        }
        await self.logs.remove_strangers(known)

    # Administration

    @property
    def directory(self) -> str:
        return self.logs.path

    def disk_space(self) -> Space:
        return self.logs.space()

    def brokers_changed(self) -> None:
        self.roles.brokers_changed(self._all())

    def session(self, *, suspended: bool) -> None:
        """With the coordination store: in doubt, or certain again."""
        self.roles.session(self._all(), suspended=suspended)

    async def close(self) -> None:
        """Clean shutdown: everything synced and checkpointed."""
        loop = asyncio.get_running_loop()
        partitions = self._all()
        for partition in partitions:
            if partition.leadership is None:
                self.roles.close(partition)
            await partition.settled.wait()
        await self._flusher.drained(partitions)
        for partition in partitions:
            partition.stop(Problem.NOT_LEADER, "this broker is stopping")
            self.roles.close(partition)
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


def epoch_problem(partition: Partition, current_leader_epoch: int) -> Refused | None:
    """If a client's idea of the leader's epoch (-1: it has none) differs from ours."""
    if current_leader_epoch in (-1, partition.leader_epoch):
        return None
    if current_leader_epoch < partition.leader_epoch:
        return Refused(Problem.FENCED_LEADER_EPOCH, f"epoch {current_leader_epoch} is over: refresh the metadata")
    return Refused(Problem.UNKNOWN_LEADER_EPOCH, f"epoch {current_leader_epoch} is not known here yet")


def _is_open(row: Partition | Refused) -> bool:
    return isinstance(row, Partition)
