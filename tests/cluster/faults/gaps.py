"""How long acknowledgements stop after a fault, at a steady rate of messages.

    python -m tests.cluster.faults.gaps --directory DIR --kills 50 --holds 5

One partition with three replicas, min.insync.replicas 2, so every fault meets every message. The gap of a fault is the
longest time without an acknowledgement from just before it until everything is in sync again; for ZooKeeper's also the
longest time in which a consumer got nothing. The clients' settings are those of `clients.py` and `producing.py`.
"""

from __future__ import annotations

import argparse
import bisect
import json
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from tests.cluster.faults.clients import CLIENT, GROUP, ClientArguments
from tests.cluster.faults.cluster import TestCluster, wait_for
from tests.cluster.faults.injector import Injector
from tests.cluster.faults.network import open_network
from tests.cluster.faults.processes import BrokerProcess, Process, python_module
from tests.cluster.faults.producing import PRODUCER
from tests.cluster.faults.schedule import Fault, Kind, Role
from tests.cluster.faults.zookeepers import ZooKeepers
from tests.cluster.history.events import Acked, Read
from tests.cluster.history.recording import now_ns, read_events

TOPIC, RATE = "steady", 200.0
BROKERS, ZOOKEEPERS = 3, 3
SESSION_S = 6.0
# A failover that takes longer than this and the restart shows all the same: nobody acknowledges before it is done.
DOWN_S = 1.5
STORE_DOWN_S = 4.0
MANY_PARTITIONS = 1000
MANY_TIMES = 3
ROLES = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER)
STORE_LOSS = "kill ZooKeeper leader"
_NS = 1_000_000_000

Window = tuple[int, int]


def longest_gap_s(acks_ns: list[int], window: Window) -> float:
    """Between neighbouring acknowledgements, of which the first may lie before the window and the last behind it."""
    first = max(0, bisect.bisect_right(acks_ns, window[0]) - 1)
    last = min(len(acks_ns), bisect.bisect_left(acks_ns, window[1]) + 1)
    inside = acks_ns[first:last]
    if len(inside) < 2:
        return (window[1] - window[0]) / _NS
    return max(later - earlier for earlier, later in pairwise(inside)) / _NS


