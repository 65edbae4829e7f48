"""A request that names the same thing again and again gets it once: a few bytes are no gigabyte of an answer."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.offset_fetch.v9.request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection

from penstock.testing import node

OFTEN = 50
GROUP = GroupId("readers")
TOPIC_RESOURCE = i8(2)
ROWS = OffsetFetchRequestTopics(name=TopicName("orders"), partition_indexes=(i32(0),) * OFTEN)


@pytest.mark.parametrize(
    ("request_", "rows"),
    [
        (requests.metadata(*["orders"] * OFTEN), "topics"),
        (requests.metadata(*["missing"] * OFTEN), "topics"),
        (DescribeGroupsRequest(groups=(GROUP,) * OFTEN, include_authorized_operations=False), "groups"),
        (ConsumerGroupDescribeRequest(group_ids=(GROUP,) * OFTEN, include_authorized_operations=False), "groups"),
        (
            DescribeConfigsRequest(
                resources=(
                    DescribeConfigsResource(
                        resource_type=TOPIC_RESOURCE, resource_name="orders", configuration_keys=None
                    ),
                )
                * OFTEN
            ),
            "results",
        ),
        (
            OffsetFetchRequest(
                groups=tuple(
                    OffsetFetchRequestGroup(
                        group_id=GROUP, member_id=f"member-{number}", member_epoch=i32(-1), topics=(ROWS,) * OFTEN
                    )
                    for number in range(5)
                )
            ),
            "groups",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_what_is_asked_for_often_is_answered_once(request_: Any, rows: str) -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic("orders")).topics[0].error_code == 0
        connection.ask(FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(GROUP,)))
        answered = getattr(connection.ask(request_), rows)
        assert len(answered) == 1
        if isinstance(request_, OffsetFetchRequest):
            ((topic,),) = (group.topics for group in answered)
            assert [row.partition_index for row in topic.partitions] == [0]
