"""What takes time and has a log for itself: truncation, mostly. The event loop and everybody else go on meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from penstock.errors import PenstockError
from penstock.replication.flusher import Flusher
from penstock.replication.partition import Partition

logger = logging.getLogger(__name__)


class Settling:
    """`upkeep` has one thread, in which deletions and compaction work too: none of them is at work on the log then."""

    def __init__(self, flusher: Flusher, upkeep: ThreadPoolExecutor) -> None:
        self._flusher = flusher
        self._upkeep = upkeep
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, partition: Partition, work: Callable[[], None], then: Callable[[Partition], None]) -> None:
        """`work` blocks, in the pool; then, unless it failed, `then` is called on the event loop.

        Until then the partition is not settled: nothing is appended to it, read from it or synced.
        """
        partition.settled.clear()
        task = asyncio.get_running_loop().create_task(self._settle(partition, work, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, partition: Partition, work: Callable[[], None], then: Callable[[Partition], None]) -> None:
        try:
            await self._flusher.drained([partition])
            if partition.log.failure is None:
                await asyncio.get_running_loop().run_in_executor(self._upkeep, work)
        except PenstockError as error:
            where = {"topic": partition.topic, "partition": partition.index}
            logger.error("log.not.settled", extra={**where, "why": str(error)})
            partition.stop(error.problem, str(error))
        finally:
            partition.settled.set()
        then(partition)
        self._flusher.request(partition)
