"""A leader that stops hands over a log that its successors have to the last record.

Otherwise the others, who may have more than the one of them that leads next, would cut it off first, which takes longer
than all the rest; and what was acknowledged with acks=1 would be lost by a mere restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from penstock.clock import Clock, Timer
from penstock.later import Later, gather
from penstock.replication.partition import Committed, Partition
from penstock.units import SECOND_MS

# A part of the time for the whole hand-over, however long the controller takes to find others: who is not answered asks
# nobody else. Half of that is for the followers. Those in sync have the newest within milliseconds, and one that does
# not answer shall not hold up all partitions.
_HELD_FOR = 5
_HELD_AT_MOST_MS = 10 * SECOND_MS


class GivingWay:
    """All methods run on the event loop's thread."""

    def __init__(self, partitions: Callable[[], Iterable[Partition]], clock: Clock) -> None:
        self._partitions = partitions
        self._clock = clock
        self._timer: Timer | None = None

    async def begin(self, timeout_ms: int) -> None:
        """Returns when all that could lead next have everything, or when that takes too long.

        `timeout_ms`: how long the whole hand-over may take.
        """
        held_ms = min(timeout_ms // _HELD_FOR, _HELD_AT_MOST_MS)
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.now_ms() + held_ms, self.end)
        with suppress(TimeoutError):
            async with asyncio.timeout(held_ms / 2 / SECOND_MS):
                await gather([_hand_over(partition) for partition in self._partitions()]).wait()

    def end(self) -> None:
        """What others do not lead by now, this broker leads on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for partition in self._partitions():
            partition.hand_over.end()


def _hand_over(partition: Partition) -> Later[Committed]:
    """Done when all that was taken of it is with everyone who could lead it, if there is anyone."""
    leadership = partition.leadership
    if leadership is None or not leadership.others_in_sync:
        return Later.of(None)
    committed = partition.when_committed(partition.log.end_offset)
    if not committed.done or committed.result() is None:
        partition.hand_over.begin()
    return committed
