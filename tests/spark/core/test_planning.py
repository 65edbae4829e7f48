from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.planning import Plan, plan_batch, plan_stream, split, without_begin
from penstock.spark.core.positions import PositionError
from penstock.spark.core.source_offset import SourceOffset
from penstock.spark.core.topic_partition import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": UUID(int=1), "b": UUID(int=2)}


def offset(offsets: dict[TopicPartition, int], ids: dict[str, UUID] = IDS) -> SourceOffset:
    return SourceOffset(offsets, dict.fromkeys(offsets, 4), ids)


def piece(partition: TopicPartition, start: int, end: int, topic_id: UUID | None = None) -> OffsetRange:
    return OffsetRange(partition.topic, topic_id or IDS[partition.topic], partition.partition, start, end, 4)


def planned(start: SourceOffset, end: SourceOffset, earliest: dict[TopicPartition, int]) -> Plan:
    return plan_stream(start, end, earliest, now=end)


def test_from_one_offset_to_the_next() -> None:
    plan = planned(offset({A0: 3, A1: 5, B0: 0}), offset({A0: 9, A1: 5, B0: 2}), {})
    assert plan.ranges == (piece(A0, 3, 9), piece(B0, 0, 2))
    assert not plan.losses


def test_a_new_partition_is_read_from_its_beginning() -> None:
    start, end = offset({A0: 3}), offset({A0: 3, A1: 6})
    assert without_begin(start, end) == {A1}
    assert planned(start, end, {A1: 0}).ranges == (piece(A1, 0, 6),)
    late = planned(start, end, {A1: 2})
    assert late.ranges == (piece(A1, 2, 6),)
    assert late.losses == ("Added partition a-1 starts from 2 instead of 0.",)


def test_a_new_partition_that_is_gone_again() -> None:
    plan = planned(offset({A0: 3}), offset({A0: 4, A1: 6}), {})
    assert plan.ranges == (piece(A0, 3, 4),)
    assert plan.losses == ("Cannot find initial offsets for partitions a-1. They may have been deleted.",)


def test_a_topic_that_is_gone_before_anybody_knew_its_id() -> None:
    plan = planned(offset({A0: 3, B0: 1}), offset({A0: 4, B0: 6}, {"a": IDS["a"]}), {})
    assert plan.ranges == (piece(A0, 3, 4),)
    assert plan.losses == ("Cannot find initial offsets for partitions b-0. They may have been deleted.",)


def test_a_partition_that_is_gone() -> None:
    plan = planned(offset({A0: 3, B0: 1}), offset({A0: 4}), {})
    assert plan.ranges == (piece(A0, 3, 4),)
    assert plan.losses == ("Partitions b-0 have been deleted.",)


def test_a_log_that_was_cut_off_and_is_longer_by_now() -> None:
    plan = plan_stream(offset({A0: 3, A1: 5}), offset({A0: 9, A1: 6}), {}, offset({}), {A0: 2})
    assert plan.ranges == (piece(A0, 2, 9), piece(A1, 5, 6))
    assert plan.losses == (
        "Partition a-0 was read up to offset 3, and an election has cut it off at 2: what follows there are other "
        "records.",
    )


def test_a_log_that_has_become_shorter() -> None:
    plan = planned(offset({A0: 3}), offset({A0: 2}), {})
    assert not plan.ranges
    assert "Partition a-0 offset was changed from 3 to 2." in plan.losses[0]


def test_a_topic_that_was_created_anew_is_a_loss_and_a_new_topic() -> None:
    again = UUID(int=9)
    start, end = offset({A0: 3, A1: 1}), offset({A0: 50, A1: 2}, {"a": again})
    assert without_begin(start, end) == {A0, A1}
    plan = planned(start, end, {A0: 1, A1: 0})
    assert plan.ranges == (piece(A0, 1, 50, again), piece(A1, 0, 2, again))
    assert len(plan.losses) == 1
    assert "Topic a has been deleted and created again" in plan.losses[0]


def test_a_batch_that_is_done_again_of_a_topic_that_is_no_more() -> None:
    now = SourceOffset({}, {}, {"a": UUID(int=9), "b": IDS["b"]})
    plan = plan_stream(offset({A0: 3, B0: 1}), offset({A0: 5, B0: 2}), {}, now)
    assert plan.ranges == (piece(B0, 1, 2),)
    assert "Topic a has been deleted and created again" in plan.losses[0]


def test_a_batch_that_would_end_before_it_starts() -> None:
    assert plan_batch(offset({A0: 3, A1: 5}), offset({A0: 9, A1: 5})) == (piece(A0, 3, 9),)
    with pytest.raises(
        PositionError, match="resolved start offset 6 is greater than the resolved end offset 5 for topic a"
    ):
        plan_batch(offset({A0: 6}), offset({A0: 5}))
    with pytest.raises(PositionError, match="different topic partitions"):
        plan_batch(offset({A0: 6}), offset({A0: 7, A1: 5}))


def test_a_partition_is_a_task_unless_told_otherwise() -> None:
    ranges = (piece(A0, 0, 10), piece(A1, 0, 90))
    assert split(ranges, None, None) == ranges
    assert split(ranges, 2, None) == ranges
    assert [r.end - r.start for r in split(ranges, 10, None)] == [10] + [10] * 9
    assert [r.end - r.start for r in split(ranges, 4, None)] == [10, 30, 30, 30]
    assert [r.end - r.start for r in split(ranges, None, 40)] == [10, 30, 30, 30]
    assert split((), 4, 4) == ()


@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.integers(1, 10**6)), max_size=6),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(10**4, 10**7),
)
def test_pieces_are_the_whole(rows: list[tuple[int, int]], least: int | None, most: int | None) -> None:
    ranges = [OffsetRange("a", IDS["a"], n, start, start + size, 4) for n, (start, size) in enumerate(rows)]
    pieces = split(ranges, least, most)
    assert all(0 < part.end - part.start <= (most or part.end) for part in pieces)
    for whole in ranges:
        parts = [part for part in pieces if part.partition == whole.partition]
        assert (parts[0].start, parts[-1].end) == (whole.start, whole.end)
        assert all(one.end == other.start for one, other in pairwise(parts))
