"""ElectLeaders (KIP-460): the preferred leaders, or any live replica where no other is left."""

from __future__ import annotations

from itertools import groupby

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.cluster.core.effects import Row
from penstock.cluster.core.view import PartitionKey
from penstock.cluster.operations import Operations, Rows
from penstock.errors import Refused
from penstock.later import Later

_PREFERRED, _UNCLEAN = 0, 1


class ElectLeaders:
    """Null for topics means all that need it; only those are in the answer then."""

    api = Api(key=43, versions=(0, 2), on_controller=True)

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def start(self, request: ElectLeadersRequest, caller: Caller) -> ElectLeadersResponse | Later[ElectLeadersResponse]:
        if request.election_type not in (_PREFERRED, _UNCLEAN):
            return _response(ErrorCode.invalid_request, ())
        keys = None
        if request.topic_partitions is not None:
            rows = request.topic_partitions
            keys = [PartitionKey(row.topic, int(number)) for row in rows for number in row.partitions]
        return self._operations.elect(keys, request.election_type == _UNCLEAN).map(_answer)


def _answer(rows: Rows | Refused) -> ElectLeadersResponse:
    if isinstance(rows, Refused):
        return _response(code_of(rows), ())
    found = [(row.key, row) for row in rows if row.key is not None]
    return _response(
        NONE,
        tuple(
            ReplicaElectionResult(
                topic=TopicName(topic), partition_result=tuple(_row(key, row) for key, row in of_topic)
            )
            for topic, of_topic in groupby(found, key=lambda each: each[0].topic)
        ),
    )


def _row(key: PartitionKey, row: Row) -> PartitionResult:
    refused = row.refusal
    return PartitionResult(
        partition_id=i32(key.partition),
        error_code=NONE if refused is None else code_of(refused),
        error_message=None if refused is None else refused.text,
    )


def _response(code: ErrorCode, results: tuple[ReplicaElectionResult, ...]) -> ElectLeadersResponse:
    return ElectLeadersResponse(throttle_time=NO_THROTTLE, error_code=code, replica_election_results=results)
