"""What a leader's answer does to the log of a follower. The core says what; here it is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from kio.schema.errors import ErrorCode

from penstock.clock import Clock
from penstock.errors import PenstockError, Problem
from penstock.replication.core.following import Append, Fetch, Fetched, Following, Restart, Truncate
from penstock.replication.flusher import Flusher
from penstock.replication.partition import Partition
from penstock.replication.settling import Settling
from penstock.storage.core.leader_epochs import EpochEnd
from penstock.storage.due import sync_is_due
from penstock.storage.holes import keep_holes
from penstock.storage.replica_append import append_replicated
from penstock.storage.restart import restart_at
from penstock.wire.batch import BatchHeader
from penstock.wire.fetch_answer import PartitionAnswer
from penstock.wire.received_batches import received_batches

logger = logging.getLogger(__name__)

# Those that mean something to a follower; after all others it tries again.
_PROBLEMS = {
    ErrorCode.fenced_leader_epoch: Problem.FENCED_LEADER_EPOCH,
    ErrorCode.offset_out_of_range: Problem.OFFSET_OUT_OF_RANGE,
}


class FollowerLogs:
    def __init__(
        self,
        flusher: Flusher,
        settling: Settling,
        pool: ThreadPoolExecutor,
        clock: Clock,
        when_settled: Callable[[Partition], None],
    ) -> None:
        self._flusher = flusher
        self._settling = settling
        self._pool = pool
        self._clock = clock
        self._when_settled = when_settled
        # Whose start is being written down, and where the leader's is by now: it says so once.
        self._moving: dict[Partition, int] = {}
        # What was said of a partition last: it is tried again and again, and once is enough said.
        self._complaints: dict[Partition, str] = {}

    def cut(self, partition: Partition, offset: int) -> None:
        where = {"topic": partition.topic, "partition": partition.index, "offset": offset}
        logger.warning("log.cut", extra={**where, "why": "a power cut took records there that were never synced"})
        self._settle(partition, partial(partition.log.truncate_to, offset))

    def keep_holes(self, partition: Partition) -> None:
        self._settle(partition, partial(keep_holes, partition.log))

    def silent(self, partition: Partition, following: Following, fetch: Fetch) -> None:
        """There was nothing new about it."""
        if partition.following is following:
            known = Fetched(following.high_watermark, partition.log.start_offset)
            step = following.on_fetched(fetch, known)
            # Most partitions most of the time: with nothing to append or to learn.
            if not isinstance(step, Append):
                self._heed(partition, following, step, _NO_RECORDS, ())

    def answered(self, partition: Partition, following: Following, fetch: Fetch, row: PartitionAnswer) -> bool:
        """False: it has to be tried again, but not at once. The records are not needed any more when it returns."""
        if partition.following is not following or not partition.settled.is_set():
            return True
        now_ms = self._clock.now_ms()
        if row.error_code is not ErrorCode.none:
            self._refused(partition, following, fetch, row, now_ms)
            return False
        try:
            headers = received_batches(row.records)
        except PenstockError as error:
            self._complain(partition, error)
            following.on_refused(fetch, None, now_ms)
            return False
        parting = row.diverging_epoch
        fetched = Fetched(row.high_watermark, row.log_start_offset, None if parting is None else EpochEnd(*parting))
        return self._heed(partition, following, following.on_fetched(fetch, fetched), row.records, headers)

    def _refused(
        self, partition: Partition, following: Following, fetch: Fetch, row: PartitionAnswer, now_ms: int
    ) -> None:
        outside = following.on_refused(fetch, _PROBLEMS.get(row.error_code, Problem.NOT_LEADER), now_ms)
        # Beside this error a leader says where its log starts and, in the place of the high watermark, where it ends.
        if outside and row.log_start_offset >= 0:
            restart = following.on_leader_range(fetch, row.log_start_offset, row.high_watermark)
            if restart is not None:
                self._restart(partition, restart)

    def _restart(self, partition: Partition, restart: Restart) -> None:
        where = {"topic": partition.topic, "partition": partition.index, "offset": restart.offset}
        logger.warning("log.restarted", extra={**where, "why": "the leader has nothing that joins it"})
        self._settle(partition, partial(restart_at, partition.log, restart.offset))

    def _heed(
        self,
        partition: Partition,
        following: Following,
        step: Append | Truncate | Restart | None,
        records: memoryview,
        headers: Sequence[BatchHeader],
    ) -> bool:
        if isinstance(step, Truncate):
            self._settle(partition, partial(partition.log.truncate_to, step.offset))
        elif isinstance(step, Restart):
            self._restart(partition, step)
        elif isinstance(step, Append):
            return self._append(partition, following, step, records, headers)
        return True

    def _append(
        self,
        partition: Partition,
        following: Following,
        step: Append,
        records: memoryview,
        headers: Sequence[BatchHeader],
    ) -> bool:
        log, now_ms, taken = partition.log, self._clock.now_ms(), True
        if headers and log.start_offset == log.end_offset and headers[0].base_offset < log.end_offset:
            self._begin_with(partition, following, step, bytes(records), headers)
            return True
        admitted = _admitted(following, headers)
        if admitted:
            try:
                append_replicated(log, records[: sum(header.size for header in admitted)], admitted, now_ms)
            except PenstockError as error:
                self._complain(partition, error)
                if log.failure is not None:
                    partition.stop(Problem.STORAGE_FAILED, log.failure)
                taken = False
        if taken and self._complaints:
            self._complaints.pop(partition, None)
        start = following.on_appended(step)
        partition.learn_high_watermark()
        if sync_is_due(log, now_ms):
            self._flusher.request(partition)
        if start is not None:
            is_moving = partition in self._moving
            self._moving[partition] = start
            if not is_moving:
                self._move_start(partition, start)
        return taken

    def _begin_with(
        self, partition: Partition, following: Following, step: Append, records: bytes, headers: Sequence[BatchHeader]
    ) -> None:
        """The leader's log starts within a batch, which an empty one can only have if it starts where that does."""

        def begun(_: Partition) -> None:
            if partition.following is following and partition.log.failure is None:
                self._append(partition, following, step, memoryview(records), headers)
            self._settled(partition)

        self._settling.begin(partition, partial(restart_at, partition.log, headers[0].base_offset), begun)

    def _move_start(self, partition: Partition, start: int) -> None:
        written = asyncio.get_running_loop().run_in_executor(self._pool, partition.log.write_start, start)

        def done(future: asyncio.Future[None]) -> None:
            newest = self._moving.pop(partition)
            error = None if future.cancelled() else future.exception()
            if isinstance(error, PenstockError):
                self._complain(partition, error)
            elif error is not None:
                raise error
            elif partition.settled.is_set() and start <= partition.log.end_offset:
                partition.log.move_start(start)
                if start < newest <= partition.log.end_offset:
                    self._moving[partition] = newest
                    self._move_start(partition, newest)

        written.add_done_callback(done)

    def _settle(self, partition: Partition, work: Callable[[], None]) -> None:
        self._settling.begin(partition, work, self._settled)

    def _settled(self, partition: Partition) -> None:
        partition.learn_high_watermark()
        self._when_settled(partition)

    def _complain(self, partition: Partition, error: PenstockError) -> None:
        if self._complaints.get(partition) != str(error):
            self._complaints[partition] = str(error)
            where = {"topic": partition.topic, "partition": partition.index}
            logger.error("replica.not.appended", extra={**where, "why": str(error)})


_NO_RECORDS = memoryview(b"")


def _admitted(following: Following, headers: Sequence[BatchHeader]) -> Sequence[BatchHeader]:
    """Those in front that may be appended; that they follow on each other is known."""
    if not headers or not following.admits(headers[0].base_offset, headers[0].leader_epoch):
        return ()
    for place, header in enumerate(headers):
        before = headers[max(0, place - 1)].leader_epoch
        if not before <= header.leader_epoch <= following.leader_epoch:
            return headers[:place]
    return headers
