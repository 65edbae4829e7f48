"""Produce: batches go as they are from the frame to the log.

acks=0 gets no answer, and an error closes the connection, which is the only way to tell; acks=1 is answered when the
leader has written the batch; acks=all when it is committed (docs/ARCHITECTURE.md says what that means).

Versions 0 to 2 carry batches that are not stored here. They are advertised and answered with UNSUPPORTED_VERSION, as
Kafka 4 does: librdkafka takes a missing version 0 as a sign that the broker cannot decompress (KAFKA-18659).

Batches in transactions are in requests that name the transactional id. The first of a transaction for a partition waits
for the coordinator (`replication/verification.py`); from version 12 on that adds the partition to it (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.broker.api import Api, Buffers, Caller, CloseConnection
from penstock.broker.current_leaders import CurrentLeaders
from penstock.broker.error_codes import NONE, code_of
from penstock.clock import Clock
from penstock.cluster.core.image import INTERNAL_TOPICS
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.partition import NEVER_MS, Committed, Partition
from penstock.replication.replicas import Replicas
from penstock.replication.verification import Transaction, Verification
from penstock.replication.waiters import HANDING_OVER
from penstock.storage.log import Appended
from penstock.telemetry.usage import NO_TOPIC, ApiUsage
from penstock.wire.produce import read_produce_request
from penstock.wire.produce_request import OneBatch, ProduceRequest, TopicProduce
from penstock.wire.produce_response import pack_produce_response
from penstock.wire.produced import OneProduced, PartitionProduced, Produced, ProduceResponse, RecordError, TopicProduced
from penstock.wire.tuples import new_tuple

ACKS_ALL: Final = -1
ACKS_NONE: Final = 0
_ACKS = (ACKS_ALL, ACKS_NONE, 1)
_OLDEST_STORED: Final = 3
_FIRST_WITH_ABORTABLE: Final = 11
_FIRST_THAT_ADDS: Final = 12


class TooOld(NamedTuple):
    """A request whose batches nobody can read any more."""

    request: OneBatch | ProduceRequest


class InTransaction(NamedTuple):
    """A request that names a transactional id."""

    request: ProduceRequest
    transaction: Transaction
    # Whether the client knows TRANSACTION_ABORTABLE.
    knows_abortable: bool


class Produce:
    api: ClassVar = Api(key=0, versions=(0, 13), pipelined=True, counts_topics=True)

    def __init__(
        self,
        replicas: Replicas,
        verification: Verification,
        leaders: CurrentLeaders,
        usage: ApiUsage,
        clock: Clock,
    ) -> None:
        self._replicas = replicas
        self._verification = verification
        self._leaders = leaders
        self._usage = usage
        self._series = usage.series
        self._clock = clock

    def read(
        self, frame: memoryview, body_start: int, version: int
    ) -> OneBatch | ProduceRequest | InTransaction | TooOld:
        request = read_produce_request(frame, body_start, version)
        if isinstance(request, OneBatch):
            return request
        if request.transactional_id is not None:
            transaction = Transaction(request.transactional_id, version >= _FIRST_THAT_ADDS)
            return InTransaction(request, transaction, version >= _FIRST_WITH_ABORTABLE)
        return request if version >= _OLDEST_STORED else TooOld(request)

    def pack(self, response: Produced | None, version: int, correlation_id: int, throttle_ms: int) -> Buffers:
        return () if response is None else (pack_produce_response(response, version, correlation_id, throttle_ms),)

    def start(
        self, request: OneBatch | ProduceRequest | InTransaction | TooOld, caller: Caller
    ) -> Produced | Later[Produced | None] | None:
        if isinstance(request, OneBatch):
            if request.acks in _ACKS:
                return self._append_one(request, caller)
            return self._refuse_whole(request, caller, ErrorCode.invalid_required_acks)
        if isinstance(request, TooOld):
            return self._refuse_whole(request.request, caller, ErrorCode.unsupported_version)
        if isinstance(request, InTransaction):
            return self._append_many(request.request, caller, request)
        return self._append_many(request, caller, None)

    def _append_many(
        self, request: ProduceRequest, caller: Caller, transaction: InTransaction | None
    ) -> Produced | Later[Produced | None] | None:
        if request.acks not in _ACKS:
            return self._refuse_whole(request, caller, ErrorCode.invalid_required_acks)
        self._usage.count(caller.tenant, self._only_topic(request), 0, 0, 1)
        deadline_ms = self._deadline_ms(request)
        uncommitted: list[_Uncommitted] = []
        response = ProduceResponse(
            [
                self._append_all(topic, request.acks, deadline_ms, uncommitted, caller, transaction)
                for topic in request.topics
            ]
        )
        answer = self._with_leaders if request.acks != ACKS_NONE else _hang_up_on_error
        return _when_committed(response, uncommitted).map(answer) if uncommitted else answer(response)

    def _deadline_ms(self, request: OneBatch | ProduceRequest) -> int:
        return self._clock.now_ms() + max(0, request.timeout_ms) if request.acks == ACKS_ALL else NEVER_MS

    def _append_one(self, request: OneBatch, caller: Caller) -> Produced | Later[Produced | None] | None:
        acks, _, name, topic_id, index, records = request
        partition = self._find(name, topic_id, index)
        if isinstance(partition, Refused):
            self._usage.count(caller.tenant, NO_TOPIC, 0, 0, 1)
            return self._refused_one(acks, name, topic_id, index, partition)
        result = self._replicas.append(partition, records, caller, for_all=acks == ACKS_ALL)
        if isinstance(result, Refused):
            self._usage.count(caller.tenant, partition.topic, 0, 0, 1)
            if result is not HANDING_OVER:
                return self._refused_one(acks, name, topic_id, index, result)
            over = partition.hand_over.when_over()
            return over.map(lambda refused: self._refused_one(acks, name, topic_id, index, refused or result))
        base_offset, next_offset, append_time_ms, is_duplicate, start_offset = result
        try:
            used = self._series[caller.tenant][partition.topic]
        except KeyError:
            used = self._usage.find(caller.tenant, partition.topic)
        if not is_duplicate:
            used.messages += next_offset - base_offset
            used.size_bytes += len(records)
        used.requests += 1
        produced = new_tuple(OneProduced, (name, topic_id, index, base_offset, append_time_ms, start_offset))
        if acks != ACKS_ALL:
            return None if acks == ACKS_NONE else produced
        committed = partition.when_committed(next_offset, self._deadline_ms(request))
        if committed.done and committed.result() is None:
            return produced
        # Not the request: its bytes are no memory of requests any more, and would stay as long as it waits.
        return committed.map(
            lambda refused: produced if refused is None else self._refused_one(acks, name, topic_id, index, refused)
        )

    def _append_all(
        self,
        topic: TopicProduce,
        acks: int,
        deadline_ms: int,
        uncommitted: list[_Uncommitted],
        caller: Caller,
        transaction: InTransaction | None,
    ) -> TopicProduced:
        rows: list[PartitionProduced] = []
        knows_abortable = transaction is None or transaction.knows_abortable
        for index, records in topic.partitions:
            partition = self._find(topic.name, topic.topic_id, index)
            if isinstance(partition, Refused):
                rows.append(_failed(index, partition))
                continue
            result = self._append(partition, records or _EMPTY, caller, acks, transaction)
            if isinstance(result, Later):
                # Not the request, as above.
                settle = partial(_settled, partition, index, acks, deadline_ms, knows_abortable)
                uncommitted.append(_Uncommitted(result.then(settle), rows, len(rows)))
                rows.append(PartitionProduced(index, NONE))
                continue
            if isinstance(result, Refused):
                rows.append(_failed(index, _in_words_for(knows_abortable, result)))
                if result is HANDING_OVER:
                    uncommitted.append(_Uncommitted(partition.hand_over.when_over(), rows, len(rows) - 1))
                continue
            rows.append(_appended(index, result))
            if acks == ACKS_ALL:
                committed = partition.when_committed(result.next_offset, deadline_ms)
                uncommitted.append(_Uncommitted(committed, rows, len(rows) - 1))
        return TopicProduced(topic.name, topic.topic_id, rows)

    def _append(
        self, partition: Partition, records: memoryview, caller: Caller, acks: int, transaction: InTransaction | None
    ) -> Appended | Refused | Later[Appended | Refused]:
        for_all = acks == ACKS_ALL
        # The tenant as it is now: one connection may speak for several.
        counted = partial(self._counted, caller.tenant, partition.topic, len(records))
        if transaction is None:
            return counted(self._replicas.append(partition, records, caller, for_all=for_all))
        result = self._verification.append(partition, records, caller, transaction.transaction, for_all=for_all)
        return result.map(counted) if isinstance(result, Later) else counted(result)

    def _counted(self, tenant: str, topic: str, size_bytes: int, result: Appended | Refused) -> Appended | Refused:
        """What is in the log counts, and once: not what was refused, nor what was there already."""
        if isinstance(result, Appended) and not result.duplicate:
            self._usage.count(tenant, topic, result.next_offset - result.base_offset, size_bytes, 0)
        return result

    def _only_topic(self, request: ProduceRequest) -> str:
        """A request is counted once, so it goes with a topic only if it has no other."""
        if len(request.topics) != 1 or not request.topics[0].partitions:
            return NO_TOPIC
        (topic,) = request.topics
        partition = self._find(topic.name, topic.topic_id, topic.partitions[0].partition_index)
        return NO_TOPIC if isinstance(partition, Refused) else partition.topic

    def _refuse_whole(self, request: OneBatch | ProduceRequest, caller: Caller, code: ErrorCode) -> ProduceResponse:
        self._usage.count(caller.tenant, NO_TOPIC, 0, 0, 1)
        return _refused_whole(request, code)

    def _refused_one(
        self, acks: int, name: str, topic_id: UUID | None, index: int, refused: Refused
    ) -> ProduceResponse | None:
        response = ProduceResponse([TopicProduced(name, topic_id, [_failed(index, refused)])])
        if acks == ACKS_NONE:
            _hang_up_on_error(response)
            return None
        return self._with_leaders(response)

    def _with_leaders(self, response: ProduceResponse) -> ProduceResponse:
        """For whoever came to the wrong broker, where the right one is."""
        named = []
        for topic in response.topics:
            rows = topic.partitions
            for place, row in enumerate(rows):
                if row.error_code is not NONE:
                    leader = self._leaders.beside(row.error_code, topic.name, topic.topic_id, row.partition_index)
                    if leader is not None and isinstance(rows, list):
                        rows[place] = row._replace(current_leader=leader)
                        named.append(leader)
        return response._replace(node_endpoints=self._leaders.endpoints(named)) if named else response

    def _find(self, name: str, topic_id: UUID | None, index: int) -> Partition | Refused:
        partition = self._replicas.find(name, index) if topic_id is None else self._replicas.find_by_id(topic_id, index)
        if isinstance(partition, Partition) and partition.topic in INTERNAL_TOPICS:
            return Refused(Problem.INVALID_TOPIC_NAME, f"{partition.topic} is internal: only the broker writes to it")
        return partition


_EMPTY: Final = memoryview(b"")


class _Uncommitted(NamedTuple):
    """A row that holds when its batch is committed, and where it is, should it have to change: a row was not known."""

    committed: Later[Committed] | Later[PartitionProduced]
    rows: list[PartitionProduced]
    at: int


def _when_committed(response: ProduceResponse, uncommitted: list[_Uncommitted]) -> Later[ProduceResponse]:
    later: Later[ProduceResponse] = Later()
    waiting = len(uncommitted)

    def settle(row: _Uncommitted, _: object) -> None:
        nonlocal waiting
        outcome = row.committed.result()
        if isinstance(outcome, PartitionProduced):
            row.rows[row.at] = outcome
        elif outcome is not None:
            row.rows[row.at] = _failed(row.rows[row.at].partition_index, outcome)
        waiting -= 1
        if not waiting:
            later.complete(response)

    for each in uncommitted:
        each.committed.when_done(partial(settle, each))
    return later


def _settled(
    partition: Partition,
    index: int,
    acks: int,
    deadline_ms: int,
    knows_abortable: bool,
    result: Appended | Refused,
) -> Later[PartitionProduced]:
    """Of a batch that had to wait before it was appended, or was not."""
    if isinstance(result, Refused):
        return Later.of(_failed(index, _in_words_for(knows_abortable, result)))
    row = _appended(index, result)
    if acks != ACKS_ALL:
        return Later.of(row)
    committed = partition.when_committed(result.next_offset, deadline_ms)
    return committed.map(lambda refused: row if refused is None else _failed(index, refused))


def _appended(index: int, result: Appended) -> PartitionProduced:
    return PartitionProduced(index, NONE, result.base_offset, result.log_append_time_ms, result.start_offset)


def _in_words_for(knows_abortable: bool, refused: Refused) -> Refused:
    if refused.problem is Problem.TRANSACTION_ABORTABLE and not knows_abortable:
        return Refused(Problem.INVALID_TXN_STATE, refused.text)
    return refused


def _hang_up_on_error(response: ProduceResponse) -> None:
    """For acks=0, which gets no other answer."""
    for topic in response.topics:
        for row in topic.partitions:
            if row.error_code is not NONE:
                raise CloseConnection(f"a batch with acks=0 was refused: {row.error_message}")


def _failed(index: int, refused: Refused) -> PartitionProduced:
    errors = (RecordError(0, refused.text),) if refused.problem is Problem.INVALID_RECORD else ()
    return PartitionProduced(index, code_of(refused), record_errors=errors, error_message=refused.text)


def _refused_whole(request: OneBatch | ProduceRequest, code: ErrorCode) -> ProduceResponse:
    if request.acks == ACKS_NONE:
        raise CloseConnection(f"a request with acks=0 was refused: {code.name}")
    return ProduceResponse(
        [
            TopicProduced(
                topic.name, topic.topic_id, [PartitionProduced(row.partition_index, code) for row in topic.partitions]
            )
            for topic in request.topics
        ]
    )
