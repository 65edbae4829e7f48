"""A long poll: parked on its partitions until enough became readable, one of them stopped, or time is up.

A follower's is over at the end of the turn in which something was appended: what other producers append in it comes
along. Answered with the first batch alone, it would have to ask again for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from penstock.clock import Clock, Timer
from penstock.replication.partition import Partition


class FetchWait:
    def __init__(
        self,
        partitions: Sequence[Partition],
        missing_bytes: int,
        finish: Callable[[], None],
        *,
        appends: bool = False,
        stable: bool = False,
    ) -> None:
        """`appends`: what is appended counts and not what is committed, for a follower; `stable`: only what is below

        the last stable offset, for a reader of committed transactions.
        """
        self._partitions = partitions
        self._missing_bytes = missing_bytes
        self._finish = finish
        self._appends = appends
        self._stable = stable
        self._timer: Timer | None = None
        self._is_due = False

    def arm(self, clock: Clock, max_wait_ms: int) -> None:
        for partition in self._partitions:
            partition.watch(self, self._progress, appends=self._appends, stable=self._stable)
        self._timer = clock.call_at(clock.now_ms() + max_wait_ms, self._wake)

    def _progress(self, readable_bytes: int | None) -> None:
        self._missing_bytes -= readable_bytes or 0
        if self._is_due or (self._missing_bytes > 0 and readable_bytes is not None):
            return
        if self._appends:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._wake)
        else:
            self._wake()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            for partition in self._partitions:
                partition.unwatch(self)

    def hurry(self) -> None:
        """Whoever waits wants something else as well, which comes after this."""
        self._wake()

    def _wake(self) -> None:
        if self._timer is not None:
            self.cancel()
            self._finish()
