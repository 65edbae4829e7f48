from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

import pytest
from confluent_kafka import Consumer
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from tests.durability.clients import create_topic, delete_topic, write
from tests.interop.waiting import eventually
from tests.spark.reading import WAIT_S, Query, Row, add_partitions, committed

from penstock.spark.core.failures import DataLoss, TopicMissing
from penstock.spark.progress import GroupInUse
from penstock.testing import TestNode

_numbers = count()


@pytest.fixture
def topic(spark_node: TestNode) -> Iterator[str]:
    """Two partitions of five."""
    name = f"stream-{next(_numbers)}"
    create_topic(spark_node.bootstrap, name, 2)
    for partition in range(2):
        append(spark_node, name, partition)
    yield name


def append(node: TestNode, topic: str, partition: int) -> None:
    write(node.bootstrap, topic, [b"%d" % number for number in range(5)], partition=partition)


def expected(partition: int, start: int = 0, end: int = 5) -> list[Row]:
    return [Row(partition, offset, b"%d" % (offset % 5)) for offset in range(start, end)]


def test_from_batch_to_batch(spark_node: TestNode, topic: str) -> None:
    query = Query(spark_node, subscribe=topic, startingOffsets="earliest")
    assert query.next_batch() == expected(0) + expected(1)
    assert query.next_batch() is None
    append(spark_node, topic, 1)
    assert query.next_batch() == expected(1, 5, 10)
    assert query.offsets() == {topic: {"0": 5, "1": 10}}
    latest = query.reader.reportLatestOffset()
    assert latest is not None
    assert latest[topic]["offsets"] == {"0": 5, "1": 10}
    query.reader.stop()


def test_a_stream_begins_at_the_end_unless_told_otherwise(spark_node: TestNode, topic: str) -> None:
    query = Query(spark_node, subscribe=topic)
    # Empty, but Spark records it: where a stream has begun does not change any more.
    assert query.next_batch() == []
    assert query.next_batch() is None
    append(spark_node, topic, 0)
    assert Query(spark_node, query.checkpoint, subscribe=topic).next_batch() == expected(0, 5, 10)


def test_a_first_batch_that_is_done_again_has_the_same_rows(spark_node: TestNode, topic: str) -> None:
    """Spark keeps its end. For its begin it asks again, when the end of the log is another one."""
    reader = Query(spark_node, subscribe=topic).reader
    start = reader.initialOffset()
    append(spark_node, topic, 0)
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    reader.stop()
    again = Query(spark_node, json.dumps(end), subscribe=topic)
    # Once nothing has come since, once something has.
    for _ in range(2):
        assert again.read(again.reader.initialOffset(), end) == expected(0, 5, 10)
        append(spark_node, topic, 0)
    assert again.next_batch() == expected(0, 10, 20)


def test_a_first_batch_that_is_done_again_when_there_are_more_partitions(spark_node: TestNode, topic: str) -> None:
    reader = Query(spark_node, subscribe=topic, startingOffsets="earliest").reader
    end = json.loads(json.dumps(reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())))
    reader.stop()
    add_partitions(spark_node, topic, 3)
    append(spark_node, topic, 2)
    again = Query(spark_node, json.dumps(end), subscribe=topic, startingOffsets="earliest")
    assert again.read(again.reader.initialOffset(), end) == expected(0) + expected(1)
    assert again.next_batch() == expected(2)


def test_new_partitions_are_read_from_their_beginning(spark_node: TestNode, topic: str) -> None:
    query = Query(spark_node, subscribePattern=f"^{topic}$", maxOffsetsPerTrigger="4")
    assert query.next_batch() == []
    add_partitions(spark_node, topic, 3)
    append(spark_node, topic, 2)
    assert query.next_batch() == expected(2, 0, 4)
    assert query.next_batch() == expected(2, 4, 5)


