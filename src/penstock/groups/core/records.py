"""The records of __consumer_offsets, and their bytes: replication/core/record_kinds.py has the rules."""

from __future__ import annotations

from msgspec import Struct

from penstock.groups.core.consumer_records import (
    CurrentValue,
    GroupEpochValue,
    SubscriptionValue,
    TargetEpochValue,
    TargetValue,
)
from penstock.replication.core.record_kinds import RecordKind, RecordKinds


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


class PendingOffset(Struct, frozen=True, array_like=True, gc=False):
    """What becomes a `CommittedOffset` if its transaction is committed, at that time. The epoch is the one in which it

    was sent.
    """

    producer_epoch: int
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: bytes = b""


class GroupMetadata(Struct, frozen=True):
    group_id: str
    value: ClassicGroupValue | None


class OffsetCommit(Struct, frozen=True):
    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None


class PendingOffsetCommit(Struct, frozen=True):
    """There for as long as the transaction is under way. Its tombstone is in one batch with what it came to, so that no

    replay, of a compacted log either, sees both or neither.
    """

    producer_id: int
    group_id: str
    topic: str
    partition: int
    value: PendingOffset | None


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
Record = GroupMetadata | OffsetCommit | PendingOffsetCommit | ConsumerRecord


_KINDS: RecordKinds[Record] = RecordKinds(
    "__consumer_offsets",
    RecordKind(1, GroupMetadata, tuple[str], ClassicGroupValue),
    RecordKind(2, OffsetCommit, tuple[str, str, int], CommittedOffset),
    RecordKind(3, ConsumerGroupEpoch, tuple[str], GroupEpochValue),
    RecordKind(4, ConsumerGroupSubscription, tuple[str, str], SubscriptionValue),
    RecordKind(5, ConsumerGroupTargetEpoch, tuple[str], TargetEpochValue),
    RecordKind(6, ConsumerGroupTarget, tuple[str, str], TargetValue),
    RecordKind(7, ConsumerGroupCurrent, tuple[str, str], CurrentValue),
    RecordKind(8, PendingOffsetCommit, tuple[int, str, str, int], PendingOffset),
)

encode = _KINDS.encode
decode = _KINDS.decode
