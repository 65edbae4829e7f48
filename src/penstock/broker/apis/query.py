"""What writes exactly once in batches, as Spark's queries do, asks its coordinator: a transaction per task, and one

commit for all of them. Not in ApiVersions: Kafka's clients have no call for it.
"""

from __future__ import annotations

import struct

from penstock.broker.api import Api, Buffers, Caller
from penstock.errors import Refused
from penstock.later import Later
from penstock.transactions.coordinator import Transactions
from penstock.transactions.core.query_answers import AttemptAnswer, BatchAnswer
from penstock.transactions.core.query_events import AbortBatch, AttemptProducer, CommitBatch, OpenAttempt
from penstock.transactions.core.transaction import Producer
from penstock.wire.malformed import Malformed
from penstock.wire.query_messages import (
    Abort,
    Attempt,
    Commit,
    Open,
    QueryReply,
    QueryRequest,
    decode_request,
    encode_reply,
)
from penstock.wire.schemas import QUERY

_LENGTH_AND_ID = struct.Struct(">ii")


class Query:
    """Deviation: whoever reaches the port may use it, because there is no authentication yet."""

    api = Api(key=QUERY, versions=(0, 0), private=True)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def read(self, frame: memoryview, body_start: int, version: int) -> QueryRequest:
        try:
            return decode_request(frame[body_start:])
        except ValueError as error:
            raise Malformed("query's request", str(error)) from None

    def start(self, request: QueryRequest, caller: Caller) -> Later[QueryReply]:
        match request:
            case Open(query, run, batch_id, timeout_ms, once):
                opening = OpenAttempt(query, run, batch_id, timeout_ms, once)
                return self._transactions.open_attempt(opening).map(_opened)
            case Commit(query, run, batch_id, attempts, once):
                named = tuple(_named(attempt) for attempt in attempts)
                return self._transactions.end_batch(CommitBatch(query, run, batch_id, named, once)).map(_ended)
            case Abort(query, run, batch_id, once):
                return self._transactions.end_batch(AbortBatch(query, run, batch_id, once)).map(_ended)

    def pack(self, response: QueryReply, version: int, correlation_id: int, throttle_ms: int) -> Buffers:
        body = encode_reply(response)
        return [_LENGTH_AND_ID.pack(len(body) + 4, correlation_id), body]


def _named(attempt: Attempt) -> AttemptProducer:
    return AttemptProducer(attempt.transactional_id, Producer(attempt.producer_id, attempt.producer_epoch))


def _opened(answer: AttemptAnswer | Refused) -> QueryReply:
    if answer.problem is not None:
        return QueryReply(answer.problem.name, answer.text)
    if answer.is_committed:
        return QueryReply(is_committed=True)
    return QueryReply(attempt=Attempt(answer.transactional_id, answer.producer.id, answer.producer.epoch))


def _ended(answer: BatchAnswer | Refused) -> QueryReply:
    if answer.problem is not None:
        return QueryReply(answer.problem.name, answer.text)
    return QueryReply(is_committed=answer.is_repeated)
