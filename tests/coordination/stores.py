"""Short ways to drive a store from a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import uvloop

from penstock.config.coordination import CoordinationSettings
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Create, Node, Store
from penstock.coordination.paths import (
    CLUSTER,
    CLUSTER_ID,
    CURRENT_FORMAT,
    FORMAT,
    STORE_FORMAT,
    ClusterIdentity,
    StoreFormat,
    ensure_parents,
)
from penstock.coordination.zookeeper import ZooKeeperStore
from penstock.disk.interface import Disk
from penstock.errors import PenstockError, Problem

T = TypeVar("T")
Life = Callable[[Callable[[Store], Awaitable[Any]]], Any]


def with_store(disk: Disk, directory: str, use: Callable[[EmbeddedStore], Awaitable[T]]) -> T:
    """Open, use, close: one life of a process."""

    async def life() -> T:
        store = EmbeddedStore.open(disk, directory)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(life())


async def found(store: Store, cluster_id: str) -> None:
    """As the first start of a node does, under an id of one's choice; again: nothing."""
    await ensure_parents(store)
    if await store.read(FORMAT) is None:
        identity = Create(CLUSTER_ID, CLUSTER.encode(ClusterIdentity(cluster_id)))
        await store.commit([Create(FORMAT, STORE_FORMAT.encode(StoreFormat(CURRENT_FORMAT))), identity])


def with_zookeeper(settings: CoordinationSettings, use: Callable[[ZooKeeperStore], Awaitable[T]]) -> T:
    async def life() -> T:
        store = await ZooKeeperStore.open(settings)
        try:
            # pytest's own limit does not reach into this loop.
            async with asyncio.timeout(60):
                return await use(store)
        finally:
            await store.close()

    return uvloop.run(life())


def with_two(settings: CoordinationSettings, use: Callable[[ZooKeeperStore, ZooKeeperStore], Awaitable[None]]) -> None:
    """Two sessions, as two brokers have."""

    async def lives() -> None:
        async with AsyncExitStack() as stack:
            first = await ZooKeeperStore.open(settings)
            stack.push_async_callback(first.close)
            second = await ZooKeeperStore.open(settings)
            stack.push_async_callback(second.close)
            async with asyncio.timeout(60):
                await use(first, second)

    uvloop.run(lives())


def refused_start(settings: CoordinationSettings, reason: str) -> str:
    """What an attempt to open the store says; on a busy machine it may take a longer one to find out why."""
    for timeout_ms in (200, 1_000, 5_000, 20_000):
        with pytest.raises(PenstockError) as caught:
            uvloop.run(ZooKeeperStore.open(replace(settings, connection_timeout_ms=timeout_ms)))
        assert caught.value.problem is Problem.STORE_UNAVAILABLE
        if reason.lower() in str(caught.value).lower():
            return str(caught.value)
    raise AssertionError(f"not {reason!r}, but {caught.value}")


async def until(condition: Callable[[], bool], seconds: float = 15) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def everything(store: Store, path: str = "/") -> dict[str, Node]:
    """All nodes below `path`, each as `plain`."""
    return {below: plain(node) for below, node in (await as_they_are(store, path)).items()}


async def as_they_are(store: Store, path: str = "/") -> dict[str, Node]:
    found: dict[str, Node] = {}
    for name in await store.children(path):
        below = f"{path.rstrip('/')}/{name}"
        node = await store.read(below)
        assert node is not None
        found |= {below: node} | await as_they_are(store, below)
    return found


def plain(node: Node | None) -> Node:
    """Without what differs from run to run: no creation id, and the owner of an ephemeral one is 0."""
    assert node is not None
    return Node(node.data, node.version, owner=None if node.owner is None else 0)
