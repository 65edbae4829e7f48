"""Connections of a client that decides by itself what it sends where, and sends it once."""

from __future__ import annotations

import itertools
from typing import Any

from kio.schema.errors import ErrorCode
from tests.bad_input import requests
from tests.bad_input.raw import ConnectionClosed, RawConnection
from tests.transactions.raw_client import find_coordinator


class Links:
    def __init__(self, bootstrap: str, topic: str, timeout_s: float) -> None:
        self._brokers = itertools.cycle(bootstrap.split(","))
        self._topic = topic
        self._timeout_s = timeout_s
        self._links: dict[str, RawConnection] = {}
        self._leaders: dict[int, str] = {}

    def leader(self, partition: int) -> str | None:
        """None: nobody is known to lead it now."""
        if partition not in self._leaders:
            self._learn(next(self._brokers))
        return self._leaders.get(partition)

    def forget_leader(self, partition: int) -> None:
        self._leaders.pop(partition, None)

    def coordinator(self, transactional_id: str) -> str | None:
        answer = self.ask(next(self._brokers), find_coordinator(transactional_id))
        if answer is None or answer.coordinators[0].error_code is not ErrorCode.none:
            return None
        return f"{answer.coordinators[0].host}:{answer.coordinators[0].port}"

    def link(self, broker: str) -> RawConnection:
        """OSError if it cannot be had."""
        if broker not in self._links:
            self._links[broker] = RawConnection(broker, timeout_s=self._timeout_s)
        return self._links[broker]

    def drop(self, broker: str) -> None:
        self._leaders = {partition: leader for partition, leader in self._leaders.items() if leader != broker}
        if broker in self._links:
            self._links.pop(broker).close()

    def ask(self, broker: str, request: Any) -> Any:
        """None: nobody knows what became of it."""
        try:
            return self.link(broker).ask(request)
        except (OSError, ConnectionClosed):
            self.drop(broker)
            return None

    def _learn(self, broker: str) -> None:
        answer = self.ask(broker, requests.metadata(self._topic))
        if answer is None:
            return
        addresses = {row.node_id: f"{row.host}:{row.port}" for row in answer.brokers}
        rows = [row for topic in answer.topics for row in topic.partitions]
        self._leaders = {row.partition_index: addresses[row.leader_id] for row in rows if row.leader_id in addresses}
