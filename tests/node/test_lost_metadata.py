"""Records are not deleted because the metadata that speaks of them is gone."""

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer

import penstock.testing
from penstock.errors import PenstockError


def test_a_node_without_its_metadata_does_not_take_its_records_for_rubbish(tmp_path: Path) -> None:
    with penstock.testing.node(data_dir=str(tmp_path)) as node:
        producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
        producer.produce("orders", b"x")
        assert producer.flush(10) == 0
    shutil.rmtree(tmp_path / "coordination")
    for _ in range(2):
        with pytest.raises(PenstockError, match="Restore"), penstock.testing.node(data_dir=str(tmp_path)):
            pass
    assert list((tmp_path / "topics" / "orders" / "partition-0").glob("*.log"))
