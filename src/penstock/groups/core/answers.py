"""What the events are answered with. `problem` None means success; the other fields then hold."""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import Problem
from penstock.groups.core.consumer_events import ConsumerHeartbeatAnswer, DescribeConsumerGroupsAnswer
from penstock.groups.core.transaction_events import TransactionEndedAnswer


class JoinedMember(Struct, frozen=True):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(Struct, frozen=True):
    """`members` is filled for the leader alone. With MEMBER_ID_REQUIRED, `member_id` is the one to come back with."""

    problem: Problem | None
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncAnswer(Struct, frozen=True):
    problem: Problem | None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatAnswer(Struct, frozen=True):
    problem: Problem | None


class MemberLeft(Struct, frozen=True):
    member_id: str
    group_instance_id: str | None
    problem: Problem | None


class LeaveAnswer(Struct, frozen=True):
    """One row per leaving member, in the order asked; versions that know no rows show the first row's problem."""

    problem: Problem | None
    members: tuple[MemberLeft, ...] = ()


class PartitionResult(Struct, frozen=True, gc=False):
    partition: int
    problem: Problem | None


class TopicResults(Struct, frozen=True):
    topic: str
    partitions: tuple[PartitionResult, ...]


class CommitAnswer(Struct, frozen=True):
    """A `problem` holds for every partition asked; `topics` is then empty."""

    problem: Problem | None
    topics: tuple[TopicResults, ...] = ()


class FetchedOffset(Struct, frozen=True, gc=False):
    """Nothing committed: offset -1."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    problem: Problem | None = None


class FetchedTopic(Struct, frozen=True):
    topic: str
    partitions: tuple[FetchedOffset, ...]


class FetchAnswer(Struct, frozen=True):
    problem: Problem | None
    topics: tuple[FetchedTopic, ...] = ()


class DeleteOffsetsAnswer(Struct, frozen=True):
    problem: Problem | None
    topics: tuple[TopicResults, ...] = ()


class DescribedMember(Struct, frozen=True):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(Struct, frozen=True):
    """A group that does not exist is "Dead" with UNKNOWN_GROUP; versions below 6 show the state without the error."""

    group_id: str
    problem: Problem | None
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


class ListedGroup(Struct, frozen=True):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class DescribeGroupsAnswer(Struct, frozen=True):
    groups: tuple[DescribedGroup, ...]


class ListGroupsAnswer(Struct, frozen=True):
    groups: tuple[ListedGroup, ...]


class GroupDeletion(Struct, frozen=True):
    group_id: str
    problem: Problem | None


class DeleteGroupsAnswer(Struct, frozen=True):
    groups: tuple[GroupDeletion, ...]


class Done(Struct, frozen=True):
    """Answers events that nobody waits for: `Tick` and what the cluster tells."""


GroupAnswer = (
    JoinAnswer
    | SyncAnswer
    | HeartbeatAnswer
    | LeaveAnswer
    | CommitAnswer
    | TransactionEndedAnswer
    | FetchAnswer
    | DeleteOffsetsAnswer
    | DescribeGroupsAnswer
    | ListGroupsAnswer
    | DeleteGroupsAnswer
    | ConsumerHeartbeatAnswer
    | DescribeConsumerGroupsAnswer
    | Done
)
