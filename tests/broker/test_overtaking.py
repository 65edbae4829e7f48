"""A batch that arrives before an earlier one makes no client send anything twice."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode
from tests.broker.link import PRODUCE, Fate, Frame, Link

from penstock.testing import node
from penstock.wire.produce import read_produce_request
from penstock.wire.produce_response import pack_produce_response
from penstock.wire.produced import PartitionProduced, ProduceResponse, TopicProduced

WAIT_S = 20
WRITTEN, LOST = 0, 1


class TimedOut:
    """What the next produce to a partition is answered with: where it is WRITTEN, and where it is LOST on the way."""

    def __init__(self) -> None:
        self.partitions: set[int] = set()

    def fate(self, frame: Frame) -> Fate | None:
        if frame.api_key != PRODUCE:
            return None
        topic = read_produce_request(memoryview(frame.content), frame.body_start, frame.version).topics[0]
        partition = topic.partitions[0].partition_index
        if partition not in self.partitions:
            return None
        self.partitions.discard(partition)
        rows = [PartitionProduced(partition, ErrorCode.request_timed_out)]
        response = ProduceResponse([TopicProduced(topic.name, topic.topic_id, rows)])
        answer = pack_produce_response(response, frame.version, frame.correlation_id, 0)
        return Fate(partition == WRITTEN, bytes(answer))


def test_what_was_written_but_not_answered_is_there_once_when_another_partition_is_overtaken() -> None:
    times_out = TimedOut()
    link = Link(times_out.fate)
    with node({"advertised.listener": link.address}) as server, link.leading_to(server.bootstrap):
        producer = _producer_of_orders(link.address)
        for partition in (WRITTEN, LOST):
            producer.produce("orders", b"first", partition=partition)
        assert producer.flush(WAIT_S) == 0
        times_out.partitions = {WRITTEN, LOST}
        for partition, value in ((WRITTEN, b"written"), (LOST, b"lost"), (LOST, b"overtakes")):
            producer.produce("orders", value, partition=partition)
        assert producer.flush(WAIT_S) == 0
        assert not times_out.partitions
        assert _values(link.address) == {WRITTEN: [b"first", b"written"], LOST: [b"first", b"lost", b"overtakes"]}


def test_a_producers_first_batch_that_came_before_the_broker_led_is_there_before_its_second() -> None:
    refused: list[Frame] = []

    def fate(frame: Frame) -> Fate | None:
        if frame.api_key != PRODUCE or refused:
            return None
        refused.append(frame)
        topic = read_produce_request(memoryview(frame.content), frame.body_start, frame.version).topics[0]
        rows = [PartitionProduced(WRITTEN, ErrorCode.not_leader_or_follower)]
        response = ProduceResponse([TopicProduced(topic.name, topic.topic_id, rows)])
        return Fate(False, bytes(pack_produce_response(response, frame.version, frame.correlation_id, 0)))

    link = Link(fate)
    with node({"advertised.listener": link.address}) as server, link.leading_to(server.bootstrap):
        producer = _producer_of_orders(link.address)
        for value in (b"first", b"second", b"third"):
            producer.produce("orders", value, partition=WRITTEN)
        assert producer.flush(WAIT_S) == 0
        assert _values(link.address)[WRITTEN] == [b"first", b"second", b"third"]


def _producer_of_orders(bootstrap: str) -> Producer:
    """Every message is a batch."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", 2)])["orders"].result(WAIT_S)
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "retry.backoff.ms": 20,
        }
    )


def _values(bootstrap: str) -> dict[int, list[bytes]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "all", "enable.partition.eof": True})
    consumer.assign([TopicPartition("orders", partition, 0) for partition in (WRITTEN, LOST)])
    values: dict[int, list[bytes]] = {WRITTEN: [], LOST: []}
    ended = 0
    while ended < 2:
        message = consumer.poll(WAIT_S)
        assert message is not None
        if message.error():
            ended += 1
        else:
            partition, value = message.partition(), message.value()
            assert partition is not None and value is not None
            values[partition].append(value)
    consumer.close()
    return values
