"""ConsumerGroupHeartbeat: from version 1 on, members choose their own ids (KIP-1082), which no field says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions

from penstock.wire.lifts.lift import Lift

_FIRST_WITH_OWN_MEMBER_ID = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout: timedelta = timedelta(milliseconds=-1)
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None
    brings_member_id: bool = True


def _adjust(request: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatRequest:
    return request if version >= _FIRST_WITH_OWN_MEMBER_ID else replace(request, brings_member_id=False)


LIFT = Lift(api_key=68, request=ConsumerGroupHeartbeatRequest, adjust_request=_adjust)
