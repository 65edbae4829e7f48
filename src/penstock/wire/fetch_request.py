"""Fetch requests as a follower sends them, versions 17 and 18: topic ids, broker epoch, incremental sessions.

What `wire/fetch.py` reads, this writes. Older versions are not written: who fetches from a Penstock broker with it
runs the same release.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from penstock.wire.appending import append_compact_string, append_varint
from penstock.wire.fetch import (
    CONSUMER,
    UNKNOWN_HIGH_WATERMARK,
    FetchRequest,
    ForgottenTopic,
    PartitionFetch,
    TopicFetch,
)
from penstock.wire.leaders import append_tag

NEWEST_PACKED = 18
_FIRST_WITH_HIGH_WATERMARK = 18

# Max wait, min bytes, max bytes, isolation level, session id and epoch.
_START = struct.Struct(">iiibii")
# Partition, leader epoch, offset, last fetched epoch, log start, max bytes; the number of tagged fields.
_ROW = struct.Struct(">iiqiqiB")
# Tag, size, value.
_DIRECTORY_ID = struct.Struct(">BB16s")
_HIGH_WATERMARK = struct.Struct(">BBq")
# Replica id and epoch, no tagged fields.
_REPLICA_STATE = struct.Struct(">iqx")
_NO_UUID = bytes(16)


def append_fetch_request(out: bytearray, request: FetchRequest, version: int) -> None:
    """The body alone, behind the header that `out` has already. Version 17 leaves out the high watermarks."""
    out += _START.pack(
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
    )
    _append_topics(out, request.topics, version >= _FIRST_WITH_HIGH_WATERMARK)
    _append_forgotten(out, request.forgotten_topics)
    append_compact_string(out, request.rack_id)
    _append_tags(out, request)


def _append_topics(out: bytearray, topics: Sequence[TopicFetch], with_high_watermark: bool) -> None:
    append_varint(out, len(topics) + 1)
    for _, topic_id, partitions in topics:
        out += _NO_UUID if topic_id is None else topic_id.bytes
        append_varint(out, len(partitions) + 1)
        for row in partitions:
            _append_row(out, row, with_high_watermark and row.high_watermark != UNKNOWN_HIGH_WATERMARK)
        out.append(0)


def _append_row(out: bytearray, row: PartitionFetch, with_high_watermark: bool) -> None:
    directory_id = row.replica_directory_id
    out += _ROW.pack(*row[:6], (directory_id is not None) + with_high_watermark)
    if directory_id is not None:
        out += _DIRECTORY_ID.pack(0, 16, directory_id.bytes)
    if with_high_watermark:
        out += _HIGH_WATERMARK.pack(1, 8, row.high_watermark)


def _append_forgotten(out: bytearray, topics: Sequence[ForgottenTopic]) -> None:
    append_varint(out, len(topics) + 1)
    for _, topic_id, partitions in topics:
        out += _NO_UUID if topic_id is None else topic_id.bytes
        append_varint(out, len(partitions) + 1)
        out += struct.pack(f">{len(partitions)}i", *partitions)
        out.append(0)


def _append_tags(out: bytearray, request: FetchRequest) -> None:
    is_replica = request.replica_id != CONSUMER or request.replica_epoch != -1
    out.append((request.cluster_id is not None) + is_replica)
    if request.cluster_id is not None:
        value = bytearray()
        append_compact_string(value, request.cluster_id)
        append_tag(out, 0, value)
    if is_replica:
        append_tag(out, 1, _REPLICA_STATE.pack(request.replica_id, request.replica_epoch))
