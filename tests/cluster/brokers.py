"""Brokers of one cluster inside this process, on a ZooKeeper for all tests of a module."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.describe_cluster.v0.request import DescribeClusterRequest
from kio.static.protocol import RequestPayload
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection

import penstock.testing
from penstock.testing.node import TestNode
from penstock.testing.zookeeper import TestZooKeeper, zookeeper

WAIT_S = 20.0
_chroots = itertools.count()


@contextmanager
def short_sessions() -> Iterator[TestZooKeeper]:
    """Sessions may be lost in half a second, so that tests of that need not wait for long."""
    with zookeeper(settings={"minSessionTimeout": "500"}) as running:
        yield running


class Brokers:
    def __init__(self, stack: ExitStack, coordination: str, chroot: str = "") -> None:
        self.chroot = chroot
        self._stack = stack
        self._coordination = coordination
        self.nodes: dict[int, TestNode] = {}
        self._admins: dict[int, AdminClient] = {}

    def start(self, *node_ids: int, **more: str) -> None:
        for node_id in node_ids:
            settings = {"coordination": self._coordination, "node.id": str(node_id), **more}
            self.nodes[node_id] = self._stack.enter_context(penstock.testing.node(settings))

    def stop(self, node_id: int) -> None:
        self.nodes.pop(node_id).stop()
        self._admins.pop(node_id, None)

    def admin(self, node_id: int) -> AdminClient:
        """Kept: a client that is dropped ends what it was asked."""
        if node_id not in self._admins:
            self._admins[node_id] = AdminClient({"bootstrap.servers": self.nodes[node_id].bootstrap, "log_level": 0})
        return self._admins[node_id]

    def ask(self, node_id: int, request: RequestPayload) -> Any:
        """This broker itself, whoever decides."""
        with RawConnection(self.nodes[node_id].bootstrap, timeout_s=WAIT_S) as connection:
            return connection.ask(request)

    def seen_by(self, node_id: int) -> tuple[set[int], int]:
        """The brokers, and who is the controller."""
        found = self.ask(node_id, DescribeClusterRequest(include_cluster_authorized_operations=False))
        return {row.broker_id for row in found.brokers}, found.controller_id

    def partitions(self, node_id: int, topic: str) -> dict[int, tuple[int, list[int], set[int]]]:
        """Leader, replicas and ISR, as this broker tells them."""
        (found,) = self.ask(node_id, requests.metadata(topic)).topics
        return {
            row.partition_index: (row.leader_id, list(row.replica_nodes), set(row.isr_nodes))
            for row in found.partitions
        }


@contextmanager
def cluster_on(server: TestZooKeeper) -> Iterator[Brokers]:
    with ExitStack() as stack:
        chroot = f"/brokers/{next(_chroots)}"
        yield Brokers(stack, server.target(chroot), chroot)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def created(admin: AdminClient, *topics: NewTopic) -> None:
    for future in admin.create_topics(list(topics)).values():
        future.result(WAIT_S)
