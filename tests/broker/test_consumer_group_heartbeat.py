"""ConsumerGroupHeartbeat as the coordinator gets it."""

from __future__ import annotations

from datetime import timedelta
from typing import cast
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions
from kio.static.primitive import i32

from penstock.broker.api import Caller
from penstock.broker.apis.consumer_group_heartbeat import ConsumerGroupHeartbeat
from penstock.errors import Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.consumer_events import ConsumerGroupHeartbeat as Beat
from penstock.groups.core.consumer_events import ConsumerHeartbeatAnswer
from penstock.later import Later
from penstock.wire.lifts.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class Coordinator:
    def __init__(self) -> None:
        self.events: list[Beat] = []

    def submit(
        self, group_id: str, event: Beat, kind: type[ConsumerHeartbeatAnswer]
    ) -> Later[ConsumerHeartbeatAnswer | Refused]:
        self.events.append(event)
        return Later.of(ConsumerHeartbeatAnswer(None, member_id=event.member_id))


def test_what_a_member_owns_of_a_topic_may_be_in_several_rows() -> None:
    orders, bills = UUID(int=1), UUID(int=2)
    rows = tuple(
        TopicPartitions(topic_id=topic_id, partitions=tuple(map(i32, partitions)))
        for topic_id, partitions in ((orders, (0, 1)), (bills, (0,)), (orders, (2,)))
    )
    request = ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="one",
        member_epoch=2,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=timedelta(milliseconds=-1),
        subscribed_topic_names=None,
        subscribed_topic_regex=None,
        server_assignor=None,
        topic_partitions=rows,
        brings_member_id=True,
    )
    coordinator = Coordinator()
    ConsumerGroupHeartbeat(cast(Groups, coordinator)).start(request, Caller("127.0.0.1", "127.0.0.1", 9092))
    (event,) = coordinator.events
    assert event.owned == {orders: frozenset({0, 1, 2}), bills: frozenset({0})}
