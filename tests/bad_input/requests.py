"""The few well-formed requests that raw tests need, in versions that every server here speaks."""

from __future__ import annotations

import datetime

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.create_topics.v5.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.fetch.v11.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.metadata.v9.request import MetadataRequest, MetadataRequestTopic
from kio.schema.produce.v8.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64


def timeout(milliseconds: int) -> i32Timedelta:
    return i32Timedelta.parse(datetime.timedelta(milliseconds=milliseconds))


def api_versions() -> ApiVersionsRequest:
    return ApiVersionsRequest()


def metadata(*topics: str, auto_create: bool = False) -> MetadataRequest:
    """All topics if none is named."""
    rows = tuple(MetadataRequestTopic(name=TopicName(topic)) for topic in topics)
    return MetadataRequest(
        topics=rows or None,
        allow_auto_topic_creation=auto_create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def create_topic(name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> CreateTopicsRequest:
    """With as many replicas as topics have there by default."""
    rows = tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items())
    topic = CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(partitions),
        replication_factor=i16(-1),
        assignments=(),
        configs=rows,
    )
    return CreateTopicsRequest(topics=(topic,), timeout=timeout(10_000))


def produce(topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    row = PartitionProduceData(index=i32(partition), records=None if records is None else Records.parse(records))
    return ProduceRequest(
        acks=i16(acks),
        timeout=timeout(10_000),
        topic_data=(TopicProduceData(name=TopicName(topic), partition_data=(row,)),),
    )


def fetch(
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50_000_000,
) -> FetchRequest:
    row = FetchPartition(
        partition=i32(partition),
        fetch_offset=i64(offset),
        partition_max_bytes=i32(max_bytes),
    )
    return FetchRequest(
        replica_id=BrokerId(-1),
        max_wait=timeout(max_wait_ms),
        min_bytes=i32(min_bytes),
        max_bytes=i32(max_bytes),
        isolation_level=i8(0),
        topics=(FetchTopic(topic=TopicName(topic), partitions=(row,)),),
        forgotten_topics_data=(),
    )
