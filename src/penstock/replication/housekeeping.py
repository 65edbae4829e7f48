"""What has to be done now and then: flush, expire, delete, compact. Blocking work goes to the pool."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from penstock.clock import Clock, Timer
from penstock.replication.flusher import Flusher
from penstock.replication.replicas import Replicas
from penstock.units import SECOND_MS

logger = logging.getLogger(__name__)

# Produce deadlines and flush.ms are looked at this often: finer costs more than anyone notices.
SWEEP_MS = SECOND_MS // 2


class Housekeeping:
    def __init__(self, replicas: Replicas, flusher: Flusher, pool: ThreadPoolExecutor, clock: Clock) -> None:
        self._replicas = replicas
        self._flusher = flusher
        self._pool = pool
        self._clock = clock
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
        now_ms = self._clock.now_ms()
        for partition in self._replicas:
            partition.expire(now_ms)
        self._arm()
