"""Compaction and scrubbing in the background: one log at a time, in small steps, so that clients do not notice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from penstock.clock import Clock, sleep
from penstock.errors import PenstockError
from penstock.replication.flusher import Flusher
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.storage.compaction import Compaction
from penstock.storage.scrub import Scrub
from penstock.units import SECOND_MS

logger = logging.getLogger(__name__)

# Kafka's log.cleaner.backoff.ms: how often logs are looked at for something to compact.
COMPACT_EVERY_MS = 15 * SECOND_MS
# A machine that sleeps during a step must not stop compaction for as long when it wakes.
LONGEST_PAUSE_MS = 10 * SECOND_MS
# A step of scrubbing is a megabyte: some 40 GB a day, too little to be felt and enough to meet rot in time.
SCRUB_EVERY_MS = 2 * SECOND_MS


class Cleaner:
    def __init__(self, replicas: Replicas, flusher: Flusher, pool: ThreadPoolExecutor, clock: Clock) -> None:
        self._replicas = replicas
        self._flusher = flusher
        self._pool = pool
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._start(self._compact_for_ever)
        self._start(self._scrub_for_ever)
        try:
            yield
        finally:
            tasks, self._tasks = self._tasks, set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, work))

    def _ended(self, task: asyncio.Task[None], work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Neither ever ends by itself: a bug ended it, which must not end the care for all logs."""
        if task not in self._tasks or task.cancelled():
            return
        self._tasks.discard(task)
        context = {"message": "compaction or scrubbing met a bug and begins anew", "exception": task.exception()}
        asyncio.get_running_loop().call_exception_handler(context)
        self._start(work)

    async def _compact_for_ever(self) -> None:
        while True:
            await sleep(self._clock, COMPACT_EVERY_MS)
            for partition in list(self._replicas):
                compaction = Compaction.begin(
                    partition.log,
                    bound_offset=partition.last_stable_offset,
                    now_ms=self._clock.now_ms(),
                    keeps_all_markers=not _is_in_sync(partition),
                )
                if compaction is not None:
                    await self._compact(partition, compaction)

    async def _compact(self, partition: Partition, compaction: Compaction) -> None:
        loop = asyncio.get_running_loop()
        try:
            while not compaction.is_done:
                began_ms = self._clock.now_ms()
                await loop.run_in_executor(self._pool, compaction.work)
                await partition.settled.wait()
                ended_ms = self._clock.now_ms()
                compaction.settle(ended_ms)
                # The event loop wants the interpreter too: half of the time at least it has it for itself.
                await sleep(self._clock, min(max(1, ended_ms - began_ms), LONGEST_PAUSE_MS))
            # What was replaced can be deleted once a checkpoint names what replaced it.
            self._flusher.request(partition, checkpoint=True)
        except (OSError, PenstockError) as error:
            self._complain("log.compaction.failed", partition, str(error))
        finally:
            if not compaction.is_done:
                # Nobody waits for it, but the loop is told of a bug.
                loop.run_in_executor(self._pool, compaction.abandon)

    async def _scrub_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await sleep(self._clock, SCRUB_EVERY_MS)
            for partition in list(self._replicas):
                log = partition.log
                scrub = Scrub([segment for segment in log.segments if segment is not log.active])
                try:
                    while not scrub.is_done:
                        step = await loop.run_in_executor(self._pool, scrub.step)
                        for found in step.found:
                            self._complain("log.damage.found", partition, str(found.damage.error()))
                        await sleep(self._clock, SCRUB_EVERY_MS)
                except OSError as error:
                    self._complain("log.scrub.failed", partition, str(error))

    @staticmethod
    def _complain(event: str, partition: Partition, why: str) -> None:
        logger.error(event, extra={"topic": partition.topic, "partition": partition.index, "why": why})


def _is_in_sync(partition: Partition) -> bool:
    """Whether all replicas have all that is committed."""
    return set(partition.state.isr) >= set(partition.state.replicas)
