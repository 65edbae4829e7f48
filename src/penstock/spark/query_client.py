"""What a query's tasks and its driver ask of the transaction coordinator, until it answers."""

from __future__ import annotations

from contextlib import suppress

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import i16

from penstock.errors import Problem
from penstock.rpc.core.call import private_call
from penstock.spark.cluster import Cluster
from penstock.spark.connection import Connection
from penstock.spark.core.failures import Again, ClientFailure
from penstock.spark.core.query_batch import QueryBatch
from penstock.wire.malformed import Malformed
from penstock.wire.query_ids import attempt_id
from penstock.wire.query_messages import (
    MAX_ATTEMPTS,
    Abort,
    Attempt,
    Commit,
    Open,
    QueryReply,
    QueryRequest,
    decode_reply,
    encode_request,
)
from penstock.wire.schemas import QUERY

_TRANSACTION = 1
# Another broker is the coordinator, or will be, or this one is not ready.
_PASSING = {
    problem.name
    for problem in (
        Problem.COORDINATOR_LOADING,
        Problem.COORDINATOR_NOT_AVAILABLE,
        Problem.NOT_COORDINATOR,
        Problem.NOT_ENOUGH_REPLICAS,
        Problem.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Problem.REQUEST_TIMED_OUT,
    )
}


class QueryRefused(ClientFailure):
    """The coordinator has decided, and will decide the same again."""


class QueryClient:
    """For one thread. Every method raises ClientFailure; what was asked may have happened when it is Unavailable."""

    def __init__(self, cluster: Cluster, client_id: str) -> None:
        self._cluster = cluster
        self._client_id = client_id.encode()

    def open(self, batch: QueryBatch, timeout_ms: int) -> Attempt | None:
        """A transaction for one task to write in; None: the batch is committed, and there is nothing to write."""
        request = Open(batch.query, batch.run, batch.batch_id, timeout_ms, batch.once)
        reply = self._ask(f"opening a transaction for {batch}", batch.query, request)
        return None if reply.is_committed else reply.attempt

    def commit(self, batch: QueryBatch, attempts: tuple[Attempt, ...]) -> bool:
        """False: it was committed before, and this changed nothing."""
        if len(attempts) > MAX_ATTEMPTS:
            text = f"{batch} has {len(attempts)} tasks with rows, and no more than {MAX_ATTEMPTS} can be committed"
            raise QueryRefused(f"{text} together: coalesce it")
        request = Commit(batch.query, batch.run, batch.batch_id, attempts, batch.once)
        return not self._ask(f"committing {batch}", batch.query, request).is_committed

    def abort(self, batch: QueryBatch) -> None:
        self._ask(f"aborting {batch}", batch.query, Abort(batch.query, batch.run, batch.batch_id, batch.once))

    def leave(self, attempt: Attempt) -> None:
        """One task gives up what it wrote. If that fails the transaction is aborted later, with its batch."""
        request = EndTxnRequest(
            transactional_id=TransactionalId(attempt.transactional_id),
            producer_id=ProducerId(attempt.producer_id),
            producer_epoch=i16(attempt.producer_epoch),
            committed=False,
        )
        with suppress(ClientFailure):
            self._cluster.at_coordinator(
                f"aborting {attempt.transactional_id}",
                attempt.transactional_id,
                lambda connection: connection.ask(request, EndTxnResponse),
                _TRANSACTION,
            )

    def _ask(self, what: str, query: str, request: QueryRequest) -> QueryReply:
        body = encode_request(request)

        def ask(connection: Connection) -> QueryReply:
            reply = connection.exchange(private_call(body, _read, QUERY, self._client_id))
            if reply.problem in _PASSING:
                raise Again(f"{connection.address} says: {reply.text or reply.problem}")
            if reply.problem:
                raise QueryRefused(f"{what} was refused: {reply.text or reply.problem} ({reply.problem})")
            return reply

        return self._cluster.at_coordinator(
            f"{what} (exactly-once delivery, which only Penstock has)", attempt_id(query, 0), ask, _TRANSACTION
        )


def _read(data: bytes) -> QueryReply:
    try:
        return decode_reply(data)
    except ValueError as error:
        raise Malformed("query's reply", str(error)) from None
