"""Brokers that replicate to each other, measured as one: their CPU time and their memory are summed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from benchmarks.peers.broker import Broker

from penstock.coordination.zookeeper_server import ZooKeeperServer


class Trio:
    """Three, as a rule: `Durability.replicas` says how many. Owns the ZooKeeper too, where there is one."""

    def __init__(self, brokers: Sequence[Broker], zookeeper: ZooKeeperServer | None = None) -> None:
        self.peer_name = brokers[0].peer_name
        self.address = ",".join(broker.address for broker in brokers)
        self.launched_s = brokers[0].launched_s
        self._brokers = brokers
        self._zookeeper = zookeeper

    @property
    def broker_pids(self) -> list[int]:
        return [pid for broker in self._brokers for pid in broker.broker_pids]

    @property
    def coordinator_pids(self) -> list[int]:
        return [self._zookeeper.pid] if self._zookeeper else []

    def await_listening(self) -> None:
        for broker in self._brokers:
            broker.await_listening()

    def check_alive(self) -> None:
        for broker in self._brokers:
            broker.check_alive()

    def log_tail(self) -> str:
        return "\n".join(broker.log_tail() for broker in self._brokers)

    def stop(self) -> None:
        with ExitStack() as last_to_first:
            if self._zookeeper:
                last_to_first.callback(self._zookeeper.stop)
            for broker in self._brokers:
                last_to_first.callback(broker.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
