"""What tasks write, read by a client that is not ours."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Producer as Reference
from tests.spark.consumed import consumed, values
from tests.spark.written import new_topic

from penstock.spark.cluster import Cluster
from penstock.spark.core.failures import ClientFailure, TopicMissing
from penstock.spark.core.query_batch import QueryBatch
from penstock.spark.core.sink_options import SinkOptions, batch_sink_options
from penstock.spark.produce_requests import Identity
from penstock.spark.producer import Producer, client_settings
from penstock.spark.query_client import QueryClient, QueryRefused
from penstock.spark.sink_columns import RowRefused
from penstock.testing import TestNode, node

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def options_for(node: TestNode, **more: str) -> SinkOptions:
    named = {name.replace("_", "."): text for name, text in more.items()}
    return batch_sink_options({"kafka.bootstrap.servers": node.bootstrap, **named})


def write(options: SinkOptions, rows: dict[str, Any], **more: Any) -> None:
    batch = pa.RecordBatch.from_pydict(rows)
    with Producer(options, **more) as producer:
        producer.write(batch, tuple(rows))
        producer.finish()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_row_arrives_as_it_was(spark_node: TestNode, compression: str) -> None:
    topic = new_topic(spark_node.bootstrap, 3)
    rows = {
        "key": pa.array([b"k", None]),
        "value": pa.array(["text", None]),
        "partition": pa.array([2, 1], pa.int32()),
        "timestamp": pa.array([1_700_000_000_123_456, None], pa.timestamp("us", "UTC")),
        "headers": pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None], HEADERS),
    }
    write(options_for(spark_node, topic=topic, includeTimestamp="true", kafka_compression_type=compression), rows)
    found = {message.partition(): message for message in consumed(spark_node.bootstrap, topic, 3)}
    assert set(found) == {1, 2}
    assert (found[2].key(), found[2].value()) == (b"k", b"text")
    assert found[2].headers() == [("h", b"1"), ("h", None)]
    assert found[2].timestamp()[1] == 1_700_000_000_123
    assert (found[1].key(), found[1].value(), found[1].headers()) == (None, None, None)
    assert abs(found[1].timestamp()[1] - time.time() * 1000) < 60_000


def test_keys_go_where_kafka_s_java_client_sends_them(spark_node: TestNode) -> None:
    ours, theirs = new_topic(spark_node.bootstrap, 7), new_topic(spark_node.bootstrap, 7)
    keys = [uuid4().hex[: 1 + at % 20].encode() for at in range(200)]
    write(options_for(spark_node, topic=ours), {"key": pa.array(keys), "value": pa.array(keys)})
    reference = Reference({"bootstrap.servers": spark_node.bootstrap, "partitioner": "murmur2"})
    for key in keys:
        reference.produce(theirs, key, key=key)
    reference.flush(20)
    places = [
        {(each.key(), each.partition()) for each in consumed(spark_node.bootstrap, topic, 7)}
        for topic in (ours, theirs)
    ]
    assert places[0] == places[1]


def test_rows_without_a_key_are_spread_in_large_batches(spark_node: TestNode) -> None:
    topic = new_topic(spark_node.bootstrap, 4)
    options = options_for(spark_node, topic=topic, kafka_batch_size="5000")
    write(options, {"value": pa.array([b"%09d" % at * 10 for at in range(1000)])}, first_partition=3)
    found = consumed(spark_node.bootstrap, topic, 4)
    assert sorted(message.value() or b"" for message in found) == [b"%09d" % at * 10 for at in range(1000)]
    shares = Counter(message.partition() for message in found)
    assert len(shares) == 4
    assert max(shares.values()) - min(shares.values()) <= 60


def test_topics_by_column_are_created(spark_node: TestNode) -> None:
    names = [f"made-{uuid4().hex[:8]}" for _ in range(2)]
    rows = {"topic": pa.array(names * 10), "value": pa.array([b"%d" % at for at in range(20)])}
    write(options_for(spark_node), rows)
    for place, name in enumerate(names):
        assert sorted(int(each) for each in values(spark_node.bootstrap, name)) == list(range(place, 20, 2))


def test_a_topic_with_small_batches_gets_small_ones(spark_node: TestNode) -> None:
    topic = new_topic(spark_node.bootstrap, 1, config={"max.message.bytes": "3000"})
    written = [b"%09d" % at * 10 for at in range(500)]
    write(options_for(spark_node, topic=topic), {"value": pa.array(written)})
    assert values(spark_node.bootstrap, topic) == written
    with pytest.raises(ClientFailure, match=r"max\.message\.bytes of the topic is 3000"):
        write(options_for(spark_node, topic=topic), {"value": pa.array([b"x" * 5000])})


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"topic": pa.array(["t", None]), "value": pa.array([b"", b""])}, "KAFKA_NULL_TOPIC_IN_DATA"),
        ({"topic": pa.array(["bad name"]), "value": pa.array([b""])}, "bad name"),
    ],
)
def test_rows_that_have_no_place_are_refused(spark_node: TestNode, rows: dict[str, Any], words: str) -> None:
    with pytest.raises((RowRefused, ClientFailure), match=words):
        write(options_for(spark_node), rows)


def test_negative_timestamps_are_refused(spark_node: TestNode) -> None:
    rows = {"value": pa.array([b""]), "timestamp": pa.array([-5000], pa.timestamp("us"))}
    with pytest.raises(RowRefused, match="Timestamp should always be non-negative"):
        write(options_for(spark_node, topic="t", includeTimestamp="true"), rows)


@pytest.fixture
def queries(spark_node: TestNode) -> Iterator[QueryClient]:
    with Cluster(client_settings(options_for(spark_node, topic="t"))) as cluster:
        yield QueryClient(cluster, "tests")


def attempt_of(node: TestNode, queries: QueryClient, batch: QueryBatch, topic: str, rows: list[bytes]) -> Any:
    attempt = queries.open(batch, 60_000)
    assert attempt is not None
    identity = Identity(attempt.producer_id, attempt.producer_epoch, attempt.transactional_id)
    write(options_for(node, topic=topic), {"value": pa.array(rows)}, identity=identity)
    return attempt


def test_a_batch_of_several_tasks_is_read_as_a_whole(spark_node: TestNode, queries: QueryClient) -> None:
    topic = new_topic(spark_node.bootstrap, 2)
    batch = QueryBatch(uuid4().hex, "run", 0)
    attempts = [attempt_of(spark_node, queries, batch, topic, [b"a", b"b"]) for _ in range(3)]
    abandoned = attempt_of(spark_node, queries, batch, topic, [b"c"])
    assert queries.commit(batch, tuple(attempts))
    assert not queries.commit(batch, tuple(attempts)), "it says that it was committed before"
    assert Counter(values(spark_node.bootstrap, topic, 2)) == {b"a": 3, b"b": 3}
    assert queries.open(QueryBatch(batch.query, "another", 0), 60_000) is None
    queries.leave(abandoned)
    assert queries.open(QueryBatch(batch.query, "another", 1), 60_000) is not None
    with pytest.raises(QueryRefused, match="another run"):
        queries.open(QueryBatch(batch.query, "run", 1), 60_000)


def test_what_a_task_leaves_is_not_read(spark_node: TestNode, queries: QueryClient) -> None:
    topic = new_topic(spark_node.bootstrap)
    batch = QueryBatch(uuid4().hex, "run", 0)
    left = attempt_of(spark_node, queries, batch, topic, [b"left"])
    queries.leave(left)
    with pytest.raises(QueryRefused, match="cannot be committed"):
        queries.commit(batch, (left,))
    kept = attempt_of(spark_node, queries, batch, topic, [b"kept"])
    queries.commit(batch, (kept,))
    assert values(spark_node.bootstrap, topic) == [b"kept"]


def test_an_attempt_that_was_replaced_cannot_write(spark_node: TestNode, queries: QueryClient) -> None:
    topic = new_topic(spark_node.bootstrap)
    batch = QueryBatch(uuid4().hex, "run", 0)
    attempt = queries.open(batch, 60_000)
    assert attempt is not None
    queries.open(QueryBatch(batch.query, "another", 0), 60_000)
    identity = Identity(attempt.producer_id, attempt.producer_epoch, attempt.transactional_id)
    with pytest.raises(ClientFailure, match="another run of the query has begun"):
        write(options_for(spark_node, topic=topic), {"value": pa.array([b"x"])}, identity=identity)


def test_a_topic_that_nobody_makes_is_missing() -> None:
    with node({"auto.create.topics.enable": "false"}) as strict, pytest.raises(TopicMissing, match="Topic nowhere not"):
        write(options_for(strict, topic="nowhere"), {"value": pa.array([b"x"])})
