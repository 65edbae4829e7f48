"""The changes that one event makes to a KIP-848 group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from penstock.errors import PenstockError, Problem
from penstock.groups.core.assignors import Partitions, Subscriber, Subscriptions
from penstock.groups.core.consumer_limits import ASSIGNORS, ConsumerLimits
from penstock.groups.core.consumer_reconcile import GROUP_EPOCH_STEP, CurrentAssignment, Goal
from penstock.groups.core.consumer_records import (
    NOT_EMPTY,
    CurrentValue,
    GroupEpochValue,
    SubscriptionValue,
    TargetEpochValue,
    TargetValue,
    stored,
)
from penstock.groups.core.consumer_state import ConsumerGroup, ConsumerMember
from penstock.groups.core.consumer_topics import TopicsView
from penstock.groups.core.draft import Draft
from penstock.groups.core.records import (
    ConsumerGroupCurrent,
    ConsumerGroupEpoch,
    ConsumerGroupSubscription,
    ConsumerGroupTarget,
    ConsumerGroupTargetEpoch,
    ConsumerRecord,
    Record,
    encode,
)

# Of a member's target, but for the names and the partitions.
_RECORD_BYTES = 16


class ConsumerWork:
    """Reads show the group as these changes leave it: every record is applied to a copy, as it will be to the group.

    Nothing reaches the draft before `finish`, so a refusal half-way leaves nothing behind.
    """

    def __init__(self, group: ConsumerGroup, limits: ConsumerLimits, *, is_copy: bool = False) -> None:
        self.group = group
        self.limits = limits
        self._is_copy = is_copy
        self._records: list[Record] = []
        self._may_be_large = False
        self._has_new_member = False

    def finish(self, draft: Draft) -> None:
        """A batch that the log refuses would take every group of this partition down, so it is refused here."""
        if self._has_new_member:
            self._check_names(draft.limits.max_group_bytes)
        if self._may_be_large:
            size = sum(len(key) + len(value or b"") for key, value in map(encode, self._records))
            if size > draft.limits.max_group_bytes:
                text = f"the group needs {size} bytes in one write: at most {draft.limits.max_group_bytes} are allowed"
                raise PenstockError(Problem.GROUP_FULL, text)
        draft.write(*self._records)
        self._records = []

    def _check_names(self, max_group_bytes: int) -> None:
        """A new target for all names every member, and whoever asks for it next is refused if that is too much. So who

        joins is refused, while half is left for what they are to read.
        """
        names = (self.group.group_id + member_id for member_id in self.group.members)
        size = sum(_RECORD_BYTES + len(name.encode()) for name in names)
        if size > max_group_bytes // 2:
            text = f"the group's members need {size} bytes for their names: at most {max_group_bytes // 2} are allowed"
            raise PenstockError(Problem.GROUP_FULL, text)

    def write(self, *records: ConsumerRecord) -> None:
        # Heartbeats that change nothing, nearly all of them, cost no copy.
        if not self._is_copy:
            self.group, self._is_copy = self.group.copy(), True
        for record in records:
            self._records.append(record)
            self.group.apply(record)

    def subscribe(self, member_id: str, subscription: SubscriptionValue) -> None:
        self._may_be_large = True
        self._has_new_member |= member_id not in self.group.members
        self.write(ConsumerGroupSubscription(self.group.group_id, member_id, subscription))

    def place(self, member_id: str, current: CurrentAssignment) -> None:
        """Writes nothing if the member is there already."""
        member = self.group.members.get(member_id)
        if member is not None and member.current is current:
            return
        value = CurrentValue(
            member_epoch=current.member_epoch,
            previous_member_epoch=current.previous_member_epoch,
            state=current.state,
            assigned=stored(current.assigned),
            pending_revocation=stored(current.pending_revocation),
            unlisted=stored(current.unlisted),
            told_epoch=current.told_epoch,
        )
        self.write(ConsumerGroupCurrent(self.group.group_id, member_id, value))

    def aim(self, member_id: str, target: Partitions) -> None:
        self.write(ConsumerGroupTarget(self.group.group_id, member_id, TargetValue(stored(target))))

    def remove(self, member_id: str) -> None:
        group_id = self.group.group_id
        self.write(
            ConsumerGroupCurrent(group_id, member_id, None),
            ConsumerGroupTarget(group_id, member_id, None),
            ConsumerGroupSubscription(group_id, member_id, None),
        )

    def replace(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member comes back under another id and takes over all that the old one had.

        It starts at epoch 0: whoever still uses the old id or its epoch is refused.
        """
        target = self.group.target_of(old.member_id)
        if member_id != old.member_id:
            self.remove(old.member_id)
        self.subscribe(member_id, old.subscription)
        self.aim(member_id, target)
        assigned = old.current.assigned
        self.place(member_id, CurrentAssignment(assigned=assigned, unlisted=assigned))
        return self.group.members[member_id]

    def refresh(self, topics: TopicsView | None, now_ms: int, *, changed: bool) -> None:
        """A new group epoch if subscriptions changed or if the topics that they name are no longer the same.

        Without topics (a coordinator that is still loading removes a member) the next heartbeat compares again.
        """
        group = self.group
        metadata_hash = group.metadata_hash
        if topics is not None:
            names: set[str] = set().union(*subscribed_names(group.members, topics).values())
            metadata_hash = topics.hash_of(names)
        if changed or metadata_hash != group.metadata_hash:
            self.begin_epoch(group.epoch + GROUP_EPOCH_STEP, metadata_hash, NOT_EMPTY if group.members else now_ms)

    def begin_epoch(self, epoch: int, metadata_hash: int, empty_since_ms: int = NOT_EMPTY) -> None:
        value = GroupEpochValue(epoch, metadata_hash, empty_since_ms)
        self.write(ConsumerGroupEpoch(self.group.group_id, value))

    def retarget(self, topics: TopicsView) -> None:
        """The target assignment for the newest group epoch, if it has none yet."""
        group = self.group
        if group.assignment_epoch >= group.epoch:
            return
        self._may_be_large = True
        subscribers: dict[str, Subscriber] = {}
        # Most members of a group subscribe alike.
        topic_ids: dict[Collection[str], frozenset[UUID]] = {}
        for member_id, names in subscribed_names(group.members, topics).items():
            if names not in topic_ids:
                topic_ids[names] = frozenset(topics.existing(names))
            instance_id = group.members[member_id].subscription.instance_id
            subscribers[member_id] = Subscriber(topic_ids[names], group.target_of(member_id), instance_id)
        subscriptions = Subscriptions(members=subscribers, partition_counts=topics.partition_counts)
        targets = ASSIGNORS[self.assignor](subscriptions)
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                self.aim(member_id, target)
        self.finish_target(group.epoch)

    def finish_target(self, assignment_epoch: int) -> None:
        self.write(ConsumerGroupTargetEpoch(self.group.group_id, TargetEpochValue(assignment_epoch)))

    @property
    def assignor(self) -> str:
        preferred = self.group.preferred_assignor
        return preferred if preferred in self.limits.assignors else self.limits.assignors[0]

    def goal_of(self, member_id: str, topics: TopicsView) -> Goal:
        group = self.group
        return Goal(
            group.assignment_epoch, group.target_of(member_id), group.free_for(member_id), topics.names.__contains__
        )


def subscribed_names(members: Mapping[str, ConsumerMember], topics: TopicsView) -> dict[str, Collection[str]]:
    """The topics that each member subscribes to, by name and by pattern. Some may not exist."""
    matches: dict[str, frozenset[str]] = {}
    found: dict[str, Collection[str]] = {}
    for member_id, member in members.items():
        pattern = member.subscription.topic_regex
        if not pattern:
            found[member_id] = member.subscription.topic_names
            continue
        if pattern not in matches:
            matches[pattern] = topics.matching(pattern)
        found[member_id] = matches[pattern].union(member.subscription.topic_names)
    return found
