"""Answers to Produce, versions 0 to 13."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final
from uuid import UUID

from penstock.wire.appending import (
    append_compact_string,
    append_count,
    append_string,
    finish_response,
    start_response,
)
from penstock.wire.leaders import append_node_endpoints, append_tag, leader_bytes
from penstock.wire.produced import OneProduced, PartitionProduced, Produced, ProduceResponse, TopicProduced
from penstock.wire.schemas import PRODUCE, response_header_version

_FIRST_WITH_THROTTLE: Final = 1
_FIRST_WITH_APPEND_TIME: Final = 2
_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_RECORD_ERRORS: Final = 8
_FIRST_FLEXIBLE: Final = 9
_FIRST_WITH_LEADERS: Final = 10
_FIRST_WITH_TOPIC_ID: Final = 13

_START: Final = struct.Struct(">ii")
_INT32: Final = struct.Struct(">i")
# How the fixed fields of a partition grew: index, error, base offset; log append time; log start offset.
_ROW_0: Final = struct.Struct(">ihq")
_ROW_2: Final = struct.Struct(">ihqq")
_ROW_5: Final = struct.Struct(">ihqqq")
_UUID_BYTES: Final = 16


def pack_produce_response(response: Produced, version: int, correlation_id: int, throttle_ms: int) -> bytes | bytearray:
    """The whole answer with length prefix and header."""
    if isinstance(response, OneProduced) and version >= _FIRST_WITH_LOG_START and not throttle_ms:
        # The topic exists, so its name is a short one: what clients make up is not remembered.
        name, topic_id, index, base_offset, append_time_ms, start_offset = response
        size, before, after = _around_row(version, name, topic_id)
        row = _ROW_5.pack(index, 0, base_offset, append_time_ms, start_offset)
        return _START.pack(size, correlation_id) + before + row + after
    return _pack_any(response, version, correlation_id, throttle_ms)


@lru_cache(maxsize=4096)
def _around_row(version: int, name: str, topic_id: UUID | None) -> tuple[int, bytes, bytes]:
    """The size of an answer for one partition with no more to say of it, and the bytes before and after its row."""
    whole = _pack_any(ProduceResponse([TopicProduced(name, topic_id, [PartitionProduced(0)])]), version, 0, 0)
    start = _start_topics(version, 0, 1)
    _append_topic(start, name, topic_id, 1, version)
    return len(whole) - _INT32.size, bytes(start[_START.size :]), bytes(whole[len(start) + _ROW_5.size :])


def _pack_any(response: Produced, version: int, correlation_id: int, throttle_ms: int) -> bytearray:
    compact = version >= _FIRST_FLEXIBLE
    out = _start_topics(version, correlation_id, len(response.topics))
    for name, topic_id, partitions in response.topics:
        _append_topic(out, name, topic_id, len(partitions), version)
        for row in partitions:
            _append_row(out, row, version, compact)
        if compact:
            out.append(0)
    if version >= _FIRST_WITH_THROTTLE:
        out += _INT32.pack(throttle_ms)
    if version >= _FIRST_WITH_LEADERS:
        append_node_endpoints(out, response.node_endpoints)
    elif compact:
        out.append(0)
    finish_response(out, len(out))
    return out


def _start_topics(version: int, correlation_id: int, count: int) -> bytearray:
    out = start_response(response_header_version(PRODUCE, version), correlation_id)
    append_count(out, count, version >= _FIRST_FLEXIBLE)
    return out


def _append_topic(out: bytearray, name: str, topic_id: UUID | None, partitions: int, version: int) -> None:
    compact = version >= _FIRST_FLEXIBLE
    if version >= _FIRST_WITH_TOPIC_ID:
        out += bytes(_UUID_BYTES) if topic_id is None else topic_id.bytes
    elif compact:
        append_compact_string(out, name)
    else:
        append_string(out, name)
    append_count(out, partitions, compact)


def _append_row(out: bytearray, row: PartitionProduced, version: int, compact: bool) -> None:
    if version >= _FIRST_WITH_LOG_START:
        out += _ROW_5.pack(*row[:5])
    elif version >= _FIRST_WITH_APPEND_TIME:
        out += _ROW_2.pack(*row[:4])
    else:
        out += _ROW_0.pack(*row[:3])
    if version < _FIRST_WITH_RECORD_ERRORS:
        return
    append_text = append_compact_string if compact else append_string
    append_count(out, len(row.record_errors), compact)
    for batch_index, message in row.record_errors:
        out += _INT32.pack(batch_index)
        append_text(out, message)
        if compact:
            out.append(0)
    append_text(out, row.error_message)
    if version >= _FIRST_WITH_LEADERS and row.current_leader is not None:
        out.append(1)
        append_tag(out, 0, leader_bytes(row.current_leader))
    elif compact:
        out.append(0)
