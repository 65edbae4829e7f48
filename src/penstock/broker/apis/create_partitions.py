"""CreatePartitions: a topic grows to `count` partitions in all. Keys may then go to other partitions than before."""

from __future__ import annotations

from collections import Counter

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.cluster.core.image import TopicImage
from penstock.cluster.topics import Topics
from penstock.errors import Problem, Refused
from penstock.later import Later, awaiting


class CreatePartitions:
    api = Api(key=37, versions=(0, 3), on_controller=True)

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def start(self, request: CreatePartitionsRequest, caller: Caller) -> Later[CreatePartitionsResponse]:
        return awaiting(self._grow_all(request))

    async def _grow_all(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        times = Counter(topic.name for topic in request.topics)
        rows = []
        for topic in request.topics:
            if times[topic.name] > 1:
                rows.append(_row(topic, Refused(Problem.INVALID_REQUEST, f"{topic.name!r} is in the request twice")))
                continue
            assignments = None if topic.assignments is None else [row.broker_ids for row in topic.assignments]
            grown = await self._topics.grow(topic.name, topic.count, assignments, request.validate_only)
            rows.append(_row(topic, grown))
        return CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(rows))


def _row(topic: CreatePartitionsTopic, result: TopicImage | Refused) -> CreatePartitionsTopicResult:
    if isinstance(result, Refused):
        return CreatePartitionsTopicResult(name=topic.name, error_code=code_of(result), error_message=result.text)
    return CreatePartitionsTopicResult(name=topic.name, error_code=NONE)
