"""The broker under test: Penstock, or whatever PENSTOCK_INTEROP_BOOTSTRAP names.

A scenario here also holds against Apache Kafka unless its file says otherwise, so a failure against Penstock means that
Penstock is wrong:

    PENSTOCK_INTEROP_BOOTSTRAP=127.0.0.1:9092 pytest tests/interop

and against a cluster, when all its brokers are named (`make torture cluster-clients`). Such a broker needs the
settings below, and Apache Kafka also group.initial.rebalance.delay.ms=0, group.consumer.min.session.timeout.ms=100 and
group.consumer.min.heartbeat.interval.ms=50 to allow them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.leaders import brokers, leaders
from tests.interop.record import Record
from tests.interop.waiting import eventually

SETTINGS = {
    "group.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "100",
}
# KIP-848 members cannot choose their sessions: for those that are away for as long as a busy machine likes.
PATIENT = {**SETTINGS, "group.consumer.session.timeout.ms": "60000"}


class Server:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._numbers = itertools.count()
        # Runs against a server that stays up must not meet the topics and groups of the run before.
        self._run = os.urandom(3).hex()

    def name(self, stem: str) -> str:
        """Fit for a topic or a group; nobody else has it."""
        return f"{stem}-{self._run}-{next(self._numbers)}"

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic, ready to use. Configs by Kafka's names with underscores for dots."""
        name = self.name("topic")
        named = {key.replace("_", "."): value for key, value in configs.items()}
        with RawConnection(self.bootstrap.split(",")[0]) as connection:
            (row,) = connection.ask(requests.create_topic(name, partitions, named)).topics
            assert row.error_code == 0, row.error_message
        eventually(lambda: self._is_ready(name, partitions), f"{name} can be read")
        return name

    def write(self, topic: str, partitions: int, stage: str) -> list[str]:
        """One record to each partition; returns what was written."""
        records = [Record(f"{stage}-{index}".encode(), partition=index) for index in range(partitions)]
        ConfluentClient(self.bootstrap).produce(topic, records)
        return [f"{stage}-{index}" for index in range(partitions)]

    def _is_ready(self, topic: str, partitions: int) -> bool:
        """Every broker tells the same leaders, and each of them leads."""
        addresses = brokers(self.bootstrap)
        first, *others = (leaders(address, topic) for address in addresses.values())
        if len(first) < partitions or -1 in first or any(other != first for other in others):
            return False
        return all(_is_read(addresses[leader], topic, index) for index, leader in enumerate(first))


def _is_read(leader: str, topic: str, partition: int) -> bool:
    with RawConnection(leader) as connection:
        answer = connection.ask(requests.fetch(topic, partition=partition))
    return bool(answer.responses[0].partitions[0].error_code == 0)


@contextmanager
def serving(settings: Mapping[str, str] = SETTINGS) -> Iterator[Server]:
    given = os.environ.get("PENSTOCK_INTEROP_BOOTSTRAP")
    if given:
        yield Server(given)
        return
    from penstock import testing

    with testing.node(settings=settings) as node:
        yield Server(node.bootstrap)
