"""A broker knows what the controller knows in the end, whatever messages get lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.coordination.stores import found

from penstock.clock import SteppedClock, SystemClock
from penstock.cluster.core.delta import BrokerRow, Delta, PartitionRow, RemovedRow, TopicRow
from penstock.cluster.core.image import Image, TopicImage
from penstock.cluster.metadata import Metadata
from penstock.cluster.publishing import Publishing
from penstock.cluster.reading import read_cluster
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Create, Remove
from penstock.coordination.paths import (
    PARTITION,
    TOPIC,
    PartitionState,
    TopicState,
    broker_state_path,
    partition_path,
    topic_path,
)
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError, Problem, Refused
from penstock.later import Later

BROKERS = tuple(BrokerRow(node_id, "here", 9092, broker_epoch=7, is_registered=True) for node_id in (1, 2))
STATE = PartitionState(1, 0, (1,), (1, 2))


class World:
    """A controller, broker 1, and broker 2, with a line between them that may fail in either direction."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.clock = SteppedClock()
        self.images = {node_id: Image("cluster", node_id) for node_id in (1, 2)}
        self.metadata = {node_id: Metadata(image, store, self.clock) for node_id, image in self.images.items()}
        self.loses_requests = False
        self.loses_answers = False
        self.pushed: list[Delta] = []
        self.publishing = self.begin(controller_epoch=1)

    def begin(self, controller_epoch: int) -> Publishing:
        return Publishing(1, controller_epoch, self.metadata[1], self.push, SystemClock())

    def push(self, node_id: int, delta: Delta) -> Later[Refused | None]:
        self.pushed.append(delta)
        lost = Later.of(Refused(Problem.REQUEST_TIMED_OUT, "lost"))
        if self.loses_requests:
            return lost  # type: ignore[return-value]
        answered = self.metadata[node_id].receive(delta).map(lambda each: each if isinstance(each, Refused) else None)
        return lost if self.loses_answers else answered  # type: ignore[return-value]

    async def create(self, name: str, generation: int) -> None:
        topic = TopicState(UUID(int=generation), 1, generation)
        changes = [
            Create(topic_path(name), TOPIC.encode(topic)),
            Create(partition_path(name, 0), PARTITION.encode(STATE)),
        ]
        await self.store.commit(changes)
        row = TopicRow(name, topic.topic_id, generation, 1, {}, -1)
        self.publishing.publish(topics=[row], partitions=[PartitionRow(name, topic.topic_id, 0, STATE, 0)])

    def names(self, node_id: int) -> list[str]:
        return [topic.name for topic in self.images[node_id].topics()]

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0.01)


def alive(directory: Path, use: Callable[[World], Awaitable[None]]) -> None:
    async def life() -> None:
        store = EmbeddedStore.open(LocalDisk(), str(directory))
        await found(store, "cluster")
        async with asyncio.timeout(20):
            await use(World(store))
        await store.close()

    asyncio.run(life())


@pytest.mark.parametrize("fault", ["loses_requests", "loses_answers"])
def test_what_got_lost_is_read_from_the_store(tmp_path: Path, fault: str) -> None:
    async def use(world: World) -> None:
        world.publishing.publish(brokers=BROKERS)
        await world.create("first", 1)
        await world.publishing.told().wait()
        assert world.names(2) == ["first"]
        setattr(world, fault, True)
        await world.create("second", 2)
        await world.create("third", 3)
        await world.until(lambda: len(world.pushed) > 3)
        setattr(world, fault, False)
        await world.publishing.told().wait()
        await world.metadata[2].settled().wait()
        assert world.names(2) == ["first", "second", "third"]

    alive(tmp_path, use)


def test_numbers_follow_each_other_while_nothing_is_lost(tmp_path: Path) -> None:
    async def use(world: World) -> None:
        world.publishing.publish(brokers=BROKERS)
        for generation in range(1, 6):
            await world.create(f"topic-{generation}", generation)
            await world.publishing.told().wait()
        assert [delta.sequence for delta in world.pushed] == list(range(len(world.pushed)))
        assert len(world.names(2)) == 5

    alive(tmp_path, use)


