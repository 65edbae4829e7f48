"""A job that was written for Spark's Kafka source, with another format's name. `test_connector.py` has it as it was."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark.consumed import lag
from tests.spark.kafka_job import run_job
from tests.spark.orders import PARTITIONS, Orders

from penstock.testing import TestNode


def test_a_job_of_the_kafka_source_by_another_name(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    orders = Orders(spark_node.bootstrap, tmp_path)
    orders.place(300)
    run_job(spark, "penstock", orders.topics, orders.checkpoints)
    orders.check()
    topics = orders.topics
    assert lag(topics.servers, topics.group, topics.orders, PARTITIONS) == 0
