from __future__ import annotations

import struct

import crc32c
import pytest

from penstock.errors import PenstockError, Problem
from penstock.units import KIB
from penstock.wire.batch_rules import check_produced
from penstock.wire.records import Record, build_batch

LAST_OFFSET_DELTA_AT, RECORD_COUNT_AT, CRC_AT, CRC_FROM = 23, 57, 17, 21
SMALLEST = [Record(place, 1, None, None) for place in range(10)]


def claiming(count: int, compression: int) -> memoryview:
    batch = build_batch(SMALLEST, compression=compression)
    struct.pack_into(">i", batch, LAST_OFFSET_DELTA_AT, count - 1)
    struct.pack_into(">i", batch, RECORD_COUNT_AT, count)
    struct.pack_into(">I", batch, CRC_AT, crc32c.crc32c(memoryview(batch)[CRC_FROM:]))
    return memoryview(batch)


def test_a_batch_of_the_smallest_records_is_good() -> None:
    assert check_produced(claiming(10, compression=0), KIB).record_count == 10


@pytest.mark.parametrize("count", [11, 2**31 - 1])
def test_more_records_than_the_bytes_can_hold_are_refused(count: int) -> None:
    with pytest.raises(PenstockError, match="cannot hold") as refusal:
        check_produced(claiming(count, compression=0), KIB)
    assert refusal.value.problem is Problem.INVALID_RECORD


def test_what_compressed_bytes_hold_is_not_guessed() -> None:
    assert check_produced(claiming(1000, compression=1), KIB).record_count == 1000
