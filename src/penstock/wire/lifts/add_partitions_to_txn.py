"""AddPartitionsToTxn: up to version 3 one transaction, of the client that asks; then several, for brokers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest as SingleRequest
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult
from kio.schema.errors import ErrorCode

from penstock.wire.lifts.lift import Lift
from penstock.wire.lifts.transaction_errors import as_known

_FIRST_WITH_FENCED = 2
_FIRST_WITH_ABORTABLE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    transactions: tuple[AddPartitionsToTxnTransaction, ...]
    # Else it comes from the leader of partitions.
    by_client: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """Without the error of the whole that version 4 added: older clients take an answer without rows for a yes."""

    results_by_transaction: tuple[AddPartitionsToTxnResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SingleResponse:
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...]


def _lift(request: SingleRequest) -> AddPartitionsToTxnRequest:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=tuple(
            AddPartitionsToTxnTopic(name=topic.name, partitions=topic.partitions)
            for topic in request.v3_and_below_topics
        ),
    )
    return AddPartitionsToTxnRequest(transactions=(transaction,), by_client=True)


def _lower(response: AddPartitionsToTxnResponse) -> _SingleResponse:
    (result,) = response.results_by_transaction
    return _SingleResponse(results_by_topic_v3_and_below=result.topic_results)


def _adjust(response: AddPartitionsToTxnResponse, version: int) -> AddPartitionsToTxnResponse:
    if version >= _FIRST_WITH_ABORTABLE:
        return response
    return replace(
        response,
        results_by_transaction=tuple(_with_older_errors(result, version) for result in response.results_by_transaction),
    )


def _with_older_errors(result: AddPartitionsToTxnResult, version: int) -> AddPartitionsToTxnResult:
    def known(code: ErrorCode) -> ErrorCode:
        return as_known(code, version, first_with_fenced=_FIRST_WITH_FENCED, first_with_abortable=_FIRST_WITH_ABORTABLE)

    topics = [
        replace(
            topic,
            results_by_partition=tuple(
                replace(row, partition_error_code=known(row.partition_error_code)) for row in topic.results_by_partition
            ),
        )
        for topic in result.topic_results
    ]
    return replace(result, topic_results=tuple(topics))


LIFT = Lift(
    api_key=24,
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
    pivot=3,
    lift_pivot=_lift,
    lower_pivot=_lower,
    adjust_response=_adjust,
)
