"""TxnOffsetCommit, and what the end of a transaction makes of it.

A pending offset comes to be only while somebody will end it: the transaction is under way here already, or its
coordinator has said that it is and that this partition will have its marker, and no marker has come since it was asked.
"""

from __future__ import annotations

from penstock.errors import Problem
from penstock.groups.core.answers import CommitAnswer, TopicResults
from penstock.groups.core.draft import Draft
from penstock.groups.core.events import OffsetToCommit, TopicOffsets
from penstock.groups.core.group import Group, GroupType
from penstock.groups.core.limits import MAX_GROUP_ID_CHARACTERS
from penstock.groups.core.offset_table import OffsetTable
from penstock.groups.core.offsets import goes_back, note_connection, write_rows
from penstock.groups.core.pending_offsets import PendingOffsets, Place, weight_bytes
from penstock.groups.core.producer_connections import SentOn
from penstock.groups.core.records import CommittedOffset, OffsetCommit, PendingOffset, PendingOffsetCommit
from penstock.groups.core.transaction_ends import TransactionEnds, TransactionOver
from penstock.groups.core.transaction_events import TransactionEnded, TransactionEndedAnswer, TxnOffsetCommit
from penstock.groups.core.volatile import Volatile

# Of one partition's offset at a time. Whoever commits it writes that those before are void, in the same batch, and one
# of a hundred megabytes no follower would get. A partition has one consumer, so more than two are rare.
MOST_SENDERS = 8


def commit_in_transaction(
    group: Group | None, table: OffsetTable, volatile: Volatile, event: TxnOffsetCommit, draft: Draft
) -> CommitAnswer:
    pending = table.pending
    problem = _producer_problem(pending, volatile.transaction_ends, event) or _member_problem(group, event)
    if problem is None and _is_overtaken(table, volatile, event):
        problem = Problem.COMMIT_OVERTAKEN
    if problem is None and pending.weight_of(event.producer_id) + _weight(event) > draft.limits.max_group_bytes:
        # All of it is written at once when the transaction ends, and a batch that is too large would never be.
        problem = Problem.INVALID_COMMIT_OFFSET_SIZE
    if problem is None and _is_crowded(pending, event):
        # So clients send it again, until some of those transactions have ended or timed out.
        problem = Problem.COORDINATOR_LOADING
    if problem is not None:
        return CommitAnswer(problem)
    if pending.epoch_of(event.producer_id) not in (None, event.producer_epoch):
        # Of an earlier transaction. A later one is under way, so no marker of that one is still to come.
        draft.write(*(PendingOffsetCommit(event.producer_id, *place, None) for place in pending.of(event.producer_id)))
    topics = tuple(_send_topic(event, topic, draft) for topic in event.topics)
    draft.note(SentOn(event.producer_id, event.connection))
    newest_connection = volatile.committed_on.get(event.group_id, 0)
    note_connection(event.group_id, event.connection, newest_connection, topics, draft)
    return CommitAnswer(None, topics)


def _producer_problem(pending: PendingOffsets, ends: TransactionEnds, event: TxnOffsetCommit) -> Problem | None:
    end, under_way = ends.of(event.producer_id), pending.epoch_of(event.producer_id)
    if end is not None and event.producer_epoch < end.producer_epoch:
        return Problem.INVALID_PRODUCER_EPOCH
    if under_way is not None and event.producer_epoch <= under_way:
        return Problem.INVALID_PRODUCER_EPOCH if event.producer_epoch < under_way else None
    if event.guard is None or ends.is_void(event.guard, event.producer_id):
        # Clients send it again, and then the coordinator knows whether that transaction is over.
        return Problem.COORDINATOR_LOADING
    return None


