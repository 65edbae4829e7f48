"""DescribeTransactions: a transactional id without a transaction has no start, which is -1 on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.errors import ErrorCode

from penstock.wire.lifts.lift import Lift


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    error_code: ErrorCode = ErrorCode.none
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout: timedelta = timedelta(0)
    transaction_start_time: datetime | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    topics: tuple[TopicData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    transaction_states: tuple[TransactionState, ...]


LIFT = Lift(api_key=65, response=DescribeTransactionsResponse)
