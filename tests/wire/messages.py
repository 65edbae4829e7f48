"""Hypothesis strategies for every message that Penstock speaks, and kio's codec as the oracle."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from penstock.wire.schemas import response_class, response_header_version
from penstock.wire.shapes import FieldShape, shape_of
from penstock.wire.versions import encode

# API key → oldest and newest version served, or that will be once transactions are.
SERVED: Mapping[int, tuple[int, int]] = {
    0: (3, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 6),
    23: (2, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (1, 2),
    28: (0, 5),
    32: (1, 4),
    33: (0, 2),
    35: (1, 5),
    37: (0, 3),
    42: (0, 2),
    44: (0, 1),
    47: (0, 0),
    60: (0, 2),
    61: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    75: (0, 0),
}


SERVED_VERSIONS = [
    (api_key, version) for api_key, (oldest, newest) in SERVED.items() for version in range(oldest, newest + 1)
]

_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_SCALARS: Mapping[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": _INT32,
    "int64": _INT64,
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "bool": st.booleans(),
    "string": st.text(max_size=8),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "uuid": st.none() | st.uuids(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _INT32.map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(-(10**12), 10**12).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 2**31).map(lambda s: datetime.fromtimestamp(s, UTC)),
}


def messages(message: type) -> st.SearchStrategy[Any]:
    return st.builds(message, **{field.name: _values(field) for field in shape_of(message)})


def _values(field: FieldShape) -> st.SearchStrategy[Any]:
    value: st.SearchStrategy[Any] = _SCALARS[field.kind] if field.entity is None else messages(field.entity)
    if field.is_array:
        value = st.lists(value, max_size=3).map(tuple)
    return st.none() | value if field.nullable else value


def kio_bytes(message: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def kio_message(message: type, data: bytes) -> Any:
    """All of `data` is one message."""
    read: Callable[[bytes, int], tuple[Any, int]] = entity_reader(message)
    value, size = read(data, 0)
    assert size == len(data)
    return value


def sent_as(response: Any, api_key: int, version: int, throttle_ms: int = 0) -> Any:
    """What a client of this version reads."""
    raw = bytes(encode(response, api_key, version, correlation_id=-5, throttle_ms=throttle_ms))
    assert struct.unpack_from(">ii", raw) == (len(raw) - 4, -5)
    body = raw[8:]
    if response_header_version(api_key, version) == 1:
        assert body[:1] == b"\0"
        body = body[1:]
    return kio_message(response_class(api_key, version), body)
