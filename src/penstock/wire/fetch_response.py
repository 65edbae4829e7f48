"""Fetch answers, versions 4 to 18, as a list of buffers: what was read from the log is never copied or joined."""

from __future__ import annotations

import struct
from typing import Final

from penstock.wire.appending import (
    append_compact_string,
    append_count,
    append_string,
    finish_response,
    start_response,
)
from penstock.wire.fetched import Buffer, FetchResponse, PartitionFetched
from penstock.wire.leaders import append_node_endpoints, append_tag, leader_bytes
from penstock.wire.schemas import FETCH, response_header_version
from penstock.wire.stored_batches import StoredBatches

_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_SESSION: Final = 7
_FIRST_WITH_READ_REPLICA: Final = 11
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITH_TOPIC_ID: Final = 13
_FIRST_WITH_ENDPOINTS: Final = 16

_INT32: Final = struct.Struct(">i")
# Throttle time; error code and session id.
_START_7: Final = struct.Struct(">ihi")
# Index, error code, high watermark, last stable offset; log start offset.
_ROW_4: Final = struct.Struct(">ihqq")
_ROW_5: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
# Each with an empty set of tagged fields behind.
_ABORTED_FLEXIBLE: Final = struct.Struct(">qqx")
_EPOCH_END: Final = struct.Struct(">iqx")
_SNAPSHOT: Final = struct.Struct(">qix")
_NO_UUID: Final = bytes(16)


def pack_fetch_response(
    response: FetchResponse, version: int, correlation_id: int, throttle_ms: int
) -> list[Buffer | StoredBatches]:
    """The whole answer with length prefix and header, to be written in this order."""
    compact = version >= _FIRST_FLEXIBLE
    first = out = start_response(response_header_version(FETCH, version), correlation_id)
    buffers: list[Buffer | StoredBatches] = [first]
    if version >= _FIRST_WITH_SESSION:
        out += _START_7.pack(throttle_ms, response.error_code, response.session_id)
    else:
        out += _INT32.pack(throttle_ms)
    append_count(out, len(response.topics), compact)
    for name, topic_id, partitions in response.topics:
        if version >= _FIRST_WITH_TOPIC_ID:
            out += _NO_UUID if topic_id is None else topic_id.bytes
        elif compact:
            append_compact_string(out, name)
        else:
            append_string(out, name)
        append_count(out, len(partitions), compact)
        for row in partitions:
            _append_row(out, row, version, compact)
            if row.records:
                out = bytearray()
                buffers.extend(row.records)
                buffers.append(out)
            if compact:
                _append_row_tags(out, row)
        if compact:
            out.append(0)
    if version >= _FIRST_WITH_ENDPOINTS:
        append_node_endpoints(out, response.node_endpoints)
    elif compact:
        out.append(0)
    if not out:
        buffers.pop()
    finish_response(first, sum(map(len, buffers)))
    return buffers


def _append_row(out: bytearray, row: PartitionFetched, version: int, compact: bool) -> None:
    """Everything up to the length of the records."""
    out += _ROW_5.pack(*row[:5]) if version >= _FIRST_WITH_LOG_START else _ROW_4.pack(*row[:4])
    aborted = row.aborted_transactions
    append_count(out, -1 if aborted is None else len(aborted), compact)
    for transaction in aborted or ():
        out += _ABORTED_FLEXIBLE.pack(*transaction) if compact else _ABORTED.pack(*transaction)
    if version >= _FIRST_WITH_READ_REPLICA:
        out += _INT32.pack(row.preferred_read_replica)
    append_count(out, sum(map(len, row.records)), compact)


def _append_row_tags(out: bytearray, row: PartitionFetched) -> None:
    diverging, leader, snapshot = row.diverging_epoch, row.current_leader, row.snapshot_id
    out.append((diverging is not None) + (leader is not None) + (snapshot is not None))
    if diverging is not None:
        append_tag(out, 0, _EPOCH_END.pack(*diverging))
    if leader is not None:
        append_tag(out, 1, leader_bytes(leader))
    if snapshot is not None:
        append_tag(out, 2, _SNAPSHOT.pack(*snapshot))
