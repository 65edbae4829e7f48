"""A node from its settings, started in order and stopped in reverse."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from penstock.broker.connections import Connections
from penstock.broker.dispatch import Dispatch
from penstock.broker.forwarding import ForwardedRequests, Forwarding, forwarded
from penstock.broker.gate import Gate
from penstock.broker.listener import bind, listen
from penstock.broker.marker_writing import MarkerWriting
from penstock.broker.pressure import Pressure
from penstock.clock import Clock
from penstock.cluster.member import START_PATIENCE_S
from penstock.cluster.patience import patiently
from penstock.config.address import Address
from penstock.config.settings import Settings
from penstock.coordination.data_directory import DataDirectory
from penstock.coordination.early_layout import divide_topics
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Store
from penstock.coordination.membership import Membership, join_cluster
from penstock.coordination.opening import open_store
from penstock.coordination.producer_ids import ProducerIds
from penstock.disk.interface import Disk
from penstock.disk.lock import DirectoryLock
from penstock.errors import PenstockError, Problem
from penstock.frontend.server import serve_http
from penstock.groups.coordinator import Groups
from penstock.later import Later
from penstock.node.build import about_build
from penstock.node.cluster import ClusterNode, registration_of
from penstock.node.handlers import Parts, handlers_of
from penstock.node.kept_usage import KeptUsage
from penstock.node.last_stop import LastStop
from penstock.node.machines import machine_factory, transactions_factory
from penstock.node.pools import started_pool
from penstock.node.reports import (
    GroupLags,
    failed_journal,
    failed_logs,
    full_disk,
    held,
    log_ends,
    log_sizes,
    unavailable_groups,
    unavailable_transactions,
)
from penstock.node.unexpected import reported
from penstock.node.usage import UsageEmission
from penstock.node.usage_topic import UsageTopic
from penstock.replication.cleaner import Cleaner
from penstock.replication.fetchers import Fetchers
from penstock.replication.flusher import Flusher
from penstock.replication.housekeeping import Housekeeping
from penstock.replication.local_logs import LocalLogs
from penstock.replication.machines import Ground
from penstock.replication.move_throttles import MoveThrottles, Side
from penstock.replication.replicas import Replicas
from penstock.replication.roles import Roles
from penstock.storage.directories import PartitionDirectories
from penstock.storage.journal import Journal
from penstock.telemetry.broker import BrokerMetrics, report_memory
from penstock.telemetry.groups import report_group_lag
from penstock.telemetry.health import Health
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.storage import LogMetrics, report_journal
from penstock.telemetry.usage import Usage
from penstock.transactions.coordinator import Transactions
from penstock.transactions.marker_sending import MarkerSending
from penstock.transactions.markers import Markers

logger = logging.getLogger(__name__)

# Threads that wait for the disk. Syncs have their own, so that no cold read delays an acknowledgement.
# So many keep a disk busy while some of them wait for it; more only make each sync cover less.
SYNC_THREADS = 6
READ_THREADS = 4
UPKEEP_THREADS = 1
# Between two collections: about a thousand requests.
YOUNG_OBJECTS = 50_000

_TORN_METADATA = (
    "the run before ended in the middle of a change to topics or ids: what there is of it was dropped. "
    "It was never answered, so nothing is lost"
)
_NO_STORE = (
    "{data_dir} belongs to cluster {cluster} and has no store of its own: name that cluster's ZooKeeper with "
    "--coordination. If it was a node of its own, what it knew of its topics is lost. Restore {data_dir}/coordination "
    "from a copy, or move the directory away to begin anew"
)
_LOST_METADATA = (
    "{data_dir}/coordination knows of no topic, but {data_dir}/topics has records, which a start would now delete. "
    "Restore the coordination directory from a copy, or move the topics away to begin anew"
)


@dataclass(frozen=True)
class Running:
    """A node that serves."""

    kafka: Address
    http: Address
    metrics: Metrics
    # Why it cannot go on, as soon as that is so.
    ended: Later[PenstockError]

    async def until(self, stop: asyncio.Event) -> None:
        """Raises PenstockError when the node has to end by itself."""
        self.ended.when_done(lambda _: stop.set())
        await stop.wait()
        if self.ended.done:
            raise self.ended.result()


@asynccontextmanager
async def running(settings: Settings, clock: Clock, disk: Disk) -> AsyncIterator[Running]:
    """Serves until the block is left; then stops cleanly, so that the next start has nothing to recover."""
    data_dir = os.path.abspath(settings.node.data_dir)
    metrics, health = Metrics(), Health()
    health.starting("broker")
    async with AsyncExitStack() as stack:
        disk.make_directory(data_dir)
        stack.enter_context(DirectoryLock.take(data_dir))
        listener = stack.enter_context(bind(settings.network.listen))
        broker_metrics = BrokerMetrics(metrics)
        stack.enter_context(reported(asyncio.get_running_loop(), health, broker_metrics))
        http = await stack.enter_async_context(serve_http(settings.network.http, metrics, health, clock))
        last_stop = LastStop(disk, data_dir)
        store, joined = await _join(stack, settings, disk, data_dir)
        directories = PartitionDirectories(disk, data_dir)
        cluster = ClusterNode(settings, store, joined.cluster_id, clock)
        image = cluster.image
        syncs, reads, upkeep = (
            stack.enter_context(started_pool(threads, name))
            for threads, name in ((SYNC_THREADS, "sync"), (READ_THREADS, "read"), (UPKEEP_THREADS, "upkeep"))
        )
        log_metrics = LogMetrics(metrics, lambda: log_sizes(replicas))
        is_needed = not last_stop.was_clean and directories.has_topics()
        journal = Journal.open(disk, data_dir, is_needed=is_needed)
        stack.callback(journal.close)
        report_journal(metrics, lambda: journal.commits, lambda: journal.committed_bytes)
        flusher = Flusher(syncs, asyncio.get_running_loop(), log_metrics.flush.observe, clock, journal, SYNC_THREADS)
        stack.callback(flusher.close)
        fetchers = _fetchers(cluster, flusher, (reads, upkeep), settings, clock)
        roles = Roles(image, cluster.isr_changes, fetchers, settings.replication, clock)
        logs = LocalLogs(directories, settings.log, journal, reads, upkeep, clock)
        replicas = Replicas(logs, flusher, roles, reads, clock)
        stack.push(partial(_stopped, last_stop, directories, replicas))
        stack.push_async_callback(replicas.close)
        ground = Ground(replicas, cluster.topics, image, reads, clock)
        producer_ids = ProducerIds(store, joined.cluster_id)
        usage, emission = _metering(stack, cluster, ground, producer_ids, KeptUsage(disk, data_dir), settings)
        groups = Groups(machine_factory(settings), ground)
        stack.push_async_callback(groups.close)
        transactions = _transactions(cluster, groups, producer_ids, settings, ground)
        stack.push_async_callback(transactions.close)
        report_group_lag(metrics, lambda: GroupLags(groups, replicas))
        _watch(health, store, replicas, journal, groups, transactions, clock)
        _connect(cluster, replicas)
        for follower in (replicas, groups, transactions):
            cluster.metadata.follow(follower)
        for failure in (await cluster.metadata.load().wait()).values():
            raise failure
        await replicas.remove_strangers({topic.name for topic in image.topics()})
        journal.start()
        last_stop.forget(settings.log.flush_policy)
        await stack.enter_async_context(Housekeeping(replicas, flusher, upkeep, clock).running())
        await stack.enter_async_context(Cleaner(replicas, flusher, upkeep, clock).running())
        connections = Connections(settings.network, broker_metrics, clock)
        memory, replies = connections.memory, connections.reply_memory
        report_memory(metrics, lambda: memory.taken_bytes, lambda: replies.held_bytes)
        parts = Parts(cluster, replicas, groups, transactions, producer_ids, replies, usage, reads, clock)
        gate = _gate(parts, settings, broker_metrics, Pressure(memory.pressure))
        kafka = await stack.enter_async_context(listen(listener, gate, connections))
        stack.push_async_callback(_calm, cluster, connections)
        registration = registration_of(settings, kafka, joined.directory_id, last_stop, directories)
        await stack.enter_async_context(cluster.joined(registration, replicas.giving_way))
        await stack.enter_async_context(emission.running(cluster.member.broker_epoch, gap_before=is_needed))
        gate.open()
        health.watch("cluster", lambda: cluster.trouble)
        health.ready("broker")
        _collect_less_often()
        logger.info("node.ready", extra={"kafka": str(kafka), "http": str(http), "data_dir": data_dir, **about_build()})
        yield Running(kafka, http, metrics, cluster.member.expelled)
        health.failing("broker", "stopping")


def _stopped(
    last_stop: LastStop, directories: PartitionDirectories, replicas: Replicas, failure: type | None, *_: object
) -> None:
    if failure is None and replicas.closed_cleanly:
        last_stop.mark_clean(directories)


def _collect_less_often() -> None:
    """What lives as long as the node need not be looked at again by every collection, and what a request makes is

    gone with it: looking for cycles after every few hundred objects finds none.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def _watch(
    health: Health,
    store: Store,
    replicas: Replicas,
    journal: Journal,
    groups: Groups,
    transactions: Transactions,
    clock: Clock,
) -> None:
    health.watch("coordination", lambda: store.failure)
    health.watch("logs", lambda: failed_logs(replicas))
    health.watch("journal", lambda: failed_journal(journal))
    health.watch("disk", lambda: full_disk(replicas, clock))
    health.watch("groups", lambda: unavailable_groups(groups))
    health.watch("transactions", lambda: unavailable_transactions(transactions))


