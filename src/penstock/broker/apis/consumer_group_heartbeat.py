"""ConsumerGroupHeartbeat (KIP-848): a member joins, lives, moves partitions and leaves, all with one call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID, uuid4

from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions as Listed
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kio.static.primitive import i32, i32Timedelta

from penstock.broker.api import NO_THROTTLE, Api, Caller, milliseconds
from penstock.broker.error_codes import code_of_answer
from penstock.errors import Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.assignors import Partitions, partitions_of
from penstock.groups.core.consumer_events import ConsumerGroupHeartbeat as Beat
from penstock.groups.core.consumer_events import ConsumerHeartbeatAnswer
from penstock.later import Later
from penstock.wire.lifts.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class ConsumerGroupHeartbeat:
    api = Api(key=68, versions=(0, 1))

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def start(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Later[ConsumerGroupHeartbeatResponse]:
        owned = None if request.topic_partitions is None else _owned(request.topic_partitions)
        event = Beat(
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            client_id=caller.client_id,
            client_host=f"/{caller.host}",
            fresh_id=str(uuid4()),
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
            topic_names=request.subscribed_topic_names,
            topic_regex=request.subscribed_topic_regex,
            server_assignor=request.server_assignor,
            owned=owned,
            needs_own_member_id=request.brings_member_id,
        )
        return self._groups.submit(request.group_id, event, ConsumerHeartbeatAnswer).map(_response)


def _owned(rows: Iterable[Listed]) -> Partitions:
    """A topic may be in several of them, and what is not listed counts as given up."""
    owned: dict[UUID, set[int]] = defaultdict(set)
    for row in rows:
        if row.topic_id is not None:
            owned[row.topic_id].update(row.partitions)
    return partitions_of(owned)


def _response(answer: ConsumerHeartbeatAnswer | Refused) -> ConsumerGroupHeartbeatResponse:
    code = code_of_answer(answer)
    if isinstance(answer, Refused):
        answer = ConsumerHeartbeatAnswer(answer.problem, answer.text)
    assignment = None
    if answer.assignment is not None:
        assignment = Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=topic_id, partitions=tuple(map(i32, sorted(partitions))))
                for topic_id, partitions in answer.assignment.items()
            )
        )
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        error_message=answer.text or None,
        member_id=answer.member_id or None,
        member_epoch=i32(answer.member_epoch),
        heartbeat_interval=i32Timedelta.parse(timedelta(milliseconds=answer.heartbeat_interval_ms)),
        assignment=assignment,
    )
