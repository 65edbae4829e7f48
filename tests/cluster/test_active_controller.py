"""The controller on a store that is slow or changed by others: it knows what is there in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from tests.cluster.faulty_store import FaultyStore
from tests.coordination.stores import found
from tests.disk.power import PowerCutDisk
from tests.rpc.peer import on_loop

from penstock.clock import SteppedClock
from penstock.cluster.controller import ActiveController
from penstock.cluster.core.delta import BrokerRow, PartitionRow, RemovedRow, TopicRow
from penstock.cluster.core.events import AlterPartition, BrokerFoundDead, IsrChange, IsrMember
from penstock.cluster.core.messages import Addressed, AlterIsr, IsrWish, decode_message, encode
from penstock.cluster.core.preferred import PreferredLeaderOptions
from penstock.cluster.core.view import PartitionKey
from penstock.cluster.isr_changes import decide
from penstock.cluster.reading import ClusterNodes, TopicDefaults
from penstock.cluster.showing import Failures
from penstock.cluster.topic_changes import TopicChanges
from penstock.config.settings import Settings
from penstock.coordination.controller_election import ControllerElection
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Create, Node, Remove
from penstock.coordination.paths import (
    BROKER_STATE,
    CONTROLLER_EPOCH,
    REGISTRATION,
    BrokerState,
    PartitionState,
    Registration,
    broker_state_path,
    partition_path,
    registration_path,
    topic_path,
)
from penstock.later import Later

BROKERS = (1, 2, 3)


class Nobody:
    """There are no brokers to tell anything."""

    def publish(
        self,
        topics: Sequence[TopicRow] = (),
        partitions: Sequence[PartitionRow] = (),
        removed: Sequence[RemovedRow] = (),
        brokers: Sequence[BrokerRow] | None = None,
    ) -> Later[Failures]:
        return Later.of({})

    def __init__(self) -> None:
        self.all_told: Later[None] = Later.of(None)

    def told(self) -> Later[None]:
        return self.all_told

    def begin(self, nodes: ClusterNodes) -> Later[Failures]:
        return Later.of({})


def registration(node_id: int) -> Create:
    row = Registration("localhost", node_id, f"machine-{node_id}", None, UUID(int=node_id), clean=True)
    return Create(registration_path(node_id), REGISTRATION.encode(row), ephemeral=True)


@dataclass
class World:
    store: FaultyStore
    controller: ActiveController
    changes: TopicChanges
    clock: SteppedClock
    publisher: Nobody

    async def node(self, path: str) -> Node:
        node = await self.store.read(path)
        assert node is not None
        return node

    async def state_without(self, dead: int) -> PartitionState:
        """Of the first partition of orders, when it is known that this broker is dead."""
        self.controller.tell(BrokerFoundDead(dead, await self.epoch(dead)))
        while True:
            await asyncio.sleep(0.001)
            node = self.controller.view.partition(PartitionKey("orders", 0))
            if node is not None and dead not in node.state.isr:
                return node.state

    async def epoch(self, node_id: int) -> int:
        return (await self.node(registration_path(node_id))).created


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Three brokers that are live; the first is the controller."""
    store = FaultyStore(EmbeddedStore.open(PowerCutDisk(), "/data/coordination"))
    await found(store, "cluster")
    for node_id in BROKERS:
        await store.commit([registration(node_id)])
        node = await store.read(registration_path(node_id))
        assert node is not None
        state = BROKER_STATE.encode(BrokerState(UUID(int=node_id), node.created))
        await store.commit([Create(broker_state_path(node_id), state)])
    office = await ControllerElection(store, 1).attempt(1)
    assert office is not None
    settings, clock = Settings(), SteppedClock()
    defaults = TopicDefaults(settings.log, settings.topic_replication)
    publisher = Nobody()
    controller = ActiveController(store, office, publisher, defaults, PreferredLeaderOptions(), clock)
    async with asyncio.timeout(10):
        await controller.start()
        yield World(store, controller, TopicChanges(store, controller), clock, publisher)
    controller.close()
    await store.close()


