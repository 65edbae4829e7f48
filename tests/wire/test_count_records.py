"""How many messages a reader gets out of whole batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.batch import count_records
from penstock.wire.control import Marker, build_marker
from penstock.wire.records import Record, build_batch


def batch_of(base_offset: int, count: int, compression: int = 0) -> bytes:
    records = [Record(base_offset + place, 0, None, b"x") for place in range(count)]
    return bytes(build_batch(records, base_offset=base_offset, compression=compression))


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from([0, 1, 4])), min_size=1), st.integers(0, 8))
def test_all_from_the_first_offset_on(batches: list[tuple[int, int]], first_offset: int) -> None:
    data, offset = b"", 0
    for count, compression in batches:
        data += batch_of(offset, count, compression)
        offset += count
    first_offset = min(first_offset, batches[0][0] - 1)
    assert count_records(data, first_offset) == offset - first_offset


def test_markers_do_not_count() -> None:
    marker = bytes(build_marker(7, 0, Marker(True, 1), 0))
    assert count_records(batch_of(0, 3) + marker + batch_of(4, 2), 1) == 4
    assert count_records(marker + batch_of(1, 2), 0) == 2
    assert count_records(marker, 5) == 0


def test_where_compaction_left_holes_no_more_than_there_are() -> None:
    kept = bytes(build_batch([Record(2, 0, b"a", b"x"), Record(9, 0, b"b", b"x")], last_offset=9))
    assert count_records(kept, 0) == 2
    assert count_records(kept, 5) == 2
    assert count_records(kept, 9) == 1
    assert count_records(kept + batch_of(12, 3), 11) == 3
    assert count_records(bytes(build_batch([], last_offset=9)), 3) == 0
