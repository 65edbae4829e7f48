"""What this node has counted, written to `__usage` every interval: each count once, whatever fails on the way.

Events are numbered when counts are taken, and kept until they are committed; until then no more counts are taken, so
what is kept stays small and the interval grows instead. An event is sent again as it was, by an idempotent producer to
the same partition, so one whose answer got lost is not there twice. What a stop cannot deliver, because no other broker
is left say, the next life does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from penstock.clock import Clock, Timer, sleep
from penstock.config.usage import UsageSettings
from penstock.coordination.producer_ids import ProducerIds
from penstock.errors import Problem, Refused
from penstock.node.kept_usage import KeptUsage
from penstock.node.usage_topic import UsageTopic
from penstock.telemetry.outage import Outage
from penstock.telemetry.usage import Usage
from penstock.telemetry.usage_events import Event, UsageEvents
from penstock.units import SECOND_MS
from penstock.wire.records import Record, build_batch

logger = logging.getLogger(__name__)

RETRY_MS = SECOND_MS
# Of a stop, for a leader that is just being elected, say: what takes longer the next life can do.
STOP_TIMEOUT_S = 1.0
_SOON_S = 0.1
# The log does not know the producer's last batches: an election has lost them. Under a new id it takes what comes.
_FORGOTTEN = (
    Problem.OUT_OF_ORDER_SEQUENCE,
    Problem.DUPLICATE_SEQUENCE,
    Problem.UNKNOWN_PRODUCER,
    Problem.INVALID_PRODUCER_EPOCH,
)


@dataclass
class _Producer:
    """Numbers batches, for each partition on its own."""

    producer_id: int
    sequences: dict[int, int]

    def batch(self, event: Event, partition: int) -> bytes:
        record = Record(0, event.timestamp_ms, event.key, event.value)
        sequence = self.sequences.get(partition, 0)
        return bytes(build_batch([record], producer_id=self.producer_id, producer_epoch=0, base_sequence=sequence))

    def sent(self, partition: int) -> None:
        self.sequences[partition] = self.sequences.get(partition, 0) + 1


class UsageEmission:
    def __init__(
        self,
        usage: Usage,
        topic: UsageTopic,
        producer_ids: ProducerIds,
        kept: KeptUsage,
        settings: UsageSettings,
        clock: Clock,
    ) -> None:
        self._usage = usage
        self._topic = topic
        self._producer_ids = producer_ids
        self._kept = kept
        self._interval_ms = settings.emit_interval_ms
        self._clock = clock
        self._events: UsageEvents | None = None
        # Numbered, and not known to be committed.
        self._pending: deque[Event] = deque()
        # Some of them are of a life before.
        self._has_kept = False
        # Where the first of them goes, once that was tried.
        self._partition: int | None = None
        self._producer: _Producer | None = None
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._outage = Outage()

    @asynccontextmanager
    async def running(self, broker_epoch: int, *, gap_before: bool) -> AsyncIterator[None]:
        """While this broker is a member of its cluster. `broker_epoch`: with which this life began; it names the life

        also if the broker registers anew.
        """
        if self._interval_ms == 0:
            yield
            return
        self._events = UsageEvents(self._topic.node_id, broker_epoch, self._clock.now_ms(), gap_before=gap_before)
        self._pending += self._kept.read()
        self._has_kept = bool(self._pending)
        self._begin()
        self._arm(self._clock.now_ms())
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])

    async def close(self) -> None:
        """When no client is served any more: the rest, and that it is the last. Not after a start that failed."""
        if self._events is None:
            return
        rest = self._usage.take()
        if not (rest or self._pending or self._events.has_begun):
            return
        self._pending += self._events.cut(rest, self._clock.now_ms(), last=True)
        # Without the topic nobody would make it now.
        if self._topic.is_known:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self._deliver_all(is_stopping=True)
        if self._pending and (why := self._kept.keep(self._pending)) is not None:
            do = "the end of this run is missing in __usage, which shows there as after a kill"
            logger.error("usage.lost", extra={"events": len(self._pending), "why": why, "do": do})

    # Every interval

    def _arm(self, now_ms: int) -> None:
        # At multiples of the interval, so that an hour or a day ends where an event does.
        due_ms = (now_ms // self._interval_ms + 1) * self._interval_ms
        self._timer = self._clock.call_at(due_ms, lambda: self._tick(due_ms))

    def _tick(self, due_ms: int) -> None:
        # A timer is called a moment late, or by much if the machine slept: the event still ends at a multiple.
        now_ms = max(due_ms, self._clock.now_ms())
        self._arm(now_ms)
        self._cut(now_ms - now_ms % self._interval_ms)
        self._begin()

    def _cut(self, to_ms: int) -> None:
        """Takes what was counted, unless something has to be delivered first. A node that nobody uses is silent."""
        if self._pending or self._events is None:
            return
        counted = self._usage.take()
        if counted or self._events.has_begun:
            self._pending += self._events.cut(counted, to_ms)

    def _begin(self) -> None:
        if self._pending and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._deliver_all())
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            text = "writing down usage met a bug"
            asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})

    # Delivering

    async def _deliver_all(self, *, is_stopping: bool = False) -> None:
        """Until all is committed; `is_stopping`: or a disk is in the way, which only somebody can mend."""
        while self._pending:
            refused = await self._prepared() or await self._deliver(self._pending[0])
            if refused is None:
                self._pending.popleft()
                self._partition = None
                if self._outage.lasts:
                    logger.info("usage.written.again", extra={"times": self._outage.over()})
                continue
            times = self._outage.failed(refused.text, self._clock.now_ms())
            if times is not None:
                logger.warning("usage.not.written", extra={"why": refused.text, "times": times, "do": "trying again"})
            if is_stopping and refused.problem is Problem.STORAGE_FAILED:
                return
            await (asyncio.sleep(_SOON_S) if is_stopping else sleep(self._clock, RETRY_MS))
        if self._has_kept:
            self._has_kept = False
            await asyncio.to_thread(self._kept.forget)

    async def _deliver(self, event: Event) -> Refused | None:
        assert self._producer is not None
        if self._partition is None:
            self._partition = self._topic.choose()
        refused = await self._topic.append(self._partition, self._producer.batch(event, self._partition)).wait()
        if refused is None:
            self._producer.sent(self._partition)
        elif refused.problem in _FORGOTTEN:
            self._producer = None
        return refused

    async def _prepared(self) -> Refused | None:
        """There is a topic, and a producer id."""
        if (refused := await self._topic.ensure()) is not None:
            return refused
        if self._producer is None:
            producer_id = await self._producer_ids.allocate()
            if isinstance(producer_id, Refused):
                return producer_id
            self._producer = _Producer(producer_id, {})
        return None
