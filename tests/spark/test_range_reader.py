"""Ranges read from a real node: exactly their records, or a clear word."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.waiting import eventually
from tests.spark.written import cut, delete_topic, header_pairs, new_topic, produce, producer, settings_for, whole

from penstock.spark.cluster import Cluster
from penstock.spark.core.failures import DataLoss, TopicRecreated, Unavailable
from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.row_columns import Column
from penstock.spark.range_reader import RangeReader
from penstock.spark.range_rows import MAX_ROWS
from penstock.testing import TestNode, node
from penstock.units import KIB

ALL = [str(column) for column in Column]


@pytest.fixture(scope="module")
def cluster(spark_node: TestNode) -> Iterator[Cluster]:
    with Cluster(settings_for(spark_node.bootstrap)) as cluster:
        yield cluster


def read(running: TestNode, wanted: OffsetRange, columns: list[str] | None = None, **more: Any) -> list[dict[str, Any]]:
    settings = settings_for(running.bootstrap, **more.pop("settings", {}))
    reader = RangeReader(settings, columns or ALL, **more)
    # As it travels to a task.
    batches = list(pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(wanted))))
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def values(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["value"] for row in rows]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_what_was_written(spark_node: TestNode, cluster: Cluster, compression: str) -> None:
    topic = new_topic(spark_node.bootstrap, 2)
    client = producer(spark_node.bootstrap, compression_type=compression)
    client.produce(topic, b"first", b"key", partition=1, headers={"h": b"1", "é": None}, timestamp=1_700_000_000_123)
    client.produce(topic, None, None, partition=1)
    client.flush(20)
    produce(client, topic, [b"%d" % at * 50 for at in range(500)], partition=1, timestamp=1000)
    rows = read(spark_node, whole(cluster, topic, 1))
    assert len(rows) == 502
    assert [row["offset"] for row in rows] == list(range(502))
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {(topic, 1, 0)}
    assert (rows[0]["key"], rows[0]["value"]) == (b"key", b"first")
    assert rows[0]["headers"] == header_pairs({"h": b"1", "é": None})  # type: ignore[dict-item]
    assert rows[0]["timestamp"].timestamp() == 1_700_000_000.123
    assert (rows[1]["key"], rows[1]["value"], rows[1]["headers"]) == (None, None, None)
    assert values(rows)[2:] == [b"%d" % at * 50 for at in range(500)]


def test_any_part_of_a_log_and_any_columns(spark_node: TestNode, cluster: Cluster) -> None:
    topic = new_topic(spark_node.bootstrap)
    client = producer(spark_node.bootstrap, batch_num_messages=7)
    produce(client, topic, [b"%d" % at for at in range(100)])
    everything = whole(cluster, topic)
    for start, end in ((0, 100), (0, 1), (13, 14), (5, 93), (99, 100), (50, 50)):
        rows = read(spark_node, replace(everything, start=start, end=end), ["offset", "value"])
        assert rows == [{"offset": at, "value": b"%d" % at} for at in range(start, end)]


def test_many_rows_come_in_bounded_batches(spark_node: TestNode, cluster: Cluster) -> None:
    topic = new_topic(spark_node.bootstrap)
    client = producer(spark_node.bootstrap, linger_ms=50)
    count = MAX_ROWS + 1000
    for start in range(0, count, 20_000):
        produce(client, topic, (b"%d" % at for at in range(start, min(count, start + 20_000))))
    # Small answers, so that there are many.
    settings = settings_for(spark_node.bootstrap, fetch_max_bytes=64 * KIB)
    batches = list(RangeReader(settings, ["value", "offset"]).read(whole(cluster, topic)))
    assert max(batch.num_rows for batch in batches) <= MAX_ROWS
    table = pa.Table.from_batches(batches)
    assert table["offset"].to_pylist() == list(range(count))
    assert table["value"].to_pylist() == [b"%d" % at for at in range(count)]


def test_aborted_records_and_markers_are_not_rows(spark_node: TestNode, cluster: Cluster) -> None:
    topic = new_topic(spark_node.bootstrap)
    plain = producer(spark_node.bootstrap)
    two = [producer(spark_node.bootstrap, transactional_id=f"{topic}-{name}") for name in "ab"]
    for client in two:
        client.init_transactions()
    expected: list[bytes] = []
    for turn in range(6):
        for client in two:
            client.begin_transaction()
        for part in range(3):
            for name, client in zip("ab", two, strict=True):
                produce(client, topic, [b"%d-%d-%s" % (turn, part, name.encode())])
            produce(plain, topic, [b"%d-%d-plain" % (turn, part)])
        for at, client in enumerate(two):
            if (turn + at) % 3:
                client.commit_transaction()
            else:
                client.abort_transaction()
        expected += [
            b"%d-%d-%s" % (turn, part, name)
            for part in range(3)
            for name in (b"a", b"b", b"plain")
            if name == b"plain" or (turn + b"ab".index(name)) % 3
        ]
    # The last offset is a marker's, so the range ends where no row is.
    eventually(lambda: whole(cluster, topic, read_committed=True).end == 6 * 11, "all markers are there")
    wanted = whole(cluster, topic, read_committed=True)
    assert values(read(spark_node, wanted, read_committed=True)) == expected
    assert len(read(spark_node, wanted)) == 6 * 9
    # From the middle of a transaction that was aborted.
    later = values(read(spark_node, replace(wanted, start=2), read_committed=True))
    assert later == [value for value in expected if value not in (b"0-0-a", b"0-0-b")]


def test_an_open_transaction_hides_what_follows(spark_node: TestNode, cluster: Cluster) -> None:
    topic = new_topic(spark_node.bootstrap)
    client = producer(spark_node.bootstrap, transactional_id=topic)
    client.init_transactions()
    produce(producer(spark_node.bootstrap), topic, [b"before"])
    client.begin_transaction()
    produce(client, topic, [b"open"])
    assert whole(cluster, topic, read_committed=True).end == 1
    assert whole(cluster, topic).end == 2
    # Who asks for more than can be seen waits, and hears why.
    with pytest.raises(Unavailable, match=r"Cannot fetch record for offset 1 in 300 milliseconds.*up to 1 only"):
        wanted = whole(cluster, topic)
        read(spark_node, wanted, read_committed=True, settings={"patience_ms": 300, "fetch_max_wait_ms": 50})
    client.abort_transaction()
    eventually(lambda: whole(cluster, topic, read_committed=True).end == 3, "the marker is there")
    assert values(read(spark_node, whole(cluster, topic), read_committed=True)) == [b"before"]


def test_expired_records_are_a_loss_or_skipped(
    spark_node: TestNode, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(spark_node.bootstrap)
    produce(producer(spark_node.bootstrap), topic, [b"%d" % at for at in range(10)])
    wanted = whole(cluster, topic)
    cut(spark_node.bootstrap, topic, 6)
    with pytest.raises(
        DataLoss, match=r"KAFKA_DATA_LOSS.*offset \[0, 6\) for topic partition .*-0.*failOnDataLoss|begins"
    ):
        read(spark_node, wanted)
    with caplog.at_level(logging.WARNING):
        assert values(read(spark_node, wanted, fail_on_data_loss=False)) == [b"6", b"7", b"8", b"9"]
    assert "skipping [0, 6)" in caplog.text
    assert values(read(spark_node, replace(wanted, end=3), fail_on_data_loss=False)) == []
    # Behind the end: records that were there when it was planned.
    with pytest.raises(DataLoss, match="ends at offset 10"):
        read(spark_node, replace(wanted, start=11, end=15))
    assert read(spark_node, replace(wanted, start=11, end=15), fail_on_data_loss=False) == []


def test_a_topic_that_was_created_again_is_another(spark_node: TestNode, cluster: Cluster) -> None:
    topic = new_topic(spark_node.bootstrap)
    produce(producer(spark_node.bootstrap), topic, [b"old"])
    wanted = whole(cluster, topic)
    delete_topic(spark_node.bootstrap, topic)
    with pytest.raises(DataLoss, match="there is no partition"):
        read(spark_node, wanted)
    assert read(spark_node, wanted, fail_on_data_loss=False) == []
    new_topic(spark_node.bootstrap, name=topic)
    produce(producer(spark_node.bootstrap), topic, [b"new"])
    for fail in (True, False):
        with pytest.raises(TopicRecreated, match="was deleted and created again"):
            read(spark_node, wanted, fail_on_data_loss=fail)


def test_compaction_leaves_holes_that_end_no_reading(tmp_path: Path) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": "16384", "min.cleanable.dirty.ratio": "0.01"}
    with node(data_dir=str(tmp_path)) as running, Cluster(settings_for(running.bootstrap)) as cluster:
        topic = new_topic(running.bootstrap, config=config)
        client = producer(running.bootstrap)
        for turn in range(40):
            for at in range(10):
                client.produce(topic, b"%d" % turn * 200, b"key-%d" % at, partition=0)
            client.flush(20)
        wanted = whole(cluster, topic)

        def compacted() -> bool:
            running.advance(minutes=1)
            return len(read(running, wanted, ["offset"])) < 400

        eventually(compacted, "old values go")
        seen = read(running, wanted, ["offset", "key", "value"])
        newest = {row["key"]: row["value"] for row in seen}
        assert newest == {b"key-%d" % at: b"39" * 200 for at in range(10)}
        # A range that ends in a hole.
        hole = next(at for at in range(400) if at not in {row["offset"] for row in seen})
        assert [row["offset"] for row in read(running, replace(wanted, end=hole + 1))] == [
            row["offset"] for row in seen if row["offset"] <= hole
        ]


def test_a_node_that_restarts_is_waited_for(tmp_path: Path) -> None:
    count = MAX_ROWS + 20_000
    with node(data_dir=str(tmp_path)) as running, Cluster(settings_for(running.bootstrap)) as cluster:
        bootstrap = running.bootstrap
        topic = new_topic(bootstrap)
        produce(producer(bootstrap, batch_size=10_000), topic, [b"%05d" % at for at in range(count)])
        wanted = whole(cluster, topic)
        settings = settings_for(bootstrap, fetch_max_bytes=32 * KIB, request_timeout_ms=2000)
        batches = RangeReader(settings, ["value"]).read(wanted)
        # What follows was asked for already, and its answer will be lost.
        rows = next(batches)["value"].to_pylist()
        assert 0 < len(rows) < count
    with node({"listen": bootstrap}, data_dir=str(tmp_path)):
        rows += [value for batch in batches for value in batch["value"].to_pylist()]
    assert rows == [b"%05d" % at for at in range(count)]


def test_a_reading_that_is_left_takes_nothing_along(spark_node: TestNode, cluster: Cluster) -> None:
    topic = new_topic(spark_node.bootstrap)
    produce(producer(spark_node.bootstrap), topic, [b"%d" % at for at in range(MAX_ROWS + 20_000)])
    settings = settings_for(spark_node.bootstrap, fetch_max_bytes=32 * KIB)
    connections = spark_node.metric("penstock_connections") or 0
    batches = RangeReader(settings, ["value"]).read(whole(cluster, topic))
    next(batches)
    batches.close()
    eventually(lambda: (spark_node.metric("penstock_connections") or 0) <= connections, "its connection goes")
