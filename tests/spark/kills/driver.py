"""A streaming query from topic to topic, exactly once, in a driver of its own: reads to the end and stops."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from penstock.spark.source import PenstockDataSource


def main(bootstrap: str, source: str, target: str, checkpoint: str, tasks: str) -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(PenstockDataSource)
    servers = {"kafka.bootstrap.servers": bootstrap}
    rows = (
        spark.readStream.format("penstock")
        .options(**servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        # Many batches, so that a kill meets one in whatever state.
        .option("maxOffsetsPerTrigger", 100)
        .load()
    )
    query = (
        rows.select("key", "value")
        .repartition(int(tasks))
        .writeStream.format("penstock")
        .options(**servers)
        .option("topic", target)
        .option("delivery", "exactly-once")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
