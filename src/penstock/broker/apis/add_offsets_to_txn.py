"""AddOffsetsToTxn: the transaction is about to commit offsets of a group, so that group's partition gets its marker."""

from __future__ import annotations

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse

from penstock.broker.api import NO_THROTTLE, Api, Caller, CloseConnection
from penstock.broker.apis.add_partitions_to_txn import OVERTAKEN
from penstock.broker.error_codes import code_or_none
from penstock.errors import Problem, Refused
from penstock.groups.coordinator import OFFSETS_TOPIC, Groups
from penstock.groups.core.limits import MAX_GROUP_ID_CHARACTERS
from penstock.later import Later, awaiting
from penstock.transactions.coordinator import Transactions
from penstock.transactions.core.answers import AddAnswer
from penstock.transactions.core.events import AddPartitions
from penstock.transactions.core.transaction import Producer, TopicPartitions


class AddOffsetsToTxn:
    api = Api(key=25, versions=(0, 4))

    def __init__(self, transactions: Transactions, groups: Groups, offsets_partition_count: int) -> None:
        self._transactions = transactions
        self._groups = groups
        self._offsets_partition_count = offsets_partition_count

    def start(self, request: AddOffsetsToTxnRequest, caller: Caller) -> Later[AddOffsetsToTxnResponse]:
        if not 0 < len(request.group_id) <= MAX_GROUP_ID_CHARACTERS:
            return Later.of(_response(Problem.INVALID_GROUP_ID))
        partition = self._groups.partition_of(request.group_id)
        if partition is None:
            return awaiting(self._add_first(request, caller.number))
        return self._add(request, partition, caller.number)

    async def _add_first(self, request: AddOffsetsToTxnRequest, connection: int) -> AddOffsetsToTxnResponse:
        """Before any group has been looked for."""
        refused = await self._groups.ensure_topic(self._offsets_partition_count)
        partition = self._groups.partition_of(request.group_id)
        if refused is not None or partition is None:
            return _response(Problem.COORDINATOR_NOT_AVAILABLE)
        return await self._add(request, partition, connection).wait()

    def _add(self, request: AddOffsetsToTxnRequest, partition: int, connection: int) -> Later[AddOffsetsToTxnResponse]:
        event = AddPartitions(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            (TopicPartitions(OFFSETS_TOPIC, (partition,)),),
            connection,
        )
        return self._transactions.add(event).map(_added)


def _added(answer: AddAnswer | Refused) -> AddOffsetsToTxnResponse:
    if answer.problem is Problem.TRANSACTION_OVERTAKEN:
        raise CloseConnection(OVERTAKEN)
    return _response(answer.problem)


def _response(problem: Problem | None) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(throttle_time=NO_THROTTLE, error_code=code_or_none(problem))
