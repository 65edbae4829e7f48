"""Record contents: round trips, other people's batches, and bytes that mean harm."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError, Problem
from penstock.units import KIB, MIB
from penstock.wire.batch import HEADER_BYTES, crc_matches, read_header
from penstock.wire.compression import compress
from penstock.wire.records import Record, RecordHeader, build_batch, has_delete_horizon, records_of

LIMIT = MIB
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = (0, GZIP, SNAPPY, LZ4, ZSTD)
REFUSALS = {
    Problem.INVALID_RECORD,
    Problem.CORRUPT_RECORDS,
    Problem.RECORDS_TOO_LARGE,
    Problem.UNSUPPORTED_COMPRESSION,
    Problem.UNSUPPORTED_RECORD_FORMAT,
}

int64 = st.integers(-(2**63), 2**63 - 1)
headers = st.lists(st.builds(RecordHeader, st.binary(max_size=20), st.none() | st.binary(max_size=20)), max_size=3)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    deltas = sorted(draw(st.sets(st.integers(0, 2**31 - 1), max_size=6)))
    return [
        Record(
            1000 + delta,
            draw(int64),
            draw(st.none() | st.binary(max_size=300)),
            draw(st.none() | st.binary(max_size=300)),
            tuple(draw(headers)),
        )
        for delta in deltas
    ]


def problem_of(batch: bytes | bytearray, limit_bytes: int = LIMIT) -> Problem:
    with pytest.raises(PenstockError) as caught:
        list(records_of(batch, limit_bytes=limit_bytes))
    assert str(caught.value)
    return caught.value.problem


def with_payload(payload: bytes, *, count: int = 1, last_offset: int = 0, compression: int = 0) -> bytearray:
    """A batch that claims `count` records around a payload of any kind."""
    batch = build_batch([], last_offset=last_offset)
    batch[8:12] = (HEADER_BYTES - 12 + len(payload)).to_bytes(4, "big")
    batch[22] = compression
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    return batch + payload


def xerial(data: bytes, block_bytes: int = 64) -> bytes:
    framed = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
    for start in range(0, len(data), block_bytes):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + block_bytes]))
        framed += len(block).to_bytes(4, "big") + block
    return framed


@given(record_lists(), st.sampled_from(CODECS), st.booleans())
def test_what_is_built_is_read_back(records: list[Record], codec: int, has_horizon: bool) -> None:
    batch = build_batch(
        records,
        base_offset=1000,
        last_offset=1000 + 2**31 - 1,
        compression=codec,
        leader_epoch=7,
        producer_id=5,
        producer_epoch=6,
        base_sequence=9,
        is_transactional=True,
        delete_horizon_ms=12345 if has_horizon else None,
    )
    header = read_header(batch)
    assert list(records_of(batch, limit_bytes=LIMIT)) == records
    assert crc_matches(batch, header)
    assert header.size == len(batch)
    assert header.compression == (codec if records else 0)
    assert (header.base_offset, header.last_offset) == (1000, 1000 + 2**31 - 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.leader_epoch) == (5, 6, 9, 7)
    assert (header.is_transactional, header.is_control, has_delete_horizon(header)) == (True, False, has_horizon)


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_reads_what_is_built(codec: int) -> None:
    records = [
        Record(offset, 1_700_000_000_000 + offset, b"key-%d" % offset, b"value" * 50, (RecordHeader(b"h", None),))
        for offset in (0, 3, 4)
    ]
    theirs = DefaultRecordBatch(bytes(build_batch(records, compression=codec)))
    assert theirs.validate_crc()
    assert [
        Record(r.offset, r.timestamp, r.key, r.value, tuple(RecordHeader(k.encode(), v) for k, v in r.headers))
        for r in theirs
    ] == records


@pytest.mark.parametrize("codec", CODECS)
def test_what_aiokafka_builds_is_read(codec: int) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, True, 5, 6, 7, 1_000_000)
    for number in range(40):
        builder.append(number, 1000 + number, b"k%d" % number, None if number % 3 else b"v" * 40, [("name", b"x")])
    records = list(records_of(bytes(builder.build()), limit_bytes=LIMIT))
    assert records == [
        Record(n, 1000 + n, b"k%d" % n, None if n % 3 else b"v" * 40, (RecordHeader(b"name", b"x"),)) for n in range(40)
    ]


@pytest.mark.parametrize("frame", [lambda data: bytes(cramjam.snappy.compress_raw(data)), xerial])
def test_snappy_is_read_raw_and_in_the_java_framing(frame: object) -> None:
    records = [Record(n, 0, b"k", b"some value " * 9) for n in range(20)]
    plain = build_batch(records)
    framed = frame(bytes(plain[HEADER_BYTES:])) if callable(frame) else b""
    assert list(records_of(with_payload(framed, count=20, last_offset=19, compression=SNAPPY), limit_bytes=LIMIT)) == [
        record._replace(timestamp_ms=record.timestamp_ms - 1) for record in records
    ]


def test_log_append_time_is_every_records_timestamp() -> None:
    batch = build_batch(
        [Record(0, 5, b"a", b""), Record(1, 9, b"b", b"")], is_log_append_time=True, max_timestamp_ms=777
    )
    assert [record.timestamp_ms for record in records_of(batch, limit_bytes=LIMIT)] == [777, 777]


def test_an_empty_batch_keeps_its_place() -> None:
    batch = build_batch([], base_offset=10, last_offset=19, compression=ZSTD, max_timestamp_ms=55, base_sequence=3)
    header = read_header(batch)
    assert list(records_of(batch, limit_bytes=0)) == []
    assert (header.last_offset, header.max_timestamp, header.base_timestamp, header.last_sequence) == (19, 55, 55, 12)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_costs_the_limit_and_no_more(codec: int) -> None:
    bomb = with_payload(compress(codec, bytes(64 * MIB)), compression=codec)
    # Resets the kernel's peak, so that what the native decompressors take is counted too.
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak_bytes()
    tracemalloc.start()
    assert problem_of(bomb, limit_bytes=2 * MIB) is Problem.RECORDS_TOO_LARGE
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * MIB
    assert _peak_bytes() - before < 12 * MIB


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * KIB


def test_the_java_framing_is_bounded_over_all_blocks() -> None:
    payload = xerial(bytes(MIB), block_bytes=64 * KIB)
    assert problem_of(with_payload(payload, compression=SNAPPY), limit_bytes=MIB - 1) is Problem.RECORDS_TOO_LARGE


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_the_limit_is_exact(codec: int) -> None:
    batch = build_batch([Record(0, 0, b"k", bytes(100 * KIB))], compression=codec)
    plain = len(build_batch([Record(0, 0, b"k", bytes(100 * KIB))])) - HEADER_BYTES
    assert len(list(records_of(batch, limit_bytes=plain))) == 1
    assert problem_of(batch, limit_bytes=plain - 1) is Problem.RECORDS_TOO_LARGE


MALFORMED: Sequence[tuple[str, bytes, int]] = [
    ("length varint too long", b"\xff" * 6, 1),
    ("length varint of more than 32 bits", b"\xff\xff\xff\xff\x7f", 1),
    ("negative record length", b"\x01" + bytes(10), 1),
    ("record longer than the batch", b"\x7e" + bytes(10), 1),
    ("timestamp varint too long", b"\x1c\x00" + b"\xff" * 10 + bytes(5), 1),
    ("negative key length", b"\x0c\x00\x00\x00\x03\x01\x00", 1),
    ("key beyond its record", b"\x0c\x00\x00\x00\x70\x01\x00" + bytes(99), 1),
    ("key beyond the batch", b"\x0c\x00\x00\x00\x70\x01\x00", 1),
    ("value beyond its record", b"\x0c\x00\x00\x00\x01\x70\x00" + bytes(99), 1),
    ("negative number of headers", b"\x0c\x00\x00\x00\x01\x01\x01", 1),
    ("more headers than bytes", b"\x14\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f", 1),
    ("header without a key", b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1),
    ("record shorter than its length", b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1),
    ("more records claimed", b"\x0c\x00\x00\x00\x01\x01\x00", 2),
    ("fewer records claimed", b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 1),
    ("no records claimed", b"\x0c\x00\x00\x00\x01\x01\x00", 0),
    ("negative number of records", b"\x0c\x00\x00\x00\x01\x01\x00", -1),
    ("two billion records", b"\x0c\x00\x00\x00\x01\x01\x00", 2**31 - 1),
    ("the same offset twice", b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 2),
    ("an offset before the batch", b"\x0c\x00\x00\x01\x01\x01\x00", 1),
    ("an offset behind the batch", b"\x0c\x00\x00\x04\x01\x01\x00", 1),
    ("empty", b"", 1),
]


@pytest.mark.parametrize(("payload", "count"), [pytest.param(p, c, id=name) for name, p, c in MALFORMED])
def test_malformed_records_are_refused(payload: bytes, count: int) -> None:
    assert problem_of(with_payload(payload, count=count, last_offset=1)) is Problem.INVALID_RECORD


def test_the_smallest_record_is_read() -> None:
    """The shape that the malformed ones vary."""
    payload = b"\x0c\x00\x00\x00\x01\x01\x00"
    assert list(records_of(with_payload(payload), limit_bytes=LIMIT)) == [Record(0, -1, None, None)]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize(
    "payload", [b"", b"\x00" * 40, b"\xff" * 40, b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x7f"]
)
def test_what_cannot_be_decompressed_is_corrupt(codec: int, payload: bytes) -> None:
    assert problem_of(with_payload(payload, compression=codec)) in {Problem.CORRUPT_RECORDS, Problem.INVALID_RECORD}


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_cut_off_stream_is_corrupt(codec: int) -> None:
    payload = compress(codec, bytes(build_batch([Record(0, 0, b"k", b"v" * 5000)])[HEADER_BYTES:]))
    assert problem_of(with_payload(payload[:-6], compression=codec)) is Problem.CORRUPT_RECORDS


def test_unknown_compressions_and_formats_are_named() -> None:
    assert problem_of(with_payload(b"abc", compression=5)) is Problem.UNSUPPORTED_COMPRESSION
    old = with_payload(b"abc")
    old[16] = 1
    assert problem_of(old) is Problem.UNSUPPORTED_RECORD_FORMAT
    assert problem_of(with_payload(b"abc")[:-1]) is Problem.INVALID_RECORD
    assert problem_of(b"short") is Problem.INVALID_RECORD


@given(st.binary(max_size=200), st.integers(-3, 300), st.integers(0, 7))
def test_any_payload_gives_records_or_a_refusal(payload: bytes, count: int, codec: int) -> None:
    try:
        list(records_of(with_payload(payload, count=count, last_offset=500, compression=codec), limit_bytes=64 * KIB))
    except PenstockError as error:
        assert error.problem in REFUSALS


@given(record_lists(), st.sampled_from(CODECS), st.data())
def test_a_flipped_byte_gives_records_or_a_refusal(records: list[Record], codec: int, data: st.DataObject) -> None:
    batch = build_batch(records, base_offset=1000, compression=codec)
    batch[data.draw(st.integers(0, len(batch) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        list(records_of(batch, limit_bytes=64 * KIB))
    except PenstockError as error:
        assert error.problem in REFUSALS
