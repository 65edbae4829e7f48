"""A consumer that says in which rack it is reads from the replica there, and from the leader while that one lags."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.cluster.faults.clients import CLIENT
from tests.cluster.faults.cluster import TestCluster, rack_of, wait_for
from tests.cluster.faults.processes import BrokerProcess

COUNT = 100
VALUE_BYTES = 10_000
PART_BYTES = COUNT * VALUE_BYTES
# All that brokers say to each other and to clients besides records, while one part is read.
CHATTER_BYTES = PART_BYTES // 4
WAIT_S = 30.0
_SENT = re.compile(r"^penstock_sent_bytes_total (\S+)$", re.MULTILINE)
_numbers = iter(range(1000))


class Reading:
    """A topic with one partition that is written part by part, and a consumer near one of its followers."""

    def __init__(self, cluster: TestCluster) -> None:
        self._cluster = cluster
        self._topic = f"racks-{next(_numbers)}"
        cluster.create_topic(self._topic, 1, 3, {"min.insync.replicas": "2"})
        (found,) = cluster.partitions(self._topic)
        self.leader = cluster.brokers[found.leader]
        self.follower = cluster.brokers[found.replicas[1]]
        self.is_whole()
        self._place = TopicPartition(self._topic, 0, 0)
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **CLIENT})
        rack = {"client.rack": rack_of(self.follower.node_id), "socket.timeout.ms": 1000}
        self._consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": self._topic, **CLIENT, **rack})
        self._consumer.assign([self._place])
        # Nothing is fetched before it is measured.
        self._consumer.pause([self._place])
        self._written = 0
        self.read: list[int] = []

    def is_whole(self) -> None:
        self._cluster.wait_until_whole(self._topic)

    def is_out_of_sync(self, node_id: int) -> None:
        wait_for(
            lambda: node_id not in self._cluster.partitions(self._topic, self.leader)[0].isr,
            f"broker {node_id} is out of the ISR",
            WAIT_S,
        )

    def write(self) -> None:
        """The next part; all that are in sync have it."""
        failures: list[object] = []
        for number in range(self._written, self._written + COUNT):
            value = str(number).encode().ljust(VALUE_BYTES)
            self._producer.produce(
                self._topic, value, on_delivery=lambda error, _: failures.append(error) if error else None
            )
        assert self._producer.flush(WAIT_S) == 0
        assert failures == []
        self._written += COUNT

    def read_part(self) -> None:
        self._consumer.resume([self._place])
        while len(self.read) < self._written:
            message = self._consumer.poll(WAIT_S)
            assert message is not None, f"{len(self.read)} of {self._written} came"
            if message.error() is None:
                self.read.append(int(message.value() or b""))
        self._consumer.pause([self._place])

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def reading(cluster: TestCluster) -> Iterator[Reading]:
    made = Reading(cluster)
    try:
        yield made
    finally:
        made.close()


def sent_bytes(broker: BrokerProcess) -> float:
    """As its metrics tell it."""
    ready = [line for line in broker.output_text().splitlines() if '"node.ready"' in line]
    with urllib.request.urlopen(f"http://{json.loads(ready[-1])['http']}/metrics", timeout=10) as page:
        (found,) = _SENT.findall(page.read().decode())
    return float(found)


def served(brokers: list[BrokerProcess], read: Callable[[], None]) -> list[float]:
    """How much each of them sent meanwhile."""
    before = [sent_bytes(broker) for broker in brokers]
    read()
    return [sent_bytes(broker) - earlier for broker, earlier in zip(brokers, before, strict=True)]


def test_a_consumer_reads_from_the_follower_in_its_rack(cluster: TestCluster) -> None:
    with reading(cluster) as topic:
        topic.write()
        by_leader, by_follower = served([topic.leader, topic.follower], topic.read_part)
        assert topic.read == list(range(COUNT))
        assert by_leader < CHATTER_BYTES
        assert by_follower >= PART_BYTES


@pytest.mark.torture("racks")
def test_it_goes_back_to_the_leader_while_its_follower_lags(
    cluster: TestCluster, record_property: Callable[[str, object], None]
) -> None:
    with reading(cluster) as topic:
        both = [topic.leader, topic.follower]
        topic.write()
        first = served(both, topic.read_part)
        topic.follower.pause()
        try:
            topic.is_out_of_sync(topic.follower.node_id)
            topic.write()
            (second,) = served([topic.leader], topic.read_part)
        finally:
            cluster.heal()
        topic.is_whole()
        topic.write()
        third = served(both, topic.read_part)
        record_property("bytes of a part", PART_BYTES)
        record_property("sent by leader and follower, in sync", first)
        record_property("sent by the leader while the follower lags", second)
        record_property("sent by leader and follower, in sync again", third)
        assert topic.read == list(range(3 * COUNT))
        assert first[0] < CHATTER_BYTES and first[1] >= PART_BYTES
        assert second >= PART_BYTES
        assert third[0] < CHATTER_BYTES and third[1] >= PART_BYTES
