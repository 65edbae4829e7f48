"""A batch of a query in a cluster: its tasks write on and its driver commits while the broker of both is killed."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from tests.cluster.faults.cluster import TestCluster
from tests.spark.consumed import values

from penstock.spark.cluster import Cluster
from penstock.spark.core.query_batch import QueryBatch
from penstock.spark.core.sink_options import SinkOptions, batch_sink_options
from penstock.spark.produce_requests import Identity
from penstock.spark.producer import Producer, client_settings
from penstock.spark.query_client import QueryClient
from penstock.wire.query_ids import attempt_id
from penstock.wire.query_messages import Attempt

PARTITIONS = 6
ROWS = [b"%04d" % number for number in range(1200)]


def started(options: SinkOptions, queries: QueryClient, batch: QueryBatch) -> tuple[Attempt, Producer]:
    attempt = queries.open(batch, 60_000)
    assert attempt is not None
    identity = Identity(attempt.producer_id, attempt.producer_epoch, attempt.transactional_id)
    return attempt, Producer(options, identity=identity)


def write(producer: Producer, rows: list[bytes]) -> None:
    producer.write(pa.RecordBatch.from_pydict({"value": pa.array(rows)}), ("value",))


def test_a_batch_outlives_a_broker(cluster: TestCluster) -> None:
    topic = "of-a-query"
    cluster.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
    servers = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic, "kafka.batch.size": "1000"}
    options = batch_sink_options(servers)
    first, second = QueryBatch("query", "run", 0), QueryBatch("query", "run", 1)
    with Cluster(client_settings(options)) as reached:
        queries = QueryClient(reached, "tests")
        attempt, producer = started(options, queries, first)
        with producer:
            write(producer, ROWS[:400])
            producer.finish()
        assert queries.commit(first, (attempt,))
        attempts = [started(options, queries, second) for _ in range(2)]
        for (_, producer), start in zip(attempts, (400, 800), strict=True):
            write(producer, ROWS[start : start + 200])
        victim = cluster.coordinator(attempt_id("query", 0), of_transactions=True)
        assert victim is not None
        victim.kill()
        try:
            for (_, producer), start in zip(attempts, (400, 800), strict=True):
                with producer:
                    write(producer, ROWS[start + 200 : start + 400])
                    producer.finish()
            queries.commit(second, tuple(attempt for attempt, _ in attempts))
            assert queries.open(QueryBatch("query", "replay", 1), 60_000) is None, "it is known who committed"
        finally:
            cluster.heal()
            cluster.wait_until_whole(topic)
    assert Counter(values(cluster.bootstrap, topic, PARTITIONS)) == dict.fromkeys(ROWS, 1)
