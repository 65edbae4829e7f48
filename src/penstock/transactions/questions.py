"""What leaders ask the coordinators of transactions, on this broker or on others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32

from penstock.clock import Clock
from penstock.cluster.core.image import Image
from penstock.coordination.paths import NO_LEADER
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.verification import Question
from penstock.rpc.core.call import call_of
from penstock.rpc.core.unanswered import Unanswered
from penstock.rpc.peers import Peers, Purpose
from penstock.transactions.coordinator import TRANSACTIONS_TOPIC, Transactions
from penstock.transactions.core.answers import AddAnswer, VerifyAnswer
from penstock.transactions.core.events import AddPartitions, VerifyPartitions
from penstock.transactions.core.transaction import Producer, TopicPartitions
from penstock.units import SECOND_MS

# Producers wait that long for an answer to their requests, and more.
TIMEOUT_MS = 5 * SECOND_MS
# While the markers of a client's last transaction are being written: it may begin the next one at once (KIP-890). Of a
# coordinator on this broker it is known when they are.
PAUSES_MS = (1, 2, 4, 8, 16, 32, 64)
MOST_PER_REQUEST = 1000

_OFFSETS_TOPIC = "__consumer_offsets"
_NOT_THERE = Refused(Problem.COORDINATOR_NOT_AVAILABLE, "the transaction's coordinator is not known yet")
# What coordinators answer; every other reason is as good as none.
_PROBLEMS = {
    ErrorCode.invalid_request: Problem.INVALID_REQUEST,
    ErrorCode.invalid_producer_id_mapping: Problem.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.producer_fenced: Problem.PRODUCER_FENCED,
    ErrorCode.invalid_producer_epoch: Problem.PRODUCER_FENCED,
    ErrorCode.concurrent_transactions: Problem.CONCURRENT_TRANSACTIONS,
    ErrorCode.transaction_abortable: Problem.TRANSACTION_ABORTABLE,
    ErrorCode.invalid_txn_state: Problem.INVALID_TXN_STATE,
    ErrorCode.not_coordinator: Problem.NOT_COORDINATOR,
}
_TEXTS = {
    Problem.INVALID_PRODUCER_ID_MAPPING: "the transactional id belongs to another producer id, or has expired",
    Problem.PRODUCER_FENCED: "another producer has taken over the transactional id, or the transaction timed out",
    Problem.CONCURRENT_TRANSACTIONS: "the producer's last transaction is still being finished",
    Problem.TRANSACTION_ABORTABLE: "the partition is not in the producer's transaction",
}


@dataclass(eq=False)
class _Asked:
    question: Question
    answer: Later[Problem | None] = field(default_factory=Later)


@dataclass(eq=False)
class _Broker:
    """One request at a time: what comes meanwhile goes together with the next."""

    waiting: list[_Asked] = field(default_factory=list)
    is_asked: bool = False


class Questions:
    def __init__(
        self,
        image: Image,
        transactions: Transactions,
        peers: Peers,
        partition_of_group: Callable[[str], int | None],
        clock: Clock,
    ) -> None:
        """`partition_of_group`: that has the group's offsets."""
        self._image = image
        self._transactions = transactions
        self._peers = peers
        self._partition_of_group = partition_of_group
        self._clock = clock
        self._brokers: dict[int, _Broker] = {}

    def ask(self, question: Question) -> Later[Refused | None]:
        answer: Later[Refused | None] = Later()
        self._attempt(question, answer, PAUSES_MS if question.adds else ())
        return answer

    def of_offsets(
        self, transactional_id: str, producer_id: int, producer_epoch: int, group_id: str, *, adds: bool
    ) -> Later[Refused | None]:
        partition = self._partition_of_group(group_id)
        if partition is None:
            return Later.of(_NOT_THERE)
        return self.ask(Question(transactional_id, producer_id, producer_epoch, _OFFSETS_TOPIC, partition, adds))

    def _attempt(self, question: Question, answer: Later[Refused | None], pauses_ms: tuple[int, ...]) -> None:
        def answered(done: Later[Problem | None]) -> None:
            problem = done.result()
            if problem is Problem.CONCURRENT_TRANSACTIONS and pauses_ms and node_id != self._image.node_id:
                when_ms = self._clock.now_ms() + pauses_ms[0]
                self._clock.call_at(when_ms, lambda: self._attempt(question, answer, pauses_ms[1:]))
            else:
                answer.complete(None if problem is None else Refused(problem, _TEXTS.get(problem, problem.name)))

        node_id = self._coordinator_of(question.transactional_id)
        if node_id == NO_LEADER:
            answer.complete(_NOT_THERE)
            return
        asked = _Asked(question)
        asked.answer.when_done(answered)
        broker = self._brokers.setdefault(node_id, _Broker())
        broker.waiting.append(asked)
        if not broker.is_asked:
            broker.is_asked = True
            # What else this turn of the loop asks goes with it.
            asyncio.get_running_loop().call_soon(self._send, node_id, broker)

    def _coordinator_of(self, transactional_id: str) -> int:
        topic, partition = self._image.topic(TRANSACTIONS_TOPIC), self._transactions.partition_of(transactional_id)
        return NO_LEADER if topic is None or partition is None else topic.partitions[partition].leader

    def _send(self, node_id: int, broker: _Broker) -> None:
        if not broker.waiting:
            broker.is_asked = False
            return
        asked, broker.waiting = broker.waiting[:MOST_PER_REQUEST], broker.waiting[MOST_PER_REQUEST:]
        rows = _by_transaction(asked)
        if node_id == self._image.node_id:
            for row in rows:
                self._ask_here(row)
            self._send(node_id, broker)
            return
        call = call_of(
            AddPartitionsToTxnRequest(transactions=tuple(_wire_row(row) for row in rows)), AddPartitionsToTxnResponse
        )
        answer = self._peers.call(node_id, Purpose.VERIFICATION, call, TIMEOUT_MS)
        answer.when_done(partial(self._answered, node_id, broker, rows))

    def _answered(
        self,
        node_id: int,
        broker: _Broker,
        rows: Sequence[list[_Asked]],
        done: Later[AddPartitionsToTxnResponse | Unanswered],
    ) -> None:
        answer = done.result()
        results = () if isinstance(answer, Unanswered) else answer.results_by_transaction
        for position, row in enumerate(rows):
            codes = {}
            if position < len(results) and results[position].transactional_id == row[0].question.transactional_id:
                codes = {
                    (topic.name, each.partition_index): each.partition_error_code
                    for topic in results[position].topic_results
                    for each in topic.results_by_partition
                }
            for asked in row:
                code = codes.get((TopicName(asked.question.topic), i32(asked.question.partition)))
                asked.answer.complete(_problem_of(code))
        asyncio.get_running_loop().call_soon(self._send, node_id, broker)

    def _ask_here(self, row: list[_Asked]) -> None:
        """All of one producer."""
        name, producer_id, epoch, _, _, adds = row[0].question
        producer, topics = Producer(producer_id, epoch), _topics(row)

        def added(done: Later[AddAnswer | Refused]) -> None:
            for asked in row:
                asked.answer.complete(done.result().problem)

        def verified(done: Later[VerifyAnswer | Refused]) -> None:
            answer = done.result()
            absent = set() if isinstance(answer, Refused) else _places(answer.absent)
            for asked in row:
                is_absent = (asked.question.topic, asked.question.partition) in absent
                asked.answer.complete(Problem.TRANSACTION_ABORTABLE if is_absent else answer.problem)

        if adds:
            self._transactions.add(AddPartitions(name, producer, topics)).when_done(added)
        else:
            self._transactions.submit(VerifyPartitions(name, producer, topics), VerifyAnswer).when_done(verified)