def _member_problem(group: Group | None, event: TxnOffsetCommit) -> Problem | None:
    """Unlike other commits, these are taken from producers that name no member (those before KIP-447), and also before

    members know their assignment.
    """
    if not 0 < len(event.group_id) <= MAX_GROUP_ID_CHARACTERS:
        return Problem.INVALID_GROUP_ID
    if group is None:
        return None if event.generation < 0 else Problem.ILLEGAL_GENERATION
    if group.group_type is GroupType.CLASSIC and not event.names_member:
        return None
    problem = group.commit_problem(event.outside_transaction())
    if problem is Problem.STALE_MEMBER_EPOCH:
        return Problem.ILLEGAL_GENERATION
    return None if problem is Problem.REBALANCE_IN_PROGRESS else problem


def _is_overtaken(table: OffsetTable, volatile: Volatile, event: TxnOffsetCommit) -> bool:
    """One that comes late can be in time for the next transaction, because before version 2 that has the same epoch. If

    its own was aborted it may even be ahead, and what lies between would be skipped. A producer uses one connection
    after another, so what comes on one that it has left was sent before. And whoever sent it, as with other commits a
    group is not taken back on an old connection.
    """
    is_under_way = table.pending.epoch_of(event.producer_id) is not None
    if event.connection < volatile.producer_connections.newest(event.producer_id, is_under_way=is_under_way):
        return True
    if event.connection >= volatile.committed_on.get(event.group_id, 0):
        return False
    return goes_back(event.topics, lambda topic, partition: table.get(event.group_id, topic, partition))


def _weight(event: TxnOffsetCommit) -> int:
    return sum(
        weight_bytes(event.group_id, topic.topic, row.metadata) for topic in event.topics for row in topic.offsets
    )


def _is_crowded(pending: PendingOffsets, event: TxnOffsetCommit) -> bool:
    for topic in event.topics:
        for row in topic.offsets:
            senders = pending.senders(event.group_id, topic.topic, row.partition)
            if len(senders) >= MOST_SENDERS and event.producer_id not in senders:
                return True
    return False


def _send_topic(event: TxnOffsetCommit, topic: TopicOffsets, draft: Draft) -> TopicResults:
    def record_of(row: OffsetToCommit) -> PendingOffsetCommit:
        value = PendingOffset(event.producer_epoch, row.offset, row.leader_epoch, row.metadata, topic.topic_id)
        return PendingOffsetCommit(event.producer_id, event.group_id, topic.topic, row.partition, value)

    return write_rows(topic, record_of, draft)


def end_transaction(
    table: OffsetTable, ends: TransactionEnds, event: TransactionEnded, draft: Draft
) -> TransactionEndedAnswer:
    """A marker that was written already is answered as the first time, and does nothing."""
    end, under_way = ends.of(event.producer_id), table.pending.epoch_of(event.producer_id)
    newest = max(-1 if end is None else end.producer_epoch, -1 if under_way is None else under_way)
    if event.producer_epoch < newest:
        return TransactionEndedAnswer(Problem.INVALID_PRODUCER_EPOCH)
    if end is not None and event.coordinator_epoch < end.coordinator_epoch:
        return TransactionEndedAnswer(Problem.TRANSACTION_COORDINATOR_FENCED)
    if event.bumps_epoch and event.producer_epoch == newest:
        return TransactionEndedAnswer(None)
    for place, offset in table.pending.of(event.producer_id).items():
        if event.committed:
            _commit_pending(table.pending, event.producer_id, place, offset, draft)
        draft.write(PendingOffsetCommit(event.producer_id, *place, None))
    draft.note(TransactionOver(event.producer_id, event.producer_epoch, event.coordinator_epoch))
    return TransactionEndedAnswer(None)


def _commit_pending(
    pending: PendingOffsets, producer_id: int, place: Place, offset: PendingOffset, draft: Draft
) -> None:
    """The commit that was sent last counts, not the transaction that ends last."""
    for sender in pending.senders(*place):
        if sender == producer_id:
            break
        draft.write(PendingOffsetCommit(sender, *place, None))
    value = CommittedOffset(offset.offset, offset.leader_epoch, offset.metadata, draft.now_ms, topic_id=offset.topic_id)
    draft.write(OffsetCommit(*place, value))
