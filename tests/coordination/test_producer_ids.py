from __future__ import annotations

import asyncio
from pathlib import Path

from tests.coordination.stores import found, with_store

from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.producer_ids import BLOCK_SIZE, ProducerIds
from penstock.disk.local import LocalDisk
from penstock.errors import Refused


def test_no_id_is_given_twice_in_any_life(tmp_path: Path) -> None:
    given: list[int] = []

    async def use(store: EmbeddedStore) -> None:
        # Two brokers that share the store, and callers that come all at once.
        await found(store, "ours")
        brokers = [ProducerIds(store, "ours"), ProducerIds(store, "ours")]
        given.extend(await asyncio.gather(*(brokers[n % 2].next_id() for n in range(2 * BLOCK_SIZE + 50))))

    for _ in range(3):
        with_store(LocalDisk(), str(tmp_path), use)
    assert len(given) == len(set(given)) == 3 * (2 * BLOCK_SIZE + 50)
    assert min(given) == 0


def test_blocks_follow_one_another(tmp_path: Path) -> None:
    async def use(store: EmbeddedStore) -> list[range]:
        await found(store, "ours")
        ids = ProducerIds(store, "ours")
        return await asyncio.gather(*(ids.take_block() for _ in range(4)))

    blocks = sorted(with_store(LocalDisk(), str(tmp_path), use), key=lambda block: block.start)
    assert blocks == [range(n * BLOCK_SIZE, (n + 1) * BLOCK_SIZE) for n in range(4)]


def test_another_clusters_store_gives_no_ids(tmp_path: Path) -> None:
    async def use(store: EmbeddedStore) -> Refused | int:
        await found(store, "theirs")
        return await ProducerIds(store, "ours").allocate()

    assert isinstance(with_store(LocalDisk(), str(tmp_path), use), Refused)
