"""Control records: how a log itself says that a producer's transaction has ended, and how."""

from __future__ import annotations

import struct
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.units import KIB
from penstock.wire.batch import BatchHeader, crc_matches, read_header
from penstock.wire.records import Record, build_batch, records_of

# Version and type; version and epoch of the coordinator. What newer versions add comes behind.
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0
_ABORT = 0
_COMMIT = 1
# A marker has some twenty bytes.
_LIMIT_BYTES = KIB


class Marker(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


def build_marker(producer_id: int, producer_epoch: int, marker: Marker, timestamp_ms: int) -> bytearray:
    """The batch that ends the producer's transaction."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(0, timestamp_ms, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_marker(batch: bytes | bytearray | memoryview) -> Marker | None:
    """Of exactly one control batch. None: it ends no transaction, or what it says cannot be read."""
    header: BatchHeader = read_header(batch)
    if not crc_matches(batch, header):
        return None
    try:
        records = list(records_of(batch, limit_bytes=_LIMIT_BYTES))
    except PenstockError:
        return None
    if not records or len(records[0].key or b"") < _KEY.size or len(records[0].value or b"") < _VALUE.size:
        return None
    version, kind = _KEY.unpack_from(records[0].key or b"")
    value_version, coordinator_epoch = _VALUE.unpack_from(records[0].value or b"")
    if version < 0 or value_version < 0 or kind not in (_ABORT, _COMMIT):
        return None
    return Marker(kind == _COMMIT, coordinator_epoch)
