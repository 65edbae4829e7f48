"""Valid bytes from a seed, and ways to spoil them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import crc32c

from penstock.wire.records import Record, RecordHeader, build_batch
from penstock.wire.shapes import FieldShape, shape_of
from penstock.wire.writing import writer_for

_WORDS = ("", "t", "orders", "grüße", "\N{GRINNING FACE}", "..", "a/b", "\0", "x" * 249, "consumer")
# Where counts and lengths go wrong: ends of ranges, one beside them, and varints that are too long or too large.
_NASTY = (
    b"\x00",
    b"\xff",
    b"\x80",
    b"\x7f",
    b"\xff\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x00\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x80\x80",
    b"\xff\xff\xff\xff\x1f",
    b"\x80\x00",
    b"\xc3\x28",
)


def message_bytes(message: type, random: Random) -> bytes:
    """A valid message of this class."""
    out = bytearray()
    writer_for(message, message)(out, _message(message, random))
    return bytes(out)


def _message(message: type, random: Random) -> Any:
    return message(**{field.name: _value(field, random) for field in shape_of(message)})


def _value(field: FieldShape, random: Random) -> Any:
    if field.nullable and random.random() < 0.2:
        return None
    if field.is_array:
        return tuple(_element(field, random) for _ in range(random.choice((0, 1, 1, 2, 5))))
    return _element(field, random)


def _element(field: FieldShape, random: Random) -> Any:
    return _message(field.entity, random) if field.entity is not None else _SCALARS[field.kind](random)


def _integer(bits: int) -> Callable[[Random], int]:
    ends = (-1, 0, 1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
    return lambda random: random.choice(ends) if random.random() < 0.7 else random.getrandbits(bits - 1)


_SCALARS: dict[str, Callable[[Random], Any]] = {
    "int8": _integer(8),
    "int16": _integer(16),
    "int32": _integer(32),
    "int64": _integer(64),
    "bool": lambda random: random.random() < 0.5,
    "string": lambda random: random.choice(_WORDS),
    "bytes": lambda random: random.randbytes(random.choice((0, 1, 20, 200))),
    "records": lambda random: random.randbytes(random.choice((0, 1, 20, 200))),
    "uuid": lambda random: UUID(int=random.getrandbits(128) | 1) if random.random() < 0.8 else None,
    "timedelta_i32": lambda random: timedelta(milliseconds=_integer(32)(random)),
    "timedelta_i64": lambda random: timedelta(milliseconds=_integer(32)(random)),
}


def batch_bytes(random: Random) -> bytes:
    """A valid record batch in any compression."""
    records = [
        Record(
            offset=number,
            timestamp_ms=1_700_000_000_000 + random.randrange(1000),
            key=random.choice((None, b"", b"key")),
            value=random.choice((None, b"", b"value" * 50)),
            headers=(RecordHeader(b"h", random.choice((None, b"v"))),) * random.randrange(3),
        )
        for number in range(random.choice((1, 2, 10)))
    ]
    return bytes(build_batch(records, compression=random.randrange(5)))


def spoiled_batch(batch: bytes, random: Random) -> bytes:
    """Spoiled, but often with length and CRC made right again, so that what lies behind them is reached."""
    raw = bytearray(spoiled(batch, random))
    if len(raw) >= 61 and random.random() < 0.7:
        struct.pack_into(">i", raw, 8, len(raw) - 12)
        raw[16] = 2
        struct.pack_into(">I", raw, 17, crc32c.crc32c(memoryview(raw)[21:]))
    return bytes(raw)


def spoiled(raw: bytes, random: Random) -> bytes:
    for _ in range(random.choice((1, 1, 2, 4))):
        raw = random.choice(_SPOILS)(raw, random)
    return raw


def _flip(raw: bytes, random: Random) -> bytes:
    if not raw:
        return raw
    changed = bytearray(raw)
    changed[random.randrange(len(raw))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _overwrite(raw: bytes, random: Random) -> bytes:
    nasty, at = random.choice(_NASTY), random.randrange(len(raw) + 1)
    return raw[:at] + nasty + raw[at + len(nasty) :]


def _insert(raw: bytes, random: Random) -> bytes:
    at = random.randrange(len(raw) + 1)
    return raw[:at] + random.choice(_NASTY) + raw[at:]


def _delete(raw: bytes, random: Random) -> bytes:
    at = random.randrange(len(raw) + 1)
    return raw[:at] + raw[at + random.choice((1, 1, 2, 4, 16)) :]


def _truncate(raw: bytes, random: Random) -> bytes:
    return raw[: random.randrange(len(raw) + 1)]


def _repeat(raw: bytes, random: Random) -> bytes:
    start = random.randrange(len(raw) + 1)
    end = min(len(raw), start + random.randrange(64))
    return raw[:end] + raw[start:end] * random.choice((1, 2, 10)) + raw[end:]


def _noise(raw: bytes, random: Random) -> bytes:
    at = random.randrange(len(raw) + 1)
    return raw[:at] + random.randbytes(random.randrange(1, 32)) + raw[at:]


_SPOILS = (_flip, _overwrite, _insert, _delete, _truncate, _repeat, _noise)
