from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.core.read_limits import ReadLimits
from penstock.spark.core.topic_partition import TopicPartition

PARTITIONS = [TopicPartition("a", number) for number in range(5)]
BEGINS = st.fixed_dictionaries({partition: st.integers(0, 2**62) for partition in PARTITIONS})
SIZES = st.fixed_dictionaries({partition: st.integers(0, 10**9) for partition in PARTITIONS})


def test_without_limits_everything_at_once() -> None:
    begins, ends = {PARTITIONS[0]: 3}, {PARTITIONS[0]: 9}
    assert ReadLimits().limited(begins, ends) == ends
    assert not ReadLimits().is_too_early(0, 0)


def test_shares_by_what_a_partition_has() -> None:
    a, b, c = PARTITIONS[:3]
    begins, ends = {a: 0, b: 100, c: 7}, {a: 30, b: 170, c: 8}
    assert ReadLimits(max_offsets=10).limited(begins, ends) == {a: 2, b: 106, c: 8}


def test_a_partition_whose_begin_nobody_knows_keeps_its_end() -> None:
    a, b = PARTITIONS[:2]
    assert ReadLimits(max_offsets=1).limited({a: 0}, {a: 5, b: 9}) == {a: 1, b: 9}
    assert ReadLimits(max_offsets=1).limited({a: 0, b: 10}, {a: 5, b: 9}) == {a: 1, b: 9}


@given(BEGINS, SIZES, st.integers(1, 10**10))
def test_limits_hold_and_nobody_starves(
    begins: dict[TopicPartition, int], sizes: dict[TopicPartition, int], most: int
) -> None:
    ends = {partition: begins[partition] + sizes[partition] for partition in PARTITIONS}
    limited = ReadLimits(max_offsets=most).limited(begins, ends)
    taken = {partition: limited[partition] - begins[partition] for partition in PARTITIONS}
    assert all(0 <= taken[partition] <= sizes[partition] for partition in PARTITIONS)
    assert all(taken[partition] for partition in PARTITIONS if sizes[partition])
    assert sum(taken.values()) <= most + len(PARTITIONS)
    assert sum(taken.values()) >= min(most, sum(sizes.values())) - len(PARTITIONS)


def test_a_batch_that_is_too_small_waits_until_it_has_waited_long_enough() -> None:
    limits = ReadLimits(min_offsets=10, max_delay_ms=500)
    assert limits.is_too_early(9, since_last_batch_ms=499)
    assert not limits.is_too_early(10, since_last_batch_ms=0)
    assert not limits.is_too_early(0, since_last_batch_ms=500)
    assert not limits.is_too_early(0, since_last_batch_ms=None)
