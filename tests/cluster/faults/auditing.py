"""Reads all of a topic at read_committed and records it: python -m tests.cluster.faults.auditing --help

It commits how far it got, markers and aborted records included, and so says when it has read everything.
"""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from tests.cluster.faults.clients import CLIENT, ClientArguments, parsed_arguments, until_told
from tests.cluster.faults.payload import name_of
from tests.cluster.history.events import EndSeen, Read
from tests.cluster.history.recording import Recorder, now_ns

POLL_S = 0.2


class Auditor:
    def __init__(self, arguments: ClientArguments, recorder: Recorder) -> None:
        self._arguments = arguments
        self._recorder = recorder
        self._ends: dict[int, int] = {}
        self._consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": arguments.bootstrap,
                "group.id": arguments.group,
                "client.id": arguments.name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
            }
        )
        self._consumer.assign(
            [TopicPartition(arguments.topic, partition, 0) for partition in range(arguments.partitions)]
        )

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            messages = self._consumer.consume(500, POLL_S)
            for message in messages:
                self._got(message)
            if not messages and self._ends:
                self._commit()
        self._consumer.close()

    def _got(self, message: Message) -> None:
        error, offset, partition = message.error(), message.offset(), message.partition()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return
        assert offset is not None and partition is not None
        where: dict[str, Any] = {"topic": self._arguments.topic, "partition": partition, "offset": offset}
        reader = self._arguments.name
        if error is None:
            value, group = name_of(message.value()), self._arguments.group
            self._recorder.record(
                Read(at_ns=now_ns(), reader=reader, group=group, value=value, committed_only=True, **where)
            )
        else:
            self._ends[partition] = offset
            self._recorder.record(EndSeen(at_ns=now_ns(), reader=reader, **where))

    def _commit(self) -> None:
        rows = [TopicPartition(self._arguments.topic, *end) for end in self._ends.items()]
        try:
            self._consumer.commit(offsets=rows, asynchronous=False)
        except KafkaException:
            return
        self._ends = {}


if __name__ == "__main__":
    stop = until_told()
    given = parsed_arguments()
    with Recorder(given.histories, given.name) as its_recorder:
        Auditor(given, its_recorder).run(stop)
