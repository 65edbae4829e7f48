"""Weeks that pass in a moment: retention, compaction and everything else that waits for time to go by."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from tests.bad_input.raw import RawConnection
from tests.disk.faults import FaultyDisk
from tests.durability import clients
from tests.durability.requests import describe_producers
from tests.interop.waiting import eventually

from penstock.disk.local import LocalDisk
from penstock.testing import TestNode, node

NO_OFFSET = -1001
VALUES = [f"value {number}".encode() for number in range(100)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def files_of(data: Path, topic: str, suffix: str = ".log", partition: int = 0) -> list[Path]:
    return sorted((data / "topics" / topic / f"partition-{partition}").glob(f"*{suffix}"))


def size_of(data: Path, topic: str, partition: int = 0) -> int:
    size = 0
    for path in files_of(data, topic, partition=partition):
        # It may be deleted at this moment.
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def in_time(broker: TestNode, condition: Callable[[], bool], what: str) -> None:
    """Minute by minute, because what one timer starts in the background another goes on with."""

    def holds() -> bool:
        broker.advance(minutes=1)
        return condition()

    eventually(holds, what)


def test_records_stay_for_two_weeks_and_not_longer(data: Path) -> None:
    with node(data_dir=str(data)) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
        broker.advance(days=13)
        newer = clients.write(broker.bootstrap, "orders", [b"day 13"], timestamp_ms=broker.now_ms())
        assert clients.read(broker.bootstrap, "orders") == written | newer
        broker.advance(hours=23, minutes=58)
        assert clients.read(broker.bootstrap, "orders") == written | newer
        broker.advance(minutes=3)
        assert clients.watermarks(broker.bootstrap, "orders") == (100, 101)
        assert clients.read(broker.bootstrap, "orders") == newer
        assert clients.fetch(broker.bootstrap, "orders", 99).code.name == "offset_out_of_range"
        first = data / "topics/orders/partition-0/00000000000000000000.log"
        assert first.exists(), "readers that hold it have a minute left"
        broker.advance(minutes=2)
        eventually(lambda: not first.exists(), "the file is deleted")
        broker.advance(days=14)
        assert clients.read(broker.bootstrap, "orders") == {}
        assert clients.write(broker.bootstrap, "orders", [b"later"], timestamp_ms=broker.now_ms()) == {101: b"later"}
    with node(data_dir=str(data)) as broker:
        assert clients.read(broker.bootstrap, "orders") == {101: b"later"}


def test_a_partition_keeps_no_more_than_retention_bytes(data: Path) -> None:
    with node(data_dir=str(data)) as broker:
        config = {"retention.bytes": "10000", "segment.bytes": "2000", "file.delete.delay.ms": "0"}
        clients.create_topic(broker.bootstrap, "orders", config=config)
        written = clients.write(broker.bootstrap, "orders", [value * 20 for value in VALUES])
        before = size_of(data, "orders")
        broker.advance(minutes=1)
        eventually(lambda: size_of(data, "orders") < 12_500, "old segments are deleted")
        start, end = clients.watermarks(broker.bootstrap, "orders")
        assert end == len(VALUES) and start > 0
        assert clients.read(broker.bootstrap, "orders") == {offset: written[offset] for offset in range(start, end)}
        assert size_of(data, "orders") >= 10_000 and before > 15_000


def test_retention_that_is_changed_counts_at_once() -> None:
    with node() as broker:
        clients.write(broker.bootstrap, "orders", VALUES)
        broker.advance(hours=2)
        assert clients.watermarks(broker.bootstrap, "orders") == (0, 100)
        clients.configure(broker.bootstrap, "orders", {"retention.ms": "3600000"})
        broker.advance(minutes=1)
        assert clients.watermarks(broker.bootstrap, "orders") == (100, 100)


def test_a_segment_is_closed_by_its_age(data: Path) -> None:
    with node(data_dir=str(data)) as broker:
        clients.create_topic(broker.bootstrap, "orders", config={"segment.ms": "3600000"})
        written = clients.write(broker.bootstrap, "orders", VALUES)
        broker.advance(minutes=58)
        assert len(files_of(data, "orders")) == 1
        broker.advance(minutes=3)
        assert len(files_of(data, "orders")) == 2, "also when nothing more is written"
        written |= clients.write(broker.bootstrap, "orders", [b"in the second"])
        assert files_of(data, "orders")[1].stat().st_size > 0
        assert clients.read(broker.bootstrap, "orders") == written


def test_compaction_keeps_the_newest_of_each_key(data: Path) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": "1024", "file.delete.delay.ms": "0"}
    with node(data_dir=str(data)) as broker:
        clients.create_topic(broker.bootstrap, "accounts", config=config)
        written = clients.write(broker.bootstrap, "accounts", VALUES * 5, keys=lambda value: value[-1:])
        before = size_of(data, "accounts")
        in_time(broker, lambda: size_of(data, "accounts") < before / 2, "old values go")
        kept = clients.read(broker.bootstrap, "accounts")
        assert kept.items() <= written.items(), "what stays keeps its offset"
        newest = {value[-1:]: offset for offset, value in written.items()}
        assert set(newest.values()) <= set(kept)
        assert clients.watermarks(broker.bootstrap, "accounts") == (0, len(written))
    with node(data_dir=str(data)) as broker:
        # It may have gone on after that read.
        kept_at_last = clients.read(broker.bootstrap, "accounts")
        assert kept_at_last.items() <= kept.items()
        assert set(newest.values()) <= set(kept_at_last)


def test_a_deleted_key_is_readable_as_deleted_for_a_day() -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0.01"}
    with node() as broker:

        def fill() -> None:
            """So that what was written before lies in closed segments, with something behind it to compact."""
            clients.write(
                broker.bootstrap, "accounts", VALUES, keys=lambda value: b"filler", timestamp_ms=broker.now_ms()
            )

        def of(key: bytes) -> list[bytes | None]:
            return [value for found, value in clients.read_keyed(broker.bootstrap, "accounts") if found == key]

        clients.create_topic(broker.bootstrap, "accounts", config=config)
        clients.write(broker.bootstrap, "accounts", [b"a balance"], keys=lambda _: b"gone")
        clients.delete_key(broker.bootstrap, "accounts", b"gone")
        fill()
        in_time(broker, lambda: of(b"gone") == [None], "the value goes, the deletion stays")
        broker.advance(hours=22)
        fill()
        in_time(broker, lambda: len(of(b"filler")) < len(VALUES), "it is compacted again")
        assert of(b"gone") == [None]
        broker.advance(hours=4)
        fill()
        in_time(broker, lambda: of(b"gone") == [], "the deletion goes too")


def test_group_offsets_are_compacted_and_found_after_a_restart(data: Path) -> None:
    settings = {"offsets.topic.num.partitions": "1"}
    with node(settings, data_dir=str(data)) as broker:
        clients.write(broker.bootstrap, "orders", VALUES)
        for offset in range(1, 60):
            assert clients.commit(broker.bootstrap, "billing", "orders", offset) is None
        before = size_of(data, "__consumer_offsets")
        broker.advance(days=8)
        in_time(broker, lambda: size_of(data, "__consumer_offsets") < before / 2, "old commits go")
        assert clients.committed(broker.bootstrap, "billing", "orders") == 59
    with node(settings, data_dir=str(data)) as broker:
        assert clients.committed(broker.bootstrap, "billing", "orders") == 59


def test_offsets_of_a_group_that_is_gone_expire_and_those_of_a_live_one_stay() -> None:
    with node() as broker:

        def is_back(member: Consumer) -> bool:
            """For the node it was silent for days; it hears that it must join again when it asks for more."""
            member.poll(0.01)
            return members_of(broker, "live") == 1

        clients.write(broker.bootstrap, "orders", VALUES)
        assert clients.commit(broker.bootstrap, "gone", "orders", 5) is None
        member = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "live",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
                **clients.QUIET,
            }
        )
        member.subscribe(["orders"])
        message = member.poll(clients.WAIT_S)
        assert message is not None and message.error() is None
        member.commit(message=message, asynchronous=False)
        for _ in range(3):
            broker.advance(days=5)
            eventually(lambda: is_back(member), "the member is back")
        assert clients.committed(broker.bootstrap, "gone", "orders") == NO_OFFSET
        assert clients.committed(broker.bootstrap, "live", "orders") == 1
        member.close()
        broker.advance(days=13)
        assert clients.committed(broker.bootstrap, "live", "orders") == 1
        broker.advance(days=1, hours=1)
        assert clients.committed(broker.bootstrap, "live", "orders") == NO_OFFSET


def members_of(broker: TestNode, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **clients.QUIET})
    return len(admin.describe_consumer_groups([group])[group].result(clients.WAIT_S).members)


def test_a_member_that_is_silent_for_its_session_leaves_its_group() -> None:
    with node() as broker:
        clients.write(broker.bootstrap, "orders", VALUES)
        member = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
                # So that it says nothing by itself while the test runs.
                "session.timeout.ms": 600_000,
                "heartbeat.interval.ms": 300_000,
                "max.poll.interval.ms": 600_000,
                **clients.QUIET,
            }
        )
        member.subscribe(["orders"])
        assert member.poll(clients.WAIT_S) is not None
        broker.advance(minutes=9)
        assert members_of(broker, "billing") == 1
        broker.advance(minutes=2)
        assert members_of(broker, "billing") == 0
        member.close()


def test_an_idempotent_producer_is_forgotten_after_a_day_and_goes_on_all_the_same() -> None:
    with node() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **clients.QUIET})

        def known() -> int:
            with RawConnection(broker.bootstrap) as connection:
                (row,) = connection.ask(describe_producers("orders")).topics[0].partitions
            return len(row.active_producers)

        def write(values: list[bytes]) -> None:
            for value in values:
                producer.produce("orders", value)
            assert producer.flush(clients.WAIT_S) == 0

        write(VALUES)
        assert known() == 1
        broker.advance(hours=23)
        assert known() == 1
        broker.advance(hours=2)
        assert known() == 0
        write(VALUES)
        assert known() == 1
        assert list(clients.read(broker.bootstrap, "orders").values()) == VALUES * 2


@pytest.mark.parametrize(
    ("config", "syncs"),
    [
        ({}, False),
        ({"flush.ms": "5000"}, True),
        ({"flush.ms": "60000"}, False),
        ({"flush.messages": "200"}, False),
    ],
)
def test_with_the_policy_of_the_operating_system_flush_ms_asks_for_a_sync(config: dict[str, str], syncs: bool) -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as broker:
        clients.create_topic(broker.bootstrap, "orders", config={"flush.policy": "os", **config})
        written = clients.write(broker.bootstrap, "orders", VALUES)
        assert clients.read(broker.bootstrap, "orders") == written
        assert disk.count("sync", "orders/partition-0/0") == 0
        broker.advance(seconds=6)
        if syncs:
            eventually(lambda: disk.count("sync", "orders/partition-0/0") == 1, "the log is synced")
        else:
            assert disk.count("sync", "orders/partition-0/0") == 0


def test_flush_messages_asks_for_a_sync() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as broker:
        config = {"flush.policy": "os", "flush.messages": "50"}
        clients.create_topic(broker.bootstrap, "orders", config=config)
        clients.write(broker.bootstrap, "orders", VALUES[:49])
        assert disk.count("sync", "orders/partition-0/0") == 0
        clients.write(broker.bootstrap, "orders", VALUES[49:60])
        eventually(lambda: disk.count("sync", "orders/partition-0/0") == 1, "the log is synced")
