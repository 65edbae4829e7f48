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


@pytest.mark.parametrize("operation", ["write", "open", "sync", "sync_directory", "make_directory"])
def test_a_creation_that_the_store_does_not_take_is_as_if_it_had_not_been_tried(operation: str) -> None:
    memory = PowerCutDisk()

    async def use(running: Cluster) -> None:
        await running.made("first")
        running.node.disk.fail(operation, errno.EIO, path_part="/coordination/")
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


@pytest.mark.parametrize("operation", ["write", "open", "sync_directory", "make_directory"])
def test_a_topic_that_could_not_be_opened_exists_and_is_opened_when_that_can_be(operation: str) -> None:
    """Others may have written to it: nothing that one broker cannot do deletes it, nor does whoever makes it again."""
    memory = PowerCutDisk()

    async def use(running: Cluster) -> None:
        running.node.disk.fail(operation, errno.EIO, path_part="/topics/orders")
        for problem in (Problem.STORAGE_FAILED, Problem.TOPIC_ALREADY_EXISTS):
            refused = await running.topics.create(NewTopic("orders", 2))
            assert isinstance(refused, Refused) and refused.problem is problem
        assert running.names() == []
        assert "orders" in running.metadata.failures
        await running.made("unrelated")
        running.node.disk.heal()
        running.node.clock.advance(30_000)
        await running.metadata.settled().wait()
        assert running.partition("orders", 1).high_watermark == 0
        assert running.metadata.failures == {}

    async def look(running: Cluster) -> None:
        assert sorted(running.names()) == ["orders", "unrelated"]

    alive(memory, use)
    alive(memory, look)


def test_partitions_that_could_not_be_opened_are_not_added_twice() -> None:
    async def use(running: Cluster) -> None:
        await running.made("orders", 1)
        running.node.disk.fail("make_directory", errno.EIO, path_part="/topics/orders")
        for _ in range(2):
            assert isinstance(await running.topics.grow("orders", 3, None, validate_only=False), Refused)
        running.node.disk.heal()
        running.node.clock.advance(30_000)
        await running.metadata.settled().wait()
        topic = running.image.topic("orders")
        assert topic is not None and len(topic.partitions) == 3

    alive(PowerCutDisk(), use)


def test_wherever_the_room_ends_a_topic_is_there_or_can_be_made_when_there_is_some_again() -> None:
    refusals = 0
    for room_bytes in range(0, 1500, 50):
        memory = PowerCutDisk()

        async def use(running: Cluster, room_bytes: int = room_bytes) -> None:
            nonlocal refusals
            running.node.disk.fill(room_bytes)
            answer = await running.topics.create(NewTopic("orders", 2))
            running.node.disk.make_room()
            if isinstance(answer, Refused):
                refusals += 1
                assert running.names() == []
                again = await running.topics.create(NewTopic("orders", 3))
                assert isinstance(again, TopicImage) or again.problem is Problem.TOPIC_ALREADY_EXISTS

        async def look(running: Cluster) -> None:
            assert running.names() == ["orders"]
            assert running.partition("orders", 1).high_watermark == 0

        alive(memory, use)
        alive(memory, look)
    assert 0 < refusals < 30


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
