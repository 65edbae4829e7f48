"""Topics with their store and their partitions, all on a disk in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, world

from penstock.cluster.core.image import BrokerImage, Image, TopicImage
from penstock.cluster.topics import NewTopic, Topics
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.paths import ensure_parents
from penstock.replication.partition import Partition

DEFAULT_PARTITIONS = 2


@dataclass
class Cluster:
    node: World
    image: Image
    topics: Topics

    async def made(self, name: str, count: int = 1, **config: str) -> TopicImage:
        created = await self.topics.create(NewTopic(name, count, config=config))
        assert isinstance(created, TopicImage), created
        return created

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.node.replicas.find(topic, index)
        assert isinstance(found, Partition), found
        return found

    def names(self) -> list[str]:
        return [topic.name for topic in self.image.topics()]


@asynccontextmanager
async def cluster(memory: PowerCutDisk) -> AsyncIterator[Cluster]:
    async with asyncio.timeout(WAIT_S), world(memory) as node:
        store = EmbeddedStore.open(node.disk, "/data/coordination")
        try:
            await ensure_parents(store)
            image = Image("cluster", 1, [BrokerImage(1, "localhost", 9092, None)])
            topics = Topics(store, image, 1, DEFAULT_PARTITIONS)
            topics.follow(node.replicas)
            await topics.load(new_epochs=False)
            yield Cluster(node, image, topics)
        finally:
            await store.close()


def alive(memory: PowerCutDisk, use: Callable[[Cluster], Awaitable[None]]) -> None:
    """One life of a process."""

    async def life() -> None:
        async with cluster(memory) as running:
            await use(running)

    asyncio.run(life())
