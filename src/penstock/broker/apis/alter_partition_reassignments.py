"""AlterPartitionReassignments (KIP-455): replicas move while the partition is served; null cancels a move."""

from __future__ import annotations

from itertools import groupby

from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.cluster.core.events import ReassignmentWish
from penstock.cluster.core.image import Image
from penstock.cluster.core.reassignment import target_of
from penstock.cluster.core.view import PartitionKey
from penstock.cluster.operations import Operations, Rows
from penstock.errors import Problem, Refused
from penstock.later import Later


class AlterPartitionReassignments:
    """A row that would change the replication factor is refused where the request does not allow that (KIP-860)."""

    api = Api(key=45, versions=(0, 1), on_controller=True)

    def __init__(self, image: Image, operations: Operations) -> None:
        self._image = image
        self._operations = operations

    def start(
        self, request: AlterPartitionReassignmentsRequest, caller: Caller
    ) -> Later[AlterPartitionReassignmentsResponse]:
        wishes = [
            ReassignmentWish(PartitionKey(topic.name, row.partition_index), _replicas(row.replicas))
            for topic in request.topics
            for row in topic.partitions
        ]
        refused: dict[PartitionKey, Refused] = {}
        if not request.allow_replication_factor_change:
            refused = {wish.partition: why for wish in wishes if (why := self._other_factor(wish)) is not None}
        granted = [wish for wish in wishes if wish.partition not in refused]
        allowed = request.allow_replication_factor_change

        def answer(rows: Rows | Refused) -> AlterPartitionReassignmentsResponse:
            if isinstance(rows, Refused):
                return _response(allowed, code_of(rows), rows.text, ())
            outcomes = dict(refused)
            for wish, row in zip(granted, rows, strict=True):
                if row.refusal is not None:
                    outcomes[wish.partition] = row.refusal
            return _response(allowed, NONE, None, _topics([wish.partition for wish in wishes], outcomes))

        return self._operations.reassign(granted).map(answer)

    def _other_factor(self, wish: ReassignmentWish) -> Refused | None:
        topic = self._image.topic(wish.partition.topic)
        if wish.replicas is None or topic is None or wish.partition.partition >= len(topic.partitions):
            return None
        factor = len(target_of(topic.partitions[wish.partition.partition].state))
        if factor == len(wish.replicas):
            return None
        text = f"it has {factor} replicas, {len(wish.replicas)} were given, and the request does not allow a change"
        return Refused(Problem.INVALID_REPLICATION_FACTOR, text)


def _replicas(replicas: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if replicas is None else tuple(int(replica) for replica in replicas)


def _topics(keys: list[PartitionKey], refused: dict[PartitionKey, Refused]) -> tuple[ReassignableTopicResponse, ...]:
    return tuple(
        ReassignableTopicResponse(
            name=TopicName(topic),
            partitions=tuple(
                ReassignablePartitionResponse(
                    partition_index=i32(key.partition),
                    error_code=code_of(refused[key]) if key in refused else NONE,
                    error_message=refused[key].text if key in refused else None,
                )
                for key in rows
            ),
        )
        for topic, rows in groupby(keys, key=lambda key: key.topic)
    )


def _response(
    allowed: bool, code: ErrorCode, message: str | None, topics: tuple[ReassignableTopicResponse, ...]
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=allowed,
        error_code=code,
        error_message=message,
        responses=topics,
    )
