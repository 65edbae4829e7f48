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
        # Which partitions want a sync, and whether a checkpoint with it.
        self._asked: dict[Partition, bool] = {}
        self._running: set[Partition] = set()
        # Asked for while a sync was running.
        self._wants_checkpoint: set[Partition] = set()
        self._idle: list[asyncio.Future[None]] = []

    def request(self, partition: Partition, checkpoint: bool = False) -> None:
        """Sync what is appended, if its flush.policy asks for it; with `checkpoint`, write one too, in any case.

        Begins when this turn of the loop ends: what other connections bring in the same turn shares the sync.
        """
        if not self._asked:
            self._loop.call_soon(self._begin)
        self._asked[partition] = checkpoint or self._asked.get(partition, False)

    async def drained(self) -> None:
        """Returns when no sync is in flight or asked for."""
        while self._asked or self._running:
            idle: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(idle)
            await idle

    def _begin(self) -> None:
        asked, self._asked = self._asked, {}
        for partition, checkpoint in asked.items():
            if partition in self._running:
                self._wants_checkpoint |= {partition} if checkpoint else set()
                continue
            ticket = partition.log.begin_sync(self._clock.now_ms(), checkpoint=checkpoint)
            if ticket is not None:
                self._running.add(partition)
                self._pool.submit(self._run, partition, ticket)
        self._tell_if_idle()

    def _run(self, partition: Partition, ticket: SyncTicket) -> None:
        """In the pool."""
        started = self._loop.time()
        try:
            ticket.run()
        except OSError as error:
            self._loop.call_soon_threadsafe(self._failed, partition, error)
        else:
            self._loop.call_soon_threadsafe(self._finished, partition, ticket, self._loop.time() - started)

    def _finished(self, partition: Partition, ticket: SyncTicket, seconds: float) -> None:
        self._observe_seconds(seconds)
        self._running.discard(partition)
        partition.log.finish_sync(ticket)
        partition.on_synced()
        # What came in while the disk worked goes out with the next sync, together.
        self.request(partition, checkpoint=partition in self._wants_checkpoint)
        self._wants_checkpoint.discard(partition)

    def _failed(self, partition: Partition, error: OSError) -> None:
        text = (
            f"fdatasync of {partition.topic}-{partition.index} failed: {error}. Check the disk, then restart this node"
        )
        logger.error("log.sync.failed", extra={"topic": partition.topic, "partition": partition.index, "why": text})
        self._running.discard(partition)
        partition.log.fail(text)
        partition.stop(Problem.STORAGE_FAILED, text)
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if not self._running and not self._asked:
            idle, self._idle = self._idle, []
            for waiting in idle:
                if not waiting.done():
                    waiting.set_result(None)
