"""Servers of an ensemble killed and paused under a load: what was answered is there, once, and nothing else is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
import uvloop
from tests.coordination.stores import until
from tests.scale import minutes, seed

from penstock.coordination.interface import Check, Create, Replace, SessionState
from penstock.coordination.zookeeper import ZooKeeperStore
from penstock.coordination.zookeeper_server import ZooKeeperServer
from penstock.errors import PenstockError, Problem
from penstock.testing.zookeeper import TestZooKeeper, zookeeper

COUNTERS = 4


@dataclass
class Counter:
    """A node that is counted up by compare-and-swap. `answered` never exceeds what the store holds."""

    path: str
    answered: int = 0
    unknown: int = 0
    longest_gap_seconds: float = 0.0
    versions: set[int] = field(default_factory=set)


async def count(store: ZooKeeperStore, counter: Counter, stop: Callable[[], bool]) -> None:
    """Each attempt that was answered took a version of its own; one that was not is looked up."""
    last = time.monotonic()
    while not stop():
        try:
            await store.sync()
            node = await store.read(counter.path)
            assert node is not None
            assert node.version >= counter.answered
            (version, _) = await store.commit([Replace(counter.path, b"", node.version), Check("/all", 0)])
        except PenstockError as error:
            assert error.problem is Problem.STORE_UNAVAILABLE, error
            counter.unknown += 1
            await asyncio.sleep(0.02)
        else:
            assert version not in counter.versions
            counter.versions.add(version)
            counter.answered += 1
            counter.longest_gap_seconds = max(counter.longest_gap_seconds, time.monotonic() - last)
            last = time.monotonic()


async def one_fault(running: TestZooKeeper, random: Random) -> str:
    loop = asyncio.get_running_loop()
    leader = await loop.run_in_executor(None, running.leader)
    victim: ZooKeeperServer = random.choice([leader, *running.servers])
    kind = random.choice(["kill", "pause"])
    if kind == "kill":
        victim.kill()
        await asyncio.sleep(random.uniform(0, 3))
        # In this thread: the server ends with the thread that started it.
        victim.start()
    else:
        victim.pause()
        await asyncio.sleep(random.uniform(0, 5))
        victim.resume()
    for server in running.servers:
        await loop.run_in_executor(None, server.wait_until_ready)
    return f"{kind} {'leader' if victim is leader else 'follower'}"


async def faults_under_load(running: TestZooKeeper, seconds: float, random: Random) -> dict[str, object]:
    stores = [await ZooKeeperStore.open(running.settings("/faults")) for _ in range(2)]
    sessions = [store.session_id for store in stores]
    counters = [Counter(f"/all/{number}") for number in range(COUNTERS)]
    await stores[0].commit([Create("/all", b""), *(Create(counter.path, b"") for counter in counters)])
    await stores[0].commit([Create("/alive", b"", ephemeral=True)])
    deadline = time.monotonic() + seconds
    is_over = asyncio.Event()
    counting = [
        asyncio.ensure_future(count(stores[number % 2], counter, is_over.is_set))
        for number, counter in enumerate(counters)
    ]
    faults: list[str] = []
    while time.monotonic() < deadline and not any(task.done() for task in counting):
        faults.append(await one_fault(running, random))
    is_over.set()
    await asyncio.gather(*counting)
    for store in stores:
        await until(lambda store=store: store.session_state is SessionState.CONNECTED)  # type: ignore[misc]
    await stores[0].sync()
    for counter in counters:
        node = await stores[0].read(counter.path)
        assert node is not None
        assert counter.answered <= node.version <= counter.answered + counter.unknown
    lost = sum(store.session_id != session for store, session in zip(stores, sessions, strict=True))
    if stores[0].session_id == sessions[0]:
        assert await stores[0].read("/alive") is not None
    for store in stores:
        await store.close()
    return {
        "faults": len(faults),
        "kinds": {kind: faults.count(kind) for kind in sorted(set(faults))},
        "answered": sum(counter.answered for counter in counters),
        "unanswered": sum(counter.unknown for counter in counters),
        "longest_gap_seconds": round(max(counter.longest_gap_seconds for counter in counters), 2),
        "sessions_lost": lost,
    }


@pytest.mark.torture("zookeeper")
@pytest.mark.timeout(0)
def test_answers_hold_while_servers_fail(record_property: Callable[[str, object], None]) -> None:
    with zookeeper(3) as running:
        found = uvloop.run(faults_under_load(running, 60 * minutes(5), Random(seed())))
    for name, value in found.items():
        record_property(name, value)
    # A minority that fails for less than a session ends none.
    assert found["sessions_lost"] == 0
