"""A cluster under faults, with recording clients, and a check of what they recorded.

    python -m tests.cluster.faults.scenario --directory DIR --seed 7 --faults 8 --brokers 3 --zookeepers 1

Prints a summary as JSON on its last line. Everything stays in DIR: data, logs, histories, `findings.txt`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.cluster.faults.broker_logs import events_in
from tests.cluster.faults.clients import GROUP, TOPIC, ClientArguments
from tests.cluster.faults.cluster import HEAL_S, TestCluster, rack_of, wait_for
from tests.cluster.faults.injector import Injector
from tests.cluster.faults.network import open_network
from tests.cluster.faults.processes import Process, python_module
from tests.cluster.faults.schedule import Fault, Pace, Possible, schedule
from tests.cluster.history.checker import check
from tests.cluster.history.events import Acked, AnyEvent, Drained, Failed, Read, Unknown
from tests.cluster.history.recording import Recorder, now_ns, read_events

PARTITIONS = 6
PRODUCERS, MEMBERS = 2, 2
FLUSH_S = 150
UNEXPECTED = ("unexpected", "Traceback", "node.bug")


@dataclass(frozen=True)
class Wish:
    seed: int
    faults: int
    brokers: int
    zookeepers: int
    rate: float
    session_ms: int
    longest_hold_s: float
    gap_s: float
    heal_between: float
    protocol: str
    spare: bool


@dataclass
class Outcome:
    seed: int
    brokers: int
    faults: int = 0
    faults_by_kind: dict[str, int] = field(default_factory=dict)
    network_faults: bool = False
    acked: int = 0
    refused: int = 0
    unknown: int = 0
    reads: int = 0
    events: int = 0
    slowest_heal_seconds: float = 0
    seconds: float = 0
    findings: list[str] = field(default_factory=list)


class Scenario:
    # Topics with the number of their partitions: whose logs are compared in the end, and which are whole before that.
    _recorded: tuple[tuple[str, int], ...] = ((TOPIC, PARTITIONS),)
    _topics: tuple[str, ...] = (TOPIC,)
    # Of brokers, besides.
    _settings: Mapping[str, str] = MappingProxyType({})

    def __init__(self, wish: Wish, directory: Path) -> None:
        self._wish = wish
        self._directory = directory
        self._histories = directory / "histories"
        self._diary = (directory / "diary.txt").open("a", buffering=1)
        self._began = time.monotonic()
        settings = {
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            # Small segments, so that faults also meet rolls.
            "segment.bytes": str(256 * 1024),
            **self._settings,
        }
        if wish.zookeepers:
            settings["zookeeper.session.timeout.ms"] = str(wish.session_ms)
        self._cluster = TestCluster(
            open_network(),
            directory,
            brokers=wish.brokers,
            zookeepers=wish.zookeepers,
            settings=settings,
            spare=wish.spare,
        )
        self._producers: list[Process] = []
        self._others: list[Process] = []
        self._outcome = self._new_outcome()
        self._injector = Injector(self._cluster, TOPIC, GROUP, self._say)

    def _new_outcome(self) -> Outcome:
        wish = self._wish
        return Outcome(seed=wish.seed, brokers=wish.brokers, network_faults=self._cluster.network.can_cut)

    def run(self) -> Outcome:
        try:
            self._prepare()
            self._suffer()
            self._recover()
        except AssertionError as error:
            self._outcome.findings.append(f"the run did not get to its end: {error}")
        finally:
            self._end_clients()
            self._cluster.stop()
        self._judge()
        return self._outcome

    def _say(self, text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {time.monotonic() - self._began:7.1f} {text}"
        print(line, file=self._diary)
        print(line, file=sys.stderr, flush=True)

    def _prepare(self) -> None:
        self._cluster.start()
        replicas = min(3, self._wish.brokers)
        config = {"min.insync.replicas": "2"} if replicas == 3 else {}
        self._cluster.create_topic(TOPIC, PARTITIONS, replicas, config)
        self._say(f"{self._wish.brokers} brokers are ready: {self._cluster.bootstrap}")
        for number in range(PRODUCERS):
            self._producers.append(self._client("producing", f"producer-{number}"))
        self._producers.append(self._client("asking", "asker"))
        for number in range(MEMBERS):
            self._others.append(self._client("consuming", f"member-{number}", rack=rack_of(number + 1)))
        self._others.append(self._client("watching", "watcher"))
        wait_for(lambda: self._acked() > 0, "the first message is acknowledged", HEAL_S)

    def _client(self, module: str, name: str, **more: Any) -> Process:
        """What it is told besides, or instead, is in `more`: fields of ClientArguments."""
        arguments = ClientArguments(
            name=name,
            bootstrap=self._cluster.bootstrap,
            topic=TOPIC,
            partitions=PARTITIONS,
            group=GROUP,
            rate=self._wish.rate,
            histories=self._histories,
            run_s=7200,
            protocol=self._wish.protocol,
        )
        arguments = replace(arguments, **more)
        command = python_module(f"tests.cluster.faults.{module}", *arguments.to_command())
        process = Process(self._cluster.clients, command, self._directory / f"{name}.log")
        process.launch()
        return process

    def _acked(self) -> int:
        path = self._histories / "producer-0.history.jsonl"
        return path.read_bytes().count(b'"acked"') if path.exists() else 0

    def _suffer(self) -> None:
        wish = self._wish
        pace = Pace(wish.session_ms / 1000, wish.longest_hold_s, wish.gap_s, wish.heal_between)
        kinds: Counter[str] = Counter()
        for fault in schedule(wish.seed, wish.faults, self._possible(), pace):
            if self._is_over():
                break
            if fault.after_healing:
                self._whole()
            self._before(fault)
            self._injector.inject(fault)
            kinds[fault.kind.value] += 1
            self._outcome.faults += 1
            self._outcome.faults_by_kind = dict(kinds)
            for broker in self._cluster.brokers.values():
                if not broker.is_running:
                    raise AssertionError(
                        f"broker {broker.node_id} ended by itself after {fault}: {broker.output_text()[-2000:]}"
                    )
            self._after(fault)
            self._clients_live()

    def _possible(self) -> Possible:
        wish = self._wish
        return Possible(self._cluster.network.can_cut, wish.brokers, wish.zookeepers, wish.spare)

    def _is_over(self) -> bool:
        """Before all faults have come."""
        return False

    def _before(self, fault: Fault) -> None:
        """The last one is undone, and has healed if this one waits for that."""

    def _after(self, fault: Fault) -> None:
        """It is undone; what it left behind is still there."""

    def _clients_live(self) -> None:
        """One that does not is a finding; what all of them saw says more, so the run goes on."""
        for clients in (self._producers, self._others):
            for process in [each for each in clients if not each.is_running]:
                self._outcome.findings.append(f"a client ended by itself: {process.output_text()[-2000:]}")
                clients.remove(process)

    def _whole(self) -> None:
        took = sum(self._cluster.wait_until_whole(topic) for topic in self._topics)
        self._outcome.slowest_heal_seconds = max(self._outcome.slowest_heal_seconds, round(took, 1))

    def _recover(self) -> None:
        self._cluster.heal()
        self._say("healed; waiting until everything is in sync")
        if self._cluster.zookeepers is not None:
            self._cluster.zookeepers.wait_until_ready()
        self._whole()
        self._say("in sync; producers finish")
        for producer in self._producers:
            producer.terminate()
        for producer in self._producers:
            assert producer.wait(FLUSH_S) == 0, producer.output_text()[-2000:]
        self._drain()
        self._whole()
        self._end_clients()
        with Recorder(self._histories, "replicas") as recorder:
            for topic, partitions in self._recorded:
                self._cluster.dump(topic, partitions, recorder)
        with Recorder(self._histories, "brokers") as recorder:
            for broker in self._cluster.every_broker:
                text = broker.output_text()
                for topic, _ in self._recorded:
                    recorder.record(*events_in(text, broker.node_id, topic))

    def _drain(self) -> None:
        """All who read get to the end."""
        self._drained(GROUP, TOPIC, PARTITIONS)

    def _drained(self, group: str, topic: str, partitions: int, longest_s: float = HEAL_S) -> None:
        ends = self._cluster.ends(topic, partitions)
        self._say(f"ends of {topic} are {ends}; {group} reads to them")
        wait_for(
            lambda: self._cluster.committed(group, topic, partitions) == ends,
            f"{group} has committed {ends}",
            longest_s,
            lambda: self._cluster.committed(group, topic, partitions),
        )
        with Recorder(self._histories, "scenario") as recorder:
            recorder.record(Drained(at_ns=now_ns(), group=group, topic=topic))

    def _end_clients(self) -> None:
        for process in (*self._producers, *self._others):
            process.stop()

    def _judge(self) -> None:
        outcome = self._outcome
        events = read_events(self._histories) if self._histories.exists() else []
        found = check(events)
        (self._directory / "findings.txt").write_text("\n".join(map(str, found)))
        outcome.findings += [str(finding)[:1000] for finding in found]
        for broker in self._cluster.every_broker:
            text = broker.output_text()
            outcome.findings += [
                f"broker {broker.node_id} has {word!r} in its log" for word in UNEXPECTED if word in text
            ]
        self._count(events)
        outcome.seconds = round(time.monotonic() - self._began, 1)
        self._say(f"{len(outcome.findings)} findings in {len(events)} events")

    def _count(self, events: list[AnyEvent]) -> None:
        outcome = self._outcome
        counts = Counter(type(event) for event in events)
        outcome.events = len(events)
        outcome.acked, outcome.reads = counts[Acked], counts[Read]
        outcome.refused, outcome.unknown = counts[Failed], counts[Unknown]
        if not outcome.acked:
            outcome.findings.append("nothing was acknowledged")


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=8)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--zookeepers", type=int, default=1, help="0: the embedded store of one broker")
    parser.add_argument("--rate", type=float, default=60, help="messages a second of each producer")
    parser.add_argument("--session-ms", type=int, default=6000)
    parser.add_argument("--longest-hold-s", type=float, default=9.0)
    parser.add_argument("--gap-s", type=float, default=1.5)
    parser.add_argument("--heal-between", type=float, default=0.6, help="the part of faults that wait for healing")
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic", help="of the group")
    parser.add_argument("--spare", action="store_true", help="one more broker, which joins and leaves")
    return parser


def main() -> int:
    given = vars(arguments(__doc__).parse_args())
    directory: Path = given.pop("directory").absolute()
    directory.mkdir(parents=True, exist_ok=True)
    outcome = Scenario(Wish(**given), directory).run()
    print(json.dumps(asdict(outcome)))
    return bool(outcome.findings)


if __name__ == "__main__":
    sys.exit(main())
