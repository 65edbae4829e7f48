"""Topics on a disk that fails or loses its power: whole or not at all."""

from __future__ import annotations

import errno
from random import Random

import pytest
from tests.cluster.running import Cluster, alive
from tests.disk.power import PowerCutDisk

from penstock.cluster.core.image import TopicImage
from penstock.cluster.topics import NewTopic
from penstock.errors import PenstockError, Problem, Refused


@pytest.mark.parametrize("path_part", ["/coordination/", "/topics/orders"])
@pytest.mark.parametrize("operation", ["write", "open", "sync", "sync_directory", "make_directory"])
def test_a_creation_that_fails_is_as_if_it_had_not_been_tried(path_part: str, operation: str) -> None:
    memory = PowerCutDisk()

    async def use(running: Cluster) -> None:
        await running.made("first")
        running.node.disk.fail(operation, errno.EIO, path_part=path_part)
        answer = await running.topics.create(NewTopic("orders", 2))
        running.node.disk.heal()
        if isinstance(answer, Refused):
            assert answer.problem is Problem.STORAGE_FAILED
            assert running.names() == ["first"]
            assert isinstance(running.node.replicas.find("orders", 0), Refused)

    async def again(running: Cluster) -> None:
        """After a failed sync of the store that is a matter of a restart."""
        if "orders" not in running.names():
            await running.made("orders", 2)
        assert running.partition("orders", 1).high_watermark == 0

    alive(memory, use)
    alive(memory, again)


def test_a_topic_that_was_refused_is_not_there_after_a_restart_either() -> None:
    memory = PowerCutDisk()

    async def refuse(running: Cluster) -> None:
        running.node.disk.fail("make_directory", errno.EIO, path_part="/topics/orders")
        assert isinstance(await running.topics.create(NewTopic("orders", 2)), Refused)

    async def look(running: Cluster) -> None:
        assert running.names() == []

    alive(memory, refuse)
    alive(memory, look)


def test_wherever_the_room_ends_a_topic_can_be_made_when_there_is_some_again() -> None:
    """Also where there was none left to undo the creation."""
    refusals = 0
    for room_bytes in range(0, 1500, 25):
        memory = PowerCutDisk()

        async def use(running: Cluster, room_bytes: int = room_bytes) -> None:
            nonlocal refusals
            running.node.disk.fill(room_bytes)
            answer = await running.topics.create(NewTopic("orders", 2))
            running.node.disk.make_room()
            if isinstance(answer, Refused):
                refusals += 1
                assert running.names() == []
                await running.made("orders", 3)

        async def look(running: Cluster) -> None:
            assert running.names() == ["orders"]
            assert running.partition("orders", 1).high_watermark == 0

        alive(memory, use)
        alive(memory, look)
    assert 0 < refusals < 60


def test_a_power_cut_leaves_a_topic_whole_or_not_at_all() -> None:
    outcomes = {create_under_a_cut(operations) for operations in range(60)}
    assert outcomes == {(False, False), (False, True), (True, True)}


def create_under_a_cut(operations: int) -> tuple[bool, bool]:
    """Whether the creation was answered with success, and whether the topic is there afterwards."""
    memory, choose = PowerCutDisk(), Random(operations)
    outcome: list[bool] = []

    async def create(running: Cluster) -> None:
        await running.made("first")
        running.node.disk.pull_after(operations, lambda: memory.cut_power(choose))
        answer = await running.topics.create(NewTopic("orders", 2, config={"retention.ms": "1000"}))
        outcome.append(isinstance(answer, TopicImage))

    async def look(running: Cluster) -> None:
        assert "first" in running.names()
        outcome.append("orders" in running.names())
        if outcome[1]:
            assert running.partition("orders", 1).log.settings.retention_ms == 1000
        else:
            await running.made("orders", 2)

    alive(memory, create)
    alive(memory, look)
    return outcome[0], outcome[1]


def test_metadata_that_cannot_be_read_is_an_error_at_start() -> None:
    memory = PowerCutDisk()

    async def use(running: Cluster) -> None:
        await running.made("orders")

    alive(memory, use)
    (snapshot,) = (name for name in memory.list_directory("/data/coordination") if name == "snapshot")
    memory.damage(f"/data/coordination/{snapshot}", 30, b"????")
    with pytest.raises(PenstockError, match="cannot be read"):
        alive(memory, use)
