"""Which logs there are, and how large."""

from __future__ import annotations

import pytest
from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection

from penstock.testing import node


@pytest.mark.parametrize(
    ("rows", "described"), [(([0], [2]), [0, 2]), (([1], []), [0, 1, 2]), (([], [1]), [0, 1, 2]), (([7],), [])]
)
def test_a_topic_may_be_asked_for_in_several_rows(rows: tuple[list[int], ...], described: list[int]) -> None:
    asked = DescribeLogDirsRequest(
        topics=tuple(DescribableLogDirTopic(topic=TopicName("orders"), partitions=tuple(map(i32, row))) for row in rows)
    )
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic("orders", partitions=3)).topics[0].error_code == 0
        (result,) = connection.ask(asked).results
        assert [row.partition_index for topic in result.topics for row in topic.partitions] == described
