"""DescribeTransactions: how the transactions of some ids stand, as their coordinator knows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.types import TopicName
from kio.static.primitive import i32

from penstock.broker.api import Api, Caller
from penstock.broker.error_codes import NONE, code_or_none
from penstock.errors import Refused
from penstock.later import Later, gather
from penstock.transactions.coordinator import Transactions
from penstock.transactions.core.answers import DescribeAnswer
from penstock.transactions.core.events import DescribeTransaction
from penstock.wire.lifts.describe_transactions import DescribeTransactionsResponse, TransactionState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DescribeTransactions:
    api = Api(key=65, versions=(0, 0))

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def start(self, request: DescribeTransactionsRequest, caller: Caller) -> Later[DescribeTransactionsResponse]:
        rows = [self._described(name) for name in dict.fromkeys(request.transactional_ids)]
        return gather(rows).map(lambda states: DescribeTransactionsResponse(transaction_states=tuple(states)))

    def _described(self, transactional_id: str) -> Later[TransactionState]:
        described = self._transactions.submit(DescribeTransaction(transactional_id), DescribeAnswer)
        return described.map(lambda answer: _row(transactional_id, answer))


def _row(transactional_id: str, answer: DescribeAnswer | Refused) -> TransactionState:
    if isinstance(answer, Refused) or answer.problem is not None:
        return TransactionState(error_code=code_or_none(answer.problem), transactional_id=transactional_id)
    return TransactionState(
        error_code=NONE,
        transactional_id=transactional_id,
        transaction_state=answer.state,
        transaction_timeout=timedelta(milliseconds=answer.timeout_ms),
        transaction_start_time=None if answer.started_ms < 0 else _EPOCH + timedelta(milliseconds=answer.started_ms),
        producer_id=answer.producer.id,
        producer_epoch=answer.producer.epoch,
        topics=tuple(
            TopicData(topic=TopicName(row.topic), partitions=tuple(i32(partition) for partition in row.partitions))
            for row in answer.topics
        ),
    )
