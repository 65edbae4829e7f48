"""Does to a cluster what a schedule says."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tests.bad_input.raw import ConnectionClosed
from tests.cluster.faults.cluster import TestCluster, wait_for
from tests.cluster.faults.processes import BrokerProcess, Process
from tests.cluster.faults.schedule import Fault, Kind, Role
from tests.cluster.faults.zookeepers import ZooKeepers

FIND_S = 30


class Injector:
    def __init__(
        self,
        cluster: TestCluster,
        topic: str,
        group: str,
        say: Callable[[str], None],
        workers: Mapping[str, Process] | None = None,
    ) -> None:
        """Workers by their transactional ids."""
        self._cluster = cluster
        self._topic = topic
        self._group = group
        self._say = say
        self._workers = {} if workers is None else workers

    def inject(self, fault: Fault) -> None:
        """Returns when it is undone; what it left behind is another matter."""
        time.sleep(fault.gap_s)
        if fault.kind in (Kind.STORE_KILL, Kind.STORE_PAUSE):
            self._store(fault)
        elif fault.kind is Kind.KILL_ALL:
            self._kill_all(fault)
        elif fault.kind in (Kind.JOIN, Kind.DRAIN):
            self._spare(fault)
        elif fault.role is Role.WORKER:
            self._worker(fault)
        else:
            self._broker(fault)

    def _broker(self, fault: Fault) -> None:
        broker = self._find(fault)
        self._say(f"{fault}: broker {broker.node_id}")
        match fault.kind:
            case Kind.KILL:
                broker.kill()
                time.sleep(fault.hold_s)
                broker.launch()
            case Kind.WIPE:
                broker.kill()
                broker.wipe()
                time.sleep(fault.hold_s)
                broker.launch()
            case Kind.PAUSE:
                broker.pause()
                time.sleep(fault.hold_s)
                broker.resume()
            case Kind.RESET:
                self._cluster.network.reset(broker.place)
            case _:
                self._cut(fault, broker)
                time.sleep(fault.hold_s)
                self._cluster.network.heal()

    def _cut(self, fault: Fault, broker: BrokerProcess) -> None:
        cluster, network = self._cluster, self._cluster.network
        others = [each.place for each in cluster.brokers.values() if each is not broker]
        everybody = [*others, cluster.clients]
        if cluster.zookeepers is not None:
            everybody.append(cluster.zookeepers.place)
        match fault.kind:
            case Kind.ISOLATE:
                outgoing, incoming = everybody, everybody
            case Kind.SPLIT:
                outgoing = incoming = [others[fault.pick % len(others)]]
            case Kind.NO_STORE:
                assert cluster.zookeepers is not None
                outgoing = incoming = [cluster.zookeepers.place]
            case Kind.ONE_WAY_OUT:
                outgoing, incoming = everybody, []
            case _:
                outgoing, incoming = [], everybody
        for place in outgoing:
            network.cut(broker.place, place)
        for place in incoming:
            network.cut(place, broker.place)

    def _kill_all(self, fault: Fault) -> None:
        self._say(str(fault))
        for broker in self._cluster.brokers.values():
            broker.kill()
        time.sleep(fault.hold_s)
        for broker in self._cluster.brokers.values():
            broker.launch()

    def _spare(self, fault: Fault) -> None:
        """Whichever comes, it can: one that is there leaves before it joins, one that is not joins before it leaves."""
        self._say(str(fault))
        cluster = self._cluster
        if fault.kind is Kind.JOIN:
            if cluster.has_spare:
                cluster.spare_leaves()
            cluster.spare_joins()
        else:
            if not cluster.has_spare:
                cluster.spare_joins()
            cluster.spare_leaves()
        time.sleep(fault.hold_s)

    def _worker(self, fault: Fault) -> None:
        """One that was killed stays dead: what it left must be done with before another takes its id."""
        names = sorted(self._workers)
        name = names[fault.pick % len(names)]
        self._say(f"{fault}: {name}")
        worker = self._workers[name]
        if fault.kind is Kind.KILL:
            worker.kill()
        else:
            worker.pause()
            time.sleep(fault.hold_s)
            worker.resume()

    def _store(self, fault: Fault) -> None:
        store = self._cluster.zookeepers
        assert isinstance(store, ZooKeepers)
        wait_for(lambda: store.leader() is not None, "ZooKeeper has a leader", FIND_S)
        server = (store.follower() if fault.role is Role.STORE_FOLLOWER else None) or store.leader()
        assert server is not None
        self._say(f"{fault}: ZooKeeper at {server.address}")
        if fault.kind is Kind.STORE_KILL:
            server.kill()
            time.sleep(fault.hold_s)
            store.restart(server)
        else:
            server.pause()
            time.sleep(fault.hold_s)
            server.resume()

    def _find(self, fault: Fault) -> BrokerProcess:
        """Whoever has the role now; whoever runs, if nobody has it within some seconds."""
        found: list[BrokerProcess] = []

        def search() -> bool:
            try:
                broker = self._with_role(fault)
            except (ConnectionError, ConnectionClosed):
                return False
            found.extend([broker] if broker is not None and broker.is_running else [])
            return bool(found)

        try:
            wait_for(search, f"somebody is {fault.role.value}", 5)
        except AssertionError:
            brokers = list(self._cluster.brokers.values())
            self._say(f"nobody is {fault.role.value}")
            return brokers[fault.pick % len(brokers)]
        return found[0]

    def _with_role(self, fault: Fault) -> BrokerProcess | None:
        cluster = self._cluster
        if fault.role is Role.CONTROLLER:
            return cluster.controller()
        if fault.role is Role.COORDINATOR:
            return cluster.coordinator(self._group)
        if fault.role is Role.TRANSACTIONS:
            names = sorted(self._workers)
            return cluster.coordinator(names[fault.pick % len(names)], of_transactions=True)
        views = cluster.partitions(self._topic)
        view = views[fault.pick % len(views)]
        if fault.role is Role.LEADER:
            return cluster.brokers.get(view.leader)
        followers = [node_id for node_id in view.replicas if node_id != view.leader]
        # A cluster of one has no followers.
        return cluster.brokers.get(followers[fault.pick % len(followers)] if followers else view.leader)
