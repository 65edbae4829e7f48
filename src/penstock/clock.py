"""Time, injected everywhere. Cores take `now_ms`; shells take a `Clock`."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Milliseconds since the Unix epoch, and callbacks at such a moment.

    Time never goes back. Callbacks run on the event loop that armed them.
    """

    def now_ms(self) -> int: ...

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Timer: ...


class SystemClock:
    """The wall clock as it was at start, carried on by the boot-time clock.

    Sessions, leases and retention are measured with it, so a stepped wall clock must neither
    expire all of them at once nor let time run backwards. Small corrections still arrive, because
    the kernel slews the boot-time clock too; a step is taken over at the next start.
    """

    def __init__(self) -> None:
        self._offset_ms = time.time_ns() // 1_000_000 - self._boot_ms()

    @staticmethod
    def _boot_ms() -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def now_ms(self) -> int:
        # Asked for every batch, so without a call in between.
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000 + self._offset_ms

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        delay_ms = max(0, when_ms - self.now_ms())
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)


class SteppedClock:
    """Real time plus an offset that a test moves forward, as if the machine had been asleep.

    Time still passes by itself, so real clients' long polls and heartbeats work unchanged.
    """

    def __init__(self, ahead_ms: int = 0) -> None:
        self._base = SystemClock()
        self._offset_ms = ahead_ms
        self._sequence = itertools.count()
        self._armed: list[tuple[int, int, _SteppedTimer]] = []

    def now_ms(self) -> int:
        return self._base.now_ms() + self._offset_ms

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        timer = _SteppedTimer(callback)
        self._arm(when_ms, timer)
        heapq.heappush(self._armed, (when_ms, next(self._sequence), timer))
        return timer

    def advance(self, by_ms: int) -> None:
        """Time jumps; call it on the event loop. Timers that fall due run before it returns, in the order of their

        moments, and so do those that they arm for a moment that has passed too.
        """
        self._offset_ms += by_ms
        while self._armed and self._armed[0][0] <= self.now_ms():
            heapq.heappop(self._armed)[2].fire()
        self._armed = [entry for entry in self._armed if not entry[2].spent]
        heapq.heapify(self._armed)
        for when_ms, _, timer in self._armed:
            self._arm(when_ms, timer)

    def _arm(self, when_ms: int, timer: _SteppedTimer) -> None:
        timer.rearm(max(0, when_ms - self.now_ms()) / 1000)


class _SteppedTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self.spent = False

    def rearm(self, delay_s: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = asyncio.get_running_loop().call_later(delay_s, self.fire)

    def fire(self) -> None:
        if not self.spent:
            self.cancel()
            self._callback()

    def cancel(self) -> None:
        self.spent = True
        if self._handle is not None:
            self._handle.cancel()


async def sleep(clock: Clock, duration_ms: int) -> None:
    done = asyncio.Event()
    timer = clock.call_at(clock.now_ms() + duration_ms, done.set)
    try:
        await done.wait()
    finally:
        timer.cancel()
