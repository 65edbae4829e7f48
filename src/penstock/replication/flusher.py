"""Group commit: one fdatasync per log at a time, in a pool thread, serves all that were appended before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

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
        self._running: set[Partition] = set()
        self._idle: list[asyncio.Future[None]] = []

    def request(self, partition: Partition) -> None:
        """Sync what is appended now, if its flush.policy asks for it: with the sync in flight or the next one."""
        if partition in self._running:
            return
        ticket = partition.log.begin_sync(self._clock.now_ms())
        if ticket is None:
            return
        self._running.add(partition)
        self._start(partition, ticket)

    async def drained(self) -> None:
        """Returns when no sync is in flight."""
        if self._running:
            idle: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(idle)
            await idle

    def _start(self, partition: Partition, ticket: SyncTicket) -> None:
        def run() -> None:
            started = self._loop.time()
            try:
                ticket.run()
            except OSError as error:
                self._loop.call_soon_threadsafe(self._failed, partition, error)
                return
            self._loop.call_soon_threadsafe(self._finished, partition, ticket, self._loop.time() - started)

        self._pool.submit(run)

    def _finished(self, partition: Partition, ticket: SyncTicket, seconds: float) -> None:
        self._observe_seconds(seconds)
        partition.log.finish_sync(ticket)
        partition.on_synced()
        # What came in while the disk worked goes out with the next sync, together.
        following = partition.log.begin_sync(self._clock.now_ms())
        if following is None:
            self._stopped(partition)
        else:
            self._start(partition, following)

    def _failed(self, partition: Partition, error: OSError) -> None:
        text = (
            f"fdatasync of {partition.topic}-{partition.index} failed: {error}. Check the disk, then restart this node"
        )
        logger.error("log.sync.failed", extra={"topic": partition.topic, "partition": partition.index, "why": text})
        partition.log.fail(text)
        partition.stop(Problem.STORAGE_FAILED, text)
        self._stopped(partition)

    def _stopped(self, partition: Partition) -> None:
        self._running.discard(partition)
        if not self._running:
            for idle in self._idle:
                if not idle.done():
                    idle.set_result(None)
            self._idle.clear()
