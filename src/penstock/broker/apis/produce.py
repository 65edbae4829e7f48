"""Produce: batches go as they are from the frame to the log.

acks=0 gets no answer, and an error closes the connection, which is the only way to tell; acks=1 is answered when the
leader has written the batch; acks=all when it is committed (docs/ARCHITECTURE.md says what that means).

Versions 0 to 2 carry batches that are not stored here. They are advertised and answered with UNSUPPORTED_VERSION, as
Kafka 4 does: librdkafka takes a missing version 0 as a sign that the broker cannot decompress (KAFKA-18659).
"""

from __future__ import annotations

from typing import NamedTuple

from kio.schema.errors import ErrorCode

from penstock.broker.api import Api, Buffers, Caller, CloseConnection
from penstock.broker.error_codes import NONE, code_of
from penstock.clock import Clock
from penstock.cluster.core.image import INTERNAL_TOPICS
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.partition import Committed, Partition
from penstock.replication.replicas import Replicas
from penstock.storage.log import Appended
from penstock.wire.produce import (
    PartitionProduce,
    PartitionProduced,
    ProduceRequest,
    ProduceResponse,
    RecordError,
    TopicProduce,
    TopicProduced,
    pack_produce_response,
    read_produce_request,
)

ACKS_ALL = -1
ACKS_NONE = 0
_OLDEST_STORED = 3


class TooOld(NamedTuple):
    """A request whose batches nobody can read any more."""

    request: ProduceRequest


class Produce:
    api = Api(key=0, versions=(0, 13), pipelined=True)

    def __init__(self, replicas: Replicas, clock: Clock) -> None:
        self._replicas = replicas
        self._clock = clock

    def read(self, frame: memoryview, body_start: int, version: int) -> ProduceRequest | TooOld:
        request = read_produce_request(frame, body_start, version)
        return request if version >= _OLDEST_STORED else TooOld(request)

    def pack(self, response: ProduceResponse | None, version: int, correlation_id: int, throttle_ms: int) -> Buffers:
        return () if response is None else (pack_produce_response(response, version, correlation_id, throttle_ms),)

    def start(
        self, request: ProduceRequest | TooOld, caller: Caller
    ) -> ProduceResponse | Later[ProduceResponse | None] | None:
        if isinstance(request, TooOld):
            return _refused_whole(request.request, ErrorCode.unsupported_version)
        if request.acks not in (ACKS_ALL, ACKS_NONE, 1):
            return _refused_whole(request, ErrorCode.invalid_required_acks)
        if request.transactional_id is not None:
            return _refused_whole(request, ErrorCode.transactional_id_authorization_failed)
        answer = _Answer(request)
        deadline_ms = self._clock.now_ms() + max(0, request.timeout_ms)
        for topic in request.topics:
            for row in topic.partitions:
                self._append(topic, row, answer, deadline_ms)
        return answer.finish()

    def _append(self, topic: TopicProduce, row: PartitionProduce, answer: _Answer, deadline_ms: int) -> None:
        partition = self._find(topic, row.partition_index)
        result = (
            partition if isinstance(partition, Refused) else self._replicas.append(partition, row.records or _EMPTY)
        )
        place = answer.place(topic, row.partition_index, result)
        if answer.acks == ACKS_ALL and isinstance(result, Appended) and isinstance(partition, Partition):
            committed = partition.when_committed(result.next_offset, deadline_ms)
            if not committed.done:
                answer.wait_for(committed, place)
            elif (refused := committed.result()) is not None:
                answer.refuse(place, refused)

    def _find(self, topic: TopicProduce, index: int) -> Partition | Refused:
        partition = (
            self._replicas.find(topic.name, index)
            if topic.topic_id is None
            else self._replicas.find_by_id(topic.topic_id, index)
        )
        if isinstance(partition, Partition) and partition.topic in INTERNAL_TOPICS:
            return Refused(Problem.INVALID_TOPIC_NAME, f"{partition.topic} is internal: only the broker writes to it")
        return partition


_EMPTY = memoryview(b"")


class _Answer:
    """One request's rows, and how many of them still wait for their commit."""

    def __init__(self, request: ProduceRequest) -> None:
        self.acks = request.acks
        self._topics: list[TopicProduced] = []
        self._waiting = 0
        self._later: Later[ProduceResponse | None] | None = None

    def place(self, topic: TopicProduce, index: int, result: Appended | Refused) -> tuple[list[PartitionProduced], int]:
        """Adds the row; returns where it is, should it have to change."""
        if not self._topics or self._topics[-1].name != topic.name or self._topics[-1].topic_id != topic.topic_id:
            self._topics.append(TopicProduced(topic.name, topic.topic_id, []))
        rows = self._topics[-1].partitions
        assert isinstance(rows, list)
        rows.append(_failed(index, result) if isinstance(result, Refused) else _appended(index, result))
        return rows, len(rows) - 1

    def wait_for(self, committed: Later[Committed], place: tuple[list[PartitionProduced], int]) -> None:
        self._waiting += 1
        committed.when_done(lambda done: self._committed(done, place))

    def refuse(self, place: tuple[list[PartitionProduced], int], refused: Refused) -> None:
        rows, at = place
        rows[at] = _failed(rows[at].partition_index, refused)

    def _committed(self, done: Later[Committed], place: tuple[list[PartitionProduced], int]) -> None:
        if (refused := done.result()) is not None:
            self.refuse(place, refused)
        self._waiting -= 1
        if not self._waiting and self._later is not None:
            self._later.complete(ProduceResponse(self._topics))

    def finish(self) -> ProduceResponse | Later[ProduceResponse | None] | None:
        if self.acks == ACKS_NONE:
            for topic in self._topics:
                for row in topic.partitions:
                    if row.error_code is not NONE:
                        raise CloseConnection(f"a batch with acks=0 was refused: {row.error_message}")
            return None
        if not self._waiting:
            return ProduceResponse(self._topics)
        self._later = Later()
        return self._later


def _appended(index: int, appended: Appended) -> PartitionProduced:
    return PartitionProduced(index, NONE, appended.base_offset, appended.log_append_time_ms, appended.start_offset)


def _failed(index: int, refused: Refused) -> PartitionProduced:
    errors = (RecordError(0, refused.text),) if refused.problem is Problem.INVALID_RECORD else ()
    return PartitionProduced(index, code_of(refused), record_errors=errors, error_message=refused.text)


def _refused_whole(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
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
