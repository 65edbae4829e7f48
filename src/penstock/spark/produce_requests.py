"""Produce: batches of several partitions to the broker that leads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, cast

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.produce.v9 import request as v9_request
from kio.schema.produce.v9 import response as v9_response
from kio.schema.produce.v12 import request as v12_request
from kio.schema.produce.v12 import response as v12_response
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, i16, i32, i32Timedelta

from penstock.rpc.core.call import Call
from penstock.spark.connection import Connection
from penstock.spark.core.topic_partition import TopicPartition
from penstock.spark.offset_requests import check
from penstock.wire.batch import MAX_SEQUENCE

_SECOND = timedelta(seconds=1)


class Identity(NamedTuple):
    """Who writes: -1 as an id is nobody in particular, and what is sent twice may be there twice."""

    producer_id: int = -1
    producer_epoch: int = -1
    transactional_id: str | None = None


@dataclass(eq=False, slots=True)
class Outgoing:
    """A batch on its way. It keeps its sequence, however often it is sent."""

    partition: TopicPartition
    data: bytearray
    record_count: int
    sequence: int

    @property
    def next_sequence(self) -> int:
        return (self.sequence + self.record_count) & MAX_SEQUENCE


class Outcome(NamedTuple):
    code: ErrorCode
    text: str


def producer_identity(connection: Connection) -> Identity:
    """Of an idempotent producer."""
    request = InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout=i32Timedelta.parse(60 * _SECOND),
        producer_id=ProducerId(-1),
        producer_epoch=i16(-1),
    )
    answer = connection.ask(request, InitProducerIdResponse)
    check(answer.error_code, "a producer id", connection)
    return Identity(answer.producer_id, answer.producer_epoch)


def produce_call(
    connection: Connection, identity: Identity, acks: int, timeout_ms: int, batches: Sequence[Outgoing]
) -> Call[Any]:
    """At most one batch of each partition. In a transaction the leaders have their partitions added to it (KIP-890)."""
    newest = identity.transactional_id is not None or connection.speaks(v12_request.ProduceRequest)
    # What they are made of is the same in both.
    form: Any = v12_request if newest else v9_request
    answer: Any = v12_response if newest else v9_response
    rows: dict[str, list[Any]] = {}
    for batch in batches:
        row = form.PartitionProduceData(index=i32(batch.partition.partition), records=cast(Records, batch.data))
        rows.setdefault(batch.partition.topic, []).append(row)
    transactional_id = identity.transactional_id
    request = form.ProduceRequest(
        transactional_id=None if transactional_id is None else TransactionalId(transactional_id),
        acks=i16(acks),
        timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms)),
        topic_data=tuple(
            form.TopicProduceData(name=TopicName(topic), partition_data=tuple(partitions))
            for topic, partitions in rows.items()
        ),
    )
    return connection.call(request, answer.ProduceResponse)


def outcomes_of(answer: Any) -> dict[TopicPartition, Outcome]:
    return {
        TopicPartition(str(topic.name), row.index): Outcome(row.error_code, row.error_message or "")
        for topic in answer.responses
        for row in topic.partition_responses
    }
