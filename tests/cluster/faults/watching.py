"""Records what brokers say of ends, leaders and commits: python -m tests.cluster.faults.watching --help"""

from __future__ import annotations

import itertools
import threading

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.bad_input import requests
from tests.bad_input.raw import ConnectionClosed, RawConnection
from tests.cluster.faults.clients import CLIENT, ClientArguments, parsed_arguments, until_told
from tests.cluster.history.events import CommittedSeen, EndSeen, Leading
from tests.cluster.history.recording import Recorder, now_ns

LOOK_EVERY_S = 0.2
PATIENCE_S = 1.0


class EndWatcher:
    """One consumer, so one reader: what it was told once must hold for it for ever."""

    def __init__(self, arguments: ClientArguments, recorder: Recorder) -> None:
        self._arguments = arguments
        self._recorder = recorder
        self._consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": arguments.bootstrap,
                "group.id": arguments.group,
                "enable.auto.commit": False,
                "client.id": arguments.name,
            }
        )

    def run(self, stopping: threading.Event) -> None:
        topic = self._arguments.topic
        rows = [TopicPartition(topic, partition) for partition in range(self._arguments.partitions)]
        while not stopping.wait(LOOK_EVERY_S):
            for row in rows:
                self._end(row)
            self._committed(rows)
        self._consumer.close()

    def _end(self, row: TopicPartition) -> None:
        asked_ns = now_ns()
        try:
            answer = self._consumer.get_watermark_offsets(row, timeout=PATIENCE_S)
        except KafkaException:
            return
        if answer is not None:
            self._recorder.record(
                EndSeen(
                    at_ns=now_ns(),
                    asked_ns=asked_ns,
                    topic=row.topic,
                    partition=row.partition,
                    reader=self._arguments.name,
                    offset=answer[1],
                )
            )

    def _committed(self, rows: list[TopicPartition]) -> None:
        asked_ns = now_ns()
        try:
            found = self._consumer.committed(rows, timeout=PATIENCE_S)
        except KafkaException:
            return
        for row in found:
            if row.error is None:
                self._recorder.record(
                    CommittedSeen(
                        at_ns=now_ns(),
                        asked_ns=asked_ns,
                        topic=row.topic,
                        partition=row.partition,
                        group=self._arguments.group,
                        reader=self._arguments.name,
                        offset=max(-1, row.offset),
                    )
                )


class LeaderWatcher:
    """What one broker's metadata says. A new connection is a new observer: the broker may have started anew."""

    def __init__(self, arguments: ClientArguments, recorder: Recorder, broker: str) -> None:
        self._arguments = arguments
        self._recorder = recorder
        self._broker = broker
        self._observers = itertools.count()

    def run(self, stopping: threading.Event) -> None:
        while not stopping.wait(LOOK_EVERY_S):
            observer = f"metadata of {self._broker}, connection {next(self._observers)}"
            try:
                with RawConnection(self._broker, timeout_s=PATIENCE_S) as connection:
                    while not stopping.wait(LOOK_EVERY_S):
                        self._look(connection, observer)
            except (OSError, ConnectionClosed):
                continue

    def _look(self, connection: RawConnection, observer: str) -> None:
        answer = connection.ask(requests.metadata(self._arguments.topic))
        for topic in answer.topics:
            for row in topic.partitions:
                # While nobody leads there is nothing that two could claim.
                if row.leader_id >= 0:
                    self._recorder.record(
                        Leading(
                            at_ns=now_ns(),
                            topic=self._arguments.topic,
                            partition=row.partition_index,
                            observer=observer,
                            leader=row.leader_id,
                            leader_epoch=row.leader_epoch,
                        )
                    )


if __name__ == "__main__":
    stop = until_told()
    given = parsed_arguments()
    with Recorder(given.histories, given.name) as its_recorder:
        watchers = [LeaderWatcher(given, its_recorder, broker) for broker in given.bootstrap.split(",")]
        threads = [threading.Thread(target=watcher.run, args=(stop,), daemon=True) for watcher in watchers]
        for thread in threads:
            thread.start()
        EndWatcher(given, its_recorder).run(stop)
        for thread in threads:
            thread.join(5)
