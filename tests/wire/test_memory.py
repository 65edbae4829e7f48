"""One decoded request stays within 64 MiB: what `MAX_ELEMENTS` and `MAX_REQUEST_BYTES` were derived from."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.wire.messages import SERVED, kio_bytes

from penstock.units import MIB
from penstock.wire.bounds import MAX_ELEMENTS, MAX_REQUEST_BYTES, MAX_STRING_BYTES, uuid_of
from penstock.wire.fetch import read_fetch_request
from penstock.wire.malformed import Malformed
from penstock.wire.produce import MAX_PRODUCE_ELEMENTS, read_produce_request
from penstock.wire.produce_response import pack_produce_response
from penstock.wire.produced import PartitionProduced, ProduceResponse, TopicProduced
from penstock.wire.schemas import FETCH, PRODUCE, request_class
from penstock.wire.shapes import FieldShape, shape_of
from penstock.wire.versions import decode

ELEMENT_BYTES = 400
# One character that makes Python store the whole string in four bytes each.
WIDE = "\N{GRINNING FACE}"
_ROWS = 300

# The dearest value of each kind for its size on the wire.
_DEAR: dict[str, Any] = {
    "int8": 100,
    "int16": 2**14,
    "int32": 2**30,
    "int64": 2**62,
    "bool": True,
    "string": WIDE,
    "bytes": b"ab",
    "records": b"ab",
    "uuid": UUID(int=1),
    "timedelta_i32": timedelta(hours=1),
    "timedelta_i64": timedelta(hours=1),
}


def filled(message: type, path: tuple[str, ...], rows: int) -> Any:
    """A message in which the array at this path has so many rows, and every other array none."""
    return message(**{field.name: _value(field, path, rows) for field in shape_of(message)})


def _value(field: FieldShape, path: tuple[str, ...], rows: int) -> Any:
    if not field.is_array:
        return filled(field.entity, (), 0) if field.entity is not None else _DEAR[field.kind]
    if not path or field.name != path[0]:
        return ()
    row = _DEAR[field.kind] if field.entity is None else filled(field.entity, path[1:], rows)
    return (row,) * (rows if len(path) == 1 else 1)


def arrays(message: type) -> Iterator[tuple[str, ...]]:
    for field in shape_of(message):
        if field.is_array:
            yield (field.name,)
            if field.entity is not None:
                yield from ((field.name, *inner) for inner in arrays(field.entity))


def held_bytes(make: Callable[[], object]) -> int:
    """How much memory the made object holds on to."""
    tracemalloc.start()
    try:
        made = make()
        held, _ = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return held


@pytest.mark.parametrize(
    ("api_key", "version"), [(key, version) for key, both in SERVED.items() for version in {*both}]
)
def test_an_element_takes_no_more_than_was_reckoned(api_key: int, version: int) -> None:
    def read(raw: bytes) -> object:
        if api_key == PRODUCE:
            return read_produce_request(memoryview(raw), 0, version)
        if api_key == FETCH:
            return read_fetch_request(memoryview(raw), 0, version)
        return decode(api_key, version, raw)

    message = request_class(api_key, version)
    for path in arrays(message):
        one, many = kio_bytes(filled(message, path, 1)), kio_bytes(filled(message, path, _ROWS + 1))
        read(many)
        uuid_of.cache_clear()
        per_row = (held_bytes(lambda: read(many)) - held_bytes(lambda: read(one))) / _ROWS  # noqa: B023
        assert per_row <= ELEMENT_BYTES, path


def peak_bytes(read: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    except Malformed:
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_largest_text_that_a_request_can_hold() -> None:
    text = WIDE.encode() + b"x" * (MAX_STRING_BYTES - 4)
    count = (MAX_REQUEST_BYTES - 100) // (len(text) + 3)
    string = _varint(len(text) + 1) + text
    body = b"\0" + _varint(count + 1) + string * count + b"\0"
    assert len(body) <= MAX_REQUEST_BYTES
    assert len(decode(10, 6, body).coordinator_keys) == count
    frame = memoryview(body)
    assert peak_bytes(lambda: decode(10, 6, frame)) + MAX_REQUEST_BYTES <= 64 * MIB


def test_the_most_elements_that_a_request_can_hold() -> None:
    row = _varint(2) + b"t" + _varint(1) + b"\0"
    body = b"\2" + b"\2g" + b"\0" + b"\xff\xff\xff\xff" + _varint(MAX_ELEMENTS) + row * (MAX_ELEMENTS - 1) + b"\0\0\0"
    assert len(decode(9, 9, body).groups[0].topics) == MAX_ELEMENTS - 1
    assert peak_bytes(lambda: decode(9, 9, memoryview(body))) + len(body) <= 64 * MIB


def produce_body(topics: int, partitions: int) -> memoryview:
    row = struct.pack(">ib", 0, 1) + b"\0"
    topic = _varint(len(WIDE.encode()) + 1) + WIDE.encode() + _varint(partitions + 1) + row * partitions + b"\0"
    return memoryview(b"\0" + struct.pack(">hi", 1, 1) + _varint(topics + 1) + topic * topics + b"\0")


def test_a_produce_request_takes_its_frame_and_a_mebibyte() -> None:
    most = produce_body(1, MAX_PRODUCE_ELEMENTS - 1)
    assert len(read_produce_request(most, 0, 9).topics[0].partitions) == MAX_PRODUCE_ELEMENTS - 1
    assert peak_bytes(lambda: read_produce_request(most, 0, 9)) <= MIB
    with pytest.raises(Malformed, match=f"more than {MAX_PRODUCE_ELEMENTS} elements"):
        read_produce_request(produce_body(1, MAX_PRODUCE_ELEMENTS), 0, 9)


def test_a_produce_request_of_many_topics_takes_its_frame_and_so_much() -> None:
    """A topic is an object of its own, so there are more than a mebibyte of them before there are too many."""
    shapes = {"one partition each": (10_000, 1), "no partition at all": (MAX_PRODUCE_ELEMENTS, 0)}
    for name, (topics, partitions) in shapes.items():
        body = produce_body(topics, partitions)
        assert len(read_produce_request(body, 0, 9).topics) == topics
        assert peak_bytes(lambda: read_produce_request(body, 0, 9)) <= 350 * topics, name  # noqa: B023
    assert peak_bytes(lambda: read_produce_request(produce_body(1000, 9), 0, 9)) <= MIB


@pytest.mark.parametrize("body", ["ff ff ff ff 0f", "ff ff ff ff 07", "81 80 80 80 08"])
def test_a_count_alone_allocates_nothing(body: str) -> None:
    raw = bytes.fromhex(body)
    assert decode(3, 9, b"\0\1\0\0\0").topics is None
    assert peak_bytes(lambda: decode(3, 9, raw)) < 64 * 1024


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def test_names_that_clients_make_up_are_not_remembered() -> None:
    """An answer to a topic that does not exist repeats its name, and is packed like any other."""

    def answer(number: int) -> None:
        row = PartitionProduced(0, ErrorCode.invalid_required_acks)
        topic = TopicProduced(f"{number}" + "a" * 32_000, None, [row])
        pack_produce_response(ProduceResponse([topic]), 7, number, 0)

    answer(0)
    tracemalloc.start()
    try:
        for number in range(1, 50):
            answer(number)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000
