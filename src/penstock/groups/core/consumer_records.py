"""The stored values of KIP-848 groups. records.py has the record classes and the rules of their encoding.

A group is several keys, one per member and purpose, because a heartbeat changes one member's assignment and must not
rewrite the others'.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from penstock.groups.core.assignors import Partitions
from penstock.groups.core.consumer_reconcile import NOT_JOINED_EPOCH, MemberState

NOT_EMPTY = -1
TopicId = Annotated[bytes, Meta(min_length=16, max_length=16)]
StoredPartitions = tuple[tuple[TopicId, tuple[int, ...]], ...]
"""Topic ids and partition indexes, both in order: equal assignments have equal bytes."""


class GroupEpochValue(Struct, frozen=True, array_like=True):
    """`metadata_hash` is over the topics that the group subscribes to: when it changes, the assignment is due anew.

    `empty_since_ms`: when its last member went.
    """

    epoch: int
    metadata_hash: int
    empty_since_ms: int = NOT_EMPTY


class ClassicProtocols(Struct, frozen=True, array_like=True):
    """What a member that speaks the classic protocol gave in its JoinGroup; for when the group turns classic again."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class SubscriptionValue(Struct, frozen=True, array_like=True):
    """A member, apart from its assignment. `classic` is None for members that speak KIP-848."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    server_assignor: str | None = None
    classic: ClassicProtocols | None = None


class TargetEpochValue(Struct, frozen=True, array_like=True):
    """Written behind the members' targets of that epoch, in the same batch."""

    assignment_epoch: int


class TargetValue(Struct, frozen=True, array_like=True):
    partitions: StoredPartitions = ()


class CurrentValue(Struct, frozen=True, array_like=True):
    """CurrentAssignment says what the fields mean."""

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: StoredPartitions = ()
    pending_revocation: StoredPartitions = ()
    unlisted: StoredPartitions = ()
    told_epoch: int = NOT_JOINED_EPOCH


def stored(partitions: Partitions) -> StoredPartitions:
    return tuple(sorted((topic_id.bytes, tuple(sorted(indexes))) for topic_id, indexes in partitions.items()))


def restored(partitions: StoredPartitions) -> Partitions:
    return {UUID(bytes=topic_id): frozenset(indexes) for topic_id, indexes in partitions if indexes}
