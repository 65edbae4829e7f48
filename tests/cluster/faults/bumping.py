"""Transactions of version 2, in which every one has an epoch of its own: python -m tests.cluster.faults.bumping --help

No client library that the other workers could use speaks it. This one reads nothing: each of its transactions has a
value in each of some partitions. What has no answer it sends again, on another connection, and what it sent first may
still arrive at any time.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode
from tests.cluster.faults.clients import ClientArguments, parsed_arguments, until_told
from tests.cluster.faults.links import Links
from tests.cluster.faults.payload import payload
from tests.cluster.faults.transforming import ABORTS, LONGEST_WAIT_S, in_lives
from tests.cluster.history.events import Acked, CommitBegun, Sent, TransactionEnded, value_name
from tests.cluster.history.recording import Recorder, now_ns
from tests.transactions.raw_client import RawProducer, code_of, init

VERSION = 2
VALUES = 6
PATIENCE_S = 2.0
# A transaction that has not got everywhere by then is given up.
LONGEST_SENDING_S = 6.0
PAUSE_S = 0.05
AGAIN = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
        ErrorCode.kafka_storage_error,
    }
)


class Refused(Exception):
    """Or not answered for too long."""


class BumpingProducer:
    def __init__(self, arguments: ClientArguments, name: str, recorder: Recorder) -> None:
        self._arguments = arguments
        self._name = name
        self._recorder = recorder
        self._chance = random.Random(name)
        self._links = Links(arguments.bootstrap, arguments.output, PATIENCE_S)
        self._producer: RawProducer | None = None
        self._values = 0
        self._transactions = 0

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            try:
                if self._producer is None:
                    self._producer = self._initialised()
                self._transact(self._producer)
            except Refused:
                # Whoever takes the id over aborts what was not to be committed yet.
                self._producer = None
                time.sleep(PAUSE_S)

    def _initialised(self) -> RawProducer:
        name = self._arguments.name
        answer = self._coordinated(init(name, self._arguments.transaction_ms))
        return RawProducer(name, answer.producer_id, answer.producer_epoch, VERSION)

    def _transact(self, producer: RawProducer) -> None:
        transaction = f"{self._name}/{self._transactions}"
        self._transactions += 1
        aborts = self._chance.random() < ABORTS
        first = self._values
        self._values += VALUES
        for number in range(first, first + VALUES):
            self._send(producer, number, transaction)
        time.sleep(self._chance.uniform(0, LONGEST_WAIT_S))
        if not aborts:
            self._recorder.record(CommitBegun(at_ns=now_ns(), transaction=transaction))
        answer = self._coordinated(producer.end(commit=not aborts))
        self._recorder.record(TransactionEnded(at_ns=now_ns(), transaction=transaction, committed=not aborts))
        self._producer = producer.ended_by(answer)

    def _send(self, producer: RawProducer, number: int, transaction: str) -> None:
        topic, partition = self._arguments.output, number % self._arguments.partitions
        where: dict[str, Any] = {"topic": topic, "producer": self._name}
        self._recorder.record(
            Sent(at_ns=now_ns(), partition=partition, number=number, transaction=transaction, **where)
        )
        value = payload(value_name(self._name, number))
        # Every transaction has one value in a partition, and counts from 0.
        request = producer.produce(topic, 0, value, partition, now_ms=int(time.time() * 1000))

        def ask() -> Any:
            leader = self._links.leader(partition)
            answer = None if leader is None else self._links.ask(leader, request)
            if answer is None or code_of(answer) in AGAIN:
                self._links.forget_leader(partition)
                return None
            return answer

        answer = _insist(ask)
        if (code := code_of(answer)) is not ErrorCode.none:
            raise Refused(code.name)
        offset = answer.responses[0].partition_responses[0].base_offset
        self._recorder.record(Acked(at_ns=now_ns(), partition=partition, number=number, offset=offset, **where))

    def _coordinated(self, request: Any) -> Any:
        def ask() -> Any:
            coordinator = self._links.coordinator(self._arguments.name)
            answer = None if coordinator is None else self._links.ask(coordinator, request)
            return None if answer is None or answer.error_code in AGAIN else answer

        answer = _insist(ask)
        if answer.error_code is not ErrorCode.none:
            raise Refused(answer.error_code.name)
        return answer


def _insist(ask: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LONGEST_SENDING_S
    while (answer := ask()) is None:
        if time.monotonic() > deadline:
            raise Refused("no answer")
        time.sleep(PAUSE_S)
    return answer


if __name__ == "__main__":
    stop = until_told()
    in_lives(parsed_arguments(), stop, BumpingProducer)
