"""Clients that go on whatever happens to the node, and know what they were promised. Each runs in a thread."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.durability.clients import QUIET

PATIENT: dict[str, str | int | float] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    # Starting from the bootstrap servers again takes a client a second or two, and there is only one broker.
    "metadata.recovery.strategy": "none",
    **QUIET,
}
# No answer for so long: the node went while the request was on its way.
REQUEST_S = 2.0


class _Bystander:
    """Repeats `work` until it is stopped."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self._running = self._thread.submit(self._run)

    def work(self) -> None:
        raise AssertionError("say what to do")

    def close(self) -> None:
        """Called in the thread, at the end."""

    def tell_to_stop(self) -> None:
        """Whatever has become of it: as long as its thread runs, the process does."""
        self._stopping.set()

    def stop(self) -> None:
        """Raises what went wrong meanwhile."""
        self.tell_to_stop()
        self._running.result()
        self._thread.shutdown()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.work()
        self.close()


class Reader(_Bystander):
    """Reads everything from the beginning; an offset that is gone when it comes back is an error."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.seen: dict[int, dict[int, bytes]] = {partition: {} for partition in range(partitions)}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bystander",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.error.backoff.ms": 10,
                "fetch.wait.max.ms": 50,
                **PATIENT,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        super().__init__()

    def work(self) -> None:
        for message in self._consumer.consume(1000, 0.05):
            error, partition, offset, value = message.error(), message.partition(), message.offset(), message.value()
            if error is not None:
                # Unreachable for a while is what a power cut looks like from here.
                assert error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT), error
                continue
            assert partition is not None and offset is not None and value is not None
            assert offset == len(self.seen[partition]), (
                f"offset {offset} came after {len(self.seen[partition])} records"
            )
            self.seen[partition][offset] = value

    def close(self) -> None:
        self._consumer.close()


class Committer(_Bystander):
    """Commits 1, 2, 3, … for a group that nobody is a member of."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.tried = 0
        self.acknowledged = 0
        self._topic = topic
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, **PATIENT}
        )
        super().__init__()

    def work(self) -> None:
        # Commits are one sync each; there shall be others too.
        self._stopping.wait(0.01)
        self.tried += 1
        try:
            (row,) = self._consumer.commit(offsets=[TopicPartition(self._topic, 0, self.tried)], asynchronous=False)
        except KafkaException:
            return
        if row.error is None:
            self.acknowledged = self.tried

    def close(self) -> None:
        self._consumer.close()


class Creator(_Bystander):
    """Creates one topic after another, and now and then deletes one."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: set[str] = set()
        self.deleted: set[str] = set()
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **PATIENT})
        self._number = 0
        super().__init__()

    def work(self) -> None:
        # Few, because every one of them makes each start longer.
        self._stopping.wait(0.1)
        self._number += 1
        name = f"topic-{self._number}"
        try:
            self._admin.create_topics([NewTopic(name, 1)], request_timeout=REQUEST_S)[name].result()
            self.acknowledged.add(name)
            if self._number % 2:
                # From here on either answer is right.
                self.acknowledged.discard(name)
                self._admin.delete_topics([name], request_timeout=REQUEST_S)[name].result()
                self.deleted.add(name)
        except KafkaException:
            return
