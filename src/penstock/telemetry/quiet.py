"""Keeps repeated log lines few."""

from __future__ import annotations


class Quiet:
    """Lets a line pass once per key and interval, so that a bad client cannot flood the log.

    `allow` answers how many lines were held back since the last one that passed, or None: hold this one back too.
    """

    def __init__(self, interval_ms: int = 10_000, max_keys: int = 1000) -> None:
        self._interval_ms = interval_ms
        self._max_keys = max_keys
        self._passed_ms: dict[str, int] = {}
        self._held_back: dict[str, int] = {}

    def allow(self, key: str, now_ms: int) -> int | None:
        passed_ms = self._passed_ms.get(key)
        if passed_ms is not None and now_ms - passed_ms < self._interval_ms:
            self._held_back[key] = self._held_back.get(key, 0) + 1
            return None
        if passed_ms is None and len(self._passed_ms) >= self._max_keys:
            self._forget_oldest()
        # Put last, so that the first key is always the one that passed longest ago.
        self._passed_ms.pop(key, None)
        self._passed_ms[key] = now_ms
        return self._held_back.pop(key, 0)

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._passed_ms))
        del self._passed_ms[oldest]
        self._held_back.pop(oldest, None)
