"""AddPartitionsToTxn: partitions that a transaction is about to write to. Up to version 3 its client says so.

From version 4 on the leaders of the partitions ask, before they let the first batch in: for several transactions at
once, and for each whether it has them (`verify_only`) or to have them added (KIP-890).

A client's request on a connection older than the newest that its transactional id was used on may be a late one, of a
transaction that is over. It is not carried out, and the connection is closed.
"""

from __future__ import annotations

from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTransaction
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.errors import ErrorCode

from penstock.broker.api import Api, Caller, CloseConnection
from penstock.broker.error_codes import NONE, code_of, code_or_none
from penstock.cluster.core.image import INTERNAL_TOPICS, Image
from penstock.errors import Problem, Refused
from penstock.groups.coordinator import OFFSETS_TOPIC
from penstock.later import Later, gather
from penstock.transactions.coordinator import Transactions
from penstock.transactions.core.answers import AddAnswer, VerifyAnswer
from penstock.transactions.core.events import AddPartitions, VerifyPartitions
from penstock.transactions.core.transaction import Producer, TopicPartitions
from penstock.wire.lifts.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

OVERTAKEN = "a request came on a connection older than the newest that its transactional id was used on"

Codes = dict[tuple[str, int], ErrorCode]


class AddPartitionsToTxn:
    api = Api(key=24, versions=(0, 5))

    def __init__(self, transactions: Transactions, image: Image) -> None:
        self._transactions = transactions
        self._image = image

    def start(self, request: AddPartitionsToTxnRequest, caller: Caller) -> Later[AddPartitionsToTxnResponse]:
        connection = caller.number if request.by_client else None
        results = [self._add(transaction, connection) for transaction in request.transactions]
        return gather(results).map(lambda rows: AddPartitionsToTxnResponse(results_by_transaction=tuple(rows)))

    def _add(
        self, transaction: AddPartitionsToTxnTransaction, connection: int | None
    ) -> Later[AddPartitionsToTxnResult]:
        wrong = self._wrong(transaction, by_client=connection is not None)
        if wrong:
            return Later.of(_result(transaction, wrong, ErrorCode.operation_not_attempted))
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        topics = tuple(TopicPartitions(topic.name, topic.partitions) for topic in transaction.topics)
        if transaction.verify_only:
            verify = VerifyPartitions(transaction.transactional_id, producer, topics)
            verified = self._transactions.submit(verify, VerifyAnswer)
            return verified.map(lambda answer: _verified(transaction, answer))
        add = AddPartitions(transaction.transactional_id, producer, topics, connection)
        # A broker asks for many at once, and asks again itself.
        added = self._transactions.submit(add, AddAnswer) if connection is None else self._transactions.add(add)
        return added.map(lambda answer: _added(transaction, answer))

    def _wrong(self, transaction: AddPartitionsToTxnTransaction, *, by_client: bool) -> Codes:
        """Partitions that nobody could ever write a marker to."""
        wrong: Codes = {}
        for row in transaction.topics:
            if row.name in INTERNAL_TOPICS and (by_client or row.name != OFFSETS_TOPIC):
                wrong.update(
                    ((row.name, partition), code_of(Problem.INVALID_TOPIC_NAME)) for partition in row.partitions
                )
                continue
            if not by_client:
                # A leader knows what it leads, and this broker may know less.
                continue
            topic = self._image.topic(row.name)
            count = 0 if topic is None else len(topic.partitions)
            for partition in row.partitions:
                if not 0 <= partition < count:
                    wrong[row.name, partition] = ErrorCode.unknown_topic_or_partition
        return wrong


def _added(transaction: AddPartitionsToTxnTransaction, answer: AddAnswer | Refused) -> AddPartitionsToTxnResult:
    if answer.problem is Problem.TRANSACTION_OVERTAKEN:
        raise CloseConnection(OVERTAKEN)
    return _result(transaction, {}, code_or_none(answer.problem))


def _verified(transaction: AddPartitionsToTxnTransaction, answer: VerifyAnswer | Refused) -> AddPartitionsToTxnResult:
    if isinstance(answer, Refused) or answer.problem is not None:
        return _result(transaction, {}, code_or_none(answer.problem))
    absent = {
        (row.topic, partition): ErrorCode.transaction_abortable for row in answer.absent for partition in row.partitions
    }
    return _result(transaction, absent, NONE)


def _result(transaction: AddPartitionsToTxnTransaction, codes: Codes, others: ErrorCode) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=tuple(
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition, partition_error_code=codes.get((topic.name, partition), others)
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in transaction.topics
        ),
    )
