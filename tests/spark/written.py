"""Topics and records for readers, written by a client that is not ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

import confluent_kafka
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.config.address import Address
from penstock.spark.cluster import EARLIEST, LATEST, Cluster
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.topic_partition import TopicPartition

Rows = list[dict[str, Any]]


def settings_for(bootstrap: str, **more: Any) -> ClientSettings:
    return ClientSettings((Address.parse(bootstrap),), **{"patience_ms": 20_000, **more})


def new_topic(
    bootstrap: str, partitions: int = 1, name: str | None = None, config: dict[str, str] | None = None
) -> str:
    name = name or f"spark-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, config=config or {})])[name].result()
    return name


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([name])[name].result()


def cut(bootstrap: str, topic: str, offset: int) -> None:
    """The log begins there from now on."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([confluent_kafka.TopicPartition(topic, 0, offset)]).values():
        done.result()


def producer(bootstrap: str, **more: Any) -> Producer:
    return Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 1, **{key.replace("_", "."): more[key] for key in more}}
    )


def produce(client: Producer, topic: str, values: Iterable[bytes | None], partition: int = 0, **more: Any) -> None:
    for value in values:
        client.produce(topic, value, partition=partition, **more)
    assert client.flush(20) == 0


def whole(cluster: Cluster, topic: str, partition: int = 0, *, read_committed: bool = False) -> OffsetRange:
    """All that there is now."""
    (found,) = cluster.topics([topic])
    where = TopicPartition(topic, partition)
    start = cluster.offsets({where: EARLIEST})[where]
    end = cluster.offsets({where: LATEST}, read_committed=read_committed)[where]
    assert start is not None
    assert end is not None
    return OffsetRange(topic, found.topic_id, partition, start.offset, end.offset, end.leader_epoch)


def header_pairs(headers: Mapping[str, bytes]) -> Rows:
    return [{"key": key, "value": value} for key, value in headers.items()]
