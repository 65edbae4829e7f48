"""After a stop that was not clean, partitions begin a new leader epoch."""

from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

import penstock.testing


def epoch_after_writing(node: penstock.testing.TestNode) -> int:
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    producer.produce("orders", b"x", partition=0)
    assert producer.flush(10) == 0
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    asked = admin.list_offsets({TopicPartition("orders", 0): OffsetSpec.latest()})
    (found,) = [future.result() for future in asked.values()]
    return int(found.leader_epoch)


def test_a_clean_stop_keeps_the_epoch_and_any_other_end_begins_a_new_one(tmp_path: Path) -> None:
    with penstock.testing.node(data_dir=str(tmp_path)) as node:
        assert epoch_after_writing(node) == 0
    with penstock.testing.node(data_dir=str(tmp_path)) as node:
        assert epoch_after_writing(node) == 0
    (tmp_path / "stopped-cleanly").unlink()
    with penstock.testing.node(data_dir=str(tmp_path)) as node:
        assert epoch_after_writing(node) == 1
    with penstock.testing.node(data_dir=str(tmp_path)) as node:
        assert epoch_after_writing(node) == 1
