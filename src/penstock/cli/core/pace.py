"""How fast something goes, and how long it will take: from the amounts that were seen lately."""

from __future__ import annotations

from collections import deque

# Long enough that the rate does not jump from look to look, short enough that it follows.
_WINDOW_S = 10.0
_LEAST_S = 1.0
_MINUTE_S = 60
_HOUR_S = 3600


class Pace:
    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def seen(self, done_bytes: int, now_s: float) -> None:
        self._seen.append((now_s, done_bytes))
        while now_s - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()

    @property
    def bytes_a_second(self) -> float | None:
        """None while too little was seen."""
        if not self._seen:
            return None
        (began_s, before), (now_s, after) = self._seen[0], self._seen[-1]
        return (after - before) / (now_s - began_s) if now_s - began_s >= _LEAST_S else None

    def text(self, left_bytes: int) -> str:
        """The rate and the time that is left; empty while nobody knows."""
        rate = self.bytes_a_second
        if rate is None:
            return ""
        if rate <= 0 or left_bytes <= 0:
            return f"{max(rate, 0) / 1e6:,.1f} MB/s"
        return f"{rate / 1e6:,.1f} MB/s, {_duration(left_bytes / rate)} left"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
