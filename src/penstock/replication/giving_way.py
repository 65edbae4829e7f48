"""A leader that stops hands over a log that its successors have to the last record.

Otherwise the others, who may have more than the one of them that leads next, would cut it off first, which takes longer
than all the rest; and what was acknowledged with acks=1 would be lost by a mere restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from penstock.later import Later, gather
from penstock.replication.partition import Partition

# Followers in sync have the newest within milliseconds. One that does not answer shall not hold up all partitions.
_LONGEST_S = 1.0


class GivingWay:
    """All methods run on the event loop's thread."""

    def __init__(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        self._partitions = partitions
        # Not None: nothing is taken from producers now. Who is sent away before it is done would come back, because
        # nobody else leads yet.
        self.under_way: Later[None] | None = None

    async def begin(self) -> None:
        """Returns when all that could lead next have everything, or when that takes too long."""
        self.under_way = self.under_way or Later()
        taken = [
            partition.when_committed(partition.log.end_offset)
            for partition in self._partitions()
            if partition.leadership is not None and not partition.lacks_replicas
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_S):
                await gather(taken).wait()

    def end(self) -> None:
        """Others lead, or this broker still does."""
        if self.under_way is not None:
            under_way, self.under_way = self.under_way, None
            under_way.complete(None)
