"""Every life of a broker leads in an epoch of its own; whether the one before ended cleanly is known."""

from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk

import penstock.testing
from penstock.disk.local import LocalDisk
from penstock.node.last_stop import LastStop
from penstock.storage.directories import PartitionDirectories


def epoch_after_writing(node: penstock.testing.TestNode) -> int:
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    producer.produce("orders", b"x", partition=0)
    assert producer.flush(10) == 0
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    asked = admin.list_offsets({TopicPartition("orders", 0): OffsetSpec.latest()})
    (found,) = [future.result() for future in asked.values()]
    return int(found.leader_epoch)


def test_every_life_leads_in_an_epoch_of_its_own(tmp_path: Path) -> None:
    """Also after a clean stop: an epoch belongs to one life of one leader."""
    for epoch in range(2):
        with penstock.testing.node(data_dir=str(tmp_path)) as node:
            assert epoch_after_writing(node) == epoch
        assert (tmp_path / "stopped-cleanly").exists()
    (tmp_path / "stopped-cleanly").unlink()
    with penstock.testing.node({"flush.policy": "os"}, data_dir=str(tmp_path)) as node:
        assert epoch_after_writing(node) > 1


@pytest.mark.parametrize("policy", ["os", "acked"])
def test_a_stop_whose_last_sync_failed_is_not_clean(tmp_path: Path, policy: str) -> None:
    disk = FaultyDisk(LocalDisk())
    with penstock.testing.node({"flush.policy": policy}, data_dir=str(tmp_path), disk=disk) as node:
        assert epoch_after_writing(node) == 0
        disk.fail("sync", path_part="/journal/")
        disk.fail("sync", path_part="/orders/")
    assert not (tmp_path / "stopped-cleanly").exists()
    with penstock.testing.node(data_dir=str(tmp_path)) as node:
        assert epoch_after_writing(node) == 1


def test_a_stop_with_a_log_that_had_failed_is_not_clean(tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    with penstock.testing.node(data_dir=str(tmp_path), disk=disk) as node:
        assert epoch_after_writing(node) == 0
        disk.fail("sync", path_part="/journal/")
        disk.fail("sync", path_part="/orders/")
        producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0, "retries": 0})
        producer.produce("orders", b"y", partition=0)
        producer.flush(10)
        disk.heal()
    assert not (tmp_path / "stopped-cleanly").exists()


def test_what_a_crash_left_of_a_change_to_the_metadata_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with penstock.testing.node(data_dir=str(tmp_path)):
        pass
    (journal,) = (tmp_path / "coordination").glob("journal-*")
    journal.write_bytes(journal.read_bytes() + bytes(5))
    with penstock.testing.node(data_dir=str(tmp_path)):
        pass
    (said,) = [record for record in caplog.records if record.getMessage() == "store.recovered"]
    assert vars(said)["torn_bytes"] == 5 and "never answered" in vars(said)["why"]


def test_what_a_run_acknowledged_unsynced_is_known_until_a_clean_stop() -> None:
    """Whatever the runs after it do."""
    disk = PowerCutDisk()
    disk.make_directory("/data")

    def life(flush_policy: str, *, stops_cleanly: bool = False) -> bool:
        last_stop = LastStop(disk, "/data")
        last_stop.forget(flush_policy)
        if stops_cleanly:
            last_stop.mark_clean(PartitionDirectories(disk, "/data"))
        else:
            disk.cut_power(Random(1))
        return last_stop.was_unsynced

    assert [life("acked"), life("os"), life("acked"), life("acked", stops_cleanly=True)] == [False, False, True, True]
    assert [life("acked"), life("acked")] == [False, False]


def test_of_which_topics_that_was_acknowledged_is_known_until_a_clean_stop(tmp_path: Path) -> None:
    with penstock.testing.node({"flush.policy": "acked"}, data_dir=str(tmp_path)) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic("orders", 1, config={"flush.policy": "os"})]).values():
            future.result()
        directories = PartitionDirectories(LocalDisk(), str(tmp_path))
        assert len(directories.unsynced_topics()) == 1
    assert directories.unsynced_topics() == []
