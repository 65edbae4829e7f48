"""A cluster with clients, run from a seed: `World(seed).run()` raises a Finding or tells what it saw."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

from tests.simulation.broker import Broker, Setup
from tests.simulation.clients import Producer, Reader
from tests.simulation.faults import Faults
from tests.simulation.history import Finding, History
from tests.simulation.log import Value
from tests.simulation.network import Network
from tests.simulation.store import KEY, TOPIC, Store

from penstock.cluster.core.election import Electorate, TopicSettings, new_partition
from penstock.coordination.interface import Create
from penstock.coordination.paths import NO_LEADER, PARTITION, TOPICS, partition_path

REPLICAS = 3
FAULTS_MS = 9000
FAULT_EVERY_MS = 550
# After this everything has to be well again; it is in a second or two.
HEAL_MS = 40_000


class Saw(NamedTuple):
    """What a run was worth."""

    events: int
    faults: Counter[str]
    elections: int
    acked: int
    committed: int
    lost: int


class World:
    def __init__(self, seed: int, *, acked: bool | None = None) -> None:
        random = Random(seed)
        self.setup = Setup(
            brokers=random.choice((3, 3, 3, 4, 5)),
            acked=random.random() < 0.6 if acked is None else acked,
            min_isr=random.choice((1, 2, 2)),
            prefers_leaders=random.random() < 0.5,
            max_messages=random.choice((None, None, 10)),
        )
        self.network = Network(random)
        self.history = History(acked=self.setup.acked)
        self.store = Store(self.network)
        self.store.min_isr = self.setup.min_isr
        self.brokers = {
            node: Broker(node, self.network, self.store, self.history, self.setup)
            for node in range(1, self.setup.brokers + 1)
        }
        self.history.brokers = self.brokers
        for broker in self.brokers.values():
            broker.peers = self.brokers
            broker.names = self.brokers
        self.store.on_partition = self.history.on_partition
        self.store.on_admitted = self.history.on_admitted
        self.faults = Faults(self.network, self.store, self.brokers)
        for broker in self.brokers.values():
            broker.on_proposal = self.faults.on_proposal
        # Where nobody sends anything again, all of the log may be deleted.
        repeats = random.random() < 0.8
        kinds = [(True, repeats), (True, repeats), (True, False), (False, False)]
        self.producers = [
            Producer(
                -1 - place,
                self.network,
                self.brokers,
                self.history,
                acks_all=acks_all,
                idempotent=idempotent,
                pause_ms=random.choice((60, 400)),
            )
            for place, (acks_all, idempotent) in enumerate(kinds)
        ]
        self.readers = [
            Reader(-11 - place, self.network, self.brokers, self.history, anywhere=place > 0) for place in range(2)
        ]

    def run(self) -> Saw:
        self._boot()
        for client in (*self.producers, *self.readers):
            client.refresh()
        self.faults.begin(FAULTS_MS, FAULT_EVERY_MS)
        self._run_for(FAULTS_MS)
        self.faults.heal()
        self._settle()
        self._check_all()
        acked = sum(len(producer.acked) for producer in self.producers)
        history = self.history
        return Saw(
            self.network.events,
            self.faults.counts,
            history.elections,
            acked,
            len(history.committed),
            len(history.lost),
        )

    def _run_for(self, ms: int) -> None:
        self.network.run_until(self.network.now_ms + ms)

    def _boot(self) -> None:
        for broker in self.brokers.values():
            broker.start()
        while not all(broker.may_lead for broker in self.brokers.values()):
            self._run_for(100)
            if self.network.now_ms > 10_000:
                raise Finding("the brokers were never admitted")
        nodes = self.network.random.sample(list(self.brokers), REPLICAS)
        settings = TopicSettings(self.setup.min_isr, not self.setup.acked)
        state = new_partition(tuple(nodes), Electorate(frozenset(nodes)), settings)
        assert state is not None
        self.store.put([Create(f"{TOPICS}/{TOPIC}", b"")])
        self.store.put([Create(partition_path(*KEY), PARTITION.encode(state))])
        for broker in self.brokers.values():
            if broker.controller is not None:
                broker.controller.topic_created()

    # In the end

    def _settle(self) -> None:
        deadline_ms = self.network.now_ms + HEAL_MS
        self._run_for(1500)
        for producer in self.producers:
            producer.is_stopping = True
        while not self._is_well() and not self.history.is_nobody_left:
            self._run_for(250)
            if self.network.now_ms > deadline_ms:
                raise Finding(f"it does not get well: {self.history.state}, {self._who_waits()}")

    def _is_well(self) -> bool:
        state = self.history.state
        assert state is not None
        if state.leader == NO_LEADER or len(state.isr) < len(state.replicas) or state.adding or state.removing:
            return False
        if not all(producer.is_done for producer in self.producers):
            return False
        leading = self.brokers[state.leader].replica.leading
        if leading is None or leading.high_watermark != self.brokers[state.leader].log.end_offset:
            return False
        watermarks = {self.brokers[node].replica.high_watermark for node in state.replicas}
        return len(watermarks) == 1 and all(reader.position in watermarks for reader in self.readers)

    def _who_waits(self) -> str:
        state = self.history.state
        assert state is not None
        rows = [
            f"{node}: lead={broker.replica.leading is not None} follow={broker.replica.following is not None} "
            f"hw={broker.replica.high_watermark} end={broker.log.end_offset} may={broker.may_lead} "
            f"epoch={broker.broker_epoch} v={broker.replica.version}"
            for node, broker in self.brokers.items()
        ]
        clients = [f"{p.name}: {p.is_done}" for p in self.producers]
        positions = [f"{r.name}: {r.position}" for r in self.readers]
        return "; ".join([*rows, *clients, *positions])

    def _check_all(self) -> None:
        committed, lost = self.history.committed, {entry.value for entry in self.history.lost}
        offsets: dict[Value, int] = {}
        for offset, entry in enumerate(committed):
            if entry.value in offsets:
                raise Finding(f"{entry.value.name} is there twice, at {offsets[entry.value]} and {offset}")
            offsets[entry.value] = offset
        for producer in self.producers:
            self._check_producer(producer, offsets, lost)
        self._check_order(offsets, lost)
        self._check_replicas()

    def _check_producer(self, producer: Producer, offsets: dict[Value, int], lost: set[Value]) -> None:
        if producer.acks_all:
            for value, (offset, _) in producer.acked.items():
                if offsets.get(value) != offset and value not in lost:
                    raise Finding(f"{value.name} was acknowledged at {offset} and is at {offsets.get(value)}")
        for value in producer.refused:
            if value in offsets:
                raise Finding(f"{value.name} was refused and is there at {offsets[value]}")
        if producer.idempotent and not lost:
            places = [offsets[value] for value in producer.sent if value in offsets]
            if places != sorted(places):
                raise Finding(f"the values of producer {producer.name} are out of order: {places}")

    def _check_order(self, offsets: dict[Value, int], lost: set[Value]) -> None:
        """What was sent after another was acknowledged is behind it, whoever sent them."""
        if lost:
            return
        acks = sorted((at_ms, offset) for p in self.producers if p.acks_all for offset, at_ms in p.acked.values())
        sends = sorted((at_ms, offsets[v]) for p in self.producers for v, at_ms in p.sent.items() if v in offsets)
        highest, place = -1, 0
        for sent_ms, offset in sends:
            while place < len(acks) and acks[place][0] < sent_ms:
                highest = max(highest, acks[place][1])
                place += 1
            if offset <= highest:
                raise Finding(f"the record at {offset} was sent after {highest} was acknowledged")

    def _check_replicas(self) -> None:
        """The same up to the watermark, and all that readers saw is there."""
        committed = self.history.committed
        for node, broker in self.brokers.items():
            log = broker.log
            upto = min(broker.replica.high_watermark, len(committed))
            if not self.history.lost and log.read(log.start_offset, upto) != committed[log.start_offset : upto]:
                raise Finding(f"broker {node} has other records below its watermark {upto}")
        for reader in self.readers:
            for offset, entry in reader.values.items():
                if entry not in self.history.lost and entry != committed[offset]:
                    raise Finding(f"reader {reader.name} read {entry} at {offset}")
