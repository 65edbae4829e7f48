"""A leader that owes an answer for too long: clients are told that nobody leads what it led, so that they ask again."""

from __future__ import annotations

from penstock.clock import Clock
from penstock.cluster.core.image import Image
from penstock.rpc.alarm import Alarm
from penstock.units import SECOND_MS

# Beyond the time that was granted for the answer. Followers ask without a pause, so this is silence, not idleness; it
# is well below any session, in whose end the controller sees what this broker only suspects.
OVERDUE_MS = 2 * SECOND_MS


class Silence:
    """Nothing is decided by it. It ends with an answer, and with the request: a leader that this broker cannot reach,

    but others can, is not hidden for good.
    """

    def __init__(self, leader: int, image: Image, clock: Clock) -> None:
        self._leader = leader
        self._image = image
        self._clock = clock
        self._alarm = Alarm(clock, self._look)
        self._due_ms: int | None = None
        # It has answered since it was doubted last.
        self._is_trusted = True

    def asked(self, max_wait_ms: int) -> None:
        self._due_ms = self._clock.now_ms() + max_wait_ms + OVERDUE_MS
        self._alarm.arm(self._due_ms)

    def answered(self) -> None:
        self.over()
        self._is_trusted = True

    def over(self) -> None:
        """The request is; no other may follow."""
        self._due_ms = None
        if not self._is_trusted:
            self._image.trust(self._leader)

    def _look(self, now_ms: int) -> None:
        if self._due_ms is None or not self._is_trusted:
            return
        if now_ms < self._due_ms:
            self._alarm.arm(self._due_ms)
            return
        self._is_trusted = False
        self._image.doubt(self._leader)
