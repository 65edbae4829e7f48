"""OffsetCommit, OffsetFetch and OffsetDelete, for groups of either type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from penstock.errors import Problem
from penstock.groups.core.answers import (
    CommitAnswer,
    DeleteOffsetsAnswer,
    FetchAnswer,
    FetchedOffset,
    FetchedTopic,
    PartitionResult,
    TopicResults,
)
from penstock.groups.core.consumer_topics import TopicsView
from penstock.groups.core.draft import Draft
from penstock.groups.core.events import (
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    OffsetToCommit,
    TopicOffsets,
    TopicPartitions,
    TopicsDeleted,
)
from penstock.groups.core.group import Group
from penstock.groups.core.limits import MAX_GROUP_ID_CHARACTERS
from penstock.groups.core.offset_table import FORGOTTEN_AT_ONCE, OffsetTable
from penstock.groups.core.records import CommittedOffset, OffsetCommit, Record
from penstock.groups.core.volatile import CommittedOn

_OK_RESULTS = tuple(PartitionResult(partition, None) for partition in range(256))
"""Shared, because nearly every row of every commit is one of them."""


def commit(
    group: Group | None, table: OffsetTable, event: CommitOffsets, newest_connection: int, draft: Draft
) -> CommitAnswer:
    """`newest_connection`: of those that members committed its offsets on; 0 if there are none."""
    problem = _commit_problem(group, event)
    if problem is None and _is_overtaken(table, event, newest_connection):
        problem = Problem.COMMIT_OVERTAKEN
    if problem is None and _written_bytes(event) > draft.limits.max_group_bytes:
        problem = Problem.INVALID_COMMIT_OFFSET_SIZE
    if problem is not None:
        return CommitAnswer(problem)
    expires_ms = draft.now_ms + event.retention_ms if event.retention_ms >= 0 else -1
    topics = tuple(_commit_topic(event.group_id, topic, expires_ms, draft) for topic in event.topics)
    if event.group_id in table.pending:
        _take_the_place_of_pending(table, event.group_id, topics, draft)
    if event.generation >= 0:
        note_connection(event.group_id, event.connection, newest_connection, topics, draft)
    return CommitAnswer(None, topics)


def _take_the_place_of_pending(
    table: OffsetTable, group_id: str, topics: tuple[TopicResults, ...], draft: Draft
) -> None:
    """The commit that came last counts, however the transactions end that sent one before."""
    for topic in topics:
        for row in topic.partitions:
            if row.problem is None:
                draft.write(*table.pending.tombstones_at(group_id, topic.topic, row.partition))


def note_connection(
    group_id: str, connection: int, newest_connection: int, topics: tuple[TopicResults, ...], draft: Draft
) -> None:
    """Only with an offset that keeps the group known: nothing is remembered of others."""
    if connection > newest_connection and any(row.problem is None for topic in topics for row in topic.partitions):
        draft.note(CommittedOn(group_id, connection))


def _is_overtaken(table: OffsetTable, event: CommitOffsets, newest_connection: int) -> bool:
    """A member that gives up waiting commits again on another connection, and goes on from there. What it sent first

    may arrive long after that, because the network repeats what was lost; it would take the group back. A member that
    goes back on purpose, on a connection that old, is not told from it and has to do so on a new one. Who is no member
    is there to do so: an operator, mostly.
    """
    if event.generation < 0 or event.connection >= newest_connection:
        return False
    return goes_back(event.topics, lambda topic, partition: table.get(event.group_id, topic, partition))


def goes_back(topics: tuple[TopicOffsets, ...], known_at: Callable[[str, int], CommittedOffset | None]) -> bool:
    for topic in topics:
        for row in topic.offsets:
            known = known_at(topic.topic, row.partition)
            if known is not None and row.offset < known.offset and not is_of_another_topic(known, topic.topic_id):
                return True
    return False


def _commit_problem(group: Group | None, event: CommitOffsets) -> Problem | None:
    if len(event.group_id) > MAX_GROUP_ID_CHARACTERS:
        return Problem.INVALID_GROUP_ID
    if group is not None:
        return group.commit_problem(event)
    if event.generation < 0:
        # Not a member of anything: the commit makes a group that is offsets and nothing else.
        return None
    return Problem.UNKNOWN_GROUP if event.knows_member_epochs else Problem.ILLEGAL_GENERATION


def _written_bytes(event: CommitOffsets) -> int:
    """An upper bound, with text at four bytes a character."""
    total = 0
    for topic in event.topics:
        row_bytes = 128 + 4 * (len(event.group_id) + len(topic.topic))
        total += row_bytes * len(topic.offsets) + 4 * sum(len(row.metadata) for row in topic.offsets)
    return total


def _commit_topic(group_id: str, topic: TopicOffsets, expires_ms: int, draft: Draft) -> TopicResults:
    now_ms, name, topic_id = draft.now_ms, topic.topic, topic.topic_id

    def record_of(row: OffsetToCommit) -> OffsetCommit:
        value = CommittedOffset(row.offset, row.leader_epoch, row.metadata, now_ms, expires_ms, topic_id)
        return OffsetCommit(group_id, name, row.partition, value)

    return write_rows(topic, record_of, draft)


def write_rows(topic: TopicOffsets, record_of: Callable[[OffsetToCommit], Record], draft: Draft) -> TopicResults:
    """A record for each row that is right."""
    max_bytes = draft.limits.offset_metadata_max_bytes
    results = []
    for row in topic.offsets:
        if row.metadata and len(row.metadata.encode()) > max_bytes:
            results.append(PartitionResult(row.partition, Problem.OFFSET_METADATA_TOO_LARGE))
            continue
        draft.write(record_of(row))
        shared = 0 <= row.partition < len(_OK_RESULTS)
        results.append(_OK_RESULTS[row.partition] if shared else PartitionResult(row.partition, None))
    return TopicResults(topic.topic, tuple(results))


def fetch(
    group: Group | None, table: OffsetTable, event: FetchOffsets, known_topics: TopicsView | None = None
) -> FetchAnswer:
    """A group that does not exist has committed nothing; that is no error."""
    problem = group.fetch_problem(event.member_id, event.member_epoch) if group is not None else None
    if problem is not None:
        return FetchAnswer(problem)
    wanted = event.topics
    if wanted is None:
        wanted = tuple(_all_of(table, event.group_id, known_topics))
    topics = tuple(_fetch_topic(table, event.group_id, topic) for topic in wanted)
    if event.require_stable and event.group_id in table.pending:
        topics = tuple(_without_unstable(table, event.group_id, topic) for topic in topics)
    return FetchAnswer(None, topics)


def _all_of(table: OffsetTable, group_id: str, known_topics: TopicsView | None) -> Iterator[TopicPartitions]:
    """All that the group has committed, but for an earlier topic of a name that another one has now."""
    for name, partitions in table.of(group_id).items():
        topic = known_topics.by_name.get(name) if known_topics is not None else None
        topic_id = topic.topic_id.bytes if topic is not None else b""
        current = tuple(index for index, offset in partitions.items() if not is_of_another_topic(offset, topic_id))
        if current:
            yield TopicPartitions(name, current, topic_id)


def _fetch_topic(table: OffsetTable, group_id: str, wanted: TopicPartitions) -> FetchedTopic:
    known = table.of(group_id).get(wanted.topic, {})
    rows = tuple(_fetched(partition, known.get(partition), wanted.topic_id) for partition in wanted.partitions)
    return FetchedTopic(wanted.topic, rows)


def _without_unstable(table: OffsetTable, group_id: str, topic: FetchedTopic) -> FetchedTopic:
    """A consumer that took over a partition and went on from here would do again what the transaction has done."""
    rows = [
        FetchedOffset(row.partition, problem=Problem.UNSTABLE_OFFSET_COMMIT)
        if table.pending.senders(group_id, topic.topic, row.partition)
        else row
        for row in topic.partitions
    ]
    return FetchedTopic(topic.topic, tuple(rows))


def _fetched(partition: int, offset: CommittedOffset | None, topic_id: bytes) -> FetchedOffset:
    if offset is None or is_of_another_topic(offset, topic_id):
        return FetchedOffset(partition)
    return FetchedOffset(partition, offset.offset, offset.leader_epoch, offset.metadata)


def is_of_another_topic(offset: CommittedOffset, topic_id: bytes) -> bool:
    """Committed for an earlier topic of the same name: it points into a log that is gone."""
    return bool(topic_id and offset.topic_id) and topic_id != offset.topic_id


def delete(group: Group | None, table: OffsetTable, event: DeleteOffsets, draft: Draft) -> DeleteOffsetsAnswer:
    """If there are too many for one batch, a part of them goes, and the rest when it is asked for again."""
    if group is None:
        return DeleteOffsetsAnswer(Problem.UNKNOWN_GROUP)
    problem = group.offset_delete_problem()
    if problem is not None:
        return DeleteOffsetsAnswer(problem)
    topics = []
    subscribed = group.subscribed_among({topic.topic for topic in event.topics})
    # Each once: a request may name one a hundred thousand times, and the group's name is in every record.
    places: dict[tuple[str, int], None] = {}
    for topic in event.topics:
        refused = Problem.GROUP_SUBSCRIBED if topic.topic in subscribed else None
        topics.append(TopicResults(topic.topic, tuple(PartitionResult(p, refused) for p in topic.partitions)))
        if refused is None:
            places.update(dict.fromkeys((topic.topic, partition) for partition in topic.partitions))
    draft.write(*islice(_offsets_at(table, event.group_id, places), FORGOTTEN_AT_ONCE))
    return DeleteOffsetsAnswer(None, tuple(topics))


def _offsets_at(table: OffsetTable, group_id: str, places: Iterable[tuple[str, int]]) -> Iterator[Record]:
    """All that ends what the group has there."""
    for topic, partition in places:
        if table.get(group_id, topic, partition) is not None:
            yield OffsetCommit(group_id, topic, partition, None)
        yield from table.pending.tombstones_at(group_id, topic, partition)


def forget_topics(table: OffsetTable, event: TopicsDeleted, draft: Draft) -> None:
    """A part at a time: a topic may have thousands of partitions, and be read by as many groups with long names."""
    for topic in event.topics:
        draft.write(*islice(_offsets_of(table, topic), FORGOTTEN_AT_ONCE))


def has_offsets_of(table: OffsetTable, topic: str) -> bool:
    return any(True for _ in _offsets_of(table, topic))


def _offsets_of(table: OffsetTable, topic: str) -> Iterator[Record]:
    """All that ends what groups have for it."""
    for group_id in table:
        for partition in table.of(group_id).get(topic, {}):
            yield OffsetCommit(group_id, topic, partition, None)
    for group_id in table.pending:
        yield from table.pending.tombstones(group_id, topic)
