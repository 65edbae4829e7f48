"""One thread that does one thing at a time and tells the event loop: a pool's futures cost more than a small write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from time import perf_counter

# The error or None, and how long it took.
Done = Callable[[BaseException | None, float], None]
_Work = tuple[Callable[[], None], Done]


class CommitThread:
    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], None], done: Done) -> None:
        """`done` is called on the event loop."""
        self._queue.put((work, done))

    def close(self) -> None:
        """When all that was given to it is done. Blocking."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            work, done = item
            error: BaseException | None = None
            started = perf_counter()
            try:
                work()
            except BaseException as raised:
                error = raised
            self._loop.call_soon_threadsafe(done, error, perf_counter() - started)
