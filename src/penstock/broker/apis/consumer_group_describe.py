"""ConsumerGroupDescribe: members of KIP-848 groups with what they have and what they are to have."""

from __future__ import annotations

from uuid import UUID

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import code_or_none
from penstock.errors import Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.consumer_events import (
    DescribeConsumerGroups,
    DescribeConsumerGroupsAnswer,
    DescribedConsumer,
    DescribedConsumerGroup,
    NamedPartitions,
)
from penstock.later import Later, gather

# Kafka's numbers.
_CLASSIC_MEMBER, _CONSUMER_MEMBER = i8(0), i8(1)


class ConsumerGroupDescribe:
    api = Api(key=69, versions=(0, 1))

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def start(self, request: ConsumerGroupDescribeRequest, caller: Caller) -> Later[ConsumerGroupDescribeResponse]:
        # Each once, however often it is asked for: it may have thousands of members.
        return gather([self._describe(group_id) for group_id in dict.fromkeys(request.group_ids)]).map(
            lambda rows: ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=tuple(rows))
        )

    def _describe(self, group_id: GroupId) -> Later[DescribedGroup]:
        def row(answer: DescribeConsumerGroupsAnswer | Refused) -> DescribedGroup:
            if isinstance(answer, Refused):
                return _group(DescribedConsumerGroup(group_id, answer.problem, answer.text))
            return _group(answer.groups[0])

        event = DescribeConsumerGroups((group_id,))
        return self._groups.submit(group_id, event, DescribeConsumerGroupsAnswer).map(row)


def _group(group: DescribedConsumerGroup) -> DescribedGroup:
    return DescribedGroup(
        error_code=code_or_none(group.problem),
        error_message=group.text or None,
        group_id=GroupId(group.group_id),
        group_state=group.state,
        group_epoch=i32(group.group_epoch),
        assignment_epoch=i32(group.assignment_epoch),
        assignor_name=group.assignor,
        members=tuple(map(_member, group.members)),
    )


def _member(member: DescribedConsumer) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=i32(member.member_epoch),
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(map(TopicName, member.topic_names)),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(topics: tuple[NamedPartitions, ...]) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(
                topic_id=UUID(bytes=topic.topic_id),
                topic_name=TopicName(topic.topic),
                partitions=tuple(map(i32, topic.partitions)),
            )
            for topic in topics
        )
    )
