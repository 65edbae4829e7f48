"""A store of a first release keeps its topics when it is opened by a later one."""

import asyncio
from pathlib import Path
from uuid import UUID

from penstock.coordination import paths
from penstock.coordination.early_layout import divide_topics
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Create
from penstock.coordination.paths import PartitionState, TopicState
from penstock.disk.local import LocalDisk

EARLY = (
    b'{"topic_id":"00000000-0000-0000-0000-000000000005","partitions":['
    b'{"leader":1,"leader_epoch":2,"isr":[1],"replicas":[1]},{"leader":1,"leader_epoch":3,"isr":[1],"replicas":[1]}]}'
)


def test_partitions_get_nodes_of_their_own(tmp_path: Path) -> None:
    async def use() -> None:
        store = EmbeddedStore.open(LocalDisk(), str(tmp_path))
        await paths.ensure_parents(store)
        await store.commit([Create(paths.topic_path("orders"), EARLY)])
        for _ in range(2):
            await divide_topics(store)
            topic = await store.read(paths.topic_path("orders"))
            assert topic is not None
            assert paths.TOPIC.decode(topic.data, "") == TopicState(UUID(int=5), 2, 0)
            assert await store.children(paths.topic_path("orders")) == ["0", "1"]
            second = await store.read(paths.partition_path("orders", 1))
            assert second is not None
            assert paths.PARTITION.decode(second.data, "") == PartitionState(1, 3, (1,), (1,))
        await store.close()

    asyncio.run(use())
