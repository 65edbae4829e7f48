"""For all tests of Spark: what takes long to start is started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.sessions import SHORT_LIVED_JAVA, new_session, spark_home

from penstock.testing import TestNode, node


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_HOME", str(spark_home(tmp_path_factory.mktemp("spark") / "home")))
        session = new_session("local[2]", {"spark.driver.extraJavaOptions": SHORT_LIVED_JAVA})
        yield session
        session.stop()


@pytest.fixture(scope="session")
def spark_node() -> Iterator[TestNode]:
    """A node for all: tests take topics and groups of their own."""
    with node({"transaction.state.log.num.partitions": "4"}) as running:
        yield running
