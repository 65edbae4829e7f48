"""Which part of a log is compacted, and what stays of a batch."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.core.compaction import (
    BatchFilter,
    ClosedSegment,
    CompactionRules,
    DirtyRange,
    Fate,
    Outcome,
    dirty_range,
    merge_groups,
)
from penstock.storage.core.key_map import KeyMap
from penstock.units import DAY_MS, KIB, MIB
from penstock.wire.batch import crc_matches, read_header
from penstock.wire.records import Record, RecordHeader, build_batch, has_delete_horizon, records_of

NOW = 1_700_000_000_000
FOREVER = 2**63 - 1
RULES = CompactionRules(
    min_cleanable_dirty_ratio=0.5,
    min_compaction_lag_ms=0,
    max_compaction_lag_ms=FOREVER,
    delete_retention_ms=DAY_MS,
    segment_bytes=1000,
)


def segments(*sizes: int, newest_ms: int = NOW - DAY_MS) -> list[ClosedSegment]:
    """Ten offsets each."""
    return [
        ClosedSegment(10 * place, 10 * place + 10, size, newest_ms - 100, newest_ms) for place, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("clean_offset", "bound_offset", "expected"),
    [
        (0, 40, DirtyRange(0, 40)),
        (0, 39, DirtyRange(0, 30)),
        (10, 40, DirtyRange(10, 40)),
        (20, 40, None),  # exactly half is dirty
        (19, 40, DirtyRange(19, 40)),
        (40, 40, None),
        (0, 9, None),
    ],
)
def test_whole_segments_below_the_bound_when_enough_is_dirty(
    clean_offset: int, bound_offset: int, expected: DirtyRange | None
) -> None:
    found = dirty_range(
        segments(100, 100, 100, 100), RULES, clean_offset=clean_offset, bound_offset=bound_offset, now_ms=NOW
    )
    assert found == expected


def test_young_records_are_left_alone() -> None:
    rules = RULES._replace(min_compaction_lag_ms=DAY_MS)
    closed = segments(100, 100, newest_ms=NOW - DAY_MS)
    closed += [ClosedSegment(20, 30, 100, 0, NOW - DAY_MS + 1), ClosedSegment(30, 40, 100, 0, 0)]
    assert dirty_range(closed, rules, clean_offset=0, bound_offset=99, now_ms=NOW) == DirtyRange(0, 20)
    assert dirty_range(closed, RULES, clean_offset=0, bound_offset=99, now_ms=NOW) == DirtyRange(0, 40)


def test_old_records_do_not_wait_for_the_ratio() -> None:
    closed = segments(10_000, 1)
    oldest_ms = closed[1].oldest_ms
    for lag_ms, expected in ((NOW - oldest_ms - 1, DirtyRange(10, 20)), (NOW - oldest_ms, None)):
        rules = RULES._replace(max_compaction_lag_ms=lag_ms)
        assert dirty_range(closed, rules, clean_offset=10, bound_offset=99, now_ms=NOW) == expected


def test_a_log_whose_start_was_deleted_is_dirty_from_its_start_on() -> None:
    closed = segments(1, 1, 1)[1:]
    assert dirty_range(closed, RULES, clean_offset=0, bound_offset=99, now_ms=NOW) == DirtyRange(10, 30)


def test_small_neighbours_are_merged_up_to_a_segment() -> None:
    assert merge_groups(segments(400, 600, 1, 999, 1, 2000, 1), 1000) == [[0, 1], [2, 3], [4], [5], [6]]
    far = [ClosedSegment(0, 10, 1, 0, 0), ClosedSegment(10, 2**31, 1, 0, 0)]
    assert merge_groups(far, 1000) == [[0], [1]]


def filtered(
    batch: bytearray,
    newest: dict[bytes, int],
    *,
    mapped_offset: int = 1000,
    now_ms: int = NOW,
    kept: Collection[tuple[int, int]] = (),
    is_edge: bool = False,
    delete_retention_ms: int = DAY_MS,
) -> Outcome:
    keys = KeyMap(64 * KIB)
    for key, offset in newest.items():
        keys.put(key, offset)
    batch_filter = BatchFilter(
        keys,
        mapped_offset=mapped_offset,
        now_ms=now_ms,
        delete_retention_ms=delete_retention_ms,
        kept_batches=kept,
        limit_bytes=MIB,
    )
    return batch_filter.apply(memoryview(batch), read_header(batch), is_edge=is_edge)


def records_in(outcome: Outcome) -> list[Record]:
    return list(records_of(bytes(outcome.batch), limit_bytes=MIB))


ABC = [Record(10, 5, b"a", b"1"), Record(11, 6, b"b", b"2", (RecordHeader(b"h", b"x"),)), Record(12, 7, b"c", b"3")]


@pytest.mark.parametrize("compression", range(5))
def test_superseded_records_go_and_the_rest_stays_as_it_was(compression: int) -> None:
    batch = build_batch(
        ABC,
        base_offset=10,
        compression=compression,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=40,
        is_transactional=True,
    )
    outcome = filtered(batch, {b"a": 10, b"b": 11, b"c": 50})
    before, after = read_header(batch), read_header(bytes(outcome.batch))
    assert outcome.fate is Fate.REWRITTEN
    assert records_in(outcome) == ABC[:2]
    assert crc_matches(bytes(outcome.batch), after)
    assert (after.base_offset, after.last_offset, after.last_sequence) == (10, 12, 42)
    assert after.max_timestamp == 6
    assert after._replace(length=0, crc=0, record_count=0, max_timestamp=0) == before._replace(
        length=0, crc=0, record_count=0, max_timestamp=0
    )


def test_a_batch_of_newest_records_is_not_touched() -> None:
    batch = build_batch(ABC, base_offset=10)
    outcome = filtered(batch, {b"a": 10, b"b": 11})
    assert (outcome.fate, bytes(outcome.batch)) == (Fate.UNCHANGED, bytes(batch))


def test_records_beyond_the_map_stay() -> None:
    batch = build_batch(
        [Record(10, 0, None, b"x"), Record(11, 0, None, b"x"), Record(12, 0, b"k", None)], base_offset=10
    )
    outcome = filtered(batch, {}, mapped_offset=11)
    assert [record.offset for record in records_in(outcome)] == [11, 12]
    assert filtered(batch, {}, mapped_offset=10).fate is Fate.UNCHANGED


def test_records_without_a_key_go() -> None:
    assert filtered(build_batch([Record(0, 0, None, b"x")]), {}).fate is Fate.DROPPED


def test_a_tombstone_stays_until_its_horizon_has_passed() -> None:
    batch = build_batch([Record(10, 5, b"a", None), Record(11, 9, b"b", b"2")], base_offset=10)
    first = filtered(batch, {b"a": 10})
    header = read_header(bytes(first.batch))
    assert first.fate is Fate.REWRITTEN
    assert (has_delete_horizon(header), header.base_timestamp) == (True, NOW + DAY_MS)
    assert records_in(first) == [Record(10, 5, b"a", None), Record(11, 9, b"b", b"2")]

    marked = bytearray(first.batch)
    assert filtered(marked, {}, now_ms=NOW + DAY_MS - 1).fate is Fate.UNCHANGED
    last = filtered(marked, {}, now_ms=NOW + DAY_MS)
    assert records_in(last) == [Record(11, 9, b"b", b"2")]


def test_a_tombstone_that_stays_for_ever_has_a_horizon_that_fits_the_batch() -> None:
    tombstone = Record(10, 5, b"a", None)
    outcome = filtered(build_batch([tombstone], base_offset=10), {b"a": 10}, delete_retention_ms=2**63 - 1)
    assert read_header(bytes(outcome.batch)).base_timestamp == 2**63 - 1
    assert records_in(outcome) == [tombstone]
    assert filtered(bytearray(outcome.batch), {}, now_ms=NOW + 1000 * DAY_MS).fate is Fate.UNCHANGED


def test_a_superseded_tombstone_goes_at_once() -> None:
    assert filtered(build_batch([Record(10, 5, b"a", None)], base_offset=10), {b"a": 11}).fate is Fate.DROPPED


def test_an_emptied_batch_stays_where_its_producer_or_the_segment_needs_it() -> None:
    batch = build_batch(ABC, base_offset=10, compression=4, producer_id=7, producer_epoch=2, base_sequence=40)
    newer = {b"a": 50, b"b": 51, b"c": 52}
    assert filtered(batch, newer).fate is Fate.DROPPED
    assert filtered(batch, newer, kept={(8, 12), (7, 13)}).fate is Fate.DROPPED
    for outcome in (filtered(batch, newer, kept={(7, 12)}), filtered(batch, newer, is_edge=True)):
        header = read_header(bytes(outcome.batch))
        assert outcome.fate is Fate.REWRITTEN
        assert (header.record_count, header.compression, header.size) == (0, 0, len(outcome.batch))
        assert (header.producer_id, header.producer_epoch, header.last_sequence) == (7, 2, 42)
        assert (header.last_offset, header.max_timestamp) == (12, 7)
        empty = bytearray(outcome.batch)
        assert filtered(empty, newer, is_edge=True).fate is Fate.UNCHANGED
        assert filtered(empty, newer).fate is Fate.DROPPED


def test_markers_and_what_nobody_can_read_stay() -> None:
    control = build_batch([Record(10, 5, b"\0\0\0\1", b"")], base_offset=10, is_control=True, producer_id=1)
    assert filtered(control, {b"\0\0\0\1": 50}).fate is Fate.UNCHANGED
    damaged = build_batch(ABC, base_offset=10)
    damaged[61] = 0x7F
    assert filtered(damaged, {b"a": 50, b"b": 51, b"c": 52}).fate is Fate.UNCHANGED


def test_log_append_time_stays() -> None:
    batch = build_batch(ABC, base_offset=10, is_log_append_time=True, max_timestamp_ms=99)
    outcome = filtered(batch, {b"c": 50})
    assert [record.timestamp_ms for record in records_in(outcome)] == [99, 99]


@given(
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", None]), st.booleans()), min_size=1, max_size=8),
    st.dictionaries(st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 20), max_size=3),
    st.integers(0, 12),
    st.integers(0, 4),
)
def test_a_second_look_changes_nothing(
    entries: list[tuple[bytes | None, bool]], newest: dict[bytes, int], mapped_offset: int, compression: int
) -> None:
    batch = build_batch(
        [Record(n, n, key, b"v" if has_value else None) for n, (key, has_value) in enumerate(entries)],
        compression=compression,
    )
    first = filtered(batch, newest, mapped_offset=mapped_offset, is_edge=True)
    again = filtered(bytearray(first.batch), newest, mapped_offset=mapped_offset, is_edge=True)
    assert (again.fate, bytes(again.batch)) == (Fate.UNCHANGED, bytes(first.batch))
