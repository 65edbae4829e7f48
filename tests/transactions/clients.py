"""Clients of a transaction coordinator as they really are: one request at a time, repeated on another connection when

the answer does not come. What they sent first stays on its way, and may arrive at any time. They know what they asked
for and what they were told, and nothing else; a transaction of theirs can be recognised by the name of its topic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.errors import Problem
from penstock.transactions.core.answers import AddAnswer, ProducerAnswer
from penstock.transactions.core.events import AddPartitions, EndTransaction, InitProducerId
from penstock.transactions.core.replies import MachineAnswer
from penstock.transactions.core.transaction import Producer, TopicPartitions

Request = InitProducerId | AddPartitions | EndTransaction
TIMEOUT_MS = 60_000
AGAIN = (Problem.CONCURRENT_TRANSACTIONS, Problem.TRANSACTION_OVERTAKEN)


@dataclass(eq=False)
class Connection:
    """Requests arrive in the order in which they were sent."""

    number: int
    requests: list[Request] = field(default_factory=list)


@dataclass(eq=False)
class Attempt:
    """A transaction, as its client sees it."""

    topic: str
    producer: Producer
    sent: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    asked_to_commit: bool = False
    asked_to_abort: bool = False
    told_commit: bool | None = None


class Client:
    def __init__(self, name: str, transactional_id: str, version: int, connect: Callable[[], Connection]) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self.version = version
        self._connect = connect
        self.connection = connect()
        self.producer: Producer | None = None
        self.attempts: list[Attempt] = []
        self.awaited: Request | None = None
        self.is_fenced = False
        # Something went wrong in this transaction: it may ask to go on with the next epoch.
        self.has_failed = False

    @property
    def is_idle(self) -> bool:
        return self.awaited is None and not self.is_fenced

    @property
    def attempt(self) -> Attempt:
        return self.attempts[-1]

    # What it asks

    def initialise(self, *, goes_on: bool) -> Request:
        had = self.producer if goes_on and self.producer is not None else Producer(-1, -1)
        return self._send(InitProducerId(self.transactional_id, TIMEOUT_MS, had.id, had.epoch))

    def add(self, partition: int) -> Request:
        """In version 2 the leader asks in its place, on a connection of its own."""
        assert self.producer is not None
        self.attempt.sent.add(partition)
        topics = (TopicPartitions(self.attempt.topic, (partition,)),)
        event = AddPartitions(self.transactional_id, self.producer, topics)
        if self.version >= 2:
            self.awaited = event
            return event
        return self._send(replace(event, connection=self.connection.number))

    def end(self, *, commit: bool) -> Request:
        assert self.producer is not None
        if commit:
            self.attempt.asked_to_commit = True
        else:
            self.attempt.asked_to_abort = True
        number = self.connection.number
        return self._send(EndTransaction(self.transactional_id, self.producer, commit, self.version, number))

    def _send(self, request: Request) -> Request:
        self.awaited = request
        self.connection.requests.append(request)
        return request

    def reconnect(self) -> None:
        """It has waited long enough, or was hung up on: the same again, on a new connection."""
        self.has_failed = True
        self.connection = self._connect()
        match self.awaited:
            case AddPartitions(connection=int()) | EndTransaction():
                self._send(replace(self.awaited, connection=self.connection.number))
            case InitProducerId():
                self._send(self.awaited)

    # What it is told

    def hear(self, request: Request, answer: MachineAnswer) -> None:
        """An answer on a connection that it has left does not reach it."""
        if request is not self.awaited:
            return
        assert isinstance(answer, ProducerAnswer | AddAnswer)
        if answer.problem is Problem.TRANSACTION_OVERTAKEN:
            self.reconnect()
            return
        self.awaited = None
        if answer.problem in AGAIN:
            return
        if answer.problem is not None:
            self.is_fenced = True
            return
        match request:
            case InitProducerId():
                assert isinstance(answer, ProducerAnswer)
                self._begin(answer.producer)
            case AddPartitions():
                self.attempt.acknowledged.update(request.topics[0].partitions)
            case EndTransaction():
                assert isinstance(answer, ProducerAnswer)
                self.attempt.told_commit = request.commit
                self._begin(answer.producer if self.version >= 2 else request.producer)

    def _begin(self, producer: Producer) -> None:
        self.producer = producer
        self.has_failed = False
        self.attempts.append(Attempt(f"{self.name}-{len(self.attempts)}", producer))
