"""The memory that replies take while their clients do not read them, over all connections.

A client that reads costs nothing here: its replies are in the kernel before the next request is looked at.
"""

from __future__ import annotations

from typing import Final

# One answer gets at most this share of what is left, so that the first slow reader does not take it all.
_SHARE: Final = 4


class ReplyMemory:
    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    @property
    def exhausted(self) -> bool:
        return self._held_bytes >= self._limit_bytes

    def allowance(self) -> int:
        """How large an answer may be that can be made smaller. 0: as small as possible."""
        return max(0, self._limit_bytes - self._held_bytes) // _SHARE

    def hold(self, size: int) -> None:
        self._held_bytes += size

    def release(self, size: int) -> None:
        self._held_bytes -= size
