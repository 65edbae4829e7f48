"""A batch query's writer, as Spark uses it, without Spark."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import StructType
from tests.spark.consumed import values
from tests.spark.written import new_topic

from penstock.spark.batch_writer import BatchWriter
from penstock.spark.core.sink_options import batch_sink_options
from penstock.testing import TestNode

SCHEMA = StructType().add("topic", "string").add("value", "binary")


def save(node: TestNode, application: str, version: int, value: bytes, *, topic: str, as_column: bool) -> None:
    options = {
        "kafka.bootstrap.servers": node.bootstrap,
        "delivery": "exactly-once",
        "txnAppId": application,
        "txnVersion": str(version),
        **({} if as_column else {"topic": topic}),
    }
    writer = BatchWriter(batch_sink_options(options), SCHEMA, overwrite=False)
    rows = pa.RecordBatch.from_pydict({"topic": pa.array([topic]), "value": pa.array([value])})
    writer.commit([writer.write(iter([rows]))])


def test_applications_with_alike_names_are_not_each_other(spark_node: TestNode) -> None:
    topic, other = new_topic(spark_node.bootstrap), new_topic(spark_node.bootstrap)
    save(spark_node, f"app:{topic}", 7, b"by a column", topic=other, as_column=True)
    save(spark_node, "app", 3, b"by an option", topic=topic, as_column=False)
    save(spark_node, "app", 5, b"by a column", topic=topic, as_column=True)
    assert values(spark_node.bootstrap, topic) == [b"by an option", b"by a column"]


def test_a_version_that_is_repeated_does_not_stop_the_next_one(spark_node: TestNode) -> None:
    topic = new_topic(spark_node.bootstrap)
    save(spark_node, "job", 1, b"one", topic=topic, as_column=False)
    options = {"kafka.bootstrap.servers": spark_node.bootstrap, "delivery": "exactly-once", "topic": topic}
    writer = BatchWriter(batch_sink_options({**options, "txnAppId": "job", "txnVersion": "2"}), SCHEMA, overwrite=False)
    rows = pa.RecordBatch.from_pydict({"topic": pa.array([topic]), "value": pa.array([b"two"])})
    written = writer.write(iter([rows]))
    save(spark_node, "job", 1, b"one again", topic=topic, as_column=False)
    writer.commit([written])
    assert values(spark_node.bootstrap, topic) == [b"one", b"two"]
