"""No room on the disk: an error within a second, reads go on, and writing goes on when there is room."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from kio.schema.errors import ErrorCode
from tests.bad_input import requests
from tests.bad_input.batches import good_batch, tampered
from tests.bad_input.raw import RawConnection
from tests.disk.faults import FaultyDisk
from tests.durability import clients
from tests.interop.waiting import eventually

from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError
from penstock.testing import node

# What goes wrong while a node stops.
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
VALUES = [f"value {number}".encode() for number in range(100)]


def test_a_producer_hears_of_it_within_a_second_and_goes_on_when_there_is_room() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
        disk.fill()
        refused = clients.try_to_write(broker.bootstrap, "orders", b"too much")
        assert refused.error is not None and refused.error.code() == KafkaError.KAFKA_STORAGE_ERROR
        assert refused.seconds < 1
        assert clients.read(broker.bootstrap, "orders") == written
        disk.make_room()
        assert clients.try_to_write(broker.bootstrap, "orders", b"room again").offset == len(VALUES)
        assert clients.read(broker.bootstrap, "orders") == written | {len(VALUES): b"room again"}


@pytest.mark.parametrize("room_bytes", [1, 60, 61, 70])
def test_a_batch_that_fits_only_in_part_is_never_seen(tmp_path: Path, room_bytes: int) -> None:
    disk = FaultyDisk(LocalDisk())
    with node(data_dir=str(tmp_path), disk=disk) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
        for _ in range(3):
            disk.fill(room_bytes)
            assert clients.try_to_write(broker.bootstrap, "orders", b"x" * 1000).error is not None
            assert clients.fetch(broker.bootstrap, "orders", 0).values == written
            assert clients.fetch(broker.bootstrap, "orders", len(written)) == (ErrorCode.none, {}, len(written))
            disk.make_room()
            written[len(written)] = b"fits"
            assert clients.try_to_write(broker.bootstrap, "orders", b"fits").offset == len(written) - 1
    with node(data_dir=str(tmp_path)) as broker:
        assert clients.read(broker.bootstrap, "orders") == written


def test_an_idempotent_producer_goes_on_by_itself_without_loss_or_doubles() -> None:
    disk = FaultyDisk(LocalDisk())
    with node({"segment.bytes": "4096"}, disk=disk) as broker:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 20,
                "linger.ms": 0,
                "batch.num.messages": 3,
                **clients.QUIET,
            }
        )
        failures: list[KafkaError] = []

        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(error)

        def tried() -> int:
            """A batch that comes with a new segment fails when its file is opened."""
            return disk.count("write", "orders") + disk.count("open", "orders")

        producer.produce("orders", b"first", on_delivery=note)
        assert producer.flush(clients.WAIT_S) == 0
        for room_bytes in (0, 100, 500):
            disk.fill(room_bytes)
            attempts = tried()
            for value in VALUES:
                producer.produce("orders", value, on_delivery=note)
            eventually(lambda at=attempts + 10: tried() > at, "it tries again and again")  # type: ignore[misc]
            disk.make_room()
            assert producer.flush(clients.WAIT_S) == 0
        assert not failures, failures[0]
        assert list(clients.read(broker.bootstrap, "orders").values()) == [b"first", *VALUES * 3]


def test_a_new_producer_whose_first_batches_find_no_room_goes_on_in_order() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as broker, RawConnection(broker.bootstrap) as connection:
        clients.create_topic(broker.bootstrap, "orders")
        batches = [
            tampered(good_batch(value=value), producer_id=7, producer_epoch=0, base_sequence=sequence)
            for sequence, value in enumerate(VALUES[:3])
        ]

        def sent(batch: bytes) -> int:
            answer = connection.ask(requests.produce("orders", batch))
            return int(answer.responses[0].partition_responses[0].error_code)

        disk.fill()
        assert sent(batches[0]) == ErrorCode.kafka_storage_error.value
        disk.make_room()
        for batch in batches[1:]:
            # To be sent again, behind the one that is missing.
            assert sent(batch) == ErrorCode.not_enough_replicas.value
        assert [sent(batch) for batch in batches] == [ErrorCode.none.value] * 3
        assert clients.read(broker.bootstrap, "orders") == dict(enumerate(VALUES[:3]))


def test_a_new_segment_that_has_no_room_is_made_later() -> None:
    disk = FaultyDisk(LocalDisk())
    with node({"segment.bytes": "1024"}, disk=disk) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
        disk.fill()
        for _ in range(3):
            error = clients.try_to_write(broker.bootstrap, "orders", b"x" * 900).error
            assert error is not None and error.code() == KafkaError.KAFKA_STORAGE_ERROR
        disk.make_room()
        assert clients.try_to_write(broker.bootstrap, "orders", b"x" * 900).offset == len(written)
        assert clients.read(broker.bootstrap, "orders") == written | {len(written): b"x" * 900}


def test_a_group_keeps_what_it_committed_and_can_commit_again() -> None:
    disk = FaultyDisk(LocalDisk())
    with node({"offsets.topic.num.partitions": "1"}, disk=disk) as broker:
        clients.write(broker.bootstrap, "orders", VALUES)
        assert clients.commit(broker.bootstrap, "billing", "orders", 7) is None
        disk.fill()
        assert clients.commit(broker.bootstrap, "billing", "orders", 8, timeout_s=1) is not None
        disk.make_room()
        broker.advance(seconds=2)
        assert clients.committed(broker.bootstrap, "billing", "orders") == 7
        assert clients.commit(broker.bootstrap, "billing", "orders", 9) is None
        assert clients.committed(broker.bootstrap, "billing", "orders") == 9


def test_a_topic_that_has_no_room_does_not_exist() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
        for room_bytes in (0, 50):
            disk.fill(room_bytes)
            with pytest.raises(KafkaException) as refusal:
                clients.create_topic(broker.bootstrap, "invoices", 3)
            assert refusal.value.args[0].code() == KafkaError.KAFKA_STORAGE_ERROR
            assert clients.topics(broker.bootstrap) == {"orders": 1}
            disk.make_room()
        clients.create_topic(broker.bootstrap, "invoices", 3)
        assert clients.write(broker.bootstrap, "invoices", VALUES, partition=2)
        assert clients.read(broker.bootstrap, "orders") == written


def test_a_producer_that_has_no_id_yet_gets_one_when_there_is_room() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as broker:
        clients.create_topic(broker.bootstrap, "orders")
        disk.fill()
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **clients.QUIET})
        producer.produce("orders", b"first")
        attempts = disk.count("write", "coordination/")
        eventually(lambda: disk.count("write", "coordination/") > attempts, "an id was asked for")
        disk.make_room()
        assert producer.flush(clients.WAIT_S) == 0
        assert clients.read(broker.bootstrap, "orders") == {0: b"first"}


def test_retention_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    settings = {"segment.bytes": "4096", "retention.ms": "3600000"}
    with node(settings, data_dir=str(tmp_path), disk=disk) as broker:
        clients.write(broker.bootstrap, "orders", [value * 20 for value in VALUES])
        # Checkpoints of logs that fell idle: from then on there is something that can be spared.
        broker.advance(minutes=2)
        directory = tmp_path / "topics" / "orders" / "partition-0"
        eventually(lambda: bool(list(directory.glob("*.index"))), "indexes are written")
        last = max(directory.glob("*.log"))
        disk.fill()
        assert clients.try_to_write(broker.bootstrap, "orders", b"x" * 1000).error is not None

        def writes_again() -> bool:
            broker.advance(minutes=1)
            return clients.try_to_write(broker.bootstrap, "orders", b"x" * 1000).error is None

        broker.advance(hours=2)
        eventually(writes_again, "retention has made room")
        start, _ = clients.watermarks(broker.bootstrap, "orders")
        assert start >= int(last.stem)
    with node(settings, data_dir=str(tmp_path)) as broker:
        assert clients.watermarks(broker.bootstrap, "orders")[0] >= start, "what was deleted does not come back"


def test_files_that_could_not_be_deleted_are_deleted_later(tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    settings = {"segment.bytes": "1024", "retention.ms": "3600000", "file.delete.delay.ms": "0"}
    with node(settings, data_dir=str(tmp_path), disk=disk) as broker:
        clients.write(broker.bootstrap, "orders", VALUES)
        directory = tmp_path / "topics" / "orders" / "partition-0"
        disk.fail("remove", path_part="orders")
        attempts = disk.count("remove", "orders")
        broker.advance(hours=2)
        eventually(lambda: disk.count("remove", "orders") > attempts, "deletion is tried")
        assert len(list(directory.glob("*.log"))) > 1
        disk.heal()
        broker.advance(minutes=1)
        eventually(lambda: len(list(directory.glob("*.log"))) == 1, "only the new segment is left")


def test_a_node_stops_on_a_full_disk_as_on_any_other(tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    with node(data_dir=str(tmp_path), disk=disk) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
        disk.fill()
    with node(data_dir=str(tmp_path)) as broker:
        assert clients.read(broker.bootstrap, "orders") == written


def test_a_node_that_cannot_start_says_that_there_is_no_room(tmp_path: Path) -> None:
    with node(data_dir=str(tmp_path)) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
    disk = FaultyDisk(LocalDisk())
    disk.fill()
    with pytest.raises(PenstockError, match="No space left"), node(data_dir=str(tmp_path), disk=disk):
        pass
    with node(data_dir=str(tmp_path)) as broker:
        assert clients.read(broker.bootstrap, "orders") == written
