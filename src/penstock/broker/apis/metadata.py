"""Metadata: topics, their partitions and leaders, and the brokers; creates a missing topic where that is allowed.

Deviation: authorised operations are reported as unknown, because there is no authorisation yet.
"""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.broker.topic_rows import led_by_others, topic_row
from penstock.cluster.core.image import INTERNAL_TOPICS, BrokerImage, Image, TopicImage
from penstock.cluster.core.topic_rules import check_name
from penstock.cluster.topics import NewTopic, Topics
from penstock.errors import PenstockError, Refused
from penstock.later import Later, awaiting


class Metadata:
    """An empty list of topics means none, null means all (version 0: an empty list means all)."""

    api = Api(key=3, versions=(0, 13))

    def __init__(self, image: Image, topics: Topics, auto_create: bool) -> None:
        self._image = image
        self._topics = topics
        self._auto_create = auto_create

    def start(self, request: MetadataRequest, caller: Caller) -> MetadataResponse | Later[MetadataResponse]:
        address = (caller.local_host, caller.local_port)
        if request.topics is None:
            return self._response([self._found(topic) for topic in self._image.topics()], address)
        # Each once, however often it is asked for: a topic may have thousands of partitions.
        wanted = tuple(dict.fromkeys(request.topics))
        if self._auto_create and request.allow_auto_topic_creation:
            missing = [
                row.name
                for row in wanted
                if row.name and row.name not in INTERNAL_TOPICS and self._image.topic(row.name) is None
            ]
            if missing:
                return awaiting(self._create_and_answer(missing, wanted, address))
        return self._response([self._row(row) for row in wanted], address)

    async def _create_and_answer(
        self, missing: list[TopicName], rows: tuple[MetadataRequestTopic, ...], address: tuple[str, int]
    ) -> MetadataResponse:
        refused: dict[str, Refused] = {}
        for name in missing:
            refusal = await self._topics.ensure(NewTopic(name))
            if refusal is not None:
                refused[name] = refusal
        return self._response([self._row(row, refused) for row in rows], address)

    def _row(self, row: MetadataRequestTopic, refused: dict[str, Refused] | None = None) -> MetadataResponseTopic:
        if row.name is None:
            return self._row_by_id(row.topic_id)
        topic = self._image.topic(row.name)
        if topic is not None:
            return self._found(topic)
        if refused and row.name in refused:
            return _failed(code_of(refused[row.name]), row.name, None)
        try:
            check_name(row.name)
        except PenstockError as error:
            return _failed(code_of(error.problem), row.name, None)
        return _failed(ErrorCode.unknown_topic_or_partition, row.name, None)

    def _row_by_id(self, topic_id: UUID | None) -> MetadataResponseTopic:
        topic = None if topic_id is None else self._image.topic_by_id(topic_id)
        return self._found(topic) if topic is not None else _failed(ErrorCode.unknown_topic_id, None, topic_id)

    def _found(self, topic: TopicImage) -> MetadataResponseTopic:
        return topic_row(
            topic,
            enumerate(led_by_others(topic.partitions, self._image.doubted)),
            MetadataResponseTopic,
            MetadataResponsePartition,
            self._image.live_epochs,
            no_leader=ErrorCode.leader_not_available,
        )

    def _response(self, rows: list[MetadataResponseTopic], address: tuple[str, int]) -> MetadataResponse:
        return MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=tuple(broker_row(broker, address) for broker in listed(self._image)),
            cluster_id=self._image.cluster_id,
            controller_id=BrokerId(self._image.controller_id),
            topics=tuple(rows),
            error_code=NONE,
        )


def reachable(image: Image) -> list[BrokerImage]:
    """Whoever is asked is there, also before the controller has admitted it."""
    return [broker for broker in image.brokers.values() if broker.is_live or broker.node_id == image.node_id]


def listed(image: Image) -> list[BrokerImage]:
    """Also who has gone a moment ago: clients that take it off their list lose sight of what it led."""
    found = reachable(image)
    there = {broker.node_id for broker in found}
    return found + [broker for broker in image.departed.values() if broker.node_id not in there]


def broker_row(broker: BrokerImage, address: tuple[str, int]) -> MetadataResponseBroker:
    """A broker without an advertised address is where the client reached it."""
    host, port = (broker.host, broker.port) if broker.host else address
    return MetadataResponseBroker(node_id=BrokerId(broker.node_id), host=host, port=i32(port), rack=broker.rack)


def _failed(code: ErrorCode, name: TopicName | None, topic_id: UUID | None) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=())
