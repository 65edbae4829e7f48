"""Moving the starts of logs up, because somebody wants what is below them gone: here, and with all followers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from penstock.clock import Clock, sleep
from penstock.cluster.core.image import INTERNAL_TOPICS
from penstock.errors import PenstockError, Problem, Refused
from penstock.replication.partition import NOT_LEADING, Partition

# Followers say with each fetch where their logs start.
_LOOK_AGAIN_MS = 20


class Wanted(NamedTuple):
    """-1 stands for the high watermark."""

    topic: str
    partition: int
    before_offset: int


class RecordDeletion:
    """All methods run on the event loop's thread."""

    def __init__(
        self, leader: Callable[[str, int], Partition | Refused], pool: ThreadPoolExecutor, clock: Clock
    ) -> None:
        self._leader = leader
        self._pool = pool
        self._clock = clock

    async def delete(self, wanted: Sequence[Wanted], timeout_ms: int = 0) -> list[int | Refused]:
        """Of each, the start offset that all live replicas have at least reached.

        Followers delete all of it at once, so the time is for all together.
        """
        deadline_ms = self._clock.now_ms() + timeout_ms
        moved = [await self._move_start(each) for each in wanted]
        return [each if isinstance(each, Refused) else await self._everywhere(*each, deadline_ms) for each in moved]

    async def _move_start(self, wanted: Wanted) -> tuple[Partition, int] | Refused:
        topic, index, before_offset = wanted
        partition = self._leader(topic, index)
        if isinstance(partition, Refused):
            return partition
        if topic in INTERNAL_TOPICS:
            return Refused(Problem.INVALID_TOPIC_NAME, f"{topic} is internal: only the broker deletes from it")
        if "delete" not in partition.log.settings.cleanup_policy:
            text = f"{topic} is compacted: delete a key by writing null for it, or add delete to its cleanup.policy"
            return Refused(Problem.POLICY_VIOLATION, text)
        start = partition.high_watermark if before_offset == -1 else before_offset
        if not 0 <= start <= partition.high_watermark:
            text = f"offset {start} is not between 0 and the high watermark {partition.high_watermark}"
            return Refused(Problem.OFFSET_OUT_OF_RANGE, text)
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, partition.log.write_start, start)
        except PenstockError as error:
            return Refused.by(error)
        if partition.leadership is None:
            # The next leader may be about to take back what is below it.
            return NOT_LEADING
        partition.log.move_start(start)
        return partition, start

    async def _everywhere(self, partition: Partition, start: int, deadline_ms: int) -> int | Refused:
        while (leadership := partition.leadership) is not None:
            if (low_watermark := leadership.low_watermark()) >= start:
                return low_watermark
            if self._clock.now_ms() >= deadline_ms:
                return Refused(Problem.REQUEST_TIMED_OUT, "followers have not deleted it yet; they will")
            await sleep(self._clock, _LOOK_AGAIN_MS)
        return NOT_LEADING