def test_limits(spark_node: TestNode, topic: str) -> None:
    query = Query(spark_node, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(4)
    assert query.next_batch() == expected(0, 0, 2) + expected(1, 0, 2)
    assert query.next_batch(ReadAllAvailable()) == expected(0, 2) + expected(1, 2)
    append(spark_node, topic, 0)

    patient = Query(spark_node, subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger="6")
    assert patient.reader.getDefaultReadLimit() == ReadMinRows(6)
    assert patient.next_batch() == expected(0, 0, 10) + expected(1)
    append(spark_node, topic, 1)
    assert patient.next_batch() is None
    append(spark_node, topic, 0)
    assert patient.next_batch() == expected(0, 10, 15) + expected(1, 5, 10)


def test_what_is_available_now_and_nothing_that_comes_later(spark_node: TestNode, topic: str) -> None:
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "6", "minOffsetsPerTrigger": "6"}
    query = Query(spark_node, subscribe=topic, **options)
    query.reader.prepareForTriggerAvailableNow()
    first = query.next_batch() or []
    append(spark_node, topic, 0)
    add_partitions(spark_node, topic, 3)
    append(spark_node, topic, 2)
    second = query.next_batch() or []
    assert sorted(first + second) == expected(0) + expected(1)
    assert len(second) < 6
    assert query.next_batch() is None


def test_progress_is_a_group_without_lag(spark_node: TestNode, topic: str) -> None:
    query = Query(spark_node, subscribe=topic, startingOffsets="earliest", kafka__group__id=f"of-{topic}")
    query.next_batch()
    assert committed(spark_node, f"of-{topic}", topic, 2) == [0, 0]
    assert query.next_batch() is None
    assert committed(spark_node, f"of-{topic}", topic, 2) == [5, 5]


def test_a_group_with_members_is_somebody_elses(spark_node: TestNode, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": spark_node.bootstrap, "group.id": f"of-{topic}", "client.id": "somebody"})
    try:
        consumer.subscribe([topic])
        eventually(
            lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), "the consumer is a member", WAIT_S
        )
        query = Query(spark_node, subscribe=topic, groupId=f"of-{topic}")
        with pytest.raises(GroupInUse, match=r"has 1 members \(client ids: somebody\)"):
            query.next_batch()
    finally:
        consumer.close()


def test_a_topic_that_was_created_anew(spark_node: TestNode, topic: str) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "groupId": f"of-{topic}"}
    query = Query(spark_node, **options)
    assert query.next_batch() == expected(0) + expected(1)
    old_id = json.loads(query.checkpoint or "")[topic]["id"]
    delete_topic(spark_node.bootstrap, topic)
    with pytest.raises(TopicMissing, match=f"There is no topic {topic}"):
        query.next_batch()
    create_topic(spark_node.bootstrap, topic, 2)
    for _ in range(2):
        append(spark_node, topic, 0)
    with pytest.raises(DataLoss, match=f"Topic {topic} has been deleted and created again"):
        query.next_batch()

    # A batch that was begun with the old topic, and is done again.
    begun, again = {topic: {"offsets": {"0": 1}, "id": old_id}}, {topic: {"offsets": {"0": 3}, "id": old_id}}
    with pytest.raises(DataLoss, match=f"Topic {topic} has been deleted and created again"):
        Query(spark_node, **options).reader.partitions(begun, again)
    assert Query(spark_node, **options, failOnDataLoss="false").reader.partitions(begun, again) == []

    tolerant = Query(spark_node, query.checkpoint, **options, failOnDataLoss="false")
    assert tolerant.next_batch() == expected(0, 0, 10)
    assert tolerant.next_batch() is None


def test_a_checkpoint_of_the_kafka_source_goes_on(spark_node: TestNode, topic: str) -> None:
    start, end = {topic: {"0": 1, "1": 5}}, {topic: {"0": 3, "1": 5}}
    query = Query(spark_node, json.dumps(start), subscribe=topic)
    # A batch that was begun with the one and is done again with the other.
    (piece,) = query.reader.partitions(start, end)
    assert piece is not None
    assert query.next_batch() == expected(0, 1)
    assert query.next_batch() is None


def test_records_that_are_gone(spark_node: TestNode, topic: str) -> None:
    beyond = json.dumps({topic: {"0": 9, "1": 5}})
    with pytest.raises(DataLoss, match=f"Partition {topic}-0 offset was changed from 9 to 5"):
        Query(spark_node, beyond, subscribe=topic).next_batch()
    assert Query(spark_node, beyond, subscribe=topic, failOnDataLoss="false").next_batch() == []