def _connect(cluster: ClusterNode, replicas: Replicas) -> None:
    """What becomes of the session, and who is alive, concerns the replicas at once."""
    cluster.find_log_end = log_ends(replicas)
    cluster.sizes.own = lambda: held(replicas)
    cluster.metadata.when_brokers_change(replicas.brokers_changed)
    cluster.member.when_session_changes(lambda suspended: replicas.session(suspended=suspended))
    cluster.member.when_session_lost(lambda: replicas.roles.resign(replicas))


async def _calm(cluster: ClusterNode, connections: Connections) -> None:
    if cluster.has_handed_over:
        await connections.calm()


def _fetchers(
    cluster: ClusterNode,
    flusher: Flusher,
    pools: tuple[ThreadPoolExecutor, ThreadPoolExecutor],
    settings: Settings,
    clock: Clock,
) -> Fetchers:
    gets = MoveThrottles(cluster.image, settings.replication, settings.topic_replication, Side.FOLLOWER)
    return Fetchers(cluster.image, cluster.peers, flusher, pools, gets, settings.replication, clock)


def _transactions(
    cluster: ClusterNode, groups: Groups, producer_ids: ProducerIds, settings: Settings, ground: Ground
) -> Transactions:
    sending = MarkerSending(cluster.image, cluster.calls)
    writing = MarkerWriting(ground.replicas, groups, cluster.image, ground.clock)
    sending.write_here, cluster.answering.write_markers = writing.write_here, writing.write
    markers = Markers(cluster.image, cluster.partition_counts, sending, ground.clock)
    return Transactions(transactions_factory(settings.transactions), producer_ids, markers, ground)


