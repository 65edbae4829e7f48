"""Reads inputs and writes outputs, exactly once: python -m tests.cluster.faults.transforming --help

Each transaction holds the outputs of some inputs, spread over all partitions, and the offsets of the inputs. Some are
aborted on purpose and done again. When its producer can do no more (another has its transactional id, or its
transaction took too long) a worker starts anew, as a process would that is started again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.cluster.faults.clients import CLIENT, ClientArguments, parsed_arguments, until_told
from tests.cluster.faults.consuming import generation_of
from tests.cluster.faults.payload import name_of, payload
from tests.cluster.faults.producing import PRODUCER
from tests.cluster.history.events import Acked, CommitBegun, Committed, Read, Sent, TransactionEnded, value_name
from tests.cluster.history.recording import Recorder, now_ns

MOST_INPUTS = 20
COLLECT_S = 0.1
CALL_S = 5.0
# The part of transactions that are aborted on purpose, and of those the part that are when everything is written.
ABORTS, WRITTEN = 0.15, 0.5
# Faults shall meet transactions that are under way.
LONGEST_WAIT_S = 0.4
CLASSIC = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 500}


class LifeOver(Exception):
    """This producer can do no more, and what became of its transaction it does not know."""


class TransformingWorker:
    """One life of it. Nothing rebalances inside a transaction, because only `poll` lets partitions come and go."""

    def __init__(self, arguments: ClientArguments, name: str, recorder: Recorder) -> None:
        self._arguments = arguments
        self._name = name
        self._recorder = recorder
        self._chance = random.Random(name)
        self._transactions = 0
        self._outputs = 0
        self._batch: list[Message] = []
        self._producer = Producer(
            {
                **CLIENT,
                **PRODUCER,
                "bootstrap.servers": arguments.bootstrap,
                "client.id": name,
                "transactional.id": arguments.name,
                "transaction.timeout.ms": arguments.transaction_ms,
                # librdkafka wants it no longer than that.
                "message.timeout.ms": arguments.transaction_ms,
            }
        )
        self._consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": arguments.bootstrap,
                "group.id": arguments.group,
                "client.id": name,
                "group.protocol": arguments.protocol,
                **(CLASSIC if arguments.protocol == "classic" else {}),
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
            }
        )

    def run(self, stopping: threading.Event) -> None:
        try:
            self._insist(lambda: self._producer.init_transactions(CALL_S))
            self._consumer.subscribe([self._arguments.topic], on_revoke=self._lost, on_lost=self._lost)
            while not stopping.is_set():
                self._collect()
                if self._batch:
                    self._transact()
        finally:
            self._consumer.close()

    def _collect(self) -> None:
        self._batch = []
        deadline = time.monotonic() + COLLECT_S
        while len(self._batch) < MOST_INPUTS and (left_s := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(left_s)
            if message is not None and message.error() is None:
                self._batch.append(message)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {row.partition for row in partitions}
        self._batch = [message for message in self._batch if message.partition() not in gone]

    def _transact(self) -> None:
        # A member that was put out of its group without having been told yet: -1 would count as one without a group.
        metadata = self._consumer.consumer_group_metadata()
        if generation_of(self._consumer) < 0:
            return self._rewind()
        transaction = f"{self._name}/{self._transactions}"
        self._transactions += 1
        try:
            self._producer.begin_transaction()
            for message in self._batch:
                self._transform(message, transaction)
            offsets = self._positions()
            self._insist(lambda: self._producer.send_offsets_to_transaction(offsets, metadata, CALL_S))
            time.sleep(self._chance.uniform(0, LONGEST_WAIT_S))
            if self._chance.random() < ABORTS:
                if self._chance.random() < WRITTEN:
                    self._producer.flush(CALL_S)
                return self._abort(transaction)
            self._recorder.record(CommitBegun(at_ns=now_ns(), transaction=transaction))
            self._insist(lambda: self._producer.commit_transaction(CALL_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise LifeOver(str(error)) from error
            return self._abort(transaction)
        self._recorder.record(TransactionEnded(at_ns=now_ns(), transaction=transaction, committed=True))
        group, member = self._arguments.group, self._arguments.name
        for row in offsets:
            where: dict[str, Any] = {"topic": row.topic, "partition": row.partition, "offset": row.offset}
            self._recorder.record(Committed(at_ns=now_ns(), group=group, member=member, **where))
        return None

    def _transform(self, message: Message, transaction: str) -> None:
        source, offset, came_from = name_of(message.value()), message.offset(), message.partition()
        assert offset is not None and came_from is not None
        number = self._outputs
        self._outputs += 1
        partition = number % self._arguments.partitions
        self._recorder.record(
            Read(
                at_ns=now_ns(),
                topic=self._arguments.topic,
                partition=came_from,
                reader=self._name,
                group=self._arguments.group,
                offset=offset,
                value=source,
                committed_only=True,
            ),
            Sent(
                at_ns=now_ns(),
                topic=self._arguments.output,
                partition=partition,
                producer=self._name,
                number=number,
                transaction=transaction,
                source=source,
            ),
        )
        self._producer.produce(
            self._arguments.output,
            payload(value_name(self._name, number)),
            partition=partition,
            on_delivery=partial(self._answered, number, partition),
        )

    def _answered(self, number: int, partition: int, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            where = {"topic": self._arguments.output, "producer": self._name}
            self._recorder.record(Acked(at_ns=now_ns(), partition=partition, number=number, offset=offset, **where))

    def _abort(self, transaction: str) -> None:
        try:
            self._insist(lambda: self._producer.abort_transaction(CALL_S))
        except KafkaException as error:
            raise LifeOver(str(error)) from error
        self._recorder.record(TransactionEnded(at_ns=now_ns(), transaction=transaction, committed=False))
        self._rewind()

    def _rewind(self) -> None:
        """What was taken is taken again, by whoever owns it then: a new owner begins where commits end."""
        firsts: dict[int, int] = {}
        for message in self._batch:
            firsts.setdefault(message.partition() or 0, message.offset() or 0)
        for partition, offset in firsts.items():
            try:
                self._consumer.seek(TopicPartition(self._arguments.topic, partition, offset))
            except KafkaException:
                continue

    def _positions(self) -> list[TopicPartition]:
        lasts = {message.partition() or 0: (message.offset() or 0) + 1 for message in self._batch}
        return [TopicPartition(self._arguments.topic, partition, offset) for partition, offset in lasts.items()]

    def _insist(self, call: Callable[[], object]) -> None:
        """As clients are told to: what can be tried again is."""
        while True:
            try:
                call()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return


class Worker(Protocol):
    def run(self, stopping: threading.Event) -> None: ...


def in_lives(
    arguments: ClientArguments,
    stopping: threading.Event,
    born: Callable[[ClientArguments, str, Recorder], Worker],
) -> None:
    """Every life has a name of its own, and a file: a line that a kill cut off must be the last of one."""
    while not stopping.is_set():
        name = f"{arguments.name}.{now_ns() // 1_000_000}"
        with Recorder(arguments.histories, name) as recorder:
            try:
                born(arguments, name, recorder).run(stopping)
            except (LifeOver, KafkaException) as error:
                print(f"{time.strftime('%H:%M:%S')} {name} starts anew: {error}", flush=True)


if __name__ == "__main__":
    stop = until_told()
    in_lives(parsed_arguments(), stop, TransformingWorker)
