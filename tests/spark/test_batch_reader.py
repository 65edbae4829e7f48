from __future__ import annotations

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, IsNotNull, LessThan
from pyspark.sql.types import StructType
from tests.durability.clients import create_topic, write
from tests.interop.waiting import eventually
from tests.spark.reading import NARROW, Row, batch, rows, source, transaction

from penstock.spark.batch_reader import FilteringBatchReader
from penstock.spark.core.failures import TopicMissing
from penstock.spark.core.option_values import OptionError
from penstock.spark.core.positions import PositionError
from penstock.testing import TestNode

VALUES = [b"%d" % number for number in range(10)]


@pytest.fixture(scope="module")
def orders(spark_node: TestNode) -> str:
    """Three partitions of ten, written at 1000, 2000 and 3000 ms; the last partition is empty."""
    create_topic(spark_node.bootstrap, "orders", 4, {"retention.ms": "-1"})
    for partition in range(3):
        write(
            spark_node.bootstrap,
            "orders",
            VALUES,
            partition=partition,
            timestamp_ms=1000 * (partition + 1),
            keys=lambda value: None if value == b"0" else value,
        )
    return "orders"


def expected(partition: int, start: int = 0, end: int = 10) -> list[Row]:
    return [Row(partition, offset, VALUES[offset]) for offset in range(start, end)]


def test_everything(spark_node: TestNode, orders: str) -> None:
    everything = expected(0) + expected(1) + expected(2)
    assert batch(spark_node, subscribe=orders) == everything
    assert batch(spark_node, subscribePattern="^ord.r") == everything
    assert batch(spark_node, subscribe=orders, minPartitions="11") == everything
    assert len(source(spark_node, subscribe=orders, minPartitions="11").reader(NARROW).partitions()) >= 11
    assert batch(spark_node, subscribe=orders, maxRecordsPerPartition="3") == everything
    assert batch(spark_node, assign='{"orders":[1,3]}') == expected(1)
    assert batch(spark_node, assign='{"orders":[3]}') == []


def test_between_positions(spark_node: TestNode, orders: str) -> None:
    start, end = '{"orders":{"0":3,"1":-2,"2":10,"3":-2}}', '{"orders":{"0":5,"1":2,"2":-1,"3":0}}'
    found = batch(spark_node, subscribe=orders, startingOffsets=start, endingOffsets=end)
    assert found == expected(0, 3, 5) + expected(1, 0, 2)
    later = {"startingTimestamp": "2000", "startingOffsetsByTimestampStrategy": "latest"}
    assert batch(spark_node, subscribe=orders, **later) == expected(1) + expected(2)
    assert batch(spark_node, subscribe=orders, endingTimestamp="2000") == expected(0)
    with pytest.raises(PositionError, match="No offset matched from request of topic-partition orders-0"):
        batch(spark_node, subscribe=orders, startingTimestamp="2000")


def test_positions_that_the_topic_does_not_have(spark_node: TestNode, orders: str) -> None:
    with pytest.raises(PositionError, match="resolved start offset 11 is greater than the resolved end offset 10"):
        batch(spark_node, assign='{"orders":[0]}', startingOffsets='{"orders":{"0":11}}')
    with pytest.raises(PositionError, match="Specified: orders-0 Assigned: orders-0, orders-1"):
        batch(spark_node, subscribe=orders, startingOffsets='{"orders":{"0":1}}')


def test_topics_that_are_not_there(spark_node: TestNode, orders: str) -> None:
    with pytest.raises(TopicMissing, match="There is no topic nowhere: create it first"):
        batch(spark_node, subscribe=f"{orders},nowhere")
    with pytest.raises(TopicMissing, match=r"no partitions orders-9, which the option 'assign' names"):
        batch(spark_node, assign='{"orders":[0,9]}')
    assert batch(spark_node, subscribePattern="nowhere") == []


def test_what_load_refuses_at_once(spark_node: TestNode) -> None:
    assert (
        source(spark_node, subscribe="a", includeHeaders="true")
        .schema()
        .endswith("array<struct<key:string,value:binary>>")
    )
    assert "headers" not in source(spark_node, subscribe="a", endingOffsets="latest").schema()
    with pytest.raises(OptionError, match="Did you mean 'subscribe'"):
        source(spark_node, subscribed="a").schema()
    with pytest.raises(OptionError, match="Column 'value' is binary, not string"):
        source(spark_node, subscribe="a").reader(StructType().add("value", "string"))


def test_transactions(spark_node: TestNode) -> None:
    create_topic(spark_node.bootstrap, "ledger")
    transaction(spark_node, "ledger", [b"aborted"], commit=False)
    transaction(spark_node, "ledger", [b"committed"], commit=True)
    assert [row.value for row in batch(spark_node, subscribe="ledger")] == [b"aborted", b"committed"]

    def committed() -> list[bytes]:
        return [row.value for row in batch(spark_node, subscribe="ledger", kafka__isolation__level="read_committed")]

    # A commit is answered before its marker is in every log.
    eventually(lambda: committed() == [b"committed"], "what was committed is read, and no more", instead=committed)


def test_pushed_filters_leave_out_what_is_not_wanted(spark_node: TestNode, orders: str) -> None:
    reader = source(spark_node, subscribe=orders, filterPushdown="true").reader(NARROW)
    assert isinstance(reader, FilteringBatchReader)
    rest: Filter = EqualTo(("value",), b"4")
    pushed: list[Filter] = [IsNotNull(("offset",)), GreaterThanOrEqual(("offset",), 4), LessThan(("partition",), 2)]
    assert list(reader.pushFilters([*pushed, rest])) == [rest]
    partitions = reader.partitions()
    assert len(partitions) == 2
    assert rows(reader, partitions) == expected(0, 4) + expected(1, 4)
