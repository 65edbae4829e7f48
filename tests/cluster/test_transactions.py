"""Transactions across brokers: leaders ask other brokers' coordinators, markers go between them, and either may die."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.cluster.faults.cluster import TestCluster
from tests.interop.server import Server
from tests.interop.transactional_scenarios import SCENARIOS, Scenario
from tests.interop.waiting import eventually

QUIET = {"log_level": 0}
PARTITIONS = 6
WAIT_S = 60.0
# `make torture cluster-clients` has all of them.
QUICK = {name: scenario for name, scenario in SCENARIOS.items() if "aiokafka" in name or "fenced" in name}


def producer_of(cluster: TestCluster, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "linger.ms": 0, **QUIET})
    again(lambda: producer.init_transactions(WAIT_S))
    return producer


def again(ask: object) -> None:
    """As clients are told to: what can be tried again is."""
    assert callable(ask)
    while True:
        try:
            ask()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


def transaction(producer: Producer, topic: str, number: int, *, commit: bool) -> list[str]:
    producer.begin_transaction()
    values = [f"{number}-{place}" for place in range(PARTITIONS)]
    for place, value in enumerate(values):
        producer.produce(topic, value, partition=place)
    again(lambda: producer.commit_transaction(WAIT_S) if commit else producer.abort_transaction(WAIT_S))
    return values if commit else []


def committed(cluster: TestCluster, topic: str) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found, ended = [], set[int]()
    while len(ended) < PARTITIONS:
        message = consumer.poll(WAIT_S)
        assert message is not None, "nothing came"
        if (error := message.error()) is None:
            found.append((message.value() or b"").decode())
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition() or 0)
    consumer.close()
    return sorted(found)


@pytest.mark.parametrize("scenario", QUICK.values(), ids=list(QUICK))
def test_a_client(cluster: TestCluster, scenario: Scenario) -> None:
    scenario(Server(cluster.bootstrap))


def test_transactions_go_on_when_their_coordinator_is_killed(cluster: TestCluster) -> None:
    topic = "in-transactions"
    cluster.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
    producers = [producer_of(cluster, f"id-{number}") for number in range(3)]
    expected: list[str] = []
    for number, producer in enumerate(producers):
        expected += transaction(producer, topic, number, commit=True)
        transaction(producer, topic, 100 + number, commit=False)
    eventually(lambda: committed(cluster, topic) == sorted(expected), "what was committed is there")
    topic_of_coordinators = cluster.partitions("__transaction_state")
    victim = cluster.brokers[topic_of_coordinators[0].leader]
    producers[0].begin_transaction()
    producers[0].produce(topic, "at the time of death", partition=0)
    producers[0].flush(WAIT_S)
    victim.kill()
    try:
        again(lambda: producers[0].commit_transaction(WAIT_S))
        expected.append("at the time of death")
        for number, producer in enumerate(producers):
            expected += transaction(producer, topic, 200 + number, commit=True)
            transaction(producer, topic, 300 + number, commit=False)
        eventually(lambda: committed(cluster, topic) == sorted(expected), "nothing is lost, torn or twice")
    finally:
        cluster.heal()
        cluster.wait_until_whole(topic)
