"""Looking for keys without building records: the same verdict as reading them, at a bounded cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.test_records import CODECS, MALFORMED, record_lists, with_payload

from penstock.errors import PenstockError, Problem
from penstock.units import MIB
from penstock.wire.record_keys import check_keys
from penstock.wire.records import Record, RecordHeader, build_batch, records_of

MANY = 1000


def refusal(batch: bytes | bytearray, *, limit_elements: int = MANY) -> str:
    """Empty: accepted."""
    try:
        check_keys(batch, limit_bytes=MIB, limit_elements=limit_elements)
    except PenstockError as error:
        return f"{error.problem.name}: {error}"
    return ""


def all_have_keys(batch: bytes | bytearray) -> bool:
    try:
        return all(record.key is not None for record in records_of(batch, limit_bytes=MIB))
    except PenstockError:
        return False


@given(record_lists().filter(bool), st.sampled_from(CODECS))
def test_keys_are_found_in_any_batch(records: list[Record], codec: int) -> None:
    batch = build_batch(records, base_offset=1000, compression=codec)
    assert (refusal(batch) == "") == all(record.key is not None for record in records)


@given(record_lists().filter(bool), st.data())
def test_what_cannot_be_read_is_refused_and_nothing_else(records: list[Record], data: st.DataObject) -> None:
    keyed = [record._replace(key=record.key or b"") for record in records]
    batch = build_batch(keyed, base_offset=1000)
    batch[data.draw(st.integers(61, len(batch) - 1))] ^= data.draw(st.integers(1, 255))
    assert (refusal(batch) == "") == all_have_keys(batch)


@pytest.mark.parametrize(("payload", "count"), [pytest.param(p, c, id=name) for name, p, c in MALFORMED])
def test_malformed_records_are_refused(payload: bytes, count: int) -> None:
    assert refusal(with_payload(payload, count=count, last_offset=1)).startswith(Problem.INVALID_RECORD.name)


def test_records_and_headers_are_counted_together() -> None:
    headers = (RecordHeader(b"h", b"v"),) * 4
    batch = build_batch([Record(0, 0, b"k", b"v", headers), Record(1, 0, b"k", None, headers)])
    assert refusal(batch, limit_elements=10) == ""
    assert "9 records and headers" in refusal(batch, limit_elements=9)


def test_too_many_records_are_refused_before_they_are_unpacked() -> None:
    """A payload that cannot be unpacked would be told otherwise."""
    batch = with_payload(b"no zstd", count=11, last_offset=10, compression=4)
    assert refusal(batch, limit_elements=10).startswith(Problem.INVALID_RECORD.name)
    assert refusal(batch, limit_elements=11).startswith(Problem.CORRUPT_RECORDS.name)
