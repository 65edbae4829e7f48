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
from tests.bad_input.raw import ConnectionClosed
from tests.cluster.faults.clients import ClientArguments, parsed_arguments, until_told
from tests.cluster.faults.links import Links
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
        self._links = Links(arguments.bootstrap, arguments.topic, PATIENCE_S)

    def run(self, stopping: threading.Event) -> None:
        number = 0
        while not stopping.wait(1 / self._arguments.rate):
            partition = number % self._arguments.partitions
            leader = self._links.leader(partition)
            if leader is not None:
                self._send(number, partition, leader)
            number += 1

    def _send(self, number: int, partition: int, leader: str) -> None:
        topic, name = self._arguments.topic, self._arguments.name
        where = {"topic": topic, "producer": name}
        value = payload(value_name(name, number))
        batch = bytes(build_batch([Record(0, int(time.time() * 1000), None, value)]))
        try:
            link = self._links.link(leader)
        except OSError:
            # It was never sent, and so it is no part of the history.
            self._links.drop(leader)
            return
        self._recorder.record(Sent(at_ns=now_ns(), partition=partition, number=number, idempotent=False, **where))
        try:
            answer = link.ask(requests.produce(topic, batch, partition=partition)).responses[0].partition_responses[0]
        except (OSError, ConnectionClosed) as error:
            self._links.drop(leader)
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
        self._links.forget_leader(partition)
        kind = Failed if code in REFUSALS else Unknown
        self._recorder.record(kind(at_ns=now_ns(), partition=partition, number=number, error=code.name, **where))


if __name__ == "__main__":
    stop = until_told()
    given = parsed_arguments()
    with Recorder(given.histories, given.name) as its_recorder:
        AskingProducer(given, its_recorder).run(stop)
