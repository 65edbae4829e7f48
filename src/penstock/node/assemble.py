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

from penstock.broker.connections import Connections
from penstock.broker.dispatch import Dispatch
from penstock.broker.forwarding import ForwardedRequests, Forwarding, forwarded
from penstock.broker.gate import Gate
from penstock.broker.listener import bind, listen
from penstock.broker.pressure import Pressure
from penstock.clock import Clock
from penstock.config.address import Address
from penstock.config.settings import Settings
from penstock.coordination.data_directory import DataDirectory
from penstock.coordination.early_layout import divide_topics
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.membership import join_cluster
from penstock.coordination.opening import open_store
from penstock.coordination.producer_ids import ProducerIds
from penstock.disk.interface import Disk
from penstock.disk.lock import DirectoryLock
from penstock.errors import PenstockError, Problem
from penstock.frontend.server import serve_http
from penstock.groups.coordinator import Groups
from penstock.node.cluster import ClusterNode, registration_of
from penstock.node.handlers import Parts, handlers_of
from penstock.node.last_stop import LastStop
from penstock.node.machines import machine_factory
from penstock.node.reports import (
    failed_journal,
    failed_logs,
    full_disk,
    group_lags,
    log_ends,
    log_sizes,
    unavailable_groups,
)
from penstock.node.unexpected import reported
from penstock.replication.cleaner import Cleaner
from penstock.replication.fetchers import Fetchers
from penstock.replication.flusher import Flusher
from penstock.replication.housekeeping import Housekeeping
from penstock.replication.local_logs import LocalLogs
from penstock.replication.replicas import Replicas
from penstock.replication.roles import Roles
from penstock.storage.directories import PartitionDirectories
from penstock.storage.journal import Journal
from penstock.telemetry.broker import BrokerMetrics, report_memory
from penstock.telemetry.groups import report_group_lag
from penstock.telemetry.health import Health
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.storage import LogMetrics, report_journal

logger = logging.getLogger(__name__)

# Threads that wait for the disk. Syncs have their own, so that no cold read delays an acknowledgement.
SYNC_THREADS = 4
READ_THREADS = 4
UPKEEP_THREADS = 1
# Between two collections: about a thousand requests.
YOUNG_OBJECTS = 50_000

_TORN_METADATA = (
    "the run before ended in the middle of a change to topics or ids: what there is of it was dropped. "
    "It was never answered, so nothing is lost"
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
        store = await open_store(settings.coordination, disk, data_dir)
        stack.push_async_callback(store.close)
        directories = PartitionDirectories(disk, data_dir)
        is_embedded = isinstance(store, EmbeddedStore)
        if isinstance(store, EmbeddedStore):
            _check_embedded(store, directories)
        joined = await join_cluster(
            store,
            DataDirectory(disk, data_dir),
            settings.node.node_id,
            is_private=is_embedded,
            patience_ms=0 if is_embedded else settings.coordination.session_timeout_ms,
        )
        if is_embedded:
            await divide_topics(store)
        cluster = ClusterNode(settings, store, joined.cluster_id, clock)
        image, topics, metadata = cluster.image, cluster.topics, cluster.metadata
        syncs, reads, upkeep = (
            stack.enter_context(ThreadPoolExecutor(threads, thread_name_prefix=name))
            for threads, name in ((SYNC_THREADS, "sync"), (READ_THREADS, "read"), (UPKEEP_THREADS, "upkeep"))
        )
        log_metrics = LogMetrics(metrics, lambda: log_sizes(replicas))
        is_needed = not last_stop.was_clean and directories.has_topics()
        journal = Journal.open(disk, data_dir, is_needed=is_needed)
        stack.callback(journal.close)
        report_journal(metrics, lambda: journal.commits, lambda: journal.committed_bytes)
        flusher = Flusher(syncs, asyncio.get_running_loop(), log_metrics.flush.observe, clock, journal)
        stack.callback(flusher.close)
        fetchers = Fetchers(image, cluster.peers, flusher, (reads, upkeep), settings.replication, clock)
        roles = Roles(image, cluster.isr_changes, fetchers, settings.replication, clock)
        logs = LocalLogs(directories, settings.log, journal, reads, upkeep, clock)
        replicas = Replicas(logs, flusher, roles, reads, clock)
        stack.push(lambda kind, *_: last_stop.mark_clean() if kind is None and replicas.closed_cleanly else None)
        stack.push_async_callback(replicas.close)
        groups = Groups(machine_factory(settings), replicas, topics, image, reads, clock)
        stack.push_async_callback(groups.close)
        report_group_lag(metrics, lambda: group_lags(groups, replicas))
        health.watch("logs", lambda: failed_logs(replicas))
        health.watch("journal", lambda: failed_journal(journal))
        health.watch("disk", lambda: full_disk(replicas, clock))
        health.watch("groups", lambda: unavailable_groups(groups))
        health.watch("coordination", lambda: store.failure)
        health.watch("metadata", lambda: next(iter(metadata.failures.values()), None))
        cluster.find_log_end = log_ends(replicas)
        metadata.when_brokers_change(replicas.brokers_changed)
        cluster.member.when_session_changes(lambda suspended: replicas.session(suspended=suspended))
        cluster.member.when_session_lost(lambda: replicas.roles.resign(replicas))
        metadata.follow(replicas)
        metadata.follow(groups)
        for failure in (await metadata.load().wait()).values():
            raise failure
        journal.start()
        last_stop.forget()
        await replicas.remove_strangers({topic.name for topic in image.topics()})
        await stack.enter_async_context(Housekeeping(replicas, flusher, upkeep, clock).running())
        await stack.enter_async_context(Cleaner(replicas, flusher, upkeep, clock).running())
        connections = Connections(settings.network, broker_metrics, clock)
        memory, reply_memory = connections.memory, connections.reply_memory
        report_memory(metrics, lambda: memory.taken_bytes, lambda: reply_memory.held_bytes)
        parts = Parts(
            image,
            topics,
            replicas,
            groups,
            ProducerIds(store),
            reply_memory,
            reads,
            clock,
            cluster.answering,
            cluster.operations,
        )
        handlers = handlers_of(parts, settings)
        forwarding = Forwarding(lambda: cluster.controller is not None, cluster.calls)
        dispatch = Dispatch(forwarded(handlers, forwarding), broker_metrics, Pressure(memory.pressure))
        cluster.answering.serve = ForwardedRequests(handlers, dispatch.start).serve
        gate = Gate(dispatch)
        kafka = await stack.enter_async_context(listen(listener, gate, connections))
        registration = registration_of(settings, kafka, joined.directory_id, last_stop.was_clean)
        await stack.enter_async_context(cluster.joined(registration))
        gate.open()
        health.ready("broker")
        # What lives as long as the node need not be looked at again by every collection, and what a request makes is
        # gone with it: looking for cycles after every few hundred objects finds none.
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)
        logger.info("node.ready", extra={"kafka": str(kafka), "http": str(http), "data_dir": data_dir})
        yield Running(kafka, http, metrics)
        health.failing("broker", "stopping")


def _check_embedded(store: EmbeddedStore, directories: PartitionDirectories) -> None:
    if store.torn_bytes:
        logger.warning("store.recovered", extra={"torn_bytes": store.torn_bytes, "why": _TORN_METADATA})
    if store.began_empty and directories.existing():
        raise PenstockError(Problem.STORAGE_FAILED, _LOST_METADATA.format(data_dir=directories.path))
