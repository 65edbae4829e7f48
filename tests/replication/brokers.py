"""Brokers in one process that replicate over real connections; a stand-in decides what a controller would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from uuid import UUID

from msgspec.structs import replace
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk
from tests.replication.world import SYNC_THREADS
from tests.storage.batches import contents

from penstock.broker.apis.api_versions import ApiVersions
from penstock.broker.apis.fetch import Fetch
from penstock.broker.connections import Connections
from penstock.broker.dispatch import Dispatch
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.fetch_usage import FetchUsage
from penstock.broker.gate import Gate
from penstock.broker.listener import bind, listen
from penstock.broker.pressure import Pressure
from penstock.clock import SteppedClock
from penstock.cluster.core.image import BrokerImage, Image, PartitionImage, TopicImage
from penstock.cluster.core.messages import IsrWish
from penstock.cluster.core.view import PartitionNode
from penstock.config.address import Address
from penstock.config.log import LogSettings
from penstock.config.network import NetworkSettings
from penstock.config.replication import ReplicationSettings
from penstock.config.topic_replication import TopicReplicationSettings
from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.fetchers import Fetchers
from penstock.replication.flusher import Flusher
from penstock.replication.housekeeping import Housekeeping
from penstock.replication.local_logs import LocalLogs
from penstock.replication.move_throttles import MoveThrottles, Side
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.replication.roles import Roles
from penstock.rpc.peers import Peers
from penstock.storage.directories import PartitionDirectories
from penstock.storage.journal import Journal
from penstock.storage.log import Appended
from penstock.telemetry.broker import BrokerMetrics
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.usage import Usage
from penstock.wire.records import Record, build_batch

DATA = "/data"
WAIT_S = 20.0
TOPIC = "orders"
TOPIC_ID = UUID(int=77)
SETTINGS = ReplicationSettings(replica_fetch_wait_max_ms=200, replica_lag_time_max_ms=1000)


class Broker:
    """What of a node replication needs. Its disk outlives it."""

    def __init__(self, node_id: int, cluster: Cluster) -> None:
        self.node_id = node_id
        self.cluster = cluster
        self.memory = PowerCutDisk()
        self.epoch = 0
        self.address = Address("127.0.0.1", 0)
        self._stack: AsyncExitStack | None = None

    @property
    def is_up(self) -> bool:
        return self._stack is not None

    @property
    def partition(self) -> Partition:
        found = self.replicas.find(TOPIC, 0)
        assert isinstance(found, Partition)
        return found

    async def start(self) -> None:
        self.epoch = self.cluster.next_epoch()
        clock = self.cluster.clock
        self._stack = stack = AsyncExitStack()
        self.disk = FaultyDisk(self.memory)
        pool = stack.enter_context(ThreadPoolExecutor(SYNC_THREADS))
        upkeep = stack.enter_context(ThreadPoolExecutor(1))
        self.image = Image("cluster", self.node_id)
        self.image.own_epoch = self.epoch
        journal = Journal.open(self.disk, DATA)
        self.flusher = Flusher(pool, asyncio.get_running_loop(), lambda _: None, clock, journal, SYNC_THREADS)
        stack.callback(self.flusher.close)
        self.peers = Peers(clock, lambda *_: None)
        stack.callback(self.peers.close)
        throttled = self.cluster.settings, TopicReplicationSettings()
        gets, gives = (MoveThrottles(self.image, *throttled, side) for side in (Side.FOLLOWER, Side.LEADER))
        fetchers = Fetchers(self.image, self.peers, self.flusher, (pool, upkeep), gets, self.cluster.settings, clock)
        roles = Roles(self.image, self.cluster, fetchers, self.cluster.settings, clock)
        logs = LocalLogs(PartitionDirectories(self.disk, DATA), self.cluster.log_settings, journal, pool, upkeep, clock)
        self.replicas = Replicas(logs, self.flusher, roles, pool, clock)
        self.metrics = BrokerMetrics(Metrics())
        connections = Connections(NetworkSettings(), self.metrics, clock)
        usage, memory = Usage(10), connections.reply_memory
        served = FetchUsage(usage.of_api("Fetch"))
        handler = Fetch(self.replicas, self.image, FetchSessions(), memory, gives, served, pool, clock)
        pressure = Pressure(connections.memory.pressure)
        dispatch = Dispatch([handler, ApiVersions([handler.api])], self.metrics, usage, pressure)
        listener = stack.enter_context(bind(Address("127.0.0.1", 0)))
        gate = Gate(dispatch)
        gate.open()
        self.address = await stack.enter_async_context(listen(listener, gate, connections))
        self.cluster.tell_brokers()
        await self.cluster.show_all(self)
        journal.start()
        await stack.enter_async_context(Housekeeping(self.replicas, self.flusher, upkeep, clock).running())

    async def stop(self) -> None:
        """Cleanly."""
        assert self._stack is not None
        self.disk.syncs_may_run.set()
        await self.replicas.close()
        await self._end()

    async def kill(self, random: Random | None = None) -> None:
        """With `random`, of what was not synced anything may be lost."""
        partitions = list(self.replicas)
        for partition in partitions:
            self.replicas.roles.close(partition)
        self.disk.syncs_may_run.set()
        await self.flusher.drained(partitions)
        await self._end()
        if random is not None:
            self.memory.cut_power(random)

    async def _end(self) -> None:
        stack, self._stack = self._stack, None
        assert stack is not None
        assert self.metrics.unexpected_errors == 0
        await stack.aclose()
        self.cluster.tell_brokers()

    def cut_off(self, *others: int) -> None:
        """It reaches them no more, as far as it is the one that dials."""
        for other in others:
            self.peers.forget(other)

    def write(self, *values: bytes, partition: int = 0) -> Later[Refused | None]:
        """As with acks=all."""
        written = self.replicas.find(TOPIC, partition)
        assert isinstance(written, Partition)
        batch = build_batch(
            [Record(place, self.cluster.clock.now_ms(), None, value) for place, value in enumerate(values)]
        )
        appended = self.replicas.append(written, memoryview(batch))
        if isinstance(appended, Refused):
            return Later.of(appended)
        assert isinstance(appended, Appended)
        return written.when_committed(appended.next_offset)

    def values(self) -> dict[int, bytes]:
        return contents(self.partition.log)


class Cluster:
    """Decides on states; brokers hear of them at once. Also the way of leaders to the controller."""

    def __init__(self, count: int, settings: ReplicationSettings, log_settings: LogSettings) -> None:
        self.clock = SteppedClock()
        self.settings = settings
        self.log_settings = log_settings
        self._epochs = 100
        self.brokers = {node_id: Broker(node_id, self) for node_id in range(1, count + 1)}
        self.racks: dict[int, str] = {}
        self.nodes: list[PartitionNode] = []
        self.config: Mapping[str, str] = {}
        self.takes_changes = True
        self._tasks: set[asyncio.Task[None]] = set()

    def __getitem__(self, node_id: int) -> Broker:
        return self.brokers[node_id]

    def next_epoch(self) -> int:
        self._epochs += 1
        return self._epochs

    @property
    def leader(self) -> Broker:
        return self.brokers[self.nodes[0].state.leader]

    def tell_brokers(self) -> None:
        """Who is alive, and where."""
        rows = [
            BrokerImage(
                each.node_id,
                each.address.host,
                each.address.port,
                self.racks.get(each.node_id),
                broker_epoch=each.epoch,
                is_live=each.is_up,
            )
            for each in self.brokers.values()
        ]
        for broker in self.brokers.values():
            if broker.is_up:
                broker.image.put_brokers(rows)
                for other in self.brokers.values():
                    if other.is_up and other is not broker:
                        broker.peers.register(other.node_id, other.address)
                broker.replicas.brokers_changed()

    async def decide(self, state: PartitionState, partition: int = 0) -> None:
        version = self.nodes[partition].version + 1 if partition < len(self.nodes) else 0
        self.nodes[partition : partition + 1] = [PartitionNode(state, version)]
        for broker in self.brokers.values():
            if broker.is_up:
                await self.show_all(broker)

    async def show_all(self, broker: Broker) -> None:
        if self.nodes:
            rows = tuple(PartitionImage(node.state, node.version) for node in self.nodes)
            topic = TopicImage(TOPIC, TOPIC_ID, rows, self.config)
            await broker.replicas.open_topic(topic)
            broker.image.put(topic)

    async def elect(self, leader: int, isr: Sequence[int]) -> None:
        state = self.nodes[0].state
        await self.decide(replace(state, leader=leader, leader_epoch=state.leader_epoch + 1, isr=tuple(isr)))

    def alter(self, wish: IsrWish) -> Later[PartitionNode | Refused]:
        partition, isr = wish.partition, wish.isr
        node = self.nodes[partition]
        if not self.takes_changes:
            return Later.of(Refused(Problem.STORE_UNAVAILABLE))
        if node.version != wish.partition_epoch or node.state.leader_epoch != wish.leader_epoch:
            return Later.of(Refused(Problem.INVALID_UPDATE_VERSION))
        if any(not self.brokers[member].is_up for member, _ in isr):
            return Later.of(Refused(Problem.INELIGIBLE_REPLICA))
        members = tuple(member for member, _ in isr)
        state = replace(node.state, isr=members)
        if state.leader not in members:
            state = replace(state, leader=members[0], leader_epoch=wish.leader_epoch + 1)
        changed = PartitionNode(state, node.version + 1)
        self.nodes[partition] = changed
        task = asyncio.get_running_loop().create_task(self._spread())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        resigned = Refused(Problem.NEW_LEADER_ELECTED)
        return Later.of(changed if node.state.leader in members else resigned)

    async def _spread(self) -> None:
        for broker in self.brokers.values():
            if broker.is_up:
                await self.show_all(broker)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.002)

    async def until_same(self, *node_ids: int) -> None:
        """Their logs are byte for byte the same."""
        partitions = [self.brokers[node_id].partition for node_id in node_ids]
        # One that is about to be cut may end where the others do.
        await self.until(lambda: all(each.settled.is_set() for each in partitions))
        await self.until(lambda: len({each.log.end_offset for each in partitions}) == 1)
        first, *others = (self.brokers[node_id].values() for node_id in node_ids)
        assert all(other == first for other in others)


def led_by(leader: int, *replicas: int, isr: Sequence[int] | None = None, min_isr: int = 1) -> PartitionState:
    return PartitionState(leader, 0, tuple(isr or replicas), replicas, min_insync_replicas=min_isr)


@asynccontextmanager
async def cluster_of(
    count: int, settings: ReplicationSettings = SETTINGS, log_settings: LogSettings | None = None
) -> AsyncIterator[Cluster]:
    cluster = Cluster(count, settings, log_settings or LogSettings())
    try:
        async with asyncio.timeout(WAIT_S):
            for broker in cluster.brokers.values():
                await broker.start()
            yield cluster
    finally:
        for broker in cluster.brokers.values():
            if broker.is_up:
                await broker.stop()
