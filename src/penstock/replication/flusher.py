"""Group commit: one fdatasync per log at a time, in a pool thread, serves all that were appended before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor

from penstock.clock import Clock
from penstock.errors import Problem
from penstock.replication.partition import Partition
from penstock.storage.log import SyncTicket

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
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._loop = loop
        self._observe_seconds = observe_seconds
        # Which partitions want a sync, and whether a checkpoint with it.
        self._asked: dict[Partition, bool] = {}
        self._running: set[Partition] = set()
        # Asked for while a sync was running.
        self._wants_checkpoint: set[Partition] = set()
        self._watching: list[asyncio.Future[None]] = []

    def request(self, partition: Partition, checkpoint: bool = False) -> None:
        """Sync what is appended, if its flush.policy asks for it; with `checkpoint`, write one too, in any case.

        Begins when this turn of the loop ends: what other connections bring in the same turn shares the sync.
        """
        if not self._asked:
            self._loop.call_soon(self._begin)
        self._asked[partition] = checkpoint or self._asked.get(partition, False)

    async def drained(self, partitions: Collection[Partition]) -> None:
        """Returns when of these no sync is in flight or asked for, however busy others are."""
        while any(partition in self._running or partition in self._asked for partition in partitions):
            done: asyncio.Future[None] = self._loop.create_future()
            self._watching.append(done)
            await done

    def _begin(self) -> None:
        asked, self._asked = self._asked, {}
        for partition, checkpoint in asked.items():
            if partition in self._running:
                self._wants_checkpoint |= {partition} if checkpoint else set()
                continue
            try:
                ticket = partition.log.begin_sync(self._clock.now_ms(), checkpoint=checkpoint)
            except OSError as error:
                # Nothing was synced, so nothing is lost: whoever waits goes on waiting, and the next sweep asks again.
                self._complain("log.sync.postponed", partition, str(error))
                continue
            if ticket is not None:
                self._running.add(partition)
                self._run(partition, ticket)
        self._tell_watchers()

    def _run(self, partition: Partition, ticket: SyncTicket) -> None:
        started = self._loop.time()

        def done(future: Future[None]) -> None:
            seconds = self._loop.time() - started
            self._loop.call_soon_threadsafe(self._ended, partition, ticket, future.exception(), seconds)

        self._pool.submit(ticket.run).add_done_callback(done)

    def _ended(self, partition: Partition, ticket: SyncTicket, error: BaseException | None, seconds: float) -> None:
        self._observe_seconds(seconds)
        self._running.discard(partition)
        if error is None:
            self._finished(partition, ticket)
        else:
            self._failed(partition, error)
        self._tell_watchers()

    def _finished(self, partition: Partition, ticket: SyncTicket) -> None:
        partition.log.finish_sync(ticket)
        partition.on_synced()
        # What came in while the disk worked goes out with the next sync, together.
        self.request(partition, checkpoint=partition in self._wants_checkpoint)
        self._wants_checkpoint.discard(partition)

    def _failed(self, partition: Partition, error: BaseException) -> None:
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
