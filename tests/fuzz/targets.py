"""What the fuzzer feeds. A target takes any bytes: it accepts or refuses them; whatever else it raises is a bug.

What we accept is compared with a second opinion: kio's readers, and for Produce and Fetch the generic reader.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any

from kio.serial import entity_reader
from kio.serial.errors import SerialError
from tests.fuzz.corpus import batch_bytes, message_bytes, spoiled_batch
from tests.fuzz.peers import PEERS
from tests.fuzz.target import Target
from tests.wire.messages import SERVED_VERSIONS

from penstock.errors import PenstockError
from penstock.units import MIB
from penstock.wire.batch_rules import check_produced
from penstock.wire.bounds import ElementBudget
from penstock.wire.fetch import FetchRequest, read_fetch_request
from penstock.wire.framing import FrameLimits, read_request_header
from penstock.wire.malformed import Malformed
from penstock.wire.produce import read_produce_request
from penstock.wire.produce_request import OneBatch, ProduceRequest
from penstock.wire.reading import reader_for
from penstock.wire.records import records_of
from penstock.wire.schemas import FETCH, PRODUCE, has_schema, request_class, request_header_version
from penstock.wire.shapes import shape_of
from penstock.wire.versions import decode, request_shape

LIMITS = FrameLimits(produce_bytes=MIB)
DECOMPRESSION_LIMIT = MIB


def _accepts_request(api_key: int, version: int) -> Callable[[bytes], bool]:
    kind, shape = request_class(api_key, version), request_shape(api_key)
    read = reader_for(kind, kind)
    kio_read: Callable[[bytes, int], tuple[Any, int]] = entity_reader(kind)

    def accepts(raw: bytes) -> bool:
        try:
            request = decode(api_key, version, raw)
        except Malformed:
            _must_refuse(lambda: read(raw, 0, ElementBudget()))
            return False
        assert type(request) is shape
        ours, end = read(raw, 0, ElementBudget())
        try:
            theirs, their_end = kio_read(raw, 0)
        except (SerialError, KeyError, ValueError):
            # It refuses unknown tagged fields and booleans other than 0 and 1, which Kafka takes.
            return True
        # Any negative marker says that a structure is not there; kio knows -1 only.
        assert (ours, end) == (theirs, their_end) or _lacks_a_structure(kind, ours)
        return True

    return accepts


def _lacks_a_structure(kind: type, message: Any) -> bool:
    return any(
        field.entity is not None and not field.is_array and getattr(message, field.name) is None
        for field in shape_of(kind)
    )


def _must_refuse(read: Callable[[], object]) -> None:
    try:
        read()
    except Malformed:
        return
    raise AssertionError("one reader refused what the other accepted")


def _accepts_produce(version: int) -> Callable[[bytes], bool]:
    kind = request_class(PRODUCE, version)
    read = reader_for(kind, kind)

    def accepts(raw: bytes) -> bool:
        try:
            request = read_produce_request(memoryview(raw), 0, version)
        except Malformed:
            _must_refuse(lambda: read(raw, 0, ElementBudget()))
            return False
        _compare_produce(request, read(raw, 0, ElementBudget())[0])
        return True

    return accepts


def _compare_produce(ours: OneBatch | ProduceRequest, generic: Any) -> None:
    assert (ours.transactional_id, ours.acks) == (generic.transactional_id, generic.acks)
    assert timedelta(milliseconds=ours.timeout_ms) == generic.timeout
    assert [[tuple(row) for row in topic.partitions] for topic in ours.topics] == [
        [(row.index, row.records) for row in topic.partition_data] for topic in generic.topic_data
    ]


def _accepts_fetch(version: int) -> Callable[[bytes], bool]:
    kind = request_class(FETCH, version)
    read = reader_for(kind, kind)

    def accepts(raw: bytes) -> bool:
        try:
            request = read_fetch_request(memoryview(raw), 0, version)
        except Malformed:
            _must_refuse(lambda: read(raw, 0, ElementBudget()))
            return False
        _compare_fetch(request, read(raw, 0, ElementBudget())[0])
        return True

    return accepts


def _compare_fetch(ours: FetchRequest, generic: Any) -> None:
    assert (ours.min_bytes, ours.max_bytes) == (generic.min_bytes, generic.max_bytes)
    assert ours.cluster_id == getattr(generic, "cluster_id", None)
    assert [[(row.partition, row.fetch_offset) for row in topic.partitions] for topic in ours.topics] == [
        [(row.partition, row.fetch_offset) for row in topic.partitions] for topic in generic.topics
    ]


def _frame(random: Random) -> bytes:
    api_key, version = random.choice(SERVED_VERSIONS)
    header = struct.pack(">hhih", api_key, version, random.getrandbits(31), -1)
    if request_header_version(api_key, version) == 2:
        header += b"\0"
    body = header + message_bytes(request_class(api_key, version), random)
    return struct.pack(">i", len(body)) + body


def _accepts_frame(raw: bytes) -> bool:
    """The way that a connection goes: prefix, header, request."""
    view = memoryview(raw)
    try:
        whole = LIMITS.check_prefix(view)
        if whole is None or whole > len(raw):
            return False
        frame = view[4:whole]
        header = read_request_header(frame)
        assert header.body_start <= len(frame)
        if not has_schema(header.api_key, header.api_version):
            return False
        decode(header.api_key, header.api_version, frame[header.body_start :])
    except Malformed:
        return False
    return True


def _accepts_batch(raw: bytes) -> bool:
    try:
        check_produced(memoryview(raw), MIB)
        accepted = True
    except PenstockError:
        accepted = False
    try:
        for record in records_of(raw, limit_bytes=DECOMPRESSION_LIMIT):
            assert len(record.key or b"") + len(record.value or b"") <= DECOMPRESSION_LIMIT
    except PenstockError:
        return False
    return accepted


def _request_target(api_key: int, version: int, accepts: Callable[[bytes], bool]) -> Target:
    kind = request_class(api_key, version)
    return Target(lambda random: message_bytes(kind, random), accepts)


TARGETS: Mapping[str, Target] = {
    **{
        f"request {key} version {version}": _request_target(key, version, _accepts_request(key, version))
        for key, version in SERVED_VERSIONS
    },
    **{
        f"produce version {version}": _request_target(PRODUCE, version, _accepts_produce(version))
        for version in range(3, 14)
    },
    **{
        f"fetch version {version}": _request_target(FETCH, version, _accepts_fetch(version)) for version in range(4, 19)
    },
    # As many chances as fifteen versions of a request.
    **{f"frame {number}": Target(_frame, _accepts_frame) for number in range(15)},
    **{f"batch {number}": Target(batch_bytes, _accepts_batch, spoiled_batch) for number in range(15)},
    **PEERS,
}
NAMES = tuple(TARGETS)
_VALID_PER_TARGET = 100


@cache
def _valid(name: str, seed: int) -> bytes:
    """Kept, because making one takes longer than feeding several spoiled ones."""
    return TARGETS[name].valid(Random(seed))


def one_input(seed: int, number: int, random: Random) -> tuple[str, bytes, bool]:
    """Input `number` of the run with this seed: the target's name, the bytes, and whether they must be accepted.

    It depends on these two only, so any input of a run can be had again alone.
    """
    random.seed(seed << 40 | number)
    name = random.choice(NAMES)
    kind = random.random()
    if kind < 0.05:
        return name, random.randbytes(random.randrange(200)), False
    raw = _valid(name, seed << 40 | random.randrange(_VALID_PER_TARGET))
    return (name, raw, True) if kind < 0.08 else (name, TARGETS[name].spoil(raw, random), False)


def feed(name: str, raw: bytes, must_accept: bool) -> None:
    accepted = TARGETS[name].accepts(raw)
    assert accepted or not must_accept, "valid bytes were refused"
