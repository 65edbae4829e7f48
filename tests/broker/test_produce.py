"""Produce requests of unusual shapes."""

from __future__ import annotations

from dataclasses import replace

from kio.schema.produce.v8.request import PartitionProduceData
from kio.static.primitive import Records, i32
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.raw import RawConnection

from penstock.testing import node

MANY = 10_000
UNKNOWN_TOPIC_OR_PARTITION = 3


def test_one_request_for_ten_thousand_partitions() -> None:
    records = Records.parse(good_batch())
    request = requests.produce("orders", records)
    rows = tuple(PartitionProduceData(index=i32(index), records=records) for index in range(MANY))
    many = replace(request, topic_data=(replace(request.topic_data[0], partition_data=rows),))
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic("orders", partitions=3)).topics[0].error_code == 0
        answers = connection.ask(many).responses[0].partition_responses
        assert [(row.index, row.error_code) for row in answers] == [
            (index, 0 if index < 3 else UNKNOWN_TOPIC_OR_PARTITION) for index in range(MANY)
        ]
