"""OffsetDelete: forget what a group committed for partitions of topics that it is not subscribed to."""

from __future__ import annotations

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import code_of_answer, code_or_none
from penstock.broker.topic_names import check_partition, resolve
from penstock.cluster.core.image import Image
from penstock.errors import Problem, Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import DeleteOffsetsAnswer
from penstock.groups.core.events import DeleteOffsets, TopicPartitions
from penstock.later import Later


class OffsetDelete:
    api = Api(key=47, versions=(0, 0))

    def __init__(self, groups: Groups, image: Image) -> None:
        self._groups = groups
        self._image = image

    def start(self, request: OffsetDeleteRequest, caller: Caller) -> Later[OffsetDeleteResponse]:
        unknown: dict[tuple[str, int], Problem] = {}
        topics = []
        for topic in request.topics:
            found = resolve(self._image, topic.name, None)
            for row in topic.partitions:
                if (problem := check_partition(found, row.partition_index)) is not None:
                    unknown[topic.name, row.partition_index] = problem
            known = [
                row.partition_index for row in topic.partitions if (topic.name, row.partition_index) not in unknown
            ]
            if known:
                topics.append(TopicPartitions(topic.name, tuple(known)))
        event = DeleteOffsets(request.group_id, tuple(topics))
        return self._groups.delete_offsets(event).map(lambda answer: _response(request, answer, unknown))


def _response(
    request: OffsetDeleteRequest, answer: DeleteOffsetsAnswer | Refused, unknown: dict[tuple[str, int], Problem]
) -> OffsetDeleteResponse:
    problems: dict[tuple[str, int], Problem | None] = dict(unknown)
    if isinstance(answer, DeleteOffsetsAnswer):
        problems |= {(topic.topic, row.partition): row.problem for topic in answer.topics for row in topic.partitions}
    topics = () if answer.problem is not None else request.topics
    return OffsetDeleteResponse(
        error_code=code_of_answer(answer),
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=row.partition_index,
                        error_code=code_or_none(problems.get((topic.name, row.partition_index))),
                    )
                    for row in topic.partitions
                ),
            )
            for topic in topics
        ),
    )
