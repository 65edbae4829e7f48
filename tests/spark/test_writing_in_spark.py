"""The sink in a real session: rows as Kafka's sink takes them, and exactly once whatever happens to a driver."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from tests.spark.consumed import consumed, values
from tests.spark.written import new_topic, produce, producer

from penstock.spark.core.failures import ClientFailure
from penstock.spark.core.sink_options import stream_sink_options
from penstock.spark.source import PenstockDataSource
from penstock.spark.stream_writer import StreamWriter
from penstock.testing import TestNode

ROWS = [b"%04d" % number for number in range(400)]


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    spark.dataSource.register(PenstockDataSource)


def save(rows: DataFrame, node: TestNode, **options: str) -> None:
    given = {"kafka.bootstrap.servers": node.bootstrap, **options}
    rows.write.format("penstock").mode("append").options(**given).save()


def test_rows_of_a_batch_query(spark: SparkSession, spark_node: TestNode) -> None:
    topic = new_topic(spark_node.bootstrap, 3)
    rows = spark.range(0, 300, 1, 3).selectExpr(
        "cast(id as string) as key",
        "repeat('x', 100) as value",
        "if(id % 2 = 0, array(named_struct('key', 'h', 'value', cast('v' as binary))), null) as headers",
        "cast(id % 3 as int) as partition",
        "id as ignored",
    )
    for delivery in ("at-least-once", "exactly-once"):
        save(rows, spark_node, topic=topic, delivery=delivery)
    found = consumed(spark_node.bootstrap, topic, 3)
    assert Counter(int(message.key() or b"") for message in found) == dict.fromkeys(range(300), 2)
    for message in found:
        number = int(message.key() or b"")
        assert message.partition() == number % 3
        assert message.headers() == ([("h", b"v")] if number % 2 == 0 else None)


def test_a_version_is_written_once(spark: SparkSession, spark_node: TestNode) -> None:
    topic, other = new_topic(spark_node.bootstrap), new_topic(spark_node.bootstrap)
    application = uuid4().hex
    rows = spark.range(0, 50, 1, 2).selectExpr("cast(id as string) as value")
    version = {"delivery": "exactly-once", "txnAppId": application}
    for tasks in (2, 1):
        save(rows.coalesce(tasks), spark_node, topic=topic, txnVersion="7", **version)
    save(rows, spark_node, topic=topic, txnVersion="6", **version)
    assert Counter(values(spark_node.bootstrap, topic)) == {b"%d" % number: 1 for number in range(50)}
    save(rows, spark_node, topic=topic, txnVersion="8", **version)
    save(rows, spark_node, topic=other, txnVersion="7", **version)
    assert len(values(spark_node.bootstrap, topic)) == 100
    assert len(values(spark_node.bootstrap, other)) == 50


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, spark_node: TestNode) -> None:
    topic = new_topic(spark_node.bootstrap)
    rows = spark.range(0, 100, 1, 2).selectExpr(
        "cast(if(id = 99, raise_error('poisoned'), id) as string) as value", "'k' as key"
    )
    with pytest.raises(PySparkException, match="poisoned"):
        save(rows, spark_node, topic=topic, delivery="exactly-once")
    save(spark.sql("select 'after' as value"), spark_node, topic=topic)
    assert values(spark_node.bootstrap, topic) == [b"after"], "nothing is open, either"


@pytest.mark.parametrize(
    ("query", "options", "words"),
    [
        ("select 1 as key", {"topic": "t"}, "Required attribute 'value' not found"),
        ("select 'x' as value", {"topic": "t", "deliver": "x"}, "Unknown option 'deliver'"),
        ("select cast(null as string) as topic, 'x' as value", {}, "KAFKA_NULL_TOPIC_IN_DATA"),
        ("select 7 as partition, 'x' as value", {"topic": "few"}, r"7 is not in the range \[0...1\)"),
    ],
)
def test_errors_are_kafka_s(
    spark: SparkSession, spark_node: TestNode, query: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(PySparkException, match=words):
        save(spark.sql(query), spark_node, **options)


class Stream:
    """A query from one topic to another that is started again and again on the same checkpoint."""

    def __init__(self, spark: SparkSession, node: TestNode, checkpoint: Path) -> None:
        self._spark = spark
        self._checkpoint = str(checkpoint)
        self.source, self.target = new_topic(node.bootstrap, 2), new_topic(node.bootstrap, 3)
        self.options = {"kafka.bootstrap.servers": node.bootstrap, "topic": self.target, "delivery": "exactly-once"}
        self._bootstrap = node.bootstrap

    def append(self, rows: Sequence[bytes]) -> None:
        client = producer(self._bootstrap)
        for partition in range(2):
            produce(client, self.source, rows[partition::2], partition=partition)

    def run(self, tasks: int, sink: str = "penstock") -> None:
        """Until nothing is left to read."""
        rows = self._spark.readStream.format("penstock").options(
            **{"kafka.bootstrap.servers": self._bootstrap, "subscribe": self.source, "startingOffsets": "earliest"}
        )
        stream = rows.load().select("value").repartition(tasks).writeStream.format(sink).options(**self.options)
        query = stream.option("checkpointLocation", self._checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()

    def written(self) -> Counter[bytes]:
        return Counter(values(self._bootstrap, self.target, 3))


def dying_source(name: str, died: Path, *, commits: bool) -> type[PenstockDataSource]:
    """A driver that is killed at the end of a batch, before or after it has committed, and leaves its messages."""

    class DyingWriter(StreamWriter):
        def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
            died.write_bytes(pickle.dumps((messages, batchId)))
            if commits:
                super().commit(messages, batchId)
            raise RuntimeError("killed")

        def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
            """The dead do not."""

    class DyingSource(PenstockDataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            return DyingWriter(stream_sink_options(self.options), schema)

    return DyingSource


def test_a_stream_through_deaths_of_its_driver(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    for name, commits in (("dies_before", False), ("dies_after", True)):
        spark.dataSource.register(dying_source(name, tmp_path / name, commits=commits))
    stream = Stream(spark, spark_node, tmp_path / "checkpoint")
    stream.append(ROWS[:200])
    with pytest.raises(PySparkException, match="killed"):
        stream.run(2, "dies_before")
    with pytest.raises(PySparkException, match="killed"):
        stream.run(3, "dies_before")
    stream.run(1)
    assert stream.written() == dict.fromkeys(ROWS[:200], 1)
    stream.append(ROWS[200:])
    with pytest.raises(PySparkException, match="killed"):
        stream.run(2, "dies_after")
    assert stream.written() == dict.fromkeys(ROWS, 1)
    stream.run(5)
    assert stream.written() == dict.fromkeys(ROWS, 1)
    late = StreamWriter(stream_sink_options(stream.options), StructType().add("value", "binary"))
    with pytest.raises(ClientFailure, match="another run of this query has taken over"):
        late.commit(*pickle.loads((tmp_path / "dies_before").read_bytes()))
    assert stream.written() == dict.fromkeys(ROWS, 1)
