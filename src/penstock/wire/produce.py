"""Produce over memoryviews: the records stay where they were received, and go from there to the file.

Requests are read in versions 0 to 13. Versions 0 to 2 carry batches that we do not store; they are understood so that
the client can be told.
"""

from __future__ import annotations

import struct
from array import array
from typing import Final

from penstock.wire.bounds import (
    ElementBudget,
    read_count,
    read_present_string,
    read_size,
    read_string,
    read_varint,
    skip_tagged_fields,
    uuid_of,
)
from penstock.wire.malformed import Malformed
from penstock.wire.produce_request import NULL, OneBatch, PartitionRows, ProduceRequest, TopicProduce
from penstock.wire.tuples import new_tuple

_FIRST_TRANSACTIONAL: Final = 3
_FIRST_FLEXIBLE: Final = 9
_FIRST_WITH_TOPIC_ID: Final = 13

# Topics and partitions together. A producer sends all that is ready in one request, so 10,000 topics with a partition
# each must pass. Beside the frame a partition takes 12 bytes and a topic less than 350: a request takes its frame and
# 1 MiB unless it has thousands of topics, and then up to 6 MiB.
MAX_PRODUCE_ELEMENTS: Final = 20_000

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_INT32: Final = struct.Struct(">i")
_UUID_BYTES: Final = 16


def read_produce_request(frame: memoryview, body_start: int, version: int) -> OneBatch | ProduceRequest:
    return _read_simplest(frame, body_start, version) or _read_any(frame, body_start, version)


# Transactional id, acks, timeout, number of topics, length of the name or the id itself; number of partitions, index.
_SIMPLEST_3: Final = struct.Struct(">hhiih")
_SIMPLEST_9: Final = struct.Struct(">BhiBB")
_SIMPLEST_13: Final = struct.Struct(">BhiB16s")
_PARTITION_3: Final = struct.Struct(">iii")
_PARTITION_9: Final = struct.Struct(">Bi")
_NO_TAGS: Final = bytes(3)


def _read_simplest(frame: memoryview, at: int, version: int) -> OneBatch | None:
    """One partition, no transaction, no tagged fields. None: look more closely."""
    if version < _FIRST_TRANSACTIONAL:
        return None
    try:
        name, topic_id = "", None
        if version >= _FIRST_WITH_TOPIC_ID:
            transaction, acks, timeout_ms, topics, raw_id = _SIMPLEST_13.unpack_from(frame, at)
            topic_id, at = uuid_of(raw_id), at + _SIMPLEST_13.size
        else:
            start = _SIMPLEST_9 if version >= _FIRST_FLEXIBLE else _SIMPLEST_3
            transaction, acks, timeout_ms, topics, size = start.unpack_from(frame, at)
            size -= version >= _FIRST_FLEXIBLE
            at += start.size
            if not 0 <= size < 0x7F:
                return None
            name, at = str(frame[at : at + size], "utf-8"), at + size
        if version >= _FIRST_FLEXIBLE:
            partitions, index = _PARTITION_9.unpack_from(frame, at)
            size, at = read_varint(frame, at + _PARTITION_9.size, "")
            if (transaction, topics, partitions) != (0, 2, 2) or size == 0:
                return None
            if at + size + 2 != len(frame) or frame[-3:] != _NO_TAGS:
                return None
            records = frame[at:-3]
        else:
            partitions, index, size = _PARTITION_3.unpack_from(frame, at)
            at += _PARTITION_3.size
            if (transaction, topics, partitions) != (-1, 1, 1) or at + size != len(frame):
                return None
            records = frame[at:]
    except (struct.error, UnicodeDecodeError, Malformed):
        return None
    return new_tuple(OneBatch, (acks, timeout_ms, name, topic_id, index, records))


def _read_any(frame: memoryview, body_start: int, version: int) -> ProduceRequest:
    compact = version >= _FIRST_FLEXIBLE
    at = body_start
    transactional_id = None
    if version >= _FIRST_TRANSACTIONAL:
        transactional_id, at = read_string(frame, at, compact, "ProduceRequest.transactional_id")
    try:
        acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, at)
    except struct.error:
        raise Malformed("ProduceRequest.acks", "the bytes end before it") from None
    budget = ElementBudget(MAX_PRODUCE_ELEMENTS)
    count, at = read_count(frame, at + _ACKS_TIMEOUT.size, compact, 3, budget, "ProduceRequest.topic_data")
    if count < 0:
        raise Malformed("ProduceRequest.topic_data", "null, but it must be there")
    topics = []
    for _ in range(count):
        topic, at = _read_topic(frame, at, version, compact, budget)
        topics.append(topic)
    if compact:
        skip_tagged_fields(frame, at, budget, "ProduceRequest")
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_topic(
    frame: memoryview, at: int, version: int, compact: bool, budget: ElementBudget
) -> tuple[TopicProduce, int]:
    name, topic_id = "", None
    if version >= _FIRST_WITH_TOPIC_ID:
        end = at + _UUID_BYTES
        if end > len(frame):
            raise Malformed("ProduceRequest.topic_data.topic_id", "the bytes end before it")
        topic_id, at = uuid_of(bytes(frame[at:end])), end
    else:
        name, at = read_present_string(frame, at, compact, "ProduceRequest.topic_data.name")
    where = "ProduceRequest.topic_data.partition_data"
    count, at = read_count(frame, at, compact, 5, budget, where)
    if count < 0:
        raise Malformed(where, "null, but it must be there")
    # A frame and what is in it are numbered by 32 bits.
    places = array("i")
    for _ in range(count):
        at = _read_partition(frame, at, compact, budget, places)
    if compact:
        at = skip_tagged_fields(frame, at, budget, "ProduceRequest.topic_data")
    return TopicProduce(name, topic_id, PartitionRows(frame, places)), at


def _read_partition(frame: memoryview, at: int, compact: bool, budget: ElementBudget, places: array[int]) -> int:
    where = "ProduceRequest.topic_data.partition_data.records"
    try:
        (index,) = _INT32.unpack_from(frame, at)
    except struct.error:
        raise Malformed("ProduceRequest.topic_data.partition_data.index", "the bytes end before it") from None
    size, at = read_size(frame, at + 4, compact, where)
    if size < 0:
        places.extend((index, at, NULL))
    else:
        end = at + size
        if end > len(frame):
            raise Malformed(where, f"length {size} with {len(frame) - at} bytes left")
        places.extend((index, at, end))
        at = end
    return skip_tagged_fields(frame, at, budget, where) if compact else at
