"""A transactional producer that sends what the test wants when it wants it, in either version of transactions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kio.schema.end_txn.v4.request import EndTxnRequest as EndTxn1
from kio.schema.end_txn.v5.request import EndTxnRequest as EndTxn2
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.produce.v11.request import PartitionProduceData as Partition1
from kio.schema.produce.v11.request import ProduceRequest as Produce1
from kio.schema.produce.v11.request import TopicProduceData as Topic1
from kio.schema.produce.v12.request import PartitionProduceData as Partition2
from kio.schema.produce.v12.request import ProduceRequest as Produce2
from kio.schema.produce.v12.request import TopicProduceData as Topic2
from kio.schema.txn_offset_commit.v4.request import TxnOffsetCommitRequest as TxnOffsetCommit1
from kio.schema.txn_offset_commit.v4.request import TxnOffsetCommitRequestPartition as OffsetPartition1
from kio.schema.txn_offset_commit.v4.request import TxnOffsetCommitRequestTopic as OffsetTopic1
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest as TxnOffsetCommit2
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestPartition as OffsetPartition2
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestTopic as OffsetTopic2
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, i8, i16, i32, i64
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection

from penstock.wire.records import Record, build_batch


@dataclass(frozen=True)
class RawProducer:
    """Who the client is; it does not count its sequences."""

    transactional_id: str
    id: int
    epoch: int
    version: int

    def add(self, topic: str, *partitions: int) -> AddPartitionsToTxnRequest:
        row = AddPartitionsToTxnTopic(name=TopicName(topic), partitions=tuple(i32(each) for each in partitions))
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TransactionalId(self.transactional_id),
            v3_and_below_producer_id=ProducerId(self.id),
            v3_and_below_producer_epoch=i16(self.epoch),
            v3_and_below_topics=(row,),
        )

    def produce(self, topic: str, sequence: int, value: bytes, partition: int = 0, *, now_ms: int) -> Any:
        batch = build_batch(
            [Record(0, now_ms, None, value)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        facts: dict[str, Any] = {
            "transactional_id": TransactionalId(self.transactional_id),
            "acks": i16(-1),
            "timeout": requests.timeout(10_000),
        }
        name, records = TopicName(topic), Records.parse(bytes(batch))
        if self.version == 1:
            row = Partition1(index=i32(partition), records=records)
            return Produce1(topic_data=(Topic1(name=name, partition_data=(row,)),), **facts)
        newer = Partition2(index=i32(partition), records=records)
        return Produce2(topic_data=(Topic2(name=name, partition_data=(newer,)),), **facts)

    def add_offsets(self, group: str) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(
            transactional_id=TransactionalId(self.transactional_id),
            producer_id=ProducerId(self.id),
            producer_epoch=i16(self.epoch),
            group_id=GroupId(group),
        )

    def commit_offset(
        self,
        group: str,
        topic: str,
        offset: int,
        *,
        generation: int = -1,
        member: str = "",
        instance: str | None = None,
    ) -> Any:
        """Of partition 0."""
        facts: dict[str, Any] = {
            "transactional_id": TransactionalId(self.transactional_id),
            "group_id": GroupId(group),
            "producer_id": ProducerId(self.id),
            "producer_epoch": i16(self.epoch),
            "generation_id": i32(generation),
            "member_id": member,
            "group_instance_id": instance,
        }
        place: dict[str, Any] = {"partition_index": i32(0), "committed_offset": i64(offset), "committed_metadata": None}
        name = TopicName(topic)
        if self.version == 1:
            rows = (OffsetTopic1(name=name, partitions=(OffsetPartition1(**place),)),)
            return TxnOffsetCommit1(topics=rows, **facts)
        newer = (OffsetTopic2(name=name, partitions=(OffsetPartition2(**place),)),)
        return TxnOffsetCommit2(topics=newer, **facts)

    def end(self, *, commit: bool = True) -> EndTxn1 | EndTxn2:
        return (EndTxn1 if self.version == 1 else EndTxn2)(
            transactional_id=TransactionalId(self.transactional_id),
            producer_id=ProducerId(self.id),
            producer_epoch=i16(self.epoch),
            committed=commit,
        )

    def ended_by(self, answer: Any) -> RawProducer:
        """Who the client is after that answer to EndTxn."""
        assert answer.error_code is ErrorCode.none, answer
        return self if self.version == 1 else replace(self, id=answer.producer_id, epoch=answer.producer_epoch)


def find_coordinator(name: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=i8(1), coordinator_keys=(name,))


def init(name: str, timeout_ms: int = 10_000, producer: RawProducer | None = None) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=TransactionalId(name),
        transaction_timeout=requests.timeout(timeout_ms),
        producer_id=ProducerId(-1 if producer is None else producer.id),
        producer_epoch=i16(-1 if producer is None else producer.epoch),
    )


def initialised(connection: RawConnection, name: str, version: int, timeout_ms: int = 10_000) -> RawProducer:
    """Asks again while the transaction before is being ended."""
    (found,) = connection.ask(find_coordinator(name)).coordinators
    assert found.error_code is ErrorCode.none, found
    retried = (ErrorCode.concurrent_transactions, ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)
    while (answer := connection.ask(init(name, timeout_ms))).error_code in retried:
        pass
    assert answer.error_code is ErrorCode.none, answer
    return RawProducer(name, answer.producer_id, answer.producer_epoch, version)


def code_of(answer: Any) -> ErrorCode:
    """Of the only partition in an answer to Produce or AddPartitionsToTxn."""
    if hasattr(answer, "responses"):
        code: ErrorCode = answer.responses[0].partition_responses[0].error_code
        return code
    added: ErrorCode = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return added
