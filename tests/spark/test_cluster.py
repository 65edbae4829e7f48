"""What the client asks of a real node: topics, offsets, groups; and what it says when nobody answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from tests.spark.written import delete_topic, new_topic, produce, producer, settings_for

from penstock.config.address import Address
from penstock.spark.cluster import EARLIEST, LATEST, Cluster
from penstock.spark.connection import Connection
from penstock.spark.core.failures import Again, ClientFailure, NoAnswer, TopicMissing, Unavailable
from penstock.spark.core.topic_partition import TopicPartition
from penstock.spark.core.topics import FoundOffset
from penstock.spark.patience import Patience
from penstock.testing import TestNode


@pytest.fixture(scope="module")
def cluster(spark_node: TestNode) -> Iterator[Cluster]:
    with Cluster(settings_for(spark_node.bootstrap)) as cluster:
        yield cluster


def test_topics_by_name_and_by_pattern(spark_node: TestNode, cluster: Cluster) -> None:
    names = [new_topic(spark_node.bootstrap, 1 + at) for at in range(2)]
    found = {topic.name: topic for topic in cluster.topics([*names, "no-such-topic"])}
    assert {name: topic.partitions for name, topic in found.items()} == {names[0]: (0,), names[1]: (0, 1)}
    assert found[names[0]].topic_id != found[names[1]].topic_id
    assert [topic.name for topic in cluster.topics_matching(names[0].__eq__)] == [names[0]]
    # Internal topics are there, but no pattern finds them.
    cluster.committed("anybody", [TopicPartition(names[0], 0)])
    assert not any(topic.name.startswith("__") for topic in cluster.topics_matching(lambda _: True))
    assert cluster.topics(["__consumer_offsets"])[0].is_internal
    assert cluster.topics([]) == ()


def test_offsets_at_either_end_and_by_time(spark_node: TestNode, cluster: Cluster) -> None:
    topic = new_topic(spark_node.bootstrap, 3)
    client = producer(spark_node.bootstrap)
    for at in range(10):
        produce(client, topic, [b"%d" % at], partition=1, timestamp=1000 * (at + 1))
    zero, one, two = (TopicPartition(topic, at) for at in range(3))
    assert cluster.offsets({zero: LATEST, one: LATEST, two: EARLIEST}) == {
        zero: FoundOffset(0, 0),
        one: FoundOffset(10, 0),
        two: FoundOffset(0, 0),
    }
    assert cluster.offsets({zero: 5000, one: 4500}) == {zero: None, one: FoundOffset(4, 0)}
    assert cluster.offsets({one: 10_001}) == {one: None}
    assert cluster.offsets({}) == {}
    assert cluster.epoch_ends({one: 0}) == {one: 10}


def test_what_does_not_exist_is_said_at_once(spark_node: TestNode, cluster: Cluster) -> None:
    topic = new_topic(spark_node.bootstrap)
    with pytest.raises(TopicMissing, match="no-such-topic-0"):
        cluster.offsets({TopicPartition("no-such-topic", 0): LATEST})
    with pytest.raises(TopicMissing, match=f"{topic}-1"):
        cluster.offsets({TopicPartition(topic, 1): LATEST})
    # Known a moment ago.
    assert cluster.offsets({TopicPartition(topic, 0): LATEST})
    delete_topic(spark_node.bootstrap, topic)
    with pytest.raises(TopicMissing):
        cluster.offsets({TopicPartition(topic, 0): LATEST})


def test_a_group_without_members_keeps_offsets(spark_node: TestNode, cluster: Cluster) -> None:
    topic = new_topic(spark_node.bootstrap, 2)
    produce(producer(spark_node.bootstrap), topic, [b"1", b"2"])
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    group = f"group-of-{topic}"
    assert cluster.describe_group(group).state == "Dead"
    assert cluster.committed(group, [zero, one]) == {zero: None, one: None}
    cluster.commit(group, {zero: 2})
    assert cluster.committed(group, [zero, one]) == {zero: 2, one: None}
    assert (cluster.describe_group(group).state, cluster.describe_group(group).members) == ("Empty", ())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_group_is_seen_and_not_committed_to(spark_node: TestNode, cluster: Cluster, protocol: str) -> None:
    topic = new_topic(spark_node.bootstrap)
    group = f"group-of-{topic}"
    member = Consumer(
        {
            "bootstrap.servers": spark_node.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "billing",
        }
    )
    try:
        member.subscribe([topic])
        while not member.assignment():
            member.poll(0.1)
        described = cluster.describe_group(group)
        assert (described.state, described.members) == ("Stable", ("billing",))
        with pytest.raises(ClientFailure, match=f"the offset of group {group} in {topic}-0: unknown_member_id"):
            cluster.commit(group, {TopicPartition(topic, 0): 1})
    finally:
        member.close()


def test_nobody_answers_within_patience() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = Address(*unused.getsockname())
        with (
            Cluster(settings_for(str(address), patience_ms=200)) as cluster,
            pytest.raises(Unavailable, match=rf"looking up topics orders .* 200 ms.*nobody listens at {address}"),
        ):
            cluster.topics(["orders"])


@pytest.mark.parametrize(
    ("said", "match"),
    [(b"", "closed the connection"), (b"HTTP/1.1 400 Bad Request\r\n", "no answer"), (None, "did not answer in time")],
)
def test_a_peer_that_is_no_broker_is_given_up(said: bytes | None, match: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1000)
                if said is None:
                    over.wait(20)
                else:
                    peer.sendall(said)

        thread = threading.Thread(target=serve)
        thread.start()
        address = Address(*server.getsockname())
        try:
            with pytest.raises(NoAnswer, match=match):
                Connection(address, settings_for(str(address), request_timeout_ms=200))
        finally:
            over.set()
            thread.join()


def test_patience_asks_again_with_growing_pauses_and_ends() -> None:
    now_s = 0.0
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds
        pauses.append(seconds)

    def fail() -> None:
        raise Again("an election")

    patience = Patience(1000, lambda: now_s, sleep)
    with pytest.raises(Unavailable, match="asking failed for 1000 ms, at last because an election"):
        patience.until_done("asking", fail)
    assert pauses == [0, 0.05, 0.1, 0.2, 0.4]
    attempts = iter([fail, fail])
    assert patience.until_done("asking", lambda: (next(attempts, lambda: None)(), "done")[1]) == "done"
