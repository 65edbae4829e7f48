"""DescribeProducers: who writes to a partition with sequence numbers, as its leader remembers."""

from __future__ import annotations

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kio.schema.types import ProducerId, TopicName
from kio.static.primitive import i32, i64

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.errors import Refused
from penstock.replication.replicas import Replicas


class DescribeProducers:
    api = Api(key=61, versions=(0, 0))

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def start(self, request: DescribeProducersRequest, caller: Caller) -> DescribeProducersResponse:
        # Each once, however often it is asked for: a partition may have thousands of producers.
        wanted: dict[TopicName, dict[i32, None]] = {}
        for topic in request.topics:
            wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        return DescribeProducersResponse(
            throttle_time=NO_THROTTLE,
            topics=tuple(
                TopicResponse(
                    name=name,
                    partitions=tuple(self._partition(name, index) for index in indexes),
                )
                for name, indexes in wanted.items()
            ),
        )

    def _partition(self, topic: str, index: i32) -> PartitionResponse:
        partition = self._replicas.leader(topic, index)
        if isinstance(partition, Refused):
            return PartitionResponse(
                partition_index=index,
                error_code=code_of(partition),
                error_message=partition.text,
                active_producers=(),
            )
        return PartitionResponse(
            partition_index=index,
            error_code=NONE,
            active_producers=tuple(
                ProducerState(
                    producer_id=ProducerId(entry.producer_id),
                    producer_epoch=i32(entry.epoch),
                    last_sequence=i32(entry.last_sequence),
                    last_timestamp=i64(entry.last_timestamp_ms),
                    coordinator_epoch=i32(entry.coordinator_epoch),
                    current_txn_start_offset=i64(entry.transaction_start),
                )
                for entry in partition.log.producers()
            ),
        )
