"""How much a follower may read that catches up by a move: what the leader's throttle leaves."""

from __future__ import annotations

from penstock.broker.fetch_read import Row
from penstock.clock import Clock
from penstock.cluster.core.throttle import Throttle, grant_by_all, next_of_all_ms
from penstock.replication.move_throttles import MoveThrottles
from penstock.replication.partition import Partition


class FollowerLimits:
    """For one fetch, row by row."""

    def __init__(self, throttles: MoveThrottles, replica: int, clock: Clock) -> None:
        self._throttles = throttles
        self._replica = replica
        self._clock = clock
        self._grant: tuple[tuple[Throttle, ...], int] = (), 0
        self._held_until_ms: int | None = None

    def limit(self, partition: Partition, row: Row) -> None:
        now_ms = self._clock.now_ms()
        throttles = self._throttles.of(partition, self._replica, now_ms) if row.bytes_left > 0 else ()
        if not throttles:
            self._grant = (), 0
            return
        granted = grant_by_all(throttles, row.bytes_left, now_ms)
        if not granted:
            row.is_held = True
            next_ms = next_of_all_ms(throttles, row.bytes_left, now_ms)
            self._held_until_ms = min(next_ms, self._held_until_ms or next_ms)
        self._grant, row.bytes_left = (throttles, granted), granted

    def has_read(self, size_bytes: int) -> None:
        """A batch comes whole, so it may be more than was granted."""
        throttles, granted = self._grant
        for throttle in throttles:
            throttle.settle(granted, size_bytes)

    def wait_ms(self, max_wait_ms: int) -> int:
        """Until more of what is held may be read."""
        if self._held_until_ms is None:
            return max_wait_ms
        return max(1, min(max_wait_ms, self._held_until_ms - self._clock.now_ms()))
