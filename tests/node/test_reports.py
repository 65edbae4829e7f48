"""What an operator sees of a node: lag, health with what to do, the address that clients are told."""

from __future__ import annotations

import errno
import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.raw import RawConnection
from tests.disk.faults import FaultyDisk
from tests.interop.waiting import eventually

from penstock.config.load import load_settings
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError
from penstock.testing import TestNode, node

NO_ERROR, STORAGE_ERROR = 0, 56


def health(node: TestNode) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{node.http}/health", timeout=10) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        return dict(json.load(error))


def create(node: TestNode, topic: str) -> None:
    with RawConnection(node.bootstrap) as connection:
        assert connection.ask(requests.create_topic(topic)).topics[0].error_code == NO_ERROR


def write(node: TestNode, topic: str, records: int = 1) -> int:
    """The error code."""
    with RawConnection(node.bootstrap) as connection:
        answer = connection.ask(requests.produce(topic, good_batch(records)))
    return int(answer.responses[0].partition_responses[0].error_code)


def commit(node: TestNode, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def lag(node: TestNode, group: str, topic: str) -> float | None:
    return node.metric("penstock_group_lag", group=group, topic=topic, partition="0")


def test_the_lag_of_a_group_is_what_it_has_not_committed() -> None:
    with node() as running:
        create(running, "orders")
        write(running, "orders", records=10)
        commit(running, "billing", "orders", 4)
        assert lag(running, "billing", "orders") == 6
        write(running, "orders", records=5)
        assert lag(running, "billing", "orders") == 11
        commit(running, "billing", "orders", 99)
        assert lag(running, "billing", "orders") == 0
        assert health(running) == {"status": "ready"}


def test_a_full_disk_is_said_while_writes_fail_and_forgotten_afterwards() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as running:
        create(running, "orders")
        assert write(running, "orders") == NO_ERROR
        disk.fill()
        assert write(running, "orders") == STORAGE_ERROR
        answer = health(running)
        assert answer["status"] == "not ready"
        assert "is full" in answer["why"]["disk"] and "Free some space" in answer["why"]["disk"]
        disk.make_room()
        assert write(running, "orders") == NO_ERROR
        running.advance(seconds=11)
        assert health(running) == {"status": "ready"}


def test_a_log_whose_sync_failed_is_named_with_what_to_do() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as running:
        create(running, "orders")
        disk.fail("sync", errno.EIO, path_part="/orders/")
        assert write(running, "orders") == STORAGE_ERROR
        why = health(running)["why"]["logs"]
        assert "orders-0" in why and "restart this node" in why
        disk.heal()


def test_groups_that_are_not_served_are_said_until_they_are() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as running:
        create(running, "orders")
        commit(running, "billing", "orders", 4)
        disk.fail("write", errno.EIO, path_part="__consumer_offsets")
        with pytest.raises(KafkaException):
            commit(running, "billing", "orders", 5)
        assert "__consumer_offsets" in health(running)["why"]["groups"]
        disk.heal()
        running.advance(seconds=2)
        eventually(lambda: health(running) == {"status": "ready"}, "the groups are served again")


def test_clients_are_told_the_advertised_address() -> None:
    with (
        node({"advertised.listener": "broker.example.com:19092"}) as running,
        RawConnection(running.bootstrap) as client,
    ):
        (broker,) = client.ask(requests.metadata()).brokers
        assert (broker.host, broker.port) == ("broker.example.com", 19092)


def test_without_one_clients_are_told_where_they_are() -> None:
    with node() as running, RawConnection(running.bootstrap) as client:
        (broker,) = client.ask(requests.metadata()).brokers
        assert f"{broker.host}:{broker.port}" == running.bootstrap


@pytest.mark.parametrize("text", ["broker", "broker:0", ":9092"])
def test_an_address_that_nobody_can_reach_is_refused(text: str) -> None:
    with pytest.raises(PenstockError, match=r"advertised\.listener"):
        load_settings(environment={}, flags={"advertised.listener": text})


def test_a_journal_that_failed_is_said_with_what_to_do() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(disk=disk) as running:
        create(running, "orders")
        # The first goes to the log's own files.
        assert write(running, "orders") == NO_ERROR
        disk.fail("sync", errno.EIO, path_part="/journal/")
        assert write(running, "orders") == NO_ERROR, "its own files take it"
        why = health(running)["why"]["journal"]
        assert "restart this node" in why and "Input/output error" in why
        disk.heal()


@pytest.mark.parametrize("lost", ["journal", "lap", None])
def test_what_is_lost_of_the_journal_is_said_after_an_unclean_stop_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: str | None
) -> None:
    with node(data_dir=str(tmp_path)) as running:
        create(running, "orders")
        for _ in range(3):
            assert write(running, "orders") == NO_ERROR
    for clean in (True, False):
        if lost == "journal":
            shutil.rmtree(tmp_path / "journal")
        elif lost == "lap":
            (tmp_path / "journal" / "a").write_bytes(b"rot" * 2000)
        if not clean:
            (tmp_path / "stopped-cleanly").unlink()
        with node(data_dir=str(tmp_path)):
            pass
        events = [record.getMessage() for record in caplog.records if record.getMessage().startswith("journal.")]
        expected = {"journal": "journal.missing", "lap": "journal.unreadable", None: None}[lost]
        assert events == ([expected] if expected and not clean else [])


def test_the_first_start_of_a_node_misses_no_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with node(data_dir=str(tmp_path)):
        pass
    assert not [record for record in caplog.records if record.getMessage().startswith("journal.")]
