"""Topics with their store and their partitions, all on a disk in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from tests.cluster.faulty_store import FaultyStore
from tests.coordination.stores import found
from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, world

from penstock.cluster.answering import Answering
from penstock.cluster.core.image import Image, TopicImage
from penstock.cluster.member import Member
from penstock.cluster.metadata import Metadata
from penstock.cluster.topics import NewTopic, Topics
from penstock.config.settings import Settings
from penstock.config.topics import TopicSettings
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.paths import Registration
from penstock.node.cluster import ClusterNode
from penstock.replication.partition import Partition

DEFAULT_PARTITIONS = 2


@dataclass
class Cluster:
    node: World
    image: Image
    topics: Topics
    store: FaultyStore
    member: Member
    metadata: Metadata
    answering: Answering

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
        store = FaultyStore(EmbeddedStore.open(node.disk, "/data/coordination"))
        try:
            await found(store, "cluster")
            settings = Settings(topics=TopicSettings(num_partitions=DEFAULT_PARTITIONS))
            parts = ClusterNode(settings, store, "cluster", node.clock)
            parts.metadata.follow(node.replicas)
            parts.metadata.when_brokers_change(node.replicas.brokers_changed)
            parts.member.when_session_lost(lambda: node.replicas.roles.resign(node.replicas))
            for failure in (await parts.metadata.load().wait()).values():
                raise failure
            registration = Registration("localhost", 9092, "machine", None, UUID(int=1), clean=True)
            async with parts.joined(registration, node.replicas.giving_way):
                yield Cluster(node, parts.image, parts.topics, store, parts.member, parts.metadata, parts.answering)
        finally:
            await store.close()


def alive(memory: PowerCutDisk, use: Callable[[Cluster], Awaitable[None]]) -> None:
    """One life of a process."""

    async def life() -> None:
        async with cluster(memory) as running:
            await use(running)

    asyncio.run(life())