def test_an_earlier_controller_is_told_that_it_is_one(tmp_path: Path) -> None:
    async def use(world: World) -> None:
        deposed: list[bool] = []
        world.publishing.publish(brokers=BROKERS)
        await world.publishing.told().wait()
        later = replace(world.pushed[-1], controller=2, controller_epoch=2, sequence=0)
        await world.metadata[2].receive(later).wait()
        assert world.images[2].controller_id == 2
        world.publishing.when_deposed = lambda: deposed.append(True)
        await world.create("ghost", 1)
        await world.publishing.told().wait()
        assert deposed == [True]
        assert world.images[2].controller_id == 2

    alive(tmp_path, use)


def test_what_comes_late_changes_nothing(tmp_path: Path) -> None:
    """What was sent on a connection that was given up may arrive after all."""

    async def use(world: World) -> None:
        world.publishing.publish(brokers=BROKERS)
        await world.publishing.told().wait()
        third = replace(BROKERS[0], node_id=3, is_registered=False)
        world.publishing.publish(brokers=(*BROKERS, third))
        await world.publishing.told().wait()
        early = world.pushed[0]
        assert isinstance(await world.metadata[2].receive(early).wait(), Refused)
        await world.metadata[2].settled().wait()
        assert set(world.images[2].brokers) == {1, 2, 3}

    alive(tmp_path, use)


def test_what_was_meant_for_an_earlier_life_of_the_broker_changes_nothing(tmp_path: Path) -> None:
    async def use(world: World) -> None:
        world.publishing.publish(brokers=BROKERS)
        world.publishing.publish(brokers=BROKERS)
        await world.publishing.told().wait()
        third = replace(BROKERS[0], node_id=3, is_registered=False)
        world.publishing.publish(brokers=(BROKERS[0], replace(BROKERS[1], broker_epoch=8), third))
        await world.publishing.told().wait()
        late = replace(world.pushed[0], sequence=99)
        assert isinstance(await world.metadata[2].receive(late).wait(), Refused)
        await world.metadata[2].settled().wait()
        assert world.images[2].brokers[2].broker_epoch == 8
        assert set(world.images[2].brokers) == {1, 2, 3}

    alive(tmp_path, use)


def test_what_an_earlier_controller_in_this_process_has_read_takes_nothing_away(tmp_path: Path) -> None:
    """It may have read before the later one made a topic, and tell it after."""

    async def use(world: World) -> None:
        nodes = await read_cluster(world.store)
        earlier, world.publishing = world.publishing, world.begin(controller_epoch=2)
        await world.create("orders", 1)
        await world.metadata[1].settled().wait()
        await earlier.begin(nodes).wait()
        await earlier.publish(removed=[RemovedRow("orders", UUID(int=1))]).wait()
        await world.metadata[1].settled().wait()
        assert world.names(1) == ["orders"]

    alive(tmp_path, use)


class Buggy:
    """Follows the topics, and meets a bug with the first."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    async def open_topic(self, topic: TopicImage) -> None:
        self.opened.append(topic.name)
        if len(self.opened) == 1:
            raise RuntimeError("a bug")

    async def drop_topic(self, name: str, *, keep: bool = False) -> None:
        self.opened.remove(name)


def test_a_bug_with_one_change_holds_up_neither_who_waits_for_it_nor_the_next(tmp_path: Path) -> None:
    async def use(world: World) -> None:
        bugs: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: bugs.append(context["exception"]))
        world.metadata[1].follow(Buggy())
        first = world.publishing.publish(topics=[TopicRow("first", UUID(int=1), 1, 1, {}, -1)])
        await first.wait()
        partition = PartitionRow("first", UUID(int=1), 0, STATE, 0)
        with pytest.raises(PenstockError, match="bug"):
            await world.publishing.publish(partitions=[partition]).wait()
        await world.create("second", 2)
        await world.metadata[1].settled().wait()
        assert world.names(1) == ["second"]
        assert [str(bug) for bug in bugs] == ["a bug"]

    alive(tmp_path, use)


def test_a_read_that_failed_is_done_again(tmp_path: Path) -> None:
    async def use(world: World) -> None:
        await world.store.commit([Create(broker_state_path(3), b"garbage")])
        with pytest.raises(PenstockError, match="does not hold"):
            await world.metadata[2].load().wait()
        await world.create("orders", 1)
        await world.store.commit([Remove(broker_state_path(3), 0)])
        world.clock.advance(1_000)
        await world.metadata[2].settled().wait()
        assert world.names(2) == ["orders"]

    alive(tmp_path, use)
