"""Work that is begun and that nobody awaits: what it raises is told to the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


class Tasks:
    def __init__(self, whose: str) -> None:
        """`whose`: begins the sentence in which a bug is told."""
        self._whose = whose
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """All but the one that calls it."""
        for task in self._running - {asyncio.current_task()}:
            task.cancel()

    async def ended(self) -> None:
        """`cancel`, and wait."""
        self.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            message = {"message": f"{self._whose} met a bug", "exception": error}
            asyncio.get_running_loop().call_exception_handler(message)
