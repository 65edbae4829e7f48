"""A cluster of real broker processes on a real ZooKeeper, whose parts a test can find and hurt."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.static.primitive import i8
from tests.bad_input import requests
from tests.bad_input.raw import ConnectionClosed, RawConnection
from tests.cluster.faults.clients import CLIENT
from tests.cluster.faults.dumping import dumped_replica
from tests.cluster.faults.network import Network
from tests.cluster.faults.processes import BrokerProcess, python_module
from tests.cluster.faults.zookeepers import ZooKeepers
from tests.cluster.history.recording import Recorder

HEAL_S = 120
ASK_S = 2.0
OPERATE_S = 120
_OPERATE_TIMES = 3
_POLL_S = 0.1


@dataclass(frozen=True)
class PartitionView:
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        return self.leader >= 0 and set(self.isr) == set(self.replicas)


def rack_of(node_id: int) -> str:
    return f"rack-{node_id}"


class TestCluster:
    # pytest takes it for a class of tests otherwise.
    __test__ = False

    def __init__(
        self,
        network: Network,
        directory: Path,
        *,
        brokers: int,
        zookeepers: int,
        settings: Mapping[str, str] | None = None,
        spare: bool = False,
    ) -> None:
        """No ZooKeeper: one broker with the embedded store. `spare`: one more, which is not started with the others."""
        self.network = network
        self.clients = network.place("clients")
        self.zookeepers: ZooKeepers | None = None
        coordination: dict[str, str] = {}
        if zookeepers:
            self.zookeepers = ZooKeepers(network.place("zookeeper"), directory, zookeepers)
            coordination = {"coordination": self.zookeepers.target("/penstock")}
        made = {
            node_id: BrokerProcess(
                network.place(f"broker-{node_id}"),
                node_id,
                directory / f"broker-{node_id}",
                {
                    "log.level": "debug",
                    "log.format": "json",
                    "broker.rack": rack_of(node_id),
                    **coordination,
                    **(settings or {}),
                },
            )
            for node_id in range(1, brokers + 1 + spare)
        }
        self.every_broker = list(made.values())
        self._spare = made.pop(brokers + 1) if spare else None
        # Those that should run.
        self.brokers = made

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self) -> None:
        if self.zookeepers is not None:
            self.zookeepers.start()
        for broker in self.brokers.values():
            broker.launch()
        for broker in self.brokers.values():
            broker.wait_until_it_answers(self.clients)
        wait_for(lambda: len(self.metadata().brokers) == len(self.brokers), "all brokers know each other", HEAL_S)

    def stop(self) -> None:
        self.network.heal()
        for broker in self.every_broker:
            if broker.is_running:
                broker.terminate()
        for broker in self.every_broker:
            broker.stop()
        if self.zookeepers is not None:
            self.zookeepers.stop()

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str] | None = None
    ) -> None:
        def create() -> None:
            admin = AdminClient({"bootstrap.servers": self.bootstrap, **CLIENT})
            topic = NewTopic(name, partitions, replication_factor, config=dict(config or {}))
            admin.create_topics([topic], request_timeout=20)[name].result(30)

        self.clients.run(create)

    # One more broker, and one less

    @property
    def has_spare(self) -> bool:
        return self._spare is not None and self._spare.node_id in self.brokers

    def spare_joins(self) -> None:
        """And gets its share."""
        spare = self._spare
        assert spare is not None
        spare.launch()
        spare.wait_until_it_answers(self.clients)
        self.brokers[spare.node_id] = spare
        self.operate("drain", str(spare.node_id), "--cancel")
        self.operate("rebalance", "--yes")

    def spare_leaves(self) -> None:
        """When it is empty."""
        spare = self._spare
        assert spare is not None
        self.operate("drain", str(spare.node_id), "--yes")
        del self.brokers[spare.node_id]
        spare.terminate()
        assert spare.wait() == 0, spare.output_text()[-2000:]

    def operate(self, *arguments: str) -> None:
        """`penstock cluster ...`, as an operator does it: again if it says that something has changed meanwhile."""
        command = [*python_module("penstock", "cluster", *arguments), "--bootstrap", self.bootstrap]
        for _ in range(_OPERATE_TIMES):
            ran = self.clients.run(
                lambda: subprocess.run(command, check=False, capture_output=True, text=True, timeout=OPERATE_S)
            )
            if ran.returncode == 0:
                return
        raise AssertionError(f"penstock cluster {' '.join(arguments)}: {ran.stdout[-1000:]} {ran.stderr[-1000:]}")

    # Who is who

    def metadata(self, *topics: str, broker: BrokerProcess | None = None) -> Any:
        """As one broker sees it: the named one, or the first that answers. ConnectionError if none does."""
        return self.ask(requests.metadata(*topics), broker)

    def ask(self, request: Any, broker: BrokerProcess | None = None) -> Any:
        asked = [broker] if broker is not None else list(self.brokers.values())
        for each in asked:
            if each.is_running and not each.paused:
                try:
                    return self.clients.run(lambda each=each: _ask(each.bootstrap, request))  # type: ignore[misc]
                except (OSError, ConnectionClosed):
                    continue
        raise ConnectionError(f"no answer from {[each.node_id for each in asked]}")

    def partitions(self, topic: str, broker: BrokerProcess | None = None) -> list[PartitionView]:
        rows = [row for found in self.metadata(topic, broker=broker).topics for row in found.partitions]
        return [
            PartitionView(
                row.partition_index, row.leader_id, row.leader_epoch, tuple(row.replica_nodes), tuple(row.isr_nodes)
            )
            for row in rows
        ]

    def controller(self) -> BrokerProcess | None:
        return self.brokers.get(self.metadata().controller_id)

    def coordinator(self, name: str, *, of_transactions: bool = False) -> BrokerProcess | None:
        """Of a group, or of a transactional id."""
        return self.brokers.get(self.ask(FindCoordinatorRequest(key=name, key_type=i8(of_transactions))).node_id)

    # After the faults

    def heal(self) -> None:
        """Everything runs again; nothing is cut off. Does not wait for what they make of it."""
        self.network.heal()
        for broker in self.brokers.values():
            if broker.paused:
                broker.resume()
            if not broker.is_running:
                broker.launch()

    def wait_until_whole(self, topic: str, timeout_s: float = HEAL_S) -> float:
        """Until every broker says that all partitions have all their replicas in sync. Seconds it took."""
        began = time.monotonic()
        for broker in self.brokers.values():
            broker.wait_until_it_answers(self.clients)
        said: dict[int, list[PartitionView]] = {}

        def whole() -> bool:
            for broker in self.brokers.values():
                try:
                    said[broker.node_id] = self.partitions(topic, broker)
                except ConnectionError:
                    said[broker.node_id] = []
            views = list(said.values())
            agree = all(view == views[0] for view in views)
            return bool(views[0]) and agree and all(partition.is_whole for partition in views[0])

        wait_for(whole, f"{topic} is whole", timeout_s, lambda: said)
        return time.monotonic() - began

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        def ask() -> dict[int, int]:
            consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "ends", **CLIENT})
            try:
                rows = [TopicPartition(topic, partition) for partition in range(partitions)]
                return {row.partition: consumer.get_watermark_offsets(row, timeout=20)[1] for row in rows}
            finally:
                consumer.close()

        return self.clients.run(ask)

    def committed(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        """Empty if the coordinator has moved just now."""

        def ask() -> dict[int, int]:
            consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, **CLIENT})
            try:
                rows = [TopicPartition(topic, partition) for partition in range(partitions)]
                return {row.partition: row.offset for row in consumer.committed(rows, timeout=20)}
            except KafkaException:
                return {}
            finally:
                consumer.close()

        return self.clients.run(ask)

    def dump(self, topic: str, partitions: int, recorder: Recorder, *, compacted: bool = False) -> None:
        ends = self.ends(topic, partitions)
        for view in self.partitions(topic):
            for node_id in view.replicas:
                for event in dumped_replica(
                    self.brokers[node_id].data_dir,
                    node_id,
                    topic,
                    view.partition,
                    high_watermark=ends[view.partition],
                    in_sync=node_id in view.isr,
                    compacted=compacted,
                ):
                    recorder.record(event)


def _ask(bootstrap: str, request: Any) -> Any:
    with RawConnection(bootstrap, timeout_s=ASK_S) as connection:
        return connection.ask(request)


def wait_for(
    condition: Callable[[], bool], what: str, timeout_s: float, instead: Callable[[], object] | None = None
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            found = f"; instead {instead()}" if instead else ""
            raise AssertionError(f"still not after {timeout_s:g} s: {what}{found}")
        time.sleep(_POLL_S)
