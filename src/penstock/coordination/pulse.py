"""Whether an event loop turns, as another thread sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable

# Looks that found no turn since the one before.
MAX_MISSED = 4


class Pulse:
    """Counted in looks and not in seconds: when everything stood still (a stopped process, a suspended machine, a

    debugger), the other thread has not looked either, so at most one look is missed for it.
    """

    def __init__(self, on_loop: Callable[[Callable[[], None]], None]) -> None:
        """`on_loop` leaves a call for the loop's next turn."""
        self._on_loop = on_loop
        self._missed = 0
        self._turned = threading.Event()
        self._turned.set()

    def look(self) -> bool:
        """At intervals, by one thread. False: the loop stands still, and has for `MAX_MISSED` of them."""
        if self._turned.is_set():
            self._missed = 0
            self._turned.clear()
            self._on_loop(self._turned.set)
        else:
            self._missed += 1
        return self._missed < MAX_MISSED

    def wait(self, timeout_s: float) -> bool:
        """Until the loop turns again, or for so long; whether it does."""
        return self._turned.wait(timeout_s)
