"""Short ways to drive a store from a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Node
from penstock.disk.interface import Disk

T = TypeVar("T")


def with_store(disk: Disk, directory: str, use: Callable[[EmbeddedStore], Awaitable[T]]) -> T:
    """Open, use, close: one life of a process."""

    async def life() -> T:
        store = EmbeddedStore.open(disk, directory)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(life())


async def everything(store: EmbeddedStore, path: str = "/") -> dict[str, Node]:
    found: dict[str, Node] = {}
    for name in await store.children(path):
        below = f"{path.rstrip('/')}/{name}"
        node = await store.read(below)
        assert node is not None
        found |= {below: node} | await everything(store, below)
    return found
