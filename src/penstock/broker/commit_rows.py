"""Offsets to commit as requests have them, in a transaction or not, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from penstock.broker.topic_names import check_partition
from penstock.cluster.core.image import TopicImage
from penstock.errors import Problem, Refused
from penstock.groups.core.answers import CommitAnswer
from penstock.groups.core.events import OffsetToCommit, TopicOffsets


class CommitRow(Protocol):
    @property
    def partition_index(self) -> int: ...

    @property
    def committed_offset(self) -> int: ...

    @property
    def committed_leader_epoch(self) -> int: ...

    @property
    def committed_metadata(self) -> str | None: ...


def offsets_in(rows: Iterable[CommitRow], topic: TopicImage) -> TopicOffsets:
    """Those whose partition exists."""
    return TopicOffsets(
        topic=topic.name,
        topic_id=topic.id.bytes,
        offsets=tuple(
            OffsetToCommit(
                row.partition_index, row.committed_offset, row.committed_leader_epoch, row.committed_metadata or ""
            )
            for row in rows
            if check_partition(topic, row.partition_index) is None
        ),
    )


def problem_finder(answer: CommitAnswer | Refused) -> Callable[[TopicImage | Problem, int], Problem | None]:
    """What was wrong with a row: its topic as it was resolved, its partition, or the commit."""
    results = {}
    if isinstance(answer, CommitAnswer):
        results = {(topic.topic, row.partition): row.problem for topic in answer.topics for row in topic.partitions}

    def problem(found: TopicImage | Problem, index: int) -> Problem | None:
        if answer.problem is not None:
            return answer.problem
        unknown = check_partition(found, index)
        return unknown if isinstance(found, Problem) or unknown else results.get((found.name, index))

    return problem
