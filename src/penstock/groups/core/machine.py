"""The state machine behind one partition of __consumer_offsets: all groups whose id hashes to it, and their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from penstock.errors import Problem
from penstock.groups.core.administration import delete_group, describe, list_groups
from penstock.groups.core.answers import (
    CommitAnswer,
    DeleteGroupsAnswer,
    DescribeGroupsAnswer,
    Done,
    GroupAnswer,
    GroupDeletion,
)
from penstock.groups.core.classic import ClassicProtocol
from penstock.groups.core.classic_rebalance import renew_session
from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.consumer_events import (
    ConsumerGroupHeartbeat,
    DescribeConsumerGroups,
    DescribeConsumerGroupsAnswer,
    TopicsChanged,
)
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.consumer_mixed import refused
from penstock.groups.core.consumer_protocol import ConsumerProtocol
from penstock.groups.core.consumer_state import ConsumerGroup
from penstock.groups.core.draft import Draft, GroupDecision
from penstock.groups.core.events import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    MemberHeartbeat,
    SyncGroup,
    TopicsDeleted,
)
from penstock.groups.core.limits import MAX_GROUP_ID_CHARACTERS, GroupLimits
from penstock.groups.core.offset_expiry import EXPIRY, expire
from penstock.groups.core.offsets import commit, delete, fetch, forget_topics, has_offsets_of
from penstock.groups.core.records import CommittedOffset, Record
from penstock.groups.core.state import GroupsState
from penstock.groups.core.transaction_events import TransactionEnded, TransactionGuard, TxnOffsetCommit
from penstock.groups.core.transaction_offsets import commit_in_transaction, end_transaction
from penstock.groups.core.volatile import ClocksStarted, Note
from penstock.replication.core.machine import Parked, Tick

MembershipEvent = JoinGroup | SyncGroup | MemberHeartbeat | LeaveGroup
OffsetsEvent = CommitOffsets | FetchOffsets | DeleteOffsets | TopicsDeleted
TransactionEvent = TxnOffsetCommit | TransactionEnded
AdministrationEvent = DescribeGroups | ListGroups | DeleteGroups
ConsumerEvent = ConsumerGroupHeartbeat | DescribeConsumerGroups | TopicsChanged
GroupEvent = MembershipEvent | OffsetsEvent | TransactionEvent | AdministrationEvent | ConsumerEvent | Tick


class GroupsMachine:
    """A `Machine`; replication/core/machine.py says how a runner uses it.

    The first `Tick` after a replay starts the clocks; the runner submits it at once, because the deadline is then 0.
    """

    def __init__(self, limits: GroupLimits, consumer_limits: ConsumerLimits, began: int = 0) -> None:
        """`began` is in the order of the connections: those with lower numbers were there before."""
        self._limits = limits
        self.state = GroupsState(began)
        self._classic = ClassicProtocol()
        self._consumer = ConsumerProtocol(consumer_limits, self.state.volatile.consumer)

    def apply(self, record: Record) -> None:
        self.state.apply(record)

    def remember(self, note: Note) -> None:
        self.state.volatile.remember(note)

    def next_deadline_ms(self) -> int | None:
        volatile = self.state.volatile
        return volatile.deadlines.next_ms() if volatile.clocks_started else 0

    def committed(self) -> Iterator[tuple[str, str, dict[int, CommittedOffset]]]:
        """Group, topic, offsets by partition, as they are now, of every group that committed."""
        for group_id in self.state.offsets:
            for topic, partitions in self.state.offsets.of(group_id).items():
                yield group_id, topic, dict(partitions)

    def has_offsets_of(self, topic: str) -> bool:
        return has_offsets_of(self.state.offsets, topic)

    def count_offsets(self, group_id: str) -> int:
        """All that the group has committed or a transaction is about to."""
        return len(self.state.offsets.tombstones(group_id))

    def transaction_guard(self, producer_id: int, producer_epoch: int) -> TransactionGuard | None:
        """To be taken before the transaction's coordinator is asked, and sent along with the `TxnOffsetCommit`.

        None: nobody has to be asked, for the transaction is under way here. It waits for no commit: a machine that
        turns out to have believed too much is dropped, and its guards are void.
        """
        is_under_way = self.state.offsets.pending.epoch_of(producer_id) == producer_epoch
        return None if is_under_way else self.state.volatile.transaction_ends.guard()

    def decide(self, event: GroupEvent, now_ms: int) -> GroupDecision:
        draft = Draft(now_ms, self._limits, self.state.volatile)
        return draft.decision(self._answer(event, draft))

    def _answer(self, event: GroupEvent, draft: Draft) -> GroupAnswer | Parked:
        match event:
            case MemberHeartbeat() | JoinGroup() | SyncGroup() | LeaveGroup():
                return self._membership(event, draft)
            case CommitOffsets() | FetchOffsets() | DeleteOffsets() | TopicsDeleted():
                return self._offsets(event, draft)
            case TxnOffsetCommit() | TransactionEnded():
                return self._transactions(event, draft)
            case DescribeGroups() | ListGroups() | DeleteGroups():
                return self._administration(event, draft)
            case ConsumerGroupHeartbeat() | DescribeConsumerGroups() | TopicsChanged():
                return self._consumer_groups(event, draft)
            case Tick():
                return self._tick(draft)

    def _membership(self, event: MembershipEvent, draft: Draft) -> GroupAnswer | Parked:
        group = self.state.find(event.group_id)
        if not 0 < len(event.group_id) <= MAX_GROUP_ID_CHARACTERS:
            return refused(event, Problem.INVALID_GROUP_ID)
        if isinstance(group, ConsumerGroup):
            if not isinstance(event, JoinGroup) or not group.is_empty:
                return self._consumer.classic_member(group, event, draft)
            group = _as_classic(group, draft)
        match event:
            case MemberHeartbeat():
                return self._classic.heartbeat(group, event, draft)
            case JoinGroup():
                return self._classic.join(group, event, draft)
            case SyncGroup():
                return self._classic.sync(group, event, draft)
            case LeaveGroup():
                return self._classic.leave(group, event, draft)

    def _offsets(self, event: OffsetsEvent, draft: Draft) -> GroupAnswer:
        offsets = self.state.offsets
        match event:
            case CommitOffsets():
                return self._commit(event, draft)
            case FetchOffsets():
                topics = self.state.volatile.consumer.topics
                return fetch(self.state.find(event.group_id), offsets, event, topics)
            case DeleteOffsets():
                return delete(self.state.find(event.group_id), offsets, event, draft)
            case TopicsDeleted():
                forget_topics(offsets, event, draft)
                return Done()

    def _commit(self, event: CommitOffsets, draft: Draft) -> CommitAnswer:
        group = self.state.find(event.group_id)
        newest = self.state.volatile.committed_on.get(event.group_id, 0)
        answer = commit(group, self.state.offsets, event, newest, draft)
        if answer.problem is None and isinstance(group, ClassicGroup) and event.member_id in group.members:
            # In the classic protocol a commit is a sign of life as good as a heartbeat.
            renew_session(group, event.member_id, draft)
        return answer

    def _transactions(self, event: TransactionEvent, draft: Draft) -> GroupAnswer:
        offsets, volatile = self.state.offsets, self.state.volatile
        if isinstance(event, TransactionEnded):
            return end_transaction(offsets, volatile.transaction_ends, event, draft)
        return commit_in_transaction(self.state.find(event.group_id), offsets, volatile, event, draft)

    def _administration(self, event: AdministrationEvent, draft: Draft) -> GroupAnswer:
        find = self.state.find
        match event:
            case DescribeGroups():
                return DescribeGroupsAnswer(tuple(describe(group_id, find(group_id)) for group_id in event.group_ids))
            case ListGroups():
                groups = [group for group_id in self.state.group_ids() if (group := find(group_id)) is not None]
                return list_groups(groups, event)
            case DeleteGroups():
                rows: list[GroupDeletion] = []
                for group_id in dict.fromkeys(event.group_ids):
                    rows.append(delete_group(group_id, find(group_id), self.state.offsets, draft))
                return DeleteGroupsAnswer(tuple(rows))

    def _consumer_groups(self, event: ConsumerEvent, draft: Draft) -> GroupAnswer:
        match event:
            case ConsumerGroupHeartbeat():
                return self._consumer.heartbeat(self.state.find(event.group_id), event, draft)
            case DescribeConsumerGroups():
                rows = [self._consumer.describe(group_id, self.state.find(group_id)) for group_id in event.group_ids]
                return DescribeConsumerGroupsAnswer(tuple(rows))
            case TopicsChanged():
                self._consumer.learn_topics(event, draft)
                return Done()

    def _tick(self, draft: Draft) -> Done:
        volatile = self.state.volatile
        if not volatile.clocks_started:
            self._start_clocks(draft)
        for group_id, group_deadlines in groupby(
            sorted(volatile.deadlines.due(draft.now_ms), key=lambda deadline: deadline.group_id),
            key=lambda deadline: deadline.group_id,
        ):
            deadlines = list(group_deadlines)
            group = self.state.find(group_id)
            if deadlines[0] == EXPIRY:
                expire(
                    volatile.expiry_queue or tuple(self.state.group_ids()),
                    self.state.find,
                    self.state.offsets,
                    draft,
                )
            elif isinstance(group, ClassicGroup):
                self._classic.deadlines_passed(group, deadlines, draft)
            elif isinstance(group, ConsumerGroup):
                self._consumer.deadlines_passed(group, deadlines, draft)
            else:
                for deadline in deadlines:
                    draft.disarm(deadline)
        return Done()

    def _start_clocks(self, draft: Draft) -> None:
        for group_id in self.state.group_ids():
            group = self.state.find(group_id)
            if isinstance(group, ClassicGroup):
                self._classic.start_clocks(group, draft)
            elif isinstance(group, ConsumerGroup):
                self._consumer.start_clocks(group, draft)
        draft.arm(EXPIRY, self._limits.offsets_retention_check_interval_ms)
        draft.note(ClocksStarted())


def _as_classic(group: ConsumerGroup, draft: Draft) -> ClassicGroup:
    """An empty KIP-848 group becomes a classic one; generations go on from its epochs, so that none comes twice.

    It had members: without a protocol type it would be nothing but offsets, which age from their commit, and who joins
    may give up before it is one.
    """
    classic = ClassicGroup(
        group.group_id,
        generation=group.epoch,
        protocol_type=group.protocol_type,
        state_since_ms=draft.now_ms,
    )
    draft.write(*group.tombstones(), classic.stored())
    return classic
