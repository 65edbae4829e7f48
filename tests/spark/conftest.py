"""For all tests of Spark: what takes long to start is started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.sessions import new_session

from penstock.testing import TestNode, node


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = new_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_node() -> Iterator[TestNode]:
    """A node for all: tests take topics and groups of their own."""
    with node({"transaction.state.log.num.partitions": "4"}) as running:
        yield running
