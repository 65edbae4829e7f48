"""How far replicas are compared."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from penstock.pipelines.core.audit_compare import comparison_of
from penstock.pipelines.core.audited_log import NO_TOPIC_ID, UNKNOWN, AuditedLog
from penstock.storage.core.checkpoint import Checkpoint
from penstock.storage.core.leader_epochs import EpochStart
from penstock.storage.core.producer_state import ProducerEntry

TOPIC_ID = UUID(int=1)


def log(
    *,
    start: int = 0,
    high_watermark: int = UNKNOWN,
    vouched: int = 0,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    begun: Sequence[int] = (),
    may_have_gaps: bool = False,
    topic_id: UUID = TOPIC_ID,
) -> AuditedLog:
    producers = [ProducerEntry(number, 0, (), 0, 0, offset) for number, offset in enumerate(begun)]
    starts = [EpochStart(*each) for each in epochs]
    return AuditedLog(
        replica="r",
        topic="t",
        topic_id=topic_id,
        partition=0,
        is_served=high_watermark != UNKNOWN,
        start_offset=start,
        high_watermark=high_watermark,
        may_have_gaps=may_have_gaps,
        segments=(),
        checkpoint=Checkpoint(vouched, start, [], starts, producers),
    )


def compared(*logs: AuditedLog) -> tuple[int, int] | None:
    comparison = comparison_of(logs)
    return None if comparison is None else (comparison.start, comparison.limit)


def test_from_the_highest_start_to_the_lowest_high_watermark() -> None:
    assert compared(log(start=3, high_watermark=90), log(start=7, high_watermark=80), log(high_watermark=99)) == (7, 80)


def test_one_replica_and_those_that_share_nothing_are_not_compared() -> None:
    assert compared(log(high_watermark=90)) is None
    assert compared(log(high_watermark=10), log(start=10, high_watermark=50)) is None


def test_logs_of_another_topic_of_that_name_are_not_compared() -> None:
    assert compared(log(high_watermark=9), log(high_watermark=9, topic_id=UUID(int=2))) is None
    assert compared(log(high_watermark=9), log(high_watermark=9, topic_id=NO_TOPIC_ID)) == (0, 9)


def test_stopped_logs_are_compared_up_to_where_they_part() -> None:
    one = log(vouched=100, epochs=[(0, 0), (5, 40)])
    assert compared(one, log(vouched=120, epochs=[(0, 0), (5, 40)])) == (0, 100)
    assert compared(one, log(vouched=120, epochs=[(0, 0), (5, 40), (6, 90)])) == (0, 90)
    assert compared(one, log(vouched=120, epochs=[(0, 0), (6, 30)])) == (0, 30)
    assert compared(one, log(vouched=120, epochs=[(0, 0), (3, 30), (6, 35)])) == (0, 30)
    assert compared(one, log(vouched=0, epochs=[])) is None


def test_an_epoch_in_which_nothing_was_written_does_not_count() -> None:
    assert compared(log(vouched=50, epochs=[(0, 0), (4, 50)]), log(vouched=60, epochs=[(0, 0)])) == (0, 50)


def test_compacted_logs_are_compared_where_all_transactions_have_ended() -> None:
    compacted = log(high_watermark=90, vouched=80, may_have_gaps=True, begun=[-1, 70, 75])
    comparison = comparison_of([compacted, log(high_watermark=90, vouched=85, begun=[])])
    assert comparison is not None
    assert (comparison.limit, comparison.by_key) == (70, True)


def test_a_long_log_is_told_apart_by_so_many_windows() -> None:
    comparison = comparison_of([log(high_watermark=10**9), log(high_watermark=10**9)])
    assert comparison is not None
    assert 2000 <= 10**9 // comparison.window <= 4096
