"""A producer without idempotence that sends each message once, and takes the answer for what it says.

    python -m tests.cluster.faults.asking --help

No client library does that: they all send again what a broker answers that no longer leads, and what the first attempt
became is then nobody's knowledge.
"""

from __future__ import annotations

import threading
import time

from kio.schema.errors import ErrorCode
from tests.bad_input import requests
from tests.bad_input.raw import ConnectionClosed, RawConnection
from tests.cluster.faults.clients import ClientArguments, parsed_arguments, until_told
from tests.cluster.faults.payload import payload
from tests.cluster.history.events import Acked, Failed, Sent, Unknown, value_name
from tests.cluster.history.recording import Recorder, now_ns

from penstock.wire.records import Record, build_batch

PATIENCE_S = 2.0
# Nothing was appended. A broker that does not lead may have led when the message came, so that answer is none of them.
REFUSALS = frozenset({ErrorCode.not_enough_replicas, ErrorCode.unknown_topic_or_partition})


class AskingProducer:
    def __init__(self, arguments: ClientArguments, recorder: Recorder) -> None:
        self._arguments = arguments
        self._recorder = recorder
        self._bootstrap = arguments.bootstrap.split(",")
        self._links: dict[str, RawConnection] = {}
        self._leaders: dict[int, str] = {}

    def run(self, stopping: threading.Event) -> None:
        number = 0
        while not stopping.wait(1 / self._arguments.rate):
            partition = number % self._arguments.partitions
            leader = self._leaders.get(partition)
            if leader is None:
                self._learn(self._bootstrap[number % len(self._bootstrap)])
                leader = self._leaders.get(partition)
            if leader is not None:
                self._send(number, partition, leader)
            number += 1

    def _learn(self, broker: str) -> None:
        try:
            answer = self._link(broker).ask(requests.metadata(self._arguments.topic))
        except (OSError, ConnectionClosed):
            self._drop(broker)
            return
        addresses = {row.node_id: f"{row.host}:{row.port}" for row in answer.brokers}
        rows = [row for topic in answer.topics for row in topic.partitions]
        self._leaders = {row.partition_index: addresses[row.leader_id] for row in rows if row.leader_id in addresses}

    def _send(self, number: int, partition: int, leader: str) -> None:
        topic, name = self._arguments.topic, self._arguments.name
        where = {"topic": topic, "producer": name}
        value = payload(value_name(name, number))
        batch = bytes(build_batch([Record(0, int(time.time() * 1000), None, value)]))
        try:
            link = self._link(leader)
        except OSError:
            # It was never sent, and so it is no part of the history.
            self._drop(leader)
            return
        self._recorder.record(Sent(at_ns=now_ns(), partition=partition, number=number, idempotent=False, **where))
        try:
            answer = link.ask(requests.produce(topic, batch, partition=partition)).responses[0].partition_responses[0]
        except (OSError, ConnectionClosed) as error:
            self._drop(leader)
            self._recorder.record(
                Unknown(at_ns=now_ns(), partition=partition, number=number, error=str(error), **where)
            )
            return
        code = answer.error_code
        if code is ErrorCode.none:
            self._recorder.record(
                Acked(at_ns=now_ns(), partition=partition, number=number, offset=answer.base_offset, **where)
            )
            return
        self._leaders.pop(partition, None)
        kind = Failed if code in REFUSALS else Unknown
        self._recorder.record(kind(at_ns=now_ns(), partition=partition, number=number, error=code.name, **where))

    def _link(self, broker: str) -> RawConnection:
        if broker not in self._links:
            self._links[broker] = RawConnection(broker, timeout_s=PATIENCE_S)
        return self._links[broker]

    def _drop(self, broker: str) -> None:
        self._leaders = {partition: leader for partition, leader in self._leaders.items() if leader != broker}
        if broker in self._links:
            self._links.pop(broker).close()


if __name__ == "__main__":
    stop = until_told()
    given = parsed_arguments()
    with Recorder(given.histories, given.name) as its_recorder:
        AskingProducer(given, its_recorder).run(stop)