@on_loop
async def test_what_was_decided_before_everything_was_read_anew_is_not_carried_out_after_it() -> None:
    async with world() as running:
        await running.changes.create("orders", [BROKERS], {})
        earlier = await running.epoch(3)
        reading = running.store.hold("read", CONTROLLER_EPOCH)
        running.controller.doubt()
        await reading.reached.wait()
        running.controller.tell(BrokerFoundDead(3, earlier))
        commits = running.store.commits
        # It is back, in a new life, before the read is answered.
        await running.store.commit([Remove(registration_path(3), 0), registration(3)])
        reading.answered.set()
        while running.controller.view.broker(3).broker_epoch == earlier or 3 not in running.controller.view.live:
            await asyncio.sleep(0.001)
        # The registration, and the admission.
        assert running.store.commits == commits + 2
        known = running.controller.view.partition(PartitionKey("orders", 0))
        assert known is not None
        assert known.version == (await running.node(partition_path("orders", 0))).version


@on_loop
async def test_a_topic_too_large_for_one_transaction_is_deleted_while_its_partitions_change() -> None:
    async with world() as running:
        count = 2_000
        row = await running.changes.create("orders", [BROKERS] * count, {})
        marking = running.store.hold("commit", topic_path("orders"))
        deleting = asyncio.ensure_future(running.changes.erase("orders"))
        await marking.reached.wait()
        # A leader's wish, that waits for its turn.
        epoch = await running.epoch(1)
        change = IsrChange(row.topic_id, count - 1, 0, 0, (IsrMember(1, -1), IsrMember(2, -1)))
        asked = running.controller.ask(lambda request: AlterPartition(request, 1, epoch, (change,)))
        await asyncio.sleep(0)
        marking.answered.set()
        await deleting
        await asked.wait()
        assert await running.store.children(topic_path("orders")) == []
        assert await running.store.read(topic_path("orders")) is None


@on_loop
async def test_who_has_lost_something_is_not_eligible_by_a_leaders_message() -> None:
    async with world() as running:
        row = await running.changes.create("orders", [BROKERS], {"min.insync.replicas": "3"})
        wish = IsrWish(row.topic_id, 0, 0, 0, ((1, -1),), lost=(2,))
        sent = encode(Addressed("cluster", 1, AlterIsr(1, await running.epoch(1), (wish,))))
        message = decode_message(sent).message
        assert isinstance(message, AlterIsr)
        reply = await decide(running.controller, message).wait()
        state = reply.rows[0].state
        assert state is not None and (state.isr, state.eligible_leaders) == ((1,), (3,))


@on_loop
async def test_who_dies_is_remembered_until_everybody_has_synced_what_was_acknowledged_before() -> None:
    """It may be the only one that has it: the others may have lost power with it."""
    async with world() as running:
        row = await running.changes.create("orders", [BROKERS], {"flush.policy": "os"})
        running.publisher.all_told = told = Later[None]()
        row = await running.changes.configure(row, {"flush.policy": "acked"})
        await running.changes.configure(row, {"flush.policy": "acked", "retention.ms": "1000"})
        reading = running.store.hold("read", CONTROLLER_EPOCH)
        running.controller.doubt()
        await reading.reached.wait()
        reading.answered.set()
        assert (await running.state_without(3)).last_known_eligible_leaders == (3,)
        told.complete(None)
        assert (await running.state_without(2)).last_known_eligible_leaders == (3,)


@on_loop
async def test_a_topic_that_was_made_anew_meanwhile_is_not_taken_for_synced() -> None:
    async with world() as running:
        row = await running.changes.create("orders", [BROKERS], {"flush.policy": "os"})
        running.publisher.all_told = told = Later[None]()
        await running.changes.configure(row, {"flush.policy": "acked"})
        await running.changes.erase("orders")
        await running.changes.create("orders", [BROKERS], {"flush.policy": "os"})
        told.complete(None)
        assert (await running.state_without(3)).last_known_eligible_leaders == (3,)
