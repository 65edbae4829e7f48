"""When a process that ended is started again: soon at first, ever later while that does not help."""

from __future__ import annotations

_FIRST_S = 1.0
_LONGEST_S = 30.0
# Who was well for this long did not end for what ended it before.
_WELL_S = 60.0


class Restarts:
    """Of one process."""

    def __init__(self) -> None:
        self._pause_s = _FIRST_S

    def pause_s(self, well_for_s: float) -> float:
        """Before the next start, now that it has ended."""
        if well_for_s >= _WELL_S:
            self._pause_s = _FIRST_S
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_S)
        return pause_s
