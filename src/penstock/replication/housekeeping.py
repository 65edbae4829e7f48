"""What has to be done now and then for every log: deadlines, due flushes, retention. Blocking work goes to the pool."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

from penstock.clock import Clock, Timer
from penstock.errors import PenstockError
from penstock.replication.each import each
from penstock.replication.flusher import Flusher
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.storage.deletion import Deletion
from penstock.units import DAY_MS, SECOND_MS

logger = logging.getLogger(__name__)

# Produce deadlines and flush.ms are looked at this often: finer costs more than anyone notices.
SWEEP_MS = SECOND_MS // 2
# Retention is counted in hours and days; this is soon enough for anyone, and cheap with thousands of logs.
RETENTION_MS = 30 * SECOND_MS
# Kafka's producer.id.expiration.ms: an idempotent producer that is silent for longer starts anew.
PRODUCER_EXPIRY_MS = DAY_MS


class Housekeeping:
    def __init__(self, replicas: Replicas, flusher: Flusher, pool: ThreadPoolExecutor, clock: Clock) -> None:
        self._replicas = replicas
        self._flusher = flusher
        self._pool = pool
        self._clock = clock
        self._retention_due_ms = clock.now_ms() + RETENTION_MS
        self._timer: Timer | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._arm()
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _arm(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_ms() + SWEEP_MS, self._sweep)

    def _sweep(self) -> None:
        # Armed first, so that nothing that goes wrong with one log ends the care for all.
        self._arm()
        now_ms = self._clock.now_ms()
        retention_due = now_ms >= self._retention_due_ms
        if retention_due:
            self._retention_due_ms = now_ms + RETENTION_MS
            self._replicas.logs.sweep_soon()
        each(deque(self._replicas), partial(self._look_after, now_ms, retention_due))

    def _look_after(self, now_ms: int, retention_due: bool, partition: Partition) -> None:
        partition.expire(now_ms)
        self._flusher.request(partition)
        if retention_due:
            self._retain(partition, now_ms)

    def _retain(self, partition: Partition, now_ms: int) -> None:
        log = partition.log
        try:
            log.roll_if_due(now_ms)
            deletion = log.apply_retention(now_ms, partition.high_watermark)
        except PenstockError as error:
            self._complain(partition, str(error))
            return
        log.expire_producers(now_ms, PRODUCER_EXPIRY_MS)
        if deletion is not None:
            # A future of the loop's: should it end in a bug, which nobody waits for, the loop is told.
            asyncio.get_running_loop().run_in_executor(self._pool, self._delete, partition, deletion)

    def _delete(self, partition: Partition, deletion: Deletion) -> None:
        """In the pool."""
        try:
            deletion.run()
        except OSError as error:
            self._complain(partition, f"old segments could not be deleted: {error}")

    @staticmethod
    def _complain(partition: Partition, why: str) -> None:
        logger.warning(
            "log.retention.failed", extra={"topic": partition.topic, "partition": partition.index, "why": why}
        )
