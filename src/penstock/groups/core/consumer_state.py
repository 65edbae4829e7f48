"""A KIP-848 group: the durable state, which only `apply` changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from uuid import UUID

from msgspec import Struct, structs

from penstock.errors import Problem
from penstock.groups.core.assignors import NO_PARTITIONS, Partitions
from penstock.groups.core.consumer_reconcile import CurrentAssignment, IsFree
from penstock.groups.core.consumer_records import NOT_EMPTY, CurrentValue, SubscriptionValue, restored
from penstock.groups.core.events import CommitOffsets
from penstock.groups.core.group import CONSUMER_PROTOCOL_TYPE, GroupType
from penstock.groups.core.records import (
    ConsumerGroupCurrent,
    ConsumerGroupEpoch,
    ConsumerGroupSubscription,
    ConsumerGroupTarget,
    ConsumerGroupTargetEpoch,
    ConsumerRecord,
    Record,
)
from penstock.groups.core.regex import topics_matching


class ConsumerMember(Struct, frozen=True):
    member_id: str
    subscription: SubscriptionValue = SubscriptionValue()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def epoch(self) -> int:
        return self.current.member_epoch

    @property
    def is_classic(self) -> bool:
        return self.subscription.classic is not None


class ConsumerGroup:
    """Reads, and `apply`. Records come in any order that compaction leaves, so none relies on another's being there."""

    group_type = GroupType.CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self._empty_since_ms = NOT_EMPTY
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self._owners: dict[UUID, dict[int, str]] = {}

    def copy(self) -> ConsumerGroup:
        """Another group that may go its own way."""
        twin = ConsumerGroup(self.group_id)
        twin.epoch, twin.metadata_hash, twin.assignment_epoch = self.epoch, self.metadata_hash, self.assignment_epoch
        twin._empty_since_ms = self._empty_since_ms
        twin.members = self.members.copy()
        twin.targets = self.targets.copy()
        twin.static_members = self.static_members.copy()
        twin._owners = {topic_id: owners.copy() for topic_id, owners in self._owners.items()}
        return twin

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def has_modern_members(self) -> bool:
        return any(not member.is_classic for member in self.members.values())

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        reconciled = all(member.current.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if reconciled else "Reconciling"

    @property
    def preferred_assignor(self) -> str | None:
        """What most of those members that name one want; among equals the first by name."""
        votes = Counter(member.subscription.server_assignor for member in self.members.values())
        named = sorted((-count, name) for name, count in votes.items() if name is not None)
        return named[0][1] if named else None

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def free_for(self, member_id: str) -> IsFree:
        """What the member itself still has on the way out is free for it: nobody else could have taken it."""

        def is_free(topic_id: UUID, index: int) -> bool:
            return self._owners.get(topic_id, {}).get(index, member_id) == member_id

        return is_free

    def subscribed_among(self, topics: Collection[str]) -> Collection[str]:
        subscriptions = [member.subscription for member in self.members.values()]
        wanted = frozenset(topics)
        found = {name for subscription in subscriptions for name in subscription.topic_names if name in wanted}
        for pattern in {subscription.topic_regex for subscription in subscriptions}:
            if pattern:
                found |= topics_matching(pattern, wanted - found)
        return found

    def retention_starts_ms(self, committed_ms: int) -> int | None:
        """What nobody subscribes to any more ages from its commit, the rest from when the last member went."""
        return max(self._empty_since_ms, committed_ms)

    def commit_problem(self, event: CommitOffsets) -> Problem | None:
        """Who is no member (generation -1: an operator, a consumer without group management) may commit to an empty

        group only, as in the classic protocol.
        """
        if event.generation < 0 and not self.members:
            return None
        member = self.members.get(event.member_id)
        if member is None:
            return Problem.UNKNOWN_MEMBER
        if not member.is_classic and not event.knows_member_epochs:
            return Problem.UNSUPPORTED_VERSION
        if not member.is_classic and member.current.is_one_behind(event.generation) and self._owns_all(member, event):
            # It is told of its new epoch at this moment. For what it still has nobody else can have committed.
            return None
        return _epoch_problem(member, event.generation)

    def _owns_all(self, member: ConsumerMember, event: CommitOffsets) -> bool:
        owners = {topic_id.bytes: owners for topic_id, owners in self._owners.items()}
        return all(
            owners.get(topic.topic_id, {}).get(row.partition) == member.member_id
            for topic in event.topics
            for row in topic.offsets
        )

    def fetch_problem(self, member_id: str | None, member_epoch: int) -> Problem | None:
        if member_id is None and member_epoch < 0:
            return None
        member = self.members.get(member_id or "")
        return Problem.UNKNOWN_MEMBER if member is None else _epoch_problem(member, member_epoch)

    def offset_delete_problem(self) -> Problem | None:
        return None

    def delete_problem(self) -> Problem | None:
        return Problem.GROUP_NOT_EMPTY if self.members else None

    def tombstones(self) -> list[Record]:
        records: list[Record] = []
        for member_id in self.members:
            records.append(ConsumerGroupCurrent(self.group_id, member_id, None))
            records.append(ConsumerGroupTarget(self.group_id, member_id, None))
            records.append(ConsumerGroupSubscription(self.group_id, member_id, None))
        records.append(ConsumerGroupTargetEpoch(self.group_id, None))
        records.append(ConsumerGroupEpoch(self.group_id, None))
        return records

    def apply(self, record: ConsumerRecord) -> None:
        match record:
            case ConsumerGroupEpoch(value=value):
                self.epoch = value.epoch if value else 0
                self.metadata_hash = value.metadata_hash if value else 0
                self._empty_since_ms = value.empty_since_ms if value else NOT_EMPTY
            case ConsumerGroupTargetEpoch(value=value):
                self.assignment_epoch = value.assignment_epoch if value else 0
            case ConsumerGroupTarget(member_id=member_id, value=value):
                if value is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = restored(value.partitions)
            case ConsumerGroupSubscription(member_id=member_id, value=value):
                self._apply_subscription(member_id, value)
            case ConsumerGroupCurrent(member_id=member_id, value=value):
                self._apply_current(member_id, value)

    def _apply_subscription(self, member_id: str, value: SubscriptionValue | None) -> None:
        member = self.members.get(member_id)
        before = member.subscription.instance_id if member else None
        if before is not None and self.static_members.get(before) == member_id:
            del self.static_members[before]
        if value is not None:
            self.members[member_id] = structs.replace(member or ConsumerMember(member_id), subscription=value)
            if value.instance_id is not None:
                self.static_members[value.instance_id] = member_id
        elif member is not None:
            self._disown(member)
            del self.members[member_id]

    def _apply_current(self, member_id: str, value: CurrentValue | None) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self._disown(member)
        elif value is None:
            return
        current = CurrentAssignment() if value is None else _current_of(value)
        self.members[member_id] = structs.replace(member or ConsumerMember(member_id), current=current)
        for partitions in (current.assigned, current.pending_revocation):
            for topic_id, indexes in partitions.items():
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(indexes, member_id))

    def _disown(self, member: ConsumerMember) -> None:
        """Only what still counts as this member's: compaction may let the next owner's record be read first."""
        for partitions in (member.current.assigned, member.current.pending_revocation):
            for topic_id, indexes in partitions.items():
                owners = self._owners.get(topic_id, {})
                for index in indexes:
                    if owners.get(index) == member.member_id:
                        del owners[index]
                if not owners:
                    self._owners.pop(topic_id, None)


def _current_of(value: CurrentValue) -> CurrentAssignment:
    return CurrentAssignment(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=value.state,
        assigned=restored(value.assigned),
        pending_revocation=restored(value.pending_revocation),
        unlisted=restored(value.unlisted),
        told_epoch=value.told_epoch,
    )


def _epoch_problem(member: ConsumerMember, epoch: int) -> Problem | None:
    """A static member that is away has an epoch, too, but nobody speaks at it: who has left does not commit."""
    if epoch == member.epoch and epoch >= 0:
        return None
    return Problem.ILLEGAL_GENERATION if member.is_classic else Problem.STALE_MEMBER_EPOCH
