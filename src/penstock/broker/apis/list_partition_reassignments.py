"""ListPartitionReassignments (KIP-455): the moves that are under way, as the controller knows them."""

from __future__ import annotations

from itertools import groupby

from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.cluster.core.view import PartitionKey
from penstock.cluster.operations import Operations
from penstock.coordination.paths import PartitionState
from penstock.errors import Refused


class ListPartitionReassignments:
    """Null for topics means all."""

    api = Api(key=46, versions=(0, 0), on_controller=True)

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def start(self, request: ListPartitionReassignmentsRequest, caller: Caller) -> ListPartitionReassignmentsResponse:
        keys = None
        if request.topics is not None:
            keys = [PartitionKey(topic.name, number) for topic in request.topics for number in topic.partition_indexes]
        found = self._operations.reassignments(keys)
        if isinstance(found, Refused):
            return _response(code_of(found), found.text, ())
        by_topic = groupby(sorted(found), key=lambda key: key.topic)
        rows = [(topic, tuple(_row(key, found[key]) for key in keys)) for topic, keys in by_topic]
        topics = [OngoingTopicReassignment(name=TopicName(topic), partitions=partitions) for topic, partitions in rows]
        return _response(NONE, None, tuple(topics))


def _row(key: PartitionKey, state: PartitionState) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=i32(key.partition),
        replicas=tuple(map(BrokerId, state.replicas)),
        adding_replicas=tuple(map(BrokerId, state.adding)),
        removing_replicas=tuple(map(BrokerId, state.removing)),
    )


def _response(
    code: ErrorCode, message: str | None, topics: tuple[OngoingTopicReassignment, ...]
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE, error_code=code, error_message=message, topics=topics
    )
