"""The records of __consumer_offsets, and their bytes.

A record is a key and a value: compaction keeps the newest value per key, and a record whose value is None (a
tombstone) ends its key. On disk a key is one byte for the kind and a msgpack array of the key fields; a value is one
byte for the version and a msgpack array. Fields may be appended to a value with a default and keep its version: older
readers skip them. Any other change of a value takes a new version, any other change of a key a new kind.

The field order of a record class is its key's, with `value` last.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import Struct

from penstock.errors import PenstockError, Problem
from penstock.groups.core.consumer_records import (
    CurrentValue,
    GroupEpochValue,
    SubscriptionValue,
    TargetEpochValue,
    TargetValue,
)


class StoredMember(Struct, frozen=True, array_like=True):
    """A member of a classic group. All its protocols are kept, not the chosen one alone: a member that rejoins

    unchanged after a restart is then recognised, and no rebalance follows.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""


class ClassicGroupValue(Struct, frozen=True, array_like=True):
    """One generation of a classic group.

    Written when the generation begins (`synced` false: members know the generation, the leader's assignment is
    awaited), and again when the assignment has come. Without the first, a restart in between would hand out the same
    generation twice, and a member of the forgotten one could commit offsets.
    """

    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str | None
    synced: bool
    state_since_ms: int
    members: tuple[StoredMember, ...] = ()


class CommittedOffset(Struct, frozen=True, array_like=True, gc=False):
    """`topic_id` is empty where the committer did not know it; `expires_ms` only where an old client asked for it."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = -1
    topic_id: bytes = b""


class GroupMetadata(Struct, frozen=True):
    group_id: str
    value: ClassicGroupValue | None


class OffsetCommit(Struct, frozen=True):
    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None


class ConsumerGroupEpoch(Struct, frozen=True):
    """There for as long as a KIP-848 group is; its tombstone is the last that a group writes."""

    group_id: str
    value: GroupEpochValue | None


class ConsumerGroupSubscription(Struct, frozen=True):
    """There for as long as the member is."""

    group_id: str
    member_id: str
    value: SubscriptionValue | None


class ConsumerGroupTargetEpoch(Struct, frozen=True):
    group_id: str
    value: TargetEpochValue | None


class ConsumerGroupTarget(Struct, frozen=True):
    group_id: str
    member_id: str
    value: TargetValue | None


class ConsumerGroupCurrent(Struct, frozen=True):
    group_id: str
    member_id: str
    value: CurrentValue | None


ConsumerRecord = (
    ConsumerGroupEpoch
    | ConsumerGroupSubscription
    | ConsumerGroupTargetEpoch
    | ConsumerGroupTarget
    | ConsumerGroupCurrent
)
Record = GroupMetadata | OffsetCommit | ConsumerRecord


class _Kind:
    """How one class of records becomes bytes."""

    def __init__(self, number: int, record_type: Any, key_type: Any, value_type: Any, version: int = 1) -> None:
        self.number = number
        self.record_type = record_type
        self.version = version
        self.prefix = bytes([number])
        self.value_prefix = bytes([version])
        self.key_decoder = msgspec.msgpack.Decoder(key_type)
        self.value_decoder = msgspec.msgpack.Decoder(value_type)


_KINDS = (
    _Kind(1, GroupMetadata, tuple[str], ClassicGroupValue),
    _Kind(2, OffsetCommit, tuple[str, str, int], CommittedOffset),
    _Kind(3, ConsumerGroupEpoch, tuple[str], GroupEpochValue),
    _Kind(4, ConsumerGroupSubscription, tuple[str, str], SubscriptionValue),
    _Kind(5, ConsumerGroupTargetEpoch, tuple[str], TargetEpochValue),
    _Kind(6, ConsumerGroupTarget, tuple[str, str], TargetValue),
    _Kind(7, ConsumerGroupCurrent, tuple[str, str], CurrentValue),
)
_BY_NUMBER = {kind.number: kind for kind in _KINDS}
_BY_TYPE = {kind.record_type: kind for kind in _KINDS}
_ENCODER = msgspec.msgpack.Encoder()


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Key and value of a record; the value of a tombstone is None."""
    kind = _BY_TYPE[type(record)]
    *key, value = msgspec.structs.astuple(record)
    key_bytes = kind.prefix + _ENCODER.encode(key)
    if value is None:
        return key_bytes, None
    return key_bytes, kind.value_prefix + _ENCODER.encode(value)


def decode(key: bytes, value: bytes | None) -> Record:
    """The record of these bytes. What a newer Penstock wrote is refused, never skipped: skipping it would serve

    an older state of that group as if it were the newest.
    """
    if not key or value == b"":
        raise PenstockError(Problem.CORRUPT_RECORDS, "a record of __consumer_offsets has an empty key or value")
    kind = _BY_NUMBER.get(key[0])
    if kind is None:
        raise _too_new(f"record kind {key[0]}")
    try:
        key_fields = kind.key_decoder.decode(key[1:])
        decoded = None
        if value is not None:
            if value[0] != kind.version:
                raise _too_new(f"version {value[0]} of record kind {kind.number}")
            decoded = kind.value_decoder.decode(value[1:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PenstockError(
            Problem.CORRUPT_RECORDS, f"a record of __consumer_offsets cannot be read: {error}"
        ) from error
    return cast(Record, kind.record_type(*key_fields, decoded))


def _too_new(what: str) -> PenstockError:
    return PenstockError(
        Problem.UNSUPPORTED_VERSION,
        f"__consumer_offsets holds {what}, which a newer Penstock wrote and this one cannot read: upgrade this node",
    )
