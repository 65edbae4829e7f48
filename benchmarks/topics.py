"""Topics for a measurement, ready before the clock starts."""

from __future__ import annotations

import time

from benchmarks.peers.broker import PeerUnavailable
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_READY_S = 60


def create_topic(address: str, topic: str, partitions: int, replicas: int) -> None:
    """Returns when every partition has a leader that answers. Of three replicas, two are enough to go on."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
    deadline_s = time.monotonic() + _READY_S
    while (brokers := len(admin.list_topics(timeout=_READY_S).brokers)) < replicas:
        if time.monotonic() > deadline_s:
            raise PeerUnavailable(f"only {brokers} of {replicas} brokers have joined after {_READY_S} s")
        time.sleep(0.05)
    config = {"min.insync.replicas": "2"} if replicas > 1 else {}
    created = admin.create_topics([NewTopic(topic, partitions, replicas, config=config)])
    created[topic].result(_READY_S)
    asker = Consumer({"bootstrap.servers": address, "group.id": "ready", "log_level": 3})
    try:
        for partition in range(partitions):
            while not _answers(asker, TopicPartition(topic, partition)):
                if time.monotonic() > deadline_s:
                    raise PeerUnavailable(f"{topic} has no leader for partition {partition} after {_READY_S} s")
                time.sleep(0.05)
    finally:
        asker.close()


def _answers(asker: Consumer, partition: TopicPartition) -> bool:
    try:
        asker.get_watermark_offsets(partition, 5.0)
    except KafkaException:
        return False
    return True
