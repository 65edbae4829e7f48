"""A producer that records what it sent and what became of it: python -m tests.cluster.faults.producing --help

Idempotent and endlessly patient.
"""

from __future__ import annotations

import threading
import time
from functools import partial

from confluent_kafka import KafkaError, Message, Producer
from tests.cluster.faults.clients import CLIENT, ClientArguments, parsed_arguments, until_told
from tests.cluster.faults.payload import payload
from tests.cluster.history.events import Acked, Sent, Unknown, value_name
from tests.cluster.history.recording import Recorder, now_ns

# Enough for some seconds without any leader; beyond that the producer waits.
IN_FLIGHT = 2_000
FLUSH_S = 120
PRODUCER: dict[str, str | int | float | bool] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 2,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "request.timeout.ms": 3_000,
    # A broker that says nothing is given up before its session ends, and the next leader is found soon after: while
    # nobody leads, librdkafka asks once a second and at this interval.
    "socket.timeout.ms": 3_000,
    "topic.metadata.refresh.interval.ms": 250,
    "message.timeout.ms": 3_600_000,
}


class RecordingProducer:
    def __init__(self, arguments: ClientArguments, recorder: Recorder) -> None:
        self._arguments = arguments
        self._recorder = recorder
        self._number = 0
        self._fatal: KafkaError | None = None
        # What nobody has answered yet.
        self._open: dict[int, int] = {}
        self._producer = Producer(
            {
                **CLIENT,
                **PRODUCER,
                "bootstrap.servers": arguments.bootstrap,
                "error_cb": self._failed,
            }
        )

    def run(self, stopping: threading.Event) -> None:
        """At a steady rate: what could not be sent in time because the queue was full is not made up for."""
        interval_s = 1 / self._arguments.rate
        due = time.monotonic()
        deadline = due + self._arguments.run_s
        while not stopping.is_set() and time.monotonic() < deadline:
            if self._fatal is not None:
                raise SystemExit(f"this producer cannot go on: {self._fatal}")
            if len(self._producer) < IN_FLIGHT:
                self._send()
            due = max(due + interval_s, time.monotonic() - 10 * interval_s)
            self._producer.poll(0)
            while (left_s := due - time.monotonic()) > 0:
                self._producer.poll(left_s)
        self._producer.flush(FLUSH_S)
        for number, partition in self._open.items():
            self._recorder.record(self._unknown(number, partition, "never answered"))

    def _failed(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error

    def _send(self) -> None:
        number = self._number
        self._number += 1
        partition = number % self._arguments.partitions
        self._recorder.record(
            Sent(
                at_ns=now_ns(),
                topic=self._arguments.topic,
                partition=partition,
                producer=self._arguments.name,
                number=number,
            )
        )
        self._open[number] = partition
        self._producer.produce(
            self._arguments.topic,
            payload(value_name(self._arguments.name, number)),
            partition=partition,
            on_delivery=partial(self._answered, number, partition),
        )

    def _answered(self, number: int, partition: int, error: KafkaError | None, message: Message) -> None:
        del self._open[number]
        topic, producer = self._arguments.topic, self._arguments.name
        if error is None:
            offset = message.offset()
            known = offset if offset is not None and offset >= 0 else None
            self._recorder.record(
                Acked(at_ns=now_ns(), topic=topic, partition=partition, producer=producer, number=number, offset=known)
            )
        else:
            self._recorder.record(self._unknown(number, partition, error.str()))

    def _unknown(self, number: int, partition: int, error: str) -> Unknown:
        return Unknown(
            at_ns=now_ns(),
            topic=self._arguments.topic,
            partition=partition,
            producer=self._arguments.name,
            number=number,
            error=error,
        )


if __name__ == "__main__":
    stop = until_told()
    given = parsed_arguments()
    with Recorder(given.histories, given.name) as its_recorder:
        RecordingProducer(given, its_recorder).run(stop)
