"""Markers that end a transaction, as Kafka's clients read them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.units import KIB
from penstock.wire.batch import HEADER_BYTES, crc_of, read_header
from penstock.wire.control import Marker, build_marker, read_marker
from penstock.wire.records import Record, build_batch, records_of

MARKERS = st.builds(Marker, st.booleans(), st.integers(0, 2**31 - 1))


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), MARKERS, st.integers(0, 2**40))
def test_what_is_written_is_read(producer_id: int, epoch: int, marker: Marker, timestamp_ms: int) -> None:
    batch = build_marker(producer_id, epoch, marker, timestamp_ms)
    header = read_header(batch)
    assert read_marker(batch) == marker
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer_id, epoch, -1)
    assert (header.is_control, header.is_transactional, header.record_count) == (True, True, 1)
    assert (header.max_timestamp, header.crc) == (timestamp_ms, crc_of(memoryview(batch)))


def test_key_and_value_are_kafkas() -> None:
    for is_commit, kind in ((False, 0), (True, 1)):
        (record,) = records_of(build_marker(1, 0, Marker(is_commit, 7), 5), limit_bytes=KIB)
        assert (record.key, record.value) == (bytes([0, 0, 0, kind]), bytes([0, 0, 0, 0, 0, 7]))


def test_what_a_newer_version_adds_is_passed_over() -> None:
    record = Record(0, 0, b"\x00\x01\x00\x01more", b"\x00\x01\x00\x00\x00\x09more")
    assert read_marker(build_batch([record], producer_id=1, is_control=True)) == Marker(True, 9)


@given(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=8))
def test_other_control_records_end_nothing(key: bytes | None, value: bytes | None) -> None:
    marker = read_marker(build_batch([Record(0, 0, key, value)], producer_id=1, is_control=True))
    if marker is not None:
        assert key is not None and key[2:4] in (b"\x00\x00", b"\x00\x01")
        assert value is not None and len(value) >= 6


@given(st.data())
def test_damage_is_no_marker(data: st.DataObject) -> None:
    batch = build_marker(1, 0, Marker(True, 7), 5)
    place = data.draw(st.integers(21, len(batch) - 1))
    batch[place] ^= data.draw(st.integers(1, 255))
    assert read_marker(batch) is None
    assert read_marker(build_batch([], producer_id=1, is_control=True)) is None
    assert len(build_batch([], producer_id=1, is_control=True)) == HEADER_BYTES
