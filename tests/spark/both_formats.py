"""The same batch queries by two formats, in one session: `kafka`, which is Spark's own connector, and `penstock`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

FORMATS = ("kafka", "penstock")
WRITTEN_ROWS = 2000


class Read(NamedTuple):
    """All columns of all rows, in order of topic, partition and offset, and how many tasks had any."""

    rows: list[tuple[Any, ...]]
    tasks: int


def read_by_both(spark: SparkSession, cases: Sequence[Mapping[str, str]]) -> list[list[Read]]:
    """Of each case, given by its options, what each format has read."""
    return [[_read(spark, format, options) for format in FORMATS] for options in cases]


def write_by_both(spark: SparkSession, bootstrap: str, topics: Mapping[str, str]) -> None:
    """The same rows, by each format to its own topic: partitions chosen by keys of all lengths, and by a column."""
    rows = spark.range(0, WRITTEN_ROWS, 1, 4).selectExpr(
        "substr(repeat(string(id), 8), 1, int(id % 24)) as key",
        "if(id % 5 = 0, null, string(id)) as value",
        "if(id % 3 = 0, null, array(named_struct('key', 'h', 'value', if(id % 2 = 0, null, binary(string(id))))))"
        " as headers",
        "if(id % 4 = 0, int(id % 12), null) as partition",
    )
    for format, topic in topics.items():
        options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
        rows.write.format(format).mode("append").options(**options).save()


def _read(spark: SparkSession, format: str, options: Mapping[str, str]) -> Read:
    frame = spark.read.format(format).option("includeHeaders", "true").options(**options).load()
    columns = ("topic", "partition", "offset", "unix_millis(timestamp)", "timestampType", "key", "value", "headers")
    collected = frame.selectExpr(*columns, "spark_partition_id()").collect()
    found = [
        (*row[:5], _bytes(row[5]), _bytes(row[6]), [(header.key, _bytes(header.value)) for header in row[7] or ()])
        for row in collected
    ]
    return Read(sorted(found, key=lambda row: row[:3]), len({row[8] for row in collected}))


def _bytes(content: bytearray | None) -> bytes | None:
    return None if content is None else bytes(content)
