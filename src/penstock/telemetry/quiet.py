"""Keeps repeated log lines few."""

from __future__ import annotations


class Quiet:
    """Lets so many lines pass per key and interval, so that a bad client cannot flood the log.

    `allow` answers how many lines were held back since the last one that passed, or None: hold this one back too.
    """

    def __init__(self, interval_ms: int = 10_000, max_keys: int = 1000, lines: int = 1) -> None:
        self._interval_ms = interval_ms
        self._max_keys = max_keys
        self._lines = lines
        self._seen: dict[str, _Seen] = {}

    def allow(self, key: str, now_ms: int) -> int | None:
        seen = self._seen.get(key)
        if seen is None or now_ms - seen.since_ms >= self._interval_ms:
            held_back = self._forget(key)
            # Put last, so that the first key is always the one whose interval began longest ago.
            self._seen[key] = _Seen(now_ms)
            return held_back
        if seen.passed < self._lines:
            seen.passed += 1
            return 0
        seen.held_back += 1
        return None

    def _forget(self, key: str) -> int:
        seen = self._seen.pop(key, None)
        if seen is not None:
            return seen.held_back
        if len(self._seen) >= self._max_keys:
            del self._seen[next(iter(self._seen))]
        return 0


class _Seen:
    """One key's present interval."""

    __slots__ = ("held_back", "passed", "since_ms")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.passed = 1
        self.held_back = 0
