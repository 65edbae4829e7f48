"""The rate of moves holds, whatever the fetches bring."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster.core.throttle import Throttle
from penstock.units import KIB, MIB, SECOND_MS


def fetched(
    throttle: Throttle, seconds: int, batch_bytes: int, numbers: Random, latency_ms: int, fetchers: int = 1
) -> list[tuple[int, int]]:
    """When how much arrived, from fetches of up to 1 MiB that bring whole batches, at least one each."""
    arrivals: list[tuple[int, int]] = []
    # Each fetcher: when it acts next, and what it has been granted.
    waiting: list[tuple[int, int]] = [(0, 0)] * fetchers
    while True:
        waiting.sort()
        now_ms, granted = waiting.pop(0)
        if now_ms >= seconds * SECOND_MS:
            return arrivals
        if granted:
            brought = max(granted // batch_bytes, 1) * batch_bytes
            throttle.settle(granted, brought)
            arrivals.append((now_ms, brought))
        granted = throttle.grant(MIB, now_ms)
        waiting.append(
            (now_ms + numbers.randint(1, latency_ms), granted) if granted else (throttle.next_ms(MIB, now_ms), 0)
        )


@settings(max_examples=60)
@given(
    rate=st.sampled_from([200 * KIB, MIB, 5 * MIB, 20 * MIB, 100 * MIB]),
    batch_bytes=st.sampled_from([1, KIB, 16 * KIB, 100 * KIB, MIB]),
    latency_ms=st.integers(1, 80),
    fetchers=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_the_rate_holds_within_a_fifth(rate: int, batch_bytes: int, latency_ms: int, fetchers: int, seed: int) -> None:
    # A batch comes whole, so the stretch to look at must be long enough for some of them.
    seconds = max(3, 5 * fetchers * batch_bytes // rate)
    arrivals = fetched(Throttle(rate, 0), seconds, batch_bytes, Random(seed), latency_ms, fetchers)
    total = sum(size_bytes for _, size_bytes in arrivals)
    assert total <= 1.2 * rate * seconds
    # A fetcher has one request at a time, of 1 MiB at most: that alone may be less than the rate.
    reachable = min(rate, fetchers * MIB * SECOND_MS // latency_ms)
    assert total >= 0.8 * reachable * seconds - MIB


def test_every_second_holds_also_after_a_pause() -> None:
    throttle, numbers = Throttle(10 * MIB, 0), Random(1)
    before = fetched(throttle, 2, 4 * KIB, numbers, latency_ms=5)
    throttle.settle(0, 0)
    assert throttle.grant(100 * MIB, 60 * SECOND_MS) == 2 * MIB, "a minute of silence saves up a fifth of a second"
    for start_ms in range(0, 1000, 50):
        within = sum(size_bytes for at_ms, size_bytes in before if start_ms <= at_ms < start_ms + SECOND_MS)
        assert within <= 12 * MIB


def test_a_batch_larger_than_the_grant_is_paid_back() -> None:
    throttle = Throttle(100 * KIB, 0, burst_bytes=20 * KIB)
    assert throttle.grant(MIB, 0) == 0
    assert throttle.next_ms(MIB, 0) == 100
    granted = throttle.grant(MIB, 100)
    assert granted == 10 * KIB
    throttle.settle(granted, 110 * KIB)
    assert throttle.next_ms(MIB, 100) == 100 + 1000 + 100
    assert throttle.grant(MIB, 1199) == 0
    assert throttle.grant(MIB, 1200) == 10 * KIB


def test_what_a_failed_fetch_was_granted_is_given_to_the_next() -> None:
    throttle = Throttle(MIB, 0)
    granted = throttle.grant(100 * KIB, 200)
    assert granted == 100 * KIB
    throttle.settle(granted, 0)
    assert throttle.grant(100 * KIB, 200) == 100 * KIB


def test_a_small_wish_is_granted_as_soon_as_there_is_enough_for_it() -> None:
    throttle = Throttle(1000, 0)
    assert throttle.next_ms(1, 0) == 1
    assert throttle.grant(1, 1) == 1
    assert throttle.next_ms(1, 1) == 2


@settings(max_examples=100)
@given(rate=st.integers(1, 10**9), wanted=st.integers(1, 10**8), burst=st.none() | st.integers(1, 10**8))
def test_what_is_promised_is_granted_and_not_earlier(rate: int, wanted: int, burst: int | None) -> None:
    throttle = Throttle(rate, 0, burst)
    when_ms = throttle.next_ms(wanted, 0)
    assert throttle.grant(wanted, when_ms - 1) == 0
    assert 0 < throttle.grant(wanted, when_ms) <= wanted


def test_another_rate_counts_from_now_on_and_forgives_nothing() -> None:
    throttle = Throttle(MIB, 0)
    granted = throttle.grant(MIB, 1000)
    throttle.settle(granted, granted + MIB)
    throttle.change_rate(2 * MIB, 1500)
    assert throttle.next_ms(1, 1500) == 1751, "half of the debt was paid at the old rate"
    with pytest.raises(ValueError, match="0 bytes a second"):
        throttle.change_rate(0, 2000)
