"""Which directory belongs to which topic."""

from __future__ import annotations

import errno
from random import Random
from uuid import UUID

import pytest
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk
from tests.storage.journaled_node import NothingKept

from penstock.disk.interface import read_whole, replace_atomically
from penstock.errors import PenstockError
from penstock.storage.directories import PartitionDirectories

OLD, NEW = UUID(int=1), UUID(int=2)


def test_a_claimed_directory_survives_a_power_cut() -> None:
    disk = PowerCutDisk()
    claimed = PartitionDirectories(disk, "/data")
    paths = [*claimed.claim("orders", OLD, range(2)), *claimed.claim("orders", OLD, [2])]
    disk.cut_power(Random(1))
    directories = PartitionDirectories(disk, "/data")
    assert [(row.topic, row.topic_id, row.partition, row.path) for row in directories.existing()] == [
        ("orders", OLD, number, path) for number, path in enumerate(paths)
    ]
    assert paths[1] == "/data/topics/orders/partition-1"


def test_of_which_topics_something_was_acknowledged_unsynced_is_known_until_a_clean_stop() -> None:
    disk = PowerCutDisk()
    directories = PartitionDirectories(disk, "/data")
    directories.claim("orders", OLD, [0])
    directories.claim("orders", OLD, [], acknowledges_unsynced=True)
    directories.claim("clicks", NEW, [0])
    disk.cut_power(Random(1))
    directories = PartitionDirectories(disk, "/data")
    directories.claim("orders", OLD, [0])
    assert directories.unsynced_topics() == [OLD]
    assert [row.topic_id for row in directories.existing()] == [NEW, OLD]
    directories.forget_unsynced()
    assert directories.unsynced_topics() == []


def test_a_topic_made_anew_does_not_inherit_old_records() -> None:
    disk = PowerCutDisk()
    directories = PartitionDirectories(disk, "/data")
    path = directories.claim("orders", OLD, [0])[0]
    replace_atomically(disk, f"{path}/records", b"old")
    assert directories.claim("orders", OLD, [0])[0] == path
    assert read_whole(disk, f"{path}/records") == b"old"
    assert directories.claim("orders", NEW, [0])[0] == path
    assert disk.list_directory(path) == []
    directories.sweep()
    assert disk.list_directory("/data/deleted") == []


def test_a_directory_whose_topic_id_was_never_written_belongs_to_nobody() -> None:
    disk = PowerCutDisk()
    disk.make_directory("/data/topics/orders")
    directories = PartitionDirectories(disk, "/data")
    assert directories.existing() == []
    assert disk.list_directory(directories.claim("orders", NEW, [0])[0]) == []


def test_records_are_not_deleted_because_their_topic_id_is_damaged() -> None:
    disk = PowerCutDisk()
    directories = PartitionDirectories(disk, "/data")
    path = directories.claim("orders", OLD, [0])[0]
    replace_atomically(disk, f"{path}/records", b"old")
    disk.damage("/data/topics/orders/topic-id", 12, b"?")
    for topic_id in (OLD, NEW):
        with pytest.raises(PenstockError, match="topic-id is missing or damaged"):
            directories.claim("orders", topic_id, [0])[0]
    assert directories.existing() == []
    assert read_whole(disk, f"{path}/records") == b"old"


def test_a_removed_topic_stays_removed_after_a_power_cut() -> None:
    disk = PowerCutDisk()
    directories = PartitionDirectories(disk, "/data")
    directories.claim("orders", OLD, [0])[0]
    directories.claim("orders.v2", OLD, [0])[0]
    directories.remove_topic("orders")
    directories.remove_topic("never-there")
    disk.cut_power(Random(2))
    assert [row.topic for row in PartitionDirectories(disk, "/data").existing()] == ["orders.v2"]


def test_partitions_that_are_set_aside_can_be_had_back_until_their_time_has_come() -> None:
    disk = PowerCutDisk()
    directories = PartitionDirectories(disk, "/data")
    path = directories.claim("orders", OLD, [0, 1])[1]
    replace_atomically(disk, f"{path}/records", b"old")
    kept = directories.set_partitions_aside("orders", [1], until_ms=1000)
    disk.cut_power(Random(2))
    directories = PartitionDirectories(disk, "/data")
    directories.sweep(999)
    assert [row.partition for row in directories.existing()] == [0]
    assert read_whole(disk, f"{kept}/partition-1/records") == b"old"
    directories.sweep(1000)
    assert disk.list_directory("/data/deleted") == []


def test_what_an_interrupted_removal_left_is_swept_up() -> None:
    disk = PowerCutDisk()
    directories = PartitionDirectories(disk, "/data")
    directories.claim("orders", OLD, [0])[0]
    directories.remove_topic("orders")
    disk.fail_next("remove", errno.EIO)
    with pytest.raises(OSError):
        directories.sweep()
    assert directories.existing() == []
    assert len(disk.list_directory("/data/deleted")) == 1
    PartitionDirectories(disk, "/data").sweep()
    assert disk.list_directory("/data/deleted") == []


def test_a_directory_that_was_made_right_before_a_kill_gets_its_name_synced() -> None:
    """The process dies before that sync; the next one finds the directory, which the page cache shows."""
    disk = PowerCutDisk()
    faulty = FaultyDisk(disk)
    directories = PartitionDirectories(faulty, "/data")
    directories.claim("orders", OLD, [])
    faulty.fail("sync_directory", path_part="/data/topics/orders")
    with pytest.raises(OSError):
        directories.claim("orders", OLD, [0])
    (path,) = PartitionDirectories(disk, "/data").claim("orders", OLD, [0])
    file = disk.open(f"{path}/records", create=True)
    file.write([b"acknowledged"], 0)
    file.sync()
    disk.sync_directory(path)
    disk.cut_power(NothingKept())
    assert read_whole(disk, f"{path}/records") == b"acknowledged"


def test_a_data_directory_that_was_made_right_before_a_kill_gets_its_name_synced() -> None:
    disk = PowerCutDisk()
    disk.make_directory("/var")
    disk.make_directory("/var/data", for_good=False)
    (path,) = PartitionDirectories(disk, "/var/data").claim("orders", OLD, [0])
    disk.cut_power(NothingKept())
    assert disk.exists(path)


def test_the_parent_of_the_data_directory_may_be_closed_to_us() -> None:
    disk = PowerCutDisk()
    PartitionDirectories(disk, "/var/data")
    faulty = FaultyDisk(disk)
    faulty.fail("sync_directory", errno.EACCES)
    directories = PartitionDirectories(faulty, "/var/data")
    faulty.heal()
    assert directories.claim("orders", OLD, [0])
