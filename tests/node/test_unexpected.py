"""A bug in work that no request waits for: it is said, and what follows is done all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop
from tests.disk.faults import FaultyDisk
from tests.durability import clients
from tests.interop.waiting import eventually
from tests.node.test_reports import STORAGE_ERROR, create, health, write

from penstock.disk.local import LocalDisk
from penstock.node.unexpected import reported
from penstock.telemetry.broker import BrokerMetrics
from penstock.telemetry.health import Health
from penstock.telemetry.metrics import Metrics
from penstock.testing import TestNode, node

SETTINGS = {"retention.ms": "3600000", "file.delete.delay.ms": "0"}


@contextmanager
def buggy_node(disk: FaultyDisk, data_dir: Path) -> Iterator[TestNode]:
    """A node of whose bugs the test knows."""
    with (
        pytest.raises(AssertionError, match="unexpectedly"),
        node(SETTINGS, data_dir=str(data_dir), disk=disk) as running,
    ):
        yield running


def test_a_bug_in_a_pool_thread_is_said_and_the_thread_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk, bug = FaultyDisk(LocalDisk()), RuntimeError("nobody thought of this")
    with buggy_node(disk, tmp_path) as running:
        clients.write(running.bootstrap, "orders", [b"old"])
        disk.fail("remove", path_part="/orders/", bug=bug)
        running.advance(hours=2)
        eventually(lambda: "why" in health(running), "the bug is noticed")
        assert "nobody thought of this" in health(running)["why"]["internal"]
        assert any(record.exc_info and record.exc_info[1] is bug for record in caplog.records)
        disk.heal()
        clients.delete_topic(running.bootstrap, "orders")
        assert not (tmp_path / "topics" / "orders").exists(), "done by the same thread"


def test_a_bug_in_a_callback_is_said(caplog: pytest.LogCaptureFixture) -> None:
    bug = RuntimeError("nobody thought of this")

    async def life(health: Health, metrics: BrokerMetrics) -> None:
        def fail() -> None:
            raise bug

        loop = asyncio.get_running_loop()
        with reported(loop, health, metrics):
            assert health.why_not() == {}
            loop.call_soon(fail)
            while not health.why_not():
                await asyncio.sleep(0)

    health, metrics = Health(), BrokerMetrics(Metrics())
    uvloop.run(life(health, metrics))
    assert "nobody thought of this" in health.why_not()["internal"]
    assert metrics.unexpected_errors == 1
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [bug]


def test_a_bug_that_a_client_meets_does_not_make_the_node_unwell(caplog: pytest.LogCaptureFixture) -> None:
    bug = RuntimeError("nobody thought of this")

    class Buggy(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            raise bug

    async def life(health: Health, metrics: BrokerMetrics) -> None:
        loop = asyncio.get_running_loop()
        with reported(loop, health, metrics):
            server = await loop.create_server(Buggy, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello")
            assert await reader.read() == b"", "the connection is closed"
            writer.close()
            server.close()

    health, metrics = Health(), BrokerMetrics(Metrics())
    uvloop.run(life(health, metrics))
    assert (health.why_not(), metrics.unexpected_errors) == ({}, 1)
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [bug]


def test_a_bug_in_a_sync_lets_nobody_wait_for_it(tmp_path: Path) -> None:
    disk, bug = FaultyDisk(LocalDisk()), RuntimeError("nobody thought of this")
    with node(data_dir=str(tmp_path), disk=disk) as running:
        create(running, "orders")
        disk.fail("sync", path_part="/orders/", bug=bug)
        assert write(running, "orders") == STORAGE_ERROR
        assert "nobody thought of this" in health(running)["why"]["logs"]
        disk.heal()
