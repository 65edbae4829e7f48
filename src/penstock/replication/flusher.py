"""Group commit: what was appended is made durable by the journal, or by one fdatasync per log at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor

from penstock.clock import Clock
from penstock.errors import Problem
from penstock.replication.journal_commits import JournalCommits
from penstock.replication.partition import Partition
from penstock.storage.due import wants_sync
from penstock.storage.journal import Journal
from penstock.storage.log import Log, SyncTicket

logger = logging.getLogger(__name__)


class Flusher:
    """Asked on the event loop; syncs in the pool; reports back on the loop.

    A sync that fails poisons the log: the kernel may have dropped the dirty pages, so a second fsync that
    succeeds would prove nothing.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        loop: asyncio.AbstractEventLoop,
        observe_seconds: Callable[[float], None],
        clock: Clock,
        journal: Journal,
        at_once: int,
    ) -> None:
        """`at_once`: how many syncs the pool has threads for."""
        self._pool = pool
        self._at_once = at_once
        # Of those for which nobody waits yet: there are threads and disk left for those for which somebody does.
        self._catch_up_at_once = max(1, at_once // 2)
        self._clock = clock
        self._loop = loop
        self._observe_seconds = observe_seconds
        self.journal = journal
        self._commits = JournalCommits(journal, loop, clock, observe_seconds, self._sync_files, self._after_commit)
        # Which partitions want a sync, and whether a checkpoint with it.
        self._asked: dict[Partition, bool] = {}
        self._running: set[Partition] = set()
        # Whose turn comes when one of those has ended: whether in any case, and whether with a checkpoint.
        self._queued: dict[Partition, tuple[bool, bool]] = {}
        # Asked for while a sync was running: a checkpoint, and another sync in any case.
        self._wants_checkpoint: set[Partition] = set()
        self._wants_another: set[Partition] = set()
        self._watching: list[asyncio.Future[None]] = []
        # Their files must be synced before the journal can go on in its other file.
        self._behind: deque[Partition] = deque()
        self._catching_up: set[Partition] = set()

    def request(self, partition: Partition, checkpoint: bool = False) -> None:
        """Sync what is appended, if its flush.policy asks for it; with `checkpoint`, write one too, in any case.

        Begins when this turn of the loop ends: what other connections bring in the same turn shares the sync.
        """
        if not partition.settled.is_set():
            # It asks again when it is.
            return
        if not self._asked:
            self._loop.call_soon(self._begin)
        self._asked[partition] = checkpoint or self._asked.get(partition, False)

    async def drained(self, partitions: Collection[Partition]) -> None:
        """Returns when of these no sync is in flight or asked for, however busy others are."""
        for partition in self._queued.keys() & set(partitions):
            if not _may_sync(partition):
                self._queued.pop(partition)
                self._catching_up.discard(partition)
        while any(map(self._is_busy, partitions)):
            await self._next_news()

    async def durable(self, partitions: Collection[Partition]) -> None:
        """Returns when what these have now is durable, taken back by a truncation, or their log has failed, whatever

        else is appended meanwhile.
        """
        ends = {partition: partition.log.end_offset for partition in partitions}
        while any(_is_missing(partition.log, end) for partition, end in ends.items()):
            await self._next_news()

    async def _next_news(self) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._watching.append(done)
        await done

    def forget(self, partition: Partition) -> None:
        """It is deleted, and drained."""
        self._commits.forget(partition)

    def close(self) -> None:
        """Blocking. Everything is drained."""
        self._commits.close()

    def _is_busy(self, partition: Partition) -> bool:
        ours = partition in self._running or partition in self._queued or partition in self._asked
        return ours or partition in self._commits

    def _begin(self) -> None:
        asked, self._asked = self._asked, {}
        for partition, checkpoint in asked.items():
            if not partition.settled.is_set():
                continue
            if checkpoint or not self._commits.accept(partition):
                self._sync(partition, self._clock.now_ms(), checkpoint)
        self._commits.begin()
        self._after_commit()

    def _after_commit(self) -> None:
        if not self._behind:
            self._behind.extend(self._commits.behind())
        self._catch_up()
        self._tell_watchers()

    def _catch_up(self) -> None:
        while self._behind and len(self._catching_up) < self._catch_up_at_once:
            partition = self._behind.popleft()
            if self._sync(partition, None):
                self._catching_up.add(partition)

    def _sync_files(self, partitions: Collection[Partition], now_ms: int | None) -> None:
        for partition in partitions:
            self._sync(partition, now_ms)

    def _sync(self, partition: Partition, now_ms: int | None, checkpoint: bool = False) -> bool:
        """Whether a sync of its files begins, now or in its turn; without `now_ms`, whether one is due or not.

        One that has to wait begins with all that came meanwhile. Where none can begin, or nothing is to be done, none
        waits: whoever drains the log to truncate or delete it would wait for as long as others are busy.
        """
        if not _may_sync(partition):
            return False
        if partition in self._running:
            # When that one has ended, what is left to do is looked at again.
            self._wants_checkpoint |= {partition} if checkpoint else set()
            self._wants_another |= {partition} if now_ms is None else set()
            return False
        if len(self._running) >= self._at_once:
            if not wants_sync(partition.log, now_ms, checkpoint=checkpoint):
                return False
            is_forced, has_checkpoint = self._queued.get(partition, (False, False))
            self._queued[partition] = (is_forced or now_ms is None, has_checkpoint or checkpoint)
            return True
        return self._start(partition, now_ms, checkpoint)

    def _start_next(self) -> None:
        while self._queued and len(self._running) < self._at_once:
            partition = next(iter(self._queued))
            is_forced, checkpoint = self._queued[partition]
            self._queued.pop(partition)
            if not self._start(partition, None if is_forced else self._clock.now_ms(), checkpoint):
                self._catching_up.discard(partition)

    def _start(self, partition: Partition, now_ms: int | None, checkpoint: bool) -> bool:
        if not _may_sync(partition):
            return False
        try:
            ticket = partition.log.begin_sync(now_ms, checkpoint=checkpoint)
        except OSError as error:
            # Nothing was synced, so nothing is lost: whoever waits goes on waiting, and the next sweep asks again.
            self._complain("log.sync.postponed", partition, str(error))
            return False
        if ticket is None:
            return False
        started = self._loop.time()

        def done(future: Future[None]) -> None:
            seconds = self._loop.time() - started
            self._loop.call_soon_threadsafe(self._ended, partition, ticket, future.exception(), seconds)

        self._pool.submit(ticket.run).add_done_callback(done)
        self._running.add(partition)
        return True

    def _ended(self, partition: Partition, ticket: SyncTicket, error: BaseException | None, seconds: float) -> None:
        self._running.discard(partition)
        self._catching_up.discard(partition)
        try:
            self._observe_seconds(seconds)
            if error is None:
                self._finished(partition, ticket)
            else:
                self._failed(partition, error)
        finally:
            # Whatever bug one of them met: others wait for their turn.
            self._start_next()
            self._catch_up()
            self._tell_watchers()

    def _finished(self, partition: Partition, ticket: SyncTicket) -> None:
        partition.log.finish_sync(ticket)
        partition.on_durable(self._clock.now_ms())
        # What came in while the disk worked goes out with the next sync, together.
        self.request(partition, checkpoint=partition in self._wants_checkpoint)
        self._wants_checkpoint.discard(partition)
        if partition in self._wants_another:
            self._wants_another.discard(partition)
            self._sync(partition, None)

    def _failed(self, partition: Partition, error: BaseException) -> None:
        self._wants_checkpoint.discard(partition)
        self._wants_another.discard(partition)
        text = (
            f"fdatasync of {partition.topic}-{partition.index} failed: {error}. Check the disk, then restart this node"
        )
        self._complain("log.sync.failed", partition, text)
        partition.log.fail(text)
        partition.stop(Problem.STORAGE_FAILED, text)

    def _tell_watchers(self) -> None:
        watching, self._watching = self._watching, []
        for done in watching:
            if not done.done():
                done.set_result(None)

    @staticmethod
    def _complain(event: str, partition: Partition, why: str) -> None:
        logger.error(event, extra={"topic": partition.topic, "partition": partition.index, "why": why})


def _may_sync(partition: Partition) -> bool:
    """None begins on a log that is being truncated: its checkpoint would be written over the one that says so."""
    return partition.settled.is_set() and partition.log.failure is None


def _is_missing(log: Log, offset: int) -> bool:
    """Whether something below the offset is there and not durable, and may still become so."""
    return log.failure is None and log.durable_offset < min(offset, log.end_offset)