class Gaps:
    def __init__(self, directory: Path, *, kills: int, holds: int) -> None:
        self._directory = directory
        self._kills = kills
        self._holds = holds
        settings = {"zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)), "offsets.topic.num.partitions": "3"}
        self._cluster = TestCluster(
            open_network(), directory, brokers=BROKERS, zookeepers=ZOOKEEPERS, settings=settings
        )
        self._windows: dict[str, list[Window]] = {}
        self._injector = Injector(self._cluster, TOPIC, GROUP, self._say)

    def run(self) -> dict[str, object]:
        cluster = self._cluster
        try:
            cluster.start()
            cluster.create_topic(TOPIC, 1, 3, {"min.insync.replicas": "2"})
            clients = [self._client("producing"), self._client("consuming")]
            time.sleep(3)
            self._suffer()
            for client in clients:
                assert client.is_running, client.output_text()[-2000:]
                client.terminate()
                client.wait(150)
            failover_s = [self._controller_failover() for _ in range(MANY_TIMES)]
        finally:
            cluster.stop()
        return {
            **self._summary(),
            f"controller_failover_at_{MANY_PARTITIONS}_partitions_s": failover_s,
            "network_faults": cluster.network.can_cut,
            "client": CLIENT,
            "producer": PRODUCER,
        }

    def _suffer(self) -> None:
        for role in ROLES:
            for _ in range(self._kills):
                self._fault(f"kill {role.value}", Kind.KILL, role, DOWN_S)
        for role in ROLES:
            for _ in range(self._holds):
                self._fault(f"pause {role.value}", Kind.PAUSE, role, SESSION_S + 3)
                if self._cluster.network.can_cut:
                    self._fault(f"partition {role.value}", Kind.ISOLATE, role, SESSION_S + 3)
        for _ in range(self._holds):
            self._fault(STORE_LOSS, Kind.STORE_KILL, Role.STORE_LEADER, STORE_DOWN_S)
            self._store().wait_until_ready()
        for _ in range(self._holds):
            for broker in self._cluster.brokers.values():
                self._measured("rolling restart", lambda broker=broker: self._restart(broker))  # type: ignore[misc]

    def _store(self) -> ZooKeepers:
        assert self._cluster.zookeepers is not None
        return self._cluster.zookeepers

    def _say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def _client(self, module: str) -> Process:
        arguments = ClientArguments(
            name=module,
            bootstrap=self._cluster.bootstrap,
            topic=TOPIC,
            partitions=1,
            group=GROUP,
            rate=RATE,
            histories=self._directory / "histories",
            run_s=7200,
        )
        command = python_module(f"tests.cluster.faults.{module}", *arguments.to_command())
        process = Process(self._cluster.clients, command, self._directory / f"{module}.log")
        process.launch()
        return process

    def _fault(self, name: str, kind: Kind, role: Role, hold_s: float) -> None:
        number = len(self._windows.get(name, [])) + 1
        fault = Fault(number=number, kind=kind, role=role, hold_s=hold_s, gap_s=0.5, after_healing=True, pick=number)
        self._measured(name, lambda: self._injector.inject(fault))

    def _measured(self, name: str, act: Callable[[], None]) -> None:
        began = now_ns()
        act()
        self._cluster.wait_until_whole(TOPIC)
        self._windows.setdefault(name, []).append((began, now_ns()))
        # Steady again before the next one.
        time.sleep(0.5)

    def _restart(self, broker: BrokerProcess) -> None:
        broker.terminate()
        assert broker.wait() == 0, broker.output_text()[-2000:]
        broker.launch()

    def _controller_failover(self) -> float:
        """From the kill of the controller until the others name a live leader for every partition."""
        cluster, topic = self._cluster, "many"
        if not any(found.name == topic for found in cluster.metadata().topics):
            cluster.create_topic(topic, MANY_PARTITIONS, 3)
        cluster.wait_until_whole(topic)
        controller = cluster.controller()
        assert controller is not None
        others = [broker for broker in cluster.brokers.values() if broker is not controller]
        began = time.monotonic()
        controller.kill()

        def all_led() -> bool:
            try:
                views = [cluster.partitions(topic, broker) for broker in others]
            except ConnectionError:
                return False
            live = {broker.node_id for broker in others}
            return all(len(view) == MANY_PARTITIONS and all(row.leader in live for row in view) for view in views)

        wait_for(all_led, "all partitions are led", 60)
        took = time.monotonic() - began
        controller.launch()
        cluster.wait_until_whole(topic)
        return round(took, 2)

    def _summary(self) -> dict[str, object]:
        events = read_events(self._directory / "histories")
        acks_ns = sorted(event.at_ns for event in events if isinstance(event, Acked))
        reads_ns = sorted(event.at_ns for event in events if isinstance(event, Read))
        summary: dict[str, object] = {name: _gaps(acks_ns, windows) for name, windows in self._windows.items()}
        if (windows := self._windows.get(STORE_LOSS)) is not None:
            summary[f"{STORE_LOSS}, consumer"] = _gaps(reads_ns, windows)
        return summary | {"acked": len(acks_ns), "read": len(reads_ns)}


def _gaps(signs_ns: list[int], windows: list[Window]) -> dict[str, object]:
    found = [longest_gap_s(signs_ns, window) for window in windows]
    return {
        "times": len(found),
        "median_s": round(statistics.median(found), 3),
        "worst_s": round(max(found), 3),
        "all_s": [round(each, 3) for each in found],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=50, help="of a leader, of a follower, of the controller")
    parser.add_argument("--holds", type=int, default=5, help="pauses, partitions, rolling restarts")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    print(json.dumps(Gaps(given.directory.absolute(), kills=given.kills, holds=given.holds).run()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
