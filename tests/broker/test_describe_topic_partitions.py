"""DescribeTopicPartitions: the pages together are what Metadata says."""

from __future__ import annotations

import pytest
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection

from penstock.testing import node

PARTITIONS = {"invoices": 2, "orders": 5}


@pytest.mark.parametrize("limit", [1, 2, 3, 2000])
@pytest.mark.parametrize("named", [True, False])
def test_the_pages_together_are_what_metadata_says(limit: int, named: bool) -> None:
    names = tuple(TopicRequest(name=TopicName(name)) for name in PARTITIONS) if named else ()
    with node() as server, RawConnection(server.bootstrap) as connection:
        for name, count in PARTITIONS.items():
            assert connection.ask(requests.create_topic(name, partitions=count)).topics[0].error_code == 0
        known = {
            (topic.name, row.partition_index): (row.leader_id, row.leader_epoch, row.replica_nodes, row.isr_nodes)
            for topic in connection.ask(requests.metadata()).topics
            for row in topic.partitions
        }
        assert len(known) == sum(PARTITIONS.values())
        found: dict[tuple[str, int], object] = {}
        cursor = None
        while True:
            page = connection.ask(
                DescribeTopicPartitionsRequest(topics=names, response_partition_limit=i32(limit), cursor=cursor)
            )
            rows = [(topic.name, row) for topic in page.topics for row in topic.partitions]
            assert 0 < len(rows) <= limit
            for name, row in rows:
                facts = (row.leader_id, row.leader_epoch, row.replica_nodes, row.isr_nodes)
                assert found.setdefault((name, row.partition_index), facts) is facts, "each partition comes once"
            if page.next_cursor is None:
                break
            cursor = Cursor(topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index)
        assert found == known


def test_a_topic_that_does_not_exist_is_said() -> None:
    request = DescribeTopicPartitionsRequest(topics=(TopicRequest(name=TopicName("nowhere")),))
    with node() as server, RawConnection(server.bootstrap) as connection:
        (topic,) = connection.ask(request).topics
        assert (topic.error_code, topic.name, topic.partitions) == (3, "nowhere", ())
