"""CreateTopics. A broker's default of partitions or replicas is asked for with -1 (KIP-464)."""

from __future__ import annotations

from collections import Counter

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.config_rows import TopicConfigs
from penstock.broker.error_codes import NONE, code_of
from penstock.cluster.core.image import TopicImage
from penstock.cluster.topics import NewTopic, Topics
from penstock.errors import Problem, Refused
from penstock.later import Later, awaiting


class CreateTopics:
    api = Api(key=19, versions=(2, 7), on_controller=True)

    def __init__(self, topics: Topics, configs: TopicConfigs) -> None:
        self._topics = topics
        self._configs = configs

    def start(self, request: CreateTopicsRequest, caller: Caller) -> Later[CreateTopicsResponse]:
        return awaiting(self._create_all(request))

    async def _create_all(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        times = Counter(topic.name for topic in request.topics)
        rows = []
        for topic in request.topics:
            if times[topic.name] > 1:
                refused = Refused(
                    Problem.INVALID_REQUEST, f"{topic.name!r} is in the request {times[topic.name]} times"
                )
                rows.append(_failed(topic, refused))
                continue
            match await self._topics.create(_new_topic(topic), request.validate_only):
                case Refused() as refused:
                    rows.append(_failed(topic, refused))
                case TopicImage() as created:
                    rows.append(self._created(created, request.validate_only))
        return CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(rows))

    def _created(self, topic: TopicImage, validate_only: bool) -> CreatableTopicResult:
        configs = tuple(
            CreatableTopicConfigs(
                name=row.name, value=row.value, read_only=False, config_source=i8(row.source), is_sensitive=False
            )
            for row in self._configs.of(topic)
        )
        return CreatableTopicResult(
            name=TopicName(topic.name),
            topic_id=None if validate_only else topic.id,
            error_code=NONE,
            error_message=None,
            num_partitions=i32(len(topic.partitions)),
            replication_factor=i16(len(topic.partitions[0].replicas)),
            configs=configs,
        )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment={row.partition_index: row.broker_ids for row in topic.assignments},
        config={row.name: row.value for row in topic.configs if row.value is not None},
    )


def _failed(topic: CreatableTopic, refused: Refused) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name, topic_id=None, error_code=code_of(refused), error_message=refused.text, configs=None
    )
