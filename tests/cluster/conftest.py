"""One cluster for all tests that need one: a ZooKeeper and three brokers, started by the first that asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster.faults.cluster import TestCluster
from tests.cluster.faults.network import Loopback


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """On loopback, so any client reaches it. Who kills a broker or pauses one heals it before the test ends."""
    settings = {"zookeeper.session.timeout.ms": "2000", "offsets.topic.num.partitions": "3"}
    running = TestCluster(Loopback(), tmp_path_factory.mktemp("cluster"), brokers=3, zookeepers=1, settings=settings)
    running.start()
    try:
        yield running
    finally:
        running.stop()
