"""A member of a group that records what it owns, reads and commits: python -m tests.cluster.faults.consuming --help"""

from __future__ import annotations

import struct
import threading
import time

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from tests.cluster.faults.clients import CLIENT, ClientArguments, parsed_arguments, until_told
from tests.cluster.faults.payload import name_of
from tests.cluster.history.events import Committed, Owned, Read
from tests.cluster.history.recording import Recorder, now_ns

COMMIT_EVERY_S = 0.25
# With the new protocol (KIP-848) the broker says.
CLASSIC = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}
_GENERATION = struct.Struct("=i")
# librdkafka's own mark before the generation, which is in the machine's byte order.
_GENERATION_MARK = b"CGMDv2:"


class RecordingMember:
    def __init__(self, arguments: ClientArguments, recorder: Recorder) -> None:
        self._arguments = arguments
        self._recorder = recorder
        # What was read and recorded, and is not committed yet.
        self._positions: dict[int, int] = {}
        self._consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": arguments.bootstrap,
                "group.id": arguments.group,
                "client.id": arguments.name,
                "client.rack": arguments.rack,
                "group.protocol": arguments.protocol,
                **(CLASSIC if arguments.protocol == "classic" else {}),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
            }
        )
        self._consumer.subscribe(
            [arguments.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def run(self, stopping: threading.Event) -> None:
        committed_at = time.monotonic()
        while not stopping.is_set():
            for message in self._consumer.consume(500, 0.05):
                self._read(message)
            if time.monotonic() - committed_at >= COMMIT_EVERY_S:
                self._commit()
                committed_at = time.monotonic()
        self._commit()
        self._consumer.close()

    def _read(self, message: Message) -> None:
        if message.error() is not None:
            return
        offset, partition = message.offset(), message.partition()
        assert offset is not None and partition is not None
        self._recorder.record(
            Read(
                at_ns=now_ns(),
                topic=self._arguments.topic,
                partition=partition,
                reader=self._arguments.name,
                group=self._arguments.group,
                offset=offset,
                value=name_of(message.value()),
            )
        )
        self._positions[partition] = offset + 1

    def _commit(self) -> None:
        if not self._positions:
            return
        wanted = [TopicPartition(self._arguments.topic, *position) for position in self._positions.items()]
        try:
            answers = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            # It may be there or not. The next one goes at least as far.
            return
        for row in answers or []:
            if row.error is None:
                self._recorder.record(
                    Committed(
                        at_ns=now_ns(),
                        topic=row.topic,
                        partition=row.partition,
                        group=self._arguments.group,
                        member=self._arguments.name,
                        offset=row.offset,
                    )
                )
                self._positions.pop(row.partition, None)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        generation = generation_of(consumer)
        for row in partitions:
            self._positions.pop(row.partition, None)
            self._recorder.record(
                Owned(
                    at_ns=now_ns(),
                    topic=row.topic,
                    partition=row.partition,
                    group=self._arguments.group,
                    member=self._arguments.name,
                    generation=generation,
                )
            )

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._lost(consumer, partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for row in partitions:
            self._positions.pop(row.partition, None)


def generation_of(consumer: Consumer) -> int:
    """librdkafka tells it to nobody but a producer of transactions, in bytes of its own."""
    serialized: bytes = consumer.consumer_group_metadata()
    assert serialized.startswith(_GENERATION_MARK), serialized
    generation: int = _GENERATION.unpack_from(serialized, len(_GENERATION_MARK))[0]
    return generation


if __name__ == "__main__":
    stop = until_told()
    given = parsed_arguments()
    with Recorder(given.histories, given.name) as its_recorder:
        RecordingMember(given, its_recorder).run(stop)