def _metering(
    stack: AsyncExitStack,
    cluster: ClusterNode,
    ground: Ground,
    producer_ids: ProducerIds,
    kept: KeptUsage,
    settings: Settings,
) -> tuple[Usage, UsageEmission]:
    """The last is written when nothing is counted any more, and the logs are still open."""
    usage = Usage(settings.usage.max_series)
    topic = UsageTopic(ground.replicas, cluster.image, cluster.topics, cluster.calls, ground.clock)
    cluster.answering.append_usage = topic.append_here
    emission = UsageEmission(usage, topic, producer_ids, kept, settings.usage, ground.clock)
    stack.push_async_callback(emission.close)
    return usage, emission


def _gate(parts: Parts, settings: Settings, metrics: BrokerMetrics, pressure: Pressure) -> Gate:
    cluster, handlers = parts.cluster, handlers_of(parts, settings)
    forwarding = Forwarding(lambda: cluster.controller is not None, cluster.calls)
    dispatch = Dispatch(forwarded(handlers, forwarding), metrics, parts.usage, pressure)
    cluster.answering.serve = ForwardedRequests(handlers, dispatch.start).serve
    return Gate(dispatch)


async def _join(stack: AsyncExitStack, settings: Settings, disk: Disk, data_dir: str) -> tuple[Store, Membership]:
    """Nothing is written, to the directory or to a cluster's store, before it is clear that they belong together."""
    directory, node_id = DataDirectory(disk, data_dir), settings.node.node_id
    if settings.coordination.coordination.is_embedded and directory.cluster_id and not directory.has_embedded_store:
        raise PenstockError(Problem.INVALID_CONFIG, _NO_STORE.format(data_dir=data_dir, cluster=directory.cluster_id))
    store = await open_store(settings.coordination, disk, data_dir)
    stack.push_async_callback(store.close)
    if not isinstance(store, EmbeddedStore):
        patience_ms = settings.coordination.session_timeout_ms
        join = partial(join_cluster, store, directory, node_id, is_private=False, patience_ms=patience_ms)
        return store, await patiently(store, join, START_PATIENCE_S)
    if store.torn_bytes:
        logger.warning("store.recovered", extra={"torn_bytes": store.torn_bytes, "why": _TORN_METADATA})
    if store.began_empty and PartitionDirectories(disk, data_dir).existing():
        raise PenstockError(Problem.STORAGE_FAILED, _LOST_METADATA.format(data_dir=data_dir))
    joined = await join_cluster(store, directory, node_id, is_private=True)
    await divide_topics(store)
    return store, joined
