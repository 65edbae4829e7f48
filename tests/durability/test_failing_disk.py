"""A disk that fails: what is not certain is neither acknowledged nor shown, and the rest of the node goes on."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode
from tests.disk.faults import FaultyDisk
from tests.durability import clients
from tests.interop.waiting import eventually

from penstock.disk.local import LocalDisk
from penstock.testing import node

# What goes wrong while a node stops.
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
# They belong to different partitions: a group's is the CRC of its name, modulo their number.
GROUPS = ("billing", "reports")
VALUES = [f"value {number}".encode() for number in range(100)]


@pytest.mark.parametrize("acks", ["all", "1"])
def test_a_failed_sync_stops_one_log_until_the_next_start(
    tmp_path: Path, acks: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk(LocalDisk())
    with node(data_dir=str(tmp_path), disk=disk) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
        invoices = clients.write(broker.bootstrap, "invoices", VALUES)
        disk.fail("sync", path_part="/journal/")
        disk.fail("sync", path_part="topics/orders/")
        syncs = disk.count("sync", "topics/orders/")
        outcome = clients.try_to_write(broker.bootstrap, "orders", b"not on disk", acks)
        eventually(lambda: disk.count("sync", "topics/orders/") > syncs, "the sync that fails")
        if acks == "all":
            assert outcome.error is not None and outcome.error.code() == KafkaError.KAFKA_STORAGE_ERROR
        disk.heal()
        for _ in range(3):
            error = clients.try_to_write(broker.bootstrap, "orders", b"the kernel may have forgotten").error
            assert error is not None and error.code() == KafkaError.KAFKA_STORAGE_ERROR
        shown = clients.fetch(broker.bootstrap, "orders")
        assert (shown.code, shown.values) == (ErrorCode.none, written)
        assert clients.fetch(broker.bootstrap, "orders", len(written)).code is ErrorCode.kafka_storage_error
        assert "log.sync.failed" in clients.said(caplog)
        assert "journal.failed" in clients.said(caplog)
        invoices |= {
            len(invoices) + offset: value
            for offset, value in enumerate(clients.write(broker.bootstrap, "invoices", VALUES).values())
        }
        assert clients.read(broker.bootstrap, "invoices") == invoices
    with node(data_dir=str(tmp_path)) as broker:
        assert "a sync had failed" in clients.said(caplog)
        after = clients.read(broker.bootstrap, "orders")
        assert after in (written, written | {len(written): b"not on disk"})
        assert clients.try_to_write(broker.bootstrap, "orders", b"as before").offset == len(after)
        assert clients.read(broker.bootstrap, "invoices") == invoices


def test_a_failed_sync_of_group_offsets_concerns_its_groups_alone(tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    settings = {"offsets.topic.num.partitions": "2"}
    with node(settings, data_dir=str(tmp_path), disk=disk) as broker:
        clients.write(broker.bootstrap, "orders", VALUES)
        for group in GROUPS:
            assert clients.commit(broker.bootstrap, group, "orders", 5) is None
        disk.fail("sync", path_part="/journal/")
        disk.fail("sync", path_part="__consumer_offsets/partition-0/")
        outcomes = {group: clients.commit(broker.bootstrap, group, "orders", 6, timeout_s=1) for group in GROUPS}
        assert [error is None for error in outcomes.values()].count(True) == 1, outcomes
        unhurt = next(group for group, error in outcomes.items() if error is None)
        disk.heal()
        assert clients.commit(broker.bootstrap, unhurt, "orders", 7) is None
    with node(settings, data_dir=str(tmp_path)) as broker:
        for group in outcomes:
            expected = {7} if group == unhurt else {5, 6}
            assert clients.committed(broker.bootstrap, group, "orders") in expected
            assert clients.commit(broker.bootstrap, group, "orders", 8) is None


def test_a_failed_sync_of_metadata_refuses_changes_and_serves_on(tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    with node(data_dir=str(tmp_path), disk=disk) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
        disk.fail("sync", path_part="coordination/")
        with pytest.raises(KafkaException) as refusal:
            clients.create_topic(broker.bootstrap, "invoices")
        assert refusal.value.args[0].code() == KafkaError.KAFKA_STORAGE_ERROR
        disk.heal()
        with pytest.raises(KafkaException) as refusal:
            clients.create_topic(broker.bootstrap, "invoices")
        assert refusal.value.args[0].code() == KafkaError.KAFKA_STORAGE_ERROR
        assert clients.try_to_write(broker.bootstrap, "orders", b"one more").offset == len(written)
        written[len(written)] = b"one more"
        assert clients.read(broker.bootstrap, "orders") == written
    with node(data_dir=str(tmp_path)) as broker:
        assert clients.read(broker.bootstrap, "orders") == written
        clients.create_topic(broker.bootstrap, "receipts")


@pytest.mark.parametrize("cold", [True, False])
def test_a_read_that_fails_is_an_error_for_its_partition_alone(tmp_path: Path, cold: bool) -> None:
    disk = FaultyDisk(LocalDisk())
    with node(data_dir=str(tmp_path), disk=disk) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
        clients.write(broker.bootstrap, "invoices", VALUES)
        disk.is_cold = cold
        disk.fail("read", path_part="topics/orders/")
        assert clients.fetch(broker.bootstrap, "orders").code is ErrorCode.kafka_storage_error
        assert clients.fetch(broker.bootstrap, "invoices").values == written
        disk.heal()
        assert clients.fetch(broker.bootstrap, "orders").values == written


def test_a_lookup_by_time_that_fails_is_an_error() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as broker:
        clients.write(broker.bootstrap, "orders", VALUES)
        disk.fail("read", path_part="topics/orders/")
        with pytest.raises(KafkaException) as refusal:
            clients.offset_at(broker.bootstrap, "orders", 1)
        assert refusal.value.args[0].code() == KafkaError.KAFKA_STORAGE_ERROR
        disk.heal()
        assert clients.offset_at(broker.bootstrap, "orders", 1) == 0


@pytest.mark.parametrize(
    ("operation", "number"),
    [("make_directory", errno.ENOSPC), ("open", errno.EMFILE), ("write", errno.EIO), ("sync_directory", errno.EIO)],
)
def test_a_topic_whose_files_cannot_be_made_can_be_used_when_they_can(
    tmp_path: Path, operation: str, number: int
) -> None:
    disk = FaultyDisk(LocalDisk())
    with node(data_dir=str(tmp_path), disk=disk) as broker:
        clients.create_topic(broker.bootstrap, "orders", 3)
        disk.fail(operation, number, path_part="topics/invoices")
        for problem in (KafkaError.KAFKA_STORAGE_ERROR, KafkaError.TOPIC_ALREADY_EXISTS):
            with pytest.raises(KafkaException) as refusal:
                clients.create_topic(broker.bootstrap, "invoices", 3)
            assert refusal.value.args[0].code() == problem
        assert "invoices" not in clients.topics(broker.bootstrap)
        disk.heal()
        written = clients.write(broker.bootstrap, "invoices", VALUES, partition=2)
    with node(data_dir=str(tmp_path)) as broker:
        assert clients.topics(broker.bootstrap) == {"orders": 3, "invoices": 3}
        assert clients.read(broker.bootstrap, "invoices", partition=2) == written


def test_a_topic_whose_files_cannot_be_removed_is_gone_all_the_same(tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    with node(data_dir=str(tmp_path), disk=disk) as broker:
        clients.write(broker.bootstrap, "orders", VALUES)
        disk.fail("rename", path_part="topics/orders")
        clients.delete_topic(broker.bootstrap, "orders")
        assert "orders" not in clients.topics(broker.bootstrap)
        disk.heal()
        clients.create_topic(broker.bootstrap, "orders")
        assert clients.read(broker.bootstrap, "orders") == {}
