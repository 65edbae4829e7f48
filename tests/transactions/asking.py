"""Short forms of what clients and leaders ask, for one transactional id."""

from __future__ import annotations

from tests.transactions.runner import Runner

from penstock.errors import Problem
from penstock.transactions.core.answers import AddAnswer, ProducerAnswer, VerifyAnswer
from penstock.transactions.core.events import AddPartitions, EndTransaction, InitProducerId, VerifyPartitions
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.machine import TransactionsMachine
from penstock.transactions.core.transaction import Producer, TopicPartitions

ID = "id"
TIMEOUT_MS = 60_000


def started(limits: TransactionLimits | None = None) -> Runner:
    return Runner(lambda: TransactionsMachine(limits or TransactionLimits()))


def partitions(*numbers: int, topic: str = "orders") -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(topic, numbers),)


def initialise(runner: Runner, had: Producer | None = None, timeout_ms: int = TIMEOUT_MS) -> ProducerAnswer:
    given = had or Producer(-1, -1)
    return runner.ask(InitProducerId(ID, timeout_ms, given.id, given.epoch), ProducerAnswer)


def add(runner: Runner, producer: Producer, *numbers: int, connection: int | None = None) -> Problem | None:
    return runner.ask(AddPartitions(ID, producer, partitions(*numbers), connection), AddAnswer).problem


def verify(runner: Runner, producer: Producer, *numbers: int) -> VerifyAnswer:
    return runner.ask(VerifyPartitions(ID, producer, partitions(*numbers)), VerifyAnswer)


def end(runner: Runner, producer: Producer, *, commit: bool, version: int, connection: int = 0) -> ProducerAnswer:
    return runner.ask(EndTransaction(ID, producer, commit, version, connection), ProducerAnswer)


def producer_of(runner: Runner) -> Producer:
    """Of a client that has just been initialised."""
    answer = initialise(runner)
    assert answer.problem is None
    return answer.producer