def _problem_of(code: ErrorCode | None) -> Problem | None:
    if code is ErrorCode.none:
        return None
    return Problem.COORDINATOR_NOT_AVAILABLE if code is None else _PROBLEMS.get(code, Problem.COORDINATOR_NOT_AVAILABLE)


def _by_transaction(asked: Sequence[_Asked]) -> list[list[_Asked]]:
    rows: dict[tuple[str, int, int, bool], list[_Asked]] = {}
    for each in asked:
        question = each.question
        key = (question.transactional_id, question.producer_id, question.producer_epoch, question.adds)
        rows.setdefault(key, []).append(each)
    return list(rows.values())


def _topics(row: Sequence[_Asked]) -> tuple[TopicPartitions, ...]:
    topics: dict[str, set[int]] = {}
    for each in row:
        topics.setdefault(each.question.topic, set()).add(each.question.partition)
    return tuple(TopicPartitions(topic, tuple(sorted(partitions))) for topic, partitions in topics.items())


def _places(topics: Sequence[TopicPartitions]) -> set[tuple[str, int]]:
    return {(row.topic, partition) for row in topics for partition in row.partitions}


def _wire_row(row: Sequence[_Asked]) -> AddPartitionsToTxnTransaction:
    question = row[0].question
    return AddPartitionsToTxnTransaction(
        transactional_id=TransactionalId(question.transactional_id),
        producer_id=ProducerId(question.producer_id),
        producer_epoch=i16(question.producer_epoch),
        verify_only=not question.adds,
        topics=tuple(
            AddPartitionsToTxnTopic(
                name=TopicName(topic.topic), partitions=tuple(i32(partition) for partition in topic.partitions)
            )
            for topic in _topics(row)
        ),
    )
