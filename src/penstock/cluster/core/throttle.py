"""How much of a move may be fetched now: a token bucket over all fetches that share a rate."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.units import SECOND_MS

# Of a second's bytes: what may be saved up while nobody asks. With more, a second after a pause could bring more than
# a fifth too much; with less, a fetch that is answered late would leave some of the rate unused.
BURST_SHARE = 0.2


class Throttle:
    """Each fetch asks for a grant, fetches at most that, and settles with what it brought.

    A fetch may bring more than it was granted, because a batch comes whole: that is owed, and nothing is granted until
    it is paid. So no stretch of time brings more than rate x time + burst + what one fetch overshoots. Nothing of the
    rate is lost while someone asks within half a burst's time of `next_ms`.
    """

    def __init__(self, bytes_per_s: int, now_ms: int, burst_bytes: int | None = None) -> None:
        """Begins with nothing saved up. The burst is a fifth of a second's bytes unless it is given."""
        self._at_ms = now_ms
        # In thousandths of a byte: at a low rate a millisecond brings less than one byte.
        self._saved = 0
        self.change_rate(bytes_per_s, now_ms, burst_bytes)

    def change_rate(self, bytes_per_s: int, now_ms: int, burst_bytes: int | None = None) -> None:
        """From now on. What is owed stays owed."""
        if bytes_per_s < 1:
            raise ValueError(f"{bytes_per_s} bytes a second would let nothing through")
        if self._at_ms < now_ms:
            self._refill(now_ms)
        self._rate = bytes_per_s
        self._burst = max(1, int(bytes_per_s * BURST_SHARE) if burst_bytes is None else burst_bytes)
        self._save(0)

    def grant(self, wanted_bytes: int, now_ms: int) -> int:
        """How much may be fetched now, at most what is wanted; 0: not before `next_ms`. It counts as fetched."""
        self._refill(now_ms)
        if self._saved < self._worthwhile(wanted_bytes) * SECOND_MS:
            return 0
        granted = min(wanted_bytes, self._saved // SECOND_MS)
        self._saved -= granted * SECOND_MS
        return granted

    def settle(self, granted_bytes: int, fetched_bytes: int) -> None:
        """Once for each grant, also when its fetch failed."""
        self._save((granted_bytes - fetched_bytes) * SECOND_MS)

    def next_ms(self, wanted_bytes: int, now_ms: int) -> int:
        """When a grant of `wanted_bytes`, or of enough to be worth a fetch, is possible; `now_ms` if it is now."""
        self._refill(now_ms)
        missing = self._worthwhile(wanted_bytes) * SECOND_MS - self._saved
        return now_ms + max(0, -(-missing // self._rate))

    def _worthwhile(self, wanted_bytes: int) -> int:
        """Not a byte at a time; and not all that can be saved up, so that whoever comes a little late loses nothing."""
        return max(1, min(wanted_bytes, self._burst // 2))

    def _refill(self, now_ms: int) -> None:
        passed_ms = max(0, now_ms - self._at_ms)
        self._at_ms += passed_ms
        self._save(passed_ms * self._rate)

    def _save(self, amount: int) -> None:
        self._saved = min(self._saved + amount, self._burst * SECOND_MS)


def grant_by_all(throttles: Sequence[Throttle], wanted_bytes: int, now_ms: int) -> int:
    """What each of them grants; settle it with each. 0: not before `next_of_all_ms`."""
    granted, given = wanted_bytes, []
    for throttle in throttles:
        granted = throttle.grant(granted, now_ms)
        given.append((throttle, granted))
        if not granted:
            break
    for throttle, each in given:
        throttle.settle(each, granted)
    return granted


def next_of_all_ms(throttles: Sequence[Throttle], wanted_bytes: int, now_ms: int) -> int:
    return max(throttle.next_ms(wanted_bytes, now_ms) for throttle in throttles)
