"""Where a partition's leader is now (KIP-951): Produce and Fetch say so beside an error, in tagged fields."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from penstock.wire.appending import append_compact_string, append_varint

# Leader id, leader epoch, no tagged fields.
_LEADER = struct.Struct(">iix")
_NODE_ID = struct.Struct(">i")
_PORT = struct.Struct(">i")


class LeaderIdAndEpoch(NamedTuple):
    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


def append_tag(out: bytearray, tag: int, value: bytes | bytearray) -> None:
    append_varint(out, tag)
    append_varint(out, len(value))
    out += value


def leader_bytes(leader: LeaderIdAndEpoch) -> bytes:
    return _LEADER.pack(leader.leader_id, leader.leader_epoch)


def append_node_endpoints(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """The last tagged fields of a response: number 0 or none."""
    if not endpoints:
        out.append(0)
        return
    value = bytearray()
    append_varint(value, len(endpoints) + 1)
    for endpoint in endpoints:
        value += _NODE_ID.pack(endpoint.node_id)
        append_compact_string(value, endpoint.host)
        value += _PORT.pack(endpoint.port)
        append_compact_string(value, endpoint.rack)
        value.append(0)
    out.append(1)
    append_tag(out, 0, value)
