"""The cluster that all tests share: three brokers, any of which may die."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.cluster.faults.cluster import TestCluster

QUIET = {"log_level": 0}
COUNT = 100


def test_what_a_leader_acknowledged_the_others_have_when_it_is_killed(cluster: TestCluster) -> None:
    topic = "survives"
    cluster.create_topic(topic, 1, 3, {"min.insync.replicas": "2"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **QUIET})
    failures: list[object] = []
    for number in range(COUNT):
        producer.produce(topic, str(number), on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(30) == 0
    assert failures == []

    leader = cluster.brokers[cluster.partitions(topic)[0].leader]
    leader.kill()
    try:
        assert read(cluster, topic) == [str(number).encode() for number in range(COUNT)]
    finally:
        cluster.heal()
        cluster.wait_until_whole(topic)
    assert set(cluster.partitions(topic, leader)[0].isr) == set(cluster.brokers)


def read(cluster: TestCluster, topic: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", **QUIET})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < COUNT:
        messages = consumer.consume(COUNT, 30)
        assert messages, f"only {len(found)} of {COUNT} can be read"
        found += [message.value() for message in messages if message.error() is None]
    consumer.close()
    return found
