"""Batches of a query, seen from outside: Spark notes in the checkpoint when one begins and when it has ended."""

from __future__ import annotations

import os
from contextlib import suppress


class Batches:
    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint

    @property
    def begun(self) -> int:
        """The newest; -1: none."""
        return self._newest("offsets")

    @property
    def ended(self) -> int:
        return self._newest("commits")

    @property
    def is_amid(self) -> bool:
        """If its driver is killed now it comes again."""
        return self.ended < self.begun

    def last_took_s(self, default_s: float) -> float:
        with suppress(FileNotFoundError):
            ended = self.ended
            times = [os.stat(f"{self._checkpoint}/{name}/{ended}").st_mtime for name in ("offsets", "commits")]
            return max(0.0, times[1] - times[0])
        return default_s

    def _newest(self, directory: str) -> int:
        with suppress(FileNotFoundError):
            names = os.listdir(f"{self._checkpoint}/{directory}")
            return max((int(name) for name in names if name.isdigit()), default=-1)
        return -1
