from __future__ import annotations

import pytest

from penstock.pipelines.core.batch_ranges import batch_ranges
from penstock.pipelines.core.ledger import Ledger, Range, check_apart
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.spark.core.source_offset import SourceOffset
from penstock.spark.core.topic_partition import TopicPartition

A, B, C = (TopicPartition("orders", partition) for partition in range(3))


def test_the_first_batch_begins_where_the_query_was_told_to() -> None:
    found = batch_ranges(None, SourceOffset({A: 7, B: 5}), {A: 3, B: 5})
    assert found == (Range("orders", 0, 3, 7),)


def test_the_first_batch_done_again_begins_where_it_did_before() -> None:
    """Whatever the query was told the second time."""
    end = SourceOffset({A: 7, B: 5}, begins={A: 3, B: 5})
    assert batch_ranges(None, end, {A: 7, B: 0}) == (Range("orders", 0, 3, 7),)
    # Spark may end the next batch, which has nothing new, with the same words.
    assert batch_ranges(end, end, {}) == ()


def test_later_ones_where_the_one_before_ended() -> None:
    """And a partition that was not there then, at its beginning: wherever new queries would begin."""
    found = batch_ranges(SourceOffset({A: 7, B: 5}), SourceOffset({A: 7, B: 9, C: 2}), {A: 0, B: 0, C: 1})
    assert found == (Range("orders", 1, 5, 9), Range("orders", 2, 0, 2))


def test_other_queries_are_kept_apart_where_they_overlap() -> None:
    other = Ledger(0, "x", (Range("orders", 0, 0, 5), Range("orders", 1, 0, 9)))
    check_apart([other], [Range("orders", 0, 5, 6), Range("clicks", 0, 0, 5)])
    with pytest.raises(PipelineRefused, match="offsets 4 to 4 of orders-0"):
        check_apart([other], [Range("orders", 0, 4, 6)])
