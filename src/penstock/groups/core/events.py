"""What can happen to groups and offsets: one event per API, named after it, plus what the cluster tells them.

KIP-848's own events are in consumer_events.py.
"""

from __future__ import annotations

from msgspec import Struct


class JoinGroup(Struct, frozen=True):
    """`fresh_id` is a unique text (a UUID) from which a member id is made if one is needed: cores draw no randomness.

    `needs_known_member_id`: the caller's version knows MEMBER_ID_REQUIRED (4 and up).
    `can_skip_assignment`: the caller's version knows the flag of that name (9 and up).
    A negative `rebalance_timeout_ms` (version 0 has none) means the session timeout.
    """

    group_id: str
    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    fresh_id: str
    group_instance_id: str | None = None
    needs_known_member_id: bool = True
    can_skip_assignment: bool = True


class SyncGroup(Struct, frozen=True):
    """Protocol type and name are None in versions that do not send them; they are then not checked."""

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class MemberHeartbeat(Struct, frozen=True):
    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None = None


class LeavingMember(Struct, frozen=True):
    """An empty `member_id` with an instance id: whoever holds that instance now (an operator removes it)."""

    member_id: str
    group_instance_id: str | None = None


class LeaveGroup(Struct, frozen=True):
    group_id: str
    members: tuple[LeavingMember, ...]


class OffsetToCommit(Struct, frozen=True, gc=False):
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class TopicOffsets(Struct, frozen=True):
    """`topic_id` may be empty; where it is known, a later topic of the same name does not inherit the offset."""

    topic: str
    offsets: tuple[OffsetToCommit, ...]
    topic_id: bytes = b""


class CommitOffsets(Struct, frozen=True):
    """`generation` is the member epoch in KIP-848 groups, and -1 from callers that are no members.

    `knows_member_epochs`: the caller's version is 9 or up. `retention_ms` is -1 but for versions 2 to 4. `connection`:
    the number of the one it came on, which is higher the later that was made.
    """

    group_id: str
    topics: tuple[TopicOffsets, ...]
    member_id: str = ""
    generation: int = -1
    group_instance_id: str | None = None
    retention_ms: int = -1
    knows_member_epochs: bool = True
    connection: int = 0


class TopicPartitions(Struct, frozen=True):
    topic: str
    partitions: tuple[int, ...]
    topic_id: bytes = b""


class FetchOffsets(Struct, frozen=True):
    """Offsets of one group; `topics` None: all there are. A request for several groups is several events.

    `require_stable`: where a transaction is about to commit another one, that is said instead.
    """

    group_id: str
    topics: tuple[TopicPartitions, ...] | None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


class DeleteOffsets(Struct, frozen=True):
    group_id: str
    topics: tuple[TopicPartitions, ...]


class DescribeGroups(Struct, frozen=True):
    group_ids: tuple[str, ...]


class ListGroups(Struct, frozen=True):
    """Empty filters let everything pass; they compare without regard to case."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class DeleteGroups(Struct, frozen=True):
    group_ids: tuple[str, ...]


class TopicsDeleted(Struct, frozen=True):
    """These topics are gone, and what groups had committed for them is void: a part of it with each such event."""

    topics: tuple[str, ...]
