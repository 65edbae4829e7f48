"""Record batches: good ones, and good ones with one thing wrong."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import cramjam
import crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder  # type: ignore[import-untyped]

# Retention goes by what records say, so they must not be old.
_NOW_MS = int(time.time() * 1000)
_CRC_AT = 17
_CRC_START = 21
_FIELDS = {
    "length": (8, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}


def good_batch(count: int = 1, value: bytes = b"value", codec: int = 0, key: bytes | None = b"key") -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 64 * 1024 * 1024)
    for index in range(count):
        builder.append(index, timestamp=_NOW_MS, key=key, value=value, headers=[])
    return bytes(builder.build())


def tampered(batch: bytes, *, fix_crc: bool = True, **changes: int) -> bytes:
    """With these header fields set to something else; the CRC agrees unless told otherwise."""
    wrong = bytearray(batch)
    for name, value in changes.items():
        position, form = _FIELDS[name]
        struct.pack_into(form, wrong, position, value)
    if fix_crc:
        struct.pack_into(">I", wrong, _CRC_AT, crc32c.crc32c(bytes(wrong[_CRC_START:])))
    return bytes(wrong)


def with_records(records: bytes, codec: int, count: int = 1) -> bytes:
    """A batch around bytes that a builder would not make."""
    header = bytearray(good_batch()[:61])
    batch = bytes(header) + records
    return tampered(batch, length=len(batch) - 12, attributes=codec, record_count=count, last_offset_delta=count - 1)


def bomb(codec: str, size: int) -> bytes:
    """A few kilobytes that become one record of `size` zero bytes."""
    compressor = {"gzip": cramjam.gzip, "lz4": cramjam.lz4, "zstd": cramjam.zstd}[codec].Compressor()
    number = {"gzip": 1, "lz4": 3, "zstd": 4}[codec]
    for chunk in _record_of_zeros(size):
        compressor.compress(chunk)
    return with_records(bytes(compressor.finish()), number)


def _record_of_zeros(size: int) -> Iterator[bytes]:
    value = _varint(size)
    head = b"\x00\x00\x00" + _varint(1) + b"k" + value
    yield _varint(len(head) + size + 1) + head
    chunk = bytes(1024 * 1024)
    for start in range(0, size, len(chunk)):
        yield chunk[: size - start]
    yield b"\x00"


def _varint(number: int) -> bytes:
    zigzag, out = number << 1, bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)
