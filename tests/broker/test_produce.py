"""Produce requests of unusual shapes."""

from __future__ import annotations

from dataclasses import replace

from kio.schema.produce.v8.request import PartitionProduceData, ProduceRequest
from kio.static.primitive import Records, i32
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.raw import RawConnection

from penstock.replication.key_checks import MAX_COMPACTED_ELEMENTS
from penstock.testing import node

MANY = 10_000
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_ENOUGH_REPLICAS = 19
ZSTD = 4


def to_partitions(count: int, batch: bytes) -> ProduceRequest:
    """The same batch for each of them."""
    request = requests.produce("orders", batch)
    rows = tuple(PartitionProduceData(index=i32(index), records=Records.parse(batch)) for index in range(count))
    return replace(request, topic_data=(replace(request.topic_data[0], partition_data=rows),))


def test_one_request_for_ten_thousand_partitions() -> None:
    many = to_partitions(MANY, good_batch())
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic("orders", partitions=3)).topics[0].error_code == 0
        answers = connection.ask(many).responses[0].partition_responses
        assert [(row.index, row.error_code) for row in answers] == [
            (index, 0 if index < 3 else UNKNOWN_TOPIC_OR_PARTITION) for index in range(MANY)
        ]


def test_a_request_gets_as_much_looked_at_as_the_others_can_wait_for_and_the_rest_is_sent_again() -> None:
    heavy = to_partitions(20, good_batch(MAX_COMPACTED_ELEMENTS // 3, b"", ZSTD))
    with node() as server, RawConnection(server.bootstrap) as connection:
        compacted = requests.create_topic("orders", partitions=20, configs={"cleanup.policy": "compact"})
        assert connection.ask(compacted).topics[0].error_code == 0
        answers = connection.ask(heavy).responses[0].partition_responses
        assert [row.error_code for row in answers] == [0, 0] + [NOT_ENOUGH_REPLICAS] * 18
        (again, *_) = connection.ask(requests.produce("orders", good_batch(), partition=19)).responses
        assert [row.error_code for row in again.partition_responses] == [0]
