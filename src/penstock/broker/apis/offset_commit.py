"""OffsetCommit: how far a group has come. Topics that do not exist are refused row by row, the rest is committed.

A member's commit that would take its group back, on a connection older than the newest that members committed on or
than this coordinator, may be a late one that its client has long repeated elsewhere. It is not carried out, and the
connection is closed: a client that means it sends it again on a new one.
"""

from __future__ import annotations

from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
from kio.static.primitive import i32

from penstock.broker.api import Api, Caller, CloseConnection, milliseconds
from penstock.broker.commit_rows import offsets_in, problem_finder
from penstock.broker.error_codes import code_or_none
from penstock.broker.topic_names import resolve
from penstock.cluster.core.image import Image, TopicImage
from penstock.errors import Problem, Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import CommitAnswer
from penstock.groups.core.events import CommitOffsets
from penstock.later import Later
from penstock.wire.lifts.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)


class OffsetCommit:
    api = Api(key=8, versions=(2, 10))

    def __init__(self, groups: Groups, image: Image) -> None:
        self._groups = groups
        self._image = image

    def start(self, request: OffsetCommitRequest, caller: Caller) -> Later[OffsetCommitResponse]:
        topics = [(topic, resolve(self._image, topic.name, topic.topic_id)) for topic in request.topics]
        wanted = [offsets_in(topic.partitions, found) for topic, found in topics if isinstance(found, TopicImage)]
        event = CommitOffsets(
            group_id=request.group_id,
            topics=tuple(topic for topic in wanted if topic.offsets),
            member_id=request.member_id,
            generation=request.generation_id_or_member_epoch,
            group_instance_id=request.group_instance_id,
            retention_ms=milliseconds(request.retention_time),
            knows_member_epochs=request.knows_member_epochs,
            connection=caller.number,
        )
        return self._groups.submit(request.group_id, event, CommitAnswer).map(lambda answer: _response(answer, topics))


def _response(
    answer: CommitAnswer | Refused, topics: list[tuple[OffsetCommitRequestTopic, TopicImage | Problem]]
) -> OffsetCommitResponse:
    if answer.problem is Problem.COMMIT_OVERTAKEN:
        raise CloseConnection("a commit that takes its group back came on a connection older than the last commit")
    problem = problem_finder(answer)
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=i32(row.partition_index),
                        error_code=code_or_none(problem(found, row.partition_index)),
                    )
                    for row in topic.partitions
                ),
            )
            for topic, found in topics
        )
    )
